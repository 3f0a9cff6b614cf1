package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/store/vfs"
)

// remadeTopics are deleted and made again: plain ones, and those of groups.
var remadeTopics = []string{"A", "B", "%RETRY%G", "%DLQ%G"}

// remadeRun is one order of events.
type remadeRun struct {
	*pair
	rnd  *rand.Rand
	sent int
	log  []string
}

func (x *remadeRun) say(format string, args ...any) {
	x.log = append(x.log, fmt.Sprintf(format, args...))
}

func (x *remadeRun) start(slave bool) {
	if slave && x.s == nil {
		x.startSlave(switchable)
	} else if !slave && x.m == nil {
		x.startMaster(switchable)
	}
}

// end ends the slave or the master, cleanly or by kill -9.
func (x *remadeRun) end(slave, kill bool) {
	r, disk := &x.m, &x.ms
	if slave {
		r, disk = &x.s, &x.ss
	}
	if *r == nil {
		return
	}
	if kill {
		*disk = (*r).killed()
	} else {
		(*r).stop()
	}
	*r = nil
}

// event does one thing.
func (x *remadeRun) event() {
	name := remadeTopics[x.rnd.IntN(len(remadeTopics))]
	switch n := x.rnd.IntN(20); {
	case n < 8:
		if x.m.b.topics.Get(name) != nil {
			q := x.rnd.IntN(3)
			x.sent++
			x.m.mustSend(name, q, fmt.Sprint(x.sent))
			x.say("send %s/%d", name, q)
		}
	case n < 12:
		x.remove(name)
		if n < 11 {
			x.create(name)
		}
	case n < 14:
		x.create(name)
	case n < 17:
		d := time.Duration(x.rnd.IntN(1500)) * time.Millisecond
		x.say("wait %s", d)
		<-time.After(d)
	case n < 19:
		if x.s == nil {
			x.say("start the slave")
			x.start(true)
			return
		}
		kill, wipe := x.rnd.IntN(2) == 0, x.rnd.IntN(8) == 0
		x.say("end the slave, kill %t wipe %t", kill, wipe)
		x.end(true, kill)
		if wipe {
			x.ss = vfs.NewMem()
		}
	default:
		kill := x.rnd.IntN(2) == 0
		x.say("the master again, kill %t", kill)
		x.end(false, kill)
		x.start(false)
	}
}

func (x *remadeRun) remove(name string) {
	x.say("delete %s", name)
	x.m.wants(x.m.call(215, map[string]string{"topic": name}, nil), 0, "")
}

func (x *remadeRun) create(name string) {
	x.say("create %s", name)
	x.m.wants(x.m.createTopic(name, 3), 0, "")
}

// content is where a queue begins and ends, and what it has.
func content(r *rig, name string, queue int) string {
	q := r.b.store.Lookup([]byte(name), int32(queue))
	if q == nil {
		return "0 to 0"
	}
	var has []string
	for at := q.Min(); at < q.Max(); at++ {
		units := r.b.store.Units(nil, q, at, 1)
		if len(units) == 0 {
			has = append(has, "?")
			continue
		}
		has = append(has, fmt.Sprint(units[0].Phys))
	}
	return strings.TrimSuffix(fmt.Sprintf("%d to %d at %s", q.Min(), q.Max(), strings.Join(has, " ")), " at ")
}

// TestRemadeTopicSim: whatever a slave misses of deletions and of topics made again, in
// whatever order it and its master are restarted or killed, its queues become the
// master's, and the numbers go on as the master's when it is promoted.
func TestRemadeTopicSim(t *testing.T) {
	for seed := range simSeeds() {
		inBubble(t, func(t *testing.T) {
			x := &remadeRun{pair: newPair(t), rnd: rand.New(rand.NewPCG(seed, 1))}
			defer func() {
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(x.log, "\n"))
				}
			}()
			x.start(false)
			for _, name := range remadeTopics {
				x.create(name)
				for q := range 3 {
					x.m.mustSend(name, q, "first")
				}
			}
			x.start(true)
			for range 40 {
				x.event()
			}
			x.start(true)
			x.check(t)
			x.promoted(t)
		})
	}
}

// simSeeds are the orders that are tried: a few, or as many as BROKER_SEEDS says.
func simSeeds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("BROKER_SEEDS"), 10, 64); err == nil {
		return n
	}
	return 30
}

// check compares the two.
func (x *remadeRun) check(t *testing.T) {
	x.caughtUp()
	<-time.After(3 * time.Second)
	x.caughtUp()
	x.sameTables()
	for _, name := range remadeTopics {
		for q := range 3 {
			if m, s := content(x.m, name, q), content(x.s, name, q); m != s {
				t.Errorf("%s/%d: master %s, slave %s", name, q, m, s)
			}
		}
	}
}

// promoted kills both, lets the slave alone become the master, and sends.
func (x *remadeRun) promoted(t *testing.T) {
	want := map[string]string{}
	for _, name := range remadeTopics {
		for q := range 3 {
			want[fmt.Sprint(name, "/", q)] = content(x.m, name, q)
		}
	}
	x.end(true, true)
	x.start(true)
	x.end(false, true)
	x.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
	for _, name := range remadeTopics {
		if x.s.b.topics.Get(name) == nil {
			continue
		}
		for q := range 3 {
			if got := content(x.s, name, q); got != want[fmt.Sprint(name, "/", q)] {
				t.Errorf("%s/%d: the new master %s, the old one %s", name, q, got, want[fmt.Sprint(name, "/", q)])
			}
			next := x.s.b.store.Queue(name, int32(q)).Max()
			if got := x.s.mustSend(name, q, "promoted").Ext["queueOffset"]; got != fmt.Sprint(next) {
				t.Errorf("%s/%d: the new master gives number %s, want %d", name, q, got, next)
			}
		}
	}
}
