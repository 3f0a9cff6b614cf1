package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// SubscriptionData is one topic's subscription of a heartbeat. CodeSet is not to be
// trusted: Go clients send hashes of bytes, as strings. Tag codes are to be computed
// from TagsSet. An empty ExpressionType means TAG.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet"`
	ExpressionType  string   `json:"expressionType,omitempty"`
	SubString       string   `json:"subString"`
	SubVersion      int64    `json:"subVersion"`
	TagsSet         []string `json:"tagsSet"`
	Topic           string   `json:"topic"`
}

// MarshalJSON writes empty sets as [].
func (s SubscriptionData) MarshalJSON() ([]byte, error) {
	type plain SubscriptionData
	s.CodeSet, s.TagsSet = nonNil(s.CodeSet), nonNil(s.TagsSet)
	return encode(plain(s)), nil
}

// UnmarshalJSON takes codes as numbers and as strings.
func (s *SubscriptionData) UnmarshalJSON(b []byte) error {
	type plain SubscriptionData
	w := struct {
		*plain
		CodeSet []code `json:"codeSet"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	s.CodeSet = make([]int32, len(w.CodeSet))
	for i, c := range w.CodeSet {
		s.CodeSet[i] = int32(c)
	}
	return nil
}

// code is a tag code: a number, perhaps quoted.
type code int32

func (c *code) UnmarshalJSON(b []byte) error {
	b = bytes.Trim(b, `"`)
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf("tag code %.20q is no number", b)
	}
	*c = code(int32(v)) // a set of hints; wider numbers are cut like Java's hash
	return nil
}

// ConsumerData is one consumer group of a heartbeat.
type ConsumerData struct {
	ConsumeFromWhere    string             `json:"consumeFromWhere"`
	ConsumeType         string             `json:"consumeType"`
	GroupName           string             `json:"groupName"`
	MessageModel        string             `json:"messageModel"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet"`
	UnitMode            bool               `json:"unitMode"`
}

// ProducerData is one producer group of a heartbeat.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// HeartbeatData is the body of 34. With a HeartbeatFingerprint and WithoutSub the
// subscriptions are left out and the known ones stay.
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"`
	ProducerDataSet      []ProducerData `json:"producerDataSet"`
	WithoutSub           bool           `json:"withoutSub"`
}

// Encode writes the body.
func (h HeartbeatData) Encode() []byte {
	h.ProducerDataSet = nonNil(h.ProducerDataSet)
	sets := make([]ConsumerData, len(h.ConsumerDataSet))
	for i, c := range h.ConsumerDataSet {
		c.SubscriptionDataSet = nonNil(c.SubscriptionDataSet)
		sets[i] = c
	}
	h.ConsumerDataSet = sets
	return encode(h)
}

// DecodeHeartbeatData reads the body.
func DecodeHeartbeatData(b []byte) (*HeartbeatData, error) {
	return decode[HeartbeatData]("heartbeat", b)
}

// CheckClientRequest is the body of 46.
type CheckClientRequest struct {
	ClientID         string           `json:"clientId"`
	Group            string           `json:"group"`
	Namespace        string           `json:"namespace,omitempty"`
	SubscriptionData SubscriptionData `json:"subscriptionData"`
}

// Encode writes the body.
func (r CheckClientRequest) Encode() []byte { return encode(r) }

// DecodeCheckClientRequest reads the body.
func DecodeCheckClientRequest(b []byte) (*CheckClientRequest, error) {
	return decode[CheckClientRequest]("client check", b)
}

// ConsumerList is the answer to 38.
type ConsumerList struct {
	ConsumerIDList []string `json:"consumerIdList"`
}

// Encode writes the body.
func (l ConsumerList) Encode() []byte {
	l.ConsumerIDList = nonNil(l.ConsumerIDList)
	return encode(l)
}

