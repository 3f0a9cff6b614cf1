package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Share takes the process lock of a store for reading: any number of processes
// may hold it so at a time, and none can take it for writing meanwhile, RocketMQ's
// brokers included. It changes nothing: where there is no lock file, nobody can
// hold it, and it takes nothing. A lock held for writing is a *LockedError.
//
// As with OS.Lock, the process must not open the file elsewhere while it is held.
func Share(name string) (io.Closer, error) {
	locks.Lock()
	defer locks.Unlock()
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil
	}
	if err != nil {
		return nil, err
	}
	if id, ok := idOf(info); ok && locks.held[id] {
		return nil, &LockedError{Path: name, PID: os.Getpid()}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	want := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want); err != nil {
		holder := lockHolder(f)
		f.Close() // we do not hold it, so closing loses nothing
		if err == unix.EAGAIN || err == unix.EACCES {
			return nil, &LockedError{Path: name, PID: holder}
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	id, _ := idOf(info)
	if locks.held == nil {
		locks.held = map[fileID]bool{}
	}
	locks.held[id] = true
	return &osLock{f: f, id: id}, nil
}

// noLock is what Share takes of a store without lock file.
type noLock struct{}

// Close implements io.Closer.
func (noLock) Close() error { return nil }
