package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"mqctl/store/vfs"
)

// clientFile is the user's configuration of this program: contexts (which
// cluster, with whose keys), defaults of flags and aliases. A file that is not
// there is an empty one.
type clientFile struct {
	path string
	text string // as read, for editing
	open bool   // others may read or write it

	Current  string                    `toml:"current"`
	Defaults clientDefaults            `toml:"defaults"`
	Contexts map[string]*clientContext `toml:"context"`
	Alias    map[string]string         `toml:"alias"`
	Top      clientTop                 `toml:"top"`
}

// clientDefaults is the section [defaults]; empty texts and nil mean built-in.
type clientDefaults struct {
	Output            string `toml:"output"`
	Timeout           string `toml:"timeout"`
	Units             string `toml:"units"`
	Time              string `toml:"time"`
	Color             string `toml:"color"`
	Confirm           string `toml:"confirm"` // impact, name or never
	Audit             *bool  `toml:"audit"`
	AuditFile         string `toml:"audit_file"`
	History           *int64 `toml:"history"` // lines kept by the shell
	CompletionTimeout string `toml:"completion_timeout"`
	LogLevel          string `toml:"log_level"`
}

// clientContext is one section [context.NAME].
type clientContext struct {
	Namesrv   []string  `toml:"namesrv"`
	Cluster   string    `toml:"cluster"`
	Protected bool      `toml:"protected"` // confirmations ask for the typed name
	Accent    string    `toml:"accent"`    // colour of the prompt
	ReadOnly  bool      `toml:"read_only"` // every change is refused
	AccessKey string    `toml:"access_key"`
	SecretKey string    `toml:"secret_key"`
	Output    string    `toml:"output"`
	Timeout   string    `toml:"timeout"`
	TLS       clientTLS `toml:"tls"`
}

// clientTLS is the section [context.NAME.tls].
type clientTLS struct {
	Enable     bool   `toml:"enable"`
	CA         string `toml:"ca"`
	Cert       string `toml:"cert"`
	Key        string `toml:"key"`
	ServerName string `toml:"server_name"`
	SkipVerify bool   `toml:"skip_verify"`
}

// clientTop is the section [top] of the live view.
type clientTop struct {
	Refresh string `toml:"refresh"`
	Panel   string `toml:"panel"`
}

// maxClientFile bounds the client file in memory.
const maxClientFile = 1 << 20

// clientFilePath is $MQCTL_CONFIG, else $XDG_CONFIG_HOME/mqctl/config.toml, else
// ~/.config/mqctl/config.toml; "" when there is no place for it.
func clientFilePath(env func(string) string) string {
	if p := env("MQCTL_CONFIG"); p != "" {
		return p
	}
	if d := env("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "mqctl", "config.toml")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "mqctl", "config.toml")
	}
	return ""
}

// loadClientFile reads and checks the client file; its errors are Messages with
// exit code 11.
func loadClientFile(env func(string) string) (*clientFile, error) {
	f := &clientFile{path: clientFilePath(env)}
	if f.path == "" {
		return f, nil
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil && info.Size() > maxClientFile {
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "%s is larger than %d bytes", f.path, maxClientFile)
	}
	var b []byte
	if err == nil {
		f.open = info.Mode().Perm()&0o077 != 0
		b, err = os.ReadFile(f.path)
	}
	if err != nil {
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "cannot read the client file: %v", err)
	}
	f.text = string(b)
	if err := f.parse(); err != nil {
		return nil, err
	}
	return f, nil
}

// parse fills f from its text.
func (f *clientFile) parse() error {
	meta, err := toml.Decode(f.text, f)
	if err != nil {
		var p toml.ParseError
		if errors.As(err, &p) && secretWord(p.LastKey) {
			return f.bad("line %d: the value cannot be read; put it in double quotes", p.Position.Line) // the text says a part of it
		}
		if errors.As(err, &p) {
			return f.bad("line %d: %s", p.Position.Line, p.Message)
		}
		return f.bad("%v", strings.TrimPrefix(err.Error(), "toml: "))
	}
	if left := meta.Undecoded(); len(left) > 0 {
		return f.bad("there is no setting %q", left[0].String())
	}
	return f.check()
}

func (f *clientFile) bad(format string, args ...any) error {
	return fail(ExitBadConfig, "BAD_CONFIG", "%s: %s", f.path, fmt.Sprintf(format, args...)).try("mqctl help client-file")
}

// contextName is what contexts may be called.
var contextName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
})

