package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// lagItem is a group's progress in one queue.
type lagItem struct {
	Group             string  `json:"group"`
	Topic             string  `json:"topic"`
	Broker            string  `json:"broker"`
	QueueID           int32   `json:"queueId" min:"0"`
	BrokerOffset      int64   `json:"brokerOffset"`
	ConsumerOffset    int64   `json:"consumerOffset"`
	Lag               int64   `json:"lag"`
	Inflight          *int64  `json:"inflight"`
	DelayMillis       *int64  `json:"delayMillis"` // age of the newest consumed message while there is a lag
	LastConsumedAt    *string `json:"lastConsumedAt"`
	ReadsFromBrokerID *int64  `json:"readsFromBrokerId"`
	ClientID          *string `json:"clientId"` // with --clients
	Source            string  `json:"source" enum:"MASTER|SLAVE"`

	lastMillis, inflight int64
}

// lagTotals sums a group up.
type lagTotals struct {
	Lag              *int64  `json:"lag"`
	Inflight         *int64  `json:"inflight"`
	ConsumePerSecond float64 `json:"consumePerSecond"`
	Members          int     `json:"members"`
	CatchUpMillis    *int64  `json:"catchUpMillis"`
	Reason           *string `json:"reason,omitempty" enum:"BROADCASTING|OFFLINE|NO_OFFSETS"`

	group, typ, model string
	in                *float64 // stored a second
	oldest            *int64
}

func lagView() view {
	return view{
		item: lagItem{}, name: func(item any) string {
			it := item.(lagItem)
			return fmt.Sprintf("%s:%d", it.Broker, it.QueueID)
		},
		columns: []column{
			{head: "TOPIC", field: "topic"}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber},
			{head: "BROKER OFFSET", field: "brokerOffset", as: asNumber}, {head: "CONSUMER OFFSET", field: "consumerOffset", as: asNumber},
			{head: "LAG", field: "lag", as: asNumber}, {head: "INFLIGHT", field: "inflight", as: asNumber, fold: 1},
			{head: "DELAY", field: "delayMillis", as: asMillis, fold: 2}, {head: "READS FROM", field: "readsFromBrokerId", as: asReplica, fold: 4},
			{head: "CLIENT", field: "clientId", fold: 3},
		},
		old: oldLag, head: headLag, foot: footLag,
	}
}

func lagCommand() *command {
	return &command{
		path: "group lag", old: "consumerProgress", summary: "backlog of a group per queue", args: "GROUP", min: 1, max: 1, argFrom: "group",
		run: runLag, schema: "mqctl.group.lag/v1", variant: lagBySum(), exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse}, view: lagView(),
		examples: []string{
			"mqctl group lag order_consumer", "mqctl group lag order_consumer --topic orders --fail-above 10000", "mqctl group lag order_consumer --by topic",
			"mqctl consumerProgress -n 127.0.0.1:9876 -g order_consumer",
		},
		flags: []flagSpec{
			{key: "group", long: "groupName", short: "g", arg: 1, meta: "GROUP", complete: "group", help: "the group; without it one line for each group"},
			{key: "topic", long: "topicName", short: "t", meta: "TOPIC", complete: "topic", help: "this topic only"},
			{key: "by", newOnly: true, kind: kindEnum, enum: []string{"queue", "topic", "client"}, meta: "WHAT", help: "a line for each queue, topic or member"},
			{key: "clients", long: "showClientIP", short: "s", kind: kindBool, help: "ask the members which queues they have"},
			{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
			{key: "fail-above", kind: kindInt, max: math.MaxInt64, meta: "N", help: "exit 7 when the lag is larger"},
		},
	}
}

// progress is what one broker said of a group.
type progress struct {
	stats   *admin.ConsumeStats
	members *admin.ConsumerConnections
}

func (c *call) progressAt(group, topic string) func(context.Context, admin.Target) (progress, error) {
	return func(ctx context.Context, t admin.Target) (progress, error) {
		var p progress
		var err error
		var missing *admin.NotFound
		if p.stats, err = c.client.ConsumeStats(ctx, t.Addr, group, topic); err != nil && !errors.As(err, &missing) {
			return p, err
		}
		p.members, err = c.membersAt(ctx, t, group)
		return p, err
	}
}

