package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store"
)

// TestPanicOffTheReader: a panic of request work on a goroutine that serves others
// too (the pools, the timer of held pulls, whoever stores the message that a pull
// waits for, the flusher) is an answer with SYSTEM_ERROR, or the end of that one
// connection where an answer cannot be given; the broker goes on.
func TestPanicOffTheReader(t *testing.T) {
	const internal = "internal error"
	cases := map[string]func(t *testing.T, r *rig){
		"pull in the pool": func(_ *testing.T, r *rig) {
			topics := r.b.pulls.topics
			r.b.pulls.topics = nil // looked at after the group was made
			r.wants(r.call(11, pullExt("new", "T", 0, 0), nil), remoting.CodeSystemError, internal)
			r.b.pulls.topics = topics
		},
		"pull woken by an arrival": func(t *testing.T, r *rig) {
			answer := r.heldPull(t)
			offsets := r.b.pulls.offsets
			r.b.pulls.offsets = nil // looked at after the read
			r.mustSend("T", 0, "wakes")
			r.wants(<-answer, remoting.CodeSystemError, internal)
			r.b.pulls.offsets = offsets
		},
		"pull woken by its end": func(t *testing.T, r *rig) {
			answer := r.heldPull(t)
			l := r.b.live.Swap(nil) // looked at first
			r.wants(<-answer, remoting.CodeSystemError, internal)
			r.b.live.Store(l)
		},
		"answers after a flush": func(t *testing.T, r *rig) {
			c := r.b.server.Conns()[0]
			b := r.b.sends.newBurst(c, r.b.here.host)
			b.calls = append(b.calls, sendCall{first: 7, n: 1}) // the batch has no seventh item
			b.Flushed(store.PutOK)
			wantGone(t, c)
		},
		"end of a burst in the pool": func(t *testing.T, r *rig) {
			c := r.b.server.Conns()[0]
			figures := r.b.sends.stats
			r.b.sends.stats = nil
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := r.client.Call(ctx, mainAddr, 310, remoting.Map(v2(sendExt("Fresh", 0, ""))), []byte("x"))
			if err == nil {
				t.Error("an answer although it was lost")
			}
			wantGone(t, c)
			r.b.sends.stats = figures
		},
		"heartbeat in the pool": func(t *testing.T, r *rig) {
			members := r.b.clients.members
			r.b.clients.members = nil
			r.wants(r.heartbeat(r.client, "c1", "made", "CLUSTERING", testSub{"T", "*", "", 1}), remoting.CodeSystemError, internal)
			r.b.clients.members = members
		},
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil)
				r.mustSend("T", 0, "first")
				f(t, r)
				r.mustSend("T", 0, "still here")
				if _, ms := r.pull("g", "T", 0, 0); len(ms) < 2 {
					t.Errorf("%d messages", len(ms))
				}
			})
		})
	}
}

// heldPull sends a pull behind the last message of T and returns its answer to come.
func (r *rig) heldPull(t *testing.T) <-chan *remoting.Response {
	answer := make(chan *remoting.Response, 1)
	r.wants(r.call(11, pullExt("g", "T", 0, 0), nil), 0, "") // the group is there
	go func() {
		answer <- r.call(11, pullExt("g", "T", 0, 1, "sysFlag", "6", "suspendTimeoutMillis", "5000"), nil)
	}()
	synctest.Wait()
	if n := r.b.holds.Len(); n != 1 {
		t.Fatalf("%d pulls held", n)
	}
	return answer
}

func wantGone(t *testing.T, c *remoting.Conn) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.Gone():
	default:
		t.Error("the connection is still open")
	}
}

// TestPoolOutlivesPanic: a job that lets a panic through costs no worker.
func TestPoolOutlivesPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		heard := 0
		p.panicked = func(any) { heard++ }
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = p.run(ctx) }()
		ran := false
		p.submit(10, func(context.Context) { panic("boom") })
		p.submit(10, func(context.Context) { ran = true })
		synctest.Wait()
		if heard != 1 || !ran || p.bytes.Load() != 0 {
			t.Errorf("heard %d, next job ran: %t, %d bytes left", heard, ran, p.bytes.Load())
		}
		cancel()
		synctest.Wait()
	})
}
