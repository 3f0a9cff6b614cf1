package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mqctl/store/vfs"
)

// What a rename may replace is a file, at the end of all links: not the link, and no
// device or pipe.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(in("file"), []byte("x"), 0o640))
	must(t, os.Mkdir(in("folder"), 0o755))
	must(t, unix.Mkfifo(in("pipe"), 0o644))
	for name, target := range map[string]string{"link": "file", "far": "link", "to-pipe": "pipe", "to-device": "/dev/null", "dangling": "none", "loop": "loop"} {
		must(t, os.Symlink(target, in(name)))
	}
	for _, tt := range []struct{ name, want string }{
		{"file", "file"}, {"link", "file"}, {"far", "file"}, {"free", "free"}, {"dangling", "dangling"},
		{"folder", ""}, {"pipe", ""}, {"to-pipe", ""}, {"to-device", ""}, {"loop", ""}, {"file/below", ""},
	} {
		got, err := vfs.OS{}.Place(in(tt.name))
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%s may be replaced at %s", tt.name, got)
		case tt.want != "" && (err != nil || got != in(tt.want)):
			t.Errorf("%s is at %q, %v; want %s", tt.name, got, err, tt.want)
		}
	}
	must(t, os.WriteFile(in("new"), nil, 0o600))
	must(t, vfs.OS{}.CopyMode(in("file"), in("new")))
	if info, err := os.Stat(in("new")); err != nil || info.Mode() != 0o640 {
		t.Errorf("the copied mode is %v, %v", info.Mode(), err)
	}
}
