package replication

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// realNode is a store on disk with both roles over loopback sockets.
type realNode struct {
	st   *store.Store
	m    *Master
	s    *Slave
	set  atomic.Pointer[Settings]
	addr string
}

func openStore(t testing.TB, dir string, seg int64, onAppend func(record.PhysOffset)) *store.Store {
	st, _, err := store.Open(store.Options{Dir: dir, CommitLogBytes: seg, Log: slog.New(slog.DiscardHandler), OnAppend: onAppend})
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, st.Run)
	t.Cleanup(func() { st.Close() })
	return st
}

// runIn runs f until the test ends.
func runIn(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func newRealMaster(t testing.TB, seg int64, change ...func(*MasterOptions)) *realNode {
	n := &realNode{}
	n.set.Store(&Settings{SegmentBytes: seg, CopyAll: true, InSyncReplicas: 2})
	var m atomic.Pointer[Master]
	n.st = openStore(t, t.TempDir(), seg, func(end record.PhysOffset) {
		if m := m.Load(); m != nil {
			m.Appended(end)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = l.Addr().String()
	o := MasterOptions{Log: n.st, Listener: l, Settings: n.set.Load, Name: "broker-a"}
	for _, c := range change {
		c(&o)
	}
	n.m = NewMaster(o)
	m.Store(n.m)
	runIn(t, n.m.Run)
	return n
}

func newRealSlave(t testing.TB, seg int64, master *realNode, change ...func(*SlaveOptions)) (n *realNode, stop func()) {
	n = &realNode{}
	n.set.Store(&Settings{SegmentBytes: seg, CopyAll: true})
	n.st = openStore(t, t.TempDir(), seg, nil)
	n.st.SetReplica(true)
	o := SlaveOptions{
		Log: n.st, Settings: n.set.Load,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
		Attach: attachTo(func() *Master { return master.m }),
		Self:   func() AttachRequest { return AttachRequest{BrokerName: "broker-a", BrokerID: 1} },
	}
	for _, c := range change {
		c(&o)
	}
	n.s = NewSlave(o)
	n.s.SetMaster("master", master.addr)
	return n, runIn(t, n.s.Run)
}

// until waits for a condition in real time.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("waited in vain for: " + what)
		}
	}
}

func testDrafts(n, size int) []*record.Draft {
	var out []*record.Draft
	for i := range n {
		out = append(out, &record.Draft{
			Topic: []byte("bench"), QueueID: int32(i % 8), Body: bytes.Repeat([]byte{byte(i)}, size),
			BornHost: netip.MustParseAddrPort("127.0.0.1:1"), StoreHost: netip.MustParseAddrPort("127.0.0.1:2"),
		})
	}
	return out
}

func appendDrafts(t testing.TB, st *store.Store, b *store.Batch, drafts []*record.Draft) record.PhysOffset {
	b.Reset()
	for _, d := range drafts {
		b.Add(st, st.Queue(string(d.Topic), d.QueueID), d, 0)
	}
	st.AppendAll(b)
	if b.Items[0].Status != store.PutOK {
		t.Fatal(b.Items[0].Status)
	}
	return b.End()
}

func sameStores(t testing.TB, a, b *store.Store) {
	t.Helper()
	pa, pb := a.Positions(), b.Positions()
	if pa.Min != pb.Min || pa.Max != pb.Max {
		t.Fatalf("%+v, %+v", pa, pb)
	}
	x, err := a.RawSum(pa.Min, pa.Max)
	y, err2 := b.RawSum(pb.Min, pb.Max)
	if err != nil || err2 != nil || x != y {
		t.Fatal(x, y, err, err2)
	}
}

func TestRealStores(t *testing.T) {
	const seg = 4 << 20
	a := newRealMaster(t, seg)
	var batch store.Batch
	for i := range 40 { // 11 segments, more than the store has in memory
		appendDrafts(t, a.st, &batch, testDrafts(64, 16<<10+i))
	}
	b, _ := newRealSlave(t, seg, a)
	until(t, "the copy", func() bool { return b.st.Positions().Max == a.st.Positions().Max })
	sameStores(t, a.st, b.st)
	for i := range 200 {
		end := appendDrafts(t, a.st, &batch, testDrafts(1+i%7, 100*i))
		ack := make(chan Ack, 1)
		a.m.Wait(end, waiterFunc(func(a Ack) { ack <- a }))
		if got := <-ack; got != Replicated {
			t.Fatal(got)
		}
	}
	sameStores(t, a.st, b.st)
	until(t, "the queues", func() bool {
		return b.st.Queue("bench", 1).Max() == a.st.Queue("bench", 1).Max()
	})
}

// TestHold: what is appended while an acknowledgement is due leaves together after it.
func TestHold(t *testing.T) {
	a := newRealMaster(t, 4<<20)
	reply := a.m.Attach(netip.AddrPort{}, AttachRequest{BrokerName: "broker-a", BrokerID: 1, SegmentBytes: 4 << 20})
	nc, err := net.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p := newPeer(nc)
	if err := (*Auth)(nil).greet(nc, reply.Token); err != nil {
		t.Fatal(err)
	}
	p.report(0)
	var c *conn
	until(t, "the sender to rest", func() bool {
		for _, c = range *a.m.live.Load() {
			c.sendMu.Lock()
			defer c.sendMu.Unlock()
			return !c.handed
		}
		return false
	})
	var batch store.Batch
	first := appendDrafts(t, a.st, &batch, testDrafts(1, 1024))
	var last record.PhysOffset
	for range 10 {
		last = appendDrafts(t, a.st, &batch, testDrafts(1, 1024))
	}
	if sent := c.sent.Load(); sent != int64(first) {
		t.Fatalf("sent to %d without an acknowledgement, the first message ends at %d", sent, first)
	}
	p.report(int64(first))
	until(t, "the rest", func() bool { return len(p.frames()) == 2 })
	if f := p.frames()[1]; f.pos != int64(first) || f.size != int(last-first) {
		t.Fatalf("a frame of %d bytes at %d", f.size, f.pos)
	}
	end := appendDrafts(t, a.st, &batch, testDrafts(1, holdBytes))
	if sent := c.sent.Load(); sent != int64(end) {
		t.Fatalf("%d bytes are held back", int64(end)-sent)
	}
}

// waitGroupOf collects the ends of waits of a benchmark.
type countWaiter struct {
	left atomic.Int64
	bad  atomic.Int64
	done chan struct{}
}

func (w *countWaiter) Replicated(a Ack) {
	if a != Replicated {
		w.bad.Add(1)
	}
	if w.left.Add(-1) == 0 {
		w.done <- struct{}{}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSyncAck appends bursts of 1 KiB messages, each from one of several
// senders that wait for the slave before the next one. Both stores and sockets are
// real, and in this process.
func BenchmarkSyncAck(b *testing.B) {
	for _, shape := range []struct{ senders, burst int }{{1, 1}, {64, 1}, {4, 64}} {
		b.Run(fmt.Sprintf("%dx%d", shape.senders, shape.burst), func(b *testing.B) {
			m := newRealMaster(b, 1<<30)
			s, _ := newRealSlave(b, 1<<30, m)
			var batch store.Batch
			appendDrafts(b, m.st, &batch, testDrafts(1, 1))
			until(b, "the slave", func() bool { return s.st.Positions().Max == m.st.Positions().Max })
			b.SetBytes(int64(1024 * shape.burst))
			b.ReportAllocs()
			cpu := cpuTime()
			b.ResetTimer()
			left := atomic.Int64{}
			left.Store(int64(b.N))
			done := make(chan int64, shape.senders)
			for range shape.senders {
				go func() {
					drafts := testDrafts(shape.burst, 1024)
					var batch store.Batch
					w := &countWaiter{done: make(chan struct{}, 1)}
					for left.Add(-1) >= 0 {
						w.left.Store(1)
						m.m.Wait(appendDrafts(b, m.st, &batch, drafts), w)
						<-w.done
					}
					done <- w.bad.Load()
				}()
			}
			for range shape.senders {
				if bad := <-done; bad > 0 {
					b.Error("waits failed:", bad)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N*shape.burst), "cpu-ns/msg")
			b.ReportMetric(float64(b.N*shape.burst)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkCatchUp copies a log of 1 GiB in messages of 1 KiB to an empty slave.
func BenchmarkCatchUp(b *testing.B) {
	m := newRealMaster(b, 256<<20)
	var batch store.Batch
	drafts := testDrafts(256, 1024)
	for m.st.Positions().Max < 1<<30 {
		appendDrafts(b, m.st, &batch, drafts)
	}
	b.SetBytes(int64(m.st.Positions().Max))
	b.ResetTimer()
	cpu := cpuTime()
	for b.Loop() {
		s, stop := newRealSlave(b, 256<<20, m)
		until(b, "the copy", func() bool { return s.st.Positions().Max == m.st.Positions().Max })
		b.StopTimer()
		stop()
		sameStores(b, m.st, s.st)
		b.StartTimer()
	}
	b.ReportMetric(float64((cpuTime()-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
}
