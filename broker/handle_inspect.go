package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// inspectAdmin serves MQCTL_INSPECT (30001), which shows what RocketMQ's requests
// have no place for. It reads and changes nothing, so that anyone who may ask for
// the runtime state (28) may ask it.
type inspectAdmin struct {
	here   place
	stand  *standingRef
	peers  *peersRef
	live   *liveRef
	store  *store.Store
	groups *subgroup.Groups
	counts *pullStats
	// members are the live clients.
	members *subgroup.Members
	// settings are nil for a broker that was made without a configuration.
	settings *Settings
	acked    ackedBy
	now      func() time.Time          // steady
	dated    func(time.Time) time.Time // of now
	// master and slave are the two sides of replication; false: that side does not run.
	master func() (replication.MasterStatus, bool)
	slave  func() (replication.SlaveStatus, bool)
	// lost are slaves that were connected and are not; nil: nobody remembers.
	lost func() []lostSlave
	// metaAge is how many ms ago metadata was last exchanged, -1 for never, and why
	// that fails now.
	metaAge func() (ageMillis int64, lastError string)
	events  *eventLog
	// latency is the time that puts and reads for pulls took.
	latency func() (put, pull store.Latency)
}

// inspections are what can be asked for.
const inspections = "offsets, ha, pull, latency, events, clients, config"

// serve answers by the request's "what".
func (a *inspectAdmin) serve(_ context.Context, r *remoting.Request) {
	what, _ := r.Ext.Get("what")
	switch what {
	case "offsets":
		jsonReply(r, a.offsets())
	case "ha":
		jsonReply(r, a.ha())
	case "pull":
		a.pull(r)
	case "latency":
		jsonReply(r, a.latencies())
	case "events":
		a.recent(r)
	case "clients":
		jsonReply(r, a.clients())
	case "config":
		a.config(r)
	default:
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("there is nothing to inspect called %q; there are %s", what, inspections), nil, nil)
	}
}

// config is where the values of settings came from; those at their default are
// left out.
func (a *inspectAdmin) config(r *remoting.Request) {
	if a.settings == nil {
		r.Reply(remoting.CodeSystemError, noSettings, nil, nil)
		return
	}
	v := &body.InspectConfig{File: a.settings.path, Origins: map[string]string{}}
	for _, s := range a.settings.Effective() {
		if s.Origin.Kind != "default" {
			v.Origins[s.Key.Name] = s.Origin.String()
		}
	}
	jsonReply(r, v)
}

// mostClients bounds one answer with clients.
const mostClients = 5000

// clients are all live consumers and producers, by group.
func (a *inspectAdmin) clients() body.InspectClients {
	out := body.InspectClients{Clients: []body.InspectClient{}}
	add := func(role, group string, topics []string, list []subgroup.Client) {
		for _, c := range list {
			if len(out.Clients) >= mostClients {
				out.More++
				continue
			}
			out.Clients = append(out.Clients, body.InspectClient{ClientID: c.ClientID, Addr: c.Addr, Language: c.Language, Version: c.Version, Group: group, Role: role, Topics: topics})
		}
	}
	for _, name := range a.members.OnlineGroups() {
		if v := a.members.Group(name); v != nil {
			add("CONSUMER", name, slices.Sorted(maps.Keys(v.Subscriptions)), v.Clients)
		}
	}
	producers := a.members.AllProducers()
	for _, name := range slices.Sorted(maps.Keys(producers)) {
		add("PRODUCER", name, nil, producers[name])
	}
	return out
}

// offsets is where the commit log stands, and how pulls were split lately.
func (a *inspectAdmin) offsets() body.InspectOffsets {
	p, st := a.store.Positions(), a.stand.Load()
	out := body.InspectOffsets{Broker: a.here.name, BrokerID: st.ID, Role: st.Role.String(), Min: int64(p.Min), Max: int64(p.Max),
		Flushed: int64(p.Flushed), Confirmed: int64(p.Confirmed), Dispatched: int64(p.Dispatched)}
	now := a.now().UnixMilli()
	out.PullMillis, _ = a.counts.spans(0, now)
	for _, f := range a.counts.figures("", "", 0, now) {
		for id, n := range f.suggested {
			if id == 0 {
				out.PullToMaster += n
			} else {
				out.PullToSlave += n
			}
		}
	}
	return out
}

