package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/delay"
	"mqctl/broker/hold"
	"mqctl/broker/remoting"
	"mqctl/broker/stats"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// Workers of the two pools. Data: auto-creation, send-back, cold reads. Admin:
// everything that operators ask; as many as RocketMQ's adminBrokerThreadPoolNums,
// as changes that come at the same time share one save.
const (
	dataWorkers  = 16
	adminWorkers = 16
)

// mostHeld bounds the pulls held at once; beyond it a pull is answered at once.
const mostHeld = 200_000

// Broker is one broker: the only place that knows all parts. New opens, Run
// serves, and the parts know only what they use.
type Broker struct {
	opts   Options
	log    *slog.Logger
	here   place
	live   liveRef
	steady func() time.Time // how long things take, see clock.go
	began  time.Time        // by steady
	start  time.Time        // the date

	store    *store.Store
	recovery store.Recovery
	topics   *topic.Table
	groups   *subgroup.Groups
	offsets  *subgroup.Offsets
	members  *subgroup.Members
	locks    *subgroup.Locks
	holds    *hold.Pulls
	delays   *delay.Scheduler
	stats    *stats.Stats
	ports    ports
	server   *remoting.Server
	reg      *registrar // nil without nameservers

	data, admin *pool
	sends       *sendHandler
	pulls       *pullHandler
	progress    *offsetHandler
	clients     *clientHandler
	queueLocks  *lockHandler
	backs       *sendBackHandler

	events *eventLog
	sync   *slaveSync    // of the tables, with the replicas
	modes  *requestModes // how groups take messages, kept for others

	// shareProgress brings changed progress to the replicas that are reachable before
	// a reset is answered; nil: there are none.
	shareProgress func(ctx context.Context)

	stand standingRef // role, id, epoch
	peers peersRef    // the other brokers of its name
	ha    hub         // replication, both ways
	roles *roles      // changes of the role
	relay *relay      // requests of clients with an old route

	roleKey   []byte // of haAuthKeyFile; empty: none
	masterEnd *masterEnd
	rivals    chan string // addresses of brokers that may be newer masters

	// topicTable loads the topics when they are first asked for.
	topicTable func() (*topic.Table, error)

	opened   atomic.Bool // tables and holds are there: arrivals may be told
	draining atomic.Bool // shutting down: newer clients are told to go away
	ready    chan struct{}
	serving  atomic.Bool
}

// New opens the store and the tables and listens, but serves nothing yet: Run
// does, and closes what New opened; a broker that never runs is given up with
// Close. Errors are typed so that the caller can choose its exit code:
// *ConfigError (11), *vfs.LockedError (12), *PortError (13), *store.DamagedError
// (15); *IdentityError (14) comes from Run.
func New(o Options) (*Broker, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	levels, err := delay.ParseLevels(o.DelayLevels)
	if err != nil {
		return nil, &ConfigError{Key: "messageDelayLevel", Why: err.Error()}
	}
	b := &Broker{opts: o, log: o.Log, steady: steadyClock(), start: o.Now(), ready: make(chan struct{})}
	b.began = b.steady()
	b.live.Store(newLive(o.Reloadable, o.Cluster))
	b.stand.p.Store(&standing{Role: o.Role, ID: o.ID, Epoch: o.Epoch})
	b.events = newEventLog(func() string { return fmt.Sprintf("%s/%d", o.Name, b.stand.Load().ID) }, o.Now)
	b.onStanding(b.events.standing)
	b.topicTable = b.loadTopics(len(levels))
	if err := b.openStore(levels); err != nil {
		return nil, err
	}
	if err := b.open(levels); err != nil {
		return nil, errors.Join(err, b.store.Close())
	}
	return b, nil
}

