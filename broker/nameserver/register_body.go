package nameserver

import (
	"strings"

	"mqctl/broker/remoting/body"
)

// versionBody is the protocol version (V3_0_11) from which on the body of 103 is
// a RegisterBrokerBody; before, it was the topics alone.
const versionBody = 37

// tables are what a registration's body says.
type tables struct {
	version  body.DataVersion
	topics   []body.TopicConfig
	mappings []body.TopicQueueMappingInfo
	dropped  []string // names of topics that cannot be served
}

// parseRegister reads the body of 103; a broker may register without one.
func parseRegister(b []byte, version int) (tables, error) {
	if len(b) == 0 {
		return tables{}, nil
	}
	if version < versionBody {
		w, err := body.DecodeTopicConfigTable(b)
		if err != nil {
			return tables{}, err
		}
		return sift(w), nil
	}
	r, err := body.DecodeRegisterBroker(b, version)
	if err != nil {
		return tables{}, err
	}
	return sift(&r.TopicConfigSerializeWrapper), nil
}

// sift keeps the topics that clients can be told about. A single odd name must
// not cost a broker its registration, so it is left out.
func sift(w *body.TopicConfigAndMappingSerializeWrapper) tables {
	t := tables{version: w.DataVersion, topics: make([]body.TopicConfig, 0, len(w.TopicConfigTable))}
	for name, c := range w.TopicConfigTable {
		if c.TopicName == "" {
			c.TopicName = name
		}
		if !validText(c.TopicName, maxTopicBytes) || !validQueues(c.ReadQueueNums) || !validQueues(c.WriteQueueNums) {
			t.dropped = append(t.dropped, c.TopicName)
			continue
		}
		t.topics = append(t.topics, c)
	}
	for name, m := range w.TopicQueueMappingInfoMap {
		if m.Topic == "" {
			m.Topic = name
		}
		if validText(m.Topic, maxTopicBytes) && validText(m.BrokerName, maxNameBytes) {
			t.mappings = append(t.mappings, m)
		}
	}
	return t
}

// count is how many topics the body has, those left out included.
func (t *tables) count() int { return len(t.topics) + len(t.dropped) }

func validQueues(n int32) bool { return n >= 0 && n <= maxQueues }

// validText: names become part of JSON that hand-written parsers split at
// commas, colons and braces (the Go client does), so none of these can be in them.
func validText(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r == 0x7F || r == 0xFFFD || strings.ContainsRune(`,:;{}[]"\`, r) {
			return false
		}
	}
	return true
}
