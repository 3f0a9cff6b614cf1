package store_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

const simDefault = 2000

var (
	simSeeds = flag.Int("sim.seeds", simDefault, "seeds of the simulation of crashes")
	simFrom  = flag.Int64("sim.from", 0, "the first of them")
	simSeed  = flag.Int64("sim.seed", -1, "run one seed of it, and say what happens")
)

// TestCrashSim lets a store and two config files live several lives on one disk:
// random sends (also to batch queues, and with extensions of queues), flushes, deletions,
// retention, saves and stops; operations of the disk that fail, on any kind of file, also
// within a start; each life ended by a stop, by kill -9 or by a power loss, before any operation
// of the disk, also within a recovery. After each it checks what check says.
//
// It can fail. The first seed that found each of these mutations:
//
//   - a sync of the log that does nothing (commitlog.Log.Sync): 0
//   - a new file of the log whose name is not synced (commitlog.Log.makeSegment): 2
//   - an answer before the flush (Store.WaitFlushed): 0
//   - a rename before the sync of the file: progress (writeProgress) 5, tables (table.File.Save) 0
//   - a snapshot of the queues before their units (Store.keepOnce): 1
func TestCrashSim(t *testing.T) { simulate(t, "TestCrashSim", 0) }

// TestJoinedCrashSim is the same with several connections, whose small sends are written to the
// log together (join.go): none of them is lost, none is there twice, and those of each
// connection keep their order. It finds these mutations, with the first seed:
//
//   - a joint write that fails counts as done (Store.appendJoined): 28
//   - the numbers of one that fails are not taken back: 28
//   - only the first batch of it is dispatched: 1
func TestJoinedCrashSim(t *testing.T) { simulate(t, "TestJoinedCrashSim", simConnections) }

// simConnections is how many connections send together at most.
const simConnections = 4

func simulate(t *testing.T, name string, connections int) {
	newSim := func(seed uint64, talk bool) *sim {
		w := newSim(seed, talk)
		w.connections = connections
		return w
	}
	if *simSeed >= 0 {
		w := newSim(uint64(*simSeed), true)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\n%s", *simSeed, err, strings.Join(w.trace, "\n"))
		}
		t.Log(strings.Join(w.trace, "\n"))
		return
	}
	n := int64(*simSeeds)
	if n == simDefault && connections > 0 {
		n /= 4
	}
	if testing.Short() || raceDetector {
		n /= 10
	}
	end := *simFrom + n
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // all garbage is small and short-lived,
	// but what closed stores leave in pools lives for two collections, and grew with the heap.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	var next atomic.Int64
	next.Store(*simFrom)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < end && !t.Failed(); seed = next.Add(1) - 1 {
				if err := newSim(uint64(seed), false).run(); err != nil {
					simFailure(t, name, newSim(uint64(seed), true), uint64(seed), err)
				}
			}
		})
	}
	wg.Wait()
}

// simFailure repeats a seed that failed, to tell its story.
func simFailure(t *testing.T, name string, w *sim, seed uint64, err error) {
	again := w.run()
	if again == nil || again.Error() != err.Error() {
		t.Errorf("seed %d is not repeatable: it failed with %q, now with %q", seed, err, again)
	}
	story := w.trace[max(0, len(w.trace)-60):]
	t.Errorf("seed %d: %v\nagain: go test ./store -run '%s$' -sim.seed=%d -v\n%s", seed, err, name, seed, strings.Join(story, "\n"))
}

// TestCrashSimIsRepeatable: a seed means one history, to the last operation.
func TestCrashSimIsRepeatable(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newSim(seed, true), newSim(seed, true)
		a.connections, b.connections = int(seed%2)*simConnections, int(seed%2)*simConnections
		if err := errors.Join(a.run(), b.run()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := strings.Join(a.trace, "\n"), strings.Join(b.trace, "\n"); got != want {
			t.Fatalf("seed %d has two histories:\n%s\n\n%s", seed, got, want)
		}
	}
}

// simMsg is one message that was given to the store.
type simMsg struct {
	id      int
	sender  int // the connection it came by
	topic   string
	queue   int32
	tag     string
	offset  int64
	count   int64 // messages in it: more than 1 for inner batches
	phys    int64 // position of its record
	end     int64 // and behind it; 0: not known
	millis  int64 // store time
	epoch   int   // how often the topic had been deleted before
	acked   bool  // the sender was told, or a consumer could see it after a crash
	durable bool  // it was told so under sync flush, or what is flushed holds it
	gone    bool  // a crash took it: it must not come back
	astray  bool  // a crash took it, but nobody has looked yet
}

