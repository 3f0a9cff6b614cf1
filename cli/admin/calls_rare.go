package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting"
)

// Requests that only brokers with rarely used features answer.

func now() int64 { return time.Now().UnixMilli() }

// ColdReads is a broker's table of cold reads as it gave it (2003), "" when it has none.
func (c *Client) ColdReads(ctx context.Context, addr string) (string, error) {
	resp, err := c.call(ctx, addr, request{code: remoting.ReqGetColdDataFlowCtrInfo})
	if err != nil {
		return "", err
	}
	return string(resp.Body), nil
}

// SetColdThreshold limits the cold reads of a group (2001), in bytes per second.
func (c *Client) SetColdThreshold(ctx context.Context, addr, group string, threshold int64) error {
	return c.putProperties(ctx, addr, remoting.ReqUpdateColdDataFlowCtrConfig, map[string]string{group: strconv.FormatInt(threshold, 10)})
}

// RemoveColdThreshold takes the group's own limit away (2002).
func (c *Client) RemoveColdThreshold(ctx context.Context, addr, group string) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqRemoveColdDataFlowCtrConfig, body: []byte(group), write: true})
	return err
}

// SetReadAhead sets how the system reads ahead in the commit log (2004): 0
// normal, 1 random. The answer is the broker's remark.
func (c *Client) SetReadAhead(ctx context.Context, addr, mode string) (string, error) {
	resp, err := c.call(ctx, addr, request{code: remoting.ReqSetCommitLogReadMode, ext: remoting.Map{"READ_AHEAD_MODE": mode}, write: true})
	if err != nil {
		return "", err
	}
	return resp.Remark, nil
}

// AddBroker makes a container process start a broker from a configuration file
// on its machine (902).
func (c *Client) AddBroker(ctx context.Context, container, configPath string) error {
	_, err := c.call(ctx, container, request{code: remoting.ReqAddBroker, ext: remoting.Map{"configPath": configPath}, write: true})
	return err
}

// RemoveBroker makes a container process end one of its brokers (903).
func (c *Client) RemoveBroker(ctx context.Context, container, cluster, broker string, id int64) error {
	_, err := c.call(ctx, container, request{code: remoting.ReqRemoveBroker, write: true,
		ext: remoting.Map{"brokerClusterName": cluster, "brokerName": broker, "brokerId": strconv.FormatInt(id, 10)}})
	return err
}

// CheckRocksDBQueues makes a broker compare its two kinds of consume queues
// (354), from a store time on (ms). The broker writes what it finds to its log;
// the answer is its remark or text.
func (c *Client) CheckRocksDBQueues(ctx context.Context, addr, topic string, from int64) (string, error) {
	ext := optional("topic", topic)
	ext["checkStoreTime"] = strconv.FormatInt(from, 10)
	resp, err := c.call(ctx, addr, request{code: remoting.ReqCheckRocksDBCQWriteProgress, ext: ext})
	if err != nil {
		return "", err
	}
	return string(resp.Body), nil
}

// ExportRocksDBConfig makes a broker write tables that it keeps in RocksDB as
// JSON files into its own store folder (355).
func (c *Client) ExportRocksDBConfig(ctx context.Context, addr string, types []string) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqExportRocksDBConfigToJSON, ext: remoting.Map{"configType": strings.Join(types, ";")}, write: true})
	return err
}

// RollBackPop makes a broker write its pop records back from RocksDB to the
// form that older versions read (200056).
func (c *Client) RollBackPop(ctx context.Context, addr string) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqPopRollback, write: true})
	return err
}
