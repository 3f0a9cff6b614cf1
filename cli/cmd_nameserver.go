package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/broker/nameserver"
	"mqctl/cli/admin"
	"mqctl/store/vfs"
)

const nameserverReadySchema = "mqctl.nameserver.ready/v1"

// nameserverReady is the line that says that a nameserver serves.
type nameserverReady struct {
	Schema      string  `json:"schema"`
	Addr        string  `json:"addr"`
	HTTPAddr    *string `json:"httpAddr"`
	KVFile      *string `json:"kvFile"`
	Pid         int     `json:"pid"`
	StartMillis int64   `json:"startMillis"`
}

// nameserverItem is what one nameserver knows.
type nameserverItem struct {
	Addr         string `json:"addr"`
	State        string `json:"state" enum:"OK|UNREACHABLE"`
	Clusters     *int   `json:"clusters"`
	Brokers      *int   `json:"brokers"` // replicas
	Topics       *int   `json:"topics"`
	UptimeMillis *int64 `json:"uptimeMillis"` // null: it does not tell
}

// nameserverStop is what became of a nameserver that was told to stop.
type nameserverStop struct {
	Addr    string `json:"addr"`
	Pid     int    `json:"pid"`
	Stopped bool   `json:"stopped"`
	Millis  int64  `json:"millis"`
}

// localNameserver is the note of a running nameserver; its lock file says
// whether it is true.
type localNameserver struct {
	Addr      string    `json:"addr"`
	Pid       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
}

func nameserverCommands() []*command {
	return []*command{
		{
			path: "nameserver start", summary: "run a nameserver in this process", run: runNameserverStart, schema: nameserverReadySchema, attrs: server | local,
			exits:    []int{ExitTimeout, ExitBadConfig, ExitPortInUse},
			examples: []string{"mqctl nameserver start", "mqctl nameserver start -c namesrv.conf", "mqctl ns start --listen 0.0.0.0:9876 --kv-file /data/ns/kvConfig.json --detach"},
			flags: []flagSpec{
				{key: "config", letter: "c", meta: "FILE", complete: "file", help: "TOML, or RocketMQ's namesrv.conf; changes by nameserver config set are kept in it"},
				{key: "listen", meta: "ADDR", help: "where to listen (default: 127.0.0.1:9876; with a file, what it says, else 0.0.0.0:9876)"},
				{key: "kv-file", meta: "FILE", complete: "file", help: "keeps the key table (default: kvConfigPath of the file, else in the state folder)"},
				{key: "http", meta: "ADDR|off", def: "off", help: "health port"},
				{key: "log", meta: "FILE", complete: "file", help: "log to this file instead of stderr"},
				{key: "print-config", kind: kindOptional, of: kindEnum, bare: "all", enum: []string{"all", "important", "changed"}, meta: "WHICH", help: "print the effective configuration and end"},
				{key: "detach", kind: kindBool, help: "start in the background; return when it is ready"},
				{key: "pid-file", meta: "FILE", complete: "file", help: "write the process id there"},
			},
			view: view{item: nameserverReady{}},
		},
		{
			path: "nameserver stop", summary: "stop a nameserver of this machine", args: "[ADDR]", max: 1, run: runNameserverStop, attrs: local | mutates,
			schema: "mqctl.nameserver.stop/v1", exits: []int{ExitNotFound, ExitTimeout, ExitDenied},
			examples: []string{"mqctl nameserver stop", "mqctl ns stop 127.0.0.1:9876"},
			flags: []flagSpec{
				{key: "grace", kind: kindDuration, def: "30s", meta: "DUR", help: "how long it may take to end"},
				{key: "force", kind: kindBool, help: "SIGKILL after the grace time"},
				{key: "dry-run", kind: kindBool, env: []string{"MQCTL_DRY_RUN"}, help: "say what would be stopped"},
			},
			view: view{item: nameserverStop{}, name: func(item any) string { return item.(*nameserverStop).Addr }, columns: []column{
				{head: "NAMESERVER", field: "addr"}, {head: "PID", field: "pid"}, {head: "STOPPED", field: "stopped"}, {head: "TIME", field: "millis", as: asMillis},
			}},
		},
		{
			path: "nameserver status", summary: "what every nameserver knows", run: runNameserverStatus, schema: "mqctl.nameserver.status/v1", exits: []int{ExitPartial},
			examples: []string{"mqctl nameserver status", "mqctl ns status -n 10.0.0.4:9876,10.0.0.5:9876"},
			view: view{item: nameserverItem{}, name: func(item any) string { return item.(*nameserverItem).Addr }, columns: []column{
				{head: "NAMESERVER", field: "addr"}, {head: "STATE", field: "state"}, {head: "CLUSTERS", field: "clusters", as: asNumber},
				{head: "BROKERS", field: "brokers", as: asNumber}, {head: "TOPICS", field: "topics", as: asNumber}, {head: "UP", field: "uptimeMillis", as: asMillis},
			}},
		},
	}
}

