package table_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"mqctl/store/table"
	"mqctl/store/vfs"
)

// TestFallbackIsNewer: after a fallback the warning names both files, and the version
// goes on behind whatever the lost generation had.
func TestFallbackIsNewer(t *testing.T) {
	fsys := vfs.NewMem()
	f := table.NewFile(fsys, dir, "topics.json")
	for _, text := range []string{`{"counter":7}`, `{"counter":8}`} {
		if err := f.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	version := func() (v table.DataVersion) {
		_, err := f.Load(func(b []byte) error {
			v = table.DataVersion{}
			if !json.Valid(b) {
				return errors.New("no JSON")
			}
			return json.Unmarshal(b, &v)
		})
		if err != nil {
			t.Fatal(err)
		}
		return f.Version(v)
	}
	if v := version(); v.Counter != 8 || f.UsedBak() != nil {
		t.Fatalf("whole: %+v, %v", v, f.UsedBak())
	}
	if err := vfs.WriteFile(fsys, f.Path(), []byte(`{"counter":8`)); err != nil {
		t.Fatal(err)
	}
	if v := version(); v.Counter != 1007 {
		t.Fatalf("after a fallback: %+v", v)
	}
	if why := f.UsedBak().Error(); !strings.Contains(why, f.Path()+" ") || !strings.Contains(why, f.Path()+".bak") {
		t.Fatalf("the warning does not name both files: %s", why)
	}
}

// TestFolderIsSafeWithItsFirstFile: a folder whose making failed half, or whose maker died,
// is not taken for one with a safe name.
func TestFolderIsSafeWithItsFirstFile(t *testing.T) {
	killed := func(in *vfs.Injector) error { return in.MkdirAll(dir) }
	failed := func(in *vfs.Injector) error {
		in.Fail(vfs.Fault{Op: vfs.OpSyncDir, Left: 1, Err: syscall.EIO})
		if err := table.NewFile(in, dir, "other.json").Save([]byte(`"x"`)); err == nil {
			return errors.New("the save should have failed")
		}
		return nil
	}
	for name, before := range map[string]func(*vfs.Injector) error{"killed": killed, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			if err := errors.Join(vfs.MkdirAllSync(mem, "/root"), before(vfs.NewInjector(mem)), table.NewFile(mem, dir, "topics.json").Save([]byte(`"v1"`))); err != nil {
				t.Fatal(err)
			}
			left := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
			if got, found, err := load(t, left); got != `"v1"` || !found || err != nil {
				t.Errorf("after a power loss: %q, %v, %v", got, found, err)
			}
		})
	}
}
