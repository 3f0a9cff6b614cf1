package broker

import (
	"context"
	"encoding/binary"
	"fmt"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/store"
	"mqctl/store/record"
)

// queryAdmin finds stored messages: 12, 33, 321.
type queryAdmin struct {
	live  *liveRef
	store *store.Store
}

// maxAnswerBytes bounds the records of one answer, so that it fits in a frame.
const maxAnswerBytes = remoting.MaxFrame - 64<<10

// notFoundByKey is RocketMQ's remark when the index knows no such key.
const notFoundByKey = "can not find message, maybe time range not correct"

// byKey serves 12. The store compares topic and key of each record with what
// was asked, as the index holds hashes only.
func (a *queryAdmin) byKey(_ context.Context, r *remoting.Request) {
	var h header.QueryMessage
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	limits := a.live.Load()
	most := min(int(h.MaxNum), orElse(limits.QueryMax, 64))
	if h.UniqueKeyQuery {
		most = orElse(limits.QueryUniqueMax, 32)
	}
	var found []byte
	var res store.QueryResult
	if most > 0 && h.Key != "" {
		found, res = a.store.Query(nil, h.Topic, h.Key, most, h.BeginTimestamp, h.EndTimestamp, h.UniqueKeyQuery)
	}
	reply := &header.QueryMessageReply{IndexLastUpdateTimestamp: res.LastUpdateMillis, IndexLastUpdatePhyoffset: int64(res.LastUpdatePhys)}
	if found = wholeRecords(found, maxAnswerBytes); len(found) == 0 {
		r.Reply(remoting.CodeQueryNotFound, notFoundByKey, reply, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", reply, found)
}

func orElse(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// wholeRecords is the longest run of whole records at the start of b that is
// not longer than most.
func wholeRecords(b []byte, most int) []byte {
	if len(b) <= most {
		return b
	}
	end := 0
	for len(b)-end >= 4 {
		n := int(binary.BigEndian.Uint32(b[end:]))
		if n <= 0 || end+n > most {
			break
		}
		end += n
	}
	return b[:end]
}

// byOffset serves 33.
func (a *queryAdmin) byOffset(_ context.Context, r *remoting.Request) {
	var h header.ViewMessage
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	rec, err := a.store.Message(nil, record.PhysOffset(h.Offset))
	if err != nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("can not find message by the offset, %d", h.Offset), nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, rec)
}

// maxUnits bounds the entries of one answer to 321.
const maxUnits = 4096

// entries serves 321: the raw entries of a consume queue.
func (a *queryAdmin) entries(_ context.Context, r *remoting.Request) {
	var h header.QueryConsumeQueue
	if err := h.Decode(r.Ext); err != nil {
		refuse(r, err)
		return
	}
	q := a.store.Lookup([]byte(h.Topic), h.QueueID)
	if q == nil {
		r.Reply(remoting.CodeSystemError, fmt.Sprintf("%d@%s is not exist!", h.QueueID, h.Topic), nil, nil)
		return
	}
	out := body.QueryConsumeQueue{MinQueueIndex: int64(q.Min()), MaxQueueIndex: int64(q.Max())}
	if h.Index >= out.MinQueueIndex && h.Index < out.MaxQueueIndex && h.Count > 0 {
		for _, u := range a.store.Units(nil, q, record.QueueOffset(h.Index), int(min(h.Count, maxUnits))) {
			out.QueueData = append(out.QueueData, body.ConsumeQueueEntry{PhysicOffset: int64(u.Phys), PhysicSize: u.Size, TagsCode: u.TagsCode})
		}
	}
	r.Reply(remoting.CodeSuccess, notSet, nil, out.Encode())
}
