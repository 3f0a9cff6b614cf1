package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/vfs"

	"golang.org/x/sync/errgroup"
)

const (
	keepInterval = time.Second      // queues go to the page cache
	markInterval = 10 * time.Second // and to the disk
	markShare    = 20               // times what a mark takes is the least time between two
	markBytes    = 1 << 30          // or when that much log came since
	snapShare    = 128              // times the size of a snapshot of the queues is the least growth of the log between two
	diskInterval = 5 * time.Second
	syncAlone    = 64 // queues; more are synced in parallel
	syncParallel = 32
	idleTicks    = 30 // ticks of keepInterval after which memory goes
)

// keeper is the state of the slow work: what is written and synced in the
// background.
type keeper struct {
	mu      sync.Mutex // one mark or deletion at a time; guards all to idle
	old     checkpoint.Checkpoint
	deleted map[string]int64
	// deletions is the newest number that renumber gave.
	deletions uint64
	marked    int64 // dispatch position of the last mark
	indexed   int64 // the newest record before marked that has keys in the index, -1: none
	queued    int64 // queue entries of messages before it are safe; marked <= queued
	lastMark  time.Time
	took      time.Duration // by the last mark
	warm      []*Queue      // synced by the last mark
	unsynced  bool          // a process that was killed left queue files that are in no list of dirty ones

	idleEnd int64 // end of the log at the last look; the keeper's
	idle    int   // looks without a new message; the keeper's
}

// noter is the state of the snapshots of the queues. They are written while a mark is under
// way, which may take as long as the disk likes.
type noter struct {
	mu      sync.Mutex    // held while a snapshot is written; guards what follows
	changes int           // of what it tells, under way: none is written then
	end     int64         // what the newest on disk vouches for, -1: there is none
	min     int64         // start of the log then
	index   int64         // see snapshot.index
	bytes   int           // its size
	drops   atomic.Uint64 // how often it was dropped; in a store in use under mu and the dispatch lock
}

// keepLoop writes queue units every second, notes what is written, and watches the
// disk. It also takes over what dispatch could not do. It never waits for a sync.
func (s *Store) keepLoop(ctx context.Context) error {
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-disk.C:
			s.checkDisk()
		case <-s.keepWake:
			s.catchUp()
		case <-tick.C:
			if s.closed.Load() {
				return nil
			}
			s.catchUp()
			s.keepOnce()
			notify(s.markWake)
		}
	}
}

// markLoop marks when it is time, and asks the keeper when that may be.
func (s *Store) markLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.markWake:
		}
		if s.closed.Load() {
			return nil
		}
		s.markIfDue()
	}
}

// rollLoop makes the next files of queues, for which the units before have to be safe.
func (s *Store) rollLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.writeWake:
		}
		if s.closed.Load() {
			return nil
		}
		s.rollQueues()
	}
}

// catchUp reads back from the log what dispatch left out.
func (s *Store) catchUp() {
	if s.dispatched.Load() >= s.bound() || s.sick.Load() != nil {
		return
	}
	s.disp.mu.Lock()
	s.disp.stalled = false
	s.drain(false)
	s.unlockDispatch()
}

// unlockDispatch ends a hold of the dispatch lock. Who appended meanwhile found
// the lock taken and left his entries to its holder.
func (s *Store) unlockDispatch() {
	s.disp.mu.Unlock()
	s.dispatch()
}

// point is how far dispatch is.
type point struct {
	pos    int64  // every record before it is visible
	millis int64  // store time of the newest of them
	index  int64  // the newest of them that has keys, -1: none
	missed bool   // keys of some are not in the index
	drops  uint64 // noter.drops
}

// dispatchPoint is the one of now. The caller holds the dispatch lock.
func (s *Store) dispatchPoint() point {
	at := point{pos: s.dispatched.Load(), millis: s.dispatchedMillis, index: -1, drops: s.note.drops.Load()}
	if s.index != nil {
		at.index = s.index.EndPhys()
	}
	if m := &s.disp.missed; m.any() {
		at.index, at.missed = m.last, true
	}
	return at
}

// unwritten are the queues that may have units in memory only.
func (s *Store) unwritten() (at point, queues []*Queue) {
	s.disp.mu.Lock()
	defer s.unlockDispatch()
	return s.dispatchPoint(), slices.Concat(s.disp.dirty, s.disp.marking)
}

