package delay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// fakeMessages is a log in memory.
type fakeMessages struct {
	mu        sync.Mutex
	queues    [][]store.Unit
	log       [][]byte // the message of Phys i, nil: cannot be read
	min       record.PhysOffset
	flushedTo record.PhysOffset // -1: everything is flushed at once
	end       record.PhysOffset

	batch     []string
	fate      func(text string) store.Status // nil: PutOK
	delivered []string                       // "topic-queue body" and when
	start     time.Time
	noUnits   bool
}

func newFake(levels int) *fakeMessages {
	return &fakeMessages{queues: make([][]store.Unit, levels), flushedTo: -1, start: time.Now()}
}

func (f *fakeMessages) bounds(level int) (first, end, next record.QueueOffset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := record.QueueOffset(len(f.queues[level]))
	return 0, n, n
}

func (f *fakeMessages) units(dst []store.Unit, level int, from record.QueueOffset, n int) []store.Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noUnits {
		return dst
	}
	q := f.queues[level]
	return append(dst, q[from:min(int(from)+n, len(q))]...)
}

func (f *fakeMessages) message(dst []byte, p record.PhysOffset) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int(p) >= len(f.log) {
		return dst, &store.NoRecordError{Phys: p}
	}
	if f.log[p] == nil {
		return dst, errors.New("input/output error")
	}
	return append(dst, f.log[p]...), nil
}

func (f *fakeMessages) first() record.PhysOffset {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.min
}

// set changes the fake while the scheduler runs.
func (f *fakeMessages) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeMessages) flushed() record.PhysOffset {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flushedTo < 0 {
		return f.end
	}
	return f.flushedTo
}

func (f *fakeMessages) add(d *record.Draft) int {
	f.batch = append(f.batch, fmt.Sprintf("%s-%d %s", d.Topic, d.QueueID, d.Body))
	return len(f.batch)
}

func (f *fakeMessages) append() (fates []store.Status, end record.PhysOffset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range f.batch {
		st := store.PutOK
		if f.fate != nil {
			st = f.fate(text)
		}
		fates = append(fates, st)
		if st == store.PutOK {
			f.end++
			f.delivered = append(f.delivered, fmt.Sprintf("%s %v", text, time.Since(f.start)))
		}
	}
	f.batch = nil
	return fates, f.end
}

func (f *fakeMessages) waitFlushed(ctx context.Context, p record.PhysOffset) {
	if f.flushed() < p {
		<-ctx.Done()
	}
}

// put adds a message to a level (1-based), due after d.
func (f *fakeMessages) put(t testing.TB, level int, d time.Duration, body string, props ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Helper()
	if props == nil {
		props = []string{"REAL_TOPIC", "orders", "REAL_QID", "1", "DELAY", fmt.Sprint(level)}
	}
	f.queues[level-1] = append(f.queues[level-1], store.Unit{
		Phys: record.PhysOffset(len(f.log)), TagsCode: time.Now().Add(d).UnixMilli(),
	})
	f.log = append(f.log, encode(t, body, props...))
}

