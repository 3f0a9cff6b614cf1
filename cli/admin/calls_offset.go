package admin

import (
	"context"
	"errors"
	"strconv"

	"mqctl/broker/remoting"
)

// ConsumerOffset is the committed offset of a group in one queue (14); ok is
// false when none is stored.
func (c *Client) ConsumerOffset(ctx context.Context, addr, group, topic string, queue int32) (offset int64, ok bool, err error) {
	ext := queueExt(topic, queue)
	ext["consumerGroup"] = group
	ext["setZeroIfNotFound"] = "false"
	offset, err = c.number(ctx, addr, remoting.ReqQueryConsumerOffset, ext, "offset")
	var refused *Refused
	if errors.As(err, &refused) && refused.Code == remoting.CodeQueryNotFound {
		return 0, false, nil
	}
	return offset, err == nil, err
}

// CommitOffset stores the offset of a group in one queue (15), also one below
// what is stored: the field reset says to a broker of ours that this is meant,
// and others do not read it. *NotFound when the broker has no such group or topic.
func (c *Client) CommitOffset(ctx context.Context, addr, group, topic string, queue int32, offset int64) error {
	ext := queueExt(topic, queue)
	ext["consumerGroup"] = group
	ext["commitOffset"] = strconv.FormatInt(offset, 10)
	ext["reset"] = "true"
	_, err := c.call(ctx, addr, request{code: remoting.ReqUpdateConsumerOffset, ext: ext, write: true})
	err = orNotFound(err, remoting.CodeSubscriptionGroupNotExist, "group", group)
	return orNotFound(err, remoting.CodeTopicNotExist, "topic", topic)
}

// MaxOffset is the next offset to be written of a queue (30); 0 for an unknown one.
func (c *Client) MaxOffset(ctx context.Context, addr, topic string, queue int32) (int64, error) {
	return c.number(ctx, addr, remoting.ReqGetMaxOffset, queueExt(topic, queue), "offset")
}

// MinOffset is the first readable offset of a queue (31); 0 for an unknown one.
func (c *Client) MinOffset(ctx context.Context, addr, topic string, queue int32) (int64, error) {
	return c.number(ctx, addr, remoting.ReqGetMinOffset, queueExt(topic, queue), "offset")
}

// OffsetAt is the offset of the first message stored at or after millis (29).
func (c *Client) OffsetAt(ctx context.Context, addr, topic string, queue int32, millis int64) (int64, error) {
	ext := queueExt(topic, queue)
	ext["timestamp"] = strconv.FormatInt(millis, 10)
	return c.number(ctx, addr, remoting.ReqSearchOffsetByTimestamp, ext, "offset")
}

// EarliestStoreTime is the store time in milliseconds of a queue's first message (32); -1 when it is empty.
func (c *Client) EarliestStoreTime(ctx context.Context, addr, topic string, queue int32) (int64, error) {
	return c.number(ctx, addr, remoting.ReqGetEarliestMsgStoreTime, queueExt(topic, queue), "timestamp")
}

func queueExt(topic string, queue int32) remoting.Map {
	return remoting.Map{"topic": topic, "queueId": strconv.Itoa(int(queue))}
}

// number reads one number out of an answer's header.
func (c *Client) number(ctx context.Context, addr string, code int, ext remoting.Map, field string) (int64, error) {
	resp, err := c.call(ctx, addr, request{code: code, ext: ext})
	if err != nil {
		return 0, err
	}
	return extNumber(addr, code, resp, field)
}

func extNumber(addr string, code int, resp *remoting.Response, field string) (int64, error) {
	n, err := strconv.ParseInt(resp.Ext[field], 10, 64)
	if err != nil {
		return 0, &BadAnswer{Addr: addr, Request: code, Err: errors.New("field " + field + " is missing or no number")}
	}
	return n, nil
}

// OffsetBefore is the offset of the last message stored at or before millis (29 with the upper bound).
func (c *Client) OffsetBefore(ctx context.Context, addr, topic string, queue int32, millis int64) (int64, error) {
	ext := queueExt(topic, queue)
	ext["timestamp"] = strconv.FormatInt(millis, 10)
	ext["boundaryType"] = "UPPER"
	return c.number(ctx, addr, remoting.ReqSearchOffsetByTimestamp, ext, "offset")
}

// ResetOffset moves a group at one broker while its clients are online (222).
// Queue -1 means all queues of the topic, which go to millis (-1: the end); a
// queue with an offset of at least 0 goes there. A broker that leaves the work
// to the clients (useServerSideResetOffset=false) knows no single queues.
// *NotOnline when such a broker has no client of the group.
func (c *Client) ResetOffset(ctx context.Context, addr, group, topic string, queue int32, offset, millis int64) (map[Queue]int64, error) {
	ext := remoting.Map{"group": group, "topic": topic, "timestamp": strconv.FormatInt(millis, 10), "isForce": "true",
		"queueId": strconv.Itoa(int(queue)), "offset": strconv.FormatInt(offset, 10)}
	var v struct {
		Offsets map[Queue]int64 `json:"offsetTable"`
	}
	resp, err := c.call(ctx, addr, request{code: remoting.ReqInvokeBrokerToResetOffset, relayed: true, ext: ext, write: true})
	if err != nil {
		err = orNotFound(err, remoting.CodeSubscriptionGroupNotExist, "group", group)
		err = orNotFound(err, remoting.CodeTopicNotExist, "topic", topic)
		return nil, orNotOnline(err, group)
	}
	if len(resp.Body) == 0 {
		return nil, nil
	}
	err = decode(addr, remoting.ReqInvokeBrokerToResetOffset, resp.Body, &v)
	return v.Offsets, err
}

// AllOffsets are all stored offsets of a broker (43): by "topic@group" and queue.
func (c *Client) AllOffsets(ctx context.Context, addr string) (map[string]map[int32]int64, error) {
	var v struct {
		Table map[string]map[int32]int64 `json:"offsetTable"`
	}
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetAllConsumerOffset}, &v)
	return v.Table, err
}
