package cli

import (
	"context"
	"fmt"

	"mqctl/cli/admin"
)

func offsetMoveView(old func(p *printer, r *result)) view {
	return view{
		item: offsetMoveItem{}, old: old,
		name: func(item any) string {
			it := item.(*offsetMoveItem)
			return fmt.Sprintf("%s:%d=%d", it.Broker, it.QueueID, it.After)
		},
		columns: []column{
			{head: "TOPIC", field: "topic"}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber},
			{head: "BEFORE", field: "before", as: asNumber}, {head: "AFTER", field: "after", as: asNumber}, {head: "DELTA", field: "delta", as: asNumber},
			{head: "METHOD", field: "method"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"},
		},
		foot: func(p *printer, r *result) {
			sums, ok := r.totals.(offsetTotals)
			if !ok {
				return
			}
			p.printf("\n%s: %d messages are read again, %d skipped", count(sums.Queues, "queue"), sums.ReadAgain, sums.Skipped)
			if r.change.DryRun {
				p.printf("; dry run: nothing was written")
			}
			p.printf("\n")
		},
	}
}

func offsetMoveCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitAborted, ExitChanges}
	topic := flagSpec{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"}
	group := flagSpec{key: "group", long: "group", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"}
	cluster := flagSpec{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all masters of this cluster"}
	broker := flagSpec{key: "broker", long: "broker", short: "b", meta: "ADDR", complete: "broker", help: "this broker only: NAME, NAME/ID or HOST:PORT"}
	force := flagSpec{key: "force", long: "force", short: "f", kind: kindBool, oldOnly: true, help: "false: only back, never forward (default true)"}
	moment := flagSpec{key: "to", long: "timestamp", short: "s", required: true, meta: "TIME", help: "earliest, latest, 2026-11-29T10:00 (this machine's zone unless the time names one), -2h; mqadmin's now, milliseconds and yyyy-MM-dd#HH:mm:ss:SSS too"}
	attrs := mutates | destructive | planned
	return []*command{
		{
			path: "offset reset", old: "resetOffsetByTime", summary: "move a group to a time or position", args: "GROUP", min: 1, max: 1, argFrom: "group",
			run: runOffsetReset, schema: "mqctl.offset.reset/v1", attrs: attrs, exits: exits, view: offsetMoveView(oldOffsetReset),
			examples: []string{
				"mqctl offset reset report --topic orders --to=-2h --dry-run", "mqctl offset reset report --topic orders --to latest --yes",
				"mqctl offset reset report --topic orders --to-offset broker-a:0=1000 --yes",
				"mqctl resetOffsetByTime -n 127.0.0.1:9876 -g report -t orders -s now",
			},
			flags: []flagSpec{
				group, topic, moment, force, broker, cluster,
				{key: "to-offset", kind: kindList, newOnly: true, meta: "BROKER:QUEUE=OFFSET", complete: "place=", help: "one queue to one offset; may be repeated"},
				{key: "offline", kind: kindBool, newOnly: true, help: "store the offsets even while clients are online"},
				{key: "queue", long: "queue", short: "q", kind: kindInt, min: 0, max: maxQueues, meta: "N", complete: "queue", oldOnly: true, help: "this queue only, of the broker of -b"},
				{key: "queue-offset", long: "offset", short: "o", kind: kindInt, min: -1, max: 1 << 62, meta: "N", complete: "offset", oldOnly: true, help: "its new offset, instead of the time"},
			},
		},
		{
			old: "resetOffsetByTimeOld", twin: "offset reset GROUP --offline", summary: "older form of resetOffsetByTime: the offsets are stored, clients take them at their next start",
			run: runOffsetReset, schema: "mqctl.offset.reset/v1", attrs: attrs, exits: exits, view: offsetMoveView(oldOffsetResetOld),
			examples: []string{"mqctl resetOffsetByTimeOld -n 127.0.0.1:9876 -g report -t orders -s now"},
			flags:    []flagSpec{group, topic, moment, force, cluster},
		},
		{
			path: "offset skip", old: "skipAccumulatedMessage", summary: "move a group to the end", args: "GROUP", min: 1, max: 1, argFrom: "group",
			run: runOffsetSkip, schema: "mqctl.offset.skip/v1", attrs: attrs, exits: exits, view: offsetMoveView(oldOffsetSkip),
			examples: []string{"mqctl offset skip report --dry-run", "mqctl offset skip report --topic orders --yes", "mqctl skipAccumulatedMessage -n 127.0.0.1:9876 -g report -t orders"},
			flags: []flagSpec{
				group, {key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "this topic only"}, force, cluster,
				{key: "offline", kind: kindBool, newOnly: true, help: "store the offsets even while clients are online"},
			},
		},
		{
			path: "offset clone", old: "cloneGroupOffset", summary: "copy the offsets of a group to another",
			run: runOffsetClone, schema: "mqctl.offset.clone/v1", attrs: attrs, exits: exits, view: offsetMoveView(oldOffsetClone),
			examples: []string{"mqctl offset clone --from report --to report2 --topic orders --yes", "mqctl cloneGroupOffset -n 127.0.0.1:9876 -s report -d report2 -t orders"},
			flags: []flagSpec{
				{key: "from", long: "srcGroup", short: "s", required: true, meta: "GROUP", complete: "group", help: "the group whose offsets are copied"},
				{key: "to", long: "destGroup", short: "d", required: true, meta: "GROUP", complete: "group", help: "the group that gets them"},
				topic,
				{key: "offline", long: "offline", short: "o", kind: kindBool, help: "store the offsets even while clients are online"},
			},
		},
	}
}

// needFlags are the values that the modern forms demand as mqadmin does.
func (c *call) needFlags(keys ...string) error {
	for _, k := range keys {
		if c.str(k) == "" {
			f := c.flag(k)
			return usage("VALUE_MISSING", "%s needs %s", c.cmd.name(c.old), c.hint(k)).because("nothing was sent").try(c.hint(k)+" "+f.meta).lacks(c.cmd, c.old, f, c.values)
		}
	}
	return nil
}

func runOffsetReset(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	if err := c.needFlags("topic"); err != nil {
		return nil, err
	}
	topic := c.str("topic")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	to, err := c.resetTarget()
	if err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, warnings: notes, extra: resetWords{group, topic, to.text, to.when(c), c.forced()}}
	p := &offsetPlan{group: group, topics: []string{topic}, offline: c.on("offline") || c.cmd.old == "resetOffsetByTimeOld",
		millis: to.moment(), to: func(ctx context.Context, t admin.Target, q *queueState) (int64, bool, error) {
			if c.given("queue") && int64(q.queue) != c.whole("queue") {
				return 0, false, nil
			}
			n, ok, err := to.of(ctx, c, t, q)
			if ok && c.keepsForward(q, n) {
				n = *q.stored
			}
			return n, ok, err
		}}
	if c.given("queue") {
		p.millis = nil
	}
	return c.finishOffsets(ctx, r, targets, p, fmt.Sprintf("moving group %q in topic %q to %s", group, topic, to.text), to.queues)
}

// forced is mqadmin's -f, true unless it is false.
func (c *call) forced() bool { return !c.given("force") || c.on("force") }

// keepsForward is mqadmin's -f false: a queue goes back only.
func (c *call) keepsForward(q *queueState, n int64) bool {
	return !c.forced() && q.stored != nil && n > *q.stored
}

// resetTarget reads where to, in both vocabularies.
func (c *call) resetTarget() (*offsetTarget, error) {
	if c.given("queue") && c.str("broker") == "" {
		return nil, usage("TARGET_MISSING", "%s needs the broker of the queue", c.hint("queue")).because("nothing was sent").try(c.hint("broker") + " HOST:PORT")
	}
	if c.given("queue-offset") && c.whole("queue-offset") >= 0 {
		if !c.given("queue") {
			return nil, usage("VALUE_MISSING", "%s needs %s", c.hint("queue-offset"), c.hint("queue")).because("nothing was sent")
		}
		return &offsetTarget{text: c.str("queue-offset"), exact: ptr(c.whole("queue-offset"))}, nil
	}
	return parseOffsetTarget(c)
}

// finishOffsets plans, checks, asks and carries out.
func (c *call) finishOffsets(ctx context.Context, r *result, targets []admin.Target, p *offsetPlan, what string, named map[string]int64) (*result, error) {
	plan, err := c.planOffsets(ctx, r, targets, p)
	if err != nil {
		return nil, err
	}
	if len(plan) == 0 && len(r.errors) == 0 {
		if len(p.topics) > 0 {
			for _, t := range targets {
				if _, err := c.client.TopicConfig(ctx, t.Addr, p.topics[0]); err == nil {
					return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "nothing to move: no queue of topic %q fits", p.topics[0]).try("mqctl topic status " + p.topics[0])
				}
			}
			return nil, c.topicMissing(ctx, p.topics[0])
		}
		r.empty = "the group has stored no offsets yet"
		return r, nil
	}
	if len(named) > 0 && len(plan) < len(named) && len(r.errors) == 0 {
		return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "%d of the %d queues named do not exist; nothing was changed", len(named)-len(plan), len(named)).
			try("mqctl topic status " + p.topics[0])
	}
	if err := c.moveOffsets(ctx, r, what, plan); err != nil {
		return nil, err
	}
	return r, nil
}

