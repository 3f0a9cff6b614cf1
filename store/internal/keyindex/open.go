package keyindex

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mqctl/store/vfs"
)

// Open opens the index in dir, which need not exist. A clean one costs the
// reading of a header per file. After an unclean stop the newest two files are
// checked: the first entry that is not as the ones before it imply, and
// everything behind it, is dropped, and so is the last record, which may lack
// keys; the caller dispatches again what lies behind EndPhys.
func Open(fsys vfs.FS, dir string, o Options) (*Index, error) {
	g, err := o.geometry()
	if err != nil {
		return nil, err
	}
	x := &Index{geometry: g, fs: fsys, dir: dir, now: o.Now, synced: o.SyncedMillis, beforeDrop: o.BeforeDrop}
	if x.now == nil {
		x.now = time.Now
	}
	if err := x.list(); err != nil {
		return nil, fmt.Errorf("key index %s: %w", dir, err)
	}
	if !o.Clean {
		x.doubt(o.SyncedMillis)
	}
	err = x.compare(o)
	if f := x.last(); err == nil && o.Clean && (f == nil || f.head.sane(g)) {
		return x, nil
	}
	if err == nil {
		err = x.repair(o.SyncedMillis)
	}
	if err != nil {
		x.mu.Lock()
		x.closed = true
		x.mu.Unlock()
		return nil, errors.Join(fmt.Errorf("repair key index %s: %w", dir, err), x.closeFiles())
	}
	return x, nil
}

// doubt has the next Sync cover the files that whoever wrote them may have left unsynced.
func (x *Index) doubt(syncedMillis int64) {
	for _, f := range x.files {
		f.unsynced = f.shown.endMillis > syncedMillis
	}
}

// taking is called before f loses something: it is not in synced then.
func (x *Index) taking(f *file) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !f.onDisk || f.shown.count <= 1 || f.shown.endMillis > x.synced {
		return nil
	}
	if x.beforeDrop != nil {
		if err := x.beforeDrop(); err != nil {
			return err
		}
	}
	x.synced = 0 // the next Sync finds it anew
	return nil
}

// takingAny is taking of a file of which nothing is known.
func (x *Index) takingAny() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.synced = 0
	if x.beforeDrop == nil {
		return nil
	}
	return x.beforeDrop()
}

func (o Options) geometry() (geometry, error) {
	slots, entries := cmp.Or(o.Slots, 5000000), cmp.Or(o.Entries, 20000000)
	if slots < 1 || slots > math.MaxInt32/2 || entries < 2 || entries > math.MaxInt32/2 {
		return geometry{}, fmt.Errorf("key index of %d slots and %d entries: slots must be 1 to 1073741823, entries 2 to 1073741823", slots, entries)
	}
	return geometry{int32(slots), int32(entries)}, nil
}

// list reads the headers of all files.
func (x *Index) list() error {
	entries, err := x.fs.ReadDir(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Dir || !isName(e.Name) {
			continue
		}
		f := &file{name: e.Name, path: filepath.Join(x.dir, e.Name), onDisk: true}
		if err := x.readHeader(f, e.Size); err != nil {
			return err
		}
		switch {
		case e.Size == x.fileBytes():
			x.files = append(x.files, f)
		case f.head.count <= 1:
			// Made, but not yet used, when the machine went down.
			if err := x.fs.Remove(f.path); err != nil {
				return err
			}
		default:
			x.notes = append(x.notes, fmt.Sprintf("%s has %d bytes instead of %d: made with another maxHashSlotNum or maxIndexNum, its keys are not found", f.path, e.Size, x.fileBytes()))
		}
	}
	return nil
}

func (x *Index) readHeader(f *file, size int64) error {
	f.head.count = 1
	if size >= headerBytes {
		var b [headerBytes]byte
		h, err := x.fs.Open(f.path)
		if err != nil {
			return err
		}
		err = readFull(h, b[:], 0)
		h.Close() // only read from
		if err != nil {
			return err
		}
		f.head.decode(b[:])
	}
	f.settle()
	return nil
}

// settle notes that everything of f is on disk.
func (f *file) settle() {
	f.setHead(f.head)
	f.shown = f.head
}

// Shown is how the files are on disk.
func (x *Index) Shown() []Note {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := []Note{}
	for _, f := range x.files {
		if f.onDisk {
			out = append(out, Note{f.name, f.shown.sum()})
		}
	}
	return out
}

func (h *header) sum() uint32 {
	var b [headerBytes]byte
	h.encode(b[:])
	return crc32.ChecksumIEEE(b[:])
}