// latencies is how long operations took.
func (a *inspectAdmin) latencies() body.InspectLatency {
	line := func(op string, l store.Latency) body.Latency {
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		return body.Latency{Op: op, Count: l.Count, P50Millis: ms(l.P50), P90Millis: ms(l.P90), P99Millis: ms(l.P99), P999Millis: ms(l.P999), MaxMillis: ms(l.Max)}
	}
	put, pull := a.latency()
	return body.InspectLatency{Operations: []body.Latency{line("put", put), line("pull", pull)}}
}

// ha is both sides of replication.
func (a *inspectAdmin) ha() body.InspectHA {
	st := a.stand.Load()
	out := body.InspectHA{Broker: a.here.name, BrokerID: st.ID, Role: st.Role.String(), Epoch: st.Epoch, Fenced: st.Fenced,
		MasterAddr: st.Master, Max: int64(a.store.Positions().Max)}
	if m, ok := a.master(); ok {
		out.InSync, out.BadPeers = m.InSync, m.BadPeers
		for i := range m.Slaves {
			out.Slaves = append(out.Slaves, inspectSlave(&m.Slaves[i]))
		}
		out.Slaves = a.addLost(out.Slaves, out.Max)
	}
	if s, ok := a.slave(); ok && st.isSlave() {
		out.Following = a.following(&s)
	}
	// What was cut off stays to be looked at after a restart, and whatever the role is.
	out.Asides = shownAsides(a.store)
	if out.Following != nil && len(out.Asides) > 0 {
		out.Following.Aside = out.Asides[0]
	}
	return out
}

// mostAsides bounds one answer.
const mostAsides = 20

// shownAsides are the newest parts of the log that were set aside and are still there;
// a folder that cannot be read shows none, as the store says that in other places.
func shownAsides(s *store.Store) []string {
	list, err := s.Asides()
	if err != nil {
		return nil
	}
	return list[:min(len(list), mostAsides)]
}

func inspectSlave(c *replication.SlaveConn) body.InspectHASlave {
	s := body.InspectHASlave{BrokerID: -1, Addr: c.Remote.String(), Acked: int64(c.Acked), Sent: int64(c.Sent), GapBytes: c.Gap,
		GapMillis: c.GapTime.Milliseconds(), InSync: c.InSync, BytesPerSec: c.BytesPerSec, State: string(c.State), Why: c.Sentence,
		CopyFrom: int64(c.CopyFrom), CopyTo: int64(c.CopyTo)}
	if c.Known {
		s.BrokerID = c.ID
		if c.Addr != "" {
			s.Addr = c.Addr
		}
	}
	return s
}

// addLost adds the slaves that are missing. Their gap is at least the difference
// to what they had acknowledged.
func (a *inspectAdmin) addLost(to []body.InspectHASlave, end int64) []body.InspectHASlave {
	if a.lost == nil {
		return to
	}
	now := a.now()
	for _, s := range a.lost() {
		to = append(to, body.InspectHASlave{BrokerID: s.id, Addr: s.addr, Acked: s.acked, GapBytes: end - s.acked, GapMillis: -1, State: "NOT_CONNECTED",
			LostAt: a.dated(s.since).UnixMilli(), Why: s.why(now)})
	}
	return to
}

func (a *inspectAdmin) following(s *replication.SlaveStatus) *body.InspectFollowing {
	age, failure := a.metaAge()
	return &body.InspectFollowing{State: string(s.State), Why: s.Sentence, HAAddr: s.HA, Connected: s.Connected,
		MasterEnd: int64(s.MasterEnd), MasterEndAt: millisOf(a.dated(s.MasterEndAt)), LastRead: millisOf(a.dated(s.LastRead)), LastWrite: millisOf(a.dated(s.LastWrite)),
		BytesPerSec: s.BytesPerSec, CopyFrom: int64(s.CopyFrom), CopyTo: int64(s.CopyTo), MetaAgeMs: age, MetaError: failure}
}

