package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// routeItem is what one broker name holds of a topic.
type routeItem struct {
	Broker         string            `json:"broker"`
	Cluster        string            `json:"cluster"`
	BrokerAddrs    map[string]string `json:"brokerAddrs"`
	ReadQueueNums  int32             `json:"readQueueNums" min:"0"`
	WriteQueueNums int32             `json:"writeQueueNums" min:"0"`
	Perm           int               `json:"perm" min:"0"`
	TopicSysFlag   int32             `json:"topicSysFlag"`
}

// topicStatusItem is one queue of a topic.
type topicStatusItem struct {
	Broker        string  `json:"broker"`
	QueueID       int32   `json:"queueId" min:"0"`
	MinOffset     int64   `json:"minOffset"`
	MaxOffset     int64   `json:"maxOffset"`
	Messages      int64   `json:"messages"`
	LastUpdatedAt *string `json:"lastUpdatedAt"`

	lastMillis int64
}

// topicStatusTotals sums a topic up.
type topicStatusTotals struct {
	Messages     int64   `json:"messages"`
	PutPerSecond float64 `json:"putPerSecond"`
}

func topicRouteCommand() *command {
	return &command{
		path: "topic route", old: "topicRoute", summary: "where a topic lives", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runTopicRoute, schema: "mqctl.topic.route/v1", exits: []int{ExitNotFound},
		examples: []string{"mqctl topic route orders", "mqctl topicRoute -n 127.0.0.1:9876 -t orders"},
		flags: []flagSpec{
			{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "list", long: "list", short: "l", kind: kindBool, bareOld: true, oldOnly: true, help: "a table instead of JSON"},
		},
		view: view{
			item: routeItem{}, name: func(item any) string { return item.(*routeItem).Broker }, old: oldTopicRoute,
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "CLUSTER", field: "cluster"}, {head: "ADDRS", field: "brokerAddrs", as: asPairs},
				{head: "READ QUEUES", field: "readQueueNums", as: asNumber}, {head: "WRITE QUEUES", field: "writeQueueNums", as: asNumber},
				{head: "PERM", field: "perm", as: asPerm},
			},
		},
	}
}

// routeExtra is what mqadmin's two forms of topicRoute need.
type routeExtra struct {
	body []byte
	list bool
}

func runTopicRoute(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	route, err := c.route(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &result{extra: routeExtra{route.Body, c.on("list")}}
	clusters := map[string]bool{}
	for _, q := range route.Queues {
		it := &routeItem{Broker: q.Broker, BrokerAddrs: map[string]string{}, ReadQueueNums: q.ReadQueues, WriteQueueNums: q.WriteQueues, Perm: q.Perm, TopicSysFlag: q.TopicSysFlag}
		for _, b := range route.Brokers {
			if b.Name != q.Broker {
				continue
			}
			it.Cluster = b.Cluster
			clusters[b.Cluster] = true
			for id, addr := range b.Addrs {
				it.BrokerAddrs[strconv.FormatInt(id, 10)] = addr
			}
		}
		r.add(it)
	}
	sort.Slice(r.items, func(i, j int) bool { return r.items[i].(*routeItem).Broker < r.items[j].(*routeItem).Broker })
	if len(clusters) == 1 {
		r.cluster = sortedKeys(clusters)[0]
	}
	return r, nil
}

// oldTopicRoute is mqadmin's layout: JSON, or a table with -l.
func oldTopicRoute(p *printer, r *result) {
	x, _ := r.extra.(routeExtra)
	if !x.list {
		p.printf("%s\n", javaJSON(x.body))
		return
	}
	p.printf("%-45s %-32s %-50s %-10s %-11s %-5s\n", "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
	read, write := int32(0), int32(0)
	for _, item := range r.items {
		it := item.(*routeItem)
		read, write = read+it.ReadQueueNums, write+it.WriteQueueNums
		p.printf("%-45s %-32s %-50s %-10d %-11d %-5d\n", it.Cluster, it.Broker, "{"+strings.Join(pairs(it.BrokerAddrs), ", ")+"}", it.ReadQueueNums, it.WriteQueueNums, it.Perm)
	}
	p.printf("%s\n", strings.Repeat("-", 158))
	p.printf("%-45s %-32s %-50s %-10d %-11d %-5s\n", "Total:", strconv.Itoa(len(r.items)), "", read, write, "")
}

// javaJSON indents as fastjson does: tabs, no blank after a colon.
func javaJSON(body []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "\t") != nil {
		return body
	}
	var out []byte
	inText, escaped := false, false
	for i, c := range b.Bytes() {
		switch {
		case escaped:
			escaped = false
		case inText && c == '\\':
			escaped = true
		case c == '"':
			inText = !inText
		case c == ' ' && !inText && i > 0 && b.Bytes()[i-1] == ':':
			continue
		}
		out = append(out, c)
	}
	return out
}

func topicStatusCommand() *command {
	return &command{
		path: "topic status", old: "topicStatus", summary: "first and next offset of every queue", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runTopicStatus, schema: "mqctl.topic.status/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl topic status orders", "mqctl topicStatus -n 127.0.0.1:9876 -t orders"},
		flags: []flagSpec{
			{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "brokers of this cluster only"},
		},
		view: view{
			item: topicStatusItem{}, old: oldTopicStatus, name: func(item any) string {
				it := item.(*topicStatusItem)
				return it.Broker + ":" + strconv.Itoa(int(it.QueueID))
			},
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber}, {head: "MIN", field: "minOffset", as: asNumber},
				{head: "MAX", field: "maxOffset", as: asNumber}, {head: "MESSAGES", field: "messages", as: asNumber}, {head: "LAST UPDATED", field: "lastUpdatedAt", as: asTime},
			},
			foot: func(p *printer, r *result) {
				if t, ok := r.totals.(topicStatusTotals); ok {
					p.printf("\n%s messages, %s/s\n", p.style.cell(t.Messages, asNumber), p.style.cell(t.PutPerSecond, asRate))
				}
			},
		},
	}
}

