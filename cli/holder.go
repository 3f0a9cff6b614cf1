package cli

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// portTaken is the error for an address that is in use.
func portTaken(addr string, err error) *Message {
	m := fail(ExitPortInUse, "PORT_IN_USE", "cannot listen on %s: %v", addr, plainNetError(err))
	m.Addr = addr
	_, port, splitErr := net.SplitHostPort(addr)
	if n, convErr := strconv.Atoi(port); splitErr == nil && convErr == nil && errors.Is(err, syscall.EADDRINUSE) {
		if who := portHolder(n); who != "" {
			m.reason("%s holds it", who)
		}
	}
	m.cause = err
	return m
}

// plainNetError is the reason without Go's wrapping.
func plainNetError(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "address in use"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine has no such address"
	case errors.Is(err, syscall.EACCES):
		return "permission denied"
	}
	return err.Error()
}

// portHolder names the process that listens on a TCP port, as far as /proc
// tells: "pid 1402 (java)".
func portHolder(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// number, local address, remote address, state (0A listens), ..., inode as the tenth
			w := strings.Fields(lines.Text())
			if len(w) > 9 && w[3] == "0A" && strings.HasSuffix(w[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+w[9]+"]"] = true
			}
		}
		_ = f.Close() // opened for reading
	}
	if len(inodes) == 0 {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || !inodes[target] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil {
			continue
		}
		if name := processName(pid); name != "" {
			return fmt.Sprintf("pid %d (%s)", pid, name)
		}
		return fmt.Sprintf("pid %d", pid)
	}
	return ""
}
