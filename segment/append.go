package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Appended says what an append put into the log.
type Appended struct {
	FirstOffset record.Offset
	EndOffset   record.Offset // exclusive; the log end now
	Bytes       int
	NewEpoch    *record.EpochStart // the first epoch that this append began, if any; Log.Epochs has all
}

// Append adds whole batches that already carry their offsets and epoch, byte for byte. now is the broker's wall clock in ms. The first
// batch must begin at End and each next one where the last ended. All goes in with one write or nothing does. The bytes are in the page
// cache when it returns; Flushed says what is on disk.
//
// ErrBadBatch, ErrNotContiguous and ErrNoSpace leave the log as it was. Any other error takes it offline.
//
// Append parses headers but trusts the checksum: whoever received the bytes has verified it.
func (l *Log) Append(now int64, batches []byte) (Appended, error) {
	return l.append(now, batches, true)
}

// AppendReplicated is Append for a follower, which takes the leader's batches as they are: of any size, and with gaps between offsets
// where the leader's log was compacted. A gap that an index cannot express rolls a segment, so that in this case alone a failure may
// leave the batches before the gap appended; Appended tells.
func (l *Log) AppendReplicated(now int64, batches []byte) (Appended, error) {
	return l.append(now, batches, false)
}

func (l *Log) append(now int64, batches []byte, exact bool) (Appended, error) {
	if l.offline != nil {
		return Appended{}, l.offline
	}
	heads, err := l.check(batches, exact)
	if err != nil {
		return Appended{}, err
	}
	out := Appended{FirstOffset: heads[0].base, EndOffset: l.active.end}
	last := l.epochs.last()
	for len(heads) > 0 {
		n, size := run(heads)
		if err = l.appendRun(now, heads[:n], batches[:size]); err != nil {
			break
		}
		out.EndOffset, out.Bytes = l.active.end, out.Bytes+size
		heads, batches = heads[n:], batches[size:]
	}
	if i := slices.IndexFunc(l.epochs, func(e record.EpochStart) bool { return e.Epoch > last }); i >= 0 {
		started := l.epochs[i]
		out.NewEpoch = &started
	}
	return out, err
}

// check parses the headers and refuses what does not continue the log.
func (l *Log) check(batches []byte, exact bool) ([]head, error) {
	if len(batches) == 0 || len(batches) > MaxSegmentBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadBatch, len(batches))
	}
	heads := make([]head, 0, 4)
	expect := l.active.end
	for rest := batches; len(rest) > 0; {
		b, err := record.Parse(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: at byte %d of %d: %w", ErrBadBatch, len(batches)-len(rest), len(batches), err)
		}
		h := headOf(b.Head)
		if exact && b.Size() > l.cfg.MaxBatchBytes {
			return nil, fmt.Errorf("%w: %d bytes, limit is %d", ErrBadBatch, b.Size(), l.cfg.MaxBatchBytes)
		}
		if h.base < expect || exact && h.base != expect {
			return nil, fmt.Errorf("%w: batch begins at offset %d, expected %d", ErrNotContiguous, h.base, expect)
		}
		heads, rest, expect = append(heads, h), rest[b.Size():], h.next
	}
	return heads, nil
}

// run counts the batches, and their bytes, whose offsets one segment can express.
func run(heads []head) (n, size int) {
	for n < len(heads) && int64(heads[n].next-1-heads[0].base) <= maxRelative {
		size += int(heads[n].size)
		n++
	}
	return n, size
}

// appendRun writes batches to one segment.
func (l *Log) appendRun(now int64, heads []head, b []byte) error {
	if err := l.rollFor(now, heads[0].base, heads[len(heads)-1].next, int64(len(b))); err != nil {
		return err
	}
	gap := hasGap(l.active.end, heads)
	if err := l.prepare(gap); err != nil {
		return err
	}
	if err := l.write(b); err != nil {
		return err
	}
	if l.active.empty() {
		l.metaDue = true // so that log.meta knows, once it is flushed, that the file has something: an emptied one would pass for never written
	}
	next := *l.active
	next.exact = next.exact && !gap
	position := next.size
	for _, h := range heads {
		next.newest.note(h)
		if next.memory.note(next.base, h, position, l.since, int64(l.cfg.IndexIntervalBytes), next.newest) {
			l.since = 0
		}
		l.since += h.size
		position += h.size
		l.epochs = l.epochs.note(h.epoch, h.base)
	}
	next.file.markVerified(next.size, position)
	next.size, next.end, next.written = position, heads[len(heads)-1].next, now
	if next.created == 0 {
		next.created = now
	}
	l.active = &next
	l.touch(next.file)
	l.publish()
	return l.offline
}

// hasGap reports whether offsets are missing before or between batches.
func hasGap(end record.Offset, heads []head) bool {
	for _, h := range heads {
		if h.base != end {
			return true
		}
		end = h.next
	}
	return false
}

