package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// roleItem is one step of a change of roles.
type roleItem struct {
	Step   string `json:"step"`
	Target string `json:"target"`
	State  string `json:"state" enum:"DONE|UNDONE|FAILED|SKIPPED"`
	Millis int64  `json:"millis" min:"0"`
	Detail string `json:"detail"`
}

// Times of a planned promotion. Sends wait at a fenced master for 2 s, so a fence
// whose gap does not close soon is lifted and tried again later.
const (
	promoteWait  = time.Minute
	fenceBudget  = 1200 * time.Millisecond
	gapPoll      = 2 * time.Millisecond
	catchUpPoll  = 100 * time.Millisecond
	routesWait   = 10 * time.Second
	nearEnough   = 1 << 20 // bytes: a gap that closes within the fence
	asyncMaster  = "ASYNC_MASTER"
	syncMaster   = "SYNC_MASTER"
	slaveRole    = "SLAVE"
	stateDone    = "DONE"
	stateUndone  = "UNDONE"
	stateFailed  = "FAILED"
	stateSkipped = "SKIPPED"
)

func roleCommands() []*command {
	v := view{
		item: roleItem{}, name: func(item any) string { it := item.(*roleItem); return it.Step + "=" + it.State },
		columns: []column{
			{head: "STEP", field: "step"}, {head: "TARGET", field: "target"}, {head: "STATE", field: "state"},
			{head: "TIME", field: "millis", as: asMillis}, {head: "DETAIL", field: "detail"},
		},
	}
	reason := flagSpec{key: "reason", meta: "TEXT", help: "for the brokers' logs"}
	key := flagSpec{key: "key-file", meta: "FILE", complete: "file", help: "haAuthKeyFile of the brokers, needed for those of other machines"}
	return []*command{
		{
			path: "ha promote", summary: "make a slave the master", args: "BROKER|HOST:PORT", min: 1, max: 1, argFrom: "broker",
			run: runPromote, schema: "mqctl.ha.promote/v1", attrs: mutates | destructive, view: v,
			exits: []int{ExitNotFound, ExitConditionFalse, ExitAborted},
			examples: []string{
				"mqctl ha promote broker-a --id 1 --planned --wait=1m --reason kernel-update",
				"mqctl ha promote broker-a --id 1 --force --max-loss 1MiB",
			},
			flags: []flagSpec{
				{key: "id", kind: kindInt, min: 0, max: math.MaxInt32, meta: "N", help: "the slave that is to be the master: its id in broker list (0: the one that was configured with it)"},
				{key: "planned", kind: kindBool, help: "the master lives: nothing is lost (default)"},
				{key: "force", kind: kindBool, help: "the master is dead: what it did not replicate is lost"},
				{key: "max-loss", meta: "BYTES", help: "with --force: exit 7 if more may be lost, or nobody knows"},
				{key: "role", kind: kindEnum, enum: []string{"master", "sync-master"}, help: "does it wait for slaves? (default: as the old master did)"},
				reason, key,
			},
		},
		{
			path: "ha demote", summary: "make a master the slave of a newer one", args: "HOST:PORT|BROKER", min: 1, max: 1, argFrom: "broker",
			run: runDemote, schema: "mqctl.ha.demote/v1", attrs: mutates | destructive, view: v,
			exits:    []int{ExitNotFound, ExitConditionFalse, ExitAborted},
			examples: []string{"mqctl ha demote 10.0.0.4:10911", "mqctl ha demote 10.0.0.4:10911 --master 10.0.0.5:10911 --yes"},
			flags: []flagSpec{
				{key: "master", meta: "HOST:PORT", help: "the newer master (default: the registered one)"},
				{key: "id", kind: kindInt, min: 1, max: math.MaxInt32, meta: "N", help: "its id as a slave (default: the one the new master left)"},
				reason, key,
			},
		},
	}
}

