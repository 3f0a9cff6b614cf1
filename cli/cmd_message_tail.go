package cli

import (
	"context"
	"errors"
	"math"
	"sort"
	"strings"
	"sync"
	"time"

	"mqctl/cli/admin"
)

func messageTailCommand() *command {
	v := messageView()
	return &command{
		path: "message tail", summary: "read messages without a group", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runMessageTail, schema: "mqctl.message.tail/v1", exits: []int{ExitNotFound, ExitPartial}, view: v, attrs: streams,
		examples: []string{"mqctl message tail orders", "mqctl message tail orders --last 5 --follow -o jsonl", "mqctl message tail orders --since 5m --tag new", "mqctl message tail orders -o raw --last 1"},
		flags: []flagSpec{
			{key: "last", kind: kindInt, max: 1 << 20, def: "10", meta: "N", help: "the newest N messages"},
			{key: "since", meta: "DUR|TIME", help: "stored within this time, or since this moment"},
			{key: "from", meta: "BROKER:QUEUE:OFFSET", complete: "place", help: "from this position on"},
			{key: "tag", meta: "TAG", help: "only this tag; || between several"},
			{key: "follow", kind: kindBool, help: "go on with new messages until interrupted"},
		},
	}
}

// reader is one queue that is read.
type reader struct {
	target   admin.Target
	queue    int32
	from, to int64 // to is exclusive; without an end when following
}

func runMessageTail(ctx context.Context, c *call) (*result, error) {
	topic := c.arg(0)
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if c.on("follow") && (c.p.format == "json" || c.p.format == "csv" || c.p.format == "template") {
		return nil, usage("CONTRADICTION", "--follow has no end, so --output %s cannot be closed", c.p.format).try("--output jsonl")
	}
	readers, err := c.readers(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &result{empty: "there are no such messages"}
	for _, rd := range readers {
		r.cluster = rd.target.Cluster
	}
	if len(readers) > 0 && !c.given("from") && !c.given("since") {
		c.newest(readers)
	}
	items, err := c.readAll(ctx, r, topic, readers)
	if err != nil {
		return nil, err
	}
	if !c.given("from") && !c.given("since") {
		if n := int(c.whole("last")); len(items) > n {
			items = items[len(items)-n:]
		}
	}
	for _, it := range items {
		r.add(it)
	}
	if !c.on("follow") {
		return r, nil
	}
	return c.follow(ctx, r, topic, readers)
}

// readers finds the queues of a topic and where to begin.
func (c *call) readers(ctx context.Context, topic string) ([]*reader, error) {
	targets, err := c.routeTargets(ctx, topic)
	if err != nil {
		return nil, err
	}
	from := struct {
		broker string
		queue  int32
		offset int64
	}{}
	if c.given("from") {
		if from.broker, from.queue, from.offset, err = position(c.str("from"), "--from"); err != nil {
			return nil, err
		}
	}
	since, err := c.sinceMillis()
	if err != nil {
		return nil, err
	}
	var out []*reader
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) (*admin.TopicStats, error) {
		return c.client.TopicStats(ctx, t.Addr, topic)
	}) {
		if res.Err != nil {
			return nil, c.at(res.Err, res.Target)
		}
		for q, v := range res.Value.Queues {
			rd := &reader{target: res.Target, queue: q.ID, from: v.Min, to: v.Max}
			switch {
			case c.given("from"):
				if res.Target.Broker != from.broker || q.ID != from.queue {
					continue
				}
				rd.from = max(from.offset, v.Min)
			case c.given("since"):
				at, err := c.client.OffsetAt(ctx, res.Target.Addr, topic, q.ID, since)
				if err != nil {
					return nil, c.at(err, res.Target)
				}
				rd.from = max(at, v.Min)
			}
			out = append(out, rd)
		}
	}
	if c.given("from") && len(out) == 0 {
		return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "topic %q has no queue %d at %s", topic, from.queue, from.broker)
	}
	return out, nil
}

func (c *call) sinceMillis() (int64, error) {
	if !c.given("since") {
		return 0, nil
	}
	if d, err := parseDuration(c.str("since")); err == nil && c.str("since")[0] != '-' && d < 100*365*24*time.Hour {
		if _, isMillis := parseMillis(c.str("since")); !isMillis {
			return c.begun.Add(-d).UnixMilli(), nil
		}
	}
	return parseTime(c.str("since"), c.begun, "--since")
}

// parseMillis recognises a plain number that is a moment.
func parseMillis(s string) (int64, bool) {
	ms, err := parseTime(s, time.Time{}, "")
	return ms, err == nil && len(s) >= 12
}

