package store

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
	"mqctl/store/vfs"

	"golang.org/x/sync/errgroup"
)

// Store is an open store.
//
// The lock order is in the package comment.
type Store struct {
	opt      Options
	queueDir string // Dir/consumequeue
	ownDir   string // Dir/mqctl, files Apache does not know

	lock   io.Closer
	disk   vfs.Disk // holds the queues, to sync them all at once; nil: it cannot
	life   string   // of the folder (vfs.FS.Life)
	log    *commitlog.Log
	shared *consumequeue.Shared
	batch  *consumequeue.Shared // of batch queues
	queues queueTable
	// batchTopics are those with batch queues. Guarded by queues.mu.
	batchTopics map[string]bool
	hasExt      bool            // extension units are written or there
	index       *keyindex.Index // nil: off
	check       *checkpoint.File

	maxMessage  atomic.Int64
	memoryRatio atomic.Int64
	retention   atomic.Pointer[Retention] // in effect
	memoryBytes atomic.Int64

	appendMu   sync.Mutex // the append lock: order of the log, queue offsets, store time
	lastMillis int64      // newest store time given out; guarded by appendMu
	slow       slowClock  // guarded by appendMu
	joiner     joiner
	batches    sync.Pool // of *Batch
	bursts     sync.Pool // of *batchMemory

	flush         flusher
	storedMillis  atomic.Int64 // store time of the newest record
	flushedMillis atomic.Int64 // all records up to this store time are flushed

	disp             dispatcher
	queuedEnd        atomic.Int64 // position behind the newest record
	dispatched       atomic.Int64 // every record before it is visible
	dispatchedMillis int64        // store time of the newest of them; guarded by the dispatch lock
	hashBuf          []int32      // guarded by the dispatch lock

	prepareWake chan struct{}
	keepWake    chan struct{}
	writeWake   chan struct{}
	markWake    chan struct{}
	keep        keeper
	note        noter
	retain      retainer

	raw        rawState
	recovering bool                       // Open is at work
	holesDue   bool                       // the side file may differ from the log's holes
	replica    atomic.Bool                // see SetReplica; changed under raw.mu and the append lock
	lastPhys   atomic.Int64               // where the newest record begins; -1: RecordBefore knows
	restarts   atomic.Uint64              // grows when a queue begins anew, its old messages being in the log as before
	cuts       atomic.Uint64              // grows when messages are taken back: what is read meanwhile counts no more
	deletions  atomic.Pointer[[]numbered] // by number; written under keep.mu

	running atomic.Bool
	closed  atomic.Bool
	full    atomic.Bool
	sick    atomic.Pointer[error]

	scarce    scarcity
	damaged   scarcity // of complaints about records that cannot be served
	indexSick atomic.Bool
	stats     putStats
	reads     sync.Pool // of *readBuffer

	closeOnce sync.Once
	closeErr  error
}

// Recovery says what Open found.
type Recovery struct {
	Clean        bool // no abort file
	Min, Max     record.PhysOffset
	FilesChecked int      // commit log files that were scanned
	CutBytes     int64    // bytes behind the last whole record that were zeroed
	Notes        []string // one sentence each: damage found, what was done
	Findings     []Finding
	Took         time.Duration
}

// DamagedError says that a human must decide before the store can be opened.
type DamagedError struct {
	What  string // what is wrong
	Where string // file or folder
	Try   string // what helps
	Err   error  // may be nil
}

func (e *DamagedError) Error() string {
	msg := e.Where + ": " + e.What
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg + "; try: " + e.Try
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

const (
	maxOpenQueueFiles = 512
	queueBufferBytes  = 32 << 20
)

// Open locks the folder, writes abort, recovers. Errors: *vfs.LockedError
// (store in use), *DamagedError (needs a human; has Try, the command that helps).
// An empty folder is an empty store.
func Open(o Options) (*Store, Recovery, error) {
	begin := time.Now()
	o, err := o.withDefaults()
	if err != nil {
		return nil, Recovery{}, err
	}
	s := newStore(o)
	s.retain.age = ageClock{date: o.Now(), steady: o.Steady()}
	var rec Recovery
	if err := s.open(&rec); err != nil {
		_ = s.closeFiles() // the first error is the one that matters
		return nil, rec, err
	}
	s.renumber()
	rec.Min, rec.Max = record.PhysOffset(s.log.Min()), record.PhysOffset(s.log.End())
	rec.Took = time.Since(begin)
	s.checkDisk()
	return s, rec, nil
}

func newStore(o Options) *Store {
	s := &Store{
		opt: o, queueDir: filepath.Join(o.Dir, "consumequeue"), ownDir: filepath.Join(o.Dir, "mqctl"),
		prepareWake: make(chan struct{}, 1), keepWake: make(chan struct{}, 1),
		writeWake: make(chan struct{}, 1), markWake: make(chan struct{}, 1),
	}
	s.flush.wake, s.flush.armed = make(chan struct{}, 1), make(chan struct{}, 1)
	s.lastPhys.Store(-1)
	s.replica.Store(o.Replica)
	s.queues.topics = map[string]*topicQueues{}
	s.batchTopics = map[string]bool{}
	s.batches.New = func() any { return new(Batch) }
	s.bursts.New = func() any { return new(batchMemory) }
	s.reads.New = func() any { return new(readBuffer) }
	s.SetMaxMessage(o.MaxMessage)
	s.SetMemoryRatio(o.MemoryRatio)
	s.SetMemoryBytes(o.MemoryBytes)
	s.retain.wake, s.retain.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	s.SetRetention(o.Retention)
	return s
}

// SetMaxMessage changes the largest body in bytes (maxMessageSize) from the
// next message on.
func (s *Store) SetMaxMessage(bytes int) { s.maxMessage.Store(int64(bytes)) }

// SetMemoryRatio changes accessMessageInMemoryMaxRatio, in percent.
func (s *Store) SetMemoryRatio(percent int) { s.memoryRatio.Store(int64(percent)) }

// SetMemoryBytes changes the memory that the ratio refers to; 0 or less: the smaller of
// the machine's and the container's.
func (s *Store) SetMemoryBytes(bytes int64) {
	if bytes <= 0 {
		bytes = machineMemory()
	}
	s.memoryBytes.Store(bytes)
}

// MemoryBytes is the total used by the memory rule.
func (s *Store) MemoryBytes() int64 { return s.memoryBytes.Load() }

func (s *Store) abortFile() string      { return filepath.Join(s.opt.Dir, "abort") }
func (s *Store) checkpointFile() string { return filepath.Join(s.opt.Dir, "checkpoint") }
func (s *Store) progressFile() string   { return filepath.Join(s.ownDir, "progress") }
func (s *Store) indexDir() string       { return filepath.Join(s.opt.Dir, "index") }

// Run runs the goroutines of the package comment (flusher, makers of files, keeper, marker,
// retainer) until ctx ends; owned by the caller's errgroup.
func (s *Store) Run(ctx context.Context) error {
	s.running.Store(true)
	defer func() {
		s.running.Store(false)
		s.flushOnce() // whoever registered while the flusher was ending
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.flushLoop(ctx) })
	g.Go(func() error { return s.prepareLoop(ctx) })
	g.Go(func() error { return s.keepLoop(ctx) })
	g.Go(func() error { return s.markLoop(ctx) })
	g.Go(func() error { return s.rollLoop(ctx) })
	g.Go(func() error { return s.retainLoop(ctx) })
	if s.opt.SyncFlush {
		g.Go(func() error { return s.deadlineLoop(ctx) })
	}
	return g.Wait()
}