// prepare changes log.meta where it would be wrong once the append is there. A file has to be named in it before its first byte, because
// one that is not would not be missed. The first gap has to be known, because until then a base offset that jumps is damage; and so has
// each gap between two segments, which would pass for a lost one. And the clean mark is taken back before the first append of a relaxed log; otherwise it may stay: it names
// the sizes of all segments, and a flushed append changes them, while an append that was never flushed was never acknowledged.
func (l *Log) prepare(gap bool) error {
	if (l.named || planted.On(planted.SegmentNamedLate)) && !(gap && !l.gaps) && !(l.relaxed && l.cleanOnDsk) {
		return nil
	}
	had := l.gaps
	l.gaps = had || gap
	if err := l.writeMeta(false, noTruncation); err != nil {
		l.gaps = had
		return l.spare(err)
	}
	return nil
}

// write puts bytes at the end of the active file. After a short write the file is cut back, so that the next append finds it as it was.
func (l *Log) write(b []byte) error {
	h, err := l.writer()
	if err != nil {
		return l.fail(err)
	}
	n, err := h.WriteAt(b, l.active.size)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("segment: append at byte %d of %s: %w", l.active.size, h.Name(), err)
	if n > 0 || !Full(err) {
		if cut := h.Truncate(l.active.size); cut != nil {
			return l.fail(fmt.Errorf("%w; and cutting it back: %w", err, cut))
		}
	}
	return l.spare(err)
}

// spare keeps the log online when the disk was merely full.
func (l *Log) spare(err error) error {
	if Full(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return l.fail(err)
}

// rollFor seals the active segment when the coming append does not belong into it.
func (l *Log) rollFor(now int64, base, end record.Offset, size int64) error {
	s := l.active
	switch {
	case base < s.base, int64(end-1-s.base) > maxRelative:
		return l.roll(base) // also when it is empty: its name does not fit what comes
	case s.empty():
		return nil
	case s.size+size > l.cfg.SegmentBytes, s.created > 0 && now-s.created >= l.cfg.SegmentAge.Milliseconds():
		return l.roll(s.end)
	}
	return nil
}

// roll seals the active segment and begins a new one at base.
func (l *Log) roll(base record.Offset) error {
	next, err := l.create(base)
	if err != nil {
		return l.spare(err)
	}
	next.end = l.active.end // an append that then fails must not have moved the log end over the gap
	if err := l.seal(); err != nil {
		next.file.release()
		return l.fail(err)
	}
	l.begin(next)
	l.metaDue = true
	return nil
}

// create makes the file of a new segment. One that is there already is a leftover, of a roll that failed or of a deletion, and gives way
// to a new inode: somebody may still be sending the old one.
func (l *Log) create(base record.Offset) (*segment, error) {
	path := l.path(fileName(base, logSuffix))
	h, err := l.fs.OpenFile(path, vfs.Exclusive)
	if errors.Is(err, fs.ErrExist) {
		// In one step, because log.meta may name it: it must not be missing for a moment.
		if h, err = l.fs.OpenFile(path+tmpSuffix, vfs.Truncated); err == nil {
			err = l.fs.Rename(path+tmpSuffix, path)
		}
		if err != nil && h != nil {
			_ = h.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	l.unused = slices.DeleteFunc(l.unused, func(s *segment) bool { return s.base == base }) // it has just given way
	return newSegment(base, adopt(l.fs, path, h)), nil
}

// seal moves the active segment to the sealed ones and writes its indexes. When they cannot be written, they are kept in memory: the
// log is the truth, and the next Open rebuilds them. An empty segment leaves no trace, but must stay for as long as log.meta names it.
func (l *Log) seal() error {
	s := *l.active
	if s.empty() && l.named {
		l.unused = append(l.unused, &s)
		return nil
	}
	if s.empty() {
		return l.dropFile(&s)
	}
	x := s.memory
	x.noteLast(&s)
	s.memory, s.disk, s.indexed = indexes{}, &diskIndex{}, len(x.offsets)
	if err := writeIndexes(l.fs, l.dir, s.base, &x); err != nil {
		s.disk.loaded.Store(&loadedIndex{rebuilt: &x})
	}
	l.sealed = append(slices.Clip(l.sealed), &s)
	return nil
}

// noteLast adds the segment's largest timestamp, which Kafka's tools expect as the last entry of a time index.
func (x *indexes) noteLast(s *segment) {
	x.times = slices.Clip(x.times)
	x.noteTime(s.base, s.newest)
}

// begin makes a created segment the active one.
func (l *Log) begin(s *segment) {
	l.letGo()
	l.active, l.held, l.since, l.named = s, s.file, 0, false
	l.touchDir()
	l.publish()
}

// dropFile deletes the files of a segment. Readers that hold the file keep it; nobody can open it again.
func (l *Log) dropFile(s *segment) error {
	s.file.markGone()
	l.idle.drop(s.file)
	l.undirty(s.file)
	l.touchDir()
	return removeSegment(l.fs, l.dir, s.base)
}

// removeSegment deletes what there is of a segment, the log file first: without its log an index means nothing.
func removeSegment(fs vfs.FS, dir string, base record.Offset) error {
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix} {
		if err := fs.Remove(filepath.Join(dir, fileName(base, suffix))); err != nil && !isNotExist(err) {
			return fmt.Errorf("segment: delete: %w", err)
		}
	}
	return nil
}