// newest moves the beginnings so far back that the newest messages are inside.
func (c *call) newest(readers []*reader) {
	n := c.whole("last")
	for _, rd := range readers {
		rd.from = max(rd.from, rd.to-n)
	}
}

// readAll reads every queue to its present end, oldest message first.
func (c *call) readAll(ctx context.Context, r *result, topic string, readers []*reader) ([]*messageItem, error) {
	limit := math.MaxInt
	if c.given("limit") && (c.given("from") || c.given("since")) {
		limit = int(c.whole("limit"))
	}
	targets := make([]admin.Target, len(readers))
	for i, rd := range readers {
		targets[i] = rd.target
	}
	var items []*messageItem
	for i, res := range admin.Each(ctx, c.client, 0, indexed(targets), func(ctx context.Context, t admin.Target) ([]*messageItem, error) {
		n, _ := atIndex(t, targets)
		return c.readQueue(ctx, topic, readers[n], limit)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, readers[i].target))
			continue
		}
		r.done++
		items = append(items, res.Value...)
	}
	sort.SliceStable(items, func(i, j int) bool {
		if items[i].stored != items[j].stored {
			return items[i].stored < items[j].stored
		}
		return items[i].CommitLogOffset < items[j].CommitLogOffset
	})
	return items, nil
}

// readQueue reads [from, to) of one queue and moves from.
func (c *call) readQueue(ctx context.Context, topic string, rd *reader, limit int) ([]*messageItem, error) {
	var out []*messageItem
	for rd.from < rd.to && len(out) < limit {
		p, err := c.client.Pull(ctx, rd.target.Addr, admin.Pull{
			Topic: topic, Broker: rd.target.Broker, QueueID: rd.queue, Offset: rd.from,
			Max: int(min(32, rd.to-rd.from)), Expression: c.str("tag"),
		})
		if err != nil {
			return nil, err
		}
		for i := range p.Messages {
			if m := &p.Messages[i]; m.QueueOffset < rd.to && tagFits(m, c.str("tag")) {
				out = append(out, messageOf(m, rd.target.Broker))
			}
		}
		if p.Status == admin.PullNothing || p.Next <= rd.from {
			break
		}
		rd.from = p.Next
	}
	rd.from = max(rd.from, rd.to)
	return out, nil
}

// tagFits compares the tag itself: brokers filter by its hash.
func tagFits(m *admin.Message, expression string) bool {
	if expression == "" || expression == "*" {
		return true
	}
	for _, tag := range strings.Split(expression, "||") {
		if strings.TrimSpace(tag) == m.Properties["TAGS"] {
			return true
		}
	}
	return false
}

// follow prints what came and then waits for more at every queue until the user
// interrupts, which is the normal end.
func (c *call) follow(ctx context.Context, r *result, topic string, readers []*reader) (*result, error) {
	c.sayStandIns(r)
	if err := c.p.print(r); err != nil {
		return nil, err
	}
	r.streamed = true
	c.p.headers = false
	// mu keeps lines of several queues apart.
	var mu sync.Mutex
	targets := make([]admin.Target, len(readers))
	for i, rd := range readers {
		targets[i] = rd.target
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i, res := range admin.Each(ctx, c.client, len(readers), indexed(targets), func(ctx context.Context, t admin.Target) (struct{}, error) {
		n, _ := atIndex(t, targets)
		return struct{}{}, c.followQueue(ctx, topic, readers[n], func(item *messageItem) bool {
			mu.Lock()
			defer mu.Unlock()
			if err := c.p.print(&result{items: []any{item}}); err != nil || c.p.broken != nil {
				stop()
				return false
			}
			return true
		})
	}) {
		if res.Err != nil && !errors.Is(res.Err, context.Canceled) {
			r.failed(c.at(res.Err, readers[i].target))
		}
	}
	return r, nil
}

func (c *call) followQueue(ctx context.Context, topic string, rd *reader, show func(*messageItem) bool) error {
	for ctx.Err() == nil {
		p, err := c.client.Pull(ctx, rd.target.Addr, admin.Pull{
			Topic: topic, Broker: rd.target.Broker, QueueID: rd.queue, Offset: rd.from, Expression: c.str("tag"), Suspend: 10 * time.Second,
		})
		var late *admin.Timeout
		switch {
		case errors.As(err, &late) && !late.Deadline:
			continue
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		for i := range p.Messages {
			if m := &p.Messages[i]; tagFits(m, c.str("tag")) && !show(messageOf(m, rd.target.Broker)) {
				return nil
			}
		}
		rd.from = max(rd.from, p.Next)
		if p.Status == admin.PullWrongPlace {
			rd.from = p.Next
		}
	}
	return ctx.Err()
}
