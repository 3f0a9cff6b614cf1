//go:build scenarios

package compat

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// The role events that a pair must survive, each with real processes, a
// nameserver of its own and the official Go client. make scenarios runs all.

var (
	scenarioBytes = flag.Int64("scenario.bytes", 1<<30, "bytes sent while the slave is away in TestSlaveBack")
	scenarioFlaps = flag.Int("scenario.flaps", 20, "how often TestFlapping kills the master")
)

const scenarioQueues = 4

// TestSlaveKilled (S1): the master serves all, no send fails, and operators see
// within 2 s that the slave is gone.
func TestSlaveKilled(t *testing.T) { slaveKilled(t, "clustering") }

func slaveKilled(t *testing.T, client string) {
	t.Helper()
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, client, 0)
	l := p.load(topic, 2*time.Millisecond, 1024, 0)
	until(t, 60*time.Second, "messages flow", func() bool { n, _ := c.count(); return n > 200 })
	until(t, 10*time.Second, "stats ha with the slave in sync", func() bool { return p.inSync() == 1 })
	p.slave.kill(syscall.SIGKILL)
	down := time.Now()
	until(t, 2*time.Second, "stats ha without the slave", func() bool { return p.inSync() == 0 })
	t.Logf("seen after %v", time.Since(down).Round(time.Millisecond))
	<-time.After(3 * time.Second)
	ids, errs := l.end()
	if len(errs) > 0 || l.statuses[0] != len(ids) {
		t.Errorf("%d sends failed, first: %v; statuses %v", len(errs), errs, l.statuses)
	}
	until(t, 30*time.Second, "all consumed from the master", func() bool { n, _ := c.has(ids); return n == len(ids) })
}

// inSync is the number of slaves in sync that stats ha shows.
func (p *pair) inSync() int {
	items := p.json(0, "stats", "ha", "--broker", pairName)
	for _, i := range items {
		if v, ok := i["inSyncSlaves"].(float64); ok {
			return int(v)
		}
	}
	return -1
}

