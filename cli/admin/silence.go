package admin

import (
	"context"
	"errors"
	"sync"
)

// silence is which peers gave no answer during one look at a cluster.
type silence struct {
	mu   sync.Mutex
	errs map[string]error
}

type silenceKey struct{}

// OneLook makes the reads under the context one look at the cluster: a peer that
// cannot be connected or gives no answer in time is not asked again, its first error
// stands for all of them. A look over many topics and groups then takes its time-out
// once. Who waits for something to change takes a new look each time.
func OneLook(ctx context.Context) context.Context {
	return context.WithValue(ctx, silenceKey{}, &silence{errs: map[string]error{}})
}

// unanswered is why a peer is not asked in this look; nil: it is.
func unanswered(ctx context.Context, addr string, r request) error {
	s, ok := ctx.Value(silenceKey{}).(*silence)
	if !ok || r.write || r.relayed {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs[addr]
}

// noteSilence keeps the error of a request that got no answer. A peer that asks one
// of its clients is not silent when the client is.
func noteSilence(ctx context.Context, addr string, r request, err error) {
	s, ok := ctx.Value(silenceKey{}).(*silence)
	var late *Timeout
	var gone *Unreachable
	if !ok || r.relayed || ctx.Err() != nil {
		return
	}
	if unheard := errors.As(err, &late) && !late.Deadline || errors.As(err, &gone) && !gone.Lost; !unheard {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errs[addr] == nil {
		s.errs[addr] = err
	}
}
