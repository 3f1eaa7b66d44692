package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
)

// Op names one kind of call for rules and traces.
type Op string

// The operations that an Injector sees.
const (
	OpOpen     Op = "open"
	OpCreate   Op = "create"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpClose    Op = "close"
	OpRemove   Op = "remove"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpMkdir    Op = "mkdir"
	OpReadDir  Op = "readdir"
	OpStat     Op = "stat"
	OpSyncDir  Op = "syncdir"
	OpLock     Op = "lock"
	OpDiskFree Op = "diskfree"
)

// Rule makes matching calls fail.
type Rule struct {
	Op    Op     // which call
	Glob  string // path.Match pattern on the last element of the path; empty matches all
	Nth   int    // the first matching call that fails, counted from 1; 0 means 1
	Count int    // how many calls fail from there; 0 means all
	Err   error  // what they fail with
	Short int    // for OpWrite: this many bytes are written before the error

	seen int
}

// Injector wraps a file system: it fails calls by rule, and reports each call that changes something to a trace function.
type Injector struct {
	inner FS
	trace func(line string)

	mu    sync.Mutex // guards rules and their counters
	rules []*Rule
	// exempt says that no call fails and none counts.
	exempt bool
}

// NewInjector wraps inner. trace, when not nil, gets one line per changing call, such as "# write 00000000000000000000.log 120"; paths are
// cut to their last element. It is called on the goroutine of the call.
func NewInjector(inner FS, trace func(line string)) *Injector {
	return &Injector{inner: inner, trace: trace}
}

// Add adds a rule. The first rule that matches a call and whose turn it is decides.
func (i *Injector) Add(r Rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = append(i.rules, &r)
}

// Heal drops all rules.
func (i *Injector) Heal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
}

// Exempt runs f, whose calls, and those of others meanwhile, neither fail nor count: for who looks at the files without being part of the story.
func (i *Injector) Exempt(f func()) {
	i.setExempt(true)
	defer i.setExempt(false)
	f()
}

func (i *Injector) setExempt(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.exempt = on
}

// fail returns the error that a call gets, and for writes how many bytes go through first.
func (i *Injector) fail(op Op, p string) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exempt {
		return 0, nil
	}
	for _, r := range i.rules {
		if r.Op != op {
			continue
		}
		if ok, err := path.Match(r.Glob, path.Base(p)); r.Glob != "" && (!ok || err != nil) {
			continue
		}
		r.seen++
		first := max(r.Nth, 1)
		if r.seen < first || r.Count > 0 && r.seen >= first+r.Count {
			continue
		}
		return r.Short, &fs.PathError{Op: string(op), Path: p, Err: r.Err}
	}
	return 0, nil
}

func (i *Injector) tell(op Op, p string, args ...any) {
	if i.trace == nil {
		return
	}
	line := "# " + string(op) + " " + path.Base(p)
	for _, a := range args {
		line += fmt.Sprint(" ", a)
	}
	i.trace(line)
}

// do runs one call on a path under the rules and traces it.
func (i *Injector) do(op Op, p string, call func() error, args ...any) error {
	i.tell(op, p, args...)
	if _, err := i.fail(op, p); err != nil {
		return err
	}
	return call()
}

// Open opens an existing file for reading.
func (i *Injector) Open(p string) (File, error) { return i.OpenFile(p, ReadOnly) }

// Create makes or empties a file.
func (i *Injector) Create(p string) (File, error) { return i.OpenFile(p, Truncated) }

// OpenFile opens a file as flag says. Opening for reading is an OpOpen, all else an OpCreate; only the latter is traced.
func (i *Injector) OpenFile(p string, flag Flag) (File, error) {
	op := OpCreate
	if flag == ReadOnly || flag == ReadWrite {
		op = OpOpen
	} else {
		i.tell(op, p)
	}
	if _, err := i.fail(op, p); err != nil {
		return nil, err
	}
	f, err := i.inner.OpenFile(p, flag)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &injectedFile{File: f, fs: i, pos: size}, nil
}

