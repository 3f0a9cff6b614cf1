package broker

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

// wallClock is the clock of a machine, which the test sets.
type wallClock struct{ by atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

func (c *wallClock) set(by time.Duration) { c.by.Store(int64(by)) }

func (c *wallClock) option(o *Options) { o.Now = c.now }

// TestSetClock: somebody sets the clock of the master's or the slave's machine by hours.
// Nobody notices: synchronous sends are answered, the slave stays connected and in sync,
// members and locks stay as long as they should, held pulls end when they should, and
// progress goes over.
func TestSetClock(t *testing.T) {
	for _, by := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
		for _, who := range []string{"master", "slave"} {
			t.Run(fmt.Sprintf("%s by %v", who, by), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { setClockOfPair(t, who, by) })
			})
		}
	}
}

func setClockOfPair(t *testing.T, who string, by time.Duration) {
	p := newPair(t)
	clocks := map[string]*wallClock{"master": {}, "slave": {}}
	p.startMaster(syncMaster, clocks["master"].option)
	p.startSlave(clocks["slave"].option)
	p.m.createTopic("T", 1)
	p.m.createTopic("Split", 1)
	p.m.putGroup(subgroup.Defaults("g"))
	p.m.putGroup(subgroup.Defaults("G"))
	p.lookedAround()
	p.m.mustSend("Split", 0, "before")
	p.caughtUp()
	consumer := p.m.newClient(remoting.JSON)
	p.m.wants(p.m.heartbeat(consumer, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1}), 0, "")
	lock := func(client string) int {
		resp := p.m.call(remoting.ReqLockBatchMQ, nil, []byte(`{"clientId":"`+client+`","consumerGroup":"G","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}`))
		var got struct{ LockOKMQSet []any }
		if err := json.Unmarshal(resp.Body, &got); err != nil {
			t.Fatal(err)
		}
		return len(got.LockOKMQSet)
	}
	if lock("c1") != 1 {
		t.Fatal("no lock")
	}
	since := p.m.b.ha.master.Status().Slaves[0].Since
	puller := p.m.newClient(remoting.JSON)
	held := p.m.hold(t, puller, 1, "15000")

	clocks[who].set(by)
	sent := time.Now()
	p.m.mustSend("Split", 0, "after")
	if took := time.Since(sent); took > 100*time.Millisecond {
		t.Errorf("a send took %v", took)
	}
	held.wants(remoting.CodeSuccess, "0", time.Since(held.begin))
	p.m.commit("G", 0, 1)
	<-time.After(time.Second)
	synctest.Wait()
	p.s.wantProgress("G", 0, 1)

	held = p.m.hold(t, puller, 2, "15000")
	clocks[who].set(0)
	held.wants(remoting.CodePullNotFound, "0", 15*time.Second)
	clocks[who].set(by)
	<-time.After(30 * time.Second) // housekeeping of members, silence of replication
	if p.m.b.members.Group("G") == nil {
		t.Error("the member is gone")
	}
	if lock("c2") != 0 {
		t.Error("the lock was lost")
	}
	<-time.After(20 * time.Second)
	if lock("c2") != 1 {
		t.Error("the lock lives on")
	}
	st := p.m.b.ha.master.Status()
	if len(st.Slaves) != 1 || !st.Slaves[0].InSync || st.Slaves[0].Since != since || st.Slaves[0].GapTime != 0 {
		t.Errorf("the slave was lost meanwhile, or is: %+v", st)
	}
	if s := p.s.b.stand.Load(); !s.MasterAlive {
		t.Error("the slave takes its master for dead")
	}
	if age, why := p.s.b.sync.MetadataAge(); age > 1000 || why != "" {
		t.Errorf("the tables were exchanged %d ms ago: %s", age, why)
	}
	read := time.UnixMilli(p.haStatus(p.s).HAClientRuntimeInfo.LastReadTimestamp)
	if ago := clocks["slave"].now().Sub(read); ago < 0 || ago > 6*time.Second {
		t.Errorf("the master was heard %v ago, says the slave", ago)
	}
	<-time.After(80 * time.Second)
	synctest.Wait()
	if p.m.b.members.Group("G") != nil {
		t.Error("a silent member stays")
	}
}
