// Package body has the JSON bodies of requests and answers, with the quirks of
// fastjson (object keys, bare integer keys) where the wire has them.
package body

// CONTRACT STUB. The owner of broker/remoting writes one type for each body of
// remoting.md 3-4 with json tags of the wire names in alphabetical order:
// MessageQueue, TopicConfig (also used by broker/topic? no: broker/topic.Config
// is the type; body does not repeat it), SubscriptionData, HeartbeatData,
// ConsumerData, ProducerData, LockBatch, UnlockBatch, LockBatchReply, ConsumerList,
// TopicRouteData, BrokerData, QueueData, ClusterInfo, TopicList, GroupList,
// KVTable, RegisterBroker, TopicConfigAndMappingSerializeWrapper, ConsumeStats,
// OffsetWrapper, TopicStatsTable, TopicOffset, ConsumerConnection,
// ProducerConnection, Connection, ProducerTable, BrokerStatsData, HAStatus,
// ResetOffset, TopicConfigTable ...
// Each has Encode() []byte (or Marshal) writing the wire's exact form (raw object
// keys where remoting.md 3 says so, compact) and Decode<Type>(b []byte) (*T, error)
// that reads both raw and legal forms and bounds nesting and size.

// MessageQueue names one queue on the wire.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// SubscriptionData is one topic's subscription of a heartbeat. CodeSet is not
// trusted (Go clients send byte hashes as strings): codes are recomputed from TagsSet.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet"` // accepts numbers and numeric strings
	ExpressionType  string   `json:"expressionType,omitempty"`
	SubString       string   `json:"subString"`
	SubVersion      int64    `json:"subVersion"`
	TagsSet         []string `json:"tagsSet"`
	Topic           string   `json:"topic"`
}

// ConsumerData, ProducerData and HeartbeatData are code 34's body.
type ConsumerData struct {
	ConsumeFromWhere    string             `json:"consumeFromWhere"`
	ConsumeType         string             `json:"consumeType"`
	GroupName           string             `json:"groupName"`
	MessageModel        string             `json:"messageModel"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet"`
	UnitMode            bool               `json:"unitMode"`
}
type ProducerData struct {
	GroupName string `json:"groupName"`
}
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"`
	ProducerDataSet      []ProducerData `json:"producerDataSet"`
	WithoutSub           bool           `json:"withoutSub"`
}
