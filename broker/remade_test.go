package broker

import (
	"sync"
	"testing"
	"time"
)

// TestLateConfiguration: a topic and a group were deleted and made again with other values
// while a replica that has the old ones was away: as a slave, as a former master that was
// replaced by force, or in the middle of reading the tables. What is late is not taken over
// by anybody, and a queue that has new messages begins anew everywhere.
func TestLateConfiguration(t *testing.T) {
	remake := func(r *rig) {
		t.Helper()
		r.wants(r.call(215, map[string]string{"topic": "T"}, nil), 0, "")
		r.wants(r.call(207, map[string]string{"groupName": "G"}, nil), 0, "")
		r.wants(r.createTopic("T", 2), 0, "")
		r.wants(r.call(200, nil, []byte(`{"groupName":"G","retryMaxTimes":3}`)), 0, "")
		r.mustSend("T", 0, "anew")
	}
	same := func(t *testing.T, p *pair) {
		t.Helper()
		p.caughtUp()
		<-time.After(3 * time.Second)
		for who, r := range map[string]*rig{"master": p.m, "slave": p.s} {
			c, g := r.b.topics.Get("T"), r.b.groups.Get("G")
			if c == nil || c.ReadQueueNums != 2 || g == nil || g.RetryMaxTimes != 3 {
				t.Errorf("the %s has %+v and %+v", who, c, g)
			}
			if q := r.b.store.Lookup([]byte("T"), 0); q == nil || q.Min() != 0 || q.Max() != 1 {
				t.Errorf("the %s's queue is not the new one: %+v", who, q)
			}
		}
		_, m := p.m.b.topics.All()
		if _, s := p.s.b.topics.All(); m != s {
			t.Errorf("versions %v and %v", m, s)
		}
	}
	begin := func(t *testing.T) *pair {
		p := newPair(t)
		p.startMaster(switchable)
		p.m.wants(p.m.createTopic("T", 4), 0, "")
		p.m.wants(p.m.call(200, nil, []byte(`{"groupName":"G","retryMaxTimes":9}`)), 0, "")
		for q := range 4 {
			p.m.mustSend("T", q, "old")
			p.m.mustSend("T", q, "old")
		}
		p.startSlave(switchable)
		p.caughtUp()
		<-time.After(2 * time.Second)
		if c := p.s.b.topics.Get("T"); c == nil || c.ReadQueueNums != 4 {
			t.Fatalf("the slave begins with %+v", c)
		}
		return p
	}
	t.Run("the slave was away", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := begin(t)
			p.s.stop()
			remake(p.m)
			p.startSlave(switchable)
			same(t, p)
		})
	})
	t.Run("the former master comes back", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := begin(t)
			p.m.stop()
			p.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
			remake(p.s)
			p.lookedAround()
			p.startMaster(switchable)
			p.m, p.s = p.s, p.m
			same(t, p)
		})
	})
	t.Run("while the slave reads", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := begin(t)
			var rounds sync.WaitGroup
			for i := range 20 {
				rounds.Go(func() { _ = p.s.b.sync.ExchangeNow(t.Context()) })
				remake(p.m)
				<-time.After(time.Duration(i%3) * time.Millisecond)
			}
			rounds.Wait()
			same(t, p)
		})
	})
}
