// Package commitlog is the commit log: segments of one size that hold the
// records of all queues in the order of their arrival (Java: CommitLog over
// MappedFileQueue).
//
// A record never spans segments. A segment that is full ends in a blank: 4
// bytes with the space left, at least 8, and 4 bytes of magic; what lies behind
// is zero.
//
// Nothing is mapped: a page fault would stop a whole scheduler thread. The
// next segment is made with its blocks ahead of need, by whoever calls Prepare.
package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// segment is one file. Whoever uses the file beyond a read holds it by refs, so
// that a cut closes it when the last of them is done.
type segment struct {
	base int64
	f    vfs.File
	refs atomic.Int32 // 1 for the log
}

func newSegment(base int64, f vfs.File) *segment {
	s := &segment{base: base, f: f}
	s.refs.Store(1)
	return s
}

// Log is an open commit log.
//
// Invariants: min <= flushed <= end; bytes in [end, end of its segment) are
// zero.
type Log struct {
	fs       vfs.FS
	dir      string
	segBytes int64
	reserve  bool // blocks of a new segment are allocated when it is made

	segs    atomic.Pointer[[]*segment] // by base; may have holes
	end     atomic.Int64
	flushed atomic.Int64
	holes   atomic.Pointer[[]Hole] // in their order; nil: none

	active *segment // where end lies; guarded by the caller's append lock; nil: none yet
	// stale is up to where a write that failed may have left bytes in the active
	// segment; guarded by the append lock. At or before end: there are none.
	stale int64

	ready  atomic.Pointer[segment] // the next one, made ahead
	makeMu sync.Mutex              // guards making and removing files

	syncMu  sync.Mutex // one sync at a time
	syncErr error      // the first that failed; none is believed after it

	tail *tail
	// places bounds the reads of files under way: as many threads in the kernel as there are
	// readers would keep a sender from its core for milliseconds. What the tail has
	// needs no place.
	places   chan struct{}
	lastFill fillCache
}

// Open opens the segments that were found in dir. Until SetEnd, End is the end
// of the last of them.
//
// reserve allocates the blocks of new segments ahead, so that appends need not
// find any and cannot run out of space. A log that is synced for each burst
// goes without: ext4 has to convert the reserved blocks at every sync, which
// then takes two to three times as long as on a sparse file.
func Open(fsys vfs.FS, dir string, segBytes int64, files []segfile.Found, reserve bool) (*Log, error) {
	l := newLog(fsys, dir, segBytes)
	l.reserve = reserve
	var segs []*segment
	l.segs.Store(&segs)
	for _, found := range files {
		f, err := fsys.OpenReadWrite(filepath.Join(dir, segfile.Name(found.Base)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		segs = append(segs, newSegment(found.Base, f))
		l.segs.Store(&segs)
		l.end.Store(found.Base + segBytes)
	}
	return l, nil
}

// newLog is a log without segments.
func newLog(fsys vfs.FS, dir string, segBytes int64) *Log {
	return &Log{fs: fsys, dir: dir, segBytes: segBytes, tail: newTail(segBytes), places: make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))}
}

// SegmentBytes is the size of a segment.
func (l *Log) SegmentBytes() int64 { return l.segBytes }

// Min is the position of the first byte that is there.
func (l *Log) Min() int64 {
	if segs := *l.segs.Load(); len(segs) > 0 {
		return segs[0].base
	}
	return l.end.Load()
}

// End is the position behind the last byte.
func (l *Log) End() int64 { return l.end.Load() }

// Flushed is the position before which everything is safe on disk.
func (l *Log) Flushed() int64 { return l.flushed.Load() }

// Bases lists the positions of the segments.
func (l *Log) Bases() []int64 {
	var out []int64
	for _, s := range *l.segs.Load() {
		out = append(out, s.base)
	}
	return out
}

// Room is the space left in the active segment; 0 if there is none. Append
// lock.
func (l *Log) Room() int64 {
	if l.active == nil {
		return 0
	}
	return l.active.base + l.segBytes - l.end.Load()
}

