package broker

import (
	"context"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/store"
)

// haAdmin tells how replication is, in RocketMQ's terms: 907, 908, and the keys
// of 28 about it. MQCTL_INSPECT what=ha says more.
type haAdmin struct {
	stand *standingRef
	hub   *hub
	dated func(time.Time) time.Time // of the steady clock
	store *store.Store

	masterFlushed atomic.Int64 // what 908 said last
}

// status serves 907 (HARuntimeInfo). A slave shows its own side only, and a
// master the connections of its slaves, as RocketMQ 5.3.3 does.
func (a *haAdmin) status(_ context.Context, r *remoting.Request) {
	out := a.following()
	if !a.stand.Load().isSlave() {
		out = a.leading()
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

func (a *haAdmin) leading() body.HAStatus {
	st := a.hub.master.Status()
	out := body.HAStatus{Master: true, MasterCommitLogMaxOffset: int64(a.store.Positions().Max), InSyncSlaveNums: int32(st.InSync)}
	for _, c := range st.Slaves {
		out.HAConnectionInfo = append(out.HAConnectionInfo, body.HAConnection{Addr: c.Remote.String(), Diff: c.Gap, InSync: c.InSync,
			SlaveAckOffset: int64(c.Acked), TransferFromWhere: int64(c.Sent), TransferredByteInSecond: c.BytesPerSec})
	}
	return out
}

func (a *haAdmin) following() body.HAStatus {
	st := a.hub.slave.Status()
	out := body.HAStatus{HAClientRuntimeInfo: body.HAClientRuntime{MasterAddr: st.HA, MasterFlushOffset: a.masterFlushed.Load(),
		MaxOffset: int64(a.store.Positions().Max), TransferredByteInSecond: st.BytesPerSec}}
	if !st.LastRead.IsZero() {
		out.HAClientRuntimeInfo.LastReadTimestamp = a.dated(st.LastRead).UnixMilli()
	}
	if !st.LastWrite.IsZero() {
		out.HAClientRuntimeInfo.LastWriteTimestamp = a.dated(st.LastWrite).UnixMilli()
	}
	return out
}

// resetFlushed serves 908: a slave notes how far its master is flushed and shows
// it in 907. A master answers with success and notes nothing, as RocketMQ does.
func (a *haAdmin) resetFlushed(_ context.Context, r *remoting.Request) {
	var h header.ResetMasterFlushOffset
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	if a.stand.Load().isSlave() && h.HasMasterFlushOffset {
		if h.MasterFlushOffset < 0 {
			r.Reply(remoting.CodeInvalidParameter, "masterFlushOffset is negative", nil, nil)
			return
		}
		a.masterFlushed.Store(h.MasterFlushOffset)
	}
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// addTo adds the keys of 28 about replication. They are ours: RocketMQ has none.
func (a *haAdmin) addTo(t map[string]string) {
	s := a.stand.Load()
	t["mqctlRole"], t["mqctlBrokerId"], t["mqctlEpoch"] = s.Role.String(), text(s.ID), text(s.Epoch)
	t["mqctlHaAddr"] = a.hub.addr
	if s.isSlave() {
		st := a.hub.slave.Status()
		t["mqctlMasterAddr"], t["mqctlMasterHaAddr"] = s.Master, s.HA
		t["mqctlFollowing"] = string(st.State)
		t["mqctlMasterMaxOffset"] = text(st.MasterEnd)
		return
	}
	st := a.hub.master.Status()
	t["mqctlSlaves"], t["mqctlInSyncSlaves"] = text(len(st.Slaves)), text(st.InSync)
}
