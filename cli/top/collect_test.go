package top

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// fake is a nameserver and a broker in one: it answers what a test gives it, and
// counts the requests.
type fake struct {
	addr    string
	mu      sync.Mutex
	answers map[int]func(r *remoting.Request)
	seen    map[int]int
}

func newFake(t *testing.T, runtime map[string]string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), seen: map[int]int{}}
	f.answers = map[int]func(*remoting.Request){
		remoting.ReqGetBrokerClusterInfo: func(r *remoting.Request) {
			reply(r, map[string]any{"brokerAddrTable": map[string]any{"a": map[string]any{"cluster": "C", "brokerName": "a", "brokerAddrs": map[string]string{"0": f.addr}}}, "clusterAddrTable": map[string][]string{"C": {"a"}}})
		},
		remoting.ReqGetBrokerRuntimeInfo: func(r *remoting.Request) { reply(r, map[string]any{"table": runtime}) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := remoting.NewServer(remoting.ServerOptions{Handler: f})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx, l) // ends with the test
	}()
	t.Cleanup(func() { cancel(); s.Close(); <-done })
	return f
}

func reply(r *remoting.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r.Reply(remoting.CodeSuccess, "", nil, b)
}

func (f *fake) ServeRequest(_ *remoting.Conn, r *remoting.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[r.Code]++
	if a := f.answers[r.Code]; a != nil {
		a(r)
		return
	}
	r.Reply(remoting.CodeRequestCodeNotSupported, "no", nil, nil)
}

func (f *fake) BurstEnd(*remoting.Conn) {}
func (f *fake) Closed(*remoting.Conn)   {}

// asked is how many requests came since the last time it was called.
func (f *fake) asked() map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.seen
	f.seen = map[int]int{}
	return out
}

func (f *fake) collector(t *testing.T) *Collector {
	a := admin.New(admin.Options{Nameservers: []string{f.addr}})
	t.Cleanup(a.Close)
	return &Collector{Client: a, Patience: 20 * time.Second, Version: func(n int) string { return "v" + strconv.Itoa(n) }}
}

