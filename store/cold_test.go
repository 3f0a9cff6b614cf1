package store_test

import (
	"fmt"
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
// old messages whose pages are dropped again and again. 5,000 messages a second are sent, by
// one sender or by 8; p99 and p99.9 are of the calls of AppendAll.
func BenchmarkColdReaders(b *testing.B) {
	for _, senders := range []int{1, 8} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) { coldReaders(b, senders) })
	}
}

func coldReaders(b *testing.B, senders int) {
	o := benchOptions(b)
	o.CommitLogBytes = 64 << 20
	s, _ := open(b, o)
	defer runStore(b, s)()
	benchQueues(s)
	var batch store.Batch
	for range 6000 { // 460 MB
		addAll(s, &batch, benchDrafts())
		s.AppendAll(&batch)
	}
	if err := s.Mark(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		alone := sendPaced(s, senders)
		stop := readCold(b, s, filepath.Join(o.Dir, "commitlog"))
		beside := sendPaced(s, senders)
		cold := stop()
		at := func(times []time.Duration, of int) time.Duration { return times[len(times)*of/1000] }
		b.ReportMetric(float64(at(alone, 990).Microseconds()), "alone-p99-us")
		b.ReportMetric(float64(at(beside, 990).Microseconds()), "cold-p99-us")
		b.ReportMetric(float64(at(beside, 990))/float64(at(alone, 990)), "p99-ratio")
		b.ReportMetric(float64(at(alone, 999).Microseconds()), "alone-p99.9-us")
		b.ReportMetric(float64(at(beside, 999).Microseconds()), "cold-p99.9-us")
		b.ReportMetric(float64(cold), "cold-msgs")
	}
}

// sendPaced sends 20,000 messages in 4 seconds and returns how long each took, in order of
// length.
func sendPaced(s *store.Store, senders int) []time.Duration {
	const n = 20_000
	all := make([][]time.Duration, senders)
	var group sync.WaitGroup
	for c := range senders {
		group.Go(func() {
			drafts := benchDrafts()
			var batch store.Batch
			const apart = 200 * time.Microsecond
			<-time.After(time.Duration(c) * apart) // one after another, not all at once
			tick := time.NewTicker(time.Duration(senders) * apart)
			defer tick.Stop()
			for i := range n / senders {
				<-tick.C
				addAll(s, &batch, drafts[i%64:i%64+1])
				batch.Sender = uint64(c + 1)
				begin := time.Now()
				s.AppendAll(&batch)
				all[c] = append(all[c], time.Since(begin))
			}
		})
	}
	group.Wait()
	times := slices.Concat(all...)
	slices.Sort(times)
	return times
}

// readCold has 8 readers read old messages until stop, which returns how many they got.
func readCold(b *testing.B, s *store.Store, dir string) (stop func() int64) {
	var ended atomic.Bool
	var readers sync.WaitGroup
	var cold atomic.Int64
	readers.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for !ended.Load() {
			evict(b, dir)
			<-tick.C
		}
	})
	for i := range 8 {
		readers.Go(func() {
			q := s.Lookup([]byte("bench"), int32(i))
			end := q.Max() * 4 / 5
			var buf []byte
			for off := record.QueueOffset(i * 100); !ended.Load(); {
				var res store.ReadResult
				buf, res = s.Read(buf[:0], q, off, 32, nil)
				cold.Add(int64(res.Count))
				if off = res.Next; off >= end {
					off = 0
				}
			}
		})
	}
	return func() int64 {
		ended.Store(true)
		readers.Wait()
		return cold.Load()
	}
}
