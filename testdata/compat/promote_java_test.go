//go:build scenarios && java

package compat

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// javaLoad is the original's producer in a process of its own, which sends until it is
// told to end.
type javaLoad struct {
	in   io.WriteCloser
	done chan error

	mu       sync.Mutex
	ids      []string // SEND_OK
	statuses map[string]int
	failed   []string
	longest  time.Duration // of the sends that were answered
	lastOK   time.Time
}

func (p *pair) javaLoad(topic string, every time.Duration, retries int) *javaLoad {
	p.t.Helper()
	cmd := javaCommand(p.t.TempDir(), 192, nil, "Compat", "load", p.namesrv, topic, strconv.FormatInt(every.Milliseconds(), 10), strconv.Itoa(retries))
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cmd.Process.Kill() })
	l := &javaLoad{in: in, done: make(chan error, 1), statuses: map[string]int{}}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			l.take(strings.Fields(sc.Text()), sc.Text())
		}
		l.done <- cmd.Wait()
	}()
	return l
}

func (l *javaLoad) take(f []string, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(f) == 4 && f[0] == "sent":
		millis, _ := strconv.Atoi(f[3])
		l.longest = max(l.longest, time.Duration(millis)*time.Millisecond)
		l.statuses[f[2]]++
		if f[2] == "SEND_OK" {
			l.ids, l.lastOK = append(l.ids, f[1]), time.Now()
		}
	case len(f) > 1 && f[0] == "failed":
		l.failed = append(l.failed, line)
	}
}

func (l *javaLoad) count() (ok, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids), len(l.failed)
}

// end stops it and returns the acknowledged messages.
func (l *javaLoad) end(t *testing.T) []string {
	t.Helper()
	if _, err := l.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := <-l.done; err != nil {
		t.Fatal(err)
	}
	return l.ids
}

// TestPromoteJava: the roles change there and back while the original's producer sends,
// without retries, and its push consumer consumes. No send fails or takes a second,
// and every message comes.
func TestPromoteJava(t *testing.T) {
	needJava(t)
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, "java", 0)
	l := p.javaLoad(topic, 5*time.Millisecond, 0)
	until(t, 60*time.Second, "messages flow", func() bool { n, _ := c.count(); return n > 200 })
	l.mu.Lock()
	l.longest, l.failed = 0, nil // the first send looks for a route and connects, in a process that has just begun
	l.mu.Unlock()
	for round, id := range []string{"1", "0", "1"} {
		before := time.Now()
		p.json(0, "ha", "promote", pairName, "--id", id, "--planned", "--yes")
		t.Logf("round %d: id %s is master after %v", round, id, time.Since(before).Round(time.Millisecond))
		n, _ := l.count()
		until(t, 20*time.Second, "sends go on", func() bool { m, _ := l.count(); return m > n+200 })
		until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	}
	// The clients learn the new routes meanwhile, and former masters stop handing on.
	<-time.After(70 * time.Second)
	ids := l.end(t)
	if len(l.failed) > 0 || l.statuses["SEND_OK"] != len(ids) {
		t.Errorf("%d sends failed: %v; statuses %v", len(l.failed), l.failed[:min(3, len(l.failed))], l.statuses)
	}
	if l.longest > time.Second {
		t.Errorf("the longest send took %v", l.longest)
	}
	until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	_, twice := c.has(ids)
	t.Logf("%d acknowledged, longest send %v, %d came more than once", len(ids), l.longest, twice)
}

// TestPromoteByForceJava: a synchronous master dies under the original's producer and
// push consumer, and its slave takes its place by force. Sends go on when the producer
// knows the new route, at most 30 s later; what was acknowledged with SEND_OK, before
// and after, is consumed; and the old master comes back as a slave.
func TestPromoteByForceJava(t *testing.T) {
	needJava(t)
	p := newPair(t, "SYNC_MASTER")
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	until(t, 20*time.Second, "slave in sync", func() bool { return p.inSync() == 1 })
	c := p.startConsumer(group, topic, "java", 0)
	l := p.javaLoad(topic, 5*time.Millisecond, 2)
	until(t, 60*time.Second, "messages flow", func() bool { n, _ := c.count(); return n > 500 })
	p.master.kill(syscall.SIGKILL)
	killed := time.Now()
	oldLog, err := os.ReadFile(filepath.Join(p.master.dir, "commitlog", fmt.Sprintf("%020d", 0)))
	if err != nil {
		t.Fatal(err)
	}
	common := p.end(p.slave)
	p.json(0, "ha", "promote", pairName, "--id", "1", "--force", "--yes")
	t.Logf("the slave is master %v after the kill", time.Since(killed).Round(time.Millisecond))
	until(t, 40*time.Second, "sends are answered", func() bool { // a route is 30 s old at most
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.statuses["SLAVE_NOT_AVAILABLE"] > 20
	})
	t.Logf("sends go on %v after the kill", time.Since(killed).Round(time.Millisecond))
	p.master.start()
	before, _ := l.count()
	until(t, 60*time.Second, "the old master follows, and sends wait for it", func() bool {
		n, _ := l.count()
		return n > before+500 && p.inSync() == 1
	})
	ids := l.end(t)
	t.Logf("%d acknowledged, statuses %v, %d failed, longest %v", len(ids), l.statuses, len(l.failed), l.longest)
	until(t, 90*time.Second, "all that was acknowledged is consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
	until(t, 20*time.Second, "equal logs", func() bool { return p.end(p.master) == p.end(p.slave) })
	p.sameLogs()
	p.sameQueues(topic, scenarioQueues)
	// What was under way may have been on the old master alone.
	if size := int64(binary.BigEndian.Uint32(oldLog[common:])); size > 0 {
		p.setAside(common, oldLog[common:common+size])
	} else if aside, err := filepath.Glob(filepath.Join(p.master.dir, "mqctl", "cut-*")); err != nil || len(aside) > 0 {
		t.Errorf("the old master had nothing of its own, and set aside %v, %v", aside, err)
	}
}
