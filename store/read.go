package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
)

// Filter decides which messages a read returns; nil means all.
type Filter interface {
	MatchTag(tagsCode int64) bool
}

// ReadResult is what Read found.
type ReadResult struct {
	Status          ReadStatus
	Next            record.QueueOffset // nextBeginOffset
	Min, Max        record.QueueOffset
	Count           int
	Bytes           int
	Slow            bool  // suggestPullingFromSlave: further behind than the memory ratio
	LastStoreMillis int64 // store time of the last message returned
	Behind          int64 // maxOffsetPy - maxPhyOffsetPulling
	// Last is where the last record that was examined begins, matching or not, and
	// LastEnd where it ends; both 0 if none was.
	Last, LastEnd record.PhysOffset
	// Err is why the files could not be read on from Next. Messages found before
	// count; nothing is passed over.
	Err error
}

const unitChunk = 64

// readBuffer is the scratch space of one read.
type readBuffer struct {
	reader
	units [unitChunk * consumequeue.UnitBytes]byte // more than one unit of a batch queue
	head  [96]byte
	parts [maxRun]runPart
}

// reader is one call of Read.
type reader struct {
	s      *Store
	q      *Queue
	dst    []byte
	start  int // len(dst) at the beginning
	res    ReadResult
	max    int
	end    int64 // of the log when the read began
	memory int64 // what lies within this distance of the end counts as in memory

	// The run of records that lie back to back in the log and are still to be
	// copied.
	runAt   int64
	runSize int
	runMsgs int              // messages
	runLen  int              // records
	parts   *[maxRun]runPart // each of them

	lastAt  int   // where the last copied record starts in dst
	seen    int64 // position of the last unit examined, matching or not
	seenEnd int64
}

// Read appends up to max messages' records from offset to dst, concatenated.
// A nil q is NoMatchedLogicQueue.
func (s *Store) Read(dst []byte, q *Queue, offset record.QueueOffset, max int, f Filter) ([]byte, ReadResult) {
	if q == nil {
		return dst, ReadResult{Status: NoMatchedLogicQueue}
	}
	for start := len(dst); ; dst = dst[:start] {
		cuts, restarts := s.cuts.Load(), s.restarts.Load()
		var res ReadResult
		dst, res = s.read(dst, q, offset, max, f)
		if s.cuts.Load() == cuts && s.restarts.Load() == restarts {
			return dst, res
		}
		// The log was cut meanwhile, or the topic was made anew, and other messages may
		// have come in the place of those that were found.
	}
}

func (s *Store) read(dst []byte, q *Queue, offset record.QueueOffset, max int, f Filter) ([]byte, ReadResult) {
	res := ReadResult{Next: offset, Min: q.Min(), Max: q.Max()}
	if st, next := outside(offset, res.Min, res.Max); st != Found {
		res.Status, res.Next = st, next
		return dst, res
	}
	res.Status = NoMatchedMessage
	buf := s.reads.Get().(*readBuffer)
	buf.reader = reader{parts: &buf.parts, s: s, q: q, dst: dst, start: len(dst), res: res, max: max, end: s.log.End(), memory: s.inMemory()}
	if q.batch {
		buf.walkBatch(q, f)
	} else {
		buf.walk(q, f)
	}
	dst, res = buf.finish()
	buf.reader = reader{}
	s.reads.Put(buf)
	return dst, res
}

func (r *reader) finish() ([]byte, ReadResult) {
	res := &r.res
	res.Bytes = len(r.dst) - r.start
	if res.Count > 0 {
		res.Status = Found
		res.LastStoreMillis = storeMillis(r.dst[r.lastAt:])
	}
	res.Behind = r.end - r.seen
	res.Last, res.LastEnd = record.PhysOffset(r.seen), record.PhysOffset(r.seenEnd)
	res.Slow = res.Behind > r.memory
	return r.dst, *res
}

// outside finds offsets that have no message.
func outside(offset, first, end record.QueueOffset) (ReadStatus, record.QueueOffset) {
	switch {
	case end == 0:
		return NoMessageInQueue, 0
	case offset < first:
		return OffsetTooSmall, first
	case offset == end:
		return OffsetOverflowOne, offset
	case offset > end:
		return OffsetOverflowBadly, end
	}
	return Found, offset
}

// MemoryLimit is the distance in bytes from the end of the log that counts as in
// memory: MemoryBytes times the ratio.
func (s *Store) MemoryLimit() int64 { return s.inMemory() }

// inMemory is the distance from the end of the log that counts as in memory.
func (s *Store) inMemory() int64 {
	return int64(float64(s.memoryBytes.Load()) * (float64(s.memoryRatio.Load()) / 100))
}

