package store_test

import (
	"fmt"
	"testing"

	"mqctl/store/vfs"
)

// Files of queues that were removed or cut while the broker was stopped are made again
// from the log, whichever they are and however the broker ended.
func TestQueueFilesCutWhileStopped(t *testing.T) {
	const messages, unitsInFile = 70, 20
	for _, batch := range []bool{false, true} {
		for _, clean := range []bool{true, false} {
			for file := range 4 {
				for _, size := range []int64{-1, 0, 20, 200} {
					t.Run(fmt.Sprintf("batch=%v clean=%v file=%d size=%d", batch, clean, file, size), func(t *testing.T) {
						mem := vfs.NewMem()
						o, topic := small(mem), "orders"
						dir, whole := "/store/consumequeue/orders/0/", o.QueueFileBytes
						if batch {
							o, topic = batchOptions(mem), "bundles"
							o.BatchQueueBytes = unitsInFile * 46
							dir, whole = "/store/batchconsumequeue/bundles/0/", o.BatchQueueBytes
						}
						s, _ := open(t, o)
						for i := range messages {
							put(t, s, topic, 0, fmt.Sprint(i))
						}
						if clean {
							closeStore(t, s)
						} else {
							if err := s.Mark(); err != nil {
								t.Fatal(err)
							}
							mem = mem.ProcessKillClone()
							o.FS = mem
						}
						name := fmt.Sprintf("%s%020d", dir, int64(file)*whole)
						if size < 0 {
							if err := mem.Remove(name); err != nil {
								t.Fatal(err)
							}
						} else {
							truncate(t, mem, name, size)
						}
						again, _ := open(t, o)
						defer closeStore(t, again)
						q := again.Lookup([]byte(topic), 0)
						if q == nil || q.Min() != 0 || q.Max() != messages {
							t.Fatalf("queue %v", q)
						}
						for i, v := range readAll(t, again, q) {
							if string(v.Body()) != fmt.Sprint(i) {
								t.Fatalf("message %d is %q", i, v.Body())
							}
						}
						if it := put(t, again, topic, 0, "new"); it.QueueOffset != messages {
							t.Errorf("the next message is number %d", it.QueueOffset)
						}
					})
				}
			}
		}
	}
}

func truncate(t *testing.T, fsys vfs.FS, name string, size int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A log that was cut after a clean stop, within its last record, has a torn end as after
// a crash: the record is not served, a copy is kept, and queues end before it.
func TestLogCutAfterCleanStop(t *testing.T) {
	mem := vfs.NewMem()
	s, _ := open(t, small(mem))
	for i := range 5 {
		put(t, s, "orders", 0, fmt.Sprint(i), "KEYS", "k", "LONG", "0123456789012345678901234567890123456789")
	}
	last := put(t, s, "orders", 0, "torn", "KEYS", "torn", "LONG", "0123456789012345678901234567890123456789")
	closeStore(t, s)
	truncate(t, mem, "/store/commitlog/00000000000000000000", int64(last.Phys)+int64(last.Size)-30)
	again, rec := open(t, small(mem))
	defer closeStore(t, again)
	if rec.CutBytes == 0 || rec.Max != last.Phys {
		t.Errorf("the log ends at %d with %d bytes cut, want %d: %+v", rec.Max, rec.CutBytes, last.Phys, rec.Findings)
	}
	if n := len(readAll(t, again, again.Lookup([]byte("orders"), 0))); n != 5 {
		t.Errorf("%d messages", n)
	}
	if _, res := again.Query(nil, "orders", "torn", 9, 0, 1<<60, false); res.Count != 0 {
		t.Error("the torn message is found by its key")
	}
	if it := put(t, again, "orders", 0, "next"); it.QueueOffset != 5 || it.Phys != last.Phys {
		t.Errorf("%+v", it)
	}
}
