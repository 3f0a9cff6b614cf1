package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/cli/admin"
)

// cookbook is what the snippets of "mqctl cheat" run in: a nameserver and two
// pairs of brokers, each in a process of its own and with a home of its own, as
// on machines of their own. $PATH has mqctl, an ssh that enters such a home, a
// systemctl that starts its broker, and a sleep that lets the test do something
// meanwhile.
type cookbook struct {
	t    *testing.T
	dir  string
	ns   string
	port map[string]int // by host
}

// hosts are the machines of the two pairs; the config file of each is named so.
var cookbookHosts = []string{"broker-a-master", "broker-a-slave", "broker-b-master", "broker-b-slave"}

const (
	cookSSH = `#!/bin/sh
set -eu
cd "$COOKBOOK/$1"
export HOME=$PWD XDG_STATE_HOME=$PWD/state
unset MQCTL_CONTEXT MQCTL_YES
shift
exec sh -c "$*"
`
	cookSystemctl = `#!/bin/sh
test "$1" = start
exec mqctl broker start -c broker.conf --detach --http "$(cat http)"
`
	cookSleep = `#!/bin/sh
: > "$COOKBOOK/asleep"
while test ! -e "$COOKBOOK/awake"; do /bin/sleep 0.1; done
`
)

func newCookbook(t *testing.T) *cookbook {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("starts brokers, one command after another: without the race detector, and not with -short")
	}
	for _, tool := range []string{"bash", "jq", "awk"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the snippets cannot run", tool)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &cookbook{t: t, dir: t.TempDir(), port: map[string]int{}}
	b.write("bin/ssh", cookSSH)
	b.write("bin/systemctl", cookSystemctl)
	b.write("bin/sleep", cookSleep)
	if err := os.Symlink(self, filepath.Join(b.dir, "bin", "mqctl")); err != nil {
		t.Fatal(err)
	}
	b.ns = fmt.Sprintf("127.0.0.1:%d", b.newPort())
	b.write(".config/mqctl/config.toml", "[context.prod]\nnamesrv = [\""+b.ns+"\"]\ncluster = \"DefaultCluster\"\n")
	t.Cleanup(func() {
		stopAll(filepath.Join(b.dir, "state", "mqctl", "run"))
		for _, host := range cookbookHosts {
			stopAll(filepath.Join(b.dir, host, "state", "mqctl", "run"))
		}
	})
	return b
}

// newPort is a port with free neighbours.
func (b *cookbook) newPort() int {
	b.t.Helper()
	port, err := freePorts()
	if err != nil {
		b.t.Fatal(err)
	}
	return port
}

// write makes a file below the world's folder; programs may be run.
func (b *cookbook) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // some of them are programs
		b.t.Fatal(err)
	}
}

// pairs starts the nameserver and the four brokers, from properties files as the
// original has them.
func (b *cookbook) pairs() {
	b.t.Helper()
	b.bash("mqctl nameserver start --listen "+b.ns+" --detach", ExitOK)
	for i, host := range cookbookHosts {
		port, role := b.newPort(), "ASYNC_MASTER"
		b.port[host] = port
		if i%2 == 1 {
			role = "SLAVE"
		}
		file := fmt.Sprintf(`# %s
brokerClusterName = DefaultCluster
brokerName = %s
brokerId = %d
brokerRole = %s
brokerIP1 = 127.0.0.1
bindAddress = 127.0.0.1
listenPort = %d
namesrvAddr = %s
storePathRootDir = %s
mappedFileSizeCommitLog = 67108864
memoryLimitForRatio = 1048576
diskMaxUsedSpaceRatio = 99
`, host, host[:8], i%2, role, port, b.ns, filepath.Join(b.dir, host, "store"))
		b.write(host+"/broker.conf", file)
		b.write(host+"/http", "off")
		if i == 0 {
			b.write(host+"/http", fmt.Sprintf("127.0.0.1:%d", b.newPort())) // profiles come from there
		}
		b.write("etc/"+strings.TrimSuffix(host, "-master")+".conf", file)
		b.bash("ssh "+host+" systemctl start mqctl", ExitOK)
	}
	b.bash("mqctl wait ha --broker broker-a --max-gap 0 --for 1m; mqctl wait ha --broker broker-b --max-gap 0 --for 1m", ExitOK)
}

// run runs a snippet, with the addresses and the folder that are written in it
// replaced by those of this world.
func (b *cookbook) run(name string, want int) string {
	b.t.Helper()
	return b.bash(b.snippet(name), want)
}

