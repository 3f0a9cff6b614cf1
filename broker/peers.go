package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
)

// Periods of what is asked of the other brokers of this name.
const (
	watchEvery   = 500 * time.Millisecond // liveness from what is known here
	helloEvery   = time.Second            // a slave of ours to a master of ours
	foreignEvery = 5 * time.Second        // 26 to Apache's brokers: do they serve pulls?
	staleAfter   = 15 * time.Second       // what was said longer ago does not count
	mostPeers    = 64                     // remembered; a name has a handful
)

// peerFacts is what another broker said of itself.
type peerFacts struct {
	kind     peerKind
	readable bool
	said     time.Time // when; zero: never
	epoch    int64
	end      int64 // of its log
}

// peerKind says whether a broker is one of ours.
type peerKind uint8

const (
	kindUnknown peerKind = iota
	kindOurs
	kindForeign // Apache's
)

// knownPeers are the facts by remoting address.
type knownPeers struct {
	mu     sync.Mutex // held for map operations only
	byAddr map[string]peerFacts
}

func (k *knownPeers) init() { k.byAddr = make(map[string]peerFacts) }

// change edits the facts of an address and says whether readability changed. The
// table is bounded: with a full one, the facts that are oldest go.
func (k *knownPeers) change(addr string, f func(p *peerFacts)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.byAddr[addr]
	if !ok && len(k.byAddr) >= mostPeers {
		oldest := ""
		for a, p := range k.byAddr {
			if oldest == "" || p.said.Before(k.byAddr[oldest].said) {
				oldest = a
			}
		}
		delete(k.byAddr, oldest)
	}
	was := p
	f(&p)
	k.byAddr[addr] = p
	return was.readable != p.readable || was.kind != p.kind
}

// tell takes in what a broker of ours said.
func (k *knownPeers) tell(h hello, now time.Time) bool {
	return k.change(h.Addr, func(p *peerFacts) {
		*p = peerFacts{kind: kindOurs, readable: h.Readable, said: now, epoch: h.Epoch, end: h.Max}
	})
}

func (k *knownPeers) ours(addr string) { k.change(addr, func(p *peerFacts) { p.kind = kindOurs }) }

func (k *knownPeers) foreign(addr string) {
	k.change(addr, func(p *peerFacts) { p.kind = kindForeign })
}

func (k *knownPeers) get(addr string) peerFacts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byAddr[addr]
}

// servesPulls says whether a broker said lately that it serves pulls.
func (k *knownPeers) servesPulls(addr string, now time.Time) bool {
	p := k.get(addr)
	return p.readable && now.Sub(p.said) <= staleAfter
}

// watchPeers keeps the snapshot of the peers and a slave's view of its master,
// from what is known here: it waits for nobody. It is woken by the replication
// connections and twice a second.
func (b *Broker) watchPeers(ctx context.Context) error {
	if b.opts.unwatched {
		return nil
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		b.lookAtPeers()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-b.ha.wake:
		}
	}
}

// lookAtPeers makes the snapshot of this moment.
func (b *Broker) lookAtPeers() {
	now, s := b.steady(), b.stand.Load()
	next := make(map[int64]replicaPeer)
	for id, addr := range b.replicas() {
		if id != s.ID && addr != b.Addr() {
			next[id] = replicaPeer{ID: id, Addr: addr, Ours: b.ha.known.get(addr).kind == kindOurs}
		}
	}
	conns := b.ha.master.Status().Slaves
	if s.isSlave() {
		b.ha.lost.forget()
		b.events.slaves(nil)
	} else {
		b.ha.lost.note(now, conns)
		b.events.slaves(conns)
	}
	for _, c := range conns {
		if c.Known && c.ID != s.ID {
			next[c.ID] = replicaPeer{ID: c.ID, Addr: c.Addr, Ours: c.Ours, Alive: true, Readable: b.ha.known.servesPulls(c.Addr, now)}
		}
	}
	if s.isSlave() {
		alive := b.masterAlive(b.ha.slave.Status(), now)
		if s.Master != "" {
			next[0] = replicaPeer{Addr: s.Master, Ours: b.ha.known.get(s.Master).kind == kindOurs, Alive: alive,
				Readable: alive && b.ha.known.servesPulls(s.Master, now)}
		}
		b.setMasterAlive(alive)
	}
	b.setPeers(next)
}

// masterAlive says whether a slave has heard its master lately: over replication,
// or over remoting if its replication port does not refuse connections.
func (b *Broker) masterAlive(st replication.SlaveStatus, now time.Time) bool {
	switch {
	case st.Connected && now.Sub(st.LastRead) <= silentAfter:
		return true
	case !st.Connected && st.DialRefused:
		return false
	}
	return now.UnixMilli()-b.ha.heard.Load() <= silentAfter.Milliseconds()
}

// setMasterAlive notes whether the master lives, and asks the nameservers at once
// when that changed: they may know another one, or its new address.
func (b *Broker) setMasterAlive(alive bool) {
	old := b.stand.Load()
	if !old.isSlave() || old.MasterAlive == alive {
		return
	}
	now, changed := b.stand.update(func(s *standing) { s.MasterAlive = alive && s.isSlave() })
	if !changed {
		return
	}
	b.log.Info("master", "addr", now.Master, "ha", now.HA, "alive", alive)
	if b.reg != nil {
		b.reg.Ask()
	}
	b.tellStanding(old, now)
}

// replicas are the brokers of this name that the nameservers know.
func (b *Broker) replicas() map[int64]string {
	if b.reg == nil {
		return nil
	}
	return b.reg.Members()
}

