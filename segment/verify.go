package segment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Finding is one thing that Verify found wrong.
type Finding struct {
	Kind     string        `json:"kind"` // one of the Kind constants
	File     string        `json:"file"` // name within the directory
	Position int64         `json:"position"`
	Offset   record.Offset `json:"offset"`
	Message  string        `json:"message"`
}

// What Verify finds. Damage and identity need a person; the rest is repaired by opening the log.
const (
	KindDamage   = "damage"   // records that may have been acknowledged are missing or altered
	KindTorn     = "torn"     // an interrupted write at the end, which recovery cuts
	KindIndex    = "index"    // an index is missing or does not match the log, and will be rebuilt
	KindMeta     = "meta"     // log.meta or leader-epoch-checkpoint is missing or wrong, and will be rebuilt
	KindIdentity = "identity" // partition.meta is missing or wrong
)

func (f Finding) String() string {
	return fmt.Sprintf("%s %s position %d offset %d: %s", f.Kind, f.File, f.Position, f.Offset, f.Message)
}

// Verify reads everything in the directory of a log that nobody has open, and reports what is wrong, in order. It changes nothing. The
// error says only that the reading itself failed.
func Verify(fs vfs.FS, dir string) ([]Finding, error) {
	v := &verifier{fs: fs, dir: dir}
	if _, err := ReadIdentity(fs, dir); err != nil {
		v.report(KindIdentity, identityName, 0, 0, err.Error())
	}
	bases, err := listSegments(fs, dir)
	if err != nil {
		return nil, err
	}
	m, err := readMeta(fs, dir)
	if err != nil {
		v.report(KindMeta, metaName, 0, 0, err.Error())
		m = meta{truncating: noTruncation, gaps: true}
		if len(bases) > 0 {
			m.start = bases[0]
		}
	}
	v.meta, v.end, v.read = m, m.start, m.start
	if v.recorded, err = readEpochs(fs, dir, m.epochs); err != nil {
		v.recorded = nil // checkEpochs reports it
	}
	for _, s := range m.segments {
		if !m.mayBeGone(s) && !slices.Contains(bases, s.base) {
			v.report(KindDamage, fileName(s.base, logSuffix), 0, s.base, missingNamed)
		}
	}
	for i, base := range bases {
		if err := v.segment(base, i, i == len(bases)-1); err != nil {
			return v.findings, fmt.Errorf("segment: verify: %w", err)
		}
	}
	if end := v.read; end < m.recoveryPoint {
		v.report(KindDamage, "", 0, end, fmt.Sprintf("the log ends at %d, below the recovery point %d", end, m.recoveryPoint))
	}
	v.checkEpochs()
	return v.findings, nil
}

type verifier struct {
	fs       vfs.FS
	dir      string
	meta     meta
	end      record.Offset
	read     record.Offset // end of the last segment, which is below the log start when records that are deleted are missing in it
	lost     bool          // the end of the last segment is not known
	epochs   epochHistory
	recorded epochHistory // of the epoch file, if it is the one that log.meta names
	findings []Finding
}

func (v *verifier) report(kind, file string, position int64, offset record.Offset, message string) {
	v.findings = append(v.findings, Finding{Kind: kind, File: file, Position: position, Offset: offset, Message: message})
}

// segment reads one segment file and its indexes.
func (v *verifier) segment(base record.Offset, i int, last bool) error {
	name := fileName(base, logSuffix)
	if base != v.end && !(i == 0 && base < v.end) && !v.lost && !v.knownGap(base) {
		v.report(KindDamage, name, 0, v.end, fmt.Sprintf("the log reaches %d and this segment begins at %d", v.end, base))
	}
	v.lost = false
	h, err := v.fs.Open(filepath.Join(v.dir, name))
	if err != nil {
		return err
	}
	defer h.Close() //nolint:errcheck // nothing was written
	size, err := h.Size()
	if err != nil {
		return err
	}
	v.end, v.read = max(v.end, base), base
	var heads []head
	var positions []int64
	whole := true
	for at := int64(0); at < size; {
		fit := chain{expect: base, exact: !v.meta.gaps, known: at == 0, end: math.MaxInt64, epoch: v.epochs.last(), epochs: v.recorded, settled: v.meta.recoveryPoint}
		if len(heads) > 0 {
			fit.expect = heads[len(heads)-1].next
		}
		err := verify(h, name, at, size, fit, func(b record.Batch, at int64) {
			heads, positions = append(heads, headOf(b.Head)), append(positions, at)
			v.epochs = v.epochs.note(b.LeaderEpoch(), b.BaseOffset())
			v.end, v.read = max(v.end, b.NextOffset()), b.NextOffset()
		})
		if err == nil {
			break
		}
		whole = false
		if at, err = v.bad(h, err, size, last); err != nil {
			return err
		}
	}
	if whole && (!last || v.meta.clean) {
		v.indexes(base, heads, positions)
	}
	return nil
}