// Write appends p, which fits into Room, in one write. On failure nothing is
// appended, and what the disk got of it is zeroed again, now or, if the disk is too
// full even for that, before the next write; if it fails otherwise the second result
// is true: the log must not be written any more. Append lock.
func (l *Log) Write(p []byte) (err error, sick bool) {
	if err, sick = l.WriteBulk(p); err == nil {
		l.tail.append(l.end.Load()-int64(len(p)), p)
	}
	return err, sick
}

// WriteBulk is Write of bytes that nobody is going to read soon: they are not kept
// in memory.
func (l *Log) WriteBulk(p []byte) (err error, sick bool) {
	end := l.end.Load()
	if l.stale > end {
		if err := l.zeroStale(); err != nil {
			return err, !vfs.DiskFull(err)
		}
	}
	n, err := l.active.f.WriteAt(p, end-l.active.base)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		// What was not written may have no blocks: only the rest can be zeroed.
		if l.stale = end + int64(n); l.stale > end {
			zerr := l.zeroStale()
			return err, zerr != nil && !vfs.DiskFull(zerr)
		}
		return err, false
	}
	l.end.Store(end + int64(len(p)))
	return nil, false
}

// ClearTail makes sure that nothing lies behind the end, not even what a failed write
// left there. Append lock.
func (l *Log) ClearTail() error {
	if l.stale <= l.end.Load() {
		return nil
	}
	return l.zeroStale()
}

// zeroStale clears what a failed write left behind the end.
func (l *Log) zeroStale() error {
	end := l.end.Load()
	if _, err := l.active.f.WriteAt(make([]byte, l.stale-end), end-l.active.base); err != nil {
		return err
	}
	l.stale = end
	return nil
}

// Roll ends the active segment with a blank and goes to the next one. It
// reports false if no next one is ready: call Prepare without the lock and try
// again. Append lock.
func (l *Log) Roll() (rolled bool, err error) {
	next := l.ready.Load()
	if next == nil {
		return false, nil
	}
	if l.active != nil {
		if next.base != l.active.base+l.segBytes {
			return false, fmt.Errorf("commit log: prepared segment %d does not follow %d", next.base, l.active.base)
		}
		if left := l.Room(); left >= record.BlankSize {
			if err, _ := l.Write(record.AppendBlank(nil, int32(left))); err != nil {
				return false, err
			}
		}
	}
	l.active = next
	segs := append(slices.Clone(*l.segs.Load()), next)
	l.segs.Store(&segs)
	l.ready.Store(nil) // after segs: Prepare takes the name behind the last of them
	l.end.Store(next.base)
	return true, nil
}

// NeedsPrepare reports that the next segment should be made soon.
func (l *Log) NeedsPrepare() bool {
	if l.ready.Load() != nil {
		return false
	}
	segs := *l.segs.Load()
	if len(segs) == 0 {
		return false // an idle new store needs no gigabyte
	}
	return l.end.Load()-segs[len(segs)-1].base > l.segBytes/2
}

// Prepare makes the next segment if it is not there yet. It may take long.
func (l *Log) Prepare() error {
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	if l.ready.Load() != nil {
		return nil
	}
	base := l.end.Load()
	if segs := *l.segs.Load(); len(segs) > 0 {
		base = segs[len(segs)-1].base + l.segBytes
	} else if base%l.segBytes != 0 {
		base = (base/l.segBytes + 1) * l.segBytes
	}
	s, err := l.makeSegment(base)
	if err != nil {
		return err
	}
	l.ready.Store(s)
	return nil
}

// makeSegment makes a file of full size. It gets its length before its blocks,
// since a short file keeps Apache from starting; an empty last one does not.
func (l *Log) makeSegment(base int64) (*segment, error) {
	name := filepath.Join(l.dir, segfile.Name(base))
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(l.segBytes)
	if err == nil && l.reserve {
		err = f.Preallocate(l.segBytes)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		// What cannot be removed stays an unused segment, which is harmless.
		return nil, errors.Join(err, f.Close(), l.fs.Remove(name))
	}
	return newSegment(base, f), nil
}