func (m *simMsg) String() string {
	return fmt.Sprintf("message %d (%s-%d number %d, up to %d)", m.id, m.topic, m.queue, m.offset, m.end)
}

// simConfig is what a config file may hold.
type simConfig struct {
	acked int // the newest that was saved
	tried int // the newest that a save was begun for
}

// sim is one history.
type sim struct {
	rng   *rand.Rand
	talk  bool
	trace []string

	connections int // that send together; 0: one sends alone

	mem   *vfs.Mem
	inj   *vfs.Injector
	o     store.Options
	s     *store.Store
	b     [simConnections]store.Batch
	clock time.Time
	pid   int

	// How the life ends: before the changing operation number crashIn (0: not
	// there), by a power loss or else by kill -9.
	crashIn int
	power   bool
	dead    *vfs.Mem        // what the crash left; the life is over
	quiet   bool            // the checks read; no crashes then
	faulty  bool            // the disk failed, or may, in this life
	last    bool            // the last lives: no more faults within a start
	keep    store.Retention // Keep is 0: nothing is ever deleted
	ext     bool            // the tag codes of most messages lie in extensions of the queues
	floor   int64           // the log began there once: it never begins earlier again

	rebooted bool // a power loss since the last check
	beside   bool // a mark is under way, and the keeper works beside it

	msgs     []*simMsg
	epochs   map[string]int
	deleting map[string]bool // a deletion that did not return
	holes    map[string]bool // numbers that are allowed to be missing
	configs  map[string]*simConfig
	cache    map[string][]byte // files that one check reads
}

var (
	simTopics  = []string{"orders", "bills", "%RETRY%audit", simDelayed, simBundles}
	simConfigs = []string{"topics.json", "subscriptionGroup.json"}
	errCrashed = errors.New("the process is dead")
)

const (
	simBundles = "bundles" // a topic with batch queues
	simDelayed = "SCHEDULE_TOPIC_XXXX"
)

func newSim(seed uint64, talk bool) *sim {
	w := &sim{
		rng: rand.New(rand.NewPCG(seed, 5)), talk: talk, pid: 100, clock: time.UnixMilli(1735689600000),
		epochs: map[string]int{}, deleting: map[string]bool{}, holes: map[string]bool{}, configs: map[string]*simConfig{},
	}
	for _, name := range simConfigs {
		w.configs[name] = &simConfig{}
	}
	if w.rng.IntN(2) == 0 {
		w.keep = store.Retention{Keep: time.Second, Hours: 1<<24 - 1, UsedRatio: 75, ForceRatio: 85, FullRatio: 90, Batch: 1 + w.rng.IntN(3)}
	}
	w.ext = w.rng.IntN(3) == 0
	w.use(vfs.NewMem())
	return w
}

func (w *sim) say(format string, args ...any) {
	if w.talk {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// simError ends a history.
type simError struct{ error }

func (w *sim) fail(format string, args ...any) { panic(simError{fmt.Errorf(format, args...)}) }

// use goes on with a disk.
func (w *sim) use(mem *vfs.Mem) {
	w.mem, w.dead = mem, nil
	mem.Now = func() time.Time { return w.clock }
	w.inj = vfs.NewInjector(mem)
	w.inj.OnOp = w.before
}

// before hears of each operation, and may be the moment of the crash.
func (w *sim) before(op vfs.Op, path string) {
	if w.quiet || w.dead != nil || !op.Changes() {
		return
	}
	if w.talk {
		w.say("    %s %s", op, path)
	}
	if w.beside && (op == vfs.OpSync || op == vfs.OpSyncDisk) && !strings.Contains(path, "/index/") {
		w.beside = false // no snapshot in the middle of one; and a new index file is synced under a lock that it needs
		w.say("    the keeper works while the mark waits for the disk")
		w.s.NoteOnce()
		w.beside = w.dead == nil
	}
	if w.crashIn == 0 || w.dead != nil {
		return
	}
	if w.crashIn--; w.crashIn == 0 {
		// Who is killed between a sync that failed and its note takes the secret along:
		// nothing that was acknowledged is concerned, but no later start can know.
		w.power = w.power || op == vfs.OpCreate && strings.HasSuffix(path, "/mqctl/unsafe")
		w.crash()
	}
}

var simLosses = []vfs.CrashOptions{
	{}, {}, {ReorderNames: true}, {Data: vfs.FateLost, Names: vfs.FateLost},
	{Data: vfs.FateLost, Names: vfs.FateKept}, {Data: vfs.FateKept, Names: vfs.FateLost},
}

// crash ends the life now. All that the dying process still does fails.
func (w *sim) crash() {
	if w.power {
		loss := simLosses[w.rng.IntN(len(simLosses))]
		w.say("  power loss %+v", loss)
		w.dead = w.mem.CrashClone(w.rng, loss)
		w.rebooted = true
	} else {
		w.say("  kill -9")
		w.dead = w.mem.ProcessKillClone()
	}
	w.inj.Heal()
	w.inj.Fail(vfs.Fault{Err: errCrashed})
	w.inj.Fail(vfs.Fault{Op: vfs.OpOpen, Err: errCrashed})
	w.inj.Fail(vfs.Fault{Op: vfs.OpRead, Err: errCrashed})
}

func (w *sim) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			switch p := p.(type) {
			case simError:
				err = p.error
			default:
				panic(p)
			}
		}
	}()
	for range 2 + w.rng.IntN(3) {
		w.life()
	}
	// Whatever came before, a stop and a start find everything.
	w.crashIn, w.last = 0, true
	w.open()
	w.check()
	w.stop()
	w.open()
	w.check()
	w.stop()
	return nil
}

