package record

import (
	"fmt"
	"iter"
)

// Record is one decoded record. Key and Value alias the batch, or the buffer it was decompressed into, and are nil when null.
type Record struct {
	Offset Offset
	// Timestamp is in ms since 1970; -1 is none. In a LogAppendTime batch it is the time of append.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one header of a record. Keys may repeat and keep their order. Value is nil when null and aliases like Record.Value.
type Header struct {
	Key   string
	Value []byte
}

// Iterator decodes the records of one batch in order. Use it like a scanner: Next, then Record; after Next is false, Err. It decodes
// each record on demand and gives what precedes a fault before it reports the fault.
type Iterator struct {
	batch  Batch
	max    int
	into   *scratch // nil for fresh memory
	cur    cursor
	opened bool
	index  int32
	raw    rawRecord
	record Record
	err    error
}

// rawRecord holds the parts of one record before its headers are materialised.
type rawRecord struct {
	timestampDelta int64
	offsetDelta    int32
	key, value     []byte
	headerCount    int32
	headers        []byte
}

// Records iterates over the batch. It does not verify the checksum. maxDecompressed bounds the decompressed records in bytes, and so
// the memory used; a batch that exceeds it gives ErrTooLarge. An uncompressed batch is already in memory and is not bounded by it.
func (b Batch) Records(maxDecompressed int) *Iterator {
	return &Iterator{batch: b, max: maxDecompressed}
}

// All is Records as a sequence. A fault comes last, with a zero Record.
func (b Batch) All(maxDecompressed int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		it := b.Records(maxDecompressed)
		for it.Next() {
			if !yield(it.Record(), nil) {
				return
			}
		}
		if it.err != nil {
			yield(Record{}, it.err)
		}
	}
}

// Visited is a record that Visit has come to. Key and Value are nil when null. It is valid only until the visit returns: it may lie in a buffer that is used again.
type Visited struct {
	Offset     Offset
	Timestamp  int64 // as in Record
	Key, Value []byte
	raw        *rawRecord
}

// Size is the number of bytes of the record's key, value and headers, as they are encoded.
func (v *Visited) Size() int { return len(v.Key) + len(v.Value) + len(v.raw.headers) }

// HeaderCount is the number of headers. The headers of a small batch may be more than fit in memory once they are built.
func (v *Visited) HeaderCount() int { return int(v.raw.headerCount) }

// Headers builds the headers. Their values are valid as long as the record is.
func (v *Visited) Headers() []Header { return v.raw.materialise() }

// Visit calls visit for the records in order until it returns false. memory counts what the decompressed batch takes; nil for nothing. Visit may wait for it.
// The error is like that of Iterator.Err.
func (b Batch) Visit(maxDecompressed int, memory *Memory, visit func(*Visited) bool) error {
	s := getScratch(memory)
	defer putScratch(s)
	it := Iterator{batch: b, max: maxDecompressed, into: s}
	var v Visited
	for it.step() {
		r := &it.raw
		v = Visited{Offset: b.BaseOffset() + Offset(r.offsetDelta), Timestamp: b.recordTimestamp(r.timestampDelta), Key: r.key, Value: r.value, raw: r}
		if !visit(&v) {
			return nil
		}
	}
	return it.err
}

// Next decodes the next record and reports whether there is one.
func (it *Iterator) Next() bool {
	if !it.step() {
		return false
	}
	it.record = Record{
		Offset:    it.batch.BaseOffset() + Offset(it.raw.offsetDelta),
		Timestamp: it.batch.recordTimestamp(it.raw.timestampDelta),
		Key:       it.raw.key,
		Value:     it.raw.value,
		Headers:   it.raw.materialise(),
	}
	return true
}

