package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// Mem is a file system in memory that knows what would survive a power cut.
//
// Each file keeps two images, what a reader sees and what was synced; each directory keeps two sets of names in the same way. Crash
// makes the file system that a machine would find after losing power at this moment. Changes of names are kept as a list of whole
// operations, because a journalling file system may lose a rename but never half of one.
type Mem struct {
	mu      sync.Mutex // guards everything below, and every node
	root    *memNode
	pending []nameOp // changes of names that no SyncDir has covered, oldest first
	locks   map[string]bool
	clock   func() int64
	free    int64
	total   int64
	// capacity is how many bytes fit, 0 for as many as there are.
	capacity int64
}

// memNode is a file or a directory. Handles share it, so that a removed file stays readable.
type memNode struct {
	dir    bool
	live   map[string]*memNode // names as seen now
	synced map[string]*memNode // names after a power cut

	data    []byte // bytes as seen now
	disk    []byte // bytes after a power cut that keeps nothing unsynced
	dirty   []span // sectors of data that may differ from disk
	modTime int64
}

type span struct{ from, to int64 }

// nameOp is one pending change of names: node appears in dir under name, and disappears from fromDir when that is set.
type nameOp struct {
	dir     *memNode
	name    string
	node    *memNode // nil removes
	fromDir *memNode
	from    string
}

func newDir() *memNode {
	return &memNode{dir: true, live: map[string]*memNode{}, synced: map[string]*memNode{}}
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{root: newDir(), locks: map[string]bool{}, free: 1 << 40, total: 1 << 41}
}

// SetClock gives files a modification time in milliseconds. Without a clock it is 0.
func (m *Mem) SetClock(now func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = now
}

// SetDiskFree sets what DiskFree reports without a capacity, in bytes. It limits nothing.
func (m *Mem) SetDiskFree(free, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free, m.total = free, total
}

// split resolves a path to its elements.
func split(p string) []string {
	p = path.Clean("/" + p)
	if p == "/" {
		return nil
	}
	return strings.Split(p[1:], "/")
}

// find walks to a node. The caller holds mu.
func (m *Mem) find(op, p string) (*memNode, error) {
	n := m.root
	for _, el := range split(p) {
		if !n.dir {
			return nil, &fs.PathError{Op: op, Path: p, Err: syscall.ENOTDIR}
		}
		next, ok := n.live[el]
		if !ok {
			return nil, &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
		}
		n = next
	}
	return n, nil
}

// parent walks to the directory of p and returns it with the last element. The caller holds mu.
func (m *Mem) parent(op, p string) (*memNode, string, error) {
	els := split(p)
	if len(els) == 0 {
		return nil, "", &fs.PathError{Op: op, Path: p, Err: fs.ErrInvalid}
	}
	last := len(els) - 1
	dir, err := m.find(op, strings.Join(els[:last], "/"))
	if err != nil {
		return nil, "", &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
	}
	if !dir.dir {
		return nil, "", &fs.PathError{Op: op, Path: p, Err: syscall.ENOTDIR}
	}
	return dir, els[last], nil
}

// change applies a change of names to what readers see and remembers it as not durable. The caller holds mu.
func (m *Mem) change(op nameOp) {
	op.apply(func(d *memNode) map[string]*memNode { return d.live })
	m.pending = append(m.pending, op)
}

// apply carries out one operation on one of the two sets of names.
func (op nameOp) apply(names func(*memNode) map[string]*memNode) {
	if op.fromDir != nil {
		if names(op.fromDir)[op.from] != op.node {
			return // the name that would be renamed was itself lost
		}
		delete(names(op.fromDir), op.from)
	}
	if op.node == nil {
		delete(names(op.dir), op.name)
		return
	}
	names(op.dir)[op.name] = op.node
}

// Open opens an existing file for reading.
func (m *Mem) Open(p string) (File, error) { return m.OpenFile(p, ReadOnly) }

// Create makes or empties a file.
func (m *Mem) Create(p string) (File, error) { return m.OpenFile(p, Truncated) }

// OpenFile opens a file as flag says.
func (m *Mem) OpenFile(p string, flag Flag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.parent("open", p)
	if err != nil {
		return nil, err
	}
	n, ok := dir.live[name]
	makes := flag == Append || flag == Exclusive || flag == Truncated
	switch {
	case !ok && !makes:
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	case ok && flag == Exclusive:
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrExist}
	case ok && n.dir:
		return nil, &fs.PathError{Op: "open", Path: p, Err: syscall.EISDIR}
	case !ok:
		if err := m.makes("open", p); err != nil {
			return nil, err
		}
		n = &memNode{modTime: m.now()}
		m.change(nameOp{dir: dir, name: name, node: n})
	case flag == Truncated:
		n.truncate(0)
		n.modTime = m.now()
	}
	return &memFile{fs: m, node: n, name: p, pos: int64(len(n.data)), readOnly: flag == ReadOnly}, nil
}