// DropReady removes a prepared segment that was not used.
func (l *Log) DropReady() error {
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	return l.dropReady()
}

// dropReady is DropReady with makeMu held. Who changes the segments goes on holding it:
// Prepare would make the one that followed those that were there.
func (l *Log) dropReady() error {
	s := l.ready.Swap(nil)
	if s == nil {
		return nil
	}
	err := s.f.Close()
	if rerr := l.fs.Remove(filepath.Join(l.dir, segfile.Name(s.base))); err == nil {
		err = rerr
	}
	if derr := l.fs.SyncDir(l.dir); err == nil {
		err = derr
	}
	return err
}

// Sync makes everything written before the call safe and returns how far that
// is. After a failed sync it fails for ever: the kernel may have dropped what
// it could not write, so a later success means nothing.
func (l *Log) Sync() (int64, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	from, to := l.flushed.Load(), l.end.Load()
	if l.syncErr != nil {
		return from, l.syncErr
	}
	if from == to {
		return to, nil
	}
	for _, s := range *l.segs.Load() {
		if s.base+l.segBytes <= from || s.base >= to {
			continue
		}
		if err := s.f.Datasync(); err != nil {
			l.syncErr = err
			return from, err
		}
	}
	l.flushed.Store(to)
	return to, nil
}

// find returns the segment that holds pos, nil if none.
func (l *Log) find(pos int64) *segment {
	segs := *l.segs.Load()
	i := len(segs) - 1
	if i < 0 {
		return nil
	}
	if segs[i].base > pos { // not the last: usually no holes, so one step
		if d := (segs[i].base - pos + l.segBytes - 1) / l.segBytes; int64(i) >= d {
			i -= int(d)
		} else {
			i = 0
		}
		for i < len(segs)-1 && segs[i+1].base <= pos {
			i++
		}
	}
	if s := segs[i]; pos >= s.base && pos < s.base+l.segBytes {
		return s
	}
	return nil
}

// HasFile reports whether the file is there that holds a position.
func (l *Log) HasFile(pos int64) bool { return l.find(pos) != nil }

// ReadTail is Read of what is still in memory as it was appended; false if it is not.
func (l *Log) ReadTail(dst []byte, pos int64) bool {
	return pos >= l.Min() && pos+int64(len(dst)) <= l.end.Load() && l.tail.read(dst, pos)
}

// Read fills dst with the bytes from pos on. They must lie in one segment and
// before End; else, or if they are not there any more, it reports false.
func (l *Log) Read(dst []byte, pos int64) (bool, error) {
	if pos < l.Min() || pos+int64(len(dst)) > l.end.Load() {
		return false, nil
	}
	if l.tail.read(dst, pos) {
		return true, nil
	}
	s := l.find(pos)
	if s == nil || pos+int64(len(dst)) > s.base+l.segBytes {
		return false, nil
	}
	l.places <- struct{}{}
	n, err := s.read(dst, pos-s.base)
	<-l.places
	if n == len(dst) {
		return true, nil
	}
	if errors.Is(err, fs.ErrClosed) || errors.Is(err, errLeft) {
		err = nil // cut off or expired since
	}
	return false, err
}

// ReadingFiles reports whether files are being read, for what the memory does not have.
func (l *Log) ReadingFiles() bool { return len(l.places) > 0 }

// DropTail frees the memory that holds the newest bytes. Append lock.
func (l *Log) DropTail() { l.tail.drop() }

// SameSegment reports whether two positions lie in one segment.
func (l *Log) SameSegment(a, b int64) bool { return a/l.segBytes == b/l.segBytes }

// Close closes all files.
func (l *Log) Close() error {
	var first error
	for _, s := range *l.segs.Load() {
		if err := s.f.Close(); err != nil && first == nil {
			first = err
		}
	}
	if s := l.ready.Swap(nil); s != nil {
		s.f.Close()
	}
	return first
}
