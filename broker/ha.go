package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
	"mqctl/store/record"
)

// silentAfter is how long a master may be silent, over replication and over
// remoting, before it counts as dead.
const silentAfter = 10 * time.Second

// drainWait bounds how long a change of roles waits for sends that are between
// their check and their append.
const drainWait = 5 * time.Second

// hub is a broker's side of replication: the port from which slaves copy, the
// connection to its own master, and what it knows of the other brokers of its
// name.
type hub struct {
	listener net.Listener
	addr     string // told to nameservers, with the port really bound
	settings atomic.Pointer[replication.Settings]
	master   *replication.Master
	slave    *replication.Slave
	follow   *toggle          // slave.Run, on a slave
	delays   *toggle          // delivery of delayed messages, on a master
	net      *remoting.Client // to other brokers of this name
	wake     chan struct{}    // something changed: look at the peers now

	heard atomic.Int64 // ms: the master's last answer over remoting

	// turn is held during a change of role: one at a time. Nothing else takes it.
	turn sync.Mutex
	// watchers hear of each change of the standing, cutters after the log lost its
	// tail or all of it to a master's; set before Run.
	watchers []func(old, next *standing)
	cutters  []func()

	known knownPeers
	lost  lostSlaves
}

// openHub opens the replication port and makes both roles; the one that this
// broker does not play lies still.
func (b *Broker) openHub() error {
	h := &b.ha
	auth, err := b.opts.haAuth()
	if err != nil {
		return err
	}
	listen, err := b.opts.haListen()
	if err != nil {
		return err
	}
	if h.listener, err = listenOn(b.opts, listen); err != nil {
		return err
	}
	h.addr = advertised(b.opts.HAAddr, b.here.ip, h.listener)
	h.wake = make(chan struct{}, 1)
	h.known.init()
	b.settleHA(b.live.Load())
	settings := h.settings.Load
	h.net = remoting.NewClient(remoting.ClientOptions{Dial: b.opts.Dial, DialTimeout: time.Second, Log: b.log})
	h.master = replication.NewMaster(replication.MasterOptions{
		Log: b.store, Listener: h.listener, Settings: settings, Name: b.opts.Name, Epoch: func() int64 { return b.stand.Load().Epoch },
		Identify: b.identify, Misnamed: b.misnamed, Changed: h.poke, Left: h.lost.left, Auth: auth, Now: b.steady, Wall: b.opts.Now, Slog: b.log,
	})
	h.slave = replication.NewSlave(replication.SlaveOptions{
		Log: b.store, Settings: settings, Dial: b.opts.Dial, Attach: b.askAttach, Foreign: b.askForeign,
		Self: b.attachSelf, Cut: b.logCut, Rejoin: func() bool { return !b.roles.settled() }, Changed: b.replicationChanged, Auth: auth, Now: b.steady, Slog: b.log,
	})
	h.follow, h.delays = newToggle(h.slave.Run), newToggle(b.delays.Run)
	return nil
}

