package body

// QueueData is what one broker has of a topic.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int    `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// BrokerData is one broker name with the addresses of its brokers by id.
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs"`
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// MarshalJSON writes brokerAddrs even if there is none: Go clients panic without it.
func (d BrokerData) MarshalJSON() ([]byte, error) {
	type plain BrokerData
	d.BrokerAddrs = nonNilMap(d.BrokerAddrs)
	return encode(plain(d)), nil
}

// TopicQueueMappingInfo is a static topic's part on one broker.
type TopicQueueMappingInfo struct {
	BrokerName  string          `json:"bname"`
	CurrIDMap   map[int32]int32 `json:"currIdMap"`
	Dirty       bool            `json:"dirty"`
	Epoch       int64           `json:"epoch"`
	Scope       string          `json:"scope,omitempty"`
	Topic       string          `json:"topic"`
	TotalQueues int32           `json:"totalQueues"`
}

// MarshalJSON writes currIdMap even if there is none.
func (i TopicQueueMappingInfo) MarshalJSON() ([]byte, error) {
	type plain TopicQueueMappingInfo
	i.CurrIDMap = nonNilMap(i.CurrIDMap)
	return encode(plain(i)), nil
}

// TopicRouteData is the answer to 105 and the body of 217. OrderTopicConf has the form
// broker:queues;broker:queues; clients index it without a check, so nothing else may
// stand there.
type TopicRouteData struct {
	BrokerDatas               []BrokerData                     `json:"brokerDatas"`
	FilterServerTable         map[string][]string              `json:"filterServerTable"`
	OrderTopicConf            string                           `json:"orderTopicConf,omitempty"`
	QueueDatas                []QueueData                      `json:"queueDatas"`
	TopicQueueMappingByBroker map[string]TopicQueueMappingInfo `json:"topicQueueMappingByBroker,omitempty"`
}

// Encode writes legal JSON in ASCII, the form for clients that ask for it; the others
// read it as well.
func (t TopicRouteData) Encode() []byte {
	t.BrokerDatas = nonNil(t.BrokerDatas)
	t.FilterServerTable = nonNilMap(t.FilterServerTable)
	t.QueueDatas = nonNil(t.QueueDatas)
	b := encode(t)
	return appendASCII(make([]byte, 0, len(b)), b)
}

// DecodeTopicRouteData reads the body.
func DecodeTopicRouteData(b []byte) (*TopicRouteData, error) {
	return decode[TopicRouteData]("route", b)
}

// ClusterInfo is the answer to 106: brokers by name and broker names by cluster.
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable"`
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable"`
}

// Encode writes the body.
func (c ClusterInfo) Encode() []byte {
	c.BrokerAddrTable = nonNilMap(c.BrokerAddrTable)
	c.ClusterAddrTable = nonNilMap(c.ClusterAddrTable)
	return encode(c)
}

// DecodeClusterInfo reads the body.
func DecodeClusterInfo(b []byte) (*ClusterInfo, error) {
	return decode[ClusterInfo]("cluster", b)
}

// BrokerMemberGroup is all brokers of one name.
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

// BrokerMemberGroupReply is the answer to 901; without a group it is {}.
type BrokerMemberGroupReply struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup,omitempty"`
}

// Encode writes the body.
func (r BrokerMemberGroupReply) Encode() []byte {
	if r.BrokerMemberGroup != nil {
		g := *r.BrokerMemberGroup
		g.BrokerAddrs = nonNilMap(g.BrokerAddrs)
		r.BrokerMemberGroup = &g
	}
	return encode(r)
}

// DecodeBrokerMemberGroupReply reads the body.
func DecodeBrokerMemberGroupReply(b []byte) (*BrokerMemberGroupReply, error) {
	return decode[BrokerMemberGroupReply]("member group", b)
}

// TopicList is the answer to 206, 224, 304, 305, 311 to 313 and 343.
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList"`
}

// Encode writes the body.
func (l TopicList) Encode() []byte {
	l.TopicList = nonNil(l.TopicList)
	return encode(l)
}

// DecodeTopicList reads the body.
func DecodeTopicList(b []byte) (*TopicList, error) { return decode[TopicList]("topic list", b) }

// GroupList is the answer to 300.
type GroupList struct {
	GroupList []string `json:"groupList"`
}

// Encode writes the body.
func (l GroupList) Encode() []byte {
	l.GroupList = nonNil(l.GroupList)
	return encode(l)
}

// DecodeGroupList reads the body.
func DecodeGroupList(b []byte) (*GroupList, error) { return decode[GroupList]("group list", b) }
