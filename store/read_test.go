package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// clock is a clock that a test sets.
type clock struct{ millis int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.millis) }

type tagFilter int64

func (f tagFilter) MatchTag(code int64) bool { return code == int64(f) }

func TestReadStatus(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	for i := range 40 {
		put(t, s, "orders", 0, fmt.Sprint(i), "TAGS", []string{"a", "b"}[i%2])
	}
	a, none := tagFilter(record.TagsCode([]byte("a"))), tagFilter(1)
	q := s.Queue("orders", 0)
	tests := []struct {
		name   string
		q      *store.Queue
		offset record.QueueOffset
		max    int
		f      store.Filter
		status store.ReadStatus
		next   record.QueueOffset
		count  int
	}{
		{"nil queue", nil, 3, 1, nil, store.NoMatchedLogicQueue, 0, 0},
		{"empty queue", s.Queue("orders", 9), 3, 1, nil, store.NoMessageInQueue, 0, 0},
		{"too small", q, -1, 1, nil, store.OffsetTooSmall, 0, 0},
		{"at the end", q, 40, 1, nil, store.OffsetOverflowOne, 40, 0},
		{"behind the end", q, 41, 1, nil, store.OffsetOverflowBadly, 40, 0},
		{"one", q, 5, 1, nil, store.Found, 6, 1},
		{"32 of memory", q, 0, 100, nil, store.Found, 32, 32},
		{"the rest", q, 30, 32, nil, store.Found, 40, 10},
		{"tag", q, 0, 3, a, store.Found, 5, 3}, // the unit that does not fit is looked at again
		{"tag to the end", q, 35, 32, a, store.Found, 40, 2},
		{"no tag", q, 0, 32, none, store.NoMatchedMessage, 40, 0},
	}
	for _, tt := range tests {
		b, res := s.Read([]byte("before"), tt.q, tt.offset, tt.max, tt.f)
		if res.Status != tt.status || res.Next != tt.next || res.Count != tt.count {
			t.Errorf("%s: %v next %d count %d, want %v %d %d", tt.name, res.Status, res.Next, res.Count, tt.status, tt.next, tt.count)
		}
		if !strings.HasPrefix(string(b), "before") || len(views(t, b[6:])) != tt.count || res.Bytes != len(b)-6 {
			t.Errorf("%s: %d bytes, %d in the result", tt.name, len(b)-6, res.Bytes)
		}
		if res.Slow {
			t.Errorf("%s: slow", tt.name)
		}
	}
}

// A read examines 16000 bytes of units, or what was asked for.
func TestReadScanBound(t *testing.T) {
	o := small(vfs.NewMem())
	o.CommitLogBytes = 1 << 20
	s, _ := open(t, o)
	defer closeStore(t, s)
	var b store.Batch
	for range 2000 {
		b.Add(s, s.Queue("orders", 0), draft("orders", 0, "x"), 0)
	}
	s.AppendAll(&b)
	q := s.Queue("orders", 0)
	if _, res := s.Read(nil, q, 100, 32, tagFilter(1)); res.Status != store.NoMatchedMessage || res.Next != 900 {
		t.Errorf("%v, next %d, want 900", res.Status, res.Next)
	}
	if _, res := s.Read(nil, q, 100, 1000, tagFilter(1)); res.Next != 1100 {
		t.Errorf("asked for 1000: next %d, want 1100", res.Next)
	}
}

// How far behind the end a read is decides the size of the answer and the
// hint to use a slave; both to the byte.
func TestReadBehind(t *testing.T) {
	o := small(vfs.NewMem())
	o.CommitLogBytes, o.MemoryBytes = 1<<20, 100000
	s, _ := open(t, o)
	defer closeStore(t, s)
	for range 200 {
		put(t, s, "orders", 0, strings.Repeat("x", 400)) // records of 497 bytes
	}
	q := s.Queue("orders", 0)
	const size = 497
	tests := []struct {
		ratio  int
		offset record.QueueOffset
		count  int
	}{
		{40, 0, 8},
		{40, 199, 1},
		{40, 118, 32}, // message 120 begins 39760 bytes behind the end
		{40, 100, 8},
		{100, 0, 32},
		{0, 199, 1},
	}
	for _, tt := range tests {
		s.SetMemoryRatio(tt.ratio)
		memory := int64(tt.ratio) * 1000
		_, res := s.Read(nil, q, tt.offset, 32, nil)
		if res.Count != tt.count {
			t.Errorf("ratio %d from %d: %d messages, want %d", tt.ratio, tt.offset, res.Count, tt.count)
		}
		// The start of the last message is what counts.
		behind := (200 - int64(tt.offset) - int64(tt.count) + 1) * size
		if res.Behind != behind || res.Slow != (behind > memory) {
			t.Errorf("ratio %d from %d: %d behind, slow %v; want %d", tt.ratio, tt.offset, res.Behind, res.Slow, behind)
		}
		first := (200 - int64(tt.offset)) * size
		if cold := s.Cold(q, tt.offset); cold != (first > memory) {
			t.Errorf("ratio %d: cold at %d is %v", tt.ratio, tt.offset, cold)
		}
	}
	s.SetMemoryRatio(40)
	if b, res := s.Read(nil, q, 150, 32, nil); res.LastStoreMillis != views(t, b)[res.Count-1].StoreMillis() {
		t.Errorf("store time of the last message is %d", res.LastStoreMillis)
	}
}

