package admin

import (
	"context"
	"strconv"

	"mqctl/broker/remoting"
)

// What Clean and CleanOld remove.
const (
	CleanCommitLog = "commitlog"
	CleanQueues    = "cq"
	CleanTopics    = "topics"
)

// CapabilityClean is the request that says how much it removes, or would.
const CapabilityClean = "MQCTL_CLEAN"

// Cleaned is what a broker removed, or would have.
type Cleaned struct {
	Files  int64    `json:"files"`
	Bytes  int64    `json:"bytes"`
	Left   int64    `json:"left"` // files that follow in the background
	Topics []string `json:"topics"`
}

// Clean removes what is expired or unused at a broker of ours (30007), or only
// counts it.
func (c *Client) Clean(ctx context.Context, addr, what string, dryRun bool) (*Cleaned, error) {
	var v Cleaned
	err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlClean, write: !dryRun,
		ext: remoting.Map{"what": what, "dryRun": strconv.FormatBool(dryRun)}}, &v)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// CleanOld asks any broker for it (329, 306, 316). It does not say what it did, and
// commit log files go after the answer.
func (c *Client) CleanOld(ctx context.Context, addr, what string) error {
	code := map[string]int{
		CleanCommitLog: remoting.ReqDeleteExpiredCommitLog, CleanQueues: remoting.ReqCleanExpiredConsumeQueue, CleanTopics: remoting.ReqCleanUnusedTopic,
	}[what]
	_, err := c.call(ctx, addr, request{code: code, write: true})
	return err
}
