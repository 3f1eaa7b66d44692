package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Log is one partition's log. One goroutine, its owner, calls the methods. View may be called by anybody, and what View and BeginFlush
// return may be used on other goroutines while the owner goes on.
type Log struct {
	fs   vfs.FS
	dir  string
	cfg  Config
	view atomic.Pointer[View]
	idle *handles

	sealed []*segment // oldest first; replaced, never changed, because views share it
	active *segment
	since  int64 // bytes appended to the active segment since its last index entry

	start      record.Offset
	flushed    record.Offset
	generation uint64
	epochs     epochHistory
	relaxed    bool
	gaps       bool // offsets may be missing between batches: some check of the chain has to be weaker

	dirty      []dirtyFile // files with bytes that no completed flush covers
	changes    uint64      // counts changes that need a sync; stamps dirty files and dirChange
	dirChange  uint64      // the change that last touched names in the directory; 0 when they are synced
	held       *file       // the active file on which the log itself holds a reference, once it was opened
	metaDue    bool        // the next flush has something to say in log.meta: of a roll, or of the first bytes of a file
	named      bool        // log.meta names the active segment
	unused     []*segment  // empty ones that were given up; their files stay while log.meta names them
	epochsSum  uint32      // CRC-32C of the leader-epoch-checkpoint on disk; 0 when unknown
	cleanOnDsk bool        // log.meta carries the clean mark
	offline    error       // sticky
}

type dirtyFile struct {
	file   *file
	change uint64
}

// Start is the log start offset: the first offset that may be read.
func (l *Log) Start() record.Offset { return l.start }

// End is the log end offset: the offset of the next record to be appended.
func (l *Log) End() record.Offset { return l.active.end }

// Flushed is the offset below which everything is known to be on disk.
func (l *Log) Flushed() record.Offset { return l.flushed }

// Generation is raised by each truncation. What was flushed under another generation says nothing about this log.
func (l *Log) Generation() uint64 { return l.generation }

// Epochs is a copy of the epoch history.
func (l *Log) Epochs() []record.EpochStart { return slices.Clone(l.epochs) }

// Relaxed is the mark that SetRelaxed sets.
func (l *Log) Relaxed() bool { return l.relaxed }

// Dir is the directory of the log.
func (l *Log) Dir() string { return l.dir }

// Size is the number of bytes of log on disk, indexes not counted.
func (l *Log) Size() int64 {
	size := l.active.size
	for _, s := range l.sealed {
		size += s.size
	}
	return size
}

// View returns the present state of the log. It may be called from any goroutine.
func (l *Log) View() *View { return l.view.Load() }

// SetConfig replaces the configuration, which must be valid.
func (l *Log) SetConfig(cfg Config) { l.cfg = cfg }

// Err is the error that took the log offline, or nil.
func (l *Log) Err() error { return l.offline }

// publish makes the state visible to readers.
func (l *Log) publish() {
	// The branch keeps the arguments of a check that passes from being boxed at every append.
	if l.start > l.active.end && !l.active.empty() || l.flushed > l.active.end {
		invariant.Check(false, "segment: %s: start %d, flushed %d, end %d", l.dir, l.start, l.flushed, l.active.end)
	}
	l.view.Store(&View{start: l.start, sealed: l.sealed, active: l.active, idle: l.idle, epochs: l.epochs})
}

// fail takes the log offline for good.
func (l *Log) fail(err error) error {
	if l.offline == nil {
		l.offline = fmt.Errorf("%w: %w", ErrOffline, err)
	}
	return l.offline
}

// touch counts a change of a file that needs a sync.
func (l *Log) touch(f *file) {
	l.changes++
	for i := range l.dirty {
		if l.dirty[i].file == f {
			l.dirty[i].change = l.changes
			return
		}
	}
	// The reference keeps the descriptor that was written to: an error of a write-back is reported on it and on no later one.
	if _, err := f.acquire(); err != nil {
		_ = l.fail(err)
		return
	}
	l.dirty = append(l.dirty, dirtyFile{f, l.changes})
}

// undirty forgets a file that is gone.
func (l *Log) undirty(f *file) {
	for i := range l.dirty {
		if l.dirty[i].file == f {
			l.dirty = slices.Delete(l.dirty, i, i+1)
			f.release()
			return
		}
	}
}

func (l *Log) touchDir() {
	l.changes++
	l.dirChange = l.changes
}

// writer returns the handle of the active file, opening it at the first append. The log keeps a reference while the segment is active.
func (l *Log) writer() (vfs.File, error) {
	if l.held == l.active.file {
		return l.active.file.handle, nil
	}
	h, err := l.active.file.acquire()
	if err != nil {
		return nil, err
	}
	l.held = l.active.file
	return h, nil
}

// letGo gives up the log's own reference on the active file.
func (l *Log) letGo() {
	if l.held != nil {
		l.held.release()
		l.held = nil
	}
}

