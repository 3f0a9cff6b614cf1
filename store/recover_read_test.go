package store_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// TestReadErrorIsNoDamage: whichever read of a start fails, the start fails by it or finds all
// that one without it finds. Nothing is taken for damage, or for stale, that was not read.
func TestReadErrorIsNoDamage(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	o.SetPID(1)
	s, _ := open(t, o)
	for i := range 60 {
		putKeyed(t, s, fmt.Sprint("t", i%3), fmt.Sprintf("%03d %s", i, strings.Repeat("x", 100)))
		if i == 30 {
			if err := s.Mark(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.KeepOnce()
	left := mem.ProcessKillClone()
	for _, at := range []struct {
		file string
		pos  int64
	}{{"00000000000000000000", 900}, {"00000000000000008192", 700}, {"00000000000000008192", 3000}} {
		f, err := left.OpenReadWrite("/store/commitlog/" + at.file)
		if err == nil {
			_, err = f.WriteAt(make([]byte, 150), at.pos)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := left.Remove("/store/mqctl/progress"); err != nil { // the whole log is scanned
		t.Fatal(err)
	}
	start := func(fsys vfs.FS) (string, error) {
		o := small(fsys)
		o.SetPID(2)
		s, rec, err := store.Open(o)
		if err != nil {
			return "", err
		}
		defer s.Kill()
		if in, ok := fsys.(*vfs.Injector); ok {
			in.Heal()
			in.OnOp = nil
		}
		var sb strings.Builder
		for i := range 3 {
			q := s.Queue(fmt.Sprint("t", i), 0)
			for _, v := range readAll(t, s, q) {
				fmt.Fprintf(&sb, "%s %d %.3s\n", v.Topic(), v.QueueOffset(), v.Body())
			}
		}
		return fmt.Sprint(sb.String(), rec.Max, len(s.Holes())), nil
	}
	want, err := start(left.ProcessKillClone())
	if n := strings.Count(want, "\n"); err != nil || n < 50 || n >= 60 {
		t.Fatalf("%v, without errors it finds:\n%s", err, want)
	}
	for _, op := range []vfs.Op{vfs.OpRead, vfs.OpOpen, vfs.OpReadDir, vfs.OpStat} {
		failed := 0
		for skip := 0; ; skip++ {
			disk := left.ProcessKillClone()
			in := vfs.NewInjector(disk)
			hit := false
			n := 0
			in.OnOp = func(got vfs.Op, _ string) {
				if got == op {
					hit = hit || n == skip
					n++
				}
			}
			in.Fail(vfs.Fault{Op: op, Skip: skip, Left: 1, Err: syscall.EIO})
			got, err := start(in)
			if err != nil {
				failed++
				got, err = start(disk.ProcessKillClone())
			}
			if err != nil || got != want {
				t.Fatalf("%s number %d failed: %v, it finds\n%s\nwant\n%s", op, skip, err, got, want)
			}
			if !hit {
				t.Logf("%s: %d operations, of which %d failed the start", op, skip, failed)
				break
			}
		}
	}
}
