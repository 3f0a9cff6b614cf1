package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mqctl/store/vfs"
)

// both runs a test on the real file system and on the one in memory, which
// must agree.
func both(t *testing.T, f func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("OS", func(t *testing.T) { f(t, vfs.OS{}, t.TempDir()) })
	t.Run("Mem", func(t *testing.T) {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/tmp/x"))
		f(t, mem, "/tmp/x")
	})
	t.Run("Injector", func(t *testing.T) { f(t, vfs.NewInjector(vfs.OS{}), t.TempDir()) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, fsys vfs.FS, name, text string) {
	t.Helper()
	must(t, vfs.WriteFile(fsys, name, []byte(text)))
}

func read(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	return string(b)
}

func TestFiles(t *testing.T) {
	both(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		must(t, err)
		if f.Name() != name {
			t.Errorf("Name %q", f.Name())
		}
		if n, err := f.WriteAt([]byte("hello"), 10000); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		b := make([]byte, 8)
		if n, err := f.ReadAt(b, 9998); n != 7 || !errors.Is(err, io.EOF) || string(b[:7]) != "\x00\x00hello" {
			t.Errorf("read %d %v %q", n, err, b)
		}
		if n, err := f.ReadAt(b, 10005); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read at the end: %d %v", n, err)
		}
		if n, err := f.ReadAt(b[:5], 10000); n != 5 || err != nil {
			t.Errorf("read of the last bytes: %d %v", n, err)
		}
		sizeIs(t, f, 10005)
		must(t, f.Truncate(10002))
		must(t, f.Truncate(20000))
		if n, err := f.ReadAt(b, 10000); n != 8 || err != nil || string(b) != "he\x00\x00\x00\x00\x00\x00" {
			t.Errorf("after truncation: %d %v %q", n, err, b)
		}
		must(t, f.Preallocate(1<<20))
		sizeIs(t, f, 1<<20)
		must(t, f.Preallocate(100))
		must(t, f.Preallocate(0))
		sizeIs(t, f, 1<<20)
		must(t, f.Sync())
		must(t, f.Datasync())
		must(t, f.Close())
		if _, err := f.WriteAt(b, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("write to a closed file: %v", err)
		}
		if err := f.Datasync(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("sync of a closed file: %v", err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		r, err := fsys.Open(name)
		must(t, err)
		if _, err := r.WriteAt(b, 0); err == nil {
			t.Error("a file opened for reading was written")
		}
		must(t, r.Close())
		w, err := fsys.OpenReadWrite(name)
		must(t, err)
		_, err = w.WriteAt([]byte("x"), 0)
		must(t, err)
		must(t, w.Close())
		if _, err := vfs.ReadFile(fsys, name, 1<<20-1); err == nil {
			t.Error("a file larger than the limit was read")
		}
		f, err = fsys.Create(name)
		must(t, err)
		sizeIs(t, f, 0)
		must(t, f.Close())
	})
}

func sizeIs(t testing.TB, f vfs.File, want int64) {
	t.Helper()
	if n, err := f.Size(); err != nil || n != want {
		t.Errorf("size %d %v, want %d", n, err, want)
	}
}

func TestNames(t *testing.T) {
	both(t, func(t *testing.T, fsys vfs.FS, dir string) {
		at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
		must(t, fsys.MkdirAll(at("d", "e")))
		must(t, fsys.MkdirAll(at("d", "e")))
		write(t, fsys, at("d", "b"), "b")
		write(t, fsys, at("d", "a"), "aa")
		list, err := fsys.ReadDir(at("d"))
		must(t, err)
		var names []string
		for _, e := range list {
			names = append(names, fmt.Sprintf("%s %v", e.Name, e.Dir))
			if !e.Dir && (e.Size != int64(len(e.Name))*int64(len(read(t, fsys, at("d", e.Name)))) || e.ModMillis < 1e12) {
				t.Errorf("entry %+v", e)
			}
		}
		if got := strings.Join(names, ","); got != "a false,b false,e true" {
			t.Errorf("list %s", got)
		}
		must(t, fsys.Link(at("d", "a"), at("d", "l")))
		must(t, fsys.Rename(at("d", "b"), at("d", "a")))
		if a, l := read(t, fsys, at("d", "a")), read(t, fsys, at("d", "l")); a != "b" || l != "aa" {
			t.Errorf("after link and rename: a %q, l %q", a, l)
		}
		must(t, fsys.Rename(at("d"), at("d2")))
		must(t, fsys.Rename(at("d2", "l"), at("moved")))
		must(t, fsys.SyncDir(dir))
		if e, err := fsys.Stat(at("moved")); err != nil || e.Name != "moved" || e.Size != 2 || e.Dir {
			t.Errorf("stat %+v %v", e, err)
		}
		if e, err := fsys.Stat(at("d2")); err != nil || !e.Dir {
			t.Errorf("stat %+v %v", e, err)
		}
		must(t, vfs.MkdirAllSync(fsys, at("p", "q", "r")))
		must(t, vfs.MkdirAllSync(fsys, at("p", "q", "r")))
		must(t, fsys.Remove(at("p", "q", "r")))
		must(t, fsys.RemoveAll(at("d2")))
		must(t, fsys.RemoveAll(at("d2", "none")))
		for what, c := range map[string]struct {
			err, want error
		}{
			"open":         {second(fsys.Open(at("none"))), fs.ErrNotExist},
			"open rw":      {second(fsys.OpenReadWrite(at("none"))), fs.ErrNotExist},
			"create":       {second(fsys.Create(at("none", "x"))), fs.ErrNotExist},
			"create dir":   {second(fsys.Create(at("p"))), syscall.EISDIR},
			"remove":       {fsys.Remove(at("none")), fs.ErrNotExist},
			"remove full":  {fsys.Remove(at("p")), syscall.ENOTEMPTY},
			"rename":       {fsys.Rename(at("none"), at("x")), fs.ErrNotExist},
			"rename to":    {fsys.Rename(at("moved"), at("none", "x")), fs.ErrNotExist},
			"link":         {fsys.Link(at("none"), at("x")), fs.ErrNotExist},
			"link to old":  {fsys.Link(at("moved"), at("p")), fs.ErrExist},
			"stat":         {second(fsys.Stat(at("none"))), fs.ErrNotExist},
			"readdir":      {second(fsys.ReadDir(at("none"))), fs.ErrNotExist},
			"readdir file": {second(fsys.ReadDir(at("moved"))), syscall.ENOTDIR},
			"mkdir file":   {fsys.MkdirAll(at("moved", "x")), syscall.ENOTDIR},
			"syncdir":      {fsys.SyncDir(at("none")), fs.ErrNotExist},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", what, c.err, c.want)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenFilesOutliveTheirNames(t *testing.T) {
	both(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, fsys, name, "still here")
		f, err := fsys.Open(name)
		must(t, err)
		must(t, fsys.Remove(name))
		b := make([]byte, 5)
		if _, err := f.ReadAt(b, 6); err == nil || string(b[:4]) != "here" {
			t.Errorf("%q %v", b, err)
		}
		must(t, f.Close())
	})
}

func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, fsys vfs.FS, dir string) {
		u, err := fsys.Usage(dir)
		must(t, err)
		if u.Total <= 0 || u.Free > u.Total || u.Avail > u.Free || u.Avail < 0 {
			t.Errorf("usage %+v", u)
		}
		if _, err := fsys.Usage(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("usage of nothing: %v", err)
		}
	})
}

