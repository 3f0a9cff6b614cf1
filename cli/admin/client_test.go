package admin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
)

func TestSplitAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"a:1":                 {"a:1"},
		"a:1;b:2":             {"a:1", "b:2"},
		" a:1, b:2 ;a:1;; ":   {"a:1", "b:2"},
		"[::1]:9876":          {"[::1]:9876"},
		"":                    nil,
		"a":                   {"!a"},
		"a:":                  {"!a:"},
		":1":                  {"!:1"},
		"a:0":                 {"!a:0"},
		"a:70000":             {"!a:70000"},
		"http://10.0.0.4:987": {"!http://10.0.0.4:987"},
	} {
		got, err := SplitAddresses(text)
		if len(want) == 1 && want[0][0] == '!' {
			var bad *BadAddress
			if !errors.As(err, &bad) || bad.Text != want[0][1:] {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func testCluster() *Cluster {
	return &Cluster{Nameserver: "ns:1",
		Clusters: map[string][]string{"C": {"a", "b", "z"}, "D": {"d"}},
		Brokers: map[string]BrokerGroup{
			"a": {Cluster: "C", Name: "a", Addrs: map[int64]string{0: "a:0", 2: "a:2", 1: "a:1"}},
			"b": {Cluster: "C", Name: "b", Addrs: map[int64]string{1: "b:1"}},
			"z": {Cluster: "C", Name: "z"}, // its registration was refused
			"d": {Cluster: "D", Name: "d", Addrs: map[int64]string{0: "d:0"}},
		}}
}

func TestTargets(t *testing.T) {
	one := testCluster()
	delete(one.Clusters, "D")
	delete(one.Brokers, "d")
	tests := []struct {
		c    *Cluster
		s    Selector
		want string // targets, or the error
	}{
		{one, Selector{}, "a/0=a:0 a/1=a:1 a/2=a:2 b/1=b:1"},
		{one, Selector{MastersOnly: true}, "a/0=a:0 b/0="},
		{testCluster(), Selector{}, "a cluster must be named: C, D are registered"},
		{testCluster(), Selector{Cluster: "D"}, "d/0=d:0"},
		{testCluster(), Selector{Cluster: "X"}, `cluster "X" does not exist at ns:1 [C D]`},
		{testCluster(), Selector{Broker: "a"}, "a/0=a:0 a/1=a:1 a/2=a:2"},
		{testCluster(), Selector{Broker: "a", MastersOnly: true}, "a/0=a:0"},
		{testCluster(), Selector{Broker: "a/1", MastersOnly: true}, "a/1=a:1"},
		{testCluster(), Selector{Broker: "a/7"}, `broker "a/7" does not exist at ns:1 [a/0 a/1 a/2]`},
		{testCluster(), Selector{Broker: "a/x"}, `"a/x" is not an address: NAME/ID needs a number from 0 on after the slash`},
		{testCluster(), Selector{Broker: "a/-1"}, `"a/-1" is not an address: NAME/ID needs a number from 0 on after the slash`},
		{testCluster(), Selector{Broker: "nope"}, `broker "nope" does not exist at ns:1 [a b d z]`},
		{testCluster(), Selector{Broker: "d", Cluster: "C"}, `broker "d" does not exist at ns:1 [a b z]`},
		{testCluster(), Selector{Broker: "z"}, `broker "z" does not exist at ns:1`},
		{testCluster(), Selector{Broker: "a:1"}, "a/1=a:1"},
		{testCluster(), Selector{Broker: "x:1"}, "x:1=x:1"},
		{&Cluster{Nameserver: "ns:1"}, Selector{}, "no broker is known at ns:1"},
	}
	for _, tt := range tests {
		targets, err := tt.c.Targets(tt.s)
		var parts []string
		for _, x := range targets {
			parts = append(parts, x.String()+"="+x.Addr)
		}
		got := strings.Join(parts, " ")
		if err != nil {
			got = err.Error()
			var missing *NotFound
			if errors.As(err, &missing) && len(missing.Known) > 0 {
				got += fmt.Sprint(" ", missing.Known)
			}
		}
		if got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.s, got, tt.want)
		}
	}
}

// A broker given by its address needs no nameserver.
func TestTargetsByAddress(t *testing.T) {
	c := newFakeNet(t).client(Options{})
	got, err := c.Targets(t.Context(), Selector{Broker: "10.0.0.1:10911", MastersOnly: true})
	if err != nil || len(got) != 1 || got[0] != (Target{ID: -1, Addr: "10.0.0.1:10911"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.Targets(t.Context(), Selector{Broker: "10.0.0.1:x"}); !errors.As(err, new(*BadAddress)) {
		t.Errorf("error %v", err)
	}
}

func refuse(code int, remark string) answer {
	return func(r *remoting.Request) { r.Reply(code, remark, nil, nil) }
}

func TestNameserverFailover(t *testing.T) {
	n := newFakeNet(t)
	n.serve("ns:2", recorded(t, "admin-clusterList", "route"))
	c := n.client(Options{Nameservers: []string{"ns:1", "ns:2"}})
	for range 2 {
		cluster, err := c.Cluster(t.Context())
		if err != nil || cluster.Nameserver != "ns:2" || cluster.Brokers["golden-a"].Master() != "127.0.0.2:31911" {
			t.Fatalf("%+v, %v", cluster, err)
		}
	}
	_, err := n.client(Options{Nameservers: []string{"ns:1", "ns:3"}}).Cluster(t.Context())
	var none *NoNameserver
	if !errors.As(err, &none) || len(none.Errs) != 2 || !errors.As(err, new(*Unreachable)) {
		t.Errorf("error %v", err)
	}
	if _, err := n.client(Options{}).Cluster(t.Context()); !errors.As(err, &none) || len(none.Errs) != 0 {
		t.Errorf("error %v", err)
	}
}

// A nameserver that does not know a topic yet does not hide one that does.
func TestRouteAsksAll(t *testing.T) {
	n := newFakeNet(t)
	n.serve("ns:1", refuse(17, "No topic route info"))
	n.serve("ns:2", recorded(t, "route"))
	c := n.client(Options{Nameservers: []string{"ns:1", "ns:2"}})
	r, err := c.Route(t.Context(), "GoldenTopic")
	if err != nil || r.Nameserver != "ns:2" || len(r.Queues) != 1 || r.Queues[0].WriteQueues != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := r.Targets(true); len(got) != 1 || got[0].String() != "golden-a/0" || got[0].Cluster != "GoldenCluster" {
		t.Errorf("targets %v", got)
	}
	_, err = c.Route(t.Context(), "NoSuchTopic")
	var missing *NotFound
	if !errors.As(err, &missing) || missing.Kind != "topic" || missing.Name != "NoSuchTopic" {
		t.Errorf("error %v", err)
	}
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		silent := func(*remoting.Request) {}
		n.serve("silent:1", silent)
		n.serve("denies:1", refuse(16, "no permission"))
		n.serve("old:1", refuse(3, " request type 907 not supported"))
		n.serve("garbage:1", func(r *remoting.Request) { r.Reply(0, "", nil, []byte("{")) })
		n.serve("nothing:1", refuse(0, ""))
		n.serve("closes:1", func(r *remoting.Request) { r.Conn.Close() })
		c := n.client(Options{Timeout: 2 * time.Second})
		ask := func(addr string) error {
			_, err := c.HAStatus(t.Context(), addr)
			return err
		}
		begin := time.Now()
		var late *Timeout
		if err := ask("silent:1"); !errors.As(err, &late) || late.Deadline || late.Request != 907 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silent: %v", err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("a silent peer costs the time-out of 2 s once; it took %v", took)
		}
		var refused *Refused
		if err := ask("denies:1"); !errors.As(err, &refused) || !refused.Denied() || refused.Unsupported() {
			t.Errorf("denies: %v", err)
		}
		if err := ask("old:1"); !errors.As(err, &refused) || !refused.Unsupported() || !strings.Contains(err.Error(), "GET_BROKER_HA_STATUS") {
			t.Errorf("old: %v", err)
		}
		for _, addr := range []string{"garbage:1", "nothing:1"} {
			if err := ask(addr); !errors.As(err, new(*BadAnswer)) {
				t.Errorf("%s: %v", addr, err)
			}
		}
		var lost *Unreachable
		if err := ask("closes:1"); !errors.As(err, &lost) || !lost.Lost {
			t.Errorf("closes: %v", err)
		}
		if got := len(n.requests("closes:1")); got != 2 {
			t.Errorf("a read on a lost connection was asked %d times", got)
		}
		// A write is never repeated.
		err := c.PutKVAt(t.Context(), "closes:1", "N", "k", "v")
		if got := len(n.requests("closes:1")); got != 3 || !errors.As(err, &lost) {
			t.Errorf("a write was sent %d times: %v", got-2, err)
		}
		if err := ask("away:1"); !errors.As(err, &lost) || lost.Lost || lost.Addr != "away:1" {
			t.Errorf("away: %v", err)
		}
		if err := ask(""); !errors.Is(err, ErrNoAddress) {
			t.Errorf("no address: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.HAStatus(ctx, "silent:1"); !errors.As(err, &late) || !late.Deadline {
			t.Errorf("deadline: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.HAStatus(ctx, "silent:1"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		c.Close()
		for _, s := range n.servers {
			s.Close()
		}
	})
}

// TestOneLook: in one look a silent peer costs its time once; writes, what a peer
// asks its clients, and retries that were asked for go on.
func TestOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		n.serve("silent:1", func(*remoting.Request) {})
		n.serve("closes:1", func(r *remoting.Request) { r.Conn.Close() })
		c := n.client(Options{Timeout: 2 * time.Second})
		ways := []struct {
			name string
			ask  func(ctx context.Context) error
			took time.Duration
			sent int
		}{
			{"first", func(ctx context.Context) error { _, err := c.HAStatus(ctx, "silent:1"); return err }, 2 * time.Second, 1},
			{"again", func(ctx context.Context) error { _, err := c.RuntimeInfo(ctx, "silent:1"); return err }, 0, 0},
			{"of a client", func(ctx context.Context) error {
				_, err := c.RunningInfo(ctx, "silent:1", "g", "id", false)
				return err
			}, 2 * time.Second, 1},
			{"write", func(ctx context.Context) error { return c.PutKVAt(ctx, "silent:1", "N", "k", "v") }, 2 * time.Second, 1},
			{"another look", func(ctx context.Context) error { _, err := c.HAStatus(OneLook(ctx), "silent:1"); return err }, 2 * time.Second, 1},
			{"no look", func(context.Context) error { _, err := c.HAStatus(t.Context(), "silent:1"); return err }, 2 * time.Second, 1},
		}
		ctx := OneLook(t.Context())
		for _, w := range ways {
			begin, before := time.Now(), len(n.requests("silent:1"))
			var late *Timeout
			if err := w.ask(ctx); !errors.As(err, &late) || late.Addr != "silent:1" {
				t.Errorf("%s: %v", w.name, err)
			}
			if took, sent := time.Since(begin), len(n.requests("silent:1"))-before; took != w.took || sent != w.sent {
				t.Errorf("%s: took %v with %d requests, want %v with %d", w.name, took, sent, w.took, w.sent)
			}
		}
		for range 2 { // a connection that breaks is no silence
			before := len(n.requests("closes:1"))
			if _, err := c.HAStatus(ctx, "closes:1"); err == nil || len(n.requests("closes:1"))-before != 2 {
				t.Errorf("closes: %v", err)
			}
		}
		twice := n.client(Options{Timeout: 2 * time.Second, Retries: 1})
		begin := time.Now()
		if _, err := twice.HAStatus(t.Context(), "silent:1"); err == nil || time.Since(begin) != 4*time.Second {
			t.Errorf("retries that were asked for: %v after %v", err, time.Since(begin))
		}
		c.Close()
		twice.Close()
		for _, s := range n.servers {
			s.Close()
		}
	})
}

