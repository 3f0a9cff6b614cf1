package remoting

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ServerOptions configure a server; zero values mean the defaults in brackets.
type ServerOptions struct {
	Handler      Handler          // required
	IdleTimeout  time.Duration    // [120 s] closed when neither read nor written for this long
	MaxUnread    int              // [16 MiB] bytes of answers that a peer may leave unread
	WriteTimeout time.Duration    // [30 s] without progress
	MaxInFlight  int              // [16 MiB] bytes of requests of one connection not yet answered: above it, it is not read
	MaxConns     int              // [descriptors less 1024 or half] connections of all servers of the process; one more is closed at once
	Log          *slog.Logger     // [discards]
	Now          func() time.Time // [time.Now] of the idle sweep
}

// Defaults of ServerOptions and ClientOptions.
const (
	DefaultIdleTimeout  = 120 * time.Second
	DefaultWriteTimeout = 30 * time.Second
	DefaultMaxUnread    = 16 << 20
	DefaultMaxInFlight  = 16 << 20
	DefaultDialTimeout  = 3 * time.Second
)

// maxAllUnread is from how many bytes of answers, of all connections together, those
// that take theirs slowly are not read any more.
const maxAllUnread = 256 << 20

// sweepsPerTimeout is how often the sweeper looks within one IdleTimeout; a
// connection is closed at most two of its rounds late, never early.
const sweepsPerTimeout = 24

// Server accepts connections and serves them.
type Server struct {
	opts ServerOptions
	conf connConfig
	wg   sync.WaitGroup // readers

	// mu guards what follows.
	mu     sync.Mutex
	conns  map[*Conn]struct{}
	lastID uint64
	closed bool
	// refused is when it was logged that there are too many connections.
	refused time.Time
}

// accepted counts the open connections of all servers. File descriptors belong to
// the process, so no server can count for itself.
var accepted atomic.Int64

// reservedFiles is how many descriptors connections leave to files, at least half of
// all if there are few.
const reservedFiles = 1024

// refusedEvery is the least time between two complaints of too many connections.
const refusedEvery = 10 * time.Second

// NewServer returns a server that serves nothing yet.
func NewServer(o ServerOptions) *Server {
	setDefault(&o.IdleTimeout, DefaultIdleTimeout)
	setDefault(&o.MaxUnread, DefaultMaxUnread)
	setDefault(&o.WriteTimeout, DefaultWriteTimeout)
	setDefault(&o.MaxInFlight, DefaultMaxInFlight)
	setDefault(&o.MaxConns, connLimit())
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{opts: o, conns: make(map[*Conn]struct{})}
	s.conf.handler = o.Handler
	s.conf.maxUnread = o.MaxUnread
	s.conf.maxHeld = maxAllUnread / grainBytes
	s.conf.maxInFlight = o.MaxInFlight
	s.conf.writeTimeout = o.WriteTimeout
	s.conf.log = o.Log
	s.conf.track, s.conf.mirror = true, true
	s.conf.gone = s.forget
	return s
}

// setDefault gives *v the value d if it has none.
func setDefault[T ~int | ~int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Serve accepts on l until ctx ends (then nil) or l fails, and closes l. It may be
// called for several listeners (main and fast port). Connections outlive it: Drain
// and Close end them. An internal panic of the handler is logged with its stack and
// answered with code 1.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		s.sweep(ctx)
	}()
	defer func() {
		cancel()
		<-swept
	}()
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.start(nc)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if !temporary(err) {
			return err
		}
		// Out of descriptors or the like: others may close some meanwhile.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.opts.Log.Warn("cannot accept a connection, trying again", "reason", err.Error(), "in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// temporary says whether accepting may work again later.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// start serves one accepted connection.
func (s *Server) start(nc net.Conn) {
	s.mu.Lock()
	if s.closed || s.conf.draining.Load() {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	if accepted.Load() >= int64(s.opts.MaxConns) {
		now := s.opts.Now()
		tell := now.Sub(s.refused) >= refusedEvery
		if tell {
			s.refused = now
		}
		s.mu.Unlock()
		_ = nc.Close()
		if tell {
			s.opts.Log.Warn("connections are refused: there are as many as the process may have; raise its limit of open files (ulimit -n)",
				"connections", s.opts.MaxConns, "peer", nc.RemoteAddr())
		}
		return
	}
	s.lastID++
	c := newConn(nc, s.lastID, &s.conf)
	c.idleSince = s.opts.Now()
	s.conns[c] = struct{}{}
	accepted.Add(1)
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		c.read()
	}()
}

// forget is called by a connection's reader at its end.
func (s *Server) forget(c *Conn, _ error) {
	s.mu.Lock()
	delete(s.conns, c)
	accepted.Add(-1)
	s.mu.Unlock()
}

// sweep closes idle connections until ctx ends.
func (s *Server) sweep(ctx context.Context) {
	t := time.NewTicker(max(s.opts.IdleTimeout/sweepsPerTimeout, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := s.opts.Now()
		for _, c := range s.idle(now) {
			s.opts.Log.Debug("connection closed", "peer", c.addr, "reason", ErrIdle.Error())
			c.end(ErrIdle)
		}
	}
}

// idle returns the connections that have been idle for too long. Whether bytes
// moved is a flag, so that nobody reads a clock for each burst.
func (s *Server) idle(now time.Time) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Conn
	for c := range s.conns {
		if c.active.Swap(false) {
			c.idleSince = now
		} else if now.Sub(c.idleSince) >= s.opts.IdleTimeout {
			found = append(found, c)
		}
	}
	return found
}

// Conns returns the connections that are open now, in no order.
func (s *Server) Conns() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// Drain stops reading requests and lets answers under way leave until ctx ends. A
// connection is closed when all its requests are answered and the answers have gone.
// Held requests count, so release them first. New connections are refused.
func (s *Server) Drain(ctx context.Context) {
	s.mu.Lock()
	s.conf.draining.Store(true)
	s.mu.Unlock()
	for _, c := range s.Conns() {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends all connections and waits until their handlers have returned. Do not
// call it from a handler.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, c := range s.Conns() {
		c.end(ErrClosed)
	}
	s.wg.Wait()
}
