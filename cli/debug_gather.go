package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"mqctl/cli/admin"
)

// gathered is one part of a bundle before it is cleaned.
type gathered struct {
	name    string
	doc     any    // becomes JSON; nil: text
	text    []byte // lines of settings, or of JSON objects
	binary  bool   // text is a profile, which holds names of functions and counts
	lines   bool   // text is JSON objects, one a line
	err     error
	skipped string // why there is nothing to have
}

// brokerParts is all of one broker.
type brokerParts struct {
	bundled
	parts   []gathered
	secrets map[string]string // its settings, for the scrubber
}

// brokerGather asks one broker for its parts, one request after the other.
type brokerGather struct {
	c       *call
	t       admin.Target
	out     *brokerParts
	since   time.Time
	token   string
	seconds int
	lost    error // the broker has gone: nothing else is asked
}

// add asks for one part, unless the broker has gone. What it does not offer is
// skipped: that is no fault.
func (g *brokerGather) add(ctx context.Context, name string, ask func(ctx context.Context, addr string) (any, error)) {
	if g.lost != nil {
		return
	}
	v, err := ask(ctx, g.t.Addr)
	p := gathered{name: g.out.Folder + "/" + name, doc: v}
	var refused *admin.Refused
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.Unsupported():
		p.doc, p.skipped = nil, "the broker does not offer it"
	default:
		p.doc, p.err = nil, err
		if gone(err) || ctx.Err() != nil {
			g.lost = err
		}
	}
	g.out.parts = append(g.out.parts, p)
}

// own is add for what only brokers of mqctl know.
func (g *brokerGather) own(ctx context.Context, name string, ask func(ctx context.Context, addr string) (any, error)) {
	if !g.out.Ours && g.lost == nil {
		g.skip(name, "only brokers of mqctl tell this")
		return
	}
	g.add(ctx, name, ask)
}

func (g *brokerGather) skip(name, why string) {
	g.out.parts = append(g.out.parts, gathered{name: g.out.Folder + "/" + name, skipped: why})
}

