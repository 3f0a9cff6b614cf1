package cli

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// clientItem is one connection of a client.
type clientItem struct {
	ClientID string   `json:"clientId"`
	Addr     string   `json:"addr"`
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Group    string   `json:"group"`
	Role     string   `json:"role" enum:"CONSUMER|PRODUCER"`
	Topics   []string `json:"topics"`
}

func clientColumns() []column {
	return []column{
		{head: "CLIENT", field: "clientId"}, {head: "ADDR", field: "addr"}, {head: "LANGUAGE", field: "language", fold: 2},
		{head: "VERSION", field: "version", fold: 3}, {head: "GROUP", field: "group"}, {head: "ROLE", field: "role"},
		{head: "TOPICS", field: "topics", as: asList, fold: 1},
	}
}

func clientCommands() []*command {
	v := view{
		item: clientItem{}, name: func(item any) string { return item.(*clientItem).ClientID },
		columns: clientColumns(),
	}
	consumers, producers := v, v
	consumers.old, producers.old = oldConsumers, oldProducers
	return []*command{
		{
			path: "client list", summary: "connected clients", run: runClientList, schema: "mqctl.client.list/v1", exits: []int{ExitNotFound, ExitPartial}, view: v,
			examples: []string{"mqctl client list --group order_consumer", "mqctl client list --producers", "mqctl client list --topic orders"},
			flags: []flagSpec{
				{key: "group", meta: "GROUP", complete: "group", help: "members of this group"},
				{key: "producers", kind: kindBool, help: "producers instead of consumers"},
				{key: "topic", meta: "TOPIC", complete: "topic", help: "consumers of this topic"},
			},
		},
		{
			old: "consumerConnection", twin: "client list --group G", summary: "connections and subscriptions of a group", run: runConsumerConnection,
			schema: "mqctl.client.list/v1", exits: []int{ExitNotFound, ExitPartial}, view: consumers,
			examples: []string{"mqctl consumerConnection -n 127.0.0.1:9876 -g order_consumer"},
			flags: []flagSpec{
				{key: "group", long: "consumerGroup", short: "g", required: true, meta: "GROUP", complete: "group", help: "the group"},
				{key: "broker", long: "brokerAddr", short: "b", meta: "ADDR", complete: "broker", help: "ask this broker only"},
			},
		},
		{
			old: "producerConnection", twin: "client list --producers", summary: "connections of a producer group", run: runProducerConnection,
			schema: "mqctl.client.list/v1", exits: []int{ExitNotFound, ExitPartial}, view: producers,
			examples: []string{"mqctl producerConnection -n 127.0.0.1:9876 -g order_producer -t orders"},
			flags: []flagSpec{
				{key: "group", long: "producerGroup", short: "g", required: true, meta: "GROUP", help: "the producer group"},
				{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic it sends to"},
			},
		},
	}
}

func runClientList(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), empty: "no client is online"}
	if c.on("producers") {
		return c.allProducers(ctx, r, targets)
	}
	groups := []string{c.str("group")}
	if groups[0] == "" {
		if groups, err = c.onlineGroups(ctx, r, targets); err != nil {
			return nil, err
		}
	}
	found := map[string]*clientItem{}
	for _, g := range groups {
		if err := subgroup.CheckName(g); err != nil {
			return nil, usage("BAD_NAME", "%q is not a group name", g).because("%v", err)
		}
		c.consumersOf(ctx, r, targets, g, found)
	}
	for _, k := range sortedKeys(found) {
		if t := c.str("topic"); t == "" || slices.Contains(found[k].Topics, t) {
			r.add(found[k])
		}
	}
	if len(r.items) == 0 && len(r.errors) == 0 && c.given("group") {
		return nil, c.offline(ctx, c.str("group"), targets)
	}
	return r, nil
}

// offline tells a group without members from one that does not exist.
func (c *call) offline(ctx context.Context, group string, targets []admin.Target) *Message {
	known := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		for n := range g.Value {
			known[n] = true
		}
	}
	if known[group] || len(known) == 0 {
		return fail(ExitNotFound, "NOT_ONLINE", "group %q has no client online", group)
	}
	return groupMissing(group, clusterOf(targets), known)
}

// onlineGroups are the groups of the topic, or all of them.
func (c *call) onlineGroups(ctx context.Context, r *result, targets []admin.Target) ([]string, error) {
	names := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		r.done++
		for n := range g.Value {
			names[n] = true
		}
	}
	return sortedKeys(names), nil
}

