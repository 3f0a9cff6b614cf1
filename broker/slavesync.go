package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/delay"
	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// Cadence of the exchange of tables between brokers of one name.
const (
	// followEvery is a little less than the second in which a change must be seen.
	followEvery = 900 * time.Millisecond
	// fullEvery is how often everything is exchanged, whatever the versions say.
	fullEvery = 60 * time.Second
	// discoverEvery is how often a master looks for replicas that it does not know.
	discoverEvery = time.Second
	// exchangeWait bounds one request; a whole table may take a while.
	exchangeWait = 10 * time.Second
	// memberFresh is how long a slave that asked counts as connected.
	memberFresh = 5 * time.Second
	// saveDelaysEvery is the least time between two saves of the progress of delayed
	// messages, which is read from the master again after a crash.
	saveDelaysEvery = 5 * time.Second
)

// topicStore has the queues of topics that the master deleted.
type topicStore interface {
	DeleteTopic(name string) error
	Deletions(since uint64, most int) (list []store.Deletion, last uint64)
	FollowDeletions(list []store.Deletion, cuts uint64) (waiting []store.Deletion, err error)
	Cuts() uint64
	Queues(topic string) []*store.Queue
	Units(dst []store.Unit, q *store.Queue, from record.QueueOffset, n int) []store.Unit
}

// syncOptions are the tables that are exchanged and who exchanges them.
type syncOptions struct {
	Name    string
	Cluster string
	Addr    func() string // this broker's, as told to others
	Boot    int64         // ms, when this process started
	Stand   *standingRef
	Peers   *peersRef
	Topics  *topic.Table
	Groups  *subgroup.Groups
	// Offsets, Locks and Delays are consume progress, queue leases, and the
	// progress of delayed messages.
	Offsets *subgroup.Offsets
	Locks   *subgroup.Locks
	Delays  *delay.Scheduler
	Modes   *requestModes
	Store   topicStore
	// Trust says whether replication agrees with the master: an error if it refuses
	// it, and whether it holds as much of its log as to follow deletions. Nil trusts.
	Trust func() (deletions bool, err error)
	// Dropped is told of topics that are gone, before their queues go.
	Dropped  func(names []string)
	Namesrvs []string
	// Key is the shared key of the brokers of this name, empty if there is none; Proved
	// says whether a request shows it. Both nil: there is none.
	Key    func() []byte
	Proved func(r *remoting.Request, what, who string) bool
	// Known are the brokers of this name that the registration was told of, by id.
	Known func() map[int64]string
	// Chained says whether the master may be a slave itself, from which this broker was
	// told to copy (haMasterAddress): its tables are its master's. Nil: never.
	Chained func() bool
	// Settled says whether progress here speaks of the master's messages; nil: always.
	Settled func() bool
	FS      vfs.FS
	Root    string        // of the store; private files are in <Root>/mqctl
	Wait    time.Duration // preOnlineWaitMillis
	Dial    func(ctx context.Context, addr string) (net.Conn, error)
	Now     func() time.Time // dates versions and deletions; nil: time.Now
	Steady  func() time.Time // what lasts; nil: time.Now
	Log     *slog.Logger
}

// slaveSync keeps the tables of the brokers of one name equal: topics, groups,
// progress of consumers and of delayed messages, queue leases, request modes.
//
// A slave asks its master, about once a second: a master of ours by MQCTL_PROGRESS,
// which carries what changed on both sides since the last time; one of Apache's by
// the requests of Apache's slaves, see slavesync_java.go. A master answers, and
// before it opens its port it reconciles with the members it knew (reconcile).
type slaveSync struct {
	o       syncOptions
	net     *remoting.Client
	members *memberList
	foreign foreignSlaves // Apache's
	// instance names this run: versions of progress count from its start.
	instance string
	poke     chan struct{}

	exchange    sync.Mutex    // held for one round: Run's, or of whoever wants it now
	master      *masterState  // whom the rounds follow; guarded by exchange
	delaysSaved time.Time     // guarded by exchange
	changing    atomic.Uint64 // rounds that brought something, for tests and logs

	mu      sync.Mutex // guards what follows, for moments
	lastOK  time.Time  // of the last exchange with the master that worked
	lastErr error      // why the newest one did not; nil if it did
}

