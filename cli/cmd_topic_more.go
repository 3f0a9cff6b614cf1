package cli

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"strings"

	"mqctl/cli/admin"
)

// cqItem is one entry of a consume queue.
type cqItem struct {
	Index           int64  `json:"index"`
	CommitLogOffset int64  `json:"commitLogOffset"`
	SizeBytes       int32  `json:"sizeBytes"`
	TagsCode        int64  `json:"tagsCode"`
	Matched         *bool  `json:"matched"` // null without a group
	Broker          string `json:"broker"`
	QueueID         int32  `json:"queueId"`

	raw admin.QueueEntry
}

// cqTotals are the bounds of the queue.
type cqTotals struct {
	MinIndex int64 `json:"minIndex"`
	MaxIndex int64 `json:"maxIndex"` // next to be written
}

// allocateItem is what one client would get.
type allocateItem struct {
	Client string   `json:"client"`
	Queues []string `json:"queues"` // BROKER:QUEUE

	list []admin.Queue
}

// clusterNameItem is a cluster that holds a topic.
type clusterNameItem struct {
	Topic   string   `json:"topic"`
	Cluster string   `json:"cluster"`
	Brokers []string `json:"brokers"`
}

// modeItem is the mode of a group on a topic at one broker.
type modeItem struct {
	Broker   string    `json:"broker"`
	Group    string    `json:"group"`
	Topic    string    `json:"topic"`
	Before   modeValue `json:"before"`
	After    modeValue `json:"after"`
	Changed  bool      `json:"changed"`
	Applied  bool      `json:"applied"`
	Verified bool      `json:"verified"`

	addr string
}

// modeValue is how messages are taken.
type modeValue struct {
	Mode        string `json:"mode" enum:"PULL|POP"`
	ShareQueues int32  `json:"popShareQueueNum"`
}

