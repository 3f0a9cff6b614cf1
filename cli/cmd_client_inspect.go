package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// inspectItem is what one consumer client says of itself.
type inspectItem struct {
	Group         string            `json:"group"`
	ClientID      string            `json:"clientId"`
	Addr          string            `json:"addr"`
	Language      string            `json:"language"`
	Version       string            `json:"version"`
	ConsumeType   *string           `json:"consumeType"`
	Orderly       *bool             `json:"orderly"`
	StartedAt     *string           `json:"startedAt"`
	Queues        int               `json:"queues" min:"0"`
	CachedCount   int64             `json:"cachedMessages"`
	CachedMiB     int64             `json:"cachedMiB"`
	ConsumeOK     float64           `json:"consumedPerSecond"`
	Failed        int64             `json:"failedLastHour"`
	Subscriptions []inspectSub      `json:"subscriptions"`
	Assigned      []inspectQueue    `json:"assigned"`
	Topics        []inspectTopic    `json:"topics"`
	Properties    map[string]string `json:"properties"` // without secrets
	Stack         *string           `json:"stack"`      // with --stack

	info *admin.RunningInfo
	file string
}

type inspectSub struct {
	Topic      string `json:"topic"`
	Expression string `json:"expression"`
	Type       string `json:"type"`
}

type inspectQueue struct {
	Topic          string  `json:"topic"`
	Broker         string  `json:"broker"`
	QueueID        int32   `json:"queueId"`
	CommitOffset   int64   `json:"commitOffset"`
	CachedMessages int     `json:"cachedMessages"`
	Locked         bool    `json:"locked"`
	Dropped        bool    `json:"dropped"`
	LastPullAt     *string `json:"lastPullAt"`
	LastConsumeAt  *string `json:"lastConsumeAt"`
}

type inspectTopic struct {
	Topic             string  `json:"topic"`
	PullMillis        float64 `json:"pullMillis"`
	PulledPerSecond   float64 `json:"pulledPerSecond"`
	ConsumeMillis     float64 `json:"consumeMillis"`
	ConsumedPerSecond float64 `json:"consumedPerSecond"`
	FailedPerSecond   float64 `json:"failedPerSecond"`
	FailedLastHour    int64   `json:"failedLastHour"`
}

// inspectTotals is the verdict over the members of a group.
type inspectTotals struct {
	Members          int  `json:"members" min:"0"`
	SameSubscription bool `json:"sameSubscription"`
	QueuesTwice      int  `json:"queuesTwice" min:"0"` // queues that more than one member has
}

