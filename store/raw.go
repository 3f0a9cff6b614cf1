package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// ErrReplica is why a replica's store refuses appends of its own.
var ErrReplica = errors.New("the store follows a master and takes no messages of its own")

// errNoReplica is why a master's store refuses those of another.
var errNoReplica = errors.New("the store takes messages of its own and follows no master")

// RawRange is a stretch of one segment for a zero-copy send; Release it.
type RawRange struct {
	File   vfs.File // vfs.Descriptor gives its *os.File
	Offset int64    // in File
	Len    int64

	segment commitlog.Borrowed
}

// Release gives the segment free to be removed.
func (r RawRange) Release() { r.segment.Release() }

// Replica says whether the store follows a master.
func (s *Store) Replica() bool { return s.replica.Load() }

// SetReplica switches between a master's store (appends by Append and AppendAll)
// and a replica's (by AppendRaw only). When it returns no append of the other kind
// is under way. Turning it off gives every queue its next number from the log:
// everything appended is dispatched first, so that no number is left out or
// given twice. If that is not possible the store is read-only, as Writable says.
func (s *Store) SetReplica(on bool) {
	s.raw.mu.Lock()
	defer s.raw.mu.Unlock()
	if s.replica.Load() == on {
		return
	}
	if on {
		s.appendMu.Lock()
		s.replica.Store(true)
		s.appendMu.Unlock()
		return
	}
	err := s.settleQueues()
	if err == nil {
		err = s.dropBlank()
	}
	if err != nil {
		s.setSick(fmt.Errorf("become a master: %w", err))
	}
	s.appendMu.Lock()
	if s.raw.padTo > s.log.End() {
		s.log.SkipRest() // no message may come into the padding behind a blank
	}
	s.raw.padTo = 0
	s.replica.Store(false)
	s.appendMu.Unlock()
}

// settleQueues dispatches everything and takes the queues' next numbers from
// where they end.
func (s *Store) settleQueues() error {
	if err := s.dispatchAll(); err != nil {
		return err
	}
	var buf []byte
	s.queues.each(func(q *Queue) {
		_, n := q.cq.Bounds()
		end, err := q.offsetOf(n)
		if err != nil {
			end = q.max.Load()
		}
		s.appendMu.Lock()
		q.next.Store(max(end, q.max.Load()))
		s.appendMu.Unlock()
		buf = s.checkLast(q, end, buf)
	})
	return nil
}

// checkLast compares the number that the last message of a queue states with
// its place. Only damage makes them differ; the place counts.
func (s *Store) checkLast(q *Queue, end int64, buf []byte) []byte {
	if end == 0 || end == int64(q.Min()) || q.batch || light(q) {
		return buf
	}
	u, ok := s.unitAt(q, end-1)
	if !ok || u.IsVoid() || !u.Valid() {
		return buf
	}
	buf, err := s.Message(buf[:0], record.PhysOffset(u.Phys))
	var v record.View
	if err == nil {
		v, err = record.Parse(buf)
	}
	if err == nil && int64(v.QueueOffset()) != end-1 {
		err = fmt.Errorf("it states the number %d", v.QueueOffset())
	}
	if err != nil {
		s.opt.Log.Warn("the last message of a queue does not fit its place; new ones follow the queue",
			"topic", q.topic, "queue", q.id, "offset", end-1, "error", err)
	}
	return buf
}

// dispatchAll makes everything that is appended visible. Nothing may be
// appended meanwhile.
func (s *Store) dispatchAll() error {
	if s.opt.SyncFlush {
		s.flushOnce() // moves the bound
	}
	s.disp.mu.Lock()
	s.disp.stalled = false
	s.drain(false)
	s.unlockDispatch()
	if s.dispatched.Load() >= s.queuedEnd.Load() {
		return nil
	}
	if err := s.broken(); err != nil {
		return err
	}
	return fmt.Errorf("messages behind %d have no queue entries yet", s.dispatched.Load())
}

// checkPosition refuses positions outside of the log.
func (s *Store) checkPosition(p record.PhysOffset) error {
	if first, end := s.log.Min(), s.log.End(); int64(p) < first || int64(p) > end {
		return &NoRecordError{p, fmt.Errorf("the log has %d to %d", first, end)}
	}
	return nil
}

