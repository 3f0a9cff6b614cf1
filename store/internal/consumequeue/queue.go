package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

const (
	minRingUnits = 16  // 320 bytes: what a queue with a message now and then costs
	maxRingUnits = 512 // 10 KiB
	runUnits     = 256 // written at once when a queue is busy: 5120 bytes
	// rollRingUnits is how far a ring may grow while the next file is made.
	rollRingUnits = 1 << 16
)

// Shared is what the queues of one store have in common.
type Shared struct {
	FS        vfs.FS
	FileBytes int64 // size of a queue file, a multiple of the size of a unit
	Files     *segfile.Cache
	// Batch says that the units are those of batch queues, BatchUnitBytes each.
	Batch bool
	// TempFile is where a new file gets its first units before it is renamed to
	// its place, so that an all-zero queue file never exists (Apache would take
	// it for a unit).
	TempFile string
	// Ext says that new units get an extension unit (enableConsumeQueueExt), in
	// files of ExtFileBytes.
	Ext          bool
	ExtFileBytes int64
	// BufferBytes bounds the memory of all rings, softly: beyond it rings stop
	// growing.
	BufferBytes int64
	// NeedsFile is called when a busy queue needs its next file: somebody who
	// can wait for the disk should call Write.
	NeedsFile func()
	// BeforeDrop, if not nil, is called before a file of a queue is removed because its units are
	// not wanted or are made again; an error keeps the file. The queue's lock is held.
	BeforeDrop func() error

	buffered atomic.Int64
	makeMu   sync.Mutex // one TempFile at a time
}

// Buffered is the memory that units of all queues take, in bytes.
func (sh *Shared) Buffered() int64 { return sh.buffered.Load() }

// Queue is one consume queue. Units have numbers; those in [First, End) exist.
//
// Invariants: first <= written <= end; units below written are in the files;
// the ring holds the units [max(ringFrom, end-len), end), among them all that
// are not written.
type Queue struct {
	sh   *Shared
	dir  string
	unit int64 // bytes of a unit
	ext  *ext  // nil: none

	mu       sync.Mutex // guards all below; held during writes to the page cache, never during a sync
	first    int64      // first unit of the first file; end if there is no file
	end      int64
	written  int64
	ring     []byte // a multiple of unit; nil while idle
	ringFrom int64
	nextBase int64 // position of the first byte behind the last file; -1: no file
	rolling  bool  // somebody makes the next file, without holding mu
	rolled   sync.Cond
	unsynced []int64 // bases of files written since the last sync
	newNames bool    // a file was made since the last sync
	gone     bool    // deleted: nothing is written any more
}

// New makes an empty queue in dir; nothing is created on disk before the first
// unit is written.
func New(sh *Shared, dir string) *Queue {
	q := &Queue{sh: sh, dir: dir, unit: UnitBytes, nextBase: -1}
	if sh.Batch {
		q.unit = BatchUnitBytes
	}
	q.rolled.L = &q.mu
	return q
}

// Bounds returns the first unit number and the next one.
func (q *Queue) Bounds() (first, end int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first, q.end
}

// StartAt gives an empty queue its first unit number; the units of its first
// file before that are written as void (Java's pre-blank).
func (q *Queue) StartAt(unit int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != q.first {
		return fmt.Errorf("queue %s already has units", q.dir)
	}
	if err := q.dropBehind(); err != nil {
		return err
	}
	perFile := q.sh.FileBytes / q.unit
	q.first = unit / perFile * perFile
	q.written, q.end, q.ringFrom = q.first, q.first, q.first
	for q.end < unit {
		if err := q.appendLocked(Void); err != nil {
			return err
		}
	}
	return nil
}

// Append adds u as unit End. It fails only if memory is full and writing fails;
// then the unit was not added.
func (q *Queue) Append(u Unit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.appendLocked(u)
}

// AppendAt adds u if unit is the number of the next one, and reports whether
// it is. An error is one of Append.
func (q *Queue) AppendAt(unit int64, u Unit) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if unit != q.end {
		return false, nil
	}
	err := q.appendLocked(u)
	return err == nil, err
}

// AppendBatch adds u to a batch queue. An error is one of Append.
func (q *Queue) AppendBatch(u *BatchUnit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ringFull() {
		if err := q.makeRoom(); err != nil {
			return err
		}
	}
	u.Put(q.ring[q.slot(q.end):])
	q.added()
	return nil
}

