package remoting

import "context"

// Answered hears once, on the connection's reader, what became of a request that
// Begin sent: the answer's header and body, which are valid until it returns, or
// why there is none. It must not wait.
type Answered func(h *Header, body []byte, err error)

// pending is who waits for an answer: a channel (Call) or a function (Begin).
type pending struct {
	answer chan *Response
	done   Answered
}

// Begin queues a request without waiting for its answer, and without writing it:
// call Flush after the last of a round. oneWay requests get no answer and done may
// be nil. After an error done is not called.
func (c *Conn) Begin(code int, oneWay bool, h ExtEncoder, body []byte, done Answered) error {
	flag := 0
	if oneWay {
		flag, done = flagOneWay, nil
	}
	_, _, err := c.requestLocked(code, flag, h, body, pending{done: done})
	return err
}

// failBegun tells everybody whose answer will not come any more. Called by the
// reader when the connection has ended.
func (c *Conn) failBegun() {
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	if len(calls) == 0 {
		return
	}
	err := &ClosedError{Addr: c.addr, Err: c.reason()}
	for _, p := range calls {
		if p.done != nil {
			c.guard("a lost answer", func() { p.done(nil, nil, err) })
		}
	}
}

// Connect returns the connection to addr, which other calls share; it dials if
// there is none. Errors are *DialError.
func (c *Client) Connect(ctx context.Context, addr string) (*Conn, error) { return c.conn(ctx, addr) }
