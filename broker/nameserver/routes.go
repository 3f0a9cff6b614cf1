package nameserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/broker/topic"
)

// masterID is the broker id that a name's master has.
const masterID = 0

// defaultHeartbeat is how long a broker may be silent that does not say so itself.
const defaultHeartbeat = 120 * time.Second

// Bounds of a broker's own figure: under the first a single lost packet would
// drop it, over the second a dead one would stay for ever.
const (
	minHeartbeat = 3 * time.Second
	maxHeartbeat = 24 * time.Hour
)

// Bounds of the tables, far above real clusters: a nameserver trusts its
// network, but must not be filled by one faulty program.
const (
	maxBrokerNames  = 10_000
	maxReplicas     = 64      // ids of one name
	maxTopics       = 200_000 // topics in the table
	maxBrokerTopics = body.MaxRegisterTopics
	maxTopicBytes   = 255
	maxNameBytes    = 255
	maxQueues       = 65_536
)

// memberTopicPrefix begins the topics that always show the real ids of a broker
// name: brokers of acting masters look at each other through them.
const memberTopicPrefix = "rmq_sys_SYNC_BROKER_MEMBER_"

// queues is what one broker name holds of a topic.
type queues struct {
	broker       string
	perm         int
	read, write  int32
	topicSysFlag int32
}

// replica is one address of a broker name.
type replica struct {
	id     int64
	addr   string
	acting bool // it registered with enableActingMaster
}

// group is a broker name: its master and slaves. Immutable once in a view.
type group struct {
	cluster, name string
	replicas      []replica // by ascending id
	// acting is enableActingMaster of the lowest id: the one that would stand in
	// for the master. RouteInfoManager takes it from whoever registered last, which
	// is the same unless brokers that know acting masters are mixed with others.
	acting bool
}

// settle derives what depends on the list of replicas; only for a group that is not published yet.
func (g *group) settle() {
	if len(g.replicas) > 0 {
		g.acting = g.replicas[0].acting
	}
}

func (g *group) find(id int64) (addr string, ok bool) {
	for _, r := range g.replicas {
		if r.id == id {
			return r.addr, true
		}
	}
	return "", false
}

// hasMaster reports whether id 0 is there.
func (g *group) hasMaster() bool { return len(g.replicas) > 0 && g.replicas[0].id == masterID }

// entry is a topic. Immutable once in a view.
type entry struct {
	queues   []queues                     // by ascending broker name
	mappings []body.TopicQueueMappingInfo // of static topics, by ascending broker name
}

// view is one state of the tables. Nothing reachable from it ever changes.
type view struct {
	topics map[string]entry
	groups map[string]*group
}

// peer is a broker's connection: two of them are the same if they are equal.
type peer interface{ Close() }

// leaseKey names a broker process: its address within a cluster.
type leaseKey struct{ cluster, addr string }

// lease is how long a broker process counts as alive.
type lease struct {
	name    string
	id      int64
	last    time.Time
	timeout time.Duration
	version body.DataVersion
	conn    peer // of the last registration
	haAddr  string
}

// alive reports whether the process was heard within its own heartbeat time.
func (l *lease) alive(now time.Time) bool { return now.Sub(l.last) <= l.timeout }

// Routes are the tables of brokers and topics. Its methods may be called from
// any goroutine.
type Routes struct {
	deleteVanished func() bool
	current        atomic.Pointer[view]

	// mu guards the leases and the making of the next view. It is never held
	// while waiting for anything.
	mu     sync.Mutex
	leases map[leaseKey]*lease
	// refused has the names whose only registration was refused, and when: they
	// stay visible without an address, as RouteInfoManager leaves them, until the scan.
	refused map[string]time.Time
}

func newRoutes(deleteVanished func() bool) *Routes {
	r := &Routes{deleteVanished: deleteVanished, leases: make(map[leaseKey]*lease), refused: make(map[string]time.Time)}
	r.current.Store(&view{topics: map[string]entry{}, groups: map[string]*group{}})
	return r
}

// view is the present state.
func (r *Routes) view() *view { return r.current.Load() }

// Registration is what a broker says of itself (103).
type Registration struct {
	Cluster, Name, Addr, HAAddr string
	ID                          int64
	Timeout                     time.Duration // 0: the broker did not say
	// Acting is enableActingMaster; HasActing whether the broker knows the
	// field: brokers that do not let slaves register topics.
	Acting, HasActing bool
	Version           body.DataVersion
	Topics            []body.TopicConfig
	TopicCount        int // topics in the body, those that cannot be served included
	Mappings          []body.TopicQueueMappingInfo
	Conn              peer
}

