package consumequeue

import (
	"bytes"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"mqctl/store/internal/segfile"
)

// Extent is what Restore needs: the units, and the position behind the last file, -1 if
// there is none.
func (q *Queue) Extent() (first, end, nextBase int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first, q.end, q.nextBase
}

// Written is Extent for the units that are in the files.
func (q *Queue) Written() (first, written, nextBase int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first, q.written, q.nextBase
}

// Adopt takes the files that lie in the folder of a restored queue: it may have got
// more since. False if they are not those of the units it has.
func (q *Queue) Adopt() (bool, error) {
	files, _, err := segfile.List(q.sh.FS, q.dir)
	if err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(files) == 0 {
		return q.first == q.end && q.nextBase < 0, nil
	}
	for i, f := range files {
		if f.Size != q.sh.FileBytes || i > 0 && f.Base != files[i-1].Base+q.sh.FileBytes {
			return false, nil
		}
	}
	next := files[len(files)-1].Base + q.sh.FileBytes
	if next < q.nextBase || q.end > q.first && files[0].Base > (q.end-1)*q.unit {
		return false, nil
	}
	if q.end == q.first && q.nextBase < 0 && files[0].Base != 0 {
		return false, nil
	}
	q.nextBase = next
	// Nobody may have made them safe. That goes for the last one only: whoever makes a file
	// syncs the one before it first, which the next roll does with what is marked.
	q.newNames = true
	q.mark(files[len(files)-1].Base)
	return true, nil
}

// RaiseFirst makes the queue begin with the first of its files that are there; without
// any it stays as it is.
func (q *Queue) RaiseFirst() error {
	files, _, err := segfile.List(q.sh.FS, q.dir)
	if err != nil || len(files) == 0 {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.first = min(max(q.first, files[0].Base/q.unit), q.end)
	return nil
}

// Restore is Load of a queue that is known to be as Extent said, all units written.
func (q *Queue) Restore(first, end, nextBase int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.first, q.end, q.written, q.ringFrom, q.nextBase = first, end, end, end, nextBase
}

// Load reads which files the queue has and finds the end of its units: the
// first that is invalid, or whose message lies at or behind limit (the units
// from there on are to be rebuilt from the log). Nothing is changed on disk.
func (q *Queue) Load(files []segfile.Found, limit int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(files) == 0 {
		return nil
	}
	perFile := q.sh.FileBytes / q.unit
	first := files[0].Base / q.unit
	end := first
	for i := len(files) - 1; i >= 0; i-- {
		base := files[i].Base
		n, err := q.findEnd(base, limit)
		if err != nil {
			return err
		}
		if n > 0 || i == 0 {
			end = base/q.unit + n
			break
		}
	}
	// A hole between the files hides everything behind it from numbering.
	for i := 1; i < len(files); i++ {
		if files[i].Base/q.unit < end && files[i].Base != files[i-1].Base+q.sh.FileBytes {
			end = min(end, files[i-1].Base/q.unit+perFile)
		}
	}
	q.first, q.end, q.written, q.ringFrom = first, end, end, end
	last := files[len(files)-1].Base
	q.nextBase = last + q.sh.FileBytes
	// A file without a unit below the limit was made by a process that died before
	// it said that the file's name is safe.
	q.newNames = end <= last/UnitBytes
	return nil
}

// findEnd is the number of units at the start of a file that are valid and
// point below limit.
func (q *Queue) findEnd(base, limit int64) (int64, error) {
	var failed error
	var buf [BatchUnitBytes]byte
	n := sort.Search(int(q.sh.FileBytes/q.unit), func(i int) bool {
		if failed != nil {
			return true
		}
		failed = q.readFile(buf[:q.unit], base, int64(i)*q.unit)
		u := Decode(buf[:])
		return !u.Valid() || u.Phys >= limit
	})
	return int64(n), failed
}

// Cut drops the units from end on, in memory; Settle makes the files follow.
func (q *Queue) Cut(end int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.rolling {
		q.rolled.Wait()
	}
	if end >= q.end {
		return
	}
	if end < q.first {
		end = q.first
	}
	if end < q.written {
		// What is not written lies behind the cut too.
		q.sh.buffered.Add(-int64(len(q.ring)))
		q.ring = nil
		q.written = end
	}
	q.ringFrom = min(q.ringStart(), end) // slots behind the cut were used again
	q.end = end
	if q.ext != nil {
		q.ext.forget()
	}
}

// Reset makes the queue empty and removes its files.
func (q *Queue) Reset() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.rolling {
		q.rolled.Wait()
	}
	q.sh.buffered.Add(-int64(len(q.ring)))
	q.ring = nil
	q.end, q.written, q.ringFrom = q.first, q.first, q.first
	err := q.dropBehind()
	q.first, q.end, q.written, q.ringFrom = 0, 0, 0, 0
	if q.ext != nil {
		q.ext.forget()
	}
	return err
}

