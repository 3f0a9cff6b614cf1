package cli

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// pullItem is what one broker told the pulls of one group on one topic, and why.
type pullItem struct {
	Group           string         `json:"group"`
	Topic           string         `json:"topic"`
	Broker          string         `json:"broker"`
	BrokerID        int64          `json:"brokerId" min:"0"`
	WindowMillis    *int64         `json:"windowMillis"`
	Pulls           *int64         `json:"pulls"`
	PullsPerSecond  *float64       `json:"pullsPerSecond"`
	Suggested       []suggestedIDs `json:"suggested"`
	ToMasterPercent *float64       `json:"toMasterPercent"`
	ToSlavePercent  *float64       `json:"toSlavePercent"`
	SlowPulls       *int64         `json:"slowPulls"`
	BehindBytes     *int64         `json:"behindBytes"` // newest byte minus last message of the newest pull
	LimitBytes      *int64         `json:"limitBytes"`
	Followed        *bool          `json:"followed"`
	Reason          *string        `json:"reason" enum:"WITHIN_MEMORY|BEHIND_LIMIT|SLAVE_READ_DISABLED|REDIRECTED_TO_MASTER|BROKER_ID_MISSING|SLAVE_DEAD|SLAVE_UNREADABLE|SLAVE_BEHIND|MASTER_DEAD|OFFSET_MOVED"`
	Reasons         []reasonCount  `json:"reasons"`
	Why             string         `json:"why"`
	Source          string         `json:"source" enum:"COUNTERS|OUTSIDE"` // OUTSIDE: from the configuration and the backlog
	LastPullAt      *string        `json:"lastPullAt"`
	Config          pullConfig     `json:"config"`
	Explain         []explainStep  `json:"explain,omitempty"` // with --explain

	toChange []string
	target   admin.Target
}

// suggestedIDs is how often one broker id was suggested; -1 sums rare ones.
type suggestedIDs struct {
	BrokerID int64 `json:"brokerId"`
	Count    int64 `json:"count"`
}

// reasonCount is how often one reason decided.
type reasonCount struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// pullConfig are the settings that decide.
type pullConfig struct {
	BrokerID        int64  `json:"brokerId"`
	SlowBrokerID    int64  `json:"whichBrokerWhenConsumeSlowly"`
	SlaveReadEnable *bool  `json:"slaveReadEnable"`
	MemoryRatio     *int64 `json:"accessMessageInMemoryMaxRatio"`
}

const pullSchema = "mqctl.stats.pull/v1"

func pullView() view {
	return view{
		item: pullItem{}, name: func(item any) string {
			it := item.(*pullItem)
			return fmt.Sprintf("%s@%s@%s/%d", it.Topic, it.Group, it.Broker, it.BrokerID)
		},
		columns: []column{
			{head: "GROUP", field: "group"}, {head: "TOPIC", field: "topic"}, {head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber},
			{head: "PULLS/s", field: "pullsPerSecond", as: asRate}, {head: "→ MASTER", field: "toMasterPercent", as: asPercent},
			{head: "→ SLAVE", field: "toSlavePercent", as: asPercent}, {head: "BEHIND", field: "behindBytes", as: asBytes},
			{head: "LIMIT", field: "limitBytes", as: asBytes, fold: 1}, {head: "FOLLOWED", field: "followed", fold: 2}, {head: "WHY", field: "why"},
			{head: "PULLS", field: "pulls", as: asNumber, wide: true}, {head: "SLOW", field: "slowPulls", as: asNumber, wide: true},
			{head: "REASON", field: "reason", wide: true}, {head: "LAST PULL", field: "lastPullAt", as: asTime, wide: true},
		},
	}
}

func pullCommand() *command {
	return &command{
		path: "stats pull", summary: "where consumers are sent to read, and why", run: runStatsPull,
		schema: pullSchema, exits: []int{ExitNotFound, ExitPartial}, view: pullView(),
		examples: []string{
			"mqctl stats pull", "mqctl stats pull --group order_consumer --window 1m --output json",
			"mqctl stats pull --explain --group order_consumer --topic orders",
		},
		flags: []flagSpec{
			{key: "group", meta: "GROUP", complete: "group", help: "this group only"},
			{key: "topic", meta: "TOPIC", complete: "topic", help: "this topic only"},
			{key: "window", kind: kindDuration, meta: "DUR", help: "how far back to count; at most what the broker keeps (pullStatsWindow)"},
			{key: "explain", kind: kindBool, help: "walk through the broker's decision with the numbers of the moment"},
		},
	}
}

