package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	errReplaced       = errors.New("the same slave connected again")
	errTooOld         = errors.New("older than this log")
	errSilent         = errors.New("nothing was heard from the slave")
	errReplacedTicket = errors.New("a later attach has taken the place of the one that it names: it has to attach again")
	errBadPeer        = errors.New("this is no slave of ours")
)

// strangerBuffer is the send buffer of a connection of which nobody knows whose it is.
const strangerBuffer = 1 << 20

// peerInfo is what is known of the slave behind a connection.
type peerInfo struct {
	Peer
	readable, fsync bool
	start           int64 // where Attach told it to begin, if empty
}

// conn is one HA connection. Its reader is the only one that takes reports.
type conn struct {
	m      *Master
	base   net.Conn // what was accepted; for closing
	end    func()   // makes run close it
	nc     net.Conn // base, or TLS over it; the reader's and the sender's
	remote netip.AddrPort
	w      *wire
	wake   chan struct{} // of the sender
	opened time.Time

	peer    atomic.Pointer[peerInfo] // nil: not known who it is
	started atomic.Bool              // the first report came
	ack     atomic.Int64             // last report
	ackAt   atomic.Int64             // when it last grew, Unix nanoseconds
	lagging atomic.Bool              // let a wait time out, and has not caught up since
	inSync  atomic.Bool              // as last told

	sent      atomic.Int64 // str.next
	lastWrite atomic.Int64 // Unix nanoseconds
	bytes     atomic.Int64 // that left, frames included
	rate      atomic.Int64 // of them in the last second
	lastBytes int64        // the ticker's

	copyFrom, copyTo atomic.Int64

	// The reader's: bytes that came, and when the deadline was set.
	buf   [1024]byte
	n     int
	armed time.Time

	sendMu   sync.Mutex // guards what follows, and the wire
	str      stream
	handed   bool // the sender goroutine is at it, or about to be
	flowWait time.Duration

	failMu sync.Mutex
	reason error // why it was closed
}

func newConn(m *Master, nc net.Conn, end func()) *conn {
	c := &conn{end: end, m: m, base: nc, nc: nc, wake: make(chan struct{}, 1), opened: m.o.Now(), handed: true}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.remote = a.AddrPort()
		c.remote = netip.AddrPortFrom(c.remote.Addr().Unmap(), c.remote.Port())
	}
	c.ack.Store(-1)
	return c
}

func (c *conn) ours() bool {
	p := c.peer.Load()
	return p != nil && p.Ours
}

// fail ends the connection for this reason; the first one counts. It does not close
// the socket itself: Close waits for writes, of which the caller may be one.
func (c *conn) fail(err error) {
	c.failMu.Lock()
	if c.reason == nil {
		c.reason = err
	}
	c.failMu.Unlock()
	c.end()
}

func (c *conn) failure() error {
	c.failMu.Lock()
	defer c.failMu.Unlock()
	return c.reason
}

// run serves the connection until it ends.
func (c *conn) run(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { c.base.Close() })
	g.Go(func() error { return c.readLoop(ctx, g) })
	err := g.Wait()
	stop()
	c.base.Close()
	c.m.remove(c)
	c.logEnd(err)
}

// logEnd writes the one line of a connection's end, and counts what was wrong.
func (c *conn) logEnd(err error) {
	if why := c.failure(); why != nil {
		err = why
	}
	l := c.m.o.Slog.With("peer", c.remote, "acked", c.ack.Load())
	if p := c.peer.Load(); p != nil {
		l = l.With("broker_id", p.ID)
	}
	switch {
	case errors.Is(err, errBadPeer):
		c.m.badPeers.Add(1)
		l.Warn("an HA connection was closed", "why", err)
	case errors.Is(err, errTooOld), errors.Is(err, ErrAuth):
		c.m.refused.Add(1)
		l.Warn("a slave was refused", "why", err)
	case errors.Is(err, errSilent), errors.Is(err, errLogCut), errors.Is(err, errReplaced):
		l.Warn("an HA connection was closed", "why", err)
	case errors.Is(err, context.Canceled):
	default:
		l.Info("an HA connection ended", "why", err)
	}
}

// readLoop takes the preamble, if there is one, and then reports.
func (c *conn) readLoop(ctx context.Context, g *errgroup.Group) error {
	nc, err := c.m.o.Auth.accept(ctx, c.nc)
	c.nc = nc
	c.w = newWire(nc)
	if err != nil {
		return err
	}
	if err := c.preamble(); err != nil {
		return err
	}
	g.Go(func() error { return c.sendLoop(ctx) })
	return c.reports()
}

// deadline is until when the slave must have said something. A slave that never
// made a whole first report has no longer than one housekeeping interval in all.
func (c *conn) deadline() time.Time {
	from := c.opened
	if c.started.Load() {
		from = c.m.o.Now()
	}
	return from.Add(c.m.o.Settings().housekeeping())
}

// readErr says what an error of reading means.
func (c *conn) readErr(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && c.started.Load():
		return fmt.Errorf("%w for %v", errSilent, c.m.o.Settings().housekeeping())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: no first report within %v", errBadPeer, c.m.o.Settings().housekeeping())
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	}
	return err
}

// read waits until at least want bytes are there that nobody looked at.
func (c *conn) read(want int) error {
	for c.n < want {
		if now := c.m.o.Now(); c.armed.IsZero() || now.Sub(c.armed) > time.Second {
			c.armed = now
			if err := c.nc.SetReadDeadline(c.deadline().Add(time.Second)); err != nil {
				return c.readErr(err)
			}
		}
		k, err := c.nc.Read(c.buf[c.n:])
		c.n += k
		if err != nil && c.n < want {
			return c.readErr(err)
		}
	}
	return nil
}

