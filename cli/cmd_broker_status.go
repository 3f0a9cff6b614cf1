package cli

import (
	"context"
	"strconv"

	"mqctl/cli/admin"
)

// commitLogRange is the log of one replica in bytes.
type commitLogRange struct {
	MinOffset           *int64 `json:"minOffset"`
	MaxOffset           *int64 `json:"maxOffset"`
	FlushedOffset       *int64 `json:"flushedOffset"`
	ConfirmedOffset     *int64 `json:"confirmedOffset"`
	DispatchBehindBytes *int64 `json:"dispatchBehindBytes"`
}

// brokerStatusItem is the runtime of one replica.
type brokerStatusItem struct {
	Broker              string            `json:"broker"`
	Cluster             string            `json:"cluster"`
	BrokerID            int64             `json:"brokerId" min:"0"`
	Role                string            `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	State               string            `json:"state" enum:"OK|DISK_HIGH|UNREACHABLE"`
	Addr                string            `json:"addr"`
	Version             *string           `json:"version"`
	StartedAt           *string           `json:"startedAt"`
	Permission          *int64            `json:"permission"`
	CommitLog           commitLogRange    `json:"commitLog"`
	DiskUsedPercent     *float64          `json:"diskUsedPercent"`
	DiskFreeBytes       *int64            `json:"diskFreeBytes"`
	PutPerSecond        *float64          `json:"putPerSecond"`
	GetPerSecond        *float64          `json:"getPerSecond"`
	PutP99Millis        *float64          `json:"putP99Millis"`
	SendQueueWaitMillis *int64            `json:"sendQueueWaitMillis"`
	PullQueueWaitMillis *int64            `json:"pullQueueWaitMillis"`
	SlaveReadEnable     *bool             `json:"slaveReadEnable"`
	EarliestMessageAt   *string           `json:"earliestMessageAt"`
	Runtime             map[string]string `json:"runtime"`
}

func brokerStatusCommand() *command {
	return &command{
		path: "broker status", old: "brokerStatus", summary: "runtime of a broker", args: "[BROKER]", max: 1, argFrom: "broker",
		run: runBrokerStatus, schema: "mqctl.broker.status/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl broker status broker-a", "mqctl broker status broker-a/1 --raw", "mqctl brokerStatus -n 127.0.0.1:9876 -b 127.0.0.1:10911"},
		flags:    append(oneTarget(), flagSpec{key: "raw", kind: kindBool, newOnly: true, help: "every key the broker tells"}),
		view: view{
			item: brokerStatusItem{}, people: printBrokerStatus, old: oldBrokerStatus,
			name: func(item any) string {
				it := item.(*brokerStatusItem)
				return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
			},
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role"},
				{head: "STATE", field: "state"}, {head: "ADDR", field: "addr"}, {head: "MIN", field: "commitLog.minOffset", as: asNumber},
				{head: "MAX", field: "commitLog.maxOffset", as: asNumber}, {head: "IN/s", field: "putPerSecond", as: asRate},
				{head: "OUT/s", field: "getPerSecond", as: asRate}, {head: "DISK", field: "diskUsedPercent", as: asPercent},
				{head: "VERSION", field: "version", wide: true}, {head: "STARTED", field: "startedAt", as: asTime, wide: true}, {head: "PERM", field: "permission", as: asPerm, wide: true},
				{head: "FLUSHED", field: "commitLog.flushedOffset", as: asNumber, wide: true}, {head: "CONFIRMED", field: "commitLog.confirmedOffset", as: asNumber, wide: true},
				{head: "UNDISPATCHED", field: "commitLog.dispatchBehindBytes", as: asBytes, wide: true}, {head: "FREE", field: "diskFreeBytes", as: asBytes, wide: true},
				{head: "PUT P99 MS", field: "putP99Millis", wide: true}, {head: "SEND WAIT", field: "sendQueueWaitMillis", as: asMillis, wide: true},
				{head: "PULL WAIT", field: "pullQueueWaitMillis", as: asMillis, wide: true}, {head: "SLAVE READS", field: "slaveReadEnable", wide: true},
				{head: "OLDEST", field: "earliestMessageAt", as: asTime, wide: true},
			},
		},
	}
}

func runBrokerStatus(ctx context.Context, c *call) (*result, error) {
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	s := c.selector(false)
	if c.arg(0) != "" {
		s.Broker = c.arg(0)
	}
	targets, err := c.pick(ctx, s)
	if err != nil {
		return nil, err
	}
	if !c.old {
		targets = c.identify(ctx, targets)
	}
	r := &result{cluster: clusterOf(targets), extra: c.on("raw") || c.old && c.str("cluster") != ""}
	for _, res := range c.replicas(ctx, targets, c.p.format != "mqadmin") {
		it := statusOfReplica(res)
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			if len(targets) == 1 {
				return r, nil
			}
		} else {
			r.done++
		}
		r.add(it)
	}
	return r, nil
}

// pick resolves any selector.
func (c *call) pick(ctx context.Context, s admin.Selector) ([]admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	t, err := a.Targets(ctx, s)
	if err != nil {
		return nil, c.explain(err)
	}
	return t, nil
}

func statusOfReplica(res admin.Result[replica]) *brokerStatusItem {
	rt, cfg := res.Value.runtime, runtimeView(res.Value.config)
	it := &brokerStatusItem{
		Broker: res.Target.Broker, Cluster: res.Target.Cluster, BrokerID: max(0, res.Target.ID), Addr: res.Target.Addr,
		Role: res.Value.role(res.Target.ID), State: "OK", Runtime: rt,
	}
	if it.Broker == "" {
		it.Broker = res.Target.Addr
	}
	if res.Err != nil {
		it.State, it.Runtime = "UNREACHABLE", map[string]string{}
		return it
	}
	it.Version, it.StartedAt, it.Permission = rt.version(), bootTime(rt), cfg.whole("brokerPermission")
	it.CommitLog = commitLogRange{
		MinOffset: rt.whole("commitLogMinOffset"), MaxOffset: rt.whole("commitLogMaxOffset"),
		FlushedOffset: rt.whole("mqctlFlushedOffset"), ConfirmedOffset: rt.whole("mqctlConfirmedOffset"),
		DispatchBehindBytes: rt.whole("dispatchBehindBytes"),
	}
	it.DiskUsedPercent, it.DiskFreeBytes = rt.percent("commitLogDiskRatio"), rt.freeBytes()
	if it.DiskUsedPercent != nil && *it.DiskUsedPercent > diskHighPercent {
		it.State = "DISK_HIGH"
	}
	it.PutPerSecond, it.GetPerSecond, it.PutP99Millis = rt.rate("putTps"), rt.rate("getTransferredTps"), rt.number("putLatency99")
	it.SendQueueWaitMillis, it.PullQueueWaitMillis = rt.whole("sendThreadPoolQueueHeadWaitTimeMills"), rt.whole("pullThreadPoolQueueHeadWaitTimeMills")
	it.SlaveReadEnable = cfg.boolean("slaveReadEnable")
	if ms := rt.whole("earliestMessageTimeStamp"); ms != nil {
		it.EarliestMessageAt = stampMillis(*ms)
	}
	return it
}

// statusRows are the lines of the form for people.
var statusRows = []struct {
	label, field string
	as           format
}{
	{"role", "role", asText}, {"addr", "addr", asText}, {"state", "state", asText}, {"version", "version", asText}, {"up", "startedAt", asTime},
	{"permission", "permission", asPerm}, {"commit log, newest", "commitLog.maxOffset", asNumber}, {"commit log, oldest", "commitLog.minOffset", asNumber},
	{"not dispatched", "commitLog.dispatchBehindBytes", asBytes}, {"disk", "diskUsedPercent", asPercent}, {"in, per second", "putPerSecond", asRate},
	{"out, per second", "getPerSecond", asRate}, {"put p99, ms", "putP99Millis", asRate}, {"queue wait send", "sendQueueWaitMillis", asMillis},
	{"queue wait pull", "pullQueueWaitMillis", asMillis}, {"slave reads", "slaveReadEnable", asText}, {"oldest message", "earliestMessageAt", asTime},
}

// printBrokerStatus shows the replicas side by side.
func printBrokerStatus(p *printer, r *result) {
	if len(r.items) == 0 {
		return
	}
	heads := []string{""}
	for _, item := range r.items {
		heads = append(heads, p.view.name(item))
	}
	var rows [][]string
	for _, line := range statusRows {
		row := []string{line.label}
		for _, item := range r.items {
			row = append(row, p.style.cell(lookup(item, line.field), line.as))
		}
		rows = append(rows, row)
	}
	if raw, _ := r.extra.(bool); p.format == "wide" || raw {
		keys := map[string]bool{}
		for _, item := range r.items {
			for k := range item.(*brokerStatusItem).Runtime {
				keys[k] = true
			}
		}
		for _, k := range sortedKeys(keys) {
			row := []string{k}
			for _, item := range r.items {
				row = append(row, item.(*brokerStatusItem).Runtime[k])
			}
			rows = append(rows, row)
		}
	}
	if !p.headers {
		heads = nil
	}
	p.write(grid(heads, rows, nil, p.style.bold))
}

// oldBrokerStatus is mqadmin's layout: key : value lines in key order.
func oldBrokerStatus(p *printer, r *result) {
	prefix, _ := r.extra.(bool) // set for camel-case commands when -c was given
	for _, item := range r.items {
		it := item.(*brokerStatusItem)
		for _, k := range sortedKeys(it.Runtime) {
			if prefix {
				p.printf("%-24s %-32s: %s\n", it.Addr, k, it.Runtime[k])
				continue
			}
			p.printf("%-32s: %s\n", k, it.Runtime[k])
		}
	}
}

// brokerListItem is one replica, registered or running on this machine.
type brokerListItem struct {
	Broker   string  `json:"broker"`
	BrokerID int64   `json:"brokerId" min:"0"`
	Role     string  `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	Addr     string  `json:"addr"`
	State    string  `json:"state" enum:"OK|DISK_HIGH|UNREACHABLE|STOPPED"`
	Pid      *int    `json:"pid"` // of a process on this machine
	StoreDir *string `json:"storeDir"`
}

