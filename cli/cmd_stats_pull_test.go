package cli

import (
	"bytes"
	"strings"
	"testing"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// explained is the text of --explain in a pipe.
func explained(it *pullItem) string {
	var out bytes.Buffer
	printExplained(&printer{out: &out, style: newStyle(&out, "never", func(string) string { return "" })}, &result{items: []any{it}})
	return out.String()
}

// TestExplainPull walks every way through the decision of a broker of ours.
func TestExplainPull(t *testing.T) {
	master := body.InspectPull{Broker: "b", Role: "ASYNC_MASTER", SlaveRead: true, LimitBytes: 40, MemoryBytes: 100, MemoryRatio: 40, Configured: 40, Max: 1000}
	slave := master
	slave.BrokerID, slave.Role, slave.MasterAlive, slave.MemoryRatio, slave.LimitBytes = 1, "SLAVE", true, 30, 30
	lone := slave
	lone.MasterAlive = false
	shut := slave
	shut.SlaveRead = false
	off := master
	off.SlaveRead = false
	with := func(v body.InspectPull, peers ...body.InspectPullPeer) body.InspectPull {
		v.Replicas = peers
		return v
	}
	good := body.InspectPullPeer{BrokerID: 1, Alive: true, Readable: true, Acked: 1000}
	slow := body.InspectPullRow{Group: "g", Topic: "t", Pulls: 4, Suggested: map[int64]int64{1: 3, 0: 1}, BehindBytes: 500, LastPhys: 500, Reason: "BEHIND_LIMIT", GroupSlow: 1}
	near := slow
	near.BehindBytes, near.LastPhys, near.Reason = 10, 990, "WITHIN_MEMORY"
	reason := func(r body.InspectPullRow, why string) body.InspectPullRow {
		r.Reason = why
		return r
	}
	cases := []struct {
		name string
		v    body.InspectPull
		row  body.InspectPullRow
		want []string
	}{
		{"suggested", with(master, good), slow, []string{"slow\n", "5  whichBrokerWhenConsumeSlowly  1", "connected", "← suggested", "why  behind the limit, whichBrokerWhenConsumeSlowly=1\n"}},
		{"reads off", with(off, good), reason(slow, "SLAVE_READ_DISABLED"), []string{"← stops here: master suggested", "would be used", "could serve", "behind, but slaveReadEnable=false",
			"to change it   mqctl broker config set slaveReadEnable=true --broker b --all\n"}},
		{"near", with(master, good), near, []string{"5  brokerId", "← the master", "within memory, brokerId=0"}},
		{"missing", with(master, body.InspectPullPeer{BrokerID: 7, Alive: true}), reason(slow, "BROKER_ID_MISSING"),
			[]string{"6  b/1", "← stops here: no such broker is connected", "mqctl group set g --slow-broker 7"}},
		{"the next id", with(master, body.InspectPullPeer{BrokerID: 2, Alive: true, Readable: true, Acked: 1000}), slow, []string{"6  b/2", "← suggested"}},
		{"dead", with(master, body.InspectPullPeer{BrokerID: 1}), reason(slow, "SLAVE_DEAD"), []string{"not connected", "mqctl stats ha --broker b"}},
		{"unreadable", with(master, body.InspectPullPeer{BrokerID: 1, Alive: true}), reason(slow, "SLAVE_UNREADABLE"),
			[]string{"serves no reads", "mqctl broker config set slaveReadEnable=true --broker b/1"}},
		{"behind", with(master, body.InspectPullPeer{BrokerID: 1, Alive: true, Readable: true, Acked: 500}), reason(slow, "SLAVE_BEHIND"),
			[]string{"acknowledged 500", "does not hold the message yet", "does not hold the offset yet"}},
		{"slave", slave, slow, []string{"30 % of 100", "alive", "← this slave", "still behind on the slave, which lets go at 30 %, whichBrokerWhenConsumeSlowly=1"}},
		{"slave redirects", slave, reason(near, "REDIRECTED_TO_MASTER"), []string{"not looked at", "← stops here: master suggested", "its master may have it"}},
		{"a slave that refuses", shut, slow, []string{"← stops here: this slave refuses pulls", "mqctl broker config set slaveReadEnable=true --broker b/1"}},
		{"alone, and nobody asked since", lone, near, []string{"← stops here: the slave suggests itself", "within memory, brokerId=0 (nobody has pulled since its master went away)"}},
		{"alone", lone, reason(near, "MASTER_DEAD"), []string{"← stops here: the slave suggests itself", "the slave serves alone"}},
	}
	for _, c := range cases {
		it := countedPull(&c.v, &c.row, admin.Target{Broker: "b", ID: c.v.BrokerID})
		it.explainCounted(&c.v, &c.row)
		text := explained(it)
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, text)
			}
		}
		if n := strings.Count(text, "←"); n != 1 {
			t.Errorf("%s: %d steps decide\n%s", c.name, n, text)
		}
		if *it.ToSlavePercent != 75 || *it.ToMasterPercent != 25 {
			t.Errorf("%s: %v %v", c.name, *it.ToMasterPercent, *it.ToSlavePercent)
		}
	}
}

// TestPullOutside: what is certain of a broker that counts nothing, and what is not.
func TestPullOutside(t *testing.T) {
	all := []admin.Target{{Broker: "a", ID: 0}, {Broker: "a", ID: 1}}
	for _, c := range []struct {
		name  string
		reads *bool
		lag   int64
		why   string
		cause *string
	}{
		{"reads off", ptr(false), 3, "behind, but slaveReadEnable=false: the master is always suggested", ptr("SLAVE_READ_DISABLED")},
		{"caught up", ptr(true), 0, "caught up, brokerId=0", ptr("WITHIN_MEMORY")},
		{"lagging", ptr(true), 3, "3 messages behind; whichBrokerWhenConsumeSlowly=1 applies beyond 40 % of its memory, which it does not tell", nil},
		{"silent", nil, 3, "its configuration does not tell slaveReadEnable", nil},
	} {
		it := &pullItem{Group: "g", Topic: "t", Broker: "a", Config: pullConfig{SlowBrokerID: 1, SlaveReadEnable: c.reads, MemoryRatio: ptr(int64(40))}}
		it.outsideWhy(c.lag)
		it.explainOutside(ptr(int64(900)), ptr(int64(100)), all)
		if it.Why != c.why || (it.Reason == nil) != (c.cause == nil) || it.Reason != nil && *it.Reason != *c.cause {
			t.Errorf("%s: %v %q", c.name, it.Reason, it.Why)
		}
		text := explained(it)
		for _, w := range []string{"this broker does not tell its memory", "a/1", "registered", "even if it is dead"} {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, text)
			}
		}
	}
	if !hasCapability(runtimeView{"mqctlCapabilities": "MQCTL_INSPECT,MQCTL_ROLE"}, "MQCTL_INSPECT") || hasCapability(runtimeView{}, "MQCTL_INSPECT") ||
		hasCapability(runtimeView{"mqctlCapabilities": "MQCTL_INSPECTOR"}, "MQCTL_INSPECT") {
		t.Error("capabilities are misread")
	}
}
