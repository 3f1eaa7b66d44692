package record

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// TestRecompress takes a batch of every codec to every codec: the records, their offsets and the producer's fields stay, and the result is a valid batch.
func TestRecompress(t *testing.T) {
	for from := CodecNone; from.Known(); from++ {
		for to := CodecNone; to.Known(); to++ {
			t.Run(fmt.Sprintf("%s-to-%s", from, to), func(t *testing.T) {
				b := NewBuilder(BuilderOptions{Codec: from, ProducerID: 7, ProducerEpoch: 3, BaseSequence: 41})
				for i := range 50 {
					b.Append(1000+int64(i), fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte("value "), i), []Header{{Key: "h", Value: []byte{byte(i)}}})
				}
				original, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				again, err := original.Recompress(to, 1<<20, nil)
				if err != nil {
					t.Fatal(err)
				}
				if again.Codec() != to || again.Size() != len(again.Bytes()) || again.ProducerID() != 7 || again.ProducerEpoch() != 3 || again.BaseSequence() != 41 {
					t.Fatalf("codec %s, size %d of %d, producer %d %d %d", again.Codec(), again.Size(), len(again.Bytes()), again.ProducerID(), again.ProducerEpoch(), again.BaseSequence())
				}
				if err := again.Validate(Limits{MaxDecompressed: 1 << 20}); err != nil {
					t.Fatal(err)
				}
				plain, err := original.Recompress(CodecNone, 1<<20, nil)
				if err != nil {
					t.Fatal(err)
				}
				back, err := again.Recompress(CodecNone, 1<<20, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(plain.Bytes(), back.Bytes()) {
					t.Error("the records are not the same")
				}
			})
		}
	}
}

// TestCase104_RecompressIsBounded: what expands beyond the bound is refused.
func TestCase104_RecompressIsBounded(t *testing.T) {
	b := NewBuilder(BuilderOptions{Codec: CodecZstd})
	b.Append(1, nil, make([]byte, 1<<20), nil)
	bomb, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bomb.Recompress(CodecGzip, 1<<16, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}
