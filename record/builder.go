package record

import (
	"encoding/binary"
	"fmt"
)

// BuilderOptions are the fields of the batches that a Builder makes. The zero value makes plain uncompressed batches.
type BuilderOptions struct {
	Codec Codec

	// ProducerID makes the batch idempotent if it is above 0; 0 and below mean none, and the two fields behind it stay unused. For that
	// reason ids are handed out from 1, and id 0 together with an epoch or a sequence is refused: a batch that seems to be protected
	// from duplicates and is not would do harm in silence.
	ProducerID    ProducerID
	ProducerEpoch ProducerEpoch
	// BaseSequence is the sequence of the first record.
	BaseSequence Sequence

	// Transactional marks the batch as part of its producer's open transaction. It needs a ProducerID.
	Transactional bool
}

// Builder collects records and encodes them as one batch with base offset 0. Its buffers are reused after Reset. The caller bounds the
// batch by Size and Len; Build refuses more than MaxBatchSize.
type Builder struct {
	opts          BuilderOptions
	records       []byte // encoded, uncompressed
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
}

// NewBuilder returns an empty builder.
func NewBuilder(opts BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(opts)
	return b
}

// Reset empties the builder and sets the options of the next batch. Batches built before stay valid.
func (b *Builder) Reset(opts BuilderOptions) {
	*b = Builder{opts: opts, records: b.records[:0], maxTimestamp: NoTimestamp}
}

// Append adds a record and copies what it is given. ts is in ms since 1970. A nil key or value is null; an empty one is not. The next
// record's offset is one more than the last one's.
func (b *Builder) Append(ts int64, key, value []byte, headers []Header) {
	if b.count == 0 {
		b.baseTimestamp = ts
	}
	b.maxTimestamp = max(b.maxTimestamp, ts)
	b.records = appendRecord(b.records, ts-b.baseTimestamp, b.count, key, value, headers)
	b.count++
}

// Len is the number of records so far.
func (b *Builder) Len() int { return int(b.count) }

// Size is the size in bytes of the whole batch so far, before compression.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// Build encodes the batch into fresh memory. The builder keeps its records until Reset. It fails without records, with more than
// MaxBatchSize bytes, and with an unknown codec.
func (b *Builder) Build() (Batch, error) {
	if b.opts.Codec == CodecNone {
		return b.BuildInto(make([]byte, 0, b.Size()))
	}
	return b.BuildInto(nil)
}

// BuildInto is Build into the memory of buf, from its start, or into a larger one where buf is too small. The batch has the spare
// capacity, so buf = batch.Bytes() keeps it for the next.
func (b *Builder) BuildInto(buf []byte) (Batch, error) {
	switch {
	case b.count == 0:
		return Batch{}, fmt.Errorf("%w: no records", ErrInvalid)
	case b.count < 0 || b.Size() > MaxBatchSize:
		return Batch{}, fmt.Errorf("%w: batch of %d bytes", ErrTooLarge, b.Size())
	case b.opts.Transactional && b.opts.ProducerID <= 0:
		return Batch{}, fmt.Errorf("%w: transactional without a producer id", ErrInvalid)
	case b.opts.ProducerID == 0 && (b.opts.ProducerEpoch > 0 || b.opts.BaseSequence > 0):
		return Batch{}, fmt.Errorf("%w: epoch %d and sequence %d of producer id 0, which stands for none", ErrInvalid, b.opts.ProducerEpoch, b.opts.BaseSequence)
	}
	buf = growBy(buf[:0], HeaderSize)
	buf, err := compress(buf, b.opts.Codec, b.records)
	if err != nil {
		return Batch{}, err
	}
	if len(buf) > MaxBatchSize {
		return Batch{}, fmt.Errorf("%w: batch of %d bytes", ErrTooLarge, len(buf))
	}
	batch := view(buf)
	b.putHeader(buf)
	batch.seal()
	return batch, nil
}

// putHeader writes every field but the checksum.
func (b *Builder) putHeader(h []byte) {
	attributes := uint16(b.opts.Codec)
	id, epoch, sequence := NoProducerID, NoProducerEpoch, NoSequence
	if b.opts.ProducerID > 0 {
		id, epoch, sequence = b.opts.ProducerID, b.opts.ProducerEpoch, b.opts.BaseSequence
	}
	if b.opts.Transactional {
		attributes |= attrTransactional
	}
	unstamped := NoEpoch
	binary.BigEndian.PutUint64(h[posBaseOffset:], 0)
	binary.BigEndian.PutUint32(h[posLength:], uint32(len(h)-lengthStart))
	binary.BigEndian.PutUint32(h[posLeaderEpoch:], uint32(unstamped))
	h[posMagic] = magicV2
	binary.BigEndian.PutUint16(h[posAttributes:], attributes)
	binary.BigEndian.PutUint32(h[posLastOffsetDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(h[posBaseTimestamp:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(h[posMaxTimestamp:], uint64(b.maxTimestamp))
	binary.BigEndian.PutUint64(h[posProducerID:], uint64(id))
	binary.BigEndian.PutUint16(h[posProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(h[posBaseSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(h[posCount:], uint32(b.count))
}

// appendRecord encodes one record. Its length comes first, so it is added up before anything is written.
func appendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte, headers []Header) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) +
		bytesSize(key) + bytesSize(value) + varintSize(int64(len(headers)))
	for i := range headers {
		size += varintSize(int64(len(headers[i].Key))) + len(headers[i].Key) + bytesSize(headers[i].Value)
	}
	dst = appendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes: none are defined
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		dst = appendVarint(dst, int64(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendBytes(dst, headers[i].Value)
	}
	return dst
}

// bytesSize is what appendBytes writes.
func bytesSize(v []byte) int {
	if v == nil {
		return 1
	}
	return varintSize(int64(len(v))) + len(v)
}

// appendBytes writes a nullable field.
func appendBytes(dst, v []byte) []byte {
	if v == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(v))), v...)
}
