package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// oldTarget are mqadmin's -b and -c.
func oldTarget() []flagSpec {
	return []flagSpec{
		{key: "broker", long: "brokerAddr", short: "b", meta: "ADDR", complete: "broker", help: "this broker only: NAME, NAME/ID or HOST:PORT"},
		{key: "cluster", long: "clusterName", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all masters of this cluster"},
	}
}

// oneTarget are -b and -c of the commands where mqadmin takes one of them only.
func oneTarget() []flagSpec {
	flags := oldTarget()
	for i := range flags {
		flags[i].oneOf = true
	}
	return flags
}

func groupSetFlags(arg int) []flagSpec {
	return append(oldTarget(),
		flagSpec{key: "group", long: "groupName", short: "g", arg: arg, required: true, meta: "GROUP", complete: "group", help: "the group"},
		flagSpec{key: "broker-id", also: []string{"preferred-broker"}, long: "brokerId", short: "i", kind: kindInt, max: math.MaxInt64, meta: "N", help: "broker id that consumers read from when they are not behind (new group: 0)"},
		flagSpec{key: "which-broker-when-consume-slowly", also: []string{"slow-broker"}, long: "whichBrokerWhenConsumeSlowly", short: "w", kind: kindInt, max: math.MaxInt64, meta: "N", help: "broker id that consumers read from when they are far behind (new group: 1)"},
		flagSpec{key: "consume", long: "consumeEnable", short: "s", kind: kindBool, negative: true, help: "consumption is allowed (new group: true)"},
		flagSpec{key: "from-min", long: "consumeFromMinEnable", short: "m", kind: kindBool, negative: true, help: "reading from the oldest message is allowed (new group: false)"},
		flagSpec{key: "broadcast", long: "consumeBroadcastEnable", short: "d", kind: kindBool, negative: true, help: "broadcasting is allowed (new group: false)"},
		flagSpec{key: "orderly", long: "consumeMessageOrderly", short: "o", kind: kindBool, negative: true, help: "the group consumes in order (new group: false)"},
		flagSpec{key: "retry-queues", long: "retryQueueNums", short: "q", kind: kindInt, max: math.MaxInt32, meta: "N", help: "queues of the retry topic (new group: 1)"},
		flagSpec{key: "retry-max", long: "retryMaxTimes", short: "r", kind: kindInt, min: -1, max: math.MaxInt32, meta: "N", help: "attempts before the dead-letter topic (new group: 16)"},
		flagSpec{key: "retry-policy", long: "groupRetryPolicy", short: "p", meta: "JSON", help: "waits between attempts"},
		flagSpec{key: "notify-ids", long: "notifyConsumerIdsChanged", short: "a", kind: kindBool, negative: true, help: "members hear when members come and go (new group: true)"},
		flagSpec{key: "attributes", long: "attributes", meta: "+k=v,-k", help: "changes of attributes"},
		flagSpec{key: "replace", kind: kindBool, help: "overwrite what was not given with the defaults, as mqadmin does"},
	)
}

func groupCommands() []*command {
	set := view{item: groupSetItem{}, old: oldGroupSet, people: printGroupSet, piped: (*printer).changeRows, columns: []column{
		{head: "BROKER", field: "broker"}, {head: "ADDR", field: "addr"}, {head: "CREATED", field: "created"},
		{head: "CHANGED", field: "changed"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"},
		{head: "SLOW BROKER", field: "after.whichBrokerWhenConsumeSlowly", as: asNumber}, {head: "BROKER ID", field: "after.brokerId", as: asNumber},
	}, name: func(any) string { return "" }}
	set.name = func(item any) string { return item.(*groupSetItem).After.GroupName }
	return []*command{
		{
			path: "group list", summary: "groups with members, lag and read routing", run: runGroupList,
			schema: "mqctl.group.list/v1", exits: []int{ExitNotFound, ExitPartial}, view: groupListView(),
			examples: []string{"mqctl group list", "mqctl group list --behind --sort lag", "mqctl group list --topic orders -o name"},
			flags: []flagSpec{
				{key: "topic", meta: "TOPIC", complete: "topic", help: "only groups that read this topic"},
				{key: "offline", kind: kindBool, help: "only groups without members"},
				{key: "behind", kind: kindBool, help: "only groups with a lag"},
				{key: "system", kind: kindBool, help: "the broker's own groups too"},
			},
		},
		{
			path: "group get", old: "getConsumerConfig", summary: "settings of a group, compared over the brokers", args: "GROUP", min: 1, max: 1, argFrom: "group",
			run: runGroupGet, schema: "mqctl.group.get/v1", exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse}, view: groupGetView(),
			examples: []string{"mqctl group get order_consumer", "mqctl group get order_consumer --fail-on-drift", "mqctl getConsumerConfig -n 127.0.0.1:9876 -g order_consumer"},
			flags: []flagSpec{
				{key: "group", long: "groupName", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"},
				{key: "fail-on-drift", kind: kindBool, help: "exit 7 when brokers differ"},
			},
		},
		{
			path: "group set", old: "updateSubGroup", summary: "change settings of a group; only what is given changes", args: "GROUP", min: 1, max: 1, argFrom: "group",
			run: runGroupSet, schema: "mqctl.group.set/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges}, view: set,
			examples: []string{
				"mqctl group set order_consumer --slow-broker 1 --broker-id 0",
				"mqctl updateSubGroup -n 127.0.0.1:9876 -c DefaultCluster -g order_consumer -w 1 -i 0",
				"mqctl group set order_consumer --retry-max 3 --dry-run",
			},
			flags: append(groupSetFlags(1),
				flagSpec{key: "create-only", kind: kindBool, help: "fail when the group exists"},
				flagSpec{key: "must-exist", kind: kindBool, help: "fail when the group does not exist"},
				flagSpec{key: "strict", kind: kindBool, help: "refuse a broker id that is not registered, instead of warning"}),
		},
		{
			path: "group create", summary: "create a group", args: "GROUP", min: 1, max: 1, run: runGroupSet,
			schema: "mqctl.group.create/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges}, view: set,
			examples: []string{"mqctl group create audit", "mqctl group create audit --retry-max 3"},
			flags:    groupSetFlags(1),
		},
		{
			path: "group delete", old: "deleteSubGroup", summary: "remove a group with its offsets and retry topics", args: "GROUP", min: 1, max: 1, argFrom: "group",
			run: runGroupDelete, schema: "mqctl.group.delete/v1", attrs: mutates | destructive | planned,
			exits: []int{ExitNotFound, ExitPartial, ExitAborted, ExitChanges}, view: groupDeleteView(),
			examples: []string{"mqctl group delete old --dry-run", "mqctl group delete old --yes", "mqctl deleteSubGroup -n 127.0.0.1:9876 -c DefaultCluster -g old"},
			flags: append(oldTarget(),
				flagSpec{key: "group", long: "groupName", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"},
				flagSpec{key: "remove-offset", long: "removeOffset", short: "r", kind: kindBool, oldOnly: true, help: "its offsets too (default false)"},
				flagSpec{key: "keep-offsets", kind: kindBool, newOnly: true, help: "leave its offsets"},
				flagSpec{key: "keep-retry", kind: kindBool, newOnly: true, help: "leave its retry and dead-letter topics"}),
		},
		lagCommand(),
		pauseCommand("group pause", "stop consumption: consumeEnable=false", set),
		pauseCommand("group resume", "allow consumption again: consumeEnable=true", set),
	}
}

func pauseCommand(path, summary string, v view) *command {
	return &command{
		path: path, summary: summary, args: "GROUP", min: 1, max: 1, argFrom: "group", run: runGroupSet,
		schema: "mqctl.group.set/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges}, view: v,
		examples: []string{"mqctl " + path + " report --reason poison"},
	}
}

// systemGroups are the groups that every broker makes for itself
// (SubscriptionGroupManager.init).
var systemGroups = []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "SELF_TEST_CONSUMER_GROUP",
	"__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "DEFAULT_CONSUMER", "DEFAULT_PRODUCER"}

// systemGroup reports whether a group is one of the broker's own.
func systemGroup(name string) bool {
	for _, s := range systemGroups {
		if s == name {
			return true
		}
	}
	return strings.HasPrefix(name, "CID_ONSAPI_") || strings.HasPrefix(name, "CID_RMQ_SYS_") || strings.HasPrefix(name, "CID_SYS_RMQ_") ||
		name == "CID_ONS-HTTP-PROXY"
}

// groupGetItem is a group at one broker.
type groupGetItem struct {
	Broker string      `json:"broker"`
	Config groupConfig `json:"config"`
	Drift  []string    `json:"drift"` // settings that another broker has differently

	cluster string
}

func groupGetView() view {
	return view{
		item: groupGetItem{}, name: func(item any) string { return item.(groupGetItem).Config.GroupName },
		old: oldGroupGet, people: printGroupGet,
		columns: []column{
			{head: "BROKER", field: "broker"},
			{head: "CONSUME", field: "config.consumeEnable"},
			{head: "BROKER ID", field: "config.brokerId", as: asNumber},
			{head: "SLOW BROKER", field: "config.whichBrokerWhenConsumeSlowly", as: asNumber},
			{head: "RETRY QUEUES", field: "config.retryQueueNums", as: asNumber},
			{head: "RETRY MAX", field: "config.retryMaxTimes", as: asNumber},
			{head: "FROM MIN", field: "config.consumeFromMinEnable", wide: true},
			{head: "BROADCAST", field: "config.consumeBroadcastEnable", wide: true},
			{head: "ORDERLY", field: "config.consumeMessageOrderly", wide: true},
			{head: "NOTIFY IDS", field: "config.notifyConsumerIdsChangedEnable", wide: true},
			{head: "DRIFT", field: "drift", as: asList},
		},
	}
}

func runGroupGet(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := subgroup.CheckName(name); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", name).because("%v", err)
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	known := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		r.done++
		if cfg, ok := g.Value[name]; ok {
			r.add(groupGetItem{Broker: g.Target.String(), Config: viewOfGroup(cfg), Drift: []string{}, cluster: g.Target.Cluster})
		}
		for n := range g.Value {
			known[n] = true
		}
	}
	if len(r.items) == 0 {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, groupMissing(name, r.cluster, known)
	}
	if markDrift(r.items) && c.on("fail-on-drift") {
		r.exit = ExitConditionFalse
	}
	return r, nil
}

func allGroups(ctx context.Context, c *call, targets []admin.Target) []admin.Result[map[string]subgroup.Config] {
	return admin.Each(ctx, c.client, 0, targets, c.groupsAt)
}

func (c *call) groupsAt(ctx context.Context, t admin.Target) (map[string]subgroup.Config, error) {
	all, _, err := c.client.Groups(ctx, t.Addr)
	return all, err
}

// groupMissing is message 5 of the contract.
func groupMissing(name, cluster string, known map[string]bool) *Message {
	where := "the brokers asked"
	if cluster != "" {
		where = cluster
	}
	m := fail(ExitNotFound, "GROUP_NOT_FOUND", "group %q exists on no broker of %s", name, where)
	if near := nearest(name, sortedKeys(known)); len(near) > 0 {
		m.offer(near...)
		if beginning := letters(name); len(beginning) > 1 {
			return m.try("mqctl group list --filter 'group~" + beginning[:min(5, len(beginning))] + "'")
		}
	}
	return m.try("mqctl group list")
}

// letters are the letters and digits that a name begins with.
func letters(name string) string {
	at := strings.IndexFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
	if at < 0 {
		return name
	}
	return name[:at]
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// markDrift names the settings that are not the same on all brokers.
func markDrift(items []any) bool {
	differ := map[string]bool{}
	first := fieldsOf(items[0].(groupGetItem).Config)
	for _, item := range items[1:] {
		for i, f := range fieldsOf(item.(groupGetItem).Config) {
			if !sameJSON(f.value, first[i].value) {
				differ[f.name] = true
			}
		}
	}
	names := sortedKeys(differ)
	for i := range items {
		it := items[i].(groupGetItem)
		it.Drift = names
		items[i] = it
	}
	return len(names) > 0
}

// printGroupGet shows the settings side by side.
func printGroupGet(p *printer, r *result) {
	if len(r.items) == 0 {
		return
	}
	heads := []string{"SETTING"}
	for _, item := range r.items {
		heads = append(heads, item.(groupGetItem).Broker)
	}
	p.printf("group %s\n\n", p.style.cyan(r.items[0].(groupGetItem).Config.GroupName))
	var rows [][]string
	for i, f := range fieldsOf(r.items[0].(groupGetItem).Config) {
		if f.name == "groupName" {
			continue
		}
		row := []string{f.name}
		same := true
		for _, item := range r.items {
			v := fieldsOf(item.(groupGetItem).Config)[i].value
			same = same && sameJSON(v, f.value)
			row = append(row, valueText(v))
		}
		if !same {
			row = append(row, p.style.yellow("differs"))
		}
		rows = append(rows, row)
	}
	if !p.headers {
		heads = nil
	}
	p.write(grid(heads, rows, nil, p.style.bold))
}

// oldGroupGet is mqadmin's layout of getConsumerConfig.
func oldGroupGet(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(groupGetItem)
		name, _, _ := strings.Cut(it.Broker, "/")
		p.printf("=============================%s:%s=============================\n", it.cluster, name)
		for _, f := range fieldsOf(it.Config) {
			text := valueText(f.value)
			switch v := f.value.(type) {
			case retryPolicy:
				text = javaPolicy(v)
			case map[string]string:
				text = "{" + strings.Join(pairs(v), ", ") + "}"
			case []subgroup.SimpleSubscription:
				if len(v) == 0 {
					text = ""
				}
			}
			p.printf("%-40s=  %s\n", f.name, text)
		}
	}
}

func pairs(m map[string]string) []string {
	var out []string
	for _, k := range sortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// groupDeleteItem is what a deletion did at one broker.
type groupDeleteItem struct {
	Broker         string   `json:"broker"`
	Deleted        bool     `json:"deleted"`
	OffsetsRemoved bool     `json:"offsetsRemoved"`
	TopicsRemoved  []string `json:"topicsRemoved"`

	target admin.Target
	had    groupConfig
	things []auditThing // what went, for the audit file
}

func groupDeleteView() view {
	return view{
		item: groupDeleteItem{}, name: func(item any) string { return item.(*groupDeleteItem).Broker },
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "DELETED", field: "deleted"},
			{head: "OFFSETS REMOVED", field: "offsetsRemoved"}, {head: "TOPICS REMOVED", field: "topicsRemoved", as: asList},
		},
		old: func(p *printer, r *result) {
			group, _ := r.extra.(string)
			for _, item := range r.items {
				it := item.(*groupDeleteItem)
				if !it.Deleted {
					continue
				}
				in := ""
				if it.target.Cluster != "" {
					in = fmt.Sprintf(" in cluster [%s]", it.target.Cluster)
				}
				p.printf("delete subscription group [%s] from broker [%s]%s success.\n", group, it.target.Addr, in)
			}
		},
		foot: func(p *printer, r *result) {
			if r.change != nil && r.change.DryRun {
				p.printf("\ndry run: nothing was deleted\n")
			}
		},
	}
}

func runGroupDelete(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := subgroup.CheckName(name); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", name).because("%v", err)
	}
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, extra: name, warnings: notes}
	known := map[string]bool{}
	var holders []*groupDeleteItem
	for _, g := range allGroups(ctx, c, targets) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		if cfg, ok := g.Value[name]; ok {
			holders = append(holders, &groupDeleteItem{Broker: g.Target.String(), TopicsRemoved: []string{}, target: g.Target, had: viewOfGroup(cfg)})
		}
		for n := range g.Value {
			known[n] = true
		}
	}
	if len(holders) == 0 {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, groupMissing(name, r.cluster, known)
	}
	members, impact := c.groupImpact(ctx, name, holders)
	if err := c.confirm("deleting group "+fmt.Sprintf("%q", name), impact); err != nil {
		return nil, err
	}
	if members > 0 {
		m := warning("MEMBERS_ONLINE", name, "group %q has %s online, who make it again with their next heartbeat", name, count(members, "member"))
		m.offer("stop the members first", "mqctl client list --group "+name)
		r.warn(m)
	}
	c.deleteGroup(ctx, r, name, holders)
	return r, nil
}

