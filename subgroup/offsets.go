package subgroup

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"mqctl/store/table"
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
	key    rowKey
	cells  []cell          // by queue id; markers of deletions among them
	pulled map[int32]int64 // next offset to pull, for statistics; never on disk
}

// cell is one queue's progress: 48 bytes.
type cell struct {
	queue   int32
	gen     uint32
	epoch   uint32 // of its newest change; see changeLog
	client  uint32 // who made the newest commit, 0 unknown; memory only
	offset  int64
	term    uint64
	updated int64 // ms
	source  Source
	flags   cellFlags
	moved   bool // its generation was raised since the start; memory only
}

// cellFlags are the marks of a progress value, as they are on disk.
type cellFlags uint8

const (
	flagDeleted cellFlags = 1 << iota
	flagPending
	flagUnknown
	flagsKnown = flagDeleted | flagPending | flagUnknown
)

func (c *cell) progress() Progress {
	return Progress{
		Offset: c.offset, Gen: c.gen, Term: c.term, Source: c.source, Updated: c.updated,
		Unknown: c.flags&flagUnknown != 0, Deleted: c.flags&flagDeleted != 0, Pending: c.flags&flagPending != 0,
	}
}

func flagsOf(p *Progress) (f cellFlags) {
	if p.Deleted {
		f |= flagDeleted
	}
	if p.Pending {
		f |= flagPending
	}
	if p.Unknown {
		f |= flagUnknown
	}
	return f
}

// live reports whether the cell holds progress and not the marker of a deletion.
func (c *cell) live() bool { return c.flags&flagDeleted == 0 }

// find is the cell of a queue, nil if there is none.
func (r *row) find(queue int32) *cell {
	if i, ok := r.index(queue); ok {
		return &r.cells[i]
	}
	return nil
}

// index is where a queue's cell is or belongs. Queues are numbered from 0, so
// it is nearly always at its own number.
func (r *row) index(queue int32) (int, bool) {
	if i := int(queue); i >= 0 && i < len(r.cells) && r.cells[i].queue == queue {
		return i, true
	}
	return slices.BinarySearchFunc(r.cells, queue, func(c cell, q int32) int { return cmp.Compare(c.queue, q) })
}

// add makes the cell of a queue that has none; nil if the row has too many.
func (r *row) add(queue int32) *cell {
	if len(r.cells) >= maxQueueIDs {
		return nil
	}
	i, _ := r.index(queue)
	if r.cells == nil {
		r.cells = make([]cell, 0, 4)
	}
	r.cells = slices.Insert(r.cells, i, cell{queue: queue})
	return &r.cells[i]
}

// any reports whether the row holds progress.
func (r *row) any() bool {
	return slices.ContainsFunc(r.cells, func(c cell) bool { return c.live() })
}

// offsetShard holds the rows whose names hash to it.
type offsetShard struct {
	mu      sync.Mutex // guards what follows; never held while waiting
	rows    map[rowKey]*row
	changed changeLog
	resets  map[cellKey]reset // of cells with flagPending that were reset here
	backs   map[cellKey]back  // commits below the progress that may be repeated
}

// cellKey names a cell within the memory of its shard.
type cellKey struct {
	row   *row
	queue int32
}

// Offsets is consume progress: topic@group -> queue -> progress
// (ConsumerOffsetManager, which keeps the bare number). A commit changes memory
// only; Persist brings it to disk, so a crash may repeat what was consumed
// since, and loses nothing.
//
// Nothing lowers an offset but what says so: rules P1 to P5 for commits
// (CommitChecked), Reset, Clamp, and Merge when another replica has a newer
// generation.
type Offsets struct {
	now    func() int64 // dates what is written, ms
	steady func() int64 // ms of a clock that nobody sets
	seed   maphash.Seed
	shards [offsetShards]offsetShard

	life  uint32        // upper half of all versions: a random number of this process
	epoch atomic.Uint32 // lower half; changes are marked with it
	term  atomic.Uint64 // of what is written now

	commits atomic.Int64 // since the start
	changes atomic.Int64 // commits and removals that changed a value
	waiting atomic.Int64 // cells with flagPending

	floorsMu sync.Mutex                          // held to replace floors, within a shard's mu
	floors   atomic.Pointer[map[string]Progress] // of deleted topics; see floors.go
	moved    atomic.Int64
	ignored  atomic.Int64
	held     atomic.Int64

	mu         sync.Mutex // guards what follows; held while the file is written
	file       *table.File
	rest       []extra           // members of the file that are not ours, kept
	version    table.DataVersion // as of versionAt commits
	versionAt  int64
	savedAfter int64 // changes that the file holds; <= changes
}

