package keyindex_test

import (
	"testing"

	"mqctl/store/vfs"
)

// A file of any content opens, is queried, cut and written on without a panic
// or a loop.
func FuzzOpen(f *testing.F) {
	mem := vfs.NewMem()
	x := open(f, mem, small)
	fill(f, x, 8)
	if err := x.Close(); err != nil {
		f.Fatal(err)
	}
	good := readIndex(f, mem)[0]
	f.Add(good, true, int64(300))
	f.Add(good, false, int64(300))
	f.Fuzz(func(t *testing.T, b []byte, clean bool, cut int64) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/index"); err != nil {
			t.Fatal(err)
		}
		full := make([]byte, len(good))
		copy(full, b)
		if err := vfs.WriteFile(mem, "/index/20261129162506092", full); err != nil {
			t.Fatal(err)
		}
		o := small
		o.Clean = clean
		x := open(t, mem, o)
		for h := range int32(7) {
			n := 0
			if err := x.Query(h, 0, -1<<62, 1<<62, func(int64) bool { n++; return true }); err != nil || n > 10 {
				t.Fatalf("%d candidates, %v", n, err)
			}
		}
		if err := x.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		end := x.EndPhys()
		if end >= max(cut, 0) {
			t.Fatalf("cut at %d, end %d", cut, end)
		}
		millis, _ := x.LastUpdate()
		millis = max(millis, 1e12)
		for i := range int64(15) {
			if err := x.Put(int32(i), max(end, 0)+1+i, millis+i); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		o.Clean = true
		x = open(t, mem, o)
		if x.EndPhys() != max(end, 0)+15 {
			t.Fatalf("end %d", x.EndPhys())
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
