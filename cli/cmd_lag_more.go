package cli

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"mqctl/cli/admin"
)

// lagSumSchema is of group lag --by topic and --by client.
const lagSumSchema = "mqctl.group.lag.sum/v1"

// lagSum is a group's backlog in the queues of a topic, or of a member.
type lagSum struct {
	Group       string  `json:"group"`
	Topic       *string `json:"topic"`    // null with --by client
	ClientID    *string `json:"clientId"` // null with --by topic, and of queues that nobody has
	Queues      int     `json:"queues" min:"0"`
	Lag         int64   `json:"lag"`
	Inflight    *int64  `json:"inflight"`
	DelayMillis *int64  `json:"delayMillis"` // of the queue that is furthest behind
}

func lagSumView() view {
	return view{
		item: lagSum{}, name: func(item any) string {
			it := item.(lagSum)
			if it.Topic != nil {
				return *it.Topic
			}
			return plain(deref(it.ClientID))
		},
		columns: []column{
			{head: "TOPIC", field: "topic"}, {head: "CLIENT", field: "clientId"}, {head: "QUEUES", field: "queues", as: asNumber}, {head: "LAG", field: "lag", as: asNumber},
			{head: "INFLIGHT", field: "inflight", as: asNumber, fold: 1}, {head: "DELAY", field: "delayMillis", as: asMillis, fold: 2},
		},
		head: headLag, foot: footLag,
	}
}

// lagBySum is the other form of group lag.
func lagBySum() *variant {
	return &variant{schema: lagSumSchema, view: lagSumView(), when: func(c *call) bool { return !c.old && c.given("by") && c.str("by") != "queue" }}
}

// sumLag makes of queues what --by says.
func (c *call) sumLag(items []any) []any {
	by := c.str("by")
	if by == "" || by == "queue" {
		return items
	}
	empty := map[string]string{"topic": "clientId", "client": "topic"}[by]
	c.p.view.columns = slices.DeleteFunc(slices.Clone(c.p.view.columns), func(col column) bool { return col.field == empty })
	sums := map[string]*lagSum{}
	for _, item := range items {
		it := item.(lagItem)
		key, topic, client := it.Topic, &it.Topic, (*string)(nil)
		if by == "client" {
			key, topic, client = plain(deref(it.ClientID)), nil, it.ClientID
		}
		s := sums[key]
		if s == nil {
			s = &lagSum{Group: it.Group, Topic: topic, ClientID: client}
			sums[key] = s
		}
		s.Queues++
		s.Lag += it.Lag
		if it.Inflight != nil {
			s.Inflight = ptr(*it.Inflight + plus(s.Inflight))
		}
		if it.DelayMillis != nil && (s.DelayMillis == nil || *it.DelayMillis > *s.DelayMillis) {
			s.DelayMillis = it.DelayMillis
		}
	}
	out := make([]any, 0, len(sums))
	for _, key := range sortedKeys(sums) {
		out = append(out, *sums[key])
	}
	return out
}

