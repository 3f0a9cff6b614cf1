package live_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup/live"
)

// The map behaves as a plain one through growth and removal.
func TestMap(t *testing.T) {
	var m live.Map[int]
	plain := map[string]*int{}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		name := fmt.Sprint(rng.IntN(3000))
		switch rng.IntN(5) {
		case 0:
			m.Set(name, nil)
			delete(plain, name)
		case 1:
			got := m.SetIfAbsent(name, &i)
			if plain[name] == nil {
				plain[name] = &i
			}
			if got != plain[name] {
				t.Fatalf("SetIfAbsent(%s) returned another value", name)
			}
		default:
			m.Set(name, &i)
			plain[name] = &i
		}
		if m.Get(name) != plain[name] || m.GetBytes([]byte(name)) != plain[name] || m.Len() != len(plain) {
			t.Fatalf("step %d, %s: %v and %d names, want %v and %d", i, name, m.Get(name), m.Len(), plain[name], len(plain))
		}
	}
	seen := map[string]*int{}
	m.Each(func(name string, v *int) bool {
		if seen[name] != nil {
			t.Errorf("%s came twice", name)
		}
		seen[name] = v
		return true
	})
	if !maps.Equal(seen, plain) {
		t.Errorf("%d names seen, want %d", len(seen), len(plain))
	}
	count := 0
	m.Each(func(string, *int) bool { count++; return count < 3 })
	if count != 3 {
		t.Errorf("%d calls after the third was the last", count)
	}
}

func TestEmptyMap(t *testing.T) {
	var m live.Map[int]
	if m.Get("a") != nil || m.GetBytes(nil) != nil || m.Len() != 0 {
		t.Error("an empty map has something")
	}
	m.Each(func(string, *int) bool { t.Error("called"); return true })
	m.Set("a", nil)
}

