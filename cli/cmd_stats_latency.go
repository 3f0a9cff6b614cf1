package cli

import (
	"context"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// latencyItem is how long one kind of operation takes at a broker.
type latencyItem struct {
	Broker     string   `json:"broker"`
	BrokerID   int64    `json:"brokerId"`
	Op         string   `json:"op"` // put, pull
	Count      *int64   `json:"count"`
	P50Millis  *float64 `json:"p50Millis"`
	P90Millis  *float64 `json:"p90Millis"`
	P99Millis  *float64 `json:"p99Millis"`
	P999Millis *float64 `json:"p999Millis"`
	MaxMillis  *float64 `json:"maxMillis"`
	Source     string   `json:"source" enum:"HISTOGRAM|RUNTIME"`
}

func latencyCommand() *command {
	return &command{
		path: "stats latency", summary: "put and pull percentiles", run: runLatency, schema: "mqctl.stats.latency/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl stats latency", "mqctl stats latency --broker broker-a --watch=1s"},
		view: view{
			item: latencyItem{}, name: func(item any) string { return nameID(item.(*latencyItem).Broker, item.(*latencyItem).BrokerID) },
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "OP", field: "op"}, {head: "COUNT", field: "count", as: asNumber},
				{head: "P50 MS", field: "p50Millis"}, {head: "P90 MS", field: "p90Millis", fold: 1}, {head: "P99 MS", field: "p99Millis"},
				{head: "P99.9 MS", field: "p999Millis"}, {head: "MAX MS", field: "maxMillis"}, {head: "SOURCE", field: "source", fold: 2},
			},
		},
	}
}

// latencies are of ours histograms since its start; of others, what their runtime
// table has: the times of puts.
type latencies struct {
	own     *body.InspectLatency
	runtime runtimeView
}

func runLatency(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	r := &result{cluster: clusterOf(targets)}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (latencies, error) {
		rt, err := c.client.RuntimeInfo(ctx, t.Addr)
		if err != nil || !admin.Offers(rt, "MQCTL_INSPECT") {
			return latencies{runtime: rt}, err
		}
		own, err := c.client.InspectLatency(ctx, t.Addr)
		return latencies{own, rt}, err
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		name, id := nameOf(res.Target), max(0, res.Target.ID)
		if res.Value.own == nil {
			rt := res.Value.runtime
			r.add(&latencyItem{Broker: name, BrokerID: id, Op: "put", Count: rt.whole("putMessageTimesTotal"), P99Millis: rt.number("putLatency99"), P999Millis: rt.number("putLatency999"),
				MaxMillis: rt.number("putMessageEntireTimeMax"), Source: "RUNTIME"})
			continue
		}
		for _, l := range res.Value.own.Operations {
			it := &latencyItem{Broker: name, BrokerID: id, Op: l.Op, Count: ptr(l.Count), Source: "HISTOGRAM"}
			if l.Count > 0 {
				it.P50Millis, it.P90Millis, it.P99Millis, it.P999Millis, it.MaxMillis = &l.P50Millis, &l.P90Millis, &l.P99Millis, &l.P999Millis, &l.MaxMillis
			}
			r.add(it)
		}
	}
	return r, nil
}
