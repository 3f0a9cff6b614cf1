package cli

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// eventItem is one change in a cluster.
type eventItem struct {
	At     *string `json:"at"`
	Broker string  `json:"broker"`
	Kind   string  `json:"kind" enum:"BROKER|ROLE|SLAVE|MASTER|TOPIC|GROUP|CONFIG"`
	Target string  `json:"target"`
	Before *string `json:"before"`
	After  *string `json:"after"`
	Source string  `json:"source" enum:"BROKER|POLL"` // the broker remembers it, or mqctl saw the difference

	ms int64
}

var eventKinds = []string{"BROKER", "ROLE", "SLAVE", "MASTER", "TOPIC", "GROUP", "CONFIG"}

func eventsCommand() *command {
	return &command{
		path: "events", summary: "changes of roles, brokers, groups, topics and settings", run: runEvents, schema: "mqctl.events/v1",
		exits: []int{ExitNotFound, ExitPartial}, attrs: streams,
		examples: []string{"mqctl events --since 1h", "mqctl events --follow -o jsonl", "mqctl events --kind ROLE --broker broker-a"},
		flags: []flagSpec{
			{key: "kind", kind: kindList, meta: "KIND", help: "only these: " + strings.Join(eventKinds, ", ") + "; may be repeated"},
			{key: "since", meta: "DUR|TIME", help: "not older than this"},
			{key: "follow", kind: kindBool, help: "go on until interrupted; brokers that remember nothing are polled then"},
			{key: "every", kind: kindDuration, def: "1s", meta: "DUR", help: "pause between two polls"},
		},
		view: view{
			item: eventItem{}, name: func(item any) string { return item.(*eventItem).Target },
			columns: []column{
				{head: "AT", field: "at", as: asTime}, {head: "BROKER", field: "broker"}, {head: "KIND", field: "kind"}, {head: "TARGET", field: "target"},
				{head: "BEFORE", field: "before", fold: 1}, {head: "AFTER", field: "after"}, {head: "SOURCE", field: "source", wide: true},
			},
		},
	}
}

// eventWatch is what events knows of each broker between two rounds.
type eventWatch struct {
	c      *call
	kinds  map[string]bool // nil: all
	since  int64           // ms
	seq    map[string]int64
	boot   map[string]string
	before map[string]map[string]string // of polled brokers: "KIND target" -> what it was
	view   map[string]admin.Target      // registered brokers
	ready  bool

	answered map[string]bool // in the last round
	trouble  map[string]bool // who does not answer: it was said
}

