package broker

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/nameserver"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

const nsAddr = "127.0.0.1:9876"

// pair is a nameserver, a master and its slave in memory.
type pair struct {
	t    testing.TB
	net  *network
	m, s *rig
	ms   *vfs.Mem // their disks
	ss   *vfs.Mem
}

// testHA are small and quick settings of replication.
func testHA() replication.Settings {
	return replication.Settings{TransferBatch: 32 << 10, HeartbeatInterval: 5 * time.Second, HousekeepingInterval: 20 * time.Second,
		MaxGapNotInSync: 256 << 20, InSyncReplicas: 1, MinInSyncReplicas: 1, SlaveTimeout: 3 * time.Second, CopyAll: true, RejoinTruncate: true}
}

// replica is broker-a as id, on ports of its own.
func replica(id int64, change ...func(*Options)) func(*Options) {
	return func(o *Options) {
		port := 10911 + 10*int(id)
		o.ID, o.ListenAddr = id, fmt.Sprintf("127.0.0.1:%d", port)
		o.HAAddr, o.HAListen = fmt.Sprintf("127.0.0.1:%d", port+1), fmt.Sprintf("127.0.0.1:%d", port+1)
		o.Namesrvs = []string{nsAddr}
		o.Reloadable.HA, o.Reloadable.SlaveRead, o.Reloadable.ActingMaster = testHA(), true, true
		if id > 0 {
			o.Role = Slave
		}
		for _, f := range change {
			f(o)
		}
	}
}

func syncMaster(o *Options) {
	o.Role = SyncMaster
	o.Reloadable.HA.InSyncReplicas = 2
}

