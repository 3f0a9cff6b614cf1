package broker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store/table"
)

// Times of the registration.
const (
	registerEveryMin = 10 * time.Second // BrokerController clamps the period to these
	registerEveryMax = 60 * time.Second
	registerJitter   = 10 // percent around the period
	retryFirst       = 50 * time.Millisecond
	retryMost        = 10 * time.Second
	answerWait       = 3 * time.Second // a nameserver silent for this long does not hold up Ready
	identityWait     = time.Second     // one question of the identity check
	goodbyeWait      = time.Second     // one 104 at shutdown
)

// registrarOptions say what is registered and where.
type registrarOptions struct {
	Name, Cluster string
	Addr, HAAddr  string // told to clients and slaves, host:port
	Standing      func() *standing
	// Acting is enableSlaveActingMaster now.
	Acting func() bool
	// Learned hears who this broker's master is, from each answer to a slave's
	// registration: its remoting and HA addresses, empty if nobody knows one.
	Learned func(master, ha string)
	// Newer looks whether the broker at addr became master of this name later, and
	// makes this one its slave then. It may wait for the broker's answer. nil: no.
	Newer func(ctx context.Context, addr string) bool
	// Older tells whether the broker at addr is a master of this name whose place this
	// one took. It is set where Newer is.
	Older func(ctx context.Context, addr string) bool
	// Refused hears which master a nameserver named when it refused this one.
	Refused    func(master string)
	Namesrvs   []string
	Every      time.Duration // between registrations, clamped to 10 to 60 s
	Timeout    time.Duration // of one registration
	BootMillis int64         // when this process started, as its answer to 28 says
	// Topics is the whole topic table, system topics included, and its version.
	Topics func() (map[string]*topic.Config, table.DataVersion)
	// Permission is brokerPermission now.
	Permission func() int
	// MarkOrdered makes a known topic an ordered one; it may wait for the disk.
	MarkOrdered func(name string) error
	Dial        func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP
	Now         func() time.Time                                         // dates changes; nil: time.Now
	Steady      func() time.Time                                         // nil: time.Now
	Log         *slog.Logger
}

// registrar keeps a broker registered at all its nameservers: at start with all
// topics, then every period; at once after a change, with the changed topics
// only (never as a nameserver's first registration, which must not be of one
// topic); at once after a lost connection, since a nameserver forgets a broker
// whose connection ends. Each nameserver has its own goroutine, so a slow or dead
// one delays no other.
//
// Between registrations every nameserver gets a heartbeat (904) a second, as
// they forget a broker after heartbeatTimeout of silence, and one of them is
// asked for the members of this name (901): a slave registers at once when its
// master moved, since the answer holds the address to copy from.
type registrar struct {
	o     registrarOptions
	net   *remoting.Client
	links []*link
	ready chan struct{}

	// mu guards what follows and the links' work; it is never held while waiting.
	mu          sync.Mutex
	isReady     bool
	permChanges int64            // each makes the version sent a new one
	permAt      int64            // ms of the last
	moved       chan struct{}    // closed and replaced when a link's state changes
	group       map[int64]string // the brokers of this name by id, as 901 said; replaced as a whole
}

// linkState is how far a nameserver is.
type linkState int

const (
	linkNew     linkState = iota // no answer yet
	linkUp                       // registered
	linkRefused                  // it answered and refused
	linkDown                     // not reachable
)

// link is one nameserver.
type link struct {
	r    *registrar
	addr string
	wake chan struct{} // has room for one

	// Guarded by r.mu.
	state   linkState
	full    bool            // the whole table is due
	changed map[string]bool // topics due
	busy    bool            // a registration is under way
	met     bool            // the identity was checked here
	master  string          // of this name, as the last answer said; "" if there is none
	ha      string          // its replication address

	fails int // of its goroutine alone
}

func newRegistrar(o registrarOptions) *registrar {
	o.Every = min(max(o.Every, registerEveryMin), registerEveryMax)
	if o.Timeout <= 0 {
		o.Timeout = 24 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Steady == nil {
		o.Steady = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Learned == nil {
		o.Learned = func(string, string) {}
	}
	o.Log = o.Log.With("component", "registration")
	r := &registrar{o: o, ready: make(chan struct{}), moved: make(chan struct{})}
	for _, a := range o.Namesrvs {
		r.links = append(r.links, &link{r: r, addr: a, wake: make(chan struct{}, 1), full: true, changed: make(map[string]bool)})
	}
	r.net = remoting.NewClient(remoting.ClientOptions{Dial: o.Dial, OnClose: r.lost, Log: o.Log})
	return r
}

// Ready is closed when every nameserver that answers knows the broker.
func (r *registrar) Ready() <-chan struct{} { return r.ready }

// Run registers until ctx ends, then unregisters. It returns an *IdentityError
// if another live broker of this name and id is found before the first registration.
func (r *registrar) Run(ctx context.Context) error {
	defer r.net.Close()
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range r.links {
		g.Go(func() error { return l.run(ctx) })
	}
	g.Go(func() error { return r.beat(ctx) })
	g.Go(func() error { return r.follow(ctx) })
	// The goroutine that stops waiting for silent nameservers.
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-r.ready:
		case <-time.After(answerWait):
			r.mu.Lock()
			for _, l := range r.links {
				if l.state == linkNew {
					l.state = linkDown
				}
			}
			r.stateMoved()
			r.mu.Unlock()
		}
		return nil
	})
	return g.Wait()
}

