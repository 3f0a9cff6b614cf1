package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
)

// Clients keep a route for 30 s. What they send meanwhile to a broker that is no
// master any more, or is just about to become none, is not refused but handed on:
//
//	fenced master         sends wait (parkLimit) for the new master, or to go on here
//	former master, 65 s   sends, 14, 15, 41 and 42 go to the new master
//	slave                 sends go to its master (forwardStaleWrites)
//
// A request travels whole, as the body of one private request (30004), over one
// connection that all share; the answer goes back as it came. What was relayed
// once is never relayed again. Nothing waits on a goroutine of its own: parked
// requests are kept in a list, relayed ones in the connection's table.

const (
	// parkLimit is how long a request waits for the new master: less than the 3 s
	// that Java's producer waits for an answer.
	parkLimit = 2 * time.Second
	// formerFor is how long a former master relays more than sends: clients' routes
	// live for 30 s, twice, and some more.
	formerFor = 65 * time.Second
	// relayBytes bounds what is parked and what is under way, each.
	relayBytes = 64 << 20
	// relaySilence ends a connection that owes answers and gives none.
	relaySilence = 5 * time.Second
	// relayRetry is the pause after the master could not be reached; sends are
	// refused meanwhile. relayTick is how often a master that is not one yet is asked.
	relayRetry = time.Second
	relayTick  = 20 * time.Millisecond
	askWait    = time.Second
	// leaveLimit is how long a former master stays registered as it was when the new
	// one does not come.
	leaveLimit = 10 * time.Second
)

// relayable says whether a request of a stale client may be handed on.
func relayable(code int) bool {
	switch code {
	case remoting.ReqSendMessage, remoting.ReqSendMessageV2, remoting.ReqSendBatchMessage,
		remoting.ReqQueryConsumerOffset, remoting.ReqUpdateConsumerOffset, remoting.ReqLockBatchMQ, remoting.ReqUnlockBatchMQ:
		return true
	}
	return false
}

// relayOptions are what a relay needs.
type relayOptions struct {
	Stand *standingRef
	Live  *liveRef
	Net   *remoting.Client
	// Ask asks the master for its role; remoting.CodeRequestCodeNotSupported is the answer of Apache's.
	Ask func(ctx context.Context, addr string) (*body.RoleStatus, error)
	// Prove shows the master, over a connection to it, that this is a broker of its name; nil: it need not.
	Prove func(ctx context.Context, c *remoting.Conn) error
	// Resume serves a parked send here after all, behind what its connection sent before.
	Resume func(s *session, r *remoting.Request)
	// Refuse answers a send that found no master.
	Refuse func(s *session, r *remoting.Request)
	// Followed hears that the new master of a former one serves, or that it is waited for no longer.
	Followed func(serves bool)
	Now      func() time.Time
	Log      *slog.Logger
}

// relay is the sending side.
type relay struct {
	o       relayOptions
	holding atomic.Bool  // a change of roles is under way
	former  atomic.Int64 // ms until which this is a former master
	dirty   atomic.Bool  // something was queued on conn and not flushed
	flying  atomic.Int64 // bytes that wait for an answer
	heard   atomic.Int64 // ms of the last answer
	wake    chan struct{}

	mu       sync.Mutex // guards what follows; no wait and no write under it
	closed   bool
	target   string         // of conn
	conn     *remoting.Conn // nil: not connected to a broker that is known to be master
	plain    bool           // the master is Apache's: requests are sent as they are
	parked   []parkedRequest
	bytes    int       // bodies in parked
	retryAt  time.Time // after a failure
	leaveBy  time.Time // see leaveLimit
	frame    []byte    // buffer
	failures int
}

// parkedRequest is one that waits; r is its own copy.
type parkedRequest struct {
	s     *session
	r     *remoting.Request
	until time.Time
}

func newRelay(o relayOptions) *relay {
	return &relay{o: o, wake: make(chan struct{}, 1)}
}

// hold lets sends wait from now on.
func (y *relay) hold() { y.holding.Store(true) }

// release lets parked requests be served here, in their order, and before newer
// ones of their connections.
func (y *relay) release() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, p := range y.parked {
		y.o.Resume(p.s, p.r)
	}
	y.clearParked()
	y.drop()
	y.former.Store(0)
	y.holding.Store(false)
}

