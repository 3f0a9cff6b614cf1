package admin

import (
	"context"
	"errors"

	"mqctl/broker/remoting"
)

// ConsumerStatus asks the members of a group, through one broker, how far they are
// in a topic (223): by client id. clientID "" asks all members; one that does not
// answer is missing. *NotOnline without any member.
func (c *Client) ConsumerStatus(ctx context.Context, addr, group, topic, clientID string) (map[string]map[Queue]int64, error) {
	var v struct {
		Consumers map[string]map[Queue]int64 `json:"consumerTable"`
	}
	err := c.callJSON(ctx, addr, request{code: remoting.ReqInvokeBrokerToGetConsumerStatus, relayed: true, ext: remoting.Map{
		"topic": topic, "group": group, "clientAddr": clientID}}, &v)
	if err != nil {
		return nil, orNotOnlineText(err, group)
	}
	return v.Consumers, nil
}

// orNotOnlineText recognises the sentences of brokers that have no code of their own
// for a group or a member that is not online.
func orNotOnlineText(err error, group string) error {
	var missing *NotFound
	if errors.As(orNotFoundText(err, "not online", "client", group), &missing) {
		return &NotOnline{Group: group}
	}
	return orNotOnline(err, group)
}

// DirectResult is what a client says of a message that it was given (309).
type DirectResult struct {
	Order       bool    `json:"order"`
	AutoCommit  bool    `json:"autoCommit"`
	Result      string  `json:"consumeResult"` // CR_SUCCESS CR_LATER CR_ROLLBACK CR_COMMIT CR_THROW_EXCEPTION CR_RETURN_NULL
	Remark      *string `json:"remark"`
	SpentMillis int64   `json:"spentTimeMills"`
}

// ConsumeDirectly has a member of a group consume a stored message now (309),
// whatever the group's progress is; addr is the broker that stores the message.
func (c *Client) ConsumeDirectly(ctx context.Context, addr, broker, group, clientID, topic, offsetID string) (*DirectResult, error) {
	var v DirectResult
	err := c.callJSON(ctx, addr, request{code: remoting.ReqConsumeMessageDirectly, relayed: true, write: true, ext: remoting.Map{
		"consumerGroup": group, "clientId": clientID, "msgId": offsetID, "topic": topic, "brokerName": broker}}, &v)
	if err != nil {
		return nil, orNotOnlineText(err, group)
	}
	return &v, nil
}