// groupImpact says what a group still does, for the question before its end.
func (c *call) groupImpact(ctx context.Context, name string, holders []*groupDeleteItem) (online int, text string) {
	members, topics := map[string]bool{}, map[string]bool{}
	lag := int64(0)
	for _, h := range holders {
		if conns, err := c.client.ConsumerConnections(ctx, h.target.Addr, name); err == nil {
			for _, m := range conns.Connections {
				members[m.ClientID] = true
			}
		}
		if s, err := c.client.ConsumeStats(ctx, h.target.Addr, name, ""); err == nil {
			for q, p := range s.Queues {
				topics[q.Topic] = true
				lag += p.Lag()
			}
		}
	}
	return len(members), fmt.Sprintf("on %s, %s online, %s, lag %d", count(len(holders), "broker"), count(len(members), "member"), count(len(topics), "topic"), lag)
}

func (c *call) deleteGroup(ctx context.Context, r *result, name string, holders []*groupDeleteItem) {
	clean := !c.on("keep-offsets")
	topics := !c.on("keep-retry")
	if c.old {
		// mqadmin leaves offsets unless -r, and topics when one broker is named.
		clean, topics = c.on("remove-offset"), c.str("cluster") != ""
	}
	edits := make([]*edit, len(holders))
	for i, h := range holders {
		edits[i] = &edit{target: h.target, items: []any{h},
			write:  func(ctx context.Context) (bool, error) { return c.deleteGroupAt(ctx, name, h, clean, topics) },
			revert: func(ctx context.Context) error { return c.bringBack(ctx, h.target, h.things) },
			things: func() []auditThing { return h.things }}
	}
	c.carryOut(ctx, r, edits)
	if topics && r.change.Applied && !admin.IsAddress(c.str("broker")) {
		for _, t := range retryTopics(name) {
			c.forgetTopic(ctx, r, t, c.str("cluster"))
		}
	}
}

