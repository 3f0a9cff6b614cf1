package replication

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"mqctl/store/record"
)

// stream is what a connection has sent: whole frames up to next, of the last one
// all but left bytes. What is left of a body is read again from the log when the
// socket takes it, so a slow reader holds no memory here.
//
// Invariants: headLeft <= headerSize; if headLeft > 0 no byte of the body is out;
// the body's missing bytes are [next-bodyLeft, next).
type stream struct {
	next     int64
	head     [headerSize]byte
	headLeft int
	bodyLeft int
	flow     bucket
}

func (s *stream) frameDone() bool { return s.headLeft == 0 && s.bodyLeft == 0 }

func (s *stream) begin(n int) {
	putHeader(s.head[:], s.next, n)
	s.headLeft, s.bodyLeft = headerSize, n
	s.next += int64(n)
	s.flow.take(headerSize + n)
}

// progress is why sending paused.
type progress uint8

const (
	rests   progress = iota // everything is out
	goesOn                  // the budget is used up
	blocked                 // the socket is full
	limited                 // the flow limit is reached
	broken
)

const (
	memoryFrame = 256 << 10 // largest frame whose bytes pass through this process
	nearEnd     = 8 << 20   // so close to the end the store has the bytes in memory
	pushFrames  = 4         // that the append path sends at most for one append
	pushRounds  = 3
	// holdBytes is what is held back at most while an acknowledgement is on its way.
	holdBytes = 64 << 10
)

var frameBuffers = sync.Pool{New: func() any {
	b := make([]byte, headerSize+memoryFrame)
	return &b
}}

// push sends, from the append path, what the socket takes at once. If it is
// already being sent by another goroutine, that one looks for more when it is done.
func (c *conn) push() {
	if c.w.raw == nil {
		c.wakeSender()
		return
	}
	for i := 0; ; i++ {
		if !c.sendMu.TryLock() {
			return
		}
		if c.handed {
			c.sendMu.Unlock()
			return
		}
		if c.holds() {
			c.sendMu.Unlock()
			if c.holds() {
				return
			}
			continue // the acknowledgement came just now, and found the lock taken
		}
		r := c.send(pushFrames)
		if r != rests || i == pushRounds {
			c.handed = true
			c.sendMu.Unlock()
			c.wakeSender()
			return
		}
		c.sendMu.Unlock()
		if !c.behind() {
			return
		}
	}
}

// holds says whether what was appended waits for the slave's next acknowledgement,
// which sends it (acknowledged calls push). The first message leaves at once; those
// that come while the slave works on it leave together: one write, one read, one
// append and one report for all of them. Slaves of ours acknowledge all they got.
func (c *conn) holds() bool {
	sent := c.sent.Load()
	return c.ours() && c.ack.Load() < sent && int64(c.m.o.Log.Positions().Max)-sent < holdBytes
}

func (c *conn) behind() bool { return c.sent.Load() < int64(c.m.o.Log.Positions().Max) }

func (c *conn) wakeSender() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// send sends at most frames frames, as far as the socket takes them. sendMu is held.
func (c *conn) send(frames int) progress {
	for {
		if c.str.frameDone() {
			if frames == 0 {
				return goesOn
			}
			frames--
			if r := c.nextFrame(); r != goesOn {
				return r
			}
		}
		full, err := c.sendFrame()
		if err != nil {
			c.fail(err)
			return broken
		}
		if full {
			return blocked
		}
	}
}

// nextFrame begins the frame of the next bytes of the log. It returns goesOn if
// there is one. sendMu is held.
func (c *conn) nextFrame() progress {
	st, s := c.m.o.Settings(), &c.str
	end := int64(c.m.o.Log.Positions().Max)
	n := end - s.next
	if n == 0 {
		return rests
	}
	if n < 0 {
		c.fail(fmt.Errorf("%w: it was cut to %d, and %d bytes behind that are sent", errLogCut, end, -n))
		return broken
	}
	now := c.m.o.Now()
	most, wait := s.flow.fill(st.FlowBytesPerSecond, now)
	if wait > 0 {
		c.flowWait = wait
		return limited
	}
	size := int64(st.batch())
	if c.ours() {
		size = max(size, maxOurBody)
	}
	seg := st.segment()
	n = min(n, size, most, seg-s.next%seg)
	if c.w.raw == nil || end-s.next <= nearEnd {
		n = min(n, memoryFrame)
	}
	s.begin(int(n))
	c.sent.Store(s.next)
	c.lastWrite.Store(now.UnixNano())
	return goesOn
}

// sendFrame sends what is left of the current frame. sendMu is held.
func (c *conn) sendFrame() (full bool, err error) {
	s := &c.str
	pos := s.next - int64(s.bodyLeft)
	if s.bodyLeft > 0 && (s.bodyLeft > memoryFrame || int64(c.m.o.Log.Positions().Max)-pos > nearEnd) {
		if done, full, err := c.sendFile(pos); done || full || err != nil {
			return full, err
		}
	}
	b := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(b)
	for !s.frameDone() {
		p, err := c.fill(*b)
		if err != nil {
			return false, err
		}
		n, full, err := c.w.writeNow(p, false)
		c.wrote(n)
		if err != nil || full {
			return full, err
		}
	}
	return false, nil
}

