package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pageBytes is the unit in which Mem keeps content: holes take no memory.
const pageBytes = 4096

// Mem is a file system in memory. It is safe for concurrent use.
//
// Every file remembers the pages it changed since its last sync, and every
// folder the names it changed since its last SyncDir, so that CrashClone can
// take any of them back.
type Mem struct {
	// Now gives modification times; time.Now if nil. Set it before use.
	Now func() time.Time

	// mu guards the tree. Content operations hold it for reading, so that a
	// clone sees all files at one moment.
	mu    sync.RWMutex
	root  *node
	ops   []*dirOp // names changed and not synced, oldest first
	locks map[*node]bool

	space space
	life  int // crashes of the machine so far
}

// node is a file or a folder; names are in the folders.
type node struct {
	dir      bool
	children map[string]*node // of a folder: what is there now
	durable  map[string]*node // of a folder: what its last SyncDir made safe

	// Guarded by Mem.mu held for writing.
	links int // names of a file
	opens int // handles of a file

	mu      sync.RWMutex // guards what follows
	content content
	modTime time.Time
}

// dirOp is one change of names that no SyncDir has covered yet. A rename is
// one dirOp: it happens or not, in both folders at once.
type dirOp struct {
	sets []nameChange
}

type nameChange struct {
	dir  *node
	name string
	to   *node // nil: the name is gone
}

// set makes the change in one version of its folder.
func (s nameChange) set(names map[string]*node) {
	if s.to == nil {
		delete(names, s.name)
	} else {
		names[s.name] = s.to
	}
}

var _ FS = (*Mem)(nil)

// NewMem makes an empty file system; "/" and "." are the same folder.
func NewMem() *Mem {
	return &Mem{root: newDir(), locks: map[*node]bool{}}
}

func newDir() *node {
	return &node{dir: true, children: map[string]*node{}, durable: map[string]*node{}}
}

func (m *Mem) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// split cuts a path into its clean elements; none for the root.
func split(name string) []string {
	p := filepath.ToSlash(name)
	if len(p) == 0 || p[0] != '/' {
		p = "/" + p
	}
	if p = path.Clean(p); p == "/" { // without a copy where it is clean
		return nil
	}
	return strings.Split(p[1:], "/")
}

// find returns the node called name. The caller holds mu.
func (m *Mem) find(name string) (*node, error) {
	n := m.root
	for _, e := range split(name) {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		c, ok := n.children[e]
		if !ok {
			return nil, syscall.ENOENT
		}
		n = c
	}
	return n, nil
}

// parent returns the folder that holds name, and the last element.
func (m *Mem) parent(name string) (*node, string, error) {
	elems := split(name)
	if len(elems) == 0 {
		return nil, "", syscall.EINVAL
	}
	n := m.root
	for _, e := range elems[:len(elems)-1] {
		c, ok := n.children[e]
		if !ok {
			return nil, "", syscall.ENOENT
		}
		if !c.dir {
			return nil, "", syscall.ENOTDIR
		}
		n = c
	}
	return n, elems[len(elems)-1], nil
}

// apply makes the changes of one operation and remembers that they are not
// durable.
func (m *Mem) apply(sets ...nameChange) {
	for _, s := range sets {
		if old := s.dir.children[s.name]; old != nil && !old.dir {
			old.links--
			m.release(old)
		}
		s.set(s.dir.children)
		if s.to != nil && !s.to.dir {
			s.to.links++
		}
	}
	m.ops = append(m.ops, &dirOp{sets: sets})
}

// release gives back the space of a file without names and handles.
func (m *Mem) release(n *node) {
	if n.links == 0 && n.opens == 0 {
		n.mu.Lock()
		m.space.give(n.content.charged)
		n.content.charged = 0
		n.mu.Unlock()
	}
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathErr("create", name, err)
	}
	n := dir.children[base]
	switch {
	case n == nil:
		n = &node{modTime: m.now()}
		m.apply(nameChange{dir, base, n})
	case n.dir:
		return nil, pathErr("create", name, syscall.EISDIR)
	default:
		n.mu.Lock()
		n.content.truncate(0, &m.space)
		n.modTime = m.now()
		n.mu.Unlock()
	}
	n.opens++
	return &memFile{m: m, n: n, name: name, write: true}, nil
}

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && n.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	n.opens++
	return &memFile{m: m, n: n, name: name, write: write}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathErr("remove", name, err)
	}
	n := dir.children[base]
	if n == nil {
		return pathErr("remove", name, syscall.ENOENT)
	}
	if n.dir && len(n.children) > 0 {
		return pathErr("remove", name, syscall.ENOTEMPTY)
	}
	m.apply(nameChange{dir, base, nil})
	return nil
}

// RemoveAll implements FS. Every name it removes is a change of its own, as on
// a disk: a crash may leave a part of the tree.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathErr("removeall", name, err)
	}
	if n := dir.children[base]; n != nil {
		m.removeTree(n)
		m.apply(nameChange{dir, base, nil})
	}
	return nil
}

func (m *Mem) removeTree(n *node) {
	for _, name := range sortedNames(n.children) {
		m.removeTree(n.children[name])
		m.apply(nameChange{n, name, nil})
	}
}