// newSlaveSync makes the exchange of one broker; Run works while ctx lives.
func newSlaveSync(o syncOptions) (*slaveSync, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Steady == nil {
		o.Steady = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("component", "slavesync")
	if o.Wait <= 0 {
		o.Wait = 10 * time.Second
	}
	dir := filepath.Join(o.Root, "mqctl")
	members, err := loadMembers(o.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("reading the known replicas: %w", err)
	}
	kept, err := loadDelivered(o.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("reading what slaves have seen of resets: %w", err)
	}
	warnOlder(o.Log, members.file.UsedBak(), kept.file.UsedBak())
	s := &slaveSync{o: o, members: members, poke: make(chan struct{}, 1),
		instance: rand.Text()}
	s.foreign.kept = kept
	s.net = remoting.NewClient(remoting.ClientOptions{Dial: o.Dial, Log: o.Log, Serialize: remoting.JSON})
	return s, nil
}

// Run follows the master while the broker is a slave, and looks for replicas
// while it is the master, until ctx ends.
func (s *slaveSync) Run(ctx context.Context) error {
	defer s.net.Close()
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	var discovered time.Time
	for {
		if s.o.Stand.Load().isSlave() {
			_ = s.round(ctx) // noted and logged there
		} else if now := s.o.Steady(); now.Sub(discovered) >= discoverEvery {
			discovered = now
			s.discover()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-s.poke:
		}
	}
}

// Poke lets the next round begin at once: the role or the master changed.
func (s *slaveSync) Poke() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// errNoMaster is why nothing was exchanged.
var errNoMaster = errors.New("the master's address is not known yet")

// errNotSlave is why nothing was exchanged.
var errNotSlave = errors.New("this broker follows no master")

// errUnsettled is why nothing was exchanged with a former master.
var errUnsettled = errors.New("the log is not compared with the new master's yet: progress may speak of messages that only this broker has")

// ExchangeNow makes one round with the master and returns what went wrong: after
// success both sides hold the same progress. Changes of roles call it.
func (s *slaveSync) ExchangeNow(ctx context.Context) error { return s.round(ctx) }

// round exchanges with the master once.
func (s *slaveSync) round(ctx context.Context) error {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	st := s.o.Stand.Load()
	err := errNotSlave
	if st.isSlave() && s.o.Settled != nil && !s.o.Settled() {
		return errUnsettled
	}
	if st.isSlave() {
		err = s.follow(ctx, st.Master)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	before := s.lastErr
	s.lastErr = err
	if err == nil {
		s.lastOK = s.o.Steady()
	}
	s.mu.Unlock()
	switch {
	case err == nil && before != nil:
		s.o.Log.Info("the tables follow the master", "master", s.master.addr, "ours", s.master.ours)
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.o.Log.Warn("the tables do not follow the master, trying again", "err", err)
	}
	return err
}

// follow exchanges with the master at addr; "" is the last one known.
func (s *slaveSync) follow(ctx context.Context, addr string) error {
	if addr == "" && s.master != nil {
		addr = s.master.addr
	}
	if addr == "" {
		return errNoMaster
	}
	if addr == s.o.Addr() {
		return fmt.Errorf("the master's address %s is this broker's own", addr)
	}
	if s.master == nil || s.master.addr != addr {
		s.master = &masterState{addr: addr}
	}
	m := s.master
	m.deletions = true
	if s.o.Trust != nil {
		var err error
		if m.deletions, err = s.o.Trust(); err != nil {
			return fmt.Errorf("nothing is taken from %s: %w", addr, err)
		}
	}
	if !m.known {
		if err := s.identify(ctx, m); err != nil {
			return err
		}
	}
	if m.ours {
		return s.followOurs(ctx, m)
	}
	return s.followJava(ctx, m)
}

// MetadataAge is how long ago the last exchange with the master succeeded, in
// ms (-1: none yet), and why the newest attempt failed, "" if it did not.
func (s *slaveSync) MetadataAge() (ageMillis int64, lastError string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil {
		lastError = s.lastErr.Error()
	}
	if s.lastOK.IsZero() {
		return -1, lastError
	}
	return max(0, s.o.Steady().Sub(s.lastOK).Milliseconds()), lastError
}

// call asks another broker and wants code 0.
func (s *slaveSync) call(ctx context.Context, addr string, code int, h remoting.ExtEncoder, body []byte) (*remoting.Response, error) {
	return s.callFor(ctx, exchangeWait, addr, code, h, body)
}

func (s *slaveSync) callFor(ctx context.Context, d time.Duration, addr string, code int, h remoting.ExtEncoder, body []byte) (*remoting.Response, error) {
	one, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	resp, err := s.net.Call(one, addr, code, h, body)
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", remoting.RequestName(code), addr, err)
	}
	return resp, nil
}
