package broker

import "sync/atomic"

// Role is the part of a broker in replication: brokerRole.
type Role uint8

// Roles. Whether sends wait for slaves is all that tells the masters apart.
const (
	AsyncMaster Role = iota
	SyncMaster
	Slave
)

// String is the value of brokerRole.
func (r Role) String() string {
	switch r {
	case SyncMaster:
		return "SYNC_MASTER"
	case Slave:
		return "SLAVE"
	default:
		return "ASYNC_MASTER"
	}
}

// roleNamed is the role that a checked value of brokerRole means.
func roleNamed(name string) Role {
	for _, r := range []Role{SyncMaster, Slave} {
		if r.String() == name {
			return r
		}
	}
	return AsyncMaster
}

// standing is which part the broker plays at one moment. It is never changed,
// only replaced as a whole, so handlers load it once and need no lock.
type standing struct {
	Role   Role
	ID     int64  // brokerId under which it is registered
	Epoch  int64  // raised by each change of role; the stateVersion of data versions
	Fenced bool   // a change of role is under way: no sends
	Master string // a slave's master: its remoting address, "" while unknown
	HA     string // and where its log comes from
	// MasterAlive: a slave has heard its master lately. A dead one is never suggested.
	MasterAlive bool
	// Leaving: a former master whose new master is not one yet. Nameservers keep the
	// registration of before, since a route without any master makes producers fail.
	Leaving bool
}

// isSlave reports whether the broker follows a master.
func (s *standing) isSlave() bool { return s.Role == Slave }

// takesSends reports whether producers may write here.
func (s *standing) takesSends() bool { return s.Role != Slave && !s.Fenced }

// standingRef is shared by the handlers; only the broker replaces it.
type standingRef struct{ p atomic.Pointer[standing] }

// Load returns the standing of this moment.
func (r *standingRef) Load() *standing { return r.p.Load() }

// update replaces the standing by a changed copy and says whether it differs.
func (r *standingRef) update(change func(s *standing)) (next *standing, changed bool) {
	for {
		old := r.p.Load()
		s := *old
		change(&s)
		if s == *old {
			return old, false
		}
		if r.p.CompareAndSwap(old, &s) {
			return &s, true
		}
	}
}

// replicaPeer is another broker of the same name, as far as this one knows.
type replicaPeer struct {
	ID       int64
	Addr     string // remoting
	Ours     bool
	Alive    bool // connected over HA (a slave), or heard lately (the master)
	Readable bool // serves pulls
}

// peersRef is a snapshot of the peers by id, replaced as a whole.
type peersRef struct {
	p atomic.Pointer[map[int64]replicaPeer]
}

// Load returns the peers of this moment; the map is not changed.
func (r *peersRef) Load() map[int64]replicaPeer {
	if m := r.p.Load(); m != nil {
		return *m
	}
	return nil
}