// deleteGroupAt deletes a group at one broker and notes what it was.
func (c *call) deleteGroupAt(ctx context.Context, name string, h *groupDeleteItem, clean, topics bool) (sent bool, err error) {
	// In an order whose reverse works: a group must be there before its offsets.
	h.things = nil
	if clean {
		offsets, err := c.offsetsAt(ctx, h.target, name, "")
		if err != nil {
			return false, err
		}
		for _, o := range offsets {
			h.things = append(h.things, auditThing{Target: h.Broker, Addr: h.target.Addr, Key: offsetKey(name, o.Topic, o.QueueID), Before: rawJSON(o.ConsumerOffset), After: rawJSON(nil)})
		}
	}
	h.things = append(h.things, thingOf(h.target, kindGroup+"/"+name, h.had, nil, nil))
	if err := c.client.DeleteGroup(ctx, h.target.Addr, name, clean); err != nil {
		return false, err
	}
	h.Deleted, h.OffsetsRemoved = true, clean
	if topics {
		return true, c.deleteRetryTopics(ctx, name, h)
	}
	return true, nil
}

// bringBack makes deleted things again, for --on-error rollback.
func (c *call) bringBack(ctx context.Context, t admin.Target, things []auditThing) error {
	for _, x := range slices.Backward(things) {
		if err := c.writeThing(ctx, t, x.Key, nil, stateFrom(x.Before)); err != nil {
			return err
		}
	}
	return nil
}

func retryTopics(group string) []string { return []string{"%RETRY%" + group, "%DLQ%" + group} }

func (c *call) deleteRetryTopics(ctx context.Context, name string, h *groupDeleteItem) error {
	for _, t := range retryTopics(name) {
		cfg, err := c.client.TopicConfig(ctx, h.target.Addr, t)
		var missing *admin.NotFound
		if errors.As(err, &missing) {
			continue
		}
		if err == nil {
			err = c.client.DeleteTopic(ctx, h.target.Addr, t)
		}
		if err != nil {
			return err
		}
		h.TopicsRemoved = append(h.TopicsRemoved, t)
		h.things = append(h.things, thingOf(h.target, kindTopic+"/"+t, viewOfTopic(*cfg), nil, nil))
	}
	return nil
}

// forgetTopic removes a topic from every nameserver.
func (c *call) forgetTopic(ctx context.Context, r *result, topic, cluster string) {
	for _, ns := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (struct{}, error) {
		return struct{}{}, c.client.DeleteTopicAt(ctx, addr, topic, cluster)
	}) {
		if ns.Err != nil {
			r.failed(c.at(ns.Err, ns.Target))
		}
	}
}
