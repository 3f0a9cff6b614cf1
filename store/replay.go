package store

import (
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
)

// maxVoids bounds the units without message that a recovery puts into one gap.
const maxVoids = 1 << 20

// replay gives a scanned record its unit and keys where they are missing.
func (r *recovery) replay(v record.View) error {
	s := r.s
	if pos, ok := s.keep.deleted[string(v.Topic())]; ok && int64(v.PhysOffset()) < pos {
		return nil
	}
	e, hashes := s.entryOf(v)
	if e.phys >= r.indexFrom {
		r.indexFrom = e.phys + 1 // a second scan does not put it again
		for _, h := range hashes {
			if err := s.index.Put(h, e.phys, e.millis); err != nil {
				return err
			}
		}
	}
	if e.kind != queued {
		return nil
	}
	return r.replayUnit(&e)
}

// replayUnit appends the unit of a record, if the queue does not have it. errGap
// asks for a scan of the whole log.
func (r *recovery) replayUnit(e *entry) error {
	q := e.q
	first, end := q.cq.Bounds()
	u := consumequeue.Unit{Phys: e.phys, Size: e.size, Tags: e.tags}
	switch {
	case e.offset < first:
		// The log has a message that the queue's files begin behind: the first
		// of them is missing.
		if err := q.cq.Reset(); err != nil {
			return err
		}
		return errGap
	case e.offset < end:
		return r.compare(q, e, u)
	case e.offset > end:
		if !r.full {
			return errGap
		}
		if err := r.fillGap(q, e, first, end); err != nil {
			return err
		}
	}
	r.s.touch(q)
	return q.cq.Append(u)
}

// compare checks a unit that exists, when the whole log is checked. The newer
// record of one number is right: the topic was deleted and made again.
func (r *recovery) compare(q *Queue, e *entry, u consumequeue.Unit) error {
	if !r.full {
		return nil
	}
	var raw [consumequeue.UnitBytes]byte
	if n, err := q.cq.ReadRaw(raw[:], e.offset); n == 0 || err != nil {
		return err
	}
	old := consumequeue.Decode(raw[:])
	if old.Phys >= u.Phys && !old.IsVoid() {
		return nil
	}
	r.s.touch(q)
	if e.offset == 0 {
		q.cq.Cut(0)
		return q.cq.Append(u)
	}
	return q.cq.Overwrite(e.offset, u)
}

// fillGap makes the queue end where the record's number says, if records can
// have been lost in between: in front of the log or in a damaged part. Else the
// number in the record is wrong, and it gets the next one.
func (r *recovery) fillGap(q *Queue, e *entry, first, end int64) error {
	gap := e.offset - end
	switch {
	case first == 0 && end == 0 && (r.damaged || r.s.log.Min() > 0 || r.s.keep.deleted[q.topic] > 0):
		return q.cq.StartAt(e.offset)
	case !r.damaged && r.s.log.Min() == 0, gap > maxVoids, gap > e.phys/record.MinSize:
		r.shifted++
		return nil
	}
	for ; gap > 0; gap-- {
		if err := q.cq.Append(consumequeue.Void); err != nil {
			return err
		}
	}
	r.note("queue %d of %s: the %d messages from number %d on are missing in the log", q.id, q.topic, e.offset-end, end)
	return nil
}