// took drops the first k of the bytes that were read.
func (c *conn) took(k int) { c.n = copy(c.buf[:], c.buf[k:c.n]) }

// preamble takes what may come before the first report.
func (c *conn) preamble() error {
	if err := c.read(reportSize); err != nil {
		return err
	}
	for parseReport(c.buf[:]) == -1 { // "not yet"
		c.took(reportSize)
		if err := c.read(reportSize); err != nil {
			return err
		}
	}
	if c.buf[0] < 0x80 {
		return c.m.o.Auth.welcome(c.nc, &preamble{})
	}
	if c.buf[0] != preambleMagic>>24 {
		return fmt.Errorf("%w: it begins with %x", errBadPeer, c.buf[:reportSize])
	}
	if err := c.read(preambleSize); err != nil {
		return err
	}
	p, err := parsePreamble(c.buf[:preambleSize])
	if err == nil && p.keyed && c.n > preambleSize {
		err = errors.New("it did not wait for the other half of the proof")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBadPeer, err)
	}
	c.took(preambleSize)
	if err := c.m.o.Auth.welcome(c.nc, &p); err != nil {
		return err
	}
	c.armed = time.Time{}
	// Another attach of the same slave, late on its way, may have taken the ticket's
	// place: unknown, the slave would never count as in sync. It attaches again.
	info, err := c.m.redeem(p.token)
	if info == nil {
		return err
	}
	c.peer.Store(info)
	return nil
}

// reports takes reports until the connection ends. Of those that one read brings
// the last counts, as with Apache's master, but all of them must be in order.
func (c *conn) reports() error {
	for {
		if err := c.read(reportSize); err != nil {
			return err
		}
		whole := c.n - c.n%reportSize
		if err := c.takeReports(c.buf[:whole]); err != nil {
			return err
		}
		c.took(whole)
	}
}

func (c *conn) takeReports(b []byte) error {
	last := int64(-1)
	for ; len(b) > 0; b = b[reportSize:] {
		r := parseReport(b)
		if r == -1 && !c.started.Load() {
			continue
		}
		if r < last || r < c.ack.Load() {
			return fmt.Errorf("%w: it reported %d after %d", errBadPeer, r, max(last, c.ack.Load()))
		}
		last = r
	}
	if last < 0 {
		return nil
	}
	return c.report(last)
}

// report takes one report that is not below the one before.
func (c *conn) report(r int64) error {
	if !c.started.Load() {
		return c.start(r)
	}
	if sent := c.sent.Load(); r > sent {
		return fmt.Errorf("%w: it reported %d, and only the bytes before %d were sent to it", errBadPeer, r, sent)
	}
	if r != c.ack.Load() {
		c.ackAt.Store(c.m.o.Now().UnixNano())
		c.ack.Store(r)
		c.m.acknowledged(c)
	}
	return nil
}

// start takes the first report, which says where the stream begins.
func (c *conn) start(r int64) error {
	pos := c.m.o.Log.Positions()
	st := c.m.o.Settings()
	p := c.peer.Load()
	from := r
	switch {
	case r < 0:
		return fmt.Errorf("%w: it reported %d", errBadPeer, r)
	case r > int64(pos.Max):
		// Apache's master sends heartbeats until its log has grown so far, and goes on
		// in the middle of another record.
		return fmt.Errorf("%w: it reported %d, beyond the end of this log, %d: either it follows the wrong master, "+
			"or this master lost its newest bytes", errBadPeer, r, pos.Max)
	case r == 0 && p != nil && p.Ours:
		from = max(p.start, int64(pos.Min))
	case r == 0:
		from = st.copyStart(pos)
	case r < int64(pos.Min):
		return fmt.Errorf("%w: its log ends at %d, this one begins at %d: set its store aside, so that it copies the whole log again",
			errTooOld, r, pos.Min)
	}
	c.ack.Store(r)
	c.ackAt.Store(c.m.o.Now().UnixNano())
	if p == nil && !c.identify() {
		c.boundKernel()
	}
	c.sendMu.Lock()
	c.str.next = from
	c.sent.Store(from)
	c.handed = true // until the sender has looked once
	c.sendMu.Unlock()
	if int64(pos.Max)-from >= longCopy {
		c.copyFrom.Store(from)
		c.copyTo.Store(int64(pos.Max))
	}
	c.lastWrite.Store(c.m.o.Now().UnixNano())
	if c.m.o.Auth.TLS() {
		c.lastWrite.Store(0) // something is said at once: before, the slave cannot know that its certificate is taken
	}
	c.started.Store(true)
	c.armed = time.Time{} // silence counts from now on
	c.m.admit(c)
	c.wakeSender()
	c.m.o.Slog.Info("a slave connected", "peer", c.remote, "reported", r, "sending_from", from, "log_end", int64(pos.Max))
	return nil
}

// boundKernel limits what the system keeps for somebody whom nobody knows and who
// may never read it.
func (c *conn) boundKernel() {
	if t, ok := c.base.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(strangerBuffer) // the system's own limit is not much higher
	}
}

// identify asks who a slave without a token is.
func (c *conn) identify() bool {
	p, ok := c.m.o.Identify(c.remote)
	if ok {
		c.peer.Store(&peerInfo{Peer: p})
	}
	return ok
}

// tick measures the rate; once a second.
func (c *conn) tick() {
	n := c.bytes.Load()
	c.rate.Store(n - c.lastBytes)
	c.lastBytes = n
	if to := c.copyTo.Load(); to > 0 && c.ack.Load() >= to {
		c.copyTo.Store(0)
	}
}
