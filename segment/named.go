package segment

import (
	"fmt"
	"slices"

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
// leave a log that looks damaged. On a disk that is full recovery goes on without: the deletions make the space.
func (o *opener) announce(doomed []record.Offset) error {
	cut := o.meta
	cut.truncating, cut.clean = o.end(), false
	var gone bool
	for _, s := range o.meta.segments {
		dropped := slices.Contains(doomed, s.base) || o.end() < o.meta.start
		gone = gone || dropped && !o.meta.mayBeGone(s)
	}
	if !o.known || !gone {
		return nil
	}
	if err := o.log.replaceMeta(cut); err != nil && !full(err) {
		return fmt.Errorf("segment: recover: %w", err)
	}
	return nil
}
