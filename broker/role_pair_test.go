package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store/vfs"
)

// switchable lets a replica change its role and relay.
func switchable(o *Options) {
	o.Reloadable.RoleSwitch, o.Reloadable.ForwardStaleWrites = true, true
}

// step takes a step at a broker and returns what it is then; a refusal ends the test
// unless code is expected.
func (r *rig) step(want int, ext ...string) *body.RoleStatus {
	r.t.Helper()
	m := map[string]string{}
	for i := 0; i+1 < len(ext); i += 2 {
		m[ext[i]] = ext[i+1]
	}
	resp := r.call(remoting.ReqMqctlRole, m, nil)
	if resp.Code != want {
		r.t.Fatalf("step %v: %d %s, want %d", ext, resp.Code, resp.Remark, want)
	}
	if resp.Code != 0 {
		return nil
	}
	st, err := body.DecodeRoleStatus(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// promote is a planned promotion of to, step by step.
func promote(from, to *rig, epoch int64) {
	t := from.t
	t.Helper()
	e := strconv.FormatInt(epoch, 10)
	fenced := from.step(0, "step", "fence", "epoch", e)
	for range 1000 {
		if st := to.step(0, "step", "status"); st.Max == fenced.Max && st.Dispatched == st.Max {
			break
		}
		<-time.After(time.Millisecond)
	}
	st := to.step(0, "step", "status")
	from.step(0, "step", "demote", "epoch", e, "id", fmt.Sprint(st.BrokerID), "master", st.Addr, "ha", st.HAAddr)
	to.step(0, "step", "promote", "epoch", e, "end", fmt.Sprint(fenced.Max), "role", fenced.Role)
}

// producer sends one message after another to one address, whoever is master.
type producer struct {
	sent    int
	longest time.Duration
	failed  string
}

func (p *producer) run(r *rig, addr, name string, stop *atomic.Bool) {
	c := r.newClient(remoting.Binary)
	defer c.Close()
	for !stop.Load() && p.failed == "" {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		resp, err := c.Call(ctx, addr, 310, remoting.Map(v2(sendExt("T", 0, props("who", name)))), []byte(fmt.Sprint(name, "-", p.sent)))
		cancel()
		switch {
		case err != nil:
			p.failed = err.Error()
		case resp.Code != 0:
			p.failed = fmt.Sprintf("%d %s", resp.Code, resp.Remark)
		}
		p.sent++
		p.longest = max(p.longest, time.Since(begin))
		<-time.After(2 * time.Millisecond)
	}
}

// A pair is promoted there and back while producers go on sending to the address
// they knew at the beginning: no send fails, none is lost or stored twice, each
// producer's messages stay in order, and no send takes a second.
func TestPromoteUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable)
		p.m.mustSend("T", 0, "first")
		p.startSlave(switchable)
		p.caughtUp()
		var stop atomic.Bool
		var wg sync.WaitGroup
		producers := make([]producer, 4)
		for i := range producers {
			wg.Go(func() { producers[i].run(p.m, mainAddr, fmt.Sprint("p", i), &stop) })
		}
		<-time.After(300 * time.Millisecond)
		promote(p.m, p.s, 1)
		<-time.After(2 * time.Second)
		if m, s := p.m.b.stand.Load(), p.s.b.stand.Load(); !m.isSlave() || m.ID != 1 || s.isSlave() || s.ID != 0 || m.Epoch != 1 || s.Epoch != 1 {
			t.Errorf("after the promotion: %+v and %+v", m, s)
		}
		if got := p.s.b.reg.Members(); len(got) != 2 || got[0] != p.s.b.Addr() || got[1] != p.m.b.Addr() {
			t.Errorf("the nameserver has %v", got)
		}
		promote(p.s, p.m, 2)
		<-time.After(2 * time.Second)
		stop.Store(true)
		wg.Wait()
		p.caughtUp()
		p.sameLogs()
		next := map[string]int{}
		for _, m := range p.m.all("T", 0)[1:] {
			who := m.props["who"]
			if m.body != fmt.Sprint(who, "-", next[who]) {
				t.Fatalf("%q follows %s-%d", m.body, who, next[who]-1)
			}
			next[who]++
		}
		for i := range producers {
			q := &producers[i]
			if q.failed != "" || q.longest >= time.Second {
				t.Errorf("producer %d: failed %q, longest send %s", i, q.failed, q.longest)
			}
			if n := next[fmt.Sprint("p", i)]; n != q.sent {
				t.Errorf("producer %d sent %d, %d are stored", i, q.sent, n)
			}
		}
	})
}

