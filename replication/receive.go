package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"mqctl/store"
	"mqctl/store/record"
)

// receiver is one connection to the master.
type receiver struct {
	s      *Slave
	nc     net.Conn
	plan   plan
	master string // remoting address
	in     inbox
	fsync  bool
	synced chan struct{} // there is more to sync

	reported int64
	wroteAt  time.Time // of the last report
	readAt   time.Time // when bytes came last
	armed    time.Time // the read deadline that is set
	// writeArmed is when the write deadline was set.
	writeArmed time.Time
	report     [reportSize]byte
	measured   time.Time
	caught     bool // the end of the log was reached once
	unheard    bool // the master may still refuse our certificate
}

// run reports, and takes what the master sends, until the connection ends.
func (r *receiver) run(ctx context.Context) error {
	st := r.s.o.Settings()
	r.fsync = st.AckFsync
	r.synced = make(chan struct{}, 1)
	r.in.next = r.plan.first
	if r.plan.pretend {
		r.in.space()[0] = 0
		r.in.n = 1
	}
	if r.plan.anchor {
		r.in.anchor = r.anchor
	}
	r.s.bytes.Store(0)
	// The master looks at our certificate after the handshake has ended here.
	if r.unheard = r.s.o.Auth.TLS(); !r.unheard {
		r.connected()
	}
	r.readAt = r.s.o.Now()
	if err := r.send(r.plan.report); err != nil {
		return lastWord(r.nc, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	unhook := context.AfterFunc(ctx, func() { r.nc.Close() })
	defer unhook()
	g.Go(func() error { return r.scout(ctx) })
	if r.fsync {
		g.Go(func() error { return r.syncLoop(ctx) })
	}
	g.Go(func() error { return r.readLoop() })
	return g.Wait()
}

// connected makes the connection count.
func (r *receiver) connected() {
	r.unheard = false
	r.s.setConnected(true)
	r.progress()
}

// anchor takes the start that an Apache master chose for an empty log.
func (r *receiver) anchor(pos int64) error {
	if seg := r.s.o.Settings().segment(); pos < 0 || pos%seg != 0 {
		return &streamError{fmt.Sprintf("the master begins at %d, which is no start of a file of %d bytes: mappedFileSizeCommitLog differs", pos, seg)}
	}
	if pos == 0 {
		return nil
	}
	return r.s.o.Log.StartAt(record.PhysOffset(pos))
}

func (r *receiver) readLoop() error {
	for {
		if err := r.arm(); err != nil {
			return err
		}
		k, err := r.nc.Read(r.in.space())
		if k > 0 {
			r.readAt = r.s.o.Now()
			r.s.lastRead.Store(r.readAt.UnixNano())
			if r.unheard {
				r.connected()
			}
			if err := r.took(k); err != nil {
				return r.explain(err)
			}
		}
		if err == nil {
			continue
		}
		if r.in.gathers() { // the rest may never come
			if aerr := r.append(); aerr != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				return r.explain(aerr)
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, io.EOF) {
				return errors.New("the master closed the connection")
			}
			return err
		}
		r.armed = time.Time{}
		if quiet := r.s.o.Now().Sub(r.readAt); quiet >= r.s.o.Settings().housekeeping() {
			return fmt.Errorf("nothing was heard from the master for %v", quiet.Round(time.Millisecond))
		}
	}
}

// arm sets the deadline of the next read, and sends the report that says we live,
// if it is time. With haAckLevel=fsync the syncer does that.
func (r *receiver) arm() error {
	st, now := r.s.o.Settings(), r.s.o.Now()
	dead := r.readAt.Add(st.housekeeping())
	if !r.fsync {
		if now.Sub(r.wroteAt) >= st.heartbeat() {
			if err := r.send(r.reported); err != nil {
				return err
			}
		}
		if beat := r.wroteAt.Add(st.heartbeat()); beat.Before(dead) {
			dead = beat
		}
	}
	// Moving a deadline costs something: one that is early only wakes us for nothing.
	if !r.armed.IsZero() && r.armed.After(now) && dead.Sub(r.armed) < st.heartbeat()/2 && !dead.Before(r.armed) {
		return nil
	}
	r.armed = dead
	return r.nc.SetReadDeadline(dead)
}

// took appends what k new bytes bring, and reports.
func (r *receiver) took(k int) error {
	s := r.s
	s.bytes.Add(int64(k))
	if err := r.in.took(k); err != nil {
		return err
	}
	if r.in.end > s.masterEnd.Load() || r.in.end == r.in.next {
		s.masterEnd.Store(max(r.in.end, s.masterEnd.Load()))
		s.masterEndAt.Store(r.readAt.UnixNano())
	}
	if r.in.n == 0 || r.in.gathers() {
		r.measure()
		return nil
	}
	err := r.append()
	r.measure()
	return err
}

// append offers the log what is there, and reports.
func (r *receiver) append() error {
	s := r.s
	n, err := s.o.Log.AppendRaw(r.in.log())
	if n > 0 {
		if derr := r.in.drop(n); err == nil {
			err = derr
		}
		end := s.o.Log.Positions().Max
		if r.fsync {
			select {
			case r.synced <- struct{}{}:
			default:
			}
		} else if serr := r.send(int64(end)); err == nil {
			err = serr
		}
	} else if err == nil {
		err = r.in.drop(0)
	}
	return err
}

// send reports an end. One goroutine does that on a connection: the reader, or with
// haAckLevel=fsync the syncer, after the first.
func (r *receiver) send(end int64) error {
	now := r.s.o.Now()
	if r.plan.pretend {
		end = max(end, 1)
	}
	if now.Sub(r.writeArmed) > time.Second {
		r.writeArmed = now
		if err := r.nc.SetWriteDeadline(now.Add(r.s.o.Settings().housekeeping())); err != nil {
			return err
		}
	}
	putReport(r.report[:], end)
	if _, err := r.nc.Write(r.report[:]); err != nil {
		return err
	}
	r.reported, r.wroteAt = end, now
	r.s.lastWrite.Store(now.UnixNano())
	return nil
}

// explain makes a state of what was wrong with the stream or the log.
func (r *receiver) explain(err error) error {
	var stream *streamError
	var raw *store.RawError
	switch {
	case errors.As(err, &raw):
		return alarm(Diverged, "what the master sends is no continuation of this log: at %d: %w", raw.At, err)
	case errors.As(err, &stream) && r.in.frames <= 1 && r.plan.report == 0:
		return err // an empty log, and the master's files moved on: ask again
	case errors.As(err, &stream):
		return alarm(Diverged, "the stream is broken: %w", err)
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
		return err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return alarm(Failed, "the log takes nothing: %w", err)
}

// syncLoop syncs what was appended, as much as there is at a time, and reports it.
func (r *receiver) syncLoop(ctx context.Context) error {
	timer := time.NewTimer(r.s.o.Settings().heartbeat())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if err := r.send(r.reported); err != nil {
				return err
			}
		case <-r.synced:
			end, err := r.s.o.Log.Sync(ctx)
			if err != nil {
				return alarm(Failed, "the log cannot be synced: %w", err)
			}
			if int64(end) > r.reported {
				if err := r.send(int64(end)); err != nil {
					return err
				}
			}
		}
		timer.Reset(r.s.o.Settings().heartbeat())
	}
}

