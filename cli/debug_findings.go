package cli

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// nameservers: all answer and tell of the same brokers and routes.
func (a *analysis) nameservers() {
	for _, p := range a.man.Parts {
		if p.Error != nil && strings.HasPrefix(p.Name, "nameservers/") && strings.HasSuffix(p.Name, "/routes.json") {
			a.say("FAIL", "NAMESERVER", strings.TrimSuffix(p.Name, "/routes.json"), p.Name, "does not answer", *p.Error, "mqctl nameserver status")
		}
	}
	if len(a.servers) == 0 {
		return
	}
	a.compare("BROKER", func(ns *nsRoutes) map[string]string {
		out := map[string]string{}
		for name, b := range ns.Brokers {
			for id, addr := range b.Addrs {
				out[nameID(name, id)] = addr
			}
		}
		return out
	})
	a.compare("TOPIC", func(ns *nsRoutes) map[string]string {
		out := map[string]string{}
		for name, t := range ns.Topics {
			var parts []string
			for _, q := range t.Queues {
				parts = append(parts, fmt.Sprintf("%s:r%d.w%d.%s", q.Broker, q.ReadQueues, q.WriteQueues, permText(q.Perm)))
			}
			sort.Strings(parts)
			out[name] = firstOf(strings.Join(parts, " "), t.Error)
		}
		return out
	})
	a.deadRoutes()
}

// compare tells of what nameservers say differently: the first few, and how many.
func (a *analysis) compare(kind string, of func(*nsRoutes) map[string]string) {
	all := map[string]bool{}
	said := make([]map[string]string, len(a.servers))
	for i, ns := range a.servers {
		said[i] = of(ns)
		for k := range said[i] {
			all[k] = true
		}
	}
	different := 0
	for _, k := range sortedKeys(all) {
		var words []string
		same := true
		for i, ns := range a.servers {
			same = same && said[i][k] == said[0][k]
			words = append(words, ns.Nameserver+": "+firstOf(said[i][k], "nothing"))
		}
		if same {
			continue
		}
		if different++; different <= 5 {
			a.say("FAIL", "ROUTE", k, "nameservers/1/routes.json", "nameservers tell differently of this "+strings.ToLower(kind), strings.Join(words, "; "), "mqctl cluster route-check")
		}
	}
	switch {
	case different > 5:
		a.say("FAIL", "ROUTE", strings.ToLower(kind)+"s", "nameservers/1/routes.json", fmt.Sprintf("nameservers tell differently of %d more", different-5), "", "mqctl cluster route-check --different")
	case different == 0:
		a.say("OK", "ROUTE", strings.ToLower(kind)+"s", "nameservers/1/routes.json", fmt.Sprintf("%s the same at %s", count(len(all), strings.ToLower(kind)), count(len(a.servers), "nameserver")), "")
	}
}

// deadRoutes: topics all of whose masters are silent.
func (a *analysis) deadRoutes() {
	up := map[string]bool{}
	for _, b := range a.brokers {
		up[b.Broker] = up[b.Broker] || b.Answered && !b.slave()
	}
	var lost []string
	for name, t := range a.servers[0].Topics {
		alive := len(t.Queues) == 0
		for _, q := range t.Queues {
			alive = alive || up[q.Broker]
		}
		if !alive {
			lost = append(lost, name)
		}
	}
	sort.Strings(lost)
	if len(lost) > 0 && len(a.brokers) > 0 {
		a.say("FAIL", "ROUTE", "topics", "nameservers/1/routes.json", count(len(lost), "topic")+" without a master that answers",
			strings.Join(lost[:min(5, len(lost))], ", "), "mqctl cluster health", "mqctl ha promote BROKER --id N --force")
	}
}

