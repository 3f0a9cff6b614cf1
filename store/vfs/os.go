package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the real file system. Its zero value is ready for use.
type OS struct{}

var (
	_ FS     = OS{}
	_ Modes  = OS{}
	_ Places = OS{}
)

// osFile has, besides the methods of File, those of os.File: callers that hand
// a range to sendfile find the descriptor through SyscallConn.
type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// errPipe says why something is not opened.
var errPipe = errors.New("a pipe or socket is in the place of a file: remove it")

// errNoFile says why something is not replaced: as root a rename would turn the
// system's /dev/null into a file.
var errNoFile = errors.New("it is no regular file")

// open opens a file. A pipe or socket is refused: opening it, or the first read, would
// wait for whoever is at its other end, perhaps for ever.
func open(name string, flag int) (*os.File, error) {
	if err := CheckFile(name); err != nil {
		return nil, err
	}
	return os.OpenFile(name, flag, 0o644)
}

// CheckFile refuses a name at which a pipe or socket lies. A name that is free, or
// cannot be looked at, passes: opening it says more.
func CheckFile(name string) error {
	if info, err := os.Stat(name); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return &fs.PathError{Op: "open", Path: name, Err: errPipe}
	}
	return nil
}

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return wrap(open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC))
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return wrap(open(name, os.O_RDONLY)) }

// OpenReadWrite implements FS.
func (OS) OpenReadWrite(name string) (File, error) {
	return wrap(open(name, os.O_RDWR))
}

// CopyMode implements Modes.
func (OS) CopyMode(from, to string) error {
	mode := fs.FileMode(0o600)
	switch info, err := os.Stat(from); {
	case err == nil:
		mode = info.Mode().Perm()
		copyOwner(info, to)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Chmod(to, mode)
}

// Place implements Places.
func (OS) Place(name string) (string, error) {
	info, err := os.Stat(name) // it knows pipes behind /dev/stdout, which have no path
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", &fs.PathError{Op: "replace", Path: name, Err: errNoFile}
	}
	return filepath.EvalSymlinks(name)
}

// copyOwner gives the file to the owner and group of another one, so that who runs a
// service can read its file after root has changed it. Only root may; for anybody else
// it fails and the file is this user's.
func copyOwner(from fs.FileInfo, to string) {
	if st, ok := from.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = os.Chown(to, int(st.Uid), int(st.Gid)) // a file system without owners has nothing to keep
	}
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Link implements FS.
func (OS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

// ReadDir implements FS. Symbolic links are followed, since operators move
// folders of a store to other disks that way.
func (OS) ReadDir(dir string) ([]Entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(list))
	for _, d := range list {
		info, err := d.Info()
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			info, err = os.Stat(dir + string(os.PathSeparator) + d.Name())
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, entryOf(d.Name(), info))
	}
	return out, nil
}

// Split implements FS.
func (OS) Split(dir string) (dirs, others []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	dirs = make([]string, 0, len(list))
	for _, d := range list {
		is := noFile(d.Type())
		if d.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(dir + string(os.PathSeparator) + d.Name())
			is = err == nil && noFile(info.Mode())
		}
		if is {
			dirs = append(dirs, d.Name())
		} else {
			others = append(others, d.Name())
		}
	}
	return dirs, others, nil
}

// noFile says that something is a folder, or what nobody can read as a file: opening a
// pipe waits for a writer.
func noFile(m fs.FileMode) bool { return m.Type() != 0 && m.Type() != fs.ModeSymlink }

func entryOf(name string, info fs.FileInfo) Entry {
	return Entry{Name: name, Size: info.Size(), Dir: noFile(info.Mode()), ModMillis: info.ModTime().UnixMilli()}
}

// Stat implements FS.
func (OS) Stat(name string) (Entry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(info.Name(), info), nil
}

// SyncDir implements FS. File systems that cannot sync a folder (EINVAL) have
// nothing to make durable there.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Usage implements FS.
func (OS) Usage(dir string) (Usage, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Usage{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
		}
		break
	}
	unit := int64(st.Bsize)
	return Usage{
		Total: int64(st.Blocks) * unit,
		Free:  int64(st.Bfree) * unit,
		Avail: int64(st.Bavail) * unit,
	}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// locks remembers which lock files this process holds. It has to be global as
// the locks are: a POSIX record lock belongs to the process, does not conflict
// with itself, and vanishes when any descriptor of the file is closed. So a
// held file must never be opened a second time, not even to find it held.
var locks struct {
	sync.Mutex
	held map[fileID]bool
}

type fileID struct{ dev, ino uint64 }

func idOf(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, true
}

type osLock struct {
	f    *os.File
	id   fileID
	once sync.Once
	err  error
}

// Lock implements FS with fcntl(F_SETLK) on byte 0, length 1, exclusive.
func (OS) Lock(name string) (io.Closer, error) {
	locks.Lock()
	defer locks.Unlock()
	if info, err := os.Stat(name); err == nil {
		if id, ok := idOf(info); ok && locks.held[id] {
			return nil, &LockedError{Path: name, PID: os.Getpid()}
		}
	}
	f, err := open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l, err := lockFile(f, name)
	if err != nil {
		f.Close() // we do not hold it, so closing loses nothing
		return nil, err
	}
	if locks.held == nil {
		locks.held = map[fileID]bool{}
	}
	locks.held[l.id] = true
	return l, nil
}

func lockFile(f *os.File, name string) (*osLock, error) {
	want := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want); err != nil {
		if err == unix.EAGAIN || err == unix.EACCES {
			return nil, &LockedError{Path: name, PID: lockHolder(f)}
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	id, _ := idOf(info)
	// Java writes this text and syncs it; a full disk must not keep us from
	// reading what is there, and the lock does not depend on the text.
	if _, err := f.WriteAt([]byte("lock"), 0); err == nil {
		_ = f.Sync()
	} else if !DiskFull(err) {
		return nil, err
	}
	return &osLock{f: f, id: id}, nil
}

// lockHolder asks the kernel who holds byte 0; 0 if it does not say (network
// file systems, other pid name spaces).
func lockHolder(f *os.File) int {
	q := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &q); err != nil || q.Type == unix.F_UNLCK || q.Pid < 0 {
		return 0
	}
	return int(q.Pid)
}

// Close releases the lock by closing its only descriptor.
func (l *osLock) Close() error {
	l.once.Do(func() {
		locks.Lock()
		defer locks.Unlock()
		delete(locks.held, l.id)
		l.err = l.f.Close()
	})
	return l.err
}

// extend is Preallocate without reserved blocks.
func (f osFile) extend(size int64) error {
	old, err := f.Size()
	if err != nil || old >= size {
		return err
	}
	return f.Truncate(size)
}

// Descriptor returns the file of the operating system behind f, for calls that
// pass bytes on without copying them; false for one that is elsewhere. The file
// belongs to f: use it no longer than that, and never by its own position.
func Descriptor(f File) (*os.File, bool) {
	o, ok := f.(osFile)
	return o.File, ok
}
