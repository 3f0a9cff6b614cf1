package subgroup

import (
	"slices"
	"sort"
)

// changeLog lists the cells of a shard in the order of their newest change, by
// epochs. An epoch ends when somebody asks for the version or for changes, and a
// cell is listed once in each epoch in which it changes, so a commit of a queue
// that changed since the last question costs one comparison. Entries whose cell
// changed again are dropped when they are the half: the list never holds more
// than twice the cells of the shard, and nobody can be too far behind for it.
//
// Invariants: epochs do not fall from entry to entry; a cell's newest entry has
// the cell's epoch.
type changeLog struct {
	entries []change
	limit   int // length at which old entries are dropped
}

// change is one entry: 16 bytes.
type change struct {
	row   *row
	queue int32
	epoch uint32
}

// cell is what the entry is about, nil if it is old.
func (e change) cell() *cell {
	if c := e.row.find(e.queue); c != nil && c.epoch == e.epoch {
		return c
	}
	return nil
}

const leastLimit = 64

func (l *changeLog) add(r *row, queue int32, epoch uint32) {
	if len(l.entries) >= max(l.limit, leastLimit) {
		kept := l.entries[:0]
		for _, e := range l.entries {
			if e.cell() != nil {
				kept = append(kept, e)
			}
		}
		clear(l.entries[len(kept):]) // let go of rows
		l.entries = kept
		l.limit = 2 * len(kept)
	}
	l.entries = append(l.entries, change{r, queue, epoch})
}

// after is the entries of later epochs.
func (l *changeLog) after(epoch uint32) []change {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].epoch > epoch })
	return l.entries[i:]
}

// Version is the newest change; a replica asks for what came after the one it
// has (Since). Versions only grow, and those of one process mean nothing to
// another one: a replica that asks with such a version gets everything.
func (o *Offsets) Version() uint64 {
	now := o.epoch.Load()
	if o.changedIn(now) {
		// Whoever still marks changes with the old epoch holds the lock of its shard;
		// once all were free after the step, nobody does.
		if o.epoch.CompareAndSwap(now, now+1) {
			now++
		} else {
			now = o.epoch.Load()
		}
		for i := range o.shards {
			o.shards[i].mu.Lock()
			o.shards[i].mu.Unlock() //nolint:staticcheck // an empty critical section is the point
		}
	}
	return uint64(o.life)<<32 | uint64(now-1)
}

// changedIn reports whether a shard lists a change in this epoch.
func (o *Offsets) changedIn(epoch uint32) bool {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		found := len(s.changed.after(epoch-1)) > 0
		s.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// Since appends the records that changed after version, all for 0 or a version
// of another process, and returns the version they lead to. It costs by what
// changed, not by what there is.
func (o *Offsets) Since(dst []ProgressRecord, version uint64) ([]ProgressRecord, uint64) {
	return o.SinceBut(dst, version, nil)
}

// SinceBut is Since without the records of which known is true; nil: none are. known is
// called for one record at a time and must not wait or call o.
func (o *Offsets) SinceBut(dst []ProgressRecord, version uint64, known func(r *ProgressRecord) bool) ([]ProgressRecord, uint64) {
	to := o.Version()
	from := uint32(version)
	if uint32(version>>32) != o.life || version > to {
		from = 0
	}
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for _, e := range s.changed.after(from) {
			c := e.cell()
			if c == nil {
				continue
			}
			r := ProgressRecord{Topic: e.row.key.topic, Group: e.row.key.group, Queue: e.queue, Progress: c.progress()}
			if known == nil || !known(&r) {
				dst = append(dst, r)
			}
		}
		s.mu.Unlock()
	}
	return dst, to
}

// Merge takes records of another replica in by the total order (P6) and returns
// how many changed something here. Records without a name or of a deletion that
// is too old are left out.
func (o *Offsets) Merge(records []ProgressRecord) int {
	won := 0
	oldest := o.now() - markerMillis
	for i := range records {
		in := &records[i]
		if in.Topic == "" || in.Deleted && in.Updated < oldest || in.Group == floorGroup && (!in.Deleted || in.Queue != 0) {
			continue
		}
		if in.Group == floorGroup {
			if o.raiseFloor(in.Topic, in.normal()) {
				won++
			}
			continue
		}
		if o.mergeOne(in) {
			won++
		}
	}
	return won
}

func (o *Offsets) mergeOne(in *ProgressRecord) bool {
	s := o.shardOf(rowKey{in.Topic, in.Group})
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{in.Topic, in.Group}]
	if r == nil {
		r = s.row([]byte(in.Topic), []byte(in.Group))
	}
	at := r.find(in.Queue)
	news := raised(in.normal(), o.floor(in.Topic))
	if at == nil {
		if at = r.add(in.Queue); at != nil {
			if g := o.floorGen(in.Topic); news.Unknown && g > 0 { // a broker without generations speaks of the topic that is there
				news.Unknown, news.Gen = false, g
			}
			o.set(s, r, at, news)
		}
		return at != nil
	}
	cur := at.progress()
	next := cur.merge(news)
	if next.same(cur) {
		at.updated = next.Updated // says nothing new
		return false
	}
	if next.Offset != cur.Offset {
		at.client = 0
	}
	o.set(s, r, at, next)
	return true
}

