// Package header has one struct for each request and response header.
package header

// CONTRACT STUB. The owner of broker/remoting writes one struct for each header
// of remoting.md 3A-4.5. Rules:
//  - type names: NAME without "RequestHeader": SendMessage, PullMessage,
//    QueryConsumerOffset, UpdateConsumerOffset, ...; responses end in Reply:
//    SendMessageReply, PullMessageReply, ...; field names are the wire names in Go case.
//  - requests: func (h *X) Decode(f remoting.Fields) error — a missing required
//    field or bad number is *FieldError{Header, Field, Value, Why};
//    func (h *X) EncodeExt(w *remoting.ExtWriter) — so that clients can send them.
//  - responses: EncodeExt, and func (h *X) DecodeMap(m map[string]string) error for clients.
//  - hot headers (SendMessage, PullMessage, UpdateConsumerOffset, QueryConsumerOffset)
//    hold []byte fields that alias the request (valid until the handler returns);
//    all others hold strings. SendMessage.DecodeV1 / DecodeV2 (310, 320 letters).
//  - optional fields whose absence matters: a Has<Field> bool beside it.

import "mqctl/broker/remoting"

// SendMessage is the header of 10, 310, 320.
type SendMessage struct {
	ProducerGroup, Topic, DefaultTopic, Properties, BrokerName    []byte
	DefaultTopicQueueNums, QueueID, SysFlag, Flag, ReconsumeTimes int32
	BornTimestamp                                                 int64
	UnitMode, Batch                                               bool
	MaxReconsumeTimes                                             int32
	HasMaxReconsumeTimes                                          bool
}

func (h *SendMessage) DecodeV1(f remoting.Fields) error { panic("contract stub") }
func (h *SendMessage) DecodeV2(f remoting.Fields) error { panic("contract stub") }
func (h *SendMessage) EncodeExt(w *remoting.ExtWriter)  { panic("contract stub") } // V2 letters

// SendMessageReply of 10, 310, 320. MsgID etc. are borrowed during Reply.
type SendMessageReply struct {
	MsgID, TransactionID, BatchUniqID, Region []byte // TransactionID, BatchUniqID nil = absent
	QueueID                                   int32
	QueueOffset                               int64
	TraceOn                                   bool
}

func (h *SendMessageReply) EncodeExt(w *remoting.ExtWriter) { panic("contract stub") }

// PullMessage is the header of 11 and 361.
type PullMessage struct {
	ConsumerGroup, Topic, Subscription, ExpressionType []byte
	QueueID, MaxMsgNums, SysFlag                       int32
	QueueOffset, CommitOffset, SubVersion              int64
	SuspendTimeoutMillis                               int64
	HasSubscription, HasExpressionType                 bool
	RequestSource                                      int32
}

func (h *PullMessage) Decode(f remoting.Fields) error  { panic("contract stub") }
func (h *PullMessage) EncodeExt(w *remoting.ExtWriter) { panic("contract stub") }

// PullMessageReply of 11 and 361.
type PullMessageReply struct {
	SuggestWhichBrokerID, NextBeginOffset, MinOffset, MaxOffset int64
	TopicSysFlag, GroupSysFlag                                  int32
	ForbiddenType                                               int32 // 0 = absent
}

func (h *PullMessageReply) EncodeExt(w *remoting.ExtWriter) { panic("contract stub") }