func clientInspectCommands() []*command {
	v := view{
		item: inspectItem{}, name: func(item any) string { return item.(*inspectItem).ClientID },
		columns: []column{
			{head: "CLIENT", field: "clientId"}, {head: "ADDR", field: "addr", fold: 3}, {head: "LANGUAGE", field: "language", fold: 4}, {head: "VERSION", field: "version", fold: 2},
			{head: "STARTED", field: "startedAt", as: asTime, fold: 1}, {head: "QUEUES", field: "queues", as: asNumber}, {head: "CACHED", field: "cachedMessages", as: asNumber},
			{head: "OK/s", field: "consumedPerSecond", as: asRate}, {head: "FAILED/h", field: "failedLastHour", as: asNumber},
		},
		old: oldConsumerStatus, people: printInspect,
	}
	older := v
	older.old = oldConsumer
	flags := func() []flagSpec {
		return []flagSpec{
			{key: "group", long: "consumerGroup", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"},
			{key: "stack", long: "jstack", short: "s", kind: kindBool, bareOld: true, help: "also the stacks of the client's threads"},
		}
	}
	exits := []int{ExitNotFound, ExitPartial, ExitConditionFalse}
	return []*command{
		{
			path: "client inspect", old: "consumerStatus", summary: "what the clients of a group say about themselves", args: "GROUP", min: 1, max: 1, argFrom: "group", named: "group",
			run: runClientInspect, schema: "mqctl.client.inspect/v1", exits: exits, view: v,
			examples: []string{"mqctl client inspect order_consumer", "mqctl client inspect --group order_consumer", "mqctl client inspect order_consumer --client 10.0.1.21@1 --stack", "mqctl consumerStatus -n 127.0.0.1:9876 -g order_consumer"},
			flags: append(flags(),
				flagSpec{key: "client", long: "clientId", short: "i", meta: "ID", complete: "client", help: "this client only"},
				flagSpec{key: "broker", long: "brokerAddr", short: "b", meta: "ADDR", complete: "broker", help: "ask through this broker only"}),
		},
		{
			old: "consumer", twin: "client inspect GROUP", summary: "older form of consumerStatus", run: runClientInspect, min: 0,
			schema: "mqctl.client.inspect/v1", exits: exits, view: older, examples: []string{"mqctl consumer -n 127.0.0.1:9876 -g order_consumer"},
			flags: flags(),
		},
		consumerOffsetsCommand(), clientKickCommand(),
		{
			old: "producer", twin: "client list --producers --broker B", summary: "all producers of one broker", run: runOldProducer, schema: "mqctl.client.list/v1",
			exits: []int{ExitNotFound}, examples: []string{"mqctl producer -n 127.0.0.1:9876 -b 10.0.0.4:10911"},
			flags: []flagSpec{{key: "broker", long: "broker", short: "b", required: true, meta: "ADDR", complete: "broker", help: "the broker"}},
			view:  view{item: clientItem{}, name: func(item any) string { return item.(*clientItem).ClientID }, columns: clientColumns(), old: oldProducer},
		},
	}
}

func runClientInspect(ctx context.Context, c *call) (*result, error) {
	group := firstOf(c.arg(0), c.str("group"))
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	members, at := c.membersOf(ctx, r, targets, group)
	if len(members) == 0 {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, c.offline(ctx, group, targets)
	}
	var ids []string
	for _, id := range sortedKeys(members) {
		if c.str("client") == "" || c.str("client") == id {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, fail(ExitNotFound, "CLIENT_NOT_FOUND", "group %q has no client %q online", group, c.str("client")).because("there are: %s", strings.Join(sortedKeys(members), ", "))
	}
	asks := make([]admin.Target, len(ids))
	for i, id := range ids {
		asks[i] = at[id]
	}
	r.done = 0
	for i, res := range admin.Each(ctx, c.client, 0, indexed(asks), func(ctx context.Context, t admin.Target) (*admin.RunningInfo, error) {
		i, target := atIndex(t, asks)
		return c.client.RunningInfo(ctx, target.Addr, group, ids[i], c.on("stack"))
	}) {
		if res.Err != nil {
			m := c.at(res.Err, asks[i])
			m.Target = ids[i]
			r.failed(m)
			continue
		}
		r.done++
		r.add(inspected(group, members[ids[i]], res.Value))
	}
	t := verdict(r.items)
	r.totals = t
	if !t.SameSubscription && c.str("client") == "" {
		r.warn(warning("SUBSCRIPTIONS_DIFFER", group, "the members of %s do not all subscribe to the same", group))
	}
	if c.p.format == "mqadmin" {
		return r, c.writeInfoFiles(r)
	}
	return r, nil
}

// membersOf are a group's connections by client id, and the broker through which
// each can be asked.
func (c *call) membersOf(ctx context.Context, r *result, targets []admin.Target, group string) (map[string]admin.Connection, map[string]admin.Target) {
	members, at := map[string]admin.Connection{}, map[string]admin.Target{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.ConsumerConnections, error) {
		return c.client.ConsumerConnections(ctx, t.Addr, group)
	}) {
		var offline *admin.NotOnline
		var refused *admin.Refused
		switch {
		case errors.As(res.Err, &offline), errors.As(res.Err, &refused) && !refused.Denied() && !refused.Unsupported():
		case res.Err != nil:
			r.failed(c.at(res.Err, res.Target))
		default:
			for _, conn := range res.Value.Connections {
				if _, ok := members[conn.ClientID]; !ok {
					members[conn.ClientID], at[conn.ClientID] = conn, res.Target
				}
			}
		}
	}
	return members, at
}

func inspected(group string, conn admin.Connection, info *admin.RunningInfo) *inspectItem {
	it := &inspectItem{
		Group: group, ClientID: conn.ClientID, Addr: strings.TrimPrefix(conn.Addr, "/"), Language: conn.Language, Version: versionText(conn.Version),
		Queues: len(info.Queues), Subscriptions: []inspectSub{}, Assigned: []inspectQueue{}, Topics: []inspectTopic{}, Properties: map[string]string{}, info: info,
	}
	p := runtimeView(info.Properties)
	it.ConsumeType, it.Orderly = p.text("PROP_CONSUME_TYPE"), p.boolean("PROP_CONSUMEORDERLY")
	if ms := p.whole("PROP_CONSUMER_START_TIMESTAMP"); ms != nil {
		it.StartedAt = stampMillis(*ms)
	}
	for k, v := range info.Properties {
		if secretWord(k) {
			v = hiddenValue
		}
		it.Properties[k] = v
	}
	for _, s := range info.Subscriptions {
		it.Subscriptions = append(it.Subscriptions, inspectSub{s.Topic, s.SubString, firstOf(s.ExpressionType, "TAG")})
	}
	sort.Slice(it.Subscriptions, func(i, j int) bool { return it.Subscriptions[i].Topic < it.Subscriptions[j].Topic })
	for _, q := range sortedQueues(info.Queues) {
		v := info.Queues[q]
		it.CachedCount += int64(v.CachedMessages)
		it.CachedMiB += int64(v.CachedMiB)
		it.Assigned = append(it.Assigned, inspectQueue{q.Topic, q.Broker, q.ID, v.CommitOffset, v.CachedMessages, v.Locked, v.Dropped, stampMillis(v.LastPullMillis), stampMillis(v.LastConsumeMillis)})
	}
	for _, t := range sortedKeys(info.Status) {
		v := info.Status[t]
		it.ConsumeOK += v.ConsumeOKTPS
		it.Failed += v.Failed
		it.Topics = append(it.Topics, inspectTopic{t, v.PullRT, v.PullTPS, v.ConsumeRT, v.ConsumeOKTPS, v.FailedTPS, v.Failed})
	}
	if info.JStack != "" {
		it.Stack = &info.JStack
	}
	return it
}

func sortedQueues[T any](m map[admin.Queue]T) []admin.Queue {
	out := slices.Collect(maps.Keys(m))
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Topic != b.Topic:
			return a.Topic < b.Topic
		case a.Broker != b.Broker:
			return a.Broker < b.Broker
		}
		return a.ID < b.ID
	})
	return out
}

