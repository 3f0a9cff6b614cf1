package header

// Headers of clients: heartbeats, groups and what consumers send back.

import "mqctl/broker/remoting"

// HeartbeatReply answers 34; both fields are optional.
type HeartbeatReply struct {
	SupportHeartbeatV2    bool
	HasSupportHeartbeatV2 bool
	SubChange             bool
	HasSubChange          bool
}

func (h *HeartbeatReply) walk(c *codec) {
	c.maybeFlag("IS_SUPPORT_HEART_BEAT_V2", &h.SupportHeartbeatV2, &h.HasSupportHeartbeatV2)
	c.maybeFlag("IS_SUB_CHANGE", &h.SubChange, &h.HasSubChange)
}

// DecodeMap reads an answer.
func (h *HeartbeatReply) DecodeMap(m map[string]string) error {
	return decodeMap("HeartbeatReply", m, h)
}

// EncodeExt writes an answer.
func (h *HeartbeatReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// UnregisterClient is the header of 35. Java sends one request for each group, with one of the two.
type UnregisterClient struct {
	ClientID      string
	ProducerGroup string
	ConsumerGroup string
}

func (h *UnregisterClient) walk(c *codec) {
	c.text("clientID", &h.ClientID, required)
	c.text("producerGroup", &h.ProducerGroup, optional)
	c.text("consumerGroup", &h.ConsumerGroup, optional)
}

// Decode reads a request.
func (h *UnregisterClient) Decode(f remoting.Fields) error { return decode("UnregisterClient", f, h) }

// EncodeExt writes a request.
func (h *UnregisterClient) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ConsumerSendMsgBack is the header of 36. Offset is a physical offset; DelayLevel below 0 asks for the dead letter topic, 0 leaves the level to the broker.
type ConsumerSendMsgBack struct {
	Offset               int64
	Group                string
	DelayLevel           int32
	OriginMsgID          string
	OriginTopic          string
	UnitMode             bool
	MaxReconsumeTimes    int32
	HasMaxReconsumeTimes bool
}

func (h *ConsumerSendMsgBack) walk(c *codec) {
	c.long("offset", &h.Offset, required)
	c.text("group", &h.Group, required)
	c.word("delayLevel", &h.DelayLevel, required)
	c.text("originMsgId", &h.OriginMsgID, optional)
	c.text("originTopic", &h.OriginTopic, optional)
	c.flag("unitMode", &h.UnitMode, optional)
	c.maybeWord("maxReconsumeTimes", &h.MaxReconsumeTimes, &h.HasMaxReconsumeTimes)
}

// Decode reads a request.
func (h *ConsumerSendMsgBack) Decode(f remoting.Fields) error {
	return decode("ConsumerSendMsgBack", f, h)
}

// EncodeExt writes a request.
func (h *ConsumerSendMsgBack) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// EndTransaction is the header of 37. CommitOrRollback is 8, 12 or 0 (unknown, which gets no answer).
type EndTransaction struct {
	Topic                string
	ProducerGroup        string
	TranStateTableOffset int64
	CommitLogOffset      int64
	CommitOrRollback     int32
	FromTransactionCheck bool
	MsgID                string
	TransactionID        string
}

func (h *EndTransaction) walk(c *codec) {
	c.text("topic", &h.Topic, optional)
	c.text("producerGroup", &h.ProducerGroup, required)
	c.long("tranStateTableOffset", &h.TranStateTableOffset, required)
	c.long("commitLogOffset", &h.CommitLogOffset, required)
	c.word("commitOrRollback", &h.CommitOrRollback, required)
	c.flag("fromTransactionCheck", &h.FromTransactionCheck, optional)
	c.text("msgId", &h.MsgID, required)
	c.text("transactionId", &h.TransactionID, optional)
}

// Decode reads a request.
func (h *EndTransaction) Decode(f remoting.Fields) error { return decode("EndTransaction", f, h) }

// EncodeExt writes a request.
func (h *EndTransaction) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumerListByGroup is the header of 38.
type GetConsumerListByGroup struct {
	ConsumerGroup string
}

func (h *GetConsumerListByGroup) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
}

