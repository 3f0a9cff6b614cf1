package subgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup/live"
)

// GroupsOptions of Groups.
type GroupsOptions struct {
	FS         vfs.FS
	Dir        string      // <root>/config
	AutoCreate func() bool // autoCreateSubscriptionGroup, live
	// Frozen says that only Replace changes the table now: a slave has the groups of
	// its master. Nil means never.
	Frozen    func() bool
	NowMillis func() int64
	// Changed is called after a change is durable and live, with the groups
	// concerned, by the goroutine that made the change.
	Changed func(names []string)
}

// sysGroupPrefix marks groups of the system, which may always be made
// (enableCreateSysGroup, true by default).
const sysGroupPrefix = "CID_RMQ_SYS_"

// systemGroups exist from the start (SubscriptionGroupManager).
func systemGroups() []string {
	return []string{
		"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
		"CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
	}
}

// readForbidden is the bit of a forbidden value that stops reading: one shifted
// by PermName.INDEX_PERM_READ.
const readForbidden = 1 << 2

// forbidden are the bits of one group, by topic. A value is immutable.
type forbidden map[string]int32

// Groups is the table of group settings: immutable values, read without a lock.
type Groups struct {
	o    GroupsOptions
	live *live.Table[Config]
	body atomic.Pointer[groupsBody] // of JSON, for one version of the table
	told live.History[Config]       // to slaves

	// The visible forbidden table, and the one that includes changes under way.
	// The latter, and writes of the former, happen inside live.Table's lock.
	forbidden        live.Map[forbidden]
	pendingForbidden map[string]*forbidden

	refused  []string
	fallback error
}

// groupsBody is an encoded answer to code 201.
type groupsBody struct {
	of   *live.Snapshot[Config]
	text []byte
}

// memberGroups is the member of subscriptionGroup.json that has the groups.
const memberGroups = "subscriptionGroupTable"

