package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/stats"
	"mqctl/broker/topic"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// sendHandler serves 10, 310 and 320: it decodes, checks in the order of
// RocketMQ's SendMessageProcessor, rewrites (retry to dead letter, delay to
// schedule topic) and encodes the message into the burst's batch.
type sendHandler struct {
	here   place
	live   *liveRef
	topics *topic.Table
	groups *subgroup.Groups
	locks  *subgroup.Locks
	store  *store.Store
	stats  *stats.Stats
	ids    *record.UniqueIDs
	levels int32 // delay levels: DELAY above it is clamped
	pool   *pool
	now    func() time.Time
	guard  func(ctx context.Context, r *remoting.Request, f handlerFunc)
	gate   *sendGate
	slaves replicas
	// divert takes the sends that reach a broker which takes none: a slave, or one
	// that changes its role. It may keep r.Call (of a Clone) and answer later; it is
	// called on a connection's reader, where it must not wait, and in the pool.
	divert func(s *session, r *remoting.Request)

	bursts  sync.Pool    // of *burst
	waiting atomic.Int64 // bytes of bursts that wait for the flush or for slaves
}

// replicas is what sends to a synchronous master need of replication.Master.
type replicas interface {
	Admit() replication.Ack
	Wait(end record.PhysOffset, w replication.Waiter)
}

// mostWaiting bounds the bytes of all connections that wait for the flush or for
// slaves: past it sends are answered with SYSTEM_BUSY at once.
const mostWaiting = 256 << 20

// Bounds of a burst's batch: beyond either, it is appended before the burst ends.
const (
	burstBytes = 1 << 20
	burstItems = 1024
)

// missing says which table lacks what a send needs.
type missing uint8

const (
	missingNothing missing = iota
	missingTopic           // the topic itself: auto-create
	missingGroup           // the group of a retry topic
	missingDLQ             // the dead letter topic of that group
)

// verdict is what the checks made of a send: zero = stored into the batch; need
// = a table must change first (on the pool); else refused.
type verdict struct {
	code   int
	remark string
	need   missing
}

func refusef(code int, format string, args ...any) verdict {
	return verdict{code: code, remark: fmt.Sprintf(format, args...)}
}

// serve is the inline handler of sends.
func (h *sendHandler) serve(s *session, r *remoting.Request) {
	if s.burst == nil {
		if !h.gate.enter() {
			h.divert(s, r)
			return
		}
		s.burst = h.newBurst(s.conn, s.born)
	}
	b := s.burst
	if h.waiting.Load() > mostWaiting {
		b.refuse(r, verdict{code: remoting.CodeSystemBusy, remark: overloaded})
		return
	}
	if err := b.decode(r); err != nil {
		b.refuse(r, verdict{code: remoting.CodeSystemError, remark: err.Error()})
		return
	}
	if s.lanes.has(b.head.Topic) {
		h.later(s, r)
		return
	}
	v := h.accept(b, r)
	switch {
	case v.need != missingNothing:
		h.later(s, r)
	case v.code != 0:
		b.refuse(r, v)
	case b.full():
		s.append()
	}
}

// accept checks a decoded send (b.head, r.Body) and puts it into the batch.
func (h *sendHandler) accept(b *burst, r *remoting.Request) verdict {
	l := h.live.Load()
	cfg, v := h.admit(l, b, r)
	if v != (verdict{}) {
		return v
	}
	head := &b.head
	m := &b.msg
	*m = outgoing{topic: head.Topic, queue: head.QueueID, requested: head.QueueID, sysFlag: head.SysFlag}
	if m.queue < 0 {
		m.queue = rand.Int32N(cfg.WriteQueueNums)
		m.requested = m.queue
	}
	if cfg.TopicFilterType == "MULTI_TAG" {
		m.sysFlag |= record.FlagMultiTags
	}
	if head.Batch {
		return h.acceptBatch(l, b, r, cfg)
	}
	if group, ok := retryGroup(head.Topic); ok {
		if v := h.retry(b, r, group); v != (verdict{}) {
			return v
		}
	}
	return h.acceptOne(l, b, r, cfg)
}

