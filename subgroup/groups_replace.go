package subgroup

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/subgroup/live"
)

// ErrNoGroupTable says that an answer to code 201 lacks the table. Such an answer
// must never empty a replica.
var ErrNoGroupTable = errors.New("the answer has no subscriptionGroupTable")

// GroupPage is a part of the table of groups as code 201 tells it.
type GroupPage struct {
	Groups map[string]Config
	// Forbidden are the bits by group and topic; nil if the answer has none.
	Forbidden map[string]map[string]int32
	Deleted   []string // of an answer that tells only what changed
	Version   table.DataVersion
}

// DecodeGroupPage reads the body of an answer to code 201, whole or a part.
func DecodeGroupPage(b []byte) (*GroupPage, error) {
	var doc struct {
		DataVersion            *table.DataVersion          `json:"dataVersion"`
		ForbiddenTable         map[string]map[string]int32 `json:"forbiddenTable"`
		SubscriptionGroupTable map[string]Config           `json:"subscriptionGroupTable"`
		Deleted                []string                    `json:"deleted"`
	}
	if err := fastjson.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("read a table of groups: %w", err)
	}
	if doc.SubscriptionGroupTable == nil || doc.DataVersion == nil {
		return nil, ErrNoGroupTable
	}
	return &GroupPage{Groups: doc.SubscriptionGroupTable, Forbidden: doc.ForbiddenTable, Deleted: doc.Deleted, Version: *doc.DataVersion}, nil
}

// Replace makes the table equal to a master's, its version and what is forbidden
// included (nil bits leave what there is): on disk first, then visible in one
// step. Names that are not legal are left out. A table that is equal already is not
// written.
func (g *Groups) Replace(groups map[string]Config, bits map[string]map[string]int32, version table.DataVersion) (live.Difference, error) {
	values := make(map[string]*Config, len(groups))
	for name, c := range groups {
		if CheckName(name) != nil {
			continue
		}
		c.GroupName = name
		c.RetryQueueNums = min(max(c.RetryQueueNums, 0), maxRetryQueues)
		values[name] = &c
	}
	var moved []string
	diff, err := g.live.Replace(values, version, func(a, b *Config) bool { return a.Equal(*b) },
		func() (publish, undo func()) {
			moved = nil
			if bits == nil {
				return nil, nil
			}
			publish, undo, moved = g.replaceForbidden(bits)
			return publish, undo
		})
	if err != nil {
		return live.Difference{}, fmt.Errorf("save the master's groups, nothing changed: %w", err)
	}
	names := slices.Concat(diff.Changed, diff.Deleted, moved)
	if len(names) > 0 && g.o.Changed != nil {
		slices.Sort(names)
		g.o.Changed(slices.Compact(names))
	}
	return diff, nil
}

// Change is Replace by what differs from the table that is there.
func (g *Groups) Change(p *GroupPage) (live.Difference, error) {
	var diff live.Difference
	var moved []string
	_, err := g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		diff, moved = live.Difference{}, nil
		c := live.Change[Config]{Version: &p.Version}
		for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
			next := p.Groups[name]
			next.GroupName = name
			next.RetryQueueNums = min(max(next.RetryQueueNums, 0), maxRetryQueues)
			if have := pending(name); CheckName(name) == nil && (have == nil || !have.Equal(next)) {
				c.Edits = append(c.Edits, live.Edit[Config]{Name: name, Value: &next})
				diff.Changed = append(diff.Changed, name)
			}
		}
		for _, name := range p.Deleted {
			if pending(name) != nil {
				c.Edits = append(c.Edits, live.Edit[Config]{Name: name})
				diff.Deleted = append(diff.Deleted, name)
			}
		}
		if p.Forbidden != nil {
			c.Publish, c.Undo, moved = g.replaceForbidden(p.Forbidden)
		}
		return c, nil
	})
	if err != nil {
		return live.Difference{}, fmt.Errorf("save the master's groups, nothing changed: %w", err)
	}
	if names := slices.Concat(diff.Changed, diff.Deleted, moved); len(names) > 0 && g.o.Changed != nil {
		slices.Sort(names)
		g.o.Changed(slices.Compact(names))
	}
	return diff, nil
}

// ChangesJSON is PageJSON for a slave of ours that has the table of a version: only
// what changed since, with the names of what is gone in the member deleted; false if
// that version is not remembered.
func (g *Groups) ChangesJSON(since table.DataVersion) (text []byte, ok bool) {
	s := g.live.Snapshot()
	changed, deleted, ok := g.told.Changes(since, s)
	if !ok {
		return nil, false
	}
	g.told.Told(s)
	text, err := fastjson.Marshal(struct {
		DataVersion            table.DataVersion    `json:"dataVersion"`
		Deleted                []string             `json:"deleted"`
		ForbiddenTable         map[string]forbidden `json:"forbiddenTable"`
		SubscriptionGroupTable map[string]*Config   `json:"subscriptionGroupTable"`
	}{s.Version, deleted, g.bits(), changed})
	return text, err == nil
}

// replaceForbidden makes bits the pending forbidden table; nil functions if they
// are what is there. It runs inside the table's lock, as do the functions it returns.
func (g *Groups) replaceForbidden(bits map[string]map[string]int32) (publish, undo func(), moved []string) {
	next := make(map[string]*forbidden, len(bits))
	for group, topics := range bits {
		if len(topics) == 0 || CheckName(group) != nil {
			continue
		}
		of := forbidden(maps.Clone(topics))
		if old := g.pendingForbidden[group]; old != nil && maps.Equal(*old, of) {
			next[group] = old
			continue
		}
		next[group] = &of
		moved = append(moved, group)
	}
	for group := range g.pendingForbidden {
		if next[group] == nil {
			moved = append(moved, group)
		}
	}
	if len(moved) == 0 {
		return nil, nil, nil
	}
	old := g.pendingForbidden
	g.pendingForbidden = next
	shown := maps.Clone(next)
	return func() { g.forbidden.Fill(shown) }, func() { g.pendingForbidden = old }, moved
}

// PageJSON is the answer body of code 201 to a slave that asks for at most most
// groups from the seq-th on, in the order of their names, and how many there are. A
// slave whose version is not the table's begins anew, so it gets the first. What is
// forbidden is in every page.
func (g *Groups) PageJSON(seq, most int, have *table.DataVersion) (text []byte, total int) {
	s := g.live.Snapshot()
	if have != nil && *have != s.Version {
		seq = 0
	}
	g.told.Told(s)
	names := live.Names(s)
	seq = min(max(seq, 0), len(names))
	part := map[string]*Config{}
	for _, name := range names[seq:min(len(names), seq+max(0, min(most, len(names))))] {
		part[name] = s.Values[name]
	}
	return encodeGroups(s.Version, g.bits(), part), len(names)
}