// Decode reads a request.
func (h *GetConsumerListByGroup) Decode(f remoting.Fields) error {
	return decode("GetConsumerListByGroup", f, h)
}

// EncodeExt writes a request.
func (h *GetConsumerListByGroup) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// NotifyConsumerIDsChanged is the header of 40, from broker to client.
type NotifyConsumerIDsChanged struct {
	ConsumerGroup string
}

func (h *NotifyConsumerIDsChanged) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
}

// Decode reads a request.
func (h *NotifyConsumerIDsChanged) Decode(f remoting.Fields) error {
	return decode("NotifyConsumerIDsChanged", f, h)
}

// EncodeExt writes a request.
func (h *NotifyConsumerIDsChanged) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ResetOffset is the header of 220 (broker to client) and 222. Timestamp is in ms, -1 = latest; QueueID and Offset are -1 when not meant.
type ResetOffset struct {
	Topic      string
	Group      string
	QueueID    int32
	HasQueueID bool
	Offset     int64
	HasOffset  bool
	Timestamp  int64
	Force      bool
}

func (h *ResetOffset) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("group", &h.Group, required)
	c.maybeWord("queueId", &h.QueueID, &h.HasQueueID)
	c.maybeLong("offset", &h.Offset, &h.HasOffset)
	c.long("timestamp", &h.Timestamp, required)
	c.flag("isForce", &h.Force, optional)
}

// Decode reads a request.
func (h *ResetOffset) Decode(f remoting.Fields) error { return decode("ResetOffset", f, h) }

// EncodeExt writes a request.
func (h *ResetOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumerStatus is the header of 221 (broker to client) and 223. ClientAddr is a client id; empty means all.
type GetConsumerStatus struct {
	Topic      string
	Group      string
	ClientAddr string
}

func (h *GetConsumerStatus) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("group", &h.Group, required)
	c.text("clientAddr", &h.ClientAddr, optional)
}

// Decode reads a request.
func (h *GetConsumerStatus) Decode(f remoting.Fields) error { return decode("GetConsumerStatus", f, h) }

// EncodeExt writes a request.
func (h *GetConsumerStatus) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumerRunningInfo is the header of 307, from admin to broker and from broker to client.
type GetConsumerRunningInfo struct {
	ConsumerGroup string
	ClientID      string
	JstackEnable  bool
}

func (h *GetConsumerRunningInfo) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
	c.text("clientId", &h.ClientID, required)
	c.flag("jstackEnable", &h.JstackEnable, optional)
}

// Decode reads a request.
func (h *GetConsumerRunningInfo) Decode(f remoting.Fields) error {
	return decode("GetConsumerRunningInfo", f, h)
}

// EncodeExt writes a request.
func (h *GetConsumerRunningInfo) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ConsumeMessageDirectly is the header of 309, from admin to broker and from broker to client.
type ConsumeMessageDirectly struct {
	ConsumerGroup   string
	ClientID        string
	MsgID           string
	BrokerName      string
	Topic           string
	TopicSysFlag    int32
	HasTopicSysFlag bool
	GroupSysFlag    int32
	HasGroupSysFlag bool
}

func (h *ConsumeMessageDirectly) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
	c.text("clientId", &h.ClientID, optional)
	c.text("msgId", &h.MsgID, optional)
	c.text("brokerName", &h.BrokerName, optional)
	c.text("topic", &h.Topic, optional)
	c.maybeWord("topicSysFlag", &h.TopicSysFlag, &h.HasTopicSysFlag)
	c.maybeWord("groupSysFlag", &h.GroupSysFlag, &h.HasGroupSysFlag)
}

// Decode reads a request.
func (h *ConsumeMessageDirectly) Decode(f remoting.Fields) error {
	return decode("ConsumeMessageDirectly", f, h)
}

// EncodeExt writes a request.
func (h *ConsumeMessageDirectly) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