// switching is one change of roles in the making.
type switching struct {
	c      *call
	a      *admin.Client
	key    []byte
	r      *result
	name   string
	master *body.RoleStatus // nil: none answers
	target *body.RoleStatus
	known  []*body.RoleStatus
	before map[string]string // how the brokers were called before the change, by address
	absent []error           // of registered brokers that gave no status
	epoch  int64
	claim  claim
	undo   []func(ctx context.Context)
}

// open connects and reads the key.
func (s *switching) open() error {
	var err error
	if s.a, err = s.c.admin(); err != nil {
		return err
	}
	if name := s.c.str("key-file"); name != "" {
		b, err := readConfigFile(name)
		if err != nil {
			return err
		}
		s.key = bytes.TrimSpace(b)
	}
	return nil
}

// role takes one step at a broker.
func (s *switching) role(ctx context.Context, addr string, step admin.RoleStep) (*body.RoleStatus, error) {
	step.Key, step.Change = s.key, s.claim.change
	return s.a.Role(ctx, addr, step)
}

// item begins a step. Its target has the name that it had before the change, in
// every step: with the roles the ids change in the middle of it.
func (s *switching) item(step string, of *body.RoleStatus) (*roleItem, func(state, detail string, args ...any)) {
	it := &roleItem{Step: step, Target: s.name, State: stateFailed}
	if of != nil {
		it.Target = cmp.Or(s.before[of.Addr], roleTarget(of))
	}
	begun := time.Now()
	s.r.add(it)
	return it, func(state, detail string, args ...any) {
		it.State, it.Detail, it.Millis = state, fmt.Sprintf(detail, args...), time.Since(begun).Milliseconds()
	}
}

// roleTarget is the broker under the id that it has now, as in the routes.
func roleTarget(st *body.RoleStatus) string {
	return st.Broker + "/" + strconv.FormatInt(st.BrokerID, 10)
}

func runPromote(ctx context.Context, c *call) (*result, error) {
	if c.on("planned") && c.on("force") {
		return nil, usage("CONTRADICTION", "--planned and --force exclude each other")
	}
	maxLoss, err := lossLimit(c)
	if err != nil {
		return nil, err
	}
	s := &switching{c: c, r: &result{change: &change{DryRun: c.dryRun()}}}
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	if s.target.Role != slaveRole {
		return s.already(), nil
	}
	defer s.release()
	if c.on("force") {
		return s.forced(ctx, maxLoss)
	}
	return s.planned(ctx)
}

// lossLimit reads --max-loss; -1 without it.
func lossLimit(c *call) (int64, error) {
	text := c.str("max-loss")
	if text == "" {
		return -1, nil
	}
	if !c.on("force") {
		return 0, usage("CONTRADICTION", "--max-loss belongs to --force: a planned promotion loses nothing")
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, usage("BAD_VALUE", "--max-loss: %q is no size", text).because("a number with a unit is expected: 0, 4096, 64KiB, 1MiB").try("--max-loss 1MiB")
	}
	return int64(n), nil
}

// look finds the brokers of the name and what each is now.
func (s *switching) look(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	addrs, err := s.addresses(ctx)
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		st, err := s.role(ctx, addr, admin.RoleStep{Step: "status"})
		switch {
		case admin.NoRoles(err):
			m := fail(ExitDenied, "NOT_OFFERED", "%s at %s does not change its role", s.name, addr).
				because("it is no broker of this program, or an older one: only those switch roles while they run").
				try("stop it, change brokerRole and brokerId in its file, start it")
			m.Addr = addr
			return m
		case err != nil:
			s.absent = append(s.absent, err)
		default:
			s.known = append(s.known, st)
			s.name = st.Broker
		}
	}
	return s.choose()
}