func newOffsets(now, steady func() int64) *Offsets {
	o := &Offsets{now: now, steady: steady, seed: maphash.MakeSeed(), life: rand.Uint32N(1<<31-1) + 1}
	o.epoch.Store(1)
	for i := range o.shards {
		o.shards[i].rows = map[rowKey]*row{}
	}
	return o
}

// SetTerm says in which epoch of the broker's role progress is written from now
// on; it decides between values that are equal otherwise.
func (o *Offsets) SetTerm(epoch uint64) { o.term.Store(epoch) }

func (o *Offsets) shard(topic, group []byte) *offsetShard {
	// The two names may hash alike when swapped; that costs nothing but balance.
	return &o.shards[(maphash.Bytes(o.seed, topic)^maphash.Bytes(o.seed, group)*31)%offsetShards]
}

func (o *Offsets) shardOf(k rowKey) *offsetShard { return o.shard([]byte(k.topic), []byte(k.group)) }

// row finds or makes a row. The caller holds s.mu. It allocates only to make one.
func (s *offsetShard) row(topic, group []byte) *row {
	if r := s.rows[rowKey{string(topic), string(group)}]; r != nil {
		return r
	}
	r := &row{key: rowKey{string(topic), string(group)}}
	s.rows[r.key] = r
	return r
}

// NotePull remembers the pull position, in memory only.
func (o *Offsets) NotePull(group, topic []byte, queueID int32, next int64) {
	s := o.shard(topic, group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.row(topic, group)
	old, had := r.pulled[queueID]
	if had && old == next || !had && len(r.pulled) >= maxQueueIDs {
		return
	}
	if r.pulled == nil {
		r.pulled = make(map[int32]int64, 4)
	}
	r.pulled[queueID] = next
}

// Query returns the committed offset, and whether there is one. It is what was
// stored, also on a replica whose log does not reach so far (P9): a lower answer
// would come back as a commit. It does not allocate.
func (o *Offsets) Query(group, topic []byte, queueID int32) (int64, bool) {
	s := o.shard(topic, group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{string(topic), string(group)}]
	if r == nil {
		return 0, false
	}
	c := r.find(queueID)
	if c == nil || !c.live() {
		return 0, false
	}
	return c.offset, true
}

// Progress returns one queue's progress with its generation, also a deletion's
// marker, and whether there is any.
func (o *Offsets) Progress(group, topic string, queueID int32) (Progress, bool) {
	s := o.shardOf(rowKey{topic, group})
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows[rowKey{topic, group}]; r != nil {
		if c := r.find(queueID); c != nil {
			return c.progress(), true
		}
	}
	return Progress{}, false
}

// PullOffset returns what NotePull remembered, and whether it did.
func (o *Offsets) PullOffset(group, topic string, queueID int32) (int64, bool) {
	s := o.shardOf(rowKey{topic, group})
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
	s := o.shardOf(rowKey{topic, group})
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{topic, group}]
	if r == nil || !r.any() {
		return nil
	}
	queues := make(map[int32]int64, len(r.cells))
	for i := range r.cells {
		if c := &r.cells[i]; c.live() {
			queues[c.queue] = c.offset
		}
	}
	return queues
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
	o.each(func(r *row) {
		if name, ok := pick(r.key); ok && r.any() {
			found[name] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// each calls f for every row, also one without progress, under its shard's lock.
func (o *Offsets) each(f func(r *row)) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for _, r := range s.rows {
			f(r)
		}
		s.mu.Unlock()
	}
}

// Len is the number of rows with committed offsets.
func (o *Offsets) Len() int {
	n := 0
	o.each(func(r *row) {
		if r.any() {
			n++
		}
	})
	return n
}

// OffsetCounts says what became of commits since the start.
type OffsetCounts struct {
	Commits int64 // all of them
	Moved   int64 // went back, with a new generation
	Ignored int64 // late ones of a queue's former owner, or negative ones
	Held    int64 // while a server-side reset waited
	Waiting int64 // resets that wait for a pull now
}

// Counts returns what became of commits.
func (o *Offsets) Counts() OffsetCounts {
	return OffsetCounts{
		Commits: o.commits.Load(), Moved: o.moved.Load(), Ignored: o.ignored.Load(),
		Held: o.held.Load(), Waiting: o.waiting.Load(),
	}
}
