package segfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"testing"

	"mqctl/store/vfs"
)

func TestNames(t *testing.T) {
	for _, base := range []int64{0, 1, 1 << 30, math.MaxInt64} {
		if got, ok := Parse(Name(base)); !ok || got != base || len(Name(base)) != 20 {
			t.Errorf("%d: name %s, back %d, %v", base, Name(base), got, ok)
		}
	}
	for _, bad := range []string{"", "0", "00000000000000000000x", "0000000000000000000x", "10000000000000000000", "09223372036854775808", "-0000000000000000001"} {
		if n, ok := Parse(bad); ok {
			t.Errorf("%q is taken for %d", bad, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00000000001073741824")
	f.Add("09223372036854775807")
	f.Fuzz(func(t *testing.T, name string) {
		if base, ok := Parse(name); ok && (base < 0 || Name(base) != name) {
			t.Errorf("%q is %d, which is called %q", name, base, Name(base))
		}
	})
}

func TestCheckSizes(t *testing.T) {
	f := func(sizes ...int64) []Found {
		var out []Found
		for i, s := range sizes {
			out = append(out, Found{Base: int64(i) * 100, Size: s})
		}
		return out
	}
	tests := []struct {
		files     []Found
		want, def int64
		size      int64 // 0: refused
	}{
		{nil, 0, 7, 7},
		{nil, 5, 7, 5},
		{f(100, 100), 0, 7, 100},
		{f(100, 100), 100, 7, 100},
		{f(100, 100), 50, 7, 0},
		{f(100), 50, 7, 0},
		{f(100, 100, 0), 0, 7, 100},
		{f(100, 100, 30), 0, 7, 100},
		{f(100, 30, 100), 0, 7, 0},
		{f(100, 0, 100), 0, 7, 0},
		{f(30, 100), 0, 7, 0},
		{f(0), 0, 100, 100},
		{f(30), 100, 7, 100},
		{[]Found{{Base: 50, Size: 100}}, 0, 7, 0},
		{[]Found{{Base: 300, Size: 100}, {Base: 500, Size: 100}}, 0, 7, 100},
	}
	for _, tt := range tests {
		size, err := CheckSizes("dir", tt.files, tt.want, tt.def)
		var fe *FileError
		if size != tt.size || (err == nil) != (tt.size > 0) || err != nil && !errors.As(err, &fe) {
			t.Errorf("%v with %d: %d, %v; want %d", tt.files, tt.want, size, err, tt.size)
		}
	}
}

func TestCheckShort(t *testing.T) {
	f := func(sizes ...int64) []Found {
		var out []Found
		for i, s := range sizes {
			out = append(out, Found{Base: int64(i) * 100, Size: s})
		}
		return out
	}
	for _, tt := range []struct {
		files []Found
		want  int64
		size  int64 // 0: refused
		short bool
	}{
		{f(100, 100), 0, 100, false},
		{f(100, 100, 30), 100, 100, false},
		{f(100, 30, 100), 0, 100, true},
		{f(0, 100, 100), 100, 100, true},
		{f(30, 100), 0, 100, true},
		{f(0, 0), 0, 0, false}, // nothing to learn the size from
		{f(0, 0), 100, 100, true},
		{f(100, 100), 200, 0, false}, // another size is configured than the files were made with
		{f(100, 100), 50, 0, false},
	} {
		size, err := CheckShort("dir", tt.files, tt.want, 7)
		if size != tt.size || (err == nil) != (tt.size > 0) || err == nil && Short(tt.files, size) != tt.short {
			t.Errorf("%v with %d: %d, %v; want %d, short %v", tt.files, tt.want, size, err, tt.size, tt.short)
		}
	}
}

func TestList(t *testing.T) {
	m := vfs.NewMem()
	if files, foreign, err := List(m, "/none"); len(files)+len(foreign) > 0 || err != nil {
		t.Errorf("missing dir: %v, %v, %v", files, foreign, err)
	}
	if err := m.MkdirAll("/d/sub"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Name(200), Name(100), "x.tmp"} {
		if err := vfs.WriteFile(m, "/d/"+name, []byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	files, foreign, err := List(m, "/d")
	if fmt.Sprint(files, foreign, err) != "[{100 3} {200 3}] [/d/x.tmp] <nil>" {
		t.Error(files, foreign, err)
	}
}

// opener counts what the cache opens.
type opener struct {
	fs     *vfs.Mem
	opened int
}

func (o *opener) OpenAt(base int64) (vfs.File, error) {
	o.opened++
	return o.fs.OpenReadWrite(fmt.Sprint("/", base))
}

func TestCache(t *testing.T) {
	o := &opener{fs: vfs.NewMem()}
	for i := range 5 {
		if err := vfs.WriteFile(o.fs, fmt.Sprint("/", i), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCache(2)
	get := func(base int64) *Handle {
		t.Helper()
		h, err := c.Acquire(o, base)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := h.ReadAt(b[:], 0); err != nil || b[0] != byte(base) {
			t.Fatalf("file %d: %v, %v", base, b, err)
		}
		return h
	}
	for range 3 {
		c.Release(get(0))
		c.Release(get(1))
	}
	if o.opened != 2 {
		t.Errorf("%d opens of two files", o.opened)
	}
	held := get(0)
	for i := range int64(5) {
		c.Release(get(i))
	}
	if held != get(0) {
		t.Error("a file in use was thrown out")
	}
	c.Forget(o)
	if _, err := held.ReadAt(make([]byte, 1), 0); err != nil {
		t.Errorf("read of a forgotten file in use: %v", err)
	}
	c.Release(held)
	c.Release(held)
	if _, err := held.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read of a forgotten file: %v", err)
	}
	if _, err := c.Acquire(o, 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	c.Release(get(1))
	c.Close()
}
