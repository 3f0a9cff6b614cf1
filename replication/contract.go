package replication

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
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
}

// Settings are the [ha] keys that both roles read; live ones take effect at the next use.
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

// MasterOptions of the sending side.
type MasterOptions struct {
	Log      Log
	Listener net.Listener
	Settings func() *Settings // a stable pointer until something changes
	// Identify tells the slave behind an HA connection from its remote address,
	// for slaves that did not Attach (Apache's).
	Identify func(remote netip.AddrPort) (Peer, bool)
	Changed  func() // a slave came, went, or changed whether it is in sync
	Auth     *Auth  // nil: none
	Now      func() time.Time
	Slog     *slog.Logger
}

// Master accepts slaves and sends them the log. It serves on slaves too: a slave may feed another.
type Master struct{}

// NewMaster makes the sending side; Run serves it.
func NewMaster(o MasterOptions) *Master { panic("contract") }

// Run serves until ctx ends.
func (m *Master) Run(ctx context.Context) error { panic("contract") }

// Appended tells that the log grew; called on the append path, never blocks: it
// sends what the sockets take by itself, or wakes the connection's sender.
func (m *Master) Appended(end record.PhysOffset) { panic("contract") }

// Admit says before an append of a synchronous master whether it may happen:
// Replicated, NoSlave (append, and answer so), or NotEnoughSync.
func (m *Master) Admit() Ack { panic("contract") }

// Wait lets w hear when enough replicas have everything before end.
func (m *Master) Wait(end record.PhysOffset, w Waiter) { panic("contract") }

// AbortWaits ends all waits with Stopped, for a master that becomes a slave.
func (m *Master) AbortWaits() { panic("contract") }

// AckedBy is what slave id holds of the log, and whether it is connected. No allocation, no wait.
func (m *Master) AckedBy(id int64) (record.PhysOffset, bool) { panic("contract") }

// Attach answers a slave of ours that wants to connect; it is called by the remoting side.
func (m *Master) Attach(from netip.AddrPort, r AttachRequest) AttachReply { panic("contract") }

// Status is a snapshot of all connections.
func (m *Master) Status() MasterStatus { panic("contract") }

// MasterStatus is the sending side at one moment.
type MasterStatus struct {
	Slaves   []SlaveConn
	InSync   int // slaves
	Refused  int64
	BadPeers int64 // connections closed for junk, absurd offsets, silence
}

// SlaveConn is one connected slave.
type SlaveConn struct {
	Peer
	Known       bool // Peer is known
	Remote      netip.AddrPort
	Acked       record.PhysOffset
	Sent        record.PhysOffset // transferFromWhere
	Gap         int64
	GapTime     time.Duration // age of the oldest byte it lacks; 0 if none
	InSync      bool
	BytesPerSec int64
	State       string // SYNCING, COPYING, STALLED
	Sentence    string
	CopyFrom    record.PhysOffset // of a long copy: where it began, and its target
	CopyTo      record.PhysOffset
}

// AttachRequest is what a slave of ours says before it opens the HA connection.
type AttachRequest struct {
	BrokerName   string
	BrokerID     int64
	BrokerAddr   string
	HALocal      string // its end of the HA socket
	SegmentBytes int64
	Min, End     int64
	Readable     bool
	AckFsync     bool
	Secure       bool // it will authenticate
	Epoch        int64
	Sums         []Range // stretches whose sums it wants
}

// Range is a stretch of a log with its CRC-32C.
type Range struct {
	From, To int64
	Sum      uint32 // in the answer; Known false if the master has not all of it
	Known    bool
}

// AttachReply is the master's answer.
type AttachReply struct {
	State    State
	Why      string // sentence for operators
	Start    int64  // where an empty slave begins
	Min, End int64
	Epoch    int64
	Sums     []Range
}

// State is where a slave stands. The names are what stats ha shows.
type State string

// States of a slave.
const (
	Connecting State = "CONNECTING" // looking for its master
	Syncing    State = "SYNCING"    // follows the end
	Copying    State = "COPYING"    // far behind: a long copy
	TooOld     State = "TOO_OLD"    // older than the master's retention; starts again
	Diverged   State = "DIVERGED"   // holds other bytes than the master
	Ahead      State = "AHEAD"      // longer than the master's log
	WrongGroup State = "WRONG_MASTER"
	Mismatch   State = "MISMATCH" // segment size or security differ
	Failed     State = "FAILED"   // its disk
)

// SlaveOptions of the receiving side.
type SlaveOptions struct {
	Log      Log
	Settings func() *Settings
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	// Attach asks the master over remoting. ours is false where the master does not
	// know the request (Apache's): then the checks of Foreign are made.
	Attach func(ctx context.Context, master string, r AttachRequest) (reply AttachReply, ours bool, err error)
	// Foreign asks an Apache master for the bounds of its log (28), and for the
	// record at p (33); nil bytes: it has none there.
	Foreign func(ctx context.Context, master string, p record.PhysOffset) (min, end int64, rec []byte, err error)
	Self    func() AttachRequest // who we are
	Changed func()
	Auth    *Auth
	Now     func() time.Time
	Slog    *slog.Logger
}

// Slave follows a master.
type Slave struct{}

// NewSlave makes the receiving side; Run works while ctx lives.
func NewSlave(o SlaveOptions) *Slave { panic("contract") }

// Run follows the master given with SetMaster until ctx ends; nothing is appended after it returned.
func (s *Slave) Run(ctx context.Context) error { panic("contract") }

// SetMaster names the master: its remoting and HA addresses, empty if unknown (the
// last one is still tried). A change ends the connection to the old one.
func (s *Slave) SetMaster(addr, haAddr string) { panic("contract") }

// Status is a snapshot.
func (s *Slave) Status() SlaveStatus { panic("contract") }

// SlaveStatus is the receiving side at one moment.
type SlaveStatus struct {
	State       State
	Sentence    string
	Master, HA  string
	Connected   bool
	MasterEnd   record.PhysOffset // newest known end of the master's log, and when
	MasterEndAt time.Time
	LastRead    time.Time
	LastWrite   time.Time
	DialRefused bool // the last dial was refused: nobody listens there
	BytesPerSec int64
	CopyFrom    record.PhysOffset
	CopyTo      record.PhysOffset
	Aside       string // where a cut tail or an old log was kept
}

// Auth is the shared key and TLS between nodes of ours.
type Auth struct{}
