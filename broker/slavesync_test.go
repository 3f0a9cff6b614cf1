package broker

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// commit commits as an operator's tool does: no client is named.
func (r *rig) commit(group string, queue int, offset int64) {
	r.t.Helper()
	resp := r.call(remoting.ReqUpdateConsumerOffset, map[string]string{"consumerGroup": group, "topic": "T",
		"queueId": strconv.Itoa(queue), "commitOffset": strconv.FormatInt(offset, 10)}, nil)
	r.wants(resp, 0, "")
}

// progress is what a broker answers to 14, -1 for none.
func (r *rig) progress(group string, queue int) int64 {
	r.t.Helper()
	resp := r.call(remoting.ReqQueryConsumerOffset, map[string]string{"consumerGroup": group, "topic": "T",
		"queueId": strconv.Itoa(queue), "setZeroIfNotFound": "false"}, nil)
	if resp.Code != 0 {
		return -1
	}
	n, err := strconv.ParseInt(resp.Ext["offset"], 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) wantProgress(group string, queue int, want int64) {
	r.t.Helper()
	if got := r.progress(group, queue); got != want {
		r.t.Errorf("broker %d has progress %d of %s/%d, want %d", r.b.stand.Load().ID, got, group, queue, want)
	}
}

// killed is what a disk holds after the process that used it was killed.
func (r *rig) killed() *vfs.Mem {
	disk := r.fs.ProcessKillClone()
	r.stop()
	return disk
}

// sameTables compares topics and groups, versions included.
func (p *pair) sameTables() {
	p.t.Helper()
	if m, s := string(p.m.b.topics.JSON()), string(p.s.b.topics.JSON()); tail(m) != tail(s) {
		p.t.Errorf("topics of the master %s\nof the slave %s", m, s)
	}
	if m, s := string(p.m.b.groups.JSON()), string(p.s.b.groups.JSON()); m != s {
		p.t.Errorf("groups of the master %s\nof the slave %s", m, s)
	}
	_, m := p.m.b.topics.All()
	if _, s := p.s.b.topics.All(); m != s {
		p.t.Errorf("topics have version %+v at the master and %+v at the slave", m, s)
	}
}

// tail leaves the version of the mappings out, which counts from each start.
func tail(text string) string {
	return text[strings.Index(text, `"topicConfigTable"`):]
}

// Everything that the master has is at the slave, changes within a second, and
// deletions too.
func TestTablesFollow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.m.createTopic("T", 4)
		p.m.putGroup(subgroup.Defaults("G"))
		p.m.commit("G", 1, 7)
		p.startSlave()
		pass(2 * time.Second)
		p.sameTables()
		p.s.wantProgress("G", 1, 7)

		p.m.createTopic("T2", 2)
		p.m.putGroup(subgroup.Defaults("G2"))
		p.m.commit("G2", 3, 9)
		if err := p.m.b.groups.SetForbidden("G2", "T", false); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		p.sameTables()
		p.s.wantProgress("G2", 3, 9)
		if !p.s.b.groups.Forbidden([]byte("G2"), []byte("T")) {
			t.Error("what is forbidden at the master is not at the slave")
		}

		p.m.wants(p.m.call(remoting.ReqDeleteTopicInBroker, map[string]string{"topic": "T2"}, nil), 0, "")
		p.m.wants(p.m.call(remoting.ReqDeleteSubscriptionGroup, map[string]string{"groupName": "G2", "cleanOffset": "true"}, nil), 0, "")
		pass(time.Second)
		p.sameTables()
		p.s.wantProgress("G2", 3, -1)

		before := p.s.b.sync.changing.Load()
		pass(10 * time.Second)
		if got := p.s.b.sync.changing.Load(); got != before {
			t.Errorf("%d rounds changed something while nothing did", got-before)
		}
		if age, err := p.s.b.sync.MetadataAge(); age < 0 || age > 1000 || err != "" {
			t.Errorf("the tables are %d ms old, error %q", age, err)
		}
		p.m.stop()
		pass(10 * time.Second)
		if age, err := p.s.b.sync.MetadataAge(); age < 9000 || err == "" {
			t.Errorf("without a master the tables are %d ms old, error %q", age, err)
		}
	})
}