// TestSlaveKilledSync (S1): a synchronous master answers SLAVE_NOT_AVAILABLE at once
// when no slave is there, FLUSH_SLAVE_TIMEOUT at most to what was under way, and stores
// the messages.
func TestSlaveKilledSync(t *testing.T) {
	p := newPair(t, "SYNC_MASTER")
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	p.synced(20 * time.Second)
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	l := p.load(topic, 5*time.Millisecond, 1024, 0)
	until(t, 20*time.Second, "100 messages", func() bool { n, _ := l.count(); return n > 100 })
	p.slave.kill(syscall.SIGKILL)
	<-time.After(5 * time.Second)
	_, errs := l.end()
	statuses := map[string]int{}
	for status, n := range l.statuses {
		statuses[map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK", primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
			primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT"}[status]] += n
	}
	if len(errs) > 0 {
		t.Errorf("%d sends failed: %v", len(errs), errs[0])
	}
	p.alone(topic, statuses, 0)
}

// alone checks what a synchronous master answered around the death of its only slave;
// as many sends as late were not waited for, and may have been stored.
func (p *pair) alone(topic string, statuses map[string]int, late int) {
	t := p.t
	t.Helper()
	sent := 0
	for _, n := range statuses {
		sent += n
	}
	t.Logf("statuses %v", statuses)
	if n := statuses["SLAVE_NOT_AVAILABLE"]; n < 100 {
		t.Errorf("only %d sends in 5 s were told that no slave is there: each seems to wait", n)
	}
	// One sender has one message under way.
	if rest := sent - statuses["SEND_OK"] - statuses["SLAVE_NOT_AVAILABLE"] - statuses["FLUSH_SLAVE_TIMEOUT"]; rest > 0 || statuses["FLUSH_SLAVE_TIMEOUT"] > 1 {
		t.Errorf("%d sends had other answers", rest)
	}
	stored := int64(0)
	for q := range scenarioQueues {
		stored += p.number(p.master, 30, "", topic, q)
	}
	if stored < int64(sent) || stored > int64(sent+late) {
		t.Errorf("%d messages are stored, %d sends were answered, and %d were not waited for", stored, sent, late)
	}
}

// gap is what stats ha shows for the only slave, -1 if there is none.
func (p *pair) gap() int64 {
	for _, i := range p.json(0, "stats", "ha", "--broker", pairName) {
		if list, ok := i["connections"].([]any); ok {
			for _, c := range list {
				if g, ok := c.(map[string]any)["gapBytes"].(float64); ok {
					return int64(g)
				}
			}
		}
	}
	return -1
}

// TestMasterKilled (S3, S4): the master dies while a consumer is behind. It goes
// on from the slave where it was; when the master is back, progress is equal on
// both and on neither lower than before.
func TestMasterKilled(t *testing.T) { masterKilled(t, "clustering") }

func masterKilled(t *testing.T, client string) {
	t.Helper()
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, client, 20*time.Millisecond)
	ids := send(t, p.producer(t), 12000, textMessage(topic))
	p.synced(20 * time.Second)
	until(t, 60*time.Second, "some consumed and committed", func() bool {
		n, _ := c.count()
		return n > 1000 && sum(p.progress(p.slave, group, topic, scenarioQueues)) > 0
	})
	p.master.kill(syscall.SIGKILL)
	killed := time.Now()
	came, _ := c.count()
	atKill := p.progress(p.slave, group, topic, scenarioQueues)
	// What is cached still comes for a while; a pause, then the slave.
	until(t, 90*time.Second, "all consumed from the slave", func() bool { n, _ := c.has(ids); return n == len(ids) })
	t.Logf("longest pause after the kill: %v", c.pause(killed).Round(time.Millisecond))
	if pause := c.pause(killed); pause > 35*time.Second {
		t.Errorf("consumption paused for %v", pause)
	}
	if _, twice := c.has(ids); int64(twice) > max(0, int64(came)-sum(atKill)) {
		t.Errorf("%d came more than once to a consumer that lived on: %d had come, and %d of them were committed on the slave", twice, came, sum(atKill))
	}
	until(t, 60*time.Second, "commits kept by the slave", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	onSlave := p.progress(p.slave, group, topic, scenarioQueues)
	t.Logf("progress on the slave: %v at the kill, %v now", atKill, onSlave)

	p.master.start() // returns when it is registered
	back := time.Now()
	until(t, 2*time.Second, "equal progress on both", func() bool {
		return slices.Equal(p.progress(p.master, group, topic, scenarioQueues), p.progress(p.slave, group, topic, scenarioQueues))
	})
	t.Logf("equal %v after the registration", time.Since(back).Round(time.Millisecond))
	if got := p.progress(p.master, group, topic, scenarioQueues); !slices.Equal(got, onSlave) {
		t.Errorf("progress went from %v on the slave to %v on the master", onSlave, got)
	}
	c.kill()
	again := p.startConsumer(group, topic, client, 0)
	more := send(t, p.producer(t), 50, textMessage(topic))
	until(t, 60*time.Second, "new messages", func() bool { n, _ := again.has(more); return n == len(more) })
	if n, _ := again.count(); n != len(more) {
		t.Errorf("%d messages came again after the return", n-len(more))
	}
	p.synced(20 * time.Second)
	p.sameLogs()
}

// pause is the longest time between two messages after at.
func (c *consumerProcess) pause(at time.Time) (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := at
	for _, m := range c.got {
		if m.at.After(at) {
			longest = max(longest, m.at.Sub(last))
			last = m.at
		}
	}
	return longest
}

// TestMasterAndConsumerKilled (S3): a consumer that starts on the slave sees at
// most the last second of commits again.
func TestMasterAndConsumerKilled(t *testing.T) { masterAndConsumerKilled(t, "clustering") }

func masterAndConsumerKilled(t *testing.T, client string) {
	t.Helper()
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, client, 10*time.Millisecond)
	ids := send(t, p.producer(t), 8000, textMessage(topic))
	p.synced(20 * time.Second)
	until(t, 60*time.Second, "2000 consumed", func() bool { n, _ := c.count(); return n > 2000 })
	// The clients commit every 5 s; the next commit is on the slave a second later.
	before := sum(p.progress(p.master, group, topic, scenarioQueues))
	until(t, 20*time.Second, "a commit", func() bool { return sum(p.progress(p.master, group, topic, scenarioQueues)) > before })
	committed := p.progress(p.master, group, topic, scenarioQueues)
	<-time.After(1500 * time.Millisecond)
	p.master.kill(syscall.SIGKILL)
	c.kill()
	held := p.progress(p.slave, group, topic, scenarioQueues)
	for q := range held {
		if held[q] < committed[q] {
			t.Errorf("queue %d: the slave holds %d, committed a second and a half before the kill: %d", q, held[q], committed[q])
		}
	}
	next := p.startConsumer(group, topic, client, 0)
	until(t, 60*time.Second, "the rest from the slave", func() bool {
		n, _ := next.count()
		return int64(n) >= int64(len(ids))-sum(held)
	})
	<-time.After(2 * time.Second)
	if n, _ := next.count(); int64(n) != int64(len(ids))-sum(held) {
		t.Errorf("%d came, %d were not committed", n, int64(len(ids))-sum(held))
	}
}

