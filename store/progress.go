package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mqctl/store/vfs"
)

// progress is our own side file, which Apache does not know (FORMAT.md,
// "progress"): how far queues and index are safely on disk, and which topics
// were deleted, so that a recovery does not bring them back from the log.
type progress struct {
	pid        int   // of the process that wrote it, as in the abort file
	next       int   // of the one that goes on, which may have died before it wrote its own; 0: none
	clean      bool  // written by a clean stop
	end        int64 // of the log at that time
	dispatched int64 // every record before it has its unit and keys safely on disk; -1: nothing is known of queues
	log        int64 // the log was safe on disk up to here: dispatched, where that is known
	index      int64 // the newest record before dispatched that has keys in the index; -1: none has
	checkpoint uint32
	deleted    map[string]int64 // topic -> records before this position do not count
}

const progressHead = "mqctl-progress 1"

func (p *progress) encode() []byte {
	var b bytes.Buffer
	state := "running"
	if p.clean {
		state = "clean"
	}
	fmt.Fprintf(&b, "%s\npid %d\nstate %s\nend %d\ndispatched %d\nindex %d\ncheckpoint %08x\n",
		progressHead, p.pid, state, p.end, p.dispatched, p.index, p.checkpoint)
	if p.next != 0 {
		fmt.Fprintf(&b, "next %d\n", p.next)
	}
	if p.log != p.dispatched {
		fmt.Fprintf(&b, "log %d\n", p.log)
	}
	for topic, pos := range p.deleted {
		fmt.Fprintf(&b, "deleted %d %s\n", pos, strconv.Quote(topic))
	}
	return seal(&b)
}

func decodeProgress(b []byte) (*progress, error) {
	p := &progress{deleted: map[string]int64{}, log: -1}
	if err := unseal(b, progressHead, p.set); err != nil {
		return nil, err
	}
	if p.log < 0 {
		p.log = p.dispatched
	}
	return p, nil
}

func (p *progress) set(name, value string) (err error) {
	switch name {
	case "pid":
		p.pid, err = strconv.Atoi(value)
	case "next":
		p.next, err = strconv.Atoi(value)
	case "index":
		p.index, err = strconv.ParseInt(value, 10, 64)
	case "log":
		p.log, err = strconv.ParseInt(value, 10, 64)
	case "state":
		p.clean = value == "clean"
	case "end":
		p.end, err = strconv.ParseInt(value, 10, 64)
	case "dispatched":
		p.dispatched, err = strconv.ParseInt(value, 10, 64)
	case "checkpoint":
		var c uint64
		c, err = strconv.ParseUint(value, 16, 32)
		p.checkpoint = uint32(c)
	case "deleted":
		pos, quoted, _ := strings.Cut(value, " ")
		var topic string
		if topic, err = strconv.Unquote(quoted); err == nil {
			p.deleted[topic], err = strconv.ParseInt(pos, 10, 64)
		}
	default:
		err = errors.New("unknown name")
	}
	return err
}

// readProgress returns nil if there is none that can be believed: then recovery
// works as on a folder from Apache.
func readProgress(fsys vfs.FS, name string) (p *progress, why string, err error) {
	b, err := vfs.ReadFile(fsys, name, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	p, derr := decodeProgress(b)
	if derr != nil {
		return nil, fmt.Sprintf("%s cannot be used (%v), queues are checked against the log", name, derr), nil
	}
	return p, "", nil
}

// writeProgress replaces the file by a rename, so that a crash leaves the old
// or the new one.
func writeProgress(fsys vfs.FS, name string, p *progress) error {
	temp := name + ".tmp"
	if err := vfs.WriteFile(fsys, temp, p.encode()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}
