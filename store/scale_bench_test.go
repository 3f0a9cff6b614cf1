package store_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// resident is the memory of this process in bytes, as the system sees it.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages * os.Getpagesize())
}

func descriptors() float64 {
	fds, _ := os.ReadDir("/proc/self/fd")
	return float64(len(fds))
}

// spread sends n messages of 1 KiB, one after the other to every queue of topics x 8,
// and returns how long that took.
func spread(b *testing.B, s *store.Store, topics, n int) time.Duration {
	queues := make([]*store.Queue, 0, topics*8)
	names := make([][]byte, topics)
	for i := range topics {
		name := fmt.Sprintf("scale-%d-%05d", topics, i)
		names[i] = []byte(name)
		for id := range int32(8) {
			queues = append(queues, s.Queue(name, id))
		}
	}
	drafts := benchDrafts()
	var batch store.Batch
	begin := time.Now()
	for at := 0; at < n; {
		batch.Reset()
		for _, d := range drafts {
			q := queues[at%len(queues)]
			d.Topic, d.QueueID = names[at%len(queues)/8], q.ID()
			batch.Add(s, q, d, 0)
			at++
		}
		s.AppendAll(&batch)
		if batch.Items[0].Status != store.PutOK {
			b.Fatal(batch.Items[0].Status)
		}
	}
	return time.Since(begin)
}

// BenchmarkScale is 10,000 topics of 8 queues: what the process takes, how sends over
// all queues compare to sends over 8, and how long a stop and a start take. Run it with
// -benchtime 1x; the first send to each queue, which makes it, is timed apart.
func BenchmarkScale(b *testing.B) {
	const topics, n = 10_000, 320_000
	for b.Loop() {
		o := benchOptions(b)
		o.IndexOff = false
		s, _ := open(b, o)
		stop := runStore(b, s)
		few := spread(b, s, 1, n)
		first := spread(b, s, topics, topics*8)
		b.ReportMetric(first.Seconds(), "first-s")
		many := spread(b, s, topics, n)
		again := spread(b, s, 1, n)
		if behind := s.Positions().Max - s.Positions().Dispatched; behind > 0 {
			b.ReportMetric(float64(behind), "behind-B")
		}
		b.ReportMetric((few+again).Seconds()/2/many.Seconds(), "of-8-queues")
		b.ReportMetric(n/many.Seconds(), "sends/s")
		b.ReportMetric(resident()/1e6, "MB")
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
		b.ReportMetric(descriptors(), "files")
		begin := time.Now()
		stop()
		b.ReportMetric(time.Since(begin).Seconds(), "stop-s")
		begin = time.Now()
		s, rec := open(b, o)
		b.ReportMetric(time.Since(begin).Seconds(), "start-s")
		if !rec.Clean || s.Lookup([]byte("scale-10000-09999"), 7).Max() != record.QueueOffset(n/(topics*8)+1) {
			b.Errorf("after the start: %+v", rec)
		}
		b.ReportMetric(resident()/1e6, "started-MB")
		closeStore(b, s)
	}
}

// BenchmarkStartAfterKill is a start after kill -9 with 10,000 queues, some of which got messages
// since the queues were noted; nothing had been synced.
func BenchmarkStartAfterKill(b *testing.B) {
	const topics = 1250
	o := benchOptions(b)
	s, _ := open(b, o)
	spread(b, s, topics, 4*topics*8)
	s.KeepOnce()
	spread(b, s, 1, 4096)
	for b.Loop() {
		if err := s.Kill(); err != nil {
			b.Fatal(err)
		}
		cpu, begin := cpuTime(), time.Now()
		var rec store.Recovery
		s, rec = open(b, o)
		b.ReportMetric(time.Since(begin).Seconds(), "start-s")
		b.ReportMetric((cpuTime() - cpu).Seconds(), "cpu-s")
		if len(rec.Notes) > 0 || s.Lookup(fmt.Appendf(nil, "scale-%d-%05d", topics, 7), 3).Max() != 4 {
			b.Errorf("%+v", rec)
		}
	}
	begin, cpu := time.Now(), cpuTime()
	closeStore(b, s)
	b.ReportMetric(time.Since(begin).Seconds(), "stop-s")
	b.ReportMetric((cpuTime() - cpu).Seconds(), "stop-cpu-s")
}
