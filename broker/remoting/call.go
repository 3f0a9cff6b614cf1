package remoting

// Request is one decoded request. It and its slices are valid until the handler
// returns; Clone makes an independent copy for pooled work.
type Request struct {
	Call            // who to answer
	Code     int    // one of the Req constants, or anything else
	Language string // of the sender
	Version  int    // of the sender, an ordinal of MQVersion
	Flag     int    // as sent; see Call.OneWay
	Remark   []byte // nil = none
	Ext      Fields
	Body     []byte // nil = none
}

// Clone copies r with everything it points to.
func (r *Request) Clone() *Request {
	c := *r
	mem := make([]byte, 0, len(r.Remark)+len(r.Ext.raw)+len(r.Body))
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		at := len(mem)
		mem = append(mem, b...)
		return mem[at:len(mem):len(mem)]
	}
	c.Remark = keep(r.Remark)
	c.Ext.raw = keep(r.Ext.raw)
	c.Body = keep(r.Body)
	return &c
}

// Call identifies a request that can still be answered. It is small and can be
// copied and kept, to answer later from any goroutine. Exactly one Reply per call
// counts; a second is dropped. On a one-way request Reply does nothing. A call that
// shall never be answered is ended by Drop, or it counts against the bound of its
// connection for ever.
type Call struct {
	Conn   *Conn
	Opaque int32
	slot   int32  // in Conn.slots, or untracked
	seq    uint32 // must match the slot's
	kind   byte   // serialize type of the request, which the answer mirrors
	oneWay bool
}

// untracked is the slot of calls that are not counted (one-way, and requests that
// reach a client).
const untracked = -1

// OneWay says whether the peer asked for no answer (flag bit 1).
func (c Call) OneWay() bool { return c.oneWay }

// Reply queues the answer: code, remark ("" = none), header (nil = no extFields),
// body (copied; empty = none). It does not write to the socket: inside
// ServeRequest and BurstEnd the server does so at the end of the burst; everybody
// else calls Conn.Flush after the last Reply of a round.
func (c Call) Reply(code int, remark string, h ExtEncoder, body []byte) {
	if c.oneWay || c.Conn == nil {
		return
	}
	c.Conn.reply(c, code, remark, h, body)
}

// ReplyNow is Reply and Flush.
func (c Call) ReplyNow(code int, remark string, h ExtEncoder, body []byte) {
	c.Reply(code, remark, h, body)
	if c.Conn != nil {
		c.Conn.Flush()
	}
}

// Drop ends the call without an answer (an END_TRANSACTION of unknown outcome, say).
func (c Call) Drop() {
	if c.oneWay || c.Conn == nil {
		return
	}
	c.Conn.mu.Lock()
	defer c.Conn.mu.Unlock()
	c.Conn.finish(c)
}

// Guard runs f, the work of request code on any goroutine but the connection's
// reader, which has its own. A panic of f is logged with a report and answered with
// code 1 if nothing else was; it goes no further. It says whether f came back without
// one. The caller flushes. A call of no connection is not guarded.
func (c Call) Guard(code int, f func()) (ok bool) {
	if c.Conn != nil {
		defer func() {
			if p := recover(); p != nil {
				c.Conn.answerPanic(c, p, code)
				ok = false
			}
		}()
	}
	f()
	return true
}

// Handler serves the requests of a server's connections. Its methods are called
// on the connection's reader, never two at a time for one connection.
type Handler interface {
	// ServeRequest is called for each request, in order. It never waits: it
	// answers, or keeps r.Call and lets others answer later.
	ServeRequest(c *Conn, r *Request)
	// BurstEnd is called after the last whole frame of what one read brought, and
	// before the reader waits because too much is unanswered or unread.
	BurstEnd(c *Conn)
	// Closed is called once when the connection is gone.
	Closed(c *Conn)
}
