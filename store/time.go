package store

import (
	"mqctl/store/record"
)

// StoreTime of the message at offset, -1 if none.
func (s *Store) StoreTime(q *Queue, offset record.QueueOffset) int64 {
	if q == nil || offset < q.Min() || offset >= q.Max() {
		return -1
	}
	u, ok := s.unitAt(q, int64(offset))
	if !ok || !u.Valid() || u.IsVoid() {
		return -1
	}
	return s.storeTimeAt(u.Phys)
}

func (s *Store) storeTimeAt(phys int64) int64 {
	buf := s.reads.Get().(*readBuffer)
	defer s.reads.Put(buf)
	if millis, ok := s.log.StoreMillisAt(phys, buf.head[:]); ok {
		return millis
	}
	return -1
}

// EarliestTime is the store time of the oldest message of the log, -1 if empty.
func (s *Store) EarliestTime() int64 {
	if s.log.End() == s.log.Min() {
		return -1
	}
	return s.storeTimeAt(s.log.Min())
}

// OffsetByTime is the first (lower) or last (upper) offset at a store time, as
// SEARCH_OFFSET_BY_TIMESTAMP asks for. Between two messages lower is the later, upper the earlier
// one; lower behind the last is Max; before the first both are Min. A queue
// without messages has 0.
func (s *Store) OffsetByTime(q *Queue, millis int64, upper bool) record.QueueOffset {
	if q == nil {
		return 0
	}
	first, end := q.Min(), q.Max()
	if first >= end {
		return end
	}
	if !upper {
		return s.firstAfter(q, first, end, millis-1)
	}
	return max(s.firstAfter(q, first, end, millis)-1, first)
}

// firstAfter is the first offset whose store time is greater than millis, end
// if none. Store times do not decrease within a queue. A message that is not
// readable counts as old.
func (s *Store) firstAfter(q *Queue, first, end record.QueueOffset, millis int64) record.QueueOffset {
	for first < end {
		mid := first + (end-first)/2
		if t := s.StoreTime(q, mid); t > millis {
			end = mid
		} else {
			first = mid + 1
		}
	}
	return first
}
