package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"mqctl/store/record"
)

const (
	scanWindow = 1 << 20
	// zeroRun ends the search for more data: that many zeros in front of data
	// are not left even by a power loss that reorders what was written.
	zeroRun = 256 << 20
)

// ErrPosition says that a record states another position than it has: stale
// bytes of an earlier life of the file.
var ErrPosition = errors.New("record states another position than its own")

// ErrTorn says that a part of the record that no checksum covers was never
// written, or is nonsense.
var ErrTorn = errors.New("topic, properties or numbers were not written completely")

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// strongTear is how many zeros in a row no properties have by themselves.
const strongTear = 64

// torn looks for what a crash leaves of a record that did not reach the disk
// completely: a sector, or its part that belongs to topic and properties, of
// zeros; or zeros at the end. Properties may hold zeros, though nobody knows a
// client that sends them: so only long ones are sure.
func torn(v record.View, pos int64) (torn, sure bool) {
	if v.StoreMillis() <= 0 || v.QueueOffset() < 0 || v.QueueID() < 0 || bytes.IndexByte(v.Topic(), 0) >= 0 {
		return true, true
	}
	props := v.Properties()
	if bytes.IndexByte(props, 0) < 0 {
		return false, false
	}
	torn = props[len(props)-1] == 0
	at := pos + int64(v.Size()-len(props))
	for len(props) > 0 {
		n := min(int64(len(props)), sectorBytes-at%sectorBytes)
		if allZero(props[:n]) {
			torn = true
			sure = sure || n >= strongTear
		}
		props, at = props[n:], at+n
	}
	return torn, sure
}

// BadError says where the bytes of the log stop making sense.
type BadError struct {
	Pos int64
	Err error
	// Next is the position behind the damaged record if its lengths can be
	// believed, else 0.
	Next int64
}

func (e *BadError) Error() string { return fmt.Sprintf("commit log at %d: %v", e.Pos, e.Err) }

// Unwrap returns the reason.
func (e *BadError) Unwrap() error { return e.Err }

// Scanner walks the records of the log in order, checking each: lengths, magic,
// own position and body checksum.
type Scanner struct {
	l       *Log
	pos     int64 // of the next record
	noCRC   bool
	buf     []byte
	bufAt   int64 // position of buf[0]
	Crossed int   // segments the scanner has begun to read
	lastSeg int64
	// fresh gives the buffer for the next window; nil: the one before is used again.
	fresh func(n int64) []byte
}

var errStopped = errors.New("the scan was stopped")

// Scan starts at pos, which must be the start of a record, a blank or a
// segment. trusted leaves out the checksums and passes over known holes.
func (l *Log) Scan(pos int64, trusted bool) *Scanner {
	return &Scanner{l: l, pos: pos, noCRC: trusted, lastSeg: -1}
}

// Pos is the position of the record that Next will return.
func (s *Scanner) Pos() int64 { return s.pos }

// Next returns the next record; the view is valid until the call after. The
// error is io.EOF behind the last segment, a *BadError where something is no
// record (Pos stays there), or an error of the disk.
func (s *Scanner) Next() (record.View, error) {
	for {
		if s.noCRC {
			if h, ok := s.l.HoleFrom(s.pos); ok && h.From <= s.pos {
				s.pos = h.To
				continue
			}
		}
		seg := s.l.find(s.pos)
		if seg == nil {
			next := s.l.following(s.pos)
			if next < 0 {
				return record.View{}, io.EOF
			}
			s.pos = next
			continue
		}
		if seg.base != s.lastSeg {
			s.lastSeg = seg.base
			s.Crossed++
		}
		segEnd := seg.base + s.l.segBytes
		if segEnd-s.pos < record.BlankSize {
			s.pos = segEnd
			continue
		}
		head, err := s.peek(seg, record.BlankSize)
		if errors.Is(err, errLeft) {
			continue
		}
		if err != nil {
			return record.View{}, err
		}
		if _, blank := record.Blank(head); blank {
			s.pos = segEnd
			continue
		}
		v, err := s.record(seg, head)
		if errors.Is(err, errLeft) {
			continue
		}
		return v, err
	}
}

func (s *Scanner) record(seg *segment, head []byte) (record.View, error) {
	bad := func(err error, size int64) (record.View, error) {
		e := &BadError{Pos: s.pos, Err: err}
		if size > 0 {
			e.Next = s.pos + size
		}
		return record.View{}, e
	}
	size := int64(int32(binary.BigEndian.Uint32(head)))
	magic := int32(binary.BigEndian.Uint32(head[4:]))
	if magic != record.MagicV1 && magic != record.MagicV2 {
		return bad(record.ErrMagic, 0)
	}
	if size < record.MinSize || size > seg.base+s.l.segBytes-s.pos {
		return bad(record.ErrLengths, 0)
	}
	raw, err := s.peek(seg, size)
	if err != nil {
		return record.View{}, err
	}
	v, err := record.Parse(raw)
	if err != nil {
		return bad(err, 0)
	}
	if int64(v.PhysOffset()) != s.pos {
		return bad(ErrPosition, size)
	}
	if !s.noCRC {
		if err := v.CheckCRC(); err != nil {
			return bad(err, size)
		}
		if torn, sure := torn(v, s.pos); torn && !sure {
			follows, err := s.l.record(s.pos+size, true)
			if err != nil {
				return record.View{}, err
			}
			if !follows {
				return bad(ErrTorn, size)
			}
		} else if sure {
			return bad(ErrTorn, size)
		}
	}
	s.pos += size
	return v, nil
}

