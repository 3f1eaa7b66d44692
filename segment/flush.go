package segment

import (
	"fmt"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Flush is one group commit: a promise that after Sync everything below Target is on disk, if the log's generation is still the same.
// Every Flush goes to EndFlush, whether Sync was called or not.
type Flush struct {
	Target     record.Offset
	Generation uint64

	fs     vfs.FS
	dir    string // set when names in the directory are to be synced
	files  []*file
	change uint64
}

// DirtyFiles is how many files the next flush has to sync. 0 means that a flush costs nothing.
func (l *Log) DirtyFiles() int { return len(l.dirty) }

// BeginFlush promises everything that is appended by now. Appends and truncations may go on while Sync runs.
func (l *Log) BeginFlush() Flush {
	f := Flush{Target: l.active.end, Generation: l.generation, fs: l.fs, change: l.changes}
	for _, d := range l.dirty {
		// The dirty list holds a reference, so the descriptor is open and this cannot fail; a file that is gone needs no sync.
		if planted.On(planted.FlushesActiveFileOnly) && d.file != l.active.file {
			continue
		}
		if _, err := d.file.take(nil); err == nil {
			f.files = append(f.files, d.file)
		}
	}
	if l.dirChange > 0 {
		f.dir = l.dir
	}
	return f
}

// Sync does the waiting. It touches nothing of the log and may run on any goroutine, once. After an error the state of the disk is
// unknown and calling it again proves nothing.
func (f *Flush) Sync() error {
	for _, file := range f.files {
		if err := file.handle.Sync(); err != nil {
			return fmt.Errorf("segment: flush: %w", err)
		}
	}
	if f.dir != "" {
		if err := f.fs.SyncDir(f.dir); err != nil {
			return fmt.Errorf("segment: flush: %w", err)
		}
	}
	return nil
}

// EndFlush takes the result of Sync back on the owner's goroutine. An error takes the log offline for good: the kernel may have dropped
// the pages, so a second fsync that succeeds would be a lie. A flush from before a truncation moves nothing.
func (l *Log) EndFlush(f Flush, err error) error {
	for _, file := range f.files {
		file.release()
	}
	if l.offline != nil {
		return l.offline
	}
	if err != nil && planted.On(planted.FailedSyncRetried) {
		return nil
	}
	if err != nil {
		return l.fail(err)
	}
	if f.Generation != l.generation {
		return nil
	}
	l.settle(f.change)
	l.flushed = max(l.flushed, f.Target)
	if l.metaDue {
		// A full disk costs a longer recovery and nothing else, since the files are named; the next flush tries again.
		err := l.writeMeta(false, noTruncation)
		if err != nil && !Full(err) {
			return l.fail(err)
		}
	}
	return nil
}

// settle forgets what was dirty up to a change.
func (l *Log) settle(change uint64) {
	rest := l.dirty[:0]
	for _, d := range l.dirty {
		if d.change <= change {
			d.file.release()
			continue
		}
		rest = append(rest, d)
	}
	clear(l.dirty[len(rest):])
	l.dirty = rest
	if l.dirChange <= change {
		l.dirChange = 0
	}
}

// Flush makes everything appended so far durable and waits for it.
func (l *Log) Flush() error {
	if l.offline != nil {
		return l.offline
	}
	f := l.BeginFlush()
	return l.EndFlush(f, f.Sync())
}
