package cli

import (
	"context"
	"sort"
	"strconv"
	"strings"

	"mqctl/cli/admin"
)

// propertyItem is one setting of a nameserver or a controller.
type propertyItem struct {
	Server string `json:"server"`
	Key    string `json:"key"`
	Value  string `json:"value"`
}

// controllerItem is one controller of a cluster.
type controllerItem struct {
	Group   string  `json:"group"`
	ID      string  `json:"id"`
	Addr    *string `json:"addr"` // null when the peer tells only its place among the controllers
	Leader  bool    `json:"leader"`
	peer    string
	summary *admin.Controller
}

// syncSetItem is the in-sync set of one broker name.
type syncSetItem struct {
	Broker            string        `json:"broker"`
	MasterID          *int64        `json:"masterBrokerId"` // null: there is no master
	MasterAddr        *string       `json:"masterAddr"`
	MasterEpoch       int64         `json:"masterEpoch"`
	SyncStateSetEpoch int64         `json:"syncStateSetEpoch"`
	InSync            []replicaItem `json:"inSync"`
	NotInSync         []replicaItem `json:"notInSync"`
}

// replicaItem is one replica as the controllers know it.
type replicaItem struct {
	BrokerID int64  `json:"brokerId"`
	Addr     string `json:"addr"`
	Alive    *bool  `json:"alive"`
}

// epochItem is the part of a broker's log that was written under one master.
type epochItem struct {
	Cluster     string `json:"cluster"`
	Broker      string `json:"broker"`
	BrokerID    int64  `json:"brokerId"`
	Addr        string `json:"addr"`
	Epoch       int64  `json:"epoch"`
	StartOffset int64  `json:"startOffset"`
	EndOffset   int64  `json:"endOffset"`
}

func controllerFlag() flagSpec {
	return flagSpec{key: "controller", long: "controllerAddress", short: "a", required: true, kind: kindList, meta: "HOST:PORT", help: "a controller; several with ; between"}
}

func settingFlags() []flagSpec {
	return []flagSpec{
		{key: "key", long: "key", short: "k", arg: 1, required: true, meta: "KEY", help: "the setting"},
		{key: "value", long: "value", short: "v", arg: 2, required: true, meta: "VALUE", help: "its new value"},
	}
}

func controllerCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitChanges}
	properties := view{item: propertyItem{}, name: func(item any) string { return item.(*propertyItem).Key }, old: oldProperties, columns: []column{
		{head: "SERVER", field: "server"}, {head: "KEY", field: "key"}, {head: "VALUE", field: "value"}}}
	set := func(kind string) view {
		v := thingView("")
		v.old = func(p *printer, r *result) {
			var servers []string
			for _, item := range r.items {
				servers = append(servers, item.(*planItem).target.Addr)
			}
			if kv, ok := r.extra.([2]string); ok && len(r.errors) == 0 {
				p.printf("update %s config success!%s\n%s : %s\n", kind, javaList(servers), kv[0], hideSecret(kv[0], kv[1]))
			}
		}
		return v
	}
	return []*command{
		{path: "nameserver config get", old: "getNamesrvConfig", summary: "properties of nameservers", args: "[KEY...]", max: -1, run: runNamesrvConfig, schema: "mqctl.nameserver.config.get/v1", exits: exits, view: properties,
			examples: []string{"mqctl nameserver config get", "mqctl getNamesrvConfig -n 127.0.0.1:9876"}},
		{path: "nameserver config set", old: "updateNamesrvConfig", summary: "set a property of nameservers", args: "KEY VALUE", min: 2, max: 2, run: runNamesrvConfigSet, schema: "mqctl.nameserver.config.set/v1",
			attrs: mutates | planned, exits: exits, view: set("name server"), flags: settingFlags(),
			examples: []string{"mqctl nameserver config set supportActingMaster true", "mqctl updateNamesrvConfig -n 127.0.0.1:9876 -k supportActingMaster -v true"}},
		{path: "controller status", old: "getControllerMetaData", summary: "controller leader and peers", run: runControllerStatus, schema: "mqctl.controller.status/v1", exits: exits, flags: []flagSpec{controllerFlag()},
			examples: []string{"mqctl controller status --controller 10.0.0.4:9878", "mqctl getControllerMetaData -a 10.0.0.4:9878"},
			view: view{item: controllerItem{}, name: func(item any) string { return item.(*controllerItem).ID }, old: oldController, columns: []column{
				{head: "GROUP", field: "group"}, {head: "ID", field: "id"}, {head: "ADDR", field: "addr"}, {head: "LEADER", field: "leader"}}}},
		{path: "controller config get", old: "getControllerConfig", summary: "controller properties", args: "[KEY...]", max: -1, run: runControllerConfig, schema: "mqctl.controller.config.get/v1", exits: exits, view: properties,
			flags: []flagSpec{controllerFlag()}, examples: []string{"mqctl controller config get --controller 10.0.0.4:9878", "mqctl getControllerConfig -a '10.0.0.4:9878;10.0.0.5:9878'"}},
		{path: "controller config set", old: "updateControllerConfig", summary: "set a controller property", args: "KEY VALUE", min: 2, max: 2, run: runControllerConfigSet, schema: "mqctl.controller.config.set/v1",
			attrs: mutates | planned, exits: exits, view: set("controller"), flags: append(settingFlags(), controllerFlag()),
			examples: []string{"mqctl controller config set enableElectUncleanMaster false --controller 10.0.0.4:9878", "mqctl updateControllerConfig -a 10.0.0.4:9878 -k enableElectUncleanMaster -v false"}},
		cleanCommand(), electCommand(),
		{path: "ha syncset", old: "getSyncStateSet", summary: "in-sync set of a controller", run: runSyncSet, schema: "mqctl.ha.syncset/v1", exits: exits,
			flags: []flagSpec{controllerFlag(), {key: "cluster", long: "clusterName", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all brokers of this cluster"},
				{key: "broker", long: "brokerName", short: "b", meta: "NAME", complete: "broker", help: "this broker name only"}, intervalFlag()},
			examples: []string{"mqctl ha syncset --controller 10.0.0.4:9878", "mqctl getSyncStateSet -n 127.0.0.1:9876 -a 10.0.0.4:9878 -c DefaultCluster"},
			view: view{item: syncSetItem{}, name: func(item any) string { return item.(*syncSetItem).Broker }, old: oldSyncSet, columns: []column{
				{head: "BROKER", field: "broker"}, {head: "MASTER", field: "masterBrokerId"}, {head: "ADDR", field: "masterAddr"}, {head: "EPOCH", field: "masterEpoch"},
				{head: "SET EPOCH", field: "syncStateSetEpoch"}, {head: "IN SYNC", field: "inSync"}, {head: "NOT IN SYNC", field: "notInSync"}}}},
		{path: "ha epoch", old: "getBrokerEpoch", summary: "epochs of a broker", run: runEpochs, schema: "mqctl.ha.epoch/v1", exits: exits,
			flags: []flagSpec{{key: "cluster", long: "clusterName", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "all brokers of this cluster"},
				{key: "broker", long: "brokerName", short: "b", meta: "NAME", complete: "broker", help: "this broker name only"}, intervalFlag()},
			examples: []string{"mqctl ha epoch --broker broker-a", "mqctl getBrokerEpoch -n 127.0.0.1:9876 -c DefaultCluster"},
			view: view{item: epochItem{}, name: func(item any) string { return strconv.FormatInt(item.(*epochItem).Epoch, 10) }, old: oldEpochs, columns: []column{
				{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId"}, {head: "EPOCH", field: "epoch"}, {head: "START", field: "startOffset", as: asNumber}, {head: "END", field: "endOffset", as: asNumber}}}},
	}
}

// intervalFlag is mqadmin's way to repeat; --watch is ours.
func intervalFlag() flagSpec {
	return flagSpec{key: "interval", long: "interval", short: "i", oldOnly: true, kind: kindInt, min: 1, max: 86400, meta: "SECONDS", help: "repeat until interrupted"}
}

// controllers are the addresses of --controller.
func (c *call) controllers() ([]admin.Target, error) {
	if err := c.needFlags("controller"); err != nil {
		return nil, err
	}
	addrs, err := admin.SplitAddresses(strings.Join(c.list("controller"), ";"))
	if err != nil {
		return nil, badAddress(err, "controller")
	}
	if len(addrs) == 0 {
		return nil, usage("VALUE_MISSING", "%s needs %s", c.cmd.name(c.old), c.hint("controller")).because("nothing was sent").lacks(c.cmd, c.old, c.flag("controller"), c.values)
	}
	out := make([]admin.Target, len(addrs))
	for i, a := range addrs {
		out[i] = admin.Target{ID: -1, Addr: a}
	}
	_, err = c.admin()
	return out, err
}

// nameservers are all nameservers as targets.
func (c *call) nameservers() ([]admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	var out []admin.Target
	for _, addr := range a.Nameservers() {
		out = append(out, admin.Target{ID: -1, Addr: addr})
	}
	return out, nil
}

func runNamesrvConfig(ctx context.Context, c *call) (*result, error) {
	targets, err := c.nameservers()
	if err != nil {
		return nil, err
	}
	return c.showProperties(ctx, targets, c.client.NameserverConfig)
}

func runControllerConfig(ctx context.Context, c *call) (*result, error) {
	targets, err := c.controllers()
	if err != nil {
		return nil, err
	}
	return c.showProperties(ctx, targets, c.client.ControllerConfig)
}

func (c *call) showProperties(ctx context.Context, targets []admin.Target, read func(ctx context.Context, addr string) (*admin.Properties, error)) (*result, error) {
	r := &result{}
	found := map[string]bool{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.Properties, error) { return read(ctx, t.Addr) }) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		keys := append([]string(nil), res.Value.Keys...)
		sort.Strings(keys)
		if len(c.args) > 0 {
			keys = c.args
		}
		for _, k := range keys {
			if v, ok := res.Value.Values[k]; ok {
				found[k] = true
				r.add(&propertyItem{res.Target.Addr, k, hideSecret(k, v)})
			}
		}
	}
	for _, k := range c.args {
		if !found[k] && r.done > 0 {
			return nil, fail(ExitNotFound, "UNKNOWN_KEY", "no server asked has a key %q", k).try("mqctl " + c.cmd.name(c.old))
		}
	}
	return r, nil
}

// oldProperties is mqadmin's block of one server.
func oldProperties(p *printer, r *result) {
	last := ""
	for _, item := range r.items {
		it := item.(*propertyItem)
		if it.Server != last {
			last = it.Server
			p.printf("============%s============\n", last)
		}
		p.printf("%-50s=  %s\n", it.Key, it.Value)
	}
}

func runNamesrvConfigSet(ctx context.Context, c *call) (*result, error) {
	targets, err := c.nameservers()
	if err != nil {
		return nil, err
	}
	return c.setProperty(ctx, targets, kindNamesrv)
}

func runControllerConfigSet(ctx context.Context, c *call) (*result, error) {
	targets, err := c.controllers()
	if err != nil {
		return nil, err
	}
	return c.setProperty(ctx, targets, kindController)
}

// setProperty plans one setting at all servers and carries it out. A server
// that does not have the key is not asked: Apache's would say yes and do nothing.
func (c *call) setProperty(ctx context.Context, targets []admin.Target, kind string) (*result, error) {
	key := c.arg(0)
	value, seen, err := c.secretValue(key, c.arg(1))
	if err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}, extra: [2]string{key, value}}
	if seen {
		r.secretsSeen([]string{key})
	}
	var edits []*edit
	for _, res := range c.statesAt(ctx, targets, kind+"/"+key) {
		switch {
		case res.Err != nil:
			r.failed(c.at(res.Err, res.Target))
			continue
		case res.Value == nil:
			r.failed(c.at(usage("UNKNOWN_KEY", "%s has no setting %q; nothing was sent to it", res.Target.Addr, key), res.Target))
			continue
		}
		edits = append(edits, c.thingEdit(planThing(res.Target, kind+"/"+key, res.Value, state{valueField: value})))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

func runControllerStatus(ctx context.Context, c *call) (*result, error) {
	targets, err := c.controllers()
	if err != nil {
		return nil, err
	}
	r := &result{}
	var first *admin.Controller
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.Controller, error) {
		return c.client.Controller(ctx, t.Addr)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		if first == nil {
			first = res.Value
		}
	}
	if first == nil {
		return r, nil
	}
	for _, peer := range first.Peers {
		id, addr := peer, (*string)(nil)
		// A peer of DLedger is ID-HOST:PORT, with the port of its own protocol; one of jRaft is an address.
		if name, where, ok := strings.Cut(peer, "-"); ok {
			id, addr = name, &where
		} else if strings.Contains(peer, ":") {
			addr = &peer
		}
		r.add(&controllerItem{Group: first.Group, ID: id, Addr: addr, Leader: id == first.LeaderID || peer == first.LeaderAddress, peer: peer, summary: first})
	}
	if len(r.items) == 0 {
		r.add(&controllerItem{Group: first.Group, ID: first.LeaderID, Addr: ptr(first.LeaderAddress), Leader: true, peer: first.LeaderAddress, summary: first})
	}
	return r, nil
}

// oldController is mqadmin's layout of getControllerMetaData.
func oldController(p *printer, r *result) {
	for i, item := range r.items {
		it := item.(*controllerItem)
		if i == 0 {
			p.printf("\n#ControllerGroup\t%s\n#ControllerLeaderId\t%s\n#ControllerLeaderAddress\t%s", it.Group, it.summary.LeaderID, it.summary.LeaderAddress)
		}
		p.printf("\n#Peer:\t%s", it.peer)
	}
	if len(r.items) > 0 {
		p.printf("\n")
	}
}

func runSyncSet(ctx context.Context, c *call) (*result, error) {
	controllers, err := c.controllers()
	if err != nil {
		return nil, err
	}
	names := []string{c.str("broker")}
	if names[0] == "" {
		if c.old && c.str("cluster") == "" {
			return nil, c.needTarget()
		}
		targets, err := c.targets(ctx, true)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, t := range targets {
			names = append(names, t.Broker)
		}
	}
	sets, err := c.client.SyncSets(ctx, controllers[0].Addr, names)
	if err != nil {
		return nil, c.at(err, controllers[0])
	}
	r := &result{}
	for _, name := range sortedKeys(sets) {
		s := sets[name]
		it := &syncSetItem{Broker: name, MasterID: s.MasterID, MasterEpoch: s.Epoch, SyncStateSetEpoch: s.SetEpoch, InSync: replicaItems(s.InSync), NotInSync: replicaItems(s.NotInSync)}
		if s.MasterAddr != "" {
			it.MasterAddr = &s.MasterAddr
		}
		r.done++
		r.add(it)
	}
	if len(r.items) == 0 {
		return nil, fail(ExitNotFound, "BROKER_NOT_FOUND", "the controllers know no broker %s", strings.Join(names, ", "))
	}
	return r, nil
}

func replicaItems(all []admin.Replica) []replicaItem {
	out := make([]replicaItem, len(all))
	for i, a := range all {
		out[i] = replicaItem{a.ID, a.Addr, a.Alive}
	}
	return out
}

// oldSyncSet is mqadmin's layout of getSyncStateSet.
func oldSyncSet(p *printer, r *result) {
	line := func(name, broker string, all []replicaItem) {
		for _, m := range all {
			alive := "null"
			if m.Alive != nil {
				alive = strconv.FormatBool(*m.Alive)
			}
			p.printf("\n%s:\tReplicaIdentity{brokerName='%s', brokerId=%d, brokerAddress='%s', alive=%s}\n", name, broker, m.BrokerID, m.Addr, alive)
		}
	}
	for _, item := range r.items {
		it := item.(*syncSetItem)
		id, addr := "null", "null"
		if it.MasterID != nil {
			id = strconv.FormatInt(*it.MasterID, 10)
		}
		if it.MasterAddr != nil {
			addr = *it.MasterAddr
		}
		p.printf("\n#brokerName\t%s\n#MasterBrokerId\t%s\n#MasterAddr\t%s\n#MasterEpoch\t%d\n#SyncStateSetEpoch\t%d\n#SyncStateSetNums\t%d\n",
			it.Broker, id, addr, it.MasterEpoch, it.SyncStateSetEpoch, len(it.InSync))
		line("InSyncReplica", it.Broker, it.InSync)
		line("NotInSyncReplica", it.Broker, it.NotInSync)
	}
}

func runEpochs(ctx context.Context, c *call) (*result, error) {
	targets, err := configTargets(ctx, c, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.Epochs, error) { return c.client.Epochs(ctx, t.Addr) }) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		e := res.Value
		for _, part := range e.List {
			r.add(&epochItem{e.Cluster, e.Broker, e.ID, res.Target.Addr, part.Epoch, part.Start, part.End})
		}
	}
	return r, nil
}

// oldEpochs is mqadmin's layout of getBrokerEpoch.
func oldEpochs(p *printer, r *result) {
	last := ""
	for _, item := range r.items {
		it := item.(*epochItem)
		if it.Addr != last {
			if last != "" {
				p.printf("\n")
			}
			last = it.Addr
			p.printf("\n#clusterName\t%s\n#brokerName\t%s\n#brokerAddr\t%s\n#brokerId\t%d", it.Cluster, it.Broker, it.Addr, it.BrokerID)
		}
		p.printf("\n#Epoch: EpochEntry{epoch=%d, startOffset=%d, endOffset=%d}", it.Epoch, it.StartOffset, it.EndOffset)
	}
	if last != "" {
		p.printf("\n")
	}
}
