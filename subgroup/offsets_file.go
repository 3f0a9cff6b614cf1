package subgroup

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup/live"
)

// The document is RocketMQ's, with one more member, which RocketMQ ignores when
// it reads and drops when it writes:
//
//	{"dataVersion":{...},
//	 "offsetTable":{"topic@group":{0:17,3:99}},
//	 "progressMeta":{"topic@group":{0:[gen,term,source],3:[gen,term,source,flags,updated]}}}
//
// source is Source as a number. flags are cellFlags, written with the time of
// the change where there are any. A number without an entry in progressMeta has
// an unknown generation; an entry with flagDeleted has no number.
const (
	memberVersion = "dataVersion"
	memberOffsets = "offsetTable"
	memberMeta    = "progressMeta"
	memberDerived = "groupTopicMap" // derived from offsetTable, not read
)

// extra is a member of the document that this broker does not know and keeps.
type extra struct {
	name string
	text []byte // legal JSON, compact
}

// offsetsDocument is what a document holds.
type offsetsDocument struct {
	version table.DataVersion
	records []ProgressRecord
	rest    []extra
}

// number is an integer with or without quotes.
type number int64

// UnmarshalJSON reads the number; null is 0.
func (n *number) UnmarshalJSON(b []byte) error {
	text := unquote(b)
	if text == "null" {
		return nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("offset %s is not a whole number", b)
	}
	*n = number(v)
	return nil
}

// metaEntry is a value of progressMeta.
type metaEntry struct {
	gen     uint32
	source  Source
	flags   cellFlags
	term    uint64
	updated int64
}

// UnmarshalJSON reads [gen,term,source] or [gen,term,source,flags,updated].
func (m *metaEntry) UnmarshalJSON(b []byte) error {
	var v []int64
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("progressMeta has %.60s, which is not a list of whole numbers", b)
	}
	if len(v) != 3 && len(v) != 5 {
		return fmt.Errorf("progressMeta has %.60s, which is not [generation,term,source] nor that with flags and a time", b)
	}
	if v[0] < 0 || v[0] > math.MaxUint32 || v[1] < 0 || v[2] < 0 || v[2] > int64(FromCommit) {
		return fmt.Errorf("progressMeta has %.60s, whose numbers are out of range", b)
	}
	*m = metaEntry{gen: uint32(v[0]), term: uint64(v[1]), source: Source(v[2])}
	if len(v) == 5 {
		if v[3] < 0 || v[3] > int64(flagsKnown) {
			return fmt.Errorf("progressMeta has %.60s, whose flags are unknown", b)
		}
		m.flags, m.updated = cellFlags(v[3]), v[4]
	}
	return nil
}

func (m metaEntry) progress(offset int64) Progress {
	return Progress{
		Offset: offset, Gen: m.gen, Term: m.term, Source: m.source, Updated: m.updated,
		Unknown: m.flags&flagUnknown != 0, Deleted: m.flags&flagDeleted != 0, Pending: m.flags&flagPending != 0,
	}
}

