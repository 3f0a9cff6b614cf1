package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"mqctl/store/vfs"
)

// PutAway moves files and folders of a store that nobody has open into a new folder
// mqctl/repair-<time>, below which they keep their paths; the result is its name,
// relative to the store. names are relative to the store and lie inside of it.
//
// rescan has the next start compare queues and index with the whole log: it is noted
// before anything is moved, so that a crash in between leaves nothing half known.
// What deleted topics left in the log stays known. Errors: *vfs.LockedError, those of
// the disk; a name that is gone already is none.
func PutAway(fsys vfs.FS, dir string, now time.Time, names []string, rescan bool) (to string, err error) {
	for _, n := range names {
		if !filepath.IsLocal(n) || filepath.Clean(n) == "." {
			return "", fmt.Errorf("put away %q: not a place inside of the store", n)
		}
	}
	lock, err := fsys.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if rescan {
		if err := forgetMarks(fsys, dir); err != nil {
			return "", err
		}
	}
	to = repairFolder(fsys, dir, now)
	for _, n := range outermost(names) {
		if err := putAwayOne(fsys, dir, to, n); err != nil {
			return to, err
		}
	}
	return to, nil
}

// outermost leaves out what goes with a folder that is named too.
func outermost(names []string) []string {
	named := map[string]bool{}
	for _, n := range names {
		named[filepath.Clean(n)] = true
	}
	var out []string
next:
	for n := range named {
		for up := filepath.Dir(n); up != "."; up = filepath.Dir(up) {
			if named[up] {
				continue next
			}
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// repairFolder is a name that is free, relative to dir.
func repairFolder(fsys vfs.FS, dir string, now time.Time) string {
	to := "mqctl/repair-" + now.UTC().Format("20060102T150405Z")
	for i, base := 2, to; ; i++ {
		if _, err := fsys.Stat(filepath.Join(dir, to)); errors.Is(err, fs.ErrNotExist) {
			return to
		}
		to = fmt.Sprintf("%s-%d", base, i)
	}
}

// NobodysPID is what a repair writes into the file abort.
const NobodysPID = "0"

// forgetMarks has the next start believe nothing about how far queues and index are: an
// abort file of no process, and no checkpoint.
func forgetMarks(fsys vfs.FS, dir string) error {
	if err := vfs.WriteFile(fsys, filepath.Join(dir, "abort"), []byte(NobodysPID)); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	err := fsys.Remove(filepath.Join(dir, "checkpoint"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

func putAwayOne(fsys vfs.FS, dir, to, name string) error {
	from, target := filepath.Join(dir, name), filepath.Join(dir, to, name)
	if _, err := fsys.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := vfs.MkdirAllSync(fsys, filepath.Dir(target)); err != nil {
		return err
	}
	if err := fsys.Rename(from, target); err != nil {
		return fmt.Errorf("put %s away: %w", name, err)
	}
	if err := fsys.SyncDir(filepath.Dir(target)); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(from))
}
