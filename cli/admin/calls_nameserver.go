package admin

import (
	"context"
	"errors"
	"sort"
	"strconv"

	"mqctl/broker/remoting"
)

// Cluster asks any nameserver for all brokers (106).
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return anyNameserver(ctx, c, func(addr string) (*Cluster, error) { return c.ClusterAt(ctx, addr) })
}

// ClusterAt asks one nameserver for all brokers (106).
func (c *Client) ClusterAt(ctx context.Context, nameserver string) (*Cluster, error) {
	var b struct {
		Brokers  map[string]BrokerGroup `json:"brokerAddrTable"`
		Clusters map[string][]string    `json:"clusterAddrTable"`
	}
	if err := c.callJSON(ctx, nameserver, request{code: remoting.ReqGetBrokerClusterInfo}, &b); err != nil {
		return nil, err
	}
	for name, g := range b.Brokers {
		if g.Name == "" {
			g.Name = name
			b.Brokers[name] = g
		}
	}
	return &Cluster{Nameserver: nameserver, Brokers: b.Brokers, Clusters: b.Clusters}, nil
}

// RouteQueues is what one broker holds of a topic.
type RouteQueues struct {
	Broker       string `json:"brokerName"`
	Perm         int    `json:"perm"`
	ReadQueues   int32  `json:"readQueueNums"`
	WriteQueues  int32  `json:"writeQueueNums"`
	TopicSysFlag int32  `json:"topicSysFlag"`
}

// Route is where a topic lives (105).
type Route struct {
	Nameserver string        `json:"-"`
	Topic      string        `json:"-"`
	Brokers    []BrokerGroup `json:"brokerDatas"`
	Queues     []RouteQueues `json:"queueDatas"`
	OrderConf  string        `json:"orderTopicConf"`
	// Body is the answer as the nameserver gave it, legal JSON.
	Body []byte `json:"-"`
}

// Targets are the route's brokers: all replicas, or the master of each name.
func (r *Route) Targets(mastersOnly bool) []Target {
	view := Cluster{Nameserver: r.Nameserver, Brokers: make(map[string]BrokerGroup)}
	for _, g := range r.Brokers {
		view.Brokers[g.Name] = g
	}
	var out []Target
	for _, name := range view.BrokerNames("") {
		out = append(out, view.replicas(name, mastersOnly)...)
	}
	return out
}

// Route asks any nameserver where topic lives; *NotFound when none knows it.
// A nameserver that has not heard of the topic yet does not hide one that has.
func (c *Client) Route(ctx context.Context, topic string) (*Route, error) {
	var unknown error
	r, err := anyNameserver(ctx, c, func(addr string) (*Route, error) {
		r, err := c.RouteAt(ctx, addr, topic)
		var missing *NotFound
		if errors.As(err, &missing) {
			unknown = err
			return nil, &Unreachable{Addr: addr, Err: err}
		}
		return r, err
	})
	if err != nil && unknown != nil && ctx.Err() == nil {
		return nil, unknown
	}
	return r, err
}

// RouteAt asks one nameserver (105).
func (c *Client) RouteAt(ctx context.Context, nameserver, topic string) (*Route, error) {
	r := request{code: remoting.ReqGetRouteInfoByTopic, ext: remoting.Map{"topic": topic, "acceptStandardJsonOnly": "true"}}
	resp, err := c.call(ctx, nameserver, r)
	if err != nil {
		return nil, orNotFound(err, remoting.CodeTopicNotExist, "topic", topic)
	}
	route := &Route{Nameserver: nameserver, Topic: topic, Body: resp.Body}
	if err := decode(nameserver, r.code, resp.Body, route); err != nil {
		return nil, err
	}
	return route, nil
}

type topicList struct {
	Topics []string `json:"topicList"`
	Addr   string   `json:"brokerAddr"`
}

// names reads a TopicList answer; an answer without a body is an empty list.
func (c *Client) names(ctx context.Context, addr string, r request) (topicList, error) {
	var l topicList
	resp, err := c.call(ctx, addr, r)
	if err != nil || len(resp.Body) == 0 {
		return l, err
	}
	err = decode(addr, r.code, resp.Body, &l)
	sort.Strings(l.Topics)
	return l, err
}

// Topics are all topics that any one nameserver knows (206), sorted.
func (c *Client) Topics(ctx context.Context) ([]string, error) {
	return anyNameserver(ctx, c, func(addr string) ([]string, error) { return c.TopicsAt(ctx, addr) })
}

// TopicsAt are all topics that one nameserver knows (206), sorted.
func (c *Client) TopicsAt(ctx context.Context, nameserver string) ([]string, error) {
	l, err := c.names(ctx, nameserver, request{code: remoting.ReqGetAllTopicListFromNameserver})
	return l.Topics, err
}

