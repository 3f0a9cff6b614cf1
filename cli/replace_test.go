package cli

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Help, examples and the printed configuration are output like any other: who
// redirected them to a full disk has to learn it.
func TestTextToFullDisk(t *testing.T) {
	for _, words := range []string{
		"--help", "help", "help output", "help mqadmin", "help broker", "help broker list", "help updateTopic", "broker --help", "broker list --help",
		"--version", "broker list --examples", "broker start --print-config --store s", "nameserver start --print-config",
	} {
		var errs bytes.Buffer
		code := Run(context.Background(), append([]string{"mqctl"}, strings.Fields(words)...),
			Stdio{In: strings.NewReader(""), Out: fullDisk{}, Err: &errs, Env: func(string) string { return "" }})
		if code != ExitFailed || !strings.Contains(errs.String(), "OUTPUT_FAILED") {
			t.Errorf("mqctl %s ended with %d, %q", words, code, errs.String())
		}
	}
}

// Nothing but a file is ever replaced by one: as root that would cost the system its
// /dev/null.
func TestOnlyFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("pipe", link); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(string) error{
		"client file": func(path string) error { return replaceFile(path, []byte("x")) },
		"export":      func(path string) error { return writeWhole(path, []byte("x")) },
		"bundle": func(path string) error {
			a, err := newArchive(path, time.Now())
			if err == nil {
				_, err = a.finish()
			}
			return err
		},
		"pid file": func(path string) error {
			remove, err := writePid(path)
			if err == nil {
				remove()
			}
			return err
		},
	} {
		for _, path := range []string{link, pipe} {
			if err := write(path); err == nil || !strings.Contains(err.Error(), "regular file") {
				t.Errorf("%s over %s: %v", name, filepath.Base(path), err)
			}
			if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
				t.Fatalf("%s replaced the pipe: %v", name, err)
			}
			if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				t.Fatalf("%s replaced the link: %v", name, err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Who could read a file can read it after it was replaced: the user of a service its
// configuration after config convert --in-place.
func TestReplacedFileKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "broker.conf"), filepath.Join(dir, "link.conf")
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o600} {
		if err := os.WriteFile(file, []byte("brokerName=a\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("broker.conf", link); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func(string, []byte) error{replaceFile, writeWhole} {
			if err := write(link, []byte("brokerName=b\n")); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(file); err != nil || info.Mode() != mode {
				t.Errorf("%v became %v, %v", mode, info.Mode(), err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "brokerName=b\n" {
				t.Errorf("the file behind the link: %q, %v", text, err)
			}
		}
	}
}

// Names and messages in mqadmin's layout carry no escape sequences to a terminal.
func TestOldLayoutIsText(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, format: "mqadmin"}
	p.printf("%s\t%d\n", "a\x1b[31m\a\u009bb\x7f", 7)
	if got := out.String(); got != "a?[31m??b?\t7\n" {
		t.Errorf("%q", got)
	}
}