func runStatsPull(ctx context.Context, c *call) (*result, error) {
	if c.given("window") && c.duration("window") <= 0 {
		return nil, usage("BAD_VALUE", "--window %s is no length of time to count in", c.str("window")).try("--window 1m")
	}
	targets, err := c.offsetTargets(ctx, c.selector(false))
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	var others []outsider // brokers without counters
	for _, res := range c.replicas(ctx, targets, true) {
		switch {
		case res.Err != nil:
			r.failed(c.at(res.Err, res.Target))
		case !hasCapability(res.Value.runtime, "MQCTL_INSPECT"):
			others = append(others, outsider{res.Target, res.Value})
		default:
			c.pullCounts(ctx, r, res.Target)
		}
	}
	c.pullOutside(ctx, r, others, targets)
	sortPull(r.items)
	if len(r.items) == 0 && len(r.errors) == 0 {
		if err := c.pullMissing(ctx, r, targets); err != nil {
			return nil, err
		}
		r.empty = "nobody pulled " + c.pullScope() + " in the window"
	}
	if c.on("explain") {
		c.p.view.people, c.p.view.piped = printExplained, printExplained
	}
	return r, nil
}

// pullScope names what was asked for, in a sentence.
func (c *call) pullScope() string {
	switch group, topic := c.str("group"), c.str("topic"); {
	case group != "" && topic != "":
		return fmt.Sprintf("%s as group %s", topic, group)
	case group != "":
		return "as group " + group
	case topic != "":
		return topic
	}
	return "anything"
}

// hasCapability says whether a broker told in its runtime state that it serves a
// private request.
func hasCapability(rt runtimeView, name string) bool {
	for _, w := range strings.FieldsFunc(rt["mqctlCapabilities"], func(r rune) bool { return r == ',' || r == ' ' }) {
		if w == name {
			return true
		}
	}
	return false
}

// pullCounts adds what a broker of ours counted.
func (c *call) pullCounts(ctx context.Context, r *result, t admin.Target) {
	v, err := c.client.InspectPull(ctx, t.Addr, c.str("group"), c.str("topic"), c.duration("window"))
	if err != nil {
		r.failed(c.at(err, t))
		return
	}
	r.done++
	if want := c.duration("window"); want > time.Duration(v.WindowMillis)*time.Millisecond {
		m := warning("WINDOW_SHORTER", t.String(), "%s keeps only the last %s", t, shortDuration(time.Duration(v.WindowMillis)*time.Millisecond))
		short := strings.TrimSuffix(want.String(), "0s") // 10m0s
		if !strings.HasSuffix(short, "m") {
			short = want.String()
		}
		m.offer("mqctl broker config set pullStatsWindow=" + short + " --broker " + t.String())
		r.warn(m)
	}
	for i := range v.Rows {
		it := countedPull(v, &v.Rows[i], t)
		if c.on("explain") {
			it.explainCounted(v, &v.Rows[i])
		}
		r.add(it)
	}
}

