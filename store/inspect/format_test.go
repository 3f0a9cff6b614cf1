package inspect_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mqctl/store/vfs"
)

// FORMAT.md shows what RocketMQ wrote.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		store, file string
		from, to    int // lines of the dump
	}{
		{"queue-ext", "consumequeue_ext/orders/0/00000000000000000000", 0, 3},
		{"batch-queue", "batchconsumequeue/*/0/00000000000000000000", 0, 3},
		{"clean", "config/delayOffset.json", 6, 8},
	} {
		fsys := unpack(t, tt.store)
		name := "/store/" + tt.file
		if dir, rest, ok := strings.Cut(name, "/*/"); ok {
			topics, err := fsys.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			name = dir + "/" + topics[0].Name + "/" + rest
		}
		b, err := vfs.ReadFile(fsys, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(hex.Dump(b)), "\n")
		for _, line := range lines[tt.from:tt.to] {
			if !strings.Contains(string(page), strings.TrimSpace(line)) {
				t.Errorf("%s: the page does not show\n%s", tt.file, line)
			}
		}
	}
}
