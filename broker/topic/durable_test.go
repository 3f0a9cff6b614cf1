package topic_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

// Whatever operation of the disk a crash comes before, what was acknowledged
// is there afterwards, and what was being changed is old or new.
func TestCrashKeepsAcknowledged(t *testing.T) {
	t.Run("small", func(t *testing.T) { crashKeepsAcknowledged(t, 0) })
	t.Run("journal", func(t *testing.T) {
		if raceDetector {
			t.Skip("runs without the race detector: it has one goroutine")
		}
		crashKeepsAcknowledged(t, 450)
	})
}

// crashKeepsAcknowledged works on a table that has some topics before.
func crashKeepsAcknowledged(t *testing.T, before int) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	table := load(t, options(in))
	for i := range before {
		if _, err := table.Put(topic.Defaults(fmt.Sprintf("was-there-before-%050d", i))); err != nil {
			t.Fatal(err)
		}
	}
	seeds := uint64(4)
	if before > 0 {
		seeds = 1 // each look loads all of it
	}
	acked := map[string]int32{}
	var doing string
	var doingQueues int32 // -1: deletion
	points := 0
	check := func(clone *vfs.Mem, op vfs.Op, path string) {
		after := load(t, options(clone))
		for name, queues := range acked {
			if name == doing {
				continue
			}
			if c := after.Get(name); c == nil || c.WriteQueueNums != queues {
				t.Fatalf("crash before %s %s: %s is %v, acknowledged with %d queues", op, path, name, c, queues)
			}
		}
		old, had := acked[doing]
		switch c := after.Get(doing); {
		case c == nil && had && doingQueues >= 0:
			t.Fatalf("crash before %s %s: %s is gone", op, path, doing)
		case c != nil && c.WriteQueueNums != old && c.WriteQueueNums != doingQueues:
			t.Fatalf("crash before %s %s: %s has %d queues, neither %d nor %d", op, path, doing, c.WriteQueueNums, old, doingQueues)
		case c != nil && !had && c.WriteQueueNums != doingQueues:
			t.Fatalf("crash before %s %s: %s came from nowhere", op, path, doing)
		}
	}
	in.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() {
			return
		}
		points++
		for seed := range seeds {
			check(mem.CrashClone(rand.New(rand.NewPCG(uint64(points), seed)), vfs.CrashOptions{}), op, path)
		}
		check(mem.ProcessKillClone(), op, path)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 25 {
		doing = fmt.Sprintf("t%d", rng.IntN(6))
		if rng.IntN(4) == 0 {
			doingQueues = -1
			if _, err := table.Delete(doing); err != nil {
				t.Fatal(err)
			}
			delete(acked, doing)
			continue
		}
		doingQueues = int32(i + 1)
		c := topic.Defaults(doing)
		c.WriteQueueNums = doingQueues
		if _, err := table.Put(c); err != nil {
			t.Fatal(err)
		}
		acked[doing] = doingQueues
	}
	if points < 30 {
		t.Errorf("only %d points were cut", points)
	}
}

// A change that cannot be saved is an error, is not visible, and does not come
// back with the next one.
func TestFailedSaveLeavesNoTrace(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	o := options(in)
	told := 0
	o.Changed = func([]string) { told++ }
	table := load(t, o)
	if _, err := table.Put(topic.Defaults("a")); err != nil {
		t.Fatal(err)
	}
	_, before := table.All()
	in.Fail(vfs.Fault{Op: vfs.OpSync, Err: syscall.ENOSPC})
	b := topic.Defaults("b")
	if _, err := table.Put(b); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "b") {
		t.Errorf("put on a full disk: %v", err)
	}
	if c, err := table.AutoCreateFrom("c", "TBW102", 4, 0); err == nil || c != nil {
		t.Errorf("auto-create on a full disk: %v %v", c, err)
	}
	if _, err := table.Delete("a"); err == nil {
		t.Error("delete on a full disk succeeded")
	}
	if table.Get("a") == nil || table.Get("b") != nil || table.Get("c") != nil {
		t.Error("a failed change is visible")
	}
	if _, v := table.All(); v != before || told != 1 {
		t.Errorf("version %+v was %+v, told %d times", v, before, told)
	}
	in.Heal()
	if changed, err := table.Put(topic.Defaults("d")); err != nil || !changed {
		t.Fatal(changed, err)
	}
	again := load(t, options(in))
	if again.Get("a") == nil || again.Get("b") != nil || again.Get("c") != nil || again.Get("d") == nil {
		t.Error("after the disk healed the file does not equal what was acknowledged")
	}
	if _, v := table.All(); v.Counter <= before.Counter {
		t.Errorf("version %+v did not step from %+v", v, before)
	}
}

func TestConcurrentChanges(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	var saves atomic.Int32
	in.OnOp = func(op vfs.Op, path string) {
		if op == vfs.OpRename && strings.HasSuffix(path, "topics.json") {
			saves.Add(1)
		}
	}
	table := load(t, options(in))
	_, v0 := table.All()
	const workers, each = 64, 8
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("t-%d-%d", w, i)
				if _, err := table.Put(topic.Defaults(name)); err != nil {
					t.Error(err)
				}
				if table.GetBytes([]byte(name)) == nil {
					t.Errorf("%s was acknowledged and is not visible", name)
				}
				if c, err := table.AutoCreateFrom("shared", "TBW102", 4, 0); err != nil || c == nil {
					t.Errorf("shared: %v %v", c, err)
				}
				if i == 0 {
					table.All()
					table.JSON()
				}
			}
		})
	}
	wg.Wait()
	_, v := table.All()
	if want := v0.Counter + workers*each + 1; v.Counter != want {
		t.Errorf("version %d after %d changes, want %d", v.Counter, workers*each+1, want)
	}
	if got := saves.Load(); got > workers*each/2 {
		t.Errorf("%d changes of %d workers took %d saves: they did not share them", workers*each, workers, got)
	}
	again := load(t, options(mem))
	if again.Len() != table.Len() {
		t.Errorf("%d topics on disk, %d in memory", again.Len(), table.Len())
	}
}

func TestTenThousandTopics(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	o := onDisk(t)
	table := load(t, o)
	start := time.Now()
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < 10_000; i += 64 {
				if _, err := table.AutoCreateFrom(fmt.Sprintf("topic-%d", i), "TBW102", 4, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	d := time.Since(start)
	t.Logf("10,000 topics in %v", d)
	if d > time.Minute {
		t.Error("that is too long")
	}
	again, err := topic.Load(o)
	if err != nil || again.Len() != table.Len() || table.Len() < 10_000 {
		t.Errorf("%d topics in memory, on disk: %v", table.Len(), err)
	}
}

func onDisk(t testing.TB) topic.Options {
	o := options(vfs.OS{})
	o.Dir = filepath.Join(t.TempDir(), "config")
	return o
}
