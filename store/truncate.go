package store

import (
	"errors"

	"mqctl/store/record"
)

// Aside says where cut bytes were kept.
type Aside struct {
	Path  string // file or folder
	From  record.PhysOffset
	Bytes int64
}

// TruncateTo cuts the log at p.
func (s *Store) TruncateTo(p record.PhysOffset) (Aside, error) {
	return Aside{}, errors.New("cutting the log is not possible yet")
}

// SetAside moves the whole log, queues and index aside.
func (s *Store) SetAside() (Aside, error) {
	return Aside{}, errors.New("setting the log aside is not possible yet")
}
