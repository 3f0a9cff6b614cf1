package store_test

import (
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// cpu reports the processor time of an operation, which a busy machine does
// not change as it does the time on the clock.
func cpu(b *testing.B) (stop func()) {
	begin := cpuTime()
	return func() { b.ReportMetric(float64(cpuTime()-begin)/float64(b.N), "cpu-ns/op") }
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchOptions(b *testing.B) store.Options {
	return store.Options{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)}
}

// benchDrafts are 64 messages of 1 KiB over 16 queues, as one burst of a
// connection brings them.
func benchDrafts() []*record.Draft {
	var out []*record.Draft
	body := make([]byte, 1024)
	for i := range 64 {
		d := draft("bench", int32(i%16), string(body), "UNIQ_KEY", fmt.Sprintf("7F0000010000006000000000%08X", i),
			"KEYS", fmt.Sprintf("order-%d", i), "TAGS", "TagA", "CLUSTER", "DefaultCluster", "WAIT", "true")
		out = append(out, d)
	}
	return out
}

func addAll(s *store.Store, batch *store.Batch, drafts []*record.Draft) {
	batch.Reset()
	for _, d := range drafts {
		batch.Add(s, s.Lookup(d.Topic, d.QueueID), d, 0)
	}
}

func benchQueues(s *store.Store) {
	for i := range int32(16) {
		s.Queue("bench", i)
	}
}

func runStore(b testing.TB, s *store.Store) (stop func()) {
	ctx, cancel := contextWithCancel()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
		closeStore(b, s)
	}
}

// BenchmarkAppendAll is the whole way of a message through the store: encode,
// checksum, append, dispatch, index. One op is one message.
func BenchmarkAppendAll(b *testing.B) {
	for _, index := range []bool{true, false} {
		b.Run(fmt.Sprintf("index=%v", index), func(b *testing.B) {
			o := benchOptions(b)
			o.IndexOff = !index
			s, _ := open(b, o)
			defer runStore(b, s)()
			benchQueues(s)
			drafts := benchDrafts()
			var batch store.Batch
			b.SetBytes(1024)
			b.ReportAllocs()
			defer cpu(b)()
			for n := 0; n < b.N; n += len(drafts) {
				addAll(s, &batch, drafts)
				s.AppendAll(&batch)
				if batch.Items[0].Status != store.PutOK {
					b.Fatal(batch.Items[0].Status)
				}
			}
		})
	}
}

type waitGroup struct{ sync.WaitGroup }

func (w *waitGroup) Flushed(store.Status) { w.Done() }

// BenchmarkAppendSync is 64 senders with one message in flight each, every one
// answered after the flush.
func BenchmarkAppendSync(b *testing.B) {
	o := benchOptions(b)
	o.SyncFlush = true
	s, _ := open(b, o)
	defer runStore(b, s)()
	benchQueues(s)
	drafts := benchDrafts()
	b.SetBytes(1024)
	defer cpu(b)()
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			var batch store.Batch
			var wait waitGroup
			for n := c; n < b.N; n += 64 {
				addAll(s, &batch, drafts[c:c+1])
				s.AppendAll(&batch)
				wait.Add(1)
				s.WaitFlushed(batch.End(), &wait)
				wait.Wait()
			}
		})
	}
	wg.Wait()
}

// BenchmarkRead32 reads queues of 16 whose messages alternate in the log, 32 a
// request: from the page cache, or (150 bursts) from the newest bytes in memory.
// One op is one message.
func BenchmarkRead32(b *testing.B) {
	for _, c := range []struct{ queues, bursts int }{{1, 2000}, {16, 2000}, {16, 150}} {
		queues := c.queues
		b.Run(fmt.Sprintf("queues=%d/bursts=%d", queues, c.bursts), func(b *testing.B) {
			s, _ := open(b, benchOptions(b))
			defer runStore(b, s)()
			benchQueues(s)
			drafts := benchDrafts()
			for i, d := range drafts {
				d.QueueID = int32(i % queues)
			}
			var batch store.Batch
			for range c.bursts {
				addAll(s, &batch, drafts)
				s.AppendAll(&batch)
			}
			var buf []byte
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b)()
			q := s.Lookup([]byte("bench"), 0)
			off := q.Min()
			for n := 0; n < b.N; {
				var res store.ReadResult
				buf, res = s.Read(buf[:0], q, off, 32, nil)
				if res.Status != store.Found {
					b.Fatal(res.Status)
				}
				n += res.Count
				if off = res.Next; off == q.Max() {
					off = q.Min()
				}
			}
			b.StopTimer() // what follows syncs and closes
		})
	}
}

// BenchmarkOpen opens an empty store.
func BenchmarkOpen(b *testing.B) {
	defer cpu(b)()
	for b.Loop() {
		b.StopTimer()
		o := benchOptions(b)
		b.StartTimer()
		s, _ := open(b, o)
		b.StopTimer()
		closeStore(b, s)
		b.StartTimer()
	}
}

// BenchmarkDispatch is what follows the append: queue units, index entries,
// the signal of arrival. One op is one message.
func BenchmarkDispatch(b *testing.B) {
	arrivals := 0
	o := benchOptions(b)
	o.SyncFlush = true // holds dispatch back until the flush
	o.OnArrival = func(*store.Queue) { arrivals++ }
	s, _ := open(b, o)
	defer closeStore(b, s)
	benchQueues(s)
	drafts := benchDrafts()
	var batch store.Batch
	b.ReportAllocs()
	var spent time.Duration
	n := 0
	b.ResetTimer()
	for n < b.N {
		b.StopTimer()
		for range 100 {
			addAll(s, &batch, drafts)
			s.AppendAll(&batch)
			n += len(drafts)
		}
		s.SyncLog()
		b.StartTimer()
		begin := cpuTime()
		s.Dispatch()
		spent += cpuTime() - begin
	}
	b.ReportMetric(float64(spent)/float64(n), "cpu-ns/op")
	if arrivals == 0 {
		b.Error("no arrival")
	}
}

// BenchmarkQuery finds one of 100,000 messages by its unique key. One op is one query.
func BenchmarkQuery(b *testing.B) {
	s, _ := open(b, benchOptions(b))
	defer runStore(b, s)()
	benchQueues(s)
	drafts := benchDrafts()
	var batch store.Batch
	const n = 100_000
	for i := 0; i < n; {
		for _, d := range drafts {
			d.Properties = record.AppendProperty(nil, "UNIQ_KEY", fmt.Sprintf("7F0000010000006000000000%08X", i))
			i++
		}
		addAll(s, &batch, drafts)
		s.AppendAll(&batch)
	}
	s.KeepOnce()
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	for i := range b.N {
		var res store.QueryResult
		key := fmt.Sprintf("7F0000010000006000000000%08X", i*7919%n)
		if buf, res = s.Query(buf[:0], "bench", key, 64, 0, 1<<60, true); res.Count != 1 {
			b.Fatalf("%s: %+v", key, res)
		}
	}
}