// LoadOffsets reads consumerOffset.json of dir, or its .bak. nowMillis dates what is
// written; steadyMillis goes on evenly whatever is done to the machine's clock, and says
// how long something has been so. Both are in ms.
func LoadOffsets(fs vfs.FS, dir string, nowMillis, steadyMillis func() int64) (*Offsets, error) {
	o := newOffsets(nowMillis, steadyMillis)
	o.file = table.NewFile(fs, dir, "consumerOffset.json")
	var doc offsetsDocument
	_, err := o.file.Load(func(b []byte) (err error) {
		doc, err = decodeOffsets(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the consumer offsets: %w", err)
	}
	o.version, o.rest = o.file.Version(doc.version), doc.rest
	if o.version.Timestamp == 0 {
		o.version.Timestamp = nowMillis()
	}
	for i := range doc.records {
		in := &doc.records[i]
		s := o.shardOf(rowKey{in.Topic, in.Group})
		r := s.row([]byte(in.Topic), []byte(in.Group))
		if at := r.add(in.Queue); at != nil {
			o.set(s, r, at, in.Progress)
			at.moved = false
			if in.Group == floorGroup {
				o.setFloor(in.Topic, in.Progress)
			}
		}
	}
	o.savedAfter = o.changes.Load()
	return o, nil
}

// Fallback says why consumerOffset.json.bak was read instead of consumerOffset.json at
// the start; nil if it was not.
func (o *Offsets) Fallback() error {
	if o.file == nil {
		return nil
	}
	return o.file.UsedBak()
}

// DecodeOffsets reads the body of code 43, Apache's or ours, or the text of the
// file. Numbers without a generation are Unknown.
func DecodeOffsets(b []byte) ([]ProgressRecord, error) {
	doc, err := decodeOffsets(b)
	return doc.records, err
}

func decodeOffsets(b []byte) (doc offsetsDocument, err error) {
	if b, err = fastjson.Clean(b); err != nil {
		return doc, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return doc, err
	}
	var offsets map[string]map[string]number
	var meta map[string]map[string]metaEntry
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text := members[name]
		switch name {
		case memberVersion:
			err = json.Unmarshal(text, &doc.version)
		case memberOffsets:
			err = json.Unmarshal(text, &offsets)
		case memberMeta:
			err = json.Unmarshal(text, &meta)
		case memberDerived:
		default:
			doc.rest = append(doc.rest, extra{name, text})
		}
		if err != nil {
			return doc, fmt.Errorf("%s: %w", name, err)
		}
	}
	doc.records = join(offsets, meta)
	return doc, nil
}

// join makes records of numbers and what is known of them, in no order but with
// the queues of a row ascending.
func join(offsets map[string]map[string]number, meta map[string]map[string]metaEntry) []ProgressRecord {
	var records []ProgressRecord
	for name := range union(offsets, meta) {
		// A topic has no @; what follows may have one (group@broadcast).
		topic, group, ok := strings.Cut(name, "@")
		if !ok || topic == "" {
			continue
		}
		from := len(records)
		known := meta[name]
		for id, offset := range offsets[name] {
			p := Progress{Offset: int64(offset), Unknown: true, Source: FromCommit}
			if m, ok := known[id]; ok && m.flags&flagDeleted == 0 {
				p = m.progress(int64(offset))
			}
			records = appendRecord(records, topic, group, id, p)
		}
		for id, m := range known {
			if _, has := offsets[name][id]; !has && m.flags&flagDeleted != 0 {
				m.flags &^= flagPending
				records = appendRecord(records, topic, group, id, m.progress(0))
			}
		}
		row := records[from:]
		if group == floorGroup { // one, the marker of queue 0
			row = slices.DeleteFunc(row, func(r ProgressRecord) bool { return !r.Deleted || r.Queue != 0 })
		}
		slices.SortFunc(row, func(a, b ProgressRecord) int { return int(int64(a.Queue) - int64(b.Queue)) })
		row = slices.CompactFunc(row, func(a, b ProgressRecord) bool { return a.Queue == b.Queue })
		records = records[:from+min(len(row), maxQueueIDs)]
	}
	return records
}

func union[V, W any](a map[string]V, b map[string]W) map[string]bool {
	names := make(map[string]bool, max(len(a), len(b)))
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

func appendRecord(records []ProgressRecord, topic, group, id string, p Progress) []ProgressRecord {
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil {
		return records
	}
	return append(records, ProgressRecord{Topic: topic, Group: group, Queue: int32(n), Progress: p})
}

// Persist saves the offsets if any changed since the last save. What commits
// meanwhile is saved the next time.
func (o *Offsets) Persist() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	changes := o.changes.Load() // before reading the rows: a change after this saves again
	if changes == o.savedAfter {
		return nil
	}
	if err := o.file.Save(o.encode(o.snapshot(), true, true)); err != nil {
		return fmt.Errorf("save the consumer offsets: %w", err)
	}
	o.savedAfter = changes
	return nil
}

// JSON is the answer body of code 43: compact, with the integer keys bare. With
// meta it says the generations too, which RocketMQ ignores.
func (o *Offsets) JSON(withMeta bool) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.encode(o.snapshot(), false, withMeta)
}

// savedRow is a row on its way to JSON.
type savedRow struct {
	key   rowKey
	name  string // topic@group
	cells []cell
}

