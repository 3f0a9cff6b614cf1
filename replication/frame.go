package replication

import "encoding/binary"

// The bytes of the stream (RocketMQ: DefaultHAConnection, DefaultHAClient). All
// numbers are big-endian.
//
//	slave -> master, repeated:  | end of its log, i64 |
//	master -> slave, repeated:  | position i64 | size i32 | size bytes of the log |
//
// Size 0 is a heartbeat; its position is that of the next byte. The first report
// says where the stream begins; all later ones acknowledge. 0 says "I have
// nothing", -1 "not yet". A frame never holds bytes of two segments; it may begin
// and end inside a record.
const (
	reportSize = 8
	headerSize = 12

	// maxApacheBody is the largest body that fits an Apache slave's read buffer of
	// 4 MiB together with its header. It never gets through a larger one.
	maxApacheBody = 4<<20 - headerSize
	// maxOurBody is the largest body between nodes of ours.
	maxOurBody = 2 << 20
	// maxBody is what a slave takes from anybody.
	maxBody = 4 << 20
)

func putHeader(b []byte, pos int64, size int) {
	binary.BigEndian.PutUint64(b, uint64(pos))
	binary.BigEndian.PutUint32(b[8:], uint32(size))
}

func parseHeader(b []byte) (pos int64, size int) {
	return int64(binary.BigEndian.Uint64(b)), int(int32(binary.BigEndian.Uint32(b[8:])))
}

func putReport(b []byte, end int64) { binary.BigEndian.PutUint64(b, uint64(end)) }

func parseReport(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
