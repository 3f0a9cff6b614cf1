package broker

import (
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// TestDeliveredOverRestart: what an Apache slave had copied is known after a restart, for
// that slave and no other.
func TestDeliveredOverRestart(t *testing.T) {
	fs := vfs.NewMem()
	const a, b = "10.0.0.1:10911", "10.0.0.2:10911"
	kept, err := loadDelivered(fs, "/s/mqctl")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := kept.of(a); ok {
		t.Error("something is known of a slave that never was there")
	}
	if err := kept.save(a, map[string]map[int32]uint32{"t@g": {3: 7}}); err != nil {
		t.Fatal(err)
	}
	if err := kept.save(b, nil); err != nil {
		t.Fatal(err)
	}
	if kept, err = loadDelivered(fs, "/s/mqctl"); err != nil {
		t.Fatal(err)
	}
	if gens, ok := kept.of(a); !ok || gens["t@g"][3] != 7 {
		t.Errorf("%v %t", gens, ok)
	}
	if gens, ok := kept.of(b); !ok || len(gens) != 0 {
		t.Errorf("%v %t", gens, ok)
	}
	o, err := subgroup.LoadOffsets(fs, "/s", func() int64 { return 0 }, func() int64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	f := foreignSlaves{kept: kept}
	for range 7 {
		o.Reset("g", "t", 3, 5, false)
	}
	o.CommitChecked(&subgroup.Commit{Group: []byte("g"), Topic: []byte("t"), Queue: 3, Offset: 6, Member: true, AnyMember: true, Client: 1, QueueMax: -1})
	shows := []subgroup.ProgressRecord{{Topic: "t", Group: "g", Queue: 3, Progress: subgroup.Progress{Offset: 90, Unknown: true, Source: subgroup.FromCommit}}}
	f.of(b, o).state.Take(shows)
	if got, _ := o.Query([]byte("g"), []byte("t"), 3); got != 6 {
		t.Errorf("a slave that has not copied the reset brought %d", got)
	}
	f.of(a, o).state.Take(shows)
	if got, _ := o.Query([]byte("g"), []byte("t"), 3); got != 90 {
		t.Errorf("a slave that has copied it did not bring its commits: %d", got)
	}
}
