package store_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// TestRepairOnFullDisk: what store repair does, where the disk is full at any of its changes:
// the error is told, nothing that was whole is lost, by a kill at that moment either, and the
// repair done again ends well.
func TestRepairOnFullDisk(t *testing.T) {
	damaged := func(t testing.TB) *vfs.Mem { // a hole in the middle, 59 of 60 messages
		c := damage(t, killed(t), "/store/commitlog/00000000000000000000", 1000, []byte("damage"))
		s, _ := open(t, small(c))
		if len(s.Holes()) != 1 {
			t.Fatal(s.Holes())
		}
		closeStore(t, s)
		return c
	}
	long := func(t testing.TB) *vfs.Mem { // the first file of the log has bytes too many
		c := killed(t)
		f, err := c.OpenReadWrite("/store/commitlog/00000000000000000000")
		if err == nil {
			_, err = f.WriteAt([]byte("too much"), 4096)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now := time.Unix(1735689600, 0)
	for name, r := range map[string]struct {
		make   func(t testing.TB) *vfs.Mem
		repair func(fsys vfs.FS) error
		lost   int
	}{
		"fill": {damaged, func(fsys vfs.FS) error {
			_, err := store.FillHoles(small(fsys), nil)
			return err
		}, 1},
		"put away": {killed, func(fsys vfs.FS) error {
			_, err := store.PutAway(fsys, "/store", now, []string{"consumequeue", "index"}, true)
			return err
		}, 0},
		"resize": {long, func(fsys vfs.FS) error {
			_, err := store.Resize(fsys, "/store", "", now, []store.OddFile{{Base: 0, Size: 4096}})
			return err
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			base := r.make(t)
			points := 0
			for failed := true; failed; points++ {
				mem := base.ProcessKillClone()
				inj := vfs.NewInjector(mem)
				failed = false
				n := 0
				inj.OnOp = func(op vfs.Op, _ string) {
					if op.Changes() {
						failed = failed || n == points
						n++
					}
				}
				inj.Fail(vfs.Fault{Skip: points, Partial: 3, Err: syscall.ENOSPC})
				err := r.repair(inj)
				if failed && err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("change %d: %v", points, err)
				}
				for what, left := range map[string]*vfs.Mem{"running": mem, "killed": mem.ProcessKillClone()} {
					if err := r.repair(left); err != nil && !errors.Is(err, store.ErrHolesUnknown) {
						t.Fatalf("change %d, %s: again: %v", points, what, err)
					}
					allButLost(t, fmt.Sprintf("change %d, %s, error %v", points, what, err), left, 60-r.lost)
				}
			}
			if points < 4 {
				t.Errorf("only %d changes failed", points)
			}
		})
	}
}

// allButLost opens a store and counts its messages.
func allButLost(t *testing.T, what string, mem *vfs.Mem, want int) {
	t.Helper()
	s, rec := open(t, small(mem))
	got := 0
	for _, q := range s.Queues("orders") {
		got += len(readAll(t, s, q))
	}
	if got != want {
		t.Errorf("%s: %d messages, want %d: %+v", what, got, want, rec)
	}
	closeStore(t, s)
}
