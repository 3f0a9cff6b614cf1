package consumequeue

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// Extension units (Java: ConsumeQueueExt) hold what a 20-byte unit has no room for.
// The tag code of the queue's unit is then their address. Layout, big-endian:
//
//	0  size of the unit      2   20 + bytes of the bit map
//	2  tag code              8
//	10 store time            8
//	18 size of the bit map   2
//	20 bit map                   bit n is byte n/8, mask 1 << n%8: groups whose filter takes the message
//
// A unit does not span files. Where the next one and 4 bytes do not fit, the size
// -1 ends the file. The extension is weakly reliable: a message whose unit is missing
// passes every filter.
const (
	extHeadBytes = 20
	// extAddressLimit: a tag code at or below it is an address, not a hash.
	extAddressLimit = -2147483649
	// extMinAddress is the address of byte 0.
	extMinAddress = -1 << 63
	// MaxExtBytes is the largest unit.
	MaxExtBytes = 32767
	// What may wait in memory for the keeper, and what at most.
	extSoftBytes, extHardBytes = 64 << 10, 4 << 20
)

// ExtUnit is one extension unit.
type ExtUnit struct {
	Tags   int64
	Millis int64 // store time
	Bits   []byte
}

// IsExtAddress says that a tag code is the address of an extension unit.
func IsExtAddress(tags int64) bool { return tags <= extAddressLimit }

// Size is how many bytes u takes.
func (u *ExtUnit) Size() int { return extHeadBytes + len(u.Bits) }

// Append appends the encoded unit to b.
func (u *ExtUnit) Append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, uint16(u.Size()))
	b = be.AppendUint64(b, uint64(u.Tags))
	b = be.AppendUint64(b, uint64(u.Millis))
	b = be.AppendUint16(b, uint16(len(u.Bits)))
	return append(b, u.Bits...)
}

// DecodeExt reads the unit at the start of b, whose bit map it shares; false if
// there is none: zeros, the end of a file, or nonsense.
func DecodeExt(b []byte) (ExtUnit, bool) {
	if len(b) < extHeadBytes {
		return ExtUnit{}, false
	}
	be := binary.BigEndian
	size, bits := int(int16(be.Uint16(b))), int(int16(be.Uint16(b[18:])))
	if bits < 0 || size != extHeadBytes+bits || size > len(b) {
		return ExtUnit{}, false
	}
	return ExtUnit{
		Tags: int64(be.Uint64(b[2:])), Millis: int64(be.Uint64(b[10:])), Bits: b[extHeadBytes:size:size],
	}, true
}

// ext is the extension of one queue. Its fields are guarded by the queue's lock.
//
// Invariants: written <= end; buf holds the bytes [written, end).
type ext struct {
	sh       *Shared
	dir      string
	end      int64 // where the next unit goes
	written  int64
	buf      []byte
	files    int64 // position behind the last file
	fresh    bool  // a file was made since the last sync
	unsynced []int64
	lost     bool // end is to be found anew: the queue was cut
	adopt    bool // units behind end may be those of messages that get their unit again
}

// WithExt gives the queue an extension in dir. Every unit that is appended gets an
// extension unit if Shared.Ext says so; those that are there are read in any case.
func (q *Queue) WithExt(dir string) {
	q.ext = &ext{sh: q.sh, dir: dir, lost: true}
}

// OpenAt implements segfile.Opener.
func (x *ext) OpenAt(base int64) (vfs.File, error) {
	return x.sh.FS.OpenReadWrite(filepath.Join(x.dir, segfile.Name(base)))
}

// Tags is the tag code of a unit, through its extension if it has one; false if
// that is missing.
func (q *Queue) Tags(u Unit) (int64, bool) {
	if !IsExtAddress(u.Tags) {
		return u.Tags, true
	}
	if q.ext == nil {
		return 0, false
	}
	var b [extHeadBytes]byte
	if !q.readExt(b[:], u.Tags-extMinAddress) {
		return 0, false
	}
	size, bits := int(int16(binary.BigEndian.Uint16(b[:]))), int(int16(binary.BigEndian.Uint16(b[18:])))
	if bits < 0 || size != extHeadBytes+bits {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b[2:])), true
}

