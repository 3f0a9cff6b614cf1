package subgroup

import "strings"

// Apache's brokers exchange bare numbers (code 43), so what a lower one means
// must be concluded from what was there before. PlainMaster does that for a slave
// of ours under an Apache master, PlainSlave for a master of ours with an Apache
// slave. Both are data only: the caller asks, sends and keeps time, one call at
// a time. Each keeps one small entry for each key.

// queueKey names one queue's progress.
type queueKey struct {
	rowKey
	queue int32
}

func keyOf(r *ProgressRecord) queueKey { return queueKey{rowKey{r.Topic, r.Group}, r.Queue} }

// maxAttempts is how often a commit of ours is repeated to an Apache master that
// goes on showing less: a server-side reset that waits there swallows commits on
// purpose.
const maxAttempts = 3

// maxPush bounds what one Take asks to send.
const maxPush = 2_000

// PlainMaster is what a slave of ours has agreed on with an Apache master (R2).
// A key whose progress here is not what was last agreed on is dirty: consumers
// committed it here, or it was reset here, while the master was away or clients had
// not heard of its return yet. Dirty progress is sent to the master instead of
// being overwritten by it.
type PlainMaster struct {
	o      *Offsets
	boot   int64 // bootTimestamp (request 28) at the last Take
	agreed map[queueKey]agreement
}

// agreement is the last number that both had, and what was sent since.
type agreement struct {
	offset   int64
	known    bool  // there is such a number
	due      bool  // ours is to be sent, or was
	attempts uint8 // how often sent went to the master and made no difference
	sent     int64
}

// NewPlainMaster begins with a master of which nothing is known.
func NewPlainMaster(o *Offsets) *PlainMaster {
	return &PlainMaster{o: o, agreed: map[queueKey]agreement{}}
}

// Take brings a master's whole table (DecodeOffsets of its answer to 43) and ours
// together. boot is the master's bootTimestamp of request 28: a lower number of the
// same process is an operator's reset, of a restarted one what its kill lost. push
// is what the caller sends to the master by ordinary commits (15), lower ones too,
// at most 2,000 at a time; it tells Sent of those that were answered, reads the table
// again and calls Take with it. changed counts what changed here.
//
// What ends a key's being sent: the master shows at least that much, or three
// attempts made no difference. Then its own number counts.
func (m *PlainMaster) Take(table []ProgressRecord, boot int64) (push []ProgressRecord, changed int) {
	same := m.boot == boot
	m.boot = boot
	there := make(map[queueKey]int64, len(table))
	for i := range table {
		there[keyOf(&table[i])] = table[i].Offset
	}
	ours, _ := m.o.Since(nil, 0)
	here := make(map[queueKey]bool, len(ours))
	for i := range ours {
		k := keyOf(&ours[i])
		here[k] = true
		offset, has := there[k]
		p, send := m.one(k, &ours[i].Progress, offset, has, same)
		if send && len(push) < maxPush {
			push = append(push, ours[i])
		}
		if p.same(ours[i].Progress) {
			continue
		}
		if m.o.replace(&ours[i], p) {
			changed++
		} else {
			delete(m.agreed, k) // somebody committed meanwhile; the next Take judges that
		}
	}
	for i := range table {
		k := keyOf(&table[i])
		if here[k] {
			continue
		}
		m.agreed[k] = agreement{offset: table[i].Offset, known: true}
		p := Progress{Offset: table[i].Offset, Unknown: true, Source: FromCommit, Updated: m.o.now()}
		changed += m.o.Merge([]ProgressRecord{{Topic: k.topic, Group: k.group, Queue: k.queue, Progress: p}})
	}
	for k := range m.agreed {
		if _, has := there[k]; !has && !here[k] {
			delete(m.agreed, k)
		}
	}
	return push, changed
}

