package broker

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is counted of pulls. Rows are for one group on one topic.
const (
	pullShards = 16
	shardRows  = 256 // rows of a shard; the one that was idle longest goes first
	pullSlots  = 12  // parts of the window
	slotIDs    = 4   // broker ids told apart in a part; one more counts as -1
	// rowQueues and allQueues bound the queues whose next pull is watched.
	rowQueues = 1024
	allQueues = 1 << 18
	// mostRedirects of one queue in a second; more than that is a loop of several
	// clients that cannot reach the master.
	mostRedirects = 16
	// backWithin is how soon, in ms, a client that cannot reach the master is back;
	// who comes later makes no loop.
	backWithin = 2000
	// defaultPullWindow is pullStatsWindow where nothing else is set.
	defaultPullWindow = time.Minute
)

// pullStats counts what pulls were told, per group and topic in a window that
// moves on, and remembers per queue where its next pull was sent. Counting takes
// one short lock of a sixteenth of the rows and allocates nothing once a group's
// topic and queue are known. Memory is bounded whatever clients send.
type pullStats struct {
	seed   maphash.Seed
	begun  int64        // ms
	window atomic.Int64 // ms
	queues atomic.Int64 // queues watched in all rows
	shards [pullShards]pullShard
}

type pullShard struct {
	mu   sync.Mutex // guards rows and what they hold; never held while waiting
	rows map[pullKey]*pullRow
	_    [40]byte // shards of their own cache lines
}

type pullKey struct{ group, topic string }

// pullRow is one group on one topic.
type pullRow struct {
	slotMillis int64 // what the parts below are cut by
	slots      [pullSlots]pullSlot
	queues     []pullQueue // by queue id
	behind     int64       // of the newest pull, bytes
	phys       int64       // and the position of its last message
	why        reason
	last       int64 // ms of the newest pull
}

// pullSlot is a part of the window: the time from number*slotMillis on.
type pullSlot struct {
	number  int64
	ids     [slotIDs]idCount
	reasons [reasonCount]uint32
	slow    uint32
	sent    uint32 // told to pull elsewhere
	stayed  uint32 // and whose next pull came here nevertheless
}

type idCount struct {
	id int64
	n  uint32
}

// pullQueue is what the last pull of a queue was told.
type pullQueue struct {
	next      int64  // where its client goes on
	conn      uint64 // of the client; 0: none came yet
	at        int64  // ms of the last pull
	second    int64  // of the redirects that are counted
	redirects uint16
	elsewhere bool
	redirect  bool // by a slave that lacks the offset
}

// pullNote is one answered pull.
type pullNote struct {
	group, topic []byte
	queue        int32
	conn         uint64
	self         int64 // broker id of this broker
	offset       int64 // asked for
	answer       *pullAnswer
	slow         bool
	behind       int64 // -1: nothing was read that tells
	phys         int64
	nowMillis    int64
}

func newPullStats(window time.Duration, nowMillis int64) *pullStats {
	s := &pullStats{seed: maphash.MakeSeed(), begun: nowMillis}
	for i := range s.shards {
		s.shards[i].rows = map[pullKey]*pullRow{}
	}
	s.setWindow(window)
	return s
}

// setWindow changes pullStatsWindow; counts of another window are given up with
// the next pull of their row.
func (s *pullStats) setWindow(d time.Duration) {
	if d <= 0 {
		d = defaultPullWindow
	}
	s.window.Store(max(d.Milliseconds(), pullSlots))
}

func (s *pullStats) slotMillis() int64 { return s.window.Load() / pullSlots }

func (s *pullStats) shard(group, topic []byte) *pullShard {
	return &s.shards[(maphash.Bytes(s.seed, topic)^maphash.Bytes(s.seed, group)*31)%pullShards]
}

// note counts one answered pull.
func (s *pullStats) note(n *pullNote) {
	sh := s.shard(n.group, n.topic)
	width := s.slotMillis()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.rows[pullKey{string(n.group), string(n.topic)}]
	if r == nil {
		r = s.insert(sh, n)
	}
	if r.slotMillis != width {
		r.slots, r.slotMillis = [pullSlots]pullSlot{}, width
	}
	slot := r.slot(n.nowMillis)
	slot.count(n.answer.suggest)
	slot.reasons[n.answer.why]++
	if n.slow {
		slot.slow++
	}
	r.last, r.why = n.nowMillis, n.answer.why
	if n.behind >= 0 {
		if r.behind = n.behind; n.phys > 0 {
			r.phys = n.phys
		}
	}
	elsewhere := n.answer.suggest != n.self
	if elsewhere {
		slot.sent++
	}
	q := s.queue(r, n.queue)
	if q == nil {
		return
	}
	if q.elsewhere && q.conn == n.conn && q.next == n.offset {
		slot.stayed++
	}
	q.told(n, elsewhere)
}

// told remembers what the queue's client was told.
func (q *pullQueue) told(n *pullNote, elsewhere bool) {
	redirect := elsewhere && n.answer.why == redirectedToMaster
	if second := n.nowMillis / 1000; redirect && q.second == second {
		q.redirects++
	} else if redirect {
		q.second, q.redirects = second, 1
	}
	q.conn, q.next, q.at = n.conn, n.answer.next, n.nowMillis
	q.elsewhere, q.redirect = elsewhere, redirect
}

