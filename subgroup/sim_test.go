package subgroup_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

var (
	simSeeds = flag.Int("sim.seeds", 2000, "seeds of the simulation of progress")
	simSeed  = flag.Int64("sim.seed", -1, "run one seed of it, and say what happens")
)

// TestProgressSim lets up to five replicas, and sometimes an Apache slave, commit,
// reset, seek back, delete, exchange and crash at random in virtual time, and checks
// after every step that no progress fell but by intent, and at the end that all
// replicas agree, in whatever order they merge.
func TestProgressSim(t *testing.T) {
	run := func(seed uint64) {
		w := newWorld(seed, *simSeed >= 0)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\nagain: go test ./subgroup -run 'TestProgressSim$' -sim.seed=%d -v\n%s", seed, err, seed, w.trace())
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

type simKey struct {
	topic, group string
	queue        int32
}

func (k simKey) String() string { return fmt.Sprintf("%s@%s/%d", k.topic, k.group, k.queue) }

// replica is one broker of ours: what it holds, and what others know of it.
type replica struct {
	name    string
	disk    *vfs.Mem
	o       *subgroup.Offsets
	began   int64
	skew    int64            // of its clock
	end     map[simKey]int64 // of its queues
	seen    map[simKey]subgroup.Progress
	asked   map[*replica]uint64 // version of the other that is here
	saved   map[simKey]subgroup.Progress
	another int // number of its process
}

// mail is an exchange under way; it may come late, twice, or never.
type mail struct {
	to      *replica
	records []subgroup.ProgressRecord
}

type world struct {
	rnd      *rand.Rand
	now      int64
	keys     []simKey
	all      []*replica
	mails    []mail
	java     map[simKey]int64 // an Apache slave of all[0], nil: none
	plain    *subgroup.PlainSlave
	clients  int
	position map[string]int64 // of a client on a key
	explicit map[simKey]uint32
	lost     map[simKey]bool // generations were lost
	behind   string          // what an exchange did not bring
	log      []string
	loud     bool
}

func newWorld(seed uint64, loud bool) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 4)), now: 1_700_000_000_000, loud: loud, clients: 3,
		position: map[string]int64{}, explicit: map[simKey]uint32{}, lost: map[simKey]bool{},
	}
	for _, t := range []string{"t", "u"} {
		for q := range int32(2) {
			w.keys = append(w.keys, simKey{t, "g", q})
		}
	}
	for i := range 1 + w.rnd.IntN(5) {
		r := &replica{name: string(rune('A' + i)), disk: vfs.NewMem(), end: map[simKey]int64{}}
		w.all = append(w.all, r)
		w.boot(r)
	}
	if w.rnd.IntN(3) == 0 {
		w.java = map[simKey]int64{}
		w.plain = subgroup.NewPlainSlave(w.all[0].o)
	}
	return w
}

func (w *world) boot(r *replica) {
	r.skew = int64(w.rnd.IntN(120_000)) - 60_000 // clocks differ by up to a minute, until somebody sets one
	o, err := subgroup.LoadOffsets(r.disk, "/s", func() int64 { return w.now + r.skew }, func() int64 { return w.now })
	if err != nil {
		panic(err)
	}
	r.o, r.began, r.asked = o, w.now, map[*replica]uint64{}
	r.another++
	r.seen = w.state(r)
}

// state is everything that a replica holds.
func (w *world) state(r *replica) map[simKey]subgroup.Progress {
	m := map[simKey]subgroup.Progress{}
	for _, k := range w.keys {
		if p, ok := r.o.Progress(k.group, k.topic, k.queue); ok {
			m[k] = p
		}
	}
	return m
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d ", w.now-1_700_000_000_000)+fmt.Sprintf(format, args...))
}

func (w *world) trace() string {
	if !w.loud && len(w.log) > 30 {
		return "...\n" + strings.Join(w.log[len(w.log)-30:], "\n")
	}
	return strings.Join(w.log, "\n")
}

func (w *world) run() error {
	for range 20 + w.rnd.IntN(150) {
		w.step()
		if w.behind != "" {
			return errors.New(w.behind)
		}
		for _, r := range w.all {
			if err := w.check(r); err != nil {
				return err
			}
		}
	}
	return w.settle()
}

