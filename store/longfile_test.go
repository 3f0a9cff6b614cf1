package store_test

import (
	"errors"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// A queue file that somebody made longer after a clean stop keeps no later start from
// opening the folder; but files of another size than the configured one do.
func TestLongQueueFile(t *testing.T) {
	const name = "/store/consumequeue/orders/0/00000000000000000400"
	mem := vfs.NewMem()
	o := batchOptions(mem)
	o.QueueFileBytes, o.BatchQueueBytes = 400, 0
	s, _ := open(t, o)
	for range 45 {
		put(t, s, "orders", 0, "b")
	}
	put(t, s, "bills", 0, "b")
	closeStore(t, s)
	for _, extra := range []string{"x", strings.Repeat("garbage", 30), string(make([]byte, 400))} {
		m := mem.ProcessKillClone()
		f, err := m.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(extra), 400); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		o.FS = m
		s, _ := open(t, o)
		put(t, s, "orders", 0, "b")
		o.FS = m.ProcessKillClone() // now every queue is looked at
		s, rec := open(t, o)
		if q := s.Lookup([]byte("orders"), 0); q.Max() != 46 || len(readAll(t, s, q)) != 46 {
			t.Errorf("%d extra bytes: %d messages", len(extra), q.Max())
		}
		if e, err := o.FS.Stat(name); err != nil || e.Size != 400 || len(rec.Findings) != 1 || rec.Findings[0].Kind != store.StrangeFile {
			t.Errorf("%d extra bytes: the file has %d, %v", len(extra), e.Size, rec.Findings)
		}
		closeStore(t, s)
	}
	// Files of 400 bytes, opened with another setting after they were full.
	o.FS, o.QueueFileBytes = mem.ProcessKillClone(), 200
	if err := o.FS.Remove("/store/mqctl/queues"); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if _, _, err := store.Open(o); !errors.As(err, &damaged) || !strings.Contains(damaged.Try, "mappedFileSizeConsumeQueue") {
		t.Errorf("another size: %v", err)
	}
}