func (q *Queue) appendLocked(u Unit) error {
	if q.ringFull() {
		if err := q.makeRoom(); err != nil {
			return err
		}
	}
	if q.ext != nil && !u.IsVoid() {
		u.Tags = q.address(u)
	}
	u.Put(q.ring[q.slot(q.end):])
	q.added()
	return nil
}

// added counts the unit in the slot of end, and writes a run out that is complete.
func (q *Queue) added() {
	q.end++
	if n := q.end - q.written; n%runUnits == 0 {
		needFile, _ := q.writeOpen() // what fails stays in memory; the next write tries again
		if needFile && !q.rolling && q.sh.NeedsFile != nil {
			q.sh.NeedsFile()
		}
	}
}

func (q *Queue) units() int64          { return int64(len(q.ring)) / q.unit }
func (q *Queue) slot(unit int64) int64 { return unit % q.units() * q.unit }
func (q *Queue) ringFull() bool        { return q.end-q.written >= q.units() }

// makeRoom gives the queue a ring, or a larger one, or writes the ring out.
func (q *Queue) makeRoom() error {
	n := q.units()
	if n == 0 {
		q.setRing(minRingUnits)
		return nil
	}
	small := n < maxRingUnits && q.sh.buffered.Load() < q.sh.BufferBytes
	if !small {
		needFile, err := q.writeOpen()
		if err != nil || !q.ringFull() {
			return err
		}
		if !needFile || n >= rollRingUnits {
			return q.writeLocked()
		}
	}
	q.setRing(n * 2)
	return nil
}

// setRing moves what the ring holds to one of n units.
func (q *Queue) setRing(n int64) {
	old, oldUnits := q.ring, q.units()
	from := q.ringStart()
	q.ring = make([]byte, n*q.unit)
	q.sh.buffered.Add((n - oldUnits) * q.unit)
	q.ringFrom = from
	for i := from; i < q.end; i++ {
		copy(q.ring[q.slot(i):][:q.unit], old[i%oldUnits*q.unit:])
	}
}

// ringStart is the first unit the ring holds, end if none.
func (q *Queue) ringStart() int64 {
	if q.ring == nil {
		return q.end
	}
	return max(q.ringFrom, q.end-q.units())
}

// Release frees the memory of a queue all of whose units are written.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if (q.written == q.end || q.gone) && !q.rolling {
		q.sh.buffered.Add(-int64(len(q.ring)))
		q.ring = nil
		q.ringFrom = q.end
	}
}

// Idle reports whether the queue has neither memory nor anything to sync.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ring == nil && len(q.unsynced) == 0
}

// ReadRaw copies the encoded units from number from on into dst and returns
// how many. It stops at the end of what memory holds or of a file. A missing
// file is fs.ErrNotExist.
func (q *Queue) ReadRaw(dst []byte, from int64) (int, error) {
	want := int64(len(dst)) / q.unit
	q.mu.Lock()
	want = min(want, q.end-from)
	if want <= 0 || from < q.first {
		q.mu.Unlock()
		return 0, nil
	}
	start := q.ringStart()
	if from >= start {
		for i := int64(0); i < want; {
			slot := q.slot(from + i)
			i += int64(copy(dst[i*q.unit:want*q.unit], q.ring[slot:])) / q.unit
		}
		q.mu.Unlock()
		return int(want), nil
	}
	q.mu.Unlock()

	want = min(want, start-from)
	at := from * q.unit
	base := at / q.sh.FileBytes * q.sh.FileBytes
	want = min(want, (base+q.sh.FileBytes-at)/q.unit)
	if err := q.readFile(dst[:want*q.unit], base, at-base); err != nil {
		return 0, err
	}
	return int(want), nil
}

func (q *Queue) readFile(dst []byte, base, at int64) error {
	h, err := q.sh.Files.Acquire(q, base)
	if err != nil {
		return err
	}
	n, err := h.ReadAt(dst, at)
	q.sh.Files.Release(h)
	if n == len(dst) {
		return nil
	}
	return err
}

// OpenAt implements segfile.Opener.
func (q *Queue) OpenAt(base int64) (vfs.File, error) {
	return q.sh.FS.OpenReadWrite(filepath.Join(q.dir, segfile.Name(base)))
}

// NextFile is the first unit of the file behind the one that holds unit.
func (q *Queue) NextFile(unit int64) int64 {
	perFile := q.sh.FileBytes / q.unit
	return (unit/perFile + 1) * perFile
}

// Missing reports whether err of ReadRaw says that the file is not there.
func Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
