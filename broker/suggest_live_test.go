package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// heldPull is a pull under way.
type heldPull struct {
	t     *testing.T
	begin time.Time
	done  chan *remoting.Response
}

// hold pulls group g of Split/0 at offset, and waits until the broker holds or has
// answered it.
func (r *rig) hold(t *testing.T, c *remoting.Client, offset int64, millis string) *heldPull {
	h := &heldPull{t: t, begin: time.Now(), done: make(chan *remoting.Response, 1)}
	go func() {
		h.done <- r.callOn(c, mainAddr, 11, pullExt("g", "Split", 0, offset, "sysFlag", "6", "suspendTimeoutMillis", millis), nil)
	}()
	synctest.Wait()
	return h
}

// wants checks the answer and how long it took.
func (h *heldPull) wants(code int, suggest string, took time.Duration) *remoting.Response {
	h.t.Helper()
	resp := <-h.done
	if resp.Code != code || resp.Ext["suggestWhichBrokerId"] != suggest {
		h.t.Errorf("%d %q, suggesting %q; want %d and %q", resp.Code, resp.Remark, resp.Ext["suggestWhichBrokerId"], code, suggest)
	}
	if d := time.Since(h.begin); d != took {
		h.t.Errorf("answered after %v, want %v", d, took)
	}
	return resp
}

func (r *rig) setGroup(brokerID, slow int64) {
	c := subgroup.Defaults("g")
	c.BrokerID, c.WhichBrokerWhenConsumeSlowly = brokerID, slow
	r.putGroup(c)
}

func (r *rig) setLive(f func(*Reloadable)) {
	l := r.b.live.Load().Reloadable
	f(&l)
	r.b.reload(l)
}

// TestHeldPullsHearOfChanges: whatever changes where a client should pull answers
// its held pull at once with the new place.
func TestHeldPullsHearOfChanges(t *testing.T) {
	slave := func(alive bool) standing { return standing{Role: Slave, ID: 1, MasterAlive: alive} }
	peer := func(alive, readable bool) map[int64]replicaPeer {
		return map[int64]replicaPeer{1: {ID: 1, Alive: alive, Readable: readable}}
	}
	cases := []struct {
		name    string
		before  func(r *rig)
		change  func(r *rig)
		code    int
		suggest string
	}{
		{"slaveReadEnable comes on", func(r *rig) { r.setGroup(1, 1); r.setLive(func(l *Reloadable) { l.SlaveRead = false }) },
			func(r *rig) { r.setLive(func(l *Reloadable) { l.SlaveRead = true }) }, 19, "1"},
		{"slaveReadEnable goes off", func(r *rig) { r.setGroup(1, 1) },
			func(r *rig) { r.setLive(func(l *Reloadable) { l.SlaveRead = false }) }, 19, "0"},
		{"the ratio", nil, func(r *rig) { r.setLive(func(l *Reloadable) { l.MemoryRatio = 41 }) }, 19, "0"},
		{"the memory that it refers to", nil, func(r *rig) { r.setLive(func(l *Reloadable) { l.MemoryBytes = 1 << 30 }) }, 19, "0"},
		{"the group's brokerId", nil, func(r *rig) { r.setGroup(1, 1) }, 19, "1"},
		{"the group's whichBrokerWhenConsumeSlowly", nil, func(r *rig) { r.setGroup(0, 0) }, 19, "0"},
		{"the slave dies", func(r *rig) { r.setGroup(1, 1) }, func(r *rig) { r.b.setPeers(peer(false, true)) }, 19, "0"},
		{"the slave refuses reads", func(r *rig) { r.setGroup(1, 1) }, func(r *rig) { r.b.setPeers(peer(true, false)) }, 19, "0"},
		{"the slave comes back", func(r *rig) { r.setGroup(1, 1); r.b.setPeers(nil) }, func(r *rig) { r.b.setPeers(peer(true, true)) }, 19, "1"},
		{"the master becomes a slave", nil, func(r *rig) { r.become(slave(true)) }, 19, "0"},
		{"the slave's master dies", func(r *rig) { r.become(slave(true)) }, func(r *rig) { r.become(slave(false)) }, 19, "1"},
		{"the slave's master returns", func(r *rig) { r.become(slave(false)) }, func(r *rig) { r.become(slave(true)) }, 19, "0"},
		{"the slave is promoted", func(r *rig) { r.become(slave(false)) }, func(r *rig) { r.become(standing{}) }, 19, "0"},
		{"the slave stops serving reads", func(r *rig) { r.become(slave(true)) },
			func(r *rig) { r.setLive(func(l *Reloadable) { l.SlaveRead = false }) }, 2, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSplitRig(t)
				r := s.master
				r.fill("Split", 0, 20)
				s.acked = r.b.store.Positions().Max
				r.setGroup(0, 1)
				r.setLive(func(l *Reloadable) { l.SlaveRead = true })
				r.b.setPeers(peer(true, true))
				if c.before != nil {
					c.before(r)
				}
				h := r.hold(t, r.client, 20, "15000")
				<-time.After(time.Second)
				c.change(r)
				h.wants(c.code, c.suggest, time.Second)
			})
		})
	}
}

