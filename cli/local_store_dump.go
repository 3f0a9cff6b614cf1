package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"mqctl/store/inspect"
	"mqctl/store/record"
)

// dumpItem is one thing of a store; which fields it has depends on its kind.
type dumpItem struct {
	Kind        string            `json:"kind" enum:"RECORD|DAMAGED|ENTRY|INDEX_FILE|KEY|CHECKPOINT|ABORT|CONFIG|SIDE_FILE|TIMER_SLOT|TIMER_ENTRY|EXT"`
	File        string            `json:"file"`
	Offset      int64             `json:"offset"` // in the file
	PhysOffset  *int64            `json:"physOffset,omitempty"`
	Bytes       *int64            `json:"bytes,omitempty"`
	Topic       *string           `json:"topic,omitempty"`
	QueueID     *int32            `json:"queueId,omitempty"`
	QueueOffset *int64            `json:"queueOffset,omitempty"`
	MsgID       *string           `json:"msgId,omitempty"`
	UniqID      *string           `json:"uniqId,omitempty"`
	Tags        *string           `json:"tags,omitempty"`
	Keys        []string          `json:"keys,omitempty"`
	StoredAt    *string           `json:"storedAt,omitempty"`
	BornAt      *string           `json:"bornAt,omitempty"`
	BornHost    *string           `json:"bornHost,omitempty"`
	StoreHost   *string           `json:"storeHost,omitempty"`
	SysFlag     *int32            `json:"sysFlag,omitempty"`
	Flag        *int32            `json:"flag,omitempty"`
	Reconsume   *int32            `json:"reconsumeTimes,omitempty"`
	Prepared    *int64            `json:"preparedOffset,omitempty"`
	BodyCRC     *int64            `json:"bodyCrc,omitempty"`
	BodyBytes   *int64            `json:"bodyBytes,omitempty"`
	Body        *string           `json:"body,omitempty"`       // when it is UTF-8
	BodyBase64  *string           `json:"bodyBase64,omitempty"` // when it is not
	BodyCut     *bool             `json:"bodyCut,omitempty"`    // there is more of it: --full-body
	Properties  map[string]string `json:"properties,omitempty"`
	TagCode     *int64            `json:"tagCode,omitempty"`
	Count       *int64            `json:"count,omitempty"` // messages of a batch entry, entries of an index file
	Number      *int64            `json:"number,omitempty"`
	Hash        *int64            `json:"hash,omitempty"`
	Previous    *int64            `json:"previous,omitempty"`
	Values      map[string]string `json:"values,omitempty"`
	Content     *string           `json:"content,omitempty"` // of a configuration file, as legal JSON
	Problem     *string           `json:"problem,omitempty"`
}

// dumpColumns are the table of each thing that can be dumped.
var dumpColumns = map[string][]column{
	"records": {
		{head: "POSITION", field: "physOffset", as: asNumber}, {head: "SIZE", field: "bytes", as: asNumber}, {head: "TOPIC", field: "topic"}, {head: "Q", field: "queueId", as: asNumber},
		{head: "OFFSET", field: "queueOffset", as: asNumber}, {head: "STORED", field: "storedAt", as: asTime}, {head: "TAGS", field: "tags"}, {head: "KEYS", field: "keys", as: asList},
		{head: "BODY", field: "body", as: asBody, cut: 40}, {head: "PROBLEM", field: "problem", as: asBody}, {head: "UNIQ ID", field: "uniqId", wide: true},
		{head: "OFFSET ID", field: "msgId", wide: true}, {head: "BORN HOST", field: "bornHost", wide: true}, {head: "SYSFLAG", field: "sysFlag", as: asNumber, wide: true}, {head: "FILE", field: "file", wide: true},
	},
	"queue": {
		{head: "TOPIC", field: "topic"}, {head: "Q", field: "queueId", as: asNumber}, {head: "OFFSET", field: "queueOffset", as: asNumber}, {head: "POSITION", field: "physOffset", as: asNumber},
		{head: "SIZE", field: "bytes", as: asNumber}, {head: "TAG CODE", field: "tagCode", as: asNumber}, {head: "COUNT", field: "count", as: asNumber}, {head: "FILE", field: "file", wide: true},
	},
	"index": {
		{head: "FILE", field: "file"}, {head: "KIND", field: "kind"}, {head: "NUMBER", field: "number", as: asNumber}, {head: "HASH", field: "hash", as: asNumber},
		{head: "POSITION", field: "physOffset", as: asNumber}, {head: "STORED", field: "storedAt", as: asTime}, {head: "PREVIOUS", field: "previous", as: asNumber}, {head: "VALUES", field: "values", as: asPairs},
	},
	"other": {
		{head: "FILE", field: "file"}, {head: "KIND", field: "kind"}, {head: "OFFSET", field: "offset", as: asNumber}, {head: "SIZE", field: "bytes", as: asNumber}, {head: "VALUES", field: "values", as: asPairs}, {head: "PROBLEM", field: "problem", as: asBody},
	},
}

