package cli

import (
	"context"
	"math"
	"sort"
	"strings"
	"sync"

	"mqctl/cli/admin"
	"mqctl/subgroup"
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
	for _, g := range eachRead(ctx, c, targets, c.heldAt) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		r.done++
		for _, name := range sortedKeys(g.Value.configs) {
			if !keep(name) {
				continue
			}
			l := lines[name]
			if l == nil {
				config := g.Value.configs[name]
				l = &groupLine{Group: name, version: -1, topics: map[string]bool{}, members: map[string]bool{}, Brokers: []string{},
					PreferredBroker: config.BrokerID, SlowBroker: config.WhichBrokerWhenConsumeSlowly}
				lines[name] = l
			}
			l.Brokers = append(l.Brokers, g.Target.String())
			ask := groupAsk{g.Target, name, g.Value.stats[name]}
			if ask.stats != nil && g.Value.offline(name) {
				l.add(progress{stats: ask.stats})
				continue
			}
			asks = append(asks, ask)
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

// held is what a broker says of all of its groups in a few answers.
type held struct {
	configs map[string]subgroup.Config
	stats   map[string]*admin.ConsumeStats // of groups about which nothing more need be asked
	online  map[string]bool                // groups with members; nil: the broker tells them group by group only
}

func (h *held) offline(group string) bool { return h.online != nil && !h.online[group] }

// heldAt asks for the settings, the progress and the members of all groups at once.
func (c *call) heldAt(ctx context.Context, t admin.Target) (held, error) {
	var h held
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { h.configs, err = c.groupsAt(ctx, t) })
	wg.Go(func() { h.stats = c.statsAt(ctx, t) })
	wg.Go(func() { h.online = c.onlineAt(ctx, t) })
	wg.Wait()
	return h, err
}

// statsAt is the progress of the groups for which 317 tells all that 208 does:
// it counts the queues that take writes, and some topics have more to read.
func (c *call) statsAt(ctx context.Context, t admin.Target) map[string]*admin.ConsumeStats {
	all, err := c.client.BrokerConsumeStats(ctx, t.Addr, false)
	if err != nil {
		return nil // each group is asked for
	}
	topics, _, err := c.client.TopicConfigs(ctx, t.Addr)
	if err != nil {
		return nil
	}
	out := map[string]*admin.ConsumeStats{}
	for _, one := range all.Groups {
		for group, list := range one {
			sum := &admin.ConsumeStats{Queues: map[admin.Queue]admin.QueueProgress{}}
			same := true
			for _, s := range list {
				sum.TPS += s.TPS
				for q, p := range s.Queues {
					t := topics[q.Topic]
					same = same && t.ReadQueueNums == t.WriteQueueNums
					sum.Queues[q] = p
				}
			}
			if same {
				out[group] = sum
			}
		}
	}
	return out
}

// onlineAt is which groups have members, by a broker of ours.
func (c *call) onlineAt(ctx context.Context, t admin.Target) map[string]bool {
	v, err := c.client.InspectClients(ctx, t.Addr)
	if err != nil || v.More > 0 {
		return nil
	}
	out := map[string]bool{}
	for _, one := range v.Clients {
		out[one.Group] = true
	}
	return out
}

// groupAsk is one group at one broker, and its progress if that is known.
type groupAsk struct {
	target admin.Target
	group  string
	stats  *admin.ConsumeStats
}

// askGroups fills lines in from what the brokers say.
func (c *call) askGroups(ctx context.Context, r *result, lines map[string]*groupLine, asks []groupAsk) {
	targets := make([]admin.Target, len(asks))
	for i, a := range asks {
		targets[i] = a.target
	}
	silent := map[string]bool{}
	for i, res := range admin.Each(ctx, c.client, 0, indexed(targets), func(ctx context.Context, t admin.Target) (p progress, err error) {
		i, target := atIndex(t, targets)
		if p.stats = asks[i].stats; p.stats == nil {
			return c.progressAt(asks[i].group, "")(ctx, target)
		}
		p.members, err = c.membersAt(ctx, target, asks[i].group)
		return p, err
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
