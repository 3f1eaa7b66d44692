package segment

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

const maxRelative = math.MaxInt32

// scanBatches reads a file from the start and calls each for every good batch. It stops at the first that is not, with a *DamageError
// that says where, or at an error of each.
func scanBatches(h vfs.File, path string, size int64, fit chain, each func(record.Batch, int64) error) error {
	var stop error
	err := verify(h, path, 0, size, fit, func(b record.Batch, position int64) {
		if stop == nil {
			stop = each(b, position)
		}
	})
	if stop != nil {
		return stop
	}
	return err
}

// scanBytes is how much of a file a search looks at at once.
const scanBytes = 1 << 20

// findBatch searches for a whole valid batch that begins behind from, at any byte, and returns where, or -1. Candidates are told by
// their header, whose magic, length and offset must be possible, before their checksum is computed.
func findBatch(h vfs.File, from, size int64, expect record.Offset) (int64, error) {
	buf := make([]byte, min(scanBytes, max(size-from, 0)))
	for at := from + 1; at+record.HeaderSize <= size; {
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := readAt(h, b, at); err != nil {
			return 0, err
		}
		last := len(b) - record.HeaderSize
		for i := 0; i <= last; i++ {
			ok, err := validAt(h, b[i:], at+int64(i), size, expect)
			if err != nil {
				return 0, err
			}
			if ok {
				return at + int64(i), nil
			}
		}
		at += int64(last) + 1
	}
	return -1, nil
}

// validAt reports whether a whole valid batch begins at a position, whose header b holds.
func validAt(h vfs.File, b []byte, at, size int64, expect record.Offset) (bool, error) {
	if b[16] != 2 {
		return false, nil
	}
	head, err := parseHead(b)
	if err != nil || head.base < expect || int64(head.base-expect) > maxRelative || at+head.size > size {
		return false, nil
	}
	whole := make([]byte, head.size)
	if _, err := readAt(h, whole, at); err != nil {
		return false, err
	}
	batch, err := record.Parse(whole)
	return err == nil && batch.VerifyCRC() == nil, nil
}

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// hasHole reports whether a sector that begins in [from, to), of a file of the given size, was never written. Files only grow and are
// never recycled, so such a sector reads as zeros, to its end: what follows at to, if it begins in that sector, begins with zeros too.
// expect is the offset that the batch at from would have: a first sector that from shares with older bytes counts only if zeros are not
// what a good header would have there.
func hasHole(h vfs.File, from, to, size int64, expect record.Offset) (bool, error) {
	buf := make([]byte, sectorBytes)
	for at := from; at < to; {
		end := (at/sectorBytes + 1) * sectorBytes
		b := buf[:min(end, size)-at]
		if _, err := readAt(h, b, at); err != nil {
			return false, err
		}
		if len(bytes.Trim(b, "\x00")) == 0 && (at != from || tellsZero(len(b), expect)) {
			return true, nil
		}
		at = end
	}
	return false, nil
}

// isLong reports whether the last batch of a file, at a position, is as long as its header says, or would be sound if the header said how long it is and
// which format it has: those two fields lie outside the checksum.
func isLong(h vfs.File, at, size int64) (bool, error) {
	rest := size - at
	if rest < record.HeaderSize || rest > record.MaxBatchSize {
		return false, nil
	}
	b := make([]byte, record.HeaderSize, rest)
	if _, err := readAt(h, b, at); err != nil {
		return false, err
	}
	if says, err := record.BatchSize(b); err == nil && int64(says) <= rest {
		return true, nil
	}
	b = b[:rest]
	if _, err := readAt(h, b, at); err != nil {
		return false, err
	}
	binary.BigEndian.PutUint32(b[8:], uint32(rest-12))
	b[16] = 2
	batch, err := record.Parse(b)
	return err == nil && batch.VerifyCRC() == nil, nil
}

// tellsZero reports whether n zeros cannot be the start of the batch at offset expect: its length field is never 0.
func tellsZero(n int, expect record.Offset) bool {
	head := binary.BigEndian.AppendUint64(nil, uint64(expect))
	return n >= 12 || len(bytes.Trim(head[:min(n, 8)], "\x00")) > 0
}
