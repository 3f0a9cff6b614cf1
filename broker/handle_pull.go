package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mqctl/broker/hold"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/broker/stats"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// pullHandler serves 11 and 361 with long polling (RocketMQ's
// PullMessageProcessor and PullRequestHoldService).
type pullHandler struct {
	here    place
	live    *liveRef
	topics  *topic.Table
	groups  *subgroup.Groups
	members *subgroup.Members
	offsets *subgroup.Offsets
	commits *committer
	store   *store.Store
	stats   *stats.Stats
	holds   *hold.Pulls
	pool    *pool
	steady  func() time.Time
	stand   *standingRef
	peers   *peersRef
	acked   ackedBy // nil: no slave's progress is known
	counts  *pullStats
	resets  pendingResets // nil: none are kept

	buffers sync.Pool       // of *pullBuffer
	former  func() bool     // a former master serves readers with an old route for a while
	took    store.Histogram // of reads
}

// pendingResets are server-side resets that no pull has seen yet
// (*subgroup.Offsets).
type pendingResets interface {
	TakeReset(group, topic []byte, queue int32) (target int64, ok bool)
}

// pullBuffer is what a read is collected in until it is queued for the socket.
type pullBuffer struct{ b []byte }

// keepBuffer is the largest buffer kept for reuse: a full answer from memory
// (256 KiB) and one message over it.
const keepBuffer = 512 << 10

// Values of forbiddenType, with code 16 (Java class ForbiddenType).
const (
	forbidBroker = iota + 1
	forbidGroup
	forbidTopic
	forbidBroadcast
	forbidSubscription
)

// longestHold bounds how long a client may ask to be held.
const longestHold = time.Hour

// subCache is the last subscription that came inside a pull, parsed.
type subCache struct {
	topic, text string
	sub         *subgroup.Subscription
}

// pullRun is one run of a pull: the first, on the reader or in the pool, or the
// one that follows its being held.
type pullRun struct {
	call  remoting.Call
	head  *header.PullMessage
	reply *header.PullMessageReply
	subs  *subCache
	lite  bool
	first bool  // may commit and may be held
	warm  bool  // must not touch the disk: a cold read goes to the pool
	may   bool  // may create the group
	turn  int64 // of the held pulls, before anything was looked at
}

// pullVerdict refuses a pull, or says that its group must be created first.
type pullVerdict struct {
	code      int
	remark    string
	forbidden int
	create    bool
	again     bool // its group was created, which changed what was looked at
	unknown   bool // the group, topic or queue: a slave's master may know it
}

// pullGrant is what the checks found.
type pullGrant struct {
	group *subgroup.Config
	topic *topic.Config
	sub   *subgroup.Subscription // nil = every message
}

// serve is the inline handler of pulls.
func (h *pullHandler) serve(s *session, r *remoting.Request) {
	// What it points to is the connection's buffer, which an idle session must not
	// keep alive.
	defer func() { s.pull = header.PullMessage{} }()
	if err := s.pull.Decode(r.Ext); err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	h.run(pullRun{call: r.Call, head: &s.pull, reply: &s.pullReply, subs: &s.subs,
		lite: r.Code == remoting.ReqLitePullMessage, first: true, warm: true})
}

