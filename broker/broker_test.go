package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/nameserver"
	"mqctl/broker/remoting"
	"mqctl/store/vfs"
)

func TestNewErrors(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Options)
		check  func(error) bool
	}{
		{"name", func(o *Options) { o.Name = "../x" }, isError[*ConfigError]},
		{"name of dots", func(o *Options) { o.Name = ".." }, isError[*ConfigError]},
		{"cluster", func(o *Options) { o.Cluster = "" }, isError[*ConfigError]},
		{"slave", func(o *Options) { o.ID = 1 }, isError[*ConfigError]},
		{"address", func(o *Options) { o.Advertise = "host" }, isError[*ConfigError]},
		{"port", func(o *Options) { o.ListenAddr = "127.0.0.1:2" }, isError[*ConfigError]},
		{"no port", func(o *Options) { o.ListenAddr = "127.0.0.1" }, isError[*ConfigError]},
		{"levels", func(o *Options) { o.DelayLevels = "soon" }, isError[*ConfigError]},
		{"folder", func(o *Options) { o.Store.Dir = "" }, isError[*ConfigError]},
		{"port taken", func(o *Options) {
			o.Listen = func(_, addr string) (net.Listener, error) { return nil, errors.New("no " + addr) }
		}, func(err error) bool {
			var e *PortError
			return errors.As(err, &e) && e.Addr == mainAddr
		}},
		{"fast port taken", func(o *Options) {
			listen := o.Listen
			o.Listen = func(n, addr string) (net.Listener, error) {
				if addr != mainAddr {
					return nil, &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
				}
				return listen(n, addr)
			}
		}, func(err error) bool {
			var e *PortError
			return errors.As(err, &e) && e.Addr == "127.0.0.1:10909" && errors.Is(err, syscall.EADDRINUSE)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions()
			fs := vfs.NewMem()
			o.FS, o.Listen = fs, newNetwork().listen
			c.change(&o)
			if b, err := New(o); !c.check(err) {
				t.Errorf("New = %v, %v", b, err)
			}
			// Nothing is left locked: the folder opens with good options.
			good := testOptions()
			good.FS, good.Listen = fs, newNetwork().listen
			b, err := New(good)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func isError[T error](err error) bool {
	var e T
	return errors.As(err, &e)
}

func TestStoreInUse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		o := testOptions()
		o.FS, o.Listen = r.fs, newNetwork().listen
		if _, err := New(o); !isError[*vfs.LockedError](err) {
			t.Errorf("second broker on one folder: %v", err)
		}
	})
}

// TestPortHolder: a taken port names its holder, this test.
func TestPortHolder(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip("no /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := testOptions()
	o.FS, o.ListenAddr = vfs.NewMem(), l.Addr().String()
	_, err = New(o)
	var e *PortError
	if !errors.As(err, &e) || !strings.Contains(e.Holder, fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(e.Error(), o.ListenAddr) {
		t.Errorf("New = %v", err)
	}
}

func TestStatusAndCheck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		r.pull("g", "T", 0, 0, "sysFlag", "5", "commitOffset", "1")
		st := r.b.Status()
		if st.Addr != mainAddr || st.HAAddr != "127.0.0.1:10912" || st.StoreDir != "/store" || st.Topics < 10 || st.Groups < 3 || st.Offsets != 1 || st.Live.Region != "DefaultRegion" {
			t.Errorf("status %+v", st)
		}
		if err := r.b.Check(); err != nil {
			t.Errorf("check: %v", err)
		}
		r.stop()
		if err := r.b.Check(); err == nil {
			t.Error("a stopped broker is healthy")
		}
	})
}

