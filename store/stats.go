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

// putStats are counters without a lock; the histogram has a bucket for each
// power of two of microseconds.
type putStats struct {
	times, failed, bytes, maxMicros atomic.Int64
	buckets                         [40]atomic.Int64
}

func (p *putStats) add(b *Batch, begin time.Time) {
	micros := time.Since(begin).Microseconds()
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
	p.buckets[min(bits.Len64(uint64(micros)), len(p.buckets)-1)].Add(n)
	for old := p.maxMicros.Load(); micros > old && !p.maxMicros.CompareAndSwap(old, micros); {
		old = p.maxMicros.Load()
	}
}

// PutStats returns the counters. The percentiles are upper bounds by powers of
// two of a microsecond.
func (s *Store) PutStats() PutStats {
	p := &s.stats
	st := PutStats{
		Times: p.times.Load(), Failed: p.failed.Load(), Bytes: p.bytes.Load(), MaxMicros: p.maxMicros.Load(),
	}
	var counts [len(p.buckets)]int64
	total := int64(0)
	for i := range counts {
		counts[i] = p.buckets[i].Load()
		total += counts[i]
	}
	st.P99Millis = percentile(counts[:], total, 0.99)
	st.P999Millis = percentile(counts[:], total, 0.999)
	return st
}

func percentile(counts []int64, total int64, part float64) float64 {
	left := int64(float64(total) * (1 - part))
	for i := len(counts) - 1; i >= 0; i-- {
		if left -= counts[i]; left < 0 {
			return float64(int64(1)<<i) / 1000
		}
	}
	return 0
}
