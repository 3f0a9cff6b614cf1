package cli

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// mqadmin's commands that print a topic: printMsg, printMsgByQueue and
// consumeMessage. Their modern form is message tail.

func messagePrintCommands() []*command {
	v := messageView()
	v.old = oldMessageFind // a summary; mqadmin's layout is streamed
	topic := flagSpec{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"}
	begin := flagSpec{key: "begin", long: "beginTimestamp", short: "b", meta: "TIME", help: "stored from then on: ms since 1970 or yyyy-MM-dd#HH:mm:ss:SSS"}
	end := flagSpec{key: "end", long: "endTimestamp", short: "e", meta: "TIME", help: "stored before then"}
	charset := flagSpec{key: "charset", long: "charsetName", short: "c", meta: "CHARSET", help: "charset of bodies: UTF-8, US-ASCII or ISO-8859-1"}
	tag := flagSpec{key: "tag", long: "subExpression", short: "s", meta: "TAG", help: "only this tag; || between several"}
	consumeBegin := begin
	consumeBegin.short = "s"
	exits := []int{ExitNotFound, ExitPartial}
	return []*command{
		{
			old: "printMsg", twin: "message tail TOPIC --since 1h", summary: "print a topic", run: runPrintTopic, schema: "mqctl.message.tail/v1", exits: exits, view: v, attrs: streams,
			examples: []string{"mqctl printMsg -n 127.0.0.1:9876 -t orders -b 1764000000000", "mqctl printMsg -n 127.0.0.1:9876 -t orders -d false"},
			flags: []flagSpec{topic, charset, tag, begin, end,
				{key: "body", long: "printBody", short: "d", kind: kindBool, def: "true", help: "bodies too"},
				{key: "parent", long: "lmqParentTopic", short: "l", meta: "TOPIC", help: "find the route by this topic instead"},
			},
		},
		{
			old: "printMsgByQueue", twin: "message tail TOPIC --from B:Q:0", summary: "print one queue", run: runPrintQueue, schema: "mqctl.message.tail/v1", exits: exits, view: v, attrs: streams,
			examples: []string{"mqctl printMsgByQueue -n 127.0.0.1:9876 -t orders -a broker-a -i 0 -p true -d true", "mqctl printMsgByQueue -n 127.0.0.1:9876 -t orders -a broker-a -i 0 -f true"},
			flags: []flagSpec{topic, charset, tag, begin, end,
				{key: "broker-name", long: "brokerName", short: "a", required: true, meta: "NAME", complete: "broker", help: "the broker"},
				{key: "queue", long: "queueId", short: "i", required: true, kind: kindInt, max: math.MaxInt32, meta: "N", complete: "queue", help: "the queue"},
				{key: "print", long: "print msg", short: "p", kind: kindBool, help: "print the messages"},
				{key: "body", long: "printBody", short: "d", kind: kindBool, help: "and their bodies"},
				{key: "count", long: "calculate", short: "f", kind: kindBool, help: "count the messages of each tag"},
			},
		},
		{
			old: "consumeMessage", twin: "message tail TOPIC --last N", summary: "print some messages", run: runConsumeMessage, schema: "mqctl.message.tail/v1", exits: exits, view: v, attrs: streams,
			examples: []string{"mqctl consumeMessage -n 127.0.0.1:9876 -t orders -c 10", "mqctl consumeMessage -n 127.0.0.1:9876 -t orders -b broker-a -i 0 -o 42 -c 1"},
			flags: []flagSpec{topic, consumeBegin, end,
				{key: "broker-name", long: "brokerName", short: "b", meta: "NAME", complete: "broker", help: "this broker only"},
				{key: "queue", long: "queueId", short: "i", kind: kindInt, max: math.MaxInt32, meta: "N", complete: "queue", help: "this queue only; needs the broker"},
				{key: "offset", long: "offset", short: "o", kind: kindInt, max: math.MaxInt64, meta: "N", complete: "offset", help: "from this message on; needs the queue"},
				{key: "group", long: "consumerGroup", short: "g", meta: "GROUP", complete: "group", help: "pull as this group; its progress stays as it is"},
				{key: "messages", long: "MessageNumber", short: "c", kind: kindInt, min: 1, max: 1 << 20, def: "128", meta: "N", help: "at most so many"},
			},
		},
	}
}

// dump prints queues one after another as mqadmin does, or gathers their messages
// for the other formats.
type dump struct {
	c       *call
	r       *result
	topic   string
	group   string
	charset charset
	print   bool // messages
	body    bool
	marks   bool // a line before and after each queue
	ok      bool // "Consume ok" before each batch
	tags    map[string]int
	left    int64 // how many messages may still come
	kept    int   // bytes of bodies in r
}

// layout reports whether the lines are printed as they come.
func (d *dump) layout() bool { return d.c.p.format == "mqadmin" }

func (d *dump) printf(format string, args ...any) {
	if d.layout() {
		d.c.p.printf(format, args...)
	}
}

// queueName is a queue as mqadmin prints it (MessageQueue.toString).
func queueName(topic, broker string, queue int32) string {
	return fmt.Sprintf("MessageQueue [topic=%s, brokerName=%s, queueId=%d]", topic, broker, queue)
}

func (d *dump) queue(ctx context.Context, rd *reader) error {
	name := queueName(d.topic, rd.target.Broker, rd.queue)
	if d.marks {
		d.printf("minOffset=%d, maxOffset=%d, %s\n", rd.from, rd.to, name)
	}
	for rd.from < rd.to && d.left > 0 && d.c.p.broken == nil {
		p, err := d.c.client.Pull(ctx, rd.target.Addr, admin.Pull{
			Group: d.group, Topic: d.topic, Broker: rd.target.Broker, QueueID: rd.queue, Offset: rd.from,
			Max: int(min(32, rd.to-rd.from, d.left)), Expression: d.c.str("tag"),
		})
		if err != nil {
			return err
		}
		switch p.Status {
		case admin.PullFound:
			if d.ok {
				d.printf("Consume ok\n")
			}
			if err := d.take(p, rd); err != nil {
				return err
			}
		case admin.PullNoMatch:
			d.printf("%s no matched msg. status=%s, offset=%d\n", name, p.Status, rd.from)
		default:
			d.printf("%s print msg finished. status=%s, offset=%d\n", name, p.Status, rd.from)
			return nil
		}
		if p.Next <= rd.from {
			return nil
		}
		rd.from = p.Next
	}
	return nil
}

// maxGathered bounds what is kept in memory for formats that need a whole: bytes.
const maxGathered = 256 << 20

// take handles the messages of one pull.
func (d *dump) take(p *admin.Pulled, rd *reader) error {
	for i := range p.Messages {
		m := &p.Messages[i]
		if m.QueueOffset >= rd.to || !tagFits(m, d.c.str("tag")) || d.left <= 0 {
			continue
		}
		d.left--
		d.tags[m.Properties["TAGS"]]++
		it := messageOf(m, rd.target.Broker)
		it.read(d.charset)
		switch {
		case !d.layout():
			if d.kept += len(m.Body); d.kept > maxGathered {
				return fail(ExitFailed, "TOO_MUCH", "the messages have more than %d bytes", maxGathered).try("a shorter range of time", "mqctl message tail "+d.topic+" -o jsonl")
			}
			d.r.add(it)
		case d.print:
			d.printf("MSGID: %s %s BODY: %s\n", firstOf(m.Properties["UNIQ_KEY"], m.OffsetID), javaMessage(m, rd.target.Broker), d.bodyText(it))
		}
	}
	return d.c.p.broken
}

func (d *dump) bodyText(it *messageItem) string {
	switch {
	case !d.body:
		return "NOT PRINT BODY"
	case it.Body != nil:
		return *it.Body
	}
	return "(" + strconv.Itoa(it.BodyBytes) + " bytes that are no text)"
}

// javaMessage is a message as mqadmin prints it (MessageExt.toString).
func javaMessage(m *admin.Message, broker string) string {
	bytes := make([]string, len(m.Body))
	for i, b := range m.Body {
		bytes[i] = strconv.Itoa(int(int8(b)))
	}
	return fmt.Sprintf("MessageExt [brokerName=%s, queueId=%d, storeSize=%d, queueOffset=%d, sysFlag=%d, bornTimestamp=%d, bornHost=/%s, storeTimestamp=%d, storeHost=/%s, "+
		"msgId=%s, commitLogOffset=%d, bodyCRC=%d, reconsumeTimes=%d, preparedTransactionOffset=0, toString()=Message{topic='%s', flag=%d, properties={%s}, body=[%s], transactionId='%s'}]",
		broker, m.QueueID, m.StoredBytes, m.QueueOffset, m.SysFlag, m.BornMillis, m.BornHost, m.StoreMillis, m.StoreHost,
		m.OffsetID, m.PhysOffset, m.BodyCRC, m.ReconsumeTimes, m.Topic, m.Flag, strings.Join(pairs(m.Properties), ", "), strings.Join(bytes, ", "), m.Properties["UNIQ_KEY"])
}

// newDump prepares the run of one of the commands.
func (c *call) newDump() (*dump, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	cs, err := c.charsetFlag("charset")
	if err != nil {
		return nil, err
	}
	return &dump{c: c, topic: topic, charset: cs, tags: map[string]int{}, left: math.MaxInt64, r: &result{empty: "there are no such messages"}}, nil
}

// oldTimeFlag reads ms since 1970 or yyyy-MM-dd#HH:mm:ss:SSS; 0 when it is not given.
func (c *call) oldTimeFlag(key string) (int64, error) {
	text := c.str(key)
	if text == "" {
		return 0, nil
	}
	if at := strings.LastIndexByte(text, ':'); strings.Contains(text, "#") && at > 0 {
		if t, err := time.ParseInLocation("2006-01-02#15:04:05.000", text[:at]+"."+text[at+1:], time.Local); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return parseTime(text, c.begun, c.hint(key))
}

// hashTime writes a moment in mqadmin's form.
func hashTime(ms int64) string {
	return strings.Replace(time.UnixMilli(ms).Format("2006-01-02#15:04:05.000"), ".", ":", 1)
}

// bounded are the queues of the dump's topic between --begin and --end.
func (d *dump) bounded(ctx context.Context, keep func(t admin.Target, queue int32) bool) ([]*reader, error) {
	c := d.c
	begin, err := c.oldTimeFlag("begin")
	if err != nil {
		return nil, err
	}
	end, err := c.oldTimeFlag("end")
	if err != nil {
		return nil, err
	}
	if end != 0 && end < begin {
		return nil, usage("CONTRADICTION", "the end lies before the beginning").because("%d before %d; nothing was read", end, begin)
	}
	readers, err := c.readersBy(ctx, d.topic, firstOf(c.str("parent"), d.topic), keep)
	if err != nil {
		return nil, err
	}
	for _, rd := range readers {
		d.r.cluster = rd.target.Cluster
		if begin > 0 {
			at, err := c.client.OffsetAt(ctx, rd.target.Addr, d.topic, rd.queue, begin)
			if err != nil {
				return nil, c.at(err, rd.target)
			}
			rd.from = max(rd.from, at)
		}
		if end > 0 {
			at, err := c.client.OffsetAt(ctx, rd.target.Addr, d.topic, rd.queue, end)
			if err != nil {
				return nil, c.at(err, rd.target)
			}
			rd.to = min(rd.to, at)
		}
	}
	return readers, nil
}

// readersBy are the queues that a function keeps, by broker and number.
func (c *call) readersBy(ctx context.Context, topic, routeOf string, keep func(t admin.Target, queue int32) bool) ([]*reader, error) {
	targets, err := c.routeTargets(ctx, routeOf)
	if err != nil {
		return nil, err
	}
	var out []*reader
	for _, res := range eachRead(ctx, c, targets, func(ctx context.Context, t admin.Target) (*admin.TopicStats, error) {
		return c.client.TopicStats(ctx, t.Addr, topic)
	}) {
		if res.Err != nil {
			return nil, c.at(res.Err, res.Target)
		}
		for q, v := range res.Value.Queues {
			if keep == nil || keep(res.Target, q.ID) {
				out = append(out, &reader{target: res.Target, queue: q.ID, from: v.Min, to: v.Max})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].target.Broker != out[j].target.Broker {
			return out[i].target.Broker < out[j].target.Broker
		}
		return out[i].queue < out[j].queue
	})
	return out, nil
}

// all reads the queues one after another; one that fails does not end the others.
func (d *dump) all(ctx context.Context, readers []*reader, before func(rd *reader)) *result {
	for _, rd := range readers {
		if before != nil {
			before(rd)
		}
		if err := d.queue(ctx, rd); err != nil {
			d.r.failed(d.c.at(err, rd.target))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		d.r.done++
		if d.marks {
			d.printf("--------------------------------------------------------\n")
		}
	}
	d.r.streamed = d.layout()
	return d.r
}

func runPrintTopic(ctx context.Context, c *call) (*result, error) {
	d, err := c.newDump()
	if err != nil {
		return nil, err
	}
	d.print, d.marks, d.body = true, true, c.on("body")
	readers, err := d.bounded(ctx, nil)
	if err != nil {
		return nil, err
	}
	return d.all(ctx, readers, nil), nil
}

func runPrintQueue(ctx context.Context, c *call) (*result, error) {
	d, err := c.newDump()
	if err != nil {
		return nil, err
	}
	d.print, d.body = c.on("print"), c.on("body")
	readers, err := d.bounded(ctx, func(t admin.Target, queue int32) bool {
		return t.Broker == c.str("broker-name") && int64(queue) == c.whole("queue")
	})
	if err != nil {
		return nil, err
	}
	if len(readers) == 0 {
		return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "topic %q has no queue %d at %s", d.topic, c.whole("queue"), c.str("broker-name"))
	}
	r := d.all(ctx, readers, nil)
	if c.on("count") {
		names := sortedKeys(d.tags)
		sort.SliceStable(names, func(i, j int) bool { return d.tags[names[i]] > d.tags[names[j]] })
		for _, n := range names {
			d.printf("Tag: %-30s Count: %d\n", n, d.tags[n])
		}
	}
	return r, nil
}

func runConsumeMessage(ctx context.Context, c *call) (*result, error) {
	d, err := c.newDump()
	if err != nil {
		return nil, err
	}
	switch {
	case c.given("queue") && !c.given("broker-name"):
		return nil, usage("FLAG_MISSING", "%s needs %s", c.hint("queue"), c.hint("broker-name"))
	case c.given("offset") && !c.given("queue"):
		return nil, usage("FLAG_MISSING", "%s needs %s", c.hint("offset"), c.hint("queue"))
	}
	d.print, d.body, d.ok, d.group, d.left = true, true, true, c.str("group"), c.whole("messages")
	readers, err := d.bounded(ctx, func(t admin.Target, queue int32) bool {
		return (!c.given("broker-name") || t.Broker == c.str("broker-name")) && (!c.given("queue") || int64(queue) == c.whole("queue"))
	})
	if err != nil {
		return nil, err
	}
	if len(readers) == 0 {
		return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "topic %q has no such queue", d.topic).try("mqctl topic route " + d.topic)
	}
	if c.given("offset") {
		rd := readers[0]
		if at := c.whole("offset"); at < rd.from || at >= rd.to {
			return nil, fail(ExitNotFound, "MESSAGE_NOT_FOUND", "queue %d of %q at %s has no message %d", rd.queue, d.topic, rd.target.Broker, at).
				because("it holds %d to %d", rd.from, rd.to-1)
		}
		rd.from = c.whole("offset")
	}
	return d.all(ctx, readers, func(rd *reader) {
		if d.left > 0 && rd.to-rd.from > d.left {
			d.printf("The older %d message of the %d queue will be provided\n", d.left, rd.queue)
		}
	}), nil
}