// masters: every broker name has one, and not two.
func (a *analysis) masters() {
	names := map[string][]*seenBroker{}
	for _, b := range a.brokers {
		names[b.Broker] = append(names[b.Broker], b)
	}
	versions := map[string][]string{}
	for _, name := range sortedKeys(names) {
		var up []string
		for _, b := range names[name] {
			if !b.Answered {
				continue
			}
			if v := b.runtime.version(); v != nil {
				versions[*v] = append(versions[*v], b.name())
			}
			if !b.slave() {
				up = append(up, b.name())
			}
		}
		switch {
		case len(up) == 0:
			a.say("FAIL", "MASTER", name, manifestName, "no master answers", "sends to its queues fail", "mqctl ha promote "+name+" --id N --force", "mqctl broker status "+name)
		case len(up) > 1:
			a.say("FAIL", "MASTER", name, manifestName, "two masters: "+strings.Join(up, ", "), "both take messages, and the logs part", "mqctl ha demote "+up[1], "mqctl stats ha --broker "+name)
		default:
			a.say("OK", "MASTER", name, manifestName, up[0]+" is the master", "")
		}
	}
	if len(versions) > 1 {
		var words []string
		for _, v := range sortedKeys(versions) {
			words = append(words, v+": "+strings.Join(versions[v], ", "))
		}
		a.say("WARN", "VERSION", "brokers", manifestName, "brokers of "+count(len(versions), "version"), strings.Join(words, "; "), "mqctl cluster list")
	}
}

// disk: how full it is.
func (a *analysis) disk(b *seenBroker) {
	used, limit := b.runtime.percent("commitLogDiskRatio"), 75.0
	if v := runtimeView(b.config).number("diskMaxUsedSpaceRatio"); v != nil && *v > 0 {
		limit = *v
	}
	part := b.part("runtime.json")
	switch {
	case used == nil:
	case *used >= 90:
		a.say("FAIL", "DISK", b.name(), part, fmt.Sprintf("%.1f %% used", *used), "at 95 % sends are refused", "mqctl broker clean commitlog --broker "+b.name()+" --dry-run", "mqctl check disk")
	case *used > limit:
		a.say("WARN", "DISK", b.name(), part, fmt.Sprintf("%.1f %% used", *used), fmt.Sprintf("from %.0f %% on old files are deleted before their time", limit), "mqctl broker clean commitlog --broker "+b.name()+" --dry-run")
	default:
		a.say("OK", "DISK", b.name(), part, fmt.Sprintf("%.1f %% used", *used), "")
	}
}

// clock: as far as it can be told from the time at which the broker was asked.
func (a *analysis) clock(b *seenBroker) {
	now, asked := b.runtime.whole("mqctlNow"), time.Time{}
	if t, err := time.Parse(timeLayout, b.At); err == nil {
		asked = t
	}
	if now == nil || asked.IsZero() {
		return
	}
	off := time.UnixMilli(*now).Sub(asked)
	if off.Abs() > 2*time.Second {
		a.say("WARN", "CLOCK", b.name(), b.part("runtime.json"), fmt.Sprintf("its clock and that of the collecting machine are %.1f s apart", off.Abs().Seconds()), "delays, retention and searches by time go by the broker's clock")
		return
	}
	a.say("OK", "CLOCK", b.name(), b.part("runtime.json"), "within 2 s of the collecting machine's", "")
}

