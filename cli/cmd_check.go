package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// checkItem is one check of one target.
type checkItem struct {
	Check   string  `json:"check"`
	Target  string  `json:"target"`
	State   string  `json:"state" enum:"OK|FAIL|UNKNOWN"`
	Value   *int64  `json:"value"` // of ha: gap in bytes; of lag: messages; of disk: percent; of drift: brokers
	Limit   *int64  `json:"limit"`
	Message string  `json:"message"`
	Millis  *int64  `json:"gapMillis"`
	Role    *string `json:"slaveState"`

	broker string
	id     *int64
	link   *haConnection
}

func checkCommands() []*command {
	return []*command{{
		path: "check ha", summary: "replication for monitoring", run: runCheckHA, schema: "mqctl.check/v1",
		exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse},
		examples: []string{
			"mqctl check ha --max-gap 64MiB --max-gap-time 5s", "mqctl check ha --broker broker-a --max-gap 0 -o nagios", "mqctl check ha --max-gap 1GiB -o prometheus",
		},
		flags: append(gapFlags("fail when"),
			flagSpec{key: "min-slaves", kind: kindInt, max: math.MaxInt32, meta: "N", help: "fail when a master has fewer slaves within the limits (default: what a synchronous master waits for)"}),
		view: view{
			item: checkItem{}, name: func(item any) string { return item.(*checkItem).Target },
			outputs: map[string]func(*printer, *result){"nagios": printNagios, "prometheus": printPrometheus},
			columns: []column{
				{head: "CHECK", field: "check"}, {head: "TARGET", field: "target"}, {head: "STATE", field: "state"}, {head: "VALUE", field: "value", as: asBytes},
				{head: "LIMIT", field: "limit", as: asBytes}, {head: "GAP TIME", field: "gapMillis", as: asMillis}, {head: "MESSAGE", field: "message"},
			},
		},
	}}
}

// Exit statuses of a plugin for Nagios.
const (
	nagiosOK       = 0
	nagiosCritical = 2
	nagiosUnknown  = 3
)

func runCheckHA(ctx context.Context, c *call) (*result, error) {
	limit, err := c.gapLimit()
	if err != nil {
		return nil, err
	}
	if !limit.given() && !c.given("min-slaves") {
		limit.bytes = ptr(int64(defaultMaxGap))
	}
	ha, err := c.haOnce(ctx)
	if err != nil {
		if c.p.format == "nagios" {
			// A monitor wants its one line whatever happened.
			m := asMessage(c.explain(err))
			return &result{final: ptr(nagiosUnknown), raw: []byte("HA UNKNOWN - " + oneLine(m.Text) + "\n")}, nil
		}
		return nil, err
	}
	r := &result{cluster: ha.cluster, warnings: ha.warnings, errors: ha.errors, done: ha.done}
	for _, item := range ha.items {
		it := item.(*haItem)
		good := int64(0)
		for i := range it.Connections {
			ci := checkLink(it, &it.Connections[i], limit)
			if ci.State == "OK" {
				good++
			}
			r.add(ci)
		}
		r.checkMaster(c, it, good)
	}
	c.judge(r)
	return r, nil
}

// defaultMaxGap is haMaxGapNotInSync: the gap from which on a master does not
// call a slave in sync.
const defaultMaxGap = 256 << 20

// checkLink checks one slave.
func checkLink(it *haItem, k *haConnection, limit gapLimit) *checkItem {
	ci := &checkItem{Check: "ha", Target: it.slaveName(k), State: "OK", Value: k.GapBytes, Limit: limit.bytes, Millis: k.GapMillis,
		Role: ptr(k.State), broker: it.Broker, id: k.BrokerID, link: k, Message: k.stateText()}
	if !limit.given() {
		limit.bytes = ptr(int64(math.MaxInt64))
	}
	why := limit.exceeded(k)
	switch {
	case why != "" && it.State != nil && !brokenStates[k.State]:
		ci.State, ci.Message = "UNKNOWN", "its master does not answer"
	case why != "":
		ci.State, ci.Message = "FAIL", why
		if k.Why != nil && k.State != stateSyncing {
			ci.Message += ": " + *k.Why
		}
	}
	return ci
}

