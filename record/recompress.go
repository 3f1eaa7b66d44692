package record

import (
	"encoding/binary"
	"fmt"
)

// Recompress returns the batch with its records under another codec, in fresh memory: same records, offsets, timestamps and producer fields, another size and
// checksum. The caller has verified the batch. It fails when the records decompress to more than maxDecompressed bytes, or to more than a batch may hold.
// memory counts what the decompression holds, which may wait for it; nil for nothing.
func (b Batch) Recompress(codec Codec, maxDecompressed int, memory *Memory) (Batch, error) {
	s := getScratch(memory)
	defer putScratch(s)
	plain, err := decompress(s, b.Codec(), b.b[HeaderSize:], maxDecompressed)
	if err != nil {
		return Batch{}, err
	}
	capacity := HeaderSize
	if codec == CodecNone {
		capacity += len(plain)
	}
	buf, err := compress(append(make([]byte, 0, capacity), b.b[:HeaderSize]...), codec, plain)
	if err != nil {
		return Batch{}, err
	}
	if len(buf) > MaxBatchSize {
		return Batch{}, fmt.Errorf("%w: batch of %d bytes", ErrTooLarge, len(buf))
	}
	binary.BigEndian.PutUint32(buf[posLength:], uint32(len(buf)-lengthStart))
	binary.BigEndian.PutUint16(buf[posAttributes:], uint16(b.Attributes()&^attrCodecMask)|uint16(codec))
	batch := view(buf)
	batch.seal()
	return batch, nil
}
