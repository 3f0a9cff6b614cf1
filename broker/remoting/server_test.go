package remoting

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdle wants connections closed that neither read nor write for 120 s, not those
// that do either, and a half-open one with the first bytes of a frame like the others.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served *Conn
		var mu sync.Mutex
		gone := make(map[uint64]bool)
		_, l, log := startServer(t, ServerOptions{Handler: handler{
			serve:  func(c *Conn, r *Request) { served = c; echo(c, r) },
			closed: func(c *Conn) { mu.Lock(); defer mu.Unlock(); gone[c.ID()] = true },
		}})
		silent, asking, half, notified := l.dial(), l.dial(), l.dial(), l.dial()
		send(t, half, request(t, 1, 1, 0, "")[:7])
		send(t, notified, request(t, 1, 1, 0, ""))
		receive(t, notified)
		told := served
		<-time.After(100 * time.Second)
		send(t, asking, request(t, 1, 1, 0, ""))
		receive(t, asking)
		if err := told.Notify(ReqNotifyConsumerIDsChanged, nil, nil); err != nil {
			t.Fatal(err)
		}
		receive(t, notified)
		wantGone := func(after time.Duration, ids ...uint64) {
			<-time.After(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := slices.Sorted(maps.Keys(gone)); !slices.Equal(got, ids) {
				t.Errorf("closed: %v, want %v", got, ids)
			}
		}
		wantGone(19 * time.Second)
		wantGone(12*time.Second, 1, 3)
		wantClosed(t, silent)
		wantClosed(t, half)
		wantGone(100*time.Second, 1, 2, 3, 4)
		if !log.has("idle for too long") {
			t.Error(log)
		}
	})
}

// TestSlowReader closes a peer that asks and asks and takes no answers: after 30 s
// without progress.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Int32
		s, l, log := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) {
			answers.Add(1)
			r.Reply(CodeSuccess, "", nil, make([]byte, 1<<20))
		}}})
		c := l.dial()
		go func() {
			for i := range int32(1000) {
				if _, err := c.Write(request(t, 11, i, 0, "")); err != nil {
					return
				}
			}
		}()
		<-time.After(29 * time.Second)
		synctest.Wait()
		if n := answers.Load(); n > 8 { // MaxUnread/4 and one more; the reader waits
			t.Errorf("%d MiB of answers for a peer that reads none", n)
		}
		if len(s.Conns()) != 1 {
			t.Fatal("closed before 30 s")
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(s.Conns()) != 0 || !log.has("takes no answers") {
			t.Errorf("not closed after 31 s: %s", log)
		}
	})
}

// TestManySlowReaders: what waits for many peers that take nothing is bounded for all of
// them together, others are served meanwhile, and nothing is counted when they are gone.
func TestManySlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Int32
		s, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) {
			if r.Code == 11 {
				answers.Add(1)
				r.Reply(CodeSuccess, "", nil, make([]byte, 1<<20))
				return
			}
			r.Reply(CodeSuccess, "", nil, nil)
		}}})
		const peers = 300
		for range peers {
			c := l.dial()
			go func() {
				for i := range int32(50) {
					if _, err := c.Write(request(t, 11, i, 0, "")); err != nil {
						return
					}
				}
			}()
		}
		<-time.After(time.Second)
		synctest.Wait()
		if n := answers.Load(); n > maxAllUnread>>20+peers+1 { // and one for each
			t.Errorf("%d MiB of answers", n)
		}
		c := l.dial()
		send(t, c, request(t, 12, 1, 0, ""))
		receive(t, c)
		<-time.After(40 * time.Second)
		synctest.Wait()
		if n, held := len(s.Conns()), s.conf.held.Load(); n != 1 || held != 0 {
			t.Errorf("%d connections, %d grains are counted", n, held)
		}
	})
}

// TestStoppedReader closes a peer that takes a part of its answers and then no more:
// what it took must not count as progress for long.
func TestStoppedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) {
			r.Reply(CodeSuccess, "", nil, make([]byte, 1<<20))
		}}})
		c := l.dial()
		send(t, c, request(t, 11, 1, 0, ""))
		if _, err := io.ReadFull(c, make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
		<-time.After(29 * time.Second)
		synctest.Wait()
		if len(s.Conns()) != 1 {
			t.Fatal("closed before 30 s")
		}
		<-time.After(7 * time.Second)
		synctest.Wait()
		if len(s.Conns()) != 0 {
			t.Error("not closed after 36 s without progress")
		}
	})
}

