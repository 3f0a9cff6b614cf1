//go:build scenarios && java

package compat

import (
	"fmt"
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
		"namesrvAddr=%s\nstorePathRootDir=%s\nstorePathCommitLog=%s/commitlog\nslaveReadEnable=true\n%s\n",
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
	p.synced(60 * time.Second)
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
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
	ids := send(t, p.producer(t), 12000, textMessage(topic))
	<-time.After(65 * time.Second) // the original's slave takes its first copy after 62 s
	before := p.progress(p.slave, group, topic, scenarioQueues)
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
	c.kill()
	if apache == 0 {
		again()
	} else {
		p.master.start()
	}
	until(t, 95*time.Second, "equal progress", func() bool {
		m, s := p.progress(p.master, group, topic, scenarioQueues), p.progress(p.slave, group, topic, scenarioQueues)
		for q := range m {
			if m[q] < onSlave[q] {
				return false
			}
		}
		return slices.Equal(m, s)
	})
}