// returned reports whether a slave sent this client to the master for this very
// offset and it asks here again, so that another redirect would be a hot loop.
func (s *pullStats) returned(group, topic []byte, queue int32, conn uint64, offset, nowMillis int64) bool {
	sh := s.shard(group, topic)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.rows[pullKey{string(group), string(topic)}]
	if r == nil || queue < 0 || int(queue) >= len(r.queues) {
		return false
	}
	q := &r.queues[queue]
	if !q.redirect || q.next != offset || nowMillis-q.at > backWithin {
		return false
	}
	return q.conn == conn || q.second == nowMillis/1000 && q.redirects >= mostRedirects
}

// insert makes a row; the caller holds the lock. A full shard loses the row that
// was idle longest.
func (s *pullStats) insert(sh *pullShard, n *pullNote) *pullRow {
	if len(sh.rows) >= shardRows {
		var oldest pullKey
		var row *pullRow
		for k, r := range sh.rows {
			if row == nil || r.last < row.last {
				oldest, row = k, r
			}
		}
		s.queues.Add(-int64(len(row.queues)))
		delete(sh.rows, oldest)
	}
	r := &pullRow{}
	sh.rows[pullKey{string(n.group), string(n.topic)}] = r
	return r
}

// queue is what is remembered of a queue, nil if there is no room for it.
func (s *pullStats) queue(r *pullRow, id int32) *pullQueue {
	if id < 0 || id >= rowQueues {
		return nil
	}
	if more := int(id) + 1 - len(r.queues); more > 0 {
		if s.queues.Load()+int64(more) > allQueues {
			return nil
		}
		s.queues.Add(int64(more))
		r.queues = append(r.queues, make([]pullQueue, more)...)
	}
	return &r.queues[id]
}

// slot is the part of the window that now lies in, emptied if it was of an
// earlier round.
func (r *pullRow) slot(nowMillis int64) *pullSlot {
	number := nowMillis / r.slotMillis
	slot := &r.slots[number%pullSlots]
	if slot.number != number {
		*slot = pullSlot{number: number}
	}
	return slot
}

// count adds a suggestion of a broker id.
func (p *pullSlot) count(id int64) {
	for i := range p.ids {
		e := &p.ids[i]
		if e.n == 0 {
			e.id = id
			if i == slotIDs-1 {
				e.id = -1
			}
		}
		if e.id == id || i == slotIDs-1 {
			e.n++
			return
		}
	}
}

// pullFigures are the sums of a row over a window.
type pullFigures struct {
	group, topic  string
	pulls         int64
	suggested     map[int64]int64
	reasons       [reasonCount]int64
	slow          int64
	sent, stayed  int64
	behind, phys  int64
	why           reason
	lastMillis    int64
	windowMillis  int64
	coveredMillis int64
}

// followed says whether clients go where they are sent: nil where nothing shows it,
// as when the group's settings name a broker that cannot serve: staying here is then
// all that clients were told, and no proof of anything.
func (f *pullFigures) followed() *bool {
	if f.pulls == 0 || f.why == slaveReadDisabled {
		return nil
	}
	switch f.why {
	case brokerIDMissing, slaveDead, slaveUnreadable, slaveBehind:
		if f.sent == 0 {
			return nil
		}
	default:
	}
	yes := f.stayed*2 <= f.sent
	return &yes
}

// figures sums the rows that had pulls in the window, at most the whole one
// that is kept (0: all of it), sorted by group and topic. Empty names mean all.
func (s *pullStats) figures(group, topic string, window time.Duration, nowMillis int64) []pullFigures {
	span, covered := s.spans(window, nowMillis)
	var out []pullFigures
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for k, r := range sh.rows {
			if group != "" && k.group != group || topic != "" && k.topic != topic {
				continue
			}
			f := pullFigures{group: k.group, topic: k.topic, windowMillis: span, coveredMillis: covered}
			if r.sum(&f, s.slotMillis(), nowMillis); f.pulls > 0 {
				out = append(out, f)
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b pullFigures) int {
		if a.group != b.group {
			return strings.Compare(a.group, b.group)
		}
		return strings.Compare(a.topic, b.topic)
	})
	return out
}

// spans is the window that is summed, in whole parts, and how much of it the
// broker has lived through.
func (s *pullStats) spans(window time.Duration, nowMillis int64) (span, covered int64) {
	width := s.slotMillis()
	parts := int64(pullSlots)
	if w := window.Milliseconds(); w > 0 {
		parts = min(parts, max(1, (w+width-1)/width))
	}
	// The newest part has only begun.
	covered = min((parts-1)*width+nowMillis%width, nowMillis-s.begun)
	return parts * width, max(1, covered)
}

// sum adds the row's parts of the window.
func (r *pullRow) sum(f *pullFigures, width, nowMillis int64) {
	if r.slotMillis != width {
		return
	}
	f.behind, f.phys, f.why, f.lastMillis = r.behind, r.phys, r.why, r.last
	newest := nowMillis / width
	for i := range r.slots {
		p := &r.slots[i]
		if p.number > newest || p.number <= newest-f.windowMillis/width {
			continue
		}
		for _, e := range p.ids {
			if e.n == 0 {
				continue
			}
			if f.suggested == nil {
				f.suggested = map[int64]int64{}
			}
			f.suggested[e.id] += int64(e.n)
			f.pulls += int64(e.n)
		}
		for w, n := range p.reasons {
			f.reasons[w] += int64(n)
		}
		f.slow, f.sent, f.stayed = f.slow+int64(p.slow), f.sent+int64(p.sent), f.stayed+int64(p.stayed)
	}
}
