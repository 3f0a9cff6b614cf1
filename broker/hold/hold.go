// Package hold parks pulls that found nothing until a message arrives or their
// time is up (PullRequestHoldService of RocketMQ, which looks at them every
// five seconds; here every pull has its own exact end).
//
// Goroutines: Run, started by the broker, owns the timer. It is woken by the
// earliest deadline and by a pull parked with an earlier one, and stops with
// its context, waking all pulls. Arrivals wake pulls on the goroutine that
// dispatched the messages.
package hold

import (
	"container/heap"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// Pull is a held request; the owner (pull handler) implements it.
type Pull interface {
	// Matches is asked on arrival: would the message with this tag code interest
	// it? It must not block, and may be asked more than once.
	Matches(tagsCode int64) bool
	// Wake is called at most once, when something arrived, the time is up, its
	// group changed or the broker stops: the handler re-runs the pull without
	// suspending and answers. It is called by the goroutine that dispatched the
	// arrival, or by Park, and must not block.
	Wake(why Why)
}

// Why a pull was woken.
type Why uint8

// Reasons to wake a pull.
const (
	Arrived  Why = iota // a message that may interest it is there
	Expired             // its time is up
	Changed             // settings of its group or the broker changed, or where to pull
	Stopping            // the broker stops
)

// String names the reason, for logs.
func (w Why) String() string {
	switch w {
	case Arrived:
		return "arrived"
	case Expired:
		return "expired"
	case Changed:
		return "changed"
	case Stopping:
		return "stopping"
	}
	return "unknown"
}

const (
	// guardCount is the number of counters that tell arrivals, without a lock,
	// that nobody waits for their queue. Queues share counters by hash.
	guardCount = 1024
	// scanUnits bounds how many new messages are checked against the tags of
	// held pulls. Past it a pull is woken unasked, and its read filters.
	scanUnits = 64
)

// queues is what Pulls needs of the store.
type queues interface {
	max(q *store.Queue) record.QueueOffset
	units(dst []store.Unit, q *store.Queue, from record.QueueOffset, n int) []store.Unit
}

type storeQueues struct{ s *store.Store }

func (storeQueues) max(q *store.Queue) record.QueueOffset { return q.Max() }

func (s storeQueues) units(dst []store.Unit, q *store.Queue, from record.QueueOffset, n int) []store.Unit {
	return s.s.Units(dst, q, from, n)
}

// Pulls holds the parked pulls.
type Pulls struct {
	queues queues
	now    func() time.Time
	bound  int
	seed   maphash.Seed
	guards [guardCount]atomic.Int32 // parked pulls by hash of their queue
	kick   chan struct{}            // tells Run of an earlier deadline
	turn   atomic.Int64             // calls of Changed and ChangedAll

	mu      sync.Mutex // guards what follows, held pulls included; never held while one is asked or woken
	byEnd   endHeap
	byQueue map[*store.Queue]*held
	byConn  map[uint64]*held
	free    *held // for reuse, linked by queueNext
	stopped bool
}

// held is one parked pull. It is in byEnd and in the lists of its queue and its
// connection, or in none of them.
type held struct {
	pull   Pull
	queue  *store.Queue
	wanted record.QueueOffset // first offset it would read
	seen   record.QueueOffset // tags before this were checked; seen >= wanted
	end    time.Time
	group  string
	conn   uint64
	round  uint64 // distinguishes uses of the struct
	at     int    // index in byEnd, -1 when not parked

	queueNext, queuePrev *held
	connNext, connPrev   *held
}

// New makes an empty table for at most bound pulls.
func New(s *store.Store, now func() time.Time, bound int) *Pulls {
	return newPulls(storeQueues{s}, now, bound)
}

func newPulls(q queues, now func() time.Time, bound int) *Pulls {
	return &Pulls{
		queues: q, now: now, bound: bound, seed: maphash.MakeSeed(),
		kick:    make(chan struct{}, 1),
		byQueue: map[*store.Queue]*held{},
		byConn:  map[uint64]*held{},
	}
}

func (h *Pulls) guard(q *store.Queue) *atomic.Int32 {
	return &h.guards[maphash.Comparable(h.seed, q)%guardCount]
}

// Park holds p for q until a message at wanted or behind it exists, the
// deadline passes, its group changes, or its connection is dropped. What
// arrived before Park or during it counts: p may be woken before Park returns.
// False means that p is not held and will not be woken, because too many are
// held or the broker stops: answer at once.
func (h *Pulls) Park(q *store.Queue, wanted record.QueueOffset, deadline time.Time, group string, conn uint64, p Pull) bool {
	guard := h.guard(q)
	h.mu.Lock()
	if h.stopped || len(h.byEnd) >= h.bound {
		h.mu.Unlock()
		return false
	}
	e := h.take()
	e.pull, e.queue, e.wanted, e.seen = p, q, wanted, wanted
	e.end, e.group, e.conn = deadline, group, conn
	h.link(e)
	guard.Add(1)
	first := e.at == 0
	h.mu.Unlock()
	if first {
		select {
		case h.kick <- struct{}{}:
		default:
		}
	}
	// From here on an arrival finds the guard raised; what came before is seen now.
	if h.queues.max(q) > wanted {
		h.Arrived(q)
	}
	return true
}

// take returns an unused struct. The caller holds mu.
func (h *Pulls) take() *held {
	e := h.free
	if e == nil {
		return &held{at: -1}
	}
	h.free = e.queueNext
	e.queueNext = nil
	return e
}

// link puts a pull into the heap and the lists. The caller holds mu.
func (h *Pulls) link(e *held) {
	heap.Push(&h.byEnd, e)
	if next := h.byQueue[e.queue]; next != nil {
		e.queueNext, next.queuePrev = next, e
	}
	h.byQueue[e.queue] = e
	if next := h.byConn[e.conn]; next != nil {
		e.connNext, next.connPrev = next, e
	}
	h.byConn[e.conn] = e
}

// unlink takes a pull out of everything and returns it. The struct is ready for
// reuse afterwards. The caller holds mu.
func (h *Pulls) unlink(e *held) Pull {
	heap.Remove(&h.byEnd, e.at)
	switch {
	case e.queuePrev != nil:
		e.queuePrev.queueNext = e.queueNext
	case e.queueNext != nil:
		h.byQueue[e.queue] = e.queueNext
	default:
		delete(h.byQueue, e.queue)
	}
	if e.queueNext != nil {
		e.queueNext.queuePrev = e.queuePrev
	}
	switch {
	case e.connPrev != nil:
		e.connPrev.connNext = e.connNext
	case e.connNext != nil:
		h.byConn[e.conn] = e.connNext
	default:
		delete(h.byConn, e.conn)
	}
	if e.connNext != nil {
		e.connNext.connPrev = e.connPrev
	}
	h.guard(e.queue).Add(-1)
	p := e.pull
	*e = held{at: -1, round: e.round + 1, queueNext: h.free}
	h.free = e
	return p
}

// candidate is a parked pull that is looked at without the lock.
type candidate struct {
	held  *held
	round uint64
	pull  Pull
	from  record.QueueOffset
}

// scratch is what Arrived needs; pooled, as arrivals are frequent.
type scratch struct {
	candidates []candidate
	units      []store.Unit
	woken      []Pull
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Arrived wakes the pulls of q that a new message interests. It is
// store.Options.OnArrival: one atomic load when nobody waits.
func (h *Pulls) Arrived(q *store.Queue) {
	if h.guard(q).Load() == 0 {
		return
	}
	sc := scratches.Get().(*scratch)
	end := h.queues.max(q)
	h.mu.Lock()
	from := end
	for e := h.byQueue[q]; e != nil; e = e.queueNext {
		if end > e.seen {
			sc.candidates = append(sc.candidates, candidate{e, e.round, e.pull, e.seen})
			from = min(from, e.seen)
		}
	}
	h.mu.Unlock()
	if len(sc.candidates) > 0 {
		h.offer(sc, q, from, end)
	}
	clear(sc.candidates)
	clear(sc.woken)
	sc.candidates, sc.units, sc.woken = sc.candidates[:0], sc.units[:0], sc.woken[:0]
	scratches.Put(sc)
}

// offer shows the candidates the messages [from, end) of their queue and wakes
// those that want one.
func (h *Pulls) offer(sc *scratch, q *store.Queue, from, end record.QueueOffset) {
	count := end - from
	if count <= scanUnits {
		sc.units = h.queues.units(sc.units[:0], q, from, int(count))
	}
	// Fewer units than messages: too many to look at, or not readable now.
	known := record.QueueOffset(len(sc.units)) == count
	passed := 0
	for i, c := range sc.candidates {
		if !known || interested(c.pull, sc.units[c.from-from:]) {
			sc.candidates[passed], sc.candidates[i] = c, sc.candidates[passed]
			passed++
		}
	}
	h.mu.Lock()
	for i, c := range sc.candidates {
		switch {
		case c.held.round != c.round || c.held.at < 0: // woken or dropped meanwhile
		case i < passed:
			sc.woken = append(sc.woken, h.unlink(c.held))
		default:
			c.held.seen = max(c.held.seen, end)
		}
	}
	h.mu.Unlock()
	for _, p := range sc.woken {
		p.Wake(Arrived)
	}
}

func interested(p Pull, units []store.Unit) bool {
	for i := range units {
		if p.Matches(units[i].TagsCode) {
			return true
		}
	}
	return false
}

// Turn is different after each change. Whoever decides to park a pull by what may
// change reads it first and looks again after Park: a change between the two woke
// nobody.
func (h *Pulls) Turn() int64 { return h.turn.Load() }

// Changed wakes the pulls of a group, so that they see its new settings.
func (h *Pulls) Changed(group string) {
	h.turn.Add(1)
	h.mu.Lock()
	var found []*held
	for _, e := range h.byEnd {
		if e.group == group {
			found = append(found, e)
		}
	}
	woken := make([]Pull, 0, len(found))
	for _, e := range found {
		woken = append(woken, h.unlink(e))
	}
	h.mu.Unlock()
	for _, p := range woken {
		p.Wake(Changed)
	}
}

// ChangedAll wakes all pulls: a setting of the broker changed, its part in
// replication, or a replica that pulls are sent to came or went.
func (h *Pulls) ChangedAll() {
	h.turn.Add(1)
	h.mu.Lock()
	woken := make([]Pull, 0, len(h.byEnd))
	for len(h.byEnd) > 0 {
		woken = append(woken, h.unlink(h.byEnd[len(h.byEnd)-1]))
	}
	h.mu.Unlock()
	for _, p := range woken {
		p.Wake(Changed)
	}
}

// Drop forgets the pulls of a closed connection without waking them: nobody is
// there to be answered.
func (h *Pulls) Drop(conn uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.byConn[conn]; e != nil; e = h.byConn[conn] {
		h.unlink(e)
	}
}

// Len is how many are held.
func (h *Pulls) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byEnd)
}

