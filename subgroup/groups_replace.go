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
	values := legalGroups(groups)
	var moved []string
	diff, err := g.live.Replace(values, version, equalGroups,
		func() (publish, undo func()) {
			moved = nil
			if bits == nil {
				return nil, nil
			}
			publish, undo, moved = g.replaceForbidden(bits)
			return publish, undo
		})
	return g.replaced(diff, moved, err)
}

// legalGroups are the groups that have a legal name, with values in their range.
func legalGroups(groups map[string]Config) map[string]*Config {
	values := make(map[string]*Config, len(groups))
	for name, c := range groups {
		if CheckName(name) != nil {
			continue
		}
		c.GroupName = name
		c.RetryQueueNums = min(max(c.RetryQueueNums, 0), maxRetryQueues)
		values[name] = &c
	}
	return values
}

func equalGroups(a, b *Config) bool { return a.Equal(*b) }

// replaced tells of what a master's table changed, moved being the groups whose
// forbidden topics did.
func (g *Groups) replaced(diff live.Difference, moved []string, err error) (live.Difference, error) {
	if err != nil {
		return live.Difference{}, fmt.Errorf("save the master's groups, nothing changed: %w", err)
	}
	if names := slices.Concat(diff.Changed, diff.Deleted, moved); len(names) > 0 && g.o.Changed != nil {
		slices.Sort(names)
		g.o.Changed(slices.Compact(names))
	}
	return diff, nil
}

// Change is Replace by what differs from the table that is there.
func (g *Groups) Change(p *GroupPage) (live.Difference, error) {
	values := legalGroups(p.Groups)
	var diff live.Difference
	var moved []string
	_, err := g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		moved = nil
		c := live.Change[Config]{Version: &p.Version}
		c.Edits, diff = live.Follow(pending, values, p.Deleted, equalGroups)
		if p.Forbidden != nil {
			c.Publish, c.Undo, moved = g.replaceForbidden(p.Forbidden)
		}
		return c, nil
	})
	return g.replaced(diff, moved, err)
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
func (g *Groups) PageJSON(seq, most int, have *table.DataVersion) ([]byte, int) {
	s := g.live.Snapshot()
	g.told.Told(s)
	part, total := s.Page(seq, most, have)
	return encodeGroups(s.Version, g.bits(), part), total
}
