package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

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

// osDisk is a file system, by an open folder of it: the kernel reports each failed
// write once to every descriptor that was open then.
type osDisk struct {
	f   *os.File
	dev uint64
}

// OpenDisk implements FS by syncfs, on the file systems that are known to write
// everything out and to flush the disk by it. It reports failed writes since Linux 5.8.
func (OS) OpenDisk(dir string) (Disk, error) {
	if !syncfsTells() {
		return nil, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	var fsys unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(int(f.Fd()), &fsys), unix.Fstat(int(f.Fd()), &st)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	switch fsys.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return &osDisk{f: f, dev: st.Dev}, nil
	default:
		return nil, f.Close()
	}
}

var syncfsTells = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > 5 || major == 5 && minor >= 8
})

// Holds implements Disk.
func (d *osDisk) Holds(name string) bool {
	var st unix.Stat_t
	return unix.Stat(name, &st) == nil && st.Dev == d.dev
}

// Sync implements Disk.
func (d *osDisk) Sync() error { return osFile{d.f}.control("syncfs", unix.Syncfs) }

// Close implements Disk.
func (d *osDisk) Close() error { return d.f.Close() }

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// Life implements FS: the boot of the machine, and which folder it is.
func (OS) Life(dir string) string {
	var st unix.Stat_t
	if bootID() == "" || unix.Stat(dir, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%s-%x-%x", bootID(), st.Dev, st.Ino)
}
