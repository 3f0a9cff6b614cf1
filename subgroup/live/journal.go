package live

import (
	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// mostJournalled bounds the edits of one line: more are as many as a table.
const mostJournalled = 256

// mostBehind bounds how far the version counts on between two generations of a document: a
// fallback to the older one must count on behind all that was told (table.File.Version).
const mostBehind = 300

// Line is one line of a table's journal: what a group of changes amounts to.
type Line[V any] struct {
	Version table.DataVersion `json:"dataVersion"`
	Set     map[string]*V     `json:"set"`
	Deleted []string          `json:"deleted"`
}

// Replay applies the lines of a table's journal to the values that were read from its
// document, and returns the version they end at.
func Replay[V any](f *table.File, values map[string]V, version table.DataVersion) (table.DataVersion, error) {
	err := f.Replay(func(text []byte) error {
		var l Line[V]
		if err := fastjson.Unmarshal(text, &l); err != nil {
			return err
		}
		for name, v := range l.Set {
			if v != nil {
				values[name] = *v
			}
		}
		for _, name := range l.Deleted {
			delete(values, name)
		}
		version = l.Version
		return nil
	})
	return version, err
}

// delta is the line of the changes applied since it was called last; nil if it cannot
// say what they are.
func (t *Table[V]) delta() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	edits, whole := t.edits, t.whole
	t.edits, t.whole = nil, false
	behind := t.next.Counter - t.saved
	if whole || len(edits) == 0 || len(edits) > mostJournalled || behind < 0 || behind > mostBehind {
		return nil
	}
	l := Line[V]{Version: t.next, Set: map[string]*V{}, Deleted: []string{}}
	for _, e := range edits {
		if _, there := t.pending[e.Name]; !there {
			l.Deleted = append(l.Deleted, e.Name)
		} else {
			l.Set[e.Name] = t.pending[e.Name].value
		}
	}
	text, err := fastjson.Marshal(l)
	if err != nil {
		return nil
	}
	return text
}

// Flush saves the whole table if some of its changes are in the journal only.
func (t *Table[V]) Flush() error { return t.commit.Flush() }