// openStore locks the folder first, so that nothing else of it is touched while
// another broker has it.
func (b *Broker) openStore(levels []time.Duration) error {
	so := b.opts.Store
	r := b.opts.Reloadable
	so.DelayLevels = levels
	so.MaxMessage, so.MemoryRatio, so.Retention = r.MaxMessage, memoryRatio(b.stand.Load(), r.MemoryRatio), r.Retention
	so.BatchTopic = b.batchTopic
	so.OnArrival, so.OnAppend, so.Replica = b.arrived, b.appended, b.stand.Load().isSlave()
	st, rec, err := store.Open(so)
	if err != nil {
		return err
	}
	b.store, b.recovery = st, rec
	for _, n := range rec.Notes {
		b.log.Warn("at the start the store says", "note", n)
	}
	return nil
}

// loadTopics loads the topic table.
func (b *Broker) loadTopics(levels int) func() (*topic.Table, error) {
	return sync.OnceValues(func() (*topic.Table, error) {
		return topic.Load(topic.Options{
			FS: b.opts.FS, Dir: filepath.Join(b.opts.Store.Dir, "config"), Cluster: b.opts.Cluster, Broker: b.opts.Name,
			DefaultQueues: b.opts.DefaultQueues,
			AutoCreate:    func() bool { return b.live.Load().AutoCreateTopic },
			AllowMixed:    func() bool { return b.live.Load().MixedMessageType },
			DelayLevels:   int32(levels), TimerTopic: b.opts.TimerTopic,
			TraceTopic: b.opts.TraceTopic, ReviveQueues: b.opts.ReviveQueues,
			Changed: b.topicsChanged, NowMillis: func() int64 { return b.opts.Now().UnixMilli() },
		})
	})
}

// batchTopic says whether a topic has batch queues. The store asks while it recovers,
// when it has locked the folder but nothing else is loaded.
func (b *Broker) batchTopic(name string) bool {
	t, err := b.topicTable()
	if err != nil {
		return false // the start fails with it
	}
	c := t.Get(name)
	return c != nil && c.Batch()
}

// open loads the tables, opens the ports and builds the handlers.
func (b *Broker) open(levels []time.Duration) error {
	dir := filepath.Join(b.opts.Store.Dir, "config")
	nowMillis := func() int64 { return b.opts.Now().UnixMilli() }
	var err error
	if b.topics, err = b.topicTable(); err != nil {
		return fmt.Errorf("loading the topics: %w", err)
	}
	b.groups, err = subgroup.LoadGroups(subgroup.GroupsOptions{
		FS: b.opts.FS, Dir: dir, AutoCreate: func() bool { return b.live.Load().AutoCreateGroup },
		Frozen:    func() bool { return b.stand.Load().isSlave() },
		NowMillis: nowMillis, Changed: b.groupsChanged,
	})
	if err != nil {
		return fmt.Errorf("loading the subscription groups: %w", err)
	}
	if b.offsets, err = subgroup.LoadOffsets(b.opts.FS, dir, nowMillis, b.steadyMillis); err != nil {
		return fmt.Errorf("loading consumer progress: %w", err)
	}
	b.delays, err = delay.Load(delay.Options{Store: b.store, FS: b.opts.FS, Dir: dir, Levels: levels,
		Now: b.opts.Now, Steady: b.steady, Log: b.log, FlushEvery: b.opts.DelayOffsetsEvery, Following: b.stand.Load().isSlave()})
	if err != nil {
		return fmt.Errorf("loading the progress of delayed messages: %w", err)
	}
	if b.modes, err = loadModes(b.opts.FS, b.opts.Store.Dir); err != nil {
		return err
	}
	warnOlder(b.log, b.topics.Fallback(), b.topics.Lost(), b.groups.Fallback(), b.offsets.Fallback(), b.delays.Fallback(), b.modes.file.UsedBak())
	b.members = subgroup.NewMembers(b.steadyMillis, b.notifyWanted)
	b.locks = subgroup.NewLocks(b.steadyMillis)
	b.holds = hold.New(b.store, b.steady, mostHeld)
	b.stats = stats.New(b.opts.Cluster, b.steadyMillis)
	if b.ports, err = listen(b.opts); err != nil {
		return err
	}
	b.locate()
	if err := b.openHub(); err != nil {
		return errors.Join(err, b.ports.close())
	}
	b.opened.Store(true)
	b.reg = b.newRegistrar()
	if err = b.newSync(); err != nil {
		return errors.Join(err, b.ports.close())
	}
	b.build(int32(len(levels)))
	b.beginRole()
	return nil
}

