package broker

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
)

// Kinds of events.
const (
	eventRole   = "ROLE"
	eventSlave  = "SLAVE"
	eventMaster = "MASTER"
	eventTopic  = "TOPIC"
	eventGroup  = "GROUP"
	eventConfig = "CONFIG"
)

const (
	// mostEvents is how many events a broker remembers.
	mostEvents = 1000
	// manyNames is from how many names on a change of a table is one event.
	manyNames = 20
)

// eventLog remembers what changed lately at this broker, for operators who look
// afterwards (30001, what=events). Sequence numbers rise by one and begin anew with
// each start.
type eventLog struct {
	broker func() string // NAME/ID at that time
	now    func() time.Time

	mu    sync.Mutex // held for slice operations only
	seq   int64
	ring  []body.Event     // the newest mostEvents, oldest first
	slave map[int64]string // how each slave was last seen
}

func newEventLog(broker func() string, now func() time.Time) *eventLog {
	return &eventLog{broker: broker, now: now}
}

// add notes one event.
func (l *eventLog) add(kind, target, before, after string) {
	e := body.Event{At: l.now().UnixMilli(), Broker: l.broker(), Kind: kind, Target: target, Before: before, After: after}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	if len(l.ring) >= 2*mostEvents {
		l.ring = append(l.ring[:0], l.ring[len(l.ring)-mostEvents:]...)
	}
	l.ring = append(l.ring, e)
}

// names notes a change of the entries of a table. A slave that takes over a whole
// table is one event.
func (l *eventLog) names(kind string, names []string) {
	if len(names) >= manyNames {
		l.add(kind, fmt.Sprintf("%d names", len(names)), "", "changed: "+strings.Join(names[:3], ", ")+", ...")
		return
	}
	for _, n := range names {
		l.add(kind, n, "", "changed")
	}
}

// standing notes a change of this broker's part in replication.
func (l *eventLog) standing(old, next *standing) {
	text := func(s *standing) string {
		t := fmt.Sprintf("%s/%d epoch %d", s.Role, s.ID, s.Epoch)
		if s.Fenced {
			t += ", fenced"
		}
		return t
	}
	if before, after := text(old), text(next); before != after {
		l.add(eventRole, "role", before, after)
	}
	if old.isSlave() && next.isSlave() && old.MasterAlive != next.MasterAlive {
		was, is := "alive", "silent"
		if next.MasterAlive {
			was, is = is, was
		}
		l.add(eventMaster, next.Master, was, is)
	}
}

// slaves notes who follows this master, and how.
func (l *eventLog) slaves(conns []replication.SlaveConn) {
	now := make(map[int64]string, len(conns))
	for i := range conns {
		c := &conns[i]
		if !c.Known {
			continue
		}
		state := string(c.State) + ", not in sync"
		if c.InSync {
			state = string(c.State) + ", in sync"
		}
		now[c.ID] = state
	}
	l.mu.Lock()
	old := l.slave
	l.slave = now
	l.mu.Unlock()
	for id, state := range now {
		if old[id] != state {
			l.add(eventSlave, "id "+strconv.FormatInt(id, 10), old[id], state)
		}
	}
	for id, state := range old {
		if now[id] == "" {
			l.add(eventSlave, "id "+strconv.FormatInt(id, 10), state, "gone")
		}
	}
}

// config notes changed settings. Their values are not told: who may read them asks 26.
func (l *eventLog) config(changed []string) {
	for _, key := range changed {
		l.add(eventConfig, key, "", "changed")
	}
}

// since lists the events behind a sequence number, oldest first.
func (l *eventLog) since(seq int64) body.InspectEvents {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := body.InspectEvents{Next: l.seq, Events: []body.Event{}}
	from := max(0, len(l.ring)-mostEvents)
	for _, e := range l.ring[from:] {
		if e.Seq > seq {
			out.Events = append(out.Events, e)
		}
	}
	return out
}

// recent serves 30001 with what=events. Field since: a sequence number, 0 for all.
func (a *inspectAdmin) recent(r *remoting.Request) {
	since, _, err := r.Ext.Int("since")
	if err != nil || since < 0 {
		r.Reply(remoting.CodeInvalidParameter, "field since is no sequence number", nil, nil)
		return
	}
	jsonReply(r, a.events.since(since))
}
