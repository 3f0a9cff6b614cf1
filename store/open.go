package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/keyindex"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

func crcOf(c checkpoint.Checkpoint) uint32 { return crc32.ChecksumIEEE(c.Encode()) }

// readSmall returns nil for a missing file.
func readSmall(fsys vfs.FS, name string) ([]byte, error) {
	b, err := vfs.ReadFile(fsys, name, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// open locks, looks, marks the store as running, and recovers.
func (s *Store) open(rec *Recovery) error {
	fsys := s.opt.FS
	if err := vfs.MkdirAllSync(fsys, s.opt.Dir); err != nil {
		return fmt.Errorf("make the store folder: %w", err)
	}
	lock, err := fsys.Lock(filepath.Join(s.opt.Dir, "lock"))
	if err != nil {
		return err
	}
	s.lock = lock
	wrong, err := WrongKinds(fsys, s.opt.Dir, s.opt.CommitLogDir)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return wrong[0].refusal()
	}
	if err := s.openDisk(); err != nil {
		return err
	}
	if err := s.hearOut(); err != nil {
		return err
	}
	cut, err := s.resumeCut(rec)
	if err != nil {
		return fmt.Errorf("finish a cut of the log: %w", err)
	}
	inv, err := s.inspect(rec, true)
	if err != nil {
		return err
	}
	inv.cut = cut
	if err := s.makeFolders(); err != nil {
		return err
	}
	if err := s.claim(inv); err != nil {
		return err
	}
	if err := s.dropSnapshot(); err != nil {
		return err
	}
	if err := s.openFiles(inv, rec); err != nil {
		return err
	}
	if err := s.cutBlank(inv, rec); err != nil {
		return err
	}
	if err := s.recover(inv, rec); err != nil {
		var se *vfs.SyncError
		if errors.As(err, &se) {
			s.noteUnsafe(inv.safeLog())
		}
		return err
	}
	s.recovering = false
	if err := s.dropUnsafe(); err != nil {
		return err
	}
	return s.removeNote()
}

// openDisk opens the file system of the queues, before anything is written to it.
func (s *Store) openDisk() error {
	s.life = s.opt.FS.Life(s.opt.Dir)
	dir := s.queueDir
	if _, err := s.opt.FS.Stat(dir); err != nil {
		dir = s.opt.Dir
	}
	var err error
	s.disk, err = s.opt.FS.OpenDisk(dir)
	return err
}

// makeFolders makes what is missing; one sync covers the usual places.
func (s *Store) makeFolders() error {
	made := false
	for _, dir := range []string{s.opt.CommitLogDir, s.queueDir, s.ownDir} {
		if filepath.Dir(dir) != filepath.Clean(s.opt.Dir) {
			if err := vfs.MkdirAllSync(s.opt.FS, dir); err != nil {
				return err
			}
			continue
		}
		if _, err := s.opt.FS.Stat(dir); err == nil {
			continue
		}
		if !made {
			// A new store, or what a process left that died right after it had made
			// the folder itself: its name must be safe before anything is in it.
			if err := s.opt.FS.SyncDir(filepath.Dir(filepath.Clean(s.opt.Dir))); err != nil {
				return err
			}
		}
		if err := s.opt.FS.MkdirAll(dir); err != nil {
			return err
		}
		made = true
	}
	if !made {
		return nil
	}
	return s.opt.FS.SyncDir(s.opt.Dir)
}

func (s *Store) openFiles(inv *inventory, rec *Recovery) error {
	files, err := s.dropEmptyLast(s.opt.CommitLogDir, inv.logFiles, rec)
	if err != nil {
		return err
	}
	if s.log, err = commitlog.Open(s.opt.FS, s.opt.CommitLogDir, inv.logBytes, files, !s.opt.SyncFlush); err != nil {
		return err
	}
	if n := len(files); n > 0 && files[n-1].Size < inv.logBytes {
		short := files[n-1]
		rec.add(Finding{
			Kind: ShortFile, File: s.relative(filepath.Join(s.opt.CommitLogDir, segfile.Name(short.Base))), Offset: short.Size,
			Phys: record.PhysOffset(short.Base + short.Size), Bytes: inv.logBytes - short.Size,
			What: fmt.Sprintf("the file has only %d bytes", short.Size), Done: "extended with zeros",
		})
		if err := s.log.ExtendShort(); err != nil {
			return err
		}
	}
	s.shared = &consumequeue.Shared{
		FS: s.opt.FS, FileBytes: inv.unitFile, Files: segfile.NewCache(maxOpenQueueFiles),
		TempFile: filepath.Join(s.ownDir, "new-queue-file"), BufferBytes: queueBufferBytes,
		NeedsFile: func() { notify(s.writeWake) },
		Ext:       s.opt.QueueExt, ExtFileBytes: inv.extFile,
	}
	s.hasExt = s.opt.QueueExt || inv.hasExt
	s.batch = &consumequeue.Shared{
		FS: s.opt.FS, FileBytes: inv.batchFile, Batch: true, Files: s.shared.Files,
		TempFile: filepath.Join(s.ownDir, "new-batch-file"), BufferBytes: queueBufferBytes, NeedsFile: s.shared.NeedsFile,
	}
	// A name left by a crash must not be emptied by the next Create: on some
	// file systems it may be a second name of a queue file.
	for _, name := range []string{s.shared.TempFile, s.batch.TempFile} {
		if err := s.opt.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if s.check, err = checkpoint.OpenFile(s.opt.FS, s.checkpointFile()); err != nil {
		return err
	}
	s.keep.old = inv.check
	s.recovering = true
	s.shared.BeforeDrop = s.beforeDrop()
	s.batch.BeforeDrop = s.shared.BeforeDrop
	s.keep.deleted, s.keep.indexed = map[string]int64{}, -1
	if inv.progress != nil {
		s.keep.deleted = inv.progress.deleted
		if inv.cut >= 0 {
			capDeleted(s.keep.deleted, inv.cut)
		}
	}
	if s.opt.IndexOff {
		return nil
	}
	o := keyindex.Options{
		Slots: s.opt.IndexSlots, Entries: s.opt.IndexEntries, Now: s.opt.Now,
		Clean: rec.Clean && !inv.short, SyncedMillis: inv.check.IndexMillis, BeforeDrop: s.shared.BeforeDrop,
	}
	if sn := inv.snapshot; sn != nil && sn.clean {
		o.Known = sn.indexFiles
	}
	s.index, err = keyindex.Open(s.opt.FS, s.indexDir(), o)
	if err == nil {
		for _, n := range s.index.Notes() {
			rec.add(Finding{Kind: IndexDamaged, File: s.relative(s.indexDir()), Phys: -1, What: n, Done: "its entries are made again"})
		}
	}
	return err
}

// dropEmptyLast removes a last file without content, as Java does: its making
// was interrupted.
func (s *Store) dropEmptyLast(dir string, files []segfile.Found, rec *Recovery) ([]segfile.Found, error) {
	n := len(files)
	if n == 0 || files[n-1].Size > 0 {
		return files, nil
	}
	name := filepath.Join(dir, segfile.Name(files[n-1].Base))
	rec.add(Finding{Kind: ShortFile, File: s.relative(name), Phys: -1, What: name + " was empty", Done: "removed"})
	return files[:n-1], s.opt.FS.Remove(name)
}
