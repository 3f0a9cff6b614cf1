package broker

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mqctl/store/vfs"
)

// A live change goes into the file that a link leads to, which keeps its mode; where
// there is no file it is refused and nothing is replaced.
func TestApplyThroughLink(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "real.conf"), filepath.Join(dir, "b.conf"), filepath.Join(dir, "pipe")
	const text = "brokerName=b\nslaveReadEnable=false\n"
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.conf", link); err != nil {
		t.Fatal(err)
	}
	s := settingsFor(t, vfs.OS{}, ConfigInput{File: link, Data: []byte(text)})
	if _, err := s.Apply([]byte("slaveReadEnable=true\n")); err != nil {
		t.Fatal(err)
	}
	if got := readMem(t, vfs.OS{}, file); !strings.Contains(got, "slaveReadEnable=true") {
		t.Errorf("the file holds %q", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(vfs.OS{}, pipe, []byte(text)); err == nil {
		t.Error("a pipe was replaced")
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v", err)
	}
}
