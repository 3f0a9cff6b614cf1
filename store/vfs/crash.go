package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// Fate says what a crash does to something that was not synced.
type Fate uint8

// The fates.
const (
	FateRandom Fate = iota // any part of it may be there
	FateLost               // all of it is gone
	FateKept               // all of it is there
)

// CrashOptions say how a crash treats what was not synced.
type CrashOptions struct {
	// Data of files. Random: per file all, nothing, or any set of its changed
	// 512-byte sectors, with the old, the new or a length in between.
	Data Fate
	// Names in folders. Random: of each folder the changes up to any point.
	Names Fate
	// ReorderNames lets each change of a name be lost or kept on its own,
	// which is worse than journalling file systems do.
	ReorderNames bool
}

// CrashClone returns the file system as a power loss at this moment could
// leave it: everything synced is there, of the rest what o and rng choose. The
// clone has no open handles and no locks and shares nothing with m; all it
// holds is durable.
func (m *Mem) CrashClone(rng *rand.Rand, o CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.newCloner(func(n *node) content { return n.content.crash(rng, o.Data) })
	c.names = m.crashNames(rng, o)
	out := c.finish()
	out.life++
	return out
}

// ProcessKillClone returns the file system as kill -9 leaves it: everything
// written is there, though not safe from a later crash. Locks are gone. The
// clone shares nothing with m.
func (m *Mem) ProcessKillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.newCloner(func(n *node) content { return n.content.clone() })
	c.names = func(n *node) map[string]*node { return n.children }
	out := c.finish()
	c.copyPending(out)
	return out
}

// crashNames decides about every pending change of a name and returns what is
// in a folder afterwards.
func (m *Mem) crashNames(rng *rand.Rand, o CrashOptions) func(*node) map[string]*node {
	after := map[*node]map[string]*node{}
	names := func(n *node) map[string]*node {
		if after[n] == nil {
			after[n] = maps.Clone(n.durable)
		}
		return after[n]
	}
	pending := map[*node]int{} // changes left per folder
	for _, op := range m.ops {
		pending[op.sets[0].dir]++
	}
	left := map[*node]int{} // changes still to be kept per folder
	for _, op := range m.ops {
		dir := op.sets[0].dir
		if _, drawn := left[dir]; !drawn && o.Names == FateRandom {
			left[dir] = rng.IntN(pending[dir] + 1)
		}
		keep := left[dir] > 0
		left[dir]--
		if o.ReorderNames {
			keep = rng.IntN(2) == 0
		}
		if o.Names == FateKept || o.Names == FateRandom && keep {
			for _, s := range op.sets {
				s.set(names(s.dir))
			}
		}
	}
	return names
}

// cloner copies the part of a tree that is reachable through names.
type cloner struct {
	from    *Mem
	done    map[*node]*node
	names   func(*node) map[string]*node
	content func(*node) content
}

func (m *Mem) newCloner(content func(*node) content) *cloner {
	return &cloner{from: m, done: map[*node]*node{}, content: content}
}

func (c *cloner) finish() *Mem {
	out := NewMem()
	out.Now, out.life = c.from.Now, c.from.life
	c.from.space.mu.Lock()
	out.space.total = c.from.space.total
	c.from.space.mu.Unlock()
	out.root = c.copy(c.from.root)
	for _, n := range c.done {
		out.space.used += n.content.charged
	}
	return out
}

// copy returns the copy of n, the same one for every name of a file.
func (c *cloner) copy(n *node) *node {
	if d := c.done[n]; d != nil {
		return d
	}
	d := &node{dir: n.dir, modTime: n.modTime}
	c.done[n] = d
	if !n.dir {
		d.content = c.content(n)
		return d
	}
	d.children = map[string]*node{}
	from := c.names(n)
	for _, name := range sortedNames(from) {
		child := c.copy(from[name])
		if !child.dir {
			child.links++
		}
		d.children[name] = child
	}
	d.durable = maps.Clone(d.children)
	return d
}

