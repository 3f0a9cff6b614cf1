package live

import (
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"mqctl/store/table"
)

// Fill makes values the whole map. Readers see either the old map or the new
// one, never a part.
func (m *Map[V]) Fill(values map[string]*V) {
	size := firstBuckets
	for size < len(values) {
		size *= 2
	}
	next := make(buckets[V], size)
	count := 0
	for name, v := range values {
		if v == nil {
			continue
		}
		hash := maphash.String(seed, name)
		head := next.head(hash)
		head.Store(&node[V]{name: name, hash: hash, value: v, next: head.Load()})
		count++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Store(&next)
	m.count.Store(int64(count))
}

// Difference is what a Replace changed, each list sorted.
type Difference struct {
	Changed []string // new ones too
	Deleted []string
}

// Some reports whether anything differs.
func (d *Difference) Some() bool { return len(d.Changed)+len(d.Deleted) > 0 }

// Replace makes values the whole table and version its data version, so that a
// replica's table equals its master's: durable first, then visible in one step.
// Values that are equal to those that are there stay as they are. A table that is the
// same already, version included, is not written. beside, if not nil, changes what
// lies outside the values (see Change): it is called with the table's lock held,
// and returns nil, nil if it has nothing to change.
func (t *Table[V]) Replace(values map[string]*V, version table.DataVersion, equal func(a, b *V) bool,
	beside func() (publish, undo func())) (Difference, error) {
	var diff Difference
	err := t.commit.Change(func() (publish, undo func(), err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		diff = Difference{}
		next, err := t.replacement(values, equal, &diff)
		if err != nil {
			return nil, nil, err
		}
		var c Change[V]
		if beside != nil {
			c.Publish, c.Undo = beside()
		}
		if !diff.Some() && version == t.next && c.Publish == nil {
			if t.flying == 0 {
				return nil, nil, errUnchanged
			}
			t.flying++
			return t.land, t.land, nil
		}
		oldPending, oldNames, oldVersion := t.pending, t.names, t.next
		t.flying++
		t.pending, t.names, t.next = next, slices.Sorted(maps.Keys(next)), version
		shown := maps.Clone(next) // pending goes on changing
		publish = func() { t.publishAll(shown, version, c.Publish) }
		undo = func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.flying--
			t.pending, t.names, t.next = oldPending, oldNames, oldVersion
			if c.Undo != nil {
				c.Undo()
			}
		}
		return publish, undo, nil
	})
	if errors.Is(err, errUnchanged) {
		return diff, nil
	}
	return diff, err
}

// replacement builds the entries of a whole new table and notes what differs from
// the pending state. The caller holds mu.
func (t *Table[V]) replacement(values map[string]*V, equal func(a, b *V) bool, diff *Difference) (map[string]*entry[V], error) {
	next := make(map[string]*entry[V], len(values))
	for name, v := range values {
		if old := t.pending[name]; old != nil && (old.value == v || equal(old.value, v)) {
			next[name] = old
			continue
		}
		e, err := newEntry(name, v)
		if err != nil {
			return nil, err
		}
		next[name] = e
		diff.Changed = append(diff.Changed, name)
	}
	for name := range t.pending {
		if next[name] == nil {
			diff.Deleted = append(diff.Deleted, name)
		}
	}
	slices.Sort(diff.Changed)
	slices.Sort(diff.Deleted)
	return next, nil
}

// publishAll makes a saved replacement visible.
func (t *Table[V]) publishAll(shown map[string]*entry[V], version table.DataVersion, beside func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flying--
	values := make(map[string]*V, len(shown))
	for name, e := range shown {
		values[name] = e.value
	}
	t.shown, t.version = shown, version
	t.values.Fill(values)
	if beside != nil {
		beside()
	}
	t.all.Store(nil)
}

// Names are the names of a snapshot in order.
func Names[V any](s *Snapshot[V]) []string { return slices.Sorted(maps.Keys(s.Values)) }

// keptSnapshots is how many snapshots a History keeps: one for each replica that
// follows, and some.
const keptSnapshots = 4

// History keeps the snapshots that were told to replicas lately, so that the next
// question is answered by what changed since. The zero value is empty and ready.
type History[V any] struct {
	mu   sync.Mutex // guards kept, for moments
	kept []*Snapshot[V]
}

// Told notes a snapshot that a replica was told.
func (h *History[V]) Told(s *Snapshot[V]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = slices.DeleteFunc(h.kept, func(k *Snapshot[V]) bool { return k.Version == s.Version })
	if len(h.kept) == keptSnapshots {
		h.kept = slices.Delete(h.kept, 0, 1)
	}
	h.kept = append(h.kept, s)
}

// Changes are the values of now that the snapshot of a version lacks or has
// otherwise, and the names that now lacks; false if that snapshot is not kept.
func (h *History[V]) Changes(version table.DataVersion, now *Snapshot[V]) (changed map[string]*V, deleted []string, ok bool) {
	h.mu.Lock()
	i := slices.IndexFunc(h.kept, func(k *Snapshot[V]) bool { return k.Version == version })
	var old *Snapshot[V]
	if i >= 0 {
		old = h.kept[i]
	}
	h.mu.Unlock()
	if old == nil {
		return nil, nil, false
	}
	changed = map[string]*V{}
	for name, v := range now.Values {
		if old.Values[name] != v {
			changed[name] = v
		}
	}
	for name := range old.Values {
		if now.Values[name] == nil {
			deleted = append(deleted, name)
		}
	}
	slices.Sort(deleted)
	return changed, deleted, true
}

// Follow makes the edits that bring a table to a master's: changed are the values
// that may differ there, deleted the names that are gone. It is called by a decide
// function of Apply, whose pending values it compares with.
func Follow[V any](pending func(name string) *V, changed map[string]*V, deleted []string, equal func(a, b *V) bool) (edits []Edit[V], diff Difference) {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if have := pending(name); have == nil || !equal(have, changed[name]) {
			edits = append(edits, Edit[V]{Name: name, Value: changed[name]})
			diff.Changed = append(diff.Changed, name)
		}
	}
	for _, name := range deleted {
		if pending(name) != nil {
			edits = append(edits, Edit[V]{Name: name})
			diff.Deleted = append(diff.Deleted, name)
		}
	}
	return edits, diff
}

// Page takes at most most values from the seq-th on, in the order of their names,
// and says how many there are in all. One who has another version of the table than
// this snapshot begins anew: he gets the first.
func (s *Snapshot[V]) Page(seq, most int, have *table.DataVersion) (part map[string]*V, total int) {
	if have != nil && *have != s.Version {
		seq = 0
	}
	names := Names(s)
	seq = min(max(seq, 0), len(names))
	names, total = names[seq:], len(names)
	names = names[:min(len(names), max(0, most))]
	part = make(map[string]*V, len(names))
	for _, name := range names {
		part[name] = s.Values[name]
	}
	return part, total
}