func nameserverNote(env func(string) string, addr string) string {
	return filepath.Join(stateDir(env), "run", "nameserver-"+strings.NewReplacer(":", "_", "[", "", "]", "", "/", "_").Replace(addr)+".json")
}

// localNameservers are the nameservers of this user on this machine.
func localNameservers(env func(string) string) []localNameserver {
	notes, err := filepath.Glob(filepath.Join(stateDir(env), "run", "nameserver-*.json"))
	if err != nil {
		return nil
	}
	var out []localNameserver
	for _, path := range notes {
		var n localNameserver
		if readNote(path, &n) == nil && lockHolder(path+".lock") == n.Pid && n.Pid > 0 {
			out = append(out, n)
		}
	}
	return out
}

func runNameserverStart(ctx context.Context, c *call) (*result, error) {
	cfg, addr, err := nameserverConfig(c)
	if err != nil {
		return nil, err
	}
	if c.given("print-config") {
		return &result{raw: []byte{}}, printConfig(c, cfg)
	}
	if c.on("detach") {
		return detachNameserver(ctx, c, addr)
	}
	out := c.io.Err
	if name := c.str("log"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, fail(ExitBadConfig, "BAD_CONFIG", "cannot write the log: %v", err)
		}
		defer f.Close()
		out = f
	}
	for _, w := range cfg.Warnings() {
		c.p.message(&Message{Code: "CONFIG", Text: w}, "warning")
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, portTaken(addr, err).try("--listen HOST:PORT", "mqctl nameserver stop "+addr)
	}
	kv := cfg.Value("kvConfigPath")
	if kv == "" {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		kv = filepath.Join(stateDir(c.io.Env), "namesrv-"+port, "kvConfig.json")
	}
	ns, err := nameserver.New(nameserverOptions(cfg, l, kv, log))
	if err != nil {
		return nil, errors.Join(nameserverFailed(err), l.Close())
	}
	ended := whenEnded(ctx)
	if err := c.serveNameserver(ctx, ns, l.Addr().String(), kv); err != nil {
		return nil, err
	}
	c.sayStopped(ended)
	return &result{raw: []byte{}}, nil
}

// serveNameserver runs until ctx ends. Goroutines: the nameserver and the
// health server, in one errgroup.
func (c *call) serveNameserver(ctx context.Context, ns *nameserver.Server, addr, kv string) error {
	httpAddr := c.str("http")
	if httpAddr == "off" {
		httpAddr = ""
	}
	health, _, err := listenHealth(httpAddr, true)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	started := make(chan struct{})
	close(started)
	if health != nil {
		h := &healthServer{listener: health, check: func() error { return nil }, started: started, name: func() string { return "mqctl nameserver " + addr }}
		g.Go(func() error { return h.serve(ctx) })
	}
	g.Go(func() error { return ns.Run(ctx) })
	done, err := c.nameserverReady(addr, kv, health)
	if err != nil {
		return err
	}
	defer done()
	return g.Wait()
}

// nameserverReady leaves the note and tells that the nameserver serves.
func (c *call) nameserverReady(addr, kv string, health net.Listener) (func(), error) {
	note := nameserverNote(c.io.Env, addr)
	clean := []func(){}
	if remove, err := writeNote(note, localNameserver{Addr: addr, Pid: os.Getpid(), StartedAt: c.begun}); err == nil {
		clean = append(clean, remove)
		if lock, err := (vfs.OS{}).Lock(note + ".lock"); err == nil {
			clean = append(clean, func() { _ = lock.Close(); _ = os.Remove(note + ".lock") })
		}
	}
	if name := c.str("pid-file"); name != "" {
		remove, err := writePid(name)
		if err != nil {
			return nil, err
		}
		clean = append(clean, remove)
	}
	it := nameserverReady{Schema: nameserverReadySchema, Addr: addr, Pid: os.Getpid(), KVFile: &kv, StartMillis: time.Since(c.begun).Milliseconds()}
	if health != nil {
		it.HTTPAddr = ptr(health.Addr().String())
	}
	if c.p.format != "json" && c.p.format != "jsonl" && c.io.Env(readyEnv) == "" {
		fmt.Fprintf(c.io.Err, "mqctl %s nameserver %s   ready in %d ms   pid %d\n", versionOf().Version, addr, it.StartMillis, it.Pid)
		fmt.Fprintf(c.io.Err, "next   mqctl -n %s nameserver status\n", dialable(addr, "127.0.0.1"))
	}
	return func() {
		for _, f := range clean {
			f()
		}
	}, tellReady(c, it)
}