// knownGap reports whether log.meta lists base as the successor of the segment that ends where the log ends so far, or as the first
// that the log start leaves.
func (v *verifier) knownGap(base record.Offset) bool {
	i := slices.IndexFunc(v.meta.segments, func(m metaSegment) bool { return m.base == base })
	return i == 0 || i > 0 && (v.meta.segments[i-1].end == v.end || v.meta.segments[i-1].end <= v.meta.start)
}

// bad tells a torn tail from damage, by the rules of recovery, and returns where the next good batch begins.
func (v *verifier) bad(h vfs.File, err error, size int64, last bool) (int64, error) {
	var bad *DamageError
	if !errors.As(err, &bad) {
		return 0, err
	}
	next, err := findBatch(h, bad.Position, size, bad.Offset)
	if err != nil {
		return 0, err
	}
	kind := KindDamage
	if last && next < 0 && bad.Offset >= v.meta.recoveryPoint {
		kind = KindTorn
	}
	v.report(kind, bad.Path, bad.Position, bad.Offset, bad.Reason)
	if next < 0 {
		v.lost = !last // where the segment ended is not known, so the next one cannot be checked against it
		next = size
	}
	return next, nil
}

// indexes compares both indexes of a segment with its batches.
func (v *verifier) indexes(base record.Offset, heads []head, positions []int64) {
	name := fileName(base, indexSuffix)
	b, err := vfs.ReadFile(v.fs, filepath.Join(v.dir, name), MaxSegmentBytes)
	if err == nil {
		var entries []offsetEntry
		if entries, err = decodeOffsets(b, MaxSegmentBytes, MaxSegmentBytes); err == nil {
			err = matchOffsets(base, entries, heads, positions)
		}
	}
	if err != nil {
		v.report(KindIndex, name, 0, base, err.Error())
	}
	name = fileName(base, timeSuffix)
	b, err = vfs.ReadFile(v.fs, filepath.Join(v.dir, name), MaxSegmentBytes)
	if err == nil {
		var entries []timeEntry
		if entries, err = decodeTimes(b, MaxSegmentBytes); err == nil {
			err = matchTimes(base, entries, heads)
		}
	}
	if err != nil {
		v.report(KindIndex, name, 0, base, err.Error())
	}
}

func matchOffsets(base record.Offset, entries []offsetEntry, heads []head, positions []int64) error {
	for n, e := range entries {
		i, found := slices.BinarySearch(positions, int64(e.position))
		if !found || heads[i].next-1 != base+record.Offset(e.relative) {
			return fmt.Errorf("segment: index entry %d names offset %d at byte %d, where no such batch is", n, base+record.Offset(e.relative), e.position)
		}
	}
	return nil
}

func matchTimes(base record.Offset, entries []timeEntry, heads []head) error {
	for n, e := range entries {
		at := base + record.Offset(e.relative)
		i, found := slices.BinarySearchFunc(heads, at, func(h head, at record.Offset) int { return cmp.Compare(h.next-1, at) })
		if !found || heads[i].maxTimestamp != e.timestamp {
			return fmt.Errorf("segment: time index entry %d names timestamp %d at offset %d, where no such batch is", n, e.timestamp, at)
		}
	}
	return nil
}

// checkEpochs compares the epoch file with the batches. A file that is behind them is normal after an unclean stop.
func (v *verifier) checkEpochs() {
	have, err := readEpochs(v.fs, v.dir, v.meta.epochs)
	want := v.epochs.cutStart(v.meta.start)
	switch {
	case err != nil:
		v.report(KindMeta, epochsName, 0, v.meta.start, err.Error())
	case v.meta.clean && len(want) > 0 && (len(have) < len(want) || !slices.Equal(have[len(have)-len(want)+1:], want[1:])):
		v.report(KindMeta, epochsName, 0, v.meta.start, fmt.Sprintf("has %v, the batches say %v", have, want))
	}
}
