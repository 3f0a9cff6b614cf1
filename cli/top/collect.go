package top

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/broker/remoting/body"
	"mqctl/cli/admin"
)

// Collector asks a cluster and keeps what it said. One refresh is one round of
// requests, whatever is shown: one to a nameserver and at most six to each broker of
// mqctl, which has one for the progress of all groups and one for all clients; others
// are asked for the clients of eight groups each time. A broker that has not answered the round before is not asked again
// until it has, or its time is over.
//
// Goroutines: one for each broker that is being asked; it ends with the answers
// or with the context of the refresh that started it, at the latest after the
// client's time-out.
type Collector struct {
	Client   *admin.Client
	Selector admin.Selector // which cluster or brokers; zero: all
	Patience time.Duration  // how long a frame waits for brokers
	Context  string
	Hidden   func(group string) bool // groups of the system; nil: none
	Now      func() time.Time
	Version  func(n int) string // how a client's version is shown; nil: its number

	mu      sync.Mutex
	brokers map[string]*heard // by name/id
	cluster string
	problem error
	before  *Frame
	groups  map[string]total // by group: the round before
	topics  map[string]total
	first   bool // the first frame was made: changes are events
}

// heard is what one broker has said.
type heard struct {
	target admin.Target
	asking bool
	gone   bool      // not registered any more
	since  time.Time // known since
	at     time.Time // of the last answer
	err    error     // of the last question
	now    answer
	was    answer // the one before, for rates

	seq     int64        // number of the newest event
	pending []body.Event // that no frame has shown yet
	names   []string     // groups of a broker of others
	turn    int          // which of them was asked for last
	members map[string]*admin.ConsumerConnections
}

// answer is one round's answers of a broker.
type answer struct {
	at      time.Time
	runtime map[string]string
	ha      *body.InspectHA
	status  *admin.HAStatus
	pulls   *body.InspectPull
	groups  map[string][]queue // of a master
	clients *body.InspectClients
	events  *body.InspectEvents

	producers map[string][]admin.Producer // of a broker of others
	members   map[string]*admin.ConsumerConnections
}

// total is a sum of offsets at a time.
type total struct {
	at       time.Time
	lag, out int64
}

