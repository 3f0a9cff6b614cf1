package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mqctl/cli/admin"
)

// activeContext is the context that a command line works in.
type activeContext struct {
	Name      string // "": none
	Protected bool   // confirmations ask for the typed name, also in camel case
	ReadOnly  bool   // every change is refused
	Confirm   string // impact, name or never
	Audit     bool   // changes are recorded
	AuditFile string // "": the usual place
	Accent    string // colour of the prompt, "" for none

	settings *clientContext // nil: none
}

// context is the context in use. It is the one named by --context or
// MQCTL_CONTEXT, else the current one of the client file, unless other
// nameservers are named by -n or the environment: its cluster, keys and
// protection say nothing about those.
func (c *call) context() activeContext { return c.active }

// clientSettings is the client file, empty when there is none.
func (c *call) clientSettings() *clientFile {
	if c.file == nil {
		return &clientFile{}
	}
	return c.file
}

// useClientFile reads the client file and takes the context and the defaults
// from it. Commands that talk to no cluster go on with a file that is broken.
func (c *call) useClientFile() error {
	f, err := loadClientFile(c.io.Env)
	if err != nil && c.is(local) && !strings.HasPrefix(c.cmd.path, "context ") {
		fmt.Fprintf(c.io.Err, "warning %s  [BAD_CONFIG]\n", oneLine(err.Error()))
		f, err = &clientFile{}, nil
	}
	if err != nil {
		return err
	}
	c.file = f
	d := f.Defaults
	c.active = activeContext{Confirm: d.Confirm, Audit: d.Audit == nil || *d.Audit, AuditFile: d.AuditFile}
	if c.active.Confirm == "" {
		c.active.Confirm = "impact"
	}
	c.fallback = map[string][]string{}
	c.fall("output", d.Output)
	c.fall("timeout", d.Timeout)
	c.fall("units", d.Units)
	c.fall("time", d.Time)
	c.fall("color", d.Color)
	c.fall("log-level", d.LogLevel)
	if f.open && f.hasSecret() {
		fmt.Fprintf(c.io.Err, "warning %s holds a key in clear and others may read it  [FILE_OPEN]\ntry     chmod 600 %s\n", f.path, shellWord(f.path))
	}
	return c.enterContext(f)
}

func (c *call) is(a attr) bool { return c.cmd.is(a) }

// fall notes a value for a flag that neither the line nor the environment gives.
func (c *call) fall(key, value string) {
	if value != "" {
		c.fallback[key] = []string{value}
	}
}

// enterContext applies the context in use.
func (c *call) enterContext(f *clientFile) error {
	name := c.str("context")
	chosen := name != ""
	if !chosen {
		name = f.Current
	}
	if name == "" || c.is(server) {
		return nil
	}
	x := f.Contexts[name]
	if x == nil {
		m := fail(ExitNotFound, "CONTEXT_NOT_FOUND", "there is no context %q", name)
		if near := nearest(name, f.names()); len(near) > 0 {
			m.offer("--context " + near[0])
		}
		return m.try("mqctl context list")
	}
	c.fall("output", x.Output)
	c.fall("timeout", x.Timeout)
	own, err := addresses(x.Namesrv)
	if err != nil {
		return err
	}
	if named := c.list("namesrv"); !chosen && c.namesrvNamed() {
		other, err := addresses(named)
		if err == nil && !overlap(own, other) {
			return nil
		}
	}
	if len(own) > 0 {
		c.fallback["namesrv"] = own
	}
	c.fall("cluster", x.Cluster)
	c.active.Name, c.active.Protected, c.active.ReadOnly, c.active.Accent = name, x.Protected, x.ReadOnly, x.Accent
	c.active.settings = x
	return nil
}

// namesrvNamed reports whether the line or the environment names nameservers.
func (c *call) namesrvNamed() bool {
	return c.given("namesrv") || c.io.Env("MQCTL_NAMESRV") != "" || c.io.Env("NAMESRV_ADDR") != ""
}

func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

// refuseReadOnly is the answer of a context that allows no change.
func (c *call) refuseReadOnly() error {
	if !c.is(mutates) || c.dryRun() {
		return nil
	}
	return c.refuseChange()
}

// refuseChange is for what changes something although its command seldom does.
func (c *call) refuseChange() error {
	if !c.active.ReadOnly {
		return nil
	}
	m := fail(ExitDenied, "READ_ONLY", "the context %q is read-only; nothing was sent", c.active.Name).
		because("read_only = true in %s", c.file.path)
	if c.is(mutates) {
		m.offer("--dry-run shows what would change")
	}
	m.offer("--context NAME")
	return m
}