func topicMoreCommands() []*command {
	topic := flagSpec{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"}
	return []*command{
		{path: "topic cq", old: "queryCq", summary: "raw consume queue entries", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runTopicCQ, schema: "mqctl.topic.cq/v1",
			exits: []int{ExitNotFound}, examples: []string{"mqctl topic cq orders --queue broker-a:0 --from 100", "mqctl queryCq -n 127.0.0.1:9876 -t orders -q 0 -i 100 -c 5"},
			view: view{item: cqItem{}, name: func(item any) string { return strconv.FormatInt(item.(*cqItem).Index, 10) }, old: oldCQ,
				columns: []column{{head: "INDEX", field: "index", as: asNumber}, {head: "COMMIT LOG OFFSET", field: "commitLogOffset", as: asNumber},
					{head: "SIZE", field: "sizeBytes", as: asBytes}, {head: "TAGS CODE", field: "tagsCode"}, {head: "MATCHED", field: "matched"}}},
			flags: []flagSpec{topic,
				{key: "queue", long: "queue", short: "q", required: true, meta: "BROKER:QUEUE", complete: "broker-queue", help: "the queue; mqadmin's queue id"},
				{key: "from", long: "index", short: "i", required: true, kind: kindInt, max: 1 << 62, meta: "N", complete: "offset", help: "first entry (default: the first there is)"},
				{key: "count", long: "count", short: "c", kind: kindInt, min: 1, max: 4096, def: "10", meta: "N", help: "entries"},
				{key: "broker", long: "broker", short: "b", meta: "ADDR", complete: "broker", help: "the broker of the queue"},
				{key: "group", long: "consumer", short: "g", meta: "GROUP", complete: "group", help: "say which entries this group's subscription takes"}}},
		{path: "topic allocate", old: "allocateMQ", summary: "which client would get which queue", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runAllocate, schema: "mqctl.topic.allocate/v1",
			exits: []int{ExitNotFound}, examples: []string{"mqctl topic allocate orders --clients a,b,c", "mqctl allocateMQ -n 127.0.0.1:9876 -t orders -i 10.0.1.1,10.0.1.2"},
			view: view{item: allocateItem{}, name: func(item any) string { return item.(*allocateItem).Client }, old: oldAllocate,
				columns: []column{{head: "CLIENT", field: "client"}, {head: "QUEUES", field: "queues", as: asList}}},
			flags: []flagSpec{topic, {key: "clients", long: "ipList", short: "i", required: true, meta: "A,B,C", help: "the clients, in the order of their ids"}}},
		{old: "topicClusterList", twin: "topic get NAME", summary: "clusters that hold a topic", run: runTopicClusters, schema: "mqctl.topic.clusters/v1", exits: []int{ExitNotFound},
			examples: []string{"mqctl topicClusterList -n 127.0.0.1:9876 -t orders"},
			flags:    []flagSpec{{key: "topic", long: "topic", short: "t", required: true, oldOnly: true, meta: "TOPIC", complete: "topic", help: "the topic"}},
			view: view{item: clusterNameItem{}, name: func(item any) string { return item.(*clusterNameItem).Cluster },
				columns: []column{{head: "TOPIC", field: "topic"}, {head: "CLUSTER", field: "cluster"}, {head: "BROKERS", field: "brokers", as: asList}},
				old: func(p *printer, r *result) {
					for _, item := range r.items {
						p.printf("%s\n", item.(*clusterNameItem).Cluster)
					}
				}}},
		{path: "group mode", old: "setConsumeMode", summary: "pull or pop", args: "GROUP", min: 1, max: 1, argFrom: "group", run: runGroupMode, schema: "mqctl.group.mode/v1",
			attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges},
			examples: []string{"mqctl group mode report --topic orders --mode PULL", "mqctl setConsumeMode -n 127.0.0.1:9876 -c DefaultCluster -t orders -g report -m POP -q 2"},
			view: view{item: modeItem{}, name: func(item any) string { return item.(*modeItem).Group }, old: oldMode,
				columns: []column{{head: "BROKER", field: "broker"}, {head: "GROUP", field: "group"}, {head: "TOPIC", field: "topic"}, {head: "BEFORE", field: "before.mode"},
					{head: "AFTER", field: "after.mode"}, {head: "SHARE", field: "after.popShareQueueNum"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"}}},
			flags: append(oldTarget(),
				flagSpec{key: "group", long: "groupName", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"},
				flagSpec{key: "topic", long: "topicName", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				flagSpec{key: "mode", long: "mode", short: "m", required: true, kind: kindEnum, enum: []string{modePull, modePop}, meta: "PULL|POP", help: "how its clients take messages"},
				flagSpec{key: "share-queues", long: "popShareQueueNum", short: "q", kind: kindInt, min: -1, max: maxQueues, def: "0", meta: "N", help: "with POP: how many other clients share a queue"})},
	}
}

// queueOf reads BROKER:QUEUE, or mqadmin's queue id with -b.
func (c *call) queueOf(ctx context.Context, topic string) (admin.Target, int32, error) {
	broker, id := c.str("broker"), c.str("queue")
	if at := strings.LastIndexByte(id, ':'); at > 0 {
		broker, id = id[:at], id[at+1:]
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil || n < 0 {
		return admin.Target{}, 0, usage("BAD_VALUE", "%s: %q is not BROKER:QUEUE", c.hint("queue"), c.str("queue")).try("--queue broker-a:0")
	}
	a, err := c.admin()
	if err != nil {
		return admin.Target{}, 0, err
	}
	if broker == "" {
		route, err := c.route(ctx, topic)
		if err != nil {
			return admin.Target{}, 0, err
		}
		if found := c.routeMasters(ctx, route); len(found) > 0 {
			return found[0], int32(n), nil
		}
	}
	found, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: broker, MastersOnly: true})
	if err != nil {
		return admin.Target{}, 0, err
	}
	return found[0], int32(n), nil
}

func runTopicCQ(ctx context.Context, c *call) (*result, error) {
	topic := c.arg(0)
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if err := c.needFlags("queue"); err != nil {
		return nil, err
	}
	t, queue, err := c.queueOf(ctx, topic)
	if err != nil {
		return nil, err
	}
	from := c.whole("from")
	if !c.given("from") {
		if from, err = c.client.MinOffset(ctx, t.Addr, topic, queue); err != nil {
			return nil, err
		}
	}
	got, err := c.client.QueueEntries(ctx, t.Addr, topic, queue, from, int(c.whole("count")), c.str("group"))
	if err != nil {
		return nil, err
	}
	r := &result{cluster: t.Cluster, totals: cqTotals{got.Min, got.Max}, extra: got, empty: "the queue has no entry there"}
	for i, e := range got.Entries {
		it := &cqItem{Index: from + int64(i), CommitLogOffset: e.PhysOffset, SizeBytes: e.Size, TagsCode: e.TagsCode, Broker: t.String(), QueueID: queue, raw: e}
		if c.str("group") != "" {
			it.Matched = &e.Matched
		}
		r.add(it)
	}
	return r, nil
}

// oldCQ is mqadmin's layout of queryCq.
func oldCQ(p *printer, r *result) {
	got, ok := r.extra.(*admin.QueueEntries)
	if !ok {
		return
	}
	const rule = "======================================\n"
	if got.Subscription != nil {
		if b, err := marshalIndent(got.Subscription); err == nil {
			p.printf("Subscription data: \n%s%s", b, rule)
		}
	}
	if got.Filter != "" {
		p.printf("Filter data: \n%s\n%s", got.Filter, rule)
	}
	p.printf("Queue data: \nmax: %d, min: %d\n%s", got.Max, got.Min, rule)
	for _, item := range r.items {
		it := item.(*cqItem)
		p.printf("idx: %d\nConsumeQueueData{physicOffset=%d, physicSize=%d, tagsCode=%d, extendDataJson='%s', bitMap='%s', eval=%t, msg='%s'}\n%s",
			it.Index, it.CommitLogOffset, it.SizeBytes, it.TagsCode, javaText(it.raw.Extension), javaText(it.raw.BitMap), it.raw.Matched, javaText(it.raw.Message), rule)
	}
}

// javaText is a text as Java prints one that may be missing.
func javaText(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

// allocate gives each client its part of the queues as the default strategy of
// RocketMQ's clients does (AllocateMessageQueueAveragely): equal runs in order,
// the first clients one more when it does not divide.
func allocate(queues []admin.Queue, clients int, at int) []admin.Queue {
	n, rest := len(queues)/clients, len(queues)%clients
	begin := at*n + min(at, rest)
	if at < rest {
		n++
	}
	return queues[begin : begin+n]
}

func runAllocate(ctx context.Context, c *call) (*result, error) {
	topic := c.arg(0)
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if err := c.needFlags("clients"); err != nil {
		return nil, err
	}
	var clients []string
	seen := map[string]bool{}
	for _, name := range strings.Split(c.str("clients"), ",") {
		name = strings.TrimSpace(name)
		if name == "" || seen[name] {
			return nil, usage("BAD_VALUE", "%s: %q is empty or there twice", c.hint("clients"), name)
		}
		seen[name] = true
		clients = append(clients, name)
	}
	route, err := c.route(ctx, topic)
	if err != nil {
		return nil, err
	}
	var queues []admin.Queue
	for _, q := range route.Queues {
		for id := range q.ReadQueues {
			if q.Perm&4 != 0 {
				queues = append(queues, admin.Queue{Topic: topic, Broker: q.Broker, ID: id})
			}
		}
	}
	sort.Slice(queues, func(i, j int) bool {
		return queues[i].Broker < queues[j].Broker || queues[i].Broker == queues[j].Broker && queues[i].ID < queues[j].ID
	})
	r := &result{}
	for i, name := range clients {
		it := &allocateItem{Client: name, Queues: []string{}, list: allocate(queues, len(clients), i)}
		for _, q := range it.list {
			it.Queues = append(it.Queues, q.Broker+":"+strconv.Itoa(int(q.ID)))
		}
		r.add(it)
	}
	return r, nil
}

// oldAllocate is mqadmin's JSON of allocateMQ.
func oldAllocate(p *printer, r *result) {
	type queue struct {
		Broker string `json:"brokerName"`
		ID     int32  `json:"queueId"`
		Topic  string `json:"topic"`
	}
	out := map[string][]queue{}
	for _, item := range r.items {
		it := item.(*allocateItem)
		out[it.Client] = []queue{}
		for _, q := range it.list {
			out[it.Client] = append(out[it.Client], queue{q.Broker, q.ID, q.Topic})
		}
	}
	if b, err := marshal(map[string]any{"result": out}); err == nil {
		p.printf("%s\n", b)
	}
}

func runTopicClusters(ctx context.Context, c *call) (*result, error) {
	topic := c.str("topic")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	route, err := c.route(ctx, topic)
	if err != nil {
		return nil, err
	}
	byName := map[string]*clusterNameItem{}
	for _, b := range route.Brokers {
		if byName[b.Cluster] == nil {
			byName[b.Cluster] = &clusterNameItem{Topic: topic, Cluster: b.Cluster, Brokers: []string{}}
		}
		byName[b.Cluster].Brokers = append(byName[b.Cluster].Brokers, b.Name)
	}
	r := &result{}
	for _, name := range sortedKeys(byName) {
		sort.Strings(byName[name].Brokers)
		r.add(byName[name])
	}
	return r, nil
}

func runGroupMode(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	if err := c.needFlags("topic", "mode"); err != nil {
		return nil, err
	}
	topic := c.str("topic")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, warnings: notes}
	key := kindMode + "/" + group + "/" + topic
	var edits []*edit
	for _, now := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (state, error) { return c.readThing(ctx, t, key) }) {
		if now.Err != nil {
			r.failed(c.at(now.Err, now.Target))
			continue
		}
		plan := planThing(now.Target, key, now.Value, state{"mode": c.str("mode"), "popShareQueueNum": c.whole("share-queues")})
		it := &modeItem{Broker: now.Target.String(), Group: group, Topic: topic, Changed: plan.Changed, addr: now.Target.Addr}
		if err := errors.Join(plan.before.into(&it.Before), plan.after.into(&it.After)); err != nil {
			return nil, err
		}
		edits = append(edits, c.shownAs(plan, it, func() { it.Applied, it.Verified = plan.Applied, plan.Verified }))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// oldMode is mqadmin's layout of setConsumeMode.
func oldMode(p *printer, r *result) {
	var last *modeItem
	for _, item := range r.items {
		if it := item.(*modeItem); it.Verified {
			p.printf("set consume mode to %s success.\n", it.addr)
			last = it
		}
	}
	if last != nil {
		p.printf("topic[%s] group[%s] consume mode[%s] popShareQueueNum[%d]\n", last.Topic, last.Group, last.After.Mode, last.After.ShareQueues)
	}
}
