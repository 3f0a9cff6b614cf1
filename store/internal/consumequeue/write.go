package consumequeue

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// Write puts all units into the files (not yet synced), making files as needed.
func (q *Queue) Write() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writeLocked()
}

// WriteOpen is Write as far as it need not make a file. left is the position of the first
// message whose unit is still in memory only, -1 if there is none.
func (q *Queue) WriteOpen() (left int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	needFile := q.ext != nil && !q.gone && q.written < q.end && q.ext.needsFile()
	if !needFile {
		needFile, err = q.writeOpen()
	}
	if err != nil || !needFile {
		return -1, err
	}
	u := Decode(q.ring[q.slot(q.written):])
	if u.IsVoid() {
		return 0, nil
	}
	return u.Phys, nil
}

func (q *Queue) writeLocked() error {
	for {
		needFile, err := q.writeOpen()
		if err != nil || !needFile {
			return err
		}
		if q.rolling {
			q.rolled.Wait()
			continue
		}
		if err := q.roll(); err != nil {
			return err
		}
	}
}

// writeOpen writes what goes into files that exist. It reports whether units
// are left for which there is no file.
func (q *Queue) writeOpen() (needFile bool, err error) {
	if q.gone {
		q.written = q.end
	}
	if q.ext != nil && !q.gone && q.written < q.end {
		if err := q.ext.write(); err != nil { // first: a unit's address shall lead somewhere
			return false, err
		}
	}
	for q.written < q.end {
		run, base, at := q.nextRun()
		if base >= q.nextBase {
			return true, nil
		}
		if err := q.writeRun(run, base, at); err != nil {
			return false, err
		}
		q.written += int64(len(run)) / q.unit
	}
	return false, nil
}

// nextRun is the units that can be written next in one piece, and where.
func (q *Queue) nextRun() (run []byte, base, at int64) {
	slot := q.slot(q.written)
	pos := q.written * q.unit
	base = pos / q.sh.FileBytes * q.sh.FileBytes
	n := min((q.end-q.written)*q.unit, int64(len(q.ring))-slot, base+q.sh.FileBytes-pos)
	return q.ring[slot : slot+n], base, pos - base
}

// writeRun writes units into a file that exists.
func (q *Queue) writeRun(run []byte, base, at int64) error {
	h, err := q.sh.Files.Acquire(q, base)
	if err != nil {
		return err
	}
	_, err = h.WriteAt(run, at)
	q.sh.Files.Release(h)
	if err == nil {
		q.mark(base)
	}
	return err
}

func (q *Queue) mark(base int64) {
	if n := len(q.unsynced); n == 0 || q.unsynced[n-1] != base {
		q.unsynced = append(q.unsynced, base)
	}
}

// roll makes the next file with the units that come first in it. The lock is
// not held meanwhile; rolling keeps others from doing the same.
func (q *Queue) roll() error {
	run, base, at := q.nextRun()
	run = bytes.Clone(run)
	second := q.nextBase >= 0
	bases, newNames := q.unsynced, q.newNames
	q.unsynced, q.newNames = nil, false
	q.rolling = true
	q.mu.Unlock()

	var err error
	if second {
		err = q.syncFiles(bases, newNames)
		bases, newNames = nil, false
	}
	if err == nil {
		err = q.makeFile(run, base, at, second)
	}

	q.mu.Lock()
	q.rolling = false
	q.rolled.Broadcast()
	q.unsynced = append(bases, q.unsynced...)
	q.newNames = q.newNames || newNames
	switch {
	case q.gone:
		return nil // whoever deletes the queue waits, and removes the file
	case err != nil:
		return err
	}
	q.nextBase = base + q.sh.FileBytes
	q.written += int64(len(run)) / q.unit
	q.newNames = true
	q.mark(base)
	return nil
}

// makeFile makes the file that starts at base together with its first units:
// beside, then renamed, so that not even a crash leaves one without units. For
// the same reason the units of a second file are safe before its name, as is
// the file before it: Apache believes a file of zeros behind a full one, and
// does not start if one in the middle is short.
func (q *Queue) makeFile(run []byte, base, at int64, second bool) error {
	if err := q.sh.FS.MkdirAll(q.dir); err != nil {
		return err
	}
	q.sh.makeMu.Lock()
	defer q.sh.makeMu.Unlock()
	f, err := q.sh.FS.Create(q.sh.TempFile)
	if err != nil {
		return err
	}
	if err = f.Truncate(q.sh.FileBytes); err == nil {
		_, err = f.WriteAt(run, at)
	}
	if err == nil && second {
		err = f.Datasync()
	}
	name := filepath.Join(q.dir, segfile.Name(base))
	if err == nil {
		err = q.sh.FS.Rename(q.sh.TempFile, name)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = q.sh.FS.Remove(q.sh.TempFile) // the next Create empties it anyway
	}
	return err
}

