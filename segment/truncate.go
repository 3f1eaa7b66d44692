package segment

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// TruncateTo cuts the log so that it ends at end: every batch that reaches beyond end goes, so the log may end below it, at the end of
// the last batch that stays. At or below the log start it is ResetTo. Beyond the log end it does nothing. It is on disk when it
// returns, and the generation has risen.
//
// The bytes that stay are not touched, and no byte that was cut is ever written again: the file is cut and sealed, and the log goes on
// in a new file. A reader that is still sending cut bytes comes up short.
func (l *Log) TruncateTo(end record.Offset) error {
	if l.offline != nil {
		return l.offline
	}
	if end >= l.active.end {
		return nil
	}
	if end <= l.start {
		return l.ResetTo(end)
	}
	v := l.View()
	kept := v.find(end)
	before := l.start
	if kept > 0 {
		before = v.at(kept - 1).end
	}
	rest, err := v.at(kept).shorten(end, before)
	if err != nil {
		return err
	}
	if rest.end <= l.start {
		return l.ResetTo(l.start) // all that stays lies below the start, where nobody may read it
	}
	doomed := l.doomed(kept)
	if err := l.promise(rest.end, l.start); err != nil {
		return err
	}
	l.sealed = slices.Clone(l.sealed[:kept])
	if rest.size > 0 {
		l.sealed = append(l.sealed, rest)
		doomed = doomed[1:]
	}
	return l.finish(rest, doomed)
}

// ResetTo drops everything, producer snapshots included, and goes on at start, which may lie anywhere: a follower whose leader's log begins behind its own end. It is
// on disk when it returns, and the generation has risen.
func (l *Log) ResetTo(start record.Offset) error {
	if l.offline != nil {
		return l.offline
	}
	if start < 0 {
		return &OffsetError{Offset: start, Start: l.start, End: l.End()}
	}
	if err := l.forgetProducers(); err != nil {
		return l.fail(err)
	}
	doomed := l.doomed(0)
	if err := l.promise(start, start); err != nil {
		return err
	}
	l.sealed = nil
	return l.finish(&segment{end: start}, doomed)
}

// forgetProducers removes every producer snapshot, durably. What they tell was never compared with the log that is to come; one that lies just where that
// begins would be taken for its state.
func (l *Log) forgetProducers() error {
	if len(l.snapshots()) == 0 {
		return nil
	}
	if err := l.dropSnapshots(func(record.Offset) bool { return true }); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return fmt.Errorf("segment: forget producers: %w", err)
	}
	return nil
}

// doomed lists the segments from the i-th on.
func (l *Log) doomed(i int) []*segment {
	return append(slices.Clone(l.sealed[i:]), l.active)
}

// shorten returns the segment without the batches that reach beyond end, sealed and not yet cut on disk. before is where the log ends
// when nothing of this segment stays.
func (s *segment) shorten(end, before record.Offset) (*segment, error) {
	if end <= s.base {
		return &segment{base: s.base, end: before}, nil
	}
	h, err := s.file.acquire()
	if err != nil {
		return nil, err
	}
	defer s.file.release()
	rest := *s
	rest.memory, rest.disk = indexes{}, &diskIndex{}
	if rest.size, rest.end, err = s.cutPosition(h, end, before); err != nil {
		return nil, err
	}
	x, newest, err := buildIndexes(h, &rest)
	if err != nil {
		return nil, err
	}
	rest.newest, rest.indexed = newest, len(x.offsets)
	rest.disk.loaded.Store(&loadedIndex{rebuilt: x})
	return &rest, nil
}

// cutPosition finds the first batch that reaches beyond end, and the end of the batch before it.
func (s *segment) cutPosition(r vfs.File, end, before record.Offset) (int64, record.Offset, error) {
	w := s.walk(r, 0)
	defer w.close()
	for w.position < s.size {
		b, position, err := w.next()
		if err != nil {
			return 0, 0, err
		}
		if b.next > end {
			return position, before, nil
		}
		before = b.next
	}
	return s.size, before, nil
}

// promise writes to disk that the log ends at end. From then on a crash at any point finishes the truncation at the next Open, and what
// is missing behind end is no damage.
func (l *Log) promise(end, start record.Offset) error {
	oldStart, oldFlushed, oldEpochs := l.start, l.flushed, l.epochs
	l.start, l.flushed = start, min(l.flushed, end)
	l.epochs = l.epochs.cutEnd(end)
	if start >= end {
		l.epochs = nil // nothing is left that was written under any epoch
	}
	if planted.On(planted.TruncationUnannounced) {
		l.generation++
		return nil
	}
	if err := l.writeMeta(false, end); err != nil {
		l.start, l.flushed, l.epochs = oldStart, oldFlushed, oldEpochs
		return l.spare(err) // unless the disk was merely full, the promise may be on disk
	}
	l.generation++
	return nil
}

// finish carries the promise out: publishes the new end, then deletes, newest first, cuts, and begins a new file there. rest is what
// stays of the segment that was cut, sealed already, or an empty one.
func (l *Log) finish(rest *segment, doomed []*segment) error {
	end := rest.end
	l.letGo()
	// Until the new file exists, the active segment is one that cannot be opened; nobody needs to, since it is empty.
	l.active = newSegment(end, newFile(l.fs, l.path(fileName(end, logSuffix)), vfs.ReadWrite))
	l.active.file.markGone()
	l.publish()
	for _, s := range slices.Backward(doomed) {
		if err := l.dropFile(s); err != nil {
			return l.fail(err) // a segment that stays could pass for the log's own continuation once the promise is taken back
		}
	}
	if rest.size > 0 {
		if err := l.cut(rest); err != nil {
			return l.fail(err)
		}
	}
	if err := l.dropSnapshots(func(at record.Offset) bool { return at > end }); err != nil {
		return l.fail(err)
	}
	next, err := l.create(end)
	if err != nil {
		return l.fail(err)
	}
	l.begin(next)
	// While the promise stands in log.meta, an append behind it would be cut at the next Open, so without this there must be none.
	if err := l.writeMeta(false, noTruncation); err != nil {
		return l.fail(err)
	}
	return nil
}

// cut shortens the file of a segment to its size, durably, and replaces its indexes.
func (l *Log) cut(s *segment) error {
	s.file.end.cut(s.size)
	h, err := l.fs.OpenFile(s.file.path, vfs.ReadWrite)
	if err == nil {
		err = cutFile(h, s.size)
	}
	if err != nil {
		return fmt.Errorf("segment: truncate to byte %d: %w", s.size, err)
	}
	if l := s.disk.loaded.Load(); l != nil && l.rebuilt != nil {
		_ = writeIndexes(s.file.fs, filepath.Dir(s.file.path), s.base, l.rebuilt) // the copy in memory serves, and the next Open rebuilds
	}
	return nil
}

// cutFile shortens a file, if it is longer, makes it durable and closes it.
func cutFile(h vfs.File, size int64) error {
	have, err := h.Size()
	if err == nil && have != size && !planted.On(planted.TailNotCut) {
		err = h.Truncate(size)
	}
	if err == nil && !planted.On(planted.RecoveryForgetsSync) {
		err = h.Sync()
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}
