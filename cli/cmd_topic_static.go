package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/store/fastjson"
)

// A static topic has a fixed number of logical queues. Each lies at a broker,
// and every broker of the cluster knows where (TopicQueueMappingDetail).

// staticItem is a static topic at one broker.
type staticItem struct {
	Broker      string  `json:"broker"`
	Topic       string  `json:"topic"`
	TotalQueues int32   `json:"totalQueues"`
	Queues      []int32 `json:"queues"` // logical queues that lie here
	Epoch       int64   `json:"epoch"`
	Created     bool    `json:"created"`
	Changed     bool    `json:"changed"`
	Applied     bool    `json:"applied"`
	Verified    bool    `json:"verified"`
}

// mappingFile is a mapping as mqadmin writes it (TopicRemappingDetailWrapper).
type mappingFile struct {
	Topic   string                        `json:"topic"`
	Type    string                        `json:"type"`
	Epoch   int64                         `json:"epoch"`
	Configs map[string]*admin.StaticTopic `json:"brokerConfigMap"`
	MapIn   []string                      `json:"brokerToMapIn"`
	MapOut  []string                      `json:"brokerToMapOut"`
}

const (
	mappingFileMax  = 16 << 20
	mappingType     = "CREATE_OR_UPDATE"
	scopeGlobal     = "__global__"
	epochStep       = 1000 // TopicQueueMappingUtils: a new epoch is later than the clock and the old one
	unknownPosition = -1
)

