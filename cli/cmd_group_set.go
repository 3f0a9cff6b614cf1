package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// runGroupSet is group set, group create and updateSubGroup: read all, plan,
// write, read back.
func runGroupSet(ctx context.Context, c *call) (*result, error) {
	patch, err := groupPatchOf(c)
	if err != nil {
		return nil, err
	}
	targets, notes, err := c.masterTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}, extra: patch, warnings: notes}
	plans, err := patch.plans(ctx, c, r, targets)
	if err != nil {
		return nil, err
	}
	c.groupWarnings(ctx, r, patch, targets, plans)
	if err := c.strictly(r); err != nil {
		return nil, err
	}
	edits := make([]*edit, len(plans))
	for i, it := range plans {
		edits[i] = c.groupEdit(it)
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// strictly makes a missing broker id an error, before anything is written.
func (c *call) strictly(r *result) error {
	if !c.on("strict") {
		return nil
	}
	for _, m := range r.warnings {
		if m.Code == "BROKER_ID_MISSING" {
			bad := usage(m.Code, "%s; nothing was sent", m.Text).because("%s", m.Why)
			for _, t := range m.Try {
				t, _, _ = strings.Cut(t, "   (")
				bad.offer(t)
			}
			return bad
		}
	}
	return nil
}

// plans reads every target and works out the differences. What cannot be read
// is reported and left alone.
func (p *groupPatch) plans(ctx context.Context, c *call, r *result, targets []admin.Target) ([]*groupSetItem, error) {
	var plans []*groupSetItem
	all := c.groupsNow(ctx, targets, p.name)
	var like *subgroup.Config
	for _, now := range all {
		if like == nil && now.Err == nil {
			like = now.Value
		}
	}
	exists := like != nil
	for _, now := range all {
		if now.Err != nil {
			r.failed(c.at(now.Err, now.Target))
			continue
		}
		plans = append(plans, p.plan(now.Target, now.Value, like))
	}
	if len(plans) == 0 {
		return nil, nil
	}
	if p.mustExist && !exists {
		return nil, fail(ExitNotFound, "GROUP_NOT_FOUND", "group %q exists on no broker asked; nothing was changed", p.name)
	}
	if p.createOnly && exists {
		return nil, fail(ExitFailed, "GROUP_EXISTS", "group %q exists already; nothing was changed", p.name).
			try("mqctl group get "+p.name, "mqctl group set "+p.name+" ...")
	}
	if !exists && !p.createOnly && !c.old && len(r.errors) == 0 {
		r.warn(willCreate("group", p.name, c.dryRun()))
	}
	return plans, nil
}

// willCreate says that a name was not there: it may be a typing error.
func willCreate(what, name string, dryRun bool) Message {
	verb := "is created"
	if dryRun {
		verb = "would be created"
	}
	m := warning("CREATED", name, "%s %q existed on no broker asked and %s", what, name, verb)
	m.offer("--must-exist refuses it", "mqctl "+what+" delete "+name)
	return m
}

// slaveView is what decides whether a read-routing setting can take effect at
// one broker.
type slaveView struct {
	slaveRead bool
	known     bool
}

// groupWarnings says where a setting cannot take effect.
func (c *call) groupWarnings(ctx context.Context, r *result, p *groupPatch, targets []admin.Target, plans []*groupSetItem) {
	routing := slices.Contains(p.keys, "brokerId") || slices.Contains(p.keys, "whichBrokerWhenConsumeSlowly")
	if !routing || len(plans) == 0 {
		return
	}
	configs := admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (slaveView, error) {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return slaveView{}, err
		}
		return slaveView{slaveRead: cfg.Values["slaveReadEnable"] == "true", known: true}, nil
	})
	cluster := c.viewSoon(ctx)
	for _, it := range plans {
		for _, cfg := range configs {
			if cfg.Target != it.target || !cfg.Value.known {
				continue
			}
			c.warnSlaveRead(r, it, cfg.Value, p)
		}
		if cluster != nil {
			c.warnIDs(r, it, cluster.Brokers[nameIn(cluster, it.target)], p)
		}
	}
}

// viewSoon is what a nameserver knows, nil when none says it soon: with an
// address for a target nobody needs one, so nobody waits for it.
func (c *call) viewSoon(ctx context.Context) *admin.Cluster {
	if admin.IsAddress(c.str("broker")) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	cluster, err := c.client.Cluster(ctx)
	if err != nil {
		return nil // ids cannot be checked, and nothing is claimed
	}
	return cluster
}