// compare drops what is not as the clean stop left it.
func (x *Index) compare(o Options) error {
	if !o.Clean {
		return nil
	}
	for i, want := range o.Known {
		if i < len(x.files) && x.files[i].name == want.Name && x.files[i].shown.sum() == want.Head {
			continue
		}
		x.notes = slices.DeleteFunc(x.notes, func(n string) bool { return strings.HasPrefix(n, filepath.Join(x.dir, want.Name)+" ") })
		x.notes = append(x.notes, fmt.Sprintf("%s is not as the last stop left it", filepath.Join(x.dir, want.Name)))
		if i >= len(x.files) || x.files[i].name != want.Name { // gone, or of another size
			if err := x.takingAny(); err != nil {
				return err
			}
			if err := x.fs.Remove(filepath.Join(x.dir, want.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := x.drop(min(i, len(x.files))); err != nil {
			return err
		}
		// The last record that is left may have more keys in what was dropped.
		return x.Truncate(x.EndPhys())
	}
	return nil
}

// repair checks the files that an unclean stop can have damaged.
func (x *Index) repair(syncedMillis int64) error {
	from := max(len(x.files)-2, 0)
	for from < len(x.files)-1 && x.files[from].head.endMillis <= syncedMillis && x.files[from].head.sane(x.geometry) {
		from++
	}
	damaged := false
	for i := from; i < len(x.files); i++ {
		f := x.files[i]
		before := f.head.count
		if err := x.rebuild(f); err != nil {
			return err
		}
		if f.head.count == before && (f.head.count == x.entries || i == len(x.files)-1) {
			continue
		}
		x.notes = append(x.notes, fmt.Sprintf("%s had damaged entries: kept %d of %d", f.path, f.head.count-1, before-1))
		damaged = true
		// What was filed behind the damage has to be filed again.
		if err := x.drop(i + 1); err != nil {
			return err
		}
	}
	for f := x.last(); f != nil && f.head.count <= 1; f = x.last() {
		if err := x.drop(len(x.files) - 1); err != nil {
			return err
		}
	}
	if damaged {
		// The last entry may be the damaged one, with a position too high for
		// what follows: then the record before it is the one in doubt.
		if err := x.Truncate(x.EndPhys()); err != nil {
			return err
		}
	}
	return x.Truncate(x.EndPhys())
}

// drop removes the files from i on.
func (x *Index) drop(i int) error {
	x.mu.Lock()
	gone := x.files[i:]
	x.mu.Unlock()
	for _, f := range gone {
		if err := x.taking(f); err != nil {
			return err
		}
	}
	x.mu.Lock()
	x.files = x.files[:i:i]
	x.mu.Unlock()
	return x.removeAll(gone)
}

// Truncate drops the entries of records at or behind maxPhys, the end of the
// commit log: their place will be taken by other records. It must be called
// before the first Put.
func (x *Index) Truncate(maxPhys int64) error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	return x.truncate(maxPhys)
}

// Cut is Truncate for an index in use: queries may go on, but nothing may be
// put in meanwhile.
func (x *Index) Cut(maxPhys int64) error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	if err := x.flushAll(true); err != nil {
		return err
	}
	return x.truncate(maxPhys)
}

// Detach forgets all files, which somebody moves away. Nothing may be put in
// meanwhile.
func (x *Index) Detach() error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	err := x.flushAll(true)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files {
		f.dropped = true
		x.release(f, 0)
		if f.out != nil {
			f.out.Close() // moved away: synced or not, its content can be made again
			f.out = nil
		}
	}
	x.files, x.synced = nil, 0
	return err
}

func (x *Index) truncate(maxPhys int64) error {
	for {
		f := x.last()
		if f == nil || f.head.count > 1 && f.head.endPhys < maxPhys {
			return x.flushAll(true)
		}
		if f.head.count > 1 && f.head.beginPhys < maxPhys {
			if err := x.pop(f, maxPhys); err != nil {
				return err
			}
			continue
		}
		if err := x.drop(len(x.files) - 1); err != nil {
			return err
		}
	}
}

// pop takes the newest entries back, those of records at or behind maxPhys.
// The first entry stays.
func (x *Index) pop(f *file, maxPhys int64) error {
	if err := x.taking(f); err != nil {
		return err
	}
	x.mu.Lock()
	in, err := x.reader(f)
	if err == nil && f.slots == nil {
		err = x.loadSlots(f)
	}
	x.mu.Unlock()
	if err != nil {
		return err
	}
	if err := x.unlink(f, in, maxPhys); err != nil {
		return err
	}
	return x.zeroTail(f, in)
}