// haListen is where slaves connect: HAListen, else one above the main port.
func (o Options) haListen() (string, error) {
	if o.HAListen != "" {
		return o.HAListen, nil
	}
	host, port, err := splitListen(o.ListenAddr)
	if err != nil {
		return "", &ConfigError{Key: "listenPort", Why: err.Error()}
	}
	if port != 0 {
		port++
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// advertised is the address told to others: as given, with the bound port in the
// place of port 0.
func advertised(addr, ip string, l net.Listener) string {
	host, port, err := splitAddr(addr)
	if err != nil {
		host = ip
	}
	if port == 0 {
		if _, bound, err := splitAddr(l.Addr().String()); err == nil {
			port = bound
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// poke lets the watcher look at the peers now. It never blocks.
func (h *hub) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// settleHA makes changed settings of replication act at their next use.
func (b *Broker) settleHA(l *live) {
	s := l.HA
	if s.SegmentBytes == 0 {
		s.SegmentBytes = b.opts.Store.CommitLogBytes
	}
	b.ha.settings.Store(&s)
}

// appended passes the log's growth on to the slaves.
func (b *Broker) appended(end record.PhysOffset) {
	if b.opened.Load() {
		b.ha.master.Appended(end)
	}
}

// replicationChanged takes notice of another state of the copy from the master. With a
// key the tables wait for it: the next round comes at once, not in a second.
func (b *Broker) replicationChanged() {
	b.ha.poke()
	if b.ha.slave.Status().Connected {
		b.sync.Poke()
	}
}

// logCut follows a slave's log that was cut, or set aside, to fit its master's.
func (b *Broker) logCut() {
	b.ha.master.Cut()
	b.holds.ChangedAll()
	for _, f := range b.ha.cutters {
		f()
	}
}

// onCut adds a function that hears after the log was cut or set aside, on the
// goroutine that follows the master: nothing is appended meanwhile. Before Run only.
func (b *Broker) onCut(f func()) { b.ha.cutters = append(b.ha.cutters, f) }

// setStanding changes the broker's part: role, id, epoch, fence. It returns when
// nothing that the new part forbids goes on any more, or with an error if that
// could not be reached; then the broker stays fenced. Going from master to slave:
//
//  1. the new standing is published: sends are diverted
//  2. sends that had passed the check are appended
//  3. delivery of delayed messages ends; the store takes no messages
//  4. sends that wait for slaves are answered; the log of the master is followed
//
// and from slave to master: following ends, the store takes messages, the new
// standing is published, delayed messages are delivered. A fenced master is at
// step 3: its slaves go on copying, and the sends that wait for them do so.
func (b *Broker) setStanding(ctx context.Context, change func(s *standing)) error {
	h := &b.ha
	h.turn.Lock()
	defer h.turn.Unlock()
	old := b.stand.Load()
	next := *old
	change(&next)
	if !next.takesSends() {
		b.stand.update(func(s *standing) { change(s) })
		wait, cancel := context.WithTimeoutCause(ctx, drainWait, errors.New("sends that were under way did not end"))
		err := b.sends.gate.drain(wait)
		cancel()
		if err != nil {
			return fmt.Errorf("the role was not changed completely: %w", err)
		}
		h.delays.off()
		b.store.SetReplica(true)
	}
	if next.isSlave() {
		if !old.isSlave() {
			b.masterEnd.begin(old.Role.String()) // the next one's, until that says so itself
			h.master.AbortWaits()
		}
		h.slave.SetMaster(next.Master, next.HA)
		h.follow.on()
	} else {
		h.follow.off()
	}
	if b.opts.Settings != nil {
		b.reload(*b.opts.Settings.setRole(next.Role, next.ID))
	}
	if next.takesSends() {
		b.store.SetReplica(false)
		b.stand.update(func(s *standing) { change(s) })
		h.delays.on()
	}
	now := b.stand.Load()
	b.log.Info("role", "role", now.Role.String(), "broker_id", now.ID, "epoch", now.Epoch, "fenced", now.Fenced, "master", now.Master)
	b.tellStanding(old, now)
	return nil
}

// tellStanding tells everybody who acts on the standing.
func (b *Broker) tellStanding(old, now *standing) {
	b.standingChanged()
	if b.reg != nil && !now.Leaving && (old.Role != now.Role || old.ID != now.ID || old.Epoch != now.Epoch) {
		b.reg.Refresh()
	}
	for _, f := range b.ha.watchers {
		f(old, now)
	}
	b.ha.poke()
}

// onStanding adds a function that hears of each change of the standing, on the
// goroutine that made it; it must not block. Before Run only.
func (b *Broker) onStanding(f func(old, next *standing)) {
	b.ha.watchers = append(b.ha.watchers, f)
}

// OnRole adds a function that hears that the role or the id changed, on the
// goroutine that changed it; it must not block. Before Run only.
func (b *Broker) OnRole(f func()) {
	b.onStanding(func(old, next *standing) {
		if old.Role != next.Role || old.ID != next.ID {
			f()
		}
	})
}

// beginRole is the first standing, before anything serves.
func (b *Broker) beginRole() {
	s := b.stand.Load()
	if !s.isSlave() {
		b.ha.delays.on()
		return
	}
	b.store.SetReplica(true)
	b.ha.follow.on()
}

// learned takes in what the nameservers say of this broker's master: its
// remoting and HA addresses, empty if they know none. The addresses of before are
// still tried then: whether anybody lives there is MasterAlive.
func (b *Broker) learned(master, ha string) {
	if master == "" || master == b.Addr() {
		return // none, or we, from before we became a slave
	}
	if fixed := b.fixedMaster(); fixed != "" {
		ha = fixed
	}
	b.follow(master, ha)
}

// fixedMaster is haMasterAddress. It holds until the first change of roles, after
// which it may be the one of a former master.
func (b *Broker) fixedMaster() string {
	if b.stand.Load().Epoch != b.opts.Epoch {
		return ""
	}
	return b.opts.HAMaster
}

// follow makes a slave's master known. An empty part leaves what is known.
func (b *Broker) follow(master, ha string) {
	old := b.stand.Load()
	now, changed := b.stand.update(func(s *standing) {
		if !s.isSlave() {
			return
		}
		if master != "" {
			s.Master = master
		}
		if ha != "" {
			s.HA = ha
		}
	})
	if !changed {
		return
	}
	b.log.Info("master", "addr", now.Master, "ha", now.HA)
	b.ha.slave.SetMaster(now.Master, now.HA)
	b.tellStanding(old, now)
}

// refuseSend is what becomes of a send that reaches a broker which takes none.
func (b *Broker) refuseSend(_ *session, r *remoting.Request) {
	l := b.live.Load()
	reply := sendRefusal(l)
	r.Reply(remoting.CodeServiceNotAvailable, b.noSends(), &reply, nil)
}

// noSends says why this broker takes no sends, and who does.
func (b *Broker) noSends() string {
	s := b.stand.Load()
	name := fmt.Sprintf("%s/%d", b.here.name, s.ID)
	switch {
	case s.isSlave() && s.Master != "":
		return fmt.Sprintf("%s is a slave and takes no messages: send to its master %s", name, s.Master)
	case s.isSlave():
		return name + " is a slave and takes no messages, and its master is not known now"
	default:
		return name + " is changing its role and takes no messages: try again"
	}
}

// newGate makes the gate of sends.
func (b *Broker) newGate() *sendGate { return &sendGate{stand: &b.stand} }
