package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"net/netip"
	"slices"
)

// PhysOffset is a byte position in the whole commit log.
type PhysOffset int64

// QueueOffset counts messages in one consume queue.
type QueueOffset int64

// Magic numbers and limits of a record (MessageDecoder, CommitLog).
const (
	MagicV1          = -626843481
	MagicV2          = -626843477
	MagicBlank       = -875286124 // closes a segment, see AppendBlank
	MaxPropertyBytes = 32767
	PropertySep      = 0x01 // between name and value
	PropertyEnd      = 0x02 // after a value

	// MaxTopicBytesV1 is the longest topic with a one-byte length; a longer
	// one makes a record of version 2.
	MaxTopicBytesV1 = 127
	// MaxTopicBytes is what the two-byte length of version 2 can say.
	MaxTopicBytes = math.MaxInt16
	// MinSize is the smallest record: IPv4 hosts, nothing of variable length.
	MinSize = 91
	// BlankSize is what must stay free behind every record of a segment.
	BlankSize = 8
)

// Positions of fields that come before the hosts.
const (
	magicAt       = 4
	crcAt         = 8
	queueIDAt     = 12
	flagAt        = 16
	queueOffsetAt = 20
	physOffsetAt  = 28
	sysFlagAt     = 36
	bornMillisAt  = 40
	bornHostAt    = 48
)

// sysFlag bits (MessageSysFlag).
const (
	FlagCompressed  = 0x1
	FlagMultiTags   = 0x2
	FlagTransaction = 0xC // mask
	FlagPrepared    = 0x4
	FlagCommit      = 0x8
	FlagRollback    = 0xC
	FlagBornV6      = 0x10
	FlagStoreV6     = 0x20
	FlagUnwrap      = 0x40
	FlagInnerBatch  = 0x80

	FlagCompressionType = 0x700 // mask; 0 and zlib mean a zlib stream
	FlagLZ4             = 0x100
	FlagZstd            = 0x200
	FlagZlib            = 0x300
)

// What is wrong with a message or the bytes of a record. They are plain
// values so that a scan over garbage allocates nothing.
var (
	ErrTopicLength      = errors.New("topic is longer than 32767 bytes")
	ErrPropertiesLength = errors.New("properties are longer than 32767 bytes")
	ErrBodyLength       = errors.New("message is longer than 2 GiB")
	ErrTruncated        = errors.New("record is longer than the bytes that are there")
	ErrMagic            = errors.New("record has an unknown magic number")
	ErrBlank            = errors.New("blank record: the rest of the segment is empty")
	ErrLengths          = errors.New("record lengths contradict each other")
	ErrBodyCRC          = errors.New("body does not match its checksum")
)

// Draft is a message about to be stored: everything but what the append gives
// it (queue offset, physical offset, store time). Byte slices are borrowed
// during the call only.
type Draft struct {
	Topic          []byte
	QueueID        int32
	Flag           int32
	SysFlag        int32 // the v6 bits are set by AppendDraft from the hosts
	BornMillis     int64
	BornHost       netip.AddrPort // an invalid address is stored as 0.0.0.0
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset PhysOffset
	Body           []byte
	Properties     []byte // encoded text, stored as given
}

func isV6(a netip.AddrPort) bool { return a.Addr().Is6() && !a.Addr().Is4In6() }

func hostSize(sysFlag, bit int32) int {
	if sysFlag&bit != 0 {
		return 20
	}
	return 8
}

// flags returns the draft's sysFlag with the bits of its address families.
func (d *Draft) flags() int32 {
	f := d.SysFlag &^ (FlagBornV6 | FlagStoreV6)
	if isV6(d.BornHost) {
		f |= FlagBornV6
	}
	if isV6(d.StoreHost) {
		f |= FlagStoreV6
	}
	return f
}

// Size is the length of the record that AppendDraft will make, in bytes.
func (d *Draft) Size() int { return d.size(d.flags()) }

func (d *Draft) size(flags int32) int {
	n := MinSize - 16 + hostSize(flags, FlagBornV6) + hostSize(flags, FlagStoreV6) +
		len(d.Body) + len(d.Topic) + len(d.Properties)
	if len(d.Topic) > MaxTopicBytesV1 {
		n++
	}
	return n
}