// Changed says that topics were created, changed or deleted: they are registered at once.
func (r *registrar) Changed(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		for _, n := range names {
			l.changed[n] = true
		}
		l.poke()
	}
}

// Refresh registers everything at once under a new version: brokerPermission
// changed, and a nameserver looks at topics only when the version differs.
func (r *registrar) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.permChanges++
	r.permAt = r.o.Now().UnixMilli()
	for _, l := range r.links {
		l.full = true
		l.poke()
	}
}

// Ask registers everything at once, for what the answers say: this broker's
// master may be another one, or elsewhere.
func (r *registrar) Ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.full = true
		l.poke()
	}
}

// Settle waits until the nameservers that are registered at know every change
// made before the call, or ctx ends.
func (r *registrar) Settle(ctx context.Context) {
	for {
		r.mu.Lock()
		open := false
		for _, l := range r.links {
			open = open || l.state == linkUp && (l.busy || l.full || len(l.changed) > 0)
		}
		moved := r.moved
		r.mu.Unlock()
		if !open {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// lost is told by the client that a connection ended.
func (r *registrar) lost(addr string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.addr == addr {
			if l.state == linkUp {
				r.o.Log.Warn("connection to the nameserver lost, registering again", "peer", addr, "err", err)
				l.state = linkDown
				r.stateMoved()
			}
			l.full = true
			l.poke()
		}
	}
}

// poke wakes the link's goroutine.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// stateMoved wakes those who wait and closes ready when nothing is awaited. mu is held.
func (r *registrar) stateMoved() {
	close(r.moved)
	r.moved = make(chan struct{})
	for _, l := range r.links {
		if l.state == linkNew || l.state == linkRefused {
			return
		}
	}
	if !r.isReady {
		r.isReady = true
		close(r.ready)
	}
}

// work is what one registration is about.
type work struct {
	names map[string]bool // nil: the whole table
}

// take gives out what is due, if anything is. A nameserver that does not know
// the broker gets the whole table.
func (l *link) take() (w work, due bool) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if !l.full && l.state == linkUp {
		if len(l.changed) == 0 {
			return w, false // woken twice for one change
		}
		w.names = l.changed
	}
	l.full, l.changed, l.busy = false, make(map[string]bool), true
	return w, true
}

// done says how a registration went. The period begins anew with each success.
func (l *link) done(state linkState) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.busy = false
	l.state = state
	if state != linkUp {
		l.full = true
	}
	l.r.stateMoved()
}

// run is the link's goroutine.
func (l *link) run(ctx context.Context) error {
	for {
		if err := l.register(ctx); err != nil {
			return err
		}
		// With nothing to do but wait, a wake-up is a change or a lost connection;
		// after a failure it must not shorten the pause, or a nameserver that
		// closes every connection would be called in a tight loop.
		wait, wake := l.pause()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			l.goodbye(ctx)
			return nil
		case <-timer.C:
			l.r.mu.Lock()
			l.full = true
			l.r.mu.Unlock()
		case <-wake:
			timer.Stop()
		}
	}
}

// pause is how long to wait, and what may end the wait early.
func (l *link) pause() (time.Duration, <-chan struct{}) {
	if l.fails == 0 {
		every := l.r.o.Every
		spread := every * registerJitter / 100
		return every - spread + rand.N(2*spread), l.wake
	}
	wait := min(retryFirst<<min(l.fails-1, 10), retryMost)
	return wait - wait/4 + rand.N(wait/2), nil
}

