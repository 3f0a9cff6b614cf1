package broker

import (
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store"
	"mqctl/subgroup"
)

// committer stores consumers' commits, those of code 15 and those that come with
// a pull, by the rules that keep progress from going back (subgroup.Offsets).
type committer struct {
	members *subgroup.Members
	offsets *subgroup.Offsets
	store   *store.Store
	stand   *standingRef
	now     func() time.Time // dates commits
	steady  func() time.Time
	// since is when clients began to come here, in ns of steady: the start, the last change
	// of role, or when a slave lost its master.
	since atomic.Int64
}

// moved notes a change after which clients may come that were elsewhere: their
// commits can arrive before their first heartbeat.
func (c *committer) moved(old, next *standing) {
	if old.Role != next.Role || old.MasterAlive && !next.MasterAlive {
		c.since.Store(c.steady().UnixNano())
	}
}

// commit stores one commit of a client. Most are above what is stored and cost
// one lookup; who the client is, is asked only for the others. It does not
// allocate. ext are the fields of the request, in which reset=true means that the
// client wants to go back; none for a pull.
func (c *committer) commit(conn *remoting.Conn, group, topic []byte, queue int32, offset int64, ext remoting.Fields) subgroup.Outcome {
	x := subgroup.Commit{Group: group, Topic: topic, Queue: queue, Offset: offset, Client: conn.ID(), NowMillis: c.now().UnixMilli()}
	if c.offsets.Raise(&x) {
		return subgroup.Stored
	}
	x.Reset = string(ext.Bytes("reset")) == "true"
	x.Master = !c.stand.Load().isSlave()
	x.ServingFor = (c.steady().UnixNano() - c.since.Load()) / int64(time.Millisecond)
	if view := c.members.GroupBytes(group); view != nil {
		x.AnyMember = true
		for i := range view.Clients {
			if view.Clients[i].Peer.ID() == x.Client {
				x.Member = true
				break
			}
		}
	}
	x.QueueMax = -1
	if q := c.store.Lookup(topic, queue); q != nil {
		x.QueueMax = int64(q.Max())
	} else if x.Master {
		x.QueueMax = 0 // a master knows all queues that have messages
	}
	return c.offsets.CommitChecked(&x)
}
