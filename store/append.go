package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// AppendAll gives every item its offsets and writes them in one piece per
// segment, then dispatches as far as the dispatch bound allows (async flush:
// all of it). It never waits for an fsync. With SyncFlush the caller then calls
// WaitFlushed with End().
func (s *Store) AppendAll(b *Batch) {
	if len(b.Items) == 0 {
		return
	}
	begin := time.Now()
	if s.Writable() != nil {
		b.fail(0, ServiceNotAvailable)
		s.stats.add(b, begin)
		return
	}
	done := 0
	if b.joins() && s.join(b) {
		done = len(b.Items)
	}
	for done < len(b.Items) {
		s.appendMu.Lock()
		done = s.appendLocked(b, done)
		s.appendMu.Unlock()
		if done < len(b.Items) {
			// No next segment is ready: make it here, with no lock held.
			if err := s.log.Prepare(); err != nil {
				b.fail(done, s.prepareFailed(err))
				break
			}
		}
	}
	s.stats.add(b, begin)
	if s.log.NeedsPrepare() {
		notify(s.prepareWake)
	}
	s.opt.OnAppend(record.PhysOffset(s.log.End()))
	s.dispatch()
}

// appendLocked appends items from first on and returns the first that needs
// another segment, or their number. The caller holds appendMu.
func (s *Store) appendLocked(b *Batch, first int) int {
	if s.closed.Load() || s.sick.Load() != nil || s.replica.Load() {
		b.fail(first, ServiceNotAvailable)
		return len(b.Items)
	}
	now := s.storeMillis()
	for first < len(b.Items) {
		next := b.fit(first, s.log.Room()-record.BlankSize)
		if next == first {
			rolled, err := s.log.Roll()
			if err != nil {
				s.writeFailed(b, first, err, true)
				return len(b.Items)
			}
			if !rolled {
				return first
			}
			continue
		}
		base := s.log.End()
		piece := s.assign(b, first, next, base, now)
		if len(piece) == 0 { // only messages that Add refused
			first = next
			continue
		}
		if err, sick := s.log.Write(piece); err != nil {
			b.unassign(first, next)
			s.writeFailed(b, first, err, sick)
			return len(b.Items)
		}
		b.end = record.PhysOffset(s.log.End())
		s.push(b, first, next)
		first = next
	}
	return first
}

// fit returns up to which item everything fits into room bytes without
// splitting a client batch.
func (b *Batch) fit(first int, room int64) int {
	used := int64(0)
	for i := first; i < len(b.Items); {
		j := i
		need := int64(0)
		for group := b.Items[i].Group; ; {
			need += int64(b.Items[j].Size)
			j++
			if group == 0 || j == len(b.Items) || b.Items[j].Group != group {
				break
			}
		}
		if used+need > room && need > 0 {
			return i
		}
		used += need
		i = j
	}
	return len(b.Items)
}

// assign sets the offsets and the store time of items [first, next), which will
// lie at base, and returns their bytes.
func (s *Store) assign(b *Batch, first, next int, base, now int64) []byte {
	from := b.Items[first].at
	to := from
	for i := first; i < next; i++ {
		it := &b.Items[i]
		if it.Size == 0 {
			continue
		}
		q := it.Queue
		if q.gone.Load() {
			q = s.Queue(q.topic, q.id)
			it.Queue = q
		}
		off := int64(0)
		if it.kind == queued {
			off = q.next.Load()
			q.next.Store(off + int64(it.count))
		}
		to = it.at + it.Size
		it.QueueOffset = record.QueueOffset(off)
		it.Phys = record.PhysOffset(base + int64(it.at-from))
		it.StoreMillis = now
		if it.delayMillis > 0 {
			it.TagsCode = now + it.delayMillis
		}
		record.Patch(b.buf[it.at:to], it.QueueOffset, it.Phys, now)
		if it.baseAt > 0 {
			putInnerBase(b.buf[it.at:to], it.baseAt, off)
		}
	}
	return b.buf[from:to]
}

