package vfs

import (
	"io"
	"strings"
	"sync"
	"time"
)

// Op is a kind of operation, for hooks and faults.
type Op string

// The operations of FS and File.
const (
	OpCreate      Op = "create"
	OpOpen        Op = "open"
	OpRemove      Op = "remove"
	OpRename      Op = "rename" // path: the new name
	OpLink        Op = "link"   // path: the new name
	OpMkdir       Op = "mkdir"
	OpReadDir     Op = "readdir"
	OpStat        Op = "stat"
	OpSyncDir     Op = "syncdir"
	OpLock        Op = "lock"
	OpUsage       Op = "usage"
	OpRead        Op = "read"
	OpWrite       Op = "write"
	OpTruncate    Op = "truncate"
	OpPreallocate Op = "preallocate"
	OpSync        Op = "sync" // Sync and Datasync
	OpClose       Op = "close"
	OpTimes       Op = "utimes"
	OpOpenDisk    Op = "opendisk"
	OpSyncDisk    Op = "syncdisk" // path: of the folder it was opened by
)

// Changes reports whether the operation changes what is on disk or what is
// safe there: the points at which a crash test cuts.
func (op Op) Changes() bool {
	switch op {
	case OpCreate, OpRemove, OpRename, OpLink, OpMkdir, OpSyncDir,
		OpWrite, OpTruncate, OpPreallocate, OpSync, OpSyncDisk:
		return true
	default:
		return false
	}
}

// Fault makes operations fail.
type Fault struct {
	Op   Op     // empty: any operation with Changes
	Path string // a part of the path; empty: any
	Skip int    // this many matching operations succeed first
	Left int    // this many fail, then it is spent; 0: all from then on
	Err  error  // what the operation returns, e.g. syscall.ENOSPC; nil: it succeeds, after Delay
	// Partial lets a failing write store this many bytes before it fails.
	Partial int
	// Delay is how long the operation takes before it is done or fails: a slow
	// disk. Virtual time under testing/synctest.
	Delay time.Duration
	// Lose makes a failing sync of a file of Mem give up what it was to write,
	// as kernels do: it stays readable, but no later sync writes it.
	Lose bool
}

// Injector wraps a file system. It calls OnOp before each operation and fails
// the operations that a Fault names. It is safe for concurrent use.
type Injector struct {
	FS FS
	// OnOp, if set before use, hears every operation before it is done, also
	// the ones that will fail. It may clone a Mem.
	OnOp func(op Op, path string)

	mu     sync.Mutex
	faults []*Fault
}

var _ FS = (*Injector)(nil)

// NewInjector wraps fsys.
func NewInjector(fsys FS) *Injector { return &Injector{FS: fsys} }

// Fail adds a fault.
func (i *Injector) Fail(f Fault) {
	i.mu.Lock()
	i.faults = append(i.faults, &f)
	i.mu.Unlock()
}

// Heal removes all faults.
func (i *Injector) Heal() {
	i.mu.Lock()
	i.faults = nil
	i.mu.Unlock()
}

// do reports op and returns the fault that fails it, if any.
func (i *Injector) do(op Op, path string) *Fault {
	if i.OnOp != nil {
		i.OnOp(op, path)
	}
	f := i.match(op, path)
	if f == nil {
		return nil
	}
	if f.Delay > 0 {
		<-time.After(f.Delay)
	}
	if f.Err == nil {
		return nil
	}
	return f
}

// match returns the fault that meets op, if any.
func (i *Injector) match(op Op, path string) *Fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, f := range i.faults {
		if f.Op != op && (f.Op != "" || !op.Changes()) || !strings.Contains(path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		hit := *f
		if f.Left > 0 {
			if f.Left--; f.Left == 0 {
				i.faults = append(i.faults[:n:n], i.faults[n+1:]...)
			}
		}
		return &hit
	}
	return nil
}

func (i *Injector) err(op Op, path string) error {
	if f := i.do(op, path); f != nil {
		return pathErr(string(op), path, f.Err)
	}
	return nil
}

func (i *Injector) file(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := i.err(op, name); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &injected{i: i, f: f}, nil
}

// Create implements FS.
func (i *Injector) Create(name string) (File, error) { return i.file(OpCreate, name, i.FS.Create) }

// Open implements FS.
func (i *Injector) Open(name string) (File, error) { return i.file(OpOpen, name, i.FS.Open) }

// OpenReadWrite implements FS.
func (i *Injector) OpenReadWrite(name string) (File, error) {
	return i.file(OpOpen, name, i.FS.OpenReadWrite)
}

// Remove implements FS.
func (i *Injector) Remove(name string) error {
	if err := i.err(OpRemove, name); err != nil {
		return err
	}
	return i.FS.Remove(name)
}

// RemoveAll implements FS.
func (i *Injector) RemoveAll(name string) error {
	if err := i.err(OpRemove, name); err != nil {
		return err
	}
	return i.FS.RemoveAll(name)
}

