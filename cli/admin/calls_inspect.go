package admin

import (
	"context"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// InspectPull asks a broker of ours what it told pulls (30001, what=pull); empty
// names and a window of 0 mean all that it keeps.
func (c *Client) InspectPull(ctx context.Context, addr, group, topic string, window time.Duration) (*body.InspectPull, error) {
	ext := remoting.Map{"what": "pull"}
	if group != "" {
		ext["group"] = group
	}
	if topic != "" {
		ext["topic"] = topic
	}
	if window > 0 {
		ext["windowMillis"] = strconv.FormatInt(max(1, window.Milliseconds()), 10)
	}
	var v body.InspectPull
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: ext}, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// InspectConfig asks a broker of ours where its settings came from (30001,
// what=config).
func (c *Client) InspectConfig(ctx context.Context, addr string) (*body.InspectConfig, error) {
	var v body.InspectConfig
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: remoting.Map{"what": "config"}}, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// EntryAt is where in the commit log the message at an offset of a queue lies
// (321); ok is false when the queue has none there.
func (c *Client) EntryAt(ctx context.Context, addr, topic string, queue int32, offset int64) (phys int64, ok bool, err error) {
	ext := queueExt(topic, queue)
	ext["index"], ext["count"] = strconv.FormatInt(offset, 10), "1"
	var v struct {
		Entries []struct {
			Phys int64 `json:"physicOffset"`
		} `json:"queueData"`
	}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqQueryConsumeQueue, ext: ext}, &v); err != nil {
		return 0, false, err
	}
	if len(v.Entries) == 0 {
		return 0, false, nil
	}
	return v.Entries[0].Phys, true, nil
}

// InspectEvents asks a broker of ours what changed lately (30001, what=events):
// what came after the sequence number since, or all it remembers for 0.
func (c *Client) InspectEvents(ctx context.Context, addr string, since int64) (*body.InspectEvents, error) {
	var v body.InspectEvents
	ext := remoting.Map{"what": "events", "since": strconv.FormatInt(since, 10)}
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: ext}, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// InspectClients asks a broker of ours who is connected (30001, what=clients).
func (c *Client) InspectClients(ctx context.Context, addr string) (*body.InspectClients, error) {
	var v body.InspectClients
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: remoting.Map{"what": "clients"}}, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// InspectLatency asks a broker of ours how long operations took (30001, what=latency).
func (c *Client) InspectLatency(ctx context.Context, addr string) (*body.InspectLatency, error) {
	var v body.InspectLatency
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: remoting.Map{"what": "latency"}}, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// Log asks a broker of ours for the newest records of its log (30006), each a JSON
// object in a line, oldest first. level is one of debug, info, warn and error; a
// limit of 0 means what the broker gives at most.
func (c *Client) Log(ctx context.Context, addr string, since time.Time, level string, limit int) ([]byte, error) {
	ext := remoting.Map{"level": level}
	if !since.IsZero() {
		ext["since"] = strconv.FormatInt(since.UnixMilli(), 10)
	}
	if limit > 0 {
		ext["limit"] = strconv.Itoa(limit)
	}
	resp, err := c.call(ctx, addr, request{code: remoting.ReqMqctlLog, ext: ext})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Kick closes the connections of a client at one broker of ours (30005) and returns
// how many there were. id is a client id, or the ip:port of a connection.
func (c *Client) Kick(ctx context.Context, addr, id string) (closed int, err error) {
	resp, err := c.call(ctx, addr, request{code: remoting.ReqMqctlKick, ext: remoting.Map{"clientId": id}, write: true})
	if err != nil {
		return 0, err
	}
	if closed, err = strconv.Atoi(resp.Ext["closed"]); err != nil {
		return 0, &BadAnswer{Addr: addr, Request: remoting.ReqMqctlKick, Err: err}
	}
	return closed, nil
}
