package inspect

import (
	"encoding/binary"
	"fmt"
	"slices"

	"mqctl/store"
	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
)

// indexCheck reads the index along with the log: entries are in the order of
// their records.
type indexCheck struct {
	files []IndexFile
	next  int // the file to open
	in    *indexReader
	chain *chainCheck
	cur   IndexEntry
	have  bool

	first   int64 // position of the first entry, -1: none
	last    int64 // of the last
	keyed   int64 // records with keys
	front   tally // records without entry before the first entry
	behind  tally // behind the last
	missing tally // between
	wrong   tally // entries without such a record
	ahead   tally // entries behind the end of the log
	late    int64 // entries that came later than their record
	hashes  []int32
	group   []int32
}

func (v *verifier) startIndex() error {
	x := &indexCheck{first: -1, last: -1}
	v.index = x
	all, err := v.s.IndexFiles()
	if err != nil {
		return err
	}
	v.rep.IndexFiles = len(all)
	for _, f := range all {
		if f.Sane() {
			x.files = append(x.files, f)
			continue
		}
		if f.Count <= 1 && f.Slots > 0 {
			v.find(Found{Finding: notLog(EmptyFile, f.Path, "holds no key yet"), Severity: Note})
			continue
		}
		what := fmt.Sprintf("its header cannot be true: %d entries, %d slots in use, positions %d to %d", f.Count-1, f.UsedSlots, f.BeginPhys, f.EndPhys)
		v.find(Found{Finding: store.Finding{Kind: store.IndexDamaged, File: f.Path, Phys: -1, Bytes: indexHeaderBytes, What: what, Try: tryRebuild}, Severity: Repair})
	}
	for _, f := range x.files {
		if x.first < 0 {
			x.first = f.BeginPhys
		}
		x.last = max(x.last, f.EndPhys)
	}
	return x.advance(v)
}

// advance goes to the next entry of all files.
func (x *indexCheck) advance(v *verifier) error {
	for {
		if x.in == nil {
			if x.next == len(x.files) {
				x.have = false
				return nil
			}
			f := &x.files[x.next]
			x.next++
			in, err := v.s.openIndex(f)
			if err != nil {
				return err
			}
			x.in, x.chain = in, newChain(f)
		}
		e, ok, err := x.in.read()
		if err != nil {
			return err
		}
		if ok {
			v.rep.IndexEntries++
			x.chain.add(e)
			x.cur, x.have = e, true
			return nil
		}
		if err := x.endFile(v); err != nil {
			return err
		}
	}
}

// endFile reports on the file that was read to its end.
func (x *indexCheck) endFile(v *verifier) error {
	f := x.in.f
	defer func() {
		x.in.close()
		x.in = nil
	}()
	if what, at := x.chain.end(x.in); what != "" && !v.s.opt.Live {
		v.find(Found{Finding: store.Finding{Kind: store.IndexDamaged, File: f.Path, Offset: at, Phys: -1, What: what, Try: tryRebuild}, Severity: Repair})
	}
	return nil
}

// record checks that the keys of a record are in the index.
func (x *indexCheck) record(v *verifier, rec record.View) error {
	if rec.SysFlag()&record.FlagTransaction == record.FlagRollback {
		return nil
	}
	p, pos := &v.props, int64(rec.PhysOffset())
	x.hashes = p.appendHashes(x.hashes[:0], rec.Topic())
	unique := len(p.unique) > 0
	if !unique && len(x.hashes) == 0 {
		return nil
	}
	x.keyed++
	if err := x.pass(v, pos); err != nil {
		return err
	}
	x.group = x.group[:0]
	for x.have && x.cur.Phys == pos {
		if len(x.group) < 1<<16 {
			x.group = append(x.group, x.cur.Hash)
		}
		if err := x.advance(v); err != nil {
			return err
		}
	}
	x.compare(v, rec)
	return nil
}

// compare holds the entries of one record against its keys.
func (x *indexCheck) compare(v *verifier, rec record.View) {
	pos, topic := int64(rec.PhysOffset()), rec.Topic()
	complete := true
	for _, h := range x.hashes {
		complete = complete && slices.Contains(x.group, h)
	}
	all := v.props.all(nil, topic)
	if len(v.props.unique) > 0 {
		complete = complete && (slices.Contains(x.group, all[0]) || slices.Contains(x.group, all[1]))
	}
	for _, h := range x.group {
		if !slices.Contains(all, h) {
			x.wrong.add(0, pos, fmt.Sprintf("an entry with hash %d leads to %d, but that message (%d of queue %d of %s) has no such key",
				h, pos, rec.QueueOffset(), rec.QueueID(), topic))
		}
	}
	if complete {
		return
	}
	switch {
	case x.first < 0 || pos > x.last:
		x.behind.add(0, pos, "")
	case pos < x.first:
		x.front.add(0, pos, "")
	default:
		x.missing.add(0, pos, fmt.Sprintf("the first is message %d of queue %d of %s at %d", rec.QueueOffset(), rec.QueueID(), topic, pos))
	}
}

// pass judges entries of positions before pos, which the log has passed.
func (x *indexCheck) pass(v *verifier, pos int64) error {
	for x.have && x.cur.Phys < pos {
		if err := x.stray(v); err != nil {
			return err
		}
		if err := x.advance(v); err != nil {
			return err
		}
	}
	return nil
}

