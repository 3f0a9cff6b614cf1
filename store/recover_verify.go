package store

import (
	"slices"

	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
)

// maxCut is how many units that do not fit the log are remembered of one queue.
const maxCut = 1 << 16

// verify compares the last unit with the log, and goes back until one fits. If
// it had to, the scan must begin behind the last good record of this queue.
func (r *recovery) verify(q *Queue) error {
	first, end := q.cq.Bounds()
	var buf []byte
	var cut []consumequeue.BatchUnit
	good, from := end, int64(0)
	for ; good > first; good-- {
		u, err := r.anyUnitAt(q, good-1)
		if err != nil {
			return err
		}
		if q.batch && !u.Valid() {
			continue
		}
		if u.IsVoid() || u.Phys < r.s.log.Min() {
			from = r.s.log.Min()
			break
		}
		var ok bool
		if buf, ok, err = r.matches(q, u.Base, u.Unit, buf); err != nil {
			return err
		}
		if ok || r.lost(u.Unit) {
			from = u.End()
			break
		}
		if u.Valid() && len(cut) < maxCut {
			cut = append(cut, u)
		}
	}
	if good == end {
		return nil
	}
	q.cq.Cut(good)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut == nil {
		r.cut = map[*Queue][]consumequeue.BatchUnit{}
	}
	r.cut[q] = cut
	r.queueFinding(q, good, end, QueueWrongEntry, "cut off, and made again as far as the log has them")
	r.from = min(r.from, max(from, r.s.log.Min()))
	r.full = r.from <= r.s.log.Min()
	r.trusted, r.gap = false, true
	return nil
}

// anyUnitAt is unit number n of a queue, which of a plain queue leads to the one message
// with that offset. Its size is 0 where the files of a batch queue have nothing.
func (r *recovery) anyUnitAt(q *Queue, n int64) (consumequeue.BatchUnit, error) {
	if q.batch {
		u, _, err := q.cq.BatchAt(n)
		return u, err
	}
	u, err := r.unitAt(q, n)
	return consumequeue.BatchUnit{Unit: u, Base: n, Count: 1}, err
}

// lost reports whether a unit leads into a missing file, or a hole that was known before: it keeps the
// number of its message from being given again.
func (r *recovery) lost(u consumequeue.Unit) bool {
	if u.Valid() && u.Phys >= r.s.log.Min() && u.End() <= r.s.log.End() && !r.s.log.HasFile(u.Phys) {
		return true
	}
	return inOneOf(r.inv.holes, u)
}

func inOneOf(holes []commitlog.Hole, u consumequeue.Unit) bool {
	return slices.ContainsFunc(holes, func(h commitlog.Hole) bool { return u.Phys < h.To && u.End() > h.From })
}

// keepNumbers gives a queue its last units back whose messages are lost in the middle of
// the log: a consumer may have been behind them, and would pass over messages that got
// their numbers. Units that lead to what is no part of the log any more stay away: nobody
// was promised their messages.
func (r *recovery) keepNumbers(q *Queue) error {
	cut := r.cut[q]
	_, end := q.cq.Bounds()
	next, last := end, int64(-1)
	if end > 0 {
		u, err := r.anyUnitAt(q, end-1)
		if err != nil {
			return err
		}
		if !u.IsVoid() {
			last = u.Phys
		}
		if q.batch {
			next = u.Next()
		}
	}
	for _, u := range slices.Backward(cut) {
		if u.Base < next || u.Phys <= last || !inOneOf(r.holes, u.Unit) {
			continue
		}
		for ; !q.batch && next < u.Base; next++ {
			if err := q.cq.Append(consumequeue.Void); err != nil {
				return err
			}
		}
		var err error
		if q.batch {
			err = q.cq.AppendBatch(&u)
		} else {
			err = q.cq.Append(u.Unit)
		}
		if err != nil {
			return err
		}
		next, last = u.Next(), u.Phys
	}
	return nil
}
