package broker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// resetAdmin moves a group's progress by order of an operator: 222.
type resetAdmin struct {
	here    place
	topics  *topic.Table
	groups  *subgroup.Groups
	offsets *subgroup.Offsets
	store   *store.Store
	holds   interface{ Changed(group string) }
	stand   *standingRef
	live    *liveRef
	members *subgroup.Members
	// share brings changed progress to the replicas that are reachable, and
	// returns when they have it or ctx ends.
	share func(ctx context.Context)
}

func newResetAdmin(b *Broker) *resetAdmin {
	return &resetAdmin{here: b.here, topics: b.topics, groups: b.groups, offsets: b.offsets, store: b.store, holds: b.holds, stand: &b.stand, live: &b.live, members: b.members,
		share: func(ctx context.Context) {
			if b.shareProgress != nil {
				b.shareProgress(ctx)
			}
		}}
}

// shareWait bounds how long the answer to a reset waits for replicas. One that
// does not answer learns of it later, and the reset wins there all the same.
const shareWait = 3 * time.Second

// run serves 222. In RocketMQ's server mode (useServerSideResetOffset, its default)
// the targets are stored with a new generation and the mark that no pull has seen
// them, on disk and on the replicas, before the answer. The next pull of each
// queue is answered OFFSET_RESET, and commits from before it are held back.
func (a *resetAdmin) run(ctx context.Context, r *remoting.Request) {
	var h header.ResetOffset
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	if stand := a.stand.Load(); stand.isSlave() && stand.MasterAlive {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("Can not reset offset on a slave while its master lives; ask %s", stand.Master), nil, nil)
		return
	}
	t := a.topics.Get(h.Topic)
	if t == nil {
		r.Reply(remoting.CodeTopicNotExist, fmt.Sprintf("Topic %s does not exist", h.Topic), nil, nil)
		return
	}
	if a.groups.Get(h.Group) == nil {
		r.Reply(remoting.CodeSubscriptionGroupNotExist, fmt.Sprintf("Group %s does not exist", h.Group), nil, nil)
		return
	}
	if a.live.Load().ClientReset {
		a.push(r, &h, t)
		return
	}
	targets, refusal := a.targets(&h, t, t.ReadQueueNums)
	if refusal != "" {
		r.Reply(remoting.CodeSystemError, refusal, nil, nil)
		return
	}
	out := body.ResetOffset{OffsetTable: make(map[body.MessageQueue]int64, len(targets))}
	for queue, target := range targets {
		a.offsets.Reset(h.Group, h.Topic, queue, target, true)
		out.OffsetTable[body.MessageQueue{Topic: h.Topic, BrokerName: a.here.name, QueueID: queue}] = target
	}
	if err := a.offsets.Persist(); err != nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("the reset acts, but is not saved and would be lost by a crash; repeat it: %v", err), nil, nil)
		return
	}
	wait, cancel := context.WithTimeout(ctx, shareWait)
	a.share(wait)
	cancel()
	a.holds.Changed(h.Group) // held pulls are to answer OFFSET_RESET now
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

// targets is where each queue goes: the offset asked for, or what was stored at
// the time asked for (negative: the end). refusal says what is wrong with it.
func (a *resetAdmin) targets(h *header.ResetOffset, t *topic.Config, queues int32) (_ map[int32]int64, refusal string) {
	first, last := int32(0), queues-1
	one := h.HasQueueID && h.QueueID >= 0
	if one {
		if h.QueueID > last {
			return nil, fmt.Sprintf("Queue %d does not exist: topic %s has queues 0 to %d", h.QueueID, h.Topic, last)
		}
		first, last = h.QueueID, h.QueueID
	}
	targets := make(map[int32]int64, last-first+1)
	for id := first; id <= last; id++ {
		var low, high record.QueueOffset
		q := a.store.Lookup([]byte(h.Topic), id)
		if q != nil {
			low, high = q.Min(), q.Max()
		}
		switch {
		case one && h.HasOffset && h.Offset >= 0:
			if h.Offset < int64(low) || h.Offset > int64(high)+1 {
				return nil, fmt.Sprintf("Target offset %d of queue %d is not within %d and %d", h.Offset, id, low, high+1)
			}
			targets[id] = h.Offset
		case h.Timestamp < 0 || q == nil:
			targets[id] = int64(high)
		default:
			targets[id] = int64(a.store.OffsetByTime(q, h.Timestamp, false))
		}
	}
	return targets, ""
}

// oldestReset is the version of the first clients that take a reset (V3_0_7_SNAPSHOT).
const oldestReset = 28

// push serves 222 with useServerSideResetOffset=false, as all of 4.x did: nothing is
// stored here, but every member is told (220) where to go on, and commits that itself.
// Without force nobody goes forward. RocketMQ moves all queues by the time, whatever
// single queue was asked for; here it is that one.
func (a *resetAdmin) push(r *remoting.Request, h *header.ResetOffset, t *topic.Config) {
	targets, refusal := a.targets(h, t, t.WriteQueueNums)
	if refusal != "" {
		r.Reply(remoting.CodeSystemError, refusal, nil, nil)
		return
	}
	out := body.ResetOffset{OffsetTable: make(map[body.MessageQueue]int64, len(targets))}
	for queue, target := range targets {
		at, has := a.offsets.Query([]byte(h.Group), []byte(h.Topic), queue)
		if !has {
			r.Reply(remoting.CodeSystemError, fmt.Sprintf("The consumer group <%s> not exist: it has no progress in queue %d of topic %s", h.Group, queue, h.Topic), nil, nil)
			return
		}
		if !h.Force {
			target = min(target, at)
		}
		out.OffsetTable[body.MessageQueue{Topic: h.Topic, BrokerName: a.here.name, QueueID: queue}] = max(target, 0)
	}
	v := a.members.Group(h.Group)
	if v == nil || len(v.Clients) == 0 {
		r.Reply(remoting.CodeConsumerNotOnline, fmt.Sprintf("Consumer not online, so can not reset offset, Group: %s Topic: %s Timestamp: %d", h.Group, h.Topic, h.Timestamp), nil, nil)
		return
	}
	for _, c := range v.Clients { // before any is told
		if c.Version < oldestReset {
			r.Reply(remoting.CodeSystemError, fmt.Sprintf("the client does not support this feature. version=%d: %s is older than V3_0_7_SNAPSHOT", c.Version, c.ClientID), nil, nil)
			return
		}
	}
	ext := map[string]string{"topic": h.Topic, "group": h.Group, "timestamp": strconv.FormatInt(h.Timestamp, 10), "isForce": "false", "queueId": "-1"}
	text := out.Encode()
	for _, c := range v.Clients {
		told := text
		if c.Language == "CPP" {
			told = out.EncodeCPP()
		}
		if err := c.Peer.Notify(remoting.ReqResetConsumerClientOffset, ext, told); err != nil {
			r.Reply(remoting.CodeSystemError, fmt.Sprintf("the member %s could not be told of the reset, others may have been; repeat it: %v", c.ClientID, err), nil, nil)
			return
		}
	}
	r.Reply(remoting.CodeSuccess, notSet, nil, text)
}