// follow sends what is parked, and what stale clients send, to the new master.
func (y *relay) follow(string) {
	y.mu.Lock()
	y.drop()
	y.retryAt, y.leaveBy = time.Time{}, y.o.Now().Add(leaveLimit)
	y.former.Store(y.o.Now().Add(formerFor).UnixMilli())
	y.mu.Unlock()
	y.holding.Store(false)
	y.poke()
}

func (y *relay) clearParked() {
	clear(y.parked)
	y.parked, y.bytes = y.parked[:0], 0
}

// drop gives the connection up; the client closes it when nobody uses it. mu is held.
func (y *relay) drop() { y.conn, y.target = nil, "" }

func (y *relay) poke() {
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

// isFormer says whether this broker was the master a moment ago.
func (y *relay) isFormer() bool {
	until := y.former.Load()
	return until != 0 && y.o.Now().UnixMilli() < until
}

// takeOther hands on what is no send: progress and locks, at a former master.
// It is called on the connection's reader and does not wait. false: it is served here.
func (y *relay) takeOther(s *session, r *remoting.Request) bool {
	if y.former.Load() == 0 || !y.isFormer() || !relayable(r.Code) || s.foreign {
		return false
	}
	// Without a master to hand it on to, a former one is a slave like others: it
	// keeps progress and locks until there is a master again.
	if st := y.o.Stand.Load(); !st.isSlave() || !st.MasterAlive && !st.Leaving {
		return false
	}
	return y.take(s, r, true)
}

// takeSend hands a send on, or parks it, that reached a broker which takes none.
// false: it is refused.
func (y *relay) takeSend(s *session, r *remoting.Request) bool {
	if s.foreign {
		return y.giveBack(r)
	}
	st := y.o.Stand.Load()
	former := y.holding.Load() || y.isFormer() || !st.isSlave()
	if !former && (st.Master == "" || !st.MasterAlive || !y.o.Live.Load().ForwardStaleWrites) {
		return false
	}
	return y.take(s, r, former)
}

func (y *relay) take(s *session, r *remoting.Request, former bool) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.closed {
		return false
	}
	st := y.o.Stand.Load()
	if st.takesSends() && !y.holding.Load() {
		// The fence was lifted since the caller looked.
		if isSend(r.Code) {
			y.o.Resume(s, r.Clone())
			return true
		}
		return false
	}
	if st.isSlave() && y.conn != nil && y.target == st.Master && len(y.parked) == 0 && y.send(s, r, y.o.Now().Add(parkLimit)) {
		return true
	}
	if now := y.o.Now(); former || !now.Before(y.retryAt) {
		return y.park(s, r, now.Add(parkLimit))
	}
	return false
}

// park keeps a copy of r; false if too much waits. mu is held.
func (y *relay) park(s *session, r *remoting.Request, until time.Time) bool {
	if y.bytes+len(r.Body) > relayBytes && len(y.parked) > 0 {
		return false
	}
	y.parked = append(y.parked, parkedRequest{s: s, r: r.Clone(), until: until})
	y.bytes += len(r.Body)
	y.poke()
	return true
}

// relayHeader is the header of 30004.
type relayHeader struct{ client string }

// EncodeExt writes who sent the relayed request.
func (h relayHeader) EncodeExt(w *remoting.ExtWriter) { w.String("client", h.client) }

// client names the sender of a relayed request: its address, and the number of its
// connection at this broker.
func (s *session) client() string {
	if s.clientName == "" {
		s.clientName = s.born.String() + "#" + strconv.FormatUint(s.conn.ID(), 10)
	}
	return s.clientName
}

