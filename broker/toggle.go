package broker

import (
	"context"
	"sync"
)

// toggle is work that belongs to a role: it runs while it is switched on. Run
// owns its goroutine; on and off may be called before, during and after Run, by
// one caller at a time.
type toggle struct {
	work func(ctx context.Context) error

	mu   sync.Mutex // guards what follows; held for assignments only
	want bool
	stop context.CancelFunc // of the work under way, nil if none is
	idle chan struct{}      // closed when no work is under way
	kick chan struct{}      // wakes Run
}

func newToggle(work func(ctx context.Context) error) *toggle {
	t := &toggle{work: work, idle: make(chan struct{}), kick: make(chan struct{}, 1)}
	close(t.idle)
	return t
}

// Run works whenever the toggle is on, until ctx ends or the work fails.
func (t *toggle) Run(ctx context.Context) error {
	for {
		if work, done := t.begin(ctx); work != nil {
			err := t.work(work)
			failed := err != nil && work.Err() == nil // else it was switched off
			done()
			if failed {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.kick:
		}
	}
}

// begin gives the context of one stretch of work; nil if there is nothing to do.
func (t *toggle) begin(ctx context.Context) (work context.Context, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.want || ctx.Err() != nil {
		return nil, nil
	}
	work, cancel := context.WithCancel(ctx)
	idle := make(chan struct{})
	t.stop, t.idle = cancel, idle
	return work, func() {
		cancel()
		t.mu.Lock()
		t.stop = nil
		t.mu.Unlock()
		close(idle)
	}
}

// on lets the work begin.
func (t *toggle) on() {
	t.mu.Lock()
	t.want = true
	t.mu.Unlock()
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// off ends the work and waits until it has ended.
func (t *toggle) off() {
	t.mu.Lock()
	t.want = false
	if t.stop != nil {
		t.stop()
	}
	idle := t.idle
	t.mu.Unlock()
	<-idle
}