func (b *cookbook) snippet(name string) string {
	b.t.Helper()
	for i := range cheats {
		if s := &cheats[i]; s.name == name {
			return strings.NewReplacer("127.0.0.1:9876", b.ns, "10.0.0.4:9876", b.ns, "/etc/rocketmq", filepath.Join(b.dir, "etc")).Replace(s.text)
		}
	}
	b.t.Fatalf("there is no snippet %s", name)
	return ""
}

// undo runs the line of a snippet that is commented out: the way back.
func (b *cookbook) undo(name string, want int) {
	b.t.Helper()
	for i := range cheats {
		for line := range strings.Lines(cheats[i].text) {
			if text, ok := strings.CutPrefix(line, "# "); ok && cheats[i].name == name {
				b.bash(text, want)
				return
			}
		}
	}
	b.t.Fatalf("snippet %s has no way back", name)
}

// bash runs a text as a script of an operator and returns its stdout.
func (b *cookbook) bash(text string, want int) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+text)
	cmd.Dir = b.dir
	cmd.Env = []string{
		"PATH=" + filepath.Join(b.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + b.dir, "XDG_STATE_HOME=" + filepath.Join(b.dir, "state"),
		"LC_ALL=C.UTF-8", "COOKBOOK=" + b.dir, "MQCTL_CONTEXT=prod", "MQCTL_YES=1", "GORACE=atexit_sleep_ms=0",
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%s: %v\n%s", text, err, errs.String())
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		b.t.Fatalf("exit %d, want %d\n%s\n%s%s", got, want, text, out.String(), errs.String())
	}
	return out.String()
}

// says checks what a line prints.
func (b *cookbook) says(line, want string) {
	b.t.Helper()
	if out := b.bash(line, ExitOK); !strings.Contains(out, want) {
		b.t.Fatalf("%s prints %q, want %q in it", line, out, want)
	}
}

// consume pulls a topic from its beginning, at the broker that answers suggest, and
// commits its progress at the masters, until enough messages have come or every
// queue is at its end. A group that shall be sent to slaves pulls one message at a
// time until it is: a master learns from the nameserver which slaves serve reads.
func (b *cookbook) consume(topic, group string, enough int, toSlaves bool) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := admin.New(admin.Options{Nameservers: []string{b.ns}})
	defer c.Close()
	type place struct {
		broker string
		queue  int32
	}
	next, at := map[place]int64{}, map[place]int{}
	for got := 0; got < enough; {
		before, size := got, 32
		if toSlaves && (at[place{"broker-a", 0}] == 0 || at[place{"broker-b", 1}] == 0) {
			size, before, got = 1, 0, 0
			<-tick.C
		}
		for _, broker := range []string{"broker-a", "broker-b"} {
			addrs := []string{fmt.Sprintf("127.0.0.1:%d", b.port[broker+"-master"]), fmt.Sprintf("127.0.0.1:%d", b.port[broker+"-slave"])}
			for queue := range int32(2) {
				p := place{broker, queue}
				r, err := c.Pull(ctx, addrs[at[p]], admin.Pull{Group: group, Topic: topic, QueueID: queue, Offset: next[p], Max: size})
				if err != nil {
					b.t.Error(err)
					return
				}
				if r.Status != admin.PullFound {
					continue
				}
				got += len(r.Messages)
				next[p], at[p] = r.Next, int(r.SuggestBrokerID)
				if err := c.CommitOffset(ctx, addrs[0], group, topic, queue, r.Next); err != nil {
					b.t.Error(err)
					return
				}
			}
		}
		if got == before {
			return
		}
	}
}

