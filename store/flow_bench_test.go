package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// lagMeter follows how far dispatch is behind the log: it notes a position of the log and
// waits until dispatch is there, again and again.
type lagMeter struct {
	s    *store.Store
	stop atomic.Bool
	done sync.WaitGroup
	lags []time.Duration
	most record.PhysOffset
}

func startLagMeter(s *store.Store) *lagMeter {
	m := &lagMeter{s: s}
	m.done.Go(m.run)
	return m
}

func (m *lagMeter) run() {
	type mark struct {
		pos record.PhysOffset
		at  time.Time
	}
	var open []mark
	last := record.PhysOffset(-1)
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for !m.stop.Load() {
		<-tick.C
		p := m.s.Positions()
		now := time.Now()
		m.most = max(m.most, p.Confirmed-p.Dispatched)
		n := 0
		for n < len(open) && open[n].pos <= p.Dispatched {
			m.lags = append(m.lags, now.Sub(open[n].at))
			n++
		}
		open = slices.Delete(open, 0, n)
		if p.Confirmed > last {
			open = append(open, mark{p.Confirmed, now})
			last = p.Confirmed
		}
	}
}

// report gives the lag in milliseconds, and the most bytes that were behind.
func (m *lagMeter) report(b *testing.B) {
	m.stop.Store(true)
	m.done.Wait()
	if len(m.lags) == 0 {
		return // too short a run
	}
	slices.Sort(m.lags)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(m.lags[len(m.lags)*99/100]), "lag-p99-ms")
	b.ReportMetric(ms(m.lags[len(m.lags)-1]), "lag-max-ms")
	b.ReportMetric(float64(m.most)/1024, "behind-max-KiB")
}

// BenchmarkDispatchLag sends 1 KiB messages at full rate and reports how long a message
// that may be seen (one that is in the log, or synced where sends wait for that) is without
// its queue entry and its keys. One op is one message.
func BenchmarkDispatchLag(b *testing.B) {
	for _, c := range []struct {
		senders, burst int
		sync           bool
	}{{64, 1, false}, {4, 64, false}, {64, 1, true}, {4, 64, true}} {
		b.Run(fmt.Sprintf("senders=%dx%d/sync=%v", c.senders, c.burst, c.sync), func(b *testing.B) {
			o := benchOptions(b)
			o.SyncFlush = c.sync
			s, _ := open(b, o)
			defer runStore(b, s)()
			benchQueues(s)
			drafts := benchDrafts()
			b.SetBytes(1024)
			m := startLagMeter(s)
			var sent atomic.Int64
			var senders sync.WaitGroup
			for i := range c.senders {
				senders.Go(func() {
					var batch store.Batch
					var wait waitGroup
					mine := drafts[i%64 : i%64+1]
					if c.burst > 1 {
						mine = drafts[:c.burst]
					}
					for sent.Add(int64(len(mine))) <= int64(b.N) {
						addAll(s, &batch, mine)
						s.AppendAll(&batch)
						if batch.Items[0].Status != store.PutOK {
							b.Error(batch.Items[0].Status)
							return
						}
						if c.sync {
							wait.Add(1)
							s.WaitFlushed(batch.End(), &wait)
							wait.Wait()
						}
					}
				})
			}
			senders.Wait()
			m.report(b)
			b.StopTimer() // what follows syncs and closes
		})
	}
}

// BenchmarkRoll is the time of a send of 1 KiB across changes of the log's file: of all
// sends, and of the 500 before and after each change. Files of 64 MiB at full rate and at
// 20,000 messages/s; with files of 1 GiB, the usual size, -benchtime 4000000x crosses three.
// One op is one message.
func BenchmarkRoll(b *testing.B) {
	for _, c := range []struct {
		bytes int64
		every time.Duration // between bursts of ten; 0: as fast as can be
	}{{64 << 20, 0}, {64 << 20, 500 * time.Microsecond}, {1 << 30, 0}} {
		b.Run(fmt.Sprintf("file=%dMiB/every=%v", c.bytes>>20, c.every), func(b *testing.B) {
			o := benchOptions(b)
			o.CommitLogBytes = c.bytes
			s, _ := open(b, o)
			defer runStore(b, s)()
			benchQueues(s)
			drafts := benchDrafts()
			times, rolls := sendTimed(b, s, drafts, c.every)
			b.StopTimer() // what follows syncs and closes
			reportRolls(b, times, rolls)
			if files, _ := filepath.Glob(filepath.Join(o.Dir, "commitlog", "*")); len(files) < len(rolls)+1 {
				b.Errorf("%d changes, %d files", len(rolls), len(files))
			}
		})
	}
}

// sendTimed sends b.N messages one by one and returns how long each took and which of them
// were the first of a file.
func sendTimed(b *testing.B, s *store.Store, drafts []*record.Draft, every time.Duration) (times []time.Duration, rolls []int) {
	var batch store.Batch
	var last record.PhysOffset
	times = make([]time.Duration, 0, b.N)
	b.SetBytes(1024)
	b.ResetTimer()
	tick := time.NewTicker(max(every, 1))
	defer tick.Stop()
	for i := range b.N {
		if every > 0 && i%10 == 0 {
			<-tick.C
		}
		addAll(s, &batch, drafts[i%64:i%64+1])
		begin := time.Now()
		s.AppendAll(&batch)
		times = append(times, time.Since(begin))
		it := &batch.Items[0]
		if it.Status != store.PutOK {
			b.Fatal(it.Status)
		}
		if i > 0 && it.Phys != last {
			rolls = append(rolls, i)
		}
		last = it.Phys + record.PhysOffset(it.Size)
	}
	return times, rolls
}

// reportRolls sums the times of sends up.
func reportRolls(b *testing.B, times []time.Duration, rolls []int) {
	var near, first []time.Duration
	for _, at := range rolls {
		near = append(near, times[max(0, at-500):min(len(times), at+500)]...)
		first = append(first, times[at])
	}
	part := func(list []time.Duration, of int, unit string) {
		if len(list) > 0 {
			slices.Sort(list)
			b.ReportMetric(float64(list[min(len(list)*of/1000, len(list)-1)].Microseconds()), unit)
		}
	}
	part(first, 1000, "roll-max-us")
	part(near, 999, "near-p99.9-us")
	part(near, 1000, "near-max-us")
	part(times, 999, "p99.9-us")
	part(times, 1000, "max-us")
	b.ReportMetric(float64(len(rolls)), "rolls")
}
