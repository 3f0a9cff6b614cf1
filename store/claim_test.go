package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// filled is a disk with a log of several files, all of them marked, and some messages behind
// that, whose process was killed.
func filled(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	o := small(mem)
	o.SetPID(1)
	s, _ := open(t, o)
	for i := range 60 {
		putKeyed(t, s, "t", fmt.Sprintf("%d %s", i, strings.Repeat("x", 400)))
	}
	s.FlushOnce()
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		putKeyed(t, s, "t", fmt.Sprintf("%d %s", i, strings.Repeat("y", 400)))
	}
	return mem.ProcessKillClone()
}

func putKeyed(t *testing.T, s *store.Store, topic, body string) {
	t.Helper()
	if _, err := s.Append(t.Context(), s.Queue(topic, 0), draft(topic, 0, body, "UNIQ_KEY", body[:3]), false); err != nil {
		t.Fatal(err)
	}
}

// TestDeadRecoveryKeepsWhatIsKnown kills a recovery before each of its operations: the next
// one knows as much, scans no more, and finds everything.
func TestDeadRecoveryKeepsWhatIsKnown(t *testing.T) {
	for _, power := range []bool{false, true} {
		for n := 0; ; n++ {
			mem := filled(t)
			in := vfs.NewInjector(mem)
			var left *vfs.Mem
			count, was := 0, ""
			in.OnOp = func(op vfs.Op, path string) {
				if !op.Changes() {
					return
				}
				if count++; count == n+1 && power {
					left, was = mem.CrashClone(rand.New(rand.NewPCG(uint64(n), 1)), vfs.CrashOptions{Data: vfs.FateKept}), path
				} else if count == n+1 {
					left, was = mem.ProcessKillClone(), path
				}
			}
			o := small(in)
			o.SetPID(2)
			s, rec := open(t, o)
			files := rec.FilesChecked
			closeStore(t, s)
			if left == nil {
				break
			}
			o = small(left)
			o.SetPID(3)
			s, rec = open(t, o)
			if rec.FilesChecked > files {
				t.Errorf("killed before %d, %s: %d files were scanned, %d without that", n, was, rec.FilesChecked, files)
			}
			if got := s.Queue("t", 0).Max(); got != 80 {
				t.Errorf("killed before %d, %s: %d messages, want 80", n, was, got)
			}
			closeStore(t, s)
		}
	}
}

// TestForeignWriterStaysForeign: what a recovery that died writes into abort makes no
// progress file count that did not, also where all processes have one number.
func TestForeignWriterStaysForeign(t *testing.T) {
	mem := filled(t)
	if err := vfs.WriteFile(mem, "/store/abort", []byte("77")); err != nil { // a broker of Apache was here
		t.Fatal(err)
	}
	in := vfs.NewInjector(mem)
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: "/store/commitlog", Err: syscall.EIO})
	o := small(in)
	o.SetPID(1)
	if _, _, err := store.Open(o); err == nil {
		t.Fatal("the start should have failed")
	}
	o = small(mem.ProcessKillClone())
	o.SetPID(1)
	s, rec := open(t, o)
	defer closeStore(t, s)
	if rec.FilesChecked < 10 {
		t.Errorf("%d files were scanned, not the whole log", rec.FilesChecked)
	}
}

// TestFailedDeletionKeepsNumbers: a deletion that cannot be noted on disk has not happened.
func TestFailedDeletionKeepsNumbers(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	s, _ := open(t, small(in))
	defer closeStore(t, s)
	putKeyed(t, s, "t", "one")
	q := s.Queue("t", 0)
	in.Fail(vfs.Fault{Op: vfs.OpRename, Path: "progress", Left: 1, Err: syscall.EIO})
	if err := s.DeleteTopic("t"); err == nil {
		t.Fatal("the deletion should have failed")
	}
	putKeyed(t, s, "t", "two")
	if got := s.Queue("t", 0); got != q || got.Max() != 2 {
		t.Errorf("the queue ends at %d, want 2; the same %v", got.Max(), got == q)
	}
}

