package replication

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/record"
)

// rig is a master whose slaves a test plays.
type rig struct {
	*node
	pn      *pipeNet
	changes atomic.Int64 // that were told
}

func newRig(t *testing.T, change ...func(*MasterOptions)) *rig {
	r := &rig{node: newNode(t, filled(10, "x")), pn: newPipeNet()}
	r.serve(r.pn, "m", append(change, func(o *MasterOptions) { o.Changed = func() { r.changes.Add(1) } })...)
	return r
}

// join connects slave id, which is of ours and up to date.
func (r *rig) join(id int64) *peer {
	a := r.m.Attach(netip.AddrPort{}, AttachRequest{BrokerName: "broker-a", BrokerID: id, SegmentBytes: testSeg, Min: 0, End: r.log.end()})
	nc, err := r.pn.dial(context.Background(), "m")
	if err != nil {
		r.t.Fatal(err)
	}
	p := newPeer(nc)
	if err := (*Auth)(nil).greet(nc, a.Token); err != nil {
		r.t.Fatal(err)
	}
	p.report(r.log.end())
	synctest.Wait()
	return p
}

func (r *rig) change(f func(*Settings)) {
	st := *r.set.Load()
	f(&st)
	r.set.Store(&st)
}

type result struct {
	ack   Ack
	after time.Duration
	done  bool
}

// send appends a message and waits for it as a sync master does.
func (r *rig) send() *result {
	res := &result{}
	if a := r.m.Admit(); a == NotEnoughSync {
		res.ack, res.done = a, true
		return res
	}
	end, began := r.put("m"), time.Now()
	r.m.Wait(end, waiterFunc(func(a Ack) { *res = result{a, time.Since(began), true} }))
	synctest.Wait() // the slaves have it
	return res
}

func (res *result) want(t *testing.T, ack Ack, after time.Duration) {
	t.Helper()
	synctest.Wait()
	if !res.done || res.ack != ack || res.after != after {
		t.Fatalf("%+v, expected %d after %v", *res, ack, after)
	}
}

