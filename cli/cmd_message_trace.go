package cli

import (
	"context"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
)

// traceItem is one station of a message's way, as a client told it.
type traceItem struct {
	Type       string  `json:"type" enum:"PUB|SUB_BEFORE|SUB_AFTER|END_TRANSACTION|RECALL"`
	Group      *string `json:"group"`
	ClientHost *string `json:"clientHost"`
	At         *string `json:"at"`
	CostMillis *int64  `json:"costMillis"`
	Success    *bool   `json:"success"`
	Topic      *string `json:"topic"`
	MsgID      string  `json:"msgId"`
	OffsetID   *string `json:"offsetMsgId"`
	StoreHost  *string `json:"storeHost"`
	Tags       *string `json:"tags"`
	Keys       *string `json:"keys"`
	Retries    *int64  `json:"retryTimes"`
	RequestID  *string `json:"requestId"` // joins the two ends of one consumption

	at int64
}

func messageTraceCommand() *command {
	return &command{
		path: "message trace", old: "queryMsgTraceById", summary: "the way of a message, as its clients traced it", args: "ID", min: 1, max: 1, run: runMessageTrace,
		schema: "mqctl.message.trace/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl message trace 7F0000010D1518B4AAC20D4E1A2B0000", "mqctl queryMsgTraceById -n 127.0.0.1:9876 -i 7F0000010D1518B4AAC20D4E1A2B0000"},
		flags: []flagSpec{
			{key: "id", long: "msgId", short: "i", arg: 1, required: true, meta: "ID", help: "the message's unique id"},
			{key: "trace-topic", long: "traceTopic", short: "t", meta: "TOPIC", def: topic.Trace, complete: "topic", help: "where clients send traces"},
			{key: "begin", long: "beginTimestamp", short: "b", kind: kindInt, max: math.MaxInt64, oldOnly: true, meta: "MS", help: "traced at or after, ms since 1970"},
			{key: "end", long: "endTimestamp", short: "e", kind: kindInt, max: math.MaxInt64, oldOnly: true, meta: "MS", help: "traced at or before, ms since 1970"},
			{key: "since", newOnly: true, meta: "DUR|TIME", help: "traced since then"},
			{key: "max", long: "maxNum", short: "c", kind: kindInt, min: 1, max: 10000, def: "64", meta: "N", help: "at most so many trace messages from each broker"},
		},
		view: view{
			item: traceItem{}, name: func(item any) string { return item.(*traceItem).MsgID }, old: oldTrace,
			columns: []column{
				{head: "TYPE", field: "type"}, {head: "GROUP", field: "group"}, {head: "CLIENT", field: "clientHost"}, {head: "TIME", field: "at", as: asTime},
				{head: "COST", field: "costMillis", as: asMillis}, {head: "SUCCESS", field: "success"}, {head: "TOPIC", field: "topic", fold: 1},
				{head: "RETRIES", field: "retryTimes", as: asNumber, fold: 2}, {head: "OFFSET ID", field: "offsetMsgId", wide: true}, {head: "REQUEST", field: "requestId", wide: true},
			},
		},
	}
}

func runMessageTrace(ctx context.Context, c *call) (*result, error) {
	id, in := c.arg(0), c.str("trace-topic")
	if err := checkTopic(in); err != nil {
		return nil, err
	}
	q := admin.Query{Topic: in, Key: id, Max: int(c.whole("max")), FromMillis: c.whole("begin"), ToMillis: c.whole("end")}
	if c.given("since") {
		var err error
		if q.FromMillis, err = c.sinceMillis(); err != nil {
			return nil, err
		}
	}
	found, err := c.query(ctx, q)
	if err != nil {
		m := asMessage(c.explain(err))
		if m.ExitCode == ExitNotFound {
			return nil, fail(ExitNotFound, "NOT_TRACED", "nothing in %s tells of %s", in, id).
				because("clients trace only when they were started with tracing").try("mqctl message get " + id + " --topic TOPIC --track")
		}
		return nil, err
	}
	r := &result{cluster: found.cluster, errors: found.errors, done: found.done}
	for _, item := range found.items {
		m := item.(*messageItem)
		host, _, _ := strings.Cut(m.BornHost, ":")
		for _, it := range decodeTrace(string(m.raw), host) {
			if it.MsgID == id {
				r.add(it)
			}
		}
	}
	joinTrace(r.items)
	sort.SliceStable(r.items, func(i, j int) bool { return r.items[i].(*traceItem).at < r.items[j].(*traceItem).at })
	return r, nil
}

