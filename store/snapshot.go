package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mqctl/store/vfs"
)

// A clean stop writes down where every queue begins and ends (FORMAT.md, "queues"), so
// that the next start need not open eighty thousand files to find that out. The file
// counts only if the stop it belongs to was the last thing that happened to the folder.
type snapshot struct {
	end                          int64 // of the log
	min                          int64 // of the log
	unitFile, batchFile, extFile int64
	hasExt                       bool
	queues                       []queueSnapshot
}

// queueSnapshot is one queue.
type queueSnapshot struct {
	topic            string
	id               int32
	batch            bool
	first, end, next int64 // units, and the position behind the last file; -1: none
	min, max         int64 // queue offsets
}

const snapshotHead = "mqctl-queues 1"

// maxSnapshotBytes bounds what is read: a million queues.
const maxSnapshotBytes = 256 << 20

func (s *Store) snapshotFile() string { return filepath.Join(s.ownDir, "queues") }

func (s *Store) takeSnapshot() *snapshot {
	sn := &snapshot{
		end: s.log.End(), min: s.log.Min(), unitFile: s.shared.FileBytes, batchFile: s.batch.FileBytes,
		extFile: s.shared.ExtFileBytes, hasExt: s.hasExt,
	}
	s.queues.each(func(q *Queue) {
		first, end, next := q.cq.Extent()
		if next < 0 && end == 0 {
			return // only a handle
		}
		sn.queues = append(sn.queues, queueSnapshot{
			topic: q.topic, id: q.id, batch: q.batch, first: first, end: end, next: next,
			min: q.min.Load(), max: q.max.Load(),
		})
	})
	slices.SortFunc(sn.queues, func(a, b queueSnapshot) int {
		if a.topic != b.topic {
			return strings.Compare(a.topic, b.topic)
		}
		return int(a.id) - int(b.id)
	})
	return sn
}

func (sn *snapshot) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nlog %d %d\nfiles %d %d %d %t\n", snapshotHead, sn.min, sn.end, sn.unitFile, sn.batchFile, sn.extFile, sn.hasExt)
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
		for _, n := range [...]int64{int64(q.id), q.first, q.end, q.next, q.min, q.max} {
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
		case "log":
			_, err = fmt.Sscanf(value, "%d %d", &sn.min, &sn.end)
		case "files":
			_, err = fmt.Sscanf(value, "%d %d %d %t", &sn.unitFile, &sn.batchFile, &sn.extFile, &sn.hasExt)
		case "plain", "batch":
			batch = name == "batch"
			topic, err = strconv.Unquote(value)
		case "queue":
			q := queueSnapshot{topic: topic, batch: batch}
			var id int64
			for _, to := range [...]*int64{&id, &q.first, &q.end, &q.next, &q.min, &q.max} {
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
	err := vfs.WriteFile(s.opt.FS, s.snapshotFile(), s.takeSnapshot().encode())
	if err == nil {
		err = s.opt.FS.SyncDir(s.ownDir)
	}
	if err == nil {
		return
	}
	s.opt.Log.Warn("where the queues end is not written down: the next start looks at each", "file", s.snapshotFile(), "error", err)
	_ = s.dropSnapshot() // half a file has no right checksum
}

// dropSnapshot removes the snapshot: it must not be there when the folder changes. That
// is safe on disk with the next progress.
func (s *Store) dropSnapshot() error {
	err := s.opt.FS.Remove(s.snapshotFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// findSnapshot is the snapshot of the clean stop that p tells of; nil if it cannot be
// used, for whatever reason: then every queue is looked at.
func (s *Store) findSnapshot(inv *inventory) *snapshot {
	p := inv.progress
	n := len(inv.logFiles)
	if inv.abort || !inv.lastWriter || !p.clean || p.dispatched != p.end || n == 0 {
		return nil
	}
	b, err := vfs.ReadFile(s.opt.FS, s.snapshotFile(), maxSnapshotBytes)
	if err != nil {
		return nil
	}
	sn, err := decodeSnapshot(b)
	last := inv.logFiles[n-1]
	if err != nil || sn.end != p.end || sn.min != inv.logFiles[0].Base || sn.end > last.Base+inv.logBytes ||
		other(s.opt.QueueFileBytes, sn.unitFile) || other(s.opt.BatchQueueBytes, sn.batchFile) ||
		sn.unitFile <= 0 || sn.batchFile <= 0 || !s.sameFolders(sn) {
		return nil
	}
	if s.opt.QueueExtBytes > 0 && s.opt.QueueExtBytes != sn.extFile {
		return nil
	}
	return sn
}

// other says that a setting asks for another size than there is.
func other(want, have int64) bool { return want > 0 && want != have }

// sameFolders says that the folders of the queues are those of the snapshot: somebody may
// have removed some while the broker was stopped.
func (s *Store) sameFolders(sn *snapshot) bool {
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
	return s.hasFolders(s.queueDir, plain) && s.hasFolders(s.batchDir(), batch)
}

func (s *Store) hasFolders(dir string, want map[string]int) bool {
	topics, err := s.subdirs(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	found := 0
	for _, topic := range topics {
		ids, err := s.subdirs(filepath.Join(dir, topic))
		if err != nil || len(ids) != want[topic] {
			return false
		}
		if len(ids) > 0 {
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
	}
	r.restored = true
}
