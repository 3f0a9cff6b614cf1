package live

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// firstBuckets is the size of a map's first table, a power of two.
const firstBuckets = 16

// seed is drawn once per process, so that names chosen by clients cannot be
// made to meet in one bucket.
var seed = maphash.MakeSeed()

// Map is a map from names to immutable values. Reads take no lock and do not
// allocate; writes cost the same however large the map is. The zero value is
// empty and ready.
//
// It is a hash table with chains of immutable nodes: a write publishes the new
// head of one chain, or a whole new table when the map has outgrown the old one.
// Readers of the old head or table see the map as it was a moment ago.
type Map[V any] struct {
	mu    sync.Mutex // serialises writers; readers never take it
	count atomic.Int64
	table atomic.Pointer[buckets[V]]
}

// buckets are the heads of the chains; their number is a power of two.
type buckets[V any] []atomic.Pointer[node[V]]

// node is one name; it never changes once it can be reached.
type node[V any] struct {
	name  string
	hash  uint64
	value *V
	next  *node[V]
}

func (b buckets[V]) head(hash uint64) *atomic.Pointer[node[V]] { return &b[hash&uint64(len(b)-1)] }

// Get returns the value called name, or nil.
func (m *Map[V]) Get(name string) *V {
	table := m.table.Load()
	if table == nil {
		return nil
	}
	hash := maphash.String(seed, name)
	for n := table.head(hash).Load(); n != nil; n = n.next {
		if n.hash == hash && n.name == name {
			return n.value
		}
	}
	return nil
}

// GetBytes is Get for a name that is still part of a request.
func (m *Map[V]) GetBytes(name []byte) *V {
	table := m.table.Load()
	if table == nil {
		return nil
	}
	hash := maphash.Bytes(seed, name)
	for n := table.head(hash).Load(); n != nil; n = n.next {
		if n.hash == hash && n.name == string(name) {
			return n.value
		}
	}
	return nil
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

// set writes. The caller holds mu.
func (m *Map[V]) set(name string, v *V) {
	table := m.grown()
	hash := maphash.String(seed, name)
	head := table.head(hash)
	had := head.Load()
	for had != nil && (had.hash != hash || had.name != name) {
		had = had.next
	}
	rest := head.Load()
	if had != nil {
		// The nodes in front of the old one are copied, those behind it shared.
		rest = without(head.Load(), had)
		m.count.Add(-1)
	}
	if v != nil {
		rest = &node[V]{name: name, hash: hash, value: v, next: rest}
		m.count.Add(1)
	}
	head.Store(rest)
}

// without is a chain that lacks one of its nodes.
func without[V any](chain, gone *node[V]) *node[V] {
	if chain == gone {
		return gone.next
	}
	copied := *chain
	copied.next = without(chain.next, gone)
	return &copied
}

// grown returns a table with room for one more name. The caller holds mu.
func (m *Map[V]) grown() buckets[V] {
	old := m.table.Load()
	switch {
	case old == nil:
		table := make(buckets[V], firstBuckets)
		m.table.Store(&table)
		return table
	case m.Len() < len(*old):
		return *old
	}
	table := make(buckets[V], 2*len(*old))
	for i := range *old {
		for n := (*old)[i].Load(); n != nil; n = n.next {
			head := table.head(n.hash)
			head.Store(&node[V]{name: n.name, hash: n.hash, value: n.value, next: head.Load()})
		}
	}
	m.table.Store(&table)
	return table
}

// Each calls f for every name until f is false. Names set or removed meanwhile
// may or may not be seen.
func (m *Map[V]) Each(f func(name string, v *V) bool) {
	table := m.table.Load()
	if table == nil {
		return
	}
	for i := range *table {
		for n := (*table)[i].Load(); n != nil; n = n.next {
			if !f(n.name, n.value) {
				return
			}
		}
	}
}
