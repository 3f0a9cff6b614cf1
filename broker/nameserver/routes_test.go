package nameserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting/body"
)

// conn is a broker's connection in tests.
type conn struct{ closed int }

func (c *conn) Close() { c.closed++ }

var t0 = time.Unix(1_000_000, 0)

// reg is a registration of cluster C.
func reg(name string, id int64, addr string, version int64, topics ...string) Registration {
	g := Registration{Cluster: "C", Name: name, ID: id, Addr: addr, HAAddr: addr + "9", HasActing: true,
		Version: body.DataVersion{Counter: version}, Conn: &conn{}}
	for _, t := range topics {
		name, perm := t, 6
		if n, p, ok := strings.Cut(t, "="); ok {
			name = n
			fmt.Sscan(p, &perm)
		}
		g.Topics = append(g.Topics, body.TopicConfig{TopicName: name, Perm: perm, ReadQueueNums: 4, WriteQueueNums: 4})
	}
	return g
}

// state prints the tables: "name{id:addr ...}" and "topic[broker:perm ...]".
func state(r *Routes) string {
	v := r.view()
	var lines []string
	for name, g := range v.groups {
		s := name + "{"
		for i, rep := range g.replicas {
			s += strings.Repeat(" ", min(i, 1)) + fmt.Sprintf("%d:%s", rep.id, rep.addr)
		}
		lines = append(lines, s+"}")
	}
	for name, e := range v.topics {
		s := name + "["
		for i, q := range e.queues {
			s += strings.Repeat(" ", min(i, 1)) + fmt.Sprintf("%s:%d", q.broker, q.perm)
		}
		lines = append(lines, s+"]")
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// step is one event and the tables after it.
type step struct {
	do   func(t *testing.T, r *Routes)
	want string
}

func register(g Registration) func(*testing.T, *Routes) {
	return func(t *testing.T, r *Routes) {
		t.Helper()
		if _, err := r.Register(g, t0); err != nil {
			t.Fatal(err)
		}
	}
}

func refuse(g Registration, why string) func(*testing.T, *Routes) {
	return func(t *testing.T, r *Routes) {
		t.Helper()
		if _, err := r.Register(g, t0); err == nil || !strings.Contains(err.Error(), why) {
			t.Fatalf("error %v, want %q", err, why)
		}
	}
}

func TestRoutes(t *testing.T) {
	acting := func(g Registration) Registration { g.Acting = true; return g }
	old := func(g Registration) Registration { g.HasActing = false; return g }
	term := func(g Registration, state int64) Registration { g.Version.StateVersion = state; return g }
	in := func(g Registration, cluster string) Registration { g.Cluster = cluster; return g }
	a, b := reg("a", 0, "h:1", 1, "T", "U"), reg("b", 0, "h:2", 1, "T", "V")
	tests := []struct {
		name  string
		steps []step
	}{
		{"two masters share a topic; one leaves", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(b), "T[a:6 b:6] U[a:6] V[b:6] a{0:h:1} b{0:h:2}"},
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, "T[b:6] V[b:6] b{0:h:2}"},
		}},
		{"topics change only with the version", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 0, "h:1", 1, "T=4", "W")), "T[a:6] U[a:6] W[a:6] a{0:h:1}"},
			{register(reg("a", 0, "h:1", 2, "T=4")), "T[a:4] U[a:6] W[a:6] a{0:h:1}"},
		}},
		{"one topic first is refused, the name stays", []step{
			{refuse(reg("a", 0, "h:1", 1, "T"), "register broker failed"), "a{}"},
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 0, "h:1", 2, "New")), "New[a:6] T[a:6] U[a:6] a{0:h:1}"},
		}},
		{"one topic of a new slave is refused, the master stays", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(reg("a", 1, "h:3", 1, "T"), "register broker failed"), "T[a:6] U[a:6] a{0:h:1}"},
		}},
		{"a slave registers no topics beside its master", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 1, "h:3", 9, "X", "Y")), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
		}},
		{"the lowest slave registers topics, read-only with the acting flag", []step{
			{register(acting(reg("a", 2, "h:4", 1, "X", "Y"))), "X[a:4] Y[a:4] a{2:h:4}"},
			{register(acting(reg("a", 1, "h:3", 1, "X", "Z"))), "X[a:4] Y[a:4] Z[a:4] a{1:h:3 2:h:4}"},
			{register(acting(reg("a", 2, "h:4", 2, "N", "M"))), "X[a:4] Y[a:4] Z[a:4] a{1:h:3 2:h:4}"},
		}},
		{"an old slave never does", []step{
			{register(old(reg("a", 1, "h:3", 1, "X", "Y"))), "a{1:h:3}"},
		}},
		{"the master leaves a group with acting masters: not writable any more", []step{
			{register(acting(a)), "T[a:6] U[a:6] a{0:h:1}"},
			{register(acting(reg("a", 1, "h:3", 1, "T", "U"))), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			{func(t *testing.T, r *Routes) {
				c := r.Unregister("C", "a", "h:1")
				if len(c) != 1 || c[0].offline != "h:1" || c[0].group.replicas[0].id != 1 {
					t.Errorf("changes %+v", c)
				}
			}, "T[a:4] U[a:4] a{1:h:3}"},
		}},
		{"the master leaves an ordinary group", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 1, "h:3", 1, "T", "U")), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, "T[a:6] U[a:6] a{1:h:3}"},
		}},
		{"a slave becomes master at its address", []step{
			{register(reg("a", 1, "h:3", 1, "T", "U")), "T[a:6] U[a:6] a{1:h:3}"},
			{register(reg("a", 0, "h:3", 1, "T", "U")), "T[a:6] U[a:6] a{0:h:3}"},
		}},
		{"a newer epoch keeps its id, and so does an equal one that is alive", []step{
			{register(term(a, 5)), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(term(reg("a", 0, "h:9", 1, "X", "Y"), 4), "stateVersion 5, yours is 4"), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(term(reg("a", 0, "h:9", 1, "X", "Y"), 5), "alive (stateVersion 5"), "T[a:6] U[a:6] a{0:h:1}"},
			{register(term(reg("a", 0, "h:9", 1, "X", "Y"), 6)), "T[a:6] U[a:6] X[a:6] Y[a:6] a{0:h:9}"},
			// The one that lost the id says goodbye: nothing of the new one may go.
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, "T[a:6] U[a:6] X[a:6] Y[a:6] a{0:h:9}"},
		}},
		{"two masters of Apache's take turns, as in RouteInfoManager", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 0, "h:9", 1, "X", "Y")), "T[a:6] U[a:6] X[a:6] Y[a:6] a{0:h:9}"},
			{register(a), "T[a:6] U[a:6] X[a:6] Y[a:6] a{0:h:1}"},
		}},
		{"two masters that know acting masters: the first stays while it lives", []step{
			{register(acting(a)), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(acting(reg("a", 0, "h:9", 9, "X", "Y")), "two masters of one name"), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(reg("a", 0, "h:9", 9, "X", "Y"), "two masters of one name"), "T[a:6] U[a:6] a{0:h:1}"},
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, ""},
			{register(acting(reg("a", 0, "h:9", 9, "X", "Y"))), "X[a:6] Y[a:6] a{0:h:9}"},
		}},
		{"a silent master gives way before the scan finds it", []step{
			{register(acting(a)), "T[a:6] U[a:6] a{0:h:1}"},
			{func(t *testing.T, r *Routes) {
				g := acting(reg("a", 0, "h:9", 1, "T", "U"))
				if _, err := r.Register(g, t0.Add(defaultHeartbeat)); err == nil {
					t.Error("taken in within the holder's time")
				}
				if _, err := r.Register(g, t0.Add(defaultHeartbeat+1)); err != nil {
					t.Error(err)
				}
			}, "T[a:6] U[a:6] a{0:h:9}"},
		}},
		{"a planned change: the master leaves for the slave's id, the slave takes 0", []step{
			{register(term(acting(a), 1)), "T[a:6] U[a:6] a{0:h:1}"},
			{register(term(acting(reg("a", 1, "h:3", 1, "T", "U")), 1)), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			// Both have id 1 for a moment; the address that registers last has it.
			{register(term(acting(reg("a", 1, "h:1", 1, "T", "U")), 2)), "T[a:4] U[a:4] a{1:h:1}"},
			{register(term(acting(reg("a", 0, "h:3", 1, "T", "U")), 2)), "T[a:6] U[a:6] a{0:h:3 1:h:1}"},
		}},
		{"a forced change: the newer epoch takes 0 from a master that lives", []step{
			{register(term(acting(a), 1)), "T[a:6] U[a:6] a{0:h:1}"},
			{register(term(acting(reg("a", 1, "h:3", 7, "T", "U", "N")), 1)), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			{func(t *testing.T, r *Routes) {
				// Its version is the one it had as a slave but for the epoch.
				w, err := r.Register(term(acting(reg("a", 0, "h:3", 7, "T", "U", "N")), 2), t0)
				if err != nil || w.displaced != "h:1" || w.displacedConn == nil {
					t.Errorf("%+v, %v", w, err)
				}
			}, "N[a:6] T[a:6] U[a:6] a{0:h:3}"},
			{func(t *testing.T, r *Routes) {
				w, err := r.Register(term(acting(a), 1), t0)
				if err == nil || w.MasterAddr != "h:3" || w.HAAddr != "h:39" {
					t.Errorf("the old master heard %+v, %v", w, err)
				}
			}, "N[a:6] T[a:6] U[a:6] a{0:h:3}"},
			{register(term(acting(reg("a", 1, "h:1", 1, "T", "U")), 2)), "N[a:6] T[a:6] U[a:6] a{0:h:3 1:h:1}"},
		}},
		{"a slave of an older epoch is ignored, of an equal one takes the id", []step{
			{register(term(reg("a", 1, "h:1", 1, "T", "U"), 5)), "T[a:6] U[a:6] a{1:h:1}"},
			{register(term(reg("a", 1, "h:2", 1, "X", "Y"), 4)), "T[a:6] U[a:6] a{1:h:1}"},
			{register(term(reg("a", 1, "h:2", 1, "T", "U"), 5)), "T[a:6] U[a:6] a{1:h:2}"},
		}},
		{"mixed: our slave stands in for Apache's master whoever registered last", []step{
			{register(acting(reg("a", 1, "h:3", 1, "T", "U"))), "T[a:4] U[a:4] a{1:h:3}"},
			{register(a), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, "T[a:4] U[a:4] a{1:h:3}"},
			{func(t *testing.T, r *Routes) {
				if !r.view().groups["a"].acting {
					t.Error("the slave cannot stand in")
				}
			}, "T[a:4] U[a:4] a{1:h:3}"},
		}},
		{"mixed: Apache's slave does not stand in for our master", []step{
			{register(acting(a)), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 1, "h:3", 1, "T", "U")), "T[a:6] U[a:6] a{0:h:1 1:h:3}"},
			{func(_ *testing.T, r *Routes) { r.Unregister("C", "a", "h:1") }, "T[a:6] U[a:6] a{1:h:3}"},
		}},
		{"a process takes another name", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("z", 0, "h:1", 1, "T", "V")), "T[z:6] V[z:6] z{0:h:1}"},
		}},
		{"a name belongs to one cluster", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{refuse(in(reg("a", 0, "h:7", 1, "T", "U"), "D"), "in use in cluster C"), "T[a:6] U[a:6] a{0:h:1}"},
		}},
		{"write permission taken and given back", []step{
			{register(reg("a", 0, "h:1", 1, "T", "U=7")), "T[a:6] U[a:7] a{0:h:1}"},
			{func(t *testing.T, r *Routes) {
				if n := r.SetWritable("a", false); n != 2 {
					t.Errorf("%d topics", n)
				}
			}, "T[a:4] U[a:5] a{0:h:1}"},
			{register(reg("a", 0, "h:1", 1, "T", "U=7")), "T[a:4] U[a:5] a{0:h:1}"},
			{func(_ *testing.T, r *Routes) { r.SetWritable("a", true) }, "T[a:6] U[a:6] a{0:h:1}"},
			{register(reg("a", 0, "h:1", 2, "T", "U=7")), "T[a:6] U[a:7] a{0:h:1}"},
			{func(t *testing.T, r *Routes) {
				if n := r.SetWritable("nobody", false); n != 0 {
					t.Errorf("%d topics", n)
				}
			}, "T[a:6] U[a:7] a{0:h:1}"},
		}},
		{"a topic is deleted in one cluster, in all", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{register(in(b, "D")), "T[a:6 b:6] U[a:6] V[b:6] a{0:h:1} b{0:h:2}"},
			{func(_ *testing.T, r *Routes) { r.DeleteTopic("T", "C") }, "T[b:6] U[a:6] V[b:6] a{0:h:1} b{0:h:2}"},
			{func(_ *testing.T, r *Routes) { r.DeleteTopic("T", "") }, "U[a:6] V[b:6] a{0:h:1} b{0:h:2}"},
			{func(_ *testing.T, r *Routes) { r.DeleteTopic("nothing", "") }, "U[a:6] V[b:6] a{0:h:1} b{0:h:2}"},
		}},
		{"queues are added for known brokers", []step{
			{register(a), "T[a:6] U[a:6] a{0:h:1}"},
			{func(t *testing.T, r *Routes) {
				if err := r.PutTopic("N", []queues{{broker: "a", perm: 6}, {broker: "nobody", perm: 6}}); err != nil {
					t.Error(err)
				}
			}, "N[a:6] T[a:6] U[a:6] a{0:h:1}"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRoutes(never)
			for i, s := range tt.steps {
				before, text := r.view(), state(r)
				s.do(t, r)
				if got := state(r); got != s.want {
					t.Fatalf("step %d:\n%s\nwant\n%s", i, got, s.want)
				}
				// A view that was handed out never changes.
				probe := newRoutes(never)
				probe.current.Store(before)
				if state(probe) != text {
					t.Fatalf("step %d changed the view before it", i)
				}
			}
		})
	}
}

