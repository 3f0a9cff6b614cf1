package subgroup

// Source says where a progress value came from. The order of a merge is in Beats.
type Source uint8

// Sources, weakest first.
const (
	FromReset Source = iota
	FromCorrection
	FromImport
	FromCommit
)

// Progress is one queue's consume progress with its intent: replicas merge by a
// total order (Beats) instead of by time.
type Progress struct {
	Offset  int64
	Gen     uint32 // reset generation; each explicit backward or forced move adds 1
	Unknown bool   // the generation is unknown: an Apache broker wrote the number
	Term    uint64 // epoch of the master that wrote it, 0 classic
	Source  Source
	Deleted bool  // marker of a deletion, kept 7 days
	Pending bool  // a server-side reset that no pull has seen yet
	Updated int64 // ms
}

// ProgressRecord is one key's progress on its way between replicas.
type ProgressRecord struct {
	Topic, Group string
	Queue        int32
	Progress
}

// Commit is one commit with what decides about a lower value.
type Commit struct {
	Group, Topic []byte
	Queue        int32
	Offset       int64
	Client       string // channel or client id; empty: unknown
	Member       bool   // it is a member of the group
	AnyMember    bool   // the group has any member
	Reset        bool   // the request says reset=true
	Master       bool   // this broker is the master
	QueueMax     int64  // -1: unknown
	ServingFor   int64  // ms since this broker began to serve
	NowMillis    int64
}

// Outcome is what became of a commit.
type Outcome uint8

// Outcomes of a commit; all but Stored and Moved are answered with success and counted.
const (
	Stored  Outcome = iota
	Moved           // went back with a new generation
	Ignored         // a late commit of a former owner
	Held            // a server-side reset is pending
)

// CommitChecked stores a commit by rules P1 to P5.
func (o *Offsets) CommitChecked(c *Commit) Outcome { panic("contract") }

// Reset makes target the progress with a new generation (P5); pending: until a pull has seen it.
func (o *Offsets) Reset(group, topic string, queue int32, target int64, pending bool) {
	panic("contract")
}

// TakeReset returns the target of a pending reset and clears it; called by pulls, no allocation.
func (o *Offsets) TakeReset(group, topic []byte, queue int32) (int64, bool) { panic("contract") }

// Version is the newest change; a replica asks for what came after the one it has.
func (o *Offsets) Version() uint64 { panic("contract") }

// Since appends the records that changed after version, all for 0, and returns the version they lead to.
func (o *Offsets) Since(dst []ProgressRecord, version uint64) ([]ProgressRecord, uint64) {
	panic("contract")
}

// Merge takes records of another replica in by the total order (P6) and returns how many won here.
func (o *Offsets) Merge(records []ProgressRecord) int { panic("contract") }

// Clamp lowers progress above a queue's end after a log lost its tail (P10) and returns what it changed.
func (o *Offsets) Clamp(queueMax func(topic string, queue int32) (int64, bool)) []ProgressRecord {
	panic("contract")
}

// Lease is one queue lock on its way between replicas.
type Lease struct {
	Group, ClientID string
	Queue           QueueKey
	LeftMillis      int64
}

// Leases lists the live locks with what is left of them.
func (l *Locks) Leases() []Lease { panic("contract") }

// TakeOver takes leases of another replica in, unless a live one is here.
func (l *Locks) TakeOver(leases []Lease) { panic("contract") }
