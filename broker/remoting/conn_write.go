package remoting

import (
	"context"
	"errors"
	"os"
	"time"
)

const (
	// flushAt is how much may wait before Reply flushes by itself, in bytes.
	flushAt = 1 << 20
	// headerGuess is what a reply's header is likely to need, in bytes.
	headerGuess = 512
)

// reply queues the answer to k.
func (c *Conn) reply(k Call, code int, remark string, h ExtEncoder, body []byte) {
	o := outHeader{
		code: code, flag: flagResponse, version: Version, language: goLanguage,
		opaque: k.Opaque, remark: remark, kind: k.kind,
	}
	waiting := c.replyLocked(k, &o, h, body)
	if waiting < flushAt {
		return
	}
	c.Flush()
	if waiting > c.conf.maxUnread {
		c.endIfUnread()
	}
}

// replyLocked queues the frame and ends the call, and returns how many bytes wait.
func (c *Conn) replyLocked(k Call, o *outHeader, h ExtEncoder, body []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock() // h may panic
	if !c.open(k) {
		return 0
	}
	if _, err := c.enqueue(o, h, body); err != nil {
		// The peer waits for an answer and there is none it could read.
		o.code, o.remark = CodeSystemError, "the answer is too large: "+err.Error()
		if _, err := c.enqueue(o, nil, nil); err != nil {
			o.remark = "the answer is too large"
			_, _ = c.enqueue(o, nil, nil) // some 100 bytes
		}
	}
	c.finish(k)
	return c.unread
}

// enqueue encodes a frame behind what waits already and returns its size. mu is held.
func (c *Conn) enqueue(o *outHeader, h ExtEncoder, body []byte) (int, error) {
	b := c.outBuffer(headerGuess + len(o.remark) + len(body))
	before := b.n
	dst, err := appendFrame(b.b[:before], o, h, body, &c.ext)
	if err != nil {
		return 0, err
	}
	b.adopt(dst)
	c.unread += b.n - before
	c.countUnread()
	return b.n - before, nil
}

// outBuffer returns the buffer that the next frame of about need bytes goes to.
// Answers are gathered in one buffer up to the size of a burst, so that they leave
// in one write; beyond that buffers are strung together. mu is held.
func (c *Conn) outBuffer(need int) *buffer {
	last := len(c.out) - 1
	if last >= 0 {
		b := c.out[last]
		if b.n+need <= len(b.b) {
			return b
		}
		if b.n+need <= burstBytes {
			bigger := takeBuffer(b.n + need)
			bigger.n = copy(bigger.b, b.b[:b.n])
			b.release()
			c.out[last] = bigger
			return bigger
		}
	} else if need < c.lastOut {
		need = min(c.lastOut, burstBytes)
	}
	b := takeBuffer(min(need, MaxFrame))
	c.out = append(c.out, b)
	return b
}

// endIfUnread closes the connection if the peer has left too much unread even after
// a flush.
func (c *Conn) endIfUnread() {
	c.mu.Lock()
	over := c.unread > c.conf.maxUnread
	c.mu.Unlock()
	if over {
		c.end(ErrUnread)
	}
}

// writeAttempt is one piece to be written without waiting. It lives in the
// connection so that the callback needs no allocation.
type writeAttempt struct {
	b   []byte
	n   int
	err error
}

// writeReady is the callback of RawConn.Write: one attempt, whatever comes of it.
func (c *Conn) writeReady(fd uintptr) bool {
	c.attempt.n, c.attempt.err = writeNow(fd, c.attempt.b)
	return true
}

// Flush writes what is queued without blocking; what the socket does not take is
// left to a writer goroutine that lives while bytes wait. A client that leaves
// MaxUnread bytes unread, or takes nothing for WriteTimeout, is closed.
func (c *Conn) Flush() {
	c.mu.Lock()
	if c.writing || c.closed || len(c.out) == 0 {
		c.mu.Unlock()
		return
	}
	c.writing = true
	if c.raw == nil {
		c.mu.Unlock()
		go c.writer(nil, 0)
		return
	}
	for {
		b := c.nextOut()
		c.mu.Unlock()
		if b == nil {
			return
		}
		n, err := c.tryWrite(b.b[:b.n])
		if err != nil {
			c.stopWriting(b, err)
			return
		}
		if n < b.n {
			go c.writer(b, n)
			return
		}
		c.mu.Lock()
		c.wrote(b, n)
	}
}

// tryWrite writes what the socket takes now.
func (c *Conn) tryWrite(p []byte) (int, error) {
	c.attempt = writeAttempt{b: p}
	err := c.raw.Write(c.writeFn)
	if err == nil {
		err = c.attempt.err
	}
	n := c.attempt.n
	c.attempt = writeAttempt{}
	if n > 0 {
		c.touch()
	}
	return n, err
}

// nextOut takes the oldest buffer to be written; nil ends writing. mu is held.
func (c *Conn) nextOut() *buffer {
	if len(c.out) == 0 || c.closed {
		c.writing = false
		return nil
	}
	b := c.out[0]
	if len(c.out) == 1 {
		c.lastOut = b.n
		c.out = c.out[:0] // the array is kept
	} else {
		c.lastOut = burstBytes
		c.out = append(c.out[:0], c.out[1:]...)
	}
	return b
}

// wrote notes that the last n bytes of b have gone and gives b back. mu is held.
func (c *Conn) wrote(b *buffer, n int) {
	c.unread -= n
	c.countUnread()
	b.release()
	c.wakeReader()
}

