//go:build scenarios && java

package compat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func init() {
	javaConsumer = func(dir, namesrv, group, topic string, slow time.Duration) *exec.Cmd {
		return javaCommand(dir, 192, nil, "Compat", "follow", namesrv, group, topic, strconv.FormatInt(slow.Milliseconds(), 10))
	}
}

// TestSlaveKilledJava is S1 with the original's push consumer.
func TestSlaveKilledJava(t *testing.T) {
	needJava(t)
	slaveKilled(t, "java")
}

// TestSlaveKilledSyncJava is S1 with a synchronous master and the original's producer.
func TestSlaveKilledSyncJava(t *testing.T) {
	needJava(t)
	p := newPair(t, "SYNC_MASTER")
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	l := p.javaLoad(topic, 5*time.Millisecond, 0)
	until(t, 60*time.Second, "100 messages", func() bool { n, _ := l.count(); return n > 100 })
	_, slow := l.count() // the first sends, in a process that has just begun, may time out
	p.slave.kill(syscall.SIGKILL)
	<-time.After(5 * time.Second)
	l.end(t)
	if len(l.failed) > slow {
		t.Errorf("%d sends failed: %v", len(l.failed)-slow, l.failed[slow])
	}
	p.alone(topic, l.statuses, slow)
}

// TestMasterAndConsumerKilledJava is the rest of S3 with the original's push consumer.
func TestMasterAndConsumerKilledJava(t *testing.T) {
	needJava(t)
	masterAndConsumerKilled(t, "java")
}

// TestSlaveBackJava is S2 with the original's push consumer.
func TestSlaveBackJava(t *testing.T) {
	needJava(t)
	slaveBack(t, "java")
}

// TestMasterKilledJava is S3 and S4 with the original's push consumer.
func TestMasterKilledJava(t *testing.T) {
	needJava(t)
	masterKilled(t, "java")
}

// smallFiles make logs of several files out of few messages.
var smallFiles = []string{"mappedFileSizeCommitLog=1048576", "maxIndexNum=4000", "maxHashSlotNum=1000"}

// apacheNode is the original as a broker of a pair.
func (p *pair) apacheNode(id int, more ...string) (n *node, start func() process) {
	p.t.Helper()
	port, err := freePorts(4)
	if err != nil {
		p.t.Fatal(err)
	}
	port += 2
	role := "SLAVE"
	if id == 0 {
		role = "ASYNC_MASTER"
	}
	n = &node{t: p.t, id: id, dir: filepath.Join(p.dir, "store-"+strconv.Itoa(id)), addr: fmt.Sprintf("127.0.0.1:%d", port)}
	conf := fmt.Sprintf("brokerClusterName=DefaultCluster\nbrokerName=%s\nbrokerId=%d\nbrokerRole=%s\nlistenPort=%d\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\n"+
		"namesrvAddr=%s\nstorePathRootDir=%s\nstorePathCommitLog=%s/commitlog\nslaveReadEnable=true\nwaitTimeMillsInSendQueue=10000\n%s\n",
		pairName, id, role, port, p.namesrv, n.dir, n.dir, strings.Join(append(smallFiles, more...), "\n"))
	return n, func() process {
		return javaServer(p.t, filepath.Join(p.t.TempDir(), "apache"), "org.apache.rocketmq.broker.BrokerStartup", 512, conf, strconv.Itoa(port))
	}
}

// newMixedPair starts a nameserver of ours and a pair of which one side is the original.
func newMixedPair(t *testing.T, apache int) (p *pair, java process, again func() process) {
	t.Helper()
	needJava(t)
	p = newNameserver(t)
	var start func() process
	if apache == 0 {
		p.master, start = p.apacheNode(0)
		p.slave = p.node(1, smallFiles...)
		p.broker.addr = p.master.addr
		java = start()
		until(t, 60*time.Second, "registration of the original", func() bool { return routed(t, p.broker, "TBW102") })
		prod := p.producer(t) // a process that has just begun may take seconds for its first message
		until(t, 60*time.Second, "first message", func() bool {
			_, err := prod.SendSync(context.Background(), primitive.NewMessage("first", []byte("x")))
			return err == nil
		})
		p.slave.start()
		t.Cleanup(func() { p.slave.kill(syscall.SIGKILL) })
		return p, java, start
	}
	p.master = p.node(0, smallFiles...)
	p.slave, start = p.apacheNode(1)
	p.broker.addr = p.master.addr
	p.master.start()
	t.Cleanup(func() { p.master.kill(syscall.SIGKILL) })
	return p, start(), start
}