func (w *world) pick() (*replica, simKey) {
	return w.all[w.rnd.IntN(len(w.all))], w.keys[w.rnd.IntN(len(w.keys))]
}

// step does one thing at random.
func (w *world) step() {
	r, k := w.pick()
	switch n := w.rnd.IntN(100); {
	case n < 40:
		w.commit(r, k)
	case n < 50:
		w.pull(r, k)
	case n < 53:
		target := int64(w.rnd.IntN(60))
		w.say("reset %s at %s to %d", k, r.name, target)
		w.explicit[k]++
		r.o.Reset(k.group, k.topic, k.queue, target, w.rnd.IntN(4) > 0)
	case n < 54:
		w.remove(r, k)
	case n < 55:
		w.clamp(r)
	case n < 73:
		w.send(r)
	case n < 83:
		w.deliver()
	case n < 87:
		if err := r.o.Persist(); err != nil {
			panic(err)
		}
		r.saved = w.state(r)
		w.say("%s saves", r.name)
	case n < 90:
		w.crash(r)
	case n < 94:
		w.apache(k)
	case n < 96 && w.rnd.IntN(4) == 0:
		r.skew = int64(w.rnd.IntN(40*3600_000)) - 20*3600_000
		w.say("the clock of %s is set to %+d s", r.name, r.skew/1000)
	case n < 96:
		r.o.SetTerm(uint64(w.rnd.IntN(4)))
		r.o.Sweep(func(string) bool { return w.rnd.IntN(2) == 0 })
	default:
		w.now += []int64{10, 1000, 6000, 50_000, 700_000, 3 * 24 * 3600_000}[min(w.rnd.IntN(7), w.rnd.IntN(7))%6]
	}
	w.now++
}

// commit is a client's commit: on from where it was, or back, or a late one.
func (w *world) commit(r *replica, k simKey) {
	client := 1 + w.rnd.IntN(w.clients)
	at := fmt.Sprint(k, client)
	pos := w.position[at]
	c := &subgroup.Commit{
		Group: []byte(k.group), Topic: []byte(k.topic), Queue: k.queue, Client: uint64(client), Master: r == w.all[0],
		Member: w.rnd.IntN(5) > 0, QueueMax: -1, ServingFor: w.now - r.began, NowMillis: w.now + r.skew,
	}
	c.AnyMember = c.Member || w.rnd.IntN(3) > 0
	switch n := w.rnd.IntN(20); {
	case n < 14:
		pos += int64(w.rnd.IntN(10))
	case n < 15:
		pos = -1
	case n < 16:
		c.QueueMax = pos
	case n < 17:
		c.Reset = true
		pos = int64(w.rnd.IntN(40))
	default:
		pos = int64(w.rnd.IntN(80)) // rebalanced: from what it read elsewhere
	}
	w.position[at], c.Offset = pos, pos
	before, _ := r.o.Progress(k.group, k.topic, k.queue)
	out := r.o.CommitChecked(c)
	after, _ := r.o.Progress(k.group, k.topic, k.queue)
	w.say("client %d commits %d of %s at %s: %d; %+v", client, pos, k, r.name, out, after)
	switch out {
	case subgroup.Moved:
		w.explicit[k]++
	case subgroup.Stored:
	case subgroup.Ignored, subgroup.Held:
		if after != before {
			panic(fmt.Sprintf("%s: a commit that was refused changed %+v to %+v", k, before, after))
		}
	}
}

func (w *world) pull(r *replica, k simKey) {
	if target, ok := r.o.TakeReset([]byte(k.group), []byte(k.topic), k.queue); ok {
		w.say("a pull of %s at %s takes the reset to %d", k, r.name, target)
		w.position[fmt.Sprint(k, 1+w.rnd.IntN(w.clients))] = target
	}
}

func (w *world) remove(r *replica, k simKey) {
	w.say("%s deletes topic %s", r.name, k.topic)
	for _, k2 := range w.keys {
		if k2.topic == k.topic {
			w.explicit[k2]++
		}
	}
	r.o.DeleteTopic(k.topic)
}

func (w *world) clamp(r *replica) {
	end := int64(w.rnd.IntN(80))
	for _, c := range r.o.Clamp(func(string, int32) (int64, bool) { return end, true }) {
		k := simKey{c.Topic, c.Group, c.Queue}
		w.say("%s corrects %s to %d", r.name, k, end)
		w.explicit[k]++
	}
}

