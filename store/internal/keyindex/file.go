package keyindex

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"

	"mqctl/store/vfs"
)

const (
	headerBytes = 40
	slotBytes   = 4
	entryBytes  = 20
	pageSlots   = 1024 // slots that are written together
)

// header is the first 40 bytes of a file.
type header struct {
	beginMillis, endMillis int64
	beginPhys, endPhys     int64
	usedSlots              int32
	count                  int32 // next entry number, >= 1
}

func (h *header) encode(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(h.beginMillis))
	be.PutUint64(b[8:], uint64(h.endMillis))
	be.PutUint64(b[16:], uint64(h.beginPhys))
	be.PutUint64(b[24:], uint64(h.endPhys))
	be.PutUint32(b[32:], uint32(h.usedSlots))
	be.PutUint32(b[36:], uint32(h.count))
}

func (h *header) decode(b []byte) {
	be := binary.BigEndian
	h.beginMillis = int64(be.Uint64(b))
	h.endMillis = int64(be.Uint64(b[8:]))
	h.beginPhys = int64(be.Uint64(b[16:]))
	h.endPhys = int64(be.Uint64(b[24:]))
	h.usedSlots = int32(be.Uint32(b[32:]))
	// As IndexHeader.load: a count that makes no sense means no entries.
	h.count = max(int32(be.Uint32(b[36:])), 1)
}

// sane reports whether a header can be true of a file of this geometry.
func (h *header) sane(g geometry) bool {
	return h.count > 1 && h.count <= g.entries && h.usedSlots >= 0 && h.usedSlots <= min(g.slots, h.count-1) &&
		h.beginMillis <= h.endMillis && h.beginPhys >= 0 && h.beginPhys <= h.endPhys
}

// geometry is what a file does not say of itself.
type geometry struct{ slots, entries int32 }

func (g geometry) fileBytes() int64 { return g.entryAt(g.entries) }

func (g geometry) entryAt(n int32) int64 {
	return headerBytes + slotBytes*int64(g.slots) + entryBytes*int64(n)
}

// entry is one key of one record.
type entry struct {
	hash    int32
	phys    int64
	seconds int32 // since the beginTimestamp of the file
	prev    int32 // previous entry of the same slot, 0 = none
}

func (e *entry) decode(b []byte) {
	be := binary.BigEndian
	e.hash = int32(be.Uint32(b))
	e.phys = int64(be.Uint64(b[4:]))
	e.seconds = int32(be.Uint32(b[12:]))
	e.prev = int32(be.Uint32(b[16:]))
}

func (e *entry) append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(e.hash))
	b = be.AppendUint64(b, uint64(e.phys))
	b = be.AppendUint32(b, uint32(e.seconds))
	return be.AppendUint32(b, uint32(e.prev))
}

// file is one index file. Its fields are guarded by Index.mu, but for out,
// which is guarded by Index.io. Entries that are on disk and the bytes of
// flushing never change, so they are read and written without a lock.
type file struct {
	name   string // base name
	path   string
	onDisk bool // the file exists, at full length

	// The header as of all entries, of the entries in flushing, of the entries
	// on disk, and as it is on disk:
	// shown.count <= written.count <= flushHead.count <= head.count.
	head, flushHead, written, shown header

	slots      []int32  // nil: on disk only
	dirty      []uint64 // one bit per page of slots
	dirtyPages int

	// Entries in memory: flushing has those from flushBase on, which are being
	// written, buf those from bufBase on; flushBase <= bufBase <= head.count.
	flushing  []byte
	flushBase int32
	buf       []byte
	bufBase   int32
	// Entries from linked on, all in buf, are not in their slots yet and do
	// not know their previous entry; usedSlots does not count them.
	linked int32

	out      vfs.File // for writing; nil: not open
	unsynced bool     // written to since the last sync

	in      vfs.File // for queries; nil: not open
	refs    int      // queries that use in
	dropped bool     // close in with the last reference
}

