package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestParse_ReadsEveryField(t *testing.T) {
	b := build(t, goldenOptions, goldenRecords...)
	b.Stamp(100, 7)
	got, err := Parse(append(bytes.Clone(b.Bytes()), "what follows is ignored"...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), b.Bytes()) || cap(got.Bytes()) != got.Size() {
		t.Errorf("the view is not exactly the batch")
	}
	for _, field := range []struct {
		name      string
		got, want int64
	}{
		{"size", int64(got.Size()), 96},
		{"base offset", int64(got.BaseOffset()), 100},
		{"last offset", int64(got.LastOffset()), 102},
		{"next offset", int64(got.NextOffset()), 103},
		{"last offset delta", int64(got.LastOffsetDelta()), 2},
		{"count", int64(got.Count()), 3},
		{"leader epoch", int64(got.LeaderEpoch()), 7},
		{"attributes", int64(got.Attributes()), 0x10},
		{"codec", int64(got.Codec()), 0},
		{"base timestamp", got.BaseTimestamp(), 1_700_000_000_000},
		{"max timestamp", got.MaxTimestamp(), 1_700_000_001_000},
		{"producer id", int64(got.ProducerID()), 4711},
		{"producer epoch", int64(got.ProducerEpoch()), 3},
		{"base sequence", int64(got.BaseSequence()), math.MaxInt32 - 1},
		{"crc", int64(got.CRC()), 0xa127fe28},
	} {
		if field.got != field.want {
			t.Errorf("%s is %d, want %d", field.name, field.got, field.want)
		}
	}
	if !got.IsTransactional() || got.IsControl() || got.LogAppendTime() || !got.HasProducer() || got.HasDeleteHorizon() {
		t.Errorf("flags read wrong from attributes %#x", got.Attributes())
	}
}

