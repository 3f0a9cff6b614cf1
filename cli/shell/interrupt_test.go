package shell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// keyHost is a Host with a Ctrl-C key.
type keyHost struct {
	Host
	takers []func(error)
	ran    error // the cause with which the context of the last command had ended
}

func (h *keyHost) Interrupts(f func(error)) func() {
	h.takers = append(h.takers, f)
	return func() { h.takers = h.takers[:len(h.takers)-1] }
}

func (h *keyHost) Run(ctx context.Context, _ []string, _ Streams) int {
	h.ran = context.Cause(ctx)
	return codeOK
}

// TestEarlyInterrupt: Ctrl-C that comes after Enter, before the command or program
// of the line has begun, ends it all the same, once.
func TestEarlyInterrupt(t *testing.T) {
	now := time.Unix(1, 0)
	repeated := 0
	early := func() *earlyInterrupt {
		repeated = 0
		e := &earlyInterrupt{}
		e.again = func() { repeated++ }
		return e
	}
	for _, c := range []struct {
		name string
		do   func(e *earlyInterrupt)
		want int
	}{
		{"none", func(e *earlyInterrupt) { e.begin(now) }, 0},
		{"before", func(e *earlyInterrupt) { e.interrupt(now); e.begin(now) }, 1},
		{"told late", func(e *earlyInterrupt) { e.begin(now); e.interrupt(now.Add(interruptsMayLag / 2)) }, 1},
		{"twice", func(e *earlyInterrupt) { e.interrupt(now); e.interrupt(now); e.begin(now); e.interrupt(now) }, 1},
		{"later the terminal gives it to the program", func(e *earlyInterrupt) { e.begin(now); e.interrupt(now.Add(interruptsMayLag)) }, 0},
	} {
		e := early()
		c.do(e)
		if repeated != c.want {
			t.Errorf("%s: repeated %d times, want %d", c.name, repeated, c.want)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		e := early()
		e.pauses = []time.Duration{time.Second, time.Second, time.Second}
		e.interrupt(now)
		e.begin(now)
		<-time.After(1500 * time.Millisecond)
		e.end()
		<-time.After(10 * time.Second)
		if repeated != 2 {
			t.Errorf("repeated %d times before the program ended, want 2", repeated)
		}
	})

	h := &keyHost{}
	s := New(Options{Host: h, Streams: Streams{Env: func(string) string { return "" }}})
	s.interactive = true
	cause := errors.New("Ctrl-C")
	s.stray.Store(&cause)
	s.host(context.Background(), []string{"watch"}, Streams{})
	if !errors.Is(h.ran, cause) {
		t.Errorf("the command ran with %v", h.ran)
	}
	s.host(context.Background(), []string{"watch"}, Streams{})
	if h.ran != nil {
		t.Errorf("the next command ran with %v", h.ran)
	}
}
