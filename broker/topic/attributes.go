package topic

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Names of topic attributes (TopicAttributes).
const (
	attrQueueType   = "queue.type"
	attrCleanup     = "cleanup.policy"
	attrMessageType = "message.type"
	attrReserve     = "reserve.time"

	batchQueues = "BatchCQ"
)

// attribute says what an attribute may hold.
type attribute struct {
	values  []string // allowed
	missing []string // known to RocketMQ, of a feature this broker lacks
	fixed   bool     // set at creation only
}

// attributes are those of RocketMQ 5.3.3. reserve.time is handled apart: it
// needs tiered storage, without which RocketMQ refuses it too.
func attributes(name string) (attribute, bool) {
	switch name {
	case attrQueueType:
		return attribute{values: []string{"SimpleCQ", batchQueues}, fixed: true}, true
	case attrCleanup:
		return attribute{values: []string{"DELETE"}, missing: []string{"COMPACTION"}, fixed: true}, true
	case attrMessageType:
		return attribute{values: []string{"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}}, true
	}
	return attribute{}, false
}

// ParseAttributes reads the attribute changes of code 17: a comma list of
// +key=value and -key. Keys keep their sign, as in the body of code 18.
func ParseAttributes(text string) (map[string]string, error) {
	changes := map[string]string{}
	if strings.TrimSpace(text) == "" {
		return changes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, assigns := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case len(key) < 2 || (key[0] != '+' && key[0] != '-'):
			return nil, refused("attribute change %q: write +key=value to set and -key to remove", part)
		case key[0] == '+' && (!assigns || value == ""):
			return nil, refused("attribute change %q: a value is missing, write +key=value", part)
		case key[0] == '-' && assigns:
			return nil, refused("attribute change %q: a removal takes no value, write -key", part)
		}
		if _, twice := changes[key]; twice {
			return nil, refused("attribute %q is changed twice", key[1:])
		}
		changes[key] = value
	}
	return changes, nil
}

// signed reports whether keys carry the signs of a change.
func signed(m map[string]string) bool {
	for k := range m {
		if k != "" && (k[0] == '+' || k[0] == '-') {
			return true
		}
	}
	return false
}

// alterAttributes applies changes to the attributes of a topic; current is nil
// for a topic that is being made.
func (t *Table) alterAttributes(current *Config, changes map[string]string) (map[string]string, error) {
	after := map[string]string{}
	if current != nil {
		maps.Copy(after, current.Attributes)
	}
	for key, value := range changes {
		if key == "" || (key[0] != '+' && key[0] != '-') {
			return nil, refused("attribute %q: write +key=value to set and -key to remove", key)
		}
		name := key[1:]
		_, other := changes[map[byte]string{'+': "-", '-': "+"}[key[0]]+name]
		if other {
			return nil, refused("attribute %q is changed twice", name)
		}
		old, has := after[name]
		if key[0] == '+' {
			if err := t.checkAttribute(name, value, current != nil, has && old == value); err != nil {
				return nil, err
			}
			after[name] = value
			continue
		}
		if err := checkRemoval(name, current != nil, has); err != nil {
			return nil, err
		}
		delete(after, name)
	}
	return after, nil
}

// replaceAttributes checks a whole set of attributes against the current one.
func (t *Table) replaceAttributes(current *Config, want map[string]string) error {
	var old map[string]string
	if current != nil {
		old = current.Attributes
	}
	for name, value := range want {
		if was, has := old[name]; has && was == value {
			continue
		}
		if err := t.checkAttribute(name, value, current != nil, false); err != nil {
			return err
		}
	}
	for name := range old {
		if _, kept := want[name]; !kept {
			if err := checkRemoval(name, true, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAttribute refuses what may not be set. The same value again is no
// change and always allowed (RocketMQ refuses it for fixed attributes).
func (t *Table) checkAttribute(name, value string, exists, same bool) error {
	if same {
		return nil
	}
	if name == attrReserve {
		return refused("attribute %s needs tiered storage, which this broker does not have", name)
	}
	a, known := attributes(name)
	switch {
	case !known:
		return refused("attribute %q is unknown, known are %s, %s and %s", name, attrMessageType, attrCleanup, attrQueueType)
	case exists && a.fixed:
		return refused("attribute %s cannot change once the topic exists, create another topic for it", name)
	case slices.Contains(a.missing, value):
		return refused("attribute %s=%s is not supported by this broker", name, value)
	case !slices.Contains(a.values, value):
		return refused("attribute %s cannot be %q, it takes %s", name, value, strings.Join(a.values, ", "))
	case name == attrMessageType && value == "MIXED" && (t.o.AllowMixed == nil || !t.o.AllowMixed()):
		return invalid("MIXED message type is not supported.")
	}
	return nil
}

func checkRemoval(name string, exists, has bool) error {
	a, known := attributes(name)
	switch {
	case !exists:
		return refused("attribute %q cannot be removed from a topic that does not exist yet", name)
	case !has:
		return refused("attribute %q is not set, so it cannot be removed", name)
	case known && a.fixed:
		return refused("attribute %s cannot change once the topic exists, create another topic for it", name)
	}
	return nil
}

// Batch says that the topic has batch queues (queue.type=BatchCQ): a client batch is one
// record there.
func (c *Config) Batch() bool { return c.Attributes[attrQueueType] == batchQueues }

// MessageType is the topic's message.type attribute, NORMAL if unset.
func (c *Config) MessageType() string {
	if v := c.Attributes[attrMessageType]; v != "" {
		return v
	}
	return "NORMAL"
}

// String is the config as RocketMQ prints it in remarks, such as that of a
// send to a queue which does not exist.
func (c Config) String() string {
	var b strings.Builder
	b.WriteString("TopicConfig [topicName=" + c.TopicName +
		", readQueueNums=" + strconv.Itoa(int(c.ReadQueueNums)) +
		", writeQueueNums=" + strconv.Itoa(int(c.WriteQueueNums)) +
		", perm=" + permText(c.Perm) +
		", topicFilterType=" + c.TopicFilterType +
		", topicSysFlag=" + strconv.Itoa(int(c.TopicSysFlag)) +
		", order=" + strconv.FormatBool(c.Order) + ", attributes={")
	for i, k := range slices.Sorted(maps.Keys(c.Attributes)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k + "=" + c.Attributes[k])
	}
	b.WriteString("}]")
	return b.String()
}

// permText is PermName's form: R, W and X or a dash for each.
func permText(perm int) string {
	text := []byte("---")
	for i, bit := range []int{PermRead, PermWrite, PermInherit} {
		if perm&bit != 0 {
			text[i] = "RWX"[i]
		}
	}
	return string(text)
}