// TestBothKilled (S5): whoever returns first, no progress is lost that was on disk at
// either, also if one of them had died earlier and missed what was committed later.
func TestBothKilled(t *testing.T) {
	for _, ahead := range []int{-1, 0, 1} {
		for first := range 2 {
			who := map[int]string{-1: "neither", 0: "the master", 1: "the slave"}[ahead]
			t.Run(fmt.Sprintf("%s ahead and broker %d first", who, first), func(t *testing.T) { bothKilled(t, ahead, first) })
		}
	}
}

func bothKilled(t *testing.T, ahead, first int) {
	p := newPair(t)
	topic, group := slug(name(t, "t")), slug(name(t, "g"))
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 0)
	ids := send(t, p.producer(t), 2000, textMessage(topic))
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	until(t, 30*time.Second, "all committed, on both", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	c.kill()
	want := p.progress(p.master, group, topic, scenarioQueues)
	onDisk := func(n *node, want []int64) {
		t.Helper()
		until(t, 20*time.Second, fmt.Sprintf("progress on the disk of broker %d", n.id), func() bool {
			return slices.Equal(savedProgress(t, n.dir, group, topic), want)
		})
	}
	nodes := []*node{p.master, p.slave}
	for _, n := range nodes {
		onDisk(n, want)
	}
	stale := slices.Clone(want)
	if ahead >= 0 {
		nodes[1-ahead].kill(syscall.SIGKILL)
		// What it misses: a commit further on, as a consumer's.
		for q := range want {
			want[q] += int64(q + 1)
			ext := map[string]string{"consumerGroup": group, "topic": topic, "queueId": fmt.Sprint(q), "commitOffset": fmt.Sprint(want[q])}
			if err := done(ask(nodes[ahead].addr, 15, ext)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, n := range nodes {
		if ahead == i || ahead < 0 {
			onDisk(n, want)
			n.kill(syscall.SIGKILL)
		}
	}
	nodes[first].start()
	has := want
	if ahead == 1-first {
		has = stale
	}
	if got := p.progress(nodes[first], group, topic, scenarioQueues); !slices.Equal(got, has) {
		t.Errorf("the first back has %v, want %v", got, has)
	}
	nodes[1-first].start()
	for _, n := range nodes {
		until(t, 5*time.Second, fmt.Sprintf("progress of broker %d", n.id), func() bool {
			return slices.Equal(p.progress(n, group, topic, scenarioQueues), want)
		})
	}
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	p.synced(20 * time.Second)
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
}

// savedProgress is what config/consumerOffset.json says.
func savedProgress(t *testing.T, dir, group, topic string) []int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config", "consumerOffset.json"))
	var doc struct{ OffsetTable map[string]map[int]int64 }
	if err == nil {
		err = json.Unmarshal(bareKeys.ReplaceAll(text, []byte(`$1"$2":`)), &doc)
	}
	if err != nil {
		t.Log(err)
		return nil
	}
	row := doc.OffsetTable[topic+"@"+group]
	out := make([]int64, 0, len(row))
	for q := range len(row) {
		out = append(out, row[q])
	}
	return out
}

// slug makes a legal name of a subtest's name.
func slug(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			out[i] = '_'
		}
	}
	return string(out)
}

