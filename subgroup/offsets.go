package subgroup

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup/live"
)

const (
	offsetShards = 64
	// maxQueueIDs bounds the queue ids of one row. RocketMQ checks no queue id
	// of a commit; without a bound one client could fill the memory.
	maxQueueIDs = 65536
	// versionStep is consumerOffsetUpdateVersionStep: commits for each step of
	// the data version.
	versionStep = 500
)

// rowKey names the progress of one group on one topic.
type rowKey struct{ topic, group string }

// row is that progress.
type row struct {
	committed map[int32]int64 // next offset to consume by queue id
	pulled    map[int32]int64 // next offset to pull, for statistics; never on disk
}

// offsetShard holds the rows whose names hash to it.
type offsetShard struct {
	mu   sync.Mutex // guards rows and what they hold; never held while waiting
	rows map[rowKey]*row
}

// Offsets is consume progress: topic@group -> queue -> offset
// (ConsumerOffsetManager). A commit changes memory only; Persist brings it to
// disk, so a crash may repeat what was consumed since, and loses nothing.
type Offsets struct {
	seed   maphash.Seed
	shards [offsetShards]offsetShard

	commits atomic.Int64 // since the start
	changes atomic.Int64 // commits and removals that changed a value

	mu         sync.Mutex // guards what follows; held while the file is written
	file       *table.File
	version    table.DataVersion // as of versionAt commits
	versionAt  int64
	savedAfter int64 // changes that the file holds; <= changes
}

// offsetsDocument is consumerOffset.json. groupTopicMap, which the original
// writes too, is derived and not read.
type offsetsDocument struct {
	DataVersion table.DataVersion            `json:"dataVersion"`
	OffsetTable map[string]map[string]number `json:"offsetTable"`
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

// LoadOffsets reads consumerOffset.json of dir, or its .bak.
func LoadOffsets(fs vfs.FS, dir string) (*Offsets, error) {
	o := &Offsets{seed: maphash.MakeSeed(), file: table.NewFile(fs, dir, "consumerOffset.json")}
	for i := range o.shards {
		o.shards[i].rows = map[rowKey]*row{}
	}
	var doc offsetsDocument
	_, err := o.file.Load(func(b []byte) error {
		doc = offsetsDocument{}
		return fastjson.Unmarshal(b, &doc)
	})
	if err != nil {
		return nil, fmt.Errorf("read the consumer offsets: %w", err)
	}
	o.version = doc.DataVersion
	if o.version.Timestamp == 0 {
		o.version.Timestamp = time.Now().UnixMilli()
	}
	for name, queues := range doc.OffsetTable {
		// A topic has no @; what follows may have one (group@broadcast).
		topic, group, ok := strings.Cut(name, "@")
		if !ok || topic == "" || group == "" {
			continue
		}
		r := &row{committed: make(map[int32]int64, len(queues))}
		for id, offset := range queues {
			n, err := strconv.ParseInt(id, 10, 32)
			if err != nil || len(r.committed) >= maxQueueIDs {
				continue
			}
			r.committed[int32(n)] = int64(offset)
		}
		o.shard([]byte(topic), []byte(group)).rows[rowKey{topic, group}] = r
	}
	return o, nil
}

func (o *Offsets) shard(topic, group []byte) *offsetShard {
	// The two names may hash alike when swapped; that costs nothing but balance.
	return &o.shards[(maphash.Bytes(o.seed, topic)^maphash.Bytes(o.seed, group)*31)%offsetShards]
}

// Commit stores the next offset a group will consume, backwards too, and also
// -1, which the Go client commits for queues it has not consumed from. It does
// not allocate once the group has a row for the topic and queue.
func (o *Offsets) Commit(group, topic []byte, queueID int32, offset int64) {
	s := o.shard(topic, group)
	s.mu.Lock()
	r := s.rows[rowKey{string(topic), string(group)}]
	if r == nil {
		r = &row{}
		s.rows[rowKey{string(topic), string(group)}] = r
	}
	changed := put(&r.committed, queueID, offset)
	s.mu.Unlock()
	o.commits.Add(1)
	if changed {
		o.changes.Add(1)
	}
}

// NotePull remembers the pull position, in memory only.
func (o *Offsets) NotePull(group, topic []byte, queueID int32, next int64) {
	s := o.shard(topic, group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{string(topic), string(group)}]
	if r == nil {
		r = &row{}
		s.rows[rowKey{string(topic), string(group)}] = r
	}
	put(&r.pulled, queueID, next)
}

// put sets m[id], making m if it is nil; it reports whether anything changed.
func put(m *map[int32]int64, id int32, offset int64) bool {
	old, had := (*m)[id]
	if had && old == offset {
		return false
	}
	if !had && len(*m) >= maxQueueIDs {
		return false
	}
	if *m == nil {
		*m = make(map[int32]int64, 4)
	}
	(*m)[id] = offset
	return true
}

// Query returns the committed offset, and whether there is one. It does not
// allocate.
func (o *Offsets) Query(group, topic []byte, queueID int32) (int64, bool) {
	s := o.shard(topic, group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{string(topic), string(group)}]
	if r == nil {
		return 0, false
	}
	offset, ok := r.committed[queueID]
	return offset, ok
}

// PullOffset returns what NotePull remembered, and whether it did.
func (o *Offsets) PullOffset(group, topic string, queueID int32) (int64, bool) {
	s := o.shard([]byte(topic), []byte(group))
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{topic, group}]
	if r == nil {
		return 0, false
	}
	offset, ok := r.pulled[queueID]
	return offset, ok
}

