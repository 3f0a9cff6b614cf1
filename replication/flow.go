package replication

import "time"

// bucket limits what one connection sends, header and body, to a number of bytes
// for each second (maxHaTransferByteInSecond; Apache's FlowMonitor counts headers
// only, and spins when there is nothing left). It holds at most a tenth of a
// second's worth, so that a burst does not hide the limit. One goroutine at a time.
type bucket struct {
	rate   int64 // bytes per second; 0: no limit
	tokens int64
	at     time.Time
}

// fill brings the bucket up to date. ok is false while it is empty; then wait is
// how long until a worthwhile piece may be sent.
func (b *bucket) fill(rate int64, now time.Time) (most int64, wait time.Duration) {
	if rate <= 0 {
		b.rate = 0
		return maxBody, 0
	}
	depth := max(rate/10, headerSize+1)
	if b.rate != rate || b.at.IsZero() {
		b.rate, b.at, b.tokens = rate, now, depth
	}
	if d := now.Sub(b.at); d > 0 {
		b.at = now
		b.tokens = min(depth, b.tokens+int64(float64(rate)*min(d, time.Second).Seconds()+0.5))
	}
	if want := min(depth, 16<<10); b.tokens < want {
		return 0, max(time.Millisecond, time.Duration(float64(want-b.tokens)/float64(rate)*float64(time.Second)))
	}
	return b.tokens - headerSize, 0
}

func (b *bucket) take(n int) {
	if b.rate > 0 {
		b.tokens -= int64(n)
	}
}
