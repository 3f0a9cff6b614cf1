package top

import (
	"sort"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// progress makes the rows of groups and topics from what the masters said about
// all groups; slaves keep copies of the offsets and are not counted twice.
func (c *Collector) progress(f *Frame, all []*heard, now time.Time) {
	groups, topics := map[string]*Group{}, map[string]*Topic{}
	ends := map[string]map[place]int64{} // by topic: next offset
	for i, h := range all {
		if f.Brokers[i].MaxOffset == nil {
			continue
		}
		for name, queues := range h.now.groups {
			if c.Hidden != nil && c.Hidden(name) {
				continue
			}
			g := groups[name]
			if g == nil {
				g = &Group{Group: name, queues: make([]queue, 0, len(queues))}
				groups[name] = g
			}
			g.queues = append(g.queues, queues...)
			for _, q := range queues {
				g.Lag += max(0, q.end-q.at)
				if ends[q.topic] == nil {
					ends[q.topic] = map[place]int64{}
				}
				ends[q.topic][place{q.broker, q.id}] = q.end
			}
		}
	}
	for _, g := range groups {
		g.count(topics)
		f.Groups = append(f.Groups, *g)
	}
	for name, queues := range ends {
		topics[name].Queues = int64(len(queues))
	}
	for _, t := range topics {
		f.Topics = append(f.Topics, *t)
	}
	c.rates(f, ends, now)
	sort.Slice(f.Groups, func(i, j int) bool {
		a, b := &f.Groups[i], &f.Groups[j]
		return a.Lag > b.Lag || a.Lag == b.Lag && a.Group < b.Group
	})
	sort.Slice(f.Topics, func(i, j int) bool {
		a, b := value(f.Topics[i].InPerSecond), value(f.Topics[j].InPerSecond)
		return a > b || a == b && f.Topics[i].Topic < f.Topics[j].Topic
	})
}

// place is a queue of a topic.
type place struct {
	broker string
	id     int32
}

// queuesOf keeps of an answer what is shown, and each name once: the answer of a
// broker with thousands of queues is large.
func queuesOf(s *admin.BrokerConsumeStats) map[string][]queue {
	names := map[string]string{}
	once := func(name string) string {
		if n, ok := names[name]; ok {
			return n
		}
		names[name] = name
		return name
	}
	out := make(map[string][]queue, len(s.Groups))
	for _, one := range s.Groups {
		for group, list := range one {
			for _, stats := range list {
				for q, p := range stats.Queues {
					out[group] = append(out[group], queue{once(q.Topic), once(q.Broker), q.ID, p.BrokerOffset, p.ConsumerOffset})
				}
			}
		}
	}
	return out
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// count sums the queues of a group and tells its topics of it.
func (g *Group) count(topics map[string]*Topic) {
	sort.Slice(g.queues, func(i, j int) bool {
		a, b := g.queues[i], g.queues[j]
		if a.topic != b.topic {
			return a.topic < b.topic
		}
		return a.broker < b.broker || a.broker == b.broker && a.id < b.id
	})
	lag := map[string]int64{}
	for _, q := range g.queues {
		lag[q.topic] += max(0, q.end-q.at)
	}
	g.Topics, g.Queues = int64(len(lag)), int64(len(g.queues))
	for name, n := range lag {
		t := topics[name]
		if t == nil {
			t = &Topic{Topic: name}
			topics[name] = t
		}
		t.Groups++
		t.groups = append(t.groups, g.Group)
		t.MaxLag = max(t.MaxLag, n)
	}
}

// rates compares with the sums of the frame before.
func (c *Collector) rates(f *Frame, ends map[string]map[place]int64, now time.Time) {
	groups, topics := map[string]total{}, map[string]total{}
	for i := range f.Groups {
		g := &f.Groups[i]
		t := total{at: now, lag: g.Lag}
		for _, q := range g.queues {
			t.out += q.at
		}
		groups[g.Group] = t
		was, ok := c.groups[g.Group]
		d := now.Sub(was.at).Seconds()
		if !ok || d <= 0 {
			continue
		}
		per := float64(t.lag-was.lag) / d
		g.LagPerSecond = &per
		if out := float64(t.out-was.out) / d; out >= 0 {
			g.OutPerSecond = &out
		}
		if per < 0 && g.Lag > 0 {
			ms := int64(float64(g.Lag) / -per * 1000)
			g.CatchUp = &ms
		}
	}
	for i := range f.Topics {
		t := &f.Topics[i]
		sum := total{at: now}
		for _, end := range ends[t.Topic] {
			sum.out += end
		}
		topics[t.Topic] = sum
		was, ok := c.topics[t.Topic]
		if d := now.Sub(was.at).Seconds(); ok && d > 0 && sum.out >= was.out {
			per := float64(sum.out-was.out) / d
			t.InPerSecond = &per
		}
	}
	c.groups, c.topics = groups, topics
}

// changes are the events between the frame before and this one. Of brokers in own
// only that they come and go is told: they remember the rest themselves.
func (c *Collector) changes(f *Frame, own map[string]bool) []Event {
	out := []Event{}
	if !c.first {
		return out
	}
	say := func(kind, target, before, after string) {
		out = append(out, Event{At: f.At, Kind: kind, Target: target, Before: known(before), After: known(after)})
	}
	was := map[string]*Broker{}
	for i := range c.before.Brokers {
		was[c.before.Brokers[i].Name()] = &c.before.Brokers[i]
	}
	for i := range f.Brokers {
		b := &f.Brokers[i]
		old := was[b.Name()]
		switch {
		case old == nil:
			say("BROKER", b.Name(), "", firstWord(b.State))
		case old.MaxOffset != nil != (b.MaxOffset != nil):
			say("BROKER", b.Name(), firstWord(old.State), firstWord(b.State))
		}
		if old != nil && old.MaxOffset != nil && b.MaxOffset != nil && old.Role != b.Role && !own[b.Name()] {
			say("ROLE", b.Name(), old.Role, b.Role)
		}
	}
	c.inSync(f, own, say)
	names := func(f *Frame) map[string]bool {
		m := map[string]bool{}
		for _, g := range f.Groups {
			m[g.Group] = true
		}
		return m
	}
	if f.Complete && c.before.Complete && len(own) < len(f.Brokers) {
		differ("GROUP", names(c.before), names(f), say)
		topics := func(f *Frame) map[string]bool {
			m := map[string]bool{}
			for _, t := range f.Topics {
				m[t.Topic] = true
			}
			return m
		}
		differ("TOPIC", topics(c.before), topics(f), say)
	}
	return out
}

// firstWord is a state without its age.
func firstWord(state string) string {
	if strings.HasPrefix(state, "unreachable") {
		return "unreachable"
	}
	return state
}

func (c *Collector) inSync(f *Frame, own map[string]bool, say func(kind, target, before, after string)) {
	was := map[string]bool{}
	for _, l := range c.before.HA {
		was[l.Slave] = l.InSync != nil && *l.InSync
	}
	words := map[bool]string{true: "in sync", false: "not in sync"}
	for _, l := range f.HA {
		now := l.InSync != nil && *l.InSync
		if old, ok := was[l.Slave]; ok && old != now && !own[l.Master] {
			say("IN_SYNC", l.Slave, words[old], words[now])
		}
	}
}

// differ tells names that came and went, in order.
func differ(kind string, was, is map[string]bool, say func(kind, target, before, after string)) {
	var names []string
	for n := range was {
		if !is[n] {
			names = append(names, n)
		}
	}
	for n := range is {
		if !was[n] {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		if is[n] {
			say(kind, n, "", "there")
		} else {
			say(kind, n, "there", "")
		}
	}
}
