package remoting

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestMirror answers in the form of the request and asks in the form of the peer's
// last frame; codes that the binary header cannot say go as JSON.
func TestMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) { conn = c; echo(c, r) }}})
		c := l.dial()
		ask := func(kind byte) []byte {
			b, err := AppendFrame(nil, &Header{Code: 11, Serialize: kind, Opaque: 5, Language: "JAVA"}, Map{"topic": "T"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for _, kind := range []byte{Binary, JSON, Binary} {
			send(t, c, ask(kind))
			h, _ := receive(t, c)
			if topic, _ := h.Ext.Get("topic"); h.Serialize != kind || topic != "T" || h.Version != Version || h.Language != "GO" {
				t.Errorf("answer %+v to a request of type %d", h, kind)
			}
			if err := conn.Notify(ReqNotifyConsumerIDsChanged, Map{"consumerGroup": "G"}, nil); err != nil {
				t.Fatal(err)
			}
			if h, _ = receive(t, c); h.Serialize != kind || h.Flag != flagOneWay || h.Code != ReqNotifyConsumerIDsChanged {
				t.Errorf("notice %+v to a peer of type %d", h, kind)
			}
			if err := conn.Notify(ReqPopMessage, nil, nil); err != nil {
				t.Fatal(err)
			}
			if h, _ = receive(t, c); h.Serialize != JSON || h.Code != ReqPopMessage {
				t.Errorf("notice %+v", h)
			}
		}
	})
}

// TestCallToPeer asks a client something while it asks with the same opaque.
func TestCallToPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		_, l, _ := startServer(t, ServerOptions{Handler: handler{serve: func(c *Conn, r *Request) { conn = c; echo(c, r) }}})
		c := l.dial()
		send(t, c, request(t, 1, 1, 0, ""))
		receive(t, c)
		type result struct {
			r   *Response
			err error
		}
		results := make(chan result, 1)
		call := func(timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			go func() {
				defer cancel()
				r, err := conn.Call(ctx, ReqGetConsumerRunningInfo, None{}, nil)
				results <- result{r, err}
			}()
		}
		call(time.Second)
		h, _ := receive(t, c)
		send(t, c, request(t, 1, h.Opaque, 0, "mine"), request(t, CodeSuccess, h.Opaque, flagResponse, "yours"))
		if got := <-results; got.err != nil || string(got.r.Body) != "yours" || got.r.Err() != nil {
			t.Errorf("%+v", got)
		}
		if _, body := receive(t, c); string(body) != "mine" {
			t.Errorf("%q", body)
		}
		call(time.Second)
		h, _ = receive(t, c)
		late := <-results
		var timeout *TimeoutError
		if !errors.As(late.err, &timeout) || timeout.Code != ReqGetConsumerRunningInfo || timeout.After != time.Second {
			t.Errorf("%+v", late)
		}
		send(t, c, request(t, CodeSuccess, h.Opaque, flagResponse, "late"), request(t, 1, 3, 0, "on"))
		if _, body := receive(t, c); string(body) != "on" {
			t.Errorf("%q", body)
		}
		call(time.Minute)
		receive(t, c)
		_ = c.Close()
		var closed *ClosedError
		if got := <-results; !errors.As(got.err, &closed) || !errors.Is(got.err, io.EOF) {
			t.Errorf("%+v", got)
		}
		if err := conn.Notify(1, nil, nil); !errors.As(err, &closed) {
			t.Error(err)
		}
		if len(conn.calls) != 0 {
			t.Errorf("%d calls left", len(conn.calls))
		}
	})
}
