package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"mqctl/store/internal/commitlog"
	"mqctl/store/vfs"
)

const (
	retainDelay = time.Minute // after the start, as RocketMQ waits
	askedRuns   = 20          // runs that one request to delete stands for (MAX_MANUAL_DELETE_FILE_TIMES)
	freeBytes   = 64 << 20    // of an expired file are given back at once
	freePause   = 10 * time.Millisecond
	timesBatch  = 64 // files whose time is looked at in one run
	warnEvery   = 10 * time.Minute
)

// retainer is the state of deletion.
type retainer struct {
	wake         chan struct{}
	asked        atomic.Int32 // runs in which old files are deleted at any hour
	noSpace      atomic.Bool  // a write found no space since the last run
	leavingBytes atomic.Int64 // of files that have left the log and still take space

	// turn is held by one run or request at a time, by sending to it, also while it
	// pauses; it guards all below.
	turn     chan struct{}
	leaving  []commitlog.Expired
	followed int64     // start of the log that queues and index know
	sweep    []*Queue  // may have files to remove
	timed    int64     // files of the log before it have the times of their messages
	warned   time.Time // when it was said last that nothing can be deleted
	age      ageClock
}

// take waits for the turn; false if ctx ends before.
func (t *retainer) take(ctx context.Context) bool {
	select {
	case t.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *retainer) give() { <-t.turn }

// retainLoop deletes what is too old or has no place. It is the only one that
// does so unasked.
func (s *Store) retainLoop(ctx context.Context) error {
	t := time.NewTimer(retainDelay)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-s.retain.wake:
			if s.full.Load() || s.retain.asked.Load() > 0 || s.retain.noSpace.Load() {
				break // space is needed now
			}
			continue
		}
		if s.closed.Load() {
			return nil
		}
		s.retainOnce(ctx)
		t.Reset(s.retention.Load().Every)
	}
}

// DeleteExpired asks for the deletion of old files of the log at any hour, in
// the background, as DELETE_EXPIRED_COMMITLOG does.
func (s *Store) DeleteExpired() {
	s.retain.asked.Store(askedRuns)
	notify(s.retain.wake)
}

// retainOnce is one run: files of the log, then what pointed into them.
func (s *Store) retainOnce(ctx context.Context) {
	t := &s.retain
	if !t.take(ctx) {
		return
	}
	defer t.give()
	if s.sick.Load() != nil {
		return
	}
	s.checkDisk()
	s.freeExpired(ctx)
	s.deleteDue(ctx)
	if t.asked.Load() > 0 {
		t.asked.Add(-1)
	}
	t.noSpace.Store(false)
	s.follow(ctx)
	s.keepTimes()
	s.checkDisk()
}

// deleteDue removes files of the log as long as there is a reason to.
func (s *Store) deleteDue(ctx context.Context) {
	t := &s.retain
	r := s.retention.Load()
	for n, most := 0, r.Batch; n < most && ctx.Err() == nil; n++ {
		now := s.opt.Now()
		why := s.pressureAt(r, now)
		if why == relaxed {
			return
		}
		if why == byHour && n == 0 {
			if most = s.share(r, now); most == 0 {
				return
			}
		}
		base, due := s.oldestDue(r, why == forced)
		if !due {
			if why >= byDemand && time.Since(t.warned) > warnEvery && (why == forced || t.asked.Load() == 0) {
				t.warned = time.Now()
				s.opt.Log.Warn("the disk fills up, and no file of the log may be deleted",
					"percent", s.usedPercent(s.opt.CommitLogDir, 0), "phys_offset", base, "only_old_ones", why != forced)
			}
			return
		}
		if err := s.deleteFirst(base, why); err != nil {
			s.opt.Log.Error("cannot delete a file of the commit log", "file", s.log.Name(base), "error", err)
			return
		}
		s.freeExpired(ctx)
		pause(ctx, r.LogPause)
	}
}

