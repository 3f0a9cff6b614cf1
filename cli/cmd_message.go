package cli

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"mqctl/cli/admin"
	"mqctl/store/record"
)

// messageItem is one stored message.
type messageItem struct {
	MsgID           string            `json:"msgId"` // where it lies
	UniqID          *string           `json:"uniqId"`
	Topic           string            `json:"topic"`
	Broker          *string           `json:"broker"`
	QueueID         int32             `json:"queueId"`
	QueueOffset     int64             `json:"queueOffset"`
	CommitLogOffset int64             `json:"commitLogOffset"`
	BornAt          *string           `json:"bornAt"`
	StoredAt        *string           `json:"storedAt"`
	BornHost        string            `json:"bornHost"`
	StoreHost       string            `json:"storeHost"`
	Tags            *string           `json:"tags"`
	Keys            []string          `json:"keys"`
	ReconsumeTimes  int32             `json:"reconsumeTimes"`
	Properties      map[string]string `json:"properties"`
	BodyBytes       int               `json:"bodyBytes" min:"0"`
	Body            *string           `json:"body"`             // when it is UTF-8
	BodyBase64      *string           `json:"bodyBase64"`       // when it is not
	Tracks          *[]messageTrack   `json:"tracks,omitempty"` // with --track

	raw     []byte
	packed  bool // raw is compressed in a way that is not read here
	sysFlag int32
	born    int64
	stored  int64
}

func messageOf(m *admin.Message, broker string) *messageItem {
	it := &messageItem{
		MsgID: m.OffsetID, Topic: m.Topic, QueueID: m.QueueID, QueueOffset: m.QueueOffset, CommitLogOffset: m.PhysOffset,
		BornAt: stampMillis(m.BornMillis), StoredAt: stampMillis(m.StoreMillis), BornHost: m.BornHost.String(), StoreHost: m.StoreHost.String(),
		Keys: strings.Fields(m.Properties["KEYS"]), ReconsumeTimes: m.ReconsumeTimes, Properties: m.Properties, BodyBytes: len(m.Body),
		raw: m.Body, sysFlag: m.SysFlag, born: m.BornMillis, stored: m.StoreMillis,
	}
	if it.Keys == nil {
		it.Keys = []string{}
	}
	if broker != "" {
		it.Broker = &broker
	}
	if v := m.Properties["UNIQ_KEY"]; v != "" {
		it.UniqID = &v
	}
	if v := m.Properties["TAGS"]; v != "" {
		it.Tags = &v
	}
	it.packed = m.Compression != "" && m.Compression != "zlib"
	if !it.packed && utf8.Valid(m.Body) {
		it.Body = ptr(string(m.Body))
	} else {
		it.BodyBase64 = ptr(base64.StdEncoding.EncodeToString(m.Body))
	}
	return it
}

var messageColumns = []column{
	{head: "BROKER", field: "broker", fold: 4}, {head: "Q", field: "queueId", as: asNumber}, {head: "OFFSET", field: "queueOffset", as: asNumber},
	{head: "STORED", field: "storedAt", as: asTime}, {head: "TAGS", field: "tags"}, {head: "KEYS", field: "keys", as: asList}, {head: "SIZE", field: "bodyBytes", as: asBytes},
	{head: "BODY", field: "body", as: asBody, cut: 60}, {head: "UNIQ ID", field: "uniqId", wide: true}, {head: "OFFSET ID", field: "msgId", wide: true}, {head: "BORN HOST", field: "bornHost", wide: true},
	{head: "ATTEMPTS", field: "reconsumeTimes", as: asNumber, wide: true},
}

func messageView() view {
	return view{
		item: messageItem{}, columns: messageColumns, name: func(item any) string { return item.(*messageItem).MsgID },
		body: func(item any) []byte { return item.(*messageItem).raw },
	}
}

