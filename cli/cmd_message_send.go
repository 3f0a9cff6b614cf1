package cli

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
	"mqctl/store/record"
)

// sentItem is what became of one message that was sent.
type sentItem struct {
	MsgID       string  `json:"msgId"`
	UniqID      *string `json:"uniqId"`
	Broker      string  `json:"broker"`
	QueueID     int32   `json:"queueId" min:"0"`
	QueueOffset int64   `json:"queueOffset" min:"0"`
	Status      string  `json:"status" enum:"SEND_OK|FLUSH_DISK_TIMEOUT|FLUSH_SLAVE_TIMEOUT|SLAVE_NOT_AVAILABLE"`
	Millis      float64 `json:"millis"`
}

func messageSendCommand() *command {
	return &command{
		path: "message send", old: "sendMessage", summary: "send messages", args: "TOPIC", min: 1, max: 1, argFrom: "topic",
		run: runMessageSend, schema: "mqctl.message.send/v1", exits: []int{ExitNotFound, ExitPartial, ExitBadConfig},
		examples: []string{
			"echo hi | mqctl message send orders --body -", "mqctl message send orders --body hello --key order-4711 --tag new",
			"mqctl sendMessage -n 127.0.0.1:9876 -t orders -p hello -k order-4711",
		},
		flags: []flagSpec{
			{key: "topic", long: "topic", short: "t", arg: 1, required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
			{key: "body", long: "body", short: "p", required: true, meta: "TEXT", help: "the body; - reads stdin"},
			{key: "file", newOnly: true, letter: "f", meta: "FILE", complete: "file", help: "a file whose bytes are the body"},
			{key: "key", long: "key", short: "k", meta: "KEY", help: "keys to find it by, blanks between"},
			{key: "tag", long: "tags", short: "c", meta: "TAG", help: "its tag"},
			{key: "property", newOnly: true, kind: kindList, meta: "NAME=VALUE", help: "a property of your own; may be repeated"},
			{key: "delay-level", newOnly: true, kind: kindInt, min: 1, max: 18, meta: "N", help: "deliver later, by the broker's delay levels"},
			{key: "broker", long: "broker", short: "b", meta: "NAME", complete: "broker", help: "to this broker"},
			{key: "queue", long: "qid", short: "i", kind: kindInt, max: math.MaxInt32, meta: "N", complete: "queue", help: "to this queue; needs the broker"},
			{key: "count", newOnly: true, kind: kindInt, min: 1, max: 1 << 30, def: "1", meta: "N", help: "how many"},
			{key: "rate", newOnly: true, kind: kindInt, min: 1, max: 1 << 30, meta: "N", help: "at most so many a second"},
			{key: "old-trace", long: "msgTraceEnable", short: "m", oldOnly: true, kind: kindBool, help: "message trace; only false is possible"},
		},
		view: view{
			item: sentItem{}, name: func(item any) string { return item.(*sentItem).MsgID }, old: oldSent,
			columns: []column{
				{head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber}, {head: "OFFSET", field: "queueOffset", as: asNumber},
				{head: "STATUS", field: "status"}, {head: "UNIQ ID", field: "uniqId"}, {head: "OFFSET ID", field: "msgId"}, {head: "MS", field: "millis", as: asRate, wide: true},
			},
		},
	}
}

// place is one queue a message may go to.
type place struct {
	broker, addr string
	queue        int32
	auto         int32 // queues that a topic gets which this send creates, 0 for one that exists
}

// autoQueues is how many queues a client asks for when its first message
// creates a topic; the broker gives no more than its template has.
const autoQueues = 4

func runMessageSend(ctx context.Context, c *call) (*result, error) {
	if err := c.refuseChange(); err != nil {
		return nil, err
	}
	topic := c.arg(0)
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if c.on("old-trace") {
		return nil, usage("NOT_SUPPORTED", "%s true is not supported yet", c.hint("old-trace")).because("nothing was sent")
	}
	if c.given("queue") && c.str("broker") == "" {
		return nil, usage("FLAG_MISSING", "%s needs %s", c.hint("queue"), c.hint("broker")).because("a queue number belongs to a broker")
	}
	body, err := readBody(c)
	if err != nil {
		return nil, err
	}
	props, err := sendProperties(c)
	if err != nil {
		return nil, err
	}
	places, cluster, err := c.places(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: cluster}
	c.sendAll(ctx, r, topic, body, props, places)
	return r, nil
}

// sendProperties collects the message's properties.
func sendProperties(c *call) (map[string]string, error) {
	p := map[string]string{"WAIT": "true"}
	for _, text := range c.list("property") {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" || strings.ContainsAny(name+value, "\x01\x02") {
			return nil, usage("BAD_VALUE", "--property: %q is not NAME=VALUE", text)
		}
		p[name] = value
	}
	for flag, name := range map[string]string{"key": "KEYS", "tag": "TAGS", "delay-level": "DELAY"} {
		if v := c.str(flag); v != "" {
			if strings.ContainsAny(v, "\x01\x02") {
				return nil, usage("BAD_VALUE", "%s: the value has control characters", c.hint(flag))
			}
			p[name] = v
		}
	}
	return p, nil
}

