package store

import (
	"context"
	"errors"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// ErrReplica is why a replica's store refuses appends of its own.
var ErrReplica = errors.New("the store follows a master and takes no messages of its own")

// RawError says that bytes offered to AppendRaw are not the continuation of this log.
type RawError struct {
	At  record.PhysOffset // of the first byte that does not fit
	Why string
}

func (e *RawError) Error() string { return e.Why }

// RawRange is a stretch of one segment for a zero-copy send; Release it.
type RawRange struct {
	File   vfs.File
	Offset int64 // in File
	Len    int64
}

// Release gives the segment free to be removed.
func (r RawRange) Release() {}

// SetReplica switches between a master's store (appends by Append and AppendAll)
// and a replica's (by AppendRaw only). When it returns no append of the other kind
// is under way. Turning it off gives every queue its next number from the log.
func (s *Store) SetReplica(on bool) { panic("contract") }

// Replica says whether the store follows a master.
func (s *Store) Replica() bool { panic("contract") }

// AppendRaw appends the whole records (and blanks with their padding) that p
// begins with, which continue the log at Positions().Max, in one write per
// segment, and dispatches them. Each is checked before it is written: magic, size,
// body checksum, its own position, sane lengths. n is how many bytes were taken; the
// rest is an unfinished record, to be offered again with more behind it. A
// *RawError means that p at n is no record here. Replica stores only; one caller at a time.
func (s *Store) AppendRaw(p []byte) (n int, err error) { panic("contract") }

// ReadRaw fills dst with bytes of the log from p on, as many as are there, never
// across the end of a segment. 0 at the end of the log. A *NoRecordError if p is not in the log.
func (s *Store) ReadRaw(dst []byte, p record.PhysOffset) (int, error) { panic("contract") }

// RawFile is ReadRaw for sendfile: the open file and range, at most most bytes.
// ok is false where there is no such file (memory file systems): use ReadRaw.
func (s *Store) RawFile(p record.PhysOffset, most int64) (r RawRange, ok bool, err error) {
	panic("contract")
}

// RawSum is the CRC-32C of the bytes [from, to) of the log, to compare two replicas.
func (s *Store) RawSum(from, to record.PhysOffset) (uint32, error) { panic("contract") }

// LastRecord is where the newest record begins; false if the log is empty.
func (s *Store) LastRecord() (record.PhysOffset, bool) { panic("contract") }

// RecordBefore is the start of the last record that begins at or before p, found
// from the segment's start or the queues; false if none.
func (s *Store) RecordBefore(p record.PhysOffset) (record.PhysOffset, bool, error) { panic("contract") }

// Sync makes everything appended so far durable and returns how far that is.
func (s *Store) Sync(ctx context.Context) (record.PhysOffset, error) { panic("contract") }

// StartAt makes an empty log begin at p, the start of a segment.
func (s *Store) StartAt(p record.PhysOffset) error { panic("contract") }

// Aside says where cut bytes were kept.
type Aside struct {
	Path  string // file or folder
	From  record.PhysOffset
	Bytes int64
}

// TruncateTo cuts the log at p, the start of a record: a synced copy of what lies
// behind is set aside first, then queues and index are cut with it. Safe against a
// crash at every step: afterwards the log ends at p or where it did. Readers go on.
// Replica stores only.
func (s *Store) TruncateTo(p record.PhysOffset) (Aside, error) { panic("contract") }

// SetAside moves the whole log, queues and index aside and leaves an empty
// store that waits for StartAt or AppendRaw. Readers see empty queues. Replica stores only.
func (s *Store) SetAside() (Aside, error) { panic("contract") }
