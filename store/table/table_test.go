package table_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"mqctl/store/table"
	"mqctl/store/vfs"
)

const dir = "/root/config"

// load returns the content that Load accepts; parse refuses what is not JSON.
func load(t testing.TB, fsys vfs.FS) (string, bool, error) {
	t.Helper()
	var got string
	found, err := table.NewFile(fsys, dir, "topics.json").Load(func(b []byte) error {
		if !json.Valid(b) {
			return errors.New("not JSON")
		}
		got = string(b)
		return nil
	})
	return got, found, err
}

func put(t testing.TB, fsys vfs.FS, files map[string]string) {
	t.Helper()
	if err := vfs.MkdirAllSync(fsys, dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := vfs.WriteFile(fsys, dir+"/"+name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func TestLoadGenerations(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		want    string
		found   bool
		corrupt bool
		usedBak bool
	}{
		{"nothing", nil, "", false, false, false},
		{"main", map[string]string{"topics.json": `1`, "topics.json.bak": `2`}, `1`, true, false, false},
		{"main missing", map[string]string{"topics.json.bak": `2`}, `2`, true, false, true},
		{"main empty", map[string]string{"topics.json": ``, "topics.json.bak": `2`}, `2`, true, false, true},
		{"main torn", map[string]string{"topics.json": `{"a"`, "topics.json.bak": `2`}, `2`, true, false, true},
		{"both torn", map[string]string{"topics.json": `{`, "topics.json.bak": `}`}, "", false, true, false},
		{"main torn, no bak", map[string]string{"topics.json": `{`}, "", false, true, false},
		{"main empty, bak torn", map[string]string{"topics.json": ``, "topics.json.bak": `{`}, "", false, true, false},
		{"both empty", map[string]string{"topics.json": ``, "topics.json.bak": ``}, "", false, false, false},
		{"main empty, no bak", map[string]string{"topics.json": ``}, "", false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			put(t, mem, c.files)
			f := table.NewFile(mem, dir, "topics.json")
			var got string
			found, err := f.Load(func(b []byte) error {
				if !json.Valid(b) {
					return errors.New("not JSON")
				}
				got = string(b)
				return nil
			})
			var corrupt *table.CorruptError
			if errors.As(err, &corrupt) != c.corrupt || err != nil && !c.corrupt {
				t.Fatalf("error %v, corrupt expected: %v", err, c.corrupt)
			}
			if got != c.want || found != c.found {
				t.Errorf("got %q, %v; want %q, %v", got, found, c.want, c.found)
			}
			if (f.UsedBak() != nil) != c.usedBak {
				t.Errorf("UsedBak: %v", f.UsedBak())
			}
			if c.corrupt && (!strings.Contains(err.Error(), "topics.json:") || !strings.Contains(err.Error(), "topics.json.bak:")) {
				t.Errorf("the error does not name both generations: %v", err)
			}
			// Whatever was there, the next save must work and keep the readable one.
			if err := f.Save([]byte(`3`)); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := load(t, mem); got != `3` {
				t.Errorf("after a save: %q", got)
			}
			if c.usedBak {
				if b, err := vfs.ReadFile(mem, dir+"/topics.json.bak", 100); err != nil || string(b) != `2` {
					t.Errorf("the only good old generation was lost: %q %v", b, err)
				}
			}
		})
	}
}

func TestLoadReportsReadErrors(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	put(t, in, map[string]string{"topics.json": `1`, "topics.json.bak": `2`})
	in.Fail(vfs.Fault{Op: vfs.OpRead, Path: "topics.json", Left: 1, Err: syscall.EIO})
	if got, found, err := load(t, in); !errors.Is(err, syscall.EIO) || found {
		t.Errorf("got %q, %v, %v; want EIO and no older generation", got, found, err)
	}
}

func TestSaveKeepsTwoGenerations(t *testing.T) {
	mem := vfs.NewMem()
	f := table.NewFile(mem, dir, "topics.json")
	for i := range 4 {
		if err := f.Save([]byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := mem.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"topics.json", "topics.json.bak"}) {
		t.Errorf("left behind: %v", names)
	}
	for name, want := range map[string]string{"topics.json": "3", "topics.json.bak": "2"} {
		if b, err := vfs.ReadFile(mem, dir+"/"+name, 100); err != nil || string(b) != want {
			t.Errorf("%s: %q %v, want %s", name, b, err, want)
		}
	}
}

// A power loss before any operation of a row of saves, with any part of what
// was not synced lost: the document is the last one saved or the one being
// saved, and the next save works.
func TestSaveCrashAtEveryOperation(t *testing.T) {
	starts := map[string]map[string]string{
		"empty folder":        nil,
		"good main":           {"topics.json": `"v0"`},
		"main and bak":        {"topics.json": `"v0"`, "topics.json.bak": `"older"`},
		"torn main, good bak": {"topics.json": `"v`, "topics.json.bak": `"v0"`},
		"left-over temps":     {"topics.json": `"v0"`, "topics.json.tmp": `"x`, "topics.json.bak.tmp": `"older"`},
	}
	for name, files := range starts {
		for _, noLinks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, no links %v", name, noLinks), func(t *testing.T) {
				crashEverywhere(t, files, noLinks)
			})
		}
	}
}

