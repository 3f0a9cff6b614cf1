package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"

	"mqctl/broker"
	"mqctl/store/vfs"
)

// configFileItem is one setting of a configuration file.
type configFileItem struct {
	File       string  `json:"file"`
	Line       int     `json:"line" min:"0"`
	Key        string  `json:"key"`
	Value      string  `json:"value"`
	Class      string  `json:"class" enum:"SAME|OURS|NO_EFFECT|ABSENT|OLD|FOREIGN|UNKNOWN"`
	Problem    *string `json:"problem"`
	Note       *string `json:"note"`
	Suggestion *string `json:"suggestion"`
}

// configKeyItem is one documented setting.
type configKeyItem struct {
	Key     string   `json:"key"`
	Section string   `json:"section"`
	Type    string   `json:"type"`
	Default *string  `json:"default"` // null: it depends on the machine
	Applies string   `json:"applies" enum:"LIVE|RECONNECT|RESTART"`
	Class   string   `json:"class" enum:"SAME|OURS|NO_EFFECT|ABSENT|OLD|FOREIGN"`
	Program string   `json:"program" enum:"broker|nameserver|controller|container"`
	Beans   []string `json:"apacheClasses"` // classes of RocketMQ that have it
	Apache  *string  `json:"apacheName"`    // null: RocketMQ has no such setting
	Values  []string `json:"values"`        // of a choice
	Env     string   `json:"environment"`
	Text    string   `json:"text"`
}

