package cli

import (
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// lines splits key=value lines.
func lines(text string) iter.Seq[[2]string] {
	return func(yield func([2]string) bool) {
		for line := range strings.Lines(text) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !yield([2]string{k, v}) {
				return
			}
		}
	}
}

// mq runs a command against the fake cluster and checks its status and, with
// JSON, its schema.
func (f *fakeCluster) mq(want int, args ...string) (out, errs string) {
	f.t.Helper()
	code, out, errs := runLine(append([]string{"mqctl", "-n", f.ns.addr}, args...)...)
	if code != want {
		f.t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	if args[len(args)-1] == "json" && want != ExitUsage {
		if err := valid([]byte(out)); err != nil {
			f.t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	return out, errs
}

// has checks parts of a text; a part that begins with ! must not be there.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		not := strings.HasPrefix(p, "!")
		if strings.Contains(text, strings.TrimPrefix(p, "!")) == not {
			t.Errorf("%q in\n%s", p, text)
		}
	}
}

// ours makes a pair of brokers of this program: slave 1 follows, slave 2 copies.
func ours(f *fakeCluster) (master, slave, copying *fakeBroker) {
	master, _ = f.add("127.0.0.1", "a", 0, 9000, func(b *fakeBroker) {
		b.own = &body.InspectHA{Broker: "a", Role: "SYNC_MASTER", Max: 9000, InSync: 1, Epoch: 3, Slaves: []body.InspectHASlave{
			{BrokerID: 1, Addr: "127.0.0.1:1", Acked: 8900, Sent: 9000, GapBytes: 100, GapMillis: 7, InSync: true, BytesPerSec: 4096, State: "SYNCING"},
			{BrokerID: 2, Addr: "127.0.0.1:2", Acked: 3000, Sent: 3100, GapBytes: 6000, GapMillis: 90000, State: "COPYING", CopyFrom: 1000, CopyTo: 9000},
		}}
		b.ha = &admin.HAStatus{Master: true, MaxOffset: 9000, InSyncSlaves: 1, Peers: []admin.HAPeer{
			{Addr: "127.0.0.1:1", AckOffset: 8900, Diff: 100, InSync: true, TransferredPerSec: 4096, TransferFromOffset: 9000},
			{Addr: "127.0.0.1:2", AckOffset: 3000, Diff: 6000, TransferFromOffset: 3100}}}
		b.offsets = &body.InspectOffsets{Min: 10, Max: 9000, Flushed: 8000, Confirmed: 8900, Dispatched: 8999, PullMillis: 60000, PullToMaster: 31, PullToSlave: 69}
	})
	slave, _ = f.add("127.0.0.1", "a", 1, 8900, func(b *fakeBroker) {
		b.own = &body.InspectHA{Broker: "a", BrokerID: 1, Role: "SLAVE", Max: 8900, MasterAddr: "127.0.0.1:9", Following: &body.InspectFollowing{
			State: "SYNCING", HAAddr: "127.0.0.1:10", Connected: true, MasterEnd: 9000, LastRead: time.Now().UnixMilli(), LastWrite: 5, BytesPerSec: 4096, MetaAgeMs: 800}}
		b.ha = &admin.HAStatus{Client: admin.HAClient{MasterAddr: "127.0.0.1:10", MaxOffset: 8900, TransferredPerSec: 4096, LastWriteMillis: 5}}
		b.offsets = &body.InspectOffsets{Min: 10, Max: 8900, Flushed: 8900, Confirmed: 1, Dispatched: 8900}
	})
	copying, _ = f.add("127.0.0.1", "a", 2, 3000, func(b *fakeBroker) {
		b.own = &body.InspectHA{Broker: "a", BrokerID: 2, Role: "SLAVE", Max: 3000, Following: &body.InspectFollowing{
			State: "COPYING", Why: "the whole log is copied", CopyFrom: 1000, CopyTo: 9000, MetaAgeMs: -1}}
	})
	return master, slave, copying
}

// What was cut off the log of a former master is named until somebody removes it, also
// when all brokers of the name are shown, and when that broker is the master again.
func TestHAAsides(t *testing.T) {
	f := newFakeCluster(t)
	master, slave, _ := ours(f)
	master.own.Asides = []string{"/m/mqctl/log-1"}
	slave.own.Asides = []string{"/s/mqctl/cut-2", "/s/mqctl/cut-1"}
	out, _ := f.mq(0, "stats", "ha", "-o", "json")
	has(t, out, `"asideFile": "/m/mqctl/log-1"`, `"file": "/s/mqctl/cut-2"`, `"file": "/s/mqctl/cut-1"`)
	out, _ = f.mq(0, "stats", "ha", "--broker", "a/1", "-o", "json")
	has(t, out, `"asideFile": "/s/mqctl/cut-2"`, `"file": "/s/mqctl/cut-1"`, "!/m/mqctl")
	_, errs := f.mq(0, "stats", "ha") // a pipe has one row a slave
	has(t, errs, "LOG_SET_ASIDE", "/m/mqctl/log-1", "/s/mqctl/cut-2")
	master.own.Asides, slave.own.Asides = nil, nil
	out, errs = f.mq(0, "stats", "ha", "-o", "json")
	has(t, out+errs, `"asideFile": null`, `"asideFiles": []`, "!SET_ASIDE")
}

func TestHAOfOurs(t *testing.T) {
	f := newFakeCluster(t)
	_, slave, _ := ours(f)
	out, _ := f.mq(0, "stats", "ha", "-o", "json")
	has(t, out, `"role": "SYNC_MASTER"`, `"masterMaxOffset": 9000`, `"inSyncSlaves": 1`, `"slaves": 2`, `"epoch": 3`, `"gapMillis": 7`,
		`"state": "COPYING"`, `"percent": 25`, `"why": "the whole log is copied"`, `"widestGapBytes": 6000`, `"widestGapBroker": "a/2"`)
	out, _ = f.mq(0, "stats", "ha")
	has(t, out, "SLAVE  ADDR", "a/1", "in_sync", "copying_25.0_%")
	out, _ = f.mq(0, "stats", "ha", "--broker", "a/1", "-o", "json")
	has(t, out, `"broker": "a"`, `"brokerId": 1`, `"maxOffset": 8900`, `"gapBytes": 100`, `"active": true`, `"haAddr": "127.0.0.1:10"`, `"metadataAgeMillis": 800`, `"masterFlushedOffset": null`)
	out, _ = f.mq(0, "stats", "ha", "--broker", slave.addr, "-o", "json")
	has(t, out, `"brokerId": 1`, `"maxOffset": 8900`)
	out, _ = f.mq(0, "stats", "offsets", "-o", "json")
	has(t, out, `"confirmedOffset": 8900`, `"flushedOffset": 8000`, `"unflushedBytes": 1000`, `"toSlave": 69`, `"gapSource": "HA_STATUS"`, `"dispatchedOffset": 8999`, `!"confirmedOffset": 1,`)
	out, _ = f.mq(0, "stats", "offsets", "--no-headers")
	has(t, out, "31/69", "SLAVE")
	out, _ = f.mq(0, "haStatus", "-c", "C")
	has(t, out, "\n#MasterAddr\t127.0.0.1:", "\n#MasterCommitLogMaxOffset\t9000\n#SlaveNum\t2\n#InSyncSlaveNum\t1\n",
		"#SlaveAddr                        #SlaveAckOffset             #Diff #TransferSpeed(KB/s)          #Status #TransferFromWhere\n",
		"127.0.0.1:1                       8900                          100             4.00               OK             9000\n",
		"127.0.0.1:2                       3000                         6000             0.00      Fall Behind             3100\n")
	out, _ = f.mq(0, "haStatus", "-b", slave.addr)
	has(t, out, "\n#MasterAddr\t127.0.0.1:10\n#CommitLogMaxOffset\t8900\n#TransferSpeed(KB/s)\t4.00\n#LastReadTime\t", "#LastWriteTime\t"+time.UnixMilli(5).Format("2006-01-02 "), "#MasterFlushOffset\t0\n")
	f.mq(2, "haStatus")
	f.mq(3, "stats", "ha", "--broker", "nobody")

	_, errs := f.mq(7, "ha", "status", "--max-gap", "1KiB")
	has(t, errs, "a/2 is not within the limit of 1024 bytes: its gap is 6000 bytes  [GAP_TOO_WIDE]", "!a/1 is not")
	f.mq(0, "ha", "status", "--max-gap", "6000")
	f.mq(7, "ha", "status", "--max-gap-time", "10s")
	f.mq(7, "ha", "status", "--broker", "a/1", "--max-gap", "99")
	f.mq(0, "ha", "status", "--broker", "a/1", "--max-gap", "100")
	f.mq(2, "ha", "status", "--max-gap", "wide")
}

func TestCheckHA(t *testing.T) {
	f := newFakeCluster(t)
	_, _, copying := ours(f)
	out, _ := f.mq(0, "check", "ha", "--max-gap", "10KiB", "-o", "json")
	has(t, out, `"state": "OK"`, `"value": 6000`, `"limit": 10240`, `!"FAIL"`)
	out, _ = f.mq(7, "check", "ha", "--max-gap", "1KiB", "-o", "json")
	has(t, out, `"message": "its gap is 6000 bytes: the whole log is copied"`)
	out, _ = f.mq(0, "check", "ha", "-o", "nagios")
	has(t, out, "HA OK - 3 checks passed | 'a/1 gap'=100B;;268435456;0 'a/1 gap_time'=0.007s 'a/2 gap'=6000B;;268435456;0 'a/2 gap_time'=90.000s\n")
	out, _ = f.mq(2, "check", "ha", "--max-gap", "1KiB", "--max-gap-time", "1m", "-o", "nagios")
	has(t, out, "HA CRITICAL - a/2 its gap is 6000 bytes: the whole log is copied | ")
	out, _ = f.mq(0, "check", "ha", "-o", "prometheus")
	has(t, out, "# TYPE mqctl_ha_gap_bytes gauge\nmqctl_ha_gap_bytes{check=\"ha\",broker=\"a\",broker_id=\"1\"} 100\n", "mqctl_ha_gap_seconds{check=\"ha\",broker=\"a\",broker_id=\"1\"} 0.007\n",
		"mqctl_ha_in_sync{check=\"ha\",broker=\"a\",broker_id=\"2\"} 0\n", "mqctl_ha_connected{check=\"ha\",broker=\"a\",broker_id=\"2\"} 1\n", "mqctl_check_ok{check=\"ha\",broker=\"a\",broker_id=\"0\"} 1\n")
	f.mq(7, "check", "ha", "--min-slaves", "3")
	f.mq(7, "check", "ha", "--max-gap", "50") // a synchronous master waits for one
	f.mq(0, "check", "ha", "--min-slaves", "2")
	copying.set(func() { copying.own.Following.State, copying.own.Following.Why = "DIVERGED", "other bytes at 2000" })
	out, _ = f.mq(7, "check", "ha", "-o", "json")
	has(t, out, `"message": "it is diverged 25.0 %: other bytes at 2000"`)
	code, out, _ := runLine("mqctl", "-n", "127.0.0.1:1", "check", "ha", "-o", "nagios")
	if code != nagiosUnknown || !strings.HasPrefix(out, "HA UNKNOWN - no nameserver reachable") {
		t.Errorf("exit %d: %s", code, out)
	}
	f.mq(2, "check", "ha", "-o", "nagois")
	f.mq(3, "check", "ha", "--broker", "nobody")
}

// peer is a connection as Apache's master tells it.
func peer(addr string, ack, diff int64, inSync bool) admin.HAPeer {
	return admin.HAPeer{Addr: addr, AckOffset: ack, Diff: diff, InSync: inSync, TransferFromOffset: ack}
}

func TestHAOfApache(t *testing.T) {
	f := newFakeCluster(t)
	master, _ := f.add("127.0.0.1", "a", 0, 61009, func(b *fakeBroker) {
		b.ha = &admin.HAStatus{Master: true, MaxOffset: 61009, InSyncSlaves: 1, Peers: []admin.HAPeer{peer("127.0.0.2:50300", 61000, 9, true)}}
	})
	f.add("127.0.0.2", "a", 1, 61005, func(b *fakeBroker) {
		b.ha = &admin.HAStatus{Client: admin.HAClient{MasterAddr: "127.0.0.1:10912", MaxOffset: 61005, LastReadMillis: 1000}}
	})
	out, _ := f.mq(0, "stats", "ha", "-o", "json")
	has(t, out, `"brokerId": 1`, `"gapBytes": 9`, `"gapMillis": null`, `"ackedOffset": 61000`, `"gapSource": "HA_STATUS"`, `"epoch": null`)
	out, _ = f.mq(0, "stats", "offsets", "-o", "csv", "--fields", "broker,brokerId,gapBytes,gapMillis,inSync,gapSource,flushedOffset,confirmedOffset,pull", "--no-headers")
	has(t, out, "a,0,,,,NONE,,,\na,1,9,,true,HA_STATUS,,,\n")
	f.mq(7, "ha", "status", "--max-gap-time", "5s") // not known is not within
	out, _ = f.mq(0, "haStatus", "-b", master.addr)
	has(t, out, "#InSyncSlaveNum\t1\n", "127.0.0.2:50300                   61000                           9             0.00               OK            61000\n")

	// A second slave on the same host: nobody can say whose connection is whose.
	f.add("127.0.0.2", "a", 2, 60000, nil)
	master.set(func() { master.ha.Peers = append(master.ha.Peers, peer("127.0.0.2:50301", 60000, 1009, true)) })
	out, _ = f.mq(0, "stats", "offsets", "-o", "csv", "--fields", "brokerId,gapBytes,inSync,gapSource", "--no-headers")
	has(t, out, "1,4,,RUNTIME_DIFF\n2,1009,,RUNTIME_DIFF\n")

	// A slave that is longer than its master is never in sync.
	master.set(func() {
		master.ha.Peers = []admin.HAPeer{peer("127.0.0.3:50302", 300, -100, true)}
		master.ha.MaxOffset, master.runtime["commitLogMaxOffset"] = 200, "200"
	})
	f.add("127.0.0.3", "a", 3, 300, nil)
	out, errs := f.mq(7, "ha", "status", "--max-gap", "1GiB", "-o", "json")
	has(t, out, `"gapBytes": -100`, `"state": "AHEAD"`, "it holds 100 bytes more than its master")
	has(t, errs, "a/1 is not within the limit", "it is ahead; the same: a/2, a/3")
	out, _ = f.mq(0, "stats", "offsets", "-o", "csv", "--fields", "brokerId,gapBytes,inSync,gapSource", "--no-headers")
	has(t, out, "3,-100,false,HA_STATUS\n", "1,-60805,false,RUNTIME_DIFF\n")

	// A broker that does not know 907.
	master.set(func() { master.ha, master.runtime["commitLogMaxOffset"] = nil, "61009" })
	out, errs = f.mq(0, "stats", "offsets", "-o", "csv", "--fields", "brokerId,gapBytes,inSync,gapSource", "--no-headers")
	has(t, out, "1,4,,RUNTIME_DIFF\n")
	has(t, errs, "[HA_STATUS_MISSING]")
}

// TestHAMasterGone: what a slave knows of a master that is dead.
func TestHAMasterGone(t *testing.T) {
	f := newFakeCluster(t)
	master, stop := f.add("127.0.0.1", "a", 0, 9000, func(b *fakeBroker) { b.own = &body.InspectHA{Max: 9000} })
	f.add("127.0.0.1", "a", 1, 8900, func(b *fakeBroker) {
		b.own = &body.InspectHA{Broker: "a", BrokerID: 1, Role: "SLAVE", Max: 8900, Following: &body.InspectFollowing{
			State: "CONNECTING", MasterEnd: 9000, LastRead: time.Now().Add(-90 * time.Second).UnixMilli()}}
	})
	stop()
	out, errs := f.mq(6, "stats", "ha", "-o", "json")
	has(t, out, `"state": "UNREACHABLE"`, `"state": "CONNECTING"`, `"gapBytes": 100`, `"gapSource": "LAST_KNOWN"`, `"masterMaxOffset": null`, "its master was last heard 1 min ago")
	has(t, errs, "connection refused")
	out, _ = f.mq(7, "check", "ha", "-o", "json")
	has(t, out, `"message": "the master does not answer"`, `"state": "UNKNOWN"`)
	f.hide(master.addr)
	out, _ = f.mq(0, "stats", "ha", "-o", "json")
	has(t, out, `"state": "NO_MASTER"`, `"addr": null`)
}

func TestHASlaveGone(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t)
	master, slave, _ := ours(f)
	_ = slave
	dead, stop := f.add("127.0.0.1", "a", 3, 1, nil)
	stop()
	out, _ := f.mq(6, "stats", "ha", "-o", "json")
	has(t, out, `"state": "UNREACHABLE"`, `"addr": "`+dead.addr+`"`, `"slaves": 3`)
	f.mq(7, "check", "ha")
	f.mq(7, "ha", "status", "--max-gap", "1GiB")
	f.hide(dead.addr)
	// A connection of nobody who is registered.
	master.set(func() {
		master.own.Slaves = append(master.own.Slaves, body.InspectHASlave{BrokerID: -1, Addr: "10.0.0.9:5", Acked: 1, GapBytes: 8999, GapMillis: -1, State: "STALLED"})
	})
	out, _ = f.mq(0, "stats", "ha")
	has(t, out, "10.0.0.9:5", "stalled")
	// A slave that its master remembers.
	master.set(func() {
		master.own.Slaves = []body.InspectHASlave{
			{BrokerID: 1, Addr: "127.0.0.1:1", Acked: 8900, GapBytes: 100, InSync: true, State: "SYNCING"},
			{BrokerID: 5, Addr: "127.0.0.1:5", Acked: 8000, GapBytes: 1000, GapMillis: -1, State: "NOT_CONNECTED", LostAt: 99, Why: "its connection ended"},
		}
	})
	out, _ = f.mq(7, "check", "ha", "-o", "json")
	has(t, out, `"target": "a/5"`, `"message": "it is not connected: its connection ended"`, `"slaveState": "NOT_CONNECTED"`)
	_, errs := f.mq(7, "wait", "ha", "--max-gap", "1GiB", "--for", "20s")
	has(t, errs, "a/5 has left the cluster")
}

