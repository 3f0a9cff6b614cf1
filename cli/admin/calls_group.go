package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/store/table"
	"mqctl/subgroup"
)

// Groups are the settings of all groups of a broker (201) and the version of its table.
func (c *Client) Groups(ctx context.Context, addr string) (map[string]subgroup.Config, table.DataVersion, error) {
	var b struct {
		Version table.DataVersion          `json:"dataVersion"`
		Groups  map[string]json.RawMessage `json:"subscriptionGroupTable"`
	}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetAllSubscriptionGroupConfig}, &b); err != nil {
		return nil, table.DataVersion{}, err
	}
	out := make(map[string]subgroup.Config, len(b.Groups))
	for name, raw := range b.Groups {
		g, err := subgroup.DecodeConfig(raw)
		if err != nil {
			return nil, table.DataVersion{}, &BadAnswer{Addr: addr, Request: remoting.ReqGetAllSubscriptionGroupConfig, Err: err}
		}
		out[name] = g
	}
	return out, b.Version, nil
}

// Group is one group's settings, out of Groups: the request that asks for one
// group (352) makes Apache's broker create it. *NotFound when there is none.
func (c *Client) Group(ctx context.Context, addr, name string) (*subgroup.Config, error) {
	all, _, err := c.Groups(ctx, addr)
	if err != nil {
		return nil, err
	}
	g, ok := all[name]
	if !ok {
		known := make([]string, 0, len(all))
		for n := range all {
			known = append(known, n)
		}
		return nil, &NotFound{Kind: "group", Name: name, Where: addr, Known: known}
	}
	return &g, nil
}

// PutGroup creates or replaces the whole settings of a group at one broker (200).
func (c *Client) PutGroup(ctx context.Context, addr string, g subgroup.Config) error {
	body, err := marshal(g)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, addr, request{code: remoting.ReqUpdateAndCreateSubscriptionGroup, body: body, write: true})
	return err
}

// PutGroups creates or replaces the whole settings of many groups at one broker in
// one request (225), which brokers before 5.3 do not know. Of an error it is not
// known how many were taken.
func (c *Client) PutGroups(ctx context.Context, addr string, groups []subgroup.Config) error {
	body, err := marshal(struct {
		Groups []subgroup.Config `json:"groupConfigList"`
	}{groups})
	if err != nil {
		return err
	}
	_, err = c.call(ctx, addr, request{code: remoting.ReqUpdateAndCreateSubscriptionGroupList, body: body, write: true})
	return err
}

// DeleteGroup deletes a group at one broker (207), with its offsets if cleanOffsets;
// an unknown group is no error.
func (c *Client) DeleteGroup(ctx context.Context, addr, name string, cleanOffsets bool) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqDeleteSubscriptionGroup, write: true,
		ext: remoting.Map{"groupName": name, "cleanOffset": strconv.FormatBool(cleanOffsets)}})
	return err
}

// Connection is one client's connection to a broker.
type Connection struct {
	ClientID string `json:"clientId"`
	Addr     string `json:"clientAddr"` // ip:port
	Language string `json:"language"`
	Version  int    `json:"version"`
}

// Subscription is what a group subscribes to of one topic.
type Subscription struct {
	Topic          string   `json:"topic"`
	SubString      string   `json:"subString"`
	ExpressionType string   `json:"expressionType"`
	Tags           []string `json:"tagsSet"`
	SubVersion     int64    `json:"subVersion"`
	ClassFilter    bool     `json:"classFilterMode"`
}

// ConsumerConnections are a group's live members at one broker (203).
type ConsumerConnections struct {
	Connections      []Connection            `json:"connectionSet"`
	Subscriptions    map[string]Subscription `json:"subscriptionTable"`
	ConsumeType      string                  `json:"consumeType"`
	MessageModel     string                  `json:"messageModel"`
	ConsumeFromWhere string                  `json:"consumeFromWhere"`
}

// ConsumerConnections asks one broker for a group's live members (203); *NotOnline without any.
func (c *Client) ConsumerConnections(ctx context.Context, addr, group string) (*ConsumerConnections, error) {
	var v ConsumerConnections
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetConsumerConnectionList, ext: remoting.Map{"consumerGroup": group}}, &v)
	if err != nil {
		return nil, orNotOnline(err, group)
	}
	return &v, nil
}

func orNotOnline(err error, group string) error {
	var refused *Refused
	if errors.As(err, &refused) && refused.Code == remoting.CodeConsumerNotOnline {
		return &NotOnline{Group: group, Addr: refused.Addr}
	}
	return err
}

// ProducerConnections are a producer group's clients at one broker (204);
// *NotFound when the broker knows none.
func (c *Client) ProducerConnections(ctx context.Context, addr, group string) ([]Connection, error) {
	var v struct {
		Connections []Connection `json:"connectionSet"`
	}
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetProducerConnectionList, ext: remoting.Map{"producerGroup": group}}, &v)
	if err != nil {
		return nil, orNotFoundText(err, "not exist", "producer group", group)
	}
	return v.Connections, nil
}

// Producer is one producer client as 328 lists it.
type Producer struct {
	ClientID         string `json:"clientId"`
	RemoteAddr       string `json:"remoteIP"` // ip:port; Java's form begins with a slash, which is dropped
	Language         string `json:"language"`
	Version          int    `json:"version"`
	LastUpdateMillis int64  `json:"lastUpdateTimestamp"`
}

