//go:build scenarios

package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestManyTopics (S11): a slave gets the tables of a large master at once, in little
// memory, and what changes with the next round of exchange.
func TestManyTopics(t *testing.T) {
	const topics, queues, groups = 10_000, 8, 1_000
	p := newPair(t)
	p.pairTopic("first", queues)
	without := resident(p.slave.proc.cmd.Process.Pid)
	for _, n := range []*node{p.slave, p.master} {
		n.kill(syscall.SIGTERM)
	}
	writeTables(t, p.master.dir, topics, queues, groups)
	p.master.start()
	begun := time.Now()
	p.slave.start()
	last := fmt.Sprintf("topic-%d", topics-1)
	until(t, time.Minute, "all tables on the slave", func() bool {
		res, err := ask(p.slave.addr, 351, map[string]string{"topic": last})
		return err == nil && res.Code == 0 && p.number(p.slave, 14, fmt.Sprintf("group-%d", (topics-1)%groups), last, queues-1) == 7
	})
	took := time.Since(begun)
	if took > 5*time.Second {
		t.Errorf("the tables were on the slave only %v after its start", took)
	}
	p.sameTables(10 * time.Second)
	with := resident(p.slave.proc.cmd.Process.Pid)
	t.Logf("tables on the slave %v after its start; %d KiB resident, %d KiB without them", took.Round(time.Millisecond), with, without)
	if with-without > 64<<10 {
		t.Errorf("the tables cost the slave %d KiB of memory", with-without)
	}
	// A change waits for the next round, 900 ms later at most; then it takes 100 ms at most.
	for i := range 5 {
		made := fmt.Sprintf("made-%d", i)
		p.createTopic(t, made, queues)
		created := time.Now()
		for {
			if res, err := ask(p.slave.addr, 351, map[string]string{"topic": made}); err == nil && res.Code == 0 {
				break
			}
			if time.Since(created) > 20*time.Second {
				t.Fatal("a new topic does not come to the slave")
			}
			<-time.After(5 * time.Millisecond)
		}
		seen := time.Since(created)
		t.Logf("a new topic was on the slave %v after it was made", seen.Round(time.Millisecond))
		if seen > 1100*time.Millisecond {
			t.Errorf("a new topic was on the slave only after %v", seen)
		}
	}
}

// bareKeys are numbers as keys, which brokers do not quote.
var bareKeys = regexp.MustCompile(`([{,])(-?[0-9]+):`)

// sameTables checks that both brokers come to the same topics, groups, progress and
// progress of delayed messages, each within d.
func (p *pair) sameTables(d time.Duration) {
	p.t.Helper()
	for code, member := range map[int]string{21: "topicConfigTable", 201: "subscriptionGroupTable", 43: "offsetTable", 45: "offsetTable"} {
		var a, b any
		read := func(n *node) (v any) {
			res, err := ask(n.addr, code, nil)
			var doc map[string]any
			if err == nil && res.Code == 0 {
				err = json.Unmarshal(bareKeys.ReplaceAll(res.Body, []byte(`$1"$2":`)), &doc)
			}
			if err != nil || doc[member] == nil {
				p.t.Fatalf("request %d to broker %d: %v %+v", code, n.id, err, res)
			}
			return doc[member]
		}
		equal := func() bool {
			a, b = read(p.master), read(p.slave)
			return reflect.DeepEqual(a, b)
		}
		for end := time.Now().Add(d); !equal(); <-time.After(100 * time.Millisecond) {
			if time.Now().After(end) {
				p.t.Errorf("the answers to request %d differ: %.2000v on the master, %.2000v on the slave", code, a, b)
				break
			}
		}
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
