package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// CleanTopics removes the queues of all topics for which keep is false; dryRun only
// counts them. The messages stay in the log until they expire. keep must not block.
func (s *Store) CleanTopics(ctx context.Context, dryRun bool, keep func(topic string) bool) (Cleaned, error) {
	var c Cleaned
	if err := s.usable(); err != nil && !dryRun {
		return c, err
	}
	for _, topic := range s.QueueTopics() {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		if keep(topic) {
			continue
		}
		files, bytes := 0, int64(0)
		for _, q := range s.Queues(topic) {
			list, err := s.opt.FS.ReadDir(q.cq.Dir())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return c, err
			}
			for _, e := range list {
				files++
				bytes += e.Size
			}
		}
		if !dryRun {
			if err := s.deleteUnless(topic, keep); err != nil {
				return c, err
			}
		}
		c.Files, c.Bytes, c.Topics = c.Files+files, c.Bytes+bytes, append(c.Topics, topic)
	}
	return c, nil
}

// DeleteTopic removes the queues of a topic and their counters. The messages
// stay in the log until it expires, but no recovery brings them back: that they
// do not count any more is on disk before the files go.
func (s *Store) DeleteTopic(topic string) error {
	return s.deleteUnless(topic, func(string) bool { return false })
}

// deleteUnless deletes a topic's queues if keep is false for it in the moment that
// decides: no message can be appended between the question and the deletion. keep
// must not block.
func (s *Store) deleteUnless(topic string, keep func(topic string) bool) error {
	err := s.deleteTopic(topic, keep)
	s.dispatch() // what was appended while the dispatch lock was held here
	return err
}

func (s *Store) deleteTopic(topic string, keep func(topic string) bool) error {
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	s.disp.mu.Lock()
	defer s.disp.mu.Unlock()

	err := s.takeBack(func() error { return s.takeOut(topic, keep) }) // the snapshot goes before anything
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// takeOut is deleteTopic with its locks held.
func (s *Store) takeOut(topic string, keep func(topic string) bool) error {
	s.appendMu.Lock()
	if keep(topic) {
		s.appendMu.Unlock()
		return nil
	}
	queues := s.queues.remove(topic)
	s.queues.mu.Lock()
	batch := s.batchTopics[topic]
	delete(s.batchTopics, topic)
	s.queues.mu.Unlock()
	counters := make([][3]int64, len(queues))
	for i, q := range queues {
		q.gone.Store(true)
		counters[i] = [3]int64{q.min.Swap(0), q.max.Swap(0), q.next.Swap(0)}
	}
	end := s.log.End()
	s.appendMu.Unlock()

	if len(queues) == 0 {
		return nil
	}
	old, had := s.keep.deleted[topic]
	s.keep.deleted[topic] = end
	if err := s.writeProgress(s.keep.marked, false); err != nil {
		if s.keep.deleted[topic] = old; !had {
			delete(s.keep.deleted, topic)
		}
		s.undelete(topic, queues, counters, batch)
		return err
	}
	s.renumber(topic)
	for _, q := range queues {
		if err := q.cq.Delete(); err != nil {
			return err
		}
	}
	for _, parent := range []string{s.queueDir, s.batchDir(), s.extDir()} {
		if _, err := s.opt.FS.Stat(parent); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := s.opt.FS.RemoveAll(filepath.Join(parent, topic)); err != nil {
			return err
		}
		if err := s.opt.FS.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// undelete takes a deletion back that could not be noted on disk: numbers that begin again
// would contradict those in the log. If messages came meanwhile, it is too late for that.
func (s *Store) undelete(topic string, queues []*Queue, counters [][3]int64, batch bool) {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if !s.queues.putBack(topic, queues) {
		return
	}
	if batch {
		s.queues.mu.Lock()
		s.batchTopics[topic] = true
		s.queues.mu.Unlock()
	}
	for i, q := range queues {
		q.min.Store(counters[i][0])
		q.max.Store(counters[i][1])
		q.next.Store(counters[i][2])
		q.gone.Store(false)
	}
}
