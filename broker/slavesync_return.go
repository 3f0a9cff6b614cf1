package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

// reconcileDial is how long a member may take to accept a connection.
const reconcileDial = 2 * time.Second

// Reconcile makes a master that comes back agree with the members that served in
// the meantime, before it opens its port (R1, R3, R4): all progress and all queue
// leases of both sides are exchanged and merged, and saved here. Members are those of
// the file and those that a nameserver knows. It waits at most for the configured
// time, and only for members that accept the connection; a slave returns at once, as
// it follows its master instead.
func (s *slaveSync) Reconcile(ctx context.Context) error {
	if s.o.Stand.Load().isSlave() {
		return nil
	}
	start := s.o.Steady()
	ctx, cancel := context.WithTimeout(ctx, s.o.Wait)
	defer cancel()
	s.ask(ctx)
	own := s.o.Stand.Load().ID
	var wg sync.WaitGroup
	asked := 0
	for _, m := range s.members.all() {
		if m.ID == own || m.Addr == s.o.Addr() {
			continue
		}
		asked++
		wg.Go(func() { s.reconcileWith(ctx, m) })
	}
	wg.Wait()
	if asked == 0 {
		return nil
	}
	s.o.Log.Info("reconciled before opening", "members", asked, "took", s.o.Steady().Sub(start))
	if err := s.o.Offsets.Persist(); err != nil {
		return fmt.Errorf("saving the progress that the replicas had: %w", err)
	}
	return nil
}

// reconcileWith takes in what one member has, and gives it what is here.
func (s *slaveSync) reconcileWith(ctx context.Context, m member) {
	one, cancel := context.WithTimeout(ctx, reconcileDial)
	_, err := s.net.Connect(one, m.Addr)
	cancel()
	var info map[string]string
	if err == nil { // it is there, and may take its time
		info, err = s.runtimeInfo(ctx, m.Addr)
	}
	if err == nil {
		if isOurs(info) {
			err = s.mergeOurs(ctx, m)
		} else {
			err = s.mergeForeign(ctx, m)
		}
	}
	if err != nil {
		s.o.Log.Warn("opening without what a replica has; it is merged when it returns", "broker_id", m.ID, "peer", m.Addr, "err", err)
	}
}

func isOurs(info map[string]string) bool {
	return slices.Contains(strings.Split(info["mqctlCapabilities"], ","), remoting.RequestName(remoting.ReqMqctlProgress))
}

// mergeOurs is R1: full tables in both directions, with the leases.
func (s *slaveSync) mergeOurs(ctx context.Context, m member) error {
	records, _ := s.o.Offsets.Since(nil, 0)
	_, got, err := s.swap(ctx, m.Addr, asking{}, tables{records: records, leases: s.o.Locks.Leases()},
		func(records []subgroup.ProgressRecord) { s.o.Offsets.Merge(records) })
	if err != nil {
		return err
	}
	s.o.Locks.TakeOver(got.leases)
	return nil
}

// How an Apache slave is asked before its own request is answered.
const (
	foreignWait  = time.Second            // it waits 3 s for its answer
	foreignPause = 500 * time.Millisecond // tools ask 43 too, from the same host
)

// foreignSlaves are the Apache slaves by address, with what is known of their
// tables (R3).
type foreignSlaves struct {
	mu     sync.Mutex // guards the map, for moments
	byAddr map[string]*foreignSlave
	kept   *delivered // over restarts; nil: nothing is
}

type foreignSlave struct {
	mu    sync.Mutex // held while the slave is asked and answered: one at a time
	state *subgroup.PlainSlave
	asked time.Time
}

func (f *foreignSlaves) of(addr string, o *subgroup.Offsets) *foreignSlave {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byAddr == nil {
		f.byAddr = map[string]*foreignSlave{}
	}
	p := f.byAddr[addr]
	if p == nil {
		if len(f.byAddr) >= mostMembers {
			clear(f.byAddr) // addresses that come and go; what is forgotten is only asked anew
		}
		p = &foreignSlave{state: subgroup.NewPlainSlave(o)}
		if f.kept != nil {
			if gens, ok := f.kept.of(addr); ok {
				p.state.Restore(gens)
			}
		}
		f.byAddr[addr] = p
	}
	return p
}

// mergeForeign takes an Apache slave's numbers into our generations.
func (s *slaveSync) mergeForeign(ctx context.Context, m member) error {
	p := s.foreign.of(m.Addr, s.o.Offsets)
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.takeForeign(ctx, exchangeWait, p, m.Addr)
}

// takeForeign reads the slave's table, which may take as long as wait. The caller holds
// p.mu.
func (s *slaveSync) takeForeign(ctx context.Context, wait time.Duration, p *foreignSlave, addr string) error {
	resp, err := s.callFor(ctx, wait, addr, remoting.ReqGetAllConsumerOffset, nil, nil)
	if err != nil {
		return err
	}
	p.asked = s.o.Steady()
	theirs, err := subgroup.DecodeOffsets(resp.Body)
	if err != nil {
		return fmt.Errorf("the progress of %s: %w", addr, err)
	}
	if p.state.Take(theirs) > 0 {
		s.changing.Add(1)
	}
	if gens, ok := p.state.Delivered(); ok && s.foreign.kept != nil {
		return s.foreign.kept.save(addr, gens)
	}
	return nil
}

// AllOffsets is the answer to 43. If an Apache slave lives where the request comes
// from, its own table is merged first: consumers go on committing there until their
// next look at the route, and the answer replaces that table.
func (s *slaveSync) AllOffsets(ctx context.Context, r *remoting.Request) []byte {
	if s.o.Stand.Load().isSlave() {
		return s.o.Offsets.JSON(true)
	}
	from := r.Conn.RemoteAddr().Addr().Unmap()
	var there []string
	for _, m := range s.members.all() {
		if m.Ours || from.IsValid() && hostText(m.Addr) != from.String() || m.Addr == s.o.Addr() {
			continue
		}
		there = append(there, m.Addr)
	}
	if len(there) == 0 {
		return s.o.Offsets.JSON(true)
	}
	return s.answerForeign(ctx, there)
}

// answerForeign answers one of the Apache slaves of a machine. Which of them asks
// cannot be told, so all are asked first. Each is believed to have copied the answer
// only when its own table shows it (subgroup.PlainSlave).
func (s *slaveSync) answerForeign(ctx context.Context, addrs []string) (answer []byte) {
	for _, addr := range addrs {
		p := s.foreign.of(addr, s.o.Offsets)
		p.mu.Lock()
		if s.o.Steady().Sub(p.asked) >= foreignPause {
			if err := s.takeForeign(ctx, foreignWait, p, addr); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("a slave's progress could not be read before its request was answered", "peer", addr, "err", err)
			}
		}
		p.mu.Unlock()
	}
	for _, addr := range addrs {
		p := s.foreign.of(addr, s.o.Offsets)
		p.mu.Lock()
		answer = p.state.Answer()
		p.mu.Unlock()
	}
	return answer
}
