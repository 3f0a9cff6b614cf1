package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
	"mqctl/subgroup"
)

// How offsets reach a broker: through its clients while some are online (222),
// else as a stored value (15).
const (
	methodOnline = "ONLINE"
	methodStored = "STORED"
)

// offsetMoveItem is what became of a group's offset in one queue.
type offsetMoveItem struct {
	Group    string `json:"group"`
	Topic    string `json:"topic"`
	Broker   string `json:"broker"`
	QueueID  int32  `json:"queueId" min:"0"`
	Before   *int64 `json:"before"` // null: nothing is stored
	After    int64  `json:"after"`
	Delta    *int64 `json:"delta"` // messages skipped; negative: read again
	Method   string `json:"method" enum:"ONLINE|STORED"`
	Changed  bool   `json:"changed"`
	Applied  bool   `json:"applied"`
	Verified bool   `json:"verified"`

	max    int64 // end of the queue
	target admin.Target
	whole  *wholeReset // nil: the broker resets single queues
}

// wholeReset is the reset of a topic at a broker that leaves resets to the
// clients and knows no single queues: one request moves them all.
type wholeReset struct {
	millis int64 // -1: the end
	sent   bool
	err    error
}

// offsetTotals sums a plan up.
type offsetTotals struct {
	ReadAgain int64 `json:"readAgain"` // messages
	Skipped   int64 `json:"skipped"`   // messages
	Queues    int   `json:"queues"`    // that change
}

// queueState is a group's progress in one queue as it was read.
type queueState struct {
	topic    string
	queue    int32
	min, max int64
	stored   *int64
}

// groupState is a group at one broker.
type groupState struct {
	exists bool
	online bool
	single bool // the broker resets single queues itself
	queues []queueState
}

// offsetTarget is where a queue shall go: in words of the user.
type offsetTarget struct {
	earliest, latest bool
	millis           int64
	queues           map[string]int64 // "broker:queue" -> offset, of --to-offset
	exact            *int64           // mqadmin's -o
	text             string
}

// of works out the offset of one queue.
func (o *offsetTarget) of(ctx context.Context, c *call, t admin.Target, q *queueState) (int64, bool, error) {
	switch {
	case o.queues != nil:
		n, ok := o.queues[t.Broker+":"+strconv.Itoa(int(q.queue))]
		if !ok {
			n, ok = o.queues[t.Addr+":"+strconv.Itoa(int(q.queue))]
		}
		if ok && (n < q.min || n > q.max) {
			return 0, false, usage("BAD_OFFSET", "%s queue %d has the offsets %d to %d, %d is none of them", t, q.queue, q.min, q.max, n).because("nothing was changed")
		}
		return n, ok, nil
	case o.exact != nil:
		if *o.exact < q.min || *o.exact > q.max {
			return 0, false, usage("BAD_OFFSET", "%s queue %d has the offsets %d to %d, %d is none of them", t, q.queue, q.min, q.max, *o.exact).because("nothing was changed")
		}
		return *o.exact, true, nil
	case o.earliest:
		return q.min, true, nil
	case o.latest:
		return q.max, true, nil
	}
	if q.min >= q.max {
		return q.max, true, nil
	}
	n, err := c.client.OffsetAt(ctx, t.Addr, q.topic, q.queue, o.millis)
	return min(max(n, q.min), q.max), true, err
}

// parseOffsetTarget reads --to and --to-offset.
func parseOffsetTarget(c *call) (*offsetTarget, error) {
	to, queues := c.str("to"), c.list("to-offset")
	switch {
	case to != "" && len(queues) > 0:
		return nil, usage("CONTRADICTION", "%s and --to-offset exclude each other", c.hint("to"))
	case len(queues) > 0:
		return parseQueueOffsets(queues)
	case to == "":
		return nil, usage("VALUE_MISSING", "where to is missing").because("nothing was sent").
			try("--to earliest", "--to latest", "--to -2h", "--to 2026-11-29T10:00", "--to-offset broker-a:0=1000")
	}
	out := &offsetTarget{text: to}
	switch strings.ToLower(to) {
	case "earliest":
		out.earliest = true
		return out, nil
	case "latest", "now":
		out.latest = true
		return out, nil
	case "-1":
		out.latest = true
		return out, nil
	}
	if t, err := time.ParseInLocation("2006-01-02#15:04:05", cutMillis(to), time.Local); err == nil && strings.Contains(to, "#") {
		out.millis = t.UnixMilli() + millisOf(to)
		return out, nil
	}
	ms, err := parseTime(to, c.begun, c.hint("to"))
	if err != nil {
		return nil, asMessage(err).try(c.hint("to")+"=earliest", c.hint("to")+"=latest")
	}
	out.millis = ms
	return out, nil
}

