package broker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/delay"
	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/stats"
	"mqctl/store"
	"mqctl/store/vfs"
)

// compatible is the version of RocketMQ whose behaviour this broker shows to
// tools that ask (MQVersion of 479).
const compatible = "V5_3_3"

// capabilities lists the private requests that are served, told with the runtime
// state so that nobody has to probe.
func capabilities(served map[int]handlerFunc) string {
	var names []string
	for _, code := range sortedKeys(served) {
		if code >= remoting.ReqMqctlInspect {
			names = append(names, remoting.RequestName(code))
		}
	}
	// Relayed requests are served on the connection's reader, not by an admin handler.
	names = append(names, remoting.RequestName(remoting.ReqMqctlRelay))
	return strings.Join(names, ",")
}

// noTransientPool is what RocketMQ tells of its buffer pool when it has none.
const noTransientPool = "2147483647"

// runtimeAdmin tells how the broker is: 28.
type runtimeAdmin struct {
	version  string // of this program
	start    time.Time
	now      func() time.Time
	up       func() time.Duration // since the start
	live     *liveRef
	settings *Settings // may be nil
	store    *store.Store
	fs       vfs.FS
	logDir   string // of the commit log
	delays   *delay.Scheduler
	stats    *stats.Stats
	admin    *pool
	data     *pool
	replica  *haAdmin
	serves   string // capabilities
}

