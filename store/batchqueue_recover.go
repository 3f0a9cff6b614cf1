package store

import (
	"mqctl/store/internal/consumequeue"
)

// batchState is what a recovery knows about one batch queue.
type batchState struct {
	last   int64 // position of the record of the last unit, -1 if none
	next   int64 // queue offset behind it
	anew   bool  // its units were dropped: a scan of the whole log makes them all
	placed bool
}

func (r *recovery) batchState(q *Queue) (*batchState, error) {
	if st := r.batches[q]; st != nil {
		return st, nil
	}
	st := &batchState{last: -1}
	first, end := q.cq.Bounds()
	if end > first {
		u, ok, err := q.cq.BatchAt(end - 1)
		if err != nil {
			return nil, err
		}
		if ok {
			st.last, st.next = u.Phys, u.Next()
		}
	}
	if r.batches == nil {
		r.batches = map[*Queue]*batchState{}
	}
	r.batches[q] = st
	return st, nil
}

// replayBatch appends the unit of a record to a batch queue that lacks it. The files
// of such a queue do not follow from the offsets, so where something is missing in
// the middle, all units are made again from the log.
func (r *recovery) replayBatch(e *entry) error {
	q := e.q
	st, err := r.batchState(q)
	if err != nil {
		return err
	}
	if r.full && !st.anew {
		st.anew = true
		if st.last >= 0 && e.offset < st.next && e.phys <= st.last {
			if err := q.cq.Reset(); err != nil {
				return err
			}
			st.last, st.next, st.placed = -1, 0, false
		}
	}
	switch {
	case e.phys <= st.last:
		return nil
	case e.offset == 0 && st.next > 0:
		// The topic was deleted and made again: its old messages are gone.
		q.remade = true
		if err := q.cq.Reset(); err != nil {
			return err
		}
	case e.offset > st.next && !r.full:
		return errGap
	case e.offset > st.next && st.placed:
		r.note("queue %d of %s: the messages %d to %d are missing in the log", q.id, q.topic, st.next, e.offset-1)
	case e.offset < st.next:
		r.shifted++
		e.offset = st.next
	}
	st.last, st.next, st.placed = e.phys, e.offset+int64(e.count), true
	r.s.touch(q)
	return q.cq.AppendBatch(e.batchUnit())
}

// batchBounds are the first and the next queue offset of a batch queue whose units
// from number n on are in the log.
func batchBounds(q *Queue, n int64) (first, end int64, err error) {
	lo, hi := q.cq.Bounds()
	if lo == hi {
		return 0, 0, nil
	}
	var u consumequeue.BatchUnit
	if u, _, err = q.cq.BatchAt(hi - 1); err != nil {
		return 0, 0, err
	}
	end = u.Next()
	if n >= hi {
		return end, end, nil
	}
	u, _, err = q.cq.BatchAt(n)
	return u.Base, end, err
}
