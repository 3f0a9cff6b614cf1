package replication

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// TestJunk sends what port scanners, browsers and other protocols send.
func TestJunk(t *testing.T) {
	for name, junk := range map[string]string{
		"http":          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"tls":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500),
		"zero and junk": "\x00\x00\x00\x00\x00\x00\x00\x00junkjunk",
		"ff and junk":   "\xff\xff\xff\xff\xff\xff\xff\xffjunkjunk",
		"remoting":      "\x00\x00\x01\x00\x00\x00\x00\xf0{\"code\":105}",
		"preamble":      "\x8aMQ\x02" + strings.Repeat("\x00", 28),
		"flags":         "\x8aMQ\x01\xff" + strings.Repeat("\x00", 27),
		"key unasked":   "\x8aMQ\x01\x01" + strings.Repeat("\x00", 27),
		"negative":      "\x80\x00\x00\x00\x00\x00\x00\x00",
		"autoswitch":    "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer func() { r.stop() }()
				good := r.join(1)
				nc, _ := r.pn.dial(context.Background(), "m")
				p := newPeer(nc)
				p.Write([]byte(junk))
				synctest.Wait()
				st := r.m.Status()
				if !p.isClosed() || st.BadPeers+st.Refused != 1 || len(st.Slaves) != 1 || good.isClosed() {
					t.Fatalf("%+v\n%s", st, r.logged())
				}
				if n := strings.Count(r.logged(), "closed") + strings.Count(r.logged(), "refused"); n != 1 {
					t.Fatal(r.logged())
				}
			})
		})
	}
}

// TestHalfFrames cuts connections at each byte of a preamble and of reports.
func TestHalfFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.stop() }()
		pre := newPreamble(0, false)
		b := append(pre.raw[:], make([]byte, 16)...)
		for i := range b {
			nc, _ := r.pn.dial(context.Background(), "m")
			nc.Write(b[:i])
			nc.Close()
		}
		synctest.Wait()
		if st := r.m.Status(); len(st.Slaves) != 0 || st.BadPeers != 0 {
			t.Fatalf("%+v", st)
		}
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		if len(r.m.conns) != 0 {
			t.Fatal(len(r.m.conns))
		}
	})
}

// TestThousandConnections opens more than are allowed, which say nothing, beside a
// slave that goes on.
func TestThousandConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.stop() }()
		good := r.join(1)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var conns []net.Conn
		for range maxConns + 99 {
			nc, err := r.pn.dial(context.Background(), "m")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, nc)
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 16<<20 {
			t.Fatal(used, "bytes for silent connections")
		}
		res := r.send()
		good.report(r.log.end())
		res.want(t, Replicated, 0)
		if st := r.m.Status(); st.Refused != 100 || len(st.Slaves) != 1 {
			t.Fatalf("%+v", st)
		}
		for range 5 { // the good one goes on while the others' time passes
			<-time.After(4500 * time.Millisecond)
			good.report(r.log.end())
		}
		if st := r.m.Status(); st.BadPeers != maxConns-1 || len(st.Slaves) != 1 {
			t.Fatalf("%+v", st)
		}
		for _, nc := range conns {
			nc.Close()
		}
		again := r.join(2)
		if again.isClosed() {
			t.Fatal("no room again")
		}
	})
}

// TestSlowReaders has slaves that report and read nothing: no append waits for
// them, and what they lack is not kept in memory.
func TestSlowReaders(t *testing.T) {
	a := newRealMaster(t, 64<<20)
	var batch store.Batch
	appendDrafts(t, a.st, &batch, testDrafts(1, 10))
	var conns []net.Conn
	for range 50 {
		nc, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(make([]byte, reportSize))
		conns = append(conns, nc)
	}
	until(t, "all slaves", func() bool { return len(a.m.Status().Slaves) == len(conns) })
	drafts := testDrafts(64, 4096)
	for range 10 {
		appendDrafts(t, a.st, &batch, drafts)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range 60 { // 15 MiB more for each of them
		appendDrafts(t, a.st, &batch, drafts)
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	// The store's own memory of the newest bytes is 16 MiB.
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 40<<20 || took > 10*time.Second {
		t.Fatal(used>>20, "MiB,", took)
	}
	// One of them wakes up, and gets everything.
	want := int64(a.st.Positions().Max)
	p := newPeer(conns[17])
	until(t, "the rest", func() bool {
		f := p.frames()
		return len(f) > 0 && f[len(f)-1].pos+int64(f[len(f)-1].size) == want
	})
	var got []byte
	for _, f := range p.frames() {
		if f.size > 32<<10 {
			t.Fatal("a frame of", f.size)
		}
		got = append(got, f.body...)
	}
	all := make([]byte, want)
	for n := 0; n < len(all); {
		k, err := a.st.ReadRaw(all[n:], record.PhysOffset(n))
		if err != nil || k == 0 {
			t.Fatal(k, err)
		}
		n += k
	}
	if !bytes.Equal(got, all) {
		t.Fatal("other bytes")
	}
}

func TestFlowLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.stop() }()
		r.change(func(s *Settings) { s.FlowBytesPerSecond = 100 << 10 })
		for r.log.end() < 1<<20 {
			r.log.put(strings.Repeat("x", 3000))
		}
		nc, _ := r.pn.dial(context.Background(), "m")
		p := newPeer(nc)
		p.report(1)
		for i := range 10 {
			<-time.After(time.Second)
			p.mu.Lock()
			n := len(p.got)
			p.mu.Unlock()
			want := (i + 1) * 100 << 10
			if n < want*9/10 || n > want+20<<10 {
				t.Fatalf("%d bytes after %d s at %d a second", n, i+1, 100<<10)
			}
			f := p.frames()
			if len(f) > 300 {
				t.Fatal("too many frames:", len(f))
			}
			p.report(f[len(f)-1].pos)
		}
		r.change(func(s *Settings) { s.FlowBytesPerSecond = 0 })
		<-time.After(time.Second)
		if f := p.frames(); f[len(f)-1].pos+int64(f[len(f)-1].size) != r.log.end() {
			t.Fatal("the limit stays when it is off")
		}
	})
}

