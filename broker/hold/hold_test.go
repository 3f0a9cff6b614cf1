package hold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// fakeQueues are queues whose messages have tag codes; nothing is on disk.
type fakeQueues struct {
	mu       sync.Mutex
	tags     map[*store.Queue][]int64
	unread   bool // units cannot be read
	asked    int  // units handed out
	onMax    func()
	maxCalls atomic.Int64
}

func newFake() *fakeQueues { return &fakeQueues{tags: map[*store.Queue][]int64{}} }

func (f *fakeQueues) max(q *store.Queue) record.QueueOffset {
	f.maxCalls.Add(1)
	f.mu.Lock()
	n := len(f.tags[q])
	hook := f.onMax
	f.mu.Unlock()
	if hook != nil {
		hook()
	}
	return record.QueueOffset(n)
}

func (f *fakeQueues) units(dst []store.Unit, q *store.Queue, from record.QueueOffset, n int) []store.Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unread {
		return dst
	}
	for _, code := range f.tags[q][from:min(int(from)+n, len(f.tags[q]))] {
		dst = append(dst, store.Unit{TagsCode: code})
		f.asked++
	}
	return dst
}

// put appends messages without telling anybody.
func (f *fakeQueues) put(q *store.Queue, codes ...int64) {
	f.mu.Lock()
	f.tags[q] = append(f.tags[q], codes...)
	f.mu.Unlock()
}

// pull wants messages of one tag code, 0 for all.
type pull struct {
	tag   int64
	woken atomic.Int32
	why   atomic.Int32
	at    atomic.Int64 // when it was woken, ms
}

func (p *pull) Matches(code int64) bool { return p.tag == 0 || code == p.tag }

func (p *pull) Wake(why Why) {
	p.woken.Add(1)
	p.why.Store(int32(why))
	p.at.Store(time.Now().UnixMilli())
}

func (p *pull) state() string {
	switch n := p.woken.Load(); n {
	case 0:
		return "held"
	case 1:
		return Why(p.why.Load()).String()
	default:
		return fmt.Sprintf("woken %d times", n)
	}
}

func (h *Pulls) check(t *testing.T, held int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	inQueues, inConns, guards := 0, 0, 0
	for q, e := range h.byQueue {
		for ; e != nil; e = e.queueNext {
			if e.queue != q || h.byEnd[e.at] != e {
				t.Error("a pull is in the wrong list")
			}
			inQueues++
		}
	}
	for c, e := range h.byConn {
		for ; e != nil; e = e.connNext {
			if e.conn != c {
				t.Error("a pull is in the list of another connection")
			}
			inConns++
		}
	}
	for i := range h.guards {
		guards += int(h.guards[i].Load())
	}
	if len(h.byEnd) != held || inQueues != held || inConns != held || guards != held {
		t.Errorf("held %d, by queue %d, by connection %d, guards %d; want %d", len(h.byEnd), inQueues, inConns, guards, held)
	}
}

func TestArrival(t *testing.T) {
	f := newFake()
	h := newPulls(f, time.Now, 100)
	q, other := new(store.Queue), new(store.Queue)
	end := time.Now().Add(time.Hour)
	all, tagged, elsewhere := &pull{}, &pull{tag: 7}, &pull{}
	for i, p := range []*pull{all, tagged} {
		if !h.Park(q, 0, end, "g", uint64(i), p) {
			t.Fatal("not parked")
		}
	}
	h.Park(other, 0, end, "g", 1, elsewhere)
	h.check(t, 3)
	f.put(q, 5)
	h.Arrived(q)
	if all.state() != "arrived" || tagged.state() != "held" || elsewhere.state() != "held" {
		t.Errorf("%s, %s, %s", all.state(), tagged.state(), elsewhere.state())
	}
	f.put(q, 5, 5)
	h.Arrived(q)
	f.put(q, 7)
	h.Arrived(q)
	if tagged.state() != "arrived" {
		t.Errorf("its tag arrived: %s", tagged.state())
	}
	if f.asked != 4 {
		t.Errorf("%d units were looked at for 4 messages: some twice", f.asked)
	}
	h.check(t, 1)
	h.Arrived(q) // nobody is left
	if all.state() != "arrived" || elsewhere.state() != "held" {
		t.Errorf("%s, %s", all.state(), elsewhere.state())
	}
}