// verdict compares the members.
func verdict(items []any) inspectTotals {
	t := inspectTotals{Members: len(items), SameSubscription: true}
	owners := map[inspectQueue]int{}
	for _, item := range items {
		it := item.(*inspectItem)
		t.SameSubscription = t.SameSubscription && reflect.DeepEqual(it.Subscriptions, items[0].(*inspectItem).Subscriptions)
		for _, q := range it.Assigned {
			if !q.Dropped {
				owners[inspectQueue{Topic: q.Topic, Broker: q.Broker, QueueID: q.QueueID}]++
			}
		}
	}
	for _, n := range owners {
		if n > 1 {
			t.QueuesTwice++
		}
	}
	return t
}

// printInspect is the form for people: the table, and a single client in full.
func printInspect(p *printer, r *result) {
	p.rows(p.columns(), r.items)
	if t, ok := r.totals.(inspectTotals); ok && t.Members > 1 {
		p.printf("\n%s", count(t.Members, "member"))
		if !t.SameSubscription {
			p.printf(", %s", p.style.red("different subscriptions"))
		}
		if t.QueuesTwice > 0 {
			p.printf(", %s held by two", count(t.QueuesTwice, "queue"))
		}
		p.printf("\n")
	}
	if len(r.items) == 1 {
		p.printf("\n%s", visibleText(runningText(r.items[0].(*inspectItem))))
	}
}

