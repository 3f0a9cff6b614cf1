package broker

import (
	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
)

// addInner stores a client batch as one record, as topics with queue.type=BatchCQ want
// it (RocketMQ's inner batch): the elements stay as the client encoded them, and its
// consumers take them apart.
func (h *sendHandler) addInner(l *live, b *burst, r *remoting.Request, cfg *topic.Config, outer *sentProps) verdict {
	n := 0
	for rest := r.Body; len(rest) > 0; n++ {
		_, tail, err := record.NextBatchItem(rest)
		if err != nil {
			return refusef(remoting.CodeMessageIllegal, "the batch body is damaged: %v", err)
		}
		rest = tail
	}
	if n > mostInner {
		return refusef(remoting.CodeMessageIllegal, "a batch of %d messages: at most %d in a topic with queue.type=BatchCQ", n, mostInner)
	}
	if v := refuseKind(l, outer, cfg, 0, 0); v != (verdict{}) {
		return v
	}
	text := append(b.text[:0], b.outer...)
	text = record.AppendProperty(text, propUniqKey, outer.uniqKey)
	text = store.AppendInner(text, n)
	b.text = text
	d := &b.draft
	d.SysFlag |= record.FlagUnwrap | record.FlagInnerBatch
	d.Properties = text
	known := outer.known
	known.UniqueKey = outer.uniqKey
	b.batch.AddInner(h.store, h.queue(b.msg.topic, b.msg.queue), d, &known, n)
	b.hold(r, 1, outer.uniqKey, outer.noWait)
	b.calls[len(b.calls)-1].inner = true
	return verdict{}
}

// mostInner is how many messages a unit of a batch queue can count.
const mostInner = 1<<15 - 1