// stray judges one entry whose record was not just read.
func (x *indexCheck) stray(v *verifier) error {
	e := x.cur
	if e.Phys < v.s.LogMin() || v.inHole(e.Phys) {
		return nil // of a message that is gone
	}
	fits, err := v.keyAt(e)
	if err != nil {
		return err
	}
	if fits {
		x.late++
		return nil
	}
	x.wrong.add(int64(e.Number), e.Phys, fmt.Sprintf("%s entry %d leads to %d, where no record has such a key", x.in.f.Path, e.Number, e.Phys))
	return nil
}

// keyAt reports whether the record at the position of e has a key of its hash.
func (v *verifier) keyAt(e IndexEntry) (bool, error) {
	var head [4]byte
	if e.Phys < 0 {
		return false, nil
	}
	if ok, err := v.s.log.Read(head[:], e.Phys); !ok || err != nil {
		return false, err
	}
	r, ok, err := v.s.recordAt(e.Phys, int32(binary.BigEndian.Uint32(head[:])))
	if err != nil || !ok {
		return false, err
	}
	var p props
	p.parse(r)
	for _, h := range p.all(nil, r.Topic()) {
		if h == e.Hash {
			return true, nil
		}
	}
	return false, nil
}

// all appends every hash under which a record may be filed.
func (p *props) all(dst []int32, topic []byte) []int32 {
	for _, k := range [][]byte{p.unique, p.batch} {
		if len(k) > 0 {
			dst = append(dst, keyindex.KeyHash(topic, k))
		}
	}
	return p.appendHashes(dst, topic)
}

// finishIndex reports what was found.
func (v *verifier) finishIndex() error {
	x := v.index
	for x.have {
		if v.noLogs {
			x.cur.Phys = -1 // says nothing
		} else if x.cur.Phys < v.rep.LogEnd {
			if err := x.stray(v); err != nil {
				return err
			}
		} else {
			x.ahead.add(int64(x.cur.Number), x.cur.Phys, fmt.Sprintf("%s entry %d leads to %d", x.in.f.Path, x.cur.Number, x.cur.Phys))
		}
		if err := x.advance(v); err != nil {
			return err
		}
	}
	if x.in != nil {
		x.in.close()
	}
	if v.rep.IndexFiles == 0 {
		if x.keyed > 0 && !v.s.opt.Live {
			f := notLog(store.MissingFile, "index", "there is no key index, the log has %d messages with keys: a start makes it anew unless messageIndexEnable=false", x.keyed)
			v.find(Found{Finding: f, Severity: Repair, Count: x.keyed})
		}
		return nil
	}
	x.missing.n -= min(x.late, x.missing.n)
	v.sayIndex(&x.front, IndexBehind, Note, "%d messages with keys lie before the first key of the index")
	v.sayIndex(&x.missing, IndexBehind, Damage, "%d messages have keys that the index lacks")
	v.sayIndex(&x.behind, IndexBehind, Repair, "%d messages with keys lie behind the last key of the index")
	v.sayIndex(&x.ahead, IndexAhead, Repair, "%d entries lead behind the end of the log")
	v.sayIndex(&x.wrong, IndexWrongEntry, Note, "%d entries lead to no message with their key; queries pass over them")
	return nil
}

func (v *verifier) sayIndex(t *tally, kind store.FindingKind, sev Severity, format string) {
	if t.n == 0 {
		return
	}
	f := notLog(kind, "index", format, t.n)
	f.Phys = record.PhysOffset(t.phys)
	if t.text != "" {
		f.What += ": " + t.text
	}
	if sev == Damage {
		f.Try = tryRebuild
	}
	v.find(Found{Finding: f, Severity: sev, Count: t.n})
}

// chainCheck checks that each entry of a file is linked to the one before it in its
// slot, and that the slots lead to the last of each.
type chainCheck struct {
	f     *IndexFile
	slots []int32
	bad   string
	at    int64
}

func newChain(f *IndexFile) *chainCheck {
	return &chainCheck{f: f, slots: make([]int32, f.Slots)}
}

func (c *chainCheck) add(e IndexEntry) {
	if c.bad != "" {
		return
	}
	at := c.f.EntryOffset(e.Number)
	if e.Hash < 0 || e.Phys < 0 {
		c.bad, c.at = fmt.Sprintf("entry %d has hash %d and position %d", e.Number, e.Hash, e.Phys), at
		return
	}
	slot := e.Hash % c.f.Slots
	if e.Prev != c.slots[slot] {
		c.bad, c.at = fmt.Sprintf("entry %d should follow entry %d in slot %d, but says %d", e.Number, c.slots[slot], slot, e.Prev), at
		return
	}
	c.slots[slot] = e.Number
}

// end compares the slots.
func (c *chainCheck) end(r *indexReader) (what string, at int64) {
	if c.bad != "" {
		return c.bad, c.at
	}
	buf := make([]byte, 1<<18)
	for first := 0; first < len(c.slots); {
		n := min(len(c.slots)-first, len(buf)/indexSlotBytes)
		part := buf[:n*indexSlotBytes]
		at := indexHeaderBytes + indexSlotBytes*int64(first)
		if got, err := r.in.ReadAt(part, at); got < len(part) {
			return fmt.Sprintf("the slots cannot be read: %v", err), at
		}
		for i := range n {
			if v := int32(binary.BigEndian.Uint32(part[i*indexSlotBytes:])); v != c.slots[first+i] {
				return fmt.Sprintf("slot %d leads to entry %d instead of %d", first+i, v, c.slots[first+i]), at + int64(i)*indexSlotBytes
			}
		}
		first += n
	}
	return "", 0
}
