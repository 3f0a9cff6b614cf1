package remoting_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
)

// tcpPair returns the two ends of a loopback connection.
func tcpPair(tb testing.TB) (here, there net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// untracked returns a call that can be answered again and again, one of a request
// that reached a client, and the peer's end of its connection.
func untracked(tb testing.TB) (remoting.Call, net.Conn) {
	tb.Helper()
	here, there := tcpPair(tb)
	calls := make(chan remoting.Call, 1)
	client := remoting.NewClient(remoting.ClientOptions{
		Dial:      func(context.Context, string) (net.Conn, error) { return here, nil },
		OnRequest: func(_ string, r *remoting.Request) { calls <- r.Call },
	})
	tb.Cleanup(client.Close)
	if err := client.OneWay(tb.Context(), "peer", remoting.ReqHeartBeat, nil, nil); err != nil {
		tb.Fatal(err)
	}
	if _, err := there.Write(sendFrame(tb, remoting.JSON, 0)); err != nil {
		tb.Fatal(err)
	}
	readFrame(tb, there, make([]byte, 256)) // the heartbeat
	return <-calls, there
}

func BenchmarkReplySend(b *testing.B) {
	call, there := untracked(b)
	go func() { _, _ = io.Copy(io.Discard, there) }()
	h := reply()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		call.Reply(remoting.CodeSuccess, "", h, nil)
		if i%64 == 63 {
			call.Conn.Flush()
		}
	}
}

// TestReplyAllocatesNothing holds answers to sends and pulls to no allocation.
func TestReplyAllocatesNothing(t *testing.T) {
	send := reply()
	pull := &header.PullMessageReply{NextBeginOffset: 32, MaxOffset: 4711}
	offset := &header.OffsetReply{Offset: 12}
	body := make([]byte, 40<<10)
	for _, c := range []struct {
		name  string
		h     remoting.ExtEncoder
		body  []byte
		burst int
	}{{"send", send, nil, 64}, {"pull", pull, body, 1}, {"offset", offset, nil, 64}, {"none", nil, nil, 64}} {
		t.Run(c.name, func(t *testing.T) {
			call, there := untracked(t)
			buf := make([]byte, 64<<10)
			n := testing.AllocsPerRun(200, func() {
				for range c.burst {
					call.Reply(remoting.CodeSuccess, "", c.h, c.body)
				}
				call.Conn.Flush()
				for range c.burst {
					readFrame(t, there, buf)
				}
			})
			if n >= 1 { // a collection of garbage may empty the pools now and then
				t.Errorf("%.2f allocations for %d answers", n, c.burst)
			}
		})
	}
}

// TestDecodeAllocatesNothing holds the decoding of sends to no allocation.
func TestDecodeAllocatesNothing(t *testing.T) {
	for _, kind := range []byte{remoting.JSON, remoting.Binary} {
		frame := sendFrame(t, kind, 100)
		scratch := bytes.Clone(frame)
		var send header.SendMessage
		n := testing.AllocsPerRun(100, func() {
			copy(scratch, frame)
			h, body, err := remoting.DecodeFrame(scratch)
			if err != nil || len(body) != 100 {
				t.Error(len(body), err)
			}
			if err := send.DecodeV2(h.Ext); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("type %d: %v allocations", kind, n)
		}
	}
}