// deleteFirst removes the first file of the log, which begins at base. Its name
// goes first, then the start of the log rises, so that no restart takes it back;
// who reads the file may finish.
func (s *Store) deleteFirst(base int64, why pressure) error {
	if err := s.settleBelow(base + s.log.SegmentBytes()); err != nil {
		return err
	}
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	if end := base + s.log.SegmentBytes(); s.dispatched.Load() < end || s.keep.queued < end {
		return errors.New("its messages have no safe queue entries yet")
	}
	name := s.log.Name(base)
	if err := s.log.RemoveFirst(base); err != nil {
		return err
	}
	s.appendMu.Lock()
	e := s.log.Expire()
	s.appendMu.Unlock()
	s.retain.leaving = append(s.retain.leaving, e)
	s.retain.leavingBytes.Add(s.log.SegmentBytes())
	s.retain.noSpace.Store(false)
	s.opt.Log.Info("a file of the commit log is deleted", "file", name, "bytes", s.log.SegmentBytes(),
		"reason", why.String(), "phys_offset", s.log.Min())
	return nil
}

func (p pressure) String() string {
	return [...]string{"none", "messages too old", "messages too old", "the disk is full of younger ones"}[p]
}

// settleBelow makes the queue entries of all messages before end safe, as they
// keep the numbers of queues whose messages go.
func (s *Store) settleBelow(end int64) error {
	s.keep.mu.Lock()
	safe := s.keep.queued >= end
	s.keep.mu.Unlock()
	if safe {
		return nil
	}
	// A full disk may have no place for the notes of a mark; the entries count.
	if err := s.mark(false); err != nil && !vfs.DiskFull(err) {
		return fmt.Errorf("write queues and checkpoint: %w", err)
	}
	return nil
}

// freeExpired gives the blocks of expired files back, bit by bit, if nobody reads
// them any more. Their names are gone, so nobody can find a shortened one.
func (s *Store) freeExpired(ctx context.Context) {
	t := &s.retain
	kept := t.leaving[:0]
	for _, e := range t.leaving {
		if !e.Claim() {
			kept = append(kept, e)
			continue
		}
		for size := s.log.SegmentBytes() - freeBytes; size > 0 && ctx.Err() == nil; size -= freeBytes {
			if err := e.File().Truncate(size); err != nil {
				break // closing frees it too
			}
			pause(ctx, freePause)
		}
		if err := e.File().Close(); err != nil {
			s.opt.Log.Warn("closing a deleted file of the commit log", "phys_offset", e.Base(), "error", err)
		}
		t.leavingBytes.Add(-s.log.SegmentBytes())
	}
	clear(t.leaving[len(kept):])
	t.leaving = kept
}

// closeExpired closes what is left when the store closes.
func (s *Store) closeExpired() {
	s.retain.take(context.Background())
	defer s.retain.give()
	for _, e := range s.retain.leaving {
		if e.Claim() {
			_ = e.File().Close() // it is deleted: nothing can be lost
		}
	}
	s.retain.leaving = nil
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// keepTimes gives full files of the log the time of their newest message, since
// RocketMQ's broker goes by it: copies of a folder and repairs change it.
func (s *Store) keepTimes() {
	ts, ok := s.opt.FS.(vfs.TimeSetter)
	if !ok {
		return
	}
	t := &s.retain
	base := s.log.Min()
	if t.timed > base && t.timed <= s.log.End() {
		base = t.timed
	}
	for range timesBatch {
		next, more := s.log.Next(base)
		if !more || next >= s.log.End() {
			break
		}
		if millis := s.storeTimeAt(next); millis > 0 {
			name := s.log.Name(base)
			e, err := s.opt.FS.Stat(name)
			if off := e.ModMillis - millis; err == nil && (off > 2000 || off < -2000) {
				err = ts.SetModTime(name, time.UnixMilli(millis))
			}
			if err != nil {
				s.opt.Log.Warn("cannot set the time of a file of the commit log", "file", name, "error", err)
				break
			}
		}
		base = next
	}
	t.timed = base
}
