package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

func waitMoreCommands() []*command {
	return []*command{
		{
			path: "wait lag", summary: "wait until a group has caught up", run: runWaitLag, schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait lag --group order_consumer --max 1000 --for 10m", "mqctl wait lag --group report --topic orders --max 0"},
			flags: []flagSpec{
				{key: "group", meta: "GROUP", complete: "group", help: "the group"},
				{key: "topic", meta: "TOPIC", complete: "topic", help: "in this topic only"},
				{key: "max", kind: kindInt, max: math.MaxInt64, def: "0", meta: "N", help: "messages that it may still be behind"}, forFlag(),
			},
		},
		{
			path: "wait topic", summary: "wait until a topic has a route or is gone", args: "TOPIC", min: 1, max: 1, argFrom: "topic", run: runWaitTopic,
			schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait topic orders --routed", "mqctl wait topic orders --gone --for 1m"},
			flags: []flagSpec{
				{key: "routed", kind: kindBool, help: "every nameserver has a route with a queue to write to"},
				{key: "gone", kind: kindBool, help: "no nameserver has a route"}, forFlag(),
			},
		},
		{
			path: "wait group", summary: "wait until a group has members or none", args: "GROUP", min: 1, max: 1, argFrom: "group", run: runWaitGroup,
			schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait group order_consumer --members 4", "mqctl wait group order_consumer --gone"},
			flags: []flagSpec{
				{key: "members", kind: kindInt, min: 1, max: math.MaxInt32, meta: "N", help: "at least so many clients are online"},
				{key: "gone", kind: kindBool, help: "no client is online"}, forFlag(),
			},
		},
	}
}

func runWaitLag(ctx context.Context, c *call) (*result, error) {
	group := c.str("group")
	if group == "" {
		return nil, usage("FLAG_MISSING", "wait lag needs --group").try("mqctl wait lag --group GROUP --max 0").lacks(c.cmd, c.old, c.flag("group"), c.values)
	}
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	limit := c.whole("max")
	it := &waitItem{Condition: "lag", Target: group, Limit: ptr(strconv.FormatInt(limit, 10))}
	first := true
	return c.await(ctx, it, func(ctx context.Context) (look, error) {
		r := &result{}
		value, text, err := c.groupLag(ctx, r, group, c.str("topic"))
		if err != nil && !first && asMessage(c.explain(err)).ExitCode == ExitNotFound {
			return look{never: "group " + group + " has been deleted"}, nil
		}
		if err != nil {
			return look{}, err
		}
		first = false
		switch {
		case len(r.errors) > 0:
			return look{value: "not known: " + oneLine(r.errors[0].Text)}, nil
		case value == nil:
			return look{value: text}, nil
		}
		return look{reached: *value <= limit, value: strconv.FormatInt(*value, 10)}, nil
	})
}

func runWaitTopic(ctx context.Context, c *call) (*result, error) {
	name := c.arg(0)
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	routed := c.on("routed")
	if routed == c.on("gone") {
		return nil, c.either("mqctl wait topic "+name+" --routed", "routed", "gone")
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	it := &waitItem{Condition: "gone", Target: name}
	if routed {
		it.Condition = "routed"
	}
	return c.await(ctx, it, func(ctx context.Context) (look, error) {
		with, without := 0, 0
		for _, res := range admin.EachNameserver(ctx, c.client, func(ctx context.Context, addr string) (*admin.Route, error) {
			return c.client.RouteAt(ctx, addr, name)
		}) {
			var missing *admin.NotFound
			switch {
			case errors.As(res.Err, &missing):
				without++
			case res.Err != nil:
				return look{}, res.Err
			case takesWrites(res.Value):
				with++
			default:
				if !routed {
					with++ // a route is a route
				}
			}
		}
		all := len(c.client.Nameservers())
		value := fmt.Sprintf("routed at %d of %s", with, count(all, "nameserver"))
		if routed {
			return look{reached: with == all, value: value}, nil
		}
		return look{reached: without == all, value: value}, nil
	})
}

// takesWrites reports whether a route has a queue to write to.
func takesWrites(r *admin.Route) bool {
	for _, q := range r.Queues {
		if q.Perm&2 != 0 && q.WriteQueues > 0 {
			return true
		}
	}
	return false
}

func runWaitGroup(ctx context.Context, c *call) (*result, error) {
	group := c.arg(0)
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	if c.given("members") == c.on("gone") {
		return nil, c.either("mqctl wait group "+group+" --members 1", "members", "gone")
	}
	it := &waitItem{Condition: "gone", Target: group}
	if c.given("members") {
		it.Condition, it.Limit = "members", ptr(c.str("members"))
	}
	return c.await(ctx, it, func(ctx context.Context) (look, error) {
		targets, err := c.targets(ctx, true)
		if err != nil {
			return look{}, err
		}
		r := &result{}
		members, _ := c.membersOf(ctx, r, targets, group)
		if len(r.errors) > 0 && len(members) == 0 {
			return look{}, &r.errors[0]
		}
		value := count(len(members), "member")
		if c.given("members") {
			return look{reached: int64(len(members)) >= c.whole("members"), value: value}, nil
		}
		return look{reached: len(members) == 0 && len(r.errors) == 0, value: value}, nil
	})
}

// rest waits; false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
