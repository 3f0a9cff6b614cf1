package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
)

// groupServer is a nameserver that tells a group, and counts what it is asked.
type groupServer struct {
	*fakeServer
	mu    sync.Mutex
	group map[int64]string // nil: 901 is unknown here
	reply remoting.Map     // of a registration
	beats []map[string]string
	asked int
}

func (w *world) groupServer(addr string) *groupServer {
	g := &groupServer{fakeServer: w.fake(addr)}
	g.fakeServer.reply[remoting.ReqRegisterBroker] = func(r *remoting.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		r.Reply(0, "", g.reply, nil)
	}
	g.fakeServer.reply[remoting.ReqBrokerHeartbeat] = func(r *remoting.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.beats = append(g.beats, r.Ext.Map())
		r.Reply(0, "", nil, nil)
	}
	g.fakeServer.reply[remoting.ReqGetBrokerMemberGroup] = func(r *remoting.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.asked++
		if g.group == nil {
			r.Reply(remoting.CodeRequestCodeNotSupported, "no", nil, nil)
			return
		}
		addrs, err := json.Marshal(g.group)
		if err != nil {
			panic(err)
		}
		r.Reply(0, "", nil, fmt.Appendf(nil, `{"brokerMemberGroup":{"brokerAddrs":%s,"brokerName":"broker-a","cluster":"C"}}`, addrs))
	}
	return g
}

func (g *groupServer) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (w *world) learned() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.master)
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stand = standing{Role: Slave, ID: 2}
		ns := w.groupServer("ns:1")
		stop := w.run(w.registrar("ns:1", "away:1"))
		pass(10*time.Second + time.Second/2)
		ns.set(func() {
			if len(ns.beats) != 10 {
				t.Fatalf("%d heartbeats in 10 s", len(ns.beats))
			}
			want := map[string]string{"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "brokerId": "2", "heartbeatTimeoutMills": "10000"}
			if !maps.Equal(ns.beats[3], want) {
				t.Errorf("heartbeat %v", ns.beats[3])
			}
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A slave learns its master from the answer to its registration, and registers at
// once when the members of its name show another one, or not itself.
func TestSlaveLearnsItsMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stand = standing{Role: Slave, ID: 1, Epoch: 7}
		ns := w.groupServer("ns:1")
		ns.group = map[int64]string{1: "10.0.0.1:10911"}
		r := w.registrar("ns:1")
		stop := w.run(r)
		pass(5 * time.Second)
		if got := w.learned(); !slices.Equal(got, []string{" "}) {
			t.Errorf("without a master it learned %q", got)
		}
		first := ns.take()
		if len(first) != 1 || first[0].ext["brokerId"] != "1" || first[0].v.StateVersion != 7 {
			t.Errorf("registrations %+v", first)
		}
		ns.set(func() {
			ns.group = map[int64]string{0: "10.0.0.5:10911", 1: "10.0.0.1:10911"}
			ns.reply = remoting.Map{"masterAddr": "10.0.0.5:10911", "haServerAddr": "10.0.0.5:10912"}
		})
		pass(1100 * time.Millisecond)
		synctest.Wait()
		if got := w.learned(); got[len(got)-1] != "10.0.0.5:10911 10.0.0.5:10912" {
			t.Errorf("learned %q", got)
		}
		w.mu.Lock()
		w.stand.Master = "10.0.0.5:10911"
		w.mu.Unlock()
		ns.take()
		pass(5 * time.Second)
		if n := len(ns.take()); n != 0 {
			t.Errorf("%d registrations with nothing new", n)
		}
		if got := r.Members(); !maps.Equal(got, ns.group) {
			t.Errorf("members %v", got)
		}
		// The nameserver forgot the slave.
		ns.set(func() { ns.group = map[int64]string{0: "10.0.0.5:10911"} })
		pass(1100 * time.Millisecond)
		synctest.Wait()
		if n := len(ns.take()); n == 0 {
			t.Error("it did not register though the nameserver does not know it")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A nameserver without 901 is asked by registrations while the master is missing.
func TestOldNameserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stand = standing{Role: Slave, ID: 1}
		ns := w.groupServer("ns:1")
		stop := w.run(w.registrar("ns:1"))
		pass(10 * time.Second)
		if n := len(ns.take()); n < 4 || n > 6 {
			t.Errorf("%d registrations in 10 s without a master", n)
		}
		w.mu.Lock()
		w.stand.MasterAlive = true
		w.mu.Unlock()
		pass(10 * time.Second)
		if n := len(ns.take()); n > 1 {
			t.Errorf("%d registrations in 10 s with a master", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A change of role is registered at once, under the new id and a version that
// nameservers take for newer.
func TestRegisterNewRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stand = standing{Role: Slave, ID: 1}
		ns := w.groupServer("ns:1")
		r := w.registrar("ns:1")
		stop := w.run(r)
		synctest.Wait()
		before := ns.take()
		w.mu.Lock()
		w.stand = standing{Role: AsyncMaster, Epoch: 3}
		w.mu.Unlock()
		r.Refresh()
		settle(t, r)
		after := ns.take()
		if len(before) != 1 || len(after) != 1 || after[0].ext["brokerId"] != "0" || after[0].v.StateVersion != 3 || len(after[0].topics) != 3 {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestResetMasterFlushOffset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.startSlave()
		p.caughtUp()
		reset := func(r *rig, v string) *remoting.Response {
			return r.call(remoting.ReqResetMasterFlushOffset, map[string]string{"masterFlushOffset": v}, nil)
		}
		p.s.wants(reset(p.s, "4711"), 0, "")
		p.s.wants(reset(p.s, "-1"), remoting.CodeInvalidParameter, "masterFlushOffset is negative")
		p.s.wants(reset(p.s, "x"), remoting.CodeSystemError, "field masterFlushOffset")
		p.m.wants(reset(p.m, "4711"), 0, "")
		if got := p.haStatus(p.s).HAClientRuntimeInfo.MasterFlushOffset; got != 4711 {
			t.Errorf("907 shows %d", got)
		}
		var h header.ResetMasterFlushOffset
		if err := h.Decode(remoting.Fields{}); err != nil || h.HasMasterFlushOffset {
			t.Errorf("%v %+v", err, h)
		}
	})
}
