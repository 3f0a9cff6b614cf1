package cli

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// healthItem is one reason of the verdict.
type healthItem struct {
	Check   string   `json:"check" enum:"BROKER|MASTER|SLAVE|DISK|ROUTE|NAMESERVER|CLOCK"`
	State   string   `json:"state" enum:"OK|WARN|FAIL"`
	Target  string   `json:"target"`
	Message string   `json:"message"`
	Try     []string `json:"try"`
}

// sameItem is one thing that nameservers tell, and whether they tell the same.
type sameItem struct {
	What        string            `json:"what" enum:"BROKER|TOPIC"`
	Target      string            `json:"target"`
	State       string            `json:"state" enum:"SAME|DIFFERENT|UNKNOWN"`
	Nameservers map[string]string `json:"nameservers"` // what each says, in short
}

func clusterHealthCommands() []*command {
	return []*command{
		{
			path: "cluster health", summary: "one verdict and its reasons", run: runHealth, schema: "mqctl.cluster.health/v1",
			exits: []int{ExitNotFound, ExitConditionFalse}, examples: []string{"mqctl cluster health", "mqctl cluster health --filter 'state!=OK'"},
			view: view{
				item: healthItem{}, name: func(item any) string { return item.(*healthItem).Target }, foot: footHealth,
				columns: []column{
					{head: "CHECK", field: "check"}, {head: "STATE", field: "state"}, {head: "TARGET", field: "target"}, {head: "MESSAGE", field: "message"}, {head: "TRY", field: "try", as: asTry, fold: 1},
				},
			},
		},
		{
			path: "cluster route-check", summary: "do all nameservers tell the same", run: runRouteCheck, schema: "mqctl.cluster.route-check/v1",
			exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse}, examples: []string{"mqctl cluster route-check -n 10.0.0.4:9876,10.0.0.5:9876", "mqctl cluster route-check --topic orders"},
			flags: []flagSpec{
				{key: "topic", meta: "TOPIC", complete: "topic", help: "the route of this topic only"},
				{key: "different", kind: kindBool, help: "leave out what is the same everywhere"},
			},
			view: view{
				item: sameItem{}, name: func(item any) string { return item.(*sameItem).Target },
				columns: []column{
					{head: "WHAT", field: "what"}, {head: "TARGET", field: "target"}, {head: "STATE", field: "state"}, {head: "NAMESERVERS", field: "nameservers", as: asPairs, fold: 1},
				},
			},
		},
	}
}

// health gathers the reasons.
type health struct {
	c *call
	r *result
}

func (h *health) say(check, state, target, message string, try ...string) {
	if try == nil {
		try = []string{}
	}
	h.r.add(&healthItem{Check: check, State: state, Target: target, Message: message, Try: try})
}

func runHealth(ctx context.Context, c *call) (*result, error) {
	cluster, targets, err := c.everyTarget(ctx)
	if err != nil {
		return nil, err
	}
	h := &health{c: c, r: &result{cluster: clusterOf(targets), done: 1}}
	all := c.replicas(ctx, targets, true)
	h.brokers(all)
	h.masters(cluster, all)
	if err := h.slaves(ctx); err != nil {
		return nil, err
	}
	h.topics(ctx, cluster, all)
	h.nameservers(ctx)
	for _, item := range h.r.items {
		if item.(*healthItem).State == "FAIL" {
			h.r.final = ptr(ExitConditionFalse)
		}
	}
	return h.r, nil
}

// maxClockMillis is how far clocks may be apart.
const maxClockMillis = 1000

func (h *health) brokers(all []admin.Result[replica]) {
	for _, res := range all {
		name := res.Target.String()
		if res.Err != nil {
			if res.Target.Addr != "" {
				h.say("BROKER", "FAIL", name, h.c.at(res.Err, res.Target).Text, "mqctl broker status "+name)
			}
			continue
		}
		h.say("BROKER", "OK", name, "answers in "+shortDuration(res.Took))
		rt := res.Value.runtime
		limit := 75.0
		if v := runtimeView(res.Value.config).number("diskMaxUsedSpaceRatio"); v != nil && *v > 0 {
			limit = *v
		}
		switch used := rt.percent("commitLogDiskRatio"); {
		case used == nil:
			h.say("DISK", "WARN", name, "it does not tell how full its disk is")
		case *used > limit:
			h.say("DISK", "FAIL", name, fmt.Sprintf("%.1f %% used, old files are deleted early from %.0f %% on", *used, limit), "mqctl broker clean commitlog --broker "+name+" --dry-run")
		default:
			h.say("DISK", "OK", name, fmt.Sprintf("%.1f %% used", *used))
		}
		if at := rt.whole("mqctlNow"); at != nil {
			off := math.Abs(float64(time.Now().UnixMilli() - *at))
			switch {
			case off <= maxClockMillis+float64(res.Took.Milliseconds()):
				h.say("CLOCK", "OK", name, "within 1 s of this machine's")
			default:
				h.say("CLOCK", "FAIL", name, fmt.Sprintf("its clock and this machine's are %.1f s apart", off/1000))
			}
		}
	}
}

