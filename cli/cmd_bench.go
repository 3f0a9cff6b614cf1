package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/cli/admin"
	"mqctl/store/record"
)

// benchItem is a measurement: of one broker, or of all together.
type benchItem struct {
	Broker         string        `json:"broker"` // "total": all
	Op             string        `json:"op" enum:"SEND|CONSUME|RTT"`
	Messages       int64         `json:"messages" min:"0"`
	Errors         int64         `json:"errors" min:"0"`
	Bytes          int64         `json:"bytes" min:"0"` // of bodies
	Seconds        float64       `json:"seconds"`
	RatePerSecond  float64       `json:"ratePerSecond"`
	BytesPerSecond float64       `json:"bytesPerSecond"`
	P50Millis      *float64      `json:"p50Millis"`
	P90Millis      *float64      `json:"p90Millis"`
	P99Millis      *float64      `json:"p99Millis"`
	P999Millis     *float64      `json:"p999Millis"`
	MaxMillis      *float64      `json:"maxMillis"`
	Histogram      []benchBucket `json:"histogram"`
	FirstError     *string       `json:"firstError"`
}

// benchBucket counts the requests that took at most so long and more than the bucket before.
type benchBucket struct {
	UpToMillis float64 `json:"upToMillis"`
	Count      int64   `json:"count"`
}

func benchCommands() []*command {
	v := view{
		item: benchItem{}, name: func(item any) string { return item.(*benchItem).Broker },
		columns: []column{
			{head: "BROKER", field: "broker"}, {head: "MESSAGES", field: "messages", as: asNumber}, {head: "RATE/s", field: "ratePerSecond", as: asRate},
			{head: "BYTES/s", field: "bytesPerSecond", as: asRate, fold: 2}, {head: "P50 MS", field: "p50Millis"}, {head: "P90 MS", field: "p90Millis", fold: 1}, {head: "P99 MS", field: "p99Millis"},
			{head: "P99.9 MS", field: "p999Millis", fold: 1}, {head: "MAX MS", field: "maxMillis"}, {head: "ERRORS", field: "errors", as: asNumber},
		},
		foot: footBench,
	}
	topic := flagSpec{key: "topic", meta: "TOPIC", complete: "topic", help: "the topic"}
	common := []flagSpec{
		topic,
		{key: "duration", kind: kindDuration, def: "10s", meta: "DUR", help: "how long is measured"},
		{key: "warmup", kind: kindDuration, def: "1s", meta: "DUR", help: "before that, not counted"},
		{key: "count", kind: kindInt, min: 1, max: 1 << 40, meta: "N", help: "end after so many messages; those of the warm-up are on top (--warmup 0s: none)"},
		{key: "max-p99", kind: kindDuration, meta: "DUR", help: "exit 7 when the 99th percentile is above"},
		{key: "min-rate", kind: kindInt, min: 1, max: 1 << 40, meta: "N", help: "exit 7 when fewer messages a second are reached"},
		{key: "no-progress", kind: kindBool, help: "no progress bar on stderr"},
	}
	sending := []flagSpec{
		{key: "size", meta: "SIZE", def: "1KiB", help: "of a body"},
		{key: "rate", kind: kindInt, min: 1, max: 1 << 30, meta: "N", help: "at most so many messages a second, all producers together"},
	}
	exits := []int{ExitNotFound, ExitPartial, ExitConditionFalse, ExitAborted}
	return []*command{
		{
			path: "bench send", summary: "measure sending", run: runBenchSend, schema: "mqctl.bench/v1", exits: exits, view: v, attrs: mutates | destructive | measures,
			examples: []string{"mqctl bench send --topic bench --size 1KiB --producers 4 --duration 30s --yes", "mqctl bench send --topic bench --rate 10000 --max-p99 5ms --min-rate 9000 --yes"},
			flags: append(append(append([]flagSpec{}, common...), sending...),
				flagSpec{key: "producers", kind: kindInt, min: 1, max: 1024, def: "4", meta: "N", help: "senders at the same time, each waits for its answer"}),
		},
		{
			path: "bench rtt", summary: "measure round trips of single sends", run: runBenchRTT, schema: "mqctl.bench/v1", exits: exits, view: v, attrs: mutates | destructive | measures | watches,
			examples: []string{"mqctl bench rtt --topic bench --count 1000 --yes", "mqctl bench rtt --topic bench --rate 100 --max-p99 10ms --yes", "mqctl bench rtt --topic bench --count 100 --watch=10s --yes"},
			flags: append(append(append([]flagSpec{}, common...), sending...),
				flagSpec{key: "watch", kind: kindOptional, of: kindDuration, bare: "2s", meta: "DUR", help: "measure again until interrupted"}),
		},
		{
			path: "bench consume", summary: "measure pulling, without a group", run: runBenchConsume, schema: "mqctl.bench/v1", exits: exits, view: v,
			examples: []string{"mqctl bench consume --topic bench --duration 30s", "mqctl bench consume --topic bench --count 100000 --min-rate 50000"},
			flags: append(append([]flagSpec{}, common...),
				flagSpec{key: "batch", kind: kindInt, min: 1, max: 1024, def: "32", meta: "N", help: "messages of a pull"},
				flagSpec{key: "consumers", kind: kindInt, min: 1, max: 1024, def: "4", meta: "N", help: "pulls at the same time; never more than queues"}),
		},
	}
}

