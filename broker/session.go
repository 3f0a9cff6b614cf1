package broker

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
)

// session is what a broker keeps of one connection. Apart from lanes it is
// touched by the connection's reader only. It is small: what a burst of sends
// needs is borrowed from a pool and given back at the burst's end, so that idle
// connections hold no buffers.
type session struct {
	sends *sendHandler
	conn  *remoting.Conn
	peer  *peer
	born  netip.AddrPort // the client, as stored in its messages

	burst *burst // nil while nothing is collected

	pull      header.PullMessage
	pullReply header.PullMessageReply

	subs subCache
	num  numberReply

	lanes lanes

	proof connProof // of the key, by another broker

	clientName string   // what this client is called when its requests are relayed
	relayed    *relayed // clients whose requests another broker relays over this connection
	foreign    bool     // this is a relayed client; its requests go no further
	listed     bool     // and it is in relayed.open
}

func newSession(b *Broker, c *remoting.Conn) *session {
	born := c.RemoteAddr()
	if !born.IsValid() { // a connection without addresses, such as a pipe
		born = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	return &session{sends: b.sends, conn: c, peer: &peer{conn: c}, born: born}
}

// append stores what the burst has collected and answers it (or leaves the
// answers to the flusher).
func (s *session) append() {
	if s.burst == nil {
		return
	}
	b := s.burst
	s.burst = nil
	s.sends.finish(b)
}

// peer is a client's connection as package subgroup sees it.
type peer struct{ conn *remoting.Conn }

// ID is the connection's number.
func (p *peer) ID() uint64 { return p.conn.ID() }

// Notify sends a one-way request to the client.
func (p *peer) Notify(code int, ext map[string]string, body []byte) error {
	return p.conn.Notify(code, remoting.Map(ext), body)
}

// Close ends the connection.
func (p *peer) Close() { p.conn.Close() }

// lanes keep a connection's requests in order although some of them had to go
// to the pool: while a lane (a topic, or clientLane) has requests under way,
// later ones of that lane queue behind them. A lane is worked by one pool job at
// a time, which takes all that wait and comes back for more until it is empty.
type lanes struct {
	open atomic.Int32 // lanes under way; 0 is the usual case and costs one load

	mu     sync.Mutex // guards what follows; held for map operations only
	queues map[string][]*remoting.Request
	bytes  int // bodies in queues; at most laneBytes, and one
}

// laneBytes bounds the bodies that wait in the lanes of one connection. Requests
// with an answer are bounded by the connection already; one-way ones are not.
const laneBytes = 16 << 20

// clientLane orders heartbeats and unregistrations. No topic has this name.
const clientLane = ""

// has says whether a lane is under way. Called by the reader.
func (l *lanes) has(key []byte) bool {
	if l.open.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.queues[string(key)]
	return ok
}

// push adds r to a lane. taken is false if too much waits already. first means
// that the lane was not under way: the caller must submit a job that takes from
// it, or empty it.
func (l *lanes) push(key string, r *remoting.Request) (first, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes > laneBytes {
		return false, false
	}
	l.bytes += len(r.Body)
	q, ok := l.queues[key]
	if !ok {
		if l.queues == nil {
			l.queues = make(map[string][]*remoting.Request)
		}
		l.open.Add(1)
	}
	l.queues[key] = append(q, r)
	return !ok, true
}

// take returns all that wait in the lane and leaves it open; when nothing
// waits it closes the lane and returns nil.
func (l *lanes) take(key string) []*remoting.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[key]
	if len(q) == 0 {
		if _, ok := l.queues[key]; ok {
			delete(l.queues, key)
			l.open.Add(-1)
		}
		return nil
	}
	l.queues[key] = nil
	for _, r := range q {
		l.bytes -= len(r.Body)
	}
	return q
}