func runOffsetSkip(ctx context.Context, c *call) (*result, error) {
	group, topic := c.arg(0), c.str("topic")
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	var topics []string
	if topic != "" {
		if err := checkTopic(topic); err != nil {
			return nil, err
		}
		topics = []string{topic}
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, warnings: notes}
	p := &offsetPlan{group: group, topics: topics, offline: c.on("offline"), millis: ptr(int64(-1)),
		to: func(_ context.Context, _ admin.Target, q *queueState) (int64, bool, error) {
			if c.keepsForward(q, q.max) {
				return *q.stored, true, nil
			}
			return q.max, true, nil
		}}
	return c.finishOffsets(ctx, r, targets, p, fmt.Sprintf("skipping all messages that group %q has not read", group), nil)
}

func runOffsetClone(ctx context.Context, c *call) (*result, error) {
	if err := c.needFlags("from", "to", "topic"); err != nil {
		return nil, err
	}
	from, group, topic := c.str("from"), c.str("to"), c.str("topic")
	for _, g := range []string{from, group} {
		if err := checkGroupName(g); err != nil {
			return nil, err
		}
	}
	if from == group {
		return nil, usage("CONTRADICTION", "%q cannot be copied to itself", from)
	}
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, warnings: notes, extra: []string{from, group, topic}}
	p := &offsetPlan{group: group, topics: []string{topic}, offline: c.on("offline"),
		to: func(ctx context.Context, t admin.Target, q *queueState) (int64, bool, error) {
			n, ok, err := c.client.ConsumerOffset(ctx, t.Addr, from, topic, q.queue)
			return min(max(n, q.min), q.max), ok, err
		}}
	plan, err := c.planOffsets(ctx, r, targets, p)
	if err != nil {
		return nil, err
	}
	if len(plan) == 0 && len(r.errors) == 0 {
		return nil, fail(ExitNotFound, "NO_OFFSETS", "group %q has no offsets in topic %q; nothing was changed", from, topic).try("mqctl offset list " + from)
	}
	return r, c.moveOffsets(ctx, r, fmt.Sprintf("giving group %q the offsets of %q in topic %q", group, from, topic), plan)
}

