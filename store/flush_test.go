package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// running opens a store and runs it until the test ends.
func running(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, _ := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() { // before the bubble ends
		cancel()
		wg.Wait()
	})
	synctest.Wait()
	return s
}

// burst appends n messages and returns the batch.
func burst(s *store.Store, n int) *store.Batch {
	b := &store.Batch{}
	for range n {
		b.Add(s, s.Queue("orders", 0), draft("orders", 0, "body", "KEYS", "k"), 0)
	}
	s.AppendAll(b)
	return b
}

func TestSyncFlushGroupsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		syncs := 0
		inj := vfs.NewInjector(vfs.NewMem())
		o := small(inj)
		o.SyncFlush = true
		o.CommitLogBytes = 1 << 20
		s := running(t, o)
		put(t, s, "orders", 1, "the first segment is made and synced")
		inj.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpSync && strings.Contains(path, "commitlog/") {
				syncs++
				<-gate
			}
		}
		q := s.Queue("orders", 0)
		first := make(chanWaiter, 1)
		s.WaitFlushed(burst(s, 1).End(), first)
		synctest.Wait() // the flusher hangs in the first sync
		var rest [20]chanWaiter
		for i := range rest {
			rest[i] = make(chanWaiter, 1)
			s.WaitFlushed(burst(s, 1).End(), rest[i])
		}
		if q.Max() != 0 || q.Next() != 21 {
			t.Errorf("before the sync: visible to %d, assigned to %d", q.Max(), q.Next())
		}
		gate <- struct{}{}
		synctest.Wait()
		if st := <-first; st != store.PutOK || q.Max() != 1 {
			t.Errorf("first: %v, visible to %d", st, q.Max())
		}
		gate <- struct{}{}
		for i := range rest {
			if st := <-rest[i]; st != store.PutOK {
				t.Errorf("waiter %d: %v", i, st)
			}
		}
		if syncs != 2 || q.Max() != 21 {
			t.Errorf("%d syncs for 21 waiters, visible to %d", syncs, q.Max())
		}
		inj.OnOp = nil
		done := make(chanWaiter, 1)
		s.WaitFlushed(s.Positions().Flushed, done)
		if st := <-done; st != store.PutOK {
			t.Errorf("what is flushed already: %v", st)
		}
		close(gate)
		closeStore(t, s)
	})
}

func TestSyncFlushTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		inj := vfs.NewInjector(vfs.NewMem())
		o := small(inj)
		o.SyncFlush = true
		o.CommitLogBytes = 1 << 20
		s := running(t, o)
		put(t, s, "orders", 1, "the first segment is made and synced")
		inj.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpSync && strings.Contains(path, "commitlog/") {
				<-gate
			}
		}
		begin := time.Now()
		early, late := make(chanWaiter, 2), make(chanWaiter, 2)
		s.WaitFlushed(burst(s, 1).End(), early)
		pass(2 * time.Second) // virtual time
		s.WaitFlushed(burst(s, 1).End(), late)
		if st := <-early; st != store.FlushDiskTimeout || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %v", st, time.Since(begin))
		}
		if st := <-late; st != store.FlushDiskTimeout || time.Since(begin) != 7*time.Second {
			t.Errorf("%v after %v", st, time.Since(begin))
		}
		close(gate)
		synctest.Wait()
		if q := s.Lookup([]byte("orders"), 0); q.Max() != 2 {
			t.Errorf("visible to %d after all", q.Max())
		}
		if len(early)+len(late) != 0 {
			t.Error("a waiter was answered twice")
		}
		closeStore(t, s)
	})
}

