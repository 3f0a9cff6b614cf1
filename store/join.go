package store

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store/record"
)

const (
	// joinBytes is up to which size a batch waits for others: what lies above is a write
	// worth its system call.
	joinBytes = 16 << 10
	// joinHope is how many yields in a row may be for nothing before they end.
	joinHope = 64
	// joinTry is how many batches go by themselves then before the next yield; twice as many
	// after each yield that took too long, half as many after each good one; joinLong
	// bounds how often.
	joinTry  = 64
	joinLong = 8
	// joinPatience is how long a yield may take for each batch that it brings together.
	joinPatience = 300 * time.Microsecond
	// joinOver is how much longer than that a few may take together.
	joinOver = 10 * time.Millisecond
)

// joiner gathers small batches of different connections, so that they go to the log in
// one write. Nobody waits for anybody: whoever has a small batch lists it and lets
// those run who could run now anyway (with one sender, that is nobody: then yields end). Who comes first to the append lock after that
// appends all that is listed; the others find their work done.
//
// Those who could run now may also be readers of old messages, and one of them keeps a
// processor for as long as it likes. So nobody yields who has seen no other sender since
// his last batch, and yields that take long for what they bring end for a while: sends
// beside eight such readers shall take no longer than alone.
type joiner struct {
	hope atomic.Int32  // above 0: yields have brought batches together lately
	turn atomic.Uint32 // counts small batches
	long atomic.Uint32 // by how many the yields that took too long are more than the good ones

	// Of the yields since the last judgement. Guarded by appendMu.
	took            time.Duration
	brought, yields int

	mu     sync.Mutex
	listed []*Batch // guarded by mu

	taken []*Batch // of the one who appends; guarded by appendMu
	buf   []byte   // what they write together; guarded by appendMu
}

// joined is a batch's part of it.
type joined struct {
	done atomic.Bool // appended together with others; set under appendMu
	turn uint32      // of joiner, at the last batch
}

// alone notes a small batch and says that none of others came since the last of b.
func (j *joiner) alone(b *Batch) bool {
	turn := j.turn.Add(1)
	alone := turn == b.joined.turn+1
	b.joined.turn = turn
	return alone
}

// joins says whether b shall be appended together with others.
func (b *Batch) joins() bool {
	return len(b.buf) > 0 && len(b.buf) <= joinBytes
}

// every is how many batches go by themselves between two yields without hope.
func (j *joiner) every() uint32 { return joinTry << j.long.Load() }

// learn judges yields by the batches that they brought together: those without hope one by
// one, others by the sum of many, since one may have to wait for anything. The caller holds
// appendMu.
func (j *joiner) learn(batches int, took time.Duration) {
	n := j.hope.Load()
	j.took += took
	j.brought += batches
	over := j.took - joinPatience*time.Duration(j.brought)
	if j.yields++; n > 0 && j.yields < joinHope && over < joinOver {
		if batches > 1 {
			j.hope.Store(joinHope)
		} else {
			j.hope.Store(n - 1)
		}
		return
	}
	j.took, j.brought, j.yields = 0, 0, 0
	switch {
	case over > 0:
		j.hope.Store(0)
		j.long.Store(min(j.long.Load()+1, joinLong))
	case batches > 1 && j.long.Load() > 0: // luck, perhaps
		j.long.Add(^uint32(0))
	case batches > 1:
		j.hope.Store(joinHope)
	case n > 0:
		j.hope.Store(n - 1)
	}
}

// join appends b, with what else is listed by then, or says that it could not: the
// disk is sick or full, or the file has no room for all. begin is now.
func (s *Store) join(b *Batch, begin time.Time) (done bool) {
	j := &s.joiner
	if j.alone(b) || j.hope.Load() == 0 && b.joined.turn%j.every() != 0 {
		return false
	}
	b.joined.done.Store(false)
	j.mu.Lock()
	j.listed = append(j.listed, b)
	j.mu.Unlock()
	runtime.Gosched()
	if b.joined.done.Load() {
		return true
	}
	took := time.Since(begin)
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if b.joined.done.Load() {
		return true
	}
	j.mu.Lock()
	j.taken, j.listed = j.listed, j.taken[:0]
	j.mu.Unlock()
	j.learn(len(j.taken), took)
	s.appendJoined(j.taken)
	clear(j.taken)
	return b.joined.done.Load()
}

// appendJoined appends the batches in one write, or none of them. The caller holds
// appendMu.
func (s *Store) appendJoined(all []*Batch) {
	j := &s.joiner
	size := int64(0)
	for _, b := range all {
		size += int64(len(b.buf))
	}
	if s.broken() != nil || s.replica.Load() || size > s.log.Room()-record.BlankSize {
		return // each by itself: that makes the next file, or says what is wrong
	}
	now := max(s.opt.Now().UnixMilli(), s.lastMillis)
	s.lastMillis = now
	base := s.log.End()
	j.buf = j.buf[:0]
	for _, b := range all {
		piece := s.assign(b, 0, len(b.Items), base+int64(len(j.buf)), now)
		j.buf = append(j.buf, piece...)
	}
	if err, sick := s.log.Write(j.buf); err != nil {
		for i := len(all) - 1; i >= 0; i-- {
			all[i].unassign(0, len(all[i].Items))
			s.writeFailed(all[i], 0, err, sick)
			all[i].joined.done.Store(true)
		}
		return
	}
	for _, b := range all {
		base += int64(len(b.buf))
		b.end = record.PhysOffset(base)
		s.push(b, 0, len(b.Items))
		b.joined.done.Store(true)
	}
}
