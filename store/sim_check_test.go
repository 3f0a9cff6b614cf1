package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"mqctl/store"
	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/record"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// read does something that no crash interrupts.
func (w *sim) read(f func()) {
	w.quiet = true
	defer func() { w.quiet = false }()
	f()
}

// check compares what a start found with what was promised:
//
//   - no acknowledged message is missing: none at all after kill -9, none of what was
//     flushed after a power loss
//   - none is there twice, none that a crash or a deletion took comes back
//   - the queues are what the log gives, read here by other code: each record at the
//     number it states, no number twice, none missing but of what a power loss took
//   - in the log, those of each connection are in the order in which it sent them
//   - every message is found by its key, once
//   - config files hold the newest version that was saved, or one that was being saved
func (w *sim) check() {
	if w.dead != nil {
		return
	}
	w.read(func() {
		visible := w.checkQueues(w.walk())
		w.checkMessages(visible)
		for id := range visible {
			x := w.msgs[id-1]
			if _, res := w.s.Query(nil, x.topic, fmt.Sprintf("u%d", id), 10, 0, 1<<60, true); res.Count != 1 {
				w.fail("%v is found %d times by its key", x, res.Count)
			}
		}
	})
	for _, name := range simConfigs {
		w.checkConfig(name)
	}
	if w.dead != nil {
		return
	}
	w.rebooted = false
	clear(w.deleting)
	w.flushed()
}

// logName is a file of the log.
func logName(base int64) string { return fmt.Sprintf("/store/commitlog/%020d", base) }

// good is the record at the start of b, if it is whole and says that it lies at pos.
func good(b []byte, pos int64) (record.View, bool) {
	v, err := record.Parse(b)
	return v, err == nil && int64(v.PhysOffset()) == pos && v.CheckCRC() == nil && bytes.IndexByte(v.Properties(), 0) < 0
}

// walk reads the log file by file, without the store. Bytes that are no record are
// passed over.
func (w *sim) walk() []record.View {
	var out []record.View
	pos := w.s.Positions()
	if int64(pos.Min) < w.floor {
		w.fail("the log begins at %d, it had begun at %d", pos.Min, w.floor)
	}
	w.floor = int64(pos.Min)
	for base := int64(pos.Min); base < int64(pos.Max); base += w.o.CommitLogBytes {
		b, err := vfs.ReadFile(w.mem, logName(base), 1<<20)
		if err != nil {
			w.fail("read the log: %v", err)
		}
		b = b[:min(int64(len(b)), int64(pos.Max)-base)]
		for at := 0; at < len(b); {
			if left, ok := record.Blank(b[at:]); ok && at+int(left) == int(w.o.CommitLogBytes) {
				break
			}
			v, ok := good(b[at:], base+int64(at))
			if !ok {
				at++
				continue
			}
			if string(v.Topic()) != "MQCTL_DAMAGED" {
				out = append(out, v)
			}
			at += v.Size()
		}
	}
	return out
}

// void is the size in an entry without message.
const void = 0x7fffffff

type simQueue struct {
	topic string
	id    int32
}

// checkQueues compares queues and log, and returns the messages that consumers see.
func (w *sim) checkQueues(log []record.View) map[int]record.View {
	rebuilt := map[simQueue][]record.View{}
	var last [simConnections]int
	for _, v := range log {
		x := w.known(v)
		if x.id <= last[x.sender] {
			w.fail("%v of connection %d lies behind its message %d", x, x.sender, last[x.sender])
		}
		last[x.sender] = x.id
		if x.epoch == w.epochs[x.topic] {
			k := simQueue{x.topic, x.queue}
			rebuilt[k] = append(rebuilt[k], v)
		}
	}
	visible := map[int]record.View{}
	for _, topic := range w.s.QueueTopics() {
		for _, q := range w.s.Queues(topic) {
			k := simQueue{topic, q.ID()}
			w.checkQueue(q, rebuilt[k], visible)
			delete(rebuilt, k)
		}
	}
	for k, rest := range rebuilt {
		w.fail("%s-%d is missing, the log has %d messages of it", k.topic, k.id, len(rest))
	}
	return visible
}

// known is the message that a record holds.
func (w *sim) known(v record.View) *simMsg {
	id := bodyID(v)
	if id < 1 || id > len(w.msgs) {
		w.fail("a record of a message that was never sent: %q", v.Body())
	}
	return w.msgs[id-1]
}

