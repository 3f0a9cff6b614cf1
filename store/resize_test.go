package store

import (
	"fmt"
	"testing"
	"time"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// A file of the log that is too long keeps all its messages, and one that is too short all
// that it has; nothing that is taken off is lost.
func TestResize(t *testing.T) {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/s/commitlog"); err != nil {
		t.Fatal(err)
	}
	for base, text := range map[int64]string{0: "0123456789AB", 8: "abc"} {
		if err := vfs.WriteFile(fsys, "/s/commitlog/"+segfile.Name(base), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	to, err := Resize(fsys, "/s", "", now, []OddFile{{Base: 0, Size: 8}, {Base: 8, Size: 8}})
	if err != nil {
		t.Fatal(err)
	}
	rest := fmt.Sprintf("/s/%s/commitlog/%s.from-8", to, segfile.Name(0))
	for name, want := range map[string]string{
		"/s/commitlog/" + segfile.Name(0): "01234567",
		"/s/commitlog/" + segfile.Name(8): "abc\x00\x00\x00\x00\x00",
		rest:                              "89AB",
	} {
		got, err := vfs.ReadFile(fsys, name, 100)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