// cutMillis drops the ":SSS" of mqadmin's yyyy-MM-dd#HH:mm:ss:SSS.
func cutMillis(s string) string {
	if strings.Count(s, ":") == 3 {
		return s[:strings.LastIndexByte(s, ':')]
	}
	return s
}

func millisOf(s string) int64 {
	if strings.Count(s, ":") != 3 {
		return 0
	}
	n, err := strconv.ParseUint(s[strings.LastIndexByte(s, ':')+1:], 10, 16)
	if err != nil || n > 999 {
		return 0
	}
	return int64(n)
}

func parseQueueOffsets(list []string) (*offsetTarget, error) {
	out := &offsetTarget{queues: map[string]int64{}, text: strings.Join(list, " ")}
	for _, part := range list {
		where, text, ok := strings.Cut(part, "=")
		at := strings.LastIndexByte(where, ':')
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || at <= 0 || err != nil || n < 0 {
			return nil, usage("BAD_VALUE", "--to-offset: %q is not BROKER:QUEUE=OFFSET", part).try("--to-offset broker-a:0=1000")
		}
		if q, err := strconv.ParseUint(where[at+1:], 10, 31); err != nil || strconv.FormatUint(q, 10) != where[at+1:] {
			return nil, usage("BAD_VALUE", "--to-offset: %q is no queue id", where[at+1:]).try("--to-offset broker-a:0=1000")
		}
		if _, twice := out.queues[where]; twice {
			return nil, usage("FLAG_TWICE", "--to-offset: %s is there twice", where)
		}
		out.queues[where] = n
	}
	return out, nil
}

// groupAt reads a group's progress in topics at one broker. Without topics
// they are those that the group has progress in.
func (c *call) groupAt(ctx context.Context, t admin.Target, group string, topics []string) (*groupState, error) {
	all, err := c.groupsOf(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	out := &groupState{}
	_, out.exists = all[group]
	var offline *admin.NotOnline
	conns, err := c.client.ConsumerConnections(ctx, t.Addr, group)
	if err != nil && !errors.As(err, &offline) {
		return nil, err
	}
	out.online = err == nil && len(conns.Connections) > 0
	if out.online {
		cfg, err := c.keptConfig(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		out.single = cfg.Values["useServerSideResetOffset"] == "true"
	}
	if len(topics) == 0 {
		stats, err := c.client.ConsumeStats(ctx, t.Addr, group, "")
		var missing *admin.NotFound
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		if err == nil {
			topics = progressTopics(stats)
		}
	}
	for _, topic := range topics {
		queues, err := c.queuesAt(ctx, t, group, topic)
		if err != nil {
			return nil, err
		}
		out.queues = append(out.queues, queues...)
	}
	return out, nil
}

func progressTopics(s *admin.ConsumeStats) []string {
	names := map[string]bool{}
	for q := range s.Queues {
		names[q.Topic] = true
	}
	return sortedKeys(names)
}

// queuesAt reads the queues of a topic with a group's stored offsets; none
// where the broker has no such topic.
func (c *call) queuesAt(ctx context.Context, t admin.Target, group, topic string) ([]queueState, error) {
	stats, err := c.topicStatsOf(ctx, t.Addr, topic)
	var missing *admin.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []queueState
	for q, r := range stats.Queues {
		s := queueState{topic: topic, queue: q.ID, min: max(r.Min, 0), max: max(r.Max, 0)}
		n, ok, err := c.client.ConsumerOffset(ctx, t.Addr, group, topic, q.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			s.stored = &n
		}
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].queue < out[j].queue })
	return out, nil
}

// moveOf plans one queue.
func moveOf(group string, t admin.Target, q *queueState, after int64, online bool) *offsetMoveItem {
	it := &offsetMoveItem{Group: group, Topic: q.topic, Broker: t.String(), QueueID: q.queue, Before: q.stored, After: after,
		Method: methodStored, max: q.max, target: t}
	if online {
		it.Method = methodOnline
	}
	if q.stored != nil {
		it.Delta = ptr(after - *q.stored)
	}
	it.Changed = q.stored == nil || *q.stored != after
	return it
}

