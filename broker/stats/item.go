package stats

import "sync/atomic"

const (
	minuteSamples = 7
	hourSamples   = 7
	daySamples    = 25
	// samplesPerHourSample and samplesPerDaySample are how many ten-second samples
	// lie between two of the hour and of the day.
	samplesPerHourSample = 60
	samplesPerDaySample  = 360
	// idleMillis is when an item that nothing was added to is dropped: all its
	// windows are empty by then.
	idleMillis = 25 * 3600_000
)

// Snapshot is one window of an item, with the names of the wire.
type Snapshot struct {
	Sum   int64   `json:"sum"`   // added in the window
	TPS   float64 `json:"tps"`   // Sum for each second of the window
	AvgPT float64 `json:"avgpt"` // Sum for each addition
}

// counter is a value and how often something was added to it.
type counter struct{ value, times atomic.Int64 }

func (c *counter) add(n int64) {
	c.value.Add(n)
	c.times.Add(1)
}

// sample is a counter at a time.
type sample struct{ millis, value, times int64 }

// window holds the newest samples, oldest first.
type window []sample

func (w *window) add(s sample, most int) {
	if len(*w) < most {
		*w = append(*w, s)
		return
	}
	copy(*w, (*w)[1:])
	(*w)[most-1] = s
}

func (w window) snapshot() Snapshot {
	if len(w) == 0 {
		return Snapshot{}
	}
	first, last := w[0], w[len(w)-1]
	s := Snapshot{Sum: last.value - first.value}
	if span := last.millis - first.millis; span > 0 {
		s.TPS = float64(s.Sum) * 1000 / float64(span)
	}
	if times := last.times - first.times; times > 0 {
		s.AvgPT = float64(s.Sum) / float64(times)
	}
	return s
}

// upTo is the window with its newest end at a sample that was taken since: the hour
// and the day are not as old as their last step. A full window gives its oldest step
// for that.
func (w window) upTo(now window, most int) window {
	if len(w) == 0 || len(now) == 0 {
		return w
	}
	first := w[0]
	if len(w) == most {
		first = w[1]
	}
	return window{first, now[len(now)-1]}
}

// item is a counter with its windows. Those are guarded by Stats.mu.
type item struct {
	counter
	minute, hour, day window
}

// sample takes the nth sample of ten seconds; the one before was taken at last.
// It reports whether anything was added since then.
func (i *item) sample(n, last, millis int64) bool {
	if len(i.minute) == 0 {
		// The item was made since the last sample, at which it would have been 0.
		i.minute.add(sample{millis: last}, minuteSamples)
		i.hour.add(sample{millis: last}, hourSamples)
		i.day.add(sample{millis: last}, daySamples)
	}
	s := sample{millis, i.value.Load(), i.times.Load()}
	busy := s.times != i.minute[len(i.minute)-1].times
	i.minute.add(s, minuteSamples)
	if n%samplesPerHourSample == 0 {
		i.hour.add(s, hourSamples)
	}
	if n%samplesPerDaySample == 0 {
		i.day.add(s, daySamples)
	}
	return busy
}
