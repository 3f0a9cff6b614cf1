package keyindex_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// golden is a store folder as Apache 5.3.3 left it.
type golden struct {
	indexNames []string
	index      map[string][]byte
	log        []byte
}

// goldenOptions are the settings of that broker.
var goldenOptions = keyindex.Options{Slots: 64, Entries: 256}

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	f, err := os.Open("../../../testdata/store/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{index: map[string][]byte{}}
	logs := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch base := path.Base(h.Name); {
		case h.Typeflag == tar.TypeDir:
		case strings.HasPrefix(h.Name, "store/index/"):
			g.index[base] = b
			g.indexNames = append(g.indexNames, base)
		case strings.HasPrefix(h.Name, "store/commitlog/"):
			logs[base] = b
		}
	}
	slices.Sort(g.indexNames)
	var names []string
	for n := range logs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		g.log = append(g.log, logs[n]...)
	}
	return g
}

// key is one call of Put.
type key struct {
	topic, text  string
	hash         int32
	phys, millis int64
}

// keys lists what IndexService.buildIndex files, in order.
func (g golden) keys(t testing.TB) []key {
	t.Helper()
	var out []key
	for at := 0; ; {
		v, err := record.Parse(g.log[at:])
		if errors.Is(err, record.ErrBlank) {
			left, _ := record.Blank(g.log[at:])
			at += int(left)
			continue
		}
		if err != nil {
			return out
		}
		at += v.Size()
		if v.SysFlag()&record.FlagTransaction == record.FlagRollback {
			continue
		}
		add := func(text string) {
			topic := string(v.Topic())
			out = append(out, key{topic, text, keyindex.KeyHash(topic, text), int64(v.PhysOffset()), v.StoreMillis()})
		}
		// 5.3.3 takes the last UNIQ_KEY, which in a batch is the batch's.
		var unique, keys string
		record.EachProperty(v.Properties(), func(name, value []byte) bool {
			switch string(name) {
			case "UNIQ_KEY":
				unique = string(value)
			case "KEYS":
				keys = string(value)
			}
			return true
		})
		if unique != "" {
			add(unique)
		}
		for _, k := range strings.Split(keys, " ") {
			if k != "" {
				add(k)
			}
		}
	}
}

