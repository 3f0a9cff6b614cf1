package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/store"
	"mqctl/subgroup"
)

// How a broker changes its part in replication:
//
//	           fence(e)                    demote(e)
//	 MASTER ------------> FENCED MASTER ------------> SLAVE
//	   ^  \                  |    |                   |   ^
//	   |   \  demote(e)      |    | 30 s or           |   |
//	   |    \ forced, or     |    | unfence(e)        |   | a newer master is seen
//	   |     \ newer master  |    v                   |   |
//	   |      ---------------+--MASTER                |   |
//	   +----------------------------------------------+   |
//	                       promote(e)                     |
//
// e is the epoch of the change: higher than every epoch before, the same at all
// brokers that take part, and the stateVersion under which the new master
// registers. Each step is idempotent for its epoch, a step of an older epoch is
// refused. The role is durable (role.json) before it acts, so a broker that dies
// within a step comes back with the role before it or after it, and two brokers
// that both believe to be master are told apart by their epochs for ever.
//
// A fence fails safe: it lifts itself when neither demote nor unfence follows. A
// demotion that no promotion follows is finished by the demoted broker (role_finish.go).

// fenceLimit is how long a fence stands by itself.
const fenceLimit = 30 * time.Second

// shownClamps is how many lowered consume positions a report names.
const shownClamps = 50

// roleStep is one request for a step.
type roleStep struct {
	Step   string
	Epoch  int64
	Force  bool
	Reason string
	Peer   string // who asks, for the log
	Change string // of the leader; every step of one change has the same. Empty: one that claims nothing
	Target string // begin: who is to be the master

	Role   Role   // promote: which master to be
	End    int64  // promote without Force: where the log must end
	ID     int64  // demote: the new id
	Master string // demote: remoting address of the new master
	HA     string // and its replication address
}

// following is a slave's knowledge of its master.
type following struct {
	Connected  bool
	Refused    bool // nobody listens at the master's address
	End        int64
	EndAt      time.Time     // zero: never heard
	EndLag     time.Duration // how much longer the master may have been there: until the connection ended, or now
	Role       string        // of the master when it was last heard; empty: never
	EndOld     bool          // heard before this broker started
	State, Why string
	Aside      string
}

// rolesOptions are the parts of a broker that a change of roles touches.
type rolesOptions struct {
	Name         string
	ConfiguredID int64
	Former       int64 // of the role.json it was started with
	Rejoin       bool
	Addr, HAAddr func() string
	Stand        *standingRef
	// Become makes a standing act. When it returns nothing is appended any more
	// that the standing forbids, and what was accepted before is in the log.
	Become    func(ctx context.Context, next standing) error
	Save      func(h *heldRole) error
	Enabled   func() bool // roleSwitchEnable
	Following func() (following, bool)
	Positions func() store.Positions
	Clamp     func() []subgroup.ProgressRecord
	// Exchange makes tables and progress of a slave equal to its master's.
	Exchange func(ctx context.Context) error
	// Hold makes sends wait while the broker is fenced, Release lets them go on
	// here; Follow sends those that wait, and stale clients' requests, to the new master.
	Hold, Release func()
	Follow        func(master string)
	// Ask asks another broker for its role.
	Ask func(ctx context.Context, addr string) (*body.RoleStatus, error)
	// Promote asks another broker to take the step that is owed to it.
	Promote func(ctx context.Context, o *owedPromotion) error
	// Related says whether the broker at addr is known as a replica of this one's log.
	Related func(addr string) bool
	// Took remembers on disk that this broker took the place of the master at addr, which
	// has the id now that this one had.
	Took func(id int64, addr string)
	// Members are the registered brokers of this name by id.
	Members func(ctx context.Context) map[int64]string
	Now     func() time.Time
	Log     *slog.Logger
}

// roles takes the steps of a change of roles, one at a time.
type roles struct {
	o rolesOptions

	// turn is held while a step is taken; it has room for one.
	turn chan struct{}

	mu         sync.Mutex // guards what follows; held for assignments only
	claim      roleClaim
	changedAt  time.Time // when the role became what it is; zero: before this run
	changedBy  string    // the change that did it
	fenceEpoch int64
	fenceBy    string // the change
	fenceUntil time.Time
	former     int64
	rejoin     bool           // see heldRole
	owed       *owedPromotion // nil: none
	clamped    []subgroup.ProgressRecord
}

