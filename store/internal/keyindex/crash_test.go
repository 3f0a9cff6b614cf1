package keyindex_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"mqctl/store/internal/keyindex"
	"mqctl/store/vfs"
)

// script files keys as a store does: a flush now and then, a sync sometimes.
func script(keys []key, x *keyindex.Index) error {
	for i, k := range keys {
		if err := x.Put(k.hash, k.phys, k.millis); err != nil {
			return err
		}
		var err error
		switch {
		case i%97 == 96:
			err = x.Sync()
		case i%13 == 12:
			err = x.Flush()
		}
		if err != nil {
			return err
		}
	}
	return x.Close()
}

// finish opens what a crash left and files the rest, as recovery does.
func finish(t *testing.T, fsys vfs.FS, keys []key) *keyindex.Index {
	t.Helper()
	x, err := keyindex.Open(fsys, "/index", clockBack(goldenOptions))
	if err != nil {
		t.Fatal(err)
	}
	from := x.EndPhys()
	for _, k := range keys {
		if k.phys > from {
			put(t, x, k)
		}
	}
	return x
}

// clockBack gives options with a clock that stands still, so that names have
// to increase by themselves.
func clockBack(o keyindex.Options) keyindex.Options {
	o.Now = func() time.Time { return time.Date(2026, 3, 29, 2, 30, 59, 999e6, time.Local) }
	return o
}

// A crash before every operation: kill -9, or a power loss that keeps any part
// of what was not synced. After that, filing the rest gives a complete index,
// and after kill -9 the same bytes as without.
func TestCrashAtEveryOperation(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)[:550]
	want := func() [][]byte {
		mem := vfs.NewMem()
		if err := script(keys, open(t, mem, goldenOptions)); err != nil {
			t.Fatal(err)
		}
		return readIndex(t, mem)
	}()
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	point := 0
	in.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() {
			return
		}
		point++
		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(uint64(point), seed))
			c := mem.CrashClone(rng, vfs.CrashOptions{ReorderNames: seed == 2})
			checkAfterCrash(t, c, keys, nil, fmt.Sprintf("power loss %d before %s %s", seed, op, path))
		}
		checkAfterCrash(t, mem.ProcessKillClone(), keys, want, fmt.Sprintf("kill before %s %s", op, path))
	}
	if err := script(keys, open(t, in, clockBack(goldenOptions))); err != nil {
		t.Fatal(err)
	}
	if point < 100 {
		t.Errorf("only %d points", point)
	}
}

