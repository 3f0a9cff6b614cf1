package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
)

var (
	promSample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	promLabel  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)`)
	nagiosPerf = regexp.MustCompile(`^'((?:[^'=]|'')+)'=(-?[0-9.]+)([a-zA-Z%]*);([0-9.:~@-]*);([0-9.:~@-]*)(?:;([0-9.-]*))?(?:;([0-9.-]*))?$|^'((?:[^'=]|'')+)'=(-?[0-9.]+)([a-zA-Z%]*)$`)
)

// readProm reads Prometheus' text form as strictly as its checker does: HELP and TYPE
// once and before the samples, which stand together; no sample twice; legal names,
// escapes and numbers; and within a family the same labels at each kind of target.
func readProm(text string) (map[string]float64, error) {
	out, family, closed := map[string]float64{}, "", map[string]bool{}
	typed := map[string]bool{}
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			if closed[name] || name == family || help == "" {
				return nil, fmt.Errorf("line %d: %s begins again, or without a text", n+1, name)
			}
			closed[family], family = true, name
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if rest != family+" gauge" || typed[family] {
				return nil, fmt.Errorf("line %d: %q in the family %s", n+1, line, family)
			}
			typed[family] = true
			continue
		}
		m := promSample.FindStringSubmatch(line)
		if m == nil || m[1] != family || !typed[family] {
			return nil, fmt.Errorf("line %d: %q is no sample of %s", n+1, line, family)
		}
		seen := map[string]bool{}
		for rest := m[2]; rest != ""; {
			l := promLabel.FindStringSubmatch(rest)
			if l == nil || seen[l[1]] {
				return nil, fmt.Errorf("line %d: labels %q", n+1, m[2])
			}
			seen[l[1]] = true
			rest = rest[len(l[0]):]
		}
		if m[2] != "" && !seen["check"] {
			return nil, fmt.Errorf("line %d: no label says which check it is: %s", n+1, line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if _, twice := out[m[1]+"{"+m[2]+"}"]; err != nil || twice {
			return nil, fmt.Errorf("line %d: %q is no number, or there twice", n+1, line)
		}
		out[m[1]+"{"+m[2]+"}"] = v
	}
	return out, nil
}

// readNagios reads a plugin's one line and its exit status.
func readNagios(text string, code int) error {
	word := []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}
	line, rest, _ := strings.Cut(text, "\n")
	if rest != "" || code < 0 || code > 3 || !regexp.MustCompile(`^[A-Z]+ `+word[code]+` - `).MatchString(line) {
		return fmt.Errorf("exit %d: %q", code, text)
	}
	said, perf, has := strings.Cut(line, " | ")
	if strings.Contains(said, "|") {
		return fmt.Errorf("a bar in %q", said)
	}
	for has && perf != "" {
		end := strings.Index(perf[1:], "'")
		if end < 0 {
			return fmt.Errorf("performance data %q", perf)
		}
		next := strings.IndexByte(perf[end+1:], ' ')
		one := perf
		if next >= 0 {
			one, perf = perf[:end+1+next], perf[end+2+next:]
		} else {
			perf = ""
		}
		if !nagiosPerf.MatchString(one) {
			return fmt.Errorf("performance data %q", one)
		}
	}
	return nil
}

// TestCheckFormats: what monitoring reads can be read, of a cluster in order, of one
// with a dead master and one without any, and with names that need escapes.
func TestCheckFormats(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *fakeCluster)
		nagios int
		broker int // exit of check broker
	}{
		{"in order", func(*fakeCluster) {}, 0, 0},
		{"no master", func(f *fakeCluster) { f.hide(f.brokers[2].addr) }, 2, 7},
		{"drift", func(f *fakeCluster) {
			f.brokers[2].more[remoting.ReqGetAllTopicConfig] = func(r *remoting.Request) {
				reply(r, map[string]any{"topicConfigTable": map[string]any{`o'r|d"e\r`: map[string]any{"topicName": `o'r|d"e\r`, "readQueueNums": 9, "writeQueueNums": 4, "perm": 6}}, "dataVersion": map[string]any{"counter": 1}})
			}
		}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeCluster(t)
			for _, name := range []string{"broker-a", "broker-b"} {
				for id := range int64(2) {
					f.add("127.0.0.1", name, id, 1000, func(b *fakeBroker) {
						b.runtime["commitLogDiskRatio"] = "0.5"
						b.ha = &admin.HAStatus{Master: id == 0, MaxOffset: 1000}
						if id == 0 {
							b.ha.InSyncSlaves, b.ha.Peers = 1, []admin.HAPeer{{Addr: "127.0.0.1:9", AckOffset: 1000, InSync: true}}
						}
						empty := func(field string) func(r *remoting.Request) {
							return func(r *remoting.Request) {
								reply(r, map[string]any{field: map[string]any{}, "dataVersion": map[string]any{"counter": 1}})
							}
						}
						b.more[remoting.ReqGetAllTopicConfig], b.more[remoting.ReqGetAllSubscriptionGroupConfig] = empty("topicConfigTable"), empty("subscriptionGroupTable")
						b.more[remoting.ReqGetSystemTopicListFromBroker] = func(r *remoting.Request) { reply(r, map[string]any{"topicList": []string{}}) }
					})
				}
			}
			c.change(f)
			code, out, errs := runLine("mqctl", "-n", f.ns.addr, "check", "all", "--output", "nagios")
			if err := readNagios(out, code); err != nil || code != c.nagios {
				t.Errorf("nagios: exit %d, want %d: %v\n%s%s", code, c.nagios, err, out, errs)
			}
			_, out, errs = runLine("mqctl", "-n", f.ns.addr, "check", "all", "--output", "prometheus")
			v, err := readProm(out)
			if err != nil || len(v) < 8 || v[`mqctl_check_ok{check="broker",broker="broker-a",broker_id="0"}`] != 1 {
				t.Errorf("prometheus: %v\n%s%s", err, out, errs)
			}
			code, out, errs = runLine("mqctl", "-n", f.ns.addr, "check", "broker", "--output", "json")
			if code != c.broker || c.broker != 0 && !strings.Contains(out, "no master is registered") {
				t.Errorf("check broker: exit %d, want %d\n%s%s", code, c.broker, out, errs)
			}
		})
	}
}