func newRoles(o rolesOptions) *roles {
	return &roles{o: o, turn: make(chan struct{}, 1), former: o.Former, rejoin: o.Rejoin}
}

// refusal is why a step is not taken: an error of the request's answer.
func refusal(code int, format string, args ...any) error {
	return &remoting.Error{Code: code, Remark: fmt.Sprintf(format, args...)}
}

// mostEpochJump bounds how far a step may raise the epoch: a broker misses the
// changes of its absence, which are few. Without it one wrong number would use up
// the epochs, and no change of roles would be newer ever again.
const mostEpochJump = 1 << 20

// take does one step and describes the broker after it. Its errors are *remoting.Error.
func (r *roles) take(ctx context.Context, s roleStep) (*body.RoleStatus, error) {
	if s.Step == "status" {
		return r.status(), nil
	}
	if claims := s.Step == "begin" || s.Step == "end"; !claims && !r.o.Enabled() {
		return nil, refusal(remoting.CodeNoPermission, "%s/%d does not change its role: roleSwitchEnable is false", r.o.Name, r.o.Stand.Load().ID)
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, refusal(remoting.CodeSystemBusy, "another change of roles is under way")
	}
	defer func() { <-r.turn }()
	if st := r.o.Stand.Load(); s.Epoch-st.Epoch > mostEpochJump {
		return nil, refusal(remoting.CodeInvalidParameter, "epoch %d cannot follow the epoch %d of %s/%d: epochs rise by one with each change of roles", s.Epoch, st.Epoch, r.o.Name, st.ID)
	}
	if err := r.lead(s); err != nil {
		return nil, err
	}
	var err error
	switch s.Step {
	case "begin":
	case "end":
		r.unclaim()
	case "fence":
		err = r.fence(ctx, s)
	case "unfence":
		err = r.unfence(ctx, s)
	case "demote":
		err = r.demote(ctx, s)
	case "exchange":
		err = r.exchange(ctx)
	case "promote":
		err = r.promote(ctx, s)
	default:
		err = refusal(remoting.CodeInvalidParameter, "there is no step %.40q: begin, fence, unfence, exchange, demote, promote, end and status are", s.Step)
	}
	if err != nil {
		return nil, err
	}
	return r.status(), nil
}

// exchange lets a slave take over the tables of its fenced master.
func (r *roles) exchange(ctx context.Context) error {
	st := r.o.Stand.Load()
	if !st.isSlave() {
		return refusal(remoting.CodeInvalidParameter, "%s/%d is the master: its slaves take over its tables", r.o.Name, st.ID)
	}
	if err := r.o.Exchange(ctx); err != nil {
		return refusal(remoting.CodeSystemError, "%s/%d could not take over the tables of its master: %v", r.o.Name, st.ID, err)
	}
	return nil
}

// stale refuses an epoch that is not newer than the broker's own.
func (r *roles) stale(st *standing, s roleStep) error {
	return refusal(remoting.CodeInvalidParameter, "%s of epoch %d is too old: %s/%d is %s since epoch %d", s.Step, s.Epoch, r.o.Name, st.ID, st.Role, st.Epoch)
}

// fence stops sends for a moment: they wait for the new master.
func (r *roles) fence(ctx context.Context, s roleStep) error {
	st := r.o.Stand.Load()
	fencedBy, same := r.fenced(s)
	switch {
	case st.isSlave():
		return refusal(remoting.CodeInvalidParameter, "%s/%d is a slave%s (epoch %d): there are no sends to stop", r.o.Name, st.ID, r.lately(), st.Epoch)
	case s.Epoch <= st.Epoch:
		return r.stale(st, s)
	case st.Fenced && same:
		return nil
	case st.Fenced:
		return refusal(remoting.CodeSystemBusy, "%s/%d is fenced by another change of roles (epoch %d); that fence lifts itself after %s", r.o.Name, st.ID, fencedBy, fenceLimit)
	}
	r.o.Hold()
	next := *st
	next.Fenced = true
	if err := r.o.Become(ctx, next); err != nil {
		r.o.Release()
		return refusal(remoting.CodeSystemError, "the sends could not be stopped: %v", err)
	}
	r.mu.Lock()
	r.fenceEpoch, r.fenceBy, r.fenceUntil = s.Epoch, s.Change, r.o.Now().Add(fenceLimit)
	r.claim.until = later(r.claim.until, r.fenceUntil)
	r.mu.Unlock()
	r.o.Log.Info("fenced: sends wait for a change of roles", "epoch", s.Epoch, "reason", s.Reason, "peer", s.Peer)
	return nil
}

