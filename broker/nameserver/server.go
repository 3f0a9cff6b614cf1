package nameserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/broker/remoting"
	"mqctl/store/vfs"
)

// Options of a Server.
type Options struct {
	Listener net.Listener // accepted on by Run
	FS       vfs.FS
	KVPath   string // kvConfig.json; "" keeps the key table in memory
	// OrderMessageEnable adds the queue lists of ordered topics to routes.
	OrderMessageEnable bool
	// DeleteTopicWithBrokerRegistration takes a broker out of the topics that
	// its whole table no longer has; otherwise they stay until deleted (216).
	DeleteTopicWithBrokerRegistration bool
	// SupportActingMaster shows the lowest slave of a name without a master as
	// id 0 where its topics are not writable.
	SupportActingMaster bool
	// NotifyMinBrokerIDChanged tells a name's brokers when its lowest id changes (905).
	NotifyMinBrokerIDChanged bool
	// RetryRouteOf is the name of the broker in the same process, if there is one
	// that makes groups by itself: retry topics nobody has registered yet are routed to it.
	RetryRouteOf string
	// NoTopicLists refuses lists of topics (224, 304, 311 to 313), NoAllTopics the one of all (206).
	NoTopicLists, NoAllTopics bool
	// Save keeps settings that were changed (318); nil: they last until the end.
	// Called for one change at a time.
	Save      func(values map[string]string) error
	ScanEvery time.Duration // for silent brokers [5 s]
	Now       func() time.Time
	// Dial connects to brokers for 905; nil is the network.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	Log  *slog.Logger
}

// Server is one nameserver.
type Server struct {
	o      Options
	log    *slog.Logger
	routes *Routes
	kv     *kvTable
	net    *remoting.Server

	switches switches
	// notices waits for the messenger; a notice that finds it full is dropped,
	// since brokers also ask for their group every second.
	notices chan change
	// ending is set when Run ends: brokers are not lost because we close their connections.
	ending atomic.Bool

	boot   time.Time
	saving sync.Mutex // of Options.Save
}

// New reads the key table; it serves nothing yet.
func New(o Options) (*Server, error) {
	if o.Listener == nil {
		return nil, errors.New("nameserver: a listener is needed")
	}
	if o.ScanEvery <= 0 {
		o.ScanEvery = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil && o.KVPath != "" {
		return nil, errors.New("nameserver: a file system is needed for " + o.KVPath)
	}
	log := o.Log.With("component", "nameserver")
	kv, err := loadKV(o.FS, o.KVPath, log)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: log, kv: kv, notices: make(chan change, 256), boot: o.Now()}
	s.switches.orderMessages.Store(o.OrderMessageEnable)
	s.switches.actingMaster.Store(o.SupportActingMaster)
	s.switches.deleteVanished.Store(o.DeleteTopicWithBrokerRegistration)
	s.switches.topicLists.Store(!o.NoTopicLists)
	s.switches.allTopics.Store(!o.NoAllTopics)
	s.routes = newRoutes(s.switches.deleteVanished.Load)
	s.net = remoting.NewServer(remoting.ServerOptions{Handler: s, Log: log, Now: o.Now})
	return s, nil
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) (err error) {
	defer func() {
		s.ending.Store(true)
		s.net.Close()
		err = errors.Join(err, s.kv.close())
	}()
	// The writer of the key table outlives the connections, so that what they
	// handed over before the end is saved and answered.
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer stopWriting()
		return s.net.Serve(ctx, s.o.Listener)
	})
	g.Go(func() error { return s.scan(ctx) })
	g.Go(func() error { return s.kv.run(writing) })
	if s.o.NotifyMinBrokerIDChanged {
		g.Go(func() error { return s.tell(ctx) })
	}
	return g.Wait()
}

// scan forgets silent brokers.
func (s *Server) scan(ctx context.Context) error {
	tick := time.NewTicker(s.o.ScanEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.expire()
		}
	}
}

func (s *Server) expire() {
	lost, changes := s.routes.Expire(s.o.Now())
	for _, l := range lost {
		s.log.Warn("broker lost: it was silent for too long", "broker", l.Name, "id", l.ID, "addr", l.Addr, "silent", l.Silent)
		if l.conn != nil {
			l.conn.Close()
		}
	}
	s.notify(changes)
}

// brokerConn marks the connection of a broker: the only ones whose end matters.
type brokerConn struct{}

// Closed forgets the brokers that registered last over this connection.
func (s *Server) Closed(c *remoting.Conn) {
	if c.Session == nil || s.ending.Load() {
		return
	}
	gone, changes := s.routes.ConnClosed(c)
	for _, name := range gone {
		s.log.Warn("broker lost: its connection was closed", "broker", name, "peer", c.RemoteAddr())
	}
	s.notify(changes)
}

// BurstEnd has nothing to do: every request is complete in itself.
func (s *Server) BurstEnd(*remoting.Conn) {}

// ServeRequest answers one request.
func (s *Server) ServeRequest(c *remoting.Conn, r *remoting.Request) {
	switch r.Code {
	case remoting.ReqGetRouteInfoByTopic:
		s.route(r)
	case remoting.ReqRegisterBroker:
		s.register(c, r)
	case remoting.ReqUnregisterBroker:
		s.unregister(r)
	case remoting.ReqQueryDataVersion:
		s.dataVersion(r)
	case remoting.ReqBrokerHeartbeat:
		s.heartbeat(r)
	case remoting.ReqGetBrokerMemberGroup:
		s.members(r)
	case remoting.ReqGetBrokerClusterInfo:
		s.cluster(r)
	case remoting.ReqRegisterTopicInNamesrv:
		s.registerTopic(r)
	case remoting.ReqDeleteTopicInNamesrv:
		s.deleteTopic(r)
	case remoting.ReqWipeWritePermOfBroker:
		s.wipeWritePerm(r)
	case remoting.ReqAddWritePermOfBroker:
		s.addWritePerm(r)
	case remoting.ReqGetAllTopicListFromNameserver, remoting.ReqGetTopicsByCluster, remoting.ReqGetSystemTopicListFromNS,
		remoting.ReqGetUnitTopicList, remoting.ReqGetHasUnitSubTopicList, remoting.ReqGetHasUnitSubUnunitTopicList:
		s.lists(r)
	case remoting.ReqPutKVConfig:
		s.putKV(r)
	case remoting.ReqDeleteKVConfig:
		s.deleteKV(r)
	case remoting.ReqGetKVConfig:
		s.value(r)
	case remoting.ReqGetKVListByNamespace:
		s.namespace(r)
	case remoting.ReqGetNamesrvConfig:
		s.settings(r)
	case remoting.ReqUpdateNamesrvConfig:
		s.changeSettings(r)
	default:
		r.Reply(remoting.CodeRequestCodeNotSupported, " request type "+strconv.Itoa(r.Code)+" not supported", nil, nil)
	}
}
