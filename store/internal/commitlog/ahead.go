package commitlog

import (
	"sync"

	"mqctl/store/record"
)

const (
	aheadWindows = 4
	// AheadBytes is from how much log on reading ahead is worth a goroutine.
	AheadBytes = 64 << 20
)

// Ahead is a Scanner for a long way: one goroutine reads and checks while its caller works
// with what came before. Close ends the goroutine; it does not outlive that.
type Ahead struct {
	batches chan *window
	free    chan *window
	stop    chan struct{}
	done    sync.WaitGroup

	now *window // the caller's; nil: none yet
	at  int     // next of its records
	pos int64
}

// window is a run of records in one buffer, and how the scan ended, if it did behind them.
type window struct {
	buf     []byte
	records []record.View
	pos     int64 // behind the last of them, and what was passed over
	crossed int
	err     error
}

// ScanAhead is Scan with all checks.
func (l *Log) ScanAhead(pos int64) *Ahead {
	a := &Ahead{
		batches: make(chan *window, aheadWindows), free: make(chan *window, aheadWindows),
		stop: make(chan struct{}), pos: pos,
	}
	for range aheadWindows {
		a.free <- &window{}
	}
	a.done.Go(func() { a.run(l.Scan(pos, false)) })
	return a
}

// run is the goroutine.
func (a *Ahead) run(sc *Scanner) {
	defer close(a.batches)
	var w *window // being filled
	last := sc.pos
	next := func() bool {
		if w != nil {
			w.pos, w.crossed = last, sc.Crossed
			a.batches <- w // has room for all there are
		}
		select {
		case w = <-a.free:
			w.records, w.err = w.records[:0], nil
			return true
		case <-a.stop:
			w = nil
			return false
		}
	}
	stopped := false
	sc.fresh = func(n int64) []byte {
		if !next() {
			stopped = true
			return nil
		}
		if int64(cap(w.buf)) < n {
			w.buf = make([]byte, n)
		}
		return w.buf[:n]
	}
	for {
		v, err := sc.Next()
		if stopped {
			return
		}
		if err == nil {
			w.records = append(w.records, v)
			last = sc.pos
			continue
		}
		if w == nil && !next() {
			return
		}
		w.err, last = err, sc.pos
		w.pos, w.crossed = last, sc.Crossed
		a.batches <- w
		return
	}
}

// Pos is the position of the record that Next will return.
func (a *Ahead) Pos() int64 { return a.pos }

// Crossed is how many segments the scan has begun to read.
func (a *Ahead) Crossed() int {
	if a.now == nil {
		return 0
	}
	return a.now.crossed
}

// Next is Scanner.Next.
func (a *Ahead) Next() (record.View, error) {
	for {
		if a.now != nil && a.at < len(a.now.records) {
			v := a.now.records[a.at]
			a.at++
			a.pos = int64(v.PhysOffset()) + int64(v.Size())
			return v, nil
		}
		if w := a.now; w != nil {
			a.pos = w.pos
			if w.err != nil {
				return record.View{}, w.err
			}
			a.free <- w
		}
		a.now, a.at = <-a.batches, 0
	}
}

// Close ends the scan.
func (a *Ahead) Close() {
	close(a.stop)
	a.done.Wait()
}
