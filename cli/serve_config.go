package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"mqctl/broker"
	"mqctl/store/vfs"
)

// maxConfigFile bounds a configuration file in memory; the broker package has
// the finer limit.
const maxConfigFile = 8 << 20

// brokerConfig builds the configuration of broker start from file, environment
// and flags.
func brokerConfig(c *call) (*broker.Config, error) {
	in := broker.ConfigInput{
		Env: os.Environ(), Set: c.list("set"), Flags: map[string]string{}, HomeDir: c.io.Env("HOME"),
		LocalIP: localIP(), CPUs: runtime.NumCPU(), FS: vfs.OS{},
	}
	var err error
	if in.HostName, err = os.Hostname(); err != nil {
		in.HostName = "localhost"
	}
	if in.File = c.str("config"); in.File != "" {
		if in.Data, err = readConfigFile(in.File); err != nil {
			return nil, err
		}
	}
	if err := namedFlags(c, in.Flags); err != nil {
		return nil, err
	}
	for _, pair := range in.Set {
		if err := refuseShown(pair); err != nil {
			return nil, err
		}
	}
	cfg, err := broker.LoadConfig(in)
	if err != nil {
		return nil, badConfig(err)
	}
	return cfg, nil
}

// refuseShown refuses a secret in --set: everybody on the machine may read the command
// line of a process, for as long as it runs.
func refuseShown(pair string) error {
	key, value, _ := strings.Cut(pair, "=")
	key = strings.TrimSpace(key)
	if value == "" || !broker.SecretName(key) {
		return nil
	}
	m := usage("SECRET_VISIBLE", "--set %s: this is a secret, and everybody on this machine can read a command line", key).because("nothing was started")
	k := broker.LookupKey(key)
	switch try, shut := shutSecret(key); {
	case k == nil:
	case shut:
		m.reason("%s: nothing was started", strings.TrimSuffix(k.Text, "."))
		if strings.Contains(try, "=") {
			try = "--set " + try
		}
		m.offer(try)
	default:
		m.offer(broker.EnvName(k.Name)+" in the environment", "a line in the file of --config")
	}
	return m
}

// storeConfig is the configuration of the broker of a folder, as far as --config, the
// environment and, with fsys, what is saved in the folder tell it.
func storeConfig(c *call, dir string, fsys vfs.FS) (*broker.Config, error) {
	in := broker.ConfigInput{
		Env: os.Environ(), HomeDir: c.io.Env("HOME"), HostName: "localhost", LocalIP: localIP(), CPUs: runtime.NumCPU(), FS: fsys,
		Flags: map[string]string{"storePathRootDir": dir},
	}
	var err error
	if in.File = c.str("config"); in.File != "" {
		if in.Data, err = readConfigFile(in.File); err != nil {
			return nil, err
		}
	}
	cfg, err := broker.LoadConfig(in)
	if err != nil {
		return nil, badConfig(err)
	}
	return cfg, nil
}

// unreadableConfig is the error of a configuration file that cannot be opened.
func unreadableConfig(name string, err error) *Message {
	if errors.Is(err, fs.ErrNotExist) {
		m := noFile(name)
		m.offer("mqctl config init")
		return m
	}
	return fail(ExitBadConfig, "BAD_CONFIG", "cannot read the configuration: %v", err).try("ls -l " + shellWord(name))
}

func readConfigFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxConfigFile {
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "%s is larger than %d bytes: is it the configuration of a broker?", name, maxConfigFile)
	}
	if err != nil {
		return nil, unreadableConfig(name, err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, unreadableConfig(name, err)
	}
	return b, nil
}

// namedFlags translates the command's own flags to broker keys.
func namedFlags(c *call, to map[string]string) error {
	for flag, key := range map[string]string{
		"name": "brokerName", "cluster": "brokerClusterName", "id": "brokerId", "advertise": "brokerIP1",
		"master": "haMasterAddress", "store": "storePathRootDir", "log": "log.file", "http": "http.listen",
	} {
		if c.given(flag) {
			to[key] = c.str(flag)
		}
	}
	if c.given("namesrv") {
		addrs, err := addresses(c.list("namesrv"))
		if err != nil {
			return err
		}
		to["namesrvAddr"] = strings.Join(addrs, ";")
	}
	if c.given("role") {
		to["brokerRole"] = map[string]string{"master": "ASYNC_MASTER", "sync-master": "SYNC_MASTER", "slave": "SLAVE"}[c.str("role")]
	}
	for flag, keys := range map[string][2]string{"listen": {"bindAddress", "listenPort"}, "ha-listen": {"brokerIP2", "haListenPort"}} {
		if !c.given(flag) {
			continue
		}
		host, port, err := listenAddress(c.str(flag))
		if err != nil {
			return usage("BAD_ADDRESS", "--%s: %v", flag, err).because("HOST:PORT is expected").try("--" + flag + " 127.0.0.1:10911")
		}
		if host != "" {
			to[keys[0]] = host
		}
		to[keys[1]] = port
	}
	if c.given("with-nameserver") && c.on("no-nameserver") {
		return usage("CONTRADICTION", "--with-nameserver and --no-nameserver exclude each other")
	}
	if c.given("with-nameserver") {
		to["nameserver.embedded.enable"] = "true"
		if addr := c.str("with-nameserver"); addr != embeddedDefault {
			to["nameserver.embedded.listen"] = addr
		}
	}
	if c.on("no-nameserver") {
		to["nameserver.embedded.enable"] = "false"
	}
	return nil
}

// embeddedDefault stands for --with-nameserver without an address.
const embeddedDefault = "default"

func listenAddress(text string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(text)
	if err != nil {
		return "", "", fmt.Errorf("%q is no address", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", fmt.Errorf("%q has no port between 1 and 65535", text)
	}
	return host, port, nil
}

// localIP is the first address of this machine that others can reach.
func localIP() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// badConfig shows every problem of a configuration; the first is the message.
func badConfig(err error) *Message {
	var all broker.ConfigErrors
	var one *broker.ConfigError
	switch {
	case errors.As(err, &all) && len(all) > 0:
		m := configMessage(all[0])
		if len(all) > 1 {
			rest := make([]string, 0, len(all)-1)
			for _, e := range all[1:] {
				rest = append(rest, e.Error())
			}
			m.reason("%d more: %s", len(rest), strings.Join(rest, " | "))
		}
		return m
	case errors.As(err, &one):
		return configMessage(one)
	}
	return fail(ExitBadConfig, "BAD_CONFIG", "%v", err)
}

func configMessage(e *broker.ConfigError) *Message {
	bare := *e
	bare.Try = ""
	m := fail(ExitBadConfig, "BAD_CONFIG", "%s", bare.Error())
	if e.Try != "" {
		m.offer(e.Try)
	} else if e.File != "" {
		m.reason("nothing was started or sent")
		m.offer("mqctl config lint " + shellWord(e.File))
	}
	return m
}

// printConfig is --print-config: key, value, unless it is a secret, and where it came from.
func printConfig(c *call, cfg *broker.Config) error {
	which := c.str("print-config")
	var b strings.Builder
	for _, s := range cfg.Effective() {
		if which == "changed" && !s.Changed() || which == "important" && s.Origin.Kind == "default" && s.Key.Use != broker.Used {
			continue
		}
		fmt.Fprintf(&b, "%-50s = %-40s # %s\n", s.Key.Name, hideSecret(s.Key.Name, s.Value), s.Origin)
	}
	if _, err := io.WriteString(c.io.Out, b.String()); err != nil && !quiet(err) {
		return outputFailed(err)
	}
	return nil
}
