package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mqctl/broker/remoting"
)

// fakeNet is a network in memory whose servers answer with functions.
type fakeNet struct {
	t       *testing.T
	mu      sync.Mutex
	servers map[string]*remoting.Server
	listen  map[string]chan net.Conn
	seen    map[string][]seen // by address
}

// seen is a request that a server got.
type seen struct {
	code int
	ext  map[string]string
	body string
}

// answer serves one request.
type answer func(r *remoting.Request)

func newFakeNet(t *testing.T) *fakeNet {
	n := &fakeNet{t: t, servers: make(map[string]*remoting.Server), listen: make(map[string]chan net.Conn), seen: make(map[string][]seen)}
	t.Cleanup(func() {
		for _, s := range n.servers {
			s.Close()
		}
	})
	return n
}

// serve makes addr answer with f.
func (n *fakeNet) serve(addr string, f answer) {
	ctx, cancel := context.WithCancel(context.Background())
	n.t.Cleanup(cancel)
	s := remoting.NewServer(remoting.ServerOptions{Handler: &fakeHandler{n: n, addr: addr, f: f}})
	l := &fakeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	n.servers[addr], n.listen[addr] = s, l.conns
	go func() {
		if err := s.Serve(ctx, l); err != nil {
			n.t.Error(err)
		}
	}()
}

func (n *fakeNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	c := n.listen[addr]
	n.mu.Unlock()
	if c == nil {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case c <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// client makes a client of this network.
func (n *fakeNet) client(o Options) *Client {
	o.Dial = n.dial
	c := New(o)
	n.t.Cleanup(c.Close)
	return c
}

func (n *fakeNet) requests(addr string) []seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[addr]
}

type fakeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

type fakeHandler struct {
	n    *fakeNet
	addr string
	f    answer
}

func (h *fakeHandler) ServeRequest(_ *remoting.Conn, r *remoting.Request) {
	h.n.mu.Lock()
	h.n.seen[h.addr] = append(h.n.seen[h.addr], seen{r.Code, r.Ext.Map(), string(r.Body)})
	h.n.mu.Unlock()
	h.f(r)
}

func (h *fakeHandler) BurstEnd(*remoting.Conn) {}
func (h *fakeHandler) Closed(*remoting.Conn)   {}

// exchange is a recorded request with its answer.
type exchange struct {
	code   int
	ext    map[string]string
	answer struct {
		Code   int
		Remark string
		Ext    map[string]string `json:"extFields"`
	}
	body []byte
}

// recorded answers requests as Apache 5.3.3 did in the recordings of
// testdata/wire: with the answer to the first recorded request of the same code
// whose fields do not differ from those that were sent.
func recorded(t *testing.T, files ...string) answer {
	t.Helper()
	var all []exchange
	for _, f := range files {
		all = append(all, load(t, f)...)
	}
	return func(r *remoting.Request) {
		ext := r.Ext.Map()
		for _, x := range all {
			if x.code == r.Code && agrees(ext, x.ext) {
				r.Reply(x.answer.Code, x.answer.Remark, remoting.Map(x.answer.Ext), x.body)
				return
			}
		}
		r.Reply(remoting.CodeRequestCodeNotSupported, "nothing recorded", nil, nil)
	}
}

// chosen are the fields that tell recorded requests apart.
var chosen = []string{"topic", "consumerGroup", "producerGroup", "queueId", "queueOffset", "timestamp", "key", "offset", "statsKey",
	"brokerName", "namespace", "setZeroIfNotFound", "commitOffset", "subscription", "groupName"}

func agrees(sent, recorded map[string]string) bool {
	for _, k := range chosen {
		a, inSent := sent[k]
		b, inRecorded := recorded[k]
		if inSent && inRecorded && a != b || inSent != inRecorded && k == "setZeroIfNotFound" {
			return false
		}
	}
	return true
}

func load(t testing.TB, name string) []exchange {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "wire", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	type key struct{ conn, opaque int }
	asked := make(map[key]exchange)
	var out []exchange
	for line := range bytes.Lines(text) {
		var l struct {
			From, Frame string
			Conn        int
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(l.Frame)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.BigEndian.Uint32(raw[4:]) & 0xFFFFFF
		var h struct {
			Code, Opaque int
			Ext          map[string]string `json:"extFields"`
		}
		if err := json.Unmarshal(raw[8:8+n], &h); err != nil {
			t.Fatal(err)
		}
		k := key{l.Conn, h.Opaque}
		if l.From == "client" {
			asked[k] = exchange{code: h.Code, ext: h.Ext}
			continue
		}
		x, ok := asked[k]
		if !ok {
			continue // a request of the broker
		}
		if err := json.Unmarshal(raw[8:8+n], &x.answer); err != nil {
			t.Fatal(err)
		}
		x.body = raw[8+n:]
		out = append(out, x)
	}
	return out
}
