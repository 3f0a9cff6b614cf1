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
		notify(s.retain.wake)
		s.opt.Log.Warn("the disk is full: sends are refused until space is free", "percent", s.retention.Load().FullRatio)
	} else {
		s.opt.Log.Info("the disk has space again: sends are accepted")
	}
}

// noSpace notes that a write found no space.
func (s *Store) noSpace() {
	s.retain.noSpace.Store(true)
	s.setFull(true)
}

// background handles an error of work that nobody waits for.
func (s *Store) background(what string, err error) {
	if !s.passes(err) {
		s.setSick(fmt.Errorf("%s: %w", what, s.unsynced(err)))
	}
}

// passes takes note of an error that heals by itself, so that the keeper's next
// attempt may succeed: a full disk, or nothing left of what Scarce means. Others say
// that the disk cannot be trusted any more.
func (s *Store) passes(err error) bool {
	switch {
	case vfs.DiskFull(err):
		s.noSpace()
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

// due says whether it is time for another line, and takes it. A clock that was set back
// does not silence it for hours.
func (n *scarcity) due() bool {
	now, last := time.Now().UnixMilli(), n.last.Load()
	return (now-last >= scarceEvery.Milliseconds() || now < last) && n.last.CompareAndSwap(last, now)
}

func (n *scarcity) note(log *slog.Logger, err error) {
	if n.due() {
		log.Warn("the system has no more of what the store needs; it goes on and tries again", "error", err)
	}
}

// checkDisk compares the disk with the limits of retention.
func (s *Store) checkDisk() {
	r := s.retention.Load()
	switch used := max(s.usedPercent(s.opt.CommitLogDir, 0), s.usedPercent(s.queueDir, 0)); {
	case used > r.FullRatio:
		s.setFull(true)
	case used <= r.ForceRatio:
		s.setFull(false)
	}
}

// DiskRatio is the used part (0..1) of the disk of the commit log and of the
// queues, as Java counts it: without what is kept for root, rounded up to whole
// hundredths. It is -1 where the disk does not say.
func (s *Store) DiskRatio() (commitLog, queues float64) {
	ratio := func(dir string) float64 {
		if p := s.usedPercent(dir, 0); p >= 0 {
			return float64(p) / 100
		}
		return -1
	}
	return ratio(s.opt.CommitLogDir), ratio(s.queueDir)
}

// DiskFull reports whether sends are refused for want of space.
func (s *Store) DiskFull() bool { return s.full.Load() }

// usedPercent is the used part of the disk that holds dir, in percent and rounded
// up (UtilAll.getDiskPartitionSpaceUsedPercent); -1 where the disk does not say.
// leaving bytes count as free.
func (s *Store) usedPercent(dir string, leaving int64) int {
	u, err := s.opt.FS.Usage(dir)
	if err != nil || u.Total <= 0 {
		return -1
	}
	used := u.Total - u.Free
	all := used + u.Avail
	if all <= 0 {
		return -1
	}
	used = max(used-leaving, 0) * 100
	percent := used / all
	if used%all != 0 {
		percent++
	}
	return int(percent)
}