// plus is a number that may be unknown, as a summand.
func plus(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// asideTime is how long a slow broker may hold up what is only beside a command's point.
const asideTime = 300 * time.Millisecond

// whereRead asks all replicas which of them the group pulled from last, by topic and
// broker name. Only brokers of ours tell.
func (c *call) whereRead(ctx context.Context, group, topic string) map[[2]string]int64 {
	short, done := context.WithTimeout(ctx, asideTime)
	defer done()
	targets, err := c.client.Targets(short, c.selector(false))
	if err != nil {
		return nil
	}
	newest, from := map[[2]string]int64{}, map[[2]string]int64{}
	for _, res := range admin.Each(short, c.client, 0, targets, func(ctx context.Context, t admin.Target) ([][3]any, error) {
		p, err := c.client.InspectPull(ctx, t.Addr, group, topic, time.Minute)
		if err != nil {
			return nil, err
		}
		var rows [][3]any
		for _, r := range p.Rows {
			if r.Group == group {
				rows = append(rows, [3]any{[2]string{r.Topic, p.Broker}, p.BrokerID, r.LastPullAt})
			}
		}
		return rows, nil
	}) {
		for _, row := range res.Value {
			key, id, at := row[0].([2]string), row[1].(int64), row[2].(int64)
			if _, ok := from[key]; !ok || at > newest[key] {
				newest[key], from[key] = at, id
			}
		}
	}
	return from
}

// readRate is how much is stored a second in the topics that a group has a backlog in.
func (c *call) readRate(ctx context.Context, items []any, targets []admin.Target) (float64, bool) {
	topics := map[string]bool{}
	for _, item := range items {
		if it := item.(lagItem); it.Lag > 0 {
			topics[it.Topic] = true
		}
	}
	var mu sync.Mutex
	rate, known := 0.0, true
	short, done := context.WithTimeout(ctx, asideTime)
	defer done()
	admin.Each(short, c.client, 0, targets, func(ctx context.Context, t admin.Target) (none struct{}, err error) {
		for topic := range topics {
			var tps float64
			var day int64
			err := c.putStats(ctx, t.Addr, topic, &tps, &day)
			mu.Lock()
			rate += tps
			known = known && err == nil
			mu.Unlock()
		}
		return none, nil
	})
	return rate, known
}

// lagPace works out how long a group takes to catch up at the rates of the last minute.
func (c *call) lagPace(ctx context.Context, r *result, t *lagTotals, targets []admin.Target) {
	if t.Lag == nil || *t.Lag <= 0 || t.Members == 0 || len(r.errors) > 0 {
		return
	}
	in, known := c.readRate(ctx, r.items, targets)
	if !known {
		return
	}
	t.in = &in
	if faster := t.ConsumePerSecond - in; faster > 0 {
		t.CatchUpMillis = ptr(int64(float64(*t.Lag) / faster * 1000))
	}
}

// footLag says when the backlog will be gone.
func footLag(p *printer, r *result) {
	t, ok := r.extra.(lagTotals)
	if !ok || t.in == nil || *t.in == 0 && t.ConsumePerSecond == 0 {
		return
	}
	rates := fmt.Sprintf("at the present rates (in %s/s, out %s/s)", p.style.cell(*t.in, asRate), p.style.cell(t.ConsumePerSecond, asRate))
	if t.CatchUpMillis == nil {
		p.printf("\nnot catching up %s\n", rates)
		return
	}
	p.printf("\nabout %s to catch up %s\n", shortDuration(time.Duration(*t.CatchUpMillis)*time.Millisecond), rates)
}

// oldestUnread is the longest delay of queues with a backlog.
func oldestUnread(items []any) *int64 {
	var most *int64
	for _, item := range items {
		if it, ok := item.(lagItem); ok && it.Lag > 0 && it.DelayMillis != nil && (most == nil || *it.DelayMillis > *most) {
			most = it.DelayMillis
		}
	}
	return most
}

// headLag is the summary line above the table.
func headLag(p *printer, r *result) {
	t, ok := r.extra.(lagTotals)
	if !ok {
		return
	}
	parts := []string{p.style.cyan(t.group)}
	if t.model != "" {
		parts = append(parts, t.model, map[string]string{"CONSUME_PASSIVELY": "PUSH", "CONSUME_ACTIVELY": "PULL", "CONSUME_POP": "POP"}[t.typ])
	}
	parts = append(parts, count(t.Members, "member"), p.style.cell(t.ConsumePerSecond, asRate)+" msg/s")
	lag := "n/a"
	if t.Lag != nil {
		lag = p.style.cell(*t.Lag, asNumber)
	}
	parts = append(parts, "lag "+lag)
	if t.oldest != nil {
		parts = append(parts, "oldest unread "+p.style.cell(*t.oldest, asMillis))
	}
	if t.Reason != nil {
		parts = append(parts, strings.ToLower(*t.Reason))
	}
	p.printf("%s\n\n", strings.Join(parts, " · "))
}

func sortLag(items []any) {
	sort.Slice(items, func(i, j int) bool {
		a, b := items[i].(lagItem), items[j].(lagItem)
		switch {
		case a.Topic != b.Topic:
			return a.Topic < b.Topic
		case a.Broker != b.Broker:
			return a.Broker < b.Broker
		}
		return a.QueueID < b.QueueID
	})
}
