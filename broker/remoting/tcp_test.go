package remoting

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// startTCP serves h on loopback until the test ends and returns a dialler.
func startTCP(t testing.TB, o ServerOptions) (s *Server, dial func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, _ = serveOn(t, o, l)
	return s, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// TestBursts serves bursts of frames that come in pieces of every kind, in order, and
// ends each burst once.
func TestBursts(t *testing.T) {
	var bursts, requests atomic.Int32
	_, dial := startTCP(t, ServerOptions{Handler: handler{
		serve: func(c *Conn, r *Request) { requests.Add(1); echo(c, r) },
		burst: func(*Conn) { bursts.Add(1) },
	}})
	c := dial()
	var stream []byte
	sizes := []int{0, 1, 100, 5000, 40_000, 0, 200_000, 3_000_000, 10, MaxFrame - 200, 7}
	for i, n := range sizes {
		stream = append(stream, request(t, 10, int32(i), 0, strings.Repeat("b", n))...)
	}
	go func() {
		for _, piece := range []int{1, 2, 3, 5, 9, 30, 1000} { // byte by byte at first
			_, _ = c.Write(stream[:piece])
			stream = stream[piece:]
		}
		_, _ = c.Write(stream)
	}()
	for i, n := range sizes {
		if h, body := receive(t, c); h.Opaque != int32(i) || len(body) != n {
			t.Fatalf("answer %d has opaque %d and %d bytes, want %d", i, h.Opaque, len(body), n)
		}
	}
	before := bursts.Load()
	send(t, c, bytes.Repeat(request(t, 10, 1, 0, "x"), 200))
	for range 200 {
		receive(t, c)
	}
	if got := bursts.Load() - before; got < 1 || got > 20 {
		t.Errorf("%d bursts for 200 small frames in one write", got)
	}
	if requests.Load() != int32(len(sizes)+200) {
		t.Errorf("%d requests", requests.Load())
	}
}

// TestIdleConnectionsHoldNothing wants no buffer with connections that wait, and no more
// than the received part of a frame needs with half-open ones.
func TestIdleConnectionsHoldNothing(t *testing.T) {
	s, dial := startTCP(t, ServerOptions{Handler: handler{serve: echo}})
	large := request(t, 10, 1, 0, strings.Repeat("b", 8<<20))
	for i := range 60 {
		c := dial()
		send(t, c, request(t, 1, 1, 0, strings.Repeat("b", 1000*i)))
		receive(t, c)
		switch i % 3 {
		case 1:
			send(t, c, large[:20]) // says 8 MiB
		case 2:
			send(t, c, large[:9000])
		}
	}
	// The readers go on meanwhile; that they are parked shows in sums that settle.
	held := func() (small, some, more int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.mu.Lock()
			if len(c.out) != 0 || c.writing {
				more++
			}
			c.mu.Unlock()
			switch c.in.parked.Load() {
			case 0:
				small++
			case 4 << 10, 32 << 10:
				some++
			default:
				more++
			}
		}
		return small, some, more
	}
	for range 1_000_000 {
		if small, some, more := held(); small == 20 && some == 40 && more == 0 {
			return
		}
		runtime.Gosched()
	}
	small, some, more := held()
	t.Errorf("%d connections hold nothing, %d little, %d more; want 20, 40, 0", small, some, more)
}

// TestHalfClosed answers what came before the peer's end of stream.
func TestHalfClosed(t *testing.T) {
	_, dial := startTCP(t, ServerOptions{Handler: handler{serve: echo}})
	c := dial()
	send(t, c, request(t, 1, 1, 0, "last"))
	if _, body := receive(t, c); string(body) != "last" {
		t.Errorf("%q", body)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, c)
}

// TestWriterTakesOver sends more than the sockets take at once to a peer that starts
// reading late; everything arrives in order, and Flush works again afterwards.
func TestWriterTakesOver(t *testing.T) {
	conns := make(chan *Conn, 1)
	_, dial := startTCP(t, ServerOptions{MaxUnread: 256 << 20, Handler: handler{serve: func(c *Conn, r *Request) {
		conns <- c
		r.Reply(CodeSuccess, "", nil, nil)
	}}})
	c := dial()
	send(t, c, request(t, 1, 1, 0, ""))
	receive(t, c)
	conn := <-conns
	const notices = 300
	body := make([]byte, 100_000)
	for i := range notices {
		binary.BigEndian.PutUint32(body, uint32(i))
		if err := conn.Notify(40, nil, body); err != nil {
			t.Fatal(err)
		}
	}
	for i := range notices {
		_, body := receive(t, c)
		if len(body) != 100_000 || binary.BigEndian.Uint32(body) != uint32(i) {
			t.Fatalf("notice %d: %d bytes, %x", i, len(body), body[:4])
		}
	}
	send(t, c, request(t, 1, 2, 0, ""))
	if h, _ := receive(t, c); h.Opaque != 2 {
		t.Error(h.Opaque)
	}
	<-conns
	for {
		conn.mu.Lock()
		unread, writing := conn.unread, conn.writing
		conn.mu.Unlock()
		if !writing {
			if unread != 0 {
				t.Errorf("%d bytes unread", unread)
			}
			return
		}
		runtime.Gosched()
	}
}

// TestAddresses tells a handler who is at the other end.
func TestAddresses(t *testing.T) {
	conns := make(chan *Conn, 1)
	_, dial := startTCP(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) { conns <- c; echo(c, r) }}})
	c := dial()
	send(t, c, request(t, 1, 1, 0, ""))
	conn := <-conns
	if conn.RemoteAddr().String() != c.LocalAddr().String() || conn.LocalAddr().String() != c.RemoteAddr().String() || conn.ID() != 1 {
		t.Error(conn.RemoteAddr(), conn.LocalAddr(), conn.ID())
	}
	receive(t, c)
	conn.Close()
	conn.Close()
	<-conn.Gone()
	if rest, err := io.ReadAll(c); len(rest) != 0 || err != nil {
		t.Error(rest, err)
	}
}

// TestTooManyConns closes connections beyond the limit at once, so that files of the
// process can still be opened, and takes new ones when others have gone.
func TestTooManyConns(t *testing.T) {
	const limit = 3
	o := ServerOptions{MaxConns: limit + int(accepted.Load()), Handler: handler{serve: echo}}
	s, dial := startTCP(t, o)
	var open []net.Conn
	for i := range limit {
		c := dial()
		send(t, c, request(t, 1, int32(i), 0, ""))
		receive(t, c)
		open = append(open, c)
	}
	for range 2 {
		wantClosed(t, dial())
	}
	if n := len(s.Conns()); n != limit {
		t.Errorf("%d connections", n)
	}
	gone := s.Conns()[0]
	for _, c := range open {
		if c.LocalAddr().String() == gone.RemoteAddr().String() {
			_ = c.Close()
		}
	}
	<-gone.Gone()
	for len(s.Conns()) == limit {
		runtime.Gosched()
	}
	c := dial()
	send(t, c, request(t, 1, 9, 0, ""))
	receive(t, c)
}
