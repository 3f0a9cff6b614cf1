package broker

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
	"mqctl/store/vfs"
)

// Periods of the watch over the role.
const (
	roleTick = 200 * time.Millisecond // a fence that nothing followed
	// rivalEvery is how often a master looks whether another is registered in its
	// place: a nameserver of Apache's says nothing about it.
	rivalEvery = 5 * time.Second
	endEvery   = 10 * time.Second // saving how far the master's log goes
)

// masterEndName is the file below <root>/config in which a slave keeps how far its
// master's log went when it last heard: what a forced promotion may lose is said
// from it, also after the slave was started anew. It is advice, so a damaged file counts
// as none.
const masterEndName = "masterEnd.json"

// masterEnd is the newest known end of the master's log, and what kind of master it is.
type masterEnd struct {
	fs   vfs.FS
	path string

	mu    sync.Mutex // held for assignments only
	role  string     // what the master said last: SYNC_MASTER or ASYNC_MASTER; empty: nothing yet
	fresh bool       // role was not saved yet, nor tried to be
	saved endRecord
}

type endRecord struct {
	End   int64 `json:"end"`
	At    int64 `json:"at"` // ms since 1970
	Epoch int64 `json:"epoch"`
	// Role is the master's. Who takes its place by force goes on with it: else a
	// name whose sends waited for two copies would do with one, and nobody had asked for that.
	Role string `json:"role,omitempty"`
}

// loadMasterEnd reads what the last run knew.
func loadMasterEnd(fsys vfs.FS, root string) *masterEnd {
	m := &masterEnd{fs: fsys, path: filepath.Join(root, "config", masterEndName)}
	data, err := readSmallFile(fsys, m.path)
	if err != nil || json.Unmarshal(data, &m.saved) != nil || m.saved.End < 0 || m.saved.At < 0 {
		m.saved = endRecord{}
	}
	m.heard(m.saved.Role)
	return m
}

// heard takes in what kind of master the master is; anything else is no news.
func (m *masterEnd) heard(role string) {
	if role != SyncMaster.String() && role != AsyncMaster.String() {
		return
	}
	m.mu.Lock()
	m.fresh = m.fresh || role != m.saved.Role
	m.role = role
	m.mu.Unlock()
}

// news says whether there is a role of the master that should be saved at once: both
// may die before the next round, and what senders were promised would be forgotten.
func (m *masterEnd) news() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fresh
}

// begin forgets the end of an earlier master's log: this broker was the master since then.
func (m *masterEnd) begin(role string) {
	m.mu.Lock()
	m.saved = endRecord{}
	m.mu.Unlock()
	m.heard(role)
}

// masterRole is what the master was when it was last heard; empty if it never was.
func (m *masterEnd) masterRole() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.role
}

// known is the end and when it was heard; a zero time if never.
func (m *masterEnd) known() (int64, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.saved.At == 0 {
		return 0, time.Time{}
	}
	return m.saved.End, time.UnixMilli(m.saved.At)
}

