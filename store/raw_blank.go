package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// A blank says that the rest of its file holds nothing, but replicas have to be
// equal to the last byte, and masters of old wrote what they had in memory there.
// If a crash cuts the padding off, the blank alone would say that the file is
// complete. So a note beside the log names a blank whose padding comes in pieces or is
// not zero, as a lost page is: first without, and once the padding is there with
// its checksum. A recovery that finds other padding takes the blank back, and what
// was appended behind it: the master sends it again.

// blankNote is the content of mqctl/blank.
type blankNote struct {
	at    int64  // where the blank begins
	whole bool   // sum is there
	sum   uint32 // CRC-32C of the padding, or in memory of the part that came
	due   bool   // in memory: the note is to be written before anything else
	on    bool   // in memory: there is such a note
}

func (s *Store) blankFile() string { return filepath.Join(s.ownDir, "blank") }

// noteBlank writes the note before the piece p, if p begins or goes on with
// padding. The note that says the padding is whole is written before the next piece:
// that one must not be on disk without it.
func (s *Store) noteBlank(pc *rawPiece, p []byte) error {
	n := &s.raw.note
	begin := s.log.End()
	end := begin + int64(len(p))
	if n.on && n.whole && n.due { // the padding is appended now
		if err := s.writeBlank(n); err != nil {
			return err
		}
	}
	from := begin
	switch {
	case pc.blank >= 0:
		from = pc.blank + record.BlankSize
		padding := p[from-begin:]
		if end == pc.padTo && allZero(padding) {
			return nil
		}
		if n.on && s.log.Flushed() < s.log.SegmentEnd(n.at) {
			if _, err := s.log.Sync(); err != nil { // the note before is still needed
				return err
			}
		}
		*n = blankNote{at: pc.blank, on: true}
		if err := s.writeBlank(n); err != nil {
			*n = blankNote{}
			return err
		}
	case !n.on || n.whole || begin >= pc.padTo:
		return nil
	}
	n.sum = crc32.Update(n.sum, castagnoli, p[from-begin:])
	n.whole = end == pc.padTo
	n.due = n.whole
	return nil
}

func (s *Store) writeBlank(n *blankNote) error {
	text := fmt.Sprintf("%d\n", n.at)
	if n.whole {
		text = fmt.Sprintf("%d %08x\n", n.at, n.sum)
	}
	temp := s.blankFile() + ".tmp"
	err := vfs.WriteFile(s.opt.FS, temp, []byte(text))
	if err == nil {
		err = s.opt.FS.Rename(temp, s.blankFile())
	}
	if err == nil {
		err = s.opt.FS.SyncDir(s.ownDir)
	}
	if err != nil {
		return fmt.Errorf("note the end of a file of the commit log: %w", err)
	}
	n.due = false
	return nil
}

// dropBlank removes the note: what it says about the log is true no more, or
// nobody will send the padding again.
func (s *Store) dropBlank() error {
	s.raw.note = blankNote{}
	err := s.opt.FS.Remove(s.blankFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.opt.FS.SyncDir(s.ownDir)
}

// readBlank returns the note, nil if there is none.
func (s *Store) readBlank() (*blankNote, error) {
	b, err := vfs.ReadFile(s.opt.FS, s.blankFile(), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := &blankNote{}
	if got, _ := fmt.Sscanf(string(b), "%d %x", &n.at, &n.sum); got == 0 {
		return nil, nil // nothing that writeBlank wrote
	} else {
		n.whole = got == 2
	}
	return n, nil
}

// paddingIs reports whether the padding behind the blank of a note is there. If
// there is no blank the note is not about this log.
func (s *Store) paddingIs(n *blankNote) (bool, error) {
	var head [record.BlankSize]byte
	ok, err := s.log.Read(head[:], n.at)
	if err != nil {
		return false, err
	}
	segEnd := s.log.SegmentEnd(n.at)
	if left, blank := record.Blank(head[:]); !ok || !blank || int64(left) != segEnd-n.at {
		return true, nil
	}
	if !n.whole {
		return false, nil
	}
	sum := uint32(0)
	buf := make([]byte, min(sumBytes, segEnd-n.at))
	for p := n.at + record.BlankSize; p < segEnd; {
		part := buf[:min(int64(len(buf)), segEnd-p)]
		if ok, err := s.log.Read(part, p); !ok {
			return false, err
		}
		sum = crc32.Update(sum, castagnoli, part)
		p += int64(len(part))
	}
	return sum == n.sum, nil
}

// cutBlank cuts the log where the padding behind the noted blank did not arrive.
// What is behind it was appended later, and the master has it. Open calls it
// before recovery.
func (s *Store) cutBlank(inv *inventory, rec *Recovery) error {
	n, err := s.readBlank()
	if err != nil || n == nil || !s.opt.Replica || n.at < s.log.Min() || n.at >= s.log.End() {
		return err
	}
	good, err := s.paddingIs(n)
	if err != nil || good {
		return err
	}
	rec.Notes = append(rec.Notes, fmt.Sprintf(
		"the end of the commit log file behind %d did not arrive completely: the log is cut there, the master has what follows", n.at))
	note := cutNote{kind: "cut", pid: s.opt.pid, at: n.at, segment: s.log.SegmentBytes()}
	if err := s.writeNote(&note); err != nil {
		return err
	}
	if inv.cut < 0 || n.at < inv.cut {
		inv.cut = n.at
	}
	capDeleted(s.keep.deleted, inv.cut)
	return s.log.CutTo(n.at)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
