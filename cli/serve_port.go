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
