package replication

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store/record"
)

// caughtUpAge is how old a byte may be that a slave lacks which let a wait time
// out, for it to count as in sync again.
const caughtUpAge = 250 * time.Millisecond

// noSlaveGrace is how long sends go on waiting after the last slave that was in sync
// left: it may connect again at once, and has most of what they wait for. After that
// nobody can acknowledge them, and they need not run into slaveTimeout, which is as
// long as clients wait by default.
const noSlaveGrace = 500 * time.Millisecond

// waits are the sends of a synchronous master that wait for slaves.
type waits struct {
	// confirmed: so far enough replicas have the log; what waits for less is done.
	confirmed atomic.Int64
	// short: a wait timed out since fewer slaves are in sync than are wanted. Until
	// they are enough again, waits end at once, so that each send does not cost
	// slaveTimeout.
	short atomic.Bool
	seen  atomic.Pointer[Settings] // that confirmed was counted by; written under waitMu

	waitMu sync.Mutex // guards what follows; taken after no other lock
	ring   waitRing
	acks   []int64  // scratch
	due    []Waiter // scratch of whoever releases; nil while in use
	armed  int64    // deadline that the timer is set for, Unix nanoseconds; 0: none
	alone  int64    // when waits end because no slave is in sync, the same; 0: one is
	arm    chan struct{}
}

func (w *waits) init() {
	w.arm = make(chan struct{}, 1)
	w.confirmed.Store(-1)
}

// wait is one waiting send.
type wait struct {
	end      int64
	deadline int64 // Unix nanoseconds
	w        Waiter
}

// waitRing holds waits by rising end.
type waitRing struct {
	buf  []wait // its length is a power of two
	head uint64
	tail uint64
}

func (r *waitRing) len() int { return int(r.tail - r.head) }

func (r *waitRing) at(i uint64) *wait { return &r.buf[i&uint64(len(r.buf)-1)] }

// add puts w where it belongs, nearly always last.
func (r *waitRing) add(w wait) {
	if r.len() == len(r.buf) {
		next := make([]wait, max(64, 2*len(r.buf)))
		for i := range r.len() {
			next[i] = *r.at(r.head + uint64(i))
		}
		r.buf, r.head, r.tail = next, 0, uint64(r.len())
	}
	i := r.tail
	r.tail++
	for ; i > r.head && r.at(i-1).end > w.end; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	*r.at(i) = w
}

// pop takes the first one out.
func (r *waitRing) pop() Waiter {
	p := r.at(r.head)
	w := p.w
	p.w = nil
	r.head++
	return w
}

// inSyncNow says whether c counts: known, near the end, and not lagging.
func (m *Master) inSyncNow(c *conn, end, maxGap int64) bool {
	return c.peer.Load() != nil && !c.lagging.Load() && end-c.ack.Load() < maxGap
}

// inSyncSlaves counts the slaves that are in sync.
func (m *Master) inSyncSlaves(st *Settings) int {
	end, n := int64(m.o.Log.Positions().Max), 0
	for _, c := range *m.live.Load() {
		if m.inSyncNow(c, end, st.maxGap()) {
			n++
		}
	}
	return n
}

// Admit says before an append of a synchronous master whether it may happen:
// Replicated, NoSlave (append, and answer so), or NotEnoughSync.
func (m *Master) Admit() Ack {
	st := m.o.Settings()
	if st.MinInSyncReplicas <= 1 && st.InSyncReplicas <= 1 && !st.AllAckInSync {
		return Replicated
	}
	n := m.inSyncSlaves(st)
	switch {
	case n+1 < st.MinInSyncReplicas:
		return NotEnoughSync
	case n == 0 && st.InSyncReplicas > 1:
		return NoSlave
	}
	return Replicated
}

