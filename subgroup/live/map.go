package live

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// shardCount bounds what one change copies: a 256th of the map.
const shardCount = 256

// seed is drawn once per process, so that names chosen by clients cannot be
// made to meet in one shard.
var seed = maphash.MakeSeed()

// Map is a map from names to immutable values. Reads take no lock and do not
// allocate; a write copies one small shard. The zero value is empty and ready.
type Map[V any] struct {
	mu     sync.Mutex // serialises writers; readers never take it
	count  atomic.Int64
	shards [shardCount]atomic.Pointer[map[string]*V]
}

// Get returns the value called name, or nil.
func (m *Map[V]) Get(name string) *V {
	shard := m.shards[maphash.String(seed, name)%shardCount].Load()
	if shard == nil {
		return nil
	}
	return (*shard)[name]
}

// GetBytes is Get for a name that is still part of a request.
func (m *Map[V]) GetBytes(name []byte) *V {
	shard := m.shards[maphash.Bytes(seed, name)%shardCount].Load()
	if shard == nil {
		return nil
	}
	return (*shard)[string(name)]
}

// Len is the number of names.
func (m *Map[V]) Len() int { return int(m.count.Load()) }

// Set makes v the value of name; nil removes the name.
func (m *Map[V]) Set(name string, v *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(name, v)
}

// SetIfAbsent stores v unless the name has a value already, and returns the
// value that is there afterwards.
func (m *Map[V]) SetIfAbsent(name string, v *V) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.Get(name); old != nil {
		return old
	}
	m.set(name, v)
	return v
}

// set replaces a shard by a changed copy. The caller holds mu.
func (m *Map[V]) set(name string, v *V) {
	slot := &m.shards[maphash.String(seed, name)%shardCount]
	var old map[string]*V
	if p := slot.Load(); p != nil {
		old = *p
	}
	_, had := old[name]
	if v == nil && !had {
		return
	}
	next := make(map[string]*V, len(old)+1)
	for k, o := range old {
		next[k] = o
	}
	switch {
	case v == nil:
		delete(next, name)
		m.count.Add(-1)
	case had:
		next[name] = v
	default:
		next[name] = v
		m.count.Add(1)
	}
	slot.Store(&next)
}

// Each calls f for every name until f is false. Names set or removed meanwhile
// may or may not be seen.
func (m *Map[V]) Each(f func(name string, v *V) bool) {
	for i := range m.shards {
		shard := m.shards[i].Load()
		if shard == nil {
			continue
		}
		for name, v := range *shard {
			if !f(name, v) {
				return
			}
		}
	}
}