// Queues is a copy of a group's committed offsets on a topic, by queue id; nil
// if there are none.
func (o *Offsets) Queues(group, topic string) map[int32]int64 {
	s := o.shard([]byte(topic), []byte(group))
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{topic, group}]
	if r == nil || len(r.committed) == 0 {
		return nil
	}
	return maps.Clone(r.committed)
}

// Topics lists, sorted, the topics on which a group has committed offsets.
func (o *Offsets) Topics(group string) []string {
	return o.names(func(k rowKey) (string, bool) { return k.topic, k.group == group })
}

// Groups lists, sorted, the groups that have committed offsets on a topic.
func (o *Offsets) Groups(topic string) []string {
	return o.names(func(k rowKey) (string, bool) { return k.group, k.topic == topic })
}

// AllGroups lists, sorted, the groups that have committed offsets.
func (o *Offsets) AllGroups() []string {
	return o.names(func(k rowKey) (string, bool) { return k.group, true })
}

func (o *Offsets) names(pick func(rowKey) (string, bool)) []string {
	found := map[string]bool{}
	o.each(func(k rowKey, _ map[int32]int64) {
		if name, ok := pick(k); ok {
			found[name] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// each calls f for every row with committed offsets, under the row's lock.
func (o *Offsets) each(f func(k rowKey, committed map[int32]int64)) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for k, r := range s.rows {
			if len(r.committed) > 0 {
				f(k, r.committed)
			}
		}
		s.mu.Unlock()
	}
}

// DeleteTopic forgets every group's progress on a topic.
func (o *Offsets) DeleteTopic(topic string) {
	o.remove(func(k rowKey) bool { return k.topic == topic })
}

// DeleteGroup forgets a group's progress on every topic.
func (o *Offsets) DeleteGroup(group string) {
	o.remove(func(k rowKey) bool { return k.group == group })
}

func (o *Offsets) remove(match func(rowKey) bool) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for k, r := range s.rows {
			if match(k) {
				delete(s.rows, k)
				if len(r.committed) > 0 {
					o.changes.Add(1)
				}
			}
		}
		s.mu.Unlock()
	}
}

// Len is the number of rows with committed offsets.
func (o *Offsets) Len() int {
	n := 0
	o.each(func(rowKey, map[int32]int64) { n++ })
	return n
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
	if err := o.file.Save(o.encode(true)); err != nil {
		return fmt.Errorf("save the consumer offsets: %w", err)
	}
	o.savedAfter = changes
	return nil
}

// JSON is the answer body of code 43: compact, with the integer keys bare.
func (o *Offsets) JSON() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.encode(false)
}

// encode writes the document as fastjson 1.2.83 does, indented for the file.
// The caller holds o.mu.
func (o *Offsets) encode(indent bool) []byte {
	o.stepVersion()
	rows := o.snapshot()
	line := func(depth int) string {
		if !indent {
			return ""
		}
		return "\n" + strings.Repeat("\t", depth)
	}
	b := make([]byte, 0, 256+64*len(rows))
	b = append(append(b, '{'), line(1)...)
	b = append(b, `"dataVersion":`...)
	b = live.AppendVersion(b, o.version, line(1))
	b = append(append(b, ','), line(1)...)
	b = append(b, `"offsetTable":{`...)
	for i, r := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, line(2)...)
		b = appendName(b, r.name)
		b = append(b, ":{"...)
		for j, q := range r.queues {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(q.id), 10)
			b = append(b, ':')
			b = strconv.AppendInt(b, q.offset, 10)
		}
		b = append(append(b, line(2)...), '}')
	}
	if len(rows) > 0 {
		b = append(b, line(1)...)
	}
	return append(append(append(b, '}'), line(0)...), '}')
}

// stepVersion brings the data version up to the commits made. The caller holds
// o.mu.
func (o *Offsets) stepVersion() {
	steps := (o.commits.Load() - o.versionAt) / versionStep
	if steps > 0 {
		o.version.Counter += steps
		o.version.Timestamp = time.Now().UnixMilli()
		o.versionAt += steps * versionStep
	}
}

// savedRow is a row on its way to JSON.
type savedRow struct {
	name   string // topic@group
	queues []savedQueue
}

type savedQueue struct {
	id     int32
	offset int64
}

// snapshot copies all rows, sorted, so that equal tables make equal files.
func (o *Offsets) snapshot() []savedRow {
	var rows []savedRow
	o.each(func(k rowKey, committed map[int32]int64) {
		r := savedRow{name: k.topic + "@" + k.group, queues: make([]savedQueue, 0, len(committed))}
		for id, offset := range committed {
			r.queues = append(r.queues, savedQueue{id, offset})
		}
		rows = append(rows, r)
	})
	for _, r := range rows {
		slices.SortFunc(r.queues, func(a, b savedQueue) int { return int(int64(a.id) - int64(b.id)) })
	}
	slices.SortFunc(rows, func(a, b savedRow) int { return strings.Compare(a.name, b.name) })
	return rows
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