// millisOf is a time in ms, 0 for none.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// pull is what pulls were told, narrowed by the request's group, topic and
// windowMillis.
func (a *inspectAdmin) pull(r *remoting.Request) {
	group, _ := r.Ext.Get("group")
	name, _ := r.Ext.Get("topic")
	var window time.Duration
	if text, ok := r.Ext.Get("windowMillis"); ok {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
			r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("windowMillis %q is not a number of milliseconds up to a day", text), nil, nil)
			return
		}
		window = time.Duration(ms) * time.Millisecond
	}
	st, l, now := a.stand.Load(), a.live.Load(), a.now().UnixMilli()
	out := body.InspectPull{Broker: a.here.name, BrokerID: st.ID, Role: st.Role.String(), MasterAlive: st.isSlave() && st.MasterAlive,
		SlaveRead: l.SlaveRead, LimitBytes: a.store.MemoryLimit(), MemoryBytes: a.store.MemoryBytes(),
		MemoryRatio: memoryRatio(st, l.MemoryRatio), Configured: l.MemoryRatio, Max: int64(a.store.Positions().Max),
		Rows: []body.InspectPullRow{}, Replicas: a.replicas()}
	out.WindowMillis, out.Covered = a.counts.spans(window, now)
	figures := a.counts.figures(group, name, window, now)
	for i := range figures {
		out.Rows = append(out.Rows, a.row(&figures[i]))
	}
	jsonReply(r, out)
}

func (a *inspectAdmin) row(f *pullFigures) body.InspectPullRow {
	row := body.InspectPullRow{Group: f.group, Topic: f.topic, Pulls: f.pulls, Suggested: f.suggested, Slow: f.slow,
		BehindBytes: f.behind, LastPhys: f.phys, Reason: f.why.String(), Followed: f.followed(), Reasons: map[string]int64{}, LastPullAt: a.dated(time.UnixMilli(f.lastMillis)).UnixMilli()}
	for w, n := range f.reasons {
		if n > 0 {
			row.Reasons[reason(w).String()] = n
		}
	}
	g := a.groups.Get(f.group)
	if g == nil {
		c := subgroup.Defaults(f.group)
		g = &c
	}
	row.GroupBroker, row.GroupSlow = g.BrokerID, g.WhichBrokerWhenConsumeSlowly
	return row
}

// replicas are the brokers that may be suggested.
func (a *inspectAdmin) replicas() []body.InspectPullPeer {
	peers := a.peers.Load()
	out := make([]body.InspectPullPeer, 0, len(peers))
	for _, id := range sortedKeys(peers) {
		p := peers[id]
		x := body.InspectPullPeer{BrokerID: id, Addr: p.Addr, Alive: p.Alive, Readable: p.Readable, Acked: -1}
		var end record.PhysOffset
		connected := false
		if a.acked != nil {
			end, connected = a.acked(id)
		}
		switch {
		case !p.Alive:
			x.Why = "not connected"
		case !p.Readable:
			x.Why = "it serves no reads"
		}
		if connected {
			x.Acked = int64(end)
		}
		out = append(out, x)
	}
	return out
}

// inspector is the handler of MQCTL_INSPECT.
func (b *Broker) inspector() *inspectAdmin {
	return &inspectAdmin{here: b.here, settings: b.opts.Settings, stand: &b.stand, peers: &b.peers, live: &b.live, store: b.store, groups: b.groups, members: b.members,
		counts: b.pulls.counts, acked: b.pulls.acked, now: b.steady, dated: b.dated,
		master:  func() (replication.MasterStatus, bool) { return b.ha.master.Status(), true },
		slave:   func() (replication.SlaveStatus, bool) { return b.ha.slave.Status(), b.stand.Load().isSlave() },
		metaAge: b.sync.MetadataAge,
		lost:    b.ha.lost.list,
		events:  b.events,
		latency: func() (put, pull store.Latency) { return b.store.PutLatency(), b.pulls.took.Latency() },
	}
}