// What clients with an old route ask of a former master for 65 s: progress and
// locks are the new master's, pulls are served although slaveReadEnable is off, and
// a message that is relayed keeps the address of its producer.
func TestFormerMaster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		quiet := func(o *Options) { switchable(o); o.Reloadable.SlaveRead = false }
		p.startMaster(quiet)
		p.m.mustSend("T", 0, "first")
		p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
		p.startSlave(quiet)
		p.caughtUp()
		<-time.After(2 * time.Second)
		p.m.step(remoting.CodeInvalidParameter, "step", "demote", "epoch", "1", "id", "1", "master", p.s.b.Addr(), "ha", p.s.b.ha.addr)
		p.m.step(0, "step", "fence", "epoch", "1")
		p.s.step(0, "step", "exchange")
		p.m.step(0, "step", "unfence", "epoch", "1")
		promote(p.m, p.s, 1)
		<-time.After(time.Second)
		commit := map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
		p.m.wants(p.m.call(15, commit, nil), 0, "")
		if off, ok := p.s.b.offsets.Query([]byte("G"), []byte("T"), 0); !ok || off != 1 {
			t.Errorf("the new master has progress %d, %v", off, ok)
		}
		resp := p.m.call(14, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0"}, nil)
		if p.m.wants(resp, 0, ""); resp.Ext["offset"] != "1" {
			t.Errorf("progress by way of the former master: %v", resp.Ext)
		}
		lock := []byte(`{"clientId":"c1","consumerGroup":"G","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}`)
		p.m.wants(p.m.call(41, nil, lock), 0, "")
		if got := p.s.b.locks.Leases(); len(got) != 1 || got[0].ClientID != "c1" {
			t.Errorf("the new master's locks: %+v", got)
		}
		p.m.wants(p.m.call(42, nil, lock), 0, "")
		if got := p.s.b.locks.Leases(); len(got) != 0 {
			t.Errorf("the new master's locks after 42: %+v", got)
		}
		p.m.mustSend("T", 0, "second")
		p.caughtUp()
		if resp, ms := p.m.pull("G", "T", 0, 1); resp.Code != 0 || len(ms) != 1 || ms[0].body != "second" {
			t.Errorf("a pull at the former master: %d %s %v", resp.Code, resp.Remark, ms)
		}
		// Later it is a slave like others: it hands on sends, and serves nothing else.
		<-time.After(formerFor)
		p.m.wants(p.m.call(11, pullExt("G", "T", 0, 1), nil), remoting.CodeSystemBusy, "")
		p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "2"}, nil), 0, "")
		if off, _ := p.s.b.offsets.Query([]byte("G"), []byte("T"), 0); off != 1 {
			t.Errorf("progress was relayed after %s: %d", formerFor, off)
		}
		p.m.mustSend("T", 0, "third")
		if got := p.s.all("T", 0); len(got) != 3 {
			t.Errorf("%d messages at the master", len(got))
		}
	})
}

// A former master whose new master dies within those 65 s serves what it else would
// hand on: progress and locks, for groups that it knows and others, and reads. What
// is committed there is at the master when that is back.
func TestFormerMasterAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable)
		p.m.mustSend("T", 0, "first")
		p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
		p.startSlave(switchable)
		p.caughtUp()
		<-time.After(2 * time.Second)
		promote(p.m, p.s, 1)
		<-time.After(time.Second)
		if st := p.m.b.stand.Load(); st.Leaving || !st.MasterAlive {
			t.Fatalf("a second after the promotion: %+v", st)
		}
		p.s.stop()
		<-time.After(time.Second)
		for _, group := range []string{"G", "unheard"} {
			key := map[string]string{"consumerGroup": group, "topic": "T", "queueId": "0", "commitOffset": "1"}
			p.m.wants(p.m.call(15, key, nil), 0, "")
			if resp := p.m.call(14, key, nil); resp.Code != 0 || resp.Ext["offset"] != "1" {
				t.Errorf("progress of %s: %d %s %v", group, resp.Code, resp.Remark, resp.Ext)
			}
			lock := fmt.Appendf(nil, `{"clientId":"c1","consumerGroup":%q,"mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}`, group)
			p.m.wants(p.m.call(41, nil, lock), 0, "")
			if resp, ms := p.m.pull(group, "T", 0, 0); resp.Code != 0 || len(ms) != 1 {
				t.Errorf("a pull: %d %s", resp.Code, resp.Remark)
			}
		}
		p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "no group", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil), remoting.CodeSubscriptionGroupNotExist, "")
		p.startSlave(switchable, func(o *Options) { o.ID, o.Role, o.Epoch, o.FormerID = 0, AsyncMaster, 1, 1 })
		<-time.After(3 * time.Second)
		for _, group := range []string{"G", "unheard"} {
			if off, ok := p.s.b.offsets.Query([]byte(group), []byte("T"), 0); !ok || off != 1 {
				t.Errorf("the master came back with progress %d, %v of %s", off, ok, group)
			}
		}
	})
}

