package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func runConfigShow(_ context.Context, c *call) (*result, error) {
	r := &result{}
	if c.arg(0) != "" {
		items, warnings, err := brokerFileSettings(c, c.arg(0))
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			r.add(it)
		}
		for _, w := range warnings {
			r.warn(warning("CONFIG", c.arg(0), "%s", w))
		}
	} else if err := c.clientShow(r); err != nil {
		return nil, err
	}
	if c.on("origin") && len(c.p.fields) == 0 && c.p.format == "table" {
		c.p.fields = []string{"key", "value", "origin"}
	}
	return r, nil
}

// clientShow lists the settings of this program with where each came from.
func (c *call) clientShow(r *result) error {
	f := c.clientSettings()
	add := func(key, value, origin string) {
		if !c.on("changed") || origin != "built-in" {
			r.add(configShowItem{Key: key, Value: value, Origin: origin})
		}
	}
	from := "HOME"
	switch {
	case c.io.Env("MQCTL_CONFIG") != "":
		from = "env MQCTL_CONFIG"
	case filepath.IsAbs(c.io.Env("XDG_CONFIG_HOME")):
		from = "env XDG_CONFIG_HOME"
	}
	if f.text == "" {
		from += " (no such file)"
	}
	add("file", f.path, from)
	name, origin := c.io.Env("MQCTL_CONTEXT"), "env MQCTL_CONTEXT"
	if name == "" {
		name, origin = f.Current, "file current"
	}
	if name == "" {
		origin = "built-in"
	}
	add("context", name, origin)
	x := f.Contexts[name]
	if x == nil {
		if name != "" {
			return f.known(name)
		}
		x = &clientContext{}
	}
	d := f.Defaults
	for _, row := range []struct{ key, context, def string }{
		{"namesrv", strings.Join(x.Namesrv, ","), ""}, {"cluster", x.Cluster, ""}, {"output", x.Output, d.Output}, {"timeout", x.Timeout, d.Timeout},
		{"deadline", "", ""}, {"units", "", d.Units}, {"time", "", d.Time}, {"color", "", d.Color}, {"log-level", "", d.LogLevel},
	} {
		value, origin := c.effective(row.key, name, row.context, row.def)
		add(row.key, value, origin)
	}
	c.showRest(f, x, name, add)
	return nil
}

// effective is the value of a common flag by environment, context, defaults of
// the file and built-in value.
func (c *call) effective(key, name, inContext, inDefaults string) (value, origin string) {
	for i := range commonFlags {
		f := &commonFlags[i]
		if f.key != key {
			continue
		}
		if c.given(key) {
			return c.str(key), "flag --" + key
		}
		for _, v := range f.env {
			if s := c.io.Env(v); s != "" {
				return s, "env " + v
			}
		}
		if v := colourWish(c.io.Env); key == "color" && v != "" {
			return map[bool]string{true: "always", false: "never"}[strings.Contains(v, "FORCE")], "env " + v
		}
		value = f.def
	}
	switch {
	case inContext != "":
		return inContext, "context " + name
	case inDefaults != "":
		return inDefaults, "file defaults." + strings.ReplaceAll(key, "-", "_")
	}
	return value, "built-in"
}

// showRest adds what no flag stands for.
func (c *call) showRest(f *clientFile, x *clientContext, name string, add func(key, value, origin string)) {
	d := f.Defaults
	either := func(key, value, def string) {
		if value != "" {
			add(key, value, "file defaults."+key)
			return
		}
		add(key, def, "built-in")
	}
	either("confirm", d.Confirm, "impact")
	audit, history := "", ""
	if d.Audit != nil {
		audit = fmt.Sprint(*d.Audit)
	}
	if d.History != nil {
		history = fmt.Sprint(*d.History)
	}
	either("audit", audit, "true")
	if v := c.io.Env("MQCTL_AUDIT"); v != "" {
		add("audit_file", v, "env MQCTL_AUDIT")
	} else {
		either("audit_file", d.AuditFile, filepath.Join(stateDir(c.io.Env), "audit.jsonl"))
	}
	either("history", history, "2000")
	for _, v := range []struct{ key, env string }{{"history_file", "MQCTL_HISTORY"}, {"pager", "MQCTL_PAGER"}, {"yes", "MQCTL_YES"}, {"dry-run", "MQCTL_DRY_RUN"},
		{"reason", "MQCTL_REASON"}, {"compat", "MQCTL_COMPAT"}, {"rocketmq_home", "ROCKETMQ_HOME"}} {
		if value := c.io.Env(v.env); value != "" {
			add(v.key, value, "env "+v.env)
		} else {
			add(v.key, "", "built-in")
		}
	}
	either("completion_timeout", d.CompletionTimeout, "300ms")
	for _, s := range []struct{ key, env, value string }{{"access_key", "MQCTL_ACCESS_KEY", x.AccessKey}, {"secret_key", "MQCTL_SECRET_KEY", x.SecretKey}} {
		switch {
		case c.io.Env(s.env) != "":
			add(s.key, "(hidden)", "env "+s.env)
		case c.io.Env(s.env+"_FILE") != "":
			add(s.key, "(hidden)", "env "+s.env+"_FILE")
		case strings.HasPrefix(s.value, "env:") || strings.HasPrefix(s.value, "file:"):
			add(s.key, s.value, "context "+name)
		case s.value != "":
			add(s.key, "(hidden)", "context "+name)
		default:
			add(s.key, "", "built-in")
		}
	}
	c.showContext(f, x, name, add)
}

