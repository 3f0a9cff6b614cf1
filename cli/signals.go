package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Signals is a context that SIGINT, SIGTERM or SIGHUP ends, with an
// *Interrupted as its cause. A SIGHUP that is ignored already (nohup) stays so.
// The first signal asks for a clean end, and so do all later ones, as service
// managers and terminals send several; only a second SIGINT, from somebody at a
// keyboard who will not wait, ends the process at once.
//
// Goroutines: one, which ends with the process.
func Signals() context.Context {
	// A reader that goes away is told by the failed write, not by a signal.
	signal.Ignore(syscall.SIGPIPE)
	which := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		which = append(which, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	keys := &interrupts{}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, which...)
	go func() {
		if awaitSecond(signals, cancel, keys, time.Now) {
			os.Exit(ExitInterrupted)
		}
	}()
	return context.WithValue(ctx, interruptsKey{}, keys)
}

// interrupts lets a command that goes on after Ctrl-C take it: the shell, whose
// commands end by it. The last one that asked gets it.
type interrupts struct {
	mu     sync.Mutex
	takers []*func(cause error)
}

type interruptsKey struct{}

// interruptsOf finds the program's; without Signals there are none to come.
func interruptsOf(ctx context.Context) *interrupts {
	if k, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		return k
	}
	return &interrupts{}
}

// take gives each SIGINT to f until release is called.
func (k *interrupts) take(f func(cause error)) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.takers = append(k.takers, &f)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.takers = slices.DeleteFunc(k.takers, func(p *func(error)) bool { return p == &f })
	}
}

// give hands a SIGINT to whoever takes it; false if nobody does.
func (k *interrupts) give(cause error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.takers) == 0 {
		return false
	}
	(*k.takers[len(k.takers)-1])(cause)
	return true
}

// bounce is how long after a SIGINT another one is taken for the same key
// press, as when a terminal and a wrapper both pass it on.
const bounce = 100 * time.Millisecond

// awaitSecond ends the context with the first signal and returns true at the
// second SIGINT, false when signals is closed. SIGINTs that somebody takes do neither.
func awaitSecond(signals <-chan os.Signal, cancel context.CancelCauseFunc, keys *interrupts, now func() time.Time) bool {
	var pressed time.Time
	for s := range signals {
		if s == syscall.SIGINT && keys.give(interruptedBy(s)) {
			continue
		}
		cancel(interruptedBy(s)) // the first cause stays
		switch {
		case s != syscall.SIGINT:
		case pressed.IsZero():
			pressed = now()
		case now().Sub(pressed) >= bounce:
			return true
		}
	}
	return false
}

// interruptedBy is the cause for a signal: the shell's code for it.
func interruptedBy(s os.Signal) *Interrupted {
	code := ExitTerminated
	switch s {
	case syscall.SIGINT:
		code = ExitInterrupted
	case syscall.SIGHUP:
		code = ExitHangup
	}
	return &Interrupted{Signal: s, Code: code}
}

// whenEnded returns a function that tells when ctx ended, and false before.
func whenEnded(ctx context.Context) func() (time.Time, bool) {
	var at atomic.Int64
	context.AfterFunc(ctx, func() { at.Store(time.Now().UnixNano()) })
	return func() (time.Time, bool) {
		n := at.Load()
		return time.Unix(0, n), n != 0
	}
}

// sayStopped is the last line of a server.
func (c *call) sayStopped(ended func() (time.Time, bool)) {
	at, ok := ended()
	if !ok || c.p.format == "json" || c.p.format == "jsonl" {
		return
	}
	fmt.Fprintf(c.io.Err, "stopped cleanly in %s\n", readyText(time.Since(at).Milliseconds()))
}
