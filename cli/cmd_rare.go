package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
	"mqctl/store/fastjson"
)

// Commands that send one request which cannot be read back: what they asked for
// is at the brokers, in their logs or nowhere.

// askedItem is a request to one process and what it answered.
type askedItem struct {
	Target  string  `json:"target"`
	Addr    string  `json:"addr"`
	Request string  `json:"request"`
	Changed bool    `json:"changed"`
	Applied bool    `json:"applied"`
	Answer  *string `json:"answer"` // what the process said besides yes

	target admin.Target
}

// coldItem is the cold reading of a group at a broker.
type coldItem struct {
	Broker    string          `json:"broker"`
	Group     string          `json:"group"`
	Threshold *int64          `json:"threshold"` // of its own, bytes per second; null: the broker's
	Runtime   json.RawMessage `json:"runtime"`   // counters as the broker keeps them; null when it has none
	table     *coldTable
	target    admin.Target
}

var askedColumns = []column{{head: "TARGET", field: "target"}, {head: "REQUEST", field: "request"}, {head: "APPLIED", field: "applied"}, {head: "ANSWER", field: "answer"}}

func askedView(old func(p *printer, it *askedItem)) view {
	return view{item: askedItem{}, name: func(item any) string { return item.(*askedItem).Target }, columns: askedColumns, old: func(p *printer, r *result) {
		for _, item := range r.items {
			if it := item.(*askedItem); it.Applied {
				old(p, it)
			}
		}
	}}
}