// dumpWhats are the values of --what.
var dumpWhats = []string{"records", "queue", "index", "checkpoint", "config", "side", "ext", "timer"}

func storeDumpCommand() *command {
	return &command{
		path: "store dump", old: "dumpCompactionLog", summary: "what is in the files of a store", args: "DIR|FILE", min: 1, max: 1, argFrom: "file", attrs: local,
		run: runStoreDump, schema: "mqctl.store.dump/v1", exits: []int{ExitNotFound, ExitStoreInUse},
		examples: []string{
			"mqctl store dump /data/mq/broker-a --topic orders --limit 20", "mqctl store dump /data/mq/broker-a --from 1073741824 --to 1074000000 -o jsonl",
			"mqctl store dump /data/mq/broker-a --what queue --topic orders --queue 0 --from 100", "mqctl store dump /data/mq/broker-a --what checkpoint -o json",
			"mqctl dumpCompactionLog -f /data/mq/broker-a/compaction/compactionLog/orders/0/00000000000000000000",
		},
		flags: storeFlags(
			flagSpec{key: "file", long: "file", short: "f", arg: 1, required: true, meta: "FILE", complete: "file", help: "a store folder, or one file of records such as a compaction log"},
			flagSpec{key: "what", kind: kindEnum, enum: dumpWhats, def: "records", newOnly: true, meta: "WHAT", help: strings.Join(dumpWhats, ", ")},
			flagSpec{key: "from", newOnly: true, meta: "POSITION|TIME", help: "from this position of the log (of a queue: message number), or stored at or after this time"},
			flagSpec{key: "to", newOnly: true, meta: "POSITION|TIME", help: "before this position, number or time"},
			flagSpec{key: "topic", newOnly: true, meta: "TOPIC", help: "only this topic"},
			flagSpec{key: "queue", newOnly: true, kind: kindInt, max: math.MaxInt32, meta: "N", help: "only this queue"},
			flagSpec{key: "no-body", newOnly: true, kind: kindBool, help: "records without their bodies"},
			flagSpec{key: "full-body", newOnly: true, kind: kindBool, help: fmt.Sprintf("bodies of more than %d bytes whole", shortBody)},
			flagSpec{key: "base64", newOnly: true, kind: kindBool, help: "bodies always as base64"},
			forceReadNew(),
		),
		view: view{
			item: dumpItem{}, columns: dumpColumns["records"],
			name: func(item any) string {
				it := item.(*dumpItem)
				if it.PhysOffset != nil {
					return strconv.FormatInt(*it.PhysOffset, 10)
				}
				return it.File
			},
			old: oldDump,
		},
	}
}

func forceReadNew() flagSpec {
	f := forceRead()
	f.newOnly = true
	return f
}

// dumper prints items as they come, so that a whole store needs no memory.
type dumper struct {
	c       *call
	s       *openedStore
	from    int64
	to      int64
	topic   string
	queue   int64 // -1: all
	batch   []any
	printed int64
	limit   int64
	closed  bool // formats that need everything at once
	skipped int64
}

// closedLimit bounds what is kept for formats that are printed at once.
const closedLimit = 10000

// dumpBatch is how many items are printed together: their columns share a width.
const dumpBatch = 500

