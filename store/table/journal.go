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
// document anew, Apache or we, ends it by that. A line that is not whole ends it too.
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
}

// base notes which document is there now, so that a journal of another one counts no
// more.
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
	if j.size < journalFrom || j.found || f.keepBak || j.bytes+int64(len(line)) > j.size/journalShare {
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
// in their order. It ends at an error of apply.
func (f *File) Replay(apply func(line []byte) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := &f.journal
	if j.size == 0 || f.keepBak {
		return nil
	}
	text, err := vfs.ReadFile(f.fs, j.path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head := []byte(j.header())
	if !bytes.HasPrefix(text, head) {
		return nil // of another document
	}
	if err := f.syncJournal(); err != nil {
		return err
	}
	for rest := text[len(head):]; len(rest) > 0; {
		line, tail, ok := cutLine(rest)
		if !ok {
			break // was being written when the power went
		}
		if err := apply(line); err != nil {
			return fmt.Errorf("%s: %w", j.path, err)
		}
		j.found = true
		rest = tail
	}
	return nil
}

// cutLine takes the next change from a journal; ok is false if it is not whole.
func cutLine(rest []byte) (change, tail []byte, ok bool) {
	line, tail, whole := bytes.Cut(rest, []byte("\n"))
	if !whole || len(line) < 9 || line[8] != ' ' || string(line[:8]) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(line[9:])) {
		return nil, tail, false
	}
	return line[9:], tail, true
}

// JournalState is what a start makes of a journal, for those who only look.
type JournalState struct {
	Version string // of its first line, if that is not ours
	Other   bool   // it belongs to another document: nothing of it counts
	Changes int    // that a start takes over
	Bad     error  // why a change that is whole cannot be used
	End     int    // where what is taken over ends, in bytes
	Lost    int    // whole lines behind End, which a start does not reach
}

// CheckJournal looks at a journal and the document that it lies beside; nothing is changed.
func CheckJournal(doc, text []byte) (st JournalState) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.HasPrefix(first, []byte(journalHead+" ")) {
		st.Version = string(first[:min(len(first), 40)])
		return st
	}
	var j journal
	j.base(doc)
	if string(first)+"\n" != j.header() {
		st.Other = true
		return st
	}
	for st.End = len(text) - len(rest); len(rest) > 0; {
		line, tail, ok := cutLine(rest)
		if ok && !json.Valid(line) {
			st.Bad = errors.New("a change is no JSON")
		}
		if !ok || st.Bad != nil {
			st.Lost = wholeLines(tail)
			return st
		}
		st.Changes++
		st.End += len(rest) - len(tail)
		rest = tail
	}
	return st
}

// wholeLines counts the changes in what follows a line that cannot be used.
func wholeLines(rest []byte) (n int) {
	for len(rest) > 0 {
		_, tail, ok := cutLine(rest)
		if ok {
			n++
		}
		rest = tail
	}
	return n
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
