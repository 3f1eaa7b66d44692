package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// recover finds the state of a log that was not closed in order. It first looks and decides, then changes the disk, so that a damaged
// log is left as it was found:
//
//	trusted     segments that log.meta lists, that end at or below the recovery point, and whose size is right: not read
//	scanned     all later ones: every batch is parsed and CRC-checked
//	cut         the torn tail of the last segment that has one, and whatever lies behind it
//
// doomed are segments that an interrupted truncation or retention was going to delete.
func (o *opener) recover(doomed []record.Offset) error {
	o.list = nil
	if err := tidy(o.log.fs, o.log.dir); err != nil {
		return err
	}
	if o.known {
		var err error
		o.recorded, err = readEpochs(o.log.fs, o.log.dir, o.meta.epochs)
		o.epochsKnown = err == nil // otherwise they are rebuilt from the log
	}
	if err := o.checkNamed(doomed); err != nil {
		return err
	}
	if err := o.examine(&doomed); err != nil {
		return err
	}
	o.dropUnused(&doomed)
	if err := o.checkEnd(); err != nil {
		return err
	}
	if err := o.loadEpochs(); err != nil {
		return err
	}
	if o.report.Doubtful = o.report.Doubtful || o.meta.relaxed; o.report.Doubtful {
		if err := o.keepDoubt(); err != nil {
			return err
		}
	}
	if err := o.announce(doomed); err != nil {
		return err
	}
	for _, base := range slices.Backward(doomed) {
		if err := o.drop(base); err != nil {
			return err
		}
	}
	return o.settle()
}

// skip takes those segments out of bases that an interrupted truncation or retention was going to delete.
func (o *opener) skip() (doomed []record.Offset) {
	m := &o.meta
	if !o.known && len(o.bases) > 0 {
		o.log.start = o.bases[0] // the safe default: everything that is there
		m.start = o.log.start
	}
	keep := o.bases[:0:0]
	for i, base := range o.bases {
		behind := m.truncating >= 0 && (base >= m.truncating || m.start >= m.truncating)
		if below := i+1 < len(o.bases) && o.bases[i+1] <= m.start; behind || below || o.leftover(base) {
			doomed = append(doomed, base)
			continue
		}
		keep = append(keep, base)
	}
	o.bases = keep
	return doomed
}

// leftover reports whether log.meta says that a segment was to be deleted: it lies below the start, or is older than all that are listed.
func (o *opener) leftover(base record.Offset) bool {
	m := o.meta.segments
	if len(m) == 0 {
		return false
	}
	i := slices.IndexFunc(m, func(s metaSegment) bool { return s.base == base })
	return base < m[0].base || i >= 0 && i < len(m)-1 && m[i].end <= o.meta.start
}

// examine goes through the segments and fills list. Segments behind a torn tail go to doomed.
func (o *opener) examine(doomed *[]record.Offset) error {
	for i, base := range o.bases {
		if gap := o.gapBefore(base); gap != "" {
			if !o.known || o.end() < o.meta.recoveryPoint {
				return o.damage(base, gap)
			}
			// The tail of the segment before was never flushed and is gone, so nothing from here on was flushed either.
			return o.discard(o.bases[i:], doomed)
		}
		s, err := o.trust(base, i == len(o.bases)-1)
		if err != nil {
			return err
		}
		if s != nil {
			o.list = append(o.list, s.segment)
			continue
		}
		scanned, err := o.scan(base, i+1 < len(o.bases))
		if err != nil {
			return err
		}
		o.list = append(o.list, scanned.segment)
		if scanned.torn > 0 {
			return o.discard(o.bases[i+1:], doomed)
		}
	}
	return nil
}

// dropUnused gives up a last segment that was begun behind a gap and never written: the log does not reach over the gap.
func (o *opener) dropUnused(doomed *[]record.Offset) {
	n := len(o.list) - 1
	if n < 0 || !o.list[n].empty() {
		return
	}
	unused := o.list[n].base
	o.list = o.list[:n]
	if unused > o.end() {
		*doomed = append(*doomed, unused)
		return
	}
	o.list = o.list[:n+1]
}