// consumersOf adds the members of a group that any broker knows.
func (c *call) consumersOf(ctx context.Context, r *result, targets []admin.Target, group string, found map[string]*clientItem) *admin.ConsumerConnections {
	var any *admin.ConsumerConnections
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.ConsumerConnections, error) {
		return c.client.ConsumerConnections(ctx, t.Addr, group)
	}) {
		var offline *admin.NotOnline
		var refused *admin.Refused
		if errors.As(res.Err, &offline) || errors.As(res.Err, &refused) && !refused.Denied() && !refused.Unsupported() {
			r.done++
			continue
		}
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		any = res.Value
		topics := sortedKeys(res.Value.Subscriptions)
		for _, conn := range res.Value.Connections {
			found[group+"\x00"+conn.ClientID] = &clientItem{
				ClientID: conn.ClientID, Addr: strings.TrimPrefix(conn.Addr, "/"), Language: conn.Language, Version: versionText(conn.Version),
				Group: group, Role: "CONSUMER", Topics: topics,
			}
		}
	}
	return any
}

func (c *call) allProducers(ctx context.Context, r *result, targets []admin.Target) (*result, error) {
	found := map[string]*clientItem{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (map[string][]admin.Producer, error) {
		return c.client.AllProducers(ctx, t.Addr)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for group, list := range res.Value {
			if g := c.str("group"); g != "" && g != group {
				continue
			}
			for _, p := range list {
				found[group+"\x00"+p.ClientID] = &clientItem{ClientID: p.ClientID, Addr: p.RemoteAddr, Language: p.Language,
					Version: versionText(p.Version), Group: group, Role: "PRODUCER", Topics: []string{}}
			}
		}
	}
	for _, k := range sortedKeys(found) {
		r.add(found[k])
	}
	if len(r.items) == 0 && len(r.errors) == 0 && c.given("group") {
		return nil, fail(ExitNotFound, "NOT_ONLINE", "producer group %q has no client online", c.str("group"))
	}
	return r, nil
}

func runConsumerConnection(ctx context.Context, c *call) (*result, error) {
	group := c.str("group")
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	found := map[string]*clientItem{}
	conns := c.consumersOf(ctx, r, targets, group, found)
	if conns == nil {
		if len(r.errors) > 0 {
			return r, nil
		}
		return nil, c.offline(ctx, group, targets)
	}
	for _, k := range sortedKeys(found) {
		r.add(found[k])
	}
	r.extra = conns
	return r, nil
}

// oldConsumers is mqadmin's layout of consumerConnection.
func oldConsumers(p *printer, r *result) {
	p.printf("%-36s %-22s %-10s %s\n", "#ClientId", "#ClientAddr", "#Language", "#Version")
	for _, item := range r.items {
		it := item.(*clientItem)
		p.printf("%-36s %-22s %-10s %s\n", it.ClientID, it.Addr, it.Language, it.Version)
	}
	conns, ok := r.extra.(*admin.ConsumerConnections)
	if !ok {
		return
	}
	p.printf("\nBelow is subscription:\n%-20s %s\n", "#Topic", "#SubExpression")
	for _, t := range sortedKeys(conns.Subscriptions) {
		p.printf("%-20s %s\n", t, conns.Subscriptions[t].SubString)
	}
	p.printf("\nConsumeType: %s\nMessageModel: %s\nConsumeFromWhere: %s\n", conns.ConsumeType, conns.MessageModel, conns.ConsumeFromWhere)
}

func runProducerConnection(ctx context.Context, c *call) (*result, error) {
	group, topic := c.str("group"), c.str("topic")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	targets, err := c.routeTargets(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	found := map[string]*clientItem{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) ([]admin.Connection, error) {
		return c.client.ProducerConnections(ctx, t.Addr, group)
	}) {
		var missing *admin.NotFound
		switch {
		case errors.As(res.Err, &missing):
		case res.Err != nil:
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for _, conn := range res.Value {
			found[conn.ClientID] = &clientItem{ClientID: conn.ClientID, Addr: strings.TrimPrefix(conn.Addr, "/"), Language: conn.Language,
				Version: versionText(conn.Version), Group: group, Role: "PRODUCER", Topics: []string{topic}}
		}
	}
	for _, k := range sortedKeys(found) {
		r.add(found[k])
	}
	if len(r.items) == 0 && len(r.errors) == 0 {
		return nil, fail(ExitNotFound, "NOT_ONLINE", "producer group %q has no client online", group)
	}
	sort.SliceStable(r.items, func(i, j int) bool { return r.items[i].(*clientItem).ClientID < r.items[j].(*clientItem).ClientID })
	return r, nil
}

// oldProducers is mqadmin's layout of producerConnection.
func oldProducers(p *printer, r *result) {
	for i, item := range r.items {
		it := item.(*clientItem)
		p.printf("%04d  %-32s %-22s %-8s %s\n", i+1, it.ClientID, it.Addr, it.Language, it.Version)
	}
}
