package commitlog

import (
	"math/bits"
	"sync/atomic"
)

const (
	chunkBytes = 1 << 20 // at most
	tailChunks = 16
)

// tail is a copy of the newest bytes of the log, 16 MiB at most, so that a
// consumer that keeps up costs no system call. Chunks come and go with the
// traffic; an idle log holds none.
//
// One goroutine appends at a time. A reader holds a chunk by its count; the
// writer takes a chunk out of its slot first and uses it again only if nobody
// holds it, so nobody ever reads what is being overwritten.
type tail struct {
	bits  int // a chunk has 1 << bits bytes
	bytes int64
	slots [tailChunks]atomic.Pointer[chunk]
	end   int64 // position behind the last byte; the writer's
}

type chunk struct {
	from int64 // position of the first byte that is valid
	base int64 // position of buf[0]
	// to is the position behind the last byte that is valid; base <= from <= to.
	// Behind it, up to the next piece, may lie the blank of a full file.
	to   atomic.Int64
	refs atomic.Int32
	buf  []byte
}

// newTail makes one for files of a size: small ones need no large chunks.
func newTail(segBytes int64) *tail {
	n := bits.Len64(uint64(min(max(segBytes, 4096), chunkBytes)) - 1)
	return &tail{bits: n, bytes: 1 << n}
}

// append adds p, which lies at pos in the log and is written already.
func (t *tail) append(pos int64, p []byte) {
	gap := pos != t.end
	t.end = pos + int64(len(p))
	if int64(len(p)) > tailChunks*t.bytes/2 {
		p, pos = p[int64(len(p))-t.bytes:], t.end-t.bytes // a part is enough
		gap = true
	}
	for len(p) > 0 {
		c := t.chunkAt(pos, gap)
		n := copy(c.buf[pos-c.base:], p)
		p, pos = p[n:], pos+int64(n)
		c.to.Store(pos)
	}
}

// chunkAt returns the chunk for the bytes at pos, a fresh one if gap says that
// pos does not follow what was appended last.
func (t *tail) chunkAt(pos int64, gap bool) *chunk {
	slot := &t.slots[pos>>t.bits%tailChunks]
	c := slot.Load()
	base := pos &^ (t.bytes - 1)
	if c != nil && c.base == base && (!gap || pos == c.from) {
		return c
	}
	var buf []byte
	if c != nil {
		slot.Store(nil)
		if c.refs.Load() == 0 {
			buf = c.buf
		}
	}
	if buf == nil {
		buf = make([]byte, t.bytes)
	}
	// A new chunk, so that who still holds the old one sees it unchanged.
	c = &chunk{from: pos, base: base, buf: buf}
	slot.Store(c)
	return c
}

// read copies the bytes at pos if all of them are here. The caller has checked
// that they lie before the end of the log.
func (t *tail) read(dst []byte, pos int64) bool {
	for len(dst) > 0 {
		slot := &t.slots[pos>>t.bits%tailChunks]
		c := slot.Load()
		if c == nil {
			return false
		}
		c.refs.Add(1)
		n := int(min(int64(len(dst)), c.base+t.bytes-pos))
		if slot.Load() != c || pos < c.from || pos+int64(n) > c.to.Load() || n <= 0 {
			c.refs.Add(-1)
			return false
		}
		copy(dst, c.buf[pos-c.base:][:n])
		c.refs.Add(-1)
		dst, pos = dst[n:], pos+int64(n)
	}
	return true
}

// drop frees all memory. It must not run beside append.
func (t *tail) drop() {
	for i := range t.slots {
		t.slots[i].Store(nil)
	}
	t.end = -1
}
