package cli

import (
	"context"
	"errors"
	"slices"
	"sync"

	"mqctl/cli/admin"
)

// masterTargets are the brokers that a change of topics or groups goes to. A
// slave that was named is replaced by its master, which is said: a slave of
// ours refuses such a change, and Apache's takes it and loses it a minute later.
func (c *call) masterTargets(ctx context.Context) (targets []admin.Target, notes []Message, err error) {
	if targets, err = c.targets(ctx, true); err != nil {
		return nil, nil, err
	}
	for i, t := range targets {
		if t.ID == 0 {
			continue
		}
		master, slave, err := c.masterOf(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		if slave == "" {
			continue
		}
		targets[i] = master
		notes = append(notes, warning("SENT_TO_MASTER", slave, "%s is a slave; this goes to its master %s at %s", slave, master, master.Addr))
	}
	return targets, notes, nil
}

// masterOf finds the master of a replica. slave is "" when t is a master
// itself, or when it cannot be told who it is: then t is asked, and answers.
func (c *call) masterOf(ctx context.Context, t admin.Target) (master admin.Target, slave string, err error) {
	if t.ID < 0 {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil || cfg.Values["brokerRole"] != "SLAVE" {
			return t, "", nil
		}
		t.Broker, t.Cluster = cfg.Values["brokerName"], cfg.Values["brokerClusterName"]
	}
	slave = t.String()
	if t.ID < 0 {
		slave = t.Addr
	}
	view, err := c.client.Cluster(ctx)
	if err == nil {
		if g, ok := view.Brokers[t.Broker]; ok && g.Master() != "" && g.Master() != t.Addr {
			return admin.Target{Cluster: g.Cluster, Broker: t.Broker, ID: 0, Addr: g.Master()}, slave, nil
		}
	} else if own, inspectErr := c.client.InspectHA(ctx, t.Addr); inspectErr == nil && own.MasterAddr != "" && own.MasterAddr != t.Addr {
		// No nameserver knows; a slave of ours names its master itself.
		return admin.Target{Cluster: t.Cluster, Broker: t.Broker, ID: 0, Addr: own.MasterAddr}, slave, nil
	}
	m := fail(ExitUnreachable, "NO_MASTER", "%s is a slave and no master of %s is registered; nothing was changed", slave, t.Broker)
	m.Target, m.Addr = slave, t.Addr
	if err != nil {
		m.reason("%v", err)
		return t, "", m.try("-n HOST:9876", "--broker MASTER:PORT")
	}
	return t, "", m.because("a slave copies topics and groups from its master: what is changed at the slave alone is lost")
}

// eachRead asks masters; where one is gone, its slaves in the order of their
// ids, since they have the same data but for what was not copied yet. The
// target of such a result is the slave's, and it is said.
func eachRead[T any](ctx context.Context, c *call, targets []admin.Target,
	f func(ctx context.Context, t admin.Target) (T, error)) []admin.Result[T] {
	out := admin.Each(ctx, c.client, 0, targets, f)
	var view *admin.Cluster
	for i := range out {
		if !gone(out[i].Err) || out[i].Target.ID != 0 || ctx.Err() != nil {
			continue
		}
		if view == nil {
			var err error
			if view, err = c.client.Cluster(ctx); err != nil {
				return out
			}
		}
		g := view.Brokers[out[i].Target.Broker]
		for _, id := range g.IDs() {
			if id == 0 {
				continue
			}
			slave := admin.Target{Cluster: g.Cluster, Broker: g.Name, ID: id, Addr: g.Addrs[id]}
			v, err := f(ctx, slave)
			if err != nil {
				continue
			}
			c.stoodIn(slave, asMessage(c.explain(out[i].Err)).Text)
			out[i] = admin.Result[T]{Target: slave, Value: v}
			break
		}
	}
	return out
}

// standIns are the slaves that answered in the place of their masters.
type standIns struct {
	mu   sync.Mutex
	said []Message
}

// stoodIn notes that a slave is asked in the place of its master.
func (c *call) stoodIn(slave admin.Target, why string) {
	m := warning("SLAVE_ANSWERED", slave.String(), "the master of %s does not answer; the figures come from its slave %s", slave.Broker, slave)
	m.reason("%s; what the slave had not copied yet is missing", why)
	c.slaves.mu.Lock()
	defer c.slaves.mu.Unlock()
	if !slices.ContainsFunc(c.slaves.said, func(have Message) bool { return have.Target == m.Target }) {
		c.slaves.said = append(c.slaves.said, m)
	}
}

// sayStandIns moves what was noted to the result.
func (c *call) sayStandIns(r *result) {
	if r == nil {
		return
	}
	c.slaves.mu.Lock()
	defer c.slaves.mu.Unlock()
	r.warnings = append(r.warnings, c.slaves.said...)
	c.slaves.said = nil
}

// routeMasters are the masters of a route. A nameserver shows a slave in the place of a
// master that is gone, and takes w from the topic there: that is noted, and its own id given.
func (c *call) routeMasters(ctx context.Context, route *admin.Route) []admin.Target {
	targets := route.Targets(true)
	var view *admin.Cluster
	for i, t := range targets {
		if t.Addr == "" || !slices.ContainsFunc(route.Queues, func(q admin.RouteQueues) bool { return q.Broker == t.Broker && q.Perm&2 == 0 }) {
			continue
		}
		if view == nil {
			var err error
			if view, err = c.client.Cluster(ctx); err != nil {
				return targets
			}
		}
		for id, addr := range view.Brokers[t.Broker].Addrs {
			if id > 0 && addr == t.Addr && view.Brokers[t.Broker].Master() == "" {
				targets[i].ID = id
				c.stoodIn(targets[i], "no master of "+t.Broker+" is registered")
			}
		}
	}
	return targets
}

// gone reports whether a broker cannot be reached, which its slave may stand in for.
func gone(err error) bool {
	var unreachable *admin.Unreachable
	var late *admin.Timeout
	return errors.As(err, &unreachable) || errors.As(err, &late) && !late.Deadline
}

// sourceOf says whose figures they are.
func sourceOf(t admin.Target) string {
	if t.ID > 0 {
		return "SLAVE"
	}
	return "MASTER"
}
