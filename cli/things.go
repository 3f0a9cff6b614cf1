package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// A thing is a topic, a group, a stored offset, a broker setting, a value of
// the nameservers' key table or a request mode. undo, apply and import handle
// all of them alike: by a key and a state, which is its settings by their wire
// names, or nil where there is no such thing.

type state map[string]any

// Kinds of things; the key is KIND/NAME.
const (
	kindTopic  = "topic"
	kindGroup  = "group"
	kindOffset = "offset"
	kindConfig = "config"
	kindKV     = "kv"
	kindMode   = "mode"

	kindUser       = "user"
	kindACL        = "acl"
	kindNamesrv    = "namesrv"
	kindController = "controller"
	kindCold       = "cold"
)

// valueField is the only field of things that are one value.
const valueField = "value"

// undoKind reports whether undo can put back what a key names.
func undoKind(key string) bool {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case kindTopic, kindGroup, kindConfig, kindUser, kindACL, kindNamesrv, kindController, kindCold:
		return name != ""
	case kindOffset:
		return strings.Count(name, "/") == 2
	case kindKV, kindMode:
		return strings.Contains(name, "/")
	}
	return false
}

// noWayBack says why what was done to a thing cannot be taken back; "" when it can.
func noWayBack(key string, before, after bool) string {
	kind, _, _ := strings.Cut(key, "/")
	switch {
	case kind == kindOffset && !before:
		return "brokers have no request that takes a stored offset away: it can only be moved"
	case slices.Contains([]string{kindConfig, kindNamesrv, kindController}, kind) && !before:
		return "there is no request that makes a setting unknown again"
	case kind == kindUser && !after:
		return "its password is kept nowhere"
	}
	return ""
}

// stateOf is any struct with wire names as a state.
func stateOf(v any) state {
	b, err := marshal(v)
	if err != nil {
		return nil
	}
	return stateFrom(b)
}

// stateFrom reads a state out of JSON: an object, or one value; nil for null.
func stateFrom(b []byte) state {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || v == nil {
		return nil
	}
	if m, ok := v.(map[string]any); ok {
		return m
	}
	return state{valueField: v}
}

// with is a copy of s with other settings over it.
func (s state) with(other state) state {
	out := state{}
	for k, v := range s {
		out[k] = v
	}
	for k, v := range other {
		out[k] = v
	}
	return out
}

// holds reports whether s has all settings of part.
func (s state) holds(part state) bool {
	for k, v := range part {
		if !sameJSON(s[k], v) { // nil is as good as not there
			return false
		}
	}
	return true
}

// changesTo lists what differs; settings that only s has are left alone.
func (s state) changesTo(after state) []settingChange {
	out := []settingChange{}
	for _, k := range sortedKeys(after) {
		switch v := s[k]; {
		case s == nil:
			out = append(out, settingChange{k, nil, after[k]})
		case !sameJSON(v, after[k]):
			out = append(out, settingChange{k, v, after[k]})
		}
	}
	if after == nil {
		for _, k := range sortedKeys(s) {
			out = append(out, settingChange{k, s[k], nil})
		}
	}
	return out
}

// into writes a state into a struct of its kind.
func (s state) into(v any) error {
	b, err := marshal(s)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// offsetParts reads GROUP/TOPIC/QUEUE.
func offsetParts(name string) (group, topic string, queue int32, err error) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return "", "", 0, fmt.Errorf("%q is no GROUP/TOPIC/QUEUE", name)
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	return parts[0], parts[1], int32(n), err
}

