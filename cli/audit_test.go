package cli

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe in the place of the audit file is told; nobody waits for its other end.
func TestAuditPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for op, f := range map[string]func() error{
		"append": func() error { return appendAudit(path, &auditEntry{At: "now"}) },
		"read":   func() error { _, _, err := readAudit(path); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- f() }()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: no error", op)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s waits", op)
		}
	}
}
