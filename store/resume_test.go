package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// A start after kill -9 looks only at queues that got messages since the last snapshot,
// whether or not the dead process had ever synced them, and has the same as one that looks
// at all of them. What does not fit makes it look at all.
func TestStartAfterKillLooksAtFewQueues(t *testing.T) {
	mem := vfs.NewMem()
	o := batchOptions(mem)
	s, _ := open(t, o)
	for i := range 300 {
		put(t, s, fmt.Sprint("topic-", i%30), int32(i%3), "b", "KEYS", fmt.Sprint("k", i))
	}
	at := putBatches(t, s, 10)
	s.KeepOnce() // the first mark is not due: nothing was synced
	if b, err := vfs.ReadFile(mem, "/store/mqctl/progress", 1<<16); err != nil || !strings.Contains(string(b), "\ndispatched 0\n") {
		t.Fatalf("there was a mark: %s, %v", b, err)
	}
	for i := range 7 {
		put(t, s, "topic-4", 1, "b", "KEYS", fmt.Sprint("more", i))
		put(t, s, "new", 5, "b")
	}
	look := func(fsys vfs.FS) (all string, opened map[string]bool, rec store.Recovery) {
		t.Helper()
		opened = map[string]bool{}
		var mu sync.Mutex
		in := vfs.NewInjector(fsys)
		in.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpOpen && strings.Contains(path, "consumequeue/") {
				mu.Lock() // queues are loaded in parallel
				opened[path] = true
				mu.Unlock()
			}
		}
		o.FS = in
		s, rec := open(t, o)
		in.OnOp = nil
		for _, topic := range s.QueueTopics() {
			for _, q := range s.Queues(topic) {
				if q.Max() > 0 {
					all += fmt.Sprintln(topic, q.ID(), q.Min(), q.Max(), q.Next(), len(readAll(t, s, q)))
				}
			}
		}
		checkBatches(t, s, at)
		return all, opened, rec
	}
	slow := mem.ProcessKillClone()
	if err := slow.Remove("/store/mqctl/queues"); err != nil {
		t.Fatal(err)
	}
	want, opened, _ := look(slow)
	if len(opened) < 30 {
		t.Fatalf("only %d queue files were opened without a snapshot", len(opened))
	}
	killed := mem.ProcessKillClone()
	got, opened, rec := look(killed)
	if got != want {
		t.Errorf("after kill -9:\n%s\nwant\n%s", got, want)
	}
	if len(opened) > 2 || rec.Clean || len(rec.Notes) > 0 {
		t.Errorf("%d queue files were opened: %v; %+v", len(opened), opened, rec)
	}
	// Killed again right away: the start itself left a snapshot, and had synced all.
	if got, opened, _ = look(killed.ProcessKillClone()); got != want || len(opened) > 0 {
		t.Errorf("after the second kill: %v opened,\n%s\nwant\n%s", opened, got, want)
	}
	if got, _, _ = look(killed.CrashClone(rand.New(rand.NewPCG(1, 2)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})); got != want {
		t.Errorf("after a power loss behind the first start:\n%s\nwant\n%s", got, want)
	}
	if got, opened, _ = look(mem.CrashClone(rand.New(rand.NewPCG(1, 2)), vfs.CrashOptions{Data: vfs.FateKept, Names: vfs.FateKept})); got != want || len(opened) < 30 {
		t.Errorf("a snapshot from before a power loss was believed: %d opened", len(opened))
	}
	for name, change := range map[string]func(m *vfs.Mem) error{
		"file gone":   func(m *vfs.Mem) error { return m.Remove("/store/consumequeue/topic-4/1/00000000000000000000") },
		"folder gone": func(m *vfs.Mem) error { return m.RemoveAll("/store/consumequeue/topic-7/1") },
		"topic gone":  func(m *vfs.Mem) error { return m.RemoveAll("/store/consumequeue/topic-8") },
	} {
		m := mem.ProcessKillClone()
		if err := change(m); err != nil {
			t.Fatal(name, err)
		}
		if got, _, _ := look(m); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Nothing that is taken back comes back from a snapshot: a topic that was deleted, also
// if it was made again, and a process whose disk failed leaves none.
func TestSnapshotEndsWithWhatItTold(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	o := small(in)
	s, _ := open(t, o)
	for i := range 20 {
		put(t, s, "a", int32(i%2), "b")
		put(t, s, "b", 0, "b")
	}
	s.KeepOnce()
	if err := s.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", 1, "new")
	for _, keep := range []bool{false, true} {
		if keep {
			s.KeepOnce()
		}
		o.FS = mem.ProcessKillClone()
		again, _ := open(t, o)
		if q := again.Lookup([]byte("a"), 1); q == nil || q.Max() != 1 || q.Min() != 0 {
			t.Errorf("snapshot again %v: queue 1 of a is %+v", keep, q)
		}
		if q := again.Lookup([]byte("a"), 0); q != nil && q.Max() > 0 {
			t.Errorf("snapshot again %v: a deleted queue has %d messages", keep, q.Max())
		}
	}
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: "commitlog", Err: syscall.EIO})
	put(t, s, "b", 0, "more")
	s.FlushOnce()
	s.KeepOnce()
	if _, err := mem.Stat("/store/mqctl/queues"); err == nil {
		t.Error("a process that cannot trust its disk leaves a snapshot")
	}
}

