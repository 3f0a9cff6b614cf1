package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
)

// runTopicSet is topic set, topic create, updateTopic and updateTopicPerm.
func runTopicSet(ctx context.Context, c *call) (*result, error) {
	patch, err := topicPatchOf(c)
	if err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, extra: patch, warnings: notes}
	plans, err := patch.plans(ctx, c, r, targets)
	if err != nil {
		return nil, err
	}
	if err := c.shrinkCheck(ctx, plans); err != nil {
		return nil, err
	}
	edits := make([]*edit, len(plans))
	for i, it := range plans {
		edits[i] = c.topicEdit(it)
	}
	c.carryOut(ctx, r, edits)
	if r.change.Applied && patch.orderTouched() {
		c.orderConfig(ctx, r, patch.name, plans)
	}
	if r.change.Applied && c.patience() > 0 && len(r.errors) == 0 {
		return r, c.waitRoute(ctx, patch.name, true)
	}
	return r, nil
}

// plans reads every target and works out the differences. What cannot be read
// is reported and left alone.
func (p *topicPatch) plans(ctx context.Context, c *call, r *result, targets []admin.Target) ([]*topicSetItem, error) {
	all := c.topicsNow(ctx, targets, p.name)
	var like *topic.Config
	for _, now := range all {
		if like == nil && now.Err == nil {
			like = now.Value
		}
	}
	exists := like != nil
	var plans []*topicSetItem
	for _, now := range all {
		switch {
		case now.Err != nil:
			r.failed(c.at(now.Err, now.Target))
		case now.Value == nil && c.cmd.old == "updateTopicPerm": // a permission makes no topic where there is none
		default:
			plans = append(plans, p.plan(now.Target, now.Value, like))
		}
	}
	switch {
	case len(plans) == 0 && len(r.errors) > 0:
		return nil, nil
	case p.mustExist && !exists:
		return nil, c.topicMissing(ctx, p.name)
	case p.createOnly && exists:
		return nil, fail(ExitFailed, "TOPIC_EXISTS", "topic %q exists already; nothing was changed", p.name).
			try("mqctl topic get "+p.name, "mqctl topic set "+p.name+" ...")
	case !exists && !p.createOnly && !c.old && len(r.errors) == 0:
		r.warn(willCreate("topic", p.name, c.dryRun()))
	}
	return plans, nil
}

func (p *topicPatch) orderTouched() bool { return slices.Contains(p.keys, "order") }

// orderConfig writes the list of an ordered topic's queues into the
// nameservers' key table, as mqadmin does: broker-a:8;broker-b:8. With one
// broker given only its part of the list changes.
func (c *call) orderConfig(ctx context.Context, r *result, name string, plans []*topicSetItem) {
	have := map[string]string{}
	if c.str("broker") != "" {
		old, err := c.client.KV(ctx, admin.OrderConfigNamespace, name)
		var missing *admin.NotFound
		if err != nil && !errors.As(err, &missing) {
			r.failed(asMessage(c.explain(err)))
			return
		}
		for _, part := range strings.Split(old, ";") {
			if b, n, ok := strings.Cut(part, ":"); ok {
				have[b] = n
			}
		}
	}
	ordered := false
	for _, it := range plans {
		who := it.target.Broker
		if who == "" {
			if t, err := c.client.Identify(ctx, it.Addr); err == nil {
				who = t.Broker
			}
		}
		if it.Applied && it.After.Order && who != "" {
			have[who] = strconv.Itoa(int(it.After.WriteQueueNums))
			ordered = true
		}
	}
	if !ordered {
		return
	}
	parts := make([]string, 0, len(have))
	for b, n := range have {
		parts = append(parts, b+":"+n)
	}
	sort.Strings(parts)
	value := strings.Join(parts, ";")
	for _, ns := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (struct{}, error) {
		return struct{}{}, c.client.PutKVAt(ctx, addr, admin.OrderConfigNamespace, name, value)
	}) {
		if ns.Err != nil {
			r.failed(c.at(ns.Err, ns.Target))
		}
	}
}

// waitRoute waits until the nameserver shows, or no longer shows, a topic.
func (c *call) waitRoute(ctx context.Context, name string, there bool) error {
	ok, err := until(ctx, c.patience(), func(ctx context.Context) (bool, error) {
		_, err := c.client.Route(ctx, name)
		var missing *admin.NotFound
		if errors.As(err, &missing) {
			return !there, nil
		}
		return err == nil && there, err
	})
	if ok {
		return nil
	}
	if err != nil {
		return c.explain(err)
	}
	return fail(ExitTimeout, "NOT_VISIBLE", "the change was made, but the route of %q does not show it after %s", name, c.patience())
}

