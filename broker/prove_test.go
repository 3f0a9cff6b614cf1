package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store/vfs"
)

// hosts lets the brokers of a network live on machines of their own.
type hosts struct{ *network }

// from dials as a machine: who accepts sees its address, and its own.
func (h hosts) from(ip string) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		h.mu.Lock()
		l := h.listeners[addr]
		h.mu.Unlock()
		if l == nil {
			return h.dial(ctx, addr)
		}
		here, there := net.Pipe()
		a, b := tcpAddr(ip+":40000"), tcpAddr(addr)
		select {
		case l.conns <- &addressed{there, b, a}:
			return &addressed{here, a, b}, nil
		case <-l.closed:
			return h.dial(ctx, addr)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// addressed is a connection with addresses.
type addressed struct {
	net.Conn
	local, remote net.Addr
}

func (c *addressed) LocalAddr() net.Addr  { return c.local }
func (c *addressed) RemoteAddr() net.Addr { return c.remote }

func tcpAddr(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }

// on moves a replica to a machine.
func (p *pair) on(ip string) func(*Options) {
	return func(o *Options) {
		for _, a := range []*string{&o.ListenAddr, &o.HAAddr, &o.HAListen} {
			*a = strings.Replace(*a, "127.0.0.1", ip, 1)
		}
		o.Advertise, o.Dial = ip, hosts{p.net}.from(ip)
	}
}

// keyed gives a broker a key, which lies on no disk of a test.
func keyed(text string) func(*Options) {
	return func(o *Options) {
		if text == "" {
			return
		}
		files := vfs.NewMem()
		f, err := files.Create("/key")
		if err == nil {
			_, err = f.WriteAt([]byte(text), 0)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			panic(err)
		}
		o.FS, o.HAAuthKey = bothFS{o.FS, files}, "/key"
	}
}

const (
	goodKey  = "0123456789abcdef0123456789abcdef"
	otherKey = "fedcba9876543210fedcba9876543210"
)

// TestPeersOnOtherMachines: brokers of one name on two machines, with one key, with
// different ones, and with one on one side only.
func TestPeersOnOtherMachines(t *testing.T) {
	for _, tt := range []struct {
		name, master, slave string
		says                string // "": they work together
	}{
		{"no key", "", "", ""},
		{"one key", goodKey, goodKey, ""},
		{"two keys", goodKey, otherKey, "prove the key of haAuthKeyFile"},
		{"key on the master only", goodKey, "", "prove the key of haAuthKeyFile"},
		{"key on the slave only", "", goodKey, "haAuthKeyFile is set on the slave and not on the master"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable, p.on("10.0.0.1"), keyed(tt.master))
				p.sendBodies(0, 5)
				p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil), remoting.CodeSubscriptionGroupNotExist, "")
				p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
				p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "3"}, nil), 0, "")
				p.startSlave(switchable, p.on("10.0.0.2"), keyed(tt.slave))
				<-time.After(5 * time.Second)
				off, have := p.s.b.offsets.Query([]byte("G"), []byte("T"), 0)
				if tt.says != "" {
					if st := p.s.b.ha.slave.Status(); st.State != replication.Mismatch || !strings.Contains(st.Sentence, tt.says) {
						t.Errorf("%s: %s", st.State, st.Sentence)
					}
					if _, why := p.s.b.sync.MetadataAge(); have || why == "" {
						t.Errorf("progress %d came through; %q", off, why)
					}
					return
				}
				p.caughtUp()
				if off != 3 {
					t.Errorf("the slave has progress %d", off)
				}
				promoted := p.s.step(0, "step", "status")
				if promoted.MasterAddr != "10.0.0.1:10911" || !promoted.MasterAlive {
					t.Errorf("%+v", promoted)
				}
				// What is sent to the slave goes on to the master.
				if resp := p.s.send("T", 0, "relayed"); resp.Code != 0 {
					t.Errorf("a relayed send: %d %s", resp.Code, resp.Remark)
				}
			})
		})
	}
}