func (q *Queue) readExt(dst []byte, at int64) bool {
	x := q.ext
	q.mu.Lock()
	if at < 0 || x.sh.ExtFileBytes <= 0 || !x.lost && at+int64(len(dst)) > x.end {
		q.mu.Unlock()
		return false
	}
	if !x.lost && at >= x.written {
		copy(dst, x.buf[at-x.written:])
		q.mu.Unlock()
		return true
	}
	q.mu.Unlock()
	base := at / x.sh.ExtFileBytes * x.sh.ExtFileBytes
	if at-base+int64(len(dst)) > x.sh.ExtFileBytes {
		return false
	}
	h, err := x.sh.Files.Acquire(x, base)
	if err != nil {
		return false
	}
	n, _ := h.ReadAt(dst, at-base)
	x.sh.Files.Release(h)
	return n == len(dst)
}

// address gives u an extension unit and returns its address; the tag code itself if
// that is not possible. The caller holds mu.
func (q *Queue) address(u Unit) int64 {
	x := q.ext
	if x == nil || x.lost && x.locate(q) != nil {
		return u.Tags
	}
	if x.adopt {
		if addr, ok := x.adopted(u); ok {
			return addr
		}
		x.adopt = false
	}
	if !q.sh.Ext || len(x.buf) > extHardBytes && x.write() != nil {
		return u.Tags
	}
	unit := ExtUnit{Tags: u.Tags, Millis: u.Millis}
	size := int64(unit.Size())
	next := (x.end/x.sh.ExtFileBytes + 1) * x.sh.ExtFileBytes
	if size > next-x.end-4 {
		if size > x.sh.ExtFileBytes-4 {
			return u.Tags
		}
		gap := int(next - x.end)
		at := len(x.buf)
		x.buf = append(x.buf, make([]byte, gap)...)
		if gap >= 2 {
			x.buf[at], x.buf[at+1] = 0xFF, 0xFF
		}
		x.end = next
	}
	addr := x.end + extMinAddress
	x.buf = unit.Append(x.buf)
	x.end += size
	if len(x.buf) > extSoftBytes && q.sh.NeedsFile != nil {
		q.sh.NeedsFile()
	}
	return addr
}

// adopted is the address of the unit at the end if it is that of u already, perhaps
// with a bit map: a recovery that makes units again leaves it alone.
func (x *ext) adopted(u Unit) (addr int64, ok bool) {
	if len(x.buf) > 0 {
		return 0, false
	}
	at := x.end
	var head [extHeadBytes]byte
	for range 2 {
		base := at / x.sh.ExtFileBytes * x.sh.ExtFileBytes
		n := min(int64(len(head)), base+x.sh.ExtFileBytes-at)
		h, err := x.sh.Files.Acquire(x, base)
		if err != nil {
			return 0, false
		}
		got, _ := h.ReadAt(head[:n], at-base)
		x.sh.Files.Release(h)
		size := int64(-1)
		if got >= 2 {
			size = int64(int16(binary.BigEndian.Uint16(head[:])))
		}
		if size < 0 {
			at = base + x.sh.ExtFileBytes
			continue
		}
		whole := got == extHeadBytes && size == extHeadBytes+int64(int16(binary.BigEndian.Uint16(head[18:]))) &&
			at-base+size <= x.sh.ExtFileBytes
		if !whole || int64(binary.BigEndian.Uint64(head[2:])) != u.Tags || int64(binary.BigEndian.Uint64(head[10:])) != u.Millis {
			return 0, false
		}
		if err := x.rewrite(base, at-base, size); err != nil {
			return 0, false
		}
		x.end = at + size
		x.written = x.end
		x.mark(base) // whoever wrote it may have died before it was safe
		x.fresh = true
		return at + extMinAddress, true
	}
	return 0, false
}

