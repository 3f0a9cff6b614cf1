package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// follower is a random history of a replica: bursts that end anywhere, cuts of the
// log, after which another master goes on, and logs set aside.
type follower struct {
	t     *testing.T
	rng   *rand.Rand
	o     store.Options
	s     *store.Store
	truth []byte // of the master, from position base on
	base  int64
	next  int // number of the next message

	end     int64 // of the replica's log
	durable int64
	cutAt   int64 // a cut there is under way; -1: none
	aside   bool  // the log is being set aside
}

// grow lets a master write n messages more, with bytes between the last one and the
// file's end that an old Apache would have left there.
func (f *follower) grow(n int) {
	s, _ := open(f.t, replica(vfs.NewMem()))
	if err := s.StartAt(record.PhysOffset(f.base)); err != nil {
		f.t.Fatal(err)
	}
	for b := f.truth; len(b) > 0; {
		k, err := s.AppendRaw(b)
		if err != nil || k == 0 {
			f.t.Fatalf("grow at %d: %d, %v", len(f.truth)-len(b), k, err)
		}
		b = b[k:]
	}
	s.SetReplica(false)
	if f.rng.IntN(4) == 0 {
		if err := s.DeleteTopic("t0"); err != nil { // and it is made again
			f.t.Fatal(err)
		}
	}
	for range n {
		f.next++
		put(f.t, s, fmt.Sprintf("t%d", f.rng.IntN(3)), int32(f.rng.IntN(2)), fmt.Sprintf("%d %s", f.next, bytes.Repeat([]byte("x"), f.rng.IntN(600))),
			"UNIQ_KEY", "u"+strconv.Itoa(f.next))
	}
	old := len(f.truth)
	f.truth = rawBytes(f.t, s)
	closeStore(f.t, s)
	fillPadding(f.truth, f.base, old, f.rng)
}

// fillPadding puts something behind the blanks that begin at or behind from.
func fillPadding(b []byte, base int64, from int, rng *rand.Rand) {
	for at := 0; at < len(b); {
		if left, ok := record.Blank(b[at:]); ok {
			for i := at + 8; i < at+int(left) && i < len(b); i++ {
				if at >= from {
					b[i] = byte(rng.IntN(256))
				}
			}
			at += int(left)
			continue
		}
		v, err := record.Parse(b[at:])
		if err != nil {
			panic(fmt.Sprintf("at %d: %v", base+int64(at), err))
		}
		at += v.Size()
	}
}

// starts lists where records begin in the part of the truth that the replica has.
func (f *follower) starts() []int64 {
	var out []int64
	for at := int64(0); at < f.end-f.base; {
		if left, ok := record.Blank(f.truth[at:]); ok {
			at += int64(left)
			continue
		}
		v, err := record.Parse(f.truth[at:])
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, f.base+at)
		at += int64(v.Size())
	}
	return out
}

func (f *follower) run(steps int) {
	f.cutAt = -1
	f.grow(10)
	f.s, _ = open(f.t, f.o)
	for range steps {
		switch n := f.rng.IntN(100); {
		case n < 55:
			f.append()
		case n < 62:
			f.s.FlushOnce()
			f.durable = f.end
		case n < 72:
			f.s.KeepOnce()
		case n < 78:
			if err := f.s.Mark(); err != nil {
				f.t.Fatal(err)
			}
			f.durable = f.end
		case n < 82:
			f.grow(1 + f.rng.IntN(8))
		case n < 91:
			f.truncate()
		case n < 93:
			f.setAside()
		default:
			closeStore(f.t, f.s)
			f.durable = f.end
			f.s, _ = open(f.t, f.o)
			f.end = int64(f.s.Positions().Max) // an unfinished blank is taken back
		}
		f.durable = min(f.durable, f.end)
	}
	closeStore(f.t, f.s)
}

func (f *follower) append() {
	have := f.truth[f.end-f.base:]
	have = have[:min(len(have), 1+f.rng.IntN([]int{200, 2500}[f.rng.IntN(2)]))]
	if f.end == f.base {
		if err := f.s.StartAt(record.PhysOffset(f.base)); err != nil {
			f.t.Fatal(err)
		}
	}
	// What is taken may be on disk from now on, but need not.
	before := f.end
	n, err := f.s.AppendRaw(have)
	if err != nil {
		f.t.Fatalf("append %d bytes at %d: %v", len(have), before, err)
	}
	f.end += int64(n)
	if got := int64(f.s.Positions().Max); got != f.end {
		f.t.Fatalf("the log ends at %d, want %d", got, f.end)
	}
	if f.end == f.base+int64(len(f.truth)) {
		f.grow(5)
	}
}

