package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// configDiffItem is one setting that differs.
type configDiffItem struct {
	Key   string  `json:"key"`
	Left  *string `json:"left"`  // null: the left side has no such key
	Right *string `json:"right"` // likewise
}

func brokerConfigDiffCommand() *command {
	return &command{
		path: "broker config diff", summary: "compare the settings of two brokers, or of one with a file", args: "A B | A --file F", min: 1, max: 2, argFrom: "broker",
		run: runConfigDiff, schema: "mqctl.broker.config.diff/v1", exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse, ExitBadConfig},
		examples: []string{"mqctl broker config diff broker-a/0 broker-a/1", "mqctl broker config diff broker-a/0 --file /etc/rocketmq/broker-a.toml"},
		flags: []flagSpec{
			{key: "file", letter: "f", meta: "FILE", complete: "file", help: "compare with a file: what it sets, and what the broker was given besides"},
			{key: "all", kind: kindBool, help: "also what differs by its nature: names, ids, roles, addresses, folders"},
		},
		view: view{
			item: configDiffItem{}, name: func(item any) string { return item.(configDiffItem).Key },
			columns: []column{{head: "KEY", field: "key"}, {head: "LEFT", field: "left"}, {head: "RIGHT", field: "right"}},
		},
	}
}

func brokerConfigExplainCommand() *command {
	var of *command
	for _, c := range configCommands() {
		if c.path == "config explain" {
			of = c
		}
	}
	own := *of
	own.path, own.schema = "broker config explain", "mqctl.broker.config.explain/v1"
	own.examples = []string{"mqctl broker config explain haMaxGapNotInSync"}
	return &own
}

// ownKeys differ between any two brokers.
var ownKeys = []string{
	"brokerId", "brokerName", "brokerRole", "brokerIP1", "brokerIP2", "listenPort", "fastListenPort", "haListenPort", "haMasterAddress", "bindAddress",
	"storePathRootDir", "storePathCommitLog", "storePathDLedgerCommitLog", "storePathEpochFile", "storePathBrokerIdentity", "brokerConfigPath", "authConfigPath",
	"http.listen", "http.tokenFile", "log.file", "nameserver.embedded.enable", "nameserver.embedded.listen", "nameserver.embedded.kvConfigPath", "startAcceptSendRequestTimeStamp",
	"metricsPromExporterHost", "metricsPromExporterPort",
}

func runConfigDiff(ctx context.Context, c *call) (*result, error) {
	file := c.str("file")
	switch {
	case file != "" && len(c.args) > 1:
		return nil, usage("STRAY_ARGUMENT", "%q is not expected here; with --file one broker is compared", c.args[1])
	case file == "" && len(c.args) < 2:
		return nil, usage("ARGUMENT_MISSING", "broker config diff needs two brokers, or one and --file").try("mqctl broker config diff "+c.arg(0)+" OTHER", "mqctl broker config diff "+c.arg(0)+" --file FILE")
	}
	var inFile map[string]string
	if file != "" {
		var err error
		if inFile, err = fileValues(file); err != nil {
			return nil, err
		}
	}
	left, cluster, err := c.configOf(ctx, c.arg(0))
	if err != nil {
		return nil, err
	}
	r := &result{cluster: cluster, empty: "no difference"}
	right := inFile
	if file == "" {
		if right, _, err = c.configOf(ctx, c.arg(1)); err != nil {
			return nil, err
		}
	}
	for _, k := range diffKeys(left, right, file != "") {
		a, inLeft := left[k]
		b, inRight := right[k]
		if inLeft && inRight && (a == b || sameSetting(k, a, b)) {
			continue
		}
		if file == "" && !c.on("all") && slices.Contains(ownKeys, k) {
			continue
		}
		if secretWord(k) && (a == hiddenSetting || b == hiddenSetting) && a != "" && b != "" {
			r.warn(warning("NOT_COMPARED", "", "%s is a secret that a broker does not tell: whether both have the same is not known", k))
			continue
		}
		it := configDiffItem{Key: k}
		if inLeft {
			it.Left = ptr(hideSecret(k, a))
		}
		if inRight {
			it.Right = ptr(hideSecret(k, b))
		}
		r.add(it)
	}
	if file != "" {
		if err := c.addUnlisted(ctx, r, left, inFile); err != nil {
			return nil, err
		}
	}
	if len(r.items) > 0 {
		r.exit = ExitConditionFalse
	}
	return r, nil
}