// rewrite writes a unit over itself: a sync of it may have failed, and then no other writes
// it unless it is written again.
func (x *ext) rewrite(base, at, size int64) error {
	h, err := x.sh.Files.Acquire(x, base)
	if err != nil {
		return err
	}
	defer x.sh.Files.Release(h)
	unit := make([]byte, size)
	if _, err := h.ReadAt(unit, at); err != nil {
		return err
	}
	_, err = h.WriteAt(unit, at)
	return err
}

// locate finds the end: behind the unit of the queue's last unit that has one. The
// caller holds mu.
func (x *ext) locate(q *Queue) error {
	files, _, err := segfile.List(x.sh.FS, x.dir)
	if err != nil {
		return err
	}
	x.buf, x.end, x.files = nil, 0, 0
	for _, f := range files {
		if f.Size == x.sh.ExtFileBytes && f.Base%x.sh.ExtFileBytes == 0 {
			x.files = f.Base + f.Size
		}
	}
	if len(files) > 0 {
		x.end = files[0].Base
	}
	x.written = x.end
	for n := q.end - 1; n >= q.first; n-- {
		var raw [UnitBytes]byte
		if n >= q.written {
			copy(raw[:], q.ring[q.slot(n):])
		} else {
			at := n * q.unit
			base := at / q.sh.FileBytes * q.sh.FileBytes
			if err := q.readFile(raw[:], base, at-base); errors.Is(err, fs.ErrNotExist) {
				break
			} else if err != nil {
				return err
			}
		}
		u := Decode(raw[:])
		if !IsExtAddress(u.Tags) {
			continue
		}
		at := u.Tags - extMinAddress
		x.end = at + extHeadBytes
		var head [extHeadBytes]byte
		base := at / x.sh.ExtFileBytes * x.sh.ExtFileBytes
		if h, err := x.sh.Files.Acquire(x, base); err == nil {
			if got, _ := h.ReadAt(head[:], at-base); got == len(head) {
				if size := int64(int16(binary.BigEndian.Uint16(head[:]))); size >= extHeadBytes && at-base+size <= x.sh.ExtFileBytes {
					x.end = at + size
				}
			}
			x.sh.Files.Release(h)
		}
		break
	}
	x.written, x.lost, x.adopt = x.end, false, true
	// A file without a unit of a message was made by a process that may have died before
	// its name was safe.
	x.fresh = x.fresh || x.end <= x.files-x.sh.ExtFileBytes
	return nil
}

// needsFile says whether write has to make a file, for which it may wait for somebody who
// syncs one. The caller holds the queue's lock.
func (x *ext) needsFile() bool {
	return len(x.buf) > 0 && x.written+int64(len(x.buf)) > x.files
}

// write puts what is in memory into the files, making them as needed. The caller
// holds the queue's lock, and did before the queue's own units are written.
func (x *ext) write() error {
	for len(x.buf) > 0 {
		base := x.written / x.sh.ExtFileBytes * x.sh.ExtFileBytes
		n := min(int64(len(x.buf)), base+x.sh.ExtFileBytes-x.written)
		if base >= x.files {
			if err := x.make(base); err != nil {
				return err
			}
		}
		h, err := x.sh.Files.Acquire(x, base)
		if err != nil {
			return err
		}
		_, err = h.WriteAt(x.buf[:n], x.written-base)
		x.sh.Files.Release(h)
		if err != nil {
			return err
		}
		x.mark(base)
		x.written += n
		x.buf = x.buf[:copy(x.buf, x.buf[n:])]
	}
	if cap(x.buf) > extSoftBytes {
		x.buf = nil
	}
	return nil
}

func (x *ext) mark(base int64) {
	if k := len(x.unsynced); k == 0 || x.unsynced[k-1] != base {
		x.unsynced = append(x.unsynced, base)
	}
}

// make makes the file that starts at base: beside, then renamed, since Apache does
// not start with a short one.
func (x *ext) make(base int64) error {
	if err := x.sh.FS.MkdirAll(x.dir); err != nil {
		return err
	}
	x.sh.makeMu.Lock()
	defer x.sh.makeMu.Unlock()
	f, err := x.sh.FS.Create(x.sh.TempFile)
	if err != nil {
		return err
	}
	err = f.Truncate(x.sh.ExtFileBytes)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = x.sh.FS.Rename(x.sh.TempFile, filepath.Join(x.dir, segfile.Name(base)))
		x.sh.Files.Forget(x) // a handle may be open of a short one that a crash left there
	}
	if err != nil {
		return errors.Join(err, x.sh.FS.Remove(x.sh.TempFile))
	}
	x.files, x.fresh = base+x.sh.ExtFileBytes, true
	return nil
}

