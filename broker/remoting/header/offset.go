package header

import "mqctl/broker/remoting"

// QueryConsumerOffset is the header of 14.
type QueryConsumerOffset struct {
	ConsumerGroup, Topic                    []byte
	QueueID                                 int32
	SetZeroIfNotFound, HasSetZeroIfNotFound bool
}

var queryOffsetNames = [...]string{"consumerGroup", "topic", "queueId"}

// Decode reads a request.
func (h *QueryConsumerOffset) Decode(f remoting.Fields) error {
	*h = QueryConsumerOffset{}
	var seen uint
	for {
		k, v, ok := f.Next()
		if !ok {
			return missing("QueryConsumerOffset", queryOffsetNames[:], seen)
		}
		var why string
		switch string(k) {
		case "consumerGroup":
			h.ConsumerGroup = v
			seen |= 1
		case "topic":
			h.Topic = v
			seen |= 2
		case "queueId":
			h.QueueID, why = parseWord(v)
			seen |= 4
		case "setZeroIfNotFound":
			h.SetZeroIfNotFound, h.HasSetZeroIfNotFound = isTrue(v), len(v) > 0
		}
		if why != "" {
			return fieldError("QueryConsumerOffset", string(k), v, why)
		}
	}
}

// EncodeExt writes a request.
func (h *QueryConsumerOffset) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("consumerGroup", h.ConsumerGroup)
	w.Bytes("topic", h.Topic)
	w.Int("queueId", int64(h.QueueID))
	if h.HasSetZeroIfNotFound {
		w.Bool("setZeroIfNotFound", h.SetZeroIfNotFound)
	}
}

// UpdateConsumerOffset is the header of 15. CommitOffset -1 is what Go clients send
// for a queue of which they consumed nothing.
type UpdateConsumerOffset struct {
	ConsumerGroup, Topic []byte
	QueueID              int32
	CommitOffset         int64
}

var updateOffsetNames = [...]string{"consumerGroup", "topic", "queueId", "commitOffset"}

// Decode reads a request.
func (h *UpdateConsumerOffset) Decode(f remoting.Fields) error {
	*h = UpdateConsumerOffset{}
	var seen uint
	for {
		k, v, ok := f.Next()
		if !ok {
			return missing("UpdateConsumerOffset", updateOffsetNames[:], seen)
		}
		var why string
		switch string(k) {
		case "consumerGroup":
			h.ConsumerGroup = v
			seen |= 1
		case "topic":
			h.Topic = v
			seen |= 2
		case "queueId":
			h.QueueID, why = parseWord(v)
			seen |= 4
		case "commitOffset":
			h.CommitOffset, why = parseLong(v)
			seen |= 8
		}
		if why != "" {
			return fieldError("UpdateConsumerOffset", string(k), v, why)
		}
	}
}

// EncodeExt writes a request.
func (h *UpdateConsumerOffset) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("consumerGroup", h.ConsumerGroup)
	w.Bytes("topic", h.Topic)
	w.Int("queueId", int64(h.QueueID))
	w.Int("commitOffset", h.CommitOffset)
}

// OffsetReply is the header of the answers to 14, 29, 30 and 31. Go clients read it
// without a look at the code.
type OffsetReply struct{ Offset int64 }

// EncodeExt writes an answer.
func (h *OffsetReply) EncodeExt(w *remoting.ExtWriter) { w.Int("offset", h.Offset) }

// DecodeMap reads an answer.
func (h *OffsetReply) DecodeMap(m map[string]string) error {
	c := codec{header: "OffsetReply", m: m}
	c.long("offset", &h.Offset, required)
	return c.err
}

// The answers that carry one offset, by the names of Java's classes.
type (
	// QueryConsumerOffsetReply answers 14.
	QueryConsumerOffsetReply = OffsetReply
	// SearchOffsetReply answers 29.
	SearchOffsetReply = OffsetReply
	// GetMaxOffsetReply answers 30.
	GetMaxOffsetReply = OffsetReply
	// GetMinOffsetReply answers 31.
	GetMinOffsetReply = OffsetReply
)