func TestWatch(t *testing.T) {
	f := newFakeCluster(t)
	ours(f)
	for _, format := range []string{"json", "name", "template=x"} {
		f.mq(2, "stats", "ha", "--watch", "-o", format)
	}
	// The deadline is what ends it here.
	out, _ := f.mq(5, "stats", "ha", "--watch=100ms", "--deadline", "800ms", "-o", "jsonl")
	n := strings.Count(out, "\n")
	if n < 3 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	for line := range strings.Lines(out) {
		if err := validLine([]byte(line)); err != nil {
			t.Error(err)
		}
	}
	out, _ = f.mq(5, "stats", "offsets", "--watch=100ms", "--deadline", "500ms", "-o", "csv", "--fields", "sampledAt,broker")
	if strings.Count(out, "sampledAt") != 1 || strings.Count(out, "\n") < 4 {
		t.Error(out)
	}
	out, _ = f.mq(5, "stats", "ha", "--watch=100ms", "--deadline", "500ms")
	if !strings.HasPrefix(out, "TIME ") || strings.Count(out, "SLAVE  ") != 1 {
		t.Error(out)
	}
}

func TestMarkChanges(t *testing.T) {
	paint := func(s string) string { return "<" + s + ">" }
	for _, c := range [][3]string{{"a 1  x", "a 2  x", "a <2>  x"}, {"a b", "a b c", "a b c"}, {"1 1", "1 11", "1 <11>"}, {"", "x", "x"}} {
		if got := markChanges(c[0], c[1], paint); got != c[2] {
			t.Errorf("%q to %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if got := sparkline([]int64{0, 1, 7, -3}, false); got != "_.@_" {
		t.Error(got)
	}
}

func TestWait(t *testing.T) {
	f := newFakeCluster(t)
	master, slave, copying := ours(f)
	f.mq(0, "wait", "ha", "--max-gap", "6000", "--for", "60s")
	f.mq(0, "wait", "ha", "--max-gap", "6000", "--stable", "300ms", "--for", "60s")
	f.mq(3, "wait", "ha", "--broker", "nobody", "--for", "60s")
	copying.set(func() { copying.own.Following.State, copying.own.Following.Why = "DIVERGED", "other bytes" })
	_, errs := f.mq(7, "wait", "ha", "--for", "60s")
	has(t, errs, "can no longer be reached", "a/2 is diverged", "other bytes")

	// RocketMQ's slaves are never active, and its masters only once they take messages.
	slave.set(func() { slave.runtime["brokerActive"] = "false" })
	f.mq(0, "wait", "broker", "a", "--ready", "--for", "5s")
	f.mq(0, "wait", "broker", slave.addr, "--ready", "--for", "5s")
	f.mq(0, "check", "broker")
	master.set(func() { master.runtime["brokerActive"] = "false" })
	f.mq(5, "wait", "broker", "a", "--ready", "--for", "300ms")
	f.mq(5, "wait", "broker", master.addr, "--ready", "--for", "300ms")
	f.mq(7, "check", "broker")
	master.set(func() { delete(master.runtime, "brokerActive") })

	f.mq(0, "wait", "role", "a/1", "--is", "SLAVE")
	f.mq(0, "wait", "role", "a/0", "--is", "master")
	f.mq(5, "wait", "role", "a/1", "--is", "ASYNC_MASTER", "--for", "300ms")
	f.mq(3, "wait", "role", "a/9", "--is", "SLAVE")
	f.mq(2, "wait", "role", "a", "--is", "SLAVE")
	f.mq(2, "wait", "role", "a/1")
	f.mq(2, "wait", "role", "a/1", "--is", "king")
	time.AfterFunc(400*time.Millisecond, func() { slave.set(func() { slave.config["brokerRole"] = "ASYNC_MASTER" }) })
	f.mq(0, "wait", "role", "a/1", "--is", "ASYNC_MASTER", "--for", "60s")

	f.mq(0, "wait", "broker", "a", "--ready")
	f.mq(0, "wait", "broker", master.addr, "--ready")
	f.mq(5, "wait", "broker", "b", "--ready", "--for", "300ms")
	f.mq(5, "wait", "broker", "a/1", "--gone", "--for", "300ms")
	f.mq(0, "wait", "broker", "b", "--gone")
	f.mq(2, "wait", "broker", "a")
	f.mq(2, "wait", "broker", "a", "--gone", "--ready")
	_, stop := f.add("127.0.0.1", "b", 0, 1, nil)
	gone := f.brokers[len(f.brokers)-1]
	time.AfterFunc(300*time.Millisecond, func() { f.hide(gone.addr); stop() })
	f.mq(0, "wait", "broker", "b/0", "--gone", "--for", "60s")
}

func TestWaitTooLong(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t)
	ours(f)
	out, errs := f.mq(5, "wait", "ha", "--for", "10s", "-o", "json") // so long that even a busy machine looks once
	has(t, out, `"reached": false`, `"value": "a/2: its gap is 6000 bytes"`, `"limit": "0 bytes"`)
	has(t, errs, "[NOT_REACHED]")
}

func TestWaitSlaveLeaves(t *testing.T) {
	f := newFakeCluster(t)
	master, _, copying := ours(f)
	f.afterLooks(4, func() {
		master.set(func() { master.own.Slaves = master.own.Slaves[:1] })
		f.hide(copying.addr)
	})
	_, errs := f.mq(7, "wait", "ha", "--max-gap", "10", "--for", "60s")
	has(t, errs, "a/2 has left the cluster", "mqctl wait broker a/2 --ready")
}

// TestWaitGoesOn: what heals by itself does not end a wait: a former master that has not
// compared its longer log yet, brokers that are silent, a slave that is missing in one look.
func TestWaitGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(f *fakeCluster, master, copying *fakeBroker)
		heal func(f *fakeCluster, master, copying *fakeBroker)
		is   string // while it lasts
	}{
		"a longer log": {func(_ *fakeCluster, master, copying *fakeBroker) {
			master.set(func() { master.own.Slaves = master.own.Slaves[:1] })
			copying.set(func() { copying.own.Max, copying.own.Following.State = 9100, "CONNECTING" })
		}, func(_ *fakeCluster, master, copying *fakeBroker) {
			copying.set(func() { copying.own.Max, copying.own.Following.State = 9000, "SYNCING" })
			master.set(func() {
				master.own.Slaves = append(master.own.Slaves[:1:1], body.InspectHASlave{BrokerID: 2, Addr: "127.0.0.1:2", Acked: 9000, State: "SYNCING", InSync: true})
			})
		}, "it holds 100 bytes more than its master, and has not compared the two logs yet"},
		"one look without a slave": {func(f *fakeCluster, master, copying *fakeBroker) {
			master.set(func() { master.own.Slaves = master.own.Slaves[:1] })
			f.hide(copying.addr)
		}, func(f *fakeCluster, master, copying *fakeBroker) {
			f.unhide(copying.addr)
			master.set(func() {
				master.own.Slaves = append(master.own.Slaves[:1:1], body.InspectHASlave{BrokerID: 2, Addr: "127.0.0.1:2", Acked: 9000, State: "SYNCING", InSync: true})
			})
		}, "a/2 has left the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster(t)
			master, _, copying := ours(f)
			f.afterLooks(4, func() { c.set(f, master, copying) }, func() { c.heal(f, master, copying) })
			out, _ := f.mq(0, "wait", "ha", "--max-gap", "100", "--for", "60s", "-o", "json")
			has(t, out, `"reached": true`)
			if name == "a longer log" {
				c.set(f, master, copying)
				_, errs := f.mq(5, "wait", "ha", "--max-gap", "100", "--for", "10s")
				has(t, errs, "[NOT_REACHED]", "a/2: it is ahead", c.is)
				copying.set(func() { copying.own.Following.State, copying.own.Following.Why = "AHEAD", "promote this broker" })
				_, errs = f.mq(7, "wait", "ha", "--max-gap", "100", "--for", "60s")
				has(t, errs, "[NEVER]", "a/2 is ahead: promote this broker")
			}
		})
	}
}

