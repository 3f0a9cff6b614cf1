//go:build java

package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The original's jars and the compiled java/Compat.java; make compat-java sets them.
var (
	jars    = os.Getenv("MQCTL_COMPAT_JARS")
	classes = os.Getenv("MQCTL_COMPAT_CLASSES")
)

var javaOpens = strings.Fields("--add-opens=java.base/java.nio=ALL-UNNAMED --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED " +
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED --add-exports=java.base/sun.nio.ch=ALL-UNNAMED " +
	"--add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.util.concurrent=ALL-UNNAMED")

// javaCommand runs a class of the original, with its home and logs in dir.
func javaCommand(dir string, heapMB int, options []string, class string, args ...string) *exec.Cmd {
	all := append([]string{fmt.Sprintf("-Xmx%dm", heapMB), "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=2g"}, javaOpens...)
	all = append(all, "-Duser.home="+dir, "-Drocketmq.home.dir="+dir, "-Djava.net.preferIPv4Stack=true")
	all = append(all, options...)
	all = append(all, "-cp", filepath.Join(jars, "*")+string(os.PathListSeparator)+classes, class)
	return exec.Command("java", append(all, args...)...)
}

func needJava(t *testing.T) {
	t.Helper()
	if jars == "" || classes == "" {
		t.Fatal("MQCTL_COMPAT_JARS and MQCTL_COMPAT_CLASSES are not set: run make compat-java")
	}
}