// Buckets of the histogram: each is a quarter of a doubling, from 1 us on.
const (
	benchBuckets = 128
	bucketsEach  = 4 // in a doubling
)

// histogram counts times. It is safe for concurrent use.
type histogram struct {
	buckets [benchBuckets]atomic.Int64
	count   atomic.Int64
	max     atomic.Int64 // ns
}

func bucketOf(d time.Duration) int {
	us := float64(d) / float64(time.Microsecond)
	if us <= 1 {
		return 0
	}
	return min(benchBuckets-1, int(math.Ceil(math.Log2(us)*bucketsEach)))
}

// bucketTop is the longest time of a bucket in ms.
func bucketTop(i int) float64 { return math.Round(math.Exp2(float64(i)/bucketsEach)) / 1000 }

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(d)].Add(1)
	h.count.Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// quantile is an upper bound of the time that a share of the requests stayed below, in ms.
func (h *histogram) quantile(share float64) *float64 {
	n := h.count.Load()
	if n == 0 {
		return nil
	}
	need, seen := int64(math.Ceil(share*float64(n))), int64(0)
	for i := range h.buckets {
		if seen += h.buckets[i].Load(); seen >= need {
			return ptr(round3(min(bucketTop(i), float64(h.max.Load())/1e6)))
		}
	}
	return ptr(round3(float64(h.max.Load()) / 1e6))
}

// tally is what was measured of one broker.
type tally struct {
	times    histogram
	messages atomic.Int64
	bytes    atomic.Int64
	errors   atomic.Int64
	first    atomic.Pointer[string] // first error
}

func (t *tally) failed(err error) {
	t.errors.Add(1)
	text := oneLine(err.Error())
	t.first.CompareAndSwap(nil, &text)
}

func (t *tally) item(broker, op string, took time.Duration) *benchItem {
	it := &benchItem{Broker: broker, Op: op, Messages: t.messages.Load(), Errors: t.errors.Load(), Bytes: t.bytes.Load(), Seconds: round3(took.Seconds()), Histogram: []benchBucket{}, FirstError: t.first.Load()}
	if took > 0 {
		it.RatePerSecond, it.BytesPerSecond = round3(float64(it.Messages)/took.Seconds()), round3(float64(it.Bytes)/took.Seconds())
	}
	it.P50Millis, it.P90Millis, it.P99Millis, it.P999Millis = t.times.quantile(0.5), t.times.quantile(0.9), t.times.quantile(0.99), t.times.quantile(0.999)
	if t.times.count.Load() > 0 {
		it.MaxMillis = ptr(round3(float64(t.times.max.Load()) / 1e6))
	}
	for i := range t.times.buckets {
		if n := t.times.buckets[i].Load(); n > 0 {
			it.Histogram = append(it.Histogram, benchBucket{bucketTop(i), n})
		}
	}
	return it
}

func round3(f float64) float64 { return math.Round(f*1000) / 1000 }

// bench is one run.
type bench struct {
	c       *call
	op      string
	topic   string
	size    int
	limit   int64 // messages; 0: none
	total   tally
	each    map[string]*tally // by broker; fixed before the run
	taken   atomic.Int64      // of limit
	counted atomic.Bool       // the warm-up is over
	begun   time.Time

	warmed  atomic.Int64 // messages that were read and not counted
	waiting atomic.Int64 // readers that have come to the end of their queues
	ended   atomic.Int64 // when the last of them did, in ns since 1970; 0: not yet
}

