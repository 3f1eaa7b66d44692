package segment

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// View is the log at one moment: which offsets it holds, and in which files. It never changes and may be used from any goroutine, also
// after the log was closed. It holds no file open: when the log has deleted or truncated what a read needs, the read gives
// ErrStaleView and the caller takes a new View.
type View struct {
	start  record.Offset
	sealed []*segment
	active *segment
	idle   *handles
	epochs epochHistory
}

// Start is the log start offset of this view.
func (v *View) Start() record.Offset { return v.start }

// End is the log end offset of this view.
func (v *View) End() record.Offset { return v.active.end }

// at returns the i-th segment, counted from the oldest.
func (v *View) at(i int) *segment {
	if i < len(v.sealed) {
		return v.sealed[i]
	}
	return v.active
}

// find returns the index of the segment that holds offset, or of the next one when offset lies in a gap.
func (v *View) find(offset record.Offset) int {
	return sort.Search(len(v.sealed), func(i int) bool { return v.sealed[i].end > offset })
}

// Read returns whole batches in order: from the one that holds from, or the next one when from lies in a gap; up to limit, exclusive,
// which is the high watermark for consumers and the log end for followers; at most max bytes, but the first batch even when it is
// larger. A Slice lies in one segment file, so it may be shorter than what the log has. It is empty when nothing lies below limit.
//
// The first batch may begin below from; clients skip what they did not ask for. The bytes were CRC-checked since the log was opened, or appended and their headers read back.
// The caller releases the Slice. The errors are *OffsetError, *DamageError, ErrStaleView, or what the disk said.
func (v *View) Read(from record.Offset, max int, limit record.Offset) (Slice, error) {
	return v.read(from, max, limit, false)
}

// ReadAgain is Read for somebody who has found the bytes bad that were read there before: they are CRC-checked whatever is known of them.
func (v *View) ReadAgain(from record.Offset, max int, limit record.Offset) (Slice, error) {
	return v.read(from, max, limit, true)
}

func (v *View) read(from record.Offset, max int, limit record.Offset, again bool) (Slice, error) {
	if from < v.start || from > v.End() {
		return Slice{}, &OffsetError{Offset: from, Start: v.start, End: v.End()}
	}
	limit = min(limit, v.End())
	if from >= limit {
		return Slice{}, nil
	}
	s := v.at(v.find(from))
	if s.base >= limit {
		return Slice{}, nil
	}
	h, err := s.file.acquire()
	if err != nil {
		return Slice{}, err
	}
	r := reader{segment: s, handle: h, from: from, limit: limit, max: int64(max), epochs: v.epochs, again: again}
	position, length, next, err := r.locate()
	if err != nil {
		s.file.release()
		return Slice{}, err
	}
	if s != v.active {
		v.idle.keep(s.file)
	}
	if length == 0 {
		s.file.release()
		return Slice{}, nil
	}
	return Slice{file: s.file, handle: h, position: position, length: int(length), next: next}, nil
}

// IsDamaged looks again at where a read has found damage: at the batch that holds an offset, and at the one before, which says where that begins. Below the
// log start nobody reads, but a read of what is there may have to come past it.
func (v *View) IsDamaged(at record.Offset) bool {
	for _, from := range []record.Offset{at, at - 1} {
		if from = max(from, v.start); from >= v.End() {
			continue
		}
		s, err := v.ReadAgain(from, 1, v.End())
		if errors.Is(err, ErrDamaged) {
			return true
		}
		if err == nil {
			s.Release()
		}
	}
	return false
}

// reader finds the bytes for one Read.
type reader struct {
	segment     *segment
	handle      vfs.File
	from, limit record.Offset
	max         int64
	epochs      epochHistory
	again       bool // what was checked counts for nothing
}

// locate returns where the answer begins, how long it is, and the offset after it. What is walked over to find it is verified with it, because a header that
// is not covered by a checked chain could point anywhere.
func (r *reader) locate() (position, length int64, next record.Offset, err error) {
	s := r.segment
	entry, err := s.entryFor(r.handle, r.from)
	if err != nil {
		return 0, 0, 0, err
	}
	w := s.walkFrom(r.handle, entry, r.epochs)
	defer w.close()
	fit := w.chain
	first, position, err := r.seek(w)
	if err != nil || first.next > r.limit {
		return 0, 0, 0, err
	}
	behind := w.chain
	end, next, err := r.extend(w, position+first.size, first.next, position+r.max)
	if err != nil {
		return 0, 0, 0, err
	}
	if r.again {
		return position, end - position, next, s.verify(r.handle, int64(entry.position), end, fit)
	}
	w.position, w.chain = position+first.size, behind
	return position, end - position, next, s.check(w, fit, int64(entry.position), end)
}

// seek steps to the batch that holds from.
func (r *reader) seek(w *walker) (head, int64, error) {
	for {
		h, position, err := w.next()
		if errors.Is(err, io.EOF) {
			return head{}, 0, w.damage(fmt.Sprintf("segment ends before offset %d", r.from))
		}
		if err != nil || h.next > r.from {
			return h, position, err
		}
	}
}

// extend returns the end of the last whole batch before the byte and offset limits, and the offset after it; end and next are those of the first batch.
func (r *reader) extend(w *walker, end int64, next record.Offset, byteLimit int64) (int64, record.Offset, error) {
	s := r.segment
	if s.size <= byteLimit && s.end <= r.limit {
		return s.size, s.end, nil
	}
	leapt := r.leap(w, end, byteLimit)
	if leapt != end {
		end, next = leapt, -1 // what comes before is not known; the batch that begins here tells
	}
	for end < s.size {
		h, position, err := w.next()
		if err != nil {
			return 0, 0, err
		}
		if position+h.size > byteLimit || h.next > r.limit {
			if next < 0 {
				next = h.base
			}
			break
		}
		end, next = position+h.size, h.next
	}
	return end, next, nil
}

// leap moves the walk to the last index entry at hand that surely lies before both limits, so that a large read of small batches does
// not walk them all.
func (r *reader) leap(w *walker, end, byteLimit int64) int64 {
	s := r.segment
	entries := s.near()
	n := sort.Search(len(entries), func(i int) bool {
		return int64(entries[i].position) > byteLimit || s.base+record.Offset(entries[i].relative) >= r.limit
	})
	if n == 0 || int64(entries[n-1].position) <= end || !s.holds(r.handle, entries[n-1]) {
		return end
	}
	w.position = int64(entries[n-1].position)
	w.chain = s.chainFrom(entries[n-1], r.epochs)
	return w.position
}
