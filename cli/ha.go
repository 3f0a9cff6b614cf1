package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// haReplica is what one replica says about its log and its part in replication.
type haReplica struct {
	replica
	own     *body.InspectHA      // of a broker of ours (30001)
	offsets *body.InspectOffsets // of a broker of ours (30001)
	status  *admin.HAStatus      // of all others (907); nil when it answers neither
}

// haGroup is one broker name. Slaves are in order of their ids.
type haGroup struct {
	name   string
	master *admin.Result[haReplica] // nil: none is registered
	slaves []*admin.Result[haReplica]
}

// haCopy is how far a long copy has come. Offsets are bytes of the commit log.
type haCopy struct {
	FromOffset int64   `json:"fromOffset"`
	ToOffset   int64   `json:"toOffset"`
	DoneBytes  int64   `json:"doneBytes"`
	Percent    float64 `json:"percent"`
}

// haConnection is one slave of a master, connected or not. What cannot be known
// is null: a slave that is not connected acknowledges nothing.
type haConnection struct {
	BrokerID       *int64  `json:"brokerId"` // null: nobody of that address is registered
	Addr           string  `json:"addr"`
	AckedOffset    *int64  `json:"ackedOffset"`
	GapBytes       *int64  `json:"gapBytes"` // below 0: it holds more than its master
	GapMillis      *int64  `json:"gapMillis"`
	InSync         *bool   `json:"inSync"`
	BytesPerSecond *int64  `json:"bytesPerSecond"`
	SentFromOffset *int64  `json:"sentFromOffset"`
	GapSource      string  `json:"gapSource" enum:"HA_STATUS|RUNTIME_DIFF|LAST_KNOWN|NONE"`
	State          string  `json:"state"`
	Why            *string `json:"why"`
	Copy           *haCopy `json:"copy"`

	lost       bool // not registered, and not connected any more
	uncompared bool // longer than its master, and does not know yet what that means
}

// States of a slave that mqctl itself finds; the others are the brokers' own:
// CONNECTING, SYNCING, COPYING, STALLED, TOO_OLD, DIVERGED, AHEAD, WRONG_MASTER,
// MISMATCH, FAILED.
const (
	stateSyncing      = "SYNCING"
	stateBehind       = "BEHIND" // an Apache master says that it is not in sync
	stateAhead        = "AHEAD"
	stateNotConnected = "NOT_CONNECTED"
	stateUnreachable  = "UNREACHABLE"
	stateUnknown      = "UNKNOWN" // which of the master's connections is this slave's cannot be told
)

// brokenStates are those that no waiting ends.
var brokenStates = map[string]bool{"DIVERGED": true, "AHEAD": true, "WRONG_MASTER": true, "MISMATCH": true, "FAILED": true}

// haReplicas asks every target for its runtime and configuration, and then for
// its replication: ours by 30001, others by 907.
func (c *call) haReplicas(ctx context.Context, targets []admin.Target) []admin.Result[haReplica] {
	base := c.replicas(ctx, targets, true)
	out := admin.Each(ctx, c.client, max(8, len(targets)), indexed(targets), func(ctx context.Context, t admin.Target) (haReplica, error) {
		i, target := atIndex(t, targets)
		if base[i].Err != nil {
			return haReplica{}, base[i].Err
		}
		return c.haOf(ctx, target, base[i].Value)
	})
	for i := range out {
		out[i].Target = targets[i]
	}
	return out
}

// haOf asks one broker for its replication. A refusal leaves it out.
func (c *call) haOf(ctx context.Context, t admin.Target, base replica) (haReplica, error) {
	v := haReplica{replica: base}
	var refused *admin.Refused
	var err error
	if c.p.format == "mqadmin" && c.cmd.old == "haStatus" {
		v.status, err = c.client.HAStatus(ctx, t.Addr) // that layout shows what mqadmin is told
		return v, err
	}
	if admin.Offers(base.runtime, "MQCTL_INSPECT") {
		if v.offsets, err = c.client.InspectOffsets(ctx, t.Addr); err != nil && !errors.As(err, &refused) {
			return v, err
		}
		if v.own, err = c.client.InspectHA(ctx, t.Addr); err != nil && !errors.As(err, &refused) {
			return v, err
		}
		if v.own != nil {
			return v, nil
		}
	}
	if v.status, err = c.client.HAStatus(ctx, t.Addr); err != nil && !errors.As(err, &refused) {
		return v, err
	}
	return v, nil
}

