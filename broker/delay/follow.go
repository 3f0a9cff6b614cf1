package delay

import (
	"fmt"
	"strconv"

	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// A slave delivers nothing: its master's deliveries come with the log. It keeps
// the master's progress, so that it can go on from there when it becomes master.

// SetFollowing turns delivery off, for a slave, or on again. Turning it on brings
// the progress taken over from a master into what the own queues have: a master
// may have been further than its copy. It waits for a delivery under way.
func (s *Scheduler) SetFollowing(on bool) {
	s.turns.Lock()
	defer s.turns.Unlock()
	if s.following.Swap(on) == on {
		return
	}
	if !on {
		for i, l := range s.levels {
			first, _, next := s.log.bounds(i)
			offset := min(max(l.offset.Load(), int64(first)), int64(next))
			l.offset.Store(offset)
			s.mu.Lock()
			s.safe[i] = min(s.safe[i], offset)
			s.mu.Unlock()
		}
		notify(s.kick)
	}
}

// Following reports whether delivery is off.
func (s *Scheduler) Following() bool { return s.following.Load() }

// MasterProgress is an answer to code 45: the next offset to deliver by level,
// counted from 1.
type MasterProgress struct {
	Offsets map[int]int64
	Version table.DataVersion
}

// DecodeProgress reads an answer to code 45.
func DecodeProgress(b []byte) (*MasterProgress, error) {
	var doc document
	if err := fastjson.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("read the progress of delayed messages: %w", err)
	}
	p := &MasterProgress{Offsets: make(map[int]int64, len(doc.OffsetTable)), Version: doc.DataVersion}
	for text, offset := range doc.OffsetTable {
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= maxLevel && offset >= 0 {
			p.Offsets[n] = offset
		}
	}
	return p, nil
}

// maxLevel bounds the levels that are remembered of another broker's configuration.
const maxLevel = 1024

// TakeOver takes a master's progress over, while following only. A level never
// goes back: what the master had delivered once is in the log that was copied.
func (s *Scheduler) TakeOver(p *MasterProgress) {
	s.turns.Lock()
	defer s.turns.Unlock()
	if !s.following.Load() {
		return
	}
	moved := false
	s.mu.Lock()
	for n, offset := range p.Offsets {
		if n > len(s.levels) {
			if offset > s.other[n] {
				s.other[n], moved = offset, true
			}
			continue
		}
		l := s.levels[n-1]
		if offset <= l.offset.Load() {
			continue
		}
		l.offset.Store(offset)
		s.safe[n-1] = max(s.safe[n-1], offset)
		moved = true
	}
	moved = moved || s.version != p.Version
	s.version = p.Version
	s.mu.Unlock()
	if moved {
		notify(s.saves)
	}
}
