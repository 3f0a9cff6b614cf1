package store

import (
	"fmt"
	"time"
)

// Retention says which files are deleted, when, and from which use of the disk on
// sends are refused. The names in parentheses are the keys of MessageStoreConfig.
type Retention struct {
	// Keep is how long messages are kept (fileReservedTime). The age of a file is
	// that of its newest message.
	Keep time.Duration
	// Hours has bit h set for each local hour in which old files are deleted
	// (deleteWhen).
	Hours uint32
	// The ratios are percents of the disk in use, rounded up. Above UsedRatio
	// (diskMaxUsedSpaceRatio) old files are deleted at any hour; above ForceRatio
	// (diskSpaceCleanForciblyRatio) the oldest ones too if they are not old, unless
	// NoForce; above FullRatio (diskSpaceWarningLevelRatio) sends are refused, until
	// ForceRatio is not exceeded any more.
	UsedRatio, ForceRatio, FullRatio int
	NoForce                          bool // cleanFileForciblyEnable=false

	Every      time.Duration // between two runs (cleanResourceInterval)
	LogPause   time.Duration // after each file of the log (deleteCommitLogFilesInterval)
	QueuePause time.Duration // after each queue that lost files (deleteConsumeQueueFilesInterval)
	Batch      int           // most files of the log in one run (deleteFileBatchMax)
}

// DefaultRetention is that of RocketMQ.
func DefaultRetention() Retention {
	return Retention{
		Keep: 72 * time.Hour, Hours: 1 << 4, UsedRatio: 75, ForceRatio: 85, FullRatio: 90,
		Every: 10 * time.Second, LogPause: 100 * time.Millisecond, QueuePause: 100 * time.Millisecond, Batch: 10,
	}
}

// effective are the values that count: RocketMQ clamps the ratios in silence, we
// log what became of them.
func (r Retention) effective() Retention {
	clamp := func(v, low, high int) int { return min(max(v, low), high) }
	r.UsedRatio = clamp(r.UsedRatio, 10, 95)
	r.ForceRatio = clamp(r.ForceRatio, 30, 85)
	r.FullRatio = clamp(r.FullRatio, 35, 90)
	r.Every = max(r.Every, 10*time.Millisecond)
	r.LogPause, r.QueuePause = max(r.LogPause, 0), max(r.QueuePause, 0)
	r.Batch = max(r.Batch, 1)
	return r
}

func (r Retention) check() error {
	if r.Keep < 0 {
		return fmt.Errorf("store: messages kept for %s", r.Keep)
	}
	for _, v := range []int{r.UsedRatio, r.ForceRatio, r.FullRatio} {
		if v < 0 || v > 100 {
			return fmt.Errorf("store: %d is no percentage of a disk", v)
		}
	}
	return nil
}

// SetRetention changes what is deleted and when, from the next run on.
func (s *Store) SetRetention(r Retention) {
	eff := r.effective()
	if old := s.retention.Swap(&eff); old != nil && *old == eff {
		return
	}
	log := s.opt.Log.Info
	if eff.UsedRatio != r.UsedRatio || eff.ForceRatio != r.ForceRatio || eff.FullRatio != r.FullRatio {
		log = s.opt.Log.Warn
	}
	log("retention, as it is in effect", "keep", eff.Keep, "hours", eff.hourText(),
		"delete_above_percent", eff.UsedRatio, "force_above_percent", eff.ForceRatio, "force", !eff.NoForce,
		"refuse_above_percent", eff.FullRatio)
	notify(s.retain.wake)
}

// Retention is what is in effect: the ratios may be others than were asked for.
func (s *Store) Retention() Retention { return *s.retention.Load() }

func (r Retention) hourText() string {
	text := ""
	for h := range 24 {
		if r.Hours&(1<<h) != 0 {
			if text != "" {
				text += ";"
			}
			text += fmt.Sprintf("%02d", h)
		}
	}
	return text
}

// pressure is why files are deleted now.
type pressure uint8

const (
	relaxed  pressure = iota // nothing is deleted
	byHour                   // old files, spread over the hour
	byDemand                 // old files: somebody asked, or the disk fills
	forced                   // the oldest files, whatever their age
)

// pressureAt weighs clock and disk. Bytes that are on their way out count as free.
func (s *Store) pressureAt(r *Retention, now time.Time) pressure {
	leaving := s.retain.leavingBytes.Load()
	log, queues := s.usedPercent(s.opt.CommitLogDir, leaving), s.usedPercent(s.queueDir, leaving)
	most := max(log, queues)
	switch {
	case (most > r.ForceRatio || s.retain.noSpace.Load()) && !r.NoForce:
		return forced
	case most > r.UsedRatio || log < 0 || queues < 0 || s.retain.asked.Load() > 0:
		return byDemand
	case r.Hours&(1<<now.Hour()) != 0:
		return byHour
	}
	return relaxed
}

// oldestDue is the first file of the log if it may go. The one that is written to
// never does, nor one whose messages have no queue entries yet.
func (s *Store) oldestDue(r *Retention, anyAge bool) (base int64, due bool) {
	base = s.log.Min()
	next, more := s.log.Next(base)
	if !more || base+s.log.SegmentBytes() > s.dispatched.Load() {
		return base, false
	}
	return base, anyAge || s.isOld(r, next, s.ageNow())
}

// isOld reports whether all messages before the file at next are old: the first
// message of it is not older than any of them. Where it has none that can be read,
// the next file that has one tells.
func (s *Store) isOld(r *Retention, next int64, now time.Time) bool {
	for more := true; more; next, more = s.log.Next(next) {
		if next >= s.log.End() {
			return false
		}
		if t := s.storeTimeAt(next); t > 0 {
			return now.UnixMilli() >= t+r.Keep.Milliseconds()
		}
	}
	return false
}

// countDue is how many files are old, of at most most.
func (s *Store) countDue(r *Retention, most int) int {
	n, now := 0, s.ageNow()
	limit := s.dispatched.Load()
	for base := s.log.Min(); n < most; n++ {
		next, more := s.log.Next(base)
		if !more || base+s.log.SegmentBytes() > limit || !s.isOld(r, next, now) {
			break
		}
		base = next
	}
	return n
}

// share is how many files one of the runs left in this hour deletes, so that all
// that are old are gone at its end and the disk does not have them all at once.
func (s *Store) share(r *Retention, now time.Time) int {
	const most = 1 << 16
	left := now.Truncate(time.Hour).Add(time.Hour).Sub(now)
	runs := max(int(left/r.Every)-1, 1)
	return min((s.countDue(r, most)+runs-1)/runs, r.Batch)
}
