package segment

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/moldau-log/moldau/record"
)

// Index entry sizes, on disk.
//
//	.index      | relative offset 4 | position 4 |    the last offset of a batch, and where that batch begins
//	.timeindex  | timestamp 8 | relative offset 4 |   the largest timestamp so far, and the last offset of the batch that has it
//
// Big-endian; both columns of an .index rise, and so does the timestamp. This is Apache Kafka's format; see docs/format/index.md.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

type offsetEntry struct {
	relative int32 // last offset of the batch minus the segment's base offset
	position int32
}

type timeEntry struct {
	timestamp int64
	relative  int32
}

// indexes are the sparse indexes of one segment in memory. They only grow by append, so a shorter copy of the slice headers is a
// snapshot that stays valid while the owner appends.
type indexes struct {
	offsets []offsetEntry
	times   []timeEntry
}

// note takes one batch into account. since is the number of bytes since the last entry.
func (x *indexes) note(base record.Offset, h head, position, since, interval int64, newest maxTime) (added bool) {
	if since <= interval {
		return false
	}
	x.offsets = append(x.offsets, offsetEntry{int32(h.next - 1 - base), int32(position)})
	x.noteTime(base, newest)
	return true
}

// noteTime adds the largest timestamp so far if it rose since the last entry.
func (x *indexes) noteTime(base record.Offset, newest maxTime) {
	if newest.timestamp < 0 {
		return
	}
	if n := len(x.times); n > 0 && (x.times[n-1].timestamp >= newest.timestamp || x.times[n-1].relative >= int32(newest.offset-base)) {
		return
	}
	x.times = append(x.times, timeEntry{newest.timestamp, int32(newest.offset - base)})
}

// byOffset returns the entry of the last indexed batch that ends at or below offset; position 0 when there is none.
func byOffset(entries []offsetEntry, base, offset record.Offset) offsetEntry {
	relative := int64(offset - base)
	n := sort.Search(len(entries), func(i int) bool { return int64(entries[i].relative) > relative })
	if n == 0 {
		return offsetEntry{relative: -1}
	}
	return entries[n-1]
}

// byTime returns the last entry below a timestamp: no batch up to its offset reaches the timestamp. relative is -1 when there is none.
func byTime(entries []timeEntry, timestamp int64) timeEntry {
	n := sort.Search(len(entries), func(i int) bool { return entries[i].timestamp >= timestamp })
	if n == 0 {
		return timeEntry{relative: -1}
	}
	return entries[n-1]
}

func (x indexes) encodeOffsets() []byte {
	b := make([]byte, 0, len(x.offsets)*offsetEntrySize)
	for _, e := range x.offsets {
		b = binary.BigEndian.AppendUint32(b, uint32(e.relative))
		b = binary.BigEndian.AppendUint32(b, uint32(e.position))
	}
	return b
}

func (x indexes) encodeTimes() []byte {
	b := make([]byte, 0, len(x.times)*timeEntrySize)
	for _, e := range x.times {
		b = binary.BigEndian.AppendUint64(b, uint64(e.timestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(e.relative))
	}
	return b
}

func decodeOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{relative: int32(binary.BigEndian.Uint32(b)), position: int32(binary.BigEndian.Uint32(b[4:]))}
}

func decodeTimeEntry(b []byte) timeEntry {
	return timeEntry{timestamp: int64(binary.BigEndian.Uint64(b)), relative: int32(binary.BigEndian.Uint32(b[8:]))}
}

// decodeOffsets reads an .index of a segment of the given size and refuses whatever a segment cannot have produced.
func decodeOffsets(b []byte, size int64, length record.Offset) ([]offsetEntry, error) {
	if len(b)%offsetEntrySize != 0 {
		return nil, fmt.Errorf("segment: index of %d bytes", len(b))
	}
	entries := make([]offsetEntry, 0, len(b)/offsetEntrySize)
	last := offsetEntry{-1, -1}
	for ; len(b) > 0; b = b[offsetEntrySize:] {
		e := decodeOffsetEntry(b)
		if e.relative <= last.relative || e.position <= last.position || int64(e.position) >= size || record.Offset(e.relative) >= length {
			return nil, fmt.Errorf("segment: index entry %d is out of order", len(entries))
		}
		entries, last = append(entries, e), e
	}
	return entries, nil
}

// decodeTimes reads a .timeindex likewise.
func decodeTimes(b []byte, length record.Offset) ([]timeEntry, error) {
	if len(b)%timeEntrySize != 0 {
		return nil, fmt.Errorf("segment: time index of %d bytes", len(b))
	}
	entries := make([]timeEntry, 0, len(b)/timeEntrySize)
	last := timeEntry{-1, -1}
	for ; len(b) > 0; b = b[timeEntrySize:] {
		e := decodeTimeEntry(b)
		if e.timestamp <= last.timestamp || e.relative <= last.relative || record.Offset(e.relative) >= length {
			return nil, fmt.Errorf("segment: time index entry %d is out of order", len(entries))
		}
		entries, last = append(entries, e), e
	}
	return entries, nil
}