// addUnlisted adds what somebody set at the broker and the file says nothing of:
// a start with that file would lose it. Only brokers of this program know where
// their values came from; flags and variables of the start are no difference.
func (c *call) addUnlisted(ctx context.Context, r *result, left, inFile map[string]string) error {
	targets, err := c.client.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: c.arg(0)})
	if err != nil || len(targets) != 1 {
		return c.explain(err)
	}
	v, err := c.client.InspectConfig(ctx, targets[0].Addr)
	var refused *admin.Refused
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return c.at(err, targets[0])
	}
	for _, k := range sortedKeys(v.Origins) {
		where := firstWord(v.Origins[k])
		key, known := lookupKey(k)
		_, listed := inFile[k]
		if listed || !known || where != "file" && where != "saved" && where != "live" || slices.Contains(ownKeys, k) && !c.on("all") {
			continue
		}
		if value, has := left[k]; has && value != key.def && !sameSetting(k, value, key.def) {
			r.add(configDiffItem{Key: k, Left: ptr(hideSecret(k, value))})
		}
	}
	return nil
}

// diffKeys are the keys of both sides in order; those of the file alone when one is compared.
func diffKeys(left, right map[string]string, file bool) []string {
	keys := sortedKeys(right)
	if file {
		return keys
	}
	for k := range left {
		if _, ok := right[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// configOf reads the settings of one broker, given by name and id or address.
func (c *call) configOf(ctx context.Context, name string) (map[string]string, string, error) {
	a, err := c.admin()
	if err != nil {
		return nil, "", err
	}
	targets, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: name})
	if err != nil {
		return nil, "", c.explain(err)
	}
	if len(targets) != 1 {
		names := make([]string, len(targets))
		for i, t := range targets {
			names[i] = t.String()
		}
		return nil, "", usage("TARGET_MISSING", "%q is several brokers: %s", name, strings.Join(names, ", ")).try(names[:min(2, len(names))]...)
	}
	cfg, err := a.BrokerConfig(ctx, targets[0].Addr)
	if err != nil {
		return nil, "", c.at(err, targets[0])
	}
	return cfg.Values, targets[0].Cluster, nil
}

// origins asks brokers of this program where their values came from; nil for
// others, and without --origin.
func (c *call) origins(ctx context.Context, targets []admin.Target, r *result) (map[string]map[string]string, error) {
	if !c.on("origin") {
		return nil, nil
	}
	out := map[string]map[string]string{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*body.InspectConfig, error) {
		return c.client.InspectConfig(ctx, t.Addr)
	}) {
		var refused *admin.Refused
		switch {
		case res.Err == nil:
			out[res.Target.Addr] = res.Value.Origins
		case errors.As(res.Err, &refused):
			r.warn(warning("NO_ORIGIN", res.Target.String(), "%s cannot say where its values came from", res.Target))
		}
	}
	if c.p.format == "table" && len(c.p.fields) == 0 {
		c.p.fields = []string{"broker", "key", "value", "origin"}
	}
	return out, nil
}

// passing reports whether a change shall end with the broker's process.
func (c *call) passing() bool { return c.given("persist") && !c.on("persist") }

// checkPersist refuses --no-persist where a broker would save all the same.
func (c *call) checkPersist(ctx context.Context, targets []admin.Target) error {
	if !c.passing() {
		return nil
	}
	for _, t := range targets {
		if _, err := c.client.InspectConfig(ctx, t.Addr); err != nil {
			var refused *admin.Refused
			if errors.As(err, &refused) {
				m := fail(ExitDenied, "NOT_OFFERED", "%s saves every change; nothing was sent", t).because("only brokers of mqctl know --no-persist").try("without --no-persist")
				m.Target, m.Addr = t.String(), t.Addr
				return m
			}
			return c.at(err, t)
		}
	}
	return nil
}

// notePersisted says whether changes were saved; unknown for other brokers.
func (c *call) notePersisted(ctx context.Context, t admin.Target, items []*configSetItem) {
	if _, err := c.client.InspectConfig(ctx, t.Addr); err != nil {
		return
	}
	for _, it := range items {
		if it.Changed {
			it.Persisted = ptr(!c.passing())
		}
	}
}
