package broker

import "time"

// Two clocks. Options.Now is the machine's: it dates what others or a later run read
// (messages, versions, events), and whoever sets it may move it by hours at once. How
// long something lasts, leases, silence and deadlines, is taken from the steady one.

// steadyClock returns a clock that goes on evenly whatever is done to the machine's.
// Its times are compared with each other only: as dates they are wrong as soon as the
// machine's clock was set.
func steadyClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

func (b *Broker) steadyMillis() int64 { return b.steady().UnixMilli() }

// dated is the date of a time of the steady clock; the zero time stays what it is.
func (b *Broker) dated(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return b.opts.Now().Add(at.Sub(b.steady()))
}

// datedMillis is that in ms, 0 for none.
func (b *Broker) datedMillis(millis int64) int64 {
	if millis == 0 {
		return 0
	}
	return b.dated(time.UnixMilli(millis)).UnixMilli()
}

// uptime is how long the broker has been there.
func (b *Broker) uptime() time.Duration { return b.steady().Sub(b.began) }