// send queues r on the connection; false if that was lost or too much is under way.
// until is when it is given up if the broker there turns out to be no master. mu is held.
func (y *relay) send(s *session, r *remoting.Request, until time.Time) bool {
	size := int64(len(r.Body)) + 512
	if y.flying.Load()+size > relayBytes && y.flying.Load() > 0 {
		return false
	}
	var err error
	call, code := r.Call, r.Code // r itself is gone by then
	done := func(h *remoting.Header, b []byte, err error) {
		y.flying.Add(-size)
		y.heard.Store(y.o.Now().UnixMilli())
		if err == nil && h.Code == remoting.CodeServiceNotAvailable && h.Ext.Bytes(movedField) != nil {
			y.again(s, call, until, b)
			return
		}
		relayAnswer(call, code, h, b, err)
	}
	if y.plain {
		err = y.conn.Begin(code, r.OneWay(), r.Ext, r.Body, done)
	} else {
		y.frame, err = remoting.AppendFrame(y.frame[:0], innerHeader(r), r.Ext, r.Body)
		if err == nil {
			err = y.conn.Begin(remoting.ReqMqctlRelay, r.OneWay(), relayHeader{s.client()}, y.frame, done)
		}
		if cap(y.frame) > burstBytes {
			y.frame = nil
		}
	}
	var big *remoting.FrameError
	switch {
	case errors.As(err, &big): // it fits no frame together with the envelope
		call.ReplyNow(remoting.CodeMessageIllegal, "the message is too large to be handed on to the new master: "+err.Error(), nil, nil)
		return true
	case err != nil:
		y.drop()
		y.poke()
		return false
	}
	if !r.OneWay() {
		if y.flying.Add(size) == size {
			y.heard.Store(y.o.Now().UnixMilli())
		}
	}
	y.dirty.Store(true)
	return true
}

// movedField marks the answer of a broker that is no master any more. It sends the
// request back, so that nobody keeps a copy while it is under way.
const movedField = "moved"

// movedHeader is the header of that answer.
type movedHeader struct{}

// EncodeExt writes the mark.
func (movedHeader) EncodeExt(w *remoting.ExtWriter) { w.Bool(movedField, true) }

// giveBack answers a relayed send that came too late for this master.
func (y *relay) giveBack(r *remoting.Request) bool {
	frame, err := remoting.AppendFrame(nil, innerHeader(r), r.Ext, r.Body)
	if err != nil {
		return false
	}
	r.Reply(remoting.CodeServiceNotAvailable, "this broker is changing its role", movedHeader{}, frame)
	return true
}

// innerHeader is the header of a request that is relayed.
func innerHeader(r *remoting.Request) *remoting.Header {
	return &remoting.Header{Code: r.Code, Language: r.Language, Version: r.Version, Opaque: r.Opaque, Flag: r.Flag, Remark: r.Remark, Serialize: remoting.Binary}
}

// again takes a request back that was not served, since the broker it went to was
// changing its role too: it is served here, or waits for the next master.
func (y *relay) again(s *session, call remoting.Call, until time.Time, frame []byte) {
	h, inner, err := remoting.DecodeFrame(frame)
	if err != nil {
		relayAnswer(call, 0, nil, nil, err)
		return
	}
	r := &remoting.Request{Call: call, Code: h.Code, Language: h.Language, Version: h.Version, Flag: h.Flag, Remark: h.Remark, Ext: h.Ext, Body: inner}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.drop() // whether it is master again is asked before the next
	if isSend(r.Code) && y.o.Stand.Load().takesSends() && !y.holding.Load() {
		y.o.Resume(s, r.Clone())
		return
	}
	if y.closed || !y.park(s, r, until) {
		y.refuse(parkedRequest{s: s, r: r})
	}
}

// relayAnswer passes the master's answer on to the client.
func relayAnswer(call remoting.Call, code int, h *remoting.Header, b []byte, err error) {
	if err != nil {
		call.ReplyNow(remoting.CodeServiceNotAvailable, "the master was lost while the request was handed on to it; it may have been served: "+err.Error(), nil, nil)
		return
	}
	var ext remoting.ExtEncoder = h.Ext
	if h.Ext.Empty() && (code == remoting.ReqLockBatchMQ || code == remoting.ReqUnlockBatchMQ) {
		ext = nil
	}
	call.ReplyNow(h.Code, string(h.Remark), ext, b)
}

// flush writes what was queued; called at the end of each burst.
func (y *relay) flush() {
	if !y.dirty.Load() || !y.dirty.Swap(false) {
		return
	}
	y.mu.Lock()
	c := y.conn
	y.mu.Unlock()
	if c != nil {
		c.Flush()
	}
}