func TestArrivalOfManyOrUnreadableWakesUnasked(t *testing.T) {
	f := newFake()
	h := newPulls(f, time.Now, 100)
	q := new(store.Queue)
	p := &pull{tag: 7}
	h.Park(q, 0, time.Now().Add(time.Hour), "g", 1, p)
	f.put(q, make([]int64, scanUnits)...)
	h.Arrived(q)
	if p.state() != "held" {
		t.Errorf("%d others arrived: %s", scanUnits, p.state())
	}
	f.put(q, make([]int64, scanUnits+1)...)
	h.Arrived(q)
	if p.state() != "arrived" {
		t.Errorf("too many to look at: %s", p.state())
	}
	p = &pull{tag: 7}
	h.Park(q, record.QueueOffset(2*scanUnits+1), time.Now().Add(time.Hour), "g", 1, p)
	f.put(q, 1)
	f.unread = true
	h.Arrived(q)
	if p.state() != "arrived" {
		t.Errorf("unreadable: %s", p.state())
	}
}

// What arrives between the pull's read and Park must wake it.
func TestNoLostWakeUp(t *testing.T) {
	f := newFake()
	h := newPulls(f, time.Now, 100)
	q := new(store.Queue)
	f.put(q, 1)
	h.Arrived(q) // before Park: nobody hears it
	p := &pull{}
	if !h.Park(q, 0, time.Now().Add(time.Hour), "g", 1, p) || p.state() != "arrived" {
		t.Errorf("a message that was there already: %s", p.state())
	}
	// It arrives exactly while Park looks at the end.
	late := &pull{}
	f.onMax = func() {
		f.onMax = nil
		f.put(q, 1)
		h.Arrived(q)
	}
	h.Park(q, 1, time.Now().Add(time.Hour), "g", 1, late)
	if late.state() != "arrived" {
		t.Errorf("a message during Park: %s", late.state())
	}
	h.check(t, 0)
}

func TestBound(t *testing.T) {
	h := newPulls(newFake(), time.Now, 2)
	q := new(store.Queue)
	for i, want := range []bool{true, true, false} {
		if got := h.Park(q, 0, time.Now().Add(time.Hour), "g", uint64(i), &pull{}); got != want {
			t.Errorf("park %d: %v", i, got)
		}
	}
	if h.Len() != 2 {
		t.Errorf("%d held", h.Len())
	}
	h.Drop(0)
	if !h.Park(q, 0, time.Now().Add(time.Hour), "g", 9, &pull{}) {
		t.Error("a place became free and was refused")
	}
}

func TestDropAndChanged(t *testing.T) {
	h := newPulls(newFake(), time.Now, 100)
	end := time.Now().Add(time.Hour)
	q := []*store.Queue{new(store.Queue), new(store.Queue)}
	var pulls []*pull
	for i := range 12 {
		p := &pull{}
		pulls = append(pulls, p)
		h.Park(q[i%2], 0, end.Add(time.Duration(i%5)*time.Second), fmt.Sprint("g", i%3), uint64(i%4), p)
	}
	h.Changed("g1")
	h.Changed("none")
	h.Drop(2)
	h.Drop(99)
	held := 0
	for i, p := range pulls {
		want := "held"
		switch {
		case i%3 == 1:
			want = "changed"
		case i%4 == 2: // dropped
		default:
			held++
		}
		if p.state() != want {
			t.Errorf("pull %d: %s, want %s", i, p.state(), want)
		}
	}
	h.check(t, held)
	h.ChangedAll()
	for i, p := range pulls {
		if dropped := i%3 != 1 && i%4 == 2; !dropped && p.state() != "changed" {
			t.Errorf("pull %d: %s after all were woken", i, p.state())
		}
	}
	h.check(t, 0)
}

func TestExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPulls(newFake(), time.Now, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		start := time.Now()
		q := new(store.Queue)
		waits := []time.Duration{5 * time.Second, time.Millisecond, 20 * time.Second, 0, 15 * time.Second, 15 * time.Second, time.Hour}
		var pulls []*pull
		for i, d := range waits {
			p := &pull{}
			pulls = append(pulls, p)
			h.Park(q, 0, start.Add(d), "g", uint64(i), p)
			synctest.Wait()
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		for i, d := range waits[:6] {
			if got := time.Duration(pulls[i].at.Load()-start.UnixMilli()) * time.Millisecond; pulls[i].state() != "expired" || got != d {
				t.Errorf("deadline after %v: %s after %v", d, pulls[i].state(), got)
			}
		}
		if pulls[6].state() != "held" {
			t.Errorf("an hour is not over: %s", pulls[6].state())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if pulls[6].state() != "stopping" {
			t.Errorf("at the end: %s", pulls[6].state())
		}
		h.check(t, 0)
		if h.Park(q, 0, time.Now().Add(time.Hour), "g", 1, &pull{}) {
			t.Error("parked after the end")
		}
	})
}

// Everything at once: each pull is woken exactly once or dropped, and none is
// forgotten.
func TestConcurrent(t *testing.T) {
	f := newFake()
	h := newPulls(f, time.Now, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = h.Run(ctx) })
	queues := []*store.Queue{new(store.Queue), new(store.Queue), new(store.Queue)}
	var mu sync.Mutex
	var all []*pull
	var parkers, makers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		parkers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				q := queues[rng.IntN(3)]
				p := &pull{tag: int64(rng.IntN(3))}
				if h.Park(q, f.max(q), time.Now().Add(time.Duration(rng.IntN(3000))*time.Microsecond), fmt.Sprint(rng.IntN(2)), uint64(w), p) {
					mu.Lock()
					all = append(all, p)
					mu.Unlock()
				}
			}
		})
		makers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				q := queues[rng.IntN(3)]
				f.put(q, int64(1+rng.IntN(3)))
				h.Arrived(q)
				switch rng.IntN(40) {
				case 0, 1:
					h.Changed("1")
				case 2:
					h.ChangedAll()
				}
			}
		})
	}
	parkers.Wait()
	close(stop)
	makers.Wait()
	cancel()
	run.Wait()
	h.check(t, 0)
	for _, p := range all {
		if p.woken.Load() != 1 {
			t.Fatalf("%s", p.state())
		}
	}
	if len(all) != 2000 {
		t.Errorf("%d parked", len(all))
	}
}

func TestArrivedDoesNotAllocate(t *testing.T) {
	f := newFake()
	h := newPulls(f, time.Now, 100)
	q := new(store.Queue)
	end := time.Now().Add(time.Hour)
	before := f.maxCalls.Load()
	if n := testing.AllocsPerRun(100, func() { h.Arrived(q) }); n != 0 {
		t.Errorf("%v allocations when nobody waits", n)
	}
	if f.maxCalls.Load() != before {
		t.Error("the queue was looked at though nobody waits")
	}
	f.tags[q] = make([]int64, 0, 10_000)
	p := &pull{}
	offset := record.QueueOffset(0)
	if n := testing.AllocsPerRun(100, func() {
		h.Park(q, offset, end, "g", 1, p)
		f.put(q, 1)
		offset++
		h.Arrived(q)
	}); n != 0 && !raceDetector {
		t.Errorf("%v allocations to park and wake a pull", n)
	}
	if p.woken.Load() < 100 {
		t.Errorf("woken %d times", p.woken.Load())
	}
}

func BenchmarkArrivedNobody(b *testing.B) {
	h := newPulls(newFake(), time.Now, 100)
	q := new(store.Queue)
	for b.Loop() {
		h.Arrived(q)
	}
}

func BenchmarkParkAndWake(b *testing.B) {
	f := newFake()
	h := newPulls(f, time.Now, 100)
	q := new(store.Queue)
	end := time.Now().Add(time.Hour)
	p := &pull{}
	f.put(q, 1)
	for b.Loop() {
		h.Park(q, 0, end, "g", 1, p)
	}
}
