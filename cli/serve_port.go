package cli

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"mqctl/broker"
)

// portTaken is the error for an address that is in use.
func portTaken(addr string, err error) *Message {
	m := fail(ExitPortInUse, "PORT_IN_USE", "cannot listen on %s: %v", addr, plainNetError(err))
	m.Addr = addr
	_, port, splitErr := net.SplitHostPort(addr)
	if n, convErr := strconv.Atoi(port); splitErr == nil && convErr == nil && errors.Is(err, syscall.EADDRINUSE) {
		if who := broker.PortHolder(n); who != "" {
			m.reason("%s holds it", who)
		}
	}
	m.cause = err
	return m
}

// otherPort is an address beside a taken one, 1000 ports on.
func otherPort(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	n, convErr := strconv.Atoi(port)
	if err != nil || convErr != nil {
		return "HOST:PORT"
	}
	if n += 1000; n > 65535 {
		n -= 2000
	}
	return net.JoinHostPort(host, strconv.Itoa(n))
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
