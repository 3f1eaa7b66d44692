package record

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse feeds any bytes to everything that reads a header. Nothing may panic, and what is accepted keeps the promises of Batch.
func FuzzParse(f *testing.F) {
	f.Add(unhex(f, goldenBatch))
	f.Add(unhex(f, kafkaBatch))
	f.Add(append(unhex(f, kafkaBatch), unhex(f, goldenBatch)...))
	f.Add(unhex(f, goldenBatch)[:70])
	f.Add(make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, input []byte) {
		end := 0
		err := Split(input, func(b Batch) error {
			end += b.Size()
			if b.Size() < HeaderSize || b.NextOffset() <= b.BaseOffset() || b.BaseOffset() < 0 || b.Count() < 0 {
				t.Errorf("accepted size %d, offsets %d to %d, count %d", b.Size(), b.BaseOffset(), b.NextOffset(), b.Count())
			}
			if b.HasProducer() && b.BaseSequence() >= 0 && b.LastSequence() < 0 {
				t.Errorf("last sequence %d", b.LastSequence())
			}
			if err := b.VerifyCRC(); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("VerifyCRC: %v", err)
			}
			return nil
		})
		switch {
		case err == nil && end != len(input):
			t.Errorf("%d of %d bytes were walked without an error", end, len(input))
		case err != nil && !errors.Is(err, ErrShort) && !errors.Is(err, ErrCorrupt):
			t.Errorf("unknown kind of error: %v", err)
		}
	})
}

// FuzzIterate wraps any bytes as the records of a batch with any codec. Iterator and Validate must agree with each other and stay
// within the bound, and what they accept without compression must be rebuilt to the same bytes unless a producer encoded it at length.
func FuzzIterate(f *testing.F) {
	plain := build(f, goldenOptions, goldenRecords...).payload()
	for _, codec := range allCodecs {
		payload, err := compress(nil, codec, plain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload, uint8(codec), uint8(3))
	}
	f.Add([]byte{0x0c, 0, 0, 0, 1, 1, 0}, uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, payload []byte, codec, count uint8) {
		const limit = 1 << 20
		b, err := Parse(wrap(payload, Codec(codec&attrCodecMask), max(int32(count), 1)))
		if err != nil {
			t.Fatalf("wrapped badly: %v", err)
		}
		records, err := decodeAll(b, limit)
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("unknown kind of error: %v", err)
		}
		size := 0
		for _, r := range records {
			size += len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				size += len(h.Key) + len(h.Value)
			}
		}
		if bound := max(limit, len(payload)); size > bound {
			t.Errorf("%d bytes decoded for a bound of %d", size, bound)
		}
		validated := b.Validate(Limits{MaxDecompressed: limit})
		if validated == nil && (err != nil || len(records) != int(b.Count())) {
			t.Errorf("Validate accepts what gives %d of %d records and %v", len(records), b.Count(), err)
		}
		if validated != nil {
			return
		}
		rebuilt, err := decodeAll(build(t, BuilderOptions{}, records...), 0)
		if err != nil || len(rebuilt) != len(records) {
			t.Fatalf("rebuilt to %d of %d records, %v", len(rebuilt), len(records), err)
		}
		for i := range records {
			if !sameRecord(records[i], rebuilt[i]) {
				t.Errorf("record %d: %+v became %+v", i, records[i], rebuilt[i])
			}
		}
	})
}

// FuzzDecodeShort holds the fast decoder to the one that defines the format: what it accepts, both read alike.
func FuzzDecodeShort(f *testing.F) {
	for _, seed := range []string{
		"0c 00 00 00 01 01 00",
		"0e 00 d00f 04 00 01 00 ffffffffff",
		"26 00 00 00 02 6b 0a 76616c7565 04 02 68 02 78 02 6e 01",
		"0c 00 09 02 01 00 00 0c 00 09 02 01 00 00",
		"8c01 00 8101 8201 08 6b6b6b6b 7a " + strings.Repeat("76", 61) + " 00",
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for start := range min(len(input), 4) {
			var short, full rawRecord
			a, b := cursor{b: input, pos: start}, cursor{b: input, pos: start}
			if !short.decodeShort(&a) {
				if a.pos != start {
					t.Errorf("moved to %d without a record", a.pos)
				}
				continue
			}
			if err := full.decode(&b); err != nil {
				t.Fatalf("decode refuses what decodeShort accepts: %v", err)
			}
			if a.pos != b.pos || short.timestampDelta != full.timestampDelta || short.offsetDelta != full.offsetDelta ||
				!sameBytes(short.key, full.key) || !sameBytes(short.value, full.value) || full.headerCount != 0 {
				t.Errorf("short %+v to %d, full %+v to %d", short, a.pos, full, b.pos)
			}
		}
	})
}