// starts: restarts and changes of roles in the time that the bundle is about.
func (a *analysis) starts(b *seenBroker) {
	since, err := time.Parse(timeLayout, a.man.Since)
	if err != nil {
		return
	}
	if boot := b.runtime.whole("bootTimestamp"); boot != nil && time.UnixMilli(*boot).After(since) {
		a.say("WARN", "RESTART", b.name(), b.part("runtime.json"), "it was started at "+stamp(time.UnixMilli(*boot)), "within the time that the bundle is about", "mqctl broker logs "+b.name())
	}
	if b.events == nil {
		return
	}
	counts, last := map[string]int{}, map[string]string{}
	for _, e := range b.events.Events {
		if e.Kind == "ROLE" || e.Kind == "SLAVE" || e.Kind == "MASTER" {
			counts[e.Kind]++
			last[e.Kind] = fmt.Sprintf("%s %s: %s -> %s", stamp(time.UnixMilli(e.At)), e.Target, firstOf(e.Before, "nothing"), firstOf(e.After, "nothing"))
		}
	}
	if n := counts["ROLE"]; n > 0 {
		a.say("WARN", "EVENTS", b.name(), b.part("events.json"), count(n, "change")+" of role", "last "+last["ROLE"], "mqctl events --kind ROLE --broker "+b.name())
	}
	if n := counts["SLAVE"] + counts["MASTER"]; n > 3 {
		a.say("WARN", "EVENTS", b.name(), b.part("events.json"), fmt.Sprintf("replication changed %d times", n), "last "+firstOf(last["SLAVE"], last["MASTER"]), "mqctl events --kind SLAVE --broker "+b.name())
	}
}

// waits: requests that wait for a turn.
func (a *analysis) waits(b *seenBroker) {
	part := b.part("runtime.json")
	bad := false
	for _, q := range []struct{ key, what string }{
		{"sendThreadPoolQueueHeadWaitTimeMills", "sends"}, {"pullThreadPoolQueueHeadWaitTimeMills", "pulls"}, {"pageCacheLockTimeMills", "writes of the log"},
	} {
		if ms := b.runtime.whole(q.key); ms != nil && *ms >= 200 && *ms < 1<<40 {
			bad = true
			a.say("WARN", "WAITS", b.name(), part, fmt.Sprintf("%s wait for %d ms", q.what, *ms), "the disk or the processors cannot keep up", "mqctl stats latency --broker "+b.name(), "mqctl debug profile "+b.name())
		}
	}
	if behind := b.runtime.whole("dispatchBehindBytes"); behind != nil && *behind > a.maxGap {
		bad = true
		a.say("WARN", "WAITS", b.name(), part, humanize.IBytes(uint64(*behind))+" of the log are not in the queues yet", "consumers see messages late", "mqctl broker status "+b.name())
	}
	if !bad {
		a.say("OK", "WAITS", b.name(), part, "nothing waits", "")
	}
}

// flush: what a power cut would take.
func (a *analysis) flush(b *seenBroker) {
	o := b.offsets
	if o == nil {
		return
	}
	if open := o.Max - o.Flushed; open > a.maxGap {
		a.say("WARN", "FLUSH", b.name(), b.part("inspect-offsets.json"), humanize.IBytes(uint64(open))+" are not on the disk yet", "a power cut would take them from this replica", "mqctl stats offsets --broker "+b.Broker)
		return
	}
	a.say("OK", "FLUSH", b.name(), b.part("inspect-offsets.json"), humanize.IBytes(uint64(max(0, o.Max-o.Flushed)))+" are not on the disk yet", "")
}

func (a *analysis) latencies(b *seenBroker) {
	if b.latency == nil {
		return
	}
	for _, op := range b.latency.Operations {
		if op.Count > 0 && op.P99Millis >= 100 {
			a.say("WARN", "LATENCY", b.name(), b.part("inspect-latency.json"), fmt.Sprintf("%s: p99 %.0f ms, max %.0f ms", op.Op, op.P99Millis, op.MaxMillis), fmt.Sprintf("of %d since its start", op.Count), "mqctl stats latency --broker "+b.name(), "mqctl debug profile "+b.name())
		}
	}
}

// replication: the slaves of a master, and what a slave says of its master.
func (a *analysis) replication(b *seenBroker) {
	try := "mqctl stats ha --broker " + b.Broker
	switch {
	case b.own != nil:
		a.ownReplication(b, try)
	case b.ha != nil && b.ha.Master:
		for _, p := range b.ha.Peers {
			state, why := "OK", "in sync"
			if !p.InSync || p.Diff > a.maxGap {
				state, why = "FAIL", "not in sync"
			}
			a.say(state, "SLAVE", b.name()+" to "+p.Addr, b.part("ha.json"), humanize.IBytes(uint64(max(0, p.Diff)))+" behind", why, tryIf(state != "OK", try)...)
		}
		if want := a.slavesOf(b.Broker); len(b.ha.Peers) < want {
			a.say("FAIL", "SLAVE", b.name(), b.part("ha.json"), fmt.Sprintf("%d of %s are connected", len(b.ha.Peers), count(want, "slave")), "a registered slave does not follow", try)
		}
	}
}

