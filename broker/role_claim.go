package broker

import (
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// A change of roles has one leader. Before its first step it claims every broker of the
// name that answers (step=begin), in the order of their addresses, so that of two leaders
// one gets none. Who has no claim takes no step at a claimed broker: two that looked at
// the same moment have the same epoch, and without the claim each would take the other's
// steps for its own. A claim ends with the change (step=end), or by itself.

// claimLimit is how long a claim stands after its leader's last step.
const claimLimit = 15 * time.Second

// roleClaim says who leads a change of roles at this broker.
type roleClaim struct {
	change string // the leader's own random text; empty: nobody leads
	target string // who is to be the master, as the leader calls it
	peer   string
	since  time.Time
	until  time.Time
}

// lead refuses a step of a change that another leader's claim keeps away, and renews
// the claim of this one.
func (r *roles) lead(s roleStep) error {
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.claim
	switch {
	case c.change == s.Change:
		c.until = later(c.until, now.Add(claimLimit))
	case c.change != "" && now.Before(c.until):
		return refusal(remoting.CodeSystemBusy, "%s is being promoted: a command from %s began that %s ago; nothing was changed here; if it has died, its claim ends in %s",
			c.target, c.peer, shortly(now.Sub(c.since)), shortly(c.until.Sub(now)))
	case s.Change != "":
		*c = roleClaim{change: s.Change, target: s.Target, peer: s.Peer, since: now, until: now.Add(claimLimit)}
	}
	return nil
}

// unclaim ends the claim of a change; lead has looked whose it is.
func (r *roles) unclaim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claim = roleClaim{}
}

// did says whether this change gave the broker the role that it has.
func (r *roles) did(s roleStep) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changedBy == s.Change
}

// lately says when the broker got its role, if that was in this run.
func (r *roles) lately() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changedAt.IsZero() {
		return ""
	}
	return " for " + shortly(r.o.Now().Sub(r.changedAt))
}

// describeChange adds to a status who leads a change now, and when the last one was; r.mu is held.
func (r *roles) describeChange(s *body.RoleStatus) {
	now := r.o.Now()
	if !r.changedAt.IsZero() {
		s.ChangedMillis = max(1, now.Sub(r.changedAt).Milliseconds())
	}
	if c := &r.claim; c.change != "" && now.Before(c.until) {
		s.Promoting, s.PromotingMillis = c.target, max(1, now.Sub(c.since).Milliseconds())
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// shortly is a duration for a sentence.
func shortly(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
