package remoting

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// connConfig is what all connections of a server or a client have in common.
type connConfig struct {
	handler      Handler
	maxUnread    int // bytes of answers; above it the connection ends
	maxInFlight  int // bytes of requests; above it the connection is not read
	writeTimeout time.Duration
	maxHeld      int64        // grains of answers of all connections; above it those that hold one are not read; 0: no limit
	held         atomic.Int64 // grains of answers that wait for all peers
	log          *slog.Logger
	track        bool // requests are counted and answered once (server)
	mirror       bool // requests to the peer take the form of its last frame (server)
	draining     atomic.Bool
	gone         func(*Conn, error) // called by the reader before Handler.Closed
}

// Conn is one connection, of a server or of a client.
type Conn struct {
	// Session belongs to the handler (append batch, client ids); set and read on the
	// reader. Slices of requests that stay in it keep the buffers of idle
	// connections alive: let go of them in BurstEnd.
	Session any

	id            uint64
	nc            net.Conn
	raw           syscall.RawConn // nil if nc is no TCP socket
	conf          *connConfig
	remote, local netip.AddrPort
	addr          string // as dialled, for errors
	kind          atomic.Uint32
	active        atomic.Bool   // something was read or written since the sweeper looked
	idleSince     time.Time     // the sweeper's
	ended         chan struct{} // closed with the connection
	room          chan struct{} // wakes the reader that waits for room; capacity 1

	in      inbound // the reader's
	req     Request // the reader's; handed to the handler
	writeFn func(fd uintptr) bool
	attempt writeAttempt // of the one that has set writing

	// mu guards everything below. It is not held during system calls or waits.
	mu       sync.Mutex
	closed   bool
	why      error
	waiting  wait // what the reader waits for on room
	slots    []slot
	free     int32 // first free slot, or untracked
	seq      uint32
	inFlight int       // bytes of counted requests without an answer
	out      []*buffer // answers that nobody writes yet, oldest first
	writing  bool      // somebody writes; he takes what is added to out
	unread   int       // bytes in out and with the one who writes; 0 <= unread
	grains   int64     // of unread, whole ones, as counted in conf.held
	lastOut  int       // bytes that were taken to write last: a guess for the next time
	ext      ExtWriter
	opaque   int32
	calls    map[int32]pending
}

// slot is one request without an answer. A free slot has seq 0.
type slot struct {
	seq  uint32
	size int32
	next int32 // of the free list
}

func newConn(nc net.Conn, id uint64, conf *connConfig) *Conn {
	c := &Conn{
		id: id, nc: nc, raw: rawConn(nc), conf: conf,
		remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr()),
		ended: make(chan struct{}), room: make(chan struct{}, 1), free: untracked,
	}
	c.addr = c.remote.String()
	c.in.conn = c
	c.in.readFn = c.in.ready
	c.writeFn = c.writeReady
	return c
}

// addrPort is the address of a connection; IPv4 in its short form.
func addrPort(a net.Addr) netip.AddrPort {
	if p, ok := a.(interface{ AddrPort() netip.AddrPort }); ok {
		ap := p.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// RemoteAddr is the peer's address, zero for connections that have none.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr is the address that the peer reached us at.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// ID numbers the connections of one server, from 1.
func (c *Conn) ID() uint64 { return c.id }

// Gone is closed when the connection is.
func (c *Conn) Gone() <-chan struct{} { return c.ended }

// Close ends the connection at once; Handler.Closed follows. What was not flushed is lost.
func (c *Conn) Close() { c.end(ErrClosed) }

// end closes the connection because of why; the first reason stands.
func (c *Conn) end(why error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.why = true, why
	for _, b := range c.out {
		b.release()
	}
	c.out = nil
	c.countUnread()
	c.wakeReader()
	c.mu.Unlock()
	close(c.ended)
	_ = c.nc.Close() // it is given up either way
}

// reason is why the connection ended.
func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		return ErrClosed
	}
	return c.why
}

// touch notes that bytes moved.
func (c *Conn) touch() {
	if !c.active.Load() {
		c.active.Store(true)
	}
}

// crowded says whether so much is unanswered or unread that the reader must wait: of
// this connection, or of all together if this one has a part in it. Its own writes wake
// it in both cases. mu is held.
func (c *Conn) crowded() bool {
	return c.inFlight > c.conf.maxInFlight || c.unread > c.conf.maxUnread/4 ||
		c.grains > 0 && c.conf.maxHeld > 0 && c.conf.held.Load() > c.conf.maxHeld
}

// grainBytes is in which steps answers of all connections are counted together: small
// ones, which leave at once, never touch the common counter.
const grainBytes = 64 << 10

// countUnread brings the common counter up to date after a change of unread. mu is held.
func (c *Conn) countUnread() {
	grains := int64(c.unread / grainBytes)
	if c.closed {
		grains = 0
	}
	if d := grains - c.grains; d != 0 {
		c.grains = grains
		c.conf.held.Add(d)
	}
}

// wait is something that the reader waits for.
type wait int

const (
	forNothing wait = iota
	forRoom         // the connection is not crowded
	forWritten      // no answer waits for the peer
	forQuiet        // besides, no request waits for its answer
)

// wakeReader wakes the reader if it waits and may go on. mu is held.
func (c *Conn) wakeReader() {
	if c.waiting == forNothing {
		return
	}
	if !c.closed && (c.waiting == forRoom && c.crowded() ||
		c.waiting >= forWritten && c.unread > 0 || c.waiting == forQuiet && c.inFlight > 0) {
		return
	}
	c.waiting = forNothing
	c.room <- struct{}{} // capacity 1, and the reader takes it before it waits again
}

// await blocks the reader until w. Answers, writes and the end of the connection wake
// it; it says whether the connection is still open.
func (c *Conn) await(w wait) (open bool) {
	c.mu.Lock()
	c.waiting = w
	c.wakeReader()
	c.mu.Unlock()
	<-c.room
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed
}

// admit counts a request of size bytes and returns its call. ok is false if the
// connection is crowded and force is not set.
func (c *Conn) admit(h *Header, size int, force bool) (call Call, ok bool) {
	call = Call{Conn: c, Opaque: h.Opaque, slot: untracked, kind: h.Serialize, oneWay: h.Flag&flagOneWay != 0}
	if call.oneWay || !c.conf.track {
		return call, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !force && c.crowded() {
		return call, false
	}
	if c.seq++; c.seq == 0 {
		c.seq = 1
	}
	if c.free == untracked {
		c.slots = append(c.slots, slot{next: untracked})
		c.free = int32(len(c.slots) - 1)
	}
	call.slot, call.seq = c.free, c.seq
	s := &c.slots[c.free]
	c.free = s.next
	s.seq, s.size = c.seq, int32(size)
	c.inFlight += size
	return call, true
}

// open says whether k still waits for its answer. mu is held.
func (c *Conn) open(k Call) bool {
	if c.closed {
		return false
	}
	return k.slot == untracked || int(k.slot) < len(c.slots) && c.slots[k.slot].seq == k.seq
}

// finish ends the call k. mu is held.
func (c *Conn) finish(k Call) {
	if k.slot == untracked || !c.open(k) {
		return
	}
	s := &c.slots[k.slot]
	c.inFlight -= int(s.size)
	s.seq, s.next, c.free = 0, c.free, k.slot
	if c.inFlight == 0 && len(c.slots) > keepSlots {
		c.slots, c.free = nil, untracked // after a flood; old calls no longer match
	}
	c.wakeReader()
}

// keepSlots is how many slots a connection keeps when nothing is under way.
const keepSlots = 256