// TestWaitSilentMaster: a master that is registered and does not answer may do so again, and the
// sentence says how it was asked; a look that the end of the time cut off says nothing.
func TestWaitSilentMaster(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t)
	master, _, _ := ours(f)
	f.afterLooks(4, func() {
		master.set(func() {
			for _, code := range []int{remoting.ReqGetBrokerRuntimeInfo, remoting.ReqGetBrokerConfig} {
				master.more[code] = func(r *remoting.Request) { r.Reply(remoting.CodeSystemError, "busy with something", nil, nil) }
			}
		})
	})
	_, errs := f.mq(5, "wait", "ha", "--max-gap", "10", "--for", "12s")
	has(t, errs, "[NOT_REACHED]", "the master of a does not answer: ", "busy with something")
}

// TestWaitEndsEarly: what was asked for by name leaves, or nobody is left to copy from.
func TestWaitEndsEarly(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		hide func(f *fakeCluster, master, copying *fakeBroker)
		want []string
	}{
		"slave by name": {[]string{"--broker", "a/2"}, func(f *fakeCluster, _, copying *fakeBroker) { f.hide(copying.addr) }, []string{"a/2 has left the cluster", "[NEVER]", "mqctl stats ha"}},
		"all": {nil, func(f *fakeCluster, _, _ *fakeBroker) {
			f.hide(f.brokers[0].addr)
			f.hide(f.brokers[1].addr)
			f.hide(f.brokers[2].addr)
		}, []string{"[NEVER]"}},
		"master": {nil, func(f *fakeCluster, master, _ *fakeBroker) { f.hide(master.addr) }, []string{"no master of a is registered", "its slaves copy from nobody", "[NEVER]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster(t)
			master, _, copying := ours(f)
			f.afterLooks(4, func() { c.hide(f, master, copying) })
			_, errs := f.mq(7, append([]string{"wait", "ha", "--max-gap", "10", "--for", "60s"}, c.args...)...)
			has(t, errs, c.want...)
		})
	}
}