// addresses are the registered brokers of the name, and those they speak of.
func (s *switching) addresses(ctx context.Context) ([]string, error) {
	arg := s.c.arg(0)
	if !admin.IsAddress(arg) {
		s.name = arg
		cluster, err := s.a.Cluster(ctx)
		if err != nil {
			return nil, s.c.explain(err)
		}
		targets, err := cluster.Targets(admin.Selector{Cluster: s.c.str("cluster"), Broker: arg})
		if err != nil {
			return nil, s.c.explain(err)
		}
		var out []string
		for _, t := range targets {
			out, s.name, s.r.cluster = append(out, t.Addr), t.Broker, t.Cluster
		}
		return out, nil
	}
	st, err := s.role(ctx, arg, admin.RoleStep{Step: "status"})
	if err != nil && !admin.NoRoles(err) {
		return nil, s.c.explain(err)
	}
	out := []string{arg}
	if err == nil && st.MasterAddr != "" && st.MasterAddr != arg {
		out = append(out, st.MasterAddr)
	}
	return out, nil
}

// choose tells master and target apart.
func (s *switching) choose() error {
	s.before = map[string]string{}
	for _, st := range s.known {
		s.before[st.Addr] = roleTarget(st)
		if st.Role != slaveRole && (s.master == nil || st.Epoch > s.master.Epoch) {
			s.master = st
		}
		s.epoch = max(s.epoch, st.Epoch, st.FenceEpoch)
	}
	s.epoch++
	if s.c.given("id") {
		if err := s.chooseID(s.c.whole("id")); err != nil {
			return err
		}
	} else if arg := s.c.arg(0); admin.IsAddress(arg) {
		i := slices.IndexFunc(s.known, func(st *body.RoleStatus) bool { return st.Addr == arg })
		s.target = s.known[max(i, 0)]
	} else {
		return usage("VALUE_MISSING", "which broker of %s is to be the master? --id is missing", s.name).because("nothing was sent").try("--id 1").lacks(s.c.cmd, s.c.old, s.c.flag("id"), s.c.values)
	}
	if s.target != nil {
		return nil
	}
	var have []string
	for _, st := range s.known {
		have = append(have, roleTarget(st)+" at "+st.Addr)
	}
	if len(have) == 0 && len(s.absent) > 0 {
		return s.c.explain(s.absent[0])
	}
	return fail(ExitNotFound, "NOT_FOUND", "%s has no broker %d that answers", s.name, s.c.whole("id")).because("there are: %s", strings.Join(have, ", "))
}

// chooseID finds the slave that has the id now. The id that a broker was configured
// with counts where no slave has it: 0, which a master gave up and is to have again.
// After a change of roles an id can mean two brokers, and the same command run a
// second time would change the roles back; so it asks.
func (s *switching) chooseID(want int64) error {
	var now, configured *body.RoleStatus
	for _, st := range s.known {
		if st.BrokerID == want && (now == nil || now.Role != slaveRole) {
			now = st
		}
		if st.ConfiguredID == want {
			configured = st
		}
	}
	switch {
	case now != nil && now.Role != slaveRole && configured == nil && now.ConfiguredID != want:
		return fail(ExitNotFound, "NOT_FOUND", "the broker of %s that was configured with id %d does not answer", s.name, want).
			because("the master is %s at %s, which was configured with id %d; nothing was changed", roleTarget(now), now.Addr, now.ConfiguredID).
			try("mqctl wait broker " + s.name + "/" + strconv.FormatInt(max(now.ConfiguredID, 1), 10) + " --ready")
	case now == nil || now.Role != slaveRole && configured != nil:
		s.target = configured
	case now != configured && justPromoted(configured): // this very command did it, run a second time or beside this one
		s.target = configured
		m := warning("ID_CHANGED", roleTarget(now), "id %d is %s at %s now, by the change of roles a moment ago: nothing is changed back", want, roleTarget(now), now.Addr)
		m.offer("mqctl ha promote " + now.Addr)
		s.r.warn(m)
	default:
		s.target = now
	}
	if configured == nil || s.target != now || configured == now {
		return nil
	}
	text := fmt.Sprintf("it is %s at %s now; %s at %s was configured with id %d", roleTarget(now), now.Addr, roleTarget(configured), configured.Addr, want)
	s.r.warn(warning("ID_CHANGED", roleTarget(now), "a change of roles gave id %d to another broker: %s", want, text))
	if s.c.dryRun() || s.c.on("force") { // that asks anyway
		return nil
	}
	return s.c.confirm("promoting "+roleTarget(now), text)
}