// All queues are synced by one call of the system, and an error of it is as final as
// that of one file.
func TestQueuesAreSyncedTogether(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	syncs := map[vfs.Op]int{}
	in.OnOp = func(op vfs.Op, path string) {
		if op == vfs.OpSyncDisk || op == vfs.OpSync && strings.Contains(path, "consumequeue") {
			syncs[op]++
		}
	}
	o := small(in)
	s, _ := open(t, o)
	for i := range 200 {
		put(t, s, fmt.Sprint("topic-", i), 0, "b")
	}
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	if syncs[vfs.OpSyncDisk] != 1 || syncs[vfs.OpSync] != 0 {
		t.Errorf("syncs: %v", syncs)
	}
	after := mem.CrashClone(rand.New(rand.NewPCG(1, 2)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
	if dirs, err := after.Subdirs("/store/consumequeue"); err != nil || len(dirs) != 200 {
		t.Errorf("%d queues are safe, %v", len(dirs), err)
	}
	for i := range 200 {
		put(t, s, fmt.Sprint("topic-", i), 0, "b")
	}
	in.Fail(vfs.Fault{Op: vfs.OpSyncDisk, Err: syscall.EIO, Left: 1, Lose: true})
	if err := s.Mark(); !errors.Is(err, syscall.EIO) {
		t.Errorf("mark: %v", err)
	}
	if err := s.Mark(); err == nil || s.Writable() == nil {
		t.Error("a sync that failed was tried again")
	}
}

// Files of the log may go between the last snapshot and the kill: queues begin with their
// first message that is left.
func TestStartAfterKillWithAShorterLog(t *testing.T) {
	mem := vfs.NewMem()
	now := time.UnixMilli(1735689600000)
	o := batchOptions(mem)
	o.Now = func() time.Time { return now }
	s, _ := open(t, o)
	for i := range 120 {
		put(t, s, fmt.Sprint("topic-", i%4), 0, strings.Repeat("b", 100))
	}
	putBatches(t, s, 4)
	put(t, s, "early", 0, "b")
	s.KeepOnce()
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	note, err := vfs.ReadFile(mem, "/store/mqctl/queues", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(1000 * time.Hour)
	if c, err := s.CleanLog(t.Context(), false); err != nil || c.Files == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	killed := mem.ProcessKillClone()
	if err := vfs.WriteFile(killed, "/store/mqctl/queues", note); err != nil {
		t.Fatal(err)
	}
	o.FS = killed
	again, rec := open(t, o)
	if len(rec.Notes) > 0 {
		t.Error(rec.Notes)
	}
	for _, topic := range s.QueueTopics() {
		q := s.Queues(topic)[0]
		got := again.Queues(topic)[0]
		if got.Min() != q.Min() || got.Max() != q.Max() || !q.Batch() && len(readAll(t, again, got)) != int(q.Max()-q.Min()) {
			t.Errorf("%s is %d to %d, want %d to %d", topic, got.Min(), got.Max(), q.Min(), q.Max())
		}
	}
	closeStore(t, again)
}
