package topic_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

var simSeeds = flag.Int("sim.seeds", 20, "seeds of the simulation of crashes of the table; more than 3000 are no more")

// TestJournalSim lets tables that are large enough for a journal live several lives on one
// disk: topics are made, changed and deleted, the table is saved, and before any operation of
// the disk the process is killed or the power fails, also within a start. After each life
// every change that was acknowledged is there, the one under way is there or not, what a start
// has shown stays, and the version never goes back.
func TestJournalSim(t *testing.T) {
	base, _ := largeTable(t)
	if size := fileBytes(t, base, dir+"/topics.json"); size < 128<<10 {
		t.Fatalf("the table has %d bytes: too few for a journal", size)
	}
	journals := 0
	n := min(*simSeeds, 3000)
	if raceDetector {
		n /= 10
	}
	for seed := range n {
		s := &tableSim{rng: rand.New(rand.NewPCG(uint64(seed), 9)), mem: base.ProcessKillClone(), told: map[string]int32{}}
		for range 4 {
			if err := s.life(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		journals += s.journals
	}
	if journals == 0 && n >= 20 {
		t.Error("no life ended with a journal")
	}
}

// tableSim is one history. Of each topic it knows the number of queues that was
// acknowledged; 0: it was deleted.
type tableSim struct {
	rng      *rand.Rand
	mem      *vfs.Mem
	told     map[string]int32
	name     string // of the change under way, if any
	next     int32
	counter  int64
	journals int
}

func (s *tableSim) life() error {
	in := vfs.NewInjector(s.mem)
	left, power := 1+s.rng.IntN(60), s.rng.IntN(2) == 0
	var dead *vfs.Mem
	in.OnOp = func(op vfs.Op, _ string) {
		if dead != nil || !op.Changes() {
			return
		}
		if left--; left == 0 {
			if dead = s.mem.ProcessKillClone(); power {
				dead = s.mem.CrashClone(s.rng, vfs.CrashOptions{})
			}
			in.Fail(vfs.Fault{Err: errors.New("the process is dead")})
		}
	}
	table, err := topic.Load(options(in))
	if dead == nil && err != nil {
		return err
	}
	if dead == nil {
		if err := s.check(table); err != nil {
			return err
		}
	}
	for n := int32(1); dead == nil; n++ {
		s.name, s.next = fmt.Sprintf("topic-%05d", 690+s.rng.IntN(20)), 1+(s.told[s.name]+n)%30
		var err error
		switch s.rng.IntN(8) {
		case 0:
			s.name = ""
			err = table.Flush()
		case 1, 2:
			s.next = 0
			_, err = table.Delete(s.name)
		default:
			c := topic.Defaults(s.name)
			c.ReadQueueNums = s.next
			_, err = table.Put(c)
		}
		if dead != nil {
			break
		}
		if err != nil {
			return err
		}
		if s.name != "" {
			s.told[s.name] = s.next
		}
		s.name = ""
		_, version := table.All()
		s.counter = version.Counter
	}
	if _, err := dead.Stat(dir + "/topics.json.journal"); err == nil {
		s.journals++
	}
	s.mem = dead
	return nil
}

func (s *tableSim) check(table *topic.Table) error {
	all, version := table.All()
	if version.Counter < s.counter {
		return fmt.Errorf("the version went back from %d to %d", s.counter, version.Counter)
	}
	s.counter = version.Counter
	for name, want := range s.told {
		if got := queuesOf(all[name]); got != want && (name != s.name || got != s.next) {
			return fmt.Errorf("%s has %d queues, want %d (under way: %s %d)", name, got, want, s.name, s.next)
		}
	}
	if s.name != "" {
		s.told[s.name] = queuesOf(all[s.name]) // what a start has shown stays
	}
	s.name = ""
	return nil
}

func queuesOf(c *topic.Config) int32 {
	if c == nil {
		return 0
	}
	return c.ReadQueueNums
}
