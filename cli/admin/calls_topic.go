package admin

import (
	"context"
	"encoding/json"
	"strconv"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/table"
)

// Queue names one queue. As a map key in JSON it is the object literal that
// Java writes there; no answer that is read here has one as a value.
type Queue struct {
	Topic  string `json:"topic"`
	Broker string `json:"brokerName"`
	ID     int32  `json:"queueId"`
}

// UnmarshalText reads the object literal of a map key.
func (q *Queue) UnmarshalText(b []byte) error {
	type plain Queue
	return json.Unmarshal(b, (*plain)(q))
}

// PutTopic creates or replaces a topic at one broker (17). attributes are
// changes like "+message.type=FIFO,-other"; c.Attributes is not sent.
func (c *Client) PutTopic(ctx context.Context, addr string, t topic.Config, attributes string) error {
	filter := t.TopicFilterType
	if filter == "" {
		filter = "SINGLE_TAG"
	}
	_, err := c.call(ctx, addr, request{code: remoting.ReqUpdateAndCreateTopic, write: true, ext: remoting.Map{
		"topic":           t.TopicName,
		"defaultTopic":    topic.AutoCreate,
		"readQueueNums":   strconv.Itoa(int(t.ReadQueueNums)),
		"writeQueueNums":  strconv.Itoa(int(t.WriteQueueNums)),
		"perm":            strconv.Itoa(t.Perm),
		"topicFilterType": filter,
		"topicSysFlag":    strconv.Itoa(int(t.TopicSysFlag)),
		"order":           strconv.FormatBool(t.Order),
		"attributes":      attributes,
		"force":           "false",
	}})
	return err
}

// PutTopics creates or replaces many topics at one broker in one request (18), which
// brokers before 5.3 do not know. Their Attributes are changes, +key and a value or
// -key and nothing. Of an error it is not known how many were taken.
func (c *Client) PutTopics(ctx context.Context, addr string, topics []topic.Config) error {
	body, err := marshal(struct {
		Topics []topic.Config `json:"topicConfigList"`
	}{topics})
	if err != nil {
		return err
	}
	_, err = c.call(ctx, addr, request{code: remoting.ReqUpdateAndCreateTopicList, body: body, write: true})
	return err
}

// TopicConfigs are all topics of a broker (21) and the version of its table.
func (c *Client) TopicConfigs(ctx context.Context, addr string) (map[string]topic.Config, table.DataVersion, error) {
	var b struct {
		Version table.DataVersion          `json:"dataVersion"`
		Topics  map[string]json.RawMessage `json:"topicConfigTable"`
	}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetAllTopicConfig}, &b); err != nil {
		return nil, table.DataVersion{}, err
	}
	out := make(map[string]topic.Config, len(b.Topics))
	for name, raw := range b.Topics {
		t := topicDefaults(name)
		if err := decode(addr, remoting.ReqGetAllTopicConfig, raw, &t); err != nil {
			return nil, table.DataVersion{}, err
		}
		out[name] = t
	}
	return out, b.Version, nil
}

// topicDefaults are the values of a TopicConfig whose JSON leaves a property out (TopicConfig.java).
func topicDefaults(name string) topic.Config {
	return topic.Config{TopicName: name, Perm: topic.PermRead | topic.PermWrite,
		ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: "SINGLE_TAG"}
}

// TopicConfig is one topic of a broker (351); *NotFound when it has none of that name.
func (c *Client) TopicConfig(ctx context.Context, addr, name string) (*topic.Config, error) {
	t := topicDefaults(name)
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetTopicConfig, ext: remoting.Map{"topic": name, "lo": "true"}}, &t)
	if err != nil {
		return nil, orNotFound(err, remoting.CodeTopicNotExist, "topic", name)
	}
	return &t, nil
}

// QueueRange is what a broker says of one queue of a topic. Offsets count messages.
type QueueRange struct {
	Min              int64 `json:"minOffset"`
	Max              int64 `json:"maxOffset"` // next to be written
	LastUpdateMillis int64 `json:"lastUpdateTimestamp"`
}

// TopicStats is a broker's part of a topic (202).
type TopicStats struct {
	Queues map[Queue]QueueRange `json:"offsetTable"`
	PutTPS float64              `json:"topicPutTps"` // messages per second
}

// TopicStats asks one broker for its queues of a topic (202).
func (c *Client) TopicStats(ctx context.Context, addr, name string) (*TopicStats, error) {
	var s TopicStats
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetTopicStatsInfo, ext: remoting.Map{"topic": name}}, &s)
	if err != nil {
		return nil, orNotFound(err, remoting.CodeTopicNotExist, "topic", name)
	}
	return &s, nil
}

// DeleteTopic deletes a topic at one broker (215); an unknown topic is no error.
func (c *Client) DeleteTopic(ctx context.Context, addr, name string) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqDeleteTopicInBroker, ext: remoting.Map{"topic": name}, write: true})
	return err
}

// TopicConsumers are the groups that a broker knows for a topic, online or with
// offsets (300); an unknown topic has none.
func (c *Client) TopicConsumers(ctx context.Context, addr, name string) ([]string, error) {
	var l struct {
		Groups []string `json:"groupList"`
	}
	resp, err := c.call(ctx, addr, request{code: remoting.ReqQueryTopicConsumeByWho, ext: remoting.Map{"topic": name}})
	if err != nil || len(resp.Body) == 0 {
		return nil, err
	}
	err = decode(addr, remoting.ReqQueryTopicConsumeByWho, resp.Body, &l)
	return l.Groups, err
}

// SystemTopicsAt are the topics that a broker made for itself (305), sorted.
func (c *Client) SystemTopicsAt(ctx context.Context, addr string) ([]string, error) {
	l, err := c.names(ctx, addr, request{code: remoting.ReqGetSystemTopicListFromBroker})
	return l.Topics, err
}
