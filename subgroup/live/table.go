package live

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// Options of a Table.
type Options[V any] struct {
	File *table.File
	// Field is the member of the document that holds the values, such as
	// topicConfigTable.
	Field string
	// Head appends further members of the document, each indented by one tab
	// and followed by a comma and a newline. It is called while a change is
	// being made, so it sees the state that will be current once that is saved.
	// Nil for none.
	Head func(dst []byte) []byte
	// Rest is what the document has besides; it stays in it. The Rest of a value goes
	// with the value.
	Rest Rest
	// NowMillis is the clock of the data version.
	NowMillis func() int64
	// Journal lets changes of a large table go to the journal of File: whoever loads it
	// must call Replay.
	Journal bool
}

// Change is what one edit of a table amounts to.
type Change[V any] struct {
	// Edits are the values that change.
	Edits []Edit[V]
	// Publish and Undo belong to state outside the values (see Options.Head):
	// one of them is run when the fate of the change is known.
	Publish, Undo func()
	// Version is the data version that the table has afterwards, of a replica's master;
	// nil: the next one.
	Version *table.DataVersion
}

// Edit gives a name a new value, or removes it if Value is nil.
type Edit[V any] struct {
	Name  string
	Value *V
}

// Table is a set of named values on disk. Two states exist: pending, which has
// the changes that are being written, and the visible one, which has only what
// is durable. Everything readers get is visible state.
type Table[V any] struct {
	values Map[V] // the visible values
	o      Options[V]
	commit *table.Committer
	all    atomic.Pointer[Snapshot[V]] // nil when it must be built anew

	mu      sync.Mutex           // guards what follows; taken inside the committer's lock, never around it
	flying  int                  // changes in pending whose fate is open
	pending map[string]*entry[V] // includes changes under way
	names   []string             // keys of pending, sorted: files are stable, and a change costs no sort
	next    table.DataVersion    // version of pending
	shown   map[string]*entry[V] // what values has, with the encoded form
	version table.DataVersion    // version of shown; version.Counter <= next.Counter
	edits   []Edit[V]            // applied since the last line for the journal
	whole   bool                 // some of them are more than edits
	saved   int64                // version.Counter of the newest document
}

// entry is one value with its lines of the document.
type entry[V any] struct {
	value *V
	lines []byte
}

// Snapshot is an immutable picture of a table.
type Snapshot[V any] struct {
	Values  map[string]*V
	Version table.DataVersion
}

// New makes a table of the values that were read from its file, together with
// those the caller adds without writing them.
func New[V any](o Options[V], values map[string]*V, version table.DataVersion) (*Table[V], error) {
	t := &Table[V]{
		o:       o,
		pending: make(map[string]*entry[V], len(values)),
		shown:   make(map[string]*entry[V], len(values)),
		next:    version,
		version: version,
		saved:   version.Counter,
	}
	for name, v := range values {
		e, err := newEntry(name, v)
		if err != nil {
			return nil, err
		}
		t.pending[name], t.shown[name] = e, e
		t.names = append(t.names, name)
		t.values.Set(name, v)
	}
	sort.Strings(t.names)
	t.commit = table.NewCommitter(o.File, t.document)
	if o.Journal {
		t.commit.Journal(t.delta)
	}
	return t, nil
}

// Get returns the visible value called name, or nil. It takes no lock.
func (t *Table[V]) Get(name string) *V { return t.values.Get(name) }

// GetBytes is Get for a name that is still part of a request; no allocation.
func (t *Table[V]) GetBytes(name []byte) *V { return t.values.GetBytes(name) }

// Len is the number of visible values.
func (t *Table[V]) Len() int { return t.values.Len() }

// errUnchanged leaves table.Committer.Change without a save.
var errUnchanged = errors.New("unchanged")

