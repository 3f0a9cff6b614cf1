package replication

import (
	"fmt"

	"mqctl/store"
)

const (
	idleInbox   = 64 << 10
	usualInbox  = 4 << 20
	maxInbox    = store.MaxRawRecord + maxBody // of an unfinished record and what came behind it
	readAhead   = 256 << 10                    // that one read may bring where frame headers lie between
	directlyFor = 64 << 10                     // from so many missing bytes on, a body is read for itself
)

// streamError says that a frame does not continue what was received before.
type streamError struct{ why string }

func (e *streamError) Error() string { return e.why }

// inbox puts the bodies of frames together again, in place, so that what one read
// brought can be appended in one piece.
//
//	buf:  | n bytes of the log | raw bytes of a header that is not whole | room |
//
// The byte at buf[n] will be that of position next. Memory grows with the bytes
// that came, never with what a length says.
type inbox struct {
	buf  []byte
	n    int
	raw  int
	size int   // of the current frame's body
	body int   // bytes of it that are still to come
	next int64 // position of the first byte that is not there
	// anchor decides about the position of the first frame with a body when the
	// slave left the start to the master; nil once it is known.
	anchor func(pos int64) error
	end    int64 // highest position that a frame spoke of
	frames int64
}

// gathers says whether to wait for more before anything is appended: the rest of a
// frame so large as only a copy has them is on its way.
func (in *inbox) gathers() bool {
	return in.body > 0 && in.size > memoryFrame && in.n < maxOurBody
}

// space is where the next bytes of the stream go.
func (in *inbox) space() []byte {
	at := in.n + in.raw
	if len(in.buf)-at < idleInbox/2 {
		next := make([]byte, max(idleInbox, 2*len(in.buf)))
		copy(next, in.buf[:at])
		in.buf = next
	}
	room := in.buf[at:]
	if in.raw == 0 && in.body >= directlyFor {
		return room[:min(len(room), in.body)]
	}
	return room[:min(len(room), readAhead)]
}

// took sorts k new bytes: bodies move together, headers are checked and dropped.
func (in *inbox) took(k int) error {
	src, end := in.n, in.n+in.raw+k
	full := end == len(in.buf)
	for {
		if take := min(in.body, end-src); take > 0 {
			if src != in.n {
				copy(in.buf[in.n:], in.buf[src:src+take])
			}
			in.n, src = in.n+take, src+take
			in.body, in.next = in.body-take, in.next+int64(take)
		}
		if in.body > 0 || end-src < headerSize {
			break
		}
		if err := in.header(parseHeader(in.buf[src:])); err != nil {
			return err
		}
		src += headerSize
	}
	in.raw = copy(in.buf[in.n:], in.buf[src:end])
	if full && len(in.buf) < usualInbox {
		in.grow(2 * len(in.buf)) // there is more to come at once
	}
	return nil
}

func (in *inbox) grow(to int) {
	next := make([]byte, to)
	copy(next, in.buf[:in.n+in.raw])
	in.buf = next
}

func (in *inbox) header(pos int64, size int) error {
	in.frames++
	if size < 0 || size > maxBody {
		return &streamError{fmt.Sprintf("the master announced a body of %d bytes, at most %d are possible", size, maxBody)}
	}
	if in.anchor != nil {
		if size == 0 {
			return nil // it says nothing about where the log will begin
		}
		if err := in.anchor(pos); err != nil {
			return err
		}
		in.anchor, in.next = nil, pos
	}
	if pos != in.next {
		return &streamError{fmt.Sprintf("the master sends from %d, and the next byte here is %d", pos, in.next)}
	}
	in.size, in.body = size, size
	in.end = max(in.end, pos+int64(size))
	return nil
}

// log is what can be offered to the log.
func (in *inbox) log() []byte { return in.buf[:in.n] }

// drop takes away the first k bytes of log, which were appended.
func (in *inbox) drop(k int) error {
	if k > 0 {
		copy(in.buf, in.buf[k:in.n+in.raw])
		in.n -= k
	}
	if in.n >= maxInbox {
		return &streamError{fmt.Sprintf("the record at %d is longer than %d bytes", in.next-int64(in.n), store.MaxRawRecord)}
	}
	if len(in.buf) > usualInbox && in.n+in.raw <= idleInbox {
		in.grow(usualInbox)
	}
	return nil
}