// role is the replica's role: ours say it themselves.
func (v haReplica) role(id int64) string {
	if v.own != nil && v.own.Role != "" {
		return v.own.Role
	}
	return v.replica.role(id)
}

// end is the newest byte of the replica's log.
func (v haReplica) end() *int64 {
	if v.own != nil {
		return ptr(v.own.Max)
	}
	return v.runtime.whole("commitLogMaxOffset")
}

// groupsOf sorts replicas by broker name.
func groupsOf(all []admin.Result[haReplica]) []*haGroup {
	byName := map[string]*haGroup{}
	for i := range all {
		res := &all[i]
		name := nameOf(res.Target)
		g := byName[name]
		if g == nil {
			g = &haGroup{name: name}
			byName[name] = g
		}
		switch {
		case res.Target.ID == 0, res.Target.ID < 0 && res.Err == nil && res.Value.role(-1) != "SLAVE":
			g.master = res
		default:
			g.slaves = append(g.slaves, res)
		}
	}
	out := make([]*haGroup, 0, len(byName))
	for _, name := range sortedKeys(byName) {
		g := byName[name]
		sort.Slice(g.slaves, func(i, j int) bool { return g.slaves[i].Target.ID < g.slaves[j].Target.ID })
		out = append(out, g)
	}
	return out
}

// nameOf is how a replica's broker is called; its address when nothing is known.
func nameOf(t admin.Target) string {
	if t.Broker == "" {
		return t.Addr
	}
	return t.Broker
}

// connections are all slaves of the group: those that the master names and
// those that are registered without a connection.
func (c *call) connections(ctx context.Context, g *haGroup) []haConnection {
	var out []haConnection
	taken := make([]bool, len(g.slaves))
	if g.answers() {
		out = linksOfMaster(g.master.Value)
		for i := range out {
			if at := matchSlave(g, out, i); at >= 0 && !taken[at] && out[i].connected() {
				taken[at] = true
				out[i].joinSlave(g.slaves[at])
			}
		}
	}
	// Of a slave that is registered without a connection, it knows more itself
	// than its master remembers.
	out = slices.DeleteFunc(out, func(k haConnection) bool {
		return !k.connected() && slices.ContainsFunc(g.slaves, func(s *admin.Result[haReplica]) bool { return s.Target.ID == *k.BrokerID })
	})
	links := len(out)
	for i, s := range g.slaves {
		if !taken[i] {
			out = append(out, c.unconnected(ctx, g, s, out[:links]))
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return orderID(out[i].BrokerID) < orderID(out[j].BrokerID) })
	if out == nil {
		out = []haConnection{}
	}
	return out
}

// answers reports whether the group has a master that can be asked.
func (g *haGroup) answers() bool { return g.master != nil && g.master.Err == nil }

// orderID puts connections of nobody who is registered last.
func orderID(id *int64) int64 {
	if id == nil {
		return 1 << 62
	}
	return *id
}

// linksOfMaster are the HA connections as their master tells them.
func linksOfMaster(m haReplica) []haConnection {
	var out []haConnection
	if m.own != nil {
		for i := range m.own.Slaves {
			out = append(out, linkOfOurs(&m.own.Slaves[i]))
		}
		return out
	}
	if m.status == nil {
		return nil
	}
	for i := range m.status.Peers {
		out = append(out, linkOfApache(&m.status.Peers[i]))
	}
	return out
}