// end is the log end as far as examined.
func (o *opener) end() record.Offset {
	if len(o.list) == 0 {
		return o.meta.start
	}
	return o.list[len(o.list)-1].end
}

// gapBefore says what is wrong with a segment that begins at base as the next one.
func (o *opener) gapBefore(base record.Offset) string {
	if len(o.list) == 0 {
		if base > o.meta.start && !o.listedFirst(base) {
			return fmt.Sprintf("first segment begins at %d, the log at %d", base, o.meta.start)
		}
		return ""
	}
	last := o.list[len(o.list)-1]
	if base == last.end || o.listedAfter(last, base) {
		return ""
	}
	return fmt.Sprintf("segment %d ends at %d, the next begins at %d: a segment is missing", last.base, last.end, base)
}

// listedFirst reports whether log.meta knows base as the first segment that the log start leaves: the start may lie in a gap before it.
func (o *opener) listedFirst(base record.Offset) bool {
	i := slices.IndexFunc(o.meta.segments, func(m metaSegment) bool { return m.base == base })
	return i == 0 || i > 0 && o.meta.segments[i-1].end <= o.meta.start
}

// listedAfter reports whether log.meta knows base as the successor of a segment that is whole.
func (o *opener) listedAfter(s *segment, base record.Offset) bool {
	for i, m := range o.meta.segments {
		if m.base == s.base && m.end == s.end && i+1 < len(o.meta.segments) {
			return o.meta.segments[i+1].base == base
		}
	}
	return false
}

func (o *opener) damage(base record.Offset, reason string) *DamageError {
	return &DamageError{Path: o.log.path(fileName(base, logSuffix)), Offset: o.end(), Reason: reason}
}

// discard gives up whole segments behind a torn tail.
func (o *opener) discard(bases []record.Offset, doomed *[]record.Offset) error {
	for _, base := range bases {
		info, err := o.log.fs.Stat(o.log.path(fileName(base, logSuffix)))
		if err != nil {
			return fmt.Errorf("segment: open: %w", err)
		}
		o.report.Truncated += info.Size
	}
	*doomed = append(*doomed, bases...)
	return nil
}

// trusted is a segment that need not be read.
type trusted struct{ *segment }