// TestStrangers: a machine that registered a broker of the name at the nameserver, as
// anybody may, is believed nothing that needs the key.
func TestStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable, p.on("10.0.0.1"), keyed(goodKey))
		p.m.mustSend("T", 0, "one")
		p.m.heartbeat(p.m.client, "c1", "G", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
		p.m.wants(p.m.call(15, map[string]string{"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil), 0, "")
		intruder := startIn(t, p.net, vfs.NewMem(), replica(7, switchable, p.on("10.0.0.9"), keyed(otherKey)))
		<-time.After(3 * time.Second)
		if p.m.b.reg.Members()[7] != intruder.b.Addr() {
			t.Fatalf("members: %v", p.m.b.reg.Members())
		}
		c := remoting.NewClient(remoting.ClientOptions{Dial: hosts{p.net}.from("10.0.0.9"), Serialize: remoting.JSON})
		defer c.Close()
		send := p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRelay, map[string]string{"client": "1.2.3.4:5"}, []byte(bareFrame(t, 310)))
		p.m.wants(send, remoting.CodeNoPermission, "")
		asks := map[string]string{"brokerName": "broker-a", "brokerId": "7", "brokerAddr": "10.0.0.9:10981", "slave": "true", "sinceVersion": "0"}
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlProgress, asks, nil), remoting.CodeNoPermission, "MQCTL_PROGRESS from 10.0.0.9:40000")
		at, mac := body.SignPeer([]byte(otherKey), "MQCTL_PROGRESS", "broker-a/7 at 10.0.0.9:10981", nil, time.Now())
		asks[body.PeerTimeField], asks[body.PeerProofField] = at, mac
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlProgress, asks, nil), remoting.CodeNoPermission, "")
		for _, wrong := range []time.Duration{-31 * time.Second, 31 * time.Second} { // the right key, but late
			at, mac = body.SignPeer([]byte(goodKey), "MQCTL_PROGRESS", "broker-a/7 at 10.0.0.9:10981", nil, time.Now().Add(wrong))
			asks[body.PeerTimeField], asks[body.PeerProofField] = at, mac
			p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlProgress, asks, nil), remoting.CodeNoPermission, "")
		}
		at, mac = body.SignPeer([]byte(goodKey), "MQCTL_PROGRESS", "broker-a/7 at 10.0.0.9:10981", nil, time.Now())
		asks[body.PeerTimeField], asks[body.PeerProofField] = at, mac
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlProgress, asks, []byte("MQP1")), remoting.CodeNoPermission, "") // another body
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlProgress, asks, nil), 0, "")
		hello := []byte(`{"brokerName":"broker-a","brokerId":7,"addr":"10.0.0.9:10981","readable":true}`)
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepHello}, hello), remoting.CodeNoPermission, "")
		p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepAttach}, []byte(`{}`)), remoting.CodeNoPermission, "")
		// A challenge is answered by the key alone, and only once.
		got := p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepChallenge}, nil)
		prove := func(key string, code int) {
			t.Helper()
			p.m.wants(p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepProve, body.PeerProofField: body.ProveConn([]byte(key), got.Ext["challenge"])}, nil), code, "")
		}
		prove(otherKey, remoting.CodeNoPermission)
		prove(goodKey, remoting.CodeNoPermission)
		got = p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": stepChallenge}, nil)
		prove(goodKey, 0)
		send = p.m.callOn(c, p.m.b.Addr(), remoting.ReqMqctlRelay, map[string]string{"client": "1.2.3.4:5"}, []byte(bareFrame(t, 310)))
		if send.Code == remoting.CodeNoPermission {
			t.Errorf("after the proof: %d %s", send.Code, send.Remark)
		}
		if off, _ := p.m.b.offsets.Query([]byte("G"), []byte("T"), 0); off != 1 {
			t.Error(fmt.Sprint("progress is ", off))
		}
	})
}

// TestUnprovedAnswers: who took the address of a replica, and has not its key, is
// believed nothing of what he answers. On one machine nobody proves his requests, so
// what is refused here are the answers.
func TestUnprovedAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, master string
		refused      bool
	}{{"one key", goodKey, false}, {"another key", otherKey, true}, {"no key", "", true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable, keyed(tt.master))
				p.m.mustSend("T", 0, "one")
				p.startSlave(switchable, keyed(goodKey))
				<-time.After(3 * time.Second)
				b, there := p.s.b, p.m.b.Addr()
				for _, push := range []bool{false, true} {
					a := asking{name: "broker-a", id: 1, addr: b.Addr(), slave: true, push: push}
					if _, err := b.sync.askTables(t.Context(), there, &a, nil); errors.Is(err, errUnproved) != tt.refused || !tt.refused && err != nil {
						t.Errorf("tables (push %t): %v", push, err)
					}
				}
				for _, step := range []string{stepHello, stepAttach} {
					text := []byte(`{"brokerName":"broker-a","brokerId":1,"addr":"` + b.Addr() + `","brokerAddr":"` + b.Addr() + `"}`)
					if _, err := b.askProved(t.Context(), there, step, text); errors.Is(err, errUnproved) != tt.refused || !tt.refused && err != nil {
						t.Errorf("%s: %v", step, err)
					}
				}
				if end := p.s.b.store.Positions().Max; (end == 0) != tt.refused {
					t.Errorf("the slave's log ends at %d", end)
				}
				if st := p.s.b.ha.slave.Status(); tt.refused && st.State != replication.Mismatch {
					t.Errorf("%s: %s", st.State, st.Sentence)
				}
			})
		})
	}
}

// TestFalseMaster: somebody registers as a newer master of the name and says so to whoever
// asks, without the key. The master stays what it is; with the key it gives up its place.
func TestFalseMaster(t *testing.T) {
	for name, key := range map[string]string{"another key": otherKey, "no key": "", "the key": goodKey} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(switchable, p.on("10.0.0.1"), keyed(goodKey), func(o *Options) { o.Epoch = 1 })
				p.m.mustSend("T", 0, "one")
				other := startIn(t, p.net, vfs.NewMem(), replica(0, switchable, p.on("10.0.0.9"), keyed(key), func(o *Options) { o.Epoch = 7 }))
				<-time.After(10 * time.Second)
				if st, follows := p.m.b.stand.Load(), key == goodKey; st.isSlave() != follows {
					t.Errorf("beside %s the master is %+v", other.b.Addr(), st)
				}
				// Anybody may ask what it is, and is told no proof that he did not ask for.
				resp := p.m.callOn(other.client, p.m.b.Addr(), remoting.ReqMqctlRole, map[string]string{"step": "status"}, nil)
				p.m.wants(resp, 0, "")
				if resp.Ext[body.PeerProofField] != "" {
					t.Errorf("fields %v", resp.Ext)
				}
			})
		})
	}
}
