package broker

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
)

// lateCopy lets the replication connection take a while, so that the first look at the
// tables comes before it.
func (p *pair) lateCopy(o *Options) {
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, ":10912") {
			<-time.After(100 * time.Millisecond)
		}
		return p.net.dial(ctx, addr)
	}
}

// TestBrieflyTogether: a pair that was together only for the moment in which the slave
// connected. The slave is promoted while the master is away, and the master, which comes
// back, knows it: no stranger took its name.
func TestBrieflyTogether(t *testing.T) {
	for name, key := range map[string]string{"no key": "", "a key": goodKey} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable, keyed(key))
				p.startSlave(switchable, keyed(key), p.lateCopy)
				for p.s.b.ha.slave.Status().State != replication.Syncing {
					<-time.After(time.Millisecond)
				}
				if list := p.m.b.sync.members.all(); len(list) != 1 || list[0].Addr != p.s.b.Addr() || !list[0].Ours {
					t.Fatalf("the master remembers %+v", list)
				}
				p.m.stop()
				p.s.stop()
				p.startSlave(switchable, keyed(key))
				p.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
				p.s.mustSend("T", 0, "new")
				p.lookedAround()
				p.startMaster(switchable, keyed(key))
				p.m, p.s = p.s, p.m
				p.caughtUp()
				if st := p.s.b.stand.Load(); !st.isSlave() || st.ID != 1 || st.Epoch != 1 {
					t.Errorf("the old master is %+v", st)
				}
			})
		})
	}
}

// TestTablesComeWithTheConnection: with a key a slave takes over tables once the master has
// proved it over the replication connection, and then at once.
func TestTablesComeWithTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(keyed(goodKey))
		p.m.mustSend("T", 0, "one")
		p.startSlave(keyed(goodKey), p.lateCopy)
		for p.s.b.ha.slave.Status().State != replication.Syncing {
			<-time.After(time.Millisecond)
		}
		<-time.After(50 * time.Millisecond)
		if p.s.b.topics.Get("T") == nil {
			t.Error("the slave has not the topic")
		}
	})
}

// TestAttachOfStrangers: who may not copy, or lives where no replica does, is not remembered
// on disk.
func TestAttachOfStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable, p.on("10.0.0.1"))
		attach := func(from, text string) {
			t.Helper()
			c := remoting.NewClient(remoting.ClientOptions{Dial: hosts{p.net}.from(from), Serialize: remoting.JSON})
			defer c.Close()
			p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepAttach}, []byte(text)), 0, "")
		}
		good := `{"BrokerName":"broker-a","BrokerID":1,"BrokerAddr":"10.0.0.2:10921","SegmentBytes":` + strconv.FormatInt(p.m.b.ha.settings.Load().SegmentBytes, 10) + `}`
		for _, bad := range []struct{ from, text string }{
			{"10.0.0.9", good}, // nobody is registered there
			{"10.0.0.1", strings.Replace(good, "broker-a", "broker-b", 1)},
			{"10.0.0.1", strings.Replace(good, `"BrokerID":1`, `"BrokerID":0`, 1)},
			{"10.0.0.1", strings.Replace(good, "10.0.0.2:10921", "somewhere", 1)},
			{"10.0.0.1", strings.Replace(good, `"SegmentBytes":`, `"SegmentBytes":1`, 1)},
			{"10.0.0.1", strings.Replace(good, `"BrokerID":1`, `"BrokerID":1,"Peek":true`, 1)},
		} {
			if attach(bad.from, bad.text); len(p.m.b.sync.members.all()) != 0 {
				t.Fatalf("after %s from %s: %+v", bad.text, bad.from, p.m.b.sync.members.all())
			}
		}
		if attach("10.0.0.1", good); len(p.m.b.sync.members.all()) != 1 {
			t.Errorf("a replica of this machine is not remembered")
		}
	})
}

// TestLastWordOfASlave: what a slave acknowledged last is told, however shortly it was there.
func TestLastWordOfASlave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.startSlave()
		for p.s.b.ha.slave.Status().State != replication.Syncing {
			<-time.After(time.Millisecond)
		}
		p.m.b.lookAtPeers() // the slave has nothing now
		p.m.mustSend("T", 0, "one")
		p.caughtUp()
		p.s.stop()
		synctest.Wait()
		lost := p.m.b.ha.lost.list()
		if len(lost) != 1 || lost[0].acked != int64(p.m.b.store.Positions().Max) {
			t.Fatalf("%+v, the log ends at %d", lost, p.m.b.store.Positions().Max)
		}
		if why := lost[0].why(time.Now()); !strings.HasSuffix(why, "it had acknowledged everything before "+strconv.FormatInt(lost[0].acked, 10)) {
			t.Error(why)
		}
		lost[0].acked = 0
		if why := lost[0].why(time.Now()); !strings.HasSuffix(why, "it had acknowledged nothing") {
			t.Error(why)
		}
	})
}