// runningText is what a client says, in mqadmin's form (ConsumerRunningInfo.formatString).
func runningText(it *inspectItem) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#Consumer Properties#\n")
	for _, k := range sortedKeys(it.Properties) {
		fmt.Fprintf(&b, "%-40s: %s\n", k, it.Properties[k])
	}
	fmt.Fprintf(&b, "\n\n#Consumer Subscription#\n")
	for i, s := range it.Subscriptions {
		fmt.Fprintf(&b, "%03d Topic: %-40s ClassFilter: %-8t SubExpression: %s\n", i+1, s.Topic, false, s.Expression)
	}
	fmt.Fprintf(&b, "\n\n#Consumer Offset#\n%-64s  %-32s  %-4s  %-20s\n", "#Topic", "#Broker Name", "#QID", "#Consumer Offset")
	for _, q := range it.Assigned {
		fmt.Fprintf(&b, "%-32s  %-32s  %-4d  %-20d\n", q.Topic, q.Broker, q.QueueID, q.CommitOffset)
	}
	fmt.Fprintf(&b, "\n\n#Consumer MQ Detail#\n%-64s  %-32s  %-4s  %-20s\n", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")
	for _, q := range it.Assigned {
		v := it.info.Queues[admin.Queue{Topic: q.Topic, Broker: q.Broker, ID: q.QueueID}]
		fmt.Fprintf(&b, "%-64s  %-32s  %-4d  commitOffset=%d, cachedMsgMinOffset=%d, cachedMsgMaxOffset=%d, cachedMsgCount=%d, cachedMsgSizeInMiB=%d, locked=%t, droped=%t\n",
			q.Topic, q.Broker, q.QueueID, v.CommitOffset, v.CachedMinOffset, v.CachedMaxOffset, v.CachedMessages, v.CachedMiB, v.Locked, v.Dropped)
	}
	fmt.Fprintf(&b, "\n\n#Consumer RT&TPS#\n%-64s  %14s %14s %14s %14s %18s %25s\n",
		"#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour")
	for _, t := range it.Topics {
		fmt.Fprintf(&b, "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d\n",
			t.Topic, t.PullMillis, t.PulledPerSecond, t.ConsumeMillis, t.ConsumedPerSecond, t.FailedPerSecond, t.FailedLastHour)
	}
	if it.Stack != nil {
		fmt.Fprintf(&b, "\n\n#Consumer jstack#\n%s\n", *it.Stack)
	}
	return b.String()
}

// writeInfoFiles writes one file for each client below a new folder of the working
// directory, as mqadmin does, unless one client was asked for: then its text is
// printed.
func (c *call) writeInfoFiles(r *result) error {
	if c.str("client") != "" {
		return nil
	}
	dir := strconv.FormatInt(c.begun.UnixMilli(), 10)
	for _, item := range r.items {
		it := item.(*inspectItem)
		if it.ClientID != filepath.Base(it.ClientID) || strings.HasPrefix(it.ClientID, ".") || strings.ContainsAny(it.ClientID, "/\\\x00") {
			r.warn(warning("BAD_NAME", it.ClientID, "the id of client %q cannot be the name of a file; it was not written", it.ClientID))
			continue
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fail(ExitFailed, "BAD_FILE", "cannot make the folder %s: %v", dir, err)
		}
		it.file = filepath.Join(dir, it.ClientID)
		if err := os.WriteFile(it.file, []byte(runningText(it)), 0o666); err != nil {
			return fail(ExitFailed, "BAD_FILE", "cannot write %s: %v", it.file, err)
		}
	}
	return nil
}

// oldConsumerStatus is mqadmin's layout of consumerStatus.
func oldConsumerStatus(p *printer, r *result) {
	if len(r.items) == 1 && r.items[0].(*inspectItem).file == "" {
		p.printf("%s", runningText(r.items[0].(*inspectItem)))
		return
	}
	p.printf("%-10s %-40s %-20s %s\n", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
	for i, item := range r.items {
		it := item.(*inspectItem)
		p.printf("%-10d %-40s %-20s %s\n", i+1, it.ClientID, it.Version, it.file)
	}
	oldVerdict(p, r)
}

// oldConsumer is mqadmin's layout of its older form.
func oldConsumer(p *printer, r *result) {
	for i, item := range r.items {
		it := item.(*inspectItem)
		p.printf("%03d  %-40s %-20s %s\n", i+1, it.ClientID, it.Version, it.file)
	}
	oldVerdict(p, r)
}

func oldVerdict(p *printer, r *result) {
	t, ok := r.totals.(inspectTotals)
	if !ok || len(r.items) == 0 {
		return
	}
	if !t.SameSubscription {
		p.printf("\n\nWARN: Different subscription in the same group of consumer!!!")
		return
	}
	word := "OK"
	if t.QueuesTwice > 0 {
		word = "Failed"
	}
	p.printf("\n\nSame subscription in the same group of consumer\n\nRebalance %s\n", word)
}
