package broker

import (
	"context"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// A planned change of roles is led from outside. If its leader dies between demote
// and promote nobody is the master. Then the demoted broker takes the last step in its
// place, with the same epoch and the same end of the log: so it does not matter
// which of the two comes first, or that both come.

const (
	// finishAfter is how long the leader has. It is longer than the leader may take to
	// hear that its step failed and to undo the change.
	finishAfter = 12 * time.Second
	finishEvery = 5 * time.Second
)

// owedPromotion is the step that has to follow a planned demotion.
type owedPromotion struct {
	to    string // address of the new master
	epoch int64
	end   int64
	role  Role
	due   time.Time
	// change that was left unfinished: it is finished as the same one.
	change string
}

// owe notes that to is to be promoted; nothing is owed after a forced change.
func (r *roles) owe(o *owedPromotion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owed = o
}

// finish takes the step that is owed once the leader had its time.
func (r *roles) finish(ctx context.Context) {
	r.mu.Lock()
	o := r.owed
	due := o != nil && !r.o.Now().Before(o.due)
	r.mu.Unlock()
	if !due {
		return
	}
	select {
	case r.turn <- struct{}{}:
	default:
		return // a step is under way; the next tick looks again
	}
	defer func() { <-r.turn }()
	if st := r.o.Stand.Load(); !st.isSlave() || st.Epoch != o.epoch {
		r.owe(nil)
		return
	}
	other, err := r.o.Ask(ctx, o.to)
	if err == nil && other.Role == Slave.String() && other.Epoch < o.epoch {
		r.o.Log.Warn("nobody promoted the broker for which this one gave up its place; it is done from here", "peer", o.to, "epoch", o.epoch)
		err = r.o.Promote(ctx, o)
	}
	if err == nil {
		r.owe(nil)
		return
	}
	r.o.Log.Error("this name has no master: promote a broker by hand if this goes on", "peer", o.to, "err", err)
	r.mu.Lock()
	o.due = r.o.Now().Add(finishEvery)
	r.mu.Unlock()
}

// noMaster refuses a planned promotion while the broker that this one follows is the
// master: whoever asks for that did not hear that a step before was taken, and what
// the other has accepted since would be lost.
func (r *roles) noMaster(ctx context.Context, st *standing) error {
	if st.Master == "" {
		return nil
	}
	if other, err := r.o.Ask(ctx, st.Master); err == nil && other.Broker == r.o.Name && other.Role != Slave.String() && other.Epoch >= st.Epoch {
		return refusal(remoting.CodeInvalidParameter, "%s is the master (epoch %d): nothing was changed", st.Master, other.Epoch)
	}
	return nil
}

// promoteOther asks another broker of this name to take the step that is owed to it.
func (b *Broker) promoteOther(ctx context.Context, o *owedPromotion) error {
	one, cancel := context.WithTimeout(ctx, stepTurn)
	defer cancel()
	ext := remoting.Map{"step": "promote", "epoch": strconv.FormatInt(o.epoch, 10), "force": "false", "role": o.role.String(),
		"end": strconv.FormatInt(o.end, 10), "reason": "its change of roles was left unfinished", "change": o.change}
	if len(b.roleKey) > 0 {
		body.SignRole(b.roleKey, o.to, ext, b.opts.Now())
	}
	resp, err := b.ha.net.Call(one, o.to, remoting.ReqMqctlRole, ext, nil)
	if err != nil {
		return err
	}
	return resp.Err()
}
