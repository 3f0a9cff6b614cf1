package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// filesUnder is the content of all files below a folder, by path.
func filesUnder(t *testing.T, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return out
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.Dir {
			for k, v := range filesUnder(t, fsys, name) {
				out[k] = v
			}
			continue
		}
		b, err := vfs.ReadFile(fsys, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b
	}
	return out
}

func sameFiles(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	if len(want) == 0 {
		t.Error("there is nothing to compare")
	}
	for name, b := range want {
		if !bytes.Equal(b, got[name]) {
			t.Errorf("%s differs:\n%x\nwant\n%x", name, got[name], b)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is new", name)
		}
	}
}

// Queues of a topic with queue.type=BatchCQ, as Apache wrote them: read, and made
// again from the log, the same to the last byte.
func TestGoldenBatchQueues(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(fsys vfs.FS) error
	}{
		{"clean", func(vfs.FS) error { return nil }},
		{"killed", func(f vfs.FS) error { return vfs.WriteFile(f, "/store/abort", []byte("1")) }},
		{"no queues", func(f vfs.FS) error {
			if err := f.RemoveAll("/store/batchconsumequeue"); err != nil {
				return err
			}
			return vfs.WriteFile(f, "/store/abort", []byte("1"))
		}},
		{"second file gone", func(f vfs.FS) error {
			if err := f.Remove("/store/batchconsumequeue/bundles/0/00000000000000000230"); err != nil {
				return err
			}
			return vfs.WriteFile(f, "/store/abort", []byte("1"))
		}},
		{"wrong last unit", func(f vfs.FS) error {
			h, err := f.OpenReadWrite("/store/batchconsumequeue/bundles/1/00000000000000000230")
			if err != nil {
				return err
			}
			if _, err := h.WriteAt([]byte{1}, 46+7); err != nil {
				return err
			}
			return h.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, g, o := unpack(t, "batch-queue")
			want := filesUnder(t, fsys, "/store/batchconsumequeue")
			if err := c.change(fsys); err != nil {
				t.Fatal(err)
			}
			o.BatchQueueBytes = 5 * 46
			s, rec := open(t, o)
			t.Log(rec.Notes)
			sameQueues(t, s, g, nil)
			everyMessage(t, s, g, nil)
			closeStore(t, s)
			sameFiles(t, want, filesUnder(t, fsys, "/store/batchconsumequeue"))

			s, _ = open(t, o)
			sameQueues(t, s, g, nil)
			closeStore(t, s)
			sameFiles(t, want, filesUnder(t, fsys, "/store/batchconsumequeue"))
		})
	}
}

// inner is a client batch of n messages as one record.
func inner(q int32, n int, key string) *record.Draft {
	d := draft("bundles", q, strings.Repeat("x", n*10), "UNIQ_KEY", key)
	d.SysFlag |= record.FlagInnerBatch | record.FlagUnwrap
	d.Properties = store.AppendInner(d.Properties, n)
	return d
}

func batchOptions(fsys vfs.FS) store.Options {
	o := small(fsys)
	o.BatchQueueBytes = 5 * 46
	o.BatchTopic = func(topic string) bool { return topic == "bundles" }
	return o
}

// putBatches appends inner batches and single messages and returns what each
// message's offset leads to.
func putBatches(t *testing.T, s *store.Store, rounds int) (at []record.PhysOffset) {
	t.Helper()
	var b store.Batch
	for i := range rounds {
		q := s.Queue("bundles", 0)
		n := i%4 + 1
		if n == 1 {
			b.Add(s, q, draft("bundles", 0, "single"), 0)
		} else {
			b.AddInner(s, q, inner(0, n, fmt.Sprint("K", i)), nil, n)
		}
		s.AppendAll(&b)
		it := b.Items[0]
		if it.Status != store.PutOK {
			t.Fatal(it.Status)
		}
		if int(it.QueueOffset) != len(at) {
			t.Fatalf("batch %d begins at %d, want %d", i, it.QueueOffset, len(at))
		}
		for range n {
			at = append(at, it.Phys)
		}
		b.Reset()
	}
	return at
}

