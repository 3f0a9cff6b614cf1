package table_test

import (
	"encoding/json"
	"errors"
	"strings"
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