// bigMessages fill several files of the log.
func bigMessages(p *pair, topic string, n int) []string {
	p.t.Helper()
	body := strings.Repeat("b", 20000)
	return send(p.t, p.producer(p.t), n, func(i int) *primitive.Message {
		return primitive.NewMessage(topic, []byte(body+strconv.Itoa(i))).WithKeys([]string{"k" + strconv.Itoa(i)})
	})
}

// changeTables makes a group, progress and a delayed message at the master.
func (p *pair) changeTables(topic string) (group string) {
	t := p.t
	t.Helper()
	group = name(t, "g")
	p.mqctl(t, 0, "group", "create", group, "--yes")
	for q := range scenarioQueues {
		ext := map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(q), "commitOffset": strconv.Itoa(q + 1)}
		if err := done(ask(p.master.addr, 15, ext)); err != nil {
			t.Fatal(err)
		}
	}
	send(t, p.producer(t), 1, func(int) *primitive.Message {
		return primitive.NewMessage(topic, []byte("later")).WithDelayTimeLevel(1)
	})
	return group
}

// operators looks at a pair as operators do, whoever made its brokers: both names are
// there, nobody is behind, and what would change them is refused or done and verified.
func (p *pair) operators() {
	t := p.t
	t.Helper()
	until(t, 60*time.Second, "check ha", func() bool {
		_, _, exit := p.try("check", "ha", "--broker", pairName, "--max-gap", "0", "--min-slaves", "1")
		return exit == 0
	})
	p.mqctl(t, 0, "wait", "ha", "--broker", pairName, "--max-gap", "0", "--for", "30s")
	p.mqctl(t, 0, "wait", "role", pairName+"/1", "--is", "SLAVE")
	p.mqctl(t, 0, "wait", "role", pairName+"/0", "--is", "MASTER")
	p.mqctl(t, 0, "wait", "broker", pairName, "--ready")
	if n := p.inSync(); n != 1 {
		t.Errorf("stats ha: %d slaves in sync", n)
	}
	if g := p.gap(); g != 0 {
		t.Errorf("stats ha: a gap of %d", g)
	}
	ends := map[float64]float64{}
	for _, o := range p.json(0, "stats", "offsets", "--broker", pairName) {
		id, _ := o["brokerId"].(float64)
		ends[id], _ = o["maxOffset"].(float64)
	}
	if end := float64(p.end(p.master)); len(ends) != 2 || ends[0] != end || ends[1] != end {
		t.Errorf("stats offsets: %v, the log ends at %.0f", ends, end)
	}
	p.mqctl(t, 0, "ha", "status", "--max-gap", "0")
	p.mqctl(t, 0, "haStatus", "-c", "DefaultCluster")
	p.mqctl(t, 0, "stats", "pull", "--broker", pairName)
	p.mqctl(t, 0, "broker", "drain", pairName, "--yes")
	p.mqctl(t, 0, "broker", "undrain", pairName, "--yes")
}

// try runs a command of ours that may fail.
func (p *pair) try(args ...string) (stdout, stderr string, exit int) {
	p.t.Helper()
	exit, stdout, stderr = ours(p.t.TempDir(), append(args, "-n", p.namesrv)...)
	return stdout, stderr, exit
}

// TestApacheMasterOurSlave: our slave gets the whole log of the original and
// builds the same queues of it; then it takes over the original's place on the
// original's own folder.
func TestApacheMasterOurSlave(t *testing.T) {
	p, java, _ := newMixedPair(t, 0)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	bigMessages(p, topic, 200)
	p.synced(60 * time.Second)
	p.slave.kill(syscall.SIGKILL)
	bigMessages(p, topic, 100)
	p.slave.start()
	p.changeTables(topic)
	p.synced(60 * time.Second)
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
	p.sameTables(30 * time.Second)
	p.operators()
	java.stop(syscall.SIGTERM)
	// ours on the folder of the original
	old := p.master
	ours := p.node(0, smallFiles...)
	ours.dir = old.dir
	for i, a := range ours.args {
		if a == "--store" {
			ours.args[i+1] = old.dir
		}
	}
	p.master, p.broker.addr = ours, ours.addr
	ours.start()
	t.Cleanup(func() { ours.kill(syscall.SIGKILL) })
	bigMessages(p, topic, 100)
	p.synced(60 * time.Second)
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
}

