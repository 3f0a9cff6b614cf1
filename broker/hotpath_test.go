package broker

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// hotRig is a broker on the real file system and a real socket with one raw
// connection, for figures that memory in their place would spoil.
type hotRig struct {
	b    *Broker
	nc   net.Conn
	in   *bufio.Reader
	stop func()
}

func hotStart(t testing.TB, change ...func(*Options)) *hotRig {
	t.Helper()
	o := testOptions()
	o.FS, o.ListenAddr = vfs.OS{}, "127.0.0.1:0"
	o.Store.Dir = t.TempDir()
	o.Store.CommitLogBytes, o.Store.QueueFileBytes = 256<<20, 6_000_000
	o.Store.IndexSlots, o.Store.IndexEntries = 500_000, 2_000_000
	for _, f := range change {
		f(&o)
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	<-b.Ready()
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	h := &hotRig{b: b, nc: nc, in: bufio.NewReaderSize(nc, 1<<20)}
	h.stop = func() {
		nc.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(h.stop)
	return h
}

// exchange writes a burst and reads its n answers.
func (h *hotRig) exchange(burst []byte, n int) {
	go func() { _, _ = h.nc.Write(burst) }()
	h.answers(n)
}

// answers reads n answers without allocating.
func (h *hotRig) answers(n int) {
	for range n {
		head, err := h.in.Peek(4)
		if err != nil {
			panic(err)
		}
		if _, err := h.in.Discard(4 + int(binary.BigEndian.Uint32(head))); err != nil {
			panic(err)
		}
	}
}

// writer sends bursts without allocating: it is one goroutine for all of them.
func (h *hotRig) writer(bursts <-chan []byte) {
	for b := range bursts {
		if _, err := h.nc.Write(b); err != nil {
			return
		}
	}
}

func sendBurst(t testing.TB, n int, body string) []byte {
	var burst []byte
	for i := range n {
		ext := v2(sendExt("Hot", i%4, props("UNIQ_KEY", fmt.Sprintf("7F0000010000006000000000%08X", i), "WAIT", "true", "TAGS", "TagA")))
		burst = append(burst, jsonFrame(t, 310, i, ext, []byte(body))...)
	}
	return burst
}

func pullBurst(t testing.TB, n int, offset int64) []byte {
	var burst []byte
	for i := range n {
		burst = append(burst, jsonFrame(t, 11, i, pullExt("hot", "Hot", i%4, offset), nil)...)
	}
	return burst
}

// perBurst measures the allocations of a burst that is answered n times.
func perBurst(t *testing.T, h *hotRig, burst []byte, n int) float64 {
	if raceEnabled {
		t.Skip("allocations say nothing under the race detector")
	}
	bursts := make(chan []byte)
	defer close(bursts)
	go h.writer(bursts)
	run := func() {
		bursts <- burst
		h.answers(n)
	}
	for range 20 {
		run() // pools and buffers grow
	}
	return testing.AllocsPerRun(200, run)
}

func TestSendAllocations(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync=%t", sync), func(t *testing.T) {
			h := hotStart(t, func(o *Options) { o.Store.SyncFlush = sync })
			const n = 64
			got := perBurst(t, h, sendBurst(t, n, strings.Repeat("x", 1024)), n)
			// None for a message; a collection may empty a pool meanwhile.
			if got > 4 {
				t.Errorf("%.1f allocations for %d sends", got, n)
			}
			t.Logf("%.1f allocations for %d sends", got, n)
		})
	}
}

func TestPullAllocations(t *testing.T) {
	h := hotStart(t)
	const n = 64
	for range 20 {
		h.exchange(sendBurst(t, n, strings.Repeat("x", 1024)), n)
	}
	got := perBurst(t, h, pullBurst(t, 16, 0), 16)
	if got > 2 {
		t.Errorf("%.1f allocations for 16 pulls of 32 messages", got)
	}
	t.Logf("%.1f allocations for 16 pulls of 32 messages", got)
}

func TestCommitAllocations(t *testing.T) {
	h := hotStart(t)
	h.exchange(sendBurst(t, 4, "x"), 4)
	h.exchange(pullBurst(t, 4, 0), 4) // makes the group
	var burst []byte
	for i := range 64 {
		burst = append(burst, jsonFrame(t, 15, i, map[string]string{"consumerGroup": "hot", "topic": "Hot", "queueId": "1", "commitOffset": "1"}, nil)...)
	}
	got := perBurst(t, h, burst, 64)
	if got > 4 {
		t.Errorf("%.1f allocations for 64 commits", got)
	}
	t.Logf("%.1f allocations for 64 commits", got)
}

