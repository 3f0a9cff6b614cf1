package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"mqctl/store/vfs"
)

// A table of ten thousand topics is megabytes of JSON. To write all of it for
// every topic that is made would be gigabytes for ten thousand, one after the
// other. So the changes of a large document go to a journal beside it, a line each,
// until it is worth a new generation. Format of <name>.journal:
//
//	mqctl-journal 1 <CRC-32 of the document> <bytes of the document>
//	<CRC-32 of the rest of the line> <the change, JSON without a newline>
//	...
//
// It counts only for the document whose sum it begins with: whoever writes the
// document anew, Apache or we, ends it by that. Bytes behind the last whole line were
// being written when the power went. A line before it that is not whole is damage: it is
// passed over, and the journal is kept as <name>.journal.lost-<CRC-32 of all of it> when
// the document is saved anew.
const (
	journalHead = "mqctl-journal 1"
	// journalFrom is the size of a document from which a journal pays. A smaller one
	// is written whole, so that it is always as current as can be.
	journalFrom = 128 << 10
	// journalShare is which part of the document its journal may grow to.
	journalShare = 4
)

// journal is the state of a File's journal. Guarded by File.mu.
type journal struct {
	path  string
	out   vfs.File // open while lines are added to it
	sum   uint32   // of the document; known if size > 0
	size  int64    // of the document, 0 if unknown
	bytes int64    // of the journal, 0 if it has no lines
	found bool     // Load found lines: the next change writes a new generation
	lost  error    // what Replay could not take over
	aside string   // the name that the journal gets for it; empty: it may be removed
}

// base notes which document is there now, so that a journal of another one counts no
// more. One that is to be kept aside stays noted.
func (j *journal) base(doc []byte) {
	j.close()
	j.sum, j.size, j.bytes, j.found = crc32.ChecksumIEEE(doc), int64(len(doc)), 0, false
}

func (j *journal) close() {
	if j.out != nil {
		_ = j.out.Close() // every line was synced
		j.out = nil
	}
}

func (j *journal) header() string { return fmt.Sprintf("%s %08x %d\n", journalHead, j.sum, j.size) }

// Append makes one change durable without a new generation: line, JSON without a
// newline, is what Replay gives back after a restart. It reports false, and does
// nothing, where the whole document is to be saved instead: it is small, or enough was
// appended. On error the change has left no trace, or none that the next Save leaves.
func (f *File) Append(line []byte) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := &f.journal
	if j.size < journalFrom || j.found || j.aside != "" || f.keepBak || j.bytes+int64(len(line)) > j.size/journalShare {
		return false, nil
	}
	if err := f.append(line); err != nil {
		if j.out != nil {
			_ = j.out.Truncate(j.bytes) // the Save that comes next makes it count no more in any case
		}
		j.close()
		j.found = true
		return true, fmt.Errorf("save %s: %w", j.path, err)
	}
	return true, nil
}

func (f *File) append(line []byte) error {
	j := &f.journal
	fresh := j.out == nil
	if fresh {
		out, err := f.fs.Create(j.path)
		if err != nil {
			return err
		}
		j.out = out
		n, err := out.WriteAt([]byte(j.header()), 0)
		if err != nil {
			return err
		}
		j.bytes = int64(n)
	}
	text := fmt.Appendf(make([]byte, 0, len(line)+10), "%08x %s\n", crc32.ChecksumIEEE(line), line)
	if _, err := j.out.WriteAt(text, j.bytes); err != nil {
		return err
	}
	if err := j.out.Datasync(); err != nil {
		return err
	}
	if fresh {
		if err := f.fs.SyncDir(f.dir); err != nil {
			return err
		}
	}
	j.bytes += int64(len(text))
	return nil
}

// Pending says that changes are in the journal only. Save ends that.
func (f *File) Pending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.journal.bytes > 0 || f.journal.found
}

