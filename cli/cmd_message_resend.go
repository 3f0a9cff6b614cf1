package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"mqctl/cli/admin"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// resendItem is a stored message that was, or would be, given to somebody again.
type resendItem struct {
	MsgID   string  `json:"msgId"`
	UniqID  *string `json:"uniqId"`
	Topic   string  `json:"topic"`
	Broker  *string `json:"broker"`
	Method  string  `json:"method" enum:"CLIENT|TOPIC"`
	Target  string  `json:"target"` // the client, or the topic
	Status  *string `json:"status"` // SEND_OK ..., or CR_SUCCESS ... of a client
	Remark  *string `json:"remark"`
	NewID   *string `json:"newId"` // offset id of the copy
	Millis  *int64  `json:"millis"`
	Applied bool    `json:"applied"`

	direct *admin.DirectResult
}

// oldText is mqadmin's form of the result.
func (it *resendItem) oldText() string {
	if d := it.direct; d != nil {
		remark := "null"
		if d.Remark != nil {
			remark = *d.Remark
		}
		return fmt.Sprintf("ConsumeMessageDirectlyResult [order=%t, autoCommit=%t, consumeResult=%s, remark=%s, spentTimeMills=%d]",
			d.Order, d.AutoCommit, d.Result, remark, d.SpentMillis)
	}
	if it.Status == nil {
		return it.MsgID
	}
	return fmt.Sprintf("SendResult [sendStatus=%s, msgId=%s, offsetMsgId=%s]", *it.Status, valueText(deref(it.UniqID)), valueText(deref(it.NewID)))
}

func messageResendCommand() *command {
	return &command{
		path: "message resend", summary: "give a stored message to a client or a topic again", args: "[ID]", max: 1, run: runMessageResend,
		schema: "mqctl.message.resend/v1", exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse, ExitAborted}, attrs: mutates | destructive,
		examples: []string{
			"mqctl message resend C0000201... --topic orders --group order_consumer", "mqctl message resend C0000201... --topic orders",
			"mqctl message resend --from-dlq --group order_consumer --dry-run", "mqctl message resend --from-dlq order_consumer --max 100 --yes",
		},
		flags: []flagSpec{
			{key: "topic", meta: "TOPIC", complete: "topic", help: "the topic of the message"},
			{key: "group", meta: "GROUP", complete: "group", help: "a member of this group consumes it now; with --from-dlq whose dead letters"},
			{key: "client", meta: "ID", complete: "client", help: "this member [any that is online]"},
			{key: "from-dlq", kind: kindBool, help: "all messages of the group's dead-letter topic go to its retry topic, which no other group reads"},
			{key: "to", meta: "TOPIC", complete: "topic", help: "a copy goes to this topic instead"},
			{key: "max", kind: kindInt, min: 1, max: 100000, def: "1000", meta: "N", help: "with --from-dlq: at most so many, the oldest first; --limit means the same"},
			{key: "since", meta: "DUR|TIME", help: "with --from-dlq: only what was given up since then"},
		},
		view: resendView(),
	}
}

func resendView() view {
	return view{
		item: resendItem{}, name: func(item any) string { return item.(*resendItem).MsgID }, old: oldMessageGet,
		columns: []column{
			{head: "MESSAGE", field: "msgId"}, {head: "FROM", field: "topic"}, {head: "BY", field: "method", fold: 1}, {head: "TO", field: "target"},
			{head: "STATUS", field: "status"}, {head: "MS", field: "millis", as: asNumber, fold: 2}, {head: "APPLIED", field: "applied"}, {head: "REMARK", field: "remark", wide: true},
		},
	}
}

// replays makes a command of mqadmin's that looks at messages one that sends them.
func (c *call) replays() error {
	if c.cmd.is(mutates) {
		return nil
	}
	c.p.view, c.p.schema = resendView(), "mqctl.message.resend/v1"
	return c.refuseChange()
}