// fill puts the rest of the current frame, as much as fits, into b.
func (c *conn) fill(b []byte) ([]byte, error) {
	s := &c.str
	h := copy(b, s.head[headerSize-s.headLeft:])
	want := min(s.bodyLeft, len(b)-h)
	if want == 0 {
		return b[:h], nil
	}
	pos := s.next - int64(s.bodyLeft)
	n, err := c.m.o.Log.ReadRaw(b[h:h+want], record.PhysOffset(pos))
	if err == nil && n < want {
		err = fmt.Errorf("the log at %d: %w", pos+int64(n), io.ErrUnexpectedEOF)
	}
	return b[:h+n], err
}

// wrote accounts for n bytes that left.
func (c *conn) wrote(n int) {
	s := &c.str
	h := min(n, s.headLeft)
	s.headLeft -= h
	s.bodyLeft -= n - h
	c.bytes.Add(int64(n))
}

// sendFile sends the frame by sendfile. done is false where that cannot be done,
// or can no more: the rest is then read.
func (c *conn) sendFile(pos int64) (done, full bool, err error) {
	s := &c.str
	r, ok, err := c.m.o.Log.RawFile(record.PhysOffset(pos), int64(s.bodyLeft))
	if err != nil || !ok || r.Len <= 0 {
		return err != nil, false, err
	}
	defer r.Release()
	if s.headLeft > 0 {
		n, full, err := c.w.writeNow(s.head[headerSize-s.headLeft:], true)
		c.wrote(n)
		if err != nil || full {
			return true, full, err
		}
	}
	for r.Len > 0 {
		n, full, ok, err := c.w.sendfileNow(r)
		c.wrote(n)
		r.Offset, r.Len = r.Offset+int64(n), r.Len-int64(n)
		switch {
		case err != nil || full:
			return true, full, err
		case !ok || n == 0:
			return false, false, nil
		}
	}
	return s.bodyLeft == 0, false, nil
}

// sendLoop sends what push left, and heartbeats.
func (c *conn) sendLoop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		every := c.m.o.Settings().heartbeat()
		if c.started.Load() {
			pause, err := c.work()
			if err != nil {
				return err
			}
			if quiet := c.m.o.Now().Sub(time.Unix(0, c.lastWrite.Load())); pause == 0 && quiet >= every {
				if err := c.heartbeat(); err != nil {
					return err
				}
				pause = every
			} else if pause == 0 {
				pause = every - quiet
			}
			every = pause
		}
		timer.Reset(max(every, time.Millisecond))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// work sends until nothing is left, waiting for the socket, or until the flow
// limit asks for a pause.
func (c *conn) work() (pause time.Duration, err error) {
	for {
		var r progress
		if c.w.raw == nil {
			r, err = c.sendPlain()
		} else {
			err = c.w.whenWritable(func() bool {
				c.sendMu.Lock()
				r = c.send(16)
				c.handed = r != rests
				c.sendMu.Unlock()
				return r == blocked
			})
		}
		switch {
		case err != nil:
			return 0, err
		case r == broken:
			return 0, c.failure()
		case r == limited:
			return c.flowWait, nil
		case r == rests && !c.behind():
			return 0, nil
		}
	}
}

// sendPlain sends one frame over a connection that only knows how to wait (TLS,
// or one in memory). Only the sender goroutine comes here: handed stays true.
func (c *conn) sendPlain() (progress, error) {
	c.sendMu.Lock()
	r := goesOn
	if c.str.frameDone() {
		r = c.nextFrame()
	}
	if r != goesOn {
		c.sendMu.Unlock()
		return r, nil
	}
	buf := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(buf)
	p, err := c.fill(*buf)
	c.sendMu.Unlock()
	if err != nil {
		return broken, err
	}
	n, err := c.nc.Write(p)
	c.sendMu.Lock()
	c.wrote(n)
	c.sendMu.Unlock()
	return goesOn, err
}

// heartbeat tells the slave that we live, and where its next byte lies.
func (c *conn) heartbeat() error {
	c.sendMu.Lock()
	if !c.str.frameDone() {
		c.sendMu.Unlock()
		return nil
	}
	c.str.begin(0)
	c.lastWrite.Store(c.m.o.Now().UnixNano())
	if c.w.raw != nil {
		full, err := c.sendFrame()
		c.handed = c.handed || full
		c.sendMu.Unlock()
		if full {
			c.wakeSender()
		}
		return err
	}
	head := c.str.head
	c.str.headLeft = 0
	c.sendMu.Unlock()
	_, err := c.nc.Write(head[:])
	return err
}
