package broker

import (
	"context"
	"fmt"
	"runtime/debug"

	"mqctl/broker/remoting"
)

// How a request finds its handler.
//
// Inline handlers run on the connection's reader: sends, pulls, offsets,
// heartbeats, locks. They never wait; what would wait is cloned and given to a
// pool. Pooled handlers (admin, key queries) get their own copy of the request
// and may wait for the disk or a peer.
//
// Admin handlers are listed by adminHandlers(b), which is called once by New
// after every table is loaded.

// inlineFunc serves a request on its connection's reader. r and what it holds
// are valid until it returns.
type inlineFunc func(s *session, r *remoting.Request)

// handlerFunc serves a pooled request: r is its own copy. It answers r.Call
// exactly once (Reply; the pool flushes the connection afterwards). ctx ends
// when the broker has run out of patience at shutdown.
type handlerFunc func(ctx context.Context, r *remoting.Request)

// inlineCodes is the size of the inline table: all inline codes are below it.
const inlineCodes = 400

// goAwayVersion is the newest client version that does not understand GO_AWAY
// (V5_3_1: NettyRemotingAbstract sends it to clients above).
const goAwayVersion = 475

// overloaded is the remark of SYSTEM_BUSY when a pool is full.
const overloaded = remoting.OverloadMark + "system busy, start flow control for a while"

// inlineTable lists the requests served on the reader.
func (b *Broker) inlineTable() (t [inlineCodes]inlineFunc) {
	t[remoting.ReqSendMessage] = b.sends.serve
	t[remoting.ReqSendMessageV2] = b.sends.serve
	t[remoting.ReqSendBatchMessage] = b.sends.serve
	t[remoting.ReqPullMessage] = b.pulls.serve
	t[remoting.ReqLitePullMessage] = b.pulls.serve
	t[remoting.ReqQueryConsumerOffset] = b.progress.query
	t[remoting.ReqUpdateConsumerOffset] = b.progress.commit
	t[remoting.ReqSearchOffsetByTimestamp] = b.progress.search
	t[remoting.ReqGetMaxOffset] = b.progress.max
	t[remoting.ReqGetMinOffset] = b.progress.min
	t[remoting.ReqGetEarliestMsgStoreTime] = b.progress.earliest
	t[remoting.ReqHeartBeat] = b.clients.heartbeat
	t[remoting.ReqUnregisterClient] = b.clients.unregister
	t[remoting.ReqGetConsumerListByGroup] = b.clients.list
	t[remoting.ReqCheckClientConfig] = b.clients.checkConfig
	t[remoting.ReqLockBatchMQ] = b.queueLocks.lock
	t[remoting.ReqUnlockBatchMQ] = b.queueLocks.unlock
	t[remoting.ReqConsumerSendMsgBack] = b.backs.serve
	return t
}

// requests implements remoting.Handler: it chooses the handler of each frame.
// Main and fast port share it, so both answer alike (RocketMQ's fast port
// refuses pulls; ours does not).
type requests struct {
	b      *Broker
	inline [inlineCodes]inlineFunc
	pooled map[int]handlerFunc
}

// ServeRequest is called on the connection's reader for each frame of a burst.
func (q *requests) ServeRequest(c *remoting.Conn, r *remoting.Request) {
	s := q.session(c)
	if q.b.draining.Load() && r.Version > goAwayVersion {
		r.Reply(remoting.CodeGoAway, "please go away", nil, nil)
		return
	}
	if !isSend(r.Code) && q.b.relay.takeOther(s, r) {
		return
	}
	if r.Code == remoting.ReqMqctlRelay {
		q.serveRelayed(s, r)
		return
	}
	var f inlineFunc
	if r.Code >= 0 && r.Code < inlineCodes {
		f = q.inline[r.Code]
	}
	if f == nil {
		s.append()
		q.servePooled(r)
		return
	}
	if !isSend(r.Code) {
		s.append()
	}
	f(s, r)
}

// isSend says whether a request only adds to the burst's batch. Everything else
// first appends what the burst has collected, so that a client's own order of
// requests holds.
func isSend(code int) bool {
	return code == remoting.ReqSendMessageV2 || code == remoting.ReqSendBatchMessage || code == remoting.ReqSendMessage
}

// BurstEnd appends what the burst has collected and answers it.
func (q *requests) BurstEnd(c *remoting.Conn) {
	if s, ok := c.Session.(*session); ok {
		s.append()
		s.appendRelayed()
	}
	q.b.relay.flush()
}

// Closed forgets everything the connection was part of.
func (q *requests) Closed(c *remoting.Conn) {
	s, ok := c.Session.(*session)
	if !ok {
		return
	}
	s.append()
	s.appendRelayed()
	q.b.holds.Drop(c.ID())
	q.b.clients.closed(s.peer)
}

// session returns the connection's session, made with its first request.
func (q *requests) session(c *remoting.Conn) *session {
	if s, ok := c.Session.(*session); ok {
		return s
	}
	s := newSession(q.b, c)
	c.Session = s
	return s
}

// servePooled gives an admin request to its pool, or refuses a code that
// nobody serves.
func (q *requests) servePooled(r *remoting.Request) {
	f := q.pooled[r.Code]
	if f == nil {
		r.Reply(remoting.CodeRequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", r.Code), nil, nil)
		return
	}
	if !q.b.admin.fits(len(r.Body)) {
		r.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
		return
	}
	clone := r.Clone()
	if !q.b.admin.submit(len(r.Body), func(ctx context.Context) { q.b.runPooled(ctx, clone, f) }) {
		r.Reply(remoting.CodeSystemBusy, overloaded, nil, nil)
	}
}

// runPooled runs one pooled handler; a panic is a report in the log and an
// answer, never the end of the process.
func (b *Broker) runPooled(ctx context.Context, r *remoting.Request, f handlerFunc) {
	defer r.Conn.Flush()
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("internal error while serving a request", "code", r.Code, "peer", r.Conn.RemoteAddr(),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r.Reply(remoting.CodeSystemError, fmt.Sprintf("internal error while serving request %d; the broker's log has the report", r.Code), nil, nil)
		}
	}()
	f(ctx, r)
}

// jobPanicked reports a panic outside of any request of a pool's job.
func (b *Broker) jobPanicked(p any) {
	b.log.Error("internal error in a pool", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
