package cli

import (
	"context"
	"fmt"
	"strings"

	"mqctl/cli/admin"
)

// messageTrack is what became of a message in one group that reads its topic.
type messageTrack struct {
	Group string  `json:"group"`
	State string  `json:"state" enum:"CONSUMED|CONSUMED_BUT_FILTERED|PULL|NOT_CONSUME_YET|NOT_ONLINE|CONSUME_BROADCASTING|UNKNOWN"`
	Why   *string `json:"why"`
}

// oldText is mqadmin's form (MessageTrack.toString).
func (t messageTrack) oldText() string {
	why := "null"
	if t.Why != nil {
		why = *t.Why
	}
	return fmt.Sprintf("MessageTrack [consumerGroup=%s, trackType=%s, exceptionDesc=%s]", t.Group, t.State, why)
}

// tracks asks every group that reads the message's topic whether it is past it.
func (c *call) tracks(ctx context.Context, it *messageItem) []messageTrack {
	out := []messageTrack{}
	targets, err := c.routeTargets(ctx, it.Topic)
	if err != nil {
		return out
	}
	groups := map[string]bool{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) ([]string, error) {
		return c.client.TopicConsumers(ctx, t.Addr, it.Topic)
	}) {
		for _, g := range res.Value {
			groups[g] = true
		}
	}
	for _, g := range sortedKeys(groups) {
		t := messageTrack{Group: g, State: "UNKNOWN"}
		if err := c.trackIn(ctx, it, targets, &t); err != nil {
			t.Why = ptr(oneLine(asMessage(c.explain(err)).Text))
		}
		out = append(out, t)
	}
	return out
}

// trackIn judges one group by its members, its progress and its subscription.
func (c *call) trackIn(ctx context.Context, it *messageItem, targets []admin.Target, t *messageTrack) error {
	var members *admin.ConsumerConnections
	consumed := false
	for _, res := range admin.Each(ctx, c.client, 0, targets, c.progressAt(t.Group, it.Topic)) {
		if res.Err != nil {
			return res.Err
		}
		if res.Value.members != nil {
			members = res.Value.members
		}
		if res.Value.stats == nil {
			continue
		}
		for q, p := range res.Value.stats.Queues {
			if q.Topic == it.Topic && q.ID == it.QueueID && (it.Broker == nil || q.Broker == *it.Broker) && c.stores(res.Target, it) {
				consumed = consumed || p.ConsumerOffset > it.QueueOffset
			}
		}
	}
	switch {
	case members == nil:
		t.State = "NOT_ONLINE"
	case members.ConsumeType != "CONSUME_PASSIVELY":
		t.State = "PULL"
	case members.MessageModel == "BROADCASTING":
		t.State = "CONSUME_BROADCASTING"
	case !consumed:
		t.State = "NOT_CONSUME_YET"
	default:
		t.State = "CONSUMED"
		if s, ok := members.Subscriptions[it.Topic]; ok && !subscribed(s, it) {
			t.State = "CONSUMED_BUT_FILTERED"
		}
	}
	return nil
}

// stores reports whether the message can lie at a broker: when its name is not
// known, by the address in its id.
func (c *call) stores(t admin.Target, it *messageItem) bool {
	return it.Broker != nil || t.Addr == it.StoreHost
}

// subscribed reports whether a subscription by tags takes a message; other kinds
// of expression cannot be judged from here and count as yes.
func subscribed(s admin.Subscription, it *messageItem) bool {
	if s.ExpressionType != "" && s.ExpressionType != "TAG" || s.SubString == "" || s.SubString == "*" || len(s.Tags) == 0 {
		return true
	}
	if it.Tags == nil {
		return false
	}
	for _, tag := range s.Tags {
		if tag == strings.TrimSpace(*it.Tags) {
			return true
		}
	}
	return false
}
