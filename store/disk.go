package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

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
	if !s.passes(err) {
		s.setSick(fmt.Errorf("%s: %w", what, err))
	}
}

// passes takes note of an error that heals by itself, so that the keeper's next
// attempt may succeed: a full disk, or nothing left of what Scarce means. Others say
// that the disk cannot be trusted any more.
func (s *Store) passes(err error) bool {
	switch {
	case vfs.DiskFull(err):
		s.setFull(true)
	case vfs.Scarce(err):
		s.scarce.note(s.opt.Log, err)
	default:
		return false
	}
	return true
}

// scarceEvery is the least time between two complaints.
const scarceEvery = 30 * time.Second

// scarcity logs errors that may come by the thousand.
type scarcity struct{ last atomic.Int64 } // when it was logged, Unix ms

func (n *scarcity) note(log *slog.Logger, err error) {
	now, last := time.Now().UnixMilli(), n.last.Load()
	if now-last >= scarceEvery.Milliseconds() && n.last.CompareAndSwap(last, now) {
		log.Warn("the system has no more of what the store needs; it goes on and tries again", "error", err)
	}
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
