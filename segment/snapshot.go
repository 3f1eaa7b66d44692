package segment

import "github.com/moldau-log/moldau/record"

// dropSnapshots deletes the producer snapshots that match.
func (l *Log) dropSnapshots(match func(at record.Offset) bool) {
	names, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if at, ok := parseName(name, snapshotSuffix); ok && match(at) {
			_ = l.fs.Remove(l.path(name))
		}
	}
}
