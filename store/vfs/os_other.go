//go:build !linux

package vfs

// Preallocate sets the length; reserving blocks is not portable.
func (f osFile) Preallocate(size int64) error { return f.extend(size) }

// Datasync is Sync where the system has no fdatasync.
func (f osFile) Datasync() error { return f.Sync() }

// OpenDisk implements FS; no other system reports what failed.
func (OS) OpenDisk(string) (Disk, error) { return nil, nil }

// Life implements FS.
func (OS) Life(string) string { return "" }