func TestDrain(t *testing.T) {
	f := newFakeCluster(t)
	master, _ := f.add("127.0.0.1", "a", 0, 1, nil)
	f.add("127.0.0.1", "a", 1, 1, nil)
	var wiped []string
	counts := func(field string) func(r *remoting.Request) {
		return func(r *remoting.Request) {
			wiped = append(wiped, r.Ext.Map()["brokerName"])
			r.Reply(remoting.CodeSuccess, "", remoting.Map{field: "4"}, nil)
		}
	}
	f.ns.more[remoting.ReqWipeWritePermOfBroker], f.ns.more[remoting.ReqAddWritePermOfBroker] = counts("wipeTopicCount"), counts("addTopicCount")
	out, _ := f.mq(0, "broker", "drain", "a", "--dry-run", "-o", "json")
	has(t, out, `"before": 6`, `"after": 4`, `"changed": true`, `"applied": false`)
	if master.asked(remoting.ReqUpdateBrokerConfig) != 0 {
		t.Error("a dry run wrote")
	}
	out, errs := f.mq(0, "broker", "drain", "a", "-o", "json")
	has(t, out, `"verified": true`, `"via": "PERMISSION"`, `"topics": null`)
	has(t, errs, "producers stop when they ask for routes again", "an Apache broker itself goes on")
	if master.config["brokerPermission"] != "4" {
		t.Error(master.config["brokerPermission"])
	}
	out, _ = f.mq(0, "broker", "undrain", "a", "-o", "csv", "--fields", "before,after,verified", "--no-headers")
	has(t, out, "4,6,true\n")
	out, _ = f.mq(0, "broker", "drain", "a/0", "--via", "nameserver", "-o", "json")
	has(t, out, `"topics": 4`, `"via": "NAMESERVER"`)
	out, _ = f.mq(0, "wipeWritePerm", "-b", "a")
	has(t, out, "wipe write perm of broker[a] in name server["+f.ns.addr+"] OK, 4\n")
	out, _ = f.mq(0, "addWritePerm", "-b", "a")
	has(t, out, "add write perm of broker[a] in name server["+f.ns.addr+"] OK, 4\n")
	if strings.Join(wiped, ",") != "a,a,a" {
		t.Error(wiped)
	}
	f.mq(8, "broker", "drain", "a/1")
	f.mq(3, "broker", "drain", "nobody")
	f.mq(3, "wipeWritePerm", "-b", "nobody")
	f.mq(2, "broker", "drain")
	_, errs = f.mq(5, "broker", "undrain", "a", "--wait=300ms")
	has(t, errs, "ROUTES_NOT_SEEN")
	f.ns.more[remoting.ReqGetRouteInfoByTopic] = func(r *remoting.Request) {
		reply(r, map[string]any{"queueDatas": []any{map[string]any{"brokerName": "a", "perm": 7}}, "brokerDatas": []any{}})
	}
	f.mq(0, "broker", "undrain", "a", "--wait=10s")
	f.mq(2, "broker", "drain", "a", "--via", "prayer")
	_, errs = f.mq(5, "broker", "drain", "a", "--wait=300ms")
	has(t, errs, "[STILL_WRITTEN]")
}