// Run connects to the master when requests wait for it, ends what waited too long,
// and answers all that is left when ctx ends.
func (y *relay) Run(ctx context.Context) error {
	tick := time.NewTicker(relayTick)
	defer tick.Stop()
	for {
		busy := y.round(ctx)
		if ctx.Err() != nil {
			y.end()
			return nil
		}
		var next <-chan time.Time
		if busy {
			next = tick.C
		}
		select {
		case <-ctx.Done():
		case <-y.wake:
		case <-next:
		}
	}
}

// end refuses what is parked.
func (y *relay) end() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.closed = true
	for _, p := range y.parked {
		y.refuse(p)
	}
	y.clearParked()
}

func (y *relay) refuse(p parkedRequest) {
	if isSend(p.r.Code) {
		y.o.Refuse(p.s, p.r)
		p.r.Conn.Flush()
		return
	}
	p.r.ReplyNow(remoting.CodeServiceNotAvailable, "the new master does not answer yet: try again", nil, nil)
}

// round is one look at what waits. busy: look again soon.
func (y *relay) round(ctx context.Context) (busy bool) {
	y.expire()
	y.watch()
	st := y.o.Stand.Load()
	y.mu.Lock()
	waiting, connected := len(y.parked) > 0, y.conn != nil && y.target == st.Master
	late := !y.o.Now().Before(y.leaveBy)
	y.mu.Unlock()
	busy = waiting || y.flying.Load() > 0 || st.Leaving
	if !st.isSlave() || st.Master == "" || !waiting && !st.Leaving {
		return busy
	}
	connected = connected || y.connect(ctx, st)
	if st.Leaving && (connected || late) {
		y.o.Followed(connected)
	}
	if connected {
		y.deliver()
	}
	return busy
}

// expire refuses what waited too long.
func (y *relay) expire() {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := y.o.Now()
	n := 0
	for n < len(y.parked) && !now.Before(y.parked[n].until) {
		y.bytes -= len(y.parked[n].r.Body)
		y.refuse(y.parked[n])
		n++
	}
	y.parked = append(y.parked[:0], y.parked[n:]...)
	clear(y.parked[len(y.parked) : len(y.parked)+n])
}