// settle makes the files end where the units do, after a recovery or a cut.
func (x *ext) settle(q *Queue) error {
	if x.lost {
		if err := x.locate(q); err != nil {
			return err
		}
	}
	x.adopt = false
	if err := x.write(); err != nil {
		return err
	}
	files, _, err := segfile.List(x.sh.FS, x.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Size < x.sh.ExtFileBytes {
			if err := x.extend(f.Base); err != nil {
				return err
			}
		}
		if f.Base <= x.end && x.end < f.Base+x.sh.ExtFileBytes {
			if err := x.zeroFrom(f.Base, x.end-f.Base); err != nil {
				return err
			}
		}
	}
	return nil
}

// extend gives a file that a power loss made short its length again.
func (x *ext) extend(base int64) error {
	h, err := x.sh.Files.Acquire(x, base)
	if err != nil {
		return err
	}
	defer x.sh.Files.Release(h)
	x.mark(base)
	x.files = max(x.files, base+x.sh.ExtFileBytes)
	return h.Truncate(x.sh.ExtFileBytes)
}

// zeroFrom zeroes what lies behind at in a file, up to the first stretch that is zero
// already.
func (x *ext) zeroFrom(base, at int64) error {
	h, err := x.sh.Files.Acquire(x, base)
	if err != nil {
		return err
	}
	defer x.sh.Files.Release(h)
	buf := make([]byte, min(1<<16, x.sh.ExtFileBytes-at))
	for at < x.sh.ExtFileBytes {
		n := min(int64(len(buf)), x.sh.ExtFileBytes-at)
		if _, err := h.ReadAt(buf[:n], at); err != nil {
			return err
		}
		if allZero(buf[:n]) {
			return nil
		}
		clear(buf)
		if _, err := h.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// taken is what a sync has to make safe.
func (x *ext) taken() (bases []int64, fresh bool) {
	bases, fresh = x.unsynced, x.fresh
	x.unsynced, x.fresh = nil, false
	return bases, fresh
}

// sync makes files safe. The caller does not hold the queue's lock.
func (x *ext) sync(bases []int64, fresh bool) error {
	for _, base := range bases {
		h, err := x.sh.Files.Acquire(x, base)
		if err != nil {
			return err
		}
		err = h.Datasync()
		x.sh.Files.Release(h)
		if err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	if !fresh {
		return nil
	}
	topic := filepath.Dir(x.dir)
	for _, dir := range []string{x.dir, topic, filepath.Dir(topic), filepath.Dir(filepath.Dir(topic))} {
		if err := x.sh.FS.SyncDir(dir); err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	return nil
}

// forget drops what is in memory; the files are somebody else's matter.
func (x *ext) forget() {
	x.sh.Files.Forget(x)
	x.buf, x.unsynced, x.fresh, x.lost = nil, nil, false, true
}

// DropExtBelow removes the extension files that no unit from the queue's first one on
// points into. One that is still to be written or synced stays until the next time.
func (q *Queue) DropExtBelow(first Unit) error {
	if q.ext == nil || !IsExtAddress(first.Tags) {
		return nil
	}
	x, below := q.ext, first.Tags-extMinAddress
	files, _, err := segfile.List(x.sh.FS, x.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		q.mu.Lock()
		due := slices.Contains(x.unsynced, f.Base) || len(x.buf) > 0 && x.written < f.Base+x.sh.ExtFileBytes
		q.mu.Unlock()
		if due || f.Base+x.sh.ExtFileBytes > below {
			return nil
		}
		x.sh.Files.Forget(x)
		if err := x.sh.FS.Remove(filepath.Join(x.dir, segfile.Name(f.Base))); err != nil {
			return err
		}
	}
	return nil
}