// run checks, reads and answers, or holds the pull, or gives it to the pool.
func (h *pullHandler) run(x pullRun) {
	x.turn = h.holds.Turn()
	l, st := h.live.Load(), h.stand.Load()
	if st.isSlave() && !l.SlaveRead && !h.former() {
		// Before all checks, as RocketMQ's rejectRequest.
		x.call.Reply(remoting.CodeSystemBusy, slaveRefuses, remoting.None{}, nil)
		return
	}
	g, v := h.check(l, st, &x)
	if v.again {
		h.run(x)
		return
	}
	if v.create {
		h.later(x)
		return
	}
	if v.code != 0 {
		if v.unknown && st.isSlave() && h.sendBack(st, &x) {
			return
		}
		var ext remoting.ExtEncoder = remoting.None{}
		if v.forbidden != 0 {
			ext = &header.PullForbiddenReply{ForbiddenType: int32(v.forbidden)}
		}
		x.call.Reply(v.code, v.remark, ext, nil)
		return
	}
	head := x.head
	q := h.store.Lookup(head.Topic, head.QueueID)
	if q == nil {
		q = h.store.Queue(g.topic.TopicName, head.QueueID)
	}
	offset := record.QueueOffset(head.QueueOffset)
	if x.warm && h.store.Cold(q, offset) {
		h.later(x)
		return
	}
	if x.first && head.SysFlag&header.PullCommitOffset != 0 {
		h.commits.commit(x.call.Conn, head.ConsumerGroup, head.Topic, head.QueueID, head.CommitOffset, remoting.Fields{})
	}
	h.read(l, st, x, g, q, offset)
}

// slaveRefuses is the remark of a slave that serves no reads.
const slaveRefuses = "[REJECTREQUEST]system busy, start flow control for a while"

// sendBack answers a pull for a group, topic or queue that a slave does not know
// (yet) with the master, which may. Not if the client comes back from there.
func (h *pullHandler) sendBack(st *standing, x *pullRun) bool {
	head, conn := x.head, x.call.Conn.ID()
	now := h.steady().UnixMilli()
	if !st.MasterAlive || h.counts.returned(head.ConsumerGroup, head.Topic, head.QueueID, conn, head.QueueOffset, now) {
		return false
	}
	a := pullAnswer{code: remoting.CodePullRetryImmediately, next: head.QueueOffset, why: redirectedToMaster}
	h.counts.note(&pullNote{group: head.ConsumerGroup, topic: head.Topic, queue: head.QueueID, conn: conn, self: st.ID,
		offset: head.QueueOffset, answer: &a, behind: -1, nowMillis: now})
	*x.reply = header.PullMessageReply{SuggestWhichBrokerID: a.suggest, NextBeginOffset: a.next}
	x.call.Reply(a.code, store.NoMatchedLogicQueue.String(), x.reply, nil)
	return true
}

// read reads the store and answers, or parks the pull.
func (h *pullHandler) read(l *live, st *standing, x pullRun, g pullGrant, q *store.Queue, offset record.QueueOffset) {
	buf, ok := h.buffers.Get().(*pullBuffer)
	if !ok {
		buf = &pullBuffer{}
	}
	var filter store.Filter
	if g.sub != nil {
		filter = g.sub
	}
	head := x.head
	var data []byte
	var res store.ReadResult
	if target, reset := h.reset(head); reset {
		data, res = buf.b[:0], store.ReadResult{Status: store.OffsetReset, Next: record.QueueOffset(target), Min: q.Min(), Max: q.Max()}
	} else {
		begin := h.steady()
		data, res = h.store.Read(buf.b[:0], q, offset, max(1, int(head.MaxMsgNums)), filter)
		h.took.Add(h.steady().Sub(begin), 1)
	}
	if res.Err != nil && res.Count == 0 {
		// Anything else would make the client skip messages, or ask again at once.
		h.keep(buf, data)
		x.call.Reply(remoting.CodeSystemError, res.Err.Error(), remoting.None{}, nil)
		return
	}
	now := h.steady().UnixMilli()
	f := pullFacts{stand: st, live: l, group: g.group, peers: h.peers.Load(), acked: h.acked, status: res.Status,
		offset: offset, next: res.Next, slow: res.Slow, need: res.LastEnd}
	if f.need == 0 && l.SlaveRead && !st.isSlave() && len(f.peers) > 0 {
		f.need = h.store.EndBefore(q, res.Next)
	}
	conn := x.call.Conn.ID()
	if st.isSlave() && pullCode(res.Status, offset) == remoting.CodePullOffsetMoved {
		// One that was held has come back already.
		f.returned = !x.first || h.counts.returned(head.ConsumerGroup, head.Topic, head.QueueID, conn, int64(offset), now)
	}
	a := decide(&f)
	if a.code == remoting.CodePullNotFound && x.first && head.SysFlag&header.PullSuspend != 0 && h.park(l, st, x, g, q, offset, res.Max) {
		h.keep(buf, data)
		return
	}
	h.offsets.NotePull(head.ConsumerGroup, head.Topic, head.QueueID, a.next)
	n := pullNote{group: head.ConsumerGroup, topic: head.Topic, queue: head.QueueID, conn: conn, self: st.ID, offset: int64(offset),
		answer: &a, slow: res.Slow, behind: -1, nowMillis: now}
	switch {
	case res.LastEnd > 0:
		n.behind, n.phys = res.Behind, int64(res.Last)
	case res.Status == store.OffsetOverflowOne || res.Status == store.NoMessageInQueue && offset == 0:
		n.behind, n.phys = 0, int64(f.need)
	}
	h.counts.note(&n)
	*x.reply = header.PullMessageReply{
		SuggestWhichBrokerID: a.suggest,
		NextBeginOffset:      a.next, MinOffset: int64(res.Min), MaxOffset: int64(res.Max),
		TopicSysFlag: g.topic.TopicSysFlag, GroupSysFlag: g.group.GroupSysFlag,
	}
	if a.code == remoting.CodeSuccess {
		h.stats.Got(head.Topic, head.ConsumerGroup, int64(res.Count), int64(res.Bytes))
		x.call.Reply(a.code, res.Status.String(), x.reply, data)
	} else {
		h.stats.GetMiss()
		x.call.Reply(a.code, res.Status.String(), x.reply, nil)
	}
	h.keep(buf, data)
}