// planned moves the master to the target without losing anything.
func (s *switching) planned(ctx context.Context) (*result, error) {
	if s.master == nil {
		m := fail(ExitUnreachable, "NO_MASTER", "the master of %s does not answer: it cannot be stopped in order", s.name)
		if len(s.absent) > 0 {
			m.reason("%v", s.absent[0])
		}
		return nil, m.try("mqctl ha promote " + s.c.arg(0) + " --id " + s.c.str("id") + " --force")
	}
	_, done := s.item("check", s.target)
	if perm := s.c.drained(ctx, s.target.Addr); perm != "" {
		done(stateFailed, "%s is drained", roleTarget(s.target))
		s.r.failed(fail(ExitConditionFalse, "DRAINED", "%s is drained (brokerPermission=%s): as the master it would take no messages", roleTarget(s.target), perm).
			because("nothing was changed").try("mqctl broker config set brokerPermission=6 --broker " + s.target.Addr))
		return s.r, nil
	}
	if !s.c.dryRun() {
		if stop := s.begin(ctx, done); stop {
			return s.r, nil
		}
	}
	done(stateDone, "master %s at %s, epoch %d; new epoch %d", roleTarget(s.master), s.master.Addr, s.master.Epoch, s.epoch)
	if s.c.dryRun() {
		for _, step := range []string{"catch-up", "fence", "gap", "metadata", "demote", "promote", "routes"} {
			at := s.target
			if step == "fence" || step == "demote" {
				at = s.master
			}
			_, done := s.item(step, at)
			done(stateSkipped, "dry run")
		}
		return s.r, nil
	}
	end, err := s.close(ctx)
	if err != nil {
		return s.r, s.end(err)
	}
	ctx, stop := steady(ctx) // from here on the change is finished or undone
	defer stop()
	if err := s.exchange(ctx); err != nil {
		return s.r, s.end(err)
	}
	if err := s.swap(ctx, end); err != nil {
		return s.r, s.end(err)
	}
	s.r.change.Applied = true
	s.routes(ctx, s.target.Addr, s.master.Addr)
	return s.r, nil
}

// end undoes what was done, last first, and reports why.
func (s *switching) end(why error) error {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	for _, f := range slices.Backward(s.undo) {
		f(ctx)
	}
	s.undo = nil
	s.r.failed(asMessage(s.c.explain(why)))
	return nil
}

// close waits until the target is near, fences the master, and waits for the rest.
// A gap that does not close within the fence is waited for without it.
func (s *switching) close(ctx context.Context) (end int64, err error) {
	limit := s.c.patience()
	if limit == 0 {
		limit = promoteWait
	}
	begun := time.Now()
	first := int64(-1)
	for {
		gap, err := s.catchUp(ctx, begun.Add(limit), &first)
		if err != nil {
			return 0, err
		}
		end, closed, err := s.fence(ctx, gap)
		if err != nil || closed {
			return end, err
		}
		if time.Since(begun) > limit {
			return 0, s.notClosed(first, s.gap(ctx), time.Since(begun))
		}
	}
}

// gap is how many bytes the target lacks; -1 if that is not known.
func (s *switching) gap(ctx context.Context) int64 {
	m, err := s.role(ctx, s.master.Addr, admin.RoleStep{Step: "status"})
	if err != nil {
		return -1
	}
	t, err := s.role(ctx, s.target.Addr, admin.RoleStep{Step: "status"})
	if err != nil {
		return -1
	}
	s.target = t
	return max(0, m.Max-t.Max)
}

// catchUp waits until the gap is small, with sends going on.
func (s *switching) catchUp(ctx context.Context, until time.Time, first *int64) (int64, error) {
	_, done := s.item("catch-up", s.target)
	begun := time.Now()
	for {
		gap := s.gap(ctx)
		if *first < 0 {
			*first = gap
		}
		switch {
		case gap >= 0 && gap <= nearEnough && s.target.Connected:
			done(stateDone, "%s behind", humanize.IBytes(uint64(gap)))
			return gap, nil
		case ctx.Err() != nil:
			done(stateFailed, "interrupted")
			return gap, ctx.Err()
		case time.Now().After(until):
			done(stateFailed, "%s behind", gapText(gap))
			return gap, s.notClosed(*first, gap, time.Since(begun))
		}
		s.renew(ctx)
		pause(ctx, catchUpPoll)
	}
}

