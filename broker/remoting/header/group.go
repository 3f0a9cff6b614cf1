package header

// Headers of subscription groups of a broker.

import "mqctl/broker/remoting"

// GetAllSubscriptionGroup is the header of 201; released clients send none and 5.3.3 ignores it.
type GetAllSubscriptionGroup struct {
	GroupSeq    int32
	DataVersion string
	MaxGroupNum int32
}

func (h *GetAllSubscriptionGroup) walk(c *codec) {
	c.word("groupSeq", &h.GroupSeq, optional)
	c.text("dataVersion", &h.DataVersion, optional)
	c.word("maxGroupNum", &h.MaxGroupNum, optional)
}

// Decode reads a request.
func (h *GetAllSubscriptionGroup) Decode(f remoting.Fields) error {
	return decode("GetAllSubscriptionGroup", f, h)
}

// EncodeExt writes a request.
func (h *GetAllSubscriptionGroup) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetSubscriptionGroupConfig is the header of 352.
type GetSubscriptionGroupConfig struct {
	Group string
}

func (h *GetSubscriptionGroupConfig) walk(c *codec) {
	c.text("group", &h.Group, required)
}

// Decode reads a request.
func (h *GetSubscriptionGroupConfig) Decode(f remoting.Fields) error {
	return decode("GetSubscriptionGroupConfig", f, h)
}

// EncodeExt writes a request.
func (h *GetSubscriptionGroupConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// DeleteSubscriptionGroup is the header of 207.
type DeleteSubscriptionGroup struct {
	GroupName   string
	CleanOffset bool
}

func (h *DeleteSubscriptionGroup) walk(c *codec) {
	c.text("groupName", &h.GroupName, required)
	c.flag("cleanOffset", &h.CleanOffset, optional)
}

// Decode reads a request.
func (h *DeleteSubscriptionGroup) Decode(f remoting.Fields) error {
	return decode("DeleteSubscriptionGroup", f, h)
}

// EncodeExt writes a request.
func (h *DeleteSubscriptionGroup) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// UpdateGroupForbidden is the header of 353; without Readable it only asks.
type UpdateGroupForbidden struct {
	Group       string
	Topic       string
	Readable    bool
	HasReadable bool
}

func (h *UpdateGroupForbidden) walk(c *codec) {
	c.text("group", &h.Group, required)
	c.text("topic", &h.Topic, required)
	c.maybeFlag("readable", &h.Readable, &h.HasReadable)
}

// Decode reads a request.
func (h *UpdateGroupForbidden) Decode(f remoting.Fields) error {
	return decode("UpdateGroupForbidden", f, h)
}

// EncodeExt writes a request.
func (h *UpdateGroupForbidden) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumerConnectionList is the header of 203.
type GetConsumerConnectionList struct {
	ConsumerGroup string
}

func (h *GetConsumerConnectionList) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
}

// Decode reads a request.
func (h *GetConsumerConnectionList) Decode(f remoting.Fields) error {
	return decode("GetConsumerConnectionList", f, h)
}

// EncodeExt writes a request.
func (h *GetConsumerConnectionList) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetProducerConnectionList is the header of 204.
type GetProducerConnectionList struct {
	ProducerGroup string
}

func (h *GetProducerConnectionList) walk(c *codec) {
	c.text("producerGroup", &h.ProducerGroup, required)
}

// Decode reads a request.
func (h *GetProducerConnectionList) Decode(f remoting.Fields) error {
	return decode("GetProducerConnectionList", f, h)
}

// EncodeExt writes a request.
func (h *GetProducerConnectionList) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumeStats is the header of 208. TopicList is joined by semicolons.
type GetConsumeStats struct {
	ConsumerGroup string
	Topic         string
	TopicList     string
}

func (h *GetConsumeStats) walk(c *codec) {
	c.text("consumerGroup", &h.ConsumerGroup, required)
	c.text("topic", &h.Topic, optional)
	c.text("topicList", &h.TopicList, optional)
}

// Decode reads a request.
func (h *GetConsumeStats) Decode(f remoting.Fields) error { return decode("GetConsumeStats", f, h) }

// EncodeExt writes a request.
func (h *GetConsumeStats) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetConsumeStatsInBroker is the header of 317.
type GetConsumeStatsInBroker struct {
	Order bool
}

func (h *GetConsumeStatsInBroker) walk(c *codec) {
	c.flag("isOrder", &h.Order, required)
}

// Decode reads a request.
func (h *GetConsumeStatsInBroker) Decode(f remoting.Fields) error {
	return decode("GetConsumeStatsInBroker", f, h)
}

// EncodeExt writes a request.
func (h *GetConsumeStatsInBroker) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryTopicsByConsumer is the header of 343.
type QueryTopicsByConsumer struct {
	Group string
}

func (h *QueryTopicsByConsumer) walk(c *codec) {
	c.text("group", &h.Group, required)
}

// Decode reads a request.
func (h *QueryTopicsByConsumer) Decode(f remoting.Fields) error {
	return decode("QueryTopicsByConsumer", f, h)
}

// EncodeExt writes a request.
func (h *QueryTopicsByConsumer) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QuerySubscriptionByConsumer is the header of 345.
type QuerySubscriptionByConsumer struct {
	Group string
	Topic string
}

func (h *QuerySubscriptionByConsumer) walk(c *codec) {
	c.text("group", &h.Group, required)
	c.text("topic", &h.Topic, optional)
}

// Decode reads a request.
func (h *QuerySubscriptionByConsumer) Decode(f remoting.Fields) error {
	return decode("QuerySubscriptionByConsumer", f, h)
}

// EncodeExt writes a request.
func (h *QuerySubscriptionByConsumer) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryConsumeTimeSpan is the header of 303.
type QueryConsumeTimeSpan struct {
	Topic string
	Group string
}

func (h *QueryConsumeTimeSpan) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("group", &h.Group, required)
}

// Decode reads a request.
func (h *QueryConsumeTimeSpan) Decode(f remoting.Fields) error {
	return decode("QueryConsumeTimeSpan", f, h)
}

// EncodeExt writes a request.
func (h *QueryConsumeTimeSpan) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// CloneGroupOffset is the header of 314.
type CloneGroupOffset struct {
	SrcGroup  string
	DestGroup string
	Topic     string
	Offline   bool
}

func (h *CloneGroupOffset) walk(c *codec) {
	c.text("srcGroup", &h.SrcGroup, required)
	c.text("destGroup", &h.DestGroup, required)
	c.text("topic", &h.Topic, optional)
	c.flag("offline", &h.Offline, optional)
}

// Decode reads a request.
func (h *CloneGroupOffset) Decode(f remoting.Fields) error { return decode("CloneGroupOffset", f, h) }

// EncodeExt writes a request.
func (h *CloneGroupOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
