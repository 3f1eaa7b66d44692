package segment

import (
	"slices"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// MoveStart raises the log start offset and deletes the segments that lie wholly below it. The new start is on disk before anything is
// deleted. A start at or below the present one changes nothing; one beyond the log end is refused with an *OffsetError.
func (l *Log) MoveStart(start record.Offset) error {
	if l.offline != nil {
		return l.offline
	}
	if start <= l.start {
		return nil
	}
	if start > l.End() {
		return &OffsetError{Offset: start, Start: l.start, End: l.End()}
	}
	oldStart, oldEpochs := l.start, l.epochs
	l.start, l.epochs = start, l.epochs.cutStart(start)
	if planted.On(planted.LogStartNotDurable) {
		l.deleteBelow()
		return nil
	}
	if err := l.writeMeta(false, noTruncation); err != nil {
		l.start, l.epochs = oldStart, oldEpochs
		return l.spare(err)
	}
	l.deleteBelow()
	return nil
}

// deleteBelow deletes what lies wholly below the log start.
func (l *Log) deleteBelow() (deleted int) {
	for deleted < len(l.sealed) && l.sealed[deleted].end <= l.start {
		deleted++
	}
	doomed := l.sealed[:deleted]
	l.sealed = slices.Clone(l.sealed[deleted:])
	l.publish()
	for _, s := range doomed {
		_ = l.dropFile(s) // log.meta says that it is below the start, so the next Open tries again
	}
	_ = l.dropSnapshots(func(at record.Offset) bool { return at < l.start }) // what stays is never offered, and dropped by the next move
	return deleted
}

// Retain deletes the oldest segments that the configured size or age no longer keeps, and moves the log start. Only whole segments go,
// and only those that end at or below below, which is the high watermark. now is the broker's wall clock in ms.
func (l *Log) Retain(now int64, below record.Offset) (deleted int, newStart record.Offset, err error) {
	if l.offline != nil {
		return 0, l.start, l.offline
	}
	size, start, n := l.Size(), l.start, 0
	for _, s := range l.sealed {
		if s.end > below && !planted.On(planted.RetentionPassesWatermark) || !l.expired(s, now) && !l.oversize(size-s.size) {
			break
		}
		size, start, n = size-s.size, s.end, n+1
	}
	if s := l.active; n == len(l.sealed) && !s.empty() && s.end <= below && l.expired(s, now) {
		if err := l.roll(s.end); err != nil {
			return 0, l.start, err
		}
		start = l.active.base
	}
	if start <= l.start {
		return 0, l.start, nil
	}
	before := len(l.sealed)
	if err := l.MoveStart(start); err != nil {
		return 0, l.start, err
	}
	return before - len(l.sealed), l.start, nil
}

// oversize reports whether a log that is left with rest bytes still holds all that it should.
func (l *Log) oversize(rest int64) bool {
	return l.cfg.RetentionBytes != NoLimit && rest >= l.cfg.RetentionBytes
}

// expired reports whether a segment is older than the retention age. Its time is its newest timestamp, within bounds: a timestamp from
// the future counts as the time of the append, or it would keep the segment for ever; and so does one that was beyond the age at the
// append already, or a producer with a wrong clock would have its records deleted at once.
func (l *Log) expired(s *segment, now int64) bool {
	if l.cfg.RetentionAge == NoLimit {
		return false
	}
	age := l.cfg.RetentionAge.Milliseconds()
	at, appended := s.newest.timestamp, s.written
	if appended <= 0 {
		appended = now
	}
	if at > appended || at < appended-age {
		at = appended
	}
	return at < now-age
}
