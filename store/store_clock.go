package store

import "time"

// slowClock gives the store times while the machine's clock lies behind the newest one
// that was given out: it was ahead, and was put right. Store times never fall, and they
// go on, at half the speed of time, until the machine's clock has caught up with them.
type slowClock struct {
	from  int64     // the store time when that began
	begin time.Time // on the steady clock; zero: the machine's clock is not behind
}

// storeMillis is the store time of what is appended now. The caller holds appendMu.
func (s *Store) storeMillis() int64 {
	now := s.opt.Now().UnixMilli()
	if now >= s.lastMillis {
		s.slow.begin = time.Time{}
	} else {
		now = s.slow.now(s.lastMillis, s.opt.Steady())
	}
	s.lastMillis = now
	return now
}

func (c *slowClock) now(last int64, steady time.Time) int64 {
	if !c.begin.IsZero() {
		if now := c.from + steady.Sub(c.begin).Milliseconds()/2; now >= last {
			return now
		}
	}
	c.from, c.begin = last, steady // also where a master's log went further meanwhile
	return last
}
