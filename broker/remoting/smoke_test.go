package remoting

import (
	"context"
	"net"
	"testing"
)

type echo struct{}

func (echo) ServeRequest(c *Conn, r *Request) { r.Reply(0, "", r.Ext, r.Body) }
func (echo) BurstEnd(*Conn)                   {}
func (echo) Closed(*Conn)                     {}

func TestSmoke(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerOptions{Handler: echo{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	c := NewClient(ClientOptions{})
	for _, n := range []int{0, 1, 100, 100000, 9 << 20} {
		r, err := c.Call(ctx, l.Addr().String(), 12345, Map{"a": "b\x01\x02\"", "ü": ""}, make([]byte, n))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Body) != n || r.Ext["a"] != "b\x01\x02\"" || len(r.Ext) != 2 {
			t.Fatal(r.Code, len(r.Body), r.Ext)
		}
	}
	c.Close()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Close()
}
