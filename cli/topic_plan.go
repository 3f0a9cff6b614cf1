package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
)

// topicConfig is a topic's settings with the wire's names.
type topicConfig struct {
	TopicName       string            `json:"topicName"`
	ReadQueueNums   int32             `json:"readQueueNums" min:"0"`
	WriteQueueNums  int32             `json:"writeQueueNums" min:"0"`
	Perm            int               `json:"perm" min:"0"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	Order           bool              `json:"order"`
	Attributes      map[string]string `json:"attributes"`
}

func viewOfTopic(c topic.Config) topicConfig {
	v := topicConfig{
		TopicName: c.TopicName, ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums, Perm: c.Perm,
		TopicFilterType: c.TopicFilterType, TopicSysFlag: c.TopicSysFlag, Order: c.Order, Attributes: c.Attributes,
	}
	if v.TopicFilterType == "" {
		v.TopicFilterType = "SINGLE_TAG"
	}
	if v.Attributes == nil {
		v.Attributes = map[string]string{}
	}
	return v
}

// topicSetItem is what became of a topic at one broker.
type topicSetItem struct {
	Broker   string          `json:"broker"`
	Addr     string          `json:"addr"`
	Created  bool            `json:"created"`
	Changed  bool            `json:"changed"`
	Applied  bool            `json:"applied"`
	Verified bool            `json:"verified"`
	Before   *topicConfig    `json:"before"`
	After    topicConfig     `json:"after"`
	Changes  []settingChange `json:"changes"`

	before *topic.Config
	after  topic.Config
	target admin.Target
}

// newTopic is what mqadmin makes of a topic when nothing else is said.
func newTopic(name string) topic.Config {
	return topic.Config{TopicName: name, ReadQueueNums: 8, WriteQueueNums: 8, Perm: topic.PermRead | topic.PermWrite,
		TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}}
}

// topicPatch is what the user asked to change.
type topicPatch struct {
	name       string
	replace    bool
	createOnly bool
	mustExist  bool
	steps      []func(*topic.Config)
	keys       []string
	set        map[string]string
	unset      []string
}

const maxQueues = 1 << 20

func topicPatchOf(c *call) (*topicPatch, error) {
	p := &topicPatch{
		name: c.arg(0), replace: c.on("replace"),
		createOnly: c.on("create-only") || c.cmd.path == "topic create", mustExist: c.on("must-exist") || c.cmd.old == "updateTopicPerm",
	}
	if err := checkTopic(p.name); err != nil {
		return nil, err
	}
	if p.createOnly && p.mustExist {
		return nil, usage("CONTRADICTION", "--create-only and --must-exist exclude each other")
	}
	for _, q := range []struct {
		key, wire string
		set       func(*topic.Config, int32)
	}{
		{"read-queues", "readQueueNums", func(t *topic.Config, n int32) { t.ReadQueueNums = n }},
		{"write-queues", "writeQueueNums", func(t *topic.Config, n int32) { t.WriteQueueNums = n }},
	} {
		if c.given(q.key) {
			n := int32(c.whole(q.key))
			p.add(q.wire, func(t *topic.Config) { q.set(t, n) })
		}
	}
	if c.given("perm") {
		n, err := parsePerm(c.str("perm"), c.hint("perm"))
		if err != nil {
			return nil, err
		}
		p.add("perm", func(t *topic.Config) { t.Perm = n })
	}
	if c.given("order") {
		v := c.on("order")
		p.add("order", func(t *topic.Config) { t.Order = v })
	}
	p.flags(c)
	if text := c.str("attributes"); text != "" {
		var err error
		if p.set, p.unset, err = parseAttributes(text); err != nil {
			return nil, err
		}
		p.keys = append(p.keys, "attributes")
	}
	if c.cmd.path == "topic set" && !c.old && len(p.keys) == 0 && !p.replace {
		return nil, usage("NOTHING_GIVEN", "topic set changes nothing without a setting").
			try("mqctl topic set "+p.name+" --write-queues 16", "mqctl topic get "+p.name)
	}
	return p, nil
}

// flags are mqadmin's -u and -s: bits of topicSysFlag.
func (p *topicPatch) flags(c *call) {
	const unit, unitSub = 1, 2
	for key, bit := range map[string]int32{"unit": unit, "unit-sub": unitSub} {
		if !c.given(key) {
			continue
		}
		v := c.on(key)
		p.add("topicSysFlag", func(t *topic.Config) {
			t.TopicSysFlag &^= bit
			if v {
				t.TopicSysFlag |= bit
			}
		})
	}
}

func (p *topicPatch) add(wire string, step func(*topic.Config)) {
	if !slices.Contains(p.keys, wire) {
		p.keys = append(p.keys, wire)
	}
	p.steps = append(p.steps, step)
}

// checkTopic checks a name before it is sent anywhere.
func checkTopic(name string) error {
	if err := topic.CheckName(name); err != nil {
		return usage("BAD_NAME", "%q is not a topic name", name).because("%v", err)
	}
	return nil
}

// parsePerm reads r, w, rw, none or mqadmin's bits.
func parsePerm(text, flag string) (int, error) {
	switch strings.ToLower(text) {
	case "rw", "wr":
		return topic.PermRead | topic.PermWrite, nil
	case "r":
		return topic.PermRead, nil
	case "w":
		return topic.PermWrite, nil
	case "none":
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 7 || n&1 != 0 {
		return 0, usage("BAD_VALUE", "%s: %q is no permission", flag, text).because("r, w, rw or none; in numbers 4, 2, 6 or 0")
	}
	return n, nil
}

// plan works out one broker's item from what it has now (nil: no such topic).
// Where the topic is missing, it becomes what like, another broker's, is.
func (p *topicPatch) plan(t admin.Target, now, like *topic.Config) *topicSetItem {
	it := &topicSetItem{Broker: t.String(), Addr: t.Addr, target: t, Created: now == nil, before: now}
	base := newTopic(p.name)
	if now == nil && like != nil && !p.replace {
		base = *like
	}
	if now != nil {
		v := viewOfTopic(*now)
		it.Before = &v
		if p.replace {
			base.Attributes = now.Attributes // changed by + and - only
		} else {
			base = *now
		}
	}
	for _, s := range p.steps {
		s(&base)
	}
	attrs := map[string]string{}
	for k, v := range base.Attributes {
		attrs[k] = v
	}
	for k, v := range p.set {
		attrs[k] = v
	}
	for _, k := range p.unset {
		delete(attrs, k)
	}
	base.Attributes = attrs
	it.after, it.After = base, viewOfTopic(base)
	it.Changes = changesOf(it.Before, it.After)
	it.Changed = it.Created || len(it.Changes) > 0
	return it
}

// topicsNow reads the topic at all targets before anything is written.
func (c *call) topicsNow(ctx context.Context, targets []admin.Target, name string) []admin.Result[*topic.Config] {
	return admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*topic.Config, error) {
		cfg, err := c.client.TopicConfig(ctx, t.Addr, name)
		var missing *admin.NotFound
		if errors.As(err, &missing) {
			return nil, nil
		}
		return cfg, err
	})
}

// writeTopic sends the topic and reads it back.
func (c *call) writeTopic(ctx context.Context, it *topicSetItem) error {
	var had map[string]string
	if it.before != nil {
		had = it.before.Attributes
	}
	attributes := attributeChanges(had, it.after.Attributes)
	if err := c.client.PutTopic(ctx, it.Addr, it.after, attributes); err != nil {
		return err
	}
	it.Applied = true
	var last error
	ok, err := until(ctx, c.patience(), func(ctx context.Context) (bool, error) {
		got, err := c.client.TopicConfig(ctx, it.Addr, it.After.TopicName)
		switch {
		case err != nil:
			last = fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", it.target, err)
		case !sameJSON(viewOfTopic(*got), it.After):
			last = fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but shows another value", it.target).
				because("%s", describeChanges(changesOf(ptr(it.After), viewOfTopic(*got))))
		default:
			it.Verified = true
			return true, nil
		}
		return false, last
	})
	if ok {
		return nil
	}
	return err
}

// shrinkCheck refuses to cut queues off that still hold unread messages.
func (c *call) shrinkCheck(ctx context.Context, plans []*topicSetItem) error {
	if c.on("yes") || c.old || c.dryRun() {
		return nil
	}
	for _, it := range plans {
		if it.Before == nil || it.After.ReadQueueNums >= it.Before.ReadQueueNums {
			continue
		}
		stats, err := c.client.TopicStats(ctx, it.Addr, it.After.TopicName)
		if err != nil {
			return c.at(err, it.target)
		}
		left := int64(0)
		for q, r := range stats.Queues {
			if q.ID >= it.After.ReadQueueNums {
				left += r.Max - r.Min
			}
		}
		if left > 0 {
			return fail(ExitAborted, "CONFIRMATION_NEEDED", "%s: the queues to be removed hold %d messages that could not be read any more", it.target, left).
				because("nothing was changed").try("add --yes", fmt.Sprintf("first --write-queues %d, later --read-queues %d", it.After.ReadQueueNums, it.After.ReadQueueNums))
		}
	}
	return nil
}

func topicSetFlags() []flagSpec {
	return append(oldTarget(),
		flagSpec{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
		flagSpec{key: "read-queues", long: "readQueueNums", short: "r", kind: kindInt, min: 1, max: maxQueues, meta: "N", help: "queues that consumers see (new topic: 8)"},
		flagSpec{key: "write-queues", long: "writeQueueNums", short: "w", kind: kindInt, min: 1, max: maxQueues, meta: "N", help: "queues that producers see (new topic: 8)"},
		flagSpec{key: "perm", long: "perm", short: "p", meta: "rw|r|w|none", help: "permission; mqadmin's 6, 4, 2 too (new topic: rw)"},
		flagSpec{key: "order", long: "order", short: "o", kind: kindBool, negative: true, help: "the topic is ordered (new topic: false)"},
		flagSpec{key: "unit", long: "unit", short: "u", kind: kindBool, help: "unit topic"},
		flagSpec{key: "unit-sub", long: "hasUnitSub", short: "s", kind: kindBool, help: "has unit subscriptions"},
		flagSpec{key: "attributes", long: "attributes", short: "a", meta: "+k=v,-k", help: "changes of attributes"},
		flagSpec{key: "replace", kind: kindBool, help: "overwrite what was not given with the defaults, as mqadmin does"},
	)
}

// permJava is mqadmin's form of a permission (PermName.perm2String).
func permJava(p int) string {
	out := []byte("---")
	if p&4 != 0 {
		out[0] = 'R'
	}
	if p&2 != 0 {
		out[1] = 'W'
	}
	if p&1 != 0 {
		out[2] = 'X'
	}
	return string(out)
}

// javaTopic is the debug form of TopicConfig that mqadmin prints.
func javaTopic(t topicConfig) string {
	return fmt.Sprintf("TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, topicSysFlag=%d, order=%t, attributes={%s}]",
		t.TopicName, t.ReadQueueNums, t.WriteQueueNums, permJava(t.Perm), t.TopicFilterType, t.TopicSysFlag, t.Order, strings.Join(pairs(t.Attributes), ", "))
}
