package store

import (
	"log/slog"
	"time"
)

// ageClock is what the age of messages is measured with: the machine's clock, but where
// that is set forward, it gains on it at the speed of time only. Else a clock that is
// set days ahead by mistake would take the whole log with it within a minute. A clock
// that is set back makes everything younger. A start goes by the clock it finds.
type ageClock struct {
	date, steady time.Time // when it was looked at last, by both clocks
	behind       bool      // the machine's clock is ahead of it, and that was said
}

// jumpWorthAWord is how far ahead the machine's clock must be to be told of.
const jumpWorthAWord = time.Minute

// now is the date by which messages are old. The caller holds retain.turn.
func (c *ageClock) now(wall, steady time.Time, log *slog.Logger) time.Time {
	most := c.date.Add(2 * max(0, steady.Sub(c.steady)))
	ahead := wall.Sub(most)
	c.date, c.steady = wall, steady
	if ahead > 0 {
		c.date = most
	}
	if far := ahead > jumpWorthAWord; far != c.behind && (far || ahead <= 0) {
		c.behind = far
		if far {
			log.Warn("the machine's clock was set forward: messages grow old by it little by little only", "ahead", ahead.Round(time.Second))
		}
	}
	return c.date
}

func (s *Store) ageNow() time.Time {
	return s.retain.age.now(s.opt.Now(), s.opt.Steady(), s.opt.Log)
}
