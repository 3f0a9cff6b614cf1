package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// MaxRawRecord is the longest record that AppendRaw takes, in bytes: so much a
// caller may have to collect before the first of them is taken. A frame of the
// protocol, in which every message comes, is not longer.
const MaxRawRecord = 16 << 20

// RawError says that bytes offered to AppendRaw are not the continuation of this log.
type RawError struct {
	At  record.PhysOffset // of the first byte that does not fit
	Why string
}

func (e *RawError) Error() string {
	return fmt.Sprintf("commit log at %d: %s", e.At, e.Why)
}

// rawState is what AppendRaw knows between two calls.
type rawState struct {
	mu     sync.Mutex  // one append, cut or change of role at a time; before keeper.mu
	padTo  int64       // up to where padding goes on that a call left unfinished
	note   blankNote   // of the newest blank, if it needs one
	pieces [2]rawPiece // reused: one is written while the other is checked
}

// rawPieceBytes is about how much AppendRaw writes at once. More than that comes only
// while a copy is far behind. Then the next piece is checked while one is written, and
// nothing is kept in memory for readers.
const rawPieceBytes = 512 << 10

// rawPiece is what one write takes: whole records of one segment, and padding.
type rawPiece struct {
	bytes    int
	more     bool  // it could be taken no further, but what follows may be a piece
	padTo    int64 // as in rawState, after the piece
	blank    int64 // where a blank begins, -1 if none does
	pending  pending
	lastPhys int64 // of its last record, -1 if none
	lastEnd  int64
	millis   int64 // of the newest record
}

// AppendRaw appends the whole records (and blanks with their padding) that p
// begins with, which continue the log at Positions().Max, in one write per
// segment, and dispatches them. Each is checked before it is written: magic, size,
// body checksum, its own position, sane lengths. n is how many bytes were taken; the
// rest is an unfinished record, to be offered again with more behind it. A
// *RawError means that p at n is no record here. Replica stores only; one caller at a time.
//
// Padding is taken in any pieces and kept as it is. p is not kept.
func (s *Store) AppendRaw(p []byte) (n int, err error) {
	s.raw.mu.Lock()
	defer s.raw.mu.Unlock()
	if !s.replica.Load() {
		return 0, errNoReplica
	}
	if err := s.broken(); err != nil {
		return 0, err
	}
	if n, err = s.appendPieces(p); n == 0 {
		return 0, err
	}
	if s.log.NeedsPrepare() {
		notify(s.prepareWake)
	}
	s.opt.OnAppend(record.PhysOffset(s.log.End()))
	if s.opt.SyncFlush && s.running.Load() {
		notify(s.flush.wake) // nobody waits, but what is not flushed is not visible
	}
	s.dispatch()
	return n, err
}

// appendPieces checks and writes p piece by piece. The caller holds raw.mu.
func (s *Store) appendPieces(p []byte) (n int, err error) {
	pc, next := &s.raw.pieces[0], &s.raw.pieces[1]
	begin, bulk := s.log.End(), len(p) > rawPieceBytes
	bad := s.checkPiece(pc, p, begin, s.raw.padTo)
	for pc.bytes > 0 && bad == nil && pc.more && n+pc.bytes < len(p) {
		piece := p[n : n+pc.bytes]
		written := make(chan error, 1)
		go func(pc *rawPiece) { // ends before we return
			err := s.writePiece(pc, piece, bulk)
			if err == nil {
				s.dispatch()
			}
			written <- err
		}(pc)
		bad = s.checkPiece(next, p[n+pc.bytes:], begin+int64(n+pc.bytes), pc.padTo)
		if err := <-written; err != nil {
			return n, err
		}
		n += pc.bytes
		pc, next = next, pc
	}
	if pc.bytes > 0 {
		if err := s.writePiece(pc, p[n:n+pc.bytes], bulk); err != nil {
			return n, err
		}
	}
	return n + pc.bytes, bad
}

