package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

func TestLimits(t *testing.T) {
	o := small(vfs.NewMem())
	o.MaxMessage = 1000
	s, _ := open(t, o)
	defer closeStore(t, s)
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name  string
		draft *record.Draft
		want  store.Status
	}{
		{"body at the limit", draft("orders", 0, long(1000)), store.PutOK},
		{"body above the limit", draft("orders", 0, long(1001)), store.MessageIllegal},
		{"properties above the format's limit", draft("orders", 0, "b", "P", long(32767)), store.PropertiesExceeded},
		{"record larger than a file", draft("orders", 0, "b", "P", long(4096)), store.MessageIllegal},
		{"largest record of a file", draft("orders", 0, "", "P", long(4096-8-91-len("orders")-3)), store.PutOK},
		{"one byte more", draft("orders", 0, "x", "P", long(4096-8-91-len("orders")-3)), store.MessageIllegal},
		{"no topic", draft("", 0, "b"), store.MessageIllegal},
		{"topic of 255", draft(long(255), 0, "b"), store.PutOK},
		{"topic of 256", draft(long(256), 0, "b"), store.MessageIllegal},
		{"empty body", draft("orders", 0, ""), store.PutOK},
	}
	next := map[string]record.QueueOffset{}
	for _, tt := range tests {
		topic := string(tt.draft.Topic)
		it, err := s.Append(context.Background(), s.Queue(topic, 0), tt.draft, true)
		if it.Status != tt.want || (err == nil) != (tt.want == store.PutOK) {
			t.Errorf("%s: %v, %v, want %v", tt.name, it.Status, err, tt.want)
		}
		var pe *store.PutError
		if err != nil && (!errors.As(err, &pe) || pe.Status != tt.want) {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if tt.want == store.PutOK {
			if it.QueueOffset != next[topic] {
				t.Errorf("%s: queue offset %d, want %d", tt.name, it.QueueOffset, next[topic])
			}
			next[topic]++
		}
	}
	s.SetMaxMessage(10)
	if it, _ := s.Append(context.Background(), s.Queue("orders", 0), draft("orders", 0, long(11)), true); it.Status != store.MessageIllegal {
		t.Errorf("after lowering the limit: %v", it.Status)
	}
	st := s.PutStats()
	if st.Times != int64(len(tests))+1 || st.Failed != 7 || st.Bytes == 0 || st.P99Millis == 0 {
		t.Errorf("stats: %+v", st)
	}
}