func runStoreDump(ctx context.Context, c *call) (*result, error) {
	d := &dumper{c: c, to: math.MaxInt64, topic: c.str("topic"), queue: -1, limit: math.MaxInt64}
	if c.given("queue") {
		d.queue = c.whole("queue")
	}
	if c.given("limit") {
		d.limit = c.whole("limit")
		c.p.limit = 0 // counted here
	}
	switch c.p.format {
	case "json", "template":
		d.closed = true
	}
	if c.p.sort != "" {
		d.closed = true
	}
	path := c.arg(0)
	if path == "" {
		path = c.str("file")
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return d.file(ctx, path)
	}
	if c.old {
		return nil, noFile(path)
	}
	bar := c.progress("dump")
	s, err := c.openStore(bar.at)
	if err != nil {
		return nil, err
	}
	defer s.close()
	d.s = s
	if err := d.bounds(ctx); err != nil {
		return nil, err
	}
	what := c.str("what")
	if c.p.view.columns = dumpColumns[what]; c.p.view.columns == nil {
		c.p.view.columns = dumpColumns["other"]
	}
	err = map[string]func(context.Context) error{
		"records": d.records, "queue": d.queues, "index": d.index, "checkpoint": d.checkpoint, "config": d.config, "side": d.side, "ext": d.ext, "timer": d.timer,
	}[what](ctx)
	bar.end()
	return d.result(err)
}

// errEnough ends a dump at its limit.
var errEnough = errors.New("enough")

func (d *dumper) result(err error) (*result, error) {
	if err != nil && !errors.Is(err, errEnough) {
		dir := d.c.arg(0)
		if d.s != nil {
			dir = d.s.dir
		}
		return nil, notStore(dir, err)
	}
	if d.topic != "" && d.printed == 0 && !d.s.knowsTopic(d.topic) {
		return nil, d.s.noTopic(d.topic)
	}
	r := &result{items: d.batch, empty: "there is nothing of that in the store"}
	if d.closed && d.skipped > 0 {
		r.warn(warning("TRUNCATED", "", "only the first %d items are shown: this format is printed at once", closedLimit))
		r.warnings[0].Try = []string{"-o jsonl", "--limit N"}
	}
	if !d.closed && d.printed > 0 {
		if err := d.flush(); err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		r.streamed, r.items = true, nil
		r.empty = ""
	}
	return r, nil
}

// add prints or keeps an item.
func (d *dumper) add(it *dumpItem) error {
	if d.printed >= d.limit {
		return errEnough
	}
	if d.closed && d.printed >= min(d.limit, closedLimit) {
		d.skipped++
		return errEnough
	}
	d.printed++
	d.batch = append(d.batch, it)
	if !d.closed && len(d.batch) >= dumpBatch {
		return d.flush()
	}
	return nil
}

func (d *dumper) flush() error {
	if len(d.batch) == 0 {
		return nil
	}
	if err := d.c.p.print(&result{items: d.batch}); err != nil {
		return err
	}
	d.c.p.headers, d.batch = false, d.batch[:0]
	if d.c.p.broken != nil {
		return errEnough
	}
	return nil
}

// bounds reads --from and --to.
func (d *dumper) bounds(ctx context.Context) error {
	for key, to := range map[string]*int64{"from": &d.from, "to": &d.to} {
		if !d.c.given(key) {
			continue
		}
		text := d.c.str(key)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			*to = n
			continue
		}
		ms, err := parseTime(text, d.c.begun, "--"+key)
		if err != nil {
			return err
		}
		if d.c.str("what") != "records" {
			return usage("BAD_VALUE", "--%s: %q is a time, which only records have", key, text)
		}
		if *to, err = d.s.SeekMillis(ctx, ms); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) records(ctx context.Context) error {
	return d.s.Records(ctx, d.from, d.to, func(st inspect.Stretch) (bool, error) {
		if st.Err == nil && (d.topic != "" && string(st.Record.Topic()) != d.topic || d.queue >= 0 && int64(st.Record.QueueID()) != d.queue) {
			return true, nil
		}
		return true, d.add(d.stretch(st))
	})
}

