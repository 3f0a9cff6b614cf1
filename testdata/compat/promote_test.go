//go:build scenarios

package compat

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

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
	p.mqctl(t, 0, "wait", "role", p.slave.addr, "--is", "ASYNC_MASTER", "--for", "10s")
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
	common := p.end(p.slave)
	log, err := os.ReadFile(filepath.Join(p.master.dir, "commitlog", fmt.Sprintf("%020d", 0)))
	if err != nil || tailEnd <= common {
		t.Fatal(common, tailEnd, err)
	}
	tail := slices.Clone(log[common:tailEnd])
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
	p.setAside(common, tail)
	c := p.startConsumer(name(t, "g"), topic, "clustering", 0)
	all := append(kept, more...)
	until(t, 60*time.Second, "all that was replicated, and what came after", func() bool { n, _ := c.has(all); return n == len(all) })
}

// setAside checks that the old master keeps the tail that only it had, from common, in
// one file, and that stats ha and its log name that.
func (p *pair) setAside(common int64, tail []byte) {
	p.t.Helper()
	aside, err := filepath.Glob(filepath.Join(p.master.dir, "mqctl", "cut-*"))
	if err != nil || len(aside) != 1 {
		p.t.Errorf("what only the old master had is not set aside: %v %v", aside, err)
		return
	}
	got, err := os.ReadFile(aside[0])
	if err != nil || !bytes.Equal(got, tail) {
		p.t.Errorf("%s has not the %d bytes behind %d: %d bytes, %v", aside[0], len(tail), common, len(got), err)
	}
	if want := fmt.Sprintf("cut-%020d-%020d-", common, common+int64(len(tail))); !strings.Contains(aside[0], want) {
		p.t.Errorf("%s is not called %s", aside[0], want)
	}
	named := false
	for _, i := range p.json(0, "stats", "ha", "--broker", pairName) {
		files, _ := i["asideFiles"].([]any)
		for _, f := range files {
			named = named || f.(map[string]any)["file"] == aside[0]
		}
	}
	if text, err := os.ReadFile(p.master.dir + ".log"); !named || err != nil || !bytes.Contains(text, []byte(filepath.Base(aside[0]))) {
		p.t.Errorf("%s: in stats ha %v; the log of the old master: %v\n%s", aside[0], named, err, text)
	}
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
