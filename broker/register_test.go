package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/nameserver"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/topic"
	"mqctl/store/table"
)

// memNet is a network in memory: listeners by address.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
}

type memListener struct {
	n     *memNet
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (n *memNet) listen(addr string) *memListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memListener{n: n, addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

func (n *memNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.mu.Lock()
		delete(l.n.listeners, l.addr)
		l.n.mu.Unlock()
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.TCPAddr{} }

// sent is one registration or farewell that a fake nameserver saw.
type sent struct {
	code   int
	at     time.Time
	ext    map[string]string
	topics []string
	perms  map[string]int
	v      body.DataVersion
}

// fakeServer answers for a nameserver or a broker.
type fakeServer struct {
	mu    sync.Mutex
	seen  []sent
	reply map[int]func(r *remoting.Request) // by request code
	conns map[*remoting.Conn]bool
}

func (f *fakeServer) ServeRequest(c *remoting.Conn, r *remoting.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = true
	if r.Code == remoting.ReqRegisterBroker || r.Code == remoting.ReqUnregisterBroker {
		s := sent{code: r.Code, at: time.Now(), ext: r.Ext.Map(), perms: make(map[string]int)}
		if b, err := body.DecodeRegisterBroker(r.Body, r.Version); err == nil {
			for name, t := range b.TopicConfigSerializeWrapper.TopicConfigTable {
				s.topics = append(s.topics, name)
				s.perms[name] = t.Perm
			}
			slices.Sort(s.topics)
			s.v = b.TopicConfigSerializeWrapper.DataVersion
			if want := strconv.Itoa(int(crc32.ChecksumIEEE(r.Body) & 0x7FFFFFFF)); s.ext["bodyCrc32"] != want {
				s.topics = []string{"wrong crc"}
			}
		}
		f.seen = append(f.seen, s)
	}
	if answer := f.reply[r.Code]; answer != nil {
		answer(r)
		return
	}
	r.Reply(0, "", remoting.Map{}, nil)
}

func (f *fakeServer) BurstEnd(*remoting.Conn) {}

func (f *fakeServer) Closed(c *remoting.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// take returns what was seen since the last call.
func (f *fakeServer) take() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.seen
	f.seen = nil
	return s
}

func (f *fakeServer) cut() {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.conns))
	f.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// world is what a registrar is tested in.
type world struct {
	t   *testing.T
	net *memNet
	ctx context.Context

	mu      sync.Mutex
	topics  map[string]*topic.Config
	version table.DataVersion
	perm    int
	ordered []string
	stand   standing
	master  []string // what was learned: "master ha"
}

func (w *world) standing() *standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stand
	return &s
}

func (w *world) learn(master, ha string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.master = append(w.master, master+" "+ha)
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &world{t: t, net: &memNet{listeners: make(map[string]*memListener)}, ctx: ctx, perm: 6,
		topics: make(map[string]*topic.Config), version: table.DataVersion{Counter: 1, Timestamp: 100}}
	for name, perm := range map[string]int{"TBW102": 7, "broker-a": 7, "T": 6} {
		w.put(name, perm)
	}
	return w
}

func (w *world) put(name string, perm int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := maps.Clone(w.topics)
	next[name] = &topic.Config{TopicName: name, Perm: perm, ReadQueueNums: 4, WriteQueueNums: 4, TopicFilterType: "SINGLE_TAG"}
	w.topics, w.version = next, w.version.Next(200)
}

func (w *world) fake(addr string) *fakeServer {
	f := &fakeServer{reply: map[int]func(*remoting.Request){}, conns: make(map[*remoting.Conn]bool)}
	f.reply[remoting.ReqGetBrokerClusterInfo] = func(r *remoting.Request) {
		r.Reply(0, "", nil, []byte(`{"brokerAddrTable":{},"clusterAddrTable":{}}`))
	}
	w.serve(addr, f)
	return f
}

func (w *world) serve(addr string, h remoting.Handler) {
	s := remoting.NewServer(remoting.ServerOptions{Handler: h})
	l := w.net.listen(addr)
	go s.Serve(w.ctx, l)
	context.AfterFunc(w.ctx, s.Close)
}

