package keyindex

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"

	"mqctl/store/vfs"
)

// Query calls found with the physical offset of every record that may have a
// key of this hash and was stored between begin and end (ms, inclusive),
// newest first, until found is false or max candidates were given (max <= 0:
// no bound). Candidates have to be verified: other keys have the same hash,
// and an entry knows its time in whole seconds only, so records up to a second
// outside of the range are given too. A record can come twice.
func (x *Index) Query(hash int32, max int, begin, end int64, found func(phys int64) bool) error {
	if hash < 0 {
		return nil // not the hash of any key
	}
	if max <= 0 {
		max = math.MaxInt
	}
	files, heads, err := x.acquire(begin, end)
	if err != nil {
		return err
	}
	defer x.releaseAll(files)
	for i := len(files) - 1; i >= 0; i-- {
		q := query{x: x, f: files[i], head: heads[i], hash: hash, left: max, begin: begin, end: end, found: found}
		more, err := q.run()
		if errors.Is(err, fs.ErrNotExist) && x.isDropped(files[i]) {
			continue // its messages have expired meanwhile
		}
		if !more || err != nil {
			return err
		}
		max = q.left
	}
	return nil
}

func (x *Index) isDropped(f *file) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return f.dropped
}

// acquire returns the files that overlap a range of time, with a reference to
// each, oldest first.
func (x *Index) acquire(begin, end int64) (files []*file, heads []header, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, nil, ErrClosed
	}
	for _, f := range x.files {
		// The end of a repaired file is known to a second only.
		if h := f.head; h.count > 1 && h.beginMillis <= end && h.endMillis+999 >= begin {
			f.refs++
			files, heads = append(files, f), append(heads, h)
		}
	}
	return files, heads, nil
}

func (x *Index) releaseAll(files []*file) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range files {
		x.release(f, 1)
	}
}

// query is the walk along one slot of one file.
type query struct {
	x          *Index
	f          *file
	head       header // as of the start
	hash       int32
	left       int // candidates that may still be given
	begin, end int64
	found      func(phys int64) bool
}

// run returns whether older files should be looked at.
func (q *query) run() (more bool, err error) {
	n, err := q.slot()
	if err != nil {
		return false, err
	}
	for n > 0 && n < q.head.count {
		e, err := q.entry(n)
		if err != nil {
			return false, err
		}
		// The first entry's seconds count from the end of the file before.
		at := q.head.beginMillis
		if n > 1 {
			at += 1000 * int64(e.seconds)
		}
		if e.seconds < 0 || at+999 < q.begin {
			break // older entries lie behind it
		}
		if e.hash == q.hash && at <= q.end {
			if !q.found(e.phys) {
				return false, nil
			}
			if q.left--; q.left == 0 {
				return false, nil
			}
		}
		if e.prev >= n {
			break // links lead to older entries, so this one is damaged
		}
		n = e.prev
	}
	return true, nil
}

// slot returns the newest entry number of the slot. Entries that came since
// the start of the query are followed back to the older ones.
func (q *query) slot() (int32, error) {
	slot := q.hash % q.x.slots
	q.x.mu.Lock()
	if q.f.slots != nil {
		q.x.link(q.f)
		n := q.f.slots[slot]
		q.head.count = q.f.head.count
		q.x.mu.Unlock()
		return n, nil
	}
	in, err := q.x.reader(q.f)
	q.x.mu.Unlock()
	if err != nil {
		return 0, err
	}
	var b [slotBytes]byte
	if err := readFull(in, b[:], headerBytes+slotBytes*int64(slot)); err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(b[:])), nil
}

// entry reads entry n from memory or from the file.
func (q *query) entry(n int32) (entry, error) {
	q.x.mu.Lock()
	e, ok := q.f.at(n)
	var in vfs.File
	var err error
	if !ok {
		in, err = q.x.reader(q.f)
	}
	q.x.mu.Unlock()
	if ok || err != nil {
		return e, err
	}
	var b [entryBytes]byte
	if err := readFull(in, b[:], q.x.entryAt(n)); err != nil {
		return e, err
	}
	e.decode(b[:])
	return e, nil
}
