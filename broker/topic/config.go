package topic

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Permission bits of a topic (PermName). A topic of permission 6 is read and
// written; 7 serves as a template for new topics besides.
const (
	PermInherit = 1
	PermWrite   = 2
	PermRead    = 4

	permMax = 7 // the priority bit (8) has no meaning in a broker of this version
)

// MaxQueues bounds the queues of a topic. RocketMQ sets no bound and walks all
// queues of a topic in several requests.
const MaxQueues = 65536

// Filter types of a topic (TopicFilterType).
const (
	SingleTag = "SINGLE_TAG"
	MultiTag  = "MULTI_TAG"
)

// Config is one topic's settings under the names of the wire and of
// topics.json, in their order.
type Config struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int               `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// Defaults is a topic as RocketMQ's class TopicConfig starts out: 16 queues,
// read and written.
func Defaults(name string) Config {
	return Config{
		Attributes:      map[string]string{},
		Perm:            PermRead | PermWrite,
		ReadQueueNums:   16,
		WriteQueueNums:  16,
		TopicFilterType: SingleTag,
		TopicName:       name,
	}
}

// UnmarshalJSON leaves what the text does not mention at its default, as
// fastjson does.
func (c *Config) UnmarshalJSON(b []byte) error {
	type plain Config
	p := plain(Defaults(""))
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if p.Attributes == nil {
		p.Attributes = map[string]string{}
	}
	*c = Config(p)
	return nil
}

// Validate checks the numbers and the filter type, not the name. A violation
// is a *RuleError.
func (c Config) Validate() error {
	switch {
	case c.ReadQueueNums < 0 || c.ReadQueueNums > MaxQueues:
		return invalid("readQueueNums is %d, it must be between 0 and %d", c.ReadQueueNums, MaxQueues)
	case c.WriteQueueNums < 0 || c.WriteQueueNums > MaxQueues:
		return invalid("writeQueueNums is %d, it must be between 0 and %d", c.WriteQueueNums, MaxQueues)
	case c.Perm < 0 || c.Perm > permMax:
		return invalid("perm is %d, it must be between 0 and %d (4 read, 2 write, 1 inherit)", c.Perm, permMax)
	case c.TopicFilterType != SingleTag && c.TopicFilterType != MultiTag:
		return invalid("topicFilterType is %q, it must be %s or %s", c.TopicFilterType, SingleTag, MultiTag)
	}
	return nil
}

// sanitize brings a config that was read from a file into the range the
// broker's arithmetic relies on. Files are not refused for a number.
func (c Config) sanitize(name string) Config {
	c.TopicName = name
	c.ReadQueueNums = min(max(c.ReadQueueNums, 0), MaxQueues)
	c.WriteQueueNums = min(max(c.WriteQueueNums, 0), MaxQueues)
	if c.TopicFilterType != MultiTag {
		c.TopicFilterType = SingleTag
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	return c
}

// Equal reports whether two configs say the same.
func (c Config) Equal(o Config) bool {
	return c.Order == o.Order && c.Perm == o.Perm && c.ReadQueueNums == o.ReadQueueNums &&
		c.WriteQueueNums == o.WriteQueueNums && c.TopicFilterType == o.TopicFilterType &&
		c.TopicName == o.TopicName && c.TopicSysFlag == o.TopicSysFlag && maps.Equal(c.Attributes, o.Attributes)
}

// Response codes of a RuleError.
const (
	codeSystemError      = 1
	codeInvalidParameter = 29
)

// RuleError is a change of a topic that the rules refuse.
type RuleError struct {
	Code int // response code of the wire
	Text string
}

// Error is the remark of the response.
func (e *RuleError) Error() string { return e.Text }

func invalid(format string, args ...any) *RuleError {
	return &RuleError{Code: codeInvalidParameter, Text: fmt.Sprintf(format, args...)}
}

func refused(format string, args ...any) *RuleError {
	return &RuleError{Code: codeSystemError, Text: fmt.Sprintf(format, args...)}
}
