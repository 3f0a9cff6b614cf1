package inspect

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"

	"mqctl/store"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// queueMemory bounds the windows of all queues together, in bytes.
const queueMemory = 64 << 20

// queueCheck is what a verification knows of one queue.
type queueCheck struct {
	q       *Queue
	topic   string
	id      int32
	first   int64 // number of the first entry, voids included
	end     int64 // number behind the last
	minPhys int64 // position of the first entry that is no void, -1: none
	maxPhys int64
	voids   int64 // entries without message
	below   int64 // entries of messages before the log
	light   bool

	claimed int64 // entries that a record was found to own
	batches int64 // of a batch queue: the entry that is expected next

	behind, front, middle, void, tag, ext, number, earlier tally
	deletedRecords                                         int64
}

// tally counts one kind of fault and keeps the first.
type tally struct {
	n     int64
	entry int64 // its number in the queue
	phys  int64 // of the record
	text  string
}

func (t *tally) add(entry, phys int64, text string) {
	if t.n++; t.n == 1 {
		t.entry, t.phys, t.text = entry, phys, text
	}
}

// loadQueues reads every queue once.
func (v *verifier) loadQueues() error {
	s := v.s
	window := queueMemory / int64(max(len(s.queues), 1)) / batchUnitBytes
	for _, q := range s.queues {
		q.want = int(min(max(window, 8), defaultWindow))
		c := &queueCheck{q: q, topic: q.Topic, id: q.ID, minPhys: -1, maxPhys: -1, light: lightTopic(q.Topic)}
		if err := v.loadQueue(c); err != nil {
			return err
		}
		v.keep(c)
	}
	return nil
}

func lightTopic(topic string) bool { return len(topic) > 5 && topic[:5] == "%LMQ%" }

func (v *verifier) keep(c *queueCheck) {
	ids := v.topics[c.topic]
	if ids == nil {
		ids = map[int32]*queueCheck{}
		v.topics[c.topic] = ids
	}
	ids[c.id] = c
	v.checks = append(v.checks, c)
}

// loadQueue finds the bounds of a queue and checks its files.
func (v *verifier) loadQueue(c *queueCheck) error {
	q := c.q
	v.queueNames(q)
	c.first = q.First()
	c.end = c.first
	err := q.Each(c.first, func(n int64, e Entry) (bool, error) {
		c.end = n + 1
		switch {
		case e.Void():
			c.voids++
			return true, nil
		case e.Phys < v.s.LogMin():
			c.below++
		}
		if c.minPhys < 0 {
			c.minPhys = e.Phys
		}
		c.maxPhys = max(c.maxPhys, e.Phys)
		return true, nil
	})
	if err != nil {
		return err
	}
	v.rep.QueueEntries += c.end - c.first
	return v.queueTail(c)
}

// queueNames checks names and sizes of a queue's files.
func (v *verifier) queueNames(q *Queue) {
	for i, qf := range q.files {
		last := i == len(q.files)-1
		f := store.Finding{File: v.s.relative(filepath.Join(q.dir, segfile.Name(qf.Base))), Phys: -1}
		switch {
		case qf.Size == 0 && last:
			f.Kind, f.What = EmptyFile, "has no content: its making was interrupted"
			v.find(Found{Finding: f, Severity: Note})
		case qf.Size < q.fileBytes:
			f.Kind, f.Offset, f.Bytes = store.ShortFile, qf.Size, q.fileBytes-qf.Size
			f.What = fmt.Sprintf("has %d bytes instead of %d", qf.Size, q.fileBytes)
			v.find(Found{Finding: f, Severity: Repair})
		case qf.Size > q.fileBytes || qf.Base%q.fileBytes != 0:
			f.Kind, f.Try = store.StrangeFile, tryRebuild
			f.What = fmt.Sprintf("has %d bytes and begins at %d, but queue files have %d bytes", qf.Size, qf.Base, q.fileBytes)
			v.find(Found{Finding: f, Severity: Damage})
		}
		if i > 0 && qf.Base > q.files[i-1].Base+q.fileBytes {
			gap := q.files[i-1].Base + q.fileBytes
			f := store.Finding{
				Kind: store.MissingFile, File: v.s.relative(filepath.Join(q.dir, segfile.Name(gap))), Phys: -1, Bytes: qf.Base - gap,
				What: "is missing between its neighbours", Try: tryStart,
			}
			v.find(Found{Finding: f, Severity: Repair})
		}
	}
}

