package store_test

import (
	"fmt"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// A file of the key index that changed while the broker was stopped, after a clean stop, is
// noticed by the next start and made again: no key is lost.
func TestIndexChangedWhileStopped(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	s, _ := open(t, o)
	const n = 600 // two keys each: five files
	for i := range n {
		put(t, s, fmt.Sprint("t", i%3), 0, "b", "UNIQ_KEY", fmt.Sprint("u", i), "KEYS", fmt.Sprint("k", i))
		if i%50 == 0 {
			s.KeepOnce() // so that files get different names
		}
	}
	closeStore(t, s)
	entries, err := mem.ReadDir("/store/index")
	if err != nil || len(entries) != 5 {
		t.Fatal(entries, err)
	}
	changes := map[string]func(m *vfs.Mem, name string) error{
		"truncated": func(m *vfs.Mem, name string) error { return vfs.WriteFile(m, name, []byte("torn")) },
		"shorter": func(m *vfs.Mem, name string) error {
			b, err := vfs.ReadFile(m, name, 1<<20)
			if err != nil {
				return err
			}
			return vfs.WriteFile(m, name, b[:1000])
		},
		"zeros": func(m *vfs.Mem, name string) error { return vfs.WriteFile(m, name, make([]byte, entries[0].Size)) },
		"gone":  func(m *vfs.Mem, name string) error { return m.Remove(name) },
	}
	for what, change := range changes {
		for i := range entries {
			m := mem.ProcessKillClone()
			if err := change(m, "/store/index/"+entries[i].Name); err != nil {
				t.Fatal(err)
			}
			o.FS = m
			s, rec := open(t, o)
			if len(rec.Findings) == 0 || rec.Findings[0].Kind != store.IndexDamaged {
				t.Errorf("file %d %s: %v", i, what, rec.Findings)
			}
			for j := range n {
				for _, key := range []string{"u", "k"} {
					if _, res := s.Query(nil, fmt.Sprint("t", j%3), fmt.Sprint(key, j), 8, 0, 1<<60, key == "u"); res.Count != 1 {
						t.Fatalf("file %d %s: %d messages with the key %s%d", i, what, res.Count, key, j)
					}
				}
			}
			closeStore(t, s)
			s, rec = open(t, o)
			if len(rec.Findings) > 0 {
				t.Errorf("file %d %s, the second time: %v", i, what, rec.Findings)
			}
			closeStore(t, s)
		}
	}
}