// errRefused is the remark of a registration that RouteInfoManager turns down.
var errRefused = errors.New("register broker failed")

// change is a new lowest id of a broker name, to be told to its brokers.
type change struct {
	group   *group
	offline string // the address that left, "" if one came
	haAddr  string // of the one that came
}

// Welcome is the answer to a registration: the master's addresses for a slave,
// and for a second master that is refused.
type Welcome struct {
	MasterAddr, HAAddr string
	New                bool // this id was not registered from this address before
	change             *change
	displaced          string // address of the master whose place was taken
	displacedConn      peer
}

// draft is the next view in the making: maps are copied when first changed.
type draft struct {
	view
	ownTopics, ownGroups bool
}

func (r *Routes) draft() *draft { return &draft{view: *r.view()} }

func (d *draft) setTopic(name string, e entry) {
	if !d.ownTopics {
		d.topics, d.ownTopics = maps.Clone(d.topics), true
	}
	if len(e.queues) == 0 {
		delete(d.topics, name)
		return
	}
	d.topics[name] = e
}

func (d *draft) setGroup(g *group) {
	d.editGroups()[g.name] = g
}

func (d *draft) editGroups() map[string]*group {
	if !d.ownGroups {
		d.groups, d.ownGroups = maps.Clone(d.groups), true
	}
	return d.groups
}

func (r *Routes) publish(d *draft) {
	if d.ownTopics || d.ownGroups {
		v := d.view
		r.current.Store(&v)
	}
}

// Register takes a registration in, by the rules of RouteInfoManager.registerBroker.
func (r *Routes) Register(g Registration, now time.Time) (Welcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	key := leaseKey{g.Cluster, g.Addr}
	old := d.groups[g.Name]
	if err := r.admit(d, old, g); err != nil {
		return Welcome{}, err
	}
	if was := r.leases[key]; was != nil && was.name != g.Name {
		// The process at this address has another name now.
		r.drop(d, key, was)
	}
	next := &group{cluster: g.Cluster, name: g.Name, acting: g.Acting}
	if old != nil {
		// An address has one id only: a slave that became master leaves its old one.
		for _, rep := range old.replicas {
			if rep.addr != g.Addr || rep.id == g.ID {
				next.replicas = append(next.replicas, rep)
			}
		}
	}
	next.settle()
	holder, held := next.find(g.ID)
	rival := r.leases[leaseKey{g.Cluster, holder}]
	if !held || holder == g.Addr {
		rival = nil
	}
	if rival != nil {
		if err := contest(rival, holder, next, g, now); err != nil {
			// The newcomer is not taken in, and leaves the id it had.
			delete(r.leases, key)
			d.setGroup(next)
			r.publish(d)
			if errors.Is(err, errIgnored) {
				return Welcome{}, nil
			}
			return Welcome{MasterAddr: holder, HAAddr: rival.haAddr}, err
		}
	}
	if err := r.firstAllowed(next, g, held, now); err != nil {
		if errors.Is(err, errRefused) {
			d.setGroup(next)
			r.publish(d)
		}
		return Welcome{}, err
	}
	lowestBefore, hadAny := lowest(next)
	displacedActing := next.acting
	next.put(replica{id: g.ID, addr: g.Addr, acting: g.Acting})
	next.settle()
	delete(r.refused, g.Name)
	d.setGroup(next)
	if err := r.takeTopics(d, next, g, key, !held || rival != nil); err != nil {
		return Welcome{}, err
	}
	if rival != nil && g.ID == masterID {
		// The old master's lease ends at once: nothing it says is heard before it registers anew.
		delete(r.leases, leaseKey{g.Cluster, holder})
	}
	r.leases[key] = &lease{name: g.Name, id: g.ID, last: now, timeout: heartbeat(g.Timeout),
		version: g.Version, conn: g.Conn, haAddr: g.HAAddr}
	r.publish(d)
	w := r.welcome(next, g)
	w.New = holder != g.Addr
	if rival != nil && g.ID == masterID && displacedActing && rival.conn != g.Conn {
		w.displaced, w.displacedConn = holder, rival.conn
	}
	if hadAny && g.ID < lowestBefore {
		w.change = &change{group: next, haAddr: g.HAAddr}
	}
	return w, nil
}

// firstAllowed refuses the first registration of an id that would fill the tables,
// or that is of one topic only (RouteInfoManager.registerBroker).
func (r *Routes) firstAllowed(next *group, g Registration, held bool, now time.Time) error {
	switch {
	case held:
		return nil
	case max(g.TopicCount, len(g.Topics)) == 1:
		if len(next.replicas) == 0 {
			r.refused[g.Name] = now
		}
		return errRefused
	case len(next.replicas) >= maxReplicas:
		return fmt.Errorf("broker %s has %d ids registered already", g.Name, maxReplicas)
	}
	return nil
}