// membersAt is nil if nobody is online there.
func (c *call) membersAt(ctx context.Context, t admin.Target, group string) (*admin.ConsumerConnections, error) {
	m, err := c.client.ConsumerConnections(ctx, t.Addr, group)
	var offline *admin.NotOnline
	var refused *admin.Refused
	if errors.As(err, &offline) || errors.As(err, &refused) && !refused.Denied() {
		return nil, nil
	}
	return m, err
}

func runLag(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if group == "" {
		c.p.view, c.p.schema = lagListView(), lagListSchema
		return runLagList(ctx, c)
	}
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	totals := lagTotals{group: group}
	var reads map[[2]string]int64
	var aside sync.WaitGroup
	if !c.old { // mqadmin's layout has no place for it
		aside.Go(func() { reads = c.whereRead(ctx, group, c.str("topic")) })
	}
	seen := map[string]bool{}
	lag, inflight := int64(0), int64(0)
	for _, res := range eachRead(ctx, c, targets, c.progressAt(group, c.str("topic"))) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		totals.join(res.Value.members, seen)
		if res.Value.stats == nil {
			continue
		}
		totals.ConsumePerSecond += res.Value.stats.TPS
		for q, p := range res.Value.stats.Queues {
			it := lagOf(group, q, p, c.begun)
			it.Source = sourceOf(res.Target)
			r.add(it)
			lag, inflight = lag+p.Lag(), inflight+max(0, p.Inflight())
		}
	}
	aside.Wait()
	r.readFrom(reads)
	sortLag(r.items)
	totals.Members = len(seen)
	if err := c.lagReason(ctx, r, &totals, group, targets, lag, inflight); err != nil {
		return nil, err
	}
	if c.on("clients") || c.str("by") == "client" {
		c.lagClients(ctx, r, group, targets, seen)
	}
	if !c.old {
		c.lagPace(ctx, r, &totals, targets)
	}
	totals.oldest = oldestUnread(r.items)
	r.items = c.sumLag(r.items)
	r.totals, r.extra = totals, totals
	if totals.Reason != nil {
		r.empty = whyNoLag[*totals.Reason]
	}
	if c.given("fail-above") && totals.Lag != nil && *totals.Lag > c.whole("fail-above") {
		r.exit = ExitConditionFalse
	}
	return r, nil
}

// whyNoLag says for people why there is nothing to show.
var whyNoLag = map[string]string{
	"NO_OFFSETS": "the group has stored no offsets yet", "BROADCASTING": "members of a broadcasting group keep their own offsets: there is no backlog to show",
}

// readFrom fills in which replica each queue is read from.
func (r *result) readFrom(reads map[[2]string]int64) {
	for i, item := range r.items {
		it := item.(lagItem)
		if id, ok := reads[[2]string{it.Topic, it.Broker}]; ok {
			it.ReadsFromBrokerID = &id
			r.items[i] = it
		}
	}
}

// join adds the members that one broker knows.
func (t *lagTotals) join(m *admin.ConsumerConnections, seen map[string]bool) {
	if m == nil {
		return
	}
	t.typ, t.model = m.ConsumeType, m.MessageModel
	for _, c := range m.Connections {
		seen[c.ClientID] = true
	}
}

// lagReason decides what the numbers mean, and whether there is such a group.
func (c *call) lagReason(ctx context.Context, r *result, t *lagTotals, group string, targets []admin.Target, lag, inflight int64) error {
	switch {
	case t.model == "BROADCASTING":
		// Members keep their own offsets: a backlog would be an invention.
		t.Reason = ptr("BROADCASTING")
		r.items = nil
		return nil
	case len(r.items) == 0:
		t.Reason = ptr("NO_OFFSETS")
		if t.Members > 0 || len(r.errors) > 0 {
			return nil
		}
		known := map[string]bool{}
		for _, g := range allGroups(ctx, c, targets) {
			if g.Err != nil {
				return nil
			}
			if _, ok := g.Value[group]; ok {
				return nil
			}
			for n := range g.Value {
				known[n] = true
			}
		}
		return groupMissing(group, r.cluster, known)
	case t.Members == 0:
		t.Reason = ptr("OFFLINE")
	}
	t.Lag, t.Inflight = &lag, &inflight
	return nil
}