// checkMaster adds what is to be said of the master itself.
func (r *result) checkMaster(c *call, it *haItem, good int64) {
	ci := &checkItem{Check: "ha", Target: nameID(it.Broker, 0), State: "OK", Message: "master", broker: it.Broker, id: ptr(int64(0))}
	switch {
	case it.State != nil:
		ci.State, ci.Message = "FAIL", "the master does not answer"
		if it.Addr == nil || *it.Addr == "" {
			ci.Message = "no master is registered"
		}
	case c.given("min-slaves") && good < c.whole("min-slaves"):
		ci.State, ci.Message = "FAIL", fmt.Sprintf("%s within the limits, %d wanted", count(int(good), "slave"), c.whole("min-slaves"))
	case !c.given("min-slaves") && good < it.need:
		ci.State, ci.Message = "FAIL", fmt.Sprintf("%s within the limits, and sends wait for %d", count(int(good), "slave"), it.need)
	case len(it.Connections) == 0:
		ci.Message = "master without slaves"
	}
	r.add(ci)
}

// judge sets the exit status: a false condition comes before an incomplete answer.
func (c *call) judge(r *result) {
	states := map[string]int{}
	for _, item := range r.items {
		states[item.(*checkItem).State]++
	}
	switch {
	case states["FAIL"] > 0:
		r.final = ptr(ExitConditionFalse)
	case len(r.errors) > 0 && r.done == 0:
	case states["UNKNOWN"] > 0 || len(r.errors) > 0:
		r.final = ptr(ExitPartial)
	}
	if c.p.format != "nagios" {
		return
	}
	r.final = ptr(nagiosOK)
	switch {
	case states["FAIL"] > 0:
		r.final = ptr(nagiosCritical)
	case states["UNKNOWN"] > 0 || len(r.errors) > 0:
		r.final = ptr(nagiosUnknown)
	}
}

// longestNagios is how much of a plugin's answer Nagios reads, in bytes. Of that
// half is for what failed.
const longestNagios = 4096

// printNagios is one line with performance data, as monitoring plugins print it,
// no longer than what is read of it.
func printNagios(p *printer, r *result) {
	word := map[int]string{nagiosOK: "OK", nagiosCritical: "CRITICAL", nagiosUnknown: "UNKNOWN"}[*r.final]
	var bad, badPerf, perf []string
	fine, drift, drifts := 0, int64(0), false
	for _, item := range r.items {
		it := item.(*checkItem)
		if it.State == "OK" {
			fine++
			perf = append(perf, it.perf()...)
		} else {
			bad = append(bad, it.Target+" "+oneLine(it.Message))
			badPerf = append(badPerf, it.perf()...)
		}
		if it.Check == "drift" && it.Value != nil {
			drift, drifts = drift+*it.Value, true
		}
	}
	if drifts {
		badPerf = append([]string{fmt.Sprintf("'drift'=%d;;0;0", drift)}, badPerf...)
	}
	text := count(fine, "check") + " passed"
	if len(bad) > 0 {
		text = strings.ReplaceAll(within(bad, "; ", longestNagios/2, "and %d more"), "|", "/")
	}
	what := "HA"
	if name, ok := r.extra.(string); ok {
		what = name
	}
	line := what + " " + word + " - " + text
	if data := within(append(badPerf, perf...), " ", longestNagios-len(line)-4, ""); data != "" {
		line += " | " + data
	}
	p.printf("%s\n", line)
}

// perf is the performance data of a check. That of drift is one sum for all: it
// exists for every topic and group there is.
func (it *checkItem) perf() []string {
	if it.Value == nil || it.Check == "drift" {
		return nil
	}
	limit := ""
	if it.Limit != nil {
		limit = strconv.FormatInt(*it.Limit, 10)
	}
	if it.Check != "ha" {
		unit := map[string]string{"disk": "%"}[it.Check]
		return []string{fmt.Sprintf("'%s %s'=%d%s;;%s;0", strings.ReplaceAll(it.Target, "'", "_"), it.Check, *it.Value, unit, limit)}
	}
	out := []string{fmt.Sprintf("'%s gap'=%dB;;%s;0", it.Target, *it.Value, limit)}
	if it.Millis != nil {
		out = append(out, fmt.Sprintf("'%s gap_time'=%.3fs", it.Target, float64(*it.Millis)/1000))
	}
	return out
}