func TestWaitRules(t *testing.T) {
	bubble := func(name string, f func(t *testing.T, r *rig), change ...func(*MasterOptions)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, change...)
				defer func() { r.stop() }()
				f(t, r)
			})
		})
	}
	bubble("no slave: 11 at once", func(t *testing.T, r *rig) {
		if a := r.m.Admit(); a != NoSlave {
			t.Fatal(a)
		}
		r.send().want(t, NoSlave, 0)
	})
	bubble("one replica is enough", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.InSyncReplicas = 1 })
		if a := r.m.Admit(); a != Replicated {
			t.Fatal(a)
		}
		r.send().want(t, Replicated, 0)
	})
	bubble("below the minimum nothing is appended", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.MinInSyncReplicas = 2 })
		r.send().want(t, NotEnoughSync, 0)
		p := r.join(1)
		res := r.send()
		p.report(r.log.end())
		res.want(t, Replicated, 0)
	})
	bubble("unknown slaves do not count", func(t *testing.T, r *rig) {
		nc, _ := r.pn.dial(context.Background(), "m")
		p := newPeer(nc)
		p.report(r.log.end())
		synctest.Wait()
		r.send().want(t, NoSlave, 0)
		if st := r.m.Status(); len(st.Slaves) != 1 || st.InSync != 0 || st.Slaves[0].Known {
			t.Fatalf("%+v", st)
		}
	})
	var known atomic.Bool
	bubble("but do once their registration is known", func(t *testing.T, r *rig) {
		nc, _ := r.pn.dial(context.Background(), "m")
		p := newPeer(nc)
		p.report(r.log.end())
		synctest.Wait()
		known.Store(true)
		<-time.After(1100 * time.Millisecond)
		res := r.send()
		p.report(r.log.end())
		res.want(t, Replicated, 0)
	}, func(o *MasterOptions) {
		o.Identify = func(netip.AddrPort) (Peer, bool) { return Peer{ID: 7, Addr: "slave:1"}, known.Load() }
	})
	bubble("partial acknowledgement, then all", func(t *testing.T, r *rig) {
		p := r.join(1)
		before := r.log.end()
		one, two := r.send(), r.send()
		p.report(before)
		synctest.Wait()
		if one.done || two.done {
			t.Fatal(one, two)
		}
		<-time.After(time.Second)
		p.report(r.log.end())
		one.want(t, Replicated, time.Second)
		two.want(t, Replicated, time.Second)
	})
	bubble("two sockets of one slave count once, the newest wins", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.InSyncReplicas = 3 })
		old, p := r.join(1), r.join(1)
		if !old.isClosed() || p.isClosed() {
			t.Fatal(old.isClosed(), p.isClosed())
		}
		res := r.send()
		p.report(r.log.end())
		synctest.Wait()
		if res.done {
			t.Fatal(res)
		}
		q := r.join(2)
		q.report(r.log.end())
		res.want(t, Replicated, 0)
	})
	bubble("time out once, then at once until it has caught up", func(t *testing.T, r *rig) {
		changes := &r.changes
		p := r.join(1)
		res := r.send()
		<-time.After(3 * time.Second)
		res.want(t, AckTimeout, 3*time.Second)
		if st := r.m.Status(); st.InSync != 0 || st.Slaves[0].InSync || changes.Load() == 0 {
			t.Fatalf("%+v %d", st, changes.Load())
		}
		r.send().want(t, NoSlave, 0)
		changes.Store(0)
		p.report(r.log.end())
		synctest.Wait()
		if st := r.m.Status(); st.InSync != 1 || changes.Load() != 1 {
			t.Fatalf("%+v %d", st, changes.Load())
		}
		res = r.send()
		p.report(r.log.end())
		res.want(t, Replicated, 0)
	})
	bubble("too few of several: the second does not wait", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.InSyncReplicas = 3 })
		p := r.join(1)
		res := r.send()
		p.report(r.log.end())
		<-time.After(3 * time.Second)
		res.want(t, AckTimeout, 3*time.Second)
		res = r.send()
		p.report(r.log.end())
		res.want(t, AckTimeout, 0)
		q := r.join(2)
		res = r.send()
		p.report(r.log.end())
		q.report(r.log.end())
		res.want(t, Replicated, 0)
	})
	bubble("all of the set", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.AllAckInSync = true })
		p, q := r.join(1), r.join(2)
		res := r.send()
		p.report(r.log.end())
		synctest.Wait()
		if res.done {
			t.Fatal("only one of two has it")
		}
		q.report(r.log.end())
		res.want(t, Replicated, 0)
		res = r.send()
		p.report(r.log.end())
		q.Close() // it leaves the set
		res.want(t, Replicated, 0)
	})
	bubble("a slave far behind is not in the set", func(t *testing.T, r *rig) {
		r.change(func(s *Settings) { s.MaxGapNotInSync = 500 })
		r.join(1)
		for range 5 {
			r.put("async")
		}
		r.send().want(t, NoSlave, 0)
	})
	bubble("when the last slave in sync dies, what waits for it ends after a grace", func(t *testing.T, r *rig) {
		p := r.join(1)
		res := r.send()
		p.Close()
		synctest.Wait()
		r.send().want(t, NoSlave, 0)
		<-time.After(time.Second)
		res.want(t, NoSlave, noSlaveGrace)
		res = r.send()
		res.want(t, NoSlave, 0)
		p = r.join(1)
		res = r.send()
		<-time.After(3 * time.Second) // the grace is over with the first one
		res.want(t, AckTimeout, 3*time.Second)
		p.Close()
	})
	bubble("a slave that comes back within the grace acknowledges what waits", func(t *testing.T, r *rig) {
		p := r.join(1)
		res := r.send()
		p.Close()
		<-time.After(noSlaveGrace - 100*time.Millisecond)
		r.join(1)
		res.want(t, Replicated, noSlaveGrace-100*time.Millisecond)
		res = r.send()
		<-time.After(3 * time.Second)
		res.want(t, AckTimeout, 3*time.Second)
	})
	bubble("the other slave goes on acknowledging", func(t *testing.T, r *rig) {
		p, q := r.join(1), r.join(2)
		res := r.send()
		p.Close()
		<-time.After(time.Second)
		q.report(r.log.end())
		res.want(t, Replicated, time.Second)
	})
	bubble("abort", func(t *testing.T, r *rig) {
		r.join(1)
		res := r.send()
		r.m.AbortWaits()
		res.want(t, Stopped, 0)
	})
	bubble("live settings", func(t *testing.T, r *rig) {
		p := r.join(1)
		res := r.send()
		p.report(r.log.end())
		res.want(t, Replicated, 0)
		r.change(func(s *Settings) { s.InSyncReplicas = 3; s.SlaveTimeout = time.Second })
		res = r.send()
		p.report(r.log.end())
		<-time.After(time.Second)
		res.want(t, AckTimeout, time.Second)
	})
}