// Discard is Reset of a queue that was loaded with these files, which need not follow each
// other.
func (q *Queue) Discard(files []segfile.Found) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if before := q.sh.BeforeDrop; before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	q.sh.Files.Forget(q)
	for _, f := range slices.Backward(files) {
		if err := q.removeFile(f.Base); err != nil {
			return err
		}
	}
	q.first, q.end, q.written, q.ringFrom, q.nextBase = 0, 0, 0, 0, -1
	q.newNames = true
	if q.ext != nil {
		q.ext.forget()
	}
	return nil
}

// Settle writes the units out, removes the files behind the end and zeroes the
// rest of the last one, so that no stale unit comes back at the next start. A
// queue without units keeps no file.
func (q *Queue) Settle() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writeLocked(); err != nil {
		return err
	}
	if q.ext != nil {
		if err := q.ext.settle(q); err != nil {
			return err
		}
	}
	if err := q.dropBehind(); err != nil || q.nextBase < 0 {
		return err
	}
	last := q.nextBase - q.sh.FileBytes
	return q.zeroTail(last, q.end*q.unit-last)
}

// dropBehind removes the files that begin at or behind the end.
func (q *Queue) dropBehind() error {
	if q.nextBase < 0 {
		return nil
	}
	for last := q.nextBase - q.sh.FileBytes; last >= q.end*q.unit; last -= q.sh.FileBytes {
		if before := q.sh.BeforeDrop; before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		q.sh.Files.Forget(q)
		if err := q.removeFile(last); err != nil {
			return err
		}
		q.newNames = true
		q.unsynced = slices.DeleteFunc(q.unsynced, func(base int64) bool { return base == last })
		if last <= q.first*q.unit {
			q.nextBase = -1
			return nil
		}
		q.nextBase = last
	}
	return nil
}

// zeroTail zeroes what lies behind the end of a file, up to the first 64 KiB
// that are zero already: ten thousand sparse files need not be read through.
func (q *Queue) zeroTail(base, at int64) error {
	buf := tailBuffers.Get().(*[1 << 16]byte)
	defer tailBuffers.Put(buf)
	for at < q.sh.FileBytes {
		n := min(int64(len(buf)), q.sh.FileBytes-at)
		if err := q.readFile(buf[:n], base, at); err != nil {
			return err
		}
		if allZero(buf[:n]) {
			return nil
		}
		if err := q.writeRun(zeros[:n], base, at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

var (
	tailBuffers = sync.Pool{New: func() any { return new([1 << 16]byte) }}
	zeros       [1 << 16]byte
)

func allZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// FirstFrom is the first unit whose message lies at or behind minPhys and is no
// void; end if none.
func (q *Queue) FirstFrom(minPhys int64) (int64, error) {
	first, end := q.Bounds()
	first, u, err := q.skipVoids(first, end)
	if err != nil || first == end || u.Phys >= minPhys {
		return first, err
	}
	var failed error
	n := sort.Search(int(end-first), func(i int) bool {
		if failed != nil {
			return true
		}
		var at int64
		var u Unit
		at, u, failed = q.skipVoids(first+int64(i), end)
		return at == end || u.Phys >= minPhys
	})
	if failed != nil {
		return 0, failed
	}
	first, _, err = q.skipVoids(first+int64(n), end)
	return first, err
}

// skipVoids returns the first unit from at on that is no void, end if none.
func (q *Queue) skipVoids(at, end int64) (int64, Unit, error) {
	var buf [64 * BatchUnitBytes]byte
	want := int64(1) // nearly always the first is none
	for at < end {
		n, err := q.ReadRaw(buf[:min(want, end-at)*q.unit], at)
		if Missing(err) {
			at = q.NextFile(at)
			continue
		}
		if err != nil || n == 0 {
			return at, Unit{}, err
		}
		for i := range n {
			if u := Decode(buf[int64(i)*q.unit:]); !u.IsVoid() {
				return at + int64(i), u, nil
			}
		}
		at += int64(n)
		want = 64
	}
	return end, Unit{}, nil
}

// Overwrite replaces an existing unit.
func (q *Queue) Overwrite(unit int64, u Unit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if unit < q.first || unit >= q.end {
		return nil
	}
	var b [UnitBytes]byte
	u.Put(b[:])
	if unit >= q.ringStart() {
		copy(q.ring[q.slot(unit):], b[:])
	}
	if unit >= q.written {
		return nil
	}
	at := unit * q.unit
	base := at / q.sh.FileBytes * q.sh.FileBytes
	return q.writeRun(b[:], base, at-base)
}

// Dir is the folder of the queue's files.
func (q *Queue) Dir() string { return filepath.Clean(q.dir) }
