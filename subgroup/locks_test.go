package subgroup_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"mqctl/subgroup"
)

func key(queue int32) subgroup.QueueKey {
	return subgroup.QueueKey{Topic: "orders", BrokerName: "broker-a", QueueID: queue}
}

func TestLocks(t *testing.T) {
	var c clock
	l := subgroup.NewLocks(c.now)
	lock := func(want bool, client string, queue int32) {
		t.Helper()
		granted := l.Lock("g", client, []subgroup.QueueKey{key(queue)})
		if want != slices.Contains(granted, key(queue)) || len(granted) > 1 {
			t.Errorf("at %d ms %s gets %v of queue %d, want %v", c.now(), client, granted, queue, want)
		}
	}
	lock(true, "a", 0)
	lock(false, "b", 0)
	lock(true, "b", 1)
	c.ms.Store(40_000)
	lock(true, "a", 0) // renewed
	c.ms.Store(60_000)
	lock(false, "a", 1) // 60 s old is not older than 60 s
	c.ms.Store(60_001)
	lock(true, "a", 1)
	lock(false, "b", 0)
	l.Unlock("g", "b", []subgroup.QueueKey{key(0)}) // not its own
	lock(false, "b", 0)
	l.Unlock("g", "a", []subgroup.QueueKey{key(0)})
	lock(true, "b", 0)
	if got := l.Lock("other", "c", []subgroup.QueueKey{key(0), key(1), key(0)}); len(got) != 3 {
		t.Errorf("another group is granted %v", got)
	}
	if got := l.Lock("g", "c", []subgroup.QueueKey{key(0), key(1), key(2)}); !slices.Equal(got, []subgroup.QueueKey{key(2)}) {
		t.Errorf("granted %v", got)
	}
}

func TestLocksAnyLiveAndRelease(t *testing.T) {
	var c clock
	l := subgroup.NewLocks(c.now)
	if l.AnyLive("g") {
		t.Error("an unknown group holds locks")
	}
	l.Lock("g", "a", []subgroup.QueueKey{key(0)})
	c.ms.Store(30_000)
	l.Lock("g", "b", []subgroup.QueueKey{key(1)})
	c.ms.Store(60_001)
	if !l.AnyLive("g") {
		t.Error("the lock of b has not ended")
	}
	c.ms.Store(90_001)
	if l.AnyLive("g") {
		t.Error("all locks have ended")
	}
	l.Lock("g", "a", []subgroup.QueueKey{key(0)})
	l.Lock("g", "b", []subgroup.QueueKey{key(1)})
	l.Release("g", "a")
	if got := l.Lock("g", "c", []subgroup.QueueKey{key(0), key(1)}); !slices.Equal(got, []subgroup.QueueKey{key(0)}) {
		t.Errorf("after a has gone c is granted %v", got)
	}
	l.Release("g", "b")
	l.Release("g", "c")
	l.Release("g", "nobody")
	if l.AnyLive("g") {
		t.Error("released locks live")
	}
}

func TestLocksAreBounded(t *testing.T) {
	var c clock
	l := subgroup.NewLocks(c.now)
	many := make([]subgroup.QueueKey, 1<<17)
	for i := range many {
		many[i] = key(int32(i))
	}
	if got := l.Lock("g", "a", many); len(got) != len(many) {
		t.Fatalf("%d granted", len(got))
	}
	if got := l.Lock("h", "a", []subgroup.QueueKey{key(0)}); len(got) != 0 {
		t.Errorf("past the bound %v is granted", got)
	}
	c.ms.Store(60_001)
	if got := l.Lock("h", "a", []subgroup.QueueKey{key(0)}); len(got) != 1 {
		t.Error("ended locks were not dropped for new ones")
	}
}

func TestLocksConcurrent(t *testing.T) {
	var c clock
	l := subgroup.NewLocks(c.now)
	var mu sync.Mutex
	owner := map[int32]string{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			client := fmt.Sprint("c", w)
			for i := range 300 {
				q := int32(i % 7)
				if len(l.Lock("g", client, []subgroup.QueueKey{key(q)})) == 0 {
					continue
				}
				mu.Lock()
				if o := owner[q]; o != "" && o != client {
					t.Errorf("queue %d belongs to %s and %s", q, o, client)
				}
				owner[q] = client
				mu.Unlock()
				if i%3 == 0 {
					mu.Lock()
					delete(owner, q)
					mu.Unlock()
					l.Unlock("g", client, []subgroup.QueueKey{key(q)})
				}
				l.AnyLive("g")
			}
		})
	}
	wg.Wait()
}
