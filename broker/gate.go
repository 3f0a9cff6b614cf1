package broker

import (
	"context"
	"sync/atomic"
	"time"
)

// sendGate counts the bursts of sends that are between their first check and their
// append, so that a change of roles can wait until none is: what passed the check
// under the old role is appended under it. It costs a burst two atomic adds.
type sendGate struct {
	stand  *standingRef
	inside atomic.Int64
}

// enter lets a burst in; false: this broker takes no sends now.
func (g *sendGate) enter() bool {
	g.inside.Add(1)
	if g.stand.Load().takesSends() {
		return true
	}
	g.inside.Add(-1)
	return false
}

// leave is called once for each enter, after the append.
func (g *sendGate) leave() { g.inside.Add(-1) }

// drain waits until everybody has left; the standing must forbid sends already.
// A burst is appended at the end of what one read brought, so it is soon.
func (g *sendGate) drain(ctx context.Context) error {
	for wait := 50 * time.Microsecond; g.inside.Load() != 0; wait = min(2*wait, 10*time.Millisecond) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
	return nil
}