func encode(t testing.TB, body string, props ...string) []byte {
	t.Helper()
	d := &record.Draft{Topic: []byte("SCHEDULE_TOPIC_XXXX"), BornHost: host, StoreHost: host, Body: []byte(body)}
	for i := 0; i < len(props); i += 2 {
		d.Properties = record.AppendProperty(d.Properties, props[i], props[i+1])
	}
	b, err := record.AppendDraft(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const dir = "/store/config"

func fakeOptions(fsys vfs.FS, levels ...time.Duration) Options {
	return Options{FS: fsys, Dir: dir, Levels: levels, Now: time.Now, Log: slog.New(slog.DiscardHandler), FlushEvery: 10 * time.Second}
}

// running is a scheduler that runs in a synctest bubble.
type running struct {
	*Scheduler
	f    *fakeMessages
	stop func()
}

func start(t testing.TB, fsys vfs.FS, f *fakeMessages, levels ...time.Duration) *running {
	t.Helper()
	s, err := load(fakeOptions(fsys, levels...), f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return &running{s, f, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *running) want(t testing.TB, want ...string) {
	t.Helper()
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if got := strings.Join(r.f.delivered, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("delivered\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestParseLevels(t *testing.T) {
	got, err := ParseLevels(" 1s 5s  10m\t2h 3d 0s")
	if err != nil || fmt.Sprint(got) != "[1s 5s 10m0s 2h0m0s 72h0m0s 0s]" {
		t.Errorf("%v %v", got, err)
	}
	for _, text := range []string{"", "  ", "1", "s", "1x", "-1s", "1.5s", "1s,2s", "99999999999999999999s", "999999d", strings.Repeat("1s ", 1025), "é"} {
		if got, err := ParseLevels(text); err == nil {
			t.Errorf("%.20q gave %v", text, got)
		}
	}
}

func TestDeliversOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		r := start(t, vfs.NewMem(), f, time.Second, 5*time.Second, 10*time.Second)
		f.put(t, 3, 10*time.Second, "c")
		r.Arrived(3)
		f.put(t, 1, time.Second, "a")
		r.Arrived(1)
		wait(300 * time.Millisecond)
		f.put(t, 1, time.Second, "a2")
		r.Arrived(1)
		f.put(t, 2, 5*time.Second, "b")
		r.Arrived(2)
		wait(30 * time.Second)
		r.want(t, "orders-1 a 1s", "orders-1 a2 1.3s", "orders-1 b 5.3s", "orders-1 c 10s")
		if got := fmt.Sprint(r.Progress()); got != "map[1:[2 2] 2:[1 1] 3:[1 1]]" {
			t.Errorf("progress %s", got)
		}
		r.Arrived(0)
		r.Arrived(4)
		r.stop()
	})
}

// A time further ahead than the level's delay comes from another clock: what has it is
// delivered the delay after it was seen.
func TestClockMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.put(t, 1, time.Hour, "moved")
		f.put(t, 1, 4*time.Second, "next")
		f.put(t, 1, -time.Hour, "late")
		r := start(t, vfs.NewMem(), f, 5*time.Second)
		wait(time.Minute)
		r.want(t, "orders-1 moved 5s", "orders-1 next 5s", "orders-1 late 5s")
		r.stop()
	})
}

// TestClockPutRight: the clock was an hour ahead when messages were stored, or was put right
// before them: each is delivered not sooner than the delay after it was stored, and
// hardly later, and so are those that state their time again.
func TestClockPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		r := start(t, vfs.NewMem(), f, 5*time.Second)
		for i := range 40 {
			ahead := time.Hour - time.Duration(i)*time.Second
			if i >= 30 {
				ahead = 0
			}
			f.put(t, 1, ahead+5*time.Second, strconv.Itoa(i))
			r.Arrived(1)
			wait(time.Second)
		}
		wait(time.Minute)
		r.stop()
		if len(f.delivered) != 40 {
			t.Fatalf("%d were delivered", len(f.delivered))
		}
		for i, text := range f.delivered {
			words := strings.Fields(text)
			at, err := time.ParseDuration(words[2])
			if after := at - time.Duration(i)*time.Second; err != nil || words[1] != strconv.Itoa(i) || after < 5*time.Second || after > 5100*time.Millisecond {
				t.Errorf("message %d: %s, %s after it was stored", i, text, after)
			}
		}
		if l := r.levels[0]; len(l.seen) > 110 {
			t.Errorf("%d sightings are kept", len(l.seen))
		}
	})
}

func TestRetriesWhatCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		bad := true
		f.fate = func(text string) store.Status {
			if bad && strings.HasSuffix(text, " b") {
				return store.ServiceNotAvailable
			}
			return store.PutOK
		}
		for _, body := range []string{"a", "b"} {
			f.put(t, 1, time.Second, body)
		}
		f.put(t, 2, 1250*time.Millisecond, "other")
		r := start(t, vfs.NewMem(), f, time.Second, 2*time.Second)
		wait(1450 * time.Millisecond)
		f.set(func() { bad = false })
		wait(time.Minute)
		r.want(t, "orders-1 a 1s", "orders-1 other 1.25s", "orders-1 b 1.5s")
		r.stop()
	})
}

func TestPassesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.fate = func(text string) store.Status {
			if strings.Contains(text, "illegal") {
				return store.MessageIllegal
			}
			return store.PutOK
		}
		real := func(topic, queue string) []string { return []string{"REAL_TOPIC", topic, "REAL_QID", queue} }
		f.put(t, 1, 0, "expired")
		f.min = 1 // the log starts behind it
		f.put(t, 1, 0, "illegal")
		f.put(t, 1, 0, "half", real("RMQ_SYS_TRANS_HALF_TOPIC", "0")...)
		f.put(t, 1, 0, "again", real("SCHEDULE_TOPIC_XXXX", "0")...)
		f.put(t, 1, 0, "outside", real("../../etc", "0")...)
		f.put(t, 1, 0, "no queue", real("orders", "x")...)
		f.put(t, 1, 0, "negative", real("orders", "-1")...)
		f.put(t, 1, 0, "huge", real("orders", "2147483647")...)
		f.put(t, 1, 0, "no topic", "DELAY", "1")
		f.put(t, 1, 0, "torn")
		f.log[9] = f.log[9][:50]
		f.put(t, 1, 0, "rotten")
		f.log[10][91]++ // in the body
		f.queues[0] = append(f.queues[0], store.Unit{Phys: 999}, store.Unit{Size: noMessage})
		f.put(t, 1, 0, "good", real("%RETRY%g", "3")...)
		r := start(t, vfs.NewMem(), f, time.Second)
		wait(time.Minute)
		// The two that may be better next time get their attempts, 100 ms apart.
		r.want(t, "%RETRY%g-3 good 1.2s")
		if p := r.Progress()[1]; p != [2]int64{14, 14} {
			t.Errorf("progress %v", p)
		}
		r.stop()
	})
}

func TestUnreadableMessageIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.put(t, 1, 0, "a")
		f.put(t, 1, 0, "b")
		record := f.log[1]
		f.log[1] = nil
		r := start(t, vfs.NewMem(), f, time.Second)
		wait(250 * time.Millisecond)
		f.set(func() { f.log[1] = record })
		wait(time.Minute)
		r.want(t, "orders-1 a 0s", "orders-1 b 300ms")
		r.stop()
	})
}

func TestUnreadableQueueIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.put(t, 1, 0, "a")
		f.noUnits = true
		r := start(t, vfs.NewMem(), f, time.Second)
		f.set(func() { f.noUnits = false })
		wait(time.Minute)
		r.want(t, "orders-1 a 10s")
		r.stop()
	})
}

func TestManyAtOnceShareTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		for i := range 3 * batchUnits {
			f.put(t, 1, 0, fmt.Sprint("a", i))
		}
		f.put(t, 2, 0, "b")
		r := start(t, vfs.NewMem(), f, time.Second, time.Second)
		wait(time.Second)
		if len(f.delivered) != 3*batchUnits+1 || !strings.HasPrefix(f.delivered[batchUnits], "orders-1 b") {
			t.Errorf("%d delivered; level 2 waits for all of level 1", len(f.delivered))
		}
		r.stop()
	})
}

func saved(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, dir+"/delayOffset.json", 1<<20)
	if err != nil {
		return err.Error()
	}
	_, text, _ := strings.Cut(string(b), "\"offsetTable\":")
	return text
}

// Progress is on disk about a second after a delivery, never ahead of the copies.
func TestProgressOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		f := newFake(3)
		f.set(func() { f.flushedTo = 0 })
		r := start(t, mem, f, time.Second, time.Second, time.Second)
		f.put(t, 1, 0, "a")
		f.put(t, 3, 0, "b")
		r.Arrived(1)
		r.Arrived(3)
		wait(5 * time.Second)
		if got := saved(t, mem); got != "{1:0,3:0\n\t}\n}" {
			t.Errorf("before the copies are flushed: %s", got)
		}
		f.set(func() { f.flushedTo = 1 })
		wait(1100 * time.Millisecond)
		if got := saved(t, mem); got != "{1:1,3:0\n\t}\n}" {
			t.Errorf("after the first is flushed: %s", got)
		}
		f.set(func() { f.flushedTo = 2 })
		wait(1100 * time.Millisecond)
		if got := saved(t, mem); got != "{1:1,3:1\n\t}\n}" {
			t.Errorf("after both are flushed: %s", got)
		}
		if got, want := string(r.JSON()), `,"offsetTable":{1:1,3:1}}`; !strings.HasSuffix(got, want) || !strings.HasPrefix(got, `{"dataVersion":{"counter":0,`) {
			t.Errorf("JSON %s", got)
		}
		// A restart goes on from there.
		r.stop()
		f.set(func() { f.delivered = nil })
		f.put(t, 1, 0, "c")
		f.set(func() { f.start = time.Now() })
		r = start(t, mem, f, time.Second, time.Second, time.Second)
		wait(time.Minute)
		r.want(t, "orders-1 c 0s")
		f.set(func() { f.flushedTo = 3 })
		r.stop()
		if got := saved(t, mem); got != "{1:2,3:1\n\t}\n}" {
			t.Errorf("after the stop: %s", got)
		}
	})
}