// TestRestart: messages, topics, groups and progress survive a clean restart.
func TestRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		for i := range 50 {
			r.mustSend("T", i%4, fmt.Sprint(i))
		}
		r.wants(r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "1", "commitOffset": "7"}, nil), 0, "")
		r.stop()
		r = start(t, r.fs)
		if !r.b.Status().Recovery.Clean {
			t.Error("not a clean start")
		}
		n := 0
		for q := range 4 {
			n += len(r.all("T", q))
		}
		if n != 50 {
			t.Errorf("%d messages of 50", n)
		}
		resp := r.call(14, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "1"}, nil)
		if resp.Ext["offset"] != "7" {
			t.Errorf("progress %v", resp.Ext)
		}
		if r.b.topics.Get("%RETRY%g") == nil || r.b.groups.Get("g") == nil {
			t.Error("topics or groups were lost")
		}
		if resp := r.mustSend("T", 0, "more"); resp.Ext["queueOffset"] != "13" {
			t.Errorf("next offset %v", resp.Ext)
		}
	})
}

// TestCrashLosesNothing: with synchronous flush every acknowledged message is
// there after a power cut at any moment; with asynchronous flush after the death
// of the process.
func TestCrashLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		sync  bool
		crash func(*vfs.Mem, *rand.Rand) *vfs.Mem
	}{
		{"sync flush, power cut", true, func(m *vfs.Mem, rng *rand.Rand) *vfs.Mem { return m.CrashClone(rng, vfs.CrashOptions{}) }},
		{"async flush, kill", false, func(m *vfs.Mem, _ *rand.Rand) *vfs.Mem { return m.ProcessKillClone() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(8) {
				inBubble(t, func(t *testing.T) {
					crashOnce(t, seed, c.sync, c.crash)
				})
			}
		})
	}
}

func crashOnce(t *testing.T, seed uint64, syncFlush bool, crash func(*vfs.Mem, *rand.Rand) *vfs.Mem) {
	rng := rand.New(rand.NewPCG(seed, 1))
	options := func(o *Options) {
		o.Store.SyncFlush, o.Reloadable.MaxMessage = syncFlush, 16<<10
		o.Store.CommitLogBytes = 64 << 10 // several files
	}
	r := start(t, nil, options)
	var mu sync.Mutex
	acked := map[string]bool{}
	enough, target := make(chan struct{}), 50+rng.IntN(100)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			c := r.newClient(remoting.JSON)
			defer c.Close()
			for i := 0; !stop.Load(); i++ {
				body := fmt.Sprintf("%d-%d-%s", p, i, strings.Repeat("x", rand.IntN(2000)))
				resp := r.callOn(c, mainAddr, 310, v2(sendExt("T", p, "")), []byte(body))
				if resp.Code == 0 {
					mu.Lock()
					if acked[body] = true; len(acked) == target {
						close(enough)
					}
					mu.Unlock()
				}
			}
		})
	}
	<-enough
	// What was acknowledged before the cut must be in it.
	mu.Lock()
	before := make([]string, 0, len(acked))
	for b := range acked {
		before = append(before, b)
	}
	mu.Unlock()
	fs := crash(r.fs, rng)
	stop.Store(true)
	wg.Wait()
	r.stop()
	r = start(t, fs, options)
	if r.b.Status().Recovery.Clean {
		t.Error("the crash left a clean store")
	}
	found := map[string]bool{}
	for q := range 4 {
		for i, m := range r.all("T", q) {
			found[m.body] = true
			if m.offset != int64(i) {
				t.Errorf("queue %d: offset %d at place %d", q, m.offset, i)
			}
		}
	}
	for _, b := range before {
		if !found[b] {
			t.Errorf("seed %d: acknowledged message %.12s… is gone", seed, b)
		}
	}
}

// TestSyncFlushStatuses: a failed fsync is an answer 14, and the store takes nothing
// more; reads go on.
func TestSyncFlushStatuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewInjector(vfs.NewMem())
		r := start(t, nil, func(o *Options) { o.Store.SyncFlush = true; o.FS, o.Store.FS = fs, fs })
		r.mustSend("T", 0, "ok")
		fs.Fail(vfs.Fault{Op: vfs.OpSync, Path: "commitlog", Err: syscall.EIO})
		resp := r.send("T", 0, "no")
		r.wants(resp, 14, "service not available now: ")
		r.wants(r.send("T", 0, "again"), 14, "service not available now: ") // read-only until restart
		if resp, ms := r.pull("g", "T", 0, 0); resp.Code != 0 || ms[0].body != "ok" {
			t.Errorf("reads stopped: %d %s", resp.Code, resp.Remark)
		}
		if err := r.b.Check(); err == nil {
			t.Error("healthy with a sick disk")
		}
		r.cancel()
		r.cancel = nil
		r.client.Close()
		<-r.done // the close reports the disk
	})
}