// topicMissing names topics that look alike.
func (c *call) topicMissing(ctx context.Context, name string) *Message {
	m := fail(ExitNotFound, "TOPIC_NOT_FOUND", "topic %q does not exist", name)
	if all, err := c.client.Topics(ctx); err == nil {
		m.offer(nearest(name, all)...)
	}
	return m
}

// printTopicSet is the form for people.
func printTopicSet(p *printer, r *result) {
	patch, _ := r.extra.(*topicPatch)
	if patch == nil || len(r.items) == 0 {
		return
	}
	what := "patch of " + count(len(patch.keys), "setting")
	if allNew(r.items) {
		what = "new"
	}
	p.printf("topic %s   %s on %s\n\n", p.style.cyan(patch.name), what, count(len(r.items), "broker"))
	var rows [][]string
	applied := 0
	for _, item := range r.items {
		it := item.(*topicSetItem)
		name := it.Broker
		if it.Applied {
			applied++
		}
		for i, f := range fieldsOf(it.After) {
			changed := slices.ContainsFunc(it.Changes, func(c settingChange) bool { return c.Key == f.name })
			if f.name == "topicName" || !changed && !slices.Contains(patch.keys, f.name) && p.format != "wide" {
				continue
			}
			before, after, note := "-", valueText(f.value), "new"
			if it.Before != nil {
				before = valueText(fieldsOf(*it.Before)[i].value)
				note = "same"
				if changed {
					note, after = "", p.style.green(p.style.arrow()+" "+after)
				}
			}
			rows = append(rows, []string{name, f.name, before, after, note})
			name = ""
		}
		if name != "" {
			rows = append(rows, []string{name, "-", "-", "-", "same"})
		}
	}
	p.write(grid([]string{"BROKER", "SETTING", "BEFORE", "AFTER", ""}, rows, nil, p.style.bold))
	switch {
	case r.change.DryRun:
		p.printf("\ndry run: nothing was written\n")
	case applied == 0 && len(r.errors) == 0:
		p.printf("\nnothing to change\n")
	default:
		p.printf("\napplied to %d of %d brokers, read back\n", applied, len(r.items)+len(r.errors))
	}
}

// oldTopicSet is mqadmin's layout of updateTopic.
func oldTopicSet(p *printer, r *result) {
	var last *topicSetItem
	for _, item := range r.items {
		it := item.(*topicSetItem)
		if r.change.DryRun || it.Changed && !it.Applied {
			continue
		}
		p.printf("create topic to %s success.\n", it.Addr)
		last = it
	}
	if last != nil {
		p.printf("%s\n", javaTopic(last.After))
	}
}

// oldTopicPerm is mqadmin's layout of updateTopicPerm.
func oldTopicPerm(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*topicSetItem)
		switch {
		case it.Before == nil || r.change.DryRun || it.Changed && !it.Applied:
		case !it.Changed:
			p.printf("new perm equals to the old one!\n")
		default:
			p.printf("update topic perm from %d to %d in %s success.\n%s.\n", it.Before.Perm, it.After.Perm, it.Addr, javaTopic(it.After))
		}
	}
}

// topicDeleteItem is what a deletion did at one broker or nameserver.
type topicDeleteItem struct {
	Broker   *string  `json:"broker"`
	Namesrv  *string  `json:"namesrv"`
	Deleted  bool     `json:"deleted"`
	Messages *int64   `json:"messages"`
	Groups   []string `json:"groups"`

	target admin.Target
	had    topicConfig
	queues int
	rate   float64 // messages a second that come in
}

func topicDeleteCommand() *command {
	return &command{
		path: "topic delete", old: "deleteTopic", summary: "remove a topic from all brokers and nameservers", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runTopicDelete, schema: "mqctl.topic.delete/v1", attrs: mutates | destructive | planned, exits: []int{ExitNotFound, ExitPartial, ExitAborted, ExitChanges},
		examples: []string{"mqctl topic delete orders --dry-run", "mqctl topic delete orders --yes --wait", "mqctl deleteTopic -n 127.0.0.1:9876 -c DefaultCluster -t orders"},
		flags: []flagSpec{
			{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "cluster", long: "clusterName", short: "c", required: true, meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "the cluster"},
		},
		view: view{
			item: topicDeleteItem{}, name: func(item any) string {
				it := item.(*topicDeleteItem)
				if it.Broker != nil {
					return *it.Broker
				}
				return *it.Namesrv
			},
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "NAMESERVER", field: "namesrv"}, {head: "DELETED", field: "deleted"},
				{head: "MESSAGES", field: "messages", as: asNumber}, {head: "GROUPS", field: "groups", as: asList},
			},
			old: oldTopicDelete,
			foot: func(p *printer, r *result) {
				if r.change != nil && r.change.DryRun {
					p.printf("\ndry run: nothing was deleted\n")
				}
			},
		},
	}
}