func lagOf(group string, q admin.Queue, p admin.QueueProgress, now time.Time) lagItem {
	it := lagItem{
		Group: group, Topic: q.Topic, Broker: q.Broker, QueueID: q.ID, BrokerOffset: p.BrokerOffset,
		ConsumerOffset: p.ConsumerOffset, Lag: p.Lag(), LastConsumedAt: stampMillis(p.LastMillis),
		lastMillis: p.LastMillis, inflight: p.Inflight(),
	}
	if it.inflight >= 0 { // the progress of all groups of a broker says nothing of what was pulled
		it.Inflight = &it.inflight
	}
	switch {
	case it.Lag <= 0:
		it.DelayMillis = ptr(int64(0))
	case p.LastMillis > 0:
		it.DelayMillis = ptr(max(0, now.UnixMilli()-p.LastMillis))
	}
	return it
}

// lagClients asks every member which queues it has.
func (c *call) lagClients(ctx context.Context, r *result, group string, targets []admin.Target, members map[string]bool) {
	owner := map[admin.Queue]string{}
	asked := map[string]bool{}
	for _, t := range targets {
		for id := range members {
			if asked[id] {
				continue
			}
			info, err := c.client.RunningInfo(ctx, t.Addr, group, id, false)
			if err != nil {
				continue
			}
			asked[id] = true
			for q := range info.Queues {
				owner[q] = id
			}
		}
	}
	for i, item := range r.items {
		it := item.(lagItem)
		if id, ok := owner[admin.Queue{Topic: it.Topic, Broker: it.Broker, ID: it.QueueID}]; ok {
			it.ClientID = &id
			r.items[i] = it
		}
	}
	for id := range members {
		if !asked[id] {
			r.warn(warning("CLIENT_SILENT", id, "client %s did not say which queues it has", id))
		}
	}
}

// oldLag is mqadmin's layout of consumerProgress with a group.
func oldLag(p *printer, r *result) {
	t, _ := r.extra.(lagTotals)
	clients := false
	for _, item := range r.items {
		clients = clients || item.(lagItem).ClientID != nil
	}
	if clients {
		p.printf("%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s\n",
			"#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Client IP", "#Diff", "#Inflight", "#LastTime")
	} else {
		p.printf("%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s\n",
			"#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#Inflight", "#LastTime")
	}
	diff, inflight := int64(0), int64(0)
	for _, item := range r.items {
		it := item.(lagItem)
		last := "N/A"
		if it.lastMillis > 0 {
			last = time.UnixMilli(it.lastMillis).Format("2006-01-02 15:04:05")
		}
		diff, inflight = diff+it.Lag, inflight+it.inflight
		if clients {
			ip := "N/A"
			if it.ClientID != nil {
				ip, _, _ = strings.Cut(*it.ClientID, "@")
			}
			p.printf("%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d %-20d %s\n",
				it.Topic, it.Broker, it.QueueID, it.BrokerOffset, it.ConsumerOffset, ip, it.Lag, it.inflight, last)
			continue
		}
		p.printf("%-64s  %-32s  %-4d  %-20d  %-20d  %-20d %-20d %s\n",
			it.Topic, it.Broker, it.QueueID, it.BrokerOffset, it.ConsumerOffset, it.Lag, it.inflight, last)
	}
	p.printf("\nConsume TPS: %.2f\nConsume Diff Total: %d\nConsume Inflight Total: %d\n", t.ConsumePerSecond, diff, inflight)
}

// versionText is a client's or broker's version number as V5_3_3 (MQVersion:
// from 4.0.0 on every minor version has ten patches with a snapshot and a
// release each).
func versionText(v int) string {
	const first, last = 212, 612 // V4_0_0_SNAPSHOT, HIGHER_VERSION
	switch {
	case v >= last:
		return "HIGHER_VERSION"
	case v < first:
		return strconv.Itoa(v)
	}
	n := v - first
	text := fmt.Sprintf("V%d_%d_%d", 4+n/200, n%200/20, n%20/2)
	if n%2 == 0 {
		text += "_SNAPSHOT"
	}
	return text
}
