package subgroup

import (
	"maps"
	"slices"
	"time"
)

// Unregister takes a connection out of the groups named; empty names none. The
// client id is the connection's own affair, as in the original.
func (m *Members) Unregister(peer Peer, clientID, producerGroup, consumerGroup string) {
	m.mu.Lock()
	if producerGroup != "" {
		m.removeProducer(peer.ID(), producerGroup)
	}
	var notices []notice
	if consumerGroup != "" {
		if _, n, ok := m.removeConsumer(peer.ID(), consumerGroup); ok {
			notices = append(notices, n)
		}
	}
	m.mu.Unlock()
	m.send(notices)
}

// removeProducer takes a connection out of a producer group. The caller holds
// mu.
func (m *Members) removeProducer(peer uint64, name string) {
	m.leave(peer, name, false)
	rest := slices.DeleteFunc(m.producers[name], func(c *member) bool { return c.Peer.ID() == peer })
	if len(rest) == 0 {
		delete(m.producers, name)
		return
	}
	m.producers[name] = rest
}

// removeConsumer takes a connection out of a consumer group; ok if it was in.
// The caller holds mu and sends the notice.
func (m *Members) removeConsumer(peer uint64, name string) (left Client, n notice, ok bool) {
	m.leave(peer, name, true)
	g := m.groups[name]
	if g == nil {
		return left, n, false
	}
	i := slices.IndexFunc(g.members, func(c *member) bool { return c.Peer.ID() == peer })
	if i < 0 {
		return left, n, false
	}
	left = g.members[i].Client
	g.members = slices.Delete(g.members, i, i+1)
	if len(g.members) == 0 {
		delete(m.groups, name)
		m.views.Set(name, nil)
		return left, notice{group: name}, true
	}
	m.views.Set(name, g.view(name))
	return left, g.noticeOf(name), true
}

// removePeer takes a connection out of everything. The caller holds mu.
func (m *Members) removePeer(peer uint64) (left []Membership, notices []notice) {
	p := m.peers[peer]
	if p == nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.producers)) {
		m.removeProducer(peer, name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.consumers)) {
		if c, n, ok := m.removeConsumer(peer, name); ok {
			left = append(left, Membership{Group: name, ClientID: c.ClientID})
			notices = append(notices, n)
		}
	}
	return left, notices
}

// ConnClosed removes a closed connection everywhere and notifies the other
// members. It returns the places in consumer groups that became free, so that
// their queue locks can go.
func (m *Members) ConnClosed(peer Peer) []Membership {
	m.mu.Lock()
	left, notices := m.removePeer(peer.ID())
	m.mu.Unlock()
	m.send(notices)
	return left
}

// Expire removes members that were silent for longer than d, closes their
// connections and notifies the others (RocketMQ leaves those to their next
// rebalance). It returns the places that became free.
func (m *Members) Expire(d time.Duration) []Membership {
	before := m.now() - d.Milliseconds()
	silent := map[uint64]Peer{}
	m.mu.Lock()
	left, changed := m.dropSilent(before, silent)
	var notices []notice
	for name := range changed {
		if g := m.groups[name]; g != nil {
			notices = append(notices, g.noticeOf(name))
		}
	}
	m.mu.Unlock()
	for _, p := range silent {
		p.Close()
	}
	m.send(notices)
	return left
}

// dropSilent removes members last heard of before a time and collects their
// peers. The caller holds mu.
func (m *Members) dropSilent(before int64, silent map[uint64]Peer) (left []Membership, changed map[string]bool) {
	changed = map[string]bool{}
	for name, members := range m.producers {
		for _, c := range slices.Clone(members) {
			if c.LastMillis < before {
				silent[c.Peer.ID()] = c.Peer
				m.removeProducer(c.Peer.ID(), name)
			}
		}
	}
	for name, g := range m.groups {
		for _, c := range slices.Clone(g.members) {
			if c.LastMillis >= before {
				continue
			}
			silent[c.Peer.ID()] = c.Peer
			if c, _, ok := m.removeConsumer(c.Peer.ID(), name); ok {
				left = append(left, Membership{Group: name, ClientID: c.ClientID})
				changed[name] = true
			}
		}
	}
	return left, changed
}
