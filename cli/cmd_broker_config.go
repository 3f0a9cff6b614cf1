package cli

import (
	"context"
	"slices"
	"sort"
	"strings"

	"mqctl/cli/admin"
)

// configItem is one setting of one broker.
type configItem struct {
	Broker   string  `json:"broker"`
	BrokerID int64   `json:"brokerId"` // -1 when only the address is known
	Key      string  `json:"key"`
	Value    string  `json:"value"`
	Default  *string `json:"default"` // null for keys that mqctl does not know
	Applies  *string `json:"applies" enum:"LIVE|RECONNECT|RESTART"`
	Origin   *string `json:"origin"` // with --origin, of brokers of this program

	target admin.Target
}

// configSetItem is what became of one setting at one broker.
type configSetItem struct {
	Broker    string  `json:"broker"`
	BrokerID  int64   `json:"brokerId"`
	Key       string  `json:"key"`
	Before    *string `json:"before"`
	After     *string `json:"after"` // in force afterwards, or planned; null when not known
	Applies   *string `json:"applies" enum:"LIVE|RECONNECT|RESTART"`
	Changed   bool    `json:"changed"` // with a dry run: would change
	Applied   bool    `json:"applied"`
	Verified  bool    `json:"verified"`
	Persisted *bool   `json:"persisted"`

	want    string
	was, is *string // Before and After themselves, of which secrets are not shown
	target  admin.Target
}

// show gives Before and After their values.
func (it *configSetItem) show() {
	it.Before, it.After = shownSetting(it.Key, it.was), shownSetting(it.Key, it.is)
}

func shownSetting(key string, v *string) *string {
	if v == nil {
		return nil
	}
	return ptr(hideSecret(key, *v))
}

func brokerConfigCommands() []*command {
	target := func(name string) []column {
		return []column{{head: "BROKER", field: "broker"}, {head: name, field: "key"}}
	}
	return []*command{
		{
			path: "broker config get", old: "getBrokerConfig", summary: "settings of brokers", args: "[KEY...]", max: -1, argFrom: "key",
			run: runConfigGet, schema: "mqctl.broker.config.get/v1", exits: []int{ExitNotFound, ExitPartial},
			examples: []string{
				"mqctl broker config get slaveReadEnable --all", "mqctl broker config get --changed --broker broker-a",
				"mqctl getBrokerConfig -n 127.0.0.1:9876 -b 127.0.0.1:10911",
			},
			flags: append(oldTarget(),
				flagSpec{key: "all", kind: kindBool, newOnly: true, help: "slaves too"},
				flagSpec{key: "changed", kind: kindBool, newOnly: true, help: "only what differs from the default"},
				flagSpec{key: "origin", kind: kindBool, newOnly: true, help: "where each value came from: default, file, env, flag, saved, live; brokers of mqctl say so"}),
			view: view{
				item: configItem{}, name: func(item any) string { return item.(configItem).Key }, old: oldConfigGet,
				columns: append(target("KEY"), column{head: "VALUE", field: "value"}, column{head: "DEFAULT", field: "default", wide: true},
					column{head: "APPLIES", field: "applies", wide: true}, column{head: "ORIGIN", field: "origin", wide: true}),
			},
		},
		brokerConfigDiffCommand(), brokerConfigExplainCommand(),
		{
			path: "broker config set", old: "updateBrokerConfig", summary: "change settings of running brokers", args: "KEY=VALUE...", min: 1, max: -1, argFrom: "key",
			run: runConfigSet, schema: "mqctl.broker.config.set/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitChanges},
			examples: []string{
				"mqctl broker config set slaveReadEnable=true --cluster DefaultCluster --all", "mqctl broker config set brokerPermission=4 --broker broker-a --dry-run",
				"mqctl updateBrokerConfig -n 127.0.0.1:9876 -c DefaultCluster -k slaveReadEnable -v true",
			},
			flags: append(oldTarget(),
				flagSpec{key: "all", long: "updateAllBroker", short: "a", kind: kindBool, help: "slaves too"},
				flagSpec{key: "key", long: "key", short: "k", oldOnly: true, required: true, meta: "KEY", complete: "key", help: "the setting"},
				flagSpec{key: "value", long: "value", short: "v", oldOnly: true, required: true, meta: "VALUE", help: "its new value"},
				flagSpec{key: "persist", kind: kindBool, newOnly: true, negative: true, help: "save the change in the broker's file (it is, unless --no-persist)"},
				flagSpec{key: "force-unknown", kind: kindBool, newOnly: true, help: "send keys that mqctl does not know"}),
			view: view{
				item: configSetItem{}, name: func(item any) string { return item.(*configSetItem).Key }, old: oldConfigSet, people: printConfigSet,
				columns: append(target("KEY"), column{head: "BEFORE", field: "before"}, column{head: "AFTER", field: "after"},
					column{head: "APPLIES", field: "applies"}, column{head: "CHANGED", field: "changed"}, column{head: "APPLIED", field: "applied"}, column{head: "VERIFIED", field: "verified"}),
			},
		},
	}
}

