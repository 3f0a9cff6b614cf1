package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mqctl/cli/admin"
)

// Modes of a group on a topic.
const (
	modePull = "PULL"
	modePop  = "POP"
)

// modeAt is the mode of GROUP/TOPIC at a broker; what is not stored is pulled.
func (c *call) modeAt(ctx context.Context, t admin.Target, name string) (state, error) {
	group, topicName, _ := strings.Cut(name, "/")
	modes, err := c.client.RequestModes(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	out := state{"mode": modePull, "popShareQueueNum": 0}
	if m, ok := modes[topicName][group]; ok {
		out["mode"], out["popShareQueueNum"] = m.Mode, m.ShareQueues
	}
	return out, nil
}

func (c *call) putModeState(ctx context.Context, t admin.Target, name string, after state) error {
	group, topicName, _ := strings.Cut(name, "/")
	if after == nil {
		after = state{"mode": modePull, "popShareQueueNum": 0}
	}
	share, err := strconv.ParseInt(fmt.Sprint(after["popShareQueueNum"]), 10, 32)
	if err != nil {
		return err
	}
	return c.client.PutRequestMode(ctx, t.Addr, admin.RequestMode{Topic: topicName, Group: group, Mode: fmt.Sprint(after["mode"]), ShareQueues: int32(share)})
}
