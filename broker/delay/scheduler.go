package delay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

const (
	// batchUnits and batchBytes bound what is delivered before the other levels
	// get their turn.
	batchUnits = 64
	batchBytes = 1 << 20
	// retryAfter is the wait after a delivery that failed, as in RocketMQ.
	retryAfter = 100 * time.Millisecond
	// readAttempts is how often an unreadable message is tried before it is
	// passed over, so that it cannot stop its level for ever.
	readAttempts = 5
	// longestWait is how long Run sleeps at most while something is waiting, so
	// that it follows a clock that is set forward.
	longestWait = time.Second
	// saveEvery is the least time between two saves while messages are delivered.
	// RocketMQ saves every 10 s and delivers those of the last 10 s again after a
	// crash.
	saveEvery = time.Second
	// lastFlush is how long the end of Run waits for the copies to be on disk.
	lastFlush = 2 * time.Second
	// maxMarks bounds what is remembered of copies that are not flushed yet, per
	// level.
	maxMarks = 64
	// versionStep is delayOffsetUpdateVersionStep.
	versionStep = 200
)

// Options of a Scheduler.
type Options struct {
	Store      *store.Store
	FS         vfs.FS
	Dir        string          // <root>/config
	Levels     []time.Duration // level 1 first
	Now        func() time.Time
	Steady     func() time.Time // goes on evenly whatever is done to the clock; nil: time.Now
	Log        *slog.Logger
	FlushEvery time.Duration // flushDelayOffsetInterval; longer than a second counts as one
	Following  bool          // begin as a slave does, see SetFollowing
}

// messages is what a Scheduler needs of the store.
type messages interface {
	// bounds of the queue of a level (0-based): first, visible end, next.
	bounds(level int) (first, end, next record.QueueOffset)
	units(dst []store.Unit, level int, from record.QueueOffset, n int) []store.Unit
	message(dst []byte, p record.PhysOffset) ([]byte, error)
	first() record.PhysOffset   // of the log
	flushed() record.PhysOffset // of the log
	// add puts a message into the batch, append stores the batch and returns the
	// fate of each, and the position behind the last. add returns the encoded size
	// of the batch so far.
	add(d *record.Draft) (bytes int)
	append() (fates []store.Status, end record.PhysOffset)
	// waitFlushed waits until everything before p is on disk or ctx ends.
	waitFlushed(ctx context.Context, p record.PhysOffset)
}

// level is the state of one delay level.
type level struct {
	delay  time.Duration
	offset atomic.Int64 // next to deliver; written by Run only
	idle   atomic.Bool  // nothing waits, so an arrival must wake Run

	retryAt  time.Time  // not before; Run only
	failures int        // of the message at offset; Run only
	seen     []sighting // oldest first; Run only
}

// mark says that the progress offset may be saved once the log is flushed up
// to end.
type mark struct {
	offset int64
	end    record.PhysOffset
}

// Scheduler owns delivery and its progress (delayOffset.json).
type Scheduler struct {
	o      Options
	log    messages
	levels []*level
	kick   chan struct{} // wakes Run
	saves  chan struct{} // wakes the saver

	following atomic.Bool // a slave's: nothing is delivered; written under turns
	turns     sync.Mutex  // held for one level's turn, so that a change of the role waits for its end

	mu      sync.Mutex // guards what follows; never held during I/O
	marks   [][]mark   // by level, oldest first
	safe    []int64    // progress by level whose copies are on disk; <= offset
	version table.DataVersion
	updates int64         // deliveries since the version was stepped
	other   map[int]int64 // progress of levels that are not configured any more, by 1-based level

	saving sync.Mutex // held by Persist while it writes; guards saved
	file   *table.File
	saved  string // offsets as they were last saved
	rest   []byte // members of the file that are not ours, kept

	// Run only.
	buf     []byte       // the record being delivered
	draft   record.Draft // made of it
	pending []store.Unit // of one turn
	sent    []int        // indexes in pending of what is in the batch
	skips   skips
}