// javaClient runs java/Compat.java and returns its lines.
func javaClient(t *testing.T, options []string, args ...string) []string {
	t.Helper()
	out, err := javaCommand(t.TempDir(), 256, options, "Compat", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("java client %v: %v\n%s", args, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func count(lines []string, prefix string) (n int) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// TestJavaClients sends with the original client in each of its ways and
// consumes with its push, orderly and lite consumers, in both header forms.
func TestJavaClients(t *testing.T) {
	needJava(t)
	b := own(t)
	for form, options := range map[string][]string{"json": nil, "binary": {"-Drocketmq.serialize.type=ROCKETMQ"}} {
		t.Run(form, func(t *testing.T) {
			topic := "java-" + form
			lines := javaClient(t, options, "produce", b.namesrv, topic, "20")
			const messages = 4*20 + 2
			if n := count(lines, "sent "); n != messages {
				t.Fatalf("%d sent, want %d", n, messages)
			}
			for _, how := range []string{"push", "orderly", "lite"} {
				lines := javaClient(t, options, "consume", b.namesrv, "g-"+form+"-"+how, topic, "*", strconv.Itoa(messages), how)
				ids := map[string]bool{}
				next := 0
				for _, l := range lines {
					f := strings.Fields(l)
					if len(f) != 5 || f[0] != "got" {
						continue
					}
					ids[f[1]] = true
					if i, ok := strings.CutPrefix(f[4], "order-"); ok && how == "orderly" {
						if i != strconv.Itoa(next) {
							t.Errorf("orderly: got %s, want order-%d", f[4], next)
						}
						next++
					}
				}
				if len(ids) != messages {
					t.Errorf("%s: %d ids, want %d", how, len(ids), messages)
				}
			}
			if n := count(javaClient(t, options, "consume", b.namesrv, "g-"+form+"-tag", topic, "TagB", "20", "push"), "got "); n != 20 {
				t.Errorf("%d messages of TagB, want 20", n)
			}
			lines = javaClient(t, options, "consume", b.namesrv, "g-"+form+"-retry", topic, "TagB", "20", "retry")
			again := 0
			for _, l := range lines {
				if strings.HasPrefix(l, "second ") {
					t.Log(l)
				}
				if f := strings.Fields(l); len(f) == 5 && f[0] == "got" && f[2] == "1" {
					again++
				}
			}
			if again != 20 {
				t.Errorf("%d second deliveries, want 20", again)
			}
		})
	}
}

// tool is the original's mqadmin, kept running since each start costs seconds.
type tool struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func mqadmin(t *testing.T) *tool {
	t.Helper()
	cmd := javaCommand(t.TempDir(), 256, nil, "Compat", "admin")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &tool{in, bufio.NewScanner(out)}
}

// run returns what one command printed.
func (m *tool) run(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := io.WriteString(m.in, strings.Join(args, " ")+"\n"); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for m.out.Scan() {
		if m.out.Text() == "--end" {
			return text.String()
		}
		text.WriteString(m.out.Text() + "\n")
	}
	t.Fatalf("mqadmin %v ended its process:\n%s", args, text.String())
	return ""
}

// reportWait bounds the wait for a client's next report; Java saves its progress
// every 5 s, for the first time after 10 s.
const reportWait = 60 * time.Second

// reported are the commands that show what clients report.
var reported = map[string]bool{"consumerProgress": true, "consumerConnection": true, "producerConnection": true, "statsAll": true}

// lack returns the first of the wanted expressions that text does not match.
func lack(text string, want []string) string {
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(text) {
			return w
		}
	}
	return ""
}

// TestMqadmin runs the original's tool against our broker, with a producer and
// a consumer of the original online.
func TestMqadmin(t *testing.T) {
	needJava(t)
	b := own(t)
	n := []string{"-n", b.namesrv}
	hold := javaCommand(t.TempDir(), 256, nil, "Compat", "hold", b.namesrv, "held", "HeldTopic")
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
	defer func() { in.Close(); hold.Wait() }()
	text := bufio.NewScanner(out)
	held := false
	for !held && text.Scan() {
		held = strings.HasPrefix(text.Text(), "holding")
	}
	if !held {
		t.Fatal("the client that holds its connections did not come online")
	}
	addr := regexp.QuoteMeta(b.addr)
	m := mqadmin(t)
	for _, c := range []struct {
		args string
		want []string // regular expressions
	}{
		{"clusterList", []string{`#Cluster Name +#Broker Name +#BID +#Addr`, `DefaultCluster +compat +0 +` + addr + ` +V5_3_3`}},
		{"brokerStatus -b " + b.addr, []string{`(?m)^commitLogMaxOffset +: \d+`, `(?m)^putTps +: `, `(?m)^brokerVersionDesc +: V5_3_3`}},
		{"topicList", []string{`(?m)^HeldTopic$`, `(?m)^%RETRY%held$`}},
		{"updateTopic -b " + b.addr + " -t Made -r 3 -w 3", []string{`create topic to ` + addr + ` success`, `readQueueNums=3, writeQueueNums=3`}},
		{"topicRoute -t Made", []string{`"brokerAddrs":\{"?0"?:"` + addr + `"`, `"readQueueNums":3`}},
		{"sendMessage -t Made -p hello -k mykey -c MyTag", []string{`compat +\d +SEND_OK +[0-9A-F]{32}`}},
		{"topicStatus -t Made", []string{`#Broker Name +#QID +#Min Offset +#Max Offset`, `compat +\d +0 +1`}},
		{"queryMsgByKey -t Made -k mykey", []string{`[0-9A-F]{32} +\d +0`}},
		{"consumerConnection -g held", []string{`HeldTopic +TagA \|\| TagH|HeldTopic +TagH \|\| TagA`, `ConsumeType: CONSUME_PASSIVELY`, `MessageModel: CLUSTERING`}},
		{"producerConnection -g held-p -t HeldTopic", []string{`JAVA +V5_3_3`}},
		{"consumerProgress -g held", []string{`HeldTopic +compat +\d`, `Consume Diff Total: 0`}},
		{"consumerProgress", []string{`held +1 +V5_3_3 +PUSH +CLUSTERING`}},
		{"statsAll -t HeldTopic", []string{`HeldTopic +held +\d`}},
		{"updateSubGroup -b " + b.addr + " -g made-group -w 3 -i 2", []string{`create subscription group to ` + addr + ` success`, `whichBrokerWhenConsumeSlowly=3`}},
		{"getConsumerConfig -g made-group", []string{`whichBrokerWhenConsumeSlowly +=  3`, `brokerId +=  2`}},
		{"deleteSubGroup -b " + b.addr + " -g made-group", []string{`delete subscription group \[made-group\] from broker \[` + addr + `\] success`}},
		{"getBrokerConfig -b " + b.addr, []string{`(?m)^brokerName +=  compat`, `(?m)^slaveReadEnable +=  false`}},
		{"updateBrokerConfig -b " + b.addr + " -k slaveReadEnable -v true", []string{`update broker config success, ` + addr}},
		{"getBrokerConfig -b " + b.addr, []string{`(?m)^slaveReadEnable +=  true`}},
		{"topicClusterList -t Made", []string{`DefaultCluster`}},
		{"deleteTopic -c DefaultCluster -t Made", []string{`delete topic \[Made\] from cluster \[DefaultCluster\] success`, `delete topic \[Made\] from NameServer success`}},
	} {
		args := append(strings.Fields(c.args), n...)
		got, lacks := m.run(t, args...), ""
		// What clients report every few seconds (progress, heartbeats) need not
		// be there yet; what a command itself does must be.
		for limit := time.Now().Add(reportWait); ; got = m.run(t, args...) {
			lacks = lack(got, c.want)
			if lacks == "" || !reported[strings.Fields(c.args)[0]] || time.Now().After(limit) {
				break
			}
			<-time.After(time.Second)
		}
		if lacks != "" {
			t.Errorf("mqadmin %s: no %q in\n%s", c.args, lacks, got)
		}
	}
	if got := m.run(t, append([]string{"topicList"}, n...)...); regexp.MustCompile(`(?m)^Made$`).MatchString(got) {
		t.Errorf("deleted topic is still listed:\n%s", got)
	}
	// by id: the offset id is in the answer of our own send
	res := b.mqctl(t, 0, "message", "send", "HeldTopic", "--body", "by id", "--output", "json")
	var sent struct{ Items []struct{ MsgID string } }
	if err := json.Unmarshal(res, &sent); err != nil || len(sent.Items) != 1 {
		t.Fatalf("message send: %v\n%s", err, res)
	}
	got := m.run(t, append([]string{"queryMsgById", "-t", "HeldTopic", "-i", sent.Items[0].MsgID}, n...)...)
	if !regexp.MustCompile(`Topic: +HeldTopic`).MatchString(got) {
		t.Errorf("queryMsgById:\n%s", got)
	}
}

// process is one Java server.
type process struct{ cmd *exec.Cmd }

func (p process) stop(sig syscall.Signal) {
	p.cmd.Process.Signal(sig)
	p.cmd.Wait()
}

func javaServer(t testing.TB, dir, class string, heapMB int, conf, port string) process {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "server.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := javaCommand(dir, heapMB, nil, class, "-c", file)
	log, err := os.Create(filepath.Join(dir, "out.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := process{cmd}
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	until(t, 3*time.Minute, class+" on "+port, func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return p
}

func apacheNameserver(t testing.TB) (addr string) {
	port, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	javaServer(t, filepath.Join(t.TempDir(), "ns"), "org.apache.rocketmq.namesrv.NamesrvStartup", 128,
		fmt.Sprintf("listenPort=%d\nbindAddress=127.0.0.1\n", port), strconv.Itoa(port))
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// apacheBroker starts the original with small files, so that its folders stay small.
func apacheBroker(t testing.TB, name, namesrv, store string) (addr string, p process) {
	return apacheBrokerWith(t, name, namesrv, store, 512, "mappedFileSizeCommitLog=16777216", "maxIndexNum=4000", "maxHashSlotNum=1000")
}

func apacheBrokerWith(t testing.TB, name, namesrv, store string, heapMB int, more ...string) (addr string, p process) {
	port, err := freePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	port += 2
	conf := fmt.Sprintf("brokerClusterName=DefaultCluster\nbrokerName=%s\nbrokerId=0\nlistenPort=%d\nbrokerIP1=127.0.0.1\nnamesrvAddr=%s\n"+
		"storePathRootDir=%s\nstorePathCommitLog=%s/commitlog\n%s\n",
		name, port, namesrv, store, store, strings.Join(more, "\n"))
	p = javaServer(t, filepath.Join(t.TempDir(), name), "org.apache.rocketmq.broker.BrokerStartup", heapMB, conf, strconv.Itoa(port))
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	until(t, 30*time.Second, "runtime information of the original", func() bool {
		res, err := ask(addr, 28, nil)
		return err == nil && res.Code == 0 // in its first second it has measured nothing yet, and answers with an exception
	})
	return addr, p
}

// TestOurCommandsOnApache steers the original with our commands.
func TestOurCommandsOnApache(t *testing.T) {
	needJava(t)
	b := &broker{namesrv: apacheNameserver(t)}
	addr, _ := apacheBroker(t, "apache-a", b.namesrv, filepath.Join(t.TempDir(), "store"))
	b.addr = addr
	until(t, 60*time.Second, "registration", func() bool { return routed(t, b, "TBW102") })

	type envelope struct {
		Schema string
		Items  []map[string]any
	}
	items := func(exit int, args ...string) []map[string]any {
		t.Helper()
		out := b.mqctl(t, exit, append(args, "--output", "json")...)
		var e envelope
		if err := json.Unmarshal(out, &e); err != nil {
			t.Fatalf("mqctl %v: %v\n%s", args, err, out)
		}
		return e.Items
	}
	if l := items(0, "clusterList"); len(l) != 1 || l[0]["broker"] != "apache-a" || l[0]["addr"] != addr {
		t.Errorf("clusterList: %v", l)
	}
	items(0, "topic", "create", "Ours", "--read-queues", "3", "--write-queues", "3", "--yes")
	items(0, "message", "send", "Ours", "--body", "hello", "--key", "k1")
	until(t, 20*time.Second, "message in topic status", func() bool {
		var n float64
		for _, q := range items(0, "topic", "status", "Ours") {
			n += q["maxOffset"].(float64) - q["minOffset"].(float64)
		}
		return n == 1
	})
	if l := items(0, "message", "find", "--topic", "Ours", "--key", "k1"); len(l) != 1 {
		t.Errorf("message find: %v", l)
	}
	if l := items(0, "updateSubGroup", "-c", "DefaultCluster", "-g", "ours", "-w", "7"); len(l) != 1 || l[0]["verified"] != true {
		t.Errorf("updateSubGroup: %v", l)
	}
	items(0, "updateSubGroup", "-c", "DefaultCluster", "-g", "ours", "-i", "1")
	got := items(0, "group", "get", "ours")
	if len(got) != 1 {
		t.Fatalf("group get: %v", got)
	}
	c := got[0]["config"].(map[string]any)
	if c["whichBrokerWhenConsumeSlowly"] != 7.0 || c["brokerId"] != 1.0 {
		t.Errorf("patched group: %v", c)
	}
	items(3, "group", "get", "no-such-group")
	offsets := items(0, "stats", "offsets")
	if len(offsets) != 1 || offsets[0]["maxOffset"].(float64) <= 0 || offsets[0]["flushedOffset"] != nil {
		t.Errorf("stats offsets: %v", offsets)
	}
	items(0, "broker", "config", "set", "slaveReadEnable=true", "--broker", "apache-a", "--yes")
	if l := items(0, "broker", "config", "get", "slaveReadEnable", "--broker", "apache-a"); len(l) != 1 || l[0]["value"] != "true" {
		t.Errorf("config get: %v", l)
	}
	items(0, "broker", "status", "apache-a")
	items(0, "topic", "delete", "Ours", "--yes")
	items(0, "group", "delete", "ours", "--yes")
}

// TestRegisterAcross has each broker register at the other's nameserver.
func TestRegisterAcross(t *testing.T) {
	needJava(t)
	t.Run("ours at Apache's", func(t *testing.T) {
		ns := apacheNameserver(t)
		b := own(t, "--namesrv", ns)
		far := &broker{namesrv: ns, addr: b.addr}
		until(t, 30*time.Second, "registration", func() bool { return routed(t, far, "TBW102") })
		lines := javaClient(t, nil, "produce", ns, "AcrossA", "5")
		javaClient(t, nil, "consume", ns, "ga", "AcrossA", "*", strconv.Itoa(count(lines, "sent ")), "push")
	})
	t.Run("Apache's at ours", func(t *testing.T) {
		b := own(t)
		addr, _ := apacheBroker(t, "apache-a", b.namesrv, filepath.Join(t.TempDir(), "store"))
		until(t, 60*time.Second, "registration", func() bool { return routed(t, b, "apache-a") })
		b.mqctl(t, 0, "topic", "create", "AcrossB", "--broker", "apache-a", "--yes")
		waitRoute(t, b, "AcrossB")
		lines := javaClient(t, nil, "produce", b.namesrv, "AcrossB", "5")
		javaClient(t, nil, "consume", b.namesrv, "gb", "AcrossB", "*", strconv.Itoa(count(lines, "sent ")), "push")
		got := mqadmin(t).run(t, "clusterList", "-n", b.namesrv)
		for _, want := range []string{b.addr, addr} {
			if !strings.Contains(got, want) {
				t.Errorf("clusterList lacks %s:\n%s", want, got)
			}
		}
	})
}

// TestApacheOpensOurFolder stops our broker and starts the original on its
// folder: the same messages are consumed.
func TestApacheOpensOurFolder(t *testing.T) {
	needJava(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			b := own(t, "--set", "mappedFileSizeCommitLog=16777216", "--set", "maxIndexNum=4000", "--set", "maxHashSlotNum=1000")
			lines := javaClient(t, nil, "produce", b.namesrv, "Folder", "300")
			n := count(lines, "sent ")
			javaClient(t, nil, "consume", b.namesrv, "g1", "Folder", "*", strconv.Itoa(n), "push")
			b.kill(sig)
			ns := apacheNameserver(t)
			addr, _ := apacheBroker(t, "compat", ns, b.dir)
			far := &broker{namesrv: ns, addr: addr}
			waitRoute(t, far, "Folder")
			javaClient(t, nil, "consume", ns, "g2", "Folder", "*", strconv.Itoa(n), "push")
			if out := mqadmin(t).run(t, "queryMsgByKey", "-n", ns, "-t", "Folder", "-k", "k7"); !regexp.MustCompile(`[0-9A-F]{32}`).MatchString(out) {
				t.Errorf("key k7 is not found by the original:\n%s", out)
			}
		})
	}
}
