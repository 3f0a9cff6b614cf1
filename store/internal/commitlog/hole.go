package commitlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"sync"

	"mqctl/store/record"
)

// FillTopic is the topic of the records that fill a hole.
const FillTopic = "MQCTL_DAMAGED"

// Hole is a stretch of the log that holds no readable record although good ones
// follow. Its bytes stay as they are.
type Hole struct {
	From, To    int64
	StoreMillis int64 // that a filler states; at least 1
	Missing     bool  // there is no file
	// Kept says that it is one record, whole but for the position that it
	// states: queues may lead to it, only those who walk the log pass over it.
	Kept bool
}

// SetHoles says where the holes are, in their order.
func (l *Log) SetHoles(holes []Hole) { l.holes.Store(&holes) }

// Holes returns all holes. They must not be changed.
func (l *Log) Holes() []Hole {
	if p := l.holes.Load(); p != nil {
		return *p
	}
	return nil
}

// HoleFrom returns the first hole that ends behind pos.
func (l *Log) HoleFrom(pos int64) (Hole, bool) {
	holes := l.Holes()
	if len(holes) == 0 {
		return Hole{}, false
	}
	i := sort.Search(len(holes), func(i int) bool { return holes[i].To > pos })
	if i == len(holes) {
		return Hole{}, false
	}
	return holes[i], true
}

// InHole reports whether [from, to) touches a hole.
func (l *Log) InHole(from, to int64) bool {
	h, ok := l.HoleFrom(from)
	if ok && h.Kept && h.From < to {
		// Records do not share bytes: nothing else is touched.
		return from != h.From || to != h.To
	}
	return ok && h.From < to
}

// fillBytes is how long a filler may be: a replica takes no longer records than
// clients can send, and a reader makes them anew for each piece.
const fillBytes = 1 << 20

// ReadView is Read of bytes that may lie in holes: there it gives what Fill
// would write, so that a replica gets a log that can be walked, and the same one
// before and after the holes are filled. It may fill a part of dst only.
func (l *Log) ReadView(dst []byte, pos int64) (n int, ok bool, err error) {
	h, in := l.HoleFrom(pos)
	if !in || h.From >= pos+int64(len(dst)) {
		ok, err = l.Read(dst, pos)
		return len(dst), ok, err
	}
	if h.From > pos {
		dst = dst[:h.From-pos]
		ok, err = l.Read(dst, pos)
		return len(dst), ok, err
	}
	at, piece, err := l.filler(h, pos)
	if err != nil {
		return 0, false, err
	}
	return copy(dst, piece[pos-at:]), true, nil
}

// Filling is what would fill a hole [from, to) from pos on: the rest of one record, or
// of a segment, at most. It must not be changed.
func (l *Log) Filling(from, to, pos, storeMillis int64) ([]byte, error) {
	at, piece, err := l.filler(Hole{From: from, To: to, StoreMillis: storeMillis}, pos)
	if err != nil {
		return nil, err
	}
	return piece[pos-at:], nil
}

// filler is what Fill writes at pos, which lies in h: one record, or the end of
// a segment.
func (l *Log) filler(h Hole, pos int64) (at int64, piece []byte, err error) {
	if h.Kept {
		piece, err = l.corrected(h)
		return h.From, piece, err
	}
	segEnd := l.SegmentEnd(pos)
	at = max(h.From, segEnd-l.segBytes)
	to := min(h.To, segEnd)
	if h.To >= segEnd {
		// A blank is enough; what follows it is not read. A short record before it tells
		// a later scan that messages are missing.
		const short = record.MinSize + int64(len(FillTopic))
		if to-at >= short+record.BlankSize {
			if pos < at+short {
				piece, err = l.lastFill.record(at, short, h.StoreMillis)
				return at, piece, err
			}
			at += short
		}
		piece = make([]byte, min(to-pos, fillBytes))
		if head := record.AppendBlank(nil, int32(to-at)); to-at >= record.BlankSize && pos-at < record.BlankSize {
			copy(piece, head[pos-at:])
		}
		return pos, piece, nil
	}
	for to-at > 2*fillBytes && pos >= at+fillBytes {
		at += fillBytes
	}
	size := to - at
	if size > 2*fillBytes {
		size = fillBytes
	}
	piece, err = l.lastFill.record(at, size, h.StoreMillis)
	return at, piece, err
}