// TestUnchangedPeersWakeNobody: news of the peers that change no suggestion leave
// held pulls alone.
func TestUnchangedPeersWakeNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSplitRig(t)
		r := s.master
		r.fill("Split", 0, 1)
		r.b.setPeers(map[int64]replicaPeer{1: {ID: 1, Addr: "a:1", Alive: true}})
		h := r.hold(t, r.client, 1, "3000")
		r.b.setPeers(map[int64]replicaPeer{1: {ID: 1, Addr: "a:2", Alive: true}})
		h.wants(19, "0", 3*time.Second)
	})
}

// TestLoneSlave: without its master a slave holds what it lacks, and names itself.
func TestLoneSlave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSplitRig(t)
		r := s.slave
		r.fill("Split", 0, 20)
		r.setGroup(0, 1)
		r.setLive(func(l *Reloadable) { l.SlaveRead = true })
		r.become(standing{Role: Slave, ID: 1})
		for _, offset := range []int64{20, 21, 1000, -1} {
			for range 3 {
				resp := r.hold(t, r.client, offset, "4000").wants(19, "1", 4*time.Second)
				if resp.Ext["nextBeginOffset"] != fmt.Sprint(offset) {
					t.Errorf("at %d: next %s", offset, resp.Ext["nextBeginOffset"])
				}
			}
		}
		resp, _ := r.pull("new", "Split", 0, 0) // a group that the master would have made
		r.wants(resp, 0, "FOUND")
		if r.b.groups.Get("new") != nil {
			t.Error("a slave made a group")
		}
		resp, _ = r.pull("g", "Split", 0, 1000) // may not be held
		r.wants(resp, 19, "OFFSET_OVERFLOW_BADLY")
		h := r.hold(t, r.client, 1000, "15000")
		<-time.After(time.Second)
		r.become(standing{Role: Slave, ID: 1, MasterAlive: true})
		h.wants(19, "0", time.Second) // the master is back
	})
}

