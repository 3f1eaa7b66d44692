package record

import (
	"encoding/binary"
	"errors"
	"testing"
)

func be16(v int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
func be32(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func be64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func TestValidate_RefusesWhatProducersMayNotSend(t *testing.T) {
	plain := build(t, BuilderOptions{}, sample(3, 10)...)
	idempotent := build(t, BuilderOptions{ProducerID: 9}, sample(3, 10)...)
	for name, test := range map[string]struct {
		batch Batch
		want  error
	}{
		"base offset set":                   {edit(plain, posBaseOffset, be64(1)...), ErrInvalid},
		"no records":                        {edit(plain, posCount, be32(0)...), ErrInvalid},
		"count below the last offset delta": {edit(plain, posCount, be32(2)...), ErrInvalid},
		"a record too few":                  {edit(edit(plain, posCount, be32(4)...), posLastOffsetDelta, be32(3)...), ErrInvalid},
		"a record too many":                 {edit(edit(plain, posCount, be32(2)...), posLastOffsetDelta, be32(1)...), ErrInvalid},
		"codec 5":                           {edit(plain, posAttributes, be16(5)...), ErrCodec},
		"codec 7":                           {edit(plain, posAttributes, be16(7)...), ErrCodec},
		"codec set on plain records":        {edit(plain, posAttributes, be16(1)...), ErrInvalid},
		"control":                           {edit(idempotent, posAttributes, be16(attrControl)...), ErrInvalid},
		"log append time":                   {edit(plain, posAttributes, be16(attrLogAppendTime)...), ErrTimestamp},
		"delete horizon":                    {edit(plain, posAttributes, be16(attrDeleteHorizon)...), ErrInvalid},
		"transactional without a producer":  {edit(plain, posAttributes, be16(attrTransactional)...), ErrInvalid},
		"producer id -2":                    {edit(plain, posProducerID, be64(-2)...), ErrInvalid},
		"producer without an epoch":         {edit(idempotent, posProducerEpoch, be16(-1)...), ErrInvalid},
		"producer without a sequence":       {edit(idempotent, posBaseSequence, be32(-1)...), ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(test.batch.Bytes()); err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if err := test.batch.Validate(Limits{MaxDecompressed: testLimit}); !errors.Is(err, test.want) || errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}

	flipped := plain.Clone()
	flipped.b[flipped.Size()-1] ^= 1
	for _, lim := range []Limits{{}, {SkipRecords: true}} {
		if err := flipped.Validate(lim); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) {
			t.Errorf("flipped bit, %+v: error %v", lim, err)
		}
	}
	if !errors.Is(ErrCodec, ErrInvalid) || !errors.Is(ErrTooLarge, ErrInvalid) || !errors.Is(ErrTimestamp, ErrInvalid) {
		t.Error("the sentinels do not nest as documented")
	}
}

// Each input is the bytes of a records part; every one breaks the format in one place.
func TestRecords_RefusesMalformedRecords(t *testing.T) {
	for name, test := range map[string]struct {
		count int32
		hex   string
		index int32 // of the record at fault; -1: the batch is
	}{
		"nothing":                        {1, "", 0},
		"length cut":                     {1, "80", 0},
		"length beyond the batch":        {1, "10 00 00 00 01 01 00", 0},
		"length negative":                {1, "01", 0},
		"length zero":                    {1, "00", 0},
		"length of six bytes":            {1, "8e8080808000 00 00 00 01 01 00 00", 0},
		"length above 32 bits":           {1, "8e80808010 00 00 00 01 01 00 00", 0},
		"timestamp delta of 11 bytes":    {1, "22 00 8080808080808080808000 00 01 01 00", 0},
		"timestamp delta above 64 bits":  {1, "1e 00 80808080808080808002 00 01 01 00", 0},
		"offset delta above 32 bits":     {1, "14 00 00 ffffffff1f 01 01 00", 0},
		"offset delta beyond the batch":  {1, "0c 00 00 02 01 01 00", 0},
		"offset delta negative":          {1, "0c 00 00 01 01 01 00", 0},
		"offset delta repeated":          {2, "0c 00 00 00 01 01 00  0c 00 00 00 01 01 00", 1},
		"key length -2":                  {1, "0c 00 00 00 03 01 00", 0},
		"key beyond the record":          {1, "0c 00 00 00 08 01 00 ffff", 0},
		"value length -2":                {1, "0c 00 00 00 01 03 00", 0},
		"value beyond the record":        {1, "0c 00 00 00 01 08 00 ffff", 0},
		"header count negative":          {1, "0c 00 00 00 01 01 01", 0},
		"header count above the bytes":   {1, "0c 00 00 00 01 01 02", 0},
		"header count huge":              {1, "14 00 00 00 01 01 feffffff0f", 0},
		"header key null":                {1, "10 00 00 00 01 01 02 01 01", 0},
		"header key beyond the record":   {1, "10 00 00 00 01 01 02 04 01", 0},
		"header value beyond the record": {1, "10 00 00 00 01 01 02 00 02", 0},
		"record not used up":             {1, "0e 00 00 00 01 01 00 00", 0},
		"record ends inside its fields":  {1, "0a 00 00 00 01 01", 0},
		"bytes behind the last record":   {1, "0c 00 00 00 01 01 00 00", -1},
		"second record missing":          {2, "0c 00 00 00 01 01 00", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, codec := range allCodecs {
				payload, err := compress(nil, codec, unhex(t, test.hex))
				if err != nil {
					t.Fatal(err)
				}
				batch, err := Parse(wrap(payload, codec, test.count))
				if err != nil {
					t.Fatal(err)
				}
				_, iterated := decodeAll(batch, testLimit)
				validated := batch.Validate(Limits{MaxDecompressed: testLimit})
				for _, err := range []error{iterated, validated} {
					if !errors.Is(err, ErrInvalid) {
						t.Errorf("%s: error %v", codec, err)
						continue
					}
					index := int32(-1)
					if at := (*RecordError)(nil); errors.As(err, &at) {
						index = at.Index
					}
					if index != test.index {
						t.Errorf("%s: fault at record %d, want %d: %v", codec, index, test.index, err)
					}
				}
			}
		})
	}
}

// Gaps are what compaction leaves: readers take them, and producers may not make them.
func TestRecords_TakesGapsThatProducersMayNotSend(t *testing.T) {
	raw := wrap(unhex(t, "0c 00 00 02 01 01 00  0c 00 00 08 01 01 00"), CodecNone, 2)
	copy(raw[posLastOffsetDelta:], be32(6))
	view(raw).seal()
	batch, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(100, 3)
	records, err := decodeAll(batch, 0)
	if err != nil || len(records) != 2 || records[0].Offset != 101 || records[1].Offset != 104 {
		t.Errorf("records %+v, error %v", records, err)
	}
	if err := batch.Validate(Limits{SkipRecords: true}); err != nil {
		t.Errorf("a follower refuses a compacted batch: %v", err)
	}
	if err := batch.Validate(Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a producer's batch with gaps: %v", err)
	}

	// As many records as offsets, and still a gap: the deltas are 0, 2.
	batch, err = Parse(wrap(unhex(t, "0c 00 00 00 01 01 00  0c 00 00 04 01 01 00"), CodecNone, 3))
	if err != nil {
		t.Fatal(err)
	}
	at := (*RecordError)(nil)
	if err := batch.Validate(Limits{}); !errors.As(err, &at) || at.Index != 1 {
		t.Errorf("gap inside the batch: %v", err)
	}
}

// Case 98: timestamps in nanoseconds, or long ago, are refused within the topic's bounds.
func TestCase98_TimestampBounds(t *testing.T) {
	const now = 1_700_000_000_000
	bounds := Limits{MinTimestamp: now - 3_600_000, MaxTimestamp: now + 3_600_000}
	for name, test := range map[string]struct {
		timestamps []int64
		lim        Limits
		want       error
	}{
		"now":                        {[]int64{now}, bounds, nil},
		"at the bounds":              {[]int64{bounds.MinTimestamp, bounds.MaxTimestamp}, bounds, nil},
		"just before":                {[]int64{now, bounds.MinTimestamp - 1}, bounds, ErrTimestamp},
		"just after":                 {[]int64{now, bounds.MaxTimestamp + 1}, bounds, ErrTimestamp},
		"nanoseconds":                {[]int64{now * 1_000_000}, bounds, ErrTimestamp},
		"1970":                       {[]int64{0}, bounds, ErrTimestamp},
		"none":                       {[]int64{NoTimestamp, NoTimestamp}, bounds, nil},
		"before 1970":                {[]int64{-2}, Limits{}, ErrTimestamp},
		"1970, unbounded":            {[]int64{0}, Limits{}, nil},
		"nanoseconds, unbounded":     {[]int64{now * 1_000_000}, Limits{}, nil},
		"wraps to a negative number": {[]int64{1 << 62, -1 << 62}, Limits{}, ErrTimestamp},
	} {
		t.Run(name, func(t *testing.T) {
			var records []Record
			for _, ts := range test.timestamps {
				records = append(records, Record{Timestamp: ts})
			}
			err := build(t, BuilderOptions{}, records...).Validate(test.lim)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if at := (*RecordError)(nil); err != nil && (!errors.As(err, &at) || int(at.Index) != len(records)-1) {
				t.Errorf("the error does not name the last record: %v", err)
			}
		})
	}
}

// A header that claims another maximum than the records hold would pin or wipe a whole segment.
func TestCase98_WrongMaxTimestampIsCorrected(t *testing.T) {
	good := build(t, BuilderOptions{}, sample(3, 10)...)
	for _, claimed := range []int64{-1, 0, 1 << 60} {
		b := edit(good, posMaxTimestamp, be64(claimed)...)
		if err := b.Validate(Limits{MaxTimestamp: good.MaxTimestamp()}); err != nil {
			t.Fatal(err)
		}
		if b.MaxTimestamp() != good.MaxTimestamp() || b.VerifyCRC() != nil {
			t.Errorf("claimed %d: now %d, want %d, CRC %v", claimed, b.MaxTimestamp(), good.MaxTimestamp(), b.VerifyCRC())
		}
	}
	before := good.Clone()
	if err := good.Validate(Limits{}); err != nil || string(before.Bytes()) != string(good.Bytes()) {
		t.Errorf("a right one was touched (error %v)", err)
	}
}

func TestValidate_RequireKeys(t *testing.T) {
	records := sample(3, 10)
	records[1].Key = []byte{}
	if err := build(t, BuilderOptions{}, records...).Validate(Limits{RequireKeys: true}); err != nil {
		t.Errorf("an empty key is a key: %v", err)
	}
	records[2].Key = nil
	at := (*RecordError)(nil)
	if err := build(t, BuilderOptions{}, records...).Validate(Limits{RequireKeys: true}); !errors.As(err, &at) || at.Index != 2 {
		t.Errorf("null key: error %v", err)
	}
	records[0].Key = nil
	if err := build(t, BuilderOptions{}, records...).Validate(Limits{RequireKeys: true}); !errors.As(err, &at) || at.Index != 0 || len(at.More) != 1 || at.More[0] != 2 {
		t.Errorf("two null keys: error %v names %v", err, at)
	}
}

// TestValidate_NamesEveryBadTimestamp: a producer sends the others again (KIP-467).
func TestValidate_NamesEveryBadTimestamp(t *testing.T) {
	records := sample(4, 10)
	for i, ts := range []int64{5, 900, 6, 901} {
		records[i].Timestamp = ts
	}
	at := (*RecordError)(nil)
	if err := build(t, BuilderOptions{}, records...).Validate(Limits{MaxTimestamp: 100}); !errors.As(err, &at) || at.Index != 1 || len(at.More) != 1 || at.More[0] != 3 {
		t.Errorf("two late records: error %v names %v", err, at)
	}
}

func TestBuild_PlainOrRefused(t *testing.T) {
	full := func(opts BuilderOptions) *Builder {
		b := NewBuilder(opts)
		b.Append(0, nil, nil, nil)
		return b
	}
	for name, opts := range map[string]BuilderOptions{
		"zero":      {},
		"spelt out": {ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence},
	} {
		if b, err := full(opts).Build(); err != nil || b.HasProducer() || b.ProducerEpoch() != NoProducerEpoch || b.BaseSequence() != NoSequence {
			t.Errorf("%s options: producer %d, error %v", name, b.ProducerID(), err)
		}
	}
	for name, test := range map[string]struct {
		builder *Builder
		want    error
	}{
		"no records":                       {NewBuilder(BuilderOptions{}), ErrInvalid},
		"unknown codec":                    {full(BuilderOptions{Codec: 5}), ErrCodec},
		"negative codec":                   {full(BuilderOptions{Codec: -1}), ErrCodec},
		"transactional without a producer": {full(BuilderOptions{Transactional: true}), ErrInvalid},
		"sequence of producer 0":           {full(BuilderOptions{BaseSequence: 1}), ErrInvalid},
		"epoch of producer 0":              {full(BuilderOptions{ProducerEpoch: 1}), ErrInvalid},
	} {
		if _, err := test.builder.Build(); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
	}
}

func TestBuilder_ReportsSizeAndReusesMemory(t *testing.T) {
	b := NewBuilder(BuilderOptions{})
	if b.Len() != 0 || b.Size() != HeaderSize {
		t.Errorf("empty: %d records, %d bytes", b.Len(), b.Size())
	}
	b.Append(5, []byte("k"), []byte("v"), nil)
	first, err := b.Build()
	if err != nil || b.Len() != 1 || b.Size() != first.Size() {
		t.Errorf("%d records, %d bytes, batch of %d, error %v", b.Len(), b.Size(), first.Size(), err)
	}
	if first.Size() > MaxBatchOverhead+2 {
		t.Errorf("%d bytes exceed the stated overhead", first.Size())
	}
	kept := first.Clone()
	b.Reset(BuilderOptions{ProducerID: 3})
	b.Append(9, []byte("other"), nil, nil)
	second, err := b.Build()
	if err != nil || second.ProducerID() != 3 || second.BaseTimestamp() != 9 || second.MaxTimestamp() != 9 {
		t.Errorf("after Reset: producer %d, error %v", second.ProducerID(), err)
	}
	if string(first.Bytes()) != string(kept.Bytes()) {
		t.Error("Reset changed a batch that was built before")
	}

	key, value := []byte("key"), make([]byte, 100)
	buf := make([]byte, 0, 8<<10)
	allocs := testing.AllocsPerRun(50, func() {
		b.Reset(BuilderOptions{})
		for range 50 {
			b.Append(1, key, value, nil)
		}
		if _, err := b.BuildInto(buf); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a batch built into a buffer, want 0", allocs)
	}
}