// Apply runs decide on the pending state and makes what it returns durable,
// then visible. It reports whether anything changed. Callers that change
// nothing still wait for changes under way, as their answer may rest on them.
func (t *Table[V]) Apply(decide func(pending func(name string) *V) (Change[V], error)) (bool, error) {
	changed := false
	err := t.commit.Change(func() (publish, undo func(), err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		c, err := decide(t.pendingValue)
		if err != nil {
			return nil, nil, err
		}
		if len(c.Edits) == 0 && c.Publish == nil && (c.Version == nil || *c.Version == t.next) {
			if t.flying == 0 {
				return nil, nil, errUnchanged
			}
			t.flying++
			return t.land, t.land, nil
		}
		entries, err := newEntries(c.Edits)
		if err != nil {
			return nil, nil, err
		}
		changed = true
		t.flying++
		for i, e := range c.Edits {
			t.put(e.Name, entries[i])
		}
		if t.o.Journal {
			t.edits = append(t.edits, c.Edits...)
			t.whole = t.whole || c.Publish != nil
		}
		t.next = t.next.Next(t.o.NowMillis())
		if c.Version != nil {
			t.next = *c.Version
		}
		version := t.next
		return func() { t.publish(c, entries, version) }, func() { t.undo(c, entries) }, nil
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return changed && err == nil, err
}

// pendingValue is the value of name in the pending state. The caller holds mu.
func (t *Table[V]) pendingValue(name string) *V {
	if e := t.pending[name]; e != nil {
		return e.value
	}
	return nil
}

// land counts down a change that edits nothing and only waited for others.
func (t *Table[V]) land() {
	t.mu.Lock()
	t.flying--
	t.mu.Unlock()
}

// publish makes a saved change visible.
func (t *Table[V]) publish(c Change[V], entries []*entry[V], version table.DataVersion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flying--
	for i, e := range c.Edits {
		if entries[i] == nil {
			delete(t.shown, e.Name)
			if t.pending[e.Name] == nil {
				delete(t.o.Rest.values, e.Name) // one that is made again is another one
			}
		} else {
			t.shown[e.Name] = entries[i]
		}
		t.values.Set(e.Name, e.Value)
	}
	if version.Counter > t.version.Counter || c.Version != nil {
		t.version = version
	}
	if c.Publish != nil {
		c.Publish()
	}
	t.all.Store(nil)
}

// undo takes back a change that could not be saved: each of its names returns
// to the durable value, unless a later change has replaced it already. The
// counter stays: versions never go backwards.
func (t *Table[V]) undo(c Change[V], entries []*entry[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flying--
	for i, e := range c.Edits {
		if t.pending[e.Name] == entries[i] {
			t.put(e.Name, t.shown[e.Name])
		}
	}
	if c.Undo != nil {
		c.Undo()
	}
}

// put sets or (nil) removes a pending entry. The caller holds mu.
func (t *Table[V]) put(name string, e *entry[V]) {
	i, found := slices.BinarySearch(t.names, name)
	switch {
	case e == nil && found:
		t.names = slices.Delete(t.names, i, i+1)
		delete(t.pending, name)
	case e != nil && !found:
		t.names = slices.Insert(t.names, i, name)
		t.pending[name] = e
	case e != nil:
		t.pending[name] = e
	}
}

// Snapshot is the visible state. It must not be modified.
func (t *Table[V]) Snapshot() *Snapshot[V] {
	if s := t.all.Load(); s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Snapshot[V]{Values: make(map[string]*V, len(t.shown)), Version: t.version}
	for name, e := range t.shown {
		s.Values[name] = e.value
	}
	t.all.Store(s)
	return s
}

// document is the file of the pending state, in the form ConfigManager of
// RocketMQ 5.3.3 writes.
func (t *Table[V]) document() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved = t.next.Counter
	size := 256
	for _, e := range t.pending {
		size += len(e.lines) + 2
	}
	b := make([]byte, 0, size)
	b = append(b, "{\n\t\"dataVersion\":"...)
	b = AppendVersion(b, t.next, "\n\t")
	b = append(b, ",\n"...)
	if t.o.Head != nil {
		b = t.o.Head(b)
	}
	b = append(b, '\t')
	b = strconv.AppendQuote(b, t.o.Field)
	b = append(b, ":{"...)
	for i, name := range t.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '\n')
		b = t.o.Rest.appendValue(b, name, t.pending[name].lines)
	}
	if len(t.names) > 0 {
		b = append(b, "\n\t"...)
	}
	b = append(append(b, '}'), t.o.Rest.members...)
	return append(b, "\n}"...), nil
}

// newEntry encodes one value as its lines of the document.
func newEntry[V any](name string, v *V) (*entry[V], error) {
	key, err := fastjson.Marshal(name)
	if err != nil {
		return nil, fmt.Errorf("encode the name %q: %w", name, err)
	}
	text, err := fastjson.MarshalIndent(v)
	if err != nil {
		return nil, fmt.Errorf("encode the settings of %q: %w", name, err)
	}
	lines := append([]byte("\t\t"), key...)
	lines = append(lines, ':')
	// No string of JSON holds a bare newline, so every one is a line's end.
	return &entry[V]{value: v, lines: append(lines, bytes.ReplaceAll(text, []byte("\n"), []byte("\n\t\t"))...)}, nil
}

func newEntries[V any](edits []Edit[V]) ([]*entry[V], error) {
	entries := make([]*entry[V], len(edits))
	for i, e := range edits {
		if e.Value == nil {
			continue
		}
		var err error
		if entries[i], err = newEntry(e.Name, e.Value); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// AppendVersion appends a data version as RocketMQ writes it; each member
// starts with newline plus a tab, the end with newline. An empty newline gives
// the compact form.
func AppendVersion(dst []byte, v table.DataVersion, newline string) []byte {
	member := func(name string, n int64) {
		dst = append(dst, newline...)
		if newline != "" {
			dst = append(dst, '\t')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		dst = strconv.AppendInt(dst, n, 10)
	}
	dst = append(dst, '{')
	member("counter", v.Counter)
	dst = append(dst, ',')
	member("stateVersion", v.StateVersion)
	dst = append(dst, ',')
	member("timestamp", v.Timestamp)
	dst = append(dst, newline...)
	return append(dst, '}')
}
