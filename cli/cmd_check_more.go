package cli

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// checkView shows checks whose values are plain numbers.
func checkView() view {
	return view{
		item: checkItem{}, name: func(item any) string { return item.(*checkItem).Target },
		outputs: map[string]func(*printer, *result){"nagios": printNagios, "prometheus": printPrometheus},
		columns: []column{
			{head: "CHECK", field: "check"}, {head: "TARGET", field: "target"}, {head: "STATE", field: "state"}, {head: "VALUE", field: "value", as: asNumber},
			{head: "LIMIT", field: "limit", as: asNumber}, {head: "MESSAGE", field: "message"},
		},
	}
}

// checker adds the items of one check.
type checker func(ctx context.Context, c *call, r *result) error

func checkMoreCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitConditionFalse}
	one := func(name, summary string, f checker, examples []string, flags ...flagSpec) *command {
		return &command{
			path: "check " + name, summary: summary, schema: "mqctl.check/v1", exits: exits, view: checkView(), examples: examples, flags: flags,
			run: func(ctx context.Context, c *call) (*result, error) { return c.check(ctx, strings.ToUpper(name), f) },
		}
	}
	maxLag := flagSpec{key: "max", kind: kindInt, max: math.MaxInt64, def: "10000", meta: "N", help: "fail when a group is more messages behind"}
	maxDisk := flagSpec{key: "max", kind: kindInt, min: 1, max: 100, def: "75", meta: "PERCENT", help: "fail when more of a disk is used"}
	minVersion := flagSpec{key: "min-version", meta: "V", help: "fail when a broker is older: 5.3.0, or 1.2.0 of mqctl"}
	file := flagSpec{key: "file", letter: "f", meta: "FILE", complete: "file", help: "compare with this file, as mqctl plan does, instead of the masters with each other"}
	all := one("all", "all checks", checkEverything,
		[]string{"mqctl check all", "mqctl check all --max-lag 100000 --max-disk 80 -o prometheus", "mqctl check all -o nagios"},
		flagSpec{key: "max-lag", kind: kindInt, max: math.MaxInt64, meta: "N", help: "groups too: fail when one is more messages behind"},
		flagSpec{key: "max-disk", kind: kindInt, min: 1, max: 100, def: "75", meta: "PERCENT", help: "fail when more of a disk is used"})
	all.flags = append(all.flags, gapFlags("fail when")...)
	return []*command{
		one("broker", "brokers for monitoring", checkBrokers, []string{"mqctl check broker", "mqctl check broker --min-version 5.3.0 -o nagios"}, minVersion),
		one("lag", "backlog for monitoring", checkLag, []string{"mqctl check lag --max 100000 --output jsonl", "mqctl check lag --group order_consumer --max 1000 -o nagios"},
			maxLag, flagSpec{key: "group", meta: "GROUP", complete: "group", help: "this group only"},
			flagSpec{key: "topic", meta: "TOPIC", complete: "topic", help: "with --group: in this topic only"}),
		one("disk", "disks for monitoring", checkDisks, []string{"mqctl check disk --max 75", "mqctl check disk -o prometheus"}, maxDisk),
		one("drift", "topics and groups that differ between masters", checkDrift, []string{"mqctl check drift", "mqctl check drift -f cluster.toml"}, file,
			flagSpec{key: "prune", kind: kindBool, help: "with --file: what is there and not in the file is a difference too"}),
		all,
		{
			old: "startMonitoring", twin: "check all --watch", summary: "watch backlog and dead letters without end", run: runStartMonitoring, schema: "mqctl.check/v1", attrs: streams,
			exits: exits, view: checkView(), examples: []string{"mqctl startMonitoring -n 127.0.0.1:9876"},
			flags: []flagSpec{
				{key: "max-lag", kind: kindInt, max: math.MaxInt64, def: "100000", meta: "N", help: "tell of a group that is more messages behind"},
				{key: "every", kind: kindDuration, def: "60s", meta: "DUR", help: "pause between two rounds"},
				{key: "rounds", kind: kindInt, max: math.MaxInt32, def: "0", meta: "N", help: "end after so many; 0: never"},
			},
		},
	}
}

// check runs one check and chooses the exit status. A monitor gets its one line
// whatever happened.
func (c *call) check(ctx context.Context, name string, f checker) (*result, error) {
	r := &result{extra: name}
	if err := f(ctx, c, r); err != nil {
		if c.p.format == "nagios" {
			m := asMessage(c.explain(err))
			return &result{final: ptr(nagiosUnknown), raw: []byte(name + " UNKNOWN - " + oneLine(m.Text) + "\n")}, nil
		}
		return nil, err
	}
	c.judge(r)
	return r, nil
}

