package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// kickItem is one broker that closed connections of a client.
type kickItem struct {
	ClientID string `json:"clientId"`
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId"`
	Addr     string `json:"addr"`
	Closed   int    `json:"closed" min:"0"` // connections; with --dry-run those that would be
	Applied  bool   `json:"applied"`
}

func clientKickCommand() *command {
	return &command{
		path: "client kick", summary: "close the connections of a client", args: "CLIENT|IP:PORT", min: 1, max: 1, named: "client", argFrom: "client", run: runClientKick, attrs: mutates | destructive,
		schema: "mqctl.client.kick/v1", exits: []int{ExitNotFound, ExitPartial, ExitAborted},
		examples: []string{"mqctl client kick 10.0.1.21@4711 --yes", "mqctl client kick --client 10.0.1.21@4711 --yes", "mqctl client kick 10.0.1.21:50122 --broker broker-a --dry-run"},
		view: view{
			item: kickItem{}, name: func(item any) string { return nameID(item.(*kickItem).Broker, item.(*kickItem).BrokerID) },
			columns: []column{
				{head: "CLIENT", field: "clientId"}, {head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "CLOSED", field: "closed", as: asNumber},
				{head: "APPLIED", field: "applied"},
			},
		},
	}
}

func runClientKick(ctx context.Context, c *call) (*result, error) {
	id := c.arg(0)
	targets, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	if c.dryRun() {
		for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (int, error) { return c.connectionsOf(ctx, t, id) }) {
			r.kicked(c, id, res)
		}
		return r.kickEnd(id, targets)
	}
	if err := c.confirm("closing the connections of "+id, fmt.Sprintf("at %s; a client that runs connects again at once", count(len(targets), "broker"))); err != nil {
		return nil, err
	}
	ctx, done := steady(ctx)
	defer done()
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (int, error) { return c.client.Kick(ctx, t.Addr, id) }) {
		r.kicked(c, id, res)
		r.change.Applied = r.change.Applied || res.Value > 0
	}
	return r.kickEnd(id, targets)
}

func (r *result) kicked(c *call, id string, res admin.Result[int]) {
	if res.Err != nil {
		r.failed(c.at(res.Err, res.Target))
		return
	}
	r.done++
	if res.Value > 0 {
		r.add(&kickItem{ClientID: id, Broker: nameOf(res.Target), BrokerID: max(0, res.Target.ID), Addr: res.Target.Addr, Closed: res.Value, Applied: !r.change.DryRun})
	}
}

func (r *result) kickEnd(id string, targets []admin.Target) (*result, error) {
	if len(r.items) == 0 && len(r.errors) == 0 {
		return nil, fail(ExitNotFound, "CLIENT_NOT_FOUND", "no broker has a connection of %q", id).
			because("%s asked", count(len(targets), "broker")).try("mqctl client list", "mqctl client list --producers")
	}
	return r, nil
}

// connectionsOf counts a client's connections at one broker: what a kick would close.
func (c *call) connectionsOf(ctx context.Context, t admin.Target, id string) (int, error) {
	found := map[string]bool{}
	note := func(client, addr string) {
		addr = strings.TrimPrefix(addr, "/")
		if client == id || addr == id {
			found[addr] = true
		}
	}
	producers, err := c.client.AllProducers(ctx, t.Addr)
	if err != nil {
		return 0, err
	}
	for _, list := range producers {
		for _, p := range list {
			note(p.ClientID, p.RemoteAddr)
		}
	}
	groups, _, err := c.client.Groups(ctx, t.Addr)
	if err != nil {
		return 0, err
	}
	for g := range groups {
		conns, err := c.client.ConsumerConnections(ctx, t.Addr, g)
		var offline *admin.NotOnline
		var refused *admin.Refused
		if errors.As(err, &offline) || errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, conn := range conns.Connections {
			note(conn.ClientID, conn.Addr)
		}
	}
	return len(found), nil
}

// consumerOffsetItem is how far a client says it is in a queue.
type consumerOffsetItem struct {
	Group    string `json:"group"`
	ClientID string `json:"clientId"`
	Topic    string `json:"topic"`
	Broker   string `json:"broker"`
	QueueID  int32  `json:"queueId"`
	Offset   int64  `json:"offset"`
}

