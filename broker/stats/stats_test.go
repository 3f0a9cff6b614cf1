package stats_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"mqctl/broker/stats"
)

type fixture struct {
	*stats.Stats
	ms atomic.Int64
}

func newFixture() *fixture {
	f := &fixture{}
	f.ms.Store(1_700_000_000_000)
	f.Stats = stats.New("golden", f.ms.Load)
	return f
}

// tick lets ten seconds pass n times.
func (f *fixture) tick(n int) {
	for range n {
		f.ms.Add(10_000)
		f.Sample()
	}
}

func view(f *fixture, name, key string) string {
	m, h, d, ok := f.View(name, key)
	if !ok {
		return "none"
	}
	text := func(s stats.Snapshot) string { return fmt.Sprintf("%d/%.4g/%.4g", s.Sum, s.TPS, s.AvgPT) }
	return text(m) + " " + text(h) + " " + text(d)
}

func TestWindows(t *testing.T) {
	f := newFixture()
	topic := []byte("orders")
	for _, name := range []string{"TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "NO_SUCH", ""} {
		if got := view(f, name, "orders"); got != "none" {
			t.Errorf("%s of an unknown topic: %s", name, got)
		}
	}
	f.tick(6)
	for range 3 {
		f.Put(topic, 1, 100)
	}
	if got := view(f, "TOPIC_PUT_NUMS", "orders"); got != "0/0/0 0/0/0 0/0/0" {
		t.Errorf("before a sample: %s", got)
	}
	f.tick(1)
	if got := view(f, "TOPIC_PUT_NUMS", "orders"); got != "3/0.3/1 3/0.3/1 3/0.3/1" {
		t.Errorf("after 10 s: %s", got)
	}
	f.tick(5)
	if got := view(f, "TOPIC_PUT_NUMS", "orders"); got != "3/0.05/1 3/0.05/1 3/0.05/1" {
		t.Errorf("after a minute: %s", got)
	}
	f.tick(1)
	if got := view(f, "TOPIC_PUT_NUMS", "orders"); got != "0/0/0 3/0.04286/1 3/0.04286/1" {
		t.Errorf("after more than a minute: %s", got)
	}
	f.Put(topic, 32, 3200) // a batch
	f.tick(60)
	if got := view(f, "TOPIC_PUT_SIZE", "orders"); got != "0/0/0 3500/5.224/875 3500/5.224/875" {
		t.Errorf("after ten minutes: %s", got)
	}
	f.tick(360)
	if got := view(f, "TOPIC_PUT_NUMS", "orders"); got != "0/0/0 0/0/0 35/0.008197/8.75" {
		t.Errorf("after more than an hour: %s", got)
	}
	if got := f.TopicPutTPS("orders"); got != 0 {
		t.Errorf("TPS %v", got)
	}
	f.Put(topic, 60, 1)
	f.tick(6)
	if got := f.TopicPutTPS("orders"); got != 1 {
		t.Errorf("TPS %v", got)
	}
}

func TestNames(t *testing.T) {
	f := newFixture()
	f.Put([]byte("orders"), 2, 20)
	f.Put([]byte("BenchmarkTest"), 5, 50) // a system topic
	f.Got([]byte("orders"), []byte("billing"), 3, 30)
	f.Got([]byte("rmq_sys_x"), []byte("billing"), 1, 10)
	f.SentBack("orders", "billing")
	f.DLQ("orders", "billing")
	f.DLQ("orders", "billing")
	f.tick(1)
	for _, c := range []struct {
		name, key string
		want      int64
	}{
		{"TOPIC_PUT_NUMS", "orders", 2}, {"TOPIC_PUT_SIZE", "orders", 20}, {"TOPIC_PUT_NUMS", "BenchmarkTest", 5},
		{"GROUP_GET_NUMS", "orders@billing", 3}, {"GROUP_GET_SIZE", "orders@billing", 30},
		{"SNDBCK_PUT_NUMS", "orders@billing", 1}, {"DLQ_PUT_NUMS", "orders@billing", 2},
		{"BROKER_PUT_NUMS", "golden", 7}, {"BROKER_GET_NUMS", "golden", 4},
		{"BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "golden", 2}, {"BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "golden", 3},
		{"BROKER_PUT_NUMS", "other", -1}, {"GROUP_GET_NUMS", "orders", -1}, {"GROUP_GET_NUMS", "orders@x", -1},
		{"GROUP_GET_NUMS", "x@billing", -1}, {"SNDBCK_PUT_NUMS", "rmq_sys_x@billing", -1}, {"TOPIC_PUT_NUMS", "rmq_sys_x", -1},
	} {
		m, _, _, ok := f.View(c.name, c.key)
		if ok != (c.want >= 0) || ok && m.Sum != c.want {
			t.Errorf("%s of %s: %d %v, want %d", c.name, c.key, m.Sum, ok, c.want)
		}
	}
	if got := f.GroupTPS("orders", "billing"); got != 0.3 {
		t.Errorf("TPS %v", got)
	}
}

