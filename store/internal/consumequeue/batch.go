package consumequeue

import (
	"encoding/binary"
	"sort"
)

// BatchUnitBytes is the size of a unit of a batch queue (Java: BatchConsumeQueue):
// what a plain unit has, then
//
//	20 store time of the record                     8
//	28 queue offset of the first message in it      8
//	36 number of messages in it                     2
//	38 compacted offset, always -1                  4
//	42 reserved, always 0                           4
//
// Units lie one after the other whatever their offsets are; a message is found by
// a search.
const BatchUnitBytes = 46

// BatchUnit points to one record that may hold many messages.
type BatchUnit struct {
	Unit
	Millis int64 // store time
	Base   int64 // queue offset of the first message
	Count  int16 // messages, at least 1
}

// Put encodes u into the first BatchUnitBytes bytes of b.
func (u *BatchUnit) Put(b []byte) {
	_ = b[BatchUnitBytes-1]
	u.Unit.Put(b)
	binary.BigEndian.PutUint64(b[20:], uint64(u.Millis))
	binary.BigEndian.PutUint64(b[28:], uint64(u.Base))
	binary.BigEndian.PutUint16(b[36:], uint16(u.Count))
	binary.BigEndian.PutUint32(b[38:], 0xFFFFFFFF)
	binary.BigEndian.PutUint32(b[42:], 0)
}

// DecodeBatch reads the unit at the start of b.
func DecodeBatch(b []byte) BatchUnit {
	_ = b[BatchUnitBytes-1]
	return BatchUnit{
		Unit:   Decode(b),
		Millis: int64(binary.BigEndian.Uint64(b[20:])),
		Base:   int64(binary.BigEndian.Uint64(b[28:])),
		Count:  int16(binary.BigEndian.Uint16(b[36:])),
	}
}

// Valid is false for the zeros behind the last unit, and for nonsense.
func (u *BatchUnit) Valid() bool { return u.Unit.Valid() && u.Base >= 0 && u.Count > 0 }

// Next is the queue offset behind the messages of u.
func (u *BatchUnit) Next() int64 { return u.Base + int64(u.Count) }

// BatchAt reads unit number n of a batch queue; false if it is not there.
func (q *Queue) BatchAt(n int64) (BatchUnit, bool, error) {
	var b [BatchUnitBytes]byte
	got, err := q.ReadRaw(b[:], n)
	if err != nil || got == 0 {
		return BatchUnit{}, false, err
	}
	return DecodeBatch(b[:]), true, nil
}

// FindBatch is the number of the unit that holds the message with a queue offset,
// or of the first one behind it where none does. Units have rising offsets.
func (q *Queue) FindBatch(offset int64) (int64, error) {
	first, end := q.Bounds()
	// Most readers are near the end.
	if end > first {
		if u, ok, err := q.BatchAt(end - 1); err == nil && ok && u.Base <= offset {
			if offset < u.Next() {
				return end - 1, nil
			}
			return end, nil
		}
	}
	var failed error
	n := sort.Search(int(end-first), func(i int) bool {
		if failed != nil {
			return true
		}
		u, ok, err := q.BatchAt(first + int64(i))
		if err != nil {
			failed = err
		}
		return !ok || u.Next() > offset
	})
	return first + int64(n), failed
}