// pending reports whether there is anything to write.
func (f *file) pending() bool { return f.head != f.shown || f.dirtyPages > 0 }

// at returns entry n if it is in memory.
func (f *file) at(n int32) (e entry, ok bool) {
	switch {
	case n >= f.bufBase && int(n-f.bufBase)*entryBytes < len(f.buf):
		e.decode(f.buf[int(n-f.bufBase)*entryBytes:])
		return e, true
	case n >= f.flushBase && f.flushing != nil:
		e.decode(f.flushing[int(n-f.flushBase)*entryBytes:])
		return e, true
	}
	return e, false
}

func (f *file) markSlot(slot int32) {
	word, bit := slot/pageSlots/64, uint64(1)<<(slot/pageSlots%64)
	if f.dirty[word]&bit == 0 {
		f.dirty[word] |= bit
		f.dirtyPages++
	}
}

// takeSlots gives f an empty slot table.
func (f *file) takeSlots(slots int32) {
	f.slots = make([]int32, slots)
	pages := (int(slots) + pageSlots - 1) / pageSlots
	f.dirty = make([]uint64, (pages+63)/64)
	f.dirtyPages = 0
}

// reader returns the handle for reading. The caller holds mu.
func (x *Index) reader(f *file) (vfs.File, error) {
	if f.in == nil {
		h, err := x.fs.Open(f.path)
		if err != nil {
			return nil, err
		}
		f.in = h
	}
	return f.in, nil
}

// writer returns the handle for writing, making the file if need be. The
// caller holds io.
func (x *Index) writer(f *file) (vfs.File, error) {
	if f.out != nil {
		return f.out, nil
	}
	if !f.onDisk {
		err := x.create(f)
		return f.out, err
	}
	h, err := x.fs.OpenReadWrite(f.path)
	if err != nil {
		return nil, err
	}
	f.out = h
	return h, nil
}

// readFull is ReadAt that takes a short file for an error.
func readFull(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// loadSlots reads the slot table into memory. The caller holds mu.
func (x *Index) loadSlots(f *file) error {
	f.takeSlots(x.slots)
	if !f.onDisk {
		return nil
	}
	h, err := x.reader(f)
	if err == nil {
		err = x.eachSlotChunk(h, func(first int32, b []byte) {
			for i := range len(b) / slotBytes {
				f.slots[int(first)+i] = int32(binary.BigEndian.Uint32(b[i*slotBytes:]))
			}
		})
	}
	if err != nil {
		f.slots, f.dirty = nil, nil
	}
	return err
}

// eachSlotChunk reads the slot table of a file in pieces.
func (x *Index) eachSlotChunk(h vfs.File, do func(first int32, b []byte)) error {
	b := make([]byte, min(64*pageSlots, int(x.slots))*slotBytes)
	for first := int32(0); first < x.slots; first += 64 * pageSlots {
		part := b[:min(int(x.slots-first)*slotBytes, len(b))]
		if err := readFull(h, part, headerBytes+slotBytes*int64(first)); err != nil {
			return err
		}
		do(first, part)
	}
	return nil
}

// create makes the file at its full length, sparse, and its name durable. Its
// header comes later, so that a crash leaves either nothing or an empty file.
func (x *Index) create(f *file) error {
	if err := vfs.MkdirAllSync(x.fs, filepath.Dir(f.path)); err != nil {
		return err
	}
	h, err := x.fs.Create(f.path)
	if err != nil {
		return err
	}
	if err = h.Truncate(x.fileBytes()); err == nil {
		err = h.Sync()
	}
	if err == nil {
		err = x.fs.SyncDir(filepath.Dir(f.path))
	}
	if err != nil {
		h.Close()
		_ = x.fs.Remove(f.path) // an empty file is removed at the next start too
		return err
	}
	f.out = h
	x.mu.Lock()
	f.onDisk = true
	x.mu.Unlock()
	return nil
}
