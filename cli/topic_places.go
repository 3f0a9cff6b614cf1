package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
)

// topicPlace is where one topic lies.
type topicPlace struct {
	clusters []string
	queues   []admin.RouteQueues // of each broker
	at       []admin.Target      // whom to ask about it
}

// heldTopics are the topics of the brokers that --broker or --cluster names, as
// these brokers have them themselves: no nameserver is asked about a topic, and a
// broker named by its address needs none.
type heldTopics struct {
	targets []admin.Target
	places  map[string]*topicPlace
	system  map[string]bool
}

// heldBy asks the brokers that the line names. What one of them did not answer is
// a failure of r.
func (c *call) heldBy(ctx context.Context, r *result) (*heldTopics, error) {
	targets, err := c.targets(ctx, !strings.Contains(c.str("broker"), "/"))
	if err != nil {
		return nil, err
	}
	h := &heldTopics{targets: targets, places: map[string]*topicPlace{}, system: map[string]bool{}}
	r.cluster = clusterOf(targets)
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) (map[string]topic.Config, error) {
		all, _, err := c.client.TopicConfigs(ctx, t.Addr)
		return all, err
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		if names, err := c.client.SystemTopicsAt(ctx, res.Target.Addr); err == nil {
			for _, n := range names {
				h.system[n] = true
			}
		}
		for name, config := range res.Value {
			h.add(name, config, res.Target)
		}
	}
	if len(h.places) == 0 && len(r.errors) > 0 {
		return nil, &r.errors[0]
	}
	return h, nil
}

func (h *heldTopics) add(name string, config topic.Config, t admin.Target) {
	p := h.places[name]
	if p == nil {
		p = &topicPlace{}
		h.places[name] = p
	}
	if t.Cluster != "" && !slices.Contains(p.clusters, t.Cluster) {
		p.clusters = append(p.clusters, t.Cluster)
	}
	p.at = append(p.at, t)
	p.queues = append(p.queues, admin.RouteQueues{Broker: t.Broker, Perm: config.Perm, ReadQueues: config.ReadQueueNums, WriteQueues: config.WriteQueueNums, TopicSysFlag: config.TopicSysFlag})
}

// names are the topics, sorted; with shown only those that users made.
func (h *heldTopics) names(shown bool) []string {
	var out []string
	for _, n := range sortedKeys(h.places) {
		if !shown || !hiddenTopic(n, h.system) {
			out = append(out, n)
		}
	}
	return out
}

// placeOf is where a topic lies: as the brokers asked have it, or without any its
// route. Nil if it has no route.
func (c *call) placeOf(ctx context.Context, name string, held *heldTopics) (*topicPlace, error) {
	if held != nil {
		return held.places[name], nil
	}
	route, err := c.client.Route(ctx, name)
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &topicPlace{queues: route.Queues, at: c.routeMasters(ctx, route)}
	for _, b := range route.Brokers {
		if !slices.Contains(p.clusters, b.Cluster) {
			p.clusters = append(p.clusters, b.Cluster)
		}
	}
	return p, nil
}
