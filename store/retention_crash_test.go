package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// promised is what somebody may have heard of a store: where its log and its queues
// begin, and the numbers that are given out.
type promised struct {
	log         record.PhysOffset
	first, next map[string]record.QueueOffset
}

func promise(s *store.Store) promised {
	p := promised{log: s.Positions().Min, first: map[string]record.QueueOffset{}, next: map[string]record.QueueOffset{}}
	for _, topic := range s.QueueTopics() {
		for _, q := range s.Queues(topic) {
			name := fmt.Sprintf("%s-%d", topic, q.ID())
			p.first[name], p.next[name] = q.Min(), q.Max()
		}
	}
	return p
}

// TestRetentionCrashAtEveryOperation cuts deletions before every operation that
// changes the disk, as kill -9 and as a power loss: the log and the queues never
// begin earlier than before, numbers are never given twice, and what is left is whole.
func TestRetentionCrashAtEveryOperation(t *testing.T) {
	a := &aged{t: t, mem: vfs.NewMem(), now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.Local)}
	inj := vfs.NewInjector(a.mem)
	o := a.options(func(o *store.Options) { o.IndexEntries, o.FS = 12, inj })
	a.s, _ = open(t, o)
	for i := range 60 {
		put(t, a.s, "idle", 0, fmt.Sprintf("old %d", i), "KEYS", fmt.Sprintf("i%d", i))
	}
	a.fill(40)
	cuts, busy := 0, true
	inj.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() || busy || t.Failed() {
			return
		}
		busy = true
		defer func() { busy = false }()
		p := promise(a.s)
		cuts++
		if raceDetector && cuts%8 != 0 {
			return
		}
		at := fmt.Sprintf("cut %d before %s %s", cuts, op, path)
		ok := o
		ok.FS = a.mem.ProcessKillClone()
		run(t, at+" (kill)", func() { keeps(t, ok, p) })
		for n, c := range powerLosses {
			ok.FS = a.mem.CrashClone(rand.New(rand.NewPCG(uint64(cuts), uint64(n))), c)
			run(t, fmt.Sprintf("%s (power %d)", at, n), func() { keeps(t, ok, p) })
		}
	}
	for i := range 3 {
		a.now = a.now.Add(82 * time.Hour)
		put(t, a.s, "orders", 0, fmt.Sprintf("%d new", i))
		a.settle(a.s)
		busy = false
		a.s.DeleteExpired()
		a.s.RetainOnce()
		busy = true
		a.fill(12)
	}
	if p := a.s.Positions(); p.Min == 0 || cuts < 30 {
		t.Fatalf("after %d cuts the log has %+v", cuts, p)
	}
	exact(t, a.s)
	closeStore(t, a.s)
}

// keeps opens what a crash left and compares it with what was promised.
func keeps(t *testing.T, o store.Options, p promised) {
	t.Helper()
	s, rec := open(t, o)
	if got := s.Positions().Min; got < p.log {
		t.Errorf("the log begins at %d, it did at %d", got, p.log)
	}
	now := promise(s)
	for name, first := range p.first {
		if now.first[name] < first {
			t.Errorf("%s begins at %d, it did at %d", name, now.first[name], first)
		}
		if now.next[name] < p.next[name] {
			t.Errorf("%s ends at %d, it did at %d", name, now.next[name], p.next[name])
		}
	}
	exact(t, s)
	if t.Failed() {
		t.Fatalf("recovery was %+v", rec)
	}
	closeStore(t, s)
	s, rec = open(t, o)
	if !rec.Clean || len(rec.Notes) > 0 || s.Positions().Min < p.log {
		t.Errorf("second start: %+v", rec)
	}
	exact(t, s)
	closeStore(t, s)
}
