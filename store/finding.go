package store

import (
	"fmt"
	"path/filepath"
	"strings"

	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// FindingKind says what was found, as one upper-case word for programs.
type FindingKind string

// The kinds of findings.
const (
	// TornTail is an unfinished write at the end of the log: bytes behind the last whole record.
	TornTail FindingKind = "TORN_TAIL"
	// Damaged is a stretch of the log with good records behind it.
	Damaged FindingKind = "DAMAGED"
	// MissingFile is a file of the log or of a queue that is not there, with others behind it.
	MissingFile FindingKind = "MISSING_FILE"
	// ShortFile is a file without its full length.
	ShortFile FindingKind = "SHORT_FILE"
	// StrangeFile is a file that has no place in the folder it lies in.
	StrangeFile FindingKind = "STRANGE_FILE"
	// StaleRecords are records of an earlier life of the file, behind the end of the log.
	StaleRecords FindingKind = "STALE_RECORDS"
	// WrongNumber is a record that states another number than it has in its queue.
	WrongNumber FindingKind = "WRONG_NUMBER"
	// WrongPosition is a record that states another position than it has, and is whole else.
	WrongPosition FindingKind = "WRONG_POSITION"
	// QueueBehind is a queue without entries for messages of the log.
	QueueBehind FindingKind = "QUEUE_BEHIND"
	// QueueAhead is a queue with entries for what the log does not have.
	QueueAhead FindingKind = "QUEUE_AHEAD"
	// QueueWrongEntry is an entry that leads to another message, or to none.
	QueueWrongEntry FindingKind = "QUEUE_WRONG_ENTRY"
	// IndexDamaged is a file of the key index that does not hold together.
	IndexDamaged FindingKind = "INDEX_DAMAGED"
	// ConfigDamaged is a configuration file that cannot be read.
	ConfigDamaged FindingKind = "CONFIG_DAMAGED"
	// SideFileDamaged is a file in mqctl/ that cannot be used.
	SideFileDamaged FindingKind = "SIDE_FILE_DAMAGED"
)

// Finding is one thing that a recovery or a verification found.
type Finding struct {
	Kind   FindingKind
	File   string            // relative to the store folder, with slashes
	Offset int64             // in File
	Phys   record.PhysOffset // position in the commit log; -1 where it is not about the log
	Bytes  int64             // how many are concerned; 0: unknown or none
	What   string            // one sentence: what is wrong
	Done   string            // what was done; empty: nothing
	Try    string            // the command that helps; empty: nothing needed
}

// String is the finding as one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", f.Kind, f.File)
	if f.Bytes > 0 {
		fmt.Fprintf(&b, " at %d, %d bytes", f.Offset, f.Bytes)
	}
	if f.What != "" {
		b.WriteString(": " + f.What)
	}
	if f.Done != "" {
		b.WriteString("; " + f.Done)
	}
	if f.Try != "" {
		b.WriteString("; try: " + f.Try)
	}
	return b.String()
}

// add appends a finding, and its sentence to the notes.
func (rec *Recovery) add(f Finding) {
	rec.Findings = append(rec.Findings, f)
	rec.Notes = append(rec.Notes, f.String())
}

// logFile names the commit log file that holds pos, and where in it that is.
func (s *Store) logFile(pos int64) (file string, offset int64) {
	size := s.log.SegmentBytes()
	base := pos / size * size
	return s.relative(filepath.Join(s.opt.CommitLogDir, segfile.Name(base))), pos - base
}

// relative is a path as a Finding names it; outside of the store folder it stays whole.
func (s *Store) relative(name string) string {
	if rel, err := filepath.Rel(s.opt.Dir, name); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(name)
}