// ReadRaw fills dst with bytes of the log from p on, as many as are there, never
// across the end of a segment. In the place of holes it gives the records that fill
// them (FillHoles), so that a replica gets a log that can be walked. 0 at the end of the log. A *NoRecordError if p is not in the log.
func (s *Store) ReadRaw(dst []byte, p record.PhysOffset) (int, error) {
	for {
		cuts := s.cuts.Load()
		n, err := s.readRaw(dst, p)
		if s.cuts.Load() == cuts {
			return n, err
		}
	}
}

func (s *Store) readRaw(dst []byte, p record.PhysOffset) (int, error) {
	if err := s.checkPosition(p); err != nil {
		return 0, err
	}
	n := s.rawLen(int64(p), int64(len(dst)))
	if n <= 0 {
		return 0, nil
	}
	for got := 0; got < int(n); {
		k, ok, err := s.log.ReadView(dst[got:n], int64(p)+int64(got))
		if err != nil {
			return 0, fmt.Errorf("read the commit log at %d: %w", p, err)
		}
		if !ok {
			return 0, &NoRecordError{p, errors.New("its file is not there")}
		}
		got += k
	}
	return int(n), nil
}

// rawLen is how much of most bytes from p on lie before the end of the log and
// of their segment.
func (s *Store) rawLen(p, most int64) int64 {
	return min(most, s.log.End()-p, s.log.SegmentEnd(p)-p)
}

// RawFile is ReadRaw for sendfile: the open file and range, at most most bytes.
// ok is false where there is no such file (memory file systems), or a hole begins: use ReadRaw.
func (s *Store) RawFile(p record.PhysOffset, most int64) (r RawRange, ok bool, err error) {
	if err := s.checkPosition(p); err != nil {
		return RawRange{}, false, err
	}
	n := s.rawLen(int64(p), most)
	if h, ok := s.log.HoleFrom(int64(p)); ok {
		n = min(n, h.From-int64(p))
	}
	if n <= 0 {
		return RawRange{}, false, nil
	}
	seg, offset, ok := s.log.Borrow(int64(p))
	if !ok {
		return RawRange{}, false, &NoRecordError{p, errors.New("its file is not there")}
	}
	if _, ok := vfs.Descriptor(seg.File()); !ok {
		seg.Release()
		return RawRange{}, false, nil
	}
	return RawRange{File: seg.File(), Offset: offset, Len: n, segment: seg}, true, nil
}

// Lost is the stretch around p whose messages this store has lost: a hole, or the
// record that fills one. Another replica may have them, so what is there says nothing
// about whether two logs are the same. A record that is whole but for the position it
// states is not lost.
func (s *Store) Lost(p record.PhysOffset) (from, to record.PhysOffset, ok bool) {
	if h, in := s.log.HoleFrom(int64(p)); in && h.From <= int64(p) {
		return record.PhysOffset(h.From), record.PhysOffset(h.To), !h.Kept
	}
	at, found, err := s.RecordBefore(p)
	if err != nil || !found {
		return 0, 0, false
	}
	head := make([]byte, record.MinSize)
	n, err := s.ReadRaw(head, at)
	if err != nil || n < len(head) || !record.RolledBack(head) {
		return 0, 0, false
	}
	rec, err := s.Message(nil, at)
	if err != nil {
		return 0, 0, false
	}
	v, err := record.Parse(rec)
	if err != nil || !bytes.HasPrefix([]byte(commitlog.FillTopic), v.Topic()) {
		return 0, 0, false
	}
	to = at + record.PhysOffset(v.Size())
	if p >= to { // what follows up to the end of the file is no record
		to = record.PhysOffset(s.log.SegmentEnd(int64(at)))
	}
	return at, to, p < to
}

