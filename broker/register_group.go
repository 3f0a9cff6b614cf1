package broker

import (
	"context"
	"maps"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
)

// Times of the heartbeats between registrations, as RocketMQ's brokers have them
// when they act for each other (BrokerConfig.brokerHeartbeatInterval,
// brokerNotActiveTimeoutMillis, syncBrokerMemberGroupPeriod).
const (
	heartbeatEvery   = time.Second
	heartbeatTimeout = 10 * time.Second // told to nameservers: forget us after so long
	groupEvery       = time.Second
	askEvery         = 2 * time.Second // a slave without a master asks again by 103 where 901 is unknown
)

// beat tells every nameserver once a second that the broker lives, until ctx ends.
func (r *registrar) beat(ctx context.Context) error {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		h := &header.BrokerHeartbeat{ClusterName: r.o.Cluster, BrokerAddr: r.o.Addr, BrokerName: r.o.Name,
			BrokerID: r.o.Standing().ID, HasBrokerID: true,
			HeartbeatTimeoutMillis: heartbeatTimeout.Milliseconds(), HasHeartbeatTimeoutMillis: true}
		for _, addr := range r.up() {
			one, cancel := context.WithTimeout(ctx, heartbeatEvery/2)
			// A connection that fails is registered on anew by its link.
			if err := r.net.OneWay(one, addr, remoting.ReqBrokerHeartbeat, h, nil); err != nil {
				r.o.Log.Debug("heartbeat not sent", "peer", addr, "err", err)
			}
			cancel()
		}
	}
}

// up are the nameservers that the broker is registered at.
func (r *registrar) up() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var addrs []string
	for _, l := range r.links {
		if l.state == linkUp {
			addrs = append(addrs, l.addr)
		}
	}
	return addrs
}

// Members are the brokers of this name by id, as a nameserver told them last. Do
// not modify it.
func (r *registrar) Members() map[int64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group
}

// follow asks for the members of this name once a second, until ctx ends.
func (r *registrar) follow(ctx context.Context) error {
	tick := time.NewTicker(groupEvery)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		group, known := r.askGroup(ctx)
		if known {
			r.takeGroup(group)
			continue
		}
		// An old nameserver, or none: a slave without a master finds it by 103.
		now := r.o.Steady()
		if s := r.o.Standing(); s.isSlave() && !s.MasterAlive && now.Sub(asked) >= askEvery && len(r.up()) > 0 {
			asked = now
			r.Ask()
		}
	}
}

// askGroup asks the nameservers in turn for the members of this name (901).
func (r *registrar) askGroup(ctx context.Context) (group map[int64]string, known bool) {
	h := &header.GetBrokerMemberGroup{ClusterName: r.o.Cluster, BrokerName: r.o.Name}
	for _, addr := range r.up() {
		one, cancel := context.WithTimeout(ctx, groupEvery)
		resp, err := r.net.Call(one, addr, remoting.ReqGetBrokerMemberGroup, h, nil)
		cancel()
		if err != nil || resp.Code != remoting.CodeSuccess {
			continue
		}
		reply, err := body.DecodeBrokerMemberGroupReply(resp.Body)
		if err != nil {
			continue
		}
		if reply.BrokerMemberGroup == nil {
			return nil, true
		}
		return reply.BrokerMemberGroup.BrokerAddrs, true
	}
	return nil, false
}

// takeGroup keeps the members. The broker registers at once if it is not among
// them, or if its master is another than the answers said.
func (r *registrar) takeGroup(group map[int64]string) {
	s := r.o.Standing()
	r.mu.Lock()
	if !maps.Equal(r.group, group) {
		r.group = group
	}
	r.mu.Unlock()
	lost := group[s.ID] != r.o.Addr
	moved := s.isSlave() && group[0] != r.o.Addr && group[0] != s.Master && group[0] != ""
	if lost || moved {
		r.Ask()
	}
}

// takeMaster keeps what an answer to a registration says of this broker's master.
// The first nameserver that knows one counts.
func (l *link) takeMaster(resp *remoting.Response) {
	r := l.r
	if !r.o.Standing().isSlave() {
		return
	}
	var h header.RegisterBrokerReply
	if err := h.DecodeMap(resp.Ext); err != nil {
		r.o.Log.Warn("the nameserver's word on the master cannot be read", "peer", l.addr, "err", err)
		return
	}
	r.mu.Lock()
	l.master, l.ha = h.MasterAddr, h.HAServerAddr
	master, ha := "", ""
	for _, k := range r.links {
		if k.master != "" {
			master, ha = k.master, k.ha
			break
		}
	}
	r.mu.Unlock()
	r.o.Learned(master, ha)
}