// check holds the rules of the values.
func (f *clientFile) check() error {
	d := f.Defaults
	values := []struct{ flag, where, value string }{
		{"output", "defaults.output", d.Output}, {"timeout", "defaults.timeout", d.Timeout}, {"units", "defaults.units", d.Units},
		{"time", "defaults.time", d.Time}, {"color", "defaults.color", d.Color}, {"log-level", "defaults.log_level", d.LogLevel},
		{"timeout", "defaults.completion_timeout", d.CompletionTimeout}, {"timeout", "top.refresh", f.Top.Refresh},
	}
	for _, name := range sortedKeys(f.Contexts) {
		if !contextName().MatchString(name) {
			return f.bad("%q is no name for a context: letters, digits, _ and - are possible, 64 at most", name)
		}
		x := f.Contexts[name]
		where := "context." + name + "."
		values = append(values, struct{ flag, where, value string }{"output", where + "output", x.Output},
			struct{ flag, where, value string }{"timeout", where + "timeout", x.Timeout})
		if _, err := addresses(x.Namesrv); err != nil {
			return f.bad("%snamesrv: %s", where, err)
		}
		for _, s := range []struct{ name, value string }{{"access_key", x.AccessKey}, {"secret_key", x.SecretKey}} {
			if strings.HasPrefix(s.value, "cmd:") {
				return cmdRefused(f.path + ": " + where + s.name)
			}
		}
		if a := x.Accent; a != "" && !slices.Contains([]string{"red", "yellow", "green", "cyan", "blue", "magenta", "white", "none"}, a) {
			return f.bad("%saccent: there is no colour %q", where, a)
		}
	}
	for _, v := range values {
		if v.value == "" {
			continue
		}
		if err := checkDefault(v.flag, v.value, v.where); err != nil {
			return f.bad("%s", err)
		}
	}
	if c := d.Confirm; c != "" && !slices.Contains([]string{"impact", "name", "never"}, c) {
		return f.bad("defaults.confirm: %q is none of impact, name, never", c)
	}
	if d.History != nil && *d.History < 0 {
		return f.bad("defaults.history: %d is negative", *d.History)
	}
	if f.Current != "" && f.Contexts[f.Current] == nil {
		return f.bad("current names the context %q, which does not exist", f.Current)
	}
	return nil
}

// cmdRefused answers for a key that a program should print: no process is ever
// started from a configuration.
func cmdRefused(where string) *Message {
	return fail(ExitBadConfig, "BAD_CONFIG", "%s: cmd: is not possible", where).
		because("mqctl starts no program that a configuration names").
		try(`env:NAME, set by the program that starts mqctl`, `file:PATH`)
}

// checkDefault checks a default by the flag that it stands for.
func checkDefault(flag, value, where string) error {
	for i := range commonFlags {
		f := &commonFlags[i]
		if f.key != flag {
			continue
		}
		if flag == "output" {
			if slices.Contains(formats, value) || strings.HasPrefix(value, "template=") {
				return nil
			}
			return fmt.Errorf("%s: there is no output format %q", where, value)
		}
		_, err := f.check(value, where, where)
		return err
	}
	return nil
}

// names lists the contexts.
func (f *clientFile) names() []string { return sortedKeys(f.Contexts) }

// hasSecret reports whether a key stands in the file in clear.
func (f *clientFile) hasSecret() bool {
	for _, x := range f.Contexts {
		for _, v := range []string{x.AccessKey, x.SecretKey} {
			if v != "" && !strings.HasPrefix(v, "env:") && !strings.HasPrefix(v, "file:") {
				return true
			}
		}
	}
	return false
}

// edited writes the file with other text, after checking that the text means
// what was wanted. The file is replaced in one step and only its owner may read it.
func (f *clientFile) edited(text string, wanted func(*clientFile) bool) error {
	now := &clientFile{path: f.path, text: text}
	if err := now.parse(); err != nil {
		return err
	}
	if !wanted(now) {
		return f.bad("the file is written in a way that cannot be edited safely; change it by hand")
	}
	if f.path == "" {
		return fail(ExitBadConfig, "BAD_CONFIG", "there is no place for the client file").try("set MQCTL_CONFIG or HOME")
	}
	if err := replaceFile(f.path, []byte(text)); err != nil {
		return fail(ExitFailed, "NOT_SAVED", "the client file cannot be written: %v", err)
	}
	return nil
}

// replaceFile writes a file of this user in one step; its folder is made.
func replaceFile(path string, b []byte) error {
	path, err := vfs.OS{}.Place(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = vfs.OS{}.CopyMode(path, tmp.Name())
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // nothing else can be done about it
	}
	return err
}
