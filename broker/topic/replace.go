package topic

import (
	"errors"
	"fmt"
	"slices"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/subgroup/live"
)

// ErrNoTable says that an answer to code 21 lacks the table. Such an answer must
// never empty a replica.
var ErrNoTable = errors.New("the answer has no topicConfigTable")

// Page is a part of the table as code 21 tells it.
type Page struct {
	Topics  map[string]Config
	Deleted []string // of an answer that tells only what changed
	Version table.DataVersion
}

// DecodePage reads the body of an answer to code 21, whole or a part.
func DecodePage(b []byte) (*Page, error) {
	var doc struct {
		DataVersion      *table.DataVersion `json:"dataVersion"`
		TopicConfigTable map[string]Config  `json:"topicConfigTable"`
		Deleted          []string           `json:"deleted"`
	}
	if err := fastjson.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("read a topic table: %w", err)
	}
	if doc.TopicConfigTable == nil || doc.DataVersion == nil {
		return nil, ErrNoTable
	}
	return &Page{Topics: doc.TopicConfigTable, Deleted: doc.Deleted, Version: *doc.DataVersion}, nil
}

// Replace makes the table equal to a master's, its version included: on disk
// first, then visible in one step, so that no request meets a table without its
// topics. A name that is not legal, which would become a folder, is left out. A table
// that is equal already is not written.
func (t *Table) Replace(topics map[string]Config, version table.DataVersion) (live.Difference, error) {
	values := make(map[string]*Config, len(topics))
	t.legal(values, topics)
	return t.replace(values, version)
}

// Change is Replace by what differs from the table that is there.
func (t *Table) Change(changed map[string]Config, deleted []string, version table.DataVersion) (live.Difference, error) {
	values := make(map[string]*Config, len(changed))
	t.legal(values, changed)
	var diff live.Difference
	_, err := t.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		c := live.Change[Config]{Version: &version}
		c.Edits, diff = live.Follow(pending, values, deleted, equal)
		return c, nil
	})
	return t.replaced(diff, err)
}

// replaced tells of what a master's table changed.
func (t *Table) replaced(diff live.Difference, err error) (live.Difference, error) {
	if err != nil {
		return live.Difference{}, fmt.Errorf("save the master's topics, nothing changed: %w", err)
	}
	if diff.Some() && t.o.Changed != nil {
		t.o.Changed(append(slices.Clone(diff.Changed), diff.Deleted...))
	}
	return diff, nil
}

// legal adds the topics that have a legal name to values.
func (t *Table) legal(values map[string]*Config, topics map[string]Config) {
	for name, c := range topics {
		if CheckName(name) != nil && !t.IsSystem(name) {
			continue
		}
		c = c.sanitize(name)
		values[name] = &c
	}
}

func (t *Table) replace(values map[string]*Config, version table.DataVersion) (live.Difference, error) {
	diff, err := t.live.Replace(values, version, equal, nil)
	return t.replaced(diff, err)
}

func equal(a, b *Config) bool { return a.Equal(*b) }

// ChangesJSON is PageJSON for a slave of ours that has the table of a version: only
// what changed since, with the names of what is gone in the member deleted; false if
// that version is not remembered.
func (t *Table) ChangesJSON(since table.DataVersion) (text []byte, ok bool) {
	s := t.live.Snapshot()
	changed, deleted, ok := t.told.Changes(since, s)
	if !ok {
		return nil, false
	}
	t.told.Told(s)
	text, err := fastjson.Marshal(struct {
		DataVersion      table.DataVersion  `json:"dataVersion"`
		Deleted          []string           `json:"deleted"`
		TopicConfigTable map[string]*Config `json:"topicConfigTable"`
	}{s.Version, deleted, changed})
	return text, err == nil
}

// PageJSON is the answer body of code 21 to a slave that asks for at most most
// topics from the seq-th on, in the order of their names, and how many there are. A
// slave whose version is not the table's begins anew, as it must: it gets the first.
func (t *Table) PageJSON(seq, most int, have *table.DataVersion) ([]byte, int) {
	s := t.live.Snapshot()
	t.told.Told(s)
	part, total := s.Page(seq, most, have)
	return t.encode(s.Version, part), total
}