func checkEverything(ctx context.Context, c *call, r *result) error {
	list := []checker{checkBrokers, checkGaps, checkDisks, checkDrift}
	if c.given("max-lag") {
		list = append(list, checkLag)
	}
	for _, f := range list {
		if err := f(ctx, c, r); err != nil {
			return err
		}
	}
	// One broker that does not answer is told once.
	seen := map[string]bool{}
	errs := r.errors[:0]
	for _, m := range r.errors {
		if !seen[m.Code+m.Addr] {
			errs = append(errs, m)
		}
		seen[m.Code+m.Addr] = true
	}
	r.errors = errs
	return nil
}

// checkGaps is check ha as a part of check all.
func checkGaps(ctx context.Context, c *call, r *result) error {
	ha, err := runCheckHA(ctx, c)
	if err != nil {
		return err
	}
	r.add(ha.items...)
	r.errors, r.warnings, r.done = append(r.errors, ha.errors...), append(r.warnings, ha.warnings...), r.done+ha.done
	return nil
}

// everyTarget lists all replicas that the flags select.
func (c *call) everyTarget(ctx context.Context) (*admin.Cluster, []admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, nil, err
	}
	cluster, err := a.Cluster(ctx)
	if err != nil {
		return nil, nil, c.explain(err)
	}
	targets, err := everyReplica(cluster, c.selector(false))
	if err != nil {
		return nil, nil, c.explain(err)
	}
	return cluster, targets, nil
}

// everyBroker asks all replicas for their runtime; those that do not answer are
// items too.
func (c *call) everyBroker(ctx context.Context, r *result, check string, config bool) ([]admin.Result[replica], error) {
	_, targets, err := c.everyTarget(ctx)
	if err != nil {
		return nil, err
	}
	r.cluster = clusterOf(targets)
	all := c.replicas(ctx, targets, config)
	out := all[:0]
	for _, res := range all {
		if res.Err == nil {
			r.done++
			out = append(out, res)
			continue
		}
		m := c.at(res.Err, res.Target)
		r.failed(m)
		state := "UNKNOWN"
		if check == "broker" {
			state = "FAIL"
		}
		r.add(&checkItem{Check: check, Target: res.Target.String(), State: state, Message: m.Text, broker: nameOf(res.Target), id: ptr(max(0, res.Target.ID))})
	}
	return out, nil
}

func checkBrokers(ctx context.Context, c *call, r *result) error {
	all, err := c.everyBroker(ctx, r, "broker", false)
	if err != nil {
		return err
	}
	least := c.str("min-version")
	for _, res := range all {
		rt := res.Value.runtime
		it := &checkItem{Check: "broker", Target: res.Target.String(), State: "OK", Message: valueText(deref(rt.version())), broker: nameOf(res.Target), id: ptr(max(0, res.Target.ID))}
		switch {
		case c.inactive(ctx, res.Target, rt):
			it.State, it.Message = "FAIL", "it is not active"
		case least != "" && !newEnough(valueText(deref(rt.version())), least):
			it.State, it.Message = "FAIL", fmt.Sprintf("%s is older than %s", valueText(deref(rt.version())), least)
		}
		r.add(it)
	}
	return c.masterless(ctx, r)
}

// masterless adds the broker names of which only slaves are registered: a master that
// was lost is in no list, and what it would have answered is missing without a word.
func (c *call) masterless(ctx context.Context, r *result) error {
	s := c.selector(false)
	if admin.IsAddress(s.Broker) || strings.Contains(s.Broker, "/") {
		return nil
	}
	view, err := c.client.Cluster(ctx)
	if err != nil {
		return c.explain(err)
	}
	for _, name := range view.BrokerNames(s.Cluster) {
		if view.Brokers[name].Master() == "" && (s.Broker == "" || s.Broker == name) {
			r.add(&checkItem{Check: "broker", Target: nameID(name, 0), State: "FAIL", Message: "no master is registered", broker: name, id: ptr(int64(0))})
		}
	}
	return nil
}

// newEnough compares versions: "mqctl 1.2.3" and V5_3_3 with 5.3.0. A version that
// has no numbers (a build of nobody's) is new enough.
func newEnough(have, least string) bool {
	a, b := versionNumbers(have), versionNumbers(least)
	for i := range b {
		switch {
		case i >= len(a):
			return len(a) == 0
		case a[i] != b[i]:
			return a[i] > b[i]
		}
	}
	return true
}

