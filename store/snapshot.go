package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/keyindex"
	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// A clean stop writes down where every queue begins and ends (FORMAT.md, "queues"), so
// that the next start need not open eighty thousand files to find that out. The file
// counts only if the stop it belongs to was the last thing that happened to the folder.
//
// The keeper writes one now and then too, without any sync: it is for a start after a
// kill -9, when everything is there that was written, though perhaps not safe. It says that
// the units of all records before a position are in the files. After a crash of the machine
// it does not count.
type snapshot struct {
	clean                        bool
	pid                          int    // of the process that wrote it
	life                         string // of the folder (vfs.FS.Life), when it was written
	end                          int64  // of the log; if not clean: units of records before it are there
	min                          int64  // of the log
	millis                       int64  // store time of the newest message before end
	unitFile, batchFile, extFile int64
	hasExt                       bool
	queues                       []queueSnapshot
	index                        int64           // the newest record before end that has keys in the index, -1: none
	indexFiles                   []keyindex.Note // if clean: how they were left; nil: not known
}

// queueSnapshot is one queue.
type queueSnapshot struct {
	topic            string
	id               int32
	batch            bool
	first, end, next int64 // units, and the position behind the last file; -1: none
	min, max         int64 // queue offsets
	low              int64 // position of the message at min, 0 if not known
}

const snapshotHead = "mqctl-queues 2"

// maxSnapshotBytes bounds what is read: a million queues.
const maxSnapshotBytes = 256 << 20

func (s *Store) snapshotFile() string { return filepath.Join(s.ownDir, "queues") }

// takeSnapshot describes the queues. The units of records before at are in the files; there may
// be more. The caller holds note.mu.
func (s *Store) takeSnapshot(clean bool, at point) *snapshot {
	sn := &snapshot{
		clean: clean, pid: s.opt.pid, life: s.life,
		end: at.pos, millis: at.millis, index: at.index, min: s.log.Min(), unitFile: s.shared.FileBytes, batchFile: s.batch.FileBytes,
		extFile: s.shared.ExtFileBytes, hasExt: s.hasExt,
	}
	s.queues.each(func(q *Queue) {
		low := q.min.Load() // before the rest, which only grows
		first, end, next := q.cq.Written()
		if next < 0 && end == 0 {
			return // only a handle
		}
		to := queueSnapshot{
			topic: q.topic, id: q.id, batch: q.batch, first: first, end: end, next: next,
			min: low, max: max(q.max.Load(), low),
		}
		if q.lowCuts == s.cuts.Load() {
			to.low = q.lowPhys
		}
		sn.queues = append(sn.queues, to)
	})
	return sn
}

func (sn *snapshot) encode() []byte {
	var b bytes.Buffer
	state := "running"
	if sn.clean {
		state = "clean"
	}
	fmt.Fprintf(&b, "%s\npid %d\nstate %s\nlife %s\n", snapshotHead, sn.pid, state, strconv.Quote(sn.life))
	fmt.Fprintf(&b, "log %d %d %d %d\nfiles %d %d %d %t\n", sn.min, sn.end, sn.millis, sn.index, sn.unitFile, sn.batchFile, sn.extFile, sn.hasExt)
	if sn.indexFiles != nil {
		fmt.Fprintf(&b, "indexes %d\n", len(sn.indexFiles))
		for _, n := range sn.indexFiles {
			fmt.Fprintf(&b, "index %s %08x\n", n.Name, n.Head)
		}
	}
	var line []byte
	topic := ""
	for i := range sn.queues {
		q := &sn.queues[i]
		if q.topic != topic || i == 0 {
			topic = q.topic
			kind := "plain"
			if q.batch {
				kind = "batch"
			}
			line = append(append(line[:0], kind...), ' ')
			b.Write(append(strconv.AppendQuote(line, topic), '\n'))
		}
		line = append(line[:0], "queue"...)
		for _, n := range [...]int64{int64(q.id), q.first, q.end, q.next, q.min, q.max, q.low} {
			line = strconv.AppendInt(append(line, ' '), n, 10)
		}
		b.Write(append(line, '\n'))
	}
	return seal(&b)
}

