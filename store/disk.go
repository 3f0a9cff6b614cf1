package store

import (
	"errors"
	"fmt"

	"mqctl/store/vfs"
)

var errDiskFull = errors.New("the disk is full")

// setFull notes whether the disk is full; sends are refused while it is.
func (s *Store) setFull(full bool) {
	if s.full.Swap(full) == full {
		return
	}
	if full {
		s.opt.Log.Warn("the disk is full: sends are refused until space is free", "percent", s.diskFullRatio.Load())
	} else {
		s.opt.Log.Info("the disk has space again: sends are accepted")
	}
}

// background handles an error of work that nobody waits for.
func (s *Store) background(what string, err error) {
	if vfs.DiskFull(err) {
		s.setFull(true)
		return
	}
	s.setSick(fmt.Errorf("%s: %w", what, err))
}

// checkDisk compares the disk with the limit.
func (s *Store) checkDisk() {
	log, queues := s.DiskRatio()
	s.setFull(max(log, queues)*100 >= float64(s.diskFullRatio.Load()))
}

// DiskRatio is the used part (0..1) of the disk of the commit log and of the
// queues, as Java counts it: without what is kept for root. It is -1 where the
// disk does not say.
func (s *Store) DiskRatio() (commitLog, queues float64) {
	return s.ratio(s.opt.CommitLogDir), s.ratio(s.queueDir)
}

func (s *Store) ratio(dir string) float64 {
	u, err := s.opt.FS.Usage(dir)
	if err != nil || u.Total <= 0 {
		return -1
	}
	used := u.Total - u.Free
	if used+u.Avail <= 0 {
		return -1
	}
	return float64(used) / float64(used+u.Avail)
}
