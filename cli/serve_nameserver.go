package cli

import (
	"errors"
	"log/slog"
	"net"
	"strings"

	"mqctl/broker"
	"mqctl/broker/nameserver"
	"mqctl/store/vfs"
)

// nameserverConfig builds the configuration of nameserver start from file and
// flags, and says where to listen.
func nameserverConfig(c *call) (cfg *broker.Config, addr string, err error) {
	flags := map[string]string{}
	if c.given("listen") {
		addr = c.str("listen")
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, "", usage("BAD_ADDRESS", "--listen: %q is no address", addr).because("HOST:PORT is expected").try("--listen 127.0.0.1:9876")
		}
		flags["bindAddress"] = firstOf(host, "0.0.0.0")
		if port != "0" { // any free one
			flags["listenPort"] = port
		}
	}
	if c.given("kv-file") {
		flags["kvConfigPath"] = c.str("kv-file")
	}
	file, data := c.str("config"), []byte(nil)
	if file != "" {
		if data, err = readConfigFile(file); err != nil {
			return nil, "", err
		}
	}
	if cfg, err = broker.LoadNameserver(file, data, flags); err != nil {
		return nil, "", badConfig(err)
	}
	if addr == "" {
		addr = net.JoinHostPort(cfg.Value("bindAddress"), cfg.Value("listenPort"))
	}
	return cfg, addr, nil
}

// nameserverOptions are those of a nameserver in this process.
func nameserverOptions(cfg *broker.Config, l net.Listener, kv string, log *slog.Logger) nameserver.Options {
	o := nameserver.Options{
		Listener: l, FS: vfs.OS{}, KVPath: kv, Log: log,
		OrderMessageEnable:                cfg.Bool("orderMessageEnable"),
		SupportActingMaster:               cfg.Bool("supportActingMaster"),
		DeleteTopicWithBrokerRegistration: cfg.Bool("deleteTopicWithBrokerRegistration"),
		NotifyMinBrokerIDChanged:          cfg.Bool("notifyMinBrokerIdChanged"),
		NoTopicLists:                      !cfg.Bool("enableTopicList"),
		NoAllTopics:                       !cfg.Bool("enableAllTopicList"),
		ScanEvery:                         cfg.Duration("scanNotActiveBrokerInterval"),
	}
	if cfg.File != "" {
		o.Save = func(values map[string]string) error {
			return broker.SaveNameserver(vfs.OS{}, cfg.File, cfg.TOML, values)
		}
	}
	return o
}

// nameserverFailed is the error of a nameserver that was not made.
func nameserverFailed(err error) *Message {
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		path := strings.TrimSuffix(locked.Path, ".lock")
		m := fail(ExitStoreInUse, "STORE_IN_USE", "the key table %s is in use by another nameserver", path)
		if locked.PID > 0 {
			m = fail(ExitStoreInUse, "STORE_IN_USE", "the key table %s is in use by pid %d", path, locked.PID)
		}
		return m.because("two nameservers on one file overwrite each other's keys; nothing was started").try("--set kvConfigPath=FILE", "mqctl nameserver status")
	}
	return fail(ExitBadConfig, "NAMESRV_FAILED", "the nameserver cannot start: %v", err)
}