func runTopicDelete(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, extra: name, warnings: notes}
	var holders []*topicDeleteItem
	for _, now := range c.topicsNow(ctx, targets, name) {
		switch {
		case now.Err != nil:
			r.failed(c.at(now.Err, now.Target))
		case now.Value != nil:
			h := c.topicHolder(ctx, now.Target, name)
			h.had = viewOfTopic(*now.Value)
			holders = append(holders, h)
		}
	}
	routed := false
	if _, err := c.client.Route(ctx, name); err == nil {
		routed = true
	}
	if len(holders) == 0 && !routed {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, c.topicMissing(ctx, name)
	}
	if err := c.confirm(fmt.Sprintf("deleting topic %q", name), topicImpact(holders)); err != nil {
		return nil, err
	}
	c.deleteTopic(ctx, r, name, holders)
	if r.change.Applied && c.patience() > 0 && len(r.errors) == 0 {
		return r, c.waitRoute(ctx, name, false)
	}
	return r, nil
}

// topicHolder counts what would be lost at one broker.
func (c *call) topicHolder(ctx context.Context, t admin.Target, name string) *topicDeleteItem {
	it := &topicDeleteItem{Broker: ptr(t.String()), Groups: []string{}, target: t}
	if s, err := c.client.TopicStats(ctx, t.Addr, name); err == nil {
		n := int64(0)
		for _, q := range s.Queues {
			n += q.Max - q.Min
		}
		it.Messages, it.queues = &n, len(s.Queues)
	}
	if s, err := c.client.BrokerStats(ctx, t.Addr, admin.StatTopicPutNums, name); err == nil {
		it.rate = s.Minute.TPS
	}
	if groups, err := c.client.TopicConsumers(ctx, t.Addr, name); err == nil && groups != nil {
		it.Groups = groups
	}
	return it
}

func topicImpact(holders []*topicDeleteItem) string {
	messages, queues, rate := int64(0), 0, 0.0
	groups := map[string]bool{}
	for _, h := range holders {
		if h.Messages != nil {
			messages += *h.Messages
		}
		queues += h.queues
		rate += h.rate
		for _, g := range h.Groups {
			groups[g] = true
		}
	}
	read := "read by no group"
	if len(groups) > 0 {
		read = fmt.Sprintf("read by %s (%s)", count(len(groups), "group"), strings.Join(sortedKeys(groups), ", "))
	}
	return fmt.Sprintf("%s messages in %s on %s, %s msg/s now, %s", humanize.Comma(messages), count(queues, "queue"), count(len(holders), "broker"), humanize.Commaf(math.Round(rate)), read)
}

func (c *call) deleteTopic(ctx context.Context, r *result, name string, holders []*topicDeleteItem) {
	edits := make([]*edit, len(holders))
	for i, h := range holders {
		edits[i] = &edit{target: h.target, items: []any{h}, // its messages cannot be brought back
			write: func(ctx context.Context) (bool, error) {
				err := c.client.DeleteTopic(ctx, h.target.Addr, name)
				h.Deleted = err == nil
				return h.Deleted, err
			},
			things: func() []auditThing { return []auditThing{thingOf(h.target, kindTopic+"/"+name, h.had, nil, nil)} }}
	}
	c.carryOut(ctx, r, edits)
	if len(r.errors) > 0 || c.str("broker") != "" {
		return // a broker still has it and would register it again
	}
	for _, ns := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (struct{}, error) {
		if c.dryRun() {
			return struct{}{}, nil
		}
		return struct{}{}, c.client.DeleteTopicAt(ctx, addr, name, c.str("cluster"))
	}) {
		if ns.Err != nil {
			r.failed(c.at(ns.Err, ns.Target))
			continue
		}
		r.add(&topicDeleteItem{Namesrv: ptr(ns.Target.Addr), Deleted: !c.dryRun(), Groups: []string{}})
		r.done++
		r.change.Applied = r.change.Applied || !c.dryRun()
	}
}

func oldTopicDelete(p *printer, r *result) {
	if r.change.DryRun || len(r.errors) > 0 {
		return
	}
	name, _ := r.extra.(string)
	p.printf("delete topic [%s] from cluster [%s] success.\n", name, r.cluster)
	p.printf("delete topic [%s] from NameServer success.\n", name)
}