// prepareLoop makes segments ahead of need.
func (s *Store) prepareLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.prepareWake:
		}
		if s.closed.Load() || !s.log.NeedsPrepare() {
			continue
		}
		if err := s.log.Prepare(); err != nil {
			s.prepareFailed(err)
		}
	}
}

// Close ends the store: no appends after it; it dispatches, flushes, writes the
// checkpoint, removes abort and unlocks, in this order. If something of that
// fails, abort stays, and the next start recovers.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.closed.Store(true)
	s.appendMu.Lock()   // who appends now finishes,
	s.appendMu.Unlock() //nolint:staticcheck // who comes later sees closed: nothing is to be done between
	err := s.settle()
	if cerr := s.closeFiles(); err == nil {
		err = cerr
	}
	return err
}

// settle makes everything durable and says so on disk.
func (s *Store) settle() error {
	// 1. The log.
	for s.flushOnce() {
		continue
	}
	s.release(-1, ServiceNotAvailable) // nobody can wait for more
	if err := s.sick.Load(); err != nil {
		return *err
	}
	if err := s.log.ClearTail(); err != nil {
		return fmt.Errorf("clear what a failed write left in the commit log: %w", err)
	}
	if err := s.log.DropReady(); err != nil {
		return fmt.Errorf("remove the unused commit log file: %w", err)
	}
	// 2. Queues and index.
	s.disp.mu.Lock()
	s.disp.stalled = false
	s.drain(false)
	s.putMissed()
	stalled := s.disp.stalled
	s.disp.mu.Unlock()
	if stalled || s.dispatched.Load() < s.queuedEnd.Load() {
		return fmt.Errorf("close the store: messages behind %d have no queue entries yet", s.dispatched.Load())
	}
	// 3. Checkpoint and progress.
	if err := s.mark(true); err != nil {
		return err
	}
	// 4. The sign of a clean stop.
	if err := s.opt.FS.Remove(s.abortFile()); err != nil {
		return err
	}
	return s.opt.FS.SyncDir(s.opt.Dir)
}

// closeFiles closes what is open, whatever state the store is in.
func (s *Store) closeFiles() error {
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	if s.index != nil {
		keep(s.index.Close())
	}
	if s.shared != nil {
		s.shared.Files.Close()
	}
	if s.log != nil {
		s.closeExpired()
		keep(s.log.Close())
	}
	if s.check != nil {
		keep(s.check.Close())
	}
	if s.disk != nil {
		keep(s.disk.Close())
	}
	if s.lock != nil {
		keep(s.lock.Close())
	}
	return first
}

// Positions of the log, for stats.
type Positions struct {
	Min, Flushed, Max record.PhysOffset
	Confirmed         record.PhysOffset // up to where messages may become visible
	Dispatched        record.PhysOffset // up to where they are
}

// Positions returns where the log begins and ends.
func (s *Store) Positions() Positions {
	return Positions{
		Min: record.PhysOffset(s.log.Min()), Flushed: record.PhysOffset(s.log.Flushed()),
		Max: record.PhysOffset(s.log.End()), Confirmed: record.PhysOffset(s.confirmed()),
		Dispatched: record.PhysOffset(s.dispatched.Load()),
	}
}

func (s *Store) confirmed() int64 {
	if s.opt.SyncFlush {
		return s.log.Flushed()
	}
	return s.log.End()
}

func (s *Store) pidText() []byte { return []byte(strconv.Itoa(s.opt.pid)) }