// Clamp lowers progress beyond a queue's end after the log lost its tail (P10):
// the offsets behind the end will be given out again, and progress beyond them
// would skip what is stored there. queueMax says where a queue ends, false if it
// does not know. The answer is what was changed, as it is now.
func (o *Offsets) Clamp(queueMax func(topic string, queue int32) (int64, bool)) []ProgressRecord {
	var changed []ProgressRecord
	now, term := o.now(), o.term.Load()
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for _, r := range s.rows {
			for j := range r.cells {
				c := &r.cells[j]
				if !c.live() {
					continue
				}
				end, ok := queueMax(r.key.topic, c.queue)
				if !ok || end < 0 || c.offset <= end {
					continue
				}
				p := c.progress()
				p.Offset, p.Source, p.Term, p.Updated = end, FromCorrection, term, now
				p.Gen = o.nextGen(r.key.topic, p.Gen)
				p.Unknown = false
				o.set(s, r, c, p)
				changed = append(changed, ProgressRecord{Topic: r.key.topic, Group: r.key.group, Queue: c.queue, Progress: p})
			}
		}
		s.mu.Unlock()
	}
	return changed
}

// DeleteTopic forgets every group's progress on a topic, and leaves markers so
// that replicas that do not know of it yet do not bring it back (P8).
func (o *Offsets) DeleteTopic(topic string) {
	o.remove(func(k rowKey) bool { return k.topic == topic })
	o.raiseFloor(topic, Progress{Gen: o.topGen(topic) + 1, Source: FromReset, Deleted: true, Term: o.term.Load(), Updated: o.now()})
}

// DeleteGroup forgets a group's progress on every topic, and leaves markers.
func (o *Offsets) DeleteGroup(group string) {
	o.remove(func(k rowKey) bool { return k.group == group })
}

func (o *Offsets) remove(match func(rowKey) bool) {
	now, term := o.now(), o.term.Load()
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for k, r := range s.rows {
			if !match(k) {
				continue
			}
			r.pulled = nil
			for j := range r.cells {
				if c := &r.cells[j]; c.live() {
					p := c.progress()
					c.client = 0
					o.set(s, r, c, Progress{Gen: o.nextGen(k.topic, p.Gen), Source: FromReset, Deleted: true, Term: term, Updated: now})
				}
			}
			if len(r.cells) == 0 {
				delete(s.rows, k)
			}
		}
		s.mu.Unlock()
	}
}

// Sweep ends the wait of resets whose group had no member for 10 minutes (P5)
// and forgets markers of deletions after 7 days. anyMember says whether a group
// has members; it is called under a lock of the offsets and must not wait.
func (o *Offsets) Sweep(anyMember func(group string) bool) {
	now := o.now()
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for k, r := range s.rows {
			o.sweepRow(s, r, now, anyMember)
			if len(r.cells) == 0 && len(r.pulled) == 0 {
				delete(s.rows, k)
			}
		}
		s.mu.Unlock()
	}
}

func (o *Offsets) sweepRow(s *offsetShard, r *row, now int64, anyMember func(group string) bool) {
	old := false
	for j := range r.cells {
		c := &r.cells[j]
		if c.flags&flagPending != 0 {
			o.sweepReset(s, r, c, anyMember(r.key.group))
		}
		old = old || c.outlived(now)
	}
	if !old {
		return
	}
	r.cells = slices.DeleteFunc(r.cells, func(c cell) bool {
		if !c.outlived(now) {
			return false
		}
		if r.key.group == floorGroup {
			o.setFloor(r.key.topic, Progress{})
		}
		o.changes.Add(1)
		return true
	})
}

// outlived reports whether the cell is a marker that has been there long enough.
func (c *cell) outlived(now int64) bool {
	return c.flags&flagDeleted != 0 && now-c.updated > markerMillis
}

func (o *Offsets) sweepReset(s *offsetShard, r *row, c *cell, members bool) {
	k, now := cellKey{r, c.queue}, o.steady()
	w := s.resets[k]
	switch {
	case members:
		w.absent = 0
	case w.absent == 0:
		w.absent = max(now, 1)
	case now-w.absent > resetMillis:
		p := c.progress()
		p.Pending = false
		o.set(s, r, c, p)
		return
	}
	if s.resets == nil {
		s.resets = map[cellKey]reset{}
	}
	s.resets[k] = w
}
