package delay

import (
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/table"
	"mqctl/store/vfs"
)

// A slave delivers nothing, keeps its master's progress without ever going back,
// and goes on from there, within what it has, when it becomes master.
func TestFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, f := vfs.NewMem(), newFake(2)
		r := start(t, mem, f, time.Second, 2*time.Second)
		r.SetFollowing(true)
		for _, text := range []string{"a", "b", "c"} {
			f.put(t, 1, time.Second, text)
		}
		r.Arrived(1)
		wait(10 * time.Second)
		r.want(t)
		progress := func(text string) *MasterProgress {
			p, err := DecodeProgress([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		r.TakeOver(progress(`{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":9},"offsetTable":{1:2,2:70,7:5,0:1,"x":3}}`))
		r.TakeOver(progress(`{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":9},"offsetTable":{1:1}}`))
		if r.version != (table.DataVersion{Counter: 4, Timestamp: 9}) || r.levels[0].offset.Load() != 2 || r.other[7] != 5 {
			t.Errorf("taken over: %+v, level 1 at %d, others %v", r.version, r.levels[0].offset.Load(), r.other)
		}
		if err := r.Persist(); err != nil || saved(t, mem) == "" {
			t.Error(err)
		}
		r.SetFollowing(false)
		wait(10 * time.Second)
		if n := len(f.delivered); n != 1 {
			t.Errorf("%d messages were delivered after the promotion, want the third only: %v", n, f.delivered)
		}
		if got := r.levels[1].offset.Load(); got != 0 {
			t.Errorf("level 2 is at %d of an empty queue", got)
		}
		r.TakeOver(progress(`{"dataVersion":{"counter":9},"offsetTable":{1:50}}`))
		if got := r.levels[0].offset.Load(); got != 3 {
			t.Errorf("a master took progress over: %d", got)
		}
		r.stop()
		if _, err := DecodeProgress([]byte("junk")); err == nil {
			t.Error("junk was taken for progress")
		}
	})
}