func runMessageResend(ctx context.Context, c *call) (*result, error) {
	if c.on("from-dlq") {
		return c.resendDead(ctx)
	}
	id, topic := c.arg(0), c.str("topic")
	if id == "" {
		return nil, usage("FLAG_MISSING", "message resend needs the ID of a message, or --from-dlq --group GROUP").try("mqctl message resend --help").lacksOne(c, "", "from-dlq")
	}
	if c.given("client") && !c.given("group") {
		return nil, usage("FLAG_MISSING", "--client needs --group")
	}
	if c.given("to") && c.given("group") {
		return nil, usage("CONTRADICTION", "--to and --group exclude each other")
	}
	found, err := c.messageByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(found.items) == 0 {
		return found, nil
	}
	m := found.items[0].(*messageItem)
	if c.given("group") {
		return c.resendToClient(ctx, m, c.str("group"), c.str("client"))
	}
	to := firstOf(c.str("to"), topic, m.Topic)
	return c.resendAll(ctx, []*messageItem{m}, to, "every group that reads "+to+" gets it again")
}

// resendUnique serves queryMsgByUniqueKey and queryMsgById with -g and -d.
func (c *call) resendUnique(ctx context.Context, topic, id string) (*result, error) {
	found, err := c.query(ctx, admin.Query{Topic: topic, Key: id, Unique: true, Max: 1})
	if err != nil || len(found.items) == 0 {
		return found, err
	}
	return c.resendToClient(ctx, found.items[0].(*messageItem), c.str("group"), c.str("client"))
}

// oldGet is queryMsgById: it can also replay the message.
func (c *call) oldGet(ctx context.Context) (*result, error) {
	cs, err := c.charsetFlag("charset")
	if err != nil {
		return nil, err
	}
	if c.given("group") != c.given("client") {
		return nil, usage("FLAG_MISSING", "%s and %s belong together", c.hint("group"), c.hint("client"))
	}
	var all result
	for _, id := range strings.Split(c.str("id"), ",") {
		r, err := c.messageByID(ctx, strings.TrimSpace(id))
		if err != nil {
			return nil, err
		}
		if len(r.items) > 0 {
			m := r.items[0].(*messageItem)
			m.read(cs)
			switch {
			case c.given("group"):
				r, err = c.resendToClient(ctx, m, c.str("group"), c.str("client"))
			case c.on("again"):
				r, err = c.resendAll(ctx, []*messageItem{m}, m.Topic, "")
			default:
				err = c.addTracks(ctx, r)
			}
			if err != nil {
				return nil, err
			}
		}
		all.join(r)
	}
	return &all, nil
}

// resendToClient has a member of a group consume the message now (309).
func (c *call) resendToClient(ctx context.Context, m *messageItem, group, client string) (*result, error) {
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	if err := c.replays(); err != nil {
		return nil, err
	}
	t := admin.Target{Addr: m.StoreHost, ID: -1}
	targets, err := c.routeTargets(ctx, m.Topic)
	if err != nil {
		return nil, err
	}
	for _, have := range targets {
		if have.Addr == m.StoreHost || m.Broker != nil && have.Broker == *m.Broker {
			t = have
		}
	}
	if client == "" {
		members, err := c.client.ConsumerConnections(ctx, t.Addr, group)
		if err != nil {
			return nil, c.at(err, t)
		}
		if len(members.Connections) == 0 {
			return nil, fail(ExitNotFound, "NOT_ONLINE", "group %q has no client online at %s", group, t)
		}
		client = members.Connections[0].ClientID
	}
	it := &resendItem{MsgID: m.MsgID, UniqID: m.UniqID, Topic: m.Topic, Broker: m.Broker, Method: "CLIENT", Target: client}
	r := &result{cluster: t.Cluster, items: []any{it}, change: &change{DryRun: c.dryRun()}}
	if c.dryRun() {
		return r, nil
	}
	if err := c.confirm("consuming "+m.MsgID+" again", client+" of group "+group+" gets it now, whatever the group's progress is"); err != nil {
		return nil, err
	}
	got, err := c.client.ConsumeDirectly(ctx, t.Addr, t.Broker, group, client, m.Topic, m.MsgID)
	if err != nil {
		return nil, c.at(err, t)
	}
	it.direct, it.Status, it.Remark, it.Millis, it.Applied = got, &got.Result, got.Remark, &got.SpentMillis, true
	r.change.Applied, r.done = true, 1
	if got.Result != "CR_SUCCESS" && got.Result != "CR_COMMIT" {
		r.exit = ExitConditionFalse
		r.warn(warning("NOT_CONSUMED", client, "the client answered %s", got.Result))
	}
	return r, nil
}