// writePiece appends a checked piece. The holder of raw.mu waits for it.
func (s *Store) writePiece(pc *rawPiece, p []byte, bulk bool) error {
	if err := s.rawRoom(); err != nil {
		return err
	}
	if err := s.noteBlank(pc, p); err != nil {
		return err
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	write := s.log.Write
	if bulk {
		write = s.log.WriteBulk
	}
	if err, sick := write(p); err != nil {
		if vfs.DiskFull(err) && !sick {
			s.noSpace()
		} else {
			s.setSick(fmt.Errorf("write the commit log: %w", err))
		}
		return fmt.Errorf("write the commit log: %w", err)
	}
	s.raw.padTo = pc.padTo
	s.pushRaw(pc)
	return nil
}

// pushRaw hands the records of a piece to dispatch. The caller holds appendMu.
func (s *Store) pushRaw(pc *rawPiece) {
	if pc.lastPhys < 0 {
		return
	}
	d := &s.disp
	d.pendMu.Lock()
	if d.scanning || len(d.fresh.entries)+len(pc.pending.entries) > maxPending {
		d.scanning = true
	} else {
		d.fresh.entries = append(d.fresh.entries, pc.pending.entries...)
		d.fresh.hashes = append(d.fresh.hashes, pc.pending.hashes...)
	}
	d.pendMu.Unlock()
	s.lastMillis = max(s.lastMillis, pc.millis)
	s.storedMillis.Store(s.lastMillis)
	s.lastPhys.Store(pc.lastPhys)
	s.queuedEnd.Store(pc.lastEnd)
}

// rawRoom makes a segment for the next byte, if there is none.
func (s *Store) rawRoom() error {
	for s.log.Room() == 0 {
		s.appendMu.Lock()
		rolled, err := s.log.Roll()
		s.appendMu.Unlock()
		if err == nil && !rolled {
			err = s.log.Prepare()
		}
		if err != nil {
			s.prepareFailed(err)
			return fmt.Errorf("make the next file of the commit log: %w", err)
		}
	}
	return nil
}

// checkPiece finds out how much of p, which lies at begin, can be written at once,
// up to the end of a segment at most, and what is to be dispatched of it. Padding goes
// on up to padTo.
func (s *Store) checkPiece(pc *rawPiece, p []byte, begin, padTo int64) error {
	segEnd := s.log.SegmentEnd(begin)
	pc.bytes, pc.more, pc.padTo, pc.blank, pc.lastPhys = 0, false, padTo, -1, -1
	pc.pending.reset()
	for pc.bytes < len(p) {
		rest := p[pc.bytes:]
		pos := begin + int64(pc.bytes)
		left := segEnd - pos
		if left == 0 || pc.bytes >= rawPieceBytes {
			pc.more = true
			return nil
		}
		if left < record.BlankSize {
			pc.padTo = segEnd // no blank has room
		}
		if pos < pc.padTo {
			pc.bytes += int(min(int64(len(rest)), pc.padTo-pos))
			continue
		}
		if len(rest) < record.BlankSize {
			return nil
		}
		if free, blank := record.Blank(rest); blank {
			if int64(free) != left {
				return &RawError{record.PhysOffset(pos), fmt.Sprintf("a blank of %d bytes, where %d are left of the file", free, left)}
			}
			pc.blank, pc.padTo = pos, segEnd
			continue
		}
		size, why := s.checkRecord(pc, rest, pos, left)
		if why != "" {
			return &RawError{record.PhysOffset(pos), why}
		}
		if size == 0 {
			return nil
		}
		pc.bytes += size
		pc.lastPhys, pc.lastEnd = pos, pos+int64(size)
	}
	return nil
}

// Where the fixed fields of a record stand that tell early whether it is one.
const (
	rawPhysAt    = 28
	rawHeadBytes = 36
)

// checkRecord checks the record at the start of p and notes it for dispatch. A
// size of 0 without a reason says that p does not have all of it yet.
func (s *Store) checkRecord(pc *rawPiece, p []byte, pos, left int64) (size int, why string) {
	be := binary.BigEndian
	size = int(int32(be.Uint32(p)))
	magic := int32(be.Uint32(p[4:]))
	switch {
	case magic != record.MagicV1 && magic != record.MagicV2:
		return 0, fmt.Sprintf("no record begins here (magic %08x)", uint32(magic))
	case size < record.MinSize || int64(size) > left || size > MaxRawRecord:
		return 0, fmt.Sprintf("a record of %d bytes, where %d to %d are possible", size, record.MinSize, min(left, MaxRawRecord))
	case len(p) < rawHeadBytes:
		return 0, ""
	}
	if own := int64(be.Uint64(p[rawPhysAt:])); own != pos {
		return 0, fmt.Sprintf("the record here says that it lies at %d", own)
	}
	if len(p) < size {
		return 0, ""
	}
	v, err := record.Parse(p[:size])
	if err == nil {
		err = v.CheckCRC()
	}
	if err != nil {
		return 0, err.Error()
	}
	if why := insane(v); why != "" {
		return 0, why
	}
	e, hashes := s.describe(v, pc.pending.hashes, true)
	pc.pending.entries, pc.pending.hashes = append(pc.pending.entries, e), hashes
	pc.millis = e.millis
	return size, ""
}

// insane finds numbers and names that no broker writes. A recovery would take
// such a record for damage, and a topic becomes the name of a folder.
func insane(v record.View) string {
	switch {
	case v.StoreMillis() <= 0:
		return fmt.Sprintf("a record with the store time %d", v.StoreMillis())
	case v.QueueID() < 0:
		return fmt.Sprintf("a record of queue %d", v.QueueID())
	case v.QueueOffset() < 0 || v.QueueOffset() > math.MaxInt64/64:
		return fmt.Sprintf("a record with the queue offset %d", v.QueueOffset())
	}
	topic := v.Topic()
	if len(topic) > 255 || kindOf(v.SysFlag()) == queued && (len(topic) == 0 || topic[0] == '.') {
		return fmt.Sprintf("a record of topic %q", topic)
	}
	for _, c := range topic {
		if c <= ' ' || c == '/' || c == '\\' || c == 0x7F {
			return fmt.Sprintf("a record of topic %q", topic)
		}
	}
	return ""
}
