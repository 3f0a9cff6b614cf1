package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// sent is one message of a script.
type sent struct {
	id      int
	topic   string
	queue   int32
	offset  record.QueueOffset
	end     int64 // position behind its record
	epoch   int   // how often the topic had been deleted before
	acked   bool
	durable bool // acknowledged under sync flush, or flushed since
}

// model is what the store promised so far.
type model struct {
	sent    []*sent
	epochs  map[string]int // completed deletions of a topic
	pending map[string]int // with one under way
}

func (m *model) clone() *model {
	c := &model{epochs: map[string]int{}, pending: map[string]int{}}
	for _, s := range m.sent {
		dup := *s
		c.sent = append(c.sent, &dup)
	}
	for t, n := range m.epochs {
		c.epochs[t] = n
	}
	for t, n := range m.pending {
		c.pending[t] = n
	}
	return c
}

// script runs a random history. It is deterministic for a seed.
type script struct {
	t    *testing.T
	rng  *rand.Rand
	o    store.Options
	s    *store.Store
	m    *model
	next int
	b    store.Batch
}

var scriptTopics = []string{"orders", "bills", "%RETRY%audit", "SCHEDULE_TOPIC_XXXX"}

func (sc *script) run(steps int) {
	sc.s, _ = open(sc.t, sc.o)
	for range steps {
		switch n := sc.rng.IntN(100); {
		case n < 60:
			sc.send()
		case n < 72:
			sc.s.FlushOnce()
			sc.flushed()
		case n < 84:
			sc.s.KeepOnce()
		case n < 90:
			if err := sc.s.Mark(); err != nil {
				sc.t.Fatal(err)
			}
			sc.flushed()
		case n < 94:
			if err := sc.s.PrepareNext(); err != nil {
				sc.t.Fatal(err)
			}
		case n < 97:
			sc.delete()
		default:
			closeStore(sc.t, sc.s)
			sc.flushed()
			sc.s, _ = open(sc.t, sc.o)
		}
	}
	closeStore(sc.t, sc.s)
	sc.flushed()
}

// send appends a burst with single messages and client batches.
func (sc *script) send() {
	sc.b.Reset()
	first := len(sc.m.sent)
	group := int32(0)
	for range 1 + sc.rng.IntN(6) {
		topic := scriptTopics[sc.rng.IntN(len(scriptTopics))]
		id := int32(sc.rng.IntN(2))
		n := 1
		group = 0
		if sc.rng.IntN(4) == 0 {
			n, group = 1+sc.rng.IntN(4), int32(len(sc.b.Items)+1)
		}
		for range n {
			sc.next++
			body := fmt.Sprintf("%d %s", sc.next, bytes.Repeat([]byte("x"), sc.rng.IntN(400)))
			d := draft(topic, id, body, "UNIQ_KEY", "u"+strconv.Itoa(sc.next), "TAGS", "t", "DELAY", "3",
				"FILL", string(bytes.Repeat([]byte("p"), 1+sc.rng.IntN(300))))
			sc.b.Add(sc.s, sc.s.Queue(topic, id), d, group)
			sc.m.sent = append(sc.m.sent, &sent{id: sc.next, topic: topic, queue: id, epoch: sc.m.epochs[topic]})
		}
	}
	sc.s.AppendAll(&sc.b)
	for i := range sc.b.Items {
		it, m := &sc.b.Items[i], sc.m.sent[first+i]
		if it.Status != store.PutOK {
			sc.t.Fatalf("message %d: %v", m.id, it.Status)
		}
		m.offset, m.end = it.QueueOffset, int64(it.Phys)+int64(it.Size)
	}
	if sc.o.SyncFlush {
		done := make(chan store.Status, 1)
		sc.s.WaitFlushed(sc.b.End(), chanWaiter(done))
		if st := <-done; st != store.PutOK {
			sc.t.Fatalf("flush: %v", st)
		}
		sc.flushed()
	}
	for _, m := range sc.m.sent[first:] {
		m.acked = true
		m.durable = m.durable || sc.o.SyncFlush
	}
}

type chanWaiter chan store.Status

func (c chanWaiter) Flushed(st store.Status) { c <- st }

func (sc *script) flushed() {
	f := int64(sc.s.Positions().Flushed)
	for _, m := range sc.m.sent {
		if m.end > 0 && m.end <= f {
			m.durable = true
		}
	}
}

func (sc *script) delete() {
	topic := scriptTopics[sc.rng.IntN(len(scriptTopics))]
	sc.m.pending[topic] = sc.m.epochs[topic] + 1
	if err := sc.s.DeleteTopic(topic); err != nil {
		sc.t.Fatal(err)
	}
	sc.m.epochs[topic]++
}

