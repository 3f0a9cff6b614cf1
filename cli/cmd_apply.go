package cli

import (
	"context"
	"fmt"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/subgroup"
)

func applyCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitAborted, ExitChanges, ExitBadConfig}
	file := flagSpec{key: "file", letter: "f", meta: "FILE", complete: "file", help: "TOML, or mqadmin's JSON lists; - is stdin"}
	oldFile := flagSpec{key: "file", letter: "f", long: "filename", short: "f", required: true, meta: "FILE", complete: "file", help: "TOML, or a JSON list of configurations; - is stdin"}
	v := view{item: planItem{}, name: planName, columns: planColumns, foot: planFoot}
	batch := func(sentence string) view {
		out := v
		out.old = func(p *printer, r *result) {
			seen := map[string]bool{}
			for _, item := range r.items {
				it := item.(*planItem)
				if !seen[it.target.Addr] && it.Verified {
					seen[it.target.Addr] = true
					p.printf(sentence, it.target.Addr)
				}
			}
		}
		return out
	}
	attrs := mutates | planned
	return []*command{
		{path: "plan", summary: "what apply would change: 0 nothing, 10 something", run: runPlan, schema: "mqctl.plan/v1", exits: exits, view: v,
			examples: []string{"mqctl plan -f cluster.toml"}, flags: []flagSpec{file, {key: "prune", kind: kindBool, help: "also what is there and not in the file"}}},
		{path: "apply", summary: "make topics, groups, broker keys and offsets as a file says", run: runApply, schema: "mqctl.apply/v1", attrs: attrs | destructive, exits: exits, view: v,
			examples: []string{"mqctl apply -f cluster.toml", "mqctl apply -f cluster.toml --prune --yes --on-error rollback"},
			flags:    []flagSpec{file, {key: "prune", kind: kindBool, help: "delete topics and groups that are not in the file; asks"}}},
		{path: "group apply", old: "updateSubGroupList", summary: "many groups from a file", run: runApply, schema: "mqctl.group.apply/v1", attrs: attrs, exits: exits,
			view:     batch("submit batch of group config to %s success, please check the result later.\n"),
			examples: []string{"mqctl group apply -f groups.json", "mqctl updateSubGroupList -n 127.0.0.1:9876 -c DefaultCluster -f groups.json"}, flags: append(oneTarget(), oldFile)},
		{path: "topic apply", old: "updateTopicList", summary: "many topics from a file", run: runApply, schema: "mqctl.topic.apply/v1", attrs: attrs, exits: exits,
			view:     batch("submit batch of topic config to %s success, please check the result later.\n"),
			examples: []string{"mqctl topic apply -f topics.json", "mqctl updateTopicList -n 127.0.0.1:9876 -c DefaultCluster -f topics.json"}, flags: append(oneTarget(), oldFile)},
		{path: "cluster import", summary: "topics, groups, offsets, broker keys, users and access rules from the file of an export", run: runApply, schema: "mqctl.cluster.import/v1", attrs: attrs, exits: exits, view: v,
			examples: []string{"mqctl cluster import -f c.toml --dry-run"}, flags: []flagSpec{file}},
	}
}

// besides counts what a file wants of other kinds.
func (d *desired) besides(kind map[string]state) int {
	return len(d.topics) + len(d.groups) + len(d.config) + len(d.offsets) + len(d.users) + len(d.acls) - len(kind)
}

// present is what one broker has.
type present struct {
	topics map[string]topic.Config
	groups map[string]subgroup.Config
	config map[string]string
	system map[string]bool
}

// presentAt reads what a file is compared with.
func (c *call) presentAt(ctx context.Context, t admin.Target, d *desired, prune bool) (*present, error) {
	out := &present{system: map[string]bool{}}
	var err error
	if len(d.topics) > 0 || prune {
		if out.topics, _, err = c.client.TopicConfigs(ctx, t.Addr); err != nil {
			return nil, err
		}
	}
	if len(d.groups) > 0 || prune {
		if out.groups, _, err = c.client.Groups(ctx, t.Addr); err != nil {
			return nil, err
		}
	}
	if len(d.config) > 0 {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		out.config = cfg.Values
	}
	if prune {
		names, err := c.client.SystemTopicsAt(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			out.system[n] = true
		}
	}
	return out, nil
}

// listedQueues is TopicConfig.defaultReadQueueNums.
const listedQueues = 16

// planFile compares a file with one broker. What a file leaves out of a new topic or
// group has the values that a single command gives it; listed: those of RocketMQ's own
// classes, which its lists are read into.
func planFile(t admin.Target, d *desired, now *present, prune, listed bool) []*planItem {
	var out []*planItem
	blankTopic, blankGroup := newTopic, newGroup
	if listed {
		blankTopic = func(name string) topic.Config {
			cfg := newTopic(name)
			cfg.ReadQueueNums, cfg.WriteQueueNums = listedQueues, listedQueues
			return cfg
		}
		blankGroup = subgroup.Defaults
	}
	for _, name := range sortedKeys(d.topics) {
		var before state
		base := stateOf(viewOfTopic(blankTopic(name)))
		if cfg, ok := now.topics[name]; ok {
			before = stateOf(viewOfTopic(cfg))
			base = before
		}
		out = append(out, planThing(t, kindTopic+"/"+name, before, base.with(d.topics[name])))
	}
	for _, name := range sortedKeys(d.groups) {
		var before state
		base := stateOf(viewOfGroup(blankGroup(name)))
		if cfg, ok := now.groups[name]; ok {
			before = stateOf(viewOfGroup(cfg))
			base = before
		}
		out = append(out, planThing(t, kindGroup+"/"+name, before, base.with(d.groups[name])))
	}
	for _, key := range sortedKeys(d.config) {
		before := state(nil)
		want := d.config[key]
		if v, ok := now.config[key]; ok {
			before = state{valueField: v}
			if sameSetting(key, v, want) {
				want = v
			}
		}
		out = append(out, planThing(t, kindConfig+"/"+key, before, state{valueField: want}))
	}
	if prune {
		out = append(out, pruned(t, d, now)...)
	}
	return out
}