// TestResetWhileSlaveDown (S6): a reset backward at the master wins once both are
// back, and neither a kill nor a return undoes it.
func TestResetWhileSlaveDown(t *testing.T) {
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 0)
	ids := send(t, p.producer(t), 1000, textMessage(topic))
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	until(t, 30*time.Second, "all committed, on both", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	c.kill()
	<-time.After(3 * time.Second)
	p.slave.kill(syscall.SIGKILL)
	for q := range scenarioQueues {
		res, err := ask(p.master.addr, 15, map[string]string{"consumerGroup": group, "topic": topic, "queueId": fmt.Sprint(q),
			"commitOffset": "10", "reset": "true"})
		if err != nil || res.Code != 0 {
			t.Fatal(res, err)
		}
	}
	want := []int64{10, 10, 10, 10}
	if got := p.progress(p.master, group, topic, scenarioQueues); !slices.Equal(got, want) {
		t.Fatalf("after the reset the master has %v", got)
	}
	p.slave.start()
	until(t, 5*time.Second, "reset on the slave", func() bool {
		return slices.Equal(p.progress(p.slave, group, topic, scenarioQueues), want)
	})
	<-time.After(2 * time.Second) // saved
	p.master.kill(syscall.SIGKILL)
	p.master.start()
	until(t, 5*time.Second, "reset on both after the master's return", func() bool {
		return slices.Equal(p.progress(p.slave, group, topic, scenarioQueues), want) &&
			slices.Equal(p.progress(p.master, group, topic, scenarioQueues), want)
	})
	next := p.startConsumer(group, topic, "clustering", 0)
	until(t, 60*time.Second, "what was reset comes again", func() bool {
		n, _ := next.count()
		return n >= len(ids)-40
	})
	if n, _ := next.count(); n != len(ids)-40 {
		t.Errorf("%d came again, want %d", n, len(ids)-40)
	}
}

