package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"mqctl/store/internal/commitlog"
	"mqctl/store/vfs"
)

// cutNote says on disk that the log is being cut (FORMAT.md, "mqctl/cut"). It
// counts only if nobody else wrote to the folder since: the process in the abort file is
// one of those named.
type cutNote struct {
	kind    string // "cut" or "aside"
	pid     int    // of the process that began
	next    int    // of the one that goes on after a crash, 0 if none
	at      int64  // where the log ends afterwards
	segment int64  // size of its files
	name    string // folder in ownDir, of kind "aside"
}

const cutHead = "mqctl-cut 1"

func (c *cutNote) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nkind %s\npid %d\nnext %d\nat %d\nsegment %d\nname %s\n",
		cutHead, c.kind, c.pid, c.next, c.at, c.segment, strconv.Quote(c.name))
	return seal(&b)
}

func decodeCutNote(b []byte) (*cutNote, error) {
	c := &cutNote{}
	if err := unseal(b, cutHead, c.set); err != nil {
		return nil, err
	}
	return c, c.check()
}

func (c *cutNote) set(name, value string) (err error) {
	switch name {
	case "kind":
		c.kind = value
	case "pid":
		c.pid, err = strconv.Atoi(value)
	case "next":
		c.next, err = strconv.Atoi(value)
	case "at":
		c.at, err = strconv.ParseInt(value, 10, 64)
	case "segment":
		c.segment, err = strconv.ParseInt(value, 10, 64)
	case "name":
		c.name, err = strconv.Unquote(value)
	default:
		err = errors.New("unknown name")
	}
	return err
}

func (c *cutNote) check() error {
	switch {
	case c.kind != "cut" && c.kind != "aside":
		return fmt.Errorf("unknown kind %q", c.kind)
	case c.at < 0 || c.segment < minSegmentBytes:
		return fmt.Errorf("position %d, files of %d bytes", c.at, c.segment)
	case c.kind == "aside" && (c.name == "" || c.name != filepath.Base(c.name) || c.name[0] == '.'):
		return fmt.Errorf("folder %q", c.name)
	}
	return nil
}

func (s *Store) cutFile() string { return filepath.Join(s.ownDir, "cut") }

func (s *Store) writeNote(c *cutNote) error {
	if err := vfs.WriteFile(s.opt.FS, s.cutFile()+".tmp", c.encode()); err != nil {
		return err
	}
	if err := s.opt.FS.Rename(s.cutFile()+".tmp", s.cutFile()); err != nil {
		return err
	}
	return s.opt.FS.SyncDir(s.ownDir)
}

// removeNote ends a cut.
func (s *Store) removeNote() error {
	err := s.opt.FS.Remove(s.cutFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.opt.FS.SyncDir(s.ownDir)
}

// resumeCut finishes on disk what a cut under way left to do, before
// the folder is looked at. It returns where the log has to end, -1 if nowhere.
func (s *Store) resumeCut(rec *Recovery) (cut int64, err error) {
	if err := s.opt.FS.Remove(s.asideTemp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return -1, err
	}
	b, err := readSmall(s.opt.FS, s.cutFile())
	if err != nil || b == nil {
		return -1, err
	}
	c, err := decodeCutNote(b)
	text, aerr := readSmall(s.opt.FS, s.abortFile())
	if aerr != nil {
		return -1, aerr
	}
	pid, _ := strconv.Atoi(string(text)) // 0 if there is none
	if err != nil || pid == 0 || pid != c.pid && pid != c.next {
		rec.Notes = append(rec.Notes, s.cutFile()+" is not about this log: ignored")
		return -1, nil
	}
	// Whichever process abort will name when we die too.
	c.pid, c.next = pid, s.opt.pid
	if err := s.writeNote(c); err != nil {
		return -1, err
	}
	if err := s.dropBlank(); err != nil {
		return -1, err
	}
	if c.kind == "cut" {
		rec.Notes = append(rec.Notes, fmt.Sprintf("a cut of the log at %d is finished", c.at))
		return c.at, commitlog.CutFiles(s.opt.FS, s.opt.CommitLogDir, c.segment, c.at)
	}
	rec.Notes = append(rec.Notes, fmt.Sprintf("the log is set aside in %s", filepath.Join(s.ownDir, c.name)))
	if err := s.moveAside(c.name); err != nil {
		return -1, err
	}
	// Of the old log it says how far the queues are.
	err = s.opt.FS.Remove(s.progressFile())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return -1, err
}