func decodeSnapshot(b []byte) (*snapshot, error) {
	sn := &snapshot{}
	topic, batch := "", false
	err := unseal(b, snapshotHead, func(name, value string) (err error) {
		switch name {
		case "pid":
			sn.pid, err = strconv.Atoi(value)
		case "state":
			sn.clean = value == "clean"
		case "life":
			sn.life, err = strconv.Unquote(value)
		case "log":
			_, err = fmt.Sscanf(value, "%d %d %d %d", &sn.min, &sn.end, &sn.millis, &sn.index)
		case "files":
			_, err = fmt.Sscanf(value, "%d %d %d %t", &sn.unitFile, &sn.batchFile, &sn.extFile, &sn.hasExt)
		case "indexes":
			sn.indexFiles = []keyindex.Note{}
		case "index":
			var n keyindex.Note
			if _, err = fmt.Sscanf(value, "%s %x", &n.Name, &n.Head); err == nil {
				sn.indexFiles = append(sn.indexFiles, n)
			}
		case "plain", "batch":
			batch = name == "batch"
			topic, err = strconv.Unquote(value)
		case "queue":
			q := queueSnapshot{topic: topic, batch: batch}
			var id int64
			for _, to := range [...]*int64{&id, &q.first, &q.end, &q.next, &q.min, &q.max, &q.low} {
				var word string
				word, value, _ = strings.Cut(value, " ")
				if *to, err = strconv.ParseInt(word, 10, 64); err != nil {
					return err
				}
			}
			q.id = int32(id)
			if topic == "" || int64(q.id) != id || q.first < 0 || q.first > q.end || q.min < 0 || q.min > q.max {
				return errors.New("no such queue can be")
			}
			sn.queues = append(sn.queues, q)
		default:
			err = errors.New("unknown name")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return sn, nil
}

// writeSnapshot writes the snapshot of a clean stop, behind progress, which must have
// its place on a full disk: without a snapshot the next start only takes longer.
func (s *Store) writeSnapshot() {
	s.note.mu.Lock()
	defer s.note.mu.Unlock()
	sn := s.takeSnapshot(true, point{pos: s.log.End(), millis: s.storedMillis.Load(), index: s.keep.indexed})
	if s.index != nil {
		sn.indexFiles = s.index.Shown()
	}
	err := vfs.WriteFile(s.opt.FS, s.snapshotFile(), sn.encode())
	if err == nil {
		err = s.opt.FS.SyncDir(s.ownDir)
	}
	if err == nil {
		return
	}
	s.opt.Log.Warn("where the queues end is not written down: the next start looks at each", "file", s.snapshotFile(), "error", err)
	_ = s.dropSnapshot() // half a file has no right checksum
}

// noteQueues writes a snapshot for a start after kill -9, if the log has grown enough since
// the last one. The units of records before at are in the files.
func (s *Store) noteQueues(at point) {
	n := &s.note
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.end >= 0
	if n.changes > 0 || at.drops != n.drops.Load() {
		return // something is taken back, or was since
	}
	if at.missed {
		return // the start has to read from where the keys are missing
	}
	if have && at.index >= at.pos { // those before it are not known, but the last snapshot's was there
		at.index = n.index
	}
	sameMin := s.log.Min() == n.min
	if s.life == "" || s.sick.Load() != nil || s.closed.Load() || have && at.pos <= n.end && sameMin ||
		have && sameMin && at.pos-n.end < int64(snapShare*n.bytes) {
		return
	}
	sn := s.takeSnapshot(false, at)
	b := sn.encode()
	if err := replaceUnsynced(s.opt.FS, s.snapshotFile(), b); err != nil {
		s.passes(err) // the old one still counts, or none does
		return
	}
	n.end, n.min, n.index, n.bytes = at.pos, sn.min, at.index, len(b)
}

// replaceUnsynced gives a file another content that only a crash of the machine takes
// back or tears.
func replaceUnsynced(fsys vfs.FS, name string, b []byte) error {
	temp := name + ".tmp"
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	return fsys.Rename(temp, name)
}

// takeBack changes the folder in another way than by what is appended: the snapshot must not
// be there then, nor be written. That it is gone is safe on disk with the next progress. The
// caller holds the dispatch lock; one such change may be a part of another.
func (s *Store) takeBack(change func() error) error {
	n := &s.note
	n.mu.Lock()
	err := s.dropSnapshot()
	if err == nil {
		n.changes++
	}
	n.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		n.mu.Lock()
		n.changes--
		n.mu.Unlock()
	}()
	return change()
}

// forgetSnapshot removes the snapshot of a store whose disk failed: what was written may not
// be there any more.
func (s *Store) forgetSnapshot() {
	s.note.mu.Lock()
	defer s.note.mu.Unlock()
	if s.note.end >= 0 {
		_ = s.dropSnapshot() // the next round tries again
	}
}

// dropSnapshot removes the snapshot. The caller holds note.mu, or is Open.
func (s *Store) dropSnapshot() error {
	s.note.drops.Add(1)
	err := s.opt.FS.Remove(s.snapshotFile())
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.note.end = -1
		return nil
	}
	return err
}

// findSnapshot is the snapshot that tells what the queues are; nil if there is none
// that can be used, for whatever reason: then every queue is looked at.
func (s *Store) findSnapshot(inv *inventory) *snapshot {
	n := len(inv.logFiles)
	if n == 0 {
		return nil
	}
	b, err := vfs.ReadFile(s.opt.FS, s.snapshotFile(), maxSnapshotBytes)
	if err != nil {
		return nil
	}
	sn, err := decodeSnapshot(b)
	last := inv.logFiles[n-1]
	if err != nil || sn.end > last.Base+inv.logBytes || !s.counts(sn, inv) ||
		other(s.opt.QueueFileBytes, sn.unitFile) || other(s.opt.BatchQueueBytes, sn.batchFile) ||
		sn.unitFile <= 0 || sn.batchFile <= 0 {
		return nil
	}
	if !s.sameFolders(sn, false) || !s.hasFiles(sn, inv.logFiles[0].Base) {
		inv.removed = true
		return nil
	}
	if sn.clean && !s.sameFolders(sn, true) {
		return nil // there are more than it knows
	}
	if s.opt.QueueExtBytes > 0 && s.opt.QueueExtBytes != sn.extFile {
		return nil
	}
	return sn
}

// counts says that nothing happened to the folder since the snapshot was written, but
// what was appended if it is one of a running broker.
func (s *Store) counts(sn *snapshot, inv *inventory) bool {
	p, first := inv.progress, inv.logFiles[0].Base
	if sn.clean {
		return !inv.abort && inv.lastWriter && p.clean && p.dispatched == p.end && sn.end == p.end && sn.min == first
	}
	if !inv.abort || inv.rewrite >= 0 || inv.abortPID != sn.pid || s.life == "" || sn.life != s.life || sn.min > first || sn.end < first {
		return false
	}
	if (s.opt.QueueExt || sn.hasExt) && sn.end < p.dispatched {
		return false // units that are safe would be written again, with addresses of extensions that are not
	}
	return inv.lastWriter && (s.disk != nil || sn.end <= p.dispatched)
}

// other says that a setting asks for another size than there is.
func other(want, have int64) bool { return want > 0 && want != have }

// sameFolders says that the folders of the queues in the snapshot are there, and if exact
// no others: somebody may have removed some while the broker was stopped.
func (s *Store) sameFolders(sn *snapshot, exact bool) bool {
	plain, batch := map[string]int{}, map[string]int{}
	for i := range sn.queues {
		q := &sn.queues[i]
		switch {
		case q.next < 0:
		case q.batch:
			batch[q.topic]++
		default:
			plain[q.topic]++
		}
	}
	return s.hasFolders(s.queueDir, plain, exact) && s.hasFolders(s.batchDir(), batch, exact)
}

// hasFiles says that each queue with messages still has its files, none of them cut. A
// broker that ran on may have removed old ones since, with what the log lost before logMin.
func (s *Store) hasFiles(sn *snapshot, logMin int64) bool {
	for i := range sn.queues {
		q := &sn.queues[i]
		if q.next < 0 || q.max <= q.min {
			continue
		}
		dir, size, unit := s.queueDir, sn.unitFile, int64(consumequeue.UnitBytes)
		if q.batch {
			dir, size, unit = s.batchDir(), sn.batchFile, consumequeue.BatchUnitBytes
		}
		dir = filepath.Join(dir, q.topic, strconv.Itoa(int(q.id)))
		begun := sn.clean || q.low >= logMin
		for base := q.first * unit / size * size; base < q.next; base += size {
			e, err := s.opt.FS.Stat(filepath.Join(dir, segfile.Name(base)))
			gone := errors.Is(err, fs.ErrNotExist) && !begun && base < q.next-size
			if !gone && (err != nil || e.Size < size) {
				return false
			}
			begun = begun || !gone
		}
	}
	return true
}

// hasFolders says that the topics in dir have as many folders as in want; if not exact, at
// least as many.
func (s *Store) hasFolders(dir string, want map[string]int, exact bool) bool {
	topics, err := s.subdirs(dir, TopicName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	found := 0
	for _, topic := range topics {
		ids, err := s.subdirs(filepath.Join(dir, topic), QueueName)
		if err != nil || len(ids) < want[topic] || exact && len(ids) > want[topic] {
			return false
		}
		if want[topic] > 0 {
			found++
		}
	}
	return found == len(want)
}

// use takes the sizes of files, and which topics have batch queues.
func (sn *snapshot) use(s *Store, inv *inventory) {
	inv.snapshot = sn
	inv.unitFile, inv.batchFile, inv.extFile, inv.hasExt = sn.unitFile, sn.batchFile, sn.extFile, sn.hasExt
	for i := range sn.queues {
		if q := &sn.queues[i]; q.batch {
			s.batchTopics[q.topic] = true
		}
	}
}

// restore makes the queues as the snapshot has them.
func (r *recovery) restore(sn *snapshot) {
	for i := range sn.queues {
		from := &sn.queues[i]
		q := r.s.Queue(from.topic, from.id)
		q.cq.Restore(from.first, from.end, from.next)
		q.min.Store(from.min)
		q.max.Store(from.max)
		q.next.Store(from.max)
		q.lowPhys = from.low
	}
	r.restored = true
}