// newBench reads the flags and asks before it sends to a cluster.
func (c *call) newBench(op string) (*bench, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	b := &bench{c: c, op: op, topic: topic, limit: c.whole("count"), each: map[string]*tally{}}
	if c.flag("size") != nil {
		n, err := parseSize(c.str("size"))
		if err != nil || n < 0 || n > maxSendBytes {
			return nil, usage("BAD_VALUE", "--size: %q is no size of a body", c.str("size")).because("0 to 16 MiB is possible").try("--size 1KiB")
		}
		b.size = int(n)
	}
	return b, nil
}

// allowed asks before test messages go into a cluster. A context that is not
// protected may be measured without a question.
func (b *bench) allowed() error {
	if !b.c.context().Protected {
		return nil
	}
	return b.c.confirm("sending test messages to "+b.topic, "they stay in the topic, and whoever reads it gets them")
}

// take reserves n of the messages that are wanted, near the end fewer, and 0 when there
// are enough. What begins during the warm-up does not count.
func (b *bench) take(n int64) (got int64, counts bool) {
	if !b.counted.Load() {
		return n, false
	}
	if b.limit == 0 {
		return n, true
	}
	for {
		taken := b.taken.Load()
		got = max(0, min(n, b.limit-taken))
		if got == 0 || b.taken.CompareAndSwap(taken, taken+got) {
			return got, true
		}
	}
}

func (b *bench) note(broker string, messages, bytes int64, took time.Duration, err error) {
	for _, t := range []*tally{&b.total, b.each[broker]} {
		if err != nil {
			t.failed(err)
			continue
		}
		t.times.add(took)
		t.messages.Add(messages)
		t.bytes.Add(bytes)
	}
}