// admit refuses what would fill the tables or mix two clusters.
func (r *Routes) admit(d *draft, old *group, g Registration) error {
	if old == nil && len(d.groups) >= maxBrokerNames {
		return fmt.Errorf("%d broker names are registered already", maxBrokerNames)
	}
	if old != nil && old.cluster != g.Cluster && len(old.replicas) > 0 {
		return fmt.Errorf("broker name %s is in use in cluster %s", g.Name, old.cluster)
	}
	if len(g.Topics) > maxBrokerTopics {
		return fmt.Errorf("%d topics in one registration, the limit is %d", len(g.Topics), maxBrokerTopics)
	}
	return nil
}

func lowest(g *group) (int64, bool) {
	if len(g.replicas) == 0 {
		return 0, false
	}
	return g.replicas[0].id, true
}

// put sets an id's address; only for a group that is not published yet.
func (g *group) put(n replica) {
	g.replicas = slices.DeleteFunc(g.replicas, func(r replica) bool { return r.id == n.id })
	g.replicas = append(g.replicas, n)
	slices.SortFunc(g.replicas, func(a, b replica) int { return int(min(max(a.id-b.id, -1), 1)) })
}

func heartbeat(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultHeartbeat
	}
	return min(max(d, minHeartbeat), maxHeartbeat)
}

// welcome tells a slave where its master is.
func (r *Routes) welcome(g *group, reg Registration) Welcome {
	if reg.ID == masterID {
		return Welcome{}
	}
	addr, ok := g.find(masterID)
	if !ok {
		return Welcome{}
	}
	l := r.leases[leaseKey{g.cluster, addr}]
	if l == nil {
		return Welcome{}
	}
	return Welcome{MasterAddr: addr, HAAddr: l.haAddr}
}

// takeTopics updates the topics from a master's registration, or from that of
// the lowest slave of brokers that know about acting masters.
func (r *Routes) takeTopics(d *draft, g *group, reg Registration, key leaseKey, first bool) error {
	prime := reg.HasActing && reg.ID != masterID && g.replicas[0].id == reg.ID
	if reg.ID != masterID && !prime {
		return nil
	}
	known := r.leases[key]
	changed := first || known == nil || known.version != reg.Version
	if r.deleteVanished() && len(reg.Mappings) == 0 {
		r.forgetVanished(d, reg)
	}
	for i := range reg.Topics {
		t := &reg.Topics[i]
		e := d.topics[t.TopicName]
		if !changed && e.has(reg.Name) {
			continue
		}
		if len(e.queues) == 0 && len(d.topics) >= maxTopics {
			return fmt.Errorf("%d topics are registered already", maxTopics)
		}
		perm := t.Perm
		if prime && g.acting {
			perm &^= topic.PermWrite
		}
		e.queues = putQueues(e.queues, queues{broker: reg.Name, perm: perm,
			read: t.ReadQueueNums, write: t.WriteQueueNums, topicSysFlag: t.TopicSysFlag})
		d.setTopic(t.TopicName, e)
	}
	if changed {
		for _, m := range reg.Mappings {
			e, ok := d.topics[m.Topic]
			if ok {
				e.mappings = putMapping(e.mappings, m)
				d.setTopic(m.Topic, e)
			}
		}
	}
	return nil
}

// forgetVanished removes this broker from the topics that its table no longer
// has. A change of one topic is registered with a body that holds only that
// topic; a whole table is known by the topics named after the cluster and the broker.
func (r *Routes) forgetVanished(d *draft, reg Registration) {
	now := make(map[string]bool, len(reg.Topics))
	for i := range reg.Topics {
		now[reg.Topics[i].TopicName] = true
	}
	if !now[reg.Name] || !now[reg.Cluster] {
		return
	}
	for name, e := range d.topics {
		if e.has(reg.Name) && !now[name] {
			d.setTopic(name, e.without(reg.Name))
		}
	}
}

func (e entry) has(broker string) bool {
	_, ok := e.of(broker)
	return ok
}

func (e entry) of(broker string) (queues, bool) {
	i := sort.Search(len(e.queues), func(i int) bool { return e.queues[i].broker >= broker })
	if i < len(e.queues) && e.queues[i].broker == broker {
		return e.queues[i], true
	}
	return queues{}, false
}

func (e entry) without(broker string) entry {
	var out entry
	for _, q := range e.queues {
		if q.broker != broker {
			out.queues = append(out.queues, q)
		}
	}
	for _, m := range e.mappings {
		if m.BrokerName != broker {
			out.mappings = append(out.mappings, m)
		}
	}
	return out
}