// TestUnreadLimit closes a peer for which 16 MiB of answers wait that did not come
// from its reader: woken pulls, notices.
func TestUnreadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []Call
		s, l, log := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) { held = append(held, r.Call) }}})
		c := l.dial()
		for i := range int32(20) {
			send(t, c, request(t, 11, i, 0, ""))
		}
		synctest.Wait()
		for i, call := range held {
			if i < 16 && len(s.Conns()) != 1 {
				t.Fatalf("closed after %d MiB", i)
			}
			call.ReplyNow(CodeSuccess, "", nil, make([]byte, 1<<20))
			synctest.Wait()
		}
		if len(s.Conns()) != 0 || !log.has("too many answers unread") {
			t.Errorf("still open: %s", log)
		}
	})
}

// TestSteadyReader does not close a peer that asks for far more than the limit at once
// and takes the answers.
func TestSteadyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) {
			r.Reply(CodeSuccess, "", nil, make([]byte, 256<<10))
		}}})
		c := l.dial()
		const pulls = 200
		go func() {
			var burst []byte
			for i := range int32(pulls) {
				burst = append(burst, request(t, 11, i, 0, "")...)
			}
			send(t, c, burst)
		}()
		for i := range int32(pulls) {
			if h, body := receive(t, c); h.Opaque != i || len(body) != 256<<10 {
				t.Fatalf("answer %d: opaque %d with %d bytes", i, h.Opaque, len(body))
			}
		}
	})
}

// TestOneWay answers no request that has flag bit 1, and every one that has not,
// whatever its code.
func TestOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var oneWay []bool
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) {
			oneWay = append(oneWay, r.OneWay())
			echo(c, r)
		}}})
		c := l.dial()
		send(t, c, request(t, ReqUpdateConsumerOffset, 1, flagOneWay, ""), request(t, ReqUpdateConsumerOffset, 2, 0, ""))
		if h, _ := receive(t, c); h.Opaque != 2 || h.Flag != flagResponse {
			t.Errorf("opaque %d flag %d", h.Opaque, h.Flag)
		}
		if len(oneWay) != 2 || !oneWay[0] || oneWay[1] {
			t.Error(oneWay)
		}
	})
}

// TestAnswersOnce drops a second answer to one request, also when its place is used
// by another, answers to requests of a connection that is gone, and dropped calls.
func TestAnswersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []Call
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) { calls = append(calls, r.Call) }}})
		c := l.dial()
		send(t, c, request(t, 11, 7, 0, ""), request(t, 11, 7, 0, "")) // one opaque twice is the peer's affair
		synctest.Wait()
		calls[0].Reply(CodeSuccess, "first", nil, nil)
		calls[0].Reply(CodeSuccess, "again", nil, nil)
		send(t, c, request(t, 11, 8, 0, ""))
		synctest.Wait()
		calls[0].ReplyNow(CodeSuccess, "again", nil, nil)
		calls[2].Drop()
		calls[2].ReplyNow(CodeSuccess, "dropped", nil, nil)
		calls[1].ReplyNow(CodeSuccess, "second", nil, nil)
		for _, want := range []string{"first", "second"} {
			if h, _ := receive(t, c); string(h.Remark) != want || h.Opaque != 7 {
				t.Errorf("got %q of %d, want %q", h.Remark, h.Opaque, want)
			}
		}
		if n := calls[0].Conn.inFlight; n != 0 {
			t.Errorf("%d bytes in flight", n)
		}
		send(t, c, request(t, 11, 9, 0, ""))
		synctest.Wait()
		_ = c.Close()
		synctest.Wait()
		calls[3].ReplyNow(CodeSuccess, "late", nil, nil)
		if (Call{}).OneWay() {
			t.Error("the zero call is one-way")
		}
		Call{}.ReplyNow(CodeSuccess, "", nil, nil) // of nobody: nothing happens
	})
}