// configShowItem is one value in force with where it came from.
type configShowItem struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configCommands() []*command {
	files := view{
		item: configFileItem{}, name: func(item any) string { return item.(configFileItem).Key },
		columns: []column{
			{head: "LINE", field: "line"}, {head: "KEY", field: "key"}, {head: "CLASS", field: "class"}, {head: "PROBLEM", field: "problem"},
			{head: "NOTE", field: "note"}, {head: "SUGGESTION", field: "suggestion"}, {head: "VALUE", field: "value", wide: true}, {head: "FILE", field: "file", wide: true},
		},
	}
	unknown := flagSpec{key: "allow-unknown", kind: kindBool, help: "settings that nobody knows are notes, not problems"}
	program := flagSpec{key: "program", kind: kindEnum, enum: []string{"broker", "nameserver", "controller", "container"}, meta: "WHAT", help: "whose file it is; found out by its settings unless given"}
	keysView := view{
		item: configKeyItem{}, name: func(item any) string { return item.(configKeyItem).Key },
		columns: []column{
			{head: "KEY", field: "key"}, {head: "SECTION", field: "section"}, {head: "TYPE", field: "type"}, {head: "DEFAULT", field: "default"},
			{head: "APPLIES", field: "applies"}, {head: "CLASS", field: "class"}, {head: "PROGRAM", field: "program", wide: true}, {head: "TEXT", field: "text", wide: true},
		},
	}
	return []*command{
		{
			path: "config convert", summary: "a broker's properties file as TOML, or back", args: "FILE", min: 1, max: 1, argFrom: "file", attrs: local, outFile: true,
			run: runConfigConvert, schema: "mqctl.config.convert/v1", exits: []int{ExitBadConfig}, view: files,
			examples: []string{"mqctl config convert /etc/rocketmq/broker.conf --out broker.toml", "mqctl config convert broker.toml --to properties", "mqctl config convert broker.conf --in-place"},
			flags: []flagSpec{
				{key: "out", meta: "FILE", complete: "file", help: "write there instead of stdout; -o FILE means the same"},
				{key: "to", kind: kindEnum, enum: []string{"toml", "properties"}, meta: "FORMAT", help: "toml or properties; the other one of the file's unless given"},
				{key: "in-place", kind: kindBool, help: "replace the file; FILE.bak keeps what it was"}, unknown, program,
			},
		},
		{
			path: "config lint", summary: "check a configuration file", args: "FILE", min: 1, max: 1, argFrom: "file", attrs: local,
			run: runConfigLint, schema: "mqctl.config.lint/v1", exits: []int{ExitBadConfig}, view: files,
			examples: []string{"mqctl config lint /etc/rocketmq/broker.conf", "mqctl config lint broker.toml --all"},
			flags:    []flagSpec{{key: "all", kind: kindBool, help: "settings without a remark too"}, unknown, program},
		},
		{
			path: "config init", summary: "make a configuration file", attrs: local, run: runConfigInit, schema: "mqctl.config.init/v1", exits: []int{ExitBadConfig}, view: files, outFile: true,
			examples: []string{"mqctl config init --role slave --name broker-a --namesrv 10.0.0.4:9876 --out broker.toml", "mqctl config init"},
			flags: []flagSpec{
				{key: "role", kind: kindEnum, enum: []string{"master", "sync-master", "slave"}, def: "master", meta: "ROLE", help: "master, sync-master or slave"},
				{key: "name", meta: "NAME", help: "brokerName"}, {key: "cluster", meta: "NAME", help: "brokerClusterName"},
				{key: "id", kind: kindInt, min: 0, max: 1 << 30, meta: "N", help: "brokerId; 1 for a slave"},
				{key: "namesrv", letter: "n", kind: kindList, meta: "LIST", help: "nameservers to register at"},
				{key: "store", meta: "DIR", help: "folder of the store"},
				{key: "out", meta: "FILE", complete: "file", help: "write there instead of stdout; an existing file stays"},
			},
		},
		{
			path: "config show", summary: "settings of this program, or of a broker's file, as they would be in force", args: "[FILE]", max: 1, argFrom: "file", attrs: local,
			run: runConfigShow, schema: "mqctl.config.show/v1", exits: []int{ExitBadConfig},
			examples: []string{"mqctl config show --origin", "mqctl config show /etc/mqctl/broker.toml --changed"},
			flags:    []flagSpec{{key: "origin", kind: kindBool, help: "where each value came from"}, {key: "changed", kind: kindBool, help: "only what differs from the default"}},
			view: view{
				item: configShowItem{}, name: func(item any) string { return item.(configShowItem).Key },
				columns: []column{{head: "KEY", field: "key"}, {head: "VALUE", field: "value"}, {head: "ORIGIN", field: "origin", wide: true}},
			},
		},
		{
			path: "config keys", summary: "all documented settings of brokers", attrs: local, run: runConfigKeys, schema: "mqctl.config.keys/v1", view: keysView,
			examples: []string{"mqctl config keys --section ha", "mqctl config keys --filter 'applies==LIVE' -o name"},
			flags: []flagSpec{
				{key: "section", meta: "SECTION", help: "only those of one section"},
				{key: "class", kind: kindEnum, enum: []string{"SAME", "OURS", "NO_EFFECT", "ABSENT", "OLD", "FOREIGN"}, meta: "CLASS", help: "only those of one class"},
			},
		},
		{
			path: "config explain", summary: "meaning of a setting", args: "KEY...", min: 1, max: -1, argFrom: "key", attrs: local, run: runConfigExplain,
			schema: "mqctl.config.explain/v1", exits: []int{ExitNotFound}, view: explainView(keysView), examples: []string{"mqctl config explain haMaxGapNotInSync"},
		},
	}
}

// readLocalFile reads the file of a config command.
func readLocalFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
	case info.IsDir():
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "%s is a folder", name)
	case !info.Mode().IsRegular():
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "%s is no regular file", name)
	default:
		return readConfigFile(name)
	}
	return nil, unreadableConfig(name, err)
}