func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Parallel: 3})
		defer c.Close()
		targets := make([]Target, 10)
		for i := range targets {
			targets[i] = Target{Addr: fmt.Sprint("h:", i+1)}
		}
		slow := func(ctx context.Context, target Target) (string, error) {
			pass(time.Second)
			return target.Addr, nil
		}
		begin := time.Now()
		for i, r := range Each(t.Context(), c, 0, targets, slow) {
			if r.Err != nil || r.Value != targets[i].Addr || r.Took != time.Second || !reflect.DeepEqual(r.Target, targets[i]) {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("ten targets, three at a time, took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var done, late int
		for _, r := range Each(ctx, c, 1, targets, slow) {
			if r.Err == nil {
				done++
			} else if errors.As(r.Err, new(*Timeout)) {
				late++
			}
		}
		if done != 2 || late != 8 {
			t.Errorf("%d done, %d late", done, late)
		}
		if got := Each(t.Context(), c, 0, nil, slow); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

func TestEachNameserver(t *testing.T) {
	n := newFakeNet(t)
	n.serve("ns:1", recorded(t, "admin-wipeWritePerm"))
	c := n.client(Options{Nameservers: []string{"ns:1", "ns:2"}})
	got := EachNameserver(t.Context(), c, func(ctx context.Context, addr string) (int, error) {
		return c.WipeWritePermAt(ctx, addr, "golden-a")
	})
	if got[0].Value != 37 || got[0].Err != nil || !errors.As(got[1].Err, new(*Unreachable)) || got[1].Target.Addr != "ns:2" {
		t.Errorf("%+v", got)
	}
}

func TestTrace(t *testing.T) {
	n := newFakeNet(t)
	n.serve("b:1", recorded(t, "admin-haStatus"))
	var lines []string
	c := n.client(Options{Trace: func(code int, addr string, out, in int, took time.Duration, err error) {
		lines = append(lines, fmt.Sprint(code, addr, out > 0, in > 0, err))
	}})
	if _, err := c.HAStatus(t.Context(), "b:1"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(lines, []string{"907b:1true true <nil>"}) {
		t.Errorf("%q", lines)
	}
}

// pass lets virtual time go on.
func pass(d time.Duration) { <-time.After(d) }
