package remoting

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// inbound is what a connection has read and not yet served. buf.b[r:w] is not
// served; between bursts that is nothing, or the first part of one frame.
//
// A buffer of burst size is taken only when the socket is readable. When it has no
// more, leftovers move to the smallest buffer that holds them: thousands of idle
// connections hold nothing. A buffer grows only as data arrives, never because a
// length word says so.
type inbound struct {
	conn   *Conn
	buf    *buffer
	r, w   int
	n      int // of the last read
	err    error
	readFn func(fd uintptr) bool
	parked atomic.Int32 // size of the buffer kept while waiting; tests look at it
}

// ready is the callback of RawConn.Read.
func (in *inbound) ready(fd uintptr) bool {
	in.makeRoom(burstBytes)
	n, again, err := readNow(fd, in.buf.b[in.w:])
	if again {
		in.park()
		return false
	}
	in.n, in.err = n, err
	return true
}

// fill waits until something could be read.
func (in *inbound) fill() error {
	in.n, in.err = 0, nil
	if raw := in.conn.raw; raw != nil {
		if err := raw.Read(in.readFn); err != nil {
			return err
		}
	} else {
		in.makeRoom(classes[0])
		in.n, in.err = in.conn.nc.Read(in.buf.b[in.w:])
	}
	in.w += in.n
	if in.n > 0 {
		in.conn.touch()
		return nil
	}
	if in.err == nil {
		return io.ErrNoProgress
	}
	return in.err
}

// makeRoom sees to a buffer of at least size bytes with room for a read.
func (in *inbound) makeRoom(size int) {
	if in.buf == nil {
		in.buf = takeBuffer(size)
		in.r, in.w = 0, 0
		return
	}
	if in.r > 0 {
		in.w = copy(in.buf.b, in.buf.b[in.r:in.w])
		in.r = 0
	}
	if in.w == len(in.buf.b) {
		// Whole frames have been served, so the frame is larger than the buffer.
		size = max(size, min(4*len(in.buf.b), MaxFrame))
	}
	if len(in.buf.b) < size {
		in.move(size)
	}
}

// park gives up memory before the reader waits for the peer.
func (in *inbound) park() {
	left := in.w - in.r
	if left == 0 {
		in.drop()
	} else if classFor(left) < in.buf.class {
		in.move(left)
	}
	in.parked.Store(int32(in.size()))
}

func (in *inbound) size() int {
	if in.buf == nil {
		return 0
	}
	return len(in.buf.b)
}

// move changes to a buffer of at least size bytes.
func (in *inbound) move(size int) {
	b := takeBuffer(size)
	n := copy(b.b, in.buf.b[in.r:in.w])
	in.buf.release()
	in.buf, in.r, in.w = b, 0, n
}

func (in *inbound) drop() {
	if in.buf != nil {
		in.buf.release()
		in.buf, in.r, in.w = nil, 0, 0
	}
}

// next takes one whole frame, nil if there is none. It is valid until the next read.
func (in *inbound) next() ([]byte, error) {
	if in.buf == nil {
		return nil, nil
	}
	b := in.buf.b[in.r:in.w]
	n, err := frameLength(b)
	if err != nil || n == 0 || n > len(b) {
		return nil, err
	}
	in.r += n
	return b[:n:n], nil
}

// read is the reader: it serves the connection until it ends.
func (c *Conn) read() {
	err := c.readBursts()
	c.end(err)
	c.logEnd(c.reason())
	c.in.drop()
	c.failBegun()
	if c.conf.gone != nil {
		c.conf.gone(c, c.reason())
	}
	c.guard("closed", func() { c.conf.handler.Closed(c) })
}

func (c *Conn) readBursts() error {
	for {
		err := c.in.fill()
		if c.conf.draining.Load() {
			c.await(forQuiet)
			return errDrained
		}
		if err != nil {
			return err
		}
		if err := c.serveBurst(); err != nil {
			if errors.As(err, new(*FrameError)) {
				c.await(forWritten) // the answers to what came before the junk
			}
			return err
		}
	}
}

// serveBurst serves all whole frames that have been read.
func (c *Conn) serveBurst() error {
	var frameErr error
	for again := true; again; {
		again, frameErr = c.serveFrames()
	}
	if err := c.endBurst(); err != nil {
		return err
	}
	return frameErr
}

// endBurst lets the handler finish what it gathered, and writes the answers.
func (c *Conn) endBurst() error {
	if !c.guard("burst end", func() { c.conf.handler.BurstEnd(c) }) {
		// Requests may have been gathered and lost: without the connection their
		// senders would wait for their time-outs.
		return errPanic
	}
	c.Flush()
	return nil
}

// serveFrames serves whole frames until there is none (again is false) or the
// handler panics, which it answers.
func (c *Conn) serveFrames() (again bool, err error) {
	c.req = Request{}
	defer func() {
		if p := recover(); p != nil {
			c.answerPanic(c.req.Call, p, c.req.Code)
			again = true
		}
	}()
	for {
		frame, err := c.in.next()
		if frame == nil || err != nil {
			c.req = Request{} // an idle connection keeps no buffer alive
			return false, err
		}
		h, body, err := DecodeFrame(frame)
		if err != nil {
			return false, err
		}
		if h.IsResponse() {
			c.complete(&h, body, len(frame))
			continue
		}
		if c.conf.mirror && c.kind.Load() != uint32(h.Serialize) {
			c.kind.Store(uint32(h.Serialize))
		}
		call, ok := c.admit(&h, len(frame), false)
		if !ok {
			if err := c.endBurst(); err != nil {
				return false, err
			}
			if !c.await(forRoom) {
				return false, c.reason()
			}
			call, _ = c.admit(&h, len(frame), true)
		}
		c.req = Request{
			Call: call, Code: h.Code, Language: h.Language, Version: h.Version,
			Flag: h.Flag, Remark: h.Remark, Ext: h.Ext, Body: body,
		}
		c.conf.handler.ServeRequest(c, &c.req)
	}
}

// answerPanic logs a panic and answers the request it was at, if it was at one.
func (c *Conn) answerPanic(k Call, p any, code int) {
	id := c.logPanic(p, slog.Int("code", code))
	k.Reply(CodeSystemError, "internal error, report "+id, nil, nil)
}

// logPanic writes a report of a panic and returns its id, which finds it in the log.
func (c *Conn) logPanic(p any, where slog.Attr) string {
	var b [4]byte
	v := rand.Uint32()
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	id := hex.EncodeToString(b[:])
	c.conf.log.Error("internal error", slog.String("report", id), slog.String("peer", c.addr), where,
		slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	return id
}

// Guard runs f, work for this connection that belongs to no single request. A panic
// of f is logged with a report and ends the connection: without it, peers would wait
// for answers that were lost. It says whether f came back without one.
func (c *Conn) Guard(what string, f func()) (ok bool) {
	if c.guard(what, f) {
		return true
	}
	c.end(errPanic)
	return false
}

// guard calls f and says whether it came back without a panic.
func (c *Conn) guard(what string, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			c.logPanic(p, slog.String("at", what))
			ok = false
		}
	}()
	f()
	return true
}

// logEnd writes why a connection ended if that is anything unusual.
func (c *Conn) logEnd(err error) {
	var bad *FrameError
	switch {
	case errors.As(err, &bad), errors.Is(err, ErrUnread), errors.Is(err, ErrNoProgress):
		c.conf.log.Warn("connection closed", "peer", c.addr, "reason", err.Error())
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		c.conf.log.Debug("connection closed", "peer", c.addr, "reason", err.Error())
	}
}
