package store

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
)

// maxPending bounds the entries that wait for dispatch in memory; what comes
// on top is read back from the log.
const maxPending = 1 << 16

// arrivalRound is after how many entries arrivals are signalled.
const arrivalRound = 1024

// entry is what dispatch needs to know about a record that was appended.
type entry struct {
	q      *Queue
	offset int64 // in its queue
	phys   int64
	millis int64
	tags   int64
	size   int32
	hashes uint16 // how many of pending.hashes
	count  uint16 // messages it stands for: more than 1 in batch queues only
	kind   kind
}

// pending is a run of entries in the order of the log.
type pending struct {
	entries []entry
	hashes  []int32
}

func (p *pending) reset() {
	clear(p.entries)
	p.entries = p.entries[:0]
	p.hashes = p.hashes[:0]
}

// dispatcher turns appended records into queue units and index entries. Whoever
// appended (or flushed) tries to be it; who finds it busy leaves his entries to
// the one at work. So there is no hand-over to another goroutine.
type dispatcher struct {
	mu       sync.Mutex // the dispatch lock
	taken    pending    // being worked through; guarded by mu
	at       int        // next of taken.entries
	hashAt   int        // next of taken.hashes
	arrived  []*Queue   // have new units in this round; guarded by mu
	dirty    []*Queue   // have units to write or to sync; guarded by mu
	marking  []*Queue   // taken out of dirty by a mark that has not written them yet; guarded by mu
	stalled  bool       // a queue could not take a unit; guarded by mu
	scanning bool       // entries were left out: read the log; guarded by pendMu
	missed   missed     // keys that the index did not take; guarded by mu

	pendMu sync.Mutex // guards fresh, scanning
	fresh  pending
}

// push hands items [first, next) to dispatch. The caller holds appendMu.
func (s *Store) push(b *Batch, first, next int) {
	d := &s.disp
	last := int64(-1)
	d.pendMu.Lock()
	for i := first; i < next; i++ {
		it := &b.Items[i]
		if it.Size == 0 {
			continue
		}
		last = int64(it.Phys)
		if d.scanning || len(d.fresh.entries) >= maxPending {
			d.scanning = true
			continue
		}
		d.fresh.entries = append(d.fresh.entries, entry{
			q: it.Queue, offset: int64(it.QueueOffset), phys: int64(it.Phys), millis: it.StoreMillis,
			tags: it.TagsCode, size: it.Size, hashes: it.hashes, count: it.count, kind: it.kind,
		})
		d.fresh.hashes = append(d.fresh.hashes, b.hashes[it.hashAt:][:it.hashes]...)
	}
	d.pendMu.Unlock()
	s.storedMillis.Store(s.lastMillis)
	s.lastPhys.Store(last)
	s.queuedEnd.Store(int64(b.end))
}

// bound is up to where messages may become visible: the end of the log, or of
// what is flushed if sends wait for the flush.
func (s *Store) bound() int64 {
	if s.opt.SyncFlush {
		return min(s.log.Flushed(), s.queuedEnd.Load())
	}
	return s.queuedEnd.Load()
}

// dispatch makes everything up to the bound visible, unless another goroutine
// is just doing that.
func (s *Store) dispatch() {
	d := &s.disp
	for s.dispatched.Load() < s.bound() {
		if !d.mu.TryLock() {
			return // the holder looks again after its unlock
		}
		stop, seen := s.drain(s.running.Load())
		d.mu.Unlock()
		if stop || s.bound() == seen {
			// A bound may lie between two entries, behind the blank of a full
			// file: then nothing is left to do. Whoever moves it comes here himself.
			return
		}
	}
}

// drain works until the bound is reached, and returns the last bound it saw. It
// reports stop if it cannot go on now: a disk is full, or the log must be read
// back, which the keeper does if leave is set. The caller holds the dispatch lock.
func (s *Store) drain(leave bool) (stop bool, bound int64) {
	d := &s.disp
	defer s.signal()
	for bound = s.bound(); !d.stalled; bound = s.bound() {
		if d.at == len(d.taken.entries) {
			done, scan := s.take(bound)
			if scan && leave {
				notify(s.keepWake)
				return true, bound
			}
			if scan {
				before := s.dispatched.Load()
				if err := s.scanBack(bound); err != nil {
					s.stall(err)
					return true, bound
				}
				if s.dispatched.Load() == before {
					return false, bound
				}
				continue
			}
			if done {
				return false, bound
			}
		}
		for n := 0; d.at < len(d.taken.entries); n++ {
			e := &d.taken.entries[d.at]
			if e.phys+int64(e.size) > bound {
				return false, bound
			}
			if err := s.dispatchEntry(e, d.taken.hashes[d.hashAt:][:e.hashes]); err != nil {
				s.stall(err)
				return true, bound
			}
			d.at++
			d.hashAt += int(e.hashes)
			s.dispatched.Store(e.phys + int64(e.size))
			if n == arrivalRound {
				s.signal()
				n = 0
			}
		}
	}
	return true, bound
}

// take gets the fresh entries. done: there are none; scan: some were left out
// and everything before them is dispatched.
func (s *Store) take(bound int64) (done, scan bool) {
	d := &s.disp
	d.taken.reset()
	d.at, d.hashAt = 0, 0
	d.pendMu.Lock()
	defer d.pendMu.Unlock()
	if len(d.fresh.entries) == 0 {
		if d.scanning && s.dispatched.Load() < bound {
			return false, true
		}
		return true, false
	}
	d.taken, d.fresh = d.fresh, d.taken
	return false, false
}