// Remove deletes one file or empty directory.
func (i *Injector) Remove(p string) error {
	return i.do(OpRemove, p, func() error { return i.inner.Remove(p) })
}

// RemoveAll deletes a tree.
func (i *Injector) RemoveAll(p string) error {
	return i.do(OpRemove, p, func() error { return i.inner.RemoveAll(p) }, "all")
}

// Rename replaces newPath by oldPath. Rules match on the old path.
func (i *Injector) Rename(oldPath, newPath string) error {
	return i.do(OpRename, oldPath, func() error { return i.inner.Rename(oldPath, newPath) }, path.Base(newPath))
}

// Link gives a file a second name.
func (i *Injector) Link(oldPath, newPath string) error {
	return i.do(OpLink, oldPath, func() error { return i.inner.Link(oldPath, newPath) }, path.Base(newPath))
}

// MkdirAll makes a directory and its parents.
func (i *Injector) MkdirAll(p string) error {
	return i.do(OpMkdir, p, func() error { return i.inner.MkdirAll(p) })
}

// ReadDir lists the names in a directory. It is not traced.
func (i *Injector) ReadDir(p string) ([]string, error) {
	if _, err := i.fail(OpReadDir, p); err != nil {
		return nil, err
	}
	return i.inner.ReadDir(p)
}

// Stat describes a file or directory. It is not traced.
func (i *Injector) Stat(p string) (Info, error) {
	if _, err := i.fail(OpStat, p); err != nil {
		return Info{}, err
	}
	return i.inner.Stat(p)
}

// SyncDir makes the names in a directory durable.
func (i *Injector) SyncDir(p string) error {
	return i.do(OpSyncDir, p, func() error { return i.inner.SyncDir(p) })
}

// Lock takes an exclusive lock file.
func (i *Injector) Lock(p string) (io.Closer, error) {
	if _, err := i.fail(OpLock, p); err != nil {
		return nil, err
	}
	return i.inner.Lock(p)
}

// DiskFree reports the space left. It is not traced.
func (i *Injector) DiskFree(p string) (free, total int64, err error) {
	if _, err := i.fail(OpDiskFree, p); err != nil {
		return 0, 0, err
	}
	return i.inner.DiskFree(p)
}

type injectedFile struct {
	File
	fs  *Injector
	pos int64 // of Write: known here because a short write must stop at the right place
}

// ReadAt reads at an offset. It is not traced.
func (f *injectedFile) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fs.fail(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// WriteAt writes at an offset, or the first Short bytes of it.
func (f *injectedFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.tell(OpWrite, f.Name(), len(b))
	short, err := f.fs.fail(OpWrite, f.Name())
	if err == nil {
		return f.File.WriteAt(b, off)
	}
	n, werr := f.File.WriteAt(b[:min(short, len(b))], off)
	if werr != nil {
		err = werr
	}
	return n, err
}

// Write writes at the handle's position.
func (f *injectedFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// Truncate sets the size.
func (f *injectedFile) Truncate(size int64) error {
	return f.fs.do(OpTruncate, f.Name(), func() error { return f.File.Truncate(size) }, size)
}

// Sync makes the bytes and the size durable.
func (f *injectedFile) Sync() error {
	return f.fs.do(OpSync, f.Name(), f.File.Sync)
}

// Close ends the handle. It is not traced.
func (f *injectedFile) Close() error {
	_, injected := f.fs.fail(OpClose, f.Name())
	if err := f.File.Close(); err != nil {
		return err
	}
	return injected
}

// OSFile gives the descriptor only while no rule could want to see the reads.
func (f *injectedFile) OSFile() (*os.File, bool) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, r := range f.fs.rules {
		if r.Op == OpRead {
			return nil, false
		}
	}
	return f.File.OSFile()
}