func consumerOffsetsCommand() *command {
	return &command{
		old: "getConsumerStatus", twin: "client inspect GROUP", summary: "offsets as the clients see them", run: runConsumerOffsets,
		schema: "mqctl.client.offsets/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl getConsumerStatus -n 127.0.0.1:9876 -g order_consumer -t orders"},
		flags: []flagSpec{
			{key: "group", long: "group", short: "g", required: true, meta: "GROUP", complete: "group", help: "the group"},
			{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "client", long: "originClientId", short: "i", meta: "ID", complete: "client", help: "this client only"},
		},
		view: view{
			item: consumerOffsetItem{}, name: func(item any) string { return item.(*consumerOffsetItem).ClientID }, old: oldConsumerOffsets,
			columns: []column{
				{head: "CLIENT", field: "clientId"}, {head: "TOPIC", field: "topic", fold: 1}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber},
				{head: "OFFSET", field: "offset", as: asNumber},
			},
		},
	}
}

func runConsumerOffsets(ctx context.Context, c *call) (*result, error) {
	group, topic := c.str("group"), c.str("topic")
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	targets, err := c.routeTargets(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), extra: [3]string{group, topic, c.str("client")}}
	said := map[string]map[admin.Queue]int64{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (map[string]map[admin.Queue]int64, error) {
		return c.client.ConsumerStatus(ctx, t.Addr, group, topic, c.str("client"))
	}) {
		var offline *admin.NotOnline
		switch {
		case errors.As(res.Err, &offline):
			r.done++
		case res.Err != nil:
			r.failed(c.at(res.Err, res.Target))
		default:
			r.done++
			for id, queues := range res.Value {
				if said[id] == nil {
					said[id] = map[admin.Queue]int64{}
				}
				for q, at := range queues {
					said[id][q] = at
				}
			}
		}
	}
	if len(said) == 0 && len(r.errors) == 0 {
		return nil, c.offline(ctx, group, targets)
	}
	for _, id := range sortedKeys(said) {
		for _, q := range sortedQueues(said[id]) {
			r.add(&consumerOffsetItem{Group: group, ClientID: id, Topic: q.Topic, Broker: q.Broker, QueueID: q.ID, Offset: said[id][q]})
		}
	}
	return r, nil
}

func oldConsumerOffsets(p *printer, r *result) {
	if asked, ok := r.extra.([3]string); ok {
		p.printf("get consumer status from client. group=%s, topic=%s, originClientId=%s\n", asked[0], asked[1], asked[2])
	}
	p.printf("%-50s  %-15s  %-15s  %-20s\n", "#clientId", "#brokerName", "#queueId", "#offset")
	for _, item := range r.items {
		it := item.(*consumerOffsetItem)
		p.printf("%-50s  %-15s  %-15d  %-20d\n", it.ClientID, it.Broker, it.QueueID, it.Offset)
	}
}

func runOldProducer(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), empty: "no producer is online"}
	r.extra = map[string][]admin.Producer{}
	for _, t := range targets {
		groups, err := c.client.AllProducers(ctx, t.Addr)
		if err != nil {
			return nil, c.at(err, t)
		}
		r.extra = groups
		for _, g := range sortedKeys(groups) {
			for _, p := range groups[g] {
				r.add(&clientItem{ClientID: p.ClientID, Addr: p.RemoteAddr, Language: p.Language, Version: versionText(p.Version), Group: g, Role: "PRODUCER", Topics: []string{}})
			}
		}
	}
	return r, nil
}

// oldProducer is mqadmin's layout of producer.
func oldProducer(p *printer, r *result) {
	groups, _ := r.extra.(map[string][]admin.Producer)
	for _, g := range sortedKeys(groups) {
		if len(groups[g]) == 0 {
			p.printf("producer group (%s) instances are empty\n", g)
		}
		for _, one := range groups[g] {
			p.printf("producer group (%s) instance : clientId=%s,remoteIP=/%s, language=%s, version=%d, lastUpdateTimestamp=%d\n",
				g, one.ClientID, one.RemoteAddr, one.Language, one.Version, one.LastUpdateMillis)
		}
	}
}
