package header

import "mqctl/broker/remoting"

// Bits of PullMessage.SysFlag (Java class PullSysFlag).
const (
	PullCommitOffset = 1  // CommitOffset is to be stored
	PullSuspend      = 2  // the request may be held
	PullSubscription = 4  // Subscription counts
	PullClassFilter  = 8  // filtering by a class of the client's
	PullLite         = 16 // from a lite pull consumer
)

// PullMessage is the header of PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).
type PullMessage struct {
	ConsumerGroup, Topic, Subscription, ExpressionType []byte
	QueueID, MaxMsgNums, SysFlag                       int32
	QueueOffset, CommitOffset, SubVersion              int64
	SuspendTimeoutMillis                               int64
	HasSubscription, HasExpressionType                 bool
	RequestSource                                      int32
	BrokerName                                         []byte
}

// pullNames are the required fields by their bit.
var pullNames = [...]string{
	"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag",
	"commitOffset", "suspendTimeoutMillis", "subVersion",
}

// Decode reads a request.
func (h *PullMessage) Decode(f remoting.Fields) error {
	*h = PullMessage{}
	var seen uint
	for {
		k, v, ok := f.Next()
		if !ok {
			break
		}
		bit, why := h.set(k, v)
		if why != "" {
			return fieldError("PullMessage", string(k), v, why)
		}
		if bit >= 0 {
			seen |= 1 << bit
		}
	}
	return missing("PullMessage", pullNames[:], seen)
}

// missing finds the first required field that was not seen.
func missing(header string, names []string, seen uint) error {
	if seen&(1<<len(names)-1) == 1<<len(names)-1 {
		return nil
	}
	for i, name := range names {
		if seen&(1<<i) == 0 {
			return fieldError(header, name, nil, whyMissing)
		}
	}
	return nil
}

// set stores one field; bit is its place in pullNames, -1 if it is optional.
func (h *PullMessage) set(k, v []byte) (bit int, why string) {
	bit = -1
	switch string(k) {
	case "consumerGroup":
		h.ConsumerGroup, bit = v, 0
	case "topic":
		h.Topic, bit = v, 1
	case "queueId":
		bit = 2
		h.QueueID, why = parseWord(v)
	case "queueOffset":
		bit = 3
		h.QueueOffset, why = parseLong(v)
	case "maxMsgNums":
		bit = 4
		h.MaxMsgNums, why = parseWord(v)
	case "sysFlag":
		bit = 5
		h.SysFlag, why = parseWord(v)
	case "commitOffset":
		bit = 6
		h.CommitOffset, why = parseLong(v)
	case "suspendTimeoutMillis":
		bit = 7
		h.SuspendTimeoutMillis, why = parseLong(v)
	case "subVersion":
		bit = 8
		h.SubVersion, why = parseLong(v)
	case "subscription":
		h.Subscription, h.HasSubscription = v, true
	case "expressionType":
		h.ExpressionType, h.HasExpressionType = v, true
	case "requestSource":
		if len(v) > 0 {
			h.RequestSource, why = parseWord(v)
		}
	case "bname":
		h.BrokerName = v
	}
	return bit, why
}

// EncodeExt writes a request.
func (h *PullMessage) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("consumerGroup", h.ConsumerGroup)
	w.Bytes("topic", h.Topic)
	w.Int("queueId", int64(h.QueueID))
	w.Int("queueOffset", h.QueueOffset)
	w.Int("maxMsgNums", int64(h.MaxMsgNums))
	w.Int("sysFlag", int64(h.SysFlag))
	w.Int("commitOffset", h.CommitOffset)
	w.Int("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	w.Int("subVersion", h.SubVersion)
	if h.HasSubscription {
		w.Bytes("subscription", h.Subscription)
	}
	if h.HasExpressionType {
		w.Bytes("expressionType", h.ExpressionType)
	}
	if h.RequestSource != 0 {
		w.Int("requestSource", int64(h.RequestSource))
	}
	if len(h.BrokerName) > 0 {
		w.Bytes("bname", h.BrokerName)
	}
}

// PullMessageReply is the header of the answers to 11 and 361 with codes 0, 19, 20
// and 21; clients need its four offsets with each of them.
type PullMessageReply struct {
	SuggestWhichBrokerID, NextBeginOffset, MinOffset, MaxOffset int64
	TopicSysFlag, GroupSysFlag                                  int32
	ForbiddenType                                               int32 // 0 = absent
}

// EncodeExt writes an answer.
func (h *PullMessageReply) EncodeExt(w *remoting.ExtWriter) {
	w.Int("suggestWhichBrokerId", h.SuggestWhichBrokerID)
	w.Int("nextBeginOffset", h.NextBeginOffset)
	w.Int("minOffset", h.MinOffset)
	w.Int("maxOffset", h.MaxOffset)
	w.Int("topicSysFlag", int64(h.TopicSysFlag))
	w.Int("groupSysFlag", int64(h.GroupSysFlag))
	if h.ForbiddenType != 0 {
		w.Int("forbiddenType", int64(h.ForbiddenType))
	}
}

// DecodeMap reads an answer.
func (h *PullMessageReply) DecodeMap(m map[string]string) error {
	*h = PullMessageReply{}
	c := codec{header: "PullMessageReply", m: m}
	c.long("suggestWhichBrokerId", &h.SuggestWhichBrokerID, required)
	c.long("nextBeginOffset", &h.NextBeginOffset, required)
	c.long("minOffset", &h.MinOffset, required)
	c.long("maxOffset", &h.MaxOffset, required)
	c.word("topicSysFlag", &h.TopicSysFlag, optional)
	c.word("groupSysFlag", &h.GroupSysFlag, optional)
	c.word("forbiddenType", &h.ForbiddenType, optional)
	return c.err
}

// PullForbiddenReply is the header of an answer with code 16 to a pull.
type PullForbiddenReply struct {
	ForbiddenType int32 // 1 broker, 2 group, 3 topic, 4 broadcast disabled, 5 subscription; 0 = absent
}

// EncodeExt writes the field if there is one.
func (h *PullForbiddenReply) EncodeExt(w *remoting.ExtWriter) {
	if h.ForbiddenType != 0 {
		w.Int("forbiddenType", int64(h.ForbiddenType))
	}
}
