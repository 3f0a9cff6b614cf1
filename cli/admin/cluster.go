package admin

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Target is one broker process.
type Target struct {
	Cluster, Broker string // "" when only the address is known
	ID              int64  // 0 is the master; -1 when only the address is known
	Addr            string // host:port; "" when the name has no such replica registered
}

// String is the form that --broker takes: NAME/ID, or the address.
func (t Target) String() string {
	if t.Broker == "" {
		return t.Addr
	}
	return t.Broker + "/" + strconv.FormatInt(t.ID, 10)
}

// BrokerGroup is a broker name with its replicas.
type BrokerGroup struct {
	Cluster            string           `json:"cluster"`
	Name               string           `json:"brokerName"`
	Addrs              map[int64]string `json:"brokerAddrs"`
	EnableActingMaster bool             `json:"enableActingMaster"`
}

// IDs are the replicas' ids in ascending order.
func (g BrokerGroup) IDs() []int64 {
	ids := make([]int64, 0, len(g.Addrs))
	for id := range g.Addrs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Master is the address of id 0, or "".
func (g BrokerGroup) Master() string { return g.Addrs[0] }

// Cluster is what a nameserver knows of all brokers (code 106).
type Cluster struct {
	Nameserver string                 // who said so
	Brokers    map[string]BrokerGroup // by broker name
	Clusters   map[string][]string    // cluster name -> broker names
}

// Names are the clusters' names in ascending order.
func (c *Cluster) Names() []string {
	names := make([]string, 0, len(c.Clusters))
	for n := range c.Clusters {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// BrokerNames are the names of a cluster's brokers ("" means of all clusters) in ascending order.
func (c *Cluster) BrokerNames(cluster string) []string {
	var names []string
	for name, g := range c.Brokers {
		if cluster == "" || g.Cluster == cluster {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Selector says which brokers a command is about: --cluster and --broker.
type Selector struct {
	Cluster string
	// Broker is NAME (master and slaves), NAME/ID or HOST:PORT.
	Broker string
	// MastersOnly takes only id 0 of each name (a name given with an ID is taken as given).
	MastersOnly bool
}

// IsAddress reports whether a --broker value is HOST:PORT.
func IsAddress(broker string) bool { return strings.Contains(broker, ":") }

// Targets resolves s. HOST:PORT needs no nameserver. Without cluster and broker
// the only cluster is taken; several are a *TargetMissing. A name without a
// master appears, with MastersOnly, as a Target without an address, so that it
// is reported instead of silently left out.
func (c *Client) Targets(ctx context.Context, s Selector) ([]Target, error) {
	if IsAddress(s.Broker) {
		if err := checkAddress(s.Broker); err != nil {
			return nil, err
		}
		return []Target{{ID: -1, Addr: s.Broker}}, nil
	}
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return cluster.Targets(s)
}

// Targets resolves s within this view.
func (c *Cluster) Targets(s Selector) ([]Target, error) {
	if IsAddress(s.Broker) {
		return c.byAddress(s.Broker), nil
	}
	if s.Cluster != "" {
		if _, ok := c.Clusters[s.Cluster]; !ok {
			return nil, &NotFound{Kind: "cluster", Name: s.Cluster, Where: c.Nameserver, Known: c.Names()}
		}
	}
	if s.Broker != "" {
		return c.byName(s)
	}
	names := c.BrokerNames(s.Cluster)
	if s.Cluster == "" && len(c.Clusters) > 1 {
		return nil, &TargetMissing{Clusters: c.Names()}
	}
	var out []Target
	for _, name := range names {
		out = append(out, c.replicas(name, s.MastersOnly)...)
	}
	if len(out) == 0 {
		return nil, &NotFound{Kind: "broker", Where: c.Nameserver}
	}
	return out, nil
}

// byAddress finds the name that an address is registered under.
func (c *Cluster) byAddress(addr string) []Target {
	for _, g := range c.Brokers {
		for id, a := range g.Addrs {
			if a == addr {
				return []Target{{Cluster: g.Cluster, Broker: g.Name, ID: id, Addr: addr}}
			}
		}
	}
	return []Target{{ID: -1, Addr: addr}}
}

func (c *Cluster) byName(s Selector) ([]Target, error) {
	name, idText, hasID := strings.Cut(s.Broker, "/")
	g, ok := c.Brokers[name]
	if !ok || s.Cluster != "" && g.Cluster != s.Cluster {
		return nil, &NotFound{Kind: "broker", Name: name, Where: c.Nameserver, Known: c.BrokerNames(s.Cluster)}
	}
	if !hasID {
		out := c.replicas(name, s.MastersOnly)
		if len(out) == 0 {
			return nil, &NotFound{Kind: "broker", Name: name, Where: c.Nameserver}
		}
		return out, nil
	}
	id, err := strconv.ParseInt(idText, 10, 64)
	if err != nil || id < 0 {
		return nil, &BadAddress{Text: s.Broker, Why: "NAME/ID needs a number from 0 on after the slash"}
	}
	addr, ok := g.Addrs[id]
	if !ok {
		known := make([]string, 0, len(g.Addrs))
		for _, id := range g.IDs() {
			known = append(known, fmt.Sprintf("%s/%d", name, id))
		}
		return nil, &NotFound{Kind: "broker", Name: s.Broker, Where: c.Nameserver, Known: known}
	}
	return []Target{{Cluster: g.Cluster, Broker: name, ID: id, Addr: addr}}, nil
}

// replicas of a name; a name without any address (its registration was refused) gives none.
func (c *Cluster) replicas(name string, mastersOnly bool) []Target {
	g := c.Brokers[name]
	if len(g.Addrs) == 0 {
		return nil
	}
	if mastersOnly {
		return []Target{{Cluster: g.Cluster, Broker: name, ID: 0, Addr: g.Master()}}
	}
	var out []Target
	for _, id := range g.IDs() {
		out = append(out, Target{Cluster: g.Cluster, Broker: name, ID: id, Addr: g.Addrs[id]})
	}
	return out
}
