package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"mqctl/cli/admin"
)

// userItem is an account of one broker. There is no field for the password.
type userItem struct {
	Broker     string `json:"broker"`
	Username   string `json:"username"`
	UserType   string `json:"userType"`
	UserStatus string `json:"userStatus"`

	addr string
}

// passwordMax bounds a password file.
const passwordMax = 4096

func userCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitChanges}
	show := view{item: userItem{}, name: func(item any) string { return item.(*userItem).Username }, columns: []column{
		{head: "BROKER", field: "broker"}, {head: "USER", field: "username"}, {head: "TYPE", field: "userType"}, {head: "STATUS", field: "userStatus"}}}
	get, list := show, show
	get.old, list.old = oldUserGet, oldUserList
	name := flagSpec{key: "username", long: "username", short: "u", arg: 1, required: true, meta: "NAME", help: "the user"}
	password := flagSpec{key: "password", long: "password", short: "p", oldOnly: true, meta: "TEXT", help: "visible to everybody on this machine: --password-file is better"}
	file := flagSpec{key: "password-file", meta: "FILE", complete: "file", help: "file with the password; without it the terminal is asked"}
	kindOf := flagSpec{key: "type", long: "userType", short: "t", kind: kindEnum, enum: []string{"Normal", "Super"}, meta: "Normal|Super", help: "Super passes every access rule (new user: Normal)"}
	status := flagSpec{key: "status", long: "userStatus", short: "s", kind: kindEnum, enum: []string{"enable", "disable"}, meta: "enable|disable", help: "whether the user may do anything"}
	newStatus := status
	newStatus.long, newStatus.short = "", ""
	return []*command{
		{path: "user create", old: "createUser", summary: "create a user", args: "NAME", min: 1, max: 1, run: runUserPut, schema: "mqctl.user.create/v1", attrs: mutates | planned, exits: exits,
			view:     thingView("create user to %s success.\n"),
			examples: []string{"mqctl user create ops --password-file ops.pw --type Super", "mqctl createUser -n 127.0.0.1:9876 -c DefaultCluster -u ops --password-file ops.pw -t Super"},
			flags:    append(oneTarget(), name, password, file, kindOf, newStatus)},
		{path: "user set", old: "updateUser", summary: "change a user", args: "NAME", min: 1, max: 1, run: runUserPut, schema: "mqctl.user.set/v1", attrs: mutates | planned, exits: exits,
			view:     thingView("update user to %s success.\n"),
			examples: []string{"mqctl user set ops --status disable", "mqctl updateUser -n 127.0.0.1:9876 -c DefaultCluster -u ops -s disable"},
			flags:    append(oneTarget(), name, password, file, kindOf, status)},
		{path: "user delete", old: "deleteUser", summary: "delete a user", args: "NAME", min: 1, max: 1, run: runUserDelete, schema: "mqctl.user.delete/v1", attrs: mutates | planned | destructive,
			exits: append(exits, ExitAborted), view: thingView("delete user to %s success.\n"),
			examples: []string{"mqctl user delete ops --yes", "mqctl deleteUser -n 127.0.0.1:9876 -c DefaultCluster -u ops"},
			flags:    append(oneTarget(), name)},
		{path: "user get", old: "getUser", summary: "show a user", args: "NAME", min: 1, max: 1, run: runUserGet, schema: "mqctl.user.get/v1", exits: exits, view: get,
			examples: []string{"mqctl user get ops", "mqctl getUser -n 127.0.0.1:9876 -c DefaultCluster -u ops"}, flags: append(oneTarget(), name)},
		{path: "user list", old: "listUser", summary: "list users", run: runUserList, schema: "mqctl.user.list/v1", exits: exits, view: list,
			examples: []string{"mqctl user list", "mqctl user list --match op", "mqctl listUser -n 127.0.0.1:9876 -c DefaultCluster"},
			flags:    append(oneTarget(), flagSpec{key: "match", long: "filter", short: "f", meta: "TEXT", help: "only names with this in them"})},
		{path: "user copy", old: "copyUser", summary: "copy users between brokers", args: "[NAME...]", max: -1, run: runUserCopy, schema: "mqctl.user.copy/v1", attrs: mutates | planned, exits: exits,
			view: copyView("copy user of %s from %s to %s success.\n"), examples: []string{"mqctl user copy --from broker-a --to broker-b", "mqctl copyUser -n 127.0.0.1:9876 -f 10.0.0.4:10911 -t 10.0.0.5:10911 -u ops,dev"},
			flags: append(copyFlags(), flagSpec{key: "usernames", long: "usernames", short: "u", oldOnly: true, meta: "A,B", help: "these only"})},
	}
}

