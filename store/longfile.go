package store

import (
	"fmt"
	"path/filepath"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
)

// longFile is a file of a queue that somebody made longer than it has to be.
type longFile struct {
	name       string
	size, have int64 // bytes that it has to have, and has
}

// passLong gives files that are too long the size that they have to have, if no entries lie
// behind it: a start cuts them to it. Where entries go on behind it, another size is
// configured than the files were made with; those stay, and the start is refused.
func (s *Store) passLong(inv *inventory, dir string, files []segfile.Found, want, unit int64) error {
	for i := range files {
		f := &files[i]
		if want <= 0 || f.Size <= want || f.Base%want != 0 {
			continue
		}
		name := filepath.Join(dir, segfile.Name(f.Base))
		goes, err := s.goesOn(inv, name, want, f.Size, unit)
		if err != nil {
			return err
		}
		if goes {
			continue
		}
		inv.long = append(inv.long, longFile{name, want, f.Size})
		f.Size = want
	}
	return nil
}

// goesOn reports whether the entry behind size follows the one before it.
func (s *Store) goesOn(inv *inventory, name string, size, have, unit int64) (bool, error) {
	if size < unit || have < size+unit || len(inv.logFiles) == 0 {
		return false, nil
	}
	f, err := s.opt.FS.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close() // only read from
	b := make([]byte, 2*unit)
	if _, err := f.ReadAt(b, size-unit); err != nil {
		return false, err
	}
	end := inv.logFiles[len(inv.logFiles)-1].Base + inv.logBytes
	before, behind := consumequeue.Decode(b), consumequeue.Decode(b[unit:])
	return before.Valid() && behind.Valid() && !behind.IsVoid() && behind.Phys < end && (before.IsVoid() || behind.Phys >= before.End()), nil
}

// cutLong gives the files that are too long their size.
func (r *recovery) cutLong() error {
	for _, l := range r.inv.long {
		f, err := r.s.opt.FS.OpenReadWrite(l.name)
		if err != nil {
			return err
		}
		if err = f.Truncate(l.size); err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		r.rec.add(Finding{
			Kind: StrangeFile, File: r.s.relative(l.name), Offset: l.size, Phys: -1, Bytes: l.have - l.size,
			What: fmt.Sprintf("the file has %d bytes instead of %d, and no entries behind", l.have, l.size), Done: "cut to its size",
		})
	}
	r.inv.long = nil
	return nil
}