// resetWords are what mqadmin's layout repeats of the command line.
type resetWords struct {
	group, topic, text string
	millis             int64
	force              bool
}

// when is the moment as mqadmin prints it.
func (o *offsetTarget) when(c *call) int64 {
	switch {
	case o.latest && o.text == "now":
		return c.begun.UnixMilli()
	case o.latest:
		return -1
	}
	return o.millis
}

// moment is what one reset of all queues needs; nil when each has its own offset.
func (o *offsetTarget) moment() *int64 {
	switch {
	case o.queues != nil || o.exact != nil:
		return nil
	case o.latest:
		return ptr(int64(-1))
	case o.earliest:
		return ptr(int64(0))
	}
	return &o.millis
}

// oldOffsetReset is mqadmin's layout, whether members are online or not.
func oldOffsetReset(p *printer, r *result) {
	w, _ := r.extra.(resetWords)
	p.printf("start reset consumer offset by specified, group[%s], topic[%s], force[%t], timestamp(string)[%s], timestamp(long)[%d]\n", w.group, w.topic, w.force, w.text, w.millis)
	oldOffsetSkip(p, r)
}

func oldOffsetResetOld(p *printer, r *result) {
	w, _ := r.extra.(resetWords)
	p.printf("reset consumer offset by specified consumerGroup[%s], topic[%s], force[%t], timestamp(string)[%s], timestamp(long)[%d]\n", w.group, w.topic, w.force, w.text, w.millis)
	oldResetTable(p, r)
}

// oldOffsetSkip is the table without its sentence.
func oldOffsetSkip(p *printer, r *result) {
	p.printf("%-40s  %-40s  %-40s\n", "#brokerName", "#queueId", "#offset")
	for _, item := range r.items {
		if it := item.(*offsetMoveItem); it.Applied || it.Verified {
			p.printf("%-40s  %-40d  %-40d\n", oldBroker(it), it.QueueID, it.After)
		}
	}
}

func oldBroker(it *offsetMoveItem) string {
	if it.target.Broker != "" {
		return it.target.Broker
	}
	return it.Broker
}

func oldResetTable(p *printer, r *result) {
	p.printf("%-20s  %-20s  %-20s  %-20s  %-20s  %-20s\n", "#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset", "#resetOffset")
	for _, item := range r.items {
		it := item.(*offsetMoveItem)
		if !it.Applied && !it.Verified {
			continue
		}
		before := int64(0)
		if it.Before != nil {
			before = *it.Before
		}
		p.printf("%-20s  %-20d  %-20d  %-20d  %-20d  %-20d\n", oldBroker(it), it.QueueID, it.max, before, it.After, it.After)
	}
}

func oldOffsetClone(p *printer, r *result) {
	if w, ok := r.extra.([]string); ok && len(r.errors) == 0 {
		p.printf("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]", w[0], w[1], w[2])
	}
}
