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

// TestMissedKeysAndCleanStop: keys that the index did not take are there after the next start also
// when the stop comes first, whether the disk is well again by then or not, and where a full file of
// the index is followed by one that cannot be made.
func TestMissedKeysAndCleanStop(t *testing.T) {
	missing := map[vfs.Op]bool{}
	for _, op := range []vfs.Op{vfs.OpRead, vfs.OpWrite, vfs.OpCreate, vfs.OpTruncate, vfs.OpSync} {
		for _, no := range []error{syscall.EIO, syscall.EMFILE} {
			for _, before := range []int{1, 240} { // 256 entries fill a file
				for _, healed := range []bool{true, false} {
					missing[op] = missedThenStopped(t, op, no, before, healed) || missing[op]
				}
			}
		}
	}
	if !missing[vfs.OpRead] {
		t.Errorf("the faults met no key: %v", missing)
	}
}

func missedThenStopped(t *testing.T, op vfs.Op, no error, before int, healed bool) (missing bool) {
	t.Helper()
	mem := vfs.NewMem()
	inj := vfs.NewInjector(mem)
	s, _ := open(t, small(inj))
	n := 0
	send := func(to int) {
		for ; n < to; n++ {
			put(t, s, "orders", 0, "b", "KEYS", fmt.Sprint("k", n))
		}
	}
	send(before)
	closeStore(t, s)
	s, _ = open(t, small(inj))
	inj.Fail(vfs.Fault{Op: op, Path: "/index/", Err: no})
	send(before + 20)
	s.KeepOnce()
	send(before + 40)
	for i := range n {
		_, res := s.Query(nil, "orders", fmt.Sprint("k", i), 9, 0, 1<<60, false)
		missing = missing || res.Count == 0
	}
	if healed {
		inj.Heal()
	}
	err := s.Close() // may well fail: the disk does
	inj.Heal()
	for round := range 2 {
		again, rec := open(t, small(mem))
		for i := range n {
			if _, res := again.Query(nil, "orders", fmt.Sprint("k", i), 9, 0, 1<<60, false); res.Count != 1 {
				t.Errorf("%v of %v, %d keys before, healed %v: stopped with %v, start %d (%v): key %d is found %d times",
					no, op, before, healed, err, round, rec.Findings, i, res.Count)
				break
			}
		}
		closeStore(t, again)
	}
	return missing
}
