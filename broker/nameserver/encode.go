package nameserver

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"mqctl/broker/remoting/body"
)

// JSON as fastjson writes it: compact, properties in alphabetical order. The Go
// client splits the route's text at commas and colons, so not even a blank may
// be added. Integer keys are bare for old clients and quoted for those that
// want standard JSON; the latter get non-ASCII characters escaped
// (ClientRequestProcessor: BrowserCompatible, QuoteFieldNames).

// writer appends JSON.
type writer struct {
	b        []byte
	standard bool
}

func (w *writer) raw(s string) { w.b = append(w.b, s...) }

func (w *writer) int(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

func (w *writer) bool(v bool) { w.b = strconv.AppendBool(w.b, v) }

// key is an integer key with its colon.
func (w *writer) key(n int64) {
	if w.standard {
		w.b = append(w.b, '"')
	}
	w.int(n)
	if w.standard {
		w.b = append(w.b, '"')
	}
	w.b = append(w.b, ':')
}

const hexDigits = "0123456789ABCDEF"

func (w *writer) string(s string) {
	w.b = append(w.b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b = append(w.b, '\\', byte(r))
		case r == '\n':
			w.b = append(w.b, '\\', 'n')
		case r == '\r':
			w.b = append(w.b, '\\', 'r')
		case r == '\t':
			w.b = append(w.b, '\\', 't')
		case r < 0x20 || r == 0x7F || w.standard && r > 0x7F:
			w.escape(r)
		default:
			w.b = utf8.AppendRune(w.b, r)
		}
	}
	w.b = append(w.b, '"')
}

func (w *writer) escape(r rune) {
	if r > 0xFFFF {
		a, b := utf16.EncodeRune(r)
		w.escape(a)
		w.escape(b)
		return
	}
	w.b = append(w.b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

func (w *writer) strings(list []string) {
	w.raw("[")
	for i, s := range list {
		if i > 0 {
			w.raw(",")
		}
		w.string(s)
	}
	w.raw("]")
}

// addrs is brokerAddrs: never null, or the Go client panics.
func (w *writer) addrs(g *group) {
	w.raw(`{`)
	for i, r := range g.replicas {
		if i > 0 {
			w.raw(",")
		}
		w.key(r.id)
		w.string(r.addr)
	}
	w.raw(`}`)
}

func (w *writer) group(g *group) {
	w.raw(`{"brokerAddrs":`)
	w.addrs(g)
	w.raw(`,"brokerName":`)
	w.string(g.name)
	w.raw(`,"cluster":`)
	w.string(g.cluster)
	w.raw(`,"enableActingMaster":`)
	w.bool(g.acting)
	w.raw(`}`)
}

func (w *writer) queues(q *queues) {
	w.raw(`{"brokerName":`)
	w.string(q.broker)
	w.raw(`,"perm":`)
	w.int(int64(q.perm))
	w.raw(`,"readQueueNums":`)
	w.int(int64(q.read))
	w.raw(`,"topicSysFlag":`)
	w.int(int64(q.topicSysFlag))
	w.raw(`,"writeQueueNums":`)
	w.int(int64(q.write))
	w.raw(`}`)
}

func (w *writer) mapping(m *body.TopicQueueMappingInfo) {
	w.raw(`{"bname":`)
	w.string(m.BrokerName)
	w.raw(`,"currIdMap":{`)
	for i, id := range slices.Sorted(maps.Keys(m.CurrIDMap)) {
		if i > 0 {
			w.raw(",")
		}
		w.key(int64(id))
		w.int(int64(m.CurrIDMap[id]))
	}
	w.raw(`},"dirty":`)
	w.bool(m.Dirty)
	w.raw(`,"epoch":`)
	w.int(m.Epoch)
	if m.Scope != "" {
		w.raw(`,"scope":`)
		w.string(m.Scope)
	}
	w.raw(`,"topic":`)
	w.string(m.Topic)
	w.raw(`,"totalQueues":`)
	w.int(int64(m.TotalQueues))
	w.raw(`}`)
}

// route is the answer of 105; orderConf "" leaves it out.
func (w *writer) route(groups []*group, e entry, orderConf string) {
	w.raw(`{"brokerDatas":[`)
	for i, g := range groups {
		if i > 0 {
			w.raw(",")
		}
		w.group(g)
	}
	w.raw(`],"filterServerTable":{},`)
	if orderConf != "" {
		w.raw(`"orderTopicConf":`)
		w.string(orderConf)
		w.raw(`,`)
	}
	w.raw(`"queueDatas":[`)
	for i := range e.queues {
		if i > 0 {
			w.raw(",")
		}
		w.queues(&e.queues[i])
	}
	w.raw(`]`)
	if len(e.mappings) > 0 {
		w.raw(`,"topicQueueMappingByBroker":{`)
		for i := range e.mappings {
			if i > 0 {
				w.raw(",")
			}
			w.string(e.mappings[i].BrokerName)
			w.raw(":")
			w.mapping(&e.mappings[i])
		}
		w.raw(`}`)
	}
	w.raw(`}`)
}

// cluster is the answer of 106.
func (w *writer) cluster(v *view) {
	w.raw(`{"brokerAddrTable":{`)
	names := slices.Sorted(maps.Keys(v.groups))
	clusters := make(map[string][]string)
	for i, name := range names {
		g := v.groups[name]
		clusters[g.cluster] = append(clusters[g.cluster], name)
		if i > 0 {
			w.raw(",")
		}
		w.string(name)
		w.raw(":")
		w.group(g)
	}
	w.raw(`},"clusterAddrTable":{`)
	for i, name := range slices.Sorted(maps.Keys(clusters)) {
		if i > 0 {
			w.raw(",")
		}
		w.string(name)
		w.raw(":")
		w.strings(clusters[name])
	}
	w.raw(`}}`)
}

// members is the answer of 901; an unknown name has no addresses.
func (w *writer) members(cluster, name string, g *group) {
	if g == nil {
		g = &group{cluster: cluster, name: name}
	}
	w.raw(`{"brokerMemberGroup":{"brokerAddrs":`)
	w.addrs(g)
	w.raw(`,"brokerName":`)
	w.string(name)
	w.raw(`,"cluster":`)
	w.string(cluster)
	w.raw(`}}`)
}
