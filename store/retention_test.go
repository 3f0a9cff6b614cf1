package store_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// aged is a store whose clock the test moves; it starts at noon, when nothing is
// deleted by the hour.
type aged struct {
	t   *testing.T
	mem *vfs.Mem
	now time.Time
	set time.Duration // by which the machine's clock was set
	s   *store.Store
}

func newAged(t *testing.T, change func(o *store.Options)) *aged {
	t.Helper()
	a := &aged{t: t, mem: vfs.NewMem(), now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.Local)}
	a.mem.Now = func() time.Time { return a.now }
	a.s, _ = open(t, a.options(change))
	return a
}

func (a *aged) options(change func(o *store.Options)) store.Options {
	o := small(a.mem)
	o.Now = func() time.Time { return a.now }
	o.Steady = func() time.Time { return a.now.Add(-a.set) }
	o.Retention = store.DefaultRetention()
	o.Retention.LogPause, o.Retention.QueuePause = 0, 0
	if change != nil {
		change(&o)
	}
	return o
}

// fill sends one message an hour for the hours, to two queues of one topic in turn.
func (a *aged) fill(hours int) {
	a.t.Helper()
	for i := range hours {
		put(a.t, a.s, "orders", int32(i%2), fmt.Sprintf("%d %s", i, strings.Repeat("x", 700)), "KEYS", fmt.Sprintf("k%d", i))
		a.now = a.now.Add(time.Hour)
	}
	a.settle(a.s)
}

func (a *aged) settle(s *store.Store) {
	a.t.Helper()
	s.FlushOnce()
	if err := s.Mark(); err != nil {
		a.t.Fatal(err)
	}
}

