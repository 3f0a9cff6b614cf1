//go:build scenarios

package compat

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// TestSlaveKilledSync (S1): a synchronous master answers that no slave is there,
// at once, and stores the message.
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
	ids, errs := l.end()
	other := 0
	for status, n := range l.statuses {
		if status != 0 {
			other += n
			t.Logf("status %v: %d", status, n)
		}
	}
	if len(errs) > 0 || other == 0 {
		t.Errorf("%d acknowledged, %d failed (%v), statuses %v", len(ids), len(errs), errs, l.statuses)
	}
	if other < 100 {
		t.Errorf("only %d sends in 5 s without a slave: each seems to wait", other)
	}
}

// TestSlaveBack (S2): the slave comes back after much was sent, and catches up
// while senders go on.
func TestSlaveBack(t *testing.T) { slaveBack(t, "clustering") }

func slaveBack(t *testing.T, client string) {
	t.Helper()
	p := newPair(t)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(name(t, "g"), topic, client, 0)
	p.synced(20 * time.Second)
	p.slave.kill(syscall.SIGTERM)
	started := p.end(p.master)
	var loads []*load
	for range 4 {
		loads = append(loads, p.load(topic, 50*time.Microsecond, 60<<10, 0))
	}
	until(t, 20*time.Minute, "bytes sent", func() bool { return p.end(p.master)-started >= *scenarioBytes })
	for _, l := range loads {
		if _, errs := l.end(); len(errs) > 0 {
			t.Errorf("%d sends failed: %v", len(errs), errs[0])
		}
	}
	slow := p.load(topic, 2*time.Millisecond, 4<<10, 0)
	p.slave.start()
	back := time.Now()
	until(t, 5*time.Minute, "gap 0 while senders go on", func() bool { return p.gap() == 0 })
	t.Logf("%d MiB caught up in %v", (p.end(p.slave)-started)>>20, time.Since(back).Round(time.Millisecond))
	n, _ := slow.count()
	ids, errs := slow.end()
	if len(errs) > 0 || n == 0 {
		t.Errorf("%d sends during the catch-up, %d failed: %v", n, len(errs), errs)
	}
	t.Cleanup(func() {
		if t.Failed() {
			messages, _ := c.count()
			found, twice := c.has(ids)
			t.Logf("the consumer got %d messages, %d of the newest %d, %d more than once", messages, found, len(ids), twice)
		}
	})
	until(t, 4*time.Minute, "all consumed that was sent meanwhile", func() bool { n, _ := c.has(ids); return n == len(ids) })
	p.synced(20 * time.Second)
	p.sameLogs()
	until(t, 20*time.Second, "queues dispatched", func() bool {
		for q := range scenarioQueues {
			if p.number(p.master, 30, "", topic, q) != p.number(p.slave, 30, "", topic, q) {
				return false
			}
		}
		return true
	})
	p.sameQueues(topic, scenarioQueues)
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
	atKill := p.progress(p.slave, group, topic, scenarioQueues)
	// What is cached still comes for a while; a pause, then the slave.
	until(t, 90*time.Second, "all consumed from the slave", func() bool { n, _ := c.has(ids); return n == len(ids) })
	t.Logf("longest pause after the kill: %v", c.pause(killed).Round(time.Millisecond))
	if pause := c.pause(killed); pause > 35*time.Second {
		t.Errorf("consumption paused for %v", pause)
	}
	if _, twice := c.has(ids); twice > 0 {
		t.Logf("%d came more than once to a consumer that lived on", twice)
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
func TestMasterAndConsumerKilled(t *testing.T) {
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "clustering", 10*time.Millisecond)
	ids := send(t, p.producer(t), 8000, textMessage(topic))
	p.synced(20 * time.Second)
	until(t, 60*time.Second, "2000 consumed", func() bool { n, _ := c.count(); return n > 2000 })
	// The Go client commits every 5 s; the next commit is on the slave a second later.
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
	next := p.startConsumer(group, topic, "clustering", 0)
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

// TestOtherConsumers (S7): orderly and broadcasting consumers over the master's
// death and return.
func TestOtherConsumers(t *testing.T) {
	p := newPair(t)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	orderly := p.startConsumer(name(t, "o"), topic, "orderly", 5*time.Millisecond)
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
	p.master.start()
	until(t, 60*time.Second, "the master takes sends", func() bool {
		_, err := ask(p.master.addr, 28, nil)
		return err == nil
	})
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
	low := make([]int64, scenarioQueues)
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
	t.Logf("%d acknowledged, %d refused, statuses %v", len(ids), len(errs), l.statuses)
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

// TestManyTopics (S11): a slave gets the tables of a large master at once, and
// what changes within a second.
func TestManyTopics(t *testing.T) {
	const topics, queues, groups = 10_000, 8, 1_000
	p := newNameserver(t)
	p.master, p.slave = p.node(0), p.node(1)
	p.broker.addr = p.master.addr
	writeTables(t, p.master.dir, topics, queues, groups)
	p.run()
	ready := time.Now()
	last := fmt.Sprintf("topic-%d", topics-1)
	until(t, 5*time.Second, "all tables on the slave", func() bool {
		res, err := ask(p.slave.addr, 351, map[string]string{"topic": last})
		return err == nil && res.Code == 0 && p.number(p.slave, 14, fmt.Sprintf("group-%d", (topics-1)%groups), last, queues-1) == 7
	})
	t.Logf("tables on the slave %v after it was ready; %d KiB resident", time.Since(ready).Round(time.Millisecond), resident(p.slave.proc.cmd.Process.Pid))
	for i := range 5 {
		made := fmt.Sprintf("made-%d", i)
		begin := time.Now()
		p.createTopic(t, made, queues)
		created := time.Now()
		until(t, 2*time.Second, "new topic on the slave", func() bool {
			res, err := ask(p.slave.addr, 351, map[string]string{"topic": made})
			return err == nil && res.Code == 0
		})
		t.Logf("made in %v, on the slave %v later", created.Sub(begin).Round(time.Millisecond), time.Since(created).Round(time.Millisecond))
	}
}

// writeTables makes the configuration of a broker with many topics.
func writeTables(t *testing.T, dir string, topics, queues, groups int) {
	t.Helper()
	type object = map[string]any
	version := object{"counter": 1, "timestamp": 1, "stateVersion": 0}
	table, progress, subs := object{}, object{}, object{}
	for i := range topics {
		topic := fmt.Sprintf("topic-%d", i)
		table[topic] = object{"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
			"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": false, "attributes": object{}}
		row := object{}
		for q := range queues {
			row[fmt.Sprint(q)] = 7
		}
		progress[fmt.Sprintf("%s@group-%d", topic, i%groups)] = row
	}
	for i := range groups {
		group := fmt.Sprintf("group-%d", i)
		subs[group] = object{"groupName": group, "consumeEnable": true, "consumeFromMinEnable": true, "consumeBroadcastEnable": true,
			"retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": true}
	}
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, doc := range map[string]object{
		"topics.json":            {"dataVersion": version, "topicConfigTable": table},
		"subscriptionGroup.json": {"dataVersion": version, "subscriptionGroupTable": subs},
		"consumerOffset.json":    {"dataVersion": version, "offsetTable": progress},
	} {
		text, err := json.Marshal(doc)
		if err == nil {
			err = os.WriteFile(filepath.Join(config, file), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// resident is the memory of a process in KiB.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
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