func BenchmarkBrokerSend(b *testing.B) {
	for _, size := range []int{1024, 64 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			h := hotStart(b, func(o *Options) { o.Store.CommitLogBytes = 1 << 30 })
			const n = 64
			burst := sendBurst(b, n, strings.Repeat("x", size))
			bursts := make(chan []byte)
			defer close(bursts)
			go h.writer(bursts)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				bursts <- burst
				h.answers(n)
			}
		})
	}
}

// BenchmarkAccept is what decoding, checks and encoding cost for each message: no
// socket, no file. On a busy machine compare the user time of the process, not the
// time for each operation.
func BenchmarkAccept(b *testing.B) {
	body := []byte(strings.Repeat("x", 1024))
	text := []byte(props("UNIQ_KEY", "7F0000010000006000000000000000A1", "WAIT", "true", "TAGS", "TagA"))
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			h := hotStart(b)
			ext, code, body := v2(sendExt("Hot", 1, string(text))), 310, body
			if n > 1 {
				ext["m"], code = "true", 320
				var all []byte
				for range n {
					all, _ = record.AppendBatchItem(all, record.BatchItem{Body: body, Properties: text})
				}
				body = all
			}
			frame := jsonFrame(b, code, 1, ext, body)
			h.exchange(frame, 1)
			s := h.b.sends.newBurst(&remoting.Conn{}, netip.MustParseAddrPort("127.0.0.1:1"))
			buf := make([]byte, len(frame))
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				copy(buf, frame)
				head, body, err := remoting.DecodeFrame(buf)
				if err != nil {
					b.Fatal(err)
				}
				r := remoting.Request{Code: head.Code, Ext: head.Ext, Body: body}
				if err := s.decode(&r); err != nil {
					b.Fatal(err)
				}
				if v := h.b.sends.accept(s, &r); v != (verdict{}) {
					b.Fatal(v)
				}
				s.batch.Reset()
				s.calls, s.keys = s.calls[:0], s.keys[:0]
			}
		})
	}
}

// BenchmarkBrokerSendMany is 64 connections with one send in flight on each: what
// a burst costs counts, not what a message does.
func BenchmarkBrokerSendMany(b *testing.B) {
	for _, flush := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%t", flush), func(b *testing.B) {
			h := hotStart(b, func(o *Options) { o.Store.CommitLogBytes, o.Store.SyncFlush = 1<<30, flush })
			const conns = 64
			frame := sendBurst(b, 1, strings.Repeat("x", 1024))
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range conns {
				nc, err := net.Dial("tcp", h.b.Addr())
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					defer nc.Close()
					c := &hotRig{nc: nc, in: bufio.NewReader(nc)}
					for left.Add(-1) >= 0 {
						if _, err := nc.Write(frame); err != nil {
							panic(err)
						}
						c.answers(1)
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkBrokerPull(b *testing.B) {
	h := hotStart(b)
	for range 40 {
		h.exchange(sendBurst(b, 64, strings.Repeat("x", 1024)), 64)
	}
	burst := pullBurst(b, 4, 0)
	bursts := make(chan []byte)
	defer close(bursts)
	go h.writer(bursts)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 4 * 32 {
		bursts <- burst
		h.answers(4)
	}
}

// A burst of sends that wait for a slave costs no more: the slave runs in this
// process, so what it allocates counts too.
func TestReplicatedSendAllocations(t *testing.T) {
	m := hotStart(t, func(o *Options) {
		o.Role, o.HAListen, o.HAAddr = SyncMaster, "127.0.0.1:0", "127.0.0.1:0"
		o.Reloadable.HA = testHA()
		o.Reloadable.HA.InSyncReplicas = 2
	})
	s := hotStart(t, func(o *Options) {
		o.Role, o.ID, o.HAListen = Slave, 1, "127.0.0.1:0"
		o.Reloadable.HA = testHA()
	})
	s.b.follow(m.b.Addr(), m.b.ha.addr)
	const n = 64
	burst := sendBurst(t, n, strings.Repeat("x", 1024))
	for range 5000 {
		if st := m.b.ha.master.Status(); st.InSync == 1 {
			break
		}
		<-time.After(time.Millisecond)
	}
	got := perBurst(t, m, burst, n)
	if got > 8 {
		t.Errorf("%.1f allocations for %d sends", got, n)
	}
	t.Logf("%.1f allocations for %d sends", got, n)
	if a, b := m.b.store.Positions().Max, s.b.store.Positions().Max; a != b {
		t.Errorf("the master ends at %d, the slave at %d", a, b)
	}
}