// groupsDocument is subscriptionGroup.json.
type groupsDocument struct {
	DataVersion            table.DataVersion           `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32 `json:"forbiddenTable"`
	SubscriptionGroupTable map[string]Config           `json:"subscriptionGroupTable"`
}

// LoadGroups reads subscriptionGroup.json (or its .bak) and adds the groups of
// the system that are missing, which are written with the first change.
func LoadGroups(o GroupsOptions) (*Groups, error) {
	g := &Groups{o: o, pendingForbidden: map[string]*forbidden{}}
	file := table.NewFile(o.FS, o.Dir, "subscriptionGroup.json")
	var doc groupsDocument
	var rest live.Rest
	_, err := file.Load(func(b []byte) (err error) {
		doc = groupsDocument{}
		if err = fastjson.Unmarshal(b, &doc); err == nil {
			rest, err = live.Unknown[Config](b, memberGroups, "forbiddenTable")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the table of groups: %w", err)
	}
	values := make(map[string]*Config, len(doc.SubscriptionGroupTable)+8)
	for name, c := range doc.SubscriptionGroupTable {
		if CheckName(name) != nil {
			g.refused = append(g.refused, name)
			continue
		}
		c.GroupName = name
		c.RetryQueueNums = min(max(c.RetryQueueNums, 0), maxRetryQueues)
		values[name] = &c
	}
	slices.Sort(g.refused)
	g.fallback = file.UsedBak()
	version, added := file.Version(doc.DataVersion), false
	for _, name := range systemGroups() {
		if values[name] == nil {
			c := Defaults(name)
			values[name] = &c
			added = true
		}
	}
	if added {
		version = version.Next(o.NowMillis())
	}
	for group, topics := range doc.ForbiddenTable {
		if len(topics) > 0 {
			of := forbidden(topics)
			g.pendingForbidden[group] = &of
			g.forbidden.Set(group, &of)
		}
	}
	g.live, err = live.New(live.Options[Config]{
		File: file, Field: memberGroups, Rest: rest, Head: g.appendForbidden, NowMillis: o.NowMillis,
	}, values, version)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Fallback says why subscriptionGroup.json.bak was read instead of
// subscriptionGroup.json; nil if it was not.
func (g *Groups) Fallback() error { return g.fallback }

// Refused names the entries of the file that were left out because their name
// is not legal.
func (g *Groups) Refused() []string { return g.refused }

// Get returns the settings or nil; it never creates. The value is immutable.
func (g *Groups) Get(name string) *Config { return g.live.Get(name) }

// GetBytes is Get for a name that is still part of a request. It does not allocate.
func (g *Groups) GetBytes(name []byte) *Config { return g.live.GetBytes(name) }

// Len is the number of groups.
func (g *Groups) Len() int { return g.live.Len() }

// CanCreate says whether FindOrCreate would make a missing group of that name.
func (g *Groups) CanCreate(name string) bool {
	if g.o.Frozen != nil && g.o.Frozen() {
		return false
	}
	return (g.o.AutoCreate() || strings.HasPrefix(name, sysGroupPrefix)) && CheckName(name) == nil
}

// FindOrCreate returns the group, made with the defaults if it is missing and
// may be made; nil and no error if it may not. Making one waits for the disk.
func (g *Groups) FindOrCreate(name string) (*Config, error) {
	if c := g.Get(name); c != nil {
		return c, nil
	}
	if !g.CanCreate(name) {
		return nil, nil
	}
	c := Defaults(name)
	result := &c
	changed, err := g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		if have := pending(name); have != nil {
			result = have
			return live.Change[Config]{}, nil
		}
		return edit(name, &c), nil
	})
	if err != nil {
		return nil, explain(name, err)
	}
	g.tell(changed, name)
	return result, nil
}

// Put creates or replaces a group: durable before it returns, visible after;
// changed is false if it was the same before. Violations are a *RuleError.
func (g *Groups) Put(c Config) (changed bool, err error) {
	if err := CheckName(c.GroupName); err != nil {
		return false, err
	}
	if err := c.Validate(); err != nil {
		return false, err
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	changed, err = g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		if have := pending(c.GroupName); have != nil && have.Equal(c) {
			return live.Change[Config]{}, nil
		}
		return edit(c.GroupName, &c), nil
	})
	if err != nil {
		return false, explain(c.GroupName, err)
	}
	g.tell(changed, c.GroupName)
	return changed, nil
}

// PutAll creates or replaces many groups in one durable change, or none of them. Of
// a group that is named twice the later settings count. Violations are a *RuleError.
func (g *Groups) PutAll(list []Config) error {
	last := make(map[string]int, len(list))
	for i, c := range list {
		if err := CheckName(c.GroupName); err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return err
		}
		if c.Attributes == nil {
			list[i].Attributes = map[string]string{}
		}
		last[c.GroupName] = i
	}
	var names []string
	_, err := g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		var c live.Change[Config]
		for i, want := range list {
			if last[want.GroupName] != i {
				continue
			}
			if have := pending(want.GroupName); have == nil || !have.Equal(want) {
				c.Edits = append(c.Edits, live.Edit[Config]{Name: want.GroupName, Value: &want})
				names = append(names, want.GroupName)
			}
		}
		return c, nil
	})
	if err != nil {
		return fmt.Errorf("save %d groups, nothing changed: %w", len(last), err)
	}
	if len(names) > 0 && g.o.Changed != nil {
		g.o.Changed(names)
	}
	return nil
}

// Delete removes a group and what is forbidden to it, durably; false if it was
// not there.
func (g *Groups) Delete(name string) (bool, error) {
	changed, err := g.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		if pending(name) == nil {
			return live.Change[Config]{}, nil
		}
		c := edit(name, nil)
		if g.pendingForbidden[name] != nil {
			c.Publish, c.Undo = g.setForbidden(name, nil)
		}
		return c, nil
	})
	if err != nil {
		return false, explain(name, err)
	}
	g.tell(changed, name)
	return changed, nil
}

func edit(name string, c *Config) live.Change[Config] {
	return live.Change[Config]{Edits: []live.Edit[Config]{{Name: name, Value: c}}}
}

func explain(name string, err error) error {
	var rule *RuleError
	if errors.As(err, &rule) {
		return err
	}
	return fmt.Errorf("save group %s, nothing changed: %w", name, err)
}

func (g *Groups) tell(changed bool, name string) {
	if changed && g.o.Changed != nil {
		g.o.Changed([]string{name})
	}
}

// SetForbidden lets a group read a topic or not (code 353), durably. Only this
// topic's bit changes; the original drops the bits of all topics when one
// becomes 0.
func (g *Groups) SetForbidden(group, topic string, readable bool) error {
	if err := CheckName(group); err != nil {
		return err
	}
	changed, err := g.live.Apply(func(func(string) *Config) (live.Change[Config], error) {
		var old forbidden
		if p := g.pendingForbidden[group]; p != nil {
			old = *p
		}
		value := old[topic] | readForbidden
		if readable {
			value = old[topic] &^ readForbidden
		}
		if value == old[topic] {
			return live.Change[Config]{}, nil
		}
		next := make(forbidden, len(old)+1)
		for t, v := range old {
			next[t] = v
		}
		next[topic] = value
		if value == 0 {
			delete(next, topic)
		}
		publish, undo := g.setForbidden(group, next)
		return live.Change[Config]{Publish: publish, Undo: undo}, nil
	})
	if err != nil {
		return explain(group, err)
	}
	g.tell(changed, group)
	return nil
}

// setForbidden makes next the pending bits of a group and returns how to make
// them visible or take them back. It runs inside the table's lock, as do both
// functions.
func (g *Groups) setForbidden(group string, next forbidden) (publish, undo func()) {
	mine := &next
	if len(next) == 0 {
		mine = nil
	}
	put := func(f *forbidden) {
		if f == nil {
			delete(g.pendingForbidden, group)
			return
		}
		g.pendingForbidden[group] = f
	}
	put(mine)
	publish = func() { g.forbidden.Set(group, mine) }
	undo = func() {
		// As with the settings: a later change keeps its place.
		if g.pendingForbidden[group] == mine {
			put(g.forbidden.Get(group))
		}
	}
	return publish, undo
}

// Forbidden reports whether a group may not read a topic. It does not allocate.
func (g *Groups) Forbidden(group, topic []byte) bool {
	f := g.forbidden.GetBytes(group)
	return f != nil && (*f)[string(topic)]&readForbidden != 0
}

// appendForbidden is the forbiddenTable member of the file.
func (g *Groups) appendForbidden(dst []byte) []byte {
	text, err := fastjson.MarshalIndent(g.pendingForbidden)
	if err != nil {
		panic("subgroup: a map of numbers does not encode: " + err.Error())
	}
	dst = append(dst, "\t\"forbiddenTable\":"...)
	dst = append(dst, strings.ReplaceAll(string(text), "\n", "\n\t")...)
	return append(dst, ",\n"...)
}

// All is a snapshot of the table with its version. It must not be modified.
func (g *Groups) All() (map[string]*Config, table.DataVersion) {
	s := g.live.Snapshot()
	return s.Values, s.Version
}

// JSON is the answer body of code 201, encoded once for each version. It must
// not be modified.
func (g *Groups) JSON() []byte {
	s := g.live.Snapshot()
	if b := g.body.Load(); b != nil && b.of == s {
		return b.text
	}
	text := encodeGroups(s.Version, g.bits(), s.Values)
	g.body.Store(&groupsBody{of: s, text: text})
	return text
}

// bits are the visible forbidden bits by group.
func (g *Groups) bits() map[string]forbidden {
	bits := map[string]forbidden{}
	g.forbidden.Each(func(group string, f *forbidden) bool {
		bits[group] = *f
		return true
	})
	return bits
}

// encodeGroups writes groups as code 201 tells them.
func encodeGroups(version table.DataVersion, bits map[string]forbidden, groups map[string]*Config) []byte {
	text, err := fastjson.Marshal(struct {
		DataVersion            table.DataVersion    `json:"dataVersion"`
		ForbiddenTable         map[string]forbidden `json:"forbiddenTable"`
		SubscriptionGroupTable map[string]*Config   `json:"subscriptionGroupTable"`
	}{version, bits, groups})
	if err != nil {
		panic("subgroup: a config of plain fields does not encode: " + err.Error())
	}
	return text
}

// String names the group and the settings that differ most between brokers,
// for log lines.
func (c *Config) String() string {
	return c.GroupName + " brokerId=" + strconv.FormatInt(c.BrokerID, 10) +
		" whichBrokerWhenConsumeSlowly=" + strconv.FormatInt(c.WhichBrokerWhenConsumeSlowly, 10) +
		" consumeEnable=" + strconv.FormatBool(c.ConsumeEnable)
}