func copyFlags() []flagSpec {
	return []flagSpec{
		{key: "from", long: "fromBroker", short: "f", required: true, meta: "BROKER", complete: "broker", help: "where they are: NAME, NAME/ID or HOST:PORT"},
		{key: "to", long: "toBroker", short: "t", required: true, meta: "BROKER", complete: "broker", help: "where they shall be"},
	}
}

// thingView shows a plan of things; mqadmin says one sentence for each broker.
func thingView(sentence string) view {
	return view{item: planItem{}, name: planName, columns: planColumns, foot: planFoot, old: func(p *printer, r *result) {
		last := ""
		for _, item := range r.items {
			if it := item.(*planItem); (!it.Changed || it.Applied) && it.target.Addr != last {
				p.printf(sentence, it.target.Addr)
				last = it.target.Addr
			}
		}
	}}
}

// copyView is thingView of copies; the result's extra is where they came from.
func copyView(sentence string) view {
	v := thingView("")
	v.old = func(p *printer, r *result) {
		for _, item := range r.items {
			if it := item.(*planItem); !it.Changed || it.Applied {
				p.printf(sentence, it.Name, r.extra, it.target.Addr)
			}
		}
	}
	return v
}

// readPassword reads a file with one line.
func readPassword(path string) (admin.Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return admin.Secret{}, unreadable(path, err).because("the password is to be read from it; nothing was sent")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, passwordMax+1))
	text := strings.TrimRight(string(b), "\r\n")
	if err != nil || text == "" || len(b) > passwordMax || strings.ContainsAny(text, "\r\n\x00") {
		return admin.Secret{}, fail(ExitBadConfig, "BAD_FILE", "%s holds no password", path).because("one line is expected; nothing was sent")
	}
	return admin.NewSecret(text), nil
}

