package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mqctl/cli/admin"
)

// contextItem is one context of the client file. Keys are never shown, only
// where they come from.
type contextItem struct {
	Name      string   `json:"name"`
	Current   bool     `json:"current"`
	Namesrv   []string `json:"namesrv"`
	Cluster   *string  `json:"cluster"`
	Protected bool     `json:"protected"`
	ReadOnly  bool     `json:"readOnly"`
	Keys      string   `json:"keys" enum:"NONE|CLEAR|ENV|FILE"` // where the secret key comes from
	TLS       bool     `json:"tls"`
	Reachable *bool    `json:"reachable"` // null: not tried
}

func nameOfContext(item any) string { return item.(contextItem).Name }

func contextCommands() []*command {
	columns := []column{
		{head: "NAME", field: "name"}, {head: "CURRENT", field: "current"}, {head: "NAMESRV", field: "namesrv", as: asList}, {head: "CLUSTER", field: "cluster"},
		{head: "PROTECTED", field: "protected"}, {head: "READ ONLY", field: "readOnly"}, {head: "KEYS", field: "keys", wide: true}, {head: "TLS", field: "tls", wide: true},
	}
	shown := view{item: contextItem{}, name: nameOfContext, columns: columns}
	tested := view{item: contextItem{}, name: nameOfContext, columns: append(slices.Clone(columns), column{head: "REACHABLE", field: "reachable"})}
	return []*command{
		{
			path: "context add", summary: "remember a cluster, or change what is remembered", args: "NAME", min: 1, max: 1, argFrom: "context", attrs: local,
			run: runContextAdd, schema: "mqctl.context.add/v1", exits: []int{ExitBadConfig}, view: shown,
			examples: []string{"mqctl context add dev --namesrv 127.0.0.1:9876", "mqctl context add prod --namesrv 10.0.0.4:9876,10.0.0.5:9876 --cluster DefaultCluster --protected --secret-key-file /run/secrets/mq_sk --access-key ops"},
			flags:    contextFlags(),
		},
		{
			path: "context use", summary: "choose the context of the lines to come", args: "NAME", min: 1, max: 1, argFrom: "context", attrs: local,
			run: runContextUse, schema: "mqctl.context.use/v1", exits: []int{ExitNotFound, ExitBadConfig}, view: shown, examples: []string{"mqctl context use prod"},
		},
		{
			path: "context list", summary: "remembered clusters", attrs: local, run: runContextList, schema: "mqctl.context.list/v1", exits: []int{ExitBadConfig}, view: shown,
			examples: []string{"mqctl context list", "mqctl ctx ls -o name"},
		},
		{
			path: "context show", summary: "one remembered cluster", args: "[NAME]", max: 1, argFrom: "context", attrs: local,
			run: runContextShow, schema: "mqctl.context.show/v1", exits: []int{ExitNotFound, ExitBadConfig}, view: shown, examples: []string{"mqctl context show", "mqctl context show prod -o json"},
		},
		{
			path: "context rm", summary: "forget a cluster", args: "NAME", min: 1, max: 1, argFrom: "context", attrs: local,
			run: runContextRm, schema: "mqctl.context.rm/v1", exits: []int{ExitNotFound, ExitBadConfig}, view: shown, examples: []string{"mqctl context rm dev"},
		},
		{
			path: "context test", summary: "reach the nameservers of contexts", args: "[NAME...]", max: -1, argFrom: "context", attrs: local,
			run: runContextTest, schema: "mqctl.context.test/v1", exits: []int{ExitNotFound, ExitPartial, ExitBadConfig}, view: tested,
			examples: []string{"mqctl context test", "mqctl context test prod dev"},
			flags:    []flagSpec{{key: "timeout", kind: kindDuration, meta: "DUR", env: []string{"MQCTL_TIMEOUT"}, def: "5s", help: "one request"}},
		},
	}
}

func contextFlags() []flagSpec {
	return []flagSpec{
		{key: "namesrv", letter: "n", kind: kindList, meta: "LIST", help: "nameservers; comma, semicolon or blank between"},
		{key: "cluster", meta: "NAME", help: "the cluster that commands mean"},
		{key: "protected", kind: kindBool, negative: true, help: "confirmations ask for the typed name"},
		{key: "read-only", kind: kindBool, negative: true, help: "refuse every change"},
		{key: "accent", kind: kindEnum, enum: []string{"red", "yellow", "green", "cyan", "blue", "magenta", "white", "none"}, help: "colour of the prompt"},
		{key: "access-key", meta: "KEY", help: "name of the key that signs requests, or env:NAME, or file:PATH"},
		{key: "secret-key-file", meta: "FILE", complete: "file", help: "file with the secret key; it is read at each command"},
		{key: "secret-key-env", meta: "VARIABLE", help: "variable with the secret key"},
		{key: "tls", kind: kindBool, negative: true, help: "connect by TLS"},
		{key: "tls-ca", meta: "FILE", complete: "file", help: "certificates that sign the servers'"},
		{key: "tls-cert", meta: "FILE", complete: "file", help: "own certificate"},
		{key: "tls-key", meta: "FILE", complete: "file", help: "key of the own certificate"},
		{key: "tls-server-name", meta: "NAME", help: "name in the servers' certificate"},
		{key: "use", kind: kindBool, help: "make it the current context"},
	}
}