func (a *aged) files(dir string) []string {
	a.t.Helper()
	list, err := a.mem.ReadDir(filepath.Join("/store", dir))
	if err != nil {
		a.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}

// exact checks that each queue begins with its first message that is in the log.
func exact(t *testing.T, s *store.Store) {
	t.Helper()
	first := s.Positions().Min
	for _, topic := range s.QueueTopics() {
		for _, q := range s.Queues(topic) {
			if q.Min() < q.Max() {
				if u := s.Units(nil, q, q.Min(), 1); len(u) != 1 || u[0].Phys < first {
					t.Errorf("%s-%d begins at %d with %+v, the log at %d", topic, q.ID(), q.Min(), u, first)
				}
				if got := readAll(t, s, q); len(got) != int(q.Max()-q.Min()) {
					t.Errorf("%s-%d: %d messages from %d to %d", topic, q.ID(), len(got), q.Min(), q.Max())
				}
			}
			if q.Min() > 0 {
				if _, res := s.Read(nil, q, q.Min()-1, 1, nil); res.Status != store.OffsetTooSmall || res.Next != q.Min() {
					t.Errorf("%s-%d: before the start: %+v", topic, q.ID(), res)
				}
			}
		}
	}
}

// TestRetentionByAge: at the hour of deletion, and only then, the files whose newest
// message is older than the limit go, whatever their file times say; the rest stays.
func TestRetentionByAge(t *testing.T) {
	a := newAged(t, nil)
	a.fill(100) // five messages fill a file
	total := a.s.Positions()
	for a.now.Hour() != 3 {
		a.s.RetainOnce()
		a.now = a.now.Add(time.Hour)
	}
	if got := a.s.Positions(); got.Min != 0 {
		t.Fatalf("before the hour the log begins at %d", got.Min)
	}
	a.now = a.now.Add(time.Hour + time.Minute)
	for range 60 * 6 {
		a.s.RetainOnce()
		a.now = a.now.Add(10 * time.Second)
	}
	got := a.s.Positions()
	if got.Min == 0 || got.Min == total.Max {
		t.Fatalf("after the hour the log has %+v", got)
	}
	cutoff := a.now.Add(-72*time.Hour - 10*time.Second).UnixMilli()
	newest := func(from record.PhysOffset) int64 { // store time of the first message of a file
		b, err := a.s.Message(nil, from)
		if err != nil {
			t.Fatal(err)
		}
		return views(t, b)[0].StoreMillis()
	}
	if at := newest(got.Min + 4096); at < cutoff {
		t.Errorf("the first file left ends before %v, the limit is %v", time.UnixMilli(at), time.UnixMilli(cutoff))
	}
	if at := newest(got.Min); at > cutoff+4096 {
		t.Errorf("too much was deleted: the log begins at %v, the limit is %v", time.UnixMilli(at), time.UnixMilli(cutoff))
	}
	if files := a.files("commitlog"); int(got.Min) != 4096*(25-len(files)) && int(got.Max-got.Min)/4096 > len(files) {
		t.Errorf("files %v, the log has %+v", files, got)
	}
	exact(t, a.s)
	for _, k := range []struct {
		key   string
		found int
	}{{"k0", 0}, {"k99", 1}} {
		if _, res := a.s.Query(nil, "orders", k.key, 10, 0, 1<<60, false); res.Count != k.found {
			t.Errorf("%s is found %d times, not %d", k.key, res.Count, k.found)
		}
	}
	mins := [2]record.QueueOffset{a.s.Queue("orders", 0).Min(), a.s.Queue("orders", 1).Min()}
	closeStore(t, a.s)
	s, rec := open(t, a.options(nil))
	if again := s.Positions(); again.Min != got.Min || !rec.Clean || len(rec.Notes) > 0 {
		t.Errorf("after a restart the log has %+v, %+v", again, rec)
	}
	for id, want := range mins {
		if q := s.Queue("orders", int32(id)); q.Min() != want {
			t.Errorf("after a restart queue %d begins at %d, not %d", id, q.Min(), want)
		}
	}
	exact(t, s)
	closeStore(t, s)
}

// TestRetentionKeepsNumbers: a queue all of whose messages are gone goes on with
// its next number, also after restarts and crashes.
func TestRetentionKeepsNumbers(t *testing.T) {
	a := newAged(t, nil)
	for range 45 {
		put(t, a.s, "idle", 0, "old")
	}
	a.fill(100)
	a.now = a.now.Add(100 * time.Hour)
	put(t, a.s, "orders", 0, "new")
	a.settle(a.s)
	a.s.DeleteExpired()
	for range 5 {
		a.s.RetainOnce()
	}
	check := func(s *store.Store) {
		t.Helper()
		q := s.Lookup([]byte("idle"), 0)
		if q == nil || q.Min() != 45 || q.Max() != 45 || q.Next() != 45 {
			t.Fatalf("%+v", q)
		}
		if _, res := s.Read(nil, q, 45, 1, nil); res.Status != store.OffsetOverflowOne {
			t.Errorf("read at the end: %v", res.Status)
		}
		if _, res := s.Read(nil, q, 3, 1, nil); res.Status != store.OffsetTooSmall || res.Next != 45 {
			t.Errorf("read of an expired message: %v, next %d", res.Status, res.Next)
		}
	}
	check(a.s)
	if files := a.files("consumequeue/idle/0"); len(files) != 1 || files[0] != "00000000000000000800" {
		t.Errorf("files of the idle queue: %v", files)
	}
	for n, c := range powerLosses {
		o := a.options(nil)
		o.FS = a.mem.CrashClone(rand.New(rand.NewPCG(1, uint64(n))), c)
		s, _ := open(t, o)
		check(s)
		if it := put(t, s, "idle", 0, "again"); it.QueueOffset != 45 {
			t.Errorf("the next message is %d", it.QueueOffset)
		}
		exact(t, s)
		closeStore(t, s)
	}
	if it := put(t, a.s, "idle", 0, "again"); it.QueueOffset != 45 {
		t.Errorf("the next message is %d", it.QueueOffset)
	}
	closeStore(t, a.s)
}

// TestRetentionByDisk: above the ratios files go whatever the hour, the young ones
// only where that is allowed, no more than necessary, and never the last.
func TestRetentionByDisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		percent int64 // in use before the run
		noForce bool
		old     bool // the messages are
		want    func(files int) bool
	}{
		{name: "74 percent", percent: 74, old: true, want: func(n int) bool { return n == 21 }},
		{name: "80 percent, young", percent: 80, want: func(n int) bool { return n == 21 }},
		{name: "80 percent, old", percent: 80, old: true, want: func(n int) bool { return n < 21 && n > 15 }},
		{name: "95 percent, young", percent: 95, want: func(n int) bool { return n < 21 && n > 12 }},
		{name: "95 percent, young, not forced", percent: 95, noForce: true, want: func(n int) bool { return n == 21 }},
		{name: "95 percent, old, not forced", percent: 95, noForce: true, old: true, want: func(n int) bool { return n < 21 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAged(t, func(o *store.Options) {
				o.Retention.NoForce = c.noForce
				if !c.old {
					o.Retention.Keep = 1000 * time.Hour
				}
			})
			a.fill(102)
			a.now = time.Date(2026, 3, 18, 23, 0, 0, 0, time.Local)
			u, err := a.mem.Usage("/store")
			if err != nil {
				t.Fatal(err)
			}
			a.mem.SetCapacity((u.Total - u.Free) * 100 / c.percent)
			for range 4 {
				a.s.RetainOnce()
			}
			if files := a.files("commitlog"); !c.want(len(files)) {
				t.Errorf("%d files are left", len(files))
			}
			if full := a.s.DiskFull(); full != (c.percent > 90 && c.noForce && !c.old) {
				t.Errorf("sends are refused: %v", full)
			}
			exact(t, a.s)
			closeStore(t, a.s)
		})
	}
}