// A client batch lies in one file and is stored as a whole or not at all.
func TestClientBatch(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	var b store.Batch
	q := s.Queue("orders", 0)
	add := func(group int32, bodies ...int) {
		for _, n := range bodies {
			b.Add(s, q, draft("orders", 0, strings.Repeat("x", n)), group)
		}
	}
	add(0, 1000)                // 0 to 1103
	add(1, 900, 900, 1000, 500) // does not fit behind: next file
	add(2, 10, 5000, 10)        // one illegal: none
	add(0, 10)
	add(3, 2000, 2000) // larger than a file: none
	add(4, 10, 10)
	s.AppendAll(&b)
	var got []string
	for _, it := range b.Items {
		got = append(got, fmt.Sprintf("%v@%d#%d", it.Status, it.Phys, it.QueueOffset))
	}
	want := []string{
		"PUT_OK@0#0",
		"PUT_OK@4096#1", "PUT_OK@5093#2", "PUT_OK@6090#3", "PUT_OK@7187#4",
		"MESSAGE_ILLEGAL@0#0", "MESSAGE_ILLEGAL@0#0", "MESSAGE_ILLEGAL@0#0",
		"PUT_OK@7784#5",
		"MESSAGE_ILLEGAL@0#0", "MESSAGE_ILLEGAL@0#0",
		"PUT_OK@7891#6", "PUT_OK@7998#7",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if n := len(readAll(t, s, q)); n != 8 {
		t.Errorf("%d messages are there, want 8", n)
	}
	if b.End() != s.Positions().Max {
		t.Errorf("batch ends at %d, log at %d", b.End(), s.Positions().Max)
	}
}

// The tag code of a delayed message is its time of delivery.
// What Undo takes back leaves no trace in what is stored after it.
func TestUndo(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	q := s.Queue("orders", 0)
	var b store.Batch
	b.Undo(0)
	b.Add(s, q, draft("orders", 0, "a", "UNIQ_KEY", "A"), 0)
	size := b.Bytes()
	b.Add(s, q, draft("orders", 0, "b", "UNIQ_KEY", "B"), 1)
	b.Add(s, q, draft("", 0, "c"), 1) // refused, and b with it
	b.Undo(2)
	if b.Len() != 1 || b.Bytes() != size {
		t.Fatalf("%d items of %d bytes are left, want 1 of %d", b.Len(), b.Bytes(), size)
	}
	known := store.Properties{UniqueKey: []byte("D"), Tags: []byte("t")}
	b.AddKnown(s, q, draft("orders", 0, "d", "UNIQ_KEY", "D", "TAGS", "t"), &known, 2)
	s.AppendAll(&b)
	for i, it := range b.Items {
		if it.Status != store.PutOK || it.QueueOffset != record.QueueOffset(i) {
			t.Errorf("item %d: %v at %d", i, it.Status, it.QueueOffset)
		}
	}
	if got := b.Items[1].TagsCode; got != record.TagsCode([]byte("t")) {
		t.Errorf("tag code %d", got)
	}
	b.Reset()
	data, res := s.Read(nil, q, 0, 10, nil)
	if res.Count != 2 || !bytes.Contains(data, []byte("D\x02")) || bytes.Contains(data, []byte("B\x02")) {
		t.Errorf("%d messages: %q", res.Count, data)
	}
}

func TestDelayTagCode(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	for _, tt := range []struct {
		level string
		delay time.Duration
	}{{"3", 10 * time.Second}, {"18", 2 * time.Hour}, {"99", 2 * time.Hour}, {"1", time.Second}} {
		it := put(t, s, "SCHEDULE_TOPIC_XXXX", 2, "b", "DELAY", tt.level, "TAGS", "TagA")
		u := s.Units(nil, it.Queue, it.QueueOffset, 1)
		if want := it.StoreMillis + tt.delay.Milliseconds(); len(u) != 1 || u[0].TagsCode != want {
			t.Errorf("level %s: %v, want tag code %d", tt.level, u, want)
		}
	}
	it := put(t, s, "orders", 0, "b", "DELAY", "3", "TAGS", "TagA")
	if u := s.Units(nil, it.Queue, it.QueueOffset, 1); u[0].TagsCode != 2598919 {
		t.Errorf("tag code of TagA is %d", u[0].TagsCode)
	}
}

// Half-written and rolled back messages have no place in a queue.
func TestTransactionBits(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	q := s.Queue("orders", 0)
	for _, flag := range []int32{record.FlagPrepared, record.FlagRollback, record.FlagCommit} {
		d := draft("orders", 0, "b", "KEYS", fmt.Sprint("k", flag))
		d.SysFlag = flag
		if _, err := s.Append(context.Background(), q, d, false); err != nil {
			t.Fatal(err)
		}
	}
	if q.Max() != 1 || q.Next() != 1 {
		t.Errorf("the queue ends at %d, next %d", q.Max(), q.Next())
	}
	for key, want := range map[string]int{"k4": 1, "k12": 0, "k8": 1} {
		if _, res := s.Query(nil, "orders", key, 9, 0, 1<<60, false); res.Count != want {
			t.Errorf("key %s finds %d messages, want %d", key, res.Count, want)
		}
	}
}

// A write that fails, even half-way, leaves no hole and no stale bytes.
func TestFailedWrite(t *testing.T) {
	for _, partial := range []int{0, 100, 1000} {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		s, _ := open(t, small(inj))
		put(t, s, "orders", 0, "one")
		inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog/", Left: 1, Err: syscall.ENOSPC, Partial: partial})
		var b store.Batch
		for range 12 {
			b.Add(s, s.Queue("orders", 0), draft("orders", 0, "lost"), 0)
		}
		s.AppendAll(&b)
		for _, it := range b.Items {
			if it.Status != store.ServiceNotAvailable || it.Phys != 0 {
				t.Fatalf("partial %d: %+v", partial, it)
			}
		}
		if s.Writable() == nil {
			t.Error("the disk is full but the store writable")
		}
		s.CheckDisk() // as Run does
		if it := put(t, s, "orders", 0, "two"); it.QueueOffset != 1 {
			t.Errorf("partial %d: queue offset %d, want 1", partial, it.QueueOffset)
		}
		o := small(mem.ProcessKillClone())
		again, rec := open(t, o)
		if rec.CutBytes != 0 || slices.ContainsFunc(rec.Findings, func(f store.Finding) bool { return f.Kind != store.QueueBehind }) {
			t.Errorf("partial %d: recovery %+v", partial, rec)
		}
		got := readAll(t, again, again.Lookup([]byte("orders"), 0))
		if len(got) != 2 || string(got[1].Body()) != "two" {
			t.Errorf("partial %d: %d messages", partial, len(got))
		}
		closeStore(t, again)
		closeStore(t, s)
	}
}

// What a full disk keeps of a write and does not let zero is gone before the next
// message, and before a stop counts as clean.
func TestFailedWriteCannotBeCleared(t *testing.T) {
	mem := vfs.NewMem()
	inj := vfs.NewInjector(mem)
	s, _ := open(t, small(inj))
	put(t, s, "orders", 0, "one")
	full := func() { // a part of one write fits, then nothing does
		inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog/", Err: syscall.ENOSPC, Partial: 150, Left: 1})
		inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog/", Err: syscall.ENOSPC})
	}
	full()
	for range 3 {
		b := &store.Batch{}
		b.Add(s, s.Queue("orders", 0), draft("orders", 0, strings.Repeat("lost", 100)), 0)
		if s.AppendAll(b); b.Items[0].Status != store.ServiceNotAvailable {
			t.Fatalf("%v", b.Items[0].Status)
		}
		s.CheckDisk()
	}
	o := small(mem.ProcessKillClone())
	again, rec := open(t, o)
	if got := readAll(t, again, again.Lookup([]byte("orders"), 0)); len(got) != 1 || rec.CutBytes == 0 {
		t.Errorf("%d messages after a crash, %+v", len(got), rec)
	}
	closeStore(t, again)
	inj.Heal()
	if it := put(t, s, "orders", 0, "2"); it.QueueOffset != 1 {
		t.Errorf("queue offset %d, want 1", it.QueueOffset)
	}
	o = small(mem.ProcessKillClone())
	again, rec = open(t, o)
	if got := readAll(t, again, again.Lookup([]byte("orders"), 0)); len(got) != 2 || rec.CutBytes != 0 {
		t.Errorf("%d messages, %+v", len(got), rec)
	}
	closeStore(t, again)
	full()
	b := &store.Batch{}
	b.Add(s, s.Queue("orders", 0), draft("orders", 0, strings.Repeat("lost", 100)), 0)
	s.AppendAll(b)
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close with bytes behind the end: %v", err)
	}
	if _, err := mem.Stat("/store/abort"); err != nil {
		t.Errorf("the stop counts as clean: %v", err)
	}
}

