package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// exportItem is what an export wrote.
type exportItem struct {
	Kind  string  `json:"kind" enum:"TOPIC|GROUP|OFFSET|CONFIG|USER|ACL"`
	Name  string  `json:"name"`
	Count int     `json:"count"` // brokers, or queues of offsets
	File  *string `json:"file"`  // null: stdout
}

// savedOffset is one offset of an export.
type savedOffset struct {
	Group   string `json:"group"`
	Topic   string `json:"topic"`
	Broker  string `json:"broker"`
	QueueID int32  `json:"queueId" min:"0"`
	Offset  int64  `json:"offset" min:"0"`
}

func exportCommands() []*command {
	items := view{item: exportItem{}, name: func(item any) string { return item.(*exportItem).Name },
		columns: []column{{head: "KIND", field: "kind"}, {head: "NAME", field: "name"}, {head: "COUNT", field: "count", as: asNumber}, {head: "FILE", field: "file"}}}
	old := func(end string) view {
		v := items
		v.old = func(p *printer, r *result) {
			if path, ok := r.extra.(string); ok && len(r.errors) == 0 {
				p.printf("export %s success%s", path, end)
			}
		}
		return v
	}
	dir := flagSpec{key: "dir", long: "filePath", short: "f", oldOnly: true, meta: "FOLDER", help: "folder of the file (default /tmp/rocketmq/export)"}
	offsets := view{item: savedOffset{}, name: func(item any) string { return item.(savedOffset).Topic },
		columns: []column{{head: "GROUP", field: "group"}, {head: "TOPIC", field: "topic"}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber}, {head: "OFFSET", field: "offset", as: asNumber}},
		piped: func(p *printer, r *result) {
			if r.extra == nil { // the document is not in a file
				p.asDocument(r)
			}
		}}
	return []*command{
		{path: "cluster export", summary: "topics, groups, offsets, broker keys, users and access rules as one TOML file", run: runExport, schema: "mqctl.cluster.export/v1", exits: []int{ExitPartial}, view: items,
			examples: []string{"mqctl cluster export --out c.toml", "mqctl cluster export --what topics,groups,offsets,configs > c.toml", "mqctl cluster export --what acl --out acl.toml"},
			flags: []flagSpec{
				{key: "what", def: "topics,groups", meta: "LIST", help: "topics, groups, offsets, configs, acl (users and access rules, without passwords)"},
				{key: "out", meta: "FILE", complete: "file", help: "write there instead of stdout"}}},
		{old: "exportMetadata", twin: "cluster export", summary: "topics and groups to a JSON file", run: runExportMetadata, schema: "mqctl.cluster.export/v1", exits: []int{ExitPartial}, view: old("\n"),
			examples: []string{"mqctl exportMetadata -n 127.0.0.1:9876 -c DefaultCluster -f /tmp/export"},
			flags: append(oldTarget(), dir,
				flagSpec{key: "topics-only", long: "topic", short: "t", kind: kindBool, bareOld: true, oldOnly: true, help: "only topics"},
				flagSpec{key: "groups-only", long: "subscriptionGroup", short: "g", kind: kindBool, bareOld: true, oldOnly: true, help: "only groups"},
				flagSpec{key: "special", long: "specialTopic", short: "s", kind: kindBool, bareOld: true, oldOnly: true, help: "retry and dead-letter topics too"})},
		{old: "exportConfigs", twin: "cluster export --what configs", summary: "broker configurations to a JSON file", run: runExportConfigs, schema: "mqctl.cluster.export/v1", exits: []int{ExitPartial}, view: old(""),
			examples: []string{"mqctl exportConfigs -n 127.0.0.1:9876 -c DefaultCluster -f /tmp/export"},
			flags:    []flagSpec{{key: "cluster", long: "clusterName", short: "c", required: true, meta: "NAME", complete: "cluster", help: "the cluster"}, dir}},
		{path: "offset export", summary: "stored offsets of a group as JSON", run: runOffsetExport, schema: "mqctl.offset.export/v1", exits: []int{ExitNotFound, ExitPartial}, view: offsets,
			examples: []string{"mqctl offset export --group report --topic orders > report-offsets.json"},
			flags: []flagSpec{{key: "group", meta: "GROUP", complete: "group", help: "the group"}, {key: "topic", meta: "TOPIC", complete: "topic", help: "this topic only"},
				{key: "file", letter: "f", meta: "FILE", complete: "file", help: "write there instead of stdout"}}},
		{path: "offset import", summary: "offsets from the JSON of an export", run: runOffsetImport, schema: "mqctl.offset.import/v1", attrs: mutates | destructive | planned,
			exits: []int{ExitNotFound, ExitPartial, ExitAborted, ExitBadConfig, ExitChanges}, view: offsetMoveView(nil),
			examples: []string{"mqctl offset import --file report-offsets.json --dry-run", "mqctl offset import --file report-offsets.json --group report2 --yes"},
			flags: []flagSpec{{key: "file", letter: "f", meta: "FILE", complete: "file", help: "the file of an export; - is stdin"},
				{key: "group", meta: "GROUP", complete: "group", help: "give them to this group instead"},
				{key: "offline", kind: kindBool, help: "store the offsets even while clients are online"}}},
	}
}

