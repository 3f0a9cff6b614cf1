package subgroup

import (
	"maps"
	"slices"
	"sync"

	"mqctl/subgroup/live"
)

// NotifyConsumerIDsChanged is the code of the notice that a group's members or
// topics changed.
const NotifyConsumerIDsChanged = 40

const (
	// Broadcasting is the message model in which every member gets everything.
	Broadcasting = "BROADCASTING"
	// Clustering is the message model in which members share the messages.
	Clustering = "CLUSTERING"

	// MaxGroupsPerPeer bounds what one connection can make the broker remember.
	MaxGroupsPerPeer = 4096
	// maxProducerGroup is the longest producer group that is remembered, bytes.
	maxProducerGroup = 1024
)

// Peer is a member's connection as the broker has it.
type Peer interface {
	// ID is unique in the process and never used again.
	ID() uint64
	// Notify sends a one-way request. It must not block.
	Notify(code int, ext map[string]string, body []byte) error
	// Close ends the connection.
	Close()
}

// goner is a Peer that knows when its connection has ended. With it, a
// heartbeat that was still under way when ConnClosed ran leaves no ghost, to
// whom queues would be given until it expires.
type goner interface {
	// Gone is closed before ConnClosed is called.
	Gone() <-chan struct{}
}

func gone(p Peer) bool {
	g, ok := p.(goner)
	if !ok {
		return false
	}
	select {
	case <-g.Gone():
		return true
	default:
		return false
	}
}

// Client is one live client.
type Client struct {
	Peer       Peer
	ClientID   string
	Addr       string // ip:port
	Language   string
	Version    int
	LastMillis int64 // last heartbeat; in a GroupView that of its making
}

// Consumer is what a heartbeat says of one group.
type Consumer struct {
	Group, ConsumeType, MessageModel, ConsumeFromWhere string
	Subscriptions                                      []Subscription
	// KeepSubscriptions is a heartbeat without subscriptions (withoutSub of the
	// second heartbeat version): those the group has stay.
	KeepSubscriptions bool
}

// Membership is a client's place in a consumer group.
type Membership struct{ Group, ClientID string }

// GroupView is an immutable picture of a consumer group with members.
type GroupView struct {
	Group, ConsumeType, MessageModel, ConsumeFromWhere string
	Clients                                            []Client
	Subscriptions                                      map[string]*Subscription
	// Conflict says that members sent different subscriptions. As in RocketMQ
	// the latest heartbeat decides for all, so some get what they did not ask for.
	Conflict bool
}

// member is one connection in a group.
type member struct {
	Client
	// own are the subscriptions of the member's last heartbeat, as they came.
	own []Subscription
}

// group is a consumer group with at least one member.
type group struct {
	consumeType, model, from string
	members                  []*member // in the order they came
	topics                   map[string]*Subscription
}

// peerGroups are the groups a connection is in.
type peerGroups struct {
	consumers map[string]bool
	producers map[string]bool
}

// Members are the live clients of consumer and producer groups
// (ConsumerManager, ProducerManager).
type Members struct {
	now           func() int64
	notifyEnabled func(group string) bool
	views         live.Map[GroupView]

	mu        sync.Mutex // guards what follows; never held while a peer is notified or closed
	groups    map[string]*group
	producers map[string][]*member
	peers     map[uint64]*peerGroups
}

// NewMembers makes an empty table with a clock of milliseconds. notifyEnabled
// says whether members of a group are to be told of changes.
func NewMembers(nowMillis func() int64, notifyEnabled func(group string) bool) *Members {
	return &Members{
		now:           nowMillis,
		notifyEnabled: notifyEnabled,
		groups:        map[string]*group{},
		producers:     map[string][]*member{},
		peers:         map[uint64]*peerGroups{},
	}
}

// notice is a group whose members are to be told that it changed.
type notice struct {
	group string
	peers []Peer
}

// send tells everybody. It is called without any lock. A peer that cannot be
// told is on its way out, and its end is a notice of its own.
func (m *Members) send(notices []notice) {
	for _, n := range notices {
		if len(n.peers) == 0 || !m.notifyEnabled(n.group) {
			continue
		}
		for _, p := range n.peers {
			_ = p.Notify(NotifyConsumerIDsChanged, map[string]string{"consumerGroup": n.group}, nil)
		}
	}
}

// noticeOf collects the peers of a group. Members of a broadcasting group share
// nothing, so they are not told. The caller holds mu.
func (g *group) noticeOf(name string) notice {
	n := notice{group: name}
	if g.model == Broadcasting {
		return n
	}
	for _, c := range g.members {
		n.peers = append(n.peers, c.Peer)
	}
	return n
}

// RegisterConsumer takes a heartbeat's entry for one group. It reports whether
// members or topics changed; all members, the new one included, have then been
// notified unless the group is broadcasting or does not want it. A member is a
// connection; the client id is what it calls itself.
func (m *Members) RegisterConsumer(c Client, cons Consumer) (changed bool) {
	m.mu.Lock()
	if !m.join(c.Peer, cons.Group, true) {
		m.mu.Unlock()
		return false
	}
	g := m.groups[cons.Group]
	if g == nil {
		g = &group{topics: map[string]*Subscription{}}
		m.groups[cons.Group] = g
	}
	joined, stale := g.enter(c, m.now())
	if g.consumeType != cons.ConsumeType || g.model != cons.MessageModel || g.from != cons.ConsumeFromWhere {
		g.consumeType, g.model, g.from = cons.ConsumeType, cons.MessageModel, cons.ConsumeFromWhere
		stale = true
	}
	topics := false
	if !cons.KeepSubscriptions {
		var replaced bool
		topics, replaced = g.subscribe(c.Peer.ID(), cons.Subscriptions)
		stale = stale || replaced
	}
	changed = joined || topics
	if changed || stale {
		m.views.Set(cons.Group, g.view(cons.Group))
	}
	var notices []notice
	if changed {
		notices = []notice{g.noticeOf(cons.Group)}
	}
	m.mu.Unlock()
	m.send(notices)
	return changed
}

