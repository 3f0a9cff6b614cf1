package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// waitItem is how a wait ended.
type waitItem struct {
	Condition string  `json:"condition"`
	Target    string  `json:"target"`
	Value     *string `json:"value"` // at the end
	Limit     *string `json:"limit"`
	Reached   bool    `json:"reached"`
	Millis    int64   `json:"millis"`
}

func waitView() view {
	return view{
		item: waitItem{}, name: func(item any) string { return item.(*waitItem).Target },
		columns: []column{
			{head: "CONDITION", field: "condition"}, {head: "TARGET", field: "target"}, {head: "VALUE", field: "value"}, {head: "LIMIT", field: "limit"},
			{head: "REACHED", field: "reached"}, {head: "TIME", field: "millis", as: asMillis},
		},
	}
}

// forFlag is how long a wait lasts at most.
func forFlag() flagSpec {
	return flagSpec{key: "for", kind: kindDuration, def: "5m", meta: "DUR", help: "give up with exit 5 after this"}
}

// waitExits are how a wait can end.
var waitExits = []int{ExitNotFound, ExitConditionFalse}

func waitCommands() []*command {
	return []*command{
		{
			path: "wait broker", summary: "wait until a broker is ready or gone", args: "NAME[/ID]|HOST:PORT", min: 1, max: 1, argFrom: "broker",
			run: runWaitBroker, schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait broker broker-a/1 --ready --for 30s", "mqctl wait broker broker-a/1 --gone"},
			flags: []flagSpec{
				{key: "ready", kind: kindBool, help: "registered, and answers requests"},
				{key: "gone", kind: kindBool, help: "not registered any more, and does not answer"}, forFlag(),
			},
		},
		{
			path: "wait role", summary: "wait until a broker has a role", args: "NAME/ID|HOST:PORT", min: 1, max: 1, argFrom: "broker",
			run: runWaitRole, schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait role broker-a/1 --is ASYNC_MASTER --for 30s", "mqctl wait role 127.0.0.1:10921 --is slave"},
			flags: []flagSpec{
				{key: "is", kind: kindEnum, enum: []string{"ASYNC_MASTER", "SYNC_MASTER", "SLAVE", "MASTER"}, meta: "ROLE", help: "the role; MASTER means either kind"}, forFlag(),
			},
		},
		{
			path: "wait ha", summary: "wait until slaves have caught up", run: runWaitHA, schema: "mqctl.wait/v1", exits: waitExits, view: waitView(),
			examples: []string{"mqctl wait ha --broker broker-a --max-gap 0 --stable 3s --for 5m", "mqctl wait ha --max-gap-time 1s"},
			flags: append(gapFlags("not reached while"),
				flagSpec{key: "stable", kind: kindDuration, def: "0s", meta: "DUR", help: "and it must stay so for this long"}, forFlag()),
		},
	}
}

// look is what one look at a condition found.
type look struct {
	reached bool
	value   string // what there is now
	never   string // why it cannot be reached any more; "" while it can
	try     string // a command for that
}

// waitPause is the time between two looks.
const waitPause = 250 * time.Millisecond

// await looks again and again until the condition is reached, cannot be
// reached, or the time is over. Only the first look may fail: what was there
// once may be away for a moment.
func (c *call) await(ctx context.Context, it *waitItem, see func(ctx context.Context) (look, error)) (*result, error) {
	r := &result{items: []any{it}}
	begin := time.Now()
	limit := c.duration("for")
	until, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, _ := until.Deadline() // which requests may notice before until does
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	told, trouble := begin, ""
	for first := true; ; first = false {
		now, err := see(until)
		it.Millis = time.Since(begin).Milliseconds()
		if (until.Err() != nil || !time.Now().Before(end)) && (err != nil || !now.reached) { // who was being asked when the time was over could not answer
			return c.waitOver(ctx, r, it, trouble, limit)
		}
		if err != nil && first {
			return nil, c.explain(err)
		}
		if err == nil {
			it.Value, it.Reached, trouble = textOrNil(now.value), now.reached, ""
		} else {
			trouble = asMessage(c.explain(err)).Text
		}
		switch {
		case err == nil && now.reached:
			return r, nil
		case err == nil && now.never != "":
			m := fail(ExitConditionFalse, "NEVER", "%s %s can no longer be reached: %s", it.Condition, it.Target, now.never)
			if now.value != "" && !strings.Contains(now.never, now.value) {
				m.reason("it is: %s", now.value)
			}
			if now.try != "" {
				m.offer(now.try)
			}
			r.failed(m.try(it.look()))
			return r, nil
		}
		told = c.tellWait(it, trouble, told, begin)
		select {
		case <-until.Done():
			return c.waitOver(ctx, r, it, trouble, limit)
		case <-tick.C:
		}
	}
}

