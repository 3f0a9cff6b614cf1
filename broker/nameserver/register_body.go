package nameserver

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/topic"
	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// Protocol versions at which the body changed (MQVersion).
const (
	versionBody    = 37  // V3_0_11: RegisterBrokerBody instead of the topics alone
	versionMapping = 413 // V5_0_0: the compressed body has a part for static topics
)

// maxInflated bounds a compressed body once it is inflated.
const maxInflated = 64 << 20

// mapping is a broker's part of a static topic (TopicQueueMappingInfo).
type mapping struct {
	Broker      string           `json:"bname"`
	CurrentIDs  map[string]int32 `json:"currIdMap"` // logical queue -> queue
	Dirty       bool             `json:"dirty"`
	Epoch       int64            `json:"epoch"`
	Scope       string           `json:"scope"`
	Topic       string           `json:"topic"`
	TotalQueues int32            `json:"totalQueues"`
}

// wireTopic is a TopicConfig whose absent properties take the class's defaults.
type wireTopic struct {
	Perm            *int   `json:"perm"`
	ReadQueueNums   *int32 `json:"readQueueNums"`
	WriteQueueNums  *int32 `json:"writeQueueNums"`
	TopicName       string `json:"topicName"`
	TopicSysFlag    int32  `json:"topicSysFlag"`
	TopicFilterType string `json:"topicFilterType"`
	Order           bool   `json:"order"`
}

type wireWrapper struct {
	Version  table.DataVersion    `json:"dataVersion"`
	Topics   map[string]wireTopic `json:"topicConfigTable"`
	Mappings map[string]mapping   `json:"topicQueueMappingInfoMap"`
}

// tables are what a registration's body says.
type tables struct {
	version  table.DataVersion
	topics   []topic.Config
	mappings []mapping
	dropped  []string // names that cannot be served
}

// parseRegister reads the body of 103. 5.3.3 deflates with compressedRegister=true
// but says compressed=false, so the first byte decides: 'x' begins zlib, and no JSON.
func parseRegister(body []byte, version int, compressed bool) (tables, error) {
	switch {
	case len(body) == 0:
		return tables{}, nil
	case compressed || body[0] == 0x78:
		return parseCompressed(body, version)
	case version < versionBody:
		var w wireWrapper
		if err := fastjson.Unmarshal(body, &w); err != nil {
			return tables{}, err
		}
		return w.tables(), nil
	}
	var b struct {
		Wrapper wireWrapper `json:"topicConfigSerializeWrapper"`
	}
	if err := fastjson.Unmarshal(body, &b); err != nil {
		return tables{}, err
	}
	return b.Wrapper.tables(), nil
}

func (w *wireWrapper) tables() tables {
	t := tables{version: w.Version}
	for name, c := range w.Topics {
		t.add(c.config(name))
	}
	for name, m := range w.Mappings {
		if m.Topic == "" {
			m.Topic = name
		}
		t.addMapping(m)
	}
	return t
}

func (c wireTopic) config(name string) topic.Config {
	out := topic.Config{TopicName: name, Perm: topic.PermRead | topic.PermWrite, ReadQueueNums: 16,
		WriteQueueNums: 16, TopicSysFlag: c.TopicSysFlag, TopicFilterType: c.TopicFilterType, Order: c.Order}
	if c.TopicName != "" {
		out.TopicName = c.TopicName
	}
	if c.Perm != nil {
		out.Perm = *c.Perm
	}
	if c.ReadQueueNums != nil {
		out.ReadQueueNums = *c.ReadQueueNums
	}
	if c.WriteQueueNums != nil {
		out.WriteQueueNums = *c.WriteQueueNums
	}
	return out
}

// add keeps a topic that clients can be told about. A single odd name must not
// cost a broker its registration, so it is left out.
func (t *tables) add(c topic.Config) {
	bad := !validText(c.TopicName, maxTopicBytes) || c.ReadQueueNums < 0 || c.WriteQueueNums < 0 ||
		c.ReadQueueNums > maxQueues || c.WriteQueueNums > maxQueues
	if bad {
		t.dropped = append(t.dropped, c.TopicName)
		return
	}
	t.topics = append(t.topics, c)
}

