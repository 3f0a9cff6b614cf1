package broker

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Bounds of a pool: requests waiting and the bytes of their bodies.
const (
	poolQueue = 4096
	poolBytes = 64 << 20
)

// pool runs work that may wait, on a fixed number of workers behind a bounded
// queue. Whoever submits to a full pool answers SYSTEM_BUSY.
type pool struct {
	workers int
	jobs    chan poolJob
	bytes   atomic.Int64 // bodies waiting or under way; at most poolBytes, and one
	closed  atomic.Bool
	// panicked hears of a panic that a job let through; nil: the process ends. Jobs
	// guard their own requests, since only they know whom to answer.
	panicked func(p any)
}

type poolJob struct {
	bytes int
	run   func(ctx context.Context)
}

func newPool(workers int) *pool {
	return &pool{workers: workers, jobs: make(chan poolJob, poolQueue)}
}

// fits says whether a body of n bytes would be taken now, so that a request is
// cloned only if it has a place.
func (p *pool) fits(n int) bool {
	return !p.closed.Load() && len(p.jobs) < cap(p.jobs) && p.bytes.Load()+int64(n) <= poolBytes
}

// submit queues f; false if the pool is full or stopped. It never waits.
func (p *pool) submit(n int, f func(ctx context.Context)) bool {
	if !p.fits(n) {
		return false
	}
	p.bytes.Add(int64(n))
	select {
	case p.jobs <- poolJob{n, f}:
		return true
	default:
		p.bytes.Add(int64(-n))
		return false
	}
}

// run works until ctx ends, then finishes what is queued (with ctx ended, so
// that nothing waits long) and returns.
func (p *pool) run(ctx context.Context) error {
	var g errgroup.Group
	for range p.workers {
		g.Go(func() error {
			for {
				select {
				case j := <-p.jobs:
					p.do(ctx, j)
				case <-ctx.Done():
					p.drain(ctx)
					return nil
				}
			}
		})
	}
	return g.Wait()
}

func (p *pool) drain(ctx context.Context) {
	p.closed.Store(true)
	for {
		select {
		case j := <-p.jobs:
			p.do(ctx, j)
		default:
			return
		}
	}
}

func (p *pool) do(ctx context.Context, j poolJob) {
	defer p.bytes.Add(int64(-j.bytes))
	if p.panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				p.panicked(v)
			}
		}()
	}
	j.run(ctx)
}