// TestOurMasterApacheSlave: the original follows ours.
func TestOurMasterApacheSlave(t *testing.T) {
	p, java, _ := newMixedPair(t, 1)
	topic := name(t, "t")
	p.createTopic(t, topic, scenarioQueues)
	until(t, 10*time.Second, "topic in the routes", func() bool { return routed(t, p.broker, topic) })
	bigMessages(p, topic, 200)
	p.synced(60 * time.Second)
	p.sameLogs()
	until(t, 90*time.Second, "metadata on the original", func() bool {
		res, err := ask(p.slave.addr, 351, map[string]string{"topic": topic})
		return err == nil && res.Code == 0
	})
	until(t, 20*time.Second, "queues of the original", func() bool {
		return p.number(p.master, 30, "", topic, 0) == p.number(p.slave, 30, "", topic, 0)
	})
	p.sameQueues(topic, scenarioQueues)
	group := p.changeTables(topic)
	until(t, 90*time.Second, "a later change on the original", func() bool {
		return slices.Equal(p.progress(p.slave, group, topic, scenarioQueues), []int64{1, 2, 3, 4})
	})
	p.sameTables(90 * time.Second)
	p.operators()
	java.stop(syscall.SIGKILL)
}

// TestProgressWithApache (S10): progress between ours and the original through the
// master's death and return, by the rules for peers that know no generations.
func TestProgressWithApache(t *testing.T) {
	for apache, what := range []string{"Apache master", "Apache slave"} {
		t.Run(what, func(t *testing.T) { progressWithApache(t, apache) })
	}
}

