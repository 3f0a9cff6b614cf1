package remoting

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
)

// pipeListener gives a server the ends of in-memory pipes.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), ended: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial returns the client's end of a new connection.
func (l *pipeListener) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

// handler is a Handler of functions; nil ones do nothing.
type handler struct {
	serve  func(c *Conn, r *Request)
	burst  func(c *Conn)
	closed func(c *Conn)
}

func (h handler) ServeRequest(c *Conn, r *Request) {
	if h.serve != nil {
		h.serve(c, r)
	}
}

func (h handler) BurstEnd(c *Conn) {
	if h.burst != nil {
		h.burst(c)
	}
}

func (h handler) Closed(c *Conn) {
	if h.closed != nil {
		h.closed(c)
	}
}

// echo answers with what came.
func echo(_ *Conn, r *Request) { r.Reply(CodeSuccess, "", r.Ext, r.Body) }

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		if !strings.Contains(l.b.String(), p) {
			return false
		}
	}
	return true
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer serves o on a pipe listener until the test ends.
func startServer(t *testing.T, o ServerOptions) (*Server, *pipeListener, *logBuffer) {
	t.Helper()
	l := newPipeListener()
	s, log := serveOn(t, o, l)
	return s, l, log
}

// serveOn serves o on l until the test ends.
func serveOn(t testing.TB, o ServerOptions, l net.Listener) (*Server, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := NewServer(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s, log
}

// request is a frame of a request with a JSON header.
func request(t testing.TB, code int, opaque int32, flag int, body string) []byte {
	t.Helper()
	b, err := AppendFrame(nil, &Header{Code: code, Opaque: opaque, Flag: flag, Language: "JAVA", Version: Version}, nil, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send writes frames in one go; it may be called on any goroutine.
func send(t testing.TB, c net.Conn, frames ...[]byte) {
	t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		t.Error(err)
	}
}

// receive reads one frame.
func receive(t testing.TB, c net.Conn) (Header, []byte) {
	t.Helper()
	frame := make([]byte, 4)
	if _, err := io.ReadFull(c, frame); err != nil {
		t.Fatal(err)
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	if _, err := io.ReadFull(c, frame[4:]); err != nil {
		t.Fatal(err)
	}
	h, body, err := DecodeFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	return h, body
}

// wantClosed reads until the peer has closed c, and fails on data.
func wantClosed(t testing.TB, c net.Conn) {
	t.Helper()
	rest, err := io.ReadAll(c)
	if len(rest) > 0 || err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read %q, %v from a connection that should be closed", clip(rest), err)
	}
}