func TestSickDisk(t *testing.T) {
	inj := vfs.NewInjector(vfs.NewMem())
	s, _ := open(t, small(inj))
	put(t, s, "orders", 0, "one")
	inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog/", Err: syscall.EIO})
	if _, err := s.Append(context.Background(), s.Queue("orders", 0), draft("orders", 0, "b"), true); !errors.Is(err, syscall.EIO) {
		t.Errorf("append: %v", err)
	}
	inj.Heal()
	if err := s.Writable(); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("writable: %v", err)
	}
	if err := s.Close(); err == nil {
		t.Error("close says nothing")
	}
}

func TestSegmentCannotBeMade(t *testing.T) {
	inj := vfs.NewInjector(vfs.NewMem())
	s, _ := open(t, small(inj))
	inj.Fail(vfs.Fault{Op: vfs.OpCreate, Path: "commitlog/", Left: 1, Err: syscall.EACCES})
	it, err := s.Append(context.Background(), s.Queue("orders", 0), draft("orders", 0, "b"), true)
	if it.Status != store.CreateFailed || err == nil {
		t.Errorf("append: %v, %v", it.Status, err)
	}
	put(t, s, "orders", 0, "later")
	closeStore(t, s)
	if _, err := s.Append(context.Background(), s.Queue("orders", 0), draft("orders", 0, "b"), true); !errors.Is(err, store.ErrClosed) {
		t.Errorf("append to a closed store: %v", err)
	}
}