func detachNameserver(ctx context.Context, c *call, addr string) (*result, error) {
	name := c.str("log")
	if name == "" {
		name = strings.TrimSuffix(nameserverNote(c.io.Env, addr), ".json") + ".log"
	}
	line, err := c.launch(ctx, name)
	if err != nil {
		return nil, err
	}
	var it nameserverReady
	if err := json.Unmarshal(line, &it); err != nil {
		return nil, fail(ExitFailed, "START_FAILED", "the started process said something else than that it is ready: %q", line)
	}
	if c.p.format == "json" || c.p.format == "jsonl" {
		return &result{raw: line}, nil
	}
	fmt.Fprintf(c.io.Err, "nameserver %s is ready   pid %d   log %s\n", it.Addr, it.Pid, name)
	return &result{raw: []byte{}}, nil
}

// listensAt reports whether what listens on addr is meant by a name for it: all forms of
// every address are the same, and each address of a loopback is one of them.
func listensAt(addr, name string) bool {
	host, port, err := net.SplitHostPort(addr)
	asked, askedPort, askedErr := net.SplitHostPort(name)
	if err != nil || askedErr != nil {
		return addr == name
	}
	if port != askedPort {
		return false
	}
	every := func(h string) bool {
		ip := net.ParseIP(h)
		return h == "" || ip != nil && ip.IsUnspecified()
	}
	if every(host) {
		ip := net.ParseIP(asked)
		return every(asked) || asked == "localhost" || ip != nil && ip.IsLoopback()
	}
	ip, is := net.ParseIP(host), net.ParseIP(asked)
	return host == asked || ip != nil && (ip.Equal(is) || asked == "localhost" && ip.IsLoopback())
}

func runNameserverStop(_ context.Context, c *call) (*result, error) {
	var hits []localNameserver
	var names []string
	for _, n := range localNameservers(c.io.Env) {
		if c.arg(0) == "" || listensAt(n.Addr, c.arg(0)) {
			hits = append(hits, n)
			names = append(names, n.Addr)
		}
	}
	switch {
	case len(hits) > 1:
		return nil, usage("TARGET_MISSING", "several nameservers run here: %s", strings.Join(names, ", ")).because("nothing was stopped").try("mqctl nameserver stop " + names[0])
	case len(hits) == 0 && c.arg(0) != "":
		m := fail(ExitNotFound, "NOT_RUNNING", "no nameserver %q of this user runs here", c.arg(0))
		for _, n := range localNameservers(c.io.Env) {
			m.offer("mqctl nameserver stop " + n.Addr)
		}
		return nil, m
	case len(hits) == 0:
		return nil, fail(ExitNotFound, "NOT_RUNNING", "no nameserver of this user runs here").
			because("an embedded nameserver ends with its broker").try("mqctl broker stop")
	}
	n := hits[0]
	it := &nameserverStop{Addr: n.Addr, Pid: n.Pid}
	r := &result{items: []any{it}, change: &change{DryRun: c.dryRun()}}
	if c.dryRun() {
		return r, nil
	}
	lock := nameserverNote(c.io.Env, n.Addr) + ".lock"
	stopped, err := stopProcess(n.Pid, c.duration("grace"), c.on("force"), func() bool { return lockHolder(lock) != n.Pid })
	if err != nil {
		return nil, err
	}
	it.Stopped, it.Millis, r.change.Applied = stopped, time.Since(c.begun).Milliseconds(), stopped
	if !stopped {
		r.failed(fail(ExitTimeout, "NOT_STOPPED", "pid %d still runs after %s", n.Pid, c.duration("grace")).try("--force"))
	}
	return r, nil
}

func runNameserverStatus(ctx context.Context, c *call) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	r := &result{}
	for _, res := range admin.EachNameserver(ctx, a, func(ctx context.Context, addr string) (*nameserverItem, error) {
		view, err := a.ClusterAt(ctx, addr)
		if err != nil {
			return nil, err
		}
		topics, err := a.TopicsAt(ctx, addr)
		if err != nil {
			return nil, err
		}
		replicas := 0
		for _, g := range view.Brokers {
			replicas += len(g.Addrs)
		}
		it := &nameserverItem{Addr: addr, State: "OK", Clusters: ptr(len(view.Clusters)), Brokers: &replicas, Topics: ptr(len(topics))}
		if up, ok := a.NameserverUptime(ctx, addr, time.Now()); ok {
			it.UptimeMillis = ptr(up.Milliseconds())
		}
		return it, nil
	}) {
		if res.Err != nil {
			m := c.at(res.Err, res.Target)
			m.Code = strings.Replace(m.Code, "BROKER_", "NAMESRV_", 1)
			m.Text = strings.Replace(m.Text, "broker ", "nameserver ", 1)
			r.failed(m)
			r.add(&nameserverItem{Addr: res.Target.Addr, State: "UNREACHABLE"})
			continue
		}
		r.done++
		r.add(res.Value)
	}
	return r, nil
}
