package broker

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ports are the two listeners of a broker.
type ports struct {
	main, fast net.Listener
	addr       netip.AddrPort // of the main port, as bound
}

// listen opens the main port and the fast port two below it. With port 0 both
// are chosen by the system.
func listen(o Options) (ports, error) {
	host, port, err := splitListen(o.ListenAddr)
	if err != nil {
		return ports{}, &ConfigError{Key: "listenPort", Why: err.Error()}
	}
	mainPort, err := listenOn(o, o.ListenAddr)
	if err != nil {
		return ports{}, err
	}
	fast := 0
	if port != 0 {
		fast = port - 2
	}
	fastPort, err := listenOn(o, net.JoinHostPort(host, strconv.Itoa(fast)))
	if err != nil {
		return ports{}, errors.Join(err, mainPort.Close())
	}
	p := ports{main: mainPort, fast: fastPort}
	if a, err := netip.ParseAddrPort(mainPort.Addr().String()); err == nil {
		p.addr = a
	} else {
		p.addr = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port))
	}
	return p, nil
}

func listenOn(o Options, addr string) (net.Listener, error) {
	l, err := o.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	e := &PortError{Addr: addr, Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		if _, port, err := splitListen(addr); err == nil {
			e.Holder = PortHolder(port)
		}
	}
	return nil, e
}

// close closes both; for a broker that never ran.
func (p ports) close() error { return errors.Join(p.main.Close(), p.fast.Close()) }

// PortHolder names the process that listens on a TCP port, "pid 1402 (java)",
// through /proc: the socket's inode in net/tcp and net/tcp6, then the process with
// that descriptor. Empty where that cannot be known (another user's process, not Linux).
func PortHolder(port int) string {
	inodes := map[string]bool{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningInodes(name, port, inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !inodes[target] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		comm, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return "pid " + pid
		}
		return fmt.Sprintf("pid %s (%s)", pid, strings.TrimSpace(string(comm)))
	}
	return ""
}

// listeningInodes adds "socket:[inode]" of each listening socket on port. Lines
// are: number, local address:port in hex, remote, state (0A = listening), ...,
// and the inode as the tenth field.
func listeningInodes(name string, port int, into map[string]bool) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], suffix) {
			into["socket:["+fields[9]+"]"] = true
		}
	}
}
