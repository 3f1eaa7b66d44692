package vfs

import (
	"fmt"
	"io/fs"
	"syscall"
)

// Flip changes bits of one stored byte, as a medium does that has gone bad: what was synced and what a reader sees, whoever has the file open. A byte
// that was never synced is changed where it is.
func (m *Mem) Flip(p string, at int64, mask byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("flip", p)
	if err != nil {
		return err
	}
	if n.dir || at < 0 || at >= int64(len(n.data)) {
		return &fs.PathError{Op: "flip", Path: p, Err: fmt.Errorf("no byte at %d: %w", at, fs.ErrInvalid)}
	}
	n.data[at] ^= mask
	if at < int64(len(n.disk)) {
		n.disk[at] ^= mask
	}
	return nil
}

// Lose takes a name away at once and durably, as a damaged directory does. Open handles keep the file.
func (m *Mem) Lose(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.parent("lose", p)
	if err != nil {
		return err
	}
	n, ok := dir.live[name]
	if !ok {
		return &fs.PathError{Op: "lose", Path: p, Err: fs.ErrNotExist}
	}
	delete(dir.live, name)
	delete(dir.synced, name)
	rest := m.pending[:0]
	for _, op := range m.pending {
		if op.node != n {
			rest = append(rest, op)
		}
	}
	clear(m.pending[len(rest):])
	m.pending = rest
	return nil
}

// Shorten cuts a file to size, in bytes, at once and durably, as a medium does that has not kept what was flushed.
func (m *Mem) Shorten(p string, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("shorten", p)
	if err != nil {
		return err
	}
	if n.dir || size < 0 || size > int64(len(n.data)) {
		return &fs.PathError{Op: "shorten", Path: p, Err: fs.ErrInvalid}
	}
	n.truncate(size)
	n.disk = n.disk[:min(size, int64(len(n.disk)))]
	return nil
}

// SetCapacity makes the disk so large, in bytes; 0 ends the limit. A write that does not fit stops where the disk is full, with ENOSPC, and nothing new
// can be made while it is full. DiskFree tells what is left. What was written already stays, also above the limit.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Used is how many bytes the files hold.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.root.used()
}

func (n *memNode) used() int64 {
	sum := int64(len(n.data))
	for _, child := range n.live {
		sum += child.used()
	}
	return sum
}

// room is how many bytes are left, a great many without a limit. The caller holds mu.
func (m *Mem) room() int64 {
	if m.capacity == 0 {
		return m.free
	}
	return max(0, m.capacity-m.root.used())
}

// fits cuts a write off where the disk is full. The caller holds mu.
func (m *Mem) fits(n *memNode, p string, b []byte, off int64) ([]byte, error) {
	grows := off + int64(len(b)) - int64(len(n.data))
	if m.capacity == 0 || grows <= 0 {
		return b, nil
	}
	if room := m.room(); grows > room {
		keep := max(0, int64(len(b))-(grows-room))
		return b[:keep], &fs.PathError{Op: "write", Path: p, Err: syscall.ENOSPC}
	}
	return b, nil
}

// makes refuses a new file or directory on a full disk. The caller holds mu.
func (m *Mem) makes(op, p string) error {
	if m.capacity != 0 && m.room() == 0 {
		return &fs.PathError{Op: op, Path: p, Err: syscall.ENOSPC}
	}
	return nil
}