// Bad requests on 30002 and 30004 are refused with a reason and change nothing.
func TestBadSteps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, switchable)
		for _, tt := range []struct {
			code   int
			ext    map[string]string
			body   string
			want   int
			remark string
		}{
			{30002, map[string]string{}, "", 29, "there is no step"},
			{30002, map[string]string{"step": "fence"}, "", 29, "field epoch is missing"},
			{30002, map[string]string{"step": "begin", "epoch": "1", "change": "x"}, "", 29, "fields change and target are missing"},
			{30002, map[string]string{"step": "fence", "epoch": "1", "change": strings.Repeat("x", maxStepText+1)}, "", 29, "too long"},
			{30002, map[string]string{"step": "fence", "epoch": "soon"}, "", 29, `field epoch: "soon"`},
			{30002, map[string]string{"step": "fence", "epoch": "-1"}, "", 29, `field epoch: "-1"`},
			{30002, map[string]string{"step": "promote", "epoch": "1", "role": "KING"}, "", 29, `field role: "KING"`},
			{30002, map[string]string{"step": "demote", "epoch": "1", "id": "1", "master": "nowhere", "ha": "h:1"}, "", 29, "field master"},
			{30004, nil, "", 29, "the relayed request"},
			{30004, nil, "\x00\x00\x00\x04\x00\x00\x00\x09", 29, "the relayed request"},
			{30004, map[string]string{"client": "1.2.3.4:5"}, bareFrame(t, 30), 29, "request 30 is not relayed"},
			{30004, map[string]string{"client": "me"}, bareFrame(t, 15), 29, `client "me"`},
			{30004, map[string]string{"client": "1.2.3.4:5#6"}, bareFrame(t, 15), 29, "field consumerGroup"},
		} {
			resp := r.call(tt.code, tt.ext, []byte(tt.body))
			if resp.Code != tt.want || !strings.Contains(resp.Remark, tt.remark) {
				t.Errorf("%d %v: %d %q, want %d %q", tt.code, tt.ext, resp.Code, resp.Remark, tt.want, tt.remark)
			}
		}
		if st := r.step(0, "step", "status"); st.Fenced || st.Epoch != 0 || st.Role != "ASYNC_MASTER" {
			t.Errorf("%+v", st)
		}
	})
}

func bareFrame(t *testing.T, code int) string {
	b, err := remoting.AppendFrame(nil, &remoting.Header{Code: code, Language: "JAVA", Version: 479, Serialize: remoting.Binary}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A master dies with messages that its slave does not have; the slave is promoted
// by force, the old master comes back, follows it, and keeps its extra messages in a file.
// Progress into them is lowered at both.
func TestForcedAndBack(t *testing.T) {
	for name, known := range map[string]bool{"the nameserver knows": true, "nobody else knows": false} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { forcedAndBack(t, known) }) })
	}
}

