package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// BenchmarkAppendWhileRetentionFollows measures appends of 1 KiB to 10,000 queues,
// alone and while files of the log go as fast as they come and all queues follow.
func BenchmarkAppendWhileRetentionFollows(b *testing.B) {
	for _, retain := range []bool{false, true} {
		b.Run(fmt.Sprintf("retain=%v", retain), func(b *testing.B) {
			o := store.Options{FS: vfs.OS{}, Dir: b.TempDir(), CommitLogBytes: 16 << 20, IndexOff: true}
			o.Log = small(nil).Log
			o.Retention = store.DefaultRetention()
			o.Retention.Keep, o.Retention.LogPause = 0, 0
			s, _ := open(b, o)
			const queues = 10000
			body := strings.Repeat("x", 900)
			for i := range queues {
				put(b, s, fmt.Sprintf("t%d", i/8), int32(i%8), body)
			}
			if err := s.Mark(); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			run, done := make(chan error, 1), make(chan struct{})
			go func() { run <- s.Run(ctx) }()
			var files atomic.Int64
			go func() {
				defer close(done)
				for retain && ctx.Err() == nil {
					c, err := s.CleanLog(ctx, false)
					if err != nil && ctx.Err() == nil {
						b.Error(err)
						return
					}
					files.Add(int64(c.Files))
				}
			}()
			took := make([]time.Duration, 0, b.N)
			i := 0
			for b.Loop() {
				begin := time.Now()
				put(b, s, fmt.Sprintf("t%d", i%queues/8), int32(i%8), body)
				took = append(took, time.Since(begin))
				i++
			}
			cancel()
			<-done
			if err := <-run; err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "p99.9-us")
			b.ReportMetric(float64(files.Load()), "files")
			closeStore(b, s)
		})
	}
}