// keep saves what is newer than the last; with a zero time only the role may be.
func (m *masterEnd) keep(end int64, at time.Time, epoch int64) error {
	next := endRecord{End: end, At: at.UnixMilli(), Epoch: epoch}
	m.mu.Lock()
	if at.IsZero() {
		next = m.saved
	}
	next.Role, m.fresh = m.role, false
	same := next == m.saved
	m.mu.Unlock()
	if same {
		return nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = replaceFile(m.fs, m.path, append(data, '\n'))
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.saved = next
	m.mu.Unlock()
	return nil
}

// watchRole lifts a fence that nothing followed, looks for a newer master in this
// one's place, and on a slave keeps how far the master's log goes.
func (b *Broker) watchRole(ctx context.Context) error {
	tick := time.NewTicker(roleTick)
	defer tick.Stop()
	now := b.steady()
	rival, end := now, now
	for {
		select {
		case <-ctx.Done():
			b.keepMasterEnd() // the next run may never hear the master
			return nil
		case <-tick.C:
		case addr := <-b.rivals:
			b.roles.newer(ctx, addr)
		}
		b.roles.expire(ctx)
		b.roles.finish(ctx)
		b.settleLog()
		if now = b.steady(); now.Sub(rival) >= rivalEvery {
			rival = now
			b.lookForRival(ctx)
		}
		if now.Sub(end) >= endEvery || b.masterEnd.news() {
			end = now
			b.keepMasterEnd()
		}
	}
}

// settleLog notes that the log of a former master agrees with its new master's.
func (b *Broker) settleLog() {
	if b.roles.settled() {
		return
	}
	if st := b.ha.slave.Status().State; st != replication.Syncing && st != replication.Copying {
		return
	}
	if err := b.roles.settle(); err != nil {
		b.log.Warn("the role could not be saved; it is tried again", "err", err)
		return
	}
	b.sync.Poke()
}

// lookForRival asks the broker that is registered as this name's master, if that
// is another one, what it is; a newer master is followed.
func (b *Broker) lookForRival(ctx context.Context) {
	if b.stand.Load().isSlave() {
		return
	}
	if addr := b.replicas()[0]; addr != "" && addr != b.Addr() {
		b.roles.newer(ctx, addr)
	}
}

// suspectRival takes in that a nameserver named another master.
func (b *Broker) suspectRival(addr string) {
	select {
	case b.rivals <- addr:
	default:
	}
}

func (b *Broker) keepMasterEnd() {
	st := b.stand.Load()
	if !st.isSlave() {
		return
	}
	s := b.ha.slave.Status()
	if err := b.masterEnd.keep(int64(s.MasterEnd), b.dated(s.MasterEndAt), st.Epoch); err != nil {
		b.log.Warn("how far the master's log goes could not be noted; it is tried again", "err", err)
	}
}

// comeBack looks, before the ports open, whether another broker became the master
// of this name while this one was away, and then starts as its slave. It asks those
// that the nameservers have in its place, and the replicas it remembers: one of
// them may have been promoted a moment ago, before any nameserver knew.
func (b *Broker) comeBack(ctx context.Context) {
	if b.stand.Load().isSlave() {
		return
	}
	var addrs []string
	if b.reg != nil {
		addrs = b.reg.holders(ctx)
	}
	for _, m := range b.sync.members.all() {
		if m.Ours && !slices.Contains(addrs, m.Addr) {
			addrs = append(addrs, m.Addr)
		}
	}
	var wg sync.WaitGroup
	for _, addr := range addrs {
		wg.Go(func() { b.roles.newer(ctx, addr) })
	}
	wg.Wait()
}

// holders asks every nameserver who has this name and id, all at the same time.
func (r *registrar) holders(ctx context.Context) []string {
	found := make([]string, len(r.o.Namesrvs))
	var wg sync.WaitGroup
	for i, ns := range r.o.Namesrvs {
		wg.Go(func() {
			if addr, err := r.holder(ctx, ns, r.o.Standing().ID); err == nil && addr != r.o.Addr {
				found[i] = addr
			}
		})
	}
	wg.Wait()
	out := found[:0]
	for _, addr := range found {
		if addr != "" {
			out = append(out, addr)
		}
	}
	return out
}

// announceSlave registers a former master as the slave it is. It waits until the
// new master is one: a route without any master makes producers fail. serves: it is;
// else it was waited for long enough.
func (b *Broker) announceSlave(serves bool) {
	old := b.stand.Load()
	now, changed := b.stand.update(func(s *standing) {
		s.MasterAlive = s.isSlave() && (s.MasterAlive || s.Leaving && serves)
		s.Leaving = false
	})
	if changed && b.reg != nil {
		b.log.Info("this broker is registered as a slave from now on", "addr", now.Master, "master_serves", serves)
		b.tellStanding(old, now)
		b.reg.Refresh()
		b.sync.Poke()
	}
}

// notSupported says that err is the answer of a broker that does not know the request.
func notSupported(err error) bool {
	var refused *remoting.Error
	return errors.As(err, &refused) && refused.Code == remoting.CodeRequestCodeNotSupported
}
