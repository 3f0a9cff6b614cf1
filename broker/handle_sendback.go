package broker

import (
	"context"
	"math/rand/v2"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/broker/stats"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// sendBackHandler serves 36: a consumer could not process a message and gives
// it back, to be delivered later or, after too many attempts, to the dead letter
// topic (RocketMQ's AbstractSendMessageProcessor.consumerSendMsgBack).
type sendBackHandler struct {
	here   place
	live   *liveRef
	topics *topic.Table
	groups *subgroup.Groups
	store  *store.Store
	stats  *stats.Stats
	stand  *standingRef
	levels int32
	pool   *pool
	guard  func(ctx context.Context, r *remoting.Request, f handlerFunc)
}

// serve gives the request to the pool: it reads a message that may be cold and
// may have to make topics.
func (h *sendBackHandler) serve(_ *session, r *remoting.Request) {
	if !h.pool.fits(0) {
		refuseBack(r, busyNow)
		return
	}
	clone := r.Clone()
	if !h.pool.submit(0, func(ctx context.Context) { h.guard(ctx, clone, h.back) }) {
		refuseBack(r, busyNow)
	}
}

var busyNow = verdict{code: remoting.CodeSystemBusy, remark: overloaded}

// refuseBack refuses a send-back. The official Go client takes any answer for a
// success and forgets the message; without one it keeps it and tries again some
// seconds later. So what may succeed at another time, or at another broker, is not
// answered there.
func refuseBack(r *remoting.Request, v verdict) {
	if r.Language == "GO" && passing(v.code) {
		r.Drop()
		return
	}
	r.Reply(v.code, v.remark, nil, nil)
}

// passing reports whether the reason of a refusal may pass: no master here, no
// space, a permission that is being changed. What can never succeed is answered.
func passing(code int) bool {
	switch code {
	case remoting.CodeServiceNotAvailable, remoting.CodeSystemBusy, remoting.CodeNoPermission:
		return true
	}
	return false
}

// back answers one send-back.
func (h *sendBackHandler) back(ctx context.Context, r *remoting.Request) {
	var q header.ConsumerSendMsgBack
	if err := q.Decode(r.Ext); err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	v := h.take(ctx, r, &q)
	if r.Language != "GO" && v.code == remoting.CodeServiceNotAvailable {
		v.code = remoting.CodeSystemError // as RocketMQ answers: the client sends it to another broker
	}
	refuseBack(r, v)
}

// take is the steps of a send-back. A slave stores nothing; the client sends the
// message to another master then, as a new one.
func (h *sendBackHandler) take(ctx context.Context, r *remoting.Request, q *header.ConsumerSendMsgBack) verdict {
	if !h.stand.Load().takesSends() {
		return refusef(remoting.CodeServiceNotAvailable, "no master available along with %s", h.here.ip)
	}
	g, err := h.groups.FindOrCreate(q.Group)
	if v := created(g != nil, err, refusef(remoting.CodeSubscriptionGroupNotExist, "subscription group not exist, %s %s", q.Group, seeFAQ)); v != (verdict{}) {
		return v
	}
	if l := h.live.Load(); !l.writable() {
		return refusef(remoting.CodeNoPermission, "the broker[%s] sending message is forbidden", h.here.ip)
	}
	if g.RetryQueueNums <= 0 {
		return verdict{} // the group wants no retries: dropped
	}
	sysFlag := int32(0)
	if q.UnitMode {
		sysFlag = topicUnitSub
	}
	target, v := h.target(subgroup.RetryTopic(q.Group), g.RetryQueueNums, sysFlag)
	if v != (verdict{}) {
		return v
	}
	raw, err := h.store.Message(nil, record.PhysOffset(q.Offset))
	if err != nil {
		return refusef(remoting.CodeSystemError, "look message by offset failed, %d", q.Offset)
	}
	m, err := record.Parse(raw)
	if err != nil {
		return refusef(remoting.CodeSystemError, "look message by offset failed, %d: %v", q.Offset, err)
	}
	limit := g.RetryMaxTimes
	if r.Version >= 121 && q.HasMaxReconsumeTimes {
		limit = q.MaxReconsumeTimes
	}
	queue, level := rand.Int32N(g.RetryQueueNums), q.DelayLevel
	dead := m.ReconsumeTimes() >= limit || level < 0
	if dead {
		if target, v = h.target(subgroup.DLQTopic(q.Group), 1, 0); v != (verdict{}) {
			return v
		}
		queue, level = 0, 0
	} else if level == 0 {
		level = 3 + m.ReconsumeTimes()
	}
	h.count(q, m, dead)
	return h.put(ctx, m, target, queue, level)
}

// target makes or finds the topic that takes the message.
func (h *sendBackHandler) target(name string, queues, sysFlag int32) (*topic.Config, verdict) {
	t, err := h.topics.Ensure(newTopic(name, queues, sysFlag))
	if v := created(t != nil, err, refusef(remoting.CodeSystemError, "topic[%s] not exist", name)); v != (verdict{}) {
		return nil, v
	}
	if t.Perm&topic.PermWrite == 0 {
		return nil, refusef(remoting.CodeNoPermission, "the topic[%s] sending message is forbidden", name)
	}
	return t, verdict{}
}

func (h *sendBackHandler) count(q *header.ConsumerSendMsgBack, m record.View, dead bool) {
	name := q.OriginTopic
	if name == "" {
		name = string(m.Topic())
	}
	if dead {
		h.stats.DLQ(name, q.Group)
		return
	}
	h.stats.SentBack(name, q.Group)
}

// put stores the copy: through the schedule topic when it has a delay level.
func (h *sendBackHandler) put(ctx context.Context, m record.View, target *topic.Config, queue, level int32) verdict {
	d := record.Draft{Topic: []byte(target.TopicName), QueueID: queue, Flag: m.Flag(),
		SysFlag:    m.SysFlag() &^ (record.FlagBornV6 | record.FlagStoreV6),
		BornMillis: m.BornMillis(), BornHost: m.BornHost(), StoreHost: h.here.host,
		ReconsumeTimes: m.ReconsumeTimes() + 1, Body: m.Body()}
	d.Properties = h.properties(m, target.TopicName, queue, min(level, h.levels))
	if level > 0 {
		d.Topic, d.QueueID = scheduleTopic, min(level, h.levels)-1
	}
	it, err := h.store.Append(ctx, h.store.Queue(string(d.Topic), d.QueueID), &d, false)
	if err != nil {
		return refusef(remoting.CodeServiceNotAvailable, "%s: %v", it.Status, err)
	}
	if it.Status != store.PutOK {
		return refusef(remoting.CodeServiceNotAvailable, "%s", it.Status)
	}
	return verdict{}
}

// properties rewrites the message's properties for its next life.
func (h *sendBackHandler) properties(m record.View, target string, queue, level int32) []byte {
	old := m.Properties()
	origin := record.FindProperty(old, propOriginID)
	if len(origin) == 0 {
		origin = record.AppendOffsetID(nil, m.StoreHost(), m.PhysOffset())
	}
	from := record.FindProperty(old, propRetryTopic)
	if len(from) == 0 {
		from = m.Topic()
	}
	text := record.AppendProperty(nil, propOriginID, origin)
	text = record.AppendProperty(text, propRetryTopic, from)
	text = record.AppendWithout(text, old, propOriginID, propRetryTopic, propDelay, propWait, propRealTopic, propRealQueue)
	text = record.AppendProperty(text, propDelay, appendInt(nil, int64(level)))
	text = record.AppendProperty(text, propWait, "false")
	if level > 0 {
		text = record.AppendProperty(text, propRealTopic, target)
		text = record.AppendProperty(text, propRealQueue, appendInt(nil, int64(queue)))
	} else if real := record.FindProperty(old, propRealTopic); real != nil {
		// A dead letter keeps where its last retry was, as RocketMQ's does.
		text = record.AppendProperty(text, propRealTopic, real)
		text = record.AppendProperty(text, propRealQueue, record.FindProperty(old, propRealQueue))
	}
	return text
}