// waitOver ends a wait whose time is over, or that was interrupted.
func (c *call) waitOver(ctx context.Context, r *result, it *waitItem, trouble string, limit time.Duration) (*result, error) {
	if ctx.Err() != nil {
		return nil, c.explain(ctx.Err())
	}
	m := fail(ExitTimeout, "NOT_REACHED", "%s %s was not reached within %s", it.Condition, it.Target, limit)
	switch {
	case trouble != "" && it.Value != nil:
		m.reason("at the end: %s; before: %s", trouble, *it.Value)
	case trouble != "":
		m.reason("at the end: %s", trouble)
	case it.Value != nil:
		m.reason("it is: %s", *it.Value)
	}
	r.failed(m.try(it.look(), "a longer --for"))
	return r, nil
}

// look is the command that shows more of what is waited for.
func (it *waitItem) look() string {
	switch it.Condition {
	case "ha":
		return "mqctl stats ha"
	case "lag":
		return "mqctl group lag " + it.Target
	}
	return "mqctl broker list"
}

// tellWait says on stderr how far it is: once a second on a terminal, every
// 10 s otherwise.
func (c *call) tellWait(it *waitItem, trouble string, told, begin time.Time) time.Time {
	every := 10 * time.Second
	if c.p.errStyle.terminal {
		every = time.Second
	}
	if time.Since(told) < every {
		return told
	}
	value := "not known"
	switch {
	case trouble != "":
		value = trouble
	case it.Value != nil:
		value = *it.Value
	}
	fmt.Fprintf(c.io.Err, "waiting %s for %s %s: %s\n", shortDuration(time.Since(begin)), it.Condition, it.Target, oneLine(value))
	return time.Now()
}

// find resolves a broker that may not be there (yet): nil targets without an
// error. That no nameserver answers is an error.
func (c *call) find(ctx context.Context, name string) ([]admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	targets, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: name})
	var missing *admin.NotFound
	if errors.As(err, &missing) && missing.Kind == "broker" {
		return nil, nil
	}
	return targets, err
}

func runWaitBroker(ctx context.Context, c *call) (*result, error) {
	ready, wantGone := c.on("ready"), c.on("gone")
	if ready == wantGone {
		return nil, c.either("mqctl wait broker "+c.arg(0)+" --ready", "ready", "gone")
	}
	it := &waitItem{Condition: "ready", Target: c.arg(0)}
	if wantGone {
		it.Condition = "gone"
	}
	known := map[string]admin.Target{} // every address it was ever registered under
	return c.await(ctx, it, func(ctx context.Context) (look, error) {
		targets, err := c.find(ctx, c.arg(0))
		if err != nil {
			return look{}, err
		}
		for _, t := range targets {
			known[t.Addr] = t
		}
		if ready {
			return c.seeReady(ctx, targets), nil
		}
		return c.seeGone(ctx, targets, known), nil
	})
}

// seeReady: every replica of the name is registered and answers.
func (c *call) seeReady(ctx context.Context, targets []admin.Target) look {
	if len(targets) == 0 {
		return look{value: "not registered"}
	}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (map[string]string, error) {
		return c.client.RuntimeInfo(ctx, t.Addr)
	}) {
		if res.Err != nil {
			return look{value: res.Target.String() + " does not answer: " + netReason(res.Err)}
		}
		if c.inactive(ctx, res.Target, res.Value) {
			return look{value: res.Target.String() + " is not active yet"}
		}
	}
	return look{reached: true, value: "ready"}
}

// inactive says whether a broker does not do yet what one of its place does. RocketMQ's
// brokerActive tells whether delays and transactions run, which they do on masters only:
// a slave says false all its life.
func (c *call) inactive(ctx context.Context, t admin.Target, runtime map[string]string) bool {
	if runtime["brokerActive"] != "false" {
		return false
	}
	if t.ID < 0 { // named by its address
		if who, err := c.client.Identify(ctx, t.Addr); err == nil {
			t.ID = who.ID
		}
	}
	return t.ID <= 0
}

// seeGone: nothing is registered, and where it was nobody answers.
func (c *call) seeGone(ctx context.Context, targets []admin.Target, known map[string]admin.Target) look {
	for _, t := range known {
		if t.Addr == "" {
			continue
		}
		who, err := c.client.Identify(ctx, t.Addr)
		if err == nil && (t.Broker == "" || who.Broker == t.Broker) {
			return look{value: "answers at " + t.Addr}
		}
	}
	if len(targets) > 0 && !admin.IsAddress(c.arg(0)) {
		return look{value: "still registered at " + targets[0].Addr}
	}
	return look{reached: true, value: "gone"}
}