// fenced is the epoch of the present fence, 0 if there is none, and whether the change
// of s has set it.
func (r *roles) fenced(s roleStep) (epoch int64, same bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fenceEpoch, r.fenceEpoch == s.Epoch && r.fenceBy == s.Change
}

// unfence lets sends go on here.
func (r *roles) unfence(ctx context.Context, s roleStep) error {
	st := r.o.Stand.Load()
	if !st.Fenced {
		return nil // lifted before, or it never stood
	}
	if by, same := r.fenced(s); !same {
		return refusal(remoting.CodeInvalidParameter, "%s/%d is fenced by epoch %d, not %d", r.o.Name, st.ID, by, s.Epoch)
	}
	return r.lift(ctx, st, "unfence")
}

func (r *roles) lift(ctx context.Context, st *standing, why string) error {
	next := *st
	next.Fenced = false
	if err := r.o.Become(ctx, next); err != nil {
		return refusal(remoting.CodeSystemError, "the fence could not be lifted: %v", err)
	}
	r.unmark()
	r.o.Release()
	r.o.Log.Info("sends are taken again", "cause", why)
	return nil
}

func (r *roles) unmark() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenceEpoch, r.fenceBy, r.fenceUntil = 0, "", time.Time{}
}

// demote makes this broker a slave.
func (r *roles) demote(ctx context.Context, s roleStep) error {
	st := r.o.Stand.Load()
	by, same := r.fenced(s)
	switch {
	case st.isSlave() && st.Epoch == s.Epoch && r.did(s):
		return nil
	case st.isSlave():
		return refusal(remoting.CodeInvalidParameter, "%s/%d is a slave already%s (epoch %d)", r.o.Name, st.ID, r.lately(), st.Epoch)
	case s.Epoch <= st.Epoch:
		return r.stale(st, s)
	case st.Fenced && !same:
		return refusal(remoting.CodeSystemBusy, "%s/%d is fenced by another change of roles (epoch %d)", r.o.Name, st.ID, by)
	case !st.Fenced && !s.Force:
		return refusal(remoting.CodeInvalidParameter, "%s/%d takes sends: fence it first", r.o.Name, st.ID)
	case s.ID <= 0:
		return refusal(remoting.CodeInvalidParameter, "%d is no id of a slave", s.ID)
	}
	return r.follow(ctx, st, s)
}

// follow makes the broker a slave of s.Master.
func (r *roles) follow(ctx context.Context, st *standing, s roleStep) error {
	r.o.Hold() // a forced demotion comes without a fence
	next := standing{Role: Slave, ID: s.ID, Epoch: s.Epoch, Master: s.Master, HA: s.HA, Leaving: !s.Force}
	if err := r.change(ctx, st, next, heldRole{Rejoin: s.Force}, s.Change); err != nil {
		if !st.Fenced {
			r.o.Release()
		}
		return err
	}
	r.unmark()
	if s.Force {
		r.owe(nil)
	} else {
		r.owe(&owedPromotion{to: s.Master, epoch: s.Epoch, end: int64(r.o.Positions().Max), role: st.Role, change: s.Change, due: r.o.Now().Add(finishAfter)})
	}
	r.o.Follow(s.Master)
	r.o.Log.Warn("this broker is a slave now", "broker_id", s.ID, "epoch", s.Epoch, "master", s.Master, "reason", s.Reason, "peer", s.Peer)
	return nil
}

// change saves a role and makes it act; if it cannot act the old one is restored.
// held has what the file says besides, by is the change.
func (r *roles) change(ctx context.Context, old *standing, next standing, held heldRole, by string) error {
	held.Role, held.ID, held.Epoch = next.Role.String(), next.ID, next.Epoch
	if err := r.o.Save(&held); err != nil {
		return refusal(remoting.CodeSystemError, "the role was not changed, as it could not be saved: %v", err)
	}
	r.mu.Lock()
	wasRejoin := r.rejoin
	r.rejoin = held.Rejoin // before the first exchange with the new master
	r.mu.Unlock()
	if err := r.o.Become(ctx, next); err != nil {
		r.mu.Lock()
		r.rejoin = wasRejoin
		r.mu.Unlock()
		before := heldRole{Role: old.Role.String(), ID: old.ID, Epoch: old.Epoch, Former: r.formerID()}
		if back := r.o.Save(&before); back != nil {
			r.o.Log.Error("the role could be neither changed nor restored; it is the new one at the next start", "role", next.Role, "err", back)
		}
		return refusal(remoting.CodeSystemError, "the role could not be changed: %v", err)
	}
	r.mu.Lock()
	r.former, r.changedAt, r.changedBy = held.Former, r.o.Now(), by
	r.mu.Unlock()
	return nil
}

