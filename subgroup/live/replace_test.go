package live_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup/live"
)

func equal(a, b *value) bool { return *a == *b }

func replace(t *live.Table[value], counter int64, values map[string]*value) (live.Difference, error) {
	return t.Replace(values, table.DataVersion{Counter: counter, Timestamp: 99}, equal, nil)
}

// A replacement has exactly its values and its version, lower ones too; what is
// equal is not written, and a failed save leaves everything as it was.
func TestReplace(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	tab := newTable(t, in, nil)
	if _, err := set(tab, "second", &value{2}); err != nil {
		t.Fatal(err)
	}
	diff, err := replace(tab, 3, map[string]*value{"second": {2}, "third": {3}})
	if err != nil || !slices.Equal(diff.Changed, []string{"third"}) || !slices.Equal(diff.Deleted, []string{"first"}) {
		t.Fatalf("%+v %v", diff, err)
	}
	s := tab.Snapshot()
	if s.Version != (table.DataVersion{Counter: 3, Timestamp: 99}) || len(s.Values) != 2 || tab.Len() != 2 || tab.Get("first") != nil || tab.Get("third").N != 3 {
		t.Errorf("%+v", s)
	}
	writes := 0
	in.OnOp = func(op vfs.Op, _ string) {
		if op.Changes() {
			writes++
		}
	}
	if diff, err := replace(tab, 3, map[string]*value{"second": {2}, "third": {3}}); err != nil || diff.Some() || writes != 0 {
		t.Errorf("the same again: %+v %v, %d writes", diff, err, writes)
	}
	in.OnOp = nil
	in.Fail(vfs.Fault{Op: vfs.OpSync, Err: syscall.ENOSPC})
	if _, err := replace(tab, 4, map[string]*value{"other": {1}}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	in.Heal()
	if s := tab.Snapshot(); s.Version.Counter != 3 || tab.Get("other") != nil || tab.Get("second") == nil {
		t.Errorf("after a failed save: %+v", s)
	}
	if changed, err := set(tab, "fourth", &value{4}); err != nil || !changed || tab.Snapshot().Version.Counter != 4 || tab.Len() != 3 {
		t.Errorf("a change afterwards: %v %v %+v", changed, err, tab.Snapshot().Version)
	}
}

// Readers meet the old table or the new one: a name that is in both is always
// there, while changes and failures go on beside.
func TestReplaceIsAtomic(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	tab := newTable(t, in, nil)
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				if tab.Get("first") == nil {
					t.Error("a name was not there for a moment")
					return
				}
			}
		})
	}
	writers.Go(func() {
		for i := range 60 {
			values := map[string]*value{"first": {1}}
			for k := range i % 7 * 40 {
				values[fmt.Sprint("r", k)] = &value{i}
			}
			if i%9 == 4 {
				in.Fail(vfs.Fault{Op: vfs.OpSync, Left: 1, Err: syscall.EIO})
			}
			if _, err := replace(tab, int64(1000*i), values); err != nil && !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for i := range 60 {
			if _, err := set(tab, "beside", &value{i}); err != nil && !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	in.Heal()
	diff, err := replace(tab, 7, map[string]*value{"first": {1}})
	if err != nil || tab.Len() != 1 || len(tab.Snapshot().Values) != 1 || tab.Snapshot().Version.Counter != 7 {
		t.Errorf("in the end: %+v %v, %d names", diff, err, tab.Len())
	}
}
