package store_test

import (
	"errors"
	"io/fs"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// closedParent is a file system on which nobody may list one folder.
type closedParent struct {
	*vfs.Mem
	dir string
}

func (c closedParent) Split(dir string) (dirs, others []string, err error) {
	if dir == c.dir {
		return nil, nil, fs.ErrPermission
	}
	return c.Mem.Split(dir)
}

// TestLogElsewhere: a log in another place needs no look at what is beside it, and a file
// in its place refuses the start.
func TestLogElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	o := small(closedParent{mem, "/elsewhere"})
	o.CommitLogDir = "/elsewhere/log"
	s, _ := open(t, o)
	put(t, s, "T", 0, "x")
	closeStore(t, s)
	s, _ = open(t, o)
	closeStore(t, s)

	mem = vfs.NewMem()
	if err := mem.MkdirAll("/elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(mem, "/elsewhere/log", []byte("x")); err != nil {
		t.Fatal(err)
	}
	o.FS = closedParent{mem, "/elsewhere"}
	var damaged *store.DamagedError
	if s, _, err := store.Open(o); !errors.As(err, &damaged) || damaged.Where != "/elsewhere/log" {
		t.Errorf("a file in the place of the log: %v", err)
		if err == nil {
			closeStore(t, s)
		}
	}
}
