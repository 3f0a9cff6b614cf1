package store_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// joinBatches are small batches of several connections: two to one queue, one with a
// refused message in front, one with a client batch.
func joinBatches(s *store.Store) []*store.Batch {
	batches := []*store.Batch{{}, {}, {}}
	add := func(b *store.Batch, queue int32, body string, group int32) {
		b.Add(s, s.Queue("orders", queue), draft("orders", queue, body, "KEYS", body), group)
	}
	add(batches[0], 0, "a0", 0)
	add(batches[0], 1, "a1", 0)
	batches[1].Add(s, s.Queue("orders", 0), draft("", 0, "refused"), 0)
	add(batches[1], 0, "b0", 0)
	add(batches[2], 1, "c0", 1)
	add(batches[2], 1, "c1", 1)
	return batches
}

// Batches that are appended together lie in the log as if they had come one by one.
func TestJoinedLikeSingle(t *testing.T) {
	logOf := func(together bool) []byte {
		mem := vfs.NewMem()
		o := small(mem)
		o.Now = func() time.Time { return time.UnixMilli(1_700_000_000_000) }
		s, _ := open(t, o)
		defer closeStore(t, s)
		put(t, s, "orders", 0, "first")
		batches := joinBatches(s)
		if together {
			if !s.AppendJoined(batches...) {
				t.Fatal("they were not appended")
			}
		} else {
			for _, b := range batches {
				s.AppendAll(b)
			}
		}
		want := []struct {
			b, i   int
			status store.Status
			offset record.QueueOffset
		}{{0, 0, store.PutOK, 1}, {0, 1, store.PutOK, 0}, {1, 0, store.MessageIllegal, 0}, {1, 1, store.PutOK, 2}, {2, 0, store.PutOK, 1}, {2, 1, store.PutOK, 2}}
		for _, w := range want {
			it := batches[w.b].Items[w.i]
			if it.Status != w.status || it.QueueOffset != w.offset {
				t.Errorf("together %v: item %d of %d: %v at %d, want %v at %d", together, w.i, w.b, it.Status, it.QueueOffset, w.status, w.offset)
			}
		}
		for _, b := range batches {
			last := b.Items[len(b.Items)-1]
			if got := last.Phys + record.PhysOffset(last.Size); b.End() != got {
				t.Errorf("together %v: a batch ends at %d and says %d", together, got, b.End())
			}
		}
		for queue, want := range map[int32]string{0: "first a0 b0 ", 1: "a1 c0 c1 "} {
			got := ""
			for _, v := range readAll(t, s, s.Lookup([]byte("orders"), queue)) {
				got += string(v.Body()) + " "
			}
			if got != want {
				t.Errorf("together %v: queue %d has %q, want %q", together, queue, got, want)
			}
		}
		if _, res := s.Query(nil, "orders", "c1", 9, 0, 1<<60, false); res.Count != 1 {
			t.Errorf("together %v: %d messages by key", together, res.Count)
		}
		b, err := vfs.ReadFile(mem, o.Dir+"/commitlog/00000000000000000000", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(logOf(true), logOf(false)) {
		t.Error("the logs differ")
	}
}

// A joint write that fails, even half-way, fails for all and leaves no trace.
func TestJoinedFailedWrite(t *testing.T) {
	for _, partial := range []int{0, 100, 400} {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		s, _ := open(t, small(inj))
		put(t, s, "orders", 0, "first")
		inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog/", Left: 1, Err: syscall.ENOSPC, Partial: partial})
		batches := joinBatches(s)
		if !s.AppendJoined(batches...) {
			t.Fatal("they were not tried")
		}
		for _, b := range batches {
			if it := b.Items[len(b.Items)-1]; it.Status != store.ServiceNotAvailable || it.Phys != 0 {
				t.Errorf("partial %d: %+v", partial, it)
			}
		}
		if s.AppendJoined(joinBatches(s)...) {
			t.Error("appended on a full disk")
		}
		s.CheckDisk()
		if it := put(t, s, "orders", 0, "second"); it.QueueOffset != 1 {
			t.Errorf("partial %d: queue offset %d, want 1", partial, it.QueueOffset)
		}
		if it := put(t, s, "orders", 1, "other"); it.QueueOffset != 0 {
			t.Errorf("partial %d: queue offset %d, want 0", partial, it.QueueOffset)
		}
		again, rec := open(t, small(mem.ProcessKillClone()))
		if got := readAll(t, again, again.Lookup([]byte("orders"), 0)); len(got) != 2 || rec.CutBytes != 0 {
			t.Errorf("partial %d: %d messages, %+v", partial, len(got), rec)
		}
		closeStore(t, again)
		closeStore(t, s)
	}
}

// What does not fit into the file goes by itself, to the next one.
func TestJoinedNoRoom(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem())) // files of 4 KiB
	defer closeStore(t, s)
	var batches []*store.Batch
	for i := range 5 {
		b := &store.Batch{}
		b.Add(s, s.Queue("orders", 0), draft("orders", 0, fmt.Sprintf("%01000d", i)), 0)
		batches = append(batches, b)
	}
	if s.AppendJoined(batches...) {
		t.Fatal("5 KB fitted into 4 KiB")
	}
	for i, b := range batches {
		s.AppendAll(b)
		if it := b.Items[0]; it.Status != store.PutOK || it.QueueOffset != record.QueueOffset(i) {
			t.Errorf("message %d: %+v", i, it)
		}
	}
}

