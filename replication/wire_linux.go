package replication

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"mqctl/store"
	"mqctl/store/vfs"
)

// wire writes to a connection without waiting, where the system allows. Its
// methods are called under the connection's sendMu.
type wire struct {
	raw syscall.RawConn // nil: only nc.Write, which waits
	// What the functions below work on; made once, so that a write allocates nothing.
	writeFn func(fd uintptr)
	buf     []byte
	more    bool
	n       int
	err     error
}

func newWire(nc net.Conn) *wire {
	w := &wire{}
	w.writeFn = w.writeOnce
	if c, ok := nc.(*net.TCPConn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			w.raw = raw
		}
	}
	return w
}

func (w *wire) writeOnce(fd uintptr) {
	for {
		if w.more {
			w.n, w.err = unix.SendmsgN(int(fd), w.buf, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		} else {
			w.n, w.err = unix.Write(int(fd), w.buf)
		}
		if !errors.Is(w.err, unix.EINTR) {
			return
		}
	}
}

// writeNow writes what the socket takes at once of p. more says that the rest of a
// frame follows immediately, so that no packet need leave yet.
func (w *wire) writeNow(p []byte, more bool) (n int, blocked bool, err error) {
	w.buf, w.more, w.n, w.err = p, more, 0, nil
	err = w.raw.Control(w.writeFn)
	n = max(0, w.n)
	if err == nil {
		err = w.err
	}
	w.buf = nil
	if errors.Is(err, unix.EAGAIN) {
		return n, true, nil
	}
	return n, err == nil && n < len(p), err
}

// sendfileNow hands a stretch of a file to the socket without a copy in this
// process. ok is false where the file or the system cannot do it.
func (w *wire) sendfileNow(r store.RawRange) (n int, blocked, ok bool, err error) {
	f, is := vfs.Descriptor(r.File)
	if !is {
		return 0, false, false, nil
	}
	from, err := f.SyscallConn()
	if err != nil {
		return 0, false, false, nil //nolint:nilerr // the file cannot do it: read it instead
	}
	var inner error
	err = errors.Join(w.raw.Control(func(to uintptr) {
		err2 := from.Control(func(in uintptr) {
			off := r.Offset
			for {
				if n, inner = unix.Sendfile(int(to), int(in), &off, int(r.Len)); !errors.Is(inner, unix.EINTR) {
					return
				}
			}
		})
		if err2 != nil {
			inner = err2
		}
	}))
	n = max(0, n)
	switch {
	case err != nil:
		return n, false, true, err
	case errors.Is(inner, unix.EAGAIN):
		return n, true, true, nil
	case errors.Is(inner, unix.EINVAL), errors.Is(inner, unix.ENOSYS), errors.Is(inner, unix.EOPNOTSUPP):
		return 0, false, false, nil
	}
	return n, false, true, inner
}

// whenWritable calls try, and again each time the socket takes data after try said
// that it was full. It returns when try was not stopped by the socket.
func (w *wire) whenWritable(try func() (blocked bool)) error {
	return w.raw.Write(func(uintptr) bool { return !try() })
}
