package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"time"

	"mqctl/broker/delay"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/subgroup"
)

// masterState is what a slave knows of the exchange with one master.
type masterState struct {
	addr  string
	known bool // ours is known
	ours  bool // it answers MQCTL_PROGRESS
	// deletions are followed: replication has found that the log is this master's.
	deletions bool

	// With a master of ours:
	instance string // its run, that since and pushed belong to
	since    uint64 // the newest version of its progress that is here
	pushed   uint64 // the newest version of ours that is there
	// got is what the last round brought: what comes of it is not sent back.
	got    heardRecords
	leases map[leaseKey]int64 // taken over from it: when they end, in ms
	fullAt time.Time          // of the last round that exchanged everything

	heard heardDeletions // of topics
	whole bool           // topics and groups are read whole, whatever their versions say

	java javaMaster // with Apache's
}

// leaseKey is one queue lock and who has it.
type leaseKey struct {
	group, client string
	queue         subgroup.QueueKey
}

// largeTable is from how many records on an exchange is worth a collection of its garbage.
const largeTable = 20_000

// renewSlack is by how much the end of a lease may differ, in ms, and still be the
// one that was taken over: clients renew every 20 s.
const renewSlack = 3000

// identify asks a master whether it is one of ours.
func (s *slaveSync) identify(ctx context.Context, m *masterState) error {
	info, err := s.runtimeInfo(ctx, m.addr)
	if err != nil {
		return err
	}
	m.ours = isOurs(info)
	m.known = true
	return nil
}

// runtimeInfo is the answer to 28.
func (s *slaveSync) runtimeInfo(ctx context.Context, addr string) (map[string]string, error) {
	resp, err := s.call(ctx, addr, remoting.ReqGetBrokerRuntimeInfo, nil, nil)
	if err != nil {
		return nil, err
	}
	kv, err := body.DecodeKVTable(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the runtime information of %s: %w", addr, err)
	}
	return kv.Table, nil
}

// followOurs makes one round with a master of ours. If that turns out to have
// started anew, it gets all of our progress in the same round.
func (s *slaveSync) followOurs(ctx context.Context, m *masterState) error {
	for range 2 {
		again, err := s.followOnce(ctx, m)
		if err != nil || !again {
			return err
		}
	}
	return nil
}

func (s *slaveSync) followOnce(ctx context.Context, m *masterState) (again bool, err error) {
	now := s.o.Steady()
	full := now.Sub(m.fullAt) >= fullEvery
	m.whole = m.whole || full
	if full {
		m.since, m.pushed, m.got = 0, 0, heardRecords{}
	}
	records, upTo := s.o.Offsets.SinceBut(nil, m.pushed, m.got.has)
	give := tables{records: records, leases: m.ownLeases(s.o.Locks.Leases(), now.UnixMilli())}
	m.got = heardRecords{}
	taken := 0
	a, got, err := s.swap(ctx, m.addr, asking{instance: m.instance, since: m.since, deletions: s.deletionsSince(m)}, give,
		func(records []subgroup.ProgressRecord) {
			if s.o.Offsets.Merge(records) > 0 {
				s.changing.Add(1)
			}
			m.got.add(records)
			taken += len(records)
		})
	if err != nil {
		m.known = !errors.As(err, new(*remoting.Error)) && m.known // another program may answer there now
		return false, err
	}
	if a.slave && (s.o.Chained == nil || !s.o.Chained()) {
		m.known = false
		return false, fmt.Errorf("%s is not a master now", m.addr)
	}
	fresh := a.instance != m.instance
	if fresh {
		m.heard = heardDeletions{cuts: m.heard.cuts}
	}
	s.takeLeases(m, got.leases, now.UnixMilli())
	m.instance, m.since, m.pushed = a.instance, a.version, upTo
	if fresh {
		m.pushed = 0 // what an earlier run of it had may be lost
	}
	if full {
		m.fullAt = now
	}
	if err := s.takeTables(ctx, m, a, got); err != nil {
		return false, err
	}
	if taken >= largeTable {
		// Else what it took stays with the process: there is little garbage at other times.
		debug.FreeOSMemory()
	}
	return fresh && !full, nil
}