// newPair starts a nameserver; the brokers are started by the test.
func newPair(t testing.TB) *pair {
	p := &pair{t: t, net: newNetwork(), ms: vfs.NewMem(), ss: vfs.NewMem()}
	l, err := p.net.listen("tcp", nsAddr)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := nameserver.New(nameserver.Options{Listener: l, SupportActingMaster: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ns.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *pair) startMaster(change ...func(*Options)) {
	p.m = startIn(p.t, p.net, p.ms, replica(0, change...))
}
func (p *pair) startSlave(change ...func(*Options)) {
	p.s = startIn(p.t, p.net, p.ss, replica(1, change...))
}

// caughtUp waits until the slave has all of the master's log, and dispatched it.
func (p *pair) caughtUp() {
	p.t.Helper()
	for range 2000 {
		a, b := p.m.b.store.Positions(), p.s.b.store.Positions()
		if a.Max == b.Max && b.Dispatched == b.Max {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	p.t.Fatalf("master %+v, slave %+v: %+v", p.m.b.store.Positions(), p.s.b.store.Positions(), p.s.b.ha.slave.Status())
}

// sameLogs compares the logs byte for byte.
func (p *pair) sameLogs() {
	p.t.Helper()
	read := func(r *rig) []byte {
		pos := r.b.store.Positions()
		var log []byte
		buf := make([]byte, 64<<10)
		for at := pos.Min; at < pos.Max; {
			n, err := r.b.store.ReadRaw(buf, at)
			if err != nil || n == 0 {
				p.t.Fatalf("reading the log at %d: %d, %v", at, n, err)
			}
			log = append(log, buf[:n]...)
			at += record.PhysOffset(n)
		}
		return log
	}
	if m, s := read(p.m), read(p.s); !bytes.Equal(m, s) {
		p.t.Errorf("the logs differ: %d and %d bytes", len(m), len(s))
	}
}

// lookedAround waits until the brokers have noted who is there: they look once a
// second, not with each message that is copied.
func (p *pair) lookedAround() {
	<-time.After(time.Second)
	synctest.Wait()
}

func (p *pair) wantBodies(r *rig, topic string, queue, n int) {
	p.t.Helper()
	ms := r.all(topic, queue)
	if len(ms) != n {
		p.t.Fatalf("%d messages, want %d", len(ms), n)
	}
	for i, m := range ms {
		if m.body != "body"+strconv.Itoa(i) {
			p.t.Fatalf("message %d is %q", i, m.body)
		}
	}
}

func (p *pair) sendBodies(from, to int) {
	p.t.Helper()
	for i := from; i < to; i++ {
		p.m.mustSend("T", 0, "body"+strconv.Itoa(i))
	}
}

func (p *pair) haStatus(r *rig) *body.HAStatus {
	p.t.Helper()
	st, err := body.DecodeHAStatus(r.call(remoting.ReqGetBrokerHAStatus, nil, nil).Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

func (p *pair) runtimeInfo(r *rig) map[string]string {
	p.t.Helper()
	info, err := body.DecodeKVTable(r.call(remoting.ReqGetBrokerRuntimeInfo, nil, nil).Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return info.Table
}

// A slave finds its master through the nameserver, copies what is there, follows,
// and each of the two may be restarted.
func TestSlaveFollows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.sendBodies(0, 20)
		p.startSlave()
		p.caughtUp()
		p.sendBodies(20, 40)
		p.caughtUp()
		p.sameLogs()
		p.lookedAround()
		if s := p.s.b.stand.Load(); s.Master != mainAddr || s.HA != "127.0.0.1:10912" || !s.MasterAlive {
			t.Errorf("the slave's standing: %+v", s)
		}
		p.s.stop()
		p.sendBodies(40, 60)
		p.startSlave()
		p.caughtUp()
		p.sameLogs()
		p.m.stop()
		p.lookedAround()
		if s := p.s.b.stand.Load(); s.MasterAlive || s.Master != mainAddr {
			t.Errorf("after the master's end: %+v", s)
		}
		p.startMaster()
		p.sendBodies(60, 80)
		p.caughtUp()
		p.sameLogs()
		p.wantBodies(p.m, "T", 0, 80)
	})
}

// What both sides tell of their replication.
func TestPairAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.sendBodies(0, 5)
		p.startSlave()
		p.caughtUp()
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := p.m.b.peers.Load()[1]; got != (replicaPeer{ID: 1, Addr: "127.0.0.1:10921", Ours: true, Alive: true, Readable: true}) {
			t.Errorf("the master sees %+v", got)
		}
		if got := p.s.b.peers.Load()[0]; got != (replicaPeer{Addr: mainAddr, Ours: true, Alive: true, Readable: true}) {
			t.Errorf("the slave sees %+v", got)
		}
		m, sl := p.haStatus(p.m), p.haStatus(p.s)
		end := int64(p.m.b.store.Positions().Max)
		if !m.Master || m.MasterCommitLogMaxOffset != end || m.InSyncSlaveNums != 1 || len(m.HAConnectionInfo) != 1 {
			t.Errorf("907 of the master: %+v", m)
		} else if c := m.HAConnectionInfo[0]; c.SlaveAckOffset != end || c.Diff != 0 || !c.InSync || c.TransferFromWhere != end {
			t.Errorf("907 of the master: %+v", c)
		}
		if c := sl.HAClientRuntimeInfo; sl.Master || sl.MasterCommitLogMaxOffset != 0 || c.MasterAddr != "127.0.0.1:10912" || c.MaxOffset != end ||
			c.LastReadTimestamp == 0 || c.LastWriteTimestamp == 0 {
			t.Errorf("907 of the slave: %+v", sl)
		}
		if info := p.runtimeInfo(p.s); info["mqctlRole"] != "SLAVE" || info["mqctlBrokerId"] != "1" || info["mqctlMasterAddr"] != mainAddr ||
			info["mqctlFollowing"] != "SYNCING" || info["mqctlMasterMaxOffset"] != strconv.FormatInt(end, 10) || info["commitLogMaxOffset"] != strconv.FormatInt(end, 10) {
			t.Errorf("28 of the slave: %v", info)
		}
		if info := p.runtimeInfo(p.m); info["mqctlRole"] != "ASYNC_MASTER" || info["mqctlInSyncSlaves"] != "1" || info["mqctlHaAddr"] != "127.0.0.1:10912" {
			t.Errorf("28 of the master: %v", info)
		}
		// Sends are refused with the name of the master; send-backs as RocketMQ does.
		p.s.wants(p.s.send("T", 0, "x"), remoting.CodeServiceNotAvailable, "broker-a/1 is a slave and takes no messages: send to its master 127.0.0.1:10911")
		back := map[string]string{"offset": "0", "group": "g", "delayLevel": "1"}
		p.s.silent(36, back)
		if h := p.s.asJava(36, back); h.Code != remoting.CodeSystemError || string(h.Remark) != "no master available along with 127.0.0.1" {
			t.Errorf("send-back of a Java client: %d %q", h.Code, h.Remark)
		}
	})
}

// A synchronous master answers when its slave has the message, and says so when it
// has not.
func TestSynchronousPair(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(syncMaster)
		// Nobody is there: stored, and answered so at once.
		begin := time.Now()
		p.m.wants(p.m.send("T", 0, "body0"), remoting.CodeSlaveNotAvailable, "")
		p.m.wants(p.m.send("T", 0, "body1", "WAIT", "false"), 0, "")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s to see that there is no slave", took)
		}
		p.startSlave()
		p.caughtUp()
		<-time.After(time.Second)
		p.sendBodies(2, 30)
		if a, b := p.m.b.store.Positions().Max, p.s.b.store.Positions().Max; a != b {
			t.Errorf("answered at %d, the slave is at %d", a, b)
		}
		p.wantBodies(p.m, "T", 0, 30)
		p.s.stop()
		<-time.After(time.Second)
		p.m.wants(p.m.send("T", 0, "body30"), remoting.CodeSlaveNotAvailable, "")
	})
}

