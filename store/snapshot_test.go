package store_test

import (
	"fmt"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// A start after a clean stop takes the queues from the snapshot, and gets the same as
// one that looks at them; where the folder is not as it was left, it does look.
func TestSnapshotOfQueues(t *testing.T) {
	mem := vfs.NewMem()
	o := batchOptions(mem)
	s, _ := open(t, o)
	for i := range 300 {
		put(t, s, fmt.Sprint("topic-", i%7), int32(i%3), "b", "KEYS", fmt.Sprint("k", i))
	}
	at := putBatches(t, s, 10)
	s.Queue("only-a-handle", 3)
	if err := s.DeleteTopic("topic-3"); err != nil {
		t.Fatal(err)
	}
	type bounds struct{ min, max, next record.QueueOffset }
	look := func(fsys vfs.FS) map[string]bounds {
		t.Helper()
		o.FS = fsys
		s, rec := open(t, o)
		if len(rec.Notes) != 0 {
			t.Log(rec.Notes)
		}
		out := map[string]bounds{}
		for _, topic := range s.QueueTopics() {
			for _, q := range s.Queues(topic) {
				if q.Max() > 0 {
					out[fmt.Sprint(topic, "-", q.ID())] = bounds{q.Min(), q.Max(), q.Next()}
				}
				readAll(t, s, q)
			}
		}
		checkBatches(t, s, at)
		closeStore(t, s)
		return out
	}
	closeStore(t, s)
	opened := 0
	in := vfs.NewInjector(mem.ProcessKillClone())
	in.OnOp = func(op vfs.Op, path string) {
		if op == vfs.OpOpen && strings.Contains(path, "consumequeue") {
			opened++
		}
	}
	o.FS = in
	s, _ = open(t, o)
	if opened != 0 {
		t.Errorf("%d queue files were opened", opened)
	}
	closeStore(t, s)
	want := look(in)
	if len(want) == 0 {
		t.Fatal("nothing is there")
	}
	same := func(name string, got map[string]bounds) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got, want)
		}
	}
	without := mem.ProcessKillClone()
	if err := without.Remove("/store/mqctl/queues"); err != nil {
		t.Fatal(err)
	}
	same("without", look(without))
	whole, err := vfs.ReadFile(mem, "/store/mqctl/queues", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += len(whole) / 20 {
		torn := mem.ProcessKillClone()
		bad := append([]byte(nil), whole...)
		bad[at] ^= 4
		if err := vfs.WriteFile(torn, "/store/mqctl/queues", bad); err != nil {
			t.Fatal(err)
		}
		same("damaged", look(torn))
	}
	for _, dir := range []string{"/store/consumequeue/topic-1", "/store/consumequeue/topic-1/2", "/store/consumequeue", "/store/batchconsumequeue",
		"/store/consumequeue/topic-1/2/00000000000000000000"} {
		gone := mem.ProcessKillClone()
		if err := gone.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		same("without "+dir, look(gone)) // what the log can give back is there again
		same("without "+dir+", the second time", look(gone))
	}
	killed := mem.ProcessKillClone()
	o.FS = killed
	s, _ = open(t, o)
	put(t, s, "topic-0", 0, "more")
	again := killed.ProcessKillClone()
	if b, err := vfs.ReadFile(again, "/store/mqctl/queues", 1<<20); err != nil || !strings.Contains(string(b), "\nstate running\n") {
		t.Errorf("the snapshot of the clean stop is there while the store is in use: %v", err)
	}
	closeStore(t, s)
}

func FuzzSnapshot(f *testing.F) {
	f.Add([]byte("mqctl-queues 2\npid 7\nstate running\nlife \"a-1\"\nlog 0 100 5 -1\nfiles 400 230 100 true\nplain \"a\"\nqueue 0 0 1 400 0 1 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := store.RewriteSnapshot(b)
		if err != nil {
			return
		}
		twice, err := store.RewriteSnapshot(once)
		if err != nil || string(once) != string(twice) {
			t.Errorf("%q becomes %q, %v", once, twice, err)
		}
	})
}
