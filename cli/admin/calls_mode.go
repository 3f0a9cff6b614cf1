package admin

import (
	"context"
	"strconv"

	"mqctl/broker/remoting"
)

// RequestMode is how a group takes the messages of a topic: it pulls or pops
// them (SetMessageRequestModeRequestBody).
type RequestMode struct {
	Topic       string `json:"topic"`
	Group       string `json:"consumerGroup"`
	Mode        string `json:"mode"`             // PULL or POP
	ShareQueues int32  `json:"popShareQueueNum"` // how many other clients share a queue
}

// RequestModes are the modes that a broker has stored (402), by topic and group.
func (c *Client) RequestModes(ctx context.Context, addr string) (map[string]map[string]RequestMode, error) {
	var v struct {
		Modes map[string]map[string]RequestMode `json:"messageRequestModeMap"`
	}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetAllMessageRequestMode}, &v); err != nil {
		return nil, err
	}
	return v.Modes, nil
}

// PutRequestMode stores a mode at one broker (401); *NotFound when the broker has
// no such topic or group.
func (c *Client) PutRequestMode(ctx context.Context, addr string, m RequestMode) error {
	body, err := marshal(m)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, addr, request{code: remoting.ReqSetMessageRequestMode, body: body, write: true})
	err = orNotFound(err, remoting.CodeTopicNotExist, "topic", m.Topic)
	return orNotFound(err, remoting.CodeSubscriptionGroupNotExist, "group", m.Group)
}

// QueueEntry is one entry of a consume queue.
type QueueEntry struct {
	PhysOffset int64  `json:"physicOffset"`
	Size       int32  `json:"physicSize"` // bytes
	TagsCode   int64  `json:"tagsCode"`
	Extension  string `json:"extendDataJson"`
	BitMap     string `json:"bitMap"`
	Matched    bool   `json:"eval"`
	Message    string `json:"msg"` // why an entry could not be judged
}

// QueueEntries are entries of a consume queue and its bounds (321).
type QueueEntries struct {
	Subscription *Subscription `json:"subscriptionData"`
	Filter       string        `json:"filterData"`
	Min          int64         `json:"minQueueIndex"`
	Max          int64         `json:"maxQueueIndex"` // next to be written
	Entries      []QueueEntry  `json:"queueData"`
}

// QueueEntries reads count entries of a consume queue from index on (321); with a
// group the broker says which of them its subscription takes.
func (c *Client) QueueEntries(ctx context.Context, addr, topic string, queue int32, index int64, count int, group string) (*QueueEntries, error) {
	ext := queueExt(topic, queue)
	ext["index"], ext["count"] = strconv.FormatInt(index, 10), strconv.Itoa(count)
	if group != "" {
		ext["consumerGroup"] = group
	}
	var v QueueEntries
	resp, err := c.call(ctx, addr, request{code: remoting.ReqQueryConsumeQueue, ext: ext})
	if err != nil {
		return nil, orNotFoundText(err, "is not exist", "queue", topic)
	}
	if len(resp.Body) == 0 { // Apache's answer when the index is outside of the queue
		if v.Min, err = c.MinOffset(ctx, addr, topic, queue); err == nil {
			v.Max, err = c.MaxOffset(ctx, addr, topic, queue)
		}
		return &v, err
	}
	err = decode(addr, remoting.ReqQueryConsumeQueue, resp.Body, &v)
	return &v, err
}
