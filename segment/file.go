package segment

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/vfs"
)

// file is one segment file with a counted reference. The descriptor is opened by the first acquire and closed by the last release, so
// that a file which was truncated, replaced or deleted stays what it was for whoever is still sending it, and its descriptor number
// cannot come to mean another file.
type file struct {
	fs   vfs.FS
	path string
	flag vfs.Flag // how acquire opens
	end  *fileEnd

	mu       sync.Mutex // guards the rest
	handle   vfs.File
	refs     int
	gone     bool  // the path may name another file now: never open it again
	verified spans // good as it was appended, or CRC-checked since the log was opened
	readBack spans // its headers were read from the file since then
}

func newFile(fs vfs.FS, path string, flag vfs.Flag) *file {
	return &file{fs: fs, path: path, flag: flag, end: newFileEnd()}
}

// adopt makes a file around a handle that is open already, with one reference.
func adopt(fs vfs.FS, path string, h vfs.File) *file {
	end := newFileEnd()
	return &file{fs: fs, path: path, flag: vfs.ReadWrite, end: end, handle: cutAware{h, end}, refs: 1}
}

// fileEnd is the position that a file was cut at, noted before the cut is made. A read that was begun before a cut can see zeros where
// the kernel has wiped the page and not yet shortened the file, so whoever has read looks here afterwards.
type fileEnd struct{ at atomic.Int64 }

func newFileEnd() *fileEnd {
	e := &fileEnd{}
	e.at.Store(math.MaxInt64)
	return e
}

// cut is called before the file is shortened.
func (e *fileEnd) cut(at int64) { e.at.Store(min(at, e.at.Load())) }

// cutAware is a handle whose reads come up short at a cut, whatever the kernel gave.
type cutAware struct {
	vfs.File
	end *fileEnd
}

// ReadAt implements io.ReaderAt.
func (c cutAware) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.File.ReadAt(b, at)
	if stays := max(c.end.at.Load()-at, 0); int64(n) > stays {
		return int(stays), io.EOF
	}
	return n, err
}

// acquire takes a reference and returns the handle, which is good until release.
func (f *file) acquire() (vfs.File, error) {
	if h, err := f.take(nil); h != nil || err != nil {
		return h, err
	}
	// Opened outside the lock, and installed only if nobody was faster and the name still means this file.
	opened, err := f.fs.OpenFile(f.path, f.flag)
	if err != nil {
		// A file that was deleted since the first look is gone, not broken.
		if h, terr := f.take(nil); h != nil || terr != nil {
			return h, terr
		}
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	opened = cutAware{opened, f.end}
	h, err := f.take(opened)
	if h != opened {
		_ = opened.Close()
	}
	return h, err
}

// take takes a reference on the present handle, or on opened when there is none. It returns nil when there is neither.
func (f *file) take(opened vfs.File) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.handle != nil:
	case f.gone:
		return nil, fmt.Errorf("%w: %s", ErrStaleView, f.path)
	case opened == nil:
		return nil, nil
	default:
		f.handle = opened
	}
	f.refs++
	return f.handle, nil
}

// release gives a reference back.
func (f *file) release() {
	f.mu.Lock()
	f.refs--
	refs, h := f.refs, f.handle
	if refs == 0 {
		f.handle = nil
	}
	f.mu.Unlock()
	invariant.Check(refs >= 0, "segment: a slice of %s was released twice", f.path)
	if refs == 0 {
		// The bytes were synced by Flush or are not relied upon: an error of close tells nothing.
		_ = h.Close()
	}
}

// share takes another reference on a file that the caller holds one on. It reports false when the file is gone.
func (f *file) share() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return false
	}
	f.refs++
	return true
}

func (f *file) isGone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone
}

// markGone forbids opening the path again. It comes before the path is unlinked.
func (f *file) markGone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
}

// checked reports whether all of a range was appended or CRC-checked since the log was opened, and whether its headers were read from the file.
func (f *file) checked(from, to int64) (verified, readBack bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.verified.covers(from, to), f.readBack.covers(from, to)
}

func (f *file) markVerified(from, to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verified.add(from, to)
}

func (f *file) markReadBack(from, to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readBack.add(from, to)
}

// maxSpans bounds what is remembered of scattered reads. Beyond it the smallest range is forgotten, and checked again if it is read.
const maxSpans = 32

// spans is a sorted list of disjoint ranges that do not touch.
type spans []span

type span struct{ from, to int64 }

func (s spans) covers(from, to int64) bool {
	for _, r := range s {
		if r.from <= from && to <= r.to {
			return true
		}
	}
	return from >= to
}

func (s *spans) add(from, to int64) {
	if from >= to {
		return
	}
	// Nearly every call continues the last range: an append, or the next read of a consumer.
	if n := len(*s); n > 0 && (*s)[n-1].to == from {
		(*s)[n-1].to = to
		return
	}
	out := make(spans, 0, len(*s)+1)
	merged := span{from, to}
	placed := false
	for _, r := range *s {
		switch {
		case r.to < merged.from:
			out = append(out, r)
		case merged.to < r.from:
			if !placed {
				out, placed = append(out, merged), true
			}
			out = append(out, r)
		default:
			merged = span{min(merged.from, r.from), max(merged.to, r.to)}
		}
	}
	if !placed {
		out = append(out, merged)
	}
	*s = out.trim()
}

func (s spans) trim() spans {
	if len(s) <= maxSpans {
		return s
	}
	smallest := 0
	for i, r := range s {
		if r.to-r.from < s[smallest].to-s[smallest].from {
			smallest = i
		}
	}
	return append(s[:smallest], s[smallest+1:]...)
}

// maxIdle is how many descriptors of sealed segments a log keeps open between reads.
const maxIdle = 2

// handles keeps the sealed segments that were read last open, so that a consumer in the backlog does not open a file per fetch.
type handles struct {
	mu     sync.Mutex // guards the rest
	recent []*file    // the last is the newest; each holds one reference
	closed bool
}

// keep remembers a file that the caller holds a reference on.
func (c *handles) keep(f *file) {
	if !f.share() {
		return
	}
	if surplus := c.push(f); surplus != nil {
		surplus.release()
	}
	if f.isGone() {
		c.drop(f) // the owner may have looked for it just before it was here
	}
}

// push takes over the caller's reference and returns a file whose reference is one too many, if any.
func (c *handles) push(f *file) (surplus *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return f
	}
	if i := slices.Index(c.recent, f); i >= 0 {
		copy(c.recent[i:], c.recent[i+1:])
		c.recent[len(c.recent)-1] = f
		return f
	}
	c.recent = append(c.recent, f)
	if len(c.recent) > maxIdle {
		surplus = c.recent[0]
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	return surplus
}

// drop forgets a file that is about to be deleted.
func (c *handles) drop(f *file) {
	c.mu.Lock()
	i := slices.Index(c.recent, f)
	if i >= 0 {
		c.recent = slices.Delete(c.recent, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		f.release()
	}
}

// close forgets everything and keeps nothing from now on.
func (c *handles) close() {
	c.mu.Lock()
	files := c.recent
	c.recent, c.closed = nil, true
	c.mu.Unlock()
	for _, f := range files {
		f.release()
	}
}
