package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"mqctl/store/internal/commitlog"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// Hole is a stretch of the commit log that holds no readable record although
// good ones follow: damage that was left as it is, or a missing file. Reads pass
// over it, and queue entries that lead into it count as removed messages.
type Hole struct {
	From, To    record.PhysOffset // [From, To)
	StoreMillis int64             // store time of the record before it, or else behind it: a filler states it
	Missing     bool              // there is no file to read there
	// Kept says that it is one record, whole but for the position that it states. It is
	// served from its queue; only its keys do not lead to it.
	Kept bool
}

// Bytes is the length of the hole.
func (h Hole) Bytes() int64 { return int64(h.To - h.From) }

// Holes returns the holes of the log in their order. The slice is the caller's.
func (s *Store) Holes() []Hole {
	var out []Hole
	for _, h := range s.log.Holes() {
		if h.To > s.log.Min() {
			out = append(out, holeOf(h))
		}
	}
	return out
}

func holeOf(h commitlog.Hole) Hole {
	return Hole{record.PhysOffset(h.From), record.PhysOffset(h.To), h.StoreMillis, h.Missing, h.Kept}
}

// inHole reports whether the bytes of a queue entry lie in a hole.
func (s *Store) inHole(from, to int64) bool { return s.log.InHole(from, to) }

// The side file (FORMAT.md, "holes"). It counts only together with progress:
// without, all holes are found again by a scan of the whole log.

const holesHead = "mqctl-holes 1"

func encodeHoles(holes []commitlog.Hole) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, holesHead)
	for _, h := range holes {
		kind := "damaged"
		switch {
		case h.Missing:
			kind = "missing"
		case h.Kept:
			kind = "kept"
		}
		fmt.Fprintf(&b, "%s %d %d %d\n", kind, h.From, h.To, h.StoreMillis)
	}
	return seal(&b)
}

func decodeHoles(b []byte) ([]commitlog.Hole, error) {
	var out []commitlog.Hole
	end := int64(0)
	err := unseal(b, holesHead, func(kind, value string) error {
		var h commitlog.Hole
		switch kind {
		case "damaged":
		case "missing":
			h.Missing = true
		case "kept":
			h.Kept = true
		default:
			return errors.New("unknown kind")
		}
		fields := bytes.Fields([]byte(value))
		if len(fields) != 3 {
			return errors.New("not three numbers")
		}
		for i, p := range []*int64{&h.From, &h.To, &h.StoreMillis} {
			var err error
			if *p, err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
				return err
			}
		}
		if h.From < end || h.To <= h.From {
			return errors.New("holes must follow each other")
		}
		end = h.To
		out = append(out, h)
		return nil
	})
	return out, err
}

// ParseHoles reads the text of the side file, for those who only look. It fails where a
// start would scan the whole log instead.
func ParseHoles(text []byte) ([]Hole, error) {
	holes, err := decodeHoles(text)
	out := make([]Hole, len(holes))
	for i, h := range holes {
		out[i] = holeOf(h)
	}
	return out, err
}

func holesFile(dir string) string { return filepath.Join(dir, "mqctl", "holes") }

// maxHolesBytes bounds the side file.
const maxHolesBytes = 64 << 20

// readHoles returns none for a missing file.
func readHoles(fsys vfs.FS, name string) ([]commitlog.Hole, error) {
	b, err := vfs.ReadFile(fsys, name, maxHolesBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holes, err := decodeHoles(b)
	if err != nil {
		return nil, &sideFileError{name, err}
	}
	return holes, nil
}

// sideFileError says that a file of ours cannot be used.
type sideFileError struct {
	name string
	err  error
}

func (e *sideFileError) Error() string { return fmt.Sprintf("%s cannot be used: %v", e.name, e.err) }

func (e *sideFileError) Unwrap() error { return e.err }

// writeHoles replaces the file by a rename; without holes there is none.
func writeHoles(fsys vfs.FS, name string, holes []commitlog.Hole) error {
	if len(holes) == 0 {
		err := fsys.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return fsys.SyncDir(filepath.Dir(name))
	}
	temp := name + ".tmp"
	if err := vfs.WriteFile(fsys, temp, encodeHoles(holes)); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// setHoles makes a new list safe and then has readers follow it.
func (s *Store) setHoles(holes []commitlog.Hole) error {
	if slices.Equal(holes, s.log.Holes()) && !s.holesDue {
		return nil
	}
	if err := writeHoles(s.opt.FS, holesFile(s.opt.Dir), holes); err != nil {
		return fmt.Errorf("write %s: %w", holesFile(s.opt.Dir), err)
	}
	s.holesDue = false
	s.log.SetHoles(holes)
	return nil
}

// cutHoles forgets the holes behind a cut of the log.
func (s *Store) cutHoles(pos int64) error {
	holes := slices.DeleteFunc(slices.Clone(s.log.Holes()), func(h commitlog.Hole) bool { return h.To > pos })
	return s.setHoles(holes)
}

// sortHoles orders a list and drops what another one covers.
func sortHoles(holes []commitlog.Hole) []commitlog.Hole {
	slices.SortFunc(holes, func(a, b commitlog.Hole) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To))
	})
	end := int64(-1)
	return slices.DeleteFunc(holes, func(h commitlog.Hole) bool {
		if h.To <= end {
			return true
		}
		end = h.To
		return false
	})
}
