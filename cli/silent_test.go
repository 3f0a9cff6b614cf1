package cli

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// readsOfAll are reads that ask all brokers. The topic orders and the group
// order_consumer are there.
var readsOfAll = []string{
	"broker status", "broker list", "broker config get --all", "broker config get --changed --all", "brokerStatus -c DefaultCluster",
	"cluster list", "clusterList", "clusterList -m", "cluster health", "cluster route-check", "cluster export --what topics,groups,offsets,configs",
	"group list", "group list --topic orders", "group list --behind", "group get order_consumer", "getConsumerConfig -g order_consumer",
	"group lag order_consumer", "consumerProgress", "consumerProgress -g order_consumer -s true", "topic list", "topic list --system", "topic list --unused",
	"topicList -c", "topic get orders", "topic status orders", "topicStatus -t orders", "offset list order_consumer", "offset export --group order_consumer",
	"client list", "client list --producers", "consumerConnection -g order_consumer", "client inspect order_consumer", "message find --topic orders --key k",
	"message tail orders --last 3", "stats offsets", "stats ha", "haStatus -c DefaultCluster", "stats lag", "stats pull", "stats traffic", "statsAll", "stats latency",
	"check ha", "check broker", "check lag --max 9", "check disk --max 99", "check drift", "check all", "events --since 1h", "broker logs", "top --once",
}

// TestSilentBrokerCostsOnce: a broker that takes connections and never answers costs
// a read its time-out once, whatever the number of topics, groups and requests.
func TestSilentBrokerCostsOnce(t *testing.T) {
	w := newSilentWorld(t)
	const patience = 2 * time.Second
	var wg sync.WaitGroup
	for _, line := range readsOfAll {
		wg.Go(func() {
			begin := time.Now()
			code, out, errs := runEnv(map[string]string{"HOME": w.dir}, append([]string{"mqctl", "-n", w.ns, "--timeout", patience.String()}, strings.Fields(line)...)...)
			if took := time.Since(begin); took > patience*19/10 {
				t.Errorf("%s took %s, its time-out is %s: exit %d\n%s%s", line, took.Round(time.Millisecond), patience, code, out, errs)
			}
		})
	}
	wg.Wait()
}

// silentWorld is a nameserver with two brokers of which the second is silent at the
// address that it gave.
type silentWorld struct{ ns, dir string }

func newSilentWorld(t *testing.T) *silentWorld {
	t.Helper()
	e := newWorld(t)
	w := &silentWorld{ns: e.nameserver(), dir: e.dir}
	e.broker(w.ns, "a", "--name", "broker-a")
	port := e.freePort()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.3:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	e.start("broker", "start", "-n", w.ns, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--advertise", "127.0.0.3", "--name", "broker-b",
		"--store", filepath.Join(e.dir, "b"), "--http", "off")
	for i := range 20 {
		for _, at := range []string{"broker-a", fmt.Sprintf("127.0.0.1:%d", port)} {
			for _, line := range []string{"topic create orders", "group create order_consumer"} {
				if i > 0 {
					line += fmt.Sprint(i)
				}
				if code, _, errs := e.mqctl(nil, append(strings.Fields(line), "-n", w.ns, "--broker", at)...); code != ExitOK {
					t.Fatalf("%s: %s", line, errs)
				}
			}
		}
	}
	return w
}
