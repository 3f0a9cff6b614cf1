package store

import (
	"bytes"
	"errors"
	"sync/atomic"

	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
)

// Batch collects encoded messages of one connection's burst until AppendAll.
// It is reused; not safe for concurrent use.
type Batch struct {
	Items []Item
	// Sender tells connections apart, 0: nobody in particular. Small batches of several
	// senders are written together; Reset forgets it.
	Sender uint64

	buf      []byte  // the records of all items that may be stored, back to back
	hashes   []int32 // of their keys
	group    int32   // the newest client batch
	groupOf  int     // its first item
	badGroup int32   // a client batch of which an item was refused
	badWhy   Status
	end      record.PhysOffset
	joined   atomic.Bool // appended together with others; set under appendMu
	found    Properties  // of the message being added

	store *Store       // whose memory this is; nil while the batch is empty
	mem   *batchMemory // goes back to the store's pool with Reset
}

// batchMemory is what a batch needs while it is filled. Idle connections have
// none: it is pooled, and large bursts find large buffers.
type batchMemory struct {
	items  []Item
	buf    []byte
	hashes []int32
}

// Item is one message of a Batch, and after AppendAll its result.
type Item struct {
	Queue       *Queue
	Size        int32 // of the record; 0 if it is not stored
	Group       int32 // items with equal Group > 0 are one client batch: same file, all or none
	TagsCode    int64
	Status      Status
	Phys        record.PhysOffset
	QueueOffset record.QueueOffset
	StoreMillis int64

	at          int32 // position in Batch.buf
	hashAt      int32 // in Batch.hashes
	hashes      uint16
	count       uint16 // messages it stands for: more than 1 in inner batches only
	baseAt      int32  // where in the record INNER_BASE goes, 0: nowhere
	kind        kind
	delayMillis int64 // of a delayed message
}

// kind says what a record's transaction bits mean for dispatch: prepared and
// rolled back messages have no place in a queue, the latter none in the index.
type kind uint8

const (
	queued kind = iota
	indexOnly
	logOnly
)

func kindOf(sysFlag int32) kind {
	switch sysFlag & record.FlagTransaction {
	case record.FlagPrepared:
		return indexOnly
	case record.FlagRollback:
		return logOnly
	}
	return queued
}

// maxPooled is the largest buffer that is kept for the next burst.
const maxPooled = 64 << 20

// Reset empties the batch and gives its memory back.
func (b *Batch) Reset() {
	if b.mem != nil && cap(b.buf) <= maxPooled {
		clear(b.Items) // handles of deleted queues shall not stay alive
		b.mem.items, b.mem.buf, b.mem.hashes = b.Items[:0], b.buf[:0], b.hashes[:0]
		b.store.bursts.Put(b.mem)
	}
	*b = Batch{}
}

// take gets memory for the first item.
func (b *Batch) take(s *Store) {
	b.store = s
	b.mem = s.bursts.Get().(*batchMemory)
	b.Items, b.buf, b.hashes = b.mem.items, b.mem.buf, b.mem.hashes
}

// Len is the number of messages, also of those that were refused.
func (b *Batch) Len() int { return len(b.Items) }

// Bytes is the length of what is encoded so far.
func (b *Batch) Bytes() int { return len(b.buf) }

// End is the position behind the batch's last byte.
func (b *Batch) End() record.PhysOffset { return b.end }

// Add encodes one message (size limits checked) and computes its tag code and
// key hashes (UNIQ_KEY, KEYS) from d.Properties. A message that is illegal gets
// an Item with its Status set already and is skipped by AppendAll. group: 0 for
// a single message, else the number of the client batch in this burst; one bad
// message refuses its whole batch. The Item is valid until the next Add.
func (b *Batch) Add(s *Store, q *Queue, d *record.Draft, group int32) *Item {
	return b.add(s, q, d, nil, group)
}

// AddKnown is Add for a caller that has walked d.Properties already: p is what
// a walk would find in them.
func (b *Batch) AddKnown(s *Store, q *Queue, d *record.Draft, p *Properties, group int32) *Item {
	return b.add(s, q, d, p, group)
}

// Undo takes the newest n items back as if they had not been added.
func (b *Batch) Undo(n int) {
	if n == 0 {
		return
	}
	first := len(b.Items) - n
	b.buf = b.buf[:b.Items[first].at]
	b.hashes = b.hashes[:b.Items[first].hashAt]
	clear(b.Items[first:])
	b.Items = b.Items[:first]
}

func (b *Batch) add(s *Store, q *Queue, d *record.Draft, p *Properties, group int32) *Item {
	if b.mem == nil {
		b.take(s)
	}
	b.Items = append(b.Items, Item{
		Queue: q, Group: group, at: int32(len(b.buf)), hashAt: int32(len(b.hashes)), count: 1, kind: kindOf(d.SysFlag),
	})
	it := &b.Items[len(b.Items)-1]
	if group > 0 && group != b.group {
		b.group, b.groupOf = group, len(b.Items)-1
	}
	if group > 0 && group == b.badGroup {
		it.Status = b.badWhy
		return it
	}
	if st := b.encode(s, it, d); st != PutOK {
		b.refuse(it, st)
		return it
	}
	if group > 0 && b.groupBytes()+record.BlankSize > s.log.SegmentBytes() {
		b.refuse(it, MessageIllegal)
		return it
	}
	if p == nil {
		p = &b.found
		*p = Properties{}
		p.parse(d.Properties)
	}
	b.useProperties(s, it, d, p)
	return it
}

