//go:build unix

package remoting

import (
	"io"
	"math"
	"net"
	"syscall"
)

// rawConn returns access to a TCP socket that lets us read and write without
// waiting, nil for every other connection.
func rawConn(c net.Conn) syscall.RawConn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// connLimit is how many connections leave enough of the process's descriptors to its
// files.
func connLimit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	n := int(r.Cur)
	return n - min(reservedFiles, n/2)
}

// readNow reads what the socket has. again is true if it has nothing yet.
func readNow(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0, true, nil
		case err != nil:
			return 0, false, err
		case n == 0:
			return 0, false, io.EOF
		}
		return n, false, nil
	}
}

// writeNow writes what the socket takes, perhaps nothing.
func writeNow(fd uintptr, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := syscall.Write(int(fd), b[n:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return n, nil
		case err != nil:
			return n, err
		}
		n += m
		if n < len(b) {
			return n, nil // the socket is full; asking again would only say so
		}
	}
	return n, nil
}