// credentials are the keys that requests are signed with; both empty: none.
func (c *call) credentials() (access, secret string, err error) {
	env := c.io.Env
	access, secret = c.str("access-key"), ""
	if access == "" {
		access = env("MQCTL_ACCESS_KEY")
	}
	for _, part := range []struct{ to, from *string }{
		{&access, ptr(firstOf(c.str("access-key-file"), env("MQCTL_ACCESS_KEY_FILE")))},
		{&secret, ptr(firstOf(c.str("secret-key-file"), env("MQCTL_SECRET_KEY_FILE")))},
	} {
		if *part.to == "" && *part.from != "" {
			if *part.to, err = secretFrom("file:"+*part.from, env); err != nil {
				return "", "", err
			}
		}
	}
	if secret == "" {
		secret = env("MQCTL_SECRET_KEY")
	}
	if x := c.active.settings; x != nil {
		for _, part := range []struct {
			to  *string
			ref string
		}{{&access, x.AccessKey}, {&secret, x.SecretKey}} {
			if *part.to == "" && part.ref != "" {
				if *part.to, err = secretFrom(part.ref, env); err != nil {
					return "", "", err
				}
			}
		}
	}
	if access == "" && secret == "" {
		return toolsKeys(env)
	}
	if access == "" || secret == "" {
		return "", "", usage("CREDENTIALS_MISSING", "an access key and a secret key belong together; one of them is missing").
			try("--access-key K --secret-key-file FILE", "MQCTL_ACCESS_KEY and MQCTL_SECRET_KEY")
	}
	return access, secret, nil
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// maxSecret bounds a file with a key.
const maxSecret = 4096

// secretFrom reads a key: plain, env:NAME or file:PATH. Messages name the place,
// never the value.
func secretFrom(ref string, env func(string) string) (string, error) {
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		v := env(name)
		if v == "" {
			return "", fail(ExitBadConfig, "CREDENTIALS_MISSING", "the variable %s with a key is not set", name)
		}
		return v, nil
	}
	if strings.HasPrefix(ref, "cmd:") {
		return "", cmdRefused("a key")
	}
	path, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return ref, nil
	}
	info, err := os.Stat(path)
	if err == nil && (info.Size() > maxSecret || !info.Mode().IsRegular()) {
		return "", fail(ExitBadConfig, "CREDENTIALS_MISSING", "%s is no file with a key", path)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fail(ExitBadConfig, "CREDENTIALS_MISSING", "cannot read the key: %v", err)
	}
	v := strings.TrimSpace(string(b))
	if v == "" {
		return "", fail(ExitBadConfig, "CREDENTIALS_MISSING", "the key file %s is empty", path)
	}
	return v, nil
}

// toolsKeys reads mqadmin's conf/tools.yml below ROCKETMQ_HOME, where that is.
func toolsKeys(env func(string) string) (access, secret string, err error) {
	home := env("ROCKETMQ_HOME")
	if home == "" {
		return "", "", nil
	}
	path := filepath.Join(home, "conf", "tools.yml")
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxClientFile {
		return "", "", nil // it need not be there
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", fail(ExitBadConfig, "CREDENTIALS_MISSING", "cannot read %s: %v", path, err)
	}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(value, " #")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch {
		case !ok || strings.HasPrefix(key, "#"):
		case key == "accessKey":
			access = value
		case key == "secretKey":
			secret = value
		}
	}
	if access == "" || secret == "" {
		return "", "", nil
	}
	return access, secret, nil
}

// tlsDial is how to connect where the context asks for TLS; nil otherwise.
func (c *call) tlsDial() (func(ctx context.Context, addr string) (net.Conn, error), error) {
	x := c.active.settings
	if x == nil || !x.TLS.Enable {
		return nil, nil
	}
	t := x.TLS
	bad := func(what string, err error) error {
		return fail(ExitBadConfig, "BAD_CONFIG", "context.%s.tls: %s: %v", c.active.Name, what, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, bad("ca", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, bad("ca", errors.New(t.CA+" holds no certificate"))
		}
	}
	if t.Cert != "" || t.Key != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, bad("cert", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return func(ctx context.Context, addr string) (net.Conn, error) { return dialTLS(ctx, addr, cfg) }, nil
}

// tlsPatience bounds a connect, and the handshake after it.
const tlsPatience = 3 * time.Second

// dialTLS connects; its errors tell a port that does not answer from one that does
// not speak TLS.
func dialTLS(ctx context.Context, addr string, cfg *tls.Config) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: tlsPatience}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	limited, cancel := context.WithTimeout(ctx, tlsPatience)
	defer cancel()
	secure := tls.Client(conn, cfg)
	err = secure.HandshakeContext(limited)
	if err == nil {
		return secure, nil
	}
	_ = conn.Close() // err says why
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return nil, errors.New("it closed the connection in the TLS handshake: does it speak TLS? (context setting tls.enable)")
	case limited.Err() != nil && !errors.Is(ctx.Err(), context.Canceled):
		return nil, errors.New("it said nothing in the TLS handshake: does it speak TLS? (context setting tls.enable)")
	}
	return nil, err
}

// adminOptions are the client's options by flags, environment and context.
func (c *call) adminOptions(addrs []string) (admin.Options, error) {
	o := admin.Options{Nameservers: addrs, Timeout: c.duration("timeout"), Parallel: int(c.whole("parallel"))}
	if text := c.str("retries"); text != "" {
		if o.Retries = int(c.whole("retries")); o.Retries == 0 {
			o.Retries = -1
		}
	}
	if level := c.str("log-level"); level == "info" || level == "debug" {
		from := "no context"
		if c.active.Name != "" {
			from = "context " + c.active.Name
		}
		fmt.Fprintf(c.io.Err, "info    nameservers %s, %s\n", strings.Join(addrs, ","), from)
	}
	if c.on("trace") || c.str("log-level") == "debug" {
		o.Trace = c.trace
	}
	var err error
	if o.AccessKey, o.SecretKey, err = c.credentials(); err != nil {
		return o, err
	}
	o.Dial, err = c.tlsDial()
	return o, err
}
