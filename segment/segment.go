package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// segment describes one segment file at one moment. It never changes: an append makes a new one, which shares the file and the index.
type segment struct {
	base    record.Offset // names the file; no batch begins below it
	end     record.Offset // exclusive
	size    int64         // bytes of the file that are log
	exact   bool          // every batch begins where the one before ends, the first at base
	newest  maxTime
	created int64 // broker's wall clock at the first append, in ms; 0 when empty or unknown
	written int64 // broker's wall clock at the last append, in ms; 0 when empty or unknown
	indexed int   // entries of the .index of a sealed segment

	file   *file
	memory indexes // of the active segment
	loaded int64   // entries of memory for positions below come from a file and are checked where they are used
	disk   *diskIndex
}

// newSegment is an empty segment that begins at base.
func newSegment(base record.Offset, f *file) *segment {
	return &segment{base: base, end: base, exact: true, newest: maxTime{timestamp: -1}, file: f}
}

func (s *segment) empty() bool { return s.size == 0 }

// lookup returns an entry at or before the batch that holds offset. Position 0 with relative -1 stands for the start of the file.
func (s *segment) lookup(offset record.Offset) (offsetEntry, error) {
	if s.disk == nil {
		return byOffset(s.memory.offsets, s.base, offset), nil
	}
	return s.disk.lookup(s, offset)
}

// entryFor is lookup with the answer checked against the log, when it comes from a file: the log may be right and the index wrong, so
// then the log is asked.
func (s *segment) entryFor(h vfs.File, offset record.Offset) (offsetEntry, error) {
	e, err := s.lookup(offset)
	if err != nil || e.relative < 0 || s.holds(h, e) {
		return e, err
	}
	if s.disk != nil {
		return s.disk.again(s, offset)
	}
	return s.entryBefore(h, e), nil
}

// entryBefore returns the last entry in memory before a wrong one that is right, or the start of the file: slower, and right.
func (s *segment) entryBefore(h vfs.File, wrong offsetEntry) offsetEntry {
	for {
		e := byOffset(s.memory.offsets, s.base, s.base+record.Offset(wrong.relative)-1)
		if e.relative < 0 || s.holds(h, e) {
			return e
		}
		wrong = e
	}
}

// holds reports whether an entry is right: it was made from the log by this process, or the log says so now.
func (s *segment) holds(h vfs.File, e offsetEntry) bool {
	return s.disk == nil && int64(e.position) >= s.loaded || s.matches(h, e)
}

func (s *segment) matches(h vfs.File, e offsetEntry) bool {
	w := s.walk(h, int64(e.position))
	defer w.close()
	b, _, err := w.next()
	return err == nil && b.next-1 == s.base+record.Offset(e.relative)
}

// check proves a range of whole batches that fits to what was there before, and of which a walk has come past the first ones. What was appended is known to be good as it was written: only its headers are
// read back, once, because nobody else can tell that an offset or a leader epoch has rotted. Those that the walk has at hand are looked at each time, for nothing.
func (s *segment) check(w *walker, fit chain, from, to int64) error {
	verified, readBack := s.file.checked(from, to)
	if !verified {
		return s.verify(w.r, from, to, fit)
	}
	if planted.On(planted.ReadUnchecked) {
		return nil
	}
	for readBack && w.position < to {
		if !w.atHand() {
			return nil
		}
		if _, _, err := w.next(); err != nil {
			return err
		}
	}
	if err := w.strides(to); err != nil {
		return err
	}
	if w.position > to {
		return w.damage(fmt.Sprintf("batch ends at byte %d, by the index another one begins at %d", w.position, to))
	}
	if to < s.size && (!readBack || w.atHand()) { // the last one leaves room for what follows
		if _, _, err := w.next(); err != nil {
			return err
		}
	}
	if !readBack {
		s.file.markReadBack(from, to)
	}
	return nil
}

