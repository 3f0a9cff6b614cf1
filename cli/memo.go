package cli

import (
	"context"
	"sync"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// memo keeps tables that a command over many things reads for each of them: a
// broker has one table of groups, and tells it as a whole only. What is kept of
// a target is forgotten when something is written there, and when a value that
// was read back is not the one that was written. Commands that ask again and
// again to see changes do not use it.
type memo struct {
	mu   sync.Mutex
	kept map[memoKey]any
}

type memoKey struct{ addr, what string }

// recall is what is kept of a target under a name, else what read answers.
func recall[T any](m *memo, addr, what string, read func() (T, error)) (T, error) {
	key := memoKey{addr, what}
	m.mu.Lock()
	v, ok := m.kept[key].(T)
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read() // errors are not kept
	if err == nil {
		m.mu.Lock()
		if m.kept == nil {
			m.kept = map[memoKey]any{}
		}
		m.kept[key] = v
		m.mu.Unlock()
	}
	return v, err
}

// forget drops what is kept of a target.
func (m *memo) forget(addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.kept {
		if key.addr == addr {
			delete(m.kept, key)
		}
	}
}

// groupsOf are all groups of a broker, as read since the last write to it; they
// are not to be changed.
func (c *call) groupsOf(ctx context.Context, addr string) (map[string]subgroup.Config, error) {
	return recall(&c.memo, addr, "groups", func() (map[string]subgroup.Config, error) {
		all, _, err := c.client.Groups(ctx, addr)
		return all, err
	})
}

// keptConfig is all settings of a broker, as read since the last write to it.
func (c *call) keptConfig(ctx context.Context, addr string) (*admin.BrokerConfig, error) {
	return recall(&c.memo, addr, "config", func() (*admin.BrokerConfig, error) { return c.client.BrokerConfig(ctx, addr) })
}

// topicStatsOf are the queues of a topic, as read since the last write to the broker.
func (c *call) topicStatsOf(ctx context.Context, addr, topic string) (*admin.TopicStats, error) {
	return recall(&c.memo, addr, "stats/"+topic, func() (*admin.TopicStats, error) { return c.client.TopicStats(ctx, addr, topic) })
}
