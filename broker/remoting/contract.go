// Package remoting is RocketMQ's wire protocol: frames, headers in JSON and in
// the ROCKETMQ binary form, a server that serves bursts of frames without a
// hand-over, and a client.
package remoting

// CONTRACT STUB: replaced by the owner of broker/remoting.

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Serialize types of a header.
const (
	JSON   = 0
	Binary = 1
)

// MaxFrame is the largest frame, length word included.
const MaxFrame = 16 << 20

// Version that we send (V5_3_3) and the language number.
const (
	Version    = 479
	LanguageGo = 9
)

// Fields are the ext fields of a header, read where they lie: values alias the
// connection's buffer and are valid until the handler returns. JSON escapes,
// nulls, numbers and duplicate keys (last wins) are handled by a slow path.
type Fields struct{ _ int }

// All yields each key and value; no allocation on the plain path.
func (f Fields) All() iter.Seq2[[]byte, []byte] { panic("contract stub") }

// Get returns a copy of one value.
func (f Fields) Get(key string) (string, bool) { panic("contract stub") }

// Bytes returns one value in place (nil if absent).
func (f Fields) Bytes(key string) []byte { panic("contract stub") }

// Int parses one value; ok=false if absent, err if it is no number in range.
func (f Fields) Int(key string) (v int64, ok bool, err error) { panic("contract stub") }

// Map copies everything.
func (f Fields) Map() map[string]string { panic("contract stub") }

// Request is one decoded request. It and its slices are valid until the handler
// returns; Clone makes an independent copy for pooled work.
type Request struct {
	Call     // who to answer
	Code     int
	Language string
	Version  int
	Flag     int
	Remark   []byte
	Ext      Fields
	Body     []byte
}

func (r *Request) Clone() *Request { panic("contract stub") }

// Call identifies a request that can still be answered. Copyable, small; keep it
// to answer later from any goroutine. Exactly one Reply per call; a second is
// dropped. On a one-way request Reply does nothing.
type Call struct {
	Conn   *Conn
	Opaque int32
	// unexported: serialize type, one-way
}

func (c Call) OneWay() bool { panic("contract stub") }

// ExtEncoder is a typed response (or request) header.
type ExtEncoder interface{ EncodeExt(w *ExtWriter) }

// ExtWriter appends ext fields in the connection's serialisation.
type ExtWriter struct{ _ int }

func (w *ExtWriter) String(key, value string)       { panic("contract stub") }
func (w *ExtWriter) Bytes(key string, value []byte) { panic("contract stub") }
func (w *ExtWriter) Int(key string, v int64)        { panic("contract stub") }
func (w *ExtWriter) Bool(key string, v bool)        { panic("contract stub") }

// Map is an ExtEncoder for slow paths.
type Map map[string]string

func (m Map) EncodeExt(w *ExtWriter) { panic("contract stub") }

// Reply queues the answer: code, remark ("" = none), header (nil = no extFields),
// body (copied). It does not write to the socket: inside ServeRequest/BurstEnd
// the server does so at the end of the burst; everybody else calls Conn.Flush
// after the last Reply of a round.
func (c Call) Reply(code int, remark string, h ExtEncoder, body []byte) { panic("contract stub") }

// ReplyNow is Reply and Flush.
func (c Call) ReplyNow(code int, remark string, h ExtEncoder, body []byte) { panic("contract stub") }

// Handler serves the requests of a server's connections.
type Handler interface {
	// ServeRequest is called on the connection's reader, in order. It never
	// waits: it answers, or keeps r.Call and lets others answer later.
	ServeRequest(c *Conn, r *Request)
	// BurstEnd is called after the last whole frame of what one read brought.
	BurstEnd(c *Conn)
	// Closed is called once when the connection is gone.
	Closed(c *Conn)
}

// Conn is one connection of a server.
type Conn struct {
	// Session belongs to the handler (append batch, client ids); set and read on the reader.
	Session any
}

func (c *Conn) RemoteAddr() netip.AddrPort { panic("contract stub") }
func (c *Conn) LocalAddr() netip.AddrPort  { panic("contract stub") }
func (c *Conn) ID() uint64                 { panic("contract stub") }

// Flush writes what is queued without blocking; what the socket does not take is
// left to a writer goroutine that lives while bytes wait. A client that leaves
// 16 MiB unread, or takes nothing for 30 s, is closed.
func (c *Conn) Flush() { panic("contract stub") }

// Close ends the connection; Closed follows.
func (c *Conn) Close() { panic("contract stub") }