// verify checks the CRCs of a range of whole batches. Base offsets and leader epochs lie outside the CRC, so it
// also checks that they rise, that they leave room for what follows the range, and that the epochs are those of the history.
func (s *segment) verify(h io.ReaderAt, from, to int64, fit chain) error {
	if planted.On(planted.ReadUnchecked) {
		return nil
	}
	w := s.walk(h, to)
	defer w.close()
	if err := verify(h, s.file.path, from, to, fit, func(b record.Batch, _ int64) { w.chain.note(b.NextOffset(), b.LeaderEpoch()) }); err != nil {
		return err
	}
	if _, _, err := w.next(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.file.markVerified(from, to)
	s.file.markReadBack(from, to)
	return nil
}

// timesOf returns the time index.
func (s *segment) timesOf() ([]timeEntry, error) {
	if s.disk == nil {
		return s.memory.times, nil
	}
	return s.disk.times(s)
}

// diskIndex reads the indexes of a sealed segment. Of the .index it keeps every blockEntries-th entry, 4 KiB for a segment of 1 GiB, and
// reads one block at a time; the .timeindex is read whole each time, which only lookups by timestamp do. Nothing is mapped, so a
// damaged disk gives an error and not a signal.
//
// An index is never trusted: entries are checked when they are loaded, an entry is checked against the log where it is used, and one
// that fails is replaced by an index rebuilt from the log.
type diskIndex struct {
	loaded atomic.Pointer[loadedIndex]
	block  atomic.Pointer[indexBlock] // the one that was read last
}

// indexBlock is blockEntries entries, the n-th such block of the file.
type indexBlock struct {
	n       int
	entries []offsetEntry
}

// blockEntries makes a block one page.
const blockEntries = 4096 / offsetEntrySize

// loadedIndex is either a summary of the file or, when rebuilt is set, the whole index in memory.
type loadedIndex struct {
	summary []offsetEntry
	count   int
	rebuilt *indexes
}

func indexPath(s *segment, suffix string) string {
	return strings.TrimSuffix(s.file.path, logSuffix) + suffix
}

func (d *diskIndex) load(s *segment) (*loadedIndex, error) {
	if have := d.loaded.Load(); have != nil {
		return have, nil
	}
	entries, err := readOffsets(s)
	if err != nil || len(entries) != s.indexed {
		return d.rebuild(s)
	}
	l := &loadedIndex{count: len(entries)}
	for i := 0; i < len(entries); i += blockEntries {
		l.summary = append(l.summary, entries[i])
	}
	d.loaded.Store(l)
	return l, nil
}

// rebuild reads the headers of the whole segment.
func (d *diskIndex) rebuild(s *segment) (*loadedIndex, error) {
	h, err := s.file.acquire()
	if err != nil {
		return nil, err
	}
	defer s.file.release()
	x, _, err := buildIndexes(h, s)
	if err != nil {
		return nil, err
	}
	l := &loadedIndex{rebuilt: x}
	d.loaded.Store(l)
	return l, nil
}

// buildIndexes walks the headers of a segment with the default interval. The interval is a matter of speed, so it need not be the one
// that the lost index had.
func buildIndexes(h vfs.File, s *segment) (*indexes, maxTime, error) {
	w := s.walk(h, 0)
	defer w.close()
	x, newest, since := &indexes{}, maxTime{timestamp: -1}, int64(0)
	for w.position < s.size {
		b, position, err := w.next()
		if err != nil {
			return nil, newest, err
		}
		newest.note(b)
		if x.note(s.base, b, position, since, int64(DefaultConfig().IndexIntervalBytes), newest) {
			since = 0
		}
		since += b.size
	}
	x.noteTime(s.base, newest)
	return x, newest, nil
}

func (d *diskIndex) lookup(s *segment, offset record.Offset) (offsetEntry, error) {
	l, err := d.load(s)
	if err != nil {
		return offsetEntry{}, err
	}
	if l.rebuilt != nil {
		return byOffset(l.rebuilt.offsets, s.base, offset), nil
	}
	first := byOffset(l.summary, s.base, offset)
	if first.relative < 0 {
		return first, nil
	}
	n, _ := slices.BinarySearchFunc(l.summary, first, func(a, b offsetEntry) int { return cmp.Compare(a.relative, b.relative) })
	block := d.block.Load()
	if block == nil || block.n != n {
		entries, err := readBlock(s, n, l.count)
		if err != nil || len(entries) == 0 || entries[0] != first {
			return d.again(s, offset)
		}
		block = &indexBlock{n: n, entries: entries}
		d.block.Store(block)
	}
	return byOffset(block.entries, s.base, offset), nil
}

// near returns entries that are in memory, for whoever can use them: all of an active segment's, or the block that was read last.
func (s *segment) near() []offsetEntry {
	if s.disk == nil {
		return s.memory.offsets
	}
	if block := s.disk.block.Load(); block != nil {
		return block.entries
	}
	return nil
}

// again answers a lookup from the log after the index turned out to be wrong.
func (d *diskIndex) again(s *segment, offset record.Offset) (offsetEntry, error) {
	l, err := d.rebuild(s)
	if err != nil {
		return offsetEntry{}, err
	}
	return byOffset(l.rebuilt.offsets, s.base, offset), nil
}

func (d *diskIndex) times(s *segment) ([]timeEntry, error) {
	if l := d.loaded.Load(); l != nil && l.rebuilt != nil {
		return l.rebuilt.times, nil
	}
	if entries, err := readTimes(s); err == nil {
		return entries, nil
	}
	l, err := d.rebuild(s)
	if err != nil {
		return nil, err
	}
	return l.rebuilt.times, nil
}

func readOffsets(s *segment) ([]offsetEntry, error) {
	b, err := vfs.ReadFile(s.file.fs, indexPath(s, indexSuffix), s.size/2+offsetEntrySize)
	if err != nil {
		return nil, fmt.Errorf("segment: read index: %w", err)
	}
	return decodeOffsets(b, s.size, s.end-s.base)
}

// readTimes reads the .timeindex. Its last entry must be the largest timestamp of the segment, so a shortened one is found out.
func readTimes(s *segment) ([]timeEntry, error) {
	b, err := vfs.ReadFile(s.file.fs, indexPath(s, timeSuffix), s.size/2+timeEntrySize)
	if err != nil {
		return nil, fmt.Errorf("segment: read time index: %w", err)
	}
	entries, err := decodeTimes(b, s.end-s.base)
	if err != nil {
		return nil, err
	}
	var last int64 = -1
	if n := len(entries); n > 0 {
		last = entries[n-1].timestamp
	}
	if s.size > 0 && last != s.newest.timestamp {
		return nil, fmt.Errorf("segment: time index ends at %d, the segment at %d", last, s.newest.timestamp)
	}
	return entries, nil
}

func readBlock(s *segment, block, count int) ([]offsetEntry, error) {
	f, err := s.file.fs.Open(indexPath(s, indexSuffix))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b := make([]byte, min(blockEntries, count-block*blockEntries)*offsetEntrySize)
	if _, err := readAt(f, b, int64(block)*blockEntries*offsetEntrySize); err != nil {
		return nil, err
	}
	return decodeOffsets(b, s.size, s.end-s.base)
}

// writeIndexes writes both index files of a segment. They are not synced: they can be rebuilt, and a torn one is found out.
func writeIndexes(fs vfs.FS, dir string, base record.Offset, x *indexes) error {
	if err := writeFile(fs, filepath.Join(dir, fileName(base, indexSuffix)), x.encodeOffsets()); err != nil {
		return err
	}
	return writeFile(fs, filepath.Join(dir, fileName(base, timeSuffix)), x.encodeTimes())
}

func writeFile(fs vfs.FS, path string, data []byte) error {
	f, err := fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