// slavesOf is how many slaves of a name the first nameserver knows.
func (a *analysis) slavesOf(name string) int {
	n := 0
	for _, ns := range a.servers[:min(1, len(a.servers))] {
		for id := range ns.Brokers[name].Addrs {
			if id > 0 {
				n++
			}
		}
	}
	return n
}

func (a *analysis) ownReplication(b *seenBroker, try string) {
	part := b.part("inspect-ha.json")
	if f := b.own.Following; f != nil && b.slave() {
		if !f.Connected {
			a.say("FAIL", "SLAVE", b.name(), part, "it does not follow its master: "+strings.ToLower(strings.ReplaceAll(f.State, "_", " ")), f.Why, try, "mqctl broker logs "+b.name()+" --level warn")
		}
		if f.MetaError != "" {
			a.say("WARN", "SLAVE", b.name(), part, "topics, groups and offsets are not copied", f.MetaError, try)
		}
	}
	connected := 0
	for _, s := range b.own.Slaves {
		target := s.Addr
		if s.BrokerID >= 0 {
			target = nameID(b.Broker, s.BrokerID)
		}
		gap := humanize.IBytes(uint64(max(0, s.GapBytes))) + " behind"
		switch {
		case s.LostAt > 0:
			a.say("FAIL", "SLAVE", target, part, "not connected since "+stamp(time.UnixMilli(s.LostAt))+", "+gap, s.Why, try, "mqctl broker status "+target)
		case !s.InSync || s.GapBytes > a.maxGap:
			connected++
			a.say("FAIL", "SLAVE", target, part, gap+", "+strings.ToLower(strings.ReplaceAll(s.State, "_", " ")), s.Why, try)
		default:
			connected++
			a.say("OK", "SLAVE", target, part, "in sync, "+gap, "")
		}
	}
	if want := a.slavesOf(b.Broker); !b.slave() && connected == 0 && len(b.own.Slaves) < want {
		a.say("FAIL", "SLAVE", b.name(), part, fmt.Sprintf("none of %s is connected", count(want, "registered slave")), "what it takes in is on one disk only", try)
	}
	if b.own.Fenced {
		a.say("FAIL", "FENCE", b.name(), part, "it is fenced: it takes no messages", "a promotion did not come to its end", "mqctl ha status --broker "+b.Broker)
	}
}

// slowReads: groups that would be sent to a slave if that were allowed.
func (a *analysis) slowReads(b *seenBroker) {
	if b.pull == nil {
		return
	}
	for _, row := range b.pull.Rows {
		if row.Slow > 0 && row.Reason == "SLAVE_READ_DISABLED" {
			a.say("WARN", "READS", row.Group+" "+row.Topic, b.part("inspect-pull.json"), humanize.IBytes(uint64(max(0, row.BehindBytes)))+" behind and read from the master's disk at "+b.name(), "slaveReadEnable is false",
				fmt.Sprintf("mqctl stats pull --explain --group %s --topic %s", row.Group, row.Topic), "mqctl broker config set slaveReadEnable=true --broker "+b.Broker+" --all")
		}
	}
}

