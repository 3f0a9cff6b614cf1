package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// fakeBroker is a process on loopback that answers what a test gives it.
type fakeBroker struct {
	name    string
	id      int64
	addr    string
	mu      sync.Mutex
	runtime map[string]string
	config  map[string]string
	ha      *admin.HAStatus      // nil: 907 is refused
	own     *body.InspectHA      // nil: not one of ours
	offsets *body.InspectOffsets // likewise
	more    map[int]func(r *remoting.Request)
	seen    []int
	heard   func(code int) // told of each request, if not nil
}

// fakeCluster is a nameserver and its brokers.
type fakeCluster struct {
	t       *testing.T
	ns      *fakeBroker
	mu      sync.Mutex
	brokers []*fakeBroker
	hidden  map[string]bool // addresses that the nameserver does not show
}

func newFakeCluster(t *testing.T) *fakeCluster {
	f := &fakeCluster{t: t, hidden: map[string]bool{}}
	f.ns = &fakeBroker{more: map[int]func(r *remoting.Request){remoting.ReqGetBrokerClusterInfo: f.clusterInfo}}
	f.ns.addr, _ = serveFake(t, "127.0.0.1", f.ns)
	return f
}

// serveFake makes b answer at a free port of host; the returned function ends it.
func serveFake(t *testing.T, host string, b *fakeBroker) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := remoting.NewServer(remoting.ServerOptions{Handler: fakeHandler{b}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx, l) // ends with stop
	}()
	stop = sync.OnceFunc(func() { cancel(); s.Close(); <-done })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// add starts a broker; its runtime is that of Apache's unless own is given.
func (f *fakeCluster) add(host, name string, id int64, end int64, change func(b *fakeBroker)) (*fakeBroker, func()) {
	b := &fakeBroker{
		name: name, id: id, more: map[int]func(r *remoting.Request){},
		runtime: map[string]string{"commitLogMinOffset": "0", "commitLogMaxOffset": strconv.FormatInt(end, 10), "brokerVersionDesc": "V5_3_3", "putTps": "0.0 0.0 0.0",
			"putMessageTimesTotal": "1"},
		config: map[string]string{"brokerRole": "ASYNC_MASTER", "brokerId": strconv.FormatInt(id, 10), "brokerName": name, "brokerClusterName": "C", "brokerPermission": "6"},
	}
	if id > 0 {
		b.config["brokerRole"] = "SLAVE"
	}
	if change != nil {
		change(b)
	}
	if b.own != nil {
		b.runtime["mqctlVersion"], b.runtime["mqctlCapabilities"] = "1.0.0", "MQCTL_INSPECT"
	}
	var stop func()
	b.addr, stop = serveFake(f.t, host, b)
	f.mu.Lock()
	f.brokers = append(f.brokers, b)
	f.mu.Unlock()
	return b, stop
}

// afterLooks runs the steps one after another, each when the nameserver has been
// asked for the cluster n times more: whoever watches has seen what was before.
func (f *fakeCluster) afterLooks(n int, steps ...func()) {
	looks := 0
	f.ns.set(func() {
		f.ns.heard = func(code int) {
			if code != remoting.ReqGetBrokerClusterInfo {
				return
			}
			if looks++; looks%n == 0 && looks/n <= len(steps) {
				go steps[looks/n-1]()
			}
		}
	})
}

func (f *fakeCluster) hide(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden[addr] = true
}

// unhide shows a broker again.
func (f *fakeCluster) unhide(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hidden, addr)
}

// clusterInfo serves 106.
func (f *fakeCluster) clusterInfo(r *remoting.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	table := map[string]map[string]any{}
	var names []string
	for _, b := range f.brokers {
		if f.hidden[b.addr] {
			continue
		}
		if table[b.name] == nil {
			table[b.name] = map[string]any{"cluster": "C", "brokerName": b.name, "brokerAddrs": map[string]string{}}
			names = append(names, b.name)
		}
		table[b.name]["brokerAddrs"].(map[string]string)[strconv.FormatInt(b.id, 10)] = b.addr
	}
	reply(r, map[string]any{"brokerAddrTable": table, "clusterAddrTable": map[string][]string{"C": names}})
}

func reply(r *remoting.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r.Reply(remoting.CodeSuccess, "", nil, b)
}

// set changes what the broker says while it serves.
func (b *fakeBroker) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// asked counts the requests of one code.
func (b *fakeBroker) asked(code int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.seen {
		if c == code {
			n++
		}
	}
	return n
}

type fakeHandler struct{ b *fakeBroker }

func (h fakeHandler) ServeRequest(_ *remoting.Conn, r *remoting.Request) {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, r.Code)
	if b.heard != nil {
		b.heard(r.Code)
	}
	if f := b.more[r.Code]; f != nil {
		f(r)
		return
	}
	switch r.Code {
	case remoting.ReqGetBrokerRuntimeInfo:
		reply(r, map[string]any{"table": maps.Clone(b.runtime)})
	case remoting.ReqGetBrokerConfig:
		text := ""
		for k, v := range b.config {
			text += k + "=" + v + "\n"
		}
		r.Reply(remoting.CodeSuccess, "", nil, []byte(text))
	case remoting.ReqUpdateBrokerConfig:
		for line := range lines(string(r.Body)) {
			b.config[line[0]] = line[1]
		}
		r.Reply(remoting.CodeSuccess, "", nil, nil)
	case remoting.ReqGetBrokerHAStatus:
		if b.ha == nil {
			r.Reply(remoting.CodeRequestCodeNotSupported, "no", nil, nil)
			return
		}
		reply(r, b.ha)
	case remoting.ReqMqctlInspect:
		b.inspect(r)
	default:
		r.Reply(remoting.CodeRequestCodeNotSupported, "the fake does not know "+strconv.Itoa(r.Code), nil, nil)
	}
}

func (b *fakeBroker) inspect(r *remoting.Request) {
	what := r.Ext.Map()["what"]
	switch {
	case what == "ha" && b.own != nil:
		reply(r, b.own)
	case what == "offsets" && b.offsets != nil:
		reply(r, b.offsets)
	default:
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("nothing to inspect called %q", what), nil, nil)
	}
}

func (h fakeHandler) BurstEnd(*remoting.Conn) {}
func (h fakeHandler) Closed(*remoting.Conn)   {}