// reset is where a server-side reset sends this queue; only once.
func (h *pullHandler) reset(head *header.PullMessage) (int64, bool) {
	if h.resets == nil {
		return 0, false
	}
	return h.resets.TakeReset(head.ConsumerGroup, head.Topic, head.QueueID)
}

func (h *pullHandler) keep(buf *pullBuffer, data []byte) {
	if cap(data) <= keepBuffer {
		buf.b = data
		h.buffers.Put(buf)
	}
}

// check is rows 1 to 10 of the checks, in RocketMQ's order.
func (h *pullHandler) check(l *live, st *standing, x *pullRun) (g pullGrant, v pullVerdict) {
	head := x.head
	if !l.readable() {
		return g, forbid(forbidBroker, "the broker[%s] pulling message is forbidden", h.here.ip)
	}
	if x.lite && !l.LitePull {
		return g, forbid(forbidBroker, "the broker[%s] for lite pull consumer is forbidden", h.here.ip)
	}
	if g.group, v = h.group(l, st, x); g.group == nil {
		return g, v
	}
	if !g.group.ConsumeEnable {
		return g, forbid(forbidGroup, "subscription group no permission, %s", head.ConsumerGroup)
	}
	if g.topic = h.topics.GetBytes(head.Topic); g.topic == nil {
		return g, missingHere(remoting.CodeTopicNotExist, "topic[%s] not exist, apply first please! \n%s", head.Topic, seeFAQ)
	}
	if g.topic.Perm&topic.PermRead == 0 {
		return g, forbid(forbidTopic, "the topic[%s] pulling message is forbidden", head.Topic)
	}
	if head.QueueID < 0 || head.QueueID >= g.topic.ReadQueueNums {
		return g, missingHere(remoting.CodeInvalidParameter, "queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[/%s]",
			head.QueueID, head.Topic, g.topic.ReadQueueNums, x.call.Conn.RemoteAddr())
	}
	if head.SysFlag&header.PullSubscription != 0 {
		g.sub, v = h.carried(x)
	} else {
		g.sub, v = h.registered(g.group, head)
	}
	return g, v
}