func sortedNames(children map[string]*node) []string {
	names := make([]string, 0, len(children))
	for name := range children {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent(oldName)
	if err != nil {
		return pathErr("rename", oldName, err)
	}
	n := from.children[oldBase]
	if n == nil {
		return pathErr("rename", oldName, syscall.ENOENT)
	}
	to, newBase, err := m.parent(newName)
	if err != nil {
		return pathErr("rename", newName, err)
	}
	switch old := to.children[newBase]; {
	case old == n:
		return nil // POSIX: two names of one file, nothing happens
	case old == nil:
	case old.dir && !n.dir:
		return pathErr("rename", newName, syscall.EISDIR)
	case n.dir && !old.dir:
		return pathErr("rename", newName, syscall.ENOTDIR)
	case old.dir && len(old.children) > 0:
		return pathErr("rename", newName, syscall.ENOTEMPTY)
	}
	m.apply(nameChange{to, newBase, n}, nameChange{from, oldBase, nil})
	return nil
}

// Link implements FS.
func (m *Mem) Link(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(oldName)
	if err == nil && n.dir {
		err = syscall.EPERM
	}
	if err != nil {
		return pathErr("link", oldName, err)
	}
	dir, base, err := m.parent(newName)
	if err != nil {
		return pathErr("link", newName, err)
	}
	if dir.children[base] != nil {
		return pathErr("link", newName, syscall.EEXIST)
	}
	m.apply(nameChange{dir, base, n})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, e := range split(dir) {
		c := n.children[e]
		if c == nil {
			c = newDir()
			c.modTime = m.now()
			m.apply(nameChange{n, e, c})
		}
		if !c.dir {
			return pathErr("mkdir", dir, syscall.ENOTDIR)
		}
		n = c
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(dir string) ([]Entry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(dir)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathErr("readdir", dir, err)
	}
	out := make([]Entry, 0, len(n.children))
	for _, name := range sortedNames(n.children) {
		out = append(out, n.children[name].entry(name))
	}
	return out, nil
}

// Split implements FS.
func (m *Mem) Split(dir string) (dirs, others []string, err error) {
	entries, err := m.ReadDir(dir)
	for _, e := range entries {
		if e.Dir {
			dirs = append(dirs, e.Name)
		} else {
			others = append(others, e.Name)
		}
	}
	return dirs, others, err
}

func (n *node) entry(name string) Entry {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Entry{Name: name, Size: n.content.size, Dir: n.dir, ModMillis: n.modTime.UnixMilli()}
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Entry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return Entry{}, pathErr("stat", name, err)
	}
	return n.entry(path.Base(filepath.ToSlash(name))), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathErr("syncdir", dir, err)
	}
	goes := m.syncs(n)
	kept := m.ops[:0]
	for i, op := range m.ops {
		if !goes[i] {
			kept = append(kept, op)
			continue
		}
		for _, s := range op.sets {
			s.set(s.dir.durable)
		}
	}
	clear(m.ops[len(kept):])
	m.ops = kept
	return nil
}

// syncs says which of the pending changes a sync of dir makes safe: its own, and because a
// rename out of it is one in another folder too, what came before that there to the same
// name, as a journal has them in order.
func (m *Mem) syncs(dir *node) []bool {
	type place struct {
		dir  *node
		name string
	}
	goes := make([]bool, len(m.ops))
	names := map[place]bool{}
	for i := len(m.ops) - 1; i >= 0; i-- {
		op := m.ops[i]
		goes[i] = op.touches(dir) || slices.ContainsFunc(op.sets, func(s nameChange) bool { return names[place{s.dir, s.name}] })
		if goes[i] {
			for _, s := range op.sets {
				names[place{s.dir, s.name}] = true
			}
		}
	}
	return goes
}

func (op *dirOp) touches(dir *node) bool {
	for _, s := range op.sets {
		if s.dir == dir {
			return true
		}
	}
	return false
}

type memLock struct {
	m    *Mem
	n    *node
	once sync.Once
}

// Lock implements FS. The locks of a Mem are its own: a clone has none.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.RLock()
	n, err := m.find(name)
	held := err == nil && m.locks[n]
	m.mu.RUnlock()
	if held {
		return nil, &LockedError{Path: name, PID: os.Getpid()}
	}
	if err != nil {
		if err := WriteFile(m, name, []byte("lock")); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err = m.find(name)
	if err != nil {
		return nil, pathErr("lock", name, err)
	}
	if m.locks[n] {
		return nil, &LockedError{Path: name, PID: os.Getpid()}
	}
	m.locks[n] = true
	return &memLock{m: m, n: n}, nil
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		delete(l.m.locks, l.n)
		l.m.mu.Unlock()
	})
	return nil
}

// memDisk is the whole of a Mem.
type memDisk struct{ m *Mem }

// OpenDisk implements FS.
func (m *Mem) OpenDisk(dir string) (Disk, error) {
	if _, err := m.Stat(dir); err != nil {
		return nil, err
	}
	return memDisk{m}, nil
}

func (d memDisk) Holds(name string) bool {
	_, err := d.m.Stat(name)
	return err == nil
}

func (d memDisk) Close() error { return nil }

// Sync makes all contents and names safe.
func (d memDisk) Sync() error {
	d.all((*content).sync)
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	for _, op := range d.m.ops {
		for _, s := range op.sets {
			s.set(s.dir.durable)
		}
	}
	d.m.ops = nil
	return nil
}

// all calls f for every file that has a name.
func (d memDisk) all(f func(c *content)) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	var walk func(n *node)
	walk = func(n *node) {
		for _, child := range n.children {
			walk(child)
		}
		if !n.dir {
			n.mu.Lock()
			f(&n.content)
			n.mu.Unlock()
		}
	}
	walk(d.m.root)
}

// Life implements FS: the same in a ProcessKillClone, another in a CrashClone.
func (m *Mem) Life(string) string { return fmt.Sprintf("mem-%08d", m.life) }
