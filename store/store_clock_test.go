package store_test

import (
	"testing"
	"time"

	"mqctl/store/vfs"
)

// TestClockPutBack: the machine's clock was an hour ahead and is put right. Store times
// never fall, they go on at half the speed of time until the clock has caught up, and are
// the clock's from then on; also after a restart in between, and when the clock is put
// back once more.
func TestClockPutBack(t *testing.T) {
	wall := time.UnixMilli(1_700_000_000_000)
	steady := time.Unix(1000, 0)
	o := small(vfs.NewMem())
	o.Now = func() time.Time { return wall }
	o.Steady = func() time.Time { return steady }
	s, _ := open(t, o)
	pass := func(d time.Duration) { wall, steady = wall.Add(d), steady.Add(d) }
	last := int64(0)
	is := func(what string, want int64) {
		t.Helper()
		got := put(t, s, "t", 0, "x").StoreMillis
		if got != want || got < last {
			t.Errorf("%s: %d, %d from what it should be, %d after the last", what, got, got-want, got-last)
		}
		last = got
	}
	start := wall.UnixMilli()
	is("first", start)
	wall = wall.Add(time.Hour)
	ahead := wall.UnixMilli()
	is("ahead", ahead)
	wall = wall.Add(-time.Hour)
	is("put right", ahead)
	pass(10 * time.Second)
	is("10 s later", ahead+5000)
	pass(time.Millisecond)
	is("half a millisecond later", ahead+5000)
	pass(time.Millisecond)
	is("1 ms later", ahead+5001)
	wall = wall.Add(-time.Hour)
	pass(998 * time.Millisecond)
	is("put back once more", ahead+5500)
	closeStore(t, s)
	pass(time.Hour) // nobody counts the time in between
	s, _ = open(t, o)
	is("after a restart", ahead+5500)
	pass(10 * time.Second)
	is("10 s after that", ahead+10_500)
	for wall.UnixMilli() < last {
		pass(time.Minute)
		want := last + 30_000
		if wall.UnixMilli() >= last {
			want = wall.UnixMilli()
		}
		is("catching up", want)
	}
	pass(time.Second)
	is("caught up", wall.UnixMilli())
	closeStore(t, s)
}