// Arrived tells of a new message in the queue of a level (1-based). It never
// blocks and costs one atomic load while the level has others waiting.
func (s *Scheduler) Arrived(n int) {
	if n < 1 || n > len(s.levels) {
		return
	}
	if l := s.levels[n-1]; l.idle.Load() && l.idle.CompareAndSwap(true, false) {
		notify(s.kick)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run delivers the messages of every level when they are due until ctx ends,
// and saves the progress meanwhile and at the end. Run it once.
func (s *Scheduler) Run(ctx context.Context) error {
	var saver sync.WaitGroup
	saver.Go(func() { s.save(ctx) })
	s.deliver(ctx)
	saver.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
	defer cancel()
	if p := s.lastMark(); p > s.log.flushed() {
		s.log.waitFlushed(end, p)
	}
	return s.Persist()
}

// deliver is the loop of Run.
func (s *Scheduler) deliver(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait, waiting := s.round()
		if waiting && wait <= 0 {
			continue
		}
		timer.Reset(time.Hour)
		if waiting {
			timer.Reset(min(wait, longestWait))
		}
		select {
		case <-ctx.Done():
		case <-s.kick:
		case <-timer.C:
		}
	}
}

// round gives every level a turn. It returns how long nothing will be due, and
// whether anything waits at all.
func (s *Scheduler) round() (wait time.Duration, waiting bool) {
	for i := range s.levels {
		at, some := s.guardedTurn(i)
		if !some {
			continue
		}
		left := at.Sub(s.o.Now())
		if !waiting || left < wait {
			wait, waiting = left, true
		}
	}
	return wait, waiting
}

// guardedTurn is a turn unless the broker is a slave.
func (s *Scheduler) guardedTurn(i int) (next time.Time, some bool) {
	s.turns.Lock()
	defer s.turns.Unlock()
	if s.following.Load() {
		return time.Time{}, false
	}
	return s.turn(i)
}

// turn delivers what is due in a level, at most one batch. It returns when the
// level wants its next turn; some is false if the level is empty.
func (s *Scheduler) turn(i int) (next time.Time, some bool) {
	l := s.levels[i]
	now := s.o.Now()
	if l.retryAt.After(now) {
		return l.retryAt, true
	}
	// First idle, then a look at the end: an arrival in between wakes Run.
	l.idle.Store(true)
	first, end, _ := s.log.bounds(i)
	offset := record.QueueOffset(l.offset.Load())
	if offset < first {
		offset = first // what was there is gone from the log
		l.offset.Store(int64(first))
	}
	if offset >= end {
		return time.Time{}, false
	}
	l.idle.Store(false)
	s.pending = s.log.units(s.pending[:0], i, offset, batchUnits)
	if len(s.pending) == 0 {
		s.o.Log.Warn("the queue of a delay level cannot be read, trying again", "component", "delay", "level", i+1, "queue_offset", int64(offset))
		return s.retry(l, now, 10*time.Second)
	}
	return s.dispatch(i, l, offset, now)
}

// retry gives a level its next turn later.
func (s *Scheduler) retry(l *level, now time.Time, after time.Duration) (time.Time, bool) {
	l.retryAt = now.Add(after)
	return l.retryAt, true
}

// dispatch delivers the due units of s.pending, which start at offset.
func (s *Scheduler) dispatch(i int, l *level, offset record.QueueOffset, now time.Time) (time.Time, bool) {
	taken, stuck, next := s.collect(i, l, int64(offset), now)
	var end record.PhysOffset
	failed := false
	if len(s.sent) > 0 {
		var fates []store.Status
		fates, end = s.log.append()
		if k := s.firstFailure(fates, i+1); k >= 0 {
			failed = true
			taken = s.sent[k]
		}
	}
	if taken > 0 {
		l.failures = 0
		s.advance(i, int64(offset)+int64(taken), end, taken)
	}
	switch {
	case failed || stuck:
		return s.retry(l, now, retryAfter)
	case next.After(now):
		return next, true
	default:
		return now, true // there may be more
	}
}

// collect puts the due units of s.pending into the batch. taken counts those
// that are done with once the batch is stored; s.sent says which of them are in
// it, the others are passed over. stuck means that the one behind them could not
// be read, next is when it is due otherwise.
func (s *Scheduler) collect(i int, l *level, offset int64, now time.Time) (taken int, stuck bool, next time.Time) {
	s.sent = s.sent[:0]
	steady := s.o.Steady()
	_, end, _ := s.log.bounds(i)
	for k, u := range s.pending {
		if at := l.due(u, offset+int64(k), int64(end), now, steady); at.After(now) {
			if soon := now.Add(l.sightEvery()); len(l.seen) > 0 && soon.Before(at) {
				at = soon // where the queue ends is looked at again
			}
			return taken, false, at
		}
		draft, err := s.read(u)
		if err != nil && !errors.Is(err, errGone) && !errors.As(err, new(*refusal)) {
			if taken > 0 || l.failures < readAttempts {
				if taken == 0 {
					l.failures++
				}
				return taken, true, now
			}
		}
		taken++
		if err != nil {
			s.skips.note(s.o.Log, s.o.Now(), i+1, u, err)
			continue
		}
		s.sent = append(s.sent, taken-1)
		if s.log.add(draft) >= batchBytes {
			break
		}
	}
	return taken, false, now
}

// firstFailure finds the first message that is to be tried again. One that the
// store refuses for what it is would be refused for ever: it is passed over.
func (s *Scheduler) firstFailure(fates []store.Status, n int) int {
	for k, fate := range fates {
		switch fate {
		case store.PutOK, store.FlushDiskTimeout:
		case store.MessageIllegal, store.PropertiesExceeded:
			s.skips.note(s.o.Log, s.o.Now(), n, s.pending[s.sent[k]], &refusal{"the store refuses it: " + fate.String()})
		default:
			s.skips.failed(s.o.Log, s.o.Now(), n, fate)
			return k
		}
	}
	return -1
}

// advance notes the progress of a level. Copies that end at end were appended;
// 0 if there were none.
func (s *Scheduler) advance(i int, offset int64, end record.PhysOffset, count int) {
	s.levels[i].offset.Store(offset)
	s.mu.Lock()
	if end == 0 && len(s.marks[i]) > 0 {
		end = s.marks[i][len(s.marks[i])-1].end
	}
	s.marks[i] = append(s.marks[i], mark{offset, end})
	if len(s.marks[i]) > maxMarks {
		// Fewer marks are coarser, not wrong. The last one must stay.
		kept := s.marks[i][:0]
		for k := 1; k < len(s.marks[i]); k += 2 {
			kept = append(kept, s.marks[i][k])
		}
		if len(s.marks[i])%2 == 1 {
			kept = append(kept, s.marks[i][len(s.marks[i])-1])
		}
		s.marks[i] = kept
	}
	s.updates += int64(count)
	for s.updates >= versionStep {
		s.updates -= versionStep
		s.version = s.version.Next(s.o.Now().UnixMilli())
	}
	s.mu.Unlock()
	notify(s.saves)
}