// one decides about one key that is here: what it becomes, and whether ours is
// sent. same: the master is the process of the last Take.
func (m *PlainMaster) one(k queueKey, ours *Progress, offset int64, has, same bool) (_ Progress, send bool) {
	a := m.agreed[k]
	if a.attempts > 0 && has && (offset == a.sent || offset > a.sent && ours.Source == FromCommit) {
		a = agreement{offset: offset, known: true} // it arrived
	}
	if !same {
		a.attempts = 0
	}
	dirty := !a.known || ours.Offset != a.offset || a.due
	next := *ours
	next.Updated = m.o.now()
	switch {
	case !has && ours.Deleted:
		delete(m.agreed, k)
		return *ours, false
	case !has && !dirty && same: // deleted there
		delete(m.agreed, k)
		return Progress{Gen: m.o.nextGen(k.topic, ours.Gen), Deleted: true, Updated: next.Updated}, false
	case !has:
		return *ours, m.owe(k, a)
	case ours.Deleted: // made anew there
		next.Source, next.Deleted = FromCommit, false
	case offset == ours.Offset:
	case offset > ours.Offset:
		// A reset here that the master has not seen is meant to win; else we are behind.
		if dirty && a.known && ours.Source != FromCommit && m.owe(k, a) {
			return *ours, true
		}
		next.Source, next.Pending = FromCommit, false
	case (dirty || !same) && m.owe(k, a):
		return *ours, true
	default: // an operator moved it back there
		next.Source, next.Pending = FromReset, false
		next.Gen = m.o.nextGen(k.topic, next.Gen)
		next.Unknown = false
	}
	m.agreed[k] = agreement{offset: offset, known: true}
	if offset == ours.Offset && !ours.Deleted {
		return *ours, false
	}
	next.Offset = offset
	return next, false
}

// owe notes that ours is to be sent, false if that was tried enough.
func (m *PlainMaster) owe(k queueKey, a agreement) bool {
	if a.attempts >= maxAttempts {
		return false
	}
	a.due = true
	m.agreed[k] = a
	return true
}

// Sent notes that the master answered a record of push, be it with a refusal. What
// got lost on the way is no attempt.
func (m *PlainMaster) Sent(r *ProgressRecord) {
	a := m.agreed[keyOf(r)]
	a.attempts++
	a.sent = r.Offset
	m.agreed[keyOf(r)] = a
}

// replace makes p the progress of a key if it is still what rec says; the time of
// a commit does not count.
func (o *Offsets) replace(rec *ProgressRecord, p Progress) bool {
	s := o.shardOf(rowKey{rec.Topic, rec.Group})
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[rowKey{rec.Topic, rec.Group}]
	if r == nil {
		return false
	}
	at := r.find(rec.Queue)
	if at == nil || !at.progress().same(rec.Progress) {
		return false
	}
	at.client = 0
	p.Term = o.term.Load()
	o.set(s, r, at, p)
	return true
}

// PlainSlave is what a master of ours knows of an Apache slave's table (R3), which
// copies our numbers every 63 s and in between shows what consumers committed
// there. A higher number there is either that or one from before a reset of ours
// that the slave has not copied yet.
type PlainSlave struct {
	o        *Offsets
	shown    map[queueKey]shown
	restored bool // what an earlier process knew is known here
	news     bool // Delivered has something to say that it did not say before
}

// shown is what is known of one key with a generation.
type shown struct {
	offset    int64  // last seen there
	seen      bool   // offset is meaningful
	served    int64  // what the slave was last given
	servedGen uint32 // in which generation; 0: not yet
	delivered uint32 // generation that the slave has shown back
}

// NewPlainSlave begins with a slave of which nothing is known.
func NewPlainSlave(o *Offsets) *PlainSlave {
	return &PlainSlave{o: o, shown: map[queueKey]shown{}, news: true}
}

