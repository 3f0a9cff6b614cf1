package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
)

// inventory is what lies in the folder before anything is changed.
type inventory struct {
	logFiles           []segfile.Found
	logBytes           int64 // size of a commit log file
	queues             []queueFiles
	unitFile           int64 // size of a queue file
	batchFile, extFile int64 // of batch queues, of extensions
	hasExt             bool  // there are extension files
	long               []longFile

	abort      bool
	abortPID   int
	check      checkpoint.Checkpoint
	progress   *progress // nil: none that can be used
	lastWriter bool      // we were the last to write here
	short      bool      // the log was cut below what was safe
	removed    bool      // somebody removed queues since, or parts of them
	fresh      bool      // nothing was ever stored here
	rewrite    int64     // a sync of the log behind it failed, -1: none did
	holes      []commitlog.Hole
	snapshot   *snapshot // of the queues, which are not listed then; nil: none that counts
	cut        int64     // where a cut that was under way makes the log end, -1 if none was
}

// fileOf is the size of a file of a plain or a batch queue.
func (inv *inventory) fileOf(batch bool) int64 {
	if batch {
		return inv.batchFile
	}
	return inv.unitFile
}

type queueFiles struct {
	topic string
	id    int32
	files []segfile.Found
	batch bool
}

// inspect reads names and sizes and refuses what cannot be opened. With trust, a
// snapshot of the last clean stop replaces the list of the queues.
func (s *Store) inspect(rec *Recovery, trust bool) (*inventory, error) {
	inv := &inventory{}
	if err := s.inspectLog(inv, rec); err != nil {
		return nil, err
	}
	if err := s.inspectState(inv, rec); err != nil {
		return nil, err
	}
	if trust {
		if sn := s.findSnapshot(inv); sn != nil {
			sn.use(s, inv)
			return inv, nil
		}
	}
	if err := s.listQueues(inv, rec); err != nil {
		return nil, err
	}
	units := slices.ContainsFunc(inv.queues, func(q queueFiles) bool { return len(q.files) > 0 })
	if len(inv.logFiles) == 0 && units {
		return nil, &DamagedError{
			What:  fmt.Sprintf("there are no commit log files although %s has queues", s.queueDir),
			Where: s.opt.CommitLogDir,
			Try:   "mount or restore the commit log; to give up all messages, move consumequeue and index away",
		}
	}
	return inv, nil
}

// listQueues lists the files of all queues.
func (s *Store) listQueues(inv *inventory, rec *Recovery) error {
	if err := s.inspectQueues(inv, rec); err != nil {
		return err
	}
	return s.inspectBatchQueues(inv, rec)
}

func (s *Store) inspectLog(inv *inventory, rec *Recovery) error {
	files, foreign, err := segfile.List(s.opt.FS, s.opt.CommitLogDir)
	if err != nil {
		return err
	}
	if err := s.noteForeign(rec, foreign); err != nil {
		return err
	}
	inv.logBytes, err = segfile.CheckSizes(s.opt.CommitLogDir, files, s.opt.CommitLogBytes, DefaultCommitLogBytes)
	inv.logFiles = files
	return s.sizeError(err, "mappedFileSizeCommitLog")
}

func (s *Store) sizeError(err error, setting string) error {
	var fe *segfile.FileError
	if !errors.As(err, &fe) {
		return err
	}
	return &DamagedError{
		What: fe.What, Where: fe.Path,
		Try: "set " + setting + " to the size of the files, or if only this one is odd: mqctl store repair " + s.opt.Dir,
	}
}

func folderError(path string) error { return WrongKind{Path: path, Folder: true}.refusal() }

// noteForeign tells of files that are no data files, and refuses a folder that is in the place
// of one: what was in that is not known, and its name is needed.
func (s *Store) noteForeign(rec *Recovery, foreign []string) error {
	for _, path := range foreign {
		if _, ok := segfile.Parse(filepath.Base(path)); ok {
			return folderError(path)
		}
		rec.add(Finding{Kind: StrangeFile, File: s.relative(path), Phys: -1,
			What: path + " is no data file: ignored here, but Apache does not start with it", Try: "move it away"})
	}
	return nil
}