// within joins as many parts as fit into some bytes, at least one where rest says
// how many are left out.
func within(parts []string, between string, most int, rest string) string {
	var b strings.Builder
	for i, part := range parts {
		if b.Len()+len(between)+len(part) > most && (i > 0 || rest == "") {
			if rest != "" {
				b.WriteString(between + fmt.Sprintf(rest, len(parts)-i))
			}
			break
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(part)
	}
	return b.String()
}

// gauges of check ha in Prometheus' text form.
var gauges = []struct {
	name, help string
	value      func(*checkItem) (string, bool)
}{
	{"mqctl_check_ok", "1 when the check passed, 0 when it failed or could not be made", func(it *checkItem) (string, bool) { return oneOrZero(it.State == "OK"), true }},
	{"mqctl_ha_gap_bytes", "newest byte of the master minus newest byte of the slave", func(it *checkItem) (string, bool) { return it.valueOf("ha") }},
	{"mqctl_group_lag", "messages that a group is behind", func(it *checkItem) (string, bool) { return it.valueOf("lag") }},
	{"mqctl_disk_used_percent", "of the disk of the commit log", func(it *checkItem) (string, bool) { return it.valueOf("disk") }},
	{"mqctl_drift", "masters at which a topic or a group differs or is missing", func(it *checkItem) (string, bool) { return it.valueOf("drift") }},
	{"mqctl_ha_gap_seconds", "age of the oldest byte that the slave lacks", func(it *checkItem) (string, bool) {
		if it.Millis == nil {
			return "", false
		}
		return strconv.FormatFloat(float64(*it.Millis)/1000, 'f', -1, 64), true
	}},
	{"mqctl_ha_connected", "1 when the master has a connection of the slave", func(it *checkItem) (string, bool) {
		if it.link == nil {
			return "", false
		}
		return oneOrZero(it.link.connected()), true
	}},
	{"mqctl_ha_in_sync", "1 when the master counts the slave as in sync", func(it *checkItem) (string, bool) {
		if it.link == nil || it.link.InSync == nil {
			return "", false
		}
		return oneOrZero(*it.link.InSync), true
	}},
	{"mqctl_ha_acked_offset", "newest byte that the slave has acknowledged", func(it *checkItem) (string, bool) {
		if it.link == nil {
			return "", false
		}
		return wholeText(it.link.AckedOffset)
	}},
}

// valueOf is the value of an item of one check.
func (it *checkItem) valueOf(check string) (string, bool) {
	if it.Check != check {
		return "", false
	}
	return wholeText(it.Value)
}

func oneOrZero(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func wholeText(n *int64) (string, bool) {
	if n == nil {
		return "", false
	}
	return strconv.FormatInt(*n, 10), true
}

// labelEscape writes a label's value as Prometheus reads it.
var labelEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// printPrometheus is the text form that a node exporter's textfile collector
// takes. What is not known is left out.
func printPrometheus(p *printer, r *result) {
	for _, g := range gauges {
		first := true
		for _, item := range r.items {
			it := item.(*checkItem)
			v, ok := g.value(it)
			if !ok {
				continue
			}
			if first {
				p.printf("# HELP %s %s\n# TYPE %s gauge\n", g.name, g.help, g.name)
				first = false
			}
			labels := `check="` + it.Check + `",broker="` + labelEscape.Replace(it.broker) + `"`
			if it.broker == "" {
				labels = `check="` + it.Check + `",target="` + labelEscape.Replace(it.Target) + `"`
			} else if it.id != nil {
				labels += fmt.Sprintf(`,broker_id="%d"`, *it.id)
			} else {
				labels += `,addr="` + labelEscape.Replace(it.Target) + `"`
			}
			p.printf("%s{%s} %s\n", g.name, labels, v)
		}
	}
	p.printf("# HELP mqctl_check_time_seconds when these figures were taken\n# TYPE mqctl_check_time_seconds gauge\nmqctl_check_time_seconds %.3f\n",
		float64(time.Now().UnixMilli())/1000)
}