// AppendLost appends records to a replica's log, up to the position to, that say that
// their messages are lost (FillHoles): its master has a hole there, and goes on
// behind it.
func (s *Store) AppendLost(to record.PhysOffset) error {
	end := s.log.End()
	millis := int64(1)
	if p, ok := s.LastRecord(); ok {
		rec, err := s.Message(nil, p)
		if err != nil {
			return err
		}
		v, err := record.Parse(rec)
		if err != nil {
			return err
		}
		millis = max(millis, v.StoreMillis())
	}
	var left []byte // what is no whole record yet
	for pos := end; pos < int64(to); {
		piece, err := s.log.Filling(end, int64(to), pos, millis)
		if err != nil {
			return err
		}
		pos += int64(len(piece))
		left = append(left, piece...)
		n, err := s.AppendRaw(left)
		if err != nil {
			return err
		}
		left = append(left[:0], left[n:]...)
	}
	if got := s.log.End(); got != int64(to) {
		return fmt.Errorf("the log ends at %d after it was filled up to %d", got, to)
	}
	return nil
}

// sumBytes is how much RawSum reads at once.
const sumBytes = 256 << 10

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	sumBuffers = sync.Pool{New: func() any { return new([sumBytes]byte) }}
)

// RawSum is the CRC-32C of the bytes [from, to) of the log, to compare two replicas.
func (s *Store) RawSum(from, to record.PhysOffset) (uint32, error) {
	if from > to {
		return 0, fmt.Errorf("sum of the log from %d to %d: the end lies before the start", from, to)
	}
	if err := s.checkPosition(to); err != nil {
		return 0, err
	}
	buf := sumBuffers.Get().(*[sumBytes]byte)
	defer sumBuffers.Put(buf)
	cuts := s.cuts.Load()
	sum := uint32(0)
	for p := from; p < to; {
		n, err := s.ReadRaw(buf[:min(sumBytes, int64(to-p))], p)
		if err == nil && n == 0 || s.cuts.Load() != cuts {
			err = &NoRecordError{p, errors.New("the log was cut meanwhile")}
		}
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, buf[:n])
		p += record.PhysOffset(n)
	}
	return sum, nil
}

// Sync makes everything appended so far durable and returns how far that is.
// What it makes visible under SyncFlush is dispatched. An fsync under way does not
// hear of ctx.
func (s *Store) Sync(ctx context.Context) (record.PhysOffset, error) {
	if err := ctx.Err(); err != nil {
		return record.PhysOffset(s.log.Flushed()), err
	}
	s.flushOnce()
	if err := s.sick.Load(); err != nil {
		return record.PhysOffset(s.log.Flushed()), *err
	}
	return record.PhysOffset(s.log.Flushed()), nil
}

// StartAt makes an empty log begin at p, the start of a segment. Until something
// is appended nothing of that is on disk. Replica stores only.
func (s *Store) StartAt(p record.PhysOffset) error {
	s.raw.mu.Lock()
	defer s.raw.mu.Unlock()
	if !s.replica.Load() {
		return errNoReplica
	}
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	s.disp.mu.Lock()
	defer s.unlockDispatch()
	return s.takeBack(func() error {
		s.appendMu.Lock()
		defer s.appendMu.Unlock()
		if err := s.log.StartAt(int64(p)); err != nil {
			return fmt.Errorf("start the log at %d: %w", p, err)
		}
		s.raw.padTo = 0
		s.lastPhys.Store(-1)
		s.queuedEnd.Store(int64(p))
		s.dispatched.Store(int64(p))
		s.keep.marked, s.keep.queued = int64(p), int64(p)
		return nil
	})
}

// LastRecord is where the newest record begins; false if the log is empty.
func (s *Store) LastRecord() (record.PhysOffset, bool) {
	if p := s.lastPhys.Load(); p >= 0 {
		return record.PhysOffset(p), true
	}
	p, ok, err := s.RecordBefore(record.PhysOffset(s.log.End()))
	return p, ok && err == nil
}

// guides is how many queues RecordBefore asks where records begin.
const guides = 64

// RecordBefore is the start of the last record that begins at or before p, found
// from the segment's start or the queues; false if none.
func (s *Store) RecordBefore(p record.PhysOffset) (record.PhysOffset, bool, error) {
	at := min(int64(p), s.log.End())
	bases := s.log.Bases()
	for i := len(bases) - 1; i >= 0; i-- {
		if bases[i] > at || bases[i] >= s.log.End() {
			continue
		}
		found, ok, err := s.recordIn(bases[i], at)
		if ok || err != nil {
			return record.PhysOffset(found), ok, err
		}
	}
	return 0, false, nil
}