func gapText(gap int64) string {
	if gap < 0 {
		return "not known how far"
	}
	return humanize.IBytes(uint64(gap))
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// notClosed is message 15 of the contract.
func (s *switching) notClosed(first, gap int64, waited time.Duration) error {
	m := fail(ExitTimeout, "GAP_NOT_CLOSED", "%s is still %s behind after %s; promotion cancelled, %s is master and writable again",
		roleTarget(s.target), gapText(gap), waited.Round(time.Second), roleTarget(s.master))
	m.Target = roleTarget(s.target)
	switch rate := float64(first-gap) / waited.Seconds(); {
	case !s.target.Connected:
		m.reason("it does not follow the master now: %s %s", s.target.State, s.target.Why)
	case gap > 0 && rate >= 1:
		m.reason("shrinking by %s/s, about %s more", humanize.IBytes(uint64(rate)), (time.Duration(float64(gap)/rate) * time.Second).Round(time.Second))
	case gap > 0:
		m.reason("it is not shrinking: the slave takes less than producers send")
	}
	return m.try("--wait=10m", "mqctl stats ha --broker "+s.name+" --watch")
}

// fence stops sends at the master and waits for the last bytes.
func (s *switching) fence(ctx context.Context, gap int64) (end int64, closed bool, err error) {
	ctx, stop := steady(ctx)
	defer stop()
	fence, fenced := s.item("fence", s.master)
	st, err := s.role(ctx, s.master.Addr, admin.RoleStep{Step: "fence", Epoch: s.epoch, Reason: s.c.str("reason")})
	lift := func(ctx context.Context) {
		_, err := s.role(ctx, s.master.Addr, admin.RoleStep{Step: "unfence", Epoch: s.epoch, Reason: "undone"})
		if fence.State = stateUndone; err != nil {
			fence.Detail = "the fence lifts itself within 30 s: " + err.Error()
		}
	}
	if err != nil {
		fenced(stateFailed, "%v", err)
		lift(ctx) // the answer may be lost, not the request
		fence.State = stateFailed
		return 0, false, err
	}
	fenced(stateDone, "sends wait; the log ends at %d", st.Max)
	s.master, end = st, st.Max
	_, done := s.item("gap", s.target)
	for begun := time.Now(); time.Since(begun) < fenceBudget; pause(ctx, gapPoll) {
		t, err := s.role(ctx, s.target.Addr, admin.RoleStep{Step: "status"})
		if err != nil {
			done(stateFailed, "%v", err)
			lift(ctx)
			return 0, false, err
		}
		if s.target = t; t.Max == end && t.Dispatched >= end {
			done(stateDone, "nothing is missing (%s when the fence was set)", humanize.IBytes(uint64(max(gap, 0))))
			s.undo = append(s.undo, lift)
			return end, true, nil
		}
	}
	done(stateUndone, "%s left after %s; sends go on meanwhile", humanize.IBytes(uint64(max(0, end-s.target.Max))), fenceBudget)
	lift(ctx)
	return 0, false, nil
}

// exchange lets the target take over topics, groups and consume progress once more.
func (s *switching) exchange(ctx context.Context) error {
	_, done := s.item("metadata", s.target)
	if _, err := s.role(ctx, s.target.Addr, admin.RoleStep{Step: "exchange", Epoch: s.epoch, Reason: s.c.str("reason")}); err != nil {
		done(stateFailed, "%v", err)
		return err
	}
	done(stateDone, "topics, groups and consume progress are the master's")
	return nil
}

// swap demotes the master and promotes the target.
func (s *switching) swap(ctx context.Context, end int64) error {
	old, target := s.master, s.target
	demoted, done := s.item("demote", old)
	reason := s.c.str("reason")
	// From here on the fence is part of the old master's role.
	_, err := s.role(ctx, old.Addr, admin.RoleStep{Step: "demote", Epoch: s.epoch, ID: target.BrokerID, Master: target.Addr, HA: target.HAAddr, Reason: reason})
	if err != nil {
		done(stateFailed, "%v", err)
		return err
	}
	done(stateDone, "follows %s as id %d", target.Addr, target.BrokerID)
	s.undo = []func(context.Context){func(ctx context.Context) {
		_, err := s.role(ctx, old.Addr, admin.RoleStep{Step: "promote", Epoch: s.epoch + 1, End: end, Role: old.Role, Reason: "undone"})
		if demoted.State = stateUndone; err != nil {
			demoted.State, demoted.Detail = stateFailed, "could not be undone: "+err.Error()
			s.r.warn(warning("NO_MASTER", s.name, "%s has no master now: %v", s.name, err))
		}
	}}
	_, done = s.item("promote", target)
	st, err := s.role(ctx, target.Addr, admin.RoleStep{Step: "promote", Epoch: s.epoch, End: end, Role: s.newRole(old.Role), Reason: reason})
	if err != nil {
		// Lost answers are asked for: two masters must not be made by undoing.
		if st, err2 := s.role(ctx, target.Addr, admin.RoleStep{Step: "status"}); err2 == nil && st.Role != slaveRole && st.Epoch == s.epoch {
			done(stateDone, "master of epoch %d", st.Epoch)
			return nil
		} else if err2 != nil {
			s.undo = nil
			done(stateFailed, "%v", err)
			return fail(ExitFailed, "UNKNOWN", "%s does not answer any more: it may or may not be the master of %s now", target.Addr, s.name).
				because("%v; the old master follows it", err).try("mqctl ha promote " + old.Addr + " --force")
		}
		done(stateFailed, "%v", err)
		return err
	}
	s.target = st
	s.undo = nil
	done(stateDone, "%s of epoch %d%s", st.Role, st.Epoch, s.writable(ctx, st))
	return nil
}

// routes waits until every nameserver that answers names the new master. What was
// switched stays switched: brokers register by themselves.
func (s *switching) routes(ctx context.Context, master, old string) {
	_, done := s.item("routes", s.target)
	seen := func(ctx context.Context) (bool, error) {
		cluster, err := s.a.Cluster(ctx)
		if err != nil {
			return false, err
		}
		g := cluster.Brokers[s.name]
		slave := old == ""
		for id, addr := range g.Addrs {
			slave = slave || id > 0 && addr == old
		}
		return g.Master() == master && slave, nil
	}
	ok, err := until(ctx, routesWait, seen)
	switch {
	case ok:
		done(stateDone, "nameservers name %s as the master", master)
	case err != nil:
		done(stateFailed, "%v", err)
		s.r.warn(warning("ROUTES_NOT_SEEN", s.name, "the nameservers could not be asked: %v", err))
	default:
		done(stateFailed, "not seen within %s", routesWait)
		s.r.warn(warning("ROUTES_NOT_SEEN", s.name, "the nameservers do not name %s as the master yet; both brokers go on registering", master))
	}
}

// writable says whether the new master takes messages: a drain stays with the
// broker that was drained, whatever its role is.
func (s *switching) writable(ctx context.Context, st *body.RoleStatus) string {
	perm := s.c.drained(ctx, st.Addr)
	if perm == "" {
		return ", writable"
	}
	m := warning("DRAINED", roleTarget(st), "the new master at %s takes no messages: it was drained (brokerPermission=%s)", st.Addr, perm)
	m.offer("mqctl broker undrain " + s.name)
	s.r.warn(m)
	return ", drained"
}

// newRole is the role of the new master: as the flag says, else other.
func (s *switching) newRole(other string) string {
	switch s.c.str("role") {
	case "master":
		return asyncMaster
	case "sync-master":
		return syncMaster
	}
	return other
}

func clampText(st *body.RoleStatus) string {
	if st.ClampedTotal == 0 {
		return "no consume position was beyond the log's end"
	}
	var list []string
	for _, c := range st.Clamped[:min(len(st.Clamped), 5)] {
		list = append(list, fmt.Sprintf("%s %s:%d to %d", c.Group, c.Topic, c.Queue, c.To))
	}
	if more := st.ClampedTotal - len(list); more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return count(st.ClampedTotal, "consume position") + " lowered to the end of the queue: " + strings.Join(list, ", ")
}

// runDemote makes a master a slave of the newer master of its name.
func runDemote(ctx context.Context, c *call) (*result, error) {
	s := &switching{c: c, r: &result{change: &change{DryRun: c.dryRun()}}}
	own, master, err := s.pair(ctx)
	if err != nil {
		return nil, err
	}
	_, done := s.item("demote", own)
	switch {
	case own.Role == slaveRole:
		done(stateSkipped, "%s is a slave already", own.Addr)
		return s.r, nil
	case master == nil || master.Addr == own.Addr || master.Role == slaveRole:
		done(stateFailed, "there is no other master")
		s.r.failed(fail(ExitConditionFalse, "NO_OTHER_MASTER", "%s is the only master of %s", own.Addr, s.name).
			because("as a slave it would have nobody to follow").try("mqctl ha promote "+s.name+" --id 1 --planned", "--master HOST:PORT"))
		return s.r, nil
	case master.Epoch <= own.Epoch:
		done(stateFailed, "%s is not newer", master.Addr)
		s.r.failed(fail(ExitConditionFalse, "NOT_NEWER", "%s became master no later than %s (epochs %d and %d)", master.Addr, own.Addr, master.Epoch, own.Epoch).
			because("which of two logs counts is said by their epochs").try("stop one of the two"))
		return s.r, nil
	}
	id := c.whole("id")
	if id == 0 {
		id = max(master.Former, 1)
	}
	if c.dryRun() {
		done(stateSkipped, "dry run: would follow %s as id %d", master.Addr, id)
		return s.r, nil
	}
	if err := c.confirm("making "+own.Addr+" a slave of "+master.Addr, "what only "+own.Addr+" has is cut from its log and kept in a file"); err != nil {
		return nil, err
	}
	st, err := s.role(ctx, own.Addr, admin.RoleStep{Step: "demote", Epoch: master.Epoch, Force: true, ID: id, Master: master.Addr, HA: master.HAAddr, Reason: c.str("reason")})
	if err != nil {
		done(stateFailed, "%v", err)
		s.r.failed(asMessage(c.explain(err)))
		return s.r, nil
	}
	s.r.change.Applied = true
	done(stateDone, "follows %s as id %d", master.Addr, st.BrokerID)
	return s.r, nil
}

// pair finds the broker to be demoted and the master it is to follow.
func (s *switching) pair(ctx context.Context) (own, master *body.RoleStatus, err error) {
	if err = s.open(); err != nil {
		return nil, nil, err
	}
	status := func(addr string) (*body.RoleStatus, error) {
		st, err := s.role(ctx, addr, admin.RoleStep{Step: "status"})
		if admin.NoRoles(err) {
			return nil, fail(ExitDenied, "NOT_OFFERED", "%s does not change its role", addr).because("it is no broker of this program, or an older one")
		}
		return st, s.c.explain(err)
	}
	addrs, err := s.addresses(ctx)
	if err != nil {
		return nil, nil, err
	}
	if own, err = status(addrs[0]); err != nil {
		return nil, nil, err
	}
	s.name = own.Broker
	if addr := s.c.str("master"); addr != "" {
		master, err = status(addr)
		return own, master, err
	}
	cluster, err := s.a.Cluster(ctx)
	if err != nil {
		return nil, nil, s.c.explain(err)
	}
	addr := cluster.Brokers[own.Broker].Master()
	if addr == "" || addr == own.Addr {
		return own, nil, nil
	}
	if master, err = status(addr); err != nil {
		var m *Message
		if errors.As(err, &m) && m.ExitCode == ExitUnreachable {
			return own, nil, nil
		}
	}
	return own, master, err
}
