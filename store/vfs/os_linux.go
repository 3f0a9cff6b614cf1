package vfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// control runs call on the descriptor while it cannot be closed, so that a
// Close at the wrong moment never sends it to another file.
func (f osFile) control(op string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if conn.Control(func(fd uintptr) {
		for {
			if inner = call(int(fd)); !errors.Is(inner, unix.EINTR) {
				return
			}
		}
	}) != nil {
		// Control fails for this reason only, with an error of its own.
		inner = fs.ErrClosed
	}
	if inner != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: inner}
	}
	return nil
}

// Preallocate reserves blocks with fallocate, so that a later write cannot
// fail for lack of space and does not have to find blocks.
func (f osFile) Preallocate(size int64) error {
	if size <= 0 {
		return nil
	}
	unsupported := false
	err := f.control("fallocate", func(fd int) error {
		err := unix.Fallocate(fd, 0, 0, size)
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
			unsupported = true
			return nil
		}
		return err
	})
	if unsupported {
		return f.extend(size)
	}
	return err
}

// Datasync is fdatasync: content and length, but not the times, which saves a
// journal write per sync on a preallocated file.
func (f osFile) Datasync() error {
	return f.control("fdatasync", unix.Fdatasync)
}