// send puts what another replica has, since the last time or at all, on its way.
func (w *world) send(to *replica) {
	from := w.all[w.rnd.IntN(len(w.all))]
	if from == to {
		return
	}
	since := to.asked[from]
	if w.rnd.IntN(6) == 0 {
		since = 0
	}
	records, version := from.o.Since(nil, since)
	if w.rnd.IntN(8) == 0 {
		w.say("%s to %s: %d records, lost", from.name, to.name, len(records))
		return
	}
	if w.rnd.IntN(2) == 0 { // over the wire
		var err error
		if records, err = subgroup.DecodeRecords(subgroup.AppendRecords(nil, records)); err != nil {
			panic(err)
		}
	}
	if w.rnd.IntN(4) == 0 { // late, and what was asked since is only known when it came
		w.mails = append(w.mails, mail{to, records})
		w.say("%s to %s: %d records, under way", from.name, to.name, len(records))
		return
	}
	won := to.o.Merge(records)
	to.asked[from] = version
	w.say("%s to %s since %d: %d records, %d won", from.name, to.name, uint32(since), len(records), won)
	w.behind = w.behindOf(from, to)
}

func (w *world) deliver() {
	if len(w.mails) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.mails))
	m := w.mails[i]
	w.say("late to %s: %d records, %d won", m.to.name, len(m.records), m.to.o.Merge(m.records))
	if w.rnd.IntN(3) > 0 { // else it comes again
		w.mails = slices.Delete(w.mails, i, i+1)
	}
}

// crash loses what was not saved; rarely an Apache broker ran on the folder
// meanwhile, which keeps the numbers and loses the generations.
func (w *world) crash(r *replica) {
	r.disk = r.disk.CrashClone(w.rnd, vfs.CrashOptions{})
	apache := w.rnd.IntN(12) == 0
	w.boot(r)
	w.say("%s crashes (apache: %v)", r.name, apache)
	for k, p := range r.saved {
		if got, ok := r.o.Progress(k.group, k.topic, k.queue); !ok || got.Offset != p.Offset || got.Gen != p.Gen || got.Deleted != p.Deleted || got.Pending != p.Pending {
			panic(fmt.Sprintf("%s: saved %+v, loaded %+v %v", k, p, got, ok))
		}
	}
	if apache {
		numbers := r.o.JSON(false)
		r.disk = vfs.NewMem()
		if err := table.NewFile(r.disk, "/s", "consumerOffset.json").Save(numbers); err != nil {
			panic(err)
		}
		w.boot(r)
		for k := range r.saved {
			w.lost[k] = true
		}
		r.saved = w.state(r)
	}
	if r == w.all[0] && w.plain != nil {
		w.plain = subgroup.NewPlainSlave(r.o)
	}
}

// apache does something at the Apache slave: a commit there, a copy of the
// master's table, or a look at it.
func (w *world) apache(k simKey) {
	if w.java == nil {
		return
	}
	if w.rnd.IntN(2) == 0 {
		w.java[k] += int64(w.rnd.IntN(8))
		w.say("commit %d of %s at the Apache slave", w.java[k], k)
		return
	}
	w.say("the Apache slave %v is looked at: %d changed", w.java, w.plain.Take(w.javaTable()))
	if w.rnd.IntN(2) == 0 {
		w.copyToApache()
	}
}

func (w *world) copyToApache() {
	records, err := subgroup.DecodeOffsets(w.plain.Answer())
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		w.java[simKey{r.Topic, r.Group, r.Queue}] = r.Offset
	}
	w.say("the Apache slave copies: %v", w.java)
}

func (w *world) javaTable() []subgroup.ProgressRecord {
	var table []subgroup.ProgressRecord
	for k, off := range w.java {
		table = append(table, subgroup.ProgressRecord{Topic: k.topic, Group: k.group, Queue: k.queue,
			Progress: subgroup.Progress{Offset: off, Unknown: true, Source: subgroup.FromCommit}})
	}
	return table
}

