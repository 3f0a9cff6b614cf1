package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// TestExpiredFileStaysReadable: who holds a file, a slave that is being sent it, reads
// it to its end; only then its blocks go.
func TestExpiredFileStaysReadable(t *testing.T) {
	o := small(vfs.OS{})
	o.Dir = t.TempDir()
	o.Retention = store.DefaultRetention()
	o.Retention.Keep, o.Retention.LogPause = 0, 0
	s, _ := open(t, o)
	for i := range 30 {
		put(t, s, "orders", 0, fmt.Sprintf("%d %s", i, strings.Repeat("x", 700)))
	}
	want := make([]byte, 4096)
	if n, err := s.ReadRaw(want, 0); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	held, ok, err := s.RawFile(0, 4096)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if c, err := s.CleanLog(t.Context(), false); err != nil || c.Files != 5 || c.Bytes != 5*4096 {
		t.Fatalf("%+v, %v", c, err)
	}
	if p := s.Positions(); p.Min != 5*4096 {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "commitlog", "00000000000000000000")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is still there: %v", err)
	}
	var none *store.NoRecordError
	if _, err := s.ReadRaw(make([]byte, 100), 0); !errors.As(err, &none) {
		t.Errorf("a new reader: %v", err)
	}
	if _, err := s.Message(nil, 0); !errors.As(err, &none) {
		t.Errorf("a new reader of one message: %v", err)
	}
	s.RetainOnce()
	if n := s.LeavingBytes(); n != 4096 {
		t.Errorf("%d bytes wait for readers, not those of one file", n)
	}
	got := make([]byte, 4096)
	if _, err := held.File.ReadAt(got, held.Offset); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the held file changed: %v", err)
	}
	held.Release()
	s.RetainOnce()
	if n := s.LeavingBytes(); n != 0 {
		t.Errorf("%d bytes wait for nobody", n)
	}
	if _, err := held.File.ReadAt(got, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
	exact(t, s)
	closeStore(t, s)
}

// deleting is a filter in whose first question everything old is deleted.
type deleting struct {
	f    func()
	seen int
}

func (d *deleting) MatchTag(int64) bool {
	if d.seen++; d.seen == 1 {
		d.f()
	}
	return true
}

// TestReadWhileDeleted: a pull under whose hands the files go gets what is left, or
// is told that they are being removed, and where to go on.
func TestReadWhileDeleted(t *testing.T) {
	for _, max := range []int{1, 32} {
		a := newAged(t, func(o *store.Options) {
			o.MaxTransferMemoryBytes, o.MaxFilterBytes = 1<<20, 20*20
		})
		for i := range 60 {
			put(t, a.s, "orders", 0, fmt.Sprintf("%d %s", i, strings.Repeat("x", 700)))
		}
		a.now = a.now.Add(100 * time.Hour)
		put(t, a.s, "orders", 0, "new")
		a.settle(a.s)
		q := a.s.Queue("orders", 0)
		limit := 20 // units that one read looks at
		if max > limit {
			limit = max
		}
		b, res := a.s.Read(nil, q, 0, max, &deleting{f: func() {
			a.s.DeleteExpired()
			a.s.RetainOnce()
			a.s.RetainOnce()
		}})
		if res.Status != store.MessageWasRemoving || res.Next != record.QueueOffset(limit) || res.Err != nil || len(b) != 0 {
			t.Errorf("at most %d: %v, next %d, %v", max, res.Status, res.Next, res.Err)
		}
		_, res = a.s.Read(nil, q, res.Next, max, nil)
		if res.Status != store.OffsetTooSmall || res.Next != q.Min() || q.Min() == 0 {
			t.Errorf("at most %d, afterwards: %v, next %d, the queue begins at %d", max, res.Status, res.Next, q.Min())
		}
		closeStore(t, a.s)
	}
}

