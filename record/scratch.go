package record

import (
	"bytes"
	"sync"
	"weak"
)

// Bounds on what decompression keeps and how it grows, in bytes.
const (
	// scratchMin is the least first size of a decompression buffer, and scratchRatio the first guess at how far the data expands where
	// it does not say. Both give way to the bound.
	scratchMin   = 4 << 10
	scratchRatio = 4
	// scratchKeep is the largest buffer that stays with its scratch. It is also the largest first size that data gets by its own word alone, where it can be read
	// piece by piece: a claim costs its sender nothing.
	scratchKeep = 4 << 20
	// largeSizes is how many sizes there are above it; the last holds a batch of MaxBatchSize.
	largeSizes = 9
	// maxSpares bounds how many unused buffers of one large size are remembered.
	maxSpares = 16
)

var (
	scratchPool = sync.Pool{New: func() any { return new(scratch) }}
	spares      [largeSizes]spareBuffers // by size
)

// scratch is a reusable decompression buffer. Its size counts in a Memory while it is in use.
type scratch struct {
	b      []byte
	large  *large // whose buffer b is, if it is above scratchKeep
	source bytes.Reader
	charge charge
}

func getScratch(m *Memory) *scratch {
	s := scratchPool.Get().(*scratch)
	s.charge.begin(m)
	s.charge.take(cap(s.b))
	return s
}

func putScratch(s *scratch) {
	if s.large != nil {
		s.release()
	}
	s.charge.end()
	scratchPool.Put(s)
}

// reserve empties the buffer and makes room for size bytes, but for no more than limit needs.
func (s *scratch) reserve(size, limit int) {
	size = min(max(size, scratchMin), limit)
	if cap(s.b) < size {
		s.release()
		s.allocate(size)
	}
	s.b = s.b[:0]
}

// grow gives the buffer about twice the capacity, but no more than limit needs, and keeps the content. The old and the new count together for a moment.
func (s *scratch) grow(limit int) {
	size := 2 * max(cap(s.b), scratchMin)
	if s.large != nil {
		size = cap(s.b) + 1 // the next of the large sizes
	}
	old := scratch{b: s.b, large: s.large}
	s.allocate(min(size, max(limit, cap(s.b)+1)))
	s.b = append(s.b, old.b...)
	s.charge.give(old.discard())
}

// allocate takes an empty buffer of at least size bytes, once its capacity is counted.
func (s *scratch) allocate(size int) {
	if size <= scratchKeep {
		s.charge.take(size)
		s.b, s.large = make([]byte, 0, size), nil
		return
	}
	class := 0
	for size > largeSize(class) {
		class++
	}
	s.charge.take(largeSize(class))
	if s.large = spares[class].get(); s.large == nil {
		s.large = &large{class: class, b: make([]byte, 0, largeSize(class))}
	}
	s.b = s.large.b
}

// release lets go of the buffer, which counts no longer.
func (s *scratch) release() { s.charge.give(s.discard()) }

// discard lets go of the buffer and returns its capacity.
func (s *scratch) discard() int {
	size := cap(s.b)
	if s.large != nil {
		spares[s.large.class].put(s.large)
	}
	s.b, s.large = nil, nil
	return size
}

// largeSize is the capacity of a class of buffers above scratchKeep. Each has room for the block that unzstd wants beyond a bound.
func largeSize(class int) int { return scratchKeep<<(class+1) + zstdBlock }

// large is a buffer above scratchKeep.
type large struct {
	class int
	b     []byte
}

// spareBuffers are large buffers of one class that wait for their next use, until the garbage collector comes by. Were each new, the garbage of a few huge batches in
// a row would be several times what they hold at once; a sync.Pool would keep some for each processor.
type spareBuffers struct {
	mu    sync.Mutex // guards spare
	spare []weak.Pointer[large]
}

// get returns an unused buffer; nil when there is none.
func (s *spareBuffers) get() *large {
	s.mu.Lock()
	defer s.mu.Unlock()
	for last := len(s.spare) - 1; last >= 0; last-- {
		found := s.spare[last].Value()
		s.spare = s.spare[:last]
		if found != nil {
			return found
		}
	}
	return nil
}

// put remembers a buffer that nobody uses.
func (s *spareBuffers) put(l *large) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == maxSpares { // the oldest is collected, or will be
		s.spare = append(s.spare[:0], s.spare[1:]...)
	}
	s.spare = append(s.spare, weak.Make(l))
}