func staticCommands() []*command {
	flags := func(more ...flagSpec) []flagSpec {
		return append([]flagSpec{
			{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "clusters", long: "clusters", short: "c", meta: "A,B", oneOf: true, help: "over the brokers of these clusters"},
			{key: "brokers", long: "brokers", short: "b", meta: "A,B", oneOf: true, help: "over these brokers"},
			{key: "map-file", long: "mapFile", short: "mf", meta: "FILE", complete: "file", help: "a mapping as mqadmin and this command write it"},
			{key: "force-replace", long: "forceReplace", short: "fr", kind: kindBool, help: "replace the mapping whatever the brokers have"},
		}, more...)
	}
	show := view{item: staticItem{}, name: func(item any) string { return item.(*staticItem).Topic }, columns: []column{
		{head: "BROKER", field: "broker"}, {head: "TOPIC", field: "topic"}, {head: "TOTAL", field: "totalQueues", as: asNumber}, {head: "QUEUES", field: "queues"},
		{head: "EPOCH", field: "epoch"}, {head: "CREATED", field: "created"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"}},
		old: func(p *printer, r *result) {
			if files, ok := r.extra.([2]string); ok {
				p.printf("The old mapping data is written to file %s\nThe new mapping data is written to file %s\n", files[0], files[1])
			}
		}}
	exits := []int{ExitNotFound, ExitPartial, ExitBadConfig, ExitChanges}
	return []*command{
		{path: "topic static set", old: "updateStaticTopic", summary: "create or enlarge a static topic", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runStaticSet, schema: "mqctl.topic.static.set/v1",
			attrs: mutates | planned, exits: exits, view: show,
			examples: []string{"mqctl topic static set orders --queues 8 --brokers broker-a,broker-b --dry-run", "mqctl updateStaticTopic -n 127.0.0.1:9876 -t orders -qn 8 -c DefaultCluster"},
			flags:    flags(flagSpec{key: "queues", long: "totalQueueNum", short: "qn", kind: kindInt, min: 1, max: maxQueues, required: true, meta: "N", help: "logical queues"})},
		{path: "topic static remap", old: "remappingStaticTopic", summary: "move logical queues to other brokers", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runStaticRemap, schema: "mqctl.topic.static.remap/v1",
			attrs: mutates | planned, exits: exits, view: show,
			examples: []string{"mqctl topic static remap orders --brokers broker-b,broker-c --dry-run", "mqctl remappingStaticTopic -n 127.0.0.1:9876 -t orders -b broker-c"}, flags: flags()},
	}
}

// staticTargets are the brokers that a mapping goes over, and all masters of
// their clusters by name.
func (c *call) staticTargets(ctx context.Context) (wanted []string, masters map[string]admin.Target, err error) {
	a, err := c.admin()
	if err != nil {
		return nil, nil, err
	}
	split := func(key string) []string {
		return strings.FieldsFunc(c.str(key), func(r rune) bool { return r == ',' || r == ' ' })
	}
	brokers, clusters := split("brokers"), split("clusters")
	if len(brokers) == 0 && len(clusters) == 0 {
		return nil, nil, usage("TARGET_MISSING", "%s needs a target: %s or %s", c.cmd.name(c.old), c.hint("brokers"), c.hint("clusters")).because("nothing was sent").lacksOne(c, "brokers", "clusters")
	}
	view, err := a.Cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range clusters {
		if _, ok := view.Clusters[name]; !ok {
			return nil, nil, &admin.NotFound{Kind: "cluster", Name: name, Where: view.Nameserver, Known: view.Names()}
		}
		brokers = append(brokers, view.BrokerNames(name)...)
	}
	slices.Sort(brokers)
	wanted = slices.Compact(brokers)
	masters = map[string]admin.Target{}
	for _, name := range wanted {
		g, ok := view.Brokers[name]
		if !ok {
			return nil, nil, &admin.NotFound{Kind: "broker", Name: name, Where: view.Nameserver, Known: view.BrokerNames("")}
		}
		for _, other := range view.BrokerNames(g.Cluster) {
			masters[other] = admin.Target{Cluster: g.Cluster, Broker: other, Addr: view.Brokers[other].Master()}
		}
	}
	return wanted, masters, nil
}

// staticNow reads the topic at all masters; nil where it is not there.
func (c *call) staticNow(ctx context.Context, masters map[string]admin.Target, name string) (map[string]*admin.StaticTopic, error) {
	var targets []admin.Target
	for _, broker := range sortedKeys(masters) {
		targets = append(targets, masters[broker])
	}
	out := map[string]*admin.StaticTopic{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.StaticTopic, error) {
		return c.client.StaticTopic(ctx, t.Addr, name)
	}) {
		var missing *admin.NotFound
		switch {
		case errors.As(res.Err, &missing):
		case res.Err != nil:
			return nil, c.at(res.Err, res.Target) // a mapping that is known in part only must not be changed
		case res.Value.Mapping == nil && res.Value.WriteQueueNums > 0:
			return nil, fail(ExitFailed, "NOT_STATIC", "topic %q is an ordinary one at %s; nothing was changed", name, res.Target).try("another name", "mqctl topic delete "+name)
		default:
			out[res.Target.Broker] = res.Value
		}
	}
	return out, nil
}

// planMapping spreads the queues that are missing over the brokers wanted, the
// one with the fewest first, and raises the epoch everywhere.
func planMapping(name string, total int32, wanted []string, masters map[string]admin.Target, now map[string]*admin.StaticTopic, clock int64) (*mappingFile, error) {
	out := &mappingFile{Topic: name, Type: mappingType, Epoch: clock, Configs: map[string]*admin.StaticTopic{}, MapIn: []string{}, MapOut: []string{}}
	held, load := map[int32]string{}, map[string]int{}
	for _, broker := range sortedKeys(now) {
		t := *now[broker]
		m := *t.Mapping
		m.Hosted = map[int32][]admin.StaticQueue{}
		for id, items := range t.Mapping.Hosted {
			m.Hosted[id] = items
			if len(items) > 0 && items[len(items)-1].Broker == broker {
				if other, twice := held[id]; twice {
					return nil, fail(ExitFailed, "MAPPING_BROKEN", "logical queue %d lies at %s and %s; nothing was changed", id, other, broker)
				}
				held[id] = broker
				load[broker]++
			}
		}
		t.Mapping = &m
		out.Configs[broker] = &t
		out.Epoch = max(out.Epoch, m.Epoch+epochStep)
	}
	if int(total) < len(held) {
		return nil, fail(ExitFailed, "CANNOT_SHRINK", "static topic %q has %d queues and cannot get fewer", name, len(held)).because("messages lie in all of them; nothing was changed")
	}
	for broker := range masters {
		if out.Configs[broker] == nil {
			out.Configs[broker] = &admin.StaticTopic{TopicName: name, Perm: topic.PermRead | topic.PermWrite, TopicFilterType: topic.SingleTag,
				Mapping: &admin.StaticMapping{Topic: name, Scope: scopeGlobal, Broker: broker, Hosted: map[int32][]admin.StaticQueue{}}}
		}
	}
	for id := range total {
		if _, ok := held[id]; ok {
			continue
		}
		at := wanted[0]
		for _, broker := range wanted {
			if load[broker] < load[at] {
				at = broker
			}
		}
		t := out.Configs[at]
		t.Mapping.Hosted[id] = []admin.StaticQueue{{QueueID: t.WriteQueueNums, Broker: at, EndOffset: unknownPosition, TimeOfStart: unknownPosition, TimeOfEnd: unknownPosition}}
		t.WriteQueueNums++
		t.ReadQueueNums++
		load[at]++
	}
	for _, t := range out.Configs {
		t.Mapping.Epoch, t.Mapping.TotalQueues, t.Mapping.Dirty = out.Epoch, total, false
	}
	return out, nil
}

// staticPlan is a change of a static topic's mapping.
type staticPlan struct {
	name    string
	masters map[string]admin.Target
	now     map[string]*admin.StaticTopic // by broker
	given   bool                          // next is of --map-file
	next    *mappingFile
}

// planStatic reads how a static topic lies now, and has plan say what is wanted: p.next
// if it is given, else what it makes of the brokers wanted.
func (c *call) planStatic(ctx context.Context, plan func(p *staticPlan, wanted []string) (*mappingFile, error)) (*staticPlan, error) {
	p := &staticPlan{name: c.arg(0), given: c.given("map-file")}
	if err := checkTopic(p.name); err != nil {
		return nil, err
	}
	var err error
	if p.given {
		if p.next, err = readMapping(c.str("map-file"), p.name); err != nil {
			return nil, err
		}
	}
	var wanted []string
	if wanted, p.masters, err = c.staticTargets(ctx); err != nil {
		return nil, err
	}
	if p.now, err = c.staticNow(ctx, p.masters, p.name); err != nil {
		return nil, err
	}
	if p.next, err = plan(p, wanted); err != nil {
		return nil, err
	}
	for _, broker := range sortedKeys(p.next.Configs) {
		if _, ok := p.masters[broker]; !ok {
			return nil, fail(ExitNotFound, "BROKER_NOT_FOUND", "the mapping is over broker %q, which is in no cluster asked; nothing was changed", broker)
		}
	}
	return p, nil
}

// keep writes the mappings before and after into files.
func (p *staticPlan) keep(kind string) ([2]string, error) {
	before := &mappingFile{Topic: p.name, Type: kind, Epoch: p.next.Epoch - epochStep, Configs: p.now, MapIn: []string{}, MapOut: []string{}}
	files, err := writeMappings(before, p.next)
	if err != nil {
		return files, fail(ExitBadConfig, "BAD_FILE", "the mappings cannot be written: %v", err).because("they are what a mistake is mended from; nothing was changed")
	}
	return files, nil
}

func runStaticSet(ctx context.Context, c *call) (*result, error) {
	if err := c.needFlags("queues"); err != nil {
		return nil, err
	}
	p, err := c.planStatic(ctx, func(p *staticPlan, wanted []string) (*mappingFile, error) {
		if p.given {
			return p.next, nil
		}
		return planMapping(p.name, int32(c.whole("queues")), wanted, p.masters, p.now, c.begun.UnixMilli())
	})
	if err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	var edits []*edit
	for _, broker := range sortedKeys(p.next.Configs) {
		edits = append(edits, c.staticEdit(p.masters[broker], p.now[broker], p.next.Configs[broker], !p.given && sameTotal(p.now, p.next)))
	}
	if !c.dryRun() && slices.ContainsFunc(edits, func(e *edit) bool { return !e.same }) {
		if r.extra, err = p.keep(mappingType); err != nil {
			return nil, err
		}
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// sameTotal reports whether all brokers have the wanted number of queues.
func sameTotal(now map[string]*admin.StaticTopic, next *mappingFile) bool {
	for broker, t := range next.Configs {
		if was := now[broker]; was == nil || was.Mapping.TotalQueues != t.Mapping.TotalQueues {
			return false
		}
	}
	return true
}

// staticItemOf says what a broker shall have.
func staticItemOf(t admin.Target, next *admin.StaticTopic, created, same, dryRun bool) *staticItem {
	it := &staticItem{Broker: t.String(), Topic: next.TopicName, TotalQueues: next.Mapping.TotalQueues, Queues: []int32{}, Epoch: next.Mapping.Epoch,
		Created: created, Changed: !same, Verified: same && !dryRun}
	for id, items := range next.Mapping.Hosted {
		if len(items) > 0 && items[len(items)-1].Broker == t.Broker {
			it.Queues = append(it.Queues, id)
		}
	}
	slices.Sort(it.Queues)
	return it
}

// staticEdit is the edit of one broker's mapping.
func (c *call) staticEdit(t admin.Target, was, next *admin.StaticTopic, same bool) *edit {
	it := staticItemOf(t, next, was == nil, same, c.dryRun())
	return &edit{target: t, items: []any{it}, same: same,
		write: func(ctx context.Context) (bool, error) {
			if err := c.client.PutStaticTopic(ctx, t.Addr, next, c.on("force-replace")); err != nil {
				return false, err
			}
			it.Applied = true
			got, err := c.client.StaticTopic(ctx, t.Addr, next.TopicName)
			if err != nil {
				return true, fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", t, err)
			}
			if got.Mapping == nil || got.Mapping.Epoch != next.Mapping.Epoch || len(got.Mapping.Hosted) != len(next.Mapping.Hosted) {
				return true, notVerified(t, "the mapping of another epoch is in force")
			}
			it.Verified = true
			return true, nil
		},
		things: func() []auditThing {
			var before any
			if was != nil {
				before = was.Mapping
			}
			return []auditThing{{Target: t.String(), Addr: t.Addr, Key: "static topic " + next.TopicName, Before: rawJSON(before), After: rawJSON(next.Mapping)}}
		}}
}

// readMapping reads a mapping that mqadmin or this command wrote.
func readMapping(path, name string) (*mappingFile, error) {
	bad := func(format string, args ...any) error {
		return fail(ExitBadConfig, "BAD_FILE", "%s is no mapping of topic %s: %s", path, name, fmt.Sprintf(format, args...)).because("nothing was sent")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fail(ExitBadConfig, "BAD_FILE", "the mapping cannot be read: %v", err).because("nothing was sent")
	}
	if info.Size() > mappingFileMax {
		return nil, bad("it has %d bytes", info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, bad("%v", err)
	}
	var m mappingFile
	if err := fastjson.Unmarshal(b, &m); err != nil {
		return nil, bad("%s", jsonWrong(b, err))
	}
	if m.Topic != name || len(m.Configs) == 0 {
		return nil, bad("it is about topic %q and %d brokers", m.Topic, len(m.Configs))
	}
	for broker, t := range m.Configs {
		if t == nil || t.Mapping == nil || t.Mapping.Broker != broker || t.TopicName != name || t.Mapping.Epoch != m.Epoch {
			return nil, bad("the part of broker %q does not fit", broker)
		}
	}
	return &m, nil
}

// writeMappings writes both mappings where mqadmin does: TOPIC-EPOCH.before and
// .after in the folder for temporary files.
func writeMappings(before, after *mappingFile) (files [2]string, err error) {
	for i, m := range []*mappingFile{before, after} {
		b, err := marshal(m)
		if err != nil {
			return files, err
		}
		files[i] = filepath.Join(os.TempDir(), fmt.Sprintf("%s-%d%s", m.Topic, m.Epoch, []string{".before", ".after"}[i]))
		if err := os.WriteFile(files[i], b, 0o600); err != nil {
			return files, err
		}
	}
	return files, nil
}
