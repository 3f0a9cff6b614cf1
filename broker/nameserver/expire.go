package nameserver

import (
	"time"

	"mqctl/broker/remoting/body"
)

// Heartbeat says that a broker process lives (904, 322); unknown ones are ignored.
func (r *Routes) Heartbeat(cluster, addr string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.leases[leaseKey{cluster, addr}]; l != nil {
		l.last = now
	}
}

// Version is the version of the topics that a broker process registered last.
func (r *Routes) Version(cluster, addr string) (v body.DataVersion, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[leaseKey{cluster, addr}]
	if l == nil {
		return v, false
	}
	return l.version, true
}

// Lost is a broker process that the scan found silent.
type Lost struct {
	Cluster, Name, Addr string
	ID                  int64
	Silent              time.Duration
	conn                peer
}

// Expire forgets the brokers that were silent for longer than their heartbeat
// time, and names whose registration was refused that long ago.
func (r *Routes) Expire(now time.Time) (lost []Lost, changes []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	for key, l := range r.leases {
		silent := now.Sub(l.last)
		if silent <= l.timeout {
			continue
		}
		lost = append(lost, Lost{Cluster: key.cluster, Name: l.name, Addr: key.addr, ID: l.id, Silent: silent, conn: l.conn})
		changes = append(changes, r.drop(d, key, l)...)
	}
	for name, at := range r.refused {
		if now.Sub(at) <= defaultHeartbeat {
			continue
		}
		delete(r.refused, name)
		if g := d.groups[name]; g != nil && len(g.replicas) == 0 {
			delete(d.editGroups(), name)
		}
	}
	r.publish(d)
	return lost, changes
}
