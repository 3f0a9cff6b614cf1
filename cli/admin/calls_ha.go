package admin

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// HAPeer is one slave as its master sees it. Offsets and differences are bytes.
type HAPeer struct {
	Addr               string `json:"addr"`
	AckOffset          int64  `json:"slaveAckOffset"`
	Diff               int64  `json:"diff"`
	InSync             bool   `json:"inSync"`
	TransferredPerSec  int64  `json:"transferredByteInSecond"`
	TransferFromOffset int64  `json:"transferFromWhere"`
}

// HAClient is a slave's own view of its transfer. Times are milliseconds.
type HAClient struct {
	MasterAddr        string `json:"masterAddr"`
	MasterFlushOffset int64  `json:"masterFlushOffset"`
	MaxOffset         int64  `json:"maxOffset"`
	LastReadMillis    int64  `json:"lastReadTimestamp"`
	LastWriteMillis   int64  `json:"lastWriteTimestamp"`
	TransferredPerSec int64  `json:"transferredByteInSecond"`
	Activated         *bool  `json:"activated"` // not in the answers of 5.3.3
}

// HAStatus is the state of replication at one broker (907).
type HAStatus struct {
	Master       bool     `json:"master"`
	MaxOffset    int64    `json:"masterCommitLogMaxOffset"`
	InSyncSlaves int      `json:"inSyncSlaveNums"`
	Peers        []HAPeer `json:"haConnectionInfo"`
	Client       HAClient `json:"haClientRuntimeInfo"`
}

// HAStatus asks a broker for the state of its replication (907).
func (c *Client) HAStatus(ctx context.Context, addr string) (*HAStatus, error) {
	var s HAStatus
	if err := c.callJSON(ctx, addr, request{code: remoting.ReqGetBrokerHAStatus}, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Offers reports whether a runtime table (28) advertises a private request of
// mqctl, so that nobody has to probe.
func Offers(runtime map[string]string, name string) bool {
	return slices.ContainsFunc(strings.Split(runtime["mqctlCapabilities"], ","), func(s string) bool { return strings.TrimSpace(s) == name })
}

// InspectHA asks a broker of ours for its part in replication (30001, what=ha).
func (c *Client) InspectHA(ctx context.Context, addr string) (*body.InspectHA, error) {
	var v body.InspectHA
	err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: remoting.Map{"what": "ha"}}, &v)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// InspectOffsets asks a broker of ours for its log (30001, what=offsets).
func (c *Client) InspectOffsets(ctx context.Context, addr string) (*body.InspectOffsets, error) {
	var v body.InspectOffsets
	err := c.callJSON(ctx, addr, request{code: remoting.ReqMqctlInspect, ext: remoting.Map{"what": "offsets"}}, &v)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// ResetMasterFlushOffset tells a slave how far its master has flushed (908).
func (c *Client) ResetMasterFlushOffset(ctx context.Context, addr string, offset int64) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqResetMasterFlushOffset, write: true,
		ext: remoting.Map{"masterFlushOffset": strconv.FormatInt(offset, 10)}})
	return err
}