// TestPanic answers a request whose handler panics, keeps the connection, and writes a
// report with the stack.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, log := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) {
			switch r.Code {
			case 1:
				panic("broken invariant")
			case 2:
				r.Reply(CodeSuccess, "", panicking{}, nil)
			case 3:
				echo(c, r)
				panic(errors.New("after the answer"))
			}
			echo(c, r)
		}}})
		c := l.dial()
		send(t, c, request(t, 1, 1, 0, ""), request(t, 2, 2, 0, ""), request(t, 3, 3, 0, ""), request(t, 4, 4, 0, ""))
		for opaque := range int32(4) {
			h, _ := receive(t, c)
			if h.Opaque != opaque+1 {
				t.Fatalf("opaque %d, want %d", h.Opaque, opaque+1)
			}
			if opaque >= 2 {
				if h.Code != CodeSuccess {
					t.Errorf("code %d", h.Code)
				}
				continue
			}
			id := strings.TrimPrefix(string(h.Remark), "internal error, report ")
			if h.Code != CodeSystemError || len(id) != 8 || !log.has("report="+id, "server_test.go") {
				t.Errorf("code %d remark %q, log %s", h.Code, h.Remark, log)
			}
		}
		if !log.has("broken invariant", "cannot encode", "after the answer") {
			t.Error(log)
		}
	})
}

type panicking struct{}

func (panicking) EncodeExt(w *ExtWriter) {
	w.String("half", "written")
	panic("cannot encode")
}

// TestGuard answers a request whose work on another goroutine panics, and ends a
// connection whose common work does.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, log := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) {
			call := r.Call
			switch r.Code {
			case 1:
				go func() {
					if call.Guard(1, func() { panic("pooled") }) {
						t.Error("a panic went unnoticed")
					}
					c.Flush()
				}()
			case 2:
				go c.Guard("flush", func() { panic("gathered") })
			case 3:
				go func() {
					if !call.Guard(3, func() { call.ReplyNow(CodeSuccess, "", nil, nil) }) {
						t.Error("a panic that was none")
					}
				}()
			}
		}}})
		c := l.dial()
		send(t, c, request(t, 1, 1, 0, ""))
		h, _ := receive(t, c)
		id := strings.TrimPrefix(string(h.Remark), "internal error, report ")
		if h.Code != CodeSystemError || len(id) != 8 || !log.has("report="+id, "panic=pooled", "code=1", "server_test.go") {
			t.Errorf("code %d remark %q, log %s", h.Code, h.Remark, log)
		}
		send(t, c, request(t, 3, 3, 0, ""))
		if h, _ := receive(t, c); h.Code != CodeSuccess {
			t.Errorf("code %d", h.Code)
		}
		send(t, c, request(t, 2, 2, 0, ""))
		wantClosed(t, c)
		if !log.has("panic=gathered", "at=flush") {
			t.Error(log)
		}
	})
}

// TestPanicAtBurstEnd closes the connection, since requests that were gathered may be
// lost, and a panic of Closed hurts nobody.
func TestPanicAtBurstEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, log := startServer(t, ServerOptions{Handler: handler{
			burst:  func(*Conn) { panic("batch") },
			closed: func(*Conn) { panic("closing") },
		}})
		c, other := l.dial(), l.dial()
		send(t, c, request(t, 1, 1, 0, ""))
		wantClosed(t, c)
		synctest.Wait()
		if !log.has("panic=batch", "panic=closing") || len(s.Conns()) != 1 {
			t.Error(log)
		}
		_ = other.Close()
	})
}

// TestJunk closes connections that do not speak the protocol, after serving what came
// before, and says so in the log.
func TestJunk(t *testing.T) {
	for _, c := range []struct{ name, junk, why string }{
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "HTTP"},
		{"length", "\x7f\xff\xff\xff\x00\x00\x00\x00", "outside"},
		{"serialize type", "\x00\x00\x00\x04\x09\x00\x00\x00", "serialize type 9"},
		{"header length", "\x00\x00\x00\x04\x00\x00\x00\x01", "header of 1 bytes"},
		{"header", "\x00\x00\x00\x06\x00\x00\x00\x02[]", "no object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l, log := startServer(t, ServerOptions{Handler: handler{serve: echo}})
				conn := l.dial()
				go send(t, conn, request(t, 1, 1, 0, "good"), []byte(c.junk))
				if _, body := receive(t, conn); string(body) != "good" {
					t.Errorf("body %q", body)
				}
				wantClosed(t, conn)
				synctest.Wait()
				if !log.has(c.why, "level=WARN") || strings.Count(log.String(), "\n") != 1 {
					t.Error(log)
				}
			})
		})
	}
}