// settled says whether the log of a former master was compared with its new
// master's, so that its consume progress speaks of the same messages.
func (r *roles) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.rejoin
}

// settle notes that it was, durably.
func (r *roles) settle() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	st := r.o.Stand.Load()
	if r.settled() || !st.isSlave() {
		return nil
	}
	held := heldRole{Role: st.Role.String(), ID: st.ID, Epoch: st.Epoch, Former: r.formerID()}
	if err := r.o.Save(&held); err != nil {
		return err
	}
	r.mu.Lock()
	r.rejoin = false
	r.mu.Unlock()
	return nil
}

// cut notes consume positions that were lowered, for the report.
func (r *roles) cut(lowered []subgroup.ProgressRecord) {
	r.mu.Lock()
	r.clamped = lowered
	r.mu.Unlock()
}

func (r *roles) formerID() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.former
}

// promote makes this slave the master of its name.
func (r *roles) promote(ctx context.Context, s roleStep) error {
	st := r.o.Stand.Load()
	switch {
	case !st.isSlave() && st.Epoch == s.Epoch && r.did(s):
		return nil
	case !st.isSlave():
		return refusal(remoting.CodeInvalidParameter, "%s/%d is the master already%s (epoch %d)", r.o.Name, st.ID, r.lately(), st.Epoch)
	case s.Epoch <= st.Epoch:
		return r.stale(st, s)
	case s.Role == Slave:
		return refusal(remoting.CodeInvalidParameter, "a promoted broker is ASYNC_MASTER or SYNC_MASTER")
	}
	if err := r.ready(ctx, st, s); err != nil {
		return err
	}
	next := standing{Role: s.Role, Epoch: s.Epoch}
	if err := r.change(ctx, st, next, heldRole{Former: st.ID}, s.Change); err != nil {
		return err
	}
	r.owe(nil)
	if st.Master != "" {
		r.o.Took(st.ID, st.Master)
	}
	var lowered []subgroup.ProgressRecord
	if s.Force {
		lowered = r.o.Clamp()
	}
	r.cut(lowered)
	r.o.Release()
	r.o.Log.Warn("this broker is the master now", "epoch", s.Epoch, "role", s.Role, "forced", s.Force, "reason", s.Reason,
		"peer", s.Peer, "log_end", int64(r.o.Positions().Max), "clamped", len(lowered))
	return nil
}

// ready looks whether a promotion would lose nothing, or is forced and the master is dead.
func (r *roles) ready(ctx context.Context, st *standing, s roleStep) error {
	pos := r.o.Positions()
	if !s.Force {
		if int64(pos.Max) != s.End {
			return refusal(remoting.CodeInvalidParameter, "the log of %s/%d ends at %d, the fenced master's at %d: nothing was changed", r.o.Name, st.ID, int64(pos.Max), s.End)
		}
		return r.noMaster(ctx, st)
	}
	f, _ := r.o.Following()
	if f.Connected {
		return refusal(remoting.CodeInvalidParameter, "the master of %s is alive: its log still comes to %s/%d; promote without force", r.o.Name, r.o.Name, st.ID)
	}
	if st.Master == "" {
		return nil
	}
	other, err := r.o.Ask(ctx, st.Master)
	if err == nil && other.Broker == r.o.Name && other.Role != Slave.String() && other.Epoch >= st.Epoch {
		return refusal(remoting.CodeInvalidParameter, "the master of %s is alive: %s answers as %s; promote without force, or stop it first", r.o.Name, st.Master, other.Role)
	}
	return nil
}