func (w *sim) checkQueue(q *store.Queue, log []record.View, visible map[int]record.View) {
	name := fmt.Sprintf("%s-%d", q.Topic(), q.ID())
	seen := w.readQueue(q)
	numbers, tags := map[record.PhysOffset]record.QueueOffset{}, map[record.PhysOffset]int64{}
	last := record.PhysOffset(-1)
	for i, u := range w.s.Units(nil, q, q.Min(), int(q.Max()-q.Min())) {
		if u.Size == void {
			continue
		}
		if q.Batch() && u.Phys == last {
			numbers[u.Phys]++ // all messages of an inner batch have its unit: here is the last of them
			continue
		}
		last = u.Phys
		if _, twice := numbers[u.Phys]; twice {
			w.fail("%s: the entry of %d is there twice", name, u.Phys)
		}
		numbers[u.Phys], tags[u.Phys] = q.Min()+record.QueueOffset(i), u.TagsCode
	}
	want := record.QueueOffset(0)
	if w.floor > 0 {
		want = q.Min() // what is before is deleted
	}
	current := 0
	for _, v := range seen {
		x := w.known(v)
		w.missing(name, want, v.QueueOffset())
		if n, ok := numbers[v.PhysOffset()]; !ok || n != v.QueueOffset()+record.QueueOffset(x.count-1) {
			w.fail("%s: %v says number %d, and lies at %d (%v)", name, x, v.QueueOffset(), n, ok)
		}
		want = v.QueueOffset() + record.QueueOffset(x.count)
		switch _, twice := visible[x.id]; {
		case twice:
			w.fail("%v is there twice", x)
		case x.topic != q.Topic() || x.queue != q.ID():
			w.fail("%v is in %s", x, name)
		case x.gone:
			w.fail("%v came back", x)
		case x.epoch < w.epochs[x.topic] && !w.deleting[x.topic]:
			w.fail("%v of a deleted topic came back", x)
		case x.acked && x.offset != int64(v.QueueOffset()):
			w.fail("%v is number %d now", x, v.QueueOffset())
		}
		if got, want := tags[v.PhysOffset()], tagsCode(x, v); got != want {
			w.fail("%v has the tag code %d, want %d", x, got, want)
		}
		visible[x.id] = v
		if x.epoch < w.epochs[x.topic] {
			continue
		}
		if current >= len(log) || !bytes.Equal(log[current].Raw(), v.Raw()) {
			w.fail("%s: %v is not what the log has next for this queue", name, x)
		}
		current++
	}
	if current < len(log) {
		w.fail("%s: the log has %d messages, the queue %d: %v is missing", name, len(log), current, w.known(log[current]))
	}
	w.missing(name, want, q.Max())
}

// missing notes numbers without a message: a power loss may leave such, or a deletion
// of which nobody knows whether it was noted; nothing else.
func (w *sim) missing(name string, from, to record.QueueOffset) {
	for ; from < to; from++ {
		if hole := fmt.Sprintf("%s/%d", name, from); w.rebooted || w.deleting[name[:strings.LastIndexByte(name, '-')]] {
			w.holes[hole] = true
		} else if !w.holes[hole] {
			w.fail("%s: number %d is missing", name, from)
		}
	}
}

func (w *sim) readQueue(q *store.Queue) []record.View {
	var out []record.View
	for off := q.Min(); off < q.Max(); {
		b, res := w.s.Read(nil, q, off, 32, nil)
		if res.Status != store.Found && res.Status != store.MessageWasRemoving || res.Next <= off {
			w.fail("read %s-%d at %d: %+v", q.Topic(), q.ID(), off, res)
		}
		for len(b) > 0 {
			v, err := record.Parse(b)
			if err != nil {
				w.fail("read %s-%d at %d: %v", q.Topic(), q.ID(), off, err)
			}
			out = append(out, v)
			b = b[v.Size():]
		}
		off = res.Next
	}
	return out
}

// checkMessages looks for what is missing and notes what is there.
func (w *sim) checkMessages(visible map[int]record.View) {
	for _, x := range w.msgs {
		v, there := visible[x.id]
		if there {
			x.acked, x.epoch = true, w.epochs[x.topic] // a deletion that failed may have done nothing
			x.offset, x.phys, x.millis = int64(v.QueueOffset()), int64(v.PhysOffset()), v.StoreMillis()
			x.end = x.phys + int64(v.Size())
			continue
		}
		safe := x.acked && (x.durable || !w.rebooted) && x.phys >= w.floor
		if safe && !x.gone && x.epoch == w.epochs[x.topic] && !w.deleting[x.topic] {
			w.fail("%v is lost; durable %v, power loss %v", x, x.durable, w.rebooted)
		}
		x.gone = true
	}
}

// checkCheckpoint looks at what a crash left with Apache's eyes: it takes the log as
// whole up to the first time in the checkpoint, and the queues up to the second.
func (w *sim) checkCheckpoint() {
	var c checkpoint.Checkpoint
	if b, err := vfs.ReadFile(w.mem, "/store/checkpoint", 1<<16); err == nil {
		if c, err = checkpoint.Decode(b); err != nil {
			w.fail("checkpoint: %v", err)
		}
	}
	w.cache = map[string][]byte{}
	floor := int64(0)
	if files, err := w.mem.ReadDir("/store/commitlog"); err == nil && len(files) > 0 {
		floor, _ = strconv.ParseInt(files[0].Name, 10, 64)
	}
	for _, x := range w.msgs {
		if x.gone || x.astray || x.phys < floor || x.end == 0 || x.epoch < w.epochs[x.topic] || w.deleting[x.topic] {
			continue
		}
		switch there := w.inLog(x); {
		case there:
		case x.millis > c.PhysMillis:
			x.astray = true // a recovery that dies may say so of another one of its millisecond
		default:
			w.fail("the checkpoint says that the log is safe up to %d, but %v of %d is not there", c.PhysMillis, x, x.millis)
		}
		if x.millis <= c.LogicsMillis && !w.inQueue(x) {
			w.fail("the checkpoint says that queues are safe up to %d, but %v of %d is in none", c.LogicsMillis, x, x.millis)
		}
	}
}