// warnOlder tells of tables that a start has not found as they were.
func warnOlder(log *slog.Logger, why ...error) {
	for _, err := range why {
		if err != nil {
			log.Warn("a table is older than it was: its newest changes are lost", "error", err)
		}
	}
}

// locate says where clients find this broker: the advertised address with the
// port that was really bound.
func (b *Broker) locate() {
	ip, _ := netip.ParseAddr(b.opts.Advertise) // validated
	host := netip.AddrPortFrom(ip.Unmap(), b.ports.addr.Port())
	b.here = place{cluster: b.opts.Cluster, name: b.opts.Name, ip: b.opts.Advertise, host: host}
}

// Addr is the address that clients are told: advertised IP and main port.
func (b *Broker) Addr() string {
	return net.JoinHostPort(b.here.ip, strconv.Itoa(int(b.here.host.Port())))
}

// build makes the handlers and the server.
func (b *Broker) build(levels int32) {
	now := b.opts.Now
	b.data, b.admin = newPool(dataWorkers), newPool(adminWorkers)
	b.data.panicked, b.admin.panicked = b.jobPanicked, b.jobPanicked
	b.sends = &sendHandler{here: b.here, live: &b.live, topics: b.topics, groups: b.groups, locks: b.locks, store: b.store,
		stats: b.stats, ids: record.NewUniqueIDs(b.here.host.Addr(), processID()), levels: levels, pool: b.data, now: now, guard: b.runPooled,
		gate: b.newGate(), slaves: b.ha.master, divert: b.divertSend}
	commits := &committer{members: b.members, offsets: b.offsets, store: b.store, stand: &b.stand, now: now, steady: b.steady}
	commits.since.Store(b.began.UnixNano())
	b.onStanding(commits.moved)
	b.pulls = &pullHandler{here: b.here, live: &b.live, topics: b.topics, groups: b.groups, members: b.members, offsets: b.offsets,
		commits: commits, resets: b.offsets, store: b.store, stats: b.stats, holds: b.holds, pool: b.data, steady: b.steady, stand: &b.stand,
		peers: &b.peers, acked: b.ha.master.AckedBy, counts: newPullStats(b.live.Load().PullWindow, b.steadyMillis())}
	b.progress = &offsetHandler{live: &b.live, topics: b.topics, groups: b.groups, offsets: b.offsets, commits: commits,
		store: b.store, pool: b.data, guard: b.runPooled}
	b.clients = &clientHandler{stand: &b.stand, topics: b.topics, groups: b.groups, members: b.members, locks: b.locks, pool: b.data, steady: b.steady,
		guard: b.runPooled, announce: b.announce}
	b.queueLocks = &lockHandler{locks: b.locks}
	b.backs = &sendBackHandler{here: b.here, live: &b.live, topics: b.topics, groups: b.groups, store: b.store, stats: b.stats,
		stand: &b.stand, levels: levels, pool: b.data, guard: b.runPooled}
	b.openRoles()
	b.pulls.former = b.relay.isFormer
	q := &requests{b: b, inline: b.inlineTable(), pooled: adminHandlers(b)}
	b.server = remoting.NewServer(remoting.ServerOptions{Handler: q, IdleTimeout: b.opts.IdleTimeout, Log: b.log, Now: b.steady})
	if b.opts.Settings != nil {
		b.opts.Settings.OnChange(func(r Reloadable, changed []string) {
			b.reload(r)
			b.events.config(changed)
		})
	}
}