// gate holds up every sync of the commit log until it is opened.
type gate struct {
	shut atomic.Bool
	open chan struct{}
}

func (g *gate) wait(op vfs.Op, path string) {
	if op == vfs.OpSync && strings.Contains(path, "commitlog") && g.shut.Load() {
		<-g.open
	}
}

// TestSlowDisk: while sends wait for the disk, the reader goes on. Messages that
// do not want to wait, pulls and heartbeats of the same connection are answered;
// after syncFlushTimeout the waiting ones get 10, with their full header. In real
// time: the store's own goroutines wait for the sync in ways that virtual time
// cannot see.
func TestSlowDisk(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	fs := vfs.NewInjector(vfs.NewMem())
	fs.OnOp = g.wait
	r := start(t, nil, func(o *Options) {
		o.Store.SyncFlush, o.Store.FlushTimeout = true, 300*time.Millisecond
		o.FS, o.Store.FS = fs, fs
	})
	r.mustSend("T", 0, "flushed")
	g.shut.Store(true)
	begin := time.Now()
	waits := make(chan *remoting.Response, 1)
	go func() { waits <- r.send("T", 1, "waits", "UNIQ_KEY", "ABC") }()
	r.wants(r.send("T", 2, "does not wait", "WAIT", "false"), 0, "")
	r.wants(r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1}), 0, "")
	if resp, ms := r.pull("g", "T", 0, 0); resp.Code != 0 || len(ms) != 1 {
		t.Errorf("pull: %d", resp.Code)
	}
	if resp, _ := r.pull("g", "T", 2, 0); resp.Code != 19 {
		t.Errorf("a message that is not flushed is visible: %d", resp.Code)
	}
	resp := <-waits
	r.wants(resp, 10, "")
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("FLUSH_DISK_TIMEOUT after %v", took)
	}
	if resp.Ext["queueId"] != "1" || resp.Ext["queueOffset"] != "0" || resp.Ext["transactionId"] != "ABC" || len(resp.Ext["msgId"]) != 32 {
		t.Errorf("answer %v", resp.Ext)
	}
	g.shut.Store(false)
	close(g.open)
	r.mustSend("T", 1, "flushed too")
	if ms := r.all("T", 1); len(ms) != 2 {
		t.Errorf("%d messages after the flush", len(ms))
	}
}

// TestFullDisk: a full disk refuses sends with 14 and its ratios; reads go on.
func TestFullDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewInjector(vfs.NewMem())
		r := start(t, nil, func(o *Options) { o.FS, o.Store.FS = fs, fs })
		r.mustSend("T", 0, "fits")
		fs.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog", Left: 1, Err: syscall.ENOSPC})
		resp := r.send("T", 0, "does not")
		r.wants(resp, 14, "service not available now: ")
		if !strings.Contains(resp.Remark, "CL: ") || !strings.Contains(resp.Remark, "CQ: ") {
			t.Errorf("remark %q", resp.Remark)
		}
		if resp, ms := r.pull("g", "T", 0, 0); resp.Code != 0 || len(ms) != 1 {
			t.Errorf("pull: %d %s", resp.Code, resp.Remark)
		}
		fs.Heal()
	})
}

