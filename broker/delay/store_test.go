package delay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
	"mqctl/store/vfs/vfstest"
)

// defaults are the levels of a broker that is not told otherwise.
func defaults(t testing.TB) []time.Duration {
	levels, err := ParseLevels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
	if err != nil {
		t.Fatal(err)
	}
	return levels
}

// world is a store with a scheduler, both running in a synctest bubble.
type world struct {
	t   testing.TB
	s   *store.Store
	d   *Scheduler
	end func() // stops in order and closes
	ctx context.Context
}

func openWorld(t testing.TB, fsys vfs.FS, sync bool, now func() time.Time) *world {
	t.Helper()
	w := &world{t: t}
	log := slog.New(slog.DiscardHandler)
	s, _, err := store.Open(store.Options{
		FS: fsys, Dir: "/store", CommitLogBytes: 65536, QueueFileBytes: 400, IndexSlots: 64, IndexEntries: 256,
		MemoryBytes: 1 << 30, SyncFlush: sync, DelayLevels: defaults(t), Now: now, Log: log,
		OnArrival: func(q *store.Queue) {
			if q.Topic() == topic.Schedule && w.d != nil {
				w.d.Arrived(int(q.ID()) + 1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	w.d, err = Load(Options{Store: s, FS: fsys, Dir: "/store/config", Levels: defaults(t), Now: now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	storeCtx, stopStore := context.WithCancel(context.Background())
	delayCtx, stopDelay := context.WithCancel(context.Background())
	stored, delayed := make(chan error, 1), make(chan error, 1)
	go func() { stored <- s.Run(storeCtx) }()
	go func() { delayed <- w.d.Run(delayCtx) }()
	synctest.Wait()
	w.ctx = storeCtx
	w.end = func() {
		stopDelay()
		err := errors.Join(<-delayed)
		stopStore()
		if err := errors.Join(err, <-stored, s.Close(), w.d.Persist()); err != nil {
			t.Error(err)
		}
	}
	return w
}

// delay stores a message for a level as the send path does.
func (w *world) delay(level int, body string, props ...string) {
	w.t.Helper()
	d := &record.Draft{
		Topic: []byte(topic.Schedule), QueueID: int32(level - 1), Flag: 9, BornMillis: 77, BornHost: host, StoreHost: host,
		ReconsumeTimes: 2, Body: []byte(body),
	}
	props = append([]string{"TAGS", "TagA", "DELAY", fmt.Sprint(level), "REAL_TOPIC", "orders", "REAL_QID", "3"}, props...)
	for i := 0; i < len(props); i += 2 {
		d.Properties = record.AppendProperty(d.Properties, props[i], props[i+1])
	}
	if _, err := w.s.Append(w.ctx, w.s.Queue(topic.Schedule, int32(level-1)), d, true); err != nil {
		w.t.Fatal(err)
	}
}

// messages are the records of a queue.
func messagesOf(t testing.TB, s *store.Store, name string, id int32) []record.View {
	t.Helper()
	q := s.Queue(name, id)
	var list []record.View
	for _, u := range s.Units(nil, q, q.Min(), 1000) {
		b, err := s.Message(nil, u.Phys)
		if err != nil {
			t.Fatal(err)
		}
		v, err := record.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

func TestStoreDelivers(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync %v", sync), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := openWorld(t, vfs.NewMem(), sync, time.Now)
				start := time.Now()
				w.delay(2, "b")
				w.delay(1, "a")
				w.delay(3, "c", "UNIQ_KEY", "ID1")
				wait(20 * time.Second)
				got := messagesOf(t, w.s, "orders", 3)
				if len(got) != 3 {
					t.Fatalf("%d messages arrived", len(got))
				}
				for i, want := range []struct {
					body string
					at   time.Duration
				}{{"a", time.Second}, {"b", 5 * time.Second}, {"c", 10 * time.Second}} {
					v := got[i]
					if at := time.UnixMilli(v.StoreMillis()).Sub(start.Truncate(time.Millisecond)); string(v.Body()) != want.body || at < want.at || at > want.at+10*time.Millisecond {
						t.Errorf("message %d is %s after %v, want %s after %v", i, v.Body(), at, want.body, want.at)
					}
					if v.Flag() != 9 || v.BornMillis() != 77 || v.BornHost() != host || v.ReconsumeTimes() != 2 || string(v.Property("REAL_QID")) != "3" || v.QueueID() != 3 {
						t.Errorf("message %d: flag %d, born %d by %v, consumed %d times, properties %q", i, v.Flag(), v.BornMillis(), v.BornHost(), v.ReconsumeTimes(), v.Properties())
					}
				}
				// The copy has the tag code of its tags, not a time.
				if u := w.s.Units(nil, w.s.Queue("orders", 3), 0, 1); u[0].TagsCode != 2598919 {
					t.Errorf("tag code %d", u[0].TagsCode)
				}
				w.end()
			})
		})
	}
}

// Kill and start again in the middle: nothing is lost, and what was delivered
// more than about a second before is not delivered twice.
func TestStoreKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := openWorld(t, mem, false, time.Now)
		for i := range 10 {
			w.delay(1, fmt.Sprint("early ", i))
		}
		wait(5 * time.Second)
		for i := range 10 {
			w.delay(1, fmt.Sprint("late ", i))
		}
		wait(time.Second + 100*time.Millisecond)
		w.delay(2, "pending")
		if n := len(messagesOf(t, w.s, "orders", 3)); n != 20 {
			t.Fatalf("%d delivered before the kill", n)
		}
		killed := mem.ProcessKillClone()
		w.end()
		w = openWorld(t, killed, false, time.Now)
		wait(10 * time.Second)
		count := map[string]int{}
		for _, v := range messagesOf(t, w.s, "orders", 3) {
			count[string(v.Body())]++
		}
		for i := range 10 {
			if n := count[fmt.Sprint("early ", i)]; n != 1 {
				t.Errorf("early %d came %d times", i, n)
			}
			if n := count[fmt.Sprint("late ", i)]; n < 1 || n > 2 {
				t.Errorf("late %d came %d times", i, n)
			}
		}
		if count["pending"] != 1 {
			t.Errorf("pending came %d times", count["pending"])
		}
		w.end()
	})
}

// A clean stop leaves nothing to be delivered twice.
func TestStoreCleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := openWorld(t, mem, false, time.Now)
		w.delay(1, "a")
		w.delay(2, "b")
		wait(time.Second) // stops at the moment of delivery
		w.end()
		w = openWorld(t, mem, false, time.Now)
		wait(10 * time.Second)
		if got := messagesOf(t, w.s, "orders", 3); len(got) != 2 {
			t.Errorf("%d messages arrived", len(got))
		}
		w.end()
	})
}