// Replay gives the changes that were appended since the document was saved, after Load,
// in their order. A change that cannot be read, or that apply refuses, is passed over: each
// stands for itself, and was acknowledged. Lost tells of it.
func (f *File) Replay(apply func(line []byte) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := &f.journal
	text, err := vfs.ReadFile(f.fs, j.path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	st, good := j.read(text)
	switch {
	case st.Version != "":
		f.loses(text, "it begins with %q: it is damaged, or another version wrote it", st.Version)
	case j.size == 0 && len(good) > 0:
		f.loses(text, "its %d changes belong to a generation that cannot be used", len(good))
	case st.Other && st.Bad > 0:
		f.loses(text, "%d of its changes are damaged, and the document was saved since without them", st.Bad)
	}
	if st.Version != "" || st.Other {
		return nil // what belongs to another document is in that
	}
	if err := f.syncJournal(); err != nil {
		return err
	}
	var refused error
	for _, line := range good {
		if err := apply(line); err != nil {
			st.Bad, st.Changes, refused = st.Bad+1, st.Changes-1, err
		}
		j.found = true
	}
	switch {
	case refused != nil:
		f.loses(text, "%d of %d changes cannot be used (%w)", st.Bad, st.Bad+st.Changes, refused)
	case st.Bad > 0:
		f.loses(text, "%d of %d changes are damaged", st.Bad, st.Bad+st.Changes)
	}
	return nil
}

// loses notes that changes in the journal are lost, so that Save keeps it aside.
func (f *File) loses(text []byte, why string, args ...any) {
	j := &f.journal
	j.found, j.aside = true, fmt.Sprintf("%s.lost-%08x", j.path, crc32.ChecksumIEEE(text))
	j.lost = fmt.Errorf("%s: "+why+"; the next change of the table keeps it as %s", append(append([]any{j.path}, args...), j.aside)...)
}

// Lost says which changes the last Replay could not take from the journal, and where it is
// kept; nil if it took all.
func (f *File) Lost() error { return f.journal.lost }

// drop takes the journal, which counts no more, away.
func (f *File) drop() {
	j := &f.journal
	if j.aside == "" {
		f.discard(j.path)
		return
	}
	if err := f.fs.Rename(j.path, j.aside); err == nil || errors.Is(err, fs.ErrNotExist) {
		j.aside = ""
		_ = f.fs.SyncDir(f.dir) // whichever name it has after a crash, the next start finds it
	}
}

// JournalState is what a start makes of a journal, for those who only look.
type JournalState struct {
	Version string // how it begins, if that is not ours
	Other   bool   // it belongs to another document: nothing of it counts
	Changes int    // that a start takes over
	Bad     int    // damaged changes before the last of those
	BadAt   int    // where the first of them begins, in bytes
	End     int    // where what is whole ends, in bytes; the rest was being written when the power went
}

// CheckJournal looks at a journal and the document that it lies beside; nothing is changed.
func CheckJournal(doc, text []byte) JournalState {
	var j journal
	j.base(doc)
	st, _ := j.read(text)
	return st
}

// read tells the changes of a journal that are whole.
func (j *journal) read(text []byte) (st JournalState, good [][]byte) {
	first, _, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return st, nil
	}
	var open []int // damaged lines behind the last whole one
	for at := len(first) + 1; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		next := at + len(line) + 1
		change, ok := wholeLine(line)
		if !ok || next > len(text) {
			open = append(open, at)
			at = next
			continue
		}
		if json.Valid(change) {
			good = append(good, change)
		} else {
			open = append(open, at)
		}
		if st.Bad == 0 && len(open) > 0 {
			st.BadAt = open[0]
		}
		st.Bad, st.End, open = st.Bad+len(open), next, nil
		at = next
	}
	st.Changes = len(good)
	switch ours := bytes.HasPrefix(first, []byte(journalHead+" ")); {
	case !ours && (len(good) > 0 || bytes.HasPrefix(first, []byte(journalHead[:len(journalHead)-1]))):
		st = JournalState{Version: string(first[:min(len(first), 40)])}
	case !ours:
		st = JournalState{} // its first write was not finished
	default:
		st.Other = j.size == 0 || string(first)+"\n" != j.header()
		st.End = max(st.End, len(first)+1)
	}
	return st, good
}

// wholeLine takes the change from a line without its newline; ok is false if it is not as it
// was written.
func wholeLine(line []byte) (change []byte, ok bool) {
	if len(line) < 9 || line[8] != ' ' || string(line[:8]) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(line[9:])) {
		return nil, false
	}
	return line[9:], true
}

// syncJournal makes the lines safe that a start is about to show: whoever wrote the last of
// them may have been killed before it was.
func (f *File) syncJournal() error {
	out, err := f.fs.OpenReadWrite(f.journal.path)
	if err != nil {
		return err
	}
	err = out.Datasync()
	return errors.Join(err, out.Close())
}
