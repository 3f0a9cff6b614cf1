package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/commitlog"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// cut is one cut of the log under way.
//
// On disk: the note says what is to be done, and once it is safe the cut
// happens, now or at the next start. So files may be changed in any order. The note
// goes when queues, index and progress are safe too.
type cut struct {
	s      *Store
	pos    int64 // where the log ends afterwards
	note   cutNote
	queues []queueEnd
	millis int64 // store time of the record before pos
}

// queueEnd is where a queue ends after the cut: its unit number and its queue offset,
// which differ in a batch queue.
type queueEnd struct {
	q           *Queue
	end, offset int64
}

// do makes the cut: find says which queues change, and finish makes files follow.
func (c *cut) do(find, finish func() error) error {
	s := c.s
	s.keep.mu.Lock()
	err := c.locked(find, finish)
	s.keep.mu.Unlock()
	if err != nil {
		return err
	}
	if err = s.mark(false); err == nil {
		err = s.removeNote()
	}
	if err != nil {
		s.setSick(fmt.Errorf("the cut of the log is finished by the next start: %w", err))
	}
	return err
}

// locked is do with keeper.mu held. The append lock is held during slow work
// here: a replica has nobody who waits for it.
func (c *cut) locked(find, finish func() error) error {
	s := c.s
	if err := find(); err != nil {
		return err
	}
	s.disp.mu.Lock()
	defer s.unlockDispatch()
	return s.takeBack(func() error { return c.change(finish) })
}

// change is locked with the dispatch lock held, and no snapshot there.
func (c *cut) change(finish func() error) error {
	s := c.s
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	err := s.untellFrom(c.millis)
	if err == nil {
		err = s.writeNote(&c.note)
	}
	if err == nil {
		err = s.dropBlank()
	}
	if err == nil {
		c.memory()
		err = finish()
	}
	if err == nil {
		err = s.cutHoles(c.pos)
	}
	if err != nil {
		s.setSick(fmt.Errorf("the cut of the log is finished by the next start: %w", err))
	}
	return err
}

// findQueues notes the queues that have messages behind the cut.
func (c *cut) findQueues() error {
	s := c.s
	before, ok, err := s.RecordBefore(record.PhysOffset(c.pos - 1))
	if err != nil {
		return err
	}
	if ok {
		c.millis = s.storeTimeAt(int64(before))
	}
	var failed error
	s.queues.each(func(q *Queue) {
		first, end := q.cq.Bounds()
		if failed != nil || first == end {
			return
		}
		if u, ok := s.unitNumber(q, end-1); ok && !u.IsVoid() && u.Phys < c.pos {
			return
		}
		n, err := q.cq.FirstFrom(c.pos)
		if err != nil {
			failed = fmt.Errorf("read queue %d of topic %s: %w", q.id, q.topic, err)
		}
		if n < end {
			offset, err := q.offsetOf(n)
			if err != nil {
				failed = err
			}
			c.queues = append(c.queues, queueEnd{q, n, offset})
		}
	})
	return failed
}

// allQueues: every queue becomes empty.
func (c *cut) allQueues() error {
	c.s.queues.each(func(q *Queue) { c.queues = append(c.queues, queueEnd{q, 0, 0}) })
	return nil
}

// memory makes the cut visible to readers: queues first, then the log, so that
// who has found a message can still read it or hears of the cut by Store.cuts.
func (c *cut) memory() {
	s := c.s
	for _, e := range c.queues {
		e.q.max.Store(e.offset)
		e.q.min.Store(min(e.q.min.Load(), e.offset))
		e.q.next.Store(e.offset)
		if !e.q.dirty {
			e.q.dirty = true
			s.disp.dirty = append(s.disp.dirty, e.q)
		}
	}
	d := &s.disp
	d.pendMu.Lock()
	d.taken.reset()
	d.fresh.reset()
	d.at, d.hashAt, d.scanning = 0, 0, false
	d.pendMu.Unlock()
	s.raw.padTo = 0
	s.lastPhys.Store(-1)
	s.storedMillis.Store(c.millis)
	s.flushedMillis.Store(c.millis)
	s.dispatchedMillis = c.millis
	s.keep.marked = min(s.keep.marked, c.pos)
	s.keep.queued = s.keep.marked
	s.queuedEnd.Store(c.pos)
	s.dispatched.Store(c.pos)
	capDeleted(s.keep.deleted, c.pos)
	s.renumber()
	s.cuts.Add(1)
}

