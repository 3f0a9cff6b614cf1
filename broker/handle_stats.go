package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/stats"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// statsAdmin serves figures of topics and groups: 202, 208, 303, 315,
// 317, 343.
type statsAdmin struct {
	here    place
	topics  *topic.Table
	groups  *subgroup.Groups
	offsets *subgroup.Offsets
	members *subgroup.Members
	stats   *stats.Stats
	store   *store.Store
	now     func() time.Time
}

// bounds are the first offset and the end of a queue, zeros without one.
func (a *statsAdmin) bounds(name string, id int32) (q *store.Queue, first, end int64) {
	if q = a.store.Lookup([]byte(name), id); q == nil {
		return nil, 0, 0
	}
	return q, int64(q.Min()), int64(q.Max())
}

// storeTime is when the message at an offset was stored, 0 if it is not there.
func (a *statsAdmin) storeTime(q *store.Queue, offset int64) int64 {
	if q == nil || offset < int64(q.Min()) || offset >= int64(q.Max()) {
		return 0
	}
	return max(0, a.store.StoreTime(q, record.QueueOffset(offset)))
}

func (a *statsAdmin) queue(name string, id int32) body.MessageQueue {
	return body.MessageQueue{Topic: name, BrokerName: a.here.name, QueueID: id}
}

