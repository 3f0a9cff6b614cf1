package broker

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// clientHandler serves heartbeats and what else clients say about themselves:
// 34, 35, 38, 46.
type clientHandler struct {
	stand   *standingRef
	topics  *topic.Table
	groups  *subgroup.Groups
	members *subgroup.Members
	locks   *subgroup.Locks
	pool    *pool
	steady  func() time.Time
	guard   func(ctx context.Context, r *remoting.Request, f handlerFunc)
	// announce waits, for a bounded time, until the nameservers know the topics
	// changed so far.
	announce func(ctx context.Context)
}

// announceWait bounds how long a heartbeat waits for the nameservers to know
// its retry topics; Java clients give a heartbeat 3 s.
const announceWait = 1500 * time.Millisecond

// Bounds of what is remembered of a client as long as it is connected, in bytes.
const (
	maxHeartbeat = 4 << 20
	maxClientID  = 1024
)

// heartbeat serves 34. It is answered on the reader when everything that it
// names exists; else the pool makes the groups and retry topics first.
func (h *clientHandler) heartbeat(s *session, r *remoting.Request) {
	if len(r.Body) > maxHeartbeat {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("the heartbeat has %d bytes, the limit is %d", len(r.Body), maxHeartbeat), nil, nil)
		return
	}
	hb, err := body.DecodeHeartbeatData(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	if hb.ClientID == "" {
		r.Reply(remoting.CodeInvalidParameter, "the heartbeat has no clientID", nil, nil)
		return
	}
	if n := len(hb.ClientID); n > maxClientID {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("the clientID has %d bytes, the limit is %d", n, maxClientID), nil, nil)
		return
	}
	if n := len(hb.ConsumerDataSet) + len(hb.ProducerDataSet); n > subgroup.MaxGroupsPerPeer {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("the heartbeat names %d groups, the limit is %d", n, subgroup.MaxGroupsPerPeer), nil, nil)
		return
	}
	if s.lanes.has(nil) || !h.complete(hb) {
		h.later(s, r)
		return
	}
	h.register(s, r, hb)
}

// complete says whether every group of the heartbeat has settings and a retry
// topic, or can have none.
func (h *clientHandler) complete(hb *body.HeartbeatData) bool {
	if h.stand.Load().isSlave() {
		return true // a slave serves what its master has, and makes nothing
	}
	for i := range hb.ConsumerDataSet {
		c := &hb.ConsumerDataSet[i]
		g := h.groups.Get(c.GroupName)
		if g == nil {
			if h.groups.CanCreate(c.GroupName) {
				return false
			}
			continue
		}
		if g.RetryQueueNums <= 0 {
			continue
		}
		t := h.topics.Get(subgroup.RetryTopic(c.GroupName))
		if t == nil || !t.Order && h.ordered(c) {
			return false
		}
	}
	return true
}

// ordered says whether the consumer subscribes to an ordered topic: its retry
// topic is ordered then too.
func (h *clientHandler) ordered(c *body.ConsumerData) bool {
	for i := range c.SubscriptionDataSet {
		if t := h.topics.Get(c.SubscriptionDataSet[i].Topic); t != nil && t.Order {
			return true
		}
	}
	return false
}

// later gives a client request to the pool, in order with this connection's
// other client requests.
func (h *clientHandler) later(s *session, r *remoting.Request) {
	if !h.pool.fits(len(r.Body)) {
		r.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
		return
	}
	first, taken := s.lanes.push(clientLane, r.Clone())
	if !taken {
		r.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
	}
	if !first {
		return
	}
	if !h.pool.submit(len(r.Body), func(ctx context.Context) { h.work(ctx, s) }) {
		for rs := s.lanes.take(clientLane); rs != nil; rs = s.lanes.take(clientLane) {
			for _, left := range rs {
				left.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
			}
		}
	}
}

// work serves the lane of client requests until it is empty.
func (h *clientHandler) work(ctx context.Context, s *session) {
	s.conn.Guard("client requests in the pool", func() { h.drain(ctx, s) })
}

func (h *clientHandler) drain(ctx context.Context, s *session) {
	for rs := s.lanes.take(clientLane); rs != nil; rs = s.lanes.take(clientLane) {
		for _, r := range rs {
			h.guard(ctx, r, func(ctx context.Context, r *remoting.Request) {
				if r.Code == remoting.ReqUnregisterClient {
					h.leave(s, r)
					return
				}
				h.prepare(ctx, s, r)
			})
		}
	}
	select {
	case <-s.conn.Gone():
		// Closed came before the registration: nobody else would undo it.
		h.closed(s.peer)
	default:
	}
}