// copyPending gives the clone the same unsynced names as the original.
func (c *cloner) copyPending(out *Mem) {
	for n, d := range c.done {
		if !n.dir {
			continue
		}
		d.durable = map[string]*node{}
		for name, child := range n.durable {
			d.durable[name] = c.copy(child)
		}
	}
	for _, op := range c.from.ops {
		var sets []nameChange
		for _, s := range op.sets {
			s.dir = c.copy(s.dir)
			if s.to != nil {
				s.to = c.copy(s.to)
			}
			sets = append(sets, s)
		}
		out.ops = append(out.ops, &dirOp{sets: sets})
	}
}

func clonePages(pages map[int64][]byte) map[int64][]byte {
	out := make(map[int64][]byte, len(pages))
	for p, pg := range pages {
		out[p] = slices.Clone(pg)
	}
	return out
}

func (c *content) clone() content {
	d := *c
	d.pages = clonePages(c.pages)
	if c.old != nil {
		d.old = clonePages(c.old)
	}
	if c.lost != nil {
		d.lost = clonePages(c.lost)
	}
	return d
}

// crash returns the content after a crash; all of it is durable.
func (c *content) crash(rng *rand.Rand, fate Fate) content {
	mode := fate
	torn := false
	if fate == FateRandom {
		switch rng.IntN(4) {
		case 0:
			mode = FateLost
		case 1:
			mode = FateKept
		default:
			torn = true
		}
	}
	d := c.clone()
	d.forget()
	d.failed = false
	if mode != FateKept {
		if torn {
			d.tear(rng)
		} else {
			d.revert()
		}
	}
	d.sync()
	return d
}

// forget takes back what a failed sync gave up: the memory that showed it is gone.
func (c *content) forget() {
	for p, pg := range c.lost {
		if pg == nil {
			delete(c.pages, p)
		} else {
			c.pages[p] = pg
		}
	}
	if len(c.lost) > 0 {
		c.lost = nil
		c.trim()
	}
}

// revert goes back to the last sync.
func (c *content) revert() {
	for p, pg := range c.old {
		if pg == nil {
			delete(c.pages, p)
		} else {
			c.pages[p] = pg
		}
	}
	c.size = c.durableSize
	c.trim()
}

// tear takes back any set of the changed sectors and perhaps the length.
func (c *content) tear(rng *rand.Rand) {
	changed := slices.Sorted(maps.Keys(c.old))
	for _, p := range changed {
		before, pg := c.old[p], c.pages[p]
		if pg == nil {
			pg = make([]byte, pageBytes)
			c.pages[p] = pg
		}
		for at := 0; at < pageBytes; at += sectorBytes {
			if rng.IntN(2) == 0 {
				continue
			}
			if before == nil {
				clear(pg[at : at+sectorBytes])
			} else {
				copy(pg[at:at+sectorBytes], before[at:at+sectorBytes])
			}
		}
	}
	low, high := min(c.size, c.durableSize), max(c.size, c.durableSize)
	switch rng.IntN(3) {
	case 0:
		c.size = low
	case 1:
		c.size = high
	default:
		if sectors := (high - low) / sectorBytes; sectors > 0 {
			low += rng.Int64N(sectors+1) * sectorBytes
		}
		c.size = low
	}
	c.trim()
}

// trim zeroes what lies behind the end and counts the space anew.
func (c *content) trim() {
	keep := pagesFor(c.size)
	c.reserved = min(c.reserved, keep)
	c.charged = c.reserved * pageBytes
	for p, pg := range c.pages {
		switch {
		case p >= keep:
			delete(c.pages, p)
			continue
		case p == c.size/pageBytes:
			clear(pg[c.size%pageBytes:])
		}
		if p >= c.reserved {
			c.charged += pageBytes
		}
	}
}
