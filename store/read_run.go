package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"mqctl/store/record"
)

// maxRun is how many records are copied by one read at most.
const maxRun = 64

// runPart is one record of a run.
type runPart struct {
	offset int64 // in the queue
	size   int32
	msgs   int32
}

// copyRun reads the records of the run in one go. If not all of them are there and whole, it
// reads each for itself: those that are none, or damaged, are passed over like a hole; if the
// disk refuses one, reading ends before it.
func (r *reader) copyRun() {
	if r.runLen == 0 {
		return
	}
	parts := r.parts[:r.runLen]
	if r.copyParts(parts, r.runAt, r.runSize) == nil {
		r.res.Count += r.runMsgs
	} else {
		r.runMsgs = 0 // what is found counts in res
		r.copySingly(parts)
	}
	r.runLen, r.runMsgs, r.runSize = 0, 0, 0
}

// copySingly is copyRun for a run that is not whole.
func (r *reader) copySingly(parts []runPart) {
	at := r.runAt
	for i := range parts {
		p := &parts[i]
		err := r.copyParts(parts[i:i+1], at, int(p.size))
		switch {
		case err == nil:
			r.res.Count += int(p.msgs)
		case errors.Is(err, errNoRecord), errors.Is(err, io.EOF):
			r.s.damagedRecord(at, err)
			r.missing()
		default:
			r.s.readFailed(at, err)
			r.res.Err = fmt.Errorf("read the commit log at %d: %w", at, err)
			r.res.Next = record.QueueOffset(p.offset)
			return
		}
		at += int64(p.size)
	}
}

var (
	// errNoRecord says that the bytes are not there any more, or are no record.
	errNoRecord = errors.New("there is no whole record")
	errRecord   = fmt.Errorf("%w: it was damaged since it was stored", errNoRecord)
)

// copyParts appends the records that lie from at on to dst. On an error dst is as before.
func (r *reader) copyParts(parts []runPart, at int64, size int) error {
	start := len(r.dst)
	r.dst = slices.Grow(r.dst, size)[:start+size]
	err := errNoRecord
	if r.s.log.ReadTail(r.dst[start:], at) {
		err = nil // as it came from its sender: checked then
	} else if ok, rerr := r.s.log.Read(r.dst[start:], at); ok {
		err = nil
		if !wholeRecords(r.dst[start:], parts) {
			err = errRecord
		}
	} else if rerr != nil {
		err = rerr
	}
	if err != nil {
		r.dst = r.dst[:start]
		return err
	}
	r.lastAt = len(r.dst) - int(parts[len(parts)-1].size)
	return nil
}

// wholeRecords checks that b is exactly the records of the parts: sizes, magic, and the
// checksum of the body. So neither the framing
// of an answer breaks because a file is damaged, nor does a consumer get what no producer sent.
// RocketMQ does not check when it reads; the price is a tenth of a microsecond for 1 KiB.
func wholeRecords(b []byte, parts []runPart) bool {
	for i := range parts {
		size := int(parts[i].size)
		if size < record.MinSize || size > len(b) {
			return false
		}
		v, err := record.Parse(b[:size])
		if err != nil || v.Size() != size || v.CheckCRC() != nil {
			return false
		}
		b = b[size:]
	}
	return len(b) == 0
}

// storeMillis is the store time of the record at the start of b.
func storeMillis(b []byte) int64 {
	at := 56
	if int32(binary.BigEndian.Uint32(b[36:]))&record.FlagBornV6 != 0 {
		at += 12
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}

// damagedRecord logs that a record cannot be served, once in a while: consumers come back.
func (s *Store) damagedRecord(pos int64, err error) {
	if !errors.Is(err, errRecord) {
		return // its file is gone, or was cut
	}
	if s.damaged.due() {
		s.opt.Log.Error("a record of the commit log was damaged on disk: consumers get what is around it", "phys_offset", pos,
			"try", "stop the broker, then mqctl store verify "+s.opt.Dir)
	}
}
