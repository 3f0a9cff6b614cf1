package inspect

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"mqctl/store"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// sideHeads are the first lines of the files with a checksum, with the version that this
// program reads.
var sideHeads = map[string]string{
	"mqctl/progress": "mqctl-progress 1", "mqctl/cut": "mqctl-cut 1", "mqctl/holes": "mqctl-holes 1",
	"mqctl/import": "mqctl-import 1", "mqctl/imported": "mqctl-import 1",
}

// sideFile checks what a file of mqctl's own says.
func (v *verifier) sideFile(f *SideFile) {
	head := sideHeads[f.Path]
	switch {
	case f.Err != nil:
		v.find(Found{Finding: notLog(store.SideFileDamaged, f.Path, "%v: a start does without it", f.Err), Severity: Repair})
		return
	case head != "" && f.Head != head:
		v.find(Found{Finding: notLog(store.SideFileDamaged, f.Path, "it begins with %q, not with %q, so another version wrote it: a start does without it", f.Head, head), Severity: Repair})
		return
	case f.Path != "mqctl/holes":
		return
	}
	holes, err := store.ParseHoles(f.text)
	if err != nil {
		v.find(Found{Finding: notLog(store.SideFileDamaged, f.Path, "%v: a start scans the whole log for holes", err), Severity: Repair})
		return
	}
	v.listed = holes
}

// listedHoles checks that the holes that are noted lie in the log, which was scanned.
func (v *verifier) listedHoles() error { return v.holesBefore(v.rep.LogEnd) }

// listedInFiles is listedHoles without a scan.
func (v *verifier) listedInFiles() error { return v.holesBefore(v.s.logCapacity()) }

func (v *verifier) holesBefore(end int64) error {
	if v.s.opt.Live || v.noLogs {
		return nil
	}
	for _, h := range v.listed {
		if int64(h.To) <= end {
			continue // also those before the first file: they expired
		}
		f := notLog(store.SideFileDamaged, "mqctl/holes", "the hole from %d to %d lies outside of the log, which ends at %d: a start drops it", h.From, h.To, end)
		f.Phys, f.Bytes = h.From, h.Bytes()
		v.find(Found{Finding: f, Severity: Repair})
	}
	return nil
}

// journals checks the changes that were not yet written into their tables.
func (v *verifier) journals() error {
	dir := filepath.Join(v.s.opt.Dir, "config")
	entries, err := v.s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name, ".journal")
		if e.Dir || !ok {
			continue
		}
		text, err := vfs.ReadFile(v.s.opt.FS, filepath.Join(dir, e.Name), maxConfig)
		if err != nil {
			return err
		}
		doc, err := vfs.ReadFile(v.s.opt.FS, filepath.Join(dir, name), maxConfig)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var c Config
		if c.parse(doc); c.Err != nil {
			doc = nil // a start does not take it
		}
		v.journal("config/"+e.Name, "config/"+name, doc, text)
	}
	return nil
}

func (v *verifier) journal(file, of string, doc, text []byte) {
	st := table.CheckJournal(doc, text)
	say := func(sev Severity, try, format string, args ...any) {
		f := notLog(store.SideFileDamaged, file, format, args...)
		f.Offset, f.Bytes, f.Try = int64(st.End), int64(len(text)-st.End), try
		v.find(Found{Finding: f, Severity: sev})
	}
	const aside = "make its changes again; a start keeps it aside"
	switch {
	case len(text) == 0:
		say(Note, "", "is empty: no change was made since %s was written", of)
	case st.Version != "":
		say(Damage, aside, "it begins with %q, so it is damaged or another version wrote it: a start leaves its changes out", st.Version)
	case st.Bad > 0:
		st.End = st.BadAt
		say(Damage, aside, "%d of %d changes are damaged: a start leaves them out", st.Bad, st.Bad+st.Changes)
	case st.Other && len(doc) == 0 && st.Changes > 0:
		st.End = 0
		say(Damage, aside, "its %d changes belong to a %s that cannot be used: a start leaves them out", st.Changes, of)
	case st.Other:
		st.End = 0
		say(Note, "", "belongs to another %s than the one beside it, and counts no more", of)
	case st.End < len(text):
		say(Repair, "", "ends with a change that was not written completely, behind %d that were: a start leaves it out", st.Changes)
	}
}
