package cli

import (
	"context"
	"math"
	"sort"
	"strings"

	"mqctl/cli/admin"
)

const lagListSchema = "mqctl.stats.lag/v1"

// groupLine is a group over all brokers: one line of group list and stats lag.
type groupLine struct {
	Group            string   `json:"group"`
	Type             *string  `json:"type"`  // CONSUME_PASSIVELY ..., null when offline
	Model            *string  `json:"model"` // CLUSTERING or BROADCASTING, null when offline
	Members          int      `json:"members" min:"0"`
	Topics           int      `json:"topics" min:"0"`
	Lag              *int64   `json:"lag"`
	ConsumePerSecond float64  `json:"consumePerSecond"`
	PreferredBroker  int64    `json:"preferredBroker"`
	SlowBroker       int64    `json:"slowBroker"`
	Brokers          []string `json:"brokers"`

	version int // smallest of the members; -1 without any
	topics  map[string]bool
	members map[string]bool
}

func groupListView() view {
	return view{
		item: groupLine{}, name: func(item any) string { return item.(*groupLine).Group },
		columns: []column{
			{head: "GROUP", field: "group"}, {head: "TYPE", field: "type", wide: true}, {head: "MODEL", field: "model", fold: 3},
			{head: "MEMBERS", field: "members", as: asNumber}, {head: "TOPICS", field: "topics", as: asNumber, fold: 2},
			{head: "LAG", field: "lag", as: asNumber}, {head: "OUT/s", field: "consumePerSecond", as: asRate},
			{head: "BROKER ID", field: "preferredBroker", as: asNumber}, {head: "SLOW BROKER", field: "slowBroker", as: asNumber},
			{head: "BROKERS", field: "brokers", as: asList, fold: 4},
		},
	}
}

func lagListView() view {
	v := groupListView()
	v.old = oldLagList
	return v
}

func lagListCommand() *command {
	return &command{
		path: "stats lag", summary: "backlog of all groups", run: runLagList, schema: lagListSchema,
		exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse}, view: lagListView(),
		examples: []string{"mqctl stats lag", "mqctl stats lag --min 1000 --sort lag", "mqctl stats lag --broker broker-a --fail-above 100000"},
		flags: []flagSpec{
			{key: "min", kind: kindInt, max: math.MaxInt64, meta: "N", help: "only groups with at least this lag"},
			{key: "fail-above", kind: kindInt, max: math.MaxInt64, meta: "N", help: "exit 7 when a lag is larger"},
		},
	}
}

// groupLines asks all brokers about all of their groups.
func (c *call) groupLines(ctx context.Context, r *result, keep func(string) bool) ([]*groupLine, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r.cluster = clusterOf(targets)
	lines := map[string]*groupLine{}
	var asks []groupAsk
	for _, g := range eachRead(ctx, c, r, targets, c.groupsAt) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		r.done++
		for _, name := range sortedKeys(g.Value) {
			if !keep(name) {
				continue
			}
			l := lines[name]
			if l == nil {
				l = &groupLine{Group: name, version: -1, topics: map[string]bool{}, members: map[string]bool{}, Brokers: []string{},
					PreferredBroker: g.Value[name].BrokerID, SlowBroker: g.Value[name].WhichBrokerWhenConsumeSlowly}
				lines[name] = l
			}
			l.Brokers = append(l.Brokers, g.Target.String())
			asks = append(asks, groupAsk{g.Target, name})
		}
	}
	c.askGroups(ctx, r, lines, asks)
	out := make([]*groupLine, 0, len(lines))
	for _, name := range sortedKeys(lines) {
		l := lines[name]
		l.Topics, l.Members = len(l.topics), len(l.members)
		out = append(out, l)
	}
	return out, nil
}

// groupAsk is one group at one broker.
type groupAsk struct {
	target admin.Target
	group  string
}