// reload makes changed settings act.
func (b *Broker) reload(r Reloadable) {
	old := b.live.Swap(newLive(r, b.opts.Cluster))
	if b.reg != nil && (old.Permission != r.Permission || old.ActingMaster != r.ActingMaster) {
		b.reg.Refresh() // routes carry both
	}
	b.settleHA(b.live.Load())
	if r.AutoCreateTopic && !old.AutoCreateTopic && !b.stand.Load().isSlave() {
		if err := b.topics.EnsureSystem(); err != nil {
			b.log.Error("the template of new topics could not be made; autoCreateTopicEnable has no effect until it is", "err", err)
		}
	}
	b.readsChanged(&old.Reloadable)
	b.store.SetMaxMessage(r.MaxMessage)
	b.store.SetRetention(r.Retention)
}

// arrived is told of new messages in a queue, on the path of whoever stored them.
func (b *Broker) arrived(q *store.Queue) {
	if !b.opened.Load() {
		return // recovery, before anyone can wait
	}
	if q.Topic() == topic.Schedule {
		b.delays.Arrived(int(q.ID()) + 1)
	}
	b.holds.Arrived(q)
}

func (b *Broker) topicsChanged(names []string) {
	if b.opened.Load() {
		b.events.names(eventTopic, names)
	}
	if b.reg != nil {
		b.reg.Changed(names)
	}
}

// announce waits until the nameservers know every topic changed so far, or ctx ends.
func (b *Broker) announce(ctx context.Context) {
	if b.reg != nil {
		b.reg.Settle(ctx)
	}
}

// groupsChanged wakes the held pulls of changed groups, so that they see it.
func (b *Broker) groupsChanged(names []string) {
	if !b.opened.Load() {
		return
	}
	b.events.names(eventGroup, names)
	for _, name := range names {
		b.holds.Changed(name)
	}
}

// notifyWanted says whether members of a group want to hear of changes.
func (b *Broker) notifyWanted(group string) bool {
	if !b.live.Load().NotifyIDsChanged {
		return false
	}
	g := b.groups.Get(group)
	return g == nil || g.NotifyConsumerIDsChangedEnable
}

// Close gives up a broker that never ran.
func (b *Broker) Close() error {
	return errors.Join(b.ports.close(), b.ha.listener.Close(), b.store.Close())
}

// Ready is closed when the ports are open and, if there are nameservers that
// answer, the broker is registered there.
func (b *Broker) Ready() <-chan struct{} { return b.ready }

// Status is what banner, health and the ready line show.
type Status struct {
	Addr, HAAddr            string // advertised; HA as told to nameservers
	Role                    Role
	ID                      int64
	ConfiguredID            int64  // of the configuration, which a change of roles overrides
	Master                  string // a slave's master, "" while unknown
	Recovery                store.Recovery
	Topics, Groups, Offsets int // how many the tables held at this moment
	StoreDir                string
	Live                    Reloadable
}

// Status describes the broker now.
func (b *Broker) Status() Status {
	topics, _ := b.topics.All()
	groups, _ := b.groups.All()
	s := b.stand.Load()
	return Status{Role: s.Role, ID: s.ID, ConfiguredID: b.opts.ConfiguredID, Master: s.Master, Addr: b.Addr(), HAAddr: b.ha.addr, Recovery: b.recovery, Topics: len(topics), Groups: len(groups),
		Offsets: b.countOffsets(), StoreDir: b.opts.Store.Dir, Live: b.live.Load().Reloadable}
}

// countOffsets counts the queues with stored progress.
func (b *Broker) countOffsets() int {
	n := 0
	for _, g := range b.offsets.AllGroups() {
		for _, t := range b.offsets.Topics(g) {
			n += len(b.offsets.Queues(g, t))
		}
	}
	return n
}

// Check is the health of a running broker: nil, or why it is not ready.
func (b *Broker) Check() error {
	switch {
	case b.draining.Load():
		return errors.New("the broker is shutting down")
	case !b.serving.Load():
		return errors.New("the broker does not serve yet")
	}
	if err := b.store.Writable(); err != nil {
		return fmt.Errorf("the store takes no messages: %w", err)
	}
	select {
	case <-b.ready:
		return nil
	default:
		return errors.New("the broker is not registered at its nameservers yet")
	}
}