// TopicsOfCluster are the topics of one cluster (224), sorted.
func (c *Client) TopicsOfCluster(ctx context.Context, cluster string) ([]string, error) {
	return anyNameserver(ctx, c, func(addr string) ([]string, error) {
		l, err := c.names(ctx, addr, request{code: remoting.ReqGetTopicsByCluster, ext: remoting.Map{"cluster": cluster}})
		return l.Topics, err
	})
}

// SystemNames are the names that a nameserver reserves (304): those of clusters
// and brokers. The system topics themselves are known to brokers (305).
func (c *Client) SystemNames(ctx context.Context) ([]string, error) {
	return anyNameserver(ctx, c, func(addr string) ([]string, error) {
		l, err := c.names(ctx, addr, request{code: remoting.ReqGetSystemTopicListFromNS})
		return l.Topics, err
	})
}

// DeleteTopicAt makes one nameserver forget a topic (216); cluster "" means in all clusters.
func (c *Client) DeleteTopicAt(ctx context.Context, nameserver, topic, cluster string) error {
	ext := remoting.Map{"topic": topic}
	if cluster != "" {
		ext["clusterName"] = cluster
	}
	_, err := c.call(ctx, nameserver, request{code: remoting.ReqDeleteTopicInNamesrv, ext: ext, write: true})
	return err
}

// OrderConfigNamespace holds the queue lists of ordered topics in the nameservers' key table.
const OrderConfigNamespace = "ORDER_TOPIC_CONFIG"

// KV reads one value of the key table (101).
func (c *Client) KV(ctx context.Context, namespace, key string) (string, error) {
	return anyNameserver(ctx, c, func(addr string) (string, error) { return c.KVAt(ctx, addr, namespace, key) })
}

// KVAt reads one value of one nameserver's key table (101).
func (c *Client) KVAt(ctx context.Context, nameserver, namespace, key string) (string, error) {
	resp, err := c.call(ctx, nameserver, request{code: remoting.ReqGetKVConfig, ext: remoting.Map{"namespace": namespace, "key": key}})
	if err != nil {
		return "", orNotFound(err, remoting.CodeQueryNotFound, "key", namespace+"/"+key)
	}
	return resp.Ext["value"], nil
}

// KVs reads a namespace of the key table (219).
func (c *Client) KVs(ctx context.Context, namespace string) (map[string]string, error) {
	return anyNameserver(ctx, c, func(addr string) (map[string]string, error) { return c.KVsAt(ctx, addr, namespace) })
}

// KVsAt reads a namespace of one nameserver's key table (219).
func (c *Client) KVsAt(ctx context.Context, nameserver, namespace string) (map[string]string, error) {
	var t struct {
		Table map[string]string `json:"table"`
	}
	err := c.callJSON(ctx, nameserver, request{code: remoting.ReqGetKVListByNamespace, ext: remoting.Map{"namespace": namespace}}, &t)
	return t.Table, orNotFound(err, remoting.CodeQueryNotFound, "namespace", namespace)
}

// PutKVAt writes one value at one nameserver (100).
func (c *Client) PutKVAt(ctx context.Context, nameserver, namespace, key, value string) error {
	_, err := c.call(ctx, nameserver, request{code: remoting.ReqPutKVConfig, write: true,
		ext: remoting.Map{"namespace": namespace, "key": key, "value": value}})
	return err
}

// DeleteKVAt removes one value at one nameserver (102).
func (c *Client) DeleteKVAt(ctx context.Context, nameserver, namespace, key string) error {
	_, err := c.call(ctx, nameserver, request{code: remoting.ReqDeleteKVConfig, write: true,
		ext: remoting.Map{"namespace": namespace, "key": key}})
	return err
}

// WipeWritePermAt takes the write permission of a broker's topics out of one
// nameserver's routes (205) and returns how many topics that were.
func (c *Client) WipeWritePermAt(ctx context.Context, nameserver, broker string) (int, error) {
	return c.writePerm(ctx, nameserver, broker, remoting.ReqWipeWritePermOfBroker, "wipeTopicCount")
}

// AddWritePermAt gives it back (327).
func (c *Client) AddWritePermAt(ctx context.Context, nameserver, broker string) (int, error) {
	return c.writePerm(ctx, nameserver, broker, remoting.ReqAddWritePermOfBroker, "addTopicCount")
}

func (c *Client) writePerm(ctx context.Context, nameserver, broker string, code int, count string) (int, error) {
	resp, err := c.call(ctx, nameserver, request{code: code, ext: remoting.Map{"brokerName": broker}, write: true})
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(resp.Ext[count])
	if err != nil {
		return 0, &BadAnswer{Addr: nameserver, Request: code, Err: err}
	}
	return n, nil
}
