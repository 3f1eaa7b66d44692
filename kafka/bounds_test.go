package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/record"
)

// The door decompresses a batch in order to look at its records, and stops at its bound, in every codec: a batch of little more than max.message.bytes that expands
// without end costs no more memory than that. The records of the others reach the broker.
func TestCase104_DecompressionStopsAtItsBound(t *testing.T) {
	for _, codec := range []record.Codec{record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
		d := openDoor(t, Config{MaxDecompressedBytes: 4 << 20})
		c := d.dial()
		for size, want := range map[int]int16{3 << 20: errNone, 8 << 20: errMessageTooLarge} {
			b := record.NewBuilder(record.BuilderOptions{Codec: codec})
			b.Append(1, nil, make([]byte, size), nil)
			batch, err := b.Build()
			if err != nil || batch.Size() > 1<<20 {
				t.Fatalf("%v: %d bytes, %v", codec, batch.Size(), err)
			}
			req := produceRequest(t, "", 1)
			req.Topics[0].Partitions[0].Records = batch.Bytes()
			c.send(req)
			if want == errNone {
				<-d.broker.came
				d.broker.batch(0).done(broker.ProduceResult{LogAppendMs: -1})
			}
			_, resp := c.answer(req)
			if got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; got != want {
				t.Errorf("%v of %d bytes: error %d, want %d", codec, size, got, want)
			}
		}
		if n := len(d.broker.produced); n != 1 {
			t.Errorf("%v: %d batches reached the broker", codec, n)
		}
	}
}

// Tagged fields that nobody knows are skipped, in the header and in the body.
func TestCase106_UnknownTaggedFieldsAreSkipped(t *testing.T) {
	c := openDoor(t, Config{}).dial()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	meta.UnknownTags.Set(77, []byte("what is that"))
	f := kmsg.NewRequestFormatter().AppendRequest(nil, meta, 5)
	// Size, key, version, correlation and a null client id come before the header's tags.
	const tags = 4 + 2 + 2 + 4 + 2
	if f[tags] != 0 {
		t.Fatalf("the header has the tags %x", f[tags:])
	}
	f = append(f[:tags:tags], append([]byte{1, 99, 3, 'a', 'b', 'c'}, f[tags+1:]...)...)
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	if _, err := c.Write(f); err != nil {
		t.Fatal(err)
	}
	correlation, resp := c.answer(meta)
	if r := resp.(*kmsg.MetadataResponse); correlation != 5 || len(r.Topics) != 1 || r.ErrorCode != errNone {
		t.Errorf("answered %d with %+v", correlation, r)
	}
}
