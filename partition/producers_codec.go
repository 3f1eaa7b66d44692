package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/moldau-log/moldau/record"
)

// The content of a producer snapshot; docs/format/producer-snapshot.md specifies it. All numbers are big-endian.
//
//	| version 2 = 1 | count 4 | count x producer |
//	producer: | id 8 | epoch 2 | last append ms 8 | batches 1, at most 5 | batches x batch |
//	batch:    | first sequence 4 | last sequence 4 | base offset 8 | end offset 8 |
const (
	producersVersion = 1
	producerSize     = 8 + 2 + 8 + 1
	batchSize        = 4 + 4 + 8 + 8
)

// errSnapshot reports bytes that are no producer snapshot of a known version.
var errSnapshot = errors.New("partition: not a producer snapshot")

// encode gives the snapshot content, ordered by producer id.
func (t *Producers) encode() []byte {
	out := make([]byte, 0, 6+len(t.known)*(producerSize+2*batchSize))
	out = binary.BigEndian.AppendUint16(out, producersVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(t.known)))
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		p := t.known[id]
		out = binary.BigEndian.AppendUint64(out, uint64(id))
		out = binary.BigEndian.AppendUint16(out, uint16(p.epoch))
		out = binary.BigEndian.AppendUint64(out, uint64(p.lastMs))
		out = append(out, p.count)
		for _, b := range p.window[:p.count] {
			out = binary.BigEndian.AppendUint32(out, uint32(b.first))
			out = binary.BigEndian.AppendUint32(out, uint32(b.last))
			out = binary.BigEndian.AppendUint64(out, uint64(b.base))
			out = binary.BigEndian.AppendUint64(out, uint64(b.end))
		}
	}
	return out
}

// decodeProducers reads what encode gives.
func decodeProducers(b []byte) (*Producers, error) {
	if len(b) < 6 || binary.BigEndian.Uint16(b) != producersVersion {
		return nil, errSnapshot
	}
	count := binary.BigEndian.Uint32(b[2:])
	b = b[6:]
	t := newProducers()
	for i := range count {
		if len(b) < producerSize {
			return nil, fmt.Errorf("%w: cut off at producer %d of %d", errSnapshot, i, count)
		}
		id := record.ProducerID(binary.BigEndian.Uint64(b))
		p := &producer{
			epoch:  record.ProducerEpoch(binary.BigEndian.Uint16(b[8:])),
			lastMs: int64(binary.BigEndian.Uint64(b[10:])),
			count:  b[18],
		}
		b = b[producerSize:]
		if p.count == 0 || p.count > producerWindow || len(b) < int(p.count)*batchSize {
			return nil, fmt.Errorf("%w: producer %d with %d batches", errSnapshot, id, p.count)
		}
		for j := range p.window[:p.count] {
			p.window[j] = rememberedBatch{
				first: record.Sequence(binary.BigEndian.Uint32(b)),
				last:  record.Sequence(binary.BigEndian.Uint32(b[4:])),
				base:  record.Offset(binary.BigEndian.Uint64(b[8:])),
				end:   record.Offset(binary.BigEndian.Uint64(b[16:])),
			}
			b = b[batchSize:]
		}
		t.known[id] = p
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errSnapshot, len(b))
	}
	return t, nil
}
