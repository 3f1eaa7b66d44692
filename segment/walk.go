package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// head is what the log needs to know of a batch, taken from its first 61 bytes.
type head struct {
	base, next   record.Offset // [base, next)
	size         int64         // of the whole batch, in bytes
	epoch        record.LeaderEpoch
	maxTimestamp int64
}

// parseHead reads a header. Only the header is believed, not the checksum.
func parseHead(b []byte) (head, error) {
	h, err := record.ParseHead(b)
	if err != nil {
		return head{}, err
	}
	return headOf(h), nil
}

func headOf(h record.Head) head {
	return head{base: h.BaseOffset(), next: h.NextOffset(), size: int64(h.Size()), epoch: h.LeaderEpoch(), maxTimestamp: h.MaxTimestamp()}
}

// maxTime is the largest timestamp of a range and the last offset of the first batch that has it.
type maxTime struct {
	timestamp int64 // -1 when there is none
	offset    record.Offset
}

func (m *maxTime) note(h head) {
	if h.maxTimestamp > m.timestamp {
		*m = maxTime{h.maxTimestamp, h.next - 1}
	}
}

// chain is what the offset and the leader epoch of the next batch must fit to. They lie outside the checksum, so their order is all that proves them.
type chain struct {
	expect record.Offset // the next batch begins here or later
	exact  bool          // later is wrong
	known  bool          // the batch before is known, or there is none: only then can later be wrong
	end    record.Offset // and ends here or earlier
	first  record.Offset // and, if it is the first that is walked over and an index entry names it, exactly here; 0 for nobody knows

	epoch   record.LeaderEpoch // of the batch before; the next has this one or a newer one
	epochs  epochHistory       // what is known of the epochs; offsets before its first are not
	settled record.Offset      // from here on epochs may lack newer ones
}

// chain is that of the batches of a segment from a position on.
func (s *segment) chain(from int64) chain {
	return chain{expect: s.base, exact: s.exact, known: from == 0, end: s.end, epoch: record.NoEpoch, settled: math.MaxInt64}
}

// chainFrom is that of the batches from an index entry on, which says where its batch ends.
func (s *segment) chainFrom(e offsetEntry, epochs epochHistory) chain {
	c := s.chain(int64(e.position))
	c.epochs = epochs
	if e.relative >= 0 {
		c.first = s.base + record.Offset(e.relative) + 1
	}
	return c
}

// refuse says why a batch does not fit.
func (c *chain) refuse(base, next record.Offset, epoch record.LeaderEpoch) string {
	switch {
	case base < c.expect, c.exact && c.known && base != c.expect:
		return fmt.Sprintf("batch begins at offset %d, expected %d", base, c.expect)
	case c.first > 0 && next != c.first:
		return fmt.Sprintf("batch ends at offset %d, by the index at %d", next, c.first)
	case next > c.end:
		return fmt.Sprintf("batch ends at offset %d, its segment at %d", next, c.end)
	case epoch < c.epoch:
		return fmt.Sprintf("batch of leader epoch %d behind one of epoch %d", epoch, c.epoch)
	}
	if planted.On(planted.LeaderEpochUnchecked) {
		return ""
	}
	// Of a batch in whose middle the log begins, the history knows the end.
	if want, newest := c.epochs.at(next - 1); want != record.NoEpoch && epoch != want && !(newest && base >= c.settled && epoch > want) {
		return fmt.Sprintf("batch of leader epoch %d where the history has %d", epoch, want)
	}
	return ""
}

// offset is one in the next batch, as far as that can be said.
func (c *chain) offset() record.Offset {
	if c.first > 0 {
		return c.first - 1
	}
	return c.expect
}

// note goes on behind a batch.
func (c *chain) note(next record.Offset, epoch record.LeaderEpoch) {
	c.expect, c.known, c.epoch, c.first = next, true, epoch, 0
}

// windowBytes is how much a walk reads at once: many small batches, or one large one's header.
const windowBytes = 8 << 10

// aloneBytes is how far apart batches are whose headers are read one by one: what lies between would cost more than another read.
const aloneBytes = windowBytes

var windows = sync.Pool{New: func() any { return new([windowBytes]byte) }}

// walker steps over the headers of the batches in [position, limit) of a file.
type walker struct {
	r        io.ReaderAt
	path     string
	position int64 // of the next batch
	limit    int64
	stride   int64 // size of the batch before, 0 for none
	chain    chain

	narrow *[windowBytes]byte
	window []byte // narrow, or a wider one for a while
	start  int64  // of what the window holds
	filled int
}

// walk begins at a position of a segment, which is that of a batch.
func (s *segment) walk(r io.ReaderAt, from int64) *walker {
	narrow := windows.Get().(*[windowBytes]byte)
	return &walker{r: r, path: s.file.path, position: from, limit: s.size, chain: s.chain(from), narrow: narrow, window: narrow[:]}
}

// walkFrom begins at an index entry.
func (s *segment) walkFrom(r io.ReaderAt, e offsetEntry, epochs epochHistory) *walker {
	w := s.walk(r, int64(e.position))
	w.chain = s.chainFrom(e, epochs)
	return w
}

