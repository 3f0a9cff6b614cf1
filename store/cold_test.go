package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"

	"golang.org/x/sys/unix"
)

// Nothing is mapped: files that somebody truncates, removes or overwrites under a
// running store make messages unreadable, and the process goes on.
func TestFilesGoneUnderReaders(t *testing.T) {
	o := small(nil)
	o.FS, o.Dir = nil, t.TempDir()
	o.CommitLogBytes = 64 << 10
	s, _ := open(t, o)
	const n = 2000
	for range n {
		put(t, s, "orders", 0, string(make([]byte, 500)), "KEYS", "k")
	}
	s.KeepOnce()
	s.DropTail()
	q := s.Lookup([]byte("orders"), 0)
	var stop atomic.Bool
	var readers sync.WaitGroup
	var reads atomic.Int64
	for range 4 {
		readers.Go(func() {
			var buf []byte
			for !stop.Load() {
				for off := q.Min(); off < q.Max() && !stop.Load(); {
					var res store.ReadResult
					buf, res = s.Read(buf[:0], q, off, 32, nil)
					off = max(res.Next, off+1)
					reads.Add(1)
				}
				s.Query(buf[:0], "orders", "k", 64, 0, 1<<60, false)
				s.OffsetByTime(q, time.Now().UnixMilli(), true)
			}
		})
	}
	logs, _ := filepath.Glob(filepath.Join(o.Dir, "commitlog", "*"))
	units, _ := filepath.Glob(filepath.Join(o.Dir, "consumequeue", "orders", "0", "*"))
	index, _ := filepath.Glob(filepath.Join(o.Dir, "index", "*"))
	if len(logs) < 4 || len(units) < 4 || len(index) == 0 {
		t.Fatalf("%d log files, %d queue files, %d index files", len(logs), len(units), len(index))
	}
	for i, name := range slices.Concat(logs[:len(logs)-2], units[:len(units)-2], index[:len(index)-1]) {
		var err error
		if i%2 == 0 {
			err = os.Truncate(name, 100)
		} else {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for before := reads.Load(); reads.Load() < before+200; {
		put(t, s, "orders", 1, "goes on")
	}
	stop.Store(true)
	readers.Wait()
	last := q.Max() - 1
	if _, res := s.Read(nil, q, last, 1, nil); res.Status != store.Found {
		t.Errorf("the newest message: %+v", res)
	}
	if b, res := s.Read(nil, q, 0, 32, nil); res.Status == store.Found && len(b) == 0 || res.Count > 0 && len(views(t, b)) != res.Count {
		t.Errorf("the oldest: %+v", res)
	}
	_ = s.Close() // what it can settle depends on which files are left
}

// evict drops the pages of all files of a folder but the newest from memory.
func evict(b *testing.B, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) < 2 {
		b.Fatal(names, err)
	}
	slices.Sort(names)
	for _, name := range names[:len(names)-1] {
		f, err := os.Open(name)
		if err != nil {
			return // expired meanwhile
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// BenchmarkColdReaders is the time of a send of 1 KiB, alone and beside 8 readers of
// old messages whose pages are dropped again and again. It sends a message every 200
// microseconds; p99 and p99.9 are of the calls of AppendAll.
func BenchmarkColdReaders(b *testing.B) {
	o := benchOptions(b)
	o.CommitLogBytes = 64 << 20
	s, _ := open(b, o)
	defer runStore(b, s)()
	benchQueues(s)
	drafts := benchDrafts()
	var batch store.Batch
	for range 6000 { // 460 MB
		addAll(s, &batch, drafts)
		s.AppendAll(&batch)
	}
	if err := s.Mark(); err != nil {
		b.Fatal(err)
	}
	measure := func() (p99, p999 time.Duration) {
		const n = 10_000
		times := make([]time.Duration, 0, n)
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for i := range n {
			<-tick.C
			addAll(s, &batch, drafts[i%64:i%64+1])
			begin := time.Now()
			s.AppendAll(&batch)
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		return times[n*99/100], times[n*999/1000]
	}
	for b.Loop() {
		alone, alone999 := measure()
		var stop atomic.Bool
		var readers sync.WaitGroup
		var cold atomic.Int64
		readers.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for !stop.Load() {
				evict(b, filepath.Join(o.Dir, "commitlog"))
				<-tick.C
			}
		})
		for i := range 8 {
			readers.Go(func() {
				q := s.Lookup([]byte("bench"), int32(i))
				end := q.Max() * 4 / 5
				var buf []byte
				for off := record.QueueOffset(i * 100); !stop.Load(); {
					var res store.ReadResult
					buf, res = s.Read(buf[:0], q, off, 32, nil)
					cold.Add(int64(res.Count))
					if off = res.Next; off >= end {
						off = 0
					}
				}
			})
		}
		beside, beside999 := measure()
		stop.Store(true)
		readers.Wait()
		b.ReportMetric(float64(alone.Microseconds()), "alone-p99-us")
		b.ReportMetric(float64(beside.Microseconds()), "cold-p99-us")
		b.ReportMetric(float64(beside)/float64(alone), "p99-ratio")
		b.ReportMetric(float64(alone999.Microseconds()), "alone-p99.9-us")
		b.ReportMetric(float64(beside999.Microseconds()), "cold-p99.9-us")
		b.ReportMetric(float64(cold.Load()), "cold-msgs")
	}
}
