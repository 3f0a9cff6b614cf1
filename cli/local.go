package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mqctl/store/vfs"
)

// localBroker is what a running broker notes about itself in the state folder,
// so that stop, list and a second start can name it. Role and id are those of now:
// a change of roles writes the note again. The note is only believed
// while the store's lock is held: the kernel says by whom.
type localBroker struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId"`
	// ConfiguredID is the one of the configuration, which a change of roles overrides.
	ConfiguredID *int64    `json:"configuredId,omitempty"`
	Role         string    `json:"role"`
	Addr         string    `json:"addr"`
	HTTPAddr     string    `json:"httpAddr,omitempty"`
	Namesrv      []string  `json:"namesrv"`
	StoreDir     string    `json:"storeDir"`
	Pid          int       `json:"pid"`
	StartedAt    time.Time `json:"startedAt"`
}

func (l localBroker) name() string { return fmt.Sprintf("%s/%d", l.Broker, l.BrokerID) }

// configuredName is name before any change of roles.
func (l localBroker) configuredName() string {
	if l.ConfiguredID == nil {
		return l.name()
	}
	return fmt.Sprintf("%s/%d", l.Broker, *l.ConfiguredID)
}

func (l localBroker) item() brokerListItem {
	return brokerListItem{Broker: l.Broker, BrokerID: l.BrokerID, Role: l.Role, Addr: l.Addr, State: "OK", Pid: ptr(l.Pid), StoreDir: ptr(l.StoreDir)}
}

// stateDir is $XDG_STATE_HOME/mqctl or ~/.local/state/mqctl.
func stateDir(env func(string) string) string {
	if d := env("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "mqctl")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "mqctl")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("mqctl-%d", os.Getuid()))
}

// notePath is the note of the broker that uses a store.
func notePath(env func(string) string, store string) string {
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(stateDir(env), "run", "broker-"+hex.EncodeToString(sum[:8])+".json")
}

// writeNote leaves the note; the returned function removes it.
func writeNote(path string, v any) (func(), error) {
	b, err := marshalIndent(v)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil // a note left behind is not believed
}

// writePid writes the file of --pid-file; the returned function removes it. One that is
// left behind is recognised by its dead pid.
func writePid(name string) (func(), error) {
	_, err := vfs.OS{}.Place(name) // a device would be removed at the end, a pipe waits
	if err == nil {
		err = os.WriteFile(name, []byte(fmt.Sprintf("%d\n", os.Getpid())), 0o644)
	}
	if err != nil {
		return nil, fail(ExitBadConfig, "BAD_FILE", "cannot write the pid file: %v", err).try("--pid-file FILE")
	}
	return func() { _ = os.Remove(name) }, nil
}

// maxNote bounds what is read of a note.
const maxNote = 1 << 20

func readNote(path string, v any) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxNote {
		return fmt.Errorf("%s is too large for a note", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// localBrokers are the brokers of this user that run on this machine, by their
// notes and the locks of their stores, in order of name.
func localBrokers(c *call) []localBroker {
	notes, err := filepath.Glob(filepath.Join(stateDir(c.io.Env), "run", "broker-*.json"))
	if err != nil {
		return nil
	}
	var out []localBroker
	for _, path := range notes {
		var l localBroker
		if readNote(path, &l) != nil {
			continue
		}
		switch pid := lockHolder(lockPath(l.StoreDir)); {
		case pid > 0 && pid == l.Pid:
			out = append(out, l)
		case errors.Is(syscall.Kill(l.Pid, 0), syscall.ESRCH):
			_ = os.Remove(path) // its process was killed; nobody else writes this note
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name() < out[j].name() })
	return out
}

// lockPath is the lock file of a store.
func lockPath(store string) string { return filepath.Join(store, "lock") }

// lockHolder is the process that holds byte 0 of a lock file, 0 if none does.
// It takes no lock itself.
func lockHolder(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	q := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &q); err != nil || q.Type == unix.F_UNLCK {
		return 0
	}
	return int(q.Pid)
}

// storeUser names the process that uses a store.
func storeUser(env func(string) string, store string, pid int) string {
	var l localBroker
	if pid > 0 && readNote(notePath(env, store), &l) == nil && l.Pid == pid {
		return fmt.Sprintf("pid %d (mqctl broker %s, up %s)", pid, l.name(), shortDuration(time.Since(l.StartedAt)))
	}
	if pid <= 0 {
		return "another process"
	}
	if name := processName(pid); name != "" {
		return fmt.Sprintf("pid %d (%s)", pid, name)
	}
	return fmt.Sprintf("pid %d", pid)
}

// storeOwner is the broker that works in a store, as broker status names it.
func storeOwner(env func(string) string, store string, pid int, otherwise string) string {
	var l localBroker
	if pid > 0 && readNote(notePath(env, store), &l) == nil && l.Pid == pid {
		return l.name()
	}
	return otherwise
}

func processName(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// alive reports whether a process exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// stopProcess ends a process: SIGTERM, then after grace SIGKILL if force. gone
// reports whether what it held is free.
func stopProcess(pid int, grace time.Duration, force bool, gone func() bool) (bool, error) {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return true, nil
		}
		return false, fail(ExitDenied, "DENIED", "pid %d cannot be stopped: %v", pid, err)
	}
	if waitGone(pid, grace, gone) {
		return true, nil
	}
	if !force {
		return false, nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fail(ExitDenied, "DENIED", "pid %d cannot be killed: %v", pid, err)
	}
	return waitGone(pid, 5*time.Second, gone), nil
}

func waitGone(pid int, d time.Duration, gone func() bool) bool {
	end := time.Now().Add(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if gone() || !alive(pid) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		<-tick.C
	}
}
