package body

import "encoding/json"

// TopicConfig is one topic's settings. FilterType is SINGLE_TAG or MULTI_TAG.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int               `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// Defaults of Java's TopicConfig, for properties that a body leaves out.
const (
	defaultQueues = 16
	defaultPerm   = 6
	singleTag     = "SINGLE_TAG"
)

// MarshalJSON writes attributes even if there is none.
func (c TopicConfig) MarshalJSON() ([]byte, error) {
	type plain TopicConfig
	c.Attributes = nonNilMap(c.Attributes)
	return encode(plain(c)), nil
}

// UnmarshalJSON gives missing properties the defaults of Java's class: 16 queues and
// permission 6.
func (c *TopicConfig) UnmarshalJSON(b []byte) error {
	type plain TopicConfig
	p := plain{Perm: defaultPerm, ReadQueueNums: defaultQueues, WriteQueueNums: defaultQueues, TopicFilterType: singleTag}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*c = TopicConfig(p)
	c.Attributes = nonNilMap(c.Attributes)
	return nil
}

// Encode writes the answer to 351.
func (c TopicConfig) Encode() []byte { return encode(c) }

// DecodeTopicConfig reads the answer to 351.
func DecodeTopicConfig(b []byte) (*TopicConfig, error) {
	return decode[TopicConfig]("topic config", b)
}

// TopicConfigAndMappingSerializeWrapper is the answer to 21 and part of 103. The
// mapping tables belong to static topics; the details are kept as they came.
type TopicConfigAndMappingSerializeWrapper struct {
	DataVersion                DataVersion                      `json:"dataVersion"`
	MappingDataVersion         DataVersion                      `json:"mappingDataVersion"`
	TopicConfigTable           map[string]TopicConfig           `json:"topicConfigTable"`
	TopicQueueMappingDetailMap map[string]json.RawMessage       `json:"topicQueueMappingDetailMap"`
	TopicQueueMappingInfoMap   map[string]TopicQueueMappingInfo `json:"topicQueueMappingInfoMap"`
}

// TopicConfigTable is the answer to 21.
type TopicConfigTable = TopicConfigAndMappingSerializeWrapper

// full gives every table a value.
func (w TopicConfigAndMappingSerializeWrapper) full() TopicConfigAndMappingSerializeWrapper {
	w.TopicConfigTable = nonNilMap(w.TopicConfigTable)
	w.TopicQueueMappingDetailMap = nonNilMap(w.TopicQueueMappingDetailMap)
	w.TopicQueueMappingInfoMap = nonNilMap(w.TopicQueueMappingInfoMap)
	return w
}

// Encode writes the answer to 21.
func (w TopicConfigAndMappingSerializeWrapper) Encode() []byte { return encode(w.full()) }

// DecodeTopicConfigTable reads the answer to 21.
func DecodeTopicConfigTable(b []byte) (*TopicConfigTable, error) {
	return decode[TopicConfigTable]("topic configs", b)
}

// TopicConfigList is the body of 18.
type TopicConfigList struct {
	TopicConfigList []TopicConfig `json:"topicConfigList"`
}

// Encode writes the body.
func (l TopicConfigList) Encode() []byte {
	l.TopicConfigList = nonNil(l.TopicConfigList)
	return encode(l)
}

// DecodeTopicConfigList reads the body.
func DecodeTopicConfigList(b []byte) (*TopicConfigList, error) {
	return decode[TopicConfigList]("topic config list", b)
}

// SubscriptionGroupTable is the answer to 201. Package subgroup knows what a group's
// settings are; here they stay JSON text.
type SubscriptionGroupTable struct {
	DataVersion            DataVersion                 `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32 `json:"forbiddenTable"`
	SubscriptionGroupTable map[string]json.RawMessage  `json:"subscriptionGroupTable"`
}

// Encode writes the body.
func (t SubscriptionGroupTable) Encode() []byte {
	t.ForbiddenTable = nonNilMap(t.ForbiddenTable)
	t.SubscriptionGroupTable = nonNilMap(t.SubscriptionGroupTable)
	return encode(t)
}

// DecodeSubscriptionGroupTable reads the body.
func DecodeSubscriptionGroupTable(b []byte) (*SubscriptionGroupTable, error) {
	return decode[SubscriptionGroupTable]("subscription groups", b)
}

// GroupForbidden is the answer to 353.
type GroupForbidden struct {
	Group    string `json:"group"`
	Readable bool   `json:"readable"`
	Topic    string `json:"topic"`
}

// Encode writes the body.
func (g GroupForbidden) Encode() []byte { return encode(g) }

// DecodeGroupForbidden reads the body.
func DecodeGroupForbidden(b []byte) (*GroupForbidden, error) {
	return decode[GroupForbidden]("group permission", b)
}

// QuerySubscription is the answer to 345; SubscriptionData only while the group is online.
type QuerySubscription struct {
	Group            string            `json:"group"`
	SubscriptionData *SubscriptionData `json:"subscriptionData,omitempty"`
	Topic            string            `json:"topic,omitempty"`
}

// Encode writes the body.
func (q QuerySubscription) Encode() []byte { return encode(q) }

// DecodeQuerySubscription reads the body.
func DecodeQuerySubscription(b []byte) (*QuerySubscription, error) {
	return decode[QuerySubscription]("subscription", b)
}
