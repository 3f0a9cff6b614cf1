package subgroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

func numbers(table map[int32]int64) []subgroup.ProgressRecord {
	var records []subgroup.ProgressRecord
	for q, off := range table {
		records = append(records, subgroup.ProgressRecord{Topic: "t", Group: "g", Queue: q,
			Progress: subgroup.Progress{Offset: off, Unknown: true, Source: subgroup.FromCommit}})
	}
	return records
}

// TestPlainMaster follows single keys through rule R2. A step changes the slave
// ("commit 5", "reset 5"), or is a look at the master: "boot 1 has 5" or "boot 1 has
// none", what is then sent to it, and what the slave has. What is sent counts as
// answered; "swallows" is a master that answers and stays as it is.
func TestPlainMaster(t *testing.T) {
	for name, steps := range map[string][]string{
		"the master leads":            {"boot 1 has 5: send none, have 5", "boot 1 has 9: send none, have 9"},
		"a reset there":               {"boot 1 has 9: send none, have 9", "boot 1 has 4: send none, have 4 gen 1"},
		"what a kill lost":            {"boot 1 has 9: send none, have 9", "boot 2 has 4: send 9, have 9", "boot 2 has 9: send none, have 9", "boot 2 has 3: send none, have 3 gen 1"},
		"committed here":              {"boot 1 has 9: send none, have 9", "commit 12", "boot 1 has 9: send 12, have 12", "boot 1 has 12: send none, have 12"},
		"committed on both":           {"boot 1 has 9: send none, have 9", "commit 12", "boot 1 has 13: send none, have 13"},
		"committed here all the time": {"boot 1 has 9: send none, have 9", "commit 12", "boot 1 has 9: send 12, have 12", "commit 13", "boot 1 has 12: send 13, have 13", "commit 14", "boot 1 has 13: send 14, have 14", "commit 15", "boot 1 has 14: send 15, have 15", "boot 1 has 15: send none, have 15"},
		"a reset there waits":         {"boot 1 has 9: send none, have 9", "commit 12", "boot 1 has 2: send 12, have 12", "boot 1 has 2: send 12, have 12", "boot 1 has 2: send 12, have 12", "boot 1 has 2: send none, have 2 gen 1"},
		"a reset here":                {"boot 1 has 9: send none, have 9", "reset 3", "boot 1 has 9: send 3, have 3 gen 1", "boot 1 has 3: send none, have 3 gen 1"},
		"an old reset here":           {"commit 9", "reset 3", "boot 1 has 50: send none, have 50 gen 1"},
		"from disk, ahead":            {"commit 9", "boot 1 has 5: send 9, have 9", "boot 1 has 9: send none, have 9"},
		"not there":                   {"commit 9", "boot 1 has none: send 9, have 9", "boot 1 has 9: send none, have 9", "boot 1 has none: send none, have none"},
		"not there after a kill":      {"boot 1 has 9: send none, have 9", "boot 2 has none: send 9, have 9", "boot 2 has 9: send none, have 9"},
		"made anew":                   {"boot 1 has 9: send none, have 9", "boot 1 has none: send none, have none", "boot 1 has none: send none, have none", "boot 1 has 1: send none, have 1 gen 1"},
	} {
		t.Run(name, func(t *testing.T) {
			now := int64(0)
			o := clocked(t, &now)
			m := subgroup.NewPlainMaster(o)
			for _, s := range steps {
				look, want, _ := strings.Cut(s, ": ")
				f := strings.Fields(look)
				var n int64
				fmt.Sscan(f[len(f)-1], &n)
				switch f[0] {
				case "commit":
					commit(o, "g", "t", 0, n)
					continue
				case "reset":
					o.Reset("g", "t", 0, n, false)
					continue
				}
				table := map[int32]int64{}
				if f[3] != "none" {
					table[0] = n
				}
				var boot int64
				fmt.Sscan(f[1], &boot)
				push, _ := m.Take(numbers(table), boot)
				got := "send none"
				if len(push) > 0 {
					got = fmt.Sprintf("send %d", push[0].Offset)
					m.Sent(&push[0])
				}
				p, _ := o.Progress("g", "t", 0)
				got += ", have " + query(o, "g", "t", 0)
				if p.Gen > 0 && !p.Deleted {
					got += fmt.Sprintf(" gen %d", p.Gen)
				}
				if got != want {
					t.Errorf("%s: %s, want %s", look, got, want)
				}
			}
		})
	}
}

func TestPlainMasterBoundsPush(t *testing.T) {
	now := int64(0)
	o := clocked(t, &now)
	for q := range int32(5000) {
		commit(o, "g", "t", q, 9)
	}
	m, master := subgroup.NewPlainMaster(o), map[int32]int64{}
	for q := range int32(5000) {
		master[q] = 5
	}
	for range 3 {
		push, _ := m.Take(numbers(master), 1)
		if len(push) > 2000 {
			t.Fatalf("%d at a time", len(push))
		}
		for i := range push {
			master[push[i].Queue] = push[i].Offset
			m.Sent(&push[i])
		}
	}
	if push, _ := m.Take(numbers(master), 1); len(push) != 0 {
		t.Errorf("%d still to send", len(push))
	}
	for q, off := range master {
		if off != 9 {
			t.Fatalf("queue %d: %d at the master", q, off)
		}
	}
}