// asking drops the type of an answer.
func asking[T any](f func(ctx context.Context, addr string) (T, error)) func(ctx context.Context, addr string) (any, error) {
	return func(ctx context.Context, addr string) (any, error) {
		v, err := f(ctx, addr)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
}

// backlogRow is a group's place in one queue, in a bundle.
type backlogRow struct {
	Group          string `json:"group"`
	Topic          string `json:"topic"`
	Broker         string `json:"broker"`
	QueueID        int32  `json:"queueId"`
	BrokerOffset   int64  `json:"brokerOffset"`
	ConsumerOffset int64  `json:"consumerOffset"`
	LastMillis     int64  `json:"lastTimestamp"`
}

// backlogRows are the rows of an answer to 317, in order.
func backlogRows(stats *admin.BrokerConsumeStats) []backlogRow {
	out := []backlogRow{}
	for _, one := range stats.Groups {
		for group, list := range one {
			for _, s := range list {
				for q, p := range s.Queues {
					out = append(out, backlogRow{group, q.Topic, q.Broker, q.ID, p.BrokerOffset, p.ConsumerOffset, p.LastMillis})
				}
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		switch {
		case a.Group != b.Group:
			return a.Group < b.Group
		case a.Topic != b.Topic:
			return a.Topic < b.Topic
		case a.Broker != b.Broker:
			return a.Broker < b.Broker
		}
		return a.QueueID < b.QueueID
	})
	return out
}

// gatherBroker asks a broker for everything.
func (c *call) gatherBroker(ctx context.Context, t admin.Target, since time.Time, token string) *brokerParts {
	out := &brokerParts{bundled: bundled{Broker: t.Broker, BrokerID: t.ID, Addr: t.Addr, At: stamp(time.Now()), Folder: "brokers/" + fileWord(t.Broker) + "-" + fmt.Sprint(t.ID)}}
	if t.Broker == "" {
		out.Folder = "brokers/" + fileWord(t.Addr)
	}
	g := &brokerGather{c: c, t: t, out: out, since: since, token: token, seconds: int(c.whole("seconds"))}
	if t.Addr == "" {
		g.lost = &admin.Unreachable{Err: admin.ErrNoAddress}
		out.parts = append(out.parts, gathered{name: out.Folder + "/runtime.json", err: g.lost})
		out.Error = ptr("no address is registered for it")
		return out
	}
	g.add(ctx, "runtime.json", asking(func(ctx context.Context, addr string) (map[string]string, error) {
		rt, err := c.client.RuntimeInfo(ctx, addr)
		out.Answered, out.Ours = err == nil, admin.Offers(rt, "MQCTL_INSPECT")
		return rt, err
	}))
	g.settings(ctx)
	g.state(ctx)
	g.log(ctx)
	g.profiles(ctx)
	if g.lost != nil {
		out.Error = ptr(asMessage(c.explain(g.lost)).Text)
	}
	return out
}

// settings are the configuration, and of ours where each value came from.
func (g *brokerGather) settings(ctx context.Context) {
	c := g.c
	g.add(ctx, "config.properties", func(ctx context.Context, addr string) (any, error) {
		cfg, err := c.client.BrokerConfig(ctx, addr)
		if err != nil {
			return nil, err
		}
		g.out.secrets = cfg.Values
		var b bytes.Buffer
		for _, k := range cfg.Keys {
			fmt.Fprintf(&b, "%s=%s\n", k, cfg.Values[k])
		}
		return b.Bytes(), nil
	})
	g.own(ctx, "config-origins.json", asking(c.client.InspectConfig))
	g.add(ctx, "topics.json", asking(func(ctx context.Context, addr string) (any, error) {
		v, _, err := c.client.TopicConfigs(ctx, addr)
		return v, err
	}))
	g.add(ctx, "groups.json", asking(func(ctx context.Context, addr string) (any, error) {
		v, _, err := c.client.Groups(ctx, addr)
		return v, err
	}))
	g.add(ctx, "offsets.json", asking(c.client.AllOffsets))
}

// state is what the broker is doing.
func (g *brokerGather) state(ctx context.Context) {
	c := g.c
	g.add(ctx, "ha.json", asking(c.client.HAStatus))
	g.add(ctx, "backlog.json", asking(func(ctx context.Context, addr string) ([]backlogRow, error) {
		v, err := c.client.BrokerConsumeStats(ctx, addr, false)
		if err != nil {
			return nil, err
		}
		return backlogRows(v), nil
	}))
	g.own(ctx, "inspect-ha.json", asking(c.client.InspectHA))
	g.own(ctx, "inspect-offsets.json", asking(c.client.InspectOffsets))
	g.own(ctx, "inspect-latency.json", asking(c.client.InspectLatency))
	g.own(ctx, "inspect-pull.json", asking(func(ctx context.Context, addr string) (any, error) {
		return c.client.InspectPull(ctx, addr, "", "", 0)
	}))
	g.own(ctx, "events.json", asking(func(ctx context.Context, addr string) (any, error) {
		v, err := c.client.InspectEvents(ctx, addr, 0)
		if err == nil {
			for i, e := range v.Events {
				if e.At >= g.since.UnixMilli() {
					v.Events = v.Events[i:]
					return v, nil
				}
			}
			v.Events = v.Events[:0]
		}
		return v, err
	}))
}

// bundleLog is how many records of a broker's log are taken.
const bundleLog = 1000

func (g *brokerGather) log(ctx context.Context) {
	g.own(ctx, "log.jsonl", func(ctx context.Context, addr string) (any, error) {
		b, err := g.c.client.Log(ctx, addr, g.since, "info", bundleLog)
		if err != nil {
			return nil, err
		}
		return b, nil
	})
	if n := len(g.out.parts) - 1; n >= 0 && g.out.parts[n].name == g.out.Folder+"/log.jsonl" {
		g.out.parts[n].lines = true
	}
}

// profiles come from the broker's http port, which may be off or out of reach: that
// is no fault of the cluster.
func (g *brokerGather) profiles(ctx context.Context) {
	kinds := []string{"goroutine", "heap"}
	if g.seconds > 0 {
		kinds = append(kinds, "cpu")
	}
	file := map[string]string{"goroutine": "goroutines.txt", "heap": "heap.pprof", "cpu": "cpu.pprof"}
	if g.lost != nil {
		return
	}
	addr, err := "", error(nil)
	if g.out.Ours {
		addr, err = g.c.profileOf(ctx, g.t, g.out.secrets)
	} else {
		err = errors.New("only brokers of mqctl give profiles away")
	}
	for _, kind := range kinds {
		if err != nil {
			g.skip(file[kind], oneLine(asMessage(err).Text))
			continue
		}
		debug := 0
		if kind == "goroutine" {
			debug = 2
		}
		at := profileAt{addr: addr, name: g.t.String(), token: g.token}
		b, perr := at.profile(ctx, g.c.duration("timeout"), kind, g.seconds, debug)
		var m *Message
		switch {
		case perr == nil:
			g.out.parts = append(g.out.parts, gathered{name: g.out.Folder + "/" + file[kind], text: b, binary: kind != "goroutine"})
		case errors.As(perr, &m) && slices.Contains([]string{"NOT_OFFERED", "DENIED", "OTHER_PROCESS", "UNREACHABLE"}, m.Code):
			g.skip(file[kind], m.Text)
		default:
			g.out.parts = append(g.out.parts, gathered{name: g.out.Folder + "/" + file[kind], err: perr})
		}
	}
}

// mostRoutes bounds how many topics' routes are taken of a nameserver.
const mostRoutes = 10_000

// nsRoutes is what one nameserver tells.
type nsRoutes struct {
	Nameserver string                 `json:"nameserver"`
	Brokers    map[string]nsBroker    `json:"brokers"`
	Topics     map[string]nsRouteText `json:"topics"`
	More       int                    `json:"moreTopics"` // that were not asked for
}

type nsBroker struct {
	Cluster string           `json:"cluster"`
	Addrs   map[int64]string `json:"brokerAddrs"`
}

type nsRouteText struct {
	Queues []admin.RouteQueues `json:"queues"`
	Order  string              `json:"orderTopicConf,omitempty"`
	Error  string              `json:"error,omitempty"`
}

// gatherNameserver asks one nameserver for brokers, routes and settings.
func (c *call) gatherNameserver(ctx context.Context, addr, folder string) []gathered {
	routes := gathered{name: folder + "/routes.json"}
	doc, err := c.routesOf(ctx, addr)
	if routes.doc = doc; err != nil {
		routes.doc, routes.err = nil, err
		return []gathered{routes}
	}
	config := gathered{name: folder + "/config.properties"}
	props, err := c.client.NameserverConfig(ctx, addr)
	var refused *admin.Refused
	switch {
	case errors.As(err, &refused):
		config.skipped = "the nameserver does not offer it"
	case err != nil:
		config.err = err
	default:
		var b bytes.Buffer
		for _, k := range props.Keys {
			fmt.Fprintf(&b, "%s=%s\n", k, props.Values[k])
		}
		config.text = b.Bytes()
	}
	return []gathered{routes, config}
}

func (c *call) routesOf(ctx context.Context, addr string) (*nsRoutes, error) {
	view, err := c.client.ClusterAt(ctx, addr)
	if err != nil {
		return nil, err
	}
	out := &nsRoutes{Nameserver: addr, Brokers: map[string]nsBroker{}, Topics: map[string]nsRouteText{}}
	for name, g := range view.Brokers {
		out.Brokers[name] = nsBroker{g.Cluster, g.Addrs}
	}
	names, err := c.client.TopicsAt(ctx, addr)
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	if len(names) > mostRoutes {
		out.More, names = len(names)-mostRoutes, names[:mostRoutes]
	}
	asks := make([]admin.Target, len(names))
	for i, res := range admin.Each(ctx, c.client, 0, indexed(asks), func(ctx context.Context, t admin.Target) (*admin.Route, error) {
		i, _ := atIndex(t, asks)
		return c.client.RouteAt(ctx, addr, names[i])
	}) {
		switch {
		case res.Err == nil:
			out.Topics[names[i]] = nsRouteText{Queues: res.Value.Queues, Order: res.Value.OrderConf}
		case gone(res.Err):
			return nil, res.Err
		default:
			out.Topics[names[i]] = nsRouteText{Error: asMessage(c.explain(res.Err)).Text}
		}
	}
	return out, nil
}
