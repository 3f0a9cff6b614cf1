package consumequeue

import (
	"errors"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/segfile"
)

// Write puts all units into the files (not yet synced).
func (q *Queue) Write() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writeLocked()
}

func (q *Queue) writeLocked() error {
	if q.gone {
		q.written = q.end
	}
	for q.written < q.end {
		slot := q.slot(q.written)
		at := q.written * UnitBytes
		base := at / q.sh.FileBytes * q.sh.FileBytes
		n := min(
			(q.end-q.written)*UnitBytes,
			int64(len(q.ring))-slot,
			base+q.sh.FileBytes-at,
		)
		if err := q.writeRun(q.ring[slot:slot+n], base, at-base); err != nil {
			return err
		}
		q.written += n / UnitBytes
	}
	return nil
}

// writeRun writes units into one file, making it if they are its first.
func (q *Queue) writeRun(run []byte, base, at int64) error {
	if base >= q.nextBase {
		return q.makeFile(run, base, at)
	}
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

// makeFile makes the file that starts at base together with its first units:
// beside, then renamed, so that not even a crash leaves one without units.
func (q *Queue) makeFile(run []byte, base, at int64) error {
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
	if err == nil && q.nextBase >= 0 {
		// Behind a full file Apache believes a file of zeros; so the units must
		// be safe before the name is.
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
		q.sh.FS.Remove(q.sh.TempFile) // best effort, the next Create empties it
		return err
	}
	q.nextBase = base + q.sh.FileBytes
	q.newNames = true
	q.mark(base)
	return nil
}

// Sync makes the units written so far safe. Only one Sync may run at a time.
func (q *Queue) Sync() error {
	q.mu.Lock()
	bases, newNames := q.unsynced, q.newNames
	q.unsynced, q.newNames = nil, false
	q.mu.Unlock()

	err := q.syncFiles(bases, newNames)
	if err != nil {
		q.mu.Lock()
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

func (q *Queue) syncFiles(bases []int64, newNames bool) error {
	for _, base := range bases {
		h, err := q.sh.Files.Acquire(q, base)
		if err != nil {
			return err
		}
		err = h.Datasync()
		q.sh.Files.Release(h)
		if err != nil {
			return err
		}
	}
	if !newNames {
		return nil
	}
	topic := filepath.Dir(q.dir)
	for _, dir := range []string{q.dir, topic, filepath.Dir(topic)} {
		if err := q.sh.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes the files. Appends to it afterwards go nowhere.
func (q *Queue) Delete() error {
	q.mu.Lock()
	q.gone = true
	q.written = q.end
	q.nextBase = -1
	q.unsynced, q.newNames = nil, false
	q.mu.Unlock()
	q.Release()
	q.sh.Files.Forget(q)
	return q.sh.FS.RemoveAll(q.dir)
}

// removeFile removes one file of the queue; a missing one is no error.
func (q *Queue) removeFile(base int64) error {
	err := q.sh.FS.Remove(filepath.Join(q.dir, segfile.Name(base)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