// Misplaced returns the record [pos, end), whose only fault may be the position
// that it states, with the true one; false if there is another.
func (l *Log) Misplaced(pos, end int64) (record.View, bool, error) {
	raw, err := l.corrected(Hole{From: pos, To: end})
	if err != nil {
		return record.View{}, false, err
	}
	v, err := record.Parse(raw)
	if err != nil || v.CheckCRC() != nil {
		return v, false, nil
	}
	broken, _ := torn(v, pos)
	return v, !broken, nil
}

// record reports whether a record is at pos, perhaps behind a blank. An error is one of the
// disk: what cannot be read is no damage.
func (l *Log) record(pos int64, trusted bool) (bool, error) {
	_, err := l.Scan(pos, trusted).Next()
	if NoRecord(err) {
		return false, nil
	}
	return err == nil, err
}

// NoRecord says that err of a scan tells what is in the log, not that it could not be read.
func NoRecord(err error) bool {
	var bad *BadError
	return errors.As(err, &bad) || errors.Is(err, io.EOF)
}

// peek returns n bytes from pos on, all inside of seg.
func (s *Scanner) peek(seg *segment, n int64) ([]byte, error) {
	at := s.pos - s.bufAt
	if at >= 0 && at+n <= int64(len(s.buf)) {
		return s.buf[at : at+n], nil
	}
	want := min(max(n, scanWindow), seg.base+s.l.segBytes-s.pos)
	switch {
	case s.fresh != nil:
		if s.buf = s.fresh(want); s.buf == nil {
			return nil, errStopped
		}
	case int64(cap(s.buf)) < want:
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	s.bufAt = s.pos
	if got, err := seg.read(s.buf, s.pos-seg.base); int64(got) < want {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read the commit log at %d: %w", s.pos, err)
	}
	return s.buf[:n], nil
}

// following is the start of the first segment behind pos, -1 if none.
func (l *Log) following(pos int64) int64 {
	for _, s := range *l.segs.Load() {
		if s.base > pos {
			return s.base
		}
	}
	return -1
}

// FirstRecord returns the first record of the segment at base.
func (l *Log) FirstRecord(base int64) (record.View, error) {
	return l.Scan(base, false).Next()
}

// FindRecord looks for the next valid record behind from (at from+1 or later),
// through all segments. A long run of zeros ends the search in a segment.
func (l *Log) FindRecord(from int64) (pos int64, found bool, err error) {
	buf := make([]byte, min(scanWindow, l.segBytes))
	// A record is recognised by bytes 4 to 6; so each window overlaps the one
	// before by what may be cut off.
	const overlap = 64
	pos = from + 1
	for _, seg := range *l.segs.Load() {
		end := seg.base + l.segBytes
		if end <= pos {
			continue
		}
		zeros := int64(0)
		for at := max(pos, seg.base); at < end && zeros < zeroRun; {
			n := min(int64(len(buf)), end-at)
			if _, err := seg.f.ReadAt(buf[:n], at-seg.base); err != nil && !errors.Is(err, io.EOF) {
				return 0, false, err
			}
			if allZero(buf[:n]) {
				zeros += n
			} else {
				zeros = 0
				if p, ok, err := l.match(buf[:n], at); ok || err != nil {
					return p, ok, err
				}
			}
			if n <= overlap {
				break
			}
			at += n - overlap
		}
	}
	return 0, false, nil
}

var magicStart = []byte{0xDA, 0xA3, 0x20} // of both record versions

// match tries every place of b, which lies at pos in the log, that looks like
// a record.
func (l *Log) match(b []byte, pos int64) (int64, bool, error) {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], magicStart)
		if i < 0 {
			return 0, false, nil
		}
		at += i
		p := pos + int64(at) - 4
		if at < 4 || at+32 > len(b) || int64(binary.BigEndian.Uint64(b[at+24:])) != p {
			continue
		}
		v, err := l.Scan(p, false).Next()
		if err != nil && !NoRecord(err) {
			return 0, false, err
		}
		if err == nil && int64(v.PhysOffset()) == p {
			return p, true, nil
		}
	}
}

// allZero compares in blocks, which is as fast as memory.
func allZero(b []byte) bool {
	for len(b) >= len(zeroBlock) {
		if !bytes.Equal(b[:len(zeroBlock)], zeroBlock[:]) {
			return false
		}
		b = b[len(zeroBlock):]
	}
	return bytes.Equal(b, zeroBlock[:len(b)])
}

var zeroBlock [4096]byte