// askGroups fills lines in from what the brokers say.
func (c *call) askGroups(ctx context.Context, r *result, lines map[string]*groupLine, asks []groupAsk) {
	targets := make([]admin.Target, len(asks))
	for i, a := range asks {
		targets[i] = a.target
	}
	silent := map[string]bool{}
	for i, res := range admin.Each(ctx, c.client, 0, indexed(targets), func(ctx context.Context, t admin.Target) (progress, error) {
		i, target := atIndex(t, targets)
		return c.progressAt(asks[i].group, "")(ctx, target)
	}) {
		a := asks[i]
		if res.Err != nil {
			if !silent[a.target.Addr] {
				r.failed(c.at(res.Err, a.target))
			}
			silent[a.target.Addr] = true
			continue
		}
		lines[a.group].add(res.Value)
	}
}

func (l *groupLine) add(p progress) {
	if m := p.members; m != nil {
		l.Type, l.Model = ptr(m.ConsumeType), ptr(m.MessageModel)
		for _, conn := range m.Connections {
			l.members[conn.ClientID] = true
			if l.version < 0 || conn.Version < l.version {
				l.version = conn.Version
			}
		}
		for topic := range m.Subscriptions {
			if !strings.HasPrefix(topic, "%RETRY%") {
				l.topics[topic] = true
			}
		}
	}
	if p.stats == nil || len(p.stats.Queues) == 0 {
		return
	}
	l.ConsumePerSecond += p.stats.TPS
	sum := int64(0)
	if l.Lag != nil {
		sum = *l.Lag
	}
	for q, v := range p.stats.Queues {
		sum += v.Lag()
		if !strings.HasPrefix(q.Topic, "%RETRY%") {
			l.topics[q.Topic] = true
		}
	}
	l.Lag = &sum
}

// hideBroadcast drops the invented backlog of groups whose members keep their
// own offsets.
func (l *groupLine) hideBroadcast() {
	if l.Model != nil && *l.Model == "BROADCASTING" {
		l.Lag = nil
	}
}

func runGroupList(ctx context.Context, c *call) (*result, error) {
	r := &result{empty: "no group fits"}
	lines, err := c.groupLines(ctx, r, func(name string) bool { return c.on("system") || !systemGroup(name) })
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		l.hideBroadcast()
		switch {
		case c.on("offline") && l.Members > 0:
		case c.on("behind") && (l.Lag == nil || *l.Lag <= 0):
		case c.str("topic") != "" && !l.topics[c.str("topic")]:
		default:
			r.add(l)
		}
	}
	return r, nil
}

func runLagList(ctx context.Context, c *call) (*result, error) {
	r := &result{empty: "no group fits"}
	lines, err := c.groupLines(ctx, r, func(name string) bool { return !systemGroup(name) })
	if err != nil {
		return nil, err
	}
	least := c.whole("min")
	for _, l := range lines {
		l.hideBroadcast()
		lag := int64(0)
		if l.Lag != nil {
			lag = *l.Lag
		}
		if lag < least {
			continue
		}
		r.add(l)
		if c.given("fail-above") && lag > c.whole("fail-above") {
			r.exit = ExitConditionFalse
		}
	}
	sort.SliceStable(r.items, func(i, j int) bool {
		return compare(lookup(r.items[j], "lag"), lookup(r.items[i], "lag")) < 0 && lookup(r.items[i], "lag") != nil
	})
	return r, nil
}

// oldLagList is mqadmin's layout of consumerProgress without a group.
func oldLagList(p *printer, r *result) {
	p.printf("%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s\n", "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
	for _, item := range r.items {
		l := item.(*groupLine)
		version, typ, model := "OFFLINE", "", ""
		if l.Members > 0 {
			version = versionText(l.version)
			if l.Type != nil && l.Model != nil {
				typ, model = oldType(*l.Type), *l.Model
			}
		}
		lag := int64(0)
		if l.Lag != nil {
			lag = *l.Lag
		}
		p.printf("%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d\n", l.Group, l.Members, version, typ, model, int64(l.ConsumePerSecond), lag)
	}
}

func oldType(t string) string {
	switch t {
	case "CONSUME_PASSIVELY":
		return "PUSH"
	case "CONSUME_ACTIVELY":
		return "PULL"
	}
	return strings.TrimPrefix(t, "CONSUME_")
}
