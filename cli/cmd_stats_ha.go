package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// haItem is replication at one broker name as its master sees it, or, when one
// slave was asked for, that slave's own view. The fields of the other form are
// null.
type haItem struct {
	Broker       string         `json:"broker"`
	BrokerID     int64          `json:"brokerId" min:"0"`
	Role         string         `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	Addr         *string        `json:"addr"` // null: no master is registered
	MasterAddr   *string        `json:"masterAddr"`
	MasterMax    *int64         `json:"masterMaxOffset"`
	InSyncSlaves *int64         `json:"inSyncSlaves"`
	Slaves       *int64         `json:"slaves"` // registered or connected
	Connections  []haConnection `json:"connections"`

	MaxOffset         *int64  `json:"maxOffset"`
	GapBytes          *int64  `json:"gapBytes"`
	BytesPerSecond    *int64  `json:"bytesPerSecond"`
	LastReadAt        *string `json:"lastReadAt"`
	LastWriteAt       *string `json:"lastWriteAt"`
	MasterFlushed     *int64  `json:"masterFlushedOffset"`
	Active            *bool   `json:"active"`
	HAAddr            *string `json:"haAddr"`
	State             *string `json:"state"`
	Why               *string `json:"why"`
	Copy              *haCopy `json:"copy"`
	Aside             *string `json:"asideFile"` // where a tail was put that the master did not have: the newest of asideFiles
	MetadataAgeMillis *int64  `json:"metadataAgeMillis"`

	// AsideFiles are all of them at the brokers of this item, until they are removed.
	AsideFiles []haAside `json:"asideFiles"`

	Epoch     *int64 `json:"epoch"` // raised by each change of role
	Fenced    *bool  `json:"fenced"`
	BadPeers  *int64 `json:"badConnections"`
	SampledAt string `json:"sampledAt"`

	old  *admin.HAStatus // of the camel-case layout, where the broker gave one
	need int64           // slaves that a synchronous master waits for
}

// haAside is a part of the log that a broker had and its master did not, on the
// broker's own machine.
type haAside struct {
	BrokerID int64  `json:"brokerId" min:"0"`
	Addr     string `json:"addr"`
	File     string `json:"file"`
}

// takeAsides adds what a broker set aside.
func (it *haItem) takeAsides(r *admin.Result[haReplica]) {
	if it.AsideFiles == nil {
		it.AsideFiles = []haAside{}
	}
	if r == nil || r.Err != nil || r.Value.own == nil {
		return
	}
	own := r.Value.own
	files := own.Asides
	if len(files) == 0 && own.Following != nil && own.Following.Aside != "" {
		files = []string{own.Following.Aside} // an older broker
	}
	for _, f := range files {
		it.AsideFiles = append(it.AsideFiles, haAside{BrokerID: max(0, r.Target.ID), Addr: r.Target.Addr, File: f})
		if it.Aside == nil {
			it.Aside = ptr(f)
		}
	}
}

// haTotals is the widest gap.
type haTotals = offsetsTotals

// haRow is one slave as a line of the table.
type haRow struct {
	SampledAt string  `json:"sampledAt"`
	Slave     string  `json:"slave"`
	Addr      string  `json:"addr"`
	Acked     *int64  `json:"ackedOffset"`
	Gap       *int64  `json:"gapBytes"`
	GapMillis *int64  `json:"gapMillis"`
	Rate      *string `json:"rate"`
	Sent      *int64  `json:"sentFromOffset"`
	State     string  `json:"state"`
}

// haColumns are the lines of stats ha.
var haColumns = []column{
	{head: "SLAVE", field: "slave"}, {head: "ADDR", field: "addr", fold: 3}, {head: "ACKED", field: "ackedOffset", as: asNumber},
	{head: "GAP", field: "gapBytes", as: asBytes}, {head: "GAP TIME", field: "gapMillis", as: asMillis, fold: 1},
	{head: "RATE", field: "rate"}, {head: "SENT FROM", field: "sentFromOffset", as: asNumber, fold: 2}, {head: "STATE", field: "state"},
}

const haSchema = "mqctl.stats.ha/v1"

func haView() view {
	return view{
		item: haItem{}, people: printHA, piped: pipeHA, old: oldHA,
		name: func(item any) string {
			it := item.(*haItem)
			return it.Broker + "/" + strconv.FormatInt(it.BrokerID, 10)
		},
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "ROLE", field: "role"},
			{head: "ADDR", field: "addr"}, {head: "MAX", field: "masterMaxOffset", as: asNumber},
			{head: "IN SYNC", field: "inSyncSlaves", as: asNumber}, {head: "SLAVES", field: "slaves", as: asNumber},
			{head: "GAP", field: "gapBytes", as: asBytes}, {head: "STATE", field: "state"},
		},
	}
}

func statsHACommand() *command {
	return &command{
		path: "stats ha", old: "haStatus", summary: "state of the replication connections", run: runHA, schema: haSchema,
		exits: []int{ExitNotFound, ExitPartial}, view: haView(),
		examples: []string{
			"mqctl stats ha", "mqctl stats ha --broker broker-a --watch=1s", "mqctl stats ha -o json | jq '.items[].connections[].gapBytes'",
			"mqctl haStatus -n 127.0.0.1:9876 -c DefaultCluster",
		},
		attrs: watches,
		flags: append(oldTarget(),
			flagSpec{key: "interval", long: "interval", short: "i", oldOnly: true, kind: kindInt, min: 1, max: 86400, meta: "SECONDS", help: "repeat until interrupted"}),
	}
}

func haStatusCommand() *command {
	return &command{
		path: "ha status", summary: "state of the replication connections, with limits", run: runHA, schema: haSchema,
		exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse}, view: haView(),
		examples: []string{"mqctl ha status --max-gap 64MiB", "mqctl ha status --broker broker-a --max-gap-time 5s"},
		flags:    gapFlags("exit 7 when"), attrs: watches,
	}
}

// gapFlags are the limits of a gap.
func gapFlags(what string) []flagSpec {
	return []flagSpec{
		{key: "max-gap", meta: "SIZE", help: what + " a slave lacks more than this: 0, 4096, 64MiB"},
		{key: "max-gap-time", kind: kindDuration, meta: "DUR", help: what + " the oldest byte it lacks is older than this"},
	}
}

// gapLimit is what --max-gap and --max-gap-time allow.
type gapLimit struct {
	bytes *int64
	time  *time.Duration
}

func (c *call) gapLimit() (gapLimit, error) {
	var l gapLimit
	if c.given("max-gap") {
		n, err := parseSize(c.str("max-gap"))
		if err != nil {
			return l, usage("BAD_VALUE", "--max-gap: %q is not a size", c.str("max-gap")).because("%v", err).try("--max-gap 64MiB", "--max-gap 0")
		}
		l.bytes = &n
	}
	if c.given("max-gap-time") {
		l.time = ptr(c.duration("max-gap-time"))
	}
	return l, nil
}

func (l gapLimit) given() bool { return l.bytes != nil || l.time != nil }

// text is the limit for people.
func (l gapLimit) text() string {
	var parts []string
	if l.bytes != nil {
		parts = append(parts, fmt.Sprintf("%d bytes", *l.bytes))
	}
	if l.time != nil {
		parts = append(parts, l.time.String())
	}
	return strings.Join(parts, ", ")
}

// exceeded says why a slave is over the limit; "" when it is within. A gap that
// is not known is not within.
func (l gapLimit) exceeded(k *haConnection) string {
	switch {
	case brokenStates[k.State]:
		return "it is " + k.stateText()
	case k.State == stateNotConnected:
		return "it is not connected"
	case k.GapBytes == nil || k.GapSource == "LAST_KNOWN":
		return "its gap is not known"
	case l.bytes != nil && *k.GapBytes > *l.bytes:
		return fmt.Sprintf("its gap is %d bytes", *k.GapBytes)
	case l.time == nil || *k.GapBytes == 0:
		return ""
	case k.GapMillis == nil:
		return "its gap in time is not known: the master is not mqctl"
	case time.Duration(*k.GapMillis)*time.Millisecond > *l.time:
		return "its gap is " + shortDuration(time.Duration(*k.GapMillis)*time.Millisecond)
	}
	return ""
}

// haTargets are the replicas to ask; alone is true when one was named.
func (c *call) haTargets(ctx context.Context) (targets []admin.Target, alone bool, err error) {
	s := c.selector(false)
	if c.old && s.Broker == "" {
		s.MastersOnly = true
		targets, err = c.pick(ctx, s)
		return targets, false, err
	}
	targets, err = c.offsetTargets(ctx, s)
	return targets, admin.IsAddress(s.Broker) || strings.Contains(s.Broker, "/"), err
}

func runHA(ctx context.Context, c *call) (*result, error) {
	if err := c.needTarget(); err != nil {
		return nil, err
	}
	limit, err := c.gapLimit()
	if err != nil {
		return nil, err
	}
	var past gapHistory
	return c.watch(ctx, func(ctx context.Context) (*result, error) {
		r, err := c.haOnce(ctx)
		if err != nil {
			return nil, err
		}
		if limit.given() && r.overGap(limit) {
			r.exit = ExitConditionFalse
		}
		return r, nil
	}, func(r *result) string { return past.add(c, r) })
}

// overGap reports whether a slave is over the limit, and warns of each.
func (r *result) overGap(limit gapLimit) bool {
	over := false
	for _, item := range r.items {
		it := item.(*haItem)
		links := it.Connections
		if it.Role == "SLAVE" && it.State != nil {
			links = []haConnection{it.ownLink()}
		}
		for i := range links {
			if why := limit.exceeded(&links[i]); why != "" {
				over = true
				r.warn(warning("GAP_TOO_WIDE", it.slaveName(&links[i]), "%s is not within the limit of %s: %s", it.slaveName(&links[i]), limit.text(), why))
			}
		}
	}
	if over {
		r.final = ptr(ExitConditionFalse) // a false condition comes before an incomplete answer
	}
	return over
}

// ownLink is a slave's own view as a connection.
func (it *haItem) ownLink() haConnection {
	k := haConnection{BrokerID: ptr(it.BrokerID), GapBytes: it.GapBytes, GapSource: "HA_STATUS", State: *it.State, Why: it.Why, AckedOffset: it.MaxOffset}
	if it.GapBytes == nil {
		k.GapSource = "NONE"
	}
	return k
}

// slaveName is how a slave is called: by its name, or by its address.
func (it *haItem) slaveName(k *haConnection) string {
	if k.BrokerID == nil {
		return k.Addr
	}
	return it.Broker + "/" + strconv.FormatInt(*k.BrokerID, 10)
}

func (c *call) haOnce(ctx context.Context) (*result, error) {
	targets, alone, err := c.haTargets(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), empty: "no broker is registered"}
	all := c.haReplicas(ctx, targets)
	for i := range all {
		if all[i].Err != nil {
			r.failed(c.at(all[i].Err, all[i].Target))
		} else {
			r.done++
		}
	}
	t := haTotals{}
	for _, g := range groupsOf(all) {
		it := c.haItemOf(ctx, g, alone)
		if it == nil {
			continue
		}
		r.add(it)
		for _, a := range it.AsideFiles {
			name := it.Broker + "/" + strconv.FormatInt(a.BrokerID, 10)
			r.warn(warning("LOG_SET_ASIDE", name, "messages that only %s at %s had were cut off its log and kept there in %s; this is said until that is removed", name, a.Addr, a.File))
		}
		if !alone && !g.answers() {
			r.warnMasterless(g)
		}
		if g.answers() && g.master.Value.blind() {
			r.warn(warning("HA_STATUS_MISSING", g.master.Target.String(), "%s does not answer request 907; gaps are computed from commit log offsets", g.master.Target))
		}
		if g.answers() && !alone && len(it.Connections) == 0 {
			r.warn(warning("NO_SLAVES", it.Broker, "%s: no slave is registered or connected", it.Broker))
		}
		for i := range it.Connections {
			k := &it.Connections[i]
			if k.GapBytes != nil && (t.WidestGapBytes == nil || *k.GapBytes > *t.WidestGapBytes) {
				t.WidestGapBytes, t.WidestGapBroker = k.GapBytes, ptr(it.slaveName(k))
			}
		}
	}
	r.totals = t
	return r, nil
}

// warnMasterless says what helps where no master answers and a slave does.
func (r *result) warnMasterless(g *haGroup) {
	i := slices.IndexFunc(g.slaves, func(s *admin.Result[haReplica]) bool { return s.Err == nil && s.Value.own != nil })
	if i < 0 {
		return
	}
	t := g.slaves[i].Target
	m := warning("NO_MASTER", g.name, "no master of %s answers: its slaves serve reads, and sends fail", g.name)
	m.offer("start the master again")
	m.offer(fmt.Sprintf("mqctl ha promote %s --id %d --force --dry-run", g.name, t.ID))
	r.warn(m)
}

// haItemOf is the item of one broker name; nil when there is nothing to tell.
func (c *call) haItemOf(ctx context.Context, g *haGroup, alone bool) *haItem {
	at := stamp(time.Now())
	if g.master == nil && alone {
		if len(g.slaves) != 1 || g.slaves[0].Err != nil {
			return nil
		}
		it := slaveItem(g.slaves[0])
		it.SampledAt = at
		return it
	}
	if alone && g.master.Err != nil {
		return nil
	}
	it := &haItem{Broker: g.name, Role: "ASYNC_MASTER", Connections: c.connections(ctx, g), SampledAt: at}
	it.takeAsides(g.master)
	for _, s := range g.slaves {
		it.takeAsides(s)
	}
	inSync := int64(0)
	for i := range it.Connections {
		if s := it.Connections[i].InSync; s != nil && *s {
			inSync++
		}
	}
	it.Slaves = ptr(int64(len(it.Connections)))
	if g.master != nil {
		it.Addr, it.MasterAddr, it.Role = ptr(g.master.Target.Addr), ptr(g.master.Target.Addr), g.master.Value.role(0)
	}
	if !g.answers() {
		it.State = ptr("NO_MASTER")
		if g.master != nil {
			it.State = ptr(stateUnreachable)
		}
		return it
	}
	v := g.master.Value
	it.need = v.slavesNeeded()
	it.MasterMax, it.InSyncSlaves, it.old = v.end(), &inSync, v.status
	switch {
	case v.own != nil:
		it.InSyncSlaves = ptr(int64(v.own.InSync))
		it.Epoch, it.Fenced, it.BadPeers = &v.own.Epoch, &v.own.Fenced, &v.own.BadPeers
	case v.status != nil && v.status.Master:
		it.MasterMax = &v.status.MaxOffset
	default:
		it.InSyncSlaves = nil
	}
	return it
}

// slavesNeeded is how many slaves a synchronous master waits for. One of ours
// waits for one unless its configuration says otherwise.
func (v haReplica) slavesNeeded() int64 {
	if v.role(0) != "SYNC_MASTER" {
		return 0
	}
	n := orZero(runtimeView(v.config).whole("inSyncReplicas")) - 1
	if v.runtime["mqctlVersion"] != "" {
		return max(1, n)
	}
	return max(0, n)
}

// slaveItem is a slave's own view.
func slaveItem(s *admin.Result[haReplica]) *haItem {
	v := s.Value
	it := &haItem{
		Broker: nameOf(s.Target), BrokerID: max(0, s.Target.ID), Role: v.role(s.Target.ID), Addr: ptr(s.Target.Addr),
		Connections: []haConnection{}, MaxOffset: v.end(), old: v.status,
	}
	it.takeAsides(s)
	if v.status != nil {
		cl := v.status.Client
		it.MasterAddr, it.BytesPerSecond = textOrNil(cl.MasterAddr), &cl.TransferredPerSec
		it.LastReadAt, it.LastWriteAt, it.Active = stampMillis(cl.LastReadMillis), stampMillis(cl.LastWriteMillis), cl.Activated
		if cl.MasterFlushOffset > 0 {
			it.MasterFlushed = &cl.MasterFlushOffset
		}
		it.HAAddr = it.MasterAddr
	}
	if v.own == nil {
		return it
	}
	it.Epoch, it.Fenced, it.BadPeers, it.MasterAddr = &v.own.Epoch, &v.own.Fenced, &v.own.BadPeers, textOrNil(v.own.MasterAddr)
	if f := v.own.Following; f != nil {
		it.BytesPerSecond, it.Active, it.HAAddr = &f.BytesPerSec, &f.Connected, textOrNil(f.HAAddr)
		it.LastReadAt, it.LastWriteAt = stampMillis(f.LastRead), stampMillis(f.LastWrite)
		it.State, it.Why = textOrNil(f.State), textOrNil(f.Why)
		it.Copy = copyOf(f.CopyFrom, f.CopyTo, v.own.Max)
		if f.MasterEnd > 0 {
			it.MasterMax = &f.MasterEnd
			it.GapBytes = ptr(f.MasterEnd - v.own.Max)
		}
		if f.MetaAgeMs >= 0 {
			it.MetadataAgeMillis = &f.MetaAgeMs
		}
	}
	return it
}

// rowsOf are the lines of one item.
func (p *printer) rowsOf(it *haItem) []any {
	if it.Role == "SLAVE" {
		row := haRow{SampledAt: it.SampledAt, Slave: fmt.Sprintf("%s/%d", it.Broker, it.BrokerID), Addr: *it.Addr, Acked: it.MaxOffset, Gap: it.GapBytes,
			Rate: p.perSecond(it.BytesPerSecond), State: "unknown"}
		if it.State != nil {
			k := it.ownLink()
			k.Copy = it.Copy
			row.State = k.stateText()
		}
		return []any{row}
	}
	out := make([]any, 0, len(it.Connections))
	for i := range it.Connections {
		k := &it.Connections[i]
		out = append(out, haRow{SampledAt: it.SampledAt, Slave: it.slaveName(k), Addr: k.Addr, Acked: k.AckedOffset, Gap: k.GapBytes, GapMillis: k.GapMillis,
			Rate: p.perSecond(k.BytesPerSecond), Sent: k.SentFromOffset, State: k.stateText()})
	}
	return out
}

// perSecond is a rate of bytes: 4.1 MiB/s for people, a number in a pipe.
func (p *printer) perSecond(n *int64) *string {
	if n == nil {
		return nil
	}
	if !p.style.terminal {
		return ptr(strconv.FormatInt(*n, 10))
	}
	return ptr(p.style.cell(*n, asBytes) + "/s")
}

// printHA is the form for people: a heading for each broker name, its slaves,
// and a sentence for each that is not simply in sync.
func printHA(p *printer, r *result) {
	for i, item := range r.items {
		it := item.(*haItem)
		if i > 0 {
			p.printf("\n")
		}
		p.printf("%s\n", strings.Join(p.haHead(it), "   "))
		rows := p.rowsOf(it)
		if len(rows) == 0 {
			p.printf("%s\n", p.style.dim("no slave is registered or connected"))
			continue
		}
		p.printf("\n")
		p.rows(haColumns, rows)
		for _, l := range p.haSentences(it) {
			p.printf("%s\n", l)
		}
	}
}

func (p *printer) haHead(it *haItem) []string {
	head := []string{p.style.cyan(it.Broker)}
	if it.Role == "SLAVE" {
		master := "not known"
		if it.MasterAddr != nil {
			master = *it.MasterAddr
		}
		return append(head, fmt.Sprintf("slave %d, master %s", it.BrokerID, master))
	}
	switch {
	case it.Addr == nil || *it.Addr == "":
		head = append(head, p.style.red("no master is registered"))
	case it.State != nil:
		head = append(head, p.style.red("master "+*it.Addr+" does not answer"))
	default:
		head = append(head, "master "+*it.Addr)
	}
	if it.MasterMax != nil {
		head = append(head, "max "+p.style.cell(*it.MasterMax, asNumber))
	}
	if it.InSyncSlaves != nil {
		head = append(head, fmt.Sprintf("in sync %d of %d", *it.InSyncSlaves, *it.Slaves))
	}
	if it.Fenced != nil && *it.Fenced {
		head = append(head, p.style.yellow("fenced: a change of role is under way"))
	}
	return append(head, p.now.Format("15:04:05"))
}

func (p *printer) haSentences(it *haItem) (lines []string) {
	say := func(name string, why *string, cp *haCopy) {
		if cp != nil {
			lines = append(lines, fmt.Sprintf("%s: copied %s of %s", name, p.style.cell(cp.DoneBytes, asBytes), p.style.cell(cp.ToOffset-cp.FromOffset, asBytes)))
		}
		if why != nil {
			lines = append(lines, name+": "+oneLine(*why))
		}
	}
	for i := range it.Connections {
		k := &it.Connections[i]
		if k.State == stateSyncing && k.Copy == nil {
			continue // its state says it all
		}
		say(it.slaveName(k), k.Why, k.Copy)
	}
	if it.Role == "SLAVE" {
		say(fmt.Sprintf("%s/%d", it.Broker, it.BrokerID), it.Why, it.Copy)
	}
	return lines
}

// pipeHA is one row a slave. What is more than a row, the reasons, goes to stderr, so
// that every line of stdout has the same words.
func pipeHA(p *printer, r *result) {
	var rows []any
	for _, item := range r.items {
		it := item.(*haItem)
		rows = append(rows, p.rowsOf(it)...)
		lines := p.haSentences(it)
		if len(lines) == 0 || p.silent || p.watching {
			continue
		}
		for _, l := range append([]string{strings.Join(p.haHead(it), "   ")}, lines...) {
			p.tell("note    %s", l)
		}
	}
	columns := haColumns
	if p.watching {
		columns = append([]column{{head: "TIME", field: "sampledAt"}}, columns...)
	}
	if len(rows) > 0 {
		p.rows(columns, rows)
	}
}

// gapHistory is the widest gap of the last looks, for the line under a watch.
type gapHistory struct {
	at     []time.Time
	widest []int64
}

// span is how far back the line shows.
const span = time.Minute

// maxSigns bounds the line's length.
const maxSigns = 60

func (h *gapHistory) add(c *call, r *result) string {
	t, _ := r.totals.(haTotals)
	now := time.Now()
	gap := int64(0)
	if t.WidestGapBytes != nil {
		gap = *t.WidestGapBytes
	}
	h.at, h.widest = append(h.at, now), append(h.widest, gap)
	for len(h.at) > maxSigns || now.Sub(h.at[0]) > span {
		h.at, h.widest = h.at[1:], h.widest[1:]
	}
	most := int64(math.MinInt64)
	for _, v := range h.widest {
		most = max(most, v)
	}
	return fmt.Sprintf("gap, last %s   %s  max %s\n", shortDuration(now.Sub(h.at[0])), sparkline(h.widest, c.p.style.utf8), c.p.style.cell(most, asBytes))
}
