package store

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
)

// Queue is the handle of one consume queue; pointers are stable until the topic
// is deleted, so callers may cache them.
//
// Invariant: min <= max <= next.
type Queue struct {
	topic string
	id    int32
	cq    *consumequeue.Queue

	next atomic.Int64 // written under the append lock
	max  atomic.Int64 // written under the dispatch lock
	min  atomic.Int64 // written by recovery (and retention)

	gone  atomic.Bool // the topic was deleted; set under the append and the dispatch lock
	delay bool        // SCHEDULE_TOPIC_XXXX: tag codes are times of delivery
	batch bool        // its topic has queue.type=BatchCQ

	remade  bool // its topic was made again since the start; guarded by the dispatch lock
	arrived bool // has new units in this round; guarded by the dispatch lock
	dirty   bool // is in Store.dirty; guarded by the dispatch lock

	// The position of the message at min, 0 if not known, and the number of cuts when it
	// was found. Written under keeper.mu and noter.mu.
	lowPhys int64
	lowCuts uint64
	// sweeping says that it is in retainer.sweep; guarded by keeper.mu.
	sweeping bool
}

// Topic is the topic's name.
func (q *Queue) Topic() string { return q.topic }

// ID is the number of the queue in its topic.
func (q *Queue) ID() int32 { return q.id }

// Min is the first offset that can be read.
func (q *Queue) Min() record.QueueOffset { return record.QueueOffset(q.min.Load()) }

// Max is the visible end.
func (q *Queue) Max() record.QueueOffset { return record.QueueOffset(q.max.Load()) }

// Next is the next offset to be assigned, at least Max.
func (q *Queue) Next() record.QueueOffset { return record.QueueOffset(q.next.Load()) }

// delayTopic holds delayed messages, one queue for each level.
const delayTopic = "SCHEDULE_TOPIC_XXXX"

// queueTable finds queues by name.
type queueTable struct {
	mu     sync.RWMutex
	topics map[string]*topicQueues // guarded by mu
}

type topicQueues struct {
	byID atomic.Pointer[[]*Queue] // index: queue id where small; nil entries possible
	all  []*Queue                 // by id; guarded by queueTable.mu
}

// denseIDs is up to where queues are found by index. Real queue ids are small;
// others are searched.
const denseIDs = 1024

func (t *queueTable) lookup(topic []byte, id int32) *Queue {
	t.mu.RLock()
	tq := t.topics[string(topic)]
	t.mu.RUnlock()
	if tq == nil {
		return nil
	}
	return tq.find(t, id)
}

func (tq *topicQueues) find(t *queueTable, id int32) *Queue {
	if dense := *tq.byID.Load(); id >= 0 && int(id) < len(dense) {
		return dense[id]
	}
	if id >= 0 && id < denseIDs {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, ok := tq.search(id)
	if !ok {
		return nil
	}
	return tq.all[i]
}

func (tq *topicQueues) search(id int32) (int, bool) {
	return slices.BinarySearchFunc(tq.all, id, func(q *Queue, id int32) int { return int(q.id) - int(id) })
}

// add returns the queue, making it if needed.
func (t *queueTable) add(topic string, id int32, fresh func() *Queue) *Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := t.topics[topic]
	if tq == nil {
		tq = &topicQueues{}
		tq.byID.Store(new([]*Queue))
		t.topics[topic] = tq
	}
	i, ok := tq.search(id)
	if ok {
		return tq.all[i]
	}
	q := fresh()
	tq.all = slices.Insert(tq.all, i, q)
	if id >= 0 && id < denseIDs {
		old := *tq.byID.Load()
		dense := make([]*Queue, max(len(old), int(id)+1))
		copy(dense, old)
		dense[id] = q
		tq.byID.Store(&dense)
	}
	return q
}

func (t *queueTable) remove(topic string) []*Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := t.topics[topic]
	if tq == nil {
		return nil
	}
	delete(t.topics, topic)
	return tq.all
}

// putBack undoes remove, unless messages came to the topic since. Append lock.
func (t *queueTable) putBack(topic string, queues []*Queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := &topicQueues{all: queues}
	dense := []*Queue{}
	for _, q := range queues {
		if q.id >= 0 && q.id < denseIDs {
			dense = append(dense, make([]*Queue, int(q.id)+1-len(dense))...)
			dense[q.id] = q
		}
	}
	tq.byID.Store(&dense)
	if now := t.topics[topic]; now != nil {
		if slices.ContainsFunc(now.all, func(q *Queue) bool { return q.next.Load() > 0 }) {
			return false
		}
		for _, q := range now.all {
			q.gone.Store(true) // whoever holds it looks it up again
		}
	}
	t.topics[topic] = tq
	return true
}

// each calls f for every queue, in the order of names: what is written to the disk
// in its order shall be the same each time, so that a crash can be repeated.
func (t *queueTable) each(f func(q *Queue)) {
	t.mu.RLock()
	var all []*Queue
	for _, topic := range slices.Sorted(maps.Keys(t.topics)) {
		all = append(all, t.topics[topic].all...)
	}
	t.mu.RUnlock()
	for _, q := range all {
		f(q)
	}
}

// Queue returns the handle, making it (memory only) if needed. The caller has
// checked topic (name rules) and id.
func (s *Store) Queue(topic string, id int32) *Queue {
	if q := s.Lookup([]byte(topic), id); q != nil {
		return q
	}
	return s.queues.add(topic, id, func() *Queue { return s.newQueue(topic, id) })
}

// newQueue makes a handle. The caller holds queueTable.mu.
func (s *Store) newQueue(topic string, id int32) *Queue {
	name := strconv.Itoa(int(id))
	if s.isBatch(topic) {
		dir := filepath.Join(s.batchDir(), topic, name)
		return &Queue{topic: topic, id: id, cq: consumequeue.New(s.batch, dir), batch: true}
	}
	q := &Queue{topic: topic, id: id, cq: consumequeue.New(s.shared, filepath.Join(s.queueDir, topic, name)), delay: topic == delayTopic}
	if s.hasExt {
		q.cq.WithExt(filepath.Join(s.extDir(), topic, name))
	}
	return q
}

// Lookup returns the handle or nil. No allocation.
func (s *Store) Lookup(topic []byte, id int32) *Queue { return s.queues.lookup(topic, id) }

// Queues lists all queues of a topic that have a handle or files, by id.
func (s *Store) Queues(topic string) []*Queue {
	s.queues.mu.RLock()
	defer s.queues.mu.RUnlock()
	tq := s.queues.topics[topic]
	if tq == nil {
		return nil
	}
	return slices.Clone(tq.all)
}

// QueueTopics lists the topics that have queues, sorted.
func (s *Store) QueueTopics() []string {
	s.queues.mu.RLock()
	defer s.queues.mu.RUnlock()
	out := make([]string, 0, len(s.queues.topics))
	for t := range s.queues.topics {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}
