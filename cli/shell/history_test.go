package shell

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// With a pipe in the place of its file the history lives in memory, and says so.
func TestHistoryPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		h, err := OpenHistory(path, 10)
		if aerr := h.Add("topic list"); aerr != nil || len(h.Lines()) != 1 {
			t.Errorf("a line in memory: %v %v", h.Lines(), aerr)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it waits")
	}
}
