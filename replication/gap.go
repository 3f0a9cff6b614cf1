package replication

import (
	"sync"
	"time"
)

// ends remembers when the log ended where, so that a gap in bytes has an age:
// every millisecond for the last seconds, and every second for the last hours.
type ends struct {
	mu     sync.Mutex // guards all; never waited for by appends
	fine   series
	coarse series
}

type sample struct {
	end int64
	at  int64 // Unix nanoseconds
}

// series is a ring of samples of increasing end and time, step apart at least. A
// sample says: bytes before end were there at that time.
type series struct {
	step time.Duration
	ring []sample
	n    uint64 // of samples ever taken
}

func newEnds() *ends {
	return &ends{
		fine:   series{step: time.Millisecond, ring: make([]sample, 4096)},
		coarse: series{step: time.Second, ring: make([]sample, 7200)},
	}
}

// note records that the log ends at end now.
func (e *ends) note(end int64, now time.Time) {
	if !e.mu.TryLock() {
		return // another append just notes the same
	}
	at := now.UnixNano()
	e.fine.note(end, at)
	e.coarse.note(end, at)
	e.mu.Unlock()
}

func (s *series) note(end, at int64) {
	if s.n > 0 {
		last := &s.ring[(s.n-1)%uint64(len(s.ring))]
		if at-last.at < int64(s.step) || end < last.end {
			return
		}
	}
	s.ring[s.n%uint64(len(s.ring))] = sample{end, at}
	s.n++
}

// reset forgets everything, for a log that was cut.
func (e *ends) reset() {
	e.mu.Lock()
	e.fine.n, e.coarse.n = 0, 0
	e.mu.Unlock()
}

// since is when the byte at pos came, to about the step of the series; false if
// that is longer ago than the samples.
func (e *ends) since(pos int64) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.fine.since(pos); ok {
		return at, true
	}
	return e.coarse.since(pos)
}

func (s *series) since(pos int64) (time.Time, bool) {
	size := uint64(len(s.ring))
	first := s.n - min(s.n, size)
	lo, hi := first, s.n // the oldest sample with end > pos is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		if s.ring[mid%size].end <= pos {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	switch lo {
	case first:
		return time.Time{}, false
	case s.n:
		lo-- // it came within a step of the last sample
	}
	return time.Unix(0, s.ring[lo%size].at), true
}

// oldest is the time of the oldest sample.
func (e *ends) oldest() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.coarse
	if s.n == 0 {
		return time.Time{}, false
	}
	size := uint64(len(s.ring))
	return time.Unix(0, s.ring[(s.n-min(s.n, size))%size].at), true
}
