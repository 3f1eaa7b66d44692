package record

import (
	"bytes"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// Case 104: what a reader allocates for the block size that frames name counts, whatever else stands in the headers, and in each of several frames.
func TestCase104_LZ4RoomIsThatOfTheLargestBlock(t *testing.T) {
	frame := func(opts ...lz4.Option) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := w.Apply(opts...); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := w.Write(bytes.Repeat([]byte("moldau "), 30_000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	small := frame(lz4.BlockSizeOption(lz4.Block64Kb))
	for name, test := range map[string]struct {
		src  []byte
		want int
	}{
		"64 KiB":                 {small, 128 << 10},
		"256 KiB":                {frame(lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true)), 512 << 10},
		"1 MiB":                  {frame(lz4.BlockSizeOption(lz4.Block1Mb), lz4.ChecksumOption(false), lz4.SizeOption(630_000)), 2 << 20},
		"4 MiB":                  {frame(lz4.BlockSizeOption(lz4.Block4Mb)), 8 << 20},
		"4 MiB behind 64 KiB":    {append(bytes.Clone(small), frame(lz4.BlockSizeOption(lz4.Block4Mb))...), 8 << 20},
		"the old kind of frame":  {frame(lz4.LegacyOption(true)), lz4Window},
		"cut":                    {small[:len(small)-6], lz4Window},
		"garbage behind a frame": {append(bytes.Clone(small), 1, 2, 3), lz4Window},
		"nothing":                {nil, 0},
	} {
		if got := lz4Room(test.src); got != test.want {
			t.Errorf("%s: %d bytes, want %d", name, got, test.want)
		}
	}
	batch := build(t, BuilderOptions{Codec: CodecLZ4}, sample(10, 1000)...)
	if got := lz4Room(batch.payload()); got != 128<<10 {
		t.Errorf("what Build makes: %d bytes", got)
	}
}