// walk examines units from res.Next on.
func (r *readBuffer) walk(q *Queue, f Filter) {
	first := int64(r.res.Next)
	limit := int64(max(r.s.opt.MaxFilterBytes, r.max*consumequeue.UnitBytes)) / consumequeue.UnitBytes
	stop := min(int64(r.res.Max), first+limit)
	for at := first; at < stop; {
		want := min(stop-at, unitChunk)
		if f == nil {
			want = min(want, int64(max(r.max-r.res.Count-r.runMsgs+1, 1)))
		}
		n, err := q.cq.ReadRaw(r.units[:want*consumequeue.UnitBytes], at)
		if err != nil && consumequeue.Missing(err) && at == first {
			r.res.Status = OffsetFoundNull
			r.res.Next = record.QueueOffset(q.cq.NextFile(at))
			return
		}
		if err != nil && !consumequeue.Missing(err) && !errors.Is(err, io.EOF) {
			r.res.Err = fmt.Errorf("read queue %d of topic %s: %w", q.id, q.topic, err)
		}
		if err != nil || n == 0 {
			break
		}
		for i := range n {
			u := consumequeue.Decode(r.units[i*consumequeue.UnitBytes:])
			if !r.unit(u, at, 1, f) {
				r.copyRun()
				return
			}
			at++
			r.res.Next = record.QueueOffset(at)
		}
	}
	r.copyRun()
}

// unit takes the unit of n messages at a queue offset; false means that the answer
// ends before it.
func (r *reader) unit(u consumequeue.Unit, at int64, n int, f Filter) bool {
	count, bytes := r.res.Count+r.runMsgs, len(r.dst)-r.start+r.runSize
	if count > 0 && r.full(u, count, n, bytes) {
		return false
	}
	if u.IsVoid() || !u.Valid() {
		r.missing()
		return true
	}
	r.seen, r.seenEnd = u.Phys, u.End()
	if f != nil && !r.matches(u, f) {
		return true
	}
	if u.Phys < r.s.log.Min() || u.End() > r.end || r.s.inHole(u.Phys, u.End()) {
		r.missing()
		return true
	}
	if r.runLen > 0 && (r.runLen == maxRun || u.Phys != r.runAt+int64(r.runSize) || !r.s.log.SameSegment(u.Phys, r.runAt)) {
		if r.copyRun(); r.res.Err != nil {
			return false
		}
	}
	if r.runLen == 0 {
		r.runAt = u.Phys
	}
	r.runSize += int(u.Size)
	r.parts[r.runLen] = runPart{offset: at, size: u.Size, msgs: int32(n)}
	r.runLen++
	r.runMsgs += n
	return true
}

// matches filters by the tag code. A message whose extension unit is missing passes.
func (r *reader) matches(u consumequeue.Unit, f Filter) bool {
	if consumequeue.IsExtAddress(u.Tags) {
		tags, ok := r.q.cq.Tags(u)
		return !ok || f.MatchTag(tags)
	}
	return f.MatchTag(u.Tags)
}

// full says whether the answer cannot take another message.
func (r *reader) full(u consumequeue.Unit, count, n, bytes int) bool {
	if count+n > r.max {
		return true
	}
	o := &r.s.opt
	size := int(u.Size)
	if r.end-u.Phys <= r.memory {
		return bytes+size > o.MaxTransferMemoryBytes || count > o.MaxTransferMemoryCount-1
	}
	return bytes+size > o.MaxTransferDiskBytes || count > o.MaxTransferDiskCount-1
}

// missing notes a unit whose record is not there.
func (r *reader) missing() {
	if r.res.Count+r.runMsgs == 0 {
		r.res.Status = MessageWasRemoving
	}
}

func (s *Store) readFailed(pos int64, err error) {
	s.opt.Log.Error("cannot read the commit log", "phys_offset", pos, "error", err)
}

// Cold reports whether reading offset would likely touch the disk (further back
// than the memory ratio): such pulls go to the pool.
func (s *Store) Cold(q *Queue, offset record.QueueOffset) bool {
	if q == nil || s.log.End()-s.log.Min() <= s.inMemory() {
		return false
	}
	if offset < q.Min() || offset >= q.Max() {
		return false
	}
	u, ok := s.unitAt(q, int64(offset))
	return ok && s.log.End()-u.Phys > s.inMemory()
}