func runWaitRole(ctx context.Context, c *call) (*result, error) {
	if !c.given("is") {
		return nil, usage("VALUE_MISSING", "wait role needs --is ROLE").try("--is ASYNC_MASTER", "--is SLAVE").lacks(c.cmd, c.old, c.flag("is"), c.values)
	}
	if !admin.IsAddress(c.arg(0)) && !strings.Contains(c.arg(0), "/") {
		return nil, usage("TARGET_MISSING", "wait role needs one replica: NAME/ID").try("mqctl wait role " + c.arg(0) + "/1 --is " + c.str("is"))
	}
	want := c.str("is")
	it := &waitItem{Condition: "role", Target: c.arg(0), Limit: &want}
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	// The process stays the same when its id changes with its role.
	t, err := c.meantBy(ctx, a, want)
	if err != nil {
		return nil, c.explain(err)
	}
	return c.await(ctx, it, func(ctx context.Context) (look, error) {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return look{}, err
		}
		role := (replica{config: cfg.Values}).role(t.ID)
		return look{reached: role == want || want == "MASTER" && role != slaveRole, value: role}, nil
	})
}

// roleNews is for how long after a change of roles NAME/ID still means who had the id
// before it, where that broker has the role that is waited for.
const roleNews = 2 * time.Minute

// meantBy finds the replica that is NAME/ID: the one that has the id now. A change of
// roles swaps the ids of two brokers: shortly after it the id of a slave that is to be a
// master means who left that id to be it, and 0 of one that is to be a slave the former
// master. Which broker was configured with which id does not matter.
func (c *call) meantBy(ctx context.Context, a *admin.Client, want string) (admin.Target, error) {
	name, id, byID := strings.Cut(c.arg(0), "/")
	if byID && !admin.IsAddress(c.arg(0)) && (id == "0") == (want == slaveRole) {
		all, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: name})
		if err != nil {
			return admin.Target{}, err
		}
		if t, ok := c.justBecame(ctx, a, all, id); ok {
			return t, nil
		}
	}
	targets, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: c.arg(0)})
	if err != nil {
		return admin.Target{}, err
	}
	return targets[0], nil
}

// justBecame finds who got its role by the last change and was called id before.
func (c *call) justBecame(ctx context.Context, a *admin.Client, all []admin.Target, id string) (admin.Target, bool) {
	results := admin.Each(ctx, a, 0, all, func(ctx context.Context, t admin.Target) (*body.RoleStatus, error) {
		return a.Role(ctx, t.Addr, admin.RoleStep{Step: "status"})
	})
	left := int64(-1) // the id that the new master left
	for _, res := range results {
		st := res.Value
		if res.Err != nil || st.Role == slaveRole || st.ChangedMillis <= 0 || st.ChangedMillis > roleNews.Milliseconds() {
			continue
		}
		if left = st.Former; strconv.FormatInt(left, 10) == id {
			return res.Target, true
		}
	}
	for _, res := range results {
		if res.Err == nil && id == "0" && left > 0 && res.Value.Role == slaveRole && res.Value.BrokerID == left {
			return res.Target, true
		}
	}
	return admin.Target{}, false
}

func runWaitHA(ctx context.Context, c *call) (*result, error) {
	limit, err := c.gapLimit()
	if err != nil {
		return nil, err
	}
	if !limit.given() {
		limit.bytes = ptr(int64(0))
	}
	target := c.str("broker")
	if target == "" {
		target = "all brokers"
	}
	w := &haWait{c: c, limit: limit, stable: c.duration("stable"), slaves: map[string]slaveTrack{}, gone: map[string]time.Time{}}
	return c.await(ctx, &waitItem{Condition: "ha", Target: target, Limit: ptr(limit.text())}, w.see)
}

// haWait is what wait ha remembers between two looks.
type haWait struct {
	c      *call
	limit  gapLimit
	stable time.Duration
	since  time.Time // since when everything has been within the limits
	slaves map[string]slaveTrack
	gone   map[string]time.Time // masters, and what was asked for: since when it has not answered
	looked bool                 // what was asked for was there once
}

// slaveTrack is a slave at its last looks.
type slaveTrack struct {
	lost time.Time // since when it has not been connected
	gap  *int64    // at that time, or when it was first known
}

// lostFor is how long a slave may be without a connection: slaves dial again
// after 5 s.
const lostFor = 6 * time.Second