// capDeleted: what comes behind a cut was not there when a topic was deleted.
func capDeleted(deleted map[string]int64, pos int64) {
	for topic, at := range deleted {
		deleted[topic] = min(at, pos)
	}
}

// log cuts log, queues and index at pos.
func (c *cut) log() error {
	s := c.s
	if err := s.log.CutTo(c.pos); err != nil {
		return err
	}
	for _, e := range c.queues {
		e.q.cq.Cut(e.end)
		if err := e.q.cq.Settle(); err != nil {
			return fmt.Errorf("cut queue %d of topic %s: %w", e.q.id, e.q.topic, err)
		}
	}
	if err := c.remade(); err != nil {
		return err
	}
	if s.index == nil {
		return nil
	}
	s.disp.missed.cut(c.pos)
	return s.index.Cut(c.pos)
}

// remade gives queues their old entries back that lost them when their topic was
// made again, behind the cut: now it was never deleted.
func (c *cut) remade() error {
	s := c.s
	again := map[*Queue]bool{}
	for _, e := range c.queues {
		if first, end := e.q.cq.Bounds(); e.q.remade && first == end {
			again[e.q] = true
			e.q.cq.Detach() // no file is left: it starts at 0
		}
	}
	if len(again) == 0 {
		return nil
	}
	sc := s.log.Scan(s.log.Min(), true)
	for sc.Pos() < c.pos {
		v, err := sc.Next()
		var bad *commitlog.BadError
		if errors.Is(err, io.EOF) || errors.As(err, &bad) {
			return nil
		}
		if err != nil {
			return err
		}
		if pos, ok := s.keep.deleted[string(v.Topic())]; ok && int64(v.PhysOffset()) < pos {
			continue
		}
		e, _ := s.entryOf(v)
		if e.kind != queued || !again[e.q] {
			continue
		}
		if err := s.place(&e); err != nil {
			return fmt.Errorf("write queue %d of topic %s: %w", e.q.id, e.q.topic, err)
		}
	}
	return nil
}

// away moves everything aside.
func (c *cut) away() error {
	s := c.s
	if s.index != nil {
		if err := s.index.Detach(); err != nil {
			return err
		}
		s.disp.missed = missed{}
	}
	if err := s.log.Clear(); err != nil {
		return err
	}
	for _, e := range c.queues {
		e.q.cq.Detach()
	}
	s.keep.old = checkpoint.Checkpoint{}
	s.keep.warm = nil
	return s.moveAside(c.note.name)
}

// moveAside moves what is there of log, queues and index into a folder of
// ownDir. It may be called again after a crash.
func (s *Store) moveAside(name string) error {
	for _, part := range []struct{ from, name, spare string }{
		{s.opt.CommitLogDir, "commitlog", filepath.Join(s.opt.CommitLogDir, name)},
		{s.queueDir, "consumequeue", ""},
		{s.batchDir(), "batchconsumequeue", ""},
		{s.extDir(), "consumequeue_ext", ""},
		{s.indexDir(), "index", ""},
	} {
		to := filepath.Join(s.ownDir, name, part.name)
		if err := s.moveAll(part.from, to, part.spare); err != nil {
			return fmt.Errorf("move %s aside: %w", part.from, err)
		}
	}
	return nil
}

// moveAll moves everything in from to the folder to, and where that is on another
// disk to spare, which lies in from. Without spare, what cannot be moved is
// removed.
func (s *Store) moveAll(from, to, spare string) error {
	fsys := s.opt.FS
	entries, err := fsys.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := vfs.MkdirAllSync(fsys, to); err != nil {
		return err
	}
	if err := fsys.SyncDir(from); err != nil { // names are safe before they move
		return err
	}
	for _, e := range entries {
		if e.Dir && spare != "" {
			continue // no file of the log: perhaps what was set aside here before
		}
		if err := s.move(filepath.Join(from, e.Name), to, spare); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(to); err != nil {
		return err
	}
	return fsys.SyncDir(from)
}

func (s *Store) move(old, to, spare string) error {
	fsys := s.opt.FS
	name := filepath.Base(old)
	err := fsys.Rename(old, filepath.Join(to, name))
	if err != nil && spare == "" {
		return fsys.RemoveAll(old)
	}
	if !vfs.OtherDisk(err) {
		return err
	}
	if err := vfs.MkdirAllSync(fsys, spare); err != nil {
		return err
	}
	if err := fsys.Rename(old, filepath.Join(spare, name)); err != nil {
		return err
	}
	return fsys.SyncDir(spare)
}
