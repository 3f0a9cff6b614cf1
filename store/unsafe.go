package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"mqctl/store/vfs"
)

// A sync that fails may leave bytes that can be read but are on no disk, and that no
// later sync writes: the kernel takes them for written (fsync(2), "EIO"). A process that
// starts after that cannot see it. So the one that met the failure notes it in the side
// file "unsafe", and the next start writes the log from there on over itself before it
// syncs it and calls it safe. So it is with failed syncs of queues and index, which are
// then made again from where they were safe. The note has to outlive the process only: after the death of the
// machine, what can be read is what the disk has.
// A process killed between the failure and the note takes it along: then messages that nobody
// was told to be safe may be taken for it.

const unsafeHead = "mqctl-unsafe 1"

func (s *Store) unsafeFile() string { return filepath.Join(s.ownDir, "unsafe") }

// hearOut lets the kernel tell of all syncs that failed before a start, if there is a note
// of one. It tells of each file once, to the first who syncs it: if what this start writes were
// synced by that, each start would fail by another file.
func (s *Store) hearOut() error {
	from, err := s.readUnsafe()
	if from < 0 || err != nil {
		return err
	}
	_ = s.hearFile(s.checkpointFile()) // what a failed sync says is known
	for _, dir := range []string{s.opt.CommitLogDir, s.queueDir, s.batchDir(), s.extDir(), s.indexDir()} {
		if err := s.hearDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) hearDir(dir string) error {
	entries, err := s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name)
		if !e.Dir {
			_ = s.hearFile(name)
		} else if err := s.hearDir(name); err != nil {
			return err
		}
	}
	return err
}

func (s *Store) hearFile(name string) error {
	f, err := s.opt.FS.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFailed notes that the log is not safe from where the last sync ended.
func (s *Store) syncFailed(err error) error {
	s.noteUnsafe(s.log.Flushed())
	return fmt.Errorf("sync the commit log: %w", err)
}

// noteUnsafe writes the note, unless there is one already, which then begins earlier.
func (s *Store) noteUnsafe(from int64) {
	if _, err := s.opt.FS.Stat(s.unsafeFile()); err == nil {
		return
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nfrom %d\n", unsafeHead, from)
	if err := vfs.WriteFile(s.opt.FS, s.unsafeFile(), seal(&b)); err != nil {
		s.opt.Log.Error("that a sync of the commit log failed could not be noted, or only until the machine stops", "file", s.unsafeFile(), "error", err)
	}
}

// readUnsafe is where the log has to be written again from: -1 if nowhere, 0 if the note
// cannot be read.
func (s *Store) readUnsafe() (from int64, err error) {
	b, err := readSmall(s.opt.FS, s.unsafeFile())
	if err != nil || b == nil {
		return -1, err
	}
	if unseal(b, unsafeHead, func(name, value string) (err error) {
		if name != "from" {
			return errors.New("unknown name")
		}
		from, err = strconv.ParseInt(value, 10, 64)
		return err
	}) != nil {
		return 0, nil
	}
	return max(from, 0), nil
}

// dropUnsafe removes the note: everything was written again and synced.
func (s *Store) dropUnsafe() error {
	err := s.opt.FS.Remove(s.unsafeFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// rewriteLog writes the log from a failed sync on again.
func (s *Store) rewriteLog(from, end int64) error {
	if from < 0 {
		return nil
	}
	if err := s.log.Rewrite(from, end); err != nil {
		return fmt.Errorf("write the commit log from %d on again, of which a sync failed: %w", from, err)
	}
	return nil
}

// rewriteUnits writes what a queue file holds over itself, but for zeros.
func rewriteUnits(f vfs.File) error {
	buf := make([]byte, 1<<16)
	for at := int64(0); ; at += int64(len(buf)) {
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		if n < len(buf) {
			return nil
		}
	}
}
