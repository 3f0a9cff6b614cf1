package store

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// ErrHolesUnknown says that somebody else wrote to the folder since the holes of
// its log were noted: a start of mqctl finds them again.
var ErrHolesUnknown = errors.New("the list of holes does not fit the store: open it once (broker start, or store repair without --fill), which scans the log")

// FillHoles writes into holes of the log of a store that nobody has open what a
// walk of the log, also that of Apache, passes over: filler records, a blank where the
// rest of a file is lost, a new file where one is missing, the true position into a
// record of kind Kept. Queue entries that led into a hole become entries without
// message. A copy of the bytes that were there is put into mqctl/ first.
//
// only nil means all; else those of ReadHoles that it names by From. Errors:
// *vfs.LockedError, *DamagedError, ErrHolesUnknown, those of the disk. It may be done again
// after a crash.
func FillHoles(o Options, only []record.PhysOffset) (done []Finding, err error) {
	f, err := openHoles(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.s.closeFiles(); err == nil {
			err = cerr
		}
	}()
	left := slices.Clone(f.inv.holes)
	for _, h := range f.inv.holes {
		if only != nil && !slices.Contains(only, record.PhysOffset(h.From)) {
			continue
		}
		done1, err := f.fill(h)
		if err != nil {
			return done, fmt.Errorf("fill the hole at %d: %w", h.From, err)
		}
		left = slices.DeleteFunc(left, func(l commitlog.Hole) bool { return l == h })
		if err := writeHoles(f.s.opt.FS, holesFile(f.s.opt.Dir), left); err != nil {
			return done, err
		}
		done = append(done, done1)
	}
	return done, nil
}

// ReadHoles returns the holes of the log of a store that nobody has open, as the side
// file has them. Errors as of FillHoles.
func ReadHoles(o Options) ([]Hole, error) {
	f, err := openHoles(o)
	if err != nil {
		return nil, err
	}
	var out []Hole
	for _, h := range f.inv.holes {
		out = append(out, holeOf(h))
	}
	return out, f.s.closeFiles()
}

// holeFiller is a store of which only the log is open.
type holeFiller struct {
	s   *Store
	inv *inventory
}

func openHoles(o Options) (f *holeFiller, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	f = &holeFiller{s: newStore(o)}
	s := f.s
	defer func() {
		if err != nil {
			_ = s.closeFiles() // the first error is the one that matters
		}
	}()
	if s.lock, err = o.FS.Lock(filepath.Join(o.Dir, "lock")); err != nil {
		return nil, err
	}
	if f.inv, err = s.inspect(&Recovery{}, false); err != nil {
		return nil, err
	}
	if !f.inv.lastWriter {
		return nil, ErrHolesUnknown
	}
	if s.log, err = commitlog.Open(o.FS, o.CommitLogDir, f.inv.logBytes, f.inv.logFiles, false); err != nil {
		return nil, err
	}
	s.shared = &consumequeue.Shared{FS: o.FS, FileBytes: f.inv.unitFile, Files: segfile.NewCache(maxOpenQueueFiles)}
	return f, nil
}

func (f *holeFiller) fill(h commitlog.Hole) (Finding, error) {
	s := f.s
	found := s.holeFinding(h)
	found.Try, found.Done = "", "filled with a record that readers and Apache pass over"
	if !h.Missing {
		name, err := s.asideName("damaged", h.From, h.To)
		if err != nil {
			return found, err
		}
		if err := s.log.CopyOut(s.asideTemp(), h.From, h.To); err != nil {
			return found, err
		}
		if err := s.opt.FS.Rename(s.asideTemp(), filepath.Join(s.ownDir, name)); err != nil {
			return found, err
		}
		if err := s.opt.FS.SyncDir(s.ownDir); err != nil {
			return found, err
		}
		found.Done += "; a copy of what was there is mqctl/" + name
	}
	if h.Kept {
		found.Done = "the true position was written into it"
	} else if err := f.voidUnits(h); err != nil {
		return found, err
	}
	return found, s.log.Fill(h)
}

// voidUnits takes the entries that lead into a hole out of all queues.
func (f *holeFiller) voidUnits(h commitlog.Hole) error {
	for _, qf := range f.inv.queues {
		q := f.s.newQueue(qf.topic, qf.id).cq
		if err := q.Load(qf.files, math.MaxInt64); err != nil {
			return err
		}
		if err := voidRange(q, h.From, h.To); err != nil {
			return fmt.Errorf("queue %d of topic %s: %w", qf.id, qf.topic, err)
		}
		f.s.shared.Files.Forget(q)
	}
	return nil
}

func voidRange(q *consumequeue.Queue, from, to int64) error {
	first, err := q.FirstFrom(from)
	if err != nil {
		return err
	}
	last, err := q.FirstFrom(to)
	if err != nil || first == last {
		return err
	}
	var raw [consumequeue.UnitBytes]byte
	for n := first; n < last; n++ {
		if _, err := q.ReadRaw(raw[:], n); err != nil {
			return err
		}
		if u := consumequeue.Decode(raw[:]); u.IsVoid() || u.Phys < from || u.Phys >= to {
			continue
		}
		if err := q.Overwrite(n, consumequeue.Void); err != nil {
			return err
		}
	}
	return q.Sync()
}