// queueTail looks behind the last entry.
func (v *verifier) queueTail(c *queueCheck) error {
	q, unit := c.q, c.q.Type.unitBytes()
	end := c.end * unit
	for _, qf := range q.files {
		if qf.Base+q.fileBytes <= end || qf.Size == 0 {
			continue
		}
		name := filepath.Join(q.dir, segfile.Name(qf.Base))
		from := max(end-qf.Base, 0)
		last, err := v.s.lastByte(name, from)
		if err != nil {
			return err
		}
		f := store.Finding{File: v.s.relative(name), Offset: from, Phys: -1}
		switch {
		case last >= 0:
			f.Kind, f.Bytes = QueueTail, last+1-from
			f.What = fmt.Sprintf("behind the last entry %d are %d bytes that are no entries", c.end-1, f.Bytes)
			v.find(Found{Finding: f, Severity: Repair})
		case from == 0 && len(q.files) > 0:
			f.Kind, f.Bytes = ZeroFile, qf.Size
			f.What = fmt.Sprintf("holds no entry; the queue ends at %d", c.end)
			v.find(Found{Finding: f, Severity: Repair})
		}
	}
	return nil
}

// inQueue checks that a record has its entry.
func (v *verifier) inQueue(rec record.View) error {
	switch rec.SysFlag() & record.FlagTransaction {
	case record.FlagPrepared, record.FlagRollback:
		return nil
	}
	ids := v.topics[string(rec.Topic())]
	c := ids[rec.QueueID()]
	if c == nil {
		c = &queueCheck{topic: string(rec.Topic()), id: rec.QueueID(), minPhys: -1, maxPhys: -1}
		v.keep(c)
	}
	if pos, ok := v.deleted[c.topic]; ok && int64(rec.PhysOffset()) < pos {
		c.deletedRecords++
		return nil
	}
	if c.q != nil && c.q.Type == BatchQueue {
		return v.inBatchQueue(c, rec)
	}
	if err := v.owns(c, int64(rec.QueueOffset()), rec, v.tagOf(rec, c)); err != nil {
		return err
	}
	return v.inLight(rec)
}

// delayTopic holds messages that wait for their delivery.
const delayTopic = "SCHEDULE_TOPIC_XXXX"

// tagOf is the tag code that the entry of a record should have; false where that depends
// on settings.
func (v *verifier) tagOf(_ record.View, c *queueCheck) (want tagCode) {
	if c.topic == delayTopic && len(v.props.delay) > 0 {
		return tagCode{}
	}
	return tagCode{code: record.TagsCode(v.props.tags), known: true}
}

type tagCode struct {
	code  int64
	known bool
}

// owns looks for the entry of the record that says it has number n.
func (v *verifier) owns(c *queueCheck, n int64, rec record.View, tag tagCode) error {
	phys, size := int64(rec.PhysOffset()), int32(rec.Size())
	if c.q == nil || c.first == c.end {
		c.behind.add(n, phys, "")
		return nil
	}
	if n >= c.first && n < c.end {
		e, err := c.q.At(n)
		if err != nil {
			return err
		}
		if e.Phys == phys && e.Size == size {
			c.claimed++
			return v.tagFits(c, n, e, tag, phys)
		}
		if e.Void() {
			c.void.add(n, phys, "")
			return nil
		}
		if e.Phys > phys {
			if same, err := v.leadsTo(e, c, n); err != nil || same {
				c.earlier.add(n, phys, "")
				return err
			}
		}
		return v.elsewhere(c, n, phys, size)
	}
	switch {
	case phys > c.maxPhys:
		c.behind.add(n, phys, "")
	case phys < c.minPhys && c.first == 0:
		c.earlier.add(n, phys, "")
	case n < c.first && phys < c.minPhys:
		c.front.add(n, phys, "")
	default:
		return v.elsewhere(c, n, phys, size)
	}
	return nil
}

