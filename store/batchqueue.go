package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// Batch queues (Java: BatchConsumeQueue) are those of topics with
// queue.type=BatchCQ. A client batch is one record there, an inner batch, and one
// unit stands for all its messages, which are counted by queue offsets all the
// same. So units have a number of their own, by which consumequeue keeps them, and
// this file translates.

// maxInner is the most messages of an inner batch: a unit has 16 bits for it.
const maxInner = 1<<15 - 1

// innerBaseDigits is how many digits an inner batch keeps for its first queue
// offset, which is not known before the append. Java reads leading zeros.
const innerBaseDigits = 19

// AppendInner appends the properties that make the record of a client batch of n
// messages an inner batch, for AddInner. It must come last.
func AppendInner(props []byte, n int) []byte {
	props = append(props, record.PropertyInnerNum...)
	props = strconv.AppendInt(append(props, record.PropertySep), int64(n), 10)
	props = append(append(props, record.PropertyEnd), record.PropertyInnerBase...)
	props = append(props, record.PropertySep)
	for range innerBaseDigits {
		props = append(props, '0')
	}
	return append(props, record.PropertyEnd)
}

// AddInner is AddKnown for a client batch of n messages that is stored as one
// record: d has record.FlagInnerBatch and properties that AppendInner completed.
func (b *Batch) AddInner(s *Store, q *Queue, d *record.Draft, p *Properties, n int) *Item {
	it := b.add(s, q, d, p, 0)
	if it.Status != PutOK {
		return it
	}
	if n < 1 || n > maxInner || !q.batch {
		b.refuse(it, MessageIllegal)
		return it
	}
	it.count = uint16(n)
	it.baseAt = it.Size - innerBaseDigits - 1
	return it
}

// Count is how many messages the item stands for: more than 1 for inner batches only.
func (it *Item) Count() int { return int(it.count) }

// putInnerBase writes the first queue offset into the properties of an inner batch.
func putInnerBase(rec []byte, at int32, offset int64) {
	for i := innerBaseDigits - 1; i >= 0; i-- {
		rec[int(at)+i] = byte('0' + offset%10)
		offset /= 10
	}
}

// innerCount is how many messages a record counts for in a batch queue.
func innerCount(v record.View) uint16 {
	if v.SysFlag()&record.FlagInnerBatch == 0 {
		return 1
	}
	count := 1
	for props := v.Properties(); ; {
		name, value, rest, ok := record.NextProperty(props)
		if !ok {
			return uint16(count)
		}
		props = rest
		if string(name) != record.PropertyInnerNum {
			continue
		}
		if n, err := strconv.Atoi(string(value)); err == nil && n >= 1 && n <= maxInner {
			count = n
		}
	}
}

// Batch says that the queue's topic has queue.type=BatchCQ.
func (q *Queue) Batch() bool { return q.batch }

// isBatch says which kind of queue a topic has, which never changes while it has
// one. The caller holds queueTable.mu.
func (s *Store) isBatch(topic string) bool {
	if s.batchTopics[topic] {
		return true
	}
	if s.opt.BatchTopic == nil || !s.opt.BatchTopic(topic) {
		return false
	}
	s.batchTopics[topic] = true
	return true
}

// markBatch notes a topic of which the log has an inner batch.
func (s *Store) markBatch(topic string) {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	if s.queues.topics[topic] == nil {
		s.batchTopics[topic] = true
	}
}

// offsetOf is the queue offset that unit number n begins with; for the end of the
// units the one behind the last.
func (q *Queue) offsetOf(n int64) (int64, error) {
	if !q.batch {
		return n, nil
	}
	first, end := q.cq.Bounds()
	if first == end {
		return q.max.Load(), nil // an empty one remembers nothing but that
	}
	u, ok, err := q.cq.BatchAt(min(n, end-1))
	if err != nil || !ok {
		return 0, errors.Join(err, fmt.Errorf("unit %d of %s cannot be read", n, q.cq.Dir()))
	}
	if n >= end {
		return u.Next(), nil
	}
	return u.Base, nil
}

// unitOf is the number of the unit that holds the message with a queue offset.
func (q *Queue) unitOf(offset int64) (int64, error) {
	if !q.batch {
		return offset, nil
	}
	return q.cq.FindBatch(offset)
}

// placeBatch gives a record its unit in a batch queue.
func (s *Store) placeBatch(e *entry) error {
	q := e.q
	_, units := q.cq.Bounds()
	end := q.max.Load()
	switch {
	case units == 0 && end == 0:
		q.min.Store(e.offset)
	case e.offset == 0 && end > 0:
		// The topic was deleted and made again: its old messages are gone.
		q.remade = true
		if err := s.restart(q); err != nil {
			return err
		}
	case e.offset < end:
		s.opt.Log.Warn("a message states a queue offset that its queue has already", "topic", q.topic, "queue", q.id,
			"offset", e.offset, "end", end)
		e.offset = end
	}
	if err := q.cq.AppendBatch(e.batchUnit()); err != nil {
		return err
	}
	s.setEnd(q, e.offset+int64(e.count))
	return nil
}

func (e *entry) batchUnit() *consumequeue.BatchUnit {
	return &consumequeue.BatchUnit{
		Unit:   consumequeue.Unit{Phys: e.phys, Size: e.size, Tags: e.tags},
		Millis: e.millis, Base: e.offset, Count: int16(e.count),
	}
}

