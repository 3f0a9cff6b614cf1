package replication

import (
	"context"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// Log is what replication needs of a store; *store.Store is one.
type Log interface {
	Positions() store.Positions
	ReadRaw(dst []byte, p record.PhysOffset) (int, error)
	RawFile(p record.PhysOffset, most int64) (store.RawRange, bool, error)
	RawSum(from, to record.PhysOffset) (uint32, error)
	AppendRaw(p []byte) (int, error)
	Sync(ctx context.Context) (record.PhysOffset, error)
	StartAt(p record.PhysOffset) error
	TruncateTo(p record.PhysOffset) (store.Aside, error)
	SetAside() (store.Aside, error)
	LastRecord() (record.PhysOffset, bool)
	RecordBefore(p record.PhysOffset) (record.PhysOffset, bool, error)
	Message(dst []byte, p record.PhysOffset) ([]byte, error)
	Lost(p record.PhysOffset) (from, to record.PhysOffset, ok bool)
	AppendLost(to record.PhysOffset) error
}

var _ Log = (*store.Store)(nil)

// Settings are the [ha] keys that both roles read; live ones take effect at the
// next use. Zero values mean the defaults of MessageStoreConfig.
type Settings struct {
	SegmentBytes         int64         // mappedFileSizeCommitLog
	TransferBatch        int           // haTransferBatchSize, bytes
	HeartbeatInterval    time.Duration // haSendHeartbeatInterval
	HousekeepingInterval time.Duration // haHousekeepingInterval
	MaxGapNotInSync      int64         // haMaxGapNotInSync, bytes
	FlowBytesPerSecond   int64         // maxHaTransferByteInSecond when haFlowControlEnable, else 0
	InSyncReplicas       int           // wanted copies, master included; 0: 1
	MinInSyncReplicas    int
	AllAckInSync         bool // allAckInSyncStateSet
	SlaveTimeout         time.Duration
	AckFsync             bool // haAckLevel=fsync
	CopyAll              bool // haCopy=all
	RejoinTruncate       bool // rejoinTruncateEnable
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}

func (s *Settings) segment() int64 { return orDefault(s.SegmentBytes, store.DefaultCommitLogBytes) }

func (s *Settings) batch() int { return min(orDefault(s.TransferBatch, 32<<10), maxApacheBody) }

func (s *Settings) heartbeat() time.Duration { return orDefault(s.HeartbeatInterval, 5*time.Second) }

func (s *Settings) housekeeping() time.Duration {
	return orDefault(s.HousekeepingInterval, 20*time.Second)
}

func (s *Settings) maxGap() int64 { return orDefault(s.MaxGapNotInSync, 256<<20) }

func (s *Settings) slaveTimeout() time.Duration { return orDefault(s.SlaveTimeout, 3*time.Second) }

// copyStart is where an empty slave begins in a log: at its first file, or with
// haCopy=last at its last one, as Apache's master has it. Both are the start of a
// file, which an Apache slave depends on.
func (s *Settings) copyStart(p store.Positions) int64 {
	if s.CopyAll {
		return int64(p.Min)
	}
	return max(int64(p.Min), int64(p.Max)-int64(p.Max)%s.segment())
}

// Ack says how a wait for replicas ended.
type Ack uint8

// Ends of a wait, and results of Admit.
const (
	Replicated    Ack = iota
	AckTimeout        // slaveTimeout passed: FLUSH_SLAVE_TIMEOUT
	NoSlave           // no slave is in sync: SLAVE_NOT_AVAILABLE
	NotEnoughSync     // fewer in sync than minInSyncReplicas: nothing may be appended
	Stopped           // not a master any more
)

// Waiter hears once how its wait ended, on the goroutine of whoever ended it. It must not block.
type Waiter interface{ Replicated(a Ack) }

// Peer identifies who is behind an HA connection.
type Peer struct {
	ID   int64
	Addr string // its remoting address
	Ours bool
}

// State is where a slave stands. The names are what stats ha shows.
type State string

// States of a slave.
const (
	Connecting State = "CONNECTING"   // looking for its master
	Syncing    State = "SYNCING"      // follows the end
	Copying    State = "COPYING"      // far behind: a long copy
	Stalled    State = "STALLED"      // of a connection, on the master: nothing was acknowledged for a while
	TooOld     State = "TOO_OLD"      // older than the master's retention; starts again
	Diverged   State = "DIVERGED"     // holds other bytes than the master
	Ahead      State = "AHEAD"        // longer than the master's log
	WrongGroup State = "WRONG_MASTER" // the master belongs to another broker name
	Mismatch   State = "MISMATCH"     // segment size or security differ
	Failed     State = "FAILED"       // its disk
)

// longCopy is the gap in bytes from which on a slave is said to copy: its
// progress is then shown against where the master's log ended.
const longCopy = 64 << 20