// countedPull is a row of counters.
func countedPull(v *body.InspectPull, row *body.InspectPullRow, t admin.Target) *pullItem {
	it := &pullItem{
		Group: row.Group, Topic: row.Topic, Broker: v.Broker, BrokerID: v.BrokerID, WindowMillis: &v.WindowMillis, Pulls: &row.Pulls,
		SlowPulls: &row.Slow, BehindBytes: &row.BehindBytes, LimitBytes: &v.LimitBytes, Followed: row.Followed, Source: "COUNTERS",
		Suggested: []suggestedIDs{}, Reasons: []reasonCount{}, LastPullAt: stampMillis(row.LastPullAt), target: t,
		Config: pullConfig{BrokerID: row.GroupBroker, SlowBrokerID: row.GroupSlow, SlaveReadEnable: &v.SlaveRead, MemoryRatio: ptr(int64(v.Configured))},
	}
	if row.Reason != "" {
		it.Reason = &row.Reason
	}
	if v.Covered > 0 {
		it.PullsPerSecond = ptr(float64(row.Pulls*1000) / float64(v.Covered))
	}
	master := int64(0)
	for id, n := range row.Suggested {
		it.Suggested = append(it.Suggested, suggestedIDs{id, n})
		if id == 0 {
			master += n
		}
	}
	if row.Pulls > 0 {
		it.ToMasterPercent = ptr(tenths(float64(master) * 100 / float64(row.Pulls)))
		it.ToSlavePercent = ptr(tenths(100 - *it.ToMasterPercent))
	}
	for why, n := range row.Reasons {
		it.Reasons = append(it.Reasons, reasonCount{why, n})
	}
	sort.Slice(it.Suggested, func(i, j int) bool { return it.Suggested[i].BrokerID < it.Suggested[j].BrokerID })
	sort.Slice(it.Reasons, func(i, j int) bool {
		a, b := it.Reasons[i], it.Reasons[j]
		return a.Count > b.Count || a.Count == b.Count && a.Reason < b.Reason
	})
	it.Why = whyPull(v, row)
	return it
}

// tenths rounds a percentage.
func tenths(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

// whyPull says the reason of the newest answer in words.
func whyPull(v *body.InspectPull, row *body.InspectPullRow) string {
	why := whyAnswered(v, row)
	if v.Role == "SLAVE" && !v.MasterAlive && row.Reason != "MASTER_DEAD" && row.Reason != "OFFSET_MOVED" {
		why += " (nobody has pulled since its master went away)"
	}
	return why
}

// whyAnswered is the reason as it was when the newest pull was answered.
func whyAnswered(v *body.InspectPull, row *body.InspectPullRow) string {
	setting := fmt.Sprintf("brokerId=%d", row.GroupBroker)
	if row.BehindBytes > v.LimitBytes {
		setting = fmt.Sprintf("whichBrokerWhenConsumeSlowly=%d", row.GroupSlow)
	}
	switch row.Reason {
	case "WITHIN_MEMORY":
		return "within memory, " + setting
	case "BEHIND_LIMIT":
		if v.Role == "SLAVE" {
			return fmt.Sprintf("still behind on the slave, which lets go at %d %%, %s", v.MemoryRatio, setting)
		}
		return "behind the limit, " + setting
	case "SLAVE_READ_DISABLED":
		if row.BehindBytes > v.LimitBytes {
			return "behind, but slaveReadEnable=false"
		}
		return "slaveReadEnable=false"
	case "REDIRECTED_TO_MASTER":
		return "the slave lacks what was asked for, its master may have it"
	case "BROKER_ID_MISSING":
		return setting + ", but no such broker is connected"
	case "SLAVE_DEAD":
		return setting + ", but that broker is not connected any more"
	case "SLAVE_UNREADABLE":
		return setting + ", but that broker serves no reads"
	case "SLAVE_BEHIND":
		return setting + ", but that broker does not hold the offset yet"
	case "MASTER_DEAD":
		return "the master is gone: the slave serves alone"
	case "OFFSET_MOVED":
		return "the offset was outside of the queue, or reset"
	}
	return strings.ToLower(strings.ReplaceAll(row.Reason, "_", " "))
}

func sortPull(items []any) {
	sort.SliceStable(items, func(i, j int) bool {
		a, b := items[i].(*pullItem), items[j].(*pullItem)
		switch {
		case a.Group != b.Group:
			return a.Group < b.Group
		case a.Topic != b.Topic:
			return a.Topic < b.Topic
		case a.Broker != b.Broker:
			return a.Broker < b.Broker
		}
		return a.BrokerID < b.BrokerID
	})
}

// pullMissing tells a name that does not exist from one that nobody pulled.
func (c *call) pullMissing(ctx context.Context, r *result, targets []admin.Target) error {
	if topic := c.str("topic"); topic != "" {
		if _, err := c.client.Route(ctx, topic); err != nil {
			return c.explain(err)
		}
	}
	group := c.str("group")
	if group == "" {
		return nil
	}
	known := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		if g.Err != nil {
			return nil // it may be there
		}
		for name := range g.Value {
			known[name] = true
		}
	}
	if known[group] {
		return nil
	}
	return groupMissing(group, r.cluster, known)
}
