package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// A start after kill -9 takes the queues from the snapshot that the dead process wrote last,
// and looks only at those that got messages since: the scan of the log begins where the
// snapshot ends. What was written is all there, since the machine did not go down; so what
// lies in queue files behind the snapshot has its records in the log, and is
// written again as it is.
//
// Whatever is not as it has to be then (a queue without its files, a gap, damage in the log) makes
// the recovery begin anew, with every queue looked at.
var errDoubt = errors.New("what the killed process left is not as it noted")

func (s *Store) resume(inv *inventory, rec *Recovery, sn *snapshot) error {
	r := &recovery{
		s: s, inv: inv, rec: rec, states: map[*Queue]*queueState{}, meter: meter{report: s.opt.Progress},
		from: sn.end, limit: sn.end, millis: sn.millis, resumed: true,
		unknown: inv.progress.dispatched < sn.end,
	}
	notes, findings := len(rec.Notes), len(rec.Findings)
	end, err := r.again(sn)
	if errors.Is(err, errGap) || errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errDoubt, err)
	}
	if err != nil {
		rec.Notes, rec.Findings = rec.Notes[:notes], rec.Findings[:findings]
		return err
	}
	capDeleted(s.keep.deleted, end)
	if err := r.setEnd(end); err != nil {
		return err
	}
	return r.finish(end)
}

// again restores the queues and scans.
func (r *recovery) again(sn *snapshot) (end int64, err error) {
	if err := r.startIndex(); err != nil {
		return 0, err
	}
	r.restore(sn)
	if err := r.raiseRestored(sn); err != nil {
		return 0, err
	}
	return r.scan()
}

// raiseRestored gives the queues of a snapshot their first message that is still in the log:
// retention may not have come to that.
func (r *recovery) raiseRestored(sn *snapshot) error {
	first := r.s.log.Min()
	for i := range sn.queues {
		from := &sn.queues[i]
		if first == 0 || from.low >= first || from.min == from.max {
			continue // its first message is still there, or it had none
		}
		if err := r.raise(r.s.Queue(from.topic, from.id), first); err != nil {
			return err
		}
	}
	return nil
}

// raise gives a queue its first message that is still in the log.
func (r *recovery) raise(q *Queue, minPhys int64) error {
	if err := q.cq.RaiseFirst(); err != nil {
		return err
	}
	first, err := q.cq.FirstFrom(minPhys)
	if err == nil && q.batch {
		first, _, err = batchBounds(q, first)
	}
	q.min.Store(min(first, q.max.Load()))
	return err
}

// defers says that the first mark makes safe what the dead process wrote. That may be
// gigabytes, and the store can serve meanwhile: until then progress says what is safe.
func (r *recovery) defers() bool {
	return r.resumed && r.s.disk != nil && r.inv.progress.dispatched >= 0
}

// leaveSyncs is the end of a recovery that defers, in the place of a mark.
func (r *recovery) leaveSyncs() {
	s, p := r.s, r.inv.progress
	s.flushedMillis.Store(min(r.millis, r.inv.check.PhysMillis))
	s.keep.marked, s.keep.queued, s.keep.indexed = p.dispatched, p.dispatched, p.index
	s.keep.unsynced = true
	s.keep.lastMark = time.Time{} // due at once
	s.keepOnce()                  // the next start knows no less if this process is killed too
}

// touch takes the files of a queue that has messages behind the snapshot.
func (r *recovery) touch(e *entry) error {
	q := e.q
	ok, err := q.cq.Adopt()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: files of queue %d of %s", errDoubt, q.id, q.topic)
	}
	r.touched = append(r.touched, q)
	if q.batch {
		r.states[q] = &queueState{} // looked at; batchState knows the rest
		return nil
	}
	if e.offset == 0 {
		_, err = r.state(q) // it may have been made again: its last unit is looked at
		return err
	}
	first, end := q.cq.Bounds()
	r.states[q] = &queueState{last: r.limit - 1, scratch: first == end}
	return nil
}

// finishTouched gives the queues with new units their ends.
func (r *recovery) finishTouched(minPhys int64) error {
	for _, q := range r.touched {
		err := q.cq.Write()
		if err == nil && r.s.hasExt {
			err = q.cq.Settle()
		}
		if err != nil {
			return err
		}
		_, end := q.cq.Bounds()
		first := q.min.Load()
		if first == q.max.Load() || q.remade || q.batch { // else it began before
			if first, err = q.cq.FirstFrom(minPhys); err == nil && q.batch {
				first, end, err = batchBounds(q, first)
			}
			if err != nil {
				return err
			}
		}
		q.min.Store(first)
		q.max.Store(end)
		q.next.Store(end)
		r.s.touch(q)
	}
	return nil
}

// forgetQueues takes back what a recovery that was given up has in memory.
func (s *Store) forgetQueues() {
	s.queues.each(func(q *Queue) { q.cq.Detach() })
	s.queues.mu.Lock()
	clear(s.queues.topics)
	s.queues.mu.Unlock()
	s.disp.arrived, s.disp.dirty = slices.Delete(s.disp.arrived, 0, len(s.disp.arrived)), nil
}