// check compares a replica with what it held before the step.
func (w *world) check(r *replica) error {
	now := w.state(r)
	for k, was := range r.seen {
		is, ok := now[k]
		switch {
		case !ok:
			if !was.Deleted {
				return fmt.Errorf("%s lost %s, which was %+v", r.name, k, was)
			}
		case was.Unknown || is == was || is.Beats(was):
		default:
			return fmt.Errorf("%s: %s went from %+v to %+v", r.name, k, was, is)
		}
		if ok && is.Offset < was.Offset && !w.lost[k] && is.Gen == was.Gen && was.Source == subgroup.FromCommit && !was.Deleted {
			return fmt.Errorf("%s: %s fell in one generation from %+v to %+v", r.name, k, was, is)
		}
		if ok && is.Offset < was.Offset && w.explicit[k] == 0 && !w.lost[k] {
			return fmt.Errorf("%s: %s fell from %+v to %+v, and nobody ever moved it", r.name, k, was, is)
		}
	}
	for k, is := range now {
		if f, ok := r.o.Progress("", k.topic, 0); ok && !is.Unknown && is.Gen < f.Gen {
			return fmt.Errorf("%s: %s is %+v, of a topic that was deleted since (%+v)", r.name, k, is, f)
		}
		if moves := w.moves(k.topic); is.Gen > moves && !w.lost[k] { // a deletion lifts all of a topic above the highest
			return fmt.Errorf("%s: %s is %+v after %d moves", r.name, k, is, moves)
		}
	}
	r.seen = now
	return nil
}

// moves is how often something of a topic was moved on purpose.
func (w *world) moves(topic string) (n uint32) {
	for k, m := range w.explicit {
		if k.topic == topic {
			n += m
		}
	}
	return n
}

// behindOf says what of from's progress is not at to although it was brought up
// to from's version; "" if nothing.
func (w *world) behindOf(from, to *replica) string {
	there := w.state(to)
	for k, p := range w.state(from) {
		q, ok := there[k]
		if p.Deleted && w.now-p.Updated > 6*24*3600_000 || p.Unknown || q.Unknown {
			continue
		}
		p.Updated, q.Updated = 0, 0
		if !ok || p.Beats(q) {
			return fmt.Sprintf("%s has %+v of %s, and %s, which asked for all, %+v", from.name, p, k, to.name, q)
		}
	}
	return ""
}

// settle ends the exchange: everybody agrees, whatever the order.
func (w *world) settle() error {
	for _, r := range w.all {
		r.o.Sweep(func(string) bool { return true })
	}
	var records []subgroup.ProgressRecord
	unknown := false
	for _, r := range w.all {
		records = append(records, ordered(r.o)...)
	}
	for i := range records {
		unknown = unknown || records[i].Unknown
	}
	for round := 0; ; round++ {
		won := 0
		for _, to := range w.all {
			for _, from := range w.all {
				all := ordered(from.o)
				won += to.o.Merge(all)
				won += to.o.Merge(all[:w.rnd.IntN(len(all)+1)])
			}
		}
		if won == 0 {
			break
		}
		if round > 2*len(w.all) {
			return fmt.Errorf("no end of exchanging")
		}
	}
	want := w.text(w.all[0].o)
	for _, r := range w.all[1:] {
		if got := w.text(r.o); got != want {
			return fmt.Errorf("in the end\n%s: %s\n%s: %s", w.all[0].name, want, r.name, got)
		}
	}
	if unknown {
		return nil
	}
	for range 2 {
		w.rnd.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		fresh := &replica{disk: vfs.NewMem()}
		w.boot(fresh)
		fresh.o.Merge(records)
		fresh.o.Merge(records[:len(records)/2])
		if got := w.text(fresh.o); got != want {
			return fmt.Errorf("in another order\n%s, exchanged\n%s", got, want)
		}
	}
	return nil
}

// text is all that replicas must agree on: everything but times.
func (w *world) text(o *subgroup.Offsets) string {
	var b strings.Builder
	for _, k := range append([]simKey{{topic: "t"}, {topic: "u"}}, w.keys...) { // floors too
		if p, ok := o.Progress(k.group, k.topic, k.queue); ok {
			p.Updated = 0
			fmt.Fprintf(&b, "%s %+v\n", k, p)
		}
	}
	return b.String()
}

// ordered is everything that a replica has, in an order that a seed repeats.
func ordered(o *subgroup.Offsets) []subgroup.ProgressRecord {
	records, _ := o.Since(nil, 0)
	slices.SortFunc(records, func(a, b subgroup.ProgressRecord) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Group, b.Group), cmp.Compare(a.Queue, b.Queue))
	})
	return records
}