// fillCache holds the newest filler: who streams a hole reads it in small pieces.
type fillCache struct {
	mu         sync.Mutex // guards all below
	at, millis int64
	rec        []byte
}

// record is a fillRecord; it must not be changed.
func (c *fillCache) record(at, size, millis int64) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == at && c.millis == millis && int64(len(c.rec)) == size {
		return c.rec, nil
	}
	rec, err := fillRecord(at, size, millis)
	if err == nil {
		c.at, c.millis, c.rec = at, millis, rec
	}
	return rec, err
}

// fillRecord is a record of size bytes for the position pos that no queue and no index
// gets to see, since its transaction bits say rollback.
func fillRecord(pos, size, storeMillis int64) ([]byte, error) {
	room := size - record.MinSize
	if room < 0 {
		return nil, fmt.Errorf("commit log: %d damaged bytes at %d are fewer than a record has", size, pos)
	}
	topic := []byte(FillTopic)[:min(room, int64(len(FillTopic)))]
	none := netip.AddrPortFrom(netip.AddrFrom4([4]byte{}), 0)
	rec, err := record.AppendDraft(nil, &record.Draft{
		Topic: topic, Body: make([]byte, room-int64(len(topic))), SysFlag: record.FlagRollback,
		BornMillis: storeMillis, BornHost: none, StoreHost: none,
	})
	if err != nil {
		return nil, err
	}
	if int64(len(rec)) != size {
		return nil, fmt.Errorf("commit log: filler of %d bytes for %d damaged ones at %d", len(rec), size, pos)
	}
	record.Patch(rec, 0, record.PhysOffset(pos), storeMillis)
	return rec, nil
}

// positionAt is where a record states its position.
const positionAt = 28

// corrected is the record of a kept hole with its true position.
func (l *Log) corrected(h Hole) ([]byte, error) {
	rec := make([]byte, h.To-h.From)
	ok, err := l.Read(rec, h.From)
	if err == nil && !ok {
		err = fmt.Errorf("commit log: the record at %d is not there", h.From)
	}
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint64(rec[positionAt:], uint64(h.From))
	return rec, nil
}

// Fill writes into the file of the hole what ReadView gives, and syncs it. A missing
// file is made first. It may be done again after a crash.
func (l *Log) Fill(h Hole) error {
	for pos := h.From; pos < h.To; {
		s, err := l.segmentFor(pos)
		if err != nil {
			return err
		}
		for stop := min(h.To, s.base+l.segBytes); pos < stop; {
			at, piece, err := l.filler(h, pos)
			if err != nil {
				return err
			}
			if err := s.put(piece, at-s.base); err != nil {
				return err
			}
			pos = at + int64(len(piece))
		}
		if err := s.f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// put writes b at an offset of the file, unless it is there already: files are
// sparse.
func (s *segment) put(b []byte, at int64) error {
	old := make([]byte, len(b))
	if _, err := s.f.ReadAt(old, at); err == nil && bytes.Equal(old, b) {
		return nil
	}
	_, err := s.f.WriteAt(b, at)
	return err
}

// segmentFor returns the segment that holds pos, and makes it if it is missing.
func (l *Log) segmentFor(pos int64) (*segment, error) {
	if s := l.find(pos); s != nil {
		return s, nil
	}
	l.makeMu.Lock()
	defer l.makeMu.Unlock()
	s, err := l.makeSegment(pos / l.segBytes * l.segBytes)
	if err != nil {
		return nil, err
	}
	segs := append(slices.Clone(*l.segs.Load()), s)
	slices.SortFunc(segs, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	l.segs.Store(&segs)
	return s, nil
}
