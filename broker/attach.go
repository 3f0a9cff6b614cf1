package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store/record"
)

// How replicas of one name talk over remoting: MQCTL_ROLE with step=attach before
// a slave opens its replication connection, and step=hello every second after it.

// peerWait bounds one question to another broker of this name.
const peerWait = 2 * time.Second

// mostAttachBytes bounds the body of an attach or a hello.
const mostAttachBytes = 64 << 10

// hello is what replicas of ours tell each other every second, both ways.
type hello struct {
	BrokerName string `json:"brokerName"`
	BrokerID   int64  `json:"brokerId"`
	Addr       string `json:"addr"`
	Epoch      int64  `json:"epoch"`
	Max        int64  `json:"maxOffset"` // end of the log
	Readable   bool   `json:"readable"`  // serves pulls
	Master     bool   `json:"master"`
	Role       string `json:"role,omitempty"`
}

// ourHello describes this broker.
func (b *Broker) ourHello() hello {
	s := b.stand.Load()
	return hello{BrokerName: b.here.name, BrokerID: s.ID, Addr: b.Addr(), Epoch: s.Epoch, Max: int64(b.store.Positions().Max),
		Readable: b.readable(), Master: !s.isSlave(), Role: s.Role.String()}
}

// readable says whether this broker serves pulls of readers that were sent here.
func (b *Broker) readable() bool {
	l := b.live.Load()
	return l.readable() && (l.SlaveRead || !b.stand.Load().isSlave())
}

// attachSelf is what the slave tells its master; the slave adds its end of the
// connection and the stretches to compare.
func (b *Broker) attachSelf() replication.AttachRequest {
	s, p := b.stand.Load(), b.store.Positions()
	ha := b.ha.settings.Load()
	return replication.AttachRequest{BrokerName: b.here.name, BrokerID: s.ID, BrokerAddr: b.Addr(), SegmentBytes: ha.SegmentBytes,
		Min: int64(p.Min), End: int64(p.Max), Readable: b.readable(), AckFsync: ha.AckFsync, Secure: b.opts.HAAuthKey != "", TLS: b.opts.HATLS.On, Epoch: s.Epoch}
}

// serveAttach answers a slave of ours that wants to connect. What it costs is bounded
// by package replication.
func (b *Broker) serveAttach(ctx context.Context, r *remoting.Request) {
	var q replication.AttachRequest
	if err := decodePeer(r.Body, &q); err != nil {
		refuse(r, err)
		return
	}
	reply := b.ha.master.Attach(r.Conn.RemoteAddr(), q)
	reply.Role = b.stand.Load().Role.String()
	if q.BrokerName == b.here.name && q.BrokerID > 0 {
		b.ha.known.tell(hello{BrokerName: q.BrokerName, BrokerID: q.BrokerID, Addr: q.BrokerAddr, Epoch: q.Epoch, Max: q.End, Readable: q.Readable}, b.steady())
		b.ha.poke()
		if reply.Token != 0 {
			b.sync.attached(ctx, r.Conn, q.BrokerID, q.BrokerAddr)
		}
	}
	b.replyProved(r, stepAttach, reply)
}

// serveHello answers a slave's hello with the master's.
func (b *Broker) serveHello(_ context.Context, r *remoting.Request) {
	var q hello
	if err := decodePeer(r.Body, &q); err != nil {
		refuse(r, err)
		return
	}
	if q.BrokerName != b.here.name || q.BrokerID == b.stand.Load().ID {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("%s/%d is no other replica of %s/%d", q.BrokerName, q.BrokerID, b.here.name, b.stand.Load().ID), nil, nil)
		return
	}
	if b.ha.known.tell(q, b.steady()) {
		b.ha.poke()
	}
	b.replyProved(r, stepHello, b.ourHello())
}