func (f *clientFile) item(name string) contextItem {
	x := f.Contexts[name]
	it := contextItem{Name: name, Current: f.Current == name, Namesrv: append([]string{}, x.Namesrv...), Protected: x.Protected, ReadOnly: x.ReadOnly, TLS: x.TLS.Enable, Keys: "CLEAR"}
	if x.Cluster != "" {
		it.Cluster = ptr(x.Cluster)
	}
	switch {
	case x.SecretKey == "":
		it.Keys = "NONE"
	case strings.HasPrefix(x.SecretKey, "env:"):
		it.Keys = "ENV"
	case strings.HasPrefix(x.SecretKey, "file:"):
		it.Keys = "FILE"
	}
	return it
}

// known finds a context by its name.
func (f *clientFile) known(name string) error {
	if f.Contexts[name] != nil {
		return nil
	}
	m := fail(ExitNotFound, "CONTEXT_NOT_FOUND", "there is no context %q", name)
	for _, n := range nearest(name, f.names()) {
		m.offer(n)
	}
	if len(f.Contexts) == 0 {
		m.reason("no context is remembered in %s", f.path)
		m.offer("mqctl context add " + name + " --namesrv HOST:9876")
	}
	return m
}

func runContextAdd(_ context.Context, c *call) (*result, error) {
	f, name := c.file, c.arg(0)
	if !contextName().MatchString(name) {
		return nil, usage("BAD_VALUE", "%q is no name for a context", name).because("letters, digits, _ and - are possible, 64 at most")
	}
	var x clientContext
	if had := f.Contexts[name]; had != nil {
		x = *had
	}
	if err := c.contextChanges(&x); err != nil {
		return nil, err
	}
	if len(x.Namesrv) == 0 {
		return nil, usage("FLAG_MISSING", "context add needs --namesrv").because("nothing was written").try("mqctl context add "+name+" --namesrv HOST:9876").lacks(c.cmd, c.old, c.flag("namesrv"), c.values)
	}
	text := putSection(f.text, "context."+name, x.lines())
	if x.TLS != (clientTLS{}) {
		text = putSection(text, "context."+name+".tls", x.TLS.lines())
	}
	if c.on("use") || len(f.Contexts) == 0 {
		text = putCurrent(text, name)
	}
	err := f.edited(text, func(now *clientFile) bool {
		y := now.Contexts[name]
		return y != nil && slices.Equal(x.Namesrv, y.Namesrv) && x.Cluster == y.Cluster && x.Protected == y.Protected && x.ReadOnly == y.ReadOnly &&
			x.SecretKey == y.SecretKey && x.TLS == y.TLS && len(now.Contexts) >= len(f.Contexts)
	})
	if err != nil {
		return nil, err
	}
	return c.afterwards(name)
}

// contextChanges overlays the flags that were given.
func (c *call) contextChanges(x *clientContext) error {
	if c.given("namesrv") {
		addrs, err := addresses(c.list("namesrv"))
		if err != nil {
			return err
		}
		x.Namesrv = addrs
	}
	for key, to := range map[string]*string{
		"cluster": &x.Cluster, "accent": &x.Accent, "access-key": &x.AccessKey,
		"tls-ca": &x.TLS.CA, "tls-cert": &x.TLS.Cert, "tls-key": &x.TLS.Key, "tls-server-name": &x.TLS.ServerName,
	} {
		if c.given(key) {
			*to = c.str(key)
		}
	}
	for key, to := range map[string]*bool{"protected": &x.Protected, "read-only": &x.ReadOnly, "tls": &x.TLS.Enable} {
		if c.given(key) {
			*to = c.on(key)
		}
	}
	switch {
	case c.given("secret-key-file") && c.given("secret-key-env"):
		return usage("CONTRADICTION", "--secret-key-file and --secret-key-env exclude each other")
	case c.given("secret-key-file"):
		x.SecretKey = "file:" + c.str("secret-key-file")
	case c.given("secret-key-env"):
		x.SecretKey = "env:" + c.str("secret-key-env")
	}
	if strings.HasPrefix(x.AccessKey, "cmd:") {
		m := cmdRefused("--access-key")
		m.ExitCode = ExitUsage
		return m
	}
	return nil
}

