package vfs

import (
	"os"
	"syscall"
	"time"
)

// TimeSetter is a file system that can set modification times; all of this
// package can.
type TimeSetter interface {
	// SetModTime sets the modification time of a file, as utimes does. It is not
	// durable before the file is synced.
	SetModTime(name string, t time.Time) error
}

var (
	_ TimeSetter = OS{}
	_ TimeSetter = (*Mem)(nil)
	_ TimeSetter = (*Injector)(nil)
)

// SetModTime implements TimeSetter.
func (OS) SetModTime(name string, t time.Time) error { return os.Chtimes(name, time.Time{}, t) }

// SetModTime implements TimeSetter.
func (m *Mem) SetModTime(name string, t time.Time) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return pathErr("utimes", name, err)
	}
	n.mu.Lock()
	n.modTime = t
	n.mu.Unlock()
	return nil
}

// SetModTime implements TimeSetter.
func (i *Injector) SetModTime(name string, t time.Time) error {
	if err := i.err(OpTimes, name); err != nil {
		return err
	}
	ts, ok := i.FS.(TimeSetter)
	if !ok {
		return pathErr("utimes", name, syscall.ENOTSUP)
	}
	return ts.SetModTime(name, t)
}