// rollQueues writes what queues hold in memory, and makes the files that they need for it.
func (s *Store) rollQueues() {
	_, queues := s.unwritten()
	for _, q := range queues {
		if err := q.cq.Write(); err != nil {
			s.background("write a queue", err)
			return
		}
	}
}

// writeQueues writes what queues hold in memory, as far as it has a place in files that are
// there. The units of all messages before at are in the files then, unless it could not.
func (s *Store) writeQueues() (at point, ok bool) {
	at, queues := s.unwritten()
	rolls := false
	for _, q := range queues {
		left, err := q.cq.WriteOpen()
		if err != nil {
			s.background("write a queue", err)
			return at, false
		}
		if left >= 0 {
			rolls = true
			at.pos = min(at.pos, left)
		}
	}
	if rolls {
		notify(s.writeWake)
	}
	return at, true
}

// keepOnce writes queues and index, and notes how far they are.
func (s *Store) keepOnce() {
	s.disp.mu.Lock()
	s.putMissed()
	s.disp.trim()
	s.unlockDispatch()
	at, written := s.writeQueues()
	s.dropIdleTail()
	if s.index != nil {
		if err := s.index.Flush(); err != nil {
			s.indexFailed(err)
		}
	}
	if s.sick.Load() != nil {
		s.forgetSnapshot()
	} else if written && s.disk != nil { // without it the next start could not make them safe
		s.noteQueues(at)
	}
}

// markIfDue marks if it is time.
func (s *Store) markIfDue() {
	s.keep.mu.Lock()
	behind := s.dispatched.Load() - s.keep.marked
	// Ten thousand queues take seconds to sync: then less often, since all it
	// saves is a part of the log to read after a crash.
	interval := max(markInterval, markShare*s.keep.took)
	due := behind > 0 && (time.Since(s.keep.lastMark) >= interval || behind >= markBytes)
	s.keep.mu.Unlock()
	if !due {
		return
	}
	if err := s.mark(false); err != nil && !errors.Is(err, ErrClosed) {
		s.background("write queues and checkpoint", err)
	}
}

// trim gives back the memory of a burst.
func (d *dispatcher) trim() {
	const keep = 4096
	if d.at == len(d.taken.entries) && cap(d.taken.entries) > keep {
		d.taken, d.at, d.hashAt = pending{}, 0, 0
	}
	d.pendMu.Lock()
	if len(d.fresh.entries) == 0 && cap(d.fresh.entries) > keep {
		d.fresh = pending{}
	}
	d.pendMu.Unlock()
}

// dropIdleTail frees the copy of the newest bytes of a log that does not grow.
func (s *Store) dropIdleTail() {
	k := &s.keep
	if end := s.log.End(); end != k.idleEnd {
		k.idleEnd, k.idle = end, 0
		return
	}
	if k.idle++; k.idle == idleTicks {
		s.appendMu.Lock()
		s.log.DropTail()
		s.appendMu.Unlock()
	}
}

// mark syncs queues, index and log, and then notes on disk how far they are:
// for us in progress, for Apache in the checkpoint.
func (s *Store) mark(clean bool) error {
	k := &s.keep
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := time.Now()
	if err := s.sick.Load(); err != nil {
		return *err // a sync that succeeds after one that failed proves nothing
	}
	if s.closed.Load() && !clean {
		return ErrClosed // the mark of the clean stop is the last one
	}

	s.disp.mu.Lock()
	dirty := s.disp.dirty
	s.disp.dirty, s.disp.marking = nil, dirty
	for _, q := range dirty {
		q.dirty = false
	}
	at := s.dispatchPoint()
	pos, millis, indexed := at.pos, at.millis, at.index
	s.unlockDispatch()

	if err := s.syncQueues(dirty); err != nil {
		s.dirtyAgain(dirty)
		return s.unsynced(err)
	}
	k.queued = max(k.queued, pos)
	indexMillis, err := s.syncIndex()
	if err != nil {
		return s.unsynced(err)
	}
	stored := s.storedMillis.Load()
	if _, err := s.log.Sync(); err != nil {
		return s.syncFailed(err)
	}
	if pos > s.log.Flushed() {
		return fmt.Errorf("mark at %d is ahead of the flushed log %d", pos, s.log.Flushed())
	}
	k.old.PhysMillis, k.old.LogicsMillis = stored, millis
	k.old.IndexMillis = indexMillis
	if err := s.check.Write(k.old); err != nil {
		return fmt.Errorf("write %s: %w", s.checkpointFile(), err)
	}
	k.indexed = indexed
	if err := s.writeProgress(pos, clean); err != nil {
		return err
	}
	if clean {
		s.writeSnapshot()
	} else {
		s.noteQueues(at)
	}
	k.marked, k.lastMark = pos, time.Now()
	k.took = time.Since(begin)
	s.cool(dirty)
	return nil
}