// masters: every name has one that answers.
func (h *health) masters(cluster *admin.Cluster, all []admin.Result[replica]) {
	up, names := map[string]bool{}, map[string]bool{}
	for _, res := range all {
		names[res.Target.Broker] = true
		if res.Err == nil && res.Value.role(res.Target.ID) != "SLAVE" {
			up[res.Target.Broker] = true
		}
	}
	for _, name := range sortedKeys(names) {
		switch {
		case up[name]:
			h.say("MASTER", "OK", name, "its master answers")
		case cluster.Brokers[name].Master() == "":
			h.say("MASTER", "FAIL", name, "no master is registered", "mqctl ha promote "+name+" --id N --force")
		default:
			h.say("MASTER", "FAIL", name, "its master does not answer", "mqctl ha promote "+name+" --id N --force")
		}
	}
}

// slaves: all are in sync.
func (h *health) slaves(ctx context.Context) error {
	ha, err := h.c.haOnce(ctx)
	if err != nil {
		return err
	}
	for _, item := range ha.items {
		it := item.(*haItem)
		for i := range it.Connections {
			k := &it.Connections[i]
			state, text := "OK", k.stateText()
			switch {
			case k.InSync != nil && !*k.InSync, !k.connected() && k.State != stateUnknown, brokenStates[k.State]:
				state = "FAIL"
				if k.Why != nil {
					text += ": " + *k.Why
				}
			case k.InSync == nil && k.State == stateUnknown:
				state = "WARN"
			}
			h.say("SLAVE", state, it.slaveName(k), text, tryIf(state != "OK", "mqctl stats ha --broker "+it.Broker)...)
		}
	}
	return nil
}

func tryIf(yes bool, line string) []string {
	if yes {
		return []string{line}
	}
	return nil
}

// topics: none that only masters have which do not answer.
func (h *health) topics(ctx context.Context, cluster *admin.Cluster, all []admin.Result[replica]) {
	names, err := h.c.client.Topics(ctx)
	if err != nil {
		h.say("ROUTE", "WARN", cluster.Nameserver, "its topics are not known: "+asMessage(h.c.explain(err)).Text)
		return
	}
	dead, masters := map[string]bool{}, 0
	for _, res := range all {
		if res.Target.ID != 0 {
			continue
		}
		if masters++; res.Err != nil {
			dead[res.Target.Broker] = true
		}
	}
	switch {
	case masters == 0:
		return // MASTER has told of each name
	case len(dead) == 0:
		h.say("ROUTE", "OK", "topics", "every master that is registered answers")
		return
	}
	lost := []string{}
	routes := make([]admin.Target, len(names))
	for i, res := range admin.Each(ctx, h.c.client, 0, indexed(routes), func(ctx context.Context, t admin.Target) (*admin.Route, error) {
		i, _ := atIndex(t, routes)
		return h.c.client.Route(ctx, names[i])
	}) {
		if res.Err != nil {
			continue
		}
		alive := false
		for _, q := range res.Value.Queues {
			alive = alive || !dead[q.Broker]
		}
		if !alive && len(res.Value.Queues) > 0 {
			lost = append(lost, names[i])
		}
	}
	sort.Strings(lost)
	if len(lost) == 0 {
		h.say("ROUTE", "OK", "topics", "every topic has a master that answers")
		return
	}
	h.say("ROUTE", "FAIL", "topics", fmt.Sprintf("%s without a master that answers: %s", count(len(lost), "topic"), strings.Join(lost[:min(5, len(lost))], ", ")))
}

// nameservers: all answer and tell of the same brokers.
func (h *health) nameservers(ctx context.Context) {
	said := map[string][]string{}
	for _, res := range admin.EachNameserver(ctx, h.c.client, h.c.client.ClusterAt) {
		if res.Err != nil {
			h.say("NAMESERVER", "FAIL", res.Target.Addr, asMessage(h.c.explain(res.Err)).Text, "mqctl nameserver status")
			continue
		}
		text := strings.Join(brokersText(res.Value), " ")
		said[text] = append(said[text], res.Target.Addr)
	}
	if len(said) == 1 {
		for _, addrs := range said {
			h.say("NAMESERVER", "OK", strings.Join(addrs, ","), "tells of the same brokers")
		}
		return
	}
	for _, text := range sortedKeys(said) {
		h.say("NAMESERVER", "FAIL", strings.Join(said[text], ","), "nameservers disagree; this one tells of: "+firstOf(text, "no broker"), "mqctl cluster route-check")
	}
}

// brokersText lists what a nameserver knows: name/id=address.
func brokersText(view *admin.Cluster) []string {
	var out []string
	for _, name := range sortedKeys(view.Brokers) {
		g := view.Brokers[name]
		for _, id := range g.IDs() {
			out = append(out, fmt.Sprintf("%s=%s", nameID(name, id), g.Addrs[id]))
		}
	}
	return out
}