// TestAckFsync checks that only what is synced is reported.
func TestAckFsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pn := newPipeNet()
		a := newNode(t, filled(10, "x")).serve(pn, "a")
		defer func() { a.stop() }()
		b := newNode(t, a.log.clone())
		st := *b.set.Load()
		st.AckFsync = true
		b.set.Store(&st)
		b.follow(pn, a, "a")
		defer func() { b.stop() }()
		synctest.Wait()
		if b.log.Positions().Flushed != b.log.Positions().Max {
			t.Fatal("reported before it synced")
		}
		for range 10 {
			got := make(chan Ack, 1)
			a.m.Wait(a.put("m"), waiterFunc(func(a Ack) { got <- a }))
			if ack := <-got; ack != Replicated || b.log.Positions().Flushed != a.log.Positions().Max {
				t.Fatal(ack, b.log.Positions())
			}
		}
		<-time.After(time.Minute)
		if n := pn.dials.Load(); n != 1 || !a.m.Status().Slaves[0].AckFsync {
			t.Fatal("dialed", n)
		}
	})
}

// TestCrashOfSlave cuts the slave's disk at many moments of a copy, opens what a
// crash leaves, and goes on: the logs are equal in the end, always.
func TestCrashOfSlave(t *testing.T) {
	master := filled(200, "x")
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		mem := vfs.NewMem()
		crash := rnd.IntN(60)
		seen, clone := 0, (*vfs.Mem)(nil)
		open := func(fsys vfs.FS, onAppend func(record.PhysOffset)) *store.Store {
			st, _, err := store.Open(store.Options{FS: fsys, Dir: "/s", CommitLogBytes: testSeg, Replica: true, OnAppend: onAppend, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			st.SetReplica(true)
			return st
		}
		sync := rnd.IntN(2) == 0
		st := open(mem, func(record.PhysOffset) {
			if seen++; seen == crash {
				clone = mem.CrashClone(rnd, vfs.CrashOptions{})
			}
		})
		copyInto(t, st, master, rnd.IntN(5)+1, sync)
		st.Close()
		if clone == nil {
			clone = mem.CrashClone(rnd, vfs.CrashOptions{})
		}
		st = open(clone, nil)
		copyInto(t, st, master, 20, sync)
		pos := st.Positions()
		if pos.Max != master.Positions().Max || !bytes.Equal(readLog(t, st, 0, int64(pos.Max)), master.b) {
			t.Fatalf("crash at write %d: %+v", crash, pos)
		}
		st.Close()
	}
}

// copyInto lets st follow the master until it has everything.
func copyInto(t *testing.T, st *store.Store, master *memLog, batchKiB int, fsync bool) {
	synctest.Test(t, func(t *testing.T) {
		pn := newPipeNet()
		a := newNode(t, master)
		a.set.Store(&Settings{SegmentBytes: testSeg, CopyAll: true, TransferBatch: batchKiB << 10})
		a.serve(pn, "a")
		defer func() { a.stop() }()
		n := newNode(t, nil)
		n.set.Store(&Settings{SegmentBytes: testSeg, CopyAll: true, AckFsync: fsync})
		pos := master.Positions()
		o := SlaveOptions{Log: st, Settings: n.set.Load, Dial: pn.dial, Slog: n.slog()}
		foreign(int64(pos.Min), int64(pos.Max), func(p record.PhysOffset) []byte {
			rec, _ := master.Message(nil, p)
			return rec
		})(&o)
		n.s = NewSlave(o)
		n.s.SetMaster("master", "a")
		n.run(n.s.Run)
		defer func() { n.stop() }()
		<-time.After(2 * time.Second)
		if st.Positions().Max != pos.Max {
			t.Fatalf("%+v: %+v %s", st.Positions(), n.s.Status(), n.logged())
		}
	})
}

// fuzzConn plays a peer whose bytes come in given pieces.
type fuzzConn struct {
	net.Conn
	in     []byte
	piece  int
	mu     sync.Mutex
	out    []byte
	closed bool
}

func (c *fuzzConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.in) == 0 {
		return 0, errors.New("end of input")
	}
	n := copy(p[:min(len(p), c.piece)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *fuzzConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, p...)
	return len(p), nil
}

func (c *fuzzConn) Close() error                     { c.mu.Lock(); c.closed = true; c.mu.Unlock(); return nil }
func (c *fuzzConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *fuzzConn) SetDeadline(time.Time) error      { return nil }
func (c *fuzzConn) SetReadDeadline(time.Time) error  { return nil }
func (c *fuzzConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzMaster feeds a connection of the master with anything, and checks that no
// acknowledgement counts that goes back or beyond what was sent.
func FuzzMaster(f *testing.F) {
	log := filled(100, "x")
	report := func(n ...int64) (b []byte) {
		for _, n := range n {
			b = append(b, make([]byte, reportSize)...)
			putReport(b[len(b)-reportSize:], n)
		}
		return b
	}
	pre := newPreamble(12345, false)
	keyed := newPreamble(0, true)
	f.Add(report(0, 100, 200), 3)
	f.Add(report(-1, 5000, 4000), 8)
	f.Add(append(pre.raw[:], report(0, 1<<40)...), 100)
	f.Add(keyed.raw[:], 7)
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"), 5)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		set := &Settings{SegmentBytes: testSeg, CopyAll: true, InSyncReplicas: 2}
		m := NewMaster(MasterOptions{Log: log, Settings: func() *Settings { return set }, Identify: func(netip.AddrPort) (Peer, bool) { return Peer{ID: 1}, true }})
		c := newConn(m, &fuzzConn{in: in, piece: 1 + piece&0xFF}, func() {})
		c.w = newWire(c.nc)
		err := c.preamble()
		for last := int64(-1); err == nil; {
			if err = c.read(reportSize); err != nil {
				break
			}
			whole := c.n - c.n%reportSize
			err = c.takeReports(c.buf[:whole])
			c.took(whole)
			ack, conf := c.ack.Load(), m.confirmed.Load()
			if ack < last || conf > max(c.sent.Load(), log.end()) || c.started.Load() && ack > log.end() {
				t.Fatalf("acknowledged %d after %d, confirmed %d", ack, last, conf)
			}
			last = ack
			if c.started.Load() { // as a sender would
				c.sendMu.Lock()
				if c.str.frameDone() && c.nextFrame() == goesOn {
					c.str.headLeft, c.str.bodyLeft = 0, 0
				}
				c.sendMu.Unlock()
			}
		}
		m.remove(c)
	})
}

