package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes in bytes. HeaderSize is on disk and on the wire.
const (
	// HeaderSize is the length of the fixed part of a batch. No batch is smaller.
	HeaderSize = 61

	// MaxRecordOverhead bounds what one record adds to the bytes of its key and value, without headers: length, attributes,
	// timestamp delta, offset delta, two lengths, header count.
	MaxRecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5

	// MaxBatchOverhead bounds what an uncompressed batch of one record without headers adds to the bytes of its key and value.
	MaxBatchOverhead = HeaderSize + MaxRecordOverhead

	// MaxBatchSize is the largest whole batch that is believed. The length field could claim 2 GiB; a log that meets more than this
	// has met garbage.
	MaxBatchSize = 1 << 30
)

// Field positions, attribute bits and the format version, all on disk and on the wire. TestGolden pins them.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// lengthStart is where the bytes counted by the length field begin.
	lengthStart = posLength + 4

	magicV2 = 2

	attrCodecMask     = 0x07
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

// Batch is a view over exactly one whole batch. Only Parse and Builder make one, so its header is known to be sane: the length is the
// length of the bytes, offsets do not overflow, the count is not negative. The checksum and the records are not known to be good.
// The zero Batch holds nothing and only Size, Bytes and IsZero may be called on it.
type Batch struct{ b []byte }

// BatchSize returns the size in bytes of the whole batch that begins at b, from its header alone: b needs the first HeaderSize bytes.
// It makes the same checks as Parse.
func BatchSize(b []byte) (int, error) {
	if len(b) > posMagic && b[posMagic] != magicV2 {
		return 0, fmt.Errorf("%w but %d", ErrMagic, b[posMagic])
	}
	if len(b) >= lengthStart {
		length := int64(int32(binary.BigEndian.Uint32(b[posLength:])))
		if length < HeaderSize-lengthStart || length > MaxBatchSize-lengthStart {
			return 0, fmt.Errorf("%w: length field %d", ErrCorrupt, length)
		}
	}
	if len(b) < HeaderSize {
		return 0, fmt.Errorf("%w: %d bytes of a %d byte header", ErrShort, len(b), HeaderSize)
	}
	head := Batch{b: b}
	base, delta := head.BaseOffset(), head.LastOffsetDelta()
	switch {
	case base < 0:
		return 0, fmt.Errorf("%w: base offset %d", ErrCorrupt, base)
	case delta < 0:
		return 0, fmt.Errorf("%w: last offset delta %d", ErrCorrupt, delta)
	case int64(base) > math.MaxInt64-1-int64(delta):
		return 0, fmt.Errorf("%w: base offset %d and last offset delta %d overflow", ErrCorrupt, base, delta)
	case head.Count() < 0 || int64(head.Count()) > int64(delta)+1:
		return 0, fmt.Errorf("%w: %d records with last offset delta %d", ErrCorrupt, head.Count(), delta)
	}
	return lengthStart + int(binary.BigEndian.Uint32(b[posLength:])), nil
}

// Parse views the first whole batch of b. What follows it in b is ignored. It checks the header only: a batch that was cut off gives
// ErrShort, an impossible header ErrCorrupt or ErrMagic. A garbage length is indistinguishable from a cut one while b is shorter than
// it claims; MaxBatchSize bounds the claim. Parse does not allocate unless it fails.
func Parse(b []byte) (Batch, error) {
	size, err := BatchSize(b)
	if err != nil {
		return Batch{}, err
	}
	if size > len(b) {
		return Batch{}, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(b), size)
	}
	return Batch{b: b[:size:size]}, nil
}

// Split calls fn for each batch of b in order and stops at the first error. A trailing part of a batch is ErrShort, after fn has seen
// every whole one.
func Split(b []byte, fn func(Batch) error) error {
	for len(b) > 0 {
		batch, err := Parse(b)
		if err != nil {
			return err
		}
		if err := fn(batch); err != nil {
			return err
		}
		b = b[batch.Size():]
	}
	return nil
}

