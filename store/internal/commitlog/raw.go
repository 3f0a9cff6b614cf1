package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// Borrowed is a segment that stays open until Release. The zero value holds
// none.
type Borrowed struct{ s *segment }

// File is the segment's file.
func (b Borrowed) File() vfs.File { return b.s.f }

// Release gives the segment back. It may be closed then.
func (b Borrowed) Release() {
	if b.s != nil {
		_ = b.s.release() // a file that was cut off: nothing in it counts any more
	}
}

// Borrow returns the segment that holds pos and where in its file pos lies;
// false if it is not there.
func (l *Log) Borrow(pos int64) (b Borrowed, offset int64, ok bool) {
	s := l.find(pos)
	if s == nil || !s.acquire() {
		return Borrowed{}, 0, false
	}
	return Borrowed{s}, pos - s.base, true
}

// acquire fails for a segment that is closed already.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *segment) release() error {
	if s.refs.Add(-1) == 0 {
		return s.f.Close()
	}
	return nil
}

// SegmentEnd is the end of the segment that pos lies in, or would.
func (l *Log) SegmentEnd(pos int64) int64 { return pos - pos%l.segBytes + l.segBytes }

// SkipRest makes the log end where its active segment does: what is left of it
// is the rest of the padding behind a blank, and stays zero. Append lock.
func (l *Log) SkipRest() {
	if l.active != nil {
		_ = l.ClearTail() // a recovery would clear it too
		l.end.Store(l.active.base + l.segBytes)
	}
}

// Empty reports that no byte of the log was ever written.
func (l *Log) Empty() bool { return l.Min() == l.End() }

// StartAt makes an empty log begin at pos, the start of a segment. Append lock.
func (l *Log) StartAt(pos int64) error {
	switch {
	case !l.Empty():
		return fmt.Errorf("the log has messages from %d to %d already", l.Min(), l.End())
	case pos < 0 || pos%l.segBytes != 0:
		return fmt.Errorf("%d is no start of a file of %d bytes", pos, l.segBytes)
	case pos == l.End():
		return nil
	}
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	if err := l.dropReady(); err != nil {
		return err
	}
	for _, s := range *l.segs.Load() { // one without a record, somewhere else
		if err := l.fs.Remove(filepath.Join(l.dir, segfile.Name(s.base))); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	return l.drop(pos, nil)
}

// drop forgets all segments but those given, whose files the caller has taken
// care of, and makes the log end at pos. The caller holds makeMu and the append
// lock.
func (l *Log) drop(pos int64, keep []*segment) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	old := *l.segs.Load()
	l.active, l.stale = nil, 0 // the caller clears what lies behind pos
	if n := len(keep); n > 0 {
		l.active = keep[n-1]
	}
	l.end.Store(pos) // before segs: what is found lies before it
	l.flushed.Store(min(pos, l.flushed.Load()))
	l.segs.Store(&keep)
	l.tail.drop()
	if len(keep) == 0 {
		l.flushed.Store(pos)
	}
	var err error
	for _, s := range old {
		if l.find(s.base) != s {
			err = errors.Join(err, s.release())
		}
	}
	return err
}