func TestTransferBytes(t *testing.T) {
	o := small(vfs.NewMem())
	o.CommitLogBytes, o.MaxTransferMemoryBytes = 1<<20, 3000
	s, _ := open(t, o)
	defer closeStore(t, s)
	for range 4 {
		put(t, s, "orders", 0, strings.Repeat("x", 1403)) // records of 1500 bytes
	}
	put(t, s, "orders", 0, strings.Repeat("x", 5000))
	q := s.Queue("orders", 0)
	if _, res := s.Read(nil, q, 0, 32, nil); res.Count != 2 || res.Bytes != 3000 {
		t.Errorf("%d messages of %d bytes", res.Count, res.Bytes)
	}
	if _, res := s.Read(nil, q, 4, 32, nil); res.Count != 1 || res.Bytes < 5000 {
		t.Errorf("a single large message: %v, %d bytes", res.Status, res.Bytes)
	}
}

func TestOffsetByTime(t *testing.T) {
	c := &clock{millis: 1000}
	o := small(vfs.NewMem())
	o.Now = c.now
	s, _ := open(t, o)
	defer closeStore(t, s)
	q := s.Queue("orders", 0)
	if s.EarliestTime() != -1 || s.OffsetByTime(q, 5, false) != 0 || s.OffsetByTime(nil, 5, true) != 0 {
		t.Error("empty store")
	}
	for _, at := range []int64{1000, 1000, 2000, 2000, 2000, 4000} {
		c.millis = at
		put(t, s, "orders", 0, "x")
		put(t, s, "orders", 1, "y")
	}
	tests := []struct {
		millis       int64
		lower, upper record.QueueOffset
	}{
		{999, 0, 0}, {1000, 0, 1}, {1500, 2, 1}, {2000, 2, 4}, {3999, 5, 4}, {4000, 5, 5}, {4001, 6, 5},
	}
	for _, tt := range tests {
		if l, u := s.OffsetByTime(q, tt.millis, false), s.OffsetByTime(q, tt.millis, true); l != tt.lower || u != tt.upper {
			t.Errorf("at %d: %d and %d, want %d and %d", tt.millis, l, u, tt.lower, tt.upper)
		}
	}
	if s.StoreTime(q, 4) != 2000 || s.StoreTime(q, 6) != -1 || s.StoreTime(q, -1) != -1 || s.EarliestTime() != 1000 {
		t.Errorf("store times: %d, %d, earliest %d", s.StoreTime(q, 4), s.StoreTime(q, 6), s.EarliestTime())
	}
	c.millis = 3000 // the clock goes back: store times do not
	if it := put(t, s, "orders", 0, "x"); it.StoreMillis != 4000 {
		t.Errorf("store time %d after the clock went back", it.StoreMillis)
	}
}

func TestQuery(t *testing.T) {
	c := &clock{millis: 10000}
	o := small(vfs.NewMem())
	o.Now = c.now
	s, _ := open(t, o)
	for i := range 300 { // more than an index file takes
		c.millis += 100
		// "Aa" and "BB" have one hash.
		put(t, s, "orders", 0, fmt.Sprint(i), "UNIQ_KEY", fmt.Sprint("u", i), "KEYS", []string{"Aa x", "BB  y"}[i%2])
	}
	put(t, s, "bills", 0, "other", "KEYS", "Aa")
	check := func() {
		t.Helper()
		tests := []struct {
			key        string
			max        int
			begin, end int64
			unique     bool
			want       []string
		}{
			{"u7", 10, 0, 1 << 60, true, []string{"7"}},
			{"u7", 10, 0, 1 << 60, false, nil},
			{"Aa", 3, 0, 1 << 60, false, []string{"298", "296", "294"}},
			{"BB", 2, 0, 1 << 60, false, []string{"299", "297"}},
			{"y", 1, 0, 1 << 60, false, []string{"299"}},
			{"", 1, 0, 1 << 60, false, nil},
			{"Aa", 9, 10100, 10300, false, []string{"2", "0"}},
			{"Aa", 9, 10101, 10299, false, nil},
			{"Aa", 0, 0, 1 << 60, false, nil},
		}
		for _, tt := range tests {
			b, res := s.Query(nil, "orders", tt.key, tt.max, tt.begin, tt.end, tt.unique)
			var got []string
			for _, v := range views(t, b) {
				got = append(got, string(v.Body()))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) || res.Count != len(tt.want) {
				t.Errorf("key %q from %d to %d: %v (%d), want %v", tt.key, tt.begin, tt.end, got, res.Count, tt.want)
			}
		}
		if _, res := s.Query(nil, "orders", "none", 1, 0, 1, false); res.LastUpdateMillis != c.millis || res.LastUpdatePhys == 0 {
			t.Errorf("last update: %+v", res)
		}
	}
	check()
	closeStore(t, s)
	s, _ = open(t, o)
	check()
	closeStore(t, s)
	o.IndexOff = true
	s, _ = open(t, o)
	if _, res := s.Query(nil, "orders", "u7", 1, 0, 1<<60, true); res.Count != 0 {
		t.Error("found without an index")
	}
	closeStore(t, s)
}