// offsetEdit makes a planned move an edit. An offset that did not exist before
// cannot be taken away again: brokers know no such request.
func (c *call) offsetEdit(it *offsetMoveItem) *edit {
	e := &edit{target: it.target, items: []any{it}, same: !it.Changed,
		write:  func(ctx context.Context) (bool, error) { return c.moveOffset(ctx, it) },
		verify: func(ctx context.Context) error { return c.verifyOffset(ctx, it) },
		things: func() []auditThing {
			return []auditThing{{Target: it.target.String(), Addr: it.target.Addr, Key: offsetKey(it.Group, it.Topic, it.QueueID),
				Before: rawJSON(it.Before), After: rawJSON(it.After)}}
		}}
	if it.Before != nil {
		e.revert = func(ctx context.Context) error {
			back := *it
			back.After, back.Before = *it.Before, &it.After
			if _, err := c.moveOffset(ctx, &back); err != nil {
				return err
			}
			if err := c.verifyOffset(ctx, &back); err != nil {
				return err
			}
			it.Applied, it.Verified = false, false
			return nil
		}
	}
	if e.same {
		it.Verified = true
	}
	return e
}

func offsetKey(group, topic string, queue int32) string {
	return fmt.Sprintf("offset/%s/%s/%d", group, topic, queue)
}

// moveOffset writes one offset by the method planned. When
// the clients have gone meanwhile, the value is stored instead.
func (c *call) moveOffset(ctx context.Context, it *offsetMoveItem) (sent bool, err error) {
	if it.Method == methodOnline {
		if w := it.whole; w == nil {
			_, err = c.client.ResetOffset(ctx, it.target.Addr, it.Group, it.Topic, it.QueueID, it.After, -1)
		} else {
			if !w.sent {
				w.sent = true
				_, w.err = c.client.ResetOffset(ctx, it.target.Addr, it.Group, it.Topic, -1, -1, w.millis)
			}
			err = w.err
		}
		var offline *admin.NotOnline
		if errors.As(err, &offline) {
			it.Method = methodStored
		}
	}
	if it.Method == methodStored {
		err = c.client.CommitOffset(ctx, it.target.Addr, it.Group, it.Topic, it.QueueID, it.After)
	}
	if err != nil {
		return false, err
	}
	it.Applied = true
	return true, nil
}

// verifyOffset reads a written offset back.
func (c *call) verifyOffset(ctx context.Context, it *offsetMoveItem) error {
	var last error
	patience := max(c.patience(), offsetPatience)
	if it.whole != nil {
		patience = max(patience, clientPatience)
	}
	_, err := until(ctx, patience, func(ctx context.Context) (bool, error) {
		got, stored, err := c.client.ConsumerOffset(ctx, it.target.Addr, it.Group, it.Topic, it.QueueID)
		switch {
		case err != nil:
			last = fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", it.target, err)
		case !stored:
			last = notVerified(it.target, fmt.Sprintf("no offset of %s is stored in queue %d of %s", it.Group, it.QueueID, it.Topic))
		case got != it.After && (it.Method == methodStored || got < it.After || it.Before != nil && *it.Before > it.After && got >= *it.Before):
			// Clients that are online may have consumed on from there already.
			last = notVerified(it.target, fmt.Sprintf("queue %d of %s wanted %d, is %d", it.QueueID, it.Topic, it.After, got))
		default:
			it.Verified = true
			return true, nil
		}
		return false, last
	})
	return err
}

// How long an offset that was written may take to show. A client that is told
// by its broker writes it itself, with its next commit.
const (
	offsetPatience = 2 * time.Second
	clientPatience = 15 * time.Second
)

// offsetPlan is what a command wants of a group's offsets.
type offsetPlan struct {
	group   string
	topics  []string // none: all that the group has progress in
	offline bool     // store them, also while clients are online
	millis  *int64   // the moment that all queues go to, -1 the end; nil: each has its own offset
	// to says where a queue goes; false leaves it alone.
	to func(ctx context.Context, t admin.Target, q *queueState) (int64, bool, error)
}

// planOffsets reads the group at all targets and plans where its queues go.
func (c *call) planOffsets(ctx context.Context, r *result, targets []admin.Target, p *offsetPlan) ([]*offsetMoveItem, error) {
	group, topics, offline := p.group, p.topics, p.offline
	states := admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*groupState, error) {
		return c.groupAt(ctx, t, group, topics)
	})
	exists, online := false, false
	for _, s := range states {
		if s.Err == nil {
			exists, online = exists || s.Value.exists, online || s.Value.online
		}
	}
	var plan []*offsetMoveItem
	for _, s := range states {
		if s.Err != nil {
			r.failed(c.at(s.Err, s.Target))
			continue
		}
		items, err := p.at(ctx, c, r, s.Target, s.Value)
		if err != nil {
			return nil, err
		}
		plan = append(plan, items...)
	}
	if !exists && len(r.errors) == 0 {
		known := map[string]bool{}
		for _, g := range allGroups(ctx, c, targets) {
			for n := range g.Value {
				known[n] = true
			}
		}
		return nil, groupMissing(group, clusterOf(targets), known)
	}
	if online && offline {
		r.warn(warning("MEMBERS_ONLINE", group, "group %q has members online; they go on from where they are and store their own offsets", group))
	}
	return plan, nil
}