// Refresh asks everybody and returns the frame of what is known then.
func (c *Collector) Refresh(ctx context.Context) *Frame {
	if c.Now == nil {
		c.Now = time.Now
	}
	view, err := c.Client.Cluster(ctx)
	var targets []admin.Target
	if err == nil {
		targets, err = c.targets(view)
	}
	c.mu.Lock()
	c.problem = err
	if c.brokers == nil {
		c.brokers = map[string]*heard{}
	}
	if err == nil {
		c.register(targets)
	}
	var asked sync.WaitGroup
	for _, h := range c.brokers {
		if h.asking || h.target.Addr == "" {
			continue
		}
		h.asking = true
		asked.Add(1)
		go func() {
			defer asked.Done()
			c.ask(ctx, h)
		}()
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { asked.Wait(); close(done) }()
	late := time.NewTimer(c.Patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
	return c.frame()
}

func (c *Collector) targets(view *admin.Cluster) ([]admin.Target, error) {
	names := view.Names()
	switch {
	case c.Selector.Cluster != "" || c.Selector.Broker != "":
		c.cluster = c.Selector.Cluster
		return view.Targets(c.Selector)
	case len(names) == 1:
		c.cluster = names[0]
	}
	var out []admin.Target
	for _, n := range names {
		t, err := view.Targets(admin.Selector{Cluster: n})
		if err == nil {
			out = append(out, t...)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nameserver %s knows no broker", view.Nameserver)
	}
	return out, nil
}

// register notes who there is. A replica that is registered no more stays in the
// list: it may come back, and that it has gone is what somebody wants to see.
func (c *Collector) register(targets []admin.Target) {
	here := map[string]bool{}
	for _, t := range targets {
		key := t.String()
		here[key] = true
		h := c.brokers[key]
		if h == nil {
			h = &heard{since: c.Now()}
			c.brokers[key] = h
		}
		h.target = t
	}
	for key, h := range c.brokers {
		h.gone = !here[key]
	}
}

// ask puts one round of questions to one broker.
func (c *Collector) ask(ctx context.Context, h *heard) {
	c.mu.Lock()
	q := h.question()
	c.mu.Unlock()
	a, err := c.round(ctx, q)
	c.mu.Lock()
	defer c.mu.Unlock()
	h.asking, h.err = false, err
	if err == nil {
		a.at = c.Now()
		h.keep(&a, q.last)
		h.was, h.now, h.at = answer{at: h.now.at, runtime: h.now.runtime}, a, a.at
	}
}

// round asks the questions side by side. Only the first must be answered.
func (c *Collector) round(ctx context.Context, q question) (answer, error) {
	var a answer
	addr, last := q.addr, q.last
	var wg sync.WaitGroup
	var errRuntime error
	ours := admin.Offers(last, "MQCTL_INSPECT")
	wg.Go(func() { a.runtime, errRuntime = c.Client.RuntimeInfo(ctx, addr) })
	wg.Go(func() {
		if ours {
			a.ha, _ = c.Client.InspectHA(ctx, addr) // nil: not known
			return
		}
		if a.status, _ = c.Client.HAStatus(ctx, addr); a.status != nil && last == nil {
			a.ha, _ = c.Client.InspectHA(ctx, addr) // the first round does not know yet whose broker it is
		}
	})
	if ours || last == nil {
		wg.Go(func() { a.pulls, _ = c.Client.InspectPull(ctx, addr, "", "", time.Minute) })
		wg.Go(func() { a.clients, _ = c.Client.InspectClients(ctx, addr) })
		wg.Go(func() { a.events, _ = c.Client.InspectEvents(ctx, addr, q.since) })
	}
	if last != nil && !ours {
		wg.Go(func() { c.people(ctx, q, &a) })
	}
	if q.master { // slaves keep copies of the offsets
		wg.Go(func() {
			if s, err := c.Client.BrokerConsumeStats(ctx, addr, false); err == nil {
				a.groups = queuesOf(s)
			}
		})
	}
	wg.Wait()
	return a, errRuntime
}

// frame makes the frame of what is known.
func (c *Collector) frame() *Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	f := &Frame{at: now, At: stamp(now), Complete: c.problem == nil, runs: map[string]map[string]string{},
		Brokers: []Broker{}, HA: []Link{}, Groups: []Group{}, Topics: []Topic{}, Pulls: []Pull{}, Clients: []Client{}, Events: []Event{}}
	f.Context, f.Cluster = known(c.Context), known(c.cluster)
	if c.problem != nil {
		f.Problem = known(c.problem.Error())
	}
	all := make([]*heard, 0, len(c.brokers))
	for _, h := range c.brokers {
		all = append(all, h)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i].target, all[j].target
		return a.Broker < b.Broker || a.Broker == b.Broker && a.ID < b.ID
	})
	for _, h := range all {
		f.addBroker(h, now)
	}
	f.gaps(all)
	f.disks()
	f.pulls(all)
	version := c.Version
	if version == nil {
		version = strconv.Itoa
	}
	f.clients(all, version)
	c.progress(f, all, now)
	f.sums()
	events, own := remembered(all)
	f.Events = append(events, c.changes(f, own)...)
	if f.Events == nil {
		f.Events = []Event{}
	}
	c.before, c.first = f, true
	return f
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func stampMillis(ms int64) string { return stamp(time.UnixMilli(ms)) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func nameID(name string, id int64) string { return name + "/" + strconv.FormatInt(id, 10) }

func (a *answer) number(key string) *float64 {
	first, _, _ := strings.Cut(strings.TrimSpace(a.runtime[key]), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (a *answer) whole(key string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(a.runtime[key]), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// staleAfter is how old an answer may be before its numbers are not shown.
const staleAfter = 5 * time.Second

// addBroker adds a replica; numbers of an old answer are unknown.
func (f *Frame) addBroker(h *heard, now time.Time) {
	a := &h.now
	b := Broker{Broker: h.target.Broker, BrokerID: max(0, h.target.ID), Addr: h.target.Addr, Role: "ASYNC_MASTER", State: "ok"}
	if b.BrokerID > 0 {
		b.Role = "SLAVE"
	}
	if a.ha != nil && a.ha.Role != "" {
		b.Role = a.ha.Role
	}
	fresh := h.err == nil && !h.at.IsZero() && now.Sub(h.at) < staleAfter
	if !h.at.IsZero() {
		age := max(0, now.Sub(h.at).Milliseconds())
		b.AgeMillis = &age
	}
	switch {
	case h.gone:
		b.State = "not registered"
	case !fresh:
		b.State = "unreachable"
		from := h.at
		if from.IsZero() {
			from = h.since
		}
		if d := now.Sub(from); d >= time.Second {
			b.State += " " + since(d)
		}
		if h.asking && h.err == nil && now.Sub(from) < staleAfter {
			b.State = "asked"
		}
	}
	if !fresh || h.gone {
		f.Complete = false
		f.Down++
		f.Brokers = append(f.Brokers, b)
		return
	}
	f.runs[b.Name()] = a.runtime
	b.InPerSecond, b.OutPerSecond, b.P99 = a.number("putTps"), a.number("getTransferredTps"), a.number("putLatency99")
	b.SendQueue, b.MaxOffset = a.whole("sendThreadPoolQueueSize"), a.whole("commitLogMaxOffset")
	if d := a.number("commitLogDiskRatio"); d != nil && *d >= 0 {
		p := *d * 100
		b.DiskPercent = &p
	}
	f.inBytes(h)
	f.Brokers = append(f.Brokers, b)
}

// inBytes adds what the log of a master has grown by.
func (f *Frame) inBytes(h *heard) {
	if h.target.ID != 0 {
		return
	}
	a, b := h.was.whole("commitLogMaxOffset"), h.now.whole("commitLogMaxOffset")
	d := h.now.at.Sub(h.was.at).Seconds()
	if a == nil || b == nil || d <= 0 || *b < *a {
		return
	}
	f.InBytes = plus(f.InBytes, float64(*b-*a)/d)
}

func plus(sum *float64, v float64) *float64 {
	if sum != nil {
		v += *sum
	}
	return &v
}

// since is a time span as people say it.
func since(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// gaps adds the slaves that masters know, and their gap to the brokers.
func (f *Frame) gaps(all []*heard) {
	at := map[string]int{}
	for i := range f.Brokers {
		at[f.Brokers[i].Name()] = i
	}
	for i, h := range all {
		m := &f.Brokers[i]
		if m.MaxOffset == nil {
			continue
		}
		for _, l := range linksOf(h, m) {
			if j, ok := at[l.Slave]; ok {
				b := &f.Brokers[j]
				b.GapBytes = l.GapBytes
				if b.State == "ok" {
					b.State = strings.ToLower(strings.ReplaceAll(l.State, "_", " "))
					if l.InSync != nil && *l.InSync {
						b.State = "in sync"
					}
				}
			}
			f.HA = append(f.HA, l)
		}
	}
	// A slave without a connection that says its gap: by the ends of the logs.
	for i := range f.Brokers {
		b := &f.Brokers[i]
		if b.Role != "SLAVE" || b.GapBytes != nil || b.MaxOffset == nil {
			continue
		}
		if j, ok := at[nameID(b.Broker, 0)]; ok && f.Brokers[j].MaxOffset != nil {
			gap := max(0, *f.Brokers[j].MaxOffset-*b.MaxOffset)
			b.GapBytes = &gap
			if b.State == "ok" {
				b.State = "not connected"
			}
		}
	}
}

func linksOf(h *heard, m *Broker) []Link {
	var out []Link
	if ha := h.now.ha; ha != nil {
		for i := range ha.Slaves {
			s := &ha.Slaves[i]
			l := Link{Master: m.Name(), Slave: s.Addr, Addr: s.Addr, State: s.State}
			if s.BrokerID >= 0 {
				l.Slave = nameID(m.Broker, s.BrokerID)
			}
			if s.LostAt == 0 {
				l.GapBytes, l.GapMillis, l.BytesPerSecond = &s.GapBytes, &s.GapMillis, &s.BytesPerSec
			} else {
				l.State = "NOT_CONNECTED"
			}
			l.InSync = &s.InSync
			out = append(out, l)
		}
		return out
	}
	if h.now.status == nil || !h.now.status.Master {
		return nil
	}
	peers := h.now.status.Peers
	for i := range peers {
		p := &peers[i]
		l := Link{Master: m.Name(), Slave: p.Addr, Addr: p.Addr, GapBytes: &p.Diff, BytesPerSecond: &p.TransferredPerSec, InSync: &p.InSync, State: "BEHIND"}
		if p.InSync {
			l.State = "SYNCING"
		}
		out = append(out, l)
	}
	return out
}

// diskHigh is how full a disk may be, in percent: at 75 brokers begin to delete.
const diskHigh = 75

// disks tells of full disks, beside what is said of replication.
func (f *Frame) disks() {
	for i := range f.Brokers {
		b := &f.Brokers[i]
		if b.DiskPercent == nil || *b.DiskPercent <= diskHigh {
			continue
		}
		text := fmt.Sprintf("disk above %d %%", diskHigh)
		if b.State == "ok" {
			b.State = text
		} else {
			b.State += ", " + text
		}
	}
}

// pulls adds where groups are sent to read, and each replica's share of the pulls.
func (f *Frame) pulls(all []*heard) {
	byName := map[string]int64{}
	own := make([]int64, len(all))
	for i, h := range all {
		p := h.now.pulls
		if p == nil || f.Brokers[i].MaxOffset == nil {
			continue
		}
		for _, row := range p.Rows {
			own[i] += row.Pulls
			byName[h.target.Broker] += row.Pulls
			q := Pull{Broker: f.Brokers[i].Name(), Group: row.Group, Topic: row.Topic, Pulls: row.Pulls, Followed: row.Followed, BehindBytes: row.BehindBytes, Reason: row.Reason}
			for id, n := range row.Suggested {
				if id == 0 {
					q.ToMaster += n
				} else {
					q.ToSlave += n
				}
			}
			if row.Pulls > 0 {
				q.SlowPercent = 100 * float64(row.Slow) / float64(row.Pulls)
			}
			q.slow, q.byName = row.GroupSlow, row.GroupBroker
			f.Pulls = append(f.Pulls, q)
		}
	}
	for i, h := range all {
		if sum := byName[h.target.Broker]; sum > 0 && h.now.pulls != nil {
			p := 100 * float64(own[i]) / float64(sum)
			f.Brokers[i].PullsPercent = &p
		}
	}
	sort.SliceStable(f.Pulls, func(i, j int) bool { return f.Pulls[i].Pulls > f.Pulls[j].Pulls })
}

// sums fills the head line.
func (f *Frame) sums() {
	for i := range f.Brokers {
		b := &f.Brokers[i]
		if b.InPerSecond != nil && b.Role != "SLAVE" {
			f.InPerSecond = plus(f.InPerSecond, *b.InPerSecond)
		}
		if b.OutPerSecond != nil {
			f.OutPerSecond = plus(f.OutPerSecond, *b.OutPerSecond)
		}
		if b.P99 != nil && (f.PutP99 == nil || *b.P99 > *f.PutP99) {
			f.PutP99 = b.P99
		}
		if b.GapBytes != nil && (f.WorstGap == nil || *b.GapBytes > *f.WorstGap) {
			f.WorstGap = b.GapBytes
		}
	}
	if len(f.Groups) > 0 || len(f.runs) > 0 {
		lag := int64(0)
		for _, g := range f.Groups {
			lag += g.Lag
		}
		f.Lag = &lag
	}
}

// errNobody is the end of a run with --once when no broker has answered.
var errNobody = errors.New("no broker answers")

// Err is why a frame shows nothing: the nameserver's error, or that nobody answers.
func (c *Collector) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem != nil {
		return c.problem
	}
	for _, h := range c.brokers {
		if !h.at.IsZero() {
			return nil
		}
	}
	for _, h := range c.brokers {
		if h.err != nil {
			return h.err
		}
	}
	return errNobody
}