// TestPlainSlave follows a reset to an Apache slave and back (R3).
func TestPlainSlave(t *testing.T) {
	now := int64(0)
	o := clocked(t, &now)
	p := subgroup.NewPlainSlave(o)
	slave := map[int32]int64{0: 100, 1: 7}
	copies := func() {
		records, err := subgroup.DecodeOffsets(p.Answer())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			slave[r.Queue] = r.Offset
		}
	}
	has := func(when, want string) {
		t.Helper()
		p.Take(numbers(slave))
		if got := query(o, "g", "t", 0); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	commit(o, "g", "t", 0, 90)
	has("never moved: the larger one", "100")
	if got := query(o, "g", "t", 1); got != "7" {
		t.Errorf("a key that only the slave has: %s", got)
	}
	o.Reset("g", "t", 0, 20, true)
	has("reset, not copied", "20")
	slave[0] = 110
	has("a commit from before the reset, at the slave", "20")
	copies()
	has("copied, but no consumer has seen it", "20")
	slave[0] = 120
	has("a consumer there goes on", "20")
	copies()
	if _, ok := o.TakeReset([]byte("g"), []byte("t"), 0); !ok {
		t.Fatal("no reset waits")
	}
	has("shown back", "20")
	slave[0] = 25
	has("a commit after it, at the slave", "25")
	o.Reset("g", "t", 0, 3, false)
	has("a second reset", "3")
	commit(o, "g", "t", 0, 5)
	has("commits after it do not make the old number true", "5")
	copies()
	slave[0]++
	has("copied, and a commit before it was looked at", "6")
	o.DeleteTopic("t")
	has("deleted; the slave never forgets", "none")
	if slices.Contains(o.Groups("t"), "g") {
		t.Error("deleted progress came back")
	}
}

// TestPlainSlaveAfterRestart: what was moved long ago must not cost what consumers
// committed at the slave while this broker was away.
func TestPlainSlaveAfterRestart(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	for q := range int32(2) {
		commit(o, "g", "t", q, 100)
		o.Reset("g", "t", q, 20, false)
	}
	commit(o, "g", "t", 0, 40)
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	slave := numbers(map[int32]int64{0: 90, 1: 90})
	if subgroup.NewPlainSlave(o).Take(slave) != 0 {
		t.Error("a slave that was away undid a reset")
	}
	o = loadOffsets(t, mem)
	subgroup.NewPlainSlave(o).Take(slave)
	if a, b := query(o, "g", "t", 0), query(o, "g", "t", 1); a != "90" || b != "20" {
		t.Errorf("after a restart %s and %s, want the slave's 90, and 20 of a reset that nobody followed yet", a, b)
	}
}

// TestPlainSlaveOverRestart: a reset that an Apache slave has not copied when this broker
// stops is not undone by the slave's old number after the start, although a consumer has
// committed behind it; and what consumers committed at a slave that had copied it counts.
func TestPlainSlaveOverRestart(t *testing.T) {
	for _, copied := range []bool{false, true} {
		disk := vfs.NewMem()
		load := func() *subgroup.Offsets {
			o, err := subgroup.LoadOffsets(disk, "/s", func() int64 { return 1_700_000_000_000 }, func() int64 { return 1_700_000_000_000 })
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		shows := func(offset int64) []subgroup.ProgressRecord {
			return []subgroup.ProgressRecord{{Topic: "t", Group: "g", Progress: subgroup.Progress{Offset: offset, Unknown: true, Source: subgroup.FromCommit}}}
		}
		o := load()
		slave := subgroup.NewPlainSlave(o)
		slave.Take(shows(100))
		o.Reset("g", "t", 0, 10, false)
		o.CommitChecked(&subgroup.Commit{Group: []byte("g"), Topic: []byte("t"), Offset: 12, Member: true, AnyMember: true, Client: 1, QueueMax: -1})
		slave.Take(shows(100))
		there := int64(100)
		if copied {
			slave.Answer()
			there = 12
			slave.Take(shows(there))
			there = 50 // consumers went on there
		}
		if err := o.Persist(); err != nil {
			t.Fatal(err)
		}
		kept, ok := slave.Delivered()
		if _, again := slave.Delivered(); !ok || again {
			t.Error("it is told when there is news, and only then")
		}
		o = load()
		slave = subgroup.NewPlainSlave(o)
		slave.Restore(kept)
		slave.Take(shows(there))
		want := map[bool]int64{false: 12, true: 50}[copied]
		if got, _ := o.Query([]byte("g"), []byte("t"), 0); got != want {
			t.Errorf("copied %t: progress %d, want %d", copied, got, want)
		}
	}
}