// at plans the queues of one broker.
func (p *offsetPlan) at(ctx context.Context, c *call, r *result, t admin.Target, state *groupState) ([]*offsetMoveItem, error) {
	online := state.online && !p.offline
	if online && !state.single && p.millis == nil {
		m := warning("CLIENTS_MAY_OVERWRITE", t.String(), "%s leaves resets to its clients, which know no single queues: the offsets are stored, and clients that are online may write theirs over them", t)
		m.offer("stop the clients first")
		r.warn(m)
		online = false
	}
	whole := map[string]*wholeReset{}
	var out []*offsetMoveItem
	for i := range state.queues {
		q := &state.queues[i]
		after, ok, err := p.to(ctx, t, q)
		if err != nil {
			return nil, c.at(err, t)
		}
		if !ok {
			continue
		}
		it := moveOf(p.group, t, q, after, online)
		if online && !state.single {
			if whole[q.topic] == nil {
				whole[q.topic] = &wholeReset{millis: *p.millis}
			}
			it.whole = whole[q.topic]
		}
		out = append(out, it)
	}
	return out, nil
}

// offsetSums counts what a plan means for the consumers.
func offsetSums(plan []*offsetMoveItem) offsetTotals {
	var t offsetTotals
	for _, it := range plan {
		if it.Changed {
			t.Queues++
		}
		switch {
		case it.Delta == nil:
		case *it.Delta < 0:
			t.ReadAgain -= *it.Delta
		default:
			t.Skipped += *it.Delta
		}
	}
	return t
}

func (t offsetTotals) impact() string {
	return fmt.Sprintf("%s would move: %s read again, %s skipped", count(t.Queues, "queue"), count(int(t.ReadAgain), "message"), count(int(t.Skipped), "message"))
}

// previewOffsets shows a plan on stderr before the question about it.
func (c *call) previewOffsets(plan []*offsetMoveItem) {
	if c.old && !c.context().Protected || c.on("yes") || c.dryRun() || !c.asks() {
		return
	}
	rows := make([][]string, 0, len(plan))
	for _, it := range plan {
		before, delta := "-", "-"
		if it.Before != nil {
			before = strconv.FormatInt(*it.Before, 10)
		}
		if it.Delta != nil {
			delta = strconv.FormatInt(*it.Delta, 10)
		}
		rows = append(rows, []string{it.Topic, it.Broker, strconv.Itoa(int(it.QueueID)), before, strconv.FormatInt(it.After, 10), delta, it.Method})
	}
	_, _ = c.io.Err.Write(grid([]string{"TOPIC", "BROKER", "Q", "BEFORE", "AFTER", "DELTA", "METHOD"}, rows, nil, c.p.errStyle.bold))
}

// checkGroupName refuses what is no group's name.
func checkGroupName(name string) error {
	if err := subgroup.CheckName(name); err != nil {
		return usage("BAD_NAME", "%q is not a group name", name).because("%v", err)
	}
	return nil
}

// firstOffsets counts the queues that get their first offset.
func firstOffsets(plan []*offsetMoveItem) (n int) {
	for _, it := range plan {
		if it.Changed && it.Before == nil {
			n++
		}
	}
	return n
}

// moveOffsets asks about a plan and carries it out.
func (c *call) moveOffsets(ctx context.Context, r *result, what string, plan []*offsetMoveItem) error {
	sums := offsetSums(plan)
	r.totals = sums
	impact := sums.impact()
	if n := firstOffsets(plan); n > 0 && !c.old {
		text := fmt.Sprintf("nothing is stored in %s yet: a first offset can be moved, but not be taken away again by undo", count(n, "queue"))
		r.warn(warning("NO_WAY_BACK", "", "%s", text))
		impact += "; " + text
	}
	if sums.Queues > 0 {
		c.previewOffsets(plan)
		if err := c.confirm(what, impact); err != nil {
			return err
		}
	}
	slices.SortStableFunc(plan, func(a, b *offsetMoveItem) int { return strings.Compare(a.Topic, b.Topic) })
	edits := make([]*edit, len(plan))
	for i, it := range plan {
		edits[i] = c.offsetEdit(it)
	}
	c.carryOut(ctx, r, edits)
	return nil
}