func versionNumbers(text string) []int64 {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "mqctl "), "-")
	var out []int64
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		n := int64(0)
		for _, d := range part {
			n = min(n*10+int64(d-'0'), math.MaxInt32)
		}
		out = append(out, n)
	}
	return out
}

func checkDisks(ctx context.Context, c *call, r *result) error {
	all, err := c.everyBroker(ctx, r, "disk", false)
	if err != nil {
		return err
	}
	limit := c.whole("max")
	if c.cmd.path == "check all" {
		limit = c.whole("max-disk")
	}
	for _, res := range all {
		it := &checkItem{Check: "disk", Target: res.Target.String(), State: "OK", Limit: &limit, broker: nameOf(res.Target), id: ptr(max(0, res.Target.ID))}
		used := res.Value.runtime.percent("commitLogDiskRatio")
		if used == nil {
			it.State, it.Message = "UNKNOWN", "it does not tell"
		} else {
			it.Value = ptr(int64(math.Ceil(*used)))
			it.Message = fmt.Sprintf("%.1f %% used", *used)
			if *used > float64(limit) {
				it.State = "FAIL"
			}
		}
		r.add(it)
	}
	return nil
}

func checkLag(ctx context.Context, c *call, r *result) error {
	limit := c.whole("max")
	if c.flag("max-lag") != nil {
		limit = c.whole("max-lag")
	}
	if g := c.str("group"); g != "" {
		if err := subgroup.CheckName(g); err != nil {
			return usage("BAD_NAME", "%q is not a group name", g).because("%v", err)
		}
		value, text, err := c.groupLag(ctx, r, g, c.str("topic"))
		if err != nil {
			return err
		}
		r.add(lagCheck(g, value, limit, text))
		return nil
	}
	lines, err := c.groupLines(ctx, r, func(name string) bool { return !systemGroup(name) })
	if err != nil {
		return err
	}
	for _, l := range lines {
		l.hideBroadcast()
		text := ""
		if l.Lag == nil {
			text = "no backlog is known"
		}
		r.add(lagCheck(l.Group, l.Lag, limit, text))
	}
	r.empty = "there is no group"
	return nil
}

func lagCheck(group string, value *int64, limit int64, text string) *checkItem {
	it := &checkItem{Check: "lag", Target: group, State: "OK", Value: value, Limit: &limit, Message: text}
	if text == "" && value != nil {
		it.Message = fmt.Sprintf("%d messages behind", *value)
	}
	if value != nil && *value > limit {
		it.State = "FAIL"
	}
	return it
}

// groupLag is how far one group is behind: nil when it has stored no offsets.
func (c *call) groupLag(ctx context.Context, r *result, group, inTopic string) (*int64, string, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, "", err
	}
	r.cluster = clusterOf(targets)
	sum, found, model := int64(0), false, ""
	for _, res := range eachRead(ctx, c, targets, c.progressAt(group, inTopic)) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		if m := res.Value.members; m != nil {
			model = m.MessageModel
		}
		if res.Value.stats == nil {
			continue
		}
		for _, p := range res.Value.stats.Queues {
			sum, found = sum+p.Lag(), true
		}
	}
	switch {
	case model == "BROADCASTING":
		return nil, "broadcasting: its members keep their own offsets", nil
	case found:
		return &sum, "", nil
	case len(r.errors) > 0:
		return nil, "not known", nil
	}
	known := map[string]bool{}
	for _, g := range allGroups(ctx, c, targets) {
		for n := range g.Value {
			known[n] = true
		}
	}
	if !known[group] && model == "" {
		return nil, "", groupMissing(group, r.cluster, known)
	}
	return nil, "it has stored no offsets yet", nil
}

// checkDrift compares topics and groups of the masters with each other, or all of
// them with a file.
func checkDrift(ctx context.Context, c *call, r *result) error {
	if c.str("file") != "" {
		plan, err := c.planAll(ctx, r)
		if err != nil {
			return err
		}
		for _, p := range plan {
			it := &checkItem{Check: "drift", Target: p.Kind + " " + p.Name + " " + p.Broker, State: "OK", Message: "as in the file"}
			if p.Changed {
				it.State, it.Message = "FAIL", strings.ToLower(p.Action)+" "+joinedChanges(p.Changes)
			}
			r.add(it)
			r.done++
		}
		return nil
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return err
	}
	r.cluster = clusterOf(targets)
	var tables []brokerThings
	for _, res := range admin.Each(ctx, c.client, 0, targets, c.thingsAt) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		tables = append(tables, brokerThings{res.Target.String(), res.Value})
	}
	names := map[string]bool{}
	for _, t := range tables {
		for key := range t.things {
			names[key] = true
		}
	}
	for _, key := range sortedKeys(names) {
		r.add(drift(key, tables))
	}
	r.empty = "there are no topics and groups"
	return nil
}