// life is one process.
func (w *sim) life() {
	w.crashIn, w.power = 0, w.rng.IntN(3) > 0
	if w.rng.IntN(5) > 0 {
		w.crashIn = 1 + w.rng.IntN([]int{20, 60, 200}[w.rng.IntN(3)])
	}
	late := w.crashIn
	if w.rng.IntN(4) > 0 {
		w.crashIn = 0 // not within the recovery
	}
	if !w.open() {
		return
	}
	w.check()
	if w.dead != nil {
		w.use(w.dead)
		return
	}
	if w.crashIn == 0 {
		w.crashIn = late
	}
	if w.rng.IntN(3) == 0 {
		w.fault()
	}
	for range w.rng.IntN(30) {
		w.step()
		if w.dead != nil {
			w.use(w.dead)
			return
		}
	}
	w.inj.Heal()
	if w.rng.IntN(2) == 0 {
		w.stop()
	} else if w.dead == nil {
		w.crash()
	}
	if w.dead != nil {
		w.use(w.dead)
	}
}

// open starts a process. False: it died on the way, or the disk failed it.
func (w *sim) open() bool {
	w.pid++
	w.faulty = false
	w.checkCheckpoint()
	w.o = small(w.inj)
	w.o.Now = func() time.Time { return w.clock }
	w.o.Steady = w.o.Now
	w.o.SyncFlush = w.rng.IntN(2) == 0
	w.o.BatchTopic = func(topic string) bool { return topic == simBundles }
	w.o.BatchQueueBytes, w.o.QueueExtBytes = 7*consumequeue.BatchUnitBytes, 200
	w.o.QueueExt = w.ext && w.rng.IntN(4) > 0
	w.o.Retention = store.DefaultRetention()
	if w.keep.Keep > 0 {
		w.o.Retention = w.keep
	}
	w.o.SetPID(w.pid)
	w.o.SetSyncAlone(1 + 63*(w.pid%2)) // every other process syncs all queues at once
	w.say("open, process %d, sync flush %v", w.pid, w.o.SyncFlush)
	if w.crashIn == 0 && !w.last && w.rng.IntN(8) == 0 {
		w.fault()
	}
	s, rec, err := store.Open(w.o)
	if w.dead == nil && err != nil && w.faulty {
		w.say("  %v", err)
		w.crash()
	}
	if w.dead != nil {
		w.use(w.dead)
		return false
	}
	if err != nil {
		w.fail("open: %v", err)
	}
	w.say("  %+v", rec.Notes)
	w.inj.Heal()
	w.s = s
	return true
}

// stop ends a process the proper way.
func (w *sim) stop() {
	w.say("stop")
	err := w.s.Close()
	if w.dead != nil {
		return
	}
	w.say("  %v", err)
	if err != nil && !w.faulty {
		w.fail("close: %v", err)
	}
	w.flushed()
}

