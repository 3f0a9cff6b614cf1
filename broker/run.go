package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/replication"
)

// How long the steps of a shutdown may take before the next one starts anyway.
const (
	unregisterWait = 3 * time.Second
	stopWait       = 5 * time.Second
)

// part is one long goroutine of a running broker, with its own end.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

// starter starts parts in one errgroup. They live in a context of their own,
// not in Run's, since they end one after another.
type starter struct {
	g    *errgroup.Group
	base context.Context
}

func (s starter) run(name string, f func(ctx context.Context) error) *part {
	ctx, cancel := context.WithCancel(s.base)
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	s.g.Go(func() error {
		defer close(p.done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	return p
}

// end stops parts and waits for them, at most d together.
func (b *Broker) end(d time.Duration, parts ...*part) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, p := range parts {
		p.stop()
	}
	for _, p := range parts {
		select {
		case <-p.done:
		case <-timer.C:
			b.log.Warn("shutdown goes on without waiting", "component", p.name, "after", d)
			return
		}
	}
}

// running are the parts of a running broker.
type running struct {
	store, hold, delay, house, data, admin, main, fast, reg, ready *part
	ha, follow, watch, ask, tables, role, relay                    *part
}

// Run serves until ctx ends or a part fails, then shuts down in order and
// returns nil or the failure. It is called once.
func (b *Broker) Run(ctx context.Context) error {
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	s := starter{g: g, base: context.WithoutCancel(ctx)}
	var r running
	r.store = s.run("store", b.store.Run)
	r.hold = s.run("held pulls", b.holds.Run)
	r.delay = s.run("delayed messages", b.ha.delays.Run)
	r.house = s.run("housekeeping", b.keepHouse)
	r.data = s.run("data pool", b.data.run)
	r.admin = s.run("admin pool", b.admin.run)
	// Slaves first: sends to a synchronous master wait for them.
	r.ha = s.run("replication port", b.ha.master.Run)
	r.follow = s.run("replication", b.ha.follow.Run)
	r.watch = s.run("watch of the replicas", b.watchPeers)
	r.ask = s.run("questions to the replicas", b.askPeers)
	r.role = s.run("watch of the role", b.watchRole)
	r.relay = s.run("relay of old routes", b.relay.Run)
	b.comeBack(ctx)
	// What the replicas had since this master was last here is merged before anyone
	// can ask for it.
	if err := b.sync.Reconcile(ctx); err != nil {
		b.log.Error("opening without saving what the replicas had", "err", err)
	}
	b.comeBack(ctx) // that took its time: a replica that found this broker silent may have been promoted meanwhile
	r.tables = s.run("tables of the replicas", b.sync.Run)
	// Ports open before the registration, so that clients with an old route are
	// served early.
	r.main = s.run("main port", func(ctx context.Context) error { return b.server.Serve(ctx, b.ports.main) })
	r.fast = s.run("fast port", func(ctx context.Context) error { return b.server.Serve(ctx, b.ports.fast) })
	b.serving.Store(true)
	if b.reg != nil {
		r.reg = s.run("registration", b.reg.Run)
	}
	r.ready = s.run("readiness", b.announceReady)
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	err := b.shutdown(&r)
	return errors.Join(g.Wait(), err)
}

// announceReady closes Ready once the nameservers know the broker.
func (b *Broker) announceReady(ctx context.Context) error {
	if b.reg != nil {
		select {
		case <-b.reg.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	close(b.ready)
	b.log.Info("ready", "addr", b.Addr(), "broker", b.opts.Name, "broker_id", b.stand.Load().ID, "role", b.stand.Load().Role.String(), "took", b.uptime())
	return nil
}

// lastBytesWait bounds how long a broker that ends waits for its slaves.
const lastBytesWait = time.Second

// letSlavesCatchUp waits until the slaves that follow closely have all of the log,
// so that whichever is promoted lacks nothing.
func (b *Broker) letSlavesCatchUp() {
	deadline := time.NewTimer(lastBytesWait)
	defer deadline.Stop()
	for {
		behind := false
		for _, c := range b.ha.master.Status().Slaves {
			behind = behind || c.State == replication.Syncing && c.InSync && c.Gap > 0
		}
		if !behind {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// shutdown ends the parts in order; each step has a deadline.
func (b *Broker) shutdown(r *running) error {
	b.log.Info("shutting down")
	// 1. The nameservers forget the broker, so that no new clients come.
	b.end(stopWait, r.ready)
	if r.reg != nil {
		b.end(unregisterWait, r.reg)
	}
	// 2. No new connections; newer clients are told to go elsewhere.
	b.draining.Store(true)
	b.end(stopWait, r.main, r.fast)
	// 3. Held pulls are answered.
	b.end(stopWait, r.hold)
	// 4. What is under way is answered; nothing more is read.
	drain, cancel := context.WithTimeout(context.Background(), b.opts.DrainTimeout)
	b.server.Drain(drain)
	cancel()
	// 5. The pools finish what they have.
	b.end(stopWait, r.relay, r.data, r.admin)
	// 6. Connections end.
	b.server.Close()
	// 7. The slaves get the last bytes. Replication stops, both ways, then delayed delivery and housekeeping;
	// progress is saved. Nothing writes to the store any more.
	b.letSlavesCatchUp()
	b.end(stopWait, r.follow, r.ha, r.watch, r.ask, r.role)
	b.ha.net.Close()
	b.end(stopWait, r.delay, r.house, r.tables)
	b.persistOffsets()
	b.flushTopics()
	// 8. The store is dispatched, flushed and closed: last, and without a deadline,
	// since only a finished close is a clean one.
	r.store.stop()
	<-r.store.done
	if err := b.store.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	b.log.Info("stopped")
	return nil
}
