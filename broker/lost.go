package broker

import (
	"fmt"
	"sort"
	"sync"
	"time"

	"mqctl/replication"
	"mqctl/store/record"
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

// why says what became of the slave.
func (s *lostSlave) why(now time.Time) string {
	had := "nothing"
	if s.acked > 0 {
		had = fmt.Sprintf("everything before %d", s.acked)
	}
	return fmt.Sprintf("its connection ended %s ago; it had acknowledged %s", now.Sub(s.since).Round(time.Second), had)
}

// left takes in the last word of a slave whose connection ended: who is looked at twice a
// second may have acknowledged more since, or have come and gone between.
func (l *lostSlaves) left(p replication.Peer, acked record.PhysOffset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, old := l.last[p.ID]; old || len(l.last) < mostPeers {
		s.id, s.addr, s.acked = p.ID, p.Addr, int64(acked)
		l.put(s)
	}
}

// put keeps what is known of a slave; l.mu is held.
func (l *lostSlaves) put(s lostSlave) {
	if l.last == nil {
		l.last = make(map[int64]lostSlave)
	}
	l.last[s.id] = s
}

// note takes in who is connected now.
func (l *lostSlaves) note(now time.Time, conns []replication.SlaveConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
			l.put(lostSlave{id: c.ID, addr: c.Addr, acked: int64(c.Acked)})
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