// password is the one given: by file, by mqadmin's -p, or typed without echo
// when somebody is there and ask is true.
func (c *call) password(r *result, ask bool) (admin.Secret, error) {
	var none admin.Secret
	switch {
	case c.given("password-file"):
		return readPassword(c.str("password-file"))
	case c.given("password"):
		r.warn(warning("PASSWORD_VISIBLE", "", "the password stood on the command line, where everybody on this machine could read it; --password-file FILE keeps it secret"))
		return admin.NewSecret(c.str("password")), nil
	case !ask:
		return none, nil
	case !c.asks():
		return none, usage("VALUE_MISSING", "%s needs a password and stdin is not a terminal", c.cmd.name(c.old)).because("nothing was sent").try("--password-file FILE")
	}
	in, _ := c.io.In.(*os.File)
	var typed [2]admin.Secret
	err := hidden(in, func() (err error) {
		for i, prompt := range []string{"password: ", "again: "} {
			if typed[i], err = c.typed(in, prompt); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	if typed[0] != typed[1] {
		return none, usage("BAD_VALUE", "the two passwords differ").because("nothing was sent")
	}
	return typed[0], nil
}

// typed reads a line from a terminal that shows nothing of it.
func (c *call) typed(in *os.File, prompt string) (admin.Secret, error) {
	if _, err := io.WriteString(c.io.Err, prompt); err != nil {
		return admin.Secret{}, err
	}
	b, err := readAnswer(c.ctx, in)
	_, _ = io.WriteString(c.io.Err, "\n")
	if err != nil {
		return admin.Secret{}, err
	}
	if b == "" {
		return admin.Secret{}, fail(ExitAborted, "ABORTED", "no password was typed; nothing was sent")
	}
	return admin.NewSecret(b), nil
}

// runUserPut is user create and user set.
func runUserPut(ctx context.Context, c *call) (*result, error) {
	name, create := c.arg(0), c.cmd.path == "user create"
	if err := checkAccount(name); err != nil {
		return nil, err
	}
	if !create && !c.given("password") && !c.given("password-file") && !c.given("type") && !c.given("status") {
		return nil, usage("VALUE_MISSING", "%s changes nothing without a setting", c.cmd.name(c.old)).because("nothing was sent").try("--status disable", "--type Super", "--password-file FILE")
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	secret, err := c.password(r, create && !c.dryRun())
	if err != nil {
		return nil, err
	}
	want := state{}
	if c.given("type") {
		want["userType"] = c.str("type")
	}
	if c.given("status") {
		want["userStatus"] = c.str("status")
	}
	return c.changeUsers(ctx, r, name, func(now state) (state, error) {
		switch {
		case create && now != nil:
			return nil, fail(ExitFailed, "USER_EXISTS", "user %q exists already", name).try("mqctl user set " + name)
		case !create && now == nil:
			return nil, fail(ExitNotFound, "USER_NOT_FOUND", "user %q does not exist", name).try("mqctl user create " + name)
		case create:
			now = state{"userType": "Normal", "userStatus": "enable"}
		}
		after := now.with(want)
		if !secret.Empty() || create {
			after[passwordField] = secret
		}
		return after, nil
	})
}

func checkAccount(name string) error {
	if name == "" || strings.ContainsAny(name, " \t\r\n\x00:,") {
		return usage("BAD_NAME", "%q is no user name", name).because("blanks, colons and commas are not possible in it")
	}
	return nil
}

func runUserDelete(ctx context.Context, c *call) (*result, error) {
	if err := checkAccount(c.arg(0)); err != nil {
		return nil, err
	}
	if err := c.confirm("deleting user "+c.arg(0), "its clients are refused from then on, and it cannot be taken back: the password is kept nowhere"); err != nil {
		return nil, err
	}
	r, err := c.changeUsers(ctx, &result{change: &change{DryRun: c.dryRun()}}, c.arg(0), func(state) (state, error) { return nil, nil })
	return c.missingUnless(r, err, "user", c.arg(0))
}

// missingUnless makes a deletion that found nothing anywhere an error; mqadmin
// calls that a success.
func (c *call) missingUnless(r *result, err error, kind, name string) (*result, error) {
	if err == nil && !c.old && len(r.errors) == 0 && !r.wouldChange() {
		return nil, fail(ExitNotFound, strings.ToUpper(strings.ReplaceAll(kind, " ", "_"))+"_NOT_FOUND", "%s %q exists on no broker asked", kind, name)
	}
	return r, err
}

// changeUsers plans one user at all targets and carries it out.
func (c *call) changeUsers(ctx context.Context, r *result, name string, next func(now state) (state, error)) (*result, error) {
	targets, err := configTargets(ctx, c, true)
	if err != nil {
		return nil, err
	}
	r.cluster = clusterOf(targets)
	var edits []*edit
	for _, res := range c.statesAt(ctx, targets, kindUser+"/"+name) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		after, err := next(res.Value)
		if err != nil {
			r.failed(c.at(err, res.Target))
			continue
		}
		edits = append(edits, c.userEdit(res.Target, name, res.Value, after))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// statesAt reads one thing at all targets.
func (c *call) statesAt(ctx context.Context, targets []admin.Target, key string) []admin.Result[state] {
	return admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (state, error) { return c.readThing(ctx, t, key) })
}

// userEdit is the edit of one user. Passwords look alike in every form of
// output, so whether they differ is told here.
func (c *call) userEdit(t admin.Target, name string, before, after state) *edit {
	it := planThing(t, kindUser+"/"+name, before, after)
	old, _ := before[passwordField].(admin.Secret)
	given, _ := after[passwordField].(admin.Secret)
	secret := false
	if before != nil && after != nil && old != given {
		secret = true
		it.Action, it.Changed = actionChange, true
		it.Changes = append(it.Changes, settingChange{passwordField, old, given})
	}
	e := c.thingEdit(it)
	if secret || after == nil {
		// There is no way back to a password that is kept nowhere.
		e.things = func() []auditThing {
			thing := it.thing()
			thing.Key = "account/" + passwordField + " of " + name
			return []auditThing{thing}
		}
	}
	return e
}

func runUserGet(ctx context.Context, c *call) (*result, error) {
	if err := checkAccount(c.arg(0)); err != nil {
		return nil, err
	}
	r, err := c.showEach(ctx, func(ctx context.Context, t admin.Target) ([]any, error) {
		u, err := c.client.User(ctx, t.Addr, c.arg(0))
		if err != nil {
			return nil, err
		}
		return []any{&userItem{t.String(), u.Name, u.Type, u.Status, t.Addr}}, nil
	})
	return r, err
}

// showEach collects what every target shows.
func (c *call) showEach(ctx context.Context, f func(ctx context.Context, t admin.Target) ([]any, error)) (*result, error) {
	targets, err := configTargets(ctx, c, false)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range admin.Each(ctx, c.client, 0, targets, f) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		r.add(res.Value...)
	}
	return r, nil
}

func runUserList(ctx context.Context, c *call) (*result, error) {
	return c.showEach(ctx, func(ctx context.Context, t admin.Target) ([]any, error) {
		all, err := c.client.Users(ctx, t.Addr, c.str("match"))
		out := make([]any, len(all))
		for i, u := range all {
			out[i] = &userItem{t.String(), u.Name, u.Type, u.Status, t.Addr}
		}
		return out, err
	})
}

// oldUsers is mqadmin's table of users, without the passwords that it shows.
func oldUsers(p *printer, items []any) {
	const line = "%-16s  %-22s  %-22s  %-22s\n"
	p.printf(line, "#UserName", "#Password", "#UserType", "#UserStatus")
	for _, item := range items {
		it := item.(*userItem)
		p.printf(line, it.Username, admin.Hidden, it.UserType, it.UserStatus)
	}
}

func oldUserGet(p *printer, r *result) {
	if len(r.items) > 0 {
		oldUsers(p, r.items[:1]) // mqadmin shows what the first broker says
	}
}

func oldUserList(p *printer, r *result) {
	if len(r.items) == 0 {
		return
	}
	first := r.items[0].(*userItem)
	var same []any
	for _, item := range r.items {
		if item.(*userItem).addr == first.addr {
			same = append(same, item)
		}
	}
	oldUsers(p, same)
	if r.cluster != "" {
		p.printf("get user from %s success.\n", first.addr)
	}
}

// copyEnds resolves --from and --to.
func (c *call) copyEnds(ctx context.Context) (from admin.Target, to []admin.Target, err error) {
	if err := c.needFlags("from", "to"); err != nil {
		return from, nil, err
	}
	a, err := c.admin()
	if err != nil {
		return from, nil, err
	}
	source, err := a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: c.str("from"), MastersOnly: true})
	if err != nil {
		return from, nil, err
	}
	to, err = a.Targets(ctx, admin.Selector{Cluster: c.str("cluster"), Broker: c.str("to")})
	return source[0], to, err
}

// wantedNames are the things that a copy was asked for: arguments, or mqadmin's list.
func (c *call) wantedNames(key string) []string {
	if c.old {
		return strings.FieldsFunc(c.str(key), func(r rune) bool { return r == ',' || r == ' ' })
	}
	return c.args
}

func runUserCopy(ctx context.Context, c *call) (*result, error) {
	from, to, err := c.copyEnds(ctx)
	if err != nil {
		return nil, err
	}
	names := c.wantedNames("usernames")
	if len(names) == 0 {
		all, err := c.client.Users(ctx, from.Addr, "")
		if err != nil {
			return nil, c.at(err, from)
		}
		for _, u := range all {
			names = append(names, u.Name)
		}
	}
	return c.copyThings(ctx, from, to, kindUser, names, c.userEdit)
}

// copyThings reads things at one broker and plans them at others.
func (c *call) copyThings(ctx context.Context, from admin.Target, to []admin.Target, kind string, names []string,
	plan func(t admin.Target, name string, before, after state) *edit) (*result, error) {
	r := &result{change: &change{DryRun: c.dryRun()}, extra: from.Addr, cluster: clusterOf(to)}
	var edits []*edit
	for _, name := range names {
		wanted, err := c.readThing(ctx, from, kind+"/"+name)
		if err == nil && wanted == nil {
			err = &admin.NotFound{Kind: kind, Name: name, Where: from.Addr}
		}
		if err != nil {
			r.failed(c.at(err, from))
			continue
		}
		for _, res := range c.statesAt(ctx, to, kind+"/"+name) {
			if res.Err != nil {
				r.failed(c.at(res.Err, res.Target))
				continue
			}
			edits = append(edits, plan(res.Target, name, res.Value, wanted))
		}
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}
