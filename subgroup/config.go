package subgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mqctl/store/fastjson"
)

// Kinds of a RetryPolicy (GroupRetryPolicyType).
const (
	CustomizedRetry  = "CUSTOMIZED"
	ExponentialRetry = "EXPONENTIAL"
)

// RetryPolicy says how long 5.x clients wait between attempts
// (GroupRetryPolicy).
type RetryPolicy struct {
	CustomizedRetryPolicy  *CustomizedRetryPolicy  `json:"customizedRetryPolicy,omitempty"`
	ExponentialRetryPolicy *ExponentialRetryPolicy `json:"exponentialRetryPolicy,omitempty"`
	Type                   string                  `json:"type"`
}

// CustomizedRetryPolicy lists the waits, in milliseconds.
type CustomizedRetryPolicy struct {
	Next []int64 `json:"next"`
}

// ExponentialRetryPolicy multiplies the wait, from Initial up to Max
// milliseconds.
type ExponentialRetryPolicy struct {
	Initial    int64 `json:"initial"`
	Max        int64 `json:"max"`
	Multiplier int64 `json:"multiplier"`
}

// SimpleSubscription is a subscription that is set with the group instead of
// being learned from heartbeats.
type SimpleSubscription struct {
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
	Topic          string `json:"topic"`
	Version        int64  `json:"version"`
}

// Config is one group's settings under the names of the wire and of
// subscriptionGroup.json, in their order (SubscriptionGroupConfig).
type Config struct {
	Attributes                     map[string]string    `json:"attributes"`
	BrokerID                       int64                `json:"brokerId"`
	ConsumeBroadcastEnable         bool                 `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool                 `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                 `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool                 `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int                  `json:"consumeTimeoutMinute"`
	GroupName                      string               `json:"groupName"`
	GroupRetryPolicy               RetryPolicy          `json:"groupRetryPolicy"`
	GroupSysFlag                   int32                `json:"groupSysFlag"`
	NotifyConsumerIDsChangedEnable bool                 `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32                `json:"retryMaxTimes"`
	RetryQueueNums                 int32                `json:"retryQueueNums"`
	SubscriptionDataSet            []SimpleSubscription `json:"subscriptionDataSet,omitempty"`
	WhichBrokerWhenConsumeSlowly   int64                `json:"whichBrokerWhenConsumeSlowly"`
}

// Defaults is a group as RocketMQ's class starts out.
func Defaults(name string) Config {
	return Config{
		Attributes:                     map[string]string{},
		ConsumeBroadcastEnable:         true,
		ConsumeEnable:                  true,
		ConsumeFromMinEnable:           true,
		ConsumeTimeoutMinute:           15,
		GroupName:                      name,
		GroupRetryPolicy:               RetryPolicy{Type: CustomizedRetry},
		NotifyConsumerIDsChangedEnable: true,
		RetryMaxTimes:                  16,
		RetryQueueNums:                 1,
		WhichBrokerWhenConsumeSlowly:   1,
	}
}

// DecodeConfig reads the body of code 200. As fastjson does, it leaves missing
// properties at their default, ignores unknown ones, and takes numbers and
// booleans in quotes.
func DecodeConfig(b []byte) (Config, error) {
	var c *Config
	if err := fastjson.Unmarshal(b, &c); err != nil {
		return Config{}, fmt.Errorf("read the settings of a group: %w", err)
	}
	if c == nil {
		return Config{}, errors.New("read the settings of a group: the text is null")
	}
	return *c, nil
}

// UnmarshalJSON reads settings as DecodeConfig describes.
func (c *Config) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	d := Defaults("")
	f := fields{raw: raw}
	f.other("attributes", &d.Attributes)
	f.integer("brokerId", 64, func(n int64) { d.BrokerID = n })
	f.boolean("consumeBroadcastEnable", &d.ConsumeBroadcastEnable)
	f.boolean("consumeEnable", &d.ConsumeEnable)
	f.boolean("consumeFromMinEnable", &d.ConsumeFromMinEnable)
	f.boolean("consumeMessageOrderly", &d.ConsumeMessageOrderly)
	f.integer("consumeTimeoutMinute", 32, func(n int64) { d.ConsumeTimeoutMinute = int(n) })
	f.other("groupName", &d.GroupName)
	f.other("groupRetryPolicy", &d.GroupRetryPolicy)
	f.integer("groupSysFlag", 32, func(n int64) { d.GroupSysFlag = int32(n) })
	f.boolean("notifyConsumerIdsChangedEnable", &d.NotifyConsumerIDsChangedEnable)
	f.integer("retryMaxTimes", 32, func(n int64) { d.RetryMaxTimes = int32(n) })
	f.integer("retryQueueNums", 32, func(n int64) { d.RetryQueueNums = int32(n) })
	f.other("subscriptionDataSet", &d.SubscriptionDataSet)
	f.integer("whichBrokerWhenConsumeSlowly", 64, func(n int64) { d.WhichBrokerWhenConsumeSlowly = n })
	if f.err != nil {
		return f.err
	}
	if d.Attributes == nil {
		d.Attributes = map[string]string{}
	}
	*c = d
	return nil
}

// UnmarshalJSON takes the type by name or by its ordinal, as fastjson does.
func (p *RetryPolicy) UnmarshalJSON(b []byte) error {
	var raw struct {
		CustomizedRetryPolicy  *CustomizedRetryPolicy  `json:"customizedRetryPolicy"`
		ExponentialRetryPolicy *ExponentialRetryPolicy `json:"exponentialRetryPolicy"`
		Type                   json.RawMessage         `json:"type"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	p.CustomizedRetryPolicy, p.ExponentialRetryPolicy = raw.CustomizedRetryPolicy, raw.ExponentialRetryPolicy
	switch kind := unquote(raw.Type); kind {
	case "", "null", CustomizedRetry, "1":
		p.Type = CustomizedRetry
	case ExponentialRetry, "0":
		p.Type = ExponentialRetry
	default:
		return fmt.Errorf("type of a groupRetryPolicy is %s, it must be %s or %s", raw.Type, CustomizedRetry, ExponentialRetry)
	}
	return nil
}

