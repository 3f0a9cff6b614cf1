package broker

import (
	"testing"
	"time"

	"mqctl/store/vfs"
)

// TestSlaveOfSlave: a slave that copies the log of another slave by haMasterAddress gets
// the tables too: from the master that a nameserver names, else from that slave, which
// also passes on what consumers commit at the end of the chain.
func TestSlaveOfSlave(t *testing.T) {
	for _, ns := range []bool{true, false} {
		t.Run(map[bool]string{true: "nameserver", false: "no nameserver"}[ns], func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable)
				p.sendBodies(0, 5)
				p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
				p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "3"}, nil), 0, "")
				p.startSlave(switchable)
				p.caughtUp()
				last := startIn(t, p.net, vfs.NewMem(), replica(2, switchable, func(o *Options) {
					o.HAMaster = p.s.b.ha.addr
					if !ns {
						o.Namesrvs = nil
					}
				}))
				<-time.After(20 * time.Second)
				if got, want := last.b.store.Positions().Max, p.m.b.store.Positions().Max; got != want || len(p.s.b.ha.master.Status().Slaves) != 1 {
					t.Errorf("its log ends at %d, the master's at %d", got, want)
				}
				if age, why := last.b.sync.MetadataAge(); age < 0 || why != "" || last.b.topics.Get("T") == nil || last.b.groups.Get("G") == nil {
					t.Errorf("its tables: %d ms old, %s", age, why)
				}
				progress := func(r *rig) int64 { off, _ := r.b.offsets.Query([]byte("G"), []byte("T"), 0); return off }
				if got := progress(last); got != 3 {
					t.Errorf("it has progress %d", got)
				}
				last.wants(last.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "5"}, nil), 0, "")
				<-time.After(5 * time.Second)
				if got := progress(p.m); got != 5 {
					t.Errorf("what was committed at the end of the chain is %d at the master", got)
				}
			})
		})
	}
}