func TestDeleteVanished(t *testing.T) {
	r := newRoutes(func() bool { return true })
	register(reg("a", 0, "h:1", 1, "C", "a", "T", "U"))(t, r)
	register(reg("a", 0, "h:1", 2, "N"))(t, r) // only what changed
	if got, want := state(r), "C[a:6] N[a:6] T[a:6] U[a:6] a[a:6] a{0:h:1}"; got != want {
		t.Fatalf("a part of the table removed topics: %s", got)
	}
	register(reg("a", 0, "h:1", 3, "C", "a", "U"))(t, r)
	if got, want := state(r), "C[a:6] U[a:6] a[a:6] a{0:h:1}"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func TestConnClosed(t *testing.T) {
	r := newRoutes(never)
	first, second := &conn{}, &conn{}
	over := func(c *conn) Registration { g := reg("a", 0, "h:1", 1, "T", "U"); g.Conn = c; return g }
	register(over(first))(t, r)
	register(over(second))(t, r) // the broker came back before its old connection was seen to end
	if gone, _ := r.ConnClosed(first); len(gone) != 0 || state(r) == "" {
		t.Fatalf("an old connection took the fresh registration with it: %v", gone)
	}
	if gone, _ := r.ConnClosed(second); !slices.Equal(gone, []string{"a"}) || state(r) != "" {
		t.Fatalf("gone %v, left %s", gone, state(r))
	}
}

func TestExpire(t *testing.T) {
	r := newRoutes(never)
	quick, plain := reg("q", 0, "h:1", 1, "T", "U"), reg("p", 0, "h:2", 1, "T", "V")
	quick.Timeout = 10 * time.Second
	hasty := reg("h", 0, "h:3", 1, "T", "V")
	hasty.Timeout = time.Millisecond // no sane broker; the least is used
	for _, g := range []Registration{quick, plain, hasty} {
		register(g)(t, r)
	}
	refuse(reg("z", 0, "h:8", 1, "T"), "register broker failed")(t, r)
	at := func(d time.Duration) string {
		lost, _ := r.Expire(t0.Add(d))
		var names []string
		for _, l := range lost {
			names = append(names, l.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, s := range []struct {
		at   time.Duration
		want string
	}{{time.Second, ""}, {minHeartbeat, ""}, {minHeartbeat + 1, "h"}, {10 * time.Second, ""}} {
		if got := at(s.at); got != s.want {
			t.Errorf("at %v lost %q, want %q", s.at, got, s.want)
		}
	}
	r.Heartbeat("C", "h:1", t0.Add(10*time.Second))
	r.Heartbeat("C", "unknown:1", t0)
	for _, s := range []struct {
		at   time.Duration
		want string
	}{{20 * time.Second, ""}, {20*time.Second + 1, "q"}, {defaultHeartbeat, ""}, {defaultHeartbeat + 1, "p"}} {
		if got := at(s.at); got != s.want {
			t.Errorf("at %v lost %q, want %q", s.at, got, s.want)
		}
	}
	if got := state(r); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestLimits(t *testing.T) {
	r := newRoutes(never)
	for i := range maxReplicas {
		register(reg("a", int64(i), fmt.Sprint("h:", i+1), 1, "T", "U"))(t, r)
	}
	refuse(reg("a", 1000, "h:1000", 1, "T", "U"), "64 ids")(t, r)
	g := reg("b", 0, "h:1001", 1)
	g.Topics = make([]body.TopicConfig, maxBrokerTopics+1)
	refuse(g, "the limit is")(t, r)
	if strings.Contains(state(r), "b{") {
		t.Error("a refused broker was taken in")
	}
}

func TestStaticTopicMapping(t *testing.T) {
	r := newRoutes(never)
	g := reg("a", 0, "h:1", 1, "T", "U")
	g.Mappings = []body.TopicQueueMappingInfo{{BrokerName: "a", Topic: "T", Scope: "__global__", TotalQueues: 12, Epoch: 3,
		CurrIDMap: map[int32]int32{10: 1, 2: 0}}}
	register(g)(t, r)
	v := r.view()
	for standard, want := range map[bool]string{
		true:  `"topicQueueMappingByBroker":{"a":{"bname":"a","currIdMap":{"2":0,"10":1},"dirty":false,"epoch":3,"scope":"__global__","topic":"T","totalQueues":12}}}`,
		false: `"topicQueueMappingByBroker":{"a":{"bname":"a","currIdMap":{2:0,10:1},"dirty":false,"epoch":3,"scope":"__global__","topic":"T","totalQueues":12}}}`,
	} {
		w := writer{standard: standard}
		w.route([]*group{v.groups["a"]}, v.topics["T"], "")
		if !strings.HasSuffix(string(w.b), want) {
			t.Errorf("standard %v: %s", standard, w.b)
		}
	}
}

func never() bool { return false }
