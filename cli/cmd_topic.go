package cli

import (
	"context"
	"slices"
	"sort"
	"strings"

	"mqctl/cli/admin"
)

// topicItem is one topic of topic list.
type topicItem struct {
	Topic        string   `json:"topic"`
	Clusters     []string `json:"clusters"`
	Brokers      int      `json:"brokers" min:"0"`
	Queues       int      `json:"queues" min:"0"` // to write to, over all brokers
	Perm         int      `json:"perm" min:"0"`
	PutPerSecond *float64 `json:"putPerSecond"`
	Groups       []string `json:"groups"`
}

// topicGetItem is a topic at one broker.
type topicGetItem struct {
	Broker string      `json:"broker"`
	Config topicConfig `json:"config"`
	Drift  []string    `json:"drift"`
}

func topicCommands() []*command {
	set := view{
		item: topicSetItem{}, name: func(item any) string { return item.(*topicSetItem).After.TopicName }, old: oldTopicSet, people: printTopicSet,
		piped: (*printer).changeRows,
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "ADDR", field: "addr"}, {head: "CREATED", field: "created"}, {head: "CHANGED", field: "changed"},
			{head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"}, {head: "READ QUEUES", field: "after.readQueueNums", as: asNumber},
			{head: "WRITE QUEUES", field: "after.writeQueueNums", as: asNumber}, {head: "PERM", field: "after.perm", as: asPerm},
		},
	}
	perm := set
	perm.old = oldTopicPerm
	return []*command{
		topicListCommand(), topicGetCommand(),
		{
			path: "topic set", old: "updateTopic", summary: "change settings of a topic; only what is given changes", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
			run: runTopicSet, schema: "mqctl.topic.set/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitAborted, ExitChanges}, view: set,
			examples: []string{"mqctl topic set orders --write-queues 16 --read-queues 16", "mqctl topic set orders --perm r --dry-run", "mqctl updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t orders -r 16 -w 16"},
			flags: append(topicSetFlags(), flagSpec{key: "create-only", kind: kindBool, help: "fail when the topic exists"},
				flagSpec{key: "must-exist", kind: kindBool, help: "fail when the topic does not exist"}),
		},
		{
			path: "topic create", summary: "create a topic", args: "TOPIC", min: 1, max: 1, run: runTopicSet,
			schema: "mqctl.topic.create/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges}, view: set,
			examples: []string{"mqctl topic create orders", "mqctl topic create orders --write-queues 4 --read-queues 4 --wait"},
			flags:    topicSetFlags(),
		},
		{
			old: "updateTopicPerm", summary: "change the permission of a topic", run: runTopicSet, schema: "mqctl.topic.set/v1",
			attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges}, view: perm, twin: "topic set NAME --perm rw",
			examples: []string{"mqctl updateTopicPerm -n 127.0.0.1:9876 -c DefaultCluster -t orders -p 4"},
			flags: append(oldTarget(),
				flagSpec{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				flagSpec{key: "perm", long: "perm", short: "p", required: true, meta: "2|4|6", help: "2 write, 4 read, 6 both"}),
		},
		topicDeleteCommand(), topicRouteCommand(), topicStatusCommand(),
	}
}

func topicListCommand() *command {
	return &command{
		path: "topic list", old: "topicList", summary: "all topics", run: runTopicList, schema: "mqctl.topic.list/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl topic list", "mqctl topic list --unused -o name", "mqctl topicList -n 127.0.0.1:9876 -c"},
		flags: []flagSpec{
			{key: "join", long: "clusterModel", short: "c", kind: kindBool, bareOld: true, oldOnly: true, help: "with cluster and consumer groups"},
			{key: "system", kind: kindBool, newOnly: true, help: "system, retry and dead-letter topics too"},
			{key: "unused", kind: kindBool, newOnly: true, help: "only topics that no group reads"},
		},
		view: view{
			item: topicItem{}, name: func(item any) string { return item.(*topicItem).Topic }, old: oldTopicList,
			columns: []column{
				{head: "TOPIC", field: "topic"}, {head: "CLUSTERS", field: "clusters", as: asList, fold: 3}, {head: "BROKERS", field: "brokers", as: asNumber, fold: 2},
				{head: "QUEUES", field: "queues", as: asNumber}, {head: "PERM", field: "perm", as: asPerm}, {head: "IN/s", field: "putPerSecond", as: asRate},
				{head: "GROUPS", field: "groups", as: asList},
			},
		},
	}
}

// hiddenTopic reports whether a topic is not one that users made.
func hiddenTopic(name string, system map[string]bool) bool {
	return system[name] || strings.HasPrefix(name, "%RETRY%") || strings.HasPrefix(name, "%DLQ%") || strings.HasPrefix(name, "rmq_sys_") ||
		slices.Contains([]string{"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
			"RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC"}, name) ||
		strings.HasSuffix(name, "_REPLY_TOPIC")
}

func runTopicList(ctx context.Context, c *call) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	r := &result{extra: c.on("join"), empty: "no topic fits; --system shows the broker's own"}
	names, held, err := c.topicNames(ctx, a, r)
	if err != nil {
		return nil, err
	}
	if c.p.format == "mqadmin" && !c.on("join") {
		for _, n := range names {
			r.add(&topicItem{Topic: n})
		}
		return r, nil
	}
	asks := make([]admin.Target, len(names))
	for i, n := range names {
		asks[i] = admin.Target{Broker: n}
	}
	for _, res := range admin.Each(ctx, a, 0, asks, func(ctx context.Context, t admin.Target) (*topicItem, error) { return c.topicLine(ctx, t.Broker, held) }) {
		switch {
		case res.Err != nil:
			m := *asMessage(c.explain(res.Err))
			m.Target = res.Target.Broker
			r.failed(&m)
			continue
		case res.Value == nil, c.on("unused") && len(res.Value.Groups) > 0:
			continue
		}
		r.done++
		r.add(res.Value)
	}
	return r, nil
}