// fields reads members of a JSON object until one is wrong.
type fields struct {
	raw map[string]json.RawMessage
	err error
}

// value is the text of a member, and whether there is one that is not null.
func (f *fields) value(name string) (json.RawMessage, bool) {
	v, ok := f.raw[name]
	return v, ok && f.err == nil && string(v) != "null"
}

func (f *fields) integer(name string, bits int, set func(int64)) {
	v, ok := f.value(name)
	if !ok {
		return
	}
	n, err := strconv.ParseInt(unquote(v), 10, bits)
	if err != nil {
		f.err = fmt.Errorf("%s is %s, it must be a whole number of %d bits", name, v, bits)
		return
	}
	set(n)
}

func (f *fields) boolean(name string, b *bool) {
	v, ok := f.value(name)
	if !ok {
		return
	}
	switch unquote(v) {
	case "true", "1":
		*b = true
	case "false", "0":
		*b = false
	default:
		f.err = fmt.Errorf("%s is %s, it must be true or false", name, v)
	}
}

func (f *fields) other(name string, to any) {
	v, ok := f.value(name)
	if !ok {
		return
	}
	if err := json.Unmarshal(v, to); err != nil {
		f.err = fmt.Errorf("%s: %w", name, err)
	}
}

// unquote strips the quotes of a simple JSON string.
func unquote(v json.RawMessage) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	return string(v)
}

// RuleError is a setting that the rules refuse (code 29).
type RuleError struct{ Text string }

// Error is the remark of the response.
func (e *RuleError) Error() string { return e.Text }

func invalid(format string, args ...any) *RuleError {
	return &RuleError{Text: fmt.Sprintf(format, args...)}
}

const (
	maxGroupName   = 120
	maxRetryQueues = 1024 // RocketMQ sets no bound; more retry queues than this serve nobody
)

// CheckName returns nil for a legal group name, else a *RuleError whose text is
// the remark: characters [%|a-zA-Z0-9_-], at most 120 of them, so that the
// names of its retry and dead-letter topics fit.
func CheckName(name string) error {
	if name == "" {
		return invalid("The specified group is blank.")
	}
	for i := range len(name) {
		if !legal[name[i]] {
			return invalid("The specified group contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$")
		}
	}
	if len(name) > maxGroupName {
		return invalid("The specified group is longer than group max length %d.", maxGroupName)
	}
	return nil
}