// AllProducers are all producer groups of a broker with their clients (328).
func (c *Client) AllProducers(ctx context.Context, addr string) (map[string][]Producer, error) {
	var v struct {
		Data map[string][]Producer `json:"data"`
	}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetAllProducerInfo, ext: remoting.Map{}}, &v); err != nil {
		return nil, err
	}
	for _, list := range v.Data {
		for i := range list {
			list[i].RemoteAddr = strings.TrimPrefix(list[i].RemoteAddr, "/")
		}
	}
	return v.Data, nil
}

// QueueProgress is a group's progress in one queue. Offsets count messages.
type QueueProgress struct {
	BrokerOffset   int64 `json:"brokerOffset"`   // next to be written
	ConsumerOffset int64 `json:"consumerOffset"` // next to be consumed
	PullOffset     int64 `json:"pullOffset"`     // next to be pulled
	LastMillis     int64 `json:"lastTimestamp"`  // store time of the newest consumed message, 0 if unknown
}

// Lag is how many messages are not consumed yet.
func (p QueueProgress) Lag() int64 { return p.BrokerOffset - p.ConsumerOffset }

// Inflight is how many are with clients and not acknowledged.
func (p QueueProgress) Inflight() int64 { return p.PullOffset - p.ConsumerOffset }

// ConsumeStats is a group's progress at one broker (208).
type ConsumeStats struct {
	TPS    float64                 `json:"consumeTps"` // messages per second
	Queues map[Queue]QueueProgress `json:"offsetTable"`
}

// ConsumeStats asks one broker for a group's progress (208); topic "" means in
// all topics. A group of which nothing is known has no queues.
func (c *Client) ConsumeStats(ctx context.Context, addr, group, topic string) (*ConsumeStats, error) {
	ext := remoting.Map{"consumerGroup": group}
	if topic != "" {
		ext["topic"] = topic
	}
	var s ConsumeStats
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetConsumeStats, ext: ext}, &s); err != nil {
		return nil, orNotFound(err, remoting.CodeSubscriptionGroupNotExist, "group", group)
	}
	return &s, nil
}

// BrokerConsumeStats is the progress of all groups of a broker (317).
type BrokerConsumeStats struct {
	Addr          string                      `json:"brokerAddr"`
	Groups        []map[string][]ConsumeStats `json:"consumeStatsList"`
	TotalLag      int64                       `json:"totalDiff"`
	TotalInflight int64                       `json:"totalInflightDiff"`
}

// BrokerConsumeStats asks one broker for the progress of all its groups (317);
// ordered limits it to ordered topics.
func (c *Client) BrokerConsumeStats(ctx context.Context, addr string, ordered bool) (*BrokerConsumeStats, error) {
	var s BrokerConsumeStats
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetBrokerConsumeStats,
		ext: remoting.Map{"isOrder": strconv.FormatBool(ordered)}}, &s)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// ProcessQueue is a queue as a consumer client sees it.
type ProcessQueue struct {
	CommitOffset      int64 `json:"commitOffset"`
	CachedMinOffset   int64 `json:"cachedMsgMinOffset"`
	CachedMaxOffset   int64 `json:"cachedMsgMaxOffset"`
	CachedMessages    int   `json:"cachedMsgCount"`
	CachedMiB         int   `json:"cachedMsgSizeInMiB"`
	Locked            bool  `json:"locked"`
	Dropped           bool  `json:"droped"`
	LastPullMillis    int64 `json:"lastPullTimestamp"`
	LastConsumeMillis int64 `json:"lastConsumeTimestamp"`
	LastLockMillis    int64 `json:"lastLockTimestamp"`
}

// ClientStatus is a consumer client's rates for one topic.
type ClientStatus struct {
	PullRT       float64 `json:"pullRT"` // milliseconds
	PullTPS      float64 `json:"pullTPS"`
	ConsumeRT    float64 `json:"consumeRT"` // milliseconds
	ConsumeOKTPS float64 `json:"consumeOKTPS"`
	FailedTPS    float64 `json:"consumeFailedTPS"`
	Failed       int64   `json:"consumeFailedMsgs"` // in the last hour
}

// RunningInfo is what a consumer client says of itself (307).
type RunningInfo struct {
	Properties    map[string]string       `json:"properties"`
	Subscriptions []Subscription          `json:"subscriptionSet"`
	Queues        map[Queue]ProcessQueue  `json:"mqTable"`
	Status        map[string]ClientStatus `json:"statusTable"`
	JStack        string                  `json:"jstack"`
}

// RunningInfo asks a consumer client, through its broker, for its state (307);
// *NotOnline when that client is not connected there.
func (c *Client) RunningInfo(ctx context.Context, addr, group, clientID string, jstack bool) (*RunningInfo, error) {
	var v RunningInfo
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetConsumerRunningInfo, relayed: true, ext: remoting.Map{
		"consumerGroup": group, "clientId": clientID, "jstackEnable": strconv.FormatBool(jstack)}}, &v)
	if err != nil {
		return nil, orNotOnline(err, group)
	}
	return &v, nil
}