func crashEverywhere(t *testing.T, files map[string]string, noLinks bool) {
	mem := vfs.NewMem()
	put(t, mem, files)
	in := vfs.NewInjector(mem)
	if noLinks {
		in.Fail(vfs.Fault{Op: vfs.OpLink, Err: syscall.EPERM})
	}
	saved := "v0"
	if len(files) == 0 {
		saved = ""
	}
	saving, points := saved, 0
	check := func(c *vfs.Mem, how string) {
		t.Helper()
		got, found, err := load(t, c)
		if err != nil || found != (got != "") {
			t.Fatalf("%s: %v", how, err)
		}
		if got = strings.Trim(got, `"`); got != saved && got != saving {
			t.Fatalf("%s: found %q, want %q or %q", how, got, saved, saving)
		}
		f := table.NewFile(c, dir, "topics.json")
		if _, err := f.Load(func(b []byte) error {
			if !json.Valid(b) {
				return errors.New("not JSON")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := f.Save([]byte(`"again"`)); err != nil {
			t.Fatalf("%s: save afterwards: %v", how, err)
		}
		if got, _, err := load(t, c.CrashClone(rand.New(rand.NewPCG(9, 9)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})); err != nil || got != `"again"` {
			t.Fatalf("%s: save afterwards gave %q %v", how, got, err)
		}
	}
	in.OnOp = func(op vfs.Op, path string) {
		if !op.Changes() {
			return
		}
		points++
		for seed := range uint64(12) {
			rng := rand.New(rand.NewPCG(uint64(points), seed))
			check(mem.CrashClone(rng, vfs.CrashOptions{ReorderNames: seed%2 == 1}), fmt.Sprintf("crash before %s %s, seed %d", op, path, seed))
		}
		check(mem.ProcessKillClone(), fmt.Sprintf("kill before %s %s", op, path))
	}
	f := table.NewFile(in, dir, "topics.json")
	if _, err := f.Load(func(b []byte) error {
		if !json.Valid(b) {
			return errors.New("not JSON")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		saving = fmt.Sprintf("v%d", i)
		if err := f.Save([]byte(`"` + saving + `"`)); err != nil {
			t.Fatal(err)
		}
		saved = saving
	}
	if points < 15 {
		t.Errorf("only %d points were cut", points)
	}
}

// Every operation of a save fails once, with each kind of error: the save says
// so, the old document stays, the next save works.
func TestSaveFailsAtEveryOperation(t *testing.T) {
	for _, e := range []error{syscall.ENOSPC, syscall.EIO} {
		for n := 0; ; n++ {
			mem := vfs.NewMem()
			in := vfs.NewInjector(mem)
			f := table.NewFile(in, dir, "topics.json")
			for _, v := range []string{`"v0"`, `"v1"`} {
				if err := f.Save([]byte(v)); err != nil {
					t.Fatal(err)
				}
			}
			var failed string
			count := 0
			in.OnOp = func(op vfs.Op, path string) {
				if op.Changes() {
					if count == n {
						failed = fmt.Sprintf("%s %s", op, path)
					}
					count++
				}
			}
			in.Fail(vfs.Fault{Skip: n, Left: 1, Partial: 2, Err: e})
			err := f.Save([]byte(`"v2"`))
			if failed == "" {
				if n < 6 {
					t.Fatalf("a save has only %d operations", n)
				}
				break
			}
			in.Heal()
			if err == nil {
				// Only the link has a substitute.
				if !strings.HasPrefix(failed, "link") {
					t.Errorf("%s failed with %v and the save did not", failed, e)
				}
				continue
			}
			if !errors.Is(err, e) {
				t.Errorf("%s: error %v, want %v", failed, err, e)
			}
			for _, c := range []*vfs.Mem{mem, mem.ProcessKillClone()} {
				if got, _, err := load(t, c); err != nil || got != `"v1"` {
					t.Errorf("%s failed with %v: document is %q %v", failed, e, got, err)
				}
			}
			if err := f.Save([]byte(`"v3"`)); err != nil {
				t.Errorf("%s failed: next save: %v", failed, err)
			}
			if got, _, err := load(t, mem); err != nil || got != `"v3"` {
				t.Errorf("%s failed: next save gave %q %v", failed, got, err)
			}
		}
	}
}

// counter is a table as an owner writes it: pending state, visible state.
type counter struct {
	pending []string
	visible []string
}

func (c *counter) snapshot() ([]byte, error) { return json.Marshal(c.pending) }

func (c *counter) add(s string) func() (func(), func(), error) {
	return func() (func(), func(), error) {
		c.pending = append(c.pending, s)
		n := len(c.pending)
		publish := func() { c.visible = append(c.visible, s) }
		undo := func() {
			if len(c.pending) != n || c.pending[n-1] != s {
				panic("changes are undone out of order")
			}
			c.pending = c.pending[:n-1]
		}
		return publish, undo, nil
	}
}

func TestCommitterSharesSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := vfs.NewInjector(vfs.NewMem())
		f := table.NewFile(in, dir, "topics.json")
		var c counter
		m := table.NewCommitter(f, c.snapshot)
		release := make(chan struct{})
		saves := 0
		in.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpSync {
				saves++
				<-release
			}
		}
		var wg sync.WaitGroup
		var done atomic.Int32
		change := func(s string) {
			wg.Go(func() {
				if err := m.Change(c.add(s)); err != nil {
					t.Error(err)
				}
				done.Add(1)
			})
		}
		change("first")
		synctest.Wait() // its save is under way
		for i := range 100 {
			change(fmt.Sprint(i))
		}
		synctest.Wait()
		if n := done.Load(); n != 0 {
			t.Errorf("%d changes returned before their save", n)
		}
		release <- struct{}{}
		synctest.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("%d changes returned after the first save, want 1", n)
		}
		close(release)
		wg.Wait()
		if saves != 2 {
			t.Errorf("101 changes took %d saves, want 2", saves)
		}
		if !slices.Equal(c.pending, c.visible) {
			t.Error("changes were published in another order than applied")
		}
		got, _, err := load(t, in)
		want, _ := c.snapshot()
		if err != nil || got != string(want) {
			t.Errorf("document %s %v, want %s", got, err, want)
		}
	})
}

