// Package vfs is the file system seam: everything the store, its tables and
// the nameserver put on disk goes through an FS, so that a crash is a unit
// test.
//
//   - OS is the real file system.
//   - Mem keeps everything in memory with sparse files, knows what was synced
//     and what was not, and can be cloned as a crash (CrashClone) or the mere
//     death of the process (ProcessKillClone) would leave it.
//   - Injector wraps either one: it reports every operation before it happens
//     and fails the ones a test asks for.
//
// Durability contract, the one of POSIX and no more: the content of a file is
// safe after its Sync or Datasync; its name is safe after SyncDir of the
// folder that holds it. A rename is atomic.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
)

// FS is a file system. Paths are as given to package os. Errors of missing and
// existing names match fs.ErrNotExist and fs.ErrExist.
type FS interface {
	// Create makes an empty file for reading and writing, truncating an old one.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a file or a whole tree; a missing one is no error.
	RemoveAll(name string) error
	// Rename atomically gives a file or directory a new name, replacing a file
	// that has it.
	Rename(oldName, newName string) error
	// Link makes newName a second name of oldName's content (hard link).
	Link(oldName, newName string) error
	// MkdirAll makes a directory and its parents; existing ones are no error.
	MkdirAll(dir string) error
	// ReadDir lists the entries of a directory, sorted by name.
	ReadDir(dir string) ([]Entry, error)
	// Split lists the names of the directories in dir and of all else, sorted. It asks
	// nothing about each, which ReadDir does.
	Split(dir string) (dirs, others []string, err error)
	// Stat describes a file or directory.
	Stat(name string) (Entry, error)
	// SyncDir makes the creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Lock takes the process lock (POSIX record lock on byte 0, the one Java's
	// FileChannel.tryLock(0, 1, false) takes) on name, creating the file with
	// the text "lock". A held lock is a *LockedError, which wraps ErrLocked.
	Lock(name string) (io.Closer, error)
	// Usage reports the disk that holds dir.
	Usage(dir string) (Usage, error)
	// OpenDisk opens the file system that holds dir, to sync all of it at once. It
	// returns nil where the system cannot do that, or does not tell of writes that
	// failed meanwhile: then each file has to be synced. Open it before what it is
	// to make safe is written.
	OpenDisk(dir string) (Disk, error)
	// Life is a text that stays the same as long as no write below dir can have been lost by
	// a crash of the machine: what a process wrote that was killed is all there. It is
	// another one after a restart of the machine, and for a copy of the folder; empty where
	// the system does not tell.
	Life(dir string) string
}

// Modes is what file systems have whose files may be kept from other users.
type Modes interface {
	// CopyMode gives the file to the permissions of from, and its owner where this
	// process may. Where from does not exist, only the owner may read and write to.
	CopyMode(from, to string) error
}

// Places is what file systems have whose names may stand for something else.
type Places interface {
	// Place tells where the file called name really is, so that a rename replaces the
	// file that a link leads to and not the link. It fails where something lies that is
	// no file, such as a device, and must not be replaced. A free name is its own place.
	Place(name string) (string, error)
}

// Disk is a file system that can be synced as a whole.
type Disk interface {
	io.Closer
	// Holds says whether a file or folder lies on it.
	Holds(name string) bool
	// Sync makes all contents and names on it safe. An error is as final as one
	// of File.Sync.
	Sync() error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the path the file was opened with.
	Name() string
	// Size is the length in bytes.
	Size() (int64, error)
	// Truncate sets the length; new bytes are zero and need no disk blocks.
	Truncate(size int64) error
	// Preallocate extends the file to size bytes of zeros, with blocks reserved
	// where the file system can do so. It never shortens a file.
	Preallocate(size int64) error
	// Sync is fsync; Datasync is fdatasync (content and length, not times).
	Sync() error
	Datasync() error
}

// Entry describes a file or directory.
type Entry struct {
	Name      string // base name
	Size      int64  // bytes
	Dir       bool   // a folder, or a pipe, socket or device: no file
	ModMillis int64  // Unix milliseconds
}

// Usage is what a disk holds, in bytes. Avail is what an ordinary user may
// still write; it is smaller than Free where blocks are kept for root.
type Usage struct{ Total, Free, Avail int64 }

// ErrLocked says that another broker holds the lock.
var ErrLocked = errors.New("held by another process")

// LockedError names the lock file and, where the system tells, its holder.
type LockedError struct {
	Path string
	PID  int // 0 if unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process: stop it, or use another folder", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d: stop it, or use another folder", e.Path, e.PID)
}

// Unwrap makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Unwrap() error { return ErrLocked }

// SyncError is a failed sync after which nobody knows what is on the disk: the
// kernel counts what it could not write as written, so that the next sync
// succeeds and means nothing. It does not heal, whatever the cause was.
type SyncError struct{ Err error }

func (e *SyncError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SyncError) Unwrap() error { return e.Err }

func syncFailed(err error) bool {
	var failed *SyncError
	return errors.As(err, &failed)
}

// DiskFull reports whether err means that the disk or the quota is exhausted,
// which heals when space is freed, unlike every other write error.
func DiskFull(err error) bool {
	return !syncFailed(err) && diskFull(err)
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Scarce reports whether err means that something of the system has run out that
// comes back when others let go of it: file descriptors (many connections have them
// too) or the kernel's memory. A full disk is not meant.
func Scarce(err error) bool {
	return !syncFailed(err) && scarce(err)
}

func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// ReadFile returns the content of a file of at most limit bytes.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so nothing can be lost
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("read %s: it has %d bytes, more than the %d allowed", name, size, limit)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// WriteFile makes name hold exactly data and syncs it. The directory is not
// synced, and a crash in between leaves a torn file: write to a temporary name
// and rename it where that matters.
func WriteFile(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// MkdirAllSync is MkdirAll after which the names of all directories it made
// are durable. Existing directories cost one Stat and no sync; so if it fails, it
// removes what it made, which the next call would take for durable.
func MkdirAllSync(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	var made []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := fsys.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	if len(made) == 0 {
		return nil
	}
	err := fsys.MkdirAll(dir)
	for i := len(made) - 1; i >= 0 && err == nil; i-- {
		err = fsys.SyncDir(filepath.Dir(made[i]))
	}
	if err != nil {
		for _, d := range made {
			_ = fsys.Remove(d) // empty, or not ours
		}
	}
	return err
}

// OtherDisk reports whether err of a Rename means that the new name is on
// another file system.
func OtherDisk(err error) bool { return errors.Is(err, syscall.EXDEV) }
