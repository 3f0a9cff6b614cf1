package inspect_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mqctl/store/inspect"
	"mqctl/store/vfs"
	"mqctl/store/vfs/vfstest"
)

// recorded is the folder of the recorded stores.
var recorded = filepath.Join("..", "..", "testdata", "store")

// unpack puts a recorded store into memory.
func unpack(t testing.TB, name string) *vfs.Mem {
	t.Helper()
	return vfstest.Folder(t, filepath.Join(recorded, name+".tar.gz"))
}

// sum is a checksum over the names, times and bytes of a folder.
func sum(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	h := sha256.New()
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			fmt.Fprintln(h, name, e.Size, e.Dir, e.ModMillis)
			if e.Dir {
				walk(name)
				continue
			}
			b, err := vfs.ReadFile(fsys, name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
	}
	walk(dir)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// story is what a recorded store says about itself.
type story struct {
	Fault struct {
		Fault       string
		BaseRecords int64
		BaseEnd     int64
	}
}

// verify returns what was found in a recorded store but for the notes that every
// killed store has, one line each, and checks that nothing was changed.
func verify(t testing.TB, fsys vfs.FS) ([]string, inspect.Report) {
	t.Helper()
	before := sum(t, fsys, "/store")
	s, err := inspect.Open(inspect.Options{FS: fsys, Dir: "/store"})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	rep, err := s.Verify(t.Context(), func(f inspect.Found) {
		if f.Kind == inspect.NotStopped || f.Kind == inspect.SpareFile && f.File == "commitlog/00000000000000393216" {
			return
		}
		found = append(found, fmt.Sprintf("%s %s %s at %d, %d bytes", f.Severity, f.Kind, f.File, f.Offset, f.Bytes))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if sum(t, fsys, "/store") != before {
		t.Error("the folder was changed")
	}
	return found, rep
}

// TestGolden holds the verification of every recorded store against the list in
// golden.txt: a name, the fault that was made, and indented what is found.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "golden.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(line, "#"), line == "":
		case strings.HasPrefix(line, "\t"):
			want[name] = append(want[name], line[1:])
		default:
			name, _, _ = strings.Cut(line, ":")
			want[name] = nil
		}
	}
	all := folders(t)
	if len(all) != len(want) {
		t.Errorf("%d recorded stores, golden.txt has %d", len(all), len(want))
	}
	for name, f := range all {
		list, known := want[name]
		t.Run(name, func(t *testing.T) {
			found, rep := verify(t, f.Folder(t))
			if !known {
				t.Errorf("not in golden.txt; found:\n\t%s", strings.Join(found, "\n\t"))
			} else if !slices.Equal(found, list) {
				t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(found, "\n\t"), strings.Join(list, "\n\t"))
			}
			var g story
			if err := json.Unmarshal(f.JSON, &g); err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 && (rep.Records != g.Fault.BaseRecords || rep.LogEnd != g.Fault.BaseEnd) {
				t.Errorf("%d records to %d, recorded are %d to %d", rep.Records, rep.LogEnd, g.Fault.BaseRecords, g.Fault.BaseEnd)
			}
		})
	}
}

// folders reads the recorded stores that lie in one file together.
func folders(t testing.TB) map[string]*vfstest.Set {
	t.Helper()
	sets, err := vfstest.Sets(filepath.Join(recorded, "folders.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// TestDelaysNotDue: the progress of delayed messages is missed only when one of them may
// have been delivered.
func TestDelaysNotDue(t *testing.T) {
	for _, due := range []bool{true, false} {
		fsys := folders(t)["clean"].Folder(t)
		const queues = "/store/consumequeue/SCHEDULE_TOPIC_XXXX"
		for _, name := range []string{"/store/config/delayOffset.json", "/store/config/delayOffset.json.bak"} {
			if err := fsys.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		ids, err := fsys.ReadDir(queues)
		if err != nil || len(ids) == 0 {
			t.Fatal(ids, err)
		}
		for _, id := range ids {
			files, err := fsys.ReadDir(path.Join(queues, id.Name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := fsys.OpenReadWrite(path.Join(queues, id.Name, files[0].Name))
			if err == nil && !due {
				_, err = f.WriteAt([]byte{0x7f}, 12) // the time of delivery of its first message
			}
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		found, _ := verify(t, fsys)
		if missed := strings.Contains(strings.Join(found, "\n"), "MISSING_FILE config/delayOffset.json"); missed != due {
			t.Errorf("due %v: %q", due, found)
		}
	}
}
