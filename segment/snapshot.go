package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// A producer snapshot is the state of the partition's producers as of all records below an offset, which names the file. The content
// belongs to partition; here it is bytes with a checksum.
//
//	| magic "MPSS" 4 | version 2 = 1 | CRC-32C 4 of the rest | content |
const (
	snapshotMagic      = "MPSS"
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	maxSnapshotBytes   = 64 << 20
	// keptSnapshots bounds the files: the newest, and one before it for the case that the newest is damaged or ahead of a truncation.
	keptSnapshots = 2
)

// WriteProducerSnapshot stores the producer state as of all records below offset, which is within the log. It is on disk when it
// returns; of older snapshots one is kept. A failure costs nothing but time at the next start.
func (l *Log) WriteProducerSnapshot(offset record.Offset, data []byte) error {
	if l.offline != nil {
		return l.offline
	}
	if offset < l.start || offset > l.End() || len(data) > maxSnapshotBytes-snapshotHeaderSize {
		return fmt.Errorf("segment: producer snapshot at %d of %d bytes: log is [%d, %d)", offset, len(data), l.start, l.End())
	}
	b := append(make([]byte, 0, snapshotHeaderSize+len(data)), snapshotMagic...)
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(data, castagnoli()))
	b = append(b, data...)
	if err := vfs.WriteFileAtomic(l.fs, l.dir, l.path(fileName(offset, snapshotSuffix)), b); err != nil {
		return fmt.Errorf("segment: write producer snapshot: %w", err)
	}
	all := l.snapshots()
	if n := len(all) - keptSnapshots; n > 0 {
		oldest := all[n]
		return l.dropSnapshots(func(at record.Offset) bool { return at < oldest })
	}
	return nil
}

// ProducerSnapshots returns the newest snapshot that is not damaged and not ahead of the log end; ok is false when there is none.
func (l *Log) ProducerSnapshots() (offset record.Offset, data []byte, ok bool) {
	for _, at := range slices.Backward(l.snapshots()) {
		if at > l.End() || at < l.start {
			continue
		}
		b, err := vfs.ReadFile(l.fs, l.path(fileName(at, snapshotSuffix)), maxSnapshotBytes)
		if err != nil || len(b) < snapshotHeaderSize || string(b[:4]) != snapshotMagic || binary.BigEndian.Uint16(b[4:]) != snapshotVersion {
			continue
		}
		if data = b[snapshotHeaderSize:]; crc32.Checksum(data, castagnoli()) == binary.BigEndian.Uint32(b[6:]) {
			return at, data, true
		}
	}
	return 0, nil, false
}

// snapshots lists the offsets of the snapshot files, rising. A directory that cannot be listed has none to offer.
func (l *Log) snapshots() []record.Offset {
	names, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return nil
	}
	var all []record.Offset
	for _, name := range names {
		if at, ok := parseName(name, snapshotSuffix); ok {
			all = append(all, at)
		}
	}
	return all
}

// dropSnapshots deletes the producer snapshots that match. After a truncation an error matters: a snapshot of records that are gone
// must not be there when the log has grown over its offset again.
func (l *Log) dropSnapshots(match func(at record.Offset) bool) error {
	var first error
	for _, at := range l.snapshots() {
		if !match(at) {
			continue
		}
		if err := l.fs.Remove(l.path(fileName(at, snapshotSuffix))); err != nil && !isNotExist(err) && first == nil {
			first = fmt.Errorf("segment: remove producer snapshot: %w", err)
		}
	}
	return first
}
