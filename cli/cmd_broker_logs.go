package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// logItem is one record of a broker's log.
type logItem struct {
	Broker  string            `json:"broker"` // or the file
	At      *string           `json:"at"`
	Level   string            `json:"level"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields"` // without secrets

	at   time.Time
	line string
}

var logLevels = []string{"debug", "info", "warn", "error"}

func brokerLogsCommand() *command {
	return &command{
		path: "broker logs", summary: "log of a broker", args: "[NAME[/ID]|HOST:PORT]", max: 1, argFrom: "broker", run: runBrokerLogs,
		schema: "mqctl.broker.logs/v1", exits: []int{ExitNotFound, ExitPartial, ExitBadConfig}, attrs: streams,
		examples: []string{"mqctl broker logs broker-a/0 --since 10m", "mqctl broker logs broker-a -f --level warn", "mqctl broker logs --file /var/log/mqctl.log --level error"},
		flags: []flagSpec{
			{key: "follow", letter: "f", kind: kindBool, help: "go on with new records until interrupted"},
			{key: "since", meta: "DUR|TIME", help: "not older than this"},
			{key: "level", kind: kindEnum, enum: logLevels, def: "info", meta: "LEVEL", help: "this level and above"},
			{key: "last", kind: kindInt, min: 1, max: 1000, def: "100", meta: "N", help: "the newest N records of each broker"},
			{key: "file", meta: "FILE", complete: "file", help: "a log file of this machine instead of a broker"},
		},
		view: view{
			item: logItem{}, name: func(item any) string { return item.(*logItem).Broker },
			columns: []column{
				{head: "AT", field: "at", as: asTime}, {head: "BROKER", field: "broker"}, {head: "LEVEL", field: "level"}, {head: "MESSAGE", field: "message"}, {head: "FIELDS", field: "fields", as: asPairs},
			},
			people: func(p *printer, r *result) {
				for _, item := range r.items {
					it := item.(*logItem)
					p.printf("%s %s %-5s %s %s\n", p.style.cell(deref(it.At), asTime), it.Broker, it.Level, oneLine(it.Message), oneLine(strings.Join(pairs(it.Fields), " ")))
				}
			},
		},
	}
}

func runBrokerLogs(ctx context.Context, c *call) (*result, error) {
	if c.on("follow") && (c.p.format == "json" || c.p.format == "csv" || c.p.format == "template") {
		return nil, usage("CONTRADICTION", "--follow has no end, so --output %s cannot be closed", c.p.format).try("--output jsonl")
	}
	since := time.Time{}
	if c.given("since") {
		ms, err := c.sinceMillis()
		if err != nil {
			return nil, err
		}
		since = time.UnixMilli(ms)
	}
	if c.given("file") {
		if c.arg(0) != "" || c.given("broker") {
			return nil, usage("CONTRADICTION", "--file and a broker exclude each other")
		}
		return c.fileLogs(ctx, since)
	}
	if c.arg(0) != "" {
		c.values["broker"] = []string{c.arg(0)}
	}
	targets, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	targets = c.identify(ctx, targets)
	r := c.askLogs(ctx, targets, since, nil)
	if !c.on("follow") || r.done == 0 {
		r.empty = "there are no such records"
		return r, nil
	}
	return c.followLogs(ctx, targets, r)
}

// askLogs asks brokers for their records. newest, if not nil, has of each broker the
// last record that was shown; what is not younger is left out.
func (c *call) askLogs(ctx context.Context, targets []admin.Target, since time.Time, newest map[string]time.Time) *result {
	r := &result{cluster: clusterOf(targets)}
	var items []*logItem
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) ([]byte, error) {
		from := since
		if last, ok := newest[t.Addr]; ok {
			from = last
		}
		return c.client.Log(ctx, t.Addr, from, c.str("level"), int(c.whole("last")))
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		for line := range bytes.Lines(res.Value) {
			it, ok := readLogLine(line)
			if !ok || newest != nil && !it.at.After(newest[res.Target.Addr]) {
				continue
			}
			it.Broker = res.Target.String()
			items = append(items, it)
		}
		if newest != nil {
			for _, it := range items {
				if it.Broker == res.Target.String() && it.at.After(newest[res.Target.Addr]) {
					newest[res.Target.Addr] = it.at
				}
			}
		}
	}
	sort.SliceStable(items, func(i, j int) bool { return items[i].at.Before(items[j].at) })
	for _, it := range items {
		r.add(it)
	}
	return r
}