// AppendDraft appends the whole record to dst with queue offset, physical
// offset and store time zero (patched later by Patch). Errors: ErrTopicLength,
// ErrPropertiesLength, ErrBodyLength; dst is then returned unchanged.
func AppendDraft(dst []byte, d *Draft) ([]byte, error) {
	switch {
	case len(d.Topic) > MaxTopicBytes:
		return dst, ErrTopicLength
	case len(d.Properties) > MaxPropertyBytes:
		return dst, ErrPropertiesLength
	case len(d.Body) > math.MaxInt32-1<<17:
		return dst, ErrBodyLength
	}
	flags := d.flags()
	size := d.size(flags)
	start := len(dst)
	dst = slices.Grow(dst, size)[:start+size]
	b := dst[start:]
	be := binary.BigEndian
	magic := int32(MagicV1)
	if len(d.Topic) > MaxTopicBytesV1 {
		magic = MagicV2
	}
	be.PutUint32(b, uint32(size))
	be.PutUint32(b[magicAt:], uint32(magic))
	be.PutUint32(b[crcAt:], CRC31(d.Body))
	be.PutUint32(b[queueIDAt:], uint32(d.QueueID))
	be.PutUint32(b[flagAt:], uint32(d.Flag))
	be.PutUint64(b[queueOffsetAt:], 0)
	be.PutUint64(b[physOffsetAt:], 0)
	be.PutUint32(b[sysFlagAt:], uint32(flags))
	be.PutUint64(b[bornMillisAt:], uint64(d.BornMillis))
	at := bornHostAt + putHost(b[bornHostAt:], d.BornHost)
	be.PutUint64(b[at:], 0)
	at += 8
	at += putHost(b[at:], d.StoreHost)
	be.PutUint32(b[at:], uint32(d.ReconsumeTimes))
	be.PutUint64(b[at+4:], uint64(d.PreparedOffset))
	be.PutUint32(b[at+12:], uint32(len(d.Body)))
	at += 16
	at += copy(b[at:], d.Body)
	if magic == MagicV2 {
		be.PutUint16(b[at:], uint16(len(d.Topic)))
		at += 2
	} else {
		b[at] = byte(len(d.Topic))
		at++
	}
	at += copy(b[at:], d.Topic)
	be.PutUint16(b[at:], uint16(len(d.Properties)))
	copy(b[at+2:], d.Properties)
	return dst, nil
}

// putHost writes address and port and returns their length.
func putHost(b []byte, h netip.AddrPort) int {
	n := 4
	if isV6(h) {
		a := h.Addr().As16()
		n = copy(b, a[:])
	} else {
		var a [4]byte
		if h.Addr().IsValid() {
			a = h.Addr().Unmap().As4()
		}
		copy(b, a[:])
	}
	binary.BigEndian.PutUint32(b[n:], uint32(h.Port()))
	return n + 4
}

// Patch sets the three late fields of an encoded record in place.
func Patch(rec []byte, q QueueOffset, p PhysOffset, storeMillis int64) {
	be := binary.BigEndian
	be.PutUint64(rec[queueOffsetAt:], uint64(q))
	be.PutUint64(rec[physOffsetAt:], uint64(p))
	flags := int32(be.Uint32(rec[sysFlagAt:]))
	be.PutUint64(rec[bornHostAt+hostSize(flags, FlagBornV6):], uint64(storeMillis))
}

// CRC31 is CRC-32/IEEE masked with 0x7FFFFFFF (UtilAll.crc32).
func CRC31(b []byte) uint32 { return crc32.ChecksumIEEE(b) & 0x7FFFFFFF }

// AppendBlank appends the 8 bytes that close a segment with left bytes free
// (left >= BlankSize): the rest of the segment holds nothing.
func AppendBlank(dst []byte, left int32) []byte {
	magic := int32(MagicBlank)
	dst = binary.BigEndian.AppendUint32(dst, uint32(left))
	return binary.BigEndian.AppendUint32(dst, uint32(magic))
}

// Blank returns the number of free bytes that a blank record at the start of b
// declares, itself included; ok is false if there is none.
func Blank(b []byte) (left int32, ok bool) {
	if len(b) < BlankSize || int32(binary.BigEndian.Uint32(b[magicAt:])) != MagicBlank {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(b)), true
}