// TestResetWhileSlaveServes (S6): a reset backward by the tool while a consumer reads
// from the slave. The consumer goes back; the master dies at once, and when it returns
// nobody has undone the reset.
func TestResetWhileSlaveServes(t *testing.T) {
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	p.mqctl(t, 0, "group", "create", group, "--broker-id", "1")
	c := p.startConsumer(group, topic, "clustering", 0)
	ids := send(t, p.producer(t), 1000, textMessage(topic))
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	until(t, 30*time.Second, "all committed, on both", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	until(t, 60*time.Second, "pulls at the slave", func() bool {
		for _, row := range p.json(0, "stats", "pull", "--group", group, "--broker", pairName) {
			if row["brokerId"] == 1.0 && row["pulls"].(float64) > 0 {
				return true
			}
		}
		return false
	})
	before, _ := c.count()
	p.mqctl(t, 0, "offset", "reset", group, "--topic", topic, "--to", "earliest", "--yes")
	p.master.kill(syscall.SIGKILL)
	until(t, 90*time.Second, "all comes again, from the slave", func() bool { n, _ := c.count(); return n >= before+len(ids) })
	until(t, 60*time.Second, "committed to the slave", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	p.master.start()
	until(t, 2*time.Second, "equal progress on both", func() bool {
		return sum(p.progress(p.master, group, topic, scenarioQueues)) == int64(len(ids)) &&
			slices.Equal(p.progress(p.master, group, topic, scenarioQueues), p.progress(p.slave, group, topic, scenarioQueues))
	})
	<-time.After(5 * time.Second)
	if n, _ := c.count(); n != before+len(ids) {
		t.Errorf("%d messages came after the reset, want %d", n-before, len(ids))
	}
}

// TestOtherConsumers (S7): orderly and broadcasting consumers over the master's
// death and return.
func TestOtherConsumers(t *testing.T) {
	p := newPair(t)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	orderlyGroup := name(t, "o")
	orderly := p.startConsumer(orderlyGroup, topic, "orderly", 5*time.Millisecond)
	broadcast := p.startConsumer(name(t, "b"), topic, "broadcast", 5*time.Millisecond)
	retry := p.startConsumer(name(t, "r"), topic, "retry", 5*time.Millisecond)
	ids := send(t, p.producer(t), 6000, textMessage(topic))
	p.synced(20 * time.Second)
	until(t, 60*time.Second, "both consume", func() bool {
		a, _ := orderly.count()
		b, _ := broadcast.count()
		return a > 300 && b > 300
	})
	p.master.kill(syscall.SIGKILL)
	until(t, 100*time.Second, "both have all from the slave", func() bool {
		a, _ := orderly.has(ids)
		b, _ := broadcast.has(ids)
		return a == len(ids) && b == len(ids)
	})
	orderly.inOrder(t)
	p.locksTaken(p.slave, topic, orderlyGroup)
	p.master.start()
	p.locksTaken(p.master, topic, orderlyGroup) // handed back with what is left of them, before it serves
	more := send(t, p.producer(t), 500, textMessage(topic))
	until(t, 100*time.Second, "both have what came after the return", func() bool {
		a, _ := orderly.has(more)
		b, _ := broadcast.has(more)
		return a == len(more) && b == len(more)
	})
	orderly.inOrder(t)
	// Refused messages wait for a master that takes them back.
	all := append(slices.Clone(ids), more...)
	defer func() {
		if n, _ := retry.has(all); n < len(all) {
			m, u := retry.count()
			t.Logf("%d of %d came, %d messages %d ids; missing: first of ids %d, of more %d", n, len(all), m, u, retry.missing(ids), retry.missing(more))
		}
	}()
	until(t, 100*time.Second, "every message that was refused once came again", func() bool {
		n, _ := retry.has(all)
		return n == len(all)
	})
}

// locksTaken checks that a broker holds the queues of a group for somebody: another
// client gets none.
func (p *pair) locksTaken(n *node, topic, group string) {
	p.t.Helper()
	w, err := dialWire(n.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.c.Close()
	var queues []map[string]any
	for q := range scenarioQueues {
		queues = append(queues, map[string]any{"topic": topic, "brokerName": pairName, "queueId": q})
	}
	text, _ := json.Marshal(map[string]any{"clientId": "a-stranger", "consumerGroup": group, "mqSet": queues})
	res, err := w.call(41, nil, text)
	var got struct{ LockOKMQSet []any }
	if err == nil {
		err = json.Unmarshal(res.Body, &got)
	}
	if err != nil || len(got.LockOKMQSet) > 0 {
		p.t.Errorf("broker %d gives a stranger %d queues of an orderly group that lives: %v %+v", n.id, len(got.LockOKMQSet), err, res)
	}
}

// inOrder checks that the messages of each queue first came in their order.
func (c *consumerProcess) inOrder(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := map[int]int64{}
	seen := map[string]bool{}
	for _, m := range c.got {
		if seen[m.id] {
			continue
		}
		seen[m.id] = true
		if prev, ok := last[m.queue]; ok && m.offset != prev+1 {
			t.Errorf("queue %d: %d came after %d", m.queue, m.offset, prev)
		}
		last[m.queue] = m.offset
	}
}

// TestMasterFrozen (S8): the master stops without closing its connections.
// Consumers read from the slave in time, and nothing spins.
func TestMasterFrozen(t *testing.T) {
	p := newPair(t)
	p.masterSilent(
		func() { p.master.proc.kill(syscall.SIGSTOP) },
		func() { p.master.proc.kill(syscall.SIGCONT) })
}

// TestMasterCut (S8): the network between the master and everybody else, its
// nameserver included, swallows everything without closing a connection.
func TestMasterCut(t *testing.T) {
	const outside = "127.0.0.2" // where the others see the master
	p := newNameserver(t)
	relays := []*relay{newRelay(t, "127.0.0.1:0", p.namesrv)}
	p.master, p.slave = p.node(0, "brokerIP1="+outside, "brokerIP2="+outside), p.node(1)
	for i, a := range p.master.args {
		if a == "-n" {
			p.master.args[i+1] = relays[0].l.Addr().String()
		}
	}
	for _, addr := range []string{p.master.addr, p.master.fast(), p.master.ha} {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		relays = append(relays, newRelay(t, net.JoinHostPort(outside, port), addr))
	}
	p.broker.addr = p.master.addr
	p.run()
	set := func(cut bool) func() {
		return func() {
			for _, r := range relays {
				r.cut.Store(cut)
			}
		}
	}
	p.masterSilent(set(true), set(false))
}

func (p *pair) masterSilent(silence, back func()) {
	t := p.t
	t.Helper()
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 10*time.Millisecond)
	ids := send(t, p.producer(t), 12000, textMessage(topic))
	p.synced(20 * time.Second)
	until(t, 60*time.Second, "some consumed", func() bool { n, _ := c.count(); return n > 1000 })
	silence()
	since, begun := time.Now(), awake.Load()
	watched := map[string]int{"slave": p.slave.proc.cmd.Process.Pid, "consumer": c.cmd.Process.Pid, "nameserver": p.ns.cmd.Process.Pid}
	before := map[string]time.Duration{}
	for who, pid := range watched {
		before[who] = cpu(pid)
	}
	lines := logLines(t, p.slave.dir+".log")
	// It registered with a heartbeat timeout of 10 s; the nameserver looks every 5 s.
	until(t, 20*time.Second, "the nameserver without the master", func() bool { return !p.masterRouted(topic) })
	t.Logf("out of the route after %v", sinceAwake(begun).Round(100*time.Millisecond))
	until(t, 180*time.Second, "all consumed from the slave", func() bool { n, _ := c.has(ids); return n == len(ids) })
	pause := c.pause(since)
	t.Logf("longest pause %v", pause.Round(time.Millisecond))
	if pause > 80*time.Second {
		t.Errorf("consumption paused for %v", pause)
	}
	<-time.After(10 * time.Second) // with nothing left to read
	for who, pid := range watched {
		used, all := cpu(pid)-before[who], time.Since(since)
		t.Logf("processor time of the %s: %v in %v", who, used, all.Round(time.Second))
		if used > all/4 {
			t.Errorf("the %s used %v of processor time in %v", who, used, all)
		}
	}
	if n := logLines(t, p.slave.dir+".log") - lines; n > 100 {
		t.Errorf("the slave wrote %d lines into its log", n)
	}
	until(t, 20*time.Second, "all committed to the slave", func() bool {
		return p.allCommitted(p.slave, group, topic, scenarioQueues)
	})
	back()
	until(t, 60*time.Second, "the pair in sync again", func() bool { return p.end(p.master) == p.end(p.slave) && p.inSync() == 1 })
	until(t, 30*time.Second, "the slave's progress at the master", func() bool {
		return p.masterRouted(topic) && sum(p.progress(p.master, group, topic, scenarioQueues)) == int64(len(ids))
	})
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
}

// masterRouted says whether the route of a topic names the master's own address.
func (p *pair) masterRouted(topic string) bool {
	res, err := ask(p.namesrv, 105, map[string]string{"topic": topic})
	if err != nil || res.Code != 0 {
		p.t.Fatalf("route: %v %+v", err, res)
	}
	_, port, err := net.SplitHostPort(p.master.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	return bytes.Contains(res.Body, []byte(":"+port+`"`))
}

func logLines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// TestFlapping (S9): the master is killed and started again every nine seconds while
// messages flow with synchronous replication. Nothing acknowledged is lost, each return
// reconciles in a second, and progress is never lower than a round of exchange before.
func TestFlapping(t *testing.T) {
	const slot, senders = 9 * time.Second, 3
	p := newPair(t, "SYNC_MASTER")
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	c := p.startConsumer(group, topic, "clustering", 0)
	from := time.Now()
	var loads []*load
	sent := func() (n int) {
		for _, l := range loads {
			ok, _ := l.count()
			n += ok
		}
		return n
	}
	begun, flowed, killed, slowest := awake.Load(), 0, time.Duration(0), time.Duration(0)
	for i := range *scenarioFlaps {
		round := awake.Load()
		// One that asks for its route while the master is away cannot send for 30 s. They
		// ask at different times.
		if i < senders {
			loads = append(loads, p.load(topic, 5*time.Millisecond, 512, 0))
		}
		before, flows := sent(), false
		until(t, 30*time.Second, "messages flow", func() bool {
			flows = sent() > before+20
			return flows || sinceAwake(round) > slot/2
		})
		if flows {
			flowed++
		}
		low := p.progress(p.master, group, topic, scenarioQueues)
		// A round of exchange, 0.9 s, which a busy machine draws out.
		exchange := awake.Load()
		until(t, 10*time.Second, "a round of exchange", func() bool {
			for q, at := range p.progress(p.slave, group, topic, scenarioQueues) {
				if at < low[q] {
					return false
				}
			}
			return true
		})
		slowest = max(slowest, sinceAwake(exchange))
		p.master.kill(syscall.SIGKILL)
		killed = sinceAwake(begun)
		for q, at := range p.progress(p.slave, group, topic, scenarioQueues) {
			if at < low[q] {
				t.Errorf("round %d, queue %d: the slave had %d before its master was killed, and has %d", i, q, low[q], at)
			}
			low[q] = max(low[q], at)
		}
		p.master.start()
		until(t, time.Second, "progress reconciled", func() bool {
			m, s := p.progress(p.master, group, topic, scenarioQueues), p.progress(p.slave, group, topic, scenarioQueues)
			for q := range m {
				if min(m[q], s[q]) < low[q] {
					return false
				}
			}
			return true
		})
		until(t, 20*time.Second, "slave in sync again", func() bool { return p.inSync() == 1 })
		until(t, 30*time.Second, "the round's end", func() bool { return sinceAwake(begun) >= time.Duration(i+1)*slot })
	}
	var ids []string
	refused, statuses := 0, map[primitive.SendStatus]int{}
	for _, l := range loads {
		ok, errs := l.end()
		ids, refused = append(ids, ok...), refused+len(errs)
		for s, n := range l.statuses {
			statuses[s] += n
		}
	}
	t.Logf("%d acknowledged, %d refused, statuses %v; %d kills within %v, messages flowed before %d; progress was at the slave after %v at most",
		len(ids), refused, statuses, *scenarioFlaps, killed.Round(time.Second), flowed, slowest.Round(100*time.Millisecond))
	if *scenarioFlaps >= 20 && killed > time.Duration(*scenarioFlaps)*slot {
		t.Errorf("%d kills took %v", *scenarioFlaps, killed)
	}
	if flowed < (*scenarioFlaps+1)/2 {
		t.Errorf("messages flowed before %d of %d kills only", flowed, *scenarioFlaps)
	}
	until(t, 120*time.Second, "every acknowledged message consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	// The Go client waits 30 s for the answer to a pull whose connection is gone.
	pause := c.pause(from)
	t.Logf("longest pause of the consumer %v", pause.Round(time.Second))
	if pause > 60*time.Second {
		t.Errorf("nothing was consumed for %v", pause)
	}
	p.synced(20 * time.Second)
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
}
