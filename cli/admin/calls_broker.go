package admin

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// RuntimeInfo is a broker's runtime table (28): every value is text.
func (c *Client) RuntimeInfo(ctx context.Context, addr string) (map[string]string, error) {
	var t struct {
		Table map[string]string `json:"table"`
	}
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetBrokerRuntimeInfo}, &t)
	return t.Table, err
}

// BrokerConfig is a broker's configuration (26).
type BrokerConfig struct {
	Values  map[string]string
	Keys    []string // in the order the broker gave
	Text    string   // key=value lines as the broker gave them
	Version table.DataVersion
}

// BrokerConfig reads a broker's configuration (26).
func (c *Client) BrokerConfig(ctx context.Context, addr string) (*BrokerConfig, error) {
	resp, err := c.call(ctx, addr, request{code: remoting.ReqGetBrokerConfig})
	if err != nil {
		return nil, err
	}
	cfg := &BrokerConfig{Values: make(map[string]string), Text: string(resp.Body)}
	for line := range strings.Lines(cfg.Text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if !ok || key == "" || key[0] == '#' {
			continue
		}
		if _, again := cfg.Values[key]; !again {
			cfg.Keys = append(cfg.Keys, key)
		}
		cfg.Values[key] = value
	}
	if v := resp.Ext["version"]; v != "" {
		if err := decode(addr, remoting.ReqGetBrokerConfig, []byte(v), &cfg.Version); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// Identify asks the process at addr who it is (26): cluster, broker name and id.
func (c *Client) Identify(ctx context.Context, addr string) (Target, error) {
	cfg, err := c.BrokerConfig(ctx, addr)
	if err != nil {
		return Target{ID: -1, Addr: addr}, err
	}
	id, err := strconv.ParseInt(cfg.Values["brokerId"], 10, 64)
	if err != nil {
		return Target{ID: -1, Addr: addr}, &BadAnswer{Addr: addr, Request: remoting.ReqGetBrokerConfig, Err: fmt.Errorf("brokerId: %w", err)}
	}
	return Target{Cluster: cfg.Values["brokerClusterName"], Broker: cfg.Values["brokerName"], ID: id, Addr: addr}, nil
}

// UpdateBrokerConfig sets keys of a broker's configuration (25) and returns the
// broker's remark, if it made one ("restart needed"). Apache's broker ignores
// unknown keys and bad values silently: read back.
func (c *Client) UpdateBrokerConfig(ctx context.Context, addr string, values map[string]string) (remark string, err error) {
	return c.updateBrokerConfig(ctx, addr, values, nil)
}

// UpdateBrokerConfigLive is UpdateBrokerConfig without saving the change: it is
// gone at the next start. Only brokers of ours know this; others would save.
func (c *Client) UpdateBrokerConfigLive(ctx context.Context, addr string, values map[string]string) (remark string, err error) {
	return c.updateBrokerConfig(ctx, addr, values, remoting.Map{header.FieldPersist: "false"})
}

func (c *Client) updateBrokerConfig(ctx context.Context, addr string, values map[string]string, ext remoting.Map) (remark string, err error) {
	body, err := propertiesText(values)
	if err != nil {
		return "", err
	}
	resp, err := c.call(ctx, addr, request{code: remoting.ReqUpdateBrokerConfig, ext: ext, body: body, write: true})
	if err != nil {
		return "", err
	}
	return resp.Remark, nil
}

// propertiesText writes key=value lines as java.util.Properties reads them: a
// backslash and blanks at the beginning of a value would be eaten otherwise.
func propertiesText(values map[string]string) ([]byte, error) {
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b []byte
	for _, k := range keys {
		v := values[k]
		if k == "" || strings.ContainsAny(k, "=:# \t\r\n\\!") || strings.ContainsAny(v, "\r\n\x00") {
			return nil, &BadValue{Key: k, Value: v}
		}
		b = append(b, k...)
		b = append(b, '=')
		if v != "" && (v[0] == ' ' || v[0] == '\t') {
			b = append(b, '\\')
		}
		b = append(b, strings.ReplaceAll(v, `\`, `\\`)...)
		b = append(b, '\n')
	}
	return b, nil
}

// BadValue is a configuration key or value that cannot be sent.
type BadValue struct{ Key, Value string }

func (e *BadValue) Error() string {
	return fmt.Sprintf("%s=%q cannot be sent: a key is one word and a value one line", e.Key, e.Value)
}

// StatsWindow is one window of a statistic.
type StatsWindow struct {
	Sum   int64   `json:"sum"`
	TPS   float64 `json:"tps"`   // per second
	AvgPT float64 `json:"avgpt"` // average per count
}

// BrokerStats are the windows of one statistic (315).
type BrokerStats struct {
	Minute StatsWindow `json:"statsMinute"`
	Hour   StatsWindow `json:"statsHour"`
	Day    StatsWindow `json:"statsDay"`
}

// Names of statistics that BrokerStats is asked for (Stats.java): the key of
// the first is a topic, of the others topic@group.
const (
	StatTopicPutNums = "TOPIC_PUT_NUMS"
	StatGroupGetNums = "GROUP_GET_NUMS"
	StatSendBack     = "SNDBCK_PUT_NUMS"
)

// BrokerStats reads one statistic (315); *NotFound when the broker has no such item.
func (c *Client) BrokerStats(ctx context.Context, addr, name, key string) (*BrokerStats, error) {
	var s BrokerStats
	err := c.callJSON(ctx, addr, request{code: remoting.ReqViewBrokerStatsData, ext: remoting.Map{"statsName": name, "statsKey": key}}, &s)
	if err != nil {
		return nil, orNotFoundText(err, "not exist", "statistic", name+" "+key)
	}
	return &s, nil
}

// marshal makes a request body; our own values always fit.
func marshal(v any) ([]byte, error) {
	b, err := fastjson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	return b, nil
}
