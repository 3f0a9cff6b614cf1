package store_test

import (
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/vfs"
)

// TestPutAwayFolderAndItsFile: a file is named and the folder it lies in too; one move
// takes both.
func TestPutAwayFolderAndItsFile(t *testing.T) {
	mem := vfs.NewMem()
	for _, dir := range []string{"s/index/20261130093805999", "s/consumequeue/T/0"} {
		if err := vfs.MkdirAllSync(mem, dir); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(mem, dir+"/f", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	to, err := store.PutAway(mem, "s", time.Unix(1, 0), []string{"index/20261130093805999", "consumequeue/T/0/f", "index", "index"}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index/20261130093805999/f", "consumequeue/T/0/f"} {
		if _, err := mem.Stat("s/" + to + "/" + name); err != nil {
			t.Error(err)
		}
		if _, err := mem.Stat("s/" + name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