// Wait lets w hear when enough replicas have everything before end.
func (m *Master) Wait(end record.PhysOffset, w Waiter) {
	st := m.o.Settings()
	if st.InSyncReplicas <= 1 && !st.AllAckInSync || int64(end) <= m.confirmed.Load() && st == m.seen.Load() {
		w.Replicated(Replicated)
		return
	}
	if n := m.inSyncSlaves(st); n+1 < st.InSyncReplicas {
		if n == 0 {
			w.Replicated(NoSlave)
			return
		}
		if m.short.Load() {
			w.Replicated(AckTimeout)
			return
		}
	}
	deadline := m.o.Now().Add(st.slaveTimeout()).UnixNano()
	m.waitMu.Lock()
	if m.seen.Load() != st {
		m.count(st)
	}
	if int64(end) <= m.confirmed.Load() {
		m.waitMu.Unlock()
		w.Replicated(Replicated)
		return
	}
	m.ring.add(wait{end: int64(end), deadline: deadline, w: w})
	arm := m.armed == 0 || deadline < m.armed
	if arm {
		m.armed = deadline
	}
	m.waitMu.Unlock()
	if arm {
		m.wakeDeadlines()
	}
}

func (m *Master) wakeDeadlines() {
	select {
	case m.arm <- struct{}{}:
	default:
	}
}

// left notes that a slave is gone: if it was the last in sync, waits end soon.
func (m *Master) left() {
	if m.inSyncSlaves(m.o.Settings()) > 0 {
		return
	}
	m.waitMu.Lock()
	if m.alone == 0 {
		m.alone = m.o.Now().Add(noSlaveGrace).UnixNano()
	}
	m.waitMu.Unlock()
	m.wakeDeadlines()
}

// count finds out how far the log is replicated well enough. waitMu is held.
func (m *Master) count(st *Settings) {
	m.seen.Store(st)
	end := int64(m.o.Log.Positions().Max)
	need := max(1, st.InSyncReplicas) - 1 // slaves
	acks, all := m.acks[:0], int64(math.MaxInt64)
	for _, c := range *m.live.Load() {
		if c.peer.Load() == nil {
			continue
		}
		ack := c.ack.Load()
		acks = append(acks, ack)
		if m.inSyncNow(c, end, st.maxGap()) {
			all = min(all, ack)
		}
	}
	m.acks = acks
	confirmed := int64(math.MaxInt64)
	if need > 0 {
		confirmed = -1
		if len(acks) >= need {
			slices.Sort(acks)
			confirmed = acks[len(acks)-need]
		}
	}
	if st.AllAckInSync {
		confirmed = min(confirmed, all)
	}
	m.confirmed.Store(confirmed)
}

// acknowledged takes notice of c's new report.
func (m *Master) acknowledged(c *conn) {
	if c.lagging.Load() {
		ack := c.ack.Load()
		since, ok := m.ends.since(ack)
		if ack >= int64(m.o.Log.Positions().Max) || ok && m.o.Now().Sub(since) < caughtUpAge {
			c.lagging.Store(false)
			m.o.Slog.Info("a slave has caught up, and counts as in sync again", "peer", c.remote)
			m.checkSync()
		}
	}
	c.push() // first, so that the slave works on it while we answer
	m.acked()
}

// acked counts again, and releases the waits that are fulfilled now, all at once.
func (m *Master) acked() {
	st := m.o.Settings()
	m.waitMu.Lock()
	m.count(st)
	if m.ring.len() == 0 {
		m.waitMu.Unlock()
		return
	}
	due := m.takeScratch()
	for confirmed := m.confirmed.Load(); m.ring.len() > 0 && m.ring.at(m.ring.head).end <= confirmed; {
		due = append(due, m.ring.pop())
	}
	m.waitMu.Unlock()
	m.release(due, Replicated)
}

func (m *Master) takeScratch() []Waiter {
	due := m.due
	m.due = nil
	return due[:0]
}

