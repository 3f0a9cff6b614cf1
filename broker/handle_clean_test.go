package broker

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/record"
)

// keepNothing makes all files of the log old but the one that is written to, and
// files so small that there are many.
func keepNothing(o *Options) {
	o.Store.CommitLogBytes, o.Store.QueueFileBytes = 64<<10, 400
	o.Reloadable.Retention = store.DefaultRetention()
	o.Reloadable.Retention.Keep, o.Reloadable.Retention.Hours, o.Reloadable.Retention.LogPause = 0, 0, 0
}

func (r *rig) clean(what, dryRun string) cleaned {
	r.t.Helper()
	resp := r.call(remoting.ReqMqctlClean, map[string]string{"what": what, "dryRun": dryRun}, nil)
	var c cleaned
	if err := json.Unmarshal(resp.Body, &c); resp.Code != 0 || err != nil {
		r.t.Fatalf("cleaning %s: %d %q, %v", what, resp.Code, resp.Remark, err)
	}
	return c
}

// TestClean: 329, 306, 316 and our own request; a consumer whose messages are gone is
// moved on, and its progress is nobody's business but its own.
func TestClean(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, keepNothing)
		for i := range 100 {
			r.mustSend("T", 0, strings.Repeat("x", 4000)+strconv.Itoa(i))
		}
		r.mustSend("idle", 0, "y")
		r.wants(r.call(11, pullExt("g", "T", 0, 0), nil), 0, "") // makes the group
		r.wants(r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "3"}, nil), 0, "")
		before := r.b.offsets.Queues("g", "T")[0]
		r.settle()
		plan := r.clean("commitlog", "true")
		if p := r.b.store.Positions(); plan.Files < 5 || plan.Bytes != int64(plan.Files)<<16 || p.Min != 0 {
			t.Errorf("plan %+v of %+v", plan, p)
		}
		if did := r.clean("commitlog", "false"); did.Files != plan.Files || did.Left != 0 {
			t.Errorf("done %+v, planned %+v", did, plan)
		}
		q := r.b.store.Queue("T", 0)
		if p := r.b.store.Positions(); p.Min != record.PhysOffset(plan.Bytes) || q.Min() == 0 {
			t.Errorf("%+v, the queue begins at %d", p, q.Min())
		}
		resp := r.call(11, pullExt("g", "T", 0, 3), nil)
		r.wants(resp, remoting.CodePullOffsetMoved, "")
		if next := resp.Ext["nextBeginOffset"]; next != strconv.FormatInt(int64(q.Min()), 10) {
			t.Errorf("the consumer goes on at %s, the queue begins at %d", next, q.Min())
		}
		if now := r.b.offsets.Queues("g", "T")[0]; now != before || now != 3 {
			t.Errorf("progress was %d and is %d", before, now)
		}
		for _, code := range []int{remoting.ReqDeleteExpiredCommitLog, remoting.ReqCleanExpiredConsumeQueue, remoting.ReqCleanUnusedTopic} {
			r.wants(r.call(code, nil, nil), 0, "")
		}
		if got := r.b.store.QueueTopics(); !slices.Equal(got, []string{"SCHEDULE_TOPIC_XXXX", "T", "idle"}) {
			t.Errorf("topics %v", got)
		}
		if _, err := r.b.topics.Delete("idle"); err != nil { // its queues stay
			t.Fatal(err)
		}
		if c := r.clean("topics", "true"); c.Files != 1 || len(c.Topics) != 1 || c.Topics[0] != "idle" {
			t.Errorf("unused topics: %+v", c)
		}
		r.wants(r.call(remoting.ReqCleanUnusedTopic, nil, nil), 0, "")
		if got := r.b.store.QueueTopics(); !slices.Equal(got, []string{"SCHEDULE_TOPIC_XXXX", "T"}) {
			t.Errorf("topics %v", got)
		}
		r.clean("cq", "false")
		for _, ext := range []map[string]string{{}, {"what": "everything"}, {"what": "cq", "dryRun": "perhaps"}} {
			r.wants(r.call(remoting.ReqMqctlClean, ext, nil), remoting.CodeInvalidParameter, "")
		}
		r.mustSend("T", 0, "after")
	})
}

// TestSlaveAskedTooLate: a slave that wants what its master has deleted is told so,
// sets its log aside and begins where the master does.
func TestSlaveAskedTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		small := func(o *Options) { keepNothing(o); o.Reloadable.HA.SegmentBytes = 64 << 10 }
		body := strings.Repeat("x", 4000)
		send := func(n int) {
			for range n {
				p.m.mustSend("T", 0, body)
			}
		}
		p.startMaster(small)
		send(20)
		p.startSlave(small)
		p.caughtUp()
		p.s.stop()
		send(100)
		if c := p.m.clean("commitlog", "false"); c.Files < 6 {
			t.Fatalf("%+v", c)
		}
		end := p.m.b.store.Positions().Min
		p.startSlave(small)
		p.caughtUp()
		p.sameLogs()
		pos := p.s.b.store.Positions()
		if pos.Min != end || pos.Min == 0 {
			t.Errorf("the slave's log is %+v, the master's begins at %d", pos, end)
		}
		q, own := p.m.b.store.Queue("T", 0), p.s.b.store.Queue("T", 0)
		if q.Min() != own.Min() || q.Max() != own.Max() || q.Min() == 0 {
			t.Errorf("queue of the master %d to %d, of the slave %d to %d", q.Min(), q.Max(), own.Min(), own.Max())
		}
		aside, err := p.ss.ReadDir("/store/mqctl")
		if err != nil {
			t.Fatal(err)
		}
		kept := false
		for _, e := range aside {
			kept = kept || strings.HasPrefix(e.Name, "log-")
		}
		if !kept {
			t.Errorf("the old log was not kept: %v", aside)
		}
		// A slave deletes by its own clock and disk, whatever its master does.
		send(40)
		p.caughtUp()
		synctest.Wait()
		if c := p.s.clean("commitlog", "false"); c.Files < 2 {
			t.Errorf("the slave cleaned %+v", c)
		}
		if m, s := p.m.b.store.Positions(), p.s.b.store.Positions(); m.Min != end || s.Min <= end {
			t.Errorf("master %+v, slave %+v", m, s)
		}
		send(5)
		p.caughtUp()
		p.s.wants(p.s.call(remoting.ReqCleanUnusedTopic, nil, nil), remoting.CodeServiceNotAvailable, "this broker is a slave")
		p.s.wants(p.s.call(remoting.ReqMqctlClean, map[string]string{"what": "topics"}, nil), remoting.CodeServiceNotAvailable, "this broker is a slave")
		<-time.After(time.Second)
		if st := p.s.b.ha.slave.Status(); st.State != replication.Syncing {
			t.Errorf("%+v", st)
		}
	})
}
