package store

import (
	"fmt"
	"slices"

	"mqctl/store/record"
)

// Deletion says that a topic was deleted when the log ended at Before: its messages
// before that do not count. Since replicas have the same log, it says the same of
// each of them, whatever the topic became afterwards.
type Deletion struct {
	Topic  string
	Before record.PhysOffset
}

// numbered is a deletion with its place in the order in which this process noted them.
type numbered struct {
	Deletion
	number uint64
}

// Deletions are those after number since, at most most of them, and the number of the
// last one: who asks again with that hears what is new. Numbers count from the start of
// the process. A deletion is forgotten when none of its messages is left in the log. It
// waits for nothing.
func (s *Store) Deletions(since uint64, most int) (list []Deletion, last uint64) {
	all := s.deletions.Load()
	if all == nil {
		return nil, since
	}
	first, _ := slices.BinarySearchFunc(*all, since+1, func(d numbered, n uint64) int {
		return int(min(max(int64(d.number)-int64(n), -1), 1))
	})
	for _, d := range (*all)[first:] {
		if len(list) == most {
			break
		}
		list, since = append(list, d.Deletion), d.number
	}
	return list, since
}

// Cuts is how often the log was cut or set aside since the start: what was deleted
// before a position behind the end has to be told again then.
func (s *Store) Cuts() uint64 { return s.cuts.Load() }

// renumber makes Deletions tell what keep.deleted says: those of topics are new, the
// others keep their numbers. The caller holds keep.mu, or is Open.
func (s *Store) renumber(topics ...string) {
	var next []numbered
	known := map[string]bool{}
	if old := s.deletions.Load(); old != nil {
		next = make([]numbered, 0, len(*old)+len(topics))
		for _, d := range *old {
			pos, ok := s.keep.deleted[d.Topic]
			if !ok || slices.Contains(topics, d.Topic) {
				continue
			}
			d.Before = record.PhysOffset(pos)
			next, known[d.Topic] = append(next, d), true
		}
	}
	for topic, pos := range s.keep.deleted {
		if !known[topic] {
			s.keep.deletions++
			next = append(next, numbered{Deletion{topic, record.PhysOffset(pos)}, s.keep.deletions})
		}
	}
	s.deletions.Store(&next)
}

// FollowDeletions takes over the deletions of the master whose log this replica copies:
// a queue whose messages all lie before that of its topic becomes empty, also if the
// topic was made again long since. That is on disk before a queue changes, so a crash
// in between ends the same way. It returns those that are to be told again since the
// log here does not reach their position yet; what is here already goes at once. If Cuts
// is not cuts any more nothing happens. Replica stores only.
func (s *Store) FollowDeletions(list []Deletion, cuts uint64) (waiting []Deletion, err error) {
	if !slices.ContainsFunc(list, s.matters) {
		return list, nil
	}
	s.raw.mu.Lock() // nothing is appended, and the store stays a replica
	defer s.raw.mu.Unlock()
	if !s.replica.Load() {
		return list, errNoReplica
	}
	if err := s.usable(); err != nil || s.cuts.Load() != cuts {
		return list, err
	}
	s.keep.mu.Lock()
	defer s.keep.mu.Unlock()
	s.disp.mu.Lock()
	defer s.unlockDispatch()

	reached := record.PhysOffset(s.dispatched.Load())
	f := following{s: s, old: map[string]int64{}}
	for _, d := range list {
		if d.Before > reached {
			waiting = append(waiting, d)
		}
		if err := f.find(d.Topic, int64(min(d.Before, reached)), d.Before <= reached); err != nil {
			return list, err
		}
	}
	if len(f.old) == 0 && len(f.stale) == 0 {
		return waiting, nil
	}
	if err := s.takeBack(f.do); err != nil {
		return list, fmt.Errorf("follow the deletion of topics: %w", err)
	}
	return waiting, nil
}

// matters says whether a deletion may change anything now.
func (s *Store) matters(d Deletion) bool {
	return int64(d.Before) <= s.dispatched.Load() || slices.ContainsFunc(s.Queues(d.Topic), func(q *Queue) bool { return q.Min() < q.Max() })
}

// following is FollowDeletions under way.
type following struct {
	s     *Store
	old   map[string]int64 // of keep.deleted, -1 where nothing was known
	names []string         // its keys
	stale []staleQueue
}

// staleQueue is a queue with messages of an earlier life of its topic.
type staleQueue struct {
	q     *Queue
	empty bool
	first int64 // where the queue begins if it has others
}

// find notes what a deletion changes: queues, and what is known of it if that has to
// be on disk.
func (f *following) find(topic string, pos int64, whole bool) error {
	stale := len(f.stale)
	for _, q := range f.s.Queues(topic) {
		first, end := q.cq.Bounds()
		if first == end {
			continue
		}
		n, err := q.cq.FirstFrom(pos)
		if err != nil {
			return fmt.Errorf("read queue %d of topic %s: %w", q.id, q.topic, err)
		}
		switch {
		case n == end:
			f.stale = append(f.stale, staleQueue{q: q, empty: true})
		case n > first:
			offset, err := q.offsetOf(n)
			if err != nil {
				return fmt.Errorf("read queue %d of topic %s: %w", q.id, q.topic, err)
			}
			if offset > q.min.Load() {
				f.stale = append(f.stale, staleQueue{q: q, first: offset})
			}
		}
	}
	before, had := f.s.keep.deleted[topic]
	if pos <= before || pos <= f.s.log.Min() || !whole && len(f.stale) == stale {
		return nil
	}
	if !had {
		before = -1
	}
	if _, twice := f.old[topic]; !twice {
		f.old[topic] = before
		f.names = append(f.names, topic)
	}
	f.s.keep.deleted[topic] = pos
	return nil
}

// do writes what is known, and then changes the queues.
func (f *following) do() error {
	s := f.s
	if len(f.old) > 0 {
		if err := s.writeProgress(s.keep.marked, false); err != nil {
			f.undo()
			return err
		}
		s.renumber(f.names...)
	}
	for _, st := range f.stale {
		if !st.empty {
			st.q.min.Store(st.first)
			s.restarts.Add(1)
			continue
		}
		if err := s.restart(st.q); err != nil {
			return err
		}
	}
	return nil
}

func (f *following) undo() {
	for topic, pos := range f.old {
		if f.s.keep.deleted[topic] = pos; pos < 0 {
			delete(f.s.keep.deleted, topic)
		}
	}
}
