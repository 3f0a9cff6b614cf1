package replication

import (
	"context"
	"testing"

	"mqctl/store"
)

// TestOvertakenAttach: a slave whose ticket another attach of its name has replaced, one
// that was late on its way, is made to attach again, and is known then.
func TestOvertakenAttach(t *testing.T) {
	master := newRealMaster(t, 1<<20)
	var b store.Batch
	appendDrafts(t, master.st, &b, testDrafts(4, 100))
	late := true
	slave, stop := newRealSlave(t, 1<<20, master, func(o *SlaveOptions) {
		attach := o.Attach
		o.Attach = func(ctx context.Context, to string, r AttachRequest) (AttachReply, bool, error) {
			reply, ours, err := attach(ctx, to, r)
			if late {
				late = false
				_, _, _ = attach(ctx, to, r)
			}
			return reply, ours, err
		}
	})
	defer stop()
	until(t, "the slave is known", func() bool {
		st := master.m.Status()
		return len(st.Slaves) == 1 && st.Slaves[0].Known && slave.st.Positions().Max > 0
	})
}
