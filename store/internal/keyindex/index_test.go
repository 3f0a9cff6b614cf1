package keyindex_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mqctl/store/internal/keyindex"
	"mqctl/store/vfs"
)

// Vectors made with a JVM.
func TestKeyHash(t *testing.T) {
	for _, c := range []struct {
		topic, key string
		want       int32
	}{
		{"orders", "ORD-20417", 1077077042},
	} {
		if got := keyindex.KeyHash(c.topic, []byte(c.key)); got != c.want || got%5000000 != 2077042 {
			t.Errorf("KeyHash(%q, %q) = %d, want %d", c.topic, c.key, got, c.want)
		}
	}
	// abs, and 0 where it does not exist: a topic that makes the hash of
	// "polygenelubricants" needs no "#", so look for any negative ones.
	negative := 0
	for i := range 1000 {
		h := keyindex.KeyHash("t", fmt.Sprint(i))
		if h < 0 {
			t.Fatalf("key %d has hash %d", i, h)
		}
		if h == 0 {
			negative++
		}
	}
	if negative > 1 {
		t.Errorf("%d keys have hash 0", negative)
	}
}

// fill makes an index of records 100 apart, one key each, one second apart;
// hash i%7.
func fill(t testing.TB, x *keyindex.Index, n int) {
	t.Helper()
	for i := range n {
		if err := x.Put(int32(i%7), int64(i)*100, 1e12+int64(i)*1000); err != nil {
			t.Fatal(err)
		}
	}
}

var small = keyindex.Options{Slots: 3, Entries: 11} // ten entries a file

func TestQueryBounds(t *testing.T) {
	for _, flushed := range []string{"memory", "flushed", "reopened"} {
		t.Run(flushed, func(t *testing.T) {
			mem := vfs.NewMem()
			x := open(t, mem, small)
			fill(t, x, 70)
			if flushed != "memory" {
				if err := x.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if flushed == "reopened" {
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				o := small
				o.Clean = true
				x = open(t, mem, o)
			}
			at := func(i int64) int64 { return 1e12 + i*1000 }
			if got := query(t, x, 3, 0, 0, 1<<62); !slices.Equal(got, []int64{6600, 5900, 5200, 4500, 3800, 3100, 2400, 1700, 1000, 300}) {
				t.Errorf("all: %v", got)
			}
			if got := query(t, x, 3, 2, 0, 1<<62); !slices.Equal(got, []int64{6600, 5900}) {
				t.Errorf("two: %v", got)
			}
			if got := query(t, x, 3, 0, at(17), at(31)); !slices.Equal(got, []int64{3100, 2400, 1700}) {
				t.Errorf("range: %v", got)
			}
			if got := query(t, x, 3, 0, at(18)+1, at(30)); !slices.Equal(got, []int64{2400}) {
				t.Errorf("narrower range: %v", got)
			}
			for what, got := range map[string][]int64{
				"no such hash":   query(t, x, 1000003, 0, 0, 1<<62),
				"negative hash":  query(t, x, -1, 0, 0, 1<<62),
				"before all":     query(t, x, 3, 0, 0, at(-2)),
				"after all":      query(t, x, 3, 0, at(72), 1<<62),
				"reversed range": query(t, x, 3, 0, at(40), at(20)),
			} {
				if len(got) != 0 {
					t.Errorf("%s: %v", what, got)
				}
			}
			n := 0
			if err := x.Query(3, 0, 0, 1<<62, func(int64) bool { n++; return n < 4 }); err != nil || n != 4 {
				t.Errorf("stopped after %d: %v", n, err)
			}
			if millis, phys := x.LastUpdate(); millis != at(69) || phys != 6900 || x.EndPhys() != 6900 {
				t.Errorf("last update %d %d, end %d", millis, phys, x.EndPhys())
			}
		})
	}
}

func names(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	list, err := fsys.ReadDir("/index")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}

// Names are 17 digits of local time and increase, also when the clock stands
// still, goes back, or foreign names are ahead of it.
func TestNames(t *testing.T) {
	mem := vfs.NewMem()
	now := time.Date(2026, 12, 31, 23, 59, 59, 998e6, time.Local)
	o := small
	o.Now = func() time.Time { return now }
	x := open(t, mem, o)
	fill(t, x, 10)
	now = now.Add(-time.Hour)
	fill(t, x, 30)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"20261231235959998", "20261231235959999", "20270101000000000", "20270101000000001"}
	if got := names(t, mem); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}

