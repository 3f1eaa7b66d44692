package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Report says what Open found.
type Report struct {
	Clean     bool  // the last owner closed in order: nothing was scanned
	Truncated int64 // bytes of torn tail that were cut
	// Doubtful says that records which were acknowledged may be missing: what was cut does not look torn, or the log is relaxed and was not closed in order.
	// It is said again by every Open until SettleDoubt.
	Doubtful bool
	// Rotten says more of a doubtful log: an end was cut off that had been written whole and has changed since.
	Rotten           bool
	RecoveredBatches int  // batches that were read and checked
	Relaxed          bool // the mark of SetRelaxed
	Epochs           []record.EpochStart
	Damaged          error // a *DamageError, which Open returns too; the log is then left as it is
}

// Open opens the log in dir, or begins one at offset 0 when there is none, and recovers it when its last owner did not close it. When
// it returns, everything that it kept is on disk. The directory must be under the caller's LockDir.
//
// The errors are *DamageError, with the reason in Report too and nothing changed on disk; ErrIdentity; and what the disk said.
func Open(fs vfs.FS, dir string, id Identity, cfg Config) (*Log, Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, Report{}, err
	}
	if err := claim(fs, dir, id); err != nil {
		return nil, Report{}, err
	}
	o := &opener{log: &Log{fs: fs, dir: dir, cfg: cfg, idle: &handles{}}}
	if err := o.open(); err != nil {
		if o.log.active != nil {
			o.log.Abandon()
		}
		if errors.Is(err, ErrDamaged) {
			o.report.Damaged = err
		}
		return nil, o.report, err
	}
	o.log.publish()
	o.report.Epochs = o.log.Epochs()
	return o.log, o.report, nil
}

// opener is one Open in progress.
type opener struct {
	log    *Log
	report Report
	meta   meta
	known  bool // meta was read from disk
	bases  []record.Offset
	list   []*segment
	// recorded is the epoch file's history, when epochsKnown says that it is the one that log.meta names.
	recorded    epochHistory
	epochsKnown bool
}

func (o *opener) open() error {
	var err error
	if o.meta, err = readMeta(o.log.fs, o.log.dir); err != nil {
		if !errors.Is(err, errNoMeta) {
			return err
		}
		o.meta = meta{truncating: noTruncation}
	} else {
		o.known = true
	}
	if o.report.Doubtful, o.report.Rotten, err = doubted(o.log.fs, o.log.dir); err != nil {
		return err
	}
	o.report.Relaxed = o.meta.relaxed
	o.log.relaxed, o.log.start = o.meta.relaxed, o.meta.start
	if o.bases, err = listSegments(o.log.fs, o.log.dir); err != nil {
		return err
	}
	o.log.gaps = o.meta.gaps // of one that is not known recovery finds out
	leftovers := o.skip()
	if o.known && o.meta.clean {
		ok, err := o.openClean(leftovers)
		if ok || err != nil {
			return err
		}
	}
	return o.recover(leftovers)
}

// openClean opens the log from log.meta alone, if the files are those that it lists, apart from leftovers.
func (o *opener) openClean(leftovers []record.Offset) (bool, error) {
	l := o.log
	listed := slices.DeleteFunc(slices.Clone(o.meta.segments), func(m metaSegment) bool { return slices.Contains(leftovers, m.base) })
	if len(o.bases) != len(listed) || len(o.bases) == 0 {
		return false, nil
	}
	for i, m := range listed {
		if m.base != o.bases[i] {
			return false, nil
		}
		info, err := l.fs.Stat(l.path(fileName(m.base, logSuffix)))
		if err != nil {
			return false, fmt.Errorf("segment: open: %w", err)
		}
		if m.size != info.Size {
			return false, nil
		}
		o.list = append(o.list, o.sealedFrom(m))
	}
	epochs, err := readEpochs(l.fs, l.dir, o.meta.epochs)
	if err != nil {
		return false, nil // recovery rebuilds them
	}
	l.epochs, l.epochsSum = epochs, o.meta.epochs
	last := o.list[len(o.list)-1]
	if err := o.activate(last); err != nil {
		return false, err
	}
	l.flushed, l.cleanOnDsk, l.named = l.active.end, true, true
	o.report.Clean = true
	for _, base := range leftovers {
		_ = removeSegment(l.fs, l.dir, base) // it is known as a leftover at every Open
	}
	return true, nil
}

// sealedFrom makes a segment of a line of log.meta.
func (o *opener) sealedFrom(m metaSegment) *segment {
	path := o.log.path(fileName(m.base, logSuffix))
	return &segment{
		base: m.base, end: m.end, size: m.size, newest: m.newest, created: m.created, written: m.written, indexed: m.indexed, exact: !o.meta.gaps,
		file: newFile(o.log.fs, path, vfs.ReadOnly), disk: &diskIndex{},
	}
}

// activate makes the last segment the active one, with its indexes in memory.
func (o *opener) activate(s *segment) error {
	l := o.log
	active := *s
	active.disk = nil
	active.file = newFile(l.fs, s.file.path, vfs.ReadWrite)
	active.file.verified = s.file.verified
	if s.disk != nil && s.size > 0 {
		x, err := s.disk.whole(s)
		if err != nil {
			return err
		}
		active.memory, active.loaded = *x, s.size
	} else {
		active.memory = s.memory
	}
	l.sealed = slices.Clip(o.list[:len(o.list)-1])
	l.active = &active
	if n := len(active.memory.offsets); n > 0 {
		l.since = active.size - int64(active.memory.offsets[n-1].position)
	} else {
		l.since = active.size
	}
	return nil
}

// whole loads both indexes, from disk or from the log.
func (d *diskIndex) whole(s *segment) (*indexes, error) {
	offsets, err := readOffsets(s)
	if err == nil && len(offsets) == s.indexed {
		if times, err := readTimes(s); err == nil {
			return &indexes{offsets: offsets, times: times}, nil
		}
	}
	l, err := d.rebuild(s)
	if err != nil {
		return nil, err
	}
	return l.rebuilt, nil
}

// listSegments lists the base offsets of the segment files in a directory, rising.
func listSegments(fs vfs.FS, dir string) ([]record.Offset, error) {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("segment: list %s: %w", dir, err)
	}
	var bases []record.Offset
	for _, name := range names {
		if base, ok := parseName(name, logSuffix); ok {
			bases = append(bases, base)
		}
	}
	return bases, nil
}

// tidy removes what interrupted writes left behind.
func tidy(fs vfs.FS, dir string) error {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("segment: list %s: %w", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) || strings.HasSuffix(name, deletedSuffix) {
			_ = fs.RemoveAll(filepath.Join(dir, name)) // found again at the next Open
		}
	}
	return nil
}
