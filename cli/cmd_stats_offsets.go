package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// pullSplit is where pulls were sent in a window.
type pullSplit struct {
	WindowMillis int64 `json:"windowMillis"`
	ToMaster     int64 `json:"toMaster"`
	ToSlave      int64 `json:"toSlave"`
}

// percent is "31 % / 69 %", and nothing when there were no pulls.
func (s pullSplit) percent(terminal bool) string {
	all := s.ToMaster + s.ToSlave
	if all <= 0 {
		return ""
	}
	slave := (s.ToSlave*100 + all/2) / all
	if terminal {
		return fmt.Sprintf("%d %% / %d %%", 100-slave, slave)
	}
	return fmt.Sprintf("%d/%d", 100-slave, slave)
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
	SampledAt        string     `json:"sampledAt"`
}

// offsetsTotals is the widest gap.
type offsetsTotals struct {
	WidestGapBytes  *int64  `json:"widestGapBytes"`
	WidestGapBroker *string `json:"widestGapBroker"`
}

func statsOffsetsCommand() *command {
	return &command{
		path: "stats offsets", summary: "commit log of every replica side by side", run: runStatsOffsets,
		schema: "mqctl.stats.offsets/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl stats offsets", "mqctl stats offsets --broker broker-a --watch=1s", "mqctl stats offsets -o json | jq '.items[].gapBytes'"},
		attrs:    watches,
		view: view{
			item: offsetsItem{}, foot: footOffsets, name: func(item any) string {
				it := item.(*offsetsItem)
				return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
			},
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role", fold: 1},
				{head: "MIN", field: "minOffset", as: asNumber}, {head: "FLUSHED", field: "flushedOffset", as: asNumber, fold: 5},
				{head: "MAX", field: "maxOffset", as: asNumber}, {head: "CONFIRMED", field: "confirmedOffset", as: asNumber, fold: 4},
				{head: "GAP", field: "gapBytes", as: asBytes}, {head: "GAP TIME", field: "gapMillis", as: asMillis, fold: 2},
				{head: "PULL M/S", field: "pull", as: asSplit, fold: 3},
				{head: "ADDR", field: "addr", wide: true}, {head: "DISPATCHED", field: "dispatchedOffset", as: asNumber, wide: true},
				{head: "IN SYNC", field: "inSync", wide: true}, {head: "GAP SOURCE", field: "gapSource", wide: true},
			},
		},
	}
}

func runStatsOffsets(ctx context.Context, c *call) (*result, error) {
	return c.watch(ctx, c.offsetsOnce, nil)
}

func (c *call) offsetsOnce(ctx context.Context) (*result, error) {
	targets, err := c.offsetTargets(ctx, c.selector(false))
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	at := stamp(time.Now())
	for _, g := range groupsOf(c.haReplicas(ctx, targets)) {
		c.offsetsOfGroup(ctx, r, g, at)
	}
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

// offsetsOfGroup adds the replicas of one broker name, the master first.
func (c *call) offsetsOfGroup(ctx context.Context, r *result, g *haGroup, at string) {
	all := g.slaves
	if g.master != nil {
		all = append([]*admin.Result[haReplica]{g.master}, all...)
	}
	links := map[int64]haConnection{}
	if g.answers() {
		for _, k := range c.connections(ctx, g) {
			if k.BrokerID != nil {
				links[*k.BrokerID] = k
			}
		}
		if len(g.slaves) > 0 && g.master.Value.blind() {
			r.warn(warning("HA_STATUS_MISSING", g.master.Target.String(),
				"%s does not answer request 907; the gap is computed from commit log offsets", g.master.Target))
		}
	}
	for _, res := range all {
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
		it.SampledAt = at
		if k, ok := links[res.Target.ID]; ok && it.Role == "SLAVE" {
			it.GapBytes, it.GapMillis, it.InSync, it.GapSource = k.GapBytes, k.GapMillis, k.InSync, k.GapSource
		}
		r.done++
		r.add(it)
	}
}

func offsetsOf(res *admin.Result[haReplica]) (*offsetsItem, bool) {
	rt := res.Value.runtime
	lo, hi := rt.whole("commitLogMinOffset"), rt.whole("commitLogMaxOffset")
	if lo == nil || hi == nil {
		return nil, false
	}
	it := &offsetsItem{
		Broker: nameOf(res.Target), BrokerID: max(0, res.Target.ID), Role: res.Value.role(res.Target.ID), Addr: res.Target.Addr,
		MinOffset: max(0, *lo), MaxOffset: max(0, *hi), GapSource: "NONE",
		FlushedOffset: rt.whole("mqctlFlushedOffset"), ConfirmedOffset: rt.whole("mqctlConfirmedOffset"), DispatchedOffset: rt.whole("mqctlDispatchedOffset"),
	}
	if o := res.Value.offsets; o != nil && o.Max > 0 {
		// One look at all positions, where 28 only tells what it always told.
		it.MinOffset, it.MaxOffset = max(0, o.Min), max(0, o.Max)
		it.FlushedOffset, it.ConfirmedOffset, it.DispatchedOffset = &o.Flushed, &o.Confirmed, &o.Dispatched
		if o.PullMillis > 0 {
			it.Pull = &pullSplit{WindowMillis: o.PullMillis, ToMaster: o.PullToMaster, ToSlave: o.PullToSlave}
		}
	}
	if behind := rt.whole("dispatchBehindBytes"); it.DispatchedOffset == nil && behind != nil && *behind >= 0 {
		it.DispatchedOffset = ptr(max(0, it.MaxOffset-*behind))
	}
	if it.FlushedOffset != nil {
		it.UnflushedBytes = ptr(max(0, it.MaxOffset-*it.FlushedOffset))
	}
	if it.Role == "SLAVE" {
		it.ConfirmedOffset = nil // what replicas confirm is the master's to know
	}
	return it, true
}

func footOffsets(p *printer, r *result) {
	var parts []string
	if t, ok := r.extra.(offsetsTotals); ok && t.WidestGapBytes != nil {
		parts = append(parts, "widest gap "+p.style.cell(*t.WidestGapBytes, asBytes)+" ("+*t.WidestGapBroker+")")
	}
	var kept []string
	for _, item := range r.items {
		it := item.(*offsetsItem)
		if it.Role != "SLAVE" {
			kept = append(kept, p.style.cell(it.MaxOffset-it.MinOffset, asBytes))
		}
		if it.UnflushedBytes != nil && *it.UnflushedBytes > 0 {
			parts = append(parts, fmt.Sprintf("not flushed %s (%s/%d)", p.style.cell(*it.UnflushedBytes, asBytes), it.Broker, it.BrokerID))
		}
	}
	if len(kept) > 0 {
		parts = append(parts, "retained "+strings.Join(kept, " and "))
	}
	if len(parts) > 0 {
		p.printf("\n%s\n", strings.Join(parts, "   "))
	}
}