// backlog: groups that are far behind, and those that nobody reads for.
func (a *analysis) backlog(b *seenBroker) {
	if b.slave() {
		return // its copies of the offsets are the master's
	}
	lag := map[string]int64{}
	for _, row := range b.backlog {
		if !systemGroup(row.Group) {
			lag[row.Group] += max(0, row.BrokerOffset-row.ConsumerOffset)
		}
	}
	for _, g := range sortedKeys(lag) {
		cfg, known := b.groups[g]
		switch {
		case known && !cfg.ConsumeEnable && lag[g] > 0:
			a.say("WARN", "LAG", g, b.part("groups.json"), fmt.Sprintf("%s behind at %s, and paused", humanize.Comma(lag[g]), b.name()), "consumeEnable is false", "mqctl group resume "+g)
		case lag[g] > a.maxLag:
			a.say("WARN", "LAG", g, b.part("backlog.json"), fmt.Sprintf("%s behind at %s", humanize.Comma(lag[g]), b.name()), fmt.Sprintf("more than %s", humanize.Comma(a.maxLag)), "mqctl group lag "+g, "mqctl client list --group "+g)
		}
	}
}

// logs: how often the broker complained, and of what most.
func (a *analysis) logs(b *seenBroker) {
	for _, level := range []struct{ word, state string }{{"error", "FAIL"}, {"warn", "WARN"}} {
		counts, n, most := map[string]int{}, 0, ""
		var last *logItem
		for _, it := range b.log {
			if it.Level != level.word {
				continue
			}
			n++
			counts[it.Message]++
			if counts[it.Message] > counts[most] || most == "" {
				most = it.Message
			}
			last = it
		}
		if n == 0 {
			continue
		}
		why := fmt.Sprintf("most often (%d): %s", counts[most], most)
		if text := firstOf(last.Fields["err"], last.Fields["error"]); text != "" && last.Message == most {
			why += ": " + text
		}
		a.say(level.state, "LOG", b.name(), b.part("log.jsonl"), count(n, "record")+" of level "+level.word, oneLine(why), "mqctl broker logs "+b.name()+" --level "+level.word)
	}
}

// Bounds of goroutines: in all, and in one place.
const (
	manyGoroutines = 10_000
	manyInOnePlace = 2_000
)

// goroutines: so many that they are probably left over.
func (a *analysis) goroutines(b *seenBroker) {
	if b.stacks == nil {
		return
	}
	n, places := 0, map[string]int{}
	for block := range bytes.SplitSeq(b.stacks, []byte("\n\n")) {
		if !bytes.HasPrefix(bytes.TrimSpace(block), []byte("goroutine ")) {
			continue
		}
		n++
		if at := bytes.LastIndex(block, []byte("created by ")); at >= 0 {
			first, _, _ := bytes.Cut(block[at+len("created by "):], []byte("\n"))
			name, _, _ := strings.Cut(string(first), " in goroutine")
			places[name]++
		}
	}
	most := ""
	for _, name := range sortedKeys(places) {
		if places[name] > places[most] {
			most = name
		}
	}
	part := b.part("goroutines.txt")
	if n > manyGoroutines || places[most] > manyInOnePlace {
		a.say("WARN", "GOROUTINES", b.name(), part, fmt.Sprintf("%d goroutines", n), fmt.Sprintf("%d of them were started by %s", places[most], most), "mqctl debug profile "+b.name()+" --kind goroutine")
		return
	}
	a.say("OK", "GOROUTINES", b.name(), part, fmt.Sprintf("%d goroutines", n), "")
}

// storage: what the look at a store folder found.
func (a *analysis) storage(target, part string, look *storeLook) {
	if look == nil {
		return
	}
	if target == "store" {
		target = look.Dir
	}
	shownOf := 0
	for _, f := range look.Findings {
		state := map[string]string{"DAMAGE": "FAIL", "REPAIR": "WARN"}[f.Severity]
		if state == "" {
			continue
		}
		if shownOf++; shownOf > 20 {
			continue
		}
		why := "the next start repairs it by itself"
		if state == "FAIL" {
			why = "something is lost or wrong and stays so"
		}
		a.say(state, "STORE", target, part, f.Kind+" "+f.File+f.where()+": "+f.Message, why, append([]string{"mqctl store verify " + shellWord(look.Dir)}, f.Try...)...)
	}
	if more := int64(shownOf-20) + look.More; shownOf > 20 {
		a.say("WARN", "STORE", target, part, fmt.Sprintf("%d more findings", more), "", "mqctl store verify "+shellWord(look.Dir))
	}
	if shownOf == 0 {
		a.say("OK", "STORE", target, part, fmt.Sprintf("nothing wrong with %s of the log (%s check)", humanize.IBytes(uint64(look.LogBytes)), strings.ToLower(look.Checked)), "")
	}
}

