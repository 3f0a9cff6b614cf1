package commitlog

import (
	"errors"
	"io"
	"path/filepath"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// CutTo makes the log end at pos, in memory and on disk: files behind it are
// removed, the rest of its own is zeroed, and all that is synced. The first file stays.
// Whoever reads a file that goes may finish. Append lock.
func (l *Log) CutTo(pos int64) error {
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	if err := l.dropReady(); err != nil {
		return err
	}
	var keep []*segment
	for i, s := range *l.segs.Load() {
		if s.base < pos || i == 0 {
			keep = append(keep, s)
		}
	}
	if err := l.drop(pos, keep); err != nil {
		return err
	}
	if err := CutFiles(l.fs, l.dir, l.segBytes, pos); err != nil {
		return err
	}
	l.flushed.Store(pos)
	return nil
}

// Clear forgets all files, which the caller moves away: the log is empty and
// begins at 0. Append lock.
func (l *Log) Clear() error {
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	if err := l.dropReady(); err != nil {
		return err
	}
	return l.drop(0, nil)
}

// CutFiles does on disk what CutTo does, on a log that is not open. It may be
// done again after a crash.
func CutFiles(fsys vfs.FS, dir string, segBytes, pos int64) error {
	files, _, err := segfile.List(fsys, dir)
	if err != nil {
		return err
	}
	for i := len(files) - 1; i > 0 && files[i].Base >= pos; i-- {
		if err := fsys.Remove(filepath.Join(dir, segfile.Name(files[i].Base))); err != nil {
			return err
		}
		files = files[:i]
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if len(files) == 0 {
		return nil
	}
	last := files[len(files)-1]
	if pos-last.Base >= segBytes {
		return nil
	}
	return zeroFile(fsys, filepath.Join(dir, segfile.Name(last.Base)), max(pos-last.Base, 0))
}

// zeroFile zeroes a file from at on. What is zero is not written: files are
// sparse.
func zeroFile(fsys vfs.FS, name string, at int64) error {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	defer f.Close() // synced below
	size, err := f.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, scanWindow)
	zeros := make([]byte, scanWindow)
	for at < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return err
		}
		if !allZero(buf[:n]) {
			if _, err := f.WriteAt(zeros[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return f.Sync()
}