func (f *follower) truncate() {
	starts := f.starts()
	if len(starts) == 0 {
		return
	}
	p := starts[f.rng.IntN(len(starts))]
	old := bytes.Clone(f.truth[p-f.base : f.end-f.base])
	f.cutAt = p
	a, err := f.s.TruncateTo(record.PhysOffset(p))
	if err != nil {
		f.t.Fatalf("cut at %d: %v", p, err)
	}
	kept, err := vfs.ReadFile(f.o.FS, a.Path, 1<<20)
	if err != nil || !bytes.Equal(kept, old) || a.Bytes != int64(len(old)) || a.From != record.PhysOffset(p) {
		f.t.Fatalf("set aside %+v: %d bytes, want %d, %v", a, len(kept), len(old), err)
	}
	f.end, f.cutAt = p, -1
	f.durable = min(f.durable, p)
	if got := int64(f.s.Positions().Max); got != p {
		f.t.Fatalf("cut at %d: the log ends at %d", p, got)
	}
	f.truth = f.truth[:p-f.base]
	f.grow(6)
	f.compare(f.s, f.end)
}

func (f *follower) setAside() {
	f.aside = true
	a, err := f.s.SetAside()
	if err != nil {
		f.t.Fatalf("set aside: %v", err)
	}
	if f.end > f.base {
		if a.Bytes != f.end-f.base || a.From != record.PhysOffset(f.base) {
			f.t.Fatalf("set aside %+v, the log had %d to %d", a, f.base, f.end)
		}
	}
	if pos := f.s.Positions(); pos.Min != pos.Max {
		f.t.Fatalf("after setting aside: %+v", pos)
	}
	for _, topic := range f.s.QueueTopics() {
		for _, q := range f.s.Queues(topic) {
			if q.Max() != 0 {
				f.t.Fatalf("%s-%d has %d messages after setting aside", topic, q.ID(), q.Max())
			}
		}
	}
	f.base = int64(f.rng.IntN(3)) * 4096
	f.truth = nil
	f.end, f.durable = f.base, f.base
	f.aside = false
	f.grow(10)
}

// compare checks the replica's bytes and queues against those of a fresh one that
// got the same bytes.
func (f *follower) compare(s *store.Store, end int64) {
	f.t.Helper()
	if got := rawBytes(f.t, s); !bytes.Equal(got, f.truth[:end-f.base]) {
		f.t.Fatalf("the log of %d bytes is no prefix of the master's", len(got))
	}
	fresh, _ := open(f.t, replica(vfs.NewMem()))
	if err := fresh.StartAt(record.PhysOffset(f.base)); err != nil {
		f.t.Fatal(err)
	}
	for b := f.truth[:end-f.base]; len(b) > 0; {
		n, err := fresh.AppendRaw(b)
		if err != nil || n == 0 {
			f.t.Fatalf("fresh: %d, %v", n, err)
		}
		b = b[n:]
	}
	s.SyncLog()
	s.Dispatch()
	sameUnits(f.t, s, fresh)
	sameUnits(f.t, fresh, s)
	closeStore(f.t, fresh)
}

// verify opens what a crash left.
func (f *follower) verify(o store.Options, power bool) {
	f.t.Helper()
	s, rec := open(f.t, o)
	defer func() {
		if f.t.Failed() {
			f.t.Logf("recovery: %+v", rec)
		}
	}()
	pos := s.Positions()
	end := int64(pos.Max)
	if f.aside && pos.Min == pos.Max || f.end == f.base && pos.Min == pos.Max {
		closeStore(f.t, s)
		return
	}
	if pos.Min == pos.Max {
		if f.durable > f.base && (f.cutAt < 0 || f.cutAt > f.base) {
			f.t.Fatalf("the log is empty, %d were safe", f.durable)
		}
		closeStore(f.t, s)
		return
	}
	if int64(pos.Min) != f.base {
		f.t.Fatalf("the log begins at %d, want %d", pos.Min, f.base)
	}
	low := f.end
	if power {
		low = f.durable
	}
	low = f.wholeBefore(low)
	if f.cutAt >= 0 && end != f.cutAt && end < low {
		f.t.Fatalf("the log ends at %d, neither where it is cut (%d) nor at %d", end, f.cutAt, low)
	}
	if f.cutAt < 0 && end < low {
		f.t.Fatalf("the log ends at %d, %d were there", end, low)
	}
	f.compare(s, end)
	// The master goes on where the replica is.
	rest := f.truth[end-f.base:]
	for len(rest) > 0 {
		n, err := s.AppendRaw(rest)
		if err != nil {
			f.t.Fatalf("go on at %d: %v", end, err)
		}
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	f.compare(s, int64(s.Positions().Max))
	for i := range f.next {
		key := "u" + strconv.Itoa(i)
		for _, topic := range s.QueueTopics() {
			if _, res := s.Query(nil, topic, key, 10, 0, 1<<60, true); res.Count > 1 {
				f.t.Fatalf("%s is found %d times", key, res.Count)
			}
		}
	}
	closeStore(f.t, s)
}

// wholeBefore is end, or where a blank begins whose padding ends there or
// behind: it may be taken back.
func (f *follower) wholeBefore(end int64) int64 {
	for at := int64(0); at < end-f.base; {
		if left, ok := record.Blank(f.truth[at:]); ok {
			if f.base+at+int64(left) >= end {
				return f.base + at
			}
			at += int64(left)
			continue
		}
		v, err := record.Parse(f.truth[at:])
		if err != nil {
			f.t.Fatal(err)
		}
		at += int64(v.Size())
	}
	return end
}

// TestReplicaCrashAtEveryOperation cuts a replica's history before every
// operation that changes the disk.
func TestReplicaCrashAtEveryOperation(t *testing.T) {
	seeds, steps := 2, 50
	if testing.Short() {
		seeds = 1
	}
	if n, err := strconv.Atoi(os.Getenv("CRASH_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/sync=%v", seed, sync), func(t *testing.T) { followScript(t, uint64(seed), sync, steps) })
		}
	}
}