func TestCommitterUndoes(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	f := table.NewFile(in, dir, "topics.json")
	var c counter
	m := table.NewCommitter(f, c.snapshot)
	if err := m.Change(c.add("a")); err != nil {
		t.Fatal(err)
	}
	in.Fail(vfs.Fault{Op: vfs.OpSync, Path: ".tmp", Err: syscall.ENOSPC})
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		in.OnOp = func(op vfs.Op, path string) {
			if op == vfs.OpSync {
				<-hold
			}
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := m.Change(c.add(fmt.Sprint(i))); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("error %v, want ENOSPC", err)
				}
			})
		}
		synctest.Wait()
		close(hold)
		wg.Wait()
		in.OnOp = nil
	})
	if !slices.Equal(c.pending, []string{"a"}) || !slices.Equal(c.visible, []string{"a"}) {
		t.Errorf("after failed saves: pending %v, visible %v", c.pending, c.visible)
	}
	in.Heal()
	if err := m.Change(c.add("b")); err != nil {
		t.Fatal(err)
	}
	if got, _, err := load(t, in); err != nil || got != `["a","b"]` {
		t.Errorf("document %s %v", got, err)
	}
}

func TestCommitterErrorsAndPanics(t *testing.T) {
	mem := vfs.NewMem()
	f := table.NewFile(mem, dir, "topics.json")
	var c counter
	fail := errors.New("snapshot")
	snapshot := c.snapshot
	m := table.NewCommitter(f, func() ([]byte, error) { return snapshot() })

	refused := errors.New("no such topic")
	if err := m.Change(func() (func(), func(), error) { return nil, nil, refused }); !errors.Is(err, refused) {
		t.Errorf("refused change: %v", err)
	}
	if _, err := mem.Stat(f.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused change was saved: %v", err)
	}
	if err := m.Change(func() (func(), func(), error) { panic("bug") }); err == nil || !strings.Contains(err.Error(), "bug") {
		t.Errorf("panic in apply: %v", err)
	}
	snapshot = func() ([]byte, error) { return nil, fail }
	if err := m.Change(c.add("x")); !errors.Is(err, fail) || len(c.pending) != 0 {
		t.Errorf("failed snapshot: %v, pending %v", err, c.pending)
	}
	snapshot = func() ([]byte, error) { panic("bug") }
	if err := m.Change(c.add("x")); err == nil || len(c.pending) != 0 {
		t.Errorf("panic in snapshot: %v, pending %v", err, c.pending)
	}
	snapshot = c.snapshot
	if err := m.Change(func() (func(), func(), error) { return nil, nil, nil }); err != nil {
		t.Errorf("change without publish and undo: %v", err)
	}
	if err := m.Change(c.add("y")); err != nil || len(c.visible) != 1 {
		t.Errorf("after all that: %v, visible %v", err, c.visible)
	}
}

