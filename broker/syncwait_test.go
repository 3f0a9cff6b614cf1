package broker

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
)

// silentConn is a connection on which nothing is said any more once silent is set.
type silentConn struct {
	net.Conn
	silent *atomic.Bool
}

func (c silentConn) Write(b []byte) (int, error) {
	if c.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestSyncWaitBlocksNobody: while a send waits for a slave that acknowledges nothing, other
// requests of the same connection are answered at once, and the send ends by itself.
func TestSyncWaitBlocksNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(syncMaster)
		var silent atomic.Bool
		ha := p.m.b.opts.HAAddr
		p.startSlave(func(o *Options) {
			o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := p.net.dial(ctx, addr)
				if err != nil || addr != ha {
					return c, err
				}
				return silentConn{c, &silent}, nil
			}
		})
		p.caughtUp()
		<-time.After(time.Second)
		p.m.mustSend("T", 0, "body0")

		silent.Store(true)
		begin := time.Now()
		answered := make(chan *remoting.Response, 1)
		go func() { answered <- p.m.send("T", 0, "body1") }()
		synctest.Wait()
		p.m.wants(p.m.send("T", 1, "body0", "WAIT", "false"), 0, "")
		p.wantBodies(p.m, "T", 0, 2) // stored it is
		p.m.call(28, nil, nil)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("other requests took %s", took)
		}
		select {
		case resp := <-answered:
			t.Fatalf("the send was answered before the others: %d %q", resp.Code, resp.Remark)
		default:
		}
		p.m.wants(<-answered, remoting.CodeFlushSlaveTimeout, "")
		if took := time.Since(begin); took < time.Second || took > 5*time.Second {
			t.Errorf("the send was answered after %s, slaves have 3 s", took)
		}
	})
}