// admit is rows 3 to 9 of the checks: broker, topic, queue.
func (h *sendHandler) admit(l *live, b *burst, r *remoting.Request) (*topic.Config, verdict) {
	head := &b.head
	if l.StartAccept > 0 && h.now().UnixMilli() < l.StartAccept {
		return nil, refusef(remoting.CodeSystemError, "broker unable to service, until %s", time.UnixMilli(l.StartAccept).UTC().Format(time.RFC3339))
	}
	cfg := h.topics.GetBytes(head.Topic)
	if cfg != nil && cfg.Order && !l.writable() {
		return nil, refusef(remoting.CodeNoPermission, "the broker[%s] sending message is forbidden", h.here.ip)
	}
	if cfg == nil {
		if err := topic.CheckName(string(head.Topic)); err != nil {
			return nil, verdict{code: remoting.CodeInvalidParameter, remark: err.Error()}
		}
	}
	if topic.NotSendable(head.Topic) {
		return nil, refusef(remoting.CodeNoPermission, "Sending message to topic[%s] is forbidden.", head.Topic)
	}
	_, retry := retryGroup(head.Topic)
	if len(head.Topic) > 127 && (!retry || head.Batch) {
		return nil, refusef(remoting.CodeMessageIllegal, "message topic length too long %d", len(head.Topic))
	}
	if head.Batch && retry {
		return nil, refusef(remoting.CodeMessageIllegal, "batch request does not support retry group %s", head.Topic)
	}
	if cfg == nil {
		if !retry && !h.mayCreate(l, head.DefaultTopic) {
			return nil, noTopic(head.Topic)
		}
		return nil, verdict{need: missingTopic}
	}
	if cfg.Perm&topic.PermWrite == 0 {
		return nil, refusef(remoting.CodeNoPermission, "the topic[%s] sending message is forbidden", head.Topic)
	}
	if head.QueueID >= max(cfg.WriteQueueNums, cfg.ReadQueueNums) {
		return nil, refusef(remoting.CodeInvalidParameter, "request queueId[%d] is illegal, %s Producer: %s", head.QueueID, describe(cfg), b.born)
	}
	if head.QueueID < 0 && cfg.WriteQueueNums <= 0 {
		return nil, refusef(remoting.CodeNoPermission, "the topic[%s] has no queue to write to", head.Topic)
	}
	return cfg, verdict{}
}

// mayCreate is the cheap half of auto-creation: could the template give a topic?
func (h *sendHandler) mayCreate(l *live, template []byte) bool {
	t := h.topics.GetBytes(template)
	if t == nil || t.Perm&topic.PermInherit == 0 {
		return false
	}
	return l.AutoCreateTopic || string(template) != topic.AutoCreate
}

func noTopic(name []byte) verdict {
	return refusef(remoting.CodeTopicNotExist, "topic[%s] not exist, apply first please!\n%s", name, seeFAQ)
}

// seeFAQ ends the remarks of missing topics, groups and subscriptions, as
// clients know them.
const seeFAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// retryGroup cuts the group from the name of a retry topic.
func retryGroup(name []byte) (group []byte, ok bool) {
	if len(name) < len(subgroup.RetryPrefix) || string(name[:len(subgroup.RetryPrefix)]) != subgroup.RetryPrefix {
		return nil, false
	}
	return name[len(subgroup.RetryPrefix):], true
}

// retry decides whether a send to a retry topic goes to the dead letter topic:
// after too many attempts, or when the group holds queue locks, since an
// ordered consumer sends here only after giving up.
func (h *sendHandler) retry(b *burst, r *remoting.Request, group []byte) verdict {
	cfg := h.groups.GetBytes(group)
	if cfg == nil {
		return verdict{need: missingGroup}
	}
	limit := cfg.RetryMaxTimes
	if r.Version >= 121 && b.head.HasMaxReconsumeTimes {
		limit = b.head.MaxReconsumeTimes
	}
	if b.head.ReconsumeTimes <= limit && !h.locks.AnyLive(cfg.GroupName) {
		return verdict{}
	}
	b.name = append(append(b.name[:0], subgroup.DLQPrefix...), group...)
	if h.topics.GetBytes(b.name) == nil {
		return verdict{need: missingDLQ}
	}
	b.msg.topic, b.msg.queue, b.msg.dead = b.name, 0, true
	return verdict{}
}

