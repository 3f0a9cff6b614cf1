package store_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// TestOutOfFiles: connections can use up the descriptors of a process. That stops
// nothing for good: messages are stored, and visible when files can be opened again.
func TestOutOfFiles(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpOpen} {
		inj := vfs.NewInjector(vfs.NewMem())
		s, _ := open(t, small(inj))
		for _, dir := range []string{"consumequeue", "mqctl", "index"} {
			inj.Fail(vfs.Fault{Op: op, Path: dir, Err: syscall.EMFILE})
		}
		for range 100 {
			put(t, s, "orders", 0, "x", "KEYS", "k")
			s.KeepOnce()
		}
		_ = s.Mark()
		if err := s.Writable(); err != nil {
			t.Errorf("%s: %v", op, err)
		}
		inj.Heal()
		s.KeepOnce()
		if err := s.Mark(); err != nil {
			t.Errorf("%s: %v", op, err)
		}
		put(t, s, "orders", 0, "last")
		closeStore(t, s)
		again, rec := open(t, small(inj))
		if got := readAll(t, again, again.Lookup([]byte("orders"), 0)); len(got) != 101 || !rec.Clean {
			t.Errorf("%s: %d messages, recovery %+v", op, len(got), rec)
		}
		closeStore(t, again)
	}
}

// TestReadErrorSkipsNothing: a message that the disk refuses now is not passed over.
func TestReadErrorSkipsNothing(t *testing.T) {
	cases := map[string]struct {
		dir  string
		op   vfs.Op
		skip int // reads that succeed first
		err  error
		next record.QueueOffset
	}{
		"log":         {"commitlog", vfs.OpRead, 0, syscall.EIO, 0},
		"second file": {"commitlog", vfs.OpRead, 1, syscall.EIO, 8},
		"queue":       {"consumequeue", vfs.OpRead, 0, syscall.EIO, 0},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			inj := vfs.NewInjector(vfs.NewMem())
			s, _ := open(t, small(inj))
			for range 20 {
				put(t, s, "orders", 0, strings.Repeat("x", 400))
			}
			closeStore(t, s)
			s, _ = open(t, small(inj)) // nothing is in memory
			defer func() { closeStore(t, s) }()
			q := s.Lookup([]byte("orders"), 0)
			inj.Fail(vfs.Fault{Op: tt.op, Path: tt.dir, Skip: tt.skip, Err: tt.err})
			b, res := s.Read(nil, q, 0, 32, nil)
			if !errors.Is(res.Err, tt.err) || res.Next != tt.next || res.Count != int(tt.next) || len(views(t, b)) != int(tt.next) {
				t.Errorf("%v, next %d, %d messages, error %v", res.Status, res.Next, res.Count, res.Err)
			}
			if (res.Status == store.Found) != (tt.next > 0) {
				t.Errorf("status %v", res.Status)
			}
			inj.Heal()
			if got := readAll(t, s, q); len(got) != 20 {
				t.Errorf("%d messages after it healed", len(got))
			}
		})
	}
}
