package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"mqctl/cli/admin"
)

// pullSplit is where pulls were sent in a window.
type pullSplit struct {
	WindowMillis int64 `json:"windowMillis"`
	ToMaster     int64 `json:"toMaster"`
	ToSlave      int64 `json:"toSlave"`
}

// offsetsItem is the commit log of one replica. Offsets are bytes.
type offsetsItem struct {
	Broker           string     `json:"broker"`
	BrokerID         int64      `json:"brokerId" min:"0"`
	Role             string     `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	Addr             string     `json:"addr"`
	MinOffset        int64      `json:"minOffset" min:"0"`
	MaxOffset        int64      `json:"maxOffset" min:"0"`
	FlushedOffset    *int64     `json:"flushedOffset"`
	ConfirmedOffset  *int64     `json:"confirmedOffset"`
	DispatchedOffset *int64     `json:"dispatchedOffset"`
	UnflushedBytes   *int64     `json:"unflushedBytes"`
	GapBytes         *int64     `json:"gapBytes"` // newest byte of the master minus newest byte of this slave
	GapMillis        *int64     `json:"gapMillis"`
	InSync           *bool      `json:"inSync"`
	GapSource        string     `json:"gapSource" enum:"HA_STATUS|RUNTIME_DIFF|NONE"`
	Pull             *pullSplit `json:"pull"`
}

// offsetsTotals is the widest gap.
type offsetsTotals struct {
	WidestGapBytes  *int64  `json:"widestGapBytes"`
	WidestGapBroker *string `json:"widestGapBroker"`
}

func statsCommands() []*command {
	return []*command{
		{
			path: "stats offsets", summary: "commit log of every replica side by side", run: runStatsOffsets,
			schema: "mqctl.stats.offsets/v1", exits: []int{ExitNotFound, ExitPartial},
			examples: []string{"mqctl stats offsets", "mqctl stats offsets --broker broker-a", "mqctl stats offsets -o json | jq '.items[].gapBytes'"},
			view: view{
				item: offsetsItem{}, foot: footOffsets, name: func(item any) string {
					it := item.(*offsetsItem)
					return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
				},
				columns: []column{
					{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role", fold: 1},
					{head: "MIN", field: "minOffset", as: asNumber}, {head: "FLUSHED", field: "flushedOffset", as: asNumber, fold: 4},
					{head: "MAX", field: "maxOffset", as: asNumber}, {head: "CONFIRMED", field: "confirmedOffset", as: asNumber, fold: 3},
					{head: "GAP", field: "gapBytes", as: asBytes}, {head: "GAP TIME", field: "gapMillis", as: asMillis, fold: 2},
					{head: "ADDR", field: "addr", wide: true}, {head: "DISPATCHED", field: "dispatchedOffset", as: asNumber, wide: true},
					{head: "IN SYNC", field: "inSync", wide: true}, {head: "GAP SOURCE", field: "gapSource", wide: true},
				},
			},
		},
		lagListCommand(),
		pullCommand(),
		trafficCommand(),
	}
}

func runStatsOffsets(ctx context.Context, c *call) (*result, error) {
	s := c.selector(false)
	targets, err := c.offsetTargets(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	newest := map[string]int64{}
	var ends []admin.Target
	for _, res := range c.replicas(ctx, targets, true) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		it, ok := offsetsOf(res)
		if !ok {
			m := fail(ExitUnreachable, "BAD_PROTOCOL", "%s does not tell where its commit log begins and ends", res.Target)
			m.Target, m.Addr = res.Target.String(), res.Target.Addr
			r.failed(m)
			continue
		}
		r.done++
		r.add(it)
		if res.Target.ID == 0 {
			newest[it.Broker] = it.MaxOffset
			ends = append(ends, res.Target)
		}
	}
	c.gaps(ctx, r, newest, ends)
	t := offsetsTotals{}
	for _, item := range r.items {
		it := item.(*offsetsItem)
		if it.GapBytes != nil && (t.WidestGapBytes == nil || *it.GapBytes > *t.WidestGapBytes) {
			t.WidestGapBytes, t.WidestGapBroker = it.GapBytes, ptr(fmt.Sprintf("%s/%d", it.Broker, it.BrokerID))
		}
	}
	r.totals, r.extra = t, t
	return r, nil
}

// offsetTargets are all replicas of the cluster, or what --broker chooses.
func (c *call) offsetTargets(ctx context.Context, s admin.Selector) ([]admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	if admin.IsAddress(s.Broker) {
		targets, err := c.pick(ctx, s)
		if err != nil {
			return nil, err
		}
		return c.identify(ctx, targets), nil
	}
	view, err := a.Cluster(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	targets, err := everyReplica(view, s)
	if err != nil {
		return nil, c.explain(err)
	}
	return targets, nil
}

func offsetsOf(res admin.Result[replica]) (*offsetsItem, bool) {
	rt := res.Value.runtime
	lo, hi := rt.whole("commitLogMinOffset"), rt.whole("commitLogMaxOffset")
	if lo == nil || hi == nil {
		return nil, false
	}
	name := res.Target.Broker
	if name == "" {
		name = res.Target.Addr
	}
	it := &offsetsItem{
		Broker: name, BrokerID: max(0, res.Target.ID), Role: res.Value.role(res.Target.ID), Addr: res.Target.Addr,
		MinOffset: max(0, *lo), MaxOffset: max(0, *hi), GapSource: "NONE",
		FlushedOffset: rt.whole("mqctlFlushedOffset"), ConfirmedOffset: rt.whole("mqctlConfirmedOffset"),
	}
	if it.DispatchedOffset = rt.whole("mqctlDispatchedOffset"); it.DispatchedOffset != nil {
		// our broker tells it exactly
	} else if behind := rt.whole("dispatchBehindBytes"); behind != nil && *behind >= 0 {
		it.DispatchedOffset = ptr(max(0, it.MaxOffset-*behind))
	}
	if it.FlushedOffset != nil {
		it.UnflushedBytes = ptr(max(0, it.MaxOffset-*it.FlushedOffset))
	}
	return it, true
}

// gaps fills in how far slaves are behind: from the master's HA status (907),
// else from the difference of the two ends.
func (c *call) gaps(ctx context.Context, r *result, newest map[string]int64, masters []admin.Target) {
	slaves := false
	for _, item := range r.items {
		slaves = slaves || item.(*offsetsItem).BrokerID > 0
	}
	if !slaves {
		return
	}
	inSync := map[string]admin.HAPeer{}
	for _, res := range admin.Each(ctx, c.client, 0, masters, func(ctx context.Context, t admin.Target) (*admin.HAStatus, error) {
		return c.client.HAStatus(ctx, t.Addr)
	}) {
		if res.Err != nil {
			var refused *admin.Refused
			if errors.As(res.Err, &refused) {
				r.warn(warning("HA_STATUS_MISSING", res.Target.String(), "%s does not answer request 907; the gap is computed from commit log offsets", res.Target))
			}
			continue
		}
		for _, p := range res.Value.Peers {
			inSync[res.Target.Broker+"@"+hostOf(p.Addr)] = p
		}
	}
	for _, item := range r.items {
		it := item.(*offsetsItem)
		end, ok := newest[it.Broker]
		if it.BrokerID == 0 || !ok {
			continue
		}
		it.GapBytes, it.GapSource = ptr(max(0, end-it.MaxOffset)), "RUNTIME_DIFF"
		if p, ok := inSync[it.Broker+"@"+hostOf(it.Addr)]; ok {
			it.GapBytes, it.InSync, it.GapSource = ptr(max(0, p.Diff)), ptr(p.InSync), "HA_STATUS"
		}
	}
}

// hostOf is the host of host:port; Java puts a slash in front.
func hostOf(addr string) string {
	addr = strings.TrimPrefix(addr, "/")
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}

func footOffsets(p *printer, r *result) {
	var parts []string
	if t, ok := r.extra.(offsetsTotals); ok && t.WidestGapBytes != nil {
		parts = append(parts, "widest gap "+p.style.cell(*t.WidestGapBytes, asBytes)+" ("+*t.WidestGapBroker+")")
	}
	var kept []string
	for _, item := range r.items {
		it := item.(*offsetsItem)
		if it.BrokerID == 0 {
			kept = append(kept, p.style.cell(it.MaxOffset-it.MinOffset, asBytes))
		}
		if it.UnflushedBytes != nil && *it.UnflushedBytes > 0 {
			parts = append(parts, "not flushed "+p.style.cell(*it.UnflushedBytes, asBytes)+" ("+it.Broker+")")
		}
	}
	if len(kept) > 0 {
		parts = append(parts, "retained "+strings.Join(kept, " and "))
	}
	if len(parts) > 0 {
		p.printf("\n%s\n", strings.Join(parts, "   "))
	}
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
	topics, err := a.Topics(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	if want := c.str("topic"); want != "" {
		i := sort.SearchStrings(topics, want)
		if i >= len(topics) || topics[i] != want {
			return nil, c.explain(&admin.NotFound{Kind: "topic", Name: want, Known: topics})
		}
		topics = []string{want}
	}
	r := &result{}
	if !c.old && !c.on("system") && c.str("topic") == "" {
		topics = c.visible(ctx, topics)
	}
	asks := make([]admin.Target, 0, len(topics))
	for _, t := range topics {
		if !strings.HasPrefix(t, "%RETRY%") && !strings.HasPrefix(t, "%DLQ%") {
			asks = append(asks, admin.Target{Broker: t})
		}
	}
	for _, res := range admin.Each(ctx, a, 0, asks, func(ctx context.Context, t admin.Target) ([]trafficItem, error) {
		return c.trafficOf(ctx, t.Broker)
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
func (c *call) trafficOf(ctx context.Context, topic string) ([]trafficItem, error) {
	route, err := c.client.Route(ctx, topic)
	if err != nil {
		return nil, err
	}
	targets := route.Targets(true)
	base := trafficItem{Topic: topic}
	groups := map[string]*trafficItem{}
	for _, t := range targets {
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
	*day += s.Day.Sum
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
