package store_test

import (
	"fmt"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// rawBurst is a part of a master's log: messages of 1 KiB over 16 queues.
type rawBurst struct {
	bytes   []byte
	records []record.View
	pos     int64 // of the part in the log
}

func newRawBurst(tb testing.TB, n int) *rawBurst {
	o := small(vfs.NewMem())
	o.CommitLogBytes = 64 << 20
	s, _ := open(tb, o)
	var b store.Batch
	benchQueues(s)
	for range n / 64 {
		addAll(s, &b, benchDrafts())
		s.AppendAll(&b)
	}
	r := &rawBurst{bytes: rawBytes(tb, s)}
	r.records = views(tb, r.bytes)
	closeStore(tb, s)
	return r
}

// next makes the burst the part of the log at pos.
func (r *rawBurst) next(pos int64) {
	at := 0
	for _, v := range r.records {
		rec := r.bytes[at : at+v.Size()]
		q := v.QueueOffset() + record.QueueOffset(len(r.records)/16)
		record.Patch(rec, q, v.PhysOffset()+record.PhysOffset(pos-r.pos), v.StoreMillis())
		at += len(rec)
	}
	r.pos = pos
}

// BenchmarkAppendRaw appends a master's bytes in bursts of some 300 KiB: checks,
// write, dispatch, index. One op is one message.
func BenchmarkAppendRaw(b *testing.B) {
	for _, index := range []bool{true, false} {
		b.Run(fmt.Sprintf("index=%v", index), func(b *testing.B) {
			o := benchOptions(b)
			o.IndexOff, o.Replica = !index, true
			s, _ := open(b, o)
			defer runStore(b, s)()
			const n = 256
			burst := newRawBurst(b, n)
			b.SetBytes(int64(len(burst.bytes) / n))
			b.ReportAllocs()
			defer cpu(b)()
			b.ResetTimer()
			for done := 0; done < b.N; done += n {
				b.StopTimer()
				fillUp(b, s, int64(len(burst.bytes)))
				if done > 0 {
					burst.next(int64(s.Positions().Max))
				}
				b.StartTimer()
				if got, err := s.AppendRaw(burst.bytes); err != nil || got != len(burst.bytes) {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// fillUp ends the file of the log with a blank if n bytes have no room.
func fillUp(tb testing.TB, s *store.Store, n int64) {
	left := int64(1<<30) - int64(s.Positions().Max)%(1<<30)
	if left >= n+record.BlankSize {
		return
	}
	blank := append(record.AppendBlank(nil, int32(left)), make([]byte, left-record.BlankSize)...)
	if _, err := s.AppendRaw(blank); err != nil {
		tb.Fatal(err)
	}
}

// TestAppendRawAllocatesNothing: not even a little for each burst.
func TestAppendRawAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	o := replica(vfs.OS{})
	o.Dir, o.CommitLogBytes, o.QueueFileBytes = t.TempDir(), 1<<30, 0
	o.IndexSlots, o.IndexEntries = 1<<16, 1<<20
	s, _ := open(t, o)
	burst := newRawBurst(t, 256)
	first := true
	step := func() {
		if !first {
			burst.next(int64(s.Positions().Max))
		}
		first = false
		if n, err := s.AppendRaw(burst.bytes); err != nil || n != len(burst.bytes) {
			t.Fatal(n, err)
		}
	}
	for range 200 { // chunks of memory and rings have their sizes
		step()
	}
	if n := testing.AllocsPerRun(100, step); n > 2 {
		t.Errorf("%.0f allocations for a burst of 256 messages", n)
	}
	closeStore(t, s)
}
