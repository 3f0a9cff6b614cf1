//go:build unix

package vfs_test

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"mqctl/store/vfs"
)

// A pipe is no file: who opened it would wait for a writer.
func TestPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "p"), 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	e, err := vfs.OS{}.Stat(filepath.Join(dir, "p"))
	list, lerr := vfs.OS{}.ReadDir(dir)
	dirs, others, serr := vfs.OS{}.Split(dir)
	if err != nil || lerr != nil || serr != nil || !e.Dir || len(list) != 1 || !list[0].Dir || !slices.Equal(dirs, []string{"p"}) || len(others) != 0 {
		t.Errorf("%+v %v, %+v %v, %v %v %v", e, err, list, lerr, dirs, others, serr)
	}
}
