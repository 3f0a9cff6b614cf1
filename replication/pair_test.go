package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/record"
)

// pipeNet is a network in memory for one bubble.
type pipeNet struct {
	mu    sync.Mutex
	lis   map[string]*pipeListener
	dials atomic.Int64
}

func newPipeNet() *pipeNet { return &pipeNet{lis: map[string]*pipeListener{}} }

type pipeListener struct {
	n     *pipeNet
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (n *pipeNet) listen(addr string) *pipeListener {
	l := &pipeListener{n: n, addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	n.lis[addr] = l
	n.mu.Unlock()
	return l
}

func (n *pipeNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.dials.Add(1)
	n.mu.Lock()
	l := n.lis[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody listens")
	}
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.done:
		return nil, errors.New("nobody listens")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.mu.Lock()
		if l.n.lis[l.addr] == l {
			delete(l.n.lis, l.addr)
		}
		l.n.mu.Unlock()
	})
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// node is one end of a test: a log with a master and, if it follows, a slave.
type node struct {
	t      *testing.T
	log    *memLog
	set    atomic.Pointer[Settings]
	m      *Master
	s      *Slave
	stop   func()
	lines  *bytes.Buffer
	linesM sync.Mutex
}

const testSeg = 1 << 16

func (n *node) Write(p []byte) (int, error) {
	n.linesM.Lock()
	defer n.linesM.Unlock()
	return n.lines.Write(p)
}

func (n *node) logged() string {
	n.linesM.Lock()
	defer n.linesM.Unlock()
	return n.lines.String()
}

func newNode(t *testing.T, log *memLog) *node {
	n := &node{t: t, log: log, lines: &bytes.Buffer{}}
	n.set.Store(&Settings{SegmentBytes: testSeg, CopyAll: true, InSyncReplicas: 2, MinInSyncReplicas: 1})
	return n
}

func (n *node) slog() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }

func (n *node) run(f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			n.t.Error(err)
		}
	}()
	prev := n.stop
	n.stop = func() {
		cancel()
		<-done
		if prev != nil {
			prev()
		}
	}
}

func (n *node) serve(pn *pipeNet, addr string, change ...func(*MasterOptions)) *node {
	o := MasterOptions{
		Log: n.log, Listener: pn.listen(addr), Settings: n.set.Load, Name: "broker-a", Slog: n.slog(),
		Identify: func(netip.AddrPort) (Peer, bool) { return Peer{}, false },
	}
	for _, c := range change {
		c(&o)
	}
	n.m = NewMaster(o)
	n.run(n.m.Run)
	return n
}

// attachTo calls the master as remoting would.
func attachTo(m func() *Master) func(context.Context, string, AttachRequest) (AttachReply, bool, error) {
	return func(_ context.Context, _ string, r AttachRequest) (AttachReply, bool, error) {
		if m() == nil {
			return AttachReply{}, true, errors.New("no master")
		}
		return m().Attach(netip.MustParseAddrPort("127.0.0.1:5"), r), true, nil
	}
}

func (n *node) follow(pn *pipeNet, master *node, addr string, change ...func(*SlaveOptions)) *node {
	o := SlaveOptions{
		Log: n.log, Settings: n.set.Load, Dial: pn.dial, Slog: n.slog(),
		Attach: attachTo(func() *Master { return master.m }),
		Self: func() AttachRequest {
			return AttachRequest{BrokerName: "broker-a", BrokerID: 1, BrokerAddr: "127.0.0.1:20911"}
		},
	}
	for _, c := range change {
		c(&o)
	}
	n.s = NewSlave(o)
	n.s.SetMaster("master", addr)
	n.run(n.s.Run)
	return n
}

func (n *node) put(body string) record.PhysOffset {
	end := n.log.put(body)
	n.m.Appended(end)
	return end
}

func sameLogs(t *testing.T, a, b *memLog) {
	t.Helper()
	if a.Positions().Min != b.Positions().Min || !bytes.Equal(a.bytes(), b.bytes()) {
		t.Fatalf("logs differ: %+v, %+v", a.Positions(), b.Positions())
	}
}

type waiterFunc func(Ack)

func (f waiterFunc) Replicated(a Ack) { f(a) }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pn := newPipeNet()
		a := newNode(t, newMemLog(testSeg)).serve(pn, "a")
		defer func() { a.stop() }()
		for i := range 1000 {
			a.put(strings.Repeat("x", i))
		}
		b := newNode(t, newMemLog(testSeg)).follow(pn, a, "a")
		defer func() { b.stop() }()
		<-time.After(time.Second)
		sameLogs(t, a.log, b.log)
		if st := b.s.Status(); st.State != Syncing || !st.Connected || !st.Ours {
			t.Fatalf("%+v", st)
		}
		got := make(chan Ack, 1)
		if ack := a.m.Admit(); ack != Replicated {
			t.Fatal(ack)
		}
		began := time.Now()
		a.m.Wait(a.put("sync"), waiterFunc(func(a Ack) { got <- a }))
		if ack := <-got; ack != Replicated || time.Since(began) != 0 {
			t.Fatal(ack, time.Since(began))
		}
		sameLogs(t, a.log, b.log)
		if p, ok := a.m.AckedBy(1); !ok || p != a.log.Positions().Max {
			t.Fatal(p, ok)
		}
		// Idle for a minute: heartbeats keep the connection.
		<-time.After(time.Minute)
		if n := pn.dials.Load(); n != 1 {
			t.Fatal("dialed", n, b.logged())
		}
		st := a.m.Status()
		if len(st.Slaves) != 1 || st.InSync != 1 || st.Slaves[0].Gap != 0 || st.Slaves[0].ID != 1 || !st.Slaves[0].Ours {
			t.Fatalf("%+v", st)
		}
		fmt.Fprint(t.Output(), a.logged(), b.logged())
	})
}
