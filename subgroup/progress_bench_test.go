package subgroup_test

import (
	"fmt"
	"runtime"
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// The size of S11: 10,000 topics of 8 queues, each consumed by one of 1,000 groups.
const (
	manyTopics = 10_000
	manyQueues = 8
	manyGroups = 1_000
)

func fill(o *subgroup.Offsets, offset int64) {
	c := subgroup.Commit{Offset: offset}
	for topic := range manyTopics {
		c.Topic, c.Group = fmt.Appendf(nil, "topic-%05d", topic), fmt.Appendf(nil, "group-%04d", topic%manyGroups)
		for q := range int32(manyQueues) {
			c.Queue = q
			o.Raise(&c)
		}
	}
}

// TestManyKeys measures what 80,000 keys take: with the exchange of two replicas
// at most 64 MiB more.
func TestManyKeys(t *testing.T) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	a := loadOffsets(t, vfs.NewMem())
	fill(a, 5)
	table := heap() - before
	records, version := a.Since(nil, 0)
	b := loadOffsets(t, vfs.NewMem())
	wire := subgroup.AppendRecords(nil, records)
	got, err := subgroup.DecodeRecords(wire)
	if err != nil || b.Merge(got) != manyTopics*manyQueues {
		t.Fatalf("%v", err)
	}
	peak := heap() - before - table
	runtime.KeepAlive(records)
	runtime.KeepAlive(got)
	runtime.KeepAlive(wire)
	t.Logf("%.0f bytes a key, %.0f bytes a row of 8; exchange and second table: %.1f MiB; %.1f bytes a record on the wire",
		table/(manyTopics*manyQueues), table/manyTopics, peak/(1<<20), float64(len(wire))/float64(len(records)))
	if table > 32<<20 || peak > 64<<20 {
		t.Errorf("%.1f MiB for the table, %.1f for an exchange", table/(1<<20), peak/(1<<20))
	}
	if more, _ := a.Since(nil, version); len(more) != 0 {
		t.Errorf("%d more", len(more))
	}
	runtime.KeepAlive(b)
}

func BenchmarkCommitChecked(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	c := subgroup.Commit{Group: []byte("group-0001"), Topic: []byte("topic-00001")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Queue, c.Offset = int32(i&7), int64(i+5)
		o.CommitChecked(&c)
	}
}

// BenchmarkSince asks for 1,000 changes of 80,000 keys.
func BenchmarkSince(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	var records []subgroup.ProgressRecord
	version := o.Version()
	c := subgroup.Commit{Group: []byte("group-0001")}
	topics := make([][]byte, 125)
	for i := range topics {
		topics[i] = fmt.Appendf(nil, "topic-%05d", 1+i*8)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		for _, topic := range topics {
			for q := range int32(8) {
				c.Topic, c.Queue, c.Offset = topic, q, int64(i+10)
				o.Raise(&c)
			}
		}
		b.StartTimer()
		if records, version = o.Since(records[:0], version); len(records) != 1000 {
			b.Fatal(len(records))
		}
	}
}

func BenchmarkSinceAll(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	var records []subgroup.ProgressRecord
	b.ReportAllocs()
	for b.Loop() {
		if records, _ = o.Since(records[:0], 0); len(records) != manyTopics*manyQueues {
			b.Fatal(len(records))
		}
	}
}

// BenchmarkMerge merges 1,000 records of a table of 80,000 that changed.
func BenchmarkMerge(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	all, _ := o.Since(nil, 0)
	some := all[:1000]
	b.ReportAllocs()
	for b.Loop() {
		for i := range some {
			some[i].Offset++
		}
		if o.Merge(some) != 1000 {
			b.Fatal("some lost")
		}
	}
}

// BenchmarkFullExchange is one whole exchange of 80,000 keys that are new to the other.
func BenchmarkFullExchange(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	for b.Loop() {
		all, _ := o.Since(nil, 0)
		got, err := subgroup.DecodeRecords(subgroup.AppendRecords(nil, all))
		if err != nil || loadOffsets(b, vfs.NewMem()).Merge(got) != len(all) {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeOffsets reads the JSON of 80,000 keys, as code 43 brings it.
func BenchmarkDecodeOffsets(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	fill(o, 5)
	text := o.JSON(true)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := subgroup.DecodeOffsets(text); err != nil {
			b.Fatal(err)
		}
	}
}