// lines are the settings of a section as TOML; nil is a setting that goes.
func (x *clientContext) lines() []setting {
	list := make([]string, len(x.Namesrv))
	for i, a := range x.Namesrv {
		list[i] = quoted(a)
	}
	return []setting{
		{"namesrv", "[" + strings.Join(list, ", ") + "]"},
		{"cluster", quotedOrNone(x.Cluster)}, {"protected", trueOrNone(x.Protected)}, {"accent", quotedOrNone(x.Accent)},
		{"read_only", trueOrNone(x.ReadOnly)}, {"access_key", quotedOrNone(x.AccessKey)}, {"secret_key", quotedOrNone(x.SecretKey)},
	}
}

func (t clientTLS) lines() []setting {
	return []setting{
		{"enable", fmt.Sprint(t.Enable)}, {"ca", quotedOrNone(t.CA)}, {"cert", quotedOrNone(t.Cert)}, {"key", quotedOrNone(t.Key)},
		{"server_name", quotedOrNone(t.ServerName)},
	}
}

// afterwards reads the file again and shows one context.
func (c *call) afterwards(name string) (*result, error) {
	f, err := loadClientFile(c.io.Env)
	if err != nil {
		return nil, err
	}
	return &result{items: []any{f.item(name)}}, nil
}

func runContextUse(_ context.Context, c *call) (*result, error) {
	f, name := c.file, c.arg(0)
	if err := f.known(name); err != nil {
		return nil, err
	}
	err := f.edited(putCurrent(f.text, name), func(now *clientFile) bool {
		return now.Current == name && len(now.Contexts) == len(f.Contexts)
	})
	if err != nil {
		return nil, err
	}
	return c.afterwards(name)
}

func runContextList(_ context.Context, c *call) (*result, error) {
	r := &result{empty: "no context is remembered; mqctl context add NAME --namesrv HOST:9876"}
	for _, n := range c.file.names() {
		r.add(c.file.item(n))
	}
	return r, nil
}

func runContextShow(_ context.Context, c *call) (*result, error) {
	name := firstOf(c.arg(0), c.io.Env("MQCTL_CONTEXT"), c.file.Current)
	if name == "" {
		return nil, fail(ExitNotFound, "CONTEXT_NOT_FOUND", "no context is chosen").try("mqctl context list", "mqctl context use NAME")
	}
	if err := c.file.known(name); err != nil {
		return nil, err
	}
	return &result{items: []any{c.file.item(name)}}, nil
}

func runContextRm(_ context.Context, c *call) (*result, error) {
	f, name := c.file, c.arg(0)
	if err := f.known(name); err != nil {
		return nil, err
	}
	gone := f.item(name)
	text := dropSections(f.text, "context."+name)
	if f.Current == name {
		text = putCurrent(text, "")
	}
	err := f.edited(text, func(now *clientFile) bool {
		return now.Contexts[name] == nil && len(now.Contexts) == len(f.Contexts)-1
	})
	if err != nil {
		return nil, err
	}
	gone.Current = false
	return &result{items: []any{gone}}, nil
}

func runContextTest(ctx context.Context, c *call) (*result, error) {
	names := c.args
	if len(names) == 0 {
		names = c.file.names()
		if len(names) == 0 {
			return nil, fail(ExitNotFound, "CONTEXT_NOT_FOUND", "no context is remembered in %s", c.file.path).try("mqctl context add NAME --namesrv HOST:9876")
		}
	}
	r := &result{}
	for _, n := range names {
		if err := c.file.known(n); err != nil {
			return nil, err
		}
	}
	for _, n := range names {
		it := c.file.item(n)
		err := c.reach(ctx, n)
		it.Reachable = ptr(err == nil)
		if err != nil {
			m := *asMessage(err)
			m.Target = n
			m.Text = "context " + n + ": " + m.Text
			m.Try = nil
			r.failed(&m)
		} else {
			r.done++
		}
		r.add(it)
	}
	return r, nil
}

// reach asks the nameservers of one context for their clusters.
func (c *call) reach(ctx context.Context, name string) error {
	c.active.Name, c.active.settings = name, c.file.Contexts[name]
	addrs, err := addresses(c.active.settings.Namesrv)
	if err != nil {
		return err
	}
	o, err := c.adminOptions(addrs)
	if err != nil {
		return err
	}
	client := admin.New(o)
	defer client.Close()
	if _, err := client.Cluster(ctx); err != nil {
		return c.explain(err)
	}
	return nil
}