// legal marks the bytes of group names.
var legal = func() (t [256]bool) {
	for _, c := range []byte("%|_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
		t[c] = true
	}
	return t
}()

// Validate checks ranges, not the name. A violation is a *RuleError.
func (c Config) Validate() error {
	switch {
	case c.BrokerID < 0:
		return invalid("brokerId is %d, it must be 0 (the master) or more", c.BrokerID)
	case c.WhichBrokerWhenConsumeSlowly < 0:
		return invalid("whichBrokerWhenConsumeSlowly is %d, it must be 0 (the master) or more", c.WhichBrokerWhenConsumeSlowly)
	case c.RetryQueueNums < 0 || c.RetryQueueNums > maxRetryQueues:
		return invalid("retryQueueNums is %d, it must be between 0 (failed messages are dropped) and %d", c.RetryQueueNums, maxRetryQueues)
	case c.RetryMaxTimes < -1:
		return invalid("retryMaxTimes is %d, it must be 0 or more, or -1", c.RetryMaxTimes)
	case c.ConsumeTimeoutMinute < 0:
		return invalid("consumeTimeoutMinute is %d, it must not be negative", c.ConsumeTimeoutMinute)
	case len(c.Attributes) > 0:
		return invalid("groups have no attributes in this version, leave attributes empty")
	}
	return c.GroupRetryPolicy.validate()
}

func (p RetryPolicy) validate() error {
	if p.Type != CustomizedRetry && p.Type != ExponentialRetry {
		return invalid("type of groupRetryPolicy is %q, it must be %s or %s", p.Type, CustomizedRetry, ExponentialRetry)
	}
	if c := p.CustomizedRetryPolicy; c != nil {
		for _, ms := range c.Next {
			if ms < 0 {
				return invalid("groupRetryPolicy has a wait of %d ms, waits must not be negative", ms)
			}
		}
	}
	if e := p.ExponentialRetryPolicy; e != nil && (e.Initial < 0 || e.Max < e.Initial || e.Multiplier < 1) {
		return invalid("groupRetryPolicy needs 0 <= initial <= max and multiplier >= 1, it has %d, %d and %d", e.Initial, e.Max, e.Multiplier)
	}
	return nil
}

// Equal reports whether two configs say the same.
func (c Config) Equal(o Config) bool {
	return c.BrokerID == o.BrokerID && c.ConsumeBroadcastEnable == o.ConsumeBroadcastEnable &&
		c.ConsumeEnable == o.ConsumeEnable && c.ConsumeFromMinEnable == o.ConsumeFromMinEnable &&
		c.ConsumeMessageOrderly == o.ConsumeMessageOrderly && c.ConsumeTimeoutMinute == o.ConsumeTimeoutMinute &&
		c.GroupName == o.GroupName && c.GroupRetryPolicy.equal(o.GroupRetryPolicy) && c.GroupSysFlag == o.GroupSysFlag &&
		c.NotifyConsumerIDsChangedEnable == o.NotifyConsumerIDsChangedEnable && c.RetryMaxTimes == o.RetryMaxTimes &&
		c.RetryQueueNums == o.RetryQueueNums && c.WhichBrokerWhenConsumeSlowly == o.WhichBrokerWhenConsumeSlowly &&
		slices.Equal(c.SubscriptionDataSet, o.SubscriptionDataSet) && maps.Equal(c.Attributes, o.Attributes)
}

func (p RetryPolicy) equal(o RetryPolicy) bool {
	if p.Type != o.Type || (p.CustomizedRetryPolicy == nil) != (o.CustomizedRetryPolicy == nil) ||
		(p.ExponentialRetryPolicy == nil) != (o.ExponentialRetryPolicy == nil) {
		return false
	}
	if p.CustomizedRetryPolicy != nil && !slices.Equal(p.CustomizedRetryPolicy.Next, o.CustomizedRetryPolicy.Next) {
		return false
	}
	return p.ExponentialRetryPolicy == nil || *p.ExponentialRetryPolicy == *o.ExponentialRetryPolicy
}
