package subgroup

const (
	// soberMillis is how long a broker must have served before the absence of
	// members means anything: a live consumer commits up to a heartbeat (30 s)
	// before it is known again.
	soberMillis = 40_000
	// repeatMillis is how much later a member must repeat a lower commit to be
	// believed: the time between two commits of a Java consumer.
	repeatMillis = 5_000
	// resetMillis is how long a reset waits for a pull of a group without members.
	resetMillis = 10 * 60_000
	// outstanding is how far behind a reset's target the first commit may be that
	// shows that the consumer went there: what a client may have fetched and not
	// consumed of one queue (pullThresholdForQueue).
	outstanding = 1_000
	// maxBacks bounds the lower commits that one shard remembers.
	maxBacks = 4_096
)

// Commit is one commit with what decides about a lower value.
type Commit struct {
	Group, Topic []byte
	Queue        int32
	Offset       int64
	Client       uint64 // the client's connection or a hash of its id; 0: unknown
	Member       bool   // it is a member of the group
	AnyMember    bool   // the group has any member
	Reset        bool   // the request says reset=true
	Master       bool   // this broker is the master
	QueueMax     int64  // end of the queue; negative: unknown
	ServingFor   int64  // ms since this broker began to serve
	NowMillis    int64  // dates it
}

// Outcome is what became of a commit.
type Outcome uint8

// Outcomes of a commit; all are answered with success, and all but Stored counted.
const (
	Stored  Outcome = iota
	Moved           // went back with a new generation
	Ignored         // a late commit of a former owner, or a negative one
	Held            // a server-side reset waits for the consumer
)

// back is a member's commit below the progress, remembered until it is repeated.
type back struct {
	client uint32
	millis int64 // of the first one, by the steady clock
}

// reset is what this broker knows of a waiting reset beside its target.
type reset struct {
	prev   int64 // progress before it
	known  bool  // prev is meaningful
	absent int64 // since when the group is seen without members, steady ms; 0: it has some
}

