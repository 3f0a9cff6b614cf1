package store

import (
	"context"
	"errors"
	"time"
)

// followBatch is how many queues are looked at before others may have keep.mu.
const followBatch = 64

// follow makes queues and index begin where the log does. The caller holds
// retain.turn.
func (s *Store) follow(ctx context.Context) {
	t := &s.retain
	first := s.log.Min()
	if first != t.followed { // lower after the log was set aside
		if !s.raiseQueues(ctx, first) {
			return
		}
		if s.index != nil {
			if err := s.index.DropBelow(first); err != nil {
				s.opt.Log.Warn("cannot remove files of the key index", "error", err)
				return
			}
		}
		t.followed = first
	}
	s.sweepQueues(ctx)
}

// raiseQueues gives every queue its first message that is still in the log. False:
// something is left to do.
func (s *Store) raiseQueues(ctx context.Context, first int64) bool {
	var all []*Queue
	s.queues.each(func(q *Queue) { all = append(all, q) })
	complete := true
	for len(all) > 0 {
		if ctx.Err() != nil {
			return false
		}
		n := min(followBatch, len(all))
		s.keep.mu.Lock()
		for _, q := range all[:n] {
			if err := s.raiseQueue(q, first); err != nil {
				s.opt.Log.Warn("cannot find the first message of a queue", "topic", q.topic, "queue", q.id, "error", err)
				complete = false
			}
		}
		s.keep.mu.Unlock()
		all = all[n:]
	}
	return complete
}

// raiseQueue does it for one queue. The caller holds retain.turn and keep.mu.
func (s *Store) raiseQueue(q *Queue, first int64) error {
	low, high := q.min.Load(), q.max.Load() // in this order: a cut lowers both
	if q.gone.Load() || low == high || q.lowPhys >= first && q.lowCuts == s.cuts.Load() {
		return nil
	}
	to, err := q.cq.FirstFrom(first)
	if err != nil {
		return err
	}
	u, known := s.unitNumber(q, to)
	s.note.mu.Lock()
	q.lowPhys = 0
	if known {
		q.lowPhys, q.lowCuts = u.Phys, s.cuts.Load()
	}
	s.note.mu.Unlock()
	if q.batch {
		if to, err = q.offsetOf(to); err != nil {
			return err
		}
	}
	if to <= low {
		return nil
	}
	if !q.min.CompareAndSwap(low, min(to, high)) {
		return errors.New("it was begun anew meanwhile")
	}
	if !q.sweeping {
		q.sweeping = true
		s.retain.sweep = append(s.retain.sweep, q)
	}
	return nil
}

// sweepQueues removes files of queues whose messages are gone, for half of the
// time between two runs; the rest is for the next one.
func (s *Store) sweepQueues(ctx context.Context) {
	t := &s.retain
	r := s.retention.Load()
	until := time.Now().Add(r.Every / 2)
	for len(t.sweep) > 0 && ctx.Err() == nil {
		q := t.sweep[0]
		files, err := s.sweepQueue(q, false)
		if err != nil {
			s.opt.Log.Warn("cannot remove files of a queue", "topic", q.topic, "queue", q.id, "error", err)
			return
		}
		t.sweep[0] = nil
		t.sweep = t.sweep[1:]
		if files > 0 {
			if time.Now().After(until) {
				return
			}
			pause(ctx, r.QueuePause)
		}
	}
}

// sweepQueue removes the files of one queue that hold nothing any more, and
// returns how many.
func (s *Store) sweepQueue(q *Queue, dryRun bool) (int, error) {
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	if q.gone.Load() {
		return 0, nil
	}
	bases, err := q.cq.Expired(s.log.Min())
	if err != nil || dryRun {
		return len(bases), err
	}
	if err := q.cq.Drop(bases); err != nil {
		return 0, err
	}
	if u, ok := s.unitAt(q, q.min.Load()); ok {
		if err := q.cq.DropExtBelow(u); err != nil {
			return len(bases), err
		}
	}
	q.sweeping = false
	return len(bases), nil
}

// Cleaned is what a clean-up removed, or would have.
type Cleaned struct {
	Files  int
	Left   int      // files that are due and go later, in the background
	Bytes  int64    // by the sizes of the files; sparse ones took less
	Topics []string // of CleanTopics
}

// CleanLog deletes the files of the log whose messages are too old, now and at any
// hour; dryRun only counts them. They vanish one by one, LogPause apart; what
// ctx's end leaves, later runs delete.
func (s *Store) CleanLog(ctx context.Context, dryRun bool) (Cleaned, error) {
	var c Cleaned
	if !s.retain.take(ctx) {
		return c, ctx.Err()
	}
	defer s.retain.give()
	r := s.retention.Load()
	if dryRun {
		c.Files = s.countDue(r, 1<<30)
		c.Bytes = int64(c.Files) * s.log.SegmentBytes()
		return c, nil
	}
	if err := s.usable(); err != nil {
		return c, err
	}
	for ctx.Err() == nil {
		base, due := s.oldestDue(r, false)
		if !due {
			break
		}
		if err := s.deleteFirst(base, byDemand); err != nil {
			return c, err
		}
		c.Files++
		c.Bytes += s.log.SegmentBytes()
		pause(ctx, r.LogPause)
	}
	if ctx.Err() != nil {
		c.Left = s.countDue(r, 1<<30)
	}
	if c.Files > 0 || c.Left > 0 {
		s.follow(ctx)
		s.DeleteExpired() // the loop frees the space, and does the rest
	}
	return c, nil
}

// CleanQueues removes the files of queues that point before the start of the log;
// dryRun only counts them. A queue without messages keeps its last file, and with
// it its numbers: unlike RocketMQ's CLEAN_EXPIRED_CONSUMEQUEUE it does not begin
// at 0 again.
func (s *Store) CleanQueues(ctx context.Context, dryRun bool) (Cleaned, error) {
	var c Cleaned
	if !s.retain.take(ctx) {
		return c, ctx.Err()
	}
	defer s.retain.give()
	if err := s.usable(); err != nil && !dryRun {
		return c, err
	}
	first := s.log.Min()
	if !dryRun && !s.raiseQueues(ctx, first) {
		return c, ctx.Err()
	}
	var all []*Queue
	s.queues.each(func(q *Queue) { all = append(all, q) })
	for _, q := range all {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		n, err := s.sweepQueue(q, dryRun)
		if err != nil {
			return c, err
		}
		c.Files += n
		c.Bytes += int64(n) * q.cq.FileBytes()
	}
	return c, nil
}

// usable is nil unless the store is closed or its disk is not to be trusted; a full
// disk is.
func (s *Store) usable() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.sick.Load(); err != nil {
		return *err
	}
	return nil
}
