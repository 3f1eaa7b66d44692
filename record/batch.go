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

// Head is a view over the fixed part of a batch, whatever follows it: what a reader of a log steps over it with. Only ParseHead and
// Parse make one, so its values are known to be sane: the size is possible, offsets do not overflow, the count is not negative.
type Head struct{ b []byte }

// Batch is a view over exactly one whole batch. Only Parse and Builder make one, so its Head is sane and its size is the length of its
// bytes. The checksum and the records are not known to be good. The zero Batch holds nothing and only Size, Bytes and IsZero may be
// called on it.
type Batch struct{ Head }

// ParseHead views the head of the batch that begins at b, of which the first HeaderSize bytes are enough. It makes the same checks as
// Parse, except that the batch may be cut off behind its head.
func ParseHead(b []byte) (Head, error) {
	if len(b) > posMagic && b[posMagic] != magicV2 {
		return Head{}, fmt.Errorf("%w but %d", ErrMagic, b[posMagic])
	}
	if len(b) >= lengthStart {
		length := int64(int32(binary.BigEndian.Uint32(b[posLength:])))
		if length < HeaderSize-lengthStart || length > MaxBatchSize-lengthStart {
			return Head{}, fmt.Errorf("%w: length field %d", ErrCorrupt, length)
		}
	}
	if len(b) < HeaderSize {
		return Head{}, fmt.Errorf("%w: %d bytes of a %d byte header", ErrShort, len(b), HeaderSize)
	}
	head := Head{b: b[:HeaderSize:HeaderSize]}
	base, delta := head.BaseOffset(), head.LastOffsetDelta()
	switch {
	case base < 0:
		return Head{}, fmt.Errorf("%w: base offset %d", ErrCorrupt, base)
	case delta < 0:
		return Head{}, fmt.Errorf("%w: last offset delta %d", ErrCorrupt, delta)
	case int64(base) > math.MaxInt64-1-int64(delta):
		return Head{}, fmt.Errorf("%w: base offset %d and last offset delta %d overflow", ErrCorrupt, base, delta)
	case head.Count() < 0 || int64(head.Count()) > int64(delta)+1:
		return Head{}, fmt.Errorf("%w: %d records with last offset delta %d", ErrCorrupt, head.Count(), delta)
	}
	return head, nil
}

// BatchSize returns the size in bytes of the whole batch that begins at b, as ParseHead does.
func BatchSize(b []byte) (int, error) {
	head, err := ParseHead(b)
	if err != nil {
		return 0, err
	}
	return head.Size(), nil
}

// Parse views the first whole batch of b. What follows it in b is ignored. It checks the header only: a batch that was cut off gives
// ErrShort, an impossible header ErrCorrupt or ErrMagic. A garbage length is indistinguishable from a cut one while b is shorter than
// it claims; MaxBatchSize bounds the claim. Parse does not allocate unless it fails.
func Parse(b []byte) (Batch, error) {
	head, err := ParseHead(b)
	if err != nil {
		return Batch{}, err
	}
	size := head.Size()
	if size > len(b) {
		return Batch{}, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(b), size)
	}
	return view(b[:size:size]), nil
}

// view makes a Batch of bytes that are known to be one.
func view(b []byte) Batch { return Batch{Head{b}} }

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
func (b Batch) Clone() Batch { return view(append([]byte(nil), b.b...)) }

// payload is the records part, compressed as it is.
func (b Batch) payload() []byte { return b.b[HeaderSize:] }

// Size is the length of the whole batch in bytes, as the length field has it.
func (h Head) Size() int { return lengthStart + int(binary.BigEndian.Uint32(h.b[posLength:])) }

// BaseOffset is the offset of the first record that the batch was written with, which compaction may have removed.
func (h Head) BaseOffset() Offset { return Offset(h.int64At(posBaseOffset)) }

// LastOffset is the offset of the last record that the batch was written with. Compaction keeps it.
func (h Head) LastOffset() Offset { return h.BaseOffset() + Offset(h.LastOffsetDelta()) }

// NextOffset is the exclusive end of the batch: the base offset of what follows it.
func (h Head) NextOffset() Offset { return h.LastOffset() + 1 }

// LastOffsetDelta is LastOffset minus BaseOffset, at least 0.
func (h Head) LastOffsetDelta() int32 { return h.int32At(posLastOffsetDelta) }

// Count is the number of records in the batch, at least 0. Never derive offsets or sequences from it: compaction lowers it.
func (h Head) Count() int32 { return h.int32At(posCount) }

// LeaderEpoch is the epoch of the leader that appended the batch. Producers send -1.
func (h Head) LeaderEpoch() LeaderEpoch { return LeaderEpoch(h.int32At(posLeaderEpoch)) }

// Attributes are the raw attribute bits.
func (h Head) Attributes() int16 { return h.int16At(posAttributes) }

// Codec is the compression codec of the records. It may be one that this package does not know; see Codec.Known.
func (h Head) Codec() Codec { return Codec(h.Attributes() & attrCodecMask) }

// IsTransactional reports whether the batch belongs to a transaction.
func (h Head) IsTransactional() bool { return h.Attributes()&attrTransactional != 0 }

// IsControl reports whether the batch holds a control record, which consumers skip and producers may not send.
func (h Head) IsControl() bool { return h.Attributes()&attrControl != 0 }

// LogAppendTime reports whether MaxTimestamp is the broker's time of append and stands for the timestamp of every record.
func (h Head) LogAppendTime() bool { return h.Attributes()&attrLogAppendTime != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time in ms after which compaction may drop the batch's tombstones.
func (h Head) HasDeleteHorizon() bool { return h.Attributes()&attrDeleteHorizon != 0 }

// BaseTimestamp is what record timestamps are relative to, in ms since 1970; -1 is none.
func (h Head) BaseTimestamp() int64 { return h.int64At(posBaseTimestamp) }

// MaxTimestamp is the newest record timestamp, or the time of append, in ms since 1970; -1 is none.
func (h Head) MaxTimestamp() int64 { return h.int64At(posMaxTimestamp) }

// ProducerID is the idempotent producer, or NoProducerID.
func (h Head) ProducerID() ProducerID { return ProducerID(h.int64At(posProducerID)) }

// ProducerEpoch is the producer's incarnation, or NoProducerEpoch.
func (h Head) ProducerEpoch() ProducerEpoch { return ProducerEpoch(h.int16At(posProducerEpoch)) }

// BaseSequence is the sequence of the first record the batch was written with, or NoSequence.
func (h Head) BaseSequence() Sequence { return Sequence(h.int32At(posBaseSequence)) }

// LastSequence is the sequence of the last record the batch was written with, wrapped past 2^31-1 to 0, or NoSequence.
func (h Head) LastSequence() Sequence {
	if base := h.BaseSequence(); base >= 0 {
		return base.Next(h.LastOffsetDelta())
	}
	return NoSequence
}

// HasProducer reports whether the batch takes part in de-duplication.
func (h Head) HasProducer() bool { return h.ProducerID() >= 0 }

// CRC is the checksum that the batch carries. See VerifyCRC.
func (h Head) CRC() uint32 { return binary.BigEndian.Uint32(h.b[posCRC:]) }

func (h Head) int16At(pos int) int16 { return int16(binary.BigEndian.Uint16(h.b[pos:])) }
func (h Head) int32At(pos int) int32 { return int32(binary.BigEndian.Uint32(h.b[pos:])) }
func (h Head) int64At(pos int) int64 { return int64(binary.BigEndian.Uint64(h.b[pos:])) }
