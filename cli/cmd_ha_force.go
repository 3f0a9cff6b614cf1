package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// forced promotes the target although its master is dead.
func (s *switching) forced(ctx context.Context, maxLoss int64) (*result, error) {
	t := s.target
	_, done := s.item("check", t)
	if s.master != nil {
		done(stateFailed, "%s answers as %s", s.master.Addr, s.master.Role)
		m := fail(ExitFailed, "MASTER_ALIVE", "the master of %s is alive: %s answers as %s", s.name, s.master.Addr, s.master.Role).
			because("two masters of one name split the queues; nothing was changed").try("mqctl ha promote "+s.c.arg(0)+" --id "+s.c.str("id")+" --planned", "stop it first")
		s.r.failed(m)
		return s.r, nil
	}
	loss, text := possibleLoss(t, time.Now())
	done(stateDone, "the master does not answer; new epoch %d", s.epoch)
	_, lost := s.item("loss", t)
	lost(stateDone, "%s", text)
	if maxLoss >= 0 && (loss < 0 || loss > maxLoss) {
		code, more := "MAX_LOSS", "a larger --max-loss"
		if loss < 0 {
			code, more = "LOSS_UNKNOWN", "without --max-loss it asks"
		}
		s.r.failed(fail(ExitConditionFalse, code, "%s: %s; --max-loss allows %s", roleTarget(t), text, humanize.IBytes(uint64(maxLoss))).
			because("nothing was changed").try("bring the master back", more))
		return s.r, nil
	}
	if better := s.longer(); better != nil {
		s.r.warn(warning("LONGER_LOG", s.name, "%s has %s more of the log than %s: promoting it would lose less", roleTarget(better), humanize.IBytes(uint64(better.Max-t.Max)), roleTarget(t)))
	}
	role := s.newRole(s.heldRole(ctx, t))
	if s.c.dryRun() {
		_, done := s.item("promote", t)
		done(stateSkipped, "dry run: would be %s", role)
		return s.r, nil
	}
	if maxLoss >= 0 {
		// The limit is the answer to the question.
	} else if err := s.c.confirm("promoting "+roleTarget(t)+" without its master", text+"; it becomes "+role); err != nil {
		return nil, err
	}
	_, done = s.item("promote", t)
	ctx, stop := steady(ctx)
	defer stop()
	if stop := s.begin(ctx, done); stop {
		return s.r, nil
	}
	st, err := s.role(ctx, t.Addr, admin.RoleStep{Step: "promote", Epoch: s.epoch, Force: true, Role: role, Reason: s.c.str("reason")})
	if err != nil {
		done(stateFailed, "%v", err)
		s.r.failed(asMessage(s.c.explain(err)))
		return s.r, nil
	}
	s.target = st
	s.r.change.Applied = true
	done(stateDone, "%s of epoch %d%s; the log ends at %d", st.Role, st.Epoch, s.writable(ctx, st), st.Max)
	_, done = s.item("progress", st)
	done(stateDone, "%s", clampText(st))
	s.routes(ctx, st.Addr, "")
	return s.r, nil
}

// heldRole is the role of a dead master, so that what was promised to senders goes on.
// Where the slave never heard it, its own inSyncReplicas says what the pair was meant to be.
func (s *switching) heldRole(ctx context.Context, t *body.RoleStatus) string {
	if t.MasterRole != "" || s.c.str("role") != "" {
		return cmp.Or(t.MasterRole, asyncMaster)
	}
	role, why := asyncMaster, "is not set above 1"
	cfg, err := s.a.BrokerConfig(ctx, t.Addr)
	switch {
	case err != nil:
		why = "could not be asked for: " + err.Error()
	case orZero(runtimeView(cfg.Values).whole("inSyncReplicas")) > 1:
		role, why = syncMaster, "is "+cfg.Values["inSyncReplicas"]
	}
	m := warning("MASTER_ROLE_UNKNOWN", roleTarget(t), "%s never heard whether its master waited for slaves; it becomes %s, since its own inSyncReplicas %s", roleTarget(t), role, why)
	m.offer("--role sync-master", "--role master")
	s.r.warn(m)
	return role
}

// longer is a living slave with more of the log than the target.
func (s *switching) longer() *body.RoleStatus {
	var best *body.RoleStatus
	for _, st := range s.known {
		if st.Max > s.target.Max && (best == nil || st.Max > best.Max) {
			best = st
		}
	}
	return best
}

// freshEnd is how long before the end of the connection the end of the master's log may
// have been heard, to be compared with --max-loss: two heartbeats.
const freshEnd = 10 * time.Second

// possibleLoss says what the target lacks of the dead master's log; -1 if it never
// heard of the master's end, or only before it was away itself, or too long before the
// connection ended: what a silent master took is not known.
func possibleLoss(t *body.RoleStatus, now time.Time) (int64, string) {
	if t.MasterEndAt == 0 {
		return -1, "it is not known how far the master's log went: any number of messages may be lost"
	}
	loss := max(0, t.MasterEnd-t.Max)
	age := now.Sub(time.UnixMilli(t.MasterEndAt)).Round(time.Second)
	if t.MasterEndOld {
		return -1, fmt.Sprintf("at least %s of the master's log may be lost (it ended at %d %s ago, this one ends at %d); "+
			"this broker was away since, so what the master took after that is not known", humanize.IBytes(uint64(loss)), t.MasterEnd, max(age, 0), t.Max)
	}
	if lag := time.Duration(t.MasterEndLag) * time.Millisecond; lag > freshEnd {
		return -1, fmt.Sprintf("at least %s of the master's log may be lost (it ended at %d %s ago, this one ends at %d); "+
			"for %s after that nothing was heard while the connection stood, so what the master took then is not known", humanize.IBytes(uint64(loss)), t.MasterEnd, max(age, 0), t.Max, lag.Round(time.Second))
	}
	return loss, fmt.Sprintf("at least %s of the master's log may be lost (it ended at %d %s ago, this one ends at %d); what it took after that is not known",
		humanize.IBytes(uint64(loss)), t.MasterEnd, max(age, 0), t.Max)
}