// writeMeta makes log.meta say what is so now. The epoch history goes first, and log.meta names it by its checksum, so that a crash
// between the two is seen: recovery then takes the history from the batches.
func (l *Log) writeMeta(clean bool, truncating record.Offset) error {
	if !l.named && !planted.On(planted.DirectoryNotSynced) {
		// Only so is a file that log.meta names, and that is not there, a lost one.
		if err := l.fs.SyncDir(l.dir); err != nil {
			return fmt.Errorf("segment: write log.meta: %w", err)
		}
	}
	epochs := l.epochs.encode()
	sum := crc32.Checksum(epochs, castagnoli())
	if sum != l.epochsSum {
		l.epochsSum = 0
		if err := vfs.WriteFileAtomic(l.fs, l.dir, l.path(epochsName), epochs); err != nil {
			return fmt.Errorf("segment: write leader-epoch-checkpoint: %w", err)
		}
		l.epochsSum = sum
	}
	flushed := l.flushed
	if planted.On(planted.RecoveryPointAhead) && truncating < 0 {
		flushed = l.active.end
	}
	m := meta{start: l.start, recoveryPoint: flushed, clean: clean, relaxed: l.relaxed, gaps: l.gaps, truncating: truncating, epochs: sum}
	for _, s := range l.sealed {
		m.segments = append(m.segments, s.describe())
	}
	m.segments = append(m.segments, l.active.describe())
	if err := l.replaceMeta(m); err != nil {
		return err
	}
	// Until log.meta knows that something in the newest file was flushed, recovery would take an emptied one for one that was never written. What is written before
	// such a flush, or for one that was begun before the file was, leaves that to the next flush.
	l.metaDue = l.flushed <= l.active.base && !l.active.empty()
	l.cleanOnDsk, l.named = clean, true
	l.dirChange = 0 // the directory was synced
	return l.dropUnused()
}

func (l *Log) replaceMeta(m meta) error {
	if err := vfs.WriteFileAtomic(l.fs, l.dir, l.path(metaName), m.encode()); err != nil {
		return fmt.Errorf("segment: write log.meta: %w", err)
	}
	return nil
}

const noTruncation record.Offset = -1

func (s *segment) describe() metaSegment {
	return metaSegment{base: s.base, end: s.end, size: s.size, newest: s.newest, created: s.created, written: s.written, indexed: s.indexed}
}

// Checkpoint writes log.meta with the present recovery point, so that an unclean stop scans less. The owner may call it now and then;
// nothing depends on it.
func (l *Log) Checkpoint() error {
	if l.offline != nil {
		return l.offline
	}
	if err := l.writeMeta(false, noTruncation); err != nil {
		return l.spare(err)
	}
	return nil
}

// SetRelaxed sets or clears the mark which says that bytes of this log may have been acknowledged without a flush. The mark is on disk
// when it returns. Clearing it is right only when the whole log is flushed.
func (l *Log) SetRelaxed(relaxed bool) error {
	if l.offline != nil {
		return l.offline
	}
	if l.relaxed == relaxed {
		return nil
	}
	l.relaxed = relaxed
	if err := l.writeMeta(false, noTruncation); err != nil {
		l.relaxed = !relaxed
		return l.spare(err)
	}
	return nil
}

// Close flushes everything, writes the indexes and log.meta with the clean mark, and closes the log. The next Open reads no batches.
// Slices that are still held stay good. An error means that the next Open recovers.
func (l *Log) Close() error {
	if errors.Is(l.offline, ErrClosed) {
		return nil
	}
	err := l.closeClean()
	l.Abandon()
	return err
}

func (l *Log) closeClean() error {
	if err := l.Flush(); err != nil {
		return err
	}
	if l.cleanOnDsk && l.changes == 0 && l.epochsSum == crc32.Checksum(l.epochs.encode(), castagnoli()) {
		return nil // nothing happened since the last clean stop
	}
	x := l.active.memory
	x.noteLast(l.active)
	if err := writeIndexes(l.fs, l.dir, l.active.base, &x); err != nil && !Full(err) {
		return fmt.Errorf("segment: write indexes: %w", err)
	}
	closed := *l.active
	closed.indexed = len(x.offsets)
	l.active = &closed
	return l.writeMeta(true, noTruncation)
}

// Abandon closes the descriptors and marks nothing, as a crash of the process would.
func (l *Log) Abandon() {
	for _, d := range l.dirty {
		d.file.release()
	}
	l.dirty = nil
	l.letGo()
	l.idle.close()
	if !errors.Is(l.offline, ErrClosed) {
		l.offline = fmt.Errorf("%w: %w", ErrOffline, ErrClosed)
	}
}

// Remove closes the log and deletes its directory. The directory is renamed first, so that a half-deleted one is never taken for a
// log; leftovers end in .deleted and may be removed by whoever finds them.
func (l *Log) Remove() error {
	l.Abandon()
	for _, s := range append(slices.Clone(l.sealed), l.active) {
		s.file.markGone()
	}
	doomed := l.dir + deletedSuffix
	if err := l.fs.RemoveAll(doomed); err != nil {
		return fmt.Errorf("segment: remove: %w", err)
	}
	if err := l.fs.Rename(l.dir, doomed); err != nil {
		return fmt.Errorf("segment: remove: %w", err)
	}
	if err := l.fs.SyncDir(filepath.Dir(l.dir)); err != nil {
		return fmt.Errorf("segment: remove: %w", err)
	}
	if err := l.fs.RemoveAll(doomed); err != nil {
		return fmt.Errorf("segment: remove: %w", err)
	}
	return nil
}
