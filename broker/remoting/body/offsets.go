package body

import (
	"maps"
	"slices"
)

// ConsumerOffsetTable is the answer to 43: offsets by topic@group and queue. What Java
// adds as groupTopicMap follows from it.
type ConsumerOffsetTable struct {
	DataVersion DataVersion                `json:"dataVersion"`
	OffsetTable map[string]map[int32]int64 `json:"offsetTable"`
}

// Encode writes the body, queue numbers raw as Java does.
func (t ConsumerOffsetTable) Encode() []byte {
	b := append([]byte(`{"dataVersion":`), t.DataVersion.Encode()...)
	b = append(b, `,"offsetTable":{`...)
	for i, key := range slices.Sorted(maps.Keys(t.OffsetTable)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIntMap(append(appendText(b, key), ':'), t.OffsetTable[key])
	}
	return append(b, "}}"...)
}

// appendIntMap writes a map with raw integer keys.
func appendIntMap(b []byte, m map[int32]int64) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendLong(b, int64(k)), ':')
		b = appendLong(b, m[k])
	}
	return append(b, '}')
}

// DecodeConsumerOffsetTable reads the body.
func DecodeConsumerOffsetTable(b []byte) (*ConsumerOffsetTable, error) {
	return decode[ConsumerOffsetTable]("consumer offsets", b)
}

// DelayOffsetTable is the answer to 45: offsets by delay level.
type DelayOffsetTable struct {
	DataVersion DataVersion     `json:"dataVersion"`
	OffsetTable map[int32]int64 `json:"offsetTable"`
}

// Encode writes the body, levels raw as Java does.
func (t DelayOffsetTable) Encode() []byte {
	b := append([]byte(`{"dataVersion":`), t.DataVersion.Encode()...)
	b = appendIntMap(append(b, `,"offsetTable":`...), t.OffsetTable)
	return append(b, '}')
}

// DecodeDelayOffsetTable reads the body.
func DecodeDelayOffsetTable(b []byte) (*DelayOffsetTable, error) {
	return decode[DelayOffsetTable]("delay offsets", b)
}
