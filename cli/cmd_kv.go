package cli

import (
	"context"
	"errors"
	"strings"

	"mqctl/cli/admin"
)

// kvItem is one value of the nameservers' key table.
type kvItem struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Value     string `json:"value"`
}

// kvSetItem is what became of a value at one nameserver.
type kvSetItem struct {
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
	Value     *string `json:"value"` // null: deleted
	Namesrv   string  `json:"namesrv"`
	Before    *string `json:"before"` // null: it was not there
	Changed   bool    `json:"changed"`
	Applied   bool    `json:"applied"`
	Verified  bool    `json:"verified"`
}

// orderItem is the order list of a topic.
type orderItem struct {
	Topic string `json:"topic"`
	Conf  string `json:"conf"`
}

func kvCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitChanges}
	namespace := flagSpec{key: "namespace", long: "namespace", short: "s", required: true, meta: "NAME", help: "the namespace"}
	key := func(arg int) flagSpec {
		return flagSpec{key: "key", long: "key", short: "k", arg: arg, required: true, meta: "KEY", help: "the key"}
	}
	show := view{item: kvItem{}, name: func(item any) string { return item.(*kvItem).Key },
		columns: []column{{head: "NAMESPACE", field: "namespace"}, {head: "KEY", field: "key"}, {head: "VALUE", field: "value"}}}
	set := func(sentence string) view {
		return view{item: kvSetItem{}, name: func(item any) string { return item.(*kvSetItem).Key },
			columns: []column{{head: "NAMESERVER", field: "namesrv"}, {head: "NAMESPACE", field: "namespace"}, {head: "KEY", field: "key"}, {head: "BEFORE", field: "before"},
				{head: "VALUE", field: "value"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"}},
			old: func(p *printer, r *result) {
				if len(r.errors) == 0 && !r.change.DryRun {
					p.printf("%s\n", sentence)
				}
			}}
	}
	return []*command{
		{path: "kv list", summary: "values of the nameserver key table", run: runKVList, schema: "mqctl.kv.list/v1", exits: exits, view: show, flags: []flagSpec{namespace},
			examples: []string{"mqctl kv list --namespace ORDER_TOPIC_CONFIG"}},
		{path: "kv get", summary: "value of the nameserver key table", args: "KEY", min: 1, max: 1, run: runKVGet, schema: "mqctl.kv.get/v1", exits: exits, view: show, flags: []flagSpec{namespace},
			examples: []string{"mqctl kv get orders --namespace ORDER_TOPIC_CONFIG"}},
		{path: "kv set", old: "updateKvConfig", summary: "write a value of the nameserver key table", args: "KEY VALUE", min: 2, max: 2, run: runKVSet, schema: "mqctl.kv.set/v1",
			attrs: mutates | planned, exits: exits, view: set("create or update kv config to namespace success."),
			flags:    []flagSpec{namespace, key(1), {key: "value", long: "value", short: "v", arg: 2, required: true, meta: "VALUE", help: "the value"}},
			examples: []string{"mqctl kv set limit 10 --namespace SITE", "mqctl updateKvConfig -n 127.0.0.1:9876 -s SITE -k limit -v 10"}},
		{path: "kv delete", old: "deleteKvConfig", summary: "remove a value of the nameserver key table", args: "KEY", min: 1, max: 1, run: runKVDelete, schema: "mqctl.kv.delete/v1",
			attrs: mutates | planned, exits: exits, view: set("delete kv config from namespace success."), flags: []flagSpec{namespace, key(1)},
			examples: []string{"mqctl kv delete limit --namespace SITE", "mqctl deleteKvConfig -n 127.0.0.1:9876 -s SITE -k limit"}},
	}
}

func (c *call) namespace() (string, error) {
	if err := c.needFlags("namespace"); err != nil {
		return "", err
	}
	if strings.Contains(c.str("namespace"), "/") {
		return "", usage("BAD_NAME", "%q is no namespace", c.str("namespace")).because("a slash is not possible in it")
	}
	return c.str("namespace"), nil
}

func runKVList(ctx context.Context, c *call) (*result, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	all, err := c.client.KVs(ctx, ns)
	if err != nil {
		return nil, err
	}
	r := &result{}
	for _, k := range sortedKeys(all) {
		r.add(&kvItem{ns, k, all[k]})
	}
	return r, nil
}

func runKVGet(ctx context.Context, c *call) (*result, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	v, err := c.client.KV(ctx, ns, c.arg(0))
	if err != nil {
		return nil, err
	}
	return &result{items: []any{&kvItem{ns, c.arg(0), v}}}, nil
}

func runKVSet(ctx context.Context, c *call) (*result, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return c.changeKV(ctx, ns, c.arg(0), ptr(c.arg(1)))
}

func runKVDelete(ctx context.Context, c *call) (*result, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	r, err := c.changeKV(ctx, ns, c.arg(0), nil)
	if err == nil && !c.old && len(r.errors) == 0 && !anyChanged(r.items) {
		return nil, fail(ExitNotFound, "KEY_NOT_FOUND", "there is no %q in namespace %q", c.arg(0), ns).try("mqctl kv list --namespace " + ns)
	}
	return r, err
}

func anyChanged(items []any) bool {
	for _, item := range items {
		if it, ok := item.(*kvSetItem); ok && it.Changed {
			return true
		}
	}
	return false
}

// changeKV writes a value at all nameservers, or deletes it.
func (c *call) changeKV(ctx context.Context, namespace, key string, value *string) (*result, error) {
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	var edits []*edit
	name := kindKV + "/" + namespace + "/" + key
	for _, ns := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (state, error) {
		return c.readThing(ctx, admin.Target{Addr: addr, ID: -1}, name)
	}) {
		if ns.Err != nil {
			r.failed(c.at(ns.Err, ns.Target))
			continue
		}
		edits = append(edits, c.kvEdit(ns.Target, name, ns.Value, value))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// kvEdit is the edit of one value, with its own form of item.
func (c *call) kvEdit(t admin.Target, name string, now state, value *string) *edit {
	_, rest, _ := strings.Cut(name, "/")
	namespace, key, _ := strings.Cut(rest, "/")
	var after state
	if value != nil {
		after = state{valueField: *value}
	}
	plan := planThing(t, name, now, after)
	it := &kvSetItem{Namespace: namespace, Key: key, Value: value, Namesrv: t.Addr, Changed: plan.Changed}
	if text, ok := now[valueField].(string); ok {
		it.Before = &text
	}
	return c.shownAs(plan, it, func() { it.Applied, it.Verified = plan.Applied, plan.Verified })
}

func orderCommands() []*command {
	show := view{item: orderItem{}, name: func(item any) string { return item.(*orderItem).Topic },
		columns: []column{{head: "TOPIC", field: "topic"}, {head: "CONF", field: "conf"}}}
	set := view{item: kvSetItem{}, name: func(item any) string { return item.(*kvSetItem).Key },
		columns: []column{{head: "NAMESERVER", field: "namesrv"}, {head: "TOPIC", field: "key"}, {head: "BEFORE", field: "before"},
			{head: "CONF", field: "value"}, {head: "APPLIED", field: "applied"}, {head: "VERIFIED", field: "verified"}}}
	old := set
	old.old = oldOrder
	exits := []int{ExitNotFound, ExitPartial, ExitChanges}
	return []*command{
		{path: "topic order get", summary: "order list of a topic", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runOrderGet, schema: "mqctl.topic.order.get/v1",
			exits: exits, view: show, examples: []string{"mqctl topic order get orders"}},
		{path: "topic order set", summary: "set the order list of a topic", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runOrderChange, schema: "mqctl.topic.order.set/v1",
			attrs: mutates | planned, exits: exits, view: set, examples: []string{"mqctl topic order set orders --conf 'broker-a:8;broker-b:8'"},
			flags: []flagSpec{{key: "conf", meta: "BROKER:QUEUES;...", help: "write queues of each broker"}}},
		{path: "topic order delete", summary: "remove the order list of a topic", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runOrderChange, schema: "mqctl.topic.order.delete/v1",
			attrs: mutates | planned, exits: exits, view: set, examples: []string{"mqctl topic order delete orders"}},
		{old: "updateOrderConf", twin: "topic order get", summary: "put, get or delete the order list of a topic", run: runOrderOld, schema: "mqctl.topic.order.set/v1",
			attrs: mutates | planned, exits: exits, view: old, examples: []string{"mqctl updateOrderConf -n 127.0.0.1:9876 -t orders -m put -v 'broker-a:8'"},
			flags: []flagSpec{
				{key: "topic", long: "topic", short: "t", required: true, oldOnly: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				{key: "conf", long: "orderConf", short: "v", oldOnly: true, meta: "BROKER:QUEUES;...", help: "write queues of each broker"},
				{key: "method", long: "method", short: "m", required: true, oldOnly: true, kind: kindEnum, enum: []string{"put", "get", "delete"}, meta: "put|get|delete", help: "what to do"},
			}},
	}
}

func runOrderGet(ctx context.Context, c *call) (*result, error) {
	if err := checkTopic(c.arg(0)); err != nil {
		return nil, err
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	v, err := c.client.KV(ctx, admin.OrderConfigNamespace, c.arg(0))
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil, fail(ExitNotFound, "ORDER_NOT_FOUND", "topic %q has no order list", c.arg(0)).try("mqctl topic order set " + c.arg(0) + " --conf broker-a:8")
	}
	if err != nil {
		return nil, err
	}
	return &result{items: []any{&orderItem{c.arg(0), v}}}, nil
}

// checkOrder refuses what is no list of BROKER:QUEUES.
func checkOrder(conf string) error {
	for _, part := range strings.Split(conf, ";") {
		name, text, ok := strings.Cut(part, ":")
		if f := (&flagSpec{kind: kindInt, min: 1, max: maxQueues}); ok && name != "" {
			if _, err := f.check(text, "", ""); err == nil {
				continue
			}
		}
		return usage("BAD_VALUE", "%q is no BROKER:QUEUES", part).try("broker-a:8;broker-b:8")
	}
	return nil
}

func runOrderChange(ctx context.Context, c *call) (*result, error) {
	topic := c.arg(0)
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if c.cmd.path == "topic order delete" {
		return c.changeKV(ctx, admin.OrderConfigNamespace, topic, nil)
	}
	if err := c.needFlags("conf"); err != nil {
		return nil, err
	}
	if err := checkOrder(c.str("conf")); err != nil {
		return nil, err
	}
	return c.changeKV(ctx, admin.OrderConfigNamespace, topic, ptr(c.str("conf")))
}

func runOrderOld(ctx context.Context, c *call) (*result, error) {
	topic := c.str("topic")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	var r *result
	var err error
	switch c.str("method") {
	case "put":
		if err := c.needFlags("conf"); err != nil {
			return nil, err
		}
		if err := checkOrder(c.str("conf")); err != nil {
			return nil, err
		}
		r, err = c.changeKV(ctx, admin.OrderConfigNamespace, topic, ptr(c.str("conf")))
	case "delete":
		r, err = c.changeKV(ctx, admin.OrderConfigNamespace, topic, nil)
	default:
		if _, err := c.admin(); err != nil {
			return nil, err
		}
		v, err := c.client.KV(ctx, admin.OrderConfigNamespace, topic)
		if err != nil {
			return nil, err
		}
		r = &result{change: &change{DryRun: c.dryRun()}, items: []any{&kvSetItem{Namespace: admin.OrderConfigNamespace, Key: topic, Value: &v, Before: &v, Verified: true}}}
	}
	if r != nil {
		r.extra = c.str("method")
	}
	return r, err
}

func oldOrder(p *printer, r *result) {
	if len(r.items) == 0 || len(r.errors) > 0 {
		return
	}
	it := r.items[0].(*kvSetItem)
	conf := ""
	if it.Value != nil {
		conf = *it.Value
	}
	switch r.extra {
	case "get":
		p.printf("get orderConf success. topic=[%s], orderConf=[%s] \n", it.Key, conf)
	case "put":
		p.printf("update orderConf success. topic=[%s], orderConf=[%s]\n", it.Key, conf)
	default:
		p.printf("delete orderConf success. topic=[%s]\n", it.Key)
	}
}