// Whatever a power loss leaves, a message stored under synchronous flush is
// delivered in the end.
func TestStorePowerLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := openWorld(t, mem, true, time.Now)
		sent := 0
		rng := rand.New(rand.NewPCG(5, 6))
		for round := range 12 {
			for range 3 {
				w.delay(1, fmt.Sprint(sent))
				sent++
			}
			wait(time.Duration(rng.IntN(1500)) * time.Millisecond)
			lost := mem.CrashClone(rng, vfs.CrashOptions{})
			after := openWorld(t, lost, true, time.Now)
			wait(3 * time.Second)
			found := map[string]bool{}
			for _, v := range messagesOf(t, after.s, "orders", 3) {
				found[string(v.Body())] = true
			}
			for i := range sent {
				if !found[fmt.Sprint(i)] {
					t.Errorf("round %d: message %d of %d is lost", round, i, sent)
				}
			}
			after.end()
		}
		w.end()
	})
}

// golden unpacks a store folder that RocketMQ 5.3.3 wrote.
func golden(t testing.TB, name string) *vfs.Mem {
	t.Helper()
	return vfstest.Folder(t, path.Join("../../testdata/store", name+".tar.gz"))
}

// recorded is a clock that starts shortly after the golden stores were made.
func recorded(t testing.TB) func() time.Time {
	t.Helper()
	start, then := time.Now(), time.UnixMilli(1795969600000)
	return func() time.Time { return then.Add(time.Since(start)) }
}

// The progress RocketMQ saved is read, and what was pending falls due.
func TestGoldenPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, golden(t, "clean"), false, recorded(t))
		if got := fmt.Sprint(w.d.Progress()); got != "map[1:[2 2] 2:[1 1] 3:[2 2] 18:[0 3]]" {
			t.Errorf("progress %s", got)
		}
		wait(time.Minute)
		if n := len(messagesOf(t, w.s, "reminders", 0)); n != 3 {
			t.Errorf("%d reminders before anything is due", n)
		}
		wait(2 * time.Hour)
		got := messagesOf(t, w.s, "reminders", 0)
		if len(got) != 6 {
			t.Fatalf("%d reminders", len(got))
		}
		// The index entry of the last one says 1795976706624.
		if at := got[5].StoreMillis(); at < 1795976706624 || at > 1795976706624+10 {
			t.Errorf("delivered at %d", at)
		}
		w.end()
	})
}

// Delivered again, the messages become the bytes that RocketMQ delivered, but
// for their place and time in the log.
func TestGoldenSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := golden(t, "clean")
		for _, name := range []string{"delayOffset.json", "delayOffset.json.bak"} {
			if err := mem.Remove("/store/config/" + name); err != nil {
				t.Fatal(err)
			}
		}
		w := openWorld(t, mem, false, recorded(t))
		wait(time.Minute)
		for _, c := range []struct {
			topic string
			queue int32
			count int
		}{{"reminders", 0, 3}, {"%RETRY%audit", 0, 1}, {"%RETRY%audit", 1, 1}} {
			got := messagesOf(t, w.s, c.topic, c.queue)
			if len(got) != 2*c.count {
				t.Errorf("%s-%d: %d messages, want %d of RocketMQ and as many of ours", c.topic, c.queue, len(got), c.count)
				continue
			}
			for i := range c.count {
				theirs, ours := bytes.Clone(got[i].Raw()), bytes.Clone(got[c.count+i].Raw())
				for _, b := range [][]byte{theirs, ours} {
					record.Patch(b, 0, 0, 0)
				}
				if !bytes.Equal(theirs, ours) {
					t.Errorf("%s-%d, message %d:\n%q\nRocketMQ delivered\n%q", c.topic, c.queue, i, ours, theirs)
				}
			}
		}
		w.end()
	})
}