// at reads n bytes of a file of the store; nil if they are not there.
func (w *sim) at(name string, pos int64, n int) []byte {
	b, read := w.cache[name]
	if !read {
		b, _ = vfs.ReadFile(w.mem, name, 1<<20) // nil
		w.cache[name] = b
	}
	if pos+int64(n) > int64(len(b)) {
		return nil
	}
	return b[pos:][:n]
}

func (w *sim) inLog(x *simMsg) bool {
	size := w.o.CommitLogBytes
	v, ok := good(w.at(logName(x.phys/size*size), x.phys%size, int(x.end-x.phys)), x.phys)
	return ok && bodyID(v) == x.id
}

// tagsCode is what the unit of a message states: in the queues of delayed messages when it is due.
func tagsCode(x *simMsg, v record.View) int64 {
	if x.topic == simDelayed {
		return v.StoreMillis() + 10_000 // level 3
	}
	return record.TagsCode([]byte(x.tag))
}

func (w *sim) inQueue(x *simMsg) bool {
	if x.topic == simBundles {
		return w.inBatchQueue(x)
	}
	size := w.o.QueueFileBytes
	pos := x.offset * consumequeue.UnitBytes
	dir := filepath.Join("/store/consumequeue", x.topic, strconv.Itoa(int(x.queue)))
	unit := w.at(filepath.Join(dir, fmt.Sprintf("%020d", pos/size*size)), pos%size, consumequeue.UnitBytes)
	return unit != nil && int64(binary.BigEndian.Uint64(unit)) == x.phys
}

// inBatchQueue looks through all units: where one lies does not follow from its number.
func (w *sim) inBatchQueue(x *simMsg) bool {
	dir := filepath.Join("/store/batchconsumequeue", x.topic, strconv.Itoa(int(x.queue)))
	files, err := w.mem.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		for at := int64(0); at < f.Size; at += consumequeue.BatchUnitBytes {
			unit := w.at(filepath.Join(dir, f.Name), at, consumequeue.BatchUnitBytes)
			if unit != nil && int64(binary.BigEndian.Uint64(unit)) == x.phys && binary.BigEndian.Uint32(unit[8:]) > 0 {
				return true
			}
		}
	}
	return false
}

// simDoc is a config file.
type simDoc struct {
	DataVersion struct {
		Counter int `json:"counter"`
	} `json:"dataVersion"`
	Fill string `json:"fill"`
}

// save writes the next version of a config file.
func (w *sim) save() {
	name := simConfigs[w.rng.IntN(len(simConfigs))]
	c := w.configs[name]
	clean := c.tried == c.acked
	c.tried++
	w.say("save %s %d", name, c.tried)
	var doc simDoc
	doc.DataVersion.Counter = c.tried
	doc.Fill = strings.Repeat("x", w.rng.IntN(2000))
	text, err := json.Marshal(doc)
	if err != nil {
		w.fail("encode: %v", err)
	}
	f := table.NewFile(w.inj, "/store/config", name)
	err = f.Save(text)
	if w.dead != nil {
		return
	}
	w.say("  %v", err)
	if err == nil {
		old := c.acked
		c.acked = c.tried
		if now, _ := vfs.ReadFile(w.mem, f.Path(), 1<<20); docVersion(now) != c.acked {
			w.fail("%s holds version %d, %d was saved", name, docVersion(now), c.acked)
		}
		if bak, _ := vfs.ReadFile(w.mem, f.Path()+".bak", 1<<20); clean && old > 0 && docVersion(bak) != old {
			w.fail("%s.bak holds version %d, want %d", name, docVersion(bak), old)
		}
	}
}

func docVersion(b []byte) int {
	var doc simDoc
	if json.Unmarshal(b, &doc) != nil {
		return -1
	}
	return doc.DataVersion.Counter
}

// checkConfig reads a config file. What a start finds there is what counts from then on.
func (w *sim) checkConfig(name string) {
	got := 0
	_, err := table.NewFile(w.inj, "/store/config", name).Load(func(b []byte) error {
		if got = docVersion(b); got < 0 {
			return errors.New("no document")
		}
		return nil
	})
	if w.dead != nil {
		return
	}
	c := w.configs[name]
	if err != nil || got < c.acked || got > c.tried {
		w.fail("%s holds version %d, %v; %d was saved, up to %d was tried", name, got, err, c.acked, c.tried)
	}
	c.acked, c.tried = got, got
}
