package store

import (
	"fmt"
	"sync"

	"mqctl/store/internal/checkpoint"
)

// untell takes back what the checkpoint says of queues and index, before one of their files is
// removed or loses something. Apache believes it: what is not there then would be missing
// for good, where it makes from the log whatever the checkpoint does not speak of. The
// next mark tells again what is safe. The caller holds keeper.mu, or is Open.
func (s *Store) untell() error {
	old := s.keep.old
	old.LogicsMillis, old.IndexMillis = 0, 0
	return s.tellLess(old)
}

// beforeDrop is untell for a recovery, which looks at several queues at once. It does nothing once the
// store is in use: what it takes away then is of deleted topics, or was untold before.
func (s *Store) beforeDrop() func() error {
	var mu sync.Mutex
	return func() error {
		if !s.recovering {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return s.untell()
	}
}

// untellFrom is untell before a cut of the log, of which nothing stays that was stored at
// millis or later.
func (s *Store) untellFrom(millis int64) error {
	old := s.keep.old
	old.PhysMillis, old.LogicsMillis, old.IndexMillis = min(old.PhysMillis, max(millis-1, 0)), 0, 0
	return s.tellLess(old)
}

func (s *Store) tellLess(c checkpoint.Checkpoint) error {
	if c == s.keep.old {
		return nil
	}
	if err := s.check.Write(c); err != nil {
		return fmt.Errorf("write %s: %w", s.checkpointFile(), err)
	}
	s.keep.old = c
	return nil
}
