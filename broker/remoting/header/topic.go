package header

// Headers of topics of a broker.

import "mqctl/broker/remoting"

// CreateTopic is the header of 17. Attributes is a list of +key=value and -key.
type CreateTopic struct {
	Topic           string
	DefaultTopic    string
	ReadQueueNums   int32
	WriteQueueNums  int32
	Perm            int32
	TopicFilterType string
	TopicSysFlag    int32
	Order           bool
	Attributes      string
	Force           bool
}

func (h *CreateTopic) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("defaultTopic", &h.DefaultTopic, written)
	c.word("readQueueNums", &h.ReadQueueNums, required)
	c.word("writeQueueNums", &h.WriteQueueNums, required)
	c.word("perm", &h.Perm, required)
	c.text("topicFilterType", &h.TopicFilterType, written)
	c.word("topicSysFlag", &h.TopicSysFlag, written)
	c.flag("order", &h.Order, written)
	c.text("attributes", &h.Attributes, optional)
	c.flag("force", &h.Force, optional)
}

// Decode reads a request.
func (h *CreateTopic) Decode(f remoting.Fields) error { return decode("CreateTopic", f, h) }

// EncodeExt writes a request.
func (h *CreateTopic) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetAllTopicConfig is the header of 21; released clients send none and 5.3.3 ignores it.
type GetAllTopicConfig struct {
	TopicSeq    int32
	DataVersion string
	MaxTopicNum int32
}

func (h *GetAllTopicConfig) walk(c *codec) {
	c.word("topicSeq", &h.TopicSeq, optional)
	c.text("dataVersion", &h.DataVersion, optional)
	c.word("maxTopicNum", &h.MaxTopicNum, optional)
}

// Decode reads a request.
func (h *GetAllTopicConfig) Decode(f remoting.Fields) error { return decode("GetAllTopicConfig", f, h) }

// EncodeExt writes a request.
func (h *GetAllTopicConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetTopicConfig is the header of 351.
type GetTopicConfig struct {
	Topic string
	Lo    bool
}

func (h *GetTopicConfig) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.flag("lo", &h.Lo, optional)
}

// Decode reads a request.
func (h *GetTopicConfig) Decode(f remoting.Fields) error { return decode("GetTopicConfig", f, h) }

// EncodeExt writes a request.
func (h *GetTopicConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetTopicStats is the header of 202.
type GetTopicStats struct {
	Topic string
}

func (h *GetTopicStats) walk(c *codec) {
	c.text("topic", &h.Topic, required)
}

// Decode reads a request.
func (h *GetTopicStats) Decode(f remoting.Fields) error { return decode("GetTopicStats", f, h) }

// EncodeExt writes a request.
func (h *GetTopicStats) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// DeleteTopic is the header of 215.
type DeleteTopic struct {
	Topic string
}

func (h *DeleteTopic) walk(c *codec) {
	c.text("topic", &h.Topic, required)
}

// Decode reads a request.
func (h *DeleteTopic) Decode(f remoting.Fields) error { return decode("DeleteTopic", f, h) }

// EncodeExt writes a request.
func (h *DeleteTopic) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryTopicConsumeByWho is the header of 300.
type QueryTopicConsumeByWho struct {
	Topic string
}

func (h *QueryTopicConsumeByWho) walk(c *codec) {
	c.text("topic", &h.Topic, required)
}

// Decode reads a request.
func (h *QueryTopicConsumeByWho) Decode(f remoting.Fields) error {
	return decode("QueryTopicConsumeByWho", f, h)
}

// EncodeExt writes a request.
func (h *QueryTopicConsumeByWho) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
