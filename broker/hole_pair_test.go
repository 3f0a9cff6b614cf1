package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mqctl/replication"
	"mqctl/store/vfs"
)

// damageMessage overwrites the body of message n of T on the disk of a stopped broker,
// and lets its next start look at the whole log.
func damageMessage(t *testing.T, fs *vfs.Mem, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(fmt.Sprintf("/store/commitlog/%020d", 0))
	if err == nil {
		_, err = f.WriteAt([]byte("what a sick disk makes of a record, its head and its body too"), at+8)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = fs.RemoveAll("/store/mqctl/progress")
	}
	if err == nil {
		err = vfs.WriteFile(fs, "/store/abort", []byte("1"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHoleOfEither: an old master comes back with a tail of its own under a new one,
// and one of the two has lost a message in the middle. Only the tail is cut; who has
// the message keeps it, and what comes later is replicated.
func TestHoleOfEither(t *testing.T) {
	for _, whose := range []string{"new master", "old master"} {
		t.Run(whose, func(t *testing.T) { inBubble(t, func(t *testing.T) { holeOf(t, whose) }) })
	}
}

func holeOf(t *testing.T, whose string) {
	p := newPair(t)
	p.startMaster(switchable)
	p.sendBodies(0, 10)
	third := p.m.all("T", 0)[3].phys
	p.startSlave(switchable)
	p.caughtUp()
	common := p.s.b.store.Positions().Max
	<-time.After(12 * time.Second)
	p.s.stop()
	p.sendBodies(10, 15)
	p.m.stop()
	p.startSlave(switchable)
	p.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
	p.s.mustSend("T", 0, "new")
	p.lookedAround()
	if whose == "new master" {
		p.s.stop()
		damageMessage(t, p.ss, third)
		p.startSlave(switchable, func(o *Options) { o.ID, o.Role, o.Epoch, o.FormerID = 0, AsyncMaster, 1, 1 })
	} else {
		damageMessage(t, p.ms, third)
	}
	p.startMaster(switchable)
	damaged, good := p.s, p.m
	if whose == "old master" {
		damaged, good = p.m, p.s
	}
	if n := len(damaged.b.store.Holes()); n != 1 {
		t.Fatalf("%d holes: %+v", n, damaged.b.recovery)
	}
	p.m, p.s = p.s, p.m
	p.caughtUp()
	p.m.mustSend("T", 0, "later")
	p.caughtUp()
	if st := p.s.b.ha.slave.Status(); st.State != replication.Syncing || !strings.Contains(st.Aside, fmt.Sprintf("cut-%020d-", int64(common))) {
		t.Errorf("the old master: %+v; its tail begins at %d", st, common)
	}
	bodies := func(r *rig) (out string) {
		for _, m := range r.all("T", 0) {
			out += m.body + " "
		}
		return out
	}
	const all = "body0 body1 body2 body3 body4 body5 body6 body7 body8 body9 new later "
	if got := bodies(good); got != all {
		t.Errorf("who has the message serves %s", got)
	}
	if got := bodies(damaged); got != strings.Replace(all, "body3 ", "", 1) {
		t.Errorf("who has lost it serves %s", got)
	}
}
