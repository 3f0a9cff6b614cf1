package store

import (
	"runtime"
	"sync"
	"sync/atomic"

	"mqctl/store/record"
)

const (
	// joinBytes is up to which size a batch waits for others: what lies above is a write
	// worth its system call.
	joinBytes = 16 << 10
	// joinHope is how many yields in a row may be for nothing before they end.
	joinHope = 64
	// joinTry is of how many batches then joinRun in a row yield again: one alone would
	// find nobody who yields too.
	joinTry, joinRun = 128, 8
)

// joiner gathers small batches of different connections, so that they go to the log in
// one write. Nobody waits for anybody: whoever has a small batch lists it and lets
// those run who could run now anyway (with one sender, that is nobody: then yields end). Who comes first to the append lock after that
// appends all that is listed; the others find their work done.
//
// Those who could run now may also be readers of old messages, and one of them keeps a
// processor for as long as it likes. So nobody yields while files are read, nor who has
// seen no other sender since his last batch.
type joiner struct {
	last  atomic.Uint64 // who sent the newest small batch
	hope  atomic.Int32  // above 0: yields have brought batches together lately
	tries atomic.Uint32 // counts small batches while there is no hope

	mu     sync.Mutex
	listed []*Batch // guarded by mu

	taken []*Batch // of the one who appends; guarded by appendMu
	buf   []byte   // what they write together; guarded by appendMu
}

// alone says that the sender of a small batch sent the one before it too, so that
// nobody else is known to send. It goes by senders, not by batches: those are pooled,
// and the next connection gets the one that the last has just given back.
func (j *joiner) alone(sender uint64) bool {
	return j.last.Swap(sender) == sender
}

// joins says whether b shall be appended together with others.
func (b *Batch) joins() bool {
	return b.Sender != 0 && len(b.buf) > 0 && len(b.buf) <= joinBytes
}

// join appends b, with what else is listed by then, or says that it could not: the
// disk is sick or full, or the file has no room for all.
func (s *Store) join(b *Batch) (done bool) {
	j := &s.joiner
	if j.alone(b.Sender) || s.log.ReadingFiles() || j.hope.Load() == 0 && j.tries.Add(1)%joinTry >= joinRun {
		return false
	}
	b.joined.Store(false)
	j.mu.Lock()
	j.listed = append(j.listed, b)
	j.mu.Unlock()
	runtime.Gosched()
	if b.joined.Load() {
		return true
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if b.joined.Load() {
		return true
	}
	j.mu.Lock()
	j.taken, j.listed = j.listed, j.taken[:0]
	j.mu.Unlock()
	if len(j.taken) > 1 {
		j.hope.Store(joinHope)
	} else if n := j.hope.Load(); n > 0 {
		j.hope.Store(n - 1)
	}
	s.appendJoined(j.taken)
	clear(j.taken)
	return b.joined.Load()
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
	now := s.storeMillis()
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
			all[i].joined.Store(true)
		}
		return
	}
	for _, b := range all {
		base += int64(len(b.buf))
		b.end = record.PhysOffset(base)
		s.push(b, 0, len(b.Items))
		b.joined.Store(true)
	}
}