// Raise stores a commit that needs no judgement: one that is not below the
// progress, for a queue without a waiting reset (P1). It uses Client, the key,
// the offset and NowMillis only. False: nothing happened, and CommitChecked
// decides, for which the rest of c must be filled in. It does not allocate once
// the group has progress for the topic and queue.
func (o *Offsets) Raise(c *Commit) bool {
	s := o.shard(c.Topic, c.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.raise(s, s.row(c.Topic, c.Group), c)
}

// raise is Raise under s.mu.
func (o *Offsets) raise(s *offsetShard, r *row, c *Commit) bool {
	at := r.find(c.Queue)
	if at == nil {
		o.commits.Add(1)
		if at = r.add(c.Queue); at != nil {
			at.client = fold(c.Client)
			o.set(s, r, at, Progress{Offset: c.Offset, Gen: o.floorGen(r.key.topic), Source: FromCommit, Term: o.term.Load(), Updated: c.NowMillis})
		}
		return true
	}
	if c.Offset < at.offset || at.flags&(flagDeleted|flagPending) != 0 {
		return false
	}
	o.commits.Add(1)
	at.client = fold(c.Client)
	if len(s.backs) > 0 {
		delete(s.backs, cellKey{r, c.Queue})
	}
	if at.offset == c.Offset && at.source == FromCommit {
		return true
	}
	at.offset, at.source, at.term, at.updated = c.Offset, FromCommit, o.term.Load(), c.NowMillis
	o.note(s, r, at)
	return true
}

// fold makes a client's number small. That two share one only lets one of them
// seek back in a queue of the other.
func fold(client uint64) uint32 { return uint32(client) ^ uint32(client>>32) }

// CommitChecked stores a commit by rules P1 to P5: one that is not below the
// progress always; a lower one only if it is meant so or corrects a value that
// cannot be, and then with a new generation, so that it wins on every replica.
func (o *Offsets) CommitChecked(c *Commit) Outcome {
	s := o.shard(c.Topic, c.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.row(c.Topic, c.Group)
	if o.raise(s, r, c) {
		return Stored
	}
	o.commits.Add(1)
	at := r.find(c.Queue)
	next := at.progress()
	next.Offset, next.Source, next.Term, next.Updated = c.Offset, FromCommit, o.term.Load(), c.NowMillis
	if !at.live() { // what comes after a deletion begins anew, in its generation
		next.Deleted = false
		at.client = fold(c.Client)
		o.set(s, r, at, next)
		return Stored
	}
	if next.Pending {
		if !s.arrived(r, at, c) {
			o.held.Add(1)
			return Held
		}
		next.Pending = false
		at.client = fold(c.Client)
		if c.Offset >= at.offset {
			o.set(s, r, at, next)
			return Stored
		}
	}
	src, ok := o.lower(s, r, at, c)
	if !ok {
		o.ignored.Add(1)
		return Ignored
	}
	next.Gen = o.nextGen(r.key.topic, next.Gen)
	next.Unknown = false
	next.Source = src
	at.client = fold(c.Client)
	o.set(s, r, at, next)
	o.moved.Add(1)
	return Moved
}

// arrived reports whether a commit ends the wait of a reset (P5): it is at the
// target; or within what is outstanding behind it, if it cannot be one from
// before the reset. That nobody was there to see the reset for long, Sweep notices.
func (s *offsetShard) arrived(r *row, at *cell, c *Commit) bool {
	if c.Offset == at.offset {
		return true
	}
	w := s.resets[cellKey{r, c.Queue}]
	return w.known && c.Offset > at.offset && c.Offset <= at.offset+outstanding && (c.Offset < w.prev || w.prev <= at.offset)
}

// lower judges a commit below the progress (P2 to P4) and says what it is.
func (o *Offsets) lower(s *offsetShard, r *row, at *cell, c *Commit) (Source, bool) {
	switch {
	case c.Offset < 0: // a client's -1 for a queue that it has not consumed from
		return 0, false
	case c.Master && c.QueueMax >= 0 && at.offset > c.QueueMax:
		return FromCorrection, true
	case c.Reset:
		return FromReset, true
	case !c.Member:
		return FromReset, !c.AnyMember && c.ServingFor > soberMillis
	case c.Client != 0 && at.client == fold(c.Client):
		return FromReset, true
	}
	k := cellKey{r, c.Queue}
	if b, ok := s.backs[k]; ok && b.client == fold(c.Client) {
		return FromReset, o.steady()-b.millis >= repeatMillis
	}
	if s.backs == nil {
		s.backs = map[cellKey]back{}
	}
	if len(s.backs) >= maxBacks {
		clear(s.backs) // they must repeat it once more
	}
	s.backs[k] = back{client: fold(c.Client), millis: o.steady()}
	return 0, false
}

// Reset makes target the progress with a new generation (P5). pending holds
// commits back until a pull has taken the reset (TakeReset) or a commit shows
// that the consumer is there.
func (o *Offsets) Reset(group, topic string, queue int32, target int64, pending bool) {
	s := o.shardOf(rowKey{topic, group})
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.row([]byte(topic), []byte(group))
	at := r.find(queue)
	known := at != nil && at.live()
	if at == nil {
		if at = r.add(queue); at == nil {
			return
		}
	}
	prev, next := at.offset, at.progress()
	if next.Pending { // a second reset; commits may still be from before the first
		w := s.resets[cellKey{r, queue}]
		prev, known = w.prev, w.known
	}
	next.Offset, next.Source, next.Term, next.Updated = target, FromReset, o.term.Load(), o.now()
	next.Gen = o.nextGen(topic, next.Gen)
	next.Unknown, next.Deleted, next.Pending = false, false, pending
	at.client = 0
	o.set(s, r, at, next)
	if pending {
		if s.resets == nil {
			s.resets = map[cellKey]reset{}
		}
		s.resets[cellKey{r, queue}] = reset{prev: prev, known: known}
	}
}

// TakeReset returns the target of a waiting reset and ends its wait; called by
// pulls, which answer OFFSET_RESET. It does not allocate, and while no reset
// waits it takes no lock.
func (o *Offsets) TakeReset(group, topic []byte, queue int32) (int64, bool) {
	if o.waiting.Load() == 0 {
		return 0, false
	}
	s := o.shard(topic, group)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{string(topic), string(group)}]
	if r == nil {
		return 0, false
	}
	at := r.find(queue)
	if at == nil || at.flags&flagPending == 0 {
		return 0, false
	}
	p := at.progress()
	p.Pending = false
	o.set(s, r, at, p)
	return at.offset, true
}

// set writes a cell and notes the change. The caller holds s.mu.
func (o *Offsets) set(s *offsetShard, r *row, at *cell, p Progress) {
	p = p.normal()
	had, has := at.flags&flagPending != 0, p.Pending
	if had != has {
		if has {
			o.waiting.Add(1)
		} else {
			o.waiting.Add(-1)
			delete(s.resets, cellKey{r, at.queue})
		}
	}
	if len(s.backs) > 0 {
		delete(s.backs, cellKey{r, at.queue})
	}
	at.moved = at.moved || p.Gen > at.gen
	at.offset, at.gen, at.term, at.source, at.updated, at.flags = p.Offset, p.Gen, p.Term, p.Source, p.Updated, flagsOf(&p)
	o.note(s, r, at)
}

// note marks a cell as changed. The caller holds s.mu.
func (o *Offsets) note(s *offsetShard, r *row, at *cell) {
	if epoch := o.epoch.Load(); at.epoch != epoch {
		at.epoch = epoch
		s.changed.add(r, at.queue, epoch)
	}
	o.changes.Add(1)
}
