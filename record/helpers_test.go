package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// testLimit is a decompression bound that no honest test batch reaches.
const testLimit = 8 << 20

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// unhex reads hexadecimal text, ignoring white space.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build makes a batch of the records, whose offsets are ignored.
func build(t testing.TB, opts BuilderOptions, records ...Record) Batch {
	t.Helper()
	b := NewBuilder(opts)
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return batch
}

// sample is n records of about size bytes that compress a little.
func sample(n, size int) []Record {
	records := make([]Record, n)
	for i := range records {
		value := bytes.Repeat([]byte(fmt.Sprintf("value-%d ", i*7919)), size/8+1)[:size]
		records[i] = Record{Offset: Offset(i), Timestamp: 1_700_000_000_000 + int64(i), Key: []byte(fmt.Sprint("key-", i)), Value: value}
	}
	return records
}

// decodeAll collects the records of a batch and the fault that ended them.
func decodeAll(b Batch, limit int) ([]Record, error) {
	var records []Record
	for r, err := range b.All(limit) {
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// wrap puts a header around a records part as a careless or hostile producer would: the checksum is right, the rest is as told.
func wrap(payload []byte, codec Codec, count int32) []byte {
	b := make([]byte, HeaderSize, HeaderSize+len(payload))
	binary.BigEndian.PutUint32(b[posLength:], uint32(HeaderSize-lengthStart+len(payload)))
	b[posMagic] = magicV2
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(count-1))
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
	binary.BigEndian.PutUint64(b[posProducerID:], ^uint64(0))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], ^uint16(0))
	binary.BigEndian.PutUint32(b[posBaseSequence:], ^uint32(0))
	b = append(b, payload...)
	view(b).seal()
	return b
}

// edit returns a sealed copy of a batch with one field overwritten.
func edit(b Batch, pos int, field ...byte) Batch {
	c := b.Clone()
	copy(c.b[pos:], field)
	c.seal()
	return c
}

func sameRecord(a, b Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && sameBytes(a.Key, b.Key) && sameBytes(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool { return x.Key == y.Key && sameBytes(x.Value, y.Value) })
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
