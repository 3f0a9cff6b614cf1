package inspect

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// batchUnitBytes is the length of an entry of a batch queue.
const batchUnitBytes = 46

func (t QueueType) unitBytes() int64 {
	if t == BatchQueue {
		return batchUnitBytes
	}
	return consumequeue.UnitBytes
}

// Queue is one queue of a topic on disk.
type Queue struct {
	Topic string
	ID    int32
	Type  QueueType

	s         *Store
	dir       string
	files     []segfile.Found
	fileBytes int64

	// The window of entries that were read last.
	buf   []byte
	bufAt int64 // number of the first
	want  int   // entries that one read takes
}

// Entry is one entry of a queue: where a message is. The last three are only in
// batch queues, where one entry stands for Count messages from Base on.
type Entry struct {
	Phys int64 // position of the record in the log
	Size int32 // bytes of the record
	Tags int64 // tag code, time of delivery, or an address in the extension files

	StoreMillis int64
	Base        int64
	Count       int16
}

// Valid reports whether e can be an entry at all.
func (e Entry) Valid() bool { return e.Phys >= 0 && e.Size > 0 }

// Void reports whether e stands for no message: RocketMQ fills up with it in
// front of a queue that starts late.
func (e Entry) Void() bool { return e.Phys == 0 && e.Size == consumequeue.VoidSize }

// Dir is the folder of the queue, relative to the store.
func (q *Queue) Dir() string { return q.s.relative(q.dir) }

// Files lists the files of the queue.
func (q *Queue) Files() []File { return q.s.files(q.dir, q.files) }

// OpenAt opens the file that starts at base, for the cache of open files.
func (q *Queue) OpenAt(base int64) (vfs.File, error) {
	return q.s.opt.FS.Open(filepath.Join(q.dir, segfile.Name(base)))
}

// place names the file that holds entry n, and where in it that is. Of a batch
// queue n counts entries, not messages.
func (q *Queue) place(n int64) (file string, offset int64) {
	at := n * q.Type.unitBytes()
	base := at / q.fileBytes * q.fileBytes
	return q.s.relative(filepath.Join(q.dir, segfile.Name(base))), at - base
}

// Place names the file that holds entry n, relative to the store, and where in it
// the entry lies. Of a batch queue n counts entries, not messages.
func (q *Queue) Place(n int64) (file string, offset int64) { return q.place(n) }

// First is the number of the first entry that the files can hold.
func (q *Queue) First() int64 {
	if len(q.files) == 0 {
		return 0
	}
	return q.files[0].Base / q.Type.unitBytes()
}

// capacity is the number behind the last entry that the files can hold.
func (q *Queue) capacity() int64 {
	if n := len(q.files); n > 0 {
		return (q.files[n-1].Base + q.fileBytes) / q.Type.unitBytes()
	}
	return 0
}

// At reads entry n; an invalid one where there is nothing.
func (q *Queue) At(n int64) (Entry, error) {
	unit := q.Type.unitBytes()
	if i := n - q.bufAt; i < 0 || (i+1)*unit > int64(len(q.buf)) {
		if err := q.fill(n); err != nil {
			return Entry{}, err
		}
	}
	i := (n - q.bufAt) * unit
	if i < 0 || i+unit > int64(len(q.buf)) {
		return Entry{}, nil
	}
	return decodeEntry(q.Type, q.buf[i:]), nil
}

func decodeEntry(t QueueType, b []byte) Entry {
	u := consumequeue.Decode(b)
	e := Entry{Phys: u.Phys, Size: u.Size, Tags: u.Tags, Count: 1}
	if t == BatchQueue {
		e.StoreMillis = int64(binary.BigEndian.Uint64(b[20:]))
		e.Base = int64(binary.BigEndian.Uint64(b[28:]))
		e.Count = int16(binary.BigEndian.Uint16(b[36:]))
	}
	return e
}

// defaultWindow is how many entries are read together unless there are very many
// queues.
const defaultWindow = 1600

// fill reads the entries from n on.
func (q *Queue) fill(n int64) error {
	unit := q.Type.unitBytes()
	q.buf, q.bufAt = q.buf[:0], n
	if n < 0 || len(q.files) == 0 {
		return nil
	}
	at := n * unit
	base := at / q.fileBytes * q.fileBytes
	if !q.has(base) {
		return nil
	}
	if q.want == 0 {
		q.want = defaultWindow
	}
	want := min(int64(q.want)*unit, base+q.fileBytes-at)
	if int64(cap(q.buf)) < want {
		q.buf = make([]byte, want)
	}
	q.buf = q.buf[:want]
	h, err := q.s.cache.Acquire(q, base)
	if err != nil {
		q.buf = q.buf[:0]
		return err
	}
	got, err := h.ReadAt(q.buf, at-base)
	q.s.cache.Release(h)
	if errors.Is(err, io.EOF) {
		err = nil // a short file: the rest counts as zero
	}
	q.buf = q.buf[:int64(got)/unit*unit]
	return err
}

// has reports whether there is a file that starts at base.
func (q *Queue) has(base int64) bool {
	lo, hi := 0, len(q.files)
	for lo < hi {
		mid := (lo + hi) / 2
		if q.files[mid].Base < base {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(q.files) && q.files[lo].Base == base && q.files[lo].Size > 0
}

// drop gives the memory of the window back.
func (q *Queue) drop() { q.buf, q.bufAt = nil, 0 }

// Each calls do for every valid entry with its number, from entry from on, up to
// the first that is none in the last file with entries. It stops when do is false.
func (q *Queue) Each(from int64, do func(n int64, e Entry) (bool, error)) error {
	defer q.drop()
	for n := max(from, q.First()); n < q.capacity(); n++ {
		e, err := q.At(n)
		if err != nil {
			return err
		}
		if !e.Valid() {
			next, more := q.afterHole(n)
			if !more {
				return nil
			}
			n = next - 1
			continue
		}
		if more, err := do(n, e); err != nil || !more {
			return err
		}
	}
	return nil
}

// afterHole is where entries go on behind a file that is missing at entry n; false
// if n is the end.
func (q *Queue) afterHole(n int64) (int64, bool) {
	at := n * q.Type.unitBytes()
	if q.has(at / q.fileBytes * q.fileBytes) {
		return 0, false
	}
	for _, f := range q.files {
		if f.Base > at {
			return f.Base / q.Type.unitBytes(), true
		}
	}
	return 0, false
}
