//go:build scenarios

package compat

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
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
		return sum(p.progress(p.slave, group, topic, scenarioQueues)) == int64(len(ids))
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

// TestBothKilled (S5): whoever returns first, no progress is lost that was on disk.
func TestBothKilled(t *testing.T) {
	for _, first := range []string{"master", "slave"} {
		t.Run(first+" first", func(t *testing.T) {
			p := newPair(t)
			topic, group := name(t, "t"), name(t, "g")
			topic, group = slug(topic), slug(group)
			p.pairTopic(topic, scenarioQueues)
			c := p.startConsumer(group, topic, "clustering", 0)
			ids := send(t, p.producer(t), 2000, textMessage(topic))
			until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
			until(t, 30*time.Second, "all committed", func() bool {
				return sum(p.progress(p.master, group, topic, scenarioQueues)) == int64(len(ids))
			})
			<-time.After(3 * time.Second) // saved on both
			c.kill()
			want := p.progress(p.master, group, topic, scenarioQueues)
			p.master.kill(syscall.SIGKILL)
			p.slave.kill(syscall.SIGKILL)
			a, b := p.master, p.slave
			if first == "slave" {
				a, b = b, a
			}
			a.start()
			if got := p.progress(a, group, topic, scenarioQueues); !slices.Equal(got, want) {
				t.Errorf("the first back has %v, want %v", got, want)
			}
			b.start()
			for _, n := range []*node{p.master, p.slave} {
				until(t, 5*time.Second, fmt.Sprintf("progress of broker %d", n.id), func() bool {
					return slices.Equal(p.progress(n, group, topic, scenarioQueues), want)
				})
			}
		})
	}
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
		return sum(p.progress(p.slave, group, topic, scenarioQueues)) == int64(len(ids))
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
		return sum(p.progress(p.slave, group, topic, scenarioQueues)) == int64(len(ids))
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
		return sum(p.progress(p.slave, group, topic, scenarioQueues)) == int64(len(ids))
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
	since := time.Now()
	busy := cpu(p.slave.proc.cmd.Process.Pid)
	until(t, 180*time.Second, "all consumed from the slave", func() bool { n, _ := c.has(ids); return n == len(ids) })
	pause := c.pause(since)
	used := cpu(p.slave.proc.cmd.Process.Pid) - busy
	t.Logf("longest pause %v; processor time of the slave %v in %v", pause.Round(time.Millisecond), used, time.Since(since).Round(time.Second))
	if pause > 80*time.Second {
		t.Errorf("consumption paused for %v", pause)
	}
	if used > time.Since(since)/4 {
		t.Errorf("the slave used %v of processor time in %v", used, time.Since(since))
	}
	back()
	until(t, 60*time.Second, "the pair in sync again", func() bool { return p.end(p.master) == p.end(p.slave) && p.inSync() == 1 })
	p.sameLogs()
}

// TestFlapping (S9): the master is killed and started again and again while
// messages flow with synchronous replication. Nothing acknowledged is lost.
func TestFlapping(t *testing.T) {
	p := newPair(t, "SYNC_MASTER")
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	c := p.startConsumer(group, topic, "clustering", 0)
	l := p.load(topic, 5*time.Millisecond, 512, 0)
	low, begun := make([]int64, scenarioQueues), time.Now()
	for i := range *scenarioFlaps {
		before, _ := l.count()
		until(t, 30*time.Second, "sends flow", func() bool { n, _ := l.count(); return n > before+20 })
		p.master.kill(syscall.SIGKILL)
		now := p.progress(p.slave, group, topic, scenarioQueues)
		for q := range now {
			now[q] = max(now[q], 0) // none yet
			if now[q] < low[q] {
				t.Fatalf("round %d, queue %d: progress fell from %d to %d", i, q, low[q], now[q])
			}
		}
		low = now
		p.master.start()
		until(t, time.Second, "progress reconciled", func() bool {
			m := p.progress(p.master, group, topic, scenarioQueues)
			for q := range m {
				if max(m[q], 0) < low[q] {
					return false
				}
			}
			return true
		})
		until(t, 20*time.Second, "slave in sync again", func() bool { return p.inSync() == 1 })
	}
	ids, errs := l.end()
	t.Logf("%d acknowledged, %d refused, statuses %v; %d kills in %v", len(ids), len(errs), l.statuses, *scenarioFlaps, time.Since(begun).Round(time.Second))
	until(t, 120*time.Second, "every acknowledged message consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	p.synced(20 * time.Second)
	p.sameLogs()
}

// TestPromote: the roles change there and back while a producer sends. It sees a
// pause under a second and no error, and nothing acknowledged is lost; the new
// roles survive restarts.
func TestPromote(t *testing.T) {
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 0)
	l := p.load(topic, 5*time.Millisecond, 512, 0)
	until(t, 30*time.Second, "messages flow", func() bool { n, _ := c.count(); return n > 200 })
	for round, id := range []string{"1", "0", "1"} {
		before := time.Now()
		items := p.json(0, "ha", "promote", pairName, "--id", id, "--planned", "--yes")
		if len(items) == 0 {
			t.Errorf("round %d: no steps shown", round)
		}
		t.Logf("round %d: id %s is master after %v", round, id, time.Since(before).Round(time.Millisecond))
		n, _ := l.count()
		until(t, 20*time.Second, "sends go on", func() bool { m, _ := l.count(); return m > n+200 })
		until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	}
	ids, errs := l.end()
	if len(errs) > 0 {
		t.Errorf("%d sends failed: %v", len(errs), errs[0])
	}
	if l.longest > time.Second {
		t.Errorf("the longest send took %v", l.longest)
	}
	t.Logf("%d acknowledged, longest send %v", len(ids), l.longest.Round(time.Millisecond))
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	for _, n := range []*node{p.master, p.slave} {
		n.kill(syscall.SIGTERM)
	}
	p.slave.start()
	p.master.start()
	until(t, 20*time.Second, "slave in sync after the restart", func() bool { return p.inSync() == 1 })
	p.mqctl(t, 0, "wait", "role", pairName+"/1", "--is", "ASYNC_MASTER", "--for", "10s")
	p.sameLogs()
}

