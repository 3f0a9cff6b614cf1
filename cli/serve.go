package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/broker"
	"mqctl/broker/nameserver"
	"mqctl/store"
	tablefile "mqctl/store/table"
	"mqctl/store/vfs"
)

// serving is a broker, with its embedded nameserver and health port, in this
// process.
//
// Goroutines, all in one errgroup of run: the broker (broker.Run), the
// nameserver, which outlives the broker so that it can unregister, the health
// server, one that waits for readiness, and under mqctl dev --lag one that asks
// the master how long its log is.
type serving struct {
	c       *call
	cfg     *broker.Config
	logs    *broker.LogRing
	log     *slog.Logger
	logFile *os.File
	broker  *broker.Broker
	ns      *nameserver.Server
	nsAddr  string
	health  net.Listener
	prof    *profiles // nil: none are given away
	lag     *heldBack // only under mqctl dev --lag
	begun   time.Time
	clean   []func()
	note    localBroker   // as it was written last
	roles   chan struct{} // the broker's role changed
}

// readyItem is the line that says that a broker is ready.
type readyItem struct {
	Schema      string        `json:"schema"`
	Broker      string        `json:"broker"`
	BrokerID    int64         `json:"brokerId" min:"0"`
	Role        string        `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	Addr        string        `json:"addr"`
	HAAddr      string        `json:"haAddr"`
	Namesrv     []string      `json:"namesrv"`
	HTTPAddr    *string       `json:"httpAddr"`
	StoreDir    string        `json:"storeDir"`
	Pid         int           `json:"pid"`
	StartMillis int64         `json:"startMillis"`
	Recovery    recoveryState `json:"recovery"`
}

// recoveryState is what opening the store found.
type recoveryState struct {
	MinOffset int64 `json:"minOffset"`
	MaxOffset int64 `json:"maxOffset"`
	CutBytes  int64 `json:"cutBytes"`
	Millis    int64 `json:"millis"`
}

const readySchema = "mqctl.broker.ready/v1"

func runBrokerStart(ctx context.Context, c *call) (*result, error) {
	cfg, err := brokerConfig(c)
	if err != nil {
		return nil, err
	}
	if c.given("print-config") {
		return &result{raw: []byte{}}, printConfig(c, cfg)
	}
	if c.on("check") {
		return checkStart(c, cfg)
	}
	if c.on("detach") {
		return detach(ctx, c, cfg)
	}
	s := &serving{c: c, cfg: cfg, begun: c.begun}
	defer s.close()
	ended := whenEnded(ctx)
	if err := s.open(); err != nil {
		return nil, err
	}
	// A signal that came meanwhile ends the run as soon as it has begun.
	if err := s.run(ctx); err != nil {
		return nil, startError(c, cfg, err)
	}
	c.sayStopped(ended)
	return &result{raw: []byte{}}, nil
}

// open makes everything that can fail before the first request is served.
func (s *serving) open() error {
	if err := s.openLog(); err != nil {
		return err
	}
	o, err := s.cfg.Options()
	if err != nil {
		return badConfig(err)
	}
	o.Log, o.Logs, o.Version = s.log, s.logs, versionOf().Version
	listen, embedded := s.cfg.EmbeddedNameserver()
	if embedded {
		s.nsAddr = dialable(listen, s.cfg.Value("brokerIP1"))
		o.Namesrvs = append([]string{s.nsAddr}, o.Namesrvs...)
	}
	for _, w := range s.cfg.Warnings() {
		s.warn(&Message{Code: "CONFIG", Text: w})
	}
	if err := newStorePorts(s.cfg, o.ListenAddr, o.HAListen); err != nil {
		return startError(s.c, s.cfg, err)
	}
	if s.lag = lagFrom(s.c.io.Env); s.lag != nil {
		s.lag.dial(&o)
	}
	scan := s.scanProgress()
	o.Store.Progress = scan.report
	s.broker, err = broker.New(o)
	scan.end()
	if err != nil {
		return startError(s.c, s.cfg, err)
	}
	s.roles = make(chan struct{}, 1)
	s.broker.OnRole(func() {
		select {
		case s.roles <- struct{}{}:
		default:
		}
	})
	if embedded {
		err = s.openNameserver(listen)
	}
	if err == nil {
		err = s.openHealth()
	}
	if err != nil {
		return errors.Join(err, s.broker.Close())
	}
	s.warnOpen(o.ListenAddr)
	for _, key := range []string{"haAuthKeyFile", "http.tokenFile"} {
		s.warnKey(key)
	}
	return nil
}

// warnOpen is the one warning about a listener that the network reaches.
func (s *serving) warnOpen(addr string) {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return
	}
	m := &Message{Code: "NO_AUTHENTICATION", Text: fmt.Sprintf("%s accepts everybody who can reach it: there is no authentication yet", addr)}
	s.warn(m.try("--listen "+net.JoinHostPort("127.0.0.1", port), "a firewall"))
}

// warnKey warns of a file with a key that others of this machine can read.
func (s *serving) warnKey(key string) {
	name := s.cfg.Value(key)
	if name == "" {
		return
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
		m := &Message{Code: "KEY_READABLE", Text: fmt.Sprintf("%s %s may be read by others of this machine (mode %04o)", key, name, info.Mode().Perm())}
		s.warn(m.try("chmod 600 " + name))
	}
}

func (s *serving) warn(m *Message) {
	s.c.p.message(m, "warning")
}

func (s *serving) openLog() error {
	out := s.c.io.Err
	if name := s.cfg.Value("log.file"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return fail(ExitBadConfig, "BAD_CONFIG", "cannot write the log: %v", err)
		}
		s.logFile, out = f, f
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.cfg.Value("log.level"))); err != nil {
		level = slog.LevelInfo
	}
	if s.logFile == nil && level == slog.LevelInfo && s.cfg.Origin("log.level").Kind == "default" {
		level = slog.LevelWarn // the banner says on a terminal what info lines would
	}
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(out, o)
	if s.cfg.Value("log.format") == "json" {
		h = slog.NewJSONHandler(out, o)
	}
	s.logs = broker.NewLogRing()
	s.log = slog.New(s.logs.Tee(h))
	return nil
}

func (s *serving) openNameserver(listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return portTaken(listen, err).try("--with-nameserver=HOST:PORT", "--no-nameserver -n HOST:9876")
	}
	s.ns, err = nameserver.New(nameserver.Options{
		Listener: l, FS: vfs.OS{}, KVPath: s.cfg.Value("nameserver.embedded.kvConfigPath"),
		OrderMessageEnable:  s.cfg.Bool("nameserver.embedded.orderMessageEnable"),
		SupportActingMaster: s.cfg.Bool("nameserver.embedded.supportActingMaster"),
		ScanEvery:           s.cfg.Duration("nameserver.embedded.scanNotActiveBrokerInterval"), Log: s.log,
		RetryRouteOf: s.retryRoutes(),
	})
	if err != nil {
		return errors.Join(nameserverFailed(err), l.Close())
	}
	return nil
}

// retryRoutes is this broker's name if it makes groups by itself.
func (s *serving) retryRoutes() string {
	if !s.cfg.Bool("autoCreateSubscriptionGroup") {
		return ""
	}
	return s.cfg.Value("brokerName")
}

func (s *serving) openHealth() error {
	addr, asked := s.cfg.HTTPListen()
	l, warn, err := listenHealth(addr, asked)
	if err != nil {
		return err
	}
	if warn != nil {
		s.warn(warn)
	}
	s.health = l
	if l == nil {
		return nil
	}
	if s.prof, err = newProfiles(s.cfg, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// dialable is the address to reach a listener at from here.
func dialable(listen, advertised string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = advertised
	}
	return net.JoinHostPort(host, port)
}

// run serves until ctx ends or a part fails.
func (s *serving) run(ctx context.Context) error {
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	outer, stopOuter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOuter()
	inner, stopInner := context.WithCancel(ctx)
	defer stopInner()
	if s.ns != nil {
		g.Go(func() error { return s.ns.Run(outer) })
	}
	if s.lag != nil {
		g.Go(func() error { return s.lag.run(outer) })
	}
	if s.health != nil {
		h := &healthServer{listener: s.health, check: s.broker.Check, started: s.broker.Ready(), name: s.title, profiles: s.prof}
		g.Go(func() error { return h.serve(outer) })
	}
	g.Go(func() error {
		defer stopOuter() // the nameserver ends after the broker, which unregisters first
		return s.broker.Run(inner)
	})
	g.Go(func() error {
		defer context.AfterFunc(failed, stopInner)()
		return s.awaitReady(inner, stopInner)
	})
	return g.Wait()
}

// awaitReady announces the broker, or gives up after the ready timeout.
func (s *serving) awaitReady(ctx context.Context, stop context.CancelFunc) error {
	limit := time.NewTimer(s.c.duration("ready-timeout"))
	defer limit.Stop()
	select {
	case <-s.broker.Ready():
		if err := s.ready(); err != nil {
			stop()
			return err
		}
		s.keepNote(ctx)
		return nil
	case <-ctx.Done():
		return nil
	case <-limit.C:
		stop()
		m := fail(ExitTimeout, "NOT_READY", "the broker is not ready after %s; it was stopped", s.c.duration("ready-timeout"))
		if err := s.broker.Check(); err != nil {
			m.reason("%v", err)
		}
		return m.try("--ready-timeout 5m", "check the nameserver addresses: "+strings.Join(s.namesrvs(), ","))
	}
}

func (s *serving) namesrvs() []string {
	out := s.cfg.Namesrvs()
	if s.nsAddr != "" {
		out = append([]string{s.nsAddr}, out...)
	}
	if out == nil {
		out = []string{}
	}
	return out
}

func (s *serving) title() string {
	return fmt.Sprintf("mqctl %s broker %s/%s", versionOf().Version, s.cfg.Value("brokerName"), strconv.FormatInt(s.broker.Status().ID, 10))
}

func (s *serving) readyItem() readyItem {
	st := s.broker.Status()
	it := readyItem{
		Schema: readySchema, Broker: s.cfg.Value("brokerName"), BrokerID: st.ID, Role: st.Role.String(),
		Addr: st.Addr, HAAddr: st.HAAddr, Namesrv: s.namesrvs(), StoreDir: st.StoreDir, Pid: os.Getpid(), StartMillis: time.Since(s.begun).Milliseconds(),
		Recovery: recoveryState{MinOffset: int64(st.Recovery.Min), MaxOffset: int64(st.Recovery.Max), CutBytes: st.Recovery.CutBytes, Millis: st.Recovery.Took.Milliseconds()},
	}
	if s.health != nil {
		it.HTTPAddr = ptr(s.health.Addr().String())
	}
	return it
}

// ready leaves the note, writes the pid file, the banner and the ready line.
func (s *serving) ready() error {
	it := s.readyItem()
	abs, err := filepath.Abs(it.StoreDir)
	if err != nil {
		abs = it.StoreDir
	}
	s.note = localBroker{Broker: it.Broker, BrokerID: it.BrokerID, ConfiguredID: ptr(s.broker.Status().ConfiguredID), Role: it.Role, Addr: it.Addr,
		Namesrv: it.Namesrv, StoreDir: abs, Pid: it.Pid, StartedAt: s.begun}
	if it.HTTPAddr != nil {
		s.note.HTTPAddr = *it.HTTPAddr
	}
	if remove, err := writeNote(notePath(s.c.io.Env, abs), s.note); err != nil {
		s.log.Warn("broker stop NAME will not find this broker; broker stop --store does", "err", err)
	} else {
		s.clean = append(s.clean, remove)
	}
	if name := s.c.str("pid-file"); name != "" {
		remove, err := writePid(name)
		if err != nil {
			return err
		}
		s.clean = append(s.clean, remove)
	}
	s.banner(it)
	return tellReady(s.c, it)
}

// keepNote writes the note again after each change of roles, until ctx ends: broker
// stop NAME/ID means who has the id now.
func (s *serving) keepNote(ctx context.Context) {
	for {
		if st := s.broker.Status(); st.ID != s.note.BrokerID || st.Role.String() != s.note.Role {
			s.note.BrokerID, s.note.Role = st.ID, st.Role.String()
			if _, err := writeNote(notePath(s.c.io.Env, s.note.StoreDir), s.note); err != nil {
				s.log.Warn("broker stop NAME/ID knows this broker by its former id; broker stop --store finds it", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.roles:
		}
	}
}

// close gives up what is left.
func (s *serving) close() {
	for _, f := range s.clean {
		f()
	}
	if s.logFile != nil {
		_ = s.logFile.Close() // every line was written through already
	}
}

// startError chooses the exit code of a broker that did not start.
func startError(c *call, cfg *broker.Config, err error) error {
	var m *Message
	var locked *vfs.LockedError
	var port *broker.PortError
	var who *broker.IdentityError
	var damaged *store.DamagedError
	var conf *broker.ConfigError
	var corrupt *tablefile.CorruptError
	switch {
	case errors.As(err, &m):
		return m
	case errors.As(err, &locked):
		dir := filepath.Dir(locked.Path)
		if abs, absErr := filepath.Abs(dir); absErr == nil {
			dir = abs
		}
		m = fail(ExitStoreInUse, "STORE_IN_USE", "store %s is in use by %s", dir, storeUser(c.io.Env, dir, locked.PID)).
			try("mqctl broker status "+storeOwner(c.io.Env, dir, locked.PID, cfg.Value("brokerName")), "mqctl broker stop --store "+shellWord(dir))
	case errors.As(err, &port):
		m = portTaken(port.Addr, port.Err).try("--listen "+otherPort(port.Addr), "stop the other process")
		if m.Why != "" {
			p := cfg.Int("listenPort")
			m.Why += fmt.Sprintf("; a broker needs ports %d, %d and, for its slaves, %d", p, p-2, cfg.Int("haListenPort"))
		}
	case errors.As(err, &who):
		m = fail(ExitIdentityConflict, "IDENTITY_CONFLICT", "%s/%d is already registered from %s", who.Name, who.ID, who.Addr).
			because("two masters of one name split the queues; this process did not register").
			try("--role slave --id 1", "another --name")
		if who.ID > 0 {
			m.Try = []string{"another --id", "another --name"}
			m.reason("two brokers of one id are one replica to their master, and readers find either; this process did not register")
		}
	case errors.As(err, &damaged):
		m = fail(ExitStoreDamaged, "STORE_DAMAGED", "%s: %s", damaged.Where, damaged.What)
		if damaged.Err != nil {
			m.reason("%v", damaged.Err)
		}
		if damaged.Try != "" {
			m.offer(damaged.Try)
		}
	case errors.As(err, &corrupt):
		m = fail(ExitStoreDamaged, "CONFIG_DAMAGED", "neither generation of %s can be read", corrupt.Path).
			because("%v; its .bak: %v", corrupt.PathErr, corrupt.BakErr).
			try("put a good copy of it there", fmt.Sprintf("to start without it: mv %s %s; rm -f %s", shellWord(corrupt.Path), shellWord(corrupt.Path+".damaged"), shellWord(corrupt.Bak)))
	case errors.As(err, &conf):
		return badConfig(err)
	default:
		if m = wrongKind(err); m == nil {
			m = fail(ExitFailed, "START_FAILED", "%v", err)
		}
	}
	m.cause = err
	return m
}