// acceptOne completes the properties of a single message and encodes it.
func (h *sendHandler) acceptOne(l *live, b *burst, r *remoting.Request, cfg *topic.Config) verdict {
	head, m := &b.head, &b.msg
	var p sentProps
	text := scanProps(b.text[:0], head.Properties, false, &p)
	text = append(text, l.stamp...)
	key := p.uniqKey
	if key == nil {
		at := len(b.keys)
		b.keys = h.ids.Append(b.keys, h.now().UnixMilli())
		key = b.keys[at:]
		text = record.AppendProperty(text, propUniqKey, key)
		p.known.UniqueKey = key
	}
	if m.dead {
		text = record.AppendProperty(record.AppendWithout(nil, text, propDelay), propDelay, "0")
		p.delay = 0
	}
	b.text = text
	if v := refuseKind(l, &p, cfg, m.sysFlag, head.ReconsumeTimes); v != (verdict{}) {
		return v
	}
	if p.delay > 0 {
		text = h.delay(b, &p)
	}
	if v := h.admitCopies(p.noWait); v != (verdict{}) {
		return v
	}
	d := &b.draft
	b.fill(h, r)
	d.Properties = text
	q := h.queue(m.topic, m.queue)
	if m.dead || p.delay > 0 { // the text was rewritten
		b.batch.Add(h.store, q, d, 0)
	} else {
		b.batch.AddKnown(h.store, q, d, &p.known, 0)
	}
	b.hold(r, 1, key, p.noWait)
	return verdict{}
}

// refuseKind refuses what this broker does not do: transactions, timers, inner
// batches; and what no broker stores.
func refuseKind(l *live, p *sentProps, cfg *topic.Config, sysFlag, reconsumed int32) verdict {
	kind := sysFlag & record.FlagTransaction
	retried := reconsumed > 0 && p.delay > 0 // was transactional once, comes back as a retry
	if p.tran && !retried || kind == record.FlagPrepared || kind == record.FlagRollback {
		if l.RejectTransaction {
			return refusef(remoting.CodeNoPermission, "the broker refuses transactional messages (rejectTransactionMessage=true)")
		}
		return refusef(remoting.CodeNoPermission, "transactional messages are not supported yet; send without TRAN_MSG")
	}
	if p.badDelay {
		return refusef(remoting.CodeMessageIllegal, "property DELAY is no number")
	}
	if p.timer && p.delay <= 0 && !p.fired {
		return refusef(remoting.CodeSystemError, "timer messages are not supported yet; use a delay level (DELAY)")
	}
	if p.inner || sysFlag&record.FlagInnerBatch != 0 {
		return refusef(remoting.CodeMessageIllegal, "inner batches are made by the broker: send a batch to a topic with queue.type=BatchCQ")
	}
	if !p.hasKeys && len(cfg.Attributes) > 0 && cfg.Attributes["cleanup.policy"] == "COMPACTION" {
		return refusef(remoting.CodeMessageIllegal, "the required message key is missing")
	}
	return verdict{}
}

// delay redirects the message to the queue of its level; the real target is in
// its properties until the scheduler delivers it (class HookUtils).
func (h *sendHandler) delay(b *burst, p *sentProps) []byte {
	level := min(p.delay, h.levels)
	text := b.text
	if p.timer || p.real {
		text = record.AppendWithout(nil, text, propTimerSec, propTimerMs, propTimerAt, propRealTopic, propRealQueue)
	}
	text = record.AppendProperty(text, propRealTopic, b.msg.topic)
	b.num = appendInt(b.num[:0], int64(b.msg.queue))
	text = record.AppendProperty(text, propRealQueue, b.num)
	b.text = text
	b.msg.topic, b.msg.queue = scheduleTopic, level-1
	return text
}

var scheduleTopic = []byte(topic.Schedule)