func (b *Batch) encode(s *Store, it *Item, d *record.Draft) Status {
	maxMessage := s.maxMessage.Load()
	limit := min(maxMessage+64<<10, s.log.SegmentBytes()-record.BlankSize)
	size := int64(d.Size())
	switch {
	case len(d.Properties) > record.MaxPropertyBytes:
		return PropertiesExceeded
	case len(d.Topic) == 0 || len(d.Topic) > 255 || int64(len(d.Body)) > maxMessage:
		return MessageIllegal
	case size > limit:
		return MessageIllegal
	case int64(len(b.buf))+size > 1<<31-1:
		return MessageIllegal
	}
	buf, err := record.AppendDraft(b.buf, d)
	if err != nil {
		if errors.Is(err, record.ErrPropertiesLength) {
			return PropertiesExceeded
		}
		return MessageIllegal
	}
	b.buf = buf
	it.Size = int32(size)
	return PutOK
}

// refuse gives the newest item, and all of its client batch, a bad status and
// takes their bytes back.
func (b *Batch) refuse(it *Item, st Status) {
	first := len(b.Items) - 1
	if it.Group > 0 {
		first = b.groupOf
		b.badGroup, b.badWhy = it.Group, st
	}
	at, hashAt := b.Items[first].at, b.Items[first].hashAt
	for i := first; i < len(b.Items); i++ {
		r := &b.Items[i]
		r.Status, r.Size, r.at, r.hashAt, r.hashes = st, 0, at, hashAt, 0
	}
	b.buf = b.buf[:at]
	b.hashes = b.hashes[:hashAt]
}

func (b *Batch) groupBytes() int64 { return int64(len(b.buf)) - int64(b.Items[b.groupOf].at) }

// useProperties sets the tag code, the key hashes and the delay.
func (b *Batch) useProperties(s *Store, it *Item, d *record.Draft, p *Properties) {
	it.TagsCode = record.TagsCode(p.Tags)
	if it.Queue.delay {
		it.delayMillis = s.delayMillis(p.Delay)
	}
	if s.index == nil || it.kind == logOnly {
		return
	}
	b.hashes = p.appendHashes(b.hashes, d.Topic)
	it.hashes = uint16(len(b.hashes) - int(it.hashAt))
}

// Properties are the values of the properties that the store reads, nil = absent.
// Of duplicates the last counts, as in Java's map, but the first UNIQ_KEY: Apache
// appends the one of a client batch behind the message's own.
type Properties struct {
	Tags, UniqueKey, Keys, Delay []byte

	batchKey []byte // a second UNIQ_KEY: Apache's index has the message by it
}

func (p *Properties) parse(props []byte) {
	for len(props) > 0 {
		entry := props
		if i := bytes.IndexByte(props, record.PropertyEnd); i >= 0 {
			entry, props = props[:i:i], props[i+1:]
		} else {
			props = nil
		}
		if len(entry) == 0 {
			continue
		}
		switch entry[0] { // most entries are none of ours
		case record.PropertyTags[0]:
			valueOf(entry, record.PropertyTags, &p.Tags)
		case record.PropertyUniqueKey[0]:
			if p.UniqueKey == nil {
				valueOf(entry, record.PropertyUniqueKey, &p.UniqueKey)
			} else {
				valueOf(entry, record.PropertyUniqueKey, &p.batchKey)
			}
		case record.PropertyKeys[0]:
			valueOf(entry, record.PropertyKeys, &p.Keys)
		case record.PropertyDelay[0]:
			valueOf(entry, record.PropertyDelay, &p.Delay)
		}
	}
}

// valueOf sets value if entry has this name and is not empty.
func valueOf(entry []byte, name string, value *[]byte) {
	if n := len(name); len(entry) > n+1 && entry[n] == record.PropertySep && string(entry[:n]) == name {
		*value = entry[n+1:]
	}
}

// appendHashes appends the index hash of UNIQ_KEY and of each of KEYS.
func (p *Properties) appendHashes(dst []int32, topic []byte) []int32 {
	if p.UniqueKey != nil {
		dst = append(dst, keyindex.KeyHash(topic, p.UniqueKey))
	}
	if p.batchKey != nil {
		dst = append(dst, keyindex.KeyHash(topic, p.batchKey))
	}
	keys := p.Keys
	for len(keys) > 0 {
		var key []byte
		key, keys = cutKey(keys)
		if len(key) > 0 {
			dst = append(dst, keyindex.KeyHash(topic, key))
		}
	}
	return dst
}

// cutKey cuts the first of blank-separated keys off.
func cutKey(keys []byte) (key, rest []byte) {
	for i, c := range keys {
		if c == ' ' {
			return keys[:i], keys[i+1:]
		}
	}
	return keys, nil
}

// delayMillis is the delay of a level as text; 0 means none. An unknown level
// counts as one second, one above the last as the last.
func (s *Store) delayMillis(level []byte) int64 {
	n := 0
	for _, c := range level {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	if n == 0 {
		return 0
	}
	levels := s.opt.DelayLevels
	if len(levels) == 0 {
		return 1000
	}
	return levels[min(n, len(levels))-1].Milliseconds()
}
