package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// DeleteTopic removes the queues of a topic and their counters. The messages
// stay in the log until it expires, but no recovery brings them back: that they
// do not count any more is on disk before the files go.
func (s *Store) DeleteTopic(topic string) error {
	err := s.deleteTopic(topic)
	s.dispatch() // what was appended while the dispatch lock was held here
	return err
}

func (s *Store) deleteTopic(topic string) error {
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	s.disp.mu.Lock()
	defer s.disp.mu.Unlock()

	s.appendMu.Lock()
	queues := s.queues.remove(topic)
	s.queues.mu.Lock()
	delete(s.batchTopics, topic)
	s.queues.mu.Unlock()
	for _, q := range queues {
		q.gone.Store(true)
		q.max.Store(0)
		q.min.Store(0)
		q.next.Store(0)
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
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	for _, q := range queues {
		if err := q.cq.Delete(); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
	}
	for _, parent := range []string{s.queueDir, s.batchDir(), s.extDir()} {
		if _, err := s.opt.FS.Stat(parent); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := s.opt.FS.RemoveAll(filepath.Join(parent, topic)); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
		if err := s.opt.FS.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}
