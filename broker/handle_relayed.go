package broker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// relayAdmin hands questions of operators on to clients: 223, 307 and 309; and it
// ends clients' connections (30005).
type relayAdmin struct {
	here    place
	members *subgroup.Members
	topics  *topic.Table
	groups  *subgroup.Groups
	store   *store.Store
}

// relayWait is how long a client may take to answer what it was asked for an
// operator, statusWait that for its offsets (Broker2Client).
const (
	relayWait  = 10 * time.Second
	statusWait = 5 * time.Second
)

// oldestRelay is the version that first answers such questions
// (V3_1_8_SNAPSHOT).
const oldestRelay = 62

// caller is a peer that can be asked and answers.
type caller interface {
	call(ctx context.Context, code int, h remoting.ExtEncoder, payload []byte) (*remoting.Response, error)
}

func (p *peer) call(ctx context.Context, code int, h remoting.ExtEncoder, payload []byte) (*remoting.Response, error) {
	return p.conn.Call(ctx, code, h, payload)
}

// running serves 307: the request goes to the client as it came, on the
// connection of its heartbeat, and the answer comes back as it is.
func (a *relayAdmin) running(ctx context.Context, r *remoting.Request) {
	var h header.GetConsumerRunningInfo
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	a.pass(ctx, r, h.ConsumerGroup, h.ClientID, r.Ext, r.Body)
}

// consume serves 309: a member of a group is given a stored message to consume now,
// whatever its progress is.
func (a *relayAdmin) consume(ctx context.Context, r *remoting.Request) {
	var h header.ConsumeMessageDirectly
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	_, at, err := record.ParseOffsetID(h.MsgID)
	if err != nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("msgId: %.80q is not the id of a stored message: %v", h.MsgID, err), nil, nil)
		return
	}
	rec, err := a.store.Message(nil, at)
	if err != nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("can not find message by the offset, %d", int64(at)), nil, nil)
		return
	}
	h.BrokerName = a.here.name
	if t := a.topics.Get(h.Topic); t != nil {
		h.TopicSysFlag, h.HasTopicSysFlag = t.TopicSysFlag, true
	}
	if g := a.groups.Get(h.ConsumerGroup); g != nil {
		h.GroupSysFlag, h.HasGroupSysFlag = g.GroupSysFlag, true
	}
	a.pass(ctx, r, h.ConsumerGroup, h.ClientID, &h, rec)
}

// pass asks one member of a group and answers with what it says.
func (a *relayAdmin) pass(ctx context.Context, r *remoting.Request, group, id string, ext remoting.ExtEncoder, payload []byte) {
	c, err := a.client(group, id)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, relayWait)
	defer cancel()
	resp, err := c.call(ctx, r.Code, ext, payload)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.Reply(remoting.CodeConsumeMsgTimeout, fmt.Sprintf("consumer <%s> <%s> Timeout: %v", group, id, err), nil, nil)
	case err != nil:
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("invoke consumer <%s> <%s> Exception: %v", group, id, err), nil, nil)
	default:
		var ext remoting.ExtEncoder
		if len(resp.Ext) > 0 {
			ext = remoting.Map(resp.Ext)
		}
		r.Reply(resp.Code, resp.Remark, ext, resp.Body)
	}
}

// client finds a member that can be asked.
func (a *relayAdmin) client(group, id string) (caller, error) {
	if v := a.members.Group(group); v != nil {
		for _, c := range v.Clients {
			if c.ClientID == id {
				return asked(c)
			}
		}
	}
	return nil, fmt.Errorf("The Consumer <%s> <%s> not online", group, id) //nolint:staticcheck // the wire's text
}

func asked(c subgroup.Client) (caller, error) {
	if p, can := c.Peer.(caller); can && c.Version >= oldestRelay {
		return p, nil
	}
	return nil, fmt.Errorf("The Consumer <%s> Version <%d> too low to finish, please upgrade it to V3_1_8_SNAPSHOT", c.ClientID, c.Version) //nolint:staticcheck // the wire's text
}

// status serves 223: the members of a group, or one of them, are asked (221) how
// far they are in a topic. One that does not answer is left out, as Apache does.
func (a *relayAdmin) status(ctx context.Context, r *remoting.Request) {
	var h header.GetConsumerStatus
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	v := a.members.Group(h.Group)
	if v == nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("the consumer group[%s] not online", h.Group), nil, nil)
		return
	}
	out := body.ConsumerStatus{ConsumerTable: map[string]map[body.MessageQueue]int64{}}
	for _, c := range v.Clients {
		if h.ClientAddr != "" && h.ClientAddr != c.ClientID {
			continue
		}
		p, err := asked(c)
		if err != nil {
			r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
			return
		}
		one, cancel := context.WithTimeout(ctx, statusWait)
		resp, err := p.call(one, remoting.ReqGetConsumerStatusFromClient, &header.GetConsumerStatus{Topic: h.Topic, Group: h.Group}, nil)
		cancel()
		if err != nil || resp.Code != remoting.CodeSuccess {
			continue
		}
		if said, err := body.DecodeConsumerStatus(resp.Body); err == nil {
			out.ConsumerTable[c.ClientID] = said.MessageQueueTable
		}
	}
	r.Reply(remoting.CodeSuccess, notSet, nil, out.Encode())
}

// kick serves MQCTL_KICK: every connection of a client is closed. A healthy client
// connects again; one that should not must be stopped where it runs. clientId is a
// client's id or its address (ip:port).
func (a *relayAdmin) kick(_ context.Context, r *remoting.Request) {
	id, _ := r.Ext.Get("clientId")
	if id == "" {
		r.Reply(remoting.CodeInvalidParameter, "field clientId is missing", nil, nil)
		return
	}
	_, addrErr := netip.ParseAddrPort(id)
	hit := map[uint64]interface{ Close() }{}
	look := func(clients []subgroup.Client) {
		for _, c := range clients {
			if c.ClientID == id || addrErr == nil && c.Addr == id {
				if p, can := c.Peer.(interface{ Close() }); can {
					hit[c.Peer.ID()] = p
				}
			}
		}
	}
	for _, g := range a.members.OnlineGroups() {
		if v := a.members.Group(g); v != nil {
			look(v.Clients)
		}
	}
	for _, clients := range a.members.AllProducers() {
		look(clients)
	}
	for _, p := range hit {
		p.Close()
	}
	r.Reply(remoting.CodeSuccess, "", remoting.Map{"closed": fmt.Sprint(len(hit))}, nil)
}