// release ends waits, and gives the scratch back.
func (m *Master) release(due []Waiter, a Ack) {
	for _, w := range due {
		w.Replicated(a)
	}
	clear(due)
	m.waitMu.Lock()
	if cap(due) <= 1<<16 {
		m.due = due
	}
	m.waitMu.Unlock()
}

// AbortWaits ends all waits with Stopped, for a master that becomes a slave.
func (m *Master) AbortWaits() {
	m.endWaits(Stopped)
}

// endWaits ends all waits alike.
func (m *Master) endWaits(a Ack) {
	m.waitMu.Lock()
	due := m.takeScratch()
	for m.ring.len() > 0 {
		due = append(due, m.ring.pop())
	}
	m.waitMu.Unlock()
	m.release(due, a)
}

// deadlineLoop answers waits whose time is up. It sleeps without a timer while
// nobody waits.
func (m *Master) deadlineLoop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next, more := m.expire(m.o.Now()); more {
			timer.Reset(max(next, time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.arm:
		case <-timer.C:
		}
	}
}

// abandon ends all waits if no slave is in sync any more, and none came back in time.
func (m *Master) abandon(now time.Time) {
	m.waitMu.Lock()
	back := m.alone > 0 && m.inSyncSlaves(m.o.Settings()) > 0
	over := m.alone > 0 && m.alone <= now.UnixNano()
	if back || over {
		m.alone = 0
	}
	m.waitMu.Unlock()
	if over && !back {
		m.endWaits(NoSlave)
	}
}

// expire ends the waits that are due, and says in how long the next one is. Ends
// and deadlines rise together, but for a few microseconds.
func (m *Master) expire(now time.Time) (next time.Duration, more bool) {
	m.abandon(now)
	m.waitMu.Lock()
	due := m.takeScratch()
	last := int64(-1)
	for m.ring.len() > 0 && m.ring.at(m.ring.head).deadline <= now.UnixNano() {
		last = m.ring.at(m.ring.head).end
		due = append(due, m.ring.pop())
	}
	m.armed = m.alone
	if m.ring.len() > 0 && (m.alone == 0 || m.ring.at(m.ring.head).deadline < m.alone) {
		m.armed = m.ring.at(m.ring.head).deadline
	}
	next, more = time.Duration(m.armed-now.UnixNano()), m.armed > 0
	m.waitMu.Unlock()
	if len(due) > 0 {
		m.timedOut(last)
	}
	m.release(due, AckTimeout)
	return next, more
}

// timedOut takes the slaves that did not have everything before end in time out of
// the in-sync set, until they caught up. Sends do not wait for them meanwhile.
func (m *Master) timedOut(end int64) {
	for _, c := range *m.live.Load() {
		if c.peer.Load() != nil && c.ack.Load() < end && !c.lagging.Swap(true) {
			m.o.Slog.Warn("a slave did not acknowledge in time, and does not count until it has caught up",
				"peer", c.remote, "acked", c.ack.Load(), "wanted", end)
		}
	}
	m.short.Store(true)
	m.checkSync()
	m.acked()
}

// checkSync tells about changes of who is in sync.
func (m *Master) checkSync() {
	st := m.o.Settings()
	end, n, changed := int64(m.o.Log.Positions().Max), 0, false
	for _, c := range *m.live.Load() {
		is := m.inSyncNow(c, end, st.maxGap())
		if is {
			n++
		}
		if c.inSync.Swap(is) != is {
			changed = true
		}
	}
	if n+1 >= st.InSyncReplicas {
		m.short.Store(false)
	}
	if changed {
		m.acked()
		m.o.Changed()
	}
}

// AckedBy is what slave id holds of the log, and whether it is connected. No allocation, no wait.
func (m *Master) AckedBy(id int64) (record.PhysOffset, bool) {
	for _, c := range *m.live.Load() {
		if p := c.peer.Load(); p != nil && p.ID == id {
			return record.PhysOffset(c.ack.Load()), true
		}
	}
	return 0, false
}