// putQueues returns a new list with q in its place.
func putQueues(list []queues, q queues) []queues {
	i := sort.Search(len(list), func(i int) bool { return list[i].broker >= q.broker })
	out := make([]queues, 0, len(list)+1)
	out = append(append(out, list[:i]...), q)
	if i < len(list) && list[i].broker == q.broker {
		i++
	}
	return append(out, list[i:]...)
}

func putMapping(list []body.TopicQueueMappingInfo, m body.TopicQueueMappingInfo) []body.TopicQueueMappingInfo {
	out := slices.DeleteFunc(slices.Clone(list), func(x body.TopicQueueMappingInfo) bool { return x.BrokerName == m.BrokerName })
	out = append(out, m)
	slices.SortFunc(out, func(a, b body.TopicQueueMappingInfo) int { return strings.Compare(a.BrokerName, b.BrokerName) })
	return out
}

// Unregister forgets one broker process (104).
func (r *Routes) Unregister(cluster, name, addr string) []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	key := leaseKey{cluster, addr}
	delete(r.leases, key)
	changes := remove(d, name, addr)
	r.publish(d)
	return changes
}

// ConnClosed forgets the brokers whose last registration came over conn.
func (r *Routes) ConnClosed(conn peer) (gone []string, changes []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	for key, l := range r.leases {
		if l.conn == conn {
			gone = append(gone, l.name)
			changes = append(changes, r.drop(d, key, l)...)
		}
	}
	r.publish(d)
	return gone, changes
}

// drop forgets a lease and its address. mu is held.
func (r *Routes) drop(d *draft, key leaseKey, l *lease) []change {
	delete(r.leases, key)
	return remove(d, l.name, key.addr)
}

// remove takes an address out of a broker name; the last one takes the name and
// its queues out of all topics.
func remove(d *draft, name, addr string) []change {
	old := d.groups[name]
	if old == nil {
		return nil
	}
	next := *old
	next.replicas = nil
	for _, rep := range old.replicas {
		if rep.addr != addr {
			next.replicas = append(next.replicas, rep)
		}
	}
	switch {
	case len(next.replicas) == len(old.replicas):
		return nil
	case len(next.replicas) == 0:
		delete(d.editGroups(), name)
		for topicName, e := range d.topics {
			if e.has(name) {
				d.setTopic(topicName, e.without(name))
			}
		}
		return nil
	}
	next.settle()
	d.setGroup(&next)
	if next.acting && !next.hasMaster() {
		d.maskPerm(name, func(perm int) int { return perm &^ topic.PermWrite })
	}
	if next.replicas[0].id == old.replicas[0].id {
		return nil
	}
	return []change{{group: &next, offline: addr}}
}

// maskPerm changes the permission of a broker's queues and counts its topics.
func (d *draft) maskPerm(broker string, f func(int) int) (topics int) {
	for name, e := range d.topics {
		q, ok := e.of(broker)
		if !ok {
			continue
		}
		topics++
		if perm := f(q.perm); perm != q.perm {
			q.perm = perm
			e.queues = putQueues(e.queues, q)
			d.setTopic(name, e)
		}
	}
	return topics
}

// SetWritable takes the write permission of all topics of a broker away (205) or
// sets read and write (327) until its next registration with a new version, and
// counts the topics.
func (r *Routes) SetWritable(broker string, writable bool) (topics int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	topics = d.maskPerm(broker, func(perm int) int {
		if writable {
			return topic.PermRead | topic.PermWrite
		}
		return perm &^ topic.PermWrite
	})
	r.publish(d)
	return topics
}

// DeleteTopic forgets a topic (216), cluster "" in all clusters.
func (r *Routes) DeleteTopic(name, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	e, ok := d.topics[name]
	if !ok {
		return
	}
	if cluster == "" {
		e = entry{}
	}
	for _, q := range e.queues {
		if g := d.groups[q.broker]; g != nil && g.cluster == cluster {
			e = e.without(q.broker)
		}
	}
	d.setTopic(name, e)
	r.publish(d)
}

// PutTopic adds queues to a topic (217); those of unknown brokers end it, as in RouteInfoManager.
func (r *Routes) PutTopic(name string, list []queues) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.draft()
	defer r.publish(d)
	for _, q := range list {
		if d.groups[q.broker] == nil {
			return nil
		}
		e := d.topics[name]
		if len(e.queues) == 0 && len(d.topics) >= maxTopics {
			return fmt.Errorf("%d topics are registered already", maxTopics)
		}
		e.queues = putQueues(e.queues, q)
		d.setTopic(name, e)
	}
	return nil
}