func (w *world) registrar(namesrvs ...string) *registrar {
	return newRegistrar(registrarOptions{Name: "broker-a", Cluster: "C", Standing: w.standing, Acting: func() bool { return false }, Learned: w.learn, Addr: "10.0.0.1:10911", HAAddr: "10.0.0.1:10912",
		Namesrvs: namesrvs, Every: 30 * time.Second, Timeout: 24 * time.Second, BootMillis: 777,
		Topics: func() (map[string]*topic.Config, table.DataVersion) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.topics, w.version
		},
		Permission:  func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.perm },
		MarkOrdered: func(name string) error { w.ordered = append(w.ordered, name); return nil },
		Dial:        w.net.dial,
	})
}

// run starts r and returns how to end it and what Run returned.
func (w *world) run(r *registrar) (stop func() error) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

func isReady(r *registrar) bool {
	synctest.Wait()
	select {
	case <-r.Ready():
		return true
	default:
		return false
	}
}

func TestRegisterStartChangeEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ns := w.fake("ns:1")
		r := w.registrar("ns:1")
		stop := w.run(r)
		if !isReady(r) {
			t.Fatal("not ready though the nameserver answered")
		}
		first := ns.take()
		want := map[string]string{"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "brokerId": "0",
			"haServerAddr": "10.0.0.1:10912", "enableActingMaster": "false", "heartbeatTimeoutMillis": "10000", "compressed": "false"}
		if len(first) != 1 || !slices.Equal(first[0].topics, []string{"T", "TBW102", "broker-a"}) {
			t.Fatalf("first registration: %+v", first)
		}
		delete(first[0].ext, "bodyCrc32")
		if !maps.Equal(first[0].ext, want) {
			t.Errorf("header %v", first[0].ext)
		}
		if first[0].perms["TBW102"] != 7 {
			t.Errorf("the template topic lost its inherit bit: %d", first[0].perms["TBW102"])
		}

		// A change is sent at once, alone, under the new version.
		w.put("New", 6)
		r.Changed([]string{"New"})
		settle(t, r)
		change := ns.take()
		if len(change) != 1 || !slices.Equal(change[0].topics, []string{"New"}) || change[0].v == first[0].v {
			t.Fatalf("change: %+v", change)
		}
		// A deletion is the whole table.
		r.Changed([]string{"Gone"})
		settle(t, r)
		if gone := ns.take(); len(gone) != 1 || len(gone[0].topics) != 4 {
			t.Fatalf("deletion: %+v", gone)
		}
		// Nothing more until the period, which is spread by ten percent.
		pass(26 * time.Second)
		synctest.Wait()
		if early := ns.take(); len(early) != 0 {
			t.Fatalf("early: %+v", early)
		}
		pass(8 * time.Second)
		synctest.Wait()
		if again := ns.take(); len(again) != 1 || len(again[0].topics) != 4 {
			t.Fatalf("periodic: %+v", again)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if end := ns.take(); len(end) != 1 || end[0].code != remoting.ReqUnregisterBroker {
			t.Fatalf("end: %+v", end)
		}
	})
}

func settle(t *testing.T, r *registrar) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r.Settle(ctx)
	if ctx.Err() != nil {
		t.Fatal("the change did not get through")
	}
}

func TestRegisterPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ns := w.fake("ns:1")
		r := w.registrar("ns:1")
		stop := w.run(r)
		synctest.Wait()
		first := ns.take()
		w.mu.Lock()
		w.perm = 4
		w.mu.Unlock()
		r.Refresh()
		settle(t, r)
		next := ns.take()
		if len(next) != 1 || next[0].perms["T"] != 4 || next[0].perms["TBW102"] != 4 || len(next[0].topics) != 3 {
			t.Fatalf("after the change: %+v", next)
		}
		if next[0].v == first[0].v {
			t.Error("the version is the old one, so a nameserver would not look at the topics")
		}
		if w.topics["T"].Perm != 6 {
			t.Error("the table itself was changed")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRegisterAfterLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ns := w.fake("ns:1")
		r := w.registrar("ns:1")
		stop := w.run(r)
		synctest.Wait()
		ns.take()
		begin := time.Now()
		w.put("New", 6)
		ns.cut()
		r.Changed([]string{"New"})
		pass(time.Second)
		synctest.Wait()
		// The change may go out before the loss is seen; the whole table follows.
		again := ns.take()
		i := slices.IndexFunc(again, func(s sent) bool { return len(s.topics) == 4 })
		if i < 0 || i > 1 || again[i].at.Sub(begin) > 100*time.Millisecond {
			t.Fatalf("after the loss: %+v", again)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A nameserver that refuses gets the whole table again and again, with pauses,
// and holds up Ready; one that is away does not.
func TestRegisterRefusedAndAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ns := w.fake("ns:1")
		refusals := 8
		ns.reply[remoting.ReqRegisterBroker] = func(r *remoting.Request) {
			if refusals--; refusals >= 0 {
				r.Reply(1, "register broker failed", remoting.Map{}, nil)
				return
			}
			r.Reply(0, "", remoting.Map{}, nil)
		}
		r := w.registrar("ns:1", "away:1")
		stop := w.run(r)
		if isReady(r) {
			t.Error("ready though refused")
		}
		pass(100 * time.Millisecond)
		if n := len(ns.take()); n < 1 || n > 3 {
			t.Errorf("%d registrations in the first 100 ms", n)
		}
		pass(20 * time.Second)
		if !isReady(r) {
			t.Error("not ready after it was accepted")
		}
		for _, s := range ns.take() {
			if len(s.topics) != 3 {
				t.Errorf("a part was sent to a nameserver that does not know the broker: %v", s.topics)
			}
		}
		// The one that was away is found when it comes.
		late := w.fake("away:1")
		pass(retryMost + retryMost/2)
		synctest.Wait()
		if got := late.take(); len(got) != 1 || len(got[0].topics) != 3 {
			t.Errorf("late nameserver: %+v", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRegisterSlowNameserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow, fast := w.fake("slow:1"), w.fake("fast:1")
		slow.reply[remoting.ReqRegisterBroker] = func(*remoting.Request) {} // never answers
		r := w.registrar("slow:1", "fast:1")
		stop := w.run(r)
		synctest.Wait()
		if got := fast.take(); len(got) != 1 {
			t.Fatalf("the fast one waits for the slow one: %+v", got)
		}
		w.put("New", 6)
		r.Changed([]string{"New"})
		settle(t, r)
		if got := fast.take(); len(got) != 1 || len(got[0].topics) != 1 {
			t.Fatalf("change: %+v", got)
		}
		pass(answerWait)
		if !isReady(r) {
			t.Error("a silent nameserver holds up Ready")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(slow.take()) == 0 {
			t.Error("the slow one was not asked at all")
		}
	})
}

func TestRegisterOrderList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fake("ns:1").reply[remoting.ReqRegisterBroker] = func(r *remoting.Request) {
			r.Reply(0, "", remoting.Map{}, []byte(`{"table":{"T":"broker-a:4","Unknown":"broker-a:4"}}`))
		}
		stop := w.run(w.registrar("ns:1"))
		synctest.Wait()
		if !slices.Equal(w.ordered, []string{"T"}) {
			t.Errorf("marked %v", w.ordered)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRegisterIdentity(t *testing.T) {
	const other = "10.0.0.9:10911"
	answer := func(name string, id, boot int) func(*world) {
		return func(w *world) {
			b := w.fake(other)
			b.reply[remoting.ReqGetBrokerConfig] = func(r *remoting.Request) {
				r.Reply(0, "", nil, fmt.Appendf(nil, "brokerName=%s\nbrokerId=%d\n", name, id))
			}
			b.reply[remoting.ReqGetBrokerRuntimeInfo] = func(r *remoting.Request) {
				r.Reply(0, "", nil, fmt.Appendf(nil, `{"table":{"bootTimestamp":"%d"}}`, boot))
			}
		}
	}
	tests := []struct {
		name       string
		registered string
		broker     func(*world)
		conflict   bool
		slave      bool
		older      bool
	}{
		{"another broker answers as us", `{0:"10.0.0.9:10911"}`, answer("broker-a", 0, 1), true, false, false},
		{"a former master came back first", `{0:"10.0.0.9:10911"}`, answer("broker-a", 0, 1), false, false, true},
		{"it is we under an old address", `{0:"10.0.0.9:10911"}`, answer("broker-a", 0, 777), false, false, false},
		{"another broker lives there now", `{0:"10.0.0.9:10911"}`, answer("broker-b", 0, 1), false, false, false},
		{"our name with another id lives there", `{0:"10.0.0.9:10911"}`, answer("broker-a", 1, 1), false, false, false},
		{"nobody lives there", `{0:"10.0.0.9:10911"}`, func(*world) {}, false, false, false},
		{"only a slave is registered", `{1:"10.0.0.9:10911"}`, answer("broker-a", 1, 1), false, false, false},
		{"another slave answers as us", `{0:"10.0.0.8:10911",1:"10.0.0.9:10911"}`, answer("broker-a", 1, 1), true, true, false},
		{"this slave under an old address", `{1:"10.0.0.9:10911"}`, answer("broker-a", 1, 777), false, true, false},
		{"a slave whose number the master has", `{1:"10.0.0.9:10911"}`, answer("broker-a", 0, 1), false, true, false},
		{"our own old registration", `{0:"10.0.0.1:10911"}`, func(*world) {}, false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ns := w.fake("ns:1")
				ns.reply[remoting.ReqGetBrokerClusterInfo] = func(r *remoting.Request) {
					r.Reply(0, "", nil, []byte(`{"brokerAddrTable":{"broker-a":{"brokerAddrs":`+tt.registered+`,"brokerName":"broker-a","cluster":"C"}}}`))
				}
				tt.broker(w)
				r := w.registrar("ns:1")
				// As a broker's: a slave has a newer master, whoever asks.
				r.o.Newer = func(context.Context, string) bool { return r.o.Standing().isSlave() }
				r.o.Older = func(context.Context, string) bool { return tt.older }
				if tt.slave {
					r.o.Standing = func() *standing { return &standing{Role: Slave, ID: 1} }
				}
				stop := w.run(r)
				pass(5 * time.Second)
				synctest.Wait()
				registered := len(ns.take()) > 0
				err := stop()
				var conflict *IdentityError
				if errors.As(err, &conflict) != tt.conflict || registered == tt.conflict {
					t.Errorf("Run said %v, registered %v", err, registered)
				}
				if conflict != nil && conflict.Addr != other {
					t.Errorf("conflict with %s", conflict.Addr)
				}
			})
		})
	}
}

// The real nameserver takes it all in.
func TestRegisterAtNameserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := nameserver.New(nameserver.Options{Listener: w.net.listen("ns:1")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Run(ctx) }()
		r := w.registrar("ns:1")
		stop := w.run(r)
		if !isReady(r) {
			t.Fatal("not ready")
		}
		c := remoting.NewClient(remoting.ClientOptions{Dial: w.net.dial})
		route := func(name string) (int, string) {
			resp, err := c.Call(ctx, "ns:1", remoting.ReqGetRouteInfoByTopic, remoting.Map{"topic": name}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return resp.Code, string(resp.Body)
		}
		const want = `{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C","enableActingMaster":false}],` +
			`"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":7,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`
		if _, body := route("TBW102"); body != want {
			t.Errorf("route %s", body)
		}
		w.put("New", 6)
		r.Changed([]string{"New"})
		settle(t, r)
		if code, _ := route("New"); code != 0 {
			t.Errorf("new topic: code %d", code)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if code, _ := route("TBW102"); code != 17 {
			t.Errorf("after the end: code %d", code)
		}
		c.Close()
		cancel()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	})
}

// pass lets virtual time go on.
func pass(d time.Duration) { <-time.After(d) }