// resendDead moves dead letters back to the group they belong to.
func (c *call) resendDead(ctx context.Context) (*result, error) {
	group, id := c.str("group"), c.arg(0)
	if group == "" {
		group, id = id, ""
	}
	if group == "" {
		return nil, usage("FLAG_MISSING", "--from-dlq needs --group").lacks(c.cmd, c.old, c.flag("group"), c.values)
	}
	if err := subgroup.CheckName(group); err != nil {
		return nil, usage("BAD_NAME", "%q is not a group name", group).because("%v", err)
	}
	if c.given("client") {
		return nil, usage("CONTRADICTION", "--client and --from-dlq exclude each other")
	}
	dead, to := "%DLQ%"+group, firstOf(c.str("to"), "%RETRY%"+group)
	readers, err := c.readers(ctx, dead)
	if err != nil {
		return nil, err
	}
	r := &result{}
	items, err := c.readAll(ctx, r, dead, readers)
	if err != nil {
		return nil, err
	}
	if len(r.errors) > 0 {
		return r, nil
	}
	most := c.whole("max")
	if c.given("limit") && !c.given("max") { // who limits the list means what is sent too
		most = c.whole("limit")
	}
	if n := int(most); len(items) > n {
		r.warn(warning("MORE", dead, "%d more dead letters are left alone", len(items)-n))
		items = items[:n]
	}
	if id != "" {
		items = onlyID(items, id)
		if len(items) == 0 {
			return nil, fail(ExitNotFound, "MESSAGE_NOT_FOUND", "%s has no message %s", dead, id)
		}
	}
	out, err := c.resendAll(ctx, items, to, fmt.Sprintf("%s of %s go to %s; they stay in %s too", count(len(items), "message"), dead, to, dead))
	if out != nil {
		out.warnings = append(out.warnings, r.warnings...)
		out.empty = "there are no dead letters"
	}
	return out, err
}

func onlyID(items []*messageItem, id string) []*messageItem {
	for _, it := range items {
		if it.MsgID == id || it.UniqID != nil && *it.UniqID == id || it.Properties["ORIGIN_MESSAGE_ID"] == id {
			return []*messageItem{it}
		}
	}
	return nil
}

// ownProperties are set by brokers and clients for one delivery; a copy gets new ones.
var ownProperties = []string{"UNIQ_KEY", "DELAY", "REAL_TOPIC", "REAL_QID", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "RECONSUME_TIME",
	"MAX_RECONSUME_TIMES", "TRAN_MSG", "PGROUP", "CLUSTER", "TRACE_ON", "MSG_REGION", "INNER_NUM", "INNER_BASE", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS",
	"TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"}

// resendAll sends copies of messages to a topic, one after another.
func (c *call) resendAll(ctx context.Context, items []*messageItem, to, impact string) (*result, error) {
	if err := checkTopic(to); err != nil {
		return nil, err
	}
	if err := c.replays(); err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	plans := make([]*resendItem, len(items))
	for i, m := range items {
		plans[i] = &resendItem{MsgID: m.MsgID, UniqID: m.UniqID, Topic: m.Topic, Broker: m.Broker, Method: "TOPIC", Target: to}
		r.add(plans[i])
	}
	if c.dryRun() || len(items) == 0 {
		return r, nil
	}
	if impact != "" {
		if err := c.confirm("sending again", impact); err != nil {
			return nil, err
		}
	}
	places, cluster, err := c.places(ctx, to)
	if err != nil {
		return nil, err
	}
	r.cluster = cluster
	ctx, done := steady(ctx)
	defer done()
	ids := record.NewUniqueIDs(ownIP(), os.Getpid())
	for i, m := range items {
		if err := c.copyTo(ctx, m, plans[i], to, places[i%len(places)], ids); err != nil {
			r.failed(c.at(err, admin.Target{Broker: places[i%len(places)].broker, Addr: places[i%len(places)].addr}).
				because("%d of %d were sent before; the rest was not", i, len(items)))
			return r, nil
		}
		r.done++
		r.change.Applied = true
	}
	return r, nil
}