func TestResetFlushOffset(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "a", 0, 1, func(b *fakeBroker) { b.ha = &admin.HAStatus{Master: true} })
	got := ""
	slave, _ := f.add("127.0.0.1", "a", 1, 1, func(b *fakeBroker) {
		b.ha = &admin.HAStatus{Client: admin.HAClient{MasterFlushOffset: 77}}
		b.more[remoting.ReqResetMasterFlushOffset] = func(r *remoting.Request) {
			got = r.Ext.Map()["masterFlushOffset"]
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		}
	})
	out, _ := f.mq(0, "ha", "reset-flush-offset", "--broker", "a/1", "--offset", "5", "--yes", "-o", "json")
	has(t, out, `"before": 77`, `"after": 5`, `"applied": true`)
	if got != "5" {
		t.Error(got)
	}
	f.mq(0, "ha", "reset-flush-offset", "--broker", "a/1", "--offset", "6", "--dry-run")
	f.mq(9, "ha", "reset-flush-offset", "--broker", "a/1", "--offset", "6")
	if got != "5" {
		t.Error("written without a confirmation")
	}
	f.mq(8, "ha", "reset-flush-offset", "--broker", "a/0", "--offset", "6", "--yes")
	f.mq(2, "ha", "reset-flush-offset", "--broker", "a", "--offset", "6", "--yes")
	f.mq(2, "ha", "reset-flush-offset", "--broker", "a/1")
	f.mq(3, "ha", "reset-flush-offset", "--broker", "a/7", "--offset", "6", "--yes")
	out, _ = f.mq(0, "resetMasterFlushOffset", "-b", slave.addr, "-o", "8")
	has(t, out, "reset master flush offset to 8 success\n")
}

