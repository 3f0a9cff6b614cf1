package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting"
)

// Controller is what one controller of a cluster says about itself and its peers (1005).
type Controller struct {
	Group         string
	LeaderID      string
	LeaderAddress string // "" while there is none
	Leader        bool   // the one asked is the leader
	Peers         []string
}

// Controller asks a controller (1005).
func (c *Client) Controller(ctx context.Context, addr string) (*Controller, error) {
	resp, err := c.call(ctx, addr, request{code: remoting.ReqControllerGetMetadataInfo})
	if err != nil {
		return nil, err
	}
	out := &Controller{Group: resp.Ext["group"], LeaderID: resp.Ext["controllerLeaderId"], LeaderAddress: resp.Ext["controllerLeaderAddress"],
		Leader: resp.Ext["isLeader"] == "true"}
	for _, p := range strings.Split(resp.Ext["peers"], ";") {
		if p != "" {
			out.Peers = append(out.Peers, p)
		}
	}
	return out, nil
}

// leader is the address that requests for the leader go to: that which a
// controller names, or the controller itself while it names none.
func (c *Client) leader(ctx context.Context, addr string) (string, error) {
	m, err := c.Controller(ctx, addr)
	if err != nil {
		return "", err
	}
	if checkAddress(m.LeaderAddress) != nil {
		return addr, nil
	}
	return m.LeaderAddress, nil
}

// Properties is a process's configuration in Java's form, keys in its order.
type Properties struct {
	Values map[string]string
	Keys   []string
}

func (c *Client) properties(ctx context.Context, addr string, code int) (*Properties, error) {
	resp, err := c.call(ctx, addr, request{code: code})
	if err != nil {
		return nil, err
	}
	out := &Properties{Values: map[string]string{}}
	for line := range strings.Lines(string(resp.Body)) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if !ok || key == "" || key[0] == '#' {
			continue
		}
		if _, again := out.Values[key]; !again {
			out.Keys = append(out.Keys, key)
		}
		out.Values[key] = value
	}
	return out, nil
}

func (c *Client) putProperties(ctx context.Context, addr string, code int, values map[string]string) error {
	body, err := propertiesText(values)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, addr, request{code: code, body: body, write: true})
	return err
}

// NameserverConfig reads the settings of one nameserver (319).
func (c *Client) NameserverConfig(ctx context.Context, addr string) (*Properties, error) {
	return c.properties(ctx, addr, remoting.ReqGetNamesrvConfig)
}

// NameserverUptime is how long a nameserver of this program has run at now, by
// its clock; false for others, which do not tell.
func (c *Client) NameserverUptime(ctx context.Context, addr string, now time.Time) (time.Duration, bool) {
	p, err := c.NameserverConfig(ctx, addr)
	if err != nil {
		return 0, false
	}
	ms, err := strconv.ParseInt(p.Values["bootTimestamp"], 10, 64)
	up := now.Sub(time.UnixMilli(ms))
	return up, err == nil && ms > 0 && up >= 0
}

// UpdateNameserverConfig sets keys of one nameserver (318). Apache's ignores
// what it does not know: read back.
func (c *Client) UpdateNameserverConfig(ctx context.Context, addr string, values map[string]string) error {
	return c.putProperties(ctx, addr, remoting.ReqUpdateNamesrvConfig, values)
}

// ControllerConfig reads the settings of one controller (1010).
func (c *Client) ControllerConfig(ctx context.Context, addr string) (*Properties, error) {
	return c.properties(ctx, addr, remoting.ReqGetControllerConfig)
}

// UpdateControllerConfig sets keys of one controller (1009).
func (c *Client) UpdateControllerConfig(ctx context.Context, addr string, values map[string]string) error {
	return c.putProperties(ctx, addr, remoting.ReqUpdateControllerConfig, values)
}

// Election is what an election led to (1002).
type Election struct {
	MasterID          int64
	MasterAddr        string
	MasterEpoch       int64
	SyncStateSetEpoch int64
	Members           map[int64]string // id -> address
}