// prepare makes what a heartbeat needs, tells the nameservers, registers.
func (h *clientHandler) prepare(ctx context.Context, s *session, r *remoting.Request) {
	hb, err := body.DecodeHeartbeatData(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	made := false
	for i := range hb.ConsumerDataSet {
		if h.stand.Load().isSlave() {
			break // since the heartbeat came
		}
		c := &hb.ConsumerDataSet[i]
		g, err := h.groups.FindOrCreate(c.GroupName)
		if err == nil && g != nil && g.RetryQueueNums > 0 {
			var changed bool
			changed, err = h.retryTopic(c, g)
			made = made || changed
		}
		if err != nil {
			r.Reply(remoting.CodeSystemError, fmt.Sprintf("group %s or its retry topic could not be saved: %v", c.GroupName, err), nil, nil)
			return
		}
	}
	if made {
		wait, cancel := context.WithTimeout(ctx, announceWait)
		h.announce(wait)
		cancel()
	}
	h.register(s, r, hb)
}

// retryTopic makes the group's retry topic, or marks it ordered.
func (h *clientHandler) retryTopic(c *body.ConsumerData, g *subgroup.Config) (changed bool, err error) {
	name, order := subgroup.RetryTopic(c.GroupName), h.ordered(c)
	if t := h.topics.Get(name); t != nil {
		if t.Order || !order {
			return false, nil
		}
		next := *t
		next.Order = true
		return h.topics.Put(next)
	}
	sysFlag := int32(0)
	if c.UnitMode {
		sysFlag = topicUnitSub
	}
	t := newTopic(name, g.RetryQueueNums, sysFlag)
	t.Order = order
	_, err = h.topics.Ensure(t)
	return true, err
}

// register enters the client and answers. Heartbeat V2 is not announced, so
// clients keep sending whole subscriptions; a light one (withoutSub) keeps what
// the group has.
func (h *clientHandler) register(s *session, r *remoting.Request, hb *body.HeartbeatData) {
	client := subgroup.Client{Peer: s.peer, ClientID: hb.ClientID, Addr: addrText(s.born), Language: r.Language,
		Version: r.Version, LastMillis: h.steady().UnixMilli()}
	for i := range hb.ConsumerDataSet {
		c := &hb.ConsumerDataSet[i]
		if h.groups.Get(c.GroupName) == nil {
			continue // refused silently, as clients expect: their pulls then get 26
		}
		cons := subgroup.Consumer{Group: c.GroupName, ConsumeType: c.ConsumeType, MessageModel: c.MessageModel,
			ConsumeFromWhere: c.ConsumeFromWhere, KeepSubscriptions: hb.WithoutSub}
		if !hb.WithoutSub {
			cons.Subscriptions = subscriptions(c.SubscriptionDataSet)
		}
		h.members.RegisterConsumer(client, cons)
	}
	for i := range hb.ProducerDataSet {
		h.members.RegisterProducer(client, hb.ProducerDataSet[i].GroupName)
	}
	r.Reply(remoting.CodeSuccess, "", heartbeatReply{}, nil)
}

// subscriptions converts what the wire says. Tag codes are computed here: the
// Go client's are hashes of bytes, not of UTF-16 units.
func subscriptions(data []body.SubscriptionData) []subgroup.Subscription {
	subs := make([]subgroup.Subscription, len(data))
	for i := range data {
		d := &data[i]
		sub := &subs[i]
		*sub = subgroup.Subscription{Topic: d.Topic, SubString: d.SubString, ExpressionType: d.ExpressionType,
			Tags: d.TagsSet, SubVersion: d.SubVersion, ClassFilter: d.ClassFilterMode}
		if !isTag(d.ExpressionType) || sub.SubString == "*" {
			continue
		}
		if sub.SubString == "" && len(d.TagsSet) == 0 {
			sub.SubString = "*"
			continue
		}
		if len(d.TagsSet) == 0 {
			if p, err := subgroup.ParseTags(d.Topic, d.SubString); err == nil {
				sub.Tags, sub.Codes = p.Tags, p.Codes
			}
			continue
		}
		for _, tag := range d.TagsSet {
			sub.Codes = append(sub.Codes, record.JavaHash(tag))
		}
	}
	return subs
}

// heartbeatReply is the header of an answer to 34.
type heartbeatReply struct{}

// EncodeExt writes the two flags.
func (heartbeatReply) EncodeExt(w *remoting.ExtWriter) {
	w.Bool("IS_SUPPORT_HEART_BEAT_V2", false)
	w.Bool("IS_SUB_CHANGE", true)
}

// unregister serves 35.
func (h *clientHandler) unregister(s *session, r *remoting.Request) {
	if s.lanes.has(nil) {
		h.later(s, r)
		return
	}
	h.leave(s, r)
}

func (h *clientHandler) leave(s *session, r *remoting.Request) {
	var q header.UnregisterClient
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	h.members.Unregister(s.peer, q.ClientID, q.ProducerGroup, q.ConsumerGroup)
	if q.ConsumerGroup != "" {
		h.locks.Release(q.ConsumerGroup, q.ClientID)
	}
	r.Reply(remoting.CodeSuccess, "", remoting.None{}, nil)
}

// closed removes a connection's client everywhere; its queue locks go at once,
// so that others need not wait for the lease (RocketMQ: up to 60 s).
func (h *clientHandler) closed(p *peer) {
	for _, m := range h.members.ConnClosed(p) {
		h.locks.Release(m.Group, m.ClientID)
	}
}

// list serves 38. Nobody online is an error, not an empty list: clients keep
// their queues then.
func (h *clientHandler) list(_ *session, r *remoting.Request) {
	group := r.Ext.Bytes("consumerGroup")
	view := h.members.GroupBytes(group)
	if view == nil || len(view.Clients) == 0 {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("no consumer for this group, %s", group), remoting.None{}, nil)
		return
	}
	ids := body.ConsumerList{ConsumerIDList: make([]string, len(view.Clients))}
	for i := range view.Clients {
		ids.ConsumerIDList[i] = view.Clients[i].ClientID
	}
	r.Reply(remoting.CodeSuccess, "", remoting.None{}, ids.Encode())
}

// checkConfig serves 46: a consumer asks at its start whether its filter works.
func (h *clientHandler) checkConfig(_ *session, r *remoting.Request) {
	q, err := body.DecodeCheckClientRequest(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	if isTag(q.SubscriptionData.ExpressionType) {
		r.Reply(remoting.CodeSuccess, "", nil, nil)
		return
	}
	v := noSQL(q.SubscriptionData.ExpressionType)
	r.Reply(v.code, v.remark, nil, nil)
}

// addrText is an address as RocketMQ prints it: ip:port, IPv6 without brackets.
func addrText(a netip.AddrPort) string {
	return fmt.Sprintf("%s:%d", a.Addr(), a.Port())
}