func runTopicStatus(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	targets, err := c.routeTargets(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	t := topicStatusTotals{}
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) (*admin.TopicStats, error) {
		return c.client.TopicStats(ctx, t.Addr, name)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		t.PutPerSecond += res.Value.PutTPS
		for q, v := range res.Value.Queues {
			r.add(&topicStatusItem{Broker: q.Broker, QueueID: q.ID, MinOffset: v.Min, MaxOffset: v.Max, Messages: v.Max - v.Min, LastUpdatedAt: stampMillis(v.LastUpdateMillis), lastMillis: v.LastUpdateMillis})
			t.Messages += v.Max - v.Min
		}
	}
	sort.Slice(r.items, func(i, j int) bool {
		a, b := r.items[i].(*topicStatusItem), r.items[j].(*topicStatusItem)
		if a.Broker != b.Broker {
			return a.Broker < b.Broker
		}
		return a.QueueID < b.QueueID
	})
	r.totals = t
	return r, nil
}

// route asks the nameserver for a topic's route.
func (c *call) route(ctx context.Context, topic string) (*admin.Route, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	route, err := a.Route(ctx, topic)
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil, c.topicMissing(ctx, topic)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	return route, nil
}

// routeTargets are the masters that hold a topic.
func (c *call) routeTargets(ctx context.Context, name string) ([]admin.Target, error) {
	if b := c.str("broker"); admin.IsAddress(b) || strings.Contains(b, "/") && !c.cmd.is(mutates) {
		return c.targets(ctx, false)
	}
	route, err := c.route(ctx, name)
	if err != nil {
		return nil, err
	}
	wantBroker, _, _ := strings.Cut(c.str("broker"), "/")
	var out []admin.Target
	for _, t := range c.routeMasters(ctx, route) {
		if wantBroker != "" && t.Broker != wantBroker || c.str("cluster") != "" && t.Cluster != c.str("cluster") {
			continue
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		if _, err := c.targets(ctx, true); err != nil { // no such broker or cluster
			return nil, err
		}
		return nil, fail(ExitNotFound, "TOPIC_NOT_FOUND", "topic %q is on no broker asked", name)
	}
	return out, nil
}

// oldTopicStatus is mqadmin's layout of topicStatus.
func oldTopicStatus(p *printer, r *result) {
	p.printf("%-32s  %-4s  %-20s  %-20s    %s\n", "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
	for _, item := range r.items {
		it := item.(*topicStatusItem)
		last := ""
		if it.lastMillis > 0 {
			last = javaTime(it.lastMillis)
		}
		p.printf("%-32s  %-4d  %-20d  %-20d    %s\n", it.Broker, it.QueueID, it.MinOffset, it.MaxOffset, last)
	}
	t, _ := r.totals.(topicStatusTotals)
	p.printf("\nTopic Put TPS: %s\n", javaDouble(t.PutPerSecond))
}

// javaTime is UtilAll.timeMillisToHumanString2: local time with milliseconds.
func javaTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05,000") }

// javaDouble prints as Java does: whole numbers keep a decimal.
func javaDouble(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
