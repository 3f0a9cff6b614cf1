package remoting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipeClient returns a client whose connections go to l.
func pipeClient(t *testing.T, l *pipeListener, o ClientOptions) *Client {
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "nobody") {
			return nil, errors.New("connection refused")
		}
		if strings.HasPrefix(addr, "slow") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return l.dial(), nil
	}
	c := NewClient(o)
	t.Cleanup(c.Close)
	return c
}

func TestClientCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) {
			if r.Code == ReqViewMessageByID {
				r.Reply(CodeQueryNotFound, "no such thing", nil, nil)
				return
			}
			echo(c, r)
		}}})
		var mu sync.Mutex
		var traced []string
		c := pipeClient(t, l, ClientOptions{Serialize: Binary, Trace: func(code int, addr string, out, in int, took time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			traced = append(traced, fmt.Sprint(code, " ", addr, " ", out > 0, in > 0, took, err != nil))
		}})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				want := fmt.Sprint("body ", i)
				r, err := c.Call(t.Context(), "a", ReqGetBrokerRuntimeInfo, Map{"i": want}, []byte(want))
				if err != nil || r.Err() != nil || string(r.Body) != want || r.Ext["i"] != want || r.Version != Version {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		if n := len(s.Conns()); n != 1 {
			t.Errorf("%d connections to one address", n)
		}
		r, err := c.Call(t.Context(), "b", ReqViewMessageByID, nil, nil)
		var remote *Error
		if err != nil || !errors.As(r.Err(), &remote) || remote.Code != CodeQueryNotFound ||
			remote.Error() != "answered with code 22 QUERY_NOT_FOUND: no such thing" {
			t.Error(r, err)
		}
		if err := c.OneWay(t.Context(), "b", ReqUpdateConsumerOffset, nil, nil); err != nil {
			t.Error(err)
		}
		if n := len(s.Conns()); n != 2 {
			t.Errorf("%d connections to two addresses", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(traced) != 52 || !slices.Contains(traced, "28 a true true 0s false") {
			t.Errorf("traced %q", traced)
		}
	})
}

func TestClientErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) {
			switch r.Code {
			case 1: // never answered
			case 2:
				c.Close()
			default:
				echo(c, r)
			}
		}}})
		var lost atomic.Int32
		c := pipeClient(t, l, ClientOptions{OnClose: func(addr string, err error) {
			if addr == "a" && err != nil {
				lost.Add(1)
			}
		}})
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		var dial *DialError
		if _, err := c.Call(within(time.Second), "nobody:1", 9, nil, nil); !errors.As(err, &dial) || dial.Addr != "nobody:1" || !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}
		start := time.Now()
		if _, err := c.Call(within(time.Minute), "slow:1", 9, nil, nil); !errors.As(err, &dial) || time.Since(start) != DefaultDialTimeout {
			t.Error(err, time.Since(start))
		}
		if _, err := c.Call(within(time.Second), "slow:1", 9, nil, nil); !errors.As(err, &dial) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var timeout *TimeoutError
		_, err := c.Call(within(2*time.Second), "a", 1, nil, nil)
		if !errors.As(err, &timeout) || !errors.Is(err, context.DeadlineExceeded) || !timeout.Timeout() || err.Error() != "no answer from a to 1 (1) within 2s" {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Call(ctx, "a", 1, nil, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		var closed *ClosedError
		if _, err := c.Call(within(time.Second), "a", 2, nil, nil); !errors.As(err, &closed) || closed.Addr != "a" || !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		synctest.Wait()
		if lost.Load() != 1 {
			t.Errorf("%d losses", lost.Load())
		}
		if r, err := c.Call(within(time.Second), "a", 3, nil, []byte("again")); err != nil || string(r.Body) != "again" {
			t.Error(r, err)
		}
		var large *FrameError
		if _, err := c.Call(within(time.Second), "a", 3, nil, make([]byte, MaxFrame)); !errors.As(err, &large) {
			t.Error(err)
		}
		if r, err := c.Call(within(time.Second), "a", 3, nil, nil); err != nil || r.Body != nil {
			t.Error(r, err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := c.Call(context.Background(), "a", 1, nil, nil)
			waiting <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-waiting; !errors.As(err, &closed) || !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := c.OneWay(t.Context(), "a", 3, nil, nil); !errors.As(err, &dial) {
			t.Error(err)
		}
	})
}

// TestClientAnswersPeer serves what a peer asks on the client's connection.
func TestClientAnswersPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) { conn = c; echo(c, r) }}})
		c := pipeClient(t, l, ClientOptions{OnRequest: func(addr string, r *Request) {
			kept := r.Clone()
			clear(r.Body)
			kept.ReplyNow(CodeSuccess, addr, kept.Ext, kept.Body)
		}})
		if err := c.OneWay(t.Context(), "ns:9876", 1, nil, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r, err := conn.Call(t.Context(), ReqNotifyMinBrokerIDChange, Map{"minBrokerId": "1"}, []byte("text"))
		if err != nil || r.Remark != "ns:9876" || string(r.Body) != "text" || r.Ext["minBrokerId"] != "1" {
			t.Errorf("%+v, %v", r, err)
		}
		silent := pipeClient(t, l, ClientOptions{})
		if err := silent.OneWay(t.Context(), "a", 1, nil, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var timeout *TimeoutError
		if _, err := conn.Call(ctx, 905, nil, nil); !errors.As(err, &timeout) {
			t.Error(err)
		}
	})
}

// TestClientStaleConnection dials again when the connection was lost before the call.
func TestClientStaleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := startServer(t, ServerOptions{Handler: handler{serve: echo}})
		c := pipeClient(t, l, ClientOptions{})
		for i := range 5 {
			if _, err := c.Call(t.Context(), "a", 1, nil, nil); err != nil {
				t.Fatal(i, err)
			}
			for _, conn := range s.Conns() {
				conn.Close()
			}
			synctest.Wait()
		}
		// The connection is closed on our side and nobody has noticed yet.
		conn, err := c.conn(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		conn.mu.Lock()
		conn.closed, conn.why = true, io.EOF
		conn.mu.Unlock()
		if _, err := c.Call(t.Context(), "a", 1, nil, nil); err != nil {
			t.Error(err)
		}
		if err := c.OneWay(t.Context(), "a", 1, nil, nil); err != nil {
			t.Error(err)
		}
		_ = conn.nc.Close()
	})
}