func (t *tables) addMapping(m mapping) {
	ids := m.CurrentIDs
	for id := range ids {
		if n, err := strconv.Atoi(id); err != nil || strconv.Itoa(n) != id {
			t.dropped = append(t.dropped, m.Topic)
			return
		}
	}
	if validText(m.Topic, maxTopicBytes) && validText(m.Broker, maxNameBytes) && validText(m.Scope, maxNameBytes) {
		t.mappings = append(t.mappings, m)
	}
}

// count is how many topics the body has, those left out included.
func (t *tables) count() int { return len(t.topics) + len(t.dropped) }

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

var errShort = errors.New("the compressed body ends too early")

// parseCompressed reads the deflated layout (RegisterBrokerBody.encode): length
// and JSON of the version; number of topics, each length and text; length and
// JSON of the filter servers; from 5.0 on the number of mappings, each length and JSON.
func parseCompressed(body []byte, version int) (tables, error) {
	z, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return tables{}, fmt.Errorf("compressed body: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxInflated+1))
	if err != nil {
		return tables{}, fmt.Errorf("compressed body: %w", err)
	}
	if len(b) > maxInflated {
		return tables{}, fmt.Errorf("compressed body: more than %d bytes", maxInflated)
	}
	p := parts{rest: b}
	var t tables
	if err := fastjson.Unmarshal(p.next(), &t.version); err != nil || p.err != nil {
		return tables{}, fmt.Errorf("compressed body: version: %w", errors.Join(p.err, err))
	}
	for range p.count() {
		c, err := parseTopicLine(string(p.next()))
		if err = errors.Join(p.err, err); err != nil {
			return tables{}, fmt.Errorf("compressed body: topic: %w", err)
		}
		t.add(c)
	}
	p.next() // the filter servers, which no broker has any more
	if version >= versionMapping && p.err == nil {
		for range p.count() {
			var m mapping
			raw := p.next()
			if p.err != nil {
				break
			}
			if err := fastjson.Unmarshal(raw, &m); err != nil {
				return tables{}, fmt.Errorf("compressed body: mapping: %w", err)
			}
			t.addMapping(m)
		}
	}
	if p.err != nil {
		return tables{}, fmt.Errorf("compressed body: %w", p.err)
	}
	return t, nil
}

// parts cuts length-prefixed parts; after an error everything is empty.
type parts struct {
	rest []byte
	err  error
}

func (p *parts) int() int {
	if p.err == nil && len(p.rest) < 4 {
		p.err = errShort
	}
	if p.err != nil {
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(p.rest)))
	p.rest = p.rest[4:]
	return n
}

// count is a number of parts; each takes at least its length word.
func (p *parts) count() int {
	n := p.int()
	if p.err == nil && (n < 0 || n > len(p.rest)/4) {
		p.err = fmt.Errorf("%d parts cannot be in %d bytes", n, len(p.rest))
		return 0
	}
	return n
}

func (p *parts) next() []byte {
	n := p.int()
	if p.err == nil && (n < 0 || n > len(p.rest)) {
		p.err = fmt.Errorf("a part of %d bytes in %d", n, len(p.rest))
	}
	if p.err != nil {
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

// parseTopicLine reads "name read write perm filter [attributes]" (TopicConfig.encode).
func parseTopicLine(line string) (topic.Config, error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return topic.Config{}, fmt.Errorf("%q has %d of 5 words", line, len(f))
	}
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[1+i], 10, 32); err != nil {
			return topic.Config{}, fmt.Errorf("%q: %w", line, err)
		}
	}
	c := topic.Config{TopicName: f[0], ReadQueueNums: int32(n[0]), WriteQueueNums: int32(n[1]), Perm: int(n[2]), TopicFilterType: f[4]}
	if len(f) == 6 && f[5] != "" {
		if err := json.Unmarshal([]byte(f[5]), &c.Attributes); err != nil {
			return topic.Config{}, fmt.Errorf("%q: attributes: %w", line, err)
		}
	}
	return c, nil
}

// sortedIDs are the keys of a mapping as numbers.
func (m *mapping) sortedIDs() []int {
	ids := make([]int, 0, len(m.CurrentIDs))
	for k := range m.CurrentIDs {
		if id, err := strconv.Atoi(k); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
