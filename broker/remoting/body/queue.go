package body

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mqctl/store/fastjson"
)

// MessageQueue names one queue on the wire.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// append writes q as an object literal.
func (q MessageQueue) append(b []byte) []byte {
	b = appendText(append(b, `{"brokerName":`...), q.BrokerName)
	b = strconv.AppendInt(append(b, `,"queueId":`...), int64(q.QueueID), 10)
	b = appendText(append(b, `,"topic":`...), q.Topic)
	return append(b, '}')
}

// compareQueues orders queues by topic, broker and number.
func compareQueues(a, b MessageQueue) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueID, b.QueueID))
}

// appendQueueMap writes a map with queues as raw keys. Without blanks: the Go client
// cuts such maps at literal punctuation.
func appendQueueMap[V any](b []byte, m map[MessageQueue]V, value func([]byte, V) []byte) []byte {
	b = append(b, '{')
	for i, q := range slices.SortedFunc(maps.Keys(m), compareQueues) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(q.append(b), ':')
		b = value(b, m[q])
	}
	return append(b, '}')
}

func appendLong(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

func appendJSON[V any](b []byte, v V) []byte { return append(b, encode(v)...) }

// queueMap reads a map with queues as keys, after fastjson.Clean has made strings of
// them.
type queueMap[V any] map[MessageQueue]V

// UnmarshalJSON reads an object; null gives none.
func (m *queueMap[V]) UnmarshalJSON(b []byte) error {
	var raw map[string]V
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*m = make(queueMap[V], len(raw))
	for k, v := range raw {
		var q MessageQueue
		if err := fastjson.Unmarshal([]byte(k), &q); err != nil {
			return fmt.Errorf("key %.60q is no message queue: %w", k, err)
		}
		(*m)[q] = v
	}
	return nil
}

// TopicOffset is the range of one queue. Timestamp in ms, 0 for an empty queue.
type TopicOffset struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"`
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// TopicStatsTable is the answer to 202.
type TopicStatsTable struct {
	OffsetTable map[MessageQueue]TopicOffset
	TopicPutTPS Double
}

// Encode writes the body.
func (t TopicStatsTable) Encode() []byte {
	b := appendQueueMap([]byte(`{"offsetTable":`), t.OffsetTable, appendJSON[TopicOffset])
	b = appendDouble(append(b, `,"topicPutTps":`...), float64(t.TopicPutTPS))
	return append(b, '}')
}

// DecodeTopicStatsTable reads the body.
func DecodeTopicStatsTable(b []byte) (*TopicStatsTable, error) {
	w, err := decode[struct {
		OffsetTable queueMap[TopicOffset] `json:"offsetTable"`
		TopicPutTPS Double                `json:"topicPutTps"`
	}]("topic stats", b)
	if err != nil {
		return nil, err
	}
	return &TopicStatsTable{OffsetTable: w.OffsetTable, TopicPutTPS: w.TopicPutTPS}, nil
}

// OffsetWrapper is a group's progress in one queue. LastTimestamp is the store time
// in ms of the message consumed last.
type OffsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"`
	PullOffset     int64 `json:"pullOffset"`
}

// ConsumeStats is the answer to 208.
type ConsumeStats struct {
	ConsumeTPS  Double
	OffsetTable map[MessageQueue]OffsetWrapper
}

// Encode writes the body.
func (s ConsumeStats) Encode() []byte { return s.append(nil) }

func (s ConsumeStats) append(b []byte) []byte {
	b = appendDouble(append(b, `{"consumeTps":`...), float64(s.ConsumeTPS))
	b = appendQueueMap(append(b, `,"offsetTable":`...), s.OffsetTable, appendJSON[OffsetWrapper])
	return append(b, '}')
}