// group finds the group's settings, or what to do without them. A slave makes no
// groups: its master does while it lives; alone, the slave serves a group that its
// master would have made with the defaults, and keeps nothing.
func (h *pullHandler) group(l *live, st *standing, x *pullRun) (*subgroup.Config, pullVerdict) {
	if g := h.groups.GetBytes(x.head.ConsumerGroup); g != nil {
		return g, pullVerdict{}
	}
	name := string(x.head.ConsumerGroup)
	if servesAlone(st, l, name) {
		g := subgroup.Defaults(name)
		return &g, pullVerdict{}
	}
	if !st.isSlave() && h.groups.CanCreate(name) {
		if !x.may {
			return nil, pullVerdict{create: true}
		}
		g, err := h.groups.FindOrCreate(name)
		if err != nil {
			return nil, deny(remoting.CodeSystemError, "the group table could not be saved: %v", err)
		}
		if g != nil {
			return nil, pullVerdict{again: true}
		}
	}
	return nil, missingHere(remoting.CodeSubscriptionGroupNotExist, "subscription group [%s] does not exist, \n%s", name, seeFAQ)
}

// servesAlone says whether a slave without its master serves a group that it does
// not know, as its master would have made it. Its progress is kept: the master takes
// it over with its own.
func servesAlone(st *standing, l *live, group string) bool {
	return st.isSlave() && !st.MasterAlive && l.AutoCreateGroup && subgroup.CheckName(group) == nil
}

// carried builds the subscription that came with the pull (sysFlag bit 4).
func (h *pullHandler) carried(x *pullRun) (*subgroup.Subscription, pullVerdict) {
	head := x.head
	text := head.Subscription
	if !isTag(head.ExpressionType) {
		if len(text) == 0 {
			return nil, deny(remoting.CodeSubscriptionParseFailed, "parse the consumer's subscription failed")
		}
		return nil, noSQL(string(head.ExpressionType))
	}
	if len(text) == 0 || string(text) == "*" || head.SysFlag&header.PullClassFilter != 0 {
		return nil, pullVerdict{}
	}
	c := x.subs
	if c.sub == nil || c.text != string(text) || c.topic != string(head.Topic) {
		sub, err := subgroup.ParseTags(string(head.Topic), string(text))
		if err != nil {
			return nil, deny(remoting.CodeSubscriptionParseFailed, "parse the consumer's subscription failed")
		}
		*c = subCache{topic: string(head.Topic), text: string(text), sub: sub}
	}
	return c.sub, pullVerdict{}
}

// registered finds the subscription that the group's heartbeats brought.
func (h *pullHandler) registered(cfg *subgroup.Config, head *header.PullMessage) (*subgroup.Subscription, pullVerdict) {
	view := h.members.GroupBytes(head.ConsumerGroup)
	if view == nil {
		return nil, deny(remoting.CodeSubscriptionNotExist, "the consumer's group info not exist\n%s", seeFAQ)
	}
	if !cfg.ConsumeBroadcastEnable && view.MessageModel == "BROADCASTING" {
		return nil, forbid(forbidBroadcast, "the consumer group[%s] can not consume by broadcast way", head.ConsumerGroup)
	}
	if h.groups.Forbidden(head.ConsumerGroup, head.Topic) {
		return nil, forbid(forbidSubscription, "the consumer group[%s] is forbidden for topic[%s]", head.ConsumerGroup, head.Topic)
	}
	sub := view.Subscriptions[string(head.Topic)]
	if sub == nil {
		return nil, deny(remoting.CodeSubscriptionNotExist, "the consumer's subscription not exist\n%s", seeFAQ)
	}
	if sub.SubVersion < head.SubVersion {
		return nil, deny(remoting.CodeSubscriptionNotLatest, "the consumer's subscription not latest")
	}
	if !isTag(sub.ExpressionType) {
		return nil, noSQL(sub.ExpressionType)
	}
	if sub.ClassFilter || sub.SubString == "*" || head.SysFlag&header.PullClassFilter != 0 {
		return nil, pullVerdict{}
	}
	return sub, pullVerdict{}
}

func deny(code int, format string, args ...any) pullVerdict {
	return pullVerdict{code: code, remark: fmt.Sprintf(format, args...)}
}

// missingHere refuses what another replica may have.
func missingHere(code int, format string, args ...any) pullVerdict {
	v := deny(code, format, args...)
	v.unknown = true
	return v
}