func TestMessage(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	it := put(t, s, "orders", 0, "one")
	put(t, s, "orders", 0, "two")
	b, err := s.Message([]byte("x"), it.Phys)
	if err != nil || string(views(t, b[1:])[0].Body()) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	var none *store.NoRecordError
	for _, p := range []record.PhysOffset{-1, it.Phys + 1, it.Phys + 50, s.Positions().Max, s.Positions().Max - 4, 1 << 50} {
		if b, err := s.Message([]byte("x"), p); !errors.As(err, &none) || none.Phys != p || len(b) != 1 {
			t.Errorf("at %d: %d bytes, %v", p, len(b), err)
		}
	}
}

func TestDeleteTopic(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	s, _ := open(t, o)
	for i := range 30 {
		put(t, s, "orders", int32(i%2), fmt.Sprint("old", i))
		put(t, s, "bills", 0, "b")
	}
	s.KeepOnce()
	stale := s.Queue("orders", 0)
	if err := s.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTopic("unknown"); err != nil {
		t.Errorf("unknown topic: %v", err)
	}
	if _, err := mem.Stat("/store/consumequeue/orders"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files are left: %v", err)
	}
	if s.Lookup([]byte("orders"), 0) != nil || len(s.Queues("orders")) != 0 || fmt.Sprint(s.QueueTopics()) != "[bills]" {
		t.Errorf("topics after the deletion: %v", s.QueueTopics())
	}
	if _, res := s.Read(nil, stale, 0, 1, nil); res.Status != store.NoMessageInQueue {
		t.Errorf("read through an old handle: %v", res.Status)
	}
	// A sender with an old handle starts the topic anew.
	var b store.Batch
	b.Add(s, stale, draft("orders", 0, "new"), 0)
	s.AppendAll(&b)
	if it := b.Items[0]; it.Status != store.PutOK || it.QueueOffset != 0 || it.Queue != s.Lookup([]byte("orders"), 0) {
		t.Errorf("append through an old handle: %+v", it)
	}
	check := func(s *store.Store) {
		t.Helper()
		got := readAll(t, s, s.Queue("orders", 0))
		if len(got) != 1 || string(got[0].Body()) != "new" || s.Queue("orders", 1).Max() != 0 {
			t.Errorf("%d messages", len(got))
		}
		if n := len(readAll(t, s, s.Queue("bills", 0))); n != 30 {
			t.Errorf("the other topic has %d messages", n)
		}
	}
	check(s)
	// Neither a crash nor the loss of all queues brings the old ones back.
	crashed := mem.ProcessKillClone()
	o.FS = crashed
	again, _ := open(t, o)
	check(again)
	closeStore(t, again)
	crashed = mem.ProcessKillClone()
	if err := crashed.RemoveAll("/store/consumequeue"); err != nil {
		t.Fatal(err)
	}
	o.FS = crashed
	again, _ = open(t, o)
	check(again)
	closeStore(t, again)
	closeStore(t, s)
}

