package broker

import (
	"context"
	"errors"
	"fmt"

	"mqctl/broker/hold"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/subgroup"
)

// groupAdmin serves what operators ask of consumer groups: 200, 207, 352,
// 353. The table tells the held pulls of a changed group itself.
type groupAdmin struct {
	groups  *subgroup.Groups
	offsets *subgroup.Offsets
	holds   *hold.Pulls
}

// noGroup is RocketMQ's remark of 352 for an unknown group.
const noGroup = "No group in this broker"

// put serves 200: the group's settings are replaced. Missing properties take
// the defaults of the class. Names are checked, which 5.3.3 forgets.
func (a *groupAdmin) put(_ context.Context, r *remoting.Request) {
	c, err := subgroup.DecodeConfig(r.Body)
	if err != nil {
		r.Reply(remoting.CodeInvalidParameter, "the body is no subscription group: "+err.Error(), nil, nil)
		return
	}
	if err = subgroup.CheckName(c.GroupName); err != nil {
		r.Reply(remoting.CodeInvalidParameter, err.Error(), nil, nil)
		return
	}
	if err = c.Validate(); err == nil {
		_, err = a.groups.Put(c)
	}
	if err != nil {
		refuse(r, err)
		return
	}
	ok(r)
}

// one serves 352. RocketMQ creates a missing group here when auto-creation is
// on; asking must not change anything, so this broker does not.
func (a *groupAdmin) one(_ context.Context, r *remoting.Request) {
	var h header.GetSubscriptionGroupConfig
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	c := a.groups.Get(h.Group)
	if c == nil {
		r.Reply(remoting.CodeSubscriptionGroupNotExist, noGroup, nil, nil)
		return
	}
	jsonReply(r, c)
}

// remove serves 207; an unknown group is no error. Members stay connected.
func (a *groupAdmin) remove(_ context.Context, r *remoting.Request) {
	var h header.DeleteSubscriptionGroup
	err := h.Decode(r.Ext)
	if err == nil {
		_, err = a.groups.Delete(h.GroupName)
	}
	if err == nil && h.CleanOffset {
		a.offsets.DeleteGroup(h.GroupName)
		err = a.offsets.Persist()
	}
	if err != nil {
		refuse(r, err)
		return
	}
	ok(r)
}

// forbid serves 353: says whether a group may read a topic, after changing that
// if the request says so.
func (a *groupAdmin) forbid(_ context.Context, r *remoting.Request) {
	var h header.UpdateGroupForbidden
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	if err := errors.Join(subgroup.CheckName(h.Group), topic.CheckName(h.Topic)); err != nil {
		r.Reply(remoting.CodeInvalidParameter, err.Error(), nil, nil)
		return
	}
	if h.HasReadable {
		if err := a.groups.SetForbidden(h.Group, h.Topic, h.Readable); err != nil {
			refuse(r, err)
			return
		}
		a.holds.Changed(h.Group)
	}
	state := body.GroupForbidden{Group: h.Group, Topic: h.Topic, Readable: !a.groups.Forbidden([]byte(h.Group), []byte(h.Topic))}
	r.Reply(remoting.CodeSuccess, "", nil, state.Encode())
}

// clientAdmin serves what operators ask of live clients: 203, 204, 307, 328,
// 345.
type clientAdmin struct {
	members *subgroup.Members
	dated   func(steadyMillis int64) int64
}

func connections(clients []subgroup.Client) []body.Connection {
	out := make([]body.Connection, len(clients))
	for i, c := range clients {
		out[i] = body.Connection{ClientAddr: c.Addr, ClientID: c.ClientID, Language: c.Language, Version: c.Version}
	}
	return out
}

func subscriptionBody(s *subgroup.Subscription) body.SubscriptionData {
	return body.SubscriptionData{ClassFilterMode: s.ClassFilter, CodeSet: s.Codes, ExpressionType: s.ExpressionType,
		SubString: s.SubString, SubVersion: s.SubVersion, TagsSet: s.Tags, Topic: s.Topic}
}

// consumers serves 203. Tools tell an offline group by code 206.
func (a *clientAdmin) consumers(_ context.Context, r *remoting.Request) {
	var h header.GetConsumerConnectionList
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	v := a.members.Group(h.ConsumerGroup)
	if v == nil {
		r.Reply(remoting.CodeConsumerNotOnline, fmt.Sprintf("the consumer group[%s] not online", h.ConsumerGroup), nil, nil)
		return
	}
	out := body.ConsumerConnection{
		ConnectionSet: connections(v.Clients), ConsumeFromWhere: v.ConsumeFromWhere, ConsumeType: v.ConsumeType,
		MessageModel: v.MessageModel, SubscriptionTable: make(map[string]body.SubscriptionData, len(v.Subscriptions)),
	}
	for name, s := range v.Subscriptions {
		out.SubscriptionTable[name] = subscriptionBody(s)
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

// producers serves 204.
func (a *clientAdmin) producers(_ context.Context, r *remoting.Request) {
	var h header.GetProducerConnectionList
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	clients := a.members.Producers(h.ProducerGroup)
	if len(clients) == 0 {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("the producer group[%s] not exist", h.ProducerGroup), nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, body.ProducerConnection{ConnectionSet: connections(clients)}.Encode())
}

// allProducers serves 328. RemoteIP has Java's leading slash.
func (a *clientAdmin) allProducers(_ context.Context, r *remoting.Request) {
	data := map[string][]body.ProducerInfo{}
	for group, clients := range a.members.AllProducers() {
		list := make([]body.ProducerInfo, len(clients))
		for i, c := range clients {
			list[i] = body.ProducerInfo{ClientID: c.ClientID, Language: c.Language, LastUpdateTimestamp: a.dated(c.LastMillis), RemoteIP: "/" + c.Addr, Version: c.Version}
		}
		data[group] = list
	}
	r.Reply(remoting.CodeSuccess, "", nil, body.ProducerTable{Data: data}.Encode())
}

// subscription serves 345; the subscription is there while the group is online.
func (a *clientAdmin) subscription(_ context.Context, r *remoting.Request) {
	var h header.QuerySubscriptionByConsumer
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	out := body.QuerySubscription{Group: h.Group, Topic: h.Topic}
	if v := a.members.Group(h.Group); v != nil {
		if s := v.Subscriptions[h.Topic]; s != nil {
			d := subscriptionBody(s)
			out.SubscriptionData = &d
		}
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}
