package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
	"mqctl/store/record"
)

// mqadmin's three measurements of sending.

func benchOldCommands() []*command {
	item := func(item any) string { return item.(*probeItem).Broker }
	columns := []column{
		{head: "CLUSTER", field: "cluster", fold: 1}, {head: "BROKER", field: "broker"}, {head: "Q", field: "queueId", as: asNumber}, {head: "STATUS", field: "status"},
		{head: "SENT", field: "sent", as: asNumber}, {head: "FAILED", field: "failed", as: asNumber}, {head: "MS", field: "millis"},
	}
	exits := []int{ExitNotFound, ExitPartial}
	size := flagSpec{key: "size", long: "size", short: "s", kind: kindInt, max: maxSendBytes, def: "128", meta: "BYTES", help: "of a body"}
	messageSize := size
	messageSize.long = "messageSize"
	amount := flagSpec{key: "amount", long: "amount", short: "a", kind: kindInt, min: 1, max: 1 << 30, def: "100", meta: "N", help: "how many messages"}
	clusterAmount := amount
	clusterAmount.help = "how many messages to each broker"
	return []*command{
		{
			old: "sendMsgStatus", twin: "bench send", summary: "send test messages to one broker", run: runSendMsgStatus, schema: "mqctl.bench.probe/v1", exits: exits, attrs: mutates,
			view:     view{item: probeItem{}, name: item, columns: columns, old: oldSendMsgStatus},
			examples: []string{"mqctl sendMsgStatus -n 127.0.0.1:9876 -b broker-a -c 10"},
			flags: []flagSpec{
				{key: "broker-name", long: "brokerName", short: "b", required: true, meta: "NAME", complete: "broker", help: "the broker, whose own topic gets them"}, messageSize,
				{key: "amount", long: "count", short: "c", kind: kindInt, min: 1, max: 1 << 30, def: "50", meta: "N", help: "how many messages"},
			},
		},
		{
			old: "checkMsgSendRT", twin: "bench rtt", summary: "send latency per queue", run: runCheckMsgSendRT, schema: "mqctl.bench.probe/v1", exits: exits, attrs: mutates,
			view:     view{item: probeItem{}, name: item, columns: columns, old: oldCheckMsgSendRT},
			examples: []string{"mqctl checkMsgSendRT -n 127.0.0.1:9876 -t bench -a 100"},
			flags:    []flagSpec{{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"}, amount, size},
		},
		{
			old: "clusterRT", twin: "bench rtt --topic T --watch", summary: "send latency of clusters, without end", run: runClusterRT, schema: "mqctl.bench.probe/v1", exits: exits, attrs: streams | mutates,
			view:     view{item: probeItem{}, name: item, columns: columns, old: oldClusterRT},
			examples: []string{"mqctl clusterRT -n 127.0.0.1:9876 -c DefaultCluster -i 10"},
			flags: []flagSpec{
				clusterAmount, size,
				{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
				{key: "tlog", long: "print log", short: "p", kind: kindBool, help: "print as time|room|cluster|broker|rt"},
				{key: "room", long: "machine room", short: "m", def: "noname", meta: "NAME", help: "name of the room in that form"},
				{key: "every", long: "interval", short: "i", kind: kindInt, min: 1, max: 86400, def: "10", meta: "SECONDS", help: "pause between two rounds"},
				{key: "rounds", kind: kindInt, max: math.MaxInt32, def: "0", meta: "N", help: "end after so many; 0: never"},
			},
		},
	}
}

// probeItem is a test message, or the test messages of a broker.
type probeItem struct {
	Cluster string  `json:"cluster"`
	Broker  string  `json:"broker"`
	QueueID *int32  `json:"queueId"`
	Status  *string `json:"status"`
	MsgID   *string `json:"msgId"`
	Sent    int     `json:"sent" min:"0"`
	Failed  int     `json:"failed" min:"0"`
	Millis  float64 `json:"millis"` // of several: their mean

	at     time.Time
	sent   *admin.Sent
	uniqID string
	topic  string
}

// probe sends one test message and measures.
func (c *call) probe(ctx context.Context, topic string, at place, cluster string, size int, ids *record.UniqueIDs) *probeItem {
	begin := time.Now()
	it := &probeItem{Cluster: cluster, Broker: placeName(at), QueueID: ptr(at.queue), at: begin, uniqID: string(ids.Append(nil, begin.UnixMilli())), topic: topic}
	sent, err := c.client.Send(ctx, at.addr, admin.Send{Topic: topic, Broker: at.broker, QueueID: at.queue, DefaultQueues: int(at.auto), Body: []byte(strings.Repeat("a", size)),
		Properties: map[string]string{"WAIT": "true", "UNIQ_KEY": it.uniqID}})
	it.Millis = round3(float64(time.Since(begin).Microseconds()) / 1000)
	if err != nil {
		it.Failed, it.Status = 1, ptr(oneLine(asMessage(c.explain(err)).Text))
		return it
	}
	it.Sent, it.Status, it.MsgID, it.sent, it.QueueID = 1, &sent.Status, &sent.OffsetID, sent, &sent.QueueID
	return it
}

// refuseTests is for a context where nothing may be changed, or not without a word.
func (c *call) refuseTests(what string) error {
	if c.dryRun() {
		return usage("NOT_SUPPORTED", "%s has no dry run", c.cmd.name(c.old)).because("nothing was sent")
	}
	if err := c.refuseChange(); err != nil {
		return err
	}
	if !c.context().Protected {
		return nil
	}
	return c.confirm("sending test messages to "+what, "they stay in its topic")
}

// failures makes an error of what could not be sent.
func (r *result) failures() {
	for _, item := range r.items {
		it := item.(*probeItem)
		r.done += it.Sent
		if it.Failed > 0 {
			m := fail(ExitFailed, "NOT_SENT", "%d test messages to %s failed", it.Failed, it.Broker)
			if it.Status != nil {
				m.reason("%s", *it.Status)
			}
			m.Target = it.Broker
			r.failed(m)
		}
	}
}

func runSendMsgStatus(ctx context.Context, c *call) (*result, error) {
	// A broker's own topic has its name; mqadmin sends there as well.
	topic := c.str("broker-name")
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	return c.probeQueues(ctx, topic)
}

func runCheckMsgSendRT(ctx context.Context, c *call) (*result, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	return c.probeQueues(ctx, topic)
}

// probeQueues sends to the queues of a topic in turn.
func (c *call) probeQueues(ctx context.Context, topic string) (*result, error) {
	places, cluster, err := c.places(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := c.refuseTests(topic); err != nil {
		return nil, err
	}
	r := &result{cluster: cluster}
	ids := record.NewUniqueIDs(ownIP(), os.Getpid())
	for i := range int(c.whole("amount")) {
		if ctx.Err() != nil {
			break
		}
		r.add(c.probe(ctx, topic, places[i%len(places)], cluster, int(c.whole("size")), ids))
	}
	r.failures()
	return r, nil
}

func oldSendMsgStatus(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*probeItem)
		if it.sent == nil {
			p.printf("rt=%dms, SendResult=%s\n", int64(it.Millis), *it.Status)
			continue
		}
		p.printf("rt=%dms, SendResult=SendResult [sendStatus=%s, msgId=%s, offsetMsgId=%s, messageQueue=%s, queueOffset=%d, recallHandle=null]\n",
			int64(it.Millis), it.sent.Status, it.uniqID, it.sent.OffsetID, queueName(it.topic, it.Broker, it.sent.QueueID), it.sent.QueueOffset)
	}
}

func oldCheckMsgSendRT(p *printer, r *result) {
	p.printf("%-32s  %-4s  %-20s    %s\n", "#Broker Name", "#QID", "#Send Result", "#RT")
	sum, n := 0.0, 0
	for i, item := range r.items {
		it := item.(*probeItem)
		if i > 0 { // the first opens the connection; mqadmin leaves it out of the mean too
			sum, n = sum+math.Floor(it.Millis), n+1
		}
		p.printf("%-32s  %-4d  %-20t    %d\n", it.Broker, *it.QueueID, it.sent != nil, int64(it.Millis))
	}
	p.printf("Avg RT: %.2f\n", sum/float64(max(1, n)))
}

// runClusterRT sends to every broker's own topic, round after round.
func runClusterRT(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := c.refuseTests(fmt.Sprint(count(len(targets), "broker"))); err != nil {
		return nil, err
	}
	ids := record.NewUniqueIDs(ownIP(), os.Getpid())
	for round := int64(1); ; round++ {
		r := &result{cluster: clusterOf(targets), extra: [2]any{round == 1, c}}
		for _, t := range targets {
			all := &probeItem{Cluster: t.Cluster, Broker: nameOf(t), at: time.Now()}
			sum := 0.0
			for range int(c.whole("amount")) {
				if ctx.Err() != nil {
					break
				}
				one := c.probe(ctx, nameOf(t), place{broker: t.Broker, addr: t.Addr, queue: 0}, t.Cluster, int(c.whole("size")), ids)
				all.Sent, all.Failed = all.Sent+one.Sent, all.Failed+one.Failed
				if one.Failed > 0 {
					all.Status = one.Status
				}
				sum += one.Millis
			}
			all.Millis = round3(sum / float64(max(1, all.Sent+all.Failed)))
			r.add(all)
		}
		if n := c.whole("rounds"); n > 0 && round >= n {
			r.failures()
			r.noted = true
			return r, nil
		}
		if err := c.p.print(r); err != nil {
			return nil, err
		}
		c.p.headers = false
		if c.p.broken != nil || !rest(ctx, time.Duration(c.whole("every"))*time.Second) {
			return &result{streamed: true, done: 1}, nil
		}
	}
}

func oldClusterRT(p *printer, r *result) {
	extra, _ := r.extra.([2]any)
	first, _ := extra[0].(bool)
	c, _ := extra[1].(*call)
	tlog := c != nil && c.on("tlog")
	if first && !tlog {
		p.printf("%-24s  %-24s  %-4s  %-8s  %-8s\n", "#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
	}
	for _, item := range r.items {
		it := item.(*probeItem)
		if tlog {
			p.printf("%s|%s|%s|%s|%d\n", it.at.In(time.FixedZone("GMT+8", 8*3600)).Format("2006-01-02 15:04:05"), c.str("room"), it.Cluster, it.Broker, int64(math.Round(it.Millis)))
			continue
		}
		p.printf("%-24s  %-24s  %-8s  %-16s  %-16s\n", it.Cluster, it.Broker, fmt.Sprintf("%.2f", it.Millis), strconv.Itoa(it.Sent), strconv.Itoa(it.Failed))
	}
}