// appliesOf is when a change of a key acts; nil for unknown keys.
func appliesOf(key string) *string {
	k, ok := lookupKey(key)
	if !ok {
		return nil
	}
	return ptr(k.applies)
}

func configTargets(ctx context.Context, c *call, all bool) ([]admin.Target, error) {
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	targets, err := c.targets(ctx, !all)
	if err != nil {
		return nil, err
	}
	return targets, nil
}

func runConfigGet(ctx context.Context, c *call) (*result, error) {
	targets, err := configTargets(ctx, c, c.on("all") || c.old)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	missing := map[string]bool{}
	origins, err := c.origins(ctx, targets, r)
	if err != nil {
		return nil, err
	}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.BrokerConfig, error) {
		return c.client.BrokerConfig(ctx, t.Addr)
	}) {
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
			v, ok := res.Value.Values[k]
			if !ok {
				missing[k] = true
				continue
			}
			it := configItem{Broker: res.Target.String(), BrokerID: res.Target.ID, Key: k, Value: hideSecret(k, v), Applies: appliesOf(k), target: res.Target}
			if known, ok := lookupKey(k); ok {
				it.Default = ptr(known.def)
			}
			if from := origins[res.Target.Addr]; from != nil {
				it.Origin = ptr(firstOf(from[k], "default"))
			}
			if c.on("changed") && (it.Default == nil || *it.Default == v) {
				continue
			}
			r.add(it)
		}
	}
	for k := range missing {
		m := fail(ExitNotFound, "UNKNOWN_KEY", "no broker asked has a key %q", k)
		if slices.ContainsFunc(targets, func(t admin.Target) bool { return k == t.Broker }) || strings.Contains(k, "/") || admin.IsAddress(k) {
			m.reason("brokers are named by --broker, keys by arguments")
			m.offer("mqctl broker config get --broker " + shellWord(k))
		} else if near := nearestKey(k); near != "" {
			m.offer(near)
		}
		if len(r.items) == 0 {
			return nil, m
		}
		r.failed(m)
	}
	r.extra = targets
	return r, nil
}

// oldConfigGet is mqadmin's layout of getBrokerConfig.
func oldConfigGet(p *printer, r *result) {
	masters := map[string]string{}
	targets, _ := r.extra.([]admin.Target)
	for _, t := range targets {
		if t.ID == 0 {
			masters[t.Broker] = t.Addr
		}
	}
	last := ""
	for _, item := range r.items {
		it := item.(configItem)
		if it.target.Addr != last {
			if last != "" {
				p.printf("\n")
			}
			last = it.target.Addr
			switch master := masters[it.target.Broker]; {
			case it.target.ID < 0:
				p.printf("============%s============\n", last)
			case it.target.ID == 0:
				p.printf("============Master: %s============\n", last)
			case master == "":
				p.printf("============My Master: NO_MASTER=====Slave: %s============\n", last)
			default:
				p.printf("============My Master: %s=====Slave: %s============\n", master, last)
			}
		}
		p.printf("%-50s=  %s\n", it.Key, it.Value)
	}
	if last != "" {
		p.printf("\n")
	}
}

// secretValue is the value of a setting. That of a secret may be env:NAME or file:PATH,
// as in the client file; seen: it stood on the command line.
func (c *call) secretValue(key, value string) (_ string, seen bool, err error) {
	if !secretWord(key) || value == "" {
		return value, false, nil
	}
	if !strings.HasPrefix(value, "env:") && !strings.HasPrefix(value, "file:") {
		return value, true, nil
	}
	value, err = secretFrom(value, c.io.Env)
	return value, false, err
}

// secretsSeen warns of secrets on the command line.
func (r *result) secretsSeen(keys []string) {
	for _, k := range keys {
		r.warn(warning("SECRET_VISIBLE", "", "the value of %s stood on the command line, where everybody on this machine could read it; env:NAME or file:PATH in its place keeps it secret", k))
	}
}