// simFaults are what a disk does to an operation.
var simFaults = []vfs.Fault{
	{Op: vfs.OpSync, Err: syscall.EIO, Lose: true}, {Op: vfs.OpSync, Err: syscall.EIO, Lose: true},
	{Op: vfs.OpSync, Err: syscall.ENOSPC, Lose: true}, {Op: vfs.OpSync, Err: syscall.EIO},
	{Op: vfs.OpSyncDisk, Err: syscall.EIO, Lose: true}, {Op: vfs.OpSyncDisk, Err: syscall.EIO},
	{Op: vfs.OpWrite, Err: syscall.ENOSPC}, {Op: vfs.OpWrite, Err: syscall.EIO},
	{Op: vfs.OpSyncDir, Err: syscall.EIO}, {Op: vfs.OpCreate, Err: syscall.ENOSPC}, {Op: vfs.OpCreate, Err: syscall.EMFILE},
	{Op: vfs.OpPreallocate, Err: syscall.ENOSPC}, {Op: vfs.OpTruncate, Err: syscall.ENOSPC},
	{Op: vfs.OpRead, Err: syscall.EIO}, {Op: vfs.OpRead, Err: syscall.EIO}, {Op: vfs.OpOpen, Err: syscall.EIO}, {Op: vfs.OpOpen, Err: syscall.EMFILE},
	{Op: vfs.OpReadDir, Err: syscall.EIO}, {Op: vfs.OpStat, Err: syscall.EIO}, {Op: vfs.OpOpenDisk, Err: syscall.EIO},
	{Op: vfs.OpRename, Err: syscall.EIO}, {Op: vfs.OpRemove, Err: syscall.EIO}, {Op: vfs.OpLink, Err: syscall.EPERM},
}

// simPlaces are parts of paths: every kind of file that a store writes.
var simPlaces = []string{
	"", "", "", "commitlog", "commitlog", "consumequeue", "/batchconsumequeue", "/consumequeue_ext", "index", "mqctl", "checkpoint", "abort",
	"mqctl/progress", "mqctl/queues", "mqctl/unsafe", "mqctl/holes", "mqctl/new-", "mqctl/tail", "mqctl/aside", ".tmp", "config", ".json.bak", "lock",
}

// fault makes the disk fail soon.
func (w *sim) fault() {
	f := simFaults[w.rng.IntN(len(simFaults))]
	f.Path = simPlaces[w.rng.IntN(len(simPlaces))]
	f.Skip, f.Left = w.rng.IntN(10), w.rng.IntN(3)
	f.Partial = w.rng.IntN(2) * w.rng.IntN(2000)
	w.faulty = true
	w.say("  fault to come: %+v", f)
	w.inj.Fail(f)
}

func (w *sim) step() {
	w.clock = w.clock.Add(time.Duration(1+w.rng.IntN(700)) * time.Millisecond)
	switch n := w.rng.IntN(100); {
	case n < 50:
		w.send()
	case n < 60:
		w.say("flush")
		w.s.FlushOnce()
		w.flushed()
	case n < 63 && w.keep.Keep > 0:
		w.retain()
	case n < 70:
		w.say("write queues and index")
		if w.rng.IntN(2) == 0 {
			w.s.KeepOnce()
		} else {
			w.s.NoteOnce() // no queue gets a new file
		}
	case n < 78:
		w.say("mark")
		w.beside = w.rng.IntN(2) == 0
		err := w.s.Mark()
		w.beside = false
		w.say("  %v", err)
		w.flushed()
	case n < 79 && w.keep.Keep > 0:
		w.retain()
	case n < 81:
		w.say("prepare")
		_ = w.s.PrepareNext() // an append without it makes the file itself
	case n < 85:
		w.delete()
	case n < 95:
		w.save()
	case n < 97:
		w.say("heal")
		w.inj.Heal()
		w.s.CheckDisk()
	default:
		w.restart()
	}
}

// restart stops and starts.
func (w *sim) restart() {
	if w.faulty || w.s.Writable() != nil {
		return
	}
	w.inj.Heal()
	w.stop()
	if w.dead == nil {
		w.openAgain()
	}
}

func (w *sim) openAgain() {
	w.pid++
	w.o.SetPID(w.pid)
	w.say("open again, process %d", w.pid)
	s, rec, err := store.Open(w.o)
	if w.dead != nil {
		return
	}
	if err != nil || !rec.Clean || len(rec.Notes) > 0 {
		w.fail("start after a stop: %v, clean %v, %v", err, rec.Clean, rec.Notes)
	}
	w.s = s
	w.check()
}

// send appends a burst with single messages and client batches.
func (w *sim) send() {
	if w.connections > 0 && w.rng.IntN(4) > 0 {
		w.sendJoined()
		return
	}
	first := w.fill(0, 5)
	w.say("send %d", len(w.msgs)-first)
	w.s.AppendAll(&w.b[0])
	w.answered(0, first)
}

// fill makes the next batch of a connection, of up to most messages or client batches, and
// returns which message is the first of it.
func (w *sim) fill(sender, most int) (first int) {
	b := &w.b[sender]
	b.Reset()
	first = len(w.msgs)
	for range 1 + w.rng.IntN(most) {
		topic, id := simTopics[w.rng.IntN(len(simTopics))], int32(w.rng.IntN(2))
		n, group := 1, int32(0)
		if topic != simBundles && w.rng.IntN(4) == 0 {
			n, group = 1+w.rng.IntN(4), int32(len(b.Items)+1)
		}
		for range n {
			w.add(sender, topic, id, group)
		}
	}
	return first
}

