package subgroup

import "testing"

// TestFullLocks: a table that is full of live leases is not searched for each queue
// of a request, and takes new ones when the old have ended.
func TestFullLocks(t *testing.T) {
	now := int64(1_000_000)
	l := NewLocks(func() int64 { return now })
	queues := func(n int) []QueueKey {
		out := make([]QueueKey, n)
		for i := range out {
			out[i] = QueueKey{Topic: "T", BrokerName: "b", QueueID: int32(i)}
		}
		return out
	}
	if got := len(l.Lock("full", "c1", queues(maxLocks))); got != maxLocks {
		t.Fatalf("%d of %d locks granted", got, maxLocks)
	}
	// With a search for each queue this takes minutes.
	if got := len(l.Lock("more", "c2", queues(maxLocks))); got != 0 {
		t.Errorf("%d locks granted beyond the limit", got)
	}
	if got := len(l.Lock("full", "c1", queues(10))); got != 10 {
		t.Errorf("%d of 10 locks renewed", got)
	}
	now += lockMillis + 1
	if got := len(l.Lock("more", "c2", queues(100))); got != 100 {
		t.Errorf("%d of 100 locks granted after the others have ended", got)
	}
}
