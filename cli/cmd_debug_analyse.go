package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// findingItem is one thing that a bundle shows.
type findingItem struct {
	Check   string   `json:"check"`
	State   string   `json:"state" enum:"OK|WARN|FAIL"`
	Target  string   `json:"target"`
	Message string   `json:"message"`
	Why     string   `json:"why"`
	Try     []string `json:"try"`
	Part    string   `json:"part"` // of the bundle, where it can be seen
}

// analysis is one run of debug analyse: pure, from what is in the bundle.
type analysis struct {
	parts   map[string][]byte
	man     manifest
	created time.Time
	maxLag  int64
	maxGap  int64
	brokers []*seenBroker
	servers []*nsRoutes
	out     []*findingItem
	broken  map[string]error // parts that cannot be read
}

// seenBroker is what a bundle has of one broker; nil fields are missing parts.
type seenBroker struct {
	bundled
	runtime runtimeView
	config  map[string]string
	topics  map[string]topic.Config
	groups  map[string]subgroup.Config
	ha      *admin.HAStatus
	own     *body.InspectHA
	offsets *body.InspectOffsets
	latency *body.InspectLatency
	pull    *body.InspectPull
	events  *body.InspectEvents
	backlog []backlogRow
	log     []*logItem
	stacks  []byte
	store   *storeLook
}

func (b *seenBroker) name() string { return nameID(b.Broker, b.BrokerID) }

func (b *seenBroker) part(name string) string { return b.Folder + "/" + name }

func (b *seenBroker) slave() bool {
	return b.config["brokerRole"] == "SLAVE" || b.config["brokerRole"] == "" && b.BrokerID > 0
}

func runDebugAnalyse(_ context.Context, c *call) (*result, error) {
	gap, err := parseSize(c.str("max-gap"))
	if err != nil || gap < 0 {
		return nil, usage("BAD_VALUE", "--max-gap: %q is no number of bytes", c.str("max-gap")).try("--max-gap 64MiB")
	}
	parts, err := readBundle(c.arg(0))
	if err != nil {
		return nil, err
	}
	a := &analysis{parts: parts, maxLag: c.whole("max-lag"), maxGap: gap, broken: map[string]error{}}
	if err := json.Unmarshal(parts[manifestName], &a.man); err != nil || a.man.Schema != manifestSchema {
		return nil, badBundle(c.arg(0), "its %s is none that this version reads: schema %s", manifestName, shown(a.man.Schema))
	}
	if a.created, err = time.Parse(timeLayout, a.man.CreatedAt); err != nil {
		return nil, badBundle(c.arg(0), "its %s has no time", manifestName)
	}
	a.read()
	a.judge()
	return a.result(c), nil
}

// result orders the findings and chooses the exit status.
func (a *analysis) result(c *call) *result {
	r := &result{empty: "nothing was found"}
	if a.man.Cluster != nil {
		r.cluster = *a.man.Cluster
	}
	rank := map[string]int{"FAIL": 0, "WARN": 1, "OK": 2}
	sort.SliceStable(a.out, func(i, j int) bool { return rank[a.out[i].State] < rank[a.out[j].State] })
	for _, f := range a.out {
		if f.State == "FAIL" || f.State == "WARN" && c.on("strict") {
			r.final = ptr(ExitConditionFalse)
		}
		if f.State != "OK" || c.on("all") {
			r.add(f)
		}
	}
	return r
}

func footAnalyse(p *printer, r *result) {
	n := map[string]int{}
	for _, item := range r.items {
		n[item.(*findingItem).State]++
	}
	switch {
	case n["FAIL"] > 0:
		p.printf("%s\n", p.style.red(count(n["FAIL"], "failure")+", "+count(n["WARN"], "warning")))
	case n["WARN"] > 0:
		p.printf("%s\n", p.style.yellow(count(n["WARN"], "warning")))
	default:
		p.printf("%s\n", p.style.green("nothing to worry about"))
	}
}

// say adds a finding.
func (a *analysis) say(state, check, target, part, message, why string, try ...string) {
	if try == nil {
		try = []string{}
	}
	a.out = append(a.out, &findingItem{Check: check, State: state, Target: target, Message: message, Why: why, Try: try, Part: part})
}

// load reads a JSON part into v; false: it is not there or cannot be read.
func (a *analysis) load(name string, v any) bool {
	b, ok := a.parts[name]
	if !ok {
		return false
	}
	if err := json.Unmarshal(b, v); err != nil {
		a.broken[name] = err
		return false
	}
	return true
}

// loaded is load of a struct; nil when it is not there.
func loaded[T any](a *analysis, name string) *T {
	var v T
	if !a.load(name, &v) {
		return nil
	}
	return &v
}