func messageCommands() []*command {
	get, find := messageView(), messageView()
	get.old, find.old = oldMessageGet, oldMessageFind
	get.people = printMessages
	return []*command{
		messageSendCommand(),
		{
			path: "message get", old: "queryMsgById", summary: "one message by its id", args: "[ID]", max: 1, run: runMessageGet,
			schema: "mqctl.message.get/v1", exits: []int{ExitNotFound, ExitPartial}, view: get,
			examples: []string{
				"mqctl message get 7F00000100002A9F0000000000000000", "mqctl message get --uniq C0000201... --topic orders",
				"mqctl message get --topic orders --at broker-a:0:42", "mqctl queryMsgById -n 127.0.0.1:9876 -t orders -i 7F00000100002A9F0000000000000000",
			},
			flags: []flagSpec{
				{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				{key: "id", long: "msgId", short: "i", required: true, meta: "ID", help: "offset id, or unique id with --topic"},
				{key: "uniq", newOnly: true, meta: "ID", help: "unique id; needs --topic"},
				{key: "at", newOnly: true, meta: "BROKER:QUEUE:OFFSET", help: "position in a queue; needs --topic"},
				{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
				{key: "track", newOnly: true, kind: kindBool, help: "also which groups have consumed it"},
				{key: "group", long: "consumerGroup", short: "g", oldOnly: true, meta: "GROUP", complete: "group", help: "have a member of this group consume it now; needs -d"},
				{key: "client", long: "clientId", short: "d", oldOnly: true, meta: "ID", complete: "client", help: "the member"},
				{key: "again", long: "sendMessage", short: "s", oldOnly: true, kind: kindBool, help: "send it to its topic again"},
				{key: "unit", long: "unitName", short: "u", oldOnly: true, meta: "NAME", help: "part of the id of mqadmin's own client; read and not used, as nothing registers here"},
				bodyFormatFlag(),
			},
		},
		{
			path: "message find", old: "queryMsgByKey", summary: "messages by key", run: runMessageFind, schema: "mqctl.message.find/v1",
			exits: []int{ExitNotFound, ExitPartial}, view: find,
			examples: []string{"mqctl message find --topic orders --key order-4711", "mqctl queryMsgByKey -n 127.0.0.1:9876 -t orders -k order-4711"},
			flags: []flagSpec{
				{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				{key: "key", long: "msgKey", short: "k", required: true, meta: "KEY", help: "one of the message's keys"},
				{key: "since", meta: "TIME", help: "stored at or after: RFC 3339, ms since 1970, or -2h", newOnly: true},
				{key: "until", meta: "TIME", help: "stored before", newOnly: true},
				{key: "begin", long: "beginTimestamp", short: "b", oldOnly: true, kind: kindInt, max: math.MaxInt64, meta: "MS", help: "stored at or after, ms since 1970"},
				{key: "end", long: "endTimestamp", short: "e", oldOnly: true, kind: kindInt, max: math.MaxInt64, meta: "MS", help: "stored at or before, ms since 1970"},
				{key: "max", long: "maxNum", short: "m", kind: kindInt, min: 1, max: 10000, def: "64", meta: "N", help: "at most so many from each broker"},
				{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
			},
		},
		messageTailCommand(), messageTraceCommand(), messageResendCommand(), messageDecodeCommand(),
	}
}

// topicFlag is --topic, which is needed.
func topicFlag(c *call) (string, error) {
	name := c.str("topic")
	if name == "" {
		return "", usage("FLAG_MISSING", "%s needs --topic", c.cmd.name(c.old)).lacks(c.cmd, c.old, c.flag("topic"), c.values)
	}
	return name, checkTopic(name)
}

func runMessageFind(ctx context.Context, c *call) (*result, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	if c.str("key") == "" {
		return nil, usage("FLAG_MISSING", "%s needs --key", c.cmd.name(c.old)).lacks(c.cmd, c.old, c.flag("key"), c.values)
	}
	q := admin.Query{Topic: topic, Key: c.str("key"), Max: int(c.whole("max")), FromMillis: c.whole("begin"), ToMillis: c.whole("end")}
	for key, to := range map[string]*int64{"since": &q.FromMillis, "until": &q.ToMillis} {
		if c.given(key) {
			if *to, err = parseTime(c.str(key), c.begun, "--"+key); err != nil {
				return nil, err
			}
		}
	}
	return c.query(ctx, q)
}

// query asks all brokers of the topic.
func (c *call) query(ctx context.Context, q admin.Query) (*result, error) {
	targets, err := c.routeTargets(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) ([]admin.Message, error) {
		return c.client.QueryMessages(ctx, t.Addr, q)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for i := range res.Value {
			r.add(messageOf(&res.Value[i], res.Target.Broker))
		}
	}
	if len(r.items) == 0 && len(r.errors) == 0 {
		what := "key"
		if q.Unique {
			what = "unique id"
		}
		return nil, fail(ExitNotFound, "MESSAGE_NOT_FOUND", "no message of %q has the %s %q", q.Topic, what, q.Key).
			try("mqctl topic status "+shellWord(q.Topic), "mqctl message tail "+shellWord(q.Topic)+" --last 10")
	}
	return r, nil
}

func runMessageGet(ctx context.Context, c *call) (*result, error) {
	if c.old {
		return c.oldGet(ctx)
	}
	r, err := c.getOne(ctx)
	if err == nil && c.on("track") {
		err = c.addTracks(ctx, r)
	}
	return r, err
}

// getOne finds the message that the line names.
func (c *call) getOne(ctx context.Context) (*result, error) {
	id := c.arg(0)
	if id == "" {
		id = c.str("id")
	}
	ways := 0
	for _, given := range []bool{id != "", c.given("uniq"), c.given("at")} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		m := usage("FLAG_MISSING", "%s needs one of ID, --uniq and --at", c.cmd.name(c.old)).try("mqctl message get --help")
		if ways == 0 {
			return nil, m.lacksOne(c, "", "uniq", "at")
		}
		return nil, m
	}
	switch {
	case c.given("at"):
		return c.messageAt(ctx)
	case c.given("uniq"):
		topic, err := topicFlag(c)
		if err != nil {
			return nil, err
		}
		return c.query(ctx, admin.Query{Topic: topic, Key: c.str("uniq"), Unique: true, Max: 1})
	}
	return c.messageByID(ctx, id)
}

// messageByID finds a message by either kind of id, which look alike. With a
// topic it is looked up as a unique id first; else, and if there is none, it is
// an offset id, which has the address of the broker inside.
func (c *call) messageByID(ctx context.Context, id string) (*result, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	// Not every unique id can be read as an offset id.
	host, _, notOffset := record.ParseOffsetID(id)
	if _, err := hex.DecodeString(id); err != nil || len(id) != 32 && len(id) != 56 {
		return nil, usage("BAD_VALUE", "%q is not a message id", id).
			because("offset ids and unique ids have 32 hex digits (56 with IPv6); nothing was sent").
			try("mqctl message find --topic TOPIC --key KEY", "mqctl message get --topic TOPIC --at BROKER:QUEUE:OFFSET")
	}
	topic := c.str("topic")
	if topic != "" {
		if err := checkTopic(topic); err != nil {
			return nil, err
		}
		r, err := c.query(ctx, admin.Query{Topic: topic, Key: id, Unique: true, Max: 1})
		if err == nil || asMessage(c.explain(err)).ExitCode != ExitNotFound || notOffset != nil || !c.isBroker(ctx, host.String(), false) {
			return r, err
		}
		m, offsetErr := a.MessageByOffsetID(ctx, "", id)
		if offsetErr != nil || m.Topic != topic {
			return nil, err
		}
		return &result{items: []any{messageOf(m, "")}, done: 1}, nil
	}
	if notOffset != nil {
		return nil, maybeUnique(fail(ExitNotFound, "MESSAGE_NOT_FOUND", "there is no message %s: it is no offset id", id), id)
	}
	if !c.isBroker(ctx, host.String(), true) {
		return nil, maybeUnique(fail(ExitNotFound, "MESSAGE_NOT_FOUND", "there is no message %s: as an offset id it names %s, which is no broker here", id, host), id)
	}
	m, err := a.MessageByOffsetID(ctx, "", id)
	if err != nil {
		return nil, maybeUnique(asMessage(c.explain(err)), id)
	}
	return &result{items: []any{messageOf(m, "")}, done: 1}, nil
}

// isBroker reports whether an address belongs to a registered broker; otherwise
// is the answer when no nameserver can say so.
func (c *call) isBroker(ctx context.Context, addr string, otherwise bool) bool {
	all, err := c.client.Cluster(ctx)
	if err != nil {
		return otherwise
	}
	for _, g := range all.Brokers {
		for _, have := range g.Addrs {
			if have == addr {
				return true
			}
		}
	}
	return false
}

// maybeUnique says how to look for a unique id, which was given without a topic.
func maybeUnique(m *Message, id string) *Message {
	if m.Why == "" {
		m.reason("a unique id, the one that producers know, can only be looked up in a topic")
	}
	return m.try("mqctl message get " + id + " --topic TOPIC")
}

// position reads BROKER:QUEUE:OFFSET.
func position(text, flag string) (broker string, queue int32, offset int64, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 && parts[0] != "" {
		q, err1 := strconv.ParseInt(parts[1], 10, 32)
		o, err2 := strconv.ParseInt(parts[2], 10, 64)
		if err1 == nil && err2 == nil && q >= 0 && o >= 0 {
			return parts[0], int32(q), o, nil
		}
	}
	return "", 0, 0, usage("BAD_VALUE", "%s: %q is no position", flag, text).because("BROKER:QUEUE:OFFSET is expected").try(flag + " broker-a:0:42")
}

func (c *call) messageAt(ctx context.Context) (*result, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	broker, queue, offset, err := position(c.str("at"), "--at")
	if err != nil {
		return nil, err
	}
	return c.messageAtPlace(ctx, topic, broker, queue, offset)
}

func (c *call) messageAtPlace(ctx context.Context, topic, broker string, queue int32, offset int64) (*result, error) {
	targets, err := c.routeTargets(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if t.Broker != broker {
			continue
		}
		res := eachRead(ctx, c, []admin.Target{t}, func(ctx context.Context, t admin.Target) (*admin.Pulled, error) {
			return c.client.Pull(ctx, t.Addr, admin.Pull{Topic: topic, Broker: broker, QueueID: queue, Offset: offset, Max: 1})
		})[0]
		if res.Err != nil {
			return nil, c.at(res.Err, t)
		}
		p := res.Value
		for i := range p.Messages {
			if p.Messages[i].QueueOffset == offset {
				return &result{cluster: t.Cluster, items: []any{messageOf(&p.Messages[i], broker)}, done: 1}, nil
			}
		}
		return nil, fail(ExitNotFound, "MESSAGE_NOT_FOUND", "queue %d of %q at %s has no message %d", queue, topic, broker, offset).
			because("it holds %d to %d", p.Min, p.Max-1)
	}
	return nil, fail(ExitNotFound, "BROKER_NOT_FOUND", "topic %q is not on a broker %q", topic, broker)
}

// printMessages shows each message with all of its fields.
func printMessages(p *printer, r *result) {
	for i, item := range r.items {
		if i > 0 {
			p.printf("\n")
		}
		it := item.(*messageItem)
		var rows [][]string
		for _, f := range fieldsOf(it) {
			if f.name == "body" || f.name == "bodyBase64" || deref(f.value) == nil {
				continue
			}
			rows = append(rows, []string{f.name, valueText(deref(f.value))})
		}
		p.write(grid(nil, rows, nil, p.style.bold))
		p.printf("\n")
		if it.Body != nil {
			p.printf("%s\n", visibleText(*it.Body))
		} else {
			p.printf("(%d bytes that are no text; --output json has them in base64)\n", it.BodyBytes)
		}
	}
}

// visibleText keeps a body from steering the terminal.
func visibleText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// oldMessageGet is mqadmin's layout of queryMsgById. mqadmin writes the body to
// a file and prints its path; here the body follows.
func oldMessageGet(p *printer, r *result) {
	for _, item := range r.items {
		switch it := item.(type) {
		case *messageItem:
			it.oldLines(p, true)
		case *resendItem:
			p.printf("%s\n", it.oldText())
		}
	}
}

// oldLines are mqadmin's label and value lines of one message.
func (it *messageItem) oldLines(p *printer, withID bool) {
	tags := "null"
	if it.Tags != nil {
		tags = *it.Tags
	}
	line := func(label, value string) { p.printf("%-20s %s\n", label, value) }
	if withID {
		line("OffsetID:", it.MsgID)
	}
	line("Topic:", it.Topic)
	line("Tags:", "["+tags+"]")
	line("Keys:", "["+strings.Join(it.Keys, " ")+"]")
	line("Queue ID:", strconv.Itoa(int(it.QueueID)))
	line("Queue Offset:", strconv.FormatInt(it.QueueOffset, 10))
	line("CommitLog Offset:", strconv.FormatInt(it.CommitLogOffset, 10))
	line("Reconsume Times:", strconv.Itoa(int(it.ReconsumeTimes)))
	line("Born Timestamp:", javaTime(it.born))
	line("Store Timestamp:", javaTime(it.stored))
	line("Born Host:", it.BornHost)
	line("Store Host:", it.StoreHost)
	line("System Flag:", strconv.Itoa(int(it.sysFlag)))
	line("Properties:", "{"+strings.Join(pairs(it.Properties), ", ")+"}")
	body := "(no text)"
	if it.Body != nil {
		body = *it.Body
	}
	line("Message Body:", body)
	switch {
	case it.Tracks == nil:
	case len(*it.Tracks) == 0:
		p.printf("\n\nWARN: No Consumer\n")
	default:
		p.printf("\n\n")
		for _, t := range *it.Tracks {
			p.printf("%s\n", t.oldText())
		}
	}
}

// oldMessageFind is mqadmin's layout of queryMsgByKey.
func oldMessageFind(p *printer, r *result) {
	p.printf("%-50s %4s %40s\n", "#Message ID", "#QID", "#Offset")
	for _, item := range r.items {
		it := item.(*messageItem)
		id := it.MsgID
		if it.UniqID != nil {
			id = *it.UniqID
		}
		p.printf("%-50s %4d %40d\n", id, it.QueueID, it.QueueOffset)
	}
}

// readBody reads --body, "-" for stdin, or --file.
func readBody(c *call) ([]byte, error) {
	if c.given("body") && c.given("file") {
		return nil, usage("CONTRADICTION", "--body and --file exclude each other")
	}
	switch {
	case c.given("file"):
		f, err := os.Open(c.str("file"))
		if err != nil {
			return nil, unreadable(c.str("file"), err)
		}
		defer f.Close()
		return readLimited(f, c.str("file"))
	case c.str("body") == "-" && !c.old:
		return readLimited(c.io.In, "stdin")
	case c.given("body"):
		return []byte(c.str("body")), nil
	}
	return nil, usage("FLAG_MISSING", "%s needs --body or --file", c.cmd.name(c.old)).try("echo hi | mqctl message send "+c.arg(0)+" --body -").lacksOne(c, "body", "file")
}

// maxSendBytes bounds what is read into memory for one message: brokers take 4
// MiB by default and never more than a frame.
const maxSendBytes = 16 << 20

func readLimited(r io.Reader, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSendBytes+1))
	if err != nil {
		return nil, fail(ExitBadConfig, "BAD_FILE", "cannot read %s: %v", what, err)
	}
	if len(b) > maxSendBytes {
		return nil, fail(ExitBadConfig, "BAD_FILE", "%s is larger than %d bytes, which no broker takes", what, maxSendBytes)
	}
	return b, nil
}