// Take brings the slave's whole table in: before this broker registers, and before
// it answers each 43 of the slave. A key here that was never moved by intent takes
// the larger number; one that was, keeps ours until the slave has shown ours back. Of
// moves before this process Restore says whether it has; without it they count as shown
// when a consumer committed after them.
// It returns how many keys changed here.
func (p *PlainSlave) Take(table []ProgressRecord) (changed int) {
	for i := range table {
		in := &table[i]
		k := keyOf(in)
		ours, moved, has := p.o.peek(k)
		if !has && p.o.floorGen(k.topic) > 0 {
			continue // it may still speak of the topic before, as with a marker
		}
		if !has {
			rec := ProgressRecord{Topic: k.topic, Group: k.group, Queue: k.queue,
				Progress: Progress{Offset: in.Offset, Source: FromCommit, Unknown: true, Updated: p.o.now()}}
			changed += p.o.Merge([]ProgressRecord{rec})
			continue
		}
		if !p.believed(k, &ours, moved, in.Offset) || in.Offset <= ours.Offset {
			continue
		}
		next := ours
		next.Offset, next.Source, next.Pending, next.Updated = in.Offset, FromCommit, false, p.o.now()
		if p.o.replace(&ProgressRecord{Topic: k.topic, Group: k.group, Queue: k.queue, Progress: ours}, next) {
			changed++
		}
	}
	return changed
}

// believed notes a number of the slave and says whether it knew of our generation.
func (p *PlainSlave) believed(k queueKey, ours *Progress, moved bool, offset int64) bool {
	if ours.Gen == 0 {
		return true
	}
	if ours.Pending { // whoever commits there has not seen the reset
		return false
	}
	s := p.shown[k]
	if s.delivered != ours.Gen && !ours.Deleted {
		copied := s.servedGen == ours.Gen && (offset == s.served || s.seen && offset < s.offset)
		if copied || offset == ours.Offset {
			s.delivered, p.news = ours.Gen, true
		}
	}
	s.offset, s.seen = offset, true
	p.shown[k] = s
	return !ours.Deleted && (s.delivered == ours.Gen || !p.restored && !moved && ours.Source == FromCommit)
}

// Delivered is what is to be kept over a restart of this broker: the keys whose newest
// move the slave has shown back, with its generation. Else a slave that has not copied a
// reset yet would undo it after the restart, once a consumer has committed behind it. ok
// is false if the answer would be that of the last call.
func (p *PlainSlave) Delivered() (gens map[string]map[int32]uint32, ok bool) {
	if !p.news {
		return nil, false
	}
	p.news = false
	gens = map[string]map[int32]uint32{}
	for k, s := range p.shown {
		if s.delivered == 0 {
			continue
		}
		name := k.topic + "@" + k.group
		if gens[name] == nil {
			gens[name] = map[int32]uint32{}
		}
		gens[name][k.queue] = s.delivered
	}
	return gens, true
}

// Restore takes in what Delivered said in an earlier process, before the first Take.
func (p *PlainSlave) Restore(gens map[string]map[int32]uint32) {
	p.restored = true
	for name, queues := range gens {
		topic, group, ok := strings.Cut(name, "@")
		for queue, gen := range queues {
			if ok && len(p.shown) < maxRestored {
				p.shown[queueKey{rowKey{topic, group}, queue}] = shown{delivered: gen}
			}
		}
	}
}

// maxRestored bounds what is taken from a file.
const maxRestored = 1 << 20

// peek is one key's progress and whether it was moved by intent since the start.
func (o *Offsets) peek(k queueKey) (_ Progress, moved, ok bool) {
	s := o.shardOf(k.rowKey)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows[k.rowKey]; r != nil {
		if c := r.find(k.queue); c != nil {
			return c.progress(), c.moved, true
		}
	}
	return Progress{}, false, false
}

// Answer is the body of the slave's 43, and remembers what it says, so that Take
// sees when the slave has copied it. Call Take with the slave's own table first.
func (p *PlainSlave) Answer() []byte {
	p.o.mu.Lock()
	rows := p.o.snapshot()
	b := p.o.encode(rows, false, false)
	p.o.mu.Unlock()
	for i := range rows {
		for j := range rows[i].cells {
			c := &rows[i].cells[j]
			if c.gen == 0 || !c.live() {
				continue
			}
			k := queueKey{rows[i].key, c.queue}
			s := p.shown[k]
			s.served, s.servedGen = c.offset, c.gen
			p.shown[k] = s
		}
	}
	for k := range p.shown {
		if _, _, has := p.o.peek(k); !has {
			delete(p.shown, k)
		}
	}
	return b
}