// Run wakes pulls whose time is up, never early and as soon as the clock
// allows, until ctx ends. Then it wakes all that are left, and Park refuses.
func (h *Pulls) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		expired, next, any := h.expire()
		for _, p := range expired {
			p.Wake(Expired)
		}
		timer.Reset(time.Hour)
		if any {
			timer.Reset(max(next.Sub(h.now()), 0))
		}
		select {
		case <-ctx.Done():
			h.stop()
			return nil
		case <-h.kick:
		case <-timer.C:
		}
	}
}

// expire takes out the pulls that are due, and says when the next will be.
func (h *Pulls) expire() (due []Pull, next time.Time, more bool) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.byEnd) > 0 {
		e := h.byEnd[0]
		if e.end.After(now) {
			return due, e.end, true
		}
		due = append(due, h.unlink(e))
	}
	return due, time.Time{}, false
}

// stop wakes everything that is left.
func (h *Pulls) stop() {
	h.mu.Lock()
	h.stopped = true
	var left []Pull
	for len(h.byEnd) > 0 {
		left = append(left, h.unlink(h.byEnd[0]))
	}
	h.mu.Unlock()
	for _, p := range left {
		p.Wake(Stopping)
	}
}

// endHeap orders held pulls by deadline (container/heap).
type endHeap []*held

func (e endHeap) Len() int           { return len(e) }
func (e endHeap) Less(i, j int) bool { return e[i].end.Before(e[j].end) }

func (e endHeap) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].at, e[j].at = i, j
}

// Push is for container/heap.
func (e *endHeap) Push(x any) {
	h := x.(*held)
	h.at = len(*e)
	*e = append(*e, h)
}

// Pop is for container/heap.
func (e *endHeap) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}
