package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// castagnoli is the polynomial of CRC-32C. The table is never written after this.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C over everything from the attributes to the end.
func (b Batch) checksum() uint32 { return crc32.Checksum(b.b[posAttributes:], castagnoli) }

// VerifyCRC reads the whole batch and reports ErrCorrupt unless its checksum matches. A match says that the bytes are as written, not
// that they were written well, and not by whom.
func (b Batch) VerifyCRC() error {
	if want, got := b.CRC(), b.checksum(); want != got {
		return fmt.Errorf("%w: CRC of batch at offset %d, %d bytes, is %08x, header says %08x", ErrCorrupt, b.BaseOffset(), b.Size(), got, want)
	}
	return nil
}

// Stamp writes the base offset and the leader epoch into the batch. Both lie outside the checksum, which stays valid. Only the leader
// that appends the batch may call it, while it holds the only reference to the bytes. base + LastOffsetDelta must not overflow.
func (b Batch) Stamp(base Offset, epoch LeaderEpoch) {
	binary.BigEndian.PutUint64(b.b[posBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b.b[posLeaderEpoch:], uint32(epoch))
}

// StampLogAppendTime makes ms, the broker's wall clock since 1970, the timestamp of every record, and recomputes the checksum. The
// caller has verified the old checksum and holds the only reference to the bytes.
func (b Batch) StampLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b.b[posAttributes:], uint16(b.Attributes()|attrLogAppendTime))
	b.setMaxTimestamp(ms)
}

// setMaxTimestamp writes the field and seals the batch again.
func (b Batch) setMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b.b[posMaxTimestamp:], uint64(ms))
	b.seal()
}

// seal writes the checksum of what the batch now holds.
func (b Batch) seal() { binary.BigEndian.PutUint32(b.b[posCRC:], b.checksum()) }
