package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"mqctl/cli/admin"
)

// drainAnswer bounds one answer of a broker of this machine.
const drainAnswer = 5 * time.Second

// drainBefore stops the writes of a local broker and waits until its slaves have
// everything, before it is stopped. A slave needs nothing of the kind.
func (c *call) drainBefore(ctx context.Context, r *result, l localBroker) error {
	if l.Addr == "" {
		return fail(ExitFailed, "NO_ADDRESS", "where pid %d answers is not known, so its writes cannot be stopped", l.Pid).
			because("it was not started by this user, or by an older mqctl; it still runs").try("mqctl broker drain NAME --wait=1m", "without --drain")
	}
	c.client = admin.New(admin.Options{Nameservers: append(slices.Clone(l.Namesrv), l.Addr), Timeout: drainAnswer})
	t, err := c.client.Identify(ctx, l.Addr)
	if err != nil {
		return c.explain(err)
	}
	if t.ID > 0 {
		return nil
	}
	drained := &result{change: &change{}}
	if _, err := c.drainPermission(ctx, drained, t, true); err != nil {
		return c.at(err, t)
	}
	end := time.Now().Add(c.duration("grace"))
	if err := c.awaitQuiet(ctx, drained, []admin.Target{t}, time.Until(end)); err != nil {
		return err
	}
	if err := c.slavesHaveAll(ctx, t, end); err != nil {
		return err
	}
	m := warning("DRAINED", t.String(), "%s comes back drained", t)
	m.offer("mqctl broker undrain " + nameOf(t))
	r.warn(m)
	return nil
}

// slavesHaveAll waits until every connected slave of a master has all of its log.
func (c *call) slavesHaveAll(ctx context.Context, t admin.Target, end time.Time) error {
	var widest int64
	ok, err := until(ctx, time.Until(end), func(ctx context.Context) (bool, error) {
		s, err := c.client.HAStatus(ctx, t.Addr)
		if err != nil {
			return false, err
		}
		widest = 0
		for _, p := range s.Peers {
			widest = max(widest, p.Diff)
		}
		return widest == 0, nil
	})
	if ok || err != nil {
		return c.explain(err)
	}
	return fail(ExitTimeout, "GAP_NOT_CLOSED", "a slave of %s is still %s bytes behind after %s; it still runs, drained", t, strconv.FormatInt(widest, 10), c.duration("grace")).
		try("--grace 5m", "mqctl broker undrain "+nameOf(t))
}