// Readers always find a name that is never removed, whatever happens around it.
func TestMapConcurrent(t *testing.T) {
	var m live.Map[int]
	one := 1
	m.Set("stays", &one)
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !stop.Load() {
				if m.Get("stays") != &one || m.GetBytes([]byte("stays")) != &one {
					t.Error("a name was not found for a moment")
					return
				}
				m.Each(func(string, *int) bool { return true })
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 2000 {
				m.Set(fmt.Sprint(w, i), &i)
				if i%3 == 0 {
					m.Set(fmt.Sprint(w, i/2), nil)
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
}

func TestMapDoesNotAllocate(t *testing.T) {
	var m live.Map[int]
	for i := range 100 {
		m.Set(fmt.Sprint(i), &i)
	}
	name := []byte("42")
	if n := testing.AllocsPerRun(100, func() {
		if m.GetBytes(name) == nil || m.Get("43") == nil {
			t.Fatal("missing")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type value struct {
	N int `json:"n"`
}

func newTable(t testing.TB, fsys vfs.FS, head func([]byte) []byte) *live.Table[value] {
	t.Helper()
	now := int64(0)
	table, err := live.New(live.Options[value]{
		File: table.NewFile(fsys, "/c", "v.json"), Field: "values", Head: head,
		NowMillis: func() int64 { now++; return now },
	}, map[string]*value{"first": {1}}, table.DataVersion{Counter: 7, Timestamp: 3})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func set(t *live.Table[value], name string, v *value) (bool, error) {
	return t.Apply(func(func(string) *value) (live.Change[value], error) {
		return live.Change[value]{Edits: []live.Edit[value]{{Name: name, Value: v}}}, nil
	})
}

func file(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, "/c/v.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTableDocument(t *testing.T) {
	mem := vfs.NewMem()
	tab := newTable(t, mem, func(b []byte) []byte { return append(b, "\t\"more\":{},\n"...) })
	if changed, err := set(tab, "a\"b", &value{2}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":8,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1\n\t},\n\t\"more\":{},\n\t\"values\":{\n" +
		"\t\t\"a\\\"b\":{\n\t\t\t\"n\":2\n\t\t},\n\t\t\"first\":{\n\t\t\t\"n\":1\n\t\t}\n\t}\n}"
	if got := file(t, mem); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"a\"b", "first"} {
		if _, err := set(tab, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := file(t, mem); !strings.HasSuffix(got, "\t\"values\":{}\n}") {
		t.Errorf("an empty table: %s", got)
	}
}

func TestTableUnchangedAndRefused(t *testing.T) {
	mem := vfs.NewMem()
	tab := newTable(t, mem, nil)
	changed, err := tab.Apply(func(pending func(string) *value) (live.Change[value], error) {
		if pending("first").N != 1 || pending("none") != nil {
			t.Error("the pending state is wrong")
		}
		return live.Change[value]{}, nil
	})
	if changed || err != nil {
		t.Error(changed, err)
	}
	refused := errors.New("refused")
	if changed, err := tab.Apply(func(func(string) *value) (live.Change[value], error) { return live.Change[value]{}, refused }); changed || !errors.Is(err, refused) {
		t.Error(changed, err)
	}
	if _, err := mem.Stat("/c/v.json"); err == nil {
		t.Error("nothing changed and the file was written")
	}
	if s := tab.Snapshot(); s.Version.Counter != 7 || s != tab.Snapshot() {
		t.Errorf("snapshot %+v", s)
	}
}

// Not until it is on disk is a change visible, and who finds it made already
// waits for that as well.
func TestTableDurableBeforeVisible(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	tab := newTable(t, in, nil)
	in.OnOp = func(op vfs.Op, path string) {
		if op == vfs.OpSync && (tab.Get("a") != nil || tab.Snapshot().Values["a"] != nil) {
			t.Error("visible before it is durable")
		}
	}
	if _, err := set(tab, "a", &value{1}); err != nil {
		t.Fatal(err)
	}
	in.OnOp = nil
	if tab.Get("a") == nil || tab.GetBytes([]byte("a")) == nil || tab.Len() != 2 || tab.Snapshot().Values["a"] == nil {
		t.Error("not visible after it is durable")
	}
}

// Saves that fail now and then: in the end memory and file hold what was
// acknowledged, and the rest of the state its Publish.
func TestTableConcurrentFailures(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	var published, undone atomic.Int64
	tab := newTable(t, in, nil)
	var mu sync.Mutex
	last := map[string]*value{"first": {1}} // of each name only its own worker writes
	acked := int64(0)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				if i%9 == w {
					in.Fail(vfs.Fault{Op: vfs.OpSync, Left: 1, Err: syscall.ENOSPC})
				}
				name := fmt.Sprint(w, "-", i%4)
				v := &value{i}
				if i%5 == 4 {
					v = nil
				}
				_, err := tab.Apply(func(func(string) *value) (live.Change[value], error) {
					return live.Change[value]{
						Edits:   []live.Edit[value]{{Name: name, Value: v}},
						Publish: func() { published.Add(1) }, Undo: func() { undone.Add(1) },
					}, nil
				})
				mu.Lock()
				if err == nil {
					acked++
					last[name] = v
				} else if !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
				if got := tab.Get(name); (got == nil) != (last[name] == nil) || got != nil && got.N != last[name].N {
					t.Errorf("%s is %v, acknowledged %v", name, got, last[name])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	in.Heal()
	maps.DeleteFunc(last, func(_ string, v *value) bool { return v == nil })
	if published.Load() != acked || published.Load()+undone.Load() != 480 || undone.Load() == 0 {
		t.Errorf("%d acknowledged, %d published, %d undone", acked, published.Load(), undone.Load())
	}
	got := tab.Snapshot().Values
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(last))) {
		t.Errorf("names %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(last)))
	}
	if _, err := set(tab, "end", &value{}); err != nil {
		t.Fatal(err)
	}
	text := file(t, in)
	if n := strings.Count(text, "\"n\":"); n != len(last)+1 {
		t.Errorf("%d values in the file, want %d", n, len(last)+1)
	}
	for name, v := range last {
		if !strings.Contains(text, fmt.Sprintf("%q:{\n\t\t\t\"n\":%d\n", name, v.N)) {
			t.Errorf("%s=%d is not in the file", name, v.N)
		}
	}
}