// checkBatches reads from every offset: the answer begins with the record that holds
// it, has each record once, and counts messages.
func checkBatches(t *testing.T, s *store.Store, at []record.PhysOffset) {
	t.Helper()
	q := s.Lookup([]byte("bundles"), 0)
	if q == nil || int(q.Max()) != len(at) || int(q.Next()) != len(at) {
		t.Fatalf("the queue is %+v, want %d messages", q, len(at))
	}
	for from := range at {
		seen := map[record.PhysOffset]bool{}
		for off := record.QueueOffset(from); off < q.Max(); {
			b, res := s.Read(nil, q, off, 8, nil)
			if res.Status != store.Found || res.Err != nil {
				t.Fatalf("read at %d: %+v", off, res)
			}
			n := 0
			for _, v := range views(t, b) {
				if seen[v.PhysOffset()] {
					t.Fatalf("record %d came twice", v.PhysOffset())
				}
				seen[v.PhysOffset()] = true
				k := 1
				if text := v.Property("INNER_NUM"); text != nil {
					k, _ = strconv.Atoi(string(text))
					if base, err := strconv.Atoi(string(v.Property("INNER_BASE"))); err != nil || base != int(v.QueueOffset()) {
						t.Errorf("INNER_BASE %s of the record at offset %d", v.Property("INNER_BASE"), v.QueueOffset())
					}
				}
				n += k
			}
			if n != res.Count || n > 8 {
				t.Fatalf("%d messages, counted %d", n, res.Count)
			}
			off = res.Next
		}
		for _, p := range at[from:] {
			if !seen[p] {
				t.Fatalf("reading from %d misses the record at %d", from, p)
			}
		}
		if u := s.Units(nil, q, record.QueueOffset(from), 1); len(u) != 1 || u[0].Phys != at[from] {
			t.Errorf("unit of offset %d is %+v, want %d", from, u, at[from])
		}
		if s.StoreTime(q, record.QueueOffset(from)) <= 0 {
			t.Errorf("no store time at %d", from)
		}
	}
}

func TestBatchQueue(t *testing.T) {
	mem := vfs.NewMem()
	o := batchOptions(mem)
	s, _ := open(t, o)
	at := putBatches(t, s, 30)
	checkBatches(t, s, at)
	if q := s.Queue("bundles", 0); s.OffsetByTime(q, 1<<60, false) != q.Max() || s.OffsetByTime(q, 0, false) != q.Min() {
		t.Error("search by time")
	}
	killed := mem.ProcessKillClone()
	lost := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
	closeStore(t, s)
	for name, fsys := range map[string]*vfs.Mem{"stopped": mem, "killed": killed} {
		o.FS = fsys
		s, _ := open(t, o)
		checkBatches(t, s, at)
		closeStore(t, s)
		sameFiles(t, filesUnder(t, mem, "/store/batchconsumequeue"), filesUnder(t, fsys, "/store/batchconsumequeue"))
		if name == "stopped" {
			continue
		}
		// Deleted and made again, it begins at 0, also after a crash.
		s, _ = open(t, o)
		if err := s.DeleteTopic("bundles"); err != nil {
			t.Fatal(err)
		}
		again := putBatches(t, s, 3)
		o.FS = fsys.ProcessKillClone()
		r, _ := open(t, o)
		checkBatches(t, r, again)
		closeStore(t, r)
	}
	o.FS = lost
	s, _ = open(t, o)
	closeStore(t, s)
}

