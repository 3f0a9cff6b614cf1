package remoting_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
)

// sendFrame is a send as the Java client makes it, with a body of n bytes.
func sendFrame(tb testing.TB, serialize byte, n int) []byte {
	tb.Helper()
	h := remoting.Header{Code: remoting.ReqSendMessageV2, Language: "JAVA", Version: 479, Opaque: 77, Serialize: serialize}
	b, err := remoting.AppendFrame(nil, &h, &header.SendMessage{
		ProducerGroup: []byte("PG_send"), Topic: []byte("BenchTopic"), DefaultTopic: []byte("TBW102"),
		DefaultTopicQueueNums: 4, QueueID: 2, BornTimestamp: 1795969473759, BrokerName: []byte("broker-a"),
		Properties: []byte("KEYS\x01key0\x02UNIQ_KEY\x01C0000201644C0C387F4412345678000A\x02WAIT\x01true\x02TAGS\x01TagA\x02"),
	}, make([]byte, n))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func BenchmarkFrameDecodeSend(b *testing.B) {
	for _, c := range []struct {
		name      string
		serialize byte
	}{{"json", remoting.JSON}, {"binary", remoting.Binary}} {
		b.Run(c.name, func(b *testing.B) {
			frame := sendFrame(b, c.serialize, 1024)
			scratch := bytes.Clone(frame)
			headerLen := 8 + int(frame[5])<<16 + int(frame[6])<<8 + int(frame[7])
			var send header.SendMessage
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				copy(scratch[:headerLen], frame) // decoding rewrites the header
				h, _, err := remoting.DecodeFrame(scratch)
				if err != nil {
					b.Fatal(err)
				}
				if err := send.DecodeV2(h.Ext); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// reply is a filled answer to a send.
func reply() *header.SendMessageReply {
	return &header.SendMessageReply{
		MsgID: []byte("7F00000100002A9F0000000000000000"), TransactionID: []byte("C0000201644C0C387F4412345678000A"),
		Region: []byte("DefaultRegion"), QueueID: 3, QueueOffset: 1234567, TraceOn: true,
	}
}

// sendHandler answers sends with one reused header.
type sendHandler struct{ reply *header.SendMessageReply }

func (h sendHandler) ServeRequest(_ *remoting.Conn, r *remoting.Request) {
	var send header.SendMessage
	if err := send.DecodeV2(r.Ext); err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", h.reply, nil)
}
func (sendHandler) BurstEnd(*remoting.Conn) {}
func (sendHandler) Closed(*remoting.Conn)   {}

// listen starts a server over TCP and returns a connection to it.
func listen(tb testing.TB, h remoting.Handler) net.Conn {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := remoting.NewServer(remoting.ServerOptions{Handler: h})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = c.Close()
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
		s.Close()
	})
	return c
}

// readFrame reads one frame from r into buf and returns it.
func readFrame(tb testing.TB, r io.Reader, buf []byte) []byte {
	tb.Helper()
	if _, err := io.ReadFull(r, buf[:4]); err != nil {
		tb.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(buf)) + 4
	if n > cap(buf) {
		buf = append(make([]byte, 0, n), buf[:4]...)
	}
	if _, err := io.ReadFull(r, buf[4:n]); err != nil {
		tb.Fatal(err)
	}
	return buf[:n]
}

// BenchmarkServerEcho sends bursts of 64 messages of 1 KiB over loopback and reads the
// answers; one operation is one message.
func BenchmarkServerEcho(b *testing.B) {
	const burst = 64
	c := listen(b, sendHandler{reply()})
	frame := sendFrame(b, remoting.JSON, 1024)
	out := bytes.Repeat(frame, burst)
	in := make([]byte, 64<<10)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for left := b.N; left > 0; left -= burst {
		if _, err := c.Write(out); err != nil {
			b.Fatal(err)
		}
		for want := burst; want > 0; want-- {
			readFrame(b, c, in)
		}
	}
}