// topic serves 202.
func (a *statsAdmin) topic(_ context.Context, r *remoting.Request) {
	var h header.GetTopicStats
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	c := a.topics.Get(h.Topic)
	if c == nil {
		r.Reply(remoting.CodeTopicNotExist, fmt.Sprintf("topic[%s] not exist", h.Topic), nil, nil)
		return
	}
	out := body.TopicStatsTable{OffsetTable: map[body.MessageQueue]body.TopicOffset{}, TopicPutTPS: body.Double(a.stats.TopicPutTPS(h.Topic))}
	for id := range max(c.ReadQueueNums, c.WriteQueueNums) {
		q, first, end := a.bounds(h.Topic, id)
		out.OffsetTable[a.queue(h.Topic, id)] = body.TopicOffset{MinOffset: first, MaxOffset: end, LastUpdateTimestamp: a.storeTime(q, end-1)}
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

// ignored says that an online group does not subscribe to the topic: what it
// once consumed there is left out of its figures.
func (a *statsAdmin) ignored(group, name string) bool {
	v := a.members.Group(group)
	return v != nil && len(v.Subscriptions) > 0 && v.Subscriptions[name] == nil
}

// progress is a group's progress in the first n queues of a topic. Missing
// progress counts as 0, so that a group which never started shows the full
// backlog (AdminBrokerProcessor).
func (a *statsAdmin) progress(into map[body.MessageQueue]body.OffsetWrapper, group, name string, n int32, withPulls bool) {
	committed := a.offsets.Queues(group, name)
	for id := range n {
		q, _, end := a.bounds(name, id)
		w := body.OffsetWrapper{BrokerOffset: end, ConsumerOffset: max(0, committed[id])}
		if withPulls {
			pulled, _ := a.offsets.PullOffset(group, name, id)
			w.PullOffset = max(w.ConsumerOffset, pulled)
		}
		w.LastTimestamp = a.storeTime(q, w.ConsumerOffset-1)
		into[a.queue(name, id)] = w
	}
}

// group serves 208. Topics are those asked for, else those with progress.
func (a *statsAdmin) group(_ context.Context, r *remoting.Request) {
	var h header.GetConsumeStats
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	names := a.asked(h)
	out := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
	for _, name := range names {
		c := a.topics.Get(name)
		if c == nil || a.ignored(h.ConsumerGroup, name) {
			continue
		}
		a.progress(out.OffsetTable, h.ConsumerGroup, name, c.ReadQueueNums, true)
		out.ConsumeTPS += body.Double(a.stats.GroupTPS(name, h.ConsumerGroup))
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

func (a *statsAdmin) asked(h header.GetConsumeStats) []string {
	switch {
	case strings.TrimSpace(h.Topic) != "":
		return []string{h.Topic}
	case h.TopicList != "":
		return strings.FieldsFunc(h.TopicList, func(c rune) bool { return c == ';' })
	}
	return a.offsets.Topics(h.ConsumerGroup)
}

// allGroups serves 317: for each group the figures of each topic, write queues
// only and without the positions of pulls.
func (a *statsAdmin) allGroups(_ context.Context, r *remoting.Request) {
	var h header.GetConsumeStatsInBroker
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	out := body.BrokerConsumeStats{BrokerAddr: a.here.host.String()}
	groups, _ := a.groups.All()
	for _, group := range sortedKeys(groups) {
		list := []body.ConsumeStats{}
		for _, name := range a.offsets.Topics(group) {
			c := a.topics.Get(name)
			if c == nil || h.Order && !c.Order || a.ignored(group, name) {
				continue
			}
			s := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}, ConsumeTPS: body.Double(a.stats.GroupTPS(name, group))}
			a.progress(s.OffsetTable, group, name, c.WriteQueueNums, false)
			for _, w := range s.OffsetTable {
				out.TotalDiff += w.BrokerOffset - w.ConsumerOffset
				out.TotalInflightDiff += w.PullOffset - w.ConsumerOffset
			}
			list = append(list, s)
		}
		out.ConsumeStatsList = append(out.ConsumeStatsList, map[string][]body.ConsumeStats{group: list})
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

// topicsOf serves 343.
func (a *statsAdmin) topicsOf(_ context.Context, r *remoting.Request) {
	var h header.QueryTopicsByConsumer
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	out := body.TopicList{BrokerAddr: a.here.host.String(), TopicList: a.offsets.Topics(h.Group)}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

// view serves 315: one counter over the last minute, hour and day.
func (a *statsAdmin) view(_ context.Context, r *remoting.Request) {
	var h header.ViewBrokerStatsData
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	minute, hour, day, found := a.stats.View(h.StatsName, h.StatsKey)
	if !found {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("The stats <%s> <%s> not exist", h.StatsName, h.StatsKey), nil, nil)
		return
	}
	out := body.BrokerStatsData{StatsDay: item(day), StatsHour: item(hour), StatsMinute: item(minute)}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}

func item(s stats.Snapshot) body.BrokerStatsItem {
	return body.BrokerStatsItem{AvgPT: body.Double(s.AvgPT), Sum: s.Sum, TPS: body.Double(s.TPS)}
}

// spans serves 303: per write queue the store times of the oldest message, the
// newest, and the one consumed last, and how old the next one is.
func (a *statsAdmin) spans(_ context.Context, r *remoting.Request) {
	var h header.QueryConsumeTimeSpan
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	c := a.topics.Get(h.Topic)
	if c == nil {
		r.Reply(remoting.CodeTopicNotExist, fmt.Sprintf("topic[%s] not exist", h.Topic), nil, nil)
		return
	}
	committed := a.offsets.Queues(h.Group, h.Topic)
	var out body.ConsumeTimeSpan
	for id := range c.WriteQueueNums {
		q, first, end := a.bounds(h.Topic, id)
		s := body.QueueTimeSpan{MessageQueue: a.queue(h.Topic, id), MinTimestamp: a.storeTime(q, first), MaxTimestamp: a.storeTime(q, end-1)}
		s.ConsumeTimestamp = s.MinTimestamp
		at := committed[id]
		if at > 0 {
			s.ConsumeTimestamp = a.storeTime(q, at-1)
		}
		if next := a.storeTime(q, at); next > 0 {
			s.DelayTime = a.now().UnixMilli() - next
		}
		out.ConsumeTimeSpanSet = append(out.ConsumeTimeSpanSet, s)
	}
	r.Reply(remoting.CodeSuccess, "", nil, out.Encode())
}