// nameIn is the broker name that a target is registered under.
func nameIn(cluster *admin.Cluster, t admin.Target) string {
	if t.Broker != "" {
		return t.Broker
	}
	if found, err := cluster.Targets(admin.Selector{Broker: t.Addr}); err == nil {
		return found[0].Broker
	}
	return ""
}

func (c *call) warnSlaveRead(r *result, it *groupSetItem, v slaveView, p *groupPatch) {
	if v.slaveRead {
		return
	}
	values := map[string]int64{"brokerId": it.after.BrokerID, "whichBrokerWhenConsumeSlowly": it.after.WhichBrokerWhenConsumeSlowly}
	var idle []string
	for _, k := range routingKeys(p) {
		if values[k] != 0 {
			idle = append(idle, fmt.Sprintf("%s=%d", k, values[k]))
		}
	}
	if len(idle) == 0 {
		return
	}
	m := warning("SLAVE_READ_DISABLED", it.target.String(), "%s: slaveReadEnable=false, so %s cannot take effect there", it.target, strings.Join(idle, " and "))
	where := it.target.Broker + " --all" // the slave asks its own setting
	if it.target.Broker == "" {
		where = it.Addr
	}
	m.offer("mqctl broker config set slaveReadEnable=true --broker " + where)
	r.warn(m)
}

func routingKeys(p *groupPatch) []string {
	var out []string
	for _, k := range p.keys {
		if k == "brokerId" || k == "whichBrokerWhenConsumeSlowly" {
			out = append(out, k)
		}
	}
	return out
}

// routingFlag is the flag of a setting that names a broker id.
var routingFlag = map[string]string{"brokerId": "broker-id", "whichBrokerWhenConsumeSlowly": "which-broker-when-consume-slowly"}

// warnIDs says which of the ids asked for is not registered.
func (c *call) warnIDs(r *result, it *groupSetItem, g admin.BrokerGroup, p *groupPatch) {
	if g.Name == "" {
		return
	}
	ids := map[string]int64{"brokerId": it.after.BrokerID, "whichBrokerWhenConsumeSlowly": it.after.WhichBrokerWhenConsumeSlowly}
	for _, key := range routingKeys(p) {
		id := ids[key]
		if _, ok := g.Addrs[id]; ok {
			continue
		}
		var have []string
		for _, known := range g.IDs() {
			role := "slave"
			if known == 0 {
				role = "master"
			}
			have = append(have, fmt.Sprintf("%d %s", known, role))
		}
		m := warning("BROKER_ID_MISSING", it.target.String(), "%s has no broker id %d (registered: %s)", g.Name, id, strings.Join(have, ", "))
		m.reason("%s: clients that are sent there fall back to the master", key)
		if !c.on("strict") && c.flag("strict") != nil {
			m.offer("--strict makes this an error")
		}
		for _, known := range slices.Backward(g.IDs()) {
			m.Try = append([]string{c.hint(routingFlag[key]) + " " + strconv.FormatInt(known, 10)}, m.Try...)
			break
		}
		r.warn(m)
	}
}

// printGroupSet is the form for people.
func printGroupSet(p *printer, r *result) {
	patch, _ := r.extra.(*groupPatch)
	if patch == nil || len(r.items) == 0 {
		return
	}
	verb := "patch of " + count(len(patch.keys), "setting")
	if patch.replace {
		verb = "replacement"
	}
	if allNew(r.items) {
		verb = "new"
	}
	p.printf("group %s   %s on %s\n\n", p.style.cyan(patch.name), verb, count(len(r.items), "broker"))
	var rows [][]string
	unchanged := 0
	for _, item := range r.items {
		it := item.(*groupSetItem)
		rows = append(rows, p.groupRows(it, patch)...)
		unchanged = len(fieldsOf(it.After)) - 1 - len(it.Changes)
	}
	if p.format != "wide" && unchanged > 0 {
		rows = append(rows, []string{"", count(unchanged, "other setting"), "unchanged", "", "--output wide shows them"})
	}
	p.write(grid([]string{"BROKER", "SETTING", "BEFORE", "AFTER", ""}, rows, nil, p.style.bold))
	p.printf("\n%s\n", groupOutcome(p, r))
}

// allNew reports whether the thing existed at none of the brokers.
func allNew(items []any) bool {
	for _, item := range items {
		if created, _ := lookup(item, "created").(bool); !created {
			return false
		}
	}
	return true
}

