package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// outsider is a broker that counts no suggestions: RocketMQ's.
type outsider struct {
	target admin.Target
	replica
}

// pullOutside adds what can be known of brokers that keep no counters: their
// configuration (26), the groups' settings (201), where their log ends (28) and the
// groups' backlog (208), for one group also where in the log it stands (321). What
// they suggested, to whom, and the memory that the limit is a part of cannot be known.
func (c *call) pullOutside(ctx context.Context, r *result, others []outsider, all []admin.Target) {
	if len(others) == 0 {
		return
	}
	targets := make([]admin.Target, len(others))
	for i, o := range others {
		targets[i] = o.target
	}
	for i, g := range allGroups(ctx, c, targets) {
		if g.Err != nil {
			r.failed(c.at(g.Err, g.Target))
			continue
		}
		r.done++
		o := &others[i]
		if o.role(o.target.ID) == "SLAVE" && o.config["slaveReadEnable"] != "true" {
			continue // it refuses all pulls
		}
		c.outsideGroups(ctx, r, o, g.Value, all)
	}
	names := ""
	for i := range others {
		if i > 0 {
			names += ", "
		}
		names += others[i].target.String()
	}
	m := warning("NO_PULL_COUNTERS", others[0].target.String(), "suggestions are not counted at %s: pulls, suggested, slowPulls, followed and limitBytes are unknown there", names)
	m.reason("what is shown is worked out from the configuration and the backlog")
	r.warn(m)
}

// outsideGroups asks one broker for the backlog of its groups.
func (c *call) outsideGroups(ctx context.Context, r *result, o *outsider, groups map[string]subgroup.Config, all []admin.Target) {
	want := c.str("group")
	var names []string
	for _, name := range sortedKeys(groups) {
		if want == "" && !systemGroup(name) || name == want {
			names = append(names, name)
		}
	}
	asks := make([]admin.Target, len(names))
	for i := range asks {
		asks[i] = o.target
	}
	for i, res := range admin.Each(ctx, c.client, 0, indexed(asks), func(ctx context.Context, t admin.Target) (*admin.ConsumeStats, error) {
		i, t := atIndex(t, asks)
		return c.client.ConsumeStats(ctx, t.Addr, names[i], c.str("topic"))
	}) {
		var missing *admin.NotFound
		if errors.As(res.Err, &missing) {
			continue
		}
		if res.Err != nil {
			r.failed(c.at(res.Err, o.target))
			return
		}
		for _, topic := range topicsOf(res.Value) {
			r.add(c.outsidePull(ctx, o, groups[names[i]], topic, res.Value, all))
		}
	}
}

// topicsOf are the topics with progress.
func topicsOf(s *admin.ConsumeStats) []string {
	seen := map[string]bool{}
	for q := range s.Queues {
		seen[q.Topic] = true
	}
	return sortedKeys(seen)
}

// outsidePull is one group on one topic, seen from outside.
func (c *call) outsidePull(ctx context.Context, o *outsider, g subgroup.Config, topic string, s *admin.ConsumeStats, all []admin.Target) *pullItem {
	it := &pullItem{
		Group: g.GroupName, Topic: topic, Broker: o.target.Broker, BrokerID: max(0, o.target.ID), Source: "OUTSIDE", target: o.target,
		Suggested: []suggestedIDs{}, Reasons: []reasonCount{},
		Config: pullConfig{BrokerID: g.BrokerID, SlowBrokerID: g.WhichBrokerWhenConsumeSlowly, SlaveReadEnable: runtimeView(o.config).boolean("slaveReadEnable"),
			MemoryRatio: runtimeView(o.config).whole("accessMessageInMemoryMaxRatio")},
	}
	lag, worst, at := int64(0), int64(0), admin.Queue{}
	for q, p := range s.Queues {
		if q.Topic == topic {
			lag += max(0, p.Lag())
			if p.Lag() > worst {
				worst, at = p.Lag(), q
			}
		}
	}
	end := o.runtime.whole("commitLogMaxOffset")
	var phys *int64
	switch {
	case worst == 0:
		it.BehindBytes = ptr(int64(0))
	case (c.str("group") != "" || c.on("explain")) && end != nil:
		if p, ok, err := c.client.EntryAt(ctx, o.target.Addr, topic, at.ID, s.Queues[at].ConsumerOffset); err == nil && ok {
			phys = &p
			it.BehindBytes = ptr(max(0, *end-p))
		}
	}
	it.outsideWhy(lag)
	if c.on("explain") {
		it.explainOutside(end, phys, all)
	}
	return it
}

// outsideWhy says what is certain, and what is not.
func (it *pullItem) outsideWhy(lag int64) {
	switch {
	case it.Config.SlaveReadEnable == nil:
		it.Why = "its configuration does not tell slaveReadEnable"
	case !*it.Config.SlaveReadEnable:
		it.Reason = ptr("SLAVE_READ_DISABLED")
		it.Why = "slaveReadEnable=false: the master is always suggested"
		if lag > 0 {
			it.Why = "behind, but " + it.Why
		}
	case lag == 0:
		it.Reason = ptr("WITHIN_MEMORY")
		it.Why = fmt.Sprintf("caught up, brokerId=%d", it.Config.BrokerID)
	default:
		ratio := "a part"
		if it.Config.MemoryRatio != nil {
			ratio = fmt.Sprintf("%d %%", *it.Config.MemoryRatio)
		}
		it.Why = fmt.Sprintf("%d messages behind; whichBrokerWhenConsumeSlowly=%d applies beyond %s of its memory, which it does not tell", lag, it.Config.SlowBrokerID, ratio)
	}
}

// explainOutside walks through the decision as far as it is known.
func (it *pullItem) explainOutside(end, phys *int64, all []admin.Target) {
	newest := it.step("newest byte", "unknown", "")
	if end != nil {
		newest.Value, newest.as = decimal(*end), asNumber
	}
	last := it.step("next message to consume", "none", "caught up")
	if phys != nil {
		last.Value, last.as, last.Note, last.bytes = decimal(*phys), asNumber, "behind", it.BehindBytes
	} else if it.BehindBytes == nil {
		last.Value, last.Note = "unknown", ""
	}
	limit := it.step("limit", "unknown", "this broker does not tell its memory")
	if it.Config.MemoryRatio != nil {
		limit.Value = fmt.Sprintf("%d %% of memory", *it.Config.MemoryRatio)
	}
	read := it.step("slaveReadEnable", "unknown", "")
	off := it.Config.SlaveReadEnable != nil && !*it.Config.SlaveReadEnable
	if it.Config.SlaveReadEnable != nil {
		read.Value = strconv.FormatBool(*it.Config.SlaveReadEnable)
	}
	if off {
		read.Note, read.Stops = "stops here: master suggested", true
		it.toChange = []string{"mqctl broker config set slaveReadEnable=true --broker " + it.Broker + " --all"}
	}
	it.step("brokerId", decimal(it.Config.BrokerID), "used within the limit")
	it.step("whichBrokerWhenConsumeSlowly", decimal(it.Config.SlowBrokerID), "used beyond the limit")
	for _, id := range []int64{it.Config.BrokerID, it.Config.SlowBrokerID} {
		if id == 0 {
			continue
		}
		s := it.step(fmt.Sprintf("%s/%d", it.Broker, id), "not registered", "clients take the next id, else any broker of the name")
		for _, t := range all {
			if t.Broker == it.Broker && t.ID == id {
				s.Value, s.Note = "registered", "suggested even if it is dead or refuses reads"
			}
		}
		if it.Config.BrokerID == it.Config.SlowBrokerID {
			break
		}
	}
}