// TestChangesGoToTheMaster: a slave that is named is replaced by its master.
func TestChangesGoToTheMaster(t *testing.T) {
	f := newFakeCluster(t)
	groups := map[string]json.RawMessage{}
	serve := func(b *fakeBroker) {
		b.more[remoting.ReqGetAllSubscriptionGroupConfig] = func(r *remoting.Request) {
			reply(r, map[string]any{"subscriptionGroupTable": groups, "dataVersion": map[string]int{"counter": 1}})
		}
		b.more[remoting.ReqUpdateAndCreateSubscriptionGroup] = func(r *remoting.Request) {
			groups["g"] = append(json.RawMessage(nil), r.Body...)
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		}
	}
	master, _ := f.add("127.0.0.1", "a", 0, 1, serve)
	slave, _ := f.add("127.0.0.1", "a", 1, 1, serve)
	for _, args := range [][]string{
		{"group", "set", "g", "--slow-broker", "3", "--broker", "a/1"}, {"group", "set", "g", "--slow-broker", "0", "--broker", slave.addr},
		{"updateSubGroup", "-b", slave.addr, "-g", "g", "-w", "1"},
	} {
		_, errs := f.mq(0, args...)
		has(t, errs, "this goes to its master a/0 at "+master.addr+"  [SENT_TO_MASTER]")
		if args[4] == "3" {
			has(t, errs, "a has no broker id 3 (registered: 0 master, 1 slave)  [BROKER_ID_MISSING]")
		}
	}
	if n := slave.asked(remoting.ReqUpdateAndCreateSubscriptionGroup); n != 0 {
		t.Errorf("the slave got %d changes", n)
	}
	if n := master.asked(remoting.ReqUpdateAndCreateSubscriptionGroup); n != 3 {
		t.Errorf("the master got %d changes", n)
	}
	f.hide(master.addr)
	_, errs := f.mq(4, "group", "set", "g", "--slow-broker", "0", "--broker", "a/1")
	has(t, errs, "[NO_MASTER]", "nothing was changed", "what is changed at the slave alone is lost")
}