// register sends one registration. The error is an *IdentityError or nil.
func (l *link) register(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	r := l.r
	if r.o.Standing().Leaving {
		r.mu.Lock()
		l.full = true
		r.mu.Unlock()
		return nil // the end of that wakes the link
	}
	if conflict := l.checkIdentity(ctx); conflict != nil {
		r.mu.Lock()
		fatal := !r.isReady
		r.mu.Unlock()
		if fatal {
			return conflict
		}
		r.o.Log.Error("not registered: the name is taken", "peer", l.addr, "err", conflict)
		l.fails++
		l.done(linkRefused)
		return nil
	}
	w, due := l.take()
	if !due {
		return nil
	}
	h, text := r.request(w)
	one, cancel := context.WithTimeout(ctx, r.o.Timeout)
	resp, err := r.net.Call(one, l.addr, remoting.ReqRegisterBroker, h, text)
	cancel()
	switch {
	case ctx.Err() != nil:
		l.done(linkDown)
	case err != nil:
		if l.fails++; l.fails == 1 {
			r.o.Log.Warn("the nameserver cannot be reached, trying again", "peer", l.addr, "err", err)
		}
		l.done(linkDown)
	case resp.Code != remoting.CodeSuccess:
		if l.fails++; l.fails == 1 {
			r.o.Log.Error("the nameserver refused the registration, trying again", "peer", l.addr, "code", resp.Code, "remark", resp.Remark)
		}
		l.done(linkRefused)
		if master := resp.Ext["masterAddr"]; master != "" && r.o.Refused != nil {
			r.o.Refused(master)
		}
	default:
		l.registered(resp)
	}
	return nil
}

// registered takes in a success: the list of ordered topics may come with it.
func (l *link) registered(resp *remoting.Response) {
	r := l.r
	r.mu.Lock()
	first := l.state != linkUp
	r.mu.Unlock()
	if first {
		r.o.Log.Info("registered", "peer", l.addr, "broker", r.o.Name, "broker_id", r.o.Standing().ID)
	}
	l.fails = 0
	if err := r.markOrdered(resp.Body); err != nil {
		r.o.Log.Warn("the nameserver's list of ordered topics was not followed", "peer", l.addr, "err", err)
	}
	l.takeMaster(resp)
	l.done(linkUp)
}

// markOrdered marks the topics that the nameserver lists as ordered; nothing un-marks them.
func (r *registrar) markOrdered(text []byte) error {
	if len(text) == 0 || r.o.MarkOrdered == nil {
		return nil
	}
	kv, err := body.DecodeKVTable(text)
	if err != nil {
		return err
	}
	topics, _ := r.o.Topics()
	var errs []error
	for name := range kv.Table {
		if t := topics[name]; t != nil && !t.Order {
			errs = append(errs, r.o.MarkOrdered(name))
		}
	}
	return errors.Join(errs...)
}

// goodbye unregisters; the context of Run has ended, so it has its own time.
func (l *link) goodbye(ctx context.Context) {
	l.r.mu.Lock()
	known := l.state == linkUp
	l.state = linkDown // so that the end of the connection is nobody's news
	l.r.mu.Unlock()
	if !known {
		return
	}
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeWait)
	defer cancel()
	o := &l.r.o
	h := header.UnregisterBroker{BrokerName: o.Name, BrokerAddr: o.Addr, ClusterName: o.Cluster, BrokerID: o.Standing().ID}
	resp, err := l.r.net.Call(one, l.addr, remoting.ReqUnregisterBroker, &h, nil)
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		o.Log.Warn("the nameserver was not told of the end; it will see the closed connection", "peer", l.addr, "err", err)
	}
}

// newRegistrar makes the registrar of a broker; nil without nameservers.
func (b *Broker) newRegistrar() *registrar {
	if len(b.opts.Namesrvs) == 0 {
		return nil
	}
	return newRegistrar(registrarOptions{
		Name: b.opts.Name, Cluster: b.opts.Cluster, Addr: b.Addr(), HAAddr: b.ha.addr, Standing: b.stand.Load,
		Acting: func() bool { return b.live.Load().ActingMaster }, Learned: b.learned,
		Newer:    func(ctx context.Context, addr string) bool { return b.roles.newer(ctx, addr) },
		Older:    func(ctx context.Context, addr string) bool { return b.roles.older(ctx, addr) },
		Refused:  b.suspectRival,
		Namesrvs: b.opts.Namesrvs, Every: b.opts.RegisterEvery, Timeout: b.opts.RegisterTimeout,
		BootMillis: b.start.UnixMilli(), Topics: b.topics.All,
		Permission: func() int { return b.live.Load().Permission },
		MarkOrdered: func(name string) error {
			t := b.topics.Get(name)
			if t == nil || t.Order {
				return nil
			}
			next := *t
			next.Order = true
			_, err := b.topics.Put(next)
			return err
		},
		Dial: b.opts.Dial, Now: b.opts.Now, Steady: b.steady, Log: b.log,
	})
}
