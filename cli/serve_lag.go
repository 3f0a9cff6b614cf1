package cli

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker"
	"mqctl/cli/admin"
)

// lagEnv makes a slave that mqctl dev started stay behind its master: the
// number of bytes, the master's address and its replication address, with
// blanks between. It is set by mqctl dev alone.
const lagEnv = "MQCTL_DEV_LAG"

// heldBack keeps a slave's log a size behind its master's, for rehearsing what
// happens to consumers of a slave that lags. The slave is an ordinary one: only
// what it reads from the master's replication port is handed to it late.
type heldBack struct {
	bytes  int64
	master string       // remoting address
	ha     string       // replication address
	end    atomic.Int64 // newest byte of the master, as last heard
}

// lagFrom reads lagEnv; nil when it is not set.
func lagFrom(env func(string) string) *heldBack {
	words := strings.Fields(env(lagEnv))
	if len(words) != 3 {
		return nil
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || n <= 0 {
		return nil
	}
	return &heldBack{bytes: n, master: words[1], ha: words[2]}
}

// dial wraps connections to the master's replication port.
func (h *heldBack) dial(o *broker.Options) {
	inner := o.Dial
	if inner == nil {
		inner = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := inner(ctx, addr)
		if err != nil || addr != h.ha {
			return conn, err
		}
		return &lateConn{Conn: conn, h: h, gone: make(chan struct{})}, nil
	}
}

// lagLook is how often the master is asked how long its log is.
const lagLook = 100 * time.Millisecond

// run keeps the master's end known. While the master does not answer the slave
// stays where it is.
func (h *heldBack) run(ctx context.Context) error {
	a := admin.New(admin.Options{Timeout: time.Second, Retries: -1})
	defer a.Close()
	tick := time.NewTicker(lagLook)
	defer tick.Stop()
	for {
		if rt, err := a.RuntimeInfo(ctx, h.master); err == nil {
			if end := runtimeView(rt).whole("commitLogMaxOffset"); end != nil {
				h.end.Store(*end)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// late reports whether a packet that ends at an offset must wait.
func (h *heldBack) late(end int64) bool { return end > h.end.Load()-h.bytes }

// Sizes of the replication stream: position of the body and its length, both
// big-endian, then the body. A length of 0 is a heartbeat.
const haHead = 12

// lateConn reads the replication stream packet by packet and hands a packet on
// when it is old enough. Meanwhile it beats, so that the slave does not take the
// master for dead.
type lateConn struct {
	net.Conn
	h     *heldBack
	head  [haHead]byte
	have  int    // bytes of head that were read
	ready []byte // of head or beat, to be handed on
	beat  [haHead]byte
	body  int64 // bytes of the packet that may be handed on
	once  sync.Once
	gone  chan struct{}
}

// Read hands on what may be seen.
func (c *lateConn) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(c.ready) > 0:
			n := copy(p, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		case c.body > 0:
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.body)])
			c.body -= int64(n)
			return n, err
		case c.have < haHead:
			n, err := c.Conn.Read(c.head[c.have:])
			c.have += n
			if err != nil {
				return 0, err
			}
		default:
			if err := c.hold(); err != nil {
				return 0, err
			}
		}
	}
}

// hold waits until the packet is old enough, or until it is time for a beat.
func (c *lateConn) hold() error {
	from, size := int64(binary.BigEndian.Uint64(c.head[:])), int64(int32(binary.BigEndian.Uint32(c.head[8:])))
	beat := time.NewTimer(2 * time.Second)
	defer beat.Stop()
	for size > 0 && c.h.late(from+size) {
		select {
		case <-c.gone:
			return os.ErrClosed
		case <-beat.C:
			binary.BigEndian.PutUint64(c.beat[:], uint64(from))
			c.ready = c.beat[:]
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.ready, c.body, c.have = c.head[:], max(0, size), 0
	return nil
}

// Close ends a wait too.
func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}