// answered notes what became of a connection's batch, after the flush that it waits for.
func (w *sim) answered(sender, first int) {
	b := &w.b[sender]
	end := b.End()
	st := store.PutOK
	if w.o.SyncFlush && end > 0 {
		done := make(chanWaiter, 1)
		w.s.WaitFlushed(end, done)
		st = <-done
	}
	if w.dead != nil {
		return
	}
	for i := range b.Items {
		it, m := &b.Items[i], w.msgs[first+i]
		if it.Status != store.PutOK {
			continue
		}
		m.offset, m.phys, m.end, m.millis = int64(it.QueueOffset), int64(it.Phys), int64(it.Phys)+int64(it.Size), it.StoreMillis
		m.acked = st == store.PutOK
		m.durable = m.acked && w.o.SyncFlush
	}
	w.say("  %d to %d, %v, %v", first+1, first+len(b.Items), b.Items[0].Status, st)
	w.flushed()
}

// sendJoined appends small batches of several connections in one write. Those for which there is
// no room are appended one by one, as a connection does that finds its batch not done.
func (w *sim) sendJoined() {
	n := 2 + w.rng.IntN(w.connections-1)
	var first [simConnections]int
	var all []*store.Batch
	for sender := range n {
		first[sender] = w.fill(sender, 2)
		all = append(all, &w.b[sender])
	}
	fails := w.rng.IntN(40) == 0
	if fails {
		w.faulty = true
		err := []error{syscall.ENOSPC, syscall.EIO}[w.rng.IntN(2)]
		w.inj.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "commitlog", Err: err, Left: 1, Partial: w.rng.IntN(2) * w.rng.IntN(2000)})
	}
	w.say("send %d of %d connections", len(w.msgs)-first[0], n)
	if w.s.Writable() != nil || !w.s.AppendJoined(all...) {
		w.say("  one by one")
		for _, b := range all {
			w.s.AppendAll(b)
		}
	}
	for _, sender := range w.rng.Perm(n) { // whoever is told first
		w.answered(sender, first[sender])
	}
	if fails && w.rng.IntN(2) == 0 {
		w.say("  the disk has space again")
		w.s.CheckDisk()
	}
}

func (w *sim) add(sender int, topic string, id, group int32) {
	m := &simMsg{id: len(w.msgs) + 1, sender: sender, topic: topic, queue: id, epoch: w.epochs[topic], tag: fmt.Sprint("t", w.rng.IntN(5)), count: 1}
	w.msgs = append(w.msgs, m)
	body := fmt.Sprintf("%d %s", m.id, strings.Repeat("x", w.rng.IntN(400)))
	key := fmt.Sprintf("u%d", m.id)
	d := draft(topic, id, body, "UNIQ_KEY", key, "TAGS", m.tag, "DELAY", "3", "FILL", strings.Repeat("p", 1+w.rng.IntN(300)))
	q := w.s.Queue(topic, id)
	if topic == simBundles && w.rng.IntN(3) > 0 {
		n := 1 + w.rng.IntN(6)
		m.count = int64(n)
		d.SysFlag |= record.FlagInnerBatch | record.FlagUnwrap
		d.Properties = store.AppendInner(d.Properties, n)
		w.b[sender].AddInner(w.s, q, d, nil, n)
		return
	}
	w.b[sender].Add(w.s, q, d, group)
}

// flushed notes what the store says is on disk.
func (w *sim) flushed() {
	if w.dead != nil {
		return
	}
	f := int64(w.s.Positions().Flushed)
	for i := len(w.msgs) - 1; i >= 0; i-- {
		if m := w.msgs[i]; m.end > 0 && m.end <= f && !m.gone {
			if m.durable {
				return // and so is all before it
			}
			m.durable = true
		}
	}
}

func (w *sim) delete() {
	topic := simTopics[w.rng.IntN(len(simTopics))]
	w.say("delete %s", topic)
	w.deleting[topic] = true
	w.epochs[topic]++
	err := w.s.DeleteTopic(topic)
	if w.dead != nil {
		return
	}
	w.say("  %v", err)
	if err == nil {
		delete(w.deleting, topic)
	}
}

// retain deletes old files of the log.
func (w *sim) retain() {
	w.s.RetainOnce()
	if w.dead == nil {
		w.floor = int64(w.s.Positions().Min)
		w.say("retain: the log begins at %d", w.floor)
	}
}
