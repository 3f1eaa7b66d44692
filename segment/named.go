package segment

import (
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// log.meta names every file that a byte of the log was ever written to, before the first byte is, and the names are on disk before it is. So a file that
// it names and that is not there was lost, whether the disk kept the later versions of log.meta or was too full for them.

const missingNamed = "log.meta names this segment, and it is missing"

// checkNamed refuses a log of which a named segment is missing. doomed are the segments that an interrupted truncation or retention was going to delete.
func (o *opener) checkNamed(doomed []record.Offset) error {
	for _, m := range o.meta.segments {
		if o.meta.mayBeGone(m) || slices.Contains(o.bases, m.base) || slices.Contains(doomed, m.base) {
			continue
		}
		return &DamageError{Path: o.log.path(fileName(m.base, logSuffix)), Offset: m.base, Reason: missingNamed}
	}
	return nil
}

// mayBeGone reports whether this log.meta was written to announce the deletion of a segment that it lists.
func (m *meta) mayBeGone(s metaSegment) bool {
	below := s.end <= m.start && s.base != m.segments[len(m.segments)-1].base
	behind := m.truncating >= 0 && (s.base >= m.truncating || m.start >= m.truncating)
	return below || behind
}

// announce writes to disk, as a truncation does, that recovery is about to delete segments that log.meta names; else a crash before the new log.meta would
// leave a log that looks damaged. Where the disk is too full for that, drop leaves their files.
func (o *opener) announce(doomed []record.Offset) error {
	cut := o.meta
	cut.truncating, cut.clean = o.end(), false
	gone := func(s metaSegment) bool { return slices.Contains(doomed, s.base) || o.end() < o.meta.start }
	if !slices.ContainsFunc(o.meta.segments, func(s metaSegment) bool { return gone(s) && !o.meta.mayBeGone(s) }) {
		return nil
	}
	err := o.log.replaceMeta(cut)
	if Full(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("segment: recover: %w", err)
	}
	o.meta = cut
	return nil
}

// drop gives up a segment. One that log.meta still names is emptied: the next Open gives it up again, or goes on in it if the log has come to where it begins.
func (o *opener) drop(base record.Offset) error {
	if !slices.ContainsFunc(o.meta.segments, func(s metaSegment) bool { return s.base == base && !o.meta.mayBeGone(s) }) {
		return removeSegment(o.log.fs, o.log.dir, base)
	}
	h, err := o.log.fs.OpenFile(o.log.path(fileName(base, logSuffix)), vfs.ReadWrite)
	if err == nil {
		err = cutFile(h, 0)
	}
	if err != nil {
		return fmt.Errorf("segment: recover: %w", err)
	}
	o.log.unused = append(o.log.unused, newSegment(base, newFile(o.log.fs, o.log.path(fileName(base, logSuffix)), vfs.ReadWrite)))
	return nil
}

// dropUnused deletes the files of segments that were given up, once log.meta does not name them any more. One that stayed could come to lie inside the log.
func (l *Log) dropUnused() error {
	for len(l.unused) > 0 {
		if err := l.dropFile(l.unused[0]); err != nil {
			return err
		}
		l.unused = l.unused[1:]
	}
	return nil
}
