package vfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// content is what a file holds, and what its last sync made safe.
//
// Invariants: a page that is in neither map reads as zeros; old and lost
// have exactly the pages that differ (or may differ) from the durable content;
// bytes of a page behind size are zero.
type content struct {
	size  int64
	pages map[int64][]byte

	durableSize int64
	old         map[int64][]byte // durable content of changed pages; nil for a hole
	lost        map[int64][]byte // the same of pages that a failed sync gave up; in one of both at most

	// failed says that a sync of the whole disk gave up pages of this file: as in a
	// kernel, its own next sync fails for it.
	failed bool

	reserved int64 // pages [0, reserved) have blocks through Preallocate
	charged  int64 // bytes of disk this file takes
}

// space is the size of the disk; 0 means without bound.
type space struct {
	mu          sync.Mutex
	total, used int64
}

func (s *space) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total > 0 && s.used+n > s.total {
		return false
	}
	s.used += n
	return true
}

func (s *space) give(n int64) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
}

// SetCapacity bounds the disk to total bytes: what does not fit fails with
// ENOSPC. 0 takes the bound away.
func (m *Mem) SetCapacity(total int64) {
	m.space.mu.Lock()
	m.space.total = total
	m.space.mu.Unlock()
}

// Usage implements FS. A disk without bound reports one TiB.
func (m *Mem) Usage(dir string) (Usage, error) {
	if _, err := m.Stat(dir); err != nil {
		return Usage{}, err
	}
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	total := m.space.total
	if total == 0 {
		total = 1 << 40
	}
	free := max(total-m.space.used, 0)
	return Usage{Total: total, Free: free, Avail: free}, nil
}

func pagesFor(bytes int64) int64 { return (bytes + pageBytes - 1) / pageBytes }

// page returns page p for writing, remembering what it held at the last sync;
// nil if the disk is full.
func (c *content) page(p int64, sp *space) []byte {
	pg := c.pages[p]
	if _, saved := c.old[p]; !saved {
		if c.old == nil {
			c.old = map[int64][]byte{}
		}
		if before, was := c.lost[p]; was {
			c.old[p] = before // dirty again
			delete(c.lost, p)
		} else {
			c.old[p] = slices.Clone(pg)
		}
	}
	if pg == nil {
		if p >= c.reserved {
			if !sp.take(pageBytes) {
				return nil
			}
			c.charged += pageBytes
		}
		pg = make([]byte, pageBytes)
		if c.pages == nil {
			c.pages = map[int64][]byte{}
		}
		c.pages[p] = pg
	}
	return pg
}

func (c *content) writeAt(b []byte, off int64, sp *space) (int, error) {
	done := 0
	for done < len(b) {
		pg := c.page(off/pageBytes, sp)
		if pg == nil {
			return done, syscall.ENOSPC
		}
		n := copy(pg[off%pageBytes:], b[done:])
		done += n
		off += int64(n)
		c.size = max(c.size, off)
	}
	return done, nil
}

func (c *content) readAt(b []byte, off int64) (int, error) {
	if off >= c.size {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	want := len(b)
	if rest := c.size - off; int64(want) > rest {
		b = b[:rest]
	}
	for done := 0; done < len(b); {
		at := off % pageBytes
		n := min(len(b)-done, int(pageBytes-at))
		if pg := c.pages[off/pageBytes]; pg != nil {
			copy(b[done:done+n], pg[at:])
		} else {
			clear(b[done : done+n])
		}
		done += n
		off += int64(n)
	}
	if len(b) < want {
		return len(b), io.EOF
	}
	return want, nil
}

func (c *content) truncate(size int64, sp *space) {
	if size < c.size {
		keep := pagesFor(size)
		for p := range c.pages {
			if p < keep {
				continue
			}
			if _, saved := c.old[p]; !saved {
				c.page(p, sp)
			}
			delete(c.pages, p)
		}
		if at := size % pageBytes; at != 0 && c.pages[size/pageBytes] != nil {
			clear(c.page(size/pageBytes, sp)[at:])
		}
		c.reserved = min(c.reserved, keep)
		now := c.reserved * pageBytes
		for p := range c.pages {
			if p >= c.reserved {
				now += pageBytes
			}
		}
		sp.give(c.charged - now)
		c.charged = now
	}
	c.size = size
}

func (c *content) preallocate(size int64, sp *space) error {
	want := pagesFor(size)
	if want > c.reserved {
		more := want - c.reserved
		for p := range c.pages {
			if p >= c.reserved && p < want {
				more--
			}
		}
		if !sp.take(more * pageBytes) {
			return syscall.ENOSPC
		}
		c.charged += more * pageBytes
		c.reserved = want
	}
	c.size = max(c.size, size)
	return nil
}

func (c *content) sync() {
	c.durableSize = c.size
	c.old = nil
}

// giveUp is a sync that failed as kernels fail it: what was to be written counts
// as written, stays readable, and is on no disk. Only a page that is changed
// again has another chance.
func (c *content) giveUp() {
	if c.lost == nil {
		c.lost = map[int64][]byte{}
	}
	maps.Copy(c.lost, c.old)
	c.old = nil
}

// memFile is a handle.
type memFile struct {
	m      *Mem
	n      *node
	name   string
	write  bool
	closed atomic.Bool
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) check(op string, write bool) error {
	if f.closed.Load() {
		return pathErr(op, f.name, fs.ErrClosed)
	}
	if write && !f.write {
		return pathErr(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("read", f.name, syscall.EINVAL)
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.content.readAt(b, off)
}

// change runs do on the content under the locks that a change needs.
func (f *memFile) change(op string, do func(c *content) error) error {
	if err := f.check(op, true); err != nil {
		return err
	}
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	f.n.modTime = f.m.now()
	if err := do(&f.n.content); err != nil {
		return pathErr(op, f.name, err)
	}
	return nil
}

func (f *memFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.change("write", func(c *content) error {
		if off < 0 {
			return syscall.EINVAL
		}
		var err error
		n, err = c.writeAt(b, off, &f.m.space)
		return err
	})
	return n, err
}

func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.content.size, nil
}

func (f *memFile) Truncate(size int64) error {
	return f.change("truncate", func(c *content) error {
		if size < 0 {
			return syscall.EINVAL
		}
		c.truncate(size, &f.m.space)
		return nil
	})
}

func (f *memFile) Preallocate(size int64) error {
	return f.change("fallocate", func(c *content) error {
		if size < 0 {
			return syscall.EINVAL
		}
		return c.preallocate(size, &f.m.space)
	})
}

func (f *memFile) Sync() error {
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if f.n.content.failed {
		f.n.content.failed = false
		f.n.content.giveUp()
		return pathErr("sync", f.name, syscall.EIO)
	}
	f.n.content.sync()
	return nil
}

func (f *memFile) Datasync() error { return f.Sync() }

// loseUnsynced is what a failing sync does for a Fault with Lose.
func (f *memFile) loseUnsynced() {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	f.n.content.giveUp()
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathErr("close", f.name, fs.ErrClosed)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.opens--
	f.m.release(f.n)
	return nil
}