// unassign gives the queue offsets of items that were not written back.
func (b *Batch) unassign(first, next int) {
	for i := next - 1; i >= first; i-- {
		if it := &b.Items[i]; it.Size > 0 && it.kind == queued {
			it.Queue.next.Store(int64(it.QueueOffset))
		}
	}
}

// fail gives all items from first on that are not refused yet a status.
func (b *Batch) fail(first int, st Status) {
	for i := first; i < len(b.Items); i++ {
		it := &b.Items[i]
		if it.Status == PutOK {
			it.Status = st
			it.Phys, it.QueueOffset, it.StoreMillis = 0, 0, 0
		}
	}
}

// writeFailed handles a failed write of the log. A full disk heals; anything
// else means that the disk is sick, and so are bytes that could not be zeroed.
func (s *Store) writeFailed(b *Batch, first int, err error, sick bool) {
	if vfs.DiskFull(err) && !sick {
		s.noSpace()
	} else {
		s.setSick(fmt.Errorf("write the commit log: %w", err))
	}
	b.fail(first, ServiceNotAvailable)
}

func (s *Store) prepareFailed(err error) Status {
	s.opt.Log.Error("cannot make the next file of the commit log", "error", err)
	if vfs.DiskFull(err) {
		s.noSpace()
		return ServiceNotAvailable
	}
	return CreateFailed
}

// Append stores one message and, if wait, waits for the flush under SyncFlush.
// For slow callers (delay, send-back, tests). The error repeats a status that
// is not PutOK, or says why ctx ended the wait; the message may be stored then.
func (s *Store) Append(ctx context.Context, q *Queue, d *record.Draft, wait bool) (Item, error) {
	b := s.batches.Get().(*Batch)
	defer func() {
		b.Reset()
		s.batches.Put(b)
	}()
	b.Add(s, q, d, 0)
	s.AppendAll(b)
	it := b.Items[0]
	if it.Status != PutOK {
		return it, s.putError(it.Status)
	}
	if !wait || !s.opt.SyncFlush {
		return it, nil
	}
	done := make(chanWaiter, 1)
	s.WaitFlushed(b.end, done)
	select {
	case it.Status = <-done:
	case <-ctx.Done():
		return it, ctx.Err()
	}
	if it.Status != PutOK {
		return it, s.putError(it.Status)
	}
	return it, nil
}

type chanWaiter chan Status

// Flushed implements FlushWaiter.
func (c chanWaiter) Flushed(st Status) { c <- st }

// PutError is the error of Append: the status, and why if that is known.
type PutError struct {
	Status Status
	Err    error // may be nil
}

func (e *PutError) Error() string {
	if e.Err == nil {
		return "store a message: " + e.Status.String()
	}
	return fmt.Sprintf("store a message: %v: %v", e.Status, e.Err)
}

// Unwrap returns the reason.
func (e *PutError) Unwrap() error { return e.Err }

func (s *Store) putError(st Status) error {
	e := &PutError{Status: st}
	if st == ServiceNotAvailable {
		e.Err = s.Writable()
	}
	return e
}

// ErrClosed is why a closed store refuses writes.
var ErrClosed = errors.New("the store is closed")

// Writable is nil or why the store refuses messages (closed, disk full, sick
// disk, a replica).
func (s *Store) Writable() error {
	if err := s.broken(); err != nil {
		return err
	}
	if s.replica.Load() {
		return ErrReplica
	}
	return nil
}

// broken is nil or why nothing at all can be appended.
func (s *Store) broken() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.sick.Load(); err != nil {
		return *err
	}
	if s.full.Load() {
		return errDiskFull
	}
	return nil
}

// setSick makes the store read-only until it is opened again.
func (s *Store) setSick(err error) {
	err = fmt.Errorf("read-only until restart: %w", err)
	if s.sick.CompareAndSwap(nil, &err) {
		s.opt.Log.Error("the disk failed, the store is read-only until it is restarted", "error", err)
	}
}
