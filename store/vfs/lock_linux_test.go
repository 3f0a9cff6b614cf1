package vfs_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mqctl/store/vfs"
)

// TestMain plays the process that holds a lock when the environment says so.
func TestMain(m *testing.M) {
	if name := os.Getenv("VFS_TEST_HOLD_LOCK"); name != "" {
		l, err := vfs.OS{}.Lock(name)
		if err != nil {
			os.Stdout.WriteString("error " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		_ = l.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The lock is between processes, names its holder, is the kernel's record lock
// on byte 0 that Java takes, and ends with the process.
func TestLockBetweenProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "VFS_TEST_HOLD_LOCK="+name)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the other process says %q %v", line, err)
	}
	_, err = vfs.OS{}.Lock(name)
	var held *vfs.LockedError
	if !errors.As(err, &held) || held.PID != cmd.Process.Pid {
		t.Errorf("lock held by process %d: %v", cmd.Process.Pid, err)
	}
	if b, err := os.ReadFile("/proc/locks"); err == nil {
		found := false
		for _, l := range strings.Split(string(b), "\n") {
			f := strings.Fields(l)
			found = found || len(f) > 7 && f[1] == "POSIX" && f[3] == "WRITE" && f[6] == "0" && f[7] == "0"
		}
		if !found {
			t.Errorf("no record lock on byte 0 in\n%s", b)
		}
	}
	must(t, in.Close())
	must(t, cmd.Wait())
	l, err := vfs.OS{}.Lock(name)
	must(t, err)
	must(t, l.Close())
	if b, err := os.ReadFile(name); err != nil || string(b) != "lock" {
		t.Errorf("lock file holds %q %v", b, err)
	}
}
