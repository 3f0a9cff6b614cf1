package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// OddFile is a file of the commit log that has not the size of the others.
type OddFile struct {
	Base int64 // its name
	Size int64 // bytes that it must have
}

// Resize gives files of the log of a store that nobody has open their size: a short one
// gets zeros at its end, which a scan takes for a hole; what a long one has too much is
// copied into a new folder mqctl/repair-<time>, whose name relative to dir is the result (empty:
// none was made). The next start scans the whole log. logDir empty means dir/commitlog.
//
// It may be done again after a crash. Errors: *vfs.LockedError, those of the disk.
func Resize(fsys vfs.FS, dir, logDir string, now time.Time, files []OddFile) (to string, err error) {
	if logDir == "" {
		logDir = filepath.Join(dir, "commitlog")
	}
	lock, err := fsys.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := forgetMarks(fsys, dir); err != nil {
		return "", err
	}
	for _, o := range files {
		name := filepath.Join(logDir, segfile.Name(o.Base))
		e, err := fsys.Stat(name)
		if err != nil {
			return to, err
		}
		if e.Size > o.Size {
			if to == "" {
				to = repairFolder(fsys, dir, now)
			}
			if err := keepRest(fsys, name, filepath.Join(dir, to, "commitlog"), o.Size); err != nil {
				return to, fmt.Errorf("keep the end of %s: %w", name, err)
			}
		}
		if err := setSize(fsys, name, o.Size); err != nil {
			return to, err
		}
	}
	return to, nil
}

func setSize(fsys vfs.FS, name string, size int64) (err error) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// keepRest copies what a file has behind size into a file of the same name in the folder
// to, whose name says where it was.
func keepRest(fsys vfs.FS, name, to string, size int64) (err error) {
	if err := vfs.MkdirAllSync(fsys, to); err != nil {
		return err
	}
	in, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.Create(filepath.Join(to, fmt.Sprintf("%s.from-%d", filepath.Base(name), size)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, 1<<20)
	for at := size; ; {
		n, rerr := in.ReadAt(buf, at)
		if _, err := out.WriteAt(buf[:n], at-size); err != nil {
			return err
		}
		at += int64(n)
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return rerr
		}
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return fsys.SyncDir(to)
}

// Rescan has the next start of a store that nobody has open believe nothing about what was
// checked before: it scans the whole log and compares queues and index with it. Errors:
// *vfs.LockedError, those of the disk.
func Rescan(fsys vfs.FS, dir string) (err error) {
	lock, err := fsys.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return forgetMarks(fsys, dir)
}
