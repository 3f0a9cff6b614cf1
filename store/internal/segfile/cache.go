package segfile

import (
	"sync"

	"mqctl/store/vfs"
)

// Opener opens the file that starts at base. It is comparable: the cache keys
// by it.
type Opener interface {
	OpenAt(base int64) (vfs.File, error)
}

type key struct {
	of   Opener
	base int64
}

// Handle is an open file borrowed from a Cache until Release.
type Handle struct {
	vfs.File
	key        key
	refs       int
	doomed     bool // close when the last borrower releases
	prev, next *Handle
}

// Cache keeps a bounded number of files open, least recently used out first,
// so that tens of thousands of queues need no descriptor each. Files in use
// are never closed: the bound is soft by the number of borrowers.
type Cache struct {
	max int

	mu   sync.Mutex // guards all below
	open map[key]*Handle
	ring Handle // head of the list, most recently used first
}

// NewCache makes a cache of at most max files.
func NewCache(max int) *Cache {
	c := &Cache{max: max, open: make(map[key]*Handle)}
	c.ring.next, c.ring.prev = &c.ring, &c.ring
	return c
}

// Acquire borrows the file of o that starts at base, opening it if needed.
func (c *Cache) Acquire(o Opener, base int64) (*Handle, error) {
	k := key{o, base}
	c.mu.Lock()
	if h := c.open[k]; h != nil {
		h.refs++
		c.toFront(h)
		c.mu.Unlock()
		return h, nil
	}
	c.mu.Unlock()

	f, err := o.OpenAt(base)
	if err != nil {
		return nil, err
	}
	return c.add(k, f), nil
}

// Put hands an open file to the cache and borrows it.
func (c *Cache) Put(o Opener, base int64, f vfs.File) *Handle {
	return c.add(key{o, base}, f)
}

func (c *Cache) add(k key, f vfs.File) *Handle {
	c.mu.Lock()
	if h := c.open[k]; h != nil { // somebody else was faster
		h.refs++
		c.mu.Unlock()
		f.Close() // a second descriptor of the same file; h has the writes
		return h
	}
	h := &Handle{File: f, key: k, refs: 1}
	c.open[k] = h
	h.prev, h.next = &c.ring, c.ring.next
	h.prev.next, h.next.prev = h, h
	victim := c.shrink()
	c.mu.Unlock()
	closeFile(victim)
	return h
}

// shrink takes out one unused file if there are too many. The caller holds mu
// and closes what is returned.
func (c *Cache) shrink() *Handle {
	if len(c.open) <= c.max {
		return nil
	}
	for h := c.ring.prev; h != &c.ring; h = h.prev {
		if h.refs == 0 {
			c.remove(h)
			return h
		}
	}
	return nil
}

func (c *Cache) toFront(h *Handle) {
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = &c.ring, c.ring.next
	h.prev.next, h.next.prev = h, h
}

func (c *Cache) remove(h *Handle) {
	delete(c.open, h.key)
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = nil, nil
}

// Release gives a borrowed file back.
func (c *Cache) Release(h *Handle) {
	var victim *Handle
	c.mu.Lock()
	h.refs--
	if h.doomed && h.refs == 0 {
		victim = h
	} else if !h.doomed {
		victim = c.shrink()
	}
	c.mu.Unlock()
	closeFile(victim)
}

// Forget closes all files of o, those in use when they are released.
func (c *Cache) Forget(o Opener) {
	c.forget(func(h *Handle) bool { return h.key.of == o })
}

// Close closes everything.
func (c *Cache) Close() { c.forget(func(*Handle) bool { return true }) }

func (c *Cache) forget(match func(*Handle) bool) {
	var victims []*Handle
	c.mu.Lock()
	for _, h := range c.open {
		if !match(h) {
			continue
		}
		c.remove(h)
		h.doomed = true
		if h.refs == 0 {
			victims = append(victims, h)
		}
	}
	c.mu.Unlock()
	for _, h := range victims {
		closeFile(h)
	}
}

func closeFile(h *Handle) {
	if h != nil {
		h.Close() // whoever needs durability has synced before
	}
}
