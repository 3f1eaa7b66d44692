package record

import (
	"bytes"
	"testing"
)

// goldenBatch was put together field by field from the specification, by a program that shares nothing with this package, with a
// bitwise CRC-32C. It holds a record with headers (one null), one with a null key and an empty value and an earlier timestamp, and
// one with an empty key and a null value.
const goldenBatch = `
	0000000000000000 00000054 ffffffff 02 a127fe28
	0010 00000002 0000018bcfe56800 0000018bcfe56be8 0000000000001267 0003 7ffffffe 00000003
	26 00 00 00 02 6b 0a 76616c7565 04 02 68 02 78 02 6e 01
	0c 00 09 02 01 00 00
	0e 00 d00f 04 00 01 00`

var goldenRecords = []Record{
	{0, 1_700_000_000_000, []byte("k"), []byte("value"), []Header{{"h", []byte("x")}, {"n", nil}}},
	{1, 1_699_999_999_995, nil, []byte{}, nil},
	{2, 1_700_000_001_000, []byte{}, nil, nil},
}

var goldenOptions = BuilderOptions{ProducerID: 4711, ProducerEpoch: 3, BaseSequence: 1<<31 - 2, Transactional: true}

// The constants of the format are on disk and on the wire: this test failing means that old logs become unreadable.
func TestGolden_BuilderWritesTheseBytes(t *testing.T) {
	got := build(t, goldenOptions, goldenRecords...).Bytes()
	if want := unhex(t, goldenBatch); !bytes.Equal(got, want) {
		t.Errorf("built\n%x, want\n%x", got, want)
	}
}

func TestGolden_Decodes(t *testing.T) {
	batch, err := Parse(unhex(t, goldenBatch))
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.Validate(Limits{}); err != nil {
		t.Errorf("Validate: %v", err)
	}
	got, err := decodeAll(batch, 0)
	if err != nil || len(got) != len(goldenRecords) {
		t.Fatalf("decoded %d records, error %v", len(got), err)
	}
	for i, want := range goldenRecords {
		if !sameRecord(got[i], want) {
			t.Errorf("record %d is %+v, want %+v", i, got[i], want)
		}
	}
}

// kafkaBatch is the first batch of a KRaft metadata log as Apache Kafka wrote it: one feature level record.
const kafkaBatch = `
	0000000000000001 0000004f 00000001 02 b069457c
	0000 00000000 00000191e05af818 00000191e05af818 ffffffffffffffff ffff ffffffff 00000001
	3a 00 00 00 01 2e 010c00116d657461646174612e76657273696f6e00140000`

func TestGolden_ReadsWhatApacheKafkaWrote(t *testing.T) {
	raw := unhex(t, kafkaBatch)
	batch, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.VerifyCRC(); err != nil {
		t.Error(err)
	}
	if batch.BaseOffset() != 1 || batch.NextOffset() != 2 || batch.LeaderEpoch() != 1 || batch.HasProducer() || batch.IsControl() {
		t.Errorf("header read as base %d next %d epoch %d producer %d", batch.BaseOffset(), batch.NextOffset(), batch.LeaderEpoch(), batch.ProducerID())
	}
	records, err := decodeAll(batch, 0)
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, error %v", len(records), err)
	}
	want := Record{Offset: 1, Timestamp: 0x191e05af818, Value: raw[len(raw)-24 : len(raw)-1]}
	if !sameRecord(records[0], want) || !bytes.Contains(records[0].Value, []byte("metadata.version")) {
		t.Errorf("record %+v", records[0])
	}

	rebuilt := build(t, BuilderOptions{}, records...)
	rebuilt.Stamp(1, 1)
	if !bytes.Equal(rebuilt.Bytes(), raw) {
		t.Errorf("rebuilt\n%x, want\n%x", rebuilt.Bytes(), raw)
	}
}

// What we write around compressed data is what the Java client writes, and all that its strictest readers take.
func TestGolden_FramesOfCompressedRecords(t *testing.T) {
	for codec, want := range map[Codec]string{
		CodecGzip:   "1f8b08",
		CodecSnappy: "82534e4150505900 00000001 00000001 00000006 04 0c 00000000",
		CodecLZ4:    "04224d18 60 40 82",
		CodecZstd:   "28b52ffd",
	} {
		got, err := compress(nil, codec, make([]byte, 4))
		if err != nil {
			t.Fatal(err)
		}
		if prefix := unhex(t, want); !bytes.HasPrefix(got, prefix) {
			t.Errorf("%s begins with %x, want %x", codec, got[:min(len(got), len(prefix))], prefix)
		}
	}
}
