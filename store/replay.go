package store

import (
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
)

// maxVoids bounds the units without message that a recovery puts into one gap.
const maxVoids = 1 << 20

// queueState is what a recovery knows about one queue.
type queueState struct {
	// units from ahead on, so that ten thousand queues need not be opened for each record
	units   []byte
	ahead   int64
	made    int64 // units that a scan of the whole log added
	last    int64 // position of the message of the last unit, -1 if none
	scratch bool  // the queue had no units when the scan began
	reset   bool  // it was emptied, since its first file is missing
}

func (r *recovery) state(q *Queue) (*queueState, error) {
	if st := r.states[q]; st != nil {
		return st, nil
	}
	st := &queueState{last: -1}
	first, end := q.cq.Bounds()
	st.scratch = first == end
	for ; end > first && st.last < 0; end-- {
		u, err := r.unitAt(q, end-1)
		if err != nil {
			return nil, err
		}
		if !u.IsVoid() {
			st.last = u.Phys
		}
	}
	r.states[q] = st
	return st, nil
}

// unitAhead is unitAt by a queue's state, which reads ahead.
func (r *recovery) unitAhead(q *Queue, st *queueState, n int64) (consumequeue.Unit, error) {
	at := (n - st.ahead) * consumequeue.UnitBytes
	if at < 0 || at >= int64(len(st.units)) {
		if st.units == nil {
			st.units = make([]byte, unitsAhead*consumequeue.UnitBytes)
		}
		st.units = st.units[:cap(st.units)]
		got, err := q.cq.ReadRaw(st.units, n)
		st.units, st.ahead, at = st.units[:max(got, 0)*consumequeue.UnitBytes], n, 0
		if err != nil || got == 0 {
			return consumequeue.Unit{}, err
		}
	}
	return consumequeue.Decode(st.units[at:]), nil
}

// unitsAhead is how many units of a queue a scan reads at once.
const unitsAhead = 64

// forget drops what was read ahead, since units were changed.
func (st *queueState) forget() { st.units = st.units[:0] }

func (r *recovery) unitAt(q *Queue, n int64) (consumequeue.Unit, error) {
	var raw [consumequeue.UnitBytes]byte
	_, err := q.cq.ReadRaw(raw[:], n)
	return consumequeue.Decode(raw[:]), err
}

// replay gives a scanned record its unit and keys where they are missing.
func (r *recovery) replay(v record.View) error {
	s := r.s
	if pos, ok := s.keep.deleted[string(v.Topic())]; ok && int64(v.PhysOffset()) < pos {
		// Its queues are gone; its keys are found until the log loses the message, as
		// they were before.
		return r.replayKeys(int64(v.PhysOffset()), v.StoreMillis(), s.keysOf(v))
	}
	if string(v.Topic()) == commitlog.FillTopic {
		r.damaged = true // the numbers of what it replaced are missing
	}
	e, hashes := s.describe(v, s.hashBuf[:0], int64(v.PhysOffset()) >= r.indexFrom)
	s.hashBuf = hashes
	if err := r.replayKeys(e.phys, e.millis, hashes); err != nil {
		return err
	}
	if e.kind != queued || r.resumed && e.phys < r.limit {
		return nil
	}
	if r.resumed && r.states[e.q] == nil {
		if err := r.touch(&e); err != nil {
			return err
		}
	}
	if e.q.batch {
		return r.replayBatch(&e)
	}
	st, err := r.state(e.q)
	if err != nil {
		return err
	}
	return r.replayUnit(&e, st)
}

// replayKeys puts the keys of a record into the index, if they are not there.
func (r *recovery) replayKeys(phys, millis int64, hashes []int32) error {
	if phys < r.indexFrom {
		return nil
	}
	r.indexFrom = phys + 1 // a second scan does not put it again
	for _, h := range hashes {
		if err := r.s.index.Put(h, phys, millis); err != nil {
			return err
		}
	}
	return nil
}

