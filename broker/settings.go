package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// Settings are the values of all keys of a running broker: what request 26
// shows and request 25 changes.
type Settings struct {
	fs    vfs.FS
	path  string // where changes are saved
	toml  bool
	saved bool // path is ours, not a file somebody wrote
	now   func() time.Time

	mu       sync.Mutex // one change at a time; held while it is saved
	onChange []func(r Reloadable, changed []string)
	cur      atomic.Pointer[settingsState]
}

// settingsState is one immutable picture of the values.
type settingsState struct {
	config  *Config
	version table.DataVersion
	live    Reloadable
}

func newSettings(c *Config, fsys vfs.FS) *Settings {
	s := &Settings{fs: fsys, path: c.File, toml: c.TOML, now: c.in.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.path == "" {
		s.path, s.saved = c.savedPath(), true
	}
	s.cur.Store(&settingsState{config: c, live: reloadable(c.Value), version: table.DataVersion{Timestamp: s.now().UnixMilli()}})
	return s
}

// Live is the current set of values that act at once. Do not modify it.
func (s *Settings) Live() *Reloadable { return &s.cur.Load().live }

// setRole shows a role that was changed while the broker ran in the place of what
// the file says, and gives the values that are computed from the role, such as
// inSyncReplicas of a synchronous master.
func (s *Settings) setRole(role Role, id int64) *Reloadable {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.cur.Load()
	next := &Config{File: st.config.File, TOML: st.config.TOML, in: st.config.in, values: make(map[string]*Setting, len(st.config.values))}
	for name, v := range st.config.values {
		copied := *v
		next.values[name] = &copied
	}
	for key, value := range map[string]string{"brokerRole": role.String(), "brokerId": strconv.FormatInt(id, 10)} {
		if v := next.values[key]; v.Value != value {
			v.Value, v.Origin = value, Origin{Kind: "role"}
		}
	}
	next.recomputeDefaults()
	st.config, st.live = next, reloadable(next.Value)
	s.cur.Store(&st)
	return &st.live
}

// OnChange adds a function that is called after each change, with the new
// values that act at once and the keys that changed, before the change is
// acknowledged. Call it before the broker serves requests.
func (s *Settings) OnChange(f func(r Reloadable, changed []string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, f)
}

// Effective lists every setting by key.
func (s *Settings) Effective() []Setting { return s.cur.Load().config.Effective() }

// Value is the current value of a key in its kept form.
func (s *Settings) Value(key string) string { return s.cur.Load().config.Value(key) }

// Text is the answer to GET_BROKER_CONFIG: a line "key=value" for each key in
// byte order, as MixAll.properties2String writes them, without the keys that
// RocketMQ leaves null. Secrets are Hidden, unlike RocketMQ's: everybody may ask.
func (s *Settings) Text() ([]byte, table.DataVersion) {
	st := s.cur.Load()
	var b []byte
	for _, k := range KnownKeys() {
		v := st.config.values[k.Name].Value
		if v == "" && k.Optional {
			continue
		}
		if v != "" && k.Secret {
			v = Hidden
		}
		b = append(b, k.Name...)
		b = append(b, '=')
		b = append(b, strings.ReplaceAll(v, `\`, `\\`)...)
		b = append(b, '\n')
	}
	return b, st.version
}

// blackListed is RocketMQ's remark for keys that may not be changed.
const blackListed = "Can not update config in black list."

// blackList are the keys that no admin tool may change: three fixed ones
// (AdminBrokerProcessor.configBlackList) and those the configuration names.
func (c *Config) blackList() map[string]bool {
	m := map[string]bool{"configBlackList": true, "brokerConfigPath": true, "rocketmqHome": true}
	for name := range strings.SplitSeq(c.Value("configBlackList"), ";") {
		m[strings.TrimSpace(name)] = true
	}
	return m
}

// Apply is UPDATE_BROKER_CONFIG: all of a properties text or nothing. Values
// are checked, saved durably, made live and only then acknowledged. The remark
// says what a change needs besides. A refusal is a *remoting.Error: 16 for a
// key on the black list, 29 for an unknown key or a bad value (RocketMQ ignores
// both in silence), 1 if the change could not be saved.
func (s *Settings) Apply(text []byte) (remark string, err error) { return s.apply(text, true) }

// apply is Apply; without keep the change ends with the process.
func (s *Settings) apply(text []byte, keep bool) (remark string, err error) {
	if len(text) > maxConfigBytes {
		return "", &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: fmt.Sprintf("the text is longer than %d bytes", maxConfigBytes)}
	}
	entries, err := parseProperties(configText(text))
	if err != nil {
		return "", &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.cur.Load()
	next, changed, err := st.config.with(entries)
	if err != nil {
		return "", err
	}
	if len(changed) == 0 {
		return "", nil
	}
	if keep {
		err = s.save(next, changed)
	} else {
		for _, name := range changed {
			next.values[name].Origin = Origin{Kind: "live"}
		}
	}
	if err != nil {
		return "", &remoting.Error{Code: remoting.CodeSystemError, Remark: "the change was not made, as it could not be saved: " + err.Error()}
	}
	version := st.version.Next(s.now().UnixMilli())
	s.cur.Store(&settingsState{config: next, version: version, live: reloadable(next.Value)})
	for _, f := range s.onChange {
		f(s.cur.Load().live, changed)
	}
	return st.config.remark(changed, s.saved), nil
}

// with is the configuration with some values replaced, and the keys that are
// different then.
func (c *Config) with(entries []entry) (next *Config, changed []string, err error) {
	deny := c.blackList()
	for _, e := range entries {
		if deny[e.key] {
			return nil, nil, &remoting.Error{Code: remoting.CodeNoPermission, Remark: blackListed}
		}
	}
	next = &Config{File: c.File, TOML: c.TOML, in: c.in, values: make(map[string]*Setting, len(c.values))}
	for name, v := range c.values {
		copied := *v
		next.values[name] = &copied
	}
	var problems ConfigErrors
	for _, e := range entries {
		k := LookupKey(e.key)
		if k == nil {
			problems = append(problems, &ConfigError{Key: e.key, Why: "there is no such key", Try: didYouMean(NearestKey(e.key))})
			continue
		}
		v, err := k.Check(e.value)
		if err == nil && k.Secret && v == Hidden {
			err = errors.New("this stands for a value that is not shown, and is none itself")
		}
		if err == nil && v == "" && c.Value(k.Name) != "" && !k.Optional && k.Computed {
			err = errors.New("the value is empty")
		}
		if err != nil {
			problems = append(problems, &ConfigError{Key: e.key, Why: err.Error()})
			continue
		}
		s := next.values[k.Name]
		if s.Value = v; s.Origin.Kind == "default" && v != c.Value(k.Name) {
			s.Origin = Origin{Kind: "saved"}
		}
	}
	for _, k := range KnownKeys() {
		if next.values[k.Name].Value != c.values[k.Name].Value {
			changed = append(changed, k.Name)
		}
	}
	if len(problems) == 0 {
		next.recomputeDefaults()
		next.checkTogether(&problems)
		c.checkRoot(next, changed, &problems)
	}
	if len(problems) > 0 {
		for _, p := range problems {
			p.File, p.Line = "", 0
		}
		return nil, nil, &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: strings.ReplaceAll(problems.Error(), "\n", "; ")}
	}
	return next, changed, nil
}

// checkRoot refuses a change after which a restart would look for the store elsewhere: its
// folder is named after the broker where nobody gave it.
func (c *Config) checkRoot(next *Config, changed []string, problems *ConfigErrors) {
	root := next.values["storePathRootDir"]
	if root.Origin.Kind != "default" {
		return
	}
	for _, key := range []string{"brokerName", "brokerId"} {
		if slices.Contains(changed, key) && next.defaultRoot() != root.Value {
			*problems = append(*problems, &ConfigError{Key: key,
				Why: fmt.Sprintf("the store %s is named after it, and a restart would begin with an empty one", root.Value),
				Try: "give the folder by itself first, as storePathRootDir in the configuration or with --store"})
			return
		}
	}
}

// remark tells what the changed keys need to act. saved: changes are kept in
// our own file, which the environment and flags hide just as they hide a file.
func (c *Config) remark(changed []string, saved bool) string {
	var restart, inert, hidden []string
	for _, name := range changed {
		k := LookupKey(name)
		switch {
		case k.Use == Ignored:
			inert = append(inert, name)
		case k.Applies != Live:
			restart = append(restart, name)
		}
		if o := c.values[name].Origin; o.Kind == "env" || o.Kind == "set" || o.Kind == "flag" {
			hidden = append(hidden, fmt.Sprintf("%s (%s)", name, o))
		}
	}
	var parts []string
	for _, p := range []struct {
		text string
		keys []string
	}{{"restart needed", restart}, {"no effect in this broker", inert}, {"lost at the next start, as it is also set elsewhere", hidden}} {
		if len(p.keys) > 0 {
			parts = append(parts, p.text+": "+strings.Join(p.keys, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// save writes the changed keys into the file the broker was started from, or
// into its own: what else the file holds, comments too, stays.
func (s *Settings) save(next *Config, changed []string) error {
	data, err := readSmallFile(s.fs, s.path)
	if err != nil {
		return err
	}
	if data == nil {
		if !s.saved {
			return fmt.Errorf("%s is not there any more; put it back and try again", s.path)
		}
		data = []byte("# Settings changed by admin tools while the broker ran without a configuration file.\n")
	}
	values := make(map[string]string, len(changed))
	for _, name := range changed {
		values[name] = next.Value(name)
	}
	edit := editProperties
	if s.toml {
		edit = editTOML
	}
	out, err := edit(data, values)
	if err != nil {
		return fmt.Errorf("%s: %w; change the file by hand", s.path, err)
	}
	return replaceFile(s.fs, s.path, out)
}

// readSmallFile reads a configuration file; nil without an error if it is missing.
func readSmallFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxConfigBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than a configuration may (%d)", path, size, maxConfigBytes)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// replaceFile puts data in the place of path: a temporary file beside it is
// written, synced and renamed, and the rename made durable.
func replaceFile(fsys vfs.FS, path string, data []byte) error {
	if p, ok := fsys.(vfs.Places); ok {
		real, err := p.Place(path)
		if err != nil {
			return err
		}
		path = real
	}
	dir := filepath.Dir(path)
	if _, err := fsys.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := fsys.MkdirAll(dir); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	tmp := path + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if m, ok := fsys.(vfs.Modes); ok {
		err = m.CopyMode(path, tmp) // what others may not read stays so; a new file is its owner's
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(dir)
}
