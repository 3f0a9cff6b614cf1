package cli

import (
	"context"
	"math"
	"sort"
	"time"
)

// brokerLagTotals sums brokerConsumeStats up, as the broker does it.
type brokerLagTotals struct {
	Lag      int64 `json:"lag"`
	Inflight int64 `json:"inflight"`
}

// consumeStatsCommand is mqadmin's backlog of everything on one broker.
func consumeStatsCommand() *command {
	v := lagView()
	v.old, v.head = oldConsumeStats, nil
	v.columns = append([]column{{head: "GROUP", field: "group"}}, v.columns...)
	return &command{
		old: "brokerConsumeStats", twin: "stats lag --broker B --min N", summary: "backlog of everything on one broker", run: runConsumeStats, schema: "mqctl.group.lag/v1", view: v,
		examples: []string{"mqctl brokerConsumeStats -n 127.0.0.1:9876 -b 127.0.0.1:10911 -l 1000"},
		flags: []flagSpec{
			{key: "broker", long: "brokerAddr", short: "b", required: true, meta: "ADDR", complete: "broker", help: "the broker: NAME, NAME/ID or HOST:PORT"},
			{key: "timeout-millis", long: "timeoutMillis", short: "t", kind: kindInt, min: 1, max: math.MaxInt32, oldOnly: true, def: "50000", meta: "MILLIS", help: "how long to wait for the answer"},
			{key: "level", long: "level", short: "l", kind: kindInt, max: math.MaxInt64, oldOnly: true, def: "0", meta: "N", help: "only queues with at least this backlog"},
			{key: "order", long: "order", short: "o", kind: kindBool, oldOnly: true, help: "only ordered topics"},
		},
	}
}

func runConsumeStats(ctx context.Context, c *call) (*result, error) {
	if !c.given("timeout") {
		c.values["timeout"] = []string{(time.Duration(c.whole("timeout-millis")) * time.Millisecond).String()}
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	t := c.identify(ctx, targets)[0]
	stats, err := c.client.BrokerConsumeStats(ctx, t.Addr, c.on("order"))
	if err != nil {
		return nil, c.at(err, t)
	}
	r := &result{cluster: t.Cluster, done: 1, empty: "no group has consumed here"}
	for _, one := range stats.Groups {
		for group, list := range one {
			for _, s := range list {
				for q, p := range s.Queues {
					if p.Lag() >= c.whole("level") {
						it := lagOf(group, q, p, c.begun)
						it.Source = sourceOf(t)
						r.add(it)
					}
				}
			}
		}
	}
	sortLag(r.items)
	sort.SliceStable(r.items, func(i, j int) bool { return r.items[i].(lagItem).Group < r.items[j].(lagItem).Group })
	r.totals = brokerLagTotals{stats.TotalLag, stats.TotalInflight}
	return r, nil
}

// oldConsumeStats is mqadmin's layout, which leaves out queues that nothing was
// consumed of yet.
func oldConsumeStats(p *printer, r *result) {
	p.printf("%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s\n", "#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
	for _, item := range r.items {
		it := item.(lagItem)
		if it.lastMillis > 0 {
			p.printf("%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s\n", it.Topic, it.Group, it.Broker, it.QueueID, it.BrokerOffset, it.ConsumerOffset, it.Lag,
				time.UnixMilli(it.lastMillis).Format("2006-01-02 15:04:05"))
		}
	}
	if t, ok := r.totals.(brokerLagTotals); ok {
		p.printf("\nDiff Total: %d\n", t.Lag)
	}
}