// joinTrace gives the end of a consumption the group and, where a client does not
// tell it, the time of its beginning.
func joinTrace(items []any) {
	before := map[string]*traceItem{}
	for _, item := range items {
		if it := item.(*traceItem); it.Type == "SUB_BEFORE" && it.RequestID != nil {
			before[*it.RequestID] = it
		}
	}
	for _, item := range items {
		it := item.(*traceItem)
		if it.Type != "SUB_AFTER" || it.RequestID == nil || before[*it.RequestID] == nil {
			continue
		}
		from := before[*it.RequestID]
		if it.Group == nil {
			it.Group = from.Group
		}
		if it.at == 0 {
			it.at, it.At = from.at, from.At
		}
		it.Retries = from.Retries
	}
}

// Separators of a trace: between records, and between the fields of one.
const (
	traceRecord = "\x02"
	traceField  = "\x01"
)

// decodeTrace reads the body of a trace message (TraceDataEncoder). Records of a kind
// or length that is not known are left out.
func decodeTrace(text, host string) []*traceItem {
	var out []*traceItem
	for _, line := range strings.Split(text, traceRecord) {
		f := traceFields(strings.Split(line, traceField))
		it := &traceItem{ClientHost: textOrNil(host)}
		switch {
		case f.at(0) == "Pub" && len(f) >= 13:
			it.Type = "PUB"
			it.stamp(f.at(1))
			it.Group, it.Topic, it.MsgID, it.Tags, it.Keys, it.StoreHost = f.text(3), f.text(4), f.at(5), f.text(6), f.text(7), f.text(8)
			it.CostMillis = f.whole(10)
			if len(f) == 13 {
				it.Success = f.truth(12)
			} else {
				it.OffsetID, it.Success = f.text(12), f.truth(13)
			}
			if v := f.text(14); v != nil {
				it.ClientHost = v
			}
		case f.at(0) == "SubBefore" && len(f) >= 8:
			it.Type = "SUB_BEFORE"
			it.stamp(f.at(1))
			it.Group, it.RequestID, it.MsgID, it.Retries, it.Keys = f.text(3), f.text(4), f.at(5), f.whole(6), f.text(7)
		case f.at(0) == "SubAfter" && len(f) >= 6:
			it.Type = "SUB_AFTER"
			it.RequestID, it.MsgID, it.CostMillis, it.Success, it.Keys = f.text(1), f.at(2), f.whole(3), f.truth(4), f.text(5)
			if len(f) >= 9 {
				it.stamp(f.at(7))
				it.Group = f.text(8)
			}
		case f.at(0) == "EndTransaction" && len(f) >= 13:
			it.Type = "END_TRANSACTION"
			it.stamp(f.at(1))
			it.Group, it.Topic, it.MsgID, it.Tags, it.Keys, it.StoreHost = f.text(3), f.text(4), f.at(5), f.text(6), f.text(7), f.text(8)
			it.Success = ptr(f.at(11) == "COMMIT_MESSAGE")
		default:
			continue
		}
		out = append(out, it)
	}
	return out
}

func (it *traceItem) stamp(text string) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		it.at, it.At = ms, stampMillis(ms)
	}
}

type traceFields []string

func (f traceFields) at(i int) string {
	if i < len(f) {
		return f[i]
	}
	return ""
}

func (f traceFields) text(i int) *string {
	if v := f.at(i); v != "" && v != "null" {
		return &v
	}
	return nil
}

func (f traceFields) whole(i int) *int64 {
	n, err := strconv.ParseInt(f.at(i), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (f traceFields) truth(i int) *bool {
	b, err := strconv.ParseBool(f.at(i))
	if err != nil {
		return nil
	}
	return &b
}

// oldTrace is mqadmin's layout: the sending, and then each group's consumptions.
func oldTrace(p *printer, r *result) {
	const row = "%-10s %-20s %-20s %-20s %-10s %-10s\n"
	line := func(kind string, it *traceItem) {
		status, cost, group, host := "failed", "0ms", "", ""
		if it.Success != nil && *it.Success {
			status = "success"
		}
		if it.CostMillis != nil {
			cost = strconv.FormatInt(*it.CostMillis, 10) + "ms"
		}
		if it.Group != nil {
			group = *it.Group
		}
		if it.ClientHost != nil {
			host = *it.ClientHost
		}
		p.printf(row, kind, group, host, time.UnixMilli(it.at).Format("2006-01-02 15:04:05"), cost, status)
	}
	groups := map[string][]*traceItem{}
	for _, item := range r.items {
		switch it := item.(*traceItem); it.Type {
		case "PUB":
			p.printf(row, "#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
			line("Pub", it)
			p.printf("\n")
		case "SUB_AFTER":
			name := ""
			if it.Group != nil {
				name = *it.Group
			}
			groups[name] = append(groups[name], it)
		}
	}
	for _, g := range sortedKeys(groups) {
		p.printf(row, "#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status")
		for _, it := range groups[g] {
			line("Sub", it)
		}
		p.printf("\n")
	}
}
