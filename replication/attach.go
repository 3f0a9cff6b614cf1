package replication

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"mqctl/store/record"
)

// Limits of what one Attach may ask for.
const (
	maxSums      = 64
	maxSumBytes  = 8 << 20 // of one stretch
	maxTickets   = 1024
	ticketLives  = time.Minute
	maxNameBytes = 255
)

// AttachRequest is what a slave of ours says before it opens the HA connection.
type AttachRequest struct {
	BrokerName   string
	BrokerID     int64
	BrokerAddr   string
	SegmentBytes int64
	Min, End     int64
	Readable     bool
	AckFsync     bool
	Secure       bool // it will prove the key
	TLS          bool
	Epoch        int64
	// Peek asks for the master's bounds only; nothing is going to connect.
	Peek bool
	Sums []Range // stretches whose sums it wants
}

// Range is a stretch of a log with its CRC-32C.
type Range struct {
	From, To int64
	Sum      uint32 // in the answer; Known false if the master has not all of it
	Known    bool
	// LostFrom and LostTo are the stretch around From whose messages the master has lost,
	// a hole of its log: no sum says anything there. Both 0: none.
	LostFrom int64 `json:",omitempty"`
	LostTo   int64 `json:",omitempty"`
}

// AttachReply is the master's answer.
type AttachReply struct {
	State    State  // Syncing if the slave may connect
	Why      string // sentence for operators
	Start    int64  // where an empty slave begins
	Min, End int64
	Epoch    int64
	Role     string `json:",omitempty"` // the broker's own word for what it is, which package replication does not read
	Token    int64  // to be shown when the HA connection opens
	Sums     []Range
}

// ticket lets a slave that attached open one HA connection.
type ticket struct {
	peerInfo
	until    time.Time
	replaced bool // by a later attach of the same slave
}

// Attach answers a slave of ours that wants to connect; it is called by the remoting side.
func (m *Master) Attach(from netip.AddrPort, r AttachRequest) AttachReply {
	pos, st := m.o.Log.Positions(), m.o.Settings()
	a := AttachReply{
		State: Syncing, Min: int64(pos.Min), End: int64(pos.Max),
		Epoch: m.o.Epoch(), Start: st.copyStart(pos),
	}
	switch {
	case len(r.BrokerName) > maxNameBytes || len(r.BrokerAddr) > maxNameBytes || len(r.Sums) > maxSums:
		a.State, a.Why = Mismatch, "the request has impossible lengths"
	case m.o.Name != "" && r.BrokerName != m.o.Name:
		a.State, a.Why = WrongGroup, fmt.Sprintf("this master is %q, the slave belongs to %q: their brokerName must be the same", m.o.Name, r.BrokerName)
	case r.SegmentBytes != st.segment():
		a.State, a.Why = Mismatch, fmt.Sprintf("mappedFileSizeCommitLog is %d on the master and %d on the slave: give the slave the master's value and an empty store",
			st.segment(), r.SegmentBytes)
	case r.Secure != m.o.Auth.Keyed():
		a.State, a.Why = Mismatch, disagree("haAuthKeyFile", m.o.Auth.Keyed())
	case r.TLS != m.o.Auth.TLS():
		a.State, a.Why = Mismatch, disagree("haTlsEnable", m.o.Auth.TLS())
	case r.End > 0 && r.End < a.Min && r.Min < r.End:
		a.State, a.Why = TooOld, fmt.Sprintf("the slave's log ends at %d, the master's begins at %d", r.End, a.Min)
	}
	if a.State == Mismatch || a.State == WrongGroup {
		m.refusals.warn(m.o.Slog, m.o.Now(), "a slave may not attach", "peer", from, "state", string(a.State), "why", a.Why)
		return a
	}
	a.Sums = m.sums(r.Sums)
	if !r.Peek {
		a.Token = m.newTicket(peerInfo{
			Peer:     Peer{ID: r.BrokerID, Addr: r.BrokerAddr, Ours: true},
			readable: r.Readable, fsync: r.AckFsync, start: a.Start,
		})
	}
	return a
}

func disagree(key string, here bool) string {
	if here {
		return key + " is set on the master and not on the slave: set it on both or on neither"
	}
	return key + " is set on the slave and not on the master: set it on both or on neither"
}

func (m *Master) sums(asked []Range) []Range {
	out := make([]Range, len(asked))
	for i, r := range asked {
		out[i] = Range{From: r.From, To: r.To}
		if r.From < 0 || r.To <= r.From || r.To-r.From > maxSumBytes {
			continue
		}
		if from, to, lost := m.o.Log.Lost(record.PhysOffset(r.From)); lost {
			out[i].LostFrom, out[i].LostTo = int64(from), int64(to)
			continue
		}
		sum, err := m.o.Log.RawSum(record.PhysOffset(r.From), record.PhysOffset(r.To))
		out[i].Sum, out[i].Known = sum, err == nil
	}
	return out
}

// newTicket remembers who is about to connect.
func (m *Master) newTicket(p peerInfo) int64 {
	var b [8]byte
	rand.Read(b[:])
	token := int64(binary.BigEndian.Uint64(b[:])>>1 | 1)
	now := m.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for old, t := range m.tickets {
		if now.After(t.until) || len(m.tickets) >= maxTickets {
			delete(m.tickets, old)
		} else if t.ID == p.ID {
			t.replaced = true
		}
	}
	m.tickets[token] = &ticket{peerInfo: p, until: now.Add(ticketLives)}
	return token
}

// redeem takes the ticket of a connection; nil if there is none: a slave that copies
// another slave's log got its ticket from their master. A ticket that a later attach
// of the same slave has replaced is errReplacedTicket.
func (m *Master) redeem(token int64) (*peerInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tickets[token]
	delete(m.tickets, token)
	if t == nil || m.o.Now().After(t.until) {
		return nil, nil
	}
	if t.replaced {
		return nil, errReplacedTicket
	}
	return &t.peerInfo, nil
}

func (m *Master) dropTickets(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for token, t := range m.tickets {
		if now.After(t.until) {
			delete(m.tickets, token)
		}
	}
}