func (w *haWait) see(ctx context.Context) (look, error) {
	r, err := w.c.haOnce(ctx)
	if err == nil && len(r.items) == 0 && len(r.errors) > 0 {
		err = &r.errors[0]
	}
	if err != nil {
		return w.away(ctx, err)
	}
	w.looked = true
	delete(w.gone, "")
	worst, master, total, present := "", "", 0, map[string]bool{}
	for _, item := range r.items {
		it := item.(*haItem)
		switch {
		case it.State == nil || it.Role == "SLAVE":
			delete(w.gone, it.Broker)
		case it.Addr == nil:
			master = "no master of " + it.Broker + " is registered"
			if w.goneFor(it.Broker) >= lostFor {
				return look{value: "its slaves copy from nobody", never: master}, nil
			}
		default: // frozen, or not to be reached from here: that may heal
			delete(w.gone, it.Broker)
			master = "the master of " + it.Broker + " does not answer" + reasonAt(r, *it.Addr)
		}
		links := it.Connections
		if it.Role == "SLAVE" && it.State != nil {
			links = []haConnection{it.ownLink()}
		}
		for i := range links {
			name := it.slaveName(&links[i])
			present[name] = true
			total++
			if why := w.limit.exceeded(&links[i]); why != "" {
				worst = name + ": " + why
				if k := &links[i]; k.Why != nil && !k.connected() {
					worst += ": " + *k.Why
				}
			}
			if never := w.hopeless(name, &links[i]); never != "" {
				return w.never(worst, name, never), nil
			}
		}
	}
	for name, t := range w.slaves {
		if present[name] {
			continue
		}
		if t.lost.IsZero() {
			t.lost = time.Now()
			w.slaves[name] = t
		}
		if worst, total = name+hasLeft, total+1; time.Since(t.lost) >= lostFor {
			return w.never("", name, worst), nil
		}
	}
	if total == 0 {
		return look{value: "no slave is registered", never: "there is no slave"}, nil
	}
	if master != "" {
		worst = master // that the slaves' gaps are not known is for that
	}
	return w.settle(worst, total), nil
}

const hasLeft = " has left the cluster"

// never is a look after which no waiting helps. Who left is to be waited for first.
func (w *haWait) never(worst, name, why string) look {
	l := look{value: worst, never: why}
	if why == name+hasLeft {
		l.try = "mqctl wait broker " + name + " --ready"
	}
	return l
}

// reasonAt is why nobody answered at addr.
func reasonAt(r *result, addr string) string {
	for i := range r.errors {
		if r.errors[i].Addr == addr {
			return ": " + r.errors[i].Text
		}
	}
	return ""
}

// goneFor is how long something has been away.
func (w *haWait) goneFor(name string) time.Duration {
	if w.gone[name].IsZero() {
		w.gone[name] = time.Now()
	}
	return time.Since(w.gone[name])
}

// away is a look that failed: what is asked for has left, or nobody can tell. At
// the first look that is an error.
func (w *haWait) away(ctx context.Context, err error) (look, error) {
	var missing *admin.NotFound
	var none *admin.NoNameserver
	if !w.looked || ctx.Err() != nil || errors.As(err, &none) {
		return look{}, err
	}
	text := asMessage(w.c.explain(err)).Text
	if w.goneFor("") < lostFor {
		return look{value: text}, nil
	}
	if errors.As(err, &missing) {
		return w.never(text, w.c.str("broker"), w.c.str("broker")+hasLeft), nil
	}
	return look{value: text}, nil
}

// settle counts how long everything has been within the limits.
func (w *haWait) settle(worst string, slaves int) look {
	if worst != "" {
		w.since = time.Time{}
		return look{value: worst}
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if held := time.Since(w.since); held < w.stable {
		return look{value: "within the limits for " + shortDuration(held)}
	}
	return look{reached: true, value: count(slaves, "slave") + " within the limits"}
}

// hopeless says why no waiting helps; "" while it may.
func (w *haWait) hopeless(name string, k *haConnection) string {
	t := w.slaves[name]
	defer func() { w.slaves[name] = t }()
	if brokenStates[k.State] && !k.uncompared {
		why := name + " is " + k.stateText()
		if k.Why != nil {
			why += ": " + *k.Why
		}
		return why
	}
	if k.connected() || k.State == stateUnknown {
		t = slaveTrack{}
		return ""
	}
	if t.lost.IsZero() {
		t.lost = time.Now()
	}
	if t.gap == nil {
		t.gap = k.GapBytes
	}
	if time.Since(t.lost) < lostFor {
		return ""
	}
	switch {
	case k.lost:
		return name + hasLeft
	case k.GapBytes != nil && *k.GapBytes > *t.gap:
		return fmt.Sprintf("%s is not connected and its gap grows: %d bytes", name, *k.GapBytes)
	}
	return ""
}
