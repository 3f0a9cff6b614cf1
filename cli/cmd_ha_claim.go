package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

const (
	// claimRenew is how often a claim is renewed while the target catches up. The brokers
	// give it up 15 s after the last step.
	claimRenew = 4 * time.Second
	// justNow is how long after a change of roles the same command is taken for the same
	// wish, and not for the wish to change the roles back.
	justNow = 30 * time.Second
)

// claim keeps other changes of roles away while this one is made.
type claim struct {
	change string // empty: nothing is claimed yet
	at     []string
	asked  time.Time
}

// justPromoted says whether st became the master a moment ago.
func justPromoted(st *body.RoleStatus) bool {
	return st != nil && st.Role != slaveRole && st.ChangedMillis > 0 && st.ChangedMillis < justNow.Milliseconds()
}

// already says that the target is the master, and since when.
func (s *switching) already() *result {
	_, done := s.item("promote", s.target)
	s.alreadyDone(done)
	return s.r
}

func (s *switching) alreadyDone(done func(state, detail string, args ...any)) {
	since := ""
	if ms := s.target.ChangedMillis; ms > 0 {
		since = ", for " + (time.Duration(ms) * time.Millisecond).String() + " now"
	}
	done(stateSkipped, "%s is the master already (%s, epoch %d%s)", roleTarget(s.target), s.target.Addr, s.target.Epoch, since)
}

// begin claims all brokers of the name that answered, in the order of their addresses, so
// that of two commands one gets none. It says whether that is the end of the command: another
// one was first, or has ended since this one looked.
func (s *switching) begin(ctx context.Context, done func(state, detail string, args ...any)) (stop bool) {
	s.claim.change = rand.Text()
	slices.SortFunc(s.known, func(a, b *body.RoleStatus) int { return strings.Compare(a.Addr, b.Addr) })
	moved := false
	for _, st := range s.known {
		now, err := s.claimOne(ctx, st.Addr)
		if err != nil && st != s.master && st != s.target && !busy(err) {
			continue // it takes no part: all that counts is whether somebody else has it
		}
		if err != nil {
			m := s.claimRefused(err)
			done(stateFailed, "%s", m.Text)
			s.r.failed(m)
			return true
		}
		moved = moved || now.Role != st.Role || now.Epoch != st.Epoch
		*st = *now
	}
	switch {
	case !moved:
		return false
	case s.target.Role != slaveRole:
		s.alreadyDone(done)
	default:
		done(stateFailed, "the roles have just been changed")
		s.r.failed(fail(ExitConditionFalse, "ROLES_CHANGED", "the roles of %s changed while this command began", s.name).
			because("another change of roles came first: %s; nothing was changed by this one", s.rolesNow()).try("mqctl broker list"))
	}
	return true
}

func (s *switching) rolesNow() string {
	var list []string
	for _, st := range s.known {
		list = append(list, roleTarget(st)+" at "+st.Addr+" is "+st.Role)
	}
	return strings.Join(list, ", ")
}

func (s *switching) claimOne(ctx context.Context, addr string) (*body.RoleStatus, error) {
	if s.claim.asked = time.Now(); !slices.Contains(s.claim.at, addr) {
		s.claim.at = append(s.claim.at, addr)
	}
	return s.role(ctx, addr, admin.RoleStep{Step: "begin", Epoch: s.epoch, Target: roleTarget(s.target) + " (" + s.target.Addr + ")", Reason: s.c.str("reason")})
}

// busy says whether a broker let another change in.
func busy(err error) bool {
	var r *admin.Refused
	return errors.As(err, &r) && r.Code == remoting.CodeSystemBusy && !r.Overloaded()
}

// claimRefused says who was first.
func (s *switching) claimRefused(err error) *Message {
	var r *admin.Refused
	if !errors.As(err, &r) || !busy(err) {
		return asMessage(s.c.explain(err))
	}
	m := fail(ExitConditionFalse, "CHANGE_UNDER_WAY", "another change of roles of %s is under way", s.name).because("%s", r.Remark).try("mqctl broker list")
	m.Addr = r.Addr
	return m
}

// renew keeps the claims while the target catches up. What is wrong the next step will say.
func (s *switching) renew(ctx context.Context) {
	if s.claim.change == "" || time.Since(s.claim.asked) < claimRenew {
		return
	}
	for _, addr := range s.claim.at {
		_, _ = s.claimOne(ctx, addr)
	}
}

// release gives the claims up; a broker that does not hear of it does so by itself.
func (s *switching) release() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for _, addr := range s.claim.at {
		_, _ = s.role(ctx, addr, admin.RoleStep{Step: "end", Epoch: s.epoch})
	}
	s.claim.at = nil
}
