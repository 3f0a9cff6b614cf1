package store_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// A noted hole behind the end of the log is dropped by a start, whether the store was stopped
// or killed: messages that come to lie there later are served.
func TestHoleOutsideOfLog(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			fsys := vfs.NewMem()
			s, _ := open(t, small(fsys))
			put(t, s, "orders", 0, "one")
			s.KeepOnce()
			end := s.Positions().Max
			if killed {
				fsys = fsys.ProcessKillClone()
			}
			closeStore(t, s)
			text := fmt.Appendf(nil, "mqctl-holes 1\ndamaged %d %d 5\n", end, end+400)
			if err := vfs.WriteFile(fsys, "/store/mqctl/holes", fmt.Appendf(text, "crc %08x\n", crc32.ChecksumIEEE(text))); err != nil {
				t.Fatal(err)
			}
			s, rec := open(t, small(fsys))
			defer closeStore(t, s)
			if len(s.Holes()) > 0 {
				t.Errorf("holes %v; %+v", s.Holes(), rec)
			}
			put(t, s, "orders", 0, "two")
			b, res := s.Read(nil, s.Lookup([]byte("orders"), 0), 0, 32, nil)
			if res.Status != store.Found || res.Count != 2 || !bytes.Contains(b, []byte("two")) {
				t.Errorf("%+v", res)
			}
		})
	}
}
