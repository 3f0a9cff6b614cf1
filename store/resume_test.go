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
	var mark func() error // of the store that was opened last
	synced := 0           // by its start
	look := func(fsys vfs.FS) (all string, opened map[string]bool, rec store.Recovery) {
		t.Helper()
		opened = map[string]bool{}
		var mu sync.Mutex
		in := vfs.NewInjector(fsys)
		synced = 0
		in.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpSyncDisk || op == vfs.OpSync && strings.Contains(path, "/commitlog/") {
				synced++
			}
			if op == vfs.OpOpen && strings.Contains(path, "consumequeue/") {
				mu.Lock() // queues are loaded in parallel
				opened[path] = true
				mu.Unlock()
			}
		}
		o.FS = in
		s, rec := open(t, o)
		mark = s.Mark
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
	if synced > 0 {
		t.Errorf("the start waited for %d syncs of what the dead process may have left by the gigabyte", synced)
	}
	first := mark
	if len(opened) > 2 || rec.Clean || len(rec.Notes) > 0 {
		t.Errorf("%d queue files were opened: %v; %+v", len(opened), opened, rec)
	}
	// Killed again right away: the start itself left a snapshot.
	if got, opened, _ = look(killed.ProcessKillClone()); got != want || len(opened) > 0 {
		t.Errorf("after the second kill: %v opened,\n%s\nwant\n%s", opened, got, want)
	}
	if err := first(); err != nil { // the first mark syncs what the dead process wrote too
		t.Fatal(err)
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
	if dirs, _, err := after.Split("/store/consumequeue"); err != nil || len(dirs) != 200 {
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
	o.Steady = o.Now
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

// hold makes operations wait until the test lets them go on.
type hold struct {
	op      vfs.Op
	path    string
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newHold(op vfs.Op, path string) *hold {
	return &hold{op: op, path: path, reached: make(chan struct{}), open: make(chan struct{})}
}

func (h *hold) before(op vfs.Op, path string) {
	if op != h.op || !strings.Contains(path, h.path) {
		return
	}
	held := false
	h.once.Do(func() { held = true })
	if held {
		close(h.reached)
		<-h.open
	}
}

// A mark may wait for the disk as long as it likes: what is written meanwhile is noted all
// the same, so that a start after kill -9 reads little of the log.
func TestSnapshotsGoOnWhileAMarkWaits(t *testing.T) {
	for _, at := range []*hold{
		newHold(vfs.OpSyncDisk, ""), newHold(vfs.OpSync, "/commitlog/"), newHold(vfs.OpSync, "/index/"), newHold(vfs.OpSync, "/checkpoint"),
	} {
		t.Run(fmt.Sprint(at.op, at.path), func(t *testing.T) {
			mem := vfs.NewMem()
			in := vfs.NewInjector(mem)
			o := small(in)
			o.SetSyncAlone(-1)
			s, _ := open(t, o)
			put(t, s, "early", 0, "b", "KEYS", "k")
			s.KeepOnce()
			in.OnOp = at.before
			marked := make(chan error, 1)
			go func() { marked <- s.Mark() }()
			<-at.reached
			for i := range 200 {
				put(t, s, "orders", int32(i%4), "body", "KEYS", fmt.Sprint("k", i))
				s.WhileDispatchBusy(func() {})
			}
			s.WriteQueues() // new queues get their files
			s.NoteOnce()
			end := noted(t, mem)
			if want := int64(s.Positions().Max); end != want {
				t.Errorf("the snapshot vouches for %d, want %d", end, want)
			}
			o.FS = mem.ProcessKillClone()
			again, rec := open(t, o)
			if got := again.Lookup([]byte("orders"), 3); got == nil || got.Max() != 50 || len(rec.Notes) > 0 {
				t.Errorf("after kill -9: %+v, %v", got, rec.Notes)
			}
			closeStore(t, again)
			close(at.open)
			if err := <-marked; err != nil {
				t.Error(err)
			}
			closeStore(t, s)
		})
	}
}

// noted is up to where the snapshot of a running store vouches for the queues.
func noted(t *testing.T, fsys vfs.FS) int64 {
	t.Helper()
	b, err := vfs.ReadFile(fsys, "/store/mqctl/queues", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var first, end int64
	_, line, _ := strings.Cut(string(b), "\nlog ")
	if _, err := fmt.Sscanf(line, "%d %d", &first, &end); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return end
}

// A queue whose next file is still being made keeps nothing from being noted but what comes
// behind its first unit without a file.
func TestSnapshotEndsBeforeWhatHasNoFile(t *testing.T) {
	mem := vfs.NewMem()
	o := batchOptions(mem)
	s, _ := open(t, o)
	put(t, s, "early", 0, "b")
	for i := range 20 { // 400 bytes of units: one file
		put(t, s, "a", 0, "b", "KEYS", fmt.Sprint("k", i))
	}
	s.KeepOnce()
	full := noted(t, mem)
	for i := range 5 {
		put(t, s, "b", 0, "b", "KEYS", fmt.Sprint("m", i))
	}
	s.WriteQueues()
	for i := range 5 {
		put(t, s, "b", 0, "b", "KEYS", fmt.Sprint("l", i))
	}
	want := int64(s.Positions().Max)
	for range 5 {
		put(t, s, "a", 0, "b")
		put(t, s, "b", 0, "b")
	}
	if err := s.DeleteTopic("early"); err != nil { // with it goes the old snapshot: the next one is due
		t.Fatal(err)
	}
	s.NoteOnce()
	if got := noted(t, mem); got != want || full >= want {
		t.Errorf("the snapshot vouches for %d, want %d", got, want)
	}
	o.FS = mem.ProcessKillClone()
	again, rec := open(t, o)
	for topic, n := range map[string]int{"a": 25, "b": 15} {
		q := again.Lookup([]byte(topic), 0)
		if q == nil || int(q.Max()) != n || len(readAll(t, again, q)) != n {
			t.Errorf("%s has %+v, want %d messages", topic, q, n)
		}
	}
	for _, key := range []string{"k0", "k19", "m4", "l0", "l4"} {
		topic := "b"
		if key[0] == 'k' {
			topic = "a"
		}
		if _, res := again.Query(nil, topic, key, 8, 0, 1<<60, false); res.Count != 1 {
			t.Errorf("%d messages with the key %s", res.Count, key)
		}
	}
	if len(rec.Notes) > 0 {
		t.Error(rec.Notes)
	}
	closeStore(t, again)
}
