package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/broker/nameserver"
	"mqctl/cli/admin"
	"mqctl/store/vfs"
)

const devSchema = "mqctl.dev.ready/v1"

// devReady is the line that says that a throw-away cluster is ready.
type devReady struct {
	Schema      string      `json:"schema"`
	Namesrv     string      `json:"namesrv"`
	Dir         string      `json:"dir"`
	Kept        bool        `json:"kept"` // the folder stays when it ends
	LagBytes    *int64      `json:"lagBytes"`
	Brokers     []devMember `json:"brokers"`
	StartMillis int64       `json:"startMillis"`
}

// devMember is one broker of it.
type devMember struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId" min:"0"`
	Role     string `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	Addr     string `json:"addr"`
	HAAddr   string `json:"haAddr"`
	StoreDir string `json:"storeDir"`
	Pid      int    `json:"pid"`
}

func devCommands() []*command {
	return []*command{{
		path: "dev", summary: "a throw-away cluster: nameserver, master and slaves in one command", run: runDev, schema: devSchema, attrs: server | local,
		exits: []int{ExitTimeout, ExitBadConfig, ExitPortInUse},
		examples: []string{
			"mqctl dev", "mqctl dev --slaves 2 --keep=/tmp/mq", "mqctl dev --lag 64MiB", "mqctl dev --kill-slave-every 30s --no-shell",
		},
		flags: []flagSpec{
			{key: "slaves", kind: kindInt, max: 16, def: "1", meta: "N", help: "how many slaves"},
			{key: "keep", kind: kindOptional, bare: keepHere, meta: "DIR", complete: "file", help: "keep the data, in this folder; the next start goes on with it"},
			{key: "lag", meta: "SIZE", help: "hold the slaves this far behind their master"},
			{key: "kill-slave-every", kind: kindDuration, meta: "DUR", help: "kill a slave (SIGKILL) that often, and start it again"},
			{key: "no-shell", kind: kindBool, help: "wait for Ctrl-C instead of opening the shell on a terminal"},
		},
		view: view{item: devReady{}},
	}}
}

// keepHere stands for --keep without a folder.
const keepHere = "temporary"

// devName is the name of the brokers.
const devName = "broker-a"

// devCluster is a nameserver in this process and brokers in processes of their
// own, so that a rehearsal may kill them.
//
// Goroutines, all in one errgroup of run: the nameserver, one for each broker
// process that waits for its end, and the one that kills slaves.
type devCluster struct {
	c       *call
	dir     string
	kept    bool
	lag     int64
	ns      *nameserver.Server
	nsAddr  string
	members []*devBroker // the master first
	group   *errgroup.Group
	ended   chan *devProcess

	portMu   sync.Mutex
	nextPort int // where a free one is looked for
}

// devBroker is one broker; only the goroutine that starts it changes it.
type devBroker struct {
	id    int64
	port  int
	ready readyItem
	proc  *devProcess // nil: never started
}

// devProcess is one process of a broker.
type devProcess struct {
	id     int64
	cmd    *exec.Cmd
	gone   chan struct{} // closed when it has ended
	err    error         // how, to be read once it is gone
	killed atomic.Bool   // by us: nothing to tell
}

func runDev(ctx context.Context, c *call) (*result, error) {
	d := &devCluster{c: c, ended: make(chan *devProcess, 64)}
	if err := d.settings(); err != nil {
		return nil, err
	}
	if err := d.folder(); err != nil {
		return nil, err
	}
	ended := whenEnded(ctx)
	err := d.run(ctx)
	if !d.kept {
		if rmErr := os.RemoveAll(d.dir); rmErr != nil && err == nil {
			err = fail(ExitFailed, "NOT_REMOVED", "the folder %s could not be removed: %v", d.dir, rmErr)
		}
	}
	if err != nil {
		return nil, err
	}
	c.sayStopped(ended)
	return &result{raw: []byte{}}, nil
}

// settings reads the flags.
func (d *devCluster) settings() error {
	switch d.c.p.format {
	case "table", "json", "jsonl":
	default:
		return usage("BAD_VALUE", "dev says only that it is ready: --output %s shows nothing of it", d.c.p.format).try("--output json")
	}
	if d.c.given("lag") {
		n, err := parseSize(d.c.str("lag"))
		if err != nil || n == 0 {
			return usage("BAD_VALUE", "--lag: %q is not a size", d.c.str("lag")).because("a number of bytes above 0 is expected, with or without a unit").try("--lag 64MiB")
		}
		d.lag = n
	}
	slaves := d.c.whole("slaves")
	for _, key := range []string{"lag", "kill-slave-every"} {
		if d.c.given(key) && slaves == 0 {
			return usage("CONTRADICTION", "--%s is about slaves, and --slaves 0 makes none", key)
		}
	}
	if d.c.given("kill-slave-every") && d.c.duration("kill-slave-every") < time.Second {
		return usage("BAD_VALUE", "--kill-slave-every: a slave needs a second to live").try("--kill-slave-every 30s")
	}
	d.kept = d.c.given("keep")
	return nil
}

// folder makes the folder of all data.
func (d *devCluster) folder() error {
	name := d.c.str("keep")
	var err error
	if d.kept && name != keepHere {
		if d.dir, err = filepath.Abs(name); err == nil {
			err = os.MkdirAll(d.dir, 0o700)
		}
	} else {
		d.dir, err = os.MkdirTemp("", "mqctl-dev-")
	}
	if err != nil {
		return fail(ExitBadConfig, "BAD_FOLDER", "cannot make the folder for the data: %v", err)
	}
	return nil
}

// run starts everything, tells that it is ready and waits for ctx to end. Then
// it stops the slaves, the master and the nameserver, in this order.
func (d *devCluster) run(ctx context.Context) error {
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	d.group = g
	outer, stopNS := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNS()
	if err := d.openNameserver(); err != nil {
		return err
	}
	g.Go(func() error { return d.ns.Run(outer) })
	serve, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(failed, stop)()
	err := d.startAll(serve)
	if err == nil {
		if err = d.tell(); err == nil {
			err = d.use(serve, stop)
		}
	}
	d.stopAll()
	stopNS()
	if groupErr := g.Wait(); err == nil {
		err = groupErr
	}
	if _, byUser := interruption(ctx); byUser && err != nil && ctx.Err() != nil {
		return nil // an interrupt while it starts ends the start
	}
	return err
}

// openNameserver listens at the usual port, or at any that is free.
func (d *devCluster) openNameserver() error {
	l, err := net.Listen("tcp", "127.0.0.1:9876")
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return portTaken("127.0.0.1:0", err)
		}
	}
	d.nsAddr = l.Addr().String()
	logFile, err := os.OpenFile(filepath.Join(d.dir, "nameserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return errors.Join(fail(ExitBadConfig, "BAD_FOLDER", "cannot write the log: %v", err), l.Close())
	}
	log := slog.New(slog.NewTextHandler(logFile, &slog.HandlerOptions{Level: slog.LevelInfo}))
	d.ns, err = nameserver.New(nameserver.Options{Listener: l, FS: vfs.OS{}, KVPath: filepath.Join(d.dir, "namesrv", "kvConfig.json"),
		SupportActingMaster: true, Log: log, RetryRouteOf: devName})
	if err != nil {
		return errors.Join(nameserverFailed(err), l.Close())
	}
	return nil
}

// startAll starts the master, then the slaves side by side, and waits until
// they follow it.
func (d *devCluster) startAll(ctx context.Context) error {
	for id := range d.c.whole("slaves") + 1 {
		d.members = append(d.members, &devBroker{id: id})
	}
	if err := d.place(ctx, d.members[0]); err != nil {
		return err
	}
	errs := make(chan error, len(d.members))
	for _, b := range d.members[1:] {
		d.group.Go(func() error {
			errs <- d.place(ctx, b)
			return nil
		})
	}
	var first error
	for range d.members[1:] {
		if err := <-errs; first == nil {
			first = err
		}
	}
	if first != nil || d.lag > 0 || len(d.members) == 1 {
		return first
	}
	d.awaitConnected(ctx)
	return nil
}

// place starts a broker at the first free ports: the usual ones if nobody has them, and
// others if somebody, like another such cluster, takes them meanwhile.
func (d *devCluster) place(ctx context.Context, b *devBroker) error {
	for {
		if err := d.choosePort(b); err != nil {
			return err
		}
		err := d.start(ctx, b)
		var m *Message
		if !errors.As(err, &m) || m.ExitCode != ExitPortInUse || ctx.Err() != nil {
			return err
		}
	}
}

// choosePort gives a broker ports that are free and that none of the cluster was given.
func (d *devCluster) choosePort(b *devBroker) error {
	d.portMu.Lock()
	defer d.portMu.Unlock()
	for d.nextPort = max(d.nextPort, 10911); d.nextPort < 65000; d.nextPort += 10 {
		if freeBlock(d.nextPort) {
			b.port = d.nextPort
			d.nextPort += 10
			return nil
		}
	}
	return fail(ExitPortInUse, "PORT_IN_USE", "there are no free ports for %d brokers", len(d.members))
}

// freeBlock reports whether a broker may listen at port: it needs the fast port
// two below and the replication port one above.
func freeBlock(port int) bool {
	for _, p := range []int{port - 2, port, port + 1} {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// start runs the process of one broker and waits for its ready line.
func (d *devCluster) start(ctx context.Context, b *devBroker) error {
	name := fmt.Sprintf("%s-%d", devName, b.id)
	role := "slave"
	if b.id == 0 {
		role = "master"
	}
	o := spawning{
		args: []string{
			"broker", "start", "--name=" + devName, "--id=" + strconv.FormatInt(b.id, 10), "--role=" + role, "--cluster=dev", "--namesrv=" + d.nsAddr,
			"--no-nameserver", "--listen=127.0.0.1:" + strconv.Itoa(b.port), "--advertise=127.0.0.1", "--http=off", "--store=" + filepath.Join(d.dir, name),
			"--set=slaveReadEnable=true", "--set=brokerIP2=127.0.0.1",
		},
		logName: filepath.Join(d.dir, name+".log"), attr: devAttr(),
	}
	if b.id > 0 && d.lag > 0 {
		m := d.members[0].ready
		o.env = []string{fmt.Sprintf("%s=%d %s %s", lagEnv, d.lag, m.Addr, m.HAAddr)}
	}
	line, cmd, err := d.c.spawn(ctx, o)
	if err != nil {
		return err
	}
	p := &devProcess{id: b.id, cmd: cmd, gone: make(chan struct{})}
	b.proc = p
	d.group.Go(func() error {
		p.err = cmd.Wait()
		close(p.gone)
		select {
		case d.ended <- p:
		default: // nobody looks any more
		}
		return nil
	})
	if err := json.Unmarshal(line, &b.ready); err != nil {
		return fail(ExitFailed, "START_FAILED", "the started process said something else than that it is ready: %q", line)
	}
	return nil
}

// awaitConnected waits a moment until the master has every slave's connection;
// the cluster works without, so it is no failure.
func (d *devCluster) awaitConnected(ctx context.Context) {
	a := admin.New(admin.Options{Nameservers: []string{d.nsAddr}, Timeout: time.Second})
	defer a.Close()
	_, _ = until(ctx, 3*time.Second, func(ctx context.Context) (bool, error) {
		ha, err := a.HAStatus(ctx, d.members[0].ready.Addr)
		return err == nil && len(ha.Peers) >= len(d.members)-1, err
	})
}

// tell says that everything is ready.
func (d *devCluster) tell() error {
	it := devReady{Schema: devSchema, Namesrv: d.nsAddr, Dir: d.dir, Kept: d.kept, StartMillis: time.Since(d.c.begun).Milliseconds()}
	if d.lag > 0 {
		it.LagBytes = &d.lag
	}
	for _, b := range d.members {
		r := b.ready
		it.Brokers = append(it.Brokers, devMember{r.Broker, r.BrokerID, r.Role, r.Addr, r.HAAddr, r.StoreDir, r.Pid})
	}
	if d.c.p.format != "table" {
		return tellReady(d.c, it)
	}
	w := d.c.io.Err
	fmt.Fprintf(w, "%s\n\n  %-12s %s   pid %d\n", d.c.p.errStyle.bold("mqctl "+versionOf().Version+" dev cluster"), "nameserver", d.nsAddr, os.Getpid())
	for _, m := range it.Brokers {
		fmt.Fprintf(w, "  %-12s %s   %-12s pid %d\n", nameID(m.Broker, m.BrokerID), m.Addr, m.Role, m.Pid)
	}
	stays := "removed at the end"
	if d.kept {
		stays = "kept"
	}
	fmt.Fprintf(w, "  %-12s %s   %s\n", "folder", d.dir, stays)
	if d.lag > 0 {
		fmt.Fprintf(w, "  %-12s slaves stay %s behind\n", "lag", d.c.str("lag"))
	}
	next := fmt.Sprintf("mqctl -n %s stats ha   or   Ctrl-C, which stops everything", d.nsAddr)
	if d.opensShell() {
		next = "stats ha   or   top   or   Ctrl-D, which stops everything"
	}
	fmt.Fprintf(w, "\nready in %s\nnext   %s\n", readyText(it.StartMillis), next)
	return nil
}

// opensShell reports whether somebody can use a shell here.
func (d *devCluster) opensShell() bool {
	return !d.c.on("no-shell") && d.c.p.format == "table" && onTerminal(d.c.io)
}

// use opens the shell, at whose end everything stops, or waits for Ctrl-C.
func (d *devCluster) use(ctx context.Context, stop context.CancelFunc) error {
	if !d.opensShell() {
		return d.wait(ctx)
	}
	d.group.Go(func() error { return d.wait(ctx) })
	defer stop()
	_, err := d.c.shell(ctx, d.nsAddr)
	return err
}

// wait keeps the cluster until ctx ends, kills slaves if that was asked for, and
// tells of processes that end by themselves.
func (d *devCluster) wait(ctx context.Context) error {
	var kill <-chan time.Time
	if every := d.c.duration("kill-slave-every"); every > 0 {
		tick := time.NewTicker(every)
		defer tick.Stop()
		kill = tick.C
	}
	next := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-d.ended:
			if !p.killed.Load() {
				d.say("%s has ended: %s   again: mqctl %s", nameID(devName, p.id), endText(p.err), strings.Join(p.cmd.Args[1:], " "))
			}
		case <-kill:
			b := d.members[1+next%(len(d.members)-1)]
			next++
			if err := d.killAndStart(ctx, b); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// killAndStart ends a slave without a warning and starts it again after a
// while, as after a crash of its machine.
func (d *devCluster) killAndStart(ctx context.Context, b *devBroker) error {
	select {
	case <-b.proc.gone: // somebody else has ended it
	default:
		b.proc.killed.Store(true)
		d.say("%s is killed", nameID(devName, b.id))
		if err := b.proc.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fail(ExitFailed, "NOT_KILLED", "%s cannot be killed: %v", nameID(devName, b.id), err)
		}
		<-b.proc.gone
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(min(10*time.Second, d.c.duration("kill-slave-every")/3)):
	}
	if err := d.start(ctx, b); err != nil {
		return err
	}
	d.say("%s is ready again   pid %d", nameID(devName, b.id), b.ready.Pid)
	return nil
}

// say writes one line with the time.
func (d *devCluster) say(format string, args ...any) {
	fmt.Fprintf(d.c.io.Err, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func endText(err error) string {
	if err == nil {
		return "it was stopped"
	}
	return err.Error()
}

// devGrace is how long a broker may take to stop.
const devGrace = 10 * time.Second

// stopAll ends the slaves, then the master.
func (d *devCluster) stopAll() {
	for _, phase := range [][]*devBroker{d.members[min(1, len(d.members)):], d.members[:min(1, len(d.members))]} {
		for _, b := range phase {
			if b.proc != nil {
				_ = b.proc.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs none
			}
		}
		end := time.NewTimer(devGrace)
		for _, b := range phase {
			if b.proc == nil {
				continue
			}
			select {
			case <-b.proc.gone:
			case <-end.C:
				_ = b.proc.cmd.Process.Kill() // the last word
				<-b.proc.gone
			}
		}
		end.Stop()
	}
}
