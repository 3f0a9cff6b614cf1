package cli

import (
	"context"
	"fmt"
	"math"
)

func haCommands() []*command {
	return []*command{haStatusCommand(), flushOffsetCommand()}
}

// flushOffsetItem is what became of a slave's view of its master.
type flushOffsetItem struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId" min:"0"`
	Before   *int64 `json:"before"`
	After    int64  `json:"after" min:"0"`
	Applied  bool   `json:"applied"`
}

func flushOffsetCommand() *command {
	return &command{
		path: "ha reset-flush-offset", old: "resetMasterFlushOffset", summary: "correct a slave's view of how far its master has flushed",
		run: runFlushOffset, schema: "mqctl.ha.reset-flush-offset/v1", attrs: mutates | destructive, exits: []int{ExitNotFound, ExitAborted},
		examples: []string{
			"mqctl ha reset-flush-offset --broker broker-a/1 --offset 0 --yes", "mqctl ha reset-flush-offset --broker broker-a/1 --offset 0 --dry-run",
			"mqctl resetMasterFlushOffset -b 127.0.0.1:10921 -o 0",
		},
		flags: []flagSpec{
			{key: "broker", long: "brokerAddr", short: "b", meta: "NAME/ID|HOST:PORT", complete: "broker", help: "the slave"},
			{key: "offset", long: "offset", short: "o", kind: kindInt, max: math.MaxInt64, meta: "N", help: "the new flushed offset of the master"},
		},
		view: view{
			item: flushOffsetItem{}, name: func(item any) string { return nameID(item.(*flushOffsetItem).Broker, item.(*flushOffsetItem).BrokerID) },
			old: func(p *printer, r *result) {
				for _, item := range r.items {
					p.printf("reset master flush offset to %d success\n", item.(*flushOffsetItem).After)
				}
			},
			columns: []column{{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "BEFORE", field: "before", as: asNumber},
				{head: "AFTER", field: "after", as: asNumber}, {head: "APPLIED", field: "applied"}},
		},
	}
}

// nameID is NAME/ID, the form that --broker takes.
func nameID(broker string, id int64) string { return fmt.Sprintf("%s/%d", broker, id) }

func runFlushOffset(ctx context.Context, c *call) (*result, error) {
	for _, key := range []string{"broker", "offset"} {
		if !c.given(key) {
			return nil, usage("VALUE_MISSING", "%s needs %s", c.cmd.name(c.old), c.hint(key)).because("nothing was sent").try("mqctl "+c.cmd.name(false)+" --help").lacks(c.cmd, c.old, c.flag(key), c.values)
		}
	}
	targets, err := c.offsetTargets(ctx, c.selector(false))
	if err != nil {
		return nil, err
	}
	if len(targets) != 1 {
		return nil, usage("TARGET_MISSING", "%s has %d replicas: name one slave", c.str("broker"), len(targets)).because("nothing was sent").try("--broker " + c.str("broker") + "/1")
	}
	t := targets[0]
	it := &flushOffsetItem{Broker: nameOf(t), BrokerID: max(0, t.ID), After: c.whole("offset")}
	r := &result{cluster: t.Cluster, items: []any{it}, change: &change{DryRun: c.dryRun()}}
	now, err := c.client.HAStatus(ctx, t.Addr)
	if err != nil {
		return nil, c.at(err, t)
	}
	if now.Master {
		return nil, fail(ExitDenied, "NOT_A_SLAVE", "%s is a master: it has no view of another one", t).because("nothing was changed")
	}
	it.Before = &now.Client.MasterFlushOffset
	if c.dryRun() {
		return r, nil
	}
	if err := c.confirm(fmt.Sprintf("setting the master's flushed offset at %s to %d", t, it.After),
		fmt.Sprintf("it is %d now, and the slave trusts it when it decides what of its log may be cut", *it.Before)); err != nil {
		return nil, err
	}
	ctx, done := steady(ctx)
	defer done()
	if err := c.client.ResetMasterFlushOffset(ctx, t.Addr, it.After); err != nil {
		return nil, c.at(err, t)
	}
	it.Applied, r.change.Applied = true, true
	return r, nil
}