// TestSlaveAnswersForItsMaster: a backlog is known while the master is dead.
func TestSlaveAnswersForItsMaster(t *testing.T) {
	f := newFakeCluster(t)
	serve := func(b *fakeBroker) {
		b.more[remoting.ReqGetConsumeStats] = func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"consumeTps":0.0,"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:{"brokerOffset":10,"consumerOffset":3,"lastTimestamp":0,"pullOffset":3}}}`))
		}
		b.more[remoting.ReqQueryConsumerOffset] = func(r *remoting.Request) { r.Reply(remoting.CodeSuccess, "", remoting.Map{"offset": "3"}, nil) }
		b.more[remoting.ReqGetAllSubscriptionGroupConfig] = func(r *remoting.Request) {
			reply(r, map[string]any{"subscriptionGroupTable": map[string]any{"g": map[string]any{"groupName": "g"}}, "dataVersion": map[string]int{"counter": 1}})
		}
	}
	stats := func(b *fakeBroker) {
		serve(b)
		b.more[remoting.ReqGetTopicStatsInfo] = func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:{"minOffset":0,"maxOffset":10,"lastUpdateTimestamp":0}}}`))
		}
	}
	master, stop := f.add("127.0.0.1", "a", 0, 1, stats)
	slave, _ := f.add("127.0.0.1", "a", 1, 1, stats)
	f.ns.more[remoting.ReqGetRouteInfoByTopic] = func(r *remoting.Request) {
		reply(r, map[string]any{"queueDatas": []any{map[string]any{"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}},
			"brokerDatas": []any{map[string]any{"cluster": "C", "brokerName": "a", "brokerAddrs": map[string]any{"0": master.addr, "1": slave.addr}}}})
	}
	out, _ := f.mq(0, "topic", "status", "t", "-o", "json")
	has(t, out, `"maxOffset": 10`, `!SLAVE_ANSWERED`)
	out, _ = f.mq(0, "group", "lag", "g", "-o", "json")
	has(t, out, `"source": "MASTER"`, `"lag": 7`)
	stop()
	out, _ = f.mq(0, "topic", "status", "t", "-o", "json") // it is registered still
	has(t, out, `"maxOffset": 10`, `"code": "SLAVE_ANSWERED"`, `"target": "a/1"`)
	for _, args := range [][]string{{"group", "lag", "g", "-o", "json"}, {"offset", "list", "g", "-o", "json"}, {"stats", "lag", "-o", "json"}} {
		out, _ = f.mq(0, args...)
		has(t, out, `"code": "SLAVE_ANSWERED"`)
		if args[0] != "stats" {
			has(t, out, `"source": "SLAVE"`)
		}
	}
}