func TestTooFewInSync(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(syncMaster, func(o *Options) { o.Reloadable.HA.MinInSyncReplicas = 2 })
		p.m.mustSend("T", 0, "warm", "WAIT", "false") // makes the topic
		before := p.m.b.store.Positions().Max
		p.m.wants(p.m.send("T", 0, "x"), remoting.CodeSystemError, "in-sync replicas not enough")
		if now := p.m.b.store.Positions().Max; now != before {
			t.Errorf("a refused send was appended: %d bytes", now-before)
		}
		p.startSlave()
		p.caughtUp()
		<-time.After(time.Second)
		p.m.mustSend("T", 0, "x")
	})
}

// A switch within the two processes, there and back: nothing is lost, and the logs
// stay equal.
func TestSwitchRoles(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.sendBodies(0, 10)
		p.startSlave()
		p.caughtUp()
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(p.m.b.setStanding(ctx, func(s *standing) { s.Fenced = true }))
		p.m.wants(p.m.send("T", 0, "x"), remoting.CodeServiceNotAvailable, "broker-a/0 is changing its role")
		p.caughtUp()
		must(p.s.b.setStanding(ctx, func(s *standing) { *s = standing{Role: AsyncMaster, ID: 0, Epoch: 1} }))
		must(p.m.b.setStanding(ctx, func(s *standing) {
			*s = standing{Role: Slave, ID: 1, Epoch: 1, Master: p.s.b.Addr(), HA: p.s.b.ha.addr}
		}))
		p.m, p.s = p.s, p.m
		for i := 10; i < 20; i++ {
			p.m.mustSend("T", 0, "body"+strconv.Itoa(i))
		}
		p.caughtUp()
		p.sameLogs()
		p.wantBodies(p.m, "T", 0, 20)
		<-time.After(3 * time.Second)
		if got := p.m.b.reg.Members(); len(got) != 2 || got[0] != p.m.b.Addr() || got[1] != p.s.b.Addr() {
			t.Errorf("the nameserver has %v", got)
		}
		p.s.wants(p.s.send("T", 0, "x"), remoting.CodeServiceNotAvailable, "broker-a/1 is a slave and takes no messages: send to its master 127.0.0.1:10921")
	})
}