// scanBack dispatches from the log itself up to bound, and ends the scanning if
// nothing is left behind that.
func (s *Store) scanBack(bound int64) error {
	sc := s.log.Scan(s.dispatched.Load(), true)
	for sc.Pos() < bound {
		v, err := sc.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.dispatchRecord(v); err != nil {
			return err
		}
		s.dispatched.Store(sc.Pos())
	}
	s.appendMu.Lock() // no push meanwhile
	s.disp.pendMu.Lock()
	if s.dispatched.Load() >= s.queuedEnd.Load() {
		s.disp.scanning = false
	}
	s.disp.pendMu.Unlock()
	s.appendMu.Unlock()
	return nil
}

// dispatchRecord dispatches a record that was read back.
func (s *Store) dispatchRecord(v record.View) error {
	e, hashes := s.entryOf(v)
	return s.dispatchEntry(&e, hashes)
}

// entryOf is the dispatch entry of a record. Only one that belongs into a queue
// has its queue set. The caller holds the dispatch lock.
func (s *Store) entryOf(v record.View) (entry, []int32) {
	e, hashes := s.describe(v, s.hashBuf[:0], true)
	s.hashBuf = hashes
	return e, hashes
}

// describe is entryOf for any caller: the hashes are appended to dst, if keys are wanted.
func (s *Store) describe(v record.View, dst []int32, keys bool) (entry, []int32) {
	var p Properties
	p.parse(v.Properties())
	e := entry{
		offset: int64(v.QueueOffset()), phys: int64(v.PhysOffset()), millis: v.StoreMillis(),
		tags: record.TagsCode(p.Tags), size: int32(v.Size()), count: 1, kind: kindOf(v.SysFlag()),
	}
	if e.kind == queued {
		if e.q = s.Lookup(v.Topic(), v.QueueID()); e.q == nil {
			if v.SysFlag()&record.FlagInnerBatch != 0 {
				s.markBatch(string(v.Topic()))
			}
			e.q = s.Queue(string(v.Topic()), v.QueueID())
		}
		if e.q.batch {
			e.count = innerCount(v)
		}
		if e.q.delay {
			if d := s.delayMillis(p.Delay); d > 0 {
				e.tags = e.millis + d
			}
		}
	}
	if keys && s.index != nil && e.kind != logOnly {
		n := len(dst)
		dst = p.appendHashes(dst, v.Topic())
		e.hashes = uint16(len(dst) - n)
	}
	return e, dst
}

// keysOf is the hashes of a record's keys, valid until the next call. Owner of the
// dispatch lock, or recovery.
func (s *Store) keysOf(v record.View) []int32 {
	s.hashBuf = s.hashBuf[:0]
	if s.index != nil && kindOf(v.SysFlag()) != logOnly {
		var p Properties
		p.parse(v.Properties())
		s.hashBuf = p.appendHashes(s.hashBuf, v.Topic())
	}
	return s.hashBuf
}

// dispatchEntry gives one record its unit and its index entries. An error of
// the queue stops dispatch; one of the index does not, since queries can do
// without but consumers not.
func (s *Store) dispatchEntry(e *entry, hashes []int32) error {
	if e.kind == queued && !e.q.gone.Load() {
		if err := s.place(e); err != nil {
			return fmt.Errorf("write queue %d of topic %s: %w", e.q.id, e.q.topic, err)
		}
		s.touch(e.q)
	}
	for _, h := range hashes {
		s.putKey(missedKey{h, e.phys, e.millis})
	}
	s.dispatchedMillis = e.millis
	return nil
}

// place gives a record its unit.
func (s *Store) place(e *entry) error {
	if e.q.batch {
		return s.placeBatch(e)
	}
	u := consumequeue.Unit{Phys: e.phys, Size: e.size, Tags: e.tags, Millis: e.millis}
	placed, err := e.q.cq.AppendAt(e.offset, u)
	if err != nil {
		return err
	}
	if !placed {
		return s.misfit(e, u)
	}
	s.setEnd(e.q, e.offset+1)
	return nil
}

// touch notes that q has a new unit.
func (s *Store) touch(q *Queue) {
	if !q.arrived {
		q.arrived = true
		s.disp.arrived = append(s.disp.arrived, q)
	}
	if !q.dirty {
		q.dirty = true
		s.disp.dirty = append(s.disp.dirty, q)
	}
}

// signal tells about the queues that got units in this round.
func (s *Store) signal() {
	d := &s.disp
	for i, q := range d.arrived {
		q.arrived = false
		d.arrived[i] = nil
		s.opt.OnArrival(q)
	}
	d.arrived = d.arrived[:0]
}

// stall stops dispatch until the keeper tries again.
func (s *Store) stall(err error) {
	s.disp.stalled = true
	if !s.passes(err) {
		s.setSick(err)
	}
}

func (s *Store) indexFailed(err error) {
	if s.passes(err) {
		return
	}
	if s.indexSick.CompareAndSwap(false, true) {
		s.opt.Log.Error("the key index cannot be written, queries by key may miss messages", "error", err)
	}
}