func decodePeer(text []byte, into any) error {
	if len(text) > mostAttachBytes {
		return &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: fmt.Sprintf("the body has %d bytes, more than %d", len(text), mostAttachBytes)}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: "the body is no JSON of this step: " + err.Error()}
	}
	return nil
}

// askMaster asks a broker of this name, for at most peerWait. An answer of the
// master counts as a sign of life.
func (b *Broker) askMaster(ctx context.Context, addr string, code int, ext remoting.Map, text []byte) (*remoting.Response, error) {
	one, cancel := context.WithTimeout(ctx, peerWait)
	defer cancel()
	resp, err := b.ha.net.Call(one, addr, code, ext, text)
	var refused *remoting.Error
	if err != nil && !errors.As(err, &refused) {
		if addr == b.stand.Load().Master && errors.Is(err, syscall.ECONNREFUSED) {
			b.ha.heard.Store(0) // nobody listens there any more
			b.ha.poke()
		}
		return nil, err
	}
	if addr == b.stand.Load().Master {
		b.heardMaster()
	}
	return resp, nil
}

// heardMaster notes that the master answered over remoting just now.
func (b *Broker) heardMaster() { b.ha.heard.Store(b.steadyMillis()) }

// askAttach asks the master before the slave connects.
func (b *Broker) askAttach(ctx context.Context, master string, q replication.AttachRequest) (reply replication.AttachReply, ours bool, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return reply, false, err
	}
	resp, err := b.askProved(ctx, master, stepAttach, text)
	unproved := errors.Is(err, errUnproved)
	switch {
	case err != nil && !unproved:
		return reply, false, err
	case resp.Code == remoting.CodeRequestCodeNotSupported:
		b.ha.known.foreign(master)
		return reply, false, nil
	case resp.Code == remoting.CodeNoPermission:
		return replication.AttachReply{State: replication.Mismatch, Why: resp.Remark}, true, nil
	case resp.Code != remoting.CodeSuccess:
		return reply, true, resp.Err()
	}
	if err := json.Unmarshal(resp.Body, &reply); err != nil {
		return reply, true, fmt.Errorf("the answer of %s to attach: %w", master, err)
	}
	if unproved && reply.State != replication.Mismatch { // a master without a key may say that it has none, and nothing else
		return replication.AttachReply{State: replication.Mismatch, Why: err.Error()}, true, nil
	}
	if reply.State == replication.Syncing {
		b.masterEnd.heard(reply.Role) // before any hello: the master may die right away
	}
	b.ha.known.ours(master)
	b.ha.poke()
	return reply, true, nil
}

// askForeign asks a master that is not ours for the bounds of its log, and for
// the record at p.
func (b *Broker) askForeign(ctx context.Context, master string, p record.PhysOffset) (first, end int64, rec []byte, err error) {
	resp, err := b.askMaster(ctx, master, remoting.ReqGetBrokerRuntimeInfo, nil, nil)
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		return 0, 0, nil, err
	}
	info, err := body.DecodeKVTable(resp.Body)
	if err != nil {
		return 0, 0, nil, err
	}
	if first, err = strconv.ParseInt(info.Table["commitLogMinOffset"], 10, 64); err != nil {
		return 0, 0, nil, fmt.Errorf("commitLogMinOffset of %s: %w", master, err)
	}
	if end, err = strconv.ParseInt(info.Table["commitLogMaxOffset"], 10, 64); err != nil {
		return 0, 0, nil, fmt.Errorf("commitLogMaxOffset of %s: %w", master, err)
	}
	if p < 0 {
		return first, end, nil, nil
	}
	resp, err = b.askMaster(ctx, master, remoting.ReqViewMessageByID, remoting.Map{"offset": strconv.FormatInt(int64(p), 10)}, nil)
	if err != nil {
		return 0, 0, nil, err
	}
	if resp.Code != remoting.CodeSuccess {
		return first, end, nil, nil // it has no record there
	}
	return first, end, resp.Body, nil
}