// acceptBatch turns a batch body into one message per element, all or none.
func (h *sendHandler) acceptBatch(l *live, b *burst, r *remoting.Request, cfg *topic.Config) verdict {
	head, m := &b.head, &b.msg
	var p sentProps
	b.outer = scanProps(b.outer[:0], head.Properties, true, &p)
	b.outer = append(b.outer, l.stamp...)
	if m.sysFlag&record.FlagTransaction != 0 || p.tran {
		return refusef(remoting.CodeMessageIllegal, "a batch cannot be transactional")
	}
	if p.delay > 0 {
		return refusef(remoting.CodeMessageIllegal, "a batch cannot be delayed")
	}
	if len(r.Body) == 0 || len(r.Body) > l.MaxMessage {
		return h.illegal(l)
	}
	if v := h.admitCopies(p.noWait); v != (verdict{}) {
		return v
	}
	b.fill(h, r)
	b.group++
	if cfg.Batch() && p.uniqKey != nil {
		return h.addInner(l, b, r, cfg, &p)
	}
	before := b.batch.Len()
	v := h.addElements(l, b, r, cfg, &p)
	n := b.batch.Len() - before
	if v != (verdict{}) {
		b.batch.Undo(n)
		return v
	}
	b.hold(r, int32(n), p.uniqKey, p.noWait)
	return verdict{}
}

// addElements checks the elements of a batch body and adds each, until one is bad.
func (h *sendHandler) addElements(l *live, b *burst, r *remoting.Request, cfg *topic.Config, outer *sentProps) verdict {
	q := h.queue(b.msg.topic, b.msg.queue)
	total := 0
	for rest := r.Body; len(rest) > 0; {
		e, tail, err := record.NextBatchItem(rest)
		if err != nil {
			return refusef(remoting.CodeMessageIllegal, "the batch body is damaged: %v", err)
		}
		rest = tail
		p := *outer
		p.uniqKey, p.known = nil, store.Properties{}
		b.text = scanProps(b.text[:0], e.Properties, false, &p)
		if v := refuseKind(l, &p, cfg, 0, 0); v != (verdict{}) {
			return v
		}
		if p.delay > 0 {
			return refusef(remoting.CodeMessageIllegal, "an element of a batch cannot be delayed")
		}
		props := len(b.text) + len(b.outer) + len(propUniqKey) + len(outer.uniqKey) + 2
		if props > record.MaxPropertyBytes {
			return h.illegal(l)
		}
		total += recordOverhead + len(b.msg.topic) + len(e.Body) + props
		if total > l.MaxMessage+maxOverhead {
			return refusef(remoting.CodeMessageIllegal, "the messages of the batch exceed %d bytes together", l.MaxMessage+maxOverhead)
		}
		b.text = b.element(b.text, &p, outer)
		b.draft.Flag, b.draft.Body, b.draft.Properties = e.Flag, e.Body, b.text
		b.batch.AddKnown(h.store, q, &b.draft, &p.known, b.group)
	}
	return verdict{}
}

// A record is at most this much larger than its body, topic and properties
// (IPv6 hosts, version 2), and a whole record than the largest body.
const (
	recordOverhead = 91 + 24 + 1
	maxOverhead    = 65536
)

func (h *sendHandler) illegal(l *live) verdict {
	return refusef(remoting.CodeMessageIllegal, "the message is illegal, maybe msg body or properties length not matched. msg body length limit %dB, msg properties length limit 32KB.", l.MaxMessage)
}

// queue finds or makes the handle of a queue; topic and id have been checked.
func (h *sendHandler) queue(name []byte, id int32) *store.Queue {
	if q := h.store.Lookup(name, id); q != nil {
		return q
	}
	return h.store.Queue(string(name), id)
}

// later sends a request whose tables must change first to the pool, in the lane
// of its topic, so that what this connection sends to one queue stays in order.
func (h *sendHandler) later(s *session, r *remoting.Request) {
	b := s.burst
	name := string(b.head.Topic)
	if !h.pool.fits(len(r.Body)) {
		b.refuse(r, verdict{code: remoting.CodeSystemBusy, remark: overloaded})
		return
	}
	s.append()
	first, taken := s.lanes.push(name, r.Clone())
	if !taken {
		r.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
	}
	if !first {
		return
	}
	if !h.pool.submit(len(r.Body), func(ctx context.Context) { h.work(ctx, s, name) }) {
		for _, left := range s.lanes.take(name) {
			left.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
		}
		s.lanes.take(name)
	}
}

// work serves a lane until it is empty.
func (h *sendHandler) work(ctx context.Context, s *session, name string) {
	s.conn.Guard("sends in the pool", func() { h.drain(ctx, s, name) })
}