// Until its copies are flushed a stop waits; a Persist after the store is
// closed saves the rest.
func TestStopBeforeFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		f := newFake(1)
		f.set(func() { f.flushedTo = 0 })
		f.put(t, 1, 0, "a")
		r := start(t, mem, f, time.Second)
		begin := time.Now()
		r.stop()
		if d := time.Since(begin); d != lastFlush {
			t.Errorf("the stop took %v", d)
		}
		if got := saved(t, mem); got == "{1:1\n\t}\n}" {
			t.Error("progress is ahead of the copies")
		}
		f.set(func() { f.flushedTo = 1 })
		if err := r.Persist(); err != nil {
			t.Fatal(err)
		}
		if got := saved(t, mem); got != "{1:1\n\t}\n}" {
			t.Errorf("after the store is closed: %s", got)
		}
	})
}

func TestMarksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		f := newFake(1)
		f.set(func() { f.flushedTo = 0 })
		s, err := load(fakeOptions(mem, time.Second), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			s.advance(0, int64(i+1), record.PhysOffset(10*(i+1)), 1)
			if n := len(s.marks[0]); n > maxMarks || s.marks[0][n-1].offset != int64(i+1) {
				t.Fatalf("after %d: %d marks, the last %+v", i+1, n, s.marks[0][n-1])
			}
		}
		for flushed := record.PhysOffset(0); flushed <= 10_000; flushed += 500 {
			f.flushedTo = flushed
			if err := s.Persist(); err != nil {
				t.Fatal(err)
			}
			if s.safe[0]*10 > int64(flushed) {
				t.Fatalf("flushed to %d and safe is %d", flushed, s.safe[0])
			}
		}
		if s.safe[0] != 1000 || s.lastMark() != 0 {
			t.Errorf("in the end safe is %d", s.safe[0])
		}
		if s.version.Counter != 5 {
			t.Errorf("version %d after 1000 deliveries", s.version.Counter)
		}
	})
}

func TestLoadForms(t *testing.T) {
	f := newFake(2)
	for range 5 {
		f.put(t, 1, 0, "x")
	}
	for _, c := range []struct{ text, want string }{
		{`{"dataVersion":{"counter":3},"offsetTable":{1:4,"2":0}}`, "{1:4}"},
		{`{"offsetTable":{1:9,2:7}}`, "{1:5}"},         // behind the end
		{`{"offsetTable":{1:-3}}`, "{1:0}"},            // in front of the first
		{`{"offsetTable":{1:2,7:40}}`, "{1:2,7:40}"},   // a level that is not configured any more
		{`{"offsetTable":{"x":1,0:3,-1:4}}`, "{1:0}"},  // no levels
		{`{"future":[1],"offsetTable":null}`, "{1:0}"}, // nothing
	} {
		mem := vfs.NewMem()
		write(t, mem, c.text)
		s, err := load(fakeOptions(mem, time.Second, time.Second), f)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if _, got, _ := strings.Cut(string(s.JSON()), `"offsetTable":`); got != c.want+"}" {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	mem := vfs.NewMem()
	write(t, mem, `{"offsetTable":{1:"x"`)
	if _, err := load(fakeOptions(mem, time.Second), f); err == nil {
		t.Error("a torn file without .bak was accepted")
	}
}

func write(t testing.TB, fsys vfs.FS, text string) {
	t.Helper()
	if err := vfs.MkdirAllSync(fsys, dir); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fsys, dir+"/delayOffset.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1795969530623},"offsetTable":{1:2,2:1,3:2,18:0}}`))
	f.Add([]byte(`{"offsetTable":{1:9223372036854775807,"2":-1}}`))
	messages := newFake(18)
	messages.queues[0] = make([]store.Unit, 10)
	levels := make([]time.Duration, 18)
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		write(t, mem, string(b))
		s, err := load(fakeOptions(mem, levels...), messages)
		if err != nil {
			return
		}
		for n, p := range s.Progress() {
			if p[0] < 0 || p[0] > p[1] {
				t.Fatalf("level %d: %v", n, p)
			}
		}
		s.advance(0, 7, 0, 1)
		if err := s.Persist(); err != nil {
			t.Fatal(err)
		}
		again, err := load(fakeOptions(mem, levels...), messages)
		if err != nil || again.Progress()[1][0] != s.safe[0] {
			t.Fatalf("%v %v", again.Progress(), err)
		}
	})
}

func FuzzParseLevels(f *testing.F) {
	f.Add("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
	f.Add("0d s 1")
	f.Fuzz(func(t *testing.T, text string) {
		levels, err := ParseLevels(text)
		if err != nil {
			return
		}
		if len(levels) == 0 || len(levels) > maxLevels {
			t.Fatalf("%d levels", len(levels))
		}
		for _, d := range levels {
			if d < 0 || d > maxDelay {
				t.Fatalf("level of %v", d)
			}
		}
	})
}