// inspectQueues lists the files of all queues.
func (s *Store) inspectQueues(inv *inventory, rec *Recovery) error {
	inv.unitFile = s.opt.QueueFileBytes
	err := s.eachQueueDir(s.queueDir, func(topic string, id int32, dir string) error {
		files, foreign, err := segfile.List(s.opt.FS, dir)
		if err != nil {
			return err
		}
		if err := s.noteForeign(rec, foreign); err != nil {
			return err
		}
		if err := s.passLong(inv, dir, files, inv.unitFile, consumequeue.UnitBytes); err != nil {
			return err
		}
		size, err := segfile.CheckShort(dir, files, inv.unitFile, 0)
		if err == nil && size%20 != 0 {
			err = &segfile.FileError{Path: dir, What: fmt.Sprintf("files of %d bytes, not a multiple of 20", size)}
		}
		if err != nil {
			return s.sizeError(err, "mappedFileSizeConsumeQueue")
		}
		if len(files) > 0 {
			inv.unitFile = size
		}
		inv.removed = inv.removed || segfile.Short(files, size)
		inv.queues = append(inv.queues, queueFiles{topic: topic, id: id, files: files})
		return nil
	})
	if err != nil {
		return err
	}
	setDefault(&inv.unitFile, DefaultQueueFileBytes)
	return nil
}

// subdirs lists the folders in dir. What can be the name of one and is no folder is an error.
func (s *Store) subdirs(dir string, named func(name string) bool) ([]string, error) {
	names, others, err := s.opt.FS.Split(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range others {
		if named(name) {
			return nil, WrongKind{Path: filepath.Join(dir, name)}.refusal()
		}
	}
	return names, err
}

// inspectState reads abort, checkpoint and progress.
func (s *Store) inspectState(inv *inventory, rec *Recovery) error {
	text, err := readSmall(s.opt.FS, s.abortFile())
	if err != nil {
		return err
	}
	inv.abort = text != nil
	inv.abortPID, _ = strconv.Atoi(string(text)) // 0 if it is something else
	rec.Clean = !inv.abort
	if inv.check, _, err = checkpoint.Read(s.opt.FS, s.checkpointFile()); err != nil {
		return err
	}
	p, why, err := readProgress(s.opt.FS, s.progressFile())
	if err != nil {
		return err
	}
	if why != "" {
		rec.add(Finding{Kind: SideFileDamaged, File: s.relative(s.progressFile()), Phys: -1, What: why, Done: "the whole log is scanned"})
	}
	inv.progress = p
	if inv.rewrite, err = s.readUnsafe(); err != nil {
		return err
	}
	inv.short = p != nil && inv.shortened(p.log)
	inv.lastWriter = p != nil && s.wroteLast(inv, p) && !inv.short
	return s.inspectHoles(inv, rec)
}

// shortened reports that the newest file of the log was cut below safe, which it is known
// to have reached. Then whatever else is known of the folder is of another one.
func (inv *inventory) shortened(safe int64) bool {
	n := len(inv.logFiles)
	if n == 0 {
		return false
	}
	last := inv.logFiles[n-1]
	return last.Size < inv.logBytes && last.Base+last.Size < safe
}

// inspectHoles reads the list of holes. Without one that can be read, nobody was the
// last to write: the whole log is scanned.
func (s *Store) inspectHoles(inv *inventory, rec *Recovery) error {
	holes, err := readHoles(s.opt.FS, holesFile(s.opt.Dir))
	var bad *sideFileError
	switch {
	case errors.As(err, &bad):
		inv.lastWriter = false
		s.holesDue = true
		rec.add(Finding{
			Kind: SideFileDamaged, File: s.relative(bad.name), Phys: -1, What: bad.Error(), Done: "the whole log is scanned for holes",
		})
	case err != nil:
		return err
	case inv.lastWriter:
		inv.holes = holes
	default:
		s.holesDue = len(holes) > 0
	}
	return nil
}

// wroteLast reports whether nobody else has written to the folder since p: a
// broker of Apache does not know p, but it removes abort or writes another pid
// into it, and rewrites the checkpoint. A process of ours that died within its recovery
// is no other: see claim.
func (s *Store) wroteLast(inv *inventory, p *progress) bool {
	sameCheck := p.checkpoint == crcOf(inv.check)
	switch {
	case !inv.abort:
		return p.clean && sameCheck
	case inv.abortPID <= 0:
		return false
	case inv.abortPID == p.next:
		return true
	}
	// A clean stop that died before it had removed abort has changed nothing since.
	return inv.abortPID == p.pid && (!p.clean || sameCheck)
}
