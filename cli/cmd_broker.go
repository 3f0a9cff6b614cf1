package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func brokerCommands() []*command {
	out := []*command{
		{
			path: "broker start", summary: "run a broker in this process", run: runBrokerStart, schema: readySchema, attrs: server | local,
			exits: []int{ExitTimeout, ExitBadConfig, ExitStoreInUse, ExitPortInUse, ExitIdentityConflict, ExitStoreDamaged},
			examples: []string{
				"mqctl broker start", "mqctl broker start -c /etc/mqctl/broker.toml --with-nameserver", "mqctl broker start -c broker.conf -n 10.0.0.4:9876 --detach",
				"mqctl broker start --set flushDiskType=SYNC_FLUSH --print-config=changed",
			},
			flags: brokerStartFlags(),
			view:  view{item: readyItem{}},
		},
		{
			path: "broker stop", summary: "stop a broker of this machine", args: "[NAME[/ID]]", max: 1, argFrom: "local", run: runBrokerStop, attrs: local | mutates,
			schema: "mqctl.broker.stop/v1", exits: []int{ExitNotFound, ExitTimeout, ExitDenied},
			examples: []string{"mqctl broker stop", "mqctl broker stop broker-a/0 --grace 1m", "mqctl broker stop --store /data/mq/broker-a --force"},
			flags: []flagSpec{
				{key: "store", meta: "DIR", complete: "file", help: "the broker that uses this store"},
				{key: "pid-file", meta: "FILE", complete: "file", help: "the broker whose pid is in this file"},
				{key: "grace", kind: kindDuration, def: "30s", meta: "DUR", help: "how long it may take to end"},
				{key: "force", kind: kindBool, help: "SIGKILL after the grace time"},
				{key: "dry-run", kind: kindBool, env: []string{"MQCTL_DRY_RUN"}, help: "say what would be stopped"},
				{key: "drain", kind: kindBool, help: "stop writes first, and wait until the slaves have everything (within --grace)"},
			},
			view: view{
				item: brokerStopItem{}, name: func(item any) string {
					it := item.(*brokerStopItem)
					return fmt.Sprintf("%s/%d", it.Broker, it.BrokerID)
				},
				columns: []column{{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "PID", field: "pid"},
					{head: "STOPPED", field: "stopped"}, {head: "TIME", field: "millis", as: asMillis}},
			},
		},
		brokerStatusCommand(), brokerListCommand(), drainCommand(), undrainCommand(),
	}
	out = append(out, cleanCommands()...)
	return append(out, brokerConfigCommands()...)
}

func brokerStartFlags() []flagSpec {
	return []flagSpec{
		{key: "config", letter: "c", meta: "FILE", complete: "file", help: "TOML, or RocketMQ's broker.conf"},
		{key: "name", meta: "NAME", help: "brokerName (default: the host's name)"},
		{key: "cluster", meta: "NAME", help: "brokerClusterName (default: DefaultCluster)"},
		{key: "id", kind: kindInt, max: 1 << 40, meta: "N", help: "brokerId: 0 for a master, 1 and above for its slaves (default: 0)"},
		{key: "role", kind: kindEnum, enum: []string{"master", "sync-master", "slave"}, help: "brokerRole"},
		{key: "namesrv", also: []string{"namesrvAddr"}, letter: "n", kind: kindList, meta: "LIST", help: "nameservers to register at"},
		{key: "with-nameserver", kind: kindOptional, bare: embeddedDefault, meta: "ADDR", help: "a nameserver in the same process (default: when none is named)"},
		{key: "no-nameserver", kind: kindBool, help: "no nameserver in this process"},
		{key: "listen", meta: "ADDR", help: "127.0.0.1:10911 when nothing is configured, else 0.0.0.0:10911"},
		{key: "advertise", meta: "IP", help: "the address that clients are told (brokerIP1)"},
		{key: "ha-listen", meta: "ADDR", help: "the replication port (default: listenPort + 1), and the address that slaves are told"},
		{key: "master", meta: "ADDR", help: "the replication port of a slave's master (default: told by the nameserver)"},
		{key: "store", meta: "DIR", complete: "file", help: "storePathRootDir (default: ~/.local/share/mqctl/NAME-ID)"},
		{key: "log", meta: "FILE", complete: "file", help: "log to this file instead of stderr"},
		{key: "http", meta: "ADDR|off", help: "health port (default: 127.0.0.1:10980)"},
		{key: "set", kind: kindList, meta: "KEY=VALUE", complete: "key", help: "any broker key; may be repeated"},
		{key: "print-config", kind: kindOptional, of: kindEnum, bare: "all", enum: []string{"all", "important", "changed"}, meta: "WHICH", help: "print the effective configuration and end"},
		{key: "check", kind: kindBool, help: "check everything short of serving and end"},
		{key: "detach", kind: kindBool, help: "start in the background; return when it is ready"},
		{key: "pid-file", meta: "FILE", complete: "file", help: "write the process id there"},
		{key: "ready-timeout", kind: kindDuration, def: "60s", meta: "DUR", help: "give up when it is not ready by then"},
	}
}