// TestRetentionTimes: files get the time of their newest message back, which
// RocketMQ's broker goes by, and the age does not follow file times.
func TestRetentionTimes(t *testing.T) {
	a := newAged(t, nil)
	a.fill(60)
	a.now = a.now.Add(30 * time.Hour) // the oldest are 90 hours old
	for _, name := range a.files("commitlog") {
		if err := a.mem.SetModTime("/store/commitlog/"+name, a.now); err != nil {
			t.Fatal(err)
		}
	}
	a.s.RetainOnce()
	b, err := a.s.Message(nil, 4096)
	if err != nil {
		t.Fatal(err)
	}
	e, err := a.mem.Stat("/store/commitlog/00000000000000000000")
	if want := views(t, b)[0].StoreMillis(); err != nil || e.ModMillis != want {
		t.Errorf("the first file has the time %d, not %d: %v", e.ModMillis, want, err)
	}
	a.s.DeleteExpired()
	a.s.RetainOnce()
	if a.s.Positions().Min == 0 {
		t.Error("nothing was deleted")
	}
	closeStore(t, a.s)
}

// TestRetentionLoop: the retainer begins a minute after the start, obeys settings
// that change under it, spreads what the hour deletes, and is awake at once when the
// disk is full.
func TestRetentionLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := small(mem)
		o.Retention = store.DefaultRetention()
		o.Retention.Hours, o.Retention.Keep = 0, time.Hour
		s := running(t, o)
		body := strings.Repeat("x", 700)
		for range 100 {
			put(t, s, "orders", 0, body)
		}
		pass(2 * time.Hour)
		put(t, s, "orders", 0, body)
		pass(20 * time.Second)
		files := func() int {
			list, err := mem.ReadDir("/store/commitlog")
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		all := files()
		pass(time.Minute)
		if n := files(); n != all {
			t.Errorf("%d of %d files at no hour", n, all)
		}
		o.Retention.Hours = 1<<24 - 1
		s.SetRetention(o.Retention)
		pass(11 * time.Second) // one or two runs
		byHour := files()
		if byHour < all-2 || byHour == all {
			t.Errorf("%d of %d files at the beginning of an hour", byHour, all)
		}
		o.Retention.Hours, o.Retention.UsedRatio, o.Retention.Batch = 0, 10, 4
		s.SetRetention(o.Retention)
		u, err := mem.Usage("/store")
		if err != nil {
			t.Fatal(err)
		}
		mem.SetCapacity((u.Total - u.Free) * 2)
		pass(11 * time.Second)
		byDisk := files()
		if n := byHour - byDisk; n != 4 && n != 8 {
			t.Errorf("%d of %d files after one or two runs of 4", byDisk, byHour)
		}
		o.Retention.UsedRatio = 95
		s.SetRetention(o.Retention)
		pass(time.Minute)
		if n := files(); n != byDisk {
			t.Errorf("%d of %d files without a reason", n, byDisk)
		}
		s.DeleteExpired()
		pass(2 * time.Second)
		if n := files(); n > byDisk-4 {
			t.Errorf("%d of %d files although their deletion was asked for", n, byDisk)
		}
		pass(time.Minute)
		synctest.Wait()
		if n := files(); n > 2 {
			t.Errorf("%d files are left although their deletion was asked for", n)
		}
		exact(t, s)
		closeStore(t, s)
	})
}

// TestNoSpaceAnywhere: whatever write finds no space, sends are refused with the
// documented code or succeed, reads go on, and with the space everything comes back.
func TestNoSpaceAnywhere(t *testing.T) {
	faults := []vfs.Fault{
		{Op: vfs.OpWrite, Path: "commitlog/"}, {Op: vfs.OpCreate, Path: "commitlog/"}, {Op: vfs.OpPreallocate, Path: "commitlog/"},
		{Op: vfs.OpWrite, Path: "consumequeue/"}, {Op: vfs.OpMkdir, Path: "consumequeue/"}, {Op: vfs.OpCreate, Path: "new-queue-file"},
		{Op: vfs.OpTruncate, Path: "new-queue-file"}, {Op: vfs.OpWrite, Path: "new-queue-file"},
		{Op: vfs.OpCreate, Path: "index/"}, {Op: vfs.OpWrite, Path: "index/"}, {Op: vfs.OpTruncate, Path: "index/"},
		{Op: vfs.OpWrite, Path: "checkpoint"}, {Op: vfs.OpCreate, Path: "mqctl/progress"}, {Op: vfs.OpWrite, Path: "mqctl/progress"},
		{Op: vfs.OpRename, Path: "mqctl/progress"}, {Op: vfs.OpWrite}, {Op: vfs.OpCreate},
	}
	for _, f := range faults {
		for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT} {
			t.Run(fmt.Sprintf("%s %s %v", f.Op, f.Path, no), func(t *testing.T) { noSpace(t, f, no) })
		}
	}
}

