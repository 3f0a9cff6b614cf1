package broker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// switchable lets a replica change its role and relay.
func switchable(o *Options) {
	o.Reloadable.RoleSwitch, o.Reloadable.ForwardStaleWrites = true, true
}

// step takes a step at a broker and returns what it is then; a refusal ends the test
// unless code is expected.
func (r *rig) step(want int, ext ...string) *body.RoleStatus {
	r.t.Helper()
	m := map[string]string{}
	for i := 0; i+1 < len(ext); i += 2 {
		m[ext[i]] = ext[i+1]
	}
	resp := r.call(remoting.ReqMqctlRole, m, nil)
	if resp.Code != want {
		r.t.Fatalf("step %v: %d %s, want %d", ext, resp.Code, resp.Remark, want)
	}
	if resp.Code != 0 {
		return nil
	}
	st, err := body.DecodeRoleStatus(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// promote is a planned promotion of to, step by step.
func promote(from, to *rig, epoch int64) {
	t := from.t
	t.Helper()
	e := strconv.FormatInt(epoch, 10)
	fenced := from.step(0, "step", "fence", "epoch", e)
	for range 1000 {
		if st := to.step(0, "step", "status"); st.Max == fenced.Max && st.Dispatched == st.Max {
			break
		}
		<-time.After(time.Millisecond)
	}
	st := to.step(0, "step", "status")
	from.step(0, "step", "demote", "epoch", e, "id", fmt.Sprint(st.BrokerID), "master", st.Addr, "ha", st.HAAddr)
	to.step(0, "step", "promote", "epoch", e, "end", fmt.Sprint(fenced.Max), "role", fenced.Role)
}

// producer sends one message after another to one address, whoever is master.
type producer struct {
	sent    int
	longest time.Duration
	failed  string
}

func (p *producer) run(r *rig, addr, name string, stop *atomic.Bool) {
	c := r.newClient(remoting.Binary)
	defer c.Close()
	for !stop.Load() && p.failed == "" {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		resp, err := c.Call(ctx, addr, 310, remoting.Map(v2(sendExt("T", 0, props("who", name)))), []byte(fmt.Sprint(name, "-", p.sent)))
		cancel()
		switch {
		case err != nil:
			p.failed = err.Error()
		case resp.Code != 0:
			p.failed = fmt.Sprintf("%d %s", resp.Code, resp.Remark)
		}
		p.sent++
		p.longest = max(p.longest, time.Since(begin))
		<-time.After(2 * time.Millisecond)
	}
}

// A pair is promoted there and back while producers go on sending to the address
// they knew at the beginning: no send fails, none is lost or stored twice, each
// producer's messages stay in order, and no send takes a second.
func TestPromoteUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable)
		p.m.mustSend("T", 0, "first")
		p.startSlave(switchable)
		p.caughtUp()
		var stop atomic.Bool
		var wg sync.WaitGroup
		producers := make([]producer, 4)
		for i := range producers {
			wg.Go(func() { producers[i].run(p.m, mainAddr, fmt.Sprint("p", i), &stop) })
		}
		<-time.After(300 * time.Millisecond)
		promote(p.m, p.s, 1)
		<-time.After(2 * time.Second)
		if m, s := p.m.b.stand.Load(), p.s.b.stand.Load(); !m.isSlave() || m.ID != 1 || s.isSlave() || s.ID != 0 || m.Epoch != 1 || s.Epoch != 1 {
			t.Errorf("after the promotion: %+v and %+v", m, s)
		}
		if got := p.s.b.reg.Members(); len(got) != 2 || got[0] != p.s.b.Addr() || got[1] != p.m.b.Addr() {
			t.Errorf("the nameserver has %v", got)
		}
		promote(p.s, p.m, 2)
		<-time.After(2 * time.Second)
		stop.Store(true)
		wg.Wait()
		p.caughtUp()
		p.sameLogs()
		next := map[string]int{}
		for _, m := range p.m.all("T", 0)[1:] {
			who := m.props["who"]
			if m.body != fmt.Sprint(who, "-", next[who]) {
				t.Fatalf("%q follows %s-%d", m.body, who, next[who]-1)
			}
			next[who]++
		}
		for i := range producers {
			q := &producers[i]
			if q.failed != "" || q.longest >= time.Second {
				t.Errorf("producer %d: failed %q, longest send %s", i, q.failed, q.longest)
			}
			if n := next[fmt.Sprint("p", i)]; n != q.sent {
				t.Errorf("producer %d sent %d, %d are stored", i, q.sent, n)
			}
		}
	})
}