// DecodeConsumerList reads the body.
func DecodeConsumerList(b []byte) (*ConsumerList, error) {
	return decode[ConsumerList]("consumer list", b)
}

// LockBatch is the body of 41; Go clients leave OnlyThisBroker out.
type LockBatch struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MQSet          []MessageQueue `json:"mqSet"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

// Encode writes the body.
func (l LockBatch) Encode() []byte {
	l.MQSet = nonNil(l.MQSet)
	return encode(l)
}

// DecodeLockBatch reads the body of 41.
func DecodeLockBatch(b []byte) (*LockBatch, error) { return decode[LockBatch]("lock", b) }

// UnlockBatch is the body of 42.
type UnlockBatch struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MQSet          []MessageQueue `json:"mqSet"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

// Encode writes the body.
func (u UnlockBatch) Encode() []byte {
	u.MQSet = nonNil(u.MQSet)
	return encode(u)
}

// DecodeUnlockBatch reads the body of 42.
func DecodeUnlockBatch(b []byte) (*UnlockBatch, error) { return decode[UnlockBatch]("unlock", b) }

// LockBatchReply is the answer to 41: the queues that are locked, exactly as asked.
type LockBatchReply struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet"`
}

// Encode writes the body.
func (r LockBatchReply) Encode() []byte {
	r.LockOKMQSet = nonNil(r.LockOKMQSet)
	return encode(r)
}

// DecodeLockBatchReply reads the body.
func DecodeLockBatchReply(b []byte) (*LockBatchReply, error) {
	return decode[LockBatchReply]("lock reply", b)
}

// Connection is one client of a group. ClientAddr is ip:port.
type Connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId"`
	Language   string `json:"language"`
	Version    int    `json:"version"`
}

// ConsumerConnection is the answer to 203.
type ConsumerConnection struct {
	ConnectionSet     []Connection                `json:"connectionSet"`
	ConsumeFromWhere  string                      `json:"consumeFromWhere,omitempty"`
	ConsumeType       string                      `json:"consumeType,omitempty"`
	MessageModel      string                      `json:"messageModel,omitempty"`
	SubscriptionTable map[string]SubscriptionData `json:"subscriptionTable"`
}

// Encode writes the body.
func (c ConsumerConnection) Encode() []byte {
	c.ConnectionSet = nonNil(c.ConnectionSet)
	c.SubscriptionTable = nonNilMap(c.SubscriptionTable)
	return encode(c)
}

// DecodeConsumerConnection reads the body.
func DecodeConsumerConnection(b []byte) (*ConsumerConnection, error) {
	return decode[ConsumerConnection]("consumer connections", b)
}

// ProducerConnection is the answer to 204.
type ProducerConnection struct {
	ConnectionSet []Connection `json:"connectionSet"`
}

// Encode writes the body.
func (c ProducerConnection) Encode() []byte {
	c.ConnectionSet = nonNil(c.ConnectionSet)
	return encode(c)
}

// DecodeProducerConnection reads the body.
func DecodeProducerConnection(b []byte) (*ProducerConnection, error) {
	return decode[ProducerConnection]("producer connections", b)
}

// ProducerInfo is one client of a producer group. RemoteIP is ip:port; Java writes a
// slash before it.
type ProducerInfo struct {
	ClientID            string `json:"clientId"`
	Language            string `json:"language"`
	LastUpdateTimestamp int64  `json:"lastUpdateTimestamp"` // ms
	RemoteIP            string `json:"remoteIP"`
	Version             int    `json:"version"`
}

// ProducerTable is the answer to 328.
type ProducerTable struct {
	Data map[string][]ProducerInfo `json:"data"`
}

// Encode writes the body.
func (t ProducerTable) Encode() []byte {
	t.Data = nonNilMap(t.Data)
	return encode(t)
}

// DecodeProducerTable reads the body.
func DecodeProducerTable(b []byte) (*ProducerTable, error) {
	return decode[ProducerTable]("producers", b)
}