// followLogs asks again every second until the user interrupts, which is the normal end.
func (c *call) followLogs(ctx context.Context, targets []admin.Target, r *result) (*result, error) {
	newest := map[string]time.Time{}
	for _, t := range targets {
		newest[t.Addr] = c.begun.Add(-time.Hour * 24 * 365)
		for _, item := range r.items {
			if it := item.(*logItem); it.Broker == t.String() && it.at.After(newest[t.Addr]) {
				newest[t.Addr] = it.at
			}
		}
	}
	if err := c.p.print(r); err != nil {
		return nil, err
	}
	c.p.headers = false
	for rest(ctx, time.Second) && c.p.broken == nil {
		more := c.askLogs(ctx, targets, time.Time{}, newest)
		if ctx.Err() != nil {
			break
		}
		if err := c.p.print(more); err != nil {
			return nil, err
		}
		if more.done == 0 {
			more.streamed, more.items = true, nil
			return more, nil
		}
	}
	return &result{streamed: true, done: 1}, nil
}

// readLogLine reads a record that slog wrote: a JSON object, or key=value words.
func readLogLine(line []byte) (*logItem, bool) {
	line = bytes.TrimSpace(line)
	fields := map[string]string{}
	if len(line) > 0 && line[0] == '{' {
		var m map[string]any
		if json.Unmarshal(line, &m) != nil {
			return nil, false
		}
		for k, v := range m {
			fields[k] = valueText(v)
		}
	} else if !readLogWords(string(line), fields) {
		return nil, false
	}
	it := &logItem{Level: strings.ToLower(fields["level"]), Message: fields["msg"], Fields: fields, line: string(line)}
	if at, err := time.Parse(time.RFC3339Nano, fields["time"]); err == nil {
		it.at, it.At = at, ptr(stamp(at))
	}
	delete(fields, "level")
	delete(fields, "msg")
	delete(fields, "time")
	for k := range fields {
		if secretWord(k) {
			fields[k] = hiddenValue
		}
	}
	return it, true
}

// readLogWords reads time=... level=... msg="..." key=value.
func readLogWords(line string, fields map[string]string) bool {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		key, rest, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(key, " \"") {
			return false
		}
		value := rest
		if strings.HasPrefix(rest, `"`) {
			end := 1
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(rest) {
				return false
			}
			if json.Unmarshal([]byte(rest[:end+1]), &value) != nil {
				value = rest[1:end]
			}
			line = rest[end+1:]
		} else if at := strings.IndexByte(rest, ' '); at >= 0 {
			value, line = rest[:at], rest[at:]
		} else {
			line = ""
		}
		fields[key] = value
	}
	return fields["level"] != ""
}

// levelOf is the rank of a level; -1 for a word that is none.
func levelOf(word string) int {
	for i, l := range logLevels {
		if strings.HasPrefix(word, l) {
			return i
		}
	}
	return -1
}

// maxLogLine bounds one line of a log file: bytes.
const maxLogLine = 1 << 20

// fileLogs reads a log file of this machine, and goes on with what is appended.
func (c *call) fileLogs(ctx context.Context, since time.Time) (*result, error) {
	path := c.str("file")
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	least, last := levelOf(c.str("level")), int(c.whole("last"))
	r := &result{empty: "there are no such records"}
	read := func() error {
		for {
			line, err := readLine(in, maxLogLine)
			if it, ok := readLogLine(line); ok && levelOf(it.Level) >= least && !it.at.Before(since) {
				it.Broker = path
				r.add(it)
				if len(r.items) > 2*last && !c.on("follow") {
					r.items = append(r.items[:0], r.items[len(r.items)-last:]...)
				}
			}
			if err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return fail(ExitFailed, "BAD_FILE", "cannot read %s: %v", path, err)
			}
		}
	}
	if err := read(); err != nil {
		return nil, err
	}
	r.items = r.items[max(0, len(r.items)-last):]
	if !c.on("follow") {
		return r, nil
	}
	for {
		if err := c.p.print(r); err != nil {
			return nil, err
		}
		c.p.headers = false
		r.items = nil
		if !rest(ctx, 200*time.Millisecond) || c.p.broken != nil {
			return &result{streamed: true}, nil
		}
		if err := read(); err != nil {
			return nil, err
		}
	}
}
