package consumequeue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

func newShared(t *testing.T, fsys vfs.FS) *Shared {
	t.Helper()
	if err := vfs.MkdirAllSync(fsys, "/own"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.MkdirAllSync(fsys, "/q"); err != nil {
		t.Fatal(err)
	}
	return &Shared{FS: fsys, FileBytes: 20 * 20, Files: segfile.NewCache(4), TempFile: "/own/new", BufferBytes: 1 << 20}
}

func unit(n int64) Unit { return Unit{Phys: n * 100, Size: int32(n%50 + 91), Tags: n * n} }

// expect checks that the queue has exactly the units [first, end).
func expect(t *testing.T, q *Queue, first, end int64) {
	t.Helper()
	if f, e := q.Bounds(); f != first || e != end {
		t.Errorf("units %d to %d, want %d to %d", f, e, first, end)
	}
	buf := make([]byte, 7*UnitBytes)
	for at := first; at < end; {
		n, err := q.ReadRaw(buf, at)
		if err != nil || n == 0 {
			t.Errorf("read at %d: %d, %v", at, n, err)
			return
		}
		for i := range n {
			if u := Decode(buf[i*UnitBytes:]); u != unit(at) && !u.IsVoid() {
				t.Errorf("unit %d is %+v", at, u)
				return
			}
			at++
		}
	}
	if n, err := q.ReadRaw(buf, end); n != 0 || err != nil {
		t.Errorf("read at the end: %d, %v", n, err)
	}
}

// load opens the files of a queue as recovery does.
func load(t *testing.T, fsys vfs.FS, limit int64) *Queue {
	t.Helper()
	q := New(newShared(t, fsys), "/q/orders/0")
	files, _, err := segfile.List(fsys, "/q/orders/0")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Load(files, limit); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestRandomHistory(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m := vfs.NewMem()
		sh := newShared(t, m)
		q := New(sh, "/q/orders/0")
		end := int64(0)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 300 {
			switch rng.IntN(10) {
			case 0:
				check(q.Write())
			case 1:
				check(q.Sync())
			case 2:
				q.Release()
			case 3:
				if end > 0 {
					check(q.Overwrite(end-1-rng.Int64N(min(end, 30)), unit(0)))
					check(q.Overwrite(end, unit(0))) // not there: nothing happens
				}
				// Put right again what was overwritten.
				for n := max(0, end-30); n < end; n++ {
					check(q.Overwrite(n, unit(n)))
				}
			case 4:
				cut := end - rng.Int64N(min(end, 40)+1)
				q.Cut(cut)
				check(q.Settle())
				end = cut
			default:
				for range rng.IntN(60) {
					check(q.Append(unit(end)))
					end++
				}
			}
			expect(t, q, 0, end)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		check(q.Write())
		q2 := load(t, m, 1<<60)
		expect(t, q2, 0, end)
		if end > 10 {
			q3 := load(t, m, (end-10)*100)
			expect(t, q3, 0, end-10)
		}
		files, _, err := segfile.List(m, "/q/orders/0")
		check(err)
		if want := int((end + 19) / 20); len(files) != want {
			t.Errorf("%d files for %d units", len(files), end)
		}
		if b := sh.Buffered(); b < 0 || b > 1<<20 {
			t.Errorf("%d bytes buffered", b)
		}
	}
}

func TestStartLate(t *testing.T) {
	m := vfs.NewMem()
	q := New(newShared(t, m), "/q/orders/0")
	if err := q.StartAt(47); err != nil {
		t.Fatal(err)
	}
	for n := int64(47); n < 70; n++ {
		if err := q.Append(unit(n)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(q *Queue) {
		t.Helper()
		expect(t, q, 40, 70)
		for _, tt := range []struct{ phys, want int64 }{{0, 47}, {4700, 47}, {4701, 48}, {6900, 69}, {6901, 70}} {
			if got, err := q.FirstFrom(tt.phys); got != tt.want || err != nil {
				t.Errorf("first from %d is %d, %v; want %d", tt.phys, got, err, tt.want)
			}
		}
	}
	check(q)
	if err := q.StartAt(90); err == nil {
		t.Error("a queue with units starts again")
	}
	if err := q.Write(); err != nil {
		t.Fatal(err)
	}
	q = load(t, m, 1<<60)
	check(q)
	// A void in the middle, where messages were lost.
	if err := q.Overwrite(58, Void); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ phys, want int64 }{{0, 47}, {5701, 59}, {5800, 59}, {5900, 59}, {5901, 60}} {
		if got, err := q.FirstFrom(tt.phys); got != tt.want || err != nil {
			t.Errorf("first from %d is %d, %v; want %d", tt.phys, got, err, tt.want)
		}
	}
	if err := q.Reset(); err != nil {
		t.Fatal(err)
	}
	expect(t, q, 0, 0)
	if err := q.Append(unit(0)); err != nil {
		t.Fatal(err)
	}
	if err := q.Settle(); err != nil {
		t.Fatal(err)
	}
	expect(t, load(t, m, 1<<60), 0, 1)
}

// What cannot be written stays in memory and is written later.
func TestFailedWrites(t *testing.T) {
	m := vfs.NewMem()
	inj := vfs.NewInjector(m)
	q := New(newShared(t, inj), "/q/orders/0")
	inj.Fail(vfs.Fault{Op: vfs.OpRename, Err: syscall.ENOSPC})
	for n := range int64(500) {
		if err := q.Append(unit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	expect(t, q, 0, 500)
	inj.Heal()
	if err := q.Write(); err != nil {
		t.Fatal(err)
	}
	inj.Fail(vfs.Fault{Op: vfs.OpSync, Left: 1, Err: syscall.EIO})
	if err := q.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	if err := q.Sync(); err != nil {
		t.Errorf("second sync: %v", err)
	}
	expect(t, load(t, m.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}), 1<<60), 0, 500)
	// Without room anywhere an append fails and adds nothing.
	inj.Fail(vfs.Fault{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	q.sh.BufferBytes = 0
	var err error
	n := int64(500)
	for ; err == nil && n < 500+2*rollRingUnits; n++ {
		err = q.Append(unit(n))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append to a full queue: %v", err)
	}
	inj.Heal()
	if err := q.Append(unit(n - 1)); err != nil {
		t.Fatal(err)
	}
	expect(t, q, 0, n)
}

// A second file needs syncs: a busy queue asks somebody else to make it.
func TestNeedsFile(t *testing.T) {
	m := vfs.NewMem()
	inj := vfs.NewInjector(m)
	sh := newShared(t, inj)
	asked := 0
	sh.NeedsFile = func() { asked++ }
	q := New(sh, "/q/orders/0")
	inj.OnOp = func(op vfs.Op, path string) {
		if op.Changes() {
			t.Errorf("append does %s %s", op, path)
		}
	}
	for n := range int64(2000) {
		if err := q.Append(unit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if asked == 0 {
		t.Error("nobody was asked")
	}
	inj.OnOp = nil
	if err := q.Write(); err != nil {
		t.Fatal(err)
	}
	expect(t, q, 0, 2000)
}

func TestDelete(t *testing.T) {
	m := vfs.NewMem()
	q := New(newShared(t, m), "/q/orders/0")
	for n := range int64(100) {
		if err := q.Append(unit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Write(); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{q.Append(unit(100)), q.Write(), q.Sync()} {
		if err != nil {
			t.Errorf("after the deletion: %v", err)
		}
	}
	if _, err := m.Stat("/q/orders/0"); !Missing(err) {
		t.Errorf("files are left: %v", err)
	}
}

func TestMissingFile(t *testing.T) {
	m := vfs.NewMem()
	q := New(newShared(t, m), "/q/orders/0")
	for n := range int64(100) {
		if err := q.Append(unit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Write(); err != nil {
		t.Fatal(err)
	}
	q.Release()
	q.sh.Files.Close()
	if err := m.Remove("/q/orders/0/" + segfile.Name(400)); err != nil {
		t.Fatal(err)
	}
	if _, err := q.ReadRaw(make([]byte, 20), 25); !Missing(err) || q.NextFile(25) != 40 {
		t.Errorf("read: %v, next file %d", err, q.NextFile(25))
	}
	if q := load(t, m, 1<<60); fmt.Sprint(q.Bounds()) != "0 20" {
		t.Error(q.Bounds())
	}
	if !strings.HasSuffix(q.Dir(), "/q/orders/0") {
		t.Error(q.Dir())
	}
}

func FuzzUnit(f *testing.F) {
	f.Add(make([]byte, 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < UnitBytes {
			return
		}
		var back [UnitBytes]byte
		u := Decode(b)
		u.Put(back[:])
		if string(back[:]) != string(b[:UnitBytes]) {
			t.Errorf("%x became %+v", b[:UnitBytes], u)
		}
	})
}

// TestExpired: a file goes when no unit in it leads to a message that is left, also where the
// units at its end stand for messages that were lost.
func TestExpired(t *testing.T) {
	q := New(newShared(t, vfs.NewMem()), "/q/orders/0")
	for n := range int64(65) {
		u := unit(n)
		if n >= 15 && n < 23 || n >= 30 && n < 40 {
			u = Void
		}
		if err := q.Append(u); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(q.Write(), q.Sync()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		phys int64
		want string
	}{
		{0, "[]"}, {1400, "[]"}, {1401, "[0]"}, {2900, "[0]"}, {2901, "[0 400]"}, {4000, "[0 400]"}, {5900, "[0 400]"}, {5901, "[0 400 800]"}, {99999, "[0 400 800]"},
	} {
		if got, err := q.Expired(tt.phys); fmt.Sprint(got) != tt.want || err != nil {
			t.Errorf("messages from %d on are left: files %v go, %v, want %s", tt.phys, got, err, tt.want)
		}
	}
}
