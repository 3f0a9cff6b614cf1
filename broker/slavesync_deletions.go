package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"mqctl/store"
	"mqctl/store/record"
)

// A slave may hear nothing of a topic's deletion: it was away, or the topic was made
// again within one round. Then the table alone would leave it the old messages in every
// queue that has no new one yet, and after a promotion their numbers would go on. So a
// master of ours also tells where in the log each topic was deleted that its log still
// has messages of, and the slave follows that before it takes the topics over.

// mostDeletions bounds those that one answer tells.
const mostDeletions = 20_000

// deletionsTold is what one answer says of them.
type deletionsTold struct {
	last uint64 // the number of the newest one, by which the asker goes on
	list []store.Deletion
}

// append writes
//
//	+----------+   for each:   +--------------+-----------+-------+
//	| last u64 |               | position u64 | bytes u16 | topic |
//	+----------+               +--------------+-----------+-------+
func (t *deletionsTold) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, t.last)
	for _, d := range t.list {
		dst = binary.BigEndian.AppendUint64(dst, uint64(d.Before))
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(d.Topic)))
		dst = append(dst, d.Topic...)
	}
	return dst
}

const deletionHead = 10

func decodeDeletions(b []byte) (*deletionsTold, error) {
	if len(b) < 8 {
		return nil, errors.New("they are cut off in their head")
	}
	t := &deletionsTold{last: binary.BigEndian.Uint64(b)}
	for b = b[8:]; len(b) > 0; {
		if len(b) < deletionHead {
			return nil, errors.New("one is cut off in its head")
		}
		pos, n := binary.BigEndian.Uint64(b), int(binary.BigEndian.Uint16(b[8:]))
		if b = b[deletionHead:]; n > len(b) {
			return nil, errors.New("one is cut off in its name")
		}
		name := string(b[:n])
		if b = b[n:]; pos >= 1<<62 {
			return nil, fmt.Errorf("position %d of topic %q cannot be", pos, name)
		}
		t.list = append(t.list, store.Deletion{Topic: name, Before: record.PhysOffset(pos)})
	}
	return t, nil
}

// heardDeletions is what a slave knows of its master's deletions.
type heardDeletions struct {
	last    uint64 // the newest one heard of, of the run masterState.instance
	cuts    uint64 // of the log here when that began
	waiting []store.Deletion
}

// deletionsSince is by which number to ask; nil: not now.
func (s *slaveSync) deletionsSince(m *masterState) *uint64 {
	if !m.deletions {
		return nil
	}
	if cuts := s.o.Store.Cuts(); cuts != m.heard.cuts {
		m.heard = heardDeletions{cuts: cuts} // what came back from the master's log counts again
	}
	last := m.heard.last
	return &last
}

// followDeletions takes over what one answer told, asks for what it had no room for, and
// tries again what the log here did not reach yet.
func (s *slaveSync) followDeletions(ctx context.Context, m *masterState, told *deletionsTold) error {
	for told != nil && len(told.list) > 0 {
		m.heard.last = told.last
		m.heard.waiting = append(m.heard.waiting, told.list...)
		if len(told.list) < mostDeletions {
			break
		}
		var err error
		if told, err = s.askDeletions(ctx, m); err != nil {
			return err
		}
	}
	if len(m.heard.waiting) == 0 {
		return nil
	}
	before := len(m.heard.waiting)
	var err error
	m.heard.waiting, err = s.o.Store.FollowDeletions(m.heard.waiting, m.heard.cuts)
	if done := before - len(m.heard.waiting); err == nil && done > 0 {
		s.o.Log.Info("the master's deletions of topics were followed", "topics", done, "waiting", len(m.heard.waiting))
	}
	return err
}

// newDeletions follows what the master deleted up to now: a topic that it made again is
// not taken over before the end of the old one is.
func (s *slaveSync) newDeletions(ctx context.Context, m *masterState) error {
	if !m.ours || !m.deletions {
		return nil
	}
	told, err := s.askDeletions(ctx, m)
	if err != nil {
		return err
	}
	return s.followDeletions(ctx, m, told)
}

// askDeletions asks for nothing else.
func (s *slaveSync) askDeletions(ctx context.Context, m *masterState) (*deletionsTold, error) {
	st := s.o.Stand.Load()
	a := asking{name: s.o.Name, id: st.ID, addr: s.o.Addr(), slave: st.isSlave(), instance: m.instance,
		deletions: s.deletionsSince(m), deletionsOnly: true}
	resp, err := s.askTables(ctx, m.addr, &a, nil)
	if err != nil {
		return nil, err
	}
	head, err := decodeAnswering(resp.Ext)
	if err != nil {
		return nil, err
	}
	if head.instance != m.instance {
		return nil, fmt.Errorf("%s was started anew meanwhile", m.addr)
	}
	t, err := decodeTables(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the tables of %s: %w", m.addr, err)
	}
	return t.deletions, nil
}

// tellDeletions is the answer to a slave that has those up to a number of this run.
func (s *slaveSync) tellDeletions(a *asking) *deletionsTold {
	since := *a.deletions
	if a.instance != s.instance {
		since = 0
	}
	list, last := s.o.Store.Deletions(since, mostDeletions)
	if len(list) == 0 {
		return nil
	}
	return &deletionsTold{last, list}
}
