package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"mqctl/store/record"
)

// Aside says where cut bytes were kept.
type Aside struct {
	Path  string // file or folder; empty if nothing was cut
	From  record.PhysOffset
	Bytes int64
}

// TruncateTo cuts the log at p, the start of a record: a synced copy of what lies
// behind is set aside first, then queues and index are cut with it. Safe against a
// crash at every step: afterwards the log ends at p or where it did. Readers go on.
// Replica stores only.
//
// An error before anything was cut leaves the store as it was; one later makes
// it read-only, and the next start finishes the cut.
func (s *Store) TruncateTo(p record.PhysOffset) (Aside, error) {
	s.raw.mu.Lock()
	defer s.raw.mu.Unlock()
	a, err := s.truncate(int64(p))
	if err != nil {
		err = fmt.Errorf("cut the commit log at %d: %w", p, err)
	}
	return a, err
}

func (s *Store) truncate(p int64) (Aside, error) {
	if err := s.cuttable(); err != nil {
		return Aside{}, err
	}
	end := s.log.End()
	if p == end {
		return Aside{From: record.PhysOffset(p)}, nil
	}
	if err := s.checkCut(p); err != nil {
		return Aside{}, err
	}
	a, err := s.copyAside(p, end)
	if err != nil {
		return a, err
	}
	c := &cut{s: s, pos: p, note: cutNote{kind: "cut", pid: s.opt.pid, at: p, segment: s.log.SegmentBytes()}}
	return a, c.do(c.findQueues, c.log)
}

// SetAside moves the whole log, queues and index aside and leaves an empty
// store that waits for StartAt or AppendRaw. Readers see empty queues. Replica stores only.
//
// Where the log or the queues lie on another disk than the folder mqctl,
// the log goes into a folder beside its files, and the queues and the index, which can
// be made from it again, are removed.
func (s *Store) SetAside() (Aside, error) {
	s.raw.mu.Lock()
	defer s.raw.mu.Unlock()
	a, err := s.setAside()
	if err != nil {
		err = fmt.Errorf("set the commit log aside: %w", err)
	}
	return a, err
}

func (s *Store) setAside() (Aside, error) {
	if err := s.cuttable(); err != nil {
		return Aside{}, err
	}
	first, end := s.log.Min(), s.log.End()
	if first == end {
		return Aside{From: record.PhysOffset(first)}, nil
	}
	name, err := s.asideName("log", first, end)
	if err != nil {
		return Aside{}, err
	}
	c := &cut{s: s, note: cutNote{kind: "aside", pid: s.opt.pid, segment: s.log.SegmentBytes(), name: name}}
	a := Aside{Path: filepath.Join(s.ownDir, name), From: record.PhysOffset(first), Bytes: end - first}
	if err := c.do(c.allQueues, c.away); err != nil {
		return a, err
	}
	if _, err := s.opt.FS.Stat(filepath.Join(s.opt.CommitLogDir, name)); err == nil {
		a.Path = filepath.Join(s.opt.CommitLogDir, name)
	}
	return a, nil
}

// Asides are the files and folders that cuts of the log left in the store folder, the
// newest first, as long as nobody removed them.
func (s *Store) Asides() ([]string, error) {
	type found struct{ path, at string }
	var all []found
	for _, dir := range []string{s.ownDir, s.opt.CommitLogDir} {
		list, err := s.opt.FS.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range list {
			m := asideNames().FindStringSubmatch(e.Name)
			twice := slices.ContainsFunc(all, func(f found) bool { return filepath.Base(f.path) == e.Name })
			if m != nil && e.Dir == (m[1] == "log") && !twice {
				all = append(all, found{filepath.Join(dir, e.Name), m[2]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.at, a.at) })
	paths := make([]string, len(all))
	for i, f := range all {
		paths[i] = f.path
	}
	return paths, nil
}

// asideNames are the names that asideName gives to what cuts leave.
var asideNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(cut|log)-\d{20}-\d{20}-(\d{8}T\d{6}Z(?:-\d+)?)$`)
})

// cuttable makes everything that is appended safe and visible, so that nothing
// is under way while the log is cut. The caller holds raw.mu.
func (s *Store) cuttable() error {
	if !s.replica.Load() {
		return errNoReplica
	}
	if s.closed.Load() {
		return ErrClosed
	}
	s.flushOnce()
	if err := s.sick.Load(); err != nil {
		return *err
	}
	return s.dispatchAll()
}

// checkCut refuses a position where no record begins or ends.
func (s *Store) checkCut(p int64) error {
	if err := s.checkPosition(record.PhysOffset(p)); err != nil {
		return err
	}
	if p == s.log.Min() || s.log.SegmentEnd(p)-p == s.log.SegmentBytes() {
		return nil
	}
	before, ok, err := s.RecordBefore(record.PhysOffset(p))
	if err != nil {
		return err
	}
	if ok && int64(before) == p {
		return nil
	}
	if ok {
		rec, err := s.Message(nil, before)
		if err == nil && int64(before)+int64(len(rec)) == p {
			return nil // in front of a blank
		}
	}
	return fmt.Errorf("no record begins there (the last before it begins at %d)", before)
}

// asideName is a name in ownDir that nothing has yet.
func (s *Store) asideName(kind string, from, to int64) (string, error) {
	base := fmt.Sprintf("%s-%020d-%020d-%s", kind, from, to, s.opt.Now().UTC().Format("20060102T150405Z"))
	name := base
	for n := 2; ; n++ {
		_, err := s.opt.FS.Stat(filepath.Join(s.ownDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		name = base + "-" + strconv.Itoa(n)
	}
}

func (s *Store) asideTemp() string { return filepath.Join(s.ownDir, "aside.tmp") }

// copyAside keeps the bytes [from, to) of the log in a file of ownDir. When it
// returns they are safe there.
func (s *Store) copyAside(from, to int64) (Aside, error) {
	name, err := s.asideName("cut", from, to)
	if err != nil {
		return Aside{}, err
	}
	a := Aside{Path: filepath.Join(s.ownDir, name), From: record.PhysOffset(from), Bytes: to - from}
	if err := s.log.CopyOut(s.asideTemp(), from, to); err != nil {
		_ = s.opt.FS.Remove(s.asideTemp()) // the next start does it too
		return Aside{}, fmt.Errorf("copy what lies behind: %w", err)
	}
	if err := s.opt.FS.Rename(s.asideTemp(), a.Path); err != nil {
		return Aside{}, err
	}
	return a, s.opt.FS.SyncDir(s.ownDir)
}
