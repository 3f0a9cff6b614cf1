package cli

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/broker"
	"mqctl/store"
	"mqctl/store/vfs"
)

// TestStartErrors: every way of not starting has its exit code and says what to do.
func TestStartErrors(t *testing.T) {
	cfg, err := broker.LoadConfig(broker.ConfigInput{HostName: "broker-a", HomeDir: "/home/op", CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := &call{io: Stdio{Env: func(string) string { return "" }}}
	dir := t.TempDir()
	cases := []struct {
		err  error
		code int
		text string
		try  string
	}{
		{&broker.ConfigError{File: "b.conf", Line: 4, Key: "brokerRole", Why: "no", Try: "yes"}, ExitBadConfig, "b.conf:4: brokerRole: no", "yes"},
		{&vfs.LockedError{Path: filepath.Join(dir, "lock"), PID: 0}, ExitStoreInUse, "store " + dir + " is in use by another process", "mqctl broker stop --store "},
		{&broker.PortError{Addr: "127.0.0.1:1", Err: syscall.EADDRINUSE}, ExitPortInUse, "cannot listen on 127.0.0.1:1: address in use", "--listen"},
		{&broker.PortError{Addr: "10.9.9.9:1", Err: syscall.EADDRNOTAVAIL}, ExitPortInUse, "this machine has no such address", "--listen"},
		{&broker.IdentityError{Name: "broker-a", ID: 0, Addr: "10.0.0.4:10911"}, ExitIdentityConflict, "broker-a/0 is already registered from 10.0.0.4:10911", "another --name"},
		{&store.DamagedError{What: "cut", Where: "commitlog/0", Try: "look"}, ExitStoreDamaged, "commitlog/0: cut", "look"},
		{errors.New("else"), ExitFailed, "else", ""},
	}
	for _, x := range cases {
		m := asMessage(startError(c, cfg, errors.Join(x.err, errors.New("besides"))))
		if m.ExitCode != x.code || !strings.Contains(m.Text, x.text) || !strings.Contains(strings.Join(m.Try, "|"), x.try) {
			t.Errorf("%v: exit %d, %q, try %q", x.err, m.ExitCode, m.Text, m.Try)
		}
	}
}

// TestHealthPort: a taken default is a warning, a taken choice an error.
func TestHealthPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	l, warn, err := listenHealth(addr, false)
	if l != nil || err != nil || warn == nil || !strings.Contains(warn.Text, "health port is off: cannot listen on "+addr) {
		t.Errorf("default: %v, %v, %v", l, warn, err)
	}
	if _, _, err = listenHealth(addr, true); asMessage(err).ExitCode != ExitPortInUse {
		t.Errorf("asked: %v", err)
	}
	if l, warn, err = listenHealth("", true); l != nil || warn != nil || err != nil {
		t.Errorf("off: %v, %v, %v", l, warn, err)
	}
}

func TestParseTimes(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]int64{
		"1700000000000": 1700000000000, "-2h": now.Add(-2 * time.Hour).UnixMilli(), "-1d": now.Add(-24 * time.Hour).UnixMilli(),
		"2026-11-29T11:59:59Z": now.Add(-time.Second).UnixMilli(), "2026-11-29T11:59:59.5Z": now.Add(-500 * time.Millisecond).UnixMilli(),
	} {
		if got, err := parseTime(in, now, "--since"); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "soon", "-", "-1", "2026-13-01", "--2h"} {
		if in == "-1" {
			continue // one millisecond ago
		}
		if got, err := parseTime(in, now, "--since"); err == nil {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
}

func TestVersionText(t *testing.T) {
	for v, want := range map[int]string{479: "V5_3_3", 213: "V4_0_0", 407: "V4_9_7", 413: "V5_0_0", 317: "V4_5_2", 62: "62", 480: "V5_3_4_SNAPSHOT", 700: "HIGHER_VERSION"} {
		if got := versionText(v); got != want {
			t.Errorf("%d: %s, want %s", v, got, want)
		}
	}
}