func runEvents(ctx context.Context, c *call) (*result, error) {
	if c.on("follow") && (c.p.format == "json" || c.p.format == "csv" || c.p.format == "template") {
		return nil, usage("CONTRADICTION", "--follow has no end, so --output %s cannot be closed", c.p.format).try("--output jsonl")
	}
	w := &eventWatch{c: c, seq: map[string]int64{}, boot: map[string]string{}, before: map[string]map[string]string{}, trouble: map[string]bool{}}
	for _, text := range c.list("kind") {
		for _, kind := range strings.Split(strings.ToUpper(text), ",") {
			if !slices.Contains(eventKinds, kind) {
				m := usage("BAD_VALUE", "--kind: there is no kind of event %q", kind).because("one of %s", strings.Join(eventKinds, ", "))
				for _, n := range nearest(kind, eventKinds) {
					m.offer("--kind " + n)
				}
				return nil, m
			}
			if w.kinds == nil {
				w.kinds = map[string]bool{}
			}
			w.kinds[kind] = true
		}
	}
	if c.given("since") {
		ms, err := c.sinceMillis()
		if err != nil {
			return nil, err
		}
		w.since = ms
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	r, err := w.round(ctx)
	if err != nil || !c.on("follow") {
		return r, err
	}
	last := r
	for {
		w.tell(last)
		if err := c.p.print(last); err != nil {
			return nil, err
		}
		c.p.headers = false
		if !rest(ctx, c.duration("every")) || c.p.broken != nil {
			return &result{streamed: true, done: 1}, nil
		}
		next, err := w.round(ctx)
		switch {
		case ctx.Err() != nil:
			return &result{streamed: true, done: 1}, nil
		case err != nil:
			m := *asMessage(err)
			m.Target, m.Addr = "", "" // no broker: nobody says which there are
			last = &result{errors: []Message{m}}
		default:
			last = next
		}
	}
}

// round asks everybody once.
func (w *eventWatch) round(ctx context.Context) (*result, error) {
	cluster, err := w.c.client.Cluster(ctx)
	if err != nil {
		return nil, w.c.explain(err)
	}
	targets, err := everyReplica(cluster, w.c.selector(false))
	if err != nil && !w.ready {
		return nil, w.c.explain(err)
	}
	r := &result{cluster: clusterOf(targets), empty: "nothing has changed"}
	var items []*eventItem
	if w.c.on("follow") {
		targets, items = w.registered(ctx, targets)
	}
	w.answered = map[string]bool{"": true}
	var silent []string
	for _, res := range admin.Each(ctx, w.c.client, 0, targets, w.ask) {
		if res.Err != nil {
			r.failed(w.c.at(res.Err, res.Target))
			continue
		}
		r.done++
		w.answered[res.Target.String()] = true
		if res.Value.own == nil {
			silent = append(silent, res.Target.String())
			items = append(items, w.compare(res.Target, res.Value.state)...)
			continue
		}
		w.seq[res.Target.Addr], w.boot[res.Target.Addr] = res.Value.own.Next, res.Value.boot
		for _, e := range res.Value.own.Events {
			items = append(items, eventOf(e))
		}
	}
	if len(silent) > 0 && !w.ready && !w.c.on("follow") {
		r.warn(warning("NOTHING_REMEMBERED", silent[0], "%s remember no events", strings.Join(silent, ", ")))
		r.warnings[len(r.warnings)-1].Try = []string{"mqctl events --follow"}
	}
	w.ready = true
	sort.SliceStable(items, func(i, j int) bool { return items[i].ms < items[j].ms })
	for _, it := range items {
		if it.ms >= w.since && (w.kinds == nil || w.kinds[it.Kind]) {
			r.add(it)
		}
	}
	return r, nil
}

func eventOf(e body.Event) *eventItem {
	return &eventItem{At: stampMillis(e.At), Broker: e.Broker, Kind: e.Kind, Target: e.Target, Before: textOrNil(e.Before), After: textOrNil(e.After), Source: "BROKER", ms: e.At}
}

// heardEvents is what one broker said in a round.
type heardEvents struct {
	own   *body.InspectEvents
	boot  string
	state map[string]string // of a broker that remembers nothing
}

func (w *eventWatch) ask(ctx context.Context, t admin.Target) (heardEvents, error) {
	rt, err := w.c.client.RuntimeInfo(ctx, t.Addr)
	if err != nil {
		return heardEvents{}, err
	}
	if admin.Offers(rt, "MQCTL_INSPECT") {
		since := w.seq[t.Addr]
		if w.boot[t.Addr] != rt["bootTimestamp"] {
			since = 0 // numbers begin anew with each start
		}
		own, err := w.c.client.InspectEvents(ctx, t.Addr, since)
		return heardEvents{own: own, boot: rt["bootTimestamp"]}, err
	}
	if !w.c.on("follow") {
		return heardEvents{state: map[string]string{}}, nil
	}
	return w.poll(ctx, t)
}

// poll reads what can change at a broker that remembers no events.
func (w *eventWatch) poll(ctx context.Context, t admin.Target) (heardEvents, error) {
	out := map[string]string{}
	topics, _, err := w.c.client.TopicConfigs(ctx, t.Addr)
	if err != nil {
		return heardEvents{}, err
	}
	for name, cfg := range topics {
		out["TOPIC "+name] = fmt.Sprintf("read %d, write %d, %s", cfg.ReadQueueNums, cfg.WriteQueueNums, permText(cfg.Perm))
	}
	groups, _, err := w.c.client.Groups(ctx, t.Addr)
	if err != nil {
		return heardEvents{}, err
	}
	for name, cfg := range groups {
		out["GROUP "+name] = fmt.Sprintf("consume %t, broker %d, slow broker %d, retries %d", cfg.ConsumeEnable, cfg.BrokerID, cfg.WhichBrokerWhenConsumeSlowly, cfg.RetryMaxTimes)
	}
	cfg, err := w.c.client.BrokerConfig(ctx, t.Addr)
	if err != nil {
		return heardEvents{}, err
	}
	for k, v := range cfg.Values {
		if !secretWord(k) {
			out["CONFIG "+k] = v
		}
	}
	out["ROLE role"] = (replica{config: cfg.Values}).role(t.ID)
	if ha, err := w.c.client.HAStatus(ctx, t.Addr); err == nil && ha.Master {
		for _, s := range ha.Peers {
			out["SLAVE "+s.Addr] = "in sync " + strconv.FormatBool(s.InSync)
		}
	}
	return heardEvents{state: out}, nil
}

// compare makes events of what is different since the round before.
func (w *eventWatch) compare(t admin.Target, now map[string]string) []*eventItem {
	was, known := w.before[t.Addr]
	w.before[t.Addr] = now
	if !known {
		return nil
	}
	return differences(was, now, t.String())
}

// registered makes events of brokers that came and went. One that no nameserver
// has any more but that still answers has not gone: nameservers that start again
// know nobody for a while.
func (w *eventWatch) registered(ctx context.Context, targets []admin.Target) ([]admin.Target, []*eventItem) {
	now := map[string]admin.Target{}
	for _, t := range targets {
		if t.Addr != "" {
			now[t.String()] = t
		}
	}
	was := w.view
	var vanished []admin.Target
	for _, name := range sortedKeys(was) {
		if _, there := now[name]; !there {
			vanished = append(vanished, was[name])
		}
	}
	for _, res := range admin.Each(ctx, w.c.client, 0, vanished, func(ctx context.Context, t admin.Target) (admin.Target, error) {
		return w.c.client.Identify(ctx, t.Addr)
	}) {
		if res.Err == nil && res.Value.String() == res.Target.String() {
			now[res.Target.String()] = res.Target
			targets = append(slices.Clone(targets), res.Target)
		}
	}
	w.view = now
	if was == nil {
		return targets, nil
	}
	return targets, differences(placesOf(was), placesOf(now), "")
}

// placesOf are brokers as differences knows them.
func placesOf(brokers map[string]admin.Target) map[string]string {
	out := map[string]string{}
	for name, t := range brokers {
		out["BROKER "+name] = t.Addr
	}
	return out
}

// tell says on stderr who does not answer any more, and who does again: once each.
func (w *eventWatch) tell(r *result) {
	now := map[string]bool{}
	say := &result{}
	for i := range r.errors {
		m := r.errors[i]
		if now[m.Target] {
			continue
		}
		now[m.Target] = true
		if !w.trouble[m.Target] {
			say.errors = append(say.errors, m)
		}
	}
	for _, who := range sortedKeys(w.trouble) {
		switch {
		case now[who]:
		case now[""]:
			now[who] = true // nobody can tell
		case w.answered[who]:
			name := who
			if who == "" {
				name = "the nameserver"
			}
			say.warn(warning("ANSWERS_AGAIN", who, "%s answers again", name))
		}
	}
	w.trouble = now
	w.c.p.messages(say)
}

func differences(was, now map[string]string, broker string) []*eventItem {
	var out []*eventItem
	at := time.Now()
	add := func(key string, before, after *string) {
		kind, target, _ := strings.Cut(key, " ")
		out = append(out, &eventItem{At: ptr(stamp(at)), Broker: firstOf(broker, target), Kind: kind, Target: target, Before: before, After: after, Source: "POLL", ms: at.UnixMilli()})
	}
	for _, key := range sortedKeys(now) {
		if old, ok := was[key]; !ok {
			add(key, nil, ptr(now[key]))
		} else if old != now[key] {
			add(key, &old, ptr(now[key]))
		}
	}
	for _, key := range sortedKeys(was) {
		if _, ok := now[key]; !ok {
			add(key, ptr(was[key]), ptr("gone"))
		}
	}
	return out
}
