package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// Values of brokerPermission (PermName): 4 lets clients read, 2 lets them write.
const (
	permRead      = 4
	permReadWrite = 6
)

// drainQuiet is how long nothing may have been written for a broker to count as
// drained.
const drainQuiet = 5 * time.Second

// drainItem is the permission of one broker, or its topics in one nameserver's
// routes. Permissions are bits: 4 read, 2 write.
type drainItem struct {
	Broker       string   `json:"broker"`
	BrokerID     int64    `json:"brokerId" min:"0"`
	Via          string   `json:"via" enum:"PERMISSION|NAMESERVER"`
	Namesrv      *string  `json:"namesrv"` // whose routes; null with permission
	Before       *int64   `json:"before"`
	After        *int64   `json:"after"`
	Topics       *int64   `json:"topics"` // in the nameserver's routes
	PutPerSecond *float64 `json:"putPerSecond"`
	Changed      bool     `json:"changed"`
	Applied      bool     `json:"applied"`
	Verified     bool     `json:"verified"`

	target    admin.Target
	was, want int64
}

func drainView(verb string) view {
	return view{
		item: drainItem{}, name: func(item any) string { return nameID(item.(*drainItem).Broker, item.(*drainItem).BrokerID) },
		old: func(p *printer, r *result) {
			for _, item := range r.items {
				if it := item.(*drainItem); it.Topics != nil {
					p.printf("%s write perm of broker[%s] in name server[%s] OK, %d\n", verb, it.Broker, *it.Namesrv, *it.Topics)
				}
			}
		},
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "NAMESRV", field: "namesrv"},
			{head: "BEFORE", field: "before", as: asPerm}, {head: "AFTER", field: "after", as: asPerm}, {head: "TOPICS", field: "topics", as: asNumber},
			{head: "IN/s", field: "putPerSecond", as: asRate}, {head: "CHANGED", field: "changed"}, {head: "VERIFIED", field: "verified"},
		},
	}
}

func drainCommand() *command {
	return &command{
		path: "broker drain", old: "wipeWritePerm", summary: "stop writes to a broker", args: "BROKER", min: 1, max: 1, argFrom: "broker",
		run: runDrain, schema: "mqctl.broker.drain/v1", attrs: mutates, exits: []int{ExitNotFound, ExitPartial}, view: drainView("wipe"),
		examples: []string{
			"mqctl broker drain broker-a --wait=1m", "mqctl broker drain broker-a --via nameserver", "mqctl wipeWritePerm -n 127.0.0.1:9876 -b broker-a",
		},
		flags: drainFlags(),
	}
}

func undrainCommand() *command {
	return &command{
		path: "broker undrain", old: "addWritePerm", summary: "allow writes to a broker again", args: "BROKER", min: 1, max: 1, argFrom: "broker",
		run: runDrain, schema: "mqctl.broker.drain/v1", attrs: mutates, exits: []int{ExitNotFound, ExitPartial}, view: drainView("add"),
		examples: []string{
			"mqctl broker undrain broker-a", "mqctl broker undrain broker-a --via nameserver", "mqctl addWritePerm -n 127.0.0.1:9876 -b broker-a",
		},
		flags: drainFlags(),
	}
}

func drainFlags() []flagSpec {
	return []flagSpec{
		{key: "broker", long: "brokerName", short: "b", arg: 1, required: true, meta: "NAME", complete: "broker", help: "the broker's name"},
		{key: "via", kind: kindEnum, enum: []string{"permission", "nameserver"}, def: "permission", newOnly: true,
			help: "permission: brokerPermission of the master, which it keeps; nameserver: its topics in the routes, until it registers a change"},
	}
}

func runDrain(ctx context.Context, c *call) (*result, error) {
	stop := c.cmd.path == "broker drain"
	targets, err := c.drainTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	if c.old || c.str("via") == "nameserver" {
		c.drainRoutes(ctx, r, targets[0], stop)
	} else {
		var things []auditThing
		for _, t := range targets {
			it, err := c.drainPermission(ctx, r, t, stop)
			if it != nil && it.Applied {
				things = append(things, auditThing{Target: t.String(), Addr: t.Addr, Key: "config/brokerPermission", Before: rawJSON(fmt.Sprint(it.was)), After: rawJSON(fmt.Sprint(it.want))})
			}
			if err != nil {
				r.failed(c.at(err, t))
				continue
			}
			r.done++
		}
		if r.change.Applied {
			c.note(r, things)
		}
	}
	if c.dryRun() || c.patience() == 0 || len(r.errors) > 0 {
		return r, nil
	}
	if !stop {
		return r, c.awaitWritable(ctx, targets)
	}
	if r.change.Applied {
		return r, c.awaitQuiet(ctx, r, targets, c.patience())
	}
	return r, nil
}

