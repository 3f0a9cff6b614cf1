//go:build scenarios

package compat

import (
	"maps"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestSlaveAlone: a slave that starts while its master is dead or silent serves from
// its disk at once: it has exchanged nothing in this run. What consumers commit there
// is at the master when that is back.
func TestSlaveAlone(t *testing.T) {
	for _, how := range []struct {
		name          string
		slave, master syscall.Signal
		promoted      bool // the roles changed once before
	}{
		{"killed", syscall.SIGKILL, syscall.SIGKILL, false},
		{"stopped", syscall.SIGTERM, syscall.SIGKILL, false},
		{"master frozen", syscall.SIGKILL, syscall.SIGSTOP, false},
		{"former master killed", syscall.SIGKILL, syscall.SIGKILL, true},
		{"former master goes on", 0, syscall.SIGKILL, true},
	} {
		t.Run(how.name, func(t *testing.T) {
			p := newPair(t)
			topic, group := slug(name(t, "t")), slug(name(t, "g"))
			p.pairTopic(topic, scenarioQueues)
			ids := send(t, p.producer(t), 400, textMessage(topic))
			c := p.startConsumer(group, topic, "clustering", 0)
			until(t, 60*time.Second, "all consumed", func() bool { n, _ := c.has(ids); return n == len(ids) })
			until(t, 30*time.Second, "all committed, on the slave too", func() bool {
				return sum(p.progress(p.slave, group, topic, scenarioQueues)) == int64(len(ids))
			})
			c.kill()
			slave, master := p.slave, p.master
			if how.promoted {
				p.json(0, "ha", "promote", pairName, "--id", "1", "--planned", "--yes")
				slave, master = p.master, p.slave
			}
			p.synced(20 * time.Second)
			if how.slave != 0 {
				slave.kill(how.slave)
			}
			master.kill(how.master)
			killed := time.Now()
			if how.slave != 0 {
				slave.start()
			} else {
				<-time.After(2 * time.Second) // a slave that runs sends readers to its master until it knows better
			}
			p.servesAlone(slave, killed, topic, group, len(ids))
			if how.master == syscall.SIGSTOP {
				master.kill(syscall.SIGCONT)
			} else {
				master.start()
			}
			until(t, 30*time.Second, "what was committed to the slave is at the master", func() bool {
				for _, g := range []string{group, aloneGroup} {
					for q, off := range p.progress(master, g, topic, scenarioQueues) {
						if off != int64(200+q) {
							return false
						}
					}
				}
				return true
			})
		})
	}
}

// aloneGroup is one that no broker has heard of.
const aloneGroup = "never-heard-of"

// servesAlone reads everything from a slave, and all that consumers ask besides.
func (p *pair) servesAlone(slave *node, since time.Time, topic, group string, messages int) {
	t := p.t
	t.Helper()
	w, err := dialWire(slave.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer w.c.Close()
	got := 0
	for q := range scenarioQueues {
		for at := int64(0); ; {
			a, err := w.pull(topic, q, at, "*")
			if err != nil || a.Code != 0 && a.Code != 19 {
				t.Fatalf("queue %d at %d: %+v, %v", q, at, a, err)
			}
			records, err := cutRecords(a.Body)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			got += len(records)
			at = a.number("nextBeginOffset")
		}
	}
	if got != messages {
		t.Errorf("%d messages were read, %d are there", got, messages)
	}
	for _, g := range []string{group, aloneGroup} {
		for q := range scenarioQueues {
			ext := map[string]string{"consumerGroup": g, "topic": topic, "queueId": strconv.Itoa(q)}
			for _, code := range []int{14, 30, 31, 15} {
				e := maps.Clone(ext)
				if code == 15 {
					e["commitOffset"] = strconv.Itoa(200 + q)
				}
				if err := done(w.call(code, e, nil)); err != nil {
					t.Errorf("%s, queue %d, request %d: %v", g, q, code, err)
				}
			}
		}
		lock := `{"clientId":"c","consumerGroup":"` + g + `","mqSet":[{"topic":"` + topic + `","brokerName":"` + pairName + `","queueId":0}]}`
		if err := done(w.call(41, nil, []byte(lock))); err != nil {
			t.Errorf("%s, lock: %v", g, err)
		}
		want := []int64{200, 201, 202, 203}
		for q, off := range p.progress(slave, g, topic, scenarioQueues) {
			if off != want[q] {
				t.Errorf("%s, queue %d: the slave has progress %d", g, q, off)
			}
		}
	}
	t.Logf("served %v after the kill", time.Since(since).Round(time.Millisecond))
}
