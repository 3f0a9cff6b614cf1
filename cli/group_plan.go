package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// groupConfig is a group's settings with the wire's names, in the order of the
// contract.
type groupConfig struct {
	GroupName                      string                        `json:"groupName"`
	ConsumeEnable                  bool                          `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                          `json:"consumeFromMinEnable"`
	ConsumeBroadcastEnable         bool                          `json:"consumeBroadcastEnable"`
	ConsumeMessageOrderly          bool                          `json:"consumeMessageOrderly"`
	RetryQueueNums                 int32                         `json:"retryQueueNums"`
	RetryMaxTimes                  int32                         `json:"retryMaxTimes"`
	GroupRetryPolicy               retryPolicy                   `json:"groupRetryPolicy"`
	BrokerID                       int64                         `json:"brokerId" min:"0"`
	WhichBrokerWhenConsumeSlowly   int64                         `json:"whichBrokerWhenConsumeSlowly" min:"0"`
	NotifyConsumerIDsChangedEnable bool                          `json:"notifyConsumerIdsChangedEnable"`
	GroupSysFlag                   int32                         `json:"groupSysFlag"`
	ConsumeTimeoutMinute           int                           `json:"consumeTimeoutMinute"`
	SubscriptionDataSet            []subgroup.SimpleSubscription `json:"subscriptionDataSet"`
	Attributes                     map[string]string             `json:"attributes"`
}

// retryPolicy is the wire's, so that schema and text agree.
type retryPolicy struct {
	Type                   string                           `json:"type" enum:"CUSTOMIZED|EXPONENTIAL"`
	ExponentialRetryPolicy *subgroup.ExponentialRetryPolicy `json:"exponentialRetryPolicy,omitempty"`
	CustomizedRetryPolicy  *subgroup.CustomizedRetryPolicy  `json:"customizedRetryPolicy,omitempty"`
}

func viewOfGroup(c subgroup.Config) groupConfig {
	v := groupConfig{
		GroupName: c.GroupName, ConsumeEnable: c.ConsumeEnable, ConsumeFromMinEnable: c.ConsumeFromMinEnable,
		ConsumeBroadcastEnable: c.ConsumeBroadcastEnable, ConsumeMessageOrderly: c.ConsumeMessageOrderly,
		RetryQueueNums: c.RetryQueueNums, RetryMaxTimes: c.RetryMaxTimes,
		GroupRetryPolicy: retryPolicy{
			Type:                   c.GroupRetryPolicy.Type,
			ExponentialRetryPolicy: c.GroupRetryPolicy.ExponentialRetryPolicy,
			CustomizedRetryPolicy:  c.GroupRetryPolicy.CustomizedRetryPolicy,
		},
		BrokerID: c.BrokerID, WhichBrokerWhenConsumeSlowly: c.WhichBrokerWhenConsumeSlowly,
		NotifyConsumerIDsChangedEnable: c.NotifyConsumerIDsChangedEnable, GroupSysFlag: c.GroupSysFlag,
		ConsumeTimeoutMinute: c.ConsumeTimeoutMinute, SubscriptionDataSet: c.SubscriptionDataSet, Attributes: c.Attributes,
	}
	if v.SubscriptionDataSet == nil {
		v.SubscriptionDataSet = []subgroup.SimpleSubscription{}
	}
	if v.Attributes == nil {
		v.Attributes = map[string]string{}
	}
	return v
}

// settingChange is one setting with its values before and after.
type settingChange struct {
	Key    string `json:"key"`
	Before any    `json:"before"` // null when the thing is new
	After  any    `json:"after"`
}

// groupSetItem is what became of a group at one broker.
type groupSetItem struct {
	Broker   string          `json:"broker"`
	Addr     string          `json:"addr"`
	Created  bool            `json:"created"`
	Changed  bool            `json:"changed"`
	Applied  bool            `json:"applied"`
	Verified bool            `json:"verified"`
	Before   *groupConfig    `json:"before"`
	After    groupConfig     `json:"after"`
	Changes  []settingChange `json:"changes"`

	before *subgroup.Config
	after  subgroup.Config
	target admin.Target
}

// groupPatch is what the user asked to change: exactly the flags that were given.
type groupPatch struct {
	name       string
	replace    bool
	createOnly bool
	mustExist  bool
	steps      []func(*subgroup.Config)
	keys       []string // wire names of what was given
}

// newGroup is what mqadmin makes of a group when nothing else is said: the
// class defaults without reading from the minimum and without broadcasting.
func newGroup(name string) subgroup.Config {
	g := subgroup.Defaults(name)
	g.ConsumeFromMinEnable, g.ConsumeBroadcastEnable = false, false
	return g
}

// groupPatchOf reads the flags.
func groupPatchOf(c *call) (*groupPatch, error) {
	p := &groupPatch{
		name: c.arg(0), replace: c.on("replace"),
		createOnly: c.on("create-only") || c.cmd.path == "group create", mustExist: c.on("must-exist"),
	}
	if err := subgroup.CheckName(p.name); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", p.name).because("%v", err)
	}
	if p.createOnly && p.mustExist {
		return nil, usage("CONTRADICTION", "--create-only and --must-exist exclude each other")
	}
	if resume := c.cmd.path == "group resume"; resume || c.cmd.path == "group pause" {
		p.mustExist = true
		p.add("consumeEnable", func(g *subgroup.Config) { g.ConsumeEnable = resume })
	}
	p.boolean(c, "consume", "consumeEnable", func(g *subgroup.Config, v bool) { g.ConsumeEnable = v })
	p.boolean(c, "from-min", "consumeFromMinEnable", func(g *subgroup.Config, v bool) { g.ConsumeFromMinEnable = v })
	p.boolean(c, "broadcast", "consumeBroadcastEnable", func(g *subgroup.Config, v bool) { g.ConsumeBroadcastEnable = v })
	p.boolean(c, "orderly", "consumeMessageOrderly", func(g *subgroup.Config, v bool) { g.ConsumeMessageOrderly = v })
	p.boolean(c, "notify-ids", "notifyConsumerIdsChangedEnable", func(g *subgroup.Config, v bool) { g.NotifyConsumerIDsChangedEnable = v })
	p.whole(c, "broker-id", "brokerId", func(g *subgroup.Config, v int64) { g.BrokerID = v })
	p.whole(c, "which-broker-when-consume-slowly", "whichBrokerWhenConsumeSlowly", func(g *subgroup.Config, v int64) { g.WhichBrokerWhenConsumeSlowly = v })
	p.whole(c, "retry-queues", "retryQueueNums", func(g *subgroup.Config, v int64) { g.RetryQueueNums = int32(v) })
	p.whole(c, "retry-max", "retryMaxTimes", func(g *subgroup.Config, v int64) { g.RetryMaxTimes = int32(v) })
	if err := p.policy(c); err != nil {
		return nil, err
	}
	if err := p.attributes(c); err != nil {
		return nil, err
	}
	// The group's own rules, before any network.
	if err := p.apply(newGroup(p.name)).Validate(); err != nil {
		return nil, usage("BAD_VALUE", "%v", err)
	}
	if c.cmd.path == "group set" && !c.old && len(p.steps) == 0 && !p.replace && !p.createOnly {
		return nil, usage("NOTHING_GIVEN", "group set changes nothing without a setting").
			try("mqctl group set "+p.name+" --slow-broker 1", "mqctl group get "+p.name)
	}
	return p, nil
}

func (p *groupPatch) boolean(c *call, key, wire string, set func(*subgroup.Config, bool)) {
	if c.given(key) {
		v := c.on(key)
		p.add(wire, func(g *subgroup.Config) { set(g, v) })
	}
}

func (p *groupPatch) whole(c *call, key, wire string, set func(*subgroup.Config, int64)) {
	if c.given(key) {
		v := c.whole(key)
		p.add(wire, func(g *subgroup.Config) { set(g, v) })
	}
}

func (p *groupPatch) add(wire string, step func(*subgroup.Config)) {
	p.keys = append(p.keys, wire)
	p.steps = append(p.steps, step)
}

func (p *groupPatch) policy(c *call) error {
	if !c.given("retry-policy") {
		return nil
	}
	var policy subgroup.RetryPolicy
	text := c.str("retry-policy")
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		return usage("BAD_VALUE", "%s: %q is no retry policy", c.hint("retry-policy"), text).because("%v", err).
			try(`'{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}'`)
	}
	p.add("groupRetryPolicy", func(g *subgroup.Config) { g.GroupRetryPolicy = policy })
	return nil
}

// attributes reads "+key=value,-key".
func (p *groupPatch) attributes(c *call) error {
	if c.str("attributes") == "" {
		return nil
	}
	set, unset, err := parseAttributes(c.str("attributes"))
	if err != nil {
		return err
	}
	p.add("attributes", func(g *subgroup.Config) {
		out := map[string]string{}
		for k, v := range g.Attributes {
			out[k] = v
		}
		for k, v := range set {
			out[k] = v
		}
		for _, k := range unset {
			delete(out, k)
		}
		g.Attributes = out
	})
	return nil
}

// parseAttributes reads a list like +message.type=FIFO,-other.
func parseAttributes(text string) (set map[string]string, unset []string, err error) {
	set = map[string]string{}
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		key, value, has := strings.Cut(part, "=")
		switch {
		case strings.HasPrefix(key, "+") && has && len(key) > 1 && value != "":
			set[key[1:]] = value
		case strings.HasPrefix(key, "-") && !has && len(key) > 1:
			unset = append(unset, key[1:])
		default:
			return nil, nil, usage("BAD_VALUE", "%q is no change of an attribute", part).
				because("+key=value sets one, -key removes one, commas between").try("--attributes +message.type=FIFO")
		}
	}
	return set, unset, nil
}

// apply overlays what was given over a group as it is.
func (p *groupPatch) apply(g subgroup.Config) subgroup.Config {
	g.GroupName = p.name
	for _, s := range p.steps {
		s(&g)
	}
	return g
}

// plan works out one broker's item from what it has now (nil: no such group).
// Where the group is missing, it becomes what like, another broker's, is.
func (p *groupPatch) plan(t admin.Target, now, like *subgroup.Config) *groupSetItem {
	it := &groupSetItem{Broker: t.String(), Addr: t.Addr, target: t, Created: now == nil, before: now}
	base := newGroup(p.name)
	if now == nil && like != nil && !p.replace {
		base = *like
	}
	if now != nil {
		v := viewOfGroup(*now)
		it.Before = &v
		if !p.replace {
			base = *now
		}
	}
	it.after = p.apply(base)
	it.After = viewOfGroup(it.after)
	it.Changes = changesOf(it.Before, it.After)
	it.Changed = it.Created || len(it.Changes) > 0
	return it
}

// changesOf lists the settings that differ; for a new thing all of them.
func changesOf[T any](before *T, after T) []settingChange {
	out := []settingChange{}
	var old []field
	if before != nil {
		old = fieldsOf(*before)
	}
	for i, f := range fieldsOf(after) {
		if before == nil {
			out = append(out, settingChange{f.name, nil, f.value})
			continue
		}
		if !sameJSON(old[i].value, f.value) {
			out = append(out, settingChange{f.name, old[i].value, f.value})
		}
	}
	return out
}

func sameJSON(a, b any) bool {
	x, err1 := marshal(a)
	y, err2 := marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// groupsNow reads the group at all targets before anything is written.
func (c *call) groupsNow(ctx context.Context, targets []admin.Target, name string) []admin.Result[*subgroup.Config] {
	return admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*subgroup.Config, error) {
		all, _, err := c.client.Groups(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		if g, ok := all[name]; ok {
			return &g, nil
		}
		return nil, nil
	})
}

// writeGroup sends the group.
func (c *call) writeGroup(ctx context.Context, it *groupSetItem) error {
	send := it.after
	send.Attributes = map[string]string{} // on the wire these are changes, and there are none
	if err := c.client.PutGroup(ctx, it.Addr, send); err != nil {
		return err
	}
	it.Applied = true
	return nil
}

// verifyGroup reads a written group back.
func (c *call) verifyGroup(ctx context.Context, it *groupSetItem) error {
	_, err := until(ctx, c.patience(), func(ctx context.Context) (bool, error) {
		err := c.groupShows(ctx, it)
		if err != nil {
			c.memo.forget(it.Addr)
		}
		return err == nil, err
	})
	return err
}

// groupShows compares a written group with what its broker has.
func (c *call) groupShows(ctx context.Context, it *groupSetItem) error {
	all, err := c.groupsOf(ctx, it.Addr)
	if err != nil {
		return fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", it.target, err)
	}
	got, ok := all[it.after.GroupName]
	it.Verified = ok && sameJSON(viewOfGroup(got), it.After)
	if !it.Verified {
		return fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but shows another value", it.target).
			because("%s", describeChanges(changesOf(ptr(it.After), viewOfGroup(got))))
	}
	return nil
}

// describeChanges is "key wanted → got" for a few settings.
func describeChanges(changes []settingChange) string {
	var parts []string
	for i, ch := range changes {
		if i == 5 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("%s wanted %s, is %s", ch.Key, valueText(ch.Before), valueText(ch.After)))
	}
	return strings.Join(parts, ", ")
}

// valueText is a setting's value as one word or JSON.
func valueText(v any) string {
	if v == nil {
		return "-"
	}
	if flat(v) {
		return plain(v)
	}
	b, err := marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
