package store

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	for _, micros := range []int64{0, 1, 3, 4, 5, 7, 8, 9, 100, 1023, 1024, 123_456, 1 << 30, 1 << 45} {
		i := bucketOf(micros)
		if i > 0 && bucketEnd(i-1) >= micros || i < 4*40-1 && bucketEnd(i) < micros {
			t.Errorf("%d us in bucket %d, which ends at %d", micros, i, bucketEnd(i))
		}
		if end := bucketEnd(i); micros > 3 && micros < 1<<39 && float64(end) > 1.25*float64(micros) {
			t.Errorf("%d us is told as %d", micros, end)
		}
	}
	var h Histogram
	if l := h.Latency(); l != (Latency{}) {
		t.Errorf("empty: %+v", l)
	}
	for i := range 1000 {
		h.Add(time.Duration(i+1)*time.Millisecond, 1)
	}
	l := h.Latency()
	for name, p := range map[string]struct{ got, want time.Duration }{"p50": {l.P50, 501}, "p90": {l.P90, 901}, "p99": {l.P99, 991}, "p999": {l.P999, 1000}} {
		want := p.want * time.Millisecond
		if p.got < want-time.Millisecond || p.got > want*5/4 {
			t.Errorf("%s is %v, want %v", name, p.got, want)
		}
	}
	if l.Count != 1000 || l.Max != time.Second {
		t.Errorf("%+v", l)
	}
}