// TestPromoteByForce: the master is dead and its slave takes over; the old master
// comes back as a slave, and what only it had is set aside in a file.
func TestPromoteByForce(t *testing.T) {
	p := newPair(t)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	prod := p.producer(t)
	kept := send(t, prod, 500, textMessage(topic))
	p.synced(20 * time.Second)
	p.slave.kill(syscall.SIGKILL)
	send(t, prod, 50, textMessage(topic)) // these the slave never gets
	tailEnd := p.end(p.master)
	p.master.kill(syscall.SIGKILL)
	p.slave.start()
	p.mqctl(t, 7, "ha", "promote", pairName, "--id", "1", "--force", "--max-loss", "1KiB", "--yes")
	p.json(0, "ha", "promote", pairName, "--id", "1", "--force", "--yes")
	var more []string
	until(t, 30*time.Second, "the new master takes sends", func() bool {
		res, err := p.producer(t).SendSync(context.Background(), primitive.NewMessage(topic, []byte("new")))
		if err != nil || res.Status != primitive.SendOK {
			return false
		}
		more = append(more, res.MsgID)
		return true
	})
	p.master.start()
	until(t, 60*time.Second, "the old master follows", func() bool { return p.inSync() == 1 && p.end(p.master) == p.end(p.slave) })
	p.sameLogs()
	aside, err := filepath.Glob(filepath.Join(p.master.dir, "mqctl", "cut-*"))
	if err != nil || len(aside) != 1 {
		t.Errorf("what only the old master had (up to %d) is not set aside: %v %v", tailEnd, aside, err)
	}
	c := p.startConsumer(name(t, "g"), topic, "clustering", 0)
	all := append(kept, more...)
	until(t, 60*time.Second, "all that was replicated, and what came after", func() bool { n, _ := c.has(all); return n == len(all) })
}

// missing says which of ids did not come: the first, and how many.
func (c *consumerProcess) missing(ids []string) (at []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		if c.ids[id] == 0 {
			at = append(at, i)
		}
	}
	return at
}

// TestUpgrade: both brokers are stopped and started in turn, as for a new version,
// with the pauses that the README gives. No send fails, nothing comes twice.
func TestUpgrade(t *testing.T) {
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 0)
	l := p.load(topic, 10*time.Millisecond, 512, 0)
	until(t, 30*time.Second, "messages flow", func() bool { n, _ := c.count(); return n > 200 })
	restart := func(n *node) {
		n.kill(syscall.SIGTERM)
		n.start()
		p.mqctl(t, 0, "wait", "ha", "--broker", pairName, "--max-gap", "0", "--for", "1m")
	}
	restart(p.slave)
	<-time.After(35 * time.Second)
	p.mqctl(t, 0, "ha", "promote", pairName, "--id", "1", "--planned", "--yes")
	<-time.After(65 * time.Second)
	restart(p.master)
	<-time.After(35 * time.Second)
	p.mqctl(t, 0, "ha", "promote", pairName, "--id", "0", "--planned", "--yes")
	<-time.After(10 * time.Second)
	ids, errs := l.end()
	if len(errs) > 0 {
		t.Errorf("%d of %d sends failed: %v", len(errs), len(ids)+len(errs), errs[0])
	}
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	_, twice := c.has(ids)
	t.Logf("%d sent, longest %v, %d came twice", len(ids), l.longest.Round(time.Millisecond), twice)
	if twice > 0 {
		t.Errorf("%d of %d came twice", twice, len(ids))
	}
}