// unlink takes the entries out of their slots. Queries wait meanwhile.
func (x *Index) unlink(f *file, in vfs.File, maxPhys int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := f.head
	const chunk = 3200 // entries read at once, from the end on
	var b [chunk * entryBytes]byte
	from := h.count // the first entry in b
	for h.count > 1 {
		var e entry
		if h.count == from {
			from = max(1, h.count-chunk)
			if err := readFull(in, b[:int(h.count-from)*entryBytes], x.entryAt(from)); err != nil {
				return err
			}
		}
		if e.decode(b[int(h.count-1-from)*entryBytes:]); e.phys < maxPhys {
			h.end(e)
			break
		}
		h.count--
		slot := max(e.hash, 0) % x.slots
		f.slots[slot] = min(e.prev, h.count-1)
		f.markSlot(slot)
		if f.slots[slot] <= 0 {
			h.usedSlots--
		}
	}
	f.setHead(h)
	return nil
}

// end makes e the last entry: the exact store time is not in it.
func (h *header) end(e entry) {
	h.endPhys, h.endMillis = e.phys, h.beginMillis
	if h.count > 2 { // the seconds of the first entry count from elsewhere
		h.endMillis += 1000 * int64(e.seconds)
	}
}

// setHead changes the header of a file whose entries are all on disk.
func (f *file) setHead(h header) {
	f.head, f.written = h, h
	f.flushBase, f.bufBase, f.linked = h.count, h.count, h.count
}

// rebuild reads the entries of f, keeps the good ones and makes header and
// slots of them. The slots stay in memory.
func (x *Index) rebuild(f *file) error {
	x.mu.Lock()
	in, err := x.reader(f)
	x.mu.Unlock()
	if err != nil {
		return err
	}
	had := f.head
	f.takeSlots(x.slots)
	h := header{beginMillis: had.beginMillis, beginPhys: had.beginPhys, count: 1}
	var last entry
	err = x.eachEntry(in, 1, min(had.count, x.entries), func(e entry) bool {
		if e.hash < 0 || e.seconds < 0 || e.phys < last.phys || h.count == 1 && e.phys != had.beginPhys ||
			e.prev != f.slots[e.hash%x.slots] {
			return false
		}
		if e.prev == 0 {
			h.usedSlots++
		}
		f.slots[e.hash%x.slots] = h.count
		h.count++
		last = e
		return true
	})
	if err != nil {
		return err
	}
	h.end(last)
	if h.count == had.count {
		switch d := had.endMillis - h.endMillis; {
		case had.endPhys != h.endPhys || d > 999 || d < 0 && had.endMillis >= had.beginMillis:
			// The header contradicts the entries (a clock that went back may):
			// the times of all entries hang on it.
			h.count, h.usedSlots = 1, 0
			f.takeSlots(x.slots)
		default:
			h.endMillis = had.endMillis
		}
	}
	if h.count != had.count {
		if err := x.taking(f); err != nil {
			return err
		}
	}
	f.setHead(h)
	if err := x.compareSlots(f, in); err != nil {
		return err
	}
	if h.count == had.count {
		return nil
	}
	return x.zeroTail(f, in)
}

// eachEntry reads entries until do is false.
func (x *Index) eachEntry(in vfs.File, from, to int32, do func(e entry) bool) error {
	const chunk = 13107 // about 256 KiB
	b := make([]byte, max(0, min(chunk, int(to-from)))*entryBytes)
	for n := from; n < to; n += chunk {
		part := b[:min(int(to-n), chunk)*entryBytes]
		if err := readFull(in, part, x.entryAt(n)); err != nil {
			return err
		}
		for ; len(part) > 0; part = part[entryBytes:] {
			var e entry
			e.decode(part)
			if !do(e) {
				return nil
			}
		}
	}
	return nil
}

// compareSlots marks the pages of slots that are different on disk.
func (x *Index) compareSlots(f *file, in vfs.File) error {
	return x.eachSlotChunk(in, func(first int32, b []byte) {
		for i := range len(b) / slotBytes {
			if f.slots[int(first)+i] != int32(binary.BigEndian.Uint32(b[i*slotBytes:])) {
				f.markSlot(first + int32(i))
			}
		}
	})
}

// zeroTail takes back the entries behind the end, up to the first 64 KiB that
// are zero already: entries are written in order.
func (x *Index) zeroTail(f *file, in vfs.File) error {
	out, err := x.writer(f)
	if err != nil {
		return err
	}
	f.unsynced = true
	b := make([]byte, max(0, min(64<<10, x.fileBytes()-x.entryAt(f.head.count))))
	for at, end := x.entryAt(f.head.count), x.fileBytes(); at < end; at += int64(len(b)) {
		b = b[:min(int64(len(b)), end-at)]
		if err := readFull(in, b, at); err != nil {
			return err
		}
		clean := true
		for _, c := range b {
			clean = clean && c == 0
		}
		if clean {
			return nil
		}
		clear(b)
		if _, err := out.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}