// places are the queues of a topic that may be written to. A topic without a
// route of its own goes by the template of auto-created topics.
func (c *call) places(ctx context.Context, topic string) ([]place, string, error) {
	a, err := c.admin()
	if err != nil {
		return nil, "", err
	}
	if b := c.str("broker"); admin.IsAddress(b) {
		return []place{{addr: b, queue: int32(c.queueOr(-1))}}, "", nil
	}
	route, err := a.Route(ctx, topic)
	created := err != nil
	if created {
		fallback, err2 := a.Route(ctx, "TBW102")
		if err2 != nil {
			m := asMessage(c.explain(err))
			if m.ExitCode == ExitNotFound {
				m = c.topicMissing(ctx, topic)
			}
			return nil, "", m
		}
		route = fallback
	}
	masters := map[string]admin.Target{}
	for _, t := range route.Targets(true) {
		masters[t.Broker] = t
	}
	var out []place
	cluster, readOnly := "", false
	for _, q := range route.Queues {
		t, ok := masters[q.Broker]
		if !ok || t.Addr == "" || c.str("broker") != "" && c.str("broker") != q.Broker {
			continue
		}
		if q.Perm&2 == 0 {
			readOnly = true
			continue
		}
		cluster = t.Cluster
		at := place{broker: q.Broker, addr: t.Addr}
		queues := q.WriteQueues
		if created {
			queues = min(queues, autoQueues)
			at.auto = queues
		}
		for i := range queues {
			if !c.given("queue") || int64(i) == c.whole("queue") {
				at.queue = i
				out = append(out, at)
			}
		}
	}
	if len(out) == 0 && readOnly {
		if err := c.withoutMaster(ctx, route, topic); err != nil {
			return nil, "", err
		}
		return nil, "", c.readOnly(ctx, route, masters, topic)
	}
	if len(out) == 0 {
		return nil, "", fail(ExitNotFound, "QUEUE_NOT_FOUND", "topic %q has no queue to write to%s", topic, c.placeText()).try("mqctl topic route " + topic)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].queue != out[j].queue {
			return out[i].queue < out[j].queue
		}
		return out[i].broker < out[j].broker
	})
	return out, cluster, nil
}

