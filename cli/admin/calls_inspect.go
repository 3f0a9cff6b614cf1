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