// FuzzSlave feeds the slave's parser with anything, in any pieces: the log gets
// what the frames hold and nothing else, in order, and memory does not follow lengths.
func FuzzSlave(f *testing.F) {
	log := newMemLog(testSeg) // small: long inputs take the fuzzer a minute each to shorten
	for _, body := range []string{"", "one", "three"} {
		log.put(body)
	}
	var stream []byte
	for at := 0; at < len(log.b); at += 90 {
		body := log.b[at:min(at+90, len(log.b))]
		head := make([]byte, headerSize)
		putHeader(head, int64(at), len(body))
		stream = append(append(stream, head...), body...)
	}
	beat := make([]byte, headerSize)
	putHeader(beat, 0, 0)
	f.Add(stream, uint16(13))
	f.Add(stream, uint16(5000))
	f.Add(append(slices.Clone(beat), stream...), uint16(12))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff"), uint16(12))
	f.Fuzz(func(t *testing.T, in []byte, piece uint16) {
		var box inbox
		var ref []byte // what a simple parser finds
		rest, bad := in, false
		for len(rest) >= headerSize && !bad {
			pos, size := parseHeader(rest)
			if size < 0 || size > maxBody || pos != int64(len(ref)) {
				bad = true
				break
			}
			n := min(size, len(rest)-headerSize)
			ref = append(ref, rest[headerSize:headerSize+n]...)
			rest = rest[headerSize+n:]
			if n < size {
				break
			}
		}
		dst := newMemLog(testSeg)
		var seen []byte
		var err error
		for left := in; len(left) > 0 && err == nil; {
			n := copy(box.space()[:min(len(box.space()), 1+int(piece))], left)
			left = left[n:]
			if err = box.took(n); err != nil {
				break
			}
			var k int
			if k, err = dst.AppendRaw(box.log()); k > 0 {
				seen = append(seen, box.log()[:k]...)
				if derr := box.drop(k); derr != nil {
					t.Fatal(derr)
				}
			}
		}
		if !bytes.HasPrefix(ref, seen) || !bytes.Equal(seen, dst.b) {
			t.Fatal("other bytes came out")
		}
		if err == nil && (bad || !bytes.Equal(append(seen, box.log()...), ref)) {
			t.Fatalf("bad %v, %d of %d bytes", bad, len(seen)+box.n, len(ref))
		}
		if len(box.buf) > 4*len(in)+2*idleInbox {
			t.Fatal(len(box.buf), "bytes of memory for", len(in))
		}
	})
}
