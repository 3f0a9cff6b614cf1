package delay

import (
	"time"

	"mqctl/store"
)

// A message may state a time of delivery further away than its level's delay: the
// machine's clock was ahead when it was stored, or behind the store's since, or the level
// was made shorter. When it was stored is not known then, but that it was before the
// level's queue was seen to end behind it is; so it is due the delay after that at the
// latest, and never sooner than what was asked for.

// sighting says that all before end were stored by at, on the steady clock.
type sighting struct {
	end int64
	at  time.Time
}

// sightEvery is how exact sightings are: a hundredth of the delay, so a level keeps about
// a hundred, and what is delivered by them is late by no more.
func (l *level) sightEvery() time.Duration { return max(l.delay/100, 50*time.Millisecond) }

// see notes where the queue ends now.
func (l *level) see(end int64, steady time.Time) {
	if n := len(l.seen); n > 0 && (end == l.seen[n-1].end || steady.Sub(l.seen[n-1].at) < l.sightEvery()) {
		return
	}
	l.seen = append(l.seen, sighting{end, steady})
}

// due says when the unit at offset, before end, is to be delivered, by the wall clock.
func (l *level) due(u store.Unit, offset, end int64, now, steady time.Time) time.Time {
	for len(l.seen) > 0 && l.seen[0].end <= offset {
		l.seen = l.seen[1:] // all that is about was delivered
	}
	stated := time.UnixMilli(u.TagsCode)
	if len(l.seen) == 0 && !stated.After(now.Add(l.delay)) {
		return stated
	}
	l.see(end, steady)
	wait := l.delay
	for _, s := range l.seen {
		if s.end > offset {
			wait = s.at.Add(l.delay).Sub(steady)
			break
		}
	}
	if at := now.Add(wait); at.Before(stated) {
		return at
	}
	return stated
}