// newer looks whether the broker at addr became master of this name after this one
// did, and follows it then. It reports whether this broker is a slave now.
func (r *roles) newer(ctx context.Context, addr string) bool {
	st := r.o.Stand.Load()
	if st.isSlave() || addr == "" || addr == r.o.Addr() {
		return st.isSlave()
	}
	other, err := r.o.Ask(ctx, addr)
	if err != nil || other.Broker != r.o.Name || other.Role == Slave.String() || other.Epoch <= st.Epoch {
		return false
	}
	if st.Epoch == 0 && !r.o.Related(addr) {
		return false // a stranger of the same name: its log is not this one's
	}
	if !r.o.Enabled() {
		r.o.Log.Error("a newer master of this name is registered, and roleSwitchEnable is false: stop one of them", "peer", addr, "epoch", other.Epoch)
		return false
	}
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if st = r.o.Stand.Load(); st.isSlave() {
		return true
	}
	err = r.follow(ctx, st, roleStep{Step: "demote", Epoch: other.Epoch, Force: true, ID: r.freeID(ctx, other), Master: addr, HA: other.HAAddr,
		Reason: "a newer master of this name is registered", Peer: addr})
	if err != nil {
		r.o.Log.Error("a newer master of this name is registered, but this broker could not become its slave", "peer", addr, "err", err)
		return false
	}
	return true
}

// older tells whether the broker at addr is a master of this name whose place this one
// took: by a change of roles that it did not live to see, as when both were away after
// a forced promotion and it returned first. It becomes a slave when the nameserver tells
// it of this one; what it took meanwhile is set aside and named then.
func (r *roles) older(ctx context.Context, addr string) bool {
	st := r.o.Stand.Load()
	if st.isSlave() || addr == "" || addr == r.o.Addr() {
		return false
	}
	other, err := r.o.Ask(ctx, addr)
	if err != nil || other.Broker != r.o.Name || other.Role == Slave.String() || other.Epoch >= st.Epoch {
		return false
	}
	if other.Epoch == 0 && !r.o.Related(addr) {
		return false // a stranger of the same name would not follow
	}
	r.o.Log.Warn("a former master of this name serves in this one's place; it becomes a slave of this one", "peer", addr, "epoch", st.Epoch, "its epoch", other.Epoch)
	return true
}

// freeID chooses the id of a master that comes back as a slave: the one that the
// new master left, or the lowest that nobody has.
func (r *roles) freeID(ctx context.Context, master *body.RoleStatus) int64 {
	members := r.o.Members(ctx)
	free := func(id int64) bool { return members[id] == "" || members[id] == r.o.Addr() }
	if master.Former > 0 && free(master.Former) {
		return master.Former
	}
	for id := int64(1); ; id++ {
		if free(id) {
			return id
		}
	}
}

// expire lifts a fence that nothing followed.
func (r *roles) expire(ctx context.Context) {
	r.mu.Lock()
	due := r.fenceEpoch != 0 && !r.o.Now().Before(r.fenceUntil)
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
	st := r.o.Stand.Load()
	if !st.Fenced {
		return
	}
	if err := r.lift(ctx, st, "nothing followed the fence within "+fenceLimit.String()); err != nil {
		r.o.Log.Error("a fence that nothing followed could not be lifted; trying again", "err", err)
	}
}

// status describes the broker now.
func (r *roles) status() *body.RoleStatus {
	st, pos := r.o.Stand.Load(), r.o.Positions()
	r.mu.Lock()
	s := &body.RoleStatus{Broker: r.o.Name, BrokerID: st.ID, ConfiguredID: r.o.ConfiguredID, Former: r.former, Role: st.Role.String(), Epoch: st.Epoch,
		Fenced: st.Fenced, FenceEpoch: r.fenceEpoch, Addr: r.o.Addr(), HAAddr: r.o.HAAddr(), Switchable: r.o.Enabled(),
		Min: int64(pos.Min), Max: int64(pos.Max), Dispatched: int64(pos.Dispatched), ClampedTotal: len(r.clamped)}
	if st.Fenced {
		s.FenceLeft = max(0, r.fenceUntil.Sub(r.o.Now()).Milliseconds())
	}
	r.describeChange(s)
	for i := range r.clamped[:min(len(r.clamped), shownClamps)] {
		c := &r.clamped[i]
		s.Clamped = append(s.Clamped, body.ClampedProgress{Group: c.Group, Topic: c.Topic, Queue: c.Queue, To: c.Offset})
	}
	r.mu.Unlock()
	if f, ok := r.o.Following(); ok {
		s.MasterRole = f.Role
		s.Connected, s.MasterEnd, s.State, s.Why, s.Aside = f.Connected, f.End, f.State, f.Why, f.Aside
		if !f.EndAt.IsZero() {
			s.MasterEndAt, s.MasterEndOld, s.MasterEndLag = f.EndAt.UnixMilli(), f.EndOld, f.EndLag.Milliseconds()
		}
	}
	s.MasterAddr, s.MasterAlive = st.Master, st.MasterAlive
	return s
}