// identify tells which slave is behind a replication connection that did not
// attach: one of Apache's. Of the registered slaves at that address it is one that is
// neither one of ours nor connected. Where there are several, nobody can tell which
// is which, so they are named in order, and only when all of them are connected: then
// each counts once. Their connections are looked up in the master's own list, which is
// never late.
func (b *Broker) identify(remote netip.AddrPort) (replication.Peer, bool) {
	return b.identifyAmong(b.ha.master.Status().Slaves, remote)
}

func (b *Broker) identifyAmong(conns []replication.SlaveConn, remote netip.AddrPort) (replication.Peer, bool) {
	strangers, taken := 0, map[int64]bool{}
	for _, c := range conns {
		switch {
		case c.Known:
			taken[c.ID] = true
		case c.Remote.Addr().Unmap() == remote.Addr().Unmap():
			strangers++
		}
	}
	free := b.foreignSlaves(remote.Addr().Unmap(), taken)
	// The first one asks before its connection is in the list; alone it is served at once.
	if len(free) == 0 || len(free) > 1 && strangers != len(free) {
		return replication.Peer{}, false
	}
	return free[0], true
}

// foreignSlaves are the registered slaves at an address that are not ours and not
// taken, in order of their ids.
func (b *Broker) foreignSlaves(host netip.Addr, taken map[int64]bool) (out []replication.Peer) {
	for id, addr := range b.replicas() {
		at, err := netip.ParseAddrPort(addr)
		if id <= 0 || err != nil || at.Addr().Unmap() != host || id == b.stand.Load().ID {
			continue
		}
		if !taken[id] && b.ha.known.get(addr).kind != kindOurs {
			out = append(out, replication.Peer{ID: id, Addr: addr})
		}
	}
	slices.SortFunc(out, func(x, y replication.Peer) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// misnamed says whether a slave that was named by its address is not registered any
// more while another one there has no connection: of two on one machine the one that
// was called by the other's id went on.
func (b *Broker) misnamed(p replication.Peer, remote netip.AddrPort) bool {
	if p.Ours || b.replicas()[p.ID] != "" {
		return false
	}
	taken := map[int64]bool{}
	for _, c := range b.ha.master.Status().Slaves {
		if c.Known {
			taken[c.ID] = true
		}
	}
	return len(b.foreignSlaves(remote.Addr().Unmap(), taken)) > 0
}

// askPeers asks other brokers of this name what they are: ours every second,
// Apache's every five. A silent one holds up the others by peerWait at most.
func (b *Broker) askPeers(ctx context.Context) error {
	tick := time.NewTicker(helloEvery)
	defer tick.Stop()
	var foreign time.Time
	var f finder
	for {
		b.findFixed(ctx, &f)
		if s := b.stand.Load(); s.isSlave() && s.Master != "" && b.ha.known.get(s.Master).kind != kindForeign {
			b.sayHello(ctx, s.Master)
		}
		if now := b.steady(); now.Sub(foreign) >= foreignEvery {
			foreign = now
			b.askForeigners(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sayHello exchanges hellos with the master, and says whether it is one of ours
// and of this name.
func (b *Broker) sayHello(ctx context.Context, master string) bool {
	text, err := json.Marshal(b.ourHello())
	if err != nil {
		return false
	}
	resp, err := b.askProved(ctx, master, stepHello, text)
	if err != nil {
		return false // its liveness is what watchPeers decides
	}
	switch resp.Code {
	case remoting.CodeRequestCodeNotSupported:
		b.ha.known.foreign(master)
		return false
	case remoting.CodeSuccess:
	default:
		return false
	}
	var h hello
	if json.Unmarshal(resp.Body, &h) != nil || h.BrokerName != b.here.name {
		return false
	}
	h.Addr = master
	b.masterEnd.heard(h.Role)
	if b.ha.known.tell(h, b.steady()) {
		b.ha.poke()
	}
	return true
}

// askForeigners asks Apache's replicas whether they serve pulls.
func (b *Broker) askForeigners(ctx context.Context) {
	s := b.stand.Load()
	var addrs []string
	for id, p := range b.peers.Load() {
		if p.Alive && !p.Ours || s.isSlave() && id == 0 && b.ha.known.get(p.Addr).kind == kindForeign {
			addrs = append(addrs, p.Addr)
		}
	}
	for _, addr := range addrs {
		readable, master, role, err := b.askReadable(ctx, addr)
		if err != nil {
			continue // what it said before grows old
		}
		if s.isSlave() && addr == s.Master {
			b.masterEnd.heard(role)
		}
		changed := b.ha.known.change(addr, func(p *peerFacts) {
			p.readable, p.said = readable || master, b.steady()
		})
		if changed {
			b.ha.poke()
		}
	}
}

// askReadable reads from a broker's configuration whether it serves pulls, and its role.
func (b *Broker) askReadable(ctx context.Context, addr string) (readable, master bool, role string, err error) {
	resp, err := b.askMaster(ctx, addr, remoting.ReqGetBrokerConfig, nil, nil)
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		return false, false, "", err
	}
	values := map[string]string{"slaveReadEnable": "", "brokerPermission": "", "brokerId": "", "brokerName": "", "brokerRole": ""}
	for line := range strings.Lines(string(resp.Body)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if _, wanted := values[key]; wanted {
			values[key] = value
		}
	}
	if values["brokerName"] != b.here.name {
		return false, false, "", errors.New("another broker lives there")
	}
	permission, err := strconv.Atoi(values["brokerPermission"])
	if err != nil {
		return false, false, "", err
	}
	may := permission&4 != 0
	return may && values["slaveReadEnable"] == "true", may && values["brokerId"] == "0", values["brokerRole"], nil
}