// pruned deletes what the file does not name, but nothing of the broker's own
// and no retry or dead-letter topic of a group that stays.
func pruned(t admin.Target, d *desired, now *present) []*planItem {
	var out []*planItem
	for _, name := range sortedKeys(now.topics) {
		_, wanted := d.topics[name]
		group := strings.TrimPrefix(strings.TrimPrefix(name, "%RETRY%"), "%DLQ%")
		if group != name {
			_, inFile := d.groups[group]
			_, there := now.groups[group]
			wanted = wanted || inFile || !there || systemGroup(group)
		}
		if !wanted && !now.system[name] && topic.CheckName(name) == nil {
			out = append(out, planThing(t, kindTopic+"/"+name, stateOf(viewOfTopic(now.topics[name])), nil))
		}
	}
	for _, name := range sortedKeys(now.groups) {
		if _, wanted := d.groups[name]; !wanted && !systemGroup(name) {
			out = append(out, planThing(t, kindGroup+"/"+name, stateOf(viewOfGroup(now.groups[name])), nil))
		}
	}
	return out
}

// planAll reads the file and all masters, and plans.
func (c *call) planAll(ctx context.Context, r *result) ([]*planItem, error) {
	if err := c.needFlags("file"); err != nil {
		return nil, err
	}
	d, err := c.readDesired(c.str("file"))
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(c.cmd.path, "group ") && d.besides(d.groups) > 0, strings.HasPrefix(c.cmd.path, "topic ") && d.besides(d.topics) > 0:
		return nil, badFile(c.str("file"), "it holds more than %s takes", c.cmd.name(c.old)).try("mqctl apply -f " + c.str("file"))
	}
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	r.cluster, r.warnings = clusterOf(targets), append(r.warnings, notes...)
	known := map[string]bool{}
	for _, t := range targets {
		known[t.Broker] = true
	}
	for _, name := range d.brokerNames() {
		if !known[name] && c.str("broker") == "" {
			return nil, fail(ExitNotFound, "BROKER_NOT_FOUND", "the file speaks of broker %q, which is not there; nothing was sent", name).try("mqctl broker list")
		}
	}
	prune := c.on("prune")
	type part struct {
		items []*planItem
		left  []*Message // what the file wants and does not say enough of
	}
	var plan []*planItem
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (out part, err error) {
		want := d.at(t.Broker)
		now, err := c.presentAt(ctx, t, want, prune)
		if err != nil {
			return out, err
		}
		var access []*planItem
		if access, out.left, err = c.planAccess(ctx, t, want); err != nil {
			return out, err
		}
		offsets, err := c.planFileOffsets(ctx, t, d)
		out.items = append(append(planFile(t, want, now, prune, c.old), access...), offsets...)
		return out, err
	}) {
		for _, m := range res.Value.left {
			r.failed(m)
		}
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		plan = append(plan, res.Value.items...)
	}
	return plan, nil
}

// planFileOffsets compares the stored offsets that a file names for a broker.
func (c *call) planFileOffsets(ctx context.Context, t admin.Target, d *desired) ([]*planItem, error) {
	var out []*planItem
	for _, key := range sortedKeys(d.offsets) {
		parts := strings.SplitN(key, "/", 3)
		broker, queue, _ := cutLast(parts[2])
		if broker != t.Broker {
			continue
		}
		name := kindOffset + "/" + parts[0] + "/" + parts[1] + "/" + queue
		now, err := c.readThing(ctx, t, name)
		if err != nil {
			return nil, err
		}
		out = append(out, planThing(t, name, now, stateOf(d.offsets[key])))
	}
	return out, nil
}

func runPlan(ctx context.Context, c *call) (*result, error) {
	r := &result{}
	plan, err := c.planAll(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, it := range plan {
		if it.Changed {
			r.add(it)
			r.exit = ExitChanges
		}
		r.done++
	}
	r.empty = "nothing to change"
	return r, nil
}

func runApply(ctx context.Context, c *call) (*result, error) {
	r := &result{change: &change{DryRun: c.dryRun()}}
	plan, err := c.planAll(ctx, r)
	if err != nil {
		return nil, err
	}
	deletes := []string{}
	edits := make([]*edit, len(plan))
	for i, it := range plan {
		edits[i] = c.thingEdit(it)
		if it.Action == actionDelete {
			deletes = append(deletes, it.key+" at "+it.Broker)
		}
	}
	if len(deletes) > 0 {
		if err := c.confirm("deleting what the file does not name", fmt.Sprintf("%s: %s", count(len(deletes), "thing"), strings.Join(deletes[:min(5, len(deletes))], ", "))); err != nil {
			return nil, err
		}
	}
	c.carryOut(ctx, r, edits)
	if !c.dryRun() && len(r.errors) == 0 {
		c.forgetPruned(ctx, r, plan)
	}
	return r, nil
}

// forgetPruned removes topics that no broker has any more from the nameservers.
func (c *call) forgetPruned(ctx context.Context, r *result, plan []*planItem) {
	if c.str("broker") != "" {
		return
	}
	seen := map[string]bool{}
	for _, it := range plan {
		if it.Action == actionDelete && it.Kind == "TOPIC" && !seen[it.Name] {
			seen[it.Name] = true
			c.forgetTopic(ctx, r, it.Name, r.cluster)
		}
	}
}
