package consumequeue

import (
	"path/filepath"
	"sort"

	"mqctl/store/internal/segfile"
)

// Load reads which files the queue has and finds the end of its units: the
// first that is invalid, or whose message lies at or behind limit (the units
// from there on are to be rebuilt from the log). Nothing is changed on disk.
func (q *Queue) Load(files []segfile.Found, limit int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(files) == 0 {
		return nil
	}
	perFile := q.sh.FileBytes / UnitBytes
	first := files[0].Base / UnitBytes
	end := first
	for i := len(files) - 1; i >= 0; i-- {
		base := files[i].Base
		n, err := q.findEnd(base, limit)
		if err != nil {
			return err
		}
		if n > 0 || i == 0 {
			end = base/UnitBytes + n
			break
		}
	}
	// A hole between the files hides everything behind it from numbering.
	for i := 1; i < len(files); i++ {
		if files[i].Base/UnitBytes < end && files[i].Base != files[i-1].Base+q.sh.FileBytes {
			end = min(end, files[i-1].Base/UnitBytes+perFile)
		}
	}
	q.first, q.end, q.written, q.ringFrom = first, end, end, end
	q.nextBase = files[len(files)-1].Base + q.sh.FileBytes
	return nil
}

// findEnd is the number of units at the start of a file that are valid and
// point below limit.
func (q *Queue) findEnd(base, limit int64) (int64, error) {
	var failed error
	var buf [UnitBytes]byte
	n := sort.Search(int(q.sh.FileBytes/UnitBytes), func(i int) bool {
		if failed != nil {
			return true
		}
		failed = q.readFile(buf[:], base, int64(i)*UnitBytes)
		u := Decode(buf[:])
		return !u.Valid() || u.Phys >= limit
	})
	return int64(n), failed
}

// Cut drops the units from end on, in memory; Settle makes the files follow.
func (q *Queue) Cut(end int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	if q.nextBase < 0 {
		return nil
	}
	last := q.nextBase - q.sh.FileBytes
	for ; last >= q.end*UnitBytes && last >= 0; last -= q.sh.FileBytes {
		q.sh.Files.Forget(q)
		if err := q.removeFile(last); err != nil {
			return err
		}
		q.newNames = true
		if last <= q.first*UnitBytes {
			q.nextBase = -1
			return nil
		}
		q.nextBase = last
	}
	return q.zeroTail(last, q.end*UnitBytes-last)
}

// zeroTail zeroes what lies behind the end of a file, up to the first 64 KiB
// that are zero already: ten thousand sparse files need not be read through.
func (q *Queue) zeroTail(base, at int64) error {
	buf := make([]byte, 1<<16)
	zero := make([]byte, 1<<16)
	for at < q.sh.FileBytes {
		n := min(int64(len(buf)), q.sh.FileBytes-at)
		if err := q.readFile(buf[:n], base, at); err != nil {
			return err
		}
		if allZero(buf[:n]) {
			return nil
		}
		if err := q.writeRun(zero[:n], base, at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// FirstFrom is the first unit whose message lies at or behind minPhys and is no
// void; end if none.
func (q *Queue) FirstFrom(minPhys int64) (int64, error) {
	first, end := q.Bounds()
	var failed error
	var buf [UnitBytes]byte
	n := sort.Search(int(end-first), func(i int) bool {
		if failed != nil {
			return true
		}
		if _, err := q.ReadRaw(buf[:], first+int64(i)); err != nil && !Missing(err) {
			failed = err
		}
		u := Decode(buf[:])
		return !u.IsVoid() && u.Phys >= minPhys
	})
	return first + int64(n), failed
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
	at := unit * UnitBytes
	base := at / q.sh.FileBytes * q.sh.FileBytes
	return q.writeRun(b[:], base, at-base)
}

// Dir is the folder of the queue's files.
func (q *Queue) Dir() string { return filepath.Clean(q.dir) }
