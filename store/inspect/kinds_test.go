package inspect_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/inspect"
	"mqctl/store/vfs"
)

// wrongNames are what a start and a verification must both refuse: a folder in the place of a
// file, and (file) the other way round.
var wrongNames = []struct {
	name string
	file bool
}{
	{"checkpoint", false}, {"abort", false},
	{"mqctl/progress", false}, {"mqctl/queues", false}, {"mqctl/holes", false}, {"mqctl/unsafe", false}, {"mqctl/cut", false},
	{"mqctl/cut.tmp", false}, {"mqctl/blank", false}, {"mqctl/import", false}, {"mqctl/imported", false}, {"mqctl/aside.tmp", false},
	{"mqctl/new-queue-file", false}, {"mqctl/members.json", false}, {"mqctl/delivered.json.bak", false}, {"mqctl/progress.tmp", false},
	{"config/topics.json", false}, {"config/topics.json.bak", false}, {"config/topics.json.journal", false}, {"config/topics.json.tmp", false},
	{"config/delayOffset.json", false}, {"config/consumerOffset.json.bak.tmp", false}, {"config/messageRequestMode.json", false},
	{"commitlog/00000000000000000000", false}, {"commitlog/00000000000010000000", false},
	{"consumequeue/orders/0/00000000000000000000", false}, {"index/20260101000000000", false},
	{"commitlog", true}, {"consumequeue", true}, {"batchconsumequeue", true}, {"consumequeue_ext", true}, {"index", true}, {"config", true}, {"mqctl", true},
	{"consumequeue/orders", true}, {"consumequeue/notYet", true}, {"consumequeue/orders/0", true}, {"consumequeue/orders/77", true},
	{"batchconsumequeue/b", true}, {"consumequeue_ext/orders", true},
}

// TestWrongKinds: a start refuses each with the command that helps and changes nothing;
// a verification says the same, and only that of the store changes by it.
func TestWrongKinds(t *testing.T) {
	for _, from := range []string{"clean", "killed"} {
		for _, w := range wrongNames {
			t.Run(from+"/"+strings.ReplaceAll(w.name, "/", "_"), func(t *testing.T) {
				mem := unpack(t, from)
				path := filepath.Join("/store", w.name)
				if err := displace(mem, path, w.file); err != nil {
					t.Fatal(err)
				}
				before := sum(t, mem, "/store")
				o := store.Options{FS: mem, Dir: "/store", CommitLogBytes: 64 << 10, QueueFileBytes: 400, Log: slog.New(slog.DiscardHandler)}
				s, _, err := store.Open(o)
				var damaged *store.DamagedError
				if !errors.As(err, &damaged) || damaged.Where != path || !strings.Contains(damaged.Try, "mv "+path) {
					if err == nil {
						err = s.Close()
					}
					t.Errorf("the start: %v", err)
				}
				if sum(t, mem, "/store") != before {
					t.Error("the start has changed something")
				}
				found := 0
				in, err := inspect.Open(inspect.Options{FS: mem, Dir: "/store"})
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				for name, verify := range map[string]func(context.Context, func(inspect.Found)) (inspect.Report, error){"whole": in.Verify, "light": in.VerifyLight} {
					found = 0
					_, err = verify(t.Context(), func(f inspect.Found) {
						if f.File == w.name && f.Severity == inspect.Damage && f.Kind == store.StrangeFile && strings.Contains(f.Try, "mv ") {
							found++
						}
					})
					if err != nil || found != 1 {
						t.Errorf("%s: %d findings, %v", name, found, err)
					}
				}
			})
		}
	}
}

// displace puts a folder (or a file) in the place of what is there.
func displace(mem *vfs.Mem, path string, file bool) error {
	if _, err := mem.Stat(path); err == nil {
		if err := mem.Rename(path, "/aside"); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !file {
		return mem.MkdirAll(path)
	}
	if err := mem.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return vfs.WriteFile(mem, path, []byte("x"))
}

// TestStrangeNames: what the broker needs no name of is no reason to refuse a start.
func TestStrangeNames(t *testing.T) {
	mem := unpack(t, "clean")
	for _, name := range []string{"notes", "config/other.json", "mqctl/notes", "consumequeue/lost+found", "consumequeue/orders/x"} {
		if err := mem.MkdirAll("/store/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"consumequeue/.DS_Store", "consumequeue/orders/README", "mqctl/notes.txt", "config/consumerFilter.json.old"} {
		if err := vfs.WriteFile(mem, "/store/"+name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verifyWorst(t, mem); err != nil {
		t.Fatal(err)
	}
	s, _, err := store.Open(store.Options{FS: mem, Dir: "/store", CommitLogBytes: 64 << 10, QueueFileBytes: 400, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func verifyWorst(t *testing.T, mem *vfs.Mem) (inspect.Severity, error) {
	t.Helper()
	in, err := inspect.Open(inspect.Options{FS: mem, Dir: "/store"})
	if err != nil {
		return "", err
	}
	defer in.Close()
	rep, err := in.Verify(t.Context(), func(f inspect.Found) {
		if f.Severity == inspect.Damage {
			t.Errorf("%s: %s", f.File, f.What)
		}
	})
	return rep.Worst, err
}
