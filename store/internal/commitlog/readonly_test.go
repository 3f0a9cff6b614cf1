package commitlog

import (
	"testing"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// TestOpenRead reads files through a log that was opened for reading only, more often
// than reads may be under way at a time; a short file is as long as the others.
func TestOpenRead(t *testing.T) {
	mem := vfs.NewMem()
	files := []segfile.Found{{Base: 0}, {Base: 16}}
	for i, text := range []string{"0123456789abcdef", "ghij"} {
		if err := vfs.WriteFile(mem, "/"+segfile.Name(files[i].Base), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenRead(mem, "/", 16, files)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 100 {
		for pos, want := range map[int64]string{12: "cdef", 16: "ghij", 18: "ij\x00\x00"} {
			b := make([]byte, 4)
			if ok, err := l.Read(b, pos); !ok || err != nil || string(b) != want {
				t.Fatalf("read %d at %d: %q, %v, %v", i, pos, b, ok, err)
			}
		}
	}
	if ok, err := l.Read(make([]byte, 4), 14); ok || err != nil {
		t.Errorf("a read over the end of a file: %v, %v", ok, err)
	}
}
