package store

import "mqctl/store/record"

// Hole is a stretch of the commit log that holds no readable record although
// good ones follow: damage that was left as it is, or a missing file. Reads pass
// over it, and queue entries that lead into it count as removed messages.
type Hole struct {
	From, To    record.PhysOffset // [From, To)
	StoreMillis int64             // store time of the record before it, 0 if none: a filler gets it
	Missing     bool              // there is no file to read there
}

// Bytes is the length of the hole.
func (h Hole) Bytes() int64 { return int64(h.To - h.From) }

// Holes returns the holes of the log in their order. The slice is the caller's.
func (s *Store) Holes() []Hole { return nil }
