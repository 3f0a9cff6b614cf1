package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"mqctl/store"
	"mqctl/store/internal/segfile"
)

// RocketMQ's timer: a wheel of slots, each with the newest of a chain of
// entries in the timer log. mqctl keeps the files and does not change them.
const (
	timerSlotBytes  = 32
	timerSlots      = 7 * 86400 * 2
	timerEntryBytes = 52
	timerBlankMagic = 0xCBD43194 - 1<<32
	timerLogBytes   = 104857600
)

// TimerSlot is one used slot of the wheel.
type TimerSlot struct {
	Number      int64
	Time        int64 // in steps of the wheel, by default seconds since 1970
	First, Last int64 // positions in the timer log
	Count       int32
}

// Offset is where the slot lies in the file.
func (t TimerSlot) Offset() int64 { return t.Number * timerSlotBytes }

// TimerEntry is one message that waits.
type TimerEntry struct {
	Pos         int64
	Prev        int64 // the entry before in the same slot, -1 for none
	Magic       int32 // 1, with 2 for one that goes another round and 4 for a deletion
	WriteMillis int64
	DelayMillis int32
	Phys        int64
	Size        int32
	Hash        int32 // of its real topic
}

// EachTimerSlot reads the used slots of timerwheel. The second result is the length of
// the file, -1 if there is none.
func (s *Store) EachTimerSlot(do func(TimerSlot) (bool, error)) (int64, error) {
	f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, "timerwheel"))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	defer f.Close() // only read from
	size, err := f.Size()
	if err != nil {
		return -1, err
	}
	buf := make([]byte, 32768*timerSlotBytes)
	be := binary.BigEndian
	for at := int64(0); at+timerSlotBytes <= size; at += int64(len(buf)) {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return size, err
		}
		for i := 0; i+timerSlotBytes <= n; i += timerSlotBytes {
			b := buf[i:]
			if t := int64(be.Uint64(b)); t != 0 {
				more, err := do(TimerSlot{
					Number: (at + int64(i)) / timerSlotBytes, Time: t, First: int64(be.Uint64(b[8:])), Last: int64(be.Uint64(b[16:])), Count: int32(be.Uint32(b[24:])),
				})
				if err != nil || !more {
					return size, err
				}
			}
		}
	}
	return size, nil
}

// EachTimerEntry reads the timer log. The result is the position where it ends, -1 if
// there is none.
func (s *Store) EachTimerEntry(do func(TimerEntry) (bool, error)) (int64, error) {
	dir := filepath.Join(s.opt.Dir, "timerlog")
	files, _, err := segfile.List(s.opt.FS, dir)
	if err != nil || len(files) == 0 {
		return -1, err
	}
	for _, file := range files {
		end, more, err := s.timerFile(filepath.Join(dir, segfile.Name(file.Base)), file, do)
		if err != nil || !more {
			return end, err
		}
	}
	last := files[len(files)-1]
	return last.Base + last.Size, nil
}

// timerFile reads one file; more is false where the log ends in it.
func (s *Store) timerFile(name string, file segfile.Found, do func(TimerEntry) (bool, error)) (end int64, more bool, err error) {
	f, err := s.opt.FS.Open(name)
	if err != nil {
		return 0, false, err
	}
	defer f.Close() // only read from
	be := binary.BigEndian
	buf := make([]byte, min(max(file.Size, 1), 20000*timerEntryBytes))
	for at := int64(0); at+timerEntryBytes <= file.Size; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), file.Size-at)], at)
		if n < timerEntryBytes {
			return file.Base + at, false, err
		}
		for i := 0; i+timerEntryBytes <= n; i += timerEntryBytes {
			b, pos := buf[i:], file.Base+at
			e := TimerEntry{
				Pos: pos, Prev: int64(be.Uint64(b[4:])), Magic: int32(be.Uint32(b[12:])), WriteMillis: int64(be.Uint64(b[16:])),
				DelayMillis: int32(be.Uint32(b[24:])), Phys: int64(be.Uint64(b[28:])), Size: int32(be.Uint32(b[36:])), Hash: int32(be.Uint32(b[40:])),
			}
			switch size := int32(be.Uint32(b)); {
			case e.Magic == timerBlankMagic:
				return file.Base + file.Size, true, nil
			case size != timerEntryBytes:
				return pos, false, nil
			}
			if more, err := do(e); err != nil || !more {
				return pos, false, err
			}
			at += timerEntryBytes
		}
	}
	return file.Base + file.Size, true, nil
}

// timers checks that slots lead to entries of the timer log, and these to messages.
func (v *verifier) timers() error {
	var bad, lost tally
	entries := map[int64]bool{}
	end, err := v.s.EachTimerEntry(func(e TimerEntry) (bool, error) {
		if len(entries) < 1<<20 {
			entries[e.Pos] = true
		}
		if e.Phys < v.s.LogMin() || v.inHole(e.Phys) || v.noLogs {
			return true, nil
		}
		_, ok, err := v.s.recordAt(e.Phys, e.Size)
		if err == nil && !ok {
			lost.add(0, e.Pos, fmt.Sprintf("the entry at %d leads to %d, where no message of %d bytes is", e.Pos, e.Phys, e.Size))
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	size, err := v.s.EachTimerSlot(func(t TimerSlot) (bool, error) {
		if t.Last >= end || t.Last >= 0 && len(entries) < 1<<20 && end >= 0 && len(entries) > 0 && !entries[t.Last] {
			bad.add(0, t.Number*timerSlotBytes, fmt.Sprintf("slot %d leads to %d of the timer log, which ends at %d", t.Number, t.Last, end))
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	say := func(file string, at, n int64, what string) {
		f := store.Finding{Kind: TimerDamaged, File: file, Offset: at, Phys: -1, What: what}
		v.find(Found{Finding: f, Severity: Note, Count: n})
	}
	if size >= 0 && size != timerSlots*timerSlotBytes {
		say("timerwheel", 0, 0, fmt.Sprintf("has %d bytes instead of %d: RocketMQ does not start with it", size, timerSlots*timerSlotBytes))
	}
	if bad.n > 0 {
		say("timerwheel", bad.phys, bad.n, fmt.Sprintf("%d slots lead nowhere: %s", bad.n, bad.text))
	}
	if lost.n > 0 {
		say("timerlog", lost.phys, lost.n, fmt.Sprintf("%d entries lead to no message: %s", lost.n, lost.text))
	}
	return nil
}