// walkBatch is walk over the units of a batch queue.
func (r *readBuffer) walkBatch(q *Queue, f Filter) {
	from := int64(r.res.Next)
	limit := int64(max(r.s.opt.MaxFilterBytes, r.max*consumequeue.BatchUnitBytes)) / consumequeue.BatchUnitBytes
	n, err := q.cq.FindBatch(from)
	for first := n; err == nil; n++ {
		u, ok, uerr := q.cq.BatchAt(n)
		if uerr != nil || !ok {
			if err = uerr; n == first && consumequeue.Missing(err) {
				r.res.Status, r.res.Next = OffsetFoundNull, record.QueueOffset(r.behindHole(q, n))
				return
			}
			break
		}
		if u.Base >= int64(r.res.Max) || u.Base-from >= limit || !r.unit(u.Unit, u.Base, int(u.Count), f) {
			break
		}
		r.res.Next = record.QueueOffset(u.Next())
	}
	if err != nil && !consumequeue.Missing(err) && !errors.Is(err, io.EOF) {
		r.res.Err = fmt.Errorf("read queue %d of topic %s: %w", q.id, q.topic, err)
	}
	r.copyRun()
}

// behindHole is where reading goes on if the file of unit n is missing.
func (r *readBuffer) behindHole(q *Queue, n int64) int64 {
	if u, ok, err := q.cq.BatchAt(q.cq.NextFile(n)); err == nil && ok {
		return u.Base
	}
	return int64(r.res.Max)
}

// batchUnits is Units of a batch queue: every message has the unit of its batch.
func (s *Store) batchUnits(dst []Unit, q *Queue, from, end int64) []Unit {
	n, err := q.cq.FindBatch(from)
	for at := from; err == nil && at < end; n++ {
		u, ok, uerr := q.cq.BatchAt(n)
		if uerr != nil || !ok {
			break
		}
		for ; at < min(end, u.Next()); at++ {
			dst = append(dst, Unit{record.PhysOffset(u.Phys), u.Size, u.Tags})
		}
	}
	return dst
}

// inspectBatchQueues lists the files of all batch queues, and learns the size of
// extension files.
func (s *Store) inspectBatchQueues(inv *inventory, rec *Recovery) error {
	inv.batchFile = s.opt.BatchQueueBytes
	err := s.eachQueueDir(s.batchDir(), func(topic string, id int32, dir string) error {
		files, foreign, err := segfile.List(s.opt.FS, dir)
		if err != nil {
			return err
		}
		if err := s.noteForeign(rec, foreign); err != nil {
			return err
		}
		if err := s.passLong(inv, dir, files, inv.batchFile, consumequeue.BatchUnitBytes); err != nil {
			return err
		}
		size, err := segfile.CheckShort(dir, files, inv.batchFile, 0)
		if err == nil && size%consumequeue.BatchUnitBytes != 0 {
			err = &segfile.FileError{Path: dir, What: fmt.Sprintf("files of %d bytes, not a multiple of %d", size, consumequeue.BatchUnitBytes)}
		}
		if err != nil {
			return s.sizeError(err, "mapperFileSizeBatchConsumeQueue")
		}
		if len(files) > 0 {
			inv.batchFile = size
		}
		inv.removed = inv.removed || segfile.Short(files, size)
		s.batchTopics[topic] = true
		inv.queues = append(inv.queues, queueFiles{topic: topic, id: id, files: files, batch: true})
		return nil
	})
	if err != nil {
		return err
	}
	setDefault(&inv.batchFile, DefaultBatchQueueBytes)
	inv.extFile = s.opt.QueueExtBytes
	err = s.eachQueueDir(s.extDir(), func(_ string, _ int32, dir string) error {
		files, _, err := segfile.List(s.opt.FS, dir)
		if err != nil {
			return err
		}
		// A power loss may leave short ones: a file gets its length and its name without a
		// sync. The queue gives it the length again.
		whole := max(inv.extFile, 1)
		for _, f := range files {
			whole = max(whole, f.Size)
		}
		files = slices.DeleteFunc(files, func(f segfile.Found) bool { return f.Size < whole })
		size, err := segfile.CheckSizes(dir, files, inv.extFile, 0)
		if err != nil {
			return s.sizeError(err, "mappedFileSizeConsumeQueueExt")
		}
		if len(files) > 0 {
			inv.extFile, inv.hasExt = size, true
		}
		return nil
	})
	setDefault(&inv.extFile, DefaultQueueExtBytes)
	return err
}

// eachQueueDir calls f for each <dir>/<topic>/<queue>.
func (s *Store) eachQueueDir(dir string, f func(topic string, id int32, dir string) error) error {
	topics, err := s.subdirs(dir, TopicName)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ids, err := s.subdirs(filepath.Join(dir, topic), QueueName)
		if err != nil {
			return err
		}
		for _, name := range ids {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil {
				continue // Java would not start; nothing of ours is in it
			}
			if err := f(topic, int32(id), filepath.Join(dir, topic, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) batchDir() string { return filepath.Join(s.opt.Dir, "batchconsumequeue") }
func (s *Store) extDir() string   { return filepath.Join(s.opt.Dir, "consumequeue_ext") }