func forcedAndBack(t *testing.T, known bool) {
	p := newPair(t)
	p.startMaster(switchable)
	p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
	p.sendBodies(0, 10)
	p.startSlave(switchable)
	p.caughtUp()
	<-time.After(12 * time.Second) // it notes how far the master's log goes
	p.s.stop()
	p.sendBodies(10, 15)
	p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "14"}, nil), 0, "")
	extra := p.m.b.store.Positions().Max
	p.m.stop()
	p.startSlave(switchable)
	st := p.s.step(0, "step", "status")
	if st.MasterEndAt == 0 || st.MasterEnd != st.Max || st.Max >= int64(extra) {
		t.Errorf("what is known of the master's end: %+v", st)
	}
	p.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
	p.s.mustSend("T", 0, "new")
	if known {
		p.lookedAround()
		p.startMaster(switchable)
	} else {
		p.startMaster(switchable, func(o *Options) { o.Namesrvs = nil })
	}
	if st := p.m.b.stand.Load(); !st.isSlave() || st.ID != 1 || st.Epoch != 1 {
		t.Fatalf("the old master is %+v", st)
	}
	p.m, p.s = p.s, p.m
	p.caughtUp()
	p.sameLogs()
	<-time.After(2 * time.Second)
	if got := p.m.all("T", 0); len(got) != 11 || got[10].body != "new" {
		t.Errorf("%d messages", len(got))
	}
	if st := p.s.step(0, "step", "status"); st.Aside == "" || st.ClampedTotal != 1 {
		t.Errorf("what became of the tail: %+v", st)
	}
	shown := p.s.b.inspector().ha().Asides
	p.s.stop()
	p.s = startIn(p.t, p.net, p.s.fs, replica(0, switchable, func(o *Options) { o.Role, o.ID, o.Epoch = Slave, 1, 1 }))
	p.caughtUp()
	if again := p.s.b.inspector().ha(); len(shown) != 1 || !slices.Equal(again.Asides, shown) || again.Following.Aside != shown[0] {
		t.Errorf("what was cut off was shown as %q, after a restart as %+v", shown, again)
	}
	for _, r := range []*rig{p.m, p.s} {
		if off, _ := r.b.offsets.Query([]byte("G"), []byte("T"), 0); off != 10 {
			t.Errorf("progress at %s: %d", r.b.Addr(), off)
		}
	}
	if h, err := loadRole(p.s.fs, "/store"); err != nil || h.Role != "SLAVE" || h.Rejoin {
		t.Errorf("role.json of the old master: %+v, %v", h, err)
	}
}

// Both are away after a forced promotion, and the old master, which did not live to see
// it, returns first: it serves again. The new one takes its place back when it returns,
// and what the old one took meanwhile is set aside.
func TestNewMasterReturnsLast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := switchablePair(t)
		<-time.After(12 * time.Second)
		p.m.stop()
		<-time.After(3 * time.Second)
		p.s.step(0, "step", "promote", "epoch", "1", "force", "true", "role", "ASYNC_MASTER")
		for i := range 3 {
			p.s.mustSend("T", 0, fmt.Sprint("new ", i))
		}
		p.lookedAround()
		p.s.stop()
		<-time.After(20 * time.Second)               // the nameserver forgets it
		p.startMaster(switchable, func(o *Options) { // it says who it is when it is asked
			o.Settings = settingsFor(t, vfs.NewMem(), ConfigInput{Set: []string{"brokerName=broker-a", "storePathRootDir=/store", "mappedFileSizeCommitLog=1048576"}})
		})
		if st := p.m.b.stand.Load(); st.isSlave() || st.Epoch != 0 {
			t.Fatalf("the old master is %+v", st)
		}
		p.m.mustSend("T", 0, "late")
		p.lookedAround()
		p.startSlave(switchable, func(o *Options) { o.Role, o.ID, o.Epoch = AsyncMaster, 0, 1 })
		<-time.After(15 * time.Second)
		if st := p.m.b.stand.Load(); !st.isSlave() || st.Epoch != 1 {
			t.Fatalf("the old master became %+v", st)
		}
		if st := p.s.b.stand.Load(); st.isSlave() || st.Epoch != 1 {
			t.Fatalf("the new master became %+v", st)
		}
		if st := p.m.step(0, "step", "status"); st.Aside == "" {
			t.Errorf("what became of the old master's message: %+v", st)
		}
		p.m, p.s = p.s, p.m
		p.caughtUp()
		p.sameLogs()
		if got := p.m.all("T", 0); len(got) != 13 || got[12].body != "new 2" {
			t.Errorf("%d messages", len(got))
		}
	})
}

// switchablePair is a pair that may change roles, with ten messages on both.
func switchablePair(t *testing.T) *pair {
	p := newPair(t)
	p.startMaster(switchable)
	p.startSlave(switchable)
	p.sendBodies(0, 10)
	p.caughtUp()
	return p
}

// The leader of a planned change dies between demote and promote: the demoted master
// finishes it. What the leader asks for afterwards changes nothing.
func TestChangeIsFinished(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := switchablePair(t)
		end := p.m.step(0, "step", "fence", "epoch", "1").Max
		st := p.s.step(0, "step", "status")
		p.m.step(0, "step", "demote", "epoch", "1", "id", "1", "master", st.Addr, "ha", st.HAAddr)
		<-time.After(finishAfter - time.Second)
		if st := p.s.step(0, "step", "status"); st.Role != "SLAVE" {
			t.Fatalf("the leader had no time: %+v", st)
		}
		<-time.After(2 * time.Second)
		if st := p.s.step(0, "step", "status"); st.Role != "ASYNC_MASTER" || st.Epoch != 1 {
			t.Fatalf("the new master is %+v", st)
		}
		p.s.mustSend("T", 0, "new")
		p.m.step(remoting.CodeInvalidParameter, "step", "promote", "epoch", "2", "end", fmt.Sprint(end), "role", "ASYNC_MASTER")
		p.s.step(0, "step", "promote", "epoch", "1", "end", fmt.Sprint(end), "role", "ASYNC_MASTER")
		p.m, p.s = p.s, p.m
		p.caughtUp()
		p.sameLogs()
	})
}