func followScript(t *testing.T, seed uint64, sync bool, steps int) {
	mem := vfs.NewMem()
	inj := vfs.NewInjector(mem)
	o := replica(inj)
	o.SyncFlush = sync
	f := &follower{t: t, rng: rand.New(rand.NewPCG(seed, 2)), o: o}
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
		run(t, at+" (kill)", func() { f.verify(ok, false) })
		rng := rand.New(rand.NewPCG(seed, uint64(cut)))
		n := cut % len(powerLosses)
		ok.FS = mem.CrashClone(rng, powerLosses[n])
		run(t, fmt.Sprintf("%s (power %d)", at, n), func() { f.verify(ok, true) })
	}
	f.run(steps)
	t.Logf("%d cuts", cut)
}

// TestPaddingSurvivesCrashes feeds a log byte by byte and kills the replica after
// each: whatever padding was lost, no blank says that its file is complete.
func TestPaddingSurvivesCrashes(t *testing.T) {
	f := &follower{t: t, rng: rand.New(rand.NewPCG(3, 2))}
	f.grow(40)
	mem := vfs.NewMem()
	s, _ := open(t, replica(mem))
	have := 0
	for i := 0; i < len(f.truth); {
		have++
		n, err := s.AppendRaw(f.truth[i:min(len(f.truth), i+have)])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			continue
		}
		i, have = i+n, 0
		// Paddings lie at the ends of files; a prime step meets every residue there.
		if at := i % 4096; at < 3000 && i%251 != 0 || at >= 3000 && i%7 != 0 {
			continue
		}
		if i%100 == 0 {
			s.FlushOnce()
		}
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		for _, fs := range []vfs.FS{mem.ProcessKillClone(), mem.CrashClone(rng, vfs.CrashOptions{})} {
			c, rec := open(t, replica(fs))
			if got := rawBytes(t, c); !bytes.HasPrefix(f.truth, got) {
				t.Fatalf("killed at %d: %d bytes that are no prefix, %+v", i, len(got), rec)
			}
			closeStore(t, c)
			c, _ = open(t, replica(fs))
			end := c.Positions().Max
			if _, err := c.AppendRaw(f.truth[end:]); err != nil || !bytes.Equal(rawBytes(t, c), f.truth) {
				t.Fatalf("killed at %d, going on at %d: %v", i, end, err)
			}
			closeStore(t, c)
		}
	}
}

// TestCutTailStaysAway: what a replica cut off behind damage, because its master has it,
// does not line up behind new records of the same length that another master sends. In a
// master nothing whole is ever cut: what can be read behind damage is kept behind a hole.
func TestCutTailStaysAway(t *testing.T) {
	log := func(tag string) ([]byte, []int) {
		o := small(vfs.NewMem())
		o.Now = func() time.Time { return time.UnixMilli(1735689600000) }
		s, _ := open(t, o)
		var ends []int
		for i := range 6 {
			body := "same"
			if i >= 2 {
				body = tag
			}
			put(t, s, "t", 0, body)
			ends = append(ends, int(s.Positions().Max))
		}
		defer closeStore(t, s)
		return rawBytes(t, s), ends
	}
	old, ends := log("old!")
	other, _ := log("new!")
	mem := vfs.NewMem()
	s, _ := open(t, replica(mem))
	for _, b := range [][]byte{old[:ends[1]], old[ends[1]:]} {
		if n, err := s.AppendRaw(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
		if len(b) == ends[1] {
			if err := s.Mark(); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := mem.ProcessKillClone()
	f, err := left.OpenReadWrite(logName(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 20), int64(ends[2]-20)); err != nil { // as a power loss may
		t.Fatal(err)
	}
	s, _ = open(t, replica(left))
	if got := int(s.Positions().Max); got != ends[1] {
		t.Fatalf("the log ends at %d, want %d", got, ends[1])
	}
	if n, err := s.AppendRaw(other[ends[1]:ends[2]]); n != ends[2]-ends[1] || err != nil {
		t.Fatal(n, err)
	}
	s, _ = open(t, replica(left.ProcessKillClone()))
	defer closeStore(t, s)
	if got := int(s.Positions().Max); got != ends[2] {
		t.Errorf("the log ends at %d, want %d: what was cut is back", got, ends[2])
	}
}