// showContext adds what only the client file says.
func (c *call) showContext(f *clientFile, x *clientContext, name string, add func(key, value, origin string)) {
	said := func(key, value, none, origin string) {
		if value == none {
			origin = "built-in"
		}
		add(key, value, origin)
	}
	from := "context " + name
	said("protected", strconv.FormatBool(x.Protected), "false", from)
	said("read_only", strconv.FormatBool(x.ReadOnly), "false", from)
	said("accent", x.Accent, "", from)
	said("tls", strconv.FormatBool(x.TLS.Enable), "false", from)
	for _, t := range []struct{ key, value string }{{"ca", x.TLS.CA}, {"cert", x.TLS.Cert}, {"key", x.TLS.Key}, {"server_name", x.TLS.ServerName}} {
		if t.value != "" {
			add("tls."+t.key, t.value, from)
		}
	}
	if x.TLS.SkipVerify {
		add("tls.skip_verify", "true", from)
	}
	said("top.refresh", f.Top.Refresh, "", "file top.refresh")
	said("top.panel", f.Top.Panel, "", "file top.panel")
	for _, alias := range sortedKeys(f.Alias) {
		add("alias."+alias, f.Alias[alias], "file alias")
	}
}

// runConfigInit makes a broker's file with what was asked and the settings that
// are thought about first.
func runConfigInit(_ context.Context, c *call) (*result, error) {
	role := c.str("role")
	id := c.str("id")
	switch {
	case id == "" && role == "slave":
		id = "1"
	case id == "":
		id = "0"
	case role == "slave" && id == "0":
		return nil, usage("CONTRADICTION", "a slave needs an id above 0").because("nothing was written").try("--id 1")
	case role != "slave" && id != "0":
		return nil, usage("CONTRADICTION", "a master has the id 0").because("nothing was written").try("--role slave --id " + id)
	}
	addrs, err := addresses(c.list("namesrv"))
	if err != nil {
		return nil, err
	}
	name := firstOf(c.str("name"), "broker-a")
	java := map[string]string{"master": "ASYNC_MASTER", "sync-master": "SYNC_MASTER", "slave": "SLAVE"}[role]
	var b strings.Builder
	fmt.Fprintf(&b, "# A broker of mqctl: mqctl broker start -c FILE\n# All settings: mqctl config keys. What one means: mqctl config explain KEY\n\n")
	fmt.Fprintf(&b, "[broker]\nbrokerClusterName = %s\nbrokerName = %s\nbrokerId = %s\nbrokerRole = %s\n", quoted(firstOf(c.str("cluster"), "DefaultCluster")), quoted(name), id, quoted(java))
	fmt.Fprintf(&b, "\n[network]\nlistenPort = 10911\n# brokerIP1 = \"10.0.0.4\"    # told to clients; the first address that is not loopback unless set\n\n[nameserver]\n")
	if len(addrs) > 0 {
		fmt.Fprintf(&b, "namesrvAddr = %s\n", quoted(strings.Join(addrs, ";")))
	} else {
		b.WriteString("# namesrvAddr = \"10.0.0.4:9876;10.0.0.5:9876\"\n")
	}
	b.WriteString("\n[store]\n")
	if dir := c.str("store"); dir != "" {
		fmt.Fprintf(&b, "storePathRootDir = %s\n", quoted(dir))
	} else {
		fmt.Fprintf(&b, "# storePathRootDir = \"/data/mq/%s\"\n", name)
	}
	b.WriteString("\n[flush]\nflushDiskType = \"ASYNC_FLUSH\"    # SYNC_FLUSH: a send is answered when its message is on the disk\n\n[ha]\n")
	if role == "slave" {
		b.WriteString("# haMasterAddress = \"10.0.0.4:10912\"    # told by the nameserver unless set\n")
	} else {
		b.WriteString("# inSyncReplicas = 2    # how many replicas a send of a SYNC_MASTER waits for, the master included\n")
	}
	b.WriteString("\n[read]\nslaveReadEnable = false    # true: groups that are far behind read from a slave\n")
	text := []byte(b.String())
	r := &result{}
	if _, err := lintFile(c, r, firstOf(c.str("out"), c.outFile, "broker.toml"), text); err != nil {
		return nil, err
	}
	if len(r.errors) > 0 {
		return &result{errors: r.errors}, nil
	}
	return c.deliver(r, "", nil, text)
}

// isFile tells a path from the name of an output format, for commands where -o
// may name the file to write.
func isFile(text string) bool {
	if strings.ContainsAny(text, "./"+string(os.PathSeparator)) {
		return !strings.HasPrefix(text, "template=")
	}
	return false
}
