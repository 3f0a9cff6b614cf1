package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"

	"mqctl/store"
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// Options say where a store lies and what its files do not say themselves.
// Zero values are learned from the files or are the defaults.
type Options struct {
	FS           vfs.FS // default vfs.OS
	Dir          string // storePathRootDir; must be given
	CommitLogDir string // storePathCommitLog, default Dir/commitlog

	CommitLogBytes int64 // mappedFileSizeCommitLog
	QueueFileBytes int64 // mappedFileSizeConsumeQueue
	IndexSlots     int   // maxHashSlotNum; the entries follow from the file size

	// Live says that a broker has the folder in use: what it may not have written
	// yet is no fault.
	Live bool
	// Progress, if set, hears about every 8 MiB how much of a long task is done.
	Progress func(done, total int64)
}

// Store is a store folder that is looked at. It is for one goroutine.
type Store struct {
	opt      Options
	logFiles []segfile.Found
	strange  []string // files that are no data files, absolute
	wrong    []store.WrongKind
	segBytes int64
	log      *commitlog.Log
	queues   []*Queue
	unitFile int64
	cache    *segfile.Cache
}

// errNoStore is the reason of a NotStoreError.
var errNoStore = errors.New("there is no commitlog, consumequeue, config or checkpoint in it")

// NotStoreError says that a folder is no store folder.
type NotStoreError struct{ Dir string }

func (e *NotStoreError) Error() string { return e.Dir + " is no store folder: " + errNoStore.Error() }

// Open lists the folder. The error is a *NotStoreError, or one of the disk.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.CommitLogDir == "" {
		o.CommitLogDir = filepath.Join(o.Dir, "commitlog")
	}
	o.FS = passOver{o.FS}
	s := &Store{opt: o, cache: segfile.NewCache(128)}
	if err := s.looksLikeStore(); err != nil {
		return nil, err
	}
	if err := s.listWrong(); err != nil {
		return nil, err
	}
	if err := s.openLog(); err != nil {
		return nil, err
	}
	if err := s.listQueues(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes all files.
func (s *Store) Close() error {
	s.cache.Close()
	if s.log == nil {
		return nil
	}
	return s.log.Close()
}

func (s *Store) looksLikeStore() error {
	entries, err := s.opt.FS.ReadDir(s.opt.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name {
		case "commitlog", "consumequeue", "config", "checkpoint", "batchconsumequeue":
			return nil
		}
	}
	return &NotStoreError{Dir: s.opt.Dir}
}

func (s *Store) openLog() error {
	files, strange, err := segfile.List(s.opt.FS, s.opt.CommitLogDir)
	if err != nil {
		return err
	}
	s.logFiles = files
	s.strangeFiles(strange)
	s.segBytes = sizeOf(files, s.opt.CommitLogBytes, store.DefaultCommitLogBytes)
	var usable []segfile.Found
	for _, f := range files {
		if f.Size > 0 && f.Size <= s.segBytes && f.Base%s.segBytes == 0 {
			usable = append(usable, f)
		}
	}
	s.log, err = commitlog.OpenRead(s.opt.FS, s.opt.CommitLogDir, s.segBytes, usable)
	return err
}

// sizeOf guesses the size that the files of one folder should have: what was
// given, else the distance between neighbours, else the largest file.
func sizeOf(files []segfile.Found, given, def int64) int64 {
	if given > 0 {
		return given
	}
	largest, gap := int64(0), int64(0)
	for i, f := range files {
		largest = max(largest, f.Size)
		if i > 0 {
			if d := f.Base - files[i-1].Base; gap == 0 || d < gap {
				gap = d
			}
		}
	}
	switch {
	case gap > 0 && gap%max(largest, 1) != 0 && largest > 0 && countSize(files, gap) > 0:
		return gap
	case largest > 0:
		return largest
	}
	return def
}

func countSize(files []segfile.Found, size int64) (n int) {
	for _, f := range files {
		if f.Size == size {
			n++
		}
	}
	return n
}

// QueueType says in which folder a queue lies and how its entries look.
type QueueType string

// The types of queues.
const (
	SimpleQueue QueueType = "SIMPLE" // consumequeue/
	BatchQueue  QueueType = "BATCH"  // batchconsumequeue/
)

// listQueues finds all queues of both types.
func (s *Store) listQueues() error {
	for _, t := range []struct {
		typ QueueType
		dir string
	}{{SimpleQueue, "consumequeue"}, {BatchQueue, "batchconsumequeue"}} {
		root := filepath.Join(s.opt.Dir, t.dir)
		topics, err := s.subdirs(root)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			ids, err := s.subdirs(filepath.Join(root, topic))
			if err != nil {
				return err
			}
			for _, name := range ids {
				id, err := strconv.ParseInt(name, 10, 32)
				if err != nil {
					s.strange = append(s.strange, filepath.Join(root, topic, name))
					continue
				}
				q := &Queue{s: s, Topic: topic, ID: int32(id), Type: t.typ, dir: filepath.Join(root, topic, name)}
				var strange []string
				if q.files, strange, err = segfile.List(s.opt.FS, q.dir); err != nil {
					return err
				}
				s.strangeFiles(strange)
				s.queues = append(s.queues, q)
			}
		}
	}
	sort.SliceStable(s.queues, func(i, j int) bool {
		if a, b := s.queues[i], s.queues[j]; a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		return s.queues[i].ID < s.queues[j].ID
	})
	s.sizeQueues()
	return nil
}

