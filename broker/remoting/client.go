package remoting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Response is the answer to a request of ours; it owns its memory.
type Response struct {
	Code    int
	Remark  string
	Ext     map[string]string
	Body    []byte
	Version int
	size    int // of the frame
}

// Err is nil for code 0, else *Error.
func (r *Response) Err() error {
	if r.Code == CodeSuccess {
		return nil
	}
	return &Error{Code: r.Code, Remark: r.Remark}
}

// ClientOptions configure a Client; zero values mean the defaults in brackets.
type ClientOptions struct {
	DialTimeout time.Duration // [3 s]
	// Dial connects to addr, by TCP if nil.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// OnRequest serves requests from the peer (a nameserver's 905 ...) on the
	// connection's reader; r is valid until it returns. nil ignores them.
	OnRequest func(addr string, r *Request)
	// OnClose hears when a connection to addr was lost.
	OnClose   func(addr string, err error)
	Serialize byte         // JSON or Binary
	Log       *slog.Logger // [discards]
	// Trace is called after each call (for --trace): code, addr, bytes out and in, time, error.
	Trace func(code int, addr string, out, in int, took time.Duration, err error)
}

// Client keeps one connection per address, dialled when needed, and pipelines.
// It is safe for concurrent use.
type Client struct {
	opts ClientOptions
	conf connConfig
	ctx  context.Context // ends with the client; a role, not a request
	stop context.CancelFunc
	wg   sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	peers map[string]*peer
}

// peer is one address and the connection to it. ready is closed when the dial is
// over; conn and err are set before and stay.
type peer struct {
	ready chan struct{}
	conn  *Conn
	err   error
}

// maxClientUnread bounds what a client queues for one peer, in bytes. Callers wait
// for answers, so only a flood of them against a dead peer gets there.
const maxClientUnread = 256 << 20

// NewClient returns a client without connections.
func NewClient(o ClientOptions) *Client {
	setDefault(&o.DialTimeout, DefaultDialTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	c := &Client{opts: o, peers: make(map[string]*peer)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.conf.handler = clientHandler{c}
	c.conf.maxUnread = maxClientUnread
	c.conf.maxInFlight = maxClientUnread
	c.conf.writeTimeout = DefaultWriteTimeout
	c.conf.log = o.Log
	c.conf.gone = c.lost
	return c
}

// clientHandler passes a peer's requests on.
type clientHandler struct{ c *Client }

func (h clientHandler) ServeRequest(c *Conn, r *Request) {
	if h.c.opts.OnRequest != nil {
		h.c.opts.OnRequest(c.addr, r)
	}
}

func (clientHandler) BurstEnd(*Conn) {}

func (h clientHandler) Closed(c *Conn) {
	if h.c.opts.OnClose != nil {
		h.c.opts.OnClose(c.addr, c.reason())
	}
}

// Call sends and waits; ctx bounds it. Errors: *DialError (cannot connect),
// *TimeoutError, *ClosedError (connection lost while waiting), *FrameError (the
// request is too large), or one that wraps context.Canceled. A code other than 0 is
// NOT an error here; use Response.Err.
func (c *Client) Call(ctx context.Context, addr string, code int, h ExtEncoder, body []byte) (*Response, error) {
	start := time.Now()
	r, out, err := c.call(ctx, addr, code, h, body)
	if c.opts.Trace != nil {
		in := 0
		if r != nil {
			in = r.size
		}
		c.opts.Trace(code, addr, out, in, time.Since(start), err)
	}
	return r, err
}

func (c *Client) call(ctx context.Context, addr string, code int, h ExtEncoder, body []byte) (*Response, int, error) {
	for attempt := 0; ; attempt++ {
		conn, err := c.conn(ctx, addr)
		if err != nil {
			return nil, 0, err
		}
		r, size, err := conn.call(ctx, code, h, body)
		// size 0: the connection was lost before anything was sent on it, so
		// another one may be tried.
		if err == nil || attempt > 0 || size > 0 || !errors.As(err, new(*ClosedError)) {
			return r, size, err
		}
		c.lost(conn, err)
	}
}

// OneWay sends without waiting for an answer. Errors are those of Call; nil does not
// say that the peer has got it.
func (c *Client) OneWay(ctx context.Context, addr string, code int, h ExtEncoder, body []byte) (err error) {
	start, size := time.Now(), 0
	for attempt := 0; attempt < 2; attempt++ {
		var conn *Conn
		if conn, err = c.conn(ctx, addr); err != nil {
			break
		}
		if _, size, err = conn.request(code, flagOneWay, h, body, nil); err == nil || !errors.As(err, new(*ClosedError)) {
			break
		}
		c.lost(conn, err)
	}
	if c.opts.Trace != nil {
		c.opts.Trace(code, addr, size, 0, time.Since(start), err)
	}
	return err
}

// conn returns the connection to addr, dialling if there is none. All who wait for
// one address share one attempt.
func (c *Client) conn(ctx context.Context, addr string) (*Conn, error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, &DialError{Addr: addr, Err: ErrClosed}
	}
	p := c.peers[addr]
	if p == nil {
		p = &peer{ready: make(chan struct{})}
		c.peers[addr] = p
		c.wg.Add(1)
		go func() {
			defer c.wg.Done()
			c.dial(addr, p)
		}()
	}
	c.mu.Unlock()
	select {
	case <-p.ready:
		if p.err != nil {
			return nil, &DialError{Addr: addr, Err: p.err}
		}
		return p.conn, nil
	case <-ctx.Done():
		return nil, &DialError{Addr: addr, Err: context.Cause(ctx)}
	}
}

// dial makes one attempt to connect and then becomes the connection's reader.
func (c *Client) dial(addr string, p *peer) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.DialTimeout)
	nc, err := c.opts.Dial(ctx, addr)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no connection within %s: %w", c.opts.DialTimeout, err)
	}
	cancel()
	if err == nil && c.ctx.Err() != nil {
		_ = nc.Close()
		err = ErrClosed
	}
	c.mu.Lock()
	if err != nil {
		p.err = err
		delete(c.peers, addr)
		close(p.ready)
		c.mu.Unlock()
		return
	}
	p.conn = newConn(nc, 0, &c.conf)
	p.conn.addr = addr
	p.conn.kind.Store(uint32(c.opts.Serialize))
	close(p.ready)
	c.mu.Unlock()
	stop := context.AfterFunc(c.ctx, p.conn.Close)
	defer stop()
	p.conn.read()
}

// lost forgets a connection, so that the next call dials again.
func (c *Client) lost(conn *Conn, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[conn.addr]; p != nil && p.conn == conn {
		delete(c.peers, conn.addr)
	}
}

// Close ends all connections, fails all waiting calls and waits for the readers. Do
// not call it from OnRequest or OnClose.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.wg.Wait()
}