// TestSyncThatLostIsMadeGood: what a failed sync of the log left in memory only is on disk
// after the next start, which could not see it otherwise.
func TestSyncThatLostIsMadeGood(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	o := small(in)
	o.SetPID(1)
	s, _ := open(t, o)
	putKeyed(t, s, "t", "one")
	s.FlushOnce()
	putKeyed(t, s, "t", "two")
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: "commitlog", Left: 1, Err: syscall.EIO, Lose: true})
	s.FlushOnce()
	if _, err := s.Append(t.Context(), s.Queue("t", 0), draft("t", 0, "no"), false); err == nil {
		t.Fatal("a store with a sick disk takes messages")
	}
	// The first start fails in the same way: the second has to know.
	killed := mem.ProcessKillClone()
	in = vfs.NewInjector(killed)
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: "commitlog", Err: syscall.EIO, Lose: true})
	o = small(in)
	o.SetPID(2)
	if _, _, err := store.Open(o); err == nil {
		t.Fatal("the start should have failed")
	}
	killed = killed.ProcessKillClone()
	o = small(killed)
	o.SetPID(3)
	s, _ = open(t, o)
	if got := s.Positions(); got.Flushed != got.Max || s.Queue("t", 0).Max() != 2 {
		t.Errorf("after the start: %+v, %d messages", got, s.Queue("t", 0).Max())
	}
	lost := killed.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
	o = small(lost)
	o.SetPID(4)
	s, _ = open(t, o)
	defer closeStore(t, s)
	if got := s.Queue("t", 0).Max(); got != 2 {
		t.Errorf("a power loss later: %d messages, want 2, which were said to be flushed", got)
	}
}

// TestFailedMarkOfRetentionIsNotForgotten: a sync of a queue that failed while files were to be
// deleted is not made good by the next one, which has nothing left to write.
func TestFailedMarkOfRetentionIsNotForgotten(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	o := small(in)
	now := time.UnixMilli(1735689600000)
	o.Now = func() time.Time { return now }
	o.Steady = o.Now
	o.Retention = store.Retention{Keep: time.Second, Hours: 1<<24 - 1, UsedRatio: 75, ForceRatio: 85, FullRatio: 90, Batch: 3}
	s, _ := open(t, o)
	for i := range 20 {
		putKeyed(t, s, "t", fmt.Sprintf("%d %s", i, strings.Repeat("x", 400)))
	}
	now = now.Add(time.Hour)
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: "consumequeue", Left: 1, Err: syscall.EIO, Lose: true})
	s.RetainOnce()
	if s.Writable() == nil {
		t.Error("the store takes messages")
	}
	if err := s.Close(); err == nil {
		t.Error("the store says that all is safe")
	}
}

// TestStartHearsOfAllFailedSyncsAtOnce: a kernel tells of a failed sync of the whole disk once
// for each file. That must not fail one start for each of them.
func TestStartHearsOfAllFailedSyncsAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	o := small(in)
	o.SetPID(1)
	o.SetSyncAlone(1)
	s, _ := open(t, o)
	const n = 40
	for i := range n {
		putKeyed(t, s, fmt.Sprintf("t%d", i%4), fmt.Sprintf("%d %s", i, strings.Repeat("x", 400)))
	}
	in.Fail(vfs.Fault{Op: vfs.OpSyncDisk, Err: syscall.EIO, Left: 1, Lose: true})
	if err := s.Mark(); err == nil || s.Writable() == nil {
		t.Fatalf("a sync of the disk failed: mark says %v, and the store takes messages", err)
	}
	count := func(s *store.Store) (all int) {
		for i := range 4 {
			all += int(s.Queue(fmt.Sprintf("t%d", i), 0).Max())
		}
		return all
	}
	killed := mem.ProcessKillClone()
	o = small(killed)
	o.SetPID(2)
	s, _ = open(t, o)
	if got := count(s); got != n {
		t.Errorf("after kill -9: %d messages, want %d", got, n)
	}
	lost := killed.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
	o = small(lost)
	o.SetPID(3)
	s, _ = open(t, o)
	defer closeStore(t, s)
	if got := count(s); got != n {
		t.Errorf("a power loss later: %d messages, want %d", got, n)
	}
}
