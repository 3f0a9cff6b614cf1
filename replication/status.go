package replication

import (
	"fmt"
	"net/netip"
	"time"

	"mqctl/store/record"
)

// MasterStatus is the sending side at one moment.
type MasterStatus struct {
	Slaves   []SlaveConn
	InSync   int   // slaves
	Waiting  int   // sends that wait for slaves
	Refused  int64 // slaves that were too old, without the key, or too many
	BadPeers int64 // connections closed for junk, absurd offsets, silence
}

// SlaveConn is one connected slave.
type SlaveConn struct {
	Peer
	Known       bool // Peer is known
	Readable    bool // as it said when it attached; only slaves of ours do
	AckFsync    bool // likewise
	Remote      netip.AddrPort
	Since       time.Time
	Acked       record.PhysOffset
	Sent        record.PhysOffset // transferFromWhere
	Gap         int64
	GapTime     time.Duration // age of the oldest byte it lacks; 0 if none
	InSync      bool
	BytesPerSec int64
	State       State // Syncing, Copying, Stalled
	Sentence    string
	CopyFrom    record.PhysOffset // of a long copy: where it began, and its target
	CopyTo      record.PhysOffset
}

// stalledAfter is how long a slave that lacks something may acknowledge nothing
// before it is said to stand still.
const stalledAfter = 10 * time.Second

// Status is a snapshot of all connections.
func (m *Master) Status() MasterStatus {
	st := m.o.Settings()
	end, now := int64(m.o.Log.Positions().Max), m.o.Now()
	out := MasterStatus{Refused: m.refused.Load(), BadPeers: m.badPeers.Load()}
	m.waitMu.Lock()
	out.Waiting = m.ring.len()
	m.waitMu.Unlock()
	for _, c := range *m.live.Load() {
		s := c.status(end, now)
		s.InSync = m.inSyncNow(c, end, st.maxGap())
		if s.InSync {
			out.InSync++
		}
		s.State, s.Sentence = c.state(&s, now, st)
		out.Slaves = append(out.Slaves, s)
	}
	return out
}

func (c *conn) status(end int64, now time.Time) SlaveConn {
	s := SlaveConn{
		Remote: c.remote, Since: c.opened,
		Acked: record.PhysOffset(c.ack.Load()), Sent: record.PhysOffset(c.sent.Load()),
		BytesPerSec: c.rate.Load(),
	}
	if p := c.peer.Load(); p != nil {
		s.Peer, s.Known, s.Readable, s.AckFsync = p.Peer, true, p.readable, p.fsync
	}
	if s.Gap = end - int64(s.Acked); s.Gap > 0 {
		s.GapTime = max(0, now.Sub(c.m.arrival(int64(s.Acked))))
	}
	if to := c.copyTo.Load(); to > 0 {
		s.CopyFrom, s.CopyTo = record.PhysOffset(c.copyFrom.Load()), record.PhysOffset(to)
	}
	return s
}

// arrival is when the byte at pos came into the log. What is older than the
// samples is asked from the record there, which is only as right as the clocks that
// dated it.
func (m *Master) arrival(pos int64) time.Time {
	if at, ok := m.ends.since(pos); ok {
		return at
	}
	pos = max(pos, int64(m.o.Log.Positions().Min))
	if raw, err := m.o.Log.Message(nil, record.PhysOffset(pos)); err == nil {
		if v, err := record.Parse(raw); err == nil {
			return m.o.Now().Add(-max(0, m.o.Wall().Sub(time.UnixMilli(v.StoreMillis()))))
		}
	}
	if at, ok := m.ends.oldest(); ok {
		return at
	}
	return m.o.Now()
}

func (c *conn) state(s *SlaveConn, now time.Time, st *Settings) (State, string) {
	quiet := now.Sub(time.Unix(0, c.ackAt.Load()))
	switch {
	case s.CopyTo > 0:
		whole, done := int64(s.CopyTo-s.CopyFrom), int64(max(s.Acked, s.CopyFrom)-s.CopyFrom)
		return Copying, fmt.Sprintf("copies the log: %d of %d bytes, %d %%", done, whole, done*100/max(whole, 1))
	case s.Gap > 0 && s.GapTime > stalledAfter && quiet > stalledAfter/2:
		return Stalled, fmt.Sprintf("lacks %d bytes and has acknowledged nothing new for %s", s.Gap, quiet.Round(time.Second))
	case !s.Known:
		return Syncing, "follows, but is not known by its address, so it does not count for synchronous sends"
	case c.lagging.Load():
		return Syncing, "let a synchronous send time out, and does not count until it has caught up"
	case !s.InSync:
		return Syncing, fmt.Sprintf("is behind by more than haMaxGapNotInSync (%d bytes)", st.maxGap())
	}
	return Syncing, "follows the end of the log"
}
