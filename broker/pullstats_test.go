package broker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// noted counts one pull.
func noted(s *pullStats, now int64, group string, conn uint64, offset int64, a pullAnswer) {
	s.note(&pullNote{group: []byte(group), topic: []byte("t"), queue: 1, conn: conn, self: 0, offset: offset, answer: &a,
		slow: a.why == behindLimit, behind: 10_000 - offset, phys: offset, nowMillis: now})
}

func TestPullStatsWindow(t *testing.T) {
	s := newPullStats(time.Minute, 0)
	for i := range int64(120) { // one a second
		a := pullAnswer{next: i + 1, why: withinMemory}
		if i%4 == 0 {
			a.suggest, a.why = 1, behindLimit
		}
		noted(s, i*1000, "g", 1, i*10, a)
	}
	all := s.figures("", "", 0, 119_999)
	if len(all) != 1 {
		t.Fatalf("%d rows", len(all))
	}
	f := all[0]
	if f.pulls != 60 || f.suggested[1] != 15 || f.suggested[0] != 45 || f.slow != 15 || f.reasons[behindLimit] != 15 {
		t.Errorf("%+v", f)
	}
	if f.windowMillis != 60_000 || f.coveredMillis != 59_999 || f.behind != 10_000-1190 || f.phys != 1190 {
		t.Errorf("%+v", f)
	}
	if f := s.figures("g", "t", 10*time.Second, 119_999)[0]; f.pulls != 10 || f.windowMillis != 10_000 {
		t.Errorf("ten seconds: %+v", f)
	}
	if len(s.figures("h", "", 0, 119_999)) != 0 || len(s.figures("", "", 0, 300_000)) != 0 {
		t.Error("rows of other groups or times")
	}
	s.setWindow(10 * time.Minute)
	if len(s.figures("", "", 0, 119_999)) != 0 {
		t.Error("counts of another window are shown")
	}
	noted(s, 121_000, "g", 1, 0, pullAnswer{})
	if f := s.figures("", "", 0, 121_000)[0]; f.pulls != 1 || f.windowMillis != 600_000 || f.coveredMillis != 121_000 {
		t.Errorf("after a change of the window: %+v", f)
	}
}

// TestPullStatsFollowed: a client that pulls here again for the very offset did not
// go where it was sent; one that comes back further on did.
func TestPullStatsFollowed(t *testing.T) {
	there := func(next int64) pullAnswer { return pullAnswer{next: next, suggest: 1, why: behindLimit} }
	cases := []struct {
		name  string
		pulls func(s *pullStats)
		want  string
	}{
		{"went away", func(s *pullStats) { noted(s, 1, "g", 1, 0, there(8)) }, "true"},
		{"stays", func(s *pullStats) {
			for i := range int64(5) {
				noted(s, i, "g", 1, i*8, there(i*8+8))
			}
		}, "false"},
		{"back further on", func(s *pullStats) {
			for i := range int64(5) {
				noted(s, i, "g", 1, i*80, there(i*80+8))
			}
		}, "true"},
		{"another client of that queue", func(s *pullStats) {
			for i := range int64(5) {
				noted(s, i, "g", uint64(i), i*8, there(i*8+8))
			}
		}, "true"},
		{"told to stay", func(s *pullStats) {
			for i := range int64(5) {
				noted(s, i, "g", 1, i*8, pullAnswer{next: i*8 + 8})
			}
		}, "true"},
		{"nothing was suggested", func(s *pullStats) { noted(s, 1, "g", 1, 0, pullAnswer{why: slaveReadDisabled}) }, "nil"},
		{"the named broker serves no reads", func(s *pullStats) { noted(s, 1, "g", 1, 0, pullAnswer{why: slaveUnreadable}) }, "nil"},
		{"it stopped serving", func(s *pullStats) {
			noted(s, 1, "g", 1, 0, there(8))
			noted(s, 2, "g", 1, 80, pullAnswer{why: slaveDead})
		}, "true"},
	}
	for _, c := range cases {
		s := newPullStats(time.Minute, 0)
		c.pulls(s)
		f := s.figures("", "", 0, 100)
		got := "nil"
		if p := f[0].followed(); p != nil {
			got = fmt.Sprint(*p)
		}
		if got != c.want {
			t.Errorf("%s: followed %s, want %s (%+v)", c.name, got, c.want, f[0])
		}
	}
}

// TestPullStatsIDs: more ids than a part tells apart are summed.
func TestPullStatsIDs(t *testing.T) {
	s := newPullStats(time.Minute, 0)
	for id := range int64(10) {
		noted(s, 1, "g", 1, 0, pullAnswer{suggest: id, why: behindLimit})
	}
	f := s.figures("", "", 0, 1)[0]
	if f.pulls != 10 || f.suggested[0] != 1 || f.suggested[2] != 1 || f.suggested[-1] != 7 {
		t.Errorf("%v", f.suggested)
	}
}

// TestPullStatsBounded: names and queues that clients make up cost no memory
// without end, and the newest are kept.
func TestPullStatsBounded(t *testing.T) {
	s := newPullStats(time.Minute, 0)
	const names = 3 * pullShards * shardRows
	for i := range names {
		a := pullAnswer{}
		s.note(&pullNote{group: fmt.Appendf(nil, "g%d", i), topic: []byte("t"), queue: int32(i * 7), answer: &a, nowMillis: int64(i)})
	}
	rows := 0
	for i := range s.shards {
		rows += len(s.shards[i].rows)
	}
	if rows > pullShards*shardRows {
		t.Errorf("%d rows", rows)
	}
	if q := s.queues.Load(); q > allQueues || q < 0 {
		t.Errorf("%d queues", q)
	}
	if f := s.figures(fmt.Sprintf("g%d", names-1), "", 0, names); len(f) != 1 {
		t.Error("the newest row is gone")
	}
	for _, q := range []int32{-1, rowQueues, 1 << 30} {
		a := pullAnswer{why: redirectedToMaster}
		s.note(&pullNote{group: []byte("g"), topic: []byte("t"), queue: q, self: 1, answer: &a})
		if s.returned([]byte("g"), []byte("t"), q, 0, 0, 0) {
			t.Errorf("queue %d is remembered", q)
		}
	}
}

func TestPullStatsAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations say nothing under the race detector")
	}
	s := newPullStats(time.Minute, 0)
	group, topic := []byte("order_consumer"), []byte(strings.Repeat("orders", 5))
	a := pullAnswer{next: 1}
	n := pullNote{group: group, topic: topic, queue: 3, conn: 1, answer: &a}
	if got := testing.AllocsPerRun(1000, func() {
		n.nowMillis += 777
		s.note(&n)
		s.returned(group, topic, 3, 1, 1, n.nowMillis)
	}); got != 0 {
		t.Errorf("%v allocations for a pull", got)
	}
}

func BenchmarkPullStats(b *testing.B) {
	s := newPullStats(time.Minute, 0)
	b.ReportAllocs()
	var turn atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		i := turn.Add(1)
		group, topic := fmt.Appendf(nil, "group-%d", i), []byte("orders")
		a := pullAnswer{next: 1}
		n := pullNote{group: group, topic: topic, conn: uint64(i), answer: &a}
		for pb.Next() {
			n.nowMillis, n.queue = n.nowMillis+1, int32(n.nowMillis%8)
			s.note(&n)
		}
	})
}