// copyTo sends one copy. Its properties are the message's own but for those of its
// first delivery.
func (c *call) copyTo(ctx context.Context, m *messageItem, it *resendItem, to string, at place, ids *record.UniqueIDs) error {
	props := maps.Clone(m.Properties)
	for _, name := range ownProperties {
		delete(props, name)
	}
	if strings.HasPrefix(to, "%RETRY%") && props["RETRY_TOPIC"] == "" {
		props["RETRY_TOPIC"] = m.Topic
	}
	begin := time.Now()
	props["UNIQ_KEY"], props["WAIT"] = string(ids.Append(nil, begin.UnixMilli())), "true"
	send := admin.Send{Topic: to, Broker: at.broker, QueueID: at.queue, DefaultQueues: int(at.auto), Properties: props, Body: m.raw}
	if m.packed {
		send.SysFlag = m.sysFlag & (record.FlagCompressed | 7<<8)
	}
	sent, err := c.client.Send(ctx, at.addr, send)
	if err != nil {
		return err
	}
	it.Status, it.NewID, it.Millis, it.Applied = &sent.Status, &sent.OffsetID, ptr(time.Since(begin).Milliseconds()), true
	return nil
}

// decodeItem is what is inside a message id.
type decodeItem struct {
	ID        string  `json:"id"`
	Kind      string  `json:"kind" enum:"OFFSET_ID|UNIQUE_ID"`
	IP        string  `json:"ip"`
	Port      *int    `json:"port"`      // of the broker, in an offset id
	Offset    *int64  `json:"offset"`    // in its commit log
	Pid       *int    `json:"pid"`       // of the client, in a unique id
	CreatedAt *string `json:"createdAt"` // its month is that of today or the one before
	Counter   *int    `json:"counter"`

	at int64
}

func messageDecodeCommand() *command {
	return &command{
		path: "message decode", old: "DecodeMessageId", summary: "what is inside a message id", args: "ID", min: 1, max: 1, attrs: local,
		run: runMessageDecode, schema: "mqctl.message.decode/v1",
		examples: []string{"mqctl message decode 7F00000100002A9F0000000000000000", "mqctl DecodeMessageId -i 7F0000010D1518B4AAC20D4E1A2B0000"},
		flags:    []flagSpec{{key: "id", long: "messageId", short: "i", arg: 1, required: true, meta: "ID", help: "an offset id or a unique id"}},
		view: view{
			item: decodeItem{}, name: func(item any) string { return item.(*decodeItem).ID },
			columns: []column{
				{head: "KIND", field: "kind"}, {head: "IP", field: "ip"}, {head: "PORT", field: "port"}, {head: "OFFSET", field: "offset", as: asNumber},
				{head: "PID", field: "pid"}, {head: "CREATED", field: "createdAt", as: asTime}, {head: "COUNTER", field: "counter"},
			},
			old: func(p *printer, r *result) {
				it := r.items[0].(*decodeItem)
				p.printf("ip=%s\n", it.IP)
				if it.CreatedAt != nil {
					p.printf("date=%s\n", hashTime(it.at))
				}
			},
		},
	}
}

func runMessageDecode(_ context.Context, c *call) (*result, error) {
	id := c.arg(0)
	u, err := record.ParseUniqueID(id, c.begun)
	if err != nil {
		return nil, usage("BAD_VALUE", "%q is not a message id", id).because("offset ids and unique ids have 32 hex digits, 56 or more with IPv6")
	}
	if host, at, err := record.ParseOffsetID(id); err == nil && host.Port() > 0 {
		return &result{items: []any{&decodeItem{ID: id, Kind: "OFFSET_ID", IP: host.Addr().String(), Port: ptr(int(host.Port())), Offset: ptr(int64(at))}}}, nil
	}
	ms := u.At.UnixMilli()
	return &result{items: []any{&decodeItem{ID: id, Kind: "UNIQUE_ID", IP: u.Host.String(), Pid: &u.Pid, CreatedAt: stampMillis(ms), Counter: &u.Counter, at: ms}}}, nil
}