// trust takes a segment from log.meta, or returns nil when it must be scanned. A file shorter than what was on disk is damage.
func (o *opener) trust(base record.Offset, last bool) (*trusted, error) {
	i := slices.IndexFunc(o.meta.segments, func(m metaSegment) bool { return m.base == base })
	if i < 0 || last || o.meta.segments[i].end > o.meta.recoveryPoint {
		return nil, nil
	}
	m := o.meta.segments[i]
	info, err := o.log.fs.Stat(o.log.path(fileName(base, logSuffix)))
	if err != nil {
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	if info.Size != m.size || m.size == 0 {
		return nil, nil
	}
	return &trusted{o.sealedFrom(m)}, nil
}

// scanned is a segment that was read whole.
type scanned struct {
	*segment
	torn   int64 // bytes behind the last good batch
	gap    bool  // offsets are missing between its batches
	epochs epochHistory
}

// scan reads a segment and decides what a bad batch in it means.
func (o *opener) scan(base record.Offset, more bool) (scanned, error) {
	l := o.log
	path := l.path(fileName(base, logSuffix))
	info, err := l.fs.Stat(path)
	if err != nil {
		return scanned{}, fmt.Errorf("segment: open: %w", err)
	}
	out := scanned{segment: newSegment(base, newFile(l.fs, path, vfs.ReadOnly))}
	out.exact = o.known && !o.meta.gaps
	h, err := out.file.acquire()
	if err != nil {
		return scanned{}, err
	}
	defer out.file.release()
	bad, err := o.read(&out, h, info.Size)
	if err != nil {
		return scanned{}, err
	}
	if !o.known { // the whole log is read, so that what log.meta said is seen
		out.exact, o.log.gaps = !out.gap, o.log.gaps || out.gap
	}
	out.written, out.created = info.ModTime, info.ModTime
	out.file.markVerified(0, out.size)
	out.torn = info.Size - out.size
	l.epochs = append(l.epochs, out.epochs...)
	if bad == nil {
		return out, nil
	}
	if out.end < o.meta.recoveryPoint && out.end < o.cutAt() {
		bad.Reason += fmt.Sprintf(", below the recovery point %d", o.meta.recoveryPoint)
		return scanned{}, bad
	}
	if err := o.tornOrDamaged(h, bad, info.Size, more); err != nil {
		return scanned{}, err
	}
	o.report.Truncated += out.torn
	return out, nil
}

// cutAt is where an interrupted truncation was going to cut; the largest offset when there was none.
func (o *opener) cutAt() record.Offset {
	if o.meta.truncating < 0 {
		return math.MaxInt64
	}
	return o.meta.truncating
}

var errCutHere = errors.New("segment: truncation point reached")

// read fills a segment from its batches up to the first bad one, which it returns, or up to where an interrupted truncation cuts.
func (o *opener) read(out *scanned, h vfs.File, size int64) (*DamageError, error) {
	s, since, interval := out.segment, int64(0), int64(o.log.cfg.IndexIntervalBytes)
	each := func(b record.Batch, position int64) error {
		head := headOf(b.Head)
		if head.next > o.cutAt() {
			return errCutHere
		}
		if int64(head.next-1-s.base) > maxRelative {
			return &DamageError{Path: s.file.path, Position: position, Offset: s.end, Reason: fmt.Sprintf("offset %d is too far from its segment", head.next-1)}
		}
		out.gap = out.gap || head.base != s.end
		s.newest.note(head)
		if s.memory.note(s.base, head, position, since, interval, s.newest) {
			since = 0
		}
		since += head.size
		out.epochs = out.epochs.note(head.epoch, head.base)
		s.size, s.end = position+head.size, head.next
		o.report.RecoveredBatches++
		return nil
	}
	fit := chain{expect: s.base, exact: s.exact, known: true, end: math.MaxInt64, epoch: o.log.epochs.last(), epochs: o.recorded, settled: o.meta.recoveryPoint}
	err := scanBatches(h, s.file.path, size, fit, each)
	var bad *DamageError
	switch {
	case err == nil || errors.Is(err, errCutHere):
		return nil, nil
	case errors.As(err, &bad):
		return bad, nil
	}
	return nil, err
}

// tornOrDamaged decides what a bad batch above the recovery point is. With nothing valid behind it, it is a write that the power cut
// tore; if it does not look like one, Report.Doubtful says so. With something valid behind it, it is damage to data that may have been acknowledged, except when a disk sector that the write
// covered was never written at all: sectors reach the disk in any order, and what was not flushed was not acknowledged.
func (o *opener) tornOrDamaged(h vfs.File, bad *DamageError, size int64, more bool) error {
	next, err := findBatch(h, bad.Position, size, bad.Offset)
	if err != nil {
		return err
	}
	if planted.On(planted.DamageCutAsTorn) {
		return nil
	}
	if next < 0 && !more {
		return o.doubt(h, bad, size)
	}
	until := next
	if next < 0 {
		until = size
	}
	hole, err := hasHole(h, bad.Position, until, size, bad.Offset)
	if err != nil || hole {
		return err
	}
	if next >= 0 {
		bad.Reason += fmt.Sprintf(", and a valid batch follows at byte %d", next)
		return bad
	}
	// The file ends early and later files exist. They were begun after the last flush, or log.meta would know.
	if o.known {
		return o.doubt(h, bad, size)
	}
	bad.Reason += ", and later segments follow"
	return bad
}

// doubt notes that the bad batch at the end of a file does not look torn: all of it was written, so it may have been flushed, and changed since.
func (o *opener) doubt(h vfs.File, bad *DamageError, size int64) error {
	hole, err := hasHole(h, bad.Position, size, size, bad.Offset)
	if err != nil || hole {
		return err
	}
	whole, err := isLong(h, bad.Position, size)
	whole = whole && !planted.On(planted.RottenEndTakenForTorn)
	o.report.Doubtful, o.report.Rotten = o.report.Doubtful || whole, o.report.Rotten || whole
	return err
}

// checkEnd refuses a log that ends before what is known to have been on disk.
func (o *opener) checkEnd() error {
	if end := o.end(); end < o.meta.recoveryPoint {
		return &DamageError{Path: o.log.dir, Offset: end, Reason: fmt.Sprintf("the log ends at %d, below the recovery point %d", end, o.meta.recoveryPoint)}
	}
	return nil
}

// loadEpochs joins the epoch file, for what was not scanned, with what the scanned batches say. A file that cannot be used is rebuilt
// from the headers of all segments.
func (o *opener) loadEpochs() error {
	fromBatches := o.log.epochs
	from := o.meta.start
	for _, s := range o.list {
		if s.disk != nil {
			from = s.end
		}
	}
	old := o.recorded
	if !o.epochsKnown {
		var err error
		if old, err = o.epochsFromLog(); err != nil {
			return err
		}
	}
	history := old.cutEnd(from)
	for _, e := range fromBatches {
		history = history.note(e.Epoch, e.Start)
	}
	o.log.epochs = history.cutEnd(max(o.end(), o.meta.start+1)).cutStart(o.meta.start)
	return nil
}

// epochsFromLog reads the headers of the segments that were not scanned.
func (o *opener) epochsFromLog() (epochHistory, error) {
	var history epochHistory
	for _, s := range o.list {
		if s.disk == nil {
			continue
		}
		h, err := s.file.acquire()
		if err != nil {
			return nil, err
		}
		w := s.walk(h, 0)
		for w.position < s.size {
			var b head
			if b, _, err = w.next(); err != nil {
				break
			}
			history = history.note(b.epoch, b.base)
		}
		w.close()
		s.file.release()
		if err != nil {
			return nil, err
		}
	}
	return history, nil
}

// settle makes the disk what was decided: cuts, deletes, rewrites indexes, syncs all that was read, and writes log.meta.
func (o *opener) settle() error {
	l := o.log
	if end := o.end(); end < o.meta.start {
		// The start was moved beyond a tail that was then lost: nothing that may be read is left.
		for _, s := range o.list {
			if err := o.drop(s.base); err != nil {
				return err
			}
		}
		o.list = nil
	}
	for i, s := range o.list {
		if s.disk != nil {
			continue
		}
		h, err := l.fs.OpenFile(s.file.path, vfs.ReadWrite)
		if err == nil {
			err = cutFile(h, s.size)
		}
		if err != nil {
			return fmt.Errorf("segment: recover: %w", err)
		}
		if i < len(o.list)-1 {
			o.sealScanned(s)
		}
	}
	if len(o.list) == 0 {
		first, err := l.create(o.meta.start)
		if err != nil {
			return err
		}
		first.file.release()
		first.file = newFile(l.fs, first.file.path, vfs.ReadWrite)
		o.list = append(o.list, first)
	}
	if err := o.activate(o.list[len(o.list)-1]); err != nil {
		return err
	}
	if err := l.dropSnapshots(func(at record.Offset) bool { return at > l.active.end }); err != nil {
		return err
	}
	l.flushed = l.active.end
	if _, err := l.fs.Stat(l.path(epochsName)); isNotExist(err) {
		l.epochsSum = crc32.Checksum(epochHistory{}.encode(), castagnoli())
	}
	err := l.writeMeta(false, noTruncation)
	if Full(err) && o.meta.truncating < 0 {
		l.metaDue = true // the log.meta that is there stays right, so a full disk keeps no log from starting
		return nil
	}
	return err
}

// sealScanned gives a scanned segment that is not the last one its indexes on disk.
func (o *opener) sealScanned(s *segment) {
	x := s.memory
	x.noteLast(s)
	s.memory, s.disk, s.indexed = indexes{}, &diskIndex{}, len(x.offsets)
	if err := writeIndexes(o.log.fs, o.log.dir, s.base, &x); err != nil {
		s.disk.loaded.Store(&loadedIndex{rebuilt: &x})
	}
}
