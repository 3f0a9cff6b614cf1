package store

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// PutStats counts appends since start, for runtime info.
type PutStats struct {
	Times, Failed, Bytes  int64
	MaxMicros             int64
	P99Millis, P999Millis float64
}

// putStats are counters without a lock.
type putStats struct {
	times, failed, bytes atomic.Int64
	took                 Histogram
}

func (p *putStats) add(b *Batch, begin time.Time) {
	took := time.Since(begin)
	failed, size := int64(0), int64(0)
	for i := range b.Items {
		if b.Items[i].Status != PutOK {
			failed++
		} else {
			size += int64(b.Items[i].Size)
		}
	}
	n := int64(len(b.Items))
	p.times.Add(n)
	p.bytes.Add(size)
	if failed > 0 {
		p.failed.Add(failed)
	}
	p.took.Add(took, n)
}

// PutStats returns the counters. The percentiles are those of PutLatency.
func (s *Store) PutStats() PutStats {
	p := &s.stats
	l := p.took.Latency()
	return PutStats{Times: p.times.Load(), Failed: p.failed.Load(), Bytes: p.bytes.Load(), MaxMicros: l.Max.Microseconds(),
		P99Millis: millis(l.P99), P999Millis: millis(l.P999)}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// PutLatency is how long appends took since start. A burst counts once for each of
// its messages.
func (s *Store) PutLatency() Latency { return s.stats.took.Latency() }

// Histogram counts lengths of time without a lock. Its zero value is empty. Each
// power of two of microseconds has four buckets, so that a percentile is at most a
// quarter too high.
type Histogram struct {
	buckets   [4 * 40]atomic.Int64
	maxMicros atomic.Int64
}

// bucketOf is 0 to 3 for as many microseconds; from there on the two bits behind the
// highest one choose among four.
func bucketOf(micros int64) int {
	if micros < 4 {
		return int(max(micros, 0))
	}
	shift := bits.Len64(uint64(micros)) - 3
	return min(4*(shift+1)+int(micros>>shift)&3, 4*40-1)
}

// bucketEnd is the highest number of microseconds in a bucket.
func bucketEnd(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	shift := i/4 - 1
	return int64(4+i%4+1)<<shift - 1
}

// Add counts n operations that took d each.
func (h *Histogram) Add(d time.Duration, n int64) {
	micros := d.Microseconds()
	h.buckets[bucketOf(micros)].Add(n)
	for old := h.maxMicros.Load(); micros > old && !h.maxMicros.CompareAndSwap(old, micros); {
		old = h.maxMicros.Load()
	}
}

// Latency is what a Histogram tells: percentiles are upper bounds.
type Latency struct {
	Count                    int64
	P50, P90, P99, P999, Max time.Duration
}

// Latency reads the histogram. Counts that are added meanwhile may be in it or not.
func (h *Histogram) Latency() Latency {
	var counts [len(h.buckets)]int64
	l := Latency{Max: time.Duration(h.maxMicros.Load()) * time.Microsecond}
	for i := range counts {
		counts[i] = h.buckets[i].Load()
		l.Count += counts[i]
	}
	at := func(part float64) time.Duration {
		left := int64(float64(l.Count) * (1 - part))
		for i := len(counts) - 1; i >= 0; i-- {
			if left -= counts[i]; left < 0 {
				return min(time.Duration(bucketEnd(i))*time.Microsecond, l.Max)
			}
		}
		return 0
	}
	l.P50, l.P90, l.P99, l.P999 = at(0.5), at(0.9), at(0.99), at(0.999)
	return l
}
