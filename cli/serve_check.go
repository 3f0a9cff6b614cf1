package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mqctl/broker"
	"mqctl/store/vfs"
)

// checkStart is --check: everything short of serving. The configuration has
// been read already.
func checkStart(c *call, cfg *broker.Config) (*result, error) {
	o, err := cfg.Options()
	if err != nil {
		return nil, badConfig(err)
	}
	say := func(what, text string) { fmt.Fprintf(c.io.Err, "  %-12s %s\n", what, text) }
	say("config", configText(cfg))
	for _, w := range cfg.Warnings() {
		c.p.message(&Message{Code: "CONFIG", Text: w}, "warning")
	}
	if err := checkStore(c, cfg, say); err != nil {
		return nil, err
	}
	addrs := append(brokerPorts(o.ListenAddr), o.HAListen)
	addrs = append(addrs, otherPorts(cfg)...)
	for _, a := range addrs {
		if err := checkPort(a); err != nil {
			return nil, err
		}
		say("port", a+" is free")
	}
	say("check", "nothing in the way of a start")
	return &result{raw: []byte{}}, nil
}

// brokerPorts are the main and the fast port.
func brokerPorts(listen string) []string {
	addrs := []string{listen}
	if host, port, err := net.SplitHostPort(listen); err == nil {
		if n, err := net.LookupPort("tcp", port); err == nil && n > 2 {
			addrs = append(addrs, net.JoinHostPort(host, fmt.Sprint(n-2)))
		}
	}
	return addrs
}

// otherPorts are those of the nameserver and, when asked for, of health.
func otherPorts(cfg *broker.Config) []string {
	var addrs []string
	if listen, on := cfg.EmbeddedNameserver(); on {
		addrs = append(addrs, listen)
	}
	if addr, asked := cfg.HTTPListen(); asked && addr != "" {
		addrs = append(addrs, addr)
	}
	return addrs
}

// newStorePorts looks at the ports before a store is made, so that a start that
// cannot be leaves no folder behind. A store that is there is opened first: who
// holds it says more than who holds a port.
func newStorePorts(cfg *broker.Config, listen, ha string) error {
	if _, err := os.Stat(cfg.Value("storePathRootDir")); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, a := range append(brokerPorts(listen), ha) {
		l, err := net.Listen("tcp", a)
		if err != nil {
			return &broker.PortError{Addr: a, Err: err}
		}
		_ = l.Close() // nothing was served on it
	}
	for _, a := range otherPorts(cfg) {
		if err := checkPort(a); err != nil {
			return err
		}
	}
	return nil
}

func checkPort(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return portTaken(addr, err).try("--listen HOST:PORT", "stop the other process")
	}
	return l.Close()
}

// checkStore looks at the folder without making it or taking its lock.
func checkStore(c *call, cfg *broker.Config, say func(what, text string)) error {
	dir := cfg.Value("storePathRootDir")
	if pid := lockHolder(lockPath(dir)); pid > 0 {
		return startError(c, cfg, &vfs.LockedError{Path: lockPath(dir), PID: pid})
	}
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fail(ExitBadConfig, "BAD_CONFIG", "the store cannot be at %s: %s is no folder", dir, at)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return fail(ExitBadConfig, "BAD_CONFIG", "the store cannot be at %s: %v", dir, err)
		}
		at = filepath.Dir(at)
	}
	if err := writable(at); err != nil {
		return fail(ExitBadConfig, "BAD_CONFIG", "the store cannot be at %s: %v", dir, err)
	}
	if u, err := (vfs.OS{}).Usage(at); err == nil && u.Total > 0 {
		used := 100 * (u.Total - u.Free) / max(u.Total-u.Free+u.Avail, 1)
		if limit := min(max(cfg.Int("diskSpaceWarningLevelRatio"), 35), 90); used >= limit { // as the store clamps it
			m := &Message{Code: "DISK_HIGH", Text: fmt.Sprintf("%d %% of the disk of %s are in use; above %d %% sends are refused", used, dir, limit)}
			c.p.message(m, "warning")
		}
	}
	say("store", dir+"  "+diskText(at))
	return nil
}

// writable asks the kernel, without leaving anything behind.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	return nil
}