// awaitWritable waits until the routes that producers get name the brokers as
// writable.
func (c *call) awaitWritable(ctx context.Context, targets []admin.Target) error {
	waiting := ""
	ok, err := until(ctx, c.patience(), func(ctx context.Context) (bool, error) {
		for _, t := range targets {
			if waiting = nameOf(t); !c.routeWritable(ctx, waiting) {
				return false, nil
			}
		}
		return true, nil
	})
	if ok || err != nil {
		return c.explain(err)
	}
	return fail(ExitTimeout, "ROUTES_NOT_SEEN", "the nameservers do not show %s as writable after %s", waiting, c.patience()).
		because("the broker takes messages; its routes follow when it registers, within 30 s").try("--wait=1m")
}

// routeWritable looks at topics that a broker makes at its start: the one of its own
// name, the one that new topics are made from, and one for tests. With
// autoCreateTopicEnable=false only the last can be written.
func (c *call) routeWritable(ctx context.Context, broker string) bool {
	for _, topic := range []string{broker, "TBW102", "BenchmarkTest"} {
		route, err := c.client.Route(ctx, topic)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(route.Queues, func(q admin.RouteQueues) bool { return q.Broker == broker && q.Perm&2 != 0 }) {
			return true
		}
	}
	return false
}

// drainTargets is the master that was named. A slave takes no writes.
func (c *call) drainTargets(ctx context.Context) ([]admin.Target, error) {
	targets, err := c.pick(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: c.arg(0), MastersOnly: true})
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	for _, t := range targets {
		if t.ID > 0 {
			return nil, fail(ExitDenied, "NOT_A_MASTER", "%s is a slave: nobody writes to it", t).because("nothing was changed").try("mqctl " + c.cmd.path + " " + t.Broker)
		}
	}
	return targets, nil
}

