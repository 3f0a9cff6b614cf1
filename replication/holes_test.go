package replication

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/record"
)

// TestHolesAreNotCompared: what either side has lost says nothing about whether the
// logs differ. The good copy of the other stays, a tail is cut where it begins, and
// replication goes on behind a hole in which a slave's log ends.
func TestHolesAreNotCompared(t *testing.T) {
	base := filled(300, "same")
	n := len(base.starts)
	theirs, ours := extended(base, 100, "theirs"), extended(base, 100, "ours")
	early := holed(base, 0, 12)
	for _, c := range []struct {
		name          string
		master, slave *memLog
		rejoin        bool
		state         State
		same          int64 // the slave's bytes before it are what they were; behind it the master's
		asides        int
		says          string
	}{
		{name: "the master's, before a tail", master: holed(theirs, 100, 112), slave: ours, rejoin: true, state: Syncing, same: base.end(), asides: 1},
		{name: "the slave's, before a tail", master: theirs, slave: holed(ours, 100, 112), rejoin: true, state: Syncing, same: base.end(), asides: 1},
		{name: "both sides', before a tail", master: holed(theirs, 100, 112), slave: holed(holed(ours, 150, 160), 105, 120), rejoin: true, state: Syncing, same: base.end(), asides: 1},
		{name: "many", master: holed(holed(holed(theirs, 250, 255), 150, 160), 60, 70), slave: holed(holed(ours, 200, 205), 10, 20), rejoin: true, state: Syncing, same: base.end(), asides: 1},
		{name: "at the beginning", master: holed(theirs, 0, 12), slave: ours, rejoin: true, state: Syncing, same: base.end(), asides: 1},
		{name: "the master's, up to where the slave ends", master: holed(theirs, n-9, n), slave: base.clone(), state: Syncing, same: base.end()},
		{name: "the master's, beyond where the slave ends", master: holed(theirs, n-4, n+4), slave: base.clone(), state: Syncing, same: base.end()},
		{name: "the slave's, at its end", master: theirs, slave: holed(theirs, n-4, n+4).cutTo(theirs.starts[n+4]), state: Syncing, same: theirs.starts[n+4]},
		// Where the difference begins inside a hole, all that was in it is cut: a message
		// that the master may never have had must not stay.
		{name: "the difference lies in it", master: holed(theirs, n-4, n+4), slave: ours, rejoin: true, state: Syncing, same: base.starts[n-4], asides: 1},
		{name: "the difference lies in the slave's own", master: theirs, slave: holed(ours, n-4, n+4), rejoin: true, state: Syncing, same: base.starts[n-4], asides: 1},
		{name: "the difference lies in both sides'", master: holed(theirs, n-4, n+4), slave: holed(ours, n-8, n+2), rejoin: true, state: Syncing, same: base.starts[n-8], asides: 1},
		{name: "the difference lies in it, and the master is no newer one", master: holed(theirs, n-4, n+4), slave: ours, state: Diverged, same: ours.end(), says: "one of the two has lost its messages up to " + strconv.FormatInt(theirs.starts[n+4], 10)},
		{name: "no tail is cut without a newer master", master: holed(theirs, 100, 112), slave: ours, state: Diverged, same: ours.end(), says: "differ from there on"},
		{name: "nothing else in common", master: early.cutTo(early.starts[1]), slave: base.clone().cutTo(base.starts[5]), state: Diverged, same: base.starts[5]},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pn := newPipeNet()
				a := newNode(t, c.master).serve(pn, "a", func(*MasterOptions) {})
				defer func() { a.stop() }()
				c.slave = c.slave.clone()
				b := newNode(t, c.slave)
				st := *b.set.Load()
				st.RejoinTruncate, st.SegmentBytes = true, c.slave.seg
				b.set.Store(&st)
				before := c.slave.bytes()
				b.follow(pn, a, "a", func(o *SlaveOptions) { o.Rejoin = func() bool { return c.rejoin } })
				defer func() { b.stop() }()
				<-time.After(30 * time.Second)
				got := b.s.Status()
				if got.State != c.state || !strings.Contains(got.Sentence, c.says) {
					t.Fatalf("%s: %s\n%s", got.State, got.Sentence, b.logged())
				}
				if len(c.slave.asides) != c.asides || c.asides > 0 && int64(c.slave.asides[0].From) != c.same {
					t.Fatalf("set aside: %+v, want from %d", c.slave.asides, c.same)
				}
				after := c.slave.bytes()
				if !bytes.Equal(after[:c.same], before[:c.same]) {
					t.Error("what the slave had was replaced")
				}
				if c.state != Syncing {
					return
				}
				from := c.same
				for _, h := range c.slave.holes { // what fills a hole may be cut otherwise than the master's
					from = max(from, h.to)
				}
				if !bytes.Equal(after[from:], c.master.bytes()[from:]) {
					t.Errorf("from %d on the logs differ", from)
				}
				if n := strings.Count(b.logged(), "\n"); n > 6 {
					t.Fatal(b.logged())
				}
			})
		})
	}
}

// cutTo is l up to p only.
func (l *memLog) cutTo(p int64) *memLog {
	if _, err := l.TruncateTo(record.PhysOffset(p)); err != nil {
		panic(err)
	}
	l.asides = nil
	return l
}
