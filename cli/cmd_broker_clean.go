package cli

import (
	"context"
	"fmt"
	"strings"

	"mqctl/cli/admin"

	"github.com/dustin/go-humanize"
)

// cleanItem is what one broker removed or would remove. Brokers of Apache do not
// say: then Files and Bytes are null.
type cleanItem struct {
	Broker   string   `json:"broker"`
	BrokerID int64    `json:"brokerId" min:"0"`
	What     string   `json:"what" enum:"COMMITLOG|CQ|TOPICS"`
	Files    *int64   `json:"files"`
	Bytes    *int64   `json:"bytes"`  // by the sizes of the files
	Left     *int64   `json:"left"`   // files that the broker deletes later, by itself
	Topics   []string `json:"topics"` // whose queues go; with what TOPICS
	Applied  bool     `json:"applied"`

	target admin.Target
	ours   bool // it can say
}

func cleanView() view {
	return view{
		item: cleanItem{}, name: func(item any) string { return nameID(item.(*cleanItem).Broker, item.(*cleanItem).BrokerID) },
		old: oldClean,
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "FILES", field: "files", as: asNumber},
			{head: "BYTES", field: "bytes", as: asBytes}, {head: "LEFT", field: "left", as: asNumber}, {head: "TOPICS", field: "topics", as: asList},
			{head: "APPLIED", field: "applied"},
		},
	}
}

// oldClean prints what mqadmin does: success if all brokers took it, else false.
func oldClean(p *printer, r *result) {
	word := "success"
	if len(r.errors) > 0 {
		word = "false"
	}
	p.printf("%s", word) // mqadmin ends the line no more than that
}

func cleanCommands() []*command {
	target := func() []flagSpec {
		return []flagSpec{
			{key: "broker", long: "brokerAddr", short: "b", meta: "ADDR", complete: "broker", help: "this broker only: NAME, NAME/ID or HOST:PORT"},
			{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all brokers of this cluster"},
		}
	}
	one := func(what, old, summary string) *command {
		return &command{
			path: "broker clean " + what, old: old, summary: summary, attrs: mutates | destructive, schema: "mqctl.broker.clean/v1",
			exits: []int{ExitNotFound, ExitPartial, ExitDenied}, flags: target(), view: cleanView(),
			run: func(ctx context.Context, c *call) (*result, error) { return runClean(ctx, c, what) },
			examples: []string{
				"mqctl broker clean " + what + " --dry-run", "mqctl broker clean " + what + " --broker broker-a --yes", "mqctl " + old + " -n 127.0.0.1:9876 -b 10.0.0.4:10911",
			},
		}
	}
	return []*command{
		one(admin.CleanCommitLog, "deleteExpiredCommitLog", "delete the commit log files that are past their time"),
		one(admin.CleanQueues, "cleanExpiredCQ", "delete the consume queue files that point before the commit log"),
		one(admin.CleanTopics, "cleanUnusedTopic", "delete the consume queues of topics that do not exist"),
	}
}

// runClean looks at every broker first, asks, and then cleans.
func runClean(ctx context.Context, c *call, what string) (*result, error) {
	// A slave has the topics of its master, and deletes with it.
	targets, err := c.targets(ctx, what == admin.CleanTopics)
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	var plans []*cleanItem
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*cleanItem, error) {
		return c.planClean(ctx, t, what)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		plans = append(plans, res.Value)
	}
	if len(plans) == 0 {
		return r, nil
	}
	if err := c.confirm("cleaning ("+what+")", cleanImpact(plans)); err != nil {
		return nil, err
	}
	ctx, done := steady(ctx)
	defer done()
	for _, it := range plans {
		if !c.dryRun() {
			if err := c.clean(ctx, it, what); err != nil {
				r.failed(c.at(err, it.target))
				continue
			}
			r.change.Applied = true
		}
		r.add(it)
		r.done++
	}
	return r, nil
}

// planClean finds out what a broker would remove, if it can say.
func (c *call) planClean(ctx context.Context, t admin.Target, what string) (*cleanItem, error) {
	it := &cleanItem{Broker: nameOf(t), BrokerID: max(0, t.ID), What: strings.ToUpper(what), Topics: []string{}, target: t}
	rt, err := c.client.RuntimeInfo(ctx, t.Addr)
	if err != nil || !admin.Offers(rt, admin.CapabilityClean) {
		return it, err
	}
	it.ours = true
	plan, err := c.client.Clean(ctx, t.Addr, what, true)
	if err == nil {
		it.takes(plan)
	}
	return it, err
}

func (it *cleanItem) takes(got *admin.Cleaned) {
	it.Files, it.Bytes, it.Left = &got.Files, &got.Bytes, &got.Left
	it.Topics = append([]string{}, got.Topics...)
}

func (c *call) clean(ctx context.Context, it *cleanItem, what string) error {
	if !it.ours {
		err := c.client.CleanOld(ctx, it.target.Addr, what)
		it.Applied = err == nil
		return err
	}
	got, err := c.client.Clean(ctx, it.target.Addr, what, false)
	if err != nil {
		return err
	}
	it.takes(got)
	it.Applied = true
	return nil
}

// cleanImpact is what the question before a deletion says.
func cleanImpact(plans []*cleanItem) string {
	files, bytes, unknown := int64(0), int64(0), 0
	for _, it := range plans {
		if !it.ours {
			unknown++
			continue
		}
		files, bytes = files+*it.Files, bytes+*it.Bytes
	}
	text := fmt.Sprintf("on %s, %s of %s", count(len(plans), "broker"), count(int(files), "file"), humanize.IBytes(uint64(bytes)))
	if unknown > 0 {
		text += fmt.Sprintf(" and whatever %s of Apache's find", count(unknown, "broker"))
	}
	return text
}