// TestInFlightBound stops reading a connection whose requests wait for answers, and
// goes on when answers leave; other connections do not notice.
func TestInFlightBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan Call, 100)
		bursts := 0
		_, l, _ := startServer(t, ServerOptions{MaxInFlight: 10_000, Handler: handler{
			serve: func(_ *Conn, r *Request) { calls <- r.Call },
			burst: func(*Conn) { bursts++ },
		}})
		c, other := l.dial(), l.dial()
		go func() {
			for i := range int32(20) {
				send(t, c, request(t, 10, i, 0, strings.Repeat("x", 1000)))
			}
		}()
		synctest.Wait()
		if n := len(calls); n < 9 || n > 11 {
			t.Fatalf("%d requests of 1 kB read with a bound of 10 kB", n)
		}
		if bursts == 0 {
			t.Error("the handler was not told before the reader waited")
		}
		send(t, other, request(t, 10, 1, 0, ""))
		var mine []Call
		synctest.Wait()
		for range len(calls) {
			if call := <-calls; call.Opaque >= 0 {
				mine = append(mine, call)
			}
		}
		read := len(mine)
		for i := 0; read < 21; i++ {
			mine[i].ReplyNow(CodeSuccess, "", nil, nil)
			if mine[i].Conn.ID() == 1 {
				receive(t, c)
			} else {
				receive(t, other)
			}
			synctest.Wait()
			for range len(calls) {
				mine = append(mine, <-calls)
				read++
			}
		}
	})
}

// TestDrain lets answers under way leave, reads nothing new, and refuses connections.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan Call, 10)
		s, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) { calls <- r.Call }}})
		busy, quiet, held := l.dial(), l.dial(), l.dial()
		send(t, busy, request(t, 1, 1, 0, ""))
		send(t, held, request(t, 1, 1, 0, ""))
		call := <-calls
		if call.Conn.ID() != 1 {
			call = <-calls
		}
		synctest.Wait()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			s.Drain(ctx)
		}()
		wantClosed(t, quiet)
		wantClosed(t, l.dial())
		go func() { _, _ = busy.Write(request(t, 1, 2, 0, "")) }()
		call.ReplyNow(CodeSuccess, "done", nil, nil)
		if h, _ := receive(t, busy); string(h.Remark) != "done" {
			t.Errorf("%q", h.Remark)
		}
		wantClosed(t, busy)
		start := time.Now()
		<-drained
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("gave up the held request after %s", took)
		}
		s.Close()
		wantClosed(t, held)
		if len(calls) > 1 {
			t.Error("a request was read while draining")
		}
	})
}

// TestAnswerTooLarge tells the peer when an answer passes the limit of a frame.
func TestAnswerTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(_ *Conn, r *Request) {
			r.Reply(CodeSuccess, strings.Repeat("r", int(r.Opaque)), nil, make([]byte, MaxFrame))
		}}})
		c := l.dial()
		for _, remark := range []int32{1, 1 << 24} {
			send(t, c, request(t, 1, remark, 0, ""))
			if h, body := receive(t, c); h.Code != CodeSystemError || len(body) != 0 || !strings.Contains(string(h.Remark), "too large") {
				t.Errorf("code %d remark %q", h.Code, h.Remark)
			}
		}
	})
}

// badListener fails as one out of descriptors does, then for good.
type badListener struct {
	*pipeListener
	fails int
}

type tooMany struct{ error }

func (tooMany) Temporary() bool { return true }

func (l *badListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, tooMany{os.ErrDeadlineExceeded}
	}
	return nil, errors.New("broken")
}

func TestAcceptFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &badListener{pipeListener: newPipeListener(), fails: 3}
		s := NewServer(ServerOptions{Handler: handler{}})
		start := time.Now()
		if err := s.Serve(t.Context(), l); err == nil || err.Error() != "broken" {
			t.Error(err)
		}
		if took := time.Since(start); took != 35*time.Millisecond {
			t.Errorf("took %s", took)
		}
		<-l.ended
		s.Close()
	})
}
