package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

// serve answers MQCTL_PROGRESS: it takes in what the other broker brings and tells
// what has changed here since the version that it has. Merging is free of order
// (replication of progress is a maximum over a total order), so it may come from any
// replica, in any part, and more than once.
func (s *slaveSync) serve(ctx context.Context, r *remoting.Request) {
	a, err := decodeAsking(r.Ext)
	if err == nil {
		err = s.admit(ctx, r, &a)
	}
	var brought *tables
	if err == nil {
		brought, err = decodeTables(r.Body)
	}
	if err != nil {
		var remote *remoting.Error
		if errors.As(err, &remote) {
			refuse(r, err)
			return
		}
		r.Reply(remoting.CodeInvalidParameter, err.Error(), nil, nil)
		return
	}
	if s.o.Offsets.Merge(brought.records) > 0 {
		s.changing.Add(1)
	}
	s.o.Locks.TakeOver(brought.leases)
	m := member{ID: a.id, Addr: a.addr, Ours: true}
	if a.instance == s.instance {
		m.has = a.since
	}
	s.members.seen(m, s.o.Steady(), s.o.Log)
	if a.push {
		s.replyTables(r, nil, nil)
		return
	}
	head, give := s.tell(&a)
	s.replyTables(r, head, give.encode())
}

// tell makes the answer.
func (s *slaveSync) tell(a *asking) (*answering, *tables) {
	since := a.since
	if a.instance != s.instance {
		since = 0 // a version of another run says nothing here
	}
	st := s.o.Stand.Load()
	head := &answering{id: st.ID, slave: st.isSlave(), instance: s.instance}
	_, head.topics = s.o.Topics.All()
	_, head.groups = s.o.Groups.All()
	give := &tables{}
	if a.deletions != nil && a.after == nil {
		give.deletions = s.tellDeletions(a)
	}
	if a.deletionsOnly {
		head.version = since
		return head, give
	}
	if a.after == nil {
		give.leases = s.o.Locks.Leases()
		give.delays, give.modes = s.o.Delays.JSON(), s.o.Modes.JSON()
	}
	var records []subgroup.ProgressRecord
	records, head.version = s.o.Offsets.SinceBut(nil, since, a.had)
	give.records, head.next = cut(records, a.after, mostRecordBytes)
	return head, give
}

// admit refuses whoever is no replica of this broker: another name, this very id,
// or an address that is neither this machine's nor a known replica's.
func (s *slaveSync) admit(ctx context.Context, r *remoting.Request, a *asking) error {
	st := s.o.Stand.Load()
	refused := func(format string, args ...any) error {
		return &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: fmt.Sprintf(format, args...)}
	}
	switch {
	case a.name != s.o.Name:
		return refused("this is broker %s, not %s: their tables are not exchanged", s.o.Name, a.name)
	case a.id == st.ID:
		return refused("this broker has id %d itself; two brokers of one name and id exchange nothing", st.ID)
	}
	if _, err := netip.ParseAddrPort(a.addr); err != nil {
		return refused("brokerAddr %q is no ip:port", a.addr)
	}
	if s.o.Proved != nil && !s.o.Proved(r, remoting.RequestName(remoting.ReqMqctlProgress), a.who()) {
		return &remoting.Error{Code: remoting.CodeNoPermission, Remark: unproved(remoting.RequestName(remoting.ReqMqctlProgress), r.Conn.RemoteAddr())}
	}
	if s.replica(ctx, r.Conn) {
		return nil
	}
	return &remoting.Error{Code: remoting.CodeNoPermission,
		Remark: fmt.Sprintf("%s is neither this machine nor a broker of the name %s that the nameservers know", r.Conn.RemoteAddr().Addr().Unmap(), s.o.Name)}
}

// replica says whether a connection comes from this machine or from a known replica's.
func (s *slaveSync) replica(ctx context.Context, c *remoting.Conn) bool {
	from := c.RemoteAddr().Addr().Unmap().String()
	if s.knows(from) {
		return true
	}
	s.ask(ctx) // a replica that has just come may be known there
	return s.knows(from)
}

// attached notes a slave of ours that may copy the log from now on. It is on disk before
// the slave has a byte: whoever has the log may be the master when this broker comes back,
// and is followed then, as it is no stranger.
func (s *slaveSync) attached(ctx context.Context, c *remoting.Conn, id int64, addr string) {
	if _, err := netip.ParseAddrPort(addr); err != nil || id == s.o.Stand.Load().ID || !s.replica(ctx, c) {
		return
	}
	if s.members.set(member{ID: id, Addr: addr, Ours: true}) {
		s.members.save(s.o.Log)
	}
}

// knows says whether a host is this machine's or a known replica's.
func (s *slaveSync) knows(host string) bool {
	if ip, err := netip.ParseAddr(host); err != nil || ip.IsLoopback() {
		return true // this machine, or no network at all
	}
	if host == hostText(s.o.Addr()) || host == hostText(s.o.Stand.Load().Master) {
		return true
	}
	for _, p := range s.o.Peers.Load() {
		if host == hostText(p.Addr) {
			return true
		}
	}
	for _, m := range s.members.all() {
		if host == hostText(m.Addr) {
			return true
		}
	}
	return false
}

// hostText is the host of host:port.
func hostText(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

// pushWait bounds how long an operator's reset waits for one replica.
const pushWait = 2 * time.Second

// ShareNow hands what changed here to every connected replica of ours, and returns
// when each has it or has failed, with what failed. A reset goes out this way before
// it is answered; one that did not get through wins by its generation later.
func (s *slaveSync) ShareNow(ctx context.Context) error {
	now, own := s.o.Steady(), s.o.Stand.Load().ID
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for _, m := range s.members.all() {
		if !m.Ours || m.ID == own || now.UnixMilli()-m.Seen > memberFresh.Milliseconds() {
			continue
		}
		wg.Go(func() {
			one, cancel := context.WithTimeout(ctx, pushWait)
			defer cancel()
			records, _ := s.o.Offsets.Since(nil, m.has)
			if err := s.pushTo(one, m.Addr, records); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *slaveSync) pushTo(ctx context.Context, addr string, records []subgroup.ProgressRecord) error {
	st := s.o.Stand.Load()
	a := asking{name: s.o.Name, id: st.ID, addr: s.o.Addr(), slave: st.isSlave(), push: true}
	for len(records) > 0 {
		n := firstBytes(records, mostRecordBytes)
		give := tables{records: records[:n]}
		if _, err := s.askTables(ctx, addr, &a, give.encode()); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}