// visible drops system topics and the names that nameservers reserve.
func (c *call) visible(ctx context.Context, names []string) []string {
	system := map[string]bool{}
	if reserved, err := c.client.SystemNames(ctx); err == nil {
		for _, n := range reserved {
			system[n] = true
		}
	}
	var out []string
	for _, n := range names {
		if !hiddenTopic(n, system) {
			out = append(out, n)
		}
	}
	return out
}

// topicNames are the topics of the list: of the brokers that --broker names, else
// what the nameservers know.
func (c *call) topicNames(ctx context.Context, a *admin.Client, r *result) (names []string, held *heldTopics, err error) {
	shown := !c.old && !c.on("system")
	if c.str("broker") != "" {
		if held, err = c.heldBy(ctx, r); err != nil {
			return nil, nil, err
		}
		return held.names(shown), held, nil
	}
	r.cluster = c.str("cluster")
	if cl := r.cluster; cl != "" {
		names, err = a.TopicsOfCluster(ctx, cl)
		if err == nil && len(names) == 0 {
			view, verr := a.Cluster(ctx)
			if _, ok := view.Clusters[cl]; verr == nil && !ok {
				err = &admin.NotFound{Kind: "cluster", Name: cl, Where: view.Nameserver, Known: view.Names()}
			}
		}
	} else {
		names, err = a.Topics(ctx)
	}
	if err != nil {
		return nil, nil, c.explain(err)
	}
	if shown {
		names = c.visible(ctx, names)
	}
	return names, nil, nil
}

// topicLine asks for the place of one topic and its readers; nil without a route.
func (c *call) topicLine(ctx context.Context, name string, held *heldTopics) (*topicItem, error) {
	place, err := c.placeOf(ctx, name, held)
	if place == nil || err != nil {
		return nil, err
	}
	it := &topicItem{Topic: name, Brokers: len(place.queues), Clusters: append([]string{}, place.clusters...), Groups: []string{}}
	for _, q := range place.queues {
		it.Queues += int(q.WriteQueues)
		it.Perm |= q.Perm
	}
	sort.Strings(it.Clusters)
	groups := map[string]bool{}
	for _, t := range place.at {
		if t.Addr == "" {
			continue
		}
		names, err := c.client.TopicConsumers(ctx, t.Addr, name)
		if err != nil {
			return nil, err
		}
		for _, g := range names {
			groups[g] = true
		}
		if it.PutPerSecond == nil {
			it.PutPerSecond = ptr(0.0)
		}
		if err := c.putStats(ctx, t.Addr, name, it.PutPerSecond, new(int64)); err != nil {
			return nil, err
		}
	}
	it.Groups = sortedKeys(groups)
	return it, nil
}

// oldTopicList is mqadmin's layout of topicList.
func oldTopicList(p *printer, r *result) {
	join, _ := r.extra.(bool)
	if !join {
		for _, item := range r.items {
			p.printf("%s\n", item.(*topicItem).Topic)
		}
		return
	}
	p.printf("%-20s  %-48s  %-48s\n", "#Cluster Name", "#Topic", "#Consumer Group")
	for _, item := range r.items {
		it := item.(*topicItem)
		if strings.HasPrefix(it.Topic, "%RETRY%") || strings.HasPrefix(it.Topic, "%DLQ%") {
			continue
		}
		cluster := ""
		if len(it.Clusters) > 0 {
			cluster = it.Clusters[0]
		}
		groups := it.Groups
		if len(groups) == 0 {
			groups = []string{""}
		}
		for _, g := range groups {
			p.printf("%-20s  %-64s  %-64s\n", cluster, it.Topic, g)
		}
	}
}

func topicGetCommand() *command {
	return &command{
		path: "topic get", summary: "settings of a topic, compared over the brokers", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runTopicGet, schema: "mqctl.topic.get/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl topic get orders", "mqctl topic get orders -o json"},
		view: view{
			item: topicGetItem{}, name: func(item any) string { return item.(*topicGetItem).Config.TopicName },
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "READ QUEUES", field: "config.readQueueNums", as: asNumber},
				{head: "WRITE QUEUES", field: "config.writeQueueNums", as: asNumber}, {head: "PERM", field: "config.perm", as: asPerm},
				{head: "ORDER", field: "config.order"}, {head: "FILTER", field: "config.topicFilterType", wide: true},
				{head: "SYS FLAG", field: "config.topicSysFlag", wide: true}, {head: "DRIFT", field: "drift", as: asList},
			},
		},
	}
}

func runTopicGet(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, now := range c.topicsNow(ctx, targets, name) {
		switch {
		case now.Err != nil:
			r.failed(c.at(now.Err, now.Target))
			continue
		case now.Value != nil:
			r.add(&topicGetItem{Broker: now.Target.String(), Config: viewOfTopic(*now.Value), Drift: []string{}})
		}
		r.done++
	}
	if len(r.items) == 0 {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, c.topicMissing(ctx, name)
	}
	first := r.items[0].(*topicGetItem)
	differ := map[string]bool{}
	for _, item := range r.items[1:] {
		for _, ch := range changesOf(&first.Config, item.(*topicGetItem).Config) {
			differ[ch.Key] = true
		}
	}
	for _, item := range r.items {
		item.(*topicGetItem).Drift = sortedKeys(differ)
	}
	return r, nil
}
