package admin

import (
	"context"
	"sync"
	"time"
)

// Result is what one target said.
type Result[T any] struct {
	Target Target
	Value  T
	Err    error
	Took   time.Duration
}

// Each asks every target with f, at most c's Parallel (or, for writes, pass 1) at
// a time, and returns the results in the order of targets. parallel 0 means the
// client's own figure. Targets whose turn had not come when ctx ended have the
// error of the context as a *Timeout or as context.Canceled.
func Each[T any](ctx context.Context, c *Client, parallel int, targets []Target,
	f func(ctx context.Context, t Target) (T, error)) []Result[T] {
	if parallel <= 0 {
		parallel = c.o.Parallel
	}
	out := make([]Result[T], len(targets))
	next := make(chan int, len(targets))
	for i := range targets {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(parallel, len(targets)) {
		wg.Go(func() {
			for i := range next {
				out[i] = one(ctx, targets[i], f)
			}
		})
	}
	wg.Wait()
	return out
}

func one[T any](ctx context.Context, t Target, f func(ctx context.Context, t Target) (T, error)) Result[T] {
	r := Result[T]{Target: t}
	if ctx.Err() != nil {
		r.Err = failed(ctx, t.Addr, 0, 0, ctx.Err())
		return r
	}
	begin := time.Now()
	r.Value, r.Err = f(ctx, t)
	r.Took = time.Since(begin)
	return r
}

// EachNameserver asks every nameserver with f, side by side; the Target of each
// result has only its Addr.
func EachNameserver[T any](ctx context.Context, c *Client, f func(ctx context.Context, addr string) (T, error)) []Result[T] {
	targets := make([]Target, len(c.o.Nameservers))
	for i, a := range c.o.Nameservers {
		targets[i] = Target{Addr: a, ID: -1}
	}
	return Each(ctx, c, 0, targets, func(ctx context.Context, t Target) (T, error) { return f(ctx, t.Addr) })
}