func linkOfOurs(s *body.InspectHASlave) haConnection {
	k := haConnection{
		Addr: s.Addr, AckedOffset: ptr(s.Acked), GapBytes: ptr(s.GapBytes), InSync: ptr(s.InSync),
		BytesPerSecond: ptr(s.BytesPerSec), SentFromOffset: ptr(s.Sent), GapSource: "HA_STATUS", State: s.State, Why: textOrNil(s.Why),
		Copy: copyOf(s.CopyFrom, s.CopyTo, s.Acked),
	}
	if s.BrokerID >= 0 {
		k.BrokerID = ptr(s.BrokerID)
	}
	if s.GapMillis >= 0 {
		k.GapMillis = ptr(s.GapMillis)
	}
	if k.State == "" {
		k.State = stateSyncing
	}
	if s.LostAt > 0 {
		k.AckedOffset, k.BytesPerSecond, k.SentFromOffset, k.GapSource, k.InSync = nil, nil, nil, "LAST_KNOWN", ptr(false)
		k.lost = true
	}
	return k
}

func linkOfApache(p *admin.HAPeer) haConnection {
	k := haConnection{
		Addr: strings.TrimPrefix(p.Addr, "/"), AckedOffset: ptr(p.AckOffset), GapBytes: ptr(p.Diff), InSync: ptr(p.InSync),
		BytesPerSecond: ptr(p.TransferredPerSec), SentFromOffset: ptr(p.TransferFromOffset), GapSource: "HA_STATUS", State: stateSyncing,
	}
	switch {
	case p.Diff < 0:
		// Apache's master calls a slave that is longer than itself in sync.
		k.State, k.InSync = stateAhead, ptr(false)
		k.Why = ptr(aheadSentence(-p.Diff))
	case !p.InSync:
		k.State = stateBehind
	}
	return k
}