// A failed sync is never believed again: the store stays read-only, reads go
// on, and the next start finds what is there.
func TestFailedSync(t *testing.T) {
	for _, sync := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			inj := vfs.NewInjector(mem)
			o := small(inj)
			o.SyncFlush = sync
			s := running(t, o)
			put(t, s, "orders", 0, "one")
			inj.Fail(vfs.Fault{Op: vfs.OpSync, Path: "commitlog/", Left: 1, Err: syscall.EIO})
			b := burst(s, 1)
			done := make(chanWaiter, 1)
			s.WaitFlushed(b.End(), done)
			if st := <-done; st != store.ServiceNotAvailable {
				t.Errorf("waiter: %v", st)
			}
			if err := s.Writable(); !errors.Is(err, syscall.EIO) {
				t.Errorf("writable: %v", err)
			}
			if b := burst(s, 1); b.Items[0].Status != store.ServiceNotAvailable {
				t.Errorf("append after a failed sync: %v", b.Items[0].Status)
			}
			s.WaitFlushed(b.End(), done)
			if st := <-done; st != store.ServiceNotAvailable {
				t.Errorf("waiter after a failed sync: %v", st)
			}
			if _, res := s.Read(nil, s.Queue("orders", 0), 0, 1, nil); res.Status != store.Found {
				t.Errorf("read: %v", res.Status)
			}
			if err := s.Close(); err == nil {
				t.Error("close says nothing of the failure")
			}
			inj.Heal()
			s, rec := open(t, o)
			if rec.Clean {
				t.Error("abort was removed")
			}
			put(t, s, "orders", 0, "two")
			closeStore(t, s)
		})
	}
}

func TestAsyncFlushAndKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s := running(t, small(mem))
		b := burst(s, 3)
		if p := s.Positions(); p.Flushed != 0 || p.Max != b.End() || p.Dispatched != b.End() {
			t.Errorf("after the append: %+v", p)
		}
		pass(501 * time.Millisecond)
		synctest.Wait()
		if p := s.Positions(); p.Flushed != b.End() {
			t.Errorf("after 500 ms: %+v", p)
		}
		if _, err := mem.Stat("/store/consumequeue/orders/0/00000000000000000000"); err == nil {
			t.Error("the queue is written too early to save anything")
		}
		pass(time.Second)
		synctest.Wait()
		e, err := mem.Stat("/store/consumequeue/orders/0/00000000000000000000")
		if err != nil || e.Size != 400 {
			t.Errorf("queue file after a second: %+v, %v", e, err)
		}
		pass(10 * time.Second)
		synctest.Wait()
		if b, err := vfs.ReadFile(mem, "/store/mqctl/progress", 1000); err != nil || !strings.Contains(string(b), "state running") {
			t.Errorf("progress after ten seconds: %q, %v", b, err)
		}
		closeStore(t, s)
		if b, err := vfs.ReadFile(mem, "/store/mqctl/progress", 1000); err != nil || !strings.Contains(string(b), "state clean") {
			t.Errorf("progress after the end: %q, %v", b, err)
		}
		if _, err := mem.Stat("/store/abort"); err == nil {
			t.Error("abort is still there")
		}
	})
}

func TestDiskFullHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := small(mem)
		o.CommitLogBytes = 1 << 20
		s := running(t, o)
		put(t, s, "orders", 0, "one")
		u, err := mem.Usage("/store")
		if err != nil {
			t.Fatal(err)
		}
		used := u.Total - u.Free
		mem.SetCapacity(used * 100 / 95)
		pass(6 * time.Second)
		if err := s.Writable(); err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("at 95 percent: %v", err)
		}
		if b := burst(s, 1); b.Items[0].Status != store.ServiceNotAvailable {
			t.Errorf("append: %v", b.Items[0].Status)
		}
		if log, queues := s.DiskRatio(); log < 0.9 || queues < 0.9 {
			t.Errorf("ratio: %v, %v", log, queues)
		}
		r := store.DefaultRetention()
		r.FullRatio = 99
		s.SetRetention(r)
		pass(6 * time.Second)
		if got := s.Retention().FullRatio; got != 90 || s.Writable() == nil {
			t.Errorf("99 percent are in effect as %d, not 90", got)
		}
		mem.SetCapacity(used * 100 / 87)
		pass(6 * time.Second)
		if s.Writable() == nil {
			t.Error("sends are taken again above 85 percent")
		}
		mem.SetCapacity(0)
		pass(6 * time.Second)
		if it := put(t, s, "orders", 0, "two"); it.QueueOffset != 1 {
			t.Errorf("queue offset %d, want 1", it.QueueOffset)
		}
		closeStore(t, s)
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