// write puts Apache's index files into a new file system.
func (g golden) write(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/index"); err != nil {
		t.Fatal(err)
	}
	for name, b := range g.index {
		if err := vfs.WriteFile(mem, "/index/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

func readIndex(t testing.TB, fsys vfs.FS) [][]byte {
	t.Helper()
	entries, err := fsys.ReadDir("/index")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, e := range entries {
		b, err := vfs.ReadFile(fsys, "/index/"+e.Name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func equalFiles(t testing.TB, got [][]byte, g golden) {
	t.Helper()
	if len(got) != len(g.indexNames) {
		t.Fatalf("%d files, Apache made %d", len(got), len(g.indexNames))
	}
	for i, name := range g.indexNames {
		if want := g.index[name]; !bytes.Equal(got[i], want) {
			for at := range want {
				if got[i][at] != want[at] {
					t.Fatalf("file %d differs from Apache's %s from byte %d on:\n got %x\nwant %x", i, name, at,
						got[i][at:min(at+40, len(want))], want[at:min(at+40, len(want))])
				}
			}
			t.Fatalf("file %d has %d bytes, Apache's %s %d", i, len(got[i]), name, len(want))
		}
	}
}

// The same keys make the same files as Apache's broker made, byte for byte,
// whenever flushes come in between.
func TestGoldenBytes(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)
	if len(keys) < 1000 {
		t.Fatalf("only %d keys in the log", len(keys))
	}
	for _, every := range []int{1, 7, 300, 1 << 30} {
		t.Run(fmt.Sprintf("flush every %d", every), func(t *testing.T) {
			mem := vfs.NewMem()
			x := open(t, mem, goldenOptions)
			for i, k := range keys {
				if err := x.Put(k.hash, k.phys, k.millis); err != nil {
					t.Fatal(err)
				}
				if i%every == every-1 {
					if err := x.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			equalFiles(t, readIndex(t, mem), g)
		})
	}
}

// Apache's files continue where they stop: cut the log anywhere, open what
// Apache has, file the rest, and get the same bytes.
func TestGoldenContinue(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)
	for _, n := range []int{0, 1, 2, 254, 255, 256, 257, 600, len(keys) - 1} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d keys, clean %v", n, clean), func(t *testing.T) {
				mem := vfs.NewMem()
				x := open(t, mem, goldenOptions)
				for _, k := range keys[:n] {
					put(t, x, k)
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				o := goldenOptions
				o.Clean = clean
				x = open(t, mem, o)
				from := x.EndPhys()
				// A record whose keys are half filed cannot be the last of a
				// clean stop; here it can, and Put goes on with its rest.
				for i, k := range keys {
					if clean && i >= n || !clean && k.phys > from {
						put(t, x, k)
					}
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				equalFiles(t, readIndex(t, mem), g)
			})
		}
	}
}

// Every key of the log is found in Apache's own files, at any range of time
// that has its record, and at no other.
func TestGoldenQuery(t *testing.T) {
	g := readGolden(t, "clean")
	keys := g.keys(t)
	for _, clean := range []bool{true, false} {
		o := goldenOptions
		o.Clean = clean
		mem := g.write(t)
		x := open(t, mem, o)
		end := x.EndPhys()
		if last := keys[len(keys)-1].phys; clean && end != last || !clean && end >= last {
			t.Errorf("clean %v: EndPhys is %d, last record %d", clean, end, last)
		}
		for _, k := range keys {
			if k.phys > end {
				continue
			}
			for _, r := range [][2]int64{{0, 1 << 62}, {k.millis, k.millis}, {k.millis - 5, k.millis + 5}} {
				if got := query(t, x, k.hash, 0, r[0], r[1]); !slices.Contains(got, k.phys) {
					t.Fatalf("clean %v: %s#%s at %d, %d ms: range %v finds %v", clean, k.topic, k.text, k.phys, k.millis, r, got)
				}
			}
			for _, r := range [][2]int64{{0, k.millis - 1001}, {k.millis + 1000, 1 << 62}} {
				for _, phys := range query(t, x, k.hash, 0, r[0], r[1]) {
					if phys == k.phys && !duplicate(keys, k) {
						t.Fatalf("%s#%s, stored at %d ms, is found in range %v", k.topic, k.text, k.millis, r)
					}
				}
			}
		}
		millis, phys := x.LastUpdate()
		if clean && (phys != end || millis != keys[len(keys)-1].millis) {
			t.Errorf("LastUpdate %d %d", millis, phys)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if clean {
			equalFiles(t, readIndex(t, mem), g) // reading changes nothing
		}
	}
}

// duplicate reports whether another record has the same hash.
func duplicate(keys []key, k key) bool {
	n := 0
	for _, o := range keys {
		if o.hash == k.hash && o.phys == k.phys {
			n++
		}
	}
	return n > 1
}

func open(t testing.TB, fsys vfs.FS, o keyindex.Options) *keyindex.Index {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return time.Date(2026, 11, 29, 16, 25, 6, 0, time.Local) }
	}
	x, err := keyindex.Open(fsys, "/index", o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func put(t testing.TB, x *keyindex.Index, k key) {
	t.Helper()
	if err := x.Put(k.hash, k.phys, k.millis); err != nil {
		t.Fatal(err)
	}
}

func query(t testing.TB, x *keyindex.Index, hash int32, max int, begin, end int64) []int64 {
	t.Helper()
	var out []int64
	if err := x.Query(hash, max, begin, end, func(phys int64) bool {
		out = append(out, phys)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