func TestTPS(t *testing.T) {
	f := newFixture()
	check := func(put, found, miss, total, transferred string) {
		t.Helper()
		a, b, c, d, e := f.TPS()
		if a != put || b != found || c != miss || d != total || e != transferred {
			t.Errorf("put %q, found %q, miss %q, total %q, transferred %q", a, b, c, d, e)
		}
	}
	check("0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0")
	f.Put([]byte("orders"), 60, 1)
	f.Got([]byte("orders"), []byte("g"), 32, 1)
	f.GetMiss()
	f.tick(1)
	check("6.0 6.0 6.0", "0.1 0.1 0.1", "0.1 0.1 0.1", "0.2 0.2 0.2", "3.2 3.2 3.2")
	f.tick(5)
	check("0.0 1.0 1.0", "0.0 0.016666666666666666 0.016666666666666666", "0.0 0.016666666666666666 0.016666666666666666",
		"0.0 0.03333333333333333 0.03333333333333333", "0.0 0.5333333333333333 0.5333333333333333")
	f.tick(54)
	check("0.0 0.0 0.1", "0.0 0.0 0.0016666666666666668", "0.0 0.0 0.0016666666666666668", "0.0 0.0 0.0033333333333333335", "0.0 0.0 0.05333333333333334")
	f.tick(1)
	check("0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0", "0.0 0.0 0.0")
}

func TestTotals(t *testing.T) {
	f := newFixture()
	check := func(want ...int64) {
		t.Helper()
		a, b, c, d, e, g := f.Totals()
		if got := []int64{a, b, c, d, e, g}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("totals %v, want %v", got, want)
		}
	}
	f.Put([]byte("a"), 5, 1)
	f.Got([]byte("a"), []byte("g"), 2, 1)
	check(5, 0, 0, 2, 0, 0)
	f.Roll()
	f.Put([]byte("a"), 1, 1)
	check(6, 5, 0, 2, 2, 0)
	f.Roll()
	check(6, 6, 5, 2, 2, 2)
}

func TestIdleKeysGo(t *testing.T) {
	f := newFixture()
	f.Put([]byte("quiet"), 1, 1)
	f.Got([]byte("busy"), []byte("gone"), 1, 1)
	for range 26 {
		f.Put([]byte("busy"), 1, 1)
		f.tick(360)
	}
	if view(f, "TOPIC_PUT_NUMS", "quiet") != "none" || view(f, "GROUP_GET_NUMS", "busy@gone") != "none" {
		t.Error("after 26 hours of silence the items are still there")
	}
	if got := view(f, "TOPIC_PUT_NUMS", "busy"); got == "none" {
		t.Error("a busy topic was dropped")
	}
}

func TestKeysAreBounded(t *testing.T) {
	f := newFixture()
	f.Bound(20)
	for i := range 25 {
		f.Put(fmt.Appendf(nil, "t%d", i), 1, 1)
	}
	if view(f, "TOPIC_PUT_NUMS", "t19") == "none" || view(f, "TOPIC_PUT_NUMS", "t20") != "none" {
		t.Error("the bound is not where it should be")
	}
	f.Got([]byte("t1"), []byte("g"), 1, 1)
	f.SentBack("t30", "g")
	if view(f, "GROUP_GET_NUMS", "t1@g") != "none" {
		t.Error("a group was added past the bound")
	}
	if put, _, _, got, _, _ := f.Totals(); put != 25 || got != 1 {
		t.Errorf("totals %d, %d", put, got)
	}
}

func TestConcurrent(t *testing.T) {
	f := newFixture()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				topic := fmt.Appendf(nil, "t%d", i%7)
				f.Put(topic, 2, 1)
				f.Got(topic, fmt.Appendf(nil, "g%d", (i+w)%5), 3, 1)
				f.GetMiss()
				if i%100 == 0 {
					f.tick(1)
					f.View("TOPIC_PUT_NUMS", "t1")
					f.TPS()
					f.Roll()
				}
			}
		})
	}
	wg.Wait()
	if put, _, _, got, _, _ := f.Totals(); put != 16_000 || got != 24_000 {
		t.Errorf("totals %d, %d", put, got)
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	f := newFixture()
	topic, group := []byte("orders"), []byte("billing")
	f.Put(topic, 1, 1)
	f.Got(topic, group, 1, 1)
	if n := testing.AllocsPerRun(100, func() {
		f.Put(topic, 1, 1)
		f.Got(topic, group, 1, 1)
		f.GetMiss()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPut(b *testing.B) {
	f := newFixture()
	topic := []byte("orders")
	for b.Loop() {
		f.Put(topic, 1, 1024)
	}
}
