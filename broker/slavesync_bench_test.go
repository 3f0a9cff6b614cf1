package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mqctl/broker/topic"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// The sizes of a large cluster: topics of 8 queues, groups, and one row of
// progress for each topic.
const (
	manyTopics = 10_000
	manyGroups = 1_000
)

// bigPair is a master with large tables and a slave that has none of them.
func bigPair(b *testing.B) (m, s *rig) {
	b.Helper()
	topics := make(map[string]topic.Config, manyTopics)
	records := make([]subgroup.ProgressRecord, 0, manyTopics*8)
	for i := range manyTopics {
		c := topic.Defaults(fmt.Sprintf("topic-of-many-%05d", i))
		c.ReadQueueNums, c.WriteQueueNums = 8, 8
		topics[c.TopicName] = c
		for q := range int32(8) {
			records = append(records, subgroup.ProgressRecord{Topic: c.TopicName, Group: fmt.Sprintf("group-of-many-%04d", i%manyGroups), Queue: q,
				Progress: subgroup.Progress{Offset: int64(i), Source: subgroup.FromCommit, Updated: 1}})
		}
	}
	groups := make(map[string]subgroup.Config, manyGroups)
	for i := range manyGroups {
		c := subgroup.Defaults(fmt.Sprintf("group-of-many-%04d", i))
		groups[c.GroupName] = c
	}
	n := newNetwork()
	m = startIn(b, n, vfs.NewMem(), func(o *Options) { o.Reloadable.HA = testHA() })
	have, _ := m.b.topics.All()
	for name, c := range have {
		topics[name] = *c
	}
	if _, err := m.b.topics.Replace(topics, table.DataVersion{Counter: 100, Timestamp: 1}); err != nil {
		b.Fatal(err)
	}
	if _, err := m.b.groups.Replace(groups, nil, table.DataVersion{Counter: 100, Timestamp: 1}); err != nil {
		b.Fatal(err)
	}
	m.b.offsets.Merge(records)
	s = startIn(b, n, vfs.NewMem(), replica(1), func(o *Options) { o.Namesrvs = nil })
	s.b.sync.o.Trust = nil
	s.b.learned(mainAddr, "")
	return m, s
}

func mustRound(b *testing.B, s *rig) {
	b.Helper()
	if err := s.b.sync.ExchangeNow(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFullSync is the first exchange of a slave: it must be below 5 s.
func BenchmarkFullSync(b *testing.B) {
	for range b.N {
		b.StopTimer()
		m, s := bigPair(b)
		b.StartTimer()
		start := time.Now()
		mustRound(b, s)
		took := time.Since(start)
		b.StopTimer()
		if s.b.topics.Len() != m.b.topics.Len() || s.b.groups.Len() != m.b.groups.Len() {
			b.Fatalf("%d topics and %d groups, want %d and %d", s.b.topics.Len(), s.b.groups.Len(), m.b.topics.Len(), m.b.groups.Len())
		}
		if took > 5*time.Second {
			b.Errorf("a full exchange took %v", took)
		}
		s.stop()
		m.stop()
	}
}

// BenchmarkDeltaSync is a round in which one topic, one group and 1,000 numbers
// changed: it must be below 100 ms.
func BenchmarkDeltaSync(b *testing.B) {
	m, s := bigPair(b)
	mustRound(b, s)
	mustRound(b, s)
	b.ResetTimer()
	for i := range b.N {
		b.StopTimer()
		c := topic.Defaults("topic-of-many-00007")
		c.Perm, c.ReadQueueNums = 2+2*(i%2), int32(9+i%5)
		if _, err := m.b.topics.Put(c); err != nil {
			b.Fatal(err)
		}
		g := subgroup.Defaults("group-of-many-0007")
		g.RetryMaxTimes = int32(i%10 + 1)
		if _, err := m.b.groups.Put(g); err != nil {
			b.Fatal(err)
		}
		var moved []subgroup.ProgressRecord
		for k := range 1000 {
			moved = append(moved, subgroup.ProgressRecord{Topic: fmt.Sprintf("topic-of-many-%05d", k), Group: fmt.Sprintf("group-of-many-%04d", k%manyGroups),
				Progress: subgroup.Progress{Offset: int64(1_000_000 + i), Source: subgroup.FromCommit, Updated: 2}})
		}
		m.b.offsets.Merge(moved)
		b.StartTimer()
		mustRound(b, s)
	}
}