func forbid(kind int, format string, args ...any) pullVerdict {
	return pullVerdict{code: remoting.CodeNoPermission, remark: fmt.Sprintf(format, args...), forbidden: kind}
}

// noSQL refuses property filters, as a broker with enablePropertyFilter=false does.
func noSQL(kind string) pullVerdict {
	return deny(remoting.CodeSystemError, "The broker does not support consumer to filter message by %s", kind)
}

// isTag says whether an expression type means tags: TAG, empty or absent.
func isTag[T ~string | ~[]byte](kind T) bool { return len(kind) == 0 || string(kind) == "TAG" }

// ownPull is a pull with its own memory: held, or on its way through the pool.
type ownPull struct {
	h     *pullHandler
	run   pullRun
	head  header.PullMessage
	reply header.PullMessageReply
	subs  subCache
	sub   *subgroup.Subscription // what it waits for; nil = every message
}

// own copies what run borrows from the connection's buffer.
func (h *pullHandler) own(x pullRun) *ownPull {
	p := &ownPull{h: h, run: x, head: *x.head, subs: *x.subs}
	mem := make([]byte, 0, len(p.head.ConsumerGroup)+len(p.head.Topic)+len(p.head.Subscription)+len(p.head.ExpressionType))
	for _, f := range []*[]byte{&p.head.ConsumerGroup, &p.head.Topic, &p.head.Subscription, &p.head.ExpressionType} {
		at := len(mem)
		mem = append(mem, *f...)
		*f = mem[at:len(mem):len(mem)]
	}
	p.run.head, p.run.reply, p.run.subs = &p.head, &p.reply, &p.subs
	return p
}

// later runs the pull in the pool: it must create its group or read the disk.
func (h *pullHandler) later(x pullRun) {
	p := h.own(x)
	p.run.warm, p.run.may = false, true
	if !h.pool.submit(0, func(context.Context) { p.again() }) {
		x.call.Reply(remoting.CodeSystemBusy, overloaded, remoting.None{}, nil)
	}
}

// park holds the pull until a message for it arrives or its time is up. False:
// too many are held, or it asked for no time. end is the queue's: a pull that lies
// before what a slave holds waits for whatever comes next.
func (h *pullHandler) park(l *live, st *standing, x pullRun, g pullGrant, q *store.Queue, offset, end record.QueueOffset) bool {
	wait := l.ShortPolling
	if l.LongPolling {
		wait = time.Duration(min(max(x.head.SuspendTimeoutMillis, 0), longestHold.Milliseconds())) * time.Millisecond
	}
	if wait <= 0 {
		return false
	}
	if st.isSlave() {
		offset = max(offset, end)
	}
	p := h.own(x)
	p.run.first, p.run.warm, p.sub = false, true, g.sub
	conn := x.call.Conn
	if !h.holds.Park(q, offset, h.steady().Add(wait), g.group.GroupName, conn.ID(), p) {
		return false
	}
	if h.holds.Turn() != x.turn {
		h.holds.Changed(g.group.GroupName) // see Turn
	}
	select {
	case <-conn.Gone():
		// Closed came before Park (a pull from the pool): nobody else drops it.
		h.holds.Drop(conn.ID())
	default:
	}
	return true
}

// Matches says whether a message with this tag code is worth a wake-up.
func (p *ownPull) Matches(tagsCode int64) bool {
	return p.sub == nil || p.sub.MatchTag(tagsCode)
}

// Wake runs the pull again, without suspending or committing, and answers it.
func (p *ownPull) Wake(hold.Why) { p.again() }

// again runs the pull on a goroutine of somebody else: the pool, the timer of
// held pulls, or whoever stored the message that it waited for.
func (p *ownPull) again() {
	call := p.run.call
	call.Guard(p.code(), func() { p.h.run(p.run) })
	call.Conn.Flush()
}

func (p *ownPull) code() int {
	if p.run.lite {
		return remoting.ReqLitePullMessage
	}
	return remoting.ReqPullMessage
}