// unitAt is the unit of the message with a queue offset.
func (s *Store) unitAt(q *Queue, offset int64) (consumequeue.Unit, bool) {
	n, err := q.unitOf(offset)
	if err != nil {
		return consumequeue.Unit{}, false
	}
	return s.unitNumber(q, n)
}

// unitNumber is a unit by its number, which in a batch queue is no queue offset.
func (s *Store) unitNumber(q *Queue, number int64) (consumequeue.Unit, bool) {
	buf := s.reads.Get().(*readBuffer)
	defer s.reads.Put(buf)
	raw := buf.units[:consumequeue.BatchUnitBytes]
	if !q.batch {
		raw = raw[:consumequeue.UnitBytes]
	}
	n, err := q.cq.ReadRaw(raw, number)
	if err != nil || n == 0 {
		return consumequeue.Unit{}, false
	}
	return consumequeue.Decode(raw), true
}

// EndBefore is where the record before an offset of q ends in the log: what a
// replica must hold so that its queue reaches offset. 0 if there is none.
func (s *Store) EndBefore(q *Queue, offset record.QueueOffset) record.PhysOffset {
	if q == nil || offset <= q.Min() || offset > q.Max() {
		return 0
	}
	u, ok := s.unitAt(q, int64(offset)-1)
	if !ok || u.IsVoid() || !u.Valid() {
		return 0
	}
	return record.PhysOffset(u.End())
}

// Unit is one consume queue entry.
type Unit struct {
	Phys     record.PhysOffset
	Size     int32
	TagsCode int64
}

// Units appends up to n units from offset (for delay delivery, 321, lag). It
// returns fewer at the end of the queue, and none outside of it. A unit without
// message, as Apache leaves them in front of a queue that starts late, has the
// Size 0x7FFFFFFF.
func (s *Store) Units(dst []Unit, q *Queue, offset record.QueueOffset, n int) []Unit {
	if q == nil || offset < q.Min() {
		return dst
	}
	end := min(int64(q.Max()), int64(offset)+int64(n))
	if q.batch {
		return s.batchUnits(dst, q, int64(offset), end)
	}
	buf := s.reads.Get().(*readBuffer)
	defer s.reads.Put(buf)
	for at := int64(offset); at < end; {
		want := min(end-at, unitChunk)
		got, err := q.cq.ReadRaw(buf.units[:want*consumequeue.UnitBytes], at)
		if err != nil || got == 0 {
			break
		}
		for i := range got {
			u := consumequeue.Decode(buf.units[i*consumequeue.UnitBytes:])
			if s.hasExt && consumequeue.IsExtAddress(u.Tags) {
				if tags, ok := q.cq.Tags(u); ok {
					u.Tags = tags
				}
			}
			dst = append(dst, Unit{record.PhysOffset(u.Phys), u.Size, u.Tags})
		}
		at += int64(got)
	}
	return dst
}

// NoRecordError says that there is no record at a position: never written,
// expired, or no start of one.
type NoRecordError struct {
	Phys record.PhysOffset
	Err  error // may be nil
}

func (e *NoRecordError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("there is no message at commit log position %d", e.Phys)
	}
	return fmt.Sprintf("there is no message at commit log position %d: %v", e.Phys, e.Err)
}

// Unwrap returns the cause.
func (e *NoRecordError) Unwrap() error { return e.Err }

// Message appends the record at p to dst (checked: magic, its own position). A
// *NoRecordError means that none is there.
func (s *Store) Message(dst []byte, p record.PhysOffset) ([]byte, error) {
	buf := s.reads.Get().(*readBuffer)
	defer s.reads.Put(buf)
	head := buf.head[:36]
	if ok, err := s.log.Read(head, int64(p)); !ok {
		return dst, &NoRecordError{p, err}
	}
	size := int64(int32(binary.BigEndian.Uint32(head)))
	if s.inHole(int64(p), int64(p)+max(size, 1)) {
		return dst, &NoRecordError{p, errors.New("the log is damaged there")}
	}
	magic := int32(binary.BigEndian.Uint32(head[4:]))
	own := int64(binary.BigEndian.Uint64(head[28:]))
	if magic != record.MagicV1 && magic != record.MagicV2 || own != int64(p) ||
		size < record.MinSize || size > s.log.SegmentBytes() {
		return dst, &NoRecordError{p, nil}
	}
	start := len(dst)
	dst = slices.Grow(dst, int(size))[:start+int(size)]
	if ok, err := s.log.Read(dst[start:], int64(p)); !ok {
		return dst[:start], &NoRecordError{p, err}
	}
	if _, err := record.Parse(dst[start:]); err != nil {
		return dst[:start], &NoRecordError{p, err}
	}
	return dst, nil
}
