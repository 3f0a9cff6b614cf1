package admin

import (
	"context"
	"strconv"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
)

// StaticQueue is where a part of a logical queue lies (LogicQueueMappingItem).
// Offsets that are not known are -1.
type StaticQueue struct {
	Gen         int    `json:"gen"`
	QueueID     int32  `json:"queueId"` // at the broker
	Broker      string `json:"bname"`
	LogicOffset int64  `json:"logicOffset"`
	StartOffset int64  `json:"startOffset"`
	EndOffset   int64  `json:"endOffset"`
	TimeOfStart int64  `json:"timeOfStart"`
	TimeOfEnd   int64  `json:"timeOfEnd"`
}

// StaticMapping is what a broker knows of a static topic (TopicQueueMappingDetail).
type StaticMapping struct {
	Topic       string                  `json:"topic"`
	Scope       string                  `json:"scope"`
	TotalQueues int32                   `json:"totalQueues"`
	Broker      string                  `json:"bname"`
	Epoch       int64                   `json:"epoch"`
	Dirty       bool                    `json:"dirty"`
	Hosted      map[int32][]StaticQueue `json:"hostedQueues"` // by logical queue
}

// StaticTopic is a static topic at one broker (TopicConfigAndQueueMapping).
type StaticTopic struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int               `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
	Mapping         *StaticMapping    `json:"mappingDetail"` // nil: an ordinary topic
}

// StaticTopic reads a topic with its mapping (351); *NotFound when the broker has none.
func (c *Client) StaticTopic(ctx context.Context, addr, name string) (*StaticTopic, error) {
	t := StaticTopic{Perm: topic.PermRead | topic.PermWrite}
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetTopicConfig, ext: remoting.Map{"topic": name, "lo": "true"}}, &t)
	if err != nil {
		return nil, orNotFound(err, remoting.CodeTopicNotExist, "topic", name)
	}
	return &t, nil
}

// PutStaticTopic creates or replaces a static topic at one broker (513).
func (c *Client) PutStaticTopic(ctx context.Context, addr string, t *StaticTopic, force bool) error {
	body, err := marshal(t.Mapping)
	if err != nil {
		return err
	}
	filter := t.TopicFilterType
	if filter == "" {
		filter = topic.SingleTag
	}
	_, err = c.call(ctx, addr, request{code: remoting.ReqUpdateAndCreateStaticTopic, write: true, body: body, ext: remoting.Map{
		"topic":           t.TopicName,
		"defaultTopic":    topic.AutoCreate,
		"readQueueNums":   strconv.Itoa(int(t.ReadQueueNums)),
		"writeQueueNums":  strconv.Itoa(int(t.WriteQueueNums)),
		"perm":            strconv.Itoa(t.Perm),
		"topicFilterType": filter,
		"topicSysFlag":    strconv.Itoa(int(t.TopicSysFlag)),
		"order":           strconv.FormatBool(t.Order),
		"force":           strconv.FormatBool(force),
	}})
	return err
}