func rareCommands() []*command {
	exits := []int{ExitPartial, ExitChanges}
	cluster := flagSpec{key: "cluster", long: "cluster", short: "c", required: true, oldOnly: true, meta: "NAME", complete: "cluster", help: "the cluster"}
	container := flagSpec{key: "container", long: "brokerContainerAddr", short: "c", required: true, oldOnly: true, meta: "HOST:PORT", help: "the container process"}
	group := flagSpec{key: "group", long: "consumerGroup", short: "g", arg: 1, required: true, meta: "GROUP", complete: "group", help: "the group"}
	return []*command{
		{path: "broker cold get", old: "getColdDataFlowCtrInfo", summary: "cold read control table", run: runColdGet, schema: "mqctl.broker.cold.get/v1", exits: exits, flags: oldTarget(),
			examples: []string{"mqctl broker cold get --broker broker-a", "mqctl getColdDataFlowCtrInfo -n 127.0.0.1:9876 -c DefaultCluster"},
			view: view{item: coldItem{}, name: func(item any) string { return item.(*coldItem).Group }, old: oldCold, columns: []column{
				{head: "BROKER", field: "broker"}, {head: "GROUP", field: "group"}, {head: "THRESHOLD", field: "threshold", as: asBytes}, {head: "RUNTIME", field: "runtime"}}}},
		{path: "broker cold set", old: "updateColdDataFlowCtrGroupConfig", summary: "cold read threshold of a group", args: "GROUP", min: 1, max: 1, argFrom: "group", run: runColdChange, schema: "mqctl.broker.cold.set/v1",
			attrs: mutates | planned, exits: exits, view: thingView("updateColdDataFlowCtrGroupConfig success, %s\n"),
			examples: []string{"mqctl broker cold set report --threshold 1048576", "mqctl updateColdDataFlowCtrGroupConfig -n 127.0.0.1:9876 -c DefaultCluster -g report -v 1048576"},
			flags:    append(oldTarget(), group, flagSpec{key: "threshold", long: "threshold", short: "v", kind: kindInt, min: 0, max: math.MaxInt64, required: true, meta: "BYTES", help: "bytes per second read from disk"})},
		{path: "broker cold delete", old: "removeColdDataFlowCtrGroupConfig", summary: "remove a cold read threshold", args: "GROUP", min: 1, max: 1, argFrom: "group", run: runColdChange, schema: "mqctl.broker.cold.delete/v1",
			attrs: mutates | planned, exits: append(exits, ExitNotFound), view: thingView("remove broker cold read threshold success, %s\n"),
			examples: []string{"mqctl broker cold delete report", "mqctl removeColdDataFlowCtrGroupConfig -n 127.0.0.1:9876 -c DefaultCluster -g report"}, flags: append(oldTarget(), group)},
		{old: "setCommitLogReadAheadMode", twin: "broker config set", summary: "read-ahead of the commit log", run: runReadAhead, schema: "mqctl.asked/v1", attrs: mutates | planned, exits: exits,
			examples: []string{"mqctl setCommitLogReadAheadMode -n 127.0.0.1:9876 -c DefaultCluster -m 1"},
			view: askedView(func(p *printer, it *askedItem) {
				p.printf("%scommitLog set readAhead mode rstStr%s\n", blockHead(it.target), valueOr(it.Answer, "null"))
			}),
			flags: append(oldTarget(), flagSpec{key: "mode", long: "commitLogReadAheadMode", short: "m", kind: kindEnum, enum: []string{"0", "1"}, required: true, oldOnly: true, meta: "0|1", help: "0 as the system does, 1 random reads"})},
		{old: "addBroker", twin: "broker start", summary: "add a broker to a container", run: runAddBroker, schema: "mqctl.asked/v1", attrs: mutates | planned, exits: exits,
			examples: []string{"mqctl addBroker -c 10.0.0.4:10811 -b /etc/rocketmq/broker-a.conf"},
			view:     askedView(func(p *printer, it *askedItem) { p.printf("add broker to %s success\n", it.Addr) }),
			flags:    []flagSpec{container, {key: "config-path", long: "brokerConfigPath", short: "b", required: true, oldOnly: true, meta: "FILE", help: "configuration file on the container's machine"}}},
		{old: "removeBroker", twin: "broker stop", summary: "remove a broker from a container", run: runRemoveBroker, schema: "mqctl.asked/v1", attrs: mutates | planned, exits: exits,
			examples: []string{"mqctl removeBroker -c 10.0.0.4:10811 -b DefaultCluster:broker-a:0"},
			view:     askedView(func(p *printer, it *askedItem) { p.printf("remove broker from %s success\n", it.Addr) }),
			flags:    []flagSpec{container, {key: "identity", long: "brokerIdentity", short: "b", required: true, oldOnly: true, meta: "CLUSTER:NAME:ID", help: "the broker"}}},
		{old: "checkRocksdbCqWriteProgress", twin: "none: this request alone", summary: "compare file and RocksDB consume queues; the broker writes the result to its log", run: runCheckRocksDB, schema: "mqctl.asked/v1", exits: exits,
			examples: []string{"mqctl checkRocksdbCqWriteProgress -n 127.0.0.1:9876 -c DefaultCluster -t orders"},
			view: askedView(func(p *printer, it *askedItem) {
				p.printf("%s check doing, please wait and get the result from log... \n", it.target.Broker)
			}),
			flags: []flagSpec{cluster, {key: "topic", long: "topic", short: "t", oldOnly: true, meta: "TOPIC", complete: "topic", help: "this topic only"},
				{key: "from", long: "checkFrom", short: "cf", kind: kindInt, min: 0, max: math.MaxInt64, oldOnly: true, def: "0", meta: "MILLIS", help: "from this store time on"}}},
		{old: "exportPopRecord", twin: "none: this request alone", summary: "roll pop records back to the form of older versions", run: runPopRollback, schema: "mqctl.asked/v1", attrs: mutates | planned, exits: exits,
			examples: []string{"mqctl exportPopRecord -n 127.0.0.1:9876 -c DefaultCluster -d true"}, view: popView(),
			flags: append(oldTarget(), flagSpec{key: "dry-run", long: "dryRun", short: "d", kind: kindBool, oldOnly: true, env: []string{"MQCTL_DRY_RUN"}, help: "change nothing"})},
		{path: "config import", old: "rocksDBConfigToJson", summary: "have brokers write their RocksDB configuration as JSON files", run: runConfigImport, schema: "mqctl.asked/v1", attrs: mutates | planned, exits: exits,
			examples: []string{"mqctl config import --broker broker-a --type topics,subscriptionGroups", "mqctl rocksDBConfigToJson -n 127.0.0.1:9876 -c DefaultCluster"},
			view:     askedView(func(p *printer, _ *askedItem) { p.printf("broker export done.") }),
			flags: []flagSpec{
				{key: "broker", long: "brokerAddr", short: "b", meta: "ADDR", complete: "broker", help: "this broker only: NAME, NAME/ID or HOST:PORT"},
				{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all masters of this cluster"},
				{key: "type", long: "configType", short: "t", meta: "LIST", help: "topics, subscriptionGroups, consumerOffsets; all unless given"},
				{key: "path", long: "configPath", short: "p", meta: "FOLDER", help: "a local RocksDB folder: only a broker can read it"},
				{key: "export-file", long: "exportFile", short: "e", oldOnly: true, meta: "FILE", help: "with a local folder"},
				{key: "json", long: "jsonEnable", short: "j", kind: kindBool, oldOnly: true, help: "with a local folder"}}},
		{old: "exportMetadataInRocksDB", twin: "config import", summary: "read a RocksDB configuration folder", run: runRocksDBFolder, schema: "mqctl.asked/v1", attrs: local,
			examples: []string{"mqctl exportMetadataInRocksDB -p /data/store/config -t topics"}, view: askedView(func(*printer, *askedItem) {}),
			flags: []flagSpec{{key: "path", long: "path", short: "p", required: true, oldOnly: true, meta: "FOLDER", help: "the folder"},
				{key: "type", long: "configType", short: "t", required: true, oldOnly: true, meta: "NAME", help: "topics or subscriptionGroups"},
				{key: "json", long: "jsonEnable", short: "j", kind: kindBool, oldOnly: true, help: "as JSON"}}},
	}
}

func valueOr(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}

// blockHead is the line above what mqadmin prints for one broker.
func blockHead(t admin.Target) string {
	switch {
	case t.ID == 0:
		return fmt.Sprintf("============Master: %s============\n", t.Addr)
	case t.ID > 0:
		return fmt.Sprintf("============My Master: %s=====Slave: %s============\n", t.Broker, t.Addr)
	}
	return fmt.Sprintf("============%s============\n", t.Addr)
}

// askEach makes a plan of one request to each target.
func (c *call) askEach(ctx context.Context, targets []admin.Target, request string, ask func(ctx context.Context, t admin.Target) (string, error)) *result {
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	edits := make([]*edit, len(targets))
	for i, t := range targets {
		it := &askedItem{Target: t.String(), Addr: t.Addr, Request: request, Changed: true, target: t}
		edits[i] = &edit{target: t, items: []any{it},
			write: func(ctx context.Context) (bool, error) {
				answer, err := ask(ctx, t)
				if err != nil {
					return false, err
				}
				it.Applied = true
				if answer = strings.TrimSpace(answer); answer != "" {
					it.Answer = &answer
				}
				return true, nil
			},
			things: func() []auditThing {
				return []auditThing{{Target: t.String(), Addr: t.Addr, Key: request, Before: rawJSON(nil), After: rawJSON(it.Answer)}}
			}}
	}
	c.carryOut(ctx, r, edits)
	c.dropUnasked(r)
	return r
}

// dropUnasked leaves out what was not done: the errors tell it.
func (c *call) dropUnasked(r *result) {
	if !c.dryRun() {
		r.items = slices.DeleteFunc(r.items, func(item any) bool { return lookup(item, "applied") == false })
	}
}

func runReadAhead(ctx context.Context, c *call) (*result, error) {
	targets, err := configTargets(ctx, c, true)
	if err != nil {
		return nil, err
	}
	return c.askEach(ctx, targets, "read ahead "+c.str("mode"), func(ctx context.Context, t admin.Target) (string, error) {
		return c.client.SetReadAhead(ctx, t.Addr, c.str("mode"))
	}), nil
}

// containerTarget is the process of --container.
func (c *call) containerTarget() ([]admin.Target, error) {
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	if addrs, err := admin.SplitAddresses(c.str("container")); err != nil || len(addrs) != 1 {
		return nil, usage("BAD_ADDRESS", "%s: %q is not one HOST:PORT", c.hint("container"), c.str("container"))
	}
	return []admin.Target{{ID: -1, Addr: c.str("container")}}, nil
}

func runAddBroker(ctx context.Context, c *call) (*result, error) {
	targets, err := c.containerTarget()
	if err != nil {
		return nil, err
	}
	return c.askEach(ctx, targets, "add broker "+c.str("config-path"), func(ctx context.Context, t admin.Target) (string, error) {
		return "", c.client.AddBroker(ctx, t.Addr, c.str("config-path"))
	}), nil
}

func runRemoveBroker(ctx context.Context, c *call) (*result, error) {
	targets, err := c.containerTarget()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(c.str("identity"), ":")
	id := int64(-1)
	if len(parts) == 3 {
		id, err = strconv.ParseInt(parts[2], 10, 64)
	}
	if err != nil || id < 0 || parts[0] == "" || parts[1] == "" {
		return nil, usage("BAD_VALUE", "%s: %q is not CLUSTER:NAME:ID", c.hint("identity"), c.str("identity")).try("-b DefaultCluster:broker-a:0")
	}
	return c.askEach(ctx, targets, "remove broker "+c.str("identity"), func(ctx context.Context, t admin.Target) (string, error) {
		return "", c.client.RemoveBroker(ctx, t.Addr, parts[0], parts[1], id)
	}), nil
}

func runCheckRocksDB(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (string, error) {
		return c.client.CheckRocksDBQueues(ctx, t.Addr, c.str("topic"), c.whole("from"))
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		it := &askedItem{Target: res.Target.String(), Addr: res.Target.Addr, Request: "check consume queues", Applied: true, target: res.Target}
		if text := strings.TrimSpace(res.Value); text != "" {
			it.Answer = &text
		}
		r.add(it)
	}
	return r, nil
}

// popView has mqadmin's sentence for a dry run as well: it knows one.
func popView() view {
	v := askedView(func(*printer, *askedItem) {})
	v.old = func(p *printer, r *result) {
		for _, item := range r.items {
			it := item.(*askedItem)
			if it.Applied || r.change.DryRun {
				p.printf("Export broker records, brokerName=%s, brokerAddr=%s, dryRun=%t\n", it.target.Broker, it.Addr, r.change.DryRun)
			}
		}
	}
	return v
}

func runPopRollback(ctx context.Context, c *call) (*result, error) {
	targets, err := configTargets(ctx, c, false)
	if err != nil {
		return nil, err
	}
	return c.askEach(ctx, targets, "roll pop records back", func(ctx context.Context, t admin.Target) (string, error) {
		return "", c.client.RollBackPop(ctx, t.Addr)
	}), nil
}

// rocksDBTypes are the tables that a broker keeps in RocksDB.
var rocksDBTypes = []string{"topics", "subscriptionGroups", "consumerOffsets"}

func runConfigImport(ctx context.Context, c *call) (*result, error) {
	types := rocksDBTypes
	if c.given("type") {
		types = strings.FieldsFunc(c.str("type"), func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
	}
	for _, t := range types {
		if !slices.Contains(rocksDBTypes, t) {
			return nil, usage("BAD_VALUE", "%s: %q is unknown", c.hint("type"), t).because("%s", strings.Join(rocksDBTypes, ", "))
		}
	}
	if c.given("path") || c.old && !c.given("broker") && !c.given("cluster") {
		return nil, c.noRocksDB()
	}
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	return c.askEach(ctx, targets, "export "+strings.Join(types, ";"), func(ctx context.Context, t admin.Target) (string, error) {
		return "", c.client.ExportRocksDBConfig(ctx, t.Addr, types)
	}), nil
}

func runRocksDBFolder(_ context.Context, c *call) (*result, error) { return nil, c.noRocksDB() }

// noRocksDB is why a local folder is not read, and what is read instead.
func (c *call) noRocksDB() *Message {
	return fail(ExitDenied, "NOT_OFFERED", "a RocksDB folder cannot be read by this program").
		because("that needs the RocksDB library, which it does not carry; the broker that owns the folder can read it while it runs").
		try("mqctl config import --broker BROKER", "mqctl cluster export --what topics,groups,offsets", "switch the broker to configStorageType or storeType default")
}

func runColdGet(ctx context.Context, c *call) (*result, error) {
	targets, err := configTargets(ctx, c, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	var tables []*coldItem
	for _, res := range admin.Each(ctx, c.client, 0, targets, c.coldTable) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		tables = append(tables, &coldItem{table: res.Value, target: res.Target})
		if res.Value == nil {
			continue
		}
		groups := map[string]bool{}
		for g := range res.Value.Config {
			groups[g] = true
		}
		for g := range res.Value.Runtime {
			groups[g] = true
		}
		for _, g := range sortedKeys(groups) {
			it := &coldItem{Broker: res.Target.String(), Group: g, Runtime: json.RawMessage("null")}
			if n, err := strconv.ParseInt(strings.Trim(string(res.Value.Config[g]), `"`), 10, 64); err == nil {
				it.Threshold = &n
			}
			if b := res.Value.Runtime[g]; len(b) > 0 {
				it.Runtime = b
			}
			r.add(it)
		}
	}
	r.extra = tables
	return r, nil
}

// oldCold is mqadmin's layout of getColdDataFlowCtrInfo: a broker's table as it
// keeps it, with its moments also as text.
func oldCold(p *printer, r *result) {
	tables, _ := r.extra.([]*coldItem)
	for _, it := range tables {
		p.printf("%s", blockHead(it.target))
		if it.table == nil {
			p.printf("Broker[%s] has no cold ctr table !\n", it.target.Addr)
			continue
		}
		var doc map[string]any
		dec := json.NewDecoder(bytes.NewReader([]byte(it.table.text)))
		dec.UseNumber()
		if dec.Decode(&doc) != nil && fastjson.Unmarshal([]byte(it.table.text), &doc) != nil {
			p.printf("%s\n", it.table.text)
			continue
		}
		runtime, _ := doc["runtimeTable"].(map[string]any)
		for _, row := range runtime {
			if counters, ok := row.(map[string]any); ok {
				addMoment(counters, "lastColdReadTimeMills", "lastColdReadTimeFormat")
				addMoment(counters, "createTimeMills", "createTimeFormat")
			}
		}
		b, err := json.MarshalIndent(doc, "", "\t")
		if err == nil {
			p.printf("%s\n", b)
		}
	}
}

func addMoment(row map[string]any, from, to string) {
	if ms, err := strconv.ParseInt(fmt.Sprint(row[from]), 10, 64); err == nil {
		row[to] = time.UnixMilli(ms).Format("2006-01-02 15:04:05")
	}
}

// runColdChange is broker cold set and delete.
func runColdChange(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if err := checkGroupName(group); err != nil {
		return nil, err
	}
	var after state
	if c.cmd.path == "broker cold set" {
		if err := c.needFlags("threshold"); err != nil {
			return nil, err
		}
		after = state{valueField: json.Number(c.str("threshold"))}
	}
	targets, err := configTargets(ctx, c, false)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	var edits []*edit
	for _, res := range c.statesAt(ctx, targets, kindCold+"/"+group) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		edits = append(edits, c.thingEdit(planThing(res.Target, kindCold+"/"+group, res.Value, after)))
	}
	c.carryOut(ctx, r, edits)
	if after == nil {
		return c.missingUnless(r, nil, "threshold", group)
	}
	return r, nil
}

// electionItem is what an election led to.
type electionItem struct {
	Cluster           string        `json:"cluster"`
	Broker            string        `json:"broker"`
	MasterID          *int64        `json:"masterBrokerId"` // null before the election
	MasterAddr        *string       `json:"masterAddr"`
	MasterEpoch       *int64        `json:"masterEpoch"`
	SyncStateSetEpoch *int64        `json:"syncStateSetEpoch"`
	Replicas          []replicaItem `json:"replicas"`
	Changed           bool          `json:"changed"`
	Applied           bool          `json:"applied"`
}

func electCommand() *command {
	return &command{old: "electMaster", twin: "ha promote", summary: "have the controllers make one replica the master", run: runElect, schema: "mqctl.controller.elect/v1",
		attrs: mutates | planned, exits: []int{ExitNotFound, ExitChanges}, examples: []string{"mqctl electMaster -a 10.0.0.4:9878 -b 2 -bn broker-a -c DefaultCluster"},
		flags: []flagSpec{controllerFlag(),
			{key: "id", long: "brokerId", short: "b", kind: kindInt, min: 0, max: math.MaxInt64, required: true, oldOnly: true, meta: "N", help: "the replica's id at the controllers"},
			{key: "broker-name", long: "brokerName", short: "bn", required: true, oldOnly: true, meta: "NAME", complete: "broker", help: "the broker name"},
			{key: "cluster", long: "clusterName", short: "c", required: true, oldOnly: true, meta: "NAME", complete: "cluster", help: "its cluster"}},
		view: view{item: electionItem{}, name: func(item any) string { return item.(*electionItem).Broker }, old: oldElection, columns: []column{
			{head: "BROKER", field: "broker"}, {head: "MASTER", field: "masterBrokerId"}, {head: "ADDR", field: "masterAddr"}, {head: "EPOCH", field: "masterEpoch"}, {head: "APPLIED", field: "applied"}}}}
}

func runElect(ctx context.Context, c *call) (*result, error) {
	controllers, err := c.controllers()
	if err != nil {
		return nil, err
	}
	it := &electionItem{Cluster: c.str("cluster"), Broker: c.str("broker-name"), Replicas: []replicaItem{}, Changed: true}
	r := &result{change: &change{DryRun: c.dryRun()}}
	c.carryOut(ctx, r, []*edit{{target: controllers[0], items: []any{it},
		write: func(ctx context.Context) (bool, error) {
			e, err := c.client.ElectMaster(ctx, controllers[0].Addr, it.Cluster, it.Broker, c.whole("id"))
			if err != nil {
				return false, err
			}
			it.Applied, it.MasterID, it.MasterAddr, it.MasterEpoch, it.SyncStateSetEpoch = true, &e.MasterID, &e.MasterAddr, &e.MasterEpoch, &e.SyncStateSetEpoch
			for id, addr := range e.Members {
				it.Replicas = append(it.Replicas, replicaItem{BrokerID: id, Addr: addr})
			}
			slices.SortFunc(it.Replicas, func(a, b replicaItem) int { return int(a.BrokerID - b.BrokerID) })
			return true, nil
		},
		things: func() []auditThing {
			return []auditThing{{Target: it.Broker, Addr: controllers[0].Addr, Key: "electMaster", Before: rawJSON(nil), After: rawJSON(it.MasterID)}}
		}}})
	c.dropUnasked(r)
	return r, nil
}

// oldElection is mqadmin's layout of electMaster.
func oldElection(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*electionItem)
		if !it.Applied {
			continue
		}
		p.printf("\n#ClusterName\t%s\n#BrokerName\t%s\n#BrokerMasterAddr\t%s\n#MasterEpoch\t%d\n#SyncStateSetEpoch\t%d\n", it.Cluster, it.Broker, *it.MasterAddr, *it.MasterEpoch, *it.SyncStateSetEpoch)
		for _, m := range it.Replicas {
			p.printf("\t#Broker\t%d\t%s\n", m.BrokerID, m.Addr)
		}
	}
}