func brokerListCommand() *command {
	return &command{
		path: "broker list", summary: "replicas, one line each", run: runBrokerList, schema: "mqctl.broker.list/v1",
		exits:    []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl broker list", "mqctl broker list -o name", "mqctl broker list --local"},
		flags:    []flagSpec{{key: "local", kind: kindBool, help: "only brokers whose store is on this machine, by their lock files"}},
		view: view{
			item: brokerListItem{}, name: func(item any) string {
				it := item.(brokerListItem)
				return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
			},
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role"},
				{head: "ADDR", field: "addr"}, {head: "STATE", field: "state"}, {head: "PID", field: "pid"}, {head: "STORE", field: "storeDir", wide: true},
			},
		},
	}
}

func runBrokerList(ctx context.Context, c *call) (*result, error) {
	r := &result{}
	if c.on("local") {
		r.empty = "no broker of this user runs here"
		for _, l := range localBrokers(c) {
			r.add(l.item())
		}
		return r, nil
	}
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
	r.cluster = clusterOf(targets)
	here := map[string]localBroker{}
	for _, l := range localBrokers(c) {
		here[l.Addr] = l
	}
	for _, res := range c.replicas(ctx, targets, true) {
		it := statusOfReplica(res)
		line := brokerListItem{Broker: it.Broker, BrokerID: it.BrokerID, Role: it.Role, Addr: it.Addr, State: it.State}
		if l, ok := here[it.Addr]; ok && l.Broker == it.Broker {
			line.Pid, line.StoreDir = ptr(l.Pid), ptr(l.StoreDir)
		}
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
		} else {
			r.done++
		}
		r.add(line)
	}
	return r, nil
}
