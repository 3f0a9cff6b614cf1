package subgroup_test

import (
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// TestLateNewsOfDeletedTopic: progress that a replica tells late, on a topic that was
// deleted and made again since, must not let a group of which the deleting broker knew
// nothing skip the first messages of the new topic.
func TestLateNewsOfDeletedTopic(t *testing.T) {
	now := int64(1_700_000_000_000)
	clock := func() int64 { return now }
	load := func(fs vfs.FS) *subgroup.Offsets {
		t.Helper()
		o, err := subgroup.LoadOffsets(fs, "/s", clock, clock)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	commit := func(o *subgroup.Offsets, group string, offset int64) {
		o.CommitChecked(&subgroup.Commit{Group: []byte(group), Topic: []byte("t"), Offset: offset, Member: true, AnyMember: true, Client: 1, QueueMax: -1, NowMillis: now})
	}
	is := func(o *subgroup.Offsets, group string, want int64) {
		t.Helper()
		got, ok := o.Query([]byte(group), []byte("t"), 0)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("group %s: progress %d, want %d (-1: none)", group, got, want)
		}
	}
	all := func(o *subgroup.Offsets) []subgroup.ProgressRecord {
		t.Helper()
		records, _ := o.Since(nil, 0)
		records, err := subgroup.DecodeRecords(subgroup.AppendRecords(nil, records))
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	disk := vfs.NewMem()
	master, slave := load(disk), load(vfs.NewMem())
	commit(slave, "new", 100) // the group's first commit, while the master is away
	late := all(slave)
	master.DeleteTopic("t") // knows no group of it at all
	if err := master.Persist(); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*subgroup.Offsets{"running": master, "started again": load(disk)} {
		m.Merge(late)
		is(m, "new", -1)
		commit(m, "new", 2)
		m.Merge(late)
		is(m, "new", 2)
		commit(m, "other", 1)
		is(m, "other", 1)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	// The slave hears of the deletion, and what began anew wins there too.
	slave.Merge(all(master))
	is(slave, "new", 2)
	is(slave, "other", 1)
	// An Apache slave that still shows the old topic's numbers.
	plain := load(vfs.NewMem())
	plain.DeleteTopic("t")
	subgroup.NewPlainSlave(plain).Take([]subgroup.ProgressRecord{{Topic: "t", Group: "g", Progress: subgroup.Progress{Offset: 7, Unknown: true, Source: subgroup.FromCommit}}})
	is(plain, "g", -1)
	// A topic deleted twice: what came between is old as well.
	between := all(master)
	master.DeleteTopic("t")
	master.Merge(between)
	is(master, "new", -1)
	if groups, topics := master.AllGroups(), master.Topics(""); len(groups)+len(topics) != 0 {
		t.Errorf("groups %q, topics %q of no group", groups, topics)
	}
	// After 7 days nobody remembers.
	now += 7*24*3600_000 + 1
	master.Sweep(func(string) bool { return false })
	if records, _ := master.Since(nil, 0); len(records) != 0 {
		t.Errorf("%+v are left", records)
	}
	commit(master, "g", 3)
	if p, _ := master.Progress("g", "t", 0); p.Gen != 0 {
		t.Errorf("%+v", p)
	}
}