// A batch of more messages than a unit can count is refused, and so is an inner
// batch for a plain queue.
func TestInnerBatchRefused(t *testing.T) {
	s, _ := open(t, batchOptions(vfs.NewMem()))
	defer closeStore(t, s)
	var b store.Batch
	if it := b.AddInner(s, s.Queue("bundles", 0), inner(0, 2, "k"), nil, 1<<15); it.Status != store.MessageIllegal {
		t.Error(it.Status)
	}
	if it := b.AddInner(s, s.Queue("plain", 0), inner(0, 2, "k"), nil, 2); it.Status != store.MessageIllegal {
		t.Error(it.Status)
	}
	s.AppendAll(&b)
	if s.Positions().Max != 0 {
		t.Error("something was stored")
	}
}

// A replica has the batch queues of its master.
func TestBatchQueueReplica(t *testing.T) {
	mem := vfs.NewMem()
	s, _ := open(t, batchOptions(mem))
	at := putBatches(t, s, 20)
	var log []byte
	for p := record.PhysOffset(0); p < s.Positions().Max; {
		buf := make([]byte, 4096)
		n, err := s.ReadRaw(buf, p)
		if err != nil {
			t.Fatal(err)
		}
		log, p = append(log, buf[:n]...), p+record.PhysOffset(n)
	}
	closeStore(t, s)

	copied := vfs.NewMem()
	o := batchOptions(copied)
	o.Replica = true
	r, _ := open(t, o)
	if _, err := r.AppendRaw(log); err != nil {
		t.Fatal(err)
	}
	checkBatches(t, r, at)
	// Cut in the middle, it ends with a whole batch.
	cutAt := at[len(at)/2]
	if _, err := r.TruncateTo(cutAt); err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < len(at) && at[n] < cutAt {
		n++
	}
	checkBatches(t, r, at[:n])
	if _, err := r.AppendRaw(log[cutAt:]); err != nil {
		t.Fatal(err)
	}
	checkBatches(t, r, at)
	closeStore(t, r)
	sameFiles(t, filesUnder(t, mem, "/store/batchconsumequeue"), filesUnder(t, copied, "/store/batchconsumequeue"))
}

// tagged passes one tag code.
type tagged int64

func (w tagged) MatchTag(code int64) bool { return int32(code) == int32(w) }

