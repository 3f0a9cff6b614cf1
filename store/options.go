package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// Defaults of Options: those of MessageStoreConfig.
const (
	DefaultCommitLogBytes = 1 << 30
	DefaultQueueFileBytes = 6000000
	DefaultMaxMessage     = 4 << 20
	// DefaultQueueExtBytes and DefaultBatchQueueBytes are the sizes of extension files
	// and of files of batch queues.
	DefaultQueueExtBytes   = 48 << 20
	DefaultBatchQueueBytes = 300000 * 46

	minSegmentBytes = 4096
)

// DefaultDelayLevels is messageDelayLevel of the original.
var DefaultDelayLevels = []time.Duration{
	1 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute,
	5 * time.Minute, 6 * time.Minute, 7 * time.Minute, 8 * time.Minute,
	9 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour,
}

// Options of a store. Zero values mean the documented default.
type Options struct {
	FS           vfs.FS // default vfs.OS
	Dir          string // storePathRootDir; must be given
	CommitLogDir string // storePathCommitLog, default Dir/commitlog

	// CommitLogBytes (mappedFileSizeCommitLog, 1 GiB) and QueueFileBytes
	// (mappedFileSizeConsumeQueue, 6000000; rounded up to a multiple of 20) are
	// learned from existing files if 0; a given size that differs from theirs
	// is refused, as the files do not say it.
	CommitLogBytes int64
	QueueFileBytes int64
	// BatchQueueBytes (mapperFileSizeBatchConsumeQueue, 13800000; rounded up to a
	// multiple of 46) and QueueExtBytes (mappedFileSizeConsumeQueueExt, 48 MiB) are
	// learned in the same way. QueueExt (enableConsumeQueueExt) gives new messages an
	// extension unit; those that are there are read without it too.
	BatchQueueBytes int64
	QueueExtBytes   int64
	QueueExt        bool
	// BatchTopic says whether a topic has queue.type=BatchCQ; nil: none has but those
	// with files or inner batches. It is called when a topic gets its first queue here,
	// also during Open, and must not wait or call the store.
	BatchTopic func(topic string) bool

	IndexSlots   int  // maxHashSlotNum, 5000000
	IndexEntries int  // maxIndexNum, 20000000
	IndexOff     bool // messageIndexEnable=false

	// Replica opens the store as one that follows a master (SetReplica). Then
	// damage behind what is known to be on disk is no hole: a recovery cuts there, as the
	// master has what follows.
	Replica bool
	// CutFiles lets a recovery take more than one file of the log away, which else is a
	// DamagedError. They are moved to mqctl.
	CutFiles bool
	// Progress hears how many bytes of the log a recovery has scanned, and how many there are
	// at most; every few MiB. The scan waits for it.
	Progress func(done, total int64)

	SyncFlush     bool          // flushDiskType=SYNC_FLUSH
	FlushInterval time.Duration // flushIntervalCommitLog, 500 ms
	FlushTimeout  time.Duration // syncFlushTimeout, 5 s

	MaxMessage int // maxMessageSize in bytes, 4 MiB; live: SetMaxMessage

	// Bounds of one read: bytes and messages, near the end of the log ("in
	// memory") and further back ("on disk").
	MaxTransferMemoryBytes, MaxTransferMemoryCount int // 262144, 32
	MaxTransferDiskBytes, MaxTransferDiskCount     int // 65536, 8
	MaxFilterBytes                                 int // maxFilterMessageSize, 16000 bytes of units examined by one read

	Retention   Retention // the zero value means DefaultRetention; live: SetRetention
	MemoryBytes int64     // memory for the in-memory rule; 0: the smaller of host and container; live: SetMemoryBytes
	MemoryRatio int       // accessMessageInMemoryMaxRatio in percent, 40 if 0; live: SetMemoryRatio

	DelayLevels []time.Duration // messageDelayLevel, for the tag codes of SCHEDULE_TOPIC_XXXX

	// syncAlone is up to how many queues are synced one by one; 64 if 0.
	syncAlone int
	pid       int // written into abort and progress; the process's own, but for tests of several

	Now func() time.Time // dates messages; default time.Now
	// Steady goes on evenly whatever is done to the machine's clock; default time.Now,
	// whose times are compared without it.
	Steady func() time.Time
	Log    *slog.Logger // default slog.Default
	// OnArrival is called by whoever dispatched, once per queue and round, after
	// new units of q became visible. It must not block and must not append.
	OnArrival func(q *Queue)
	// OnAppend is called after each write of the log, before its dispatch and
	// outside of every lock, with the end of the log, by whoever wrote. It must not
	// block and must not append. It may see ends out of order.
	OnAppend func(end record.PhysOffset)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// withDefaults fills in what is not given and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("store: Dir is not set")
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	setDefault(&o.CommitLogDir, filepath.Join(o.Dir, "commitlog"))
	setDefault(&o.IndexSlots, 5000000)
	setDefault(&o.IndexEntries, 20000000)
	setDefault(&o.pid, processID())
	setDefault(&o.syncAlone, syncAlone)
	setDefault(&o.FlushInterval, 500*time.Millisecond)
	setDefault(&o.FlushTimeout, 5*time.Second)
	setDefault(&o.MaxMessage, DefaultMaxMessage)
	setDefault(&o.MaxTransferMemoryBytes, 262144)
	setDefault(&o.MaxTransferMemoryCount, 32)
	setDefault(&o.MaxTransferDiskBytes, 65536)
	setDefault(&o.MaxTransferDiskCount, 8)
	setDefault(&o.MaxFilterBytes, 16000)
	setDefault(&o.Retention, DefaultRetention())
	setDefault(&o.MemoryRatio, 40)
	if o.DelayLevels == nil {
		o.DelayLevels = DefaultDelayLevels
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Steady == nil {
		o.Steady = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With("component", "store")
	if o.OnAppend == nil {
		o.OnAppend = func(record.PhysOffset) {}
	}
	if o.OnArrival == nil {
		o.OnArrival = func(*Queue) {}
	}
	o.QueueFileBytes = (o.QueueFileBytes + 19) / 20 * 20
	o.BatchQueueBytes = (o.BatchQueueBytes + 45) / 46 * 46
	return o, o.check()
}

func (o *Options) check() error {
	switch {
	case o.CommitLogBytes < 0 || o.CommitLogBytes > 0 && o.CommitLogBytes < minSegmentBytes:
		return fmt.Errorf("store: commit log files of %d bytes: at least %d", o.CommitLogBytes, minSegmentBytes)
	case o.CommitLogBytes > 1<<31-1:
		return fmt.Errorf("store: commit log files of %d bytes: less than 2 GiB, since the format has 32-bit lengths", o.CommitLogBytes)
	case strings.Contains(o.CommitLogDir, ","):
		return fmt.Errorf("store: commit log in several folders (%s): only one is supported", o.CommitLogDir)
	case o.QueueFileBytes < 0 || o.BatchQueueBytes < 0:
		return fmt.Errorf("store: queue files of %d bytes, of batch queues %d", o.QueueFileBytes, o.BatchQueueBytes)
	case o.QueueExtBytes < 0 || o.QueueExtBytes > 0 && o.QueueExtBytes < 64:
		return fmt.Errorf("store: queue extension files of %d bytes: at least 64", o.QueueExtBytes)
	case o.IndexSlots < 0 || o.IndexEntries < 2:
		return fmt.Errorf("store: index of %d slots and %d entries", o.IndexSlots, o.IndexEntries)
	case o.FlushInterval < 0 || o.FlushTimeout < 0:
		return fmt.Errorf("store: negative flush interval or timeout")
	case o.MaxMessage < 10:
		return fmt.Errorf("store: largest message of %d bytes: at least 10", o.MaxMessage)
	}
	return o.Retention.check()
}
