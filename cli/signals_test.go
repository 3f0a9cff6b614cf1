package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSignals: any signal asks for a clean end, and only a later second SIGINT
// for one at once.
func TestSignals(t *testing.T) {
	type at struct {
		ms  int
		sig os.Signal
	}
	for name, x := range map[string]struct {
		in   []at
		code int
		hard bool
	}{
		"one term":             {[]at{{0, syscall.SIGTERM}}, ExitTerminated, false},
		"two terms":            {[]at{{0, syscall.SIGTERM}, {1, syscall.SIGTERM}, {5000, syscall.SIGTERM}}, ExitTerminated, false},
		"hangup":               {[]at{{0, syscall.SIGHUP}, {500, syscall.SIGTERM}}, ExitHangup, false},
		"one key":              {[]at{{0, syscall.SIGINT}}, ExitInterrupted, false},
		"one key, seen twice":  {[]at{{0, syscall.SIGINT}, {99, syscall.SIGINT}}, ExitInterrupted, false},
		"two keys":             {[]at{{0, syscall.SIGINT}, {100, syscall.SIGINT}}, ExitInterrupted, true},
		"a bounce and a key":   {[]at{{0, syscall.SIGINT}, {1, syscall.SIGINT}, {300, syscall.SIGINT}}, ExitInterrupted, true},
		"a term, then one key": {[]at{{0, syscall.SIGTERM}, {900, syscall.SIGINT}}, ExitTerminated, false},
		"a term, then keys":    {[]at{{0, syscall.SIGTERM}, {900, syscall.SIGINT}, {1900, syscall.SIGINT}}, ExitTerminated, true},
	} {
		signals := make(chan os.Signal, len(x.in))
		var times []time.Time // of the SIGINTs, which alone are timed
		for _, s := range x.in {
			signals <- s.sig
			if s.sig == syscall.SIGINT {
				times = append(times, time.UnixMilli(int64(1000+s.ms)))
			}
		}
		close(signals)
		n := -1
		ctx, cancel := context.WithCancelCause(context.Background())
		hard := awaitSecond(signals, cancel, &interrupts{}, func() time.Time { n++; return times[n] })
		var who *Interrupted
		if !errors.As(context.Cause(ctx), &who) || who.Code != x.code || hard != x.hard {
			t.Errorf("%s: cause %v, at once %t", name, context.Cause(ctx), hard)
		}
	}
}
