package cli

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWritesBeside: topics or groups that stand next to each other are written at
// the same time, never together with what stands before or behind them, and none
// of a later batch once one has failed.
func TestWritesBeside(t *testing.T) {
	c := &call{}
	var mu sync.Mutex
	now, most, mixed := map[string]int{}, map[string]int{}, 0
	full := make(chan struct{}) // closed when as many writes are under way as may be
	make1 := func(kind string, wait bool) *edit {
		return &edit{beside: kind, write: func(context.Context) (bool, error) {
			mu.Lock()
			now[kind]++
			most[kind] = max(most[kind], now[kind])
			for other, n := range now {
				if other != kind && n > 0 {
					mixed++
				}
			}
			if kind == "GROUP" && now[kind] == writesAtOnce {
				close(full)
			}
			mu.Unlock()
			if wait {
				<-full
			}
			mu.Lock()
			now[kind]--
			mu.Unlock()
			return true, nil
		}}
	}
	var part []*edit
	for range 20 {
		part = append(part, make1("TOPIC", false))
	}
	for range 43 { // those of the batch of 32 that begins with the 32nd edit wait for each other
		part = append(part, make1("GROUP", len(part) >= 31))
	}
	for range 3 {
		part = append(part, make1("", false))
	}
	c.writePart(context.Background(), part, func() bool { return false }, func(*edit) {})
	for i, e := range part {
		if !e.ok {
			t.Errorf("edit %d was not written: %v", i, e.err)
		}
	}
	if mixed != 0 || most[""] != 1 || most["GROUP"] != writesAtOnce {
		t.Errorf("%d writes beside others of another kind; at once %v", mixed, most)
	}

	var stopped atomic.Bool
	bad := &edit{beside: "GROUP", write: func(context.Context) (bool, error) { return false, errors.New("no") }}
	later := &edit{beside: "GROUP", write: func(context.Context) (bool, error) { t.Error("written after a failure"); return true, nil }}
	c.writePart(context.Background(), []*edit{bad, later, later}, stopped.Load, func(e *edit) {
		if e.err != nil {
			stopped.Store(true)
		}
	})
}