// A slave knows what kind of master it has, also in its next run, and as a former
// master: a forced promotion goes on with it.
func TestMasterRoleIsKept(t *testing.T) {
	for _, role := range []Role{SyncMaster, AsyncMaster} {
		t.Run(role.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				kind := func(o *Options) { o.Role = role }
				p.startMaster(switchable, kind)
				p.startSlave(switchable)
				p.caughtUp()
				wants := func(r *rig, when string) {
					if st := r.step(0, "step", "status"); st.MasterRole != role.String() {
						t.Errorf("%s, the master was %q", when, st.MasterRole)
					}
				}
				<-time.After(500 * time.Millisecond)
				wants(p.s, "before it said hello")
				<-time.After(12 * time.Second)
				wants(p.s, "while it lives")
				promote(p.m, p.s, 1)
				wants(p.m, "just demoted")
				promote(p.s, p.m, 2)
				<-time.After(12 * time.Second)
				p.s.stop()
				p.m.stop()
				p.startSlave(switchable)
				wants(p.s, "in the next run")
			})
		})
	}
}

// What kind of master it was is known also when both stopped, or were killed, a moment
// after they had met, and the slave alone was started again.
func TestMasterRoleOutlivesBoth(t *testing.T) {
	for name, kill := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable, func(o *Options) { o.Role = SyncMaster })
				p.startSlave(switchable)
				p.sendBodies(0, 3)
				p.caughtUp()
				<-time.After(2 * roleTick)
				p.m.stop()
				if kill {
					p.ss = p.s.killed()
				} else {
					p.s.stop()
				}
				p.startSlave(switchable)
				if st := p.s.step(0, "step", "status"); st.MasterRole != SyncMaster.String() {
					t.Errorf("the master was %q", st.MasterRole)
				}
			})
		})
	}
}

// How long a master may have gone on unheard counts from the last that was heard of its log's
// end to the end of the connection: the time that it has been dead for does not matter.
func TestMasterEndLag(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := switchablePair(t)
		<-time.After(time.Minute) // idle: heartbeats tell the end
		p.m.stop()
		<-time.After(10 * time.Minute)
		st := p.s.step(0, "step", "status")
		if age := p.s.b.opts.Now().UnixMilli() - st.MasterEndAt; st.MasterEnd != st.Max || st.MasterEndLag > 6000 || age < 600_000 {
			t.Errorf("%d ms old, and heard %d ms before the end of the connection: %+v", age, st.MasterEndLag, st)
		}
	})
}

// A master that was a slave before, and loses its place to a forced promotion while it
// runs (frozen, or cut off), compares its log with the new master's before anything
// else. What it knew as a slave does not count: its state of then was SYNCING.
func TestForcedWhileTheOldMasterRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := switchablePair(t)
		promote(p.m, p.s, 1)
		<-time.After(3 * time.Second) // the other one follows
		promote(p.s, p.m, 2)
		<-time.After(3 * time.Second)
		if st := p.m.step(0, "step", "status"); st.MasterEnd != 0 || st.MasterEndAt != 0 {
			t.Errorf("a master knows of its master: %+v", st)
		}
		p.s.stop()
		p.sendBodies(10, 15) // only here
		extra := p.m.b.store.Positions().Max
		p.net.mu.Lock()
		cut := p.net.listeners
		p.net.listeners = map[string]*pipeListener{nsAddr: cut[nsAddr]}
		p.net.mu.Unlock()
		p.startSlave(switchable)
		<-time.After(12 * time.Second)
		p.s.step(0, "step", "promote", "epoch", "3", "force", "true", "role", "ASYNC_MASTER")
		p.s.mustSend("T", 0, "new")
		<-time.After(30 * time.Second)
		st := p.m.step(0, "step", "status")
		if st.Role != Slave.String() || st.Aside == "" || st.State != string(replication.Syncing) || st.Max >= int64(extra) {
			t.Fatalf("the old master: %+v", st)
		}
		p.m, p.s = p.s, p.m
		p.caughtUp()
		p.sameLogs()
	})
}