// TestLaggingSlaveMakesNoLoop: who is sent to the master and comes back at once
// is held, however many clients there are.
func TestLaggingSlaveMakesNoLoop(t *testing.T) {
	begin := func(t *testing.T) *rig {
		s := newSplitRig(t)
		r := s.slave
		r.fill("Split", 0, 20)
		r.setGroup(1, 1)
		r.setLive(func(l *Reloadable) { l.SlaveRead = true })
		r.become(standing{Role: Slave, ID: 1, MasterAlive: true})
		return r
	}
	t.Run("one client", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := begin(t)
			r.hold(t, r.client, 30, "4000").wants(20, "0", 0)
			for range 5 {
				r.hold(t, r.client, 30, "4000").wants(19, "0", 4*time.Second)
			}
			<-time.After(3 * time.Second) // it was at the master meanwhile
			r.hold(t, r.client, 30, "4000").wants(20, "0", 0)
			r.hold(t, r.client, 31, "4000").wants(20, "0", 0)
		})
	})
	t.Run("unknown topic", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := begin(t)
			resp, _ := r.pull("g", "Unknown", 0, 5)
			r.wants(resp, 20, "NO_MATCHED_LOGIC_QUEUE")
			resp, _ = r.pull("g", "Unknown", 0, 5)
			r.wants(resp, 17, "topic[Unknown] not exist")
		})
	})
	t.Run("many clients", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := begin(t)
			a, b := r.newClient(remoting.JSON), r.newClient(remoting.JSON)
			defer a.Close()
			defer b.Close()
			redirects, begun := 0, time.Now()
			for range 100 {
				for _, c := range []*remoting.Client{a, b} {
					if resp := r.callOn(c, mainAddr, 11, pullExt("g", "Split", 0, 30, "sysFlag", "6", "suspendTimeoutMillis", "200"), nil); resp.Code == 20 {
						redirects++
					}
				}
			}
			// 200 pulls at once would take no time. Held ones let at most mostRedirects
			// through in a second.
			if most := mostRedirects * int(time.Since(begun)/time.Second+1); redirects > most {
				t.Errorf("%d redirects, at most %d should be", redirects, most)
			}
		})
	})
}

// TestSlaveReportsReset: a server-side reset reaches the client wherever it pulls.
func TestSlaveReportsReset(t *testing.T) {
	for _, st := range []standing{{}, {Role: Slave, ID: 1, MasterAlive: true}, {Role: Slave, ID: 1}} {
		inBubble(t, func(t *testing.T) {
			s := newSplitRig(t)
			r := s.slave
			r.fill("Split", 0, 20)
			r.setLive(func(l *Reloadable) { l.SlaveRead = true })
			r.setGroup(0, 1)
			r.become(st)
			r.b.offsets.Reset("g", "Split", 0, 7, true)
			resp, _ := r.pull("g", "Split", 0, 15)
			r.wants(resp, 21, "OFFSET_RESET")
			if resp.Ext["nextBeginOffset"] != "7" {
				t.Errorf("%v: next %s, want 7", st, resp.Ext["nextBeginOffset"])
			}
			resp, _ = r.pull("g", "Split", 0, 15)
			r.wants(resp, 0, "FOUND")
		})
	}
}

// TestEffectiveRatio: a slave compares with ten less, the configuration shows the
// full value, and a promotion brings it back.
func TestEffectiveRatio(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newSplitRig(t).slave
		limit := func(ratio int64) int64 { return r.b.store.MemoryBytes() / 100 * ratio }
		near := func(got, want int64) bool { return got-want < 100 && want-got < 100 }
		for _, c := range []struct {
			st   standing
			set  int
			want int64
		}{{standing{}, 40, 40}, {standing{Role: Slave, ID: 1}, 40, 30}, {standing{Role: Slave, ID: 1}, 5, 0}, {standing{}, 5, 5}} {
			r.become(c.st)
			r.setLive(func(l *Reloadable) { l.MemoryRatio = c.set })
			if got := r.b.store.MemoryLimit(); !near(got, limit(c.want)) || r.b.live.Load().MemoryRatio != c.set {
				t.Errorf("%v, %d %%: limit %d, want %d", c.st.Role, c.set, got, limit(c.want))
			}
		}
	})
}

// TestMemoryLimit: memoryLimitForRatio acts with the next pull, in both directions, and
// 0 is the machine's memory again.
func TestMemoryLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSplitRig(t)
		r := s.master
		r.fill("Split", 0, 20)
		s.acked = r.b.store.Positions().Max
		r.setGroup(0, 1)
		r.b.setPeers(map[int64]replicaPeer{1: {ID: 1, Alive: true, Readable: true}})
		r.setLive(func(l *Reloadable) { l.SlaveRead = true })
		for _, c := range []struct {
			bytes int64
			want  string
		}{{0, "0"}, {1000, "1"}, {1 << 30, "0"}, {1000, "1"}, {0, "0"}} {
			r.setLive(func(l *Reloadable) { l.MemoryBytes = c.bytes })
			if resp, _ := r.pull("g", "Split", 0, 0, "maxMsgNums", "1"); resp.Ext["suggestWhichBrokerId"] != c.want {
				t.Errorf("with %d bytes: broker %s is suggested, want %s", c.bytes, resp.Ext["suggestWhichBrokerId"], c.want)
			}
			if got := r.b.store.MemoryBytes(); c.bytes > 0 && got != c.bytes || c.bytes == 0 && got < 1<<28 {
				t.Errorf("%d bytes became %d", c.bytes, got)
			}
		}
		if k := LookupKey("memoryLimitForRatio"); k.Applies != Live {
			t.Errorf("it acts %s", k.Applies)
		}
	})
}

