package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

var allLost = vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}

// TestBatchQueueIsSafeWithItsFolder: the folder of all batch queues is made with the first of
// them, and its name has to be safe too.
func TestBatchQueueIsSafeWithItsFolder(t *testing.T) {
	mem := vfs.NewMem()
	s, _ := open(t, batchOptions(mem))
	putKeyed(t, s, "plain", "body")
	if err := s.Mark(); err != nil { // makes the other folders
		t.Fatal(err)
	}
	at := putBatches(t, s, 9)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	lost := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), allLost)
	if files := filesUnder(t, lost, "/store/batchconsumequeue"); len(files) == 0 {
		t.Error("a power loss after a mark takes the batch queues")
	}
	s, _ = open(t, batchOptions(lost))
	checkBatches(t, s, at)
	closeStore(t, s)
}

func extOptions(fsys vfs.FS) store.Options {
	o := small(fsys)
	o.QueueExt, o.QueueExtBytes = true, 100
	return o
}

func putTagged(t *testing.T, s *store.Store, n int) {
	t.Helper()
	for range n {
		put(t, s, "orders", 0, "b", "TAGS", fmt.Sprint("T", s.Queue("orders", 0).Max()))
	}
}

// checkTags: each unit has the tag code of its message.
func checkTags(t *testing.T, s *store.Store, n int) {
	t.Helper()
	units := s.Units(nil, s.Queue("orders", 0), 0, 100)
	if len(units) != n {
		t.Fatalf("%d units, want %d", len(units), n)
	}
	for i, u := range units {
		if u.TagsCode != record.TagsCode(fmt.Append(nil, "T", i)) {
			t.Errorf("unit %d has tag code %d", i, u.TagsCode)
		}
	}
}

// TestQueueExtOfKilledProcessIsMadeSafe: extension units that a killed process had written are
// taken as they are, and are safe before the next start says so.
func TestQueueExtOfKilledProcessIsMadeSafe(t *testing.T) {
	for _, lose := range []string{"", "/store/mqctl/progress"} {
		mem := vfs.NewMem()
		s, _ := open(t, extOptions(mem))
		putTagged(t, s, 3)
		if err := s.Mark(); err != nil {
			t.Fatal(err)
		}
		putTagged(t, s, 10)
		s.KeepOnce()
		killed := mem.ProcessKillClone()
		for _, name := range []string{"/store/mqctl/queues", lose} { // else all queues are synced by one call
			if name != "" {
				if err := killed.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, _ = open(t, extOptions(killed))
		checkTags(t, s, 13)
		s, _ = open(t, extOptions(killed.CrashClone(rand.New(rand.NewPCG(1, 1)), allLost)))
		checkTags(t, s, 13)
		closeStore(t, s)
	}
}

// TestShortQueueExt: a power loss may take the length of an extension file, or its units while
// the queue has theirs. The store starts, and finds the tags in the log.
func TestShortQueueExt(t *testing.T) {
	for _, size := range []int64{0, 30, 100} {
		mem := vfs.NewMem()
		s, _ := open(t, extOptions(mem))
		putTagged(t, s, 13)
		closeStore(t, s)
		for _, base := range []string{"00000000000000000000", "00000000000000000200"} {
			f, err := mem.OpenReadWrite("/store/consumequeue_ext/orders/0/" + base)
			if err == nil {
				err = f.Truncate(size)
			}
			if err == nil && size == 100 {
				_, err = f.WriteAt(make([]byte, 100), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"/store/mqctl/queues", "/store/mqctl/progress"} {
			if err := mem.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		s, _ = open(t, extOptions(mem))
		checkTags(t, s, 13)
		putTagged(t, s, 3)
		checkTags(t, s, 16)
		closeStore(t, s)
		for name, b := range filesUnder(t, mem, "/store/consumequeue_ext") {
			if len(b) != 100 {
				t.Errorf("%s has %d bytes", name, len(b))
			}
		}
	}
}

// A snapshot of the queues from before the last mark does not count where extensions are written:
// units that are safe would be written again, with addresses of extensions that are not.
func TestSafeUnitsKeepTheirTags(t *testing.T) {
	mem := vfs.NewMem()
	o := extOptions(mem)
	o.QueueExt = false
	s, _ := open(t, o)
	putTagged(t, s, 3)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	putTagged(t, s, 1)
	s.KeepOnce() // the snapshot; the next one would be due much later
	putTagged(t, s, 10)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	killed := mem.ProcessKillClone()
	s, _ = open(t, extOptions(killed))
	checkTags(t, s, 14)
	for seed := range uint64(30) {
		lost := killed.CrashClone(rand.New(rand.NewPCG(seed, 1)), vfs.CrashOptions{})
		s, _ := open(t, extOptions(lost))
		checkTags(t, s, 14)
		closeStore(t, s)
	}
	closeStore(t, s)
}