// groupRows are the lines of one broker: changed settings, and those that were
// given but are the same already.
func (p *printer) groupRows(it *groupSetItem, patch *groupPatch) [][]string {
	var rows [][]string
	name := it.Broker
	for i, f := range fieldsOf(it.After) {
		changed := slices.ContainsFunc(it.Changes, func(c settingChange) bool { return c.Key == f.name })
		given := slices.Contains(patch.keys, f.name)
		if f.name == "groupName" || !changed && !given && p.format != "wide" {
			continue
		}
		before, note := "-", ""
		if it.Before != nil {
			before = valueText(fieldsOf(*it.Before)[i].value)
		}
		after := valueText(f.value)
		switch {
		case it.Created:
			note = "new"
		case !changed:
			note = "same"
		default:
			after = p.style.green(p.style.arrow() + " " + after)
		}
		rows = append(rows, []string{name, f.name, before, after, note})
		name = ""
	}
	if len(rows) == 0 {
		rows = append(rows, []string{name, "-", "-", "-", "same"})
	}
	return rows
}

// groupOutcome is the sentence under the table.
func groupOutcome(p *printer, r *result) string {
	applied, verified, same := 0, 0, 0
	for _, item := range r.items {
		it := item.(*groupSetItem)
		switch {
		case it.Applied && it.Verified:
			applied, verified = applied+1, verified+1
		case it.Applied:
			applied++
		case !it.Changed:
			same++
		}
	}
	if r.change.DryRun {
		return "dry run: nothing was written"
	}
	text := fmt.Sprintf("applied to %d of %d brokers", applied, len(r.items)+len(r.errors))
	if applied == 0 && len(r.errors) == 0 {
		text = "nothing to change"
	} else if verified > 0 {
		text += fmt.Sprintf(", read back in %d ms", time.Since(p.now).Milliseconds())
	}
	if same > 0 && applied > 0 {
		text += fmt.Sprintf(", %d had the values already", same)
	}
	return text
}

// oldGroupSet is mqadmin's layout of updateSubGroup.
func oldGroupSet(p *printer, r *result) {
	var last *groupSetItem
	for _, item := range r.items {
		it := item.(*groupSetItem)
		if r.change.DryRun || it.Changed && !it.Applied {
			continue
		}
		p.printf("create subscription group to %s success.\n", it.Addr)
		last = it
	}
	if last != nil {
		p.printf("%s\n", javaGroup(last.After))
	}
}

// javaGroup is the debug form of SubscriptionGroupConfig that mqadmin prints.
func javaGroup(g groupConfig) string {
	set := "null"
	if len(g.SubscriptionDataSet) > 0 {
		set = valueText(g.SubscriptionDataSet)
	}
	attrs := make([]string, 0, len(g.Attributes))
	for k, v := range g.Attributes {
		attrs = append(attrs, k+"="+v)
	}
	slices.Sort(attrs)
	return fmt.Sprintf("SubscriptionGroupConfig{groupName=%s, consumeEnable=%t, consumeFromMinEnable=%t, consumeBroadcastEnable=%t, "+
		"consumeMessageOrderly=%t, retryQueueNums=%d, retryMaxTimes=%d, groupRetryPolicy=%s, brokerId=%d, "+
		"whichBrokerWhenConsumeSlowly=%d, notifyConsumerIdsChangedEnable=%t, groupSysFlag=%d, consumeTimeoutMinute=%d, "+
		"subscriptionDataSet=%s, attributes={%s}}",
		g.GroupName, g.ConsumeEnable, g.ConsumeFromMinEnable, g.ConsumeBroadcastEnable, g.ConsumeMessageOrderly,
		g.RetryQueueNums, g.RetryMaxTimes, javaPolicy(g.GroupRetryPolicy), g.BrokerID, g.WhichBrokerWhenConsumeSlowly,
		g.NotifyConsumerIDsChangedEnable, g.GroupSysFlag, g.ConsumeTimeoutMinute, set, strings.Join(attrs, ", "))
}

func javaPolicy(p retryPolicy) string {
	exponential, customized := "null", "null"
	if e := p.ExponentialRetryPolicy; e != nil {
		exponential = fmt.Sprintf("ExponentialRetryPolicy{initial=%d, max=%d, multiplier=%d}", e.Initial, e.Max, e.Multiplier)
	}
	if cu := p.CustomizedRetryPolicy; cu != nil {
		next := make([]string, len(cu.Next))
		for i, n := range cu.Next {
			next[i] = strconv.FormatInt(n, 10)
		}
		customized = fmt.Sprintf("CustomizedRetryPolicy{next=[%s]}", strings.Join(next, ", "))
	}
	return fmt.Sprintf("GroupRetryPolicy{type=%s, exponentialRetryPolicy=%s, customizedRetryPolicy=%s}", p.Type, exponential, customized)
}

// count is "1 broker", "2 brokers".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return humanize.Comma(int64(n)) + " " + what + "s"
}