func aheadSentence(bytes int64) string {
	return fmt.Sprintf("it holds %d bytes more than its master, which must have lost them: the two logs will differ", bytes)
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// copyOf is nil unless a long copy is under way.
func copyOf(from, to, at int64) *haCopy {
	if to <= from || at >= to {
		return nil
	}
	done := max(0, at-from)
	return &haCopy{FromOffset: from, ToOffset: to, DoneBytes: done, Percent: float64(done*1000/(to-from)) / 10}
}

// matchSlave finds who is behind connection i. Ours say it; of others only the
// address of the HA socket is known, so it takes a host with one slave and one
// connection.
func matchSlave(g *haGroup, links []haConnection, i int) int {
	if id := links[i].BrokerID; id != nil {
		for at, s := range g.slaves {
			if s.Target.ID == *id {
				return at
			}
		}
		return -1
	}
	host, found := hostOf(links[i].Addr), -1
	if strangers(links, host) > 1 {
		return -1
	}
	for at, s := range g.slaves {
		if hostOf(s.Target.Addr) != host || named(links, s.Target.ID) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = at
	}
	return found
}

// strangers counts the connections from a host of which nobody knows whose they are.
func strangers(links []haConnection, host string) int {
	n := 0
	for i := range links {
		if links[i].BrokerID == nil && hostOf(links[i].Addr) == host {
			n++
		}
	}
	return n
}

// named reports whether the master says which connection is the slave's.
func named(links []haConnection, id int64) bool {
	for i := range links {
		if links[i].BrokerID != nil && *links[i].BrokerID == id {
			return true
		}
	}
	return false
}

// joinSlave adds what the slave itself says of a connection.
func (k *haConnection) joinSlave(s *admin.Result[haReplica]) {
	k.BrokerID, k.Addr = ptr(s.Target.ID), s.Target.Addr
	if s.Err != nil {
		k.State, k.Why = stateUnreachable, ptr("its connection stands, but it answers no request: "+netReason(s.Err))
		return
	}
	if s.Value.own == nil || s.Value.own.Following == nil {
		return
	}
	f := s.Value.own.Following
	if f.State != "" && f.State != stateSyncing {
		k.State = f.State
	}
	if f.Why != "" {
		k.Why = ptr(f.Why)
	}
	if own := copyOf(f.CopyFrom, f.CopyTo, s.Value.own.Max); own != nil {
		k.Copy = own
	}
}

// unconnected describes a registered slave of which the master names no
// connection, as far as the slave itself tells.
func (c *call) unconnected(ctx context.Context, g *haGroup, s *admin.Result[haReplica], links []haConnection) haConnection {
	k := haConnection{Addr: s.Target.Addr, State: stateNotConnected, GapSource: "NONE"}
	if s.Target.ID >= 0 {
		k.BrokerID = ptr(s.Target.ID)
	}
	if s.Err != nil {
		k.State, k.Why = stateUnreachable, ptr("it is registered, but does not answer: "+netReason(s.Err))
		return k
	}
	f := following(s.Value)
	if f != nil {
		if f.State != "" {
			k.State = f.State
		}
		k.Why, k.Copy = textOrNil(f.Why), copyOf(f.CopyFrom, f.CopyTo, s.Value.own.Max)
	}
	switch {
	case g.answers():
		k.InSync = ptr(false)
		if g.master.Value.blind() || strangers(links, hostOf(s.Target.Addr)) > 0 {
			k.InSync = nil // one of the connections may be this slave's
			if f == nil {
				k.State = stateUnknown
			}
		}
		k.fromEnds(ctx, c, g, s)
	case f != nil && f.MasterEnd > 0:
		k.GapBytes, k.GapSource = ptr(f.MasterEnd-s.Value.own.Max), "LAST_KNOWN"
		if k.Why == nil {
			k.Why = ptr(lastHeard(f))
		}
	case k.Why == nil:
		k.Why = ptr("its master does not answer")
	}
	return k
}

// blind reports whether a broker tells nothing about connections of slaves.
func (v haReplica) blind() bool { return v.own == nil && v.status == nil }

// following is the slave's own view, where it is one of ours.
func following(v haReplica) *body.InspectFollowing {
	if v.own == nil {
		return nil
	}
	return v.own.Following
}

func lastHeard(f *body.InspectFollowing) string {
	if f.LastRead <= 0 {
		return "it has not heard its master yet"
	}
	return "its master was last heard " + shortDuration(time.Since(time.UnixMilli(f.LastRead))) + " ago"
}

// fromEnds computes the gap from the two ends of the logs. The slave may have
// been asked later than the master, so a slave that seems longer is looked at
// again: the master is asked once more.
func (k *haConnection) fromEnds(ctx context.Context, c *call, g *haGroup, s *admin.Result[haReplica]) {
	theirs, mine := g.master.Value.end(), s.Value.end()
	if theirs == nil || mine == nil {
		return
	}
	if *mine > *theirs {
		rt, err := c.client.RuntimeInfo(ctx, g.master.Target.Addr)
		if again := runtimeView(rt).whole("commitLogMaxOffset"); err == nil && again != nil {
			theirs = again
		}
	}
	k.GapBytes, k.GapSource = ptr(*theirs-*mine), "RUNTIME_DIFF"
	switch more := *mine - *theirs; {
	case more <= 0:
	case s.Value.own == nil:
		k.State, k.Why = stateAhead, ptr(aheadSentence(more))
	case !brokenStates[k.State]: // one of ours compares the logs itself; a former master then cuts what only it has
		why := fmt.Sprintf("it holds %d bytes more than its master, and has not compared the two logs yet", more)
		if k.Why != nil {
			why += ": " + *k.Why
		}
		k.State, k.Why, k.uncompared = stateAhead, &why, true
	}
}

// connected reports whether the master has an HA connection of this slave.
func (k *haConnection) connected() bool { return k.AckedOffset != nil }

// stateText is a state for people.
func (k *haConnection) stateText() string {
	if k.State == stateSyncing && k.InSync != nil {
		if *k.InSync {
			return "in sync"
		}
		return "behind"
	}
	text := strings.ToLower(strings.ReplaceAll(k.State, "_", " "))
	if k.Copy != nil {
		text += fmt.Sprintf(" %.1f %%", k.Copy.Percent)
	}
	return text
}

// hostOf is the host of host:port; Java puts a slash in front.
func hostOf(addr string) string {
	addr = strings.TrimPrefix(addr, "/")
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}