// asDocument prints the JSON form: a file that a command reads again.
func (p *printer) asDocument(r *result) {
	if b, err := marshalIndent(r.envelope(p.schema, p.context, p.now)); err == nil {
		p.write(b)
	}
}

// exportParts reads --what.
func exportParts(text string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		switch part {
		case "topics", "groups", "offsets", "configs", "acl":
			out[part] = true
		default:
			return nil, usage("BAD_VALUE", "--what: %q is unknown", part).because("topics, groups, offsets, configs, acl")
		}
	}
	return out, nil
}

// holding is what one broker has, of what an export asks for.
type holding struct {
	topics  map[string]state
	groups  map[string]state
	config  map[string]string
	offsets map[string]map[int32]int64
	access  accessOf
	refused error // of users and rules: brokers without them have the rest
}

func (c *call) holdingAt(ctx context.Context, t admin.Target, what map[string]bool) (*holding, error) {
	out := &holding{topics: map[string]state{}, groups: map[string]state{}, config: map[string]string{}}
	if what["topics"] {
		all, err := c.userTopics(ctx, t, false)
		if err != nil {
			return nil, err
		}
		for name, cfg := range all {
			out.topics[name] = stateOf(viewOfTopic(cfg))
			delete(out.topics[name], "topicName")
		}
	}
	if what["groups"] {
		all, _, err := c.client.Groups(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		for name, cfg := range all {
			if !systemGroup(name) {
				out.groups[name] = stateOf(viewOfGroup(cfg))
				delete(out.groups[name], "groupName")
			}
		}
	}
	if what["configs"] {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		for key, v := range cfg.Values {
			if k, known := lookupKey(key); known && v != k.def && k.applies == "LIVE" && !secretWord(key) {
				out.config[key] = v
			}
		}
	}
	if what["acl"] {
		if access, err := c.accessAt(ctx, t); err == nil {
			out.access = *access
		} else if out.refused = err; len(what) == 1 {
			return nil, err
		}
	}
	if what["offsets"] {
		var err error
		if out.offsets, err = c.client.AllOffsets(ctx, t.Addr); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// userTopics are a broker's topics without its own, and without those of
// retries and dead letters unless special.
func (c *call) userTopics(ctx context.Context, t admin.Target, special bool) (map[string]topic.Config, error) {
	all, _, err := c.client.TopicConfigs(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	system, err := c.client.SystemTopicsAt(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	for name := range all {
		if slices.Contains(system, name) || !special && (strings.HasPrefix(name, "%RETRY%") || strings.HasPrefix(name, "%DLQ%")) {
			delete(all, name)
		}
	}
	return all, nil
}

// gather makes one file of what all brokers have: what is the same on all of
// them once, the rest below each broker's name.
func gather(found map[string]*holding) *desired {
	d := newDesired()
	for name := range found {
		d.brokers[name] = newDesired()
	}
	split(found, func(h *holding) map[string]state { return h.topics }, d.topics, func(b string) map[string]state { return d.brokers[b].topics })
	split(found, func(h *holding) map[string]state { return h.groups }, d.groups, func(b string) map[string]state { return d.brokers[b].groups })
	split(found, func(h *holding) map[string]state { return h.access.users }, d.users, func(b string) map[string]state { return d.brokers[b].users })
	split(found, func(h *holding) map[string]state { return h.access.acls }, d.acls, func(b string) map[string]state { return d.brokers[b].acls })
	for broker, h := range found {
		d.brokers[broker].config = h.config
		for at, queues := range h.offsets {
			topicName, group, ok := strings.Cut(at, "@")
			if !ok || systemGroup(group) {
				continue
			}
			for q, n := range queues {
				d.offsets[group+"/"+topicName+"/"+broker+":"+strconv.Itoa(int(q))] = n
			}
		}
	}
	return d
}

func split(found map[string]*holding, of func(*holding) map[string]state, common map[string]state, own func(broker string) map[string]state) {
	names := map[string]bool{}
	for _, h := range found {
		for name := range of(h) {
			names[name] = true
		}
	}
	for name := range names {
		var first state
		same := true
		for _, broker := range sortedKeys(found) {
			s, ok := of(found[broker])[name]
			if first == nil {
				first = s
			}
			same = same && ok && sameJSON(first, s)
		}
		if same {
			common[name] = first
			continue
		}
		for broker, h := range found {
			if s, ok := of(h)[name]; ok {
				own(broker)[name] = s
			}
		}
	}
}

func runExport(ctx context.Context, c *call) (*result, error) {
	what, err := exportParts(c.str("what"))
	if err != nil {
		return nil, err
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	found := map[string]*holding{}
	for _, res := range admin.Each(ctx, c.client, 0, c.identify(ctx, targets), func(ctx context.Context, t admin.Target) (*holding, error) {
		return c.holdingAt(ctx, t, what)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		if err := res.Value.refused; err != nil {
			r.failed(c.at(err, res.Target))
		}
		found[res.Target.Broker] = res.Value
		r.done++
	}
	if len(found) == 0 {
		return r, nil
	}
	d := gather(found)
	var file *string
	if out := c.str("out"); out != "" {
		file = &out
	}
	countExport(r, found, d, file)
	text, err := d.toml(r.cluster)
	if err != nil {
		return nil, err
	}
	if file == nil {
		if c.p.format == "table" {
			r.raw = text
		}
		return r, nil
	}
	if err := writeWhole(*file, text); err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", *file, err)
	}
	return r, nil
}

func countExport(r *result, found map[string]*holding, d *desired, file *string) {
	for _, part := range []struct {
		kind string
		of   func(*holding) map[string]state
	}{
		{"TOPIC", func(h *holding) map[string]state { return h.topics }}, {"GROUP", func(h *holding) map[string]state { return h.groups }},
		{"USER", func(h *holding) map[string]state { return h.access.users }}, {"ACL", func(h *holding) map[string]state { return h.access.acls }},
	} {
		brokers := map[string]int{}
		for _, h := range found {
			for n := range part.of(h) {
				brokers[n]++
			}
		}
		for _, n := range sortedKeys(brokers) {
			r.add(&exportItem{part.kind, n, brokers[n], file})
		}
	}
	offsets := map[string]int{}
	for key := range d.offsets {
		parts := strings.SplitN(key, "/", 3)
		offsets[parts[0]+"/"+parts[1]]++
	}
	for _, n := range sortedKeys(offsets) {
		r.add(&exportItem{"OFFSET", n, offsets[n], file})
	}
	for _, broker := range sortedKeys(found) {
		if n := len(found[broker].config); n > 0 {
			r.add(&exportItem{"CONFIG", broker, n, file})
		}
	}
}

// writeWhole replaces a file in one step.
func writeWhole(path string, b []byte) error {
	path, err := vfs.OS{}.Place(path)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	err = os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = vfs.OS{}.CopyMode(path, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // of no use; that it stays is said by no more than its name
	}
	return err
}

// exportFolder is mqadmin's -f.
func (c *call) exportFolder() (string, error) {
	dir := firstOf(c.str("dir"), "/tmp/rocketmq/export")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", dir, err)
	}
	return dir, nil
}

// writeExport writes mqadmin's JSON file.
func writeExport(r *result, path string, doc any) (*result, error) {
	b, err := marshalIndent(doc)
	if err == nil {
		err = writeWhole(path, b)
	}
	if err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", path, err)
	}
	r.extra = path
	for _, item := range r.items {
		item.(*exportItem).File = &path
	}
	return r, nil
}

// exportedGroup is a group in mqadmin's file, where no subscriptions are no key.
type exportedGroup struct {
	groupConfig
	Subscriptions []subgroup.SimpleSubscription `json:"subscriptionDataSet,omitempty"`
}

// runExportMetadata is mqadmin's export: of a cluster it adds the queues of all brokers up.
func runExportMetadata(ctx context.Context, c *call) (*result, error) {
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	topics, groups := map[string]topicConfig{}, map[string]exportedGroup{}
	for _, t := range targets {
		all, err := c.userTopics(ctx, t, c.on("special"))
		if err != nil {
			return nil, c.at(err, t)
		}
		subs, _, err := c.client.Groups(ctx, t.Addr)
		if err != nil {
			return nil, c.at(err, t)
		}
		for name, cfg := range all {
			v := viewOfTopic(cfg)
			v.ReadQueueNums += topics[name].ReadQueueNums
			v.WriteQueueNums += topics[name].WriteQueueNums
			topics[name] = v
		}
		for name, cfg := range subs {
			if !systemGroup(name) {
				v := exportedGroup{groupConfig: viewOfGroup(cfg), Subscriptions: cfg.SubscriptionDataSet}
				v.RetryQueueNums += groups[name].RetryQueueNums
				groups[name] = v
			}
		}
	}
	doc, name := map[string]any{"exportTime": c.begun.UnixMilli()}, "metadata.json"
	if c.on("topics-only") {
		name = "topic.json"
	} else if c.on("groups-only") {
		name = "subscriptionGroup.json"
	}
	if !c.on("groups-only") || c.on("topics-only") {
		doc["topicConfigTable"] = topics
		for _, n := range sortedKeys(topics) {
			r.add(&exportItem{Kind: "TOPIC", Name: n, Count: len(targets)})
		}
	}
	if !c.on("topics-only") {
		doc["subscriptionGroupTable"] = groups
		for _, n := range sortedKeys(groups) {
			r.add(&exportItem{Kind: "GROUP", Name: n, Count: len(targets)})
		}
	}
	dir, err := c.exportFolder()
	if err != nil {
		return nil, err
	}
	return writeExport(r, filepath.Join(dir, name), doc)
}

// exportedKeys are the settings that mqadmin's exportConfigs keeps.
var exportedKeys = []string{"brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums", "flushDiskType", "maxMessageSize",
	"messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"}

func runExportConfigs(ctx context.Context, c *call) (*result, error) {
	all, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(all)}
	configs, slaves := map[string]map[string]string{}, 0
	for _, t := range all {
		if t.ID != 0 {
			slaves++
			continue
		}
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return nil, c.at(err, t)
		}
		kept := map[string]string{}
		for _, k := range exportedKeys {
			if v, ok := cfg.Values[k]; ok {
				kept[k] = v
			}
		}
		configs[t.Broker] = kept
		r.add(&exportItem{Kind: "CONFIG", Name: t.Broker, Count: len(kept)})
	}
	dir, err := c.exportFolder()
	if err != nil {
		return nil, err
	}
	return writeExport(r, filepath.Join(dir, "configs.json"), map[string]any{"brokerConfigs": configs,
		"clusterScale": map[string]int{"namesrvSize": len(c.client.Nameservers()), "masterBrokerSize": len(configs), "slaveBrokerSize": slaves}})
}

func runOffsetExport(ctx context.Context, c *call) (*result, error) {
	if err := c.needFlags("group"); err != nil {
		return nil, err
	}
	group := c.str("group")
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range eachRead(ctx, c, c.identify(ctx, targets), func(ctx context.Context, t admin.Target) ([]offsetItem, error) {
		return c.offsetsAt(ctx, t, group, c.str("topic"))
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for _, it := range res.Value {
			r.add(savedOffset{group, it.Topic, it.Broker, it.QueueID, it.ConsumerOffset})
		}
	}
	if len(r.items) == 0 && len(r.errors) == 0 {
		return nil, fail(ExitNotFound, "NO_OFFSETS", "group %q has no stored offsets", group).try("mqctl offset list " + group)
	}
	if path := c.str("file"); path != "" && len(r.items) > 0 {
		b, err := marshalIndent(r.envelope(c.cmd.schema, c.contextName(), c.begun))
		if err == nil {
			err = writeWhole(path, b)
		}
		if err != nil {
			return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", path, err)
		}
		r.extra = path
	}
	return r, nil
}

// readOffsets reads the file of an export.
func (c *call) readOffsets(path string) ([]savedOffset, error) {
	b, err := c.readInput(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Items []savedOffset `json:"items"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, badFile(path, "%s", jsonWrong(b, err)).try("mqctl offset export --group GROUP > FILE")
	}
	if len(doc.Items) == 0 {
		return nil, badFile(path, "it has no items with offsets").try("mqctl offset export --group GROUP > FILE")
	}
	for i, it := range doc.Items {
		if subgroup.CheckName(it.Group) != nil || topic.CheckName(it.Topic) != nil || it.Broker == "" || it.QueueID < 0 || it.Offset < 0 {
			return nil, badFile(path, "item %d is no offset: group, topic, broker, queueId and offset are needed", i)
		}
	}
	return doc.Items, nil
}

// savedAt names a queue of an export; the broker may be given with its id.
func savedAt(topic, broker string, queue int32) string {
	name, _, _ := strings.Cut(broker, "/")
	return fmt.Sprintf("%s/%s/%d", topic, name, queue)
}

func runOffsetImport(ctx context.Context, c *call) (*result, error) {
	if err := c.needFlags("file"); err != nil {
		return nil, err
	}
	saved, err := c.readOffsets(c.str("file"))
	if err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, warnings: notes}
	wanted := map[string]map[string]int64{} // group -> topic/broker/queue -> offset
	topics := map[string][]string{}
	for _, s := range saved {
		group := firstOf(c.str("group"), s.Group)
		if wanted[group] == nil {
			wanted[group] = map[string]int64{}
		}
		topics[group] = appendNew(topics[group], s.Topic)
		wanted[group][savedAt(s.Topic, s.Broker, s.QueueID)] = s.Offset
	}
	var plan []*offsetMoveItem
	for _, group := range sortedKeys(wanted) {
		part, err := c.planOffsets(ctx, r, c.identify(ctx, targets), &offsetPlan{group: group, topics: topics[group], offline: c.on("offline"),
			to: func(_ context.Context, t admin.Target, q *queueState) (int64, bool, error) {
				n, ok := wanted[group][savedAt(q.topic, t.Broker, q.queue)]
				return min(max(n, q.min), q.max), ok, nil
			}})
		if err != nil {
			return nil, err
		}
		plan = append(plan, part...)
	}
	if len(plan) < len(saved) {
		r.warn(warning("QUEUES_MISSING", "", "%d of the %d queues in the file do not exist here and are left out", len(saved)-len(plan), len(saved)))
	}
	return r, c.moveOffsets(ctx, r, "storing the offsets of "+c.str("file"), plan)
}