// brokerThings is what one master has, by key.
type brokerThings struct {
	broker string
	things map[string]state
}

// thingsAt are the topics and groups of a broker that are not its own, without what
// differs anyway.
func (c *call) thingsAt(ctx context.Context, t admin.Target) (map[string]state, error) {
	out := map[string]state{}
	topics, _, err := c.client.TopicConfigs(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	for name, cfg := range topics {
		if !topic.IsSystemOf(t.Cluster, name) && name != t.Broker && !strings.HasPrefix(name, "%RETRY%") && !strings.HasPrefix(name, "%DLQ%") {
			out[kindTopic+" "+name] = stateOf(cfg)
		}
	}
	groups, _, err := c.client.Groups(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	for name, cfg := range groups {
		if !systemGroup(name) {
			out[kindGroup+" "+name] = stateOf(cfg)
		}
	}
	return out, nil
}

// drift compares one thing over the masters with the first that has it.
func drift(key string, tables []brokerThings) *checkItem {
	it := &checkItem{Check: "drift", Target: key, State: "OK", Message: "the same at " + count(len(tables), "master"), Value: ptr(int64(0)), Limit: ptr(int64(0))}
	var first *brokerThings
	var missing, differ []string
	for i := range tables {
		have := tables[i].things[key]
		switch {
		case have == nil:
			missing = append(missing, tables[i].broker)
		case first == nil:
			first = &tables[i]
		default:
			if changes := first.things[key].changesTo(have); len(changes) > 0 {
				differ = append(differ, first.broker+" and "+tables[i].broker+": "+joinedChanges(changes))
			}
		}
	}
	if len(missing)+len(differ) == 0 {
		return it
	}
	it.State, it.Value = "FAIL", ptr(int64(len(missing)+len(differ)))
	sort.Strings(missing)
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, "missing at "+strings.Join(missing, ", "))
	}
	it.Message = strings.Join(append(parts, differ...), "; ")
	return it
}

// runStartMonitoring tells of groups that are behind and of dead letters, round
// after round.
func runStartMonitoring(ctx context.Context, c *call) (*result, error) {
	var last *result
	dead := map[string]int64{}
	for round := int64(1); ; round++ {
		r := &result{streamed: true}
		if err := checkLag(ctx, c, r); err != nil {
			return nil, err
		}
		c.deadLetters(ctx, r, dead)
		bad := &result{cluster: r.cluster}
		for _, item := range r.items {
			if item.(*checkItem).State != "OK" {
				bad.add(item)
			}
		}
		if err := c.p.print(bad); err != nil {
			return nil, err
		}
		c.p.headers = false
		last = &result{streamed: true, errors: r.errors, done: r.done}
		if n := c.whole("rounds"); n > 0 && round >= n || c.p.broken != nil {
			return last, nil
		}
		if !rest(ctx, c.duration("every")) {
			return last, nil
		}
	}
}

// deadLetters adds an item for each group that has more dead letters than at the
// last round.
func (c *call) deadLetters(ctx context.Context, r *result, before map[string]int64) {
	topics, err := c.client.Topics(ctx)
	if err != nil {
		return
	}
	for _, name := range topics {
		if !strings.HasPrefix(name, "%DLQ%") {
			continue
		}
		targets, err := c.routeTargets(ctx, name)
		if err != nil {
			continue
		}
		sum := int64(0)
		for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.TopicStats, error) {
			return c.client.TopicStats(ctx, t.Addr, name)
		}) {
			if res.Err != nil {
				continue
			}
			for _, q := range res.Value.Queues {
				sum += q.Max
			}
		}
		if was := before[name]; sum > was {
			r.add(&checkItem{Check: "dlq", Target: strings.TrimPrefix(name, "%DLQ%"), State: "FAIL", Value: &sum, Limit: &was, Message: fmt.Sprintf("%d new dead letters", sum-was)})
		}
		before[name] = sum
	}
}