// UnmarshalJSON reads cleaned text.
func (s *ConsumeStats) UnmarshalJSON(b []byte) error {
	var w struct {
		ConsumeTPS  Double                  `json:"consumeTps"`
		OffsetTable queueMap[OffsetWrapper] `json:"offsetTable"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = ConsumeStats{ConsumeTPS: w.ConsumeTPS, OffsetTable: w.OffsetTable}
	return nil
}

// DecodeConsumeStats reads the body.
func DecodeConsumeStats(b []byte) (*ConsumeStats, error) {
	return decode[ConsumeStats]("consume stats", b)
}

// BrokerConsumeStats is the answer to 317: per group the stats of each topic.
type BrokerConsumeStats struct {
	BrokerAddr        string                      `json:"brokerAddr"`
	ConsumeStatsList  []map[string][]ConsumeStats `json:"consumeStatsList"`
	TotalDiff         int64                       `json:"totalDiff"`
	TotalInflightDiff int64                       `json:"totalInflightDiff"`
}

// Encode writes the body.
func (s BrokerConsumeStats) Encode() []byte {
	b := appendText([]byte(`{"brokerAddr":`), s.BrokerAddr)
	b = append(b, `,"consumeStatsList":[`...)
	for i, groups := range s.ConsumeStatsList {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		for j, group := range slices.Sorted(maps.Keys(groups)) {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, group), ":["...)
			for k, stats := range groups[group] {
				if k > 0 {
					b = append(b, ',')
				}
				b = stats.append(b)
			}
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	b = appendLong(append(b, `],"totalDiff":`...), s.TotalDiff)
	b = appendLong(append(b, `,"totalInflightDiff":`...), s.TotalInflightDiff)
	return append(b, '}')
}

// DecodeBrokerConsumeStats reads the body.
func DecodeBrokerConsumeStats(b []byte) (*BrokerConsumeStats, error) {
	return decode[BrokerConsumeStats]("consume stats of a broker", b)
}

// ResetOffset is the body of 220 and of the answer to 222. Java and Go clients take
// only raw queues as keys (quoted ones make the Go client panic).
type ResetOffset struct {
	OffsetTable map[MessageQueue]int64
}

// Encode writes the body.
func (r ResetOffset) Encode() []byte {
	return append(appendQueueMap([]byte(`{"offsetTable":`), r.OffsetTable, appendLong), '}')
}

// EncodeCPP writes the form for C++ clients: a list of objects.
func (r ResetOffset) EncodeCPP() []byte {
	b := []byte(`{"offsetTable":[`)
	for i, q := range slices.SortedFunc(maps.Keys(r.OffsetTable), compareQueues) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"brokerName":`...), q.BrokerName)
		b = appendLong(append(b, `,"offset":`...), r.OffsetTable[q])
		b = appendLong(append(b, `,"queueId":`...), int64(q.QueueID))
		b = append(appendText(append(b, `,"topic":`...), q.Topic), '}')
	}
	return append(b, "]}"...)
}

// DecodeResetOffset reads both forms.
func DecodeResetOffset(b []byte) (*ResetOffset, error) {
	w, err := decode[struct {
		OffsetTable json.RawMessage `json:"offsetTable"`
	}]("reset offset", b)
	if err != nil {
		return nil, err
	}
	table := bytes.TrimSpace(w.OffsetTable)
	if len(table) == 0 {
		return &ResetOffset{OffsetTable: map[MessageQueue]int64{}}, nil
	}
	if table[0] != '[' {
		var m queueMap[int64]
		if err := json.Unmarshal(table, &m); err != nil {
			return nil, fmt.Errorf("reset offset: %w", err)
		}
		return &ResetOffset{OffsetTable: m}, nil
	}
	var list []struct {
		MessageQueue
		Offset int64 `json:"offset"`
	}
	if err := json.Unmarshal(table, &list); err != nil {
		return nil, fmt.Errorf("reset offset: %w", err)
	}
	m := make(map[MessageQueue]int64, len(list))
	for _, e := range list {
		m[e.MessageQueue] = e.Offset
	}
	return &ResetOffset{OffsetTable: m}, nil
}

// ConsumerStatus is the answer to 221 (MessageQueueTable) and 223 (ConsumerTable by
// client id).
type ConsumerStatus struct {
	ConsumerTable     map[string]map[MessageQueue]int64
	MessageQueueTable map[MessageQueue]int64
}

// Encode writes the body.
func (s ConsumerStatus) Encode() []byte {
	b := []byte(`{"consumerTable":{`)
	for i, id := range slices.Sorted(maps.Keys(s.ConsumerTable)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueueMap(append(appendText(b, id), ':'), s.ConsumerTable[id], appendLong)
	}
	b = appendQueueMap(append(b, `},"messageQueueTable":`...), s.MessageQueueTable, appendLong)
	return append(b, '}')
}

// DecodeConsumerStatus reads the body.
func DecodeConsumerStatus(b []byte) (*ConsumerStatus, error) {
	w, err := decode[struct {
		ConsumerTable     map[string]queueMap[int64] `json:"consumerTable"`
		MessageQueueTable queueMap[int64]            `json:"messageQueueTable"`
	}]("consumer status", b)
	if err != nil {
		return nil, err
	}
	s := &ConsumerStatus{MessageQueueTable: w.MessageQueueTable, ConsumerTable: map[string]map[MessageQueue]int64{}}
	for id, m := range w.ConsumerTable {
		s.ConsumerTable[id] = m
	}
	return s, nil
}
