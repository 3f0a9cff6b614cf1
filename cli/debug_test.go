package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// bundleOf runs debug bundle and takes the archive apart.
func bundleOf(t *testing.T, want int, env map[string]string, args ...string) (map[string][]byte, bundleItem) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	code, out, errs := runEnv(env, append([]string{"mqctl", "debug", "bundle", "-o", "json", "--out", file}, args...)...)
	if code != want {
		t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	if err := valid([]byte(out)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the bundle: %v", info.Mode())
	}
	parts, err := readBundle(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Items []bundleItem }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Items) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range doc.Items[0].Parts {
		if has := parts[p.Name] != nil; has != (p.Error == nil && p.Skipped == nil) || has && *p.SHA256 != *sumOf(parts[p.Name]) {
			t.Errorf("the manifest is wrong about %s: %+v", p.Name, p)
		}
	}
	return parts, doc.Items[0]
}

// apache are answers of a broker of RocketMQ's to what a bundle asks for.
func apache(b *fakeBroker) {
	b.config["initAuthenticationUser"] = `{"username":"root","password":"planted-root"}`
	b.config["innerClientAuthenticationCredentials"] = `{"accessKey":"planted-ak","secretKey":"planted-inner"}`
	b.config["someToken"] = "planted-token"
	b.runtime["said"] = "the password=planted-free and the planted-inner of elsewhere"
	b.more[remoting.ReqGetAllTopicConfig] = func(r *remoting.Request) {
		reply(r, map[string]any{"topicConfigTable": map[string]any{"orders": map[string]any{"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}}, "dataVersion": map[string]any{"counter": 1}})
	}
	b.more[remoting.ReqGetBrokerConsumeStats] = func(r *remoting.Request) {
		r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"brokerAddr":"x","consumeStatsList":[{"g":[{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"brokerOffset":300000,"consumerOffset":1,"lastTimestamp":7,"pullOffset":1}}}]}],"totalDiff":299999,"totalInflightDiff":0}`))
	}
}

// TestBundleOfOthers: an Apache cluster with a dead broker gives what it can, the
// manifest says what is missing and why, and no secret is in it.
func TestBundleOfOthers(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "broker-a", 0, 1000, apache)
	f.add("127.0.0.1", "broker-a", 1, 900, apache)
	_, stop := f.add("127.0.0.1", "broker-b", 0, 1000, nil)
	stop()
	f.ns.more[remoting.ReqGetAllTopicListFromNameserver] = func(r *remoting.Request) { reply(r, map[string]any{"topicList": []string{"orders"}}) }
	f.ns.more[remoting.ReqGetRouteInfoByTopic] = func(r *remoting.Request) {
		reply(r, map[string]any{"queueDatas": []map[string]any{{"brokerName": "broker-b", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}}, "brokerDatas": []any{}})
	}
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.jsonl")
	line := fmt.Sprintf(`{"at":%q,"command":["user","set","--password=planted-audit"],"reason":"secretKey: planted-reason","items":[{"key":"config/x","before":{"password":"planted-before"},"after":"planted-env"}]}`, stamp(time.Now()))
	if err := os.WriteFile(audit, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(client, []byte("current = \"prod\"\n[context.prod]\nnamesrv=[\""+f.ns.addr+"\"]\naccess_key=\"planted-context-ak\"\nsecret_key=\"planted-context\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MQCTL_AUDIT": audit, "MQCTL_CONFIG": client, "MQCTL_ACCESS_KEY": "planted-env-ak", "MQCTL_SECRET_KEY": "planted-env", "XDG_STATE_HOME": dir}
	parts, item := bundleOf(t, ExitPartial, env)
	for name, b := range parts {
		if at := bytes.Index(b, []byte("planted")); at >= 0 {
			t.Errorf("a secret is in %s: %s", name, b[max(0, at-60):min(len(b), at+40)])
		}
	}
	for _, name := range []string{"client/audit.jsonl", "nameservers/1/routes.json", "brokers/broker-a-0/config.properties", "brokers/broker-a-1/topics.json", "brokers/broker-a-0/backlog.json"} {
		if parts[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if !bytes.Contains(parts["brokers/broker-a-0/config.properties"], []byte("someToken="+scrubbed)) || !bytes.Contains(parts["client/audit.jsonl"], []byte("user")) {
		t.Errorf("too much was cut:\n%s\n%s", parts["brokers/broker-a-0/config.properties"], parts["client/audit.jsonl"])
	}
	why := map[string]string{}
	for _, p := range item.Parts {
		if p.Error != nil {
			why[p.Name] = *p.Error
		} else if p.Skipped != nil {
			why[p.Name] = *p.Skipped
		}
	}
	if !strings.Contains(why["brokers/broker-b-0/runtime.json"], "connection refused") || item.Missing != 1 || !strings.Contains(why["brokers/broker-a-0/log.jsonl"], "only brokers of mqctl") {
		t.Errorf("missing %d, %v", item.Missing, why)
	}
	code, out, errs := runLine("mqctl", "debug", "analyse", folderOf(t, parts), "-o", "json")
	if code != ExitConditionFalse {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	if err := valid([]byte(out)); err != nil {
		t.Error(err)
	}
	for _, w := range []string{`"target": "broker-b/0"`, `"check": "MASTER"`, `"1 topic without a master that answers"`, `"299,999 behind at broker-a/0"`} {
		if !strings.Contains(out, w) {
			t.Errorf("%s is not in\n%s", w, out)
		}
	}
}

// folderOf unpacks a bundle.
func folderOf(t *testing.T, parts map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range parts {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBundleStrict: addresses are replaced, the same by the same.
func TestBundleStrict(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "broker-a", 0, 1000, func(b *fakeBroker) { apache(b); b.config["brokerIP1"] = "mq7.example.com" })
	f.add("127.0.0.2", "broker-a", 1, 1000, apache)
	f.ns.more[remoting.ReqGetAllTopicListFromNameserver] = func(r *remoting.Request) { reply(r, map[string]any{"topicList": []string{}}) }
	dir := t.TempDir()
	parts, _ := bundleOf(t, ExitOK, map[string]string{"XDG_STATE_HOME": dir, "NAMESRV_ADDR": f.ns.addr}, "--redact", "strict")
	for name, b := range parts {
		for _, w := range []string{"127.0.0.1", "127.0.0.2", "mq7.example.com"} {
			if bytes.Contains(b, []byte(w)) {
				t.Errorf("%s is in %s", w, name)
			}
		}
	}
	var man manifest
	if err := json.Unmarshal(parts[manifestName], &man); err != nil || len(man.Brokers) != 2 {
		t.Fatal(err, man.Brokers)
	}
	one, two := hostOf(man.Brokers[0].Addr), hostOf(man.Brokers[1].Addr)
	if one == two || !strings.HasPrefix(one, "host-") || !strings.Contains(string(parts["nameservers/1/routes.json"]), one) {
		t.Errorf("%s and %s are not told apart, or the routes have others:\n%s", one, two, parts["nameservers/1/routes.json"])
	}
}

// TestBundleNothing: without anybody who answers no file is made.
func TestBundleNothing(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"-n", "127.0.0.1:1"}, {"--store", filepath.Join(dir, "none")}, {"--store", dir}, {"--since", "never", "-n", "127.0.0.1:1"}, {"--store", dir, "--broker", "a"}, {"--token-file", filepath.Join(dir, "none")}} {
		file := filepath.Join(dir, "b.tar.gz")
		code, out, errs := runEnv(map[string]string{"XDG_STATE_HOME": dir}, append([]string{"mqctl", "debug", "bundle", "--out", file, "--timeout", "1s"}, args...)...)
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if code == ExitOK || out != "" || errs == "" || err != nil || len(left) > 0 {
			t.Errorf("%q: exit %d, %q, %q, left %v", args, code, out, errs, left)
		}
	}
}

// TestAnalyse: each kind of trouble is found by what a bundle has of it.
func TestAnalyse(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	type parts = map[string]any
	base := func() parts {
		return parts{
			"brokers/a-0/runtime.json":          map[string]string{"commitLogDiskRatio": "0.5", "bootTimestamp": "1000", "mqctlNow": fmt.Sprint(at.UnixMilli()), "brokerVersionDesc": "V5_3_3"},
			"brokers/a-0/config.properties":     "brokerRole=ASYNC_MASTER\nbrokerClusterName=C\n",
			"brokers/a-0/topics.json":           map[string]any{"orders": map[string]any{"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}},
			"brokers/a-0/groups.json":           map[string]any{"g": map[string]any{"groupName": "g", "consumeEnable": true}},
			"brokers/a-0/inspect-offsets.json":  body.InspectOffsets{Max: 100, Flushed: 100},
			"brokers/a-0/inspect-ha.json":       body.InspectHA{Slaves: []body.InspectHASlave{{BrokerID: 1, InSync: true, State: "SYNCING"}}},
			"brokers/a-0/backlog.json":          []backlogRow{{Group: "g", Topic: "orders", Broker: "a", BrokerOffset: 10, ConsumerOffset: 10}},
			"brokers/a-0/goroutines.txt":        "goroutine 1 [running]:\nmain.main()\n\ngoroutine 2 [select]:\nx.y()\ncreated by x.Run in goroutine 1\n",
			"nameservers/1/routes.json":         nsRoutes{Nameserver: "n1", Brokers: map[string]nsBroker{"a": {"C", map[int64]string{0: "h:1", 1: "h:2"}}}, Topics: map[string]nsRouteText{"orders": {Queues: []admin.RouteQueues{{Broker: "a", Perm: 6}}}}},
			"brokers/a-0/inspect-latency.json":  body.InspectLatency{Operations: []body.Latency{{Op: "put", Count: 9, P99Millis: 2}}},
			"brokers/a-0/inspect-pull.json":     body.InspectPull{},
			"brokers/a-0/events.json":           body.InspectEvents{},
			"brokers/a-0/log.jsonl":             `{"time":"2026-11-30T11:59:00Z","level":"INFO","msg":"ready"}`,
			"brokers/a-0/store/verify.json":     storeLook{Dir: "/d", State: "OK", Checked: "LIGHT"},
			"brokers/b-0/runtime.json":          map[string]string{"commitLogDiskRatio": "0.5", "bootTimestamp": "1000", "brokerVersionDesc": "V5_3_3"},
			"brokers/b-0/config.properties":     "brokerRole=ASYNC_MASTER\nbrokerClusterName=C\n",
			"brokers/b-0/topics.json":           map[string]any{"orders": map[string]any{"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}},
			"brokers/b-0/groups.json":           map[string]any{"g": map[string]any{"groupName": "g", "consumeEnable": true}},
			"brokers/b-0/ha.json":               admin.HAStatus{Master: true},
			"brokers/b-0/inspect-unknown-x.txt": "what other versions put in does not disturb",
		}
	}
	for _, c := range []struct {
		name   string
		change func(p parts, m *manifest)
		state  string // of the finding; "": none but OK
		check  string
		text   string
		strict bool
		code   int
	}{
		{"nothing", func(parts, *manifest) {}, "", "", "", true, 0},
		{"dead", func(p parts, m *manifest) {
			m.Brokers[1].Answered, m.Brokers[1].Error = false, ptr("connection refused")
		}, "FAIL", "BROKER", "connection refused", false, 7},
		{"disk", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"commitLogDiskRatio": "0.93"}
		}, "FAIL", "DISK", "93.0 % used", false, 7},
		{"disk warns", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"commitLogDiskRatio": "0.8"}
		}, "WARN", "DISK", "80.0 % used", false, 0},
		{"disk strict", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"commitLogDiskRatio": "0.8"}
		}, "WARN", "DISK", "80.0 % used", true, 7},
		{"clock", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"mqctlNow": fmt.Sprint(at.Add(time.Minute).UnixMilli())}
		}, "WARN", "CLOCK", "60.0 s apart", false, 0},
		{"restart", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"bootTimestamp": fmt.Sprint(at.Add(-time.Minute).UnixMilli())}
		}, "WARN", "RESTART", "11:59:00", false, 0},
		{"role", func(p parts, _ *manifest) {
			p["brokers/a-0/events.json"] = body.InspectEvents{Events: []body.Event{{At: at.UnixMilli(), Kind: "ROLE", Target: "role", Before: "SLAVE", After: "ASYNC_MASTER"}}}
		}, "WARN", "EVENTS", "SLAVE -> ASYNC_MASTER", false, 0},
		{"waits", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"sendThreadPoolQueueHeadWaitTimeMills": "700"}
		}, "WARN", "WAITS", "sends wait for 700 ms", false, 0},
		{"flush", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-offsets.json"] = body.InspectOffsets{Max: 2 << 30, Flushed: 1}
		}, "WARN", "FLUSH", "2.0 GiB are not on the disk", false, 0},
		{"latency", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-latency.json"] = body.InspectLatency{Operations: []body.Latency{{Op: "put", Count: 9, P99Millis: 300, MaxMillis: 900}}}
		}, "WARN", "LATENCY", "p99 300 ms", false, 0},
		{"slave lost", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-ha.json"] = body.InspectHA{Slaves: []body.InspectHASlave{{BrokerID: 1, LostAt: 5, Why: "it was stopped"}}}
		}, "FAIL", "SLAVE", "it was stopped", false, 7},
		{"slave behind", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-ha.json"] = body.InspectHA{Slaves: []body.InspectHASlave{{BrokerID: 1, InSync: true, GapBytes: 1 << 30, State: "SYNCING"}}}
		}, "FAIL", "SLAVE", "1.0 GiB behind", false, 7},
		{"slave never", func(p parts, _ *manifest) { p["brokers/a-0/inspect-ha.json"] = body.InspectHA{} }, "FAIL", "SLAVE", "none of 1 registered slave", false, 7},
		{"slave of Apache", func(p parts, _ *manifest) {
			p["brokers/b-0/ha.json"] = admin.HAStatus{Master: true, Peers: []admin.HAPeer{{Addr: "h:9", Diff: 5}}}
		}, "FAIL", "SLAVE", "not in sync", false, 7},
		{"follows not", func(p parts, m *manifest) {
			m.Brokers = append(m.Brokers, bundled{Folder: "brokers/a-1", Broker: "a", BrokerID: 1, Answered: true, Ours: true, At: stamp(at)})
			p["brokers/a-1/inspect-ha.json"] = body.InspectHA{Role: "SLAVE", Following: &body.InspectFollowing{State: "DIVERGED", Why: "the logs part"}}
			p["brokers/a-1/config.properties"] = "brokerRole=SLAVE\n"
		}, "FAIL", "SLAVE", "the logs part", false, 7},
		{"fenced", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-ha.json"] = body.InspectHA{Fenced: true, Slaves: []body.InspectHASlave{{BrokerID: 1, InSync: true}}}
		}, "FAIL", "FENCE", "takes no messages", false, 7},
		{"two masters", func(p parts, m *manifest) {
			m.Brokers = append(m.Brokers, bundled{Folder: "brokers/a-1", Broker: "a", BrokerID: 1, Answered: true, At: stamp(at)})
			p["brokers/a-1/config.properties"] = "brokerRole=ASYNC_MASTER\n"
		}, "FAIL", "MASTER", "two masters: a/0, a/1", false, 7},
		{"reads", func(p parts, _ *manifest) {
			p["brokers/a-0/inspect-pull.json"] = body.InspectPull{Rows: []body.InspectPullRow{{Group: "g", Topic: "orders", Slow: 3, BehindBytes: 1 << 30, Reason: "SLAVE_READ_DISABLED"}}}
		}, "WARN", "READS", "slaveReadEnable is false", false, 0},
		{"lag", func(p parts, _ *manifest) {
			p["brokers/a-0/backlog.json"] = []backlogRow{{Group: "g", Topic: "orders", Broker: "a", BrokerOffset: 200_000}}
		}, "WARN", "LAG", "200,000 behind", false, 0},
		{"paused", func(p parts, _ *manifest) {
			p["brokers/a-0/groups.json"] = map[string]any{"g": map[string]any{"groupName": "g", "consumeEnable": false}}
			p["brokers/b-0/groups.json"] = p["brokers/a-0/groups.json"]
			p["brokers/a-0/backlog.json"] = []backlogRow{{Group: "g", BrokerOffset: 2}}
		}, "WARN", "LAG", "consumeEnable is false", false, 0},
		{"log", func(p parts, _ *manifest) {
			p["brokers/a-0/log.jsonl"] = `{"time":"2026-11-30T11:59:00Z","level":"ERROR","msg":"cannot write","err":"no space"}`
		}, "FAIL", "LOG", "cannot write: no space", false, 7},
		{"goroutines", func(p parts, _ *manifest) {
			p["brokers/a-0/goroutines.txt"] = strings.Repeat("goroutine 2 [select]:\nx.y()\ncreated by x.Run in goroutine 1\n\t/x.go:1\n\n", 3000)
		}, "WARN", "GOROUTINES", "3000 of them were started by x.Run", false, 0},
		{"store", func(p parts, _ *manifest) {
			p["brokers/a-0/store/verify.json"] = storeLook{Dir: "/d", State: "DAMAGE", Findings: []storeFound{{"commitlog/0", storeDamage{Kind: "DAMAGED", Severity: "DAMAGE", Message: "is wrong", Try: []string{"mqctl store repair /d"}}}}}
		}, "FAIL", "STORE", "mqctl store repair /d", false, 7},
		{"drift of a topic", func(p parts, _ *manifest) {
			p["brokers/b-0/topics.json"] = map[string]any{"orders": map[string]any{"topicName": "orders", "readQueueNums": 8, "writeQueueNums": 4, "perm": 6}}
		}, "WARN", "DRIFT", "a/0: read 4, write 4, rw; b/0: read 8", false, 0},
		{"drift of a group", func(p parts, _ *manifest) { p["brokers/b-0/groups.json"] = map[string]any{} }, "WARN", "DRIFT", "on a/0 of 2 masters", false, 0},
		{"versions", func(p parts, _ *manifest) {
			p["brokers/b-0/runtime.json"] = map[string]string{"brokerVersionDesc": "V4_9_4"}
		}, "WARN", "VERSION", "V4_9_4: b/0", false, 0},
		{"nameserver away", func(p parts, m *manifest) {
			m.Parts = append(m.Parts, bundlePart{Name: "nameservers/2/routes.json", Error: ptr("connection refused")})
		}, "FAIL", "NAMESERVER", "nameservers/2", false, 7},
		{"nameservers differ", func(p parts, _ *manifest) {
			p["nameservers/2/routes.json"] = nsRoutes{Nameserver: "n2", Brokers: map[string]nsBroker{"a": {"C", map[int64]string{0: "h:1", 1: "h:2"}}}}
		}, "FAIL", "ROUTE", "n2: nothing", false, 7},
		{"lost part", func(p parts, m *manifest) { delete(p, "brokers/a-0/events.json") }, "WARN", "BUNDLE", "the bundle lists it and does not hold it", false, 0},
		{"changed part", func(p parts, m *manifest) {
			m.Parts = append(m.Parts, bundlePart{Name: "brokers/b-0/ha.json", SHA256: ptr("00")})
		}, "WARN", "BUNDLE", "it is not what was put into the bundle", false, 0},
		{"unreadable", func(p parts, _ *manifest) { p["brokers/b-0/ha.json"] = "not JSON" }, "WARN", "BUNDLE", "it cannot be read", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, m := base(), manifest{Schema: manifestSchema, CreatedAt: stamp(at), Since: stamp(at.Add(-time.Hour)), Brokers: []bundled{
				{Folder: "brokers/a-0", Broker: "a", Addr: "h:1", Answered: true, Ours: true, At: stamp(at)}, {Folder: "brokers/b-0", Broker: "b", Addr: "h:3", Answered: true, At: stamp(at)}}}
			for name := range p {
				m.Parts = append(m.Parts, bundlePart{Name: name})
			}
			c.change(p, &m)
			p[manifestName] = m
			raw := map[string][]byte{}
			for name, v := range p {
				text, isText := v.(string)
				raw[name] = []byte(text)
				if !isText {
					b, err := json.Marshal(v)
					if err != nil {
						t.Fatal(err)
					}
					raw[name] = b
				}
			}
			args := []string{"mqctl", "debug", "analyse", folderOf(t, raw), "-o", "json"}
			if c.strict {
				args = append(args, "--strict")
			}
			code, out, errs := runLine(args...)
			var doc struct{ Items []findingItem }
			if err := json.Unmarshal([]byte(out), &doc); err != nil || code != c.code {
				t.Fatalf("exit %d, want %d, %v\n%s%s", code, c.code, err, out, errs)
			}
			found := slices.ContainsFunc(doc.Items, func(f findingItem) bool {
				return f.State == c.state && f.Check == c.check && strings.Contains(fmt.Sprint(f), c.text)
			})
			if c.state == "" && len(doc.Items) > 0 || c.state != "" && !found {
				t.Errorf("%s %s %q is not what was found:\n%s", c.state, c.check, c.text, out)
			}
		})
	}
}

// TestAnalyseBadFiles: what is no bundle is refused, whatever its size.
func TestAnalyseBadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := archiveOf(t, map[string]string{manifestName: `{"schema":"mqctl.debug.manifest/v1","createdAt":"2026-11-30T12:00:00.000Z"}`})
	for name, c := range map[string]struct {
		path string
		code int
	}{
		"none":     {filepath.Join(dir, "none"), ExitBadConfig},
		"text":     {write("text", []byte("hello")), ExitBadConfig},
		"empty":    {write("empty", nil), ExitBadConfig},
		"half":     {write("half", whole[:len(whole)/2]), ExitBadConfig},
		"other":    {write("other", archiveOf(t, map[string]string{"x": "y"})), ExitBadConfig},
		"newer":    {write("newer", archiveOf(t, map[string]string{manifestName: `{"schema":"mqctl.debug.manifest/v9"}`})), ExitBadConfig},
		"no time":  {write("time", archiveOf(t, map[string]string{manifestName: `{"schema":"mqctl.debug.manifest/v1"}`})), ExitBadConfig},
		"a folder": {t.TempDir(), ExitBadConfig},
		"whole":    {write("whole", whole), ExitOK},
	} {
		code, out, errs := runLine("mqctl", "debug", "analyse", c.path)
		if code != c.code || code != ExitOK && (out != "" || errs == "") {
			t.Errorf("%s: exit %d, want %d: %q %q", name, code, c.code, out, errs)
		}
	}
}

func archiveOf(t interface{ Fatal(...any) }, parts map[string]string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range sortedKeys(parts) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(parts[name])), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(parts[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzReadBundle: no archive makes the reader panic or take more than it may, and
// what it accepts can be judged.
func FuzzReadBundle(f *testing.F) {
	f.Add(archiveOf(f, map[string]string{manifestName: `{"schema":"mqctl.debug.manifest/v1","createdAt":"2026-11-30T12:00:00.000Z","brokers":[{"folder":"b","answered":true}]}`,
		"b/runtime.json": `{"a":"1"}`, "b/log.jsonl": `{"level":"ERROR","msg":"x"}`, "nameservers/1/routes.json": `{"topics":{"t":{"queues":[{"brokerName":"b"}]}}}`}))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := readArchive(bytes.NewReader(b))
		if err != nil {
			return
		}
		a := &analysis{parts: parts, broken: map[string]error{}}
		if json.Unmarshal(parts[manifestName], &a.man) != nil {
			return
		}
		a.read()
		a.judge()
	})
}

// FuzzScrub: no planted secret survives, and JSON stays JSON.
func FuzzScrub(f *testing.F) {
	f.Add(`{"password":"x"}`, "planted-secret")
	f.Add("secretKey=planted", "planted")
	f.Add(`token: "a\"b"`, `a"b!`)
	f.Fuzz(func(t *testing.T, text, secret string) {
		s := newScrubber(false)
		s.learn(secret)
		secret = strings.TrimSpace(secret)
		if out := s.text([]byte(text)); len(s.secrets) > 0 && bytes.Contains(out, []byte(secret)) && !strings.Contains(scrubbed, secret) && !strings.Contains(secret, scrubbed[:4]) && !strings.Contains(secret, "ed)") {
			t.Errorf("%q is still in %q", secret, out)
		}
		if json.Valid([]byte(text)) {
			if out := s.line([]byte(text)); !json.Valid(out) {
				t.Errorf("%q became %q", text, out)
			}
		}
	})
}