// join notes that a peer is in a group; false if it is in too many or has gone.
// The caller holds mu, under which ConnClosed removes what came before.
func (m *Members) join(peer Peer, name string, consumer bool) bool {
	if gone(peer) {
		return false
	}
	p := m.peers[peer.ID()]
	if p == nil {
		p = &peerGroups{consumers: map[string]bool{}, producers: map[string]bool{}}
		m.peers[peer.ID()] = p
	}
	in := p.producers
	if consumer {
		in = p.consumers
	}
	if in[name] {
		return true
	}
	if len(p.consumers)+len(p.producers) >= MaxGroupsPerPeer {
		return false
	}
	in[name] = true
	return true
}

// leave undoes join. The caller holds mu.
func (m *Members) leave(peer uint64, name string, consumer bool) {
	p := m.peers[peer]
	if p == nil {
		return
	}
	if consumer {
		delete(p.consumers, name)
	} else {
		delete(p.producers, name)
	}
	if len(p.consumers)+len(p.producers) == 0 {
		delete(m.peers, peer)
	}
}

// find is the member on a connection.
func find(members []*member, peer uint64) *member {
	for _, c := range members {
		if c.Peer.ID() == peer {
			return c
		}
	}
	return nil
}

// enter adds or refreshes a member: joined is a new connection, stale a known
// one that says something new of itself.
func (g *group) enter(c Client, now int64) (joined, stale bool) {
	c.LastMillis = now
	have := find(g.members, c.Peer.ID())
	if have == nil {
		g.members = append(g.members, &member{Client: c})
		return true, true
	}
	stale = have.ClientID != c.ClientID || have.Version != c.Version || have.Language != c.Language || have.Addr != c.Addr
	have.Client = c
	return false, stale
}

// subscribe makes a heartbeat's subscriptions those of the group: a topic's is
// replaced only by a newer version, and topics the heartbeat lacks go. topics
// says that one came or went, replaced that the view must be made anew.
func (g *group) subscribe(peer uint64, subs []Subscription) (topics, replaced bool) {
	self := find(g.members, peer)
	if !sameSubscriptions(self.own, subs) {
		self.own = slices.Clone(subs)
		replaced = true // the conflict mark may change
	}
	for i := range subs {
		s := &subs[i]
		have := g.topics[s.Topic]
		if have != nil && !newer(s.SubVersion, have.SubVersion) {
			continue
		}
		topics = topics || have == nil
		g.topics[s.Topic] = s.normal()
		replaced = true
	}
	named := topicSet(subs)
	for topic := range g.topics {
		if !named(topic) {
			delete(g.topics, topic)
			topics, replaced = true, true
		}
	}
	return topics, replaced
}

// topicSet returns a test for the topics of subscriptions. Few are searched,
// without allocation, as in every heartbeat; many are hashed first.
func topicSet(subs []Subscription) func(topic string) bool {
	const few = 16
	if len(subs) <= few {
		return func(topic string) bool {
			for i := range subs {
				if subs[i].Topic == topic {
					return true
				}
			}
			return false
		}
	}
	set := make(map[string]bool, len(subs))
	for i := range subs {
		set[subs[i].Topic] = true
	}
	return func(topic string) bool { return set[topic] }
}

// sameSubscriptions reports whether two heartbeats of a member ask for the same.
func sameSubscriptions(a, b []Subscription) bool {
	return slices.EqualFunc(a, b, func(x, y Subscription) bool {
		return x.Topic == y.Topic && x.SubVersion == y.SubVersion && x.sameFilter(&y)
	})
}

// conflict reports whether members differ in their topics or filters.
func (g *group) conflict() bool {
	for _, c := range g.members {
		if c.own == nil {
			continue // said nothing of subscriptions so far
		}
		if len(c.own) != len(g.topics) {
			return true
		}
		for i := range c.own {
			have := g.topics[c.own[i].Topic]
			if have == nil || !have.sameFilter(&c.own[i]) {
				return true
			}
		}
	}
	return false
}

// view is the group's picture. The caller holds mu.
func (g *group) view(name string) *GroupView {
	v := &GroupView{
		Group: name, ConsumeType: g.consumeType, MessageModel: g.model, ConsumeFromWhere: g.from,
		Clients:       make([]Client, len(g.members)),
		Subscriptions: maps.Clone(g.topics),
		Conflict:      len(g.members) > 1 && g.conflict(),
	}
	for i, c := range g.members {
		v.Clients[i] = c.Client
	}
	return v
}

// Group is the picture of a consumer group, nil if nobody is online.
func (m *Members) Group(name string) *GroupView { return m.views.Get(name) }

// GroupBytes is Group for a name that is still part of a request. It does not
// allocate and takes no lock.
func (m *Members) GroupBytes(name []byte) *GroupView { return m.views.GetBytes(name) }

// OnlineGroups lists, sorted, the consumer groups that have members.
func (m *Members) OnlineGroups() []string {
	var names []string
	m.views.Each(func(name string, _ *GroupView) bool {
		names = append(names, name)
		return true
	})
	slices.Sort(names)
	return names
}

// GroupsOf lists, sorted, the online groups that subscribe to a topic.
func (m *Members) GroupsOf(topic string) []string {
	var names []string
	m.views.Each(func(name string, v *GroupView) bool {
		if v.Subscriptions[topic] != nil {
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names)
	return names
}