// Many senders and readers at once, on files that roll all the time.
func TestConcurrent(t *testing.T) {
	o := small(vfs.NewMem())
	o.CommitLogBytes, o.QueueFileBytes = 1<<16, 2000
	o.IndexEntries = 100000
	var arrivals sync.Map
	o.OnArrival = func(q *store.Queue) { arrivals.Store(q, q.Max()) }
	s, _ := open(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var run, senders sync.WaitGroup
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	const perSender, queues = 2000, 4
	for c := range 4 {
		senders.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			var b store.Batch
			for n := 0; n < perSender; {
				b.Reset()
				for range min(1+rng.IntN(40), perSender-n) {
					id := int32(rng.IntN(queues))
					b.Add(s, s.Queue("orders", id), draft("orders", id, fmt.Sprintf("%d %d", c, n), "KEYS", "k"), 0)
					n++
				}
				s.AppendAll(&b)
				for _, it := range b.Items {
					if it.Status != store.PutOK {
						t.Errorf("append: %v", it.Status)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	for id := range int32(queues) {
		run.Go(func() { follow(t, s, id, done) })
	}
	senders.Wait()
	close(done)
	cancel()
	run.Wait()
	total := 0
	for _, q := range s.Queues("orders") {
		total += int(q.Max())
		if q.Max() != q.Next() {
			t.Errorf("queue %d is visible to %d of %d", q.ID(), q.Max(), q.Next())
		}
		if last, ok := arrivals.Load(q); !ok || last != q.Max() {
			t.Errorf("queue %d: last arrival was at %v, the end is %d", q.ID(), last, q.Max())
		}
	}
	if total != 4*perSender {
		t.Errorf("%d messages, want %d", total, 4*perSender)
	}
	closeStore(t, s)
}

// follow reads a queue while it grows: every message of a sender in order.
func follow(t *testing.T, s *store.Store, id int32, done chan struct{}) {
	q := s.Queue("orders", id)
	last := map[string]int{}
	var buf []byte
	stop := false
	for off := record.QueueOffset(0); !stop || off < q.Max(); {
		select {
		case <-done:
			stop = true
		default:
		}
		var res store.ReadResult
		buf, res = s.Read(buf[:0], q, off, 32, nil)
		if res.Status != store.Found {
			continue
		}
		for _, v := range views(t, buf) {
			if v.QueueOffset() != off {
				t.Errorf("queue %d: message %d where %d should be", id, v.QueueOffset(), off)
				return
			}
			off++
			c, n, _ := bytes.Cut(v.Body(), []byte(" "))
			var num int
			fmt.Sscan(string(n), &num)
			if before, ok := last[string(c)]; ok && num <= before {
				t.Errorf("queue %d: message %d of sender %s behind %d", id, num, c, before)
				return
			}
			last[string(c)] = num
		}
		off = res.Next
	}
}

// The send and the pull path allocate nothing once their buffers have grown.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties sync.Pools at random; make test counts")
	}
	o := small(vfs.OS{})
	o.Dir = t.TempDir()
	o.CommitLogBytes, o.QueueFileBytes, o.IndexEntries = 64<<20, 6000000, 1<<20
	s, _ := open(t, o)
	defer closeStore(t, s)
	var drafts []*record.Draft
	for i := range 64 {
		drafts = append(drafts, draft("orders", int32(i%16), strings.Repeat("x", 500), "UNIQ_KEY", fmt.Sprint("u", i), "TAGS", "TagA", "KEYS", "k1 k2"))
		s.Queue("orders", int32(i%16))
	}
	var b store.Batch
	send := func() {
		b.Reset()
		for _, d := range drafts {
			b.Add(s, s.Lookup(d.Topic, d.QueueID), d, 0)
		}
		s.AppendAll(&b)
	}
	for range 200 { // rings and buffers reach their size
		send()
	}
	s.KeepOnce()
	if n := testing.AllocsPerRun(500, send); n > 0 {
		t.Errorf("a burst of 64 allocates %v times", n)
	}
	var buf []byte
	off := record.QueueOffset(0)
	q := s.Lookup([]byte("orders"), 3)
	read := func() {
		var res store.ReadResult
		buf, res = s.Read(buf[:0], q, off, 32, nil)
		if res.Status != store.Found {
			t.Fatal(res.Status)
		}
		if off = res.Next; off == q.Max() {
			off = 0
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("a read of 32 allocates %v times", n)
	}
	if b.Items[0].Status != store.PutOK {
		t.Error(b.Items[0].Status)
	}
}

// What is appended while the keeper holds the dispatch lock is visible when the
// keeper lets go of it, not only at its next round.
func TestAppendWhileDispatchBusy(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	defer closeStore(t, s)
	q := s.Queue("orders", 0)
	s.WhileDispatchBusy(func() {
		var b store.Batch
		b.Add(s, q, draft("orders", 0, "x"), 0)
		s.AppendAll(&b)
		if q.Max() != 0 {
			t.Fatal("dispatched without its lock")
		}
	})
	if q.Max() != 1 {
		t.Errorf("visible end %d, want 1", q.Max())
	}
}
