package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/store/record"
)

// maxConns is how many HA connections a master has at most.
const maxConns = 1000

var errLogCut = errors.New("the log became shorter")

// MasterOptions of the sending side.
type MasterOptions struct {
	Log      Log
	Listener net.Listener
	Settings func() *Settings // a stable pointer until something changes
	// Name is the broker name; a slave of another one is told that it is wrong here.
	// Empty: not checked.
	Name string
	// Epoch of this broker's role; a slave with a lower one may have written as a
	// master of the past. nil: 0.
	Epoch func() int64
	// Identify tells the slave behind an HA connection from its remote address,
	// for slaves that did not Attach (Apache's).
	Identify func(remote netip.AddrPort) (Peer, bool)
	// Misnamed says whether whom Identify found behind a connection is somebody else by now. nil: never.
	Misnamed func(p Peer, remote netip.AddrPort) bool
	Changed  func() // a slave came, went, or changed whether it is in sync
	// Left tells who went, and the last end of the log that it acknowledged, before Changed.
	// nil: nobody wants to know.
	Left func(p Peer, acked record.PhysOffset)
	Auth *Auth // nil: none
	// Now must go on evenly whatever is done to the machine's clock: silence, deadlines
	// and gaps are measured with it. nil: time.Now.
	Now  func() time.Time
	Wall func() time.Time // what dates messages; nil: time.Now
	Slog *slog.Logger
}

// Master accepts slaves and sends them the log. It serves on slaves too: a slave may feed another.
type Master struct {
	o    MasterOptions
	ends *ends

	mu      sync.Mutex // guards what follows
	conns   map[*conn]struct{}
	tickets map[int64]*ticket // by token

	live atomic.Pointer[[]*conn] // those that get the log; replaced under mu

	refused, badPeers atomic.Int64
	refusals          quietLog

	waits
}

// NewMaster makes the sending side; Run serves it.
func NewMaster(o MasterOptions) *Master {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Slog == nil {
		o.Slog = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Left == nil {
		o.Left = func(Peer, record.PhysOffset) {}
	}
	if o.Identify == nil {
		o.Identify = func(netip.AddrPort) (Peer, bool) { return Peer{}, false }
	}
	if o.Misnamed == nil {
		o.Misnamed = func(Peer, netip.AddrPort) bool { return false }
	}
	if o.Epoch == nil {
		o.Epoch = func() int64 { return 0 }
	}
	m := &Master{
		o: o, ends: newEnds(),
		conns: map[*conn]struct{}{}, tickets: map[int64]*ticket{},
	}
	m.live.Store(new([]*conn))
	m.init()
	m.ends.note(int64(o.Log.Positions().Max), o.Now())
	return m
}

// Run serves until ctx ends. It closes the listener.
func (m *Master) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer m.AbortWaits()
	stop := context.AfterFunc(ctx, func() { m.o.Listener.Close() })
	defer stop()
	g.Go(func() error { return m.acceptLoop(ctx, g) })
	g.Go(func() error { return m.tickLoop(ctx) })
	g.Go(func() error { return m.deadlineLoop(ctx) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (m *Master) acceptLoop(ctx context.Context, g *errgroup.Group) error {
	for pause := time.Duration(0); ; {
		nc, err := m.o.Listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				nc.Close()
			}
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("replication: the HA listener was closed: %w", err)
			}
			// Descriptors are short, usually: it heals.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			m.refusals.warn(m.o.Slog, m.o.Now(), "HA connections cannot be accepted", "error", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		own, end := context.WithCancel(ctx)
		c := m.add(nc, end)
		if c == nil {
			end()
			continue
		}
		g.Go(func() error { defer end(); c.run(own); return nil })
	}
}

// add makes a connection known, or closes it if there are too many.
func (m *Master) add(nc net.Conn, end func()) *conn {
	c := newConn(m, nc, end)
	m.mu.Lock()
	full := len(m.conns) >= maxConns
	if !full {
		m.conns[c] = struct{}{}
	}
	m.mu.Unlock()
	if full {
		m.refused.Add(1)
		m.refusals.warn(m.o.Slog, m.o.Now(), "an HA connection was refused: there are too many",
			"peer", c.remote, "limit", maxConns)
		nc.Close()
		return nil
	}
	return c
}

// remove forgets c, which is closed.
func (m *Master) remove(c *conn) {
	m.mu.Lock()
	delete(m.conns, c)
	old := *m.live.Load()
	i := slices.Index(old, c)
	if i >= 0 {
		next := slices.Delete(slices.Clone(old), i, i+1)
		m.live.Store(&next)
	}
	m.mu.Unlock()
	if i >= 0 {
		if p := c.peer.Load(); p != nil {
			m.o.Left(p.Peer, record.PhysOffset(c.ack.Load()))
		}
		m.acked()
		m.left()
		m.o.Changed()
	}
}

// admit lets the log flow to c. If peer is known, an older connection of the same
// slave is closed: the newest wins, and two count once.
func (m *Master) admit(c *conn) {
	m.mu.Lock()
	next := append(slices.Clone(*m.live.Load()), c)
	m.live.Store(&next)
	m.mu.Unlock()
	m.dropOlder(c)
	m.acked()
	m.o.Changed()
}

// dropOlder closes the other connections of c's slave.
func (m *Master) dropOlder(c *conn) {
	p := c.peer.Load()
	if p == nil {
		return
	}
	for _, other := range *m.live.Load() {
		if q := other.peer.Load(); other != c && q != nil && q.ID == p.ID {
			other.peer.Store(nil)
			other.fail(fmt.Errorf("%w by %s", errReplaced, c.remote))
		}
	}
}

// Appended tells that the log grew; called on the append path, never blocks: it
// sends what the sockets take by itself, or wakes the connection's sender.
func (m *Master) Appended(end record.PhysOffset) {
	m.ends.note(int64(end), m.o.Now())
	for _, c := range *m.live.Load() {
		c.push()
	}
}

// Cut tells that the log was cut or replaced (TruncateTo, SetAside). All slaves
// have to connect again, since they may have what is gone.
func (m *Master) Cut() {
	m.ends.reset()
	m.ends.note(int64(m.o.Log.Positions().Max), m.o.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.fail(errLogCut)
	}
}

// tickLoop does what needs no hurry, every second.
func (m *Master) tickLoop(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		now := m.o.Now()
		for _, c := range *m.live.Load() {
			c.tick()
			if p := c.peer.Load(); p != nil && m.o.Misnamed(p.Peer, c.remote) {
				c.peer.Store(nil)
			}
			if c.peer.Load() == nil && c.identify() {
				m.dropOlder(c)
				m.acked()
				m.o.Changed()
			}
		}
		m.dropTickets(now)
		m.checkSync()
	}
}

// quietLog writes a line at most every ten seconds, with how many were left out.
type quietLog struct {
	mu   sync.Mutex
	last time.Time
	left int
}

func (q *quietLog) warn(l *slog.Logger, now time.Time, msg string, args ...any) {
	q.mu.Lock()
	if !q.last.IsZero() && now.Sub(q.last) < 10*time.Second {
		q.left++
		q.mu.Unlock()
		return
	}
	left := q.left
	q.last, q.left = now, 0
	q.mu.Unlock()
	if left > 0 {
		args = append(args, "like_it_before", left)
	}
	l.Warn(msg, args...)
}