// Concurrent changes, some of which fail: the document always equals what was
// acknowledged.
func TestCommitterConcurrent(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	f := table.NewFile(in, dir, "topics.json")
	var c counter
	m := table.NewCommitter(f, c.snapshot)
	var mu sync.Mutex
	var acked []string
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if w == 0 && i%10 == 5 {
					in.Fail(vfs.Fault{Op: vfs.OpRename, Left: 1, Err: syscall.EIO})
				}
				s := fmt.Sprintf("%d/%d", w, i)
				if err := m.Change(c.add(s)); err == nil {
					mu.Lock()
					acked = append(acked, s)
					mu.Unlock()
				} else if !errors.Is(err, syscall.EIO) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	in.Heal()
	var doc []string
	got, _, err := load(t, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(doc, c.visible) || !slices.Equal(doc, c.pending) {
		t.Error("document, visible and pending state differ")
	}
	slices.Sort(doc)
	slices.Sort(acked)
	if !slices.Equal(doc, acked) {
		t.Errorf("%d changes on disk, %d acknowledged", len(doc), len(acked))
	}
	if len(acked) == 400 || len(acked) < 200 {
		t.Errorf("%d of 400 changes succeeded: the faults did not do what the test wants", len(acked))
	}
}

func TestDataVersionNext(t *testing.T) {
	v := table.DataVersion{Counter: 4, StateVersion: 7, Timestamp: 1}.Next(1735689600000)
	if v != (table.DataVersion{Counter: 5, StateVersion: 7, Timestamp: 1735689600000}) {
		t.Errorf("got %+v", v)
	}
}