// TestCookbook runs the snippets that "mqctl cheat" prints, in the order in which
// one world serves them all, and checks results and exit codes.
func TestCookbook(t *testing.T) {
	t.Parallel()
	t.Run("start-pair", func(t *testing.T) {
		b := newCookbook(t)
		for name, text := range map[string]string{
			"master.toml": "[broker]\nbrokerName = \"broker-a\"\n[network]\nbindAddress = \"127.0.0.1\"\nbrokerIP1 = \"127.0.0.1\"\nlistenPort = %d\n[nameserver.embedded]\nlisten = \"" + b.ns + "\"\n",
			"slave.toml":  "[broker]\nbrokerName = \"broker-a\"\nbrokerId = 1\nbrokerRole = \"SLAVE\"\n[network]\nbindAddress = \"127.0.0.1\"\nbrokerIP1 = \"127.0.0.1\"\nlistenPort = %d\n",
		} {
			b.write(name, fmt.Sprintf(text+"[http]\nlisten = \"\"\n", b.newPort()))
		}
		b.run("start-pair", ExitOK)
		b.says("mqctl cluster list -o csv --fields broker,brokerId,role --no-headers", "broker-a,0,ASYNC_MASTER\nbroker-a,1,SLAVE\n")
	})
	b := newCookbook(t)
	b.pairs()
	step := func(name string, f func()) { // each goes on where the last one ended
		t.Run(name, func(t *testing.T) {
			b.t = t
			f()
		})
		if b.t = t; t.Failed() {
			t.FailNow()
		}
	}
	step("mqadmin-runbook", b.cookRunbook)
	step("convert", b.cookConvert)
	step("plan", b.cookPlan)
	b.bash("mqctl bench send --topic orders --size 200 --count 101000 --warmup 0s --no-progress --duration 10m", ExitOK)
	step("slow-group", b.cookSlowGroup)
	step("nobody-behind", func() { b.run("nobody-behind", ExitConditionFalse); b.says("cat lag.jsonl", `"order_consumer"`) })
	step("bring-back", b.cookBringBack)
	step("nobody-behind, nobody answers", b.cookSilent)
	step("debug", b.cookDebug)
	step("skip-backlog", b.cookSkip)
	step("drain", b.cookDrain)
	step("failover", b.cookFailover)
	step("rolling-upgrade", b.cookUpgrade)
	step("failover-forced", b.cookForced)
}

func (b *cookbook) cookRunbook() {
	out := b.run("mqadmin-runbook", ExitOK)
	for _, name := range []string{"broker-a", "broker-b"} {
		if n := strings.Count(out, name+"\n"); n == 0 {
			b.t.Errorf("%s is not in the output:\n%s", name, out)
		}
	}
}

func (b *cookbook) cookConvert() {
	b.run("convert", ExitOK)
	b.bash("mqctl broker config set flushDiskType=SYNC_FLUSH --broker broker-a/0 --no-persist", ExitOK)
	b.run("convert", ExitConditionFalse)
	b.bash("mqctl broker config set flushDiskType=ASYNC_FLUSH --broker broker-a/0 --no-persist", ExitOK)
	b.write("etc/other.conf", "brokerIp1 = 127.0.0.1\n")
	b.run("convert", ExitBadConfig)
}

func (b *cookbook) cookPlan() {
	b.write("cluster.toml", "[topics.orders]\nreadQueueNums = 2\nwriteQueueNums = 2\n[groups.order_consumer]\n[groups.report]\n")
	b.run("plan", ExitChanges)
	b.bash("mqctl apply -f cluster.toml", ExitOK)
	if out := b.run("plan", ExitOK); !strings.Contains(out, "in line") {
		b.t.Errorf("prints %q", out)
	}
	b.write("cluster.toml", "[topics.orders]\nreadQueues = 2\n")
	b.run("plan", ExitBadConfig)
}

// cookSlowGroup: the group reads while the snippet waits, and goes where it is sent.
func (b *cookbook) cookSlowGroup() {
	asleep := filepath.Join(b.dir, "asleep")
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(b.t.Context())
	go func() { // ends with cancel at the latest
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(asleep); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		b.consume("orders", "order_consumer", 400, true)
		b.write("awake", "")
	}()
	b.run("slow-group", ExitOK)
	cancel()
	<-done
	b.says("mqctl group get order_consumer -o json", `"whichBrokerWhenConsumeSlowly": 1`)
	var pulls struct {
		Items []pullItem `json:"items"`
	}
	if err := json.Unmarshal([]byte(b.bash("mqctl stats pull --group order_consumer -o json", ExitOK)), &pulls); err != nil {
		b.t.Fatal(err)
	}
	slaves := int64(0)
	for _, it := range pulls.Items {
		if it.BrokerID == 1 && it.Pulls != nil {
			slaves += *it.Pulls
		}
	}
	if slaves == 0 {
		b.t.Errorf("nobody pulled from a slave: %+v", pulls.Items)
	}
}

// cookBringBack: the group catches up while the snippet waits for it.
func (b *cookbook) cookBringBack() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.consume("orders", "order_consumer", 1<<30, false)
	}()
	b.run("bring-back", ExitOK)
	<-done
	b.says("mqctl group get order_consumer -o json", `"whichBrokerWhenConsumeSlowly": 0`)
	b.run("nobody-behind", ExitOK)
}