func checkAfterCrash(t *testing.T, c *vfs.Mem, keys []key, want [][]byte, how string) {
	t.Helper()
	x := finish(t, c, keys)
	for i, k := range keys {
		if i%17 == 0 && !slices.Contains(query(t, x, k.hash, 0, k.millis, k.millis), k.phys) {
			t.Fatalf("%s: %s#%s of the record at %d is not found", how, k.topic, k.text, k.phys)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	if want != nil {
		got := readIndex(t, c)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%s: the files are not the same as without", how)
		}
	}
	// And it opens clean, with nothing to repair.
	o := clockBack(goldenOptions)
	o.Clean = true
	x = open(t, c, o)
	if len(x.Notes()) > 0 || x.EndPhys() != keys[len(keys)-1].phys {
		t.Fatalf("%s: then closed, notes %v, end %d", how, x.Notes(), x.EndPhys())
	}
	for _, k := range keys[len(keys)-30:] {
		if !slices.Contains(query(t, x, k.hash, 0, k.millis, k.millis), k.phys) {
			t.Fatalf("%s: closed and opened, %s#%s is not found", how, k.topic, k.text)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// A second crash during the repair of the first.
func TestCrashDuringRepair(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)[:300]
	mem := vfs.NewMem()
	x := open(t, mem, goldenOptions)
	for i, k := range keys {
		put(t, x, k)
		if i == 200 || i == 280 {
			if err := x.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		first := mem.CrashClone(rand.New(rand.NewPCG(seed, 1)), vfs.CrashOptions{})
		in := vfs.NewInjector(first)
		in.OnOp = func(op vfs.Op, path string) {
			if op.Changes() {
				c := first.CrashClone(rand.New(rand.NewPCG(seed, 2)), vfs.CrashOptions{})
				checkAfterCrash(t, c, keys, nil, fmt.Sprintf("seed %d, second crash before %s %s", seed, op, path))
			}
		}
		x, err := keyindex.Open(in, "/index", goldenOptions)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage to any byte of an entry of the newest file: what lies before stays,
// the rest is filed again.
func TestDamagedEntries(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)
	name := "/index/" + g.indexNames[len(g.indexNames)-1]
	const entries = 40 + 4*64
	for at := 0; at < entries+20*132; at += 21 {
		mem := g.write(t)
		f, err := mem.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], int64(at)); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x81
		if _, err := f.WriteAt(b[:], int64(at)); err != nil {
			t.Fatal(err)
		}
		x := finish(t, mem, keys)
		missing := 0
		for i, k := range keys {
			if i%3 == 0 && i >= len(keys)-150 && !slices.Contains(query(t, x, k.hash, 0, 0, 1<<62), k.phys) {
				missing++
			}
		}
		// A changed hash in the same slot, a time or a later position is not
		// detectable: it costs that entry at most.
		if missing > 1 {
			t.Fatalf("damage at %d: %d keys are lost", at, missing)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Errors of the disk: Put goes on, Flush and Sync say so, and when the disk is
// well again nothing is missing.
func TestFailingDisk(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)
	for _, fault := range []vfs.Fault{
		{Op: vfs.OpWrite, Err: syscall.ENOSPC, Partial: 7},
		{Op: vfs.OpCreate, Err: syscall.EROFS},
		{Op: vfs.OpTruncate, Err: syscall.EIO},
		{Op: vfs.OpSync, Err: syscall.EIO},
		{Op: vfs.OpSyncDir, Err: syscall.EIO},
		{Op: vfs.OpMkdir, Err: syscall.EACCES},
	} {
		for _, from := range []int{0, 100, 250} {
			mem := vfs.NewMem()
			in := vfs.NewInjector(mem)
			x := open(t, in, goldenOptions)
			heard := 0
			for i, k := range keys {
				if i == from {
					in.Fail(fault)
				}
				if i == from+400 {
					in.Heal()
				}
				put(t, x, k)
				if i%50 == 49 {
					if err := x.Sync(); err != nil {
						if !errors.Is(err, fault.Err) || i < from || i >= from+400 {
							t.Fatalf("%s from %d: sync after %d: %v", fault.Op, from, i, err)
						}
						heard++
					} else if i > from && i < from+400 && fault.Op == vfs.OpWrite {
						t.Fatalf("%s: a sync succeeded on a full disk", fault.Op)
					}
				}
				if i%101 == 0 && !slices.Contains(query(t, x, k.hash, 0, k.millis, k.millis), k.phys) {
					t.Fatalf("%s from %d: key %d is not found while the disk fails", fault.Op, from, i)
				}
			}
			if heard == 0 && (fault.Op != vfs.OpMkdir || from == 0) {
				t.Errorf("%s from %d: no sync failed", fault.Op, from)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			equalFiles(t, readIndex(t, mem), g)
		}
	}
}

// Memory is bounded: after 16 MiB that cannot be written Put says so.
func TestPutFailsWhenTooFarBehind(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	x := open(t, in, keyindex.Options{Slots: 64, Entries: 2 << 20})
	in.Fail(vfs.Fault{Op: vfs.OpCreate, Err: syscall.ENOSPC})
	n := int64(0)
	var err error
	for ; n < 2<<20; n++ {
		if err = x.Put(int32(n&0x7FFFFFFF), n, 1000+n); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || n < 16<<20/20-1 || n > 17<<20/20 {
		t.Fatalf("after %d entries: %v", n, err)
	}
	in.Heal()
	if err := x.Put(5, n, 1000+n); err != nil {
		t.Fatal(err)
	}
	if x.EndPhys() != n {
		t.Errorf("end %d, want %d", x.EndPhys(), n)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Put(5, n, 1000); !errors.Is(err, keyindex.ErrClosed) {
		t.Errorf("put after close: %v", err)
	}
	if err := x.Query(5, 0, 0, 1, func(int64) bool { return true }); !errors.Is(err, keyindex.ErrClosed) {
		t.Errorf("query after close: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