// snapshot copies all rows, sorted, so that equal tables make equal files.
func (o *Offsets) snapshot() []savedRow {
	var rows []savedRow
	o.each(func(r *row) {
		if len(r.cells) > 0 {
			rows = append(rows, savedRow{key: r.key, name: r.key.topic + "@" + r.key.group, cells: slices.Clone(r.cells)})
		}
	})
	slices.SortFunc(rows, func(a, b savedRow) int { return strings.Compare(a.name, b.name) })
	return rows
}

// encode writes the document as fastjson 1.2.83 does, indented for the file.
// The caller holds o.mu.
func (o *Offsets) encode(rows []savedRow, file, meta bool) []byte {
	o.stepVersion()
	line := func(depth int) string {
		if !file {
			return ""
		}
		return "\n" + strings.Repeat("\t", depth)
	}
	b := make([]byte, 0, 256+96*len(rows))
	b = append(append(b, '{'), line(1)...)
	b = append(b, `"dataVersion":`...)
	b = live.AppendVersion(b, o.version, line(1))
	b = append(append(b, ','), line(1)...)
	b, _ = appendRows(b, memberOffsets, rows, line, appendOffset)
	if meta {
		comma := len(b)
		b = append(append(b, ','), line(1)...)
		var any bool
		if b, any = appendRows(b, memberMeta, rows, line, appendMeta); !any {
			b = b[:comma]
		}
	}
	if file {
		for _, m := range o.rest {
			b = append(append(b, ','), line(1)...)
			b = append(append(appendName(b, m.name), ':'), m.text...)
		}
	}
	return append(append(b, line(0)...), '}')
}

// appendRows writes a member with an object for each row in which each cell is
// written by one, which reports whether it wrote anything. any: some row was.
func appendRows(b []byte, name string, rows []savedRow, line func(int) string, one func([]byte, *cell) ([]byte, bool)) (_ []byte, any bool) {
	b = append(append(append(b, '"'), name...), `":{`...)
	for i := range rows {
		before := len(b)
		if any {
			b = append(b, ',')
		}
		b = append(b, line(2)...)
		b = appendName(b, rows[i].name)
		b = append(b, ":{"...)
		some := false
		for j := range rows[i].cells {
			at := len(b)
			if some {
				b = append(b, ',')
			}
			wrote := false
			if b, wrote = one(b, &rows[i].cells[j]); !wrote {
				b = b[:at]
			}
			some = some || wrote
		}
		if !some {
			b = b[:before]
			continue
		}
		any = true
		b = append(append(b, line(2)...), '}')
	}
	if any {
		b = append(b, line(1)...)
	}
	return append(b, '}'), any
}

// appendOffset writes queue:offset of progress.
func appendOffset(b []byte, c *cell) ([]byte, bool) {
	if !c.live() {
		return b, false
	}
	b = append(strconv.AppendInt(b, int64(c.queue), 10), ':')
	return strconv.AppendInt(b, c.offset, 10), true
}

// appendMeta writes queue:[gen,term,source], if that is more than nothing.
func appendMeta(b []byte, c *cell) ([]byte, bool) {
	if c.flags == flagUnknown && c.gen == 0 {
		return b, false
	}
	b = append(strconv.AppendInt(b, int64(c.queue), 10), ":["...)
	b = append(strconv.AppendUint(b, uint64(c.gen), 10), ',')
	b = append(strconv.AppendUint(b, c.term, 10), ',')
	b = strconv.AppendUint(b, uint64(c.source), 10)
	if c.flags != 0 {
		b = append(strconv.AppendUint(append(b, ','), uint64(c.flags), 10), ',')
		b = strconv.AppendInt(b, c.updated, 10)
	}
	return append(b, ']'), true
}

// stepVersion brings the data version up to the commits made. The caller holds
// o.mu.
func (o *Offsets) stepVersion() {
	steps := (o.commits.Load() - o.versionAt) / versionStep
	if steps > 0 {
		o.version.Counter += steps
		o.version.Timestamp = o.now()
		o.versionAt += steps * versionStep
	}
}

// appendName appends a JSON string.
func appendName(dst []byte, name string) []byte {
	for i := range len(name) {
		if !legal[name[i]] && name[i] != '@' {
			text, err := fastjson.Marshal(name)
			if err != nil {
				panic("subgroup: a string does not encode: " + err.Error())
			}
			return append(dst, text...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"')
}