// read takes the bundle apart.
func (a *analysis) read() {
	for i := range a.man.Brokers {
		b := &seenBroker{bundled: a.man.Brokers[i]}
		a.load(b.part("runtime.json"), &b.runtime)
		a.load(b.part("topics.json"), &b.topics)
		a.load(b.part("groups.json"), &b.groups)
		a.load(b.part("backlog.json"), &b.backlog)
		b.config = propertiesOf(a.parts[b.part("config.properties")])
		b.ha, b.own = loaded[admin.HAStatus](a, b.part("ha.json")), loaded[body.InspectHA](a, b.part("inspect-ha.json"))
		b.offsets, b.latency = loaded[body.InspectOffsets](a, b.part("inspect-offsets.json")), loaded[body.InspectLatency](a, b.part("inspect-latency.json"))
		b.pull, b.events = loaded[body.InspectPull](a, b.part("inspect-pull.json")), loaded[body.InspectEvents](a, b.part("events.json"))
		b.store = loaded[storeLook](a, b.part("store/verify.json"))
		b.stacks = a.parts[b.part("goroutines.txt")]
		for line := range bytes.Lines(a.parts[b.part("log.jsonl")]) {
			if it, ok := readLogLine(line); ok {
				b.log = append(b.log, it)
			}
		}
		a.brokers = append(a.brokers, b)
	}
	for i := 1; a.parts[fmt.Sprintf("nameservers/%d/routes.json", i)] != nil; i++ {
		if ns := loaded[nsRoutes](a, fmt.Sprintf("nameservers/%d/routes.json", i)); ns != nil {
			a.servers = append(a.servers, ns)
		}
	}
}

func propertiesOf(text []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			out[k] = v
		}
	}
	return out
}

// judge goes through all checks. Each says something of every broker, so that with
// --all it can be seen what was looked at.
func (a *analysis) judge() {
	a.whole()
	a.nameservers()
	for _, b := range a.brokers {
		if !a.answers(b) {
			continue
		}
		a.disk(b)
		a.clock(b)
		a.starts(b)
		a.waits(b)
		a.flush(b)
		a.latencies(b)
		a.replication(b)
		a.slowReads(b)
		a.backlog(b)
		a.logs(b)
		a.goroutines(b)
	}
	for _, b := range a.brokers {
		a.storage(b.name(), b.part("store/verify.json"), b.store)
	}
	a.storage("store", "store/verify.json", loaded[storeLook](a, "store/verify.json"))
	a.masters()
	a.drift()
	a.unreadable()
}

// whole: which parts are missing.
func (a *analysis) whole() {
	missing := 0
	for _, p := range a.man.Parts {
		switch {
		case p.Error != nil:
			missing++
			if !a.ofSilent(p.Name) {
				a.say("WARN", "BUNDLE", p.Name, p.Name, "it could not be had", *p.Error)
			}
		case p.Skipped == nil && a.parts[p.Name] == nil:
			missing++
			a.say("WARN", "BUNDLE", p.Name, manifestName, "the bundle lists it and does not hold it", "it was changed after it was made")
		case p.SHA256 != nil && *p.SHA256 != *sumOf(a.parts[p.Name]):
			missing++
			a.say("WARN", "BUNDLE", p.Name, manifestName, "it is not what was put into the bundle", "its checksum is another")
		}
	}
	if missing == 0 {
		a.say("OK", "BUNDLE", "bundle", manifestName, count(len(a.man.Parts), "part")+" of "+a.man.CreatedAt, "")
	}
}

// ofSilent reports whether a part belongs to a broker or nameserver that is told of
// by itself.
func (a *analysis) ofSilent(name string) bool {
	for i := range a.man.Brokers {
		if b := &a.man.Brokers[i]; !b.Answered && strings.HasPrefix(name, b.Folder+"/") {
			return true
		}
	}
	return strings.HasPrefix(name, "nameservers/") && strings.HasSuffix(name, "/routes.json")
}

func (a *analysis) unreadable() {
	for _, name := range sortedKeys(a.broken) {
		a.say("WARN", "BUNDLE", name, name, "it cannot be read", a.broken[name].Error())
	}
}

// answers: a broker that was silent has nothing else to tell.
func (a *analysis) answers(b *seenBroker) bool {
	if b.Answered {
		a.say("OK", "BROKER", b.name(), b.part("runtime.json"), "answers", "")
		return true
	}
	why := ""
	if b.Error != nil {
		why = *b.Error
	}
	try := []string{"mqctl broker status " + b.name(), "mqctl broker logs " + b.name()}
	if b.store != nil {
		try = append(try, "mqctl broker start --check --store "+shellWord(b.store.Dir))
	}
	a.say("FAIL", "BROKER", b.name(), b.part("runtime.json"), "does not answer", why, try...)
	return false
}