// TestRetentionThatCouldNotReadIsMadeUp: a queue whose first message could not be found when
// files were deleted begins right after a clean stop and start too.
func TestRetentionThatCouldNotReadIsMadeUp(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	o := small(in)
	now := time.UnixMilli(1735689600000)
	o.Now = func() time.Time { return now }
	o.Steady = o.Now
	o.Retention = store.Retention{Keep: time.Second, Hours: 1<<24 - 1, UsedRatio: 75, ForceRatio: 85, FullRatio: 90, Batch: 3}
	s, _ := open(t, o)
	for i := range 40 {
		putKeyed(t, s, "t", fmt.Sprintf("%03d %s", i, strings.Repeat("x", 400)))
	}
	closeStore(t, s) // its units are read from the files from now on
	s, _ = open(t, o)
	now = now.Add(time.Hour)
	in.Fail(vfs.Fault{Op: vfs.OpOpen, Path: "consumequeue", Err: syscall.EIO})
	s.RetainOnce()
	in.Heal()
	if min, q := s.Positions().Min, s.Queue("t", 0); min == 0 || q.Min() != 0 {
		t.Fatalf("the log begins at %d, the queue at %d", min, q.Min())
	}
	closeStore(t, s)
	s, _ = open(t, o)
	defer closeStore(t, s)
	exact(t, s)
}

// TestRetentionOverSetClock: a clock that is set days ahead does not make everything old
// at once, and one that is set back makes nothing older; time that passes does.
func TestRetentionOverSetClock(t *testing.T) {
	a := newAged(t, func(o *store.Options) { o.Retention.Hours = 1<<24 - 1; o.Retention.Batch = 1000 })
	defer closeStore(t, a.s)
	a.fill(72)
	for range 3 {
		a.s.RetainOnce()
	}
	if min := a.s.Positions().Min; min != 0 {
		t.Fatalf("the log begins at %d though nothing is old", min)
	}
	set := func(by time.Duration) { a.set, a.now = a.set+by, a.now.Add(by) }
	set(200 * time.Hour)
	for range 10 {
		a.s.RetainOnce()
		a.now = a.now.Add(10 * time.Second)
	}
	if min := a.s.Positions().Min; min != 0 {
		t.Errorf("a clock set ahead by 200 hours made the log begin at %d", min)
	}
	set(-200 * time.Hour)
	for range 10 {
		a.s.RetainOnce()
		a.now = a.now.Add(10 * time.Second)
	}
	if min := a.s.Positions().Min; min != 0 {
		t.Errorf("the clock was set right again, and the log begins at %d", min)
	}
	// Right it is: what is old goes now, while hours pass.
	for range 40 {
		a.now = a.now.Add(time.Hour)
		a.s.RetainOnce()
	}
	if min, end := a.s.Positions().Min, a.s.Positions().Max; min == 0 || min == end {
		t.Errorf("after 40 hours the log is %d to %d", min, end)
	}
}
