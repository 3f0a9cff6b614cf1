package delay

import (
	"context"

	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
)

// storeMessages is messages over the store.
type storeMessages struct {
	s      *store.Store
	queues []*store.Queue // by level; the schedule topic is never deleted
	batch  store.Batch
	fates  []store.Status
}

func newStoreMessages(s *store.Store, levels int) *storeMessages {
	m := &storeMessages{s: s, queues: make([]*store.Queue, levels)}
	for i := range m.queues {
		m.queues[i] = s.Queue(topic.Schedule, int32(i))
	}
	return m
}

func (m *storeMessages) bounds(level int) (first, end, next record.QueueOffset) {
	q := m.queues[level]
	return q.Min(), q.Max(), q.Next()
}

func (m *storeMessages) units(dst []store.Unit, level int, from record.QueueOffset, n int) []store.Unit {
	return m.s.Units(dst, m.queues[level], from, n)
}

func (m *storeMessages) message(dst []byte, p record.PhysOffset) ([]byte, error) {
	return m.s.Message(dst, p)
}

func (m *storeMessages) first() record.PhysOffset { return m.s.Positions().Min }

func (m *storeMessages) flushed() record.PhysOffset { return m.s.Positions().Flushed }

func (m *storeMessages) add(d *record.Draft) int {
	m.batch.Add(m.s, m.s.Queue(string(d.Topic), d.QueueID), d, 0)
	return m.batch.Bytes()
}

func (m *storeMessages) append() ([]store.Status, record.PhysOffset) {
	m.s.AppendAll(&m.batch)
	m.fates = m.fates[:0]
	for i := range m.batch.Items {
		m.fates = append(m.fates, m.batch.Items[i].Status)
	}
	end := m.batch.End()
	m.batch.Reset()
	if m.s.SyncFlush() {
		// Nobody waits for this flush, but only what is flushed is visible: do not
		// leave that to the flusher's interval.
		m.s.WaitFlushed(end, nobody{})
	}
	return m.fates, end
}

// nobody waits for a flush.
type nobody struct{}

func (nobody) Flushed(store.Status) {}

// flushWaiter is store.FlushWaiter.
type flushWaiter chan struct{}

func (w flushWaiter) Flushed(store.Status) { close(w) }

func (m *storeMessages) waitFlushed(ctx context.Context, p record.PhysOffset) {
	w := make(flushWaiter)
	m.s.WaitFlushed(p, w)
	select {
	case <-w:
	case <-ctx.Done():
	}
}
