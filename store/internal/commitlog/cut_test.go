package commitlog

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// TestPrepareDuringCuts prepares segments beside cuts all the time: whichever is ready
// afterwards follows what the cut has left.
func TestPrepareDuringCuts(t *testing.T) {
	const segment = 4096
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/log"); err != nil {
		t.Fatal(err)
	}
	l, err := Open(fsys, "/log", segment, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			if err := l.Prepare(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	roll := func() {
		for {
			rolled, err := l.Roll()
			if err != nil {
				t.Error(err)
			}
			if rolled || err != nil {
				return
			}
			if err := l.Prepare(); err != nil {
				t.Error(err)
				return
			}
		}
	}
	for i := 0; i < 3000 && !t.Failed(); i++ {
		roll()
		roll()
		if i%10 == 9 {
			bases := l.Bases()
			err = l.Clear()
			for _, base := range bases {
				_ = fsys.Remove(filepath.Join("/log", segfile.Name(base))) // the first may be made anew already
			}
		} else {
			err = l.CutTo(segment / 2)
		}
		if err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
}