func cleanCommand() *command {
	return &command{path: "controller clean", old: "cleanBrokerMetadata", summary: "remove replicas from a controller", run: runControllerClean, schema: "mqctl.controller.clean/v1",
		attrs: mutates | planned | destructive, exits: []int{ExitAborted, ExitChanges},
		examples: []string{"mqctl controller clean --controller 10.0.0.4:9878 --broker-name broker-a --cluster DefaultCluster --ids 2,3 --yes", "mqctl cleanBrokerMetadata -a 10.0.0.4:9878 -bn broker-a -c DefaultCluster -b '2;3'"},
		flags: []flagSpec{controllerFlag(),
			{key: "broker-name", long: "brokerName", short: "bn", required: true, meta: "NAME", complete: "broker", help: "the broker name"},
			{key: "cluster", long: "clusterName", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "its cluster; needed unless --living"},
			{key: "ids", long: "brokerControllerIdsToClean", short: "b", meta: "A,B", help: "these replicas; all unless given"},
			{key: "living", long: "cleanLivingBroker", short: "l", kind: kindBool, bareOld: true, help: "also replicas that are alive"}},
		view: askedView(func(p *printer, it *askedItem) {
			p.printf("clear broker %s metadata from controller success! \n", strings.TrimPrefix(it.Request, "clean "))
		})}
}

func runControllerClean(ctx context.Context, c *call) (*result, error) {
	controllers, err := c.controllers()
	if err != nil {
		return nil, err
	}
	if err := c.needFlags("broker-name"); err != nil {
		return nil, err
	}
	if c.str("cluster") == "" && !c.on("living") {
		return nil, usage("VALUE_MISSING", "%s needs %s unless living replicas are meant", c.cmd.name(c.old), c.hint("cluster")).because("nothing was sent")
	}
	ids := strings.FieldsFunc(c.str("ids"), func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 0 {
			return nil, usage("BAD_VALUE", "%s: %q is no id", c.hint("ids"), id).try(c.hint("ids") + " 2;3")
		}
	}
	if err := c.confirm("removing replicas of "+c.str("broker-name")+" from the controllers", "a replica that comes back registers as a new one"); err != nil {
		return nil, err
	}
	return c.askEach(ctx, controllers[:1], "clean "+c.str("broker-name"), func(ctx context.Context, t admin.Target) (string, error) {
		return "", c.client.CleanBrokerData(ctx, t.Addr, c.str("cluster"), c.str("broker-name"), strings.Join(ids, ";"), c.on("living"))
	}), nil
}
