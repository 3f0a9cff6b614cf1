package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"mqctl/store/vfs"
)

// Flush writes what is in memory to the files, so that the death of the
// process loses nothing: entries first, then slots, then headers. It does not
// sync. Slots that changed all over a busy index are written every ten
// seconds; until then they are only in memory, and rebuilt after a crash.
func (x *Index) Flush() error {
	x.io.Lock()
	defer x.io.Unlock()
	return x.flushAll(false)
}

// Sync flushes everything and makes it safe from a power loss.
func (x *Index) Sync() error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	return x.syncAll()
}

// syncAll is Sync. The caller holds syncing and io; io is let go of while the disk works, so
// that others can write meanwhile.
func (x *Index) syncAll() error {
	if err := x.flushAll(true); err != nil {
		return err
	}
	x.mu.Lock()
	files := slices.Clone(x.files)
	x.mu.Unlock()
	for _, f := range files {
		if err := x.syncFile(f); err != nil {
			return fmt.Errorf("key index %s: %w", f.path, err)
		}
	}
	return nil
}

func (x *Index) syncFile(f *file) error {
	x.mu.Lock()
	full, end := f.shown.count >= x.entries, f.shown.endMillis
	x.mu.Unlock()
	if f.unsynced {
		out, err := x.writer(f) // nobody closes it but under syncing
		if err != nil {
			return err
		}
		f.unsynced = false
		x.io.Unlock()
		err = out.Datasync()
		x.io.Lock()
		if err != nil {
			f.unsynced = true
			return &vfs.SyncError{Err: err}
		}
	}
	if !full {
		return nil
	}
	x.mu.Lock()
	x.synced = max(x.synced, end)
	x.mu.Unlock()
	if f.out != nil && !f.unsynced {
		err := f.out.Close()
		f.out = nil
		return err
	}
	return nil
}

// Close syncs everything and closes the files. Later calls of Put fail.
func (x *Index) Close() error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.io.Lock()
	defer x.io.Unlock()
	x.mu.Lock()
	done := x.closed
	x.closed = true
	x.mu.Unlock()
	if done {
		return nil
	}
	return errors.Join(x.syncAll(), x.closeFiles())
}

func (x *Index) closeFiles() error {
	var err error
	for _, f := range x.files {
		if f.out != nil {
			err = errors.Join(err, f.out.Close())
			f.out = nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files {
		f.dropped = true
		f.slots, f.dirty = nil, nil
		x.release(f, 0)
	}
	return err
}

// flushAll writes all files in order. The caller holds io.
func (x *Index) flushAll(all bool) error {
	if now := x.now(); now.After(x.slotsDue) {
		x.slotsDue = now.Add(slotInterval)
		all = true
	}
	x.mu.Lock()
	files := slices.Clone(x.files)
	x.mu.Unlock()
	var errs []error
	for i, f := range files {
		old := i < len(files)-1
		if err := x.flushFile(f, all || old); err != nil {
			// Entries must not be on disk before those of an older file.
			errs = append(errs, fmt.Errorf("key index %s: %w", f.path, err))
			break
		}
		if old {
			x.mu.Lock()
			f.slots, f.dirty = nil, nil // full: never needed in memory again
			x.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// flushFile writes one file: entries, slots, header. The caller holds io.
func (x *Index) flushFile(f *file, allSlots bool) error {
	x.mu.Lock()
	pending := f.pending()
	x.mu.Unlock()
	if !pending {
		return nil
	}
	if err := x.writeEntries(f); err != nil {
		return err
	}
	x.mu.Lock()
	head, stale := f.written, f.written != f.shown
	few := f.dirtyPages <= quickPages
	x.mu.Unlock()
	if allSlots || few {
		// They may name entries that are newer than the header: a reader takes
		// such a slot for an empty one, and the next flush brings the entries.
		if err := x.writeSlots(f); err != nil {
			return err
		}
	}
	if !stale {
		return nil
	}
	out, err := x.writer(f)
	if err != nil {
		return err
	}
	var b [headerBytes]byte
	head.encode(b[:])
	f.unsynced = true
	if _, err := out.WriteAt(b[:], 0); err != nil {
		return err
	}
	x.mu.Lock()
	f.shown = head
	x.mu.Unlock()
	return nil
}

// writeEntries writes the entries in memory, first those that an earlier
// attempt left. The caller holds io.
func (x *Index) writeEntries(f *file) error {
	for again := true; again; {
		x.mu.Lock()
		again = f.flushing != nil
		if !again {
			x.link(f)
			if len(f.buf) == 0 {
				f.written = f.head
				x.mu.Unlock()
				return nil
			}
			f.flushing, f.flushBase, f.flushHead = f.buf, f.bufBase, f.head
			f.buf, f.bufBase, x.spare = x.buffer(), f.head.count, nil
		}
		b, base := f.flushing, f.flushBase
		x.mu.Unlock()
		out, err := x.writer(f)
		if err != nil {
			return err
		}
		f.unsynced = true
		if _, err := out.WriteAt(b, x.entryAt(base)); err != nil {
			return err
		}
		x.mu.Lock()
		f.written, f.flushing = f.flushHead, nil
		if cap(b) <= 4*softBuffer {
			x.spare = b[:0]
		}
		x.mu.Unlock()
	}
	return nil
}

// buffer returns an empty buffer for entries. The caller holds mu.
func (x *Index) buffer() []byte {
	if x.spare != nil {
		return x.spare[:0]
	}
	return make([]byte, 0, min(softBuffer, int(x.entries)*entryBytes)+1<<10)
}

// writeSlots writes the pages of slots that changed, neighbours together. The
// caller holds io.
func (x *Index) writeSlots(f *file) error {
	const most = 64 // pages in one write
	for page := 0; ; {
		x.mu.Lock()
		first, n := f.nextDirty(page, most)
		if n == 0 {
			x.mu.Unlock()
			return nil
		}
		part := f.slots[first*pageSlots : min((first+n)*pageSlots, len(f.slots))]
		x.scratch = x.scratch[:0]
		for _, s := range part {
			x.scratch = binary.BigEndian.AppendUint32(x.scratch, uint32(s))
		}
		for p := first; p < first+n; p++ {
			f.dirty[p/64] &^= 1 << (p % 64)
		}
		f.dirtyPages -= n
		x.mu.Unlock()
		out, err := x.writer(f)
		if err == nil {
			f.unsynced = true
			_, err = out.WriteAt(x.scratch, headerBytes+slotBytes*pageSlots*int64(first))
		}
		if err != nil {
			x.mu.Lock()
			for p := first; p < first+n; p++ {
				f.markSlot(int32(p * pageSlots))
			}
			x.mu.Unlock()
			return err
		}
		page = first + n
	}
}

// nextDirty finds the next run of changed pages, from page on. The caller
// holds mu.
func (f *file) nextDirty(page, most int) (first, n int) {
	if f.dirtyPages == 0 {
		return 0, 0
	}
	end := len(f.dirty) * 64
	for page < end && f.dirty[page/64]>>(page%64) == 0 {
		page = (page/64 + 1) * 64
	}
	if page >= end {
		return 0, 0
	}
	first = page + bits.TrailingZeros64(f.dirty[page/64]>>(page%64))
	for n < most && first+n < end && f.dirty[(first+n)/64]>>((first+n)%64)&1 == 1 {
		n++
	}
	return first, n
}