// Queues with an extension, as Apache wrote them: tags are found through it, and
// without bit maps it is made again from the log to the last byte.
func TestGoldenQueueExt(t *testing.T) {
	fsys, g, o := unpack(t, "queue-ext")
	queues, exts := filesUnder(t, fsys, "/store/consumequeue"), filesUnder(t, fsys, "/store/consumequeue_ext")
	check := func(o store.Options) {
		t.Helper()
		s, rec := open(t, o)
		t.Log(rec.Notes)
		sameQueues(t, s, g, nil)
		everyMessage(t, s, g, nil)
		for _, name := range []string{"orders", "plain"} {
			want := map[string]int{}
			for _, m := range g.Messages {
				if m.Topic == name {
					want[m.Properties["TAGS"]]++
				}
			}
			for tag, n := range want {
				q, got := s.Lookup([]byte(name), 0), 0
				for off := q.Min(); off < q.Max(); {
					_, res := s.Read(nil, q, off, 32, tagged(record.TagsCode([]byte(tag))))
					got += res.Count
					if res.Next <= off {
						t.Fatalf("%s stays at %d: %+v", name, off, res)
					}
					off = res.Next
				}
				if got != n {
					t.Errorf("%s: %d messages with tag %q, want %d", name, got, tag, n)
				}
			}
		}
		closeStore(t, s)
	}
	check(o)
	sameFiles(t, queues, filesUnder(t, fsys, "/store/consumequeue"))
	sameFiles(t, exts, filesUnder(t, fsys, "/store/consumequeue_ext"))

	// After a crash of Apache the units are made again: the same, bit maps included.
	if err := vfs.WriteFile(fsys, "/store/abort", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := fsys.RemoveAll("/store/consumequeue"); err != nil {
		t.Fatal(err)
	}
	o.QueueFileBytes = 400
	check(o)
	sameFiles(t, queues, filesUnder(t, fsys, "/store/consumequeue"))
	sameFiles(t, exts, filesUnder(t, fsys, "/store/consumequeue_ext"))

	// Made again without them.
	for _, name := range []string{"/store/consumequeue", "/store/consumequeue_ext"} {
		if err := fsys.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := vfs.WriteFile(fsys, "/store/abort", []byte("1")); err != nil {
		t.Fatal(err)
	}
	o.QueueExt, o.QueueExtBytes = true, 340
	check(o)
	plain := func(m map[string][]byte) map[string][]byte {
		out := map[string][]byte{}
		for k, v := range m {
			if strings.Contains(k, "/plain/") {
				out[k] = v
			}
		}
		return out
	}
	sameFiles(t, plain(queues), plain(filesUnder(t, fsys, "/store/consumequeue")))
	sameFiles(t, plain(exts), plain(filesUnder(t, fsys, "/store/consumequeue_ext")))
	check(o)
}

// Units that Apache wrote, with bit maps and ends of files, decode and encode to the
// same bytes.
func TestExtUnits(t *testing.T) {
	fsys, _, _ := unpack(t, "queue-ext")
	units := 0
	for name, b := range filesUnder(t, fsys, "/store/consumequeue_ext") {
		var again []byte
		for len(again) < len(b) {
			u, ok := consumequeue.DecodeExt(b[len(again):])
			if !ok {
				break
			}
			units++
			again = u.Append(again)
		}
		rest := b[len(again):]
		if len(rest) >= 2 && rest[0] == 0xFF && rest[1] == 0xFF {
			again = append(again, 0xFF, 0xFF)
		}
		again = append(again, make([]byte, len(b)-len(again))...)
		if !bytes.Equal(again, b) {
			t.Errorf("%s:\n%x\nwant\n%x", name, again, b)
		}
	}
	if units != 30 {
		t.Errorf("%d units", units)
	}
}

// The extension across files, restarts and a kill.
func TestQueueExt(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	o.Now = func() time.Time { return time.UnixMilli(1735689600000) }
	o.QueueExt, o.QueueExtBytes = true, 100
	s, _ := open(t, o)
	for i := range 50 {
		put(t, s, "orders", 0, "b", "TAGS", fmt.Sprint("T", i%5))
	}
	check := func(s *store.Store, want int) {
		t.Helper()
		q := s.Lookup([]byte("orders"), 0)
		_, res := s.Read(nil, q, 0, 32, tagged(record.TagsCode([]byte("T3"))))
		if res.Count != want {
			t.Errorf("%d messages with tag T3, want %d", res.Count, want)
		}
		for i, u := range s.Units(nil, q, 0, 100) {
			if u.TagsCode != record.TagsCode(fmt.Append(nil, "T", i%5)) {
				t.Errorf("unit %d has tag code %d", i, u.TagsCode)
			}
		}
	}
	check(s, 10)
	s.KeepOnce()
	put(t, s, "orders", 0, "b", "TAGS", "T0")
	killed := mem.ProcessKillClone()
	closeStore(t, s)
	for _, fsys := range []*vfs.Mem{mem, killed} {
		o.FS = fsys
		s, _ = open(t, o)
		check(s, 10)
		for i := 51; i < 60; i++ {
			put(t, s, "orders", 0, "b", "TAGS", fmt.Sprint("T", i%5))
		}
		check(s, 12)
		closeStore(t, s)
	}
	sameFiles(t, filesUnder(t, mem, "/store/consumequeue_ext"), filesUnder(t, killed, "/store/consumequeue_ext"))
	// Turned off, what is there is read, and new units are plain.
	o.QueueExt = false
	s, _ = open(t, o)
	put(t, s, "orders", 0, "b", "TAGS", "T0")
	check(s, 12)
	if err := s.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if left := filesUnder(t, killed, "/store/consumequeue_ext"); len(left) != 0 {
		t.Errorf("%d files left", len(left))
	}
	closeStore(t, s)
}