// elsewhere looks for a record under another number than its own.
func (v *verifier) elsewhere(c *queueCheck, n, phys int64, size int32) error {
	at, e, err := c.find(phys)
	if err != nil {
		return err
	}
	if e.Phys == phys && e.Size == size {
		c.claimed++
		c.number.add(at, phys, fmt.Sprintf("the record states number %d, its queue has it as %d", n, at))
		return nil
	}
	if n >= c.first && n < c.end {
		// If what has its number is no entry of this queue at all, that is what is wrong,
		// and reported when the queue is read again.
		e, err := c.q.At(n)
		if err != nil {
			return err
		}
		if r, ok, err := v.s.recordAt(e.Phys, e.Size); err != nil || !ok && !v.inHole(e.Phys) ||
			ok && (string(r.Topic()) != c.topic || r.QueueID() != c.id) {
			return err
		}
	}
	c.middle.add(n, phys, "")
	return nil
}

// find searches the entry of the record at phys: entries are in the order of the log.
func (c *queueCheck) find(phys int64) (int64, Entry, error) {
	var failed error
	count := int(c.end - c.first)
	i := sort.Search(count, func(i int) bool {
		e, err := c.q.At(c.first + int64(i))
		if err != nil {
			failed = err
		}
		return failed != nil || e.Phys >= phys
	})
	if failed != nil || i == count {
		return 0, Entry{Phys: -1}, failed
	}
	e, err := c.q.At(c.first + int64(i))
	return c.first + int64(i), e, err
}

// tagFits compares the tag code of an entry.
func (v *verifier) tagFits(c *queueCheck, n int64, e Entry, tag tagCode, phys int64) error {
	if e.Tags <= extLimit {
		return v.extFits(c, n, e, tag, phys)
	}
	if tag.known && e.Tags != tag.code {
		c.tag.add(n, phys, fmt.Sprintf("the entry has tag code %d, the record's tag %q has %d", e.Tags, v.props.tags, tag.code))
	}
	return nil
}

// leadsTo reports whether the record of an entry says itself that it is number n of
// the queue.
func (v *verifier) leadsTo(e Entry, c *queueCheck, n int64) (bool, error) {
	r, ok, err := v.s.recordAt(e.Phys, e.Size)
	if err != nil || !ok {
		return false, err
	}
	return string(r.Topic()) == c.topic && r.QueueID() == c.id && int64(r.QueueOffset()) == n, nil
}

// recordAt reads the record of an entry; false if there is none of this size.
func (s *Store) recordAt(phys int64, size int32) (record.View, bool, error) {
	if size < record.MinSize || int64(size) > s.segBytes || phys < s.LogMin() {
		return record.View{}, false, nil
	}
	b := make([]byte, size)
	if ok, err := s.log.Read(b, phys); !ok || err != nil {
		return record.View{}, false, err
	}
	r, err := record.Parse(b)
	return r, err == nil && r.Size() == int(size) && int64(r.PhysOffset()) == phys, nil
}

// inBatchQueue checks the next entry of a batch queue, which has no numbers of
// its own. Entries are in the order of the log.
func (v *verifier) inBatchQueue(c *queueCheck, rec record.View) error {
	phys := int64(rec.PhysOffset())
	for c.batches < c.end-c.first {
		e, err := c.q.At(c.first + c.batches)
		if err != nil {
			return err
		}
		switch {
		case e.Phys == phys && e.Size == int32(rec.Size()):
			c.batches++
			c.claimed++
			if e.Base != int64(rec.QueueOffset()) {
				c.number.add(c.first+c.batches-1, phys, fmt.Sprintf("the record states number %d, the entry %d", rec.QueueOffset(), e.Base))
			}
			return nil
		case e.Phys >= phys:
			c.middle.add(c.first+c.batches, phys, "")
			return nil
		}
		c.batches++ // nobody's: reported when the queue is read again
	}
	c.behind.add(c.end, phys, "")
	return nil
}

// inLight checks the entries that a record has in light queues, where those exist.
func (v *verifier) inLight(rec record.View) error {
	if len(v.props.light) == 0 {
		return nil
	}
	names, numbers := bytes.Split(v.props.light, []byte{','}), bytes.Split(v.props.lightOffsets, []byte{','})
	if len(names) != len(numbers) {
		return nil
	}
	for i, name := range names {
		c := v.topics[string(name)][0]
		n, err := strconv.ParseInt(string(numbers[i]), 10, 64)
		if c == nil || err != nil {
			continue
		}
		if err := v.owns(c, n, rec, v.tagOf(rec, c)); err != nil {
			return err
		}
	}
	return nil
}