// file dumps one file of records.
func (d *dumper) file(ctx context.Context, path string) (*result, error) {
	if d.c.str("what") != "records" {
		return nil, usage("CONTRADICTION", "--what %s needs the folder of a store, %s is a file", d.c.str("what"), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, notStore(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return d.result(inspect.FileRecords(ctx, f, info.Size(), filepath.Base(path), func(st inspect.Stretch) (bool, error) {
		return true, d.add(d.stretch(st))
	}))
}

// stretch makes the item of a record, or of bytes that are none.
func (d *dumper) stretch(st inspect.Stretch) *dumpItem {
	it := &dumpItem{Kind: "RECORD", File: st.File, Offset: st.Offset, Bytes: ptr(st.Bytes)}
	if st.Pos >= 0 {
		it.PhysOffset = ptr(st.Pos)
	}
	if st.Err != nil {
		it.Problem = ptr(st.Err.Error())
	}
	if st.Record.Raw() == nil {
		it.Kind = "DAMAGED"
		return it
	}
	m := st.Record.Message()
	it.Topic, it.QueueID, it.QueueOffset = &m.Topic, &m.QueueID, ptr(int64(m.QueueOffset))
	it.MsgID = ptr(m.OffsetID())
	it.StoredAt, it.BornAt = stampMillis(m.StoreMillis), stampMillis(m.BornMillis)
	it.BornHost, it.StoreHost = ptr(m.BornHost.String()), ptr(m.StoreHost.String())
	it.SysFlag, it.Flag, it.Reconsume = &m.SysFlag, &m.Flag, &m.ReconsumeTimes
	it.Prepared, it.BodyCRC, it.BodyBytes = ptr(int64(m.PreparedOffset)), ptr(int64(m.BodyCRC)), ptr(int64(len(m.Body)))
	it.Keys, it.Properties = m.Keys(), m.Properties
	if v := m.Properties[record.PropertyUniqueKey]; v != "" {
		it.UniqID = &v
	}
	if v := m.Tags(); v != "" {
		it.Tags = &v
	}
	if !d.c.on("no-body") {
		d.body(it, m)
	}
	return it
}

// shortBody is how many bytes of a body are shown without --full-body.
const shortBody = 256

// maxDumpBody is the longest plain text of a compressed body that is shown.
const maxDumpBody = 4 << 20

func (d *dumper) body(it *dumpItem, m *record.Message) {
	plain, err := m.PlainBody(maxDumpBody)
	if err != nil {
		plain = m.Body
	}
	if len(plain) > shortBody && !d.c.on("full-body") {
		end := shortBody
		for whole := utf8.Valid(plain); whole && !utf8.RuneStart(plain[end]); {
			end-- // not within a character
		}
		plain, it.BodyCut = plain[:end], ptr(true)
	}
	if utf8.Valid(plain) && !d.c.on("base64") {
		it.Body = ptr(string(plain))
		return
	}
	it.BodyBase64 = ptr(base64.StdEncoding.EncodeToString(plain))
}

// queues dumps the entries of queues.
func (d *dumper) queues(ctx context.Context) error {
	for _, q := range d.s.Queues() {
		if d.topic != "" && q.Topic != d.topic || d.queue >= 0 && int64(q.ID) != d.queue {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := q.Each(0, func(n int64, e inspect.Entry) (bool, error) {
			number := n
			if q.Type == inspect.BatchQueue {
				number = e.Base
			}
			if number < d.from {
				return true, nil
			}
			if number >= d.to {
				return false, nil
			}
			file, off := q.Place(n)
			it := &dumpItem{
				Kind: "ENTRY", File: file, Offset: off, Topic: &q.Topic, QueueID: &q.ID, QueueOffset: ptr(number),
				PhysOffset: ptr(e.Phys), Bytes: ptr(int64(e.Size)), TagCode: ptr(e.Tags), Count: ptr(int64(e.Count)),
			}
			if q.Type == inspect.BatchQueue {
				it.StoredAt = stampMillis(e.StoreMillis)
			}
			if e.Void() {
				it.Problem = ptr("stands for no message")
			}
			return true, d.add(it)
		}); err != nil {
			return err
		}
	}
	return nil
}

func oldDump(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*dumpItem)
		if it.Kind != "RECORD" {
			p.printf("damaged at %d, %d bytes\n", it.Offset, deref(it.Bytes))
			continue
		}
		key := ""
		if len(it.Keys) > 0 {
			key = strings.Join(it.Keys, " ")
		}
		p.printf("MessageExt [queueId=%d, storeSize=%d, queueOffset=%d, sysFlag=%d, bornHost=%s, storeHost=%s, msgId=%s, commitLogOffset=%d, topic=%s, keys=%s, bodyLength=%d]\n",
			*it.QueueID, *it.Bytes, *it.QueueOffset, *it.SysFlag, *it.BornHost, *it.StoreHost, *it.MsgID, *it.PhysOffset, *it.Topic, key, *it.BodyBytes)
	}
}