// run warms up, measures, and returns the result. work runs until its context ends
// or it returns by itself, n times at once.
func (b *bench) run(ctx context.Context, n int, work func(ctx context.Context, i int) error) (*result, error) {
	c := b.c
	warm := c.duration("warmup")
	if b.op == "CONSUME" && b.limit > 0 && !c.given("warmup") {
		warm = 0 // what is read then would not count, and there may be no more
	}
	b.counted.Store(warm == 0)
	length := c.duration("duration")
	if b.limit > 0 && !c.given("duration") {
		length = 24 * time.Hour
	}
	run, cancel := context.WithTimeout(ctx, warm+length)
	defer cancel()
	var wg sync.WaitGroup
	fatal := make(chan error, n)
	b.begun = time.Now()
	for i := range n {
		wg.Go(func() {
			if err := work(run, i); err != nil && run.Err() == nil {
				fatal <- err
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	b.progress(done, warm, length)
	took := time.Since(b.begun)
	select {
	case err := <-fatal:
		return nil, err
	default:
	}
	r := &result{done: 1}
	for _, name := range sortedKeys(b.each) {
		r.add(b.each[name].item(name, b.op, took))
	}
	r.add(b.total.item("total", b.op, took))
	return r, b.judge(ctx, r)
}

// judge compares the result with the limits.
func (b *bench) judge(ctx context.Context, r *result) error {
	c := b.c
	it := r.items[len(r.items)-1].(*benchItem)
	if it.Messages == 0 && it.Errors > 0 {
		m := fail(ExitFailed, "NOTHING_MEASURED", "every request failed: %s", *it.FirstError)
		r.done = 0
		r.failed(m)
		return nil
	}
	if it.Errors > 0 {
		r.warn(warning("ERRORS", b.topic, "%d requests failed, the first with: %s", it.Errors, *it.FirstError))
	}
	miss := func(format string, args ...any) {
		r.exit = ExitConditionFalse
		r.warn(warning("LIMIT_NOT_MET", b.topic, format, args...))
	}
	if d := c.duration("max-p99"); d > 0 && it.P99Millis != nil && *it.P99Millis > float64(d)/1e6 {
		miss("p99 is %.3f ms, the limit %s", *it.P99Millis, d)
	}
	if n := c.whole("min-rate"); n > 0 && it.RatePerSecond < float64(n) {
		miss("%.0f messages a second were reached, the limit is %d", it.RatePerSecond, n)
	}
	if b.limit == 0 && ctx.Err() != nil {
		r.warn(warning("INTERRUPTED", b.topic, "interrupted; the figures are of the time until then"))
	}
	return nil
}

// progress draws a bar on a terminal and ends the warm-up; it returns when the run
// is over.
func (b *bench) progress(done <-chan struct{}, warm, length time.Duration) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	warmed := time.NewTimer(warm)
	defer warmed.Stop()
	draw := b.c.p.errStyle.terminal && !b.c.on("no-progress")
	for {
		select {
		case <-done:
			if draw {
				fmt.Fprint(b.c.io.Err, "\r\x1b[K")
			}
			return
		case <-warmed.C:
			if !b.counted.Load() {
				b.begun = time.Now()
				b.counted.Store(true)
			}
		case <-tick.C:
			if draw {
				fmt.Fprint(b.c.io.Err, "\r\x1b[K", b.bar(length))
			}
		}
	}
}

// bar is one line of progress.
func (b *bench) bar(length time.Duration) string {
	if !b.counted.Load() {
		return "warming up"
	}
	took := time.Since(b.begun)
	share := float64(took) / float64(length)
	if b.limit > 0 {
		share = max(share, float64(b.total.messages.Load())/float64(b.limit))
	}
	share = min(1, share)
	const width = 24
	full := int(share * width)
	line := fmt.Sprintf("[%s%s] %3.0f %%  %.0f msg/s", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100, float64(b.total.messages.Load())/max(took.Seconds(), 0.001))
	if p := b.total.times.quantile(0.99); p != nil {
		line += fmt.Sprintf("  p99 %.2f ms", *p)
	}
	if n := b.total.errors.Load(); n > 0 {
		line += fmt.Sprintf("  %d errors", n)
	}
	return line
}

// pacer lets through so many a second over all that wait; nil: as many as come.
func (c *call) pacer(ctx context.Context) func() bool {
	rate := c.whole("rate")
	if rate == 0 {
		return func() bool { return ctx.Err() == nil }
	}
	var next atomic.Int64
	next.Store(time.Now().UnixNano())
	gap := int64(time.Second) / rate
	return func() bool {
		at := next.Add(gap) - gap
		wait := time.Duration(at - time.Now().UnixNano())
		if wait < -time.Second { // what was missed for long is not made up for
			next.Store(time.Now().UnixNano())
		}
		if wait > 0 {
			return rest(ctx, wait)
		}
		return ctx.Err() == nil
	}
}

func runBenchSend(ctx context.Context, c *call) (*result, error) {
	return c.benchSending(ctx, "SEND", int(c.whole("producers")))
}

func runBenchRTT(ctx context.Context, c *call) (*result, error) {
	if c.dryRun() {
		return c.benchSending(ctx, "RTT", 1)
	}
	return c.watch(ctx, func(ctx context.Context) (*result, error) {
		r, err := c.benchSending(ctx, "RTT", 1)
		if err == nil {
			c.values["yes"] = []string{"true"} // asked once, not each time
		}
		return r, err
	}, nil)
}

func (c *call) benchSending(ctx context.Context, op string, producers int) (*result, error) {
	b, err := c.newBench(op)
	if err != nil {
		return nil, err
	}
	places, cluster, err := c.places(ctx, b.topic)
	if err != nil {
		return nil, err
	}
	if c.dryRun() {
		return &result{cluster: cluster, change: &change{DryRun: true}, empty: fmt.Sprintf("%s would send to %s", count(producers, "producer"), count(len(places), "queue"))}, nil
	}
	if err := b.allowed(); err != nil {
		return nil, err
	}
	for _, at := range places {
		b.each[placeName(at)] = &tally{}
	}
	body := []byte(strings.Repeat("mqctl bench ", b.size/12+1))[:b.size]
	next := c.pacer(ctx)
	var turn atomic.Int64
	r, err := b.run(ctx, producers, func(ctx context.Context, i int) error {
		ids := record.NewUniqueIDs(ownIP(), os.Getpid()+i)
		for ctx.Err() == nil {
			n, counts := b.take(1)
			if n == 0 || !next() {
				return nil
			}
			at := places[int(turn.Add(1)-1)%len(places)]
			begin := time.Now()
			_, err := c.client.Send(ctx, at.addr, admin.Send{Topic: b.topic, Broker: at.broker, QueueID: at.queue, DefaultQueues: int(at.auto), Body: body,
				Properties: map[string]string{"WAIT": "true", "UNIQ_KEY": string(ids.Append(nil, begin.UnixMilli()))}})
			if err != nil && ctx.Err() != nil {
				return nil
			}
			if counts {
				b.note(placeName(at), 1, int64(b.size), time.Since(begin), err)
			}
			if err != nil && !rest(ctx, 10*time.Millisecond) {
				return nil
			}
		}
		return nil
	})
	if r != nil {
		r.cluster, r.change, r.noted = cluster, &change{Applied: true}, true
	}
	return r, err
}

func placeName(at place) string { return firstOf(at.broker, at.addr) }

func runBenchConsume(ctx context.Context, c *call) (*result, error) {
	b, err := c.newBench("CONSUME")
	if err != nil {
		return nil, err
	}
	readers, err := c.readersBy(ctx, b.topic, b.topic, nil)
	if err != nil {
		return nil, err
	}
	if len(readers) == 0 {
		return nil, fail(ExitNotFound, "QUEUE_NOT_FOUND", "topic %q has no queue", b.topic)
	}
	for _, rd := range readers {
		b.each[rd.target.Broker] = &tally{}
	}
	n := min(int(c.whole("consumers")), len(readers))
	r, err := b.run(ctx, n, func(ctx context.Context, i int) error {
		mine, atEnd := map[int]int64{}, false // where each queue is read from
		for ctx.Err() == nil {
			found := false
			for q := i; q < len(readers); q += n {
				if _, ok := mine[q]; !ok {
					mine[q] = readers[q].from
				}
				found = b.pull(ctx, readers[q], mine, q) || found
				if b.limit > 0 && b.total.messages.Load() >= b.limit {
					return nil
				}
			}
			if !found && !atEnd {
				atEnd = true
				if b.waiting.Add(1) == int64(n) {
					b.ended.Store(time.Now().UnixNano())
				}
			}
			if !found && !b.c.given("duration") {
				return nil // the end of all queues
			}
			if !found && !rest(ctx, 20*time.Millisecond) {
				return nil
			}
		}
		return nil
	})
	if r != nil {
		r.cluster = readers[0].target.Cluster
		b.sayEnd(r)
	}
	return r, err
}

// sayEnd tells that there was too little to read: all of it before the measurement,
// or so much less than the time that the rate is one of waiting.
func (b *bench) sayEnd(r *result) {
	if len(r.errors) > 0 {
		return
	}
	it, warmed := r.items[len(r.items)-1].(*benchItem), b.warmed.Load()
	if it.Messages == 0 && warmed > 0 {
		r.done = 0
		r.failed(fail(ExitFailed, "NOTHING_MEASURED", "all %s of topic %q were read in the warm-up; none was left to measure", count(int(warmed), "message"), b.topic).
			because("the topic holds less than is read in %s", b.c.str("warmup")).try("--warmup 0s"))
		return
	}
	end := time.Unix(0, b.ended.Load()).Sub(b.begun)
	if b.ended.Load() == 0 || it.Messages == 0 || end >= time.Duration(it.Seconds*float64(time.Second))*9/10 {
		return
	}
	m := warning("END_REACHED", b.topic, "all queues of topic %q were read to their ends after %s; the rate is that of the whole %s", b.topic, max(0, end).Round(time.Millisecond), shortDuration(time.Duration(it.Seconds*float64(time.Second))))
	m.offer("--count N ends with the last message")
	r.warn(m)
}

// pull reads one batch of a queue; found says that there may be more.
func (b *bench) pull(ctx context.Context, rd *reader, from map[int]int64, q int) (found bool) {
	want, counts := b.take(b.c.whole("batch"))
	if want == 0 {
		return rest(ctx, time.Millisecond) // others may not find what they look for
	}
	begin := time.Now()
	p, err := b.c.client.Pull(ctx, rd.target.Addr, admin.Pull{Topic: b.topic, Broker: rd.target.Broker, QueueID: rd.queue, Offset: from[q], Max: int(want)})
	read, bytes := int64(0), int64(0)
	if err == nil && p.Status == admin.PullFound {
		read = int64(len(p.Messages))
		for i := range p.Messages {
			bytes += int64(len(p.Messages[i].Body))
		}
	}
	if !counts {
		b.warmed.Add(read)
	}
	if counts {
		b.taken.Add(read - want) // what was not there another may read
		if err == nil && read > 0 || err != nil && ctx.Err() == nil {
			b.note(rd.target.Broker, read, bytes, time.Since(begin), err)
		}
	}
	if err != nil {
		return false
	}
	moved := p.Next != from[q]
	from[q] = p.Next
	return moved && p.Status != admin.PullNothing
}

// footBench draws the histogram below the table.
func footBench(p *printer, r *result) {
	if len(r.items) == 0 {
		return
	}
	it := r.items[len(r.items)-1].(*benchItem)
	most := int64(1)
	for _, b := range it.Histogram {
		most = max(most, b.Count)
	}
	p.printf("\n")
	for _, b := range it.Histogram {
		p.printf("%10.3f ms  %8d  %s\n", b.UpToMillis, b.Count, strings.Repeat("#", int(b.Count*40/most)))
	}
}