// step decodes the next record and leaves it raw.
func (it *Iterator) step() bool {
	if it.err != nil {
		return false
	}
	if !it.opened {
		it.opened = true
		payload, err := decompress(it.into, it.batch.Codec(), it.batch.payload(), it.max)
		if err != nil {
			it.err = err
			return false
		}
		it.cur.b = payload
	}
	more, err := nextRaw(&it.cur, &it.raw, it.index, it.batch)
	if err != nil {
		it.err = err
		return false
	}
	if more {
		it.index++
	}
	return more
}

// Record is the record that the last Next decoded. It stays valid as long as the batch's bytes do.
func (it *Iterator) Record() Record { return it.record }

// Err is what ended the iteration early, or nil. It is or wraps ErrInvalid.
func (it *Iterator) Err() error { return it.err }

// recordTimestamp applies a record's delta. It wraps on overflow exactly as other implementations do, so that all agree.
func (b Batch) recordTimestamp(delta int64) int64 {
	if b.LogAppendTime() {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + delta
}

// nextRaw decodes record number index of the batch from c into r. It reports false at the end, where it insists that the declared
// count of records has used up the bytes. Offset deltas rise strictly and stay within the batch: readers search by them.
func nextRaw(c *cursor, r *rawRecord, index int32, b Batch) (bool, error) {
	if index >= b.Count() {
		if c.remaining() != 0 {
			return false, fmt.Errorf("%w: %d bytes behind the last of %d records", ErrInvalid, c.remaining(), index)
		}
		return false, nil
	}
	previous := r.offsetDelta
	if index == 0 {
		previous = -1
	}
	if !r.decodeShort(c) {
		if err := r.decode(c); err != nil {
			return false, &RecordError{Index: index, Err: err}
		}
	}
	if r.offsetDelta <= previous || r.offsetDelta > b.LastOffsetDelta() {
		err := fmt.Errorf("%w: offset delta %d after %d, batch ends at %d", ErrInvalid, r.offsetDelta, previous, b.LastOffsetDelta())
		return false, &RecordError{Index: index, Err: err}
	}
	return true, nil
}

// decode reads one record. The record's own length bounds every field in it and must be used up.
func (r *rawRecord) decode(c *cursor) error {
	size := int(c.varint())
	if c.err == nil && (size < 0 || size > c.remaining()) {
		c.fail("record length %d with %d bytes left", size, c.remaining())
	}
	if c.err != nil {
		return c.err
	}
	body := cursor{b: c.b[:c.pos+size], pos: c.pos}
	body.byte() // attributes: no bit is defined, and a newer producer's bits are carried along unread
	r.timestampDelta = body.varlong()
	r.offsetDelta = body.varint()
	r.key = body.bytes("key")
	r.value = body.bytes("value")
	r.headerCount = body.varint()
	headers := body.pos
	r.skipHeaders(&body)
	if body.err == nil && body.remaining() != 0 {
		body.fail("%d bytes of a record left over", body.remaining())
	}
	if body.err != nil {
		return body.err
	}
	r.headers = c.b[headers:body.pos]
	c.pos = body.pos
	return nil
}

// minHeaderSize is the least that a header takes: two lengths.
const minHeaderSize = 2

// skipHeaders checks the headers without building them. The count is believed only as far as the bytes can hold it.
func (r *rawRecord) skipHeaders(body *cursor) {
	if body.err != nil {
		return
	}
	if r.headerCount < 0 || int(r.headerCount) > body.remaining()/minHeaderSize {
		body.fail("%d headers in %d bytes", r.headerCount, body.remaining())
		return
	}
	for range r.headerCount {
		if key := body.bytes("header key"); key == nil && body.err == nil {
			body.fail("null header key")
		}
		body.bytes("header value")
		if body.err != nil {
			return
		}
	}
}

// materialise builds the headers that skipHeaders has checked.
func (r *rawRecord) materialise() []Header {
	if r.headerCount == 0 {
		return nil
	}
	headers := make([]Header, r.headerCount)
	c := cursor{b: r.headers}
	for i := range headers {
		headers[i] = Header{Key: string(c.bytes("header key")), Value: c.bytes("header value")}
	}
	return headers
}
