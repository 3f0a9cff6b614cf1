package vfs_test

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mqctl/store/vfs"
)

// Nothing waits for the other end of a pipe that lies where a file is wanted.
func TestPipeInPlaceOfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(name, 0o644))
	link := filepath.Join(t.TempDir(), "link")
	must(t, unix.Symlink(name, link))
	for op, f := range map[string]func(string) error{
		"create": func(name string) error { return second(vfs.OS{}.Create(name)) },
		"open":   func(name string) error { return second(vfs.OS{}.Open(name)) },
		"write":  func(name string) error { return second(vfs.OS{}.OpenReadWrite(name)) },
		"lock":   func(name string) error { return second(vfs.OS{}.Lock(name)) },
		"check":  vfs.CheckFile,
	} {
		for _, name := range []string{name, link} {
			done := make(chan error, 1)
			go func() { done <- f(name) }()
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("%s of %s: no error", op, name)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("%s of %s waits", op, name)
			}
		}
	}
	if err := vfs.CheckFile(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a free name: %v", err)
	}
	if err := vfs.CheckFile("/dev/null"); err != nil {
		t.Errorf("a device that never waits: %v", err)
	}
}