// verify opens what a crash left and compares it with the model.
func verify(t *testing.T, o store.Options, m *model, power bool) {
	t.Helper()
	s, rec := open(t, o)
	byID := map[int]*sent{}
	for _, x := range m.sent {
		byID[x.id] = x
	}
	found := map[int]bool{}
	for _, topic := range s.QueueTopics() {
		for _, q := range s.Queues(topic) {
			verifyQueue(t, s, q, m, byID, found, power)
		}
	}
	for _, x := range m.sent {
		must := x.acked && (!power || x.durable) && x.epoch == m.epochs[x.topic] && m.pending[x.topic] <= m.epochs[x.topic]
		if must && !found[x.id] {
			t.Errorf("message %d (%s-%d at %d, behind it %d) is lost", x.id, x.topic, x.queue, x.offset, x.end)
		}
		if !must || t.Failed() {
			continue
		}
		key := "u" + strconv.Itoa(x.id)
		if _, res := s.Query(nil, x.topic, key, 10, 0, 1<<60, true); res.Count != 1 {
			t.Errorf("message %d is found %d times by its key", x.id, res.Count)
		}
	}
	if t.Failed() {
		t.Fatalf("recovery was %+v", rec)
	}
	closeStore(t, s)
	again, rec := open(t, o)
	if !rec.Clean || rec.CutBytes > 0 || len(rec.Notes) > 0 {
		t.Fatalf("second start: %+v", rec)
	}
	count := 0
	for _, topic := range again.QueueTopics() {
		for _, q := range again.Queues(topic) {
			count += len(readAll(t, again, q))
		}
	}
	if count != len(found) {
		t.Fatalf("second start: %d messages, the first had %d", count, len(found))
	}
	closeStore(t, again)
}

func verifyQueue(t *testing.T, s *store.Store, q *store.Queue, m *model, byID map[int]*sent, found map[int]bool, power bool) {
	t.Helper()
	want := q.Min()
	for _, v := range readAll(t, s, q) {
		if v.QueueOffset() < want || v.QueueOffset() > want && !power {
			t.Errorf("%s-%d: message %d where %d should be", q.Topic(), q.ID(), v.QueueOffset(), want)
		}
		want = v.QueueOffset() + 1
		if err := v.CheckCRC(); err != nil {
			t.Errorf("%s-%d: message %d: %v", q.Topic(), q.ID(), v.QueueOffset(), err)
		}
		if x := byID[bodyID(v)]; bytes.IndexByte(v.Properties(), 0) >= 0 && (!power || x != nil && x.durable) {
			t.Errorf("%s-%d: message %d has torn properties", q.Topic(), q.ID(), v.QueueOffset())
		}
		id := bodyID(v)
		x := byID[id]
		if x == nil || x.topic != q.Topic() || x.queue != q.ID() {
			t.Errorf("%s-%d: message %d is %d, which was not sent there", q.Topic(), q.ID(), v.QueueOffset(), id)
			continue
		}
		if found[id] {
			t.Errorf("message %d is there twice", id)
		}
		found[id] = true
		if x.epoch < m.epochs[x.topic] {
			t.Errorf("message %d of the deleted topic %s came back", id, x.topic)
		}
		if x.acked && x.offset != v.QueueOffset() {
			t.Errorf("message %d moved from %d to %d", id, x.offset, v.QueueOffset())
		}
	}
	if want != q.Max() {
		t.Errorf("%s-%d: the last message is %d but the end %d", q.Topic(), q.ID(), want-1, q.Max())
	}
}

// bodyID is the number a body begins with.
func bodyID(v record.View) int {
	text, _, _ := bytes.Cut(v.Body(), []byte(" "))
	id, err := strconv.Atoi(string(text))
	if err != nil {
		return -1
	}
	return id
}

// TestCrashAtEveryOperation cuts a script before every operation that changes
// the disk, as kill -9 and as a power loss. More histories: CRASH_SEEDS=20.
func TestCrashAtEveryOperation(t *testing.T) {
	seeds, steps := 2, 40
	if testing.Short() {
		seeds = 1
	}
	if n, err := strconv.Atoi(os.Getenv("CRASH_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/sync=%v", seed, sync), func(t *testing.T) { crashScript(t, uint64(seed), sync, steps) })
		}
	}
}

// powerLosses are what a power loss can do to what was not synced.
var powerLosses = []vfs.CrashOptions{
	{Data: vfs.FateLost, Names: vfs.FateLost}, {Data: vfs.FateLost, Names: vfs.FateKept},
	{Data: vfs.FateKept, Names: vfs.FateLost}, {}, {ReorderNames: true},
}

func crashScript(t *testing.T, seed uint64, sync bool, steps int) {
	mem := vfs.NewMem()
	inj := vfs.NewInjector(mem)
	o := small(inj)
	o.SyncFlush = sync
	sc := &script{t: t, rng: rand.New(rand.NewPCG(seed, 1)), o: o, m: &model{epochs: map[string]int{}, pending: map[string]int{}}}
	cut := 0
	busy := false
	inj.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() || busy || t.Failed() {
			return
		}
		busy = true
		defer func() { busy = false }()
		cut++
		if raceDetector && cut%8 != 0 {
			return
		}
		at := fmt.Sprintf("seed %d, cut %d before %s %s", seed, cut, op, path)
		ok := o
		ok.FS = mem.ProcessKillClone()
		run(t, at+" (kill)", func() { verify(t, ok, sc.m.clone(), false) })
		rng := rand.New(rand.NewPCG(seed, uint64(cut)))
		for n, c := range powerLosses {
			if n != cut%len(powerLosses) && n != (cut+2)%len(powerLosses) {
				continue // each cut gets two of them
			}
			ok.FS = mem.CrashClone(rng, c)
			run(t, fmt.Sprintf("%s (power %d)", at, n), func() { verify(t, ok, sc.m.clone(), true) })
		}
	}
	sc.run(steps)
	t.Logf("%d cuts", cut)
}

// run names the cut if something fails.
func run(t *testing.T, name string, f func()) {
	t.Helper()
	if t.Failed() {
		return
	}
	defer func() {
		if t.Failed() {
			t.Log(name)
		}
	}()
	f()
}