// wantedSettings reads KEY=VALUE arguments, or mqadmin's -k and -v, and checks
// them before anything is sent. visible are the secrets that stood on the command line.
func wantedSettings(c *call) (want map[string]string, keys, visible []string, err error) {
	want = map[string]string{}
	words := c.args
	if c.old {
		words = []string{c.str("key") + "=" + c.str("value")}
	}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return nil, nil, nil, usage("BAD_VALUE", "%q is not KEY=VALUE", w).try(c.settingForms(w)...)
		}
		if _, twice := want[key]; twice {
			return nil, nil, nil, usage("FLAG_TWICE", "%q is set twice", key)
		}
		if _, known := lookupKey(key); !known && !c.on("force-unknown") {
			m := usage("UNKNOWN_KEY", "unknown key %q; nothing was sent", key)
			if near := nearestKey(key); near != "" {
				m.offer(near, "mqctl broker config explain "+near)
			}
			if !c.old {
				m.offer("--force-unknown sends it all the same")
			}
			return nil, nil, nil, m
		}
		value, seen, err := c.secretValue(key, value)
		if err != nil {
			return nil, nil, nil, err
		}
		if seen {
			visible = append(visible, key)
		}
		if plain, ok := keptForm(key, value); ok {
			value = plain // Apache's brokers know no units
		}
		want[key] = value
		keys = append(keys, key)
	}
	return want, keys, visible, nil
}

// settingForms are command lines that set a key; they show nobody a secret.
func (c *call) settingForms(key string) []string {
	line := "mqctl " + c.cmd.name(c.old) + " "
	try, shut := shutSecret(key)
	switch {
	case shut && strings.Contains(try, "="):
		return []string{line + try}
	case secretWord(key):
		return []string{line + key + "=env:NAME", line + key + "=file:PATH"}
	}
	return []string{line + firstOf(key, "KEY") + "=VALUE"}
}

func runConfigSet(ctx context.Context, c *call) (*result, error) {
	want, keys, visible, err := wantedSettings(c)
	if err != nil {
		return nil, err
	}
	targets, err := configTargets(ctx, c, c.on("all"))
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	r.secretsSeen(visible)
	now := admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*admin.BrokerConfig, error) {
		return c.client.BrokerConfig(ctx, t.Addr)
	})
	if err := c.checkSettings(ctx, targets, want, keys); err != nil {
		return nil, err
	}
	if err := c.checkPersist(ctx, targets); err != nil {
		return nil, err
	}
	var edits []*edit
	for _, res := range now {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		edits = append(edits, c.configEdit(res.Target, res.Value, want, keys))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// checkSettings refuses values that a broker of this program cannot take before
// anything is sent. Other brokers know their own values.
func (c *call) checkSettings(ctx context.Context, targets []admin.Target, want map[string]string, keys []string) error {
	for _, k := range keys {
		why := badSetting(k, want[k])
		if why == nil {
			continue
		}
		for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (map[string]string, error) {
			return c.client.RuntimeInfo(ctx, t.Addr)
		}) {
			if res.Err == nil && res.Value["mqctlVersion"] != "" {
				m := usage("BAD_VALUE", "%s: %q is not possible at %s", k, hideSecret(k, want[k]), res.Target).because("%v; nothing was sent", why)
				m.Target, m.Addr = res.Target.String(), res.Target.Addr
				if try, shut := shutSecret(k); shut && strings.Contains(try, "=") {
					m.offer(c.settingForms(k)...)
				} else {
					m.offer("mqctl broker config explain " + k)
				}
				return m
			}
		}
	}
	return nil
}

// plannedSettings compares the settings wanted with those of a broker; send are
// those that differ.
func plannedSettings(t admin.Target, now *admin.BrokerConfig, want map[string]string, keys []string) (items []*configSetItem, send map[string]string) {
	send = map[string]string{}
	for _, k := range keys {
		it := &configSetItem{Broker: t.String(), BrokerID: t.ID, Key: k, Applies: appliesOf(k), want: want[k], is: ptr(want[k]), target: t}
		if v, ok := now.Values[k]; ok {
			it.was = &v
		}
		if it.was == nil || *it.was != want[k] {
			send[k] = want[k]
			it.Changed = true
		}
		it.show()
		items = append(items, it)
	}
	return items, send
}