// TestDecide is what no recording shows.
func TestDecide(t *testing.T) {
	peers := func(list ...replicaPeer) map[int64]replicaPeer {
		m := map[int64]replicaPeer{}
		for _, p := range list {
			m[p.ID] = p
		}
		return m
	}
	good := func(id int64) replicaPeer { return replicaPeer{ID: id, Alive: true, Readable: true} }
	slave := standing{Role: Slave, ID: 2, MasterAlive: true}
	cases := []struct {
		name    string
		stand   standing
		status  store.ReadStatus
		slow    bool
		b, s    int64
		peers   map[int64]replicaPeer
		acked   record.PhysOffset
		suggest int64
		why     reason
	}{
		{name: "the next id is meant", slow: true, s: 1, peers: peers(good(2)), acked: 100, suggest: 2, why: behindLimit},
		{name: "a dead 1 is not its living neighbour", slow: true, s: 1, peers: peers(replicaPeer{ID: 1, Readable: true}, good(2)), acked: 100, why: slaveDead},
		{name: "exactly what was read is held", slow: true, s: 1, peers: peers(good(1)), acked: 50, suggest: 1, why: behindLimit},
		{name: "a byte less", slow: true, s: 1, peers: peers(good(1)), acked: 49, why: slaveBehind},
		{name: "nobody is known", slow: true, s: 1, why: brokerIDMissing},
		{name: "reads off there", b: 1, peers: peers(replicaPeer{ID: 1, Alive: true}), acked: 100, why: slaveUnreadable},
		{name: "slow, but the master is named", slow: true, s: 0, peers: peers(good(1)), acked: 100, why: behindLimit},
		{name: "a slave is itself", stand: slave, slow: true, s: 2, suggest: 2, why: behindLimit},
		{name: "a slave is the next of what is named", stand: slave, slow: true, s: 1, suggest: 2, why: behindLimit},
		{name: "a slave leaves others to the master", stand: slave, slow: true, s: 1, peers: peers(good(1)), why: brokerIDMissing},
		{name: "a slave without master", stand: standing{Role: Slave, ID: 2}, slow: true, s: 0, suggest: 2, why: masterDead},
		{name: "a reset on a master", status: store.OffsetReset, why: offsetMoved},
	}
	for _, c := range cases {
		g := subgroup.Defaults("g")
		g.BrokerID, g.WhichBrokerWhenConsumeSlowly = c.b, c.s
		a := decide(&pullFacts{stand: &c.stand, live: &live{Reloadable: Reloadable{SlaveRead: true}}, group: &g, peers: c.peers,
			acked: func(int64) (record.PhysOffset, bool) { return c.acked, true }, status: c.status, offset: 5, next: 6, slow: c.slow, need: 50})
		if a.suggest != c.suggest || a.why != c.why {
			t.Errorf("%s: %d because of %v, want %d because of %v", c.name, a.suggest, a.why, c.suggest, c.why)
		}
	}
}

// TestChangeWhileParking: a change between a pull's decision and its being held
// still answers it.
func TestChangeWhileParking(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newSplitRig(t).master
		r.fill("Split", 0, 1)
		r.setGroup(0, 1)
		changed := false
		now := r.b.pulls.steady
		r.b.pulls.steady = func() time.Time { // read by park, after the decision
			if r.b.pulls.holds.Len() == 0 && !changed {
				changed = true
				r.setLive(func(l *Reloadable) { l.SlaveRead = true })
			}
			return now()
		}
		r.hold(t, r.client, 1, "15000").wants(19, "0", 0)
	})
}