// replayUnit appends the unit of a record, if the queue does not have it. errGap
// asks for a scan of the whole log.
//
// The number in a record has no checksum. So where it contradicts what queue
// and log say together, the record gets the next number: the place between its
// neighbours is right even if its own word is not.
func (r *recovery) replayUnit(e *entry, st *queueState) error {
	q := e.q
	first, end := q.cq.Bounds()
	u := consumequeue.Unit{Phys: e.phys, Size: e.size, Tags: e.tags, Millis: e.millis}
	switch {
	case e.offset == 0 && end > 0 && e.phys > st.last:
		// The topic was deleted and made again: its old messages are gone.
		st.last = -1
		st.forget()
		q.remade = true
		if err := q.cq.Reset(); err != nil {
			return err
		}
	case e.offset < first && !st.reset:
		// The log has a message that the queue's files begin behind: the first
		// of them is missing.
		st.reset = true
		st.scratch, st.last = true, -1
		st.forget()
		if err := q.cq.Reset(); err != nil {
			return err
		}
		return errGap
	case e.offset < first:
		r.misnumbered(e)
	case e.offset < end:
		if done, err := r.compare(e, st, u); done || err != nil {
			return err
		}
	case e.phys <= st.last:
		return nil // the topic was deleted since and made again
	case e.offset > end:
		if !r.full {
			return errGap
		}
		if err := r.fillGap(q, e, first, end); err != nil {
			return err
		}
	}
	return r.appendUnit(q, st, u)
}

func (r *recovery) appendUnit(q *Queue, st *queueState, u consumequeue.Unit) error {
	if u.Phys <= st.last {
		return nil
	}
	st.last = u.Phys
	st.made++
	r.s.touch(q)
	return q.cq.Append(u)
}

// compare looks at a unit that exists already. done is false if the record
// needs a unit of its own all the same.
func (r *recovery) compare(e *entry, st *queueState, u consumequeue.Unit) (done bool, err error) {
	if !r.full {
		return true, nil
	}
	q := e.q
	old, err := r.unitAhead(q, st, e.offset)
	if err != nil {
		return true, err
	}
	if old.Phys == u.Phys && old.Size == u.Size {
		if tags, ok := q.cq.Tags(old); !ok || consumequeue.IsExtAddress(old.Tags) && tags != u.Tags {
			// The extension of the queue lost it, or has something else there.
			st.forget()
			r.s.touch(q)
			return true, q.cq.Overwrite(e.offset, u)
		}
		return true, nil
	}
	good := !old.IsVoid()
	if good {
		if r.buf, good, err = r.matches(q, e.offset, old, r.buf); err != nil {
			return true, err
		}
	}
	switch {
	case !good:
		r.wrongUnit(e, old)
		st.forget()
		r.s.touch(q)
		return true, q.cq.Overwrite(e.offset, u)
	case e.phys <= st.last:
		return true, nil // of a topic that was deleted since and made again
	case e.offset == 0 && st.scratch:
		// The other way round: this is the first message after that.
		q.cq.Cut(0)
		st.forget()
		return false, nil
	}
	r.misnumbered(e)
	return false, nil
}

// fillGap makes the queue end where the record's number says, if records can
// have been lost in between: in front of the log or in a damaged part. Else the
// number in the record is wrong.
func (r *recovery) fillGap(q *Queue, e *entry, first, end int64) error {
	gap := e.offset - end
	lost := r.damaged || r.s.log.Min() > 0
	switch {
	case first == end && (lost || r.s.keep.deleted[q.topic] > 0) && e.offset < 1<<48:
		return q.cq.StartAt(e.offset)
	case !lost, gap > maxVoids, gap > e.phys/record.MinSize:
		r.misnumbered(e)
		return nil
	}
	for range gap {
		if err := q.cq.Append(consumequeue.Void); err != nil {
			return err
		}
	}
	r.note("queue %d of %s: the %d messages from number %d on are missing in the log", q.id, q.topic, gap, end)
	return nil
}