// A slave takes no changes of topics and groups, and says who does; its clients'
// heartbeats make nothing.
func TestSlaveRefusesChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.m.createTopic("T", 4)
		p.startSlave()
		pass(2 * time.Second)
		group := `{"groupName":"New"}`
		for _, c := range []struct {
			code int
			ext  map[string]string
			body string
			want int
		}{
			{17, map[string]string{"topic": "New", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG"}, "", 14},
			{215, map[string]string{"topic": "T"}, "", 14},
			{200, nil, group, 14},
			{207, map[string]string{"groupName": "G"}, "", 14},
			{353, map[string]string{"group": "G", "topic": "T", "readable": "false"}, "", 14},
			{353, map[string]string{"group": "G", "topic": "T"}, "", 0}, // only asks
			{21, nil, "", 0},
		} {
			resp := p.s.call(c.code, c.ext, []byte(c.body))
			if resp.Code != c.want {
				t.Errorf("code %d: answer %d %q, want %d", c.code, resp.Code, resp.Remark, c.want)
			}
			if c.want == 14 && (resp.Ext["masterAddr"] != mainAddr) {
				t.Errorf("code %d: %q with %v does not name the master", c.code, resp.Remark, resp.Ext)
			}
		}
		p.s.wants(p.s.heartbeat(p.s.client, "c", "New", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1}), 0, "")
		if p.s.b.groups.Get("New") != nil || p.s.b.topics.Get("%RETRY%New") != nil {
			t.Error("a heartbeat made a group or a topic on a slave")
		}
		p.sameTables()
	})
}

// The master is killed, the slave serves, the master returns on its old folder:
// before it answers anyone, its progress is not lower than any of the two had.
func TestMasterReturns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.m.createTopic("T", 4)
		p.m.putGroup(subgroup.Defaults("G"))
		p.m.commit("G", 0, 100)
		p.m.commit("G", 1, 100)
		p.startSlave()
		pass(2 * time.Second)
		p.ms = p.m.killed()
		p.s.commit("G", 0, 500)
		p.s.b.locks.Lock("G", "client-1", []subgroup.QueueKey{{Topic: "T", BrokerName: "broker-a", QueueID: 2}})
		pass(20 * time.Second)
		p.startMaster()
		p.m.wantProgress("G", 0, 500)
		p.m.wantProgress("G", 1, 100)
		if got := p.m.b.locks.Lock("G", "client-2", []subgroup.QueueKey{{Topic: "T", BrokerName: "broker-a", QueueID: 2}}); len(got) != 0 {
			t.Error("a queue that is locked at the slave was given away")
		}
		pass(2 * time.Second)
		p.s.wantProgress("G", 0, 500)
		p.m.commit("G", 1, 150)
		p.s.commit("G", 2, 30)
		pass(time.Second)
		p.s.wantProgress("G", 1, 150)
		p.m.wantProgress("G", 2, 30)
		p.sameTables()
	})
}

// A reset at the master while the slave is down wins when it returns (S6), however
// the two are killed and started (S5).
func TestResetWins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.m.createTopic("T", 4)
		p.m.putGroup(subgroup.Defaults("G"))
		p.m.fill("T", 0, 600)
		p.m.commit("G", 0, 500)
		p.startSlave()
		pass(2 * time.Second)
		p.ss = p.s.killed()
		reset := map[string]string{"topic": "T", "group": "G", "timestamp": "-1", "isForce": "true", "queueId": "0", "offset": "100"}
		p.m.wants(p.m.call(remoting.ReqInvokeBrokerToResetOffset, reset, nil), 0, "")
		p.ms = p.m.killed()
		p.startSlave()
		pass(5 * time.Second)
		p.startMaster()
		pass(2 * time.Second)
		p.m.wantProgress("G", 0, 100)
		p.s.wantProgress("G", 0, 100)

		// While the slave serves, a reset is there before it is answered.
		reset["offset"] = "50"
		p.m.wants(p.m.call(remoting.ReqInvokeBrokerToResetOffset, reset, nil), 0, "")
		synctest.Wait()
		p.s.wantProgress("G", 0, 50)
	})
}
