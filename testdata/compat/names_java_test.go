//go:build java

package compat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	nameWait = 40 * time.Second // for one command of either tool
	namesAre = 93
)

// notMqadmins are classes of the original that its mqadmin does not offer.
var notMqadmins = map[string]bool{"consumer": true, "resetOffsetByTimeOld": true, "getConsumerStatus": true, "DecodeMessageId": true}

// endless run until they are stopped.
var endless = map[string]bool{"startMonitoring": true, "clusterRT": true}

// side is a cluster of one kind with what the lines of namesTable are about.
type side struct {
	namesrv, addr, controller, dir string
	fill                           *strings.Replacer // of a line of namesTable
	names                          *strings.Replacer // what belongs to this cluster only
}

func (s side) line(text string) []string {
	return append(strings.Fields(s.fill.Replace(text)), "-n", s.namesrv)
}

// ours runs a command of ours and says how it ended.
func ours(dir string, args ...string) (code int, stdout, stderr string) {
	cmd := exec.Command(target.binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, dir
	cmd.Env = append(os.Environ(), "MQCTL_AUDIT=off", "HOME="+dir, "MQCTL_DEADLINE=30s")
	if err := cmd.Run(); cmd.ProcessState == nil {
		return -1, "", err.Error()
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// prepare makes a topic with messages, groups and files at a cluster, and a
// client of the original that stays online.
func prepare(t *testing.T, namesrv, addr, broker, controller string) side {
	t.Helper()
	dir := t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		code, out, errs := ours(dir, append(args, "-n", namesrv)...)
		if code != 0 {
			t.Fatalf("mqctl %v: exit %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	until(t, time.Minute, "registration of "+broker, func() bool {
		code, _, _ := ours(dir, "topic", "set", "Table", "--read-queues", "2", "--write-queues", "2", "-n", namesrv)
		return code == 0
	})
	must("topic", "create", "Doomed")
	must("topic", "create", "HeldTopic", "--read-queues", "1", "--write-queues", "1")
	must("group", "create", "doomed")
	must("group", "create", "table")
	var id, uniq string
	until(t, time.Minute, "a message in Table", func() bool {
		code, out, _ := ours(dir, "message", "send", "Table", "--body", "x", "--key", "tablekey", "--broker", broker, "--queue", "0", "-o", "json", "-n", namesrv)
		var sent struct {
			Items []struct{ MsgID, UniqID string }
		}
		if code != 0 || json.Unmarshal([]byte(out), &sent) != nil || len(sent.Items) == 0 {
			return false
		}
		id, uniq = sent.Items[0].MsgID, sent.Items[0].UniqID
		return true
	})
	must("message", "send", "Table", "--body", "x", "--count", "8", "--broker", broker, "--queue", "1")
	for _, group := range []string{"idle", "resting"} { // with offsets and nobody online
		must("group", "create", group)
		for queue, offset := range []string{"1", "3"} {
			err := done(ask(addr, 15, map[string]string{"consumerGroup": group, "topic": "Table", "queueId": strconv.Itoa(queue), "commitOffset": offset}))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"topics.json": `[{"topicName":"Listed","readQueueNums":1,"writeQueueNums":1,"perm":6}]`,
		"groups.json": `[{"groupName":"listed","retryMaxTimes":3}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holdClient(t, namesrv)
	return side{
		namesrv: namesrv, addr: addr, controller: controller, dir: dir,
		fill:  strings.NewReplacer("{B}", addr, "{N}", broker, "{CTL}", controller, "{DIR}", dir, "{ID}", id, "{UNIQ}", uniq),
		names: strings.NewReplacer(addr, "{B}", namesrv, "{NS}", controller, "{CTL}", dir, "{DIR}", id, "{ID}", uniq, "{UNIQ}"),
	}
}

// holdClient keeps a producer and a consumer of the original online.
func holdClient(t *testing.T, namesrv string) {
	t.Helper()
	hold := javaCommand(t.TempDir(), 128, nil, "Compat", "hold", namesrv, "held", "HeldTopic")
	in, err := hold.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); hold.Process.Kill(); hold.Wait() })
	for text := bufio.NewScanner(out); text.Scan(); {
		if strings.HasPrefix(text.Text(), "holding") {
			go io.Copy(io.Discard, out)
			return
		}
	}
	t.Fatal("the client that holds its connections did not come online")
}

// restartTool is mqadmin in one process, started again when a command ended or hung it.
type restartTool struct {
	t    *testing.T
	tool *tool
	stop func()
}

// ask runs one command; ok is false when it gave no end.
func (m *restartTool) ask(args ...string) (text string, ok bool) {
	m.t.Helper()
	if m.tool == nil {
		cmd := javaCommand(m.t.TempDir(), 256, []string{"-Djava.io.tmpdir=" + m.t.TempDir()}, "Compat", "admin")
		cmd.Dir = m.t.TempDir() // consumerStatus writes a folder where it runs
		in, err := cmd.StdinPipe()
		if err != nil {
			m.t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			m.t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			m.t.Fatal(err)
		}
		m.tool = &tool{in, bufio.NewScanner(out)}
		m.stop = sync.OnceFunc(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
		m.t.Cleanup(m.stop)
	}
	if _, err := io.WriteString(m.tool.in, strings.Join(args, " ")+"\n"); err != nil {
		m.t.Fatal(err)
	}
	type answer struct {
		text string
		end  bool
	}
	done := make(chan answer, 1)
	go func() {
		var b strings.Builder
		for m.tool.out.Scan() {
			if m.tool.out.Text() == "--end" {
				done <- answer{b.String(), true}
				return
			}
			b.WriteString(m.tool.out.Text() + "\n")
		}
		done <- answer{b.String(), false}
	}()
	select {
	case a := <-done:
		if !a.end {
			m.tool = nil
		}
		return a.text, a.end
	case <-time.After(nameWait):
		m.stop()
		a := <-done
		m.tool = nil
		return a.text, false
	}
}

var (
	tracks     = regexp.MustCompile(`MessageTrack \[[^\]]*\]`)
	brokerCode = regexp.MustCompile(`CODE: (\d+) +DESC: ([^\n]*)`)
	exception  = regexp.MustCompile(`(?m)^(?:Caused by: |\[error\] )?([\w.$]*(?:Exception|Error))(?:: ([^\n]*))?$`)
	errorLine  = regexp.MustCompile(`(?m)^error +(.*?)  \[(\w+)\]$`)
)

// endOfTheirs says in a few words how a command of mqadmin ended. It ends with
// status 0 whatever happens; what it prints tells.
func endOfTheirs(text string) string {
	text = tracks.ReplaceAllString(text, "") // tells of a group what was not found, and goes on
	if m := brokerCode.FindStringSubmatch(text); m != nil {
		return "refused: code " + m[1]
	}
	if m := exception.FindAllStringSubmatch(text, -1); m != nil {
		last := m[len(m)-1]
		return "failed: " + last[1][strings.LastIndexByte(last[1], '.')+1:]
	}
	if strings.Contains(text, "The sub command") && strings.Contains(text, "not exist") {
		return "failed: no such command"
	}
	if strings.Contains(text, "command failed") || strings.Contains(text, "usage: mqadmin") {
		return "failed"
	}
	return "success"
}

// endOfOurs says how a command of ours ended.
func endOfOurs(code int, stderr string) string {
	if code == 0 {
		return "success"
	}
	word := "?"
	if m := errorLine.FindStringSubmatch(stderr); m != nil {
		word = m[2]
	}
	return fmt.Sprintf("exit %d %s", code, word)
}

type nameRow struct{ family, line, theirs, onApache, oursThere, compared string }

// apacheCluster is a nameserver, a broker and a controller of the original, the same each time.
func apacheCluster(t *testing.T) side {
	t.Helper()
	ns := apacheNameserver(t)
	auth := "org.apache.rocketmq.auth."
	addr, _ := apacheBrokerWith(t, "apache", ns, filepath.Join(t.TempDir(), "store"), 512,
		"mappedFileSizeCommitLog=16777216", "maxIndexNum=4000", "maxHashSlotNum=1000", "registerNameServerPeriod=10000",
		"authConfigPath="+filepath.Join(t.TempDir(), "auth"),
		"authenticationProvider="+auth+"authentication.provider.DefaultAuthenticationProvider",
		"authenticationMetadataProvider="+auth+"authentication.provider.LocalAuthenticationMetadataProvider",
		"authorizationProvider="+auth+"authorization.provider.DefaultAuthorizationProvider",
		"authorizationMetadataProvider="+auth+"authorization.provider.LocalAuthorizationMetadataProvider")
	s := prepare(t, ns, addr, "apache", apacheController(t))
	until(t, time.Minute, "offsets of the client that is online", func() bool {
		f := s.state(t)
		return f["offset HeldTopic@held"] == `{"0":1}` && f["offset %RETRY%held@held"] == `{"0":0}`
	})
	return s
}

// TestMqadminNamesOnBoth runs every name of mqadmin: the original's tool against
// our broker, ours against a cluster of the original, and the original's against
// a second one of the same kind. What the two made of their clusters is compared.
// The table of it is README.md, written by this run; a success of before that is
// none any more fails.
func TestMqadminNamesOnBoth(t *testing.T) {
	needJava(t)
	rows := nameRows(t)
	mine := own(t)
	here := prepare(t, mine.namesrv, mine.addr, "compat", apacheController(t))
	mqctls, mqadmins := apacheCluster(t), apacheCluster(t)
	_, known, _ := ours(t.TempDir(), "help", "mqadmin")
	// The original's commands keep their connections: a process for each cluster.
	onOurs, onApache := &restartTool{t: t}, &restartTool{t: t}
	for i := range rows {
		r := &rows[i]
		name, _, _ := strings.Cut(r.line, " ")
		if !strings.Contains(known, "\n  "+name+" ") {
			t.Errorf("mqctl help mqadmin does not list %s", name)
		}
		if endless[name] {
			r.theirs, r.onApache, r.oursThere, r.compared = "not run: it has no end", "not run: it has no end", "not run: it has no end", "not compared"
			continue
		}
		r.theirs, _ = onOurs.run(r.line, here)
		if notMqadmins[name] {
			r.theirs += " (the class: mqadmin does not offer it)"
		}
		runOnBoth(t, onApache, r, name, mqctls, mqadmins)
	}
	writeNames(t, rows)
}

// nameRows are the lines of namesTable.
func nameRows(t *testing.T) (rows []nameRow) {
	t.Helper()
	family := ""
	for line := range strings.Lines(namesTable) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			family = strings.TrimSpace(line[1:])
		case line != "":
			rows = append(rows, nameRow{family: family, line: line})
		}
	}
	if len(rows) != namesAre {
		t.Fatalf("%d names, want %d", len(rows), namesAre)
	}
	return rows
}

// run runs one line of the table by mqadmin and says how it ended.
func (m *restartTool) run(line string, on side) (end, text string) {
	m.t.Helper()
	text, ok := m.ask(on.line(line)...)
	end = endOfTheirs(text)
	if !ok {
		end = "no end within " + nameWait.String()
	}
	m.t.Logf("mqadmin %s at %s: %s\n%s", line, on.addr, end, tail([]byte(text), 3000))
	return end, text
}

// runOnBoth runs one line by either tool on a cluster of the original of its own.
func runOnBoth(t *testing.T, outside *restartTool, r *nameRow, name string, mqctls, mqadmins side) {
	t.Helper()
	before := [2]facts{mqctls.state(t), mqadmins.state(t)}
	code, stdout, stderr := ours(mqctls.dir, mqctls.line(r.line)...)
	r.oursThere = endOfOurs(code, stderr)
	t.Logf("mqctl %s: %s\n%s%s", r.line, r.oursThere, tail([]byte(stdout), 3000), stderr)
	if code == 70 || strings.Contains(stderr, "goroutine ") {
		t.Errorf("%s: exit %d\n%s", r.line, code, stderr)
	}
	if strings.Contains(stdout+stderr, "table-secret") {
		t.Errorf("%s shows the password", r.line)
	}
	end, text := outside.run(r.line, mqadmins)
	r.onApache = end
	changed, differs := effects(t, mqctls, mqadmins, before, changes[name])
	r.compared = comparedEnds(t, r, name, mqctls.plain(stdout), mqadmins.plain(text))
	if effect := comparedEffects(t, r.line, name, changed, differs); effect != "" {
		r.compared = effect + "; " + r.compared
	}
	t.Logf("compared %s: %s", r.line, r.compared)
}

// apacheController starts one controller of the original.
func apacheController(t *testing.T) string {
	t.Helper()
	port, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "controller")
	javaServer(t, dir, "org.apache.rocketmq.controller.ControllerStartup", 128,
		fmt.Sprintf("controllerType=DLedger\ncontrollerDLegerGroup=group1\ncontrollerDLegerPeers=n0-127.0.0.1:%d\ncontrollerDLegerSelfId=n0\nlistenPort=%d\ncontrollerStorePath=%s\nrocketmqHome=%s\n", port+1, port, dir, dir),
		strconv.Itoa(port+1))
	return fmt.Sprintf("127.0.0.1:%d", port+1)
}

// writeNames writes README.md, and fails on what was a success there and is none now.
func writeNames(t *testing.T, rows []nameRow) {
	t.Helper()
	var b strings.Builder
	b.WriteString(namesHead)
	family := ""
	same := 0
	for _, r := range rows {
		if strings.HasPrefix(r.theirs, "success") {
			same++
		}
		if r.family != family {
			family = r.family
			fmt.Fprintf(&b, "\n## %s\n\n| Command | mqadmin on ours | mqctl on the original | mqadmin on the original | Compared on the original |\n|---|---|---|---|---|\n", family)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", strings.ReplaceAll(r.line, "|", "\\|"), r.theirs, r.oursThere, r.onApache, r.compared)
	}
	fmt.Fprintf(&b, "\n%d names: mqadmin succeeds with %d on ours.\n", len(rows), same)
	before, _ := os.ReadFile("README.md")
	for _, r := range rows {
		for line := range strings.Lines(string(before)) {
			cells := strings.Split(line, " | ")
			if len(cells) < 3 || cells[0] != "| `"+r.line+"`" {
				continue
			}
			if cells[1] == "success" && !strings.HasPrefix(r.theirs, "success") || cells[2] == "success" && r.oursThere != "success" {
				t.Errorf("%s: it was %q and %q, and is %q and %q", r.line, cells[1], cells[2], r.theirs, r.oursThere)
			}
		}
	}
	if err := os.WriteFile("README.md", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const namesHead = `# The names of mqadmin on both sides

Written by ` + "`TestMqadminNamesOnBoth`" + ` (` + "`make compat-names`" + `): do not edit. Each line was run by the
original's mqadmin (5.3.3) against a broker of ours; by mqctl against a cluster
of the original; and by mqadmin against a second cluster of the original, which
was prepared in the same way. mqadmin ends with status 0 whatever happens, so
what it prints tells how it went.

The last column says how the two clusters of the original compare afterwards.
Before and after each line the test reads from both, by requests of its own:
topics and static mappings with their routes, how many messages each topic took,
groups, stored offsets, pull or pop modes, settings of broker, nameserver and
controller, keys of the nameserver, thresholds of cold reads, users, rules, and
the files that exports write. "equal effect" names what changed, and it changed
alike on both; a name that is there to change something fails the test where
nothing changed. Differences are listed with their reason; any other fails.
"same answer" says that both printed the same, but for times, ids, addresses,
milliseconds and the order of lines; "but for numbers": but for all numbers, as
of counters of the moment; "in form": the test has no reason on record. Of
metrics.json only what is in it is compared, not how much.

What is not read back: whether files were cleaned (nothing had expired), what a
client does when its offset is moved (the groups had nobody online), and what
nobody can ask a broker for. A group or topic that exists is changed by mqctl
only where the line says so, by mqadmin to the defaults in all other settings
too: the lines are about groups and topics that have the defaults.

Where the broker of ours refuses, it does so with code 3 (not offered): access
control lists of version 5, containers, controllers, static topics, cold reads
and RocksDB are no parts of it. mqctl shows such a refusal as exit 8,
NOT_OFFERED. Containers are not run here, and the broker of the original is not
under the controller, so both tools are refused alike. startMonitoring and
clusterRT have no end and are not run. Of consumer, resetOffsetByTimeOld,
getConsumerStatus and DecodeMessageId the original has the classes, which the
test runs; its mqadmin does not offer them.

` + "`{B}` is a broker's address, `{N}` its name, `{CTL}` a controller of the original, `{DIR}` a folder, `{ID}` and `{UNIQ}` ids of a message." + `
`