// swap makes one exchange of progress, in as many requests as it takes; take gets the
// records of each answer, the rest is returned. The version that a.since is to be next
// is that of the first answer.
func (s *slaveSync) swap(ctx context.Context, addr string, a asking, give tables, take func([]subgroup.ProgressRecord)) (answering, *tables, error) {
	st := s.o.Stand.Load()
	a.name, a.id, a.addr, a.slave = s.o.Name, st.ID, s.o.Addr(), st.isSlave()
	var first answering
	for n := firstBytes(give.records, mostRecordBytes); n < len(give.records); n = firstBytes(give.records, mostRecordBytes) {
		part := tables{records: give.records[:n]}
		push := a
		push.push = true
		if _, err := s.askTables(ctx, addr, &push, part.encode()); err != nil {
			return first, nil, err
		}
		give.records = give.records[n:]
	}
	var rest *tables
	for round := 0; ; round++ {
		resp, err := s.askTables(ctx, addr, &a, give.encode())
		if err != nil {
			return first, nil, err
		}
		head, err := decodeAnswering(resp.Ext)
		if err != nil {
			return first, nil, err
		}
		part, err := decodeTables(resp.Body)
		if err != nil {
			return first, nil, fmt.Errorf("the tables of %s: %w", addr, err)
		}
		take(part.records)
		if part.records = nil; round == 0 {
			first, rest = head, part
		}
		if head.next == nil || head.instance != first.instance {
			return first, rest, nil
		}
		a.after, a.deletions, give = head.next, nil, tables{}
	}
}

// takeLeases takes over a master's queue locks, and remembers them.
func (s *slaveSync) takeLeases(m *masterState, leases []subgroup.Lease, nowMillis int64) {
	s.o.Locks.TakeOver(leases)
	m.leases = make(map[leaseKey]int64, len(leases))
	for _, l := range leases {
		m.leases[leaseKey{l.Group, l.ClientID, l.Queue}] = nowMillis + l.LeftMillis
	}
}

// heardRecords remembers records by their hashes, so that a large table costs little
// until the next round. Two of one hash in 2^64 would let one change wait for the next
// exchange of everything.
type heardRecords struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

func (h *heardRecords) add(records []subgroup.ProgressRecord) {
	if h.hashes == nil {
		h.seed, h.hashes = maphash.MakeSeed(), make(map[uint64]struct{}, len(records))
	}
	for i := range records {
		h.hashes[maphash.Comparable(h.seed, records[i])] = struct{}{}
	}
}

func (h *heardRecords) has(r *subgroup.ProgressRecord) bool {
	if len(h.hashes) == 0 {
		return false
	}
	_, heard := h.hashes[maphash.Comparable(h.seed, *r)]
	return heard
}

// ownLeases are the locks that clients took or renewed here. A lock that was only
// taken over is not sent back: its holder may have given it up at the master.
func (m *masterState) ownLeases(leases []subgroup.Lease, nowMillis int64) []subgroup.Lease {
	return slices.DeleteFunc(leases, func(l subgroup.Lease) bool {
		end, taken := m.leases[leaseKey{l.Group, l.ClientID, l.Queue}]
		return taken && nowMillis+l.LeftMillis <= end+renewSlack
	})
}

// takeTables brings the rest up to date: topics and groups only if their version
// differs.
func (s *slaveSync) takeTables(ctx context.Context, m *masterState, a answering, got *tables) error {
	if err := s.followDeletions(ctx, m, got.deletions); err != nil {
		return err
	}
	if _, have := s.o.Topics.All(); have != a.topics || m.whole {
		if err := s.takeTopics(ctx, m, false); err != nil {
			return err
		}
	}
	if _, have := s.o.Groups.All(); have != a.groups || m.whole {
		if err := s.takeGroups(ctx, m); err != nil {
			return err
		}
	}
	m.whole = false
	var errs []error
	if got.delays != nil {
		errs = append(errs, s.takeDelays(got.delays))
	}
	if got.modes != nil {
		errs = append(errs, s.o.Modes.Replace(got.modes))
	}
	return errors.Join(errs...)
}

func (s *slaveSync) takeDelays(text []byte) error {
	p, err := delay.DecodeProgress(text)
	if err != nil {
		return err
	}
	s.o.Delays.TakeOver(p)
	if now := s.o.Steady(); now.Sub(s.delaysSaved) >= saveDelaysEvery {
		s.delaysSaved = now
		return s.o.Delays.Persist()
	}
	return nil
}
