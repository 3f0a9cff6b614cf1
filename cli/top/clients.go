package top

import (
	"context"
	"errors"
	"sort"
	"strings"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// Brokers of mqctl tell all of their clients in one answer, and what changed lately.
// Others are asked for all producers at once, and for the members of a few groups in
// each round, in turn: as many requests whatever the number of groups.

// groupsEachRound is how many groups of another's broker are asked for in one round.
const groupsEachRound = 8

// mostPending bounds the events of a broker that no frame has shown yet.
const mostPending = 1000

// question is what one round at a broker needs to know of the rounds before.
type question struct {
	addr   string
	last   map[string]string // runtime table of the round before
	since  int64             // number of the newest event
	groups []string          // whose members to ask for
	master bool
}

// question makes the next round's; the caller holds the lock.
func (h *heard) question() question {
	q := question{addr: h.target.Addr, last: h.now.runtime, since: h.seq, master: h.target.ID == 0}
	if admin.Offers(q.last, "MQCTL_INSPECT") || len(h.names) == 0 {
		return q
	}
	for range min(groupsEachRound, len(h.names)) {
		h.turn = (h.turn + 1) % len(h.names)
		q.groups = append(q.groups, h.names[h.turn])
	}
	return q
}

// people asks who is connected to a broker of others.
func (c *Collector) people(ctx context.Context, q question, a *answer) {
	a.producers, _ = c.Client.AllProducers(ctx, q.addr) // nil: not known
	a.members = map[string]*admin.ConsumerConnections{}
	for _, g := range q.groups {
		v, err := c.Client.ConsumerConnections(ctx, q.addr, g)
		var offline *admin.NotOnline
		switch {
		case err == nil:
			a.members[g] = v
		case errors.As(err, &offline):
			a.members[g] = nil
		default:
			return // it is asked for again when its turn comes
		}
	}
}

// keep takes over what the answer says of clients and events; the caller holds the
// lock. Numbers of events begin anew with each start of a broker.
func (h *heard) keep(a *answer, before map[string]string) {
	if e := a.events; e != nil {
		switch {
		case e.Next < h.seq || before != nil && before["bootTimestamp"] != a.runtime["bootTimestamp"]:
			h.seq = 0 // the next round asks for all of them
		default:
			h.seq = e.Next
			h.pending = append(h.pending, e.Events...)
			h.pending = h.pending[max(0, len(h.pending)-mostPending):]
		}
	}
	if a.groups == nil || a.clients != nil {
		return
	}
	h.names = sortedKeys(a.groups)
	if h.members == nil {
		h.members = map[string]*admin.ConsumerConnections{}
	}
	for g, v := range a.members {
		h.members[g] = v
	}
	for g, v := range h.members {
		if _, here := a.groups[g]; v == nil || !here {
			delete(h.members, g)
		}
	}
}

// clients adds the rows of everybody who is connected: once, though most clients are
// connected to each broker.
func (f *Frame) clients(all []*heard, version func(int) string) {
	seen := map[string]*Client{}
	add := func(one Client) {
		key := one.Role + "\x00" + one.Group + "\x00" + one.ClientID
		if old := seen[key]; old != nil {
			old.Brokers++
			return
		}
		one.Brokers = 1
		seen[key] = &one
	}
	for i, h := range all {
		if f.Brokers[i].MaxOffset == nil {
			continue // its answer is an old one
		}
		if h.now.clients != nil {
			for _, c := range h.now.clients.Clients {
				add(Client{ClientID: c.ClientID, Addr: c.Addr, Language: c.Language, Version: version(c.Version), Group: c.Group, Role: c.Role, topics: c.Topics})
			}
			continue
		}
		for group, v := range h.members {
			for _, c := range v.Connections {
				add(Client{ClientID: c.ClientID, Addr: strings.TrimPrefix(c.Addr, "/"), Language: c.Language, Version: version(c.Version), Group: group, Role: "CONSUMER", topics: sortedKeys(v.Subscriptions)})
			}
		}
		for group, list := range h.now.producers {
			for _, p := range list {
				add(Client{ClientID: p.ClientID, Addr: p.RemoteAddr, Language: p.Language, Version: version(p.Version), Group: group, Role: "PRODUCER"})
			}
		}
	}
	for _, c := range seen {
		f.Clients = append(f.Clients, *c)
	}
	sort.Slice(f.Clients, func(i, j int) bool {
		a, b := &f.Clients[i], &f.Clients[j]
		switch {
		case a.Group != b.Group:
			return a.Group < b.Group
		case a.Role != b.Role:
			return a.Role < b.Role
		}
		return a.ClientID < b.ClientID
	})
}

// remembered are the events that brokers keep and no frame has shown yet, oldest
// first. own tells which replicas keep events: nothing is told of them twice.
func remembered(all []*heard) (out []Event, own map[string]bool) {
	own = map[string]bool{}
	type dated struct {
		at int64
		e  Event
	}
	var list []dated
	for _, h := range all {
		if h.now.events != nil && h.err == nil {
			own[h.target.String()] = true
		}
		for _, e := range h.pending {
			list = append(list, dated{e.At, eventOf(e)})
		}
		h.pending = nil
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].at < list[j].at })
	for _, d := range list {
		out = append(out, d.e)
	}
	return out, own
}

func eventOf(e body.Event) Event {
	return Event{At: stampMillis(e.At), Kind: e.Kind, Broker: known(e.Broker), Target: e.Target, Before: known(e.Before), After: known(e.After)}
}