func TestOpenRefusals(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	s, _ := open(t, o)
	put(t, s, "orders", 0, "b")
	if _, _, err := store.Open(o); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	s.KeepOnce()
	closeStore(t, s)

	var d *store.DamagedError
	refused := func(name string, o store.Options) {
		t.Helper()
		_, _, err := store.Open(o)
		if !errors.As(err, &d) || d.Try == "" || d.Where == "" {
			t.Errorf("%s: %v", name, err)
			return
		}
		if _, err := o.FS.Stat("/store/abort"); err == nil {
			t.Errorf("%s: a refused start left abort", name)
		}
	}
	gone := mem.ProcessKillClone()
	if err := gone.RemoveAll("/store/commitlog"); err != nil {
		t.Fatal(err)
	}
	o.FS = gone
	refused("commit log gone", o)

	foreign := mem.ProcessKillClone()
	if err := vfs.WriteFile(foreign, "/store/commitlog/.tmp", []byte("x")); err != nil {
		t.Fatal(err)
	}
	o.FS = foreign
	s, rec := open(t, o)
	if len(rec.Notes) != 1 || !strings.Contains(rec.Notes[0], ".tmp") {
		t.Errorf("foreign file: %v", rec.Notes)
	}
	closeStore(t, s)

	for _, bad := range []store.Options{{}, {Dir: "/x", CommitLogBytes: 5}, {Dir: "/x", MaxMessage: 3}, {Dir: "/x", Retention: store.Retention{FullRatio: 200}}, {Dir: "/x", CommitLogBytes: 1 << 40}, {Dir: "/x", IndexEntries: 1}} {
		bad.FS = vfs.NewMem()
		if _, _, err := store.Open(bad); err == nil {
			t.Errorf("options %+v are accepted", bad)
		}
	}
}

// A crash while a file is made leaves it short or empty.
func TestUnfinishedFiles(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	s, _ := open(t, o)
	for range 30 {
		put(t, s, "orders", 0, strings.Repeat("x", 200))
	}
	s.KeepOnce()
	want := len(readAll(t, s, s.Queue("orders", 0)))
	max := int64(s.Positions().Max)
	for _, size := range []int64{0, 100} {
		c := crashed(t, mem)
		for _, name := range []string{
			fmt.Sprintf("/store/commitlog/%020d", (max/4096+1)*4096), "/store/consumequeue/orders/0/00000000000000000800",
		} {
			f, err := c.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		o.FS = c
		again, rec := open(t, o)
		if n := len(readAll(t, again, again.Queue("orders", 0))); n != want || len(rec.Notes) != 2 {
			t.Errorf("size %d: %d messages, want %d; %v", size, n, want, rec.Notes)
		}
		put(t, again, "orders", 0, "more")
		closeStore(t, again)
	}
	closeStore(t, s)
}

// A record that was damaged since it was written is not served, and neither hides what lies
// before it in the same run nor what lies behind.
func TestDamagedRecordInARun(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	o := small(in)
	o.CommitLogBytes, o.MaxTransferMemoryCount = 1<<20, 1000
	s, _ := open(t, o)
	var items []store.Item
	for i := range 100 {
		items = append(items, put(t, s, "orders", 0, fmt.Sprintf("body of message %d", i)))
	}
	s.KeepOnce()
	q := s.Lookup([]byte("orders"), 0)
	f, err := mem.OpenReadWrite("/store/commitlog/00000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	for n, what := range map[int]int64{0: 90, 3: 90, 20: 0, 70: 4} { // in the body, the size, the magic
		at := int64(items[n].Phys) + what
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, res := s.Read(nil, q, 0, 100, nil); res.Count != 100 {
		t.Errorf("%d messages from memory, want all", res.Count)
	}
	s.DropTail()
	b, res := s.Read(nil, q, 0, 100, nil)
	if res.Status != store.Found || res.Next != 100 || res.Count != 96 || res.Err != nil {
		t.Errorf("%+v, want 96 messages", res)
	}
	for _, v := range views(t, b) {
		if want := fmt.Sprintf("body of message %d", v.QueueOffset()); string(v.Body()) != want {
			t.Errorf("message %d is %q", v.QueueOffset(), v.Body())
		}
	}
	if res.LastStoreMillis == 0 {
		t.Error("no store time of the last message")
	}
	if _, res := s.Read(nil, q, 3, 1, nil); res.Status != store.MessageWasRemoving || res.Next != 4 {
		t.Errorf("at the damaged one: %+v", res)
	}
	// A place that the disk refuses may heal: nothing is passed over.
	in.Fail(vfs.Fault{Op: vfs.OpRead, Path: "/commitlog/", Left: 1, Err: syscall.EIO})
	in.Fail(vfs.Fault{Op: vfs.OpRead, Path: "/commitlog/", Skip: 4, Err: syscall.EIO})
	b, res = s.Read(nil, q, 30, 10, nil)
	if n := res.Count; res.Status != store.Found || n == 0 || n == 10 || int(res.Next) != 30+n || len(views(t, b)) != n || !errors.Is(res.Err, syscall.EIO) {
		t.Errorf("before a place that cannot be read: %+v", res)
	}
	in.Heal()
	if _, res := s.Read(nil, q, res.Next, 100, nil); res.Err != nil || res.Next != 100 {
		t.Errorf("behind it: %+v", res)
	}
	closeStore(t, s)
}