// scout asks where the master's log ends: what arrives tells little of that while
// we are far behind.
func (r *receiver) scout(ctx context.Context) error {
	t := time.NewTicker(scoutEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if r.master == "" {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		end, err := r.ask(ask)
		cancel()
		if err == nil && end >= r.s.masterEnd.Load() {
			r.s.setMasterEnd(end)
		}
	}
}

func (r *receiver) ask(ctx context.Context) (int64, error) {
	if r.plan.ours {
		req := r.s.self()
		req.Peek = true
		a, _, err := r.s.o.Attach(ctx, r.master, req)
		return a.End, err
	}
	_, end, _, err := r.s.o.Foreign(ctx, r.master, -1)
	return end, err
}

// measure keeps rate and state up to date, once a second.
func (r *receiver) measure() {
	d := r.readAt.Sub(r.measured)
	if d < time.Second && r.caught {
		return
	}
	if d >= time.Second {
		n := r.s.bytes.Swap(0)
		if !r.measured.IsZero() {
			r.s.rate.Store(int64(float64(n) / d.Seconds()))
		}
		r.measured = r.readAt
		r.progress()
		return
	}
	if int64(r.s.o.Log.Positions().Max) >= r.s.masterEnd.Load() {
		r.progress()
	}
}

// progress says how far the copy is.
func (r *receiver) progress() {
	s := r.s
	own, end := int64(s.o.Log.Positions().Max), max(s.masterEnd.Load(), r.plan.masterEnd)
	s.mu.Lock()
	if s.st.CopyTo == 0 && end-own >= longCopy {
		s.st.CopyFrom, s.st.CopyTo = record.PhysOffset(own), record.PhysOffset(end)
	}
	if s.st.CopyTo > 0 && own >= int64(s.st.CopyTo) {
		s.st.CopyTo = 0
	}
	from, to := int64(s.st.CopyFrom), int64(s.st.CopyTo)
	s.st.Ours = r.plan.ours
	s.mu.Unlock()
	r.caught = own >= end
	if to > 0 {
		s.setState(Copying, fmt.Sprintf("copies the master's log from %d to %d", from, to))
		return
	}
	sentence := "follows the end of the master's log"
	if r.plan.note != "" {
		sentence += "; " + r.plan.note
	}
	s.setState(Syncing, sentence)
}
