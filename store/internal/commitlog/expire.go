package commitlog

import (
	"errors"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// Expired is a segment that is not in the log any more. Its name is gone from
// the folder; its blocks stay on the disk until Free has given them back.
type Expired struct{ s *segment }

// Base is where the segment began.
func (e Expired) Base() int64 { return e.s.base }

// Claim takes the segment from its last reader. It is false while somebody still
// reads it; once it was true nobody can begin to.
func (e Expired) Claim() bool { return e.s.refs.CompareAndSwap(1, 0) }

// File is the segment's file. Only who has claimed it may shorten it.
func (e Expired) File() vfs.File { return e.s.f }

// Name is the path of the segment that begins at base.
func (l *Log) Name(base int64) string { return filepath.Join(l.dir, segfile.Name(base)) }

// Next is the position of the segment behind the one at base, false if that is
// the last. Files may be missing between them.
func (l *Log) Next(base int64) (int64, bool) {
	for _, s := range *l.segs.Load() {
		if s.base > base {
			return s.base, true
		}
	}
	return 0, false
}

// RemoveFirst removes the file of the first segment, whose position is base, and
// makes that durable. Nothing changes in memory: Expire follows. A crash in between
// leaves a log that begins later, never one that begins earlier than somebody heard.
// The last segment is never removed, nor one that is not on disk in whole.
func (l *Log) RemoveFirst(base int64) error {
	segs := *l.segs.Load()
	switch {
	case len(segs) < 2 || segs[0].base != base:
		return errors.New("it is not the first of several files of the log")
	case base+l.segBytes > l.flushed.Load():
		return errors.New("it is not on disk in whole yet")
	}
	if err := l.fs.Remove(l.Name(base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// Expire takes the first segment, whose file RemoveFirst has removed, out of the
// log: Min rises. Append lock.
func (l *Log) Expire() Expired {
	segs := *l.segs.Load()
	rest := append([]*segment(nil), segs[1:]...)
	l.segs.Store(&rest)
	return Expired{segs[0]}
}

// errLeft says that a segment has left the log.
var errLeft = errors.New("the file has left the log")

// read reads from a segment that a reader of the log has found.
func (s *segment) read(dst []byte, at int64) (int, error) {
	if !s.acquire() {
		return 0, errLeft
	}
	n, err := s.f.ReadAt(dst, at)
	_ = s.release() // if this closes it, nothing in it counts any more
	return n, err
}