// sizeQueues decides how large the files of the queues should be: all queues of
// one type share the setting.
func (s *Store) sizeQueues() {
	for _, typ := range []QueueType{SimpleQueue, BatchQueue} {
		unit := typ.unitBytes()
		votes := map[int64]int{}
		for _, q := range s.queues {
			for _, f := range q.files {
				if q.Type == typ && f.Size > 0 && f.Size%unit == 0 {
					votes[f.Size]++
				}
			}
		}
		size := int64(store.DefaultQueueFileBytes)
		if typ == BatchQueue {
			size = 300000 * unit
		} else if s.opt.QueueFileBytes > 0 {
			votes, size = nil, s.opt.QueueFileBytes
		}
		best := 0
		for v, n := range votes {
			if n > best || n == best && v > size {
				best, size = n, v
			}
		}
		if typ == SimpleQueue {
			s.unitFile = size
		}
		for _, q := range s.queues {
			if q.Type == typ {
				q.fileBytes = size
			}
		}
	}
}

func (s *Store) subdirs(dir string) ([]string, error) {
	entries, err := s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.Dir {
			out = append(out, e.Name)
		}
	}
	return out, nil
}

// Queues lists the queues by topic and number.
func (s *Store) Queues() []*Queue { return s.queues }

// Queue finds one; nil if it has no folder.
func (s *Store) Queue(topic string, id int32) *Queue {
	for _, q := range s.queues {
		if q.Topic == topic && q.ID == id {
			return q
		}
	}
	return nil
}

// SegmentBytes is the size that a file of the log has or should have.
func (s *Store) SegmentBytes() int64 { return s.segBytes }

// LogMin is the position of the first byte of the log.
func (s *Store) LogMin() int64 {
	if b := s.log.Bases(); len(b) > 0 {
		return b[0]
	}
	return 0
}

// logCapacity is the position behind the last file.
func (s *Store) logCapacity() int64 { return s.log.End() }

// logPlace names the commit log file of a position and where in it that is.
func (s *Store) logPlace(pos int64) (file string, offset int64) {
	base := pos / s.segBytes * s.segBytes
	return s.relative(filepath.Join(s.opt.CommitLogDir, segfile.Name(base))), pos - base
}

// relative is a path as findings name it; what is outside stays whole.
func (s *Store) relative(path string) string {
	rel, err := filepath.Rel(s.opt.Dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// File is one data file of the store.
type File struct {
	Path  string // relative to the store folder
	Base  int64  // position of its first byte
	Bytes int64
}

// LogFiles lists the files of the commit log.
func (s *Store) LogFiles() []File { return s.files(s.opt.CommitLogDir, s.logFiles) }

func (s *Store) files(dir string, found []segfile.Found) []File {
	out := make([]File, 0, len(found))
	for _, f := range found {
		out = append(out, File{Path: s.relative(filepath.Join(dir, segfile.Name(f.Base))), Base: f.Base, Bytes: f.Size})
	}
	return out
}

// zeroRun is how many zeros in a row nobody looks behind.
const zeroRun = 256 << 20

// lastByte is the position of the last byte of a file that is not zero, from at
// on; -1 if there is none.
func (s *Store) lastByte(name string, at int64) (int64, error) {
	f, err := s.opt.FS.Open(name)
	if err != nil {
		return -1, err
	}
	defer f.Close() // only read from
	size, err := f.Size()
	if err != nil {
		return -1, err
	}
	last, zeros := int64(-1), int64(0)
	buf := make([]byte, min(1<<20, max(size-at, 1)))
	for at < size && zeros < zeroRun {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if n == 0 {
			return last, fmt.Errorf("read %s at %d: %w", name, at, err)
		}
		i := n - 1
		for i >= 0 && buf[i] == 0 {
			i--
		}
		if i >= 0 {
			last, zeros = at+int64(i), int64(n-1-i)
		} else {
			zeros += int64(n)
		}
		at += int64(n)
	}
	return last, nil
}