func footHealth(p *printer, r *result) {
	bad := 0
	for _, item := range r.items {
		if item.(*healthItem).State == "FAIL" {
			bad++
		}
	}
	if bad == 0 {
		p.printf("%s\n", p.style.green("healthy"))
		return
	}
	p.printf("%s\n", p.style.red("not healthy: "+count(bad, "reason")))
}

func runRouteCheck(ctx context.Context, c *call) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	k := &routeCheck{c: c, r: &result{}, asked: a.Nameservers(), silent: map[string]bool{}, said: map[string]map[string]string{}}
	if name := c.str("topic"); name != "" {
		if err := checkTopic(name); err != nil {
			return nil, err
		}
		k.routes(ctx, []string{name})
	} else {
		k.brokers(ctx)
		k.routes(ctx, k.topics(ctx))
	}
	for _, key := range sortedKeys(k.said) {
		what, target, _ := strings.Cut(key, " ")
		it := &sameItem{What: what, Target: target, State: "SAME", Nameservers: k.said[key]}
		distinct := map[string]bool{}
		for _, addr := range k.asked {
			if k.silent[addr] {
				continue
			}
			if it.Nameservers[addr] == "" {
				it.Nameservers[addr] = "nothing"
			}
			distinct[it.Nameservers[addr]] = true
		}
		if len(distinct) > 1 {
			it.State = "DIFFERENT"
			k.r.final = ptr(ExitConditionFalse)
		}
		if it.State != "SAME" || !c.on("different") {
			k.r.add(it)
		}
	}
	if len(k.r.items) == 0 && len(k.r.errors) == 0 && c.given("topic") {
		return nil, c.topicMissing(ctx, c.str("topic"))
	}
	k.r.empty = "nothing is different"
	return k.r, nil
}

// routeCheck is what each nameserver said of each thing.
type routeCheck struct {
	c      *call
	r      *result
	asked  []string
	silent map[string]bool
	said   map[string]map[string]string // "WHAT target" -> nameserver -> text
}

func (k *routeCheck) note(what, target, addr, text string) {
	key := what + " " + target
	if k.said[key] == nil {
		k.said[key] = map[string]string{}
	}
	k.said[key][addr] = text
}

func (k *routeCheck) lost(res error, addr string) {
	if !k.silent[addr] {
		m := k.c.at(res, admin.Target{Addr: addr, ID: -1})
		k.r.failed(m)
	}
	k.silent[addr] = true
}

func (k *routeCheck) brokers(ctx context.Context) {
	for _, res := range admin.EachNameserver(ctx, k.c.client, k.c.client.ClusterAt) {
		if res.Err != nil {
			k.lost(res.Err, res.Target.Addr)
			continue
		}
		k.r.done++
		for _, text := range brokersText(res.Value) {
			name, addr, _ := strings.Cut(text, "=")
			k.note("BROKER", name, res.Target.Addr, addr)
		}
	}
}

func (k *routeCheck) topics(ctx context.Context) []string {
	names := map[string]bool{}
	for _, res := range admin.EachNameserver(ctx, k.c.client, k.c.client.TopicsAt) {
		if res.Err != nil {
			k.lost(res.Err, res.Target.Addr)
		}
		for _, n := range res.Value {
			names[n] = true
		}
	}
	return sortedKeys(names)
}

// routes asks every nameserver for the route of every topic.
func (k *routeCheck) routes(ctx context.Context, names []string) {
	var asks []admin.Target
	for _, addr := range k.asked {
		if !k.silent[addr] {
			for _, n := range names {
				asks = append(asks, admin.Target{Addr: addr, Broker: n})
			}
		}
	}
	for i, res := range admin.Each(ctx, k.c.client, 0, indexed(asks), func(ctx context.Context, t admin.Target) (*admin.Route, error) {
		i, t := atIndex(t, asks)
		return k.c.client.RouteAt(ctx, t.Addr, asks[i].Broker)
	}) {
		m := error(nil)
		if res.Err != nil {
			m = k.c.explain(res.Err)
		}
		switch {
		case m != nil && asMessage(m).ExitCode == ExitNotFound:
			k.r.done++
		case m != nil:
			k.lost(res.Err, asks[i].Addr)
		default:
			k.r.done++
			k.note("TOPIC", asks[i].Broker, asks[i].Addr, routeText(res.Value))
		}
	}
}

// routeText is a route in one word.
func routeText(r *admin.Route) string {
	var parts []string
	for _, q := range r.Queues {
		parts = append(parts, fmt.Sprintf("%s:r%d.w%d.%s", q.Broker, q.ReadQueues, q.WriteQueues, permText(q.Perm)))
	}
	for _, g := range r.Brokers {
		for _, id := range slices.Sorted(maps.Keys(g.Addrs)) {
			parts = append(parts, fmt.Sprintf("%s@%s", nameID(g.Name, id), g.Addrs[id]))
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ";")
}