// IsZero reports whether b is the zero Batch, which views nothing.
func (b Batch) IsZero() bool { return b.b == nil }

// Size is the length of the whole batch in bytes.
func (b Batch) Size() int { return len(b.b) }

// Bytes is the batch itself, not a copy.
func (b Batch) Bytes() []byte { return b.b }

// Clone copies the batch, for whoever must keep it longer than the buffer it lies in.
func (b Batch) Clone() Batch { return Batch{b: append([]byte(nil), b.b...)} }

// BaseOffset is the offset of the first record that the batch was written with, which compaction may have removed.
func (b Batch) BaseOffset() Offset { return Offset(b.int64At(posBaseOffset)) }

// LastOffset is the offset of the last record that the batch was written with. Compaction keeps it.
func (b Batch) LastOffset() Offset { return b.BaseOffset() + Offset(b.LastOffsetDelta()) }

// NextOffset is the exclusive end of the batch: the base offset of what follows it.
func (b Batch) NextOffset() Offset { return b.LastOffset() + 1 }

// LastOffsetDelta is LastOffset minus BaseOffset, at least 0.
func (b Batch) LastOffsetDelta() int32 { return b.int32At(posLastOffsetDelta) }

// Count is the number of records in the batch, at least 0. Never derive offsets or sequences from it: compaction lowers it.
func (b Batch) Count() int32 { return b.int32At(posCount) }

// LeaderEpoch is the epoch of the leader that appended the batch. Producers send -1.
func (b Batch) LeaderEpoch() LeaderEpoch { return LeaderEpoch(b.int32At(posLeaderEpoch)) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return b.int16At(posAttributes) }

// Codec is the compression codec of the records. It may be one that this package does not know; see Codec.Known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodecMask) }

// IsTransactional reports whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsControl reports whether the batch holds a control record, which consumers skip and producers may not send.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// LogAppendTime reports whether MaxTimestamp is the broker's time of append and stands for the timestamp of every record.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time in ms after which compaction may drop the batch's tombstones.
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// BaseTimestamp is what record timestamps are relative to, in ms since 1970; -1 is none.
func (b Batch) BaseTimestamp() int64 { return b.int64At(posBaseTimestamp) }

// MaxTimestamp is the newest record timestamp, or the time of append, in ms since 1970; -1 is none.
func (b Batch) MaxTimestamp() int64 { return b.int64At(posMaxTimestamp) }

// ProducerID is the idempotent producer, or NoProducerID.
func (b Batch) ProducerID() ProducerID { return ProducerID(b.int64At(posProducerID)) }

// ProducerEpoch is the producer's incarnation, or NoProducerEpoch.
func (b Batch) ProducerEpoch() ProducerEpoch { return ProducerEpoch(b.int16At(posProducerEpoch)) }

// BaseSequence is the sequence of the first record the batch was written with, or NoSequence.
func (b Batch) BaseSequence() Sequence { return Sequence(b.int32At(posBaseSequence)) }

// LastSequence is the sequence of the last record the batch was written with, wrapped past 2^31-1 to 0, or NoSequence.
func (b Batch) LastSequence() Sequence {
	if base := b.BaseSequence(); base >= 0 {
		return base.Next(b.LastOffsetDelta())
	}
	return NoSequence
}

// HasProducer reports whether the batch takes part in de-duplication.
func (b Batch) HasProducer() bool { return b.ProducerID() >= 0 }

// CRC is the checksum that the batch carries. See VerifyCRC.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b.b[posCRC:]) }

// payload is the records part, compressed as it is.
func (b Batch) payload() []byte { return b.b[HeaderSize:] }

func (b Batch) int16At(pos int) int16 { return int16(binary.BigEndian.Uint16(b.b[pos:])) }
func (b Batch) int32At(pos int) int32 { return int32(binary.BigEndian.Uint32(b.b[pos:])) }
func (b Batch) int64At(pos int) int64 { return int64(binary.BigEndian.Uint64(b.b[pos:])) }
