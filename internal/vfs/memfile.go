package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
)

// sector is the unit in which a disk writes: after a power cut each sector of an unsynced write is there or is not.
const sector = 512

// memFile is one open handle.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	pos      int64 // moved by Write alone, which has one caller
	readOnly bool
	closed   atomic.Bool
}

func (f *memFile) check(op string, writes bool) error {
	if f.closed.Load() {
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	if writes && f.readOnly {
		return &fs.PathError{Op: op, Path: f.name, Err: syscall.EBADF}
	}
	return nil
}

// ReadAt reads at an offset.
func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.data)) {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes at an offset; a gap reads as zeros.
func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrInvalid}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	kept, err := f.fs.fits(f.node, f.name, b, off)
	f.node.write(kept, off)
	f.node.modTime = f.fs.now()
	return len(kept), err
}

// Write writes at the handle's position.
func (f *memFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// Truncate sets the size.
func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: fs.ErrInvalid}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.truncate(size)
	f.node.modTime = f.fs.now()
	return nil
}

// Sync makes the bytes and the size durable.
func (f *memFile) Sync() error {
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.sync()
	return nil
}

// Size is the present size.
func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

// Name is the path that the file was opened with.
func (f *memFile) Name() string { return f.name }

// OSFile has none to give.
func (f *memFile) OSFile() (*os.File, bool) { return nil, false }

// Close ends the handle.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

// write changes the live image only. The caller holds Mem.mu.
func (n *memNode) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	end := off + int64(len(b))
	old := int64(len(n.data))
	if end > old {
		n.grow(end)
	}
	copy(n.data[off:], b)
	n.touch(min(off, old), end)
}

// grow extends the live image with zeros. Spare capacity may hold bytes of before a truncation, so it is cleared.
func (n *memNode) grow(size int64) {
	old := len(n.data)
	if int64(cap(n.data)) < size {
		data := make([]byte, old, max(size, int64(2*cap(n.data))))
		copy(data, n.data)
		n.data = data
	}
	n.data = n.data[:size]
	clear(n.data[old:])
}

// touch marks a range as differing from the disk. Appends extend the last span, so the list stays short.
func (n *memNode) touch(from, to int64) {
	if last := len(n.dirty) - 1; last >= 0 && from <= n.dirty[last].to && to >= n.dirty[last].from {
		n.dirty[last].from = min(n.dirty[last].from, from)
		n.dirty[last].to = max(n.dirty[last].to, to)
		return
	}
	n.dirty = append(n.dirty, span{from, to})
}

func (n *memNode) truncate(size int64) {
	old := int64(len(n.data))
	if size > old {
		n.grow(size)
		n.touch(old, size)
		return
	}
	n.data = n.data[:size]
	if size < old {
		// The cut region is dirty too: what is written there later must not be taken for what the disk held before.
		n.touch(size, old)
	}
}

func (n *memNode) sync() {
	size := int64(len(n.data))
	if int64(cap(n.disk)) < size {
		disk := make([]byte, len(n.disk), max(size, int64(2*cap(n.disk))))
		copy(disk, n.disk)
		n.disk = disk
	}
	n.disk = n.disk[:size]
	for _, s := range n.dirty {
		if s.from < size {
			copy(n.disk[s.from:], n.data[s.from:min(s.to, size)])
		}
	}
	n.dirty = nil
}
