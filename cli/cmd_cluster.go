package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"mqctl/cli/admin"
)

// dayTotals are counts of messages.
type dayTotals struct {
	PutToday     *int64 `json:"putToday"`
	GetToday     *int64 `json:"getToday"`
	PutYesterday *int64 `json:"putYesterday"`
	GetYesterday *int64 `json:"getYesterday"`
}

// clusterItem is one replica with its load.
type clusterItem struct {
	Cluster             string    `json:"cluster"`
	Broker              string    `json:"broker"`
	BrokerID            int64     `json:"brokerId" min:"0"`
	Role                string    `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	State               string    `json:"state" enum:"OK|DISK_HIGH|UNREACHABLE"`
	Addr                string    `json:"addr"`
	Version             *string   `json:"version"`
	PutPerSecond        *float64  `json:"putPerSecond"`
	GetPerSecond        *float64  `json:"getPerSecond"`
	GapBytes            *int64    `json:"gapBytes"` // newest byte of the master minus newest byte of this slave
	DiskUsedPercent     *float64  `json:"diskUsedPercent"`
	EarliestMessageAt   *string   `json:"earliestMessageAt"`
	SendQueueSize       *int64    `json:"sendQueueSize"`
	SendQueueWaitMillis *int64    `json:"sendQueueWaitMillis"`
	PullQueueSize       *int64    `json:"pullQueueSize"`
	PullQueueWaitMillis *int64    `json:"pullQueueWaitMillis"`
	PageCacheLockMillis *int64    `json:"pageCacheLockMillis"`
	Active              *bool     `json:"active"`
	Totals              dayTotals `json:"totals"`

	runtime runtimeView
	reason  string
}

// diskHighPercent is where Apache's brokers begin to remove old files early.
const diskHighPercent = 75

func clusterCommands() []*command {
	return []*command{{
		path: "cluster list", old: "clusterList", summary: "all brokers with their load", run: runClusterList,
		schema: "mqctl.cluster.list/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl cluster list", "mqctl cluster list --output wide", "mqctl clusterList -n 127.0.0.1:9876 | awk '$3 == 0 {print $4}'"},
		flags: []flagSpec{
			{key: "cluster", long: "clusterName", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
			{key: "more", long: "moreStats", short: "m", kind: kindBool, bareOld: true, help: "daily totals"},
			{key: "interval", long: "interval", short: "i", oldOnly: true, kind: kindInt, min: 1, max: 86400, meta: "SECONDS", help: "repeat until interrupted"},
		},
		view: view{
			item: clusterItem{}, name: func(item any) string {
				it := item.(*clusterItem)
				return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
			},
			old: oldClusterList, foot: footClusterList,
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role"},
				{head: "ADDR", field: "addr"}, {head: "VERSION", field: "version", fold: 2},
				{head: "IN/s", field: "putPerSecond", as: asRate}, {head: "OUT/s", field: "getPerSecond", as: asRate},
				{head: "GAP", field: "gapBytes", as: asBytes}, {head: "DISK", field: "diskUsedPercent", as: asPercent, fold: 3},
				{head: "OLDEST", field: "earliestMessageAt", as: asTime, fold: 4}, {head: "STATE", field: "state"},
				{head: "SEND Q", field: "sendQueueSize", as: asNumber, wide: true}, {head: "SEND WAIT", field: "sendQueueWaitMillis", as: asMillis, wide: true},
				{head: "PULL Q", field: "pullQueueSize", as: asNumber, wide: true}, {head: "PULL WAIT", field: "pullQueueWaitMillis", as: asMillis, wide: true},
				{head: "PUT TODAY", field: "totals.putToday", as: asNumber, wide: true}, {head: "GET TODAY", field: "totals.getToday", as: asNumber, wide: true},
				{head: "CLUSTER", field: "cluster", wide: true},
			},
		},
	}}
}

func runClusterList(ctx context.Context, c *call) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	view, err := a.Cluster(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	targets, err := everyReplica(view, c.selector(false))
	if err != nil {
		return nil, c.explain(err)
	}
	r := &result{cluster: clusterOf(targets)}
	newest := map[string]int64{}
	for _, res := range c.replicas(ctx, targets, c.p.format != "mqadmin") {
		it := clusterOfReplica(res)
		if res.Err != nil {
			m := c.at(res.Err, res.Target)
			it.reason = m.Text
			r.failed(m)
		} else {
			r.done++
			if end := it.runtime.whole("commitLogMaxOffset"); end != nil && it.BrokerID == 0 {
				newest[it.Broker] = *end
			}
		}
		r.add(it)
	}
	for _, item := range r.items {
		it := item.(*clusterItem)
		end, ok := newest[it.Broker]
		if mine := it.runtime.whole("commitLogMaxOffset"); ok && mine != nil && it.BrokerID > 0 {
			it.GapBytes = ptr(max(0, end-*mine))
		}
	}
	r.extra = c.on("more")
	return r, nil
}

// everyReplica is the selector's targets; without one, all clusters.
func everyReplica(view *admin.Cluster, s admin.Selector) ([]admin.Target, error) {
	if s.Cluster != "" || s.Broker != "" {
		return view.Targets(s)
	}
	var out []admin.Target
	for _, name := range view.Names() {
		t, err := view.Targets(admin.Selector{Cluster: name})
		if err != nil && len(view.BrokerNames(name)) > 0 {
			return nil, err
		}
		out = append(out, t...)
	}
	if len(out) == 0 {
		return nil, &admin.NotFound{Kind: "broker", Where: view.Nameserver}
	}
	return out, nil
}

func clusterOfReplica(res admin.Result[replica]) *clusterItem {
	rt := res.Value.runtime
	it := &clusterItem{
		Cluster: res.Target.Cluster, Broker: res.Target.Broker, BrokerID: max(0, res.Target.ID), Addr: res.Target.Addr,
		Role: res.Value.role(res.Target.ID), State: "OK", runtime: rt,
	}
	if res.Err != nil {
		it.State = "UNREACHABLE"
		it.runtime = nil
		return it
	}
	it.Version = rt.version()
	it.PutPerSecond, it.GetPerSecond = rt.rate("putTps"), rt.rate("getTransferredTps")
	it.DiskUsedPercent = rt.percent("commitLogDiskRatio")
	if it.DiskUsedPercent != nil && *it.DiskUsedPercent > diskHighPercent {
		it.State = "DISK_HIGH"
	}
	if ms := rt.whole("earliestMessageTimeStamp"); ms != nil {
		it.EarliestMessageAt = stampMillis(*ms)
	}
	it.SendQueueSize, it.SendQueueWaitMillis = rt.whole("sendThreadPoolQueueSize"), rt.whole("sendThreadPoolQueueHeadWaitTimeMills")
	it.PullQueueSize, it.PullQueueWaitMillis = rt.whole("pullThreadPoolQueueSize"), rt.whole("pullThreadPoolQueueHeadWaitTimeMills")
	it.PageCacheLockMillis, it.Active = rt.whole("pageCacheLockTimeMills"), rt.boolean("brokerActive")
	it.Totals = dayTotals{
		PutToday: rt.since("msgPutTotalTodayNow", "msgPutTotalTodayMorning"), GetToday: rt.since("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
		PutYesterday: rt.since("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"), GetYesterday: rt.since("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
	}
	return it
}

func footClusterList(p *printer, r *result) {
	masters, slaves, silent := 0, 0, 0
	for _, item := range r.items {
		it := item.(*clusterItem)
		if it.BrokerID == 0 {
			masters++
		} else {
			slaves++
		}
		if it.State == "UNREACHABLE" {
			silent++
		}
	}
	text := count(masters, "master") + ", " + count(slaves, "slave")
	if silent > 0 {
		text += fmt.Sprintf(", %d unreachable", silent)
	}
	if r.cluster != "" {
		text = r.cluster + "  " + text
	}
	p.printf("%s\n", p.style.dim(text))
}

// oldClusterList is mqadmin's layout of clusterList, with and without -m.
func oldClusterList(p *printer, r *result) {
	if more, _ := r.extra.(bool); more {
		p.printf("%-16s  %-32s %14s %14s %14s %14s\n", "#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
		for _, item := range r.items {
			it := item.(*clusterItem)
			n := func(v *int64) int64 {
				if v == nil {
					return 0
				}
				return *v
			}
			p.printf("%-16s  %-32s %14d %14d %14d %14d\n", it.Cluster, it.Broker,
				n(it.Totals.PutYesterday), n(it.Totals.GetYesterday), n(it.Totals.PutToday), n(it.Totals.GetToday))
		}
		return
	}
	p.printf("%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s\n", "#Cluster Name", "#Broker Name", "#BID", "#Addr",
		"#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED")
	for _, item := range r.items {
		it := item.(*clusterItem)
		p.printf("%-22s  %-22s  %-4d  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s\n", it.Cluster, it.Broker, it.BrokerID, it.Addr,
			it.runtime["brokerVersionDesc"], oldIn(it), oldOut(it), oldTimer(it.runtime), it.runtime["pageCacheLockTimeMills"],
			oldHours(it.runtime, p.now), oldSpace(it.runtime), strconv.FormatBool(it.Active != nil && *it.Active))
	}
}

func oldIn(it *clusterItem) string {
	tps := 0.0
	if it.PutPerSecond != nil {
		tps = *it.PutPerSecond
	}
	return fmt.Sprintf("%9.2f(%s,%sms)", tps, it.runtime["sendThreadPoolQueueSize"], it.runtime["sendThreadPoolQueueHeadWaitTimeMills"])
}

func oldOut(it *clusterItem) string {
	tps := 0.0
	if it.GetPerSecond != nil {
		tps = *it.GetPerSecond
	}
	rt := it.runtime
	ack, wait := "N", "N"
	if v, ok := rt["ackThreadPoolQueueSize"]; ok {
		ack = v
	}
	if v, ok := rt["ackThreadPoolQueueHeadWaitTimeMills"]; ok {
		wait = v
	}
	return fmt.Sprintf("%9.2f(%s,%sms|%s,%sms)", tps, rt["pullThreadPoolQueueSize"], rt["pullThreadPoolQueueHeadWaitTimeMills"], ack, wait)
}

// oldTimer is the progress of timer messages: zeros where there are none.
func oldTimer(rt runtimeView) string {
	n := func(key string) int64 {
		if v := rt.whole(key); v != nil {
			return *v
		}
		return 0
	}
	f := func(key string) float64 {
		if v := rt.number(key); v != nil {
			return *v
		}
		return 0
	}
	return fmt.Sprintf("%d-%d(%.1fw, %.1f, %.1f)", n("timerReadBehind"), n("timerOffsetBehind"), float64(n("timerCongestNum"))/10000, f("timerEnqueueTps"), f("timerDequeueTps"))
}

func oldHours(rt runtimeView, now time.Time) string {
	if ms := rt.whole("earliestMessageTimeStamp"); ms != nil && *ms > 0 {
		return fmt.Sprintf("%2.2f", hoursSince(*ms, now))
	}
	return "0.00"
}

func oldSpace(rt runtimeView) string {
	if v := rt.number("commitLogDiskRatio"); v != nil {
		return fmt.Sprintf("%.4f", *v)
	}
	return "0.0000"
}