// unsynced makes the store read-only if err is a failed sync, whoever asked for the mark: the
// next one would succeed, with what the kernel dropped on no disk. A note tells the next start.
func (s *Store) unsynced(err error) error {
	var se *vfs.SyncError
	if errors.As(err, &se) {
		s.noteUnsafe(s.log.Flushed())
		s.setSick(err)
	}
	return err
}

func (s *Store) syncQueues(dirty []*Queue) error {
	for _, q := range dirty {
		if err := q.cq.Write(); err != nil {
			return err
		}
	}
	s.disp.mu.Lock()
	s.disp.marking = nil
	s.unlockDispatch()
	if len(dirty) <= s.opt.syncAlone && !s.keep.unsynced {
		for _, q := range dirty {
			if err := q.cq.Sync(); err != nil {
				return err
			}
		}
		return nil
	}
	if s.disk != nil {
		var err error
		if dirty, err = s.syncTogether(dirty); err != nil {
			return err
		}
		s.keep.unsynced = false
	}
	// The journal commits what is synced at the same time together.
	var g errgroup.Group
	g.SetLimit(syncParallel)
	for _, q := range dirty {
		g.Go(q.cq.Sync)
	}
	return g.Wait()
}

// syncTogether syncs the disk that holds the queues, and returns those which lie on
// others. Eighty thousand new files are one second of work that way, and one and a half minutes one by
// one.
func (s *Store) syncTogether(queues []*Queue) (others []*Queue, err error) {
	taken := make([]consumequeue.Unsynced, 0, len(queues))
	for _, q := range queues {
		if u, ok := q.cq.TakeUnsynced(s.disk); ok {
			taken = append(taken, u)
		} else {
			others = append(others, q)
		}
	}
	if err := s.disk.Sync(); err != nil {
		for i := range taken {
			taken[i].PutBack()
		}
		return nil, &vfs.SyncError{Err: err}
	}
	return others, nil
}

func (s *Store) dirtyAgain(queues []*Queue) {
	s.disp.mu.Lock()
	defer s.unlockDispatch()
	for _, q := range queues {
		if !q.dirty {
			q.dirty = true
			s.disp.dirty = append(s.disp.dirty, q)
		}
	}
	s.disp.marking = nil
}

// cool frees the memory of queues that got nothing since the last mark.
func (s *Store) cool(synced []*Queue) {
	busy := make(map[*Queue]bool, len(synced))
	for _, q := range synced {
		busy[q] = true
	}
	for _, q := range s.keep.warm {
		if !busy[q] {
			q.cq.Release() // does nothing if it has unwritten units again
		}
	}
	s.keep.warm = synced
}

// syncIndex makes the index safe and returns the store time up to which.
func (s *Store) syncIndex() (int64, error) {
	if s.index == nil {
		return s.keep.old.IndexMillis, nil
	}
	if err := s.index.Sync(); err != nil {
		return 0, fmt.Errorf("sync the key index: %w", err)
	}
	return s.index.SyncedMillis(), nil
}

// writeProgress writes the side file. The caller holds keep.mu.
func (s *Store) writeProgress(pos int64, clean bool) error {
	for topic, end := range s.keep.deleted {
		if end <= s.log.Min() {
			delete(s.keep.deleted, topic) // none of its messages is left in the log
		}
	}
	p := &progress{
		pid: s.opt.pid, clean: clean, end: s.log.End(), dispatched: pos, log: pos, index: s.keep.indexed, deleted: s.keep.deleted,
		checkpoint: crc32.ChecksumIEEE(s.keep.old.Encode()),
	}
	if err := s.opt.FS.MkdirAll(filepath.Dir(s.progressFile())); err != nil {
		return err
	}
	if err := writeProgress(s.opt.FS, s.progressFile(), p); err != nil {
		return fmt.Errorf("write %s: %w", s.progressFile(), err)
	}
	return nil
}