// ownTopics are made by each broker for itself.
func ownTopic(name, broker, cluster string) bool {
	return name == broker || name == cluster || strings.HasPrefix(name, "%RETRY%") || strings.HasPrefix(name, "%DLQ%") || strings.HasPrefix(name, "RMQ_SYS") ||
		strings.HasPrefix(name, "rmq_sys") || strings.HasSuffix(name, "_REPLY_TOPIC") || systemTopicNames[name]
}

var systemTopicNames = map[string]bool{"TBW102": true, "SELF_TEST_TOPIC": true, "BenchmarkTest": true, "OFFSET_MOVED_EVENT": true, "SCHEDULE_TOPIC_XXXX": true,
	"RMQ_SYS_TRACE_TOPIC": true, "DefaultHeartBeatSyncerTopic": true, "TRANS_CHECK_MAX_TIME_TOPIC": true}

// drift: topics and groups that differ between masters of one cluster.
func (a *analysis) drift() {
	type holder struct{ where, what map[string]string }
	topics, groups := map[string]*holder{}, map[string]*holder{}
	masters := 0
	put := func(to map[string]*holder, name, broker, text string) {
		if to[name] == nil {
			to[name] = &holder{where: map[string]string{}, what: map[string]string{}}
		}
		to[name].where[broker], to[name].what[text] = text, broker
	}
	for _, b := range a.brokers {
		if b.topics == nil || b.groups == nil || b.slave() {
			continue
		}
		masters++
		for name, t := range b.topics {
			if !ownTopic(name, b.Broker, b.config["brokerClusterName"]) {
				put(topics, name, b.name(), fmt.Sprintf("read %d, write %d, %s", t.ReadQueueNums, t.WriteQueueNums, permText(t.Perm)))
			}
		}
		for name, g := range b.groups {
			if !systemGroup(name) {
				put(groups, name, b.name(), fmt.Sprintf("consume %t, broker %d, slow broker %d, retries %d", g.ConsumeEnable, g.BrokerID, g.WhichBrokerWhenConsumeSlowly, g.RetryMaxTimes))
			}
		}
	}
	if masters < 2 {
		return
	}
	for _, kind := range []struct {
		word string
		all  map[string]*holder
	}{{"topic", topics}, {"group", groups}} {
		n := 0
		for _, name := range sortedKeys(kind.all) {
			h := kind.all[name]
			if len(h.what) == 1 && len(h.where) == masters {
				continue
			}
			if n++; n > 10 {
				continue
			}
			why := fmt.Sprintf("on %s of %s", strings.Join(sortedKeys(h.where), ", "), count(masters, "master"))
			if len(h.what) > 1 {
				var words []string
				for _, broker := range sortedKeys(h.where) {
					words = append(words, broker+": "+h.where[broker])
				}
				why = strings.Join(words, "; ")
			}
			a.say("WARN", "DRIFT", kind.word+" "+name, manifestName, "masters differ", why, "mqctl check drift", "mqctl "+kind.word+" get "+name)
		}
		switch {
		case n > 10:
			a.say("WARN", "DRIFT", kind.word+"s", manifestName, fmt.Sprintf("masters differ in %d more", n-10), "", "mqctl check drift")
		case n == 0:
			a.say("OK", "DRIFT", kind.word+"s", manifestName, fmt.Sprintf("the same on %d masters", masters), "")
		}
	}
}