// readThing asks a target for the present state of a thing.
func (c *call) readThing(ctx context.Context, t admin.Target, key string) (state, error) {
	kind, name, _ := strings.Cut(key, "/")
	var missing *admin.NotFound
	switch kind {
	case kindTopic:
		cfg, err := c.client.TopicConfig(ctx, t.Addr, name)
		if errors.As(err, &missing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return stateOf(viewOfTopic(*cfg)), nil
	case kindGroup:
		all, err := c.groupsOf(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		if g, ok := all[name]; ok {
			return stateOf(viewOfGroup(g)), nil
		}
		return nil, nil
	case kindOffset:
		group, topicName, queue, err := offsetParts(name)
		if err != nil {
			return nil, err
		}
		n, ok, err := c.client.ConsumerOffset(ctx, t.Addr, group, topicName, queue)
		if err != nil || !ok {
			return nil, err
		}
		return stateOf(n), nil
	case kindConfig:
		cfg, err := c.keptConfig(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		if v, ok := cfg.Values[name]; ok {
			return state{valueField: v}, nil
		}
		return nil, nil
	case kindKV:
		namespace, k, _ := strings.Cut(name, "/")
		v, err := c.client.KVAt(ctx, t.Addr, namespace, k)
		if errors.As(err, &missing) {
			return nil, nil
		}
		return state{valueField: v}, err
	case kindMode:
		return c.modeAt(ctx, t, name)
	}
	return c.readRare(ctx, t, kind, name)
}

// writeThing changes a thing from one state to another; nil deletes.
func (c *call) writeThing(ctx context.Context, t admin.Target, key string, before, after state) error {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case kindTopic:
		if after == nil {
			return c.client.DeleteTopic(ctx, t.Addr, name)
		}
		cfg, was, err := topicFrom(name, before, after)
		if err != nil {
			return err
		}
		return c.client.PutTopic(ctx, t.Addr, cfg, attributeChanges(was, cfg.Attributes))
	case kindGroup:
		if after == nil {
			return c.client.DeleteGroup(ctx, t.Addr, name, false)
		}
		g, err := groupFrom(name, after)
		if err != nil {
			return err
		}
		return c.client.PutGroup(ctx, t.Addr, g)
	case kindOffset:
		return c.putOffsetState(ctx, t, name, after)
	case kindConfig:
		if after == nil {
			return fail(ExitFailed, "NO_WAY_BACK", "%s: a broker cannot forget a setting", name)
		}
		_, err := c.client.UpdateBrokerConfig(ctx, t.Addr, map[string]string{name: fmt.Sprint(after[valueField])})
		return err
	case kindKV:
		namespace, k, _ := strings.Cut(name, "/")
		if after == nil {
			return c.client.DeleteKVAt(ctx, t.Addr, namespace, k)
		}
		return c.client.PutKVAt(ctx, t.Addr, namespace, k, fmt.Sprint(after[valueField]))
	case kindMode:
		return c.putModeState(ctx, t, name, after)
	}
	return c.writeRare(ctx, t, kind, name, before, after)
}

// topicFrom is a state as a topic, and the attributes that it had before.
func topicFrom(name string, before, after state) (cfg topic.Config, was map[string]string, err error) {
	v, old := viewOfTopic(newTopic(name)), topicConfig{}
	if err := after.into(&v); err != nil {
		return cfg, nil, err
	}
	if before != nil {
		if err := before.into(&old); err != nil {
			return cfg, nil, err
		}
	}
	return topic.Config{
		TopicName: name, ReadQueueNums: v.ReadQueueNums, WriteQueueNums: v.WriteQueueNums, Perm: v.Perm,
		TopicFilterType: v.TopicFilterType, TopicSysFlag: v.TopicSysFlag, Order: v.Order, Attributes: v.Attributes,
	}, old.Attributes, nil
}

// groupFrom is a state as a group. On the wire its attributes would be changes, and
// there are none.
func groupFrom(name string, after state) (subgroup.Config, error) {
	b, err := marshal(after.with(state{"groupName": name}))
	if err != nil {
		return subgroup.Config{}, err
	}
	g, err := subgroup.DecodeConfig(b)
	g.Attributes = map[string]string{}
	return g, err
}

// writeListed writes the topics or the groups of several plans in one request.
func (c *call) writeListed(ctx context.Context, t admin.Target, plans []*planItem) error {
	var topics []topic.Config
	var groups []subgroup.Config
	for _, it := range plans {
		if it.Kind == "GROUP" {
			g, err := groupFrom(it.Name, it.after)
			if err != nil {
				return err
			}
			groups = append(groups, g)
			continue
		}
		cfg, was, err := topicFrom(it.Name, it.before, it.after)
		if err != nil {
			return err
		}
		cfg.Attributes = attributeSteps(was, cfg.Attributes)
		topics = append(topics, cfg)
	}
	if len(groups) > 0 {
		return c.client.PutGroups(ctx, t.Addr, groups)
	}
	return c.client.PutTopics(ctx, t.Addr, topics)
}

// putOffsetState stores an offset, through the clients while some are online.
func (c *call) putOffsetState(ctx context.Context, t admin.Target, name string, after state) error {
	group, topicName, queue, err := offsetParts(name)
	if err != nil {
		return err
	}
	if after == nil {
		return fail(ExitFailed, "NO_WAY_BACK", "an offset that is stored cannot be taken away again, but moved")
	}
	n, err := strconv.ParseInt(fmt.Sprint(after[valueField]), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%v is no offset", after[valueField])
	}
	if conns, err := c.client.ConsumerConnections(ctx, t.Addr, group); err == nil && len(conns.Connections) > 0 {
		if cfg, err := c.keptConfig(ctx, t.Addr); err == nil && cfg.Values["useServerSideResetOffset"] == "true" {
			_, err := c.client.ResetOffset(ctx, t.Addr, group, topicName, queue, n, -1)
			return err
		}
	}
	return c.client.CommitOffset(ctx, t.Addr, group, topicName, queue, n)
}

// What a plan does to a thing.
const (
	actionCreate = "CREATE"
	actionChange = "CHANGE"
	actionDelete = "DELETE"
	actionNone   = "NONE"
)

// planItem is one thing of a plan at one target.
type planItem struct {
	Kind     string          `json:"kind" enum:"TOPIC|GROUP|OFFSET|CONFIG|KV|MODE|USER|ACL|NAMESRV|CONTROLLER|COLD"`
	Name     string          `json:"name"`
	Broker   string          `json:"broker"` // or a nameserver's address
	Action   string          `json:"action" enum:"CREATE|CHANGE|DELETE|NONE"`
	Changes  []settingChange `json:"changes"`
	Changed  bool            `json:"changed"`
	Applied  bool            `json:"applied"`
	Verified bool            `json:"verified"`

	target        admin.Target
	key           string
	before, after state
}

// planThing plans a thing's way from what it is to what it shall be.
func planThing(t admin.Target, key string, before, after state) *planItem {
	kind, name, _ := strings.Cut(key, "/")
	it := &planItem{Kind: strings.ToUpper(kind), Name: name, Broker: t.String(), Action: actionChange, target: t, key: key, before: before, after: after,
		Changes: before.changesTo(after)}
	switch {
	case before == nil && after == nil, before != nil && after != nil && len(it.Changes) == 0:
		it.Action, it.Changes = actionNone, []settingChange{}
	case before == nil:
		it.Action = actionCreate
	case after == nil:
		it.Action = actionDelete
	}
	it.Changed = it.Action != actionNone
	if kind == kindConfig || kind == kindNamesrv || kind == kindController {
		for i := range it.Changes {
			it.Changes[i].hide(name)
		}
	}
	return it
}

// hide leaves the values of a secret setting out of a plan.
func (ch *settingChange) hide(name string) {
	for _, v := range []*any{&ch.Before, &ch.After} {
		if text, ok := (*v).(string); ok {
			*v = hideSecret(name, text)
		}
	}
}

// thingEdit makes a planned thing an edit.
func (c *call) thingEdit(it *planItem) *edit {
	if !it.Changed {
		it.Verified = !c.dryRun()
	}
	e := &edit{target: it.target, items: []any{it}, same: !it.Changed,
		write: func(ctx context.Context) (bool, error) {
			if err := c.writeThing(ctx, it.target, it.key, it.before, it.after); err != nil {
				return false, err
			}
			it.Applied = true
			return true, nil
		},
		verify: func(ctx context.Context) error { return c.verifyThing(ctx, it) },
		revert: func(ctx context.Context) error {
			err := c.writeThing(ctx, it.target, it.key, it.after, it.before)
			if err == nil {
				it.Applied, it.Verified = false, false
			}
			return err
		},
		things: func() []auditThing { return []auditThing{it.thing()} }}
	if it.after != nil && (it.Kind == "TOPIC" || it.Kind == "GROUP") {
		e.beside, e.listed = it.Kind, it
	}
	return e
}

// shownAs is the edit of a thing with a command's own form of item, which sync
// keeps true.
func (c *call) shownAs(plan *planItem, item any, sync func()) *edit {
	e := c.thingEdit(plan)
	e.items, e.listed = []any{item}, nil
	write, verify, revert := e.write, e.verify, e.revert
	e.write = func(ctx context.Context) (bool, error) {
		defer sync()
		return write(ctx)
	}
	e.verify = func(ctx context.Context) error {
		defer sync()
		return verify(ctx)
	}
	e.revert = func(ctx context.Context) error {
		defer sync()
		return revert(ctx)
	}
	sync()
	return e
}

// thing is the audit record of a plan's item.
func (it *planItem) thing() auditThing {
	out := auditThing{Target: it.Broker, Addr: it.target.Addr, Key: it.key, Before: rawState(it.before), After: rawState(it.after)}
	if it.Action == actionChange && !it.oneValue() {
		was, is := state{}, state{}
		for _, ch := range it.Changes {
			was[ch.Key], is[ch.Key] = ch.Before, ch.After
		}
		out.Before, out.After = rawJSON(was), rawJSON(is)
	}
	return out
}

// oneValue reports whether the thing is one value, not several settings.
func (it *planItem) oneValue() bool {
	_, ok := it.after[valueField]
	return ok && len(it.after) == 1
}

// rawState is a state as the audit file has it: one value is written bare.
func rawState(s state) json.RawMessage {
	if s == nil {
		return json.RawMessage("null")
	}
	if v, ok := s[valueField]; ok && len(s) == 1 {
		return rawJSON(v)
	}
	return rawJSON(s)
}

// verifyThing reads a changed thing back.
func (c *call) verifyThing(ctx context.Context, it *planItem) error {
	var last error
	_, err := until(ctx, max(c.patience(), offsetPatience), func(ctx context.Context) (bool, error) {
		got, err := c.readThing(ctx, it.target, it.key)
		switch {
		case err != nil:
			last = fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", it.target, err)
		case (got == nil) != (it.after == nil), !got.holds(it.after) && !sameThing(it.key, got, it.after):
			last = notVerified(it.target, it.key+": "+describeChanges(planThing(it.target, it.key, it.after, got).Changes))
		default:
			it.Verified = true
			return true, nil
		}
		c.memo.forget(it.target.Addr)
		return false, last
	})
	return err
}

// sameThing knows values that may be written in several ways.
func sameThing(key string, a, b state) bool {
	kind, name, _ := strings.Cut(key, "/")
	if a == nil || b == nil {
		return false
	}
	is, want := fmt.Sprint(a[valueField]), fmt.Sprint(b[valueField])
	return kind == kindConfig && sameSetting(name, is, want) || secretThing(key) && is == hiddenSetting && want != ""
}

// planColumns show a plan, one thing at one target a row.
var planColumns = []column{
	{head: "KIND", field: "kind"}, {head: "NAME", field: "name"}, {head: "BROKER", field: "broker"}, {head: "ACTION", field: "action"},
	{head: "CHANGES", field: "changes", as: asChanges}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"},
}

func planName(item any) string { return item.(*planItem).Name }

// planFoot is the line below a plan.
func planFoot(p *printer, r *result) {
	n := 0
	for _, item := range r.items {
		if it, ok := item.(*planItem); ok && it.Changed {
			n++
		}
	}
	switch {
	case r.change == nil || r.change.DryRun:
		p.printf("\n%s\n", count(n, "change"))
	case n == 0:
		p.printf("\nnothing to change\n")
	default:
		p.printf("\n%s, read back\n", count(n, "change"))
	}
}
