package delay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"mqctl/store/fastjson"
	"mqctl/store/record"
	"mqctl/store/table"
	"mqctl/subgroup/live"
)

// document is delayOffset.json: 1-based level -> next offset of queue level-1.
type document struct {
	DataVersion table.DataVersion `json:"dataVersion"`
	OffsetTable map[string]int64  `json:"offsetTable"`
}

// Load reads delayOffset.json (or its .bak). The store must be open: progress
// outside a queue's range is brought into it.
func Load(o Options) (*Scheduler, error) { return load(o, newStoreMessages(o.Store, len(o.Levels))) }

func load(o Options, log messages) (*Scheduler, error) {
	if o.Steady == nil {
		o.Steady = time.Now
	}
	s := &Scheduler{
		o:      o,
		log:    log,
		kick:   make(chan struct{}, 1),
		saves:  make(chan struct{}, 1),
		marks:  make([][]mark, len(o.Levels)),
		safe:   make([]int64, len(o.Levels)),
		other:  map[int]int64{},
		file:   table.NewFile(o.FS, o.Dir, "delayOffset.json"),
		levels: make([]*level, len(o.Levels)),
	}
	var doc document
	_, err := s.file.Load(func(b []byte) (err error) {
		doc = document{}
		if err = fastjson.Unmarshal(b, &doc); err == nil {
			s.rest, err = fastjson.Unknown(b, "\n\t", "dataVersion", "offsetTable")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the progress of delayed messages: %w", err)
	}
	s.version = s.file.Version(doc.DataVersion)
	if s.version.Timestamp == 0 {
		s.version.Timestamp = o.Now().UnixMilli()
	}
	s.following.Store(o.Following)
	offsets := map[int]int64{}
	for text, offset := range doc.OffsetTable {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1:
		case n > len(o.Levels):
			s.other[n] = offset
		default:
			offsets[n] = offset
		}
	}
	for i, d := range o.Levels {
		s.levels[i] = &level{delay: d}
		first, _, next := log.bounds(i)
		offset := min(max(offsets[i+1], int64(first)), int64(next))
		if o.Following {
			offset = max(offsets[i+1], 0) // the copy of the log may be behind the progress
		}
		s.levels[i].offset.Store(offset)
		s.safe[i] = offset
	}
	s.saved = string(s.offsets(s.safe, "\n\t"))
	return s, nil
}

// Fallback says why delayOffset.json.bak was read instead of delayOffset.json; nil if it
// was not.
func (s *Scheduler) Fallback() error { return s.file.UsedBak() }

// Progress is, for every level that has or had messages, the next offset to
// deliver and the end of its queue.
func (s *Scheduler) Progress() map[int][2]int64 {
	p := map[int][2]int64{}
	for i, l := range s.levels {
		_, end, _ := s.log.bounds(i)
		if offset := l.offset.Load(); offset > 0 || end > 0 {
			p[i+1] = [2]int64{offset, int64(end)}
		}
	}
	return p
}

// JSON is the answer body of code 45: compact, with the integer keys bare.
func (s *Scheduler) JSON() []byte {
	offsets := make([]int64, len(s.levels))
	for i, l := range s.levels {
		offsets[i] = l.offset.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := append([]byte(nil), `{"dataVersion":`...)
	b = live.AppendVersion(b, s.version, "")
	b = append(b, `,"offsetTable":`...)
	b = append(b, s.offsets(offsets, "")...)
	return append(b, '}')
}

// offsets encodes progress as fastjson does. Levels that never had a message
// are left out.
func (s *Scheduler) offsets(of []int64, newline string) []byte {
	b := []byte{'{'}
	some := false
	add := func(n int, offset int64) {
		if some {
			b = append(b, ',')
		}
		some = true
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, offset, 10)
	}
	for i, offset := range of {
		if _, end, _ := s.log.bounds(i); offset > 0 || end > 0 {
			add(i+1, offset)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.other)) {
		add(n, s.other[n])
	}
	if some {
		b = append(b, newline...)
	}
	return append(b, '}')
}

// Persist saves the progress if it changed, as far as the copies delivered are
// on disk. Called once more after the store is closed, it saves all of it.
func (s *Scheduler) Persist() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	flushed := s.log.flushed()
	s.mu.Lock()
	for i := range s.marks {
		done := 0
		for _, m := range s.marks[i] {
			if m.end > flushed {
				break
			}
			s.safe[i] = m.offset
			done++
		}
		s.marks[i] = slices.Delete(s.marks[i], 0, done)
	}
	offsets := string(s.offsets(s.safe, "\n\t"))
	b := append([]byte(nil), "{\n\t\"dataVersion\":"...)
	b = live.AppendVersion(b, s.version, "\n\t")
	s.mu.Unlock()
	if offsets == s.saved {
		return nil
	}
	b = append(b, ",\n\t\"offsetTable\":"...)
	b = append(append(b, offsets...), s.rest...)
	b = append(b, "\n}"...)
	if err := s.file.Save(b); err != nil {
		return fmt.Errorf("save the progress of delayed messages: %w", err)
	}
	s.saved = offsets
	return nil
}

// lastMark is the end of the newest copy whose progress is not safe yet.
func (s *Scheduler) lastMark() record.PhysOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last record.PhysOffset
	for _, marks := range s.marks {
		if len(marks) > 0 {
			last = max(last, marks[len(marks)-1].end)
		}
	}
	return last
}

// save is the saver's loop: after deliveries it saves until all progress is
// safe, at most once a second.
func (s *Scheduler) save(ctx context.Context) {
	every := saveEvery
	if s.o.FlushEvery > 0 {
		every = min(every, s.o.FlushEvery)
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.saves:
		}
		timer.Reset(every)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := s.Persist()
		if err != nil && !failing {
			s.o.Log.Error("the progress of delayed messages cannot be saved, trying again; a crash would deliver them again",
				"component", "delay", "error", err)
		}
		failing = err != nil
		if failing || s.lastMark() > 0 {
			notify(s.saves)
		}
	}
}
