package consumequeue

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

const (
	extDir  = "/ext/orders/0"
	oneExt  = extHeadBytes // bytes of a unit without bit map
	extFile = 10*oneExt + 4
)

var allLost = vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}

func crash(m *vfs.Mem, o vfs.CrashOptions) *vfs.Mem {
	return m.CrashClone(rand.New(rand.NewPCG(1, 1)), o)
}

// extQueue is a queue with files of 100 units and extension files of 10.
func extQueue(t *testing.T, fsys vfs.FS) *Queue {
	t.Helper()
	sh := newShared(t, fsys)
	sh.FileBytes, sh.Ext, sh.ExtFileBytes = 100*UnitBytes, true, extFile
	q := New(sh, "/q/orders/0")
	q.WithExt(extDir)
	return q
}

// fill appends units up to number end.
func fill(t *testing.T, q *Queue, end int64) {
	t.Helper()
	for _, n := q.Bounds(); n < end; n++ {
		if err := q.Append(Unit{Phys: n * 100, Size: 91, Tags: n, Millis: 1000 + n}); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkExt: each unit finds its tag code in the extension.
func checkExt(t *testing.T, q *Queue, end int64) {
	t.Helper()
	for n := range end {
		var b [UnitBytes]byte
		if got, err := q.ReadRaw(b[:], n); got != 1 || err != nil {
			t.Fatalf("unit %d: %d, %v", n, got, err)
		}
		if tags, ok := q.Tags(Decode(b[:])); !ok || tags != n {
			t.Errorf("unit %d has tag code %d, %v", n, tags, ok)
		}
	}
}

// After a sync of an extension file that failed, the kernel takes its units for written. Who makes the
// queue's units again finds them, and has to write them again all the same.
func TestExtIsWrittenAgainAfterAFailedSync(t *testing.T) {
	m := vfs.NewMem()
	inj := vfs.NewInjector(m)
	q := extQueue(t, inj)
	fill(t, q, 5)
	check(t, q.Write())
	inj.Fail(vfs.Fault{Op: vfs.OpSync, Path: extDir, Err: syscall.EIO, Lose: true, Left: 1})
	if q.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	killed := m.ProcessKillClone()
	q = extQueue(t, killed)
	files, _, err := segfile.List(killed, "/q/orders/0")
	check(t, err)
	check(t, q.Load(files, 0)) // all units are made again
	fill(t, q, 5)
	check(t, q.Write())
	check(t, q.Sync())
	lost := crash(killed, allLost)
	q = extQueue(t, lost)
	check(t, q.Load(files, 1<<40))
	checkExt(t, q, 5)
}

// An extension file that nobody needs any more stays while it has to be written or synced: else that
// fails.
func TestDropExtBelowLeavesWhatIsDue(t *testing.T) {
	for _, written := range []bool{true, false} {
		m := vfs.NewMem()
		q := extQueue(t, m)
		fill(t, q, 5)
		check(t, q.Write())
		check(t, q.Sync())
		fill(t, q, 25)
		if written {
			check(t, q.Write())
		}
		first := Unit{Tags: extMinAddress + 2*extFile + oneExt} // in the third file
		check(t, q.DropExtBelow(first))
		if err := q.Write(); err != nil {
			t.Errorf("written %v: then a write fails: %v", written, err)
		}
		if err := q.Sync(); err != nil {
			t.Errorf("written %v: then a sync fails: %v", written, err)
		}
		check(t, q.DropExtBelow(first))
		if files, _, err := segfile.List(m, extDir); err != nil || len(files) != 1 || files[0].Base != 2*extFile {
			t.Errorf("written %v: in the end there are %v, %v", written, files, err)
		}
	}
}

// What a killed process wrote into its last file is safe before the next file is there: Apache
// takes a file in the middle for full.
func TestAdoptedFileIsSyncedBeforeTheNext(t *testing.T) {
	m := vfs.NewMem()
	q := New(newShared(t, m), "/q/orders/0") // files of 20 units
	for n := range int64(20) {               // it is full
		check(t, q.Append(unit(n)))
	}
	check(t, q.Write())
	first, end, next := q.Extent()
	killed := m.ProcessKillClone()
	q = New(newShared(t, killed), "/q/orders/0")
	q.Restore(first, end, next)
	if ok, err := q.Adopt(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	check(t, q.Append(unit(20)))
	check(t, q.Write())
	lost := crash(killed, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateKept})
	files, _, err := segfile.List(lost, "/q/orders/0")
	check(t, err)
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	q = New(newShared(t, lost), "/q/orders/0")
	check(t, q.Load(files, 1<<40))
	expect(t, q, 0, 21)
}

// The keeper makes no extension file either, for which it may have to wait for somebody who
// syncs one: its units stay in memory, and so do the queue's.
func TestWriteOpenMakesNoExtFile(t *testing.T) {
	m := vfs.NewMem()
	inj := vfs.NewInjector(m)
	q := extQueue(t, inj)
	fill(t, q, 8)
	check(t, q.Write())
	fill(t, q, 15) // beyond the extension file, not beyond the queue's
	inj.OnOp = func(op vfs.Op, path string) {
		if op == vfs.OpCreate || op == vfs.OpRename || op == vfs.OpSync {
			t.Errorf("WriteOpen does %s %s", op, path)
		}
	}
	if left, err := q.WriteOpen(); left != 800 || err != nil {
		t.Errorf("the first message without unit in a file is at %d, %v, want 800", left, err)
	}
	inj.OnOp = nil
	check(t, q.Write())
	if left, err := q.WriteOpen(); left != -1 || err != nil {
		t.Errorf("after a write: %d, %v", left, err)
	}
	checkExt(t, q, 15)
}
