//go:build scenarios

package compat

import (
	"syscall"
	"testing"
	"time"
)

// TestSlaveBack (S2): the slave comes back after much was sent, and catches up while
// senders go on at half of the rate that was all they could do before: they keep it, and
// in the end log, queues and tables are equal.
func TestSlaveBack(t *testing.T) { slaveBack(t, "clustering") }

const (
	catchUpSenders = 4
	catchUpSize    = 60 << 10
)

func slaveBack(t *testing.T, client string) {
	t.Helper()
	p := newPair(t)
	topic, group := name(t, "t"), name(t, "g")
	p.pairTopic(topic, scenarioQueues)
	c := p.startConsumer(group, topic, client, 0)
	p.synced(20 * time.Second)
	p.slave.kill(syscall.SIGTERM)
	sent, rate := p.saturate(topic)

	// Sending at half the rate begins before the slave comes back, and goes on for some
	// time afterwards, so that there is something to measure.
	every := time.Duration(float64(time.Second) * catchUpSenders * catchUpSize / (rate / 2))
	var loads []*load
	for range catchUpSenders {
		loads = append(loads, p.kept(topic, every, catchUpSize))
	}
	until(t, 30*time.Second, "all senders send", func() bool {
		for _, l := range loads {
			if n, _ := l.count(); n == 0 {
				return false
			}
		}
		return true
	})
	before, begun := bytesOf(loads), time.Now()
	p.slave.start()
	until(t, 5*time.Minute, "gap 0 while senders go on", func() bool { return p.gap() == 0 })
	caught := time.Since(begun)
	during := float64(bytesOf(loads)-before) / caught.Seconds()
	kept := func() float64 { return float64(bytesOf(loads)-before) / time.Since(begun).Seconds() }
	until(t, caught+30*time.Second, "what the senders lack of half their rate made up for", func() bool { return kept() >= 0.95*rate/2 })
	var ids []string
	for _, l := range loads {
		ok, errs := l.end()
		if len(errs) > 0 {
			t.Errorf("%d sends failed during the catch-up: %v", len(errs), errs[0])
		}
		ids = append(ids, ok...)
	}
	t.Logf("%d MiB caught up in %v; senders: %.0f MB/s alone; of the half of it, %.0f MB/s, %.0f during the copy, and all of it %v after its begin",
		sent>>20, caught.Round(time.Millisecond), rate/1e6, rate/2e6, during/1e6, time.Since(begun).Round(time.Millisecond))
	// On a quiet machine it is 63 to 100 %: clients and both brokers share its two cores.
	if caught > 2*time.Second && during < 0.5*rate/2 { // a shorter one is over before much can be said of it
		t.Errorf("senders kept %.0f %% of half their rate during the copy", 200*during/rate)
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
	p.sameTables(10 * time.Second)
}

// saturate sends scenario.bytes as fast as the senders can, and returns how many bytes
// the log grew by and how many were sent a second.
func (p *pair) saturate(topic string) (grown int64, rate float64) {
	p.t.Helper()
	started, begun := p.end(p.master), time.Now()
	var loads []*load
	for range catchUpSenders {
		loads = append(loads, p.load(topic, 50*time.Microsecond, catchUpSize, 0))
	}
	until(p.t, 20*time.Minute, "bytes sent", func() bool { return p.end(p.master)-started >= *scenarioBytes })
	rate = float64(bytesOf(loads)) / time.Since(begun).Seconds()
	for _, l := range loads {
		if _, errs := l.end(); len(errs) > 0 {
			p.t.Errorf("%d sends failed: %v", len(errs), errs[0])
		}
	}
	return p.end(p.master) - started, rate
}

func bytesOf(loads []*load) (n int64) {
	for _, l := range loads {
		n += l.bytes.Load()
	}
	return n
}
