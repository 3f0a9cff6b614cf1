package broker

import (
	"context"
	"errors"
	"slices"

	"mqctl/broker/hold"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/fastjson"
	"mqctl/subgroup"
)

// topicAdmin serves what operators ask of topics: 17, 215, 305, 351.
type topicAdmin struct {
	live    *liveRef
	topics  *topic.Table
	offsets *subgroup.Offsets
	members *subgroup.Members
	holds   *hold.Pulls
	store   *store.Store
	// announce waits until the nameservers know every topic changed so far.
	announce func(ctx context.Context)
}

// notSet is the remark that RocketMQ leaves in an answer nobody gave a remark.
const notSet = "not set any response code"

// refuse answers a request with the error of what it asked for: the code and
// text of a rule, else SYSTEM_ERROR.
func refuse(r *remoting.Request, err error) {
	var (
		remote *remoting.Error
		ofT    *topic.RuleError
		ofG    *subgroup.RuleError
	)
	switch {
	case errors.As(err, &remote):
		r.Reply(remote.Code, remote.Remark, nil, nil)
	case errors.As(err, &ofT):
		r.Reply(ofT.Code, ofT.Text, nil, nil)
	case errors.As(err, &ofG):
		r.Reply(remoting.CodeInvalidParameter, ofG.Text, nil, nil)
	default:
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
	}
}

// ok answers a request with code 0.
func ok(r *remoting.Request) { r.Reply(remoting.CodeSuccess, "", nil, nil) }

// jsonReply answers with v as fastjson would write it.
func jsonReply(r *remoting.Request, v any) {
	text, err := fastjson.Marshal(v)
	if err != nil {
		refuse(r, err)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, text)
}

// check refuses names that may not be created, changed or deleted.
func (a *topicAdmin) check(name string) error {
	if a.live.Load().ValidateSystemTopic {
		return a.topics.CheckUser(name)
	}
	if err := topic.CheckName(name); err != nil {
		return &topic.RuleError{Code: remoting.CodeInvalidParameter, Text: err.Error()}
	}
	return nil
}

// put serves 17: the topic's settings are replaced, its attributes changed. The
// table saves the change before it is acknowledged, and a route that is asked
// for after the answer has it, if the nameservers are quick.
func (a *topicAdmin) put(ctx context.Context, r *remoting.Request) {
	var h header.CreateTopic
	err := h.Decode(r.Ext)
	if err == nil {
		err = a.check(h.Topic)
	}
	changed := false
	if err == nil {
		changed, err = a.topics.PutWithAttributes(topic.Config{
			TopicName: h.Topic, ReadQueueNums: h.ReadQueueNums, WriteQueueNums: h.WriteQueueNums, Perm: int(h.Perm),
			TopicFilterType: h.TopicFilterType, TopicSysFlag: h.TopicSysFlag, Order: h.Order,
		}, h.Attributes)
	}
	if err != nil {
		refuse(r, err)
		return
	}
	if changed {
		wait, cancel := context.WithTimeout(ctx, announceWait)
		a.announce(wait)
		cancel()
	}
	r.Reply(remoting.CodeSuccess, notSet, nil, nil)
}

// one serves 351.
func (a *topicAdmin) one(_ context.Context, r *remoting.Request) {
	var h header.GetTopicConfig
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	c := a.topics.Get(h.Topic)
	if c == nil {
		r.Reply(remoting.CodeTopicNotExist, "No topic in this broker. topic: "+h.Topic, nil, nil)
		return
	}
	jsonReply(r, c)
}

// remove serves 215: the configuration first, then progress and queues, so that
// a crash between leaves nothing that a client could use. An unknown topic is
// no error, and what is left of one is cleared too. Pulls that wait for the
// topic are answered.
func (a *topicAdmin) remove(_ context.Context, r *remoting.Request) {
	var h header.DeleteTopic
	err := h.Decode(r.Ext)
	if err == nil {
		err = a.check(h.Topic)
	}
	if err == nil {
		_, err = a.topics.Delete(h.Topic)
	}
	if err == nil {
		a.offsets.DeleteTopic(h.Topic)
		err = errors.Join(a.store.DeleteTopic(h.Topic), a.offsets.Persist())
	}
	if err != nil {
		refuse(r, err)
		return
	}
	for _, g := range a.members.GroupsOf(h.Topic) {
		a.holds.Changed(g)
	}
	ok(r)
}

// system serves 305.
func (a *topicAdmin) system(_ context.Context, r *remoting.Request) {
	r.Reply(remoting.CodeSuccess, "", nil, body.TopicList{TopicList: a.topics.SystemNames()}.Encode())
}

// consumers serves 300: groups that are online with a subscription to the
// topic, and groups with progress in it.
func (a *topicAdmin) consumers(_ context.Context, r *remoting.Request) {
	var h header.QueryTopicConsumeByWho
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	groups := append(a.members.GroupsOf(h.Topic), a.offsets.Groups(h.Topic)...)
	slices.Sort(groups)
	r.Reply(remoting.CodeSuccess, "", nil, body.GroupList{GroupList: slices.Compact(groups)}.Encode())
}