// Rename implements FS.
func (i *Injector) Rename(oldName, newName string) error {
	if err := i.err(OpRename, newName); err != nil {
		return err
	}
	return i.FS.Rename(oldName, newName)
}

// Link implements FS.
func (i *Injector) Link(oldName, newName string) error {
	if err := i.err(OpLink, newName); err != nil {
		return err
	}
	return i.FS.Link(oldName, newName)
}

// MkdirAll implements FS.
func (i *Injector) MkdirAll(dir string) error {
	if err := i.err(OpMkdir, dir); err != nil {
		return err
	}
	return i.FS.MkdirAll(dir)
}

// ReadDir implements FS.
func (i *Injector) ReadDir(dir string) ([]Entry, error) {
	if err := i.err(OpReadDir, dir); err != nil {
		return nil, err
	}
	return i.FS.ReadDir(dir)
}

// Split implements FS.
func (i *Injector) Split(dir string) (dirs, others []string, err error) {
	if err := i.err(OpReadDir, dir); err != nil {
		return nil, nil, err
	}
	return i.FS.Split(dir)
}

// Stat implements FS.
func (i *Injector) Stat(name string) (Entry, error) {
	if err := i.err(OpStat, name); err != nil {
		return Entry{}, err
	}
	return i.FS.Stat(name)
}

// SyncDir implements FS.
func (i *Injector) SyncDir(dir string) error {
	if err := i.err(OpSyncDir, dir); err != nil {
		return err
	}
	return i.FS.SyncDir(dir)
}

// Lock implements FS.
func (i *Injector) Lock(name string) (io.Closer, error) {
	if err := i.err(OpLock, name); err != nil {
		return nil, err
	}
	return i.FS.Lock(name)
}

// Usage implements FS.
func (i *Injector) Usage(dir string) (Usage, error) {
	if err := i.err(OpUsage, dir); err != nil {
		return Usage{}, err
	}
	return i.FS.Usage(dir)
}

// injectedDisk is a disk of an Injector.
type injectedDisk struct {
	Disk
	i   *Injector
	dir string
}

// OpenDisk implements FS.
func (i *Injector) OpenDisk(dir string) (Disk, error) {
	if err := i.err(OpOpenDisk, dir); err != nil {
		return nil, err
	}
	d, err := i.FS.OpenDisk(dir)
	if d == nil || err != nil {
		return nil, err
	}
	return &injectedDisk{Disk: d, i: i, dir: dir}, nil
}

func (d *injectedDisk) Sync() error {
	fault := d.i.do(OpSyncDisk, d.dir)
	if fault == nil {
		return d.Disk.Sync()
	}
	if m, ok := d.Disk.(memDisk); ok && fault.Lose {
		m.all(func(c *content) {
			c.failed = c.failed || len(c.old) > 0
			c.giveUp()
		})
	}
	return pathErr(string(OpSyncDisk), d.dir, fault.Err)
}

// Life implements FS.
func (i *Injector) Life(dir string) string { return i.FS.Life(dir) }

// injected is a file of an Injector.
type injected struct {
	i *Injector
	f File
}

func (f *injected) Name() string         { return f.f.Name() }
func (f *injected) Size() (int64, error) { return f.f.Size() }

func (f *injected) ReadAt(b []byte, off int64) (int, error) {
	if err := f.i.err(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.f.ReadAt(b, off)
}

func (f *injected) WriteAt(b []byte, off int64) (int, error) {
	fault := f.i.do(OpWrite, f.Name())
	if fault == nil {
		return f.f.WriteAt(b, off)
	}
	n := 0
	if part := min(fault.Partial, len(b)); part > 0 {
		var err error
		if n, err = f.f.WriteAt(b[:part], off); err != nil {
			return n, err
		}
	}
	return n, pathErr(string(OpWrite), f.Name(), fault.Err)
}

func (f *injected) Truncate(size int64) error {
	if err := f.i.err(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.f.Truncate(size)
}

func (f *injected) Preallocate(size int64) error {
	if err := f.i.err(OpPreallocate, f.Name()); err != nil {
		return err
	}
	return f.f.Preallocate(size)
}

func (f *injected) Sync() error     { return f.sync(f.f.Sync) }
func (f *injected) Datasync() error { return f.sync(f.f.Datasync) }

func (f *injected) sync(do func() error) error {
	fault := f.i.do(OpSync, f.Name())
	if fault == nil {
		return do()
	}
	if m, ok := f.f.(*memFile); ok && fault.Lose {
		m.loseUnsynced()
	}
	return pathErr(string(OpSync), f.Name(), fault.Err)
}

func (f *injected) Close() error {
	// A close that fails still releases the handle, as close(2) does.
	fault := f.i.err(OpClose, f.Name())
	if err := f.f.Close(); err != nil {
		return err
	}
	return fault
}
