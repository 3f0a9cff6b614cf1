package broker

import (
	"sort"
	"sync"
	"time"

	"mqctl/replication"
)

// lostKeep is how long a slave that is not connected any more is told of.
const lostKeep = time.Hour

// lostSlaves remembers the slaves that a master had in this run, so that one
// that dies is seen missing instead of not being seen at all: the nameserver
// forgets it with its connection.
type lostSlaves struct {
	mu   sync.Mutex // held for map operations only
	last map[int64]lostSlave
}

// lostSlave is a slave as it was last seen.
type lostSlave struct {
	id    int64
	addr  string
	acked int64
	since time.Time // when it was first missed; zero: it is connected
}

// note takes in who is connected now.
func (l *lostSlaves) note(now time.Time, conns []replication.SlaveConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = make(map[int64]lostSlave)
	}
	for id, s := range l.last {
		if s.since.IsZero() {
			s.since = now
			l.last[id] = s
		} else if now.Sub(s.since) > lostKeep {
			delete(l.last, id)
		}
	}
	for i := range conns {
		c := &conns[i]
		if _, old := l.last[c.ID]; c.Known && (old || len(l.last) < mostPeers) {
			l.last[c.ID] = lostSlave{id: c.ID, addr: c.Addr, acked: int64(c.Acked)}
		}
	}
}

// forget is for a broker that has become a slave, and for an id that it has itself.
func (l *lostSlaves) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.last)
}

// list is who is missing, in order of id.
func (l *lostSlaves) list() []lostSlave {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []lostSlave
	for _, s := range l.last {
		if !s.since.IsZero() {
			out = append(out, s)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].id < out[j].id })
	return out
}
