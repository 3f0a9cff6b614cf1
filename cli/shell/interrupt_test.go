package shell

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// keyHost is a Host with a Ctrl-C key.
type keyHost struct {
	Host
	takers []func(error)
	ran    error  // the cause with which the context of the last command had ended
	during func() // what happens while a command runs; may be nil
}

func (h *keyHost) Interrupts(f func(error)) func() {
	h.takers = append(h.takers, f)
	return func() { h.takers = h.takers[:len(h.takers)-1] }
}

func (h *keyHost) Run(ctx context.Context, _ []string, _ Streams) int {
	if h.during != nil {
		h.during()
	}
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

// press is Ctrl-C as the program hears of it.
func (h *keyHost) press(cause error) { h.takers[len(h.takers)-1](cause) }

// TestInterruptOfPipe: Ctrl-C that only the shell has heard of, because the
// program behind a pipe was not there yet, ends that program too.
func TestInterruptOfPipe(t *testing.T) {
	cause := errors.New("Ctrl-C")
	for _, c := range []struct {
		name  string
		early bool // before the program is started
		press bool
		want  int
	}{
		{"none", false, false, 0},
		{"before the program", true, false, 1},
		{"with the program", false, true, 1},
	} {
		h := &keyHost{}
		s := New(Options{Host: h, Now: time.Now, Streams: Streams{Env: func(string) string { return "" }}})
		s.interactive, s.editor = true, NewPlain(nil, nil)
		signals := 0
		s.signalJob = func() { signals++ }
		release := s.interrupts(func(cause error) { s.stray.Store(&cause) })
		if c.early {
			h.press(cause)
		}
		if c.press {
			h.during = func() { h.press(cause) }
		}
		_, _ = s.toPipe(context.Background(), []string{"version"}, Streams{}, "cat")
		release()
		if signals != c.want {
			t.Errorf("%s: the job is interrupted %d times, want %d", c.name, signals, c.want)
		}
		if ended := errors.Is(h.ran, cause); ended != (c.want > 0) {
			t.Errorf("%s: the command ran with %v", c.name, h.ran)
		}
		if len(h.takers) != 0 || s.early.Load() != nil {
			t.Errorf("%s: something still waits for Ctrl-C", c.name)
		}
	}
}

// TestAliasBehindPrefix: an alias stands for its command also where watch, time
// or repeat are in front of it.
func TestAliasBehindPrefix(t *testing.T) {
	s := New(Options{Streams: Streams{Env: func(string) string { return "" }}})
	s.aliases["cl"] = "cluster list"
	for line, want := range map[string]string{
		"cl -o json": "cluster list -o json", "time cl": "time cluster list", "repeat 2 time cl": "repeat 2 time cluster list",
		"watch 1s cl --wide": "watch 1s cluster list --wide", "watch cl": "watch cluster list", "group get cl": "group get cl", "time group get cl": "time group get cl",
	} {
		got, err := s.unalias(strings.Fields(line))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s is %q, %v, want %q", line, got, err, want)
		}
	}
}

// TestEndOfProgram: a program that a script or the shell waits for ends with it,
// although the signal went to the shell alone.
func TestEndOfProgram(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, s *Session) int{
		"pipe": func(ctx context.Context, s *Session) int {
			code, _ := s.toPipe(ctx, []string{"version"}, Streams{}, "exec sleep 600")
			return code
		},
		"program": func(ctx context.Context, s *Session) int { return s.system(ctx, "exec sleep 600", nil) },
	} {
		for _, interactive := range []bool{false, true} {
			ctx, end := context.WithCancel(context.Background())
			s := New(Options{Host: &keyHost{}, Now: time.Now, Streams: Streams{Env: func(string) string { return "" }}})
			s.interactive, s.editor = interactive, NewPlain(nil, nil)
			s.signalJob = func() {}
			time.AfterFunc(50*time.Millisecond, end)
			begun := time.Now()
			if code := run(ctx, s); code == codeOK || time.Since(begun) > time.Minute {
				t.Errorf("%s, interactive %v: %d after %v", name, interactive, code, time.Since(begun))
			}
			end()
		}
	}
}