// drainPermission sets brokerPermission and reads it back.
func (c *call) drainPermission(ctx context.Context, r *result, t admin.Target, stop bool) (*drainItem, error) {
	want := int64(permReadWrite)
	if stop {
		want = permRead
	}
	cfg, err := c.client.BrokerConfig(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	rt, err := c.client.RuntimeInfo(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	it := &drainItem{Broker: nameOf(t), BrokerID: max(0, t.ID), Via: "PERMISSION", Before: runtimeView(cfg.Values).whole("brokerPermission"), After: &want,
		PutPerSecond: runtimeView(rt).rate("putTps"), target: t, was: permReadWrite, want: want}
	if it.Before != nil {
		it.was = *it.Before
	}
	it.Changed = it.Before == nil || *it.Before != want
	r.add(it)
	if c.dryRun() {
		return it, nil
	}
	if !it.Changed {
		it.Verified = true
		return it, nil
	}
	ctx, done := steady(ctx)
	defer done()
	if _, err := c.client.UpdateBrokerConfig(ctx, t.Addr, map[string]string{"brokerPermission": strconv.FormatInt(want, 10)}); err != nil {
		return it, err
	}
	it.Applied, r.change.Applied = true, true
	if cfg, err = c.client.BrokerConfig(ctx, t.Addr); err != nil {
		it.After = nil
		return it, fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", t, err)
	}
	it.After = runtimeView(cfg.Values).whole("brokerPermission")
	if it.Verified = it.After != nil && *it.After == want; !it.Verified {
		return it, fail(ExitFailed, "NOT_VERIFIED", "%s: brokerPermission is %q after the change, %d was wanted", t, cfg.Values["brokerPermission"], want)
	}
	if stop {
		r.warn(drainEffect(t, rt))
	}
	return it, nil
}

// drainEffect says what the broker will do with sends that still come.
func drainEffect(t admin.Target, rt map[string]string) Message {
	m := warning("DRAIN_TAKES_TIME", t.String(), "%s: producers stop when they ask for routes again, within 30 s", t)
	if runtimeView(rt).text("mqctlVersion") != nil {
		m.reason("until then it accepts their messages; afterwards it answers 16 (NO_PERMISSION)")
	} else {
		m.reason("an Apache broker itself goes on accepting messages to topics without an order, whatever its permission says")
	}
	m.offer("--wait=1m", "mqctl broker undrain "+nameOf(t))
	return m
}

// drainRoutes takes the write bit of the broker's topics out of the routes of
// every nameserver (205), or gives it back (327).
func (c *call) drainRoutes(ctx context.Context, r *result, t admin.Target, stop bool) {
	call := c.client.AddWritePermAt
	if stop {
		call = c.client.WipeWritePermAt
	}
	var rate *float64
	if rt, err := c.client.RuntimeInfo(ctx, t.Addr); err == nil {
		rate = runtimeView(rt).rate("putTps")
	}
	ctx, done := steady(ctx)
	defer done()
	for _, res := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (int, error) {
		if c.dryRun() {
			return c.wouldChange(ctx, addr, t.Broker, stop)
		}
		return call(ctx, addr, t.Broker)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		it := &drainItem{Broker: t.Broker, BrokerID: max(0, t.ID), Via: "NAMESERVER", Namesrv: ptr(res.Target.Addr), PutPerSecond: rate, target: t}
		if c.dryRun() {
			it.Changed = res.Value > 0
		} else {
			it.Topics, it.Changed = ptr(int64(res.Value)), res.Value > 0
			it.Applied, it.Verified = it.Changed, true
			r.change.Applied = r.change.Applied || it.Applied
		}
		r.add(it)
		r.done++
	}
	if stop && r.change.Applied && !c.old {
		m := warning("ROUTES_ONLY", t.String(), "only the routes were changed: they come back when %s registers a change of a topic", t)
		m.offer("mqctl broker drain " + t.Broker)
		r.warn(m)
	}
}

// wouldChange reports with 1 whether a nameserver's routes of the topics that a broker
// makes at its start have the write bit that goes, or lack the one that comes.
func (c *call) wouldChange(ctx context.Context, namesrv, broker string, stop bool) (int, error) {
	for _, topic := range []string{broker, "TBW102", "BenchmarkTest"} {
		route, err := c.client.RouteAt(ctx, namesrv, topic)
		if err != nil {
			var missing *admin.NotFound
			if errors.As(err, &missing) {
				continue
			}
			return 0, err
		}
		for _, q := range route.Queues {
			if q.Broker == broker && (q.Perm&2 != 0) == stop {
				return 1, nil
			}
		}
	}
	return 0, nil
}

// awaitQuiet waits until nothing has been written at the targets for a while.
func (c *call) awaitQuiet(ctx context.Context, r *result, targets []admin.Target, patience time.Duration) error {
	last := make([]string, len(targets))
	since := time.Now()
	ok, err := until(ctx, patience, func(ctx context.Context) (bool, error) {
		for i, t := range targets {
			rt, err := c.client.RuntimeInfo(ctx, t.Addr)
			if err != nil {
				return false, err
			}
			if puts := rt["putMessageTimesTotal"]; puts != last[i] || puts == "" {
				last[i], since = puts, time.Now()
			}
			for _, item := range r.items {
				if it := item.(*drainItem); it.target == t {
					it.PutPerSecond = runtimeView(rt).rate("putTps")
				}
			}
		}
		return time.Since(since) >= drainQuiet, nil
	})
	if ok {
		for _, item := range r.items {
			item.(*drainItem).PutPerSecond = ptr(0.0)
		}
		r.warnings = slices.DeleteFunc(r.warnings, func(m Message) bool { return m.Code == "DRAIN_TAKES_TIME" })
		return nil
	}
	if err != nil {
		return c.explain(err)
	}
	var rates []string
	for _, item := range r.items {
		if it := item.(*drainItem); it.PutPerSecond != nil {
			rates = append(rates, fmt.Sprintf("%s %.1f/s", it.target, *it.PutPerSecond))
		}
	}
	return fail(ExitTimeout, "STILL_WRITTEN", "messages still come after %s: %s; writes stay closed", patience.Round(time.Second), strings.Join(rates, ", ")).
		because("%s must pass without a message; the broker's own deliveries count too", drainQuiet).try("--wait=2m", "mqctl broker undrain "+nameOf(targets[0]))
}