// watch ends a connection that owes answers and is silent.
func (y *relay) watch() {
	if y.flying.Load() == 0 || y.o.Now().UnixMilli()-y.heard.Load() < relaySilence.Milliseconds() {
		return
	}
	y.mu.Lock()
	c := y.conn
	y.drop()
	y.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// connect looks whether the broker at st.Master is the master, and connects to it.
func (y *relay) connect(ctx context.Context, st *standing) bool {
	y.mu.Lock()
	pause := y.o.Now().Before(y.retryAt)
	y.mu.Unlock()
	if pause {
		return false
	}
	one, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	status, err := y.o.Ask(one, st.Master)
	plain := notSupported(err)
	switch {
	case plain:
		err = nil
	case err != nil:
	case status.Role == Slave.String() || status.Fenced:
		return false // not yet; it is asked again soon
	}
	var c *remoting.Conn
	if err == nil {
		c, err = y.o.Net.Connect(one, st.Master)
	}
	if err == nil && !plain && y.o.Prove != nil {
		err = y.o.Prove(one, c)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if err != nil {
		if y.failures++; y.failures == 1 {
			y.o.Log.Warn("requests of clients with an old route cannot be handed on to the master", "peer", st.Master, "err", err)
		}
		if !st.Leaving {
			y.retryAt = y.o.Now().Add(relayRetry)
		}
		return false
	}
	y.failures = 0
	y.conn, y.target, y.plain = c, st.Master, plain
	return true
}

// deliver sends what is parked.
func (y *relay) deliver() {
	y.mu.Lock()
	n := 0
	for y.conn != nil && n < len(y.parked) && y.send(y.parked[n].s, y.parked[n].r, y.parked[n].until) {
		y.bytes -= len(y.parked[n].r.Body)
		n++
	}
	y.parked = append(y.parked[:0], y.parked[n:]...)
	clear(y.parked[len(y.parked) : len(y.parked)+n])
	y.mu.Unlock()
	y.flush()
}

// relayed is what a connection holds that brings relayed requests: a session for
// each client, so that their messages carry the client's address and each
// client's requests stay in order.
type relayed struct {
	sessions map[string]*session
	open     []*session // with a burst that is not appended
}

// relayedClients bounds the clients of one connection that relays.
const relayedClients = 16384

// serveRelayed serves 30004: it serves the request inside as if its client had sent it.
func (q *requests) serveRelayed(s *session, r *remoting.Request) {
	refuse := func(code int, format string, args ...any) {
		r.Reply(code, fmt.Sprintf(format, args...), nil, nil)
	}
	if !q.b.fromGroup(s, r.Conn) {
		refuse(remoting.CodeNoPermission, "request %d is for the brokers of %s; %s is none", r.Code, q.b.opts.Name, r.Conn.RemoteAddr())
		return
	}
	h, inner, err := remoting.DecodeFrame(r.Body)
	client, _ := r.Ext.Get("client")
	switch {
	case err != nil:
		refuse(remoting.CodeInvalidParameter, "the relayed request: %v", err)
		return
	case h.IsResponse() || !relayable(h.Code):
		refuse(remoting.CodeInvalidParameter, "request %d is not relayed", h.Code)
		return
	}
	born, ok := relayedFrom(client)
	if !ok {
		refuse(remoting.CodeInvalidParameter, "client %.80q is no address", client)
		return
	}
	if st := q.b.stand.Load(); !st.takesSends() {
		why := fmt.Sprintf("%s/%d is not the master; a relayed request is not relayed again", q.b.opts.Name, st.ID)
		r.Reply(remoting.CodeServiceNotAvailable, why, movedHeader{}, r.Body)
		return
	}
	sub := s.relayedSession(client, born)
	req := remoting.Request{Call: r.Call, Code: h.Code, Language: h.Language, Version: h.Version, Flag: h.Flag, Remark: h.Remark, Ext: h.Ext, Body: inner}
	if !isSend(h.Code) {
		sub.append()
	}
	q.inline[h.Code](sub, &req)
	if sub.burst != nil && !sub.listed {
		sub.listed = true
		s.relayed.open = append(s.relayed.open, sub)
	}
}

// relayedFrom reads the client's address of a relayed request.
func relayedFrom(client string) (netip.AddrPort, bool) {
	for i := range len(client) {
		if client[i] == '#' {
			a, err := netip.ParseAddrPort(client[:i])
			return a, err == nil
		}
	}
	a, err := netip.ParseAddrPort(client)
	return a, err == nil
}

// relayedSession is the session of a client behind this connection.
func (s *session) relayedSession(client string, born netip.AddrPort) *session {
	if s.relayed == nil {
		s.relayed = &relayed{sessions: make(map[string]*session)}
	}
	sub := s.relayed.sessions[client]
	if sub == nil {
		if len(s.relayed.sessions) >= relayedClients {
			s.appendRelayed()
			clear(s.relayed.sessions)
		}
		sub = &session{sends: s.sends, conn: s.conn, peer: s.peer, born: born, foreign: true}
		s.relayed.sessions[client] = sub
	}
	return sub
}

// appendRelayed stores what relayed bursts have collected.
func (s *session) appendRelayed() {
	if s.relayed == nil {
		return
	}
	for i, sub := range s.relayed.open {
		sub.listed = false
		sub.append()
		s.relayed.open[i] = nil
	}
	s.relayed.open = s.relayed.open[:0]
}

// resume serves a parked send in the pool, in the lane of its topic, so that newer
// sends of its connection queue behind it. r is its own copy.
func (h *sendHandler) resume(s *session, r *remoting.Request) {
	var head header.SendMessage
	decode := head.DecodeV2
	if r.Code == remoting.ReqSendMessage {
		decode = head.DecodeV1
	}
	if err := decode(r.Ext); err != nil {
		r.ReplyNow(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	name := string(head.Topic)
	first, taken := s.lanes.push(name, r)
	if !taken {
		r.ReplyNow(remoting.CodeSystemBusy, overloaded, nil, nil)
	}
	if !first || h.pool.submit(len(r.Body), func(ctx context.Context) { h.work(ctx, s, name) }) {
		return
	}
	for _, left := range s.lanes.take(name) {
		left.ReplyNow(remoting.CodeSystemBusy, overloaded, nil, nil)
	}
	s.lanes.take(name)
}