// Sync makes the units written so far safe. Only one Sync may run at a time.
func (q *Queue) Sync() error {
	q.mu.Lock()
	bases, newNames := q.unsynced, q.newNames
	q.unsynced, q.newNames = nil, false
	var extBases []int64
	var extNew bool
	if q.ext != nil {
		extBases, extNew = q.ext.taken()
	}
	q.mu.Unlock()

	var err error
	if q.ext != nil {
		err = q.ext.sync(extBases, extNew)
	}
	if err == nil {
		err = q.syncFiles(bases, newNames)
	}
	if err != nil {
		q.mu.Lock()
		if q.ext != nil {
			q.ext.unsynced, q.ext.fresh = append(extBases, q.ext.unsynced...), q.ext.fresh || extNew
		}
		q.unsynced = append(bases, q.unsynced...)
		q.newNames = q.newNames || newNames
		gone := q.gone
		q.mu.Unlock()
		if gone {
			return nil
		}
	}
	return err
}

// Unsynced is what of a queue is not safe yet.
type Unsynced struct {
	q                *Queue
	bases, extBases  []int64
	newNames, extNew bool
}

// TakeUnsynced takes out what Sync would make safe, for somebody who syncs the whole
// disk. False if a file lies on another one: then Sync has to do it.
func (q *Queue) TakeUnsynced(disk vfs.Disk) (Unsynced, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := Unsynced{q: q, bases: q.unsynced, newNames: q.newNames}
	for _, base := range q.unsynced {
		if !disk.Holds(filepath.Join(q.dir, segfile.Name(base))) {
			return u, q.gone
		}
	}
	if q.newNames && !disk.Holds(q.dir) && !q.gone {
		return u, false
	}
	if x := q.ext; x != nil {
		for _, base := range x.unsynced {
			if !disk.Holds(filepath.Join(x.dir, segfile.Name(base))) {
				return u, q.gone
			}
		}
		u.extBases, u.extNew = x.taken()
	}
	q.unsynced, q.newNames = nil, false
	return u, true
}

// PutBack takes back what TakeUnsynced took out, as the sync failed.
func (u *Unsynced) PutBack() {
	q := u.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return
	}
	q.unsynced = append(u.bases, q.unsynced...)
	q.newNames = q.newNames || u.newNames
	if x := q.ext; x != nil {
		x.unsynced, x.fresh = append(u.extBases, x.unsynced...), x.fresh || u.extNew
	}
}

func (q *Queue) syncFiles(bases []int64, newNames bool) error {
	for _, base := range bases {
		h, err := q.sh.Files.Acquire(q, base)
		if err != nil {
			return err
		}
		err = h.Datasync()
		q.sh.Files.Release(h)
		if err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	if !newNames {
		return nil
	}
	topic := filepath.Dir(q.dir)
	dirs := []string{q.dir, topic, filepath.Dir(topic)}
	if q.sh.Batch {
		dirs = append(dirs, filepath.Dir(dirs[2])) // made with the first batch queue
	}
	for _, dir := range dirs {
		if err := q.sh.FS.SyncDir(dir); err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	return nil
}

// Delete removes the files. Appends to it afterwards go nowhere.
func (q *Queue) Delete() error {
	q.mu.Lock()
	q.gone = true
	for q.rolling {
		q.rolled.Wait()
	}
	q.written = q.end
	q.nextBase = -1
	q.unsynced, q.newNames = nil, false
	if q.ext != nil {
		q.ext.forget()
	}
	q.mu.Unlock()
	q.Release()
	q.sh.Files.Forget(q)
	if q.ext != nil {
		if err := q.sh.FS.RemoveAll(q.ext.dir); err != nil {
			return err
		}
	}
	return q.sh.FS.RemoveAll(q.dir)
}

// Detach makes the queue empty without touching its files, which somebody
// moves away.
func (q *Queue) Detach() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.rolling {
		q.rolled.Wait()
	}
	q.sh.Files.Forget(q)
	if q.ext != nil {
		q.ext.forget()
	}
	q.sh.buffered.Add(-int64(len(q.ring)))
	q.ring = nil
	q.first, q.end, q.written, q.ringFrom = 0, 0, 0, 0
	q.nextBase = -1
	q.unsynced, q.newNames = nil, false
}

// removeFile removes one file of the queue; a missing one is no error.
func (q *Queue) removeFile(base int64) error {
	err := q.sh.FS.Remove(filepath.Join(q.dir, segfile.Name(base)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
