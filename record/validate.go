package record

import (
	"fmt"
	"math"
)

// NoTimestamp is the timestamp of a record that has none. It passes every timestamp bound.
const NoTimestamp int64 = -1

// Limits says what Validate accepts.
type Limits struct {
	// MaxDecompressed bounds the decompressed records of a batch in bytes. 0 refuses every compressed batch.
	MaxDecompressed int

	// Memory counts what the decompression holds; nil for nothing. Validate may wait for it.
	Memory *Memory

	// MinTimestamp and MaxTimestamp bound record timestamps in ms since 1970, inclusive. MaxTimestamp 0 sets no upper bound; no record
	// may lie before 1970. Topics that stamp the time of append leave both at 0.
	MinTimestamp, MaxTimestamp int64

	// RequireKeys refuses records with a null key, for compacted topics.
	RequireKeys bool

	// SkipRecords is for followers and recovery, which copy what a leader has accepted: the checksum and the codec are checked, the
	// records are not decoded, and the rules for producers (base offset 0, no gaps, no control records) do not apply.
	SkipRecords bool
}

// Validate decides whether a batch may enter a log. ErrCorrupt says that the checksum differs, ErrInvalid (also ErrCodec, ErrTooLarge,
// ErrTimestamp) what else is wrong. A *RecordError in the chain names the record.
//
// MaxTimestamp is the one field that Validate corrects instead of refusing, because some producers are careless with it and indexes
// and retention depend on it: a wrong one is overwritten with the maximum over the records and the checksum recomputed. So the caller
// must hold the only reference to the bytes, unless lim.SkipRecords is set.
func (b Batch) Validate(lim Limits) error {
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if !b.Codec().Known() {
		return fmt.Errorf("%w %d", ErrCodec, b.Codec())
	}
	if lim.SkipRecords {
		return nil
	}
	if err := b.validateHeader(); err != nil {
		return err
	}
	maxTimestamp, err := b.validateRecords(lim)
	if err != nil {
		return err
	}
	if maxTimestamp != b.MaxTimestamp() {
		b.setMaxTimestamp(maxTimestamp)
	}
	return nil
}

// validateHeader applies the rules for the headers that producers send.
func (b Batch) validateHeader() error {
	switch {
	case b.BaseOffset() != 0:
		return fmt.Errorf("%w: a producer's base offset is 0, not %d", ErrInvalid, b.BaseOffset())
	case b.Count() == 0:
		return fmt.Errorf("%w: no records", ErrInvalid)
	case int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return fmt.Errorf("%w: %d records with last offset delta %d", ErrInvalid, b.Count(), b.LastOffsetDelta())
	case b.IsControl():
		return fmt.Errorf("%w: control batch from a producer", ErrInvalid)
	case b.LogAppendTime():
		return fmt.Errorf("%w: only the broker sets the time of append", ErrTimestamp)
	case b.HasDeleteHorizon():
		return fmt.Errorf("%w: delete horizon from a producer", ErrInvalid)
	}
	return b.validateProducer()
}

// validateProducer checks that the producer fields are all there or all absent.
func (b Batch) validateProducer() error {
	id, epoch, sequence := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case id < NoProducerID:
		return fmt.Errorf("%w: producer id %d", ErrInvalid, id)
	case b.HasProducer() && (epoch < 0 || sequence < 0):
		return fmt.Errorf("%w: producer %d with epoch %d and sequence %d", ErrInvalid, id, epoch, sequence)
	case !b.HasProducer() && b.IsTransactional():
		return fmt.Errorf("%w: transactional without a producer id", ErrInvalid)
	}
	return nil
}

// maxNamedRecords bounds how many records an error names beside the first.
const maxNamedRecords = 10_000

// validateRecords decodes every record and returns the newest timestamp.
func (b Batch) validateRecords(lim Limits) (int64, error) {
	scratch := getScratch(lim.Memory)
	defer putScratch(scratch)
	payload, err := decompress(scratch, b.Codec(), b.payload(), lim.MaxDecompressed)
	if err != nil {
		return 0, err
	}
	upper := lim.MaxTimestamp
	if upper == 0 {
		upper = math.MaxInt64
	}
	newest := NoTimestamp
	cur := cursor{b: payload}
	var r rawRecord
	var faulty *RecordError // names every record without a key, or with a bad timestamp, so that its producer can send the others again
	for index := int32(0); ; index++ {
		more, err := nextRaw(&cur, &r, index, b)
		if err != nil {
			return 0, err
		}
		if !more && faulty != nil {
			return 0, faulty
		}
		if !more {
			return newest, nil
		}
		if r.offsetDelta != index {
			return 0, &RecordError{Index: index, Err: fmt.Errorf("%w: offset delta %d", ErrInvalid, r.offsetDelta)}
		}
		if r.key == nil && lim.RequireKeys {
			faulty = faulty.and(index, fmt.Errorf("%w: null key", ErrInvalid))
			continue
		}
		timestamp := b.BaseTimestamp() + r.timestampDelta
		if timestamp != NoTimestamp && (timestamp < max(0, lim.MinTimestamp) || timestamp > upper) {
			faulty = faulty.and(index, fmt.Errorf("%w: %d is not within %d and %d", ErrTimestamp, timestamp, lim.MinTimestamp, upper))
			continue
		}
		newest = max(newest, timestamp)
	}
}

// and adds a record to those that are named; what is wrong with the first stands for all.
func (e *RecordError) and(index int32, err error) *RecordError {
	switch {
	case e == nil:
		return &RecordError{Index: index, Err: err}
	case len(e.More) < maxNamedRecords:
		e.More = append(e.More, index)
	}
	return e
}
