package cli

import (
	"context"
	"errors"
	"sort"
	"strings"

	"mqctl/cli/admin"
)

func statsCommands() []*command {
	return []*command{statsOffsetsCommand(), statsHACommand(), lagListCommand(), pullCommand(), trafficCommand()}
}

// trafficItem is the traffic of a topic, or of one group on it.
type trafficItem struct {
	Topic        string   `json:"topic"`
	Group        *string  `json:"group"`
	PutPerSecond float64  `json:"putPerSecond"`
	GetPerSecond *float64 `json:"getPerSecond"`
	Lag          *int64   `json:"lag"`
	Put24h       int64    `json:"put24h"`
	Get24h       *int64   `json:"get24h"`
}

func trafficCommand() *command {
	return &command{
		path: "stats traffic", old: "statsAll", summary: "rates and counts of topics and their groups", run: runTraffic,
		schema: "mqctl.stats.traffic/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl stats traffic", "mqctl stats traffic --topic orders", "mqctl statsAll -n 127.0.0.1:9876 -a"},
		flags: []flagSpec{
			{key: "topic", long: "topic", short: "t", meta: "TOPIC", complete: "topic", help: "this topic only"},
			{key: "active", long: "activeTopic", short: "a", kind: kindBool, bareOld: true, help: "only topics with traffic in the last 24 hours"},
			{key: "system", kind: kindBool, newOnly: true, help: "system topics too"},
		},
		view: view{
			item: trafficItem{}, name: func(item any) string { return item.(trafficItem).Topic }, old: oldTraffic,
			columns: []column{
				{head: "TOPIC", field: "topic"}, {head: "GROUP", field: "group"}, {head: "LAG", field: "lag", as: asNumber},
				{head: "IN/s", field: "putPerSecond", as: asRate}, {head: "OUT/s", field: "getPerSecond", as: asRate},
				{head: "IN 24H", field: "put24h", as: asNumber}, {head: "OUT 24H", field: "get24h", as: asNumber},
			},
		},
	}
}

func runTraffic(ctx context.Context, c *call) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	r := &result{}
	var topics []string
	var held *heldTopics
	if c.str("broker") != "" || c.str("cluster") != "" {
		if held, err = c.heldBy(ctx, r); err != nil {
			return nil, err
		}
		topics = held.names(!c.old && !c.on("system") && c.str("topic") == "")
	} else if topics, err = a.Topics(ctx); err != nil {
		return nil, c.explain(err)
	}
	if want := c.str("topic"); want != "" {
		i := sort.SearchStrings(topics, want)
		if i >= len(topics) || topics[i] != want {
			return nil, c.explain(&admin.NotFound{Kind: "topic", Name: want, Known: topics})
		}
		topics = []string{want}
	}
	if held == nil && !c.old && !c.on("system") && c.str("topic") == "" {
		topics = c.visible(ctx, topics)
	}
	asks := make([]admin.Target, 0, len(topics))
	for _, t := range topics {
		if !strings.HasPrefix(t, "%RETRY%") && !strings.HasPrefix(t, "%DLQ%") {
			asks = append(asks, admin.Target{Broker: t})
		}
	}
	for _, res := range admin.Each(ctx, a, 0, asks, func(ctx context.Context, t admin.Target) ([]trafficItem, error) {
		return c.trafficOf(ctx, t.Broker, held)
	}) {
		var missing *admin.NotFound
		if errors.As(res.Err, &missing) && c.str("topic") == "" {
			continue // a name without a route, such as a cluster's
		}
		if res.Err != nil {
			m := *asMessage(c.explain(res.Err))
			m.Target = res.Target.Broker
			r.failed(&m)
			continue
		}
		r.done++
		for _, it := range res.Value {
			if !c.on("active") || it.Put24h > 0 || it.Get24h != nil && *it.Get24h > 0 {
				r.add(it)
			}
		}
	}
	return r, nil
}

// trafficOf sums one topic over its masters.
func (c *call) trafficOf(ctx context.Context, topic string, held *heldTopics) ([]trafficItem, error) {
	place, err := c.placeOf(ctx, topic, held)
	if err == nil && place == nil {
		err = &admin.NotFound{Kind: "topic", Name: topic}
	}
	if err != nil {
		return nil, err
	}
	base := trafficItem{Topic: topic}
	groups := map[string]*trafficItem{}
	for _, t := range place.at {
		if t.Addr == "" {
			continue
		}
		if err := c.putStats(ctx, t.Addr, topic, &base.PutPerSecond, &base.Put24h); err != nil {
			return nil, err
		}
		names, err := c.client.TopicConsumers(ctx, t.Addr, topic)
		if err != nil {
			return nil, err
		}
		for _, g := range names {
			if groups[g] == nil {
				groups[g] = &trafficItem{Topic: topic, Group: ptr(g), GetPerSecond: ptr(0.0), Lag: ptr(int64(0)), Get24h: ptr(int64(0))}
			}
			if err := c.groupStats(ctx, t.Addr, topic, g, groups[g]); err != nil {
				return nil, err
			}
		}
	}
	if len(groups) == 0 {
		return []trafficItem{base}, nil
	}
	var out []trafficItem
	for _, g := range sortedKeys(groups) {
		it := *groups[g]
		it.PutPerSecond, it.Put24h = base.PutPerSecond, base.Put24h
		out = append(out, it)
	}
	return out, nil
}

// putStats adds one broker's counts of a topic; a broker that counted nothing
// has no such statistic.
func (c *call) putStats(ctx context.Context, addr, topic string, tps *float64, day *int64) error {
	s, err := c.client.BrokerStats(ctx, addr, admin.StatTopicPutNums, topic)
	return addStats(s, err, tps, day)
}

func addStats(s *admin.BrokerStats, err error, tps *float64, day *int64) error {
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	*tps += s.Minute.TPS
	switch { // RocketMQ's brokers begin the day with the next full hour, and the hour with the next ten minutes
	case s.Day.Sum != 0:
		*day += s.Day.Sum
	case s.Hour.Sum != 0:
		*day += s.Hour.Sum
	default:
		*day += s.Minute.Sum
	}
	return nil
}

func (c *call) groupStats(ctx context.Context, addr, topic, group string, it *trafficItem) error {
	s, err := c.client.BrokerStats(ctx, addr, admin.StatGroupGetNums, topic+"@"+group)
	if err := addStats(s, err, it.GetPerSecond, it.Get24h); err != nil {
		return err
	}
	p, err := c.client.ConsumeStats(ctx, addr, group, topic)
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, q := range p.Queues {
		*it.Lag += q.Lag()
	}
	return nil
}

// oldTraffic is mqadmin's layout of statsAll.
func oldTraffic(p *printer, r *result) {
	p.printf("%-64s  %-64s %12s %11s %11s %14s %14s\n", "#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
	for _, item := range r.items {
		it := item.(trafficItem)
		if it.Group == nil {
			p.printf("%-64s  %-64s %12d %11.2f %11s %14d %14s\n", it.Topic, "", 0, it.PutPerSecond, "", it.Put24h, "NO_CONSUMER")
			continue
		}
		p.printf("%-64s  %-64s %12d %11.2f %11.2f %14d %14d\n", it.Topic, *it.Group, *it.Lag, it.PutPerSecond, *it.GetPerSecond, it.Put24h, *it.Get24h)
	}
}