// ElectMaster makes the controllers take one replica as the master (1002).
func (c *Client) ElectMaster(ctx context.Context, controller, cluster, broker string, id int64) (*Election, error) {
	leader, err := c.leader(ctx, controller)
	if err != nil {
		return nil, err
	}
	r := request{code: remoting.ReqControllerElectMaster, write: true, ext: remoting.Map{"clusterName": cluster, "brokerName": broker,
		"brokerId": strconv.FormatInt(id, 10), "designateElect": "true", "invokeTime": strconv.FormatInt(now(), 10)}}
	resp, err := c.call(ctx, leader, r)
	if err != nil {
		return nil, err
	}
	out := &Election{MasterAddr: resp.Ext["masterAddress"], Members: map[int64]string{}}
	out.MasterID, _ = strconv.ParseInt(resp.Ext["masterBrokerId"], 10, 64)
	out.MasterEpoch, _ = strconv.ParseInt(resp.Ext["masterEpoch"], 10, 64)
	out.SyncStateSetEpoch, _ = strconv.ParseInt(resp.Ext["syncStateSetEpoch"], 10, 64)
	if len(resp.Body) > 0 {
		var group struct {
			Addrs map[int64]string `json:"brokerAddrs"`
		}
		if err := decode(leader, r.code, resp.Body, &group); err != nil {
			return nil, err
		}
		out.Members = group.Addrs
	}
	return out, nil
}

// CleanBrokerData makes the controllers forget replicas (1011): those with the
// ids, "" for all; living ones only with living.
func (c *Client) CleanBrokerData(ctx context.Context, controller, cluster, broker, ids string, living bool) error {
	leader, err := c.leader(ctx, controller)
	if err != nil {
		return err
	}
	ext := remoting.Map{"brokerName": broker, "isCleanLivingBroker": strconv.FormatBool(living),
		"invokeTime": strconv.FormatInt(now(), 10)}
	if cluster != "" {
		ext["clusterName"] = cluster
	}
	if ids != "" {
		ext["brokerControllerIdsToClean"] = ids
	}
	_, err = c.call(ctx, leader, request{code: remoting.ReqCleanBrokerData, ext: ext, write: true})
	return err
}

// Replica is one replica as the controllers know it.
type Replica struct {
	Broker string `json:"brokerName"`
	ID     int64  `json:"brokerId"`
	Addr   string `json:"brokerAddress"`
	Alive  *bool  `json:"alive"`
}

// SyncSet is the in-sync set of a broker name that the controllers keep.
type SyncSet struct {
	MasterID   *int64    `json:"masterBrokerId"`
	MasterAddr string    `json:"masterAddress"`
	Epoch      int64     `json:"masterEpoch"`
	SetEpoch   int64     `json:"syncStateSetEpoch"`
	InSync     []Replica `json:"inSyncReplicas"`
	NotInSync  []Replica `json:"notInSyncReplicas"`
}

// SyncSets asks the controllers' leader for the in-sync sets of broker names (1006).
func (c *Client) SyncSets(ctx context.Context, controller string, brokers []string) (map[string]SyncSet, error) {
	leader, err := c.leader(ctx, controller)
	if err != nil {
		return nil, err
	}
	b, err := marshal(brokers)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Table map[string]SyncSet `json:"replicasInfoTable"`
	}
	err = c.callJSON(ctx, leader, request{code: remoting.ReqControllerGetSyncStateData, body: b}, &answer)
	return answer.Table, err
}

// Epoch is the part of a log that was written under one master.
type Epoch struct {
	Epoch int64 `json:"epoch"`
	Start int64 `json:"startOffset"`
	End   int64 `json:"endOffset"` // of the newest one: where the log ends now
}

// Epochs are the epochs of a broker (1007).
type Epochs struct {
	Cluster   string  `json:"clusterName"`
	Broker    string  `json:"brokerName"`
	ID        int64   `json:"brokerId"`
	List      []Epoch `json:"epochList"`
	MaxOffset int64   `json:"maxOffset"`
}

// Epochs asks a broker under controllers for its epochs (1007).
func (c *Client) Epochs(ctx context.Context, addr string) (*Epochs, error) {
	var e Epochs
	err := c.callJSON(ctx, addr, request{code: remoting.ReqGetBrokerEpochCache}, &e)
	if err == nil && len(e.List) > 0 {
		e.List[len(e.List)-1].End = e.MaxOffset
	}
	return &e, err
}