// brokerStopItem is what became of a broker that was told to stop.
type brokerStopItem struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId" min:"0"`
	Pid      int    `json:"pid"`
	Stopped  bool   `json:"stopped"`
	Millis   int64  `json:"millis"`
}

func runBrokerStop(ctx context.Context, c *call) (*result, error) {
	l, err := findLocal(c)
	if err != nil {
		return nil, err
	}
	it := &brokerStopItem{Broker: l.Broker, BrokerID: l.BrokerID, Pid: l.Pid}
	r := &result{items: []any{it}, change: &change{DryRun: c.dryRun()}}
	if c.dryRun() {
		return r, nil
	}
	if c.on("drain") {
		if err := c.drainBefore(ctx, r, l); err != nil {
			return nil, err
		}
	}
	gone := func() bool { return l.StoreDir != "" && lockHolder(lockPath(l.StoreDir)) != l.Pid }
	stopped, err := stopProcess(l.Pid, c.duration("grace"), c.on("force"), gone)
	if err != nil {
		return nil, err
	}
	it.Stopped, it.Millis, r.change.Applied = stopped, time.Since(c.begun).Milliseconds(), stopped
	if !stopped {
		r.failed(fail(ExitTimeout, "NOT_STOPPED", "pid %d still runs after %s", l.Pid, c.duration("grace")).
			try("--grace 5m", "--force"))
	}
	return r, nil
}

// findLocal finds the process to stop by a store's lock, a pid file or its
// note; it never guesses among several.
func findLocal(c *call) (localBroker, error) {
	ways := 0
	for _, given := range []bool{c.arg(0) != "", c.given("store"), c.given("pid-file")} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return localBroker{}, usage("CONTRADICTION", "broker stop takes one of NAME, --store and --pid-file")
	}
	switch {
	case c.given("store"):
		return byStore(c, c.str("store"))
	case c.given("pid-file"):
		return byPidFile(c, c.str("pid-file"))
	}
	all := localBrokers(c)
	hits := localNamed(all, c.arg(0))
	names := make([]string, len(hits))
	for i, l := range hits {
		names[i] = l.name()
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return localBroker{}, usage("TARGET_MISSING", "several brokers run here: %s", strings.Join(names, ", ")).because("nothing was stopped").
			try("mqctl broker stop " + names[0])
	case c.arg(0) == "":
		return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "no broker of this user runs here").try("mqctl broker stop --store DIR")
	}
	known := make([]string, len(all))
	for i, l := range all {
		known[i] = l.name()
	}
	return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "no broker %q of this user runs here", c.arg(0)).try(nearest(c.arg(0), known)...)
}

// localNamed are the brokers that a name means: those that have it now; if none has, the
// one that was configured with it.
func localNamed(all []localBroker, name string) (hits []localBroker) {
	for _, l := range all {
		if name == "" || name == l.Broker || name == l.name() {
			hits = append(hits, l)
		}
	}
	if hits != nil {
		return hits
	}
	for _, l := range all {
		if name == l.configuredName() {
			hits = append(hits, l)
		}
	}
	return hits
}

func byStore(c *call, dir string) (localBroker, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	pid := lockHolder(lockPath(abs))
	if pid == 0 {
		return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "no process uses the store %s", abs).because("nothing was stopped").try("mqctl broker list --local")
	}
	l := localBroker{StoreDir: abs, Pid: pid}
	var note localBroker
	if readNote(notePath(c.io.Env, abs), &note) == nil && note.Pid == pid {
		l = note
	}
	return l, nil
}

func byPidFile(c *call, name string) (localBroker, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "the pid file %s cannot be read: %s", name, plainFileError(err)).because("nothing was stopped").
			try("mqctl broker list --local", "mqctl broker stop --store DIR")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return localBroker{}, fail(ExitBadConfig, "BAD_FILE", "%s holds no process id", name)
	}
	for _, l := range localBrokers(c) {
		if l.Pid == pid {
			return l, nil
		}
	}
	if alive(pid) {
		return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "pid %d of %s is no broker that this user started", pid, name).because("the file may be an old one; nothing was stopped").
			try("mqctl broker stop --store DIR")
	}
	return localBroker{}, fail(ExitNotFound, "NOT_RUNNING", "pid %d of %s does not run any more", pid, name).because("nothing was stopped").try("mqctl broker list --local")
}
