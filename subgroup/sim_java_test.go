package subgroup_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// TestJavaMasterSim lets a slave of ours follow an Apache master that is killed, reset and
// committed to, while consumers commit at the slave too.
func TestJavaMasterSim(t *testing.T) {
	run := func(seed uint64) {
		w := newPair(seed)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\nagain: go test ./subgroup -run 'TestJavaMasterSim$' -sim.seed=%d -v\n%s", seed, err, seed, strings.Join(w.log, "\n"))
		}
	}
	if *simSeed >= 0 {
		run(uint64(*simSeed))
		return
	}
	n := *simSeeds
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		run(uint64(seed))
	}
}

// pair is a slave of ours under an Apache master. In half of the worlds nobody
// moves progress back; there it must not fall anywhere but by a crash.
type pair struct {
	rnd    *rand.Rand
	now    int64
	disk   *vfs.Mem
	o      *subgroup.Offsets
	know   *subgroup.PlainMaster
	calm   bool // nobody moves progress back
	boot   int64
	master map[int32]int64
	saved  map[int32]int64 // at the master
	waits  map[int32]bool  // a server-side reset there swallows commits
	pos    map[int32]int64 // of the consumers
	here   map[int32]int64 // what the slave had after the last step
	log    []string
}

func newPair(seed uint64) *pair {
	w := &pair{rnd: rand.New(rand.NewPCG(seed, 5)), now: 1_700_000_000_000, disk: vfs.NewMem(), boot: 1,
		master: map[int32]int64{}, waits: map[int32]bool{}, pos: map[int32]int64{}}
	w.calm = w.rnd.IntN(2) == 0
	w.load()
	return w
}

func (w *pair) load() {
	o, err := subgroup.LoadOffsets(w.disk, "/s", func() int64 { return w.now }, func() int64 { return w.now })
	if err != nil {
		panic(err)
	}
	w.o, w.know = o, subgroup.NewPlainMaster(o)
	w.here = o.Queues("g", "t")
}

func (w *pair) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *pair) run() error {
	for range 20 + w.rnd.IntN(100) {
		w.step()
		here := w.o.Queues("g", "t")
		for q, was := range w.here {
			if is, ok := here[q]; w.calm && (!ok || is < was) {
				return fmt.Errorf("queue %d fell from %d to %d (%v), and nobody moved it", q, was, is, ok)
			}
		}
		w.here = here
	}
	clear(w.waits)
	top := maps.Clone(w.here)
	for range 20 {
		w.take(false)
	}
	here := w.o.Queues("g", "t")
	if len(here) != len(w.master) {
		return fmt.Errorf("in the end %v at the slave, %v at the master", here, w.master)
	}
	for q, off := range here {
		if w.master[q] != off {
			return fmt.Errorf("in the end %v at the slave, %v at the master", here, w.master)
		}
		if w.calm && off < top[q] {
			return fmt.Errorf("queue %d fell from %d to %d in the end", q, top[q], off)
		}
	}
	return nil
}

func (w *pair) step() {
	q := int32(w.rnd.IntN(3))
	w.now += int64(w.rnd.IntN(3000))
	switch n := w.rnd.IntN(20); {
	case n < 5:
		w.pos[q] = max(w.pos[q], w.master[q]) + int64(w.rnd.IntN(5))
		if !w.waits[q] {
			w.master[q] = w.pos[q]
		}
		w.say("commit %d of %d at the master", w.pos[q], q)
	case n < 9:
		w.pos[q] += int64(w.rnd.IntN(5))
		out := w.o.CommitChecked(&subgroup.Commit{Group: []byte("g"), Topic: []byte("t"), Queue: q, Offset: w.pos[q], Client: 1,
			Member: true, AnyMember: true, QueueMax: -1, NowMillis: w.now})
		w.say("commit %d of %d at the slave: %d", w.pos[q], q, out)
	case n < 10:
		w.saved = maps.Clone(w.master)
		w.say("the master saves")
	case n < 11:
		w.master, w.boot = maps.Clone(w.saved), w.boot+1
		if w.master == nil {
			w.master = map[int32]int64{}
		}
		clear(w.waits)
		w.say("the master is killed, has %v", w.master)
	case n < 12 && !w.calm:
		if _, has := w.master[q]; has {
			w.master[q] = int64(w.rnd.IntN(20))
			w.waits[q] = w.rnd.IntN(2) == 0
			w.say("reset of %d to %d at the master", q, w.master[q])
		}
	case n < 13 && !w.calm:
		target := int64(w.rnd.IntN(20))
		w.o.Reset("g", "t", q, target, w.rnd.IntN(2) == 0)
		w.pos[q] = target
		w.say("reset of %d to %d at the slave", q, target)
	case n < 14:
		if err := w.o.Persist(); err != nil {
			panic(err)
		}
		if w.rnd.IntN(3) == 0 {
			w.load()
			w.say("the slave stops and starts")
		}
	case n < 15:
		clear(w.waits)
	default:
		w.take(w.rnd.IntN(4) == 0)
	}
}

// take is one round of the slave; with trouble the commits do not arrive.
func (w *pair) take(trouble bool) {
	var table []subgroup.ProgressRecord
	for q, off := range w.master {
		table = append(table, subgroup.ProgressRecord{Topic: "t", Group: "g", Queue: q,
			Progress: subgroup.Progress{Offset: off, Unknown: true, Source: subgroup.FromCommit}})
	}
	push, changed := w.know.Take(table, w.boot)
	w.say("take %v (boot %d): %d changed, slave %v, %d to send (trouble: %v)", w.master, w.boot, changed, w.o.Queues("g", "t"), len(push), trouble)
	for i := range push {
		r := &push[i]
		if trouble {
			continue
		}
		if !w.waits[r.Queue] {
			w.master[r.Queue] = r.Offset
		}
		w.know.Sent(r)
	}
}