func TestOpenIgnoresForeignFiles(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, small)
	fill(t, x, 25)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	full, err := vfs.ReadFile(mem, "/index/"+names(t, mem)[0], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"notes.txt": full, "2026112916250699x": full, // not ours
		"20300101000000000": append(slices.Clone(full), 0), // of another geometry
		"20300101000000001": nil,                           // made just before a crash
		"20300101000000002": make([]byte, 4096),
	} {
		if err := vfs.WriteFile(mem, "/index/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	o := small
	o.Clean = true
	x = open(t, mem, o)
	if len(x.Notes()) != 1 || x.EndPhys() != 2400 {
		t.Errorf("notes %q, end %d", x.Notes(), x.EndPhys())
	}
	got := names(t, mem)
	for name, want := range map[string]bool{"notes.txt": true, "2026112916250699x": true, "20300101000000000": true, "20300101000000001": false, "20300101000000002": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []keyindex.Options{{Slots: -1}, {Entries: 1}, {Slots: 1 << 31}, {Entries: 1 << 31}} {
		if _, err := keyindex.Open(mem, "/index", bad); err == nil {
			t.Errorf("opened with %+v", bad)
		}
	}
}

func TestEmptyIndex(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, keyindex.Options{})
	if x.EndPhys() != -1 {
		t.Errorf("end %d", x.EndPhys())
	}
	if m, p := x.LastUpdate(); m != 0 || p != 0 {
		t.Errorf("last update %d %d", m, p)
	}
	if got := query(t, x, 1, 0, 0, 1<<62); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	for _, f := range []func() error{x.Flush, x.Sync, func() error { return x.Truncate(0) }, func() error { return x.DropBelow(1 << 40) }, x.Close} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	if _, err := mem.Stat("/index"); err == nil {
		t.Error("an empty index left something")
	}
}

// After Truncate the entries behind the end of the log are gone, and the rest
// can be filed again to the same bytes.
func TestTruncate(t *testing.T) {
	for _, at := range []int64{-1, 0, 1, 100, 900, 901, 1000, 1050, 2400, 2401, 9999} {
		mem, want := vfs.NewMem(), vfs.NewMem()
		w := open(t, want, small)
		fill(t, w, 25)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		x := open(t, mem, small)
		fill(t, x, 25)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		o := small
		o.Clean = true
		x = open(t, mem, o)
		if err := x.Truncate(at); err != nil {
			t.Fatal(err)
		}
		end := min((at+99)/100*100-100, 2400)
		if at <= 0 {
			end = -1
		}
		if x.EndPhys() != end {
			t.Errorf("truncated at %d: end %d, want %d", at, x.EndPhys(), end)
		}
		for h := range int32(7) {
			for _, phys := range query(t, x, h, 0, 0, 1<<62) {
				if phys >= at {
					t.Errorf("truncated at %d: record %d is found", at, phys)
				}
			}
		}
		for i := int64(0); i < 25; i++ {
			if i*100 > end {
				if err := x.Put(int32(i%7), i*100, 1e12+i*1000); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(readIndex(t, mem), readIndex(t, want), slices.Equal) {
			t.Errorf("truncated at %d: other bytes than without", at)
		}
	}
}

func TestDropBelow(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, small)
	fill(t, x, 35) // ends at 900, 1900, 2900, 3400
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		min  int64
		want int
	}{{0, 4}, {900, 4}, {901, 3}, {2900, 2}, {1 << 40, 1}} {
		// A query under way keeps its files.
		first := true
		var got []int64
		if err := x.Query(3, 0, 0, 1<<62, func(phys int64) bool {
			if first {
				first = false
				if err := x.DropBelow(c.min); err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, phys)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || first {
			t.Errorf("min %d: query found %v", c.min, got)
		}
		if n := len(names(t, mem)); n != c.want {
			t.Errorf("min %d: %d files, want %d", c.min, n, c.want)
		}
	}
	if got := query(t, x, 3, 0, 0, 1<<62); !slices.Equal(got, []int64{3100}) {
		t.Errorf("found %v", got)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSyncedMillis(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, small)
	fill(t, x, 25)
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := x.SyncedMillis(); got != 0 {
		t.Errorf("synced up to %d after a flush", got)
	}
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := x.SyncedMillis(); got != 1e12+19000 {
		t.Errorf("synced up to %d, want the end of the second file", got)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// Puts, flushes, queries and drops at the same time.
func TestConcurrent(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, keyindex.Options{Slots: 50, Entries: 500})
	const n = 5000
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for i := range n {
			if err := x.Put(int32(i%1000), int64(i), 1e12+int64(i)); err != nil {
				t.Error(err)
			}
		}
	})
	background := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	background(x.Flush)
	background(x.Sync)
	background(func() error {
		end := x.EndPhys()
		if end < 0 {
			return nil
		}
		found := false
		err := x.Query(int32(end%1000), 0, 0, 1<<62, func(phys int64) bool {
			found = found || phys == end
			if phys%1000 != end%1000 {
				t.Errorf("query of %d gives %d", end, phys)
			}
			return true
		})
		if now := x.EndPhys(); !found && now >= 0 && end >= now-3000 { // else it may have been dropped meanwhile
			t.Errorf("record %d was filed and is not found", end)
		}
		return err
	})
	background(func() error { return x.DropBelow(x.EndPhys() - 3000) })
	wg.Wait()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPutDoesNotAllocate(t *testing.T) {
	x := open(t, vfs.NewMem(), keyindex.Options{Slots: 5000, Entries: 1 << 20})
	fill(t, x, 100)
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	topic, text := []byte("orders"), []byte("7F000001000000600000000000000001")
	i := int64(0)
	// More entries than a buffer holds.
	if n := testing.AllocsPerRun(20000, func() {
		if err := x.Put(keyindex.KeyHash(topic, text), 10000+i, 1e12+i); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("Put allocates %v times", n)
	}
}

func BenchmarkPut(b *testing.B) {
	x, err := keyindex.Open(vfs.OS{}, b.TempDir()+"/index", keyindex.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	h := uint32(1)
	i := int64(0)
	for b.Loop() {
		h = h*1664525 + 1013904223
		if err := x.Put(int32(h>>1), i*1100, 1e12+i/400); err != nil {
			b.Fatal(err)
		}
		if i++; i%400000 == 0 { // each second at 400,000 keys
			if err := x.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkKeyHash(b *testing.B) {
	topic, text := []byte("orders"), []byte("7F000001000000600000000000000001")
	for b.Loop() {
		if keyindex.KeyHash(topic, text) < 0 {
			b.Fatal("negative")
		}
	}
}
