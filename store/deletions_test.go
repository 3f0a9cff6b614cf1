package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// remadeLog is the log of a master that deleted two topics, and made one again with
// one message. half is where the deletions are not all reached yet.
func remadeLog(t *testing.T) (log []byte, half int, told []store.Deletion) {
	t.Helper()
	s, _ := open(t, batchOptions(vfs.NewMem()))
	defer closeStore(t, s)
	put(t, s, "stays", 0, "a")
	putBatches(t, s, 8)
	half = int(s.Positions().Max)
	for i := range 9 {
		put(t, s, "t", int32(i%3), fmt.Sprint(i), "KEYS", "k")
	}
	for _, name := range []string{"t", "bundles"} {
		if err := s.DeleteTopic(name); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "t", 1, "anew")
	put(t, s, "stays", 0, "b")
	told, last := s.Deletions(0, 100)
	if len(told) != 2 || told[0].Topic != "t" || told[1].Topic != "bundles" || last != 2 {
		t.Fatalf("%+v, %d", told, last)
	}
	if one, n := s.Deletions(0, 1); len(one) != 1 || one[0] != told[0] || n != 1 {
		t.Fatalf("the first of them: %+v, %d", one, n)
	}
	if more, n := s.Deletions(last, 100); len(more) != 0 || n != last {
		t.Fatalf("none is new: %+v, %d", more, n)
	}
	if _, err := s.FollowDeletions(told, 0); err == nil {
		t.Fatal("a master follows nobody's deletions")
	}
	return rawBytes(t, s), half, told
}

// remadeQueues says where the queues begin and end.
func remadeQueues(s *store.Store) string {
	var b strings.Builder
	for _, name := range []string{"stays", "t", "bundles"} {
		for id := range int32(3) {
			if q := s.Lookup([]byte(name), id); q != nil && q.Max() > 0 {
				fmt.Fprintf(&b, "%s/%d %d-%d ", name, id, q.Min(), q.Max())
			}
		}
	}
	return b.String()
}

const (
	remadeBefore = "stays/0 0-2 t/0 0-3 t/1 0-1 t/2 0-3 bundles/0 0-20 " // without the deletions
	remadeAfter  = "stays/0 0-2 t/1 0-1 "
)

// TestFollowDeletions: a replica that hears of the deletion of topics that were made
// again keeps only what came after it, wherever a kill or a loss of power hits it.
func TestFollowDeletions(t *testing.T) {
	log, half, told := remadeLog(t)
	follow := func(t *testing.T, s *store.Store, waiting int) {
		t.Helper()
		left, err := s.FollowDeletions(told, s.Cuts())
		if err != nil || len(left) != waiting {
			t.Fatalf("%d are waiting: %+v, %v", waiting, left, err)
		}
	}
	options := func(fsys vfs.FS) store.Options {
		o := batchOptions(fsys)
		o.Replica = true
		return o
	}
	// ended follows what is left, and compares the folder as it is then and after restarts.
	ended := func(t *testing.T, mem *vfs.Mem) {
		t.Helper()
		s, _ := open(t, options(mem))
		feed(t, s, log[s.Positions().Max:], rand.New(rand.NewPCG(1, 2)), 500)
		follow(t, s, 0)
		for _, how := range []string{"followed", "killed", "stopped"} {
			if got := remadeQueues(s); got != remadeAfter {
				t.Errorf("%s: %s, want %s", how, got, remadeAfter)
			}
			if how == "killed" {
				closeStore(t, s)
			}
			if how != "stopped" {
				mem = mem.ProcessKillClone()
				if s, _ = open(t, options(mem)); s.Positions().Max != record.PhysOffset(len(log)) {
					t.Fatalf("the log ends at %d", s.Positions().Max)
				}
			}
		}
		s.SetReplica(false)
		if it := put(t, s, "t", 0, "x"); it.QueueOffset != 0 {
			t.Errorf("after a promotion the numbers go on at %d", it.QueueOffset)
		}
		closeStore(t, s)
	}
	t.Run("in two parts", func(t *testing.T) {
		mem := vfs.NewMem()
		s, _ := open(t, options(mem))
		feed(t, s, log[:half], rand.New(rand.NewPCG(1, 1)), 500)
		follow(t, s, 2)
		if got := remadeQueues(s); got != "stays/0 0-1 " {
			t.Errorf("half of the log: %s", got)
		}
		closeStore(t, s)
		ended(t, mem)
	})
	t.Run("refused", func(t *testing.T) {
		in := vfs.NewInjector(vfs.NewMem())
		s, _ := open(t, options(in))
		feed(t, s, log, rand.New(rand.NewPCG(1, 1)), 500)
		if left, err := s.FollowDeletions(told, s.Cuts()+1); err != nil || len(left) != 2 || remadeQueues(s) != remadeBefore {
			t.Errorf("told before a cut: %+v, %v, %s", left, err, remadeQueues(s))
		}
		in.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "progress", Left: 1, Err: syscall.EIO})
		if _, err := s.FollowDeletions(told, s.Cuts()); !errors.Is(err, syscall.EIO) || remadeQueues(s) != remadeBefore {
			t.Errorf("it could not be noted: %v, %s", err, remadeQueues(s))
		}
		follow(t, s, 0)
		if got := remadeQueues(s); got != remadeAfter {
			t.Errorf("the second time: %s", got)
		}
		again, _ := s.Deletions(0, 10)
		if len(again) != 2 {
			t.Errorf("a replica tells its own %+v", again)
		}
		closeStore(t, s)
	})
	t.Run("within a queue", func(t *testing.T) {
		mem := vfs.NewMem()
		s, _ := open(t, options(mem))
		feed(t, s, log, rand.New(rand.NewPCG(1, 1)), 500)
		var list []store.Deletion
		for name, n := range map[string]record.QueueOffset{"t": 1, "bundles": 3} {
			u := s.Units(nil, s.Queue(name, 0), n, 1)
			list = append(list, store.Deletion{Topic: name, Before: u[0].Phys})
		}
		if left, err := s.FollowDeletions(list, 0); err != nil || len(left) != 0 {
			t.Fatal(left, err)
		}
		for range 3 {
			const want = "stays/0 0-2 t/0 1-3 t/1 0-1 t/2 1-3 bundles/0 3-20 "
			if got := remadeQueues(s); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			mem = mem.ProcessKillClone()
			closeStore(t, s)
			s, _ = open(t, options(mem))
		}
		closeStore(t, s)
	})
	t.Run("crashes", func(t *testing.T) {
		mem := vfs.NewMem()
		in := vfs.NewInjector(mem)
		s, _ := open(t, options(in))
		feed(t, s, log, rand.New(rand.NewPCG(1, 1)), 500)
		if err := s.Mark(); err != nil {
			t.Fatal(err)
		}
		var folders []*vfs.Mem
		in.OnOp = func(op vfs.Op, _ string) {
			if op.Changes() {
				n := len(folders)
				folders = append(folders, mem.ProcessKillClone(), mem.CrashClone(rand.New(rand.NewPCG(1, uint64(n))), powerLosses[n/2%len(powerLosses)]))
			}
		}
		follow(t, s, 0)
		in.OnOp = nil
		closeStore(t, s)
		if len(folders) < 10 {
			t.Fatalf("%d folders", len(folders))
		}
		for _, f := range folders {
			ended(t, f)
		}
	})
}