// withoutMaster is the error of a topic that is read-only since no broker that has it
// has a master: a nameserver shows a slave in the place of its dead master then.
func (c *call) withoutMaster(ctx context.Context, route *admin.Route, topic string) error {
	view, err := c.client.Cluster(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, q := range route.Queues {
		g, ok := view.Brokers[q.Broker]
		switch {
		case c.str("broker") != "" && c.str("broker") != q.Broker:
		case !ok || g.Master() != "":
			return nil
		default:
			names = append(names, q.Broker)
		}
	}
	if len(names) == 0 {
		return nil
	}
	m := fail(ExitUnreachable, "NO_MASTER", "topic %q may only be read now: no master of %s is registered", topic, strings.Join(names, ", "))
	return m.try("start the master", "mqctl ha promote "+names[0]+" --id N --force")
}

// readOnly says what keeps a topic from being written to: its own permission, or that its
// brokers are drained.
func (c *call) readOnly(ctx context.Context, route *admin.Route, masters map[string]admin.Target, topic string) *Message {
	m := fail(ExitDenied, "TOPIC_READ_ONLY", "topic %q may not be written to%s", topic, c.placeText())
	own := false // is it the topic's permission at one of them?
	var why []string
	for _, q := range route.Queues {
		t, ok := masters[q.Broker]
		if !ok || t.Addr == "" || c.str("broker") != "" && c.str("broker") != q.Broker {
			continue
		}
		if perm := c.drained(ctx, t.Addr); perm != "" {
			why = append(why, q.Broker+" is drained (brokerPermission="+perm+")")
			m.offer("mqctl broker undrain " + q.Broker)
		} else if cfg, err := c.client.TopicConfig(ctx, t.Addr, topic); err == nil && cfg.Perm&2 != 0 {
			why = append(why, q.Broker+" is drained at the nameserver: only there the topic is read-only")
			m.offer("mqctl broker undrain " + q.Broker + " --via nameserver")
		} else {
			own = true
			why = append(why, "perm of the topic at "+q.Broker+" is without w")
		}
	}
	m.reason("%s", strings.Join(why, "; "))
	if own {
		m.offer("mqctl topic set " + topic + " --perm rw")
	}
	return m.try("mqctl topic route " + topic)
}

// drained is brokerPermission of a broker that takes no messages by it, else empty.
func (c *call) drained(ctx context.Context, addr string) string {
	cfg, err := c.client.BrokerConfig(ctx, addr)
	if err != nil {
		return "" // what is wrong with it the next step will say
	}
	text := cfg.Values["brokerPermission"]
	if perm, err := strconv.Atoi(text); err != nil || perm&2 != 0 {
		return ""
	}
	return text
}

func (c *call) queueOr(n int64) int64 {
	if c.given("queue") {
		return c.whole("queue")
	}
	return n
}

func (c *call) placeText() string {
	if b := c.str("broker"); b != "" {
		return " at " + b
	}
	return ""
}

// sendAll sends the messages one after another over the queues in turn.
func (c *call) sendAll(ctx context.Context, r *result, topic string, body []byte, props map[string]string, places []place) {
	n := int(c.whole("count"))
	ids := record.NewUniqueIDs(ownIP(), os.Getpid())
	var pace <-chan time.Time
	if rate := c.whole("rate"); rate > 0 {
		t := time.NewTicker(time.Second / time.Duration(rate))
		defer t.Stop()
		pace = t.C
	}
	first := int(c.begun.UnixNano()/1000) % len(places)
	for i := range n {
		if pace != nil && i > 0 {
			select {
			case <-ctx.Done():
			case <-pace:
			}
		}
		if err := ctx.Err(); err != nil {
			r.failed(asMessage(c.explain(err)).because("%d of %d were sent before", r.done, n))
			return
		}
		at := places[(first+i)%len(places)]
		if err := c.sendOne(ctx, r, topic, body, props, at, ids); err != nil {
			m := c.at(err, admin.Target{Broker: at.broker, Addr: at.addr})
			if n > 1 {
				m.reason("%d of %d were sent before", r.done, n)
			}
			r.failed(m)
			return
		}
	}
}

func (c *call) sendOne(ctx context.Context, r *result, topic string, body []byte, props map[string]string, at place, ids *record.UniqueIDs) error {
	ctx, done := steady(ctx)
	defer done()
	mine := map[string]string{}
	for k, v := range props {
		mine[k] = v
	}
	begin := time.Now()
	mine["UNIQ_KEY"] = string(ids.Append(nil, begin.UnixMilli()))
	sent, err := c.client.Send(ctx, at.addr, admin.Send{Topic: topic, Broker: at.broker, QueueID: at.queue, DefaultQueues: int(at.auto), Properties: mine, Body: body})
	if err != nil {
		return err
	}
	r.done++
	name := at.broker
	if name == "" {
		name = at.addr
	}
	r.add(&sentItem{
		MsgID: sent.OffsetID, UniqID: ptr(mine["UNIQ_KEY"]), Broker: name, QueueID: sent.QueueID, QueueOffset: sent.QueueOffset,
		Status: sent.Status, Millis: math.Round(float64(time.Since(begin).Microseconds())) / 1000,
	})
	if sent.Status != "SEND_OK" {
		r.warn(warning(sent.Status, name, "message %s is stored, but %s", mine["UNIQ_KEY"], statusText(sent.Status)))
	}
	return nil
}

func statusText(status string) string {
	switch status {
	case "FLUSH_DISK_TIMEOUT":
		return "its flush to disk was not confirmed in time"
	case "FLUSH_SLAVE_TIMEOUT":
		return "no slave confirmed it in time"
	case "SLAVE_NOT_AVAILABLE":
		return "not enough slaves are connected"
	}
	return status
}

// ownIP is an address of this machine for unique ids.
func ownIP() netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && p.Addr().Is4() {
				return p.Addr()
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// oldSent is mqadmin's layout of sendMessage.
func oldSent(p *printer, r *result) {
	p.printf("%-32s  %-4s  %-20s    %s\n", "#Broker Name", "#QID", "#Send Result", "#MsgId")
	for _, item := range r.items {
		it := item.(*sentItem)
		p.printf("%-32s  %-4s  %-20s    %s\n", it.Broker, strconv.Itoa(int(it.QueueID)), it.Status, *it.UniqID)
	}
	if len(r.items) == 0 {
		p.printf("%-32s  %-4s  %-20s    %s\n", "Unknown", "Unknown", "Failed", "None")
	}
}

// parseTime reads a moment: RFC 3339, ms since 1970, a local date and time, or
// a time back from now (-2h).
func parseTime(text string, now time.Time, flag string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if back, ok := strings.CutPrefix(text, "-"); ok {
		if d, err := parseDuration(back); err == nil {
			return now.Add(-d).UnixMilli(), nil
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, usage("BAD_VALUE", "%s: %q is no time", flag, text).
		because("RFC 3339, milliseconds since 1970, or a time back from now").try(fmt.Sprintf("%s=-2h", flag))
}