// Many connections with a message each: every one is there once, in its connection's order.
func TestJoinedConcurrent(t *testing.T) {
	const senders, each = 16, 120
	mem := vfs.NewMem()
	s, _ := open(t, small(mem))
	s.Hope()
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			var b store.Batch
			for i := range each {
				b.Reset()
				b.Sender = uint64(sender + 1)
				b.Add(s, s.Queue("orders", int32(sender%3)), draft("orders", int32(sender%3), fmt.Sprintf("%d %d", sender, i)), 0)
				if s.AppendAll(&b); b.Items[0].Status != store.PutOK {
					t.Errorf("%v", b.Items[0].Status)
				}
			}
		})
	}
	wg.Wait()
	check := func(s *store.Store) {
		t.Helper()
		next, total := map[int]int{}, 0
		for queue := range int32(3) {
			for at, v := range readAll(t, s, s.Lookup([]byte("orders"), queue)) {
				var sender, i int
				if _, err := fmt.Sscan(string(v.Body()), &sender, &i); err != nil || i != next[sender] || v.QueueOffset() != record.QueueOffset(at) {
					t.Fatalf("queue %d at %d has %q with offset %d, want number %d", queue, at, v.Body(), v.QueueOffset(), next[sender])
				}
				next[sender]++
				total++
			}
		}
		if total != senders*each {
			t.Errorf("%d messages, want %d", total, senders*each)
		}
	}
	check(s)
	again, _ := open(t, small(mem.ProcessKillClone()))
	check(again)
	closeStore(t, again)
	closeStore(t, s)
}

// TestAlone: who has seen no other sender since his last batch does not wait for one.
func TestAlone(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	for i, c := range []struct {
		sender uint64
		want   bool
	}{{1, false}, {1, true}, {1, true}, {2, false}, {1, false}, {2, false}, {2, true}} {
		if s.Alone(c.sender) != c.want {
			t.Errorf("%d: alone is %v", i, !c.want)
		}
	}
}

// countedWrites counts the writes of the log.
type countedWrites struct {
	vfs.FS
	n atomic.Int64
}

func (c *countedWrites) OpenReadWrite(name string) (vfs.File, error) {
	return c.counted(name)(c.FS.OpenReadWrite(name))
}

func (c *countedWrites) Create(name string) (vfs.File, error) {
	return c.counted(name)(c.FS.Create(name))
}

func (c *countedWrites) counted(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err == nil && strings.Contains(name, "commitlog") {
			f = &countedFile{File: f, n: &c.n}
		}
		return f, err
	}
}

type countedFile struct {
	vfs.File
	n *atomic.Int64
}

func (f *countedFile) WriteAt(b []byte, off int64) (int, error) {
	f.n.Add(1)
	return f.File.WriteAt(b, off)
}

// Connections that send at one time share writes, although they share a pooled batch
// too: each takes the one that the last has just given back.
func TestJoinedFromPool(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // those that could run do so during a yield
	const senders, rounds = 8, 200
	fsys := &countedWrites{FS: vfs.NewMem()}
	o := small(fsys)
	o.CommitLogBytes = 1 << 20
	s, _ := open(t, o)
	defer closeStore(t, s)
	var mu sync.Mutex
	var pool []*store.Batch
	take := func() *store.Batch {
		mu.Lock()
		defer mu.Unlock()
		if len(pool) == 0 {
			return &store.Batch{}
		}
		b := pool[len(pool)-1]
		pool = pool[:len(pool)-1]
		return b
	}
	before := fsys.n.Load()
	for i := range rounds {
		var wg sync.WaitGroup
		for sender := range senders {
			wg.Go(func() {
				b := take()
				b.Sender = uint64(sender + 1)
				b.Add(s, s.Queue("orders", 0), draft("orders", 0, fmt.Sprint(i)), 0)
				if s.AppendAll(b); b.Items[0].Status != store.PutOK {
					t.Errorf("%v", b.Items[0].Status)
				}
				b.Reset()
				mu.Lock()
				pool = append(pool, b)
				mu.Unlock()
			})
		}
		wg.Wait()
	}
	if n := fsys.n.Load() - before; n > senders*rounds/2 {
		t.Errorf("%d writes for %d messages of %d connections", n, senders*rounds, senders)
	}
}
