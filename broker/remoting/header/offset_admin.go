package header

// Headers of queue offsets and stored messages.

import "mqctl/broker/remoting"

// SearchOffset is the header of SEARCH_OFFSET_BY_TIMESTAMP (29). BoundaryType is LOWER or UPPER in any case; empty means LOWER.
type SearchOffset struct {
	Topic        string
	QueueID      int32
	Timestamp    int64
	BoundaryType string
}

func (h *SearchOffset) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.word("queueId", &h.QueueID, required)
	c.long("timestamp", &h.Timestamp, required)
	c.text("boundaryType", &h.BoundaryType, optional)
}

// Decode reads a request.
func (h *SearchOffset) Decode(f remoting.Fields) error { return decode("SearchOffset", f, h) }

// EncodeExt writes a request.
func (h *SearchOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetMaxOffset is the header of 30. Committed counts as true when absent.
type GetMaxOffset struct {
	Topic        string
	QueueID      int32
	Committed    bool
	HasCommitted bool
}

func (h *GetMaxOffset) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.word("queueId", &h.QueueID, required)
	c.maybeFlag("committed", &h.Committed, &h.HasCommitted)
}

// Decode reads a request.
func (h *GetMaxOffset) Decode(f remoting.Fields) error { return decode("GetMaxOffset", f, h) }

// EncodeExt writes a request.
func (h *GetMaxOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetMinOffset is the header of 31.
type GetMinOffset struct {
	Topic   string
	QueueID int32
}

func (h *GetMinOffset) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.word("queueId", &h.QueueID, required)
}

// Decode reads a request.
func (h *GetMinOffset) Decode(f remoting.Fields) error { return decode("GetMinOffset", f, h) }

// EncodeExt writes a request.
func (h *GetMinOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetEarliestMsgStoretime is the header of 32.
type GetEarliestMsgStoretime struct {
	Topic   string
	QueueID int32
}

func (h *GetEarliestMsgStoretime) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.word("queueId", &h.QueueID, required)
}

// Decode reads a request.
func (h *GetEarliestMsgStoretime) Decode(f remoting.Fields) error {
	return decode("GetEarliestMsgStoretime", f, h)
}

// EncodeExt writes a request.
func (h *GetEarliestMsgStoretime) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetEarliestMsgStoretimeReply answers 32; -1 when the queue is empty.
type GetEarliestMsgStoretimeReply struct {
	Timestamp int64
}

func (h *GetEarliestMsgStoretimeReply) walk(c *codec) {
	c.long("timestamp", &h.Timestamp, required)
}

// DecodeMap reads an answer.
func (h *GetEarliestMsgStoretimeReply) DecodeMap(m map[string]string) error {
	return decodeMap("GetEarliestMsgStoretimeReply", m, h)
}

// EncodeExt writes an answer.
func (h *GetEarliestMsgStoretimeReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryMessage is the header of 12. Times are in ms; UniqueKeyQuery asks for a UNIQ_KEY.
type QueryMessage struct {
	Topic          string
	Key            string
	MaxNum         int32
	BeginTimestamp int64
	EndTimestamp   int64
	UniqueKeyQuery bool
}

func (h *QueryMessage) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("key", &h.Key, required)
	c.word("maxNum", &h.MaxNum, required)
	c.long("beginTimestamp", &h.BeginTimestamp, required)
	c.long("endTimestamp", &h.EndTimestamp, required)
	c.flag("_UNIQUE_KEY_QUERY", &h.UniqueKeyQuery, optional)
}

// Decode reads a request.
func (h *QueryMessage) Decode(f remoting.Fields) error { return decode("QueryMessage", f, h) }

// EncodeExt writes a request.
func (h *QueryMessage) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryMessageReply answers 12, codes 0 and 22.
type QueryMessageReply struct {
	IndexLastUpdateTimestamp int64
	IndexLastUpdatePhyoffset int64
}

func (h *QueryMessageReply) walk(c *codec) {
	c.long("indexLastUpdateTimestamp", &h.IndexLastUpdateTimestamp, required)
	c.long("indexLastUpdatePhyoffset", &h.IndexLastUpdatePhyoffset, required)
}

// DecodeMap reads an answer.
func (h *QueryMessageReply) DecodeMap(m map[string]string) error {
	return decodeMap("QueryMessageReply", m, h)
}

// EncodeExt writes an answer.
func (h *QueryMessageReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ViewMessage is the header of 33. Offset is a physical offset.
type ViewMessage struct {
	Offset int64
	Topic  string
}

func (h *ViewMessage) walk(c *codec) {
	c.long("offset", &h.Offset, required)
	c.text("topic", &h.Topic, optional)
}

// Decode reads a request.
func (h *ViewMessage) Decode(f remoting.Fields) error { return decode("ViewMessage", f, h) }

// EncodeExt writes a request.
func (h *ViewMessage) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryConsumeQueue is the header of 321.
type QueryConsumeQueue struct {
	Topic         string
	QueueID       int32
	Index         int64
	Count         int32
	ConsumerGroup string
}

func (h *QueryConsumeQueue) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.word("queueId", &h.QueueID, required)
	c.long("index", &h.Index, required)
	c.word("count", &h.Count, required)
	c.text("consumerGroup", &h.ConsumerGroup, optional)
}

// Decode reads a request.
func (h *QueryConsumeQueue) Decode(f remoting.Fields) error { return decode("QueryConsumeQueue", f, h) }

// EncodeExt writes a request.
func (h *QueryConsumeQueue) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