func TestLock(t *testing.T) {
	both(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "lock")
		for range 2 {
			l, err := fsys.Lock(name)
			must(t, err)
			if read := lockText(t, fsys, name); read != "lock" {
				t.Errorf("lock file holds %q", read)
			}
			_, err = fsys.Lock(name)
			var held *vfs.LockedError
			if !errors.As(err, &held) || !errors.Is(err, vfs.ErrLocked) || held.PID != os.Getpid() || held.Path != name {
				t.Errorf("second lock: %v", err)
			}
			must(t, l.Close())
			_ = l.Close()
		}
		if _, err := fsys.Lock(filepath.Join(dir, "none", "lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("lock in a missing folder: %v", err)
		}
	})
}

// lockText reads a lock file. On a real file system the size has to do: a
// process that opens and closes its own lock file loses the lock.
func lockText(t *testing.T, fsys vfs.FS, name string) string {
	if _, ok := fsys.(*vfs.Mem); ok {
		return read(t, fsys, name)
	}
	e, err := fsys.Stat(name)
	must(t, err)
	return "lock"[:e.Size]
}

func TestLockedErrorText(t *testing.T) {
	for _, e := range []*vfs.LockedError{{Path: "/data/lock", PID: 17}, {Path: "/data/lock"}} {
		if s := e.Error(); !strings.Contains(s, "/data/lock") || strings.Contains(s, "17") != (e.PID == 17) || strings.Contains(s, "process 0") {
			t.Errorf("text %q", s)
		}
	}
}

// A file of a GiB takes the memory of what is written to it.
func TestMemIsSparse(t *testing.T) {
	mem := vfs.NewMem()
	n := testing.AllocsPerRun(1, func() {
		f, err := mem.Create("/seg")
		must(t, err)
		must(t, f.Preallocate(1<<30))
		_, err = f.WriteAt([]byte("end"), 1<<30-3)
		must(t, err)
		must(t, f.Close())
	})
	if n > 50 {
		t.Errorf("%v allocations", n)
	}
	c := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateKept, Names: vfs.FateKept})
	f, err := c.Open("/seg")
	must(t, err)
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 1<<30-4); err != nil || string(b) != "\x00end" {
		t.Errorf("%q %v", b, err)
	}
}

func TestMemFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	mem.SetCapacity(16 << 10)
	f, err := mem.Create("/a")
	must(t, err)
	n, err := f.WriteAt(make([]byte, 20<<10), 0)
	if n != 16<<10 || !vfs.DiskFull(err) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if u, err := mem.Usage("/"); err != nil || u != (vfs.Usage{Total: 16 << 10}) {
		t.Errorf("usage %+v %v", u, err)
	}
	must(t, f.Truncate(5000))
	if err := f.Preallocate(20 << 10); !vfs.DiskFull(err) {
		t.Errorf("preallocate: %v", err)
	}
	must(t, f.Preallocate(12<<10))
	if _, err := f.WriteAt(make([]byte, 12<<10), 0); err != nil {
		t.Errorf("write to reserved blocks: %v", err)
	}
	g, err := mem.Create("/b")
	must(t, err)
	if n, err := g.WriteAt(make([]byte, 8<<10), 0); n != 4<<10 || !vfs.DiskFull(err) {
		t.Errorf("wrote %d: %v", n, err)
	}
	must(t, mem.Remove("/a"))
	if _, err := g.WriteAt(make([]byte, 4<<10), 4<<10); !vfs.DiskFull(err) {
		t.Errorf("space of an open file was given away: %v", err)
	}
	must(t, f.Close())
	if _, err := g.WriteAt(make([]byte, 12<<10), 4<<10); err != nil {
		t.Errorf("space of a removed file: %v", err)
	}
	mem.SetCapacity(0)
	if _, err := g.WriteAt(make([]byte, 1<<20), 0); err != nil {
		t.Error(err)
	}
}

func TestInjector(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	var ops []string
	in.OnOp = func(op vfs.Op, path string) { ops = append(ops, string(op)+" "+path) }
	write(t, in, "/a", "hello")
	if got := strings.Join(ops, ","); got != "create /a,write /a,sync /a,close /a" {
		t.Errorf("operations %s", got)
	}
	f, err := in.OpenReadWrite("/a")
	must(t, err)
	in.Fail(vfs.Fault{Op: vfs.OpWrite, Path: "a", Skip: 1, Left: 1, Partial: 2, Err: syscall.ENOSPC})
	_, err = f.WriteAt([]byte("H"), 0)
	must(t, err)
	if n, err := f.WriteAt([]byte("ELLO"), 1); n != 2 || !vfs.DiskFull(err) {
		t.Errorf("short write %d %v", n, err)
	}
	_, err = f.WriteAt([]byte("!"), 5)
	must(t, err)
	if s := read(t, in, "/a"); s != "HELlo!" {
		t.Errorf("after the short write: %q", s)
	}
	in.Fail(vfs.Fault{Op: vfs.OpSync, Err: syscall.EIO})
	if f.Sync() == nil || f.Datasync() == nil {
		t.Error("a failing sync succeeded")
	}
	in.Fail(vfs.Fault{Op: vfs.OpRead, Left: 1, Err: syscall.EIO})
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("read: %v", err)
	}
	in.Heal()
	must(t, f.Sync())
	in.Fail(vfs.Fault{Err: syscall.EROFS})
	for what, err := range map[string]error{
		"create": second(in.Create("/b")), "mkdir": in.MkdirAll("/d"), "remove": in.Remove("/a"), "remove all": in.RemoveAll("/a"),
		"rename": in.Rename("/a", "/b"), "link": in.Link("/a", "/b"), "syncdir": in.SyncDir("/"), "sync": f.Sync(),
		"truncate": f.Truncate(0), "preallocate": f.Preallocate(9), "write": second(f.WriteAt([]byte("x"), 0)),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s on a read-only disk: %v", what, err)
		}
	}
	if read(t, in, "/a") != "HELlo!" || second(in.Stat("/a")) != nil || second(in.ReadDir("/")) != nil {
		t.Error("reading fails on a read-only disk")
	}
	for _, op := range []vfs.Op{vfs.OpStat, vfs.OpReadDir, vfs.OpUsage, vfs.OpLock, vfs.OpOpen, vfs.OpClose} {
		in.Fail(vfs.Fault{Op: op, Err: syscall.EIO})
	}
	for what, err := range map[string]error{
		"stat": second(in.Stat("/a")), "readdir": second(in.ReadDir("/")), "usage": second(in.Usage("/")),
		"lock": second(in.Lock("/l")), "open": second(in.Open("/a")), "close": f.Close(),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func BenchmarkMemWrite4K(b *testing.B) {
	f, err := vfs.NewMem().Create("/a")
	must(b, err)
	buf := make([]byte, 4096)
	b.SetBytes(4096)
	at := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(buf, at%(64<<20)); err != nil {
			b.Fatal(err)
		}
		at += 4096
	}
}
