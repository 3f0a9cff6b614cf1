package store_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// told is what Apache has to find if the checkpoint says that it is safe.
type told struct {
	phys   record.PhysOffset
	millis int64
	file   string // of its queue
	unit   int64
	bytes  int64 // of one
}

// checkTold compares a folder with its checkpoint.
func checkTold(t *testing.T, at string, fsys vfs.FS, all []told) {
	t.Helper()
	c, _, err := checkpoint.Read(fsys, "/store/checkpoint")
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	for _, x := range all {
		if x.millis > c.LogicsMillis {
			continue
		}
		b, _ := vfs.ReadFile(fsys, x.file, 1<<20) // nil
		if from := x.unit * x.bytes; int64(len(b)) < from+x.bytes || binary.BigEndian.Uint64(b[from:]) != uint64(x.phys) {
			t.Errorf("%s: the checkpoint says that queues are safe up to %d, but unit %d of %s does not lead to the message of %d", at, c.LogicsMillis, x.unit, x.file, x.millis)
		}
	}
}

// diesWithin opens the store again and again, each time as if the process, or the machine, died before the
// next operation of the disk; check is called with what is left. The result says how often.
func diesWithin(t *testing.T, o store.Options, mem *vfs.Mem, check func(at string, left *vfs.Mem)) (deaths int) {
	t.Helper()
	inj := vfs.NewInjector(mem)
	o.FS = inj
	inj.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() {
			return
		}
		deaths++
		check(fmt.Sprintf("killed before %s %s", op, path), mem.ProcessKillClone())
		check(fmt.Sprintf("power loss before %s %s", op, path), mem.CrashClone(rand.New(rand.NewPCG(1, 1)), allLost))
		check(fmt.Sprintf("power loss before %s %s, names kept", op, path),
			mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateKept}))
	}
	s, _ := open(t, o)
	inj.OnOp = nil
	closeStore(t, s)
	return deaths
}

// A recovery that has to make a queue again takes back what the checkpoint says of queues before
// the first file goes: whoever dies then leaves no folder of which Apache believes too much.
func TestCheckpointIsTakenBackBeforeQueueFilesGo(t *testing.T) {
	const queueFile = "/store/consumequeue/orders/0/00000000000000000000"
	for _, c := range []struct {
		name   string
		damage bool // the first message is lost
		batch  bool
		first  int64 // a unit before it need not be there any more
	}{
		{"the first message is lost", true, false, 1},
		{"a batch queue", false, true, 0},
	} {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		o := small(inj)
		clock := time.UnixMilli(1_700_000_000_000)
		o.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
		file, size := queueFile, int64(consumequeue.UnitBytes)
		if c.batch {
			o.BatchTopic = func(string) bool { return true }
			o.BatchQueueBytes = 20 * consumequeue.BatchUnitBytes
			file, size = "/store/batchconsumequeue/orders/0/00000000000000000000", consumequeue.BatchUnitBytes
		}
		s, _ := open(t, o)
		put(t, s, "other", 0, "x") // the next start makes the names safe
		closeStore(t, s)
		s, _ = open(t, o)
		var all []told
		at := int64(s.Positions().Max)
		for n := range int64(5) {
			it := put(t, s, "orders", 0, fmt.Sprint("message ", n))
			if n >= c.first {
				all = append(all, told{it.Phys, it.StoreMillis, file, n, size})
			}
		}
		// The mark gets as far as the checkpoint, so the next start makes the queue again from the
		// start of the log.
		inj.Fail(vfs.Fault{Op: vfs.OpRename, Path: "mqctl/progress", Err: syscall.EIO, Left: 1})
		if err := s.Mark(); err == nil {
			t.Fatal("the mark noted its progress")
		}
		left := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), allLost)
		checkTold(t, c.name, left, all)
		if cp, _, _ := checkpoint.Read(left, "/store/checkpoint"); cp.LogicsMillis < all[len(all)-1].millis {
			t.Fatalf("%s: the checkpoint says %+v", c.name, cp)
		}
		if c.batch { // all queues are compared with the log, and batch queues are made anew
			if err := left.Remove("/store/mqctl/progress"); err != nil {
				t.Fatal(err)
			}
		}
		if c.damage {
			f, err := left.OpenReadWrite("/store/commitlog/00000000000000000000")
			if err == nil {
				_, err = f.WriteAt([]byte("damage"), at+2)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		deaths := diesWithin(t, o, left, func(at string, left *vfs.Mem) {
			checkTold(t, c.name+", "+at, left, all)
			if t.Failed() {
				t.FailNow()
			}
		})
		if deaths < 10 {
			t.Errorf("%s: only %d operations", c.name, deaths)
		}
		checkTold(t, c.name+", in the end", left, all)
	}
}

// A cut of the log takes back what the checkpoint says before it changes anything.
func TestCheckpointIsTakenBackBeforeACut(t *testing.T) {
	for _, aside := range []bool{false, true} {
		f := &follower{t: t, rng: rand.New(rand.NewPCG(9, 9))}
		f.grow(30)
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		s, _ := open(t, replica(inj))
		if n, err := s.AppendRaw(f.truth); err != nil || n != len(f.truth) {
			t.Fatal(n, err)
		}
		if err := s.Mark(); err != nil {
			t.Fatal(err)
		}
		f.end = int64(len(f.truth))
		starts := f.starts()
		at := starts[len(starts)/2]
		first := s.TimeOf(record.PhysOffset(at))
		changes := 0
		inj.OnOp = func(op vfs.Op, path string) {
			if !op.Changes() || op == vfs.OpMkdir || !underAny(path, "/store/commitlog/", "/store/consumequeue/", "/store/index/", "/store/mqctl/log-") {
				return
			}
			changes++
			c, _, err := checkpoint.Read(mem, "/store/checkpoint")
			if err != nil || c.LogicsMillis > 0 || c.IndexMillis > 0 || c.PhysMillis >= first || aside && c.PhysMillis > 0 {
				t.Fatalf("aside %v, before %s %s: the checkpoint is %+v (%v), the first message that goes is of %d", aside, op, path, c, err, first)
			}
		}
		var err error
		if aside {
			_, err = s.SetAside()
		} else {
			_, err = s.TruncateTo(record.PhysOffset(at))
		}
		inj.OnOp = nil
		if err != nil || changes == 0 {
			t.Errorf("aside %v: %v, %d changes", aside, err, changes)
		}
		closeStore(t, s)
	}
}

func underAny(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path, dir) })
}
