package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// offsetItem is one stored offset of a group.
type offsetItem struct {
	Topic          string `json:"topic"`
	Broker         string `json:"broker"`
	QueueID        int32  `json:"queueId" min:"0"`
	ConsumerOffset int64  `json:"consumerOffset"`
	Source         string `json:"source" enum:"MASTER|SLAVE"`
}

func offsetCommands() []*command {
	return []*command{{
		path: "offset list", summary: "stored offsets of a group", args: "GROUP", min: 1, max: 1, argFrom: "group",
		run: runOffsetList, schema: "mqctl.offset.list/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl offset list order_consumer", "mqctl offset list order_consumer --topic orders -o csv"},
		flags:    []flagSpec{{key: "topic", meta: "TOPIC", complete: "topic", help: "this topic only"}},
		view: view{
			item: offsetItem{}, name: func(item any) string {
				it := item.(offsetItem)
				return fmt.Sprintf("%s:%d=%d", it.Broker, it.QueueID, it.ConsumerOffset)
			},
			columns: []column{
				{head: "TOPIC", field: "topic"}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber},
				{head: "OFFSET", field: "consumerOffset", as: asNumber}, {head: "SOURCE", field: "source"},
			},
		},
	}}
}

// runOffsetList reads the topics of a group from its progress (208), then each
// queue's stored offset (14): 208 shows 0 where nothing is stored.
func runOffsetList(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) ([]offsetItem, error) {
		return c.offsetsAt(ctx, t, group, c.str("topic"))
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for _, it := range res.Value {
			r.add(it)
		}
	}
	if len(r.items) > 0 || len(r.errors) > 0 {
		return r, nil
	}
	known := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		if _, ok := g.Value[group]; ok {
			r.empty = "the group has stored no offsets yet"
			return r, nil
		}
		for n := range g.Value {
			known[n] = true
		}
	}
	return nil, groupMissing(group, r.cluster, known)
}

func (c *call) offsetsAt(ctx context.Context, t admin.Target, group, topic string) ([]offsetItem, error) {
	stats, err := c.client.ConsumeStats(ctx, t.Addr, group, topic)
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []offsetItem
	for q := range stats.Queues {
		offset, ok, err := c.client.ConsumerOffset(ctx, t.Addr, group, q.Topic, q.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, offsetItem{Topic: q.Topic, Broker: q.Broker, QueueID: q.ID, ConsumerOffset: offset, Source: sourceOf(t)})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Topic != out[j].Topic {
			return out[i].Topic < out[j].Topic
		}
		return out[i].QueueID < out[j].QueueID
	})
	return out, nil
}