func (w *walker) close() {
	windows.Put(w.narrow)
	w.narrow, w.window = nil, nil
}

// next returns the header of the next batch and its position, or io.EOF at the limit. A *DamageError says that the bytes are not a
// chain of batches.
func (w *walker) next() (head, int64, error) {
	position := w.position
	if position >= w.limit {
		return head{}, position, io.EOF
	}
	b, err := w.header()
	if err != nil {
		return head{}, position, err
	}
	h, err := parseHead(b)
	switch {
	case err != nil:
		return head{}, position, w.damage(err.Error())
	case position+h.size > w.limit:
		return head{}, position, w.damage(fmt.Sprintf("batch of %d bytes is cut off at %d", h.size, w.limit))
	case position+h.size == w.limit && h.next != w.chain.end:
		return head{}, position, w.damage(fmt.Sprintf("last batch ends at offset %d, its segment at %d", h.next, w.chain.end)) // nothing follows that would not fit to a wrong length
	}
	if reason := w.chain.refuse(h.base, h.next, h.epoch); reason != "" {
		return head{}, position, w.damage(reason)
	}
	w.position, w.stride = position+h.size, h.size
	w.chain.note(h.next, h.epoch)
	return h, position, nil
}

// atHand reports whether the next header is in the window, so that nothing is read for it.
func (w *walker) atHand() bool {
	at := w.position - w.start
	return at >= 0 && at+record.HeaderSize <= int64(w.filled)
}

// header returns the bytes of the header at position, fewer at the limit.
func (w *walker) header() ([]byte, error) {
	want := min(int64(record.HeaderSize), w.limit-w.position)
	at := w.position - w.start
	if at < 0 || at+want > int64(w.filled) {
		n, err := readAt(w.r, w.window[:min(w.ahead(), w.limit-w.position)], w.position)
		if err != nil {
			return nil, err
		}
		w.start, w.filled, at = w.position, n, 0
	}
	return w.window[at : at+want], nil
}

// ahead is how much to read at a position that the window does not hold, by how far apart the batches are: a window that was used to its end gives way to one of twice
// the size.
func (w *walker) ahead() int64 {
	switch over := w.position - w.start - int64(w.filled); {
	case w.stride >= aloneBytes:
		return record.HeaderSize // the batch after this one is as far away, probably
	case w.filled >= windowBytes && over > -record.HeaderSize && over < aloneBytes:
		return min(2*int64(w.filled), int64(len(w.window)))
	default:
		return windowBytes
	}
}

func (w *walker) damage(reason string) *DamageError {
	return &DamageError{Path: w.path, Position: w.position, Offset: w.chain.offset(), Reason: reason}
}

// readAt fills b. A file that is shorter than its view was truncated under it.
func readAt(r io.ReaderAt, b []byte, at int64) (int, error) {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, fmt.Errorf("%w: file ends at byte %d", ErrStaleView, at+int64(n))
	}
	return n, fmt.Errorf("segment: read: %w", err)
}

// verifyChunk is how much a CRC check reads at once, unless one batch is larger.
const verifyChunk = 256 << 10

// verify checks every batch in [from, to) of a file, where to is a batch boundary, and calls each for what is good.
func verify(r io.ReaderAt, path string, from, to int64, fit chain, each func(record.Batch, int64)) error {
	buf := make([]byte, 0, min(verifyChunk, to-from))
	for from < to {
		n := min(int64(cap(buf)), to-from)
		buf = buf[:n]
		if _, err := readAt(r, buf, from); err != nil {
			return err
		}
		used, need, err := verifyBuffer(buf, path, from, &fit, each)
		if err != nil {
			return err
		}
		if used == 0 {
			if need <= n || from+need > to {
				return &DamageError{Path: path, Position: from, Offset: fit.offset(), Reason: fmt.Sprintf("batch of %d bytes is cut off at %d", need, to)}
			}
			buf = make([]byte, 0, need)
		}
		from += used
	}
	return nil
}

// verifyBuffer checks the whole batches at the start of b and returns how many bytes they take, and how many the next one needs.
func verifyBuffer(b []byte, path string, at int64, fit *chain, each func(record.Batch, int64)) (used, need int64, err error) {
	damage := func(reason string) error {
		return &DamageError{Path: path, Position: at + used, Offset: fit.offset(), Reason: reason}
	}
	for used < int64(len(b)) {
		rest := b[used:]
		if len(rest) < record.HeaderSize {
			return used, record.HeaderSize, nil
		}
		size, err := record.BatchSize(rest)
		if err != nil {
			return used, 0, damage(err.Error())
		}
		if size > len(rest) {
			return used, int64(size), nil
		}
		batch, err := record.Parse(rest)
		if err == nil {
			err = batch.VerifyCRC()
		}
		if err != nil {
			return used, 0, damage(err.Error())
		}
		if reason := fit.refuse(batch.BaseOffset(), batch.NextOffset(), batch.LeaderEpoch()); reason != "" {
			return used, 0, damage(reason)
		}
		fit.note(batch.NextOffset(), batch.LeaderEpoch())
		if each != nil {
			each(batch, at+used)
		}
		used += int64(size)
	}
	return used, 0, nil
}
