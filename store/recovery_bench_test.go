package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mqctl/store"
)

// BenchmarkRecoveryScan is a start after kill -9 that has a GiB of log to read, in the page
// cache: records of 1 KiB in 16 queues, with two keys each. kept is the usual case, in which
// queues and index have what was written; made is one that makes all of it from the log.
// MB/s counts the log; cpu-MB/s does so by the time of the processors, which a busy machine
// does not change so much.
func BenchmarkRecoveryScan(b *testing.B) {
	for _, made := range []bool{false, true} {
		name := map[bool]string{false: "kept", true: "made"}[made]
		b.Run(name, func(b *testing.B) {
			o := benchOptions(b)
			o.CommitLogBytes = 256 << 20
			s, _ := open(b, o)
			benchQueues(s)
			drafts := benchDrafts()
			var batch store.Batch
			addAll(s, &batch, drafts)
			s.AppendAll(&batch)
			s.KeepOnce()
			if err := s.Mark(); err != nil {
				b.Fatal(err)
			}
			begin := int64(s.Positions().Max)
			left := map[string][]byte{} // what the dead process says of itself
			for _, name := range []string{"abort", "checkpoint", "mqctl/progress", "mqctl/queues"} {
				text, err := os.ReadFile(filepath.Join(o.Dir, name))
				if err != nil {
					b.Fatal(err)
				}
				left[name] = text
			}
			for int64(s.Positions().Max)-begin < 1<<30 {
				addAll(s, &batch, drafts)
				s.AppendAll(&batch)
			}
			s.WriteQueues()
			s.NoteOnce()
			bytes := int64(s.Positions().Max) - begin
			if err := s.Kill(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(bytes)
			var spent time.Duration
			for b.Loop() {
				b.StopTimer()
				for name, text := range left {
					if err := os.WriteFile(filepath.Join(o.Dir, name), text, 0o644); err != nil {
						b.Fatal(err)
					}
				}
				if made {
					for _, dir := range []string{"consumequeue", "index"} {
						if err := os.RemoveAll(filepath.Join(o.Dir, dir)); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StartTimer()
				cpuBegin := cpuTime()
				again, rec := open(b, o)
				spent += cpuTime() - cpuBegin
				b.StopTimer()
				if int64(rec.Max) != begin+bytes {
					b.Fatalf("the log ends at %d, want %d: %v", rec.Max, begin+bytes, rec.Notes)
				}
				if err := again.Kill(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(bytes)*float64(b.N)/1e6/spent.Seconds(), "cpu-MB/s")
		})
	}
}