func (h *sendHandler) drain(ctx context.Context, s *session, name string) {
	for rs := s.lanes.take(name); rs != nil; rs = s.lanes.take(name) {
		var b *burst
		for _, r := range rs {
			if b == nil && h.gate.enter() {
				b = h.newBurst(s.conn, s.born)
			}
			if b == nil {
				h.divert(s, r)
				continue
			}
			h.guard(ctx, r, func(ctx context.Context, r *remoting.Request) { h.acceptCreating(ctx, b, r) })
			if b.full() {
				h.finish(b)
				b = nil
			}
		}
		if b != nil {
			h.finish(b)
		}
		s.conn.Flush()
	}
}

// acceptCreating accepts a send and makes what it needs. Three rounds are the
// most a send can need: topic, group, dead letter topic.
func (h *sendHandler) acceptCreating(_ context.Context, b *burst, r *remoting.Request) {
	if err := b.decode(r); err != nil {
		b.refuse(r, verdict{code: remoting.CodeSystemError, remark: err.Error()})
		return
	}
	for range 4 {
		v := h.accept(b, r)
		if v.need != missingNothing {
			v = h.create(b, v.need)
			if v == (verdict{}) {
				continue
			}
		}
		if v.code != 0 {
			b.refuse(r, v)
		}
		return
	}
	b.refuse(r, refusef(remoting.CodeSystemError, "topic[%s] or its group was deleted while the message was sent", b.head.Topic))
}

// create makes the missing topic or group; it waits for the disk.
func (h *sendHandler) create(b *burst, what missing) verdict {
	name := string(b.head.Topic)
	group, _ := retryGroup(b.head.Topic)
	switch what {
	case missingTopic:
		sysFlag := int32(0)
		if b.head.UnitMode {
			sysFlag = topicUnit
			if group != nil {
				sysFlag = topicUnitSub
			}
		}
		cfg, err := h.topics.AutoCreateFrom(name, string(b.head.DefaultTopic), b.head.DefaultTopicQueueNums, sysFlag)
		if err == nil && cfg == nil && group != nil {
			cfg, err = h.topics.Ensure(newTopic(name, 1, sysFlag))
		}
		return created(cfg != nil, err, noTopic(b.head.Topic))
	case missingGroup:
		cfg, err := h.groups.FindOrCreate(string(group))
		return created(cfg != nil, err, refusef(remoting.CodeSubscriptionGroupNotExist, "subscription group not exist, %s\n%s", group, seeFAQ))
	default:
		dlq := subgroup.DLQTopic(string(group))
		cfg, err := h.topics.Ensure(newTopic(dlq, 1, 0))
		return created(cfg != nil, err, refusef(remoting.CodeSystemError, "topic[%s] not exist", dlq))
	}
}

// Topic sysFlag bits (Java class TopicSysFlag).
const (
	topicUnit    = 1
	topicUnitSub = 2
)

func created(ok bool, err error, otherwise verdict) verdict {
	if err != nil {
		return refusef(remoting.CodeSystemError, "the table could not be saved: %v", err)
	}
	if !ok {
		return otherwise
	}
	return verdict{}
}

// newTopic is a readable and writable topic with n queues.
func newTopic(name string, n, sysFlag int32) topic.Config {
	return topic.Config{TopicName: name, ReadQueueNums: n, WriteQueueNums: n, Perm: topic.PermRead | topic.PermWrite,
		TopicFilterType: "SINGLE_TAG", TopicSysFlag: sysFlag}
}

// describe prints a topic as RocketMQ's remarks do.
func describe(c *topic.Config) string {
	perm := []byte("---")
	if c.Perm&topic.PermRead != 0 {
		perm[0] = 'R'
	}
	if c.Perm&topic.PermWrite != 0 {
		perm[1] = 'W'
	}
	if c.Perm&topic.PermInherit != 0 {
		perm[2] = 'X'
	}
	return fmt.Sprintf("TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, topicSysFlag=%d, order=%t, attributes=%s]",
		c.TopicName, c.ReadQueueNums, c.WriteQueueNums, perm, c.TopicFilterType, c.TopicSysFlag, c.Order, describeMap(c.Attributes))
}
