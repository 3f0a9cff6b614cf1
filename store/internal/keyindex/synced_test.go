package keyindex_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"mqctl/store/internal/keyindex"
	"mqctl/store/vfs"
)

var someOptions = keyindex.Options{Slots: 32, Entries: 101} // 100 keys in a file

// someKeys are n keys of records, a second apart.
func someKeys(n int) (keys []key) {
	for i := range int64(n) {
		keys = append(keys, key{hash: int32(i * 7919 % 1000), phys: 100 * i, millis: 1_700_000_000_000 + 1000*i})
	}
	return keys
}

// A killed process may leave a full file that is on no disk. The next one does not call it safe
// before it has synced it.
func TestFullFileOfKilledProcessIsSynced(t *testing.T) {
	mem, keys := vfs.NewMem(), someKeys(130)
	x := open(t, mem, clockBack(someOptions))
	for _, k := range keys {
		put(t, x, k)
	}
	if err := x.Flush(); err != nil { // not synced
		t.Fatal(err)
	}
	killed := mem.ProcessKillClone()
	x = open(t, killed, clockBack(someOptions))
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	o := clockBack(someOptions)
	if o.SyncedMillis = x.SyncedMillis(); o.SyncedMillis != keys[99].millis {
		t.Fatalf("synced up to %d, want %d", o.SyncedMillis, keys[99].millis)
	}
	for seed := range uint64(20) {
		lost := killed.CrashClone(rand.New(rand.NewPCG(seed, 1)), vfs.CrashOptions{})
		x = open(t, lost, o)
		for i, k := range keys[:100] {
			if !slices.Contains(query(t, x, k.hash, 0, 0, 1<<60), k.phys) {
				t.Fatalf("seed %d: key %d of the file that was said to be synced is not found", seed, i)
			}
		}
	}
}

// Nothing that SyncedMillis covers goes before somebody was told, who may refuse it.
func TestBeforeDrop(t *testing.T) {
	keys := someKeys(130)
	for _, c := range []struct {
		name string
		from int64 // records from here on are dropped
		told bool
	}{
		{"of the file that takes keys", keys[110].phys, false},
		{"all of that file", keys[100].phys, false},
		{"of a full file", keys[50].phys, true},
		{"all", 0, true},
	} {
		mem := vfs.NewMem()
		x := open(t, mem, clockBack(someOptions))
		for _, k := range keys {
			put(t, x, k)
		}
		if err := x.Sync(); err != nil {
			t.Fatal(err)
		}
		o := clockBack(someOptions)
		o.SyncedMillis = x.SyncedMillis()
		if o.SyncedMillis != keys[99].millis {
			t.Fatalf("synced up to %d", o.SyncedMillis)
		}
		told, refuse := 0, errors.New("refused")
		o.BeforeDrop = func() error { told++; return refuse }
		left := mem.ProcessKillClone()
		x = open(t, left, o)
		if told > 0 {
			t.Errorf("%s: told of what a start takes from the last file", c.name)
		}
		before := readIndex(t, left)
		err := x.Truncate(c.from)
		if c.told != errors.Is(err, refuse) || c.told != (told == 1) {
			t.Errorf("%s: %v, told %d times", c.name, err, told)
		}
		if c.told && !slices.Equal(readIndex(t, left)[0], before[0]) {
			t.Errorf("%s: the file changed all the same", c.name)
		}
		if refuse = nil; x.Truncate(c.from) != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.told && x.SyncedMillis() != 0 {
			t.Errorf("%s: still said to be safe up to %d", c.name, x.SyncedMillis())
		}
		for _, k := range keys {
			if k.phys > x.EndPhys() {
				put(t, x, k)
			}
		}
		if err := x.Sync(); err != nil {
			t.Fatal(err)
		}
		if x.SyncedMillis() != keys[99].millis {
			t.Errorf("%s: then synced up to %d", c.name, x.SyncedMillis())
		}
	}
}
