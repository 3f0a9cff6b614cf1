package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mqctl/store/vfs"
)

// A blank says that the rest of its file holds nothing, but replicas have to be
// equal to the last byte, and masters of old wrote what they had in memory there.
// If a crash cuts the padding off, the blank alone would say that the file is
// complete. So a note beside the log names a blank whose padding may be so cut, and
// a recovery at whose end it stands takes it back: the master sends it again.

func (s *Store) blankFile() string { return filepath.Join(s.ownDir, "blank") }

// noteBlank writes the note, unless the padding is complete and zero, as a lost
// page is too.
func (s *Store) noteBlank(pc *rawPiece, p []byte) error {
	padding := p[int(pc.blank-s.log.End())+8:]
	if int64(len(padding)) == s.log.SegmentEnd(pc.blank)-pc.blank-8 && allZero(padding) {
		return nil
	}
	temp := s.blankFile() + ".tmp"
	if err := vfs.WriteFile(s.opt.FS, temp, []byte(strconv.FormatInt(pc.blank, 10)+"\n")); err != nil {
		return err
	}
	if err := s.opt.FS.Rename(temp, s.blankFile()); err != nil {
		return err
	}
	return s.opt.FS.SyncDir(s.ownDir)
}

// notedBlank is the position in the note, -1 if there is none.
func (s *Store) notedBlank() (int64, error) {
	b, err := vfs.ReadFile(s.opt.FS, s.blankFile(), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	pos, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
	if err != nil || pos < 0 {
		return -1, nil // nothing that noteBlank wrote
	}
	return pos, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
