package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"mqctl/broker/remoting"
)

// apacheSlave is an Apache slave as far as replication goes: registered, and with a
// connection that acknowledges what it is told to.
type apacheSlave struct {
	t  *testing.T
	ns *remoting.Client
	nc net.Conn
}

// newApacheSlave registers one; it connects when told.
func newApacheSlave(t *testing.T, p *pair, id int, addr string) *apacheSlave {
	a := &apacheSlave{t: t, ns: remoting.NewClient(remoting.ClientOptions{Dial: p.net.dial, Serialize: remoting.JSON})}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := a.ns.Call(ctx, nsAddr, remoting.ReqRegisterBroker, remoting.Map{"brokerName": "broker-a", "brokerAddr": addr, "clusterName": "DefaultCluster",
		"haServerAddr": addr, "brokerId": fmt.Sprint(id), "compressed": "false", "bodyCrc32": "0"}, []byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{},"dataVersion":{"counter":1,"timestamp":1,"stateVersion":0}},"filterServerList":[]}`))
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// connect opens the replication connection from a machine.
func (a *apacheSlave) connect(p *pair, from string) {
	nc, err := hosts{p.net}.from(from)(context.Background(), p.m.b.ha.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	a.nc = nc
	go func() { // what comes is thrown away
		buf := make([]byte, 1<<16)
		for {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	}()
	a.ack(int64(p.m.b.store.Positions().Max))
}

func (a *apacheSlave) ack(end int64) {
	if _, err := a.nc.Write(binary.BigEndian.AppendUint64(nil, uint64(end))); err != nil {
		a.t.Fatal(err)
	}
}

// gone ends it, with its registration.
func (a *apacheSlave) gone() {
	a.ns.Close()
	a.nc.Close()
}

// TestTwoForeignSlavesOfOneMachine: the addresses of two Apache slaves on one machine
// do not tell which connection is whose. Both count, each once; when one goes the other
// keeps its own number.
func TestTwoForeignSlavesOfOneMachine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(syncMaster, p.on("10.0.0.1"), func(o *Options) { o.Reloadable.HA.InSyncReplicas = 3 })
		one, two := newApacheSlave(t, p, 1, "10.0.0.5:10911"), newApacheSlave(t, p, 2, "10.0.0.5:10921")
		defer one.gone()
		defer two.gone()
		ids := func() (out []int64) {
			for _, c := range p.m.b.ha.master.Status().Slaves {
				if c.Known {
					out = append(out, c.ID)
				}
			}
			slices.Sort(out)
			return out
		}
		<-time.After(3 * time.Second)
		one.connect(p, "10.0.0.5")
		<-time.After(3 * time.Second)
		if got := ids(); got != nil {
			t.Errorf("with one connection and two slaves it is called %v", got)
		}
		two.connect(p, "10.0.0.5")
		<-time.After(3 * time.Second)
		if got := ids(); !slices.Equal(got, []int64{1, 2}) {
			t.Fatalf("the two are called %v", got)
		}
		done := make(chan *remoting.Response, 1)
		go func() { done <- p.m.send("T", 0, "both") }()
		<-time.After(100 * time.Millisecond)
		end := int64(p.m.b.store.Positions().Max)
		one.ack(end)
		<-time.After(100 * time.Millisecond)
		select {
		case resp := <-done:
			t.Fatalf("one slave's word was enough: %d %s", resp.Code, resp.Remark)
		default:
		}
		two.ack(end)
		p.m.wants(<-done, 0, "")
		// Slave 1 goes, and what it had was the connection that was called 2.
		one.ns.Close()
		two.nc.Close()
		<-time.After(5 * time.Second)
		if got := ids(); !slices.Equal(got, []int64{2}) {
			t.Errorf("slave 1 has gone, left is %v of %v", got, p.m.b.reg.Members())
		}
	})
}
