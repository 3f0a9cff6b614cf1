package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// Options of an Index. Zero values mean the documented default.
type Options struct {
	Slots   int              // maxHashSlotNum, 5000000
	Entries int              // maxIndexNum, 20000000; a file holds one less
	Now     func() time.Time // for file names
	// Clean says that the files were closed by Close. Otherwise the newest are
	// checked entry by entry.
	Clean bool
	// SyncedMillis is the checkpoint's indexMsgTimestamp: full files that end
	// at or before it need no check.
	SyncedMillis int64
	// Known is how a clean stop left the files; nil if that was not noted. The first that
	// is not so, and what is filed behind it, is dropped: see EndPhys.
	Known []Note
	// BeforeDrop, if not nil, is called before a file that SyncedMillis covers loses entries, or is removed for
	// another reason than the age of its messages; an error keeps it.
	BeforeDrop func() error
}

// Note says how a file was left: its name and the checksum of its header.
type Note struct {
	Name string
	Head uint32 // CRC-32/IEEE
}

// Index is the key index of a store.
type Index struct {
	geometry
	fs  vfs.FS
	dir string
	now func() time.Time

	// syncing is held by the one who syncs, closes or removes files. It comes before io.
	syncing sync.Mutex
	// io is held by the one who writes files. It comes before mu.
	io       sync.Mutex
	scratch  []byte    // encoded slots; guarded by io
	slotsDue time.Time // when slots are written however many they are

	mu    sync.Mutex // guards everything below and in the files; never held during writes
	files []*file    // by name; the last one takes new entries
	spare []byte     // buffer that was written
	// touched keeps the compiler from dropping reads that fetch memory early.
	touched int32
	synced  int64 // endTimestamp of the newest full file that is synced
	notes   []string
	closed  bool

	beforeDrop func() error
}

const (
	softBuffer   = 256 << 10 // bytes of entries, then Put writes them
	hardBuffer   = 16 << 20  // bytes of entries, then Put fails
	linkBatch    = 128
	quickPages   = 256 // a flush writes up to this many pages of slots at once
	slotInterval = 10 * time.Second
)

// ErrClosed says that the index was closed.
var ErrClosed = errors.New("key index is closed")

// KeyHash is the hash under which the key of a topic is filed:
// abs(hashCode(topic + "#" + key)), 0 for the one value without a positive
// counterpart (IndexFile.indexKeyHashMethod).
func KeyHash[T, K ~string | ~[]byte](topic T, key K) int32 {
	h := record.ExtendHash(record.JavaHash(topic), "#")
	h = record.ExtendHash(h, key)
	if h < 0 {
		h = -h
	}
	return max(h, 0)
}

// Put files a key of the record at phys, stored at storeMillis. Records must
// come in the order of the log. It waits for the disk only for the slots of a
// file that was there before the start, once, and when it has fallen 16 MiB
// behind; it fails only then: the entry is not in the index.
func (x *Index) Put(hash int32, phys, storeMillis int64) error {
	x.mu.Lock()
	f := x.current()
	for f.slots == nil || len(f.buf) >= hardBuffer || x.closed {
		x.mu.Unlock()
		if err := x.makeRoom(f); err != nil {
			return err
		}
		x.mu.Lock()
		f = x.current()
	}
	h := &f.head
	e := entry{hash: hash, phys: phys}
	if d := (storeMillis - h.beginMillis) / 1000; h.beginMillis > 0 && d > 0 {
		e.seconds = int32(min(d, math.MaxInt32))
	}
	f.buf = e.append(f.buf)
	if h.count <= 1 {
		h.beginPhys, h.beginMillis = phys, storeMillis
	}
	h.count++
	h.endPhys, h.endMillis = phys, storeMillis
	if h.count-f.linked >= linkBatch {
		x.link(f)
	}
	spill := f.onDisk && len(f.buf) >= softBuffer
	x.mu.Unlock()
	if spill && x.io.TryLock() {
		// If somebody else holds io, the next Put or Flush will do. An error is
		// heard by the next Flush; the entries stay in memory meanwhile.
		_ = x.writeEntries(f)
		x.io.Unlock()
	}
	return nil
}

// link makes the newest entries the heads of their slots. The caller holds mu.
//
// A slot is a random place in 20 MB, so each costs a wait for memory; in a
// batch the waits overlap, which makes a Put several times cheaper.
func (x *Index) link(f *file) {
	be := binary.BigEndian
	var slots [linkBatch]int32
	for f.linked < f.head.count {
		n := int(min(f.head.count-f.linked, linkBatch))
		b := f.buf[int(f.linked-f.bufBase)*entryBytes:]
		for i := range n {
			slots[i] = int32(be.Uint32(b[i*entryBytes:])) % x.slots
			x.touched += f.slots[slots[i]]
		}
		for i := range n {
			slot, number := slots[i], f.linked+int32(i)
			prev := f.slots[slot]
			if prev <= 0 || prev > number {
				prev = 0
				f.head.usedSlots++
			}
			be.PutUint32(b[i*entryBytes+16:], uint32(prev))
			f.slots[slot] = number
			f.markSlot(slot)
		}
		f.linked += int32(n)
	}
}