// Gone is closed when the connection is.
func (c *Conn) Gone() <-chan struct{} { panic("contract stub") }

// Notify sends a one-way request to the peer (codes 40, 220 ...), serialised as
// the peer's last frame was (JSON for codes > 32767).
func (c *Conn) Notify(code int, h ExtEncoder, body []byte) error { panic("contract stub") }

// Call sends a request to the peer and waits for its answer (307, 309).
func (c *Conn) Call(ctx context.Context, code int, h ExtEncoder, body []byte) (*Response, error) {
	panic("contract stub")
}

// ServerOptions configure a server; zero values mean the defaults in brackets.
type ServerOptions struct {
	Handler      Handler
	IdleTimeout  time.Duration // [120 s] closed when neither read nor written
	MaxUnread    int           // [16 MiB]
	WriteTimeout time.Duration // [30 s] without progress
	MaxInFlight  int           // [16 MiB] bytes of requests of one connection not yet answered: above it, it is not read
	Log          *slog.Logger
	Now          func() time.Time
}

// Server accepts connections and serves them.
type Server struct{ _ int }

func NewServer(o ServerOptions) *Server { panic("contract stub") }

// Serve accepts on l until ctx ends (then nil) or l fails. May be called for
// several listeners (main and fast port). An internal panic of the handler is
// logged with its stack and answered with code 1.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { panic("contract stub") }

// Drain stops reading requests and lets answers under way leave until ctx ends; Close closes all.
func (s *Server) Drain(ctx context.Context) { panic("contract stub") }
func (s *Server) Close()                    { panic("contract stub") }
func (s *Server) Conns() []*Conn            { panic("contract stub") }

// Response is the answer to a client's request; it owns its memory.
type Response struct {
	Code    int
	Remark  string
	Ext     map[string]string
	Body    []byte
	Version int
}

// Err is nil for code 0, else *Error.
func (r *Response) Err() error { panic("contract stub") }

// Error is a remote answer that is not success.
type Error struct {
	Code   int
	Remark string
}

func (e *Error) Error() string { panic("contract stub") }

// ClientOptions configure a Client.
type ClientOptions struct {
	DialTimeout time.Duration // [3 s]
	Dial        func(ctx context.Context, addr string) (net.Conn, error)
	// OnRequest serves requests from the peer (a nameserver's 905 ...); nil ignores them.
	OnRequest func(addr string, r *Request)
	// OnClose hears when a connection to addr was lost.
	OnClose   func(addr string, err error)
	Serialize byte // JSON or Binary
	Log       *slog.Logger
	// Trace is called after each call (for --trace): code, addr, bytes out and in, time, error.
	Trace func(code int, addr string, out, in int, took time.Duration, err error)
}

// Client keeps one connection per address, dialled when needed, and pipelines.
type Client struct{ _ int }

func NewClient(o ClientOptions) *Client { panic("contract stub") }

// Call sends and waits; ctx bounds it. Errors: *DialError (cannot connect),
// *TimeoutError, *ClosedError (connection lost while waiting). A code other
// than 0 is NOT an error here; use Response.Err.
func (c *Client) Call(ctx context.Context, addr string, code int, h ExtEncoder, body []byte) (*Response, error) {
	panic("contract stub")
}

// OneWay sends without waiting for an answer.
func (c *Client) OneWay(ctx context.Context, addr string, code int, h ExtEncoder, body []byte) error {
	panic("contract stub")
}

func (c *Client) Close() { panic("contract stub") }

// DialError: the address could not be reached. TimeoutError: no answer in time.
// ClosedError: the connection ended first.
type DialError struct {
	Addr string
	Err  error
}
type TimeoutError struct {
	Addr  string
	Code  int
	After time.Duration
}
type ClosedError struct {
	Addr string
	Err  error
}

func (e *DialError) Error() string    { panic("contract stub") }
func (e *DialError) Unwrap() error    { panic("contract stub") }
func (e *TimeoutError) Error() string { panic("contract stub") }
func (e *ClosedError) Error() string  { panic("contract stub") }
func (e *ClosedError) Unwrap() error  { panic("contract stub") }

// Codes: the owner writes codes.go with every request code of remoting.md 2.1,
// 2.1a and response code of 2.2 as constants: ReqSendMessage = 10,
// ReqPullMessage = 11 ..., CodeSuccess = 0, CodeSystemError = 1 ..., and
// RequestName(code) / CodeName(code).
