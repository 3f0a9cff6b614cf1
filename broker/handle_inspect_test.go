package broker

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

func inspected[T any](r *rig, ext map[string]string) T {
	r.t.Helper()
	var v T
	resp := r.call(30001, ext, nil)
	r.wants(resp, 0, "")
	if err := json.Unmarshal(resp.Body, &v); err != nil {
		r.t.Fatalf("%v\n%s", err, resp.Body)
	}
	return v
}

func TestInspectPull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSplitRig(t)
		r := s.master
		r.fill("Split", 0, 20)
		s.acked = r.b.store.Positions().Max
		r.setLive(func(l *Reloadable) { l.SlaveRead, l.MemoryRatio = true, 0 })
		r.b.setPeers(map[int64]replicaPeer{1: {ID: 1, Addr: "10.0.0.2:10911", Alive: true, Readable: true}, 3: {ID: 3}, 4: {ID: 4, Alive: true}})
		r.setGroup(0, 1)
		<-time.After(10 * time.Second)
		for offset := range int64(3) {
			r.pull("g", "Split", 0, offset)
		}
		r.pull("g", "Split", 0, 20)
		r.pull("reader", "HaTopic", 0, 0)
		v := inspected[body.InspectPull](r, map[string]string{"what": "pull", "group": "g", "windowMillis": "30000"})
		if v.Broker != "broker-a" || v.Role != "ASYNC_MASTER" || v.WindowMillis != 30_000 || v.Covered <= 0 || v.Covered > 30_000 || !v.SlaveRead || v.LimitBytes != 0 ||
			v.MemoryBytes != r.b.store.MemoryBytes() || v.Max != int64(r.b.store.Positions().Max) || len(v.Rows) != 1 || len(v.Replicas) != 3 {
			t.Fatalf("%+v", v)
		}
		row := v.Rows[0]
		if row.Pulls != 4 || row.Suggested[1] != 3 || row.Suggested[0] != 1 || row.Slow != 3 || row.Reasons["BEHIND_LIMIT"] != 3 || row.Reason != "WITHIN_MEMORY" ||
			row.BehindBytes != 0 || row.Followed == nil || !*row.Followed || row.GroupSlow != 1 || row.LastPullAt != time.Now().UnixMilli() {
			t.Errorf("%+v", row)
		}
		// The handler has the real replication, which nobody follows here.
		if p := r.b.inspector().replicas()[0]; p.Acked != int64(s.acked) || p.Why != "" || v.Replicas[1].Why != "not connected" || v.Replicas[1].Acked != -1 || v.Replicas[2].Why != "it serves no reads" {
			t.Errorf("%+v", v.Replicas)
		}
		if n := len(inspected[body.InspectPull](r, map[string]string{"what": "pull"}).Rows); n != 2 {
			t.Errorf("%d rows of all groups", n)
		}
		o := inspected[body.InspectOffsets](r, map[string]string{"what": "offsets"})
		if o.PullToMaster != 2 || o.PullToSlave != 3 || o.PullMillis != 60_000 || o.Max != v.Max {
			t.Errorf("%+v", o)
		}
		for ext, why := range map[string]string{"weather": "there is nothing to inspect called", "": "there is nothing to inspect called \"\"; there are offsets, ha, pull, latency, events"} {
			r.wants(r.call(30001, map[string]string{"what": ext}, nil), 29, why)
		}
		for _, bad := range []string{"0", "-1", "x", "99999999999999999999"} {
			r.wants(r.call(30001, map[string]string{"what": "pull", "windowMillis": bad}, nil), 29, "windowMillis")
		}
	})
}

// TestInspectHA shows both sides of replication, made up here.
func TestInspectHA(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newSplitRig(t).slave
		a := r.b.inspector()
		at := time.Now()
		a.master = func() (replication.MasterStatus, bool) {
			return replication.MasterStatus{InSync: 1, BadPeers: 4, Slaves: []replication.SlaveConn{
				{Peer: replication.Peer{ID: 2, Addr: "10.0.0.3:10911"}, Known: true, Remote: netip.MustParseAddrPort("10.0.0.3:999"), Acked: 5, Sent: 6, Gap: 7,
					GapTime: 8 * time.Millisecond, InSync: true, BytesPerSec: 9, State: "SYNCING", CopyFrom: 1, CopyTo: 2},
				{Remote: netip.MustParseAddrPort("10.0.0.4:999"), Sentence: "far behind"},
			}}, true
		}
		a.slave = func() (replication.SlaveStatus, bool) {
			return replication.SlaveStatus{State: replication.Copying, Sentence: "why", HA: "10.0.0.1:10912", Connected: true, MasterEnd: record.PhysOffset(77),
				MasterEndAt: at, LastRead: at, BytesPerSec: 3}, true
		}
		if err := vfs.WriteFile(r.fs, "/store/mqctl/cut-00000000000000000416-00000000000000000624-20260102T030405Z", []byte("x")); err != nil {
			t.Fatal(err)
		}
		a.metaAge = func() (int64, string) { return 2000, "" }
		a.stand = &standingRef{}
		a.stand.p.Store(&standing{Role: Slave, ID: 1, Epoch: 3, Fenced: true, Master: "10.0.0.1:10911"})
		got, err := json.Marshal(a.ha())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"brokerId":1,"role":"SLAVE","epoch":3,"fenced":true,"masterAddr":"10.0.0.1:10911"`, `"inSyncSlaves":1`, `"badConnections":4`,
			`{"brokerId":2,"addr":"10.0.0.3:10911","ackedOffset":5,"sentFromOffset":6,"gapBytes":7,"gapMillis":8,"inSync":true,"bytesPerSecond":9,"state":"SYNCING","copyFromOffset":1,"copyToOffset":2}`,
			`{"brokerId":-1,"addr":"10.0.0.4:999"`, `"why":"far behind"`,
			`"following":{"state":"COPYING","why":"why","haAddr":"10.0.0.1:10912","connected":true,"masterMaxOffset":77`, `"lastWriteAt":0`, `"aside":"/store/mqctl/cut-00000000000000000416-00000000000000000624-20260102T030405Z"`, `"metadataAgeMillis":2000`,
		} {
			if !strings.Contains(string(got), want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
		a.stand.p.Store(&standing{})
		if a.ha().Following != nil {
			t.Error("a master follows somebody")
		}
		if len(a.ha().Asides) != 1 {
			t.Error("what was cut off is not shown by the master that it became")
		}
	})
}