// TestRegistration: the broker is at its nameserver when it is ready, and a
// group's retry topic before its first heartbeat is answered; it is gone after
// the shutdown.
func TestRegistration(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const at = "127.0.0.1:9876"
		n := newNetwork()
		l, _ := n.listen("tcp", at)
		ns, err := nameserver.New(nameserver.Options{Listener: l, FS: vfs.NewMem(), Dial: n.dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- ns.Run(ctx) }()
		c := remoting.NewClient(remoting.ClientOptions{Dial: n.dial})
		r := startIn(t, n, vfs.NewMem(), func(o *Options) { o.Namesrvs = []string{at} })
		route := func(topic string) *remoting.Response {
			return r.callOn(c, at, 105, map[string]string{"topic": topic}, nil)
		}
		r.wants(route("TBW102"), 0, "")
		r.wants(route("%RETRY%g"), 17, "")
		r.wants(r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1}), 0, "")
		if resp := route("%RETRY%g"); resp.Code != 0 || !strings.Contains(string(resp.Body), mainAddr) {
			t.Errorf("retry topic after the heartbeat: %d %s", resp.Code, resp.Body)
		}
		r.stop()
		r.wants(route("TBW102"), 17, "")
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPanicInPool: a panic of a pooled handler is an answer.
func TestPanicInPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		h := r.b.backs
		h.guard = func(ctx context.Context, q *remoting.Request, _ handlerFunc) {
			r.b.runPooled(ctx, q, func(context.Context, *remoting.Request) { panic("boom") })
		}
		r.wants(r.call(36, backExt("g", message{}, 0), nil), 1, "internal error while serving request 36")
		r.mustSend("T", 0, "still here")
	})
}

// TestPooledSendsKeepOrder: the first send of a connection creates the topic in
// the pool; those behind it must not overtake.
func TestPooledSendsKeepOrder(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync=%t", sync), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil, func(o *Options) { o.Store.SyncFlush = sync })
				nc, err := r.net.dial(t.Context(), mainAddr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				answers := make(chan []byte, 1000)
				go readFrames(nc, answers)
				const topics, each = 5, 40
				for i := range each {
					for n := range topics {
						frame := jsonFrame(t, 310, i*topics+n, v2(sendExt(fmt.Sprintf("New%d", n), 0, "")), fmt.Append(nil, i))
						if _, err := nc.Write(frame); err != nil {
							t.Fatal(err)
						}
					}
				}
				for range topics * each {
					<-answers
				}
				for n := range topics {
					ms := r.all(fmt.Sprintf("New%d", n), 0)
					if len(ms) != each {
						t.Fatalf("topic %d: %d messages", n, len(ms))
					}
					for i, m := range ms {
						if m.body != fmt.Sprint(i) {
							t.Fatalf("topic %d: message %s at place %d", n, m.body, i)
						}
					}
				}
			})
		})
	}
}

// readFrames cuts what the server sends until the connection ends.
func readFrames(nc net.Conn, out chan<- []byte) {
	var buf []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := nc.Read(chunk)
		if err != nil {
			return
		}
		buf = append(buf, chunk[:n]...)
		for len(buf) >= 4 {
			size := int(buf[0])<<24 | int(buf[1])<<16 | int(buf[2])<<8 | int(buf[3]) + 4
			if len(buf) < size {
				break
			}
			out <- append([]byte(nil), buf[:size]...)
			buf = buf[size:]
		}
	}
}

// TestPoolFull: what finds no place is answered with SYSTEM_BUSY.
func TestPoolFull(t *testing.T) {
	p := newPool(1)
	n := 0
	for p.submit(1000, nil) {
		n++
	}
	if n != poolQueue {
		t.Errorf("%d jobs taken, want %d", n, poolQueue)
	}
	p = newPool(1)
	if !p.submit(poolBytes, nil) || p.submit(1, nil) {
		t.Error("the bound in bytes does not hold")
	}
}

func TestGoAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		r.b.draining.Store(true)
		r.wants(r.send("T", 0, "y"), 1500, "")
		r.b.draining.Store(false)
		synctest.Wait()
	})
}

// TestReload: changed settings act at the next request.
func TestReload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, strings.Repeat("x", 2000))
		live := r.b.live.Load().Reloadable
		live.MaxMessage, live.Region, live.TraceOn, live.Permission = 1024, "r2", false, 2
		r.b.reload(live)
		resp := r.send("T", 0, strings.Repeat("x", 2000))
		r.wants(resp, 13, "the message is illegal")
		if resp.Ext["MSG_REGION"] != "r2" || resp.Ext["TRACE_ON"] != "false" {
			t.Errorf("answer %v", resp.Ext)
		}
		r.wants(r.call(11, pullExt("g", "T", 0, 0), nil), 16, "the broker[127.0.0.1] pulling message is forbidden")
	})
}
