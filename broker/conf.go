package broker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/delay"
	"mqctl/store/vfs"
)

// ConfigError says which setting cannot work, why, and what to do (exit 11).
type ConfigError struct {
	File string // "" if the value came from elsewhere
	Line int    // 0 if unknown
	Key  string // the setting, or the variable or flag that named it
	Why  string
	Try  string // what to do next, "" if that is plain
}

// Error is "FILE:LINE: KEY: why; try".
func (e *ConfigError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	} else if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Why)
	if e.Try != "" {
		b.WriteString("; " + e.Try)
	}
	return b.String()
}

// ConfigErrors are all problems of one configuration, at least one.
// errors.As finds the first as a *ConfigError.
type ConfigErrors []*ConfigError

// Error has one line for each problem.
func (e ConfigErrors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lists the problems.
func (e ConfigErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

// ConfigInput is everything a broker's configuration is made of. What comes
// later in this list wins: the built-in defaults, settings saved by admin tools
// (of a broker without a file), the file, the environment, Set, Flags.
type ConfigInput struct {
	File string // name of the file, for messages and for saving changes; "" means none
	Data []byte // its content
	// Env is the environment as os.Environ gives it. MQCTL_BROKER_<KEY> sets a
	// key (any spelling of the key, underscores and capitals apart). NAMESRV_ADDR
	// and MQCTL_NAMESRV are only the default of namesrvAddr, as in RocketMQ.
	Env   []string
	Set   []string          // KEY=VALUE of each --set
	Flags map[string]string // key -> value of each named flag that was given

	HostName string // default of brokerName
	HomeDir  string
	LocalIP  string // first address that is not loopback; "" means there is none
	CPUs     int

	// Now dates changes; nil means time.Now.
	Now func() time.Time

	// FS finds settings saved by admin tools; nil reads none.
	FS vfs.FS
}

// Origin says where a value came from.
type Origin struct {
	Kind  string // "default", "saved", "file", "env", "set", "flag", "role" (a change of roles) or "live" (a change that was not saved)
	Where string // file and line, or the variable
}

// String is "default", "file broker.conf:3", "env MQCTL_BROKER_BROKER_NAME", ...
func (o Origin) String() string { return strings.TrimSpace(o.Kind + " " + o.Where) }

// Setting is one key with its value.
type Setting struct {
	Key     *Key
	Value   string
	Default string // what Value would be if nobody had set it
	Origin  Origin
}

// Changed says whether the value differs from the default.
func (s Setting) Changed() bool { return s.Value != s.Default }

// Config is a complete, checked configuration.
type Config struct {
	File     string // "" if there was none
	TOML     bool   // the file's format
	warnings []string
	values   map[string]*Setting
	in       ConfigInput
	own      map[string]*Key // of another program than a broker; nil: a broker's

	held         *heldRole // of role.json; nil: no change of roles was made
	configuredID int64     // brokerId without role.json
}

// ConfiguredID is brokerId as it was configured, whatever a change of roles made of it.
func (c *Config) ConfiguredID() int64 { return c.configuredID }

// LoadConfig reads and checks a configuration. Its error is ConfigErrors.
func LoadConfig(in ConfigInput) (*Config, error) {
	c := &Config{File: in.File, in: in, values: map[string]*Setting{}}
	var problems ConfigErrors
	for _, k := range KnownKeys() {
		c.values[k.Name] = &Setting{Key: k, Value: k.Default, Default: k.Default, Origin: Origin{Kind: "default"}}
	}
	c.loadFile(&problems)
	c.loadEnv(&problems)
	c.loadFlags(&problems)
	if len(problems) == 0 {
		c.computeDefaults()
		c.loadSaved(&problems)
		c.loadHeldRole(&problems)
		c.checkTogether(&problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// set stores one value after checking it. where is a position in a file or the
// name of a variable.
func (c *Config) set(key, raw string, o Origin, line int, problems *ConfigErrors) {
	fail := func(why, try string) {
		e := &ConfigError{Key: key, Why: why, Try: try}
		switch o.Kind {
		case "file", "saved":
			e.File, e.Line = strings.TrimSuffix(o.Where, ":"+strconv.Itoa(line)), line
		case "default":
		default:
			e.Key = o.String() + ": " + key
		}
		*problems = append(*problems, e)
	}
	k := c.lookup(key)
	if k == nil {
		fail(c.unknown(key))
		return
	}
	if c.own == nil && k.Name != key && keys().alias[key] != "" {
		c.warn("%s: %s is an old spelling of %s", o, key, k.Name)
	}
	v, err := k.Check(raw)
	if err != nil {
		fail(err.Error(), "")
		return
	}
	s := c.values[k.Name]
	if s.Origin.Kind == o.Kind && (o.Kind == "file" || o.Kind == "env") {
		c.warn("%s: %s is set twice, the last value counts (before: %s)", o, k.Name, s.Origin)
	}
	if k.Use == Ignored && v != k.Default && !k.Computed && o.Kind != "saved" {
		c.warn("%s: %s has no effect. %s", o, k.Name, k.Text)
	}
	s.Value, s.Origin = v, o
}

// Check returns the form of a value that is kept (plain numbers without units) after
// checking it, and for keys of absent features that the value is the
// default.
func (k *Key) Check(raw string) (string, error) {
	v, err := k.parseValue(raw)
	if err != nil && k.Secret {
		return "", errors.New("the value is too long or holds a control character")
	}
	if err != nil {
		return "", err
	}
	if k.Use == Fixed && v != k.Default && k.Secret {
		return "", fmt.Errorf("a value is not possible: %s Leave it empty", k.Text)
	}
	if k.Use == Fixed && v != k.Default {
		have := k.Default
		if have == "" {
			have = "empty"
		}
		return "", fmt.Errorf("%s is not possible: %s Leave it %s", v, k.Text, have)
	}
	return v, nil
}

func didYouMean(name string) string {
	if name == "" {
		return "see broker start --print-config=all for all keys"
	}
	return "did you mean " + name + "?"
}

func (c *Config) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

func (c *Config) loadFile(problems *ConfigErrors) {
	if c.in.File == "" {
		return
	}
	fail := func(why, try string) {
		*problems = append(*problems, &ConfigError{File: c.in.File, Why: why, Try: try})
	}
	if len(c.in.Data) > maxConfigBytes {
		fail(fmt.Sprintf("the file is larger than %d bytes", maxConfigBytes), "is it the configuration of a broker?")
		return
	}
	text := configText(c.in.Data)
	if strings.ContainsRune(text, 0) {
		fail("the file holds zero bytes", "is it a text file?")
		return
	}
	c.TOML = looksLikeTOML(c.in.File, text)
	parse := parseProperties
	if c.TOML {
		parse = parseTOML
	}
	entries, err := parse(text)
	if err != nil {
		var e *ConfigError
		if errors.As(err, &e) {
			e.File = c.in.File
			*problems = append(*problems, e)
		}
		return
	}
	for _, e := range entries {
		where := c.in.File
		if e.line > 0 {
			where += ":" + strconv.Itoa(e.line)
		}
		if e.trailing {
			c.warn("%s: the value of %s ends in blanks, which are not part of it", where, e.key)
		}
		c.set(e.key, e.value, Origin{"file", where}, e.line, problems)
	}
	if path := c.values["brokerConfigPath"]; path != nil {
		path.Value, path.Default = c.in.File, c.in.File
	}
}

// envPrefix begins the variables that set broker keys.
const envPrefix = "MQCTL_BROKER_"

func (c *Config) loadEnv(problems *ConfigErrors) {
	for _, pair := range c.in.Env {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || value == "" {
			continue
		}
		key := keyOfEnv(rest)
		if key == "" {
			key = NearestKey(strings.ReplaceAll(rest, "_", ""))
			try := ""
			if key != "" {
				try = "did you mean " + EnvName(key) + "?"
			}
			*problems = append(*problems, &ConfigError{Key: name, Why: "there is no such key", Try: try})
			continue
		}
		c.set(key, value, Origin{"env", name}, 0, problems)
	}
}

// EnvName is the variable that sets a key: MQCTL_BROKER_FLUSH_DISK_TYPE.
func EnvName(key string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	lower := func(i int) bool { return i < len(key) && key[i] >= 'a' }
	for i := range len(key) {
		switch c := key[i]; {
		case c == '.':
			b.WriteByte('_')
			continue
		case c < 'A' || c > 'Z' || i == 0 || key[i-1] == '.':
		case key[i-1] < 'A' || lower(i-1) || lower(i+1):
			b.WriteByte('_')
		}
		b.WriteString(strings.ToUpper(key[i : i+1]))
	}
	return b.String()
}

// keyOfEnv finds the key that a variable means, "" if none.
func keyOfEnv(rest string) string {
	want := strings.ToLower(strings.ReplaceAll(rest, "_", ""))
	for _, k := range KnownKeys() {
		if strings.ToLower(strings.ReplaceAll(k.Name, ".", "")) == want {
			return k.Name
		}
	}
	return ""
}

func (c *Config) loadFlags(problems *ConfigErrors) {
	for _, pair := range c.in.Set {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			*problems = append(*problems, &ConfigError{Key: "--set " + pair, Why: "there is no value", Try: "write --set KEY=VALUE"})
			continue
		}
		c.set(strings.TrimSpace(key), value, Origin{"set", "--set"}, 0, problems)
	}
	for _, k := range KnownKeys() {
		if v, ok := c.in.Flags[k.Name]; ok {
			c.set(k.Name, v, Origin{Kind: "flag"}, 0, problems)
		}
	}
	for key := range c.in.Flags {
		if LookupKey(key) == nil {
			*problems = append(*problems, &ConfigError{Key: key, Why: "there is no such key", Try: didYouMean(NearestKey(key))})
		}
	}
}

// savedName is the file below <root>/config that keeps what admin tools changed
// at a broker that was started without a configuration file.
const savedName = "mqctl-broker.properties"

func (c *Config) savedPath() string {
	return filepath.Join(c.Value("storePathRootDir"), "config", savedName)
}

func (c *Config) loadSaved(problems *ConfigErrors) {
	if c.File != "" || c.in.FS == nil {
		return
	}
	path := c.savedPath()
	data, err := readSmallFile(c.in.FS, path)
	if data == nil && err == nil {
		return
	}
	var entries []entry
	if err == nil {
		entries, err = parseProperties(configText(data))
	}
	if err != nil {
		*problems = append(*problems, &ConfigError{File: path, Why: err.Error(), Try: "mend or remove the file"})
		return
	}
	for _, e := range entries {
		k := LookupKey(e.key)
		if k != nil && c.values[k.Name].Origin.Kind != "default" {
			continue // the environment or a flag hides it
		}
		c.set(e.key, e.value, Origin{"saved", path + ":" + strconv.Itoa(e.line)}, e.line, problems)
	}
	c.recomputeDefaults()
}

// Value returns the value of a key in its kept form; it panics for a name that
// is not in the registry, as only constants are passed.
func (c *Config) Value(key string) string { return c.values[key].Value }

// Bool is the value of a key of kind Bool.
func (c *Config) Bool(key string) bool { return c.Value(key) == "true" }

// Int is the value of a key of kind Int, Long or Bytes.
func (c *Config) Int(key string) int64 {
	n, _ := strconv.ParseInt(c.Value(key), 10, 64)
	return n
}

// Duration is the value of a key of kind Millis or Seconds.
func (c *Config) Duration(key string) time.Duration {
	if c.values[key].Key.Kind == Seconds {
		return time.Duration(c.Int(key)) * time.Second
	}
	return time.Duration(c.Int(key)) * time.Millisecond
}

// Effective lists every setting by key.
func (c *Config) Effective() []Setting {
	out := make([]Setting, 0, len(c.values))
	for _, name := range slices.Sorted(maps.Keys(c.values)) {
		out = append(out, *c.values[name])
	}
	return out
}

// Warnings are remarks on a configuration that works, one sentence each.
func (c *Config) Warnings() []string { return c.warnings }

// Origin says where the value of a key came from.
func (c *Config) Origin(key string) Origin { return c.values[key].Origin }

// textChecks are the rules of text values.
var textChecks = map[string]func(string) error{
	"brokerName":                 checkName,
	"brokerClusterName":          checkName,
	"namesrvAddr":                func(v string) error { _, err := splitAddrs(v); return err },
	"bindAddress":                checkHost,
	"brokerIP1":                  checkHost,
	"haMasterAddress":            checkHostPort,
	"brokerIP2":                  checkHost,
	"messageDelayLevel":          func(v string) error { _, err := delay.ParseLevels(v); return err },
	"storePathCommitLog":         checkPath,
	"storePathRootDir":           checkPath,
	"nameserver.embedded.listen": checkListen,
	"http.listen":                checkListen,
}

func checkPath(v string) error {
	if strings.Contains(v, ",") {
		return fmt.Errorf("%q names several folders: a store over several folders is not built", v)
	}
	return nil
}

func checkHost(v string) error {
	if net.ParseIP(v) != nil {
		return nil
	}
	return checkName(v)
}

func checkListen(v string) error {
	if v == "off" {
		return nil
	}
	return checkHostPort(v)
}

func checkHostPort(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("%q is not of the form host:port", v)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port between 1 and 65535", v)
	}
	if host == "" {
		return nil
	}
	return checkHost(host)
}

// splitAddrs cuts a list of addresses at ; , and blanks.
func splitAddrs(v string) ([]string, error) {
	out := strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(";, \t", r) })
	for _, a := range out {
		if err := checkHostPort(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}