// lintFile gives the items of a file and its problems as errors of the result.
func lintFile(c *call, r *result, name string, data []byte) (isTOML bool, err error) {
	_, isTOML, found, err := broker.Lint(name, data, c.str("program"))
	if err != nil {
		return isTOML, badConfig(err)
	}
	for _, s := range found {
		it := configFileItem{File: name, Line: s.Line, Key: s.Key, Value: hideSecret(s.Key, s.Value), Class: string(s.Class)}
		problem, note := s.Problem, s.Note
		if s.Class == broker.ClassUnknown && c.on("allow-unknown") {
			problem, note = "", problem
		}
		it.Problem, it.Note, it.Suggestion = orNull(problem), orNull(note), orNull(s.Try)
		r.add(it)
		if problem == "" {
			continue
		}
		e := &broker.ConfigError{File: name, Line: s.Line, Key: s.Key, Why: problem}
		m := fail(ExitBadConfig, "BAD_CONFIG", "%s", e.Error())
		if s.Class == broker.ClassUnknown {
			m.Code = "UNKNOWN_KEY"
		}
		if s.Try != "" {
			m.offer(s.Try)
		} else if s.Class != broker.ClassUnknown {
			m.offer("mqctl config explain " + s.Key)
		}
		r.failed(m)
	}
	return isTOML, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func runConfigLint(_ context.Context, c *call) (*result, error) {
	data, err := readLocalFile(c.arg(0))
	if err != nil {
		return nil, err
	}
	all := &result{}
	if _, err := lintFile(c, all, c.arg(0), data); err != nil {
		return nil, err
	}
	r := &result{errors: all.errors, empty: count(len(all.items), "setting") + ", nothing to remark"}
	for _, item := range all.items {
		it := item.(configFileItem)
		if c.on("all") || it.Problem != nil || it.Note != nil || it.Suggestion != nil {
			r.add(it)
		}
	}
	return r, nil
}

func runConfigConvert(_ context.Context, c *call) (*result, error) {
	name := c.arg(0)
	data, err := readLocalFile(name)
	if err != nil {
		return nil, err
	}
	r := &result{}
	isTOML, err := lintFile(c, r, name, data)
	if err != nil {
		return nil, err
	}
	// What is of another program or a feature that is not built is converted all the
	// same: nothing is started here, and lint and start say it. What nobody knows may
	// be a typing error.
	var unknown []Message
	for _, m := range r.errors {
		if m.Code == "UNKNOWN_KEY" {
			unknown = append(unknown, m)
			continue
		}
		m.ExitCode = 0
		r.warn(m)
	}
	r.errors = unknown
	if len(unknown) > 0 {
		if c.p.format == "table" {
			r.items = nil // stdout is for the converted file
		}
		return r, nil
	}
	to := c.str("to")
	if to == "" {
		to = map[bool]string{true: "properties", false: "toml"}[isTOML]
	}
	convert := broker.ToTOML
	if to == "properties" {
		convert = broker.ToProperties
	}
	text, err := convert(name, data)
	if err != nil {
		return nil, badConfig(err)
	}
	return c.deliver(r, name, data, text)
}

// deliver writes a made file where the flags say.
func (c *call) deliver(r *result, name string, before, text []byte) (*result, error) {
	out := firstOf(c.str("out"), c.outFile)
	switch {
	case c.on("in-place") && out != "":
		return nil, usage("CONTRADICTION", "--in-place and --out exclude each other")
	case c.on("in-place"):
		if bytes.Equal(before, text) {
			return r, nil
		}
		if err := os.WriteFile(name+".bak", before, 0o600); err != nil {
			return nil, fail(ExitFailed, "NOT_SAVED", "cannot keep the old file: %v", err)
		}
		if err := replaceFile(name, text); err != nil {
			return nil, fail(ExitFailed, "NOT_SAVED", "cannot write the file: %v", err)
		}
		return r, nil
	case out != "":
		mode := os.FileMode(0o644)
		if info, err := os.Stat(name); err == nil && name != "" {
			mode = info.Mode().Perm() &^ 0o111 // what others may not read they may not read in another form
		}
		f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, os.ErrExist) {
			if had, err := os.ReadFile(out); err == nil && bytes.Equal(had, text) {
				return r, nil // as a second run of a script finds it
			}
			return nil, fail(ExitAborted, "FILE_EXISTS", "%s is already there; nothing was written", out).try("another --out", "rm "+shellWord(out))
		}
		if err == nil {
			_, err = f.Write(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, fail(ExitFailed, "NOT_SAVED", "cannot write the file: %v", err)
		}
		return r, nil
	case c.p.format == "table":
		r.raw = text
	}
	return r, nil
}

func runConfigKeys(_ context.Context, c *call) (*result, error) {
	r := &result{}
	section := c.str("section")
	known := map[string]bool{}
	for _, e := range broker.Catalog() {
		known[e.Key.Section] = true
		if section != "" && e.Key.Section != section || c.given("class") && string(e.Class) != c.str("class") {
			continue
		}
		r.add(keyItem(e))
	}
	if section != "" && !known[section] {
		return nil, usage("BAD_VALUE", "there is no section %q", section).because("there are: %s", strings.Join(sortedKeys(known), ", ")).try(nearest(section, sortedKeys(known))...)
	}
	return r, nil
}

func keyItem(e broker.CatalogEntry) configKeyItem {
	k := e.Key
	it := configKeyItem{
		Key: k.Name, Section: k.Section, Type: k.Kind.String(), Applies: string(k.Applies), Class: string(e.Class), Program: e.Program,
		Beans: append([]string{}, e.Beans...), Values: append([]string{}, k.Values...), Text: k.Text, Env: broker.EnvName(k.Name),
	}
	if !k.Computed {
		it.Default = ptr(k.Default)
	}
	if len(e.Beans) > 0 {
		it.Apache = ptr(k.Name)
	}
	if e.Program != "broker" {
		it.Env = ""
	}
	return it
}

func runConfigExplain(_ context.Context, c *call) (*result, error) {
	r := &result{}
	for _, name := range c.args {
		found := broker.CatalogOf(name)
		if len(found) == 0 {
			m := fail(ExitNotFound, "UNKNOWN_KEY", "there is no setting %q", name)
			if near := broker.NearestSetting(name); near != "" {
				m.offer("mqctl " + c.cmd.path + " " + near)
			} else if _, err := os.Stat(name); err == nil {
				m.reason("it is a file; nothing was sent")
				m.offer("mqctl config lint "+shellWord(name), "mqctl broker start -c "+shellWord(name)+" --print-config")
			}
			r.failed(m)
			continue
		}
		r.done++
		for _, e := range found {
			r.add(keyItem(e))
		}
	}
	return r, nil
}

// brokerFileSettings are the settings that a broker started from a file would have.
func brokerFileSettings(c *call, name string) ([]configShowItem, []string, error) {
	data, err := readLocalFile(name)
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	cfg, err := broker.LoadConfig(broker.ConfigInput{
		File: name, Data: data, Env: os.Environ(), HostName: host, HomeDir: c.io.Env("HOME"), LocalIP: localIP(), CPUs: runtime.NumCPU(), FS: vfs.OS{},
	})
	if err != nil {
		return nil, nil, badConfig(err)
	}
	var out []configShowItem
	for _, s := range cfg.Effective() {
		if !c.on("changed") || s.Changed() {
			out = append(out, configShowItem{Key: s.Key.Name, Value: hideSecret(s.Key.Name, s.Value), Origin: s.Origin.String()})
		}
	}
	return out, cfg.Warnings(), nil
}

// keysNamed are the settings of a name, an old spelling included.
func keysNamed(name string) []configKeyItem {
	var out []configKeyItem
	for _, e := range broker.CatalogOf(name) {
		out = append(out, keyItem(e))
	}
	return out
}

// fileValues are the settings that a broker's file makes, by key.
func fileValues(name string) (map[string]string, error) {
	data, err := readLocalFile(name)
	if err != nil {
		return nil, err
	}
	_, _, found, err := broker.Lint(name, data, "broker")
	if err != nil {
		return nil, badConfig(err)
	}
	out := map[string]string{}
	for _, s := range found {
		key := s.Key
		if k := broker.LookupKey(key); k != nil {
			key = k.Name
		}
		if s.Class == broker.ClassUnknown {
			return nil, configMessage(&broker.ConfigError{File: name, Line: s.Line, Key: s.Key, Why: s.Problem, Try: s.Try})
		}
		out[key] = strings.TrimRight(s.Value, " \t")
	}
	return out, nil
}