// recordIn walks the records of one segment up to at, beginning as near to it
// as the queues know.
func (s *Store) recordIn(base, at int64) (found int64, ok bool, err error) {
	from := max(base, s.guide(base, at))
	sc := s.log.Scan(from, true)
	end := min(s.log.End(), s.log.SegmentEnd(base))
	for sc.Pos() <= at && sc.Pos() < end {
		v, err := sc.Next()
		if err != nil {
			var bad *commitlog.BadError
			if errors.As(err, &bad) || errors.Is(err, io.EOF) || ok {
				return found, ok, nil // where no record is, none begins
			}
			return 0, false, err
		}
		if p := int64(v.PhysOffset()); p > at || p >= end {
			break
		}
		found, ok = int64(v.PhysOffset()), true
	}
	return found, ok, nil
}

// guide is the newest record at or before at that some queues know of, if it is
// one; else base.
func (s *Store) guide(base, at int64) int64 {
	best, left := base, guides
	s.queues.each(func(q *Queue) {
		if left == 0 || q.batch || q.Max() == q.Min() {
			return
		}
		left--
		n, err := q.cq.FirstFrom(at + 1)
		if err != nil || n <= int64(q.Min()) {
			return
		}
		if u, ok := s.unitAt(q, n-1); ok && !u.IsVoid() && u.Phys > best && u.Phys <= at {
			if s.storeTimeAt(u.Phys) >= 0 {
				best = u.Phys
			}
		}
	})
	return best
}

// TimeOf is the store time of the record that begins at or before p, -1 if
// unknown. It is cheap where a record begins at p.
func (s *Store) TimeOf(p record.PhysOffset) int64 {
	if millis := s.storeTimeAt(int64(p)); millis >= 0 {
		return millis
	}
	if at, ok, err := s.RecordBefore(p); ok && err == nil {
		return s.storeTimeAt(int64(at))
	}
	return -1
}

// setEnd makes a queue end at end. In a replica the next number follows.
func (s *Store) setEnd(q *Queue, end int64) {
	if s.replica.Load() {
		q.next.Store(end)
	}
	q.max.Store(end)
}

// maxQueueOffset bounds the numbers of a queue's messages, which no checksum
// covers.
const maxQueueOffset = 1 << 48

// misfit places a record whose number is not the next of its queue, as recovery
// does. That happens in a replica: it began in the middle of the master's log, the
// topic was deleted and made again, or numbers are missing.
func (s *Store) misfit(e *entry, u consumequeue.Unit) error {
	q := e.q
	first, end := q.cq.Bounds()
	gap := e.offset - end
	switch {
	case first == end && gap > 0 && e.offset < maxQueueOffset:
		if err := s.takeBack(func() error { return q.cq.StartAt(e.offset) }); err != nil {
			return err
		}
		q.min.Store(e.offset)
	case e.offset == 0:
		// The topic was deleted and made again: its old messages are gone.
		q.remade = true
		if err := s.restart(q); err != nil {
			return err
		}
	case gap > 0 && gap <= maxVoids && gap <= e.phys/record.MinSize:
		for range gap {
			if err := q.cq.Append(consumequeue.Void); err != nil {
				return err
			}
		}
		s.opt.Log.Warn("messages of a queue are missing in the log", "topic", q.topic, "queue", q.id, "offset", end, "missing", gap)
	}
	if err := q.cq.Append(u); err != nil {
		return err
	}
	_, end = q.cq.Bounds()
	if s.replica.Load() {
		q.next.Store(end)
	}
	q.max.Store(end)
	return nil
}

// restart makes a queue empty whose topic was deleted and made again.
func (s *Store) restart(q *Queue) error {
	return s.takeBack(func() error {
		s.setEnd(q, 0)
		q.min.Store(0)
		s.restarts.Add(1)
		return q.cq.Reset()
	})
}
