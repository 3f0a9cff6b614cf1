package broker

import (
	"context"
	"fmt"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// offsetHandler serves progress and positions: 14, 15, 29 to 32.
type offsetHandler struct {
	live    *liveRef
	topics  *topic.Table
	groups  *subgroup.Groups
	offsets *subgroup.Offsets
	commits *committer
	store   *store.Store
	pool    *pool
	guard   func(ctx context.Context, r *remoting.Request, f handlerFunc)
}

// numberReply is an answer header of one number; names of ConsumerManage and
// Admin processors: offset, or timestamp.
type numberReply struct {
	key string
	v   int64
}

// EncodeExt writes the number.
func (n *numberReply) EncodeExt(w *remoting.ExtWriter) { w.Int(n.key, n.v) }

func (s *session) number(r *remoting.Request, key string, v int64) {
	s.num = numberReply{key, v}
	r.Reply(remoting.CodeSuccess, "", &s.num, nil)
}

// query serves 14. Without stored progress a young queue answers 0, so that a
// new group starts at the beginning of a topic whose first message is still
// recent; RocketMQ asks the page cache, ours asks the log distance (Cold), so
// that the answer does not depend on what was read lately.
func (h *offsetHandler) query(s *session, r *remoting.Request) {
	var q header.QueryConsumerOffset
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	if off, ok := h.offsets.Query(q.ConsumerGroup, q.Topic, q.QueueID); ok {
		s.number(r, "offset", off)
		return
	}
	if q.HasSetZeroIfNotFound && !q.SetZeroIfNotFound {
		r.Reply(remoting.CodeQueryNotFound, "Not found, do not set to zero, maybe this group boot first", remoting.None{}, nil)
		return
	}
	if h.live.Load().ReturnZeroIfInMemory {
		if queue := h.store.Lookup(q.Topic, q.QueueID); queue != nil && queue.Min() <= 0 && queue.Max() > 0 && !h.store.Cold(queue, 0) {
			s.number(r, "offset", 0)
			return
		}
	}
	r.Reply(remoting.CodeQueryNotFound, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first", remoting.None{}, nil)
}

// commit serves 15. What is below the stored progress is stored only if it is
// meant so (committer); the answer is a success all the same, as RocketMQ's when a
// reset waits. The queue may be one that the topic had before it shrank, but one
// that no topic can have is refused.
func (h *offsetHandler) commit(_ *session, r *remoting.Request) {
	var q header.UpdateConsumerOffset
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	if h.groups.GetBytes(q.ConsumerGroup) == nil && !servesAlone(h.commits.stand.Load(), h.live.Load(), string(q.ConsumerGroup)) {
		r.Reply(remoting.CodeSubscriptionGroupNotExist, fmt.Sprintf("Group %s not exist!", q.ConsumerGroup), remoting.None{}, nil)
		return
	}
	if h.topics.GetBytes(q.Topic) == nil {
		r.Reply(remoting.CodeTopicNotExist, fmt.Sprintf("Topic %s not exist!", q.Topic), remoting.None{}, nil)
		return
	}
	if q.QueueID < 0 || q.QueueID >= topic.MaxQueues {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("queueId %d is not within 0 and %d", q.QueueID, topic.MaxQueues-1), remoting.None{}, nil)
		return
	}
	remark := ""
	if h.commits.commit(r.Conn, q.ConsumerGroup, q.Topic, q.QueueID, q.CommitOffset, r.Ext) == subgroup.Held {
		remark = "Offset has been previously reset"
	}
	r.Reply(remoting.CodeSuccess, remark, remoting.None{}, nil)
}

// max serves 30; an unknown topic or queue ends at 0.
func (h *offsetHandler) max(s *session, r *remoting.Request) {
	var q header.GetMaxOffset
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	var v record.QueueOffset
	if queue := h.store.Lookup(r.Ext.Bytes("topic"), q.QueueID); queue != nil {
		v = queue.Max()
	}
	s.number(r, "offset", int64(v))
}

// min serves 31; an unknown topic or queue begins at 0.
func (h *offsetHandler) min(s *session, r *remoting.Request) {
	var q header.GetMinOffset
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	var v record.QueueOffset
	if queue := h.store.Lookup(r.Ext.Bytes("topic"), q.QueueID); queue != nil {
		v = queue.Min()
	}
	s.number(r, "offset", int64(v))
}

// search serves 29. The search reads store times out of the log, so a queue
// that begins further back than memory holds is searched in the pool.
func (h *offsetHandler) search(s *session, r *remoting.Request) {
	var q header.SearchOffset
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	queue := h.store.Lookup(r.Ext.Bytes("topic"), q.QueueID)
	if queue == nil {
		s.number(r, "offset", 0)
		return
	}
	upper := isUpper(q.BoundaryType)
	h.maybeCold(queue, r, func(r *remoting.Request) {
		v := h.store.OffsetByTime(queue, q.Timestamp, upper)
		r.Reply(remoting.CodeSuccess, "", &numberReply{"offset", int64(v)}, nil)
	})
}

// earliest serves 32: when the oldest message of the queue was stored, -1 if
// there is none.
func (h *offsetHandler) earliest(s *session, r *remoting.Request) {
	var q header.GetEarliestMsgStoretime
	if err := q.Decode(r.Ext); err != nil {
		badHeader(r, err)
		return
	}
	queue := h.store.Lookup(r.Ext.Bytes("topic"), q.QueueID)
	if queue == nil || queue.Min() >= queue.Max() {
		s.number(r, "timestamp", -1)
		return
	}
	h.maybeCold(queue, r, func(r *remoting.Request) {
		v := h.store.StoreTime(queue, queue.Min())
		r.Reply(remoting.CodeSuccess, "", &numberReply{"timestamp", v}, nil)
	})
}

// maybeCold runs f here, or in the pool when the queue's beginning is no longer
// in memory.
func (h *offsetHandler) maybeCold(q *store.Queue, r *remoting.Request, f func(r *remoting.Request)) {
	if q.Min() >= q.Max() || !h.store.Cold(q, q.Min()) {
		f(r)
		return
	}
	clone := r.Clone()
	if !h.pool.submit(0, func(ctx context.Context) {
		h.guard(ctx, clone, func(_ context.Context, r *remoting.Request) { f(r) })
	}) {
		r.Reply(remoting.CodeSystemBusy, overloaded, remoting.None{}, nil)
	}
}

// isUpper reads boundaryType: anything but upper means lower.
func isUpper(s string) bool {
	if len(s) != 5 {
		return false
	}
	for i := range s {
		if s[i]&^0x20 != "UPPER"[i] {
			return false
		}
	}
	return true
}

// badHeader answers a request whose header lacks a field or holds a wrong one.
func badHeader(r *remoting.Request, err error) {
	r.Reply(remoting.CodeInvalidParameter, err.Error(), remoting.None{}, nil)
}