// current is the file that takes the next entry. The caller holds mu.
func (x *Index) current() *file {
	if f := x.last(); f != nil && f.head.count < x.entries {
		return f
	}
	return x.roll()
}

func (x *Index) last() *file {
	if len(x.files) == 0 {
		return nil
	}
	return x.files[len(x.files)-1]
}

// roll starts a new file, in memory only: the next flush makes it. As
// IndexService does, it begins with the end of the one before, so that the
// time of its first entry counts from there.
func (x *Index) roll() *file {
	f := &file{head: header{count: 1}}
	name := x.now().Local().Format(nameLayout)
	f.name = strings.Replace(name, ".", "", 1)
	if p := x.last(); p != nil {
		f.head.beginMillis, f.head.endMillis = p.head.endMillis, p.head.endMillis
		f.head.beginPhys, f.head.endPhys = p.head.endPhys, p.head.endPhys
		if f.name <= p.name {
			f.name = nextName(p.name)
		}
	}
	f.settle()
	f.buf = x.buffer()
	x.spare = nil
	f.path = filepath.Join(x.dir, f.name)
	x.files = append(x.files, f)
	return f
}

// nameLayout is a file name but for the point.
const nameLayout = "20060102150405.000"

// nextName is the name one millisecond later; names must increase even when
// the local clock goes back.
func nextName(name string) string {
	t, err := time.ParseInLocation(nameLayout, name[:14]+"."+name[14:], time.Local)
	if err == nil {
		next := strings.Replace(t.Add(time.Millisecond).Format(nameLayout), ".", "", 1)
		if next > name {
			return next
		}
	}
	n, _ := strconv.ParseInt(name, 10, 64) // isName has seen to it
	return fmt.Sprintf("%017d", n+1)
}

func isName(name string) bool {
	if len(name) != 17 {
		return false
	}
	for _, c := range name {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// makeRoom makes f ready for an entry: the slots in memory, room in the buffer.
func (x *Index) makeRoom(f *file) error {
	x.io.Lock()
	defer x.io.Unlock()
	x.mu.Lock()
	closed, full := x.closed, len(f.buf) >= hardBuffer
	var err error
	if !closed && f.slots == nil {
		err = x.loadSlots(f)
	}
	x.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if err == nil && full {
		err = x.writeEntries(f)
	}
	if err != nil {
		return fmt.Errorf("key index %s: %w", f.path, err)
	}
	return nil
}

// EndPhys is the physical offset of the last record in the index, -1 if there
// is none: the keys of all records up to it are there, those of the records
// behind it have to be dispatched.
func (x *Index) EndPhys() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.last(); f != nil && f.head.count > 1 {
		return f.head.endPhys
	}
	return -1
}

// LastUpdate is the store time and the physical offset of the last record in
// the index, 0 and 0 if there is none, as answers to key queries report them.
func (x *Index) LastUpdate() (millis, phys int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.last(); f != nil {
		return f.head.endMillis, f.head.endPhys
	}
	return 0, 0
}

// SyncedMillis is the store time of the last entry of the newest full file
// that is safe on disk, for the checkpoint's indexMsgTimestamp: after a crash
// Apache's broker deletes the files that end later.
func (x *Index) SyncedMillis() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.synced
}

// Notes says what Open found that an operator should know, one sentence each.
func (x *Index) Notes() []string { return x.notes }

// DropBelow removes the files whose last record lies below minPhys, the start
// of the commit log. The newest file stays.
func (x *Index) DropBelow(minPhys int64) error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	x.mu.Lock()
	n := 0
	for n < len(x.files)-1 && x.files[n].head.endPhys < minPhys && !x.files[n].pending() {
		n++
	}
	gone := append([]*file(nil), x.files[:n]...)
	x.files = append([]*file(nil), x.files[n:]...)
	x.mu.Unlock()
	return x.removeAll(gone)
}

// removeAll deletes files that are no longer in x.files. The caller holds io.
func (x *Index) removeAll(gone []*file) error {
	if len(gone) == 0 {
		return nil
	}
	for _, f := range gone {
		x.mu.Lock()
		f.dropped = true
		x.release(f, 0)
		onDisk := f.onDisk
		x.mu.Unlock()
		if !onDisk {
			continue
		}
		if f.out != nil {
			f.out.Close() // its content is not wanted any more
			f.out = nil
		}
		if err := x.fs.Remove(f.path); err != nil {
			return err
		}
	}
	return x.fs.SyncDir(x.dir)
}

// release gives back n references. The caller holds mu.
func (x *Index) release(f *file, n int) {
	f.refs -= n
	if f.refs == 0 && f.dropped && f.in != nil {
		f.in.Close() // only read from
		f.in = nil
	}
}