// TestAckNeverLies checks that a report that is out of order or beyond what was
// sent ends the connection, and raises nothing.
func TestAckNeverLies(t *testing.T) {
	for _, lie := range []func(acked, end int64) int64{
		func(_, end int64) int64 { return end + 1 },
		func(acked, _ int64) int64 { return acked - 1 },
		func(int64, int64) int64 { return 1 << 62 },
		func(int64, int64) int64 { return 0 },
		func(int64, int64) int64 { return -1 },
		func(int64, int64) int64 { return -1 << 63 },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer func() { r.stop() }()
			p := r.join(1)
			acked := r.log.end()
			res := r.send()
			p.report(lie(acked, r.log.end()))
			synctest.Wait()
			if at, ok := r.m.AckedBy(1); ok || res.done || !p.isClosed() || r.m.Status().BadPeers != 1 {
				t.Fatal(at, ok, res, r.logged())
			}
			if r.m.confirmed.Load() > acked {
				t.Fatal("it counts as replicated")
			}
		})
	}
}

func TestWaitRing(t *testing.T) {
	var r waitRing
	var want []int64
	rnd := rand.New(rand.NewPCG(1, 2))
	next := int64(0)
	for range 10000 {
		if rnd.IntN(3) > 0 {
			next += int64(rnd.IntN(10))
			end := max(0, next-int64(rnd.IntN(30)))
			r.add(wait{end: end, w: waiterFunc(func(Ack) {})})
			i, _ := slices.BinarySearch(want, end+1)
			want = slices.Insert(want, i, end)
		} else if len(want) > 0 {
			if got := r.at(r.head).end; got != want[0] {
				t.Fatal(got, want[0])
			}
			r.pop()
			want = want[1:]
		}
		if r.len() != len(want) {
			t.Fatal(r.len(), len(want))
		}
	}
}

// TestWaitAllocates asserts that a wait costs no memory.
func TestWaitAllocates(t *testing.T) {
	m := NewMaster(MasterOptions{Log: filled(3, "x"), Settings: newNode(t, nil).set.Load})
	c := &conn{m: m}
	c.peer.Store(&peerInfo{Peer: Peer{ID: 1}})
	c.started.Store(true)
	c.handed = true
	c.w = &wire{}
	c.ack.Store(int64(m.o.Log.Positions().Max))
	m.live.Store(&[]*conn{c})
	w := waiterFunc(func(Ack) {})
	end := m.o.Log.Positions().Max
	round := func() {
		c.ack.Store(int64(end))
		m.acked()
		for i := range 64 {
			m.Wait(end+record.PhysOffset(i)+1, w)
		}
		c.ack.Store(int64(end) + 100)
		m.acked()
		if m.ring.len() != 0 {
			t.Fatal(m.ring.len())
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Fatal(n, "allocations for 64 waits")
	}
}

func TestGapTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.stop() }()
		p := r.join(1)
		gap := func() (int64, time.Duration) {
			synctest.Wait()
			s := r.m.Status().Slaves[0]
			return s.Gap, s.GapTime.Round(time.Millisecond)
		}
		if g, d := gap(); g != 0 || d != 0 {
			t.Fatal(g, d)
		}
		<-time.After(10 * time.Second)
		first := r.put("one")
		<-time.After(2 * time.Second)
		r.put("two")
		synctest.Wait()
		<-time.After(3 * time.Second)
		if _, d := gap(); d != 5*time.Second {
			t.Fatal(d)
		}
		p.report(int64(first))
		if _, d := gap(); d != 3*time.Second {
			t.Fatal(d)
		}
		// Hours later the fine samples are gone; steps of seconds remain.
		for range 2 {
			for range 5000 {
				<-time.After(2 * time.Millisecond)
				r.put("x")
			}
			<-time.After(5 * time.Second)
			p.report(int64(first))
		}
		if _, d := gap(); d < 32*time.Second || d > 35*time.Second {
			t.Fatal(d)
		}
		if s := r.m.Status().Slaves[0]; s.State != Stalled {
			t.Fatal(s.State, s.Sentence)
		}
	})
}
