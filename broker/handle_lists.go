package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/fastjson"
	"mqctl/subgroup"
)

// maxListed bounds the topics or groups of one request 18 or 225.
const maxListed = 100_000

// putList serves 18: many topics in one request and one write of the table. All are
// checked before the first is changed (RocketMQ's broker stops at the first bad one,
// with those before it changed). Attributes are changes, as in 17: +key=value and -key.
func (a *topicAdmin) putList(ctx context.Context, r *remoting.Request) {
	var b struct {
		Topics []json.RawMessage `json:"topicConfigList"`
	}
	if err := fastjson.Unmarshal(r.Body, &b); err != nil || len(b.Topics) > maxListed {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("the body is no list of up to %d topics: %v", maxListed, err), nil, nil)
		return
	}
	list := make([]topic.Config, len(b.Topics))
	for i, raw := range b.Topics {
		c := &list[i]
		*c = topic.Config{ReadQueueNums: 16, WriteQueueNums: 16, Perm: topic.PermRead | topic.PermWrite, TopicFilterType: "SINGLE_TAG"} // TopicConfig.java
		err := fastjson.Unmarshal(raw, c)
		if err == nil {
			err = a.check(c.TopicName)
		}
		if err == nil {
			_, err = topic.ParseAttributes(attributeText(c.Attributes))
		}
		if err != nil {
			refuseList(r, fmt.Errorf("%q: %w", c.TopicName, err))
			return
		}
	}
	changed, err := a.topics.PutAll(list)
	if err != nil {
		refuseList(r, err)
		return
	}
	if changed {
		wait, cancel := context.WithTimeout(ctx, announceWait)
		a.announce(wait)
		cancel()
	}
	r.Reply(remoting.CodeSuccess, notSet, nil, nil)
}

// attributeText writes a map of attribute changes as 17 has them.
func attributeText(changes map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(changes)) {
		if strings.HasPrefix(k, "-") {
			parts = append(parts, k)
			continue
		}
		parts = append(parts, k+"="+changes[k])
	}
	return strings.Join(parts, ",")
}

// refuseList answers with the error of a list.
func refuseList(r *remoting.Request, err error) {
	var ofT *topic.RuleError
	var ofG *subgroup.RuleError
	code := remoting.CodeSystemError
	if errors.As(err, &ofT) {
		code = ofT.Code
	} else if errors.As(err, &ofG) {
		code = remoting.CodeInvalidParameter
	}
	r.Reply(code, err.Error(), nil, nil)
}

// putList serves 225: many groups in one request and one write of the table, all
// checked before the first is changed.
func (a *groupAdmin) putList(_ context.Context, r *remoting.Request) {
	var b struct {
		Groups []json.RawMessage `json:"groupConfigList"`
	}
	if err := fastjson.Unmarshal(r.Body, &b); err != nil || len(b.Groups) > maxListed {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("the body is no list of up to %d groups: %v", maxListed, err), nil, nil)
		return
	}
	list := make([]subgroup.Config, len(b.Groups))
	for i, raw := range b.Groups {
		c, err := subgroup.DecodeConfig(raw)
		if err == nil {
			err = errors.Join(subgroup.CheckName(c.GroupName), c.Validate())
		}
		if err != nil {
			r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("%q: %v", c.GroupName, err), nil, nil)
			return
		}
		list[i] = c
	}
	if err := a.groups.PutAll(list); err != nil {
		refuseList(r, err)
		return
	}
	ok(r)
}

// modeAdmin serves 401. This broker pops nothing itself: it keeps the mode for
// the brokers and clients that ask for it (402), and for the slave that takes over.
type modeAdmin struct {
	modes  *requestModes
	topics *topic.Table
	groups *subgroup.Groups
}

func (a *modeAdmin) put(_ context.Context, r *remoting.Request) {
	var m requestMode
	if err := fastjson.Unmarshal(r.Body, &m); err != nil {
		r.Reply(remoting.CodeInvalidParameter, "the body is no request mode: "+err.Error(), nil, nil)
		return
	}
	switch {
	case strings.HasPrefix(m.Topic, "%RETRY%"):
		r.Reply(remoting.CodeNoPermission, "retry topic is not allowed to set mode", nil, nil)
	case a.topics.Get(m.Topic) == nil:
		r.Reply(remoting.CodeTopicNotExist, fmt.Sprintf("Topic %s does not exist", m.Topic), nil, nil)
	case a.groups.Get(m.Group) == nil:
		r.Reply(remoting.CodeSubscriptionGroupNotExist, fmt.Sprintf("Group %s does not exist", m.Group), nil, nil)
	case m.Mode != "PULL" && m.Mode != "POP":
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("mode %q is neither PULL nor POP", m.Mode), nil, nil)
	case m.ShareQueues < -1:
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("popShareQueueNum %d is below -1", m.ShareQueues), nil, nil)
	default:
		if err := a.modes.Put(m); err != nil {
			refuse(r, err)
			return
		}
		ok(r)
	}
}