// Remove deletes one file or empty directory.
func (m *Mem) Remove(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.parent("remove", p)
	if err != nil {
		return err
	}
	n, ok := dir.live[name]
	if !ok {
		return &fs.PathError{Op: "remove", Path: p, Err: fs.ErrNotExist}
	}
	if n.dir && len(n.live) > 0 {
		return &fs.PathError{Op: "remove", Path: p, Err: syscall.ENOTEMPTY}
	}
	m.change(nameOp{dir: dir, name: name})
	return nil
}

// RemoveAll deletes a tree.
func (m *Mem) RemoveAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.parent("remove", p)
	if err != nil {
		return nil // what has no parent does not exist
	}
	n, ok := dir.live[name]
	if !ok {
		return nil
	}
	m.removeTree(n)
	m.change(nameOp{dir: dir, name: name})
	return nil
}

// removeTree empties a directory entry by entry, as the real call does, so that a crash may find any part of it gone.
func (m *Mem) removeTree(n *memNode) {
	for _, name := range sortedNames(n.live) {
		m.removeTree(n.live[name])
		m.change(nameOp{dir: n, name: name})
	}
}

// Rename replaces newPath by oldPath.
func (m *Mem) Rename(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, fromName, err := m.parent("rename", oldPath)
	if err != nil {
		return err
	}
	to, toName, err := m.parent("rename", newPath)
	if err != nil {
		return err
	}
	n, ok := from.live[fromName]
	if !ok {
		return &fs.PathError{Op: "rename", Path: oldPath, Err: fs.ErrNotExist}
	}
	target, exists := to.live[toName]
	if exists && target == n {
		return nil
	}
	if exists && (target.dir != n.dir || len(target.live) > 0) {
		return &fs.PathError{Op: "rename", Path: newPath, Err: fs.ErrExist}
	}
	m.change(nameOp{dir: to, name: toName, node: n, fromDir: from, from: fromName})
	return nil
}

// Link gives a file a second name.
func (m *Mem) Link(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("link", oldPath)
	if err != nil {
		return err
	}
	dir, name, err := m.parent("link", newPath)
	if err != nil {
		return err
	}
	if _, ok := dir.live[name]; ok {
		return &fs.PathError{Op: "link", Path: newPath, Err: fs.ErrExist}
	}
	m.change(nameOp{dir: dir, name: name, node: n})
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, el := range split(p) {
		next, ok := n.live[el]
		if !ok {
			if err := m.makes("mkdir", p); err != nil {
				return err
			}
			next = newDir()
			m.change(nameOp{dir: n, name: el, node: next})
		}
		if !next.dir {
			return &fs.PathError{Op: "mkdir", Path: p, Err: syscall.ENOTDIR}
		}
		n = next
	}
	return nil
}

// ReadDir lists the names in a directory, sorted.
func (m *Mem) ReadDir(p string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("open", p)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: syscall.ENOTDIR}
	}
	return sortedNames(n.live), nil
}

// Stat describes a file or directory.
func (m *Mem) Stat(p string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("stat", p)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: int64(len(n.data)), IsDir: n.dir, ModTime: n.modTime}, nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("open", p)
	if err != nil {
		return err
	}
	if !n.dir {
		return &fs.PathError{Op: "syncdir", Path: p, Err: syscall.ENOTDIR}
	}
	rest := m.pending[:0]
	for _, op := range m.pending {
		if op.dir == n || op.fromDir == n {
			op.apply(func(d *memNode) map[string]*memNode { return d.synced })
			continue
		}
		rest = append(rest, op)
	}
	clear(m.pending[len(rest):])
	m.pending = rest
	return nil
}

// Lock takes a lock that lives as long as this Mem: a crash copy starts without locks.
func (m *Mem) Lock(p string) (io.Closer, error) {
	f, err := m.OpenFile(p, Append)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := path.Clean("/" + p)
	if m.locks[key] {
		return nil, fmt.Errorf("%w: %s", ErrLocked, p)
	}
	m.locks[key] = true
	return &memLock{fs: m, key: key}, nil
}

type memLock struct {
	fs  *Mem
	key string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if !l.fs.locks[l.key] {
		return os.ErrClosed
	}
	delete(l.fs.locks, l.key)
	return nil
}

// DiskFree reports what SetCapacity leaves, or what SetDiskFree set.
func (m *Mem) DiskFree(string) (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.room(), max(m.total, m.capacity), nil
}

func (m *Mem) now() int64 {
	if m.clock == nil {
		return 0
	}
	return m.clock()
}

func sortedNames(names map[string]*memNode) []string {
	out := make([]string, 0, len(names))
	for name := range names {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}