// goesOn says whether a process that got SIGSTOP still has a thread that runs, where that
// can be told: a busy machine lets threads go on for a moment.
func goesOn(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is a good one
	for _, name := range threads {
		if text, err := os.ReadFile(name); err == nil && !strings.Contains(string(text), ") T ") {
			return true
		}
	}
	return false
}

// cookSilent: neither a master nor its slave answers, while the nameserver still
// has them: that nobody is behind is not known.
func (b *cookbook) cookSilent() {
	signal := func(s syscall.Signal) {
		for _, host := range cookbookHosts[2:] {
			if pid := lockHolder(lockPath(filepath.Join(b.dir, host, "store"))); pid > 1 {
				if err := syscall.Kill(pid, s); err != nil {
					b.t.Error(err)
				}
				for s == syscall.SIGSTOP && goesOn(pid) {
					<-time.After(20 * time.Millisecond)
				}
			}
		}
	}
	signal(syscall.SIGSTOP)
	defer func() {
		signal(syscall.SIGCONT)
		b.bash("mqctl wait broker broker-b --ready --for 1m; mqctl wait ha --broker broker-b --max-gap 0 --for 1m", ExitOK)
	}()
	b.bash("export MQCTL_TIMEOUT=1s\n"+b.snippet("nobody-behind"), ExitPartial)
}

func (b *cookbook) cookDebug() {
	b.run("debug", ExitOK)
	for _, name := range []string{"bundle.tar.gz", "findings.txt", "cpu.pprof"} {
		if info, err := os.Stat(filepath.Join(b.dir, name)); err != nil || info.Size() == 0 && name != "findings.txt" {
			b.t.Errorf("%s: %v", name, err)
		}
	}
	b.says("tar tzf bundle.tar.gz", "manifest.json")
}

func (b *cookbook) cookSkip() {
	b.consume("orders", "report", 100, false)
	lag := "mqctl group lag report -o template='{{.totals.lag}}'"
	before := b.bash(lag, ExitOK)
	if len(before) < 5 {
		b.t.Fatalf("the group has a backlog of %s", before)
	}
	b.run("skip-backlog", ExitOK)
	if after := b.bash(lag, ExitOK); after != "0" {
		b.t.Errorf("the backlog is %s", after)
	}
	b.undo("skip-backlog", ExitOK)
	if back := b.bash(lag, ExitOK); back != before {
		b.t.Errorf("the backlog was %s and is %s", before, back)
	}
}

func (b *cookbook) cookDrain() {
	b.run("drain", ExitOK)
	b.says("mqctl broker config get brokerPermission --broker broker-a/0 -o json", `"4"`)
	b.undo("drain", ExitOK)
	b.says("mqctl broker config get brokerPermission --broker broker-a/0 -o json", `"6"`)
}

func (b *cookbook) cookFailover() {
	b.run("failover", ExitOK)
	b.says("mqctl cluster list -o csv --fields broker,role,addr --no-headers", fmt.Sprintf("broker-a,ASYNC_MASTER,127.0.0.1:%d\n", b.port["broker-a-slave"]))
	b.bash("mqctl message send orders --body after", ExitOK)
	b.bash("mqctl ha promote broker-a --id 0 --planned --wait=1m", ExitOK)
}

func (b *cookbook) cookUpgrade() {
	pids := func() (out []int) {
		for _, host := range cookbookHosts {
			out = append(out, lockHolder(lockPath(filepath.Join(b.dir, host, "store"))))
		}
		return out
	}
	before := pids()
	b.run("rolling-upgrade", ExitOK)
	for i, after := range pids() {
		if after == before[i] || after <= 1 {
			b.t.Errorf("%s was not started again: %d", cookbookHosts[i], after)
		}
	}
	b.says("mqctl cluster list -o csv --fields broker,brokerId,role,addr --no-headers",
		fmt.Sprintf("broker-a,0,ASYNC_MASTER,127.0.0.1:%d\nbroker-a,1,SLAVE,127.0.0.1:%d\n", b.port["broker-a-master"], b.port["broker-a-slave"]))
}

func (b *cookbook) cookForced() {
	b.bash("ssh broker-a-master mqctl broker stop --force --grace 0s", ExitOK)
	b.run("failover-forced", ExitOK)
	b.says("mqctl cluster list -o csv --fields broker,role,addr --no-headers", fmt.Sprintf("broker-a,ASYNC_MASTER,127.0.0.1:%d\n", b.port["broker-a-slave"]))
	b.bash("ssh broker-a-master systemctl start mqctl-master", ExitOK) // it joins as the slave of the new one
	b.bash("mqctl wait ha --broker broker-a --max-gap 0 --for 1m", ExitOK)
}