// programVersion is the version stamped into the binary's module.
func programVersion(given string) string {
	if given != "" {
		return given
	}
	if info, found := debug.ReadBuildInfo(); found && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// status serves 28.
func (a *runtimeAdmin) status(_ context.Context, r *remoting.Request) {
	r.Reply(remoting.CodeSuccess, "", nil, body.KVTable{Table: a.table()}.Encode())
}

// table holds the keys of RocketMQ's runtime info. Thread pools of RocketMQ
// that have no counterpart show empty queues, as nothing ever waits in them;
// sends and pulls run on their connections, admin requests and key queries in
// one pool, auto-creation and cold reads in another.
func (a *runtimeAdmin) table() map[string]string {
	t := map[string]string{
		"bootTimestamp":                   text(a.start.UnixMilli()),
		"runtime":                         uptime(a.up()),
		"brokerActive":                    "true",
		"brokerVersion":                   text(remoting.Version),
		"brokerVersionDesc":               compatible,
		"mqctlVersion":                    a.version,
		"mqctlNow":                        strconv.FormatInt(a.now().UnixMilli(), 10),
		"mqctlCapabilities":               a.serves,
		"startAcceptSendRequestTimeStamp": text(a.live.Load().StartAccept),
		"remainTransientStoreBufferNumbs": noTransientPool,
	}
	a.addStore(t)
	a.addTraffic(t)
	a.addPools(t)
	a.replica.addTo(t)
	for level, p := range a.delays.Progress() {
		t["scheduleMessageOffset_"+strconv.Itoa(level)] = text(p[0]) + "," + text(p[1])
	}
	// Timer messages are off.
	for _, key := range []string{"timerReadBehind", "timerOffsetBehind", "timerCongestNum"} {
		t[key] = "0"
	}
	t["timerEnqueueTps"], t["timerDequeueTps"] = "0.0", "0.0"
	return t
}

func (a *runtimeAdmin) addStore(t map[string]string) {
	p := a.store.Positions()
	t["commitLogMinOffset"], t["commitLogMaxOffset"] = text(p.Min), text(p.Max)
	t["dispatchBehindBytes"] = text(max(0, p.Max-p.Dispatched))
	t["remainHowManyDataToFlush"] = humanBytes(int64(max(0, p.Max-p.Flushed)))
	t["mqctlFlushedOffset"], t["mqctlConfirmedOffset"], t["mqctlDispatchedOffset"] = text(p.Flushed), text(p.Confirmed), text(p.Dispatched)
	t["earliestMessageTimeStamp"] = text(a.store.EarliestTime())
	log, queues := a.store.DiskRatio()
	t["commitLogDiskRatio"], t["consumeQueueDiskRatio"] = ratio(log), ratio(queues)
	t["commitLogDiskRatio_"+a.logDir] = ratio(log)
	if u, err := a.fs.Usage(a.logDir); err == nil {
		t["commitLogDirCapacity"] = fmt.Sprintf("Total : %s, Free : %s.", humanBytes(u.Total), humanBytes(u.Free))
	}
	puts := a.store.PutStats()
	t["putMessageTimesTotal"], t["putMessageFailedTimes"] = text(puts.Times), text(puts.Failed)
	t["putMessageSizeTotal"] = text(puts.Bytes)
	average := 0.0
	if puts.Times > 0 {
		average = float64(puts.Bytes) / float64(puts.Times)
	}
	t["putMessageAverageSize"] = double(average)
	t["putMessageEntireTimeMax"] = text(puts.MaxMicros / 1000)
	t["putLatency99"], t["putLatency999"] = double(puts.P99Millis), double(puts.P999Millis)
	// The append lock is held for an assignment and one write; there is no page
	// cache lock and no dispatch buffer that could fill.
	t["pageCacheLockTimeMills"], t["dispatchMaxBuffer"] = "0", "0"
}

func (a *runtimeAdmin) addTraffic(t map[string]string) {
	t["putTps"], t["getFoundTps"], t["getMissTps"], t["getTotalTps"], t["getTransferredTps"] = a.stats.TPS()
	putNow, putToday, putYesterday, getNow, getToday, getYesterday := a.stats.Totals()
	t["msgPutTotalTodayNow"], t["msgPutTotalTodayMorning"], t["msgPutTotalYesterdayMorning"] = text(putNow), text(putToday), text(putYesterday)
	t["msgGetTotalTodayNow"], t["msgGetTotalTodayMorning"], t["msgGetTotalYesterdayMorning"] = text(getNow), text(getToday), text(getYesterday)
}

// addPools shows the queues of requests. Capacities are RocketMQ's settings,
// which are kept though nothing waits, apart from the query pool's.
func (a *runtimeAdmin) addPools(t map[string]string) {
	for _, p := range []struct{ name, capacity string }{
		{"send", "sendThreadPoolQueueCapacity"}, {"pull", "pullThreadPoolQueueCapacity"},
		{"litePull", "litePullThreadPoolQueueCapacity"}, {"ack", "ackThreadPoolQueueCapacity"},
	} {
		t[p.name+"ThreadPoolQueueSize"], t[p.name+"ThreadPoolQueueHeadWaitTimeMills"] = "0", "0"
		t[p.name+"ThreadPoolQueueCapacity"] = a.capacity(p.capacity)
	}
	t["EndTransactionQueueSize"], t["EndTransactionThreadPoolQueueCapacity"] = "0", a.capacity("endTransactionPoolQueueCapacity")
	t["queryThreadPoolQueueSize"], t["queryThreadPoolQueueCapacity"] = text(len(a.admin.jobs)), text(cap(a.admin.jobs))
	t["queryThreadPoolQueueHeadWaitTimeMills"] = "0"
	t["mqctlDataPoolQueueSize"] = text(len(a.data.jobs))
}

func (a *runtimeAdmin) capacity(key string) string {
	if a.settings == nil {
		return LookupKey(key).Default
	}
	return a.settings.Value(key)
}

func text[N ~int | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// double writes a number as Java does.
func double(v float64) string {
	b, err := body.Double(v).MarshalJSON()
	if err != nil {
		return "0.0"
	}
	return string(b)
}

// ratio is a used part of a disk in hundredths.
func ratio(v float64) string { return double(float64(int64(v*100)) / 100) }

// uptime is RocketMQ's text: [ 0 days, 0 hours, 9 minutes, 23 seconds ].
func uptime(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", s/86400, s/3600%24, s/60%60, s%60)
}

// humanBytes is MixAll.humanReadableByteCount of RocketMQ: 0 B, 1.5 KiB.
func humanBytes(n int64) string {
	if n < 1024 {
		return text(n) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len("KMGTPE")-1 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
}