func progressWithApache(t *testing.T, apache int) {
	p, java, again := newMixedPair(t, apache)
	topic, group := slug(name(t, "t")), slug(name(t, "g"))
	p.createTopic(t, topic, scenarioQueues)
	until(t, 90*time.Second, "topic on both", func() bool {
		res, err := ask(p.slave.addr, 351, map[string]string{"topic": topic})
		return err == nil && res.Code == 0 && routed(t, p.broker, topic)
	})
	c := p.startConsumer(group, topic, "java", 30*time.Millisecond)
	prod := p.producer(t)
	ids := send(t, prod, 4000, textMessage(topic))
	<-time.After(65 * time.Second)                                // the original's slave takes its first copy after 62 s
	ids = append(ids, send(t, prod, 6000, textMessage(topic))...) // so that there is something left at the kill
	p.synced(60 * time.Second)
	before := p.progress(p.slave, group, topic, scenarioQueues)
	killed := time.Now()
	if apache == 0 {
		java.stop(syscall.SIGKILL)
	} else {
		p.master.kill(syscall.SIGKILL)
	}
	until(t, 150*time.Second, "consumption from the slave", func() bool {
		return sum(p.progress(p.slave, group, topic, scenarioQueues)) > sum(before)
	})
	until(t, 240*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	<-time.After(12 * time.Second) // committed
	onSlave := p.progress(p.slave, group, topic, scenarioQueues)
	if !p.allCommitted(p.slave, group, topic, scenarioQueues) {
		t.Errorf("%d consumed, and not all is committed to the slave: %v", len(ids), onSlave)
	}
	if pause := c.pause(killed); pause > 80*time.Second {
		t.Errorf("consumption paused for %v", pause)
	}
	t.Logf("longest pause %v; progress of the slave before the kill %v", c.pause(killed).Round(time.Millisecond), before)
	c.kill()
	if apache == 0 {
		again()
	} else {
		p.master.start()
		// R3: what the original's slave has is merged before ours opens.
		if m := p.progress(p.master, group, topic, scenarioQueues); !slices.Equal(m, onSlave) {
			t.Errorf("our master came back with %v, its slave had %v", m, onSlave)
		}
	}
	back := time.Now()
	until(t, 95*time.Second, "equal progress, not lower than the slave's", func() bool {
		m, s := p.progress(p.master, group, topic, scenarioQueues), p.progress(p.slave, group, topic, scenarioQueues)
		return slices.Equal(m, onSlave) && slices.Equal(m, s)
	})
	t.Logf("equal %v after the return", time.Since(back).Round(time.Millisecond))
	next := p.startConsumer(group, topic, "java", 0)
	more := send(t, p.producer(t), 50, textMessage(topic))
	until(t, 90*time.Second, "what is new", func() bool { n, _ := next.has(more); return n == len(more) })
	if n, _ := next.count(); n != len(more) {
		t.Errorf("%d messages came again after the return", n-len(more))
	}
	p.synced(60 * time.Second)
	p.sameLogs()
	until(t, 20*time.Second, "queues on both", func() bool {
		for q := range scenarioQueues {
			if p.number(p.master, 30, "", topic, q) != p.number(p.slave, 30, "", topic, q) {
				return false
			}
		}
		return true
	})
	p.sameQueues(topic, scenarioQueues)
}

// TestResetWithApacheSlave: a reset at our master wins over the numbers of an original
// slave that has not copied it yet, also when a consumer has committed behind it and the
// master was killed since. What the slave has copied is kept (mqctl/delivered.json), and
// from then on what consumers commit there counts.
func TestResetWithApacheSlave(t *testing.T) {
	p, _, _ := newMixedPair(t, 1)
	topic, group := name(t, "t"), name(t, "g")
	p.createTopic(t, topic, scenarioQueues)
	until(t, 10*time.Second, "topic in the routes", func() bool { return routed(t, p.broker, topic) })
	p.mqctl(t, 0, "group", "create", group, "--yes")
	send(t, p.producer(t), 1000, textMessage(topic))
	all := func(n int64) []int64 { return []int64{n, n, n, n} }
	commit := func(n *node, at int64, reset bool) {
		t.Helper()
		for q := range scenarioQueues {
			ext := map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(q), "commitOffset": strconv.FormatInt(at, 10)}
			if reset {
				ext["reset"] = "true"
			}
			if err := done(ask(n.addr, 15, ext)); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(n *node, want int64) func() bool {
		return func() bool { return slices.Equal(p.progress(n, group, topic, scenarioQueues), all(want)) }
	}
	commit(p.master, 200, false)
	until(t, 90*time.Second, "progress on the original", has(p.slave, 200))
	commit(p.master, 10, true)
	commit(p.master, 15, false)
	until(t, 20*time.Second, "saved", func() bool { return slices.Equal(savedProgress(t, p.master.dir, group, topic), all(15)) })
	p.master.kill(syscall.SIGKILL)
	if got := p.progress(p.slave, group, topic, scenarioQueues); !slices.Equal(got, all(200)) {
		t.Skipf("the original copied the reset within moments: %v", got)
	}
	p.master.start()
	if got := p.progress(p.master, group, topic, scenarioQueues); !slices.Equal(got, all(15)) {
		t.Errorf("after the restart the master has %v: the reset is undone", got)
	}
	until(t, 90*time.Second, "the reset on the original", has(p.slave, 15))
	file := filepath.Join(p.master.dir, "mqctl", "delivered.json")
	until(t, 90*time.Second, "what the original has shown back, on disk", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), topic+"@"+group)
	})
	p.master.kill(syscall.SIGKILL)
	commit(p.slave, 30, false)
	p.master.start()
	if got := p.progress(p.master, group, topic, scenarioQueues); !slices.Equal(got, all(30)) {
		t.Errorf("after the second restart the master has %v, its slave has 30", got)
	}
}

// TestResetByJavaMembers: with useServerSideResetOffset=false the original's push
// consumer carries a reset out itself: all comes again, and that is committed.
func TestResetByJavaMembers(t *testing.T) {
	needJava(t)
	p := newPair(t, "useServerSideResetOffset=false")
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	p.mqctl(t, 0, "group", "create", group)
	ids := send(t, p.producer(t), 400, textMessage(topic))
	c := p.startConsumer(group, topic, "java", 0)
	committed := func(n *node) func() bool {
		return func() bool { return p.allCommitted(n, group, topic, scenarioQueues) }
	}
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	until(t, 30*time.Second, "all committed", committed(p.master))
	p.mqctl(t, 0, "offset", "reset", group, "--topic", topic, "--to", "earliest", "--yes")
	// The client stops for 10 s, so that what is under way ends, and goes back.
	until(t, 90*time.Second, "all comes again", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range ids {
			if c.ids[id] != 2 {
				return false
			}
		}
		return true
	})
	until(t, 30*time.Second, "all committed on both", func() bool { return committed(p.master)() && committed(p.slave)() })
	<-time.After(2 * time.Second)
	if n, _ := c.count(); n != 2*len(ids) {
		t.Errorf("%d messages came, want each of %d twice", n, len(ids))
	}
}
