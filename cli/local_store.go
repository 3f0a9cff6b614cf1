package cli

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"mqctl/broker"
	"mqctl/broker/delay"
	"mqctl/store/inspect"
	"mqctl/store/vfs"
)

// storeFlags are those of every command on a store folder.
func storeFlags(own ...flagSpec) []flagSpec {
	return append(own,
		flagSpec{key: "commit-log", meta: "DIR", complete: "file", help: "the commit log lies here (storePathCommitLog; default: DIR/commitlog)"},
		flagSpec{key: "commit-log-size", meta: "BYTES", help: "size of its files (mappedFileSizeCommitLog; default: learned from the files)"},
		flagSpec{key: "queue-file-size", meta: "BYTES", help: "size of queue files (mappedFileSizeConsumeQueue; default: learned from the files)"},
		flagSpec{key: "index-slots", kind: kindInt, min: 1, max: 1 << 29, meta: "N", help: "maxHashSlotNum (default: a quarter as many slots as entries)"},
	)
}

// forceRead is the flag of commands that can also read the folder of a broker that runs.
func forceRead() flagSpec {
	return flagSpec{key: "force-read", kind: kindBool, help: "read the folder even while a broker has it in use; what it has not written yet is missing"}
}

// changesStore are the flags of commands that change a folder.
func changesStore(own ...flagSpec) []flagSpec {
	return storeFlags(append(own,
		flagSpec{key: "dry-run", kind: kindBool, env: []string{"MQCTL_DRY_RUN"}, help: "say what would be done, write nothing"},
		flagSpec{key: "yes", letter: "y", kind: kindBool, env: []string{"MQCTL_YES"}, help: "do not ask"},
	)...)
}

// configFlag is the flag of commands that make queue entries: those of delayed messages have
// the time at which they are due.
func configFlag() flagSpec {
	return flagSpec{key: "config", letter: "c", meta: "FILE", complete: "file", help: "the broker's file, for messageDelayLevel (default: what the store's own settings say)"}
}

// delayLevels are those of the broker whose folder it is: of its file, or of what admin
// tools saved in the folder. A warning says that the latter cannot be read.
func (c *call) delayLevels(dir string) (levels []time.Duration, warn *Message, err error) {
	if c.str("config") != "" {
		cfg, err := storeConfig(c, dir, nil)
		if err != nil {
			return nil, nil, err
		}
		if levels, err = delay.ParseLevels(cfg.Value("messageDelayLevel")); err != nil {
			return nil, nil, badConfig(&broker.ConfigError{File: c.str("config"), Key: "messageDelayLevel", Why: err.Error()})
		}
		return levels, nil, nil
	}
	cfg, err := storeConfig(c, dir, vfs.OS{})
	if err == nil {
		levels, err = delay.ParseLevels(cfg.Value("messageDelayLevel"))
	}
	if err != nil {
		m := warning("DEFAULT_DELAY_LEVELS", dir, "the broker's settings cannot be read (%v): delayed messages get the usual levels", oneLine(err.Error()))
		m.Try = []string{"--config FILE"}
		return nil, &m, nil
	}
	return levels, nil, nil
}

// storeCommands are the commands on a store folder whose broker is stopped.
func storeCommands() []*command {
	return []*command{storeVerifyCommand(), storeDumpCommand(), storeOffsetsCommand(), storeRepairCommand(), storeExportCommand(), storeImportCommand()}
}

// openedStore is a folder that is read, with what keeps others from writing to it.
type openedStore struct {
	*inspect.Store
	dir  string
	lock io.Closer

	logBytes, queueBytes int64 // --commit-log-size, --queue-file-size; 0: not given
}

func (o *openedStore) close() {
	_ = o.Close() // only read from
	if o.lock != nil {
		_ = o.lock.Close()
	}
}

// openStore opens the folder of the first argument for reading.
func (c *call) openStore(progress func(done, total int64)) (*openedStore, error) {
	dir, err := filepath.Abs(c.arg(0))
	if err != nil {
		return nil, usage("BAD_VALUE", "%q: %v", c.arg(0), err)
	}
	o := inspect.Options{Dir: dir, CommitLogDir: c.str("commit-log"), IndexSlots: int(c.whole("index-slots")), Progress: progress}
	for key, to := range map[string]*int64{"commit-log-size": &o.CommitLogBytes, "queue-file-size": &o.QueueFileBytes} {
		if !c.given(key) {
			continue
		}
		if *to, err = parseSize(c.str(key)); err != nil || *to < 20 || *to > 1<<31 {
			return nil, usage("BAD_VALUE", "--%s: %q is no size of a file", key, c.str(key)).because("a number of bytes up to 2 GiB is expected: 1073741824, 1GiB")
		}
	}
	lock, live, err := c.shareStore(dir)
	if err != nil {
		return nil, err
	}
	o.Live = live
	s, err := inspect.Open(o)
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		return nil, notStore(dir, err)
	}
	return &openedStore{Store: s, dir: dir, lock: lock, logBytes: o.CommitLogBytes, queueBytes: o.QueueFileBytes}, nil
}

// shareStore keeps brokers from the folder as long as it is read. With --force-read
// one that runs is let alone.
func (c *call) shareStore(dir string) (lock io.Closer, live bool, err error) {
	lock, err = vfs.Share(lockPath(dir))
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		if c.flag("force-read") != nil && c.on("force-read") {
			return nil, true, nil
		}
		return nil, false, c.storeInUse(dir, locked.PID)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, notStore(dir, err)
	}
	return lock, false, nil
}

func (c *call) storeInUse(dir string, pid int) *Message {
	m := fail(ExitStoreInUse, "STORE_IN_USE", "store %s is in use by %s", dir, storeUser(c.io.Env, dir, pid)).
		because("nothing was read or changed").try("mqctl broker stop --store " + shellWord(dir))
	if c.flag("force-read") != nil {
		m = m.try("--force-read")
	}
	return m
}

// notStore says why a folder cannot be read.
func notStore(dir string, err error) error {
	var no *inspect.NotStoreError
	switch {
	case errors.As(err, &no):
		return fail(ExitNotFound, "NO_STORE", "%v", no).because("the folder of storePathRootDir is expected").try("mqctl broker list --local")
	case errors.Is(err, fs.ErrNotExist):
		return fail(ExitNotFound, "NO_STORE", "there is no folder %s", dir).because("the folder of storePathRootDir is expected").try("mqctl broker list --local")
	case errors.Is(err, fs.ErrPermission):
		return fail(ExitDenied, "DENIED", "%v", err).because("the folder belongs to the broker's user").try("run as that user")
	}
	if m := wrongKind(err); m != nil {
		return m
	}
	return fail(ExitFailed, "READ_FAILED", "%v", err)
}