func noSpace(t *testing.T, f vfs.Fault, no error) {
	inj := vfs.NewInjector(vfs.NewMem())
	s, _ := open(t, small(inj))
	var acked []string
	send := func(n int) (refused int) {
		for range n {
			body := fmt.Sprintf("%d %s", len(acked), strings.Repeat("x", 300))
			b := &store.Batch{}
			b.Add(s, s.Queue("orders", 0), draft("orders", 0, body, "KEYS", fmt.Sprintf("k%d", len(acked))), 0)
			s.AppendAll(b)
			switch b.Items[0].Status {
			case store.PutOK:
				acked = append(acked, body)
			case store.ServiceNotAvailable:
				refused++
			default:
				t.Fatalf("status %v", b.Items[0].Status)
			}
		}
		return refused
	}
	send(30)
	s.KeepOnce()
	f.Err = no
	inj.Fail(f)
	refused := 0
	for range 8 {
		refused += send(10)
		s.KeepOnce()
		_ = s.Mark() // may find no space
		if got := readAll(t, s, s.Queue("orders", 0)); len(got) < 30 {
			t.Fatalf("%d messages can be read", len(got))
		}
		s.CheckDisk() // the disk itself has space: sends are tried again
	}
	if err := s.Writable(); err != nil && !strings.Contains(err.Error(), "full") {
		t.Fatalf("read-only for good: %v", err)
	}
	inj.Heal()
	s.CheckDisk()
	if n := send(5); n != 0 {
		t.Errorf("%d sends are refused with space again", n)
	}
	s.KeepOnce()
	if err := s.Mark(); err != nil {
		t.Error(err)
	}
	check := func(s *store.Store) {
		t.Helper()
		got := readAll(t, s, s.Queue("orders", 0))
		if len(got) != len(acked) {
			t.Fatalf("%d messages, %d were acknowledged", len(got), len(acked))
		}
		for i, v := range got {
			if string(v.Body()) != acked[i] {
				t.Fatalf("message %d is %q", i, v.Body()[:10])
			}
		}
	}
	check(s)
	closeStore(t, s)
	again, rec := open(t, small(inj))
	if !rec.Clean || rec.CutBytes != 0 {
		t.Errorf("%+v", rec)
	}
	check(again)
	if _, res := again.Query(nil, "orders", fmt.Sprintf("k%d", len(acked)-1), 9, 0, 1<<60, false); res.Count != 1 {
		t.Errorf("the last message is found %d times by its key; %d sends were refused", res.Count, refused)
	}
	closeStore(t, again)
}

// TestCleanTopics: queues of topics that nobody has go, and a topic that comes back
// in the very moment does not lose a message.
func TestCleanTopics(t *testing.T) {
	s, _ := open(t, small(vfs.NewMem()))
	for _, topic := range []string{"a", "b", "c"} {
		put(t, s, topic, 0, "x")
		put(t, s, topic, 1, "x")
	}
	s.KeepOnce()
	var asked atomic.Int32
	keep := func(topic string) bool {
		if topic == "c" { // made anew between the first question and the second
			return asked.Add(1) > 1
		}
		return topic == "a"
	}
	c, err := s.CleanTopics(t.Context(), true, func(topic string) bool { return topic == "a" })
	if err != nil || c.Files != 4 || c.Bytes != 4*400 || len(c.Topics) != 2 {
		t.Errorf("dry run: %+v, %v", c, err)
	}
	if got := s.QueueTopics(); len(got) != 3 {
		t.Errorf("a dry run left %v", got)
	}
	if _, err = s.CleanTopics(t.Context(), false, keep); err != nil {
		t.Error(err)
	}
	if got := s.QueueTopics(); len(got) != 2 || got[0] != "a" || got[1] != "c" {
		t.Errorf("topics left: %v", got)
	}
	if q := s.Queue("c", 0); q.Max() != 1 {
		t.Errorf("the topic that came back has %d messages", q.Max())
	}
	if it := put(t, s, "b", 0, "again"); it.QueueOffset != record.QueueOffset(0) {
		t.Errorf("a topic made again begins at %d", it.QueueOffset)
	}
	closeStore(t, s)
}
