package store_test

import (
	"fmt"
	"syscall"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// A key that the index did not take once is there later: in the running process after the
// keeper's next round, and after a death before that, a clean stop or a loss of power.
func TestMissedKeysComeLater(t *testing.T) {
	keys := func(s *store.Store, n int) (found int) {
		for i := range n {
			if _, res := s.Query(nil, "orders", fmt.Sprint("k", i), 9, 0, 1<<60, false); res.Count == 1 {
				found++
			}
		}
		return found
	}
	for _, no := range []error{syscall.EIO, syscall.EMFILE} {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		s, _ := open(t, small(inj))
		put(t, s, "orders", 0, "b", "KEYS", "k0")
		closeStore(t, s)
		s, _ = open(t, small(inj)) // the slots of the file are read with the next key
		s.KeepOnce()
		inj.Fail(vfs.Fault{Op: vfs.OpRead, Path: "/index/", Err: no, Left: 1})
		for i := 1; i < 6; i++ {
			put(t, s, "orders", 0, "b", "KEYS", fmt.Sprint("k", i))
		}
		if got := keys(s, 6); got == 6 {
			t.Fatalf("%v: all %d keys are found: the fault met none", no, got)
		}
		check := func(what string, fsys *vfs.Mem) {
			t.Helper()
			again, _ := open(t, small(fsys))
			if got := keys(again, 6); got != 6 {
				t.Errorf("%v, %s: %d keys of 6", no, what, got)
			}
			closeStore(t, again)
		}
		check("killed at once", mem.ProcessKillClone())
		s.KeepOnce()
		if got := keys(s, 6); got != 6 {
			t.Errorf("%v: %d keys of 6 after the keeper's round", no, got)
		}
		check("killed later", mem.ProcessKillClone())
		closeStore(t, s)
		check("stopped", mem.ProcessKillClone())
	}
}