// stopWriting ends the connection after a failed write of b.
func (c *Conn) stopWriting(b *buffer, err error) {
	c.mu.Lock()
	c.writing = false
	c.mu.Unlock()
	b.release()
	c.end(err)
}

// writer writes b from byte done on (nil: begins with what is queued), then all
// that is queued, waiting for the peer.
func (c *Conn) writer(b *buffer, done int) {
	for {
		if b == nil {
			c.mu.Lock()
			if len(c.out) == 0 || c.closed {
				// Flush's attempts must not find an expired deadline.
				_ = c.nc.SetWriteDeadline(time.Time{})
				c.writing = false
				c.mu.Unlock()
				return
			}
			b = c.nextOut()
			c.mu.Unlock()
		} else if done > 0 {
			c.mu.Lock()
			c.unread -= done
			c.countUnread()
			c.mu.Unlock()
		}
		left := b.n - done
		if err := c.writeAll(b.b[done:b.n]); err != nil {
			c.stopWriting(b, err)
			return
		}
		c.mu.Lock()
		c.wrote(b, left)
		c.mu.Unlock()
		b, done = nil, 0
	}
}

// writeChunk is how much one timed write tries, in bytes.
const writeChunk = 256 << 10

// writeTries is how often a write is tried within WriteTimeout: a peer that stops
// reading is noticed at most one such part late.
const writeTries = 6

// writeAll writes p; the peer must take something within each WriteTimeout.
func (c *Conn) writeAll(p []byte) error {
	idle := 0
	for len(p) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.conf.writeTimeout / writeTries)); err != nil {
			return err
		}
		n, err := c.nc.Write(p[:min(len(p), writeChunk)])
		if n > 0 {
			c.touch()
			idle = 0
		} else {
			idle++
		}
		p = p[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if idle >= writeTries {
			return ErrNoProgress
		}
	}
	return nil
}

// Notify sends a one-way request to the peer (codes 40, 220 ...), serialised as
// the peer's last frame was (JSON for codes > 32767), and flushes. It fails if the
// connection is closed or the frame too large.
func (c *Conn) Notify(code int, h ExtEncoder, body []byte) error {
	_, _, err := c.request(code, flagOneWay, h, body, nil)
	return err
}

// Call sends a request to the peer and waits for its answer (307, 309) until ctx
// ends. Errors: *TimeoutError, *ClosedError, *FrameError, or context.Canceled.
func (c *Conn) Call(ctx context.Context, code int, h ExtEncoder, body []byte) (*Response, error) {
	r, _, err := c.call(ctx, code, h, body)
	return r, err
}

// call is Call that tells the size of the request too; 0 if it was not sent.
func (c *Conn) call(ctx context.Context, code int, h ExtEncoder, body []byte) (*Response, int, error) {
	start := time.Now()
	answer := make(chan *Response, 1)
	opaque, size, err := c.request(code, 0, h, body, answer)
	if err != nil {
		return nil, 0, err
	}
	select {
	case r := <-answer:
		return r, size, nil
	case <-ctx.Done():
		err = ctx.Err()
		if errors.Is(err, context.DeadlineExceeded) {
			err = &TimeoutError{Addr: c.addr, Code: code, After: time.Since(start)}
		}
	case <-c.ended:
		err = &ClosedError{Addr: c.addr, Err: c.reason()}
	}
	c.mu.Lock()
	delete(c.calls, opaque)
	c.mu.Unlock()
	select {
	case r := <-answer: // it came at the last moment
		return r, size, nil
	default:
		return nil, size, err
	}
}

// request queues a request and flushes. answer, if not nil, gets the response.
func (c *Conn) request(code, flag int, h ExtEncoder, body []byte, answer chan *Response) (int32, int, error) {
	opaque, size, err := c.requestLocked(code, flag, h, body, pending{answer: answer})
	if err != nil {
		return 0, 0, err
	}
	c.Flush()
	c.endIfUnread()
	return opaque, size, nil
}

func (c *Conn) requestLocked(code, flag int, h ExtEncoder, body []byte, p pending) (int32, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock() // h may panic
	if c.closed {
		return 0, 0, &ClosedError{Addr: c.addr, Err: c.why}
	}
	c.opaque++
	opaque := c.opaque
	size, err := c.enqueue(&outHeader{
		code: code, flag: flag, version: Version, language: goLanguage,
		opaque: opaque, kind: byte(c.kind.Load()),
	}, h, body)
	if err != nil {
		return 0, 0, err
	}
	if p.answer != nil || p.done != nil {
		if c.calls == nil {
			c.calls = make(map[int32]pending)
		}
		c.calls[opaque] = p
	}
	return opaque, size, nil
}

// complete hands a response to whoever waits for it; nobody does if it is late.
func (c *Conn) complete(h *Header, body []byte, size int) {
	c.mu.Lock()
	p := c.calls[h.Opaque]
	delete(c.calls, h.Opaque)
	c.mu.Unlock()
	if p.done != nil {
		own := *h // a header that a function value might keep would be allocated for every frame
		p.done(&own, body, nil)
		return
	}
	if p.answer == nil {
		return
	}
	p.answer <- &Response{
		Code: h.Code, Remark: string(h.Remark), Ext: h.Ext.Map(),
		Body: append([]byte(nil), body...), Version: h.Version, size: size,
	}
}