// TestNagiosBounded: of a thousand groups the line is no longer than what Nagios
// reads; what failed comes first, and one sum tells of all drift.
func TestNagiosBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed int
		has    []string
	}{
		{"all well", 0, []string{"ALL OK - 2,000 checks passed | 'drift'=0;;0;0 'group group-0 lag'=0;;10;0"}},
		{"one failed", 1, []string{"ALL CRITICAL - group group-999 is behind | 'drift'=0;;0;0 'group group-999 lag'=11;;10;0"}},
		{"most failed", 900, []string{"ALL CRITICAL - group group-100 is behind; group group-101 ", " more | 'drift'=0;;0;0 'group group-100 lag'=11;;10;0"}},
	} {
		r := &result{final: ptr(nagiosOK), extra: "ALL"}
		for i := range 1000 {
			target := fmt.Sprintf("group group-%d", i)
			lag := &checkItem{Check: "lag", Target: target, State: "OK", Value: ptr(int64(0)), Limit: ptr(int64(10)), Message: "is well"}
			if i >= 1000-c.failed {
				lag.State, lag.Value, lag.Message, r.final = "FAIL", ptr(int64(11)), "is behind", ptr(nagiosCritical)
			}
			r.items = append(r.items, lag, &checkItem{Check: "drift", Target: target, State: "OK", Value: ptr(int64(0)), Limit: ptr(int64(0))})
		}
		var out strings.Builder
		printNagios(&printer{out: &out}, r)
		line := strings.TrimSuffix(out.String(), "\n")
		if len(line) > longestNagios || len(line) < longestNagios/2 || strings.Contains(line, "\n") {
			t.Errorf("%s: %d bytes", c.name, len(line))
		}
		for _, want := range c.has {
			if !strings.Contains(line, want) {
				t.Errorf("%s: %q is not in %.300s", c.name, want, line)
			}
		}
		_, data, _ := strings.Cut(line, " | ")
		for _, label := range strings.Split(strings.ReplaceAll(data, "' ", "'\n"), " '") {
			if label = "'" + strings.TrimPrefix(label, "'"); !nagiosPerf.MatchString(label) {
				t.Errorf("%s: %q is no performance data", c.name, label)
			}
		}
	}
}
