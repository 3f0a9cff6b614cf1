package broker

import (
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/subgroup"
)

// lockHandler serves 41 and 42, the queue leases of ordered consumers.
type lockHandler struct {
	locks *subgroup.Locks
}

// lock serves 41: the answer lists what was granted, field by field as asked.
func (h *lockHandler) lock(_ *session, r *remoting.Request) {
	q, err := body.DecodeLockBatch(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	granted := h.locks.Lock(q.ConsumerGroup, q.ClientID, queueKeys(q.MQSet))
	reply := body.LockBatchReply{LockOKMQSet: make([]body.MessageQueue, 0, len(granted))}
	for _, k := range granted {
		reply.LockOKMQSet = append(reply.LockOKMQSet, body.MessageQueue{Topic: k.Topic, BrokerName: k.BrokerName, QueueID: k.QueueID})
	}
	r.Reply(remoting.CodeSuccess, "", nil, reply.Encode())
}

// unlock serves 42; only the client's own locks go.
func (h *lockHandler) unlock(_ *session, r *remoting.Request) {
	q, err := body.DecodeUnlockBatch(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	h.locks.Unlock(q.ConsumerGroup, q.ClientID, queueKeys(q.MQSet))
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

func queueKeys(mqs []body.MessageQueue) []subgroup.QueueKey {
	keys := make([]subgroup.QueueKey, len(mqs))
	for i, m := range mqs {
		keys[i] = subgroup.QueueKey{Topic: m.Topic, BrokerName: m.BrokerName, QueueID: m.QueueID}
	}
	return keys
}