// stats is an answer to 317 with n groups.
func stats(n int) func(r *remoting.Request) {
	var b strings.Builder
	b.WriteString(`{"brokerAddr":"x","totalDiff":0,"totalInflightDiff":0,"consumeStatsList":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"g-%04d":[{"consumeTps":0.0,"offsetTable":{`, i)
		for q := range 8 {
			if q > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"brokerName":"a","queueId":%d,"topic":"t-%d"}:{"brokerOffset":9,"consumerOffset":1,"lastTimestamp":7,"pullOffset":1}`, q, i%100)
		}
		b.WriteString(`}}]}`)
	}
	b.WriteString(`]}`)
	return func(r *remoting.Request) { r.Reply(remoting.CodeSuccess, "", nil, []byte(b.String())) }
}

// TestCollectOurs: clients and events of a broker of mqctl, with one request for each
// whatever the number of groups; an event is told once, also across a restart.
func TestCollectOurs(t *testing.T) {
	runtime := map[string]string{"mqctlCapabilities": "MQCTL_INSPECT", "bootTimestamp": "1", "commitLogMaxOffset": "5"}
	f := newFake(t, runtime)
	f.answers[remoting.ReqGetBrokerConsumeStats] = stats(1000)
	events := []body.Event{{Seq: 1, At: 1000, Broker: "a/0", Kind: "TOPIC", Target: "t", After: "changed"}}
	f.answers[remoting.ReqMqctlInspect] = func(r *remoting.Request) {
		switch m := r.Ext.Map(); m["what"] {
		case "clients":
			reply(r, body.InspectClients{Clients: []body.InspectClient{{ClientID: "c", Addr: "10.0.0.9:1", Language: "JAVA", Version: 5, Group: "g-0001", Role: "CONSUMER", Topics: []string{"t-1"}}}})
		case "events":
			since, _ := strconv.ParseInt(m["since"], 10, 64)
			out := body.InspectEvents{Events: []body.Event{}}
			for _, e := range events {
				out.Next = e.Seq
				if e.Seq > since {
					out.Events = append(out.Events, e)
				}
			}
			reply(r, out)
		default:
			r.Reply(remoting.CodeInvalidParameter, "no", nil, nil)
		}
	}
	c := f.collector(t)
	first := c.Refresh(context.Background())
	if len(first.Clients) != 1 || first.Clients[0].Version != "v5" || first.Clients[0].Brokers != 1 {
		t.Errorf("clients %+v", first.Clients)
	}
	if len(first.Events) != 1 || first.Events[0].Target != "t" || first.Events[0].At != "1970-01-01T00:00:01.000Z" {
		t.Errorf("events %+v", first.Events)
	}
	if len(first.Groups) != 1000 {
		t.Errorf("%d groups", len(first.Groups))
	}
	f.asked()
	if again := c.Refresh(context.Background()); len(again.Events) != 0 {
		t.Errorf("told again: %+v", again.Events)
	}
	for code, n := range f.asked() {
		most := 1
		if code == remoting.ReqMqctlInspect {
			most = 4 // ha, pull, clients, events
		}
		if n > most {
			t.Errorf("%d requests of code %d in one round", n, code)
		}
	}
	// A restart: numbers begin anew, and nothing is lost or told twice.
	f.mu.Lock()
	events = []body.Event{{Seq: 1, At: 2000, Broker: "a/0", Kind: "ROLE", Target: "role", Before: "SLAVE", After: "ASYNC_MASTER"}}
	runtime["bootTimestamp"] = "2"
	f.mu.Unlock()
	var told []Event
	for range 3 {
		told = append(told, c.Refresh(context.Background()).Events...)
	}
	if len(told) != 1 || told[0].Kind != "ROLE" {
		t.Errorf("after a restart: %+v", told)
	}
}

// TestCollectOthers: of a broker of others the clients of all groups come in turn,
// with as many requests in a round whatever the number of groups.
func TestCollectOthers(t *testing.T) {
	f := newFake(t, map[string]string{"commitLogMaxOffset": "5"})
	f.answers[remoting.ReqGetBrokerConsumeStats] = stats(20)
	f.answers[remoting.ReqGetAllProducerInfo] = func(r *remoting.Request) {
		reply(r, map[string]any{"data": map[string]any{"p": []map[string]any{{"clientId": "c2", "remoteIP": "/10.0.0.8:2", "language": "GO", "version": 7}}}})
	}
	f.answers[remoting.ReqGetConsumerConnectionList] = func(r *remoting.Request) {
		g := r.Ext.Map()["consumerGroup"]
		if g == "g-0007" {
			r.Reply(remoting.CodeConsumerNotOnline, "no", nil, nil)
			return
		}
		reply(r, map[string]any{"connectionSet": []map[string]any{{"clientId": "c-" + g, "clientAddr": "/10.0.0.9:1", "language": "JAVA", "version": 5}}, "subscriptionTable": map[string]any{"t": map[string]any{"topic": "t"}}})
	}
	c := f.collector(t)
	var last *Frame
	for range 5 {
		f.asked()
		last = c.Refresh(context.Background())
		if n := f.asked()[remoting.ReqGetConsumerConnectionList]; n > groupsEachRound {
			t.Errorf("%d groups were asked for in a round", n)
		}
	}
	if len(last.Clients) != 20 || !slices.ContainsFunc(last.Clients, func(c Client) bool { return c.Role == "PRODUCER" && c.Addr == "10.0.0.8:2" }) {
		t.Errorf("%d clients: %+v", len(last.Clients), last.Clients)
	}
}

// TestKeysAreNotBlocked: keys act while a refresh waits for a broker that is silent.
func TestKeysAreNotBlocked(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	f := newFake(t, nil)
	f.answers[remoting.ReqGetBrokerClusterInfo] = func(r *remoting.Request) {
		reply(r, map[string]any{"brokerAddrTable": map[string]any{"a": map[string]any{"cluster": "C", "brokerName": "a", "brokerAddrs": map[string]string{"0": silent.Addr().String()}}}, "clusterAddrTable": map[string][]string{"C": {"a"}}})
	}
	c := f.collector(t)
	ctx, cancel := context.WithCancel(context.Background())
	m := NewModel(ctx, Options{UTF8: true, Every: time.Second, Collect: c.Refresh})
	refresh := m.Init()
	done := make(chan struct{})
	go func() { refresh(); close(done) }() // as bubbletea does it: beside the keys
	press(m, "2")
	must(t, view(t, m), "[2 groups]")
	select {
	case <-done:
		t.Error("the refresh did not wait")
	default:
	}
	cancel()
	<-done
}
