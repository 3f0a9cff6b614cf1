package store

import (
	"fmt"

	"mqctl/store/vfs"
)

// claim says on disk that the store is in use, before anything of it changes.
//
// A progress file counts if abort names the process that wrote it. So before this process
// writes itself into abort, progress names it too. What it says stays true while this
// process recovers: units and keys are only added behind dispatched, and if a queue
// turns out to lack some before it, that is noted first (doubt). Whenever this process dies,
// the next one knows no less, and does no more work than this one.
//
// A progress file that does not count must not come to count: if it happens to name this
// process, it is taken back.
func (s *Store) claim(inv *inventory) error {
	if p := inv.progress; len(inv.logFiles) == 0 && (p == nil || p.log == 0 && !inv.lastWriter) {
		// A new store: that nobody has written here is known for sure.
		inv.fresh, inv.lastWriter = true, true
		inv.progress = &progress{index: -1, clean: !inv.abort, checkpoint: crcOf(inv.check), deleted: map[string]int64{}}
	}
	if p := inv.progress; p != nil && (inv.lastWriter || p.pid == s.opt.pid || p.next == s.opt.pid) {
		claimed := *p
		switch {
		case !inv.lastWriter:
			claimed.pid, claimed.next, claimed.clean = 0, 0, false
		case inv.abort:
			claimed.pid, claimed.next, claimed.clean = inv.abortPID, s.opt.pid, false
		default:
			claimed.next = s.opt.pid
		}
		if err := writeProgress(s.opt.FS, s.progressFile(), &claimed); err != nil {
			return fmt.Errorf("write %s: %w", s.progressFile(), err)
		}
	}
	// By a rename: a power loss must not leave an abort file that names nobody.
	temp := s.abortFile() + ".tmp"
	err := vfs.WriteFile(s.opt.FS, temp, s.pidText())
	if err == nil {
		err = s.opt.FS.Rename(temp, s.abortFile())
	}
	if err == nil {
		err = s.opt.FS.SyncDir(s.opt.Dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.abortFile(), err)
	}
	return nil
}

// doubt notes that queues lack what progress says they have, before they are changed: if
// this process dies, the next one compares them with the whole log too. That the log
// was safe stays known.
func (r *recovery) doubt() error {
	if !r.inv.lastWriter || r.unknown {
		return nil // a start that finds this does it anyway
	}
	p := *r.inv.progress
	p.pid, p.next, p.clean, p.dispatched = r.s.opt.pid, 0, false, -1
	if err := writeProgress(r.s.opt.FS, r.s.progressFile(), &p); err != nil {
		return fmt.Errorf("write %s: %w", r.s.progressFile(), err)
	}
	return nil
}

// safeLog is up to where the log was known to be safe before this start.
func (inv *inventory) safeLog() int64 {
	if inv.lastWriter {
		return inv.progress.log
	}
	return 0
}
