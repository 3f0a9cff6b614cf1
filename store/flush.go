package store

import (
	"context"
	"sync"
	"time"

	"mqctl/store/record"
)

// FlushWaiter hears once that everything before a position is on disk.
type FlushWaiter interface {
	// Flushed is called by the flusher with PutOK, FlushDiskTimeout or
	// ServiceNotAvailable (fsync failed). It must not block.
	Flushed(st Status)
}

type flushWait struct {
	end      int64
	deadline time.Time
	w        FlushWaiter
}

// flusher groups commits: one fdatasync answers everybody who waited when it
// began, and while somebody waits the next follows at once.
type flusher struct {
	mu      sync.Mutex
	waiting []flushWait // by arrival, so by deadline too; guarded by mu
	spare   []flushWait // guarded by mu; reused

	wake  chan struct{} // somebody waits
	armed chan struct{} // the list of waiters was empty before
}

// WaitFlushed registers w; if already flushed it is called at once (by the
// caller).
func (s *Store) WaitFlushed(end record.PhysOffset, w FlushWaiter) {
	if int64(end) <= s.log.Flushed() {
		w.Flushed(PutOK)
		return
	}
	f := &s.flush
	f.mu.Lock()
	first := len(f.waiting) == 0
	f.waiting = append(f.waiting, flushWait{int64(end), time.Now().Add(s.opt.FlushTimeout), w})
	f.mu.Unlock()
	if !s.running.Load() {
		s.flushOnce() // before Run and after it: whoever waits flushes
		return
	}
	notify(f.wake)
	if first {
		notify(f.armed)
	}
}

// SyncFlush says whether sends must wait for the flush.
func (s *Store) SyncFlush() bool { return s.opt.SyncFlush }

// notify wakes a loop that drains ch; a wake-up that is pending already counts.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// flushLoop owns fsync of the log.
func (s *Store) flushLoop(ctx context.Context) error {
	tick := time.NewTicker(s.opt.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.flush.wake:
		case <-tick.C:
		}
		if s.closed.Load() {
			return nil // Close flushes, and then closes the files
		}
		for again := true; again; {
			again = s.flushOnce()
		}
	}
}

// flushOnce syncs the log, dispatches what that makes visible and answers the
// waiters it released. It reports whether somebody still waits.
func (s *Store) flushOnce() bool {
	millis := s.storedMillis.Load() // before the sync: not ahead of it
	flushed, err := s.log.Sync()
	if err != nil {
		s.setSick(s.syncFailed(err))
		s.release(-1, ServiceNotAvailable)
		return false
	}
	s.flushedMillis.Store(millis)
	if s.opt.SyncFlush {
		s.dispatch()
	}
	return s.release(flushed, PutOK)
}

// release answers the waiters up to flushed (-1: all) and reports whether some
// are left.
func (s *Store) release(flushed int64, st Status) bool {
	f := &s.flush
	f.mu.Lock()
	done := f.spare[:0]
	f.spare = nil
	kept := f.waiting[:0]
	for _, w := range f.waiting {
		if flushed < 0 || w.end <= flushed {
			done = append(done, w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(f.waiting[len(kept):])
	f.waiting = kept
	f.mu.Unlock()
	for _, w := range done {
		w.w.Flushed(st)
	}
	clear(done)
	f.mu.Lock()
	f.spare = done[:0]
	f.mu.Unlock()
	return len(kept) > 0
}

// deadlineLoop answers waiters whose time is up while a sync hangs.
func (s *Store) deadlineLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.flush.armed:
		}
		for {
			wait, some := s.expire()
			if !some {
				break
			}
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return nil
			case <-t.C:
			}
		}
	}
}

// expire answers the waiters whose deadline has passed and returns how long
// until the next one's.
func (s *Store) expire() (wait time.Duration, some bool) {
	f := &s.flush
	now := time.Now()
	f.mu.Lock()
	n := 0
	for n < len(f.waiting) && !now.Before(f.waiting[n].deadline) {
		n++
	}
	var late []flushWait
	if n > 0 {
		late = append(late, f.waiting[:n]...)
		left := copy(f.waiting, f.waiting[n:])
		clear(f.waiting[left:])
		f.waiting = f.waiting[:left]
	}
	if some = len(f.waiting) > 0; some {
		wait = max(f.waiting[0].deadline.Sub(now), time.Millisecond)
	}
	f.mu.Unlock()
	for _, w := range late {
		w.w.Flushed(FlushDiskTimeout)
	}
	return wait, some
}