func TestParse_RefusesBadHeaders(t *testing.T) {
	good := unhex(t, goldenBatch)
	patch := func(pos int, field ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[pos:], field)
		return b
	}
	for name, test := range map[string]struct {
		input []byte
		want  error
	}{
		"empty":                        {nil, ErrShort},
		"length field cut":             {good[:11], ErrShort},
		"header cut":                   {good[:HeaderSize-1], ErrShort},
		"records cut":                  {good[:len(good)-1], ErrShort},
		"only the header":              {good[:HeaderSize], ErrShort},
		"magic 0":                      {patch(posMagic, 0), ErrMagic},
		"magic 1 in a cut header":      {patch(posMagic, 1)[:20], ErrMagic},
		"magic 3":                      {patch(posMagic, 3), ErrMagic},
		"length zero":                  {patch(posLength, 0, 0, 0, 0), ErrCorrupt},
		"length one below the header":  {patch(posLength, 0, 0, 0, 48), ErrCorrupt},
		"length negative":              {patch(posLength, 0xff, 0xff, 0xff, 0xff), ErrCorrupt},
		"length absurd":                {patch(posLength, 0x7f, 0xff, 0xff, 0xff), ErrCorrupt},
		"length beyond the input":      {patch(posLength, 0, 0, 0, 85), ErrShort},
		"base offset negative":         {patch(posBaseOffset, 0xff), ErrCorrupt},
		"last offset overflows":        {patch(posBaseOffset, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd), ErrCorrupt},
		"last offset delta negative":   {patch(posLastOffsetDelta, 0x80), ErrCorrupt},
		"count negative":               {patch(posCount, 0xff, 0xff, 0xff, 0xff), ErrCorrupt},
		"more records than offsets":    {patch(posCount, 0, 0, 0, 4), ErrCorrupt},
		"zeros, as in a zeroed tail":   {make([]byte, 4096), ErrMagic},
		"zeros, too few for the magic": {make([]byte, 12), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(test.input); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
	if !errors.Is(ErrShort, io.ErrUnexpectedEOF) || !errors.Is(ErrMagic, ErrCorrupt) || errors.Is(ErrShort, ErrCorrupt) {
		t.Error("the sentinels do not nest as documented")
	}
}

func TestParse_AcceptsTheEdges(t *testing.T) {
	b := build(t, BuilderOptions{}, sample(3, 10)...)
	b.Stamp(math.MaxInt64-3, math.MaxInt32)
	if got, err := Parse(b.Bytes()); err != nil || got.NextOffset() != math.MaxInt64 {
		t.Errorf("the highest offsets: next %d, error %v", got.NextOffset(), err)
	}
	empty := wrap(nil, CodecNone, 0)
	copy(empty[posLastOffsetDelta:], []byte{0, 0, 0, 9}) // compacted to nothing
	if got, err := Parse(empty); err != nil || got.NextOffset() != 10 {
		t.Errorf("a batch that compaction emptied: next %d, error %v", got.NextOffset(), err)
	}
}

func TestParseHead_NeedsOnlyTheHeader(t *testing.T) {
	b := build(t, BuilderOptions{}, sample(3, 1000)...)
	b.Stamp(40, 6)
	if size, err := BatchSize(b.Bytes()[:HeaderSize]); err != nil || size != b.Size() {
		t.Errorf("size %d, error %v, want %d", size, err, b.Size())
	}
	head, err := ParseHead(b.Bytes()[:HeaderSize])
	if err != nil || head.Size() != b.Size() || head.NextOffset() != 43 || head.LeaderEpoch() != 6 || head.MaxTimestamp() != b.MaxTimestamp() {
		t.Errorf("head: size %d, next %d, error %v", head.Size(), head.NextOffset(), err)
	}
}

func TestParse_AllocatesNothing(t *testing.T) {
	raw := build(t, goldenOptions, goldenRecords...).Bytes()
	var sum int64
	allocs := testing.AllocsPerRun(100, func() {
		b, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		sum += int64(b.NextOffset()) + int64(b.LeaderEpoch()) + b.MaxTimestamp() + int64(b.LastSequence()) + int64(b.Codec())
		if b.VerifyCRC() != nil {
			t.Fatal("CRC")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0 (sum %d)", allocs, sum)
	}
}

// A single flipped bit anywhere under the checksum is found.
func TestVerifyCRC_FindsEveryFlippedBit(t *testing.T) {
	raw := unhex(t, goldenBatch)
	for bit := posCRC * 8; bit < len(raw)*8; bit++ {
		raw[bit/8] ^= 1 << (bit % 8)
		if err := view(raw).VerifyCRC(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d flipped: error %v", bit, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

func TestStamp_LeavesTheChecksumValid(t *testing.T) {
	b := build(t, BuilderOptions{}, sample(2, 10)...)
	crc := b.CRC()
	b.Stamp(1<<40, 12)
	if b.BaseOffset() != 1<<40 || b.LeaderEpoch() != 12 || b.CRC() != crc || b.VerifyCRC() != nil {
		t.Errorf("base %d, epoch %d, CRC %08x was %08x", b.BaseOffset(), b.LeaderEpoch(), b.CRC(), crc)
	}
}

func TestStampLogAppendTime_StandsForEveryRecord(t *testing.T) {
	b := build(t, BuilderOptions{Codec: CodecZstd}, sample(3, 10)...)
	b.StampLogAppendTime(1_800_000_000_000)
	if err := b.VerifyCRC(); err != nil {
		t.Error(err)
	}
	if !b.LogAppendTime() || b.MaxTimestamp() != 1_800_000_000_000 || b.Codec() != CodecZstd {
		t.Errorf("attributes %#x, max timestamp %d", b.Attributes(), b.MaxTimestamp())
	}
	records, err := decodeAll(b, testLimit)
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, error %v", len(records), err)
	}
	for _, r := range records {
		if r.Timestamp != 1_800_000_000_000 {
			t.Errorf("record %d has timestamp %d", r.Offset, r.Timestamp)
		}
	}
}

func TestSplit(t *testing.T) {
	var raw []byte
	var ends []Offset
	next := Offset(5)
	for n := 1; n <= 3; n++ {
		b := build(t, BuilderOptions{}, sample(n, 20)...)
		b.Stamp(next, 1)
		next = b.NextOffset()
		ends = append(ends, next)
		raw = append(raw, b.Bytes()...)
	}
	walk := func(raw []byte) (got []Offset, err error) {
		err = Split(raw, func(b Batch) error { got = append(got, b.NextOffset()); return nil })
		return got, err
	}
	if got, err := walk(raw); err != nil || len(got) != 3 || got[0] != ends[0] || got[2] != ends[2] {
		t.Errorf("whole: %v, error %v", got, err)
	}
	if got, err := walk(raw[:len(raw)-1]); !errors.Is(err, ErrShort) || len(got) != 2 {
		t.Errorf("cut: %v, error %v", got, err)
	}
	if got, err := walk(nil); err != nil || len(got) != 0 {
		t.Errorf("empty: %v, error %v", got, err)
	}
	stop := errors.New("stop")
	if err := Split(raw, func(Batch) error { return stop }); err != stop {
		t.Errorf("the callback's error came back as %v", err)
	}
}

// Case 71: sequences wrap from 2^31-1 to 0, within a batch and between batches.
func TestCase71_SequenceWraps(t *testing.T) {
	for _, test := range []struct {
		base Sequence
		n    int
		last Sequence
	}{
		{0, 1, 0},
		{math.MaxInt32 - 2, 3, math.MaxInt32},
		{math.MaxInt32, 1, math.MaxInt32},
		{math.MaxInt32, 2, 0},
		{math.MaxInt32 - 1, 5, 2},
	} {
		b := build(t, BuilderOptions{ProducerID: 1, BaseSequence: test.base}, sample(test.n, 1)...)
		if err := b.Validate(Limits{}); err != nil {
			t.Errorf("base %d: %v", test.base, err)
		}
		if got := b.LastSequence(); got != test.last {
			t.Errorf("base %d, %d records: last sequence %d, want %d", test.base, test.n, got, test.last)
		}
	}
	if got := Sequence(math.MaxInt32).Next(1); got != 0 {
		t.Errorf("after 2^31-1 comes %d", got)
	}
	if b := build(t, BuilderOptions{}, sample(3, 1)...); b.LastSequence() != NoSequence || b.HasProducer() {
		t.Errorf("a plain batch has last sequence %d", b.LastSequence())
	}
}

func TestIterator_StopsForGood(t *testing.T) {
	whole := build(t, BuilderOptions{}, sample(3, 20)...)
	it := whole.Records(0)
	for range 3 {
		if !it.Next() {
			t.Fatal(it.Err())
		}
	}
	for range 2 { // the end is the end
		if it.Next() || it.Err() != nil {
			t.Errorf("after the end: error %v", it.Err())
		}
	}

	broken := edit(whole, whole.Size()-1, 2) // the last record claims a header
	it = broken.Records(0)
	for i := range 2 {
		if !it.Next() || it.Record().Offset != Offset(i) {
			t.Fatalf("record %d before the fault is lost: %v", i, it.Err())
		}
	}
	for range 2 { // and a fault stays one
		if it.Next() || !errors.Is(it.Err(), ErrInvalid) {
			t.Errorf("at the fault: error %v", it.Err())
		}
	}
	if !strings.Contains(it.Err().Error(), "record 2: ") {
		t.Errorf("the error %q does not name the record", it.Err())
	}

	for r, err := range broken.All(0) {
		if err != nil || r.Offset > 0 {
			t.Errorf("the loop went on: %v, %v", r, err)
		}
		break
	}
	if !(Batch{}).IsZero() || (Batch{}).Size() != 0 || whole.IsZero() {
		t.Error("the zero batch is not told from a real one")
	}
}