// setConfig changes one broker and reads it back.
func (c *call) setConfig(ctx context.Context, t admin.Target, items []*configSetItem, send map[string]string) (note *Message, err error) {
	update := c.client.UpdateBrokerConfig
	if c.passing() {
		update = c.client.UpdateBrokerConfigLive
	}
	remark, err := update(ctx, t.Addr, send)
	if err != nil {
		c.inForce(ctx, t, items)
		return nil, err
	}
	for _, it := range items {
		it.Applied = it.Changed
	}
	if remark = strings.TrimSpace(remark); remark != "" && !strings.Contains(remark, "not set any response code") {
		note = ptr(warning("BROKER_REMARK", t.String(), "%s: %s", t, oneLine(remark)))
	}
	err = c.verifyConfig(ctx, t, items)
	c.notePersisted(ctx, t, items)
	return note, err
}

// inForce corrects what a failed change was meant to do by what the broker has.
func (c *call) inForce(ctx context.Context, t admin.Target, items []*configSetItem) {
	got, err := c.client.BrokerConfig(ctx, t.Addr)
	for _, it := range items {
		it.is, it.After = nil, nil
		if err == nil {
			it.sees(got)
		}
		it.differs()
	}
}

// differs notes whether the broker has another value than before.
func (it *configSetItem) differs() {
	it.Changed = it.is != nil && (it.was == nil || *it.was != *it.is)
	it.Applied = it.Changed
}

// sees notes what a broker has now and whether it is what was wanted. Of a secret our
// brokers tell only that there is one.
func (it *configSetItem) sees(got *admin.BrokerConfig) {
	it.is, it.Verified = nil, false
	if v, ok := got.Values[it.Key]; ok {
		it.is = &v
		it.Verified = v == it.want || sameSetting(it.Key, v, it.want) || v == hiddenSetting && secretWord(it.Key) && it.want != ""
	}
	it.show()
}

func (c *call) verifyConfig(ctx context.Context, t admin.Target, items []*configSetItem) error {
	got, err := c.client.BrokerConfig(ctx, t.Addr)
	if err != nil {
		for _, it := range items {
			it.is, it.After = nil, nil
		}
		return fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", t, err)
	}
	var failed error
	for _, it := range items {
		it.sees(got)
		if it.Verified {
			continue
		}
		it.differs()
		if failed == nil {
			failed = fail(ExitFailed, "NOT_VERIFIED", "%s: %s is %q after the change, %q was wanted", t, it.Key, hideSecret(it.Key, got.Values[it.Key]), hideSecret(it.Key, it.want)).
				because("the broker ignored the value")
		}
	}
	return failed
}

// sameSetting compares values that may be written in several ways (4MiB, 4194304).
func sameSetting(key, a, b string) bool {
	x, ok1 := keptForm(key, a)
	y, ok2 := keptForm(key, b)
	return ok1 && ok2 && x == y
}

// printConfigSet is the form for people.
func printConfigSet(p *printer, r *result) {
	var rows [][]string
	written := 0
	for _, item := range r.items {
		it := item.(*configSetItem)
		before, after, note := "-", "-", "same"
		if it.Before != nil {
			before = *it.Before
		}
		if it.After != nil {
			after = *it.After
		}
		switch {
		case it.Changed && r.change.DryRun:
			note = "would change"
		case it.Changed:
			note = p.style.green("changed")
			written++
		case !it.Verified && !r.change.DryRun:
			note = "not changed"
		}
		applies := "unknown"
		if it.Applies != nil {
			applies = "applies " + strings.ToLower(*it.Applies)
		}
		rows = append(rows, []string{it.Broker, it.Key, before, after, note, applies})
	}
	if len(rows) > 0 {
		p.write(grid([]string{"BROKER", "KEY", "BEFORE", "AFTER", "", ""}, rows, nil, p.style.bold))
	}
	switch {
	case r.change.DryRun:
		p.printf("\ndry run: nothing was written\n")
	case written > 0:
		p.printf("\nwritten and read back: %s\n", count(written, "value"))
	case len(r.errors) == 0:
		p.printf("\nnothing to change\n")
	}
}

// oldConfigSet is mqadmin's sentence of updateBrokerConfig.
func oldConfigSet(p *printer, r *result) {
	for _, item := range r.items {
		if it := item.(*configSetItem); it.Verified && !r.change.DryRun {
			p.printf("update broker config success, %s\n", it.target.Addr)
		}
	}
}
